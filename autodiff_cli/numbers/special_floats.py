"""Error functions, integrals, derivatives of sinc and Lambert's W on floats, by the rules of IEEE 754.

Where SciPy is right to the last digits it does the work, and is imported by the first call that needs it. Own code
where it is not: Fresnel's integrals far out, W near its branch point, products with exp(x²).
"""

from __future__ import annotations

import math
from functools import cache
from math import copysign, inf, nan, pi

from autodiff_cli.numbers.elementary_floats import cosh, divide, exp, is_order, sinh, sum_of_products, two_product
from autodiff_cli.numbers.scipy_special import scipy

_EULER = 0.5772156649015329  # γ


# --- error functions


def swell(x: float) -> float:
    """exp(x²), with the rounding error of the square carried along."""
    square, error = two_product(x, x)
    z = exp(square)
    return z + z * error if z < inf else z


def erfi(x: float) -> float:
    """2/√π times the integral of exp(t²) from 0 to x: a power series; far out exp(x²) times Dawson's function."""
    if abs(x) < 2:
        return 2 / math.sqrt(pi) * x * sum_of_products(lambda k: x * x * (2 * k - 1) / (k * (2 * k + 1)))
    if math.isinf(x):
        return x
    return 2 / math.sqrt(pi) * swell(x) * float(scipy("dawsn", x))


def erfinv(x: float) -> float:
    """The inverse of erf, on [-1, 1]."""
    return float(scipy("erfinv", x))


# --- exponential, sine and cosine integrals


def exponential_integral(x: float) -> float:
    """Ei(x), the principal value of the integral of exp(t)/t from -∞ to x.

    From 10 on, where SciPy loses up to 130 ulps, by the power series γ + log(x) + Σ x^k/(k·k!), and from 50 on by the
    asymptotic one, exp(x)/x·Σ k!/x^k.
    """
    if not x > 10:
        return float(scipy("expi", x))
    if x > 50:
        return growth(x) * sum_of_products(lambda k: k / x)
    return x * sum_of_products(lambda k: x * k / (k + 1) ** 2) + (math.log(x) + _EULER)


def sine_integral(x: float) -> float:
    """Si(x), the integral of sin(t)/t from 0 to x."""
    return float(scipy("sici", x)[0])


def cosine_integral(x: float) -> float:
    """Ci(x), minus the integral of cos(t)/t from x to ∞; complex below 0, so nan."""
    return float(scipy("sici", x)[1]) if x >= 0 else nan


def hyperbolic_sine_integral(x: float) -> float:
    """Shi(x), the integral of sinh(t)/t from 0 to x; far out half of Ei(x), which does not overflow as early."""
    if abs(x) > 20:
        return copysign(exponential_integral(abs(x)) / 2, x)
    return float(scipy("shichi", x)[0])


def hyperbolic_cosine_integral(x: float) -> float:
    """Chi(x) = γ + log(x) + the integral of (cosh(t) - 1)/t from 0 to x; complex below 0, so nan."""
    if x > 20:
        return exponential_integral(x) / 2
    return float(scipy("shichi", x)[1]) if x >= 0 else nan


def growth(x: float) -> float:
    """exp(x)/x; far out in halves, because exp(x) alone overflows before the quotient does."""
    if x < 700:
        return divide(exp(x), x)
    half = exp(x / 2)
    return divide(half, x) * half if x < inf else x


def hyperbolic_growth(x: float) -> float:
    """cosh(x)/x."""
    return divide(cosh(x), x) if abs(x) < 700 else growth(abs(x)) / 2 * copysign(1.0, x)


# --- sinc, sinhc and their derivatives


def sinc_derivative(n: float, x: float) -> float:
    """The n-th derivative of sin(x)/x, n a whole number from 0.

    Far from 0 by the recurrence x·s_n + n·s_(n-1) = sin(x + nπ/2), which is what n-fold differentiation of
    x·sinc(x) = sin(x) gives. Each step damps earlier errors by k/x, so near 0 the power series takes over.
    """
    if not is_order(n) or x != x:
        return nan
    if math.isinf(x):
        return 0.0
    order = int(n)
    if abs(x) < 2 * (1 + order):
        return _sinc_series(order, x)
    turns = (math.sin(x), math.cos(x), -math.sin(x), -math.cos(x))
    value = turns[0] / x
    for k in range(1, order + 1):
        value = (turns[k % 4] - k * value) / x
    return value


def _sinc_series(order: int, x: float) -> float:
    """Σ (-1)^k x^(2k-n) / ((2k+1)·(2k-n)!), from the first k with 2k >= n.

    The terms grow to e^x before they shrink and cancel; whole numbers in units of 2^-bits hold what that costs.
    """
    bits = 256 + int(2 * abs(x))
    if abs(x) < 1e-30 and order % 2:
        return (-1.0) ** ((order + 1) // 2) * x / (order + 2)
    numerator, denominator = x.as_integer_ratio()
    scaled = (numerator << bits) // denominator
    square = scaled * scaled >> bits
    k = (order + 1) // 2
    rest = 2 * k - order
    term = (-1) ** k * (scaled if rest else 1 << bits)
    total = 0
    while term:
        total += term // (2 * k + 1)
        term = -(term * square >> bits) // ((rest + 1) * (rest + 2))
        k += 1
        rest += 2
    return total / (1 << bits)


def sinhc(x: float) -> float:
    """sinh(x)/x, and 1 at 0."""
    if x == 0:
        return 1.0
    return sinh(x) / x if abs(x) < 700 else growth(abs(x)) / 2


def sinhc_derivative(n: float, x: float) -> float:
    """The n-th derivative of sinh(x)/x, n a whole number from 0.

    Far from 0 by the recurrence x·s_n + n·s_(n-1) = sinh(x) or cosh(x), near 0 by the power series
    Σ x^(2k-n)/((2k+1)·(2k-n)!), from the first k with 2k >= n, whose terms have one sign.
    """
    if not is_order(n) or x != x:
        return nan
    order = int(n)
    if math.isinf(x):
        return -inf if x < 0 and order % 2 else inf
    if abs(x) > 3 * (1 + order):
        return _sinhc_recurrence(order, x)
    k = (order + 1) // 2
    rest = 2 * k - order
    power = x if rest else 1.0
    total, before = 0.0, nan
    while total != before:
        before = total
        total += power / (2 * k + 1)
        power *= x * x / ((rest + 1) * (rest + 2))
        k, rest = k + 1, rest + 2
    return total


def _sinhc_recurrence(order: int, x: float) -> float:
    even, odd = sinhc(x), hyperbolic_growth(x)  # sinh(x)/x and cosh(x)/x
    if math.isinf(even):
        return odd if order % 2 else even
    value = even
    for k in range(1, order + 1):
        value = (odd if k % 2 else even) - k * value / x
    return value


# --- Fresnel's integrals


def _phase(x: float) -> float:
    """x² modulo 4, in [-2, 2], with the rounding error of the square carried along."""
    if abs(x) >= 2.0**53:
        return 0.0 if math.isfinite(x) else nan  # such an x is even
    square, error = two_product(x, x)
    return math.remainder(math.fmod(square, 4.0) + error, 4.0)


def chirp_sine(x: float) -> float:
    """sin(πx²/2)."""
    phase = _phase(x)
    # from the nearer of 0 and ±2, where the sine is 0
    return math.sin(pi / 2 * (phase if abs(phase) <= 1 else copysign(2.0, phase) - phase))


def chirp_cosine(x: float) -> float:
    """cos(πx²/2)."""
    return math.sin(pi / 2 * (1 - abs(_phase(x))))


def fresnel_sine(x: float) -> float:
    """S(x), the integral of sin(πt²/2) from 0 to x."""
    if not abs(x) > 6:
        return float(scipy("fresnel", x)[0])
    f, g = _fresnel_auxiliary(abs(x))
    return copysign(0.5 - f * chirp_cosine(x) - g * chirp_sine(x), x) if math.isfinite(x) else copysign(0.5, x)


def fresnel_cosine(x: float) -> float:
    """C(x), the integral of cos(πt²/2) from 0 to x."""
    if not abs(x) > 6:
        return float(scipy("fresnel", x)[1])
    f, g = _fresnel_auxiliary(abs(x))
    return copysign(0.5 + f * chirp_sine(x) - g * chirp_cosine(x), x) if math.isfinite(x) else copysign(0.5, x)


def _fresnel_auxiliary(x: float) -> tuple[float, float]:
    """The amplitudes of the waves that Fresnel's integrals make around 1/2, for x > 6.

    Their asymptotic series (Abramowitz and Stegun 7.3.27, 7.3.28), with t = 1/(πx²):
    f = (1 - 1·3·t² + 1·3·5·7·t⁴ - …)/(πx), g = (t - 1·3·5·t³ + …)/(πx).
    """
    t = 1 / (pi * x) / x
    sums = [0.0, 0.0]
    term = 1.0
    for k in range(20):
        sums[k % 2] += -term if k % 4 > 1 else term
        term *= (2 * k + 1) * t
    return sums[0] / (pi * x), sums[1] / (pi * x)


# --- Lambert's W

# 1/e as a rounded number and its rounding error; where the branch begins.
_INVERSE_E, _INVERSE_E_ERROR = 0.36787944117144233, -1.2428753672788363e-17


def lambertw(x: float) -> float:
    """The principal branch of the inverse of w·exp(w), for x >= -1/e.

    Near the branch point by the power series of 1 + W; around 0 by Halley's method on w·exp(w) - x; from 3 on by
    Newton's on w + log(w) - log(x), where exp(w) would overflow or cost digits.
    """
    if x == 0 or x == inf:
        return x
    if not x >= -_INVERSE_E:
        return nan
    if x < -0.25:
        return lambertw_rise(x) - 1
    if x > 3:
        return _solved_by_logarithms(x)
    w = x / (1 + x) if x < 1 else math.log1p(x) * 0.75
    for _ in range(6):
        w = _halley(w, x)
    return w


def _solved_by_logarithms(x: float) -> float:
    log_x = math.log(x)
    w = log_x - math.log(log_x) if log_x > 1.5 else 1.0
    for _ in range(6):
        w -= w / (1 + w) * (w + math.log(w) - log_x)
    return w


def _halley(w: float, x: float) -> float:
    excess = w - x * math.exp(-w)
    return w - excess / (1 + w - (w + 2) * excess / (2 * w + 2))


def lambertw_rise(x: float) -> float:
    """1 + lambertw(x), with all digits near the branch point, where it is √(2(1 + e·x)) and so its slope infinite."""
    if not x >= -_INVERSE_E:
        return nan
    if x >= -0.25:
        return 1 + lambertw(x)
    p = math.sqrt(2 * math.e * max(x + _INVERSE_E + _INVERSE_E_ERROR, 0.0))
    total = 0.0
    for coefficient in _branch_series():
        total = (total + coefficient) * p
    return total


def lambertw_slope(x: float) -> float:
    """The slope of W, 1/(exp(W)·(1 + W)); for large x as 1/(exp(W) + x), where the rounding of W weighs less."""
    w = lambertw(x)
    return 1 / (math.exp(w) + x) if x > 1 else divide(1.0, exp(w) * lambertw_rise(x))


@cache
def _branch_series() -> list[float]:
    """The coefficients of 1 + W in powers of p = √(2(1 + e·x)), highest first.

    By the recurrence of Corless et al. (1996), "On the Lambert W function", equations 4.23 and 4.24.
    """
    mu, alpha = [-1.0, 1.0], [2.0, -1.0]
    for k in range(2, 60):
        alpha.append(sum(mu[j] * mu[k + 1 - j] for j in range(2, k)))
        mu.append((k - 1) / (k + 1) * (mu[k - 2] / 2 + alpha[k - 2] / 4) - alpha[k] / 2 - mu[k - 1] / (k + 1))
    return mu[:0:-1]
