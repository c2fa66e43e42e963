// What a page of the server shows, but for the steps of a formula.
() => {
  const byId = (id) => document.getElementById(id);
  const value = (id) => byId(id)?.value ?? null;
  const textOf = (element) => element?.textContent ?? null;
  return {
    typed: [value("typed-formula"), value("typed-values")],
    alert: textOf(document.querySelector("[role=alert]")),
    formula: byId("record") ? record.text : null, examples: document.querySelectorAll("[data-formula]").length,
    fields: ["model", "start", "loss", "optimizer", "learning_rate", "epochs"].map(value), over: byId("drop")?.className,
    report: byId("report") && !byId("report").hidden ? textOf(byId("report")) : null,
    row: byId("row-form")?.checkVisibility() ? [value("row"), byId("row").max] : null,
  };
}
