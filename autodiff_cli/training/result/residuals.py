"""What the residuals of a fit say: whether they look like chance along a predictor."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.objective.graphs import WEIGHT
from autodiff_cli.training.objective.objective import Objective

Array = NDArray[np.float64]

NORMAL = 1.482602218505602  # standard deviations of a normal distribution per median of its absolute values
_FEWEST = 10  # rows for which neighbours say anything
_MOST = 200_000  # rows that are looked at
_BESIDE = 0.01  # how far from the middle, in ranks, the median of all lies from that of a sample, at most
_SYSTEMATIC = 5.0  # standard errors from chance: one in 3.5 million


def residuals(objective: Objective, theta: Array) -> Array:
    """Target minus prediction, times the root of the weight, of shape (components, rows).

    >>> residuals(Objective("y ~ a*x", {"x": [1, 2], "y": [2, 5]}), np.array([2.0]))
    array([[0., 1.]])
    """
    found = objective.per_row(objective.kernels.residuals, theta)
    return found * np.sqrt(objective.table.columns[WEIGHT]) if objective.weighted else found


def is_ordered(objective: Objective) -> bool:
    """Whether the rows are in the order of the only predictor, up or down."""
    predictors = objective.model.predictors()
    if len(predictors) != 1 or predictors[0] not in objective.table.columns:
        return False
    column = objective.table.columns[predictors[0]]
    before, after = column[:-1], column[1:]
    return bool((after >= before).all() or (after <= before).all()) and bool((after != before).any())


def robust_scale(objective: Objective, theta: Array) -> float:
    """The standard deviation that the median of the absolute residuals has where these are normal: 1.4826 · MAD.

    Rows of weight 0 do not count, and weights do no more.

    >>> round(robust_scale(Objective("y ~ a", {"y": [1, 2, 3, 4, 100]}), np.array([3.0])), 4)
    1.4826
    """
    if objective.rows <= _MOST:
        return float(NORMAL * np.median(_sizes(objective, theta)))
    sample = objective.restricted(np.unique(np.random.default_rng(0).integers(0, objective.rows, _MOST)))
    low, high = np.quantile(_sizes(sample, theta), (0.5 - _BESIDE, 0.5 + _BESIDE))
    return float(NORMAL * _median_between(objective, theta, float(low), float(high)))


def _sizes(objective: Objective, theta: Array) -> Array:
    """The absolute values of the residuals of all rows that count."""
    found = objective.per_row(objective.kernels.residuals, theta)
    return np.abs(found[:, objective.table.columns[WEIGHT] > 0] if objective.weighted else found)


def _median_between(objective: Objective, theta: Array, low: float, high: float) -> float:
    """The median of these, if it lies between two numbers, of which only those between are kept; else of all."""

    def between(block: Array, part: slice) -> tuple[int, int, Array]:
        sizes = np.abs(block[:, objective.table.columns[WEIGHT][part] > 0] if objective.weighted else block)
        return sizes.size, int(np.count_nonzero(sizes < low)), sizes[(sizes >= low) & (sizes <= high)]

    def joined(a: tuple[int, int, Array], b: tuple[int, int, Array]) -> tuple[int, int, Array]:
        return a[0] + b[0], a[1] + b[1], np.concatenate((a[2], b[2]))

    count, below, kept = objective.fold_rows(objective.kernels.residuals, theta, between, joined)
    first, last = (count - 1) // 2 - below, count // 2 - below
    if first < 0 or last >= len(kept):
        return float(np.median(_sizes(objective, theta)))
    middle = np.partition(kept, (first, last))
    return float((middle[first] + middle[last]) / 2)


def neighbours(ordered: Array) -> float:
    """How many standard errors neighbours are more alike than chance makes them: von Neumann 1941.

    >>> import numpy as np
    >>> round(neighbours(np.array([1.0, 2, 3, 4, 3, 2, 1, -1, -2, -3, -4, -3])), 1)
    3.5
    """
    count = len(ordered)
    centred = ordered - ordered.mean()
    total = float(np.sum(np.square(centred)))
    if count < _FEWEST or not 0 < total < math.inf:
        return 0.0
    ratio = float(np.sum(np.square(np.diff(ordered)))) / total
    return (2 - ratio) / (2 * math.sqrt((count - 2) / (count * count - 1)))


def are_systematic(objective: Objective, theta: Array) -> bool:
    """Whether residuals follow the predictor, if there is one, so that chance alone cannot have made them.

    Of very many rows some are looked at, drawn at random: neighbours among them still lie close.
    """
    predictors = [name for name in objective.model.predictors() if name in objective.table.columns]
    if len(predictors) != 1 or not objective.has_residuals:
        return False
    if objective.rows > _MOST:
        objective = objective.restricted(np.unique(np.random.default_rng(0).integers(0, objective.rows, _MOST)))
    column = objective.table.columns[predictors[0]]
    order = np.argsort(column, kind="stable")
    with quiet():
        return any(neighbours(component[order]) > _SYSTEMATIC for component in residuals(objective, theta))
