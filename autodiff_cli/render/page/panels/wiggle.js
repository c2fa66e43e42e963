// Wiggle: a slider for each variable, and how well tangent × ε predicts the changes.

const MOST_ROWS = 60; // changed nodes that are listed
const MOST_PLACES = 400; // elements of an array that can be selected

class Wiggle {
  #from = null; // the values and the computation that a slider began to move from
  #moving = null;
  #isSliding = false;
  #isNoted = false;
  #sliders = fields.map((field) => this.#slider(field));

  constructor() {
    document.addEventListener("computed", () => this.#isSliding || this.#settle());
    document.addEventListener("drawn", () => this.#isSliding || this.#unnote());
    this.#settle();
  }

  /** A slider beside the field of a variable: it moves the variable, or the selected elements of an array. */
  #slider({ variable, slope }) {
    const input = htmlElement("input");
    Object.assign(input, { type: "range", step: "any", ariaLabel: `slide ${variable.name}` });
    const slider = { variable, input, at: [] };
    if (Array.isArray(variable.value)) slope.before(this.#chooser(slider));
    slope.before(input);
    input.addEventListener("input", () => this.#slide(slider));
    return slider;
  }

  /** The choice of an element of an array; all of them together by default. */
  #chooser(slider) {
    const { name, value } = slider.variable;
    const select = htmlElement("select");
    select.ariaLabel = `element of ${name}`;
    const all = places(value).slice(0, MOST_PLACES);
    select.append(option("", "all elements"), ...all.map((at, k) => option(k, `[${at.join(", ")}]`)));
    slider.at = null;
    select.addEventListener("change", () => {
      slider.at = select.value === "" ? null : all[Number(select.value)];
      this.#settle();
    });
    return select;
  }

  #slide(slider) {
    const { variable: { key }, input, at } = slider;
    if (this.#from === null || this.#moving !== slider) {
      this.#from = { point: playback.point, values: playback.computation.values };
      this.#moving = slider;
    }
    const unit = 10 ** Math.floor(Math.log10((Number(input.max) - Number(input.min)) / 1000));
    const to = Number((Math.round(Number(input.value) / unit) * unit).toPrecision(12));
    const start = this.#from.point[key];
    this.#isSliding = true;
    setValues({ [key]: at === null ? elementwise((x) => x + to, start) : withElement(start, at, to) });
    this.#isSliding = false;
    this.#show();
  }

  #settle() {
    this.#from = this.#moving = null;
    for (const { variable: { key }, input, at } of this.#sliders) {
      const x = at === null ? 0 : elementAt(playback.point[key], at);
      input.disabled = !Number.isFinite(x);
      if (input.disabled) continue;
      [input.min, input.max] = rangeAround(x);
      input.value = x;
    }
    byId("changes").hidden = true;
    byId("changes").replaceChildren();
    this.#unnote();
  }

  /** Let the drawing show the numbers of the current step again. */
  #unnote() {
    if (!this.#isNoted) return;
    this.#isNoted = false;
    graph.note(forwardMode?.note ?? null);
  }

  /** Show the changes since the slider began to move, beside the prediction by the tangent. */
  #show() {
    if (this.#from === null) return;
    const { variable, variable: { name, key }, at } = this.#moving;
    const start = this.#from.point[key];
    const now = playback.point[key];
    const epsilon = at === null ? difference(now, start).flat(Infinity)[0] : elementAt(now, at) - elementAt(start, at);
    const still = elementwise(() => 0, start);
    const seed = at === null ? elementwise(() => 1, start) : withElement(still, at, 1);
    const { rates } = tangentsOf(this.#from.point, { [key]: seed });
    const rows = new Map();
    rates.forEach((rate, i) => {
      if (rate === null) return;
      const change = difference(playback.computation.values[i], this.#from.values[i]);
      const predicted = elementwise((x) => x * epsilon, rate);
      const error = elementwise(rest, change, predicted, playback.computation.values[i], this.#from.values[i]);
      rows.set(i, { change, rate, predicted, error });
    });
    const list = [...rows].slice(0, MOST_ROWS).map(([i, { change, rate, predicted, error }]) => [
      mathOf(i), brief(change), `${brief(rate)} × ${factor(epsilon)} = ${brief(predicted)}`, brief(error),
    ]);
    const more = rows.size > MOST_ROWS ? [htmlElement("p", `and ${rows.size - MOST_ROWS} more`)] : [];
    byId("changes").hidden = false;
    byId("changes").replaceChildren(
      htmlElement("h3", `${math(elementName(variable, at))}: ε = ${brief(epsilon)}`),
      list.length ? tableOf("Changes", ["node", "actual change", "tangent × ε", "difference"], list)
        : htmlElement("p", `No node with an adjoint depends on ${math(name)}.`),
      ...more,
    );
    this.#isNoted = true;
    graph.note((i) => (rows.has(i) ? noted(rows.get(i)) : null));
  }
}

/** The difference between a change and its prediction; 0 if rounding explains it. */
function rest(change, predicted, now, before) {
  const error = change - predicted;
  return Math.abs(error) <= 8 * Number.EPSILON * Math.max(Math.abs(now), Math.abs(before)) ? 0 : error;
}

/** The texts of a node about its change: in the drawing (the first of the `ways` that fits), in words, and in full. */
function noted({ change, predicted, error }) {
  const text = `Δ ${inShort(change)} ≈ ${inShort(predicted)}`;
  return {
    text, ways: [text, `Δ ${inShort(change)}`],
    data: { "data-change": inFull(change), "data-predicted": inFull(predicted), "data-error": inFull(error) },
    array: change,
  };
}

new Wiggle();
