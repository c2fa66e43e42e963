"""Figures of fits that need every row: sums for the likelihoods of families, and of many groups together.

Sums over rows are folds of small picklable functions, so that they run block by block, also on a cluster.
`figures_of_groups` evaluates the rows of many groups in memory at once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.backends.protocol import RowKernel
from autodiff_cli.backends.reductions import svd
from autodiff_cli.numbers.arrays import ARRAYS
from autodiff_cli.ops.functions import lgamma, polygamma
from autodiff_cli.training.losses import HUBER_DELTA, LossKind
from autodiff_cli.training.objective.batch import Batch, Fits, GatheredRows, GroupBatch
from autodiff_cli.training.objective.kernels import Kernels
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.rows import WEIGHT, ColumnArrays, join_triangles, residual_triangle

_MIN_STIRLING = 100.0  # number from which two terms of Stirling's series give all digits
_MAX_ROUNDING = 1e-3  # distance from a whole number that the rounding of proportions in a file explains


class LikelihoodSums(NamedTuple):
    """Sums over rows for likelihoods, in halves of deviances; or their terms, which are arrays.

    Attributes:
        pearson, pearson_variance: Pearson's chi-squared, and its variance under the family.
        non_integers: the number of targets that are not the whole numbers that the family needs.
    """

    deviance: Any
    null_deviance: Any
    pearson: Any
    pearson_variance: Any
    log_likelihood: Any
    non_integers: Any


def _block_weights(values: Array, columns: ColumnArrays) -> Array:
    return np.broadcast_to(columns.get(WEIGHT, 1.0), values.shape)


def block_likelihood(
    loss: str, components: int, mean: float, shape: float, values: Array, columns: ColumnArrays
) -> Array:
    """Return the `LikelihoodSums` of a block of targets and predictions, as an array.

    Args:
        loss: the name of the loss.
        components: the number of components of the target.
        mean: the mean of all targets.
        shape: a further parameter of the distribution; see `row_likelihoods`.
        values: the targets and the predictions.
        columns: the columns of the block.
    """
    y, p = values[:components], values[components:]
    return np.array([*map(np.sum, row_likelihoods(loss, y, p, _block_weights(y, columns), mean, shape))])


def row_likelihoods(
    loss: str, y: Array, p: Array, w: Array, mean: Array | float, shape: float = math.nan
) -> LikelihoodSums:
    """Return the terms of `LikelihoodSums` for each value.

    Args:
        loss: the name of the loss.
        y, p, w: the targets, the predictions and the weights.
        mean: the mean of all targets.
        shape: the shape of gamma distributions, or theta of negative binomial ones.
    """
    of = DISTRIBUTIONS[loss]
    p = np.where(of.variance(p, shape) < 0, math.nan, p)  # no distribution has such a mean
    deviance = of.deviance(y, p, shape)
    return LikelihoodSums(
        w * deviance,
        w * of.deviance(y, np.broadcast_to(mean, y.shape), shape),
        w * np.square(pearson_residuals(loss, y, p, shape)),
        2 + of.excess_kurtosis(p, w),
        of.largest_log_likelihood(y, w, shape) - (shape if loss == "gamma" else 1) * w * deviance,
        np.any([np.zeros(y.shape), *(np.abs(x - np.round(x)) > _MAX_ROUNDING for x in of.counts(y, w))], axis=0),
    )


def pearson_residuals(loss: str, y: Array, p: Array, shape: float) -> Array:
    """Return the residuals in units of the standard deviations of a family; nan where no distribution has the mean.

    See `row_likelihoods` for the arguments.
    """
    # A certain prediction has no variance.
    return np.where(y == p, 0.0, (y - p) / np.sqrt(DISTRIBUTIONS[loss].variance(p, shape)))


def likely_values(kernels: Kernels, evaluate: Callable[[RowKernel], Array], predictor: Array) -> Array:
    """Return the most likely values of the only predictor, given those in the data; the same if it has no errors.

    Args:
        evaluate: returns the values of a kernel for the rows.
    """
    return evaluate(kernels.likely_predictor)[0] if kernels.graphs.x_errors else predictor


def residuals_of(objective: Objective, kernels: Kernels, evaluate: Callable[[RowKernel], Array]) -> Array:
    """Return target minus prediction, of shape (components, rows); for families the Pearson residuals.

    Args:
        kernels: the kernels of the objective, or of its groups.
        evaluate: returns the values of a kernel.
    """
    if objective.loss not in DISTRIBUTIONS:
        return evaluate(kernels.residuals)
    y, p = np.split(evaluate(kernels.target_and_prediction), 2)
    return pearson_residuals(objective.loss, y, p, objective.scale)


def _log_ratio(y: Array | float, p: Array | float) -> Array:
    """Return log(y/p), with all digits both for nearly equal numbers and for those of very different size."""
    excess = (y - p) / p
    return np.where(np.abs(excess) < 0.5, np.log1p(excess), np.log(y / p))


def _relative_entropy(y: Array | float, over: Array | float) -> Array:
    """Return y·log(y/over), with 0 where y is 0."""
    return np.where(y > 0, y * _log_ratio(np.where(y > 0, y, 1), over), 0.0)


def _remainder(x: Array | float) -> Array:
    """Return log(x!) - (x·log(x) - x), whose terms would cancel for large numbers (Loader 2000, Fast and Accurate
    Computation of Binomial Probabilities; the series is 6.1.41 of Abramowitz & Stegun 1964).
    """
    large = np.maximum(x, _MIN_STIRLING)
    log_factorial: Array = ARRAYS.function(lgamma, 1)(np.asarray(x) + 1)
    series = np.log(2 * math.pi * large) / 2 + (1 - 1 / (30 * large**2)) / (12 * large)
    return np.where(x < _MIN_STIRLING, log_factorial - _relative_entropy(x, 1.0) + x, series)


def _log_likelihood_of_trials(y: Array, w: Array, _: float) -> Array:
    """Return the log-likelihoods of proportions y of w trials if the prediction is equal to them."""
    successes = np.round(w * y)
    return _remainder(w) - _remainder(successes) - _remainder(w - successes)


class Distribution(NamedTuple):
    """A distribution of the target, as functions of the targets y, the predictions p, the weights w and a shape.

    Attributes:
        deviance: half of the deviance of each value, per trial.
        largest_log_likelihood: the log-likelihood of each value if the prediction is equal to it.
        variance: the variance of each value, per trial, up to the dispersion.
        excess_kurtosis: the excess kurtosis of each value, for p and the weights; 0 where nothing depends on it.
        counts: functions of y and the weights that must be whole numbers.
    """

    deviance: Callable[[Array, Array, float], Array]
    largest_log_likelihood: Callable[[Array, Array, float], Array]
    variance: Callable[[Array, float], Array]
    excess_kurtosis: Callable[[Array, Array], Array] = lambda p, _: np.zeros_like(p)
    counts: Callable[[Array, Array], tuple[Array, ...]] = lambda y, _: (y,)


DISTRIBUTIONS = {
    "poisson": Distribution(
        lambda y, p, _: _relative_entropy(y, p) - (y - p),
        lambda y, w, _: -w * _remainder(y),
        lambda p, _: p,
        lambda p, _: 1 / p,
    ),
    "bce": Distribution(
        lambda y, p, _: _relative_entropy(y, p) + _relative_entropy(1 - y, 1 - p),
        _log_likelihood_of_trials,
        lambda p, _: p * (1 - p),
        lambda p, w: (1 / (p * (1 - p)) - 6) / w,
        lambda y, w: (w, w * y),
    ),
    "gamma": Distribution(
        lambda y, p, _: (y - p) / p - _log_ratio(y, p),
        lambda y, w, k: w * (np.log(k / y) - _remainder(k)),
        lambda p, _: np.square(p),
        counts=lambda *_: (),
    ),
    "negative_binomial": Distribution(
        lambda y, p, theta: (
            np.where(y > 0, y * (np.log1p(theta / p) - np.log1p(theta / np.where(y > 0, y, 1))), 0.0)
            - theta * np.log1p((y - p) / (p + theta))
        ),
        lambda y, w, theta: w * (_remainder(y + theta) - _remainder(theta) - _remainder(y) - np.log1p(y / theta)),
        lambda p, theta: p + np.square(p) / theta,
    ),
}


def likelihood_sums(objective: Objective, theta: Array, *, of_constant: bool = False) -> LikelihoodSums:
    """Return the sums over all rows for the likelihood of a family.

    For negative binomial counts they use the theta of the fit, or the most likely theta for a constant.
    """
    kernels = objective.kernels

    def compute() -> LikelihoodSums:
        mean, weight = float(objective.target_spreads.means.mean()), objective.total_weight * objective.components

        def sums_at(shape: float) -> LikelihoodSums:
            reduce = functools.partial(block_likelihood, objective.loss, objective.components, mean, shape)
            return LikelihoodSums(*objective.fold_rows(kernels.target_and_prediction, theta, reduce, np.add).tolist())

        sums = sums_at(estimate_theta(objective, theta, mean) if of_constant else objective.scale)
        # The deviance of an exact fit is 0.
        return sums if objective.loss != "gamma" else sums_at(1 / max(2 * sums.deviance / weight, np.finfo(float).eps))

    return objective.cached_at(f"likelihood sums {of_constant}", theta, compute)


def information_triangle(
    loss: str, components: int, width: int, shape: float, values: Array, columns: ColumnArrays
) -> Array:
    """Return the triangular factor of a block of the Jacobian of the predictions and the predictions themselves, each
    row divided by the standard deviation of the target.

    Args:
        loss: the name of the loss.
        components: the number of components of the target.
        width: the number of columns of the matrix.
        shape: see `row_likelihoods`.
        values: the values of `Kernels.prediction_and_jacobian`.
        columns: the columns of the block.
    """
    by_component = values.reshape(components, width, -1)
    by_component /= np.sqrt(DISTRIBUTIONS[loss].variance(by_component[:, -1:], shape))
    return residual_triangle(components, width, values, columns)


def fisher_factor(objective: Objective, theta: Array) -> Array:
    """Return the triangular factor R, of shape (P, P), of the expected information RᵀR for dispersion 1 (Fisher's
    scoring).
    """
    size = objective.layout.size
    reduction = functools.partial(information_triangle, objective.loss, objective.components, size + 1, objective.scale)
    factor = objective.fold_rows(objective.kernels.prediction_and_jacobian, theta, reduction, join_triangles)
    return np.vstack((factor[:size, :size], np.zeros((max(size - len(factor), 0), size))))


# --- Theta of negative binomial counts

MAX_THETA = 1e7  # theta above which counts cannot be distinguished from Poisson counts
_MAX_THETA_STEPS = 1000
_LAST_STEP = 1e-8  # of the logarithm of theta: as Newton's method converges, the next step is its square
_DIGAMMA_TERMS = (1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)  # of x^-10 to x^-2 in log(x) - 1/(2*x) - ψ(x)
_TRIGAMMA_TERMS = (5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)  # and of x^-11 to x^-3 in ψ'(x) - 1/x - 1/(2*x^2)
_MIN_ASYMPTOTIC = 20.0  # argument above which these numbers give all digits


def theta_slopes(components: int, theta: float, mean: float | None, values: Array, columns: ColumnArrays) -> Array:
    """Return the derivative of the log-likelihood with respect to theta, and minus the second derivative, for a block
    of targets and predictions, or a mean in place of all predictions.
    """
    y, p = values[:components], values[components:] if mean is None else mean
    w = _block_weights(y, columns)
    excess = (y - p) / (p + theta)
    (near, near_slope), (far, far_slope) = _digamma_remainders(np.array(theta)), _digamma_remainders(y + theta)
    score = np.log1p(excess) - excess + far - near
    information = near_slope - far_slope - excess**2 / (y + theta)
    return np.array([np.sum(w * score), np.sum(w * information)])


def _digamma_remainders(x: Array) -> tuple[Array, Array]:
    """Return ψ(x) - log(x), and ψ'(x) - 1/x, for numbers above 0.

    For a large theta, differences of ψ itself would cancel. The expansions are 6.3.18 and 6.4.12 of Abramowitz & Stegun
    1964.
    """
    large = np.maximum(x, _MIN_ASYMPTOTIC)
    value = -0.5 / large - np.polyval(_DIGAMMA_TERMS, large**-2) / large**2
    slope = (0.5 + np.polyval(_TRIGAMMA_TERMS, large**-2) / large) / large**2
    digamma, trigamma = (ARRAYS.function(polygamma, 2)(np.full_like(x, order), x) for order in (0, 1))
    is_large = x >= _MIN_ASYMPTOTIC
    return np.where(is_large, value, digamma - np.log(x)), np.where(is_large, slope, trigamma - 1 / x)


def estimate_theta(objective: Objective, theta: Array, mean: float | None = None) -> float:
    """Return the maximum likelihood estimate of theta of negative binomial counts.

    Newton's method finds its logarithm. It is `MAX_THETA` if the counts scatter no more than Poisson counts.

    Args:
        theta: the parameters of the model, which predicts the mean of each count.
        mean: one mean for all counts, in place of the predictions.
    """
    estimate = min(objective.scale, 1.0)
    for _ in range(_MAX_THETA_STEPS):
        slopes = functools.partial(theta_slopes, objective.components, estimate, mean)
        score, information = objective.fold_rows(objective.kernels.target_and_prediction, theta, slopes, np.add)
        curvature = estimate * estimate * information - estimate * score
        step = min(max(estimate * score / curvature, -1.0), 1.0) if curvature > 0 else math.copysign(1.0, score)
        estimate = min(estimate * math.exp(step), MAX_THETA)  # nan stays nan
        if not abs(step) > _LAST_STEP or estimate == MAX_THETA:
            break
    return estimate


# --- Figures of many groups


class RowFigures(NamedTuple):
    """Figures of all rows that the goodness of a fit needs, if they are known already; see `figures_of_groups`.

    Attributes:
        residuals: the figures that need every residual, by name.
        log_weights: the sum of the logarithms of the positive weights, counted once per target component.
        variation: the sum of squares of the target about its mean.
        sums: the sums for the likelihood of a family.
        rank_with_constant: see `goodness.rank_with_constant`.
    """

    residuals: Mapping[str, Any]
    log_weights: float
    variation: float
    sums: LikelihoodSums
    rank_with_constant: int


_MIN_SCATTER_ROWS = 30  # rows; with fewer, the scatter of residuals is not conclusive
_QUANTILE_LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
_SPAN_TOLERANCE = 1e-9  # share of a constant outside of the span of a model that counts as rounding


def figures_of_groups(batch: Batch, theta: Array, ranks: Array) -> list[RowFigures | None]:
    """Return the figures of the groups of a batch; None where they have to be computed one group after the other.

    Args:
        ranks: the numbers of combinations of parameters that the rows of each group determine.
    """
    objective = batch.objective
    has_residuals = objective.kind in (LossKind.SQUARES, LossKind.ROBUST)
    has_sums = objective.loss == "poisson"
    if not isinstance(batch, GroupBatch) or objective.is_penalised or not (has_residuals or has_sums):
        return [None] * len(theta)
    figures: list[RowFigures | None] = []
    for fits in batch.parts():
        points, count = theta[fits], len(fits)
        target, predictions = np.split(batch.evaluate(objective.kernels.by_row.target_and_prediction, points, fits), 2)
        gathered, residuals = batch.rows_of(fits), target - predictions
        weights = gathered.weights
        if not np.isfinite(residuals).all():
            figures += [None] * count
            continue
        log_weights = gathered.totals(np.log(weights)) * objective.components
        means = gathered.totals(np.sum(target * weights, axis=0)) / (gathered.totals(weights) * len(target))
        by_row = gathered.spread(means)
        sums = np.zeros((count, len(LikelihoodSums._fields)))
        of_residuals: list[dict[str, Any]] = [{}] * count
        if has_sums:
            of_rows = row_likelihoods(objective.loss, target, predictions, weights, by_row)
            sums = np.array([gathered.totals(np.sum(row, axis=0)) for row in of_rows]).T
        else:
            of_residuals = residual_figures(objective, gathered, residuals, predictions, ranks[fits])
        rows = zip(
            of_residuals,
            log_weights.tolist(),
            batch.target_variations(fits).tolist(),
            [LikelihoodSums(*each) for each in sums.tolist()],
            _ranks_of_groups(batch, fits).tolist(),
            strict=True,
        )
        figures += [RowFigures(*each) for each in rows]
    return figures


def residual_figures(
    objective: Objective, rows: GatheredRows, residuals: Array, predictions: Array, ranks: Array
) -> list[dict[str, Any]]:
    """Return the figures of groups that need every residual, by name, for each group.

    They are the quantiles of the residuals and, for weighted residuals, the largest one, the trend of their scatter,
    and the Durbin–Watson statistic. The last is None unless the rows are sorted by the only predictor. Robust fits also
    have the standard deviation of the weighted residuals without outliers, from the `ranks` of the models.
    """
    quantiles, weighted = rows.quantiles(residuals, _QUANTILE_LEVELS).tolist(), residuals * np.sqrt(rows.weights)
    ratios = _durbin_watson(objective, rows, weighted).tolist()
    largest = np.maximum.reduceat(np.abs(weighted).max(axis=0), rows.starts).tolist()
    trends = _scatter_trends(rows, np.abs(weighted), predictions).tolist()
    figures: list[dict[str, Any]] = [
        {
            "residual_quantiles": tuple(levels),
            "durbin_watson": None if math.isnan(ratio) else ratio,
            "largest_residual": size,
            "scatter_trend": trend,
        }
        for levels, ratio, size, trend in zip(quantiles, ratios, largest, trends, strict=True)
    ]
    if objective.kind is LossKind.ROBUST:
        for each, deviation in zip(figures, _robust_deviations(rows, weighted, ranks), strict=True):
            each["residual_std"] = float(deviation) if math.isfinite(deviation) else None
    return figures


_WINSOR_MEAN = 0.7101645482690485  # mean of min(z², k²) for a normal z and k = HUBER_DELTA
_WINSOR_CONVERGED = 1 - 1e-9  # ratio of a variance to the last one, above which it has converged


def _robust_deviations(rows: GatheredRows, residuals: Array, ranks: Array) -> Array:
    """Return the standard deviation of the residuals of each group, without outliers; nan without degrees of freedom.

    It solves Σ min(r²/s², k²) = dof·E min(z², k²) for a normal z: proposal 2 of Huber 1964, Ann. Math. Stat. 35, 73. It
    is twice as efficient as the median absolute residual. Degrees of freedom in place of the number of rows correct it
    for few rows, as `rlm` with `scale.est = "proposal 2"` does: Venables & Ripley 2002, section 6.5.
    """
    dofs = rows.sizes * len(residuals) - ranks
    squares, units = np.square(residuals), np.where(dofs > 0, dofs * _WINSOR_MEAN, math.nan)
    variances, last = rows.totals(squares).sum(axis=0) / units, np.full(len(units), math.inf)
    while (variances < _WINSOR_CONVERGED * last).any():
        last, limits = variances, HUBER_DELTA**2 * rows.spread(variances)
        variances = rows.totals(np.minimum(squares, limits)).sum(axis=0) / units
    return np.asarray(np.sqrt(variances))


def _scatter_trends(rows: GatheredRows, sizes: Array, predictions: Array) -> Array:
    """Return Spearman's rank correlation of the sizes of residuals with the predictions of each group, in standard
    errors from 0; 0 for few rows and for several components.
    """
    is_known = (rows.sizes >= _MIN_SCATTER_ROWS) & (len(sizes) == 1)
    if not is_known.any():
        return np.zeros(len(is_known))
    x, y = (_centred_ranks(rows, values[0]) for values in (sizes, predictions))
    norms = np.sqrt(rows.totals(np.square(x)) * rows.totals(np.square(y)))
    ratios = np.divide(rows.totals(x * y), norms, out=np.zeros_like(norms), where=is_known & (norms > 0))
    return ratios * np.sqrt(rows.sizes - 1)


def _centred_ranks(rows: GatheredRows, values: Array) -> Array:
    """Return the ranks of values within their groups, minus the mean; equal values share the mean of their ranks."""
    # The order of equal values does not matter, and `lexsort` takes three times as long as `argsort`.
    groups = rows.spread(np.arange(len(rows.sizes)))
    order = np.lexsort((values, groups)) if groups[-1] else np.argsort(values)
    is_first = differences(values[order], rows.starts) != 0
    is_first[rows.starts] = True
    first, ranks = np.flatnonzero(is_first), np.empty(rows.count)
    lengths = np.diff(first, append=rows.count)
    ranks[order] = np.repeat(first + lengths / 2, lengths) - rows.spread(rows.starts + rows.sizes / 2)
    return ranks


def _durbin_watson(objective: Objective, rows: GatheredRows, residuals: Array) -> Array:
    """Return the Durbin–Watson statistics of some groups; nan if their rows are not sorted by the only predictor."""
    starts, predictors = rows.starts, objective.model.predictors
    if objective.components != 1 or len(predictors) != 1 or predictors[0] not in objective.data.names:
        return np.full(len(starts), math.nan)
    steps = differences(rows.column(predictors[0]).astype(np.float64, copy=False), starts)
    squares = np.square(differences(residuals[0], starts))
    low, high = np.minimum.reduceat(steps, starts), np.maximum.reduceat(steps, starts)
    is_sorted, total = ((low >= 0) | (high <= 0)) & (low != high), rows.totals(np.square(residuals[0]))
    return np.where(is_sorted & (total > 0), rows.totals(squares) / np.where(total > 0, total, 1.0), math.nan)


def differences(values: Array, starts: Fits) -> Array:
    """Return by how much each value exceeds the one before, along the last axis; 0 for the first value of each group.

    >>> differences(np.array([1.0, 3, 7, 8]), np.array([0, 2])).tolist()
    [0.0, 2.0, 0.0, 1.0]
    """
    steps = np.zeros(values.shape)
    np.subtract(values[..., 1:], values[..., :-1], out=steps[..., 1:])
    steps[..., starts] = 0.0
    return steps


def can_have_constant(objective: Objective) -> bool:
    """Return whether a model is linear up to its link, so that it may contain a constant."""
    return objective.is_generalised_linear and objective.components == 1 and objective.classes is None


def _ranks_of_groups(batch: GroupBatch, fits: Fits) -> NDArray[np.intp]:
    """Return the rank of the model of each group if it contains a constant; see `goodness.rank_with_constant`."""
    at_0 = np.zeros((len(fits), batch.objective.layout.size))
    if not can_have_constant(batch.objective) or at_0.shape[1] < 2:
        return np.zeros(len(fits), np.intp)
    columns = batch.evaluate(batch.objective.kernels.by_row.prediction_and_jacobian, at_0, fits)
    return ranks_with_constant(batch.rows_of(fits), columns)


def ranks_with_constant(rows: GatheredRows, columns: Array) -> NDArray[np.intp]:
    """Return the rank of a model that is linear up to its link in each group where a constant is a special case of it,
    and 0 for other groups.

    The derivatives of the prediction then span a constant, and no column is an offset, such as `x` in `a + b*z + x`.

    Args:
        rows: the rows of the groups.
        columns: the derivatives with respect to the parameters, and the prediction, where all parameters are 0.
    """
    low, high = (ends.reduceat(columns[-1], rows.starts) for ends in (np.minimum, np.maximum))
    columns = np.vstack((columns[:-1], np.ones_like(columns[-1])))
    lengths = np.sqrt(rows.totals(np.square(columns)))
    columns /= rows.spread(np.where(lengths > 0, lengths, 1.0))
    triangles = rows.factorize(columns[None])
    is_known = np.isfinite(triangles).all(axis=(1, 2)) & (low == high)
    triangles[~is_known] = 0.0
    directions, singular_values, _ = svd(triangles[:, :, :-1], full_matrices=False)
    limits = np.finfo(np.float64).eps * np.maximum(rows.sizes, len(columns) - 1) * singular_values[:, 0]
    is_spanned = singular_values > limits[:, None]
    constants = triangles[:, :, -1:]
    within = directions * is_spanned[:, None, :]
    outside = np.linalg.norm(constants - within @ (within.swapaxes(1, 2) @ constants), axis=(1, 2))
    return np.where(is_known & (outside <= _SPAN_TOLERANCE), np.count_nonzero(is_spanned, axis=1), 0)
