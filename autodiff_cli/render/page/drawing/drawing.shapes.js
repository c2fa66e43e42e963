// The drawing as SVG shapes: boxes with their texts, edges with their numbers, frames.

const SVG = "http://www.w3.org/2000/svg";
const COLUMN = 7.3; // the width of a character, see STYLE
const LINE = 17; // the height of a line
const MARGIN = 10; // around the drawing
const PADDING = 8; // within a box
const APART = 8; // between texts on one line
const ROOM = { most: 9, beside: 3 }; // characters reserved for a number that may change: at most, and in addition to its digits
const LONGEST = { roomy: 30, brief: 15 }; // characters of a box's title
const MOST_NUMBERS = 5; // with more edges into a box, their numbers appear only on demand
const STRETCH = 100; // pixels
const SHARES = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.12, 0.88, 0.45, 0.55, 0.35, 0.65, 0.25, 0.75]; // positions along a line that are tried for its numbers
const MOST_AVOIDED = 60; // with more lines, numbers do not avoid lines, which would take too long
const DOT = 10; // pixels of a line
const DOUBLE = 4; // between the double borders of the output and of folded parts
const BESIDE = { value: { roomy: "value ", brief: "= " }, adjoint: { roomy: "adjoint ", brief: "∂ " } }; // prefixes of numbers

/** A new SVG element with children, or with text. */
function svgElement(tag, attributes = {}, children = []) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...[children].flat());
  return element;
}

function textShape(text, x, y, kind) {
  return svgElement("text", { class: kind, x, y, dy: ".35em" }, [text]);
}

function rectangle(kind, { x, y, width, height }, radius = 0) {
  return svgElement("rect", { class: kind, x: x - width / 2, y: y - height / 2, width, height, rx: radius });
}

/** A title of limited length; a long one loses its middle. */
function cut(text, most) {
  const letters = [...text];
  const half = Math.floor(most / 2);
  return letters.length <= most ? text : `${letters.slice(0, half).join("")}…${letters.slice(-half + 1).join("")}`;
}

/** What a box says: its title and how much it stands for, then its fields, value and adjoint, with the room of each; how
 * large all of it is. */
function boxContent({ id, title, short, inside }, detail) {
  const manner = detail === "roomy" ? "roomy" : "brief";
  const lines = [cut({ roomy: title, brief: short }[manner], LONGEST[manner])];
  if (inside) lines.push(`${inside} ${{ roomy: "nodes ", brief: "" }[manner]}inside`);
  const room = Math.min(ROOM.most, DETAILS[detail].digits + ROOM.beside);
  const isItsValue = record.nodes[id].op === "constant" && !inside;
  const grid = Array.isArray(record.nodes[id].value) ? gridOf(record.nodes[id].value, DETAILS[detail].letters) : null;
  const kinds = [...(isItsValue ? [] : ["value"]), ...(takesGradient(id) ? ["adjoint"] : [])];
  const fields = kinds.map((kind) => ({
    kind,
    grid,
    width: Math.max((BESIDE[kind][manner].length + (grid ? 5 : room)) * COLUMN, grid?.width ?? 0),
    height: LINE + (grid ? grid.height + 2 : 0),
  }));
  const isFlat = DETAILS[detail].isFlat && fields.length > 1;
  const [widths, heights] = [fields.map(({ width }) => width), fields.map(({ height }) => height)];
  return {
    lines,
    fields,
    isFlat,
    width: Math.max(...lines.map((line) => [...line].length * COLUMN), isFlat ? added(widths) + APART : Math.max(0, ...widths)),
    height: lines.length * LINE + (isFlat ? Math.max(...heights) : added(heights)),
  };
}

function added(numbers) {
  return numbers.reduce((a, b) => a + b, 0);
}

/** The size of a box. */
function sizeOf(box, detail) {
  const { width, height } = boxContent(box, detail);
  const beside = { input: 1.6 * PADDING, output: PADDING + DOUBLE, folded: PADDING + DOUBLE }[box.role] ?? PADDING;
  return { width: width + 2 * beside, height: height + PADDING + (box.role === "output" ? 2 * DOUBLE : 0) };
}

/** The drawing of an arrangement. */
function picture({ boxes, arrows, places, routes, rectangles, bundles, width, height, detail, isDown }) {
  const lines = arrows.map((_, k) => svgElement("path", { d: curve(routes[k], isDown) }));
  const spots = new Spots(boxes.map(({ id }) => places.get(id)), bundles, lines, width);
  return svgElement("svg", {
    class: "autodiff", role: "group", "aria-label": "Graph of the formula", width, height, viewBox: `0 0 ${width} ${height}`,
  }, [
    ...rectangles.map(frameShape),
    ...bundles.map((place) => rectangle("bundle", place, 8)),
    ...arrows.map((arrow, k) => edgeShape(arrow, lines[k], routes[k], isDown, spots)),
    ...boxes.map((box) => boxShape(box, places.get(box.id), detail)),
  ]);
}

function frameShape(frame) {
  const { x, y, width, height, text, key } = frame;
  const label = textShape(cut(text, Math.max(3, Math.floor((width - 10) / COLUMN))), x - width / 2 + 8, y - height / 2 + 9, "small");
  const title = svgElement("title", {}, [text]);
  return svgElement("g", {
    class: "group", "data-frame": key, role: "button", tabindex: 0, "aria-label": `Fold ${text}`,
  }, [title, rectangle("enclosure", frame, 8), label]);
}

function boxShape(box, place, detail) {
  const { id, role, isHighlighted } = box;
  const { lines, fields, isFlat, height } = boxContent(box, detail);
  const radius = { input: 16, operation: 3 }[role] ?? 0;
  const shapes = [svgElement("title", {}, [role === "folded" ? box.title : record.nodes[id].label]), rectangle("outline", place, radius)];
  const [less, lower] = { output: [DOUBLE, DOUBLE], folded: [DOUBLE, 0] }[role] ?? [0, 0];
  if (less) shapes.push(rectangle("frame", { ...place, width: place.width - 2 * less, height: place.height - 2 * lower }));
  let y = place.y - height / 2;
  lines.forEach((line, k) => {
    shapes.push(textShape(line, place.x, y + LINE / 2, `middle ${k ? "" : "first"}`));
    y += LINE;
  });
  let left = place.x - (added(fields.map(({ width }) => width)) + APART) / 2; // of the fields that stand beside each other
  for (const { kind, grid, width, height: own } of fields) {
    const x = isFlat ? left + width / 2 : place.x;
    const text = textShape("", x, y + LINE / 2, `middle ${kind}`);
    text.room = isFlat ? width : place.width - 14;
    shapes.push(text, ...(grid ? [gridShape(grid, x - grid.width / 2, y + LINE, kind)] : []));
    if (isFlat) left += width + APART;
    else y += own;
  }
  const element = svgElement("g", {
    class: `node ${role}${isHighlighted ? " highlighted" : ""}`, "data-node": id, role: "button", tabindex: -1,
  }, shapes.flatMap((shape) => [shape, " "])); // blanks keep the texts apart for whoever reads them as one
  Object.assign(element, { isBrief: detail !== "roomy", digits: DETAILS[detail].digits });
  return element;
}

/** A line, and where its numbers stand if one of the `spots` on it is free; they are its tooltip too. */
function edgeShape({ from, to, position, isHighlighted, label }, line, route, isDown, spots) {
  const head = svgElement("path", { class: "head", d: arrowHead(route.at(-1), isDown) });
  const reach = svgElement("path", { class: "reach", d: line.getAttribute("d") }); // a wide invisible line that a mouse can hit
  const shapes = [svgElement("title"), line, reach, head];
  const element = svgElement("g", { class: `edge${isHighlighted ? " highlighted" : ""}`, "data-from": from, "data-to": to }, shapes);
  if (position !== undefined) element.dataset.position = position;
  const spot = label && spots.beside(line, label, route.find((at) => at.label));
  if (spot) element.append(rectangle("room empty", spot), textShape("", spot.x, spot.y - (spot.isOneLine ? 0 : 8), "local"));
  element.label = label;
  element.classList.toggle("crowded", takesGradient(from) && !spot);
  return element;
}

/** A smooth line through points, at right angles to the layers; straight where it goes on in another band. */
function curve(points, isDown) {
  const [along, across] = isDown ? ["y", "x"] : ["x", "y"];
  const text = (a, c) => (isDown ? `${c.toFixed(1)} ${a.toFixed(1)}` : `${a.toFixed(1)} ${c.toFixed(1)}`);
  let d = `M${text(points[0][along], points[0][across])}`;
  points.slice(1).forEach((at, k) => {
    const before = points[k];
    const isStraight = at.isTurn || before.isTurn;
    const middle = (before[along] + at[along]) / 2;
    if (isStraight) d += `L${text(at[along], at[across])}`;
    else d += `C${text(middle, before[across])} ${text(middle, at[across])} ${text(at[along], at[across])}`;
  });
  return d;
}

function arrowHead({ x, y }, isDown) {
  return isDown ? `M${x} ${y}L${x - 3.5} ${y - 7}L${x + 3.5} ${y - 7}Z` : `M${x} ${y}L${x - 7} ${y - 3.5}L${x - 7} ${y + 3.5}Z`;
}

/** Places numbers on their lines: away from boxes and other numbers, and over as few other lines as possible. */
class Spots {
  #taken = new Map(); // by stretch of the drawing's height
  #width;

  constructor(boxes, bundles, lines, width) {
    this.#width = width;
    for (const place of [...boxes, ...bundles]) this.#take(place);
    for (const line of lines.length > MOST_AVOIDED ? [] : lines) {
      for (let at = DOT; at < line.getTotalLength() - DOT; at += DOT) {
        const { x, y } = line.getPointAtLength(at);
        this.#take({ x, y, width: DOT, height: DOT, line });
      }
    }
  }

  /** The place of numbers of this size on a line, where the layout has `reserved` it if it has; undefined if there is none. */
  beside(line, size, reserved) {
    const length = line.getTotalLength();
    const inside = (x) => Math.min(Math.max(x, size.width / 2), this.#width - size.width / 2);
    const points = [...(reserved ? [reserved] : []), ...SHARES.map((share) => line.getPointAtLength(share * length))];
    let [best, least] = [undefined, Infinity];
    for (const { x, y } of points) {
      const spot = { x: inside(x), y, ...size };
      const taken = this.#onLines(spot, line);
      if (taken < least) [best, least] = [spot, taken];
      if (least === 0) break;
    }
    if (best) this.#take(best);
    return best;
  }

  #take(place) {
    for (const stretch of stretches(place)) {
      if (!this.#taken.has(stretch)) this.#taken.set(stretch, new Set());
      this.#taken.get(stretch).add(place);
    }
  }

  /** How much of a spot is taken by other lines; infinite if a box or a number stands there. */
  #onLines(spot, line) {
    const near = new Set(stretches(spot).flatMap((stretch) => [...(this.#taken.get(stretch) ?? [])]));
    let sum = 0;
    for (const other of near) {
      if (other.line === line) continue;
      const taken = overlap(spot, other);
      if (taken && !other.line) return Infinity;
      sum += taken;
    }
    return sum;
  }
}

/** The numbers of the stretches of the drawing's height that a place is in. */
function stretches({ y, height }) {
  const [from, to] = [y - height / 2, y + height / 2].map((at) => Math.floor(at / STRETCH));
  return Array.from({ length: to - from + 1 }, (_, k) => from + k);
}

function overlap(a, b) {
  const [x, y] = [["x", "width"], ["y", "height"]].map(([at, size]) => (a[size] + b[size]) / 2 - Math.abs(a[at] - b[at]));
  return x > 0 && y > 0 ? x * y : 0;
}

/** A drawing in parts that fit on sheets of paper, cut where the fewest boxes are. */
function sheets(svg, { places, width, height, scale }, sheet) {
  const least = Math.min(scale, 1);
  const boxes = [...places.values()];
  const rows = pages(height, sheet.height / least, boxes.map((box) => [box.y, box.height / 2]));
  const columns = pages(width, sheet.width / least, boxes.map((box) => [box.x, box.width / 2]));
  return rows.flatMap(([top, bottom]) => columns.map(([left, right]) => {
    const part = svg.cloneNode(true);
    part.setAttribute("viewBox", `${left} ${top} ${right - left} ${bottom - top}`);
    part.style.width = `${(right - left) * least}px`;
    part.style.height = `${(bottom - top) * least}px`;
    return part;
  }));
}

/** The start and end of each sheet along a side, given the centres of the boxes. */
function pages(length, room, boxes) {
  const cutBy = (at) => boxes.filter(([middle, half]) => Math.abs(middle - at) < half + 6).length;
  const ranges = [];
  for (let from = 0; from < length - 1;) {
    const ends = from + room >= length ? [length] : Array.from({ length: 60 }, (_, k) => from + room * (1 - k / 120));
    const to = ends.reduce((a, b) => (cutBy(b) < cutBy(a) ? b : a));
    ranges.push([from, to]);
    from = to;
  }
  return ranges;
}
