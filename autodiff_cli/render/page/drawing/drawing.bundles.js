// Bundles: variables that the same folded boxes use are drawn together, with one line from the bundle to each box.

const BUNDLED = 3; // smallest number of variables in a bundle
const TOGETHER = { gap: 5, room: 4 }; // pixels between the variables of a bundle and around them

/** The drawing `shown`, with each bundle as one box. Each arrow has the size of its `numbers`; null for an arrow
 * without numbers, because they carry no information or too many arrows end beside it. The room reserved for numbers
 * is the `label` of the arrow. */
class Bundles {
  #lines = []; // for each arrow the index of the arrow that is drawn in its place

  constructor({ boxes, arrows, frames, folds }, labelOf, hasNumbers) {
    const drawnAs = this.#drawnAs(boxes, arrows, frames);
    const isFirst = (id) => drawnAs.get(id)?.[0] === id;
    this.bundles = boxes.filter(({ id }) => isFirst(id)).map(({ id }) => ({ id, members: drawnAs.get(id) }));
    this.boxes = boxes.filter(({ id }) => !drawnAs.has(id) || isFirst(id));
    this.frames = frames;
    const numbers = new Map();
    this.arrows = [];
    for (const [k, arrow] of arrows.entries()) {
      const from = drawnAs.get(arrow.from)?.[0] ?? arrow.from;
      const name = drawnAs.has(arrow.from) ? `${from} ${arrow.to}` : `alone ${k}`;
      if (!numbers.has(name)) {
        numbers.set(name, this.arrows.length);
        this.arrows.push({ ...arrow, from, isBundle: drawnAs.has(arrow.from) });
      }
      this.#lines.push(numbers.get(name));
    }
    const into = Map.groupBy(this.arrows, ({ to }) => to);
    for (const arrow of this.arrows) {
      const hasLabel = takesGradient(arrow.from) && !arrow.isBundle && into.get(arrow.to).length <= MOST_NUMBERS;
      arrow.numbers = hasLabel ? labelOf(arrow, folds.find((members) => members.at(-1) === arrow.to)) : null;
      arrow.label = hasNumbers ? arrow.numbers : null;
    }
    this.shown = { boxes, arrows: arrows.map((arrow, k) => ({ ...arrow, numbers: this.arrows[this.#lines[k]].numbers })) };
  }

  /** For each variable in a bundle, all variables of the bundle. */
  #drawnAs(boxes, arrows, frames) {
    const framed = new Set(frames.flatMap(({ members }) => members));
    const folded = new Set(boxes.filter(({ role }) => role === "folded").map(({ id }) => id));
    const targets = new Map(boxes.map(({ id }) => [id, new Set()]));
    for (const { from, to } of arrows) targets.get(from).add(to);
    const isPlain = ({ id, role }) => role === "input" && !framed.has(id) && !Array.isArray(record.nodes[id].value)
      && targets.get(id).size > 0 && [...targets.get(id)].every((to) => folded.has(to));
    const alike = Map.groupBy(boxes.filter(isPlain).map(({ id }) => id), (id) => [...targets.get(id)].join());
    const together = [...alike.values()].filter(({ length }) => length >= BUNDLED);
    return new Map(together.flatMap((members) => members.map((id) => [id, members])));
  }

  /** The sizes of boxes; bundles are at most this many pixels wide. */
  sizes(sizes, width) {
    const allSizes = new Map(sizes);
    for (const { id, members } of this.bundles) {
      const { cell, columns } = grid(members, sizes, width);
      const rows = Math.ceil(members.length / columns);
      const extent = (count, size) => count * (size + TOGETHER.gap) - TOGETHER.gap + 2 * TOGETHER.room;
      allSizes.set(id, { width: extent(columns, cell.width), height: extent(rows, cell.height) });
    }
    return allSizes;
  }

  /** An arrangement with the variables placed inside their bundles. */
  spread(arrangement, sizes, width) {
    const places = new Map(arrangement.places);
    const bundles = this.bundles.map(({ id, members }) => {
      const place = arrangement.places.get(id);
      const { cell, columns } = grid(members, sizes, width);
      members.forEach((member, k) => {
        const [x, y] = [[place.x, place.width, cell.width, k % columns], [place.y, place.height, cell.height, Math.floor(k / columns)]]
          .map(([middle, all, one, at]) => middle - all / 2 + TOGETHER.room + one / 2 + at * (one + TOGETHER.gap));
        places.set(member, { x, y, ...cell });
      });
      return place;
    });
    return { ...arrangement, ...this.shown, places, routes: this.#lines.map((k) => arrangement.routes[k]), bundles };
  }
}

/** The size of a variable in a bundle, and the number of variables in a row. */
function grid(members, sizes, width) {
  const all = members.map((id) => sizes.get(id));
  const cell = { width: Math.max(...all.map((one) => one.width)), height: Math.max(...all.map((one) => one.height)) };
  const most = Math.floor((width - 2 * TOGETHER.room + TOGETHER.gap) / (cell.width + TOGETHER.gap));
  const columns = Math.min(Math.max(most, 1), members.length);
  return { cell, columns: Math.ceil(members.length / Math.ceil(members.length / columns)) };
}
