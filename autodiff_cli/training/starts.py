"""Starting values found in the data, for fits that end badly from where they were begun."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays import quiet
from autodiff_cli.training.least_squares import levenberg_marquardt
from autodiff_cli.training.loop import Diverged, Epoch
from autodiff_cli.training.objective import Objective

Array = NDArray[np.float64]

_ROWS = 500  # that are looked at, evenly spaced
_TRIES = 300
_VALUES = 3000  # tried in all: fewer tries where there are many parameters
_EVALUATIONS = 100  # of the method, per try
_SAME = 1e-6  # the relative distance of two losses that count as one
_ENOUGH = 10  # times that the best loss is to be found
_GOOD = 0.001  # of the target's variation: of a loss below it,
_ENOUGH_GOOD = 3  # so many times will do


@dataclass(frozen=True, slots=True)
class Found:
    """A start, and where Levenberg-Marquardt gets from it, over a sample of the rows."""

    start: Array
    end: Array
    loss: float


def search(objective: Objective, start: Array, free: NDArray[np.bool_], seed: int) -> Found | None:
    """The best of many starts; None if none of them can be used.

    A value tried is, as likely as not, one from the range of a column (a place). Else it is of the size of 1, of a
    column or its spread, or of the reciprocal of these (a rate), within a factor of 10 either way, with either sign.

    Args:
        start: of shape (P,).
        free: for each parameter, whether it may be tried elsewhere.
        seed: of the generator that spreads the values.
    """
    generator = np.random.default_rng(seed)
    rows = np.unique(np.linspace(0, objective.rows - 1, min(objective.rows, _ROWS)).astype(np.intp))
    sample = objective.restricted(rows)
    columns = np.array([sample.table.columns[name] for name in sample.model.columns])
    sizes = _sizes(columns)
    good = _GOOD * sample.mean_of_squares(sample.target_variation())
    best: Found | None = None
    times = 0
    for _ in range(min(_TRIES, _VALUES // len(start) + 1)):
        found = _descend(sample, np.where(free, _values(generator, columns, sizes, len(start)), start))
        if found is None:
            continue
        if best is None or found.loss < best.loss * (1 - _SAME):
            best, times = found, 1
        elif found.loss <= best.loss * (1 + _SAME):
            times += 1
        if times >= (_ENOUGH_GOOD if best.loss < good else _ENOUGH):
            break
    return best


def _values(generator: np.random.Generator, columns: Array, sizes: Array, count: int) -> Array:
    low, high = columns.min(axis=1), columns.max(axis=1)
    which = generator.integers(len(columns), size=count)
    place = generator.uniform(low[which], high[which])
    size = generator.choice(sizes, count) * 10 ** generator.uniform(-1, 1, count)
    sign = generator.choice((1.0, 1.0, -1.0), count)
    values: Array = np.where(generator.random(count) < 0.5, place, size * sign)
    return values


def _sizes(columns: Array) -> Array:
    """1, and how large the values of each column are and how far they spread, and one over that."""
    with quiet():
        typical = np.concatenate((np.sqrt(np.mean(np.square(columns), axis=1)), np.std(columns, axis=1)))
        sizes = np.concatenate(([1.0], typical, 1 / typical))
    usable: Array = sizes[np.isfinite(sizes) & (sizes > 0)]
    return usable


def _descend(objective: Objective, start: Array) -> Found | None:
    epochs: list[Epoch] = []
    with contextlib.suppress(Diverged):
        levenberg_marquardt(objective, start, epochs.append, evaluations=_EVALUATIONS)
    return Found(start, epochs[-1].theta, epochs[-1].loss) if epochs else None
