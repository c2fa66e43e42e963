"""What a softmax leaves open: directions in which all scores change alike, so that no probability does."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.training.objective.objective import Objective

Array = NDArray[np.float64]

_NOTHING = 1e-9  # of the largest curvature, parameters scaled: none


def gauge(objective: Objective, theta: Array) -> Array | None:
    """An orthonormal basis, of shape (P, directions), of what changes no prediction of a softmax of linear scores.

    None where the model is no such thing. Directions that the data leave open for other reasons are not among them.
    """
    if objective.loss != "cross_entropy" or objective.classes is None or not objective.is_generalised_linear:
        return None
    size, count = objective.layout.size, len(objective.classes)
    curvature = objective.curvature(theta)
    found = []
    for name, shape in objective.layout.shapes.items():
        if not shape or shape[0] != count:
            continue
        place = objective.layout.places[name]
        for column in range(math.prod(shape[1:])):
            direction = np.zeros(size)  # the same for all classes, along the first axis of weights and biases
            direction[place].reshape(count, -1)[:, column] = 1 / math.sqrt(count)
            if _is_flat(curvature, direction):
                found.append(direction)
    return np.array(found).reshape(len(found), size).T


def _is_flat(curvature: Array, direction: Array) -> bool:
    moved = np.abs(curvature @ direction)
    return bool((moved <= _NOTHING * np.sqrt(np.abs(np.diag(curvature)) * np.abs(np.diag(curvature)).max())).all())
