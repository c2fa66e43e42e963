"""What the residuals of a fit say: whether they look like chance along a predictor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.objective.losses import LossKind
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.rows.protocol import WEIGHT, Columns

Array = NDArray[np.float64]

NORMAL = 1.482602218505602  # standard deviations of a normal distribution per median of its absolute values
_FEWEST = 10  # rows for which neighbours say anything
_MOST = 200_000  # rows that are looked at
_BESIDE = 0.01  # how far from the middle, in ranks, the median of all lies from that of a sample, at most
OUTLYING = 3.0  # scales beyond which the residual of a robust fit is that of a row far off
_CLIPPED = 1.345  # scales: larger ones count as so large where rows are compared with their neighbours
_SYSTEMATIC = 3.5  # standard errors from chance: one in 4000, and less where parameters have followed it


def residuals(objective: Objective, theta: Array) -> Array:
    """Target minus prediction, times the root of the weight, of shape (components, rows).

    >>> residuals(Objective("y ~ a*x", {"x": [1, 2], "y": [2, 5]}), np.array([2.0]))
    array([[0., 1.]])
    """
    found = objective.per_row(objective.kernels.residuals, theta)
    return found * np.sqrt(objective.column(WEIGHT)) if objective.weighted else found


def is_ordered(objective: Objective) -> bool:
    """Whether the rows are in the order of the only predictor, up or down."""
    predictors = objective.model.predictors()
    if len(predictors) != 1 or predictors[0] not in objective.data.names:
        return False
    found = objective.fold_columns(set(predictors), ColumnOrder(predictors[0]), joined_order)
    return (found.rises or found.falls) and found.moves


class Ordered(NamedTuple):
    """How the values of a column follow one another: the first, the last, whether none is less than the one before,
    whether none is more, and whether they differ at all."""

    first: float
    last: float
    rises: bool
    falls: bool
    moves: bool


@dataclass(frozen=True, slots=True)
class ColumnOrder:
    """How those of a block follow one another."""

    name: str

    def __call__(self, columns: Columns) -> Ordered:
        """Of a block."""
        column = columns[self.name]
        before, after = column[:-1], column[1:]
        rises, falls = bool((after >= before).all()), bool((after <= before).all())
        return Ordered(float(column[0]), float(column[-1]), rises, falls, bool((after != before).any()))


def joined_order(a: Ordered, b: Ordered) -> Ordered:
    """Of rows, and of rows after them."""
    rises, falls = a.rises and b.rises and b.first >= a.last, a.falls and b.falls and b.first <= a.last
    return Ordered(a.first, b.last, rises, falls, a.moves or b.moves or b.first != a.last)


def robust_scale(objective: Objective, theta: Array) -> float:
    """The standard deviation that the median of the absolute residuals has where these are normal: 1.4826 · MAD.

    Rows of weight 0 do not count, and weights do no more.

    >>> round(robust_scale(Objective("y ~ a", {"y": [1, 2, 3, 4, 100]}), np.array([3.0])), 4)
    1.4826
    """
    if objective.rows <= _MOST:
        return float(NORMAL * np.median(_sizes(objective, theta)))
    sample = _sampled(objective)
    low, high = np.quantile(_sizes(sample, theta), (0.5 - _BESIDE, 0.5 + _BESIDE))
    return float(NORMAL * _median_near(objective, theta, float(low), float(high)))


def _sampled(objective: Objective) -> Objective:
    """The same over some of very many rows, drawn at random."""
    if objective.rows <= _MOST:
        return objective
    return objective.restricted(np.unique(np.random.default_rng(0).integers(0, objective.rows, _MOST)))


def explained_robustly(objective: Objective, theta: Array) -> float:
    """The share of the target's variance that a prediction explains, both measured by medians, as R² is by means.

    >>> from autodiff_cli.training.objective.objective import Objective
    >>> columns = {"x": [1, 2, 3, 4, 5], "y": [1.1, 2, 2.9, 4, 500]}
    >>> round(explained_robustly(Objective("y ~ a*x", columns), np.array([1.0])), 3)
    0.992
    """
    some = _sampled(objective)
    target = some.per_row(some.kernels.target, theta)
    if some.weighted:
        target = target[:, some.column(WEIGHT) > 0]
    spread = float(np.median(np.abs(target - np.median(target, axis=1, keepdims=True))))
    return 1 - (robust_scale(some, theta) / (NORMAL * spread)) ** 2 if spread > 0 else math.nan


def _sizes(objective: Objective, theta: Array) -> Array:
    """The absolute values of the residuals of all rows that count."""
    found = objective.per_row(objective.kernels.residuals, theta)
    return np.abs(found[:, objective.column(WEIGHT) > 0] if objective.weighted else found)


@dataclass(frozen=True, slots=True)
class Between:
    """The absolute values of a block that lie between two numbers; with how many there are, and how many are less."""

    low: float
    high: float

    def __call__(self, block: Array, columns: Columns) -> tuple[int, int, Array]:
        """Of residuals."""
        sizes = np.abs(block[:, columns[WEIGHT] > 0] if WEIGHT in columns else block)
        return sizes.size, int(np.count_nonzero(sizes < self.low)), sizes[(sizes >= self.low) & (sizes <= self.high)]


def joined(a: tuple[int, int, Array], b: tuple[int, int, Array]) -> tuple[int, int, Array]:
    """Of two blocks."""
    return a[0] + b[0], a[1] + b[1], np.concatenate((a[2], b[2]))


def _median_near(objective: Objective, theta: Array, low: float, high: float) -> float:
    """The median of all absolute residuals, which most likely lies between two numbers: only those between are kept."""
    kernel = objective.kernels.residuals
    count, below, kept = objective.fold_rows(kernel, theta, Between(low, high), joined)
    first, last = (count - 1) // 2 - below, count // 2 - below
    if first < 0 or last >= len(kept):
        return (smallest(objective, theta, (count - 1) // 2) + smallest(objective, theta, count // 2)) / 2
    middle = np.partition(kept, (first, last))
    return float((middle[first] + middle[last]) / 2)


_BITS = 16  # of a number that are counted by in one pass
_PASSES = 64 // _BITS


@dataclass(frozen=True, slots=True)
class Counts:
    """How many absolute values of a block begin with some bits, by the next ones. Of floats that are not negative the
    order is that of their bits; nan is the last."""

    prefix: int
    known: int  # bits

    def __call__(self, block: Array, columns: Columns) -> NDArray[np.int64]:
        """Of residuals."""
        sizes = np.abs(block[:, columns[WEIGHT] > 0] if WEIGHT in columns else block).ravel()
        bits = sizes.view(np.uint64)
        if self.known:
            bits = bits[bits >> np.uint64(64 - self.known) == self.prefix]
        digits = (bits >> np.uint64(64 - self.known - _BITS)) & np.uint64(2**_BITS - 1)
        return np.bincount(digits.astype(np.intp), minlength=2**_BITS)


def smallest(objective: Objective, theta: Array, rank: int) -> float:
    """The absolute residual that `rank` others are before, in four passes that count, and no memory.

    >>> smallest(Objective("y ~ a", {"y": [1, 2, 3, 4, 100]}), np.array([3.0]), 3)
    2.0
    """
    prefix = 0
    for turn in range(_PASSES):
        counts = objective.fold_rows(objective.kernels.residuals, theta, Counts(prefix, turn * _BITS), np.add)
        ends = np.cumsum(counts)
        digit = int(np.searchsorted(ends, rank, side="right"))
        rank -= int(ends[digit] - counts[digit])
        prefix = (prefix << _BITS) | digit
    return float(np.array([prefix], np.uint64).view(np.float64)[0])


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


def are_systematic(objective: Objective, theta: Array, beyond: float = _SYSTEMATIC) -> bool:
    """Whether residuals follow the predictor, if there is one, so that chance alone cannot have made them.

    Of very many rows some are looked at, drawn at random: neighbours among them still lie close.

    Args:
        beyond: so many standard errors from chance.
    """
    predictors = [name for name in objective.model.predictors() if name in objective.data.names]
    if len(predictors) != 1 or not objective.has_residuals:
        return False
    objective = _sampled(objective)
    column = objective.column(predictors[0])
    order = np.argsort(column, kind="stable")
    with quiet():
        found = residuals(objective, theta)
        if objective.kind is LossKind.ROBUST:  # one row far off would hide what the others do
            far = _CLIPPED * robust_scale(objective, theta)
            found = np.clip(found, -far, far)
        return any(neighbours(component[order]) > beyond for component in found)
