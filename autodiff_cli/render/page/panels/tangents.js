// Forward mode: tangents of one variable are computed with the values; its passes are compared with reverse mode.

class ForwardMode {
  #button = byId("forward-mode");
  #seeds = seeded.flatMap((variable) => places(variable.value).map((at) => {
    return { variable, at, name: at.length ? `${variable.name}[${at.join(", ")}]` : variable.name };
  }));
  #rates = [];
  #carried = [];

  /** What a drawn node shows in place of its adjoint; null while the mode is off. */
  note = null;

  constructor() {
    byId("seed").append(...this.#seeds.slice(0, MOST_PLACES).map(({ name }, k) => option(k, name)));
    for (const element of [this.#button, byId("seed")]) element.disabled = this.#seeds.length === 0;
    this.#button.addEventListener("click", () => this.use(walk.tangents === null));
    byId("seed").addEventListener("change", () => this.use(true));
    document.addEventListener("computed", () => walk.tangents && this.use(true, walk.position));
    this.#count();
  }

  get seed() {
    return this.#seeds[Number(byId("seed").value) || 0];
  }

  /** Seed this variable, or element of one, by its name. */
  set seed(name) {
    const found = this.#seeds.findIndex((seed) => seed.name === name || seed.variable.key === name);
    if (found >= 0) byId("seed").value = String(found);
  }

  /** Walk in forward mode from a step on, or in reverse mode again. */
  use(isOn, position = 0) {
    pause();
    leaveQuiz();
    this.#button.setAttribute("aria-pressed", String(isOn));
    walk.tangents = isOn ? this : null;
    if (isOn) this.#carry();
    this.note = isOn ? (i) => this.#noted(i) : null;
    byId("backward-pass").disabled = isOn;
    byId("quiz").disabled = isOn || !hasQuestions;
    walk.moveTo(isOn ? position : Math.min(walk.position, record.forward.length));
    graph.note(this.note);
    drawAll();
    explain();
    this.#count();
  }

  #carry() {
    const { variable: { key }, at } = this.seed;
    const still = elementwise(() => 0, walk.point[key]);
    const { rates, carried } = tangentsOf(walk.point, { [key]: withElement(still, at, 1) });
    [this.#rates, this.#carried] = [rates, carried];
  }

  #rate(i) {
    return this.#rates[i] ?? elementwise(() => 0, walk.computation.values[i]);
  }

  #noted(i) {
    if (!walk.isComputed(i)) return { text: "", data: {} };
    const rate = this.#rate(i);
    return { text: `tangent ${brief(rate)}`, data: { "data-tangent": inFull(rate) }, array: rate };
  }

  /** What an edge into a node shows once that is computed. */
  handed(i, { position }) {
    const found = walk.isComputed(i) && this.#carried[i].find((given) => given.position === position);
    return found ? { local: found.local, nothing: false } : undefined;
  }

  /** Say what the current step did. */
  explain(i) {
    const { name } = this.seed;
    if (i === null) {
      say(`Forward mode: ${name} has tangent 1. The tangent of a node, how fast it changes with ${name}, is the sum over its `
        + "inputs of local derivative × tangent of the input.");
      return;
    }
    const computed = walk.computation.forwardSentence(i);
    if (this.#carried[i].length === 0) {
      say(`${computed}; it does not depend on ${name}, so its tangent is 0`);
      return;
    }
    const last = i === record.output ? `, which is d/d${name}` : "";
    say(`${computed}; tangent ${brief(this.#rate(i))}${last}`, this.#carried[i].map((given) => this.#added(given)));
  }

  #added({ to, local, amount }) {
    const from = `from ${record.nodes[to].label}:`;
    if (local === null) return `${from} its part of the tangent ${brief(this.#rate(to))} gives ${brief(amount)}`;
    return `${from} ${brief(local)} × ${factor(this.#rate(to))} = ${brief(amount)}`;
  }

  /** Show how many passes each mode needs for the whole gradient. */
  #count() {
    const count = this.#seeds.length;
    const numbers = count === 1 ? "1 number" : `${count} numbers`;
    const said = [`Forward mode needs one pass for each of the ${numbers} in the variables: ${count}.`,
      "Reverse mode needs 1 for all of them."];
    if (count === 1) said[1] = "Reverse mode needs 1 too.";
    const parts = [made("p", said.join(" "))];
    if (walk.tangents && record.work) parts.push(this.#work());
    if (walk.tangents) {
      const { name } = this.seed;
      parts.push(made("p", `This pass gives d/d${name} = ${inFull(this.#rate(record.output))} and no other derivative.`));
    }
    byId("passes").replaceChildren(...parts);
  }

  /** The numbers of operations of the passes, not counting values and local derivatives. */
  #work() {
    const { work } = record;
    const rows = [[`forward mode, ${this.seed.name}`, 1, ...work.forward[this.seed.variable.key]]];
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
