"""NumPy arrays of floats: whole columns, element by element, by the rules of IEEE 754.

Evaluate inside `quiet()`: NumPy would otherwise print a warning wherever a nan or an infinity comes up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from autodiff_cli.numbers import floats, special_floats
from autodiff_cli.numbers.kind import Kind
from autodiff_cli.numbers.special_arrays import SPECIAL, elementwise
from autodiff_cli.numbers.structures import STRUCTURES

Array = NDArray[np.float64]


def quiet() -> np.errstate:
    """A context in which NumPy does not warn about what IEEE arithmetic defines."""
    return np.errstate(all="ignore")


def _truth(compare: Callable[..., Any]) -> Callable[..., Array]:
    # Floats, not booleans: `True + True` is `True` in NumPy, and rules count ties.
    return lambda *xs: np.asarray(compare(*xs), dtype=np.float64)


def _extreme(pick: np.ufunc) -> Callable[..., Array]:
    def extreme(first: Array, *rest: Array) -> Array:
        for x in rest:
            first = pick(first, x)
        return first

    return extreme


def _slope_base(x: Array, y: Array) -> Array:
    """See `floats.slope_base`."""
    z = np.power(x, y)
    edge = (x == 0) | (np.abs(z) < 1e-290) | np.isinf(z)
    slope = np.where(edge, y * np.power(x, y - 1), y * (z / x))
    return np.where(y == 0, 0.0, slope)


def _slope_exponent(x: Array, y: Array) -> Array:
    """See `floats.slope_exponent`."""
    slope = np.where((x == 0) & (y == 0), np.nan, np.power(x, y) * np.log(x))
    return np.where((x == 0) & (y > 0), 0.0, slope)


def _root(x: Array, n: Array) -> Array:
    """See `floats.root`."""
    size = np.abs(x)
    z = np.power(size, 1 / n)
    step = z * (1 - size / np.power(z, n)) / n
    z = np.where(np.abs(step) < 1e-8 * np.abs(z), z - step, z)
    z = np.where(n == 2, np.sqrt(size), np.where(n == 3, np.cbrt(size), z))
    z = np.where(n == 0, np.nan, z)
    return np.where(x >= 0, z, np.where(np.mod(n, 2) == 1, -z, np.nan))


def _log_base(x: Array, base: Array) -> Array:
    return np.where(base == 2, np.log2(x), np.where(base == 10, np.log10(x), np.log(x) / np.log(base)))


def _asec(x: Array) -> Array:
    size = np.abs(x)
    angle: Array = np.arctan(np.sqrt(size - 1) * np.sqrt(size + 1))
    return np.where(x < 0, np.pi - angle, angle)


def _acsc(x: Array) -> Array:
    size = np.abs(x)
    angle: Array = np.arctan(1 / (np.sqrt(size - 1) * np.sqrt(size + 1)))
    return np.copysign(angle, x)


def _acoth(x: Array) -> Array:
    size = np.abs(x)
    return np.copysign(np.where(size >= 1, np.log1p(2 / (size - 1)) / 2, np.nan), x)


def _asech(x: Array) -> Array:
    return np.where(x >= 0, np.arcsinh(np.sqrt((1 - x) * (1 + x)) / x), np.nan)


def _split(x: Array) -> tuple[Array, Array]:
    """x as the sum of two halves with 26 bits each (Veltkamp)."""
    c = 134217729.0 * x
    high = c - (c - x)
    return high, x - high


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """See `floats.two_product`."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, np.where(np.isfinite(error), error, 0.0)


def _bell(x: Array) -> Array:
    square, error = _two_product(x, x)
    z = np.exp(-square)
    return z - z * error


def _swell(x: Array) -> Array:
    square, error = _two_product(x, x)
    z = np.exp(square)
    return np.where(np.isinf(z), z, z + z * error)


def _erfc(x: Array) -> Array:
    """erfc; on the right as the scaled function times exp(-x²), because SciPy's own loses 100 ulps out there."""
    return np.where(x > 0.5, special.erfcx(x) * _bell(x), special.erfc(x))


def _half_bell(x: Array) -> Array:
    square, error = _two_product(x, x)
    z = np.exp(-square / 2)
    return z - z * (error / 2)


def _normal_pdf(x: Array, mean: Array | float = 0.0, deviation: Array | float = 1.0) -> Array:
    return _half_bell((x - mean) / deviation) / (deviation * floats.ROOT_TWO_PI)


def _normal_cdf(x: Array, mean: Array | float = 0.0, deviation: Array | float = 1.0) -> Array:
    """See `floats.normal_cdf`."""
    u = (x - mean) / deviation
    t, error = _two_product(-u, np.asarray(floats.ROOT_HALF))
    error = error - u * floats.ROOT_HALF_ERROR
    tail = _erfc(t)
    put_right = tail - 2 / math.sqrt(math.pi) * _bell(t) * error
    return np.where((tail == 0) | np.isinf(t), tail, put_right) / 2


def _sigmoid(x: Array) -> Array:
    z = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, z) / (1.0 + z)


def _logit(x: Array) -> Array:
    return np.where((x > 0.25) & (x < 0.75), 2 * np.arctanh(2 * x - 1), np.log(x / (1 - x)))


def _softsign(x: Array) -> Array:
    return np.where(np.isinf(x), np.sign(x), x / (1.0 + np.abs(x)))


def _direction(x: Array, length: Array) -> Array:
    return np.where(length == 0, 0.0, x / length)


def _sinc(x: Array) -> Array:
    return np.where(x == 0, 1.0, np.where(np.isinf(x), 0.0, np.sin(x) / x))


# (-1)^k · 2k/(2k + 1)!, the power series of sinc's slope divided by x, highest power first.
_SINC_SLOPE = [(-1.0) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(10, 0, -1)]


def _sinc_derivative(n: Array, x: Array) -> Array:
    """See `special_floats.sinc_derivative`; the first derivative, which gradients need, in vectors."""
    if not np.all(n == 1):
        return _every_sinc_derivative(n, x)
    near = x * np.polyval(_SINC_SLOPE, x * x)
    far = (np.cos(x) - np.sin(x) / x) / x
    return np.where(np.abs(x) < 1, near, np.where(np.isinf(x), 0.0, far))


_every_sinc_derivative = elementwise(special_floats.sinc_derivative)


def _read(text: str) -> Any:
    return np.float64(floats.read(text))


# fmt: off
ARRAYS: Kind[Any] = Kind("arrays", {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "quotient_slope": lambda x, y: x / y / y,
    "mod": np.mod, "pow": np.power, "pow_slope_base": _slope_base, "pow_slope_exponent": _slope_exponent,
    "eq": _truth(np.equal), "ne": _truth(np.not_equal), "lt": _truth(np.less),
    "le": _truth(np.less_equal), "gt": _truth(np.greater), "ge": _truth(np.greater_equal),
    "and": _truth(np.logical_and), "or": _truth(np.logical_or), "not": _truth(np.logical_not),
    "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "round": np.round,
    "where": lambda condition, a, b: np.where(condition != 0, a, b),
    "max": _extreme(np.maximum), "min": _extreme(np.minimum),
    "clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "relu": lambda x: np.maximum(x, 0.0), "heaviside": lambda x: np.heaviside(x, 0.5),
    "within": lambda z, slope: np.where(np.isnan(z), np.nan, slope),
    "square": np.square, "sqrt": np.sqrt, "cbrt": np.cbrt, "root": _root,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "log_base": _log_base,
    "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sec": lambda x: 1 / np.cos(x), "csc": lambda x: 1 / np.sin(x), "cot": lambda x: 1 / np.tan(x),
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "asec": _asec, "acsc": _acsc, "acot": lambda x: np.arctan(1 / x),
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "sech": lambda x: 1 / np.cosh(x), "csch": lambda x: 1 / np.sinh(x), "coth": lambda x: 1 / np.tanh(x),
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "asech": _asech, "acsch": lambda x: np.arcsinh(1 / x), "acoth": _acoth,
    "hypot": np.hypot, "direction": _direction,
    "erf": special.erf, "erfc": _erfc, "bell": _bell, "half_bell": _half_bell, "swell": _swell,
    "normal_pdf": _normal_pdf, "normal_cdf": _normal_cdf,
    "sinc": _sinc, "sinc_derivative": _sinc_derivative,
    "sigmoid": _sigmoid, "logit": _logit, "softplus": lambda x: np.logaddexp(x, 0.0),
    "logsigmoid": lambda x: -np.logaddexp(-x, 0.0), "logaddexp": np.logaddexp,
    "softsign": _softsign,
    **SPECIAL,
    **STRUCTURES,
}, _read)
# fmt: on
