"""Elementary functions on vectors, in the forms of `numbers.arrays.elementary`, or others where one exponential can
serve several: a tanh and its slope, say."""

from __future__ import annotations

import math
from collections.abc import Callable

from autodiff_cli.backends.llvm.functions.basic import (
    copysign,
    equal,
    exp,
    expm1,
    is_finite,
    is_infinite,
    is_nan,
    log,
    log1p,
    polynomial,
    sqrt,
    two_product,
    two_sum,
    where,
)
from autodiff_cli.backends.llvm.functions.vectors import Vector

Function = Callable[..., Vector]


def _library(name: str) -> Function:
    return lambda *inputs: inputs[0].code.function(name, *inputs)


_pow = _library("pow")
_sin, _cos, _tan, _atan, _asinh, _cbrt = map(_library, ("sin", "cos", "tan", "atan", "asinh", "cbrt"))


# --- powers


def power(x: Vector, y: Vector) -> Vector:
    """x^y; whole powers that are written in a formula need no logarithm."""
    exponent = y.number
    if exponent in _POWERS:
        return _POWERS[exponent](x)
    return _pow(x, y)


def _root_half(x: Vector) -> Vector:
    return where(equal(x, -math.inf), math.inf, sqrt(x) + 0.0)  # the power of -0 is 0


_POWERS: dict[float | None, Function] = {
    -2.0: lambda x: 1.0 / x / x,
    -1.0: lambda x: 1.0 / x,
    0.5: _root_half,
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    0.0: lambda x: x.code.vector(1.0),
    4.0: lambda x: (x * x) * (x * x),
}


def _careful_slope(x: Vector, y: Vector) -> Vector:
    less, error = two_sum(y, -1.0)
    careful = y * _pow(x, less)
    more = careful * error * log(abs(x))
    return where(is_finite(more), careful + more, careful)


def _slope_base(x: Vector, y: Vector) -> Vector:
    exponent = y.number
    if exponent == 1.0:
        return where(is_nan(x), x, 1.0)
    if exponent and (exponent - 1.0) + 1.0 == exponent:
        return y * power(x, y - 1.0)  # 1 goes off exactly
    z = power(x, y)
    edge = equal(x, 0.0) | (abs(z) < 1e-290) | is_infinite(z)
    slope = x.code.rarely(edge, y * (z / x), _careful_slope, x, y)
    return where(equal(y, 0.0), 0.0, slope)


def _slope_exponent(x: Vector, y: Vector) -> Vector:
    slope = where(equal(x, 0.0) & equal(y, 0.0), math.nan, power(x, y) * log(x))
    return where(equal(x, 0.0) & (y > 0.0), 0.0, slope)


def _times_log(a: Vector, x: Vector) -> Vector:
    return where(equal(a, 0.0) & ~is_nan(x), 0.0, a * log(x))


def _root(x: Vector, n: Vector) -> Vector:
    size = abs(x)
    z = _pow(size, 1.0 / n)
    product, error = two_product(1.0 / n, n)
    step = z * ((1.0 - product - error) / n * log(size))
    z = where(is_finite(step), z + step, z)
    z = where(equal(n, 2.0), sqrt(size), where(equal(n, 3.0), _cbrt(size), z))
    z = where(equal(n, 0.0) | is_nan(x) | is_nan(n), math.nan, z)
    half = abs(n) / 2.0
    is_odd = equal(half - half.code.function("floor", half), 0.5)
    return where(x >= 0.0, z, where(is_odd, -z, math.nan))


def _log_base(x: Vector, base: Vector) -> Vector:
    exact = {2.0: "log2", 10.0: "log10"}
    if base.number is not None:
        return x.code.function(exact[base.number], x) if base.number in exact else log(x) / log(base)
    found = log(x) / log(base)
    for number, name in exact.items():
        found = where(equal(base, number), x.code.function(name, x), found)
    return found


# --- hyperbolic functions, from exponentials that do not overflow

# (tanh(x)/x - 1)/x² as a polynomial in x² for |x| < 1/2, highest power first: a Chebyshev fit, good to 2^-56.
_TANH = (
    5.946956589763009e-05, -0.00022107222975850652, 0.0005849653729021945, -0.001454959384380447,
    0.0035920334653723896, -0.008863229270067843, 0.021869488297234514, -0.05396825396361009,
    0.13333333333329825, -0.3333333333333333,
)  # fmt: skip


def _tanh(x: Vector) -> Vector:
    size = abs(x)
    far = exp(-2.0 * size)
    z = x * x
    near = size + size * (z * polynomial(_TANH, z))
    return copysign(where(size < 0.5, near, (1.0 - far) / (1.0 + far)), x)


def _sech_square(x: Vector) -> Vector:
    far = exp(-2.0 * abs(x))
    return 4.0 * far / ((1.0 + far) * (1.0 + far))


def _sech(x: Vector) -> Vector:
    far = exp(-abs(x))
    return 2.0 * far / (1.0 + far * far)


def _csch(x: Vector) -> Vector:
    size = abs(x)
    return copysign(2.0 * exp(-size) / -expm1(-2.0 * size), x)


def _csch_square(x: Vector) -> Vector:
    size = abs(x)
    less = expm1(-2.0 * size)
    return 4.0 * exp(-2.0 * size) / less / less


# --- inverse functions


def _asec(x: Vector) -> Vector:
    size = abs(x)
    angle = _atan(sqrt(size - 1.0) * sqrt(size + 1.0))
    return where(x < 0.0, math.pi - angle, angle)


def _acsc(x: Vector) -> Vector:
    size = abs(x)
    return copysign(_atan(1.0 / (sqrt(size - 1.0) * sqrt(size + 1.0))), x)


def _acoth(x: Vector) -> Vector:
    size = abs(x)
    return copysign(where(size >= 1.0, log1p(2.0 / (size - 1.0)) / 2.0, math.nan), x)


def _asech(x: Vector) -> Vector:
    z = where(x < 1e-9, math.log(2) - log(x), _asinh(sqrt((1.0 - x) * (1.0 + x)) / x))
    return where(x >= 0.0, z, math.nan)


def _acsch(x: Vector) -> Vector:
    size = abs(x)
    return copysign(where(size < 1e-9, math.log(2) - log(size), _asinh(1.0 / size)), x)


# --- slopes


def _far_witch(x: Vector) -> Vector:
    return 1.0 / x / x


def _witch(x: Vector) -> Vector:
    z = 1.0 / (1.0 + x * x)
    return x.code.rarely(equal(z, 0.0), z, _far_witch, x)


def _direction(x: Vector, length: Vector) -> Vector:
    return where(equal(length, 0.0), 0.0, x / length)


def _sinc(x: Vector) -> Vector:
    return where(equal(x, 0.0), 1.0, where(is_infinite(x), 0.0, _sin(x) / x))


# (-1)^k · 2k/(2k + 1)!, the power series of sinc's slope divided by x, highest power first.
_SINC_SLOPE = [(-1.0) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(10, 0, -1)]


def _sinc_derivative(n: Vector, x: Vector) -> Vector | None:
    """The first, which gradients need."""
    if n.number != 1.0:
        return None
    near = x * polynomial(_SINC_SLOPE, x * x)
    far = (_cos(x) - _sin(x) / x) / x
    return where(abs(x) < 1.0, near, where(is_infinite(x), 0.0, far))


# What the library has under the same names.
_SAME = (
    "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "hypot", "atan2", "erf", "erfc",
)  # fmt: skip

ELEMENTARY: dict[str, Callable[..., Vector | None]] = {
    **{
        name: _library(name)
        for name in _SAME
    },
    "pow": power, "pow_slope_base": _slope_base, "pow_slope_exponent": _slope_exponent, "times_log": _times_log,
    "square": lambda x: x * x, "root": _root, "log_base": _log_base,
    "sec": lambda x: 1.0 / _cos(x), "csc": lambda x: 1.0 / _sin(x), "cot": lambda x: 1.0 / _tan(x),
    "asec": _asec, "acsc": _acsc, "acot": lambda x: _atan(1.0 / x),
    "arc_slope": lambda x: 1.0 / sqrt((1.0 - x) * (1.0 + x)), "pole_pair": lambda x: 1.0 / (1.0 - x) / (1.0 + x),
    "witch": _witch,
    "tanh": _tanh, "sech": _sech, "csch": _csch, "coth": lambda x: 1.0 / _tanh(x),
    "sech_square": _sech_square, "csch_square": _csch_square,
    "asech": _asech, "acsch": _acsch, "acoth": _acoth,
    "direction": _direction, "sinc": _sinc, "sinc_derivative": _sinc_derivative,
}  # fmt: skip
