"""What a fit says about its parameters, from the derivatives at the solution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays import quiet
from autodiff_cli.training.objective import Objective

Array = NDArray[np.float64]

# Columns of J, each scaled to length 1, count as dependent if a singular value is this small beside the largest: what
# rounding leaves of an exact 0, with room to spare. Of a Hessian, a square, only half of the digits can tell.
DEPENDENT = 1e-13
_DEPENDENT_SQUARE = 1e-7
MOST = 500  # free numbers, at most, for which a covariance, a matrix of all pairs, is worth its while
_NAMED = 10  # of the parameters that the data leave open
_INVOLVED = 1e-3  # the least share in a direction that the data leave open for a parameter to count as part of it

SCALED = "square roots of the diagonal of inv(J'J)*rss/dof"
SCALED_WEIGHTED = "square roots of the diagonal of inv(J'WJ)*rss/dof"
ABSOLUTE = "square roots of the diagonal of inv(J'WJ), W = 1/sigma^2, sigma taken as it is"
_LIKELIHOODS = ("bce", "cross_entropy")
LIKELIHOOD = "square roots of the diagonal of the inverse Hessian of the summed loss"


@dataclass(frozen=True, slots=True)
class Statistics:
    """How well the parameters are known.

    Attributes:
        rss: the (weighted) sum of squared residuals; None for a model without a target.
        dof: the numbers in the target, over all rows, minus those in the free parameters.
        r_squared: 1 - rss / (the target's sum of squares about its mean); nan if the target does not vary, None
            without one.
        covariance: of shape (P, P), in the order of `theta`; nan where it is not known.
        stderr: of each parameter by name; None where it is not known. Of an array it is an array, with nan for single
            numbers that are not known.
        definition: what `stderr` is, in words; empty if no parameter has one.
        reasons: a sentence for every None.
    """

    rss: float | None
    dof: int
    r_squared: float | None
    covariance: Array
    stderr: dict[str, Any]
    definition: str
    reasons: tuple[str, ...]


def statistics(objective: Objective, theta: Array, absolute: bool = False, solved: bool = True) -> Statistics:
    """The statistics of a fit that ended at `theta`.

    Args:
        solved: whether the fit got to a solution; standard errors mean nothing elsewhere.
        absolute: whether the weights are 1/σ² of known errors, so that the covariance is not scaled by rss/dof.
    """
    with quiet():
        return _statistics(objective, theta, absolute, solved)


def _statistics(objective: Objective, theta: Array, absolute: bool, solved: bool) -> Statistics:
    size = objective.layout.size
    dof = objective.rows * objective.components - size
    rss, explained = None, None
    if objective.has_residuals:
        rss = _rss(objective, theta)
        variation = objective.target_variation()
        explained = 1 - rss / variation if variation > 0 else math.nan
    definition = ""
    covariance: Array = np.broadcast_to(math.nan, (size, size))  # one nan in memory, however many pairs
    reason = _no_errors(objective, solved)
    if reason:
        reasons = [reason]
    elif objective.loss == "mse":
        definition = ABSOLUTE if absolute else SCALED_WEIGHTED if objective.weighted else SCALED
        covariance, reasons = _inverse(objective.triangle(theta)[:size, :size], objective.layout.numbers, DEPENDENT)
        if not absolute:
            covariance, reasons = _scaled(covariance, reasons, rss or 0.0, dof)
    else:
        definition = LIKELIHOOD
        covariance, reasons = _inverse_hessian(objective.hessian(theta), objective.layout.numbers)
    spread = np.sqrt(np.diag(covariance))
    stderr = {name: None if np.isnan(of).all() else of for name, of in objective.layout.values(spread).items()}
    known = definition if any(error is not None for error in stderr.values()) else ""
    return Statistics(rss, dof, explained, covariance, stderr, known, tuple(reasons))


def _rss(objective: Objective, theta: Array) -> float:
    if objective.layout.size > MOST or objective.is_network:
        return objective.rss(theta)
    return float(np.sum(np.square(objective.triangle(theta)[:, -1])))


def _no_errors(objective: Objective, solved: bool) -> str:
    """Why there are no standard errors, in words; empty if there may be some."""
    if not solved:
        return "no standard errors: the fit did not get to a solution"
    if not objective.has_target:
        return "no standard errors: a loss that is an expression has no residuals"
    if objective.is_network:
        return "no standard errors: units of a layer can change places, so that data do not determine its parameters"
    if objective.loss not in ("mse", *_LIKELIHOODS):
        return f"no standard errors: the loss {objective.loss} is not a likelihood"
    if objective.layout.size > MOST:
        return f"no standard errors: there are more than {MOST} parameters"
    return ""


def _scaled(inverse: Array, reasons: list[str], rss: float, dof: int) -> tuple[Array, list[str]]:
    if dof > 0:
        return inverse * (rss / dof), reasons
    more = "no standard errors: there are no more rows than parameters, so that nothing tells the size of the errors"
    return np.full_like(inverse, math.nan), [*reasons, more]


def _inverse_hessian(hessian: Array, names: Sequence[str]) -> tuple[Array, list[str]]:
    """inv(H), by a root of H: H = RᵀR, with the columns of H scaled so that its diagonal is 1."""
    if not np.isfinite(hessian).all():
        return _inverse(hessian, names, _DEPENDENT_SQUARE)
    scale = np.sqrt(np.maximum(np.diag(hessian), 0))
    safe = np.where(scale > 0, scale, 1.0)
    curvatures, directions = np.linalg.eigh(hessian / np.outer(safe, safe))
    root = np.sqrt(np.maximum(curvatures, 0))[:, None] * directions.T * scale
    return _inverse(root, names, _DEPENDENT_SQUARE)


def _inverse(factor: Array, names: Sequence[str], dependent: float) -> tuple[Array, list[str]]:
    """inv(RᵀR), with nan for parameters that R does not determine, and the reasons.

    Columns are scaled to length 1 first: that parameters differ in size does not make them badly determined.
    """
    if not np.isfinite(factor).all():
        return np.full(factor.shape, math.nan), ["no standard errors: the derivatives are not finite at the solution"]
    lengths = np.sqrt(np.sum(np.square(factor), axis=0))
    idle = lengths == 0
    scale = np.where(idle, 1.0, lengths)
    _, sizes, directions = np.linalg.svd(factor / scale)
    vanishing = sizes <= dependent * sizes[0]
    undetermined = (np.abs(directions[vanishing]) > _INVOLVED).any(axis=0) | idle
    kept = directions[~vanishing] / sizes[~vanishing, None]
    inverse = kept.T @ kept / np.outer(scale, scale)
    inverse[undetermined, :] = math.nan
    inverse[:, undetermined] = math.nan
    reasons = [
        f"`{name}` is undetermined: at the solution it has no effect on the prediction"
        for name, without in zip(names, idle, strict=True)
        if without
    ]
    tied = [f"`{name}`" for name, one, without in zip(names, undetermined, idle, strict=True) if one and not without]
    if tied:
        more = f" and {len(tied) - _NAMED} more" if len(tied) > _NAMED else ""
        reasons.append(f"the data determine only a combination of {', '.join(tied[:_NAMED])}{more}, not each of them")
    return inverse, reasons
