"use strict";

// Numbers and sentences. Arrays are nested lists here, numbers that are not finite are words in the data.

const byId = (id) => document.getElementById(id);

/** The data in the page: a record of both passes and, if there are arrays, a record of their elements. */
const records = JSON.parse(byId("record").textContent, (key, value) =>
  ["value", "adjoint", "local", "read", "amount", "jacobian"].includes(key) ? read(value) : value);

/** Whether arrays are shown as nodes, or each element as a node of its own. */
const isInScalars = Boolean(records.scalars) && new URLSearchParams(location.hash.slice(1)).get("view") === "scalars";
const record = isInScalars ? { ...records.scalars, addition: records.addition } : records;

/** A number or an array of the data. */
function read(value) {
  if (Array.isArray(value)) return value.map(read);
  return typeof value === "string" ? { nan: NaN, inf: Infinity, "-inf": -Infinity }[value] : value;
}

/** All digits of a number or an array, as JSON has them. */
function inFull(x) {
  if (Array.isArray(x)) return `[${x.map(inFull).join(", ")}]`;
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  return String(x); // "0" also of a negative zero
}

/** Values by name as JSON, which has no numbers that are not finite. */
function jsonOf(values) {
  return JSON.stringify(values, (_, x) => (typeof x === "number" && !Number.isFinite(x) ? inFull(x) : x));
}

/** A number or an array as people read it: few digits, and of a large array its shape and range. */
function brief(x, digits = Infinity) {
  if (!Array.isArray(x)) return toDigits(x, Math.min(digits, record.digits));
  const all = x.flat(Infinity);
  if (all.length <= record.largest) return `[${x.map((element) => brief(element, digits)).join(", ")}]`;
  const [low, high] = all.some(Number.isNaN) ? [NaN, NaN] : [Math.min(...all), Math.max(...all)];
  const dimensions = shape(x).join("×");
  return low === high ? `${dimensions}, all ${brief(low)}` : `${dimensions} from ${brief(low)} to ${brief(high)}`;
}

/** A number with all digits, an array as people read it. */
function unrounded(x) {
  return Array.isArray(x) ? brief(x) : inFull(x);
}

function shape(x) {
  return Array.isArray(x) ? [x.length, ...shape(x[0] ?? 0)] : [];
}

/** A number rounded to so many digits, as `%g` writes it. */
function toDigits(x, digits) {
  if (!Number.isFinite(x) || x === 0) return inFull(x);
  const [mantissa, exponent] = significant(Math.abs(x), digits);
  const sign = x < 0 ? "-" : "";
  if (exponent < -4 || exponent >= digits) {
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${sign}${trimmed(`${mantissa[0]}.${mantissa.slice(1)}`)}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  if (exponent < 0) return `${sign}${trimmed(`0.${"0".repeat(-exponent - 1)}${mantissa}`)}`;
  return `${sign}${trimmed(`${mantissa.slice(0, exponent + 1)}.${mantissa.slice(exponent + 1)}`)}`;
}

/** A decimal fraction without the zeros at its end, nor the point if nothing follows. */
function trimmed(text) {
  return text.replace(/\.?0*$/, "");
}

/** The first digits of a positive number, and its exponent. A tie goes to the even digit, unlike in toExponential. */
function significant(x, digits) {
  const [exact, power] = parts(x, 100);
  const [head, tail] = [exact.slice(0, digits), exact.slice(digits)];
  return /^50*$/.test(tail) && "02468".includes(head.at(-1)) ? [head, power] : parts(x, digits - 1);
}

function parts(x, after) {
  const [mantissa, power] = x.toExponential(after).split("e");
  return [mantissa.replace(".", ""), Number(power)];
}

/** A phrase with its slots filled in, without a minus sign before nothing but 0; `facts` has a text for every slot and
 * knows which case is true. */
function fill(phrase, facts) {
  const text = phrase.map((part) => (typeof part === "string" ? part : filled(part, facts))).join("");
  return text.replace(/(?<![^\s(,*×/^])-0(?![\w.])/gu, "0");
}

/** A formula in a sentence, between the isolates of Unicode: the page typesets what is in them. */
function math(text) {
  return `\u2068${plain(text)}\u2069`;
}

/** A text without isolates. */
function plain(text) {
  return text.replace(/[\u2068\u2069]/g, "");
}

function filled([what, ...rest], facts) {
  if (what === "sides") {
    const [longest, ...phrases] = rest;
    const sides = phrases.map((phrase) => plain(fill(phrase, facts)));
    const last = sides.pop();
    return math([...new Set([...sides.filter((side) => !longest || [...side].length <= longest), last])].join(" = "));
  }
  if (what === "cases") {
    const [by, of, ...phrases] = rest;
    return fill(phrases[facts.case(by, of)], facts);
  }
  const [of, isLoose] = rest;
  const text = facts.text(what, of);
  return isLoose && text.startsWith("-") ? `(${text})` : text;
}

/** Notify the panels of an event: `drawn` when a step was shown, `computed` at new values, `selected` when a node
 * was, `zoomed` when the drawing has another scale. */
function announce(what, detail) {
  document.dispatchEvent(new CustomEvent(what, { detail }));
}
