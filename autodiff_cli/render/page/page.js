// The page: its contents at each step, and its controls.

const LONG = 120; // characters that may need scrolling on a phone
byId("formula").append(...typedText(record.text)); // the layout of the drawing needs the remaining room
const playback = new Playback();
const graph = new Graph(byId("stage"), playback, byId("map"));
const panel = new Panel(byId("details"), playback);
const table = new Table(byId("table"), playback);
const fields = record.variables.map(field);
const tabs = new Tabs();
const explanation = new Explanation();
for (const part of [byId("explanation"), byId("status"), byId("remark")]) new ResizeObserver(() => scrollable(byId("explanation"))).observe(part);

/** Show the current numbers of some nodes and the effect of the current step. */
function draw(nodes) {
  for (const i of nodes) {
    graph.draw(i);
    table.draw(i);
  }
  if (graph.isCramped) {
    graph.arrange();
    for (const i of record.nodes.keys()) graph.draw(i);
  }
  graph.markCurrent(playback.focus, playback.isBackward && !playback.quiz, playback.quiz ? undefined : movementText);
  for (const { slope, variable } of fields) {
    setText(slope, slopeOf(variable, unrounded));
    slope.title = plain(slopeOf(variable, inFull));
  }
  const value = inFull(playback.computation.values[record.output]);
  setText(byId("result"), playback.isComputed(record.output) ? `value = ${value}` : "");
  highlight(playback.focus);
  remark();
  byId("where").textContent = where();
  showPosition();
  byId("explanation").className = `explanation ${playback.isBackward ? "backward" : "forward"}`;
  graph.stage.classList.toggle("backward-step", playback.isBackward);
  outlineFound();
  panel.refresh();
  announce("drawn");
}

/** Redraw everything, after all numbers have changed. */
function drawAll() {
  draw(record.nodes.keys());
}

function slopeOf({ name, node }, show) {
  if (node === null) return playback.position === playback.length ? `d/d${math(name)} = 0` : "";
  return playback.isKnown(node) ? `d/d${math(name)} = ${show(playback.computation.adjoints[node])}` : "";
}

function where() {
  const [forward, backward] = [record.forward.length, record.backward.length];
  if (playback.isBackward) return `backward ${playback.backwardSteps} of ${backward}`;
  if (playback.position) return `forward ${playback.position} of ${forward}`;
  return `${forward} forward${playback.tangents ? "" : `, ${backward} backward`}`;
}

/** Mark the part of the formula that a node was read from. */
function highlight(i) {
  const [from, to] = (i !== null && record.nodes[i].span) || [0, 0];
  const marked = htmlElement("mark", typedText(record.text.slice(from, to)), playback.isBackward ? "backward" : "forward");
  byId("formula").replaceChildren(...typedText(record.text.slice(0, from)), ...(to ? [marked] : []), ...typedText(record.text.slice(to)));
  const line = parseFloat(getComputedStyle(byId("formula")).lineHeight);
  byId("formula").scrollTop = to ? Math.floor((marked.offsetTop + line / 2) / line) * line : 0; // whole lines
}

/** Show a text in the status, with an optional list below it. */
function showStatus(first, others = []) {
  const list = htmlElement("ul", others.map((text) => htmlElement("li", text)));
  if (others.join().length > LONG) list.tabIndex = 0;
  byId("status").replaceChildren(htmlElement("p", first), ...(others.length ? [list] : []));
}

/** Show how many steps are made, and how many of them are forward. */
function showPosition() {
  const slider = byId("position");
  slider.max = playback.length;
  slider.value = playback.position;
  slider.ariaValueText = where();
  slider.style.setProperty("--forward-share", `${(100 * record.forward.length) / (playback.length || 1)}%`);
}

let isUntouched = true; // until the first step
const hasBackward = record.backward.length > 0; // a formula of constants has no variable to differentiate by
const MOST_LISTED = 3; // more values are only in the drawing

/** The text before the first step: the values are computed, and the backward pass is next. */
function opening() {
  const { values } = playback.computation;
  const point = record.variables.length > MOST_LISTED ? "" : record.variables.map(({ name, key }) => `${math(name)} = ${brief(playback.point[key], NODE_DIGITS)}`).join(", ");
  const result = `${math(OUTPUT)} = ${brief(values[record.output], NODE_DIGITS)}`;
  const ways = hasBackward ? "Backward shows how this number changes with each variable; Forward, how it is computed." : "Forward shows how it is computed.";
  return `${point ? `At ${point}: ` : ""}${result}. ${ways}`;
}

/** Explain the current step in the status. */
function explain() {
  const i = playback.current;
  const { computation } = playback;
  if (playback.tangents) {
    playback.tangents.explain(i);
  } else if (i === null) {
    showStatus("A forward step computes a value. A backward step passes on an adjoint: how fast the output changes with a node.");
  } else if (playback.isBackward) {
    const title = `${mathOf(i)}, adjoint ${brief(computation.adjoints[i])}`;
    showStatus(`${title}: ${computation.backwardSentence(i)}`, computation.contributionSentences(i));
  } else {
    showStatus(computation.forwardSentence(i));
  }
  explanation.follow();
}

const clicks = {
  "forward-pass": forwardPass, "backward-pass": backwardPass, step: () => step(1), back: () => step(-1), reset, quiz: toggleQuiz,
  "zoom-in": () => graph.zoomIn(), "zoom-out": () => graph.zoomOut(), fold: () => fold(byId("fold").getAttribute("aria-pressed") === "false"),
  fit: () => {
    graph.fit();
    drawAll();
  },
};
for (const [id, action] of Object.entries(clicks)) byId(id).addEventListener("click", action);
byId("position").addEventListener("input", ({ target }) => {
  pause();
  go(Number(target.value));
});
byId("question").addEventListener("submit", check);
byId("formula").addEventListener("click", findInFormula);
byId("find").addEventListener("input", () => find(0));
byId("find").addEventListener("keydown", (event) => { if (event.key === "Enter") find(1); });

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
  const count = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!count || event.target.matches("input, select, textarea, [role=tab]") || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  if (event.shiftKey) graph.stage.scrollBy(count * 80, 0);
  else step(count);
});

new Cursor(graph.stage);

// The node under the pointer or with the focus is explained. Only one node at a time is in the tab order.
byId("stage").addEventListener("pointerover", (event) => {
  selectNodeAt(event.target);
  showOrigin(event.target);
  if (event.pointerType === "touch") showNumbers(event.target);
});
let dragged = 0; // pixels by which a mouse has dragged the drawing since it was pressed
const CLICK = 4; // pixels that a mouse may move in a click
byId("stage").addEventListener("pointerdown", () => { dragged = 0; });
byId("stage").addEventListener("click", (event) => {
  const isDrag = dragged > CLICK;
  dragged = 0;
  if (isDrag) return;
  selectNodeAt(event.target);
  if (event.target.closest(".group")) foldHere(event.target);
  else unfold(event.target);
});
byId("stage").addEventListener("focusin", (event) => {
  if (graph.isRestoringFocus) return;
  selectNodeAt(event.target);
  if (event.target.matches("[data-node]")) reachable(event.target);
});
byId("stage").addEventListener("pointermove", ({ buttons, pointerType, movementX, movementY }) => {
  if (buttons !== 1 || pointerType !== "mouse") return;
  dragged += Math.abs(movementX) + Math.abs(movementY);
  graph.stage.scrollBy(-movementX, -movementY);
});
byId("stage").addEventListener("wheel", (event) => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  if (event.deltaY < 0) graph.zoomIn();
  else graph.zoomOut();
}, { passive: false });
byId("stage").addEventListener("keydown", (event) => {
  const zoom = { "+": () => graph.zoomIn(), "-": () => graph.zoomOut(), 0: () => graph.fit() }[event.key];
  const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  zoom?.();
  if (event.key === "Enter") (event.target.matches(".group") ? foldHere : unfold)(event.target);
  if (!way || event.target === graph.stage) return;
  event.preventDefault();
  const at = graph.ids.indexOf(Number(event.target.dataset.node)) + way;
  graph.element(graph.ids[at])?.focus();
});

/** Explain the node that an element belongs to, if it does. */
function selectNodeAt(element) {
  const node = element.closest("[data-node]");
  if (node) panel.show(Number(node.dataset.node));
}

/** Show the numbers of the node or edge that an element belongs to in full below the drawing, as a tooltip does for a mouse. */
function showNumbers(element) {
  const [node, edge] = [element.closest("[data-node]"), element.closest(".edge")];
  if (element.closest(".cell") || !(node ?? edge)) return;
  const i = Number(node?.dataset.node);
  const { values, adjoints } = playback.computation;
  const numbers = node ? [
    ...(playback.isComputed(i) ? [`value ${unrounded(values[i])}`] : []), ...(playback.isKnown(i) ? [`adjoint ${unrounded(adjoints[i])}`] : []),
  ] : [];
  setText(byId("element"), node ? [mathOf(i), numbers.join(", ")].filter(Boolean).join(": ") : edge.querySelector("title").textContent);
}

/** Redraw after parts were folded or opened. */
function refold() {
  graph.parts.areChosen = true;
  byId("fold").setAttribute("aria-pressed", String(graph.parts.areFolded));
  graph.refold();
  graph.follow(isUntouched ? null : playback.focus, "whole");
  drawAll();
  explanation.follow();
}

/** Fold all named parts (and others of a large graph), or open all parts. */
function fold(isFolded) {
  if (isFolded) graph.parts.fold();
  else graph.parts.open();
  refold();
}

/** Open the folded part that an element belongs to, if it does, and go there. */
function unfold(element) {
  const node = element.closest(".folded");
  if (!node) return;
  const i = Number(node.dataset.node);
  graph.parts.openAt(i);
  refold();
  graph.show(i);
  graph.element(i).focus({ preventScroll: true });
}

/** Fold the part in whose frame an element is, if it is in one. */
function foldHere(element) {
  const frame = element.closest(".group");
  if (!frame) return;
  const hadFocus = frame === document.activeElement;
  graph.parts.foldFrame(Number(frame.dataset.frame));
  refold();
  if (hadFocus) graph.svg.querySelector("[tabindex='0']").focus({ preventScroll: true });
}

let matchIndex = 0;

/** Show a node whose label or operation contains the search text, also in a folded part; `way` is 1 for the next match. */
function find(way) {
  const text = byId("find").value.trim().toLowerCase();
  const isHit = (i) => graph.isDrawn(i) && `${record.nodes[i].label} ${record.nodes[i].op}`.toLowerCase().includes(text);
  const matches = text ? [...record.nodes.keys()].filter(isHit) : [];
  matchIndex = way && matches.length ? (matchIndex + way) % matches.length : 0;
  showFound(matches[matchIndex]);
  byId("matches").textContent = text ? (matches.length ? `${matchIndex + 1} of ${matches.length}` : "no match") : "";
}

let found; // the node that was searched for; undefined for none

function outlineFound() {
  for (const i of graph.ids) graph.element(i).classList.toggle("match", i === found);
}

/** Outline a node, bring it into view, open the folded part around it, and explain it; `undefined` for none. */
function showFound(match) {
  found = match;
  if (match !== undefined && graph.follow(match)) drawAll();
  else outlineFound();
  if (match === undefined) return;
  graph.show(match);
  panel.show(match);
}

/** Show the node of the name at a place in the formula, else of the smallest part around it. A click puts the caret there. */
function findInFormula() {
  const { anchorNode, anchorOffset, isCollapsed } = getSelection();
  if (!isCollapsed || !byId("formula").contains(anchorNode)) return;
  const before = new Range();
  before.setStart(byId("formula"), 0);
  before.setEnd(anchorNode, anchorOffset);
  const at = before.toString().length;
  const [head] = /[\p{L}\p{M}\p{N}_]*$/u.exec(record.text.slice(0, at));
  const [tail] = /^[\p{L}\p{M}\p{N}_]*/u.exec(record.text.slice(at));
  const spans = [...record.nodes.entries()].filter(([i]) => graph.isDrawn(i)).map(([i, { label, span }]) => {
    const isAround = span && span[0] <= at && at <= span[1];
    return { i, length: label === head + tail ? 0 : isAround ? span[1] - span[0] : Infinity };
  });
  const nearest = spans.reduce((a, b) => (b.length < a.length ? b : a));
  if (nearest.length < Infinity) showFound(nearest.i);
}

// A printed page has all numbers and the table; afterwards the reader's position is restored.
let before = null;

function spread() {
  if (before !== null) return;
  pause();
  before = { position: playback.position, isOpen: byId("table").open };
  go(playback.length);
  graph.print(() => {
    drawAll();
    highlight(null);
    graph.markCurrent(null);
  });
  byId("table").open = true;
  table.refresh();
}

function restore() {
  if (before === null) return;
  byId("table").open = before.isOpen;
  graph.arrange();
  go(before.position);
  drawAll();
  before = null;
}

addEventListener("beforeprint", spread);
addEventListener("afterprint", restore);
matchMedia("print").addEventListener("change", (event) => (event.matches ? spread() : restore()));

scrolling.observe(byId("formula"));
byId("fold").hidden = !graph.parts.canFold;
byId("fold").setAttribute("aria-pressed", String(graph.parts.areFolded));
graph.watch(() => {
  drawAll();
  explanation.follow();
});
byId("backward-pass").disabled = !hasBackward;
byId("quiz").disabled = !record.nodes.some((_, i) => takesGradient(i));
playback.moveTo(record.forward.length);
showWarnings();
drawAll();
explain();
