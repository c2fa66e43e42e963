"""The figures of a fit: how much it explains, how likely its data are, what its residuals look like."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.table import ARRAYS, quiet
from autodiff_cli.ops.gamma import lgamma
from autodiff_cli.training.objective.graphs import WEIGHT
from autodiff_cli.training.objective.losses import LossKind
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.result.distributions import chi_squared_tail
from autodiff_cli.training.result.residuals import is_ordered, residuals

Array = NDArray[np.float64]

_MOST_SORTED = 1_000_000  # rows, at most, whose residuals are kept and sorted


@dataclass(frozen=True, slots=True)
class Figures:
    """What is said of a fit as a whole; None is what does not apply.

    Attributes:
        rmse: the root of the mean (weighted) square of the residuals: √(rss/n).
        residual_std: the standard deviation of the residuals: √(rss/dof).
        adjusted_r_squared: R² with variances in the place of sums of squares.
        reduced_chi_squared: rss/dof; `chi_squared_p` is the probability of a larger one, where sigma is absolute.
        log_likelihood: of the data, normal with the variance that makes them most likely, for least squares.
        aic, aicc, bic: -2·log_likelihood and what k parameters cost; of least squares the variance is one of them.
        deviance: twice what a perfect fit's log-likelihood is more; `null_deviance` is that of the mean alone.
        dispersion: Pearson's estimate, of positive numbers whose spread is a share of their mean.
        residual_quantiles: least, lower quartile, median, upper quartile, most.
        durbin_watson: of residuals whose rows are ordered by the only predictor; 2 where neighbours are independent.
    """

    rmse: float | None = None
    residual_std: float | None = None
    adjusted_r_squared: float | None = None
    reduced_chi_squared: float | None = None
    chi_squared_p: float | None = None
    log_likelihood: float | None = None
    aic: float | None = None
    aicc: float | None = None
    bic: float | None = None
    deviance: float | None = None
    null_deviance: float | None = None
    dispersion: float | None = None
    residual_quantiles: tuple[float, ...] | None = None
    durbin_watson: float | None = None


def figures(objective: Objective, theta: Array, length: float | None, count: int, dof: int, absolute: bool) -> Figures:
    """The figures of a fit that ended at `theta`.

    Args:
        length: the root of the sum of squares; None without residuals.
        count: of numbers that count: those of the target, over all rows whose weight is not 0.
        dof: that minus the free parameters.
        absolute: whether the weights are 1/σ² of known errors.
    """
    if objective.is_network:  # whose parameters are no measure of anything
        return (
            Figures()
            if length is None or objective.kind is LossKind.LIKELIHOOD
            else Figures(rmse=length / math.sqrt(count))
        )
    if objective.is_penalised:  # what is found is not the most likely
        if length is None or objective.kind is LossKind.LIKELIHOOD:
            return Figures()
        return Figures(rmse=length / math.sqrt(count), **_of_residuals(objective, theta))
    with quiet():
        if objective.kind is LossKind.SQUARES and length is not None:
            variation = 0.0 if objective.kernels.graphs.x_errors else objective.target_variation()
            return of_squares(length, count, dof, variation, absolute, _of_residuals(objective, theta))
        if objective.kind is LossKind.LIKELIHOOD:
            return _of_likelihood(objective, theta, count, dof)
    if objective.kind is LossKind.ROBUST and length is not None:
        return Figures(rmse=length / math.sqrt(count), **_of_residuals(objective, theta))
    return Figures()


def of_squares(
    length: float, count: int, dof: int, variation: float, absolute: bool, of_residuals: Mapping[str, Any]
) -> Figures:
    """The figures of least squares.

    Args:
        variation: the sum of squares of the target about its mean; 0 where it means nothing.
        of_residuals: the figures that look at each of them, by name.
    """
    free = count - dof
    logarithm = 2 * math.log(length) - math.log(count) if length != 0 else -math.inf
    log_likelihood = -count / 2 * (logarithm + 1 + math.log(2 * math.pi))
    scaled = length / math.sqrt(dof) if dof > 0 else None
    return Figures(
        rmse=length / math.sqrt(count),
        residual_std=scaled,
        adjusted_r_squared=1 - scaled * scaled * (count - 1) / variation
        if scaled is not None and variation > 0
        else None,
        reduced_chi_squared=None if scaled is None else scaled * scaled,
        chi_squared_p=chi_squared_tail(length * length, dof) if absolute and dof > 0 else None,
        **_criteria(log_likelihood, free + 1, count),
        **of_residuals,
    )


def _of_likelihood(objective: Objective, theta: Array, count: int, dof: int) -> Figures:
    free = count - dof
    if objective.classes is not None or not objective.has_target:
        log_likelihood = -objective.value(theta) * objective.total_weight
        return Figures(deviance=-2 * log_likelihood, **_criteria(log_likelihood, free, count))
    target, prediction, weight = _compared(objective, theta)
    mean = np.average(target, weights=weight)
    deviance_of, log_likelihood_of = _FAMILIES[objective.loss]
    deviance = 2 * float(np.sum(weight * deviance_of(target, prediction)))
    dispersion = None
    if objective.loss == "gamma":
        free += 1
        dispersion = float(np.sum(weight * np.square(target / prediction - 1))) / dof if dof > 0 else math.nan
    log_likelihood = log_likelihood_of(target, prediction, weight, deviance / float(np.sum(weight)))
    return Figures(
        deviance=deviance,
        null_deviance=2 * float(np.sum(weight * deviance_of(target, np.full_like(target, mean)))),
        dispersion=dispersion,
        **_criteria(log_likelihood, free, count),
    )


def _criteria(log_likelihood: float, k: int, count: int) -> dict[str, Any]:
    """Akaike 1974, with the correction of Hurvich & Tsai 1989 for few rows; Schwarz 1978."""
    aic = 2 * k - 2 * log_likelihood
    return {
        "log_likelihood": log_likelihood,
        "aic": aic,
        "aicc": aic + 2 * k * (k + 1) / (count - k - 1) if count > k + 1 else math.inf,
        "bic": k * math.log(count) - 2 * log_likelihood,
    }


def _of_residuals(objective: Objective, theta: Array) -> dict[str, Any]:
    if objective.rows > _MOST_SORTED:
        return {}
    found = residuals(objective, theta)
    total = float(np.sum(np.square(found)))
    ratio = None
    if objective.components == 1 and total > 0 and is_ordered(objective):
        ratio = float(np.sum(np.square(np.diff(found[0])))) / total
    plain = objective.per_row(objective.kernels.residuals, theta)
    if objective.weighted:
        plain = plain[:, objective.table.columns[WEIGHT] > 0]
    if objective.kernels.graphs.x_errors:  # which are in the units of their errors
        return {"durbin_watson": ratio}
    return {"residual_quantiles": _quartiles(plain), "durbin_watson": ratio}


def _quartiles(values: Array) -> tuple[float, ...]:
    """The least, the quartiles and the most, by linear interpolation. NumPy's own function imports masked arrays."""
    ordered = np.sort(values, axis=None)
    places = np.array([0, 0.25, 0.5, 0.75, 1]) * (len(ordered) - 1)
    below = np.floor(places).astype(np.intp)
    found = ordered[below] + (places - below) * (ordered[np.ceil(places).astype(np.intp)] - ordered[below])
    return tuple(np.where(np.isnan(ordered[-1]), np.nan, found).tolist())


def _compared(objective: Objective, theta: Array) -> tuple[Array, Array, Array]:
    """The target, the prediction and the weight of every number that counts."""
    values = objective.per_row(objective.kernels.target_and_prediction, theta)
    target, prediction = values[: objective.components], values[objective.components :]
    weight = np.broadcast_to(objective.table.columns[WEIGHT] if objective.weighted else 1.0, target.shape)
    counts = weight > 0
    return target[counts], prediction[counts], weight[counts]


# --- what a number contributes to half of the deviance, and the log-likelihood of all


def _surprise(y: Array, over: Array) -> Array:
    """y·log(y/over), 0 where y is 0."""
    found: Array = np.where(y > 0, y * np.log(np.where(y > 0, y, 1) / over), 0.0)
    return found


def _poisson_likelihood(y: Array, p: Array, w: Array, _: float) -> float:
    return float(np.sum(w * (np.where(y > 0, y * np.log(p), 0.0) - p - _log_gamma(y + 1))))


def _binomial_likelihood(y: Array, p: Array, w: Array, _: float) -> float:
    """Weights that are whole numbers, as their products with the target are, are numbers of trials."""
    hits = np.where(y > 0, y * np.log(p), 0.0) + np.where(y < 1, (1 - y) * np.log1p(-p), 0.0)
    ways = 0.0
    if (w == np.round(w)).all() and np.allclose(w * y, np.round(w * y)):
        ways = float(np.sum(_log_gamma(w + 1) - _log_gamma(w * y + 1) - _log_gamma(w * (1 - y) + 1)))
    return float(np.sum(w * hits)) + ways


def _gamma_likelihood(y: Array, p: Array, w: Array, dispersion: float) -> float:
    """With the dispersion that the deviance gives."""
    shape = 1 / dispersion
    terms = shape * np.log(shape * y / p) - shape * y / p - np.log(y) - _log_gamma(np.full_like(y, shape))
    return float(np.sum(w * terms))


def _log_gamma(x: Array) -> Array:
    found: Array = np.asarray(ARRAYS.function(lgamma, 1)(x))
    return found


Deviance = Callable[[Array, Array], Array]
Likelihood = Callable[[Array, Array, Array, float], float]

_FAMILIES: dict[str, tuple[Deviance, Likelihood]] = {
    "poisson": (lambda y, p: _surprise(y, p) - (y - p), _poisson_likelihood),
    "bce": (lambda y, p: _surprise(y, p) + _surprise(1 - y, 1 - p), _binomial_likelihood),
    "gamma": (lambda y, p: (y - p) / p - np.log(y / p), _gamma_likelihood),
}
