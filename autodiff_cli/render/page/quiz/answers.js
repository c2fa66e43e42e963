// Answers: an expression of numbers, such as `2*0.75`, `cos(0,6)` or `-1/3`, is evaluated and compared with a number.

const TWO_DIGITS = 0.05; // relative; rounding to two digits changes a number by no more
const EXACT = 1e-9; // relative; an answer in full may have been computed in another order
const SIZE = 64; // ulps of perturbations; more than a chain of operations loses
const SMALLER = 16; // how much smaller the second of two perturbations is
const LINEAR = 4; // how much smaller the effect of the second is at least, unless something jumps in between
const ROUNDED_TERMS = 0.01; // relative; an expression may contain rounded numbers
const CONSTANTS = { pi: Math.PI, π: Math.PI, e: Math.E, inf: Infinity, nan: NaN };
const FUNCTIONS = {
  sin: Math.sin, cos: Math.cos, tan: Math.tan, exp: Math.exp, log: Math.log, ln: Math.log, sqrt: Math.sqrt, abs: Math.abs,
  sinh: Math.sinh, cosh: Math.cosh, tanh: Math.tanh, asin: Math.asin, acos: Math.acos, atan: Math.atan,
  sigmoid: (x) => 1 / (1 + Math.exp(-x)), relu: (x) => Math.max(x, 0), square: (x) => x * x,
};
const TOKEN = /\s*(\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|\p{L}+|\*\*|[-+*/^()])/iuy;

/** The value of an expression of numbers; undefined if it cannot be read. */
function evaluate(text) {
  const tokens = [];
  const plain = text.replace(/[−–]/g, "-").replace(/[×·]/g, "*").replace(/÷/g, "/").trimEnd();
  for (TOKEN.lastIndex = 0; TOKEN.lastIndex < plain.length;) {
    const match = TOKEN.exec(plain);
    if (match === null) return undefined;
    tokens.push(match[1].toLowerCase());
  }
  const value = sumOf(tokens);
  return tokens.length ? undefined : value;
}

/** The value of the terms at the beginning of some tokens, which are removed; undefined if there is a mistake. */
function sumOf(tokens) {
  let total = productOf(tokens);
  while (tokens[0] === "+" || tokens[0] === "-") total += tokens.shift() === "+" ? productOf(tokens) : -productOf(tokens);
  return total;
}

function productOf(tokens) {
  let product = signed(tokens);
  while (tokens[0] === "*" || tokens[0] === "/") product = tokens.shift() === "*" ? product * signed(tokens) : product / signed(tokens);
  return product;
}

function signed(tokens) {
  if (tokens[0] === "-" || tokens[0] === "+") return tokens.shift() === "-" ? -signed(tokens) : signed(tokens);
  const base = atom(tokens);
  if (tokens[0] !== "^" && tokens[0] !== "**") return base;
  tokens.shift();
  return base ** signed(tokens);
}

function atom(tokens) {
  const token = tokens.shift();
  if (token === "(" || Object.hasOwn(FUNCTIONS, token)) {
    if (token !== "(" && tokens.shift() !== "(") tokens.push("missing bracket");
    const inner = sumOf(tokens);
    if (tokens.shift() !== ")") tokens.push("missing bracket");
    return token === "(" ? inner : FUNCTIONS[token](inner);
  }
  if (Object.hasOwn(CONSTANTS, token)) return CONSTANTS[token];
  if (token === undefined || !/^[\d.]/.test(token)) tokens.push("missing number");
  return Number(token);
}

/** The ways to read an answer as a number, or as the numbers of an array; a comma stands between numbers or is a decimal comma. */
function readingsOf(text, wanted) {
  const { length } = [wanted].flat(Infinity);
  const plain = Array.isArray(wanted) ? text.replace(/[[\]]/g, " ") : text;
  const decimal = plain.replace(/(\d),(\d)/g, "$1.$2");
  const readings = Array.isArray(wanted) ? [plain.split(/[\s,;]+/), decimal.split(/[\s;]+/)] : [[plain], [decimal]];
  return readings.map((parts) => parts.filter((part) => part.trim()))
    .filter((parts) => parts.length === length && parts.every((part) => evaluate(part) !== undefined));
}

/** Whether an answer is the number, or each number of the array, within a rounding error. */
function isRight(text, wanted, error = 0) {
  const numbers = [wanted].flat(Infinity);
  return readingsOf(text, wanted).some((parts) => parts.every((part, k) => isRounded(part, numbers[k], error)));
}

/** Whether a text is the number to the digits typed, at least about two, or an expression with this value. Zeros at the end of
 * a whole number, `120`, count as digits up to the second. */
function isRounded(text, x, error) {
  const value = evaluate(text);
  if (!Number.isFinite(x) || !Number.isFinite(value)) return Object.is(value, x);
  const off = Math.abs(value - x);
  const size = Math.abs(x);
  if (off <= EXACT * size || off <= error) return true;
  const number = /^\s*[-+−–]?(\d*?)(0*)(?:\.(\d*))?(?:e([-+]?\d+))?\s*$/i.exec(text);
  if (number === null) return off <= ROUNDED_TERMS * size;
  const [, digits, zeros, decimals, power = 0] = number;
  const open = decimals === undefined ? Math.max(0, Math.min(zeros.length, digits.length + zeros.length - 2)) : 0; // zeros that are not digits
  const halfUnit = 0.5000001 * 10 ** (Number(power) + open - (decimals ?? "").length); // of the last digit typed
  return off <= Math.min(halfUnit, TWO_DIGITS * size);
}

/** The first of some likely mistakes, each a number with `words`, that an answer contains; undefined if there is none. */
function mistakeIn(text, mistakes, wanted) {
  return mistakes.find(({ number }) => number !== null && !isRight(inFull(number), wanted) && isRight(text, number))?.words;
}
