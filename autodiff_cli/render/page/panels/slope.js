// The slope picture: an operation of one variable as a curve, with its tangent, whose slope is the local derivative.

const SLOPE = { width: 168, height: 92, margin: 6, reach: 2 }; // pixels; least reach on each side

class SlopePicture {
  #figure = byId("slope");

  constructor() {
    document.addEventListener("drawn", () => this.show());
    this.show();
  }

  /** The only input of a node that varies, and the derivative of the node with respect to it; null if there are several, or
   * arrays, or numbers that are not finite. */
  #dependence(i) {
    const { inputs } = record.nodes[i];
    const varying = [...new Set(inputs.filter(takesGradient))];
    const { values, contributions } = playback.computation;
    if (varying.length !== 1 || [i, ...inputs].some((j) => typeof values[j] !== "number")) return null;
    const slope = contributions[i].map(({ local }) => local).reduce((a, b) => a + b, 0);
    return [values[varying[0]], values[i], slope].every(Number.isFinite) ? { from: varying[0], slope } : null;
  }

  show() {
    const i = playback.current;
    const dependence = i === null || playback.quiz ? null : this.#dependence(i);
    this.#figure.hidden = dependence === null || (narrow.matches && byId("remark").hasChildNodes()); // a small window has no room for both
    if (!this.#figure.hidden) this.#draw(i, dependence);
  }

  #draw(i, { from, slope }) {
    const { values } = playback.computation;
    const { inputs, label } = record.nodes[i];
    const step = evaluator.steps.find(({ node }) => node === i);
    const at = (x) => nested(step.apply(...inputs.map((j) => (j === from ? x : values[j]))));
    const [here, value] = [values[from], values[i]];
    const range = rangeAround(here, SLOPE.reach);
    const xs = samplesOf(range);
    const ys = xs.map(at);
    const shown = around([...middle(ys, true), value], 0.12);
    const { width, height, margin } = SLOPE;
    const [toX, toY] = [scale(range, [margin, width - margin]), scale(shown, [height - margin, margin])];
    const axis = (d) => svgElement("path", { class: "axis", d });
    const inside = (y) => Math.min(Math.max(y, margin), height - margin);
    const run = between(range, 0.7) - between(range, 0.5);
    const name = `${label} over ${record.nodes[from].label}, with its tangent`;
    const svg = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": name }, [
      axis(`M${margin} ${inside(toY(0)).toFixed(1)}H${width - margin}`),
      svgElement("path", { class: "curve", d: curveThrough(xs, ys, shown, at, toX, toY) }),
      svgElement("path", { class: "tangent", d: line([-run, run].map((dx) => [toX(here + dx), toY(value + slope * dx)])) }),
      ...dot("", toX(here), toY(value), 4.5),
    ]);
    this.#figure.replaceChildren(svg, htmlElement("figcaption", `slope ${brief(slope, NODE_DIGITS)} at ${brief(here, NODE_DIGITS)}`));
  }
}

new SlopePicture();
