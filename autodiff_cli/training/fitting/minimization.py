"""One attempt of a batch of fits that run to convergence, each from one start.

`minimize_batch` runs Levenberg-Marquardt or L-BFGS, and estimates the residual scale of robust losses along with the
fits. It sets parameters to exactly 0 if an l1 penalty keeps them there. `minimize` is a batch of one. Changes of
variables make searches easier: `project_linear` fits linear parameters, and `with_stick_breaking` keeps shares between
0 and 1.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, Mask, ignore_float_errors
from autodiff_cli.graph.node import Node, as_node
from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting.symmetries import Sinusoids
from autodiff_cli.training.losses import L1_FACTOR, LOSSES, LossKind
from autodiff_cli.training.methods.gradient_descent import (
    CONVERGENCE,
    BatchCallback,
    Diverged,
    Outcome,
    StoppingRule,
    ignore_steps,
    renumber,
)
from autodiff_cli.training.methods.least_squares import fit_least_squares, project_linear_each
from autodiff_cli.training.methods.quasi_newton import fit_smooth_loss
from autodiff_cli.training.objective.batch import Batch, Fits, GroupBatch, ObjectiveBatch, repeat_objective
from autodiff_cli.training.objective.model import unbounded_loss_hint
from autodiff_cli.training.objective.objective import Objective, copy_with, find_undefined
from autodiff_cli.training.objective.parameters import Bounds, Constraints
from autodiff_cli.training.options import FitOptions, describe_bounds
from autodiff_cli.training.result.diagnosis import curve_warnings
from autodiff_cli.training.result.goodness import MAD_TO_STD, find_separation, has_no_finite_minimum, robust_scale
from autodiff_cli.training.result.row_figures import estimate_theta, likelihood_sums
from autodiff_cli.training.result.statistics import MAX_COVARIANCE_SIZE, compute_statistics


class MinimizationSettings(NamedTuple):
    """Ranking of ends, estimation of the residual scale of a robust fit, exact zeros of an l1 penalty, and kinks."""

    clear_gain: float = 0.01  # gain in log-likelihood by which an end is another and better minimum
    rounding_share: float = 1e-4  # share of the loss above which squares of rounding errors change it much,
    least_rounding: float = 1e-16  # and of the target's mean square, above which they are not those of a perfect fit
    equal_end: float = 1e-2  # relative difference of two ends, up to signs and order, that count as equal
    exclusion: float = 3.0  # gain, a likelihood ratio of 20 to 1, above which the data exclude the other end
    rows_of_component: float = 2.5  # a component with fewer rows is an artefact: a density with a peak at a row
    rows_of_narrow_component: float = 4.0  # the limit for narrow components, which are more often artefacts
    narrow_component: float = 0.05  # share of the largest width below which a component is narrow
    wide_component: float = 0.25  # share of the largest width above which a component of few rows is not an artefact
    max_alternatives: int = 4  # minima that are compared with the best one
    max_idle_rounds: int = 20  # rounds of fitting and estimating the scale in turn, in which the two get no nearer
    tolerance: float = 1e-9  # relative change of the scale at which it has converged
    near: float = 0.1  # relative change of the scale below which the secant method is used, and the most it changes it
    rising: float = 0.02  # slope of the logarithm of estimate / scale above which the secant method leads away
    zero_scale: float = 1e-12  # relative to the spread of the target: a smaller scale counts as 0
    zero_robust_scale: float = 1e-9  # limit with outliers, next to whose loss smaller residuals are negligible
    poor_scale: float = 0.7  # larger scales at the start of a fit with priors, relative to the spread of the target,
    first_scale: float = 0.1  # are replaced by this one
    l1_slope_share: float = 1 - 1e-6  # a parameter is 0 if the loss pulls with less than this share of the l1 penalty

    # Search for the minimum of a robust loss from least squares of few rows.
    subsets: int = 60  # subsets of the rows: with 30 % of outliers, all subsets of 4 rows have one in 1 of 10⁷ fits
    subset_evaluations: int = 20  # evaluations of each of these fits
    subset_tolerance: float = 1e-6  # relative change of their parameters at which they have converged
    refined_subsets: int = 20  # the best of these fits, which are refined
    refinement_epochs: int = 100  # epochs of a refinement: a fit that needs more has no minimum, or is the best anyway

    # Test of a minimum at which the loss has kinks.
    max_kink_rounds: int = 10  # repetitions of the fit of the parameters that are not at a kink
    kink_probe: float = 1e-7  # relative change of a parameter that shows on which side of a kink the loss falls
    kink_side: float = 2e-14  # relative distance from a kink at which a fit ends
    kink_jump: float = 0.75  # share of the difference of slopes at twice the distance that a kink explains
    kink_radius: float = 1e-6  # distance of the points around it, relative to each parameter, or to 1 for smaller ones
    kink_samples: int = 20  # points for each parameter, and as many more
    kink_nearer: float = 0.1  # share of the distance at which slopes differ as much if they jump
    kink_vanishing: float = 1e-3  # length of a combination of gradients, relative to the longest, that counts as 0
    kink_rounding: float = 1e-12  # relative change of the loss that counts as rounding
    kink_iterations: int = 2000  # iterations of the search for the combination

    # Test whether a likelihood is unbounded.
    vanished_scale: float = 1e-9  # size of a positive parameter, relative to its start, below which it went to 0
    few_rows_per_parameter: int = 4  # rows per parameter; with so few, several frequencies may fit the data


MINIMIZATION = MinimizationSettings()
_EXACT_FIT = "the model fits the rows exactly, so the posterior density of the residuals' variance has no maximum"
NO_SCALE = "at least half of the rows are fitted exactly, to 1e-9 of their spread: there is no scale; use --scale"
_UNSETTLED = (
    "the residual scale does not settle: the fit with each estimate leads to another estimate; set --scale to the "
    "standard deviation of the errors"
)


_MAX_LM_PARAMETERS = 5000  # lm stores matrices of all pairs of parameters: 200 MB each at this size


def choose_method(options: FitOptions, objective: Objective) -> str:
    """Return the name of the method to run. Raises OptionError if the chosen one does not suit the objective."""
    squares = objective.kind is LossKind.SQUARES
    if options.optimizer == "lm" and not squares:
        raise OptionError("lm minimises squared residuals: it needs a model `target ~ prediction` and the loss mse")
    if options.optimizer == "lm" and objective.settings[L1_FACTOR]:
        raise OptionError("lm cannot minimise an l1 penalty, which is not a sum of squares; use lbfgs")
    if options.optimizer == "lm" and objective.layout.size > _MAX_LM_PARAMETERS:
        raise OptionError(f"lm takes at most {_MAX_LM_PARAMETERS} parameters, not {objective.layout.size}; try adam")
    if options.optimizer != "auto":
        return options.optimizer
    is_descent = options.batch_size is not None or objective.is_network
    return "adam" if is_descent and not objective.has_priors else converging_method(objective)


def converging_method(objective: Objective, *, is_near: bool = False) -> str:
    """Return the method that fits an objective to the last digits; see `minimize_batch`.

    Args:
        is_near: whether the fit starts near its minimum, where Newton's method comes first.
    """
    is_small = objective.layout.size <= MAX_COVARIANCE_SIZE
    is_squares = objective.kind is LossKind.SQUARES and not objective.settings[L1_FACTOR] and not objective.has_priors
    return "lm" if is_squares and is_small else "newton" if is_near else "lbfgs"


def minimize_and_check(
    method: str, batch: Batch, start: Array, on_step: BatchCallback = ignore_steps, stop: StoppingRule = CONVERGENCE
) -> list[Outcome]:
    """Minimise the losses of a batch of fits, and check whether ends at kinks are minima; see `minimize_batch`."""
    ends = minimize_batch(method, batch, start, on_step, stop)
    if stop.evaluations is not None:
        return ends
    return [_check_stuck_solution(method, batch, k, end) if end.is_stuck else end for k, end in enumerate(ends)]


def fit_constrained(
    objective: Objective, at: Array, fit: Callable[[Objective, bool], Outcome]
) -> tuple[Objective, Outcome]:
    """Fit an objective within its constraints, near a point that leaves an order of parameters or a sum of shares.

    Args:
        fit: fits an objective from its start. The second argument is whether some of its parameters are slacks.

    Returns:
        The outcome, and the objective that has it, with the bounds of the user.
    """
    feasible = objective.add_slacks(fit(objective.with_slacks(at), True).theta, at)
    candidate = copy_with(feasible, bounds=objective.bounds)
    outcome = fit(candidate, False)
    return candidate, outcome if objective.constraints.are_met(outcome.theta) else fit(feasible, False)


def meet_constraints(objective: Objective, outcome: Outcome, stop: StoppingRule = CONVERGENCE) -> Outcome:
    """Return the outcome of a refit, or of one within the constraints if it leaves them."""
    if outcome.failure or objective.constraints.are_met(outcome.theta):
        return outcome
    method = converging_method(objective, is_near=True)

    def fit(each: Objective, _: bool) -> Outcome:
        return minimize_and_check(method, repeat_objective(each, 1), each.start[None], stop=stop)[0]

    return fit_constrained(objective, outcome.theta, fit)[1]


def _check_stuck_solution(method: str, batch: Batch, fit: int, end: Outcome) -> Outcome:
    """Return the end of a fit that is stuck; a minimum at a kink of the loss counts as converged."""
    objective = batch.objective_of(fit)
    if (at_kinks := _fit_at_kinks(method, batch, fit, end.theta)) is not None:
        return at_kinks
    # Best means of 0 are at the edge of the domain.
    is_minimum = kinks_at_minimum(objective, end.theta) or find_separation(objective, end.theta)[0]
    return Outcome(end.theta, True) if is_minimum else end


def _fit_at_kinks(method: str, batch: Batch, fit: int, theta: Array) -> Outcome | None:
    """Return a minimum at kinks of the loss in single parameters, near a point; None if there is none.

    At such a minimum, no parameter at a kink can move without increasing the loss, and all other parameters are
    optimal. Steps along one side of a kink end where they cross it. So the parameters at kinks are fixed while the
    remaining ones are fitted, until the set of parameters at kinks no longer changes.
    """
    one, kinks, is_optimal = np.array([fit]), np.zeros(len(theta), np.bool_), False
    for _ in range(MINIMIZATION.max_kink_rounds if batch.objective_of(fit).has_kinks else 0):
        sides = _kink_sides(batch, fit, theta)
        crossed = sides != 0
        if is_optimal and (crossed == kinks).all():
            # On a definite side, standard errors do not depend on rounding.
            theta = batch.bounds.select(fit).clip(theta * (1 + MINIMIZATION.kink_side * sides * np.sign(theta)))
            return Outcome(theta, True, kinks=tuple(kinks.nonzero()[0].tolist()))
        if not (crossed | kinks).any():
            return None
        kinks, bounds = crossed, batch.bounds.select(fit)
        for index in kinks.nonzero()[0].tolist():
            bounds = bounds.with_fixed(index, float(theta[index]))
        part = batch.take(one, bounds)
        (end,) = minimize_batch(method, part, theta[None])
        is_optimal = end.converged
        if (part.losses(end.theta[None], np.arange(1)) <= part.losses(theta[None], np.arange(1))).all():
            theta = end.theta
            batch.set_scales(one, part.scales)
    return None


def _kink_sides(batch: Batch, fit: int, theta: Array) -> NDArray[np.intp]:
    """Return the side of a kink with the smaller slope, above (1) or below (-1), for each parameter; 0 without a kink.

    Only kinks at which the loss decreases on neither side count. Near a kink, the difference of the slopes on both
    sides does not depend on the distance; elsewhere it is proportional to it.
    """
    every = np.arange(len(theta))
    distances = MINIMIZATION.kink_probe * np.where(theta != 0, np.abs(theta), 1.0)
    points = theta + np.concatenate([factor * np.diag(distances) for factor in (1, -1, 2, -2)])
    gradients = batch.take(np.full(len(points), fit)).values_and_gradients(points, np.arange(len(points)))[1]
    above, below, far_above, far_below = gradients.reshape(4, len(theta), -1)[:, every, every]
    is_kink = above - below > MINIMIZATION.kink_jump * (far_above - far_below)
    is_kink &= (above >= 0) & (below <= 0) & (above > below)
    return np.where(is_kink, np.where(above < -below, 1, -1), 0)


def kinks_at_minimum(objective: Objective, theta: Array, fixed: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the parameters whose slopes jump at a minimum; empty if a point is no minimum at a kink of the loss.

    Args:
        fixed: the indices of parameters that do not move.
    """
    if not (objective.has_kinks or objective.kernels.without_kinks):
        return ()
    radius = np.where(np.isin(np.arange(len(theta)), fixed), 0.0, MINIMIZATION.kink_radius)
    wide = _kinks_around(objective, theta, radius * np.maximum(np.abs(theta), 1))
    return wide or _kinks_around(objective, theta, radius * np.abs(theta))


def _kinks_around(objective: Objective, theta: Array, radius: Array) -> tuple[int, ...]:
    """Return the parameters whose slopes differ within a radius of a minimum; empty if a point is no minimum there.

    The gradients at random points nearby then have a convex combination that vanishes: gradient sampling, Burke, Lewis
    & Overton 2005. The combination of least length is found by the method of Gilbert 1966.
    """
    shifts = np.random.default_rng(0).uniform(-1, 1, (MINIMIZATION.kink_samples * (1 + len(theta)), len(theta)))
    points = theta + radius * np.concatenate((shifts, MINIMIZATION.kink_nearer * shifts))
    losses, slopes = repeat_objective(objective, len(points)).values_and_gradients(points, np.arange(len(points)))
    gradients, nearer = np.split(radius * slopes, 2)
    # Beyond a jump of the loss, the slopes differ too, but that is no kink.
    change = np.abs(losses - objective.value(theta)).reshape(2, -1).max(axis=0)
    most = 2 * np.abs(gradients).sum(axis=1).max() + MINIMIZATION.kink_rounding * np.abs(losses).max()
    gradients, nearer = gradients[change <= most], nearer[change <= most]
    if not (len(gradients) and np.isfinite(gradients).all()):
        return ()
    nearest = gradients.mean(axis=0)
    limit = MINIMIZATION.kink_vanishing * float(np.max(np.linalg.norm(gradients, axis=1)))
    for _ in range(MINIMIZATION.kink_iterations):
        if not np.linalg.norm(nearest) > limit:
            is_kink = np.ptp(nearer, axis=0) > np.maximum(limit, MINIMIZATION.kink_jump * np.ptp(gradients, axis=0))
            return tuple(np.flatnonzero(is_kink).tolist())
        step = gradients[np.argmin(gradients @ nearest)] - nearest
        if not nearest @ step < 0:
            return ()
        nearest = nearest + min(max(float(-(nearest @ step) / (step @ step)), 0.0), 1.0) * step
    return ()


def format_starts(objective: Objective, theta: Array, chosen: Sequence[int] | None = None) -> str:
    """Return starting values as words for a sentence: of all numbers, or of the numbers with the chosen indices."""
    slices, names = objective.layout.slices, objective.scalar_parameters
    listed = [name for name in names if chosen is None or slices[name].start in chosen]
    return ", ".join(f"{name} = {theta[slices[name].start]:.4g}" for name in listed)


def natural_ranges(objective: Objective) -> str:
    """Return the ranges outside of which the model has no meaning, as words; empty if there are none."""
    box, layout, user_bounds = objective.bounds, objective.layout, objective.bounds_by_name
    indices = {name: layout.slices[name].start for name in objective.scalar_parameters}
    ranges = {name: (float(box.low[k]), float(box.high[k])) for name, k in indices.items()}
    natural = {name: pair for name, pair in ranges.items() if pair != user_bounds.get(name, (-math.inf, math.inf))}
    return ", ".join(f"`{name}` {describe_bounds(pair)}" for name, pair in natural.items())


def minimize_batch(
    method: str, batch: Batch, start: Array, on_step: BatchCallback = ignore_steps, stop: StoppingRule = CONVERGENCE
) -> list[Outcome]:
    """Fit a batch once, each from one start.

    Args:
        method: `lm`, `lbfgs`, or `newton`: L-BFGS after Newton's method, for starts near minima.
        start: the starting points, of shape (fits, P), which are moved into the bounds.
        on_step: is called with the starts and with every step.
        stop: when the fits stop.
    """
    start, objective = batch.bounds.clip(start), batch.objective
    if method == "lm":
        is_refined = objective.is_penalised and not objective.has_kinks and stop == CONVERGENCE
        return (_fit_penalised_squares if is_refined else fit_least_squares)(batch, start, on_step, stop)
    unit, is_near = 1.0 if objective.kind is LossKind.LIKELIHOOD else None, method == "newton"
    if objective.is_scale_estimated:
        return _fit_with_scale(batch, start, on_step, stop, unit, is_near=is_near)
    outcomes = fit_smooth_loss(batch, start, on_step, stop, unit, is_near=is_near)
    return _with_exact_zeros(batch, outcomes) if objective.settings[L1_FACTOR] else outcomes


def _fit_penalised_squares(batch: Batch, start: Array, on_step: BatchCallback, stop: StoppingRule) -> list[Outcome]:
    """Minimise sums of squares with an l2 penalty, and finish with Newton steps.

    A penalty leaves large residuals, near which Gauss-Newton steps converge slowly. They also end at saddle points.
    """
    every, epochs_done = np.arange(len(start)), np.zeros(len(start), np.intp)
    outcomes = fit_least_squares(batch, start, renumber(on_step, every, epochs_done), stop)
    fits = np.array([fit for fit, end in enumerate(outcomes) if end.converged], np.intp)
    theta, report = np.array([outcomes[fit].theta for fit in fits]), renumber(on_step, fits, epochs_done)
    ends = fit_smooth_loss(batch.take(fits), theta, report, is_near=True) if len(fits) else []
    for fit, end in zip(fits.tolist(), ends, strict=True):
        outcomes[fit] = end if end.converged else outcomes[fit]
    return outcomes


def estimated_scales(batch: Batch, theta: Array, fits: Fits) -> Array:
    """Return the standard deviation of the residuals of some fits, which is robust unless there are priors, or theta of
    negative binomial counts; see `robust_scale` and `estimate_theta`.
    """
    if batch.objective.has_priors:
        sums = batch.without_penalty().losses(theta, fits) * batch.total_weights(fits) * batch.objective.components
        return np.asarray(np.sqrt(sums / batch.target_counts[fits]))
    if isinstance(batch, GroupBatch):
        return MAD_TO_STD * batch.median_magnitudes(theta, fits)
    estimate = estimate_theta if batch.objectives[0].has_theta else robust_scale
    return np.array([estimate(batch.objectives[fit], point) for fit, point in zip(fits.tolist(), theta, strict=True)])


def root_mean_square(objective: Objective, theta: Array) -> float:
    """Return the standard deviation of the residuals that maximises the likelihood."""
    return math.sqrt(objective.rss(theta) / objective.target_count)


@ignore_float_errors()
def comparison_losses(batch: Batch, theta: Array) -> Array:
    """Return the losses by which fits are compared; infinite where they are undefined, or of rounding errors.

    A robust loss depends on its scale. If the scale is estimated, fits are compared by the squares of their scales.
    Fits of negative binomial counts are compared by the likelihood, each with its own theta.
    """
    objective, every = batch.objective, np.arange(len(theta))
    if objective.is_scale_estimated and (objective.has_priors or objective.kind is LossKind.ROBUST):
        losses = np.square(estimated_scales(batch, theta, every))
        if objective.has_priors:  # the variance that maximises the posterior density, times exp(-2/n·log prior)
            losses *= np.exp(-2 / batch.target_counts * objective.prior_ranks(theta))
    elif objective.has_theta and objective.is_scale_estimated and not objective.is_penalised:
        losses = np.array([_loss_at_best_theta(batch.objective_of(fit), theta[fit]) for fit in every.tolist()])
    else:
        losses = batch.losses(theta, every)
        if objective.has_priors:
            unit = 2 * np.square(batch.scales) if objective.kind is LossKind.SQUARES else 1.0
            excess = objective.log_priors(theta) - objective.prior_ranks(theta)
            losses = losses + unit * excess / batch.total_weights(every) / objective.components
    return np.where(np.isfinite(losses) & ~are_rounding_errors(batch, theta, losses), losses, np.inf)


def are_rounding_errors(batch: Batch, theta: Array, losses: Array) -> Mask:
    """Return at which points rounding errors change the residuals by much, as at `k = 1e-17` of `a*(1 - exp(-k*x))`.

    They then have a loss of their own, which may be smaller than at all other points.
    """
    objective, every = batch.objective, np.arange(len(theta))
    has_residuals = objective.kind in (LossKind.SQUARES, LossKind.ROBUST)
    # Steps of rounding errors do not fit the thousands of rows of other batches better than curves.
    if objective.is_linear or objective.model.shapes or not (has_residuals and isinstance(batch, GroupBatch)):
        return np.zeros(len(theta), np.bool_)
    means = batch.means(objective.kernels.by_row.rounding_squares, theta, every)[:, 0] / objective.components
    sizes = batch.mean_squares(batch.target_variations(every, about_mean=False), every)
    least = np.fmax(MINIMIZATION.rounding_share * losses, MINIMIZATION.least_rounding * sizes)
    return np.asarray(means * np.finfo(np.float64).eps ** 2 > least)


@ignore_float_errors()
def density_losses(objective: Objective, points: Array) -> Array:
    """Return the losses by which the ends of fits to the same rows are compared as densities; see `comparison_losses`.

    The square of a robust scale depends on few rows. So robust losses are compared at one scale, the smallest of all
    ends, as for MM-estimates (Yohai 1987, Annals of Statistics 15, 642): there, the ends differ in the loss alone.
    """
    batch = repeat_objective(objective, len(points))
    losses, every = comparison_losses(batch, points), np.arange(len(points))
    if objective.kind is LossKind.ROBUST and objective.is_scale_estimated:
        square = losses.min(where=losses > 0, initial=np.inf)
        batch.set_scales(every, np.full(len(points), np.sqrt(square)))
        totals = objective.total_weight / square * batch.losses(points, every)
        losses = square * np.exp(2 / batch.target_counts * (totals - np.fmin.reduce(totals)))
    return losses


def _loss_at_best_theta(objective: Objective, theta: Array) -> float:
    """Return minus the mean log-likelihood of negative binomial counts, with the most likely theta for their means."""
    profiled = objective.with_rows(objective.data)
    profiled.set_scale(estimate_theta(objective, theta))
    return -float(likelihood_sums(profiled, theta).log_likelihood) / objective.total_weight


@ignore_float_errors()
def likely_ends(objective: Objective, ends: Array, losses: Array) -> tuple[Array, ...]:
    """Return the ends of fits that are nearly as likely as the first one, but not equal to it, the best first."""
    gains = likelihood_gains(ObjectiveBatch([objective]), losses, losses[0])
    order = np.argsort(losses, kind="stable")
    likely = ends[order[gains[order] < MINIMIZATION.exclusion * dispersion_of(objective, ends[0])]]
    alternatives = [ends[0]]
    for _ in range(MINIMIZATION.max_alternatives):
        likely = likely[~are_equal_solutions(likely, alternatives[-1])]
        alternatives.extend(likely[:1])
    return tuple(alternatives[1:])


def alternatives_near(objective: Objective, points: Array) -> tuple[Array, ...]:
    """Return the points that are nearly as likely as the first one, given the points alone; see `likely_ends`."""
    return likely_ends(objective, points, density_losses(objective, points))


def dispersion_of(objective: Objective, theta: Array) -> float:
    """Return the dispersion at the end of a fit, by which quasi-likelihoods are divided; 1 for likelihoods."""
    if not objective.has_dispersion:
        return 1.0
    return compute_statistics(objective, theta, with_goodness=True).dispersion or 1.0


def likelihood_gains(batch: Batch, before: Array | float, after: Array | float) -> Array:
    """Return by how much the log-likelihood of each fit of a batch rises between two of its losses.

    See `comparison_losses`. Robust losses count as likelihoods, and least absolute deviations as the likelihood of
    Laplace's distribution.

    Args:
        before, after: mean losses, or variances of the residuals.
    """
    objective, weights = batch.objective, batch.total_weights(np.arange(batch.count)) * batch.objective.components
    has_unit = objective.is_absolute or (objective.kind is LossKind.ROBUST and not objective.is_scale_estimated)
    if objective.kind is LossKind.LIKELIHOOD or has_unit:
        units = {LossKind.SQUARES: np.array(2.0), LossKind.ROBUST: np.square(batch.scales)}
        return np.asarray(weights / units.get(objective.kind, 1.0) * np.subtract(before, after))
    power = 1.0 if objective.kind is LossKind.OTHER else 0.5  # of the variance, or of the mean size of residuals
    return np.asarray(power * batch.target_counts * np.log(np.divide(before, after)))


@ignore_float_errors()
def rank_gains(batch: Batch, ends: Array, others: Array, losses: Sequence[Array] | None = None) -> Array:
    """Return by how much one end of each fit of a batch ranks above another, as the logarithm of a likelihood ratio.

    A more likely end is better. An end where the likelihood is unbounded is worse than any other. A curve that is
    finite between all rows is better than one with a pole, unless the data exclude it.

    Args:
        ends: the points to compare with, of shape (fits, P).
        others: the points that are ranked.
        losses: the losses by which the points are compared, of both; by default see `comparison_losses`.
    """
    every = np.arange(batch.count)
    if batch.objective.is_likelihood:
        each = [batch.objective_of(fit) for fit in every.tolist()]
        before, after = (np.array([*map(solution_loss, each, theta)]) for theta in (ends, others))
    else:
        before, after = losses or (comparison_losses(batch, ends), comparison_losses(batch, others))
    gains = np.nan_to_num(likelihood_gains(batch, before, after), nan=-np.inf)
    close = every[np.abs(gains) < MINIMIZATION.exclusion + MINIMIZATION.clear_gain]
    if len(close):
        broken, other = (curve_warnings(batch, theta[close], close) != "" for theta in (ends, others))
        gains[close] += MINIMIZATION.exclusion * (broken.astype(np.float64) - other)
    return np.asarray(gains)


def are_equal_solutions(ends: Array, others: Array) -> Mask:
    """Return which ends of fits are the same points as others, up to signs and order of the parameters."""
    one, other = (np.sort(np.abs(points), axis=-1) for points in (ends, others))
    return np.asarray(np.isclose(one, other, rtol=MINIMIZATION.equal_end).all(axis=-1))


def best_alternative(objective: Objective, end: Outcome, others: Sequence[Array] | Array) -> Array | None:
    """Return the best of other minima; None if none ranks above the end of a fit.

    It has to rank clearly above an end that converged. The scale of an end that did not converge is unreliable, so
    densities are compared then; see `density_losses`.
    """
    if not len(others):
        return None
    batch, own = repeat_objective(objective, len(others)), np.tile(end.theta, (len(others), 1))
    losses = None if end.converged else np.split(density_losses(objective, np.vstack((end.theta, others))), [1])
    gains = rank_gains(batch, own, np.array(others), losses)
    return others[int(np.argmax(gains))] if gains.max() > MINIMIZATION.clear_gain * end.converged else None


@ignore_float_errors()
def _fit_with_scale(
    batch: Batch, start: Array, on_step: BatchCallback, stop: StoppingRule, unit: float | None, *, is_near: bool
) -> list[Outcome]:
    """Alternate fits with estimates of their scales until the scales converge.

    Residual scales follow Huber 1981, section 7.8; theta of counts follows Venables & Ripley 2002, section 7.4. The
    batch keeps the estimated scales. If they converge slowly or oscillate, and near the end, the secant method finds
    the logarithm of the scale at which the estimate is equal to the scale.
    """
    active, objective = np.arange(len(start)), batch.objective
    theta, epochs_done = start.copy(), np.zeros(len(start), np.intp)
    outcomes = [Outcome(point, True) for point in start]
    spreads = np.sqrt(batch.mean_squares(batch.target_variations(active), active))
    least = MINIMIZATION.zero_scale if objective.has_priors else MINIMIZATION.zero_robust_scale
    # Theta of counts has no unit of the target. The spread of huge targets overflows.
    smallest = np.where((unit is None) & (spreads < math.inf), least * spreads, 0.0)
    gaps = np.full((2, len(start)), np.nan)  # logarithms of the last scale of each fit, and of estimate / scale there
    # The least distance of a scale from its estimate, the least and the largest estimate, and the last round of these.
    progress = np.tile([[np.inf], [np.inf], [0.0], [0.0]], len(start))
    for number in itertools.count():
        # Theta is estimated from counts about their means, not from a start.
        is_known = number == 0 and unit is not None
        scales = batch.scales[active] if is_known else estimated_scales(batch, theta[active], active)
        if number == 0 and objective.has_priors:  # at a poor start the priors would outweigh the data
            is_poor = ~(scales < MINIMIZATION.poor_scale * spreads[active])
            scales = np.where(is_poor, MINIMIZATION.first_scale * spreads[active], scales)
        is_exact = scales <= smallest[active]
        for fit in active[is_exact].tolist():
            outcomes[fit] = dataclasses.replace(outcomes[fit], note=_EXACT_FIT if objective.has_priors else NO_SCALE)
        distances = np.abs(scales / batch.scales[active] - 1) if number else np.full(len(active), np.inf)
        closest, low, high, last = progress[:, active]
        is_idle = (distances >= closest / 2) & (scales >= low / 2) & (scales <= 2 * high)
        rounds = np.full(len(active), number)
        latest = np.minimum(closest, distances), np.fmin(low, scales), np.fmax(high, scales), rounds
        progress[:, active] = np.where(is_idle, progress[:, active], latest)
        is_idle &= number - last > MINIMIZATION.max_idle_rounds
        for fit in active[is_idle & ~is_exact].tolist():
            outcomes[fit] = Outcome(theta[fit], False, _UNSETTLED)
        is_open: Mask = ~(is_exact | is_idle | (distances <= MINIMIZATION.tolerance))
        active, scales = active[is_open], scales[is_open]
        if not len(active):
            break
        batch.set_scales(active, _next_scales(batch.scales[active], scales, gaps, active) if number else scales)
        report = _with_own_variance(batch, active, renumber(on_step, active, epochs_done))
        remaining = stop.after(int(epochs_done[active].max()))
        ends = fit_smooth_loss(batch.take(active), theta[active], report, remaining, unit, is_near=is_near)
        for fit, end in zip(active.tolist(), ends, strict=True):
            outcomes[fit], theta[fit] = end, end.theta
        active = np.array([fit for fit in active.tolist() if outcomes[fit].converged], np.intp)
        is_near = True  # a slightly different scale moves the minimum little
    return outcomes


def _with_own_variance(batch: Batch, active: Fits, on_step: BatchCallback) -> BatchCallback:
    """Return a callback for losses with priors. They depend on the variance of the residuals, which is that of each
    step here, not the last estimate.
    """
    objective = batch.objective
    if not objective.has_priors:
        return on_step

    def report(some: Fits, numbers: Fits, losses: Array, theta: Array) -> None:
        fits, priors = active[some], 2 * objective.log_priors(theta)
        squares = losses + np.square(batch.scales[fits]) * priors / batch.total_weights(fits) / objective.components
        on_step(some, numbers, squares * (1 - priors / batch.target_counts[fits]), theta)

    return report


def _next_scales(scales: Array, estimates: Array, gaps: Array, fits: Fits) -> Array:
    """Return the scales of the next round, from the scales of the last round and the estimates at its ends."""
    last, gap = np.log(scales), np.log(estimates / scales)
    slopes = (gap - gaps[1, fits]) / (last - gaps[0, fits])
    is_close = (np.abs(gap) < MINIMIZATION.near) | (gap * gaps[1, fits] < 0)
    largest = np.maximum(1.0, MINIMIZATION.near / np.abs(gap))  # the residuals may be proportional to the scale
    gaps[:, fits] = last, gap
    factors = np.where(is_close & (slopes < MINIMIZATION.rising), np.minimum(1 / np.abs(slopes), largest), 1.0)
    return np.asarray(np.exp(last + gap * factors))


def _with_exact_zeros(batch: Batch, outcomes: list[Outcome]) -> list[Outcome]:
    """Return the outcomes with parameters set to 0 that an l1 penalty holds there.

    For these parameters, the slope of the penalty exceeds the slope of the loss. While the kink of the penalty is
    smoothed, they end only close to 0. If these are all parameters, 0 is a minimum even where no step led down.
    """
    fits = np.flatnonzero([end.converged or end.is_stuck for end in outcomes])
    if not len(fits):
        return outcomes
    theta = np.array([outcomes[fit].theta for fit in fits])
    _, slopes = batch.without_penalty().values_and_gradients(theta, fits)
    is_zero = np.abs(slopes) < MINIMIZATION.l1_slope_share * batch.objective.settings[L1_FACTOR]
    snapped = np.where(is_zero, 0.0, theta)
    highest = batch.losses(theta, fits) * (1 + MINIMIZATION.tolerance)
    is_allowed = batch.bounds.select(fits).contains(snapped) & (batch.losses(snapped, fits) <= highest)
    for k in np.flatnonzero(is_allowed).tolist():
        end, is_minimum = outcomes[fits[k]], bool(is_zero[k].all())
        outcomes[fits[k]] = Outcome(snapped[k], True) if is_minimum else dataclasses.replace(end, theta=snapped[k])
    return outcomes


def outlier_minima_mask(batch: Batch, is_poor: Mask) -> Mask:
    """Return which robust fits may have several minima, each with other outliers; of shape (fits,).

    Args:
        is_poor: which fits explain little of the variation. If the scale is estimated too, even a convex loss may then
            have other minima.
    """
    objective = batch.objective
    is_resistant = objective.loss != "" and LOSSES[objective.loss].is_resistant
    is_convex = objective.is_linear and LOSSES[objective.loss].is_convex
    # A curve through half of the rows leaves residuals without a scale.
    has_scale = batch.target_counts > 2 * objective.layout.size * objective.is_scale_estimated
    return is_resistant & (is_poor | (not is_convex)) & has_scale


@ignore_float_errors()
def fit_from_subsets(batch: GroupBatch, theta: Array, drawn: Array) -> Array:
    """Return ends of robust fits that start from least-squares fits of few random rows, the best first.

    One of these subsets probably has no outlier (Rousseeuw 1984, Journal of the American Statistical Association 79,
    871).

    Args:
        theta: the starts of half of the least-squares fits, of shape (fits, P).
        drawn: the starts of the other half, of shape (n, P), which all fits share.

    Returns:
        The ends, of shape (fits, ends, P).
    """
    (count, size), (half, _) = theta.shape, drawn.shape
    shared = np.broadcast_to(drawn, (count, half, size))
    starts = np.concatenate((np.repeat(theta[:, None], half, axis=1), shared), axis=1)
    fits = np.repeat(np.arange(count), 2 * half)
    generator = np.random.default_rng(0)
    subsets = batch.take(fits).take_rows(lambda count: generator.permutation(count)[:size])
    stop = StoppingRule(None, MINIMIZATION.subset_tolerance, MINIMIZATION.subset_evaluations)
    ends = np.array([end.theta for end in fit_least_squares(subsets, starts.reshape(-1, size), stop=stop)])
    losses = comparison_losses(batch.take(fits), ends)
    losses, points = losses.reshape(count, -1), ends.reshape(starts.shape)
    order = best_of_slices(losses, MINIMIZATION.refined_subsets)
    refined, stop = np.repeat(np.arange(count), order.shape[1]), StoppingRule(MINIMIZATION.refinement_epochs)
    chosen = np.take_along_axis(points, order[:, :, None], axis=1).reshape(-1, size)
    distinct, labels = np.arange(len(refined)), np.arange(len(refined))
    if batch.objective.is_scale_estimated:
        # With the scales at their starts, most refinements of a fit meet. Of these only the first one continues.
        part = batch.take(refined)
        part.set_scales(distinct, estimated_scales(part, chosen, distinct))
        chosen = np.array([end.theta for end in fit_smooth_loss(part, chosen, stop=stop)])
        refined_ends = chosen.reshape(count, -1, size)
        first_equal = are_equal_solutions(refined_ends[:, :, None], refined_ends[:, None]).argmax(axis=2)
        numbers = first_equal + np.arange(count)[:, None] * order.shape[1]
        distinct, labels = np.unique(numbers, return_inverse=True)
    part = batch.take(refined[distinct])
    ends = np.array([end.theta for end in minimize_batch("lbfgs", part, chosen[distinct], stop=stop)])
    losses, ends = comparison_losses(part, ends)[labels].reshape(order.shape), ends[labels].reshape(*order.shape, size)
    return np.take_along_axis(ends, np.argsort(losses, axis=1)[:, :, None], axis=1)


def best_of_slices(losses: Array, max_count: int) -> NDArray[np.intp]:
    """Return the position of the least loss in each of some slices of the last axis, which grow from few to many.

    >>> best_of_slices(np.ones(100), 4)
    array([ 0,  4, 11, 34])
    """
    count = losses.shape[-1]
    ends = [0, *np.unique(np.geomspace(min(4, count), count, max_count).astype(np.intp)).tolist()]
    return np.array([low + np.argmin(losses[..., low:high], axis=-1) for low, high in itertools.pairwise(ends)]).T


def project_linear(objective: Objective, points: Array, adjusted: Mask, box: Bounds) -> tuple[Array, Array]:
    """Return the usable points of `project_linear_each` for one objective, and their remaining sums of squares."""
    every = np.arange(len(points))
    theta, remaining = project_linear_each(repeat_objective(objective, len(points), box), every, points, adjusted)
    is_usable = np.isfinite(remaining)
    return theta[is_usable], remaining[is_usable]


def with_stick_breaking(objective: Objective) -> Objective:
    """Return the objective with stick-breaking.

    Each share of a whole is a fraction of what the shares before it leave, so any values from 0 to 1 are possible.
    """
    replaced = dict[Node, Node]()
    for part in objective.shares:
        rest: Node = as_node(1)
        for leaf in (objective.model.program.leaves[objective.layout.names[k]] for k in part):
            replaced[leaf], rest = rest * leaf, rest * (1 - leaf)
    return objective.substituted(replaced, constraints=Constraints())


def stick_breaking_shares(objective: Objective, points: Array) -> Array:
    """Return points of `with_stick_breaking` as points of the objective itself."""
    points = points.copy()
    for part in map(list, objective.shares):
        points[:, part[1:]] *= np.cumprod(1 - points[:, part[:-1]], axis=1)
    return points


def stick_breaking_fractions(objective: Objective, theta: Array) -> Array:
    """Return a point of the objective as a point of `with_stick_breaking`."""
    fractions = theta.copy()
    for part in map(list, objective.shares):
        fractions[part[1:]] /= np.maximum(1 - np.cumsum(theta[part[:-1]]), np.finfo(np.float64).tiny)
    return objective.bounds.clip(fractions)


def rows_of_component(objective: Objective, theta: Array, index: int) -> int:
    """Return the number of rows of a component of a mixture if it is an artefact with too few rows; otherwise 0.

    The likelihood of a mixture is unbounded where a component shrinks to a row: McLachlan & Peel 2000, section 3.10.

    Args:
        index: the index of the width of the component.
    """
    is_width = (objective.bounds.low == 0) & np.isinf(objective.bounds.high)  # shares have an upper bound of 1
    width = theta[index] / theta[is_width].max() if is_width[index] else np.inf
    if width >= MINIMIZATION.wide_component:
        return 0
    limits = MINIMIZATION.rows_of_component, MINIMIZATION.rows_of_narrow_component
    leaf = objective.model.program.leaves[objective.layout.element_names[index]]
    build = functools.partial(objective.kernels.shares_of_component, leaf)
    (count,) = objective.sum_rows(objective.kernels.cached(f"shares of {leaf.text}", build), theta)
    return round(float(count)) if count < limits[int(width < MINIMIZATION.narrow_component)] else 0


def assess_solution(objective: Objective, end: Outcome) -> Outcome:
    """Return the end of a fit by a method that runs to convergence, with the reason in words if it failed."""
    if end.divergence is not None:
        return dataclasses.replace(end, failure=start_failure(end.divergence, objective))
    reason = "" if end.is_unbounded or not objective.is_likelihood else unbounded_reason(objective, end.theta)
    if reason:
        failure = f"the loss has no minimum: {reason}"
        end = dataclasses.replace(end, converged=False, failure=failure, is_unbounded=True)
    if end.is_stuck and has_no_finite_minimum(objective, end.theta):
        return dataclasses.replace(end, failure="")
    hint = unbounded_loss_hint(objective.model, objective.is_likelihood) if end.is_unbounded else ""
    return dataclasses.replace(end, failure=f"{end.failure}. {hint}") if hint else end


def solution_loss(objective: Objective, theta: Array) -> float:
    """Return the loss at the end of a fit; infinite if it breaks constraints, or if the likelihood is unbounded."""
    if not objective.constraints.are_met(theta) or unbounded_reason(objective, theta):
        return math.inf
    return objective.value(theta)


def is_no_minimum(objective: Objective, first: Outcome) -> bool:
    """Whether a fit failed, or its parameters are undetermined or on a bound."""
    if not first.converged or objective.bounds.active(first.theta).any() or unbounded_reason(objective, first.theta):
        return True
    return bool(compute_statistics(objective, first.theta).missing_error_reasons)


def start_failure(error: Diverged, objective: Objective) -> str:
    """Return why a fit could not begin, as a sentence."""
    where = find_undefined(objective, objective.start)
    if where is None:
        return f"{error}: the squares of the residuals overflow; rescale the data, or choose other starting values"
    return f"{error}: {where}; {where.advice}"


def has_several_minima(objective: Objective) -> bool:
    """Whether a model that is itself minus a log-likelihood is likely to have several minima: it has shares of
    components, such as a mixture, or frequencies.
    """
    model = objective.model
    if not objective.is_likelihood or model.shapes or model.levels or not objective.unset_parameters:
        return False  # with levels, components of single levels might be interchanged
    box = objective.bounds
    return bool((np.isfinite(box.low) & np.isfinite(box.high)).any()) or bool(Sinusoids(objective).frequencies)


def unbounded_reason(objective: Objective, theta: Array) -> str:
    """Return why a likelihood increases without bound from a point, as a clause; empty if it does not.

    A density is infinite if a positive parameter has shrunk to 0, such as the standard deviation of a component at a
    single row. Parameters that go to infinity are found by `find_unlimited`.
    """
    is_mixture = has_several_minima(objective) and objective.rows > MINIMIZATION.few_rows_per_parameter * len(theta)
    is_level = not objective.value_and_grad(theta)[1].any() and not objective.hessian(theta).any()
    if is_level and not kinks_at_minimum(objective, theta):
        return "it is flat here: no parameter changes it"
    for name in objective.scalar_parameters:
        index = objective.layout.slices[name].start
        low, value = objective.bounds.low[index], theta[index]
        if low == 0 and 0 < value < MINIMIZATION.vanished_scale * max(abs(objective.start[index]), abs(theta).max()):
            return f"it decreases without bound as `{name}` goes to 0, where the model is infinite or undefined"
        if low == 0 and is_mixture and (count := rows_of_component(objective, theta, index)):
            own = f"`{name}` depends on {count} rows (to keep it, give starting values for all parameters)"
            return f"it decreases without bound where a component shrinks to a row; {own}"
    return ""
