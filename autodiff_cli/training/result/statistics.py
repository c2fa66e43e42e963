"""Standard errors and covariances of parameters, from the derivatives of the loss at the solution.

`compute_statistics` chooses the estimator for the loss: the Jacobian for least squares, the Hessian for likelihoods,
Huber's formula for robust losses, a sandwich estimator for penalised ones. It also reports what makes standard errors
impossible or misleading. The reasons are parameters that the data do not determine, strong correlations, bounds,
complete separation of classes, and a fit that stopped before the minimum.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, Mask, ignore_float_errors
from autodiff_cli.backends.reductions import eigh, svd
from autodiff_cli.data.json_records import NAN_IS_NULL, NOT_IN_DOCUMENT
from autodiff_cli.language.errors import format_correlation, format_names, pluralize
from autodiff_cli.numbers.arrays import dots
from autodiff_cli.training.losses import L1_FACTOR, LossKind
from autodiff_cli.training.methods.least_squares import DEPENDENCE_TOLERANCE, fit_least_squares, norms
from autodiff_cli.training.objective import batch as batches
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.result.goodness import GoodnessOfFit, find_separation, goodness_of_fit, influence_norms
from autodiff_cli.training.result.row_figures import figures_of_groups, fisher_factor, likelihood_sums


class CovarianceSettings(NamedTuple):
    """Thresholds of covariances, and how many problems are listed."""

    hessian_tolerance: float = 1e-7  # relative singular value that counts as 0: squaring loses half of the digits
    null_space_share: float = 1e-3  # component of an undetermined direction above which a parameter is undetermined
    null_space_tolerance: float = 1e-8  # share of a gradient in undetermined directions that is not rounding
    rounding: float = 1e-12  # share of the largest gradient that may be rounding
    high_correlation: float = 0.999  # correlation above which two imprecise parameters are reported
    extreme_correlation: float = 0.999999  # correlation above which any two parameters are reported
    large_relative_error: float = 0.1  # standard error relative to the value that makes a parameter imprecise
    unlimited_relative_error: float = 10.0  # with a larger one, a parameter may have no finite estimate; where R² is 1,
    exact_relative_error: float = 1e-4  # errors of finite estimates are smaller
    perfect_variation: float = 1e-28  # share of the target's variation below which only the rounding of data is left
    max_minimum_distance: float = 0.5  # standard errors to the minimum, beyond which they are not reported
    max_pairs_shown: int = 3  # correlated pairs in warnings
    max_bounds_shown: int = 10  # parameters on a bound in warnings


COVARIANCE = CovarianceSettings()


class Covariances(NamedTuple):
    """The covariances of a batch of fits, factored so that nothing overflows or underflows.

    A covariance is an inverse matrix times the square of a scale, with a unit for each parameter.

    Attributes:
        inverses: the inverse matrices, of shape (fits, P, P), for parameters in units of 1/units; nan for those that
            are fixed, or that the data do not determine.
        reasons: for each fit a sentence for each reason for which elements are unknown.
        nullities: the number of directions that the data do not determine, for each fit.
        factors: the matrices R of inverses inv(RᵀR), of shape (fits, P, P); 0 for other inverses.
        scales: the factor of all standard errors of a fit; nan if it is unknown.
        units: the unit of each parameter is 1/units; of shape (fits, P).
        definition: a description of the standard errors.
    """

    inverses: Array
    reasons: list[list[str]]
    nullities: NDArray[np.intp]
    factors: Array
    scales: Array
    units: Array
    definition: str = ""

    @property
    def standard_errors(self) -> Array:
        """The standard errors, of shape (fits, P)."""
        return np.sqrt(np.diagonal(self.inverses, axis1=1, axis2=2)) * (self.scales[:, None] / self.units)

    def partial_factor(self, fit: int) -> Array | None:
        """Return the factor R of the covariance inv(RᵀR) of a fit that determines only combinations of parameters."""
        is_known = self.nullities[fit] and self.scales[fit] > 0 and self.factors[fit].any()
        return np.asarray(self.factors[fit] * self.units[fit] / self.scales[fit]) if is_known else None


def inverse_hessians(
    hessians: Array, names: Sequence[str], free: Mask | None = None, tolerance: float = COVARIANCE.hessian_tolerance
) -> Covariances:
    """Return the inverses of Hessians H = RᵀR, of shape (fits, P, P), scaled to unit diagonals; see `inverse_grams`.

    >>> inverse_hessians(np.diag([4.0, 1e-6])[None], ["a", "b"]).inverses[0].diagonal().tolist()
    [0.25, 1000000.0]
    """
    is_finite = np.isfinite(hessians).all(axis=(1, 2), keepdims=True)
    scale = np.sqrt(np.maximum(np.diagonal(hessians, axis1=1, axis2=2), 0.0))
    safe = np.where(scale > 0, scale, 1.0)
    scaled = np.where(is_finite, hessians / (safe[:, :, None] * safe[:, None, :]), np.eye(len(names)))
    curvatures, directions = eigh(scaled)
    roots = np.sqrt(np.maximum(curvatures, 0.0))[:, :, None] * directions.swapaxes(1, 2) * scale[:, None, :]
    return inverse_grams(np.where(is_finite, roots, np.nan), names, free, tolerance)


def inverse_grams(
    factors: Array, names: Sequence[str], free: Mask | None = None, tolerance: float = DEPENDENCE_TOLERANCE
) -> Covariances:
    """Return inv(RᵀR) for each fit.

    The columns of R are scaled to length 1 first, so that small parameters do not count as undetermined.

    Args:
        factors: R, of shape (fits, n, P) with n at least P.
        names: the names of the parameters.
        free: the mask, of shape (fits, P), of the parameters that are not fixed, by default all. The columns of the
            fixed ones are 0.
        tolerance: the singular value, relative to the largest, that counts as 0.

    >>> found = inverse_grams(np.array([[[1.0, 2.0], [0.0, 0.0]]]), ["a", "b"])
    >>> found.reasons[0][0].partition(",")[0], found.nullities.tolist()
    ('the data determine only a combination of `a`', [1])
    """
    is_finite: Mask = np.asarray(np.isfinite(factors).all(axis=(1, 2)))
    known = np.where(is_finite[:, None, None], factors, 0.0)
    scale, singular_values, directions, is_null = scaled_svd(known, tolerance)
    roots = directions / np.where(is_null, math.inf, singular_values)[:, :, None]
    inverses: Array = roots.swapaxes(1, 2) @ roots / (scale[:, :, None] * scale[:, None, :])
    fixed = np.zeros(scale.shape, np.bool_) if free is None else ~free
    nullities = np.where(is_finite, np.count_nonzero(is_null, axis=1) - np.count_nonzero(fixed, axis=1), 0)
    reasons = [list[str]() for _ in factors]
    ones = np.ones(len(factors)), np.ones_like(scale)
    if not np.count_nonzero(is_null):
        return Covariances(inverses, reasons, nullities, known, *ones)
    has_no_effect = np.sum(np.square(known), axis=1) == 0
    is_in_null_space = is_null[:, :, None] & (np.abs(directions) > COVARIANCE.null_space_share)
    undetermined = is_in_null_space.any(axis=1) | has_no_effect
    inverses[undetermined[:, :, None] | undetermined[:, None, :]] = math.nan
    undetermined, has_no_effect = undetermined & ~fixed, has_no_effect & ~fixed
    is_jacobian = tolerance == DEPENDENCE_TOLERANCE
    why = "small changes of it do not change the prediction" if is_jacobian else "the loss has no curvature in it"
    for fit in np.flatnonzero(undetermined.any(axis=1)).tolist():
        if not is_finite[fit]:
            reasons[fit].append("no standard errors: the derivatives are not finite at the solution")
            continue
        reasons[fit] += [
            f"`{names[k]}` is not determined: {why} at the solution"
            for k in np.flatnonzero(has_no_effect[fit]).tolist()
        ]
        dependent = [names[k] for k in np.flatnonzero(undetermined[fit] & ~has_no_effect[fit]).tolist()]
        if dependent:
            listed = format_names(dependent, "`")
            missing = int(nullities[fit] - np.count_nonzero(has_no_effect[fit]))
            count = missing if missing > 1 else "one"
            advice = f"fix {count} of them with `train --fix`, or leave {count} out"
            reasons[fit].append(f"the data determine only a combination of {listed}, not each of them; {advice}")
    # Without the undetermined directions, so that they are the null space of the factor for any tolerance.
    determined = np.where(is_null, 0.0, singular_values)[:, :, None] * directions * scale[:, None, :]
    return Covariances(inverses, reasons, nullities, determined, *ones)


def combination_variances(slopes: Array, factor: Array) -> Array:
    """Return the variances gᵀ·inv(RᵀR)·g of quantities with some gradients g, of shape (quantities, P).

    They are nan for quantities that change in directions that R does not determine.

    >>> combination_variances(np.array([[1.0, 2.0], [1.0, 0.0]]), np.array([[1.0, 2.0], [0.0, 0.0]])).round(12).tolist()
    [1.0, nan]
    """
    scale, singular_values, directions, is_null = scaled_svd(factor, DEPENDENCE_TOLERANCE)
    components = slopes / scale @ directions.T
    lengths = np.linalg.norm(components, axis=1, keepdims=True)
    # Rows of a triangular factor may be rounding errors of other rows.
    limits = COVARIANCE.null_space_tolerance * lengths + COVARIANCE.rounding * np.linalg.norm(lengths)
    is_unknown = (np.abs(components[:, is_null]) > limits).any(axis=1)
    variances = np.sum(np.square(components[:, ~is_null] / singular_values[~is_null]), axis=1)
    return np.where(is_unknown, math.nan, variances)


def delta_method_variances(gradients: Array, statistics: FitStatistics, errors: Array) -> Array:
    """Return the variances of quantities with some gradients, of shape (quantities, P); nan for unknown ones.

    A quantity can be known although its parameters are not, such as `a*b` in the model `a*b*x`.

    Args:
        errors: the standard errors of the parameters, nan for unknown ones and 0 for those that are taken as fixed.
    """
    is_known = ~np.isnan(errors)
    used = np.flatnonzero(is_known & (gradients != 0).any(axis=0))  # a network has many parameters, all unknown
    changes = gradients[:, used] * errors[used]
    variances = np.sum((changes @ np.nan_to_num(statistics.correlation[np.ix_(used, used)])) * changes, axis=1)
    is_open = (gradients[:, ~is_known] != 0).any(axis=1)
    variances[is_open] = math.nan
    if statistics.partial_factor is not None:
        varied = gradients[is_open] * ((errors > 0) | ~is_known)
        variances[is_open] = combination_variances(varied, statistics.partial_factor)
    return np.asarray(np.maximum(variances, 0.0))


def undetermined(objective: Objective, theta: Array) -> Mask:
    """Return which parameters the rows do not determine at a point.

    >>> undetermined(Objective("y ~ a*b*x + c", {"x": [0, 1, 2], "y": [1, 2, 4]}), np.array([1.0, 2.0, 1.0])).tolist()
    [True, True, False]
    """
    return np.asarray(undetermined_each(batches.ObjectiveBatch([objective]), theta[None])[0])


def undetermined_each(batch: batches.Batch, theta: Array) -> Mask:
    """Return which parameters the rows of each fit of a batch do not determine, at points of shape (fits, P)."""
    if batch.objective.has_residuals:
        factors = batch.triangles(theta, np.arange(len(theta)))[:, :, :-1]
    else:
        factors = np.array([batch.objective_of(fit).score_triangle(point) for fit, point in enumerate(theta)])
    return np.asarray(np.isnan(np.diagonal(_by_units(factors, batch.objective).inverses, axis1=1, axis2=2)))


def scaled_svd(factors: Array, tolerance: float) -> tuple[Array, Array, Array, Mask]:
    """Return the lengths of the columns of matrices (1 for 0), the singular values and right singular vectors with
    columns of length 1, and which singular values count as 0.
    """
    lengths = np.sqrt(np.sum(np.square(factors), axis=-2))
    scale = np.where(lengths == 0, 1.0, lengths)
    _, singular_values, directions = svd(factors / scale[..., None, :])
    return scale, singular_values, directions, singular_values <= tolerance * singular_values[..., :1]


def high_correlation_warnings(names: Sequence[str], is_imprecise: Mask, matrix: Array) -> list[str]:
    """Return a sentence for each pair of parameters with a correlation near ±1, of which at least one is imprecise.

    >>> high_correlation_warnings(["a", "b"], np.ones(2, np.bool_), np.array([[1, -0.99999], [-0.99999, 1]]))
    ['`a` and `b` are hardly distinguishable with these data: their correlation is -0.99999']
    """
    sizes = np.abs(matrix)  # rounded to sort pairs, so that rounding errors do not decide the order
    is_reported = (sizes > COVARIANCE.high_correlation) & (is_imprecise | is_imprecise[:, None])
    is_reported |= sizes > COVARIANCE.extreme_correlation
    pairs = sorted(zip(*np.nonzero(np.triu(is_reported, 1)), strict=True), key=lambda pair: -sizes[pair].round(12))
    warnings = [
        f"`{names[i]}` and `{names[j]}` are hardly distinguishable with these data: "
        f"their correlation is {format_correlation(matrix[i, j], 5)}"
        for i, j in pairs[: COVARIANCE.max_pairs_shown]
    ]
    rest = len(pairs) - len(warnings)
    return [*warnings, f"the same is true of {pluralize(rest, 'more pair')} of parameters"] if rest else warnings


def correlations(covariance: Array) -> Array:
    """Return the correlation matrices of covariances, of shape (…, P, P); nan where a variance is unknown or 0.

    >>> correlations(np.array([[4.0, 1.0], [1.0, 1.0]])).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    deviations = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    deviations = np.where(deviations > 0, deviations, math.nan)
    # Rounding errors of a nearly singular covariance lead beyond 1.
    matrix: Array = np.clip(covariance / deviations[..., None] / deviations[..., None, :], -1.0, 1.0)
    every = np.arange(matrix.shape[-1])
    matrix[..., every, every] = np.where(np.isnan(deviations), math.nan, 1.0)
    return matrix


def flat_errors(stderr: Mapping[str, Any | None], values: Mapping[str, Any]) -> Array:
    """Return the standard errors of all elements of parameters in a row; nan where they are unknown.

    Args:
        values: the parameters by name, which may be among others.
    """
    errors = ((values[name], math.nan if error is None else error) for name, error in stderr.items())
    return np.concatenate([np.broadcast_to(error, np.shape(value)).ravel() for value, error in errors])


def errors_by_name(objective: Objective, errors: Array) -> dict[str, Any | None]:
    """Return the standard errors of all elements by parameter; None where all of a parameter are unknown."""
    values = objective.layout.values(errors).items()
    return {name: None if np.isnan(error).all() else error for name, error in values}


# --- Statistics of a fit


MAX_COVARIANCE_SIZE = 500  # free numbers; a larger covariance matrix is slow and unreadable

SCALED = "square roots of the diagonal of inv(J'J)*rss/dof"
_EFFECTIVE_VARIANCE = "W = 1/(sigma^2 + (df/dx*sigma_x)^2)"
SCALED_EFFECTIVE = f"square roots of the diagonal of inv(J'WJ)*rss/dof, {_EFFECTIVE_VARIANCE}"
ABSOLUTE_EFFECTIVE = f"square roots of the diagonal of inv(J'WJ), {_EFFECTIVE_VARIANCE}, with absolute errors"
SCALED_WEIGHTED = "square roots of the diagonal of inv(J'WJ)*rss/dof"
ABSOLUTE = "square roots of the diagonal of inv(J'WJ), W = 1/sigma^2, with absolute sigma"
LIKELIHOOD = "square roots of the diagonal of the inverse Hessian of the summed loss"
EXPECTED = "square roots of the diagonal of inv(J'WJ), W = 1/variance: by expected information"
DISPERSED = "square roots of the diagonal of inv(J'WJ)*dispersion, W = dispersion/variance: by expected information"
GAUSSIAN = "square roots of the diagonal of the inverse Hessian of rss/2, times rss/dof"
_PENALTY_NOTE = "excluding the bias towards 0 that the penalty causes"
PENALISED = (
    "square roots of the diagonal of inv(H)*I*inv(H), of the Hessians of the summed loss with the l2 penalty and "
    f"without it: {_PENALTY_NOTE}"
)
PENALISED_SCALED = (
    "square roots of the diagonal of inv(H)*J'J*inv(H)*s^2, H the Hessian of rss/2 and the l2 penalty, s^2 the "
    f"variance of rows about the fit without it: {_PENALTY_NOTE}"
)
PENALISED_ROBUST = f"{PENALISED}, times s^2*K^2*sum(psi^2)/(n - tr(inv(H)*I))/mean(psi') for the slope psi of the loss"
POSTERIOR = "square roots of the diagonal of the inverse Hessian of minus the log posterior density"
PROFILED_POSTERIOR = f"{POSTERIOR}, with the variance of the residuals profiled"
ROBUST = (
    "square roots of the diagonal of inv(J'WJ)*s^2*K^2*sum(psi^2)/dof/mean(psi')^2, with the scale s and the "
    "derivative psi of the loss (Huber 1981, section 7.6)"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitStatistics(GoodnessOfFit):
    """The statistics of a fit: how uncertain its parameters are, and how well it fits.

    Attributes:
        stderr: the standard error of each parameter by name, as `definition` describes; None if it is unknown. For an
            array it is an array, with nan for unknown elements.
        correlation: the correlation matrix of the estimates, of shape (P, P), in the order of the parameters with
            arrays row by row; nan where it is unknown.
        rss: the (weighted) sum of squared residuals; None for a model without a target.
        dof: the number of target values with a positive weight, minus `rank`.
        r_squared: 1 - rss / (sum of squares of the target about its mean). It is nan if the target does not vary, and
            None without a target and for likelihoods, which have a deviance.
        definition: a description of `stderr`; empty if all are unknown.
        interval_dof: the degrees of freedom of Student's t distribution for intervals; None for the normal
            distribution.
        is_perfect: whether the residuals are rounding errors, while their variance is estimated from them. Then there
            is no likelihood, which has no finite maximum, and no test.
        rank: the number of combinations of the free parameters that the data determine: the number of parameters,
            unless some are redundant.
        partial_factor: if some are, the factor R of the covariance inv(RᵀR) of combinations of parameters; see
            `combination_variances`.
    """

    stderr: dict[str, Any | None] = field(metadata=NAN_IS_NULL)
    correlation: Array = field(metadata=NOT_IN_DOCUMENT)
    rss: float | None
    dof: int
    r_squared: float | None = field(metadata=NAN_IS_NULL)
    definition: str = field(metadata=NOT_IN_DOCUMENT)
    interval_dof: int | None = field(default=None, metadata=NOT_IN_DOCUMENT)
    is_perfect: bool = field(default=False, metadata=NOT_IN_DOCUMENT | {"is_saved": False})
    rank: int = field(metadata=NOT_IN_DOCUMENT)
    partial_factor: Array | None = field(default=None, metadata=NOT_IN_DOCUMENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedStatistics(FitStatistics):
    """The statistics of a fit, with the warnings that arose while computing them.

    Attributes:
        missing_error_reasons: a sentence for each reason for which standard errors are unknown.
        separation_warning: a sentence on parameters without a finite best value because the model separates the
            classes.
        warnings: these reasons, and a sentence for each parameter on a bound and each strongly correlated pair.
        minimum_distance: the distance to the minimum in standard errors; see `_minimum_distances`.
        residual_norm: the root of `rss`, without overflow or underflow; None without a target.
        is_imprecise: the mask of the elements that may have no finite estimate, because their errors are so large.
    """

    missing_error_reasons: tuple[str, ...]
    separation_warning: str = ""
    warnings: tuple[str, ...] = ()
    minimum_distance: float = math.nan
    residual_norm: float | None = None
    is_imprecise: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))


def compute_statistics(
    objective: Objective, theta: Array, absolute_sigma: bool = False, missing: str = "", *, with_goodness: bool = False
) -> ComputedStatistics:
    """Return the statistics of a fit that ended at `theta`.

    Args:
        absolute_sigma: whether the weights are 1/σ² of known errors, so that the covariance is not scaled by rss/dof.
        missing: why there are no standard errors, as a sentence, if they are meaningless where the fit ended.
        with_goodness: add the goodness of fit.
    """
    with ignore_float_errors():
        key = ("statistics", absolute_sigma, missing)
        statistics = objective.cached_at(
            key, theta, lambda: _constrained_statistics(objective, theta, absolute_sigma, missing)
        )
        if not with_goodness:
            return statistics
        norm, rank = statistics.residual_norm, statistics.rank
        figures = goodness_of_fit(objective, theta, norm, statistics.dof, rank, absolute_sigma)
        # With errors in x the weights depend on the parameters, so that R² has no baseline. A search for starting
        # values may still compare it.
        r_squared = None if objective.kernels.graphs.has_scaled_residuals else statistics.r_squared
        return dataclasses.replace(statistics, r_squared=r_squared, **figures)


def _constrained_statistics(
    objective: Objective, theta: Array, absolute_sigma: bool, missing: str
) -> ComputedStatistics:
    """Return the statistics of a fit, with the covariance on the constraints that hold with equality."""
    slopes = None
    if objective.constraints.active(theta):
        objective, slopes = objective.on_constraints(theta)
    statistics = batch_statistics(batches.ObjectiveBatch([objective]), theta[None], absolute_sigma, missing)[0]
    if slopes is None:
        return statistics
    errors = flat_errors(statistics.stderr, objective.layout.values(theta))
    roots = slopes * np.nan_to_num(errors)
    covariance = roots @ np.nan_to_num(statistics.correlation) @ roots.T
    unknown = (slopes != 0) @ np.isnan(errors) > 0
    covariance[unknown] = covariance[:, unknown] = math.nan
    stderr, none = errors_by_name(objective, np.sqrt(np.diag(covariance))), np.zeros(len(theta), np.bool_)
    return dataclasses.replace(
        statistics, correlation=correlations(covariance), stderr=stderr, partial_factor=None, is_imprecise=none
    )


@ignore_float_errors()
def batch_statistics(
    batch: batches.Batch, theta: Array, absolute_sigma: bool, missing: str = "", *, with_goodness: bool = False
) -> list[ComputedStatistics]:
    """Return the statistics of the fits of a batch; see `compute_statistics`.

    Args:
        theta: the ends of the fits, of shape (fits, P).
    """
    objective, size = batch.objective, theta.shape[1]
    reason = missing or _missing_errors_reason(objective)
    is_likelihood, has_residuals = objective.kind is LossKind.LIKELIHOOD, objective.has_residuals
    on_bound = batch.bounds.active(theta)
    has_triangles = has_residuals and size <= MAX_COVARIANCE_SIZE and not objective.is_network
    matrices = _Matrices(batch, theta, ~on_bound, has_triangles)
    lengths = rounding = np.zeros(len(theta))
    is_perfect, r_squared = np.zeros(len(theta), np.bool_), np.full(len(theta), math.nan)
    if has_residuals:
        lengths, variations, rounding = matrices.residual_norms(), matrices.variations, matrices.rounding
        if not absolute_sigma and (objective.has_dispersion or not is_likelihood):  # the scatter is estimated
            limits = rounding + COVARIANCE.perfect_variation * variations
            is_perfect = (lengths * lengths <= limits) & (limits < math.inf)
        r_squared = np.where(variations > 0, 1 - lengths * lengths / variations, math.nan)
        # The rounding errors of both sums of squares (Higham 2002, section 4.2) and of the residuals.
        errors = np.finfo(np.float64).eps * batch.target_counts + 2 * np.sqrt(rounding / variations)
        r_squared[np.abs(r_squared) <= errors] = 0.0
    scatter = np.where(is_perfect, np.fmax(lengths, np.sqrt(rounding)), lengths)  # residuals may be 0 by chance
    unknown, zeros = np.broadcast_to([[[[math.nan]]], [[[0.0]]]], (2, len(theta), size, size))  # two floats in memory
    none, all_reasons = np.zeros(len(theta), np.intp), [[reason] if reason else [] for _ in theta]
    estimate = Covariances(unknown, all_reasons, none, zeros, np.ones(len(theta)), np.ones(theta.shape))
    distances = np.full(len(theta), math.nan)
    if not reason:
        estimate = _estimate_covariances(matrices, absolute_sigma, scatter)
        distances = np.where(is_perfect, math.nan, _minimum_distances(matrices, estimate))
        for fit in np.flatnonzero(distances > COVARIANCE.max_minimum_distance).tolist():
            sentence = f"the fit stopped {distances[fit]:.2g} standard errors away from the minimum"
            estimate.reasons[fit] = [f"no standard errors: {sentence}"]
            estimate.inverses[fit] = math.nan
        for fit, k in np.argwhere(batches.parameters_at_jumps(batch, theta, estimate.standard_errors)).tolist():
            name = objective.layout.element_names[k]
            estimate.reasons[fit] = [f"no standard errors: `{name}` converges to 0, where the loss jumps"]
            estimate.inverses[fit] = math.nan
    separations = [""] * len(theta)
    for fit in range(len(theta)) if is_likelihood and not missing else ():
        separations[fit], is_infinite = find_separation(batch.objective_of(fit), theta[fit])
        estimate.nullities[fit] *= not separations[fit]  # the curvature vanishes at infinity
        if estimate.definition:
            estimate.inverses[fit][is_infinite[:, None] | is_infinite] = math.nan
    errors = estimate.standard_errors
    largest = np.where(r_squared == 1, COVARIANCE.exact_relative_error, COVARIANCE.unlimited_relative_error)
    rough = estimate
    if reason and matrices.triangles is not None:  # errors of least squares show which parameters the data determine
        inverses = matrices.inverses_by_units(matrices.triangles[:, :size, :size])
        rough = _scaled_by_residuals(inverses, lengths, batch.target_counts - size, "")
    is_imprecise = ~(rough.standard_errors <= largest[:, None] * np.abs(theta)) & ~on_bound
    is_imprecise &= size <= MAX_COVARIANCE_SIZE and (is_likelihood or objective.has_target)
    matrices_of_all = estimate.inverses if reason else correlations(estimate.inverses)
    pairs = [()] * len(theta) if reason else _correlation_warnings(objective, theta, estimate, matrices_of_all)
    uses_normal = absolute_sigma or objective.has_priors or (is_likelihood and not objective.has_dispersion)
    statistics = []
    dofs = batch.target_counts - (ranks := size - estimate.nullities)
    rows = figures_of_groups(batch, theta, ranks) if with_goodness else None
    for fit, (norm, dof, rank) in enumerate(zip(lengths.tolist(), dofs.tolist(), ranks.tolist(), strict=True)):
        stderr = errors_by_name(objective, errors[fit])
        has_errors = any(error is not None for error in stderr.values())
        reasons = () if separations[fit] else tuple(estimate.reasons[fit])
        others = bound_text(batch, fit, theta[fit], on_bound[fit], has_errors) if on_bound[fit].any() else ()
        norm_if_known, figures = norm if has_residuals else None, dict[str, Any]()
        if rows is not None:
            single = batch.objective_of(fit) if rows[fit] is None else objective
            figures = goodness_of_fit(single, theta[fit], norm_if_known, dof, rank, absolute_sigma, rows[fit])
        statistics.append(
            ComputedStatistics(
                rss=norm * norm if has_residuals else None,
                dof=dof,
                rank=rank,
                r_squared=None if is_likelihood or not has_residuals else float(r_squared[fit]),
                correlation=matrices_of_all[fit],
                stderr=stderr,
                definition=estimate.definition if has_errors else "",
                interval_dof=None if uses_normal else dof,
                missing_error_reasons=reasons,
                partial_factor=estimate.partial_factor(fit),
                warnings=(*reasons, *others, *(pairs[fit] if has_errors else ())),
                separation_warning=separations[fit],
                is_perfect=bool(is_perfect[fit]),
                minimum_distance=float(distances[fit]),
                residual_norm=norm_if_known,
                is_imprecise=is_imprecise[fit],
                **figures,
            )
        )
    return statistics


class _Matrices:
    """The matrices of derivatives at the ends of a batch of fits, each evaluated once.

    Attributes:
        batch: the fits.
        theta: their ends, of shape (fits, P).
        free: the mask of the parameters that are not on a bound. Derivatives towards all others are 0.
        triangles: the triangular factors of [J | r], towards all parameters; None if there are none, or if they would
            be too large.
    """

    def __init__(self, batch: batches.Batch, theta: Array, free: Mask, has_triangles: bool) -> None:
        self.batch, self.theta, self.free, self.every = batch, theta, free, np.arange(len(theta))
        self.triangles = batch.triangles(theta, self.every) if has_triangles else None

    def residual_norms(self) -> Array:
        """Return the roots of the sums of squared residuals, without underflow of the squares."""
        batch, theta = self.batch.without_penalty(), self.theta
        if self.triangles is None:
            return np.sqrt([batch.objective_of(fit).rss(point) for fit, point in enumerate(theta)])
        is_plain = not self.batch.objective.is_penalised
        return norms((self.triangles if is_plain else batch.triangles(theta, self.every))[:, :, -1])

    @functools.cached_property
    def variations(self) -> Array:
        """The sums of squares of the targets about their means."""
        return self.batch.target_variations(self.every)

    @functools.cached_property
    def rounding(self) -> Array:
        """The sums of squares that rounding errors may leave of residuals."""
        columns = np.zeros((1, 2, 1)) if self.triangles is None else self.triangles.swapaxes(1, 2)
        return batches.rounding_squares(self.batch, self.every, self.theta, norms(columns))

    @functools.cached_property
    def are_free(self) -> Mask:
        """The mask of the pairs of parameters that are not on a bound."""
        return self.free[:, :, None] & self.free[:, None, :]

    def hessians(self, batch: batches.Batch) -> Array:
        """Return the Hessians of the summed losses of the same fits, with or without their penalty."""
        weights = batch.total_weights(self.every) * batch.objective.components
        return np.where(self.are_free, batch.hessians(self.theta, self.every) * weights[:, None, None], 0.0)

    def gradients(self, batch: batches.Batch) -> Array:
        """Return the gradients of the summed losses of the same fits, with or without their penalty."""
        weights = batch.total_weights(self.every) * batch.objective.components
        return np.where(self.free, batch.values_and_gradients(self.theta, self.every)[1] * weights[:, None], 0.0)

    def inverses_by_units(self, factors: Array) -> Covariances:
        """Return `inverse_grams` of factors towards all parameters, without those on a bound; see `_by_units`."""
        return _by_units(np.where(self.free[:, None, :], factors, 0.0), self.batch.objective, self.free)


def _estimate_covariances(matrices: _Matrices, absolute_sigma: bool, lengths: Array) -> Covariances:
    """Return the covariances of the parameters, with those on a bound fixed.

    Args:
        lengths: the roots of the sums of squared residuals.
    """
    batch, objective = matrices.batch, matrices.batch.objective
    size, kind = objective.layout.size, objective.kind
    dofs = batch.target_counts - size
    if objective.has_priors:
        return _posterior_covariances(matrices)
    if objective.is_penalised:
        return _penalised_covariances(matrices, absolute_sigma, lengths)
    if kind is LossKind.ROBUST or (kind is LossKind.SQUARES and (objective.family is None or objective.is_linear)):
        assert matrices.triangles is not None
        covariances = matrices.inverses_by_units(matrices.triangles[:, :size, :size])
        if kind is LossKind.ROBUST:
            ranks = np.count_nonzero(matrices.free, axis=1) - covariances.nullities
            lengths = np.divide(*influence_norms(batch, matrices.theta, ranks))
            for fit in np.flatnonzero(np.isnan(lengths)).tolist():
                words = "no standard errors: most residuals are so large that the loss curves downwards"
                covariances.reasons[fit].append(words)
            return _scaled_by_residuals(covariances, lengths, dofs, ROBUST)
        if objective.family is not None:
            return _scaled_by_residuals(covariances, lengths, dofs, GAUSSIAN)
        has_x_errors = bool(objective.kernels.graphs.x_errors)
        if absolute_sigma:
            return covariances._replace(definition=ABSOLUTE_EFFECTIVE if has_x_errors else ABSOLUTE)
        definition = SCALED_EFFECTIVE if has_x_errors else SCALED_WEIGHTED if objective.is_weighted else SCALED
        return _scaled_by_residuals(covariances, lengths, dofs, definition)
    if objective.has_dispersion or objective.has_theta:
        factors = np.array([fisher_factor(batch.objective_of(fit), at) for fit, at in enumerate(matrices.theta)])
        covariances = matrices.inverses_by_units(factors)
        if objective.has_theta:
            return covariances._replace(definition=EXPECTED)
        return _scaled_by_residuals(covariances, _pearson_norms(batch, matrices.theta), dofs, DISPERSED)
    if objective.loss == "cross_entropy" and matrices.free.all():
        null_space = batches.softmax_null_space(batch.objective_of(0), matrices.theta[0])
        if null_space is not None and null_space.shape[1]:
            return _constrained_covariances(matrices.hessians(batch), null_space)
    covariances = inverse_hessians(matrices.hessians(batch), objective.layout.element_names, matrices.free)
    if kind is LossKind.SQUARES:
        doubled = covariances._replace(inverses=2 * covariances.inverses, factors=covariances.factors / math.sqrt(2))
        return _scaled_by_residuals(doubled, lengths, dofs, GAUSSIAN)
    return covariances._replace(definition=LIKELIHOOD)


def _by_units(factors: Array, objective: Objective, free: Mask | None = None) -> Covariances:
    """Return `inverse_grams` for parameters in units of 1/units, which do not overflow or underflow."""
    sizes = np.abs(factors).max(axis=1, initial=0.0)
    units = np.where((sizes > 0) & np.isfinite(sizes), sizes, 1.0)
    return inverse_grams(factors / units[:, None, :], objective.layout.element_names, free)._replace(units=units)


def _posterior_covariances(matrices: _Matrices) -> Covariances:
    """Return the inverse Hessians of minus the log posterior density at its mode: Laplace's approximation.

    An unknown variance s² of the residuals is profiled. With p = -log prior and n rows, the Hessian of its profile is
    the Hessian of rss/(2s²) + p, minus 2/n·∇p·∇pᵀ, because ∇rss = -2s²·∇p at the mode.
    """
    batch, objective = matrices.batch, matrices.batch.objective
    hessians, definition, unit = matrices.hessians(batch), POSTERIOR, 2 * np.square(batch.scales)
    if objective.kind is LossKind.SQUARES:
        hessians = hessians / unit[:, None, None]
    if objective.is_scale_estimated:
        slopes = matrices.gradients(batch.without_penalty()) / unit[:, None]
        hessians = hessians - 2 / batch.target_counts[:, None, None] * slopes[:, :, None] * slopes[:, None, :]
        definition = PROFILED_POSTERIOR
    return inverse_hessians(hessians, objective.layout.element_names, matrices.free)._replace(definition=definition)


def _penalised_covariances(matrices: _Matrices, absolute_sigma: bool, lengths: Array) -> Covariances:
    """Return the sampling covariances of penalised estimates: inv(H)·I·inv(H), with the Hessian I of the loss and H of
    the penalised loss (Hoerl & Kennard 1970 for least squares).

    The variance of a row is estimated from the fit without the penalty. If there is no such fit, and for other losses,
    its degrees of freedom count tr(inv(H)·I) parameters: Hastie, Tibshirani & Friedman 2009, section 7.6.
    """
    batch, theta, objective = matrices.batch, matrices.theta, matrices.batch.objective
    plain, size, kind, counts = batch.without_penalty(), theta.shape[1], objective.kind, batch.target_counts
    half = 0.5 if kind is LossKind.SQUARES else 1.0  # the Hessian of rss/2
    hessians = matrices.hessians(batch) * half
    if kind is LossKind.ROBUST or (kind is LossKind.SQUARES and objective.family is None):
        factors = np.where(matrices.free[:, None, :], plain.triangles(theta, matrices.every)[:, :size, :size], 0.0)
        data = factors.swapaxes(1, 2) @ factors
    else:
        data = matrices.hessians(plain) * half
    if kind is LossKind.ROBUST:  # the expected Hessian of the loss takes the place of its Hessian
        norms, means = influence_norms(plain, theta, size)
        data = means[:, None, None] * data
        hessians = hessians - matrices.hessians(plain) + data
    covariances = inverse_hessians(hessians, objective.layout.element_names, matrices.free)
    inverses = np.where(matrices.are_free, covariances.inverses, 0.0)
    residual_dofs = counts - np.einsum("gij,gji->g", inverses, data)
    inverses = np.where(matrices.are_free, inverses @ data @ inverses, math.nan)
    sandwich = covariances._replace(inverses=inverses, factors=np.zeros_like(data))
    if kind is LossKind.ROBUST:
        return _scaled_by_residuals(sandwich, norms / np.sqrt(means), residual_dofs, PENALISED_ROBUST)
    if kind is LossKind.SQUARES and not absolute_sigma:
        has_enough = counts > size
        plain_norms = _unpenalised_norms(plain, theta, lengths) if has_enough.any() else lengths
        lengths, dofs = np.where(has_enough, plain_norms, lengths), np.where(has_enough, counts - size, residual_dofs)
        return _scaled_by_residuals(sandwich, lengths, dofs, PENALISED_SCALED)
    if objective.has_dispersion:
        definition = f"{PENALISED}, times the dispersion"
        return _scaled_by_residuals(sandwich, _pearson_norms(plain, theta), counts - size, definition)
    return sandwich._replace(definition=PENALISED)


def _pearson_norms(batch: batches.Batch, theta: Array) -> Array:
    """Return the roots of Pearson's chi-squared, the norms of residuals in units of their standard deviations."""
    return np.sqrt([likelihood_sums(batch.objective_of(fit), point).pearson for fit, point in enumerate(theta)])


def _unpenalised_norms(plain: batches.Batch, theta: Array, lengths: Array) -> Array:
    """Return the roots of the sums of squares of fits without the penalty."""
    ends = np.array([end.theta for end in fit_least_squares(plain, theta)])
    return np.fmin(lengths, norms(plain.triangles(ends, np.arange(len(ends)))[:, :, -1]))


def _constrained_covariances(hessians: Array, null_space: Array) -> Covariances:
    """Return the covariances of parameters that are constrained not to move in some directions."""
    size, count = null_space.shape
    basis = np.linalg.qr(np.hstack((null_space, np.eye(size))))[0][:, count:size]
    names = [f"direction {k + 1}" for k in range(basis.shape[1])]
    covariances = inverse_hessians(basis.T @ hessians @ basis, names)
    unknown = ["no standard errors: the data do not determine all parameters"]
    return covariances._replace(
        inverses=basis @ covariances.inverses @ basis.T,
        reasons=[unknown if each else [] for each in covariances.reasons],
        nullities=covariances.nullities + count,
        factors=np.zeros_like(hessians),
        units=np.ones((len(hessians), size)),
        definition=f"{LIKELIHOOD}, with sums over the classes of 0",
    )


def _scaled_by_residuals(
    covariances: Covariances, lengths: Array, dofs: Array | NDArray[np.intp], definition: str
) -> Covariances:
    """Return covariances scaled by the residual variances; unknown where there are no degrees of freedom.

    Args:
        covariances: the inverse matrices.
        lengths: the roots of the sums of squared residuals.
        dofs: the degrees of freedom if the data determine all parameters.
        definition: see `Covariances`.
    """
    dofs = dofs + covariances.nullities
    is_known = dofs > 0
    for fit in np.flatnonzero(~is_known).tolist():
        reason = "no standard errors: there are no more rows than parameters, so the residual variance is unknown"
        covariances.reasons[fit].append(reason)
    scales = np.where(is_known, lengths / np.sqrt(np.where(is_known, dofs, 1)), math.nan)
    return covariances._replace(scales=scales, definition=definition)


def _minimum_distances(matrices: _Matrices, estimate: Covariances) -> Array:
    """Return the estimated distance of each fit to its minimum; nan where it is unknown.

    It is the length of one Newton step, at the present scale, in standard errors of the parameter that is farthest off.
    """
    batch, objective, inverses = matrices.batch, matrices.batch.objective, estimate.inverses
    scales, newton = estimate.scales[:, None], estimate.inverses
    if objective.kind is LossKind.OTHER:
        return np.full(len(inverses), math.nan)
    is_known = np.array([not reasons for reasons in estimate.reasons]) & (estimate.standard_errors > 0).any(axis=1)
    if objective.kind is LossKind.SQUARES and not objective.is_penalised and matrices.triangles is not None:
        residuals = matrices.triangles[:, :, -1]
        is_known &= dots(residuals, residuals) > matrices.rounding + batches.BATCH.rounding_share * matrices.variations
        jacobians = matrices.triangles[:, :, :-1].swapaxes(1, 2)
        slopes = (jacobians @ (residuals / scales)[:, :, None])[:, :, 0]
    else:
        slopes = matrices.gradients(batch) / scales
    if objective.is_penalised:
        newton = inverse_hessians(matrices.hessians(batch), objective.layout.element_names, matrices.free).inverses
        is_known &= ~(estimate.standard_errors <= COVARIANCE.rounding * np.abs(matrices.theta)).any(axis=1)
    elif objective.kind is LossKind.ROBUST:
        slopes /= influence_norms(batch, matrices.theta, 0)[1][:, None]
    slopes /= estimate.units
    steps = np.abs((np.where(np.isnan(newton), 0.0, newton) @ slopes[:, :, None])[:, :, 0])
    ratios = steps / np.sqrt(np.diagonal(inverses, axis1=1, axis2=2))
    return np.where(is_known, np.fmax.reduce(ratios, axis=1, initial=0.0), math.nan)


def _correlation_warnings(
    objective: Objective, theta: Array, estimate: Covariances, matrices: Array
) -> list[list[str]]:
    """Return warnings of strong correlations for each fit, where its correlation matrix is known."""
    warnings = [list[str]() for _ in theta]
    if objective.classes is not None:
        return warnings
    is_strong = (np.abs(matrices) > COVARIANCE.high_correlation) & ~np.eye(theta.shape[1], dtype=np.bool_)
    is_imprecise = estimate.standard_errors > COVARIANCE.large_relative_error * np.abs(theta)
    for fit in np.flatnonzero(is_strong.any(axis=(1, 2)) & (estimate.scales != 0)).tolist():
        if not estimate.reasons[fit]:
            names = objective.layout.element_names
            warnings[fit] = high_correlation_warnings(names, is_imprecise[fit], matrices[fit])
    return warnings


def bound_text(batch: batches.Batch, fit: int, theta: Array, on_bound: Mask, has_errors: bool) -> tuple[str, ...]:
    """Return a sentence for each of the first elements on a bound, and one that counts the rest."""
    names, bounds, on_bound = batch.objective.layout.element_names, batch.bounds.select(fit), on_bound.copy()
    for tied in batch.objective.constraints.active(theta):
        on_bound[tied.positions] = False  # another warning says that these end on a constraint
    active = [
        (k, "lower" if theta[k] <= bounds.low[k] else "upper")
        for k in np.flatnonzero(on_bound)[: COVARIANCE.max_bounds_shown]
    ]
    condition = "; the standard errors of the other parameters assume that it is fixed there" if has_errors else ""
    warnings = [f"`{names[k]}` ends on its {side} bound, {theta[k]:g}{condition}" for k, side in active]
    rest = int(np.count_nonzero(on_bound)) - len(warnings)
    return (*warnings, f"the same is true of {pluralize(rest, 'more parameter')}") if rest else tuple(warnings)


def _missing_errors_reason(objective: Objective) -> str:
    """Return why there are no standard errors; empty if there may be some."""
    if objective.settings[L1_FACTOR]:
        return (
            "no standard errors: an l1 penalty sets parameters to exactly 0 and shrinks the others, which the "
            "curvature of the loss does not show; use --bootstrap for intervals"
        )
    if objective.kind is LossKind.OTHER and not objective.has_target:
        return (
            "no standard errors: the model is a loss without residuals; add --likelihood if it is a negative "
            "log-likelihood"
        )
    if objective.is_network:
        return "no standard errors: hidden units are interchangeable, so individual weights are not identifiable"
    if objective.kind is LossKind.OTHER:
        return f"no standard errors: the loss {objective.loss} is not a likelihood"
    if objective.layout.size > MAX_COVARIANCE_SIZE:
        return f"no standard errors: there are more than {MAX_COVARIANCE_SIZE} parameters"
    return ""
