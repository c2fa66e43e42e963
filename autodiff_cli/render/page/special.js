// Special functions of numbers. Where `numbers/special_floats.py` has a method, it is the same; where it calls SciPy,
// the method is named here.

const EULER = 0.5772156649015329;

// 1 + r(1) + r(1)·r(2) + …, until the terms no longer count.
function sumOfProducts(ratio) {
  let term = 1;
  let total = 1;
  for (let k = 1; Math.abs(term) > 1e-17 * Math.abs(total); k++) {
    term *= ratio(k);
    total += term;
  }
  return total;
}

// The value of a polynomial without constant term, coefficients of the highest power first.
const polynomial = (coefficients, x) => coefficients.reduce((total, coefficient) => (total + coefficient) * x, 0);

// --- error functions

// Near 0 by the series 2/√π·exp(-x²)·x·Σ (2x²)^k/(1·3·…·(2k+1)), whose terms have one sign.
function erf(x) {
  if (!(Math.abs(x) < 0.5)) return copysign(1 - erfc(Math.abs(x)), x);
  return (2 / Math.sqrt(Math.PI)) * x * Math.exp(-x * x) * sumOfProducts((k) => (2 * x * x) / (2 * k + 1));
}

function erfc(x) {
  if (x < -0.5) return 2 - erfc(-x);
  if (x < 0.5) return 1 - erf(x);
  if (x > 30) return 0;
  const sum = MIDPOINTS.reduce((total, [t2, height]) => total + height / (t2 + x * x), 0);
  return (bell(x) * x * sum) / Math.PI + (x < 6 ? 2 / (1 + Math.exp(4 * Math.PI * x)) : 0);
}

// The midpoint rule of step 1/2 for the integral of exp(-t²)/(t² + z²) over all t, as pairs t² and step·exp(-t²). With
// the residue 2/(1 + exp(4πz)) it gives erfc(z)·π/(z·exp(-z²)) to all digits (Hunter and Regan 1972).
const MIDPOINTS = Array.from({ length: 13 }, (_, k) => (k / 2 + 0.25) ** 2).map((t2) => [t2, Math.exp(-t2)]);

// By the power series; far out by the asymptotic one of Dawson's function.
function erfi(x) {
  if (Math.abs(x) === Infinity) return x;
  if (Math.abs(x) > 7) return (swell(x) / (x * Math.sqrt(Math.PI))) * sumOfProducts((k) => (2 * k - 1) / (2 * x * x));
  return (2 / Math.sqrt(Math.PI)) * x * sumOfProducts((k) => (x * x * (2 * k - 1)) / (k * (2 * k + 1)));
}

// Winitzki's approximation, then Halley's method on erf, or on erfc where that has more digits.
function erfinv(x) {
  const size = Math.abs(x);
  if (!(size < 1)) return size === 1 ? x * Infinity : NaN;
  if (size < 1e-8) return (Math.sqrt(Math.PI) / 2) * x;
  const logarithm = Math.log1p(-size * size) / 2;
  const middle = 2 / (Math.PI * 0.147) + logarithm;
  let y = Math.sqrt((-2 * logarithm) / 0.147 / (Math.sqrt(middle * middle - (2 * logarithm) / 0.147) + middle));
  for (let k = 0; k < 3; k++) {
    const excess = size < 0.5 ? erf(y) - size : 1 - size - erfc(y);
    const step = (excess * swell(y) * Math.sqrt(Math.PI)) / 2;
    y -= step / (1 + y * step);
  }
  return copysign(y, x);
}

// --- exponential, sine and cosine integrals

// Left of -1 by the continued fraction of E1; then by the power series, and from 50 on by the asymptotic one.
function Ei(x) {
  if (x > 50) return growth(x) * sumOfProducts((k) => k / x);
  if (x === 0) return -Infinity;
  if (x < -1) return x < -745 ? -0 : -Math.exp(x) * exponentialFraction(-x);
  return x * sumOfProducts((k) => (x * k) / (k + 1) ** 2) + (Math.log(Math.abs(x)) + EULER);
}

// 1/(t + 1 - 1/(t + 3 - 4/(t + 5 - …))), by Lentz's method.
function exponentialFraction(t) {
  let divisor = t + 1;
  let behind = 1 / divisor;
  let ahead = Infinity;
  let fraction = behind;
  for (let k = 1, factor = 0; Math.abs(factor - 1) > 2e-16 && k < 500; k++) {
    divisor += 2;
    behind = 1 / (divisor - k * k * behind);
    ahead = divisor - (k * k) / ahead;
    factor = ahead * behind;
    fraction *= factor;
  }
  return fraction;
}

function Si(x) {
  const size = Math.abs(x);
  if (size === Infinity) return copysign(Math.PI / 2, x);
  if (size > 4) {
    const [f, g] = waves(size);
    return copysign(Math.PI / 2 - f * Math.cos(size) - g * Math.sin(size), x);
  }
  return sineSeries(x, -x * x);
}

function Ci(x) {
  if (!(x > 0)) return x === 0 ? -Infinity : NaN;
  if (x === Infinity) return 0;
  if (x > 4) {
    const [f, g] = waves(x);
    return f * Math.sin(x) - g * Math.cos(x);
  }
  return cosineSeries(x, -x * x);
}

// The amplitudes f and g of the waves that the sine and cosine integrals make, for x > 4: g - i·f is exp(ix)·E1(ix), by
// its continued fraction in complex numbers, evaluated from its far end; far out by the asymptotic series.
function waves(x) {
  const square = x * x;
  if (x > 40) {
    return [
      sumOfProducts((k) => (-2 * k * (2 * k - 1)) / square) / x,
      sumOfProducts((k) => (-2 * k * (2 * k + 1)) / square) / square,
    ];
  }
  let [real, imaginary] = [0, 0];
  for (let k = 120; k >= 0; k--) {
    // 1/(ix + 2k + 1 - (k + 1)²·tail)
    const [a, b] = [2 * k + 1 - (k + 1) ** 2 * real, x - (k + 1) ** 2 * imaginary];
    const size = a * a + b * b;
    [real, imaginary] = [a / size, -b / size];
  }
  return [-imaginary, real];
}

function Shi(x) {
  if (Math.abs(x) > 20) return copysign(Ei(Math.abs(x)) / 2, x);
  return sineSeries(x, x * x);
}

function Chi(x) {
  if (!(x > 0)) return x === 0 ? -Infinity : NaN;
  if (x > 20) return Ei(x) / 2;
  return cosineSeries(x, x * x);
}

// x·Σ square^k/((2k+1)·(2k+1)!) from k = 0: the sine integral where the square is -x², the hyperbolic one where x².
const sineSeries = (x, square) => x * sumOfProducts((k) => (square * (2 * k - 1)) / (2 * k * (2 * k + 1) ** 2));

// γ + log(x) + Σ square^k/(2k·(2k)!) from k = 1: likewise the cosine integrals.
function cosineSeries(x, square) {
  const ratio = (k) => (square * k) / ((2 * k + 1) * (2 * k + 2) * (k + 1));
  return EULER + Math.log(x) + (square / 4) * sumOfProducts(ratio);
}

// --- exp(x)/x, sinc, sinhc, and their derivatives

function growth(x) {
  if (!(x >= 700)) return Math.exp(x) / x;
  const half = Math.exp(x / 2);
  return x < Infinity ? (half / x) * half : x;
}

const coshc = (x) => (Math.abs(x) < 700 ? Math.cosh(x) / x : copysign(1, x) * (growth(Math.abs(x)) / 2));

function sinhc(x) {
  if (x === 0) return 1;
  return Math.abs(x) < 700 ? Math.sinh(x) / x : growth(Math.abs(x)) / 2;
}

const isOrder = (n) => n >= 0 && n <= 1000 && Number.isInteger(n);

function sinc_derivative(n, x) {
  if (!isOrder(n) || Number.isNaN(x)) return NaN;
  if (Math.abs(x) === Infinity) return 0;
  if (Math.abs(x) < 2 * (1 + n)) return sincSeries(n, x);
  const turns = [Math.sin(x), Math.cos(x), -Math.sin(x), -Math.cos(x)];
  let value = turns[0] / x;
  for (let k = 1; k <= n; k++) value = (turns[k % 4] - k * value) / x;
  return value;
}

// Whole numbers in units of 2^-bits hold the digits that the cancellation of large terms costs.
function sincSeries(n, x) {
  if (Math.abs(x) < 1e-30 && n % 2) return ((-1) ** ((n + 1) / 2) * x) / (n + 2);
  const bits = 256 + Math.trunc(2 * Math.abs(x));
  const unit = 1n << BigInt(bits);
  const scaled = wholeUnits(x, bits);
  const square = (scaled * scaled) / unit;
  let k = Math.trunc((n + 1) / 2);
  let rest = 2 * k - n;
  let term = BigInt((-1) ** k) * (rest ? scaled : unit);
  let total = 0n;
  for (; term !== 0n; k++, rest += 2) {
    total += term / BigInt(2 * k + 1);
    term = -(term * square) / unit / BigInt((rest + 1) * (rest + 2));
  }
  const excess = Math.max(0, bits - 1000); // beyond 2^-1000 no float has a digit here
  return Number(total >> BigInt(excess)) / 2 ** (bits - excess);
}

// x in units of 2^-bits.
function wholeUnits(x, bits) {
  let shift = bits;
  for (; !Number.isInteger(x) && shift > 0; shift--) x *= 2;
  return BigInt(Math.trunc(x)) << BigInt(shift);
}

function sinhc_derivative(n, x) {
  if (!isOrder(n) || Number.isNaN(x)) return NaN;
  if (Math.abs(x) === Infinity) return x < 0 && n % 2 ? -Infinity : Infinity;
  if (Math.abs(x) > 3 * (1 + n)) {
    const [even, odd] = [sinhc(x), coshc(x)];
    if (even === Infinity) return n % 2 ? odd : even;
    let value = even;
    for (let k = 1; k <= n; k++) value = (k % 2 ? odd : even) - (k * value) / x;
    return value;
  }
  let k = Math.trunc((n + 1) / 2);
  let rest = 2 * k - n;
  let power = rest ? x : 1;
  let total = 0;
  for (let before = NaN; total !== before; k++, rest += 2) {
    before = total;
    total += power / (2 * k + 1);
    power *= (x * x) / ((rest + 1) * (rest + 2));
  }
  return total;
}

// --- Fresnel's integrals

function phase(x) {
  if (Math.abs(x) >= 2 ** 53) return Number.isFinite(x) ? 0 : NaN;
  const [square, error] = twoProduct(x, x);
  const turn = (square % 4) + error;
  return turn - 4 * round(turn / 4);
}

function chirp_sine(x) {
  const turn = phase(x);
  return Math.sin((Math.PI / 2) * (Math.abs(turn) <= 1 ? turn : copysign(2, turn) - turn));
}

const chirp_cosine = (x) => Math.sin((Math.PI / 2) * (1 - Math.abs(phase(x))));

const fresnels = (x) => copysign(fresnel(Math.abs(x))[1], x);
const fresnelc = (x) => copysign(fresnel(Math.abs(x))[0], x);

// The cosine and the sine integral, for x >= 0. Near 0 by their power series; up to 6 as a complex error function, by
// the same sum as erfc's; from there by their asymptotic series.
function fresnel(x) {
  if (x === Infinity) return [0.5, 0.5];
  const w = (Math.PI / 2) * x * x;
  if (x < 1.2) {
    const ratio = (first) => (k) => {
      const j = 2 * k + first;
      return (-w * w * (2 * j - 3)) / (j * (j - 1) * (2 * j + 1));
    };
    return [x * sumOfProducts(ratio(0)), ((x * w) / 3) * sumOfProducts(ratio(1))];
  }
  const [cosine, sine] = [chirp_cosine(x), chirp_sine(x)];
  const [f, g] = x > 6 ? fresnelWaves(x) : midpointWaves(x, w);
  const [real, imaginary] = x > 6 ? [0, 0] : residue(2 * Math.PI ** 1.5 * x);
  return [0.5 + f * sine - g * cosine - real, 0.5 - f * cosine - g * sine - imaginary];
}

function fresnelWaves(x) {
  const t = 1 / (Math.PI * x) / x;
  const sums = [0, 0];
  for (let k = 0, term = 1; k < 20; k++) {
    sums[k % 2] += k % 4 > 1 ? -term : term;
    term *= (2 * k + 1) * t;
  }
  return [sums[0] / (Math.PI * x), sums[1] / (Math.PI * x)];
}

function midpointWaves(x, w) {
  const scale = x / (2 * Math.sqrt(Math.PI));
  const sum = (part) => MIDPOINTS.reduce((total, [t2, height]) => total + (height * part(t2)) / (t2 * t2 + w * w), 0);
  return [scale * sum(() => w), scale * sum((t2) => t2)];
}

// (1 + i)/(1 + exp(a - ia)), as its real and imaginary part.
function residue(a) {
  const [real, imaginary] = [1 + Math.exp(a) * Math.cos(a), -Math.exp(a) * Math.sin(a)];
  const size = real * real + imaginary * imaginary;
  return [(real + imaginary) / size, (real - imaginary) / size];
}

// --- Lambert's W

const INVERSE_E = 0.36787944117144233;
const INVERSE_E_ERROR = -1.2428753672788363e-17;

function lambertw(x) {
  if (x === 0 || x === Infinity) return x;
  if (!(x >= -INVERSE_E)) return NaN;
  if (x < -0.25) return lambertw_rise(x) - 1;
  if (x > 3) return solvedByLogarithms(x);
  let w = x < 1 ? x / (1 + x) : Math.log1p(x) * 0.75;
  for (let k = 0; k < 6; k++) {
    const excess = w - x * Math.exp(-w);
    w -= excess / (1 + w - ((w + 2) * excess) / (2 * w + 2));
  }
  return w;
}

function solvedByLogarithms(x) {
  const logarithm = Math.log(x);
  let w = logarithm > 1.5 ? logarithm - Math.log(logarithm) : 1;
  for (let k = 0; k < 6; k++) w -= (w / (1 + w)) * (w + Math.log(w) - logarithm);
  return w;
}

function lambertw_rise(x) {
  if (!(x >= -INVERSE_E)) return NaN;
  if (x >= -0.25) return 1 + lambertw(x);
  return polynomial(branchSeries(), Math.sqrt(2 * Math.E * Math.max(x + INVERSE_E + INVERSE_E_ERROR, 0)));
}

function lambertw_slope(x) {
  const w = lambertw(x);
  return 1 / (x > 1 ? Math.exp(w) + x : Math.exp(w) * lambertw_rise(x));
}

function branchSeries() {
  const mu = [-1, 1];
  const alpha = [2, -1];
  for (let k = 2; k < 60; k++) {
    let sum = 0;
    for (let j = 2; j < k; j++) sum += mu[j] * mu[k + 1 - j];
    alpha.push(sum);
    mu.push(((k - 1) / (k + 1)) * (mu[k - 2] / 2 + alpha[k - 2] / 4) - alpha[k] / 2 - mu[k - 1] / (k + 1));
  }
  return mu.slice(1).reverse();
}
