// Everything that the page of a trace shows at the moment, as texts.
() => {
  const all = (selector, of = document) => [...of.querySelectorAll(selector)];
  const textOf = (element) => element.textContent.trim().replaceAll("−", "-");
  const texts = (selector, of) => all(selector, of).map(textOf);
  const placeOf = (element) => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    return [left, top, right, bottom];
  };
  const byName = (buttons) => Object.fromEntries(buttons.map((button) =>
    [button.id || textOf(button), [textOf(button), button.disabled, button.getAttribute("aria-pressed")]]));
  const nodeOf = (node) => [node.dataset.node, {
    name: node.getAttribute("aria-label"), classes: [...node.classList], data: { ...node.dataset },
    texts: Object.fromEntries(["value", "adjoint"].map((kind) => [kind, texts(`text.${kind}`, node)[0] ?? null])),
    place: placeOf(node.querySelector(".outline")),
  }];
  const slider = document.getElementById("position");
  const [slope, explanation] = ["slope", "explanation"].map((id) => document.getElementById(id));
  return {
    where: texts("#where")[0],
    slider: [slider.value, slider.max, slider.ariaValueText, slider.style.getPropertyValue("--forward-share")],
    buttons: byName(all(".controls button, #fold, #fit, #forward-mode, #restart")),
    way: [explanation.classList.contains("backward"), document.getElementById("stage").matches(".backward-step")],
    isAmongPanels: document.getElementById("scroller").contains(explanation),
    status: texts("#status > p"), list: texts("#status li"), remark: texts("#remark p"),
    mark: texts("#formula mark"), formula: document.getElementById("formula").textContent,
    result: texts("#result")[0],
    slopes: all("#variables .slope").map((slope) => [textOf(slope), slope.title]),
    fields: all("#variables .variable > input:not([type=range])").map(({ value }) => value),
    sliders: all("#variables input[type=range]").map(({ min, max, value }) => [min, max, value].map(Number)),
    warnings: texts("#warnings li"),
    nodes: Object.fromEntries(all("#stage [data-node]").map(nodeOf)),
    edges: all("#stage .edge").map((edge) => ({
      ends: [edge.dataset.from, edge.dataset.to].map(Number), position: Number(edge.dataset.position),
      title: texts("title", edge)[0], texts: texts("text", edge), classes: [...edge.classList],
    })),
    stage: placeOf(document.getElementById("stage")),
    table: document.getElementById("table").open ? all("#table tbody tr").map((row) => [...row.cells].map(textOf)) : null,
    panel: [all("#details dt").map((term) => [textOf(term), textOf(term.nextElementSibling)]), texts("#details li"), texts("#details p")],
    why: [texts("#reasons .equation"), texts("#reasons > p:not(.equation)")],
    slope: slope.hidden ? null : texts("figcaption", slope)[0],
    changes: document.getElementById("changes").hidden ? null : [texts("#changes h3")[0], all("#changes tbody tr").map((row) => [...row.cells].map(textOf))],
    trail: texts("#trail")[0], now: all("#curve circle").map((circle) => circle.matches(".now")),
    legend: texts(".legend li").slice(1), passes: texts("#passes")[0],
    matches: texts("#matches")[0], tabs: all("#tabs [role=tab]").filter((tab) => tab.ariaSelected === "true").length,
    first: texts("#tabs [role=tab]")[0], isQuiz: !document.getElementById("question").hidden,
  };
}
