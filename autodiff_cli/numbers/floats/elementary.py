"""Elementary functions on floats, by the rules of IEEE 754: infinities and nan instead of exceptions.

Python's `math` raises where IEEE returns; `guarded` puts the IEEE answer in its place. Where the platform's functions
are several ulps off, or a formula would be, the form is another.

What is written with `def` in this folder, and not guarded, is also translated into other languages, so it keeps to what
they all have: numbers, conditions, loops over ranges and tables, and calls of one another. `%` has no negative sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import copysign, inf, nan

Function = Callable[[float], float]


def guarded(function: Function, otherwise: Function) -> Function:
    """`function`, with `otherwise` for the arguments where it raises."""

    def careful(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return otherwise(x)

    return careful


def _undefined(_: float) -> float:
    return nan


def _log_edge(x: float) -> float:
    return -inf if x == 0 else nan


def divide(x: float, y: float) -> float:
    """x / y, with IEEE's answers where y is 0."""
    try:
        return x / y
    except ZeroDivisionError:
        return nan if x == 0 or x != x else copysign(inf, x) * copysign(1.0, y)


def power(x: float, y: float) -> float:
    """x^y as a real number: nan for a negative base with an exponent that is not whole."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return -inf if x < 0 and y % 2 == 1 else inf
    except ValueError:
        if x == 0 and y < 0:
            return copysign(inf, x) if y % 2 == 1 else inf
        return nan


# --- what rounding takes from sums and products


def product_error(a: float, b: float) -> float:
    """The exact product less the rounded one (Dekker 1971, Veltkamp's splitting); 0 where that is beyond floats."""
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
    """The exact sum less the rounded one (Knuth's form); 0 where that is infinite."""
    total = a + b
    if math.isinf(total):
        return 0.0
    b_part = total - a
    return (a - (total - b_part)) + (b - b_part)


HIGHEST_ORDER = 1000.0  # of the derivatives that are operations of their own; the work grows with it


def is_order(n: float) -> bool:
    """Whether n can be the order of a derivative: a whole number from 0 to `HIGHEST_ORDER`."""
    return 0 <= n <= HIGHEST_ORDER and n % 1 == 0


def is_odd(n: float) -> bool:
    """Whether n is an odd whole number."""
    return abs(n) % 2 == 1


def sum_of_products(ratio: Callable[[float], float]) -> float:
    """1 + r(1) + r(1)·r(2) + …, until the terms no longer count."""
    term = total = 1.0
    k = 1.0
    while abs(term) > 1e-17 * abs(total):
        term *= ratio(k)
        total += term
        k += 1
    return total


# --- powers and logarithms


def root(x: float, n: float) -> float:
    """The real n-th root; of a negative x for odd whole n only."""
    if x != x or n != n:
        return nan
    if x < 0:
        return -root(-x, n) if is_odd(n) else nan
    if n == 2:
        return math.sqrt(abs(x))
    if n == 3:
        return cbrt(abs(x))
    if n == 0:
        return nan
    z = power(abs(x), 1.0 / n)
    if z == 0 or z == 1 or z != z or math.isinf(z):
        return z
    # 1/n is rounded: what x to the power of that error is brings its digits back.
    lost = 1.0 - 1.0 / n * n - product_error(1.0 / n, n)
    return z + z * (lost / n * math.log(x))


def cbrt(x: float) -> float:
    """The cube root: the platform's, which is 3 ulps off, and a step of Newton's method."""
    if x == 0:
        return x
    if abs(x) < 1e-290:
        return cbrt(x * 2.0**300) / 2.0**100
    z = math.cbrt(x)
    cube = z * z * z
    return z - (cube - x) / (3.0 * z * z) if abs(cube) < inf else z


def log_base(x: float, base: float) -> float:
    """The logarithm of x to a base."""
    if base == 2:
        return log2(x)
    if base == 10:
        return log10(x)
    return divide(log(x), log(base))


def slope_base(x: float, y: float) -> float:
    """The slope of x^y towards x: y·x^(y-1), as y·(x^y/x) to keep the digits that rounding y - 1 would cost."""
    if y == 0:
        return 0.0
    z = power(x, y)
    if x != 0 and (z != z or 1e-290 < abs(z) < inf):
        return y * (z / x)
    slope = y * power(x, y - 1.0)
    more = slope * sum_error(y, -1.0) * log(abs(x))
    return slope + more if math.isfinite(more) else slope


def slope_exponent(x: float, y: float) -> float:
    """The slope of x^y towards y: x^y·log(x)."""
    if x == 0 and y > 0:
        return 0.0
    if x == 0 and y == 0:
        return nan
    return power(x, y) * log(x)


def times_log(a: float, x: float) -> float:
    """a·log(x), and 0 where a is 0."""
    return 0.0 if a == 0 and x == x else a * log(x)


exp = guarded(math.exp, lambda x: inf)
exp2 = guarded(math.exp2, lambda x: inf)
expm1 = guarded(math.expm1, lambda x: inf)
log = guarded(math.log, _log_edge)
log2 = guarded(math.log2, _log_edge)
log10 = guarded(math.log10, _log_edge)
log1p = guarded(math.log1p, lambda x: -inf if x == -1 else nan)
sqrt = guarded(math.sqrt, _undefined)

# --- trigonometric and hyperbolic functions

sin = guarded(math.sin, _undefined)
cos = guarded(math.cos, _undefined)
tan = guarded(math.tan, _undefined)
asin = guarded(math.asin, _undefined)
acos = guarded(math.acos, _undefined)
cosh = guarded(math.cosh, lambda x: inf)
acosh = guarded(math.acosh, _undefined)
atanh = guarded(math.atanh, lambda x: copysign(inf, x) if abs(x) == 1 else nan)


# 1/(2k + 1)!, the power series of sinh divided by x, highest power first.
SINH_SERIES = [1 / math.factorial(2 * k + 1) for k in range(9, 0, -1)]


_far_sinh = guarded(math.sinh, lambda x: copysign(inf, x))


def sinh(x: float) -> float:
    """The hyperbolic sine; inside ±1 by its power series. The platform's is 2 ulps off up to 20."""
    if abs(x) > 20:
        return _far_sinh(x)
    if abs(x) > 1:
        z = math.exp(abs(x))
        return copysign((z - 1 / z) / 2, x)
    total, square = 0.0, x * x
    for coefficient in SINH_SERIES:
        total = (total + coefficient) * square
    return x + x * total


def coth(x: float) -> float:
    """1/tanh(x); beside 0 by way of `sinh`, which is better there."""
    return math.cosh(x) / sinh(x) if 0 < abs(x) < 1 else divide(1.0, math.tanh(x))


def asec(x: float) -> float:
    """acos(1/x), in a form that keeps its digits near ±1."""
    if x < 0:
        return math.pi - asec(-x)
    return math.atan(sqrt(x - 1) * sqrt(x + 1))


def acsc(x: float) -> float:
    """asin(1/x), in a form that keeps its digits near ±1."""
    size = abs(x)
    return copysign(math.atan(divide(1.0, sqrt(size - 1) * sqrt(size + 1))), x)


def acoth(x: float) -> float:
    """atanh(1/x)."""
    size = abs(x)
    return copysign(log1p(divide(2.0, size - 1)) / 2, x) if size >= 1 else nan


def acsch(x: float) -> float:
    """asinh(1/x); beside 0, where 1/x may overflow, log(2/x)."""
    size = abs(x)
    return copysign(math.log(2) - log(size) if size < 1e-9 else math.asinh(1.0 / size), x)


def asech(x: float) -> float:
    """acosh(1/x), in a form that keeps its digits near 1."""
    if not x >= 0:
        return nan
    return math.log(2) - log(x) if x < 1e-9 else math.asinh(sqrt((1 - x) * (1 + x)) / x)


def sech(x: float) -> float:
    """1/cosh(x); far out 2·exp(-|x|), in halves, because cosh overflows before its inverse vanishes."""
    if abs(x) < 700:
        return 1.0 / math.cosh(x)
    half = math.exp(-abs(x) / 2)
    return 2 * half * half


def csch(x: float) -> float:
    """1/sinh(x); far out as `sech`."""
    return divide(1.0, sinh(x)) if abs(x) < 700 else copysign(sech(x), x)


def sech_square(x: float) -> float:
    """1/cosh(x)², as 2/(1 + cosh(2x)), which has fewer roundings."""
    c = cosh(2 * x)
    return 2.0 / (1.0 + c) if c < inf else sech(x) * sech(x)


def csch_square(x: float) -> float:
    """1/sinh(x)²; 4·sinh(x)² is also minus the product of expm1(2x) and expm1(-2x)."""
    return divide(-4.0, math.expm1(2 * x) * math.expm1(-2 * x)) if abs(x) < 300 else csch(x) * csch(x)


def pole_pair(x: float) -> float:
    """1/(1 - x²)."""
    return divide(divide(1.0, 1.0 - x), 1.0 + x)


def witch(x: float) -> float:
    """1/(1 + x²), also where the square overflows."""
    return 1.0 / (1.0 + x * x) if abs(x) < 1e150 else 1.0 / x / x


def sinc(x: float) -> float:
    """sin(x)/x, and 1 at 0."""
    if x == 0:
        return 1.0
    return 0.0 if math.isinf(x) else sin(x) / x


def direction(x: float, length: float) -> float:
    """x/length, and 0 where the length is 0."""
    return 0.0 if length == 0 else x / length


# fmt: off
ELEMENTARY: dict[str, Callable[..., float]] = {
    "pow": power, "pow_slope_base": slope_base, "pow_slope_exponent": slope_exponent, "times_log": times_log,
    "square": lambda x: x * x, "sqrt": sqrt, "cbrt": cbrt, "root": root,
    "exp": exp, "exp2": exp2, "expm1": expm1,
    "log": log, "log2": log2, "log10": log10, "log1p": log1p, "log_base": log_base,
    "sin": sin, "cos": cos, "tan": tan,
    "sec": lambda x: divide(1.0, cos(x)), "csc": lambda x: divide(1.0, sin(x)), "cot": lambda x: divide(1.0, tan(x)),
    "asin": asin, "acos": acos, "atan": math.atan, "atan2": math.atan2,
    "asec": asec, "acsc": acsc, "acot": lambda x: math.atan(divide(1.0, x)),
    "arc_slope": lambda x: divide(1.0, sqrt((1.0 - x) * (1.0 + x))), "pole_pair": pole_pair, "witch": witch,
    "sinh": sinh, "cosh": cosh, "tanh": math.tanh,
    "sech": sech, "csch": csch, "coth": coth, "sech_square": sech_square, "csch_square": csch_square,
    "asinh": math.asinh, "acosh": acosh, "atanh": atanh,
    "asech": asech, "acsch": acsch, "acoth": acoth,
    "hypot": math.hypot, "direction": direction,
    "sinc": sinc,
}
# fmt: on
