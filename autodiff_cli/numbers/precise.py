"""Numbers with as many digits as one asks for, by mpmath.

The tables elsewhere are written for the digits of a float; here precision is cheap, so functions are their definitions,
computed with guard bits. What is no real number is nan, a pole is what it is for floats. There is no overflow: only
beyond ±2^65536, where e^x alone would fill the memory, do transcendental functions take their argument for infinite.

Imported only where such numbers are asked for, because it imports mpmath.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from mpmath.libmp import NoConvergence

from autodiff_cli.numbers.digits import INF, MP, NAN, ONE, TWO, ZERO, Function, Number, divide, is_whole
from autodiff_cli.numbers.kind import Kind
from autodiff_cli.numbers.precise_special import SPECIAL, erfc

_GUARD = 32  # bits that a function is computed with beyond those asked for
_MOST_GUARD, _SPECIAL_GUARD = 4096, 128  # at most, for large arguments; special functions take care themselves
_LARGEST = 65536  # the bits before the point up to which a transcendental function is computed


@contextmanager
def precision(digits: int) -> Iterator[Kind[Number]]:
    """Inside, mpmath works with so many significant decimal digits; gives the kind of number that does."""
    with MP.workdps(digits):
        yield _kind(digits)


@lru_cache(maxsize=16)
def _kind(digits: int) -> Kind[Number]:
    """A kind of its own for each precision, because a kind reads the constants of its rules once."""
    return Kind(f"numbers of {digits} digits", _TABLE, read)


def text(x: Number, digits: int) -> str:
    """A number rounded to so many significant digits, zeros at the end kept; `nan`, `inf`, `-inf`, and `0.0`."""
    with MP.workdps(digits + _GUARD):  # mpmath would write all digits that there are, and then leave some out
        shown: str = MP.nstr(+x, digits, strip_zeros=False)
    return shown.removeprefix("+")


def _real(function: Function, most: int = _MOST_GUARD) -> Function:
    """A function in guard bits, that is nan where mpmath finds a complex number, a pole or nothing at all."""

    def real(*xs: Number) -> Number:
        if any(map(MP.isnan, xs)):
            return NAN
        before = MP.prec
        # Rounding an argument of m bits before the point may cost m bits, its square 2 m.
        MP.prec += _GUARD + 4 * min(max([0, *(MP.mag(x) for x in xs if MP.isnormal(x))]), most)
        try:
            z = function(*xs)
        except (ArithmeticError, ValueError, NoConvergence):
            return NAN
        finally:
            MP.prec = before
        return +z if isinstance(z, MP.mpf) else +MP.mpf(z) if isinstance(z, int | float) else NAN

    return real


def _transcendental(function: Function, most: int = _MOST_GUARD) -> Function:
    """The same for a function whose cost grows with the bits before the point of its arguments."""
    bounded = _real(function, most)
    return lambda *xs: bounded(*[_limited(x) for x in xs])


def _limited(x: Number) -> Number:
    return MP.sign(x) * INF if MP.isnormal(x) and MP.mag(x) > _LARGEST else x


# --- arithmetic and choices


def modulo(a: Number, b: Number) -> Number:
    """The remainder of a / b with the sign of b."""
    if b == 0 or MP.isinf(a):
        return NAN
    if MP.isinf(b) and not MP.isnan(a):
        return a if a == 0 or (a > 0) == (b > 0) else b
    return a % b


def power(x: Number, y: Number) -> Number:
    """x^y as a real number: nan for a negative base with an exponent that is not whole."""
    y = _limited(y)
    if y == 0 or x == 1:
        return ONE
    if MP.isnan(x) or MP.isnan(y):
        return NAN
    if x == 0:
        return INF if y < 0 else ZERO
    if MP.isinf(y):
        return ONE if abs(x) == 1 else INF if (abs(x) > 1) == (y > 0) else ZERO
    if MP.isinf(x):
        is_odd = is_whole(y) and y % 2 == 1
        return (-ONE if x < 0 and is_odd else ONE) * (INF if y > 0 else ZERO)
    return NAN if x < 0 and not is_whole(y) else MP.power(x, y)


def slope_base(x: Number, y: Number) -> Number:
    """The slope of x^y towards x; y - 1 is rounded, so it serves only where x^y/x is not defined."""
    if y == 0:
        return ZERO
    return y * (power(x, y - 1) if x == 0 or MP.isinf(x) else power(x, y) / x)


def slope_exponent(x: Number, y: Number) -> Number:
    """The slope of x^y towards y."""
    if x == 0 and y > 0:
        return ZERO
    return NAN if x < 0 or (x == 0 and y == 0) else power(x, y) * MP.log(x)


def times_log(a: Number, x: Number) -> Number:
    """a·log(x), and 0 where a is 0."""
    if a == 0 and not MP.isnan(x):
        return ZERO
    return NAN if x < 0 else a * MP.log(x)


def root(x: Number, n: Number) -> Number:
    """The real n-th root; of a negative x for odd whole n only."""
    if x < 0:
        return -root(-x, n) if n % 2 == 1 else NAN
    return NAN if n == 0 else power(x, 1 / n)


def largest(*xs: Number) -> Number:
    """The largest; nan if any is nan."""
    return NAN if any(map(MP.isnan, xs)) else max(xs)


def smallest(*xs: Number) -> Number:
    """The smallest; nan if any is nan."""
    return NAN if any(map(MP.isnan, xs)) else min(xs)


def _truth(compare: Callable[[Number, Number], bool]) -> Function:
    return lambda x, y: ONE if compare(x, y) else ZERO


# --- functions that mpmath lacks, or that lose digits or the real line in it


def log1p(x: Number) -> Number:
    """log(1 + x)."""
    return MP.log1p(x) if x else ZERO  # mpmath 1.3 rounds the 0 to the wrong kind of number


def atan2(y: Number, x: Number) -> Number:
    """The angle of the point (x, y); where both are infinite, that of the diagonal."""
    if MP.isinf(x) and MP.isinf(y):
        x, y = MP.sign(x), MP.sign(y)
    return MP.atan2(y, x)


def hypot(x: Number, y: Number) -> Number:
    """The length of (x, y)."""
    return INF if MP.isinf(x) or MP.isinf(y) else MP.hypot(x, y)


def asec(x: Number) -> Number:
    """acos(1/x), in a form that keeps its digits near ±1."""
    return MP.pi - asec(-x) if x < 0 else MP.atan(MP.sqrt(x - 1) * MP.sqrt(x + 1))


def acsc(x: Number) -> Number:
    """asin(1/x), in a form that keeps its digits near ±1."""
    return -acsc(-x) if x < 0 else MP.atan(divide(ONE, MP.sqrt(x - 1) * MP.sqrt(x + 1)))


def acoth(x: Number) -> Number:
    """atanh(1/x), in a form that keeps its digits near ±1; mpmath has one for arguments inside of ±1, too."""
    if abs(x) < 1:
        return NAN
    return -acoth(-x) if x < 0 else log1p(divide(TWO, x - 1)) / 2


def asech(x: Number) -> Number:
    """acosh(1/x), in a form that keeps its digits near 1."""
    return MP.asinh(divide(MP.sqrt((1 - x) * (1 + x)), x)) if x >= 0 else NAN


def logit(x: Number) -> Number:
    """log(x/(1 - x)); near 1/2, where that cancels, as an atanh."""
    return 2 * MP.atanh(2 * x - 1) if 0.25 < x < 0.75 else MP.log(divide(x, 1 - x))


def sigmoid(x: Number) -> Number:
    """1/(1 + exp(-x))."""
    return 1 / (1 + MP.exp(-x))


def logaddexp(x: Number, y: Number) -> Number:
    """log(exp(x) + exp(y))."""
    return max(x, y) + (log1p(_exp(-abs(x - y))) if x != y else MP.log(2))


def mish_slope(x: Number) -> Number:
    """n/(n + 2) + 4·x·w·(1 + w)/(n + 2)², where w = exp(x) and n = w·(w + 2)."""
    if x == INF:
        return ONE
    w = MP.exp(x)
    n = w * (w + 2)
    return n / (n + 2) + 4 * x * w * (1 + w) / (n + 2) ** 2


def _exp(x: Number) -> Number:
    return MP.exp(_limited(x))


def standard(x: Number, mean: Number = ZERO, deviation: Number = ONE) -> Number:
    """The distance from the mean in standard deviations."""
    return divide(x - mean, deviation)


def normal_pdf(*xs: Number) -> Number:
    """The normal density at x, with mean and standard deviation."""
    return divide(MP.exp(-(standard(*xs) ** 2) / 2), (xs[2] if len(xs) > 2 else ONE) * MP.sqrt(2 * MP.pi))


def normal_cdf(*xs: Number) -> Number:
    """The normal distribution function at x, with mean and standard deviation."""
    return erfc(-standard(*xs) / MP.sqrt(2)) / 2


_NAMED = {"pi": lambda: +MP.pi, "tau": lambda: 2 * MP.pi, "e": lambda: +MP.e, "inf": lambda: INF, "nan": lambda: NAN}


def read(constant: str) -> Number:
    """The number that a constant's text names, to the precision at work; never through a float."""
    named = _NAMED.get(constant)
    return MP.mpf(constant) if named is None else named()


# fmt: off
_PLAIN: dict[str, Function] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": divide, "neg": operator.neg,
    "quotient_slope": lambda x, y: divide(divide(x, y), y),
    "mod": modulo,
    "eq": _truth(operator.eq), "ne": _truth(operator.ne), "lt": _truth(operator.lt),
    "le": _truth(operator.le), "gt": _truth(operator.gt), "ge": _truth(operator.ge),
    "and": _truth(lambda x, y: x != 0 and y != 0), "or": _truth(lambda x, y: x != 0 or y != 0),
    "not": lambda x: ZERO if x else ONE,
    "abs": abs, "sign": MP.sign, "floor": MP.floor, "ceil": MP.ceil, "round": MP.nint,
    "where": lambda condition, a, b: a if condition else b,
    "max": largest, "min": smallest, "clip": lambda x, low, high: smallest(largest(x, low), high),
    "relu": lambda x: ZERO if x <= 0 else x,
    "heaviside": lambda x: (MP.sign(x) + 1) / 2,
    "within": lambda z, slope: NAN if MP.isnan(z) else slope,
    "direction": lambda x, length: ZERO if length == 0 else divide(x, length),
    "square": lambda x: x * x,
    "softsign": lambda x: MP.sign(x) if MP.isinf(x) else x / (1 + abs(x)),
    # These look at nan themselves: nan^0 is 1, hypot(nan, inf) inf.
    "pow": power, "pow_slope_base": slope_base, "pow_slope_exponent": slope_exponent, "times_log": times_log,
    "hypot": hypot,
}
_ALGEBRAIC: dict[str, Function] = {
    "sqrt": MP.sqrt, "cbrt": lambda x: MP.sign(x) * MP.cbrt(abs(x)), "root": root,
    "log": MP.log, "log2": lambda x: MP.log(x) / MP.log(2), "log10": MP.log10, "log1p": log1p,
    "log_base": lambda x, base: divide(MP.log(x), MP.log(base)),
    "atan": MP.atan, "atan2": atan2, "acot": lambda x: MP.atan(divide(ONE, x)), "asec": asec, "acsc": acsc,
    "asin": MP.asin, "acos": MP.acos,
    "asinh": MP.asinh, "acosh": MP.acosh, "atanh": MP.atanh,
    "acsch": lambda x: MP.asinh(divide(ONE, x)), "asech": asech, "acoth": acoth,
    "logit": logit,
}
_TRANSCENDENTAL: dict[str, Function] = {
    "exp": MP.exp, "exp2": lambda x: MP.power(2, x), "expm1": MP.expm1,
    "sin": MP.sin, "cos": MP.cos, "tan": MP.tan,
    "sec": lambda x: divide(ONE, MP.cos(x)), "csc": lambda x: divide(ONE, MP.sin(x)),
    "cot": lambda x: divide(MP.cos(x), MP.sin(x)),
    "sinh": MP.sinh, "cosh": MP.cosh, "tanh": MP.tanh,
    "sech": lambda x: 1 / MP.cosh(x), "csch": lambda x: divide(ONE, MP.sinh(x)),
    "coth": lambda x: divide(ONE, MP.tanh(x)),
    "normal_pdf": normal_pdf, "normal_cdf": normal_cdf,
    "sigmoid": sigmoid, "logaddexp": logaddexp, "softplus": lambda x: logaddexp(x, ZERO),
    "logsigmoid": lambda x: -logaddexp(-x, ZERO), "mish_slope": mish_slope,
}
# fmt: on
_TABLE: dict[str, Function] = {
    **_PLAIN,
    **{name: _real(function) for name, function in _ALGEBRAIC.items()},
    **{name: _transcendental(function) for name, function in _TRANSCENDENTAL.items()},
    **{name: _transcendental(function, _SPECIAL_GUARD) for name, function in SPECIAL.items()},
}
