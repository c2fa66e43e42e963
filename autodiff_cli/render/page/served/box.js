// The form for a formula and its values, which become part of the address.
{
  const typed = (id) => document.getElementById(id);
  const open = (formula, values) => location.assign(`/?${new URLSearchParams({ formula, ...(values ? { values } : {}) })}`);
  const submit = (event) => {
    event.preventDefault();
    open(typed("typed-formula").value, typed("typed-values").value);
  };
  typed("box").addEventListener("submit", submit);
  typed("typed-formula").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  });
  for (const button of document.querySelectorAll("[data-formula]")) {
    button.addEventListener("click", () => open(button.dataset.formula, button.dataset.values));
  }
  // A link of a page has the formula behind `#`, which is not sent to a server.
  const shared = new URLSearchParams(location.hash.slice(1));
  if (!location.search && shared.has("formula")) {
    location.replace(`/?${new URLSearchParams({ formula: shared.get("formula") })}${location.hash}`);
  }
}
