"""Elementary functions, the normal distribution and activation functions for floats, by the rules of IEEE 754.

Python's `math` raises exceptions where IEEE 754 defines a result; `guard` returns that result. Where a function of the
platform, or a textbook formula, is wrong by several ulps, a more accurate form replaces it.

Exponentials amplify rounding errors in their argument. The error of a square, a difference or a quotient is therefore
tracked and corrected to first order.

Functions defined with `def`, here and in the other modules of float functions, are also translated into other languages
unless they catch exceptions. They use only what all these languages have: numbers, conditions, loops over ranges and
tables, and calls of one another. Operands of `%` are not negative. Their docstrings become comments in exported
programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import copysign, inf, nan, pi

Function = Callable[[float], float]


def guard(function: Function, otherwise: Function) -> Function:
    """Return `function`, with the result of `otherwise` where it raises an exception."""

    def guarded(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return otherwise(x)

    return guarded


def _return_nan(_: float) -> float:
    return nan


def _log_edge(x: float) -> float:
    return -inf if x == 0 else nan


def divide(x: float, y: float) -> float:
    """x / y, with the result of IEEE 754 where y is 0."""
    try:
        return x / y
    except ZeroDivisionError:
        return nan if x == 0 or x != x else copysign(inf, x) * copysign(1.0, y)


def power(x: float, y: float) -> float:
    """x^y as a real number: nan for a negative base with an exponent that is not an integer."""
    try:
        return nan if x == -inf and y % 1 != 0 and math.isfinite(y) else math.pow(x, y)
    except OverflowError:
        return -inf if x < 0 and y % 2 == 1 else inf
    except ValueError:
        if x == 0 and y < 0:
            return copysign(inf, x) if y % 2 == 1 else inf
        return nan


# --- Rounding errors of sums and products ---


def product_error(a: float, b: float) -> float:
    """The exact product minus the rounded one (Dekker 1971, with Veltkamp's splitting); 0 where it would overflow."""
    product = a * b
    if not abs(product) < 1e290 or abs(a) > 1e150 or abs(b) > 1e150:
        return 0.0
    c = 134217729.0 * a
    a_high = c - (c - a)
    a_low = a - a_high
    c = 134217729.0 * b
    b_high = c - (c - b)
    b_low = b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def sum_error(a: float, b: float) -> float:
    """The exact sum minus the rounded one (Knuth's two-sum); 0 where the sum is infinite."""
    total = a + b
    if math.isinf(total):
        return 0.0
    b_part = total - a
    return (a - (total - b_part)) + (b - b_part)


HIGHEST_ORDER = 1000.0  # highest order of `polygamma`, `sinc_derivative` and others, whose run time grows with it


def is_derivative_order(n: float) -> bool:
    """Whether n can be the order of a derivative: an integer from 0 to `HIGHEST_ORDER`."""
    return 0 <= n <= HIGHEST_ORDER and n % 1 == 0


def is_odd(n: float) -> bool:
    """Whether n is an odd integer."""
    return abs(n) % 2 == 1


def ratio_series(ratio: Callable[[float], float]) -> float:
    """The series 1 + r(1) + r(1)·r(2) + … of ratios r, until its terms are negligible."""
    term = 1.0
    total = 1.0
    k = 1.0
    while abs(term) > 1e-17 * abs(total):
        term *= ratio(k)
        total += term
        k += 1
    return total


# --- Powers and logarithms ---


def root(x: float, n: float) -> float:
    """The real n-th root, with the sign of x for odd integers n, also of -0; nan for a negative x and other n."""
    size = abs(x)
    z = sqrt(size) if n == 2 else (cube_root(size) if n == 3 else _root_of_size(size, n))
    if x != x or n != n or n == 0:
        return nan
    if is_odd(n):
        return math.copysign(z, x)
    return nan if x < 0 else z


def _root_of_size(size: float, n: float) -> float:
    """size^(1/n), corrected for the rounding error of 1/n: to first order, x^error is 1 + error·log(x).

    An integer whose power is exact is the root, as 4 is of 1024.
    """
    z = power(size, divide(1.0, n))
    exponent_error = 1.0 - divide(1.0, n) * n - product_error(divide(1.0, n), n)
    step = z * (divide(exponent_error, n) * log(size))
    z = z + step if math.isfinite(step) else z
    whole = _nearest_integer(z)
    return whole if power(whole, n) == size else z


def _nearest_integer(x: float) -> float:
    """The integer that differs from a number by rounding errors only; the number itself if there is none."""
    whole = 0.0 + math.floor(x + 0.5) if abs(x) < 2.0**52 else x
    return whole if abs(whole - x) <= 1e-15 * abs(x) else x


def cube_root(x: float) -> float:
    """The cube root: one step of Newton's method from the platform's result, which is up to 3 ulps off.

    Larger steps are none: at 0, at infinities, and where the cube underflows.
    """
    z = math.cbrt(x)
    step = divide(z * z * z - x, 3.0 * z * z)
    return z - step if abs(step) < 1e-15 * abs(z) else z


def log_base(x: float, base: float) -> float:
    """The logarithm of x to a base; exact where it is an integer whose power is exact."""
    if base == 2:
        return log2(x)
    if base == 10:
        return log10(x)
    z = divide(log(x), log(base))
    whole = _nearest_integer(z)
    return whole if power(base, whole) == x else z


def pow_slope_base(x: float, y: float) -> float:
    """The derivative of x^y with respect to x: y·x^(y-1), corrected to first order for the rounding error of y - 1."""
    if y == 0:
        return 0.0
    slope = y * power(x, y - 1.0)
    return slope if sum_error(y, -1.0) == 0 else _slope_of_rounded_power(slope, x, y)


def _slope_of_rounded_power(slope: float, x: float, y: float) -> float:
    correction = slope * sum_error(y, -1.0) * log(abs(x))
    corrected = slope + correction if math.isfinite(correction) else slope
    return -corrected if x < 0 else corrected  # all floats beyond 2^53 are even, and y - 1 is odd


def pow_slope_exponent(x: float, y: float) -> float:
    """The derivative of x^y with respect to y: x^y·log(x)."""
    if x == 0 and y > 0:
        return 0.0
    if x == 0 and y == 0:
        return nan
    return power(x, y) * log(x)


def times_log(a: float, x: float) -> float:
    """a·log(x), and 0 where a is 0 and the logarithm defined."""
    return 0.0 if a == 0 and x >= 0 else a * log(x)


def vanishing_product(a: float, b: float) -> float:
    """a·b, and 0 where a is 0."""
    return 0.0 if a == 0 else a * b


def vanishing_quotient(a: float, x: float) -> float:
    """a/x, and 0 where a is 0."""
    return 0.0 if a == 0 else divide(a, x)


def neighbours_slope(z: float, below: float, above: float) -> float:
    """(below - above)/2, and -z where z is infinite."""
    return -z if math.isinf(z) else (below - above) / 2


exp = guard(math.exp, lambda x: inf)
exp2 = guard(math.exp2, lambda x: inf)
expm1 = guard(math.expm1, lambda x: inf)
log = guard(math.log, _log_edge)
log2 = guard(math.log2, _log_edge)
log10 = guard(math.log10, _log_edge)
log1p = guard(math.log1p, lambda x: -inf if x == -1 else nan)
sqrt = guard(math.sqrt, _return_nan)

# --- Trigonometric and hyperbolic functions ---

sin = guard(math.sin, _return_nan)
cos = guard(math.cos, _return_nan)
tan = guard(math.tan, _return_nan)
asin = guard(math.asin, _return_nan)
acos = guard(math.acos, _return_nan)
cosh = guard(math.cosh, lambda x: inf)
acosh = guard(math.acosh, _return_nan)
atanh = guard(math.atanh, lambda x: copysign(inf, x) if abs(x) == 1 else nan)


# 1/(2k + 1)! for k from 9 to 1: the coefficients of the power series of sinh(x)/x, highest power first.
SINH_SERIES = [1 / math.factorial(2 * k + 1) for k in range(9, 0, -1)]


_far_sinh = guard(math.sinh, lambda x: copysign(inf, x))


def sinh(x: float) -> float:
    """The hyperbolic sine; by its power series between -1 and 1. The platform's is 2 ulps off up to 20."""
    if abs(x) > 20:
        return _far_sinh(x)
    if abs(x) > 1:
        z = math.exp(abs(x))
        return copysign((z - 1 / z) / 2, x)
    total = 0.0
    square = x * x
    for coefficient in SINH_SERIES:
        total = (total + coefficient) * square
    return x + x * total


def coth(x: float) -> float:
    """1/tanh(x); between -1 and 1 as cosh(x)/sinh(x), which is more accurate there."""
    return math.cosh(x) / sinh(x) if 0 < abs(x) < 1 else divide(1.0, math.tanh(x))


def asec(x: float) -> float:
    """acos(1/x), in a form that is accurate near 1 and -1."""
    size = abs(x)
    angle = math.atan(sqrt(size - 1) * sqrt(size + 1))
    return math.pi - angle if x < 0 else angle


def acsc(x: float) -> float:
    """asin(1/x), in a form that is accurate near 1 and -1."""
    size = abs(x)
    return copysign(math.atan(divide(1.0, sqrt(size - 1) * sqrt(size + 1))), x)


def acoth(x: float) -> float:
    """atanh(1/x)."""
    size = abs(x)
    return copysign(log1p(divide(2.0, size - 1)) / 2, x) if size >= 1 else nan


def acsch(x: float) -> float:
    """asinh(1/x); near 0, where 1/x may overflow, log(2/x)."""
    size = abs(x)
    return copysign(math.log(2) - log(size) if size < 1e-9 else math.asinh(divide(1.0, size)), x)


def asech(x: float) -> float:
    """acosh(1/x), in a form that is accurate near 1."""
    if not x >= 0:
        return nan
    return math.log(2) - log(x) if x < 1e-9 else math.asinh(sqrt((1 - x) * (1 + x)) / x)


def sech(x: float) -> float:
    """1/cosh(x); for large x as 2·exp(-|x|/2)², because cosh overflows before its reciprocal underflows."""
    return 1.0 / cosh(x) if abs(x) < 700 else _far_sech(x)


def _far_sech(x: float) -> float:
    half = math.exp(-abs(x) / 2)
    return 2 * half * half


def csch(x: float) -> float:
    """1/sinh(x); for large x as `sech`, with the sign of x."""
    return divide(1.0, sinh(x)) if abs(x) < 700 else _far_csch(x)


def _far_csch(x: float) -> float:
    return copysign(_far_sech(x), x)


def sech_square(x: float) -> float:
    """1/cosh(x)², as 2/(1 + cosh(2x)), which has fewer roundings."""
    c = cosh(2 * x)
    return 2.0 / (1.0 + c) if c < inf else _far_sech_square(x)


def _far_sech_square(x: float) -> float:
    return _far_sech(x) * _far_sech(x)


def csch_square(x: float) -> float:
    """1/sinh(x)², where 4·sinh(x)² is computed as -expm1(2x)·expm1(-2x)."""
    return divide(-4.0, expm1(2 * x) * expm1(-2 * x)) if abs(x) < 300 else _far_sech_square(x)


def atanh_slope(x: float) -> float:
    """1/(1 - x²)."""
    return divide(divide(1.0, 1.0 - x), 1.0 + x)


def atan_slope(x: float) -> float:
    """1/(1 + x²), also where the square overflows."""
    return 1.0 / (1.0 + x * x) if abs(x) < 1e150 else _far_atan_slope(x)


def log1p_square(x: float) -> float:
    """log(1 + x²)."""
    return math.log1p(x * x) if abs(x) < 1e8 else 2 * log(abs(x))


def _far_atan_slope(x: float) -> float:
    return 1.0 / x / x


def sinc(x: float) -> float:
    """sin(x)/x, and 1 at 0."""
    if x == 0:
        return 1.0
    return 0.0 if math.isinf(x) else sin(x) / x


def direction(x: float, length: float) -> float:
    """x/length, and 0 where the length is 0."""
    return 0.0 if length == 0 else x / length


# --- Error functions and the normal distribution ---


def exp_square(x: float) -> float:
    """exp(x²), corrected for the rounding error of the square."""
    z = exp(x * x)
    return z + z * product_error(x, x) if z < inf else z


def erfinv(x: float) -> float:
    """The inverse of erf on [-1, 1]: Winitzki's approximation, then Halley's method for erf, or for erfc where that is
    more accurate."""
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
        step = excess * exp_square(y) * math.sqrt(pi) / 2
        y -= step / (1 + y * step)
    return copysign(y, x)


def exp_minus_square(x: float) -> float:
    """exp(-x²)."""
    z = math.exp(-x * x)
    return z - z * product_error(x, x)


def exp_minus_half_square(x: float) -> float:
    """exp(-x²/2)."""
    z = math.exp(-x * x / 2)
    return z - z * (product_error(x, x) / 2)


SQRT_TWO_PI = math.sqrt(2 * math.pi)
# 1/√2 as a rounded number, and its rounding error.
SQRT_HALF, SQRT_HALF_ERROR = 0.7071067811865476, -4.833646656726457e-17


def _standardize(x: float, mean: float, deviation: float) -> float:
    """Return (x - mean)/deviation, rounded; nan unless the deviation is positive."""
    return (x - mean) / deviation if deviation > 0 else math.nan


def _standardization_error(x: float, mean: float, deviation: float, u: float) -> float:
    """The exact (x - mean)/deviation minus u, the rounded one."""
    if mean == 0 and deviation == 1:
        return 0.0
    difference_error = sum_error(x, -mean) - product_error(u, deviation)
    error = divide((x - mean - u * deviation) + difference_error, deviation)
    return error if math.isfinite(error) else 0.0


def normal_pdf(x: float, mean: float = 0.0, deviation: float = 1.0) -> float:
    """The density of the normal distribution."""
    u = _standardize(x, mean, deviation)
    z = exp_minus_half_square(u)
    corrected = z - z * u * _standardization_error(x, mean, deviation, u) if z != 0 else z
    return divide(corrected, deviation * SQRT_TWO_PI)


def normal_cdf(x: float, mean: float = 0.0, deviation: float = 1.0) -> float:
    """The normal distribution function: erfc(-u/√2)/2, corrected to first order for the rounding error of u/√2."""
    u = _standardize(x, mean, deviation)
    t = -u * SQRT_HALF
    tail = math.erfc(t)
    if tail == 0 or tail != tail or math.isinf(t):
        return tail / 2
    u_error = _standardization_error(x, mean, deviation, u)
    error = product_error(-u, SQRT_HALF) - (u * SQRT_HALF_ERROR + u_error * SQRT_HALF)
    return (tail - 2 / math.sqrt(math.pi) * exp_minus_square(t) * error) / 2


# --- Activation functions ---

FAR_LEFT = -700.0  # below, exp(x) may underflow; sigmoid(x) and tanh(softplus(x)) equal exp(x) there
MISH_LINEAR_FROM = 40.0  # above, mish(x) rounds to x and its derivative to 1


def sigmoid(x: float) -> float:
    """1/(1 + exp(-x)), in a form that does not overflow."""
    z = math.exp(-abs(x))
    return (1.0 if x >= 0 else z) / (1.0 + z)


def sigmoid_slope(x: float) -> float:
    """sigmoid(x)·sigmoid(-x)."""
    z = math.exp(-abs(x))
    return z / ((1.0 + z) * (1.0 + z))


def logaddexp(x: float, y: float) -> float:
    """log(exp(x) + exp(y)), without overflow."""
    if x == y:
        return x + math.log(2)
    low = x if x < y else y
    high = y if x < y else x
    z = math.exp(low - high)
    return high + math.log1p(z + z * sum_error(low, -high))


def softplus(x: float) -> float:
    """log(1 + exp(x))."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def logsigmoid(x: float) -> float:
    """log(sigmoid(x))."""
    return -softplus(-x)


def binary_softmax(x: float, y: float) -> float:
    """exp(x)/(exp(x) + exp(y)): the sigmoid of x - y, corrected for the rounding error of the difference."""
    z = sigmoid(x - y)
    return z + z * sigmoid(y - x) * sum_error(x, -y)


def silu(x: float) -> float:
    """x·sigmoid(x)."""
    return _times_exp(x, x) if x < FAR_LEFT else x * sigmoid(x)


def silu_slope(x: float) -> float:
    """sigmoid(x)·(1 + x·sigmoid(-x))."""
    z = math.exp(-abs(x))
    slope = (1.0 + z + (z * min(x, 1e300) if x >= 0 else x)) / (1.0 + z) * ((1.0 if x >= 0 else z) / (1.0 + z))
    return _times_exp(1.0 + x, x) if x < FAR_LEFT else slope


def _times_exp(factor: float, x: float) -> float:
    """factor·exp(x) for x < 0, also where the exponential alone underflows; 0 where the factor is infinite too."""
    half = math.exp(min(x, 0.0) / 2)
    return max(factor, -1e300) * half * half


def mish(x: float) -> float:
    """x·tanh(softplus(x)), which in w = exp(x) is x·n/(n + 2) with n = w·(w + 2)."""
    w = math.exp(min(x, MISH_LINEAR_FROM))
    n = w * (w + 2)
    return _times_exp(x, x) if x < FAR_LEFT else x * (n / (n + 2))


def mish_slope(x: float) -> float:
    """The derivative of mish: n/(n + 2) + 4·x·w·(1 + w)/(n + 2)², arranged for few roundings."""
    near = min(x, MISH_LINEAR_FROM)
    w = math.exp(near)
    n = w * (w + 2)
    slope = w / (n + 2) * (w + 2 + 2 * near / (1 + w * w / (2 + 2 * w)))
    return _times_exp(1.0 + x, x) if x < FAR_LEFT else slope


def logit(x: float) -> float:
    """log(x/(1 - x)); near 1/2, where that cancels, 2·atanh(2x - 1), because 2x - 1 is exact there."""
    if 0.25 < x < 0.75:
        return 2 * atanh(2 * x - 1)
    return log(divide(x, 1 - x))


def softsign(x: float) -> float:
    """x/(1 + |x|)."""
    return copysign(1.0, x) if math.isinf(x) else x / (1.0 + abs(x))


OPERATIONS: dict[str, Callable[..., float]] = {
    **{function.__name__: function for function in (
        pow_slope_base, pow_slope_exponent, times_log, vanishing_product, vanishing_quotient, neighbours_slope, root,
        log_base, sinc, direction, math.atan, math.atan2, asec, acsc, atanh_slope, atan_slope, log1p_square, sinh,
        math.tanh, math.asinh, sech, csch, coth, sech_square, csch_square, asech, acsch, acoth, math.hypot,
        math.erf, math.erfc, erfinv, exp_square, exp_minus_square, exp_minus_half_square, normal_pdf, normal_cdf,
        sigmoid, sigmoid_slope, logit, softplus, logsigmoid, logaddexp, binary_softmax,
        silu, silu_slope, mish, mish_slope, softsign,
    )},
    "pow": power, "cbrt": cube_root, "square": lambda x: x * x, "edge_distance": lambda x: abs(x),  # not `abs` itself
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log2": log2, "log10": log10, "log1p": log1p, "sqrt": sqrt,
    "sin": sin, "cos": cos, "tan": tan, "asin": asin, "acos": acos, "cosh": cosh, "acosh": acosh, "atanh": atanh,
}  # fmt: skip

# Functions that few numbers need. An array is passed to them only if one of its numbers needs it.
RARELY_NEEDED: tuple[Callable[..., float], ...] = (
    _slope_of_rounded_power, _far_sech, _far_csch, _far_sech_square, _far_atan_slope, _times_exp,
)  # fmt: skip
