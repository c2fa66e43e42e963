"""How many rows a model that tells two things apart, or more, takes for what they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.training.objective.graphs import WEIGHT
from autodiff_cli.training.objective.objective import Objective

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
    target, prediction = objective.per_row(objective.kernels.target_and_prediction, theta)
    if objective.weighted:
        counts = objective.table.columns[WEIGHT] > 0
        target, prediction = target[counts], prediction[counts]
    if not np.isin(target, (0.0, 1.0)).all():
        return None
    return float(np.mean((prediction > 0.5) == (target > 0.5)))
