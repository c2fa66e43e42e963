"""The incomplete gamma functions on floats.

Around a large a by a uniform expansion; else the lower one by its series below a, the upper one by its continued
fraction above, and where both a and x are small by a series of its own. Where one is found, the other is 1 less it.
"""

from __future__ import annotations

import math
from functools import cache
from math import copysign, inf, nan, pi

from autodiff_cli.numbers.floats.elementary import power, sum_of_products
from autodiff_cli.numbers.floats.gamma import gamma, gamma_density, lgamma, lgamma_near_2, log_rest


def gammainc(a: float, x: float) -> float:
    """The regularised lower incomplete gamma function, from 0 at x = 0 to 1."""
    if _is_undefined(a, x):
        return nan
    if x == 0 or a == inf:
        return 0.0
    if a == 0 or x == inf:
        return 1.0
    if _is_around(a, x):
        return _around(a, x, 1.0)
    return _lower_series(a, x) if x < max(a + 1, 1.1) else 1 - _upper_fraction(a, x)


def gammaincc(a: float, x: float) -> float:
    """The regularised upper incomplete gamma function, 1 - gammainc(a, x) with all digits."""
    if _is_undefined(a, x):
        return nan
    if x == 0 or a == inf:
        return 1.0
    if a == 0 or x == inf:
        return 0.0
    if _is_around(a, x):
        return _around(a, x, -1.0)
    if a < 1 and x < 1.1:
        return _upper_series(a, x)
    return 1 - _lower_series(a, x) if x < a + 1 else _upper_fraction(a, x)


def _is_undefined(a: float, x: float) -> bool:
    return not (a >= 0 and x >= 0) or (a == 0 and x == 0) or (a == inf and x == inf)


def _is_around(a: float, x: float) -> bool:
    return a > 50 and abs(x - a) <= 0.3 * a


def _mass(a: float, x: float) -> float:
    """x^a·exp(-x)/gamma(a + 1)."""
    if a >= 20:
        return gamma_density(a, x) * (x / a)
    if x > 2000:
        return 0.0
    half = math.exp(-x / 2)  # twice, because exp(-x) alone may underflow
    return power(x, a) * half / gamma(a + 1) * half


def _lower_series(a: float, x: float) -> float:
    """x^a·exp(-x)/gamma(a + 1)·(1 + x/(a + 1) + x²/((a + 1)(a + 2)) + …)."""
    return _mass(a, x) * sum_of_products(lambda k: x / (a + k))


def _upper_series(a: float, x: float) -> float:
    """1 - x^a/gamma(1 + a)·(1 + a·Σ (-x)^n/((a + n)·n!)), for small a: DLMF 8.7.3."""
    log_scale = lgamma_near_2(a) - math.log1p(a) if a < 0.5 else lgamma(1 + a)
    logarithm = a * math.log(x) - log_scale
    term = 1.0
    total = 0.0
    for n in range(1, 40):
        term *= -x / n
        total += term / (a + n)
    return -math.expm1(logarithm) - a * math.exp(logarithm) * total


def _upper_fraction(a: float, x: float) -> float:
    """a times that density, times 1/(x + 1 - a - 1·(1 - a)/(x + 3 - a - …)), by Lentz's method."""
    divisor = x + 1 - a
    behind = 1 / divisor
    ahead = inf
    fraction = behind
    factor = 0.0
    k = 1.0
    while abs(factor - 1) > 3e-16:
        divisor += 2
        behind = 1 / (k * (a - k) * behind + divisor)
        ahead = divisor + k * (a - k) / ahead
        factor = ahead * behind
        fraction *= factor
        k += 1
    return a * _mass(a, x) * fraction


def _around(a: float, x: float, side: float) -> float:
    """The lower (side 1) or upper (-1) function around x = a, by Temme's uniform expansion (DLMF 8.12.3, 8.12.4).

    Half of erfc(∓η·√(a/2)), with η²/2 = u - log(1 + u) and u = (x - a)/a, and a rest in powers of 1/a.
    """
    half = log_rest(x, a)
    eta = copysign(math.sqrt(2 * half), x - a)
    total = 0.0
    for k in range(ROWS - 1, -1, -1):
        inner = 0.0
        for n in range(COLUMNS - 1, -1, -1):
            inner = inner * eta + temme()[k * COLUMNS + n]
        total = total / a + inner
    rest = math.exp(-a * half) / math.sqrt(2 * pi * a) * total
    return math.erfc(-side * eta * math.sqrt(a / 2)) / 2 - side * rest


ROWS, COLUMNS = 10, 22


@cache
def temme() -> list[float]:
    """The coefficients of the rest, for each power of 1/a those of the powers of η: DLMF 8.12.8 to 8.12.12."""
    count = COLUMNS + 2 * ROWS + 2
    alpha = [0.0, 1.0]
    for n in range(2, count + 1):
        alpha.append((alpha[n - 1] - sum(j * alpha[j] * alpha[n - j + 1] for j in range(2, n))) / (n + 1))
    first = [(n + 2) * alpha[n + 2] for n in range(count - 1)]
    table = [[-1 / 3, *first[1:]]]
    odd = 1
    for k in range(1, ROWS):
        odd *= 2 * k + 1
        stirling = (-1) ** k * odd * alpha[2 * k + 1]  # of 1/gamma's own expansion for large arguments
        above = table[-1][2:]
        table.append([stirling * table[0][n] + (n + 2) * coefficient for n, coefficient in enumerate(above)])
    return [coefficient for row in table for coefficient in row[:COLUMNS]]


# fmt: off
INCOMPLETE_GAMMA = {"gammainc": gammainc, "gammaincc": gammaincc}
# fmt: on
