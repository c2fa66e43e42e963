"""Activations, error functions and the normal distribution on NumPy arrays, in the forms of `floats.activations`, whose
functions of the same names say why."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.elementary import two_product, two_sum
from autodiff_cli.numbers.compiled.elementwise import Elementwise
from autodiff_cli.numbers.floats.activations import (
    FAR_LEFT,
    MISH_IS_LINEAR,
    ROOT_HALF,
    ROOT_HALF_ERROR,
    ROOT_TWO_PI,
)

Array: TypeAlias = NDArray[np.float64]


def _bell(x: Array) -> Array:
    square, error = two_product(x, x)
    z = np.exp(-square)
    return z - z * error


def _swell(x: Array) -> Array:
    square, error = two_product(x, x)
    z = np.exp(square)
    return np.where(np.isinf(z), z, z + z * error)


_erfc = Elementwise(math.erfc)


def _half_bell(x: Array) -> Array:
    square, error = two_product(x, x)
    z = np.exp(-square / 2)
    return z - z * (error / 2)


def _standard(x: Array, mean: Array | float, deviation: Array | float) -> tuple[Array, Array | float]:
    """(x - mean)/deviation as rounded numbers and their errors."""
    if np.all(mean == 0) and np.all(deviation == 1):
        return np.broadcast_to(x, np.broadcast_shapes(np.shape(x), np.shape(mean), np.shape(deviation))), 0.0
    difference, lost = two_sum(x, -np.asarray(mean))
    u = difference / deviation
    product, error = two_product(u, np.asarray(deviation))
    rest = ((difference - product) - error + lost) / deviation
    return u, np.where(np.isfinite(rest), rest, 0.0)


def _normal_pdf(x: Array, mean: Array | float = 0.0, deviation: Array | float = 1.0) -> Array:
    u, error = _standard(x, mean, deviation)
    z = _half_bell(u)
    return np.where(z == 0, z, z - z * u * error) / (deviation * ROOT_TWO_PI)


def _normal_cdf(x: Array, mean: Array | float = 0.0, deviation: Array | float = 1.0) -> Array:
    u, lost = _standard(x, mean, deviation)
    t, error = two_product(-u, np.asarray(ROOT_HALF))
    error = error - (u * ROOT_HALF_ERROR + lost * ROOT_HALF)
    tail = _erfc(t)
    put_right = tail - 2 / math.sqrt(math.pi) * _bell(t) * error
    return np.where((tail == 0) | np.isinf(t), tail, put_right) / 2


def _sigmoid(x: Array) -> Array:
    z = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, z) / (1.0 + z)


def _sigmoid_slope(x: Array) -> Array:
    z: Array = np.exp(-np.abs(x))
    return z / (1 + z) / (1 + z)


def _silu(x: Array) -> Array:
    return _unless_far_left(x, x * _sigmoid(x), x)


def _silu_slope(x: Array) -> Array:
    z = np.exp(-np.abs(x))
    slope = (1 + z + np.where(x >= 0, z * x, x)) / (1 + z) * (np.where(x >= 0, 1.0, z) / (1 + z))
    return _unless_far_left(x, slope, 1 + x)


def _unless_far_left(x: Array, usual: Array, factor: Array) -> Array:
    """What is usual; from `FAR_LEFT` on down factor·exp(x), where the exponential alone would lose digits."""
    far = x < FAR_LEFT
    if not np.any(far):
        return usual
    half = np.exp(np.minimum(x, 0.0) / 2)
    return np.where(far, factor * half * half, usual)


def _mish(x: Array) -> Array:
    w = np.exp(np.minimum(x, MISH_IS_LINEAR))
    n = w * (w + 2)
    return _unless_far_left(x, x * (n / (n + 2)), x)


def _mish_slope(x: Array) -> Array:
    near = np.minimum(x, MISH_IS_LINEAR)
    w = np.exp(near)
    n = w * (w + 2)
    return _unless_far_left(x, w / (n + 2) * (w + 2 + 2 * near / (1 + w * w / (2 + 2 * w))), 1 + x)


def _logit(x: Array) -> Array:
    return np.where((x > 0.25) & (x < 0.75), 2 * np.arctanh(2 * x - 1), np.log(x / (1 - x)))


def _softsign(x: Array) -> Array:
    return np.where(np.isinf(x), np.sign(x), x / (1.0 + np.abs(x)))


def _proportion(x: Array, y: Array) -> Array:
    difference, error = two_sum(x, -y)
    z = _sigmoid(difference)
    return z + z * _sigmoid(-difference) * error


def _logaddexp(x: Array, y: Array) -> Array:
    high = np.maximum(x, y)
    difference, error = two_sum(np.minimum(x, y), -high)
    z = np.exp(difference)
    return np.where(x == y, x + math.log(2), high + np.log1p(z + z * error))


def _softplus(x: Array) -> Array:
    total: Array = np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    return total


# fmt: off
ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "erf": Elementwise(math.erf), "erfc": _erfc,
    "bell": _bell, "half_bell": _half_bell, "swell": _swell,
    "normal_pdf": _normal_pdf, "normal_cdf": _normal_cdf,
    "sigmoid": _sigmoid, "sigmoid_slope": _sigmoid_slope, "logit": _logit,
    "softplus": _softplus, "logsigmoid": lambda x: -_softplus(-x),
    "logaddexp": _logaddexp, "proportion": _proportion,
    "silu": _silu, "silu_slope": _silu_slope, "mish": _mish, "mish_slope": _mish_slope,
    "softsign": _softsign,
}
# fmt: on
