// The epochs of a fit: everything is shown at the parameters of the selected epoch.

const PLAYING = 8000; // milliseconds from the first epoch to the last
const LEAST_FRAME = 40;
let playing = 0;
let frame = 0; // milliseconds that the last one took

const MOST_COLUMNS = 8; // of a vector; a matrix has its own
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
    byId("parameters").closest(".of-parameters").classList.add("wide");
    value.append(grid);
  }
  const [title, slope] = [htmlElement("th", name), htmlElement("td", "", "slope")];
  title.scope = "row";
  byId("parameters").tBodies[0].append(htmlElement("tr", [title, value, slope]));
  return { name, value, elements, slope };
});
let valueCells = valueRows();

/** The place on the page of the row of a number, or of the nearest that it has. */
function nearest(number) {
  const away = recording.rows.map((row) => Math.abs(row - number));
  return away.indexOf(Math.min(...away));
}

/** Show an epoch and a row: the pictures, the parameters, and the steps. */
function showEpoch() {
  const k = Number(byId("epoch").value);
  const parameters = parametersAt(k);
  const typed = Number(byId("row").value);
  const isRow = Number.isInteger(typed) && typed >= 1 && typed <= recording.count;
  byId("row").setAttribute("aria-invalid", String(!isRow));
  const selected = nearest(isRow ? typed : 1);
  const { number, loss } = recording.epochs[k];
  byId("epoch-text").textContent = `epoch ${number}, loss ${brief(loss)}`;
  byId("epoch").setAttribute("aria-valuetext", `epoch ${number}`);
  const row = rowPoints[selected];
  const cells = Object.entries(row).map(([name, x]) => `${name} = ${name === className() ? recording.classes[x] : brief(x)}`);
  const which = recording.rows[selected] === typed ? "" : isRow ? `row ${recording.rows[selected]} is the nearest here: ` : `rows are 1 to ${recording.count}; here is row ${recording.rows[selected]}: `;
  byId("row-text").textContent = `${which}${cells.join(", ")}`;
  recording.adjoints = recording.evaluator.run({ ...parameters, ...row }).adjoints;
  if (recording.evaluator === evaluator) setValues({ ...parameters, ...row });
  for (const { name, value, elements, slope } of valueCells) {
    value.dataset.value = inFull(parameters[name]);
    if (!elements.length) value.textContent = brief(parameters[name]);
    for (const { position, element } of elements) {
      const number = elementAt(parameters[name], position);
      element.dataset.value = inFull(number);
      element.textContent = toDigits(number, 3);
    }
    value.title = shapeOf(parameters[name]);
    const gradient = gradientOf(name);
    slope.textContent = Object.hasOwn(recording.fixed, name) ? "fixed" : `gradient ${gradient === null ? "0" : brief(gradient)}`;
  }
  drawLoss(k);
  drawFit(parameters, selected);
  drawNetwork(parameters);
}

const className = () => (recording.classes ? recording.targetName : null);
const shapeOf = (value) => (Array.isArray(value) ? shape(value).join("x") : "");

function stopPlaying() {
  clearTimeout(playing);
  playing = 0;
  byId("learn-play").disabled = false;
  byId("learn-pause").disabled = true;
}

function playOn() {
  const range = byId("epoch");
  if (range.value === range.max) {
    stopPlaying();
    return;
  }
  const begun = performance.now();
  const pace = PLAYING / Number(range.max);
  range.value = Math.min(Number(range.max), Number(range.value) + Math.max(1, Math.ceil(frame / pace)));
  showEpoch();
  frame = performance.now() - begun; // what takes longer goes on in longer strides
  playing = setTimeout(playOn, Math.max(LEAST_FRAME, pace) - Math.min(frame, pace));
}

byId("learn-play").addEventListener("click", () => {
  const range = byId("epoch");
  if (range.value === range.max) range.value = 0;
  byId("learn-play").disabled = true;
  byId("learn-pause").disabled = false;
  showEpoch();
  playing = setTimeout(playOn, LEAST_FRAME);
});
byId("learn-pause").addEventListener("click", stopPlaying);
byId("epoch").addEventListener("input", () => {
  stopPlaying();
  showEpoch();
});
byId("row").addEventListener("input", showEpoch);

let drawnIn = byId("loss-picture").clientWidth;
new ResizeObserver(([{ target: { clientWidth } }]) => {
  if (Math.abs(clientWidth - drawnIn) < 2 || clientWidth === 0) return;
  drawnIn = clientWidth;
  showEpoch();
}).observe(byId("loss-picture"));

byId("epoch").max = recording.epochs.length - 1;
byId("epoch").value = 0;
Object.assign(byId("row"), { max: recording.count, value: 1 });
showEpoch();
