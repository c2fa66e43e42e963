// The questions of a lesson: answers are checked; there are two hints, the first without numbers, and then the answer.

const storageKey = `autodiff lesson ${record.addition.lesson}`;

const verdicts = record.addition.questions.map((question, k) => {
  const form = htmlElement("form");
  const verdict = htmlElement("span", "", "verdict");
  verdict.setAttribute("aria-live", "polite");
  let hints = 0;
  form.autocomplete = "off";
  const answer = question.choices ? choiceField(question, k, form) : numberField(question, k, form);
  const [check, hint] = [htmlElement("button", "Check answer", "main"), htmlElement("button", "Hint")];
  check.type = "submit";
  hint.type = "button";
  form.append(check, hint, verdict);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const isCorrect = question.choices ? question.right.includes(Number(answer())) : isRight(answer(), question.answer);
    verdict.className = isCorrect ? "verdict right" : "verdict";
    if (isCorrect) remember(k);
    const isReadable = question.choices ? answer() !== undefined : readingsOf(answer(), question.answer).length > 0;
    const advice = isReadable ? "A hint or the steps may help." : `${question.choices ? "Choose an answer" : "Type a number"}.`;
    verdict.textContent = isCorrect ? "Correct." : `Not yet. ${advice}`;
  });
  const help = [...question.hints, `The answer is ${question.choices ? question.right.map((place) => question.choices[place - 1]).join(" or ") : brief(question.answer)}.`];
  hint.addEventListener("click", () => {
    verdict.className = "verdict";
    setText(verdict, withMath(help[hints++]));
    if (hints === question.hints.length) hint.textContent = "Show the answer";
    disable(hint, hints === help.length, check);
  });
  byId("lesson-questions").append(htmlElement("li", [htmlElement("div", withMath(question.question)), form]));
  return verdict;
});
if (record.addition.isInCourse) {
  showRemembered();
  addEventListener("storage", showRemembered); // answered in another window, or in a process that tells it late
}

/** Say which questions were answered before. */
function showRemembered() {
  for (const k of remembered()) {
    if (verdicts[k]?.textContent === "") Object.assign(verdicts[k], { className: "verdict right", textContent: "You answered this correctly before." });
  }
}

/** The questions of this lesson that this browser remembers as answered. */
function remembered() {
  try {
    return new Set(JSON.parse(localStorage.getItem(storageKey) ?? "[]"));
  } catch {
    return new Set(); // a browser that remembers nothing
  }
}

/** Remember that a question of a course is answered; the index shows how many are. */
function remember(k) {
  if (!record.addition.isInCourse) return;
  try {
    localStorage.setItem(storageKey, JSON.stringify([...remembered().add(k)]));
  } catch {
    // a browser that remembers nothing
  }
}

/** A field for a number; gives how to read it. */
function numberField(question, k, form) {
  const input = htmlElement("input");
  input.type = "text";
  input.setAttribute("aria-label", `Answer ${k + 1}`);
  form.append(input);
  return () => input.value;
}

/** A list to choose from; gives how to read the place of what is chosen. */
function choiceField(question, k, form) {
  const list = htmlElement("fieldset", question.choices.map((choice, place) => radio(`choice-${k}`, place + 1, withMath(` ${choice}`))));
  list.setAttribute("aria-label", `Answer ${k + 1}`);
  form.append(list);
  return () => form.querySelector("input:checked")?.value;
}

// A lesson begins before the first step, so that the reader can predict what each gives; a link may open it elsewhere.
if (!location.hash) {
  reset();
  showStatus("Read the lesson. Before you press Step, predict what the step gives.");
  if (narrow.matches) tabs.show(byId("lesson"));
}
