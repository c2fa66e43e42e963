// The layers of a network: the thickness of a line is the size of a weight, its colour the gradient of the row's loss. With
// two predictors every unit has a map of its output.

const MOST_UNITS = 24; // of a layer that are drawn
const DRAWN = { width: 480, height: 300, margin: 34, thickest: 6, names: 140, text: 17, line: 20 }; // names: the widest
const MAPPED = { cells: 14, most: 42, least: 16, shades: 5 }; // cells of a side; pixels of a side, and below that no map

/** The labels of the inputs of the first layer, which are the same for all networks. */
const inputNames = (() => {
  const { leaves, steps } = evaluator;
  const [weight] = leaves.find(([, name]) => name === recording.layers[0]) ?? [];
  const product = steps.find(({ inputs }) => inputs.includes(weight));
  const vector = product && steps.find(({ node }) => node === product.inputs[1]);
  return vector ? vector.inputs.map((i) => record.nodes[i].label) : [];
})();

/** Draw the layers at the parameters of an epoch, with the gradients of the current row. */
function drawNetwork(parameters) {
  const weights = recording.layers.filter((name) => Array.isArray(parameters[name]?.[0])).map((name) => [name, parameters[name]]);
  byId("network-picture").hidden = weights.length === 0;
  if (weights.length === 0) return;
  const { width, margin, thickest } = DRAWN;
  const enlarged = DRAWN.text / TEXT; // names are larger than the numbers of other drawings
  const names = inputNames.slice(0, MOST_UNITS).map((name) => cut(name, DRAWN.names / enlarged, "value"));
  const left = margin + enlarged * Math.max(0, ...names.map((name) => widthOf(name, "value")));
  const height = Math.max(DRAWN.height, DRAWN.line * names.length);
  const svg = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "The network" });
  const sizes = [weights[0][1][0].length, ...weights.map(([, matrix]) => matrix.length)];
  const drawn = sizes.map((size) => Math.min(size, MOST_UNITS));
  const place = (layer, unit) => [
    left + ((width - left - margin) * layer) / (sizes.length - 1),
    (height * (unit + 0.5)) / drawn[layer],
  ];
  const slopes = weights.map(([name]) => gradientOf(name));
  const largest = largestOf(weights.map(([, matrix]) => matrix));
  const steepest = largestOf(slopes);
  weights.forEach(([name, matrix], layer) => {
    matrix.slice(0, MOST_UNITS).forEach((row, to) => row.slice(0, MOST_UNITS).forEach((weight, from) => {
      const slope = slopes[layer]?.[to]?.[from] ?? 0;
      const share = steepest ? Math.abs(slope) / steepest : 0;
      const way = slope === 0 ? "" : slope > 0 ? " up" : " down";
      const connection = svgElement("path", {
        class: `connection${way}${weight < 0 ? " minus" : ""}`,
        d: line([place(layer, from), place(layer + 1, to)]),
        "stroke-width": (0.4 + (thickest * Math.abs(weight)) / (largest || 1)).toFixed(2),
        "stroke-opacity": (way ? 0.25 + 0.75 * Math.sqrt(share) : 1).toFixed(2),
      });
      connection.append(svgElement("title", {}, `${name}[${to}, ${from}] = ${brief(weight)}, gradient ${brief(slope)}`));
      svg.append(connection);
    }));
  });
  const maps = mapsOf(weights.map(([name]) => layerOutput(name)), parameters);
  drawn.forEach((count, layer) => {
    const side = Math.min(MAPPED.most, (0.8 * height) / count);
    const isMapped = maps !== null && side >= MAPPED.least && maps[layer] !== null;
    for (let unit = 0; unit < count; unit++) {
      const [cx, cy] = place(layer, unit);
      if (isMapped) svg.append(...mapOf(maps[layer].map((values) => values[unit]), cx - side / 2, cy - side / 2, side));
      else svg.append(svgElement("circle", { class: "unit", cx, cy, r: Math.min(9, height / count / 2.6) }));
    }
  });
  names.forEach((name, unit) => svg.append(svgElement("text", { x: left - 14, y: place(0, unit)[1], dy: ".35em", "text-anchor": "end" }, name)));
  const rest = sizes.some((size) => size > MOST_UNITS) ? ` The first ${MOST_UNITS} units of each layer.` : "";
  const mapped = maps === null ? [] : [` Units show their output over ${recording.predictors.join(" and ")}: `,
    squareInText(1), " above 0, ", squareInText(0), " below."];
  picture("network-picture", svg, ["Thickness: the weight, dashed where it is negative. Colour: the gradient of this row's loss, ",
    lineInText("up"), " where the loss rises with the weight, ", lineInText("down"), " where it falls, ", lineInText(""),
    ` where there is none.${rest}`, ...mapped]);
}

/** A piece of a connection for a line of text. */
function lineInText(way) {
  const piece = svgElement("path", { class: `connection ${way}`, d: "M0 2H18", "stroke-width": 4 });
  return swatch("0 0 18 4", 18, 4, piece, { up: "orange", down: "blue" }[way] ?? "grey");
}

/** A square in the colour of a sign for a line of text. */
function squareInText(kind) {
  const square = svgElement("path", { class: `class-${kind}`, d: "M0 0H10V10H0Z" });
  return swatch("0 0 10 10", 10, 10, square, kind ? "orange" : "blue");
}

/** The output node of a layer: its weights times its input, plus its bias, and the function that is applied to every
 * unit; null if weights have several uses. */
function layerOutput(name) {
  const { leaves, steps } = recording.evaluator;
  const next = (i) => {
    const users = steps.filter(({ inputs }) => inputs.includes(i));
    return users.length === 1 ? users[0] : null;
  };
  const leaf = leaves.find(([, key]) => key === name);
  const product = leaf ? next(leaf[0]) : null;
  const sum = product && next(product.node);
  const activation = sum && next(sum.node);
  return (activation && !activation.isStructural && activation.inputs.length === 1 ? activation : sum)?.node ?? null;
}

/** The values of layers over the plane of two predictors, row by row; the predictors are the first layer. */
function mapsOf(layers, parameters) {
  const { predictors } = recording;
  if (predictors.length !== 2 || !isShown) return null;
  const [wide, high] = predictors.map((name) => around(recording.columns[name], 0.08));
  const at = (side, k) => between(side, (k + 0.5) / MAPPED.cells);
  const count = MAPPED.cells ** 2;
  const points = Array.from({ length: count }, (_, k) => [at(wide, k % MAPPED.cells), at(high, MAPPED.cells - 1 - Math.floor(k / MAPPED.cells))]);
  const values = points.map(([x, y]) => recording.evaluator.forward({ ...rowPoints[0], ...parameters, [predictors[0]]: x, [predictors[1]]: y }));
  return [null, ...layers.map((node) => (node === null ? null : values.map((all) => nested(all[node]))))];
}

/** A map of numbers in a square, by their size and sign. */
function mapOf(numbers, left, top, side) {
  const largest = largestOf([numbers]) || 1;
  const cell = side / MAPPED.cells;
  const cells = numbers.map((number, k) => ({
    kind: Number(number > 0), share: number === 0 ? NaN : Math.abs(number) / largest,
    x: left + cell * (k % MAPPED.cells), y: top + cell * Math.floor(k / MAPPED.cells),
  }));
  const room = (name) => svgElement("rect", { class: name, x: left, y: top, width: side, height: side, rx: 2 });
  return [room("unit"), ...shadedCells(cells, cell, cell, MAPPED.shades, [0.15, 0.7]), room("unit empty")];
}

/** The gradient of the row's loss with respect to a parameter. */
function gradientOf(name) {
  const leaf = recording.evaluator.leaves.find(([, key]) => key === name);
  return leaf ? nested(recording.adjoints[leaf[0]]) : null;
}

function largestOf(arrays) {
  return Math.max(0, ...arrays.filter((array) => array !== null).flat(2).map(Math.abs).filter(Number.isFinite));
}
