"""Classes that a model tells apart completely: then its parameters have no finite best values."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.ops.activations import sigmoid
from autodiff_cli.ops.structural import softmax
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.result.accuracy import accuracy
from autodiff_cli.training.rows.protocol import Columns

Array = NDArray[np.float64]

_CERTAIN = 1e-8  # the loss of a row whose class is beyond doubt
_ADRIFT = 10.0  # standard errors per value of a parameter that runs to infinity


def has_no_end(objective: Objective, theta: Array) -> bool:
    """Whether a point where a method found no minimum lies on the way to one at infinity.

    Of scores that are linear in the parameters the loss is convex and never negative: if it has no minimum, it falls
    for ever towards some direction, along which rows are predicted ever more surely.
    """
    return _is_convex(objective) and bool(_sure(objective, theta))


def separation(objective: Objective, theta: Array, stderr: dict[str, Any]) -> str:
    """A sentence on parameters that have no finite best value, since the model separates classes; empty if they may.

    Args:
        stderr: of each parameter; None where it is not known.
    """
    if objective.loss not in ("bce", "cross_entropy") or objective.is_network or objective.is_penalised:
        return ""
    values = objective.layout.values(theta)
    running = [
        name
        for name, error in stderr.items()
        if error is not None and bool(np.any(np.abs(error) > _ADRIFT * np.abs(values[name])))
    ]
    sure = _sure(objective, theta)
    if sure and not running and _is_convex(objective) and accuracy(objective, theta) == 1:
        running = [*stderr]  # twice these parameters would be better still
    if not running or not sure:
        return ""
    listed = ", ".join(f"`{name}`" for name in running)
    rows = "1 row is" if sure == 1 else f"{sure} rows are"
    return (
        f"the model separates classes completely ({rows} predicted beyond doubt): {listed} would run to infinity, and "
        "values and errors mean nothing"
    )


def _is_convex(objective: Objective) -> bool:
    tells = objective.loss in ("bce", "cross_entropy") and objective.model.program.output.op in (sigmoid, softmax)
    return tells and objective.is_generalised_linear and not objective.is_penalised


def _sure(objective: Objective, theta: Array) -> int:
    """How many rows are predicted beyond doubt."""
    count: int = objective.fold_rows(objective.kernels.row_loss, theta, _certain, operator.add)
    return count


def _certain(loss: Array, _: Columns) -> int:
    return int((loss < _CERTAIN).sum())
