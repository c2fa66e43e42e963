// Forward mode: tangents of one variable are computed with the values; its passes are compared with reverse mode.

const LEGENDS = ["backward-legend", "edge-legend"].map((id) => [...byId(id).childNodes]); // of reverse mode

class ForwardMode {
  #button = byId("forward-mode");
  #seeds = seeded.flatMap((variable) => elementsOf(variable, variable.value));
  #rates = [];
  #carried = [];

  /** The text of a node in place of its adjoint; null while the mode is off. */
  note = null;

  constructor() {
    byId("seed").append(...this.#seeds.slice(0, MOST_PLACES).map(({ name }, k) => option(k, name)));
    for (const element of [this.#button, byId("seed")]) element.disabled = this.#seeds.length === 0;
    this.#button.addEventListener("click", () => this.use(playback.tangents === null));
    byId("seed").addEventListener("change", () => this.use(true));
    document.addEventListener("computed", () => playback.tangents && this.use(true, playback.position));
    this.#count();
  }

  get seed() {
    return this.#seeds[Number(byId("seed").value) || 0];
  }

  /** Seed this variable, or element of one, by its name. */
  set seed(name) {
    const index = this.#seeds.findIndex((seed) => seed.name === name || seed.variable.key === name);
    if (index >= 0) byId("seed").value = String(index);
  }

  /** Step through forward mode from a step on, or in reverse mode again. */
  use(isOn, position = 0) {
    pause();
    leaveQuiz();
    this.#button.setAttribute("aria-pressed", String(isOn));
    playback.tangents = isOn ? this : null;
    byId("backward-legend").replaceChildren(...(isOn ? ["tangent (forward mode)"] : LEGENDS[0]));
    byId("edge-legend").replaceChildren(...(isOn ? ["beside an edge: the local derivative"] : LEGENDS[1]));
    if (isOn) this.#carry();
    this.note = isOn ? (i) => this.#noted(i) : null;
    byId("backward-pass").disabled = isOn || !hasBackward;
    byId("quiz").disabled = isOn || !hasQuestions;
    playback.moveTo(isOn ? position : Math.min(playback.position, record.forward.length));
    graph.note(this.note);
    drawAll();
    explain();
    this.#count();
  }

  #carry() {
    const { variable: { key }, at } = this.seed;
    const still = elementwise(() => 0, playback.point[key]);
    const { rates, carried } = tangentsOf(playback.point, { [key]: withElement(still, at, 1) });
    [this.#rates, this.#carried] = [rates, carried];
  }

  #rate(i) {
    return this.#rates[i] ?? elementwise(() => 0, playback.computation.values[i]);
  }

  #noted(i) {
    if (!playback.isComputed(i)) return { text: "", ways: [""], data: {} };
    const rate = this.#rate(i);
    return { text: `tangent ${brief(rate)}`, ways: [brief(rate, NODE_DIGITS)], data: { "data-tangent": inFull(rate) }, array: rate };
  }

  /** The numbers of an edge into a node whose tangent is computed. */
  contribution(i, { position }) {
    const contribution = playback.isComputed(i) && this.#carried[i].find((contribution) => contribution.position === position);
    return contribution ? { local: contribution.local, nothing: false } : undefined;
  }

  /** Explain the current step. */
  explain(i) {
    const name = math(this.seed.name);
    if (i === null) {
      showStatus(`Forward mode: ${name} has tangent 1. The tangent of a node, how fast it changes with ${name}, is the sum over its `
        + "inputs of local derivative × tangent of the input.");
      return;
    }
    const computed = playback.computation.forwardSentence(i);
    if (this.#carried[i].length === 0) {
      showStatus(`${computed}; it does not depend on ${name}, so its tangent is 0`);
      return;
    }
    const last = i === record.output ? `, which is d/d${name}` : "";
    showStatus(`${computed}; tangent ${brief(this.#rate(i))}${last}`, this.#carried[i].map((contribution) => this.#added(contribution)));
  }

  #added({ to, local, amount }) {
    const from = `from ${mathOf(to)}:`;
    if (local === null) return `${from} Jacobian × tangent ${brief(this.#rate(to))} = ${brief(amount)}`;
    return `${from} ${brief(local)} × ${factor(this.#rate(to))} = ${brief(amount)}`;
  }

  /** Show how many passes each mode needs for the whole gradient. */
  #count() {
    const count = this.#seeds.length;
    const parts = [htmlElement("p", `Forward mode needs one pass for each number in the variables, here ${count}. Reverse mode needs one for all of them.`)];
    if (playback.tangents && record.work) parts.push(this.#work());
    if (playback.tangents) {
      const name = math(this.seed.name);
      parts.push(htmlElement("p", `This pass gives d/d${name} = ${inFull(this.#rate(record.output))} and no other derivative.`));
    }
    byId("passes").replaceChildren(...parts);
  }

  /** The numbers of operations of the passes, not counting values and local derivatives. */
  #work() {
    const { work } = record;
    const rows = [[`forward mode, ${math(this.seed.name)}`, 1, ...work.forward[this.seed.variable.key]]];
    if (this.#seeds.length > 1) rows.push([`forward mode, all ${this.#seeds.length}`, this.#seeds.length, ...work.all]);
    rows.push([`reverse mode${this.#seeds.length > 1 ? `, all ${this.#seeds.length}` : ""}`, 1, ...work.reverse]);
    return tableOf("Work", ["way", "passes", "multiplications", "additions"], rows);
  }
}

const hasQuestions = record.nodes.some((_, i) => takesGradient(i));
const forwardMode = new ForwardMode();
if (record.seed !== null) {
  forwardMode.seed = record.seed;
  forwardMode.use(true);
}
