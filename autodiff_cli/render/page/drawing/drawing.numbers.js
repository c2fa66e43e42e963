// The numbers on edges: how much room they take, and what they are at a step.

const LEAST_LABEL = 40; // pixels
const widest = new Map(); // of edges, in pixels, what their numbers have taken where that was more than at first

/** How much room the numbers on an edge take, as far as can be known: those that the page came with. */
function labelOf(arrow, members) {
  const { computation } = walk;
  const given = members ? { local: computation.rate(members, arrow.from) } : computation.handed(arrow.to, arrow.position);
  return { width: Math.max(widthOf(...numbersOf(given)), widest.get(edgeName(arrow)) ?? LEAST_LABEL), height: 2 * LINE - 4 };
}

function edgeName({ from, to, position }) {
  return [from, to, position].join(" ");
}

/** The two lines on an edge: the local derivative, and what was handed back. */
function numbersOf(given) {
  if (!given || given.local === null) return ["", ""];
  return [compact(given.local), given.amount === undefined ? "" : `← ${compact(given.amount)}`];
}

function widthOf(...lines) {
  return Math.max(...lines.map((line) => line.length)) * COLUMN + 4;
}

/** What is known of an edge, in words. */
function edgeTitle({ from, to }, given) {
  const way = `${record.nodes[from].label} → ${record.nodes[to].label}`;
  const local = numbersOf(given)[0] ? [`local derivative ${brief(given.local)}`] : [];
  const amount = given?.amount === undefined ? [] : [`handed back ${brief(given.amount)}`];
  return local.length + amount.length ? `${way}: ${[...local, ...amount].join(", ")}` : way;
}

function drawnEdge(element) {
  const [title, path, label, room] = ["title", "path", "text", ".room"].map((kind) => element.querySelector(kind));
  const { from, to, position } = element.dataset;
  const place = room ? placeOf(room) : { width: 0 };
  const middle = room ? { x: place.x + place.width / 2, y: place.y + place.height / 2 } : null;
  return {
    element, title, path, label, room, width: place.width, place: middle,
    from: Number(from), to: Number(to), position: position === undefined ? undefined : Number(position),
  };
}

/** Write what was handed back along an edge, undefined for nothing yet; false if that has no room where it stands. */
function writeNumbers(edge, given) {
  edge.title.textContent = edgeTitle(edge, given);
  if (!edge.label) return true;
  const [local, amount] = numbersOf(given);
  write(edge.label, local, edge.width, COLUMN);
  if (amount && !edge.amount) {
    edge.amount = textShape("", edge.place.x, edge.place.y + 7, "local amount");
    edge.element.append(edge.amount);
  }
  if (edge.amount) write(edge.amount, amount, edge.width, COLUMN);
  const width = widthOf(local, amount);
  tell(edge.room, "x", edge.place.x - Math.min(width, edge.width) / 2);
  tell(edge.room, "width", Math.min(width, edge.width));
  edge.room.classList.toggle("empty", !local);
  if (width > edge.width) widest.set(edgeName(edge), width);
  return width <= edge.width;
}
