// Symbols of operations, and names as mathematics writes them.

const SYMBOLS = {
  add: "+", sub: "−", mul: "×", div: "÷", neg: "−", pow: "x^n", square: "x^2", sqrt: "√", cbrt: "∛", exp: "e^x", exp2: "2^x",
  log: "ln", log2: "log_2", log10: "log_10", abs: "|x|", sigmoid: "σ", relu: "ReLU", lt: "<", le: "≤", gt: ">", ge: "≥", eq: "=",
  ne: "≠", and: "∧", or: "∨", not: "¬", where: "if", matmul: "@", dot: "·", outer: "⊗", sum: "∑", prod: "∏", norm: "‖x‖",
  transpose: "x^⊤", gamma: "Γ", normal_cdf: "Φ", largest: "max", smallest: "min", index: "[i]", part: "[i:j]", floor: "⌊x⌋",
  ceil: "⌈x⌉",
};
const GREEK = Object.fromEntries(Object.entries({
  alpha: "α", beta: "β", gamma: "γ", delta: "δ", epsilon: "ε", zeta: "ζ", eta: "η", theta: "θ", iota: "ι", kappa: "κ",
  lambda: "λ", mu: "μ", nu: "ν", xi: "ξ", rho: "ρ", sigma: "σ", tau: "τ", upsilon: "υ", phi: "φ", chi: "χ", psi: "ψ", omega: "ω",
  pi: "π",
}).flatMap(([name, letter]) => [[name, letter], [name[0].toUpperCase() + name.slice(1), letter.toUpperCase()]]));

/** The symbol of the operation of a node; its name if it has none. */
function symbolOf({ op, inputs }) {
  const exponent = op === "pow" ? record.nodes[inputs[1]] : undefined;
  if (exponent?.op === "constant" && /^\d$/.test(exponent.label)) return `x^${exponent.label}`;
  return Object.hasOwn(SYMBOLS, op) ? SYMBOLS[op] : op;
}

const LETTERS_AND_INDEX = /^((?:\p{L}\p{M}*)+)([_.]?)([\p{L}\p{M}\p{Nd}₀-₉_.]*)$/u; // letters and an index, perhaps behind a separator
const TOKEN_OF_FORMULA = /^(?:`[^`]*`|[\p{L}…][\p{L}\p{M}\p{N}_.…]*|\d+\.?\d*(?:e[-+]?\d+)?|[<>!]=|.)/su;
const LITERAL_NAMES = new Set(record.variables.map(({ name }) => name).filter((name) => !/^[\p{L}_][\p{L}\p{M}\p{N}_.]*(\[[\d, ]+\])?$/u.test(name))); // such as `my-col`
const ALIKE = new Set(record.alike); // names that would look like others, such as `x_1` beside `x1`
const RIGHT_TO_LEFT = /((?:[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]\p{M}*)+)/u;
const MINUS = /((?<![\p{L}\p{M}\p{N}_)])-(?=[\d.]|inf)|(?<=\de)-(?=\d))/u; // of a number or its exponent: lines break after hyphens
const ROOT = "√"; // in fonts of mathematics it hangs below the line
const SIGNS = { "*": "·", "√": ROOT, "-": "−", "<=": "≤", ">=": "≥", "!=": "≠", sqrt: ROOT, normal_cdf: "Φ" }; // of a keyboard and of mathematics
const hidden = (text) => ({ text, shown: "" });
const signFor = (signs, text) => (Object.hasOwn(signs, text) ? { text, shown: signs[text] } : text);

/** A formula on one line in parts, as mathematics shows it: texts; signs (`shown` in place of a `text`); and names of one letter (`i`),
 * exponents (`sup`) and indices (`sub`) with parts of their own. All texts together are the formula as it is typed. */
function partsOf(formula) {
  if (LITERAL_NAMES.has(formula)) return [isolated(formula)];
  const parts = [];
  for (let rest = formula; rest;) {
    const [token] = TOKEN_OF_FORMULA.exec(rest);
    const power = token === "^" ? rest.slice(1, exponentEnd(rest)) : "";
    rest = rest.slice(token.length + power.length);
    if (power) parts.push(hidden(token), { tag: "sup", parts: unbracketed(power) });
    else if (LETTERS_AND_INDEX.test(token) && !ALIKE.has(token) && rest[0] !== "(") parts.push(...partsOfName(token));
    else if (/^\d/.test(token)) parts.push(...partsOfNumbers(token));
    else parts.push(isolated(signFor(SIGNS, token)));
  }
  return parts;
}

/** A text in parts: the minus signs of numbers as mathematics writes them. */
function partsOfNumbers(text) {
  return text.split(MINUS).map((part, k) => (k % 2 ? signFor(SIGNS, part) : part)).filter(Boolean);
}

/** A text with numbers as the drawing shows it. */
function inPrint(text) {
  return partsOfNumbers(text).map((part) => part.shown ?? part).join("");
}

/** A part; with letters written from right to left it is apart from what follows, which browsers would write to its left. */
function isolated(part) {
  return RIGHT_TO_LEFT.test(part) ? { tag: "bdi", parts: [part] } : part;
}

/** A name in parts: its letters, Greek ones for their names, and its index below the line; several words stay together. */
function partsOfName(name) {
  const [, letters, separator, index] = LETTERS_AND_INDEX.exec(name);
  const base = signFor(GREEK, letters);
  if (!/^\p{L}\p{M}*$/u.test(base.shown ?? base) && /\P{N}/u.test(index)) return [isolated(name)];
  const isOne = /^[\p{Ll}A-Z]\p{M}*$/u.test(base.shown ?? base);
  const below = /^[₀-₉]+$/.test(index) ? { text: index, shown: index.normalize("NFKC") } : signFor(GREEK, index);
  return [isOne ? { tag: "i", parts: [base] } : isolated(base), ...(separator ? [hidden(separator)] : []), ...(index ? [{ tag: "sub", parts: [below] }] : [])];
}

/** Where the exponent at the beginning of a text, behind its sign `^`, ends. */
function exponentEnd(text) {
  let end = text[1] === "-" ? 2 : 1;
  end += TOKEN_OF_FORMULA.exec(text.slice(end))?.[0].length ?? 0;
  if (text[end - 1] === "(") end = closing(text, end - 1);
  else if (text[end] === "(") end = closing(text, end);
  return text[end] === "^" ? end + exponentEnd(text.slice(end)) : end;
}

/** Where the bracket that opens at a place of a text is closed. */
function closing(text, at) {
  let depth = 0;
  for (let end = at; end < text.length; end++) {
    depth += { "(": 1, ")": -1 }[text[end]] ?? 0;
    if (depth === 0) return end + 1;
  }
  return text.length;
}

/** The parts of an exponent, which needs no brackets around it. */
function unbracketed(power) {
  const isBracketed = power.startsWith("(") && power.endsWith(")") && closing(power, 0) === power.length;
  return isBracketed ? [hidden("("), ...partsOf(power.slice(1, -1)), hidden(")")] : partsOf(power);
}

/** A text of the drawing in runs: each with its letters, its size relative to the text, and how far it is below the line. */
function runsOf(text, kind) {
  const runs = [];
  const add = (parts, size, below, style) => parts.forEach((part) => {
    if (!part.parts) runs.push({ letters: part.shown ?? part, size, below, style: part.shown === ROOT ? "root" : style });
    else if (part.tag === "i" || part.tag === "bdi") add(part.parts, size, below, part.tag);
    else add(part.parts, Math.max(size * INDEX, TEXT / fontOf(kind).pixels), below + size * BELOW[part.tag], style);
  });
  add(FORMULAS.test(kind) ? partsOf(text) : partsOfNumbers(text), 1, 0);
  return runs.filter(({ letters }) => letters);
}

/** A text of the drawing; in a formula exponents and indices stand above and below the line. */
function nameShape(text, x, y, kind) {
  const runs = runsOf(text, kind);
  return svgElement("text", { class: kind, x, y, dy: ".35em" }, runs.map(({ letters, size, below, style }, k) => {
    const shift = (below - (runs[k - 1]?.below ?? 0)) / size;
    const attributes = { ...(style && { class: style }), ...(size < 1 && { "font-size": `${size}em` }), ...(shift && { dy: `${shift}em` }) };
    return Object.keys(attributes).length ? svgElement("tspan", attributes, [letters]) : letters;
  }));
}

/** Whether the text of a box is a name, not a symbol or a formula. */
function isName({ role, title }) {
  return role === "input" || (role === "folded" && /^[\p{L}\p{M}\p{N}_]+(\([\p{L}\p{M}\p{N}_., ]*\))?$/u.test(title));
}

/** A text for the box of a variable or of a folded part. A folded output whose formula would have to be cut is called as in the formula. */
function nameOf(box, text) {
  if (!box.inside || isName(box)) return text;
  return box.id === record.output && text.includes("…") ? OUTPUT : text;
}

/** The classes of the text of a box: of a name or a sign, of the name of an operation that has no sign, or of the formula of a folded part. */
function kindOf(box, text) {
  if (box.role === "folded") return isName(box) || text === OUTPUT ? NAME : "middle first formula";
  return text === record.nodes[box.id].op ? "middle first symbol" : NAME;
}

/** The name of a folded part in so many pixels: one that is longer loses its definition or its arguments, whole, so that no number is
 * cut, and then the middle of the name itself. */
function callIn(name, room, kind = "caption") {
  const own = name.replace(/ = .*$/su, "").replace(/\(.*\)$/su, "");
  return [name, name.replace(/\(.*\)$/su, "(…)"), own].find((text) => widthOf(text, kind) <= room) ?? cut(own, room, kind);
}

/** A text in so many pixels: a long one loses its middle; empty if too little is left to recognize it. */
function cut(text, room, kind = "caption") {
  if (widthOf(text, kind) <= room) return text;
  const letters = [...text];
  for (let kept = letters.length - 1; kept >= LEAST_LETTERS; kept--) {
    const first = Math.ceil(kept / 2);
    const shorter = `${letters.slice(0, first).join("")}…${letters.slice(letters.length - kept + first).join("")}`;
    if (widthOf(shorter, kind) <= room) return shorter;
  }
  return "";
}

const LEAST_LETTERS = 5; // of a name without its middle
const INDEX = 0.72; // the size of an index or exponent relative to its base
const SLANT = 2; // pixels by which a slanted letter stands out at its end
const BELOW = { sub: 0.22, sup: -0.35 }; // how far it is below the line, relative to the size of the text
const FORMULAS = /\b(caption|small|name|formula)\b/; // the classes of texts that are formulas, not numbers
const DIGIT = "0"; // as wide as any character of a number
const NAME = "middle first name"; // the classes of a name in a box
const ruler = document.createElement("canvas").getContext("2d");
const fonts = new Map(); // of texts by their classes, as the style sheet has them, with the widths of texts that were measured

/** How wide a text of the drawing with some classes is, in pixels. */
function widthOf(text, kind = "value") {
  const { widths } = fontOf(kind);
  if (!widths.has(text)) {
    const runs = runsOf(text, kind);
    widths.set(text, runs.reduce((width, { letters, size, style }) => {
      ruler.font = fontOf(style ? `${kind} ${style}` : kind).font;
      return width + size * ruler.measureText(letters).width;
    }, runs.at(-1)?.style === "i" ? SLANT : 0));
  }
  return widths.get(text);
}

/** The font of a text of the drawing with some classes, its size, and the widths of texts that were measured. */
function fontOf(kind) {
  if (fonts.has(kind)) return fonts.get(kind);
  const text = textShape("", 0, 0, kind);
  const drawing = svgElement("svg", { class: "autodiff" }, [text]);
  document.body.append(drawing);
  const { fontStyle, fontWeight, fontSize, fontFamily } = getComputedStyle(text);
  drawing.remove();
  fonts.set(kind, { font: `${fontStyle} ${fontWeight} ${fontSize} ${fontFamily}`, pixels: parseFloat(fontSize), widths: new Map() });
  return fonts.get(kind);
}


