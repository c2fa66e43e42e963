"""The Levenberg-Marquardt method for least squares, with bounds, after Moré 1978 (MINPACK's lmder), for many fits.

The QR factorization of [J | r] has all information on cost, gradient and Gauss-Newton matrix. With R its triangular
factor, the method treats `R[:, P]` as the residuals and `R[:, :P]` as the Jacobian: a problem of P+1 residuals, however
many rows there are. The fits of a batch take their steps together; a fit that has ended takes no more. A single fit is
a batch of one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from autodiff_cli.array_types import Array, Mask
from autodiff_cli.numbers.arrays import ignore_float_errors
from autodiff_cli.training.methods.gradient_descent import (
    BatchCallback,
    Diverged,
    Outcome,
    ignore_steps,
    report_single_fit,
)
from autodiff_cli.training.objective.batch import Batch, Fits, ObjectiveBatch
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.objective.parameters import ZERO_LOSS_TOLERANCE, Bounds, snap_to_zero
from autodiff_cli.training.optimizers import EpochCallback

# Columns of J, each scaled to length 1, count as dependent if a singular value is this small beside the largest: what
# rounding leaves of an exact 0, with room to spare.
DEPENDENCE_TOLERANCE = 1e-13


@dataclass(frozen=True, slots=True)
class LevenbergMarquardtSettings:
    """Tolerances and limits of the Levenberg-Marquardt method."""

    tolerance: float = 1e-15  # relative, of cost, parameters and gradient; the usual 1e-8 loses digits in flat valleys
    max_evaluations: int = 1000  # without a limit on epochs, plus 20 per parameter
    min_accepted_ratio: float = 1e-4  # of actual to predicted reduction, for a step to be accepted (Moré 1978)
    rounding_variation: float = 1e-20  # share of the target's sum of squares that rounding leaves of a perfect fit
    orthogonality_tolerance: float = 1e-3  # cosine of the angle between residuals and a column of J that counts as 90°
    max_polish_steps: int = 30  # Gauss-Newton steps at the end
    polish_reduction: float = 0.9  # a polishing step must reduce the projected residuals to less than this share
    probe_step: float = 1e-6  # relative to the parameters or their starts: a step to a neighbouring point
    max_kinks: int = 3  # parameters that may end at a kink of the loss; each costs one fit per parameter
    max_kink_rounds: int = 10  # attempts to leave a kink on a side that is lower
    kink_probe: float = 1e-7  # relative change of a parameter that shows on which side of a kink the loss falls
    max_usable: float = 1e150  # larger residuals count as infinite, because their squares overflow


SETTINGS = LevenbergMarquardtSettings()


def levenberg_marquardt(
    objective: Objective,
    start: Array,
    on_epoch: EpochCallback,
    epochs: int | None = None,
    evaluations: int | None = None,
    bounds: Bounds | None = None,
    tolerance: float | None = None,
) -> Outcome:
    """Minimise the (weighted) sum of squared residuals of one fit.

    Args:
        start: the starting point, of shape (P,).
        on_epoch: is called with the start and with every accepted step.
        bounds: the box in which the parameters stay; it contains the start.
        epochs, evaluations, tolerance: see `fit_squares`.

    Raises:
        Diverged: if the residuals or their derivatives at the start are not finite.
    """
    batch = ObjectiveBatch([objective], bounds or Bounds.unbounded(len(start)))
    (outcome,) = fit_squares(batch, start[None], report_single_fit(on_epoch), epochs, evaluations, tolerance)
    if isinstance(outcome, Diverged):
        raise outcome
    return dataclasses.replace(outcome, note=_kink_note([objective.layout.element_names[k] for k in outcome.kinks]))


def _kink_note(names: list[str]) -> str:
    """Return a sentence that says which parameters end at a kink; empty without any."""
    if not names:
        return ""
    listed = " and ".join(f"`{name}`" for name in names)
    verb = "ends at a kink" if len(names) == 1 else "end at kinks"
    return f"{listed} {verb} of the loss (from abs, max, relu or where); standard errors hold on one side of it only"


@ignore_float_errors()
def fit_squares(
    batch: Batch,
    start: Array,
    on_step: BatchCallback = ignore_steps,
    epochs: int | None = None,
    evaluations: int | None = None,
    tolerance: float | None = None,
) -> list[Outcome | Diverged]:
    """Minimise the (weighted) sums of squared residuals of a batch of fits.

    Args:
        start: the starting points, of shape (fits, P).
        on_step: is called with the starts and with the accepted steps.
        epochs: the maximum number of steps; None for a limit on evaluations alone.
        evaluations: the maximum number of evaluations of a fit.
        tolerance: the relative change of the sum of squares or the parameters at which to stop; by default the method
            continues to the last digits.

    Returns:
        The end of each fit; `Diverged` if the residuals or their derivatives at the start are not finite.
    """
    method = _LevenbergMarquardt(batch, start, on_step, tolerance or SETTINGS.tolerance)
    most = evaluations or SETTINGS.max_evaluations + 20 * start.shape[1]
    usable = method.is_usable.nonzero()[0]
    is_finished = np.zeros(len(start), np.bool_)
    is_finished[usable] = method.run(usable, most, epochs)
    is_limited = np.zeros(len(start), np.bool_) if epochs is None else method.epochs == epochs
    if tolerance is None:
        method.polish((is_finished & ~is_limited).nonzero()[0])
    is_stuck = method.is_stuck()
    for fit in (method.is_usable & ~is_limited & (~is_finished | is_stuck)).nonzero()[0].tolist():
        if method.snap_to_zero(fit):
            one = np.array([fit])
            is_finished[one] = method.run(one, int(method.evaluations[fit]) + most)
            is_stuck[one] = method.is_stuck(one)
    outcomes: list[Outcome | Diverged] = []
    for fit, theta in enumerate(method.theta.copy()):
        if not method.is_usable[fit]:
            outcomes.append(Diverged(0, float(batch.losses(start[fit : fit + 1], np.array([fit]))[0])))
        elif is_limited[fit] or (is_finished[fit] and not is_stuck[fit]):
            outcomes.append(Outcome(theta, bool(is_finished[fit] and not is_stuck[fit])))
        elif not is_finished[fit]:
            reason = f"no convergence within {method.evaluations[fit]} evaluations"
            outcomes.append(Outcome(theta, False, reason))
        else:
            outcomes.append(method.end_of_stuck_fit(fit, most, may_search=evaluations is None))
    return outcomes


class _LevenbergMarquardt:
    """The state of the method during the fits of a batch.

    Attributes:
        theta: the parameters; `triangles` are the triangular factors of [J | r] there.
        is_usable: which fits have finite residuals and derivatives at their starts.
        epochs: the number of accepted steps of each fit.
        evaluations: the number of triangular factors computed for each fit.
    """

    def __init__(self, batch: Batch, start: Array, on_step: BatchCallback, tolerance: float) -> None:
        self._batch = batch
        self._is_bounded = batch.bounds.has_bounds
        self._start = start
        self._tolerance = tolerance
        self._on_step = on_step
        count = len(start)
        self.theta = start.copy()
        self.evaluations = np.ones(count, np.intp)
        self.epochs = np.full(count, -1)
        every = np.arange(count)
        self.triangles = batch.triangles(start, every).copy()
        self.is_usable = _is_usable(self.triangles)
        self._slopes, self._lengths = np.empty(start.shape), np.empty(start.shape)
        self._residual_norms = np.empty(count)
        self._move_to(every, start, self.triangles)
        self._report(every[self.is_usable])
        self._regions = TrustRegions(np.where(self._lengths > 0, self._lengths, 1.0), start)

    def run(self, fits: Fits, max_evaluations: int, epochs: int | None = None) -> Mask:
        """Take steps until each fit converges.

        Returns:
            Which fits did so before they reached a limit on steps or evaluations.
        """
        is_active, is_finished = np.zeros(len(self.theta), np.bool_), np.zeros(len(self.theta), np.bool_)
        is_active[fits] = True
        while True:
            active = is_active.nonzero()[0]
            is_done = self._is_stationary(active)
            is_limited = (self.epochs[active] == epochs) | (self.evaluations[active] >= max_evaluations)
            is_finished[active[is_done]] = True
            is_active[active[is_done | is_limited]] = False
            active = active[~is_done & ~is_limited]
            if not len(active):
                return is_finished[fits]
            ended = active[self._step(active)]
            is_finished[ended], is_active[ended] = True, False

    def _move_to(self, fits: Fits, theta: Array, triangles: Array) -> None:
        """Move to points, and store what is needed of their triangular factors more than once."""
        self.theta[fits], self.triangles[fits] = theta, triangles
        self._slopes[fits], self._lengths[fits] = _half_gradients(triangles), _column_norms(triangles)
        self._residual_norms[fits] = norms(triangles[:, :, -1])

    def _is_stationary(self, fits: Fits) -> Mask:
        """Whether the residuals are orthogonal to all columns of J along which the parameters can move."""
        lengths, slopes, sizes = self._lengths[fits], self._slopes[fits], self._residual_norms[fits]
        is_still = (np.abs(slopes) <= SETTINGS.tolerance * lengths * sizes[:, None]) | (lengths == 0)
        if self._is_bounded:
            is_still |= ~self._batch.bounds.select(fits).free_mask(self.theta[fits], slopes)
        return np.asarray(is_still.all(axis=1) | (sizes == 0))

    def _step(self, fits: Fits) -> Mask:
        """Try one step of each fit, and return which of them have converged."""
        theta, triangles = self.theta[fits], self.triangles[fits]
        self._regions.widen_scale(fits, self._lengths[fits])
        if self._is_bounded:
            bounds = self._batch.bounds.select(fits)
            steps = self._regions.steps_within(fits, triangles, bounds.step_bounds(theta), self._slopes[fits])
            trial = bounds.clip(theta + steps)
        else:
            trial = theta + self._regions.steps(fits, triangles)
        triangles = self._batch.triangles(trial, fits)
        self.evaluations[fits] += 1
        actual = self._reductions(fits, triangles)
        ratio = self._regions.update(fits, actual, self.epochs[fits] == 0)
        is_accepted = ratio >= SETTINGS.min_accepted_ratio
        accepted = fits[is_accepted]
        self._move_to(accepted, trial[is_accepted], triangles[is_accepted])
        self._report(accepted)
        predicted = self._regions.predicted_reduction[fits]
        is_converged = (np.maximum(np.abs(actual), predicted) <= self._tolerance) & (ratio <= 2)
        return is_converged | self._regions.is_narrow(fits, self.theta[fits], self._tolerance)

    def _reductions(self, fits: Fits, triangles: Array) -> Array:
        """The relative reductions of the sums of squares at points; -1 for unusable points."""
        lengths, before = norms(triangles[:, :, -1]), self._residual_norms[fits]
        is_usable = _is_usable(triangles) & (0.1 * lengths < before)
        return np.where(is_usable, 1 - np.square(lengths / before), -1.0)

    def polish(self, fits: Fits) -> None:
        """Take a few Gauss-Newton steps at the end.

        The method stops when the cost no longer changes, which in a flat valley leaves half of the digits inaccurate.
        Polishing reduces what vanishes at the solution instead: the part of the residuals that the parameters can still
        remove.
        """
        polished = np.zeros(len(self.theta), np.bool_)
        for _ in range(SETTINGS.max_polish_steps):
            bounds, free = self._batch.bounds.select(fits), np.ones((len(fits), self.theta.shape[1]), np.bool_)
            if self._is_bounded:
                free = bounds.free_mask(self.theta[fits], self._slopes[fits])
            points, is_unique = _gauss_newton_points(self.theta[fits], self.triangles[fits], free)
            is_tried = is_unique & bounds.contains_each(points)
            fits, points, free = fits[is_tried], points[is_tried], free[is_tried]
            if not len(fits):
                break
            triangles = self._batch.triangles(points, fits)
            before = _projected_residual_norms(self.triangles[fits], free)
            is_better = _is_usable(triangles) & (
                _projected_residual_norms(triangles, free) < SETTINGS.polish_reduction * before
            )
            fits = fits[is_better]
            self._move_to(fits, points[is_better], triangles[is_better])
            polished[fits] = True
        self._report(polished.nonzero()[0])

    def is_stuck(self, fits: Fits | None = None) -> Mask:
        """Whether the residuals still have a component along a column of J. This happens at the edge of a domain."""
        some = np.arange(len(self.theta)) if fits is None else fits
        sizes, slopes = self._residual_norms[some], self._slopes[some]
        is_free = self._batch.bounds.select(some).free_mask(self.theta[some], slopes)
        is_sloped = np.abs(slopes) > SETTINGS.orthogonality_tolerance * self._lengths[some] * sizes[:, None]
        is_stuck: Mask = np.asarray((is_sloped & is_free).any(axis=1))
        candidates = is_stuck.nonzero()[0]
        if len(candidates):  # where only rounding errors are left, they may have any direction
            smallest = SETTINGS.rounding_variation * self._batch.target_variations(some[candidates])
            is_stuck[candidates] = np.square(sizes[candidates]) > smallest
        return is_stuck

    def end_of_stuck_fit(self, fit: int, max_evaluations: int, *, may_search: bool) -> Outcome:
        """Return the end of a fit that stopped at a slope: the edge of the domain, a kink, or no minimum."""
        if self._is_at_domain_edge(fit):
            reason = "stuck at the edge of the model's domain: the loss falls towards where it is undefined"
            return Outcome(self.theta[fit].copy(), False, reason)
        kinks = self._find_kinks(fit, max_evaluations) if may_search else None
        theta = self.theta[fit].copy()
        if kinks is None:
            return Outcome(theta, False, "no minimum was found: the loss has a slope there, but no step reduces it")
        return Outcome(theta, True, kinks=tuple(kinks))

    def _is_at_domain_edge(self, fit: int) -> bool:
        """Whether the residuals are undefined at the neighbouring point in the direction of descent."""
        theta, triangle, lengths = self.theta[fit], self.triangles[fit], self._lengths[fit]
        step = -np.linalg.lstsq(triangle[:, :-1], triangle[:, -1], rcond=DEPENDENCE_TOLERANCE)[0]
        probe = SETTINGS.probe_step * np.maximum(np.abs(theta), np.abs(self._start[fit]))
        near, far = norms(np.array([lengths * probe, lengths * step])).tolist()
        point = self._batch.bounds.select(np.array([fit])).clip((theta + min(1.0, near / (far or 1.0)) * step)[None])
        return not _is_usable(self._batch.triangles(point, np.array([fit]))).all()

    def snap_to_zero(self, fit: int) -> bool:
        """Set parameters of a fit to 0 that every step halves, and return whether there are any.

        The model is even in such a parameter, as in `a` of `a^2`, and 0 is its best value.
        """
        one = np.array([fit])
        snapped = snap_to_zero(self.theta[one], self._start[one], self._batch.bounds.select(one))
        if snapped is None:
            return False
        point, is_small = snapped
        triangles = self._batch.triangles(point, one)
        if (
            not _is_usable(triangles).all()
            or _column_norms(triangles)[is_small].any()
            or norms(triangles[:, :, -1])[0] > self._residual_norms[fit] * (1 + ZERO_LOSS_TOLERANCE)
        ):
            return False
        self._move_to(one, point, triangles)
        self._report(one)
        return True

    def _find_kinks(self, fit: int, max_evaluations: int) -> list[int] | None:
        """Find a minimum at kinks of the loss: no single parameter can move without a rise, and the others are optimal.

        Steps along one side of a kink end where they cross it. So the parameter that causes the kink is fixed while the
        others continue; if one of its sides is lower then, all parameters continue from there.

        Returns:
            The parameters that are at a kink; None if no such point is found.
        """
        for _ in range(SETTINGS.max_kink_rounds):
            kinks = self._fix_kinked(fit, max_evaluations)
            if kinks is None:
                return None
            lower = self._lower_neighbour(fit, kinks)
            if lower is None:
                return kinks
            continued = self._continued(fit, lower[None], self._batch.bounds.select(np.array([fit])), max_evaluations)
            self._adopt(fit, continued, 0)
            if not self.is_stuck(np.array([fit])).any():
                return []
        return None

    def _continued(self, fit: int, start: Array, bounds: Bounds, max_evaluations: int) -> _LevenbergMarquardt:
        """Return the method after fits of one problem from several points, each with bounds of its own."""
        method = _LevenbergMarquardt(
            self._batch.take(np.full(len(start), fit), bounds), start, ignore_steps, self._tolerance
        )
        method.run(method.is_usable.nonzero()[0], max_evaluations)
        self.evaluations[fit] += int(method.evaluations.sum())
        return method

    def _fix_kinked(self, fit: int, max_evaluations: int) -> list[int] | None:
        """Fix the parameter whose fixing lets the others get furthest, then a second one, until the rest converges.

        Returns:
            The fixed parameters; None if the rest does not converge.
        """
        kinks: list[int] = []
        bounds = self._batch.bounds.select(fit)
        while len(kinks) < min(SETTINGS.max_kinks, len(bounds.low) - 1):
            theta = self.theta[fit].copy()
            indices = (bounds.low < bounds.high).nonzero()[0]
            boxes = [bounds.with_fixed(index, float(theta[index])) for index in indices.tolist()]
            trials = self._continued(fit, np.tile(theta, (len(boxes), 1)), Bounds.stack(boxes), max_evaluations)
            is_stuck = trials.is_stuck()
            best = int(np.lexsort((trials._residual_norms, is_stuck))[0])
            self._adopt(fit, trials, best)
            kinks.append(int(indices[best]))
            if not is_stuck[best]:
                return kinks
            bounds = bounds.with_fixed(kinks[-1], float(self.theta[fit, kinks[-1]]))
        return None

    def _lower_neighbour(self, fit: int, kinks: list[int]) -> Array | None:
        """A lower point close by, with one of the given parameters moved; None if there is none."""
        one = np.array([fit])
        for index in kinks:
            for step in (SETTINGS.kink_probe, -SETTINGS.kink_probe):
                point = self.theta[one]
                point[0, index] += step * (abs(point[0, index]) or 1.0)
                if not self._batch.bounds.select(one).contains_each(point)[0]:
                    continue
                triangles = self._batch.triangles(point, one)
                if _is_usable(triangles).all() and norms(triangles[:, :, -1])[0] < self._residual_norms[fit]:
                    return np.asarray(point[0])
        return None

    def _adopt(self, fit: int, other: _LevenbergMarquardt, number: int) -> None:
        """Move a fit to the point that one of other fits of its problem reached, if it is lower."""
        if other._residual_norms[number] < self._residual_norms[fit]:
            one = np.array([fit])
            self._move_to(one, other.theta[number][None], other.triangles[number][None])
            self._report(one)

    def _report(self, fits: Fits) -> None:
        if len(fits):
            self.epochs[fits] += 1
            losses = self._batch.mean_squares(np.square(self._residual_norms[fits]), fits)
            self._on_step(fits, self.epochs[fits], losses, self.theta[fits])


def _gauss_newton_points(theta: Array, triangles: Array, free: Mask) -> tuple[Array, Mask]:
    """The points at which linearised residuals are least over the free parameters, and which of them are unique."""
    size = theta.shape[1]
    points, is_unique = theta.copy(), np.zeros(len(theta), np.bool_)
    for some, columns in distinct_masks(free):
        if not len(columns):
            continue
        factors = triangles[some][:, :size, columns]
        scale = np.sqrt(np.sum(np.square(factors), axis=1))
        left, sizes, right = np.linalg.svd(factors / np.where(scale > 0, scale, 1.0)[:, None, :], full_matrices=False)
        is_unique[some] = (scale > 0).all(axis=1) & (sizes > DEPENDENCE_TOLERANCE * sizes[:, :1]).all(axis=1)
        along = left.swapaxes(1, 2) @ triangles[some, :size, size, None]
        steps = (right.swapaxes(1, 2) @ (along / sizes[:, :, None]))[:, :, 0] / scale
        points[some[:, None], columns] -= steps
    return points, is_unique & np.isfinite(points).all(axis=1)


def _half_gradients(triangles: Array) -> Array:
    """Half of the gradients of the sums of squares."""
    slopes: Array = (triangles[:, :, :-1].swapaxes(1, 2) @ triangles[:, :, -1:])[:, :, 0]
    return slopes


def _column_norms(triangles: Array) -> Array:
    """The norms of the columns of J."""
    lengths: Array = np.sqrt(np.einsum("gij,gij->gj", triangles[:, :, :-1], triangles[:, :, :-1]))
    return lengths


def _projected_residual_norms(triangles: Array, free: Mask) -> Array:
    """The norms of the residuals projected onto the space of the free columns of J."""
    lengths = np.empty(len(triangles))
    for some, columns in distinct_masks(free):
        if len(columns) == free.shape[1]:
            lengths[some] = norms(triangles[some, :-1, -1])
            continue
        basis = np.linalg.qr(triangles[some][:, :, columns]).Q
        lengths[some] = norms((basis.swapaxes(1, 2) @ triangles[some][:, :, -1:])[:, :, 0])
    return lengths


def _is_usable(triangles: Array) -> Mask:
    """Whether all entries are finite and their squares do not overflow."""
    return np.asarray((np.abs(triangles) < SETTINGS.max_usable).all(axis=(1, 2)))  # False for nan


# --- Trust regions, after Moré 1978, sections 3 to 6. Every array has the fits as its first axis.


@dataclass(frozen=True, slots=True)
class TrustRegionSettings:
    """Constants of the trust region, after Moré 1978."""

    initial_radius_factor: float = 100.0  # the first radius, in norms of the scaled starting point
    radius_tolerance: float = 0.1  # relative difference between step length and radius that is accepted
    max_damping_steps: int = 30  # of the root search for the damping, which usually takes 3
    poor_ratio: float = 0.25  # of actual to predicted reduction, below which the region shrinks
    good_ratio: float = 0.75  # of actual to predicted reduction, from which on the region grows
    # smaller ones are 0; merely small ones are kept, since their long steps limit the others
    zero_singular_value: float = 1e-70
    min_safe_square: float = 1e-280  # smaller squares have lost digits to underflow


REGION = TrustRegionSettings()


class TrustRegions:
    """An ellipsoid around the current point of each fit, with axes along the parameters, where the linear model is
    trusted.

    Args:
        scale: the norm of each column of J, of shape (fits, P); it makes parameters of different units comparable.
        start: the starting points, of shape (fits, P).

    Attributes:
        predicted_reduction: the relative reduction of the sum of squares that the model predicts for the last steps.
    """

    def __init__(self, scale: Array, start: Array) -> None:
        self._scale = scale
        sizes = norms(scale * start)
        self._radius = REGION.initial_radius_factor * np.where((sizes > 0) | np.isnan(sizes), sizes, 1.0)
        count = len(start)
        self._damping, self._step_length = np.zeros(count), np.zeros(count)
        self._slope, self.predicted_reduction = np.zeros(count), np.zeros(count)

    def widen_scale(self, fits: Fits, lengths: Array) -> None:
        """Update the scales with the norms of the columns of J at new points. Scales never decrease."""
        self._scale[fits] = np.maximum(self._scale[fits], lengths)

    def is_narrow(self, fits: Fits, theta: Array, tolerance: float) -> Mask:
        """Whether steps have become negligible relative to the parameters."""
        narrow: Mask = self._radius[fits] <= tolerance * norms(self._scale[fits] * theta)
        return narrow

    def steps(self, fits: Fits, triangles: Array) -> Array:
        """Return the steps within the regions that minimise the linear models.

        Args:
            triangles: the triangular factors of [J | r].
        """
        jacobian, residuals = triangles[:, :, :-1], triangles[:, :, -1]
        steps = self._constrained_steps(fits, jacobian, residuals, self._scale[fits])
        self._predict(fits, steps, _apply(jacobian, steps), residuals)
        return steps

    def steps_within(self, fits: Fits, triangles: Array, box: Bounds, slopes: Array) -> Array:
        """Return the steps within the regions and the bounds that minimise the linear models.

        Parameters that would leave the box are placed on its edge, and the step of the others is computed again.

        Args:
            triangles: the triangular factors of [J | r].
            box: the bounds of the steps.
            slopes: the gradients of the sums of squares; a parameter at a bound beyond which the sum decreases does not
                move.
        """
        jacobian, residuals = triangles[:, :, :-1], triangles[:, :, -1]
        steps = np.zeros(slopes.shape)
        moving = box.free_mask(steps, slopes)
        low, high = box.low, box.high
        pending = np.flatnonzero(moving.any(axis=1))
        while len(pending):
            remaining = residuals[pending] + _apply(jacobian[pending], steps[pending])
            inner = steps[pending]
            for some, columns in distinct_masks(moving[pending]):
                parts = pending[some]
                scale = self._scale[fits[parts][:, None], columns]
                inner[some[:, None], columns] = self._constrained_steps(
                    fits[parts], jacobian[parts][:, :, columns], remaining[some], scale
                )
            clipped = np.clip(inner, low[pending], high[pending])
            outside = moving[pending] & (clipped != inner)
            is_inside = ~outside.any(axis=1)
            steps[pending] = np.where(outside | is_inside[:, None], clipped, steps[pending])
            moving[pending] &= ~outside
            pending = pending[~is_inside & moving[pending].any(axis=1)]
        self._predict(fits, steps, _apply(jacobian, steps), residuals)
        return steps

    def _predict(self, fits: Fits, steps: Array, change: Array, residuals: Array) -> None:
        """Store what the linear models predict for steps, relative to the sums of squares."""
        sizes = norms(residuals)[:, None]
        sizes[sizes == 0] = 1.0
        change, residuals = change / sizes, residuals / sizes
        self._step_length[fits] = norms(self._scale[fits] * steps)
        self._slope[fits] = np.sum(change * residuals, axis=1)
        self.predicted_reduction[fits] = -2 * self._slope[fits] - np.sum(np.square(change), axis=1)

    def update(self, fits: Fits, actual: Array, is_first: Mask) -> Array:
        """Grow or shrink regions according to the results of the last steps.

        Args:
            actual: the relative reductions of the sums of squares; -1 for unusable points.
            is_first: for which fits no step was accepted yet, so that the radius is only a guess.

        Returns:
            The ratios of actual to predicted reduction.
        """
        radius, damping, length = self._radius[fits], self._damping[fits], self._step_length[fits]
        slope, predicted = self._slope[fits], self.predicted_reduction[fits]
        radius = np.where(is_first, np.minimum(radius, length), radius)
        ratio = np.where(predicted > 0, actual / predicted, 0.0)
        is_poor = ratio <= REGION.poor_ratio
        factor = np.where(actual < 0, np.fmax(0.1, 0.5 * slope / (slope + 0.5 * actual)), 0.5)
        factor[actual == -1] = 0.1
        is_good = ~is_poor & ((damping == 0) | (ratio >= REGION.good_ratio))
        self._radius[fits] = np.where(
            is_poor, factor * np.minimum(radius, 10 * length), np.where(is_good, 2 * length, radius)
        )
        self._damping[fits] = np.where(is_poor, damping / factor, np.where(is_good, 0.5 * damping, damping))
        return ratio

    def _constrained_steps(self, fits: Fits, jacobian: Array, residuals: Array, scale: Array) -> Array:
        """Return the steps of some parameters within the regions, ignoring bounds, and store their damping λ.

        λ in `(JᵀJ + λD²)·step = -Jᵀr` makes the step as long as the radius; it is 0 if the undamped step is shorter.
        """
        left, sizes, right = np.linalg.svd(jacobian / scale[:, None, :], full_matrices=False)
        usable = sizes > REGION.zero_singular_value
        along = np.where(usable, _apply(left.swapaxes(1, 2), residuals), 0.0)
        sizes = np.where(usable, sizes, 1.0)
        damping = self._damping[fits] = self._find_damping(along, sizes, self._radius[fits], self._damping[fits])
        components = sizes * along / (np.square(sizes) + damping[:, None])
        steps: Array = -_apply(right.swapaxes(1, 2), components) / scale
        return steps

    @staticmethod
    def _find_damping(along: Array, sizes: Array, radius: Array, guess: Array) -> Array:
        """Return the damping for which each step has the length of the radius, by Newton's method with safeguards."""
        damping = np.zeros(len(along))
        longest = norms(along / sizes)
        open_ = (~(longest <= (1 + REGION.radius_tolerance) * radius)).nonzero()[0]
        if not len(open_):
            return damping
        along, sizes, radius, longest = along[open_], sizes[open_], radius[open_], longest[open_]
        # φ(λ) = length - radius is convex and decreasing: Newton steps from the left never pass its root.
        steep = np.sum(np.square(along / sizes / longest[:, None] / sizes), axis=1)  # -φ'/φ; no square underflows
        low, high = (1 - radius / longest) / steep, norms(sizes * along) / radius
        estimate = np.minimum(np.maximum(guess[open_], low), high)
        squares, products = np.square(sizes), sizes * along
        for _ in range(REGION.max_damping_steps):
            squared = squares + estimate[:, None]
            parts = products / squared
            now = norms(parts)
            excess = now - radius
            is_off = np.abs(excess) > REGION.radius_tolerance * radius
            if not np.count_nonzero(is_off):
                break
            low = np.where(is_off & (excess > 0), estimate, low)
            high = np.where(is_off & (excess <= 0), estimate, high)
            steep = np.sum(np.square(parts / now[:, None]) / squared, axis=1)
            newton = np.minimum(np.maximum(estimate + excess / radius / steep, low), high)
            estimate = np.where(is_off, newton, estimate)
        damping[open_] = estimate
        return damping


def distinct_masks(masks: Mask) -> Iterator[tuple[Fits, Fits]]:
    """Yield the rows of a matrix that have one mask, and the columns where this mask is true.

    >>> [(rows.tolist(), columns.tolist()) for rows, columns in distinct_masks(np.array([[1, 1], [0, 1], [1, 1]]) > 0)]
    [([1], [1]), ([0, 2], [0, 1])]
    """
    if (masks == masks[:1]).all():
        if len(masks):
            yield np.arange(len(masks)), masks[0].nonzero()[0]
        return
    distinct, numbers = np.unique(masks, axis=0, return_inverse=True)
    for number, mask in enumerate(distinct):
        yield (numbers.ravel() == number).nonzero()[0], mask.nonzero()[0]


def _apply(matrices: Array, vectors: Array) -> Array:
    """Return the product of each matrix with its vector."""
    products: Array = (matrices @ vectors[:, :, None])[:, :, 0]
    return products


def norms(vectors: Array) -> Array:
    """Return the Euclidean norm of each row, also where its square would underflow."""
    squares = np.einsum("ij,ij->i", vectors, vectors)
    lengths: Array = np.sqrt(squares)
    is_tiny = squares <= REGION.min_safe_square
    if np.count_nonzero(is_tiny):
        (tiny,) = is_tiny.nonzero()
        largest = np.abs(vectors[tiny]).max(axis=1, initial=0.0)
        unit = np.where(largest > 0, largest, 1.0)
        lengths[tiny] = largest * np.sqrt(np.sum(np.square(vectors[tiny] / unit[:, None]), axis=1))
    return lengths
