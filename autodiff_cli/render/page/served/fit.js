// The form for a model and a file: shows the report of the fit, and opens the page of a row.
{
  const part = (id) => document.getElementById(id);
  let dropped = null;
  let token = null;
  let latest = 0; // the number of the last fit: answers to earlier ones are late

  const show = (text) => {
    part("report").textContent = text;
    part("report").hidden = false;
  };

  const fit = async (event) => {
    event.preventDefault();
    const number = ++latest;
    const file = dropped ?? part("file").files[0];
    part("row-form").hidden = true;
    if (!file) {
      show("Choose a file, or drop one here.");
      return;
    }
    show(`Fitting ${file.name} …`);
    const query = new URLSearchParams({ model: part("model").value, values: part("start").value });
    for (const name of ["loss", "optimizer", "learning_rate", "epochs"]) if (part(name).value) query.set(name, part(name).value);
    try {
      const response = await fetch(`/fit?${query}`, { method: "POST", body: file });
      const answer = await response.json();
      if (number !== latest) return;
      show(answer.error ?? `${answer.notes}${answer.report}`);
      token = answer.token ?? null;
      part("row").max = answer.rows ?? 1;
      part("row-form").hidden = token === null;
    } catch (error) {
      if (number === latest) show(`The server cannot be reached (${error.message}).`);
    }
  };

  part("fit").addEventListener("submit", fit);
  part("file").addEventListener("change", () => { dropped = null; });
  part("row-form").addEventListener("submit", (event) => {
    event.preventDefault();
    location.assign(`/row/${token}?${new URLSearchParams({ row: part("row").value })}`);
  });
  part("learn").addEventListener("click", () => location.assign(`/learn/${token}`));
  for (const name of ["dragover", "dragleave", "drop"]) {
    part("drop").addEventListener(name, (event) => {
      event.preventDefault();
      part("drop").classList.toggle("over", name === "dragover");
      if (name !== "drop" || !event.dataTransfer.files.length) return;
      [dropped] = event.dataTransfer.files;
      show(`${dropped.name}: press Fit.`);
    });
  }
}
