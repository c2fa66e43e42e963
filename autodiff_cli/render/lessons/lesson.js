// The questions of a lesson: answers are checked, and there are two hints, the first without numbers.

record.addition.questions.forEach((asked, k) => {
  const form = made("form");
  const verdict = made("span", "", "verdict");
  verdict.setAttribute("aria-live", "polite");
  let hints = 0;
  form.autocomplete = "off";
  const given = asked.choices ? chosen(asked, k, form) : written(asked, k, form);
  const [check, hint] = [made("button", "Check answer", "main"), made("button", "Hint")];
  check.type = "submit";
  hint.type = "button";
  form.append(check, hint, verdict);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const isFound = asked.choices ? asked.right.includes(Number(given())) : isRight(given(), asked.answer);
    verdict.className = isFound ? "verdict right" : "verdict";
    verdict.textContent = isFound ? "Correct." : "Not yet. A hint or the steps below may help.";
  });
  hint.addEventListener("click", () => {
    verdict.className = "verdict";
    verdict.textContent = asked.hints[Math.min(hints++, asked.hints.length - 1)];
    if (hints >= asked.hints.length) hint.disabled = true;
  });
  byId("lesson-questions").append(made("li", [made("div", asked.question), form]));
});

/** A field for a number; gives how to read it. */
function written(asked, k, form) {
  const input = made("input");
  input.type = "text";
  input.setAttribute("aria-label", `Answer ${k + 1}`);
  form.append(input);
  return () => input.value;
}

/** A list to choose from; gives how to read the place of what is chosen. */
function chosen(asked, k, form) {
  const list = made("fieldset", asked.choices.map((choice, place) => {
    const input = made("input");
    input.type = "radio";
    input.name = `choice-${k}`;
    input.value = place + 1;
    return made("label", [input, ` ${choice}`]);
  }));
  list.setAttribute("aria-label", `Answer ${k + 1}`);
  form.append(list);
  return () => form.querySelector("input:checked")?.value;
}
