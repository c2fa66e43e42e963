"""Portable versions, in plain arithmetic, of functions that Python takes from its platform.

Languages whose own library lacks these functions get a translation of them.
"""

from __future__ import annotations

import math
from functools import cache
from math import copysign, inf, nan, pi

from autodiff_cli.numbers.float_functions import exp_minus_square, ratio_series
from autodiff_cli.numbers.floats import floor
from autodiff_cli.numbers.gamma_functions import (
    is_gamma_pole,
    lgamma_near_2,
    rising_factorial,
    sin_pi,
    stirling_remainder,
)


def erf(x: float) -> float:
    """The error function; near 0 by the series 2/√π·exp(-x²)·x·Σ (2x²)^k/(1·3·…·(2k+1)), which does not cancel."""
    if not abs(x) < 0.5:
        return copysign(1 - erfc(abs(x)), x)
    return 2 / math.sqrt(pi) * x * math.exp(-x * x) * ratio_series(lambda k: 2 * x * x / (2 * k + 1))


def erfc(x: float) -> float:
    """1 - erf(x), by the midpoint rule with step 1/2 for the integral of exp(-t²)/(t² + x²) over all t.

    With its residue 2/(1 + exp(4πx)), the rule gives erfc(x)·π/(x·exp(-x²)) to full accuracy (Hunter and Regan 1972).
    """
    if x < -0.5:
        return 2 - erfc(-x)
    if x < 0.5:
        return 1 - erf(x)
    if x > 30:
        return 0.0
    total = 0.0
    for k in range(13):
        total += midpoints()[2 * k + 1] / (midpoints()[2 * k] + x * x)
    rest = 2 / (1 + math.exp(4 * pi * x)) if x < 6 else 0.0
    return exp_minus_square(x) * x * total / pi + rest


@cache
def midpoints() -> list[float]:
    """The squares of the midpoints t, each followed by exp(-t²)."""
    squares = [(k / 2 + 0.25) ** 2 for k in range(13)]
    return [number for square in squares for number in (square, math.exp(-square))]


def gamma(x: float) -> float:
    """The gamma function: by recurrence from 2, from 24 by Stirling's formula, below -20 by reflection.

    Stirling's formula uses the square of half the power, because the power overflows before gamma does.
    """
    if x == 0:
        return copysign(inf, x)
    if is_gamma_pole(x):
        return nan
    if -190 < x < -165:  # the reflected value would overflow before gamma underflows
        return gamma(x + 8) / rising_factorial(x, 8.0)
    if x < -20:
        return pi / (sin_pi(x) * -x * gamma(-x))
    if x < 24:
        steps = math.floor(x + 0.5) - 2
        near = math.exp(lgamma_near_2(x - 2 - steps))
        return near / rising_factorial(x, -steps) if steps < 0 else near * rising_factorial(x - steps, steps)
    if not x < 172:
        return x + inf
    half = math.pow(x, x / 2 - 0.25)
    return math.sqrt(2 * pi) * half * (math.exp(-x) * half) * math.exp(stirling_remainder(x))


def power(x: float, y: float) -> float:
    """x^y as a real number: undefined at -∞ unless y is an integer, though platforms return ∞ or 0 there."""
    return nan if floor(y) != y and x == -inf else math.pow(x, y)


def modulus(a: float, b: float) -> float:
    """The remainder of a / b with the sign of b."""
    if b == 0 or math.isinf(a):
        return nan
    rest = copysign(abs(a) % abs(b), a)
    if rest == 0:
        return copysign(0.0, b)
    return rest if copysign(1.0, rest) == copysign(1.0, b) else rest + b


def larger(x: float, y: float) -> float:
    """The larger of two numbers, the first of equal ones; nan if one of them is nan."""
    return x if x >= y or x != x else y


def smaller(x: float, y: float) -> float:
    """The smaller of two numbers, the first of equal ones; nan if one of them is nan."""
    return x if x <= y or x != x else y


OPERATIONS = {"erf": erf, "erfc": erfc, "gamma": gamma, "pow": power, "mod": modulus, "max": larger, "min": smaller}
