"""Activations and the normal distribution on floats, by the rules of IEEE 754.

Exponentials make much of what rounding took from their argument, so it is carried along: the error of a square, of a
difference, of a quotient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import copysign

from autodiff_cli.numbers.floats.elementary import divide, log, product_error, sum_error

# --- the normal distribution


def bell(x: float) -> float:
    """exp(-x²)."""
    z = math.exp(-x * x)
    return z - z * product_error(x, x)


def half_bell(x: float) -> float:
    """exp(-x²/2)."""
    z = math.exp(-x * x / 2)
    return z - z * (product_error(x, x) / 2)


ROOT_TWO_PI = math.sqrt(2 * math.pi)
# 1/√2 as a rounded number and its rounding error.
ROOT_HALF, ROOT_HALF_ERROR = 0.7071067811865476, -4.833646656726457e-17


def _standard_error(x: float, mean: float, deviation: float, u: float) -> float:
    """The exact (x - mean)/deviation less u, the rounded one."""
    if mean == 0 and deviation == 1:
        return 0.0
    lost = sum_error(x, -mean) - product_error(u, deviation)
    rest = divide((x - mean - u * deviation) + lost, deviation)
    return rest if math.isfinite(rest) else 0.0


def normal_pdf(x: float, mean: float = 0.0, deviation: float = 1.0) -> float:
    """The normal density."""
    u = divide(x - mean, deviation)
    z = half_bell(u)
    if z != 0:
        z -= z * u * _standard_error(x, mean, deviation, u)
    return divide(z, deviation * ROOT_TWO_PI)


def normal_cdf(x: float, mean: float = 0.0, deviation: float = 1.0) -> float:
    """The normal distribution function, as erfc(-u/√2)/2 with the error of u/√2 put right to first order."""
    u = divide(x - mean, deviation)
    t = -u * ROOT_HALF
    tail = math.erfc(t)
    if tail == 0 or tail != tail or math.isinf(t):
        return tail / 2
    lost = _standard_error(x, mean, deviation, u)
    error = product_error(-u, ROOT_HALF) - (u * ROOT_HALF_ERROR + lost * ROOT_HALF)
    return (tail - 2 / math.sqrt(math.pi) * bell(t) * error) / 2


# --- activations

FAR_LEFT = -700.0  # further left exp(x) loses digits; from there on sigmoid(x) and tanh(softplus(x)) are exp(x)
MISH_IS_LINEAR = 40.0  # from here on mish(x) is x, and its slope 1


def sigmoid(x: float) -> float:
    """1/(1 + exp(-x)), from the side that does not overflow."""
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    z = math.exp(x)
    return z / (1.0 + z)


def sigmoid_slope(x: float) -> float:
    """sigmoid(x)·sigmoid(-x)."""
    z = math.exp(-abs(x))
    return z / (1.0 + z) / (1.0 + z)


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
    return logaddexp(x, 0.0)


def logsigmoid(x: float) -> float:
    """log(sigmoid(x))."""
    return -logaddexp(-x, 0.0)


def proportion(x: float, y: float) -> float:
    """exp(x)/(exp(x) + exp(y)): the sigmoid of x - y and of the rounding error of that difference."""
    z = sigmoid(x - y)
    return z + z * sigmoid(y - x) * sum_error(x, -y)


def silu(x: float) -> float:
    """x·sigmoid(x)."""
    return _times_exp(x, x) if x < FAR_LEFT else x * sigmoid(x)


def silu_slope(x: float) -> float:
    """sigmoid(x)·(1 + x·sigmoid(-x))."""
    return _times_exp(1.0 + x, x) if x < FAR_LEFT else sigmoid(x) * (1.0 + x * sigmoid(-x))


def _times_exp(factor: float, x: float) -> float:
    """factor·exp(x), for x < 0, also where the exponential alone underflows."""
    half = math.exp(x / 2)
    return factor * half * half


def mish(x: float) -> float:
    """x·tanh(softplus(x)), which in w = exp(x) is x·n/(n + 2) with n = w·(w + 2)."""
    if x < FAR_LEFT:
        return silu(x)
    w = math.exp(min(x, MISH_IS_LINEAR))
    n = w * (w + 2)
    return x * (n / (n + 2))


def mish_slope(x: float) -> float:
    """The slope of mish, n/(n + 2) + 4·x·w·(1 + w)/(n + 2)², arranged for few roundings."""
    if x < FAR_LEFT:
        return silu_slope(x)
    x = min(x, MISH_IS_LINEAR)
    w = math.exp(x)
    n = w * (w + 2)
    return w / (n + 2) * (w + 2 + 2 * x / (1 + w * w / (2 + 2 * w)))


def logit(x: float) -> float:
    """log(x/(1 - x)); near 1/2, where that cancels, twice the atanh of 2x - 1, which is exact there."""
    if 0.25 < x < 0.75:
        return 2 * math.atanh(2 * x - 1)
    return log(divide(x, 1 - x))


def softsign(x: float) -> float:
    """x/(1 + |x|)."""
    return copysign(1.0, x) if math.isinf(x) else x / (1.0 + abs(x))


# fmt: off
ACTIVATIONS: dict[str, Callable[..., float]] = {
    "erf": math.erf, "erfc": math.erfc, "bell": bell, "half_bell": half_bell,
    "normal_pdf": normal_pdf, "normal_cdf": normal_cdf,
    "sigmoid": sigmoid, "sigmoid_slope": sigmoid_slope, "logit": logit,
    "softplus": softplus, "logsigmoid": logsigmoid,
    "logaddexp": logaddexp, "proportion": proportion,
    "silu": silu, "silu_slope": silu_slope, "mish": mish, "mish_slope": mish_slope,
    "softsign": softsign,
}
# fmt: on
