"""The gamma family for floats, by IEEE 754: gamma, digamma, beta, incomplete gamma and beta functions, and an inverse.

These replace functions of the platform that lose digits: `math.lgamma` is wrong by hundreds of ulps near 1 and by
thousands below 0. `beta` and differences of digammas have forms of their own because the textbook forms cancel.

The value at a pole is infinite if both sides agree on its sign, or if the sign of a zero selects a side; otherwise nan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import copysign, inf, nan, pi

from autodiff_cli.numbers.float_functions import divide, exp, is_derivative_order, is_odd, log, power, ratio_series

# The Bernoulli numbers B_2, B_4, … B_20, for expansions at large arguments.
BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
)  # fmt: skip
ASYMPTOTIC_FROM = 12.0  # for larger arguments, ten terms of these expansions are accurate to rounding
SQRT_TWO_PI = math.sqrt(2 * pi)
HALF_LOG_TWO_PI = math.log(2 * pi) / 2
ONE_MINUS_EULER = 0.42278433509846713  # 1 - γ

# The positive zero of digamma as a rounded number, and its rounding error.
DIGAMMA_ROOT, DIGAMMA_ROOT_ERROR = 1.4616321449683622, 9.549995429965697e-17


def is_gamma_pole(x: float) -> bool:
    """Whether gamma has a pole at x: at 0, the negative integers, and -∞."""
    return x == -inf or (x <= 0 and abs(x) % 1 == 0)


def _offset_from_integer(x: float) -> float:
    """The exact difference between x and the nearest integer."""
    rest = abs(x) % 1
    return copysign(rest, x) if rest <= 0.5 else copysign(1 - rest, -x)


def _parity_sign(x: float) -> float:
    """1 if the integer nearest to x is even, -1 if it is odd."""
    rest = abs(x) % 2
    return -1.0 if 0.5 < rest <= 1.5 else 1.0


def sin_pi(x: float) -> float:
    return _parity_sign(x) * math.sin(pi * _offset_from_integer(x))


def cos_pi(x: float) -> float:
    return _parity_sign(x) * math.sin(pi * (0.5 - abs(_offset_from_integer(x))))  # 0 at halves


def rising_factorial(x: float, count: float) -> float:
    """The product x·(x + 1)·… with `count` factors.

    >>> rising_factorial(1.0, 5.0)
    120.0
    """
    product = 1.0
    k = 0.0
    while k < count:
        product *= x + k
        k += 1
    return product


# --- gamma and its logarithm ---


def gamma(x: float) -> float:
    """The gamma function; infinite with the sign of the zero at its pole 0, nan at its other poles."""
    if x == 0:
        return copysign(inf, x)
    try:
        return math.gamma(x)
    except OverflowError:
        return copysign(inf, x)
    except ValueError:
        return nan


def lgamma(x: float) -> float:
    """The logarithm of |gamma(x)|; infinite at the poles.

    It uses the power series at 2, extended by recurrence up to 10, Stirling's series above, and reflection below -1/2.
    """
    if x != x:
        return nan
    if math.isinf(x) or is_gamma_pole(x):
        return inf
    if x < -0.5:
        return math.log(pi / abs(x * sin_pi(x))) - lgamma(-x)
    if x < 0.5:
        return lgamma_near_2(x) - math.log1p(x) - math.log(abs(x))
    if x < 1.5:
        return lgamma_near_2(x - 1) - math.log1p(x - 1)
    if x < 10:
        steps = math.floor(x + 0.5) - 2
        return lgamma_near_2(x - 2 - steps) + math.log(rising_factorial(x - steps, steps))
    return (x - 0.5) * (math.log(x) - 1) + (HALF_LOG_TWO_PI - 0.5 + stirling_remainder(x))


def lgamma_near_2(t: float) -> float:
    """lgamma(2 + t) for |t| <= 1/2: t·(1 - γ) + Σ (-t)^k (ζ(k) - 1)/k from k = 2."""
    total = 0.0
    for coefficient in lgamma_series_at_2():
        total = (total + coefficient) * t
    return total


@cache
def lgamma_series_at_2() -> list[float]:
    """The coefficients of the power series of lgamma at 2, highest power first; ζ(k) - 1 is the sum of 1/j^k from j =
    2."""
    coefficients = [(-1) ** k * _hurwitz_sum(k - 1, 2.0) / math.factorial(k - 1) / k for k in range(30, 1, -1)]
    return [*coefficients, ONE_MINUS_EULER]


def stirling_remainder(x: float) -> float:
    """The remainder of Stirling's formula for log(gamma(x)) with large x: Σ B_2j/(2j·(2j-1)·x^(2j-1))."""
    total = 0.0
    for j in range(10, 0, -1):
        total = total / x / x + BERNOULLI[j - 1] / (2 * j * (2 * j - 1))
    return total / x


# --- digamma and its derivatives ---


def digamma(x: float) -> float:
    """The derivative of lgamma; infinite at its pole 0, nan at its other poles."""
    if x == 0:
        return -copysign(inf, x)
    if x != x or is_gamma_pole(x):
        return nan
    if x < 0:
        return digamma(1 - x) - pi / math.tan(pi * _offset_from_integer(x))
    if math.isinf(x):
        return x
    if 0.9 < x < 2:
        return _digamma_near_root((x - DIGAMMA_ROOT) - DIGAMMA_ROOT_ERROR)
    shift_sum = 0.0
    while x < ASYMPTOTIC_FROM:
        shift_sum += 1 / x
        x += 1
    series = 0.0
    for j in range(10, 0, -1):
        series = (series + BERNOULLI[j - 1] / (2 * j)) / x / x
    return math.log(x) - (shift_sum + (0.5 / x + series))


def _digamma_near_root(t: float) -> float:
    """digamma at its positive zero plus t, for -0.57 < t < 0.54, by its Taylor series."""
    total = 0.0
    for coefficient in digamma_series_at_root():
        total = (total + coefficient) * t
    return total


@cache
def digamma_series_at_root() -> list[float]:
    """The coefficients of the Taylor series of digamma at its positive zero, highest power first: polygamma(k,
    zero)/k!."""
    return [polygamma(float(k), DIGAMMA_ROOT) / math.factorial(k) for k in range(40, 0, -1)]


def polygamma(n: float, x: float) -> float:
    """The n-th derivative of digamma for an integer n from 0; infinite at the poles for odd n.

    It uses the recurrence and the Euler-Maclaurin expansion. The result loses digits for n above 100.
    """
    if not is_derivative_order(n) or x != x:
        return nan
    if n == 0:
        return digamma(x)
    if x == -inf:
        return nan
    if is_gamma_pole(x):
        if is_odd(n):
            return inf
        return -copysign(inf, x) if x == 0 else nan
    return _hurwitz_sum(n, x) if is_odd(n) else -_hurwitz_sum(n, x)


def _scaled_power(n: float, y: float) -> float:
    """n!·y^-(n+1), also where the factorial overflows."""
    return rising_factorial(1.0, n) * power(y, -n - 1) if n <= 100 else exp(lgamma(n + 1) - (n + 1) * math.log(y))


def _difference_factor(p: float, growth: float) -> float:
    """1 - r^-p for r = exp(growth), the factor by which y^-p - (r·y)^-p differs from y^-p; 1 if r is infinite."""
    return -math.expm1(-p * growth)


def _euler_maclaurin(n: float, y: float, growth: float) -> float:
    """The Euler-Maclaurin expansion of Σ (1 + k/y)^-(n+1) from k = 0, without its leading term, the integral y/n.

    Each term, a power of y, is multiplied by its `_difference_factor`, so the result is a difference of two expansions,
    at y and at y·exp(growth); with infinite growth, it is the expansion at y.
    """
    total = 0.5 * _difference_factor(n + 1, growth)
    factor = (n + 1) / y / 2
    for j in range(1, 11):
        total += BERNOULLI[j - 1] * factor * _difference_factor(n + 2 * j, growth)
        factor *= (n + 2 * j) * (n + 2 * j + 1) / ((2 * j + 1) * (2 * j + 2)) / y / y
    return total


def _periodic_sum(n: float, offset: float) -> float:
    """n!·Σ (offset + k)^-(n+1) over all integers k, for -1/2 <= offset <= 1/2."""
    size = abs(offset)
    total = _hurwitz_sum(n, size)
    rest = _hurwitz_sum(n, 1 - size)
    if is_odd(n):
        return total + rest
    return total - rest if offset > 0 else rest - total


def _hurwitz_sum(n: float, x: float) -> float:
    """n!·Σ (x + k)^-(n+1) from k = 0 for n > 0, which is n! times the Hurwitz zeta function.

    For negative x, it is the sum over all integers k minus the sum over the negative ones.
    """
    if x < 0:
        mirrored = _hurwitz_sum(n, 1 - x)
        return _periodic_sum(n, _offset_from_integer(x)) - (mirrored if is_odd(n) else -mirrored)
    if math.isinf(x):
        return 0.0
    total = 0.0
    while x < ASYMPTOTIC_FROM + n:
        term = _scaled_power(n, x)
        total += term
        if not term > 1e-18 * total or total == inf:
            return total
        x += 1
    return total + _scaled_power(n - 1, x) + _scaled_power(n, x) * _euler_maclaurin(n, x, inf)


def digamma_diff(a: float, b: float) -> float:
    """digamma(a) - digamma(a + b)."""
    return polygamma_diff(0.0, a, b)


def polygamma_diff(n: float, a: float, b: float) -> float:
    """polygamma(n, a) - polygamma(n, a + b), accurate also where b is small compared to a.

    It uses the sums for polygamma with each term y^-p replaced by the difference y^-p - (y + b)^-p. Below 0 it uses
    reflection, unless b is so large that the plain difference is accurate.
    """
    if not is_derivative_order(n):
        return nan
    if not (0 < a < inf and a / 2 < a + b < inf):
        if min(a, a + b) < 0 and a + b < 0.5 and not is_gamma_pole(a) and not is_gamma_pole(a + b):
            return _reflected_difference(n, a, b)
        return polygamma(n, a) - polygamma(n, a + b)
    if b == 0:
        return 0.0
    sign = 1.0 if is_odd(n) else -1.0
    total = 0.0
    while min(a, a + b) < ASYMPTOTIC_FROM + n:
        term = _scaled_power(n, a) * _difference_factor(n + 1, math.log1p(b / a))
        total += term
        if not abs(term) > 1e-18 * abs(total) or math.isinf(total):
            return sign * total
        a += 1
    growth = math.log1p(b / a)
    leading = growth if n == 0 else _scaled_power(n - 1, a) * _difference_factor(n, growth)
    return sign * (total + leading + _scaled_power(n, a) * _euler_maclaurin(n, a, growth))


def _reflected_difference(n: float, a: float, b: float) -> float:
    """polygamma(n, a) - polygamma(n, a + b) for a + b < 1/2, by reflection.

    digamma(x) = digamma(1 - x) - π/tan(πx). For a < 1/2 the two cotangents combine to sin(πb)/(sin(πa)·sin(π(a + b))),
    which is 0 for integers b, and their derivatives to sin(πb)·sin(π(2a + b))/(sin(πa)·sin(π(a + b)))². Higher
    derivatives are sums over all integers, which have period 1 and are even or odd, so they are subtracted after b has
    been reduced. The phase of a + b is computed from the phases of a and b, because the sum would be rounded.
    """
    start = _offset_from_integer(a)
    shift = _offset_from_integer(b)
    place = start + shift
    beyond = (1 - b) - a
    parity = 1.0 if is_odd(n) else -1.0
    if a >= 0.5:
        if n == 0:
            return digamma(a) - digamma(beyond) + pi / math.tan(pi * place)
        return polygamma(n, a) + parity * (polygamma(n, beyond) - _periodic_sum(n, _offset_from_integer(place)))
    rest = parity * polygamma_diff(n, beyond, b)
    wave = pi / math.sin(pi * start) / math.sin(pi * place) * sin_pi(b) * _parity_sign(b)
    if n == 0:
        return rest - wave
    if n == 1:
        return rest + wave * pi / math.sin(pi * start) / math.sin(pi * place) * math.sin(pi * (start + place))
    size = abs(start)
    move = copysign(1.0, start) * shift
    if size + move < 0:
        move += 1
    mirrored = 1 - 2 * size - move
    if is_odd(n) and abs(mirrored) < abs(move):
        move = mirrored
    near = polygamma_diff(n, size, move) + parity * polygamma_diff(n, 1 - size, -move)
    return rest + (near if start > 0 or is_odd(n) else -near)


# --- beta ---


def beta(a: float, b: float) -> float:
    """gamma(a)·gamma(b)/gamma(a + b).

    For large arguments it uses Stirling's formula, in a form from which the large logarithms have been cancelled by
    hand. For negative arguments it uses reflection.
    """
    if a != a or b != b or min(a, b) == -inf:
        return nan
    if a > b:
        return beta(b, a)
    if is_gamma_pole(a) or is_gamma_pole(b):
        return nan if is_gamma_pole(a) and is_gamma_pole(b) else gamma(a if is_gamma_pole(a) else b)
    if _is_sum_pole(a, b):
        return 0.0
    if a + b == inf:
        return 0.0 if a > 0 else inf * gamma(a)
    if a < 0:
        return _beta_by_reflection(a, b)
    if a + b < 20:
        return gamma(b) / gamma(a + b) * gamma(a) if a + b > 1e-290 else 1 / a + 1 / b
    remainder = stirling_remainder(b) - stirling_remainder(a + b)
    if a < 10:
        return gamma(a) * math.exp(a - (b - 0.5) * math.log1p(a / b) - a * math.log(a + b) + remainder)
    exponent = -a * math.log1p(b / a) - b * math.log1p(a / b) + remainder + stirling_remainder(a)
    return SQRT_TWO_PI * math.sqrt(1 / a + 1 / b) * math.exp(exponent)


def _is_sum_pole(a: float, b: float) -> bool:
    """Whether the exact sum a + b is a pole of gamma, and not only its rounded value."""
    return is_gamma_pole(a + b) and (_offset_from_integer(a) + _offset_from_integer(b)) % 1 == 0


def _beta_by_reflection(a: float, b: float) -> float:
    """beta for a < 0, with gamma(a) = π/(sin(πa)·gamma(1 - a)), and this also for a + b if it is below 1."""
    sine = math.sin(pi * _offset_from_integer(a))
    if a + b >= 1:
        return divide(pi, _parity_sign(a) * sine * b * beta(1 - a, a + b))
    both = math.sin(pi * (_offset_from_integer(a) + _offset_from_integer(b)))
    # In this order no rounding error is amplified by cancellation.
    return _parity_sign(b) * both / sine * beta(b, (1 - b) - a)


def beta_slope(a: float, b: float) -> float:
    """The derivative of beta(a, b) with respect to a."""
    if _is_sum_pole(a, b) and not is_gamma_pole(a) and not is_gamma_pole(b):
        # beta is 0 and digamma infinite here; the derivative of 1/gamma at its zero -m is (-1)^m·m!
        order = -(a + b)
        return gamma(a) * gamma(b) * gamma(order + 1) * (-1.0 if is_odd(order) else 1.0)
    return beta(a, b) * digamma_diff(a, b)


# --- The derivative of the incomplete gamma functions ---


def gamma_density(a: float, x: float) -> float:
    """x^(a-1)·exp(-x)/gamma(a), the derivative of gammainc with respect to x; 0 where a is a pole of gamma.

    For large a it uses the saddle-point form of Loader (2000), "Fast and accurate computation of binomial
    probabilities".
    """
    if a != a or not x >= 0:
        return nan
    if is_gamma_pole(a) or x > 2000 + 2 * abs(a):
        return 0.0 if math.isfinite(a) else nan
    if a < 20:
        half = math.exp(-x / 2)  # as a factor twice, because exp(-x) may underflow
        return half * divide(power(x, a - 1), gamma(a)) * half
    if x == 0 or math.isinf(a):
        return 0.0
    height = math.exp(-a * log1p_remainder(x, a) - stirling_remainder(a))
    return math.sqrt(a / (2 * pi)) / x * height if height > 0 else 0.0


def log1p_remainder(x: float, a: float) -> float:
    """u - log(1 + u) with u = (x - a)/a; near 0, where that cancels, from log(1 + u) = 2·atanh(v) with v = u/(2 +
    u)."""
    u = (x - a) / a
    if abs(u) > 0.4:
        return u - log(x / a)
    v = u / (2 + u)
    total = 0.0
    for k in range(13, -1, -1):
        total = total * v * v + 1 / (2 * k + 3)
    return u * v - 2 * v * v * v * total


# --- Incomplete gamma functions ---


def gammainc(a: float, x: float) -> float:
    """The regularised lower incomplete gamma function, which increases from 0 at x = 0 to 1."""
    return _incomplete_gamma(a, x, 1.0)


def gammaincc(a: float, x: float) -> float:
    """The regularised upper incomplete gamma function, 1 - gammainc(a, x), accurate also where it is small."""
    return _incomplete_gamma(a, x, -1.0)


def _incomplete_gamma(a: float, x: float, side: float) -> float:
    """The lower (side 1) or upper (side -1) regularised incomplete gamma function."""
    if not (a >= 0 and x >= 0) or (a == 0 and x == 0) or (a == inf and x == inf):
        return nan
    if x == 0 or a == inf or a == 0 or x == inf:
        return (1 - side if x == 0 or a == inf else 1 + side) / 2
    if _is_near_mean(a, x):
        return _temme_expansion(a, x, side)
    if side < 0 and a < 1 and x < 1.1:
        return _upper_series(a, x)
    if x < max(a + 1, 1.1):
        return _lower_series(a, x) if side > 0 else 1 - _lower_series(a, x)
    return _upper_continued_fraction(a, x) if side < 0 else 1 - _upper_continued_fraction(a, x)


def _is_near_mean(a: float, x: float) -> bool:
    return a > 50 and abs(x - a) <= 0.3 * a


def _poisson_mass(a: float, x: float) -> float:
    """x^a·exp(-x)/gamma(a + 1)."""
    if a >= 20:
        return gamma_density(a, x) * (x / a)
    if x > 2000:
        return 0.0
    half = math.exp(-x / 2)  # as a factor twice, because exp(-x) may underflow
    return power(x, a) * half / gamma(a + 1) * half


def _lower_series(a: float, x: float) -> float:
    """x^a·exp(-x)/gamma(a + 1)·(1 + x/(a + 1) + x²/((a + 1)(a + 2)) + …)."""
    return _poisson_mass(a, x) * ratio_series(lambda k: x / (a + k))


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


def _upper_continued_fraction(a: float, x: float) -> float:
    """x^a·exp(-x)/gamma(a) times the continued fraction 1/(x + 1 - a - 1·(1 - a)/(x + 3 - a - …)), by Lentz's
    method."""
    divisor = x + 1 - a
    ratio_down = 1 / divisor
    ratio_up = inf
    fraction = ratio_down
    factor = 0.0
    k = 1.0
    while abs(factor - 1) > 3e-16:
        divisor += 2
        ratio_down = 1 / (k * (a - k) * ratio_down + divisor)
        ratio_up = divisor + k * (a - k) / ratio_up
        factor = ratio_up * ratio_down
        fraction *= factor
        k += 1
    return a * _poisson_mass(a, x) * fraction


def _temme_expansion(a: float, x: float, side: float) -> float:
    """The lower (side 1) or upper (side -1) function near x = a, by Temme's uniform expansion (DLMF 8.12.3, 8.12.4).

    It is erfc(∓η·√(a/2))/2 with η²/2 = u - log(1 + u) and u = (x - a)/a, plus a remainder in powers of 1/a.
    """
    half_square = log1p_remainder(x, a)
    eta = copysign(math.sqrt(2 * half_square), x - a)
    remainder = math.exp(-a * half_square) / math.sqrt(2 * pi * a) * _temme_sum(a, eta, 0.0, 0.0)
    return math.erfc(-side * eta * math.sqrt(a / 2)) / 2 - side * remainder


def _temme_sum(a: float, eta: float, order: float, rising: float) -> float:
    """Σ k·(k + 1)·…·c_k(η)/a^k with `rising` factors, or of the derivatives of c_k with respect to η (order 1)."""
    total = 0.0
    for k in range(TEMME_ORDERS - 1, -1, -1):
        term = 0.0
        for n in range(TEMME_TERMS - 1, -1, -1):
            if order == 0 or n > 0:
                term = term * eta + temme_coefficients()[k * TEMME_TERMS + n] * (1.0 if order == 0 else n)
        total = total / a + term * (1.0 if rising == 0 else (k if rising == 1 else k * (k + 1)))
    return total


TEMME_ORDERS, TEMME_TERMS = 10, 22


@cache
def temme_coefficients() -> list[float]:
    """The coefficients of the remainder: for each power of 1/a, one per power of η (DLMF 8.12.8 to 8.12.12)."""
    count = TEMME_TERMS + 2 * TEMME_ORDERS + 2
    alpha = [Fraction(0), Fraction(1)]
    for n in range(2, count + 1):
        alpha.append((alpha[n - 1] - sum(j * alpha[j] * alpha[n - j + 1] for j in range(2, n))) / (n + 1))
    table = [[Fraction(-1, 3), *((n + 2) * alpha[n + 2] for n in range(1, count - 1))]]
    odd = 1
    for k in range(1, TEMME_ORDERS):
        odd *= 2 * k + 1
        stirling = (-1) ** k * odd * alpha[2 * k + 1]  # coefficient of the expansion of 1/gamma at large arguments
        table.append([stirling * table[0][n] + (n + 2) * coefficient for n, coefficient in enumerate(table[-1][2:])])
    return [float(coefficient) for row in table for coefficient in row[:TEMME_TERMS]]


def gammainc_slope(a: float, x: float) -> float:
    """The derivative of gammainc with respect to a."""
    return _shape_derivative(a, x, 1.0)


def gammainc_curvature(a: float, x: float) -> float:
    """The second derivative of gammainc with respect to a."""
    return _shape_derivative(a, x, 2.0)


def _shape_derivative(a: float, x: float, order: float) -> float:
    """The derivative of gammainc with respect to a, from the right at a = 0.

    For x near a large a, by Temme's expansion. Else for x below a + 2, by the derivatives of the terms of
    `_lower_series`, above by an integral from x to ∞.
    """
    if not (0 <= a < inf and x >= 0) or (a == 0 and x == 0):
        return nan
    if _is_near_mean(a, x):
        return _temme_shape_derivative(a, x, order)
    if x == 0 or x == inf or x > 2000 + 2 * a or a > 1e5:  # the density at x underflows
        return 0.0 if x == 0 or x == inf or (order == 2 and x < a) else -0.0  # with the sign of the derivative
    if x >= a + 2:
        return -_upper_shape_integral(a, x, order)
    log_x = math.log(x)
    first = digamma(a + 1)
    second = polygamma(1.0, a + 1)
    mass = _poisson_mass(a, x)
    total = -0.0
    k = 1.0
    while mass > 1e-18 * abs(total) or k < 10:
        excess = log_x - first
        term = mass * (excess if order == 1 else excess * excess - second)
        total += term
        first += 1 / (a + k)
        second -= 1 / (a + k) / (a + k)
        mass *= x / (a + k)
        k += 1
    return total


def _temme_shape_derivative(a: float, x: float, order: float) -> float:
    """The derivative of `_temme_expansion` with respect to a: exp(-a·η²/2)/√(2πa) times h - 1, in the terms used there.

    Nothing cancels at x = a: 1 - u·c_0 is the slope (x - a)/(a·η) of η (DLMF 8.12.8).
    """
    half_square = log1p_remainder(x, a)
    u = (x - a) / a
    eta = copysign(math.sqrt(2 * half_square), u)
    density = math.exp(-a * half_square) / math.sqrt(2 * pi * a)
    weight = half_square + 1 / (2 * a)
    total = _temme_sum(a, eta, 0.0, 0.0)
    falling = _temme_sum(a, eta, 0.0, 1.0)
    excess = math.expm1(-stirling_remainder(a))  # relative excess of 1/gamma(a) over Stirling's formula for it
    h = eta / 2 + weight * total + falling / a - excess
    if order == 1:
        return density * (h - 1)
    first = _temme_sum(inf, eta, 0.0, 0.0)
    slope = eta * total + weight * _temme_sum(a, eta, 1.0, 0.0) + _temme_sum(a, eta, 1.0, 1.0) / a
    change = slope * (1 - u * first) - u * first / 2 + total / (2 * a) + weight * falling
    change += _temme_sum(a, eta, 0.0, 2.0) / a + (1 + excess) * (1 / 12 - (1 / 120 - 1 / 252 / a / a) / a / a) / a
    return density * (math.log1p(u) * (h - 1) - (h / 2 + change) / a)


def _upper_shape_integral(a: float, x: float, order: float) -> float:
    """The integral of (log(t) - digamma(a))·gamma_density(a, t) from x to ∞, or of the square minus the trigamma
    function of a, by the double exponential rule: Takahasi & Mori 1974.

    With digamma(a) = digamma(a + 1) - 1/a, gamma(a) = gamma(a + 1)/a and so on, nothing is divided by a.
    """
    first = digamma(a + 1)
    second = polygamma(1.0, a + 1)
    width = 1 / ((x - a) / x + 1 / math.sqrt(a + 1))
    total = 0.0
    for k in range(-48, 64):
        s = k / 12
        shift = width * math.exp(s - math.exp(-s))
        t = x + shift
        excess = math.log(t) - first
        weight = gamma_density(a + 1, t) / t * shift * (1 + math.exp(-s))
        total += weight * (a * excess + 1 if order == 1 else a * (excess * excess - second) + 2 * excess)
    return total / 12


# --- The inverse of the incomplete gamma function, and the incomplete beta function ---

_TEMME_FROM = 3000.0  # if both arguments are larger, Temme's expansion has an error of at most 1e-6
_FRACTION_UP_TO = 1e7  # for larger arguments, the continued fraction loses digits


def gammaincinv(a: float, probability: float) -> float:
    """The x at which gammainc(a, x) is `probability`, for a > 0: by Newton's method, safeguarded by a bracket.

    The logarithms of both tails are concave functions of log(x), so Newton's method converges on them from far away.
    The starting value is the approximation of Wilson and Hilferty (1931), with Hastings' one of the normal quantile
    (1955), or else the leading term at 0, which may underflow to the result.
    """
    if not (a > 0 and 0 <= probability <= 1):
        return nan
    if probability == 0 or probability == 1:
        return 0.0 if probability == 0 else inf
    side = -1.0 if probability < 0.5 else 1.0
    share = probability if side < 0 else 1 - probability
    t = math.sqrt(-2 * math.log(share))
    deviations = t - (2.30753 + 0.27061 * t) / (1 + t * (0.99229 + 0.04481 * t))
    cube_root = 1 - 1 / (9 * a) + side * deviations / (3 * math.sqrt(a))
    is_central = a > 1 and cube_root > 0.1
    x = a * cube_root * cube_root * cube_root if is_central else exp((math.log(probability) + lgamma(a + 1)) / a)
    low = 0.0
    high = inf
    for _ in range(100):
        tail = _incomplete_gamma(a, x, -side)
        if (tail - share) * side > 0:
            low = x
        else:
            high = x
        following = x * exp(side * (log(tail) - log(share)) * divide(tail, a * _poisson_mass(a, x)))
        if not low <= following <= high:
            following = 2 * x if high == inf else (x / 2 if low == 0 else (low + high) / 2)
        if abs(following - x) <= 1e-15 * x:
            return following
        x = following
    return x


def betainc(a: float, b: float, x: float, y: float) -> float:
    """The regularised incomplete beta function of x = 1 - y, accurate also where x is close to 1.

    It uses the continued fraction (DLMF 8.17.22) on the side where it converges fast. If one argument is large, it uses
    Wise's approximation by the incomplete gamma function (Biometrika 37, 1950), with an error of 1e-7. If both are
    large, it uses the first two terms of Temme's uniform expansion (DLMF 8.18.9), with an error of 1e-6.
    """
    if x <= 0 or y <= 0:
        return nan if x != x or y != y else (0.0 if x <= 0 else 1.0)
    if max(a, b) > _FRACTION_UP_TO and min(a, b) <= _TEMME_FROM:
        if a < b:
            return gammainc(a, -(b + (a - 1) / 2) * _log_complement(x, y))
        return gammaincc(b, -(a + (b - 1) / 2) * _log_complement(y, x))
    if x * (a + b + 2) > a + 1:
        return 1 - _beta_tail(b, a, y, x)
    return _beta_tail(a, b, x, y)


def _log_complement(x: float, y: float) -> float:
    """The logarithm of y = 1 - x."""
    return math.log1p(-x) if x < 0.5 else math.log(y)


def _beta_tail(a: float, b: float, x: float, y: float) -> float:
    if min(a, b) > _TEMME_FROM:
        return _beta_temme(a, b, x, y)
    ratio_up = 1.0
    ratio_down = 1 / (1 - (a + b) * x / (a + 1))
    fraction = ratio_down
    factor = 0.0
    k = 1.0
    while abs(factor - 1) > 1e-15 and k < 1000:
        even = k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k))
        odd = -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1))
        ratio_down = 1 / (1 + even * ratio_down)
        ratio_up = 1 + even / ratio_up
        fraction *= ratio_down * ratio_up
        ratio_down = 1 / (1 + odd * ratio_down)
        ratio_up = 1 + odd / ratio_up
        factor = ratio_down * ratio_up
        fraction *= factor
        k += 1
    return _beta_mass(a, b, x, y) / a * fraction


def _beta_mass(a: float, b: float, x: float, y: float) -> float:
    """x^a·y^b/beta(a, b); for large arguments in a saddle-point form around x = a/(a + b), which does not cancel."""
    if min(a, b) < ASYMPTOTIC_FROM:
        return power(x, a) * power(y, b) / beta(a, b)
    total = a + b
    remainder = stirling_remainder(total) - stirling_remainder(a) - stirling_remainder(b)
    return math.sqrt(a / total * b / (2 * pi)) * math.exp(remainder - _beta_deviance(a, b, x, y))


def _beta_deviance(a: float, b: float, x: float, y: float) -> float:
    """The maximum of the logarithm of x^a·y^b minus its value."""
    total = a + b
    return a * log1p_remainder(x, a / total) + b * log1p_remainder(y, b / total)


def _beta_temme(a: float, b: float, x: float, y: float) -> float:
    total = a + b
    deviation = x - a / total if x < 0.5 else b / total - y
    scale = math.sqrt(a / total * (b / total))
    deviance = _beta_deviance(a, b, x, y)
    eta = copysign(math.sqrt(2 * deviance / total), deviation)
    correction = 1 / eta - scale / deviation if abs(eta) > 1e-4 * scale else (b - a) / (3 * total * scale)
    return math.erfc(-eta * math.sqrt(total / 2)) / 2 + math.exp(-deviance) / math.sqrt(2 * pi * total) * correction


OPERATIONS: dict[str, Callable[..., float]] = {
    function.__name__: function
    for function in (
        gamma, lgamma, digamma, polygamma, digamma_diff, polygamma_diff, beta, beta_slope, gamma_density,
        gammainc, gammaincc, gammainc_slope, gammainc_curvature,
    )
}  # fmt: skip
