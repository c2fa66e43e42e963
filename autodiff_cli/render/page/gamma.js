// The gamma family of numbers. Where `numbers/gamma_floats.py` has a method, it is the same; where it calls the
// platform or SciPy, the method is named here.

// B_2, B_4, … B_20, the Bernoulli numbers of the expansions for large arguments.
const BERNOULLI = [
  1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
];
const LARGE = 12;

// Where digamma is 0, as a rounded number and its rounding error.
const DIGAMMA_ROOT = 1.4616321449683622;
const DIGAMMA_ROOT_ERROR = 9.549995429965697e-17;

const isPole = (x) => x === -Infinity || (x <= 0 && Number.isInteger(x));

// The distance of x from the nearest whole number, exactly, and 1 or -1 as that number is even or odd.
function fromWhole(x) {
  const rest = x % 2;
  const whole = round(rest);
  return [rest - whole, isOdd(whole) ? -1 : 1];
}

function sinPi(x) {
  const [distance, sign] = fromWhole(x);
  return sign * Math.sin(Math.PI * distance);
}

// The product of x, x + 1, … of so many factors.
function rising(x, count) {
  let product = 1;
  for (let k = 0; k < count; k++) product *= x + k;
  return product;
}

const factorial = (n) => rising(1, n);

// --- gamma and its logarithm

// Below 24 from the logarithm near 2, by recurrence, exact for whole numbers; from there by Stirling's formula, with
// the power in two halves, because it overflows before gamma does; left of -20 by reflection.
function gamma(x) {
  if (x === 0) return copysign(Infinity, x);
  if (isPole(x)) return NaN;
  if (x < -20) return Math.PI / (sinPi(x) * -x * gamma(-x));
  if (x < 24) {
    const steps = round(x) - 2;
    const near = Math.exp(lgammaNear2(x - 2 - steps));
    return steps < 0 ? near / rising(x, -steps) : near * rising(x - steps, steps);
  }
  if (!(x < 172)) return x + Infinity;
  const half = Math.pow(x, x / 2 - 0.25);
  return Math.sqrt(2 * Math.PI) * half * (Math.exp(-x) * half) * Math.exp(stirlingRest(x));
}

function lgamma(x) {
  if (isPole(x) || x === Infinity) return Infinity;
  if (x < -0.5) return Math.log(Math.PI / Math.abs(x * sinPi(x))) - lgamma(-x);
  if (x < 0.5) return lgammaNear2(x) - Math.log1p(x) - Math.log(Math.abs(x));
  if (x < 1.5) return lgammaNear2(x - 1) - Math.log1p(x - 1);
  if (x < 10) {
    const steps = round(x) - 2;
    return lgammaNear2(x - 2 - steps) + Math.log(rising(x - steps, steps));
  }
  return (x - 0.5) * (Math.log(x) - 1) + (Math.log(2 * Math.PI) / 2 - 0.5 + stirlingRest(x));
}

// lgamma(2 + t) for |t| <= 1/2: t·(1 - γ) + Σ (-t)^k (ζ(k) - 1)/k from k = 2.
const lgammaNear2 = (t) => polynomial(NEAR_2, t);

const NEAR_2 = Array.from({ length: 29 }, (_, j) => 30 - j)
  .map((k) => ((-1) ** k * sumOfPowers(k - 1, 2)) / factorial(k - 1) / k)
  .concat(1 - EULER);

// What Stirling's formula leaves of log(gamma(x)): Σ B_2j/(2j·(2j-1)·x^(2j-1)), for large x.
function stirlingRest(x) {
  let total = 0;
  for (let j = BERNOULLI.length; j > 0; j--) total = total / x / x + BERNOULLI[j - 1] / (2 * j * (2 * j - 1));
  return total / x;
}

// --- digamma and its derivatives

function digamma(x) {
  if (x === 0) return -copysign(Infinity, x);
  if (isPole(x)) return NaN;
  if (x < 0) return digamma(1 - x) - Math.PI / Math.tan(Math.PI * fromWhole(x)[0]);
  if (x === Infinity) return x;
  if (x > 1.2 && x < 1.8) return -digamma_gap(DIGAMMA_ROOT, x - DIGAMMA_ROOT - DIGAMMA_ROOT_ERROR);
  let before = 0;
  for (; x < LARGE; x++) before += 1 / x;
  return Math.log(x) - (before + sumOfTerms(0, x, () => 1) / x);
}

function polygamma(n, x) {
  if (!isOrder(n) || Number.isNaN(x)) return NaN;
  if (n === 0) return digamma(x);
  if (x === -Infinity) return NaN;
  if (isPole(x)) return n % 2 ? Infinity : x === 0 ? -copysign(Infinity, x) : NaN;
  return (n % 2 ? 1 : -1) * sumOfPowers(n, x);
}

// n!·y^-(n+1), also where the factorial is too large for a float.
function weight(n, y) {
  return n <= 100 ? factorial(n) * Math.pow(y, -n - 1) : Math.exp(lgamma(n + 1) - (n + 1) * Math.log(y));
}

// The Euler-Maclaurin expansion of Σ (1 + k/y)^-(n+1) from k = 0, without its leading term, the integral y/n; each term
// times a share of it, a function of the power of y that the term times `weight` falls with.
function sumOfTerms(n, y, share) {
  let total = 0.5 * share(n + 1);
  let factor = (n + 1) / y / 2;
  BERNOULLI.forEach((bernoulli, i) => {
    const j = i + 1;
    total += bernoulli * factor * share(n + 2 * j);
    factor *= ((n + 2 * j) * (n + 2 * j + 1)) / ((2 * j + 1) * (2 * j + 2)) / y / y;
  });
  return total;
}

// n!·Σ (x + k)^-(n+1) from k = 0, for n > 0; for negative x the sum over all whole k, less the part below.
function sumOfPowers(n, x) {
  if (x < 0) {
    const [distance] = fromWhole(x);
    const [above, below] = distance > 0 ? [distance, 1 - distance] : [1 + distance, -distance];
    return sumOfPowers(n, above) + (n % 2 ? 1 : -1) * (sumOfPowers(n, below) - sumOfPowers(n, 1 - x));
  }
  if (x === Infinity) return 0;
  let total = 0;
  for (; x < LARGE + n; x++) {
    const term = weight(n, x);
    total += term;
    if (!(term > 1e-18 * total) || total === Infinity) return total;
  }
  return total + weight(n - 1, x) + weight(n, x) * sumOfTerms(n, x, () => 1);
}

const digamma_gap = (a, b) => polygamma_gap(0, a, b);

// Each term y^-p of the sums for one polygamma less the (y + b)^-p that answers to it; below 0 by Taylor's series.
function polygamma_gap(n, a, b) {
  if (!isOrder(n)) return NaN;
  if (!(a > 0 && a < Infinity && a + b > a / 2 && a + b < Infinity)) {
    const isNear = a < 0 && Math.abs(b) < 0.03 * Math.abs(fromWhole(a)[0]);
    return isNear ? gapSeries(n, a, b) : polygamma(n, a) - polygamma(n, a + b);
  }
  const share = (p) => -Math.expm1(-p * Math.log1p(b / a));
  const sign = n % 2 ? 1 : -1;
  let total = 0;
  for (; Math.min(a, a + b) < LARGE + n; a++) {
    const term = weight(n, a) * share(n + 1);
    total += term;
    if (!(Math.abs(term) > 1e-18 * Math.abs(total)) || Math.abs(total) === Infinity) return sign * total;
  }
  const leading = n ? weight(n - 1, a) * share(n) : Math.log1p(b / a);
  return sign * (total + leading + weight(n, a) * sumOfTerms(n, a, share));
}

function gapSeries(n, a, b) {
  let total = 0;
  for (let k = 12; k > 0; k--) total -= (b ** k / factorial(k)) * polygamma(n + k, a);
  return total;
}

// --- beta

function beta(a, b) {
  if (!(a <= b)) [a, b] = [b, a];
  if (Number.isNaN(a) || Number.isNaN(b) || a === -Infinity) return NaN;
  if (isPole(a) || isPole(b)) return isPole(a) && isPole(b) ? NaN : gamma(isPole(a) ? a : b);
  if (isPole(a + b)) return 0;
  if (a + b === Infinity) return a > 0 ? 0 : Infinity * gamma(a);
  if (a < 0) return reflectedBeta(a, b);
  if (a + b < 20) return (gamma(b) / gamma(a + b)) * gamma(a);
  const rest = stirlingRest(b) - stirlingRest(a + b);
  if (a < 10) return gamma(a) * Math.exp(a - (b - 0.5) * Math.log1p(a / b) - a * Math.log(a + b) + rest);
  const exponent = -a * Math.log1p(b / a) - b * Math.log1p(a / b) + rest + stirlingRest(a);
  return Math.sqrt(2 * Math.PI) * Math.sqrt(1 / a + 1 / b) * Math.exp(exponent);
}

// For a < 0, with gamma(a) = π/(sin(πa)·gamma(1 - a)), and the same for a + b where that is below 1.
function reflectedBeta(a, b) {
  const [nearA, signA] = fromWhole(a);
  if (a + b >= 1) return Math.PI / (signA * Math.sin(Math.PI * nearA) * b * beta(1 - a, a + b));
  const [nearB, signB] = fromWhole(b);
  const sines = Math.sin(Math.PI * (nearA + nearB)) / Math.sin(Math.PI * nearA);
  return signB * sines * beta(b, 1 - a - b);
}

function beta_slope(a, b) {
  if (isPole(a + b) && !isPole(a) && !isPole(b)) {
    const order = -(a + b);
    return gamma(a) * gamma(b) * gamma(order + 1) * (isOdd(order) ? -1 : 1);
  }
  return beta(a, b) * digamma_gap(a, b);
}

// --- the incomplete gamma functions

function gamma_density(a, x) {
  if (Number.isNaN(a) || !(x >= 0)) return NaN;
  if (isPole(a) || x > 2000 + 2 * Math.abs(a)) return Number.isFinite(a) ? 0 : NaN;
  if (a < 20) {
    const half = Math.exp(-x / 2);
    return half * (pow(x, a - 1) / gamma(a)) * half;
  }
  if (x === 0 || a === Infinity) return 0;
  const bell = Math.exp(-a * logRest((x - a) / a, x / a) - stirlingRest(a));
  return bell ? (Math.sqrt(a / (2 * Math.PI)) / x) * bell : 0;
}

// u - log(1 + u), which cancels near 0: with v = u/(2 + u), log(1 + u) is 2·atanh(v).
function logRest(u, ratio) {
  if (Math.abs(u) > 0.4) return u - Math.log(ratio);
  const v = u / (2 + u);
  const square = v * v;
  let total = 0;
  for (let k = 13; k >= 0; k--) total = total * square + 1 / (2 * k + 3);
  return u * v - 2 * v * square * total;
}

const gammainc = (a, x) => incomplete(a, x)[0];
const gammaincc = (a, x) => incomplete(a, x)[1];

// The lower and the upper function. Around a large a by their uniform expansion; else by the lower one's series below
// a, the upper one's continued fraction above, and where both a and x are small by the upper one's own series.
function incomplete(a, x) {
  if (!(a >= 0 && x >= 0) || (a === 0 && x === 0) || (a === Infinity && x === Infinity)) return [NaN, NaN];
  if (x === 0 || a === Infinity) return [0, 1];
  if (a === 0 || x === Infinity) return [1, 0];
  if (a > 50 && Math.abs(x - a) <= 0.3 * a) return uniform(a, x);
  if (a < 1 && x < 1.1) return [lowerSeries(a, x), upperSeries(a, x)];
  if (x < a + 1) {
    const lower = lowerSeries(a, x);
    return [lower, 1 - lower];
  }
  const upper = a * mass(a, x) * upperFraction(a, x);
  return [1 - upper, upper];
}

// x^a·exp(-x)/gamma(1 + a).
function mass(a, x) {
  if (a >= 20) return gamma_density(a, x) * (x / a);
  if (x > 2000) return 0;
  const half = Math.exp(-x / 2);
  return ((pow(x, a) * half) / gamma(a + 1)) * half;
}

const lowerSeries = (a, x) => mass(a, x) * sumOfProducts((k) => x / (a + k));

// 1 - x^a/gamma(1 + a)·(1 - a·Σ …), for small a: DLMF 8.7.3.
function upperSeries(a, x) {
  const logGamma = a < 0.5 ? lgammaNear2(a) - Math.log1p(a) : lgamma(1 + a);
  const logarithm = a * Math.log(x) - logGamma;
  let [term, sum] = [1, 0];
  for (let n = 1; n < 40; n++) {
    term *= -x / n;
    sum += term / (a + n);
  }
  return -Math.expm1(logarithm) - a * Math.exp(logarithm) * sum;
}

// 1/(x + 1 - a - 1·(1 - a)/(x + 3 - a - …)), by Lentz's method.
function upperFraction(a, x) {
  let divisor = x + 1 - a;
  let behind = 1 / divisor;
  let ahead = Infinity;
  let fraction = behind;
  for (let k = 1, factor = 0; Math.abs(factor - 1) >= 3e-16; k++) {
    const numerator = k * (a - k);
    divisor += 2;
    behind = 1 / (numerator * behind + divisor);
    ahead = divisor + numerator / ahead;
    factor = ahead * behind;
    fraction *= factor;
  }
  return fraction;
}

// Temme's expansion (DLMF 8.12): half of erfc(∓η·√(a/2)), with η²/2 = u - log(1 + u) and u = (x - a)/a, and a rest.
function uniform(a, x) {
  const half = logRest((x - a) / a, x / a);
  const eta = copysign(Math.sqrt(2 * half), x - a);
  const coefficients = TEMME.map((row) => row.reduceRight((total, coefficient) => total * eta + coefficient, 0));
  const series = coefficients.reduceRight((total, coefficient) => total / a + coefficient, 0);
  const rest = (Math.exp(-a * half) / Math.sqrt(2 * Math.PI * a)) * series;
  const spread = eta * Math.sqrt(a / 2);
  return [erfc(-spread) / 2 - rest, erfc(spread) / 2 + rest];
}

// The coefficients of its rest, powers of 1/a by powers of η: DLMF 8.12.9 to 8.12.12.
const TEMME = temmeCoefficients(10, 22);

function temmeCoefficients(rows, columns) {
  const count = columns + 2 * rows + 2;
  const alpha = [0, 1];
  for (let n = 2; n <= count; n++) {
    let sum = alpha[n - 1];
    for (let j = 2; j < n; j++) sum -= j * alpha[j] * alpha[n - j + 1];
    alpha.push(sum / (n + 1));
  }
  const first = alpha.slice(2).map((value, n) => (n + 2) * value);
  const table = [first.slice()];
  table[0][0] = -1 / 3;
  const stirling = stirlingCoefficients(alpha, rows);
  for (let k = 1; k < rows; k++) {
    const above = table[k - 1];
    table.push(above.slice(2).map((value, n) => (-1) ** k * stirling[k] * table[0][n] + (n + 2) * value));
  }
  return table.map((row) => row.slice(0, columns));
}

// Those of gamma's own expansion, 1 + 1/(12a) + …: (2k + 1)!!·alpha(2k + 1).
function stirlingCoefficients(alpha, count) {
  let odd = 1;
  return Array.from({ length: count }, (_, k) => (odd *= 2 * k + 1) * alpha[2 * k + 1]);
}
