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
    if (handed.length === 0) return `nothing is handed to ${label}: what it is used for does not pass its adjoint on.`;
    const whom = handed.length === 1 ? "its user" : "each user; add them up";
    return `${label} is handed local derivative × adjoint by ${whom}: ${handed.join("; ")}.`;
  }

  #handed(node, position) {
    const given = this.computation.handed(node, position);
    if (given.nothing) return null;
    const from = `from ${record.nodes[node].label}:`;
    if (given.local === null) return `${from} its part of the adjoint ${brief(this.computation.adjoints[node])}`;
    const formula = this.computation.formula(node, position);
    const product = this.computation.product(node, given);
    const local = brief(given.local);
    const reason = formula === undefined || formula === local ? "" : `, where ${formula} = ${local}`;
    return `${from} ${product}${reason}`;
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

/** Begin the quiz, or leave it. */
function toggleQuiz() {
  pause();
  if (walk.quiz) {
    go(walk.position);
    return;
  }
  walk.moveTo(record.forward.length);
  walk.quiz = new Quiz(walk.computation);
  byId("quiz").setAttribute("aria-pressed", "true");
  byId("question").hidden = false;
  drawAll();
  ask("Each adjoint is the sum of what the node's users hand it: local derivative × adjoint. Begin at the output.");
}

/** Ask for the next adjoint, after something said. */
function ask(said) {
  const { asked, score } = walk.quiz;
  byId("score").textContent = score;
  for (const id of ["asked", "answer"]) byId(id).hidden = asked === undefined;
  byId("question").querySelector("button").hidden = asked === undefined;
  say(said);
  byId("answer").value = "";
  byId("asked").textContent = asked === undefined ? "" : `Adjoint of ${record.nodes[asked].label}`;
  if (asked === undefined) return;
  graph.light(asked, false);
  highlight(asked);
  panel.show(asked);
  byId("answer").focus({ preventScroll: true });
}

function check(event) {
  event.preventDefault();
  const { asked } = walk.quiz;
  const { isRight, verdict } = walk.quiz.check(byId("answer").value);
  if (!isRight) {
    say(verdict);
    byId("score").textContent = walk.quiz.score;
    byId("answer").select();
    return;
  }
  draw(backwardStep.has(asked) ? walk.moveTo(record.forward.length + backwardStep.get(asked) + 1) : [asked]);
  ask(verdict);
}

function leaveQuiz() {
  if (!walk.quiz) return;
  walk.quiz = null;
  byId("quiz").setAttribute("aria-pressed", "false");
  byId("question").hidden = true;
  byId("asked").textContent = "";
  drawAll();
}
