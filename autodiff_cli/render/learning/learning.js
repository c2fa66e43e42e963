// The epochs of a fit: everything is shown at the parameters of the selected epoch.

const PLAYING = 8000; // milliseconds from the first epoch to the last
const LEAST_FRAME = 40;
const MOST_CURVES = 50; // of a chain, the last ones that stay

const MOST_COLUMNS = 8; // of a vector; a matrix has its own
const INDICATOR = /^\(`(.*)` == (['"])(.*)\2\)$/s; // a column that is 1 where another one has a label
const LARGEST_GRID = 64; // numbers of an array that are shown one by one

/** A row of the table for each parameter. */
const valueRows = () => Object.entries(parametersAt(0)).map(([name, begun]) => {
  const value = htmlElement("td");
  value.dataset.parameter = name;
  const at = Array.isArray(begun) ? places(begun) : [];
  const elements = at.length > LARGEST_GRID ? [] : at.map((position) => {
    const element = htmlElement("span");
    element.dataset.parameter = `${name}[${position.join(", ")}]`;
    return { position, element };
  });
  if (elements.length) {
    const grid = htmlElement("div", elements.map(({ element }) => element), "grid");
    grid.style.setProperty("--columns", begun[0].length ?? Math.min(MOST_COLUMNS, begun.length));
    byId("again").after(byId("parameters").closest(".of-parameters"));
    value.append(grid);
  }
  const [title, slope] = [htmlElement("th", name), htmlElement("td", "", "slope")];
  title.scope = "row";
  byId("parameters").tBodies[0].append(htmlElement("tr", [title, value, slope]));
  return { name, value, elements, slope };
});
let valueCells = valueRows();

/** The position on the page of the row with a number, or of the nearest row on the page. */
function nearest(number) {
  const away = recording.rows.map((row) => Math.abs(row - number));
  return away.indexOf(Math.min(...away));
}

/** The row that is typed, whether there is one, and the position on the page of the row that is shown. */
function rowShown() {
  const typed = Number(byId("row").value);
  const isRow = Number.isInteger(typed) && typed >= 1 && typed <= recording.count;
  return { typed, isRow, selected: nearest(isRow ? typed : 1) };
}

/** Show an epoch and a row: the pictures, the parameters, and the steps. */
function showEpoch() {
  const k = Number(byId("epoch").value);
  const parameters = parametersAt(k);
  const { typed, isRow, selected } = rowShown();
  byId("row").setAttribute("aria-invalid", String(!isRow));
  const { number, loss } = recording.epochs[k];
  setText(byId("epoch-text"), `${recording.step} ${number}, loss ${brief(loss)}`);
  byId("epoch").setAttribute("aria-valuetext", `${recording.step} ${number}`);
  const row = rowPoints[selected];
  const cells = Object.entries(row).flatMap(([name, x]) => {
    const indicator = INDICATOR.exec(name);
    if (indicator) return x ? [`${math(indicator[1])} = ${indicator[3]}`] : [];
    return [`${math(name)} = ${name === className() ? recording.classes[x] : brief(x)}`];
  });
  const which = recording.rows[selected] === typed ? "" : isRow ? `row ${recording.rows[selected]} is the nearest on this page: ` : `rows are 1 to ${recording.count}; showing row ${recording.rows[selected]}: `;
  setText(byId("row-text"), `${which}${cells.join(", ")}`);
  recording.adjoints = recording.evaluator.run({ ...parameters, ...row }).adjoints;
  if (recording.evaluator === evaluator) setValues({ ...parameters, ...row });
  for (const { name, value, elements, slope } of valueCells) {
    value.dataset.value = inFull(parameters[name]);
    if (!elements.length) setText(value, brief(parameters[name]));
    for (const { position, element } of elements) {
      const number = elementAt(parameters[name], position);
      element.dataset.value = inFull(number);
      setText(element, toDigits(number, 3));
    }
    value.title = shapeOf(parameters[name]);
    const gradient = gradientOf(name);
    setText(slope, Object.hasOwn(recording.fixed, name) ? "fixed" : `this row's gradient ${gradient === null ? "0" : brief(gradient)}`);
  }
  drawPictures();
}

function drawPictures() {
  const k = Number(byId("epoch").value);
  const parameters = parametersAt(k);
  drawLoss(k);
  drawFit(parameters, rowShown().selected);
  drawNetwork(parameters);
}

const className = () => (recording.classes ? recording.targetName : null);
const shapeOf = (value) => (Array.isArray(value) ? shape(value).join("×") : "");

const chainColour = (chain) => `oklch(60% .15 ${(255 + 80 * chain) % 360})`; // as light as stands out on light and dark paper
const chainCurves = new Map(); // paths by chain and draw

/** Show a draw of every chain over the data, with the draws before it. */
function showDraw() {
  const { chains, stride, predictors } = recording;
  const isDrawn = chains !== null && recording.evaluator === evaluator; // another network has no draws
  for (const id of ["chains", "chains-picture"]) byId(id).hidden = !isDrawn;
  if (!isDrawn) return;
  const at = Number(byId("draw").value);
  const { selected } = rowShown();
  byId("draw-text").textContent = `draw ${at * stride + 1} of each chain`;
  byId("draw").setAttribute("aria-valuetext", `draw ${at * stride + 1}`);
  const shape = (chain, d, tag, attributes) => svgElement(tag, { class: d === at ? "chain now" : "chain", stroke: chainColour(chain), ...attributes });
  const isCurve = predictors.length === 1;
  const { svg, plot, toX, toY, curve } = isCurve ? curveChart(predictors[0], "the draws", selected) : framedAgainst();
  const last = [];
  chains.forEach((draws, chain) => {
    if (!isCurve) {
      rowPoints.forEach((row, k) => {
        const y = predicted({ ...parametersOf(draws[at]), ...row });
        if (Number.isFinite(y)) last.push(shape(chain, at, "circle", { cx: toX(targets[k]), cy: toY(y), r: 3 }));
      });
      return;
    }
    for (let d = Math.max(0, at - MOST_CURVES); d <= at; d++) {
      const place = [drawnIn, selected, chain, d].join();
      if (!chainCurves.has(place)) chainCurves.set(place, curve(parametersOf(draws[d])));
      const path = shape(chain, d, "path", { d: chainCurves.get(place) });
      if (d < at) plot.append(path);
      else last.push(path);
    }
  });
  plot.append(...last);
  const sample = (chain) => swatch("0 0 16 4", 16, 4, svgElement("path", { class: "chain now", stroke: chainColour(chain), d: "M0 2H16" }), "line of");
  const legend = chains.flatMap((_, chain) => [htmlElement("span", [sample(chain), ` chain ${chain + 1}`]), " "]);
  const what = isCurve ? "a curve for each draw: " : "prediction against target, a point for each row and chain: ";
  picture("chains-picture", svg, [what, ...legend]);
}

/** Axes of predictions against targets. */
function framedAgainst() {
  const range = around(targets, 0.15);
  const { svg, plot, toX, toY } = framed("Prediction against target, for a draw of each chain", [withUnit(recording.targetName), range], ["prediction", range]);
  svg.append(svgElement("path", { class: "diagonal", d: line(range.map((x) => [toX(x), toY(x)])) }));
  return { svg, plot, toX, toY };
}

/** Let two buttons play a range, with a picture for each of its values; returns a function that stops it. */
function player(prefix, range, show) {
  const [play, pause] = [byId(`${prefix}-play`), byId(`${prefix}-pause`)];
  let playing = 0;
  let frame = 0; // milliseconds that the last one took
  const enable = (button, other) => {
    button.disabled = false;
    disable(other, true, button);
  };
  const stop = () => {
    clearTimeout(playing);
    enable(play, pause);
  };
  const playOn = () => {
    const begun = performance.now();
    const pace = PLAYING / Number(range.max);
    range.value = Math.min(Number(range.max), Number(range.value) + Math.max(1, Math.ceil(frame / pace)));
    show();
    if (range.value === range.max) {
      stop();
      return;
    }
    frame = performance.now() - begun; // slow pictures are played in longer strides
    playing = setTimeout(playOn, Math.max(LEAST_FRAME, pace) - Math.min(frame, pace));
  };
  play.addEventListener("click", () => {
    if (range.value === range.max) range.value = 0;
    enable(pause, play);
    show();
    playing = setTimeout(playOn, LEAST_FRAME);
  });
  pause.addEventListener("click", stop);
  range.addEventListener("input", () => {
    stop();
    show();
  });
  return stop;
}

/** Show an epoch of a recording. A single epoch, as in a fit by draws, has neither a slider nor a curve of losses. */
function setEpoch(number) {
  const last = recording.epochs.length - 1;
  Object.assign(byId("epoch"), { max: last, value: number });
  byId("step-noun").textContent = recording.step.replace(/^./, (letter) => letter.toUpperCase());
  for (const id of ["epochs", "loss-picture"]) byId(id).hidden = last < 1;
}
const stopPlaying = player("learn", byId("epoch"), showEpoch);
player("chains", byId("draw"), showDraw);
const showAll = () => {
  showEpoch();
  showDraw();
};
byId("row").addEventListener("input", showAll);

// Pictures become narrower with the window, and when another one is shown beside them.
const resizing = new ResizeObserver(() => {
  const room = roomOfPicture();
  if (Math.abs(room - drawnIn) < 2 || room === 0) return;
  drawnIn = room; // values that the reader changed since stay
  drawPictures();
  showDraw();
});
for (const figure of pictures.querySelectorAll("figure")) resizing.observe(figure);

setEpoch(0);
Object.assign(byId("row"), { max: recording.count, value: recording.rows[0] });
if (!isShown || recording.classes || targets.some(Array.isArray)) recording.chains = null;
if (recording.chains) byId("draw").max = recording.chains[0].length - 1;
showAll();
restoreState(); // only now there are epochs to go to
