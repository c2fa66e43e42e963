// The quiz: adjoints are hidden, and asked for from the output down.

const TYPED = /[-+−]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+−]?inf|nan/gi;

/** One round of questions over all nodes that take gradient. */
class Quiz {
  #missed = new Set();

  constructor(computation) {
    this.computation = computation;
    this.questions = record.nodes.map((_, i) => i).filter(takesGradient).reverse();
    this.answered = new Set();
  }

  /** The node whose adjoint is asked for; undefined when all are found. */
  get asked() {
    return this.questions[this.answered.size];
  }

  get score() {
    const first = this.answered.size - [...this.#missed].filter((i) => this.answered.has(i)).length;
    return `${this.answered.size} of ${this.questions.length} found, ${first} at the first try`;
  }

  /** The verdict on what was typed, and whether it was right. */
  check(typed) {
    const i = this.asked;
    const { label } = record.nodes[i];
    if (!isRight(typed, this.computation.adjoints[i])) {
      this.#missed.add(i);
      return { isRight: false, verdict: `Not yet: ${this.#hint(i)}` };
    }
    this.answered.add(i);
    const found = `Correct: the adjoint of ${label} is ${brief(this.computation.adjoints[i])}.`;
    return { isRight: true, verdict: this.asked === undefined ? `${found} All found: ${this.score}.` : found };
  }

  /** What to sum up for an adjoint. */
  #hint(i) {
    const { label } = record.nodes[i];
    if (i === record.output) return "the output's adjoint is how fast the output changes with itself.";
    const handed = users[i].map(({ node, position }) => this.#handed(node, position)).filter((text) => text !== null);
    if (handed.length === 0) return `nothing is handed to ${label}, since what it is used for does not pass its adjoint on.`;
    return `${label} is handed local derivative × adjoint by ${handed.length === 1 ? "its user" : "each user; add them up"}: ${handed.join("; ")}.`;
  }

  #handed(node, position) {
    const given = this.computation.given[node].find((one) => one.position === position);
    if (given.nothing) return null;
    const from = `from ${record.nodes[node].label}`;
    if (given.local === null) return `${from} its part of the adjoint ${brief(this.computation.adjoints[node])}`;
    const formula = this.computation.formula(node, position);
    const product = this.computation.product(node, given);
    return formula === undefined || formula === brief(given.local) ? `${from} ${product}` : `${from} ${product}, where ${formula} = ${brief(given.local)}`;
  }
}

/** Whether what was typed is the number, or each number of the array, to the digits typed. */
function isRight(typed, adjoint) {
  const found = typed.match(TYPED) ?? [];
  const wanted = [adjoint].flat(Infinity);
  return found.length === wanted.length && typed.replace(TYPED, "").match(/^[\s,[\]]*$/) !== null
    && found.every((text, k) => isRounded(text.replace("−", "-").toLowerCase(), wanted[k]));
}

/** Whether a text is a number, or the number rounded to at least two digits. */
function isRounded(text, x) {
  const typed = read(/inf|nan/.test(text) ? text.replace("+", "") : Number(text));
  if (!Number.isFinite(x) || !Number.isFinite(typed)) return Object.is(typed, x);
  const off = Math.abs(typed - x);
  if (off <= 1e-9 * Math.abs(x)) return true;
  const [mantissa, power] = text.split("e");
  const digits = mantissa.replace(/[-+.]/g, "").replace(/^0+/, "").length;
  const unit = 10 ** (Number(power ?? 0) - (mantissa.split(".")[1] ?? "").length);
  return digits >= 2 && off <= Math.min(0.5000001 * unit, 0.01 * Math.abs(x));
}
