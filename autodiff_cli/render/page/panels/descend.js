// Descend: gradient descent with its arithmetic written out, and the trail of its steps.

const MOST_LINES = 12; // lines of arithmetic shown for a step
const LATEST = 8; // latest values of the trail that are shown

/** A descent over the elements of the variables that are ticked. */
class Descent {
  #trail = []; // {point, value} after each step, the start first
  #memory = new Map();
  #method = "";
  #isOwn = false;
  #ticks = learnable.map((variable) => this.#tick(variable));

  constructor() {
    byId("method").append(...Object.keys(methods).map((name) => option(name)));
    byId("method").addEventListener("change", ({ target }) => target.value === this.#method || this.#begin());
    byId("descend").addEventListener("click", () => this.descend());
    byId("restart").addEventListener("click", () => this.#restart());
    for (const id of ["rate", "repeats"]) {
      byId(id).addEventListener("keydown", ({ key }) => key === "Enter" && this.descend());
    }
    document.addEventListener("computed", () => this.#isOwn || this.#begin());
    this.#begin();
  }

  #tick(variable) {
    const box = htmlElement("input");
    Object.assign(box, { type: "checkbox", ariaLabel: `learn ${variable.name}` });
    box.addEventListener("change", () => this.#begin());
    byId("learned").append(htmlElement("label", [box, math(variable.name)]));
    return { variable, box };
  }

  /** The numbers to learn: a variable, or an element of one. */
  get #elements() {
    return this.#ticks.filter(({ box }) => box.checked).flatMap(({ variable }) => elementsOf(variable, playback.point[variable.key]));
  }

  #begin() {
    this.#trail = [this.#here()];
    this.#memory = new Map();
    this.#method = byId("method").value;
    byId("update").replaceChildren();
    this.#draw();
  }

  #here() {
    return { point: playback.point, value: playback.computation.values[record.output] };
  }

  #restart() {
    const [{ point }] = this.#trail;
    setValues(point);
    showStatus(`Back at the start: the output is ${brief(playback.computation.values[record.output])}.`);
  }

  /** Make the requested number of steps; both passes run again after each. */
  descend() {
    const elements = this.#elements;
    const rate = Number(byId("rate").value);
    const repeats = Number(byId("repeats").value);
    byId("rate").ariaInvalid = String(byId("rate").value === "" || !Number.isFinite(rate));
    byId("repeats").ariaInvalid = String(!Number.isInteger(repeats) || repeats < 1 || repeats > 1000);
    const refuse = (why) => {
      byId("update").replaceChildren();
      byId("trail").textContent = why;
      showStatus(why);
    };
    if (elements.length === 0) return refuse("Select the variables to learn; the others stay constant.");
    if (byId("rate").ariaInvalid === "true") return refuse("Learning rate: needs a number.");
    if (byId("repeats").ariaInvalid === "true") return refuse("Steps: needs a whole number from 1 to 1000.");
    pause();
    const before = this.#trail.at(-1).value;
    const first = this.#trail.length;
    let [arithmetic, end] = [[], ""];
    for (let k = 0; k < repeats && !end; k++) {
      const lines = this.#step(elements, rate);
      if (lines === null) end = this.#obstacle(elements);
      else arithmetic = lines;
    }
    if (arithmetic.length === 0) return refuse(end);
    this.#isOwn = true;
    setValues(playback.point);
    this.#isOwn = false;
    go(playback.length);
    byId("update").replaceChildren(...arithmetic.map((text) => htmlElement("li", text)));
    const last = this.#trail.length - 1;
    const after = this.#trail.at(-1).value;
    const way = after < before ? "falls" : after > before ? "rises" : "goes";
    const range = brief(before) === brief(after) ? `stays at ${brief(after)}` : `${way} from ${brief(before)} to ${brief(after)}`;
    const steps = first === last ? `Step ${last}` : `Steps ${first} to ${last}`;
    const sentences = [`${steps} of ${byId("method").value}: the output ${range}.`, end, first === last ? "" : `The arithmetic of step ${last}:`];
    showStatus(sentences.filter(Boolean).join(" "), arithmetic);
    this.#draw();
  }

  /** Why there is no next step. */
  #obstacle(elements) {
    const slopes = elements.map(({ variable: { node }, at }) => elementAt(playback.computation.adjoints[node], at));
    return areFinite(slopes) ? "The next step overflows; try a smaller learning rate."
      : "The gradient is not finite here, so there is no next step; try other values or a smaller learning rate.";
  }

  /** Take one step; returns its arithmetic, or null if a number would not be finite. */
  #step(elements, rate) {
    const name = byId("method").value;
    const step = this.#trail.length;
    const point = { ...playback.point };
    const arithmetic = [];
    const memory = new Map();
    for (const { variable: { key, node }, at, name: label } of elements) {
      const facts = {
        theta: elementAt(playback.point[key], at), gradient: elementAt(playback.computation.adjoints[node], at), rate, step,
      };
      const { theta, ...remembered } = methods[name](facts.theta, facts.gradient, rate, step, this.#memory.get(label));
      if (!Number.isFinite(theta)) return null;
      memory.set(label, remembered);
      point[key] = withElement(point[key], at, theta);
      if (arithmetic.length < MOST_LINES) {
        arithmetic.push(...written(name, label, { ...facts, ...this.#memory.get(label) }, remembered, theta));
      }
    }
    this.#memory = memory;
    playback.point = point;
    playback.computation = computed(point);
    this.#trail.push(this.#here());
    return arithmetic;
  }

  #draw() {
    const elements = this.#elements;
    disable(byId("restart"), this.#trail.length === 1, byId("descend"));
    const values = this.#trail.map(({ value }) => brief(value));
    const earlier = values.length > LATEST ? "… → " : "";
    setText(byId("trail"), values.length > 1
      ? `output: ${values[0]} → ${earlier}${values.slice(Math.max(1, values.length - LATEST)).join(" → ")}` : "");
    const trail = this.#trail.map(({ point, value }) => {
      return { value, xs: elements.map(({ variable: { key }, at }) => elementAt(point[key], at)) };
    });
    const drawings = [() => [], () => [curveOf(elements[0], trail)], () => [contoursOf(elements, trail)]];
    byId("curve").replaceChildren(...(drawings[elements.length] ?? (() => (trail.length > 1 ? [historyOf(trail)] : [])))());
  }
}

/** The equations of a step for one number: in symbols, then in numbers. */
function written(method, label, before, remembered, theta) {
  const symbols = {
    theta: label, gradient: slopeName(label), rate: "α", step: "t", velocity: "v", mean: "m", square: "s",
  };
  return record.methods[method].map(([name, phrase]) => {
    const isLast = name === "theta";
    const numbers = isLast ? { ...before, ...remembered } : before;
    const inSymbols = fill(phrase, { text: (what) => symbols[what] });
    const inNumbers = fill(phrase, { text: (what) => brief(numbers[what] ?? 0) });
    return `${math(symbols[name])} ← ${math(inSymbols)} = ${math(inNumbers)} = ${brief(isLast ? theta : remembered[name])}`;
  });
}

new Descent();
