"""Elementary functions on NumPy arrays, in the forms of `floats.elementary`, whose functions say why."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.compiled.elementwise import Elementwise
from autodiff_cli.numbers.floats.special import sinc_derivative

Array: TypeAlias = NDArray[np.float64]


def _split(x: Array) -> tuple[Array, Array]:
    """x as the sum of two halves with 26 bits each (Veltkamp)."""
    c = 134217729.0 * x
    high = c - (c - x)
    return high, x - high


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a·b as rounded products and their errors."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, np.where(np.isfinite(error), error, 0.0)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b as rounded sums and their errors."""
    total = a + b
    b_part = total - a
    error = (a - (total - b_part)) + (b - b_part)
    return total, np.where(np.isfinite(error), error, 0.0)


def _slope_base(x: Array, y: Array) -> Array:
    z = np.power(x, y)
    slope = y * (z / x)
    edge = (x == 0) | (np.abs(z) < 1e-290) | np.isinf(z)
    if np.any(edge):
        less, error = two_sum(y, np.asarray(-1.0))
        careful = y * np.power(x, less)
        more = careful * error * np.log(np.abs(x))
        slope = np.where(edge, np.where(np.isfinite(more), careful + more, careful), slope)
    return np.where(y == 0, 0.0, slope)


def _slope_exponent(x: Array, y: Array) -> Array:
    slope = np.where((x == 0) & (y == 0), np.nan, np.power(x, y) * np.log(x))
    return np.where((x == 0) & (y > 0), 0.0, slope)


def _times_log(a: Array, x: Array) -> Array:
    return np.where((a == 0) & ~np.isnan(x), 0.0, a * np.log(x))


def _root(x: Array, n: Array) -> Array:
    size = np.abs(x)
    z = np.power(size, 1 / n)
    product, error = two_product(1 / n, n)
    step = z * ((1 - product - error) / n * np.log(size))
    z = np.where(np.isfinite(step), z + step, z)
    z = np.where(n == 2, np.sqrt(size), np.where(n == 3, _cbrt(size), z))
    z = np.where((n == 0) | np.isnan(x) | np.isnan(n), np.nan, z)
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
    z = np.where(x < 1e-9, math.log(2) - np.log(x), np.arcsinh(np.sqrt((1 - x) * (1 + x)) / x))
    return np.where(x >= 0, z, np.nan)


def _acsch(x: Array) -> Array:
    size = np.abs(x)
    return np.copysign(np.where(size < 1e-9, math.log(2) - np.log(size), np.arcsinh(1 / size)), x)


def _sech(x: Array) -> Array:
    half = np.exp(-np.abs(x) / 2)
    return np.where(np.abs(x) < 700, 1 / np.cosh(x), 2 * half * half)


def _csch(x: Array) -> Array:
    return np.where(np.abs(x) < 700, 1 / np.sinh(x), np.copysign(_sech(x), x))


def _cbrt(x: Array) -> Array:
    z = np.cbrt(x)
    cube = z * z * z
    return np.where((np.abs(cube) > 1e-290) & np.isfinite(cube), z - (cube - x) / (3 * z * z), z)


def _sech_square(x: Array) -> Array:
    c = np.cosh(2 * x)
    z = 2 / (1 + c)
    return z if np.isfinite(c).all() else np.where(np.isinf(c), np.square(_sech(x)), z)


def _csch_square(x: Array) -> Array:
    s = np.sinh(x)
    return 1 / s / s


def _witch(x: Array) -> Array:
    z = 1 / (1 + x * x)
    return np.where(z == 0, 1 / x / x, z)


def _direction(x: Array, length: Array) -> Array:
    return np.where(length == 0, 0.0, x / length)


def _sinc(x: Array) -> Array:
    return np.where(x == 0, 1.0, np.where(np.isinf(x), 0.0, np.sin(x) / x))


# (-1)^k · 2k/(2k + 1)!, the power series of sinc's slope divided by x, highest power first.
_SINC_SLOPE = [(-1.0) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(10, 0, -1)]


def _sinc_derivative(n: Array, x: Array) -> Array:
    """The first derivative, which gradients need, in vectors."""
    if not np.all(n == 1):
        return _every_sinc_derivative(n, x)
    near = x * np.polyval(_SINC_SLOPE, x * x) + 0.0  # no -0, as for floats
    far = (np.cos(x) - np.sin(x) / x) / x
    return np.where(np.abs(x) < 1, near, np.where(np.isinf(x), 0.0, far))


_every_sinc_derivative = Elementwise(sinc_derivative)


# fmt: off
ELEMENTARY: dict[str, Callable[..., Any]] = {
    "pow": np.power, "pow_slope_base": _slope_base, "pow_slope_exponent": _slope_exponent, "times_log": _times_log,
    "square": np.square, "sqrt": np.sqrt, "cbrt": _cbrt, "root": _root,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "log_base": _log_base,
    "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sec": lambda x: 1 / np.cos(x), "csc": lambda x: 1 / np.sin(x), "cot": lambda x: 1 / np.tan(x),
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "asec": _asec, "acsc": _acsc, "acot": lambda x: np.arctan(1 / x),
    "arc_slope": lambda x: 1 / np.sqrt((1 - x) * (1 + x)), "pole_pair": lambda x: 1 / (1 - x) / (1 + x),
    "witch": _witch,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "sech": _sech, "csch": _csch, "coth": lambda x: 1 / np.tanh(x),
    "sech_square": _sech_square, "csch_square": _csch_square,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "asech": _asech, "acsch": _acsch, "acoth": _acoth,
    "hypot": np.hypot, "direction": _direction,
    "sinc": _sinc, "sinc_derivative": _sinc_derivative,
}
# fmt: on
