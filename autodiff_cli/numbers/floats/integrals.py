"""Exponential, sine, cosine and Fresnel integrals on floats, by the rules of IEEE 754.

Each by its power series near 0, by its asymptotic series far out, and in between by a continued fraction or by the
midpoint rule on an integral whose integrand dies away so fast that the rule is exact.
"""

from __future__ import annotations

import math
from math import copysign, inf, nan, pi

from autodiff_cli.numbers.floats.elementary import product_error, sum_of_products
from autodiff_cli.numbers.floats.special import growth

EULER = 0.5772156649015329  # γ


# --- exponential, sine and cosine integrals


def exponential_integral(x: float) -> float:
    """Ei(x), the principal value of the integral of exp(t)/t from -∞ to x.

    Left of -1 by the continued fraction of E1; then by the power series γ + log|x| + Σ x^k/(k·k!), and from 50 on by
    the asymptotic one, exp(x)/x·Σ k!/x^k.
    """
    if x > 50:
        return growth(x) * sum_of_products(lambda k: k / x)
    if x == 0:
        return -inf
    if x < -1:
        return -math.exp(x) * _exponential_fraction(-x)
    return x * sum_of_products(lambda k: x * k / ((k + 1) * (k + 1))) + (math.log(abs(x)) + EULER)


def _exponential_fraction(t: float) -> float:
    """1/(t + 1 - 1/(t + 3 - 4/(t + 5 - …))), for t >= 1, from the far end."""
    k = math.floor(20 + 100 / t)
    tail = t + 2 * k + 1
    while k > 0:
        tail = t + 2 * k - 1 - k * k / tail
        k -= 1
    return 1 / tail


def _sine_series(x: float, square: float) -> float:
    """x·Σ square^k/((2k+1)·(2k+1)!) from k = 0: Si where the square is -x², Shi where it is x²."""
    return x * sum_of_products(lambda k: square * (2 * k - 1) / (2 * k * (2 * k + 1) * (2 * k + 1)))


def _cosine_series(x: float, square: float) -> float:
    """γ + log(x) + Σ square^k/(2k·(2k)!) from k = 1: likewise Ci and Chi."""
    total = sum_of_products(lambda k: square * k / ((2 * k + 1) * (2 * k + 2) * (k + 1)))
    return EULER + math.log(x) + square / 4 * total


def _waves(x: float, along_f: float, along_g: float) -> float:
    """The waves that Si and Ci make, for x > 2: f·along_f + g·along_g.

    g - i·f is exp(ix)·E1(ix), by its continued fraction in complex numbers from the far end; far out f and g by their
    asymptotic series.
    """
    if x > 60:
        f = sum_of_products(lambda k: -2 * k * (2 * k - 1) / x / x) / x
        g = sum_of_products(lambda k: -2 * k * (2 * k + 1) / x / x) / x / x
        return f * along_f + g * along_g
    real = 0.0
    imaginary = 0.0
    k = math.floor(20 + 200 / x)
    while k > 0:
        # 1/(ix + 2k - 1 - k²·tail)
        a = 2 * k - 1 - k * k * real
        b = x - k * k * imaginary
        real = a / (a * a + b * b)
        imaginary = -b / (a * a + b * b)
        k -= 1
    return real * along_g - imaginary * along_f


def sine_integral(x: float) -> float:
    """Si(x), the integral of sin(t)/t from 0 to x."""
    size = abs(x)
    if size <= 2:
        return _sine_series(x, -x * x)
    if size < inf:
        return copysign(pi / 2 - _waves(size, math.cos(size), math.sin(size)), x)
    return copysign(pi / 2, x) if x == x else x


def cosine_integral(x: float) -> float:
    """Ci(x), minus the integral of cos(t)/t from x to ∞; complex below 0, so nan."""
    if not x > 0:
        return -inf if x == 0 else nan
    if x <= 2:
        return _cosine_series(x, -x * x)
    return _waves(x, math.sin(x), -math.cos(x)) if x < inf else 0.0


def hyperbolic_sine_integral(x: float) -> float:
    """Shi(x), the integral of sinh(t)/t from 0 to x; far out half of Ei(x)."""
    return copysign(exponential_integral(abs(x)) / 2, x) if abs(x) > 20 else _sine_series(x, x * x)


def hyperbolic_cosine_integral(x: float) -> float:
    """Chi(x) = γ + log(x) + the integral of (cosh(t) - 1)/t from 0 to x; complex below 0, so nan."""
    if not x > 0:
        return -inf if x == 0 else nan
    return exponential_integral(x) / 2 if x > 20 else _cosine_series(x, x * x)


# --- Fresnel's integrals


def _phase(x: float) -> float:
    """x² modulo 4, in [-2, 2], with the rounding error of the square carried along."""
    if not abs(x) < 2.0**53:
        return 0.0 if math.isfinite(x) else nan  # such an x is even
    turn = x * x % 4 + product_error(x, x)
    return turn - 4 * math.floor(turn / 4 + 0.5)


def chirp_sine(x: float) -> float:
    """sin(πx²/2)."""
    turn = _phase(x)
    # from the nearer of 0 and ±2, where the sine is 0
    return math.sin(pi / 2 * (turn if abs(turn) <= 1 else copysign(2.0, turn) - turn))


def chirp_cosine(x: float) -> float:
    """cos(πx²/2)."""
    return math.sin(pi / 2 * (1 - abs(_phase(x))))


def fresnel_sine(x: float) -> float:
    """S(x), the integral of sin(πt²/2) from 0 to x."""
    size = abs(x)
    if size < 1.2:
        return x * x * x * (pi / 6) * _fresnel_series(x, 1.0)
    if size < inf:
        waves = _fresnel_waves(size, chirp_cosine(x), chirp_sine(x))
        return copysign(0.5 - waves - _residue(size, -1.0), x)
    return copysign(0.5, x) if x == x else x


def fresnel_cosine(x: float) -> float:
    """C(x), the integral of cos(πt²/2) from 0 to x."""
    size = abs(x)
    if size < 1.2:
        return x * _fresnel_series(x, 0.0)
    if size < inf:
        waves = _fresnel_waves(size, -chirp_sine(x), chirp_cosine(x))
        return copysign(0.5 - waves - _residue(size, 1.0), x)
    return copysign(0.5, x) if x == x else x


def _fresnel_series(x: float, first: float) -> float:
    """The power series of C (first = 0) or S (first = 1), without its leading term: of (πx²/2)^(2k)."""
    w = pi / 2 * x * x
    return sum_of_products(
        lambda k: -w * w * (4 * k + 2 * first - 3) / ((2 * k + first) * (2 * k + first - 1) * (4 * k + 2 * first + 1))
    )


def _fresnel_waves(x: float, along_f: float, along_g: float) -> float:
    """The waves that Fresnel's integrals make around 1/2, for x > 1.2: f·along_f + g·along_g.

    From 6 on by the asymptotic series (Abramowitz and Stegun 7.3.27, 7.3.28), with t = 1/(πx²):
    f = (1 - 1·3·t² + 1·3·5·7·t⁴ - …)/(πx), g = (t - 1·3·5·t³ + …)/(πx). Up to there as a complex error function, by
    the midpoint rule for its integral; what that leaves out is `_residue`.
    """
    f = 0.0
    g = 0.0
    if x > 6:
        t = 1 / (pi * x) / x
        term = 1 / (pi * x)
        for k in range(10):
            f += term
            g += term * (4 * k + 1) * t
            term *= -(4 * k + 1) * t * (4 * k + 3) * t
        return f * along_f + g * along_g
    w = pi / 2 * x * x
    for k in range(13):
        u = (k / 2 + 0.25) * (k / 2 + 0.25)
        height = math.exp(-u) / (u * u + w * w)
        f += height * w
        g += height * u
    return x / (2 * math.sqrt(pi)) * (f * along_f + g * along_g)


def _residue(x: float, side: float) -> float:
    """What the midpoint rule leaves out of C (side 1) or S (side -1): from (1 + i)/(1 + exp(a - ia)), a = 2·π^1.5·x."""
    if x > 6:
        return 0.0
    a = 2 * pi * math.sqrt(pi) * x
    real = 1 + math.exp(a) * math.cos(a)
    imaginary = -math.exp(a) * math.sin(a)
    return (real + side * imaginary) / (real * real + imaginary * imaginary)


# fmt: off
INTEGRALS = {
    "Ei": exponential_integral, "Si": sine_integral, "Ci": cosine_integral,
    "Shi": hyperbolic_sine_integral, "Chi": hyperbolic_cosine_integral,
    "chirp_sine": chirp_sine, "chirp_cosine": chirp_cosine, "fresnels": fresnel_sine, "fresnelc": fresnel_cosine,
}
# fmt: on
