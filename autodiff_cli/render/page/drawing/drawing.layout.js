// Layout of boxes and edges: in layers from left to right or from top to bottom, wrapped into bands to suit the panel.

const LEAST_TEXT = 11.05; // pixels; smaller text is unreadable
const TEXT = 12; // pixels at scale 1
const ENOUGH = 2; // a larger scale is not better
const LARGER = 0.15; // weight of a drawing that is larger than necessary
const READABLE = LEAST_TEXT / TEXT;
const COMFORTABLE = record.nodes.length > 12 ? READABLE : 13 / TEXT; // the smallest scale at which text is easy to read
const UNCOMFORTABLE = drawsArrays() ? 0.12 : 0.3; // penalty for a smaller scale; arrays gain more by their grids
const UNRESERVED = 0.2; // penalty for columns, in which numbers of edges have no room of their own
const DETOUR = 0.2; // penalty for lines that are twice as long as if they were straight
const SIDEWAYS = 0.08; // penalty for bands beside each other, relative to bands below each other
const NODE_DIGITS = 4; // of a number in the drawing; tooltips have more
const ROOM = NODE_DIGITS + 3; // characters reserved for a number that may change
const ARRAY_ROOM = 14; // characters for the numbers of an array that has no grid
const WORD = 8; // characters for the word above a grid, such as `adjoint`
const DETAILS = {
  // Levels of detail, the most detailed first: the penalty for having less detail, the characters of a number in an
  // array, the distance between shapes, whether every operation has a label, whether room is reserved for the numbers
  // of edges, and whether arrays have grids, or else the characters for their numbers. If `isFlat`, the grids of value
  // and adjoint are beside each other.
  roomy: { less: 0, letters: 6, apart: 1, isFlat: false, isLabelled: true, hasNumbers: true, hasGrids: true },
  brief: { less: 0.08, letters: 6, apart: 1, isFlat: false, isLabelled: false, hasNumbers: true, hasGrids: true },
  tight: { less: 0.15, letters: 5, apart: 0.5, isFlat: true, isLabelled: false, hasNumbers: true, hasGrids: true },
  bare: { less: 0.3, letters: 5, apart: 0.4, isFlat: true, isLabelled: false, hasNumbers: false, hasGrids: true },
  plain: { less: 0.45, letters: 5, apart: 0.4, isFlat: true, isLabelled: false, hasNumbers: false, hasGrids: false, room: ARRAY_ROOM },
  terse: { less: 0.5, letters: 5, apart: 0.4, isFlat: true, isLabelled: false, hasNumbers: false, hasGrids: false, room: ROOM },
};
const MOST_LAYERED = { readable: 60, any: 150 }; // places; with more, layers cannot be read as a whole, or comparing them takes too long
const MOST_BANDS = 12;
const SWEEPS = 4; // sweeps without fewer crossings after which the search ends
const GAPS = {
  across: { layers: 40, unlabelled: 80, boxes: 16, edges: 12 }, // between layers that stand side by side, without numbers on edges
  down: { layers: 22, unlabelled: 44, boxes: 18, edges: 14 },
};
const BUNDLE = { across: [230], down: [640, 320, 200] }; // pixels, the largest widths of a bundle
const ASIDE = 20; // pixels, the most that a line goes aside to its numbers
const FRAME = { title: 18, room: 9 };
const LANE = { first: 12, each: 7, most: 3 }; // pixels, for edges that continue in the next band, and how many may

/** Arrangements of the visible parts: across or down, in one band or more, in more or less detail, with `size(box,
 * detail, isDown)` and `labelOf(arrow, members, isDown)`, the size of the numbers beside an arrow, into a fold of
 * these members. */
class Arrangements {
  #arrangements = new Map();

  constructor(shown, size, labelOf) {
    Object.assign(this, { shown, size, labelOf });
  }

  /** The arrangement with the largest scale in a panel, preferably a readable one, in one of some `details`. If any
   * readable arrangement will do, columns come first, because they take less time, and layers only where they are
   * likely to be larger. */
  best(width, height, details = Object.keys(DETAILS).filter((name) => DETAILS[name].hasGrids || drawsArrays()), isEnoughToRead = false) {
    let best = null;
    const compare = (arrangement) => {
      const scale = Math.min(width / arrangement.width, height / arrangement.height);
      const merit = (scale < READABLE ? scale - 1 : Math.min(scale, 1) + LARGER * Math.max(0, Math.min(scale, ENOUGH) - 1))
        - demerit(arrangement) - (scale < COMFORTABLE ? UNCOMFORTABLE : 0);
      const isBetter = (worth) => best === null || worth > best.merit;
      const worth = isBetter(merit) ? merit - DETOUR * detourOf(arrangement.routes) : merit;
      if (isBetter(worth)) best = { ...arrangement, scale, merit: worth };
    };
    const inColumns = () => {
      for (const detail of details.filter((name) => name !== "roomy")) this.#all(`${detail} ${width}`, () => this.#columns(detail, width)).forEach(compare);
    };
    if (isEnoughToRead) inColumns();
    if (best?.scale >= READABLE) return best;
    for (const detail of this.places > MOST_LAYERED[isEnoughToRead ? "readable" : "any"] ? [] : details) {
      if (best !== null && best.merit >= 1 - DETAILS[detail].less) break;
      this.#all(detail, () => this.#made(detail)).forEach(compare);
    }
    if (best === null || best.scale < COMFORTABLE || best.bands > 1) inColumns();
    return best;
  }

  /** An estimate of the number of places in layers: for boxes, and for lines that pass layers between their ends. */
  get places() {
    const { boxes, arrows } = this.shown;
    const layer = stepsTo(inOrder(boxes, arrows), arrows);
    return arrows.reduce((sum, { from, to }) => sum + layer.get(to) - layer.get(from) - 1, boxes.length);
  }

  /** The best readable arrangement in a panel of this width and of any height. */
  readable(width, height) {
    const ways = [1, 1.5, 2, 3, 4, Infinity].map((times) => this.best(width, times * height));
    return ways.find(({ scale }) => scale >= READABLE) ?? { ...ways.at(-1), scale: READABLE };
  }

  /** Columns in a panel of this width, with less and less room for variables that stand together. */
  *#columns(detail, width) {
    const joined = this.#joined(detail, true);
    const sizes = this.#sizes(detail, true);
    const depths = depthsOf(joined);
    for (const share of [1, 0.85, 0.7]) {
      const room = (share * width) / READABLE;
      for (const depth of [undefined, depths]) {
        const placed = inColumn(joined, joined.sizes(sizes, room), share * width, !DETAILS[detail].hasNumbers, depth);
        yield { ...joined.spread(placed, sizes, room), detail, isColumn: true, bands: 1 };
      }
    }
  }

  #all(key, make) {
    if (!this.#arrangements.has(key)) this.#arrangements.set(key, [...make()]);
    return this.#arrangements.get(key);
  }

  #sizes(detail, isDown) {
    return new Map(this.shown.boxes.map((box) => [box.id, this.size(box, detail, isDown)]));
  }

  #joined(detail, isDown) {
    return new Bundles(this.shown, (arrow, members) => this.labelOf(arrow, members, isDown), DETAILS[detail].hasNumbers);
  }

  *#made(detail) {
    for (const isDown of [false, true]) {
      const sizes = this.#sizes(detail, isDown);
      const joined = this.#joined(detail, isDown);
      for (const room of BUNDLE[isDown ? "down" : "across"].slice(0, joined.bundles.length ? undefined : 1)) {
        const placed = layered(joined, joined.sizes(sizes, room), isDown, DETAILS[detail].apart);
        for (let bands = 1; bands <= Math.min(MOST_BANDS, placed.layers.length); bands++) {
          const banded = bands === 1 ? placed : wrapped(placed, bands);
          if (banded) yield { ...joined.spread(banded, sizes, room), detail, bands };
        }
      }
    }
  }
}

/** Whether the record has arrays, whose grids are a detail that can be left out. */
function drawsArrays() {
  return record.nodes.some(({ value }) => Array.isArray(value));
}

/** The factor by which another drawing may be smaller and still be preferred. */
function demerit({ bands, detail, isDown, isColumn }) {
  const { less, hasNumbers } = DETAILS[detail];
  return 0.07 * (bands - 1) + less - (isColumn ? DETAILS.brief.less - (hasNumbers ? UNRESERVED : 0) : 0) + (isDown && bands > 1 ? SIDEWAYS : 0);
}

/** A layered drawing: the position of every box, the points of every edge, and the layers in order. */
function layered({ boxes, arrows, frames }, sizes, isDown, apart) {
  const graph = new dagre.graphlib.Graph({ compound: true, multigraph: true });
  const gaps = isDown ? GAPS.down : GAPS.across;
  const used = frames.filter(({ members }) => members.length);
  const within = used.length ? FRAME.room : 0;
  graph.setGraph({
    rankdir: isDown ? "TB" : "LR",
    ranksep: apart * (arrows.some(({ label }) => label) ? gaps.layers : gaps.unlabelled),
    nodesep: apart * gaps.boxes + within,
    edgesep: apart * gaps.edges,
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id } of boxes) graph.setNode(String(id), { ...sizes.get(id) });
  const isUsed = (key) => used.some((frame) => frame.key === key);
  for (const { key } of used) graph.setNode(`frame ${key}`, {});
  for (const { key, outer, members } of used) {
    if (outer !== null && isUsed(outer)) graph.setParent(`frame ${key}`, `frame ${outer}`);
    for (const i of members) graph.setParent(String(i), `frame ${key}`);
  }
  arrows.forEach((arrow, k) => {
    const label = arrow.label ? { ...arrow.label, labelpos: "c" } : {};
    graph.setEdge(String(arrow.from), String(arrow.to), label, String(k));
  });
  dagre.layout(graph, { customOrder: (layers, order) => orderLayers(layers, order, used.length > 0) });
  const [along, across, length, breadth] = isDown ? ["y", "x", "height", "width"] : ["x", "y", "width", "height"];
  const places = new Map(boxes.map(({ id }) => {
    const { x, y } = graph.node(String(id));
    return [id, { x, y, ...sizes.get(id) }];
  }));
  const layers = layersOf([...places.values()], along, length);
  const side = used.length && isMirrored(places, along, across) ? -1 : 1;
  for (const place of places.values()) place[across] *= side;
  const layerOf = (at) => layers.find(({ from: a, to: b }) => at[along] > a && at[along] < b);
  // Boxes are not in the middle of their places: how far the nearer end of an edge has its box aside.
  const aside = (ends, at) => {
    const [place] = ends.map((i) => places.get(i)).sort((a, b) => Math.abs(a[across] - side * at[across]) - Math.abs(b[across] - side * at[across]));
    return coreOf(place)[across] - place[across];
  };
  const bends = arrows.map((arrow, k) => {
    const { points, x, y } = graph.edge(String(arrow.from), String(arrow.to), String(k));
    const isLabel = (at) => arrow.label && Math.abs(at.x - x) < 1 && Math.abs(at.y - y) < 1;
    const between = points.slice(1, -1);
    const isLong = between.some(layerOf); // the edge then has no bend to its numbers and back
    const labelled = between.map((at) => {
      const label = isLabel(at) ? arrow.label : null;
      const shift = isLong ? 0 : aside([arrow.from, arrow.to], at);
      return { ...at, [across]: side * at[across] + shift, label };
    });
    const [low, high] = [arrow.from, arrow.to].map((i) => coreOf(places.get(i))[across]).sort((a, b) => a - b);
    return labelled.filter((at) => (at.label && at[across] > low - ASIDE && at[across] < high + ASIDE) || layerOf(at));
  });
  const entries = entriesOf(arrows, places, across, breadth, bends);
  // An edge runs straight through a layer, and turns only between layers, so that no box hides it.
  const through = (at) => {
    if (at.label) return [-1, 0, 1].map((way) => ({ ...(way ? {} : at), [along]: at[along] + (way * at.label[length]) / 2, [across]: at[across] }));
    const layer = layerOf(at);
    return [layer.from, layer.to].map((edge) => ({ [along]: edge, [across]: at[across] }));
  };
  const routes = arrows.map(({ from, to }, k) => {
    const [start, end] = [places.get(from), places.get(to)];
    const [out, into] = [coreOf(start), coreOf(end)];
    const first = { [along]: out[along] + out[length] / 2, [across]: out[across] };
    const last = { [along]: into[along] - into[length] / 2, [across]: entries[k] };
    const points = [first, { ...first, [along]: layerOf(start).to }, ...bends[k].flatMap(through), { ...last, [along]: layerOf(end).from }, last];
    return points.filter((at, n) => n === 0 || at[along] - points[n - 1][along] > 0.01 || at[across] !== points[n - 1][across]);
  });
  return settled({ places, routes, frames, layers, isDown, boxes, arrows });
}

/** Order the boxes of each layer as in the formula, which draws trees without crossings. Where lines would cross, boxes go to the
 * middle of their neighbours in the layer before or behind, layer by layer, and the order with the fewest crossings and swapped
 * variables is kept. Where there are frames, whose boxes have to stay together, dagre does that. */
function orderLayers(graph, order, hasFrames) {
  if (hasFrames) {
    order(graph);
    return;
  }
  const source = new Map(graph.nodes().map((name) => [graph.node(name), graph.node(name).edgeObj ?? { v: name, w: -1 }]));
  const edges = graph.edges().map(({ v, w }) => [graph.node(v), graph.node(w)]);
  const [before, behind] = [1, 0].map((end) => {
    const near = Map.groupBy(edges, (edge) => edge[end]);
    return (node) => (near.get(node) ?? []).map((edge) => edge[1 - end].order);
  });
  const layers = [...Map.groupBy(source.keys(), ({ rank }) => rank)].sort(([a], [b]) => a - b).map(([, layer]) => layer);
  const arrange = (layer, isBefore) => layer.sort(isBefore).forEach((node, k) => { node.order = k; });
  const variables = [...source].filter(([, { v, w }]) => w < 0 && record.nodes[v]?.op === "variable");
  const wanted = variables.map(([node, { v }]) => [{ rank: `variables of ${node.rank}`, order: v }, node]);
  const counted = [...edges, ...wanted]; // two variables that are swapped count as a crossing
  let [least, best] = [Infinity, null];
  for (const start of [0, 1]) {
    for (const layer of layers) arrange(layer, (a, b) => source.get(a).v - source.get(b).v || source.get(a).w - source.get(b).w);
    for (let [sweep, last] = [0, 0]; sweep - last <= SWEEPS && least > 0; sweep++) {
      const count = crossings(counted);
      if (count < least) [least, best, last] = [count, layers.map((layer) => [...layer]), sweep];
      const isForward = sweep % 2 === start;
      const side = sweep % 4 < 2 ? 1 : -1; // of boxes with the same middle
      for (const layer of isForward ? layers : layers.toReversed()) {
        const middles = new Map(layer.map((node) => {
          const places = (isForward ? before : behind)(node);
          return [node, places.length ? places.reduce((sum, at) => sum + at, 0) / places.length : node.order];
        }));
        arrange(layer, (a, b) => middles.get(a) - middles.get(b) || side * (a.order - b.order));
      }
    }
  }
  for (const layer of best) arrange(layer, () => 0);
}

/** How many pairs of edges between neighbouring layers cross. */
function crossings(edges) {
  let count = 0;
  for (const layer of Map.groupBy(edges, ([{ rank }]) => rank).values()) {
    layer.forEach(([a, b], k) => { for (const [c, d] of layer.slice(k + 1)) count += Number((a.order - c.order) * (b.order - d.order) < 0); });
  }
  return count;
}

/** Where the box of a node is, at which its edges begin and end: a part of its place, beside which its numbers stand. */
function coreOf({ x, y, width, height, core }) {
  return core ? { ...core, x: x + core.x, y: y + core.y } : { x, y, width, height };
}

/** Whether neighbouring boxes are mostly in reverse order of their ids. */
function isMirrored(places, along, across) {
  const layers = Map.groupBy([...places].sort(([a], [b]) => a - b), ([, place]) => Math.round(place[along]));
  let sum = 0;
  for (const layer of layers.values()) {
    layer.forEach(([, a], k) => { for (const [, b] of layer.slice(k + 1)) sum += Math.sign(b[across] - a[across]); });
  }
  return sum < 0;
}

/** The start and the end of each layer. */
function layersOf(places, along, length) {
  const middles = [...new Set(places.map((place) => Math.round(place[along])))].sort((a, b) => a - b);
  return middles.map((middle) => {
    const inside = places.filter((place) => Math.round(place[along]) === middle);
    return {
      from: Math.min(...inside.map((place) => place[along] - place[length] / 2)),
      to: Math.max(...inside.map((place) => place[along] + place[length] / 2)),
    };
  });
}

/** The points at which edges enter their target, in the order of their sources. */
function entriesOf(arrows, places, across, breadth, bends = []) {
  const entries = [];
  const before = ({ from, k }) => (bends[k]?.at(-1) ?? coreOf(places.get(from)))[across];
  const into = Map.groupBy(arrows.map((arrow, k) => ({ ...arrow, k })), ({ to }) => to);
  for (const [to, edges] of into) {
    const target = coreOf(places.get(to));
    const sorted = [...edges].sort((a, b) => before(a) - before(b) || a.k - b.k);
    const gap = Math.min(16, (target[breadth] - 12) / sorted.length);
    sorted.forEach(({ k }, n) => { entries[k] = target[across] + (n - (sorted.length - 1) / 2) * gap; });
  }
  return entries;
}

/** The drawing cut between layers into bands that follow each other like lines of text; null if too many edges
 * continue in the next band. */
function wrapped({ places, routes, frames, layers, isDown, boxes, arrows }, count) {
  const [along, across, breadth] = isDown ? ["y", "x", "width"] : ["x", "y", "height"];
  const starts = cuts(layers, count);
  const ends = starts.slice(1).map((start) => start - 1e-6).concat(Infinity);
  const bandOf = (at) => ends.findIndex((end) => at < end);
  const extents = starts.map(() => ({ low: Infinity, high: -Infinity }));
  const reach = (band, low, high) => {
    extents[band].low = Math.min(extents[band].low, low);
    extents[band].high = Math.max(extents[band].high, high);
  };
  for (const place of places.values()) {
    reach(bandOf(place[along]), place[across] - place[breadth] / 2, place[across] + place[breadth] / 2);
  }
  const pieces = routes.map((points) => piecesOf(points, along, across, bandOf, starts));
  for (const parts of pieces) for (const { band, points } of parts) for (const at of points) reach(band, at[across], at[across]);
  const lanes = starts.map(() => new Map()); // edges that continue from each band, by their source
  pieces.forEach((parts, k) => {
    for (const { band } of parts.slice(0, -1)) {
      if (!lanes[band].has(arrows[k].from)) lanes[band].set(arrows[k].from, lanes[band].size);
    }
  });
  if (lanes.some(({ size }) => size > LANE.most)) return null;
  const framed = frames.some(({ members }) => members.length) ? FRAME.title + FRAME.room : 0;
  const shift = [];
  let offset = 0;
  for (const [band, { low, high }] of extents.entries()) {
    shift.push({ along: -starts[band], across: offset - low });
    offset += high - low + 2 * LANE.first + LANE.each * lanes[band].size + framed;
  }
  const longest = Math.max(...starts.map((start, band) => (starts[band + 1] ?? layers.at(-1).to + GAPS.down.layers) - start));
  const shifted = (at, band) => ({ ...at, [along]: at[along] + shift[band].along, [across]: at[across] + shift[band].across });
  const margin = (lane) => LANE.first / 2 + LANE.each * lane;
  const newRoutes = pieces.map((parts, k) => parts.flatMap(({ band, points }, part) => {
    const here = points.map((at) => shifted(at, band));
    if (part === parts.length - 1) return here;
    const lane = lanes[band].get(arrows[k].from);
    const next = parts[part + 1];
    const into = shifted(next.points[0], next.band)[across];
    const [right, left] = [longest - GAPS.down.layers / 2 + margin(lane), -margin(lane) - 10];
    const between = extents[band].high + shift[band].across + LANE.first + LANE.each * lane + framed / 2;
    const turn = (a, c) => ({ [along]: a, [across]: c, isTurn: true });
    return [...here, turn(right, here.at(-1)[across]), turn(right, between), turn(left, between), turn(left, into)];
  }));
  const newPlaces = new Map([...places].map(([i, place]) => [i, shifted(place, bandOf(place[along]))]));
  const bands = new Map([...places].map(([i, place]) => [i, bandOf(place[along])]));
  return settled({ places: newPlaces, routes: newRoutes, frames, layers, isDown, boxes, arrows, bands });
}

/** The starts of the bands, chosen so that the longest band is as short as possible. */
function cuts(layers, count) {
  const total = layers.at(-1).to - layers[0].from;
  for (let length = total / count; ; length *= 1.03) {
    const starts = [layers[0].from];
    for (const { from, to } of layers) if (to - starts.at(-1) > length && from > starts.at(-1)) starts.push(from);
    if (starts.length <= count) return starts;
  }
}

/** The points of an edge through its bands. */
function piecesOf(points, along, across, bandOf, starts) {
  const pieces = [];
  for (const at of points) {
    const band = bandOf(at[along]);
    while (pieces.length && pieces.at(-1).band < band - 1) {
      const before = pieces.at(-1);
      pieces.push({ band: before.band + 1, points: [{ [along]: starts[before.band + 1], [across]: at[across] }] });
    }
    if (pieces.at(-1)?.band !== band) pieces.push({ band, points: [] });
    pieces.at(-1).points.push(at);
  }
  return pieces;
}

/** The drawing with rectangles for frames, shifted to begin at 0. */
function settled(drawing) {
  const { places, frames, layers, isDown, bands = new Map() } = drawing;
  const corners = [...places.values()].map(({ x, y, width, height }) => [x - width / 2, y - height / 2, x + width / 2, y + height / 2]);
  for (const points of drawing.routes) {
    for (const { x, y, label } of points) {
      const [beside, above] = label ? [label.width / 2, label.height / 2] : [0, 0];
      corners.push([x - beside, y - above, x + beside, y + above]);
    }
  }
  const inner = new Map();
  const rectangles = [];
  for (const { key, outer, text, members } of [...frames].reverse()) {
    const within = [...members.map((i) => [bands.get(i) ?? 0, places.get(i), 0]), ...(inner.get(key) ?? [])];
    for (const [band, parts] of Map.groupBy(within, ([at]) => at)) {
      const [left, top, right, bottom] = [
        Math.min(...parts.map(([, { x, width }]) => x - width / 2)) - FRAME.room,
        Math.min(...parts.map(([, { y, height }]) => y - height / 2)) - FRAME.title,
        Math.max(...parts.map(([, { x, width }]) => x + width / 2)) + FRAME.room,
        Math.max(...parts.map(([, { y, height }]) => y + height / 2)) + FRAME.room,
      ];
      const place = { x: (left + right) / 2, y: (top + bottom) / 2, width: right - left, height: bottom - top };
      rectangles.push({ key, text, ...place });
      corners.push([left, top, right, bottom]);
      if (outer !== null) inner.set(outer, [...(inner.get(outer) ?? []), [band, place]]);
    }
  }
  const [left, top] = [0, 1].map((k) => Math.min(...corners.map((corner) => corner[k])) - MARGIN);
  const [right, bottom] = [2, 3].map((k) => Math.max(...corners.map((corner) => corner[k])) + MARGIN);
  const move = (at) => ({ ...at, x: at.x - left, y: at.y - top });
  return {
    ...drawing,
    places: new Map([...places].map(([i, place]) => [i, move(place)])),
    routes: drawing.routes.map((points) => points.map(move)),
    rectangles: rectangles.reverse().map(move),
    layers: layers.map(({ from, to }) => ({ from: from - (isDown ? top : left), to: to - (isDown ? top : left) })),
    width: right - left,
    height: bottom - top,
  };
}

/** How much longer lines are than straight ones, relative to these. */
function detourOf(routes) {
  const length = (points) => points.slice(1).reduce((sum, { x, y }, k) => sum + Math.hypot(x - points[k].x, y - points[k].y), 0);
  const [own, straight] = [routes, routes.map((points) => [points[0], points.at(-1)])].map((lines) => lines.reduce((sum, points) => sum + length(points), 0));
  return own / straight - 1;
}
