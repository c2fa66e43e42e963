"""How far off a model is on rows that it was not fitted to, by k-fold cross-validation."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import MethodOptions
from autodiff_cli.training.progress import Progress
from autodiff_cli.training.run import optimize

Array = NDArray[np.float64]

_EPOCHS = 1000  # of a fit that begins next to its end


def fold_numbers(rows: int, folds: int, seed: int) -> NDArray[np.intp]:
    """The fold that each row is in, drawn at random; all folds have the same number of rows, or one more.

    >>> np.bincount(fold_numbers(10, 4, 0)).tolist()
    [3, 3, 2, 2]
    """
    return np.random.default_rng(seed).permutation(np.arange(rows) % folds)


def cross_validated(objective: Objective, theta: Array, method: str, options: MethodOptions, folds: int) -> float:
    """The (weighted) mean loss of every row, from a fit to the folds that it is not in; nan where there are too few.

    Each fit begins where that to all rows ended.

    Args:
        theta: of the fit to all rows.
        method: that found it.
        folds: how many parts the rows are divided into, at least 2 and at most as many as there are rows.
    """
    part_of = fold_numbers(objective.rows, folds, options.seed)
    if method in ("lm", "lbfgs"):
        options = dataclasses.replace(options, epochs=_EPOCHS)
    total = weight = 0.0
    for fold in range(folds):
        rest = objective.restricted(np.flatnonzero(part_of != fold))
        rest.start = theta
        if rest.has_residuals and rest.rows * rest.components < rest.layout.size:
            return math.nan
        outcome = optimize(method, rest, options, Progress())
        held_out = objective.restricted(np.flatnonzero(part_of == fold))
        if held_out.total_weight:
            total += held_out.value(outcome.theta) * held_out.total_weight
            weight += held_out.total_weight
    return total / weight
