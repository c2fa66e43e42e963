// How much of the graph is drawn when the page opens, and how high.

const BELOW = [72, 20]; // pixels of the window below the drawing, with its legend and without
const SHARE = { least: 0.35, usual: 0.72 }; // of the window, for the drawing: what is left of it, unless that is little
const LOWEST = 640; // pixels of a window; in a lower one, as when the page is enlarged, one scrolls anyway
const HEIGHTS = [0.9, 1.1]; // of the drawing, in those of the window: where there is less room than it takes
const TALLER = [1.5, 1.8, 2.2, 2.7]; // where there is nothing to fold, or nothing more
const NARROW = { panel: 600, boxes: 20, heights: 2 }; // pixels of a panel in which drawings are high anyway, and of how many boxes
// nothing is folded there, if the first of the taller ones are enough
const FEWEST = 6; // boxes less, for which it is worth to fold more
const FEWER = [18, 12, 8, 5]; // boxes besides variables, where more cannot be read

/** Fold nothing, or as little as can be read at once: of a small graph in a narrow panel rather nothing in a higher drawing. */
function openFor(parts, stage) {
  const { length } = parts.boxes;
  const ways = [
    ...(length > BOXES || record.isFolded ? [] : [() => parts.open()]),
    ...(parts.canFold ? [() => parts.fold()] : []),
    ...FEWER.filter((most) => most < length - FEWEST).map((most) => () => parts.fold(most)),
  ];
  const drawings = ways.map((fold) => {
    fold();
    return new Arrangements(parts.shown, sizeOf, labelOf);
  });
  const isRatherHigh = length <= NARROW.boxes && !record.isFolded && stage.clientWidth < NARROW.panel;
  const room = roomFor(stage);
  const opened = isRatherHigh ? [...room, ...HEIGHTS, ...TALLER.slice(0, NARROW.heights)] : room;
  const heights = [...room, ...HEIGHTS, ...(length > BOXES ? TALLER.slice(0, 1) : TALLER)];
  const tries = [...opened.map((height) => [1, height]), ...heights.map((height) => [ways.length, height])];
  let found = -1; // the last, which is of the fewest boxes
  for (const [count, height] of tries) {
    found = drawings.slice(0, count).findIndex((one) => readableAt(stage, one, [height]));
    if (found >= 0) break;
  }
  ways.at(found)?.();
}

/** How high the drawing is best, in heights of the window: so that all that belongs to a step is seen with it. */
function roomFor(stage) {
  const above = stage.getBoundingClientRect().top + scrollY;
  const sentence = byId("explanation");
  const covered = getComputedStyle(sentence).position === "sticky" ? sentence.offsetHeight : 0;
  const left = BELOW.map((below) => (innerHeight - above - below - covered) / innerHeight);
  return left[0] < SHARE.least ? [SHARE.usual] : left;
}

/** The arrangement in the least height in which everything can be read; undefined if there is none. */
function readableIn(stage, ways) {
  const taller = ways.shown.boxes.length > BOXES ? TALLER.slice(0, 1) : TALLER;
  return readableAt(stage, ways, [...roomFor(stage), ...HEIGHTS, ...taller]);
}

function readableAt(stage, ways, heights) {
  for (const height of heights) {
    const found = ways.best(stage.clientWidth, height * Math.max(innerHeight, LOWEST));
    if (found.scale >= READABLE) return found;
  }
  return undefined;
}
