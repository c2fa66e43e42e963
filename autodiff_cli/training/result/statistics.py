"""Standard errors and covariances of parameters, from the derivatives of the loss at the solution.

`compute_statistics` chooses the estimator that fits the loss: from the Jacobian for least squares, from the Hessian for
likelihoods, a sandwich for robust and penalised losses. It reports what makes standard errors impossible or misleading:
parameters that the data do not determine, strong correlations, bounds, classes that the model separates completely, and
a fit that stopped before the minimum.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autodiff_cli.array_types import Array, Mask
from autodiff_cli.data.json_records import NAN_IS_NULL, NOT_IN_DOCUMENT
from autodiff_cli.language.errors import format_names
from autodiff_cli.numbers.arrays import ignore_float_errors
from autodiff_cli.ops.special import sigmoid
from autodiff_cli.ops.structural import softmax
from autodiff_cli.training.losses import L1_FACTOR, LossKind
from autodiff_cli.training.methods.gradient_descent import Diverged
from autodiff_cli.training.methods.least_squares import DEPENDENCE_TOLERANCE, fit_squares
from autodiff_cli.training.objective.batch import ObjectiveBatch
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.result.goodness import DISTRIBUTIONS, GoodnessOfFit, classification_accuracy, goodness_of_fit
from autodiff_cli.training.rows import ColumnArrays, TriangleReduction, join_triangles


@dataclass(frozen=True, slots=True)
class CovarianceSettings:
    """Thresholds of covariances, and how many problems are listed."""

    hessian_tolerance: float = 1e-7  # relative singular value that counts as 0: squaring loses half of the digits
    null_space_share: float = 1e-3  # component of an undetermined direction from which on a parameter takes part in it
    null_space_tolerance: float = 1e-8  # share of a gradient in undetermined directions that is not rounding
    high_correlation: float = 0.999  # correlation from which on two imprecise parameters are reported
    extreme_correlation: float = 0.999999  # correlation from which on any two parameters are reported
    large_relative_error: float = 0.1  # standard error relative to the value that makes a parameter imprecise
    flat_curvature: float = 1e-9  # curvature, relative to the largest with scaled parameters, that counts as 0
    rounding_variation: float = 1e-20  # share of the target's variation below which residuals are only rounding errors
    max_minimum_distance: float = 0.5  # standard errors to the minimum, beyond which they are not reported
    max_pairs_shown: int = 3  # correlated pairs in warnings
    max_bounds_shown: int = 10  # parameters on a bound in warnings


COVARIANCE = CovarianceSettings()


def inverse_hessian(hessian: Array, names: Sequence[str]) -> tuple[Array, list[str]]:
    """Return the inverse of a Hessian H, and the reasons for undetermined parameters; see `inverse_gram`. H is scaled
    to a unit diagonal and factored as H = RᵀR.

    >>> inverse_hessian(np.diag([4.0, 1e-6]), ["a", "b"])[0].diagonal().tolist()
    [0.25, 1000000.0]
    """
    if not np.isfinite(hessian).all():
        return inverse_gram(hessian, names, COVARIANCE.hessian_tolerance)
    scale = np.sqrt(np.maximum(np.diag(hessian), 0))
    safe = np.where(scale > 0, scale, 1.0)
    curvatures, directions = np.linalg.eigh(hessian / np.outer(safe, safe))
    root = np.sqrt(np.maximum(curvatures, 0))[:, None] * directions.T * scale
    return inverse_gram(root, names, COVARIANCE.hessian_tolerance)


def inverse_gram(
    factor: Array, names: Sequence[str], tolerance: float = DEPENDENCE_TOLERANCE
) -> tuple[Array, list[str]]:
    """Return inv(RᵀR), with nan for parameters that R does not determine, and a sentence for each reason.

    The columns of R are first scaled to length 1, so that parameters of different magnitudes do not count as
    undetermined.

    Args:
        factor: R, of shape (n, P).
        names: the names of the parameters.
        tolerance: the singular value, relative to the largest, that counts as 0.

    >>> inverse_gram(np.array([[1.0, 2.0], [0.0, 0.0]]), ["a", "b"])[1]
    ['the data determine only a combination of `a`, `b`, not each of them']
    """
    if not np.isfinite(factor).all():
        unknown = np.full((len(names), len(names)), math.nan)
        return unknown, ["no standard errors: the derivatives are not finite at the solution"]
    scale, singular_values, directions, is_null = _scaled_svd(factor, tolerance)
    has_no_effect = np.sum(np.square(factor), axis=0) == 0
    undetermined = (np.abs(directions[is_null]) > COVARIANCE.null_space_share).any(axis=0) | has_no_effect
    scaled_directions = directions[~is_null] / singular_values[~is_null, None]
    inverse = scaled_directions.T @ scaled_directions / np.outer(scale, scale)
    inverse[undetermined, :] = math.nan
    inverse[:, undetermined] = math.nan
    why = (
        "it has no effect on the prediction" if tolerance == DEPENDENCE_TOLERANCE else "the loss does not curve with it"
    )
    reasons = [f"`{names[k]}` is not determined: {why} at the solution" for k in np.flatnonzero(has_no_effect).tolist()]
    dependent = [names[k] for k in np.flatnonzero(undetermined & ~has_no_effect).tolist()]
    if dependent:
        listed = format_names(dependent, "`")
        reasons.append(f"the data determine only a combination of {listed}, not each of them")
    return inverse, reasons


def combination_variance(slopes: Array, factor: Array) -> float:
    """Return the variance gᵀ·inv(RᵀR)·g of a quantity with gradient g. It is nan if the quantity changes in directions
    that R does not determine.

    >>> round(combination_variance(np.array([1.0, 2.0]), np.array([[1.0, 2.0], [0.0, 0.0]])), 12)  # of a + 2*b
    1.0
    """
    scale, singular_values, directions, is_null = _scaled_svd(factor, DEPENDENCE_TOLERANCE)
    components = directions @ (slopes / scale)
    if (np.abs(components[is_null]) > COVARIANCE.null_space_tolerance * np.linalg.norm(components)).any():
        return math.nan
    return float(np.sum(np.square(components[~is_null] / singular_values[~is_null])))


def _scaled_svd(factor: Array, tolerance: float) -> tuple[Array, Array, Array, Mask]:
    """Return the lengths of the columns of a matrix (1 for 0), the singular values and right singular vectors with
    columns of length 1, and which singular values count as 0.
    """
    lengths = np.sqrt(np.sum(np.square(factor), axis=0))
    scale = np.where(lengths == 0, 1.0, lengths)
    _, singular_values, directions = np.linalg.svd(factor / scale)
    return scale, singular_values, directions, singular_values <= tolerance * singular_values[0]


def high_correlation_warnings(names: Sequence[str], values: Array, covariance: Array) -> list[str]:
    """Return a sentence for each pair of parameters with a correlation near ±1, of which at least one is imprecise.

    >>> high_correlation_warnings(["a", "b"], np.ones(2), np.array([[1, -0.99999], [-0.99999, 1]]))
    ['`a` and `b` are hardly distinguishable with these data: their correlation is -0.99999']
    """
    matrix = correlations(covariance)
    with np.errstate(all="ignore"):
        is_imprecise = np.sqrt(np.diag(covariance)) > COVARIANCE.large_relative_error * np.abs(values)
        is_reported = (np.abs(matrix) > COVARIANCE.high_correlation) & (is_imprecise | is_imprecise[:, None]) | (
            np.abs(matrix) > COVARIANCE.extreme_correlation
        )
    pairs = sorted(zip(*np.nonzero(np.triu(is_reported, 1)), strict=True), key=lambda pair: -abs(matrix[pair]))
    warnings = [
        f"`{names[i]}` and `{names[j]}` are hardly distinguishable with these data: "
        f"their correlation is {format_correlation(matrix[i, j], 5)}"
        for i, j in pairs[: COVARIANCE.max_pairs_shown]
    ]
    rest = len(pairs) - len(warnings)
    return [*warnings, f"{rest} more pairs of parameters are hardly distinguishable"] if rest else warnings


def format_correlation(correlation: float, min_decimals: int) -> str:
    """Return a correlation with as many decimals as it takes to distinguish it from ±1.

    >>> format_correlation(0.99991, 3)
    '0.9999'
    """
    for decimals in range(min_decimals, 16):
        text = f"{correlation:.{decimals}f}"
        if abs(correlation) >= 1 or abs(float(text)) < 1:
            break
    return text


@dataclass(frozen=True, slots=True)
class InformationReduction:
    """Returns the triangular factor of a block of the Jacobian of the predictions and the predictions themselves, each
    row divided by the standard deviation of the target.

    Attributes:
        loss: the name of the loss.
        components: the number of components of the target.
        width: the number of columns of the matrix.
        shape: see `row_likelihoods`.
    """

    loss: str
    components: int
    width: int
    shape: float

    def __call__(self, values: Array, columns: ColumnArrays) -> Array:
        """Return the factor for the values of `Kernels.prediction_and_jacobian`."""
        by_component = values.reshape(self.components, self.width, -1)
        by_component /= np.sqrt(DISTRIBUTIONS[self.loss].variance(by_component[:, -1:], self.shape))
        return TriangleReduction(self.components, self.width)(values, columns)


def fisher_factor(objective: Objective, theta: Array) -> Array:
    """Return the triangular factor R of the expected information RᵀR for dispersion 1 (Fisher's scoring)."""
    size = objective.layout.size
    reduction = InformationReduction(objective.loss, objective.components, size + 1, objective.scale)
    return objective.fold_rows(objective.kernels.prediction_and_jacobian, theta, reduction, join_triangles)[
        :size, :size
    ]


def correlations(covariance: Array) -> Array:
    """Return the correlation matrix of a covariance; nan where a variance is unknown or 0.

    >>> correlations(np.array([[4.0, 1.0], [1.0, 1.0]])).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    deviations = np.sqrt(np.diag(covariance))
    with np.errstate(all="ignore"):
        matrix: Array = np.where(deviations > 0, covariance / deviations, math.nan) / deviations[:, None]
    matrix[np.diag_indices_from(matrix)] = np.where(deviations > 0, 1.0, math.nan)
    return matrix


# --- Softmax: directions that change no prediction


def softmax_null_space(objective: Objective, theta: Array) -> Array | None:
    """Return an orthonormal basis, of shape (P, directions), of the directions that change no softmax of linear scores.

    These are the directions in which the scores of all classes change equally. Returns None if the model is not a
    softmax of linear scores. Directions that the data leave undetermined for other reasons are not included.
    """
    if objective.loss != "cross_entropy" or objective.classes is None or not objective.is_generalised_linear:
        return None
    size, count = objective.layout.size, len(objective.classes)
    curvature = objective.curvature(theta)
    directions = []
    for name, shape in objective.layout.shapes.items():
        if not shape or shape[0] != count:
            continue
        elements = objective.layout.slices[name]
        for column in range(math.prod(shape[1:])):
            direction = np.zeros(size)  # equal for all classes, which are the first axis of weights and biases
            direction[elements].reshape(count, -1)[:, column] = 1 / math.sqrt(count)
            if _is_flat(curvature, direction):
                directions.append(direction)
    return np.array(directions).reshape(len(directions), size).T


def _is_flat(curvature: Array, direction: Array) -> bool:
    """Return whether the loss has no curvature in a direction."""
    change = np.abs(curvature @ direction)
    return bool(
        (
            change <= COVARIANCE.flat_curvature * np.sqrt(np.abs(np.diag(curvature)) * np.abs(np.diag(curvature)).max())
        ).all()
    )


# --- Separated classes


@dataclass(frozen=True, slots=True)
class SeparationSettings:
    """When classes count as separated by a model."""

    certain_row_loss: float = 1e-8  # loss of a row whose class is predicted with certainty
    diverging_error_ratio: float = 10.0  # standard errors per value of a parameter that goes to infinity
    min_likelihood_cost: float = 0.1  # log-likelihood lost in a step of 1/10 standard error: 0.005 near a maximum


SEPARATION = SeparationSettings()


def has_no_finite_minimum(objective: Objective, theta: Array) -> bool:
    """Return whether a point where a method stopped without convergence is on the way to a minimum at infinity.

    With scores that are linear in the parameters, the loss is convex and not negative. If it has no minimum, it keeps
    falling in some direction in which the predictions of some rows become certain.
    """
    return _is_convex(objective) and bool(_count_certain_rows(objective, theta))


def separation_warning(objective: Objective, theta: Array, covariance: Array) -> str:
    """Return a sentence on parameters without a finite best value because the model separates the classes; empty if
    there are none.

    Args:
        covariance: the covariance of the parameters, with nan where it is unknown.
    """
    if objective.loss not in ("bce", "cross_entropy") or objective.is_network or objective.is_penalised:
        return ""
    certain_rows = _count_certain_rows(objective, theta)
    if not certain_rows:
        return ""
    is_known = ~np.isnan(np.diag(covariance))
    errors = np.sqrt(np.where(is_known, np.diag(covariance), 0.0))
    diverging = np.flatnonzero(errors > SEPARATION.diverging_error_ratio * np.abs(theta))
    complete = classification_accuracy(objective, theta) == 1
    if complete and not len(diverging) and _is_convex(objective):
        diverging = np.arange(len(theta))  # any multiple of these parameters is better
    if not complete:
        diverging = diverging[
            [_costs_likelihood(objective, theta, covariance[:, k] / covariance[k, k] * theta[k]) for k in diverging]
        ]
    names = [
        name
        for name, elements in objective.layout.slices.items()
        if {*diverging.tolist()} & {*range(len(theta))[elements]}
    ]
    if not names:
        return ""
    listed = ", ".join(f"`{name}`" for name in names)
    rows = "1 row is" if certain_rows == 1 else f"{certain_rows} rows are"
    separated = "classes completely" if complete else "some rows completely from those of other classes"
    meaningless = "values and errors" if complete else "the values and errors of such parameters"
    return (
        f"the model separates {separated} ({rows} predicted with certainty): {listed} would go to infinity, and "
        f"{meaningless} are meaningless"
    )


def _costs_likelihood(objective: Objective, theta: Array, step: Array) -> bool:
    """Return whether a step that is small compared with the standard errors lowers the likelihood. A parameter near 0
    has a large relative error too, but its likelihood has a maximum.
    """
    other_point = np.where(np.isnan(step), theta, theta - step)
    return (
        objective.value(other_point) - objective.value(theta)
    ) * objective.total_weight > SEPARATION.min_likelihood_cost


def _is_convex(objective: Objective) -> bool:
    """Return whether the loss is convex: a sigmoid or softmax of linear scores, without a penalty."""
    is_linear_classifier = objective.loss in ("bce", "cross_entropy") and objective.model.program.output.op in (
        sigmoid,
        softmax,
    )
    return is_linear_classifier and objective.is_generalised_linear and not objective.is_penalised


def _count_certain_rows(objective: Objective, theta: Array) -> int:
    """Return the number of rows whose class is predicted with certainty."""
    count: int = objective.fold_rows(objective.kernels.row_loss, theta, _count_certain, operator.add)
    return count


def _count_certain(loss: Array, _: ColumnArrays) -> int:
    """Return the number of losses of certain predictions in a block."""
    return int((loss < SEPARATION.certain_row_loss).sum())


# --- Statistics of a fit


MAX_COVARIANCE_SIZE = 500  # free numbers; a covariance matrix of more is slow and nobody reads it

SCALED = "square roots of the diagonal of inv(J'J)*rss/dof"
_EFFECTIVE_VARIANCE = "W = 1/(sigma^2 + (df/dx*sigma_x)^2)"
SCALED_EFFECTIVE = f"square roots of the diagonal of inv(J'WJ)*rss/dof, {_EFFECTIVE_VARIANCE}"
ABSOLUTE_EFFECTIVE = f"square roots of the diagonal of inv(J'WJ), {_EFFECTIVE_VARIANCE}, both taken as they are"
SCALED_WEIGHTED = "square roots of the diagonal of inv(J'WJ)*rss/dof"
ABSOLUTE = "square roots of the diagonal of inv(J'WJ), W = 1/sigma^2, sigma taken as it is"
LIKELIHOOD = "square roots of the diagonal of the inverse Hessian of the summed loss"
EXPECTED = "square roots of the diagonal of inv(J'WJ), W = 1/variance: by expected information"
DISPERSED = "square roots of the diagonal of inv(J'WJ)*dispersion, W = dispersion/variance: by expected information"
GAUSSIAN = "square roots of the diagonal of the inverse Hessian of rss/2, times rss/dof"
_PENALTY_NOTE = "the spread of the penalised values, not how far the penalty draws them towards 0"
PENALISED = (
    "square roots of the diagonal of inv(H)*I*inv(H), of the Hessians of the summed loss with the l2 penalty and "
    f"without it: {_PENALTY_NOTE}"
)
PENALISED_SCALED = (
    "square roots of the diagonal of inv(H)*J'J*inv(H)*s^2, H the Hessian of rss/2 and the l2 penalty, s^2 the "
    f"variance of rows about the fit without it: {_PENALTY_NOTE}"
)
PENALISED_ROBUST = (
    "square roots of the diagonal of inv(H)*G'G*inv(H)*n/(n - tr(inv(H)*I)), of the Hessians with the l2 penalty and "
    f"without it, and the gradients of the loss: {_PENALTY_NOTE}"
)
SANDWICH = "square roots of the diagonal of inv(H)*G'G*inv(H)*n/dof, of the Hessian and the gradients of the loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class FitStatistics(GoodnessOfFit):
    """The statistics of a fit: how uncertain its parameters are, and how well it fits.

    Attributes:
        stderr: the standard error of each parameter by name, as `definition` describes; None if it is unknown. For an
            array it is an array, with nan for unknown elements.
        covariance: the covariance of the estimates, of shape (P, P), in the order of the parameters with arrays row by
            row; nan where it is unknown.
        rss: the (weighted) sum of squared residuals; None for a model without a target.
        dof: the number of target values with a positive weight, minus the number of free parameter elements.
        r_squared: 1 - rss / (sum of squares of the target about its mean). It is nan if the target does not vary, and
            None without a target and for likelihoods, which have a deviance.
        definition: a description of `stderr`; empty if all are unknown.
        interval_dof: the degrees of freedom of Student's t distribution for intervals; None for the normal
            distribution.
    """

    stderr: dict[str, Any | None] = field(metadata=NAN_IS_NULL)
    covariance: Array = field(metadata=NOT_IN_DOCUMENT)
    rss: float | None
    dof: int
    r_squared: float | None = field(metadata=NAN_IS_NULL)
    definition: str = field(metadata=NOT_IN_DOCUMENT)
    interval_dof: int | None = field(default=None, metadata=NOT_IN_DOCUMENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedStatistics(FitStatistics):
    """The statistics of a fit, with what was noticed while computing them.

    Attributes:
        missing_error_reasons: a sentence for each reason for which standard errors are unknown.
        separation_warning: a sentence on parameters without a finite best value because the model separates the
            classes.
        warnings: these reasons, and a sentence for each parameter on a bound and each strongly correlated pair.
        partial_factor: for least squares that determine only combinations of parameters, the factor R and the scale s
            of the covariance inv(RᵀR)·s²; see `combination_variance`.
        minimum_distance: the distance to the minimum in standard errors; see `_minimum_distance`.
    """

    missing_error_reasons: tuple[str, ...]
    separation_warning: str = ""
    warnings: tuple[str, ...] = ()
    partial_factor: tuple[Array, float] | None = None
    minimum_distance: float = math.nan


def compute_statistics(
    objective: Objective,
    theta: Array,
    absolute_sigma: bool = False,
    is_solved: bool = True,
    *,
    with_goodness: bool = False,
) -> ComputedStatistics:
    """Return the statistics of a fit that ended at `theta`.

    Args:
        absolute_sigma: whether the weights are 1/σ² of known errors, so that the covariance is not scaled by rss/dof.
        is_solved: whether the fit reached a solution; elsewhere standard errors mean nothing.
        with_goodness: add the goodness of fit.
    """
    with ignore_float_errors():
        key = ("statistics", absolute_sigma, is_solved)
        statistics = objective.cached_at(
            key, theta, lambda: _compute_statistics(objective, theta, absolute_sigma, is_solved)
        )
        if not with_goodness:
            return statistics
        residual_norm = None if statistics.rss is None else _residual_norm(objective.without_penalty(), theta)
        count = statistics.dof + objective.layout.size
        goodness = goodness_of_fit(objective, theta, residual_norm, count, statistics.dof, absolute_sigma)
        # With errors in x the weights depend on the parameters, so that R² has no baseline. A search for starting
        # values may still compare it.
        r_squared = None if objective.kernels.graphs.has_scaled_residuals else statistics.r_squared
        return dataclasses.replace(statistics, r_squared=r_squared, **dataclasses.asdict(goodness))


def _compute_statistics(
    objective: Objective, theta: Array, absolute_sigma: bool, is_solved: bool
) -> ComputedStatistics:
    """Return the statistics without the goodness of fit."""
    size = objective.layout.size
    dof = objective.weighted_rows * objective.components - size
    residual_norm, r_squared = None, None
    if objective.has_residuals:
        residual_norm = _residual_norm(objective.without_penalty(), theta)
        variation = objective.target_variation()
        r_squared = 1 - residual_norm * residual_norm / variation if variation > 0 else math.nan
    is_likelihood = objective.kind is LossKind.LIKELIHOOD
    reason = _missing_errors_reason(objective, is_solved)
    unknown: Array = np.broadcast_to(math.nan, (size, size))  # one nan in memory, whatever the size
    on_bound = objective.bounds.active(theta)
    estimate, distance = _ScaledCovariance(unknown, 1.0, "", [reason]), math.nan
    if not reason and on_bound.all():
        estimate = dataclasses.replace(estimate, reasons=[])
    elif not reason:
        estimate = _embed_free(
            _estimate_covariance(objective, theta, absolute_sigma, residual_norm or 0.0, dof, ~on_bound), ~on_bound
        )
        distance = _minimum_distance(objective, theta, estimate)
        if distance > COVARIANCE.max_minimum_distance:
            reason = f"no standard errors: the fit stopped {distance:.2g} standard errors away from the minimum"
            estimate = _ScaledCovariance(unknown, 1.0, "", [reason])
    errors = estimate.standard_errors
    stderr = {name: None if np.isnan(of).all() else of for name, of in objective.layout.values(errors).items()}
    has_errors = any(error is not None for error in stderr.values())
    separation = separation_warning(objective, theta, unknown if reason else estimate.covariance) if is_solved else ""
    reasons = () if separation else tuple(estimate.reasons)
    return ComputedStatistics(
        rss=None if residual_norm is None else residual_norm * residual_norm,
        dof=dof,
        r_squared=None if is_likelihood else r_squared,
        covariance=estimate.inverse if reason else estimate.covariance,
        stderr=stderr,
        definition=estimate.definition if has_errors else "",
        interval_dof=None if absolute_sigma or (is_likelihood and not objective.is_quasi) else dof,
        missing_error_reasons=reasons,
        partial_factor=_partial_factor(objective, theta, estimate, on_bound),
        warnings=(
            *reasons,
            *_bound_warnings(objective, theta, on_bound, has_errors=has_errors),
            *(_correlation_warnings(objective, theta, estimate) if has_errors else ()),
        ),
        separation_warning=separation,
        minimum_distance=distance,
    )


def _minimum_distance(objective: Objective, theta: Array, estimate: _ScaledCovariance) -> float:
    """Return the estimated distance to the minimum, in standard errors of the parameter that is farthest from it; nan
    if it is unknown. It is one Newton step with the curvature at `theta`.
    """
    if estimate.reasons or objective.is_penalised or not (estimate.standard_errors > 0).any():
        return math.nan
    if objective.kind is LossKind.SQUARES:
        triangle = objective.triangle(theta)
        if np.sum(np.square(triangle[:, -1])) <= COVARIANCE.rounding_variation * objective.target_variation():
            return math.nan
        slopes = (triangle[:, :-1] / estimate.units).T @ (triangle[:, -1] / estimate.scale)
    elif objective.kind is LossKind.LIKELIHOOD:
        slopes = objective.value_and_grad(theta)[1] * objective.total_weight * objective.components / estimate.scale
    else:
        return math.nan
    step = np.where(np.isnan(estimate.inverse), 0.0, estimate.inverse) @ slopes
    return float(np.nanmax(np.abs(step) / np.sqrt(np.diag(estimate.inverse))))


def _residual_norm(objective: Objective, theta: Array) -> float:
    """Return the root of the sum of squared residuals, without overflow or underflow of the squares."""
    if objective.layout.size > MAX_COVARIANCE_SIZE or objective.is_network:
        return math.sqrt(objective.rss(theta))
    column = np.abs(objective.triangle(theta)[:, -1])
    largest = float(column.max())
    if not 0 < largest < math.inf:
        return largest
    return largest * float(np.sqrt(np.sum(np.square(column / largest))))


@dataclass(frozen=True, slots=True)
class _ScaledCovariance:
    """A covariance as an inverse matrix times the square of a scale, with a unit for each parameter, so that nothing
    overflows or underflows.

    Attributes:
        inverse: the inverse matrix, of shape (P, P), for parameters in units of 1/units.
        scale: the factor of all standard errors.
        definition: a description of the standard errors.
        reasons: a sentence for each reason for which elements are unknown.
    """

    inverse: Array
    scale: float
    definition: str
    reasons: list[str]
    units: Array | float = 1.0  # the unit of each parameter is 1/units

    @property
    def standard_errors(self) -> Array:
        """The standard errors, of shape (P,)."""
        errors: Array = np.sqrt(np.diag(self.inverse)) * (self.scale / self.units)
        return errors

    @property
    def covariance(self) -> Array:
        """The covariance, of shape (P, P)."""
        scales = np.broadcast_to(self.scale / self.units, len(self.inverse))
        covariance: Array = self.inverse * scales * scales[:, None]
        return covariance


def _correlation_warnings(objective: Objective, theta: Array, estimate: _ScaledCovariance) -> tuple[str, ...]:
    """Return warnings of strong correlations, where a covariance is known."""
    if estimate.reasons or objective.classes is not None or not estimate.scale:
        return ()
    return tuple(
        high_correlation_warnings(
            objective.layout.element_names, theta * estimate.units / estimate.scale, estimate.inverse
        )
    )


def _partial_factor(
    objective: Objective, theta: Array, estimate: _ScaledCovariance, on_bound: Mask
) -> tuple[Array, float] | None:
    """Return the factor and scale of the covariance of least squares that determine only combinations of parameters;
    else None.
    """
    if not (estimate.reasons and estimate.definition) or objective.kind is not LossKind.SQUARES or objective.family:
        return None
    factor = objective.triangle(theta)[: len(theta), : len(theta)]
    return np.where(on_bound, 0.0, factor), estimate.scale


def _embed_free(estimate: _ScaledCovariance, free: Mask) -> _ScaledCovariance:
    """Return a covariance of free elements as one of all elements, with nan for the others."""
    if free.all():
        return estimate
    inverse = np.full((len(free), len(free)), math.nan)
    inverse[np.ix_(free, free)] = estimate.inverse
    units = np.ones(len(free))
    units[free] = estimate.units
    return dataclasses.replace(estimate, inverse=inverse, units=units)


def _bound_warnings(objective: Objective, theta: Array, on_bound: Mask, *, has_errors: bool) -> tuple[str, ...]:
    """Return a sentence for each of the first elements on a bound, and one that counts the others."""
    names, bounds = objective.layout.element_names if on_bound.any() else (), objective.bounds
    active = [
        (k, "lower" if theta[k] <= bounds.low[k] else "upper")
        for k in np.flatnonzero(on_bound)[: COVARIANCE.max_bounds_shown]
    ]
    condition = "; the standard errors of the other parameters assume that it is fixed there" if has_errors else ""
    warnings = [f"`{names[k]}` ends on its {side} bound, {theta[k]:g}{condition}" for k, side in active]
    rest = int(np.count_nonzero(on_bound)) - len(warnings)
    return (*warnings, f"{rest} more end on a bound") if rest else tuple(warnings)


def _estimate_covariance(
    objective: Objective, theta: Array, absolute_sigma: bool, residual_norm: float, dof: int, free: Mask
) -> _ScaledCovariance:
    """Return the covariance of the free elements, with the others fixed."""
    size = objective.layout.size
    names = [name for name, is_free in zip(objective.layout.element_names, free, strict=True) if is_free]
    kind = objective.kind
    if objective.is_penalised:
        return _penalised_covariance(objective, theta, absolute_sigma, residual_norm, dof + size, free, names)
    if kind is LossKind.SQUARES and (objective.family is None or objective.is_linear):
        factor = objective.triangle(theta)[:size, :size][:, free]
        sizes = np.abs(factor).max(axis=0, initial=0.0)
        units = np.where((sizes > 0) & np.isfinite(sizes), sizes, 1.0)
        inverse, reasons = inverse_gram(factor / units, names)
        if objective.family is not None:
            return _scaled_by_residuals(inverse, residual_norm, dof, GAUSSIAN, reasons, units)
        if absolute_sigma:
            definition = ABSOLUTE_EFFECTIVE if objective.kernels.graphs.x_errors else ABSOLUTE
            return _ScaledCovariance(inverse, 1.0, definition, reasons, units)
        definition = SCALED_WEIGHTED if objective.is_weighted else SCALED
        definition = SCALED_EFFECTIVE if objective.kernels.graphs.x_errors else definition
        return _scaled_by_residuals(inverse, residual_norm, dof, definition, reasons, units)
    if objective.has_dispersion or objective.has_theta:
        inverse, reasons = inverse_gram(fisher_factor(objective, theta)[:, free], names)
        if objective.has_theta:
            return _ScaledCovariance(inverse, 1.0, EXPECTED, reasons)
        dispersion = goodness_of_fit(objective, theta, None, dof + size, dof, absolute_sigma).dispersion or math.nan
        return _ScaledCovariance(inverse, math.sqrt(dispersion), DISPERSED, reasons)
    open_directions = softmax_null_space(objective, theta) if free.all() else None
    if open_directions is not None and open_directions.shape[1]:
        return _constrained_covariance(objective.hessian(theta), open_directions)
    inverse, reasons = inverse_hessian(objective.hessian(theta)[np.ix_(free, free)] * objective.components, names)
    if kind is LossKind.SQUARES:
        return _scaled_by_residuals(2 * inverse, residual_norm, dof, GAUSSIAN, reasons)
    if kind is LossKind.ROBUST:
        scores = objective.score_triangle(theta)[:, free] * objective.components
        meat = inverse @ (scores.T @ scores) @ inverse
        return _scaled_by_residuals(meat, math.sqrt(dof + size), dof, SANDWICH, reasons)
    return _ScaledCovariance(inverse, 1.0, LIKELIHOOD, reasons)


def _penalised_covariance(
    objective: Objective,
    theta: Array,
    absolute_sigma: bool,
    residual_norm: float,
    count: int,
    free: Mask,
    names: Sequence[str],
) -> _ScaledCovariance:
    """Return the sampling covariance of penalised estimates: inv(H)·I·inv(H), with the Hessian I of the loss and H of
    the penalised loss (Hoerl & Kennard 1970 for least squares).

    The variance of a row is that about the fit without the penalty. If there is no such fit, and for other losses,
    tr(inv(H)·I) parameters are counted: Hastie, Tibshirani & Friedman 2009, section 7.6.
    """
    plain, free_block, size = objective.without_penalty(), np.ix_(free, free), len(theta)
    kind, units = objective.kind, objective.components
    if kind is LossKind.SQUARES and objective.family is None:
        inverse, reasons = inverse_hessian(objective.hessian(theta)[free_block] * units / 2, names)
        factor = plain.triangle(theta)[:size, :size][:, free]
        data = factor.T @ factor
    else:
        unit = units / 2 if kind is LossKind.SQUARES else units  # the Hessian of rss/2
        inverse, reasons = inverse_hessian(objective.hessian(theta)[free_block] * unit, names)
        data = plain.hessian(theta)[free_block] * unit
    residual_dof = count - float(np.trace(inverse @ data))
    if kind is LossKind.ROBUST:
        scores = plain.score_triangle(theta)[:, free] * units
        # At the solution the gradient of the unpenalised loss is not 0: it balances that of the penalty.
        slopes = plain.value_and_grad(theta)[1][free] * objective.total_weight * units
        centred = scores.T @ scores - np.outer(slopes, slopes) / count
        return _scaled_by_residuals(
            inverse @ centred @ inverse, math.sqrt(count), residual_dof, PENALISED_ROBUST, reasons
        )
    sandwich = inverse @ data @ inverse
    if kind is LossKind.SQUARES and not absolute_sigma:
        if count > size:
            residual_norm, residual_dof = _unpenalised_norm(plain, theta, residual_norm), count - size
        return _scaled_by_residuals(sandwich, residual_norm, residual_dof, PENALISED_SCALED, reasons)
    if objective.has_dispersion:
        dispersion = goodness_of_fit(plain, theta, None, count, count - size, absolute_sigma).dispersion or math.nan
        return _ScaledCovariance(sandwich, math.sqrt(dispersion), f"{PENALISED}, times the dispersion", reasons)
    return _ScaledCovariance(sandwich, 1.0, PENALISED, reasons)


def _unpenalised_norm(plain: Objective, theta: Array, residual_norm: float) -> float:
    """Return the root of the sum of squares of a fit without the penalty, which keeps parameters from explaining the
    data.
    """
    (outcome,) = fit_squares(ObjectiveBatch([plain], plain.bounds), theta[None])
    if isinstance(outcome, Diverged):
        return residual_norm
    return min(residual_norm, _residual_norm(plain, outcome.theta))


def _constrained_covariance(hessian: Array, open_directions: Array) -> _ScaledCovariance:
    """Return the covariance of parameters that are constrained not to move in some directions."""
    size, count = open_directions.shape
    basis = np.linalg.qr(np.hstack((open_directions, np.eye(size))))[0][:, count:size]
    names = [f"direction {k + 1}" for k in range(basis.shape[1])]
    inverse, reasons = inverse_hessian(basis.T @ hessian @ basis, names)
    if reasons:
        reasons = ["no standard errors: the data do not determine all parameters"]
    return _ScaledCovariance(basis @ inverse @ basis.T, 1.0, f"{LIKELIHOOD}, with sums over the classes of 0", reasons)


def _scaled_by_residuals(
    inverse: Array, residual_norm: float, dof: float, definition: str, reasons: list[str], units: Array | float = 1.0
) -> _ScaledCovariance:
    """Return a covariance scaled by the residual variance; unknown if there are no degrees of freedom."""
    if dof > 0:
        return _ScaledCovariance(inverse, residual_norm / math.sqrt(dof), definition, reasons, units)
    reason = "no standard errors: there are no more rows than parameters, so the residual variance is unknown"
    return _ScaledCovariance(np.full_like(inverse, math.nan), 1.0, "", [*reasons, reason])


def _missing_errors_reason(objective: Objective, is_solved: bool) -> str:
    """Return why there are no standard errors; empty if there may be some."""
    if not is_solved:
        return "no standard errors: the fit did not converge"
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
