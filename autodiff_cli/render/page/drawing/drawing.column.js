// The layout for a narrow panel: a column of boxes in the order in which they are computed. Lines pass other boxes beside them.

const ROWS = { gap: 46, flat: 31, each: 3.5, high: 5, low: 10, apart: 4, numbers: 2 }; // between rows, more for each track of lines
// that turn there, from a row to its first track and from its last track to the next row, between lines on one track, and how many
// numbers below each other have room besides the first
const SIDE = { box: 8, each: 7 }; // pixels from a line that passes boxes to these, and to other lines

/** Boxes in rows of a maximum width; a box stands beside others if it does not depend on them. They are in the order of their
 * `depth`, or else each is close to what it depends on. */
function inColumn({ boxes, arrows, frames }, sizes, width, isFlat, depth) {
  const order = inOrder(boxes, arrows);
  if (depth) order.sort((a, b) => depth.get(a.id) - depth.get(b.id));
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
  const ends = endsOf(arrows, places, row);
  const lanes = lanesOf(arrows, row, places, ends);
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
    const side = lanes.get(from);
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

/** How many boxes there are at most between each box and its variables; variables are just before their first user. */
function depthsOf({ boxes, arrows }) {
  const users = Map.groupBy(arrows, ({ from }) => from);
  const depths = stepsTo(inOrder(boxes, arrows), arrows);
  for (const [id, depth] of depths) if (depth === 0) depths.set(id, Math.min(...(users.get(id) ?? []).map(({ to }) => depths.get(to))) - 1);
  return depths;
}

/** How many arrows lead to each box at most, of boxes in the order of the arrows. */
function stepsTo(ordered, arrows) {
  const steps = new Map();
  const sources = Map.groupBy(arrows, ({ to }) => to);
  for (const { id } of ordered) steps.set(id, Math.max(...(sources.get(id) ?? []).map(({ from }) => steps.get(from) + 1), 0));
  return steps;
}

/** Where the lines of each box that pass others go down: where they are shortest, between boxes or beside them, away from other lines.
 * Those that pass few rows are placed first. */
function lanesOf(arrows, row, places, ends) {
  const lanes = new Map();
  const isBefore = (a, b) => a.left - b.left;
  const line = (from, x, start, end = start + 1) => ({ from, left: x - SIDE.each, right: x + SIDE.each, start, end });
  const inside = [...row].map(([id, at]) => ({ ...places.get(id), at })).map(({ x, width, at }) => ({ left: x - width / 2 - SIDE.box, right: x + width / 2 + SIDE.box, start: at, end: at }));
  const short = arrows.flatMap(({ from, to }, k) => [line(from, ends[k].from, row.get(from)), line(from, ends[k].to, row.get(to) - 1)]);
  const taken = [...inside, ...short].sort(isBefore); // with the rows between which they are
  const passing = arrows.map((arrow, k) => ({ ...arrow, k, start: row.get(arrow.from), end: row.get(arrow.to) })).filter(({ start, end }) => end > start + 1);
  const nets = [...Map.groupBy(passing, ({ from }) => from)].map(([from, lines]) => ({ from, xs: lines.flatMap(({ k }) => [ends[k].from, ends[k].to]), start: lines[0].start, end: Math.max(...lines.map(({ end }) => end)) }));
  for (const { from, xs, start, end } of nets.sort((a, b) => a.end - a.start - (b.end - b.start))) {
    const blocks = joinedBlocks(taken.filter((other) => other.from !== from && other.end > start && other.start < end));
    const free = [...xs, ...blocks.flatMap(({ left, right }) => [left, right])].filter((x) => blocks.every(({ left, right }) => x <= left || x >= right));
    const lengths = new Map(free.map((x) => [x, xs.reduce((sum, other) => sum + Math.abs(x - other), 0)]));
    lanes.set(from, free.reduce((best, x) => (lengths.get(x) < lengths.get(best) ? x : best)));
    taken.push(line(from, lanes.get(from), start, end));
    taken.sort(isBefore);
  }
  return lanes;
}

/** Stretches, in order, with those joined that overlap. */
function joinedBlocks(stretches) {
  const blocks = [];
  for (const { left, right } of stretches) {
    const last = blocks.at(-1);
    if (last && left < last.right) last.right = Math.max(last.right, right);
    else blocks.push({ left, right });
  }
  return blocks;
}

/** Where each line leaves its box and enters the next: where a line leaves above the entry of another, it moves aside. */
function endsOf(arrows, places, row) {
  const entries = entriesOf(arrows, places, "x", "width");
  const exits = new Map(arrows.map(({ from }) => [from, coreOf(places.get(from)).x]));
  for (const [from, x] of exits) {
    const foreign = arrows.flatMap((arrow, k) => (arrow.from !== from && row.get(arrow.to) === row.get(from) + 1 ? [entries[k]] : []));
    if (foreign.every((other) => Math.abs(other - x) >= ROWS.apart)) continue;
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
