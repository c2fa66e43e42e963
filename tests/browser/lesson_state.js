// The questions, the progress and the links that a page of a course shows.
() => {
  const textOf = (element) => element.textContent.trim().replaceAll("−", "-");
  const questions = [...document.querySelectorAll("#lesson-questions > li")].map((item) => {
    const [fields, [check, hint], verdict] = [[...item.querySelectorAll("input")], item.querySelectorAll("button"), item.querySelector(".verdict")];
    const named = [fields[0].closest("fieldset") ?? fields[0]];
    return {
      question: textOf(item.firstChild), verdict: [textOf(verdict), verdict.className, verdict.getAttribute("aria-live")],
      name: named.map((field) => field.ariaLabel ?? field.getAttribute("aria-label"))[0], hint: [textOf(hint), hint.disabled],
      check: [textOf(check), check.disabled], choices: fields.map((field) => (field.type === "radio" ? textOf(field.parentElement) : null)),
      answer: fields.map((field) => (field.type === "radio" ? field.checked : field.value)),
    };
  });
  const progress = [...document.querySelectorAll("[data-lesson]")].map((place) => [place.dataset.lesson, textOf(place)]);
  const links = [...document.querySelectorAll("nav.course a, li > a")].map((link) => [textOf(link), link.getAttribute("href")]);
  return { title: document.title, questions, progress, links };
}
