// Fitting: how much of the graph is folded when the page opens, and the height of the drawing.

const BELOW = [72, 20]; // pixels of the window below the drawing, with its legend and without
const SHARE = { least: 0.35, usual: 0.72 }; // of the window height: the drawing gets the remaining height, but at least and usually these shares
const LOWEST = 640; // pixels; in a lower window, for example on a magnified page, people scroll anyway
const HEIGHTS = [0.9, 1.1]; // of the drawing, in window heights, if it does not fit otherwise
const TALLER = [1.5, 1.8, 2.2, 2.7]; // further heights, if nothing more can be folded
const NARROW = { panel: 600, boxes: 20, heights: 2 }; // in a panel narrower than this, a graph of at most so many boxes
// is not folded if the first `heights` of TALLER suffice
const FEWEST = 6; // folding more must save at least this many boxes
const FEWER = [18, 12, 8, 5]; // numbers of boxes, not counting variables, that are tried if more are unreadable

/** Fold as little as possible so that the drawing is readable; in a narrow panel a small graph becomes higher instead. */
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
  let chosenWay = -1; // the last one has the fewest boxes
  for (const [count, height] of tries) {
    chosenWay = drawings.slice(0, count).findIndex((one) => readableAt(stage, one, [height]));
    if (chosenWay >= 0) break;
  }
  ways.at(chosenWay)?.();
}

/** How many pixels of the window the transport bar and the sentence of the step cover, at the top and at the bottom. */
function docked() {
  const [bar, sentence] = [document.querySelector(".controls"), byId("explanation")];
  const isBelow = getComputedStyle(bar).position === "fixed";
  return isBelow ? { top: 0, bottom: bar.offsetHeight + sentence.offsetHeight } : { top: bar.offsetHeight, bottom: 0 };
}

/** The preferred height of the drawing in window heights, so that a step and its explanation are visible together. */
function roomFor(stage) {
  const above = stage.getBoundingClientRect().top + scrollY;
  const covered = docked().bottom;
  const left = BELOW.map((below) => (innerHeight - above - below - covered) / innerHeight);
  return left[0] < SHARE.least ? [SHARE.usual] : left;
}

/** The arrangement of the smallest height in which everything is readable; undefined if there is none. */
function readableIn(stage, ways) {
  const taller = ways.shown.boxes.length > BOXES ? TALLER.slice(0, 1) : TALLER;
  return readableAt(stage, ways, [...roomFor(stage), ...HEIGHTS, ...taller]);
}

function readableAt(stage, ways, heights) {
  for (const height of heights) {
    const arrangement = ways.best(stage.clientWidth, height * Math.max(innerHeight, LOWEST));
    if (arrangement.scale >= READABLE) return arrangement;
  }
  return undefined;
}
