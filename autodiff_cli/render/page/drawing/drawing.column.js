// The layout for a narrow panel: a column of boxes in the order in which they are computed. Lines that pass other boxes
// run at the sides.

const ROWS = { gap: 46, flat: 31, each: 3.5, low: 12, numbers: 2 }; // between rows, more for each line that turns there, where lines from
// the row above turn, and how many numbers below each other have room besides the first
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
    } else rows.push({ boxes: [box], width: own, height, turns: new Set() });
    row.set(box.id, rows.length - 1);
  }
  const lanes = lanesOf(arrows, row, rows);
  const from = Map.groupBy(arrows.filter((arrow) => arrow.label && row.get(arrow.to) === row.get(arrow.from) + 1), (arrow) => arrow.from);
  const below = (inside) => { // room for numbers below each other, on lines that leave a box together
    const most = Math.max(...inside.map(({ id }) => from.get(id)?.length ?? 0));
    return Math.min(Math.max(most - 1, 0), ROWS.numbers) * between * 0.7;
  };
  let y = 0;
  const places = new Map();
  for (const line of rows) {
    const { boxes: inside, width: taken, height, turns } = line;
    Object.assign(line, { top: y, bottom: y + height });
    let x = -taken / 2;
    for (const { id } of inside) {
      const size = sizes.get(id);
      places.set(id, { x: x + size.width / 2, y: y + height / 2, ...size });
      x += size.width + gap;
    }
    y += height + between + ROWS.each * turns.size + below(inside);
  }
  const half = Math.max(...rows.map((one) => one.width)) / 2 + SIDE.first;
  const entries = entriesOf(arrows, places, "x", "width");
  const direct = rows.map(() => []); // the boxes whose lines turn above each row, coming from the row before
  for (const { from, to } of arrows) {
    const sources = direct[row.get(to)];
    if (row.get(to) === row.get(from) + 1 && !sources.includes(from)) sources.push(from);
  }
  const routes = arrows.map(({ from, to }, k) => {
    const [start, end] = [places.get(from), places.get(to)];
    const [from_, into_] = [coreOf(start), coreOf(end)];
    const first = { x: from_.x, y: from_.y + from_.height / 2 };
    const last = { x: entries[k], y: into_.y - into_.height / 2 };
    const lane = lanes.get(from);
    const turn = (x, at) => ({ x, y: at, isTurn: true });
    // Lines turn between rows, so that no box hides them.
    const [{ bottom }, { top }] = [rows[row.get(from)], rows[row.get(to)]];
    const [out, into] = [bottom + 5 + ROWS.each * (lane % 5), top - 10 - ROWS.each * (lane % 5)];
    if (row.get(to) === row.get(from) + 1) {
      const low = top - ROWS.low - ROWS.each * (direct[row.get(to)].indexOf(from) % 4);
      return [first, turn(first.x, low), turn(last.x, low), { ...last, isTurn: true }];
    }
    const side = (lane % 2 ? 1 : -1) * (half + SIDE.each * Math.floor(lane / 2));
    return [first, turn(first.x, out), turn(side, out), turn(side, into), turn(last.x, into), { ...last, isTurn: true }];
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
    rows[start].turns.add(lane);
    for (const { to } of edges) rows[row.get(to) - 1].turns.add(lane);
  }
  return lanes;
}
