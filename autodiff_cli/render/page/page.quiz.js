// The quiz: some numbers are hidden and asked for. A level defines which, and the questions.

const TYPED = /[-+−]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+−]?inf|nan/gi;

/** One round of questions, of one level (see `quiz/`). */
class Quiz {
  #missed = new Set();
  #found = 0;
  #tries = 0;

  constructor(level) {
    this.level = level;
  }

  /** The current question; undefined when all are answered. */
  get asked() {
    return this.level.questions[this.#found];
  }

  get score() {
    const first = this.#found - this.#missed.size + Number(this.#missed.has(this.asked));
    return `${this.#found} of ${this.level.questions.length} correct, ${first} at the first try`;
  }

  /** Check an answer; gives the verdict, with a hint if it is wrong. The first hint has no numbers. */
  check(answer) {
    const { asked } = this;
    if (!asked.isRight(answer)) {
      this.#missed.add(asked);
      this.#tries++;
      return { isRight: false, verdict: `Not yet: ${this.#tries === 1 ? asked.hint() : asked.plainHint(answer)}` };
    }
    this.#found++;
    this.#tries = 0;
    const found = `Correct: ${asked.found()}.`;
    return { isRight: true, verdict: this.asked === undefined ? `${found} All correct: ${this.score}.` : found };
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
  const first = Number(x.toExponential(1).split("e")[1]); // the place of the first digit, and of the last one typed
  const last = Number(power ?? 0) - (mantissa.split(".")[1] ?? "").length;
  return last < first && off <= 0.5000001 * 10 ** last;
}

/** Start or leave the quiz. */
function toggleQuiz() {
  pause();
  if (walk.quiz) go(walk.position);
  else beginQuiz();
}

/** Start a round of the selected level. */
function beginQuiz() {
  leaveQuiz();
  const level = levels[byId("level").value]();
  walk.moveTo(level.start);
  walk.quiz = new Quiz(level);
  byId("quiz").setAttribute("aria-pressed", "true");
  byId("question").hidden = false;
  level.begin?.();
  drawAll();
  ask(level.questions.length ? level.introduction : level.impossible);
}

/** Show a message and ask the next question. */
function ask(said) {
  const { asked, score } = walk.quiz;
  byId("score").textContent = asked || walk.quiz.level.questions.length ? score : "";
  const choices = asked?.choices?.map(choice) ?? [];
  byId("choices").replaceChildren(...choices);
  byId("choices").hidden = choices.length === 0;
  for (const id of ["asked", "answer"]) byId(id).hidden = asked === undefined || choices.length > 0;
  byId("question").querySelector("button").hidden = asked === undefined;
  say(said);
  byId("answer").value = "";
  byId("asked").textContent = asked === undefined || choices.length ? "" : asked.title;
  if (asked === undefined) return;
  if (choices.length) byId("choices").prepend(made("legend", asked.title));
  if (asked.node !== undefined) {
    graph.light(asked.node, false);
    highlight(asked.node);
    panel.show(asked.node);
  }
  (choices.length ? byId("choices").querySelector("input") : byId("answer")).focus({ preventScroll: true });
}

/** A node that can be chosen. */
function choice(i) {
  const input = made("input");
  Object.assign(input, { type: "radio", name: "choice", value: i });
  return made("label", [input, record.nodes[i].label]);
}

function check(event) {
  event.preventDefault();
  const { asked } = walk.quiz;
  const chosen = byId("choices").querySelector("input:checked");
  if (asked.choices && !chosen) {
    say("Not yet: choose an answer.");
    return;
  }
  const { isRight, verdict } = walk.quiz.check(asked.choices ? Number(chosen.value) : byId("answer").value);
  if (!isRight) {
    say(verdict);
    byId("score").textContent = walk.quiz.score;
    byId("answer").select();
    return;
  }
  draw(asked.reveal());
  ask(verdict);
}

function leaveQuiz() {
  if (!walk.quiz) return;
  const { level } = walk.quiz;
  walk.quiz = null;
  level.end?.();
  byId("quiz").setAttribute("aria-pressed", "false");
  byId("question").hidden = true;
  byId("asked").textContent = "";
  byId("choices").replaceChildren();
  drawAll();
}
