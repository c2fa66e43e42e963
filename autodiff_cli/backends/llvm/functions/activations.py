"""Activations and the normal distribution on vectors, in the forms of `numbers.floats.activations`, whose functions of
the same names say why."""

from __future__ import annotations

import math
from collections.abc import Callable

from autodiff_cli.backends.llvm.functions.basic import (
    equal,
    exp,
    is_finite,
    is_infinite,
    larger,
    log,
    log1p,
    smaller,
    two_product,
    two_sum,
    where,
)
from autodiff_cli.backends.llvm.functions.vectors import Operand, Vector
from autodiff_cli.numbers.floats.activations import (
    FAR_LEFT,
    MISH_IS_LINEAR,
    ROOT_HALF,
    ROOT_HALF_ERROR,
    ROOT_TWO_PI,
)


def _bell(x: Vector) -> Vector:
    square, error = two_product(x, x)
    z = exp(-square)
    return z - z * error


def _swell(x: Vector) -> Vector:
    square, error = two_product(x, x)
    z = exp(square)
    return where(is_infinite(z), z, z + z * error)


def _half_bell(x: Vector) -> Vector:
    square, error = two_product(x, x)
    z = exp(-square / 2.0)
    return z - z * (error / 2.0)


def _standard(x: Vector, mean: Operand, deviation: Operand) -> tuple[Vector, Operand]:
    """(x - mean)/deviation as rounded numbers and their errors."""
    code = x.code
    middle, scale = code.vector(mean), code.vector(deviation)
    if middle.number == 0.0 and scale.number == 1.0:
        return x, 0.0
    difference, lost = two_sum(x, -middle)
    u = difference / scale
    product, error = two_product(u, scale)
    rest = ((difference - product) - error + lost) / scale
    return u, where(is_finite(rest), rest, 0.0)


def _normal_pdf(x: Vector, mean: Operand = 0.0, deviation: Operand = 1.0) -> Vector:
    u, error = _standard(x, mean, deviation)
    z = _half_bell(u)
    return where(equal(z, 0.0), z, z - z * u * error) / (deviation * x.code.vector(ROOT_TWO_PI))


def _normal_cdf(x: Vector, mean: Operand = 0.0, deviation: Operand = 1.0) -> Vector:
    u, lost = _standard(x, mean, deviation)
    t, product_error = two_product(-u, ROOT_HALF)
    error = product_error - (u * ROOT_HALF_ERROR + x.code.vector(lost) * ROOT_HALF)
    tail = x.code.function("erfc", t)
    put_right = tail - 2 / math.sqrt(math.pi) * _bell(t) * error
    return where(equal(tail, 0.0) | is_infinite(t), tail, put_right) / 2.0


def _sigmoid(x: Vector) -> Vector:
    z = exp(-abs(x))
    return where(x < 0.0, z, 1.0) / (1.0 + z)


def _sigmoid_slope(x: Vector) -> Vector:
    z = exp(-abs(x))
    return z / ((1.0 + z) * (1.0 + z))


def _times_exp(factor: Vector, x: Vector) -> Vector:
    """factor·exp(x) for x < 0, also where the exponential alone underflows."""
    half = exp(x / 2.0)
    return factor * half * half


def _one_more_times_exp(x: Vector) -> Vector:
    return _times_exp(1.0 + x, x)


def _x_times_exp(x: Vector) -> Vector:
    return _times_exp(x, x)


def _silu(x: Vector) -> Vector:
    return x.code.rarely(x < FAR_LEFT, x * _sigmoid(x), _x_times_exp, x)


def _silu_slope(x: Vector) -> Vector:
    z = exp(-abs(x))
    is_left = x < 0.0
    slope = (1.0 + z + where(is_left, x, z * x)) / (1.0 + z) * (where(is_left, z, 1.0) / (1.0 + z))
    return x.code.rarely(x < FAR_LEFT, slope, _one_more_times_exp, x)


def _mish(x: Vector) -> Vector:
    w = exp(smaller(x, MISH_IS_LINEAR))
    n = w * (w + 2.0)
    return x.code.rarely(x < FAR_LEFT, x * (n / (n + 2.0)), _x_times_exp, x)


def _mish_slope(x: Vector) -> Vector:
    near = smaller(x, MISH_IS_LINEAR)
    w = exp(near)
    n = w * (w + 2.0)
    slope = w / (n + 2.0) * (w + 2.0 + 2.0 * near / (1.0 + w * w / (2.0 + 2.0 * w)))
    return x.code.rarely(x < FAR_LEFT, slope, _one_more_times_exp, x)


def _logit(x: Vector) -> Vector:
    middle = 2.0 * x.code.function("atanh", 2.0 * x - 1.0)
    return where((x > 0.25) & (x < 0.75), middle, log(x / (1.0 - x)))


def _softsign(x: Vector) -> Vector:
    return where(is_infinite(x), x.code.function("copysign", 1.0, x), x / (1.0 + abs(x)))


def _proportion(x: Vector, y: Vector) -> Vector:
    difference, error = two_sum(x, -y)
    z = _sigmoid(difference)
    return z + z * _sigmoid(-difference) * error


def _logaddexp(x: Vector, y: Vector) -> Vector:
    high = larger(x, y)
    difference, error = two_sum(smaller(x, y), -high)
    z = exp(difference)
    return where(equal(x, y), x + math.log(2), high + log1p(z + z * error))


def _softplus(x: Vector) -> Vector:
    return larger(x, 0.0) + log1p(exp(-abs(x)))


ACTIVATIONS: dict[str, Callable[..., Vector]] = {
    "bell": _bell,
    "half_bell": _half_bell,
    "swell": _swell,
    "normal_pdf": _normal_pdf,
    "normal_cdf": _normal_cdf,
    "sigmoid": _sigmoid,
    "sigmoid_slope": _sigmoid_slope,
    "logit": _logit,
    "softplus": _softplus,
    "logsigmoid": lambda x: -_softplus(-x),
    "logaddexp": _logaddexp,
    "proportion": _proportion,
    "silu": _silu,
    "silu_slope": _silu_slope,
    "mish": _mish,
    "mish_slope": _mish_slope,
    "softsign": _softsign,
}
