"""What intervals need of distributions, on floats: the inverse of the incomplete gamma function, and the incomplete
beta function."""

from __future__ import annotations

import math
from math import copysign, inf, nan, pi

from autodiff_cli.numbers.floats.elementary import power
from autodiff_cli.numbers.floats.gamma import beta, gamma, gamma_density, log_rest, stirling_rest
from autodiff_cli.numbers.floats.incomplete_gamma import gammainc, gammaincc
from autodiff_cli.numbers.floats.special import erfinv

_MANY = 3000.0  # from here on for both arguments the expansion for large ones holds
_VAST = 1e7  # from here on the fraction loses digits
_LARGE = 12.0


def gammaincinv(a: float, share: float) -> float:
    """Where gammainc(a, x) is `share`, a > 0: Newton's method between ends that close in on it.

    It begins with the approximation of Wilson and Hilferty (1931), for small a with the leading term at 0.
    """
    if not (a > 0 and 0 <= share <= 1):
        return nan
    if share == 0 or share == 1:
        return 0.0 if share == 0 else inf
    third = 1 - 1 / (9 * a) + math.sqrt(2) * erfinv(2 * share - 1) / (3 * math.sqrt(a))
    x = a * third * third * third if a > 1 and third > 0.1 else power(share * gamma(a + 1), 1 / a)
    low, high = 0.0, inf
    for _ in range(100):
        below = gammainc(a, x) - share if share < 0.5 else 1 - share - gammaincc(a, x)
        if below < 0:
            low = x
        else:
            high = x
        step = below / gamma_density(a, x)
        if not low <= x - step <= high:
            step = x / 2 if low == 0 else (-x if high == inf else x - (low + high) / 2)
        x -= step
        if abs(step) <= 1e-15 * x:
            return x
    return x


def betainc(a: float, b: float, x: float, y: float) -> float:
    """The regularised incomplete beta function of x = 1 - y, with all digits also where x is close to 1.

    By its continued fraction (DLMF 8.17.22), from the side where that is short. Of large arguments: of one by Wise's
    approximation with the incomplete gamma function (Biometrika 37, 1950), of both by the first two terms of Temme's
    uniform expansion (DLMF 8.18.9); the errors are 1e-7 and 1e-6.
    """
    if x <= 0 or y <= 0:
        return nan if x != x or y != y else (0.0 if x <= 0 else 1.0)
    if max(a, b) > _VAST and min(a, b) <= _MANY:
        if a < b:
            return gammainc(a, (b + (a - 1) / 2) * -math.log1p(-x))
        return gammaincc(b, (a + (b - 1) / 2) * -math.log1p(-y))
    if x * (a + b + 2) > a + 1:
        return 1 - _beta_tail(b, a, y, x)
    return _beta_tail(a, b, x, y)


def _beta_tail(a: float, b: float, x: float, y: float) -> float:
    if min(a, b) > _MANY:
        return _beta_around(a, b, x, y)
    ahead = 1.0
    behind = 1 / (1 - (a + b) * x / (a + 1))
    fraction = behind
    factor = 0.0
    k = 1.0
    while abs(factor - 1) > 1e-15 and k < 1000:
        even = k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k))
        odd = -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1))
        behind = 1 / (1 + even * behind)
        ahead = 1 + even / ahead
        fraction *= behind * ahead
        behind = 1 / (1 + odd * behind)
        ahead = 1 + odd / ahead
        factor = behind * ahead
        fraction *= factor
        k += 1
    return _beta_mass(a, b, x, y) / a * fraction


def _beta_mass(a: float, b: float, x: float, y: float) -> float:
    """x^a·y^b/beta(a, b); for large arguments around x = a/(a + b), where the logarithms cancel on paper."""
    if min(a, b) < _LARGE:
        return power(x, a) * power(y, b) / beta(a, b)
    total = a + b
    rest = stirling_rest(total) - stirling_rest(a) - stirling_rest(b)
    return math.sqrt(a / total * b / (2 * pi)) * math.exp(rest - _beta_distance(a, b, x, y))


def _beta_distance(a: float, b: float, x: float, y: float) -> float:
    """How much less the logarithm of x^a·y^b is than at its largest."""
    total = a + b
    return a * log_rest(x, a / total) + b * log_rest(y, b / total)


def _beta_around(a: float, b: float, x: float, y: float) -> float:
    total = a + b
    off = x - a / total if x < 0.5 else b / total - y
    spread = math.sqrt(a / total * (b / total))
    distance = _beta_distance(a, b, x, y)
    eta = copysign(math.sqrt(2 * distance / total), off)
    first = 1 / eta - spread / off if abs(eta) > 1e-4 else (b - a) / (3 * total * spread)
    return math.erfc(-eta * math.sqrt(total / 2)) / 2 + math.exp(-distance) / math.sqrt(2 * pi * total) * first


# fmt: off
DISTRIBUTIONS = {"gammaincinv": gammaincinv, "betainc": betainc}
# fmt: on
