// Fitting: how much of the graph is folded when the page opens.

const FEWER = [18, 12, 8, 5, 3]; // numbers of boxes, not counting variables, that are tried if more are unreadable
const CLOSE = [3, 2, 1]; // edges from the node of a step to the boxes that a close-up shows
const MOST_CLOSE = 16; // boxes of a close-up, unless a step needs more
const BESIDE = 5; // number of boxes beside an open part, if more are unreadable

const arrangements = new WeakMap(); // of each computation, by the folded parts and the widths of numbers

/** The possible arrangements of the visible parts, cached, so that a step back finds them again. */
function waysOf(parts) {
  const { computation } = playback;
  if (!arrangements.has(computation)) arrangements.set(computation, new Map());
  const known = arrangements.get(computation);
  const key = JSON.stringify([...[parts.opened, parts.closed, parts.sums, parts.neverFolded].map((ids) => [...ids].sort()), [...widest], parts.closeUp]);
  if (!known.has(key)) known.set(key, new Arrangements(parts.shown, sizeOf, labelOf));
  return known.get(key);
}

/** Fold as little as possible so that the whole drawing is readable in its panel; returns its arrangements. */
function openFor(parts, panel) {
  const { length } = parts.boxes;
  return foldBest(parts, panel, [
    ...(length > BOXES || record.isFolded ? [] : [() => parts.open()]),
    ...(parts.canFold ? [() => parts.fold()] : []),
    ...[false, true].flatMap((hasInputs) => FEWER.filter((most) => most < length).map((most) => () => parts.fold(most, hasInputs))),
  ]);
}

/** Open the part that hides a node, and fold more elsewhere if the drawing is not readable otherwise; returns its
 * arrangements. */
function openAround(i, parts, panel) {
  const { state } = parts;
  return foldBest(parts, panel, [() => { parts.state = state; }, () => parts.fold(BESIDE)].map((fold) => () => {
    fold();
    parts.reveal(i);
  }));
}

/** Draw only the neighbourhood of a node: as much as is readable, and at least the nodes of its step; returns its
 * arrangements. */
function closeUpOf(i, parts, panel) {
  const ways = CLOSE.map((edges) => () => { parts.closeUp = { node: i, edges }; });
  const few = ways.filter((draw) => {
    draw();
    return parts.shown.boxes.length <= MOST_CLOSE;
  });
  return foldBest(parts, panel, few.length ? few : ways.slice(-1));
}

/** Fold in the first of several ways in which the drawing is readable, else in the one in which it is largest. */
function foldBest(parts, { clientWidth, clientHeight }, ways) {
  const drawings = [];
  let [best, largest] = [0, 0];
  // To choose the folded parts, the details that take the least room are enough; shapes in place of grids come last.
  for (const details of [["bare"], ["plain"]]) {
    let most = Infinity; // boxes that may be readable, by those that were not: fewer boxes are not that much larger
    for (const [k, fold] of ways.entries()) {
      fold();
      const { length } = parts.shown.boxes;
      if (length > most) continue;
      drawings[k] ??= waysOf(parts);
      const { scale } = drawings[k].best(clientWidth, clientHeight, details, true);
      if (scale >= READABLE) return drawings[k];
      if (drawings[k].places <= MOST_LAYERED.readable) most = length * Math.sqrt(scale / READABLE);
      if (scale > largest) [best, largest] = [k, scale];
    }
    if (!drawsArrays()) break;
  }
  ways[best]?.();
  return drawings[best];
}
