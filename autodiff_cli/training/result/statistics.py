"""What a fit says about its parameters, from the derivatives at the solution."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.methods.least_squares import levenberg_marquardt
from autodiff_cli.training.methods.loop import Diverged, unheard
from autodiff_cli.training.objective.losses import L1, LossKind
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.result.covariance import hardly_told_apart, inverse, inverse_hessian
from autodiff_cli.training.result.figures import Figures, figures
from autodiff_cli.training.result.gauge import gauge
from autodiff_cli.training.result.separation import separation

Array = NDArray[np.float64]

MOST = 500  # free numbers, at most, for which a covariance, a matrix of all pairs, is worth its while
_SAID = 10  # parameters on a bound
_ROUNDING = 1e-20  # of the target's variation: residuals that may have any direction
_AWAY = 0.5  # standard errors from the minimum, at most, for them to say anything

SCALED = "square roots of the diagonal of inv(J'J)*rss/dof"
_EFFECTIVE = "W = 1/(sigma^2 + (df/dx*sigma_x)^2)"
SCALED_EFFECTIVE = f"square roots of the diagonal of inv(J'WJ)*rss/dof, {_EFFECTIVE}"
ABSOLUTE_EFFECTIVE = f"square roots of the diagonal of inv(J'WJ), {_EFFECTIVE}, both taken as they are"
SCALED_WEIGHTED = "square roots of the diagonal of inv(J'WJ)*rss/dof"
ABSOLUTE = "square roots of the diagonal of inv(J'WJ), W = 1/sigma^2, sigma taken as it is"
LIKELIHOOD = "square roots of the diagonal of the inverse Hessian of the summed loss"
DISPERSED = "square roots of the diagonal of the inverse Hessian of the summed loss, times the dispersion"
GAUSSIAN = "square roots of the diagonal of the inverse Hessian of rss/2, times rss/dof"
_SPREAD = "the spread of the penalised values, not how far the penalty draws them towards 0"
PENALISED = (
    "square roots of the diagonal of inv(H)*I*inv(H), of the Hessians of the summed loss with the l2 penalty and "
    f"without it: {_SPREAD}"
)
PENALISED_SCALED = (
    "square roots of the diagonal of inv(H)*J'J*inv(H)*s^2, H the Hessian of rss/2 and the l2 penalty, s^2 the "
    f"variance of rows about the fit without it: {_SPREAD}"
)
PENALISED_ROBUST = (
    "square roots of the diagonal of inv(H)*G'G*inv(H)*n/(n - tr(inv(H)*I)), of the Hessians with the l2 penalty and "
    f"without it, and the gradients of the loss: {_SPREAD}"
)
SANDWICH = "square roots of the diagonal of inv(H)*G'G*inv(H)*n/dof, of the Hessian and the gradients of the loss"


@dataclass(frozen=True, slots=True)
class Statistics:
    """How well the parameters are known.

    Attributes:
        rss: the (weighted) sum of squared residuals; None for a model without a target.
        dof: the numbers in the target, over all rows whose weight is not 0, minus those in the free parameters.
        r_squared: 1 - rss / (the target's sum of squares about its mean); nan if the target does not vary, None
            without one and for likelihoods, which have a deviance.
        covariance: of shape (P, P), in the order of `theta`; nan where it is not known.
        stderr: of each parameter by name; None where it is not known. Of an array it is an array, with nan for single
            numbers that are not known.
        definition: what `stderr` is, in words; empty if no parameter has one.
        interval_dof: the degrees of freedom of Student's distribution for intervals; None for the normal one.
        reasons: a sentence for every None.
        told_apart: sentences on pairs of parameters that the data hardly tell apart.
        tied: of least squares that determine some combinations of parameters only, the factor R of the covariance
            inv(RᵀR)·s², and s; see `variance_of_combination`.
        on_bounds: a sentence for every parameter that stands at a bound.
        away: how many standard errors the minimum is away, see `_away`.
        adrift: a sentence on parameters that have no finite best value, since the model separates classes.
    """

    rss: float | None
    dof: int
    r_squared: float | None
    covariance: Array
    stderr: dict[str, Any]
    definition: str
    interval_dof: int | None
    reasons: tuple[str, ...]
    adrift: str = ""
    on_bounds: tuple[str, ...] = ()
    told_apart: tuple[str, ...] = ()
    tied: tuple[Array, float] | None = None
    away: float = math.nan
    figures: Figures = field(default_factory=Figures)


def statistics(
    objective: Objective, theta: Array, absolute: bool = False, solved: bool = True, *, in_full: bool = False
) -> Statistics:
    """The statistics of a fit that ended at `theta`.

    Args:
        solved: whether the fit got to a solution; standard errors mean nothing elsewhere.
        absolute: whether the weights are 1/σ² of known errors, so that the covariance is not scaled by rss/dof.
        in_full: with the figures of the fit as a whole.
    """
    with quiet():
        key = ("statistics", absolute, solved)
        found = objective.once(key, theta, lambda: _statistics(objective, theta, absolute, solved))
        if not in_full:
            return found
        length = None if found.rss is None else _length(objective.without_penalty(), theta)
        count = found.dof + objective.layout.size
        # With errors in x there is no other sum of squares of the same weights; a search for starts may still compare.
        return dataclasses.replace(
            found,
            r_squared=None if objective.kernels.graphs.x_errors else found.r_squared,
            figures=figures(objective, theta, length, count, found.dof, absolute),
        )


def _statistics(objective: Objective, theta: Array, absolute: bool, solved: bool) -> Statistics:
    size = objective.layout.size
    dof = _count(objective) - size
    length, explained = None, None
    if objective.has_residuals:
        length = _length(objective.without_penalty(), theta)
        variation = objective.target_variation()
        explained = 1 - length * length / variation if variation > 0 else math.nan
    is_hidden = objective.kind is LossKind.LIKELIHOOD
    reason = _no_errors(objective, solved)
    unknown: Array = np.broadcast_to(math.nan, (size, size))  # one nan in memory, however many pairs
    touched = objective.bounds.touched(theta)
    found, away = _Errors(unknown, 1.0, "", [reason]), math.nan
    if not reason and touched.all():
        found = dataclasses.replace(found, reasons=[])
    elif not reason:
        found = _of_free(_errors(objective, theta, absolute, length or 0.0, dof, ~touched), ~touched)
        away = _away(objective, theta, found)
        if away > _AWAY:
            reason = f"no standard errors: the minimum is {away:.2g} of them away from where the fit stopped"
            found = _Errors(unknown, 1.0, "", [reason])
    spread = found.spread
    stderr = {name: None if np.isnan(of).all() else of for name, of in objective.layout.values(spread).items()}
    known = any(error is not None for error in stderr.values())
    adrift = separation(objective, theta, unknown if reason else found.covariance) if solved else ""
    return Statistics(
        rss=None if length is None else length * length,
        dof=dof,
        r_squared=None if is_hidden else explained,
        covariance=found.inverse if reason else found.covariance,
        stderr=stderr,
        definition=found.definition if known else "",
        interval_dof=None if absolute or objective.kind is LossKind.LIKELIHOOD else dof,
        reasons=() if adrift else tuple(found.reasons),
        tied=_tied(objective, theta, found, touched),
        told_apart=_told_apart(objective, theta, found) if known else (),
        on_bounds=_on_bounds(objective, theta, touched, known=known),
        adrift=adrift,
        away=away,
    )


def _away(objective: Objective, theta: Array, found: _Errors) -> float:
    """How far the minimum is, by the curvatures here, in standard errors of the parameter that is farthest from it;
    nan where that is not known."""
    if found.reasons or objective.is_penalised or not (found.spread > 0).any():
        return math.nan
    if objective.kind is LossKind.SQUARES:
        triangle = objective.triangle(theta)
        if np.sum(np.square(triangle[:, -1])) <= _ROUNDING * objective.target_variation():
            return math.nan
        slopes = (triangle[:, :-1] / found.units).T @ (triangle[:, -1] / found.scale)
    elif objective.kind is LossKind.LIKELIHOOD:
        slopes = objective.value_and_grad(theta)[1] * objective.total_weight * objective.components / found.scale
    else:
        return math.nan
    step = np.where(np.isnan(found.inverse), 0.0, found.inverse) @ slopes
    return float(np.nanmax(np.abs(step) / np.sqrt(np.diag(found.inverse))))


def _count(objective: Objective) -> int:
    """How many numbers the target has, over all rows that count."""
    return objective.counted_rows * objective.components


def _length(objective: Objective, theta: Array) -> float:
    """The root of the sum of squares, also where the squares vanish or overflow."""
    if objective.layout.size > MOST or objective.is_network:
        return math.sqrt(objective.rss(theta))
    column = np.abs(objective.triangle(theta)[:, -1])
    largest = float(column.max())
    if not 0 < largest < math.inf:
        return largest
    return largest * float(np.sqrt(np.sum(np.square(column / largest))))


@dataclass(frozen=True, slots=True)
class _Errors:
    """A covariance as an inverse matrix, each parameter in a unit of its own, times the square of a scale: so nothing
    vanishes or overflows on the way."""

    inverse: Array
    scale: float
    definition: str
    reasons: list[str]
    units: Array | float = 1.0  # parameters are in 1/units

    @property
    def spread(self) -> Array:
        """The standard errors."""
        found: Array = np.sqrt(np.diag(self.inverse)) * (self.scale / self.units)
        return found

    @property
    def covariance(self) -> Array:
        """The covariance, of shape (P, P)."""
        scales = np.broadcast_to(self.scale / self.units, len(self.inverse))
        found: Array = self.inverse * scales * scales[:, None]
        return found


def _told_apart(objective: Objective, theta: Array, found: _Errors) -> tuple[str, ...]:
    if found.reasons or objective.classes is not None or not found.scale:
        return ()
    return tuple(hardly_told_apart(objective.layout.numbers, theta * found.units / found.scale, found.inverse))


def _tied(objective: Objective, theta: Array, found: _Errors, touched: NDArray[np.bool_]) -> tuple[Array, float] | None:
    if not (found.reasons and found.definition) or objective.kind is not LossKind.SQUARES or objective.family:
        return None
    factor = objective.triangle(theta)[: len(theta), : len(theta)]
    return np.where(touched, 0.0, factor), found.scale


def _of_free(found: _Errors, free: NDArray[np.bool_]) -> _Errors:
    """What is known of the free numbers among all of them."""
    if free.all():
        return found
    everything = np.full((len(free), len(free)), math.nan)
    everything[np.ix_(free, free)] = found.inverse
    units = np.ones(len(free))
    units[free] = found.units
    return dataclasses.replace(found, inverse=everything, units=units)


def _on_bounds(objective: Objective, theta: Array, touched: NDArray[np.bool_], *, known: bool) -> tuple[str, ...]:
    names, bounds = objective.layout.numbers if touched.any() else (), objective.bounds
    which = [(k, "lower" if theta[k] <= bounds.low[k] else "upper") for k in np.flatnonzero(touched)[:_SAID]]
    held = "; the standard errors of the others are those with it held there" if known else ""
    said = [f"`{names[k]}` ends on its {side} bound, {theta[k]:g}{held}" for k, side in which]
    more = int(np.count_nonzero(touched)) - len(said)
    return (*said, f"{more} more end on a bound") if more else tuple(said)


def _errors(
    objective: Objective, theta: Array, absolute: bool, length: float, dof: int, free: NDArray[np.bool_]
) -> _Errors:
    """The covariance of the free numbers, the others held where they are."""
    size = objective.layout.size
    names = [name for name, is_free in zip(objective.layout.numbers, free, strict=True) if is_free]
    kind = objective.kind
    if objective.is_penalised:
        return _penalised(objective, theta, absolute, length, dof + size, free, names)
    if kind is LossKind.SQUARES and (objective.family is None or objective.is_linear):
        factor = objective.triangle(theta)[:size, :size][:, free]
        sizes = np.abs(factor).max(axis=0, initial=0.0)
        units = np.where((sizes > 0) & np.isfinite(sizes), sizes, 1.0)
        found, reasons = inverse(factor / units, names)
        if objective.family is not None:
            return _scaled(found, length, dof, GAUSSIAN, reasons, units)
        if absolute:
            definition = ABSOLUTE_EFFECTIVE if objective.kernels.graphs.x_errors else ABSOLUTE
            return _Errors(found, 1.0, definition, reasons, units)
        definition = SCALED_WEIGHTED if objective.weighted else SCALED
        definition = SCALED_EFFECTIVE if objective.kernels.graphs.x_errors else definition
        return _scaled(found, length, dof, definition, reasons, units)
    open_directions = gauge(objective, theta) if free.all() else None
    if open_directions is not None and open_directions.shape[1]:
        return _within(objective.hessian(theta), open_directions)
    found, reasons = inverse_hessian(objective.hessian(theta)[np.ix_(free, free)] * objective.components, names)
    if kind is LossKind.SQUARES:
        return _scaled(2 * found, length, dof, GAUSSIAN, reasons)
    if kind is LossKind.ROBUST:
        scores = objective.scores(theta)[:, free] * objective.components
        meat = found @ (scores.T @ scores) @ found
        return _scaled(meat, math.sqrt(dof + size), dof, SANDWICH, reasons)
    if objective.loss == "gamma":
        dispersion = figures(objective, theta, None, dof + size, dof, absolute).dispersion or math.nan
        return _Errors(found, math.sqrt(dispersion), DISPERSED, reasons)
    return _Errors(found, 1.0, LIKELIHOOD, reasons)


def _penalised(
    objective: Objective,
    theta: Array,
    absolute: bool,
    length: float,
    count: int,
    free: NDArray[np.bool_],
    names: Sequence[str],
) -> _Errors:
    """How the penalised values scatter from one set of data to the next: inv(H)·I·inv(H), I being what the data alone
    say, and H that with the curvature of the penalty (Hoerl & Kennard 1970 for least squares). The variance of the rows
    is that about the fit without the penalty; where there is none, and of other losses, it counts tr(inv(H)·I)
    parameters: Hastie, Tibshirani & Friedman 2009, section 7.6.
    """
    plain, some, size = objective.without_penalty(), np.ix_(free, free), len(theta)
    kind, units = objective.kind, objective.components
    if kind is LossKind.SQUARES and objective.family is None:
        found, reasons = inverse_hessian(objective.hessian(theta)[some] * units / 2, names)
        factor = plain.triangle(theta)[:size, :size][:, free]
        data = factor.T @ factor
    else:
        unit = units / 2 if kind is LossKind.SQUARES else units  # of the squares' halves
        found, reasons = inverse_hessian(objective.hessian(theta)[some] * unit, names)
        data = plain.hessian(theta)[some] * unit
    left = count - float(np.trace(found @ data))
    if kind is LossKind.ROBUST:
        scores = plain.scores(theta)[:, free] * units
        slopes = (
            plain.value_and_grad(theta)[1][free] * objective.total_weight * units
        )  # not 0: those of the penalty are
        centred = scores.T @ scores - np.outer(slopes, slopes) / count
        return _scaled(found @ centred @ found, math.sqrt(count), left, PENALISED_ROBUST, reasons)
    spread = found @ data @ found
    if kind is LossKind.SQUARES and not absolute:
        if count > size:
            length, left = _freed(plain, theta, length), count - size
        return _scaled(spread, length, left, PENALISED_SCALED, reasons)
    if objective.loss == "gamma":
        dispersion = figures(plain, theta, None, count, count - size, absolute).dispersion or math.nan
        return _Errors(spread, math.sqrt(dispersion), f"{PENALISED}, times the dispersion", reasons)
    return _Errors(spread, 1.0, PENALISED, reasons)


def _freed(plain: Objective, theta: Array, length: float) -> float:
    """The length of the residuals that are left without the penalty: it keeps parameters from explaining the others."""
    ends = [length]
    with contextlib.suppress(Diverged):
        found = levenberg_marquardt(plain, theta, unheard, bounds=plain.bounds)
        ends.append(_length(plain, found.theta))
    return min(ends)


def _within(hessian: Array, open_directions: Array) -> _Errors:
    """The covariance where the parameters have no part in some directions."""
    size, count = open_directions.shape
    basis = np.linalg.qr(np.hstack((open_directions, np.eye(size))))[0][:, count:size]
    names = [f"direction {k + 1}" for k in range(basis.shape[1])]
    found, reasons = inverse_hessian(basis.T @ hessian @ basis, names)
    if reasons:
        reasons = ["no standard errors: the data leave some of the parameters open"]
    return _Errors(basis @ found @ basis.T, 1.0, f"{LIKELIHOOD}, with sums over the classes of 0", reasons)


def _scaled(
    found: Array, length: float, dof: float, definition: str, reasons: list[str], units: Array | float = 1.0
) -> _Errors:
    if dof > 0:
        return _Errors(found, length / math.sqrt(dof), definition, reasons, units)
    more = "no standard errors: there are no more rows than parameters, so that nothing tells the size of the errors"
    return _Errors(np.full_like(found, math.nan), 1.0, "", [*reasons, more])


def _no_errors(objective: Objective, solved: bool) -> str:
    """Why there are no standard errors, in words; empty if there may be some."""
    if not solved:
        return "no standard errors: the fit did not get to a solution"
    if objective.settings[L1]:
        return (
            "no standard errors: an l1 penalty keeps parameters at 0 and draws the others towards it, by steps that no "
            "curvature tells of; --bootstrap gives intervals"
        )
    if objective.kind is LossKind.OTHER and not objective.has_target:
        return "no standard errors: a loss that is an expression has no residuals, and --likelihood was not said"
    if objective.is_network:
        return "no standard errors: units of a layer can change places, so that data do not determine its parameters"
    if objective.kind is LossKind.OTHER:
        return f"no standard errors: the loss {objective.loss} is not a likelihood"
    if objective.layout.size > MOST:
        return f"no standard errors: there are more than {MOST} parameters"
    return ""
