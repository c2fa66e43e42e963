// The controls: walking through the steps, values to change, the quiz.

const PACE = { step: 400, pass: 2400 }; // milliseconds: at most for a step, and for a pass of many
const byId = (id) => document.getElementById(id);

const walk = new Walk();
const graph = new Graph(byId("stage"), walk);
const panel = new Panel(byId("details"), walk);
const table = new Table(byId("table"), walk);
const fields = record.variables.map(field);
let timer = 0;

/** Show what is known now of some nodes, and what the current step did. */
function draw(nodes) {
  for (const i of nodes) {
    graph.draw(i);
    table.draw(i);
  }
  graph.light(walk.current, walk.isBackward);
  for (const { slope, variable } of fields) slope.textContent = slopeOf(variable);
  byId("result").textContent = walk.isComputed(record.output) ? `value = ${inFull(walk.computation.values[record.output])}` : "";
  highlight(walk.current);
  byId("progress").value = walk.position / (walk.length || 1);
  byId("where").textContent = where();
  byId("explanation").className = `explanation ${walk.isBackward ? "backward" : "forward"}`;
}

/** Everything anew, after all numbers have changed. */
function drawAll() {
  draw(record.nodes.keys());
  panel.refresh();
}

function slopeOf({ name, node }) {
  if (node === null) return walk.position === walk.length ? `d/d${name} = 0` : "";
  return walk.isKnown(node) ? `d/d${name} = ${inFull(walk.computation.adjoints[node])}` : "";
}

function where() {
  const [forward, backward] = [record.forward.length, record.backward.length];
  if (walk.isBackward) return `backward ${walk.backwardSteps} of ${backward}`;
  return walk.position ? `forward ${walk.position} of ${forward}` : `${forward} forward, ${backward} backward`;
}

/** Mark the part of the formula that a node was read from. */
function highlight(i) {
  const [from, to] = (i !== null && record.nodes[i].span) || [0, 0];
  const marked = made("mark", record.text.slice(from, to), walk.isBackward ? "backward" : "forward");
  byId("formula").replaceChildren(record.text.slice(0, from), ...(to ? [marked] : []), record.text.slice(to));
}

function say(first, others = []) {
  byId("status").replaceChildren(made("p", first), ...(others.length ? [made("ul", others.map((text) => made("li", text)))] : []));
}

/** Say what the current step did. */
function explain() {
  const i = walk.current;
  const { computation } = walk;
  if (i === null) {
    say("Each step forward computes one value; each step backward hands on one adjoint: how fast the output changes with that node.");
  } else if (walk.isBackward) {
    const adjoint = brief(computation.adjoints[i]);
    say(`${record.nodes[i].label}, adjoint ${adjoint}: ${computation.backwardSentence(i)}`, computation.givenSentences(i));
  } else {
    say(computation.forwardSentence(i));
  }
}

/** Go to a step and tell of it; with a duration, let numbers travel there. */
function go(position, duration = 0) {
  leaveQuiz();
  const changed = walk.moveTo(position);
  draw(changed);
  explain();
  if (walk.current !== null) panel.show(walk.current);
  graph.travel(walk.current, walk.isBackward, duration, travelling);
}

/** What goes along the edge of the current step between a node and its input; null for nothing. */
function travelling(position, input) {
  const { computation } = walk;
  if (!walk.isBackward) return brief(computation.values[input]);
  const given = computation.given[walk.current].find((one) => one.position === position);
  if (!given || given.nothing) return null;
  return given.local === null ? brief(given.amount) : `${computation.product(walk.current, given)} = ${brief(given.amount)}`;
}

function speed() {
  return 2 ** Number(byId("speed").value);
}

function pause() {
  clearTimeout(timer);
  timer = 0;
  byId("status").removeAttribute("aria-busy");
  for (const id of ["forward-pass", "backward-pass"]) byId(id).setAttribute("aria-pressed", "false");
}

/** Play the steps up to `end`, or stop if they are being played. */
function play(button, start, end) {
  const isPlaying = button.getAttribute("aria-pressed") === "true";
  pause();
  if (isPlaying) return;
  if (start !== walk.position) go(start);
  if (stillness.matches) {
    go(end);
    return;
  }
  button.setAttribute("aria-pressed", "true");
  byId("status").setAttribute("aria-busy", "true"); // only the last step is read aloud
  const next = () => {
    if (walk.position >= end) {
      pause();
      return;
    }
    const pace = Math.min(PACE.step, PACE.pass / (end - start)) / speed();
    go(walk.position + 1, pace > 60 ? 0.85 * pace : 0);
    timer = setTimeout(next, pace);
  };
  next();
}

function forwardPass() {
  const end = record.forward.length;
  play(byId("forward-pass"), walk.position < end ? walk.position : 0, end);
}

function backwardPass() {
  const begin = record.forward.length;
  play(byId("backward-pass"), walk.position < begin || walk.position === walk.length ? begin : walk.position, walk.length);
}

function step(count) {
  pause();
  if (walk.position + count >= 0 && walk.position + count <= walk.length) go(walk.position + count, count > 0 ? PACE.step / speed() : 0);
}

function reset() {
  pause();
  go(0);
}

/** The field of a variable with its derivative. */
function field(variable) {
  const input = made("input");
  const isNumber = !Array.isArray(variable.value) && Number.isFinite(variable.value);
  Object.assign(input, { type: isNumber ? "number" : "text", id: `variable-${record.variables.indexOf(variable)}`, value: inFull(variable.value), autocomplete: "off" });
  if (isNumber) input.step = "any";
  const label = made("label", variable.name);
  label.htmlFor = input.id;
  const slope = made("span", "", "slope");
  byId("variables").append(made("div", [label, input, slope], "variable"));
  input.addEventListener("input", () => change());
  return { variable, input, slope };
}

/** Compute everything at the values in the fields, unless one of them is none. */
function change() {
  const point = [];
  for (const { variable, input } of fields) {
    const value = valueOf(input.value, variable.value);
    input.setAttribute("aria-invalid", String(value === undefined));
    if (value === undefined) {
      say(`${variable.name}: ${Array.isArray(variable.value) ? `needs ${shape(variable.value).join("x")} numbers as nested lists` : "needs a number"}; nothing has changed.`);
      return;
    }
    point.push([variable.key, value]);
  }
  const { values, adjoints, contributions } = evaluator.run(Object.fromEntries(point));
  const given = contributions.map((some) => some.map((one) => ({ ...one, local: nested(one.local), amount: nested(one.amount) })));
  walk.computation = new Computation({ values: values.map(nested), adjoints: adjoints.map(nested), contributions: given });
  leaveQuiz();
  byId("warnings").replaceChildren();
  drawAll();
  explain();
}

/** The number, or the nested lists of numbers in the shape of `like`, that a text stands for; undefined for another text. */
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

function toggleQuiz() {
  pause();
  if (walk.quiz) {
    go(walk.position);
    return;
  }
  walk.moveTo(record.forward.length);
  walk.quiz = new Quiz(walk.computation);
  byId("quiz").setAttribute("aria-pressed", "true");
  byId("question").hidden = false;
  drawAll();
  ask("Each adjoint is the sum of what the node's users hand it: local derivative × adjoint. Begin at the output.");
}

/** Ask for the next adjoint, after something said. */
function ask(said) {
  const { asked, score } = walk.quiz;
  byId("score").textContent = score;
  for (const id of ["asked", "answer"]) byId(id).hidden = asked === undefined;
  byId("question").querySelector("button").hidden = asked === undefined;
  say(said);
  byId("answer").value = "";
  if (asked === undefined) return;
  byId("asked").textContent = `Adjoint of ${record.nodes[asked].label}`;
  graph.light(asked, false);
  highlight(asked);
  panel.show(asked);
  byId("answer").focus({ preventScroll: true });
}

function check(event) {
  event.preventDefault();
  const { asked } = walk.quiz;
  const { isRight, verdict } = walk.quiz.check(byId("answer").value);
  if (!isRight) {
    say(verdict);
    byId("score").textContent = walk.quiz.score;
    byId("answer").select();
    return;
  }
  draw(backwardStep.has(asked) ? walk.moveTo(record.forward.length + backwardStep.get(asked) + 1) : [asked]);
  ask(verdict);
}

function leaveQuiz() {
  if (!walk.quiz) return;
  walk.quiz = null;
  byId("quiz").setAttribute("aria-pressed", "false");
  byId("question").hidden = true;
  byId("asked").textContent = "";
  drawAll();
}


byId("forward-pass").addEventListener("click", forwardPass);
byId("backward-pass").addEventListener("click", backwardPass);
byId("step").addEventListener("click", () => step(1));
byId("back").addEventListener("click", () => step(-1));
byId("reset").addEventListener("click", reset);
byId("quiz").addEventListener("click", toggleQuiz);
byId("question").addEventListener("submit", check);
byId("zoom-in").addEventListener("click", () => graph.zoomIn());
byId("zoom-out").addEventListener("click", () => graph.zoomOut());
byId("fit").addEventListener("click", () => graph.fit());
byId("fold").addEventListener("click", () => fold(byId("fold").getAttribute("aria-pressed") === "false"));
byId("find").addEventListener("input", () => find(0));
byId("find").addEventListener("keydown", (event) => { if (event.key === "Enter") find(1); });

document.addEventListener("keydown", (event) => {
  const count = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!count || event.target.matches("input") || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  if (event.shiftKey) graph.stage.scrollBy(count * 80, 0);
  else step(count);
});

// Nodes: the one that is pointed at, or has the focus, is explained; one of them is in the order of the tab key.
byId("stage").addEventListener("pointerover", (event) => look(event.target));
byId("stage").addEventListener("click", (event) => {
  look(event.target);
  unfold(event.target);
  if (record.folds.length && event.target.closest(".group")) fold(true);
});
byId("stage").addEventListener("focusin", (event) => {
  look(event.target);
  if (event.target !== graph.stage) reachable(event.target);
});
byId("stage").addEventListener("keydown", (event) => {
  const zoom = { "+": () => graph.zoomIn(), "-": () => graph.zoomOut(), 0: () => graph.fit() }[event.key];
  const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  zoom?.();
  if (event.key === "Enter") unfold(event.target);
  if (!way || event.target === graph.stage) return;
  event.preventDefault();
  const at = graph.ids.indexOf(Number(event.target.dataset.node)) + way;
  graph.element(graph.ids[at])?.focus();
});

/** Explain the node that an element belongs to, if it does. */
function look(element) {
  const node = element.closest("[data-node]");
  if (node) panel.show(Number(node.dataset.node));
}

const drawings = { opened: graph.svg, folded: byId("folded").content.querySelector("svg") };

/** Draw each named part as one node, or all nodes. */
function fold(isFolded) {
  byId("fold").setAttribute("aria-pressed", String(isFolded));
  graph.use(isFolded ? drawings.folded : drawings.opened, isFolded ? record.folds : []);
  drawAll();
}

/** Open the folded part that an element belongs to, if it does, and go there. */
function unfold(element) {
  const node = element.closest(".folded");
  if (!node) return;
  fold(false);
  const opened = graph.element(Number(node.dataset.node));
  graph.show(Number(node.dataset.node));
  opened.focus({ preventScroll: true });
}

let foundAt = 0;

/** Show the nodes whose label or operation has the text that is looked for; `way` goes on to the next. */
function find(way) {
  const text = byId("find").value.trim().toLowerCase();
  const hits = text ? graph.ids.filter((i) => `${record.nodes[i].label} ${record.nodes[i].op}`.toLowerCase().includes(text)) : [];
  foundAt = way && hits.length ? (foundAt + way) % hits.length : 0;
  for (const i of graph.ids) graph.element(i).classList.toggle("found", i === hits[foundAt]);
  byId("found").textContent = text ? (hits.length ? `${foundAt + 1} of ${hits.length}` : "no such node") : "";
  if (hits.length === 0) return;
  graph.show(hits[foundAt]);
  panel.show(hits[foundAt]);
}

// Print has all numbers, and the table; afterwards the reader is where they were.
let before = null;

function spread() {
  if (before !== null) return;
  pause();
  before = { position: walk.position, isOpen: byId("table").open };
  go(walk.length);
  byId("table").open = true;
  table.refresh();
}

function restore() {
  if (before === null) return;
  byId("table").open = before.isOpen;
  go(before.position);
  before = null;
}

addEventListener("beforeprint", spread);
addEventListener("afterprint", restore);
matchMedia("print").addEventListener("change", (event) => (event.matches ? spread() : restore()));

byId("fold").hidden = record.folds.length === 0;
if (record.isFolded) fold(true);
byId("quiz").disabled = !record.nodes.some((_, i) => takesGradient(i));
byId("warnings").replaceChildren(...record.warnings.map((text) => made("li", text)));
drawAll();
explain();
