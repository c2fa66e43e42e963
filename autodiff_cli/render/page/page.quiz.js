// The quiz: some numbers are hidden and asked for. A level defines which, and the questions.

const TYPED = /[-+−]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+−]?inf|nan/gi;

/** One round of questions, of one level (see `quiz/`). */
class Quiz {
  #missed = new Set();
  #answered = 0;
  #tries = 0;

  constructor(level) {
    this.level = level;
  }

  /** The current question; undefined when all are answered. */
  get question() {
    return this.level.questions[this.#answered];
  }

  get score() {
    const first = this.#answered - this.#missed.size + Number(this.#missed.has(this.question));
    return `${this.#answered} of ${this.level.questions.length} correct, ${first} at the first try`;
  }

  /** Check an answer; gives the verdict, with a hint if it is wrong. The first hint has no numbers. */
  check(answer) {
    const { question } = this;
    if (!question.isRight(answer)) {
      this.#missed.add(question);
      this.#tries++;
      return { isRight: false, verdict: `Not yet: ${this.#tries === 1 ? question.hint() : question.hintWithNumbers(answer)}` };
    }
    this.#answered++;
    this.#tries = 0;
    const confirmation = `Correct: ${question.confirmation()}.`;
    return { isRight: true, verdict: this.question === undefined ? `${confirmation} All correct: ${this.score}.` : confirmation };
  }
}

/** Whether what was typed is the number, or each number of the array, to the digits typed. */
function isRight(typed, adjoint) {
  const numbers = typed.match(TYPED) ?? [];
  const wanted = [adjoint].flat(Infinity);
  return numbers.length === wanted.length && typed.replace(TYPED, "").match(/^[\s,[\]]*$/) !== null
    && numbers.every((text, k) => isRounded(text.replace("−", "-").toLowerCase(), wanted[k]));
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
  if (playback.quiz) go(playback.position);
  else beginQuiz();
}

/** Start a round of the selected level. */
function beginQuiz() {
  leaveQuiz();
  const level = levels[byId("level").value]();
  playback.moveTo(level.start);
  playback.quiz = new Quiz(level);
  byId("quiz").setAttribute("aria-pressed", "true");
  byId("question").hidden = false;
  level.begin?.();
  drawAll();
  ask(level.questions.length ? level.introduction : level.impossible);
}

/** Show a message and ask the next question. */
function ask(message) {
  const { question, score } = playback.quiz;
  byId("score").textContent = question || playback.quiz.level.questions.length ? score : "";
  const choices = question?.choices?.map(choice) ?? [];
  byId("choices").replaceChildren(...choices);
  byId("choices").hidden = choices.length === 0;
  for (const id of ["question-title", "answer"]) byId(id).hidden = question === undefined || choices.length > 0;
  byId("question").querySelector("button").hidden = question === undefined;
  showStatus(message);
  byId("answer").value = "";
  byId("question-title").textContent = question === undefined || choices.length ? "" : question.title;
  if (question === undefined) return;
  if (choices.length) byId("choices").prepend(htmlElement("legend", question.title));
  if (question.node !== undefined) {
    graph.markCurrent(question.node, false);
    highlight(question.node);
    panel.show(question.node);
  }
  (choices.length ? byId("choices").querySelector("input") : byId("answer")).focus({ preventScroll: true });
}

/** A node that can be chosen. */
function choice(i) {
  const input = htmlElement("input");
  Object.assign(input, { type: "radio", name: "choice", value: i });
  return htmlElement("label", [input, record.nodes[i].label]);
}

function check(event) {
  event.preventDefault();
  const { question } = playback.quiz;
  const chosen = byId("choices").querySelector("input:checked");
  if (question.choices && !chosen) {
    showStatus("Not yet: choose an answer.");
    return;
  }
  const { isRight, verdict } = playback.quiz.check(question.choices ? Number(chosen.value) : byId("answer").value);
  if (!isRight) {
    showStatus(verdict);
    byId("score").textContent = playback.quiz.score;
    byId("answer").select();
    return;
  }
  draw(question.reveal());
  ask(verdict);
}

function leaveQuiz() {
  if (!playback.quiz) return;
  const { level } = playback.quiz;
  playback.quiz = null;
  level.end?.();
  byId("quiz").setAttribute("aria-pressed", "false");
  byId("question").hidden = true;
  byId("question-title").textContent = "";
  byId("choices").replaceChildren();
  drawAll();
}
