"""The gamma family on floats, by the rules of IEEE 754.

Own code where platform functions lose digits: `math.lgamma` is hundreds of ulps off near 1 and thousands below 0, the
quotient of gamma functions that is `beta` needs differences of logarithms, and differences of digammas cancel. Poles
are infinite where both sides agree on the sign, or where the sign of a zero tells the side; else nan.
"""

from __future__ import annotations

import math
from functools import cache
from math import copysign, inf, nan, pi

from autodiff_cli.numbers.floats.elementary import divide, exp, is_odd, is_order, log, power

# B_2, B_4, … B_20, the Bernoulli numbers of the expansions for large arguments.
BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
)  # fmt: skip
LARGE = 12.0  # from here on ten terms of these expansions hold all digits of a float
ROOT_TWO_PI = math.sqrt(2 * pi)
HALF_LOG_TWO_PI = math.log(2 * pi) / 2
ONE_LESS_EULER = 0.42278433509846713  # 1 - γ

# Where digamma is 0, as a rounded number and its rounding error.
DIGAMMA_ROOT, DIGAMMA_ROOT_ERROR = 1.4616321449683622, 9.549995429965697e-17


def is_pole(x: float) -> bool:
    """Whether gamma has a pole at x: at 0 and the whole numbers below it."""
    return x == -inf or (x <= 0 and abs(x) % 1 == 0)


def _from_whole(x: float) -> float:
    """The distance of x from the nearest whole number, exactly."""
    rest = abs(x) % 1
    return copysign(rest, x) if rest <= 0.5 else copysign(1 - rest, -x)


def _sign_of_whole(x: float) -> float:
    """1 or -1 as the whole number nearest to x is even or odd."""
    rest = abs(x) % 2
    return -1.0 if 0.5 < rest <= 1.5 else 1.0


def sin_pi(x: float) -> float:
    return _sign_of_whole(x) * math.sin(pi * _from_whole(x))


def rising(x: float, count: float) -> float:
    """The product of x, x + 1, … of so many factors.

    >>> rising(1.0, 5.0)
    120.0
    """
    product = 1.0
    k = 0.0
    while k < count:
        product *= x + k
        k += 1
    return product


# --- gamma and its logarithm


def gamma(x: float) -> float:
    """The gamma function; at its pole 0 infinite with the sign of the zero, at the others nan."""
    if x == 0:
        return copysign(inf, x)
    try:
        return math.gamma(x)
    except OverflowError:
        return copysign(inf, x)
    except ValueError:
        return nan


def lgamma(x: float) -> float:
    """The logarithm of the size of gamma; infinite at the poles.

    From the power series at 2, by recurrence up to 10, from there by Stirling's series; below by reflection.
    """
    if x != x:
        return nan
    if math.isinf(x) or is_pole(x):
        return inf
    if x < -0.5:
        return math.log(pi / abs(x * sin_pi(x))) - lgamma(-x)
    if x < 0.5:
        return lgamma_near_2(x) - math.log1p(x) - math.log(abs(x))
    if x < 1.5:
        return lgamma_near_2(x - 1) - math.log1p(x - 1)
    if x < 10:
        steps = math.floor(x + 0.5) - 2
        return lgamma_near_2(x - 2 - steps) + math.log(rising(x - steps, steps))
    return (x - 0.5) * (math.log(x) - 1) + (HALF_LOG_TWO_PI - 0.5 + stirling_rest(x))


def lgamma_near_2(t: float) -> float:
    """lgamma(2 + t) for |t| <= 1/2: t·(1 - γ) + Σ (-t)^k (ζ(k) - 1)/k from k = 2."""
    total = 0.0
    for coefficient in near_2():
        total = (total + coefficient) * t
    return total


@cache
def near_2() -> list[float]:
    """The coefficients of that series, highest power first; ζ(k) - 1 is the sum of 1/j^k from j = 2."""
    powers = [(-1) ** k * _sum_of_powers(k - 1, 2.0) / math.factorial(k - 1) / k for k in range(30, 1, -1)]
    return [*powers, ONE_LESS_EULER]


def stirling_rest(x: float) -> float:
    """What Stirling's formula leaves of log(gamma(x)): Σ B_2j/(2j·(2j-1)·x^(2j-1)), for large x."""
    total = 0.0
    for j in range(10, 0, -1):
        total = total / x / x + BERNOULLI[j - 1] / (2 * j * (2 * j - 1))
    return total / x


# --- digamma and its derivatives


def digamma(x: float) -> float:
    """The slope of lgamma; infinite at its pole 0, nan at the others."""
    if x == 0:
        return -copysign(inf, x)
    if x != x or is_pole(x):
        return nan
    if x < 0:
        return digamma(1 - x) - pi / math.tan(pi * _from_whole(x))
    if math.isinf(x):
        return x
    if 0.9 < x < 2:
        return _digamma_near_root((x - DIGAMMA_ROOT) - DIGAMMA_ROOT_ERROR)
    before = 0.0
    while x < LARGE:
        before += 1 / x
        x += 1
    rest = 0.0
    for j in range(10, 0, -1):
        rest = (rest + BERNOULLI[j - 1] / (2 * j)) / x / x
    return math.log(x) - (before + (0.5 / x + rest))


def _digamma_near_root(t: float) -> float:
    """digamma at t from its root, for -0.57 < t < 0.54, by Taylor's series."""
    total = 0.0
    for coefficient in around_root():
        total = (total + coefficient) * t
    return total


@cache
def around_root() -> list[float]:
    """The coefficients of that series, highest power first: polygamma(k, root)/k!."""
    return [polygamma(float(k), DIGAMMA_ROOT) / math.factorial(k) for k in range(40, 0, -1)]


def polygamma(n: float, x: float) -> float:
    """The n-th derivative of digamma, n a whole number from 0; where n is odd, infinite at the poles.

    By the recurrence and the Euler-Maclaurin expansion; digits are lost from n = 100.
    """
    if not is_order(n) or x != x:
        return nan
    if n == 0:
        return digamma(x)
    if x == -inf:
        return nan
    if is_pole(x):
        if is_odd(n):
            return inf
        return -copysign(inf, x) if x == 0 else nan
    return _sum_of_powers(n, x) if is_odd(n) else -_sum_of_powers(n, x)


def _weight(n: float, y: float) -> float:
    """n!·y^-(n+1), also where the factorial is too large for a float."""
    return rising(1.0, n) * power(y, -n - 1) if n <= 100 else exp(lgamma(n + 1) - (n + 1) * math.log(y))


def _share(p: float, growth: float) -> float:
    """1 - r^-p, for r = exp(growth): how much of y^-p is left when (r·y)^-p is taken from it; all if r is infinite."""
    return -math.expm1(-p * growth)


def _expansion(n: float, y: float, growth: float) -> float:
    """The Euler-Maclaurin expansion of Σ (1 + k/y)^-(n+1) from k = 0, without its leading term, the integral y/n.

    Of each term, which times `_weight` falls with some power of y, as much as `_share` says.
    """
    total = 0.5 * _share(n + 1, growth)
    factor = (n + 1) / y / 2
    for j in range(1, 11):
        total += BERNOULLI[j - 1] * factor * _share(n + 2 * j, growth)
        factor *= (n + 2 * j) * (n + 2 * j + 1) / ((2 * j + 1) * (2 * j + 2)) / y / y
    return total


def _sum_of_powers(n: float, x: float) -> float:
    """n!·Σ (x + k)^-(n+1) from k = 0, for n > 0.

    For negative x it is the sum over all whole k, which has the period 1, less the part below.
    """
    if x < 0:
        distance = _from_whole(x)
        above = distance if distance > 0 else 1 + distance
        below = 1 - distance if distance > 0 else -distance
        mirrored = _sum_of_powers(n, below) - _sum_of_powers(n, 1 - x)
        return _sum_of_powers(n, above) + (mirrored if is_odd(n) else -mirrored)
    if math.isinf(x):
        return 0.0
    total = 0.0
    while x < LARGE + n:
        term = _weight(n, x)
        total += term
        if not term > 1e-18 * total or total == inf:
            return total
        x += 1
    return total + _weight(n - 1, x) + _weight(n, x) * _expansion(n, x, inf)


def digamma_gap(a: float, b: float) -> float:
    """digamma(a) - digamma(a + b)."""
    return polygamma_gap(0.0, a, b)


def polygamma_gap(n: float, a: float, b: float) -> float:
    """polygamma(n, a) - polygamma(n, a + b), with all digits also where b is small beside a.

    The same sums as for one polygamma, each term y^-p less the (y + b)^-p that answers to it; below 0 by Taylor's
    series or by reflection, unless b is large enough for a difference.
    """
    if not is_order(n):
        return nan
    if not (0 < a < inf and a / 2 < a + b < inf):
        if -inf < a < 0 and abs(b) < 0.03 * abs(_from_whole(a)):
            return _gap_series(n, a, b)
        if n <= 1 and a + b < 0.5 and not is_pole(a) and not is_pole(a + b):
            return _reflected_gap(n, a, b)
        return polygamma(n, a) - polygamma(n, a + b)
    sign = 1.0 if is_odd(n) else -1.0
    total = 0.0
    while min(a, a + b) < LARGE + n:
        term = _weight(n, a) * _share(n + 1, math.log1p(b / a))
        total += term
        if not abs(term) > 1e-18 * abs(total) or math.isinf(total):
            return sign * total
        a += 1
    growth = math.log1p(b / a)
    leading = growth if n == 0 else _weight(n - 1, a) * _share(n, growth)
    return sign * (total + leading + _weight(n, a) * _expansion(n, a, growth))


def _reflected_gap(n: float, a: float, b: float) -> float:
    """polygamma(n, a) - polygamma(n, a + b) for n = 0 or 1 and a + b < 1/2, from digamma(x) = digamma(1 - x) -
    π/tan(πx).

    For a < 0 there are two cotangents, and of their difference sin(πb)/(sin(πa)·sin(π(a + b))) is left, which is 0 for
    whole b; of their slopes sin(πb)·sin(π(2a + b))/(sin(πa)·sin(π(a + b)))². Where in its period a + b lies is found
    without adding up, which would round it.
    """
    start = pi * _from_whole(a)
    place = pi * (_from_whole(a) + _from_whole(b))
    beyond = (1 - b) - a
    if a > 0:
        if n == 0:
            return digamma(a) - digamma(beyond) + pi / math.tan(place)
        wave = pi / math.sin(place)
        return polygamma(1.0, a) + polygamma(1.0, beyond) - wave * wave
    if n == 0:
        return -polygamma_gap(0.0, beyond, b) - pi * (sin_pi(b) / math.sin(start)) / math.sin(place) * _sign_of_whole(b)
    wave = pi / math.sin(start) / math.sin(place)
    return polygamma_gap(1.0, beyond, b) + wave * sin_pi(b) * math.sin(start + place) * _sign_of_whole(b) * wave


def _gap_series(n: float, a: float, b: float) -> float:
    """Taylor's series of -polygamma(n, a + b) around a, without its first term."""
    total = 0.0
    for k in range(12, 0, -1):
        total -= power(b, k) / rising(1.0, k) * polygamma(n + k, a)
    return total


# --- beta


def beta(a: float, b: float) -> float:
    """gamma(a)·gamma(b)/gamma(a + b).

    Of large arguments by Stirling's formula, arranged so that the large logarithms cancel on paper; of negative ones by
    reflection.
    """
    if a != a or b != b or min(a, b) == -inf:
        return nan
    if a > b:
        return beta(b, a)
    if is_pole(a) or is_pole(b):
        return nan if is_pole(a) and is_pole(b) else gamma(a if is_pole(a) else b)
    if _adds_up_to_pole(a, b):
        return 0.0
    if a + b == inf:
        return 0.0 if a > 0 else inf * gamma(a)
    if a < 0:
        return _reflected_beta(a, b)
    if a + b < 20:
        return gamma(b) / gamma(a + b) * gamma(a)
    rest = stirling_rest(b) - stirling_rest(a + b)
    if a < 10:
        return gamma(a) * math.exp(a - (b - 0.5) * math.log1p(a / b) - a * math.log(a + b) + rest)
    exponent = -a * math.log1p(b / a) - b * math.log1p(a / b) + rest + stirling_rest(a)
    return ROOT_TWO_PI * math.sqrt(1 / a + 1 / b) * math.exp(exponent)


def _adds_up_to_pole(a: float, b: float) -> bool:
    """Whether a + b is a pole of gamma: it itself, and not just the float next to it."""
    return is_pole(a + b) and (_from_whole(a) + _from_whole(b)) % 1 == 0


def _reflected_beta(a: float, b: float) -> float:
    """beta for a < 0, with gamma(a) = π/(sin(πa)·gamma(1 - a)), and the same for a + b where that is below 1."""
    sine = math.sin(pi * _from_whole(a))
    if a + b >= 1:
        return divide(pi, _sign_of_whole(a) * sine * b * beta(1 - a, a + b))
    both = math.sin(pi * (_from_whole(a) + _from_whole(b)))
    return _sign_of_whole(b) * both / sine * beta(b, (1 - b) - a)  # in this order nothing is rounded that cancels


def beta_slope(a: float, b: float) -> float:
    """The slope of beta(a, b) towards a."""
    if _adds_up_to_pole(a, b) and not is_pole(a) and not is_pole(b):
        # beta is 0 there, digamma infinite; 1/gamma rises through its zero at -m by (-1)^m·m!
        order = -(a + b)
        return gamma(a) * gamma(b) * gamma(order + 1) * (-1.0 if is_odd(order) else 1.0)
    return beta(a, b) * digamma_gap(a, b)


# --- the slope of the incomplete gamma functions


def gamma_density(a: float, x: float) -> float:
    """x^(a-1)·exp(-x)/gamma(a), the slope of gammainc towards x; 0 where a is a pole of gamma.

    For large a as a bell around a, in the form of Loader (2000), "Fast and accurate computation of binomial
    probabilities".
    """
    if a != a or not x >= 0:
        return nan
    if is_pole(a) or x > 2000 + 2 * abs(a):
        return 0.0 if math.isfinite(a) else nan
    if a < 20:
        half = math.exp(-x / 2)  # twice, because exp(-x) alone may underflow
        return half * divide(power(x, a - 1), gamma(a)) * half
    if x == 0 or math.isinf(a):
        return 0.0
    height = math.exp(-a * log_rest(x, a) - stirling_rest(a))
    return math.sqrt(a / (2 * pi)) / x * height if height > 0 else 0.0


def log_rest(x: float, a: float) -> float:
    """u - log(1 + u) with u = (x - a)/a, which cancels near 0: with v = u/(2 + u), log(1 + u) is 2·atanh(v)."""
    u = (x - a) / a
    if abs(u) > 0.4:
        return u - log(x / a)
    v = u / (2 + u)
    total = 0.0
    for k in range(13, -1, -1):
        total = total * v * v + 1 / (2 * k + 3)
    return u * v - 2 * v * v * v * total


# fmt: off
GAMMA = {
    "gamma": gamma, "lgamma": lgamma, "digamma": digamma, "polygamma": polygamma,
    "digamma_gap": digamma_gap, "polygamma_gap": polygamma_gap,
    "beta": beta, "beta_slope": beta_slope, "gamma_density": gamma_density,
}
# fmt: on
