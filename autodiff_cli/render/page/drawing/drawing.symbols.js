// Symbols of operations, and names as mathematics writes them.

const SYMBOLS = {
  add: "+", sub: "−", mul: "×", div: "÷", neg: "−", pow: "xⁿ", square: "x²", sqrt: "√", cbrt: "∛", exp: "eˣ", exp2: "2ˣ",
  log: "ln", log2: "log₂", log10: "log₁₀", abs: "|x|", sigmoid: "σ", relu: "ReLU", lt: "<", le: "≤", gt: ">", ge: "≥", eq: "=",
  ne: "≠", and: "∧", or: "∨", not: "¬", where: "if", matmul: "@", dot: "·", outer: "⊗", sum: "Σ", prod: "∏", norm: "‖x‖",
  transpose: "xᵀ", gamma: "Γ", normal_cdf: "Φ", largest: "max", smallest: "min", index: "[i]", part: "[i:j]", floor: "⌊x⌋",
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
  if (exponent?.op === "constant" && /^\d$/.test(exponent.label)) return `x${SUPERSCRIPTS[exponent.label]}`;
  return Object.hasOwn(SYMBOLS, op) ? SYMBOLS[op] : op;
}

/** The letters of a name, Greek ones for their names, and its index, as in LaTeX; a text that is no name as it is. */
function lettersOf(text, kind) {
  const [, ...parts] = (!kind.includes("symbol") && /^((?:\p{L}\p{M}*)+)[_.]?([\p{L}\p{M}\p{Nd}_.]*)$/u.exec(text)) || [text, text, ""];
  return parts.map((part) => (Object.hasOwn(GREEK, part) ? GREEK[part] : part));
}

/** A text of the drawing; a name that is one letter, Greek or Latin, with an index has that below the line. */
function nameShape(text, x, y, kind) {
  const [letter, index] = lettersOf(text, kind);
  if (letter === text) return textShape(text, x, y, kind);
  const below = index ? [svgElement("tspan", { "font-size": `${INDEX}em`, dy: ".3em" }, [index])] : [];
  return svgElement("text", { class: kind, x, y, dy: ".35em" }, [letter, ...below]);
}

/** Whether what a box says is a name, not a symbol or a formula. */
function isName({ role, title }) {
  return role === "input" || (role === "folded" && /^[\p{L}\p{M}\p{N}_]+(\([\p{L}\p{M}\p{N}_., ]*\))?$/u.test(title));
}

/** A text for the box of a variable or of a folded part. A folded output whose formula would have to be cut is called as in the formula. */
function nameOf(box, text) {
  if (!box.inside || isName(box)) return text;
  return box.id === record.output && text.includes("…") ? OUTPUT : pretty(text);
}

/** The classes of the text of a box: of a name, of the formula of a folded part, or of the symbol of an operation. */
function kindOf(box, text) {
  if (isName(box) || text === OUTPUT) return lettersOf(text, NAME)[0].length > 1 ? `${NAME} word` : NAME;
  return `middle first ${box.role === "folded" ? "formula" : "symbol"}`;
}

/** The name of a folded part in so many pixels: a call that is longer loses its arguments, whole, so that no number is cut, and then
 * is called by what it defines. */
function callIn(name, room, kind) {
  const call = name.replace(/\(.*\)$/su, "(…)");
  return [name, call].find((text) => widthOf(text, kind) <= room) ?? cut(call.replace(/ = .*$/su, ""), room, kind);
}

/** A text in so many pixels: a long one loses its middle; empty if not even its ends fit. */
function cut(text, room, kind) {
  if (widthOf(text, kind) <= room) return text;
  const letters = [...text];
  for (let kept = letters.length - 1; kept > 1; kept--) {
    const first = Math.ceil(kept / 2);
    const shorter = `${letters.slice(0, first).join("")}…${letters.slice(letters.length - kept + first).join("")}`;
    if (widthOf(shorter, kind) <= room) return shorter;
  }
  return "";
}

const INDEX = 0.72; // the size of an index relative to its name
const DIGIT = "0"; // as wide as any character of a number
const NAME = "middle first name"; // the classes of a name in a box
const ruler = document.createElement("canvas").getContext("2d");
const fonts = new Map(); // of texts by their classes, as the style sheet has them, with the widths of texts that were measured

/** How wide a text of the drawing with some classes is, in pixels. */
function widthOf(text, kind = "caption") {
  if (!fonts.has(kind)) fonts.set(kind, { font: fontOf(kind), widths: new Map() });
  const { font, widths } = fonts.get(kind);
  if (!widths.has(text)) {
    ruler.font = font;
    const [letters, index] = lettersOf(text, kind);
    widths.set(text, ruler.measureText(letters).width + INDEX * ruler.measureText(index).width);
  }
  return widths.get(text);
}

/** The font of a text of the drawing with some classes. */
function fontOf(kind) {
  const text = textShape("", 0, 0, kind);
  const drawing = svgElement("svg", { class: "autodiff" }, [text]);
  document.body.append(drawing);
  const { fontStyle, fontWeight, fontSize, fontFamily } = getComputedStyle(text);
  drawing.remove();
  return `${fontStyle} ${fontWeight} ${fontSize} ${fontFamily}`;
}

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const NAMES_OF_GREEK = new RegExp(`\\b(${Object.keys(GREEK).join("|")})(?![\\p{L}\\p{N}_(])`, "gu");

/** A formula on one line, with the signs of mathematics in place of those of a keyboard. */
function pretty(text) {
  return text.replace(NAMES_OF_GREEK, (name) => GREEK[name]).replace(/\^(\d)(?![\d.])/g, (_, digit) => SUPERSCRIPTS[digit])
    .replaceAll("*", "·").replaceAll("-", "−").replace(/\bsqrt\(/g, "√(").replace(/\bnormal_cdf\(/g, "Φ(");
}
