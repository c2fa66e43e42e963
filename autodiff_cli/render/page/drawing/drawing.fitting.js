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
  let [best, largest] = [null, 0];
  for (const fold of ways) {
    fold();
    const { scale } = new Arrangements(parts.shown, sizeOf, labelOf).best(clientWidth, clientHeight);
    if (scale >= READABLE) return;
    if (scale > largest) [best, largest] = [fold, scale];
  }
  best?.();
}
