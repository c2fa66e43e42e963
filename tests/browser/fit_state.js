// Everything that the page of a fit shows above the steps of a row's loss.
() => {
  const all = (selector, of = document) => [...of.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);
  const textOf = (element) => element.textContent.trim().replaceAll("−", "-");
  const attributes = (element) => Object.fromEntries([...element.attributes].map(({ name, value }) => [name, value]));
  const shapeOf = (element) => ({ ...attributes(element), tag: element.tagName, title: all("title", element).map(textOf)[0] ?? null });
  const chartOf = (svg) => ({
    name: svg.ariaLabel, width: svg.clientWidth,
    texts: all("text", svg).map((text) => ({ ...attributes(text), words: textOf(text) })),
    shapes: all("path, circle, rect", svg).map(shapeOf),
  });
  const figureOf = (figure) => {
    const swatches = all("figcaption .swatch > *", figure).map(shapeOf);
    const charts = all(":scope > svg", figure).map(chartOf);
    return { isSeen: figure.checkVisibility(), charts, caption: all("figcaption", figure).map(textOf)[0] ?? "", swatches };
  };
  const isSeen = (id) => byId(id).checkVisibility();
  const { value, max } = byId("epoch");
  return {
    epoch: [value, max, byId("epoch").getAttribute("aria-valuetext"), textOf(byId("epoch-text")), isSeen("epoch"), byId("epoch").labels[0].textContent.trim()],
    draw: isSeen("draw") ? [byId("draw").value, byId("draw").max, byId("draw").getAttribute("aria-valuetext"), textOf(byId("draw-text"))] : null,
    row: [byId("row").value, byId("row").max, byId("row").getAttribute("aria-invalid"), textOf(byId("row-text"))],
    buttons: ["learn-play", "learn-pause"].map((id) => byId(id).disabled),
    parameters: all("#parameters tr").map(({ cells: [name, number, slope] }) => [
      textOf(name), number.dataset.value, all("[data-parameter]", number).map((one) => [one.dataset.parameter, one.dataset.value, textOf(one)]),
      number.querySelector("[data-parameter]") ? null : textOf(number), number.title, textOf(slope),
    ]),
    settings: Object.fromEntries(all("#again input, #again select").filter((field) => field.checkVisibility()).map(({ id, value }) => [id, value])),
    said: textOf(byId("again-text")), verdict: textOf(document.querySelector(".verdict")),
    isOther: [isSeen("app"), isSeen("again-steps")],
    pictures: Object.fromEntries(all(".pictures figure").map((figure) => [figure.id, figureOf(figure)])),
  };
}
