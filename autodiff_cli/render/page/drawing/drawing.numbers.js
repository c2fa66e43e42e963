// The numbers beside edges: the local derivative before the line, in reading order, and the contribution behind it.

const LEAST_LABEL = 40; // pixels
const BESIDE_LINE = 5; // pixels between a line and its numbers
const EDGE_DIGITS = 4; // of a number in the drawing; tooltips have more
const widest = new Map(); // widths of edges and nodes whose numbers became wider than at first, in pixels

/** The room that the numbers of an edge take, estimated from the numbers in the file. They stand on both sides of
 * the line, which goes down or across. */
function labelOf(arrow, members, isDown) {
  const { computation } = playback;
  const contribution = members ? computation.rate(members, arrow.from) : computation.contribution(arrow.to, arrow.position);
  if (contribution?.local === null || hasArrays(contribution)) return null;
  const width = Math.max(widthOfNumbers(numbersOf(contribution)), widest.get(edgeName(arrow)) ?? LEAST_LABEL);
  return spaceOf(width, isDown);
}

/** The room of two numbers of this width with the line between them. */
function spaceOf(width, isDown) {
  return isDown ? { width: 2 * (width + BESIDE_LINE), height: LINE, column: width, isDown } : { width, height: 2 * LINE, column: width, isDown };
}

function edgeName({ from, to, position }) {
  return [from, to, position].join(" ");
}

/** Whether the local derivative or the contribution is an array; sentences and tooltips have these. */
function hasArrays(contribution) {
  return [contribution?.local, contribution?.amount].some(Array.isArray);
}

/** The two numbers of an edge: the local derivative and the contribution; empty texts where there are none. */
function numbersOf(contribution) {
  if (!contribution || contribution.local === null || hasArrays(contribution)) return ["", ""];
  return [compact(contribution.local, EDGE_DIGITS), contribution.amount === undefined ? "" : compact(contribution.amount, EDGE_DIGITS)];
}

function widthOfNumbers(texts) {
  return Math.max(...texts.map((text) => widthOf(text, "local amount"))) + 2;
}

/** A description of an edge in words, with its numbers in full. */
function edgeTitle({ from, to }, contribution) {
  const way = `${record.nodes[from].label} → ${record.nodes[to].label}`;
  const local = contribution && contribution.local !== null ? [`local derivative ${unrounded(contribution.local)}`] : [];
  const amount = contribution?.amount === undefined ? [] : [`contributes ${unrounded(contribution.amount)}`];
  return local.length + amount.length ? `${way}: ${[...local, ...amount].join(", ")}` : way;
}

function drawnEdge(element) {
  const [title, path] = ["title", "path"].map((kind) => element.querySelector(kind));
  const texts = [...element.querySelectorAll("text")];
  const { from, to, position } = element.dataset;
  return {
    element, title, path, texts, width: element.labelPlace?.column ?? 0,
    from: Number(from), to: Number(to), position: position === undefined ? undefined : Number(position),
  };
}

/** The texts beside a line at a place: before it (above, or to the left) and behind it. */
function edgeTexts({ x, y, isDown }) {
  const side = isDown ? BESIDE_LINE : LINE / 2 + 0.5;
  return [-1, 1].map((way) => textShape("", x + (isDown ? way * side : 0), y + (isDown ? 0 : way * side),
    `local ${way > 0 ? "amount" : ""} ${isDown ? (way > 0 ? "after" : "before") : ""}`));
}

/** Write the contribution beside an edge, undefined if there is none yet; false if it does not fit. */
function writeNumbers(edge, contribution) {
  edge.title.textContent = edgeTitle(edge, contribution);
  if (edge.texts.length === 0) return true;
  const numbers = numbersOf(contribution);
  edge.texts.forEach((text, k) => write(text, numbers[k], edge.width));
  const width = widthOfNumbers(numbers);
  if (width > edge.width) widest.set(edgeName(edge), width);
  return width <= edge.width;
}
