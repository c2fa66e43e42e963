// What does not hold of a page, although it holds of every page after every action.
() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const isSeen = (element) => element.checkVisibility({ visibilityProperty: true });
  const nameOf = (element) => element.id || element.outerHTML.slice(0, 80);
  const ids = all("[id]").map(({ id }) => id);
  const references = all("[aria-labelledby], [aria-describedby], [aria-controls], label[for]").flatMap((element) =>
    ["aria-labelledby", "aria-describedby", "aria-controls", "for"].flatMap((name) => (element.getAttribute(name) ?? "").split(" ").filter(Boolean)));
  const stops = all("#stage [data-node][tabindex='0'], #stage [data-node] [tabindex='0']").length;
  const tablists = all("[role=tablist]").filter(isSeen);
  const focus = document.activeElement;
  const unnamed = all("button, input, select, textarea").filter(isSeen).filter((element) =>
    !(element.ariaLabel || element.labels?.[0]?.textContent.trim() || element.textContent.trim() || element.title || element.getAttribute("aria-labelledby")));
  const remembered = all("input, select, textarea").filter((field) => (field.getAttribute("autocomplete") ?? field.form?.autocomplete) !== "off");
  const wrong = {
    [`lets a browser restore fields on Back: ${remembered.map(nameOf)}`]: remembered.length > 0,
    "is wider than the window": document.documentElement.scrollWidth > innerWidth + 1,
    [`reads ${/\[object|\bNaN\b|\bInfinity\b|\bnull\b|\bundefined\b/.exec(document.body.innerText)}`]: /\[object|\bNaN\b|\bInfinity\b|\bnull\b|\bundefined\b/.test(document.body.innerText),
    "has the same id twice": new Set(ids).size !== ids.length,
    [`refers to ${references.filter((id) => !ids.includes(id))}`]: references.some((id) => !ids.includes(id)),
    [`has ${stops} tab stops in the drawing`]: all("#stage [data-node]").some(isSeen) && stops !== 1,
    "has its tab stop elsewhere than the focus": focus.matches("[data-node]") && focus.tabIndex !== 0,
    "has not one tab stop among tabs": tablists.some((list) => [...list.querySelectorAll("[role=tab]")].filter(({ tabIndex }) => tabIndex === 0).length !== 1),
    [`has controls without a name: ${unnamed.map(nameOf)}`]: unnamed.length > 0,
    [`lost the focus: ${nameOf(focus)}`]: window.hadFocus && (focus === document.body || !isSeen(focus) || focus.disabled),
  };
  window.hadFocus = focus !== document.body;
  return Object.keys(wrong).filter((what) => wrong[what]);
}
