"""How many rows a model that tells two things apart, or more, takes for what they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.rows.protocol import WEIGHT, Columns

Array = NDArray[np.float64]


def accuracy(objective: Objective, theta: Array) -> float | None:
    """The share of the rows whose class is predicted; of probabilities, those on the right side of 1/2. None where the
    model predicts no classes.

    >>> objective = Objective("t ~ sigmoid(a*x)", {"x": [-1, 1, 2], "t": [0, 1, 0]}, loss="bce")
    >>> round(accuracy(objective, np.array([1.0])), 4)
    0.6667
    """
    if objective.classes is not None:
        confusion = objective.confusion(theta)
        return float(np.trace(confusion) / np.sum(confusion))
    if objective.loss != "bce" or objective.components != 1:
        return None
    others, right, count = objective.fold_rows(objective.kernels.target_and_prediction, theta, _sides, np.add)
    return None if others else float(right / count)


def _sides(values: Array, columns: Columns) -> NDArray[np.intp]:
    """How many targets are neither 0 nor 1, how many are predicted on their side, and how many there are."""
    target, prediction = values[:, columns[WEIGHT] > 0] if WEIGHT in columns else values
    others = np.count_nonzero((target != 0) & (target != 1))
    return np.array([others, np.count_nonzero((prediction > 0.5) == (target > 0.5)), len(target)])
