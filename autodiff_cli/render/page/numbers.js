// What each operation does to a number. The rules of IEEE 754 hold, which are JavaScript's own, with a few differences
// that stand here; the same table as `numbers/floats.py` puts together, where more is said about each form.
//
// One top-level declaration per name. A page carries those that its formula needs, found by name.

const copysign = (size, sign) => (sign < 0 || Object.is(sign, -0) ? -Math.abs(size) : Math.abs(size));

const isOdd = (n) => Math.abs(n % 2) === 1;

// --- arithmetic and comparisons

const add = (x, y) => x + y;
const sub = (x, y) => x - y;
const mul = (x, y) => x * y;
const div = (x, y) => x / y;
const neg = (x) => -x;
const quotient_slope = (x, y) => x / y / y;

function mod(a, b) {
  const rest = a % b;
  if (rest === 0) return copysign(0, b);
  return b < 0 === rest < 0 ? rest : rest + b;
}

const eq = (x, y) => (x === y ? 1 : 0);
const ne = (x, y) => (x === y ? 0 : 1);
const lt = (x, y) => (x < y ? 1 : 0);
const le = (x, y) => (x <= y ? 1 : 0);
const gt = (x, y) => (x > y ? 1 : 0);
const ge = (x, y) => (x >= y ? 1 : 0);
const and = (x, y) => (x !== 0 && y !== 0 ? 1 : 0);
const or = (x, y) => (x !== 0 || y !== 0 ? 1 : 0);
const not = (x) => (x !== 0 ? 0 : 1);

const abs = Math.abs;
const sign = Math.sign;
const floor = Math.floor;
const ceil = Math.ceil;

// Math.round takes halves up; they go to the even one.
function round(x) {
  const whole = Math.round(x);
  return whole - x === 0.5 && isOdd(whole) ? whole - 1 : whole;
}

// --- choices

const where = (condition, a, b) => (condition !== 0 ? a : b);

function max(...xs) {
  return xs.some(Number.isNaN) ? NaN : xs.reduce((best, x) => (x > best ? x : best));
}

function min(...xs) {
  return xs.some(Number.isNaN) ? NaN : xs.reduce((best, x) => (x < best ? x : best));
}

const clip = (x, low, high) => min(max(x, low), high);
const relu = (x) => (x <= 0 ? 0 : x);
const heaviside = (x) => 0.5 * (Math.sign(x) + 1);

// --- powers, exponentials, logarithms

// IEEE's pow: 1 to any power is 1, also to nan, and so is -1 to an infinite one.
const pow = (x, y) => (x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : Math.pow(x, y));

function pow_slope_base(x, y) {
  if (y === 0) return 0;
  const z = pow(x, y);
  const size = Math.abs(z);
  if (x !== 0 && (Number.isNaN(z) || (size > 1e-290 && size < Infinity))) return y * (z / x);
  const [less, error] = twoSum(y, -1);
  const slope = y * pow(x, less);
  const more = slope * error * Math.log(Math.abs(x));
  return Number.isFinite(more) ? slope + more : slope;
}

function pow_slope_exponent(x, y) {
  if (x === 0 && y >= 0) return y > 0 ? 0 : NaN;
  return pow(x, y) * Math.log(x);
}

const times_log = (a, x) => (a !== 0 || Number.isNaN(x) ? a * Math.log(x) : 0);

function root(x, n) {
  if (Number.isNaN(x) || Number.isNaN(n)) return NaN;
  if (x < 0) return mod(n, 2) === 1 ? -root(-x, n) : NaN;
  if (n === 2) return Math.sqrt(Math.abs(x));
  if (n === 3) return Math.cbrt(Math.abs(x));
  if (n === 0) return NaN;
  const z = pow(Math.abs(x), 1 / n);
  if (z === 0 || z === 1 || !Number.isFinite(z)) return z;
  const [product, error] = twoProduct(1 / n, n);
  return z + z * (((1 - product - error) / n) * Math.log(x));
}

const within = (z, slope) => (Number.isNaN(z) ? NaN : slope);
const square = (x) => x * x;
const sqrt = Math.sqrt;
const cbrt = Math.cbrt;
const exp = Math.exp;
const exp2 = (x) => Math.pow(2, x);
const expm1 = Math.expm1;
const log = Math.log;
const log2 = Math.log2;
const log10 = Math.log10;
const log1p = Math.log1p;

function log_base(x, base) {
  if (base === 2) return Math.log2(x);
  if (base === 10) return Math.log10(x);
  return Math.log(x) / Math.log(base);
}

// --- trigonometric and hyperbolic functions

const sin = Math.sin;
const cos = Math.cos;
const tan = Math.tan;
const sec = (x) => 1 / Math.cos(x);
const csc = (x) => 1 / Math.sin(x);
const cot = (x) => 1 / Math.tan(x);
const asin = Math.asin;
const acos = Math.acos;
const atan = Math.atan;
const atan2 = Math.atan2;
const asec = (x) => (x < 0 ? Math.PI - asec(-x) : Math.atan(Math.sqrt(x - 1) * Math.sqrt(x + 1)));
const acsc = (x) => copysign(Math.atan(1 / (Math.sqrt(Math.abs(x) - 1) * Math.sqrt(Math.abs(x) + 1))), x);
const acot = (x) => Math.atan(1 / x);
const sinh = Math.sinh;
const cosh = Math.cosh;
const tanh = Math.tanh;

function sech(x) {
  if (Math.abs(x) < 700) return 1 / Math.cosh(x);
  const half = Math.exp(-Math.abs(x) / 2);
  return 2 * half * half;
}

const csch = (x) => (Math.abs(x) < 700 ? 1 / Math.sinh(x) : copysign(sech(x), x));

function sech_square(x) {
  const c = Math.cosh(2 * x);
  return c < Infinity ? 2 / (1 + c) : sech(x) * sech(x);
}

function csch_square(x) {
  return Math.abs(x) < 300 ? -4 / (Math.expm1(2 * x) * Math.expm1(-2 * x)) : csch(x) * csch(x);
}

const coth = (x) => 1 / Math.tanh(x);
const asinh = Math.asinh;
const acosh = Math.acosh;
const atanh = Math.atanh;

function asech(x) {
  if (!(x >= 0)) return NaN;
  return x < 1e-9 ? Math.LN2 - Math.log(x) : Math.asinh(Math.sqrt((1 - x) * (1 + x)) / x);
}

function acsch(x) {
  const size = Math.abs(x);
  return copysign(size < 1e-9 ? Math.LN2 - Math.log(size) : Math.asinh(1 / size), x);
}

const acoth = (x) => (Math.abs(x) >= 1 ? copysign(Math.log1p(2 / (Math.abs(x) - 1)) / 2, x) : NaN);
const arc_slope = (x) => 1 / Math.sqrt((1 - x) * (1 + x));
const pole_pair = (x) => 1 / (1 - x) / (1 + x);
const witch = (x) => 1 / (1 + x * x) || 1 / x / x;
const hypot = Math.hypot;
const direction = (x, length) => (length === 0 ? 0 : x / length);
const sinc = (x) => (x === 0 ? 1 : Math.abs(x) === Infinity ? 0 : Math.sin(x) / x);

// --- activations

function sigmoid(x) {
  const z = Math.exp(-Math.abs(x));
  return (x < 0 ? z : 1) / (1 + z);
}

function sigmoid_slope(x) {
  const z = Math.exp(-Math.abs(x));
  return z / (1 + z) / (1 + z);
}

function logaddexp(x, y) {
  if (x === y) return x + Math.LN2;
  const [low, high] = x < y ? [x, y] : [y, x];
  const [difference, error] = twoSum(low, -high);
  const z = Math.exp(difference);
  return high + Math.log1p(z + z * error);
}

function proportion(x, y) {
  const [difference, error] = twoSum(x, -y);
  const z = sigmoid(difference);
  return z + z * sigmoid(-difference) * error;
}

const softplus = (x) => logaddexp(x, 0);
const logsigmoid = (x) => -logaddexp(-x, 0);
const logit = (x) => (x > 0.25 && x < 0.75 ? 2 * Math.atanh(2 * x - 1) : Math.log(x / (1 - x)));
const softsign = (x) => (Math.abs(x) === Infinity ? Math.sign(x) : x / (1 + Math.abs(x)));

// factor·exp(x), for x < 0, also where the exponential alone underflows.
function timesExp(factor, x) {
  const half = Math.exp(x / 2);
  return factor * half * half;
}

const silu = (x) => (x < -700 ? timesExp(x, x) : x * sigmoid(x));
const silu_slope = (x) => (x < -700 ? timesExp(1 + x, x) : sigmoid(x) * (1 + x * sigmoid(-x)));

// From 40 on mish(x) is x, and its slope 1.
function mish(x) {
  if (x < -700) return silu(x);
  const w = Math.exp(Math.min(x, 40));
  const n = w * (w + 2);
  return x * (n / (n + 2));
}

function mish_slope(x) {
  if (x < -700) return silu_slope(x);
  const capped = Math.min(x, 40);
  const w = Math.exp(capped);
  return (w / (w * (w + 2) + 2)) * (w + 2 + (2 * capped) / (1 + (w * w) / (2 + 2 * w)));
}

// --- exponentials of squares, and the normal distribution

// a·b as a rounded product and its exact error (Dekker 1971, Veltkamp's splitting).
function twoProduct(a, b) {
  const product = a * b;
  if (!(Math.abs(product) < 1e290) || Math.abs(a) > 1e150 || Math.abs(b) > 1e150) return [product, 0];
  const [high, low] = split(a);
  const [otherHigh, otherLow] = split(b);
  return [product, high * otherHigh - product + high * otherLow + low * otherHigh + low * otherLow];
}

// a + b as a rounded sum and its exact error, 0 where the sum is infinite (Knuth's form).
function twoSum(a, b) {
  const total = a + b;
  if (Math.abs(total) === Infinity) return [total, 0];
  const part = total - a;
  return [total, a - (total - part) + (b - part)];
}

function split(a) {
  const c = 134217729 * a;
  const high = c - (c - a);
  return [high, a - high];
}

function bell(x) {
  const [square, error] = twoProduct(x, x);
  const z = Math.exp(-square);
  return z - z * error;
}

function half_bell(x) {
  const [square, error] = twoProduct(x, x);
  const z = Math.exp(-square / 2);
  return z - z * (error / 2);
}

function swell(x) {
  const [square, error] = twoProduct(x, x);
  const z = Math.exp(square);
  return z < Infinity ? z + z * error : z;
}

function normal_pdf(x, mean = 0, deviation = 1) {
  return half_bell((x - mean) / deviation) / (deviation * Math.sqrt(2 * Math.PI));
}

function normal_cdf(x, mean = 0, deviation = 1) {
  const u = (x - mean) / deviation;
  const [t, error] = twoProduct(-u, Math.SQRT1_2);
  const tail = erfc(t);
  if (tail === 0 || !Number.isFinite(t)) return tail / 2;
  // The second number is the rounding error of 1/√2.
  return (tail - (2 / Math.sqrt(Math.PI)) * bell(t) * (error - u * -4.833646656726457e-17)) / 2;
}
