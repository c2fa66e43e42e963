// Values that the reader changes: their fields, and computing everything anew.

const MOST_CELLS = 36; // elements of an array that have fields of their own

/** The field of a variable with its derivative. */
function field(variable) {
  const input = htmlElement("input");
  const isNumber = !Array.isArray(variable.value) && Number.isFinite(variable.value);
  input.type = isNumber ? "number" : "text";
  if (isNumber) input.step = "any";
  input.id = `variable-${record.variables.indexOf(variable)}`;
  input.value = inFull(variable.value);
  const label = htmlElement("label", math(variable.name));
  label.htmlFor = input.id;
  const slope = htmlElement("span", "", "slope");
  const row = htmlElement("div", [label, input, slope], "variable");
  byId("variables").append(row);
  input.addEventListener("input", () => change());
  if (!isNumber && Array.isArray(variable.value)) slope.before(...elementFields(variable, input));
  return { variable, input, slope, row };
}

/** A field for each element of a small array, row by row, beside the field of the whole array. */
function elementFields(variable, whole) {
  const columns = shape(variable.value).at(-1);
  const cells = places(variable.value).map((at) => {
    const cell = htmlElement("input");
    Object.assign(cell, { type: "text", inputMode: "decimal", ariaLabel: `${variable.name}[${at.join(", ")}]` });
    cell.addEventListener("input", () => {
      const value = valueOf(cell.value, 0);
      cell.setAttribute("aria-invalid", String(value === undefined));
      if (value === undefined) return;
      whole.value = inFull(withElement(playback.point[variable.key], at, value));
      change();
    });
    return { at, cell };
  });
  if (cells.length > MOST_CELLS) return [];
  const show = () => cells.filter(({ cell }) => cell !== document.activeElement)
    .forEach(({ at, cell }) => { cell.value = inFull(elementAt(playback.point[variable.key], at)); });
  document.addEventListener("computed", show);
  show();
  const grid = htmlElement("div", cells.map(({ cell }) => cell), "elements");
  grid.style.setProperty("--columns", columns);
  return [grid];
}

/** Compute everything at the values in the fields, unless one of them is invalid. */
function change() {
  const point = [];
  for (const { variable, input } of fields) {
    const value = valueOf(input.value, variable.value);
    input.setAttribute("aria-invalid", String(value === undefined));
    if (value === undefined) {
      const isArray = Array.isArray(variable.value);
      const needed = isArray ? `${shape(variable.value).join("×")} numbers as nested lists` : "a number";
      showStatus(`${math(variable.name)}: needs ${needed}; nothing has changed.`);
      return;
    }
    point.push([variable.key, value]);
  }
  compute(Object.fromEntries(point));
}

/** Put values into the fields, by the names of their variables, and compute everything there. */
function setValues(values) {
  for (const { variable, input } of fields) {
    if (Object.hasOwn(values, variable.key)) input.value = inFull(values[variable.key]);
  }
  change();
}

/** Show everything at a point. */
function compute(point) {
  playback.point = point;
  playback.computation = computed(point);
  leaveQuiz();
  showWarnings();
  drawAll();
  explain();
  announce("computed");
}

/** Show the warnings at the current values: the stored ones, or those that follow from the numbers. */
function showWarnings() {
  const isAsOpened = record.variables.every(({ key, value }) => inFull(playback.point[key]) === inFull(value));
  const texts = isAsOpened ? record.warnings.map(withMath) : playback.computation.warnings(playback.point);
  byId("warnings").replaceChildren(...texts.map((text) => htmlElement("li", text)));
}

/** Everything at a point, by the evaluator, which has a rule for each operation of the formula. */
function computed(point) {
  return computationOf(evaluator.run(point));
}

/** The results of the evaluator, as a computation. */
function computationOf({ values, adjoints, contributions }) {
  const plain = ({ local, amount, jacobian = null, kink = null, singular = null, ...others }) => {
    const [isAtKink, isSingular] = [kink, singular].map((of) => nested(typeof of === "boolean" ? Number(of) : of));
    return { ...others, local: nested(local), amount: nested(amount), jacobian: nested(jacobian), kink: isAtKink, singular: isSingular };
  };
  return new Computation({
    values: values.map(nested),
    adjoints: adjoints.map(nested),
    contributions: contributions.map((contribution) => contribution.map(plain)),
    present: adjoints.map((adjoint) => nested(adjoint?.present ?? 1)),
  });
}

/** The value of a text, a number or nested lists in the shape of `like`; undefined for an invalid text. */
function valueOf(text, like) {
  const isPlain = /^\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*$/i;
  if (!Array.isArray(like) && isPlain.test(text)) return Number(text);
  try {
    const value = read(JSON.parse(text.replace(/-?\b(?:inf|nan)\b/g, '"$&"').replace(/(?<!\d)\.\d/g, "0$&")));
    return isLike(value, like) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isLike(value, like) {
  if (!Array.isArray(like)) return typeof value === "number";
  return Array.isArray(value) && value.length === like.length && value.every((x, k) => isLike(x, like[k]));
}

/** An array of the evaluator as nested lists. */
function nested(x) {
  if (x === null || typeof x === "number") return x;
  return x.shape.reduceRight((flat, size, axis) => (axis === 0 ? flat : chunks(flat, size)), [...x.data]);
}

function chunks(list, size) {
  return Array.from({ length: list.length / size }, (_, k) => list.slice(k * size, (k + 1) * size));
}
