// The layers of a network: the size of a weight is the thickness of its line, the gradient of the row's loss its colour.

const MOST_UNITS = 24; // of a layer that are drawn
const DRAWN = { width: 480, height: 300, margin: 34, thickest: 6 };

/** Draw the layers at the parameters of an epoch, with the gradients of the walk. */
function drawNetwork(parameters) {
  const weights = course.layers.filter((name) => Array.isArray(parameters[name]?.[0])).map((name) => [name, parameters[name]]);
  byId("network-picture").hidden = weights.length === 0;
  if (weights.length === 0) return;
  const { width, height, margin, thickest } = DRAWN;
  const svg = drawnElement("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "The network" });
  const sizes = [weights[0][1][0].length, ...weights.map(([, matrix]) => matrix.length)];
  const drawn = sizes.map((size) => Math.min(size, MOST_UNITS));
  const place = (layer, unit) => [
    margin + ((width - 2 * margin) * layer) / (sizes.length - 1),
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
      const connection = drawnElement("path", {
        class: `connection${way}${weight < 0 ? " minus" : ""}`,
        d: line([place(layer, from), place(layer + 1, to)]),
        "stroke-width": (0.4 + (thickest * Math.abs(weight)) / (largest || 1)).toFixed(2),
        "stroke-opacity": (0.25 + 0.75 * Math.sqrt(share)).toFixed(2),
      });
      connection.append(drawnElement("title", {}, `${name}[${to}, ${from}] = ${brief(weight)}, gradient ${brief(slope)}`));
      svg.append(connection);
    }));
  });
  drawn.forEach((count, layer) => {
    for (let unit = 0; unit < count; unit++) {
      const [cx, cy] = place(layer, unit);
      svg.append(drawnElement("circle", { class: "unit", cx, cy, r: Math.min(9, height / count / 2.6) }));
    }
  });
  const left = sizes.some((size) => size > MOST_UNITS) ? ` The first ${MOST_UNITS} units of each layer.` : "";
  picture("network-picture", svg, "Thickness: the weight, dashed where it is negative. Colour: the gradient of this row's "
    + `loss, orange where the loss rises with the weight, blue where it falls, grey where there is none.${left}`);
}

/** The gradient that the walk has for a parameter. */
function gradientOf(name) {
  const variable = record.variables.find(({ key }) => key === name);
  return variable && variable.node !== null ? walk.computation.adjoints[variable.node] : null;
}

function largestOf(arrays) {
  return Math.max(0, ...arrays.filter((array) => array !== null).flat(2).map(Math.abs).filter(Number.isFinite));
}
