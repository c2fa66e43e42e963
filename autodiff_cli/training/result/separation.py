"""Classes that a model tells apart completely, all of them or some rows: then parameters have no finite best values."""

from __future__ import annotations

import operator

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
_COST = 0.1  # in log-likelihood, of a step of a tenth of an error: 0.005 of what has a minimum


def has_no_end(objective: Objective, theta: Array) -> bool:
    """Whether a point where a method found no minimum lies on the way to one at infinity.

    Of scores that are linear in the parameters the loss is convex and never negative: if it has no minimum, it falls
    for ever towards some direction, along which rows are predicted ever more surely.
    """
    return _is_convex(objective) and bool(_sure(objective, theta))


def separation(objective: Objective, theta: Array, covariance: Array) -> str:
    """A sentence on parameters that have no finite best value, since the model separates classes; empty if they may.

    Args:
        covariance: of the parameters, nan where it is not known.
    """
    if objective.loss not in ("bce", "cross_entropy") or objective.is_network or objective.is_penalised:
        return ""
    sure = _sure(objective, theta)
    if not sure:
        return ""
    known = ~np.isnan(np.diag(covariance))
    errors = np.sqrt(np.where(known, np.diag(covariance), 0.0))
    far = np.flatnonzero(errors > _ADRIFT * np.abs(theta))
    complete = accuracy(objective, theta) == 1
    if complete and not len(far) and _is_convex(objective):
        far = np.arange(len(theta))  # twice these parameters would be better still
    if not complete:
        far = far[[_counts(objective, theta, covariance[:, k] / covariance[k, k] * theta[k]) for k in far]]
    running = [name for name, place in objective.layout.places.items() if {*far.tolist()} & {*range(len(theta))[place]}]
    if not running:
        return ""
    listed = ", ".join(f"`{name}`" for name in running)
    rows = "1 row is" if sure == 1 else f"{sure} rows are"
    what = "classes completely" if complete else "some rows completely from those of other classes"
    whose = "values and errors" if complete else "the values and errors of such parameters"
    return (
        f"the model separates {what} ({rows} predicted beyond doubt): {listed} would run to infinity, and {whose} mean "
        "nothing"
    )


def _counts(objective: Objective, theta: Array, step: Array) -> bool:
    """Whether going back by a step that is small beside the errors costs anything: a parameter that is about 0 has a
    large error for its size too, but is not on its way to infinity."""
    there = np.where(np.isnan(step), theta, theta - step)
    return (objective.value(there) - objective.value(theta)) * objective.total_weight > _COST


def _is_convex(objective: Objective) -> bool:
    tells = objective.loss in ("bce", "cross_entropy") and objective.model.program.output.op in (sigmoid, softmax)
    return tells and objective.is_generalised_linear and not objective.is_penalised


def _sure(objective: Objective, theta: Array) -> int:
    """How many rows are predicted beyond doubt."""
    count: int = objective.fold_rows(objective.kernels.row_loss, theta, _certain, operator.add)
    return count


def _certain(loss: Array, _: Columns) -> int:
    return int((loss < _CERTAIN).sum())
