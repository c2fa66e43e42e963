// Fitting: how much of the graph is folded when the page opens.

const FEWER = [18, 12, 8, 5, 3]; // numbers of boxes, not counting variables, that are tried if more are unreadable

/** Fold as little as possible so that the whole drawing is readable in its panel. */
function openFor(parts, { clientWidth, clientHeight }) {
  const { length } = parts.boxes;
  const ways = [
    ...(length > BOXES || record.isFolded ? [] : [() => parts.open()]),
    ...(parts.canFold ? [() => parts.fold()] : []),
    ...FEWER.filter((most) => most < length).map((most) => () => parts.fold(most)),
  ];
  const drawings = [];
  let [best, largest] = [0, 0];
  // To decide what is folded, the details that take the least room are enough; shapes in place of grids come last.
  for (const details of [["bare"], ["plain"]]) {
    for (const [k, fold] of ways.entries()) {
      fold();
      drawings[k] ??= new Arrangements(parts.shown, sizeOf, labelOf);
      const { scale } = drawings[k].best(clientWidth, clientHeight, details);
      if (scale >= READABLE) return;
      if (scale > largest) [best, largest] = [k, scale];
    }
    if (!record.nodes.some(({ value }) => Array.isArray(value))) break;
  }
  ways[best]?.();
}
