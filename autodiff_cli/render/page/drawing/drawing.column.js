// The layout for a narrow panel: a column of boxes in the order in which they are computed. Lines that pass other boxes
// run at the sides.

const ROWS = { gap: 46, flat: 31, each: 3.5, high: 5, low: 10, apart: 4, numbers: 2 }; // between rows, more for each track of lines
// that turn there, from a row to its first track and from its last track to the next row, between lines on one track, and how many
// numbers below each other have room besides the first
const SIDE = { first: 10, each: 7 }; // of the lines at the sides

/** Boxes in rows of a maximum width; a box stands beside others if it does not depend on them. */
function inColumn({ boxes, arrows, frames }, sizes, width, isFlat) {
  const order = inOrder(boxes, arrows);
  const row = new Map();
  const rows = [];
  const sourcesOf = Map.groupBy(arrows, ({ to }) => to);
  const gap = GAPS.down.boxes;
  const between = isFlat ? ROWS.flat : ROWS.gap;
  for (const box of order) {
    const { width: own, height } = sizes.get(box.id);
    const last = rows.at(-1);
    const isAfter = (sourcesOf.get(box.id) ?? []).some(({ from }) => row.get(from) === rows.length - 1);
    if (last && !isAfter && last.width + gap + own <= width) {
      last.boxes.push(box);
      last.width += gap + own;
      last.height = Math.max(last.height, height);
    } else rows.push({ boxes: [box], width: own, height });
    row.set(box.id, rows.length - 1);
  }
  const lanes = lanesOf(arrows, row, rows);
  const from = Map.groupBy(arrows.filter((arrow) => arrow.label && row.get(arrow.to) === row.get(arrow.from) + 1), (arrow) => arrow.from);
  const below = (inside) => { // room for numbers below each other, on lines that leave a box together
    const most = Math.max(...inside.map(({ id }) => from.get(id)?.length ?? 0));
    return Math.min(Math.max(most - 1, 0), ROWS.numbers) * between * 0.7;
  };
  const places = new Map();
  for (const { boxes: inside, width: taken } of rows) {
    let x = -taken / 2;
    for (const { id } of inside) {
      const size = sizes.get(id);
      places.set(id, { x: x + size.width / 2, y: 0, ...size });
      x += size.width + gap;
    }
  }
  const half = Math.max(...rows.map((one) => one.width)) / 2 + SIDE.first;
  const sideOf = (lane) => (lane % 2 ? 1 : -1) * (half + SIDE.each * Math.floor(lane / 2));
  const ends = endsOf(arrows, places, row);
  // Between two rows, lines turn on tracks: those that go to a side first, then those that come down into the next row.
  const nets = { out: rows.map(() => new Map()), into: rows.map(() => new Map()) };
  const reach = (kind, line, key, ...xs) => {
    const net = nets[kind][line].get(key) ?? { xs: [] };
    nets[kind][line].set(key, net);
    net.xs.push(...xs);
    return net;
  };
  const turns = arrows.map(({ from, to }, k) => {
    const [before, after] = [row.get(from), row.get(to) - 1];
    if (before === after) return { into: reach("into", after, from, ends[k].from, ends[k].to) };
    const side = sideOf(lanes.get(from));
    return { side, out: reach("out", before, from, ends[k].from, side), into: reach("into", after, `${from} aside`, side, ends[k].to) };
  });
  let y = 0;
  rows.forEach((line, k) => {
    const [outs, intos] = [tracksOf([...nets.out[k].values()]), tracksOf([...nets.into[k].values()])];
    Object.assign(line, { top: y, bottom: y + line.height, intos });
    for (const { id } of line.boxes) places.get(id).y = y + line.height / 2;
    y += line.height + between + ROWS.each * (outs + intos) + below(line.boxes);
  });
  const routes = arrows.map(({ from, to }, k) => {
    const [from_, into_] = [coreOf(places.get(from)), coreOf(places.get(to))];
    const first = { x: ends[k].from, y: from_.y + from_.height / 2 };
    const last = { x: ends[k].to, y: into_.y - into_.height / 2, isTurn: true };
    const turn = (x, at) => ({ x, y: at, isTurn: true });
    // Lines turn between rows, so that no box hides them.
    const above = rows[row.get(to) - 1];
    const { side, out, into } = turns[k];
    const low = rows[row.get(to)].top - ROWS.low - ROWS.each * (above.intos - 1 - into.track);
    if (!out) return [first, turn(first.x, low), turn(last.x, low), last];
    const high = rows[row.get(from)].bottom + ROWS.high + ROWS.each * out.track;
    return [first, turn(first.x, high), turn(side, high), turn(side, low), turn(last.x, low), last];
  });
  const layers = rows.map(({ boxes: [{ id }] }) => ({ from: places.get(id).y, to: places.get(id).y }));
  return settled({ places, routes, frames: frames.map((frame) => ({ ...frame, members: [] })), layers, isDown: true, boxes, arrows });
}

/** Boxes ordered so that the inputs of each are as close before it as possible. */
function inOrder(boxes, arrows) {
  const sources = Map.groupBy(arrows, ({ to }) => to);
  const byId = new Map(boxes.map((box) => [box.id, box]));
  const ordered = new Set();
  const waiting = boxes.map(({ id }) => id).sort((a, b) => a - b); // the output is visited first
  while (waiting.length) {
    const i = waiting.at(-1);
    const missing = (sources.get(i) ?? []).map(({ from }) => from).filter((j) => !ordered.has(j));
    if (missing.length) {
      // Inputs that are operations come before variables and constants.
      waiting.push(...missing.sort((a, b) => Number(sources.has(a)) - Number(sources.has(b)) || b - a));
      continue;
    }
    waiting.pop();
    ordered.add(i);
  }
  return [...ordered].map((i) => byId.get(i));
}

/** Assigns a lane at the side to each box whose lines pass other boxes. */
function lanesOf(arrows, row, rows) {
  const ends = [];
  const lanes = new Map();
  const passing = Map.groupBy(arrows.filter(({ from, to }) => row.get(to) > row.get(from) + 1), ({ from }) => from);
  for (const [from, edges] of [...passing].sort(([a], [b]) => row.get(a) - row.get(b))) {
    const start = row.get(from);
    let lane = ends.findIndex((end) => end < start);
    if (lane < 0) lane = ends.length;
    ends[lane] = Math.max(...edges.map(({ to }) => row.get(to)));
    lanes.set(from, lane);
  }
  return lanes;
}

/** Where each line leaves its box and enters the next: where a line leaves above the entry of another, it moves aside. */
function endsOf(arrows, places, row) {
  const entries = entriesOf(arrows, places, "x", "width");
  const exits = new Map(arrows.map(({ from }) => [from, coreOf(places.get(from)).x]));
  for (const [from, x] of exits) {
    const foreign = arrows.flatMap((arrow, k) => (arrow.from !== from && row.get(arrow.to) === row.get(from) + 1 ? [entries[k]] : []));
    const room = coreOf(places.get(from)).width / 2 - ROWS.apart;
    const shifts = Array.from({ length: 2 * Math.floor(room) + 1 }, (_, k) => (k % 2 ? -1 : 1) * Math.ceil(k / 2));
    const clear = (shift) => Math.min(ROWS.apart, ...foreign.map((other) => Math.abs(other - x - shift)));
    exits.set(from, x + shifts.reduce((best, shift) => (clear(shift) > clear(best) ? shift : best)));
  }
  return arrows.map(({ from }, k) => ({ from: exits.get(from), to: entries[k] }));
}

/** Give each net a track of its own where it lies beside another (left-edge algorithm); gives the number of tracks. */
function tracksOf(nets) {
  const tracks = [];
  const spans = nets.map((net) => ({ net, from: Math.min(...net.xs), to: Math.max(...net.xs) }));
  for (const { net, from, to } of spans.sort((a, b) => a.from - b.from)) {
    const free = tracks.findIndex((end) => end + ROWS.apart < from);
    net.track = free < 0 ? tracks.length : free;
    tracks[net.track] = to;
  }
  return tracks.length;
}
