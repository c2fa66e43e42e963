"""Floats, by the rules of IEEE 754: infinities and nan instead of exceptions, never a complex number.

Python's `math` raises where IEEE returns; `_guarded` puts the IEEE answer in its place.
"""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable
from math import copysign, inf, nan

from autodiff_cli.numbers.kind import Kind

Function = Callable[[float], float]


def _guarded(function: Function, otherwise: Function) -> Function:
    """`function`, with `otherwise` for the arguments where it raises."""

    def guarded(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return otherwise(x)

    return guarded


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


def modulo(a: float, b: float) -> float:
    """The remainder of a / b with the sign of b."""
    try:
        return a % b
    except ZeroDivisionError:
        return nan


def whole(function: Callable[[float], int]) -> Function:
    """A rounding function that returns floats, and infinities as they are."""
    return _guarded(lambda x: copysign(float(function(x)), x), lambda x: x)


HIGHEST_ORDER = 1000  # of the derivatives that are operations of their own; the work grows with it


def is_order(n: float) -> bool:
    """Whether n can be the order of a derivative: a whole number from 0 to `HIGHEST_ORDER`."""
    return 0 <= n <= HIGHEST_ORDER and n == math.floor(n)


def sum_of_products(ratio: Callable[[int], float]) -> float:
    """1 + r(1) + r(1)·r(2) + …, of positive terms, until they no longer count."""
    term = total = 1.0
    k = 1
    while term > 1e-17 * total:
        term *= ratio(k)
        total += term
        k += 1
    return total


def sign(x: float) -> float:
    """-1, 0 or 1."""
    return x if x == 0 or x != x else copysign(1.0, x)


def largest(*xs: float) -> float:
    """The largest; nan if any is nan."""
    return max(xs) if not any(x != x for x in xs) else nan


def smallest(*xs: float) -> float:
    """The smallest; nan if any is nan."""
    return min(xs) if not any(x != x for x in xs) else nan


def clip(x: float, low: float, high: float) -> float:
    """x kept between low and high; high where the two are the wrong way round."""
    return smallest(largest(x, low), high)


# --- powers and logarithms


def root(x: float, n: float) -> float:
    """The real n-th root; of a negative x for odd whole n only."""
    if x < 0:
        return -root(-x, n) if n % 2 == 1 else nan
    if n == 2:
        return math.sqrt(x)
    if n == 3:
        return math.cbrt(x)
    if n == 0:
        return nan
    z = power(x, 1.0 / n)
    if z in (0.0, inf) or z != z:
        return z
    # 1/n is rounded, which far from 1 costs digits; one Newton step brings them back. A step that is not small is none:
    # for n beyond all measure z^n says nothing.
    step = z * (1.0 - divide(x, power(z, n))) / n
    return z - step if abs(step) < 1e-8 * abs(z) else z


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
    if x == 0 or z == 0 or math.isinf(z) or abs(z) < 1e-290:
        return y * power(x, y - 1)
    return y * (z / x)


def slope_exponent(x: float, y: float) -> float:
    """The slope of x^y towards y: x^y·log(x)."""
    if x == 0 and y > 0:
        return 0.0
    if x == 0 and y == 0:
        return nan
    return power(x, y) * log(x)


exp = _guarded(math.exp, lambda x: inf)
exp2 = _guarded(math.exp2, lambda x: inf)
expm1 = _guarded(math.expm1, lambda x: inf)
log = _guarded(math.log, _log_edge)
log2 = _guarded(math.log2, _log_edge)
log10 = _guarded(math.log10, _log_edge)
log1p = _guarded(math.log1p, lambda x: -inf if x == -1 else nan)
sqrt = _guarded(math.sqrt, _undefined)

# --- trigonometric and hyperbolic functions

sin = _guarded(math.sin, _undefined)
cos = _guarded(math.cos, _undefined)
tan = _guarded(math.tan, _undefined)
asin = _guarded(math.asin, _undefined)
acos = _guarded(math.acos, _undefined)
sinh = _guarded(math.sinh, lambda x: copysign(inf, x))
cosh = _guarded(math.cosh, lambda x: inf)
acosh = _guarded(math.acosh, _undefined)
atanh = _guarded(math.atanh, lambda x: copysign(inf, x) if abs(x) == 1 else nan)


def _odd(function: Function) -> Function:
    return lambda x: copysign(function(abs(x)), x)


def asec(x: float) -> float:
    """acos(1/x), in a form that keeps its digits near ±1."""
    if x < 0:
        return math.pi - asec(-x)
    return math.atan(sqrt(x - 1) * sqrt(x + 1))


acsc = _odd(lambda x: math.atan(divide(1.0, sqrt(x - 1) * sqrt(x + 1))))
acoth = _odd(lambda x: log1p(divide(2.0, x - 1)) / 2 if x >= 1 else nan)


def asech(x: float) -> float:
    """acosh(1/x), in a form that keeps its digits near 1."""
    return math.asinh(divide(sqrt((1 - x) * (1 + x)), x)) if x >= 0 else nan


# --- the normal distribution: exp(-x²) far out needs the square's rounding error


def two_product(a: float, b: float) -> tuple[float, float]:
    """a·b as a rounded product and its exact error (Dekker 1971, Veltkamp's splitting)."""
    product = a * b
    if not abs(product) < 1e290 or abs(a) > 1e150 or abs(b) > 1e150:
        return product, 0.0
    c = 134217729.0 * a
    a_high = c - (c - a)
    a_low = a - a_high
    c = 134217729.0 * b
    b_high = c - (c - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def bell(x: float) -> float:
    """exp(-x²)."""
    square, error = two_product(x, x)
    z = math.exp(-square)
    return z - z * error


def half_bell(x: float) -> float:
    """exp(-x²/2)."""
    square, error = two_product(x, x)
    z = math.exp(-square / 2)
    return z - z * (error / 2)


ROOT_TWO_PI = math.sqrt(2 * math.pi)
# 1/√2 as a rounded number and its rounding error.
ROOT_HALF, ROOT_HALF_ERROR = 0.7071067811865476, -4.833646656726457e-17


def normal_pdf(x: float, mean: float = 0.0, deviation: float = 1.0) -> float:
    """The normal density."""
    return divide(half_bell(divide(x - mean, deviation)), deviation * ROOT_TWO_PI)


def normal_cdf(x: float, mean: float = 0.0, deviation: float = 1.0) -> float:
    """The normal distribution function, as erfc(-u/√2)/2 with the error of u/√2 put right to first order."""
    u = divide(x - mean, deviation)
    t, error = two_product(-u, ROOT_HALF)
    error -= u * ROOT_HALF_ERROR
    tail = math.erfc(t)
    if tail == 0 or tail != tail or math.isinf(t):
        return tail / 2
    return (tail - 2 / math.sqrt(math.pi) * bell(t) * error) / 2


# --- activations


def sigmoid(x: float) -> float:
    """1/(1 + exp(-x)), from the side that does not overflow."""
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    z = math.exp(x)
    return z / (1.0 + z)


def logaddexp(x: float, y: float) -> float:
    """log(exp(x) + exp(y)), without overflow."""
    if x == y:
        return x + math.log(2)
    return largest(x, y) + math.log1p(math.exp(-abs(x - y)))


def logit(x: float) -> float:
    """log(x/(1 - x)); near 1/2, where that cancels, twice the atanh of 2x - 1, which is exact there."""
    if 0.25 < x < 0.75:
        return 2 * math.atanh(2 * x - 1)
    return log(divide(x, 1 - x))


# --- sinc


def sinc(x: float) -> float:
    """sin(x)/x, and 1 at 0."""
    return 1.0 if x == 0 else sin(x) / x if not math.isinf(x) else 0.0


def _truth(compare: Callable[[float, float], bool]) -> Callable[[float, float], float]:
    return lambda x, y: 1.0 if compare(x, y) else 0.0


_NAMED = {"pi": math.pi, "tau": math.tau, "e": math.e, "inf": inf, "nan": nan}


def read(text: str) -> float:
    """The float nearest to the number that a constant's text names."""
    named = _NAMED.get(text)
    return float(text) if named is None else named


def _later(module: str, name: str) -> Callable[..., float]:
    """A function of one of the modules here that is imported when it is first called."""
    return lambda *xs: getattr(importlib.import_module(f"autodiff_cli.numbers.{module}"), name)(*xs)


# The functions of `special_floats` and `gamma_floats`, by the names of the operations.
_SPECIAL = {
    "erfi": "erfi", "erfinv": "erfinv", "swell": "swell",
    "Ei": "exponential_integral", "Si": "sine_integral", "Ci": "cosine_integral",
    "Shi": "hyperbolic_sine_integral", "Chi": "hyperbolic_cosine_integral", "growth": "growth",
    "sinc_derivative": "sinc_derivative", "sinhc_derivative": "sinhc_derivative",
    "sinhc": "sinhc", "coshc": "hyperbolic_growth",
    "fresnels": "fresnel_sine", "fresnelc": "fresnel_cosine",
    "chirp_sine": "chirp_sine", "chirp_cosine": "chirp_cosine",
    "lambertw": "lambertw", "lambertw_rise": "lambertw_rise", "lambertw_slope": "lambertw_slope",
}  # fmt: skip
_GAMMA = (
    "gamma", "lgamma", "digamma", "polygamma", "digamma_gap", "polygamma_gap", "beta", "beta_slope",
    "gammainc", "gammaincc", "gamma_density",
)  # fmt: skip

# fmt: off
FLOATS: Kind[float] = Kind("floats", {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": divide, "neg": operator.neg,
    "quotient_slope": lambda x, y: divide(divide(x, y), y),
    "mod": modulo, "pow": power, "pow_slope_base": slope_base, "pow_slope_exponent": slope_exponent,
    "eq": _truth(operator.eq), "ne": _truth(operator.ne), "lt": _truth(operator.lt),
    "le": _truth(operator.le), "gt": _truth(operator.gt), "ge": _truth(operator.ge),
    "and": _truth(lambda x, y: x != 0 and y != 0), "or": _truth(lambda x, y: x != 0 or y != 0),
    "not": lambda x: 0.0 if x else 1.0,
    "abs": abs, "sign": sign, "floor": whole(math.floor), "ceil": whole(math.ceil), "round": whole(round),
    "where": lambda condition, a, b: a if condition else b,
    "max": largest, "min": smallest, "clip": clip,
    "relu": lambda x: 0.0 if x <= 0 else x,
    "heaviside": lambda x: x if x != x else 0.5 * (sign(x) + 1.0),
    "within": lambda z, slope: slope if z == z else nan,
    "square": lambda x: x * x, "sqrt": sqrt, "cbrt": math.cbrt, "root": root,
    "exp": exp, "exp2": exp2, "expm1": expm1,
    "log": log, "log2": log2, "log10": log10, "log1p": log1p, "log_base": log_base,
    "sin": sin, "cos": cos, "tan": tan,
    "sec": lambda x: divide(1.0, cos(x)), "csc": lambda x: divide(1.0, sin(x)), "cot": lambda x: divide(1.0, tan(x)),
    "asin": asin, "acos": acos, "atan": math.atan, "atan2": math.atan2,
    "asec": asec, "acsc": acsc, "acot": lambda x: math.atan(divide(1.0, x)),
    "sinh": sinh, "cosh": cosh, "tanh": math.tanh,
    "sech": lambda x: 1.0 / cosh(x), "csch": lambda x: divide(1.0, sinh(x)),
    "coth": lambda x: divide(1.0, math.tanh(x)),
    "asinh": math.asinh, "acosh": acosh, "atanh": atanh,
    "asech": asech, "acsch": lambda x: math.asinh(divide(1.0, x)), "acoth": acoth,
    "hypot": math.hypot, "direction": lambda x, length: 0.0 if length == 0 else divide(x, length),
    "erf": math.erf, "erfc": math.erfc, "bell": bell, "half_bell": half_bell,
    "normal_pdf": normal_pdf, "normal_cdf": normal_cdf,
    "sinc": sinc,
    "sigmoid": sigmoid, "logit": logit, "softplus": lambda x: logaddexp(x, 0.0),
    "logsigmoid": lambda x: -logaddexp(-x, 0.0), "logaddexp": logaddexp,
    "softsign": lambda x: copysign(1.0, x) if math.isinf(x) else x / (1.0 + abs(x)),
    **{op: _later("special_floats", name) for op, name in _SPECIAL.items()},
    **{op: _later("gamma_floats", op) for op in _GAMMA},
}, read)
# fmt: on
