// The index of a course: how many questions of each lesson are answered, as this browser remembers.

// Also a page that comes back by the browser's Back button, as it was, shows what was answered since.
addEventListener("pageshow", () => {
  for (const place of document.querySelectorAll("[data-lesson]")) {
    const { lesson, count } = place.dataset;
    try {
      const answered = JSON.parse(localStorage.getItem(`autodiff lesson ${lesson}`) ?? "[]").length;
      if (answered) place.textContent = answered >= Number(count) ? "all questions answered" : `${answered} of ${count} questions answered`;
    } catch {
      // a browser that remembers nothing
    }
  }
});
