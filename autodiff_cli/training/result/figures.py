"""The figures of a fit: how much it explains, how likely its data are, what its residuals look like."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.table import ARRAYS, quiet
from autodiff_cli.ops.gamma import lgamma
from autodiff_cli.training.objective.losses import LossKind
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.result.distributions import chi_squared_tail
from autodiff_cli.training.result.residuals import is_ordered
from autodiff_cli.training.rows.protocol import WEIGHT, Columns

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
        log_likelihood: of the data: for least squares normal, with the variance that makes them most likely, divided by
            the weights, or with the variances known where sigma is absolute.
        aic, aicc, bic: -2·log_likelihood and what k parameters cost; of least squares the variance is one of them, and
            what weights and known variances add, the same for all models of the same data, is left out.
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
    if length is not None and not math.isfinite(length):  # there is no loss here
        return Figures()
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
            of_residuals = _of_residuals(objective, theta)
            if objective.kernels.graphs.x_errors:  # weights depend on the parameters: these squares are no likelihood
                found = of_squares(length, count, dof, 0.0, absolute, of_residuals)
                return dataclasses.replace(found, log_likelihood=None)
            variation, of_weights = objective.target_variation(), log_weights(objective) if objective.weighted else 0.0
            return of_squares(length, count, dof, variation, absolute, of_residuals, of_weights)
        if objective.kind is LossKind.LIKELIHOOD:
            return _of_likelihood(objective, theta, count, dof)
    if objective.kind is LossKind.ROBUST and length is not None:
        return Figures(rmse=length / math.sqrt(count), **_of_residuals(objective, theta))
    return Figures()


def of_squares(
    length: float,
    count: int,
    dof: int,
    variation: float,
    absolute: bool,
    of_residuals: Mapping[str, Any],
    of_weights: float = 0.0,
) -> Figures:
    """The figures of least squares.

    Args:
        variation: the sum of squares of the target about its mean; 0 where it means nothing.
        of_residuals: the figures that look at each of them, by name.
        of_weights: the sum of the logarithms of the weights, which are as many times the precision as the others say;
            it is part of the likelihood, and of the criteria, which compare fits of the same weights, it is not.
    """
    free = count - dof
    logarithm = 2 * math.log(length) - math.log(count) if length != 0 else -math.inf
    log_likelihood = -count / 2 * (logarithm + 1 + math.log(2 * math.pi))
    known = -(length * length + count * math.log(2 * math.pi)) / 2
    scaled = length / math.sqrt(dof) if dof > 0 else None
    return Figures(
        rmse=length / math.sqrt(count),
        residual_std=scaled,
        adjusted_r_squared=1 - scaled * scaled * (count - 1) / variation
        if scaled is not None and variation > 0
        else None,
        reduced_chi_squared=None if scaled is None else scaled * scaled,
        chi_squared_p=chi_squared_tail(length * length, dof) if absolute and dof > 0 else None,
        **{
            **_criteria(log_likelihood, free + 1, count),
            "log_likelihood": (known if absolute else log_likelihood) + of_weights / 2,
        },
        **of_residuals,
    )


def log_weights(objective: Objective) -> float:
    """The sum of the logarithms of the weights that are not 0, for each number of the target."""
    total: float = objective.fold_columns({WEIGHT}, _log_weights, operator.add)
    return total * objective.components


def _log_weights(columns: Columns) -> float:
    weight = columns[WEIGHT]
    return float(np.sum(np.log(weight[weight > 0])))


def _of_likelihood(objective: Objective, theta: Array, count: int, dof: int) -> Figures:
    free = count - dof
    if objective.classes is not None or not objective.has_target:
        log_likelihood = -objective.value(theta) * objective.total_weight
        return Figures(deviance=-2 * log_likelihood, **_criteria(log_likelihood, free, count))
    kernels = objective.kernels
    total, weight = objective.fold_rows(kernels.target, theta, weighted_sum, np.add)
    compared = OfFamily(objective.loss, objective.components, total / weight)
    sums = FamilySums(*objective.fold_rows(kernels.target_and_prediction, theta, compared, np.add).tolist())
    deviance, dispersion = 2 * sums.deviance, None
    if objective.loss == "gamma":
        free += 1
        dispersion = sums.pearson / dof if dof > 0 else math.nan
        compared = dataclasses.replace(compared, dispersion=deviance / weight)
        sums = FamilySums(*objective.fold_rows(kernels.target_and_prediction, theta, compared, np.add).tolist())
    log_likelihood = sums.log_likelihood + (0.0 if sums.others else sums.ways)
    return Figures(
        deviance=deviance,
        null_deviance=2 * sums.null_deviance,
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
    found = plain = objective.per_row(objective.kernels.residuals, theta)
    if objective.weighted:
        weight = objective.column(WEIGHT)
        found, plain = plain * np.sqrt(weight), plain[:, weight > 0]
    total = float(np.sum(np.square(found)))
    ratio = None
    if objective.components == 1 and total > 0 and is_ordered(objective):
        ratio = float(np.sum(np.square(np.diff(found[0])))) / total
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


# --- likelihoods, as sums over rows


class FamilySums(NamedTuple):
    """What rows contribute, in halves of deviances.

    Attributes:
        ways: the logarithm of in how many ways so many of so many trials hit, where weights are numbers of trials.
        others: how many weights are none.
    """

    deviance: float
    null_deviance: float
    pearson: float
    log_likelihood: float
    ways: float
    others: float


def weighted_sum(target: Array, columns: Columns) -> Array:
    """The sum of the numbers of a block that count, each times its weight, and the sum of the weights."""
    target, weight = _counting(target, columns)
    return np.array([np.sum(target * weight), np.sum(weight)])


def _counting(values: Array, columns: Columns) -> tuple[Array, Array]:
    """Of values of shape (numbers, rows) those whose rows count, and the weight of each."""
    if WEIGHT not in columns:
        return values, np.ones_like(values)
    weight = columns[WEIGHT]
    counts = weight > 0
    return values[:, counts], np.broadcast_to(weight[counts], (len(values), int(counts.sum())))


@dataclass(frozen=True, slots=True)
class OfFamily:
    """The `FamilySums` of a block, of targets and predictions.

    Attributes:
        mean: of all targets.
        dispersion: where the likelihood needs it.
    """

    loss: str
    components: int
    mean: float
    dispersion: float = math.nan

    def __call__(self, values: Array, columns: Columns) -> Array:
        """See `FamilySums`."""
        values, weights = _counting(values, columns)
        y, p, w = values[: self.components], values[self.components :], weights[: self.components]
        deviance, likelihood = _FAMILIES[self.loss]
        of_rows = (
            deviance(y, p),
            deviance(y, np.full_like(y, self.mean)),
            np.square(y / p - 1),
            likelihood(y, p, self.dispersion),
        )
        ways, others = _ways(y, w) if self.loss == "bce" else (0.0, 0)
        return np.array([*(np.sum(w * each) for each in of_rows), ways, others])


def _surprise(y: Array, over: Array | float) -> Array:
    """y·log(y/over), 0 where y is 0."""
    found: Array = np.where(y > 0, y * np.log(np.where(y > 0, y, 1) / over), 0.0)
    return found


def _poisson_likelihood(y: Array, p: Array, _: float) -> Array:
    found: Array = np.where(y > 0, y * np.log(p), 0.0) - p - _log_gamma(y + 1)
    return found


def _binomial_likelihood(y: Array, p: Array, _: float) -> Array:
    found: Array = np.where(y > 0, y * np.log(p), 0.0) + np.where(y < 1, (1 - y) * np.log1p(-p), 0.0)
    return found


def _ways(y: Array, w: Array) -> tuple[float, int]:
    """Weights that are whole numbers, as their products with the target are, are numbers of trials: in how many ways
    that comes about, and for how many it does not hold."""
    are = (w == np.round(w)) & np.isclose(w * y, np.round(w * y))
    if not are.all():
        return 0.0, int(np.count_nonzero(~are))
    return float(np.sum(_log_gamma(w + 1) - _log_gamma(w * y + 1) - _log_gamma(w * (1 - y) + 1))), 0


def _gamma_likelihood(y: Array, p: Array, dispersion: float) -> Array:
    """With the dispersion that the deviance gives."""
    shape = 1 / dispersion
    found: Array = shape * np.log(shape * y / p) - shape * y / p - np.log(y) - _log_gamma(np.full_like(y, shape))
    return found


def _log_gamma(x: Array) -> Array:
    found: Array = np.asarray(ARRAYS.function(lgamma, 1)(x))
    return found


Deviance = Callable[[Array, Array], Array]
Likelihood = Callable[[Array, Array, float], Array]

_FAMILIES: dict[str, tuple[Deviance, Likelihood]] = {
    "poisson": (lambda y, p: _surprise(y, p) - (y - p), _poisson_likelihood),
    "bce": (lambda y, p: _surprise(y, p) + _surprise(1 - y, 1 - p), _binomial_likelihood),
    "gamma": (lambda y, p: (y - p) / p - np.log(y / p), _gamma_likelihood),
}
