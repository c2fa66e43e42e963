// Functions that the panels share.

/** Apply a function to a number or to every element of an array; further arguments have the same shape. */
function elementwise(f, x, ...others) {
  if (!Array.isArray(x)) return f(x, ...others);
  return x.map((part, k) => elementwise(f, part, ...others.map((other) => (Array.isArray(other) ? other[k] : other))));
}

const difference = (a, b) => elementwise((x, y) => (Object.is(x, y) ? 0 : x - y), a, b);

/** A number where there is little room. */
const inShort = (x) => (Array.isArray(x) ? brief(x) : toDigits(x, 3));

/** A number behind a sign: in brackets if it has one of its own. */
function factor(x) {
  const text = brief(x);
  return text.startsWith("-") ? `(${text})` : text;
}

/** A text as a factor: in brackets unless it is a word, a number or a call. */
function tight(text) {
  return /^[\p{L}\p{M}\p{N}_.]*(\([^()]*\))?$/u.test(text) || /^[∂\p{L}\p{M}\p{N}_/()*^.]+$/u.test(text) ? text : `(${text})`;
}

/** A table of texts, the first column a heading of its row; it scrolls where it is too wide. */
function tableOf(name, titles, rows) {
  const head = htmlElement("tr", titles.map((title) => htmlElement("th", title)));
  for (const cell of head.cells) cell.scope = "col";
  const lines = rows.map(([first, ...texts]) => {
    const title = htmlElement("th", first);
    title.scope = "row";
    return htmlElement("tr", [title, ...texts.map((text) => htmlElement("td", text))]);
  });
  const frame = htmlElement("div", [htmlElement("table", [htmlElement("thead", [head]), htmlElement("tbody", lines)])], "scroll");
  Object.assign(frame, { role: "region", ariaLabel: name, tabIndex: 0 });
  return frame;
}

/** Enable a button or not; where it has the focus and loses it, another element gets it. */
function disable(button, isDisabled, other) {
  if (isDisabled && button === document.activeElement) other.focus();
  button.disabled = isDisabled;
}

/** An option of a choice. */
function option(value, text = value) {
  const element = htmlElement("option", text);
  element.value = value;
  return element;
}

/** Put a text on the clipboard, and say so; where that is forbidden, show it to be copied by hand. */
async function copy(text, place) {
  try {
    await navigator.clipboard.writeText(text);
    place.replaceChildren("copied");
  } catch {
    const shown = htmlElement("input");
    shown.readOnly = true;
    shown.value = text;
    shown.ariaLabel = "Text to copy";
    place.replaceChildren(shown);
    shown.select();
  }
}

/** The variables that have an adjoint. */
const learnable = record.variables.filter(({ node }) => node !== null && takesGradient(node));
const seeded = record.variables.filter(({ key }) => record.wrt.includes(key));

/** Where two-dimensional positions of an array are. */
function places(value, before = []) {
  return Array.isArray(value) ? value.flatMap((part, k) => places(part, [...before, k])) : [before];
}

/** The elements of a variable, each with its name; a number is its only element. */
function elementsOf(variable, value) {
  return places(value).map((at) => ({ variable, at, name: elementName(variable, at) }));
}

function elementName({ name }, at) {
  return at?.length ? `${name}[${at.join(", ")}]` : name;
}

/** The element of an array at a position. */
function elementAt(value, at) {
  return at.reduce((part, k) => part[k], value);
}

/** An array with another element at a position; a number where the position is none. */
function withElement(value, at, element) {
  if (at.length === 0) return element;
  return value.map((part, k) => (k === at[0] ? withElement(part, at.slice(1), element) : part));
}

/** Rates of change, and the contributions of each input to them, as nested lists. */
function tangentsOf(point, seeds) {
  const { rates, carried } = evaluator.tangents(evaluator.forward(point), seeds);
  const plain = ({ local, amount, ...others }) => ({ ...others, local: nested(local), amount: nested(amount) });
  return { rates: rates.map(nested), carried: carried.map((contribution) => contribution.map(plain)) };
}

/** The name of the derivative of the output with respect to a node. */
function slopeName(label) {
  return math(`∂${OUTPUT}/∂${/^[\p{L}\p{M}\p{N}_]+$/u.test(label) ? label : `(${label})`}`);
}
