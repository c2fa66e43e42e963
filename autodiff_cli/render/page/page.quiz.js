// The quiz: some numbers are hidden, and questions ask for them. A level defines which, and the questions.

const MOST_TRIES = 3; // after two hints the answer is revealed

/** One round of questions, of one level (see `quiz/`). */
class Quiz {
  #position = 0;
  #correct = 0;
  #firstTries = 0;
  #tries = 0;

  constructor(level) {
    this.level = level;
  }

  /** The current question; undefined when all are answered. */
  get question() {
    return this.level.questions[this.#position];
  }

  get score() {
    return `${this.#correct} of ${this.level.questions.length} correct, ${this.#firstTries} on the first try`;
  }

  /** Check an answer; gives the verdict and whether the quiz goes on to the next question. A wrong answer gets a
   * diagnosis if it is a likely mistake, and a hint: the first without numbers, then one with numbers, then the
   * answer. An answer that cannot be read does not count as a try. */
  check(answer) {
    const { question } = this;
    if (question.isReadable?.(answer) === false) {
      const { length } = [question.wanted].flat(Infinity);
      return { isDone: false, verdict: `Not yet: type ${length > 1 ? `${length} numbers` : "a number"}; an expression such as 2*cos(0.5) is fine too.` };
    }
    if (question.isRight(answer)) {
      this.#correct++;
      this.#firstTries += Number(this.#tries === 0);
      return { isDone: true, verdict: this.#next(`Correct: ${question.confirmation()}.`) };
    }
    this.#tries++;
    if (this.#tries === MOST_TRIES) return { isDone: true, verdict: this.#next(`Not yet: ${question.confirmation()}.`) };
    const hint = this.#tries === 1 ? question.hint() : question.hintWithNumbers(answer);
    const mistake = question.mistakes ? mistakeIn(answer, question.mistakes(), question.wanted) : undefined;
    return { isDone: false, verdict: `Not yet: ${mistake ? `${mistake}. ${capitalized(hint)}` : hint}` };
  }

  #next(verdict) {
    this.#position++;
    this.#tries = 0;
    if (this.question !== undefined) return verdict;
    const all = this.level.questions.length;
    return `${verdict} ${this.#correct === all ? "All correct" : "The quiz is over"}: ${this.score}.`;
  }
}

/** A sentence with a capital letter, unless it begins with a formula. */
function capitalized(sentence) {
  return sentence[0].toUpperCase() + sentence.slice(1);
}

/** Start or leave the quiz. */
function toggleQuiz() {
  pause();
  if (playback.quiz) go(playback.position);
  else beginQuiz();
}

/** Stop playing, and leave the quiz. */
function stop() {
  if (!playback.quiz) return pause();
  toggleQuiz();
  byId("quiz").focus({ preventScroll: true });
}

/** Start a round of the selected level. */
function beginQuiz() {
  isUntouched = false;
  leaveQuiz();
  graph.follow(null);
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
  const { question, score, level } = playback.quiz;
  const choices = question?.choices?.map((i) => radio("choice", i, mathOf(i))) ?? [];
  byId("score").textContent = level.questions.length ? score : "";
  byId("choices").replaceChildren(...choices);
  byId("choices").hidden = choices.length === 0;
  for (const id of ["question-title", "answer"]) byId(id).hidden = question === undefined || choices.length > 0;
  byId("question").querySelector("button").hidden = question === undefined;
  showStatus(message);
  explanation.follow();
  explanation.show();
  byId("answer").value = "";
  setText(byId("question-title"), question === undefined || choices.length ? "" : question.title);
  if (graph.follow(playback.focus)) drawAll();
  if (question === undefined) return;
  if (choices.length) byId("choices").prepend(htmlElement("legend", question.title));
  if (question.node !== undefined) panel.show(question.node);
  (choices.length ? byId("choices").querySelector("input") : byId("answer")).focus({ preventScroll: true });
}

/** One of several answers, of which one can be chosen. */
function radio(name, value, label) {
  const input = htmlElement("input");
  Object.assign(input, { type: "radio", name, value });
  return htmlElement("label", [input, label]);
}

function check(event) {
  event.preventDefault();
  const { question } = playback.quiz;
  const chosen = byId("choices").querySelector("input:checked");
  if (question.choices && !chosen) {
    showStatus("Not yet: choose an answer.");
    return;
  }
  const { isDone, verdict } = playback.quiz.check(question.choices ? Number(chosen.value) : byId("answer").value);
  if (!isDone) {
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
  setText(byId("question-title"), "");
  byId("choices").replaceChildren();
  drawAll();
}
