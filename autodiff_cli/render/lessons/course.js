// The index of a course: how many questions of each lesson are answered, as this browser remembers.

// Also a page that comes back by the browser's Back button, as it was, shows what was answered since; and a
// page that is open shows what is answered in another window.
for (const event of ["pageshow", "storage"]) addEventListener(event, showProgress);

function showProgress() {
  for (const place of document.querySelectorAll("[data-lesson]")) {
    const { lesson, count } = place.dataset;
    try {
      const answered = JSON.parse(localStorage.getItem(`autodiff lesson ${lesson}`) ?? "[]").length;
      const progress = answered >= Number(count) ? "all questions answered" : `${answered} of ${count} questions answered`;
      place.textContent = answered ? progress : "";
    } catch {
      // a browser that remembers nothing
    }
  }
}
