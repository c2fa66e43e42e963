"""The Levenberg-Marquardt method for least squares, with bounds, after Moré 1978 (MINPACK's lmder), for many fits.

The QR factorization of [J | r], the Jacobian and the residuals, determines cost, gradient and Gauss-Newton matrix. With
its triangular factor R, the method treats `R[:, P]` as the residuals and `R[:, :P]` as the Jacobian: a problem of P+1
residuals for any number of rows. Near the minimum, accelerated Gauss-Newton steps take over.

The fits of a batch take their steps together; a fit that has ended takes no more. A single fit is a batch of one.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from autodiff_cli.array_types import Array, Mask, ignore_float_errors
from autodiff_cli.backends.reductions import svd
from autodiff_cli.numbers.arrays import dots
from autodiff_cli.training.methods.gradient_descent import (
    CONVERGENCE,
    BatchCallback,
    Outcome,
    RunawayDetector,
    StoppingRule,
    ignore_steps,
)
from autodiff_cli.training.objective.batch import BATCH, Batch, Fits, rounding_squares
from autodiff_cli.training.objective.kernels import linear_parameters
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.objective.parameters import ZERO_LOSS_TOLERANCE, Bounds, snap_to_zero
from autodiff_cli.training.rows import triangular_factor

# Ratio of a singular value to the largest, of columns of J scaled to length 1, at which the columns count as dependent.
# It is somewhat more than the rounding error of an exact 0.
DEPENDENCE_TOLERANCE = 1e-13


class LevenbergMarquardtSettings(NamedTuple):
    """Tolerances and limits of the Levenberg-Marquardt method, and constants of its trust region (Moré 1978)."""

    tolerance: float = 1e-15  # relative, of cost, parameters and gradient; the usual 1e-8 loses digits in flat valleys
    rounding_reduction: float = 1e-12  # relative change of a sum of squares that rounding may cause
    first_evaluations: int = 100  # evaluations after which the nonlinear parameters are fitted alone
    max_change: float = 10.0  # factor by which they may change then: those that run to infinity or to 0 change by more
    max_evaluations: int = 1000  # evaluations without a limit on epochs; 20 per parameter are added
    min_accepted_ratio: float = 1e-4  # ratio of actual to predicted reduction for a step to be accepted (Moré 1978)
    orthogonality_tolerance: float = 1e-3  # cosine of the angle between residuals and a column of J that counts as 90°
    near_reduction: float = 1e-4  # predicted relative reduction below which Gauss-Newton steps take over
    max_polish_steps: int = 30  # Gauss-Newton steps at the end
    polish_reduction: float = 0.9  # a polishing step must reduce the projected residuals to less than this share
    polished: float = 1e-12  # at a minimum, the parameters can remove less than this share of the residuals
    max_polish_rise: float = 1.1  # ratio of the residuals in a polishing step; tiny residuals change by rounding errors
    domain_probe: float = 1e-7  # relative change of the parameters within which the model must be defined at an end
    max_usable: float = 1e150  # larger residuals count as infinite, because their squares overflow

    initial_radius_factor: float = 100.0  # the first radius, in norms of the scaled starting point
    radius_tolerance: float = 0.1  # relative difference between step length and radius that is accepted
    window: int = 8  # evaluations after which runs of a search that fall too slowly end
    max_damping_steps: int = 30  # steps of the root search for the damping; 3 are usual
    poor_ratio: float = 0.25  # ratio of actual to predicted reduction below which the region shrinks
    good_ratio: float = 0.75  # ratio of actual to predicted reduction above which the region grows
    # smaller singular values count as 0; merely small ones stay, since their long steps limit the other steps
    zero_singular_value: float = 1e-70
    min_safe_square: float = 1e-280  # smaller squares have lost digits to underflow


SETTINGS = LevenbergMarquardtSettings()


@ignore_float_errors()
def fit_least_squares(
    batch: Batch, start: Array, on_step: BatchCallback = ignore_steps, stop: StoppingRule = CONVERGENCE
) -> list[Outcome]:
    """Minimise the (weighted) sums of squared residuals of a batch of fits.

    Args:
        start: the starting points, of shape (fits, P).
        on_step: is called with the starts and with the accepted steps.
        stop: when the fits stop. Without a limit on evaluations, a default limit depends on the number of parameters.

    Returns:
        The end of each fit, with a `divergence` if the residuals or their derivatives at the start are not finite.
    """
    method = _LevenbergMarquardt(batch, start, on_step, stop)
    most = stop.evaluations or SETTINGS.max_evaluations + 20 * start.shape[1]
    fits, is_polished = method.fits, stop.tolerance is None
    is_unlimited, hands_over = stop.epochs is stop.evaluations is None, is_polished and stop.epochs is None
    first = SETTINGS.first_evaluations if is_unlimited else most
    method.run(method.under_way(), first, stop.epochs, hands_over=hands_over)
    if is_unlimited and len(slow := method.under_way()):
        method.eliminate_linear(slow, first)
        method.run(method.under_way(), most, hands_over=hands_over)
    is_limited = fits.epochs == stop.epochs  # no element equals None
    if is_polished:
        is_open = method.polish((method.is_finished & ~is_limited).nonzero()[0])
        if len(is_open):
            method.run(is_open, most)
            method.polish(is_open[method.is_finished[is_open]])
    is_stuck = method.is_stuck()
    unsolved = (method.is_usable & ~is_limited & (~method.is_finished | is_stuck)).nonzero()[0]
    if len(unsolved) and len(snapped := method.snap_to_zero(unsolved)):
        method.run(snapped, int(fits.evaluations[snapped].max()) + most)
        if is_polished:
            method.polish(snapped)
        is_stuck[snapped] = method.is_stuck(snapped)
    outcomes: list[Outcome] = []
    for fit, theta in enumerate(fits.theta.copy()):
        if not method.is_usable[fit]:
            loss = float(batch.losses(start[fit : fit + 1], np.array([fit]))[0])
            outcomes.append(Outcome.of_undefined_start(theta, loss))
        elif is_limited[fit] or (method.is_finished[fit] and not is_stuck[fit]):
            outcomes.append(Outcome(theta, bool(method.is_finished[fit] and not is_stuck[fit])))
        elif not method.is_finished[fit]:
            reason = f"no convergence within {fits.evaluations[fit]} evaluations"
            outcomes.append(Outcome(theta, False, RunawayDetector.REASON if method.runaways.is_found[fit] else reason))
        else:
            reason = "no minimum was found: the loss has a slope there, but no step reduces it"
            outcomes.append(Outcome(theta, False, reason, is_stuck=True))
    return outcomes


class _FitStates(NamedTuple):
    """Some fits of a batch. Every array has the fits as its first axis.

    Attributes:
        numbers: the numbers of the fits in the batch.
        theta: the parameters.
        triangles: the triangular factors of [J | r].
        norms: the norms of the columns of J, and of the residuals.
        slopes: half of the gradients of the sums of squares.
        scale: the axes of the trust regions: the largest norms of the columns of J so far.
        radius: the radii of the trust regions.
        damping: the damping of the last steps.
        epochs: the number of accepted steps.
        evaluations: the number of triangular factors computed.
    """

    numbers: Fits
    theta: Array
    triangles: Array
    norms: Array
    slopes: Array
    scale: Array
    radius: Array
    damping: Array
    epochs: Fits
    evaluations: Fits

    def select(self, chosen: Fits | Mask) -> _FitStates:
        """Return copies of some fits, selected in order; the fits themselves if these are all."""
        count = np.count_nonzero(chosen) if chosen.dtype == np.bool_ else len(chosen)
        return self if count == len(self.numbers) else _FitStates._make(values[chosen] for values in self)

    def store(self, others: _FitStates) -> None:
        """Copy the state of other fits to the fits with the same numbers; do nothing for the same object."""
        if others is not self:
            for values, new in zip(self, others, strict=True):
                values[others.numbers] = new

    def move(self, at: Fits | Mask, theta: Array, triangles: Array, sizes: Array) -> None:
        """Move some fits to points, where the columns of the triangular factors have these norms."""
        self.theta[at], self.triangles[at], self.norms[at] = theta, triangles, sizes
        self.slopes[at] = _half_gradients(triangles)


class _LevenbergMarquardt:
    """The state of the method during the fits of a batch.

    Attributes:
        fits: all fits. Those under way are copies, until they end.
        is_usable: which fits have finite residuals and derivatives at their starts.
        is_finished: which fits ended before they reached a limit on steps or evaluations.
        is_near: which of these ended only near a minimum, so that Gauss-Newton steps should follow.
    """

    def __init__(self, batch: Batch, start: Array, on_step: BatchCallback, stop: StoppingRule) -> None:
        self._batch, self._start, self._on_step, self._stop = batch, start, on_step, stop
        self._tolerance = stop.tolerance or SETTINGS.tolerance
        self._is_bounded, self._is_linear = batch.bounds.has_bounds, batch.objective.is_linear
        count, every = len(start), np.arange(len(start))
        triangles, sizes = self._evaluate(start, every)
        scale = np.where(sizes[:, :-1] > 0, sizes[:, :-1], 1.0)
        lengths = norms(scale * start)
        radius = SETTINGS.initial_radius_factor * np.where((lengths > 0) | np.isnan(lengths), lengths, 1.0)
        counts = np.full(count, -1), np.ones(count, np.intp)
        slopes = _half_gradients(triangles)
        self.fits = _FitStates(every, start.copy(), triangles, sizes, slopes, scale, radius, np.zeros(count), *counts)
        self.is_usable = _is_usable(sizes)
        self.is_finished, self.is_near = np.zeros((2, count), np.bool_)
        self.runaways, self._checked_squares = RunawayDetector(start), np.square(sizes[:, -1])
        self._report(self.fits, self.is_usable)

    def run(self, numbers: Fits, max_evaluations: int, epochs: int | None = None, *, hands_over: bool = False) -> None:
        """Take steps until each fit converges, or reaches a limit on steps or evaluations.

        Args:
            hands_over: also end fits that are near a minimum, so that `polish` finishes them.
        """
        fits, self.is_near[numbers] = self.fits.select(numbers), False
        is_converged: Mask = np.zeros(len(numbers), np.bool_)
        while True:
            is_done = is_converged | self._is_stationary(fits)
            is_limited = fits.evaluations >= max_evaluations
            if epochs is None:
                squares = np.square(fits.norms[:, -1])
                is_limited |= self.runaways.examine(fits.numbers, fits.epochs, squares, fits.theta, squares)
            else:
                is_limited |= fits.epochs == epochs
            if self._stop.searches and not (fits.evaluations % SETTINGS.window).any():
                is_limited |= self._are_hopeless(fits, max_evaluations, *self._stop.searches)
            is_ended = is_done | is_limited
            if np.count_nonzero(is_ended):
                self.fits.store(fits)
                self.is_finished[fits.numbers] = is_done
                fits = fits.select(~is_ended)
            if not len(fits.numbers):
                break
            is_converged = self._step(fits, hands_over)

    def _are_hopeless(self, fits: _FitStates, max_evaluations: int, searches: Fits, lowest: Array) -> Mask:
        """Whether fits fall too slowly to reach the lowest sum of squares of their search within their evaluations."""
        self.fits.store(fits)
        squares = np.square(self.fits.norms[:, -1])
        np.fmin.at(lowest, searches, squares)
        rates, self._checked_squares = (self._checked_squares - squares) / SETTINGS.window, squares
        return (squares - rates * (max_evaluations - self.fits.evaluations) > lowest[searches])[fits.numbers]

    def under_way(self) -> Fits:
        """Return the fits that have not ended, and do not run away."""
        return (self.is_usable & ~self.is_finished & ~self.runaways.is_found).nonzero()[0]

    def _evaluate(self, theta: Array, numbers: Fits) -> tuple[Array, Array]:
        """Return the triangular factors of [J | r] at points of some fits, and the norms of their columns."""
        triangles = self._batch.triangles(theta, numbers)
        return triangles, norms(triangles.swapaxes(1, 2))

    def _is_stationary(self, fits: _FitStates) -> Mask:
        """Whether the residuals are orthogonal to all columns of J along which the parameters can move."""
        # A column of zeros has slope 0, as has every column if the residuals are 0.
        is_still = np.abs(fits.slopes) <= SETTINGS.tolerance * fits.norms[:, :-1] * fits.norms[:, -1:]
        if self._is_bounded:
            is_still |= ~self._batch.bounds.select(fits.numbers).free_mask(fits.theta, fits.slopes)
        return np.asarray(np.logical_and.reduce(is_still, axis=1))

    def _step(self, fits: _FitStates, hands_over: bool) -> Mask:
        """Try one step of each fit, and return which fits end: they converged, or `polish` is to finish them."""
        theta, before = fits.theta, fits.norms[:, -1]
        scale = np.maximum(fits.scale, fits.norms[:, :-1], out=fits.scale)  # never decreases
        jacobian, residuals = fits.triangles[:, :-1, :-1], fits.triangles[:, :-1, -1]
        if self._is_bounded:
            bounds = self._batch.bounds.select(fits.numbers)
            box = Bounds(bounds.low - theta, bounds.high - theta)
            steps, damping = _bounded_steps(jacobian, residuals, scale, fits.radius, fits.damping, box, fits.slopes)
        elif self._is_linear:  # rounding alone would decide how far a limited step goes along what has no effect
            steps, *_ = _gauss_newton_steps(fits.triangles, fits.norms, np.ones(theta.shape, np.bool_))
            damping = np.zeros(len(theta))
            if (has_failed := fits.evaluations > fits.epochs + 1).any():  # as at the edge of a domain
                limited, dampings = _trust_region_steps(jacobian, residuals, scale, fits.radius, fits.damping)
                steps, damping = np.where(has_failed[:, None], limited, steps), np.where(has_failed, dampings, damping)
        else:
            steps, damping = _trust_region_steps(jacobian, residuals, scale, fits.radius, fits.damping)
        trial = theta + steps
        if self._is_bounded:  # rounding might leave a sum inside or outside
            trial = np.where(steps <= box.low, bounds.low, np.where(steps >= box.high, bounds.high, bounds.clip(trial)))
        lengths = norms(scale * steps)
        # All reductions are relative to the sums of squares.
        change = _apply(jacobian, steps) / before[:, None]
        slope = dots(change, residuals) / before
        predicted = -2 * slope - dots(change, change)
        triangles, after = self._evaluate(trial, fits.numbers)
        fits.evaluations[:] += 1
        actual = np.where(_is_usable(after), 1 - np.square(after[:, -1] / before), -math.inf)
        ratio = np.where(predicted > 0, actual / predicted, 0.0)
        # The first radius is only a guess.
        radius = np.where(fits.epochs == 0, np.minimum(fits.radius, lengths), fits.radius)
        fits.radius[:], fits.damping[:] = _update_regions(radius, damping, lengths, slope, actual, ratio)
        is_accepted = ratio >= SETTINGS.min_accepted_ratio
        fits.move(is_accepted, trial[is_accepted], triangles[is_accepted], after[is_accepted])
        self._report(fits, is_accepted)
        # Steps have become negligible, also where residuals without rounding errors shrink without end.
        is_converged: Mask = fits.radius <= self._tolerance * norms(scale * theta)
        # Where a full step gains nothing, the sum of squares changes by rounding errors alone.
        most = np.where(damping == 0, SETTINGS.rounding_reduction, np.where(ratio <= 2, self._tolerance, -1.0))
        is_converged |= (predicted <= self._tolerance) & (np.abs(actual) <= most)
        if hands_over:
            is_near = is_accepted & (predicted <= SETTINGS.near_reduction) & (damping == 0)
            self.is_near[fits.numbers] = is_near & ~is_converged
            is_converged = is_converged | is_near
        return is_converged

    def eliminate_linear(self, numbers: Fits, max_evaluations: int) -> None:
        """Move fits to minima for the nonlinear parameters alone, where there are some nearby; see `_ReducedBatch`."""
        limits = np.vstack((self._batch.bounds.low, self._batch.bounds.high))
        linear = linear_mask(self._batch.objective) & np.isinf(limits).all(axis=0)
        if linear.all() or not linear.any():
            return
        batch, start = _ReducedBatch(self._batch.take(numbers), linear), self.fits.theta[numbers][:, ~linear]
        inner = _LevenbergMarquardt(batch, start, ignore_steps, self._stop)  # type: ignore[arg-type]
        every, is_inside = inner.fits.numbers, inner.is_finished
        inner.run(inner.is_usable.nonzero()[0], max_evaluations)
        for change in (-SETTINGS.domain_probe, SETTINGS.domain_probe):  # minima at the edge of a domain are none
            is_inside &= _is_usable(inner._evaluate(inner.fits.theta * (1 + change), every)[1])
        ends = np.abs([start, inner.fits.theta])
        is_inside &= (ends.max(axis=0) < SETTINGS.max_change * ends.min(axis=0)).all(axis=1)
        points = batch.complete(inner.fits.theta, every)
        triangles, sizes = self._evaluate(points, numbers)
        is_better: Mask = is_inside & (sizes[:, -1] < self.fits.norms[numbers, -1])
        self._move_to(numbers[is_better], points[is_better], triangles[is_better], sizes[is_better])

    def polish(self, numbers: Fits) -> Fits:
        """Take a few Gauss-Newton steps at the end, and return the fits that are near a minimum but not at it.

        The method stops when the cost no longer changes, which in a flat valley leaves half of the digits inaccurate.
        Polishing reduces what vanishes at the solution instead: the part of the residuals that the parameters can still
        remove.
        """
        fits, is_polished = self.fits.select(numbers), np.zeros(len(self.is_usable), np.bool_)
        # A parameter without effect, such as `a` of `a^2` at 0, stays where it is, and the others are polished.
        free = self._batch.bounds.select(numbers).free_mask(fits.theta, fits.slopes) & (fits.norms[:, :-1] > 0)
        steps, is_unique, before = _gauss_newton_steps(fits.triangles, fits.norms, free)
        is_unique &= before > SETTINGS.polished * fits.norms[:, -1]
        trial, removable = fits.theta + steps, np.zeros(len(self.is_usable))
        removable[numbers] = before
        for _ in range(SETTINGS.max_polish_steps):
            is_tried = is_unique & np.logical_or.reduce(trial != fits.theta, axis=1)
            if self._is_bounded:
                is_tried &= self._batch.bounds.select(fits.numbers).contains(trial)
            if not np.count_nonzero(is_tried):
                break
            fits, steps, before = fits.select(is_tried), steps[is_tried], before[is_tried]
            trial, free = trial[is_tried], free[is_tried]
            triangles, sizes = self._evaluate(trial, fits.numbers)
            is_usable = _is_usable(sizes)
            triangles[~is_usable], sizes[~is_usable] = 0.0, 0.0
            following, is_unique, after = _gauss_newton_steps(triangles, sizes, free)
            is_better = is_usable & (after < SETTINGS.polish_reduction * before)
            is_better &= sizes[:, -1] <= SETTINGS.max_polish_rise * fits.norms[:, -1]
            # A step that was accelerated in vain is repeated as it was.
            plain = fits.theta + steps
            is_open = is_unique & (after > SETTINGS.polished * sizes[:, -1])
            is_unique = np.where(is_better, is_open, (trial != plain).any(axis=1))
            if np.count_nonzero(is_better):
                at = np.flatnonzero(is_better)
                plain[at] = _extrapolated(fits.theta[at], steps[at], trial[at], following[at], fits.norms[at, :-1])
                fits.move(at, trial[at], triangles[at], sizes[at])
                steps[at], before[at] = following[at], after[at]
                self.fits.store(fits)
                is_polished[fits.numbers[at]], removable[fits.numbers[at]] = True, after[at]
            trial = plain
        self._report(self.fits, is_polished)
        return np.flatnonzero(self.is_near & (removable > math.sqrt(SETTINGS.tolerance) * self.fits.norms[:, -1]))

    def is_stuck(self, numbers: Fits | None = None) -> Mask:
        """Whether the residuals of fits that ended still have a component along a column of J.

        This happens at the edge of the model's domain, and at kinks."""
        fits = self.fits if numbers is None else self.fits.select(numbers)
        smallest = SETTINGS.orthogonality_tolerance * fits.norms[:, :-1] * fits.norms[:, -1:]
        is_sloped: Mask = np.abs(fits.slopes) > smallest
        is_sloped &= self._batch.bounds.select(fits.numbers).free_mask(fits.theta, fits.slopes)
        is_stuck: Mask = np.asarray(is_sloped.any(axis=1))
        candidates = is_stuck.nonzero()[0]
        if len(candidates):  # where only rounding errors are left, they may have any direction
            ends = fits.select(candidates)
            rounding = rounding_squares(self._batch, ends.numbers, ends.theta, ends.norms)
            rounding += BATCH.rounding_share * self._batch.target_variations(ends.numbers)
            is_stuck[candidates] = np.square(ends.norms[:, -1]) > rounding
        return is_stuck

    def snap_to_zero(self, numbers: Fits) -> Fits:
        """Set parameters that every step halves to 0, and return the fits that have such parameters.

        The model is even in such a parameter, as in `a` of `a^2`, and 0 is its best value.
        """
        bounds = self._batch.bounds.select(numbers)
        chosen, points, is_small = snap_to_zero(self.fits.theta[numbers], self._start[numbers], bounds)
        numbers = numbers[chosen]
        triangles, sizes = self._evaluate(points, numbers)
        is_zero = _is_usable(sizes) & ~(is_small & (sizes[:, :-1] != 0)).any(axis=1)
        is_zero &= sizes[:, -1] <= self.fits.norms[numbers, -1] * (1 + ZERO_LOSS_TOLERANCE)
        snapped: Fits = numbers[is_zero]
        self._move_to(snapped, points[is_zero], triangles[is_zero], sizes[is_zero])
        return snapped

    def _move_to(self, numbers: Fits, *places: Array) -> None:
        """Move fits to points, given the parameters, the triangular factors, and the norms of their columns."""
        self.fits.move(numbers, *places)
        self._report(self.fits, numbers)

    def _report(self, fits: _FitStates, at: Fits | Mask) -> None:
        numbers = fits.numbers[at]
        if len(numbers):
            fits.epochs[at] += 1
            losses = self._batch.mean_squares(np.square(fits.norms[at, -1]), numbers)
            self._on_step(numbers, fits.epochs[at], losses, fits.theta[at])


def linear_mask(objective: Objective, free: Mask | None = None) -> Mask:
    """Return the mask of those of the free parameters, by default all, in which the prediction is jointly linear.

    Elements of arrays are left out, and there are none without residuals.

    >>> linear_mask(Objective("y ~ a*exp(b*x) + c", {"x": [0, 1, 2], "y": [1, 2, 4]}))
    array([ True, False,  True])
    """
    model, slices = objective.model, objective.layout.slices.items() if objective.has_residuals else ()
    names = [name for name, part in slices if name not in model.shapes and (free is None or free[part].all())]
    leaves = [model.program.leaves[name] for name in names]
    compute = partial(linear_parameters, model.program.output, leaves, model.shapes)
    return objective.layout.mask(objective.kernels.cached(f"linear among {names}", compute))


def project_linear_each(batch: Batch, fits: Fits, points: Array, adjusted: Mask) -> tuple[Array, Array]:
    """Return points of some fits with fitted values of the adjusted parameters, in which the model is linearised, and
    their remaining sums of squares, which are infinite where a point is not usable.
    """
    bounds, columns = batch.bounds.select(fits), np.flatnonzero(adjusted)
    theta = bounds.clip(points)
    triangles = batch.triangles(theta, fits)
    is_usable = np.isfinite(triangles).all(axis=(1, 2))
    triangles[~is_usable] = 0.0
    jacobian, residuals = triangles[:, :, columns], triangles[:, :, -1:]
    scale = np.abs(jacobian).max(axis=1)  # squares would underflow
    scale[scale == 0] = 1.0
    steps = (np.linalg.pinv(jacobian / scale[:, None, :], rcond=1e-10) @ residuals)[:, :, 0] / scale
    remaining = np.sum(np.square(residuals - jacobian @ steps[:, :, None]), axis=(1, 2))
    theta[:, columns] -= steps
    is_usable &= np.isfinite(theta).all(axis=1) & np.isfinite(remaining)
    return bounds.clip(theta), np.where(is_usable, remaining, np.inf)


class _ReducedBatch:
    """The fits of a batch as functions of their nonlinear parameters, with the best values of the linear ones.

    A valley may be so bent that steps of all parameters hardly follow it, as that of `a*exp(b*x)` far from x = 0. In
    the nonlinear parameters it is straight. Variable projection: Golub & Pereyra 1973, with the Jacobian of Kaufman
    1975.

    Attributes:
        bounds: the bounds of the nonlinear parameters.
    """

    def __init__(self, batch: Batch, linear: Mask) -> None:
        self._batch, self._linear, self.objective = batch, linear, batch.objective
        self.mean_squares = batch.mean_squares
        self.bounds = Bounds(batch.bounds.low[..., ~linear], batch.bounds.high[..., ~linear])

    def complete(self, nonlinear: Array, fits: Fits) -> Array:
        """Return all parameters, the linear ones with their best values."""
        points = np.zeros((len(fits), len(self._linear)))
        points[:, ~self._linear] = nonlinear
        return project_linear_each(self._batch, fits, points, self._linear)[0]

    def triangles(self, nonlinear: Array, fits: Fits) -> Array:
        """Return the triangular factors of [J | r] after elimination of the linear parameters."""
        order, count = np.argsort(~self._linear, kind="stable"), np.count_nonzero(self._linear)
        triangles = self._batch.triangles(self.complete(nonlinear, fits), fits)
        return triangular_factor(triangles[:, :, [*order, -1]])[:, count:, count:]


def _gauss_newton_steps(triangles: Array, sizes: Array, free: Mask) -> tuple[Array, Mask, Array]:
    """Return Gauss-Newton steps over the free parameters, which of them are unique, and the removable residuals.

    The removable residuals are the norms of the residuals projected onto the space of the free columns of J.

    Args:
        sizes: the norms of the columns of the triangular factors.
        free: the parameters that move.
    """
    scale = np.where(sizes[:, :-1] > 0, sizes[:, :-1], 1.0)
    along, lengths, right = _decompose(triangles[:, :-1, :-1], triangles[:, :-1, -1], scale, free)
    is_spanned = lengths > DEPENDENCE_TOLERANCE * lengths[:, :1]
    along, lengths = np.where(is_spanned, along, 0.0), np.where(is_spanned, lengths, 1.0)
    is_unique = is_spanned.sum(axis=1) == free.sum(axis=1)
    return np.where(free, _apply(right.swapaxes(1, 2), along / -lengths) / scale, 0.0), is_unique, norms(along)


def _extrapolated(last: Array, last_steps: Array, theta: Array, steps: Array, scale: Array) -> Array:
    """Return the points after Gauss-Newton steps, extrapolated to the limit of their sequence (Anderson 1965, with one
    earlier point). The sequence converges linearly if residuals are large.

    Args:
        last, last_steps: the points before, and the steps from there.
        theta, steps: the points, and the steps from there.
        scale: the factors that make parameters comparable.
    """
    changes = (steps - last_steps) * scale
    shares = dots(changes, steps * scale) / dots(changes, changes)
    shares = np.where(np.abs(shares) < 10, shares, 0.0)[:, None]  # False for nan
    return theta + steps - shares * (theta - last + steps - last_steps)


def _decompose(jacobian: Array, residuals: Array, scale: Array, free: Mask | None) -> tuple[Array, Array, Array]:
    """Return the components of residuals along the left singular vectors of Jacobians with scaled columns, the singular
    values, and the right singular vectors.

    Args:
        scale: the divisors of the columns.
        free: the columns that are not replaced by 0; by default all.
    """
    scaled = jacobian / scale[:, None, :]
    left, sizes, right = svd(scaled if free is None else scaled * free[:, None, :])
    return _apply(left.swapaxes(1, 2), residuals), sizes, right


def _half_gradients(triangles: Array) -> Array:
    """Half of the gradients of the sums of squares."""
    return _apply(triangles[:, :, :-1].swapaxes(1, 2), triangles[:, :, -1])


def _is_usable(sizes: Array) -> Mask:
    """Whether the products of all columns of triangular factors with these norms and the residuals do not overflow."""
    return np.asarray(np.maximum.reduce(sizes, axis=1) * sizes[:, -1] < SETTINGS.max_usable**2)  # False for nan


# --- Trust regions, after Moré 1978, sections 3 to 6: ellipsoids around the current points, with axes along the
# parameters, where the linear models are trusted. Every array has the fits as its first axis.


def _bounded_steps(
    jacobian: Array, residuals: Array, scale: Array, radius: Array, damping: Array, box: Bounds, slopes: Array
) -> tuple[Array, Array]:
    """Return the steps within the regions and the bounds that minimise the linear models, and their damping.

    Parameters that would leave the box are placed on its edge, and the step of the remaining ones is computed again.

    Args:
        jacobian, residuals, scale, radius, damping: see `_trust_region_steps`.
        box: the bounds of the steps, of shape (fits, P).
        slopes: the gradients of the sums of squares; a parameter at a bound beyond which the sum decreases does not
            move.
    """
    steps, damping = np.zeros(slopes.shape), damping.copy()
    moving = box.free_mask(steps, slopes)
    pending = np.flatnonzero(moving.any(axis=1))
    while len(pending):
        free, remaining = moving[pending], residuals[pending] + _apply(jacobian[pending], steps[pending])
        inner, damping[pending] = _trust_region_steps(
            jacobian[pending], remaining, scale[pending], radius[pending], damping[pending], free
        )
        inner = np.where(free, inner, steps[pending])
        clipped = np.clip(inner, box.low[pending], box.high[pending])
        outside = free & (clipped != inner)
        is_inside = ~outside.any(axis=1)
        steps[pending] = np.where(outside | is_inside[:, None], clipped, steps[pending])
        moving[pending] &= ~outside
        pending = pending[~is_inside & moving[pending].any(axis=1)]
    return steps, damping


def _update_regions(
    radius: Array, damping: Array, lengths: Array, slope: Array, actual: Array, ratio: Array
) -> tuple[Array, Array]:
    """Return the radii and the damping after steps.

    Args:
        radius, damping: the radii and the damping before.
        lengths: the scaled lengths of the steps.
        slope: half of the derivatives of the sums of squares along the steps, relative to the sums.
        actual: the relative reductions of the sums of squares; minus infinity for unusable points.
        ratio: the ratios of actual to predicted reduction.
    """
    is_poor = ratio <= SETTINGS.poor_ratio
    is_good = ~is_poor & ((damping == 0) | (ratio >= SETTINGS.good_ratio))
    factor = np.where(actual < 0, np.fmax(0.1, 0.5 * slope / (slope + 0.5 * actual)), 0.5)
    return (
        np.where(is_poor, factor * np.minimum(radius, 10 * lengths), np.where(is_good, 2 * lengths, radius)),
        np.where(is_poor, damping / factor, np.where(is_good, 0.5 * damping, damping)),
    )


def _trust_region_steps(
    jacobian: Array, residuals: Array, scale: Array, radius: Array, damping: Array, free: Mask | None = None
) -> tuple[Array, Array]:
    """Return the steps within the regions that minimise the linear models, ignoring bounds, and their damping λ.

    λ in `(JᵀJ + λD²)·step = -Jᵀr` makes the step as long as the radius; it is 0 if the undamped step is shorter.

    Args:
        jacobian, residuals: the linear models: the triangular factors of [J | r] without their last row, which no step
            changes.
        scale: the diagonal of D: the norms of the columns of J, which make parameters of different units comparable.
        damping: a guess of λ.
        free: the parameters that move; by default all.
    """
    along, sizes, right = _decompose(jacobian, residuals, scale, free)
    usable = sizes > SETTINGS.zero_singular_value
    if free is not None:  # the last singular values are what rounding leaves of the other columns
        usable &= np.arange(free.shape[1]) < free.sum(axis=1)[:, None]
    along, sizes = np.where(usable, along, 0.0), np.where(usable, sizes, 1.0)
    damping = _find_damping(along, sizes, radius, damping)
    return -_apply(right.swapaxes(1, 2), along / (sizes + damping[:, None] / sizes)) / scale, damping


def _find_damping(along: Array, sizes: Array, radius: Array, guess: Array) -> Array:
    """Return the damping for which each step has the length of the radius, by Newton's method with safeguards."""
    damping = np.zeros(len(along))
    longest = norms(along / sizes)
    open_ = (~(longest <= (1 + SETTINGS.radius_tolerance) * radius)).nonzero()[0]
    if not len(open_):
        return damping
    along, sizes, radius, longest = along[open_], sizes[open_], radius[open_], longest[open_]
    # φ(λ) = length - radius is convex and decreasing: Newton steps from the left never pass its root.
    steep = np.sum(np.square(along / sizes / longest[:, None] / sizes), axis=1)  # -φ'/φ; no square underflows
    low, high = (1 - radius / longest) / steep, norms(sizes * along) / radius
    estimate = np.minimum(np.maximum(guess[open_], low), high)
    squares, products = np.square(sizes), sizes * along
    for _ in range(SETTINGS.max_damping_steps):
        squared = squares + estimate[:, None]
        parts = products / squared
        now = norms(parts)
        excess = now - radius
        is_off = np.abs(excess) > SETTINGS.radius_tolerance * radius
        if not np.count_nonzero(is_off):
            break
        low = np.where(is_off & (excess > 0), estimate, low)
        high = np.where(is_off & (excess <= 0), estimate, high)
        steep = np.sum(np.square(parts / now[:, None]) / squared, axis=1)
        newton = np.minimum(np.maximum(estimate + excess / radius / steep, low), high)
        estimate = np.where(is_off, newton, estimate)
    damping[open_] = estimate
    return damping


def _apply(matrices: Array, vectors: Array) -> Array:
    """Return the product of each matrix with its vector."""
    return dots(matrices, vectors[:, None, :])


def norms(vectors: Array) -> Array:
    """Return the Euclidean norms along the last axis, also where a square would underflow or overflow."""
    squares = dots(vectors, vectors)
    lengths: Array = np.sqrt(squares)
    is_unsafe = (squares <= SETTINGS.min_safe_square) | (squares == math.inf)
    if np.count_nonzero(is_unsafe):
        unsafe = vectors[is_unsafe]
        largest = np.abs(unsafe).max(axis=1, initial=0.0)
        unit = np.where((largest > 0) & (largest < math.inf), largest, 1.0)
        lengths[is_unsafe] = unit * np.sqrt(np.sum(np.square(unsafe / unit[:, None]), axis=1))
    return lengths
