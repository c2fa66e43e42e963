"""Between which numbers a new one lies, of distributions whose mean is itself uncertain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.compiled.elementwise import Elementwise
from autodiff_cli.numbers.floats.distributions import betainc, gammaincinv
from autodiff_cli.numbers.floats.incomplete_gamma import gammaincc

Array = NDArray[np.float64]

_LEAST = 1e-9  # of the mean: an uncertainty of it that counts as none
_STEPS = 80  # of bisection: counts up to 2^80
_BETA, _POISSON, _INVERSE = Elementwise(betainc), Elementwise(gammaincc), Elementwise(gammaincinv)


def count_quantiles(mean: Array, error: Array, share: float) -> Array:
    """The least count that a new count exceeds with no more than the probability `1 - share`.

    A Poisson distribution whose mean follows a gamma distribution, with this mean and standard deviation, is a negative
    binomial one: Greenwood & Yule 1920.

    >>> count_quantiles(np.array([4.0]), np.array([0.0]), 0.975).tolist()
    [8.0]
    """
    known = error <= _LEAST * mean
    shape = np.square(mean / np.where(known, 1.0, error))
    chance, rest = shape / (shape + mean), mean / (shape + mean)

    def below(count: Array) -> Array:
        return np.where(known, _POISSON(count + 1, mean), _BETA(shape, count + 1, chance, rest))

    low, high = np.full_like(mean, -1.0), np.maximum(np.ceil(mean), 1.0)
    for _ in range(_STEPS):
        short = below(high) < share
        if not short.any():
            break
        low, high = np.where(short, high, low), np.where(short, 2 * high, high)
    for _ in range(_STEPS):
        if not (high - low > 1).any():
            break
        middle = np.floor((low + high) / 2)
        short = below(middle) < share
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.where(np.isfinite(mean + error), high, np.nan)


def gamma_quantiles(mean: Array, variance: Array, share: float) -> Array:
    """The number below which one that follows a gamma distribution lies with the probability `share`.

    >>> gamma_quantiles(np.array([1.0]), np.array([1.0]), 0.5).round(6).tolist()
    [0.693147]
    """
    return _INVERSE(np.square(mean) / variance, share) * variance / mean
