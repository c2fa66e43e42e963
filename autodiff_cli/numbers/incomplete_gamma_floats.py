"""The incomplete gamma functions on floats.

SciPy does the work for moderate arguments. It loses digits where a is large: far from x = a by its choice of series,
below a from 2e5 on because its series ends too early.
"""

from __future__ import annotations

import math
from functools import cache
from math import copysign, inf, pi

from autodiff_cli.numbers.elementary_floats import sum_of_products
from autodiff_cli.numbers.gamma_floats import gamma_density, log_rest
from autodiff_cli.numbers.scipy_special import scipy

_LARGE = 1e5  # from here on the expansion around x = a holds all digits


def gammainc(a: float, x: float) -> float:
    """The regularised lower incomplete gamma function, from 0 at x = 0 to 1."""
    if is_moderate(a, x):
        return _platform("gammainc", a, x)
    if _is_far(a, x):
        return _lower_series(a, x) if x < a else _platform("gammainc", a, x)
    return _around(a, x, 1.0)


def gammaincc(a: float, x: float) -> float:
    """The regularised upper incomplete gamma function, 1 - gammainc(a, x) with all digits."""
    if is_moderate(a, x):
        return _platform("gammaincc", a, x)
    if _is_far(a, x):
        return _upper_fraction(a, x) if x > a else _platform("gammaincc", a, x)
    return _around(a, x, -1.0)


def is_moderate(a: float, x: float) -> bool:
    """Where SciPy holds its digits."""
    return not (a < inf and x < inf and (a > _LARGE or _is_far(a, x)))


def _is_far(a: float, x: float) -> bool:
    return a > 50 and abs(x - a) > 0.3 * a


def _platform(name: str, a: float, x: float) -> float:
    return float(scipy(name, a, x))


def _lower_series(a: float, x: float) -> float:
    """gamma_density(a, x)·Σ x^(k+1)/(a·(a+1)…(a+k)), for x < 0.7·a."""
    return gamma_density(a, x) * (x / a) * sum_of_products(lambda k: x / (a + k))


def _upper_fraction(a: float, x: float) -> float:
    """gamma_density(a, x)·x/(x + 1 - a - 1·(1 - a)/(x + 3 - a - …)), for x > 1.3·a, by Lentz's method."""
    divisor = x + 1 - a
    ahead, behind = inf, 1 / divisor
    fraction = behind
    k = 1
    while True:
        numerator = k * (a - k)
        divisor += 2
        behind = 1 / (numerator * behind + divisor)
        ahead = divisor + numerator / ahead
        factor = ahead * behind
        fraction *= factor
        if abs(factor - 1) < 3e-16:
            return gamma_density(a, x) * x * fraction
        k += 1


def _around(a: float, x: float, side: float) -> float:
    """The lower (side 1) or upper (-1) function around x = a, by Temme's uniform expansion (DLMF 8.12.3, 8.12.4).

    Half of erfc(∓η·√(a/2)), with η²/2 = u - log(1 + u) and u = (x - a)/a, and a rest in powers of 1/a.
    """
    half = log_rest(x, a)
    eta = copysign(math.sqrt(2 * half), x - a)
    series = 0.0
    for row in reversed(_coefficients()):
        inner = 0.0
        for coefficient in reversed(row):
            inner = inner * eta + coefficient
        series = series / a + inner
    rest = math.exp(-a * half) / math.sqrt(2 * pi * a) * series
    return math.erfc(-side * eta * math.sqrt(a / 2)) / 2 - side * rest


@cache
def _coefficients(rows: int = 4, columns: int = 12) -> list[list[float]]:
    """Those of the rest, by powers of 1/a and then of η: DLMF 8.12.8 to 8.12.12."""
    count = columns + 2 * rows + 2
    alpha = [0.0, 1.0]
    for n in range(2, count + 1):
        alpha.append((alpha[n - 1] - sum(j * alpha[j] * alpha[n - j + 1] for j in range(2, n))) / (n + 1))
    first = [(n + 2) * alpha[n + 2] for n in range(count - 1)]
    table = [[-1 / 3, *first[1:]]]
    odd = 1
    for k in range(1, rows):
        odd *= 2 * k + 1
        stirling = (-1) ** k * odd * alpha[2 * k + 1]  # of 1/gamma's own expansion for large arguments
        above = table[-1][2:]
        table.append([stirling * table[0][n] + (n + 2) * coefficient for n, coefficient in enumerate(above)])
    return [row[:columns] for row in table]
