// The numbers on edges: their sizes, and their texts at a step.

const LEAST_LABEL = 40; // pixels
const widest = new Map(); // widths of edges whose numbers became wider than at first, in pixels

/** How much room the numbers on an edge take, as far as can be known: those that the page came with. `manner` says how
 * many digits they have, whether they stand on one line, and whether values go down and adjoints up. */
function labelOf(arrow, members, manner) {
  const { computation } = playback;
  const contribution = members ? { local: computation.rate(members, arrow.from) } : computation.contribution(arrow.to, arrow.position);
  const width = Math.max(widthOf(numbersOf(contribution, manner), manner), widest.get(edgeName(arrow, manner)) ?? LEAST_LABEL);
  return { width, height: manner.isOneLine ? LINE - 2 : 2 * LINE - 4, ...manner };
}

function edgeName({ from, to, position }, { digits, isOneLine }) {
  return [from, to, position, digits, isOneLine].join(" ");
}

/** The two lines on an edge: the local derivative and the contribution. */
function numbersOf(contribution, { digits, isDown }) {
  if (!contribution || contribution.local === null) return ["", ""];
  return [compact(contribution.local, digits), contribution.amount === undefined ? "" : `${isDown ? "↑" : "←"} ${compact(contribution.amount, digits)}`];
}

function widthOf(lines, { isOneLine }) {
  const lengths = isOneLine ? [lines.filter(Boolean).join(" ").length] : lines.map((line) => line.length);
  return Math.max(...lengths) * COLUMN + 4;
}

/** A description of an edge in words. */
function edgeTitle({ from, to }, contribution) {
  const way = `${record.nodes[from].label} → ${record.nodes[to].label}`;
  const local = contribution && contribution.local !== null ? [`local derivative ${brief(contribution.local)}`] : [];
  const amount = contribution?.amount === undefined ? [] : [`contributes ${brief(contribution.amount)}`];
  return local.length + amount.length ? `${way}: ${[...local, ...amount].join(", ")}` : way;
}

function drawnEdge(element) {
  const [title, path, label, room] = ["title", "path", "text", ".room"].map((kind) => element.querySelector(kind));
  const { from, to, position } = element.dataset;
  const place = room ? placeOf(room) : { width: 0 };
  const middle = room ? { x: place.x + place.width / 2, y: place.y + place.height / 2 } : null;
  return {
    element, title, path, label, room, width: place.width, place: middle, manner: element.label,
    from: Number(from), to: Number(to), position: position === undefined ? undefined : Number(position),
  };
}

/** Write the contribution on an edge, undefined if there is none yet; false if it does not fit. */
function writeNumbers(edge, contribution) {
  edge.title.textContent = edgeTitle(edge, contribution);
  if (!edge.label) return true;
  const [local, amount] = numbersOf(contribution, edge.manner);
  if (edge.manner.isOneLine) {
    write(edge.label, [local, amount].filter(Boolean).join(" "), edge.width, COLUMN);
    edge.label.replaceChildren(local, ...(amount ? [" ", svgElement("tspan", { class: "amount" }, [amount])] : []));
  } else {
    write(edge.label, local, edge.width, COLUMN);
    if (amount && !edge.amount) {
      edge.amount = textShape("", edge.place.x, edge.place.y + 7, "local amount");
      edge.element.append(edge.amount);
    }
    if (edge.amount) write(edge.amount, amount, edge.width, COLUMN);
  }
  const width = widthOf([local, amount], edge.manner);
  setOrRemove(edge.room, "x", edge.place.x - Math.min(width, edge.width) / 2);
  setOrRemove(edge.room, "width", Math.min(width, edge.width));
  edge.room.classList.toggle("empty", !local);
  if (width > edge.width) widest.set(edgeName(edge, edge.manner), width);
  return width <= edge.width;
}
