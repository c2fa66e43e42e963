"""Quantiles and tails of the distributions by which fits are judged: normal, Student's, chi-squared, Fisher's."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from autodiff_cli.numbers.floats.incomplete_gamma import gammaincc
from autodiff_cli.numbers.floats.special import erfinv

_TINY = 1e-300
_STEPS = 20_000
_NORMAL = 1e7  # degrees of freedom from which on Student's distribution is the normal one, to the digits of a float


def normal_quantile(level: float) -> float:
    """The half-width, in standard deviations, of the interval that holds this share of a normal distribution.

    >>> round(normal_quantile(0.95), 6)
    1.959964
    """
    return math.sqrt(2) * erfinv(level)


@functools.lru_cache(1024)
def student_quantile(level: float, dof: float) -> float:
    """The same of Student's distribution.

    >>> round(student_quantile(0.95, 10), 6)
    2.228139
    """
    if dof > _NORMAL:
        return normal_quantile(level)
    tail = 1 - level
    low, high = 0.0, 1.0
    while student_tail(high, dof) > tail:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if student_tail(middle, dof) > tail else (low, middle)
    return high


def student_tail(size: float, dof: float) -> float:
    """The probability that Student's t is larger than this, either way.

    >>> round(student_tail(2.228139, 10), 6)
    0.05
    """
    return incomplete_beta(dof / 2, 0.5, dof / (dof + size * size))


def chi_squared_tail(value: float, dof: float) -> float:
    """The probability of a larger sum of squares of `dof` standard normal numbers.

    >>> round(chi_squared_tail(18.307, 10), 5)
    0.05
    """
    return gammaincc(dof / 2, value / 2)


def fisher_tail(ratio: float, above: float, below: float) -> float:
    """The probability of a larger ratio of two variances with these degrees of freedom.

    >>> round(fisher_tail(4.10282, 2, 10), 5)
    0.05
    """
    return incomplete_beta(below / 2, above / 2, below / (below + above * ratio)) if ratio > 0 else 1.0


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (DLMF 8.17.22) evaluated as Lentz does.

    >>> round(incomplete_beta(2, 3, 0.5), 12)
    0.6875
    """
    if not 0 < x < 1:
        return 0.0 if x <= 0 else 1.0
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):
        return math.exp(logarithm) * _fraction(lambda n: _term(a, b, x, n)) / a
    return 1 - math.exp(logarithm) * _fraction(lambda n: _term(b, a, 1 - x, n)) / b


def _term(a: float, b: float, x: float, n: int) -> float:
    m = n // 2
    if n % 2:
        return -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
    return m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))


def _fraction(term: Callable[[int], float]) -> float:
    """1/(1 + t₁/(1 + t₂/(1 + …))), by Lentz's method as modified by Thompson & Barnett 1986."""
    value = above = 1.0
    below = 0.0
    for n in range(1, _STEPS):
        amount = term(n)
        below = 1 / ((1 + amount * below) or _TINY)
        above = (1 + amount / above) or _TINY
        value *= above * below
        if abs(above * below - 1) < 1e-16:
            break
    return 1 / value
