"""Error functions, derivatives of sinc and Lambert's W on floats, by the rules of IEEE 754."""

from __future__ import annotations

import math
from functools import cache
from math import copysign, inf, nan, pi

from autodiff_cli.numbers.floats.elementary import (
    cosh,
    divide,
    exp,
    is_odd,
    is_order,
    product_error,
    sin,
    sinc,
    sinh,
    sum_of_products,
)

# --- error functions


def swell(x: float) -> float:
    """exp(x²), with the rounding error of the square carried along."""
    z = exp(x * x)
    return z + z * product_error(x, x) if z < inf else z


def erfi(x: float) -> float:
    """2/√π times the integral of exp(t²) from 0 to x: a power series; far out the asymptotic one of Dawson's function.

    The power series takes the rounding error of the square along, to first order.
    """
    if abs(x) > 7:
        return (
            x if math.isinf(x) else swell(x) / x / math.sqrt(pi) * sum_of_products(lambda k: (2 * k - 1) / (2 * x * x))
        )
    total = sum_of_products(lambda k: x * x * (2 * k - 1) / (k * (2 * k + 1)))
    if abs(x) > 1:
        total += product_error(x, x) * (math.exp(x * x) - total) / (2 * x * x)
    return 2 / math.sqrt(pi) * x * total


def erfinv(x: float) -> float:
    """The inverse of erf, on [-1, 1]: Winitzki's approximation, then Halley's method on erf, or on erfc where that has
    more digits."""
    size = abs(x)
    if not size < 1:
        return copysign(inf, x) if size == 1 else nan
    if size < 1e-8:
        return math.sqrt(pi) / 2 * x
    half = math.log1p(-size * size) / 2
    middle = 2 / (pi * 0.147) + half
    y = math.sqrt(-2 * half / 0.147 / (math.sqrt(middle * middle - 2 * half / 0.147) + middle))
    for _ in range(3):
        excess = math.erf(y) - size if size < 0.5 else 1 - size - math.erfc(y)
        step = excess * swell(y) * math.sqrt(pi) / 2
        y -= step / (1 + y * step)
    return copysign(y, x)


# --- exp(x)/x, sinc, sinhc and their derivatives


def growth(x: float) -> float:
    """exp(x)/x; far out in halves, because exp(x) alone overflows before the quotient does."""
    if x < 700:
        return divide(exp(x), x)
    half = exp(x / 2)
    return half / x * half if x < inf else x


def hyperbolic_growth(x: float) -> float:
    """cosh(x)/x."""
    return divide(cosh(x), x) if abs(x) < 700 else growth(abs(x)) / 2 * copysign(1.0, x)


def _wave(n: float, x: float) -> float:
    """sin(x + nπ/2), the n-th derivative of the sine."""
    turn = n % 4
    if turn % 2 == 0:
        return sin(x) if turn == 0 else -sin(x)
    return math.cos(x) if turn == 1 else -math.cos(x)


def sinc_derivative(n: float, x: float) -> float:
    """The n-th derivative of sin(x)/x, n a whole number from 0.

    By the recurrence x·s_n + n·s_(n-1) = sin(x + nπ/2), which is what n-fold differentiation of x·sinc(x) = sin(x)
    gives. Upwards each step damps earlier errors by k/x; beside 0 it is gone through downwards, where each damps them
    by x/k, from so far above that nothing is left of the 0 that it begins with.
    """
    if not is_order(n) or x != x:
        return nan
    if math.isinf(x):
        return 0.0
    if abs(x) > n + 1:
        return _sinc_upwards(n, x)
    k = n + 2
    left = abs(x) / (n + 1)
    while left > 1e-19:
        left *= abs(x) / k
        k += 1
    value = 0.0
    while k > n:
        value = (_wave(k, x) - x * value) / k
        k -= 1
    return value


def _sinc_upwards(n: float, x: float) -> float:
    value = math.sin(x) / x
    k = 1.0
    while k <= n:
        value = (_wave(k, x) - k * value) / x
        k += 1
    return value


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
    if math.isinf(x):
        return -inf if x < 0 and is_odd(n) else inf
    if abs(x) > 3 * (1 + n):
        return _sinhc_upwards(n, x)
    rest = n % 2
    power = x if rest == 1 else 1.0
    total = 0.0
    before = nan
    while total != before:
        before = total
        total += power / (n + rest + 1)
        power *= x * x / ((rest + 1) * (rest + 2))
        rest += 2
    return total


def _sinhc_upwards(n: float, x: float) -> float:
    even = sinhc(x)
    odd = hyperbolic_growth(x)
    if math.isinf(even):
        return odd if is_odd(n) else even
    value = even
    k = 1.0
    while k <= n:
        value = (odd if is_odd(k) else even) - k * value / x
        k += 1
    return value


# --- Lambert's W

# 1/e as a rounded number and its rounding error; where the branch begins.
INVERSE_E, INVERSE_E_ERROR = 0.36787944117144233, -1.2428753672788363e-17


def lambertw(x: float) -> float:
    """The principal branch of the inverse of w·exp(w), for x >= -1/e.

    Near the branch point by the power series of 1 + W; around 0 by Halley's method on w·exp(w) - x; from 3 on by
    Newton's on w + log(w) - log(x), where exp(w) would overflow or cost digits.
    """
    if x == 0 or x == inf:
        return x
    if not x >= -INVERSE_E:
        return nan
    if x < -0.25:
        return lambertw_rise(x) - 1
    if x > 3:
        return _solved_by_logarithms(x)
    w = x / (1 + x) if x < 1 else math.log1p(x) * 0.75
    for _ in range(6):
        excess = w - x * math.exp(-w)
        w -= excess / (1 + w - (w + 2) * excess / (2 * w + 2))
    return w


def _solved_by_logarithms(x: float) -> float:
    log_x = math.log(x)
    w = log_x - math.log(log_x) if log_x > 1.5 else 1.0
    for _ in range(6):
        w -= w / (1 + w) * (w + math.log(w) - log_x)
    return w


def lambertw_rise(x: float) -> float:
    """1 + lambertw(x), with all digits near the branch point, where it is √(2(1 + e·x)) and so its slope infinite."""
    if not x >= -INVERSE_E:
        return nan
    if x >= -0.25:
        return 1 + lambertw(x)
    p = math.sqrt(2 * math.e * max(x + INVERSE_E + INVERSE_E_ERROR, 0.0))
    total = 0.0
    for coefficient in branch_series():
        total = (total + coefficient) * p
    return total


def lambertw_slope(x: float) -> float:
    """The slope of W, 1/(exp(W)·(1 + W)); for large x as 1/(exp(W) + x), where the rounding of W weighs less."""
    w = lambertw(x)
    return 1 / (math.exp(w) + x) if x > 1 else divide(1.0, exp(w) * lambertw_rise(x))


@cache
def branch_series() -> list[float]:
    """The coefficients of 1 + W in powers of p = √(2(1 + e·x)), highest first.

    By the recurrence of Corless et al. (1996), "On the Lambert W function", equations 4.23 and 4.24.
    """
    mu, alpha = [-1.0, 1.0], [2.0, -1.0]
    for k in range(2, 60):
        alpha.append(sum(mu[j] * mu[k + 1 - j] for j in range(2, k)))
        mu.append((k - 1) / (k + 1) * (mu[k - 2] / 2 + alpha[k - 2] / 4) - alpha[k] / 2 - mu[k - 1] / (k + 1))
    return mu[:0:-1]


# fmt: off
SPECIAL = {
    "swell": swell, "erfi": erfi, "erfinv": erfinv,
    "growth": growth, "coshc": hyperbolic_growth,
    "sinc": sinc, "sinc_derivative": sinc_derivative, "sinhc": sinhc, "sinhc_derivative": sinhc_derivative,
    "lambertw": lambertw, "lambertw_rise": lambertw_rise, "lambertw_slope": lambertw_slope,
}
# fmt: on
