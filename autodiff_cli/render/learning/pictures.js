// The predictions of a fit at an epoch: a curve through the data, regions of classes, or prediction against target.

const recording = record.addition;
recording.evaluator = evaluator; // another one while another network is trained
const CELLS = 40; // of a side, for regions
const SHADES = 5; // from undecided to certain
const KINDS = 6; // of markers of classes
const MARKERS = [ // paths of size 2 around 0, so that classes can be told apart without colours
  "M-1 0A1 1 0 0 1 1 0A1 1 0 0 1 -1 0Z", "M-.9 -.9H.9V.9H-.9Z", "M0 -1.2L1.1 .8H-1.1Z", "M0 -1.3L1.3 0L0 1.3L-1.3 0Z",
  "M0 1.2L1.1 -.8H-1.1Z", "M-1.2 -.4H-.4V-1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2Z",
];

const MARKER_NAMES = ["circles", "squares", "triangles", "diamonds", "inverted triangles", "crosses"];

/** The marker of a class at a point. */
function marker(kind, x, y, radius) {
  const transform = `translate(${x} ${y}) scale(${radius})`;
  return svgElement("path", { class: `marker class-${kind % KINDS}`, d: MARKERS[kind % KINDS], transform });
}

/** The marker of a class for a line of text. */
function markerInText(kind) {
  return swatch("-1.5 -1.5 3 3", 12, 12, marker(kind, 0, 0, 1), MARKER_NAMES[kind % KINDS]);
}

/** A small drawing for a line of text, with what a screen reader says in its place. */
function swatch(viewBox, width, height, shape, name) {
  return svgElement("svg", { class: "swatch", viewBox, width, height, role: "img", "aria-label": name }, [shape]);
}

/** The markers of the classes with their names, for a line of text. */
function legendOfClasses() {
  return labels.flatMap((label, k) => [k ? ", " : "", markerInText(k), ` ${label}`]);
}

const pictures = document.querySelector(".pictures");

const roomOfPicture = () => (pictures.querySelector("figure:not([hidden])") ?? pictures).clientWidth;
let drawnIn = roomOfPicture(); // pixels

/** A chart in the room of a picture. */
const framed = (name, x, y) => chart(name, x, y, drawnIn);

/** The name of a column with its unit, for an axis. */
const withUnit = (name) => (Object.hasOwn(recording.units, name) ? `${name} (${recording.units[name]})` : name);

/** A picture with words below it. */
function picture(id, svg, words) {
  byId(id).replaceChildren(svg, htmlElement("figcaption", words));
}

/** The columns of the k-th row on the page. */
const rowAt = (k) => Object.fromEntries(Object.entries(recording.columns).map(([name, list]) => [name, list[k]]));

/** The prediction at a point: a number, or the probability of each class. */
function predicted(point) {
  return linked(nested(recording.evaluator.forward(point)[recording.prediction]));
}

function linked(score) {
  if (recording.link === "sigmoid") return 1 / (1 + Math.exp(-score));
  if (recording.link === "exp") return Math.exp(score);
  if (recording.link !== "softmax") return score;
  const most = Math.max(...score);
  const parts = score.map((x) => Math.exp(x - most));
  const whole = parts.reduce((a, b) => a + b, 0);
  return parts.map((x) => x / whole);
}

const rowPoints = recording.rows.map((_, k) => rowAt(k));
const isShown = recording.prediction !== null && ["", "sigmoid", "exp", "softmax"].includes(recording.link);

/** The target of every row: a number, or the number of its class. It depends on no parameter. */
const targets = recording.target === null ? [] : rowPoints.map((row) => {
  return nested(evaluator.forward({ ...parametersAt(recording.epochs.length - 1), ...row })[recording.target]);
});
const kinds = [...new Set(targets.filter((target) => typeof target === "number"))].sort((a, b) => a - b);
const isClasses = recording.classes !== null || kinds.length === 2;
const labels = recording.classes ?? kinds.map((kind) => brief(kind));

/** The parameters of an epoch, by name, arrays as nested lists. */
function parametersAt(k) {
  return parametersOf(recording.epochs[k].theta);
}

/** The number of elements of arrays in a shape. */
function countIn(shape) {
  return shape.reduce((a, b) => a * b, 1);
}

/** The parameters of a vector, by name, arrays as nested lists. */
function parametersOf(theta) {
  let begin = 0;
  const free = recording.names.map((name, at) => {
    const shape = recording.shapes[at];
    const flat = theta.slice(begin, (begin += countIn(shape)));
    return [name, shape.length ? shape.reduceRight((list, length, axis) => (axis ? chunks(list, length) : list), flat) : flat[0]];
  });
  return { ...recording.fixed, ...Object.fromEntries(free) };
}

/** Which class a row belongs to. */
const classOf = (k) => (recording.classes ? targets[k] : kinds.indexOf(targets[k]));

/** The predicted class, and the certainty of the prediction, from 0 to 1. */
function decided(prediction) {
  if (Array.isArray(prediction)) {
    const most = prediction.indexOf(Math.max(...prediction));
    const even = 1 / prediction.length;
    return [most, (prediction[most] - even) / (1 - even)];
  }
  const [low, high] = kinds;
  const place = (prediction - (low + high) / 2) / ((high - low) / 2);
  return [place > 0 ? 1 : 0, Math.min(1, Math.abs(place))];
}

/** Round numbers along a range of logarithms: powers of ten, or where those are few also 2 and 5 times them. */
function logTicks([low, high]) {
  const powers = ticks([low, high], MOST_TICKS);
  const decades = Array.from({ length: Math.ceil(high) - Math.floor(low) }, (_, k) => Math.floor(low) + k);
  const all = decades.flatMap((power) => [1, 2, 5].map((factor) => power + Math.log10(factor))).filter((at) => at >= low && at <= high);
  return (powers.every(Number.isInteger) ? powers : all).map((at) => [at, toDigits(10 ** at, TICK_DIGITS)]);
}

function drawLoss(k) {
  const { epochs, step } = recording;
  const losses = epochs.flatMap(({ loss, validation }) => (validation === null ? [loss] : [loss, validation]));
  const isLog = losses.every((x) => x > 0) && Math.max(...losses) > 50 * Math.min(...losses);
  const height = (x) => (isLog ? Math.log10(x) : x);
  const range = around(losses.map(height), 0.05);
  const { svg, toX, toY } = framed(`The loss, ${step} by ${step}`, [step, [epochs[0].number, Math.max(1, epochs.at(-1).number)]],
    isLog ? ["loss, logarithmic", range, logTicks(range)] : ["loss", range]);
  const points = (key) => epochs.map((epoch) => [toX(epoch.number), epoch[key] === null ? NaN : toY(height(epoch[key]))]);
  svg.append(svgElement("path", { class: "loss", d: line(points("loss")) }));
  if (epochs.some(({ validation }) => validation !== null)) {
    svg.append(svgElement("path", { class: "validation", d: line(points("validation")) }));
  }
  const [x, y] = points("loss")[k];
  svg.append(...dot("here", x, y, 6));
  const { validation } = epochs[k];
  const heldOut = validation === null ? "" : `; dashed: held-out rows, ${brief(validation)}`;
  picture("loss-picture", svg, `loss ${brief(epochs[k].loss)}${heldOut}`);
}

/** The predictions at the parameters of an epoch; the selected row is highlighted. */
function drawFit(parameters, selected) {
  byId("fit-picture").hidden = !isShown || targets.some(Array.isArray);
  if (byId("fit-picture").hidden) return;
  const { predictors } = recording;
  if (predictors.length === 1 && !recording.classes) drawCurve(parameters, predictors[0], selected);
  else if (predictors.length === 2 && isClasses) drawRegions(parameters, predictors, selected);
  else drawAgainst(parameters, selected);
}

function drawCurve(parameters, name, selected) {
  const { svg, plot, toX, toY, curve } = curveChart(name, "the fit", selected);
  plot.append(svgElement("path", { class: "fitted", d: curve(parameters) }));
  svg.append(...dot("selected", toX(recording.columns[name][selected]), toY(targets[selected]), 7));
  picture("fit-picture", svg, `${recording.targetName}: the data and the fit`);
}

/** The range of the targets, and of the predictions of the first epoch that are not far from them. */
function heights() {
  const [low, high] = around(targets, 0.5);
  const first = parametersAt(0);
  return around([...targets, ...rowPoints.map((row) => Math.max(low, Math.min(high, predicted({ ...first, ...row }))))], 0.15);
}

/** A chart of the data over a predictor, and the curve of parameters on it, with other predictors as in the row. */
function curveChart(name, what, selected) {
  const xs = recording.columns[name];
  const range = around(xs, 0.03);
  const grid = samplesOf(range);
  const { svg, plot, toX, toY } = framed(`${recording.targetName} over ${name}, and ${what}`, [withUnit(name), range], [withUnit(recording.targetName), heights()]);
  xs.forEach((x, k) => svg.append(...dot("point", toX(x), toY(targets[k]), 3)));
  const curve = (parameters) => line(grid.map((x) => [toX(x), toY(predicted({ ...rowPoints[selected], ...parameters, [name]: x }))]));
  return { svg, plot, toX, toY, curve };
}

/** Cells as one path for each kind and shade: the `share` of a cell is from 0 to 1, and nan for one that is left out. */
function shadedCells(cells, width, height, shades, [faintest, range]) {
  const paths = new Map();
  for (const { kind, share, x, y } of cells.filter((cell) => Number.isFinite(cell.share))) {
    const key = `${kind} ${Math.min(shades - 1, Math.floor(share * shades))}`;
    const cell = `M${x.toFixed(1)} ${y.toFixed(1)}h${width.toFixed(2)}v${height.toFixed(2)}h${(-width).toFixed(2)}z`;
    paths.set(key, (paths.get(key) ?? "") + cell);
  }
  return [...paths].map(([key, d]) => {
    const [kind, shade] = key.split(" ").map(Number);
    return svgElement("path", { class: `class-${kind % KINDS}`, d, "fill-opacity": (faintest + (range * shade) / shades).toFixed(2) });
  });
}

function drawRegions(parameters, [first, second], selected) {
  const [xs, ys] = [recording.columns[first], recording.columns[second]];
  const [wide, high] = [around(xs, 0.08), around(ys, 0.08)];
  const { svg, toX, toY } = framed(`Regions over ${first} and ${second}`, [withUnit(first), wide], [withUnit(second), high]);
  const at = (side, k) => between(side, (k + 0.5) / CELLS);
  const [width, height] = [(toX(wide[1]) - toX(wide[0])) / CELLS, (toY(high[0]) - toY(high[1])) / CELLS];
  const cells = Array.from({ length: CELLS ** 2 }, (_, k) => {
    const [x, y] = [at(wide, k % CELLS), at(high, Math.floor(k / CELLS))];
    const [kind, share] = decided(predicted({ ...rowPoints[selected], ...parameters, [first]: x, [second]: y }));
    return { kind, share, x: toX(x) - width / 2, y: toY(y) - height / 2 };
  });
  svg.append(...shadedCells(cells, width, height, SHADES, [0.1, 0.45]));
  let hits = 0;
  xs.forEach((x, k) => {
    const kind = classOf(k);
    hits += decided(predicted({ ...parameters, ...rowPoints[k] }))[0] === kind;
    const place = marker(kind, toX(x), toY(ys[k]), 4);
    place.append(svgElement("title", {}, labels[kind]));
    svg.append(place);
  });
  svg.append(...dot("selected", toX(xs[selected]), toY(ys[selected]), 8));
  picture("fit-picture", svg, [`${recording.targetName}: `, ...legendOfClasses(), `; ${hits} of ${xs.length} rows are in their region`]);
}

function drawAgainst(parameters, selected) {
  const predictions = rowPoints.map((row) => predicted({ ...parameters, ...row }));
  if (recording.classes) {
    drawShares(predictions, selected);
    return;
  }
  const range = around([...targets, ...predictions], 0.05);
  const { svg, toX, toY } = framed("Prediction against target", [withUnit(recording.targetName), range], ["fit", range]);
  svg.append(svgElement("path", { class: "diagonal", d: line(range.map((x) => [toX(x), toY(x)])) }));
  targets.forEach((x, k) => svg.append(...dot("point", toX(x), toY(predictions[k]), 3)));
  svg.append(...dot("selected", toX(targets[selected]), toY(predictions[selected]), 7));
  picture("fit-picture", svg, "prediction against target; on the dashed line they are equal");
}

/** How probable each row's own class is. */
function drawShares(predictions, selected) {
  const { svg, toX, toY } = framed("Probability of each row's own class", ["row", [1, recording.count]], ["probability", [0, 1]]);
  predictions.forEach((shares, k) => {
    const [x, y] = [toX(recording.rows[k]), toY(shares[targets[k]])];
    if (Number.isFinite(y)) svg.append(marker(targets[k], x, y, 3.5));
    if (k === selected) svg.append(...dot("selected", x, y, 8));
  });
  const hits = predictions.filter((shares, k) => decided(shares)[0] === targets[k]).length;
  const text = `; ${hits} of ${predictions.length} rows are classified correctly`;
  picture("fit-picture", svg, ["probability of each row's own class: ", ...legendOfClasses(), text]);
}
