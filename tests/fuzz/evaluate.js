// Runs evaluators of pages: a line of JSON comes in, {source, point}, and a line goes out, what `run` gave.
// Numbers come and go as text, because JSON has no nan and no infinity.
"use strict";

const revived = (_, value) => (typeof value === "object" && value?.number ? Number(value.number) : value);
const written = (_, value) =>
  value instanceof Float64Array ? [...value]
  : typeof value === "number" && !Number.isFinite(value) ? `${value}`
  : value;

require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { source, point } = JSON.parse(line, revived);
  try {
    const evaluator = new Function(`"use strict"; ${source} return evaluator;`)();
    console.log(JSON.stringify(evaluator.run(point), written));
  } catch (error) {
    console.log(JSON.stringify({ error: `${error}` }));
  }
});
