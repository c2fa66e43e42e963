// The drawing as SVG shapes: boxes with their texts, edges with their numbers, frames.

const SVG = "http://www.w3.org/2000/svg";
const LINE = 17; // the height of a line
const MARGIN = 10; // around the drawing
const PADDING = 8; // within a box
const APART = 8; // between texts on one line
const LEAST_BOX = 32; // pixels, the least width of a box
const ENTRY = { apart: 4, margin: 12, most: 24 }; // pixels between lines that come down into a box, and beside them; the number of lines with room
const LONGEST = { caption: 230, short: 125 }; // pixels of the name of a variable or of a folded part, by the room that there is
const MOST_NUMBERS = 5; // with more edges into a box, their numbers appear only on demand
const STRETCH = 100; // pixels
const SHARES = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.12, 0.88, 0.45, 0.55, 0.35, 0.65, 0.25, 0.75]; // positions along a line that are tried for its numbers
const FINER = Array.from({ length: 41 }, (_, k) => 0.5 + (k % 2 ? -1 : 1) * Math.ceil(k / 2) * 0.023); // the same for the numbers of the current step
const DOT = 8; // pixels of a line
const FLAT = 4; // pixels of a curve that are drawn as straight
const NUMBERS_APART = 6; // pixels between a box and its numbers
const TITLE = { middle: 9, height: 13, apart: 7, every: 3 }; // pixels: a frame's title from its border, its height, how far lines keep away, and
// how far apart their points are
const DOUBLE = 4; // between the double borders of the output and of folded parts

/** A new SVG element with children, or with text. */
function svgElement(tag, attributes = {}, children = []) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...[children].flat().map((child) => (tag === "text" && typeof child === "string" ? inPrint(child) : child)));
  return element;
}

function textShape(text, x, y, kind) {
  return svgElement("text", { class: kind, x, y, dy: ".35em" }, [text]);
}

function rectangle(kind, { x, y, width, height }, radius = 0) {
  return svgElement("rect", { class: kind, x: x - width / 2, y: y - height / 2, width, height, rx: radius });
}

/** The content of a node: the symbol of its operation in a box, with its value and adjoint behind the box above and
 * below the line that leaves it; its label stands above the box, or above the numbers where lines go down. Arrays
 * have grids inside the box. A folded part has its name in the box. */
function contentOf(box, detail, isDown) {
  const { id, title, role, inside } = box;
  const { isLabelled, isFlat, letters, hasGrids } = DETAILS[detail];
  const { op, label, name, value } = record.nodes[id];
  const isNamed = name !== undefined && name !== label;
  const isOperation = op !== "variable" && op !== "constant" && !inside;
  const room = isLabelled ? "caption" : "short";
  const text = role === "input" ? callIn(title, LONGEST[room], NAME) : box[room];
  const symbol = isOperation ? symbolOf(record.nodes[id]) : nameOf(box, text);
  const ownLabel = isOperation && (isLabelled || isNamed) && text !== symbol ? text : "";
  const isArray = hasGrids && Array.isArray(value);
  const caption = isArray ? "" : ownLabel; // edges come in above the box of an array, so that its label stands inside
  const small = inside ? `${inside} inside` : isArray ? ownLabel : "";
  const grid = isArray ? gridOf(value, letters) : null;
  const kinds = [...(op === "constant" && !inside ? [] : ["value"]), ...(takesGradient(id) ? ["adjoint"] : [])];
  const core = {
    width: Math.max(LEAST_BOX, widthOf(symbol, kindOf(box, symbol)) + 2 * PADDING, widthOf(small, "small") + 2 * PADDING),
    height: 2 * LINE + (role === "output" ? DOUBLE : 0),
  };
  if (role === "folded" || role === "output") core.width += 2 * DOUBLE;
  if (isDown) core.width = Math.max(core.width, ENTRY.margin + ENTRY.apart * Math.min(record.nodes[id].inputs.length, ENTRY.most));
  const wide = roomFor(id, detail);
  let beside = kinds.length && !grid ? wide + NUMBERS_APART : 0;
  if (isArray) {
    beside = 0;
    const [width, height] = [Math.max(WORD * widthOf(DIGIT), grid?.width ?? 0), LINE + (grid ? grid.height + 2 : 0)];
    const isRow = isFlat && kinds.length > 1;
    core.width = Math.max(core.width, (isRow ? 2 * width + APART : width) + 2 * PADDING);
    core.height = LINE * (small ? 2 : 1) + (isRow ? height : kinds.length * height) + PADDING;
    core.field = { width, height, isRow };
  }
  const [above, length] = [caption ? LINE : 0, widthOf(caption, "caption")];
  const isBeside = isDown && !core.field; // whether the label stands where lines do not come in
  if (isBeside && caption) beside = Math.max(beside, length + NUMBERS_APART);
  const size = { width: Math.max(core.width + beside, isBeside ? 0 : length), height: core.height + above };
  Object.assign(core, { x: (core.width - size.width) / 2, y: isBeside ? 0 : above / 2 });
  return { symbol, caption, small, grid, kinds, core, isBeside, room: wide, ...size };
}

/** The room for the numbers of a node beside its box, or in it for an array: enough for the current numbers and for
 * numbers of usual length. */
function roomFor(id, detail) {
  const { values, adjoints } = playback.computation;
  const usual = (Array.isArray(values[id]) && DETAILS[detail].room) || ROOM;
  const own = Array.isArray(values[id]) ? [caption("array", "", id, false)] : [values[id], adjoints[id] ?? 0].map((x) => brief(x, NODE_DIGITS));
  return Math.max(usual * widthOf(DIGIT), ...own.map((text) => widthOf(text)), widest.get(String(id)) ?? 0);
}

/** The size of the drawn node, and the position of its box in it. */
function sizeOf(box, detail, isDown) {
  const { width, height, core } = contentOf(box, detail, isDown);
  return { width, height, core };
}

/** The drawing of an arrangement. */
function picture({ boxes, arrows, places, routes, rectangles, bundles, width, height, detail, isDown }) {
  const lines = arrows.map((_, k) => lineShape(routes[k], isDown));
  const borders = bordersOf(rectangles);
  const all = [...boxes.map(({ id }) => places.get(id)), ...bundles];
  const titles = titlePlaces(rectangles, [...borders, ...all], lines, routes, height);
  const labelPlaces = new LabelPlaces([...borders, ...all, ...titles], lines, width, height);
  const svg = svgElement("svg", {
    class: "autodiff", role: "group", "aria-label": "Graph of the formula", width, height, viewBox: `0 0 ${width} ${height}`,
  }, [
    ...rectangles.map((frame, k) => frameShape(frame, titles[k])),
    ...bundles.map((place) => rectangle("bundle", place, 8)),
    ...arrows.map((arrow, k) => edgeShape(arrow, lines[k], routes[k], isDown, labelPlaces)),
    ...boxes.map((box) => boxShape(box, places.get(box.id), detail, isDown)),
  ]);
  svg.labelPlaces = labelPlaces;
  return svg;
}

function frameShape(frame, { x, y, width, label: name }) {
  const { text, key } = frame;
  const label = nameShape(name, x - width / 2, y, "caption");
  const title = svgElement("title", {}, [text]);
  return svgElement("g", {
    class: "group", "data-frame": key, role: "button", tabindex: 0, "aria-label": `Fold ${text}`,
  }, [title, rectangle("enclosure", frame, 8), label]);
}

/** The four sides of each frame. */
function bordersOf(frames) {
  return frames.flatMap(({ x, y, width, height }) => [-1, 1].flatMap((side) => [
    { x, y: y + (side * height) / 2, width, height: 1 },
    { x: x + (side * width) / 2, y, width: 1, height },
  ]));
}

/** The places of the titles of frames, free of lines, `others` and numbers: at the top, else above or at the bottom. */
function titlePlaces(frames, others, lines, routes, height) {
  const numbers = routes.flat().filter(({ label }) => label).map(({ x, y, label }) => ({ ...label, x, y }));
  const points = lines.flatMap(({ track }) => track.every(TITLE.every).map((at) => ({ ...at, width: 2 * TITLE.apart, height: 2 })));
  const taken = [...others, ...numbers, ...points];
  return frames.map(({ text, ...frame }) => {
    const [left, top, bottom] = [frame.x - frame.width / 2 + 8, frame.y - frame.height / 2, frame.y + frame.height / 2];
    const wanted = widthOf(text, "caption");
    const { middle } = TITLE;
    let best = { x: left, y: top + middle, width: 0, height: TITLE.height };
    for (const y of [top + middle, top - middle, bottom - middle, bottom + middle]) {
      const band = { ...frame, y, width: frame.width - 16, height: TITLE.height };
      if (y < middle || y > height - middle || best.width >= wanted) continue;
      for (const [from, to] of gapsIn(band, taken)) {
        const width = Math.min(to - from, wanted);
        if (width > best.width) best = { ...band, x: from + width / 2, width };
      }
    }
    taken.push(best);
    return { ...best, label: callIn(text, best.width) };
  });
}

/** The free stretches of a band, in order. */
function gapsIn({ x, y, width, height }, taken) {
  const gaps = [];
  let from = x - width / 2;
  const inside = taken.filter((place) => overlap(place, { x, y, width, height })).map((at) => [at.x - at.width / 2, at.x + at.width / 2]);
  for (const [start, end] of [...inside.sort((a, b) => a[0] - b[0]), [x + width / 2, Infinity]]) {
    if (start > from) gaps.push([from, start]);
    from = Math.max(from, end);
  }
  return gaps;
}

function boxShape(box, place, detail, isDown) {
  const { id, role, isHighlighted } = box;
  const { symbol, caption, small, grid, kinds, core, isBeside, room, width, height } = contentOf(box, detail, isDown);
  const own = { ...place, width, height };
  const at = coreOf({ ...own, core });
  const shapes = [
    svgElement("title", {}, [role === "folded" ? box.title : record.nodes[id].label]),
    rectangle("outline", at, { input: core.field ? 12 : at.height / 2, operation: 8 }[role] ?? 3),
    rectangle("reach", own), // what a pointer can hit
  ];
  if (role === "folded" || role === "output") shapes.push(rectangle("frame", { ...at, width: at.width - 2 * DOUBLE, height: at.height - (role === "output" ? 2 * DOUBLE : 0) }));
  const top = at.y - at.height / 2;
  const first = grid || core.field ? top + LINE / 2 + 2 : at.y - (small ? LINE / 2 : 0);
  shapes.push(nameShape(symbol, at.x, first, kindOf(box, symbol)));
  if (small) shapes.push(nameShape(small, at.x, first + LINE - 1, "middle small"));
  if (caption) shapes.push(nameShape(caption, isBeside ? at.x + at.width / 2 + NUMBERS_APART : own.x - width / 2, own.y - height / 2 + LINE / 2 - (isBeside ? 0 : 1), "caption"));
  kinds.forEach((kind, k) => {
    if (!core.field) {
      const left = at.x + at.width / 2 + NUMBERS_APART;
      const half = isBeside && caption ? [0, LINE] : [-LINE / 2 - 1, LINE / 2 + 1];
      const text = textShape("", left, at.y + half[kind === "value" ? 0 : 1], kind);
      text.room = room;
      shapes.push(text);
      return;
    }
    const { isRow, width: wide, height: high } = core.field;
    const x = at.x + (isRow ? (k - 0.5) * (wide + APART) : 0);
    const y = top + LINE * (small ? 2 : 1) + (isRow ? 0 : k * high) + 2;
    const text = textShape("", x, y + LINE / 2, `middle ${kind}`);
    text.room = wide;
    shapes.push(text, ...(grid ? [gridShape(grid, x - grid.width / 2, y + LINE, kind)] : []));
  });
  return svgElement("g", {
    class: `node ${role}${isHighlighted ? " highlighted" : ""}`, "data-node": id, role: "button", tabindex: -1,
  }, shapes.flatMap((shape) => [shape, " "])); // blanks separate the texts for programs that read them as one
}

/** A line, and beside it the texts of its numbers if one of the `labelPlaces` along it is free; they are its tooltip too. */
function edgeShape({ from, to, position, isHighlighted, numbers }, line, route, isDown, labelPlaces) {
  const head = svgElement("path", { class: "head", d: arrowHead(route.at(-1), isDown) });
  const reach = svgElement("path", { class: "reach", d: line.getAttribute("d") }); // a wide invisible line that a mouse can hit
  const shapes = [svgElement("title"), line, reach, head];
  const element = svgElement("g", { class: `edge${isHighlighted ? " highlighted" : ""}`, "data-from": from, "data-to": to }, shapes);
  if (position !== undefined) element.dataset.position = position;
  element.labelPlace = numbers && labelPlaces.along(line, numbers, route.find((at) => at.label));
  if (element.labelPlace) element.append(...edgeTexts(element.labelPlace));
  return element;
}

/** A smooth line through points, at right angles to the layers; straight where it goes on in another band. */
function lineShape(points, isDown) {
  const [along, across] = isDown ? ["y", "x"] : ["x", "y"];
  const text = (a, c) => (isDown ? `${c.toFixed(1)} ${a.toFixed(1)}` : `${a.toFixed(1)} ${c.toFixed(1)}`);
  const track = new Track(points[0]);
  let d = `M${text(points[0][along], points[0][across])}`;
  points.slice(1).forEach((at, k) => {
    const before = points[k];
    const middle = (before[along] + at[along]) / 2;
    if (at.isTurn || before.isTurn) {
      d += `L${text(at[along], at[across])}`;
      track.add(at);
      return;
    }
    d += `C${text(middle, before[across])} ${text(middle, at[across])} ${text(at[along], at[across])}`;
    const count = Math.ceil(Math.hypot(at.x - before.x, at.y - before.y) / FLAT);
    for (let n = 1; n <= count; n++) {
      const [s, t] = [1 - n / count, n / count];
      track.add({ [along]: s ** 3 * before[along] + 3 * s * t * middle + t ** 3 * at[along], [across]: s * s * (3 - 2 * s) * before[across] + t * t * (3 - 2 * t) * at[across] });
    }
  });
  return Object.assign(svgElement("path", { d }), { track });
}

/** The points of a line by their distance from its beginning: SVG's own `getPointAtLength` would measure the line for each. */
class Track {
  #points;

  constructor({ x, y }) {
    this.#points = [{ x, y, distance: 0 }];
  }

  add({ x, y }) {
    const last = this.#points.at(-1);
    this.#points.push({ x, y, distance: last.distance + Math.hypot(x - last.x, y - last.y) });
  }

  get length() {
    return this.#points.at(-1).distance;
  }

  /** The point at a distance; an end of the line for one that is outside. */
  at(distance) {
    let [low, high] = [0, this.#points.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.#points[middle].distance < distance) low = middle;
      else high = middle;
    }
    const [a, b] = [this.#points[low], this.#points[high]];
    if (distance <= a.distance) return a;
    if (distance >= b.distance) return b;
    const share = (distance - a.distance) / (b.distance - a.distance);
    return { x: a.x + share * (b.x - a.x), y: a.y + share * (b.y - a.y) };
  }

  /** Points this far apart, from end to end. */
  every(apart) {
    return Array.from({ length: Math.ceil(this.length / apart) + 1 }, (_, k) => this.at(k * apart));
  }
}

function arrowHead({ x, y }, isDown) {
  return isDown ? `M${x} ${y}L${x - 3.5} ${y - 7}L${x + 3.5} ${y - 7}Z` : `M${x} ${y}L${x - 7} ${y - 3.5}L${x - 7} ${y + 3.5}Z`;
}

/** Places numbers beside their lines, away from boxes, lines and other numbers. */
class LabelPlaces {
  #taken = new Map(); // by stretch of the drawing's height
  #isInside;

  constructor(others, lines, width, height) {
    this.#isInside = (place) => [["x", "width", width], ["y", "height", height]].every(([at, size, end]) => place[at] >= place[size] / 2 && place[at] + place[size] / 2 <= end);
    for (const place of others) this.#take(place);
    for (const line of lines) {
      for (const { x, y } of line.track.every(DOT)) this.#take({ x, y, width: DOT, height: DOT, line, own: { width: 1, height: 1 } });
    }
  }

  /** The place of numbers on both sides of a straight part of a line, at the place that the layout has `reserved`,
   * if any; undefined if there is none. */
  along(line, size, reserved) {
    const best = [reserved ? { ...reserved, ...size } : null, ...this.#placesOn(line, size.column, SHARES)].find((place) => place && this.#isFree(place, line));
    if (best) this.#take(best);
    return best;
  }

  /** A free place of numbers of this width beside a line, without keeping it, and away from others; undefined if there is none. */
  beside(line, width, others) {
    return this.#placesOn(line, width, FINER).find((place) => place && this.#isFree(place, line) && !others.some((other) => overlap(place, other)));
  }

  /** Places of numbers at some shares of the length of a line; null where it bends. */
  #placesOn(line, width, shares) {
    return shares.map((share) => {
      const at = share * line.track.length;
      const [before, { x, y }, after] = [at - LINE / 2, at, at + LINE / 2].map((place) => line.track.at(place));
      const [dx, dy] = [Math.abs(after.x - before.x), Math.abs(after.y - before.y)];
      return dx > 2 && dy > 2 ? null : { x, y, ...spaceOf(width, dy > dx) };
    });
  }

  #take(place) {
    for (const stretch of stretches(place)) {
      if (!this.#taken.has(stretch)) this.#taken.set(stretch, new Set());
      this.#taken.get(stretch).add(place);
    }
  }

  /** Whether a place is free; its own line, which runs through its middle, does not count. */
  #isFree(labelPlace, line) {
    const { x, y, width, height, isDown } = labelPlace;
    if (!this.#isInside(labelPlace)) return false;
    const sides = [-1, 1].map((way) => (isDown
      ? { x: x + way * (width / 4 + BESIDE_LINE / 2), y, width: width / 2 - BESIDE_LINE, height }
      : { x, y: y + way * (height / 4 + 1), width, height: height / 2 - 4 }));
    const near = new Set(stretches(labelPlace).flatMap((stretch) => [...(this.#taken.get(stretch) ?? [])]));
    return ![...near].some((other) => (other.line === line ? sides.some((side) => overlap(side, { ...other, ...other.own })) : overlap(labelPlace, other)));
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
