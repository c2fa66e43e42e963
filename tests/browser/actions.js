// Random actions of a reader: every control, key, node and address, in any order. Gives what went wrong, after which actions.
async ([seed, steps]) => {
  let state = seed;
  const random = () => (state = (state * 1103515245 + 12345) % 2 ** 31) / 2 ** 31;
  const pick = (list) => list[Math.floor(random() * list.length)];
  const shown = (selector) => [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility() && !one.disabled);
  const tell = (element, ...names) => names.forEach((name) => element.dispatchEvent(new Event(name, { bubbles: true })));
  const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const values = ["0", "-1.5", "1e300", "abc", "", "2,5", "1/3", "nan", "-inf", "-0", "[1,2,3]", "[[1,2],[3,4]]", "1e-320", "9".repeat(40)];
  const addresses = ["", "step=3", "step=-1", "step=999999", "%", 'values={"x":1}', "values=null&step=2", "forward=x", "forward=nobody"];
  const keys = ["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "Home", "End", "Enter", " ", "Escape", "PageDown"];
  const actions = {
    click(button) {
      button.focus();
      button.click();
    },
    type(field) {
      const value = pick(values);
      field.value = field.type === "number" && Number.isNaN(Number(value)) ? "" : value; // as browsers let people type
      tell(field, "input", ...(random() < 0.6 ? ["change"] : []));
      if (random() < 0.4) press(field, "Enter");
    },
    slide(range) {
      range.value = Number(range.min) + (Number(range.max || 100) - Number(range.min)) * random();
      tell(range, "input", "change");
    },
    choose(select) {
      select.selectedIndex = Math.floor(random() * select.options.length);
      tell(select, "change");
    },
    point(node) {
      for (const name of ["pointerover", "pointermove"]) node.dispatchEvent(new PointerEvent(name, { bubbles: true }));
      node.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    },
    read(formula) {
      const part = pick([...formula.childNodes].map((node) => node.firstChild ?? node));
      getSelection().collapse(part, Math.floor(random() * part.length));
      formula.click();
    },
    zoom: (stage) => stage.dispatchEvent(new WheelEvent("wheel", { deltaY: random() - 0.5, ctrlKey: true, bubbles: true, cancelable: true })),
    scroll: () => scrollTo(0, random() * document.body.scrollHeight),
    go: () => { location.hash = pick(addresses); },
    press: () => press(document.activeElement ?? document.body, pick(keys)),
  };
  const places = {
    click: "button:not(#scalars, #copy-link, #copy-latex), [role=tab], summary, input[type=checkbox]", type: "input:not([type=range], [type=checkbox])",
    slide: "input[type=range]", choose: "select", point: "[data-node]", read: "#formula", zoom: "#stage", scroll: "body", go: "body", press: "body",
  };
  const names = ["click", "click", "click", ...Object.keys(places), "press"];
  const done = [];
  for (let k = 0; k < steps; k++) {
    const name = pick(names);
    const element = pick(shown(places[name]));
    if (!element) continue;
    done.push(`${name} ${element.id || element.ariaLabel || element.textContent.trim().slice(0, 20)} ${element.value ?? ""}`);
    window.actions = done.slice(-4);
    actions[name](element);
    await new Promise((next) => (random() < 0.1 ? setTimeout(next, 120) : requestAnimationFrame(() => next(null))));
    const wrong = /\[object|\bNaN\b|\bInfinity\b|\bnull\b/.exec(document.body.innerText);
    if (wrong) return [`it reads ${wrong[0]}`, ...window.actions];
    if (document.documentElement.scrollWidth > innerWidth + 1) return ["it is wider than the window", ...window.actions];
  }
  return [];
}
