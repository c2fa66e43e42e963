// Typesetting: the LaTeX of the record as MathML, which browsers draw themselves. It supports only the LaTeX that the
// record uses.

const MATH = "http://www.w3.org/1998/Math/MathML";
const LATEX_SYMBOLS = {
  cdot: "·", le: "≤", ge: "≥", ne: "≠", land: "∧", lor: "∨", lnot: "¬", bmod: "mod", infty: "∞", partial: "∂", sum: "∑", odot: "⊙",
  lfloor: "⌊", rfloor: "⌋", lceil: "⌈", rceil: "⌉", top: "⊤", "|": "‖",
};
const LETTERS = { "\\backslash": "\\", "\\sim": "~", "\\wedge": "^" }; // characters that LaTeX has as symbols
const ACCENTS = { hat: "^", tilde: "~", bar: "¯", dot: "˙", ddot: "¨", vec: "→", grave: "`", acute: "´", breve: "˘", mathring: "˚", check: "ˇ" };

function mathElement(tag, children = []) {
  const element = document.createElementNS(MATH, tag);
  element.append(...[children].flat());
  return element;
}

/** A text in nodes, its formulas (see `math`) as mathematics on the line; copies and screen readers get the text as it is. */
function typesetText(text) {
  return text.split(/(\u2068[^\u2069]*\u2069)/u).filter(Boolean).flatMap((part) => {
    return part.startsWith("\u2068") ? htmlElement("span", inlineOf(partsOf(plain(part))), "math") : inlineOf(partsOfNumbers(part));
  });
}

/** A formula as it is typed, in nodes. */
function typedText(text) {
  return text.split(RIGHT_TO_LEFT).map((part, k) => (k % 2 ? htmlElement("bdi", part) : document.createTextNode(part)));
}

/** Put a text into an element, with its formulas typeset. */
function setText(element, text) {
  element.replaceChildren(...typesetText(text));
}

function inlineOf(parts) {
  return parts.flatMap((part) => {
    if (typeof part === "string") return part;
    if (part.parts) return htmlElement(part.tag === "bdi" ? "bdi" : "span", inlineOf(part.parts), part.tag);
    const sign = htmlElement("span");
    sign.dataset.sign = part.shown; // which only the style sheet shows
    return [sign, htmlElement("span", part.text, "keyboard")];
  });
}

/** Let the tab key reach an element while it scrolls. */
function scrollable(element) {
  const { scrollWidth, clientWidth, scrollHeight, clientHeight } = element;
  setOrRemove(element, "tabindex", scrollWidth > clientWidth + 1 || scrollHeight > clientHeight + 1 ? 0 : null);
}

const scrolling = new ResizeObserver((entries) => entries.forEach(({ target }) => scrollable(target)));

class Typesetter {
  #tokens;
  #at = 0;

  constructor(latex) {
    this.#tokens = latex.match(/\\[a-zA-Z]+|\\.|\d+\.?\d*|\s+|[^\\]/gu) ?? [];
  }

  /** The parts before one of some tokens, which is consumed too. */
  row(...ends) {
    const parts = [];
    while (this.#at < this.#tokens.length) {
      const token = this.#tokens[this.#at++];
      if (ends.includes(token)) break;
      if (/^\s+$/.test(token)) continue;
      if (token === "^" || token === "_") this.#script(parts, token);
      else parts.push(this.#atom(token));
    }
    return parts;
  }

  /** An index or an exponent of the last part. */
  #script(parts, token) {
    const base = parts.pop() ?? mathElement("mrow");
    const script = mathElement("mrow", this.#argument());
    const both = { msub: "^", msup: "_" }[base.localName] === token && base.children.length === 2;
    if (!both) parts.push(mathElement(token === "^" ? "msup" : "msub", [base, script]));
    else parts.push(mathElement("msubsup", token === "^" ? [...base.children, script] : [base.firstChild, script, base.lastChild]));
  }

  /** The parts of an argument in braces. */
  #argument() {
    while (/^\s+$/.test(this.#tokens[this.#at] ?? "")) this.#at++;
    const token = this.#tokens[this.#at++];
    return token === "{" ? this.row("}") : token === undefined ? [] : [this.#atom(token)];
  }

  /** The letters of an argument in braces. */
  #letters() {
    let [text, depth] = ["", 0];
    do {
      const token = this.#tokens[this.#at++];
      if (token === "{") depth++;
      else if (token === "}") depth--;
      else text += LETTERS[token] ?? token.replace(/^\\(?=\W|_)/, "");
    } while (depth > 0 && this.#at < this.#tokens.length);
    return text;
  }

  #atom(token) {
    if (token === "{") return mathElement("mrow", this.row("}"));
    if (/^\d/.test(token)) return mathElement("mn", token);
    if (/^\p{L}$/u.test(token)) return mathElement("mi", token);
    if (!token.startsWith("\\")) return mathElement("mo", token === "-" ? "−" : token);
    const name = token.slice(1);
    const row = () => mathElement("mrow", this.#argument());
    if (Object.hasOwn(ACCENTS, name)) return mathElement("mover", [row(), mathElement("mo", ACCENTS[name])]);
    switch (name) {
      case "frac":
        return mathElement("mfrac", [row(), row()]);
      case "sqrt": {
        if (this.#tokens[this.#at] !== "[") return mathElement("msqrt", this.#argument());
        this.#at++;
        const index = mathElement("mrow", this.row("]"));
        return mathElement("mroot", [row(), index]);
      }
      case "left":
        return this.#brackets();
      case "begin":
        return this.#table(this.#letters());
      case "text":
        return mathElement("mtext", this.#letters().replace(/^ | $/g, "\u00a0"));
      case "mathrm":
      case "operatorname":
      case "mathsf":
      case "mathbf": {
        const letters = mathElement("mi", this.#letters());
        letters.setAttribute("mathvariant", "normal");
        return letters;
      }
      case ",":
      case "quad": {
        const space = mathElement("mspace");
        space.setAttribute("width", name === "quad" ? "1em" : ".17em");
        return space;
      }
      default:
        if (Object.hasOwn(GREEK, name)) return mathElement("mi", GREEK[name]);
        if (Object.hasOwn(LATEX_SYMBOLS, name)) return mathElement("mo", LATEX_SYMBOLS[name]);
        return mathElement(/\w/.test(name) ? "mi" : "mo", name);
    }
  }

  /** The parts between `\left` and `\right`. */
  #brackets() {
    const bracket = () => {
      const token = this.#tokens[this.#at++] ?? "";
      return mathElement("mo", LATEX_SYMBOLS[token.slice(1)] ?? token);
    };
    const opening = bracket();
    const inside = mathElement("mrow", this.row("\\right"));
    const brackets = [opening, bracket()];
    // Brackets around a fraction are as high as it is, which is not in the middle of the line; others are those of text.
    const name = inside.querySelector("mfrac, mtable, munder") ? "symmetric" : "stretchy";
    brackets.forEach((sign, k) => { sign.setAttribute(name, "false"); sign.setAttribute("form", ["prefix", "postfix"][k]); });
    return mathElement("mrow", [opening, inside, brackets[1]]);
  }

  /** The rows of cases or of a matrix. */
  #table(kind) {
    const rows = [[[]]];
    for (;;) {
      const begin = this.#at;
      let depth = 0;
      while (this.#at < this.#tokens.length) {
        const token = this.#tokens[this.#at];
        if (token === "{" || token === "\\begin" || token === "\\left") depth++;
        if (token === "}" || token === "\\right" || (token === "\\end" && depth > 0)) depth--;
        else if (depth === 0 && ["&", "\\\\", "\\end"].includes(token)) break;
        this.#at++;
      }
      const end = this.#tokens[this.#at++];
      rows.at(-1).push(mathElement("mtd", new Typesetter(this.#tokens.slice(begin, this.#at - 1).join("")).row()));
      if (end === "\\\\") rows.push([[]]);
      else if (end !== "&") break;
    }
    this.#letters();
    const table = mathElement("mtable", rows.map((cells) => mathElement("mtr", cells.flat())));
    table.classList.add(kind);
    return mathElement("mrow", [...(kind === "cases" ? ["{"] : ["("]).map((bracket) => mathElement("mo", bracket)), table,
      ...(kind === "cases" ? [] : [mathElement("mo", ")")])]);
  }
}

const BREAKS = ["outside", "flat", "all"]; // the brackets in which lines can break: none, those as high as text, all

/** A formula in LaTeX as MathML, in pieces between which lines can break: before signs outside fractions and exponents, and in
 * some brackets; within all brackets also between factors. Screen readers get its text instead. */
function typesetInPieces(latex, breaks = "outside") {
  const pieces = [mathElement("math")];
  const parts = new Typesetter(latex).row();
  for (const part of breaks === "outside" ? parts : parts.flatMap((one) => outOfBrackets(one, breaks === "all"))) {
    const last = pieces.at(-1).lastChild;
    const isAfterName = part.textContent === "=" && pieces[0].textContent.length === 1; // `f =` stays together
    const isSign = part.localName === "mo" && "=+−".includes(part.textContent);
    if ((isSign && last?.textContent !== "(" && !isAfterName) || (breaks === "all" && part.localName === "mspace")) {
      if (last) pieces.push(mathElement("math"));
      if (isSign && pieces.length > 1) part.setAttribute("form", "infix");
    }
    pieces.at(-1).append(part);
  }
  for (const math of pieces) math.setAttribute("displaystyle", "true");
  const line = htmlElement("span", pieces.flatMap((math) => [math, "\u200b"]), "pieces");
  line.setAttribute("aria-hidden", "true");
  return line;
}

/** The parts of a part in brackets that are as high as text, or in all brackets, which are then as high as text. */
function outOfBrackets(part, isAll) {
  if (["msup", "msub"].includes(part.localName)) {
    const inside = outOfBrackets(part.firstChild, isAll);
    return inside.length > 1 ? [...inside.slice(0, -1), mathElement(part.localName, [inside.at(-1), part.lastChild])] : [part];
  }
  const [opening, inside, closing] = part.children;
  if (!opening?.hasAttribute(isAll ? "form" : "stretchy")) return [part];
  for (const sign of [opening, closing]) sign.setAttribute("stretchy", "false");
  return [opening, ...[...inside.children].flatMap((one) => outOfBrackets(one, isAll)), closing];
}

const LONG_LATEX = 300; // characters

/** The formula above the drawing, without definitions where there is no room for them; nothing if it would still be cut off. */
function showTypeset() {
  const { formula } = record.latex ?? {};
  byId("typeset").hidden = !formula;
  if (!formula) return;
  const names = record.variables.map(({ node }) => (node === null ? null : record.latex.nodes[node])).filter(Boolean).join(", ");
  const left = `${OUTPUT}${names && names.replace(/\\\w+|[{}]/g, "").length < 40 ? `\\left(${names}\\right)` : ""}`;
  const lines = `${left} = ${formula}`.split(", \\quad ");
  const attempts = [[lines, false], [lines.slice(0, 1), false], [lines.slice(0, 1), true]];
  const isFitting = (shown, mayScroll, breaks) => {
    byId("typeset").replaceChildren(...shown.map((line) => typesetInPieces(line, breaks)));
    return fitTypeset(mayScroll);
  };
  // A long formula takes long to lay out: most do not fit even with all breaks.
  const fitting = attempts.find(([shown, mayScroll]) => (shown.join().length < LONG_LATEX || isFitting(shown, mayScroll, BREAKS.at(-1)))
    && BREAKS.some((breaks) => isFitting(shown, mayScroll, breaks)));
  isTypeset = fitting === attempts[0];
  byId("typeset").hidden = fitting === undefined;
  scrolling.observe(byId("typeset"));
}

let isTypeset = false; // with all definitions

/** Set the formula smaller if it does not fit otherwise; whether it fits then, or, if it may scroll, is narrow enough. */
function fitTypeset(mayScroll = false) {
  const { style } = byId("typeset");
  const fits = (one, other) => byId("typeset")[one] <= byId("typeset")[other];
  const fitsAt = (share) => {
    style.setProperty("--share", share);
    return fits("scrollWidth", "clientWidth") && fits("scrollHeight", "clientHeight");
  };
  const least = 0.66;
  // Long formulas mostly do not fit even in the smallest size.
  if (!fitsAt(least)) return mayScroll && fits("scrollWidth", "clientWidth");
  return [1, 0.88, 0.76, least].some(fitsAt);
}

addEventListener("resize", () => (isTypeset && fitTypeset()) || showTypeset());
