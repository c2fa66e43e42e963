"""L-BFGS with bounds, for smooth losses (Liu & Nocedal 1989), finished by Newton steps with exact second derivatives.

The fits of a batch take their steps together; a fit that has ended takes no more. A single fit is a batch of one. The
initial Hessian approximation is the diagonal of the exact one, so parameters may have any unit. The Newton steps at
the end give all digits and prove that the point is a minimum. Losses with kinks are fitted with the kinks smoothed, by
ever smaller radii.

`_Iterates` has the current points of a batch with their line search, L-BFGS and Newton's method. `fit_smooth_loss` is
the method itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from autodiff_cli.array_types import Array, Mask, ignore_float_errors
from autodiff_cli.backends.reductions import eigh
from autodiff_cli.language.errors import pluralize
from autodiff_cli.numbers.arrays import dots
from autodiff_cli.training.methods.gradient_descent import (
    CONVERGENCE,
    BatchCallback,
    Outcome,
    RunawayDetector,
    StoppingRule,
    ignore_steps,
    renumber,
)
from autodiff_cli.training.objective.batch import Batch, Fits
from autodiff_cli.training.objective.parameters import ZERO_LOSS_TOLERANCE, Bounds, snap_to_zero


class QuasiNewtonSettings(NamedTuple):
    """Tolerances and limits of L-BFGS, of its line search, and of Newton's method."""

    epochs_per_parameter: int = 100  # times P + 10: fits that need more epochs hardly ever reach a minimum
    memory: int = 10  # pairs of steps and gradient changes from which the Hessian is approximated
    negligible_decrease: float = 1e-12  # predicted decrease, relative to the loss or its decrease so far
    # after this many steps, plus so many per parameter, Newton's method is tried
    steps_before_newton: tuple[int, ...] = 50, 2
    # of kinks, relative to the mean size of their arguments; each fit starts from the last
    smoothing_radii: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)

    largest_decrease: float = 1e3  # multiple of the loss by which no first step along a parameter lowers it
    armijo: float = 1e-4  # least share of the decrease promised by the slope (Armijo's condition)
    wolfe: float = 0.9  # greatest share of the initial slope that may be left at the end of a line (Wolfe's condition)
    max_line_evaluations: int = 60  # step lengths tried along one line
    max_step_length: float = 2.0**50  # a loss that still falls at this multiple of the first step has no minimum
    rescale_ratio: float = 1e3  # if the loss fell by more than this multiple of itself, tolerances are rescaled
    unbounded_ratio: float = 1e12  # a loss below minus this multiple of the initial loss (or of 1) has no minimum

    max_newton_steps: int = 100  # Newton steps at the end; a few are usual
    max_saddle_trials: int = 40  # step lengths tried in each direction to leave a saddle point
    # relative to the largest curvature, with scaled parameters: what rounding leaves of 0
    zero_curvature: float = 1e-13
    negligible_gain: float = 1e-10  # decrease, relative to the loss or its decrease so far, that is negligible
    negligible_step: float = 1e-9  # length of a step, relative to the parameters, that is negligible
    min_gradient_reduction: float = 0.5  # a polishing step must reduce the gradient to less than this share
    largest_parameter: float = 1e140  # second derivatives with respect to larger ones underflow
    precise_gain: float = 1e-16  # decrease, relative to the loss, above which ends are followed along a valley
    valley_steps: int = 6  # Newton steps along a valley
    valley_reduction: float = 1e-6  # they must reduce the decrease that is left to less than this share


SETTINGS = QuasiNewtonSettings()
MAX_HESSIAN_SIZE = 500  # parameters; for more, a full Hessian takes too long


class _NewtonSteps(NamedTuple):
    """The results of Newton's method at one point of each fit: the steps, and properties of the second derivatives.

    Attributes:
        step: the step to the minimum of the quadratic model, with negative curvatures made positive.
        gain: the decrease of the loss that the model predicts.
        has_flat_slope: whether the loss decreases in a direction without curvature, where no step length is known.
        is_convex: whether no curvature is negative.
        gradient_norm: the norm of the gradient, with parameters scaled by the curvatures.
        descent_direction: the direction of the least curvature.
        is_defined: whether the second derivatives are finite.
    """

    step: Array
    gain: Array
    has_flat_slope: Mask
    is_convex: Mask
    gradient_norm: Array
    descent_direction: Array
    is_defined: Mask

    def select(self, chosen: Mask | Fits) -> _NewtonSteps:
        """Return the results of some fits."""
        return _NewtonSteps._make(values[chosen] for values in self)


class _Iterates:
    """The current points of a batch of fits, between bounds.

    Args:
        on_step: is called with the starts and with every step.
        stop: when the fits stop; without a number of steps also where their parameters run to infinity.
        unit: the unit of the loss, if it has one: a larger decrease is measured as one unit.

    Attributes:
        theta, loss, gradient: the points, and the losses and their gradients there.
        step_count: the number of steps taken.
        is_usable: which fits have a finite loss and gradient at the start.
        is_limited, is_unbounded: which fits ended after the last step, or because the loss decreases without bound.
        is_at_minimum: which fits ended at a minimum.
        remaining_gain: the decrease of the loss that Newton's method last predicted for each fit.
    """

    def __init__(
        self, batch: Batch, start: Array, on_step: BatchCallback, stop: StoppingRule, unit: float | None
    ) -> None:
        count, size = start.shape
        self._batch = batch
        self._is_bounded = batch.bounds.has_bounds
        self._loss_unit = unit
        self._on_step = on_step
        self._epochs, self._tolerance = stop.epochs, stop.tolerance or 0.0
        self._max_steps = SETTINGS.epochs_per_parameter * (10 + size) if stop.epochs is None else stop.epochs
        self._has_curvatures = size <= MAX_HESSIAN_SIZE
        self._is_refined = self._has_curvatures and stop.tolerance is None
        every = np.arange(count)
        self.theta = start.copy()
        self.loss, self.gradient = batch.values_and_gradients(start, every)
        self.is_usable = _is_finite(self.loss, self.gradient)
        self._reference_loss = self.loss.copy()
        self.step_count = np.zeros(count, np.intp)
        self.is_unbounded, self.is_at_minimum = (np.zeros(count, np.bool_) for _ in range(2))
        self.is_limited = np.full(count, self._max_steps == 0)
        self.remaining_gain = np.zeros(count)
        self._runaways = RunawayDetector(start)
        # The last steps and changes of the gradient of each fit, the newest last.
        self._moves, self._changes = (np.zeros((SETTINGS.memory, count, size)) for _ in range(2))
        self._is_stored = np.zeros((SETTINGS.memory, count), np.bool_)
        usable = every[self.is_usable]
        if len(usable):
            on_step(usable, self.step_count[usable], self.loss[usable], start[usable])

    def run(self, *, is_near: bool) -> None:
        """Take L-BFGS steps, and then Newton steps, until each fit ends; first Newton steps if the starts are near the
        minima.
        """
        fits = (self.is_usable & ~self.is_limited).nonzero()[0]
        while len(fits):
            is_slow = np.ones(len(fits), np.bool_) if is_near and self._is_refined else self._descend(fits)
            is_near = False
            if self._is_refined:
                self._refine(fits[self._is_running(fits)])
            is_pending = is_slow & ~self.is_at_minimum[fits]
            is_pending[~is_pending] = self._reset_loss_scale(fits[~is_pending])
            fits = fits[is_pending & self._is_running(fits)]
        is_imprecise = self.is_at_minimum & (self.remaining_gain > SETTINGS.precise_gain * np.abs(self.loss))
        if self._epochs is None and is_imprecise.any():
            self._follow_valleys(is_imprecise.nonzero()[0])

    def _is_running(self, fits: Fits) -> Mask:
        return ~(self.is_limited[fits] | self.is_unbounded[fits] | self._runaways.is_found[fits])

    def _bounds(self, fits: Fits) -> Bounds:
        return self._batch.bounds.select(fits)

    def _free_mask(self, fits: Fits) -> Mask:
        """The mask of the parameters that can move down the gradient."""
        if not self._is_bounded:
            return np.ones((len(fits), self.theta.shape[1]), np.bool_)
        return self._bounds(fits).free_mask(self.theta[fits], self.gradient[fits])

    def _move_to(self, fits: Fits, theta: Array, loss: Array, gradient: Array) -> None:
        """Move to points. Fits whose loss is out of proportion there end as unbounded instead."""
        is_sane = loss >= -SETTINGS.unbounded_ratio * np.maximum(np.abs(self._reference_loss[fits]), 1.0)
        self.is_unbounded[fits[~is_sane]] = True
        fits = fits[is_sane]
        if not len(fits):
            return
        self.theta[fits], self.loss[fits], self.gradient[fits] = theta[is_sane], loss[is_sane], gradient[is_sane]
        self.step_count[fits] += 1
        self.is_limited[fits] = self.step_count[fits] == self._max_steps
        if self._epochs is None:
            sizes = np.abs(self.loss[fits]) if self._loss_unit is None else np.full(len(fits), self._loss_unit)
            self._runaways.examine(fits, self.step_count[fits], self.loss[fits], self.theta[fits], sizes)
        self._on_step(fits, self.step_count[fits], self.loss[fits], self.theta[fits])

    def loss_scale(self, fits: Fits) -> Array:
        """The sizes against which decreases are judged: the loss, or its decrease so far if that is larger."""
        fallen = self._reference_loss[fits] - self.loss[fits]
        return np.maximum(
            np.abs(self.loss[fits]), fallen if self._loss_unit is None else fallen.clip(max=self._loss_unit)
        )

    def _reset_loss_scale(self, fits: Fits) -> Mask:
        """Replace the reference of losses that started far above their present values by these values.

        If a loss started at 1e30, a decrease of 1e-12 of that is not negligible. Returns which references were
        replaced.
        """
        if self._loss_unit is not None:
            return np.zeros(len(fits), np.bool_)
        fallen = self._reference_loss[fits] - self.loss[fits]
        is_reset: Mask = fallen > SETTINGS.rescale_ratio * np.abs(self.loss[fits])
        self._reference_loss[fits[is_reset]] = self.loss[fits[is_reset]]
        return is_reset

    def _line_search(self, fits: Fits, directions: Array) -> Mask:
        """Search along descent directions until Wolfe's conditions hold, or up to the bounds.

        The step length is found by bisection and interpolation, which requires no smoothness (Lewis & Overton 2013,
        Math. Program. 141). A point where the loss is undefined counts as too far. Fits whose loss keeps decreasing up
        to the largest step end as unbounded.

        Returns:
            Which fits took a step.
        """
        count = len(fits)
        slope = dots(self.gradient[fits], directions)
        near, far, length = np.zeros(count), np.full(count, np.inf), np.ones(count)
        best_theta, best_loss, best_gradient = self.theta[fits], self.loss[fits], self.gradient[fits]
        is_reached = np.zeros(count, np.bool_)
        some = (slope < 0).nonzero()[0]
        for _ in range(SETTINGS.max_line_evaluations):
            origin = self.theta[fits[some]]
            target = origin + length[some, None] * directions[some]
            theta = self._bounds(fits[some]).clip(target) if self._is_bounded else target
            has_moved = (theta != origin).any(axis=1)
            some, origin, target, theta = some[has_moved], origin[has_moved], target[has_moved], theta[has_moved]
            if not len(some):
                break
            numbers = fits[some]
            base = self.loss[numbers]
            loss, gradient = self._batch.values_and_gradients(theta, numbers)
            promised = dots(self.gradient[numbers], theta - origin)
            is_low = _is_finite(loss, gradient) & (loss <= base + SETTINGS.armijo * promised) & (loss < base)
            low, high = some[is_low], some[~is_low]
            far[high] = length[high]
            beyond = np.where(near[high] == 0, loss[~is_low], np.nan)
            backwards = _backtracking_factors(base[~is_low], slope[high] * length[high], beyond)
            length[high] = near[high] + (far[high] - near[high]) * backwards
            best_theta[low], best_loss[low], best_gradient[low] = theta[is_low], loss[is_low], gradient[is_low]
            is_reached[low] = True
            is_flat = dots(gradient[is_low], directions[low]) >= SETTINGS.wolfe * slope[low]
            on_bound = (theta[is_low] != target[is_low]).any(axis=1)
            low = low[~is_flat & ~on_bound]
            near[low] = length[low]
            length[low] = np.where(np.isinf(far[low]), 2 * near[low], (near[low] + far[low]) / 2)
            is_long = length[low] > SETTINGS.max_step_length
            self.is_unbounded[fits[low[is_long]]] = True
            is_reached[low[is_long]] = False
            some = np.sort(np.concatenate((high, low[~is_long])))
        self._move_to(fits[is_reached], best_theta[is_reached], best_loss[is_reached], best_gradient[is_reached])
        return is_reached & self._is_running(fits)

    def _descend(self, fits: Fits) -> Mask:
        """Take L-BFGS steps until the predicted decreases are negligible, or until it is time to try Newton's method.

        Returns:
            Which fits stopped because of the number of steps.
        """
        is_slow = np.zeros(len(self.theta), np.bool_)
        last_step = np.full(len(self.theta), np.iinfo(np.intp).max)
        if self._is_refined:
            per_fit, per_parameter = SETTINGS.steps_before_newton
            last_step[fits] = self.step_count[fits] + per_fit + per_parameter * self.theta.shape[1]
        diagonal = np.empty(self.theta.shape)
        diagonal[fits] = self._initial_diagonals(fits)
        self._is_stored[:, fits] = False
        active = fits
        while len(active):
            directions = self._directions(active, diagonal[active])
            promised = -dots(self.gradient[active], directions) / 2
            is_slow[active] = self.step_count[active] >= last_step[active]
            is_negligible = promised <= self._tolerance * np.abs(self.loss[active])
            is_negligible |= promised <= SETTINGS.negligible_decrease * self.loss_scale(active)
            self.is_at_minimum[active] = is_negligible
            is_open = ~is_negligible & ~is_slow[active]
            active, directions = active[is_open], directions[is_open]
            theta, gradient = self.theta[active], self.gradient[active]
            is_reached = self._line_search(active, directions)
            accepted = active[is_reached]
            self._store(
                accepted, self.theta[accepted] - theta[is_reached], self.gradient[accepted] - gradient[is_reached]
            )
            # A failed line search is repeated with an empty memory.
            again = active[~is_reached & self._is_running(active) & self._is_stored[-1, active]]
            if len(again):
                diagonal[again] = self._initial_diagonals(again)
                self._is_stored[:, again] = False
            active = np.sort(np.concatenate((accepted, again)))
        return np.asarray(is_slow[fits])

    def _store(self, fits: Fits, moves: Array, changes: Array) -> None:
        """Add a step and the change of the gradient to the memory of fits."""
        for memory, newest in ((self._moves, moves), (self._changes, changes), (self._is_stored, True)):
            memory[:-1, fits] = memory[1:, fits]
            memory[-1, fits] = newest

    def _initial_diagonals(self, fits: Fits) -> Array:
        """The absolute curvature along each parameter; the norm of the gradient if no curvature is known.

        A curvature near 0, such as that of a saturated sigmoid, would promise that the loss falls by far more than its
        size.
        """
        sizes = np.sqrt(np.sum(np.square(self.gradient[fits]), axis=1))
        diagonals = np.repeat(np.where(sizes > 0, sizes, 1.0)[:, None], self.theta.shape[1], axis=1)
        if not self._has_curvatures:
            return diagonals
        curvatures = np.abs(np.diagonal(self._batch.hessians(self.theta[fits], fits), axis1=1, axis2=2))
        losses = SETTINGS.largest_decrease * np.maximum(np.abs(self.loss[fits]), self._loss_unit or 0.0)[:, None]
        plausible = np.square(self.gradient[fits]) / np.where(losses > 0, losses, np.inf)
        curvatures = np.where(curvatures > 0, np.maximum(curvatures, plausible), curvatures)
        is_known = np.isfinite(curvatures) & (curvatures > 0)
        for k in np.flatnonzero(is_known.any(axis=1) & ~is_known.all(axis=1)):
            diagonals[k] = np.median(curvatures[k, is_known[k]])
        return np.where(is_known, curvatures, diagonals)

    def _directions(self, fits: Fits, diagonal: Array) -> Array:
        """The L-BFGS directions over the free parameters, by the two-loop recursion (Nocedal 1980)."""
        free = self._free_mask(fits)
        directions = np.where(free, self.gradient[fits], 0.0)
        slots = np.flatnonzero(self._is_stored[:, fits].any(axis=1))
        chosen = slots[:, None], fits
        moves, changes = (np.where(free, memory[chosen], 0.0) for memory in (self._moves, self._changes))
        products, squares = dots(moves, changes), dots(changes, changes / diagonal)
        sizes = np.sqrt(dots(moves, moves) * dots(changes, changes))
        is_used = self._is_stored[chosen] & (products > 1e-16 * sizes) & (squares > 0)
        inverse = np.where(is_used, 1 / np.where(is_used, products, 1.0), 0.0)
        coefficients = np.zeros(products.shape)
        for k in reversed(range(len(slots))):
            coefficients[k] = dots(moves[k], directions) * inverse[k]
            directions = directions - coefficients[k][:, None] * changes[k]
        if len(slots):
            newest = len(slots) - 1 - np.argmax(is_used[::-1], axis=0)
            scale = np.where(is_used, products / squares, 1.0)[newest, np.arange(len(fits))]
            directions = scale[:, None] * directions
        directions = directions / diagonal
        for k in range(len(slots)):
            correction = coefficients[k] - dots(changes[k], directions) * inverse[k]
            directions = directions + correction[:, None] * moves[k]
        return np.where(free, -directions, 0.0)

    # --- Newton's method

    def _newton_steps(self, fits: Fits) -> _NewtonSteps:
        """Analyse the second derivatives at the current points."""
        size = self.theta.shape[1]
        free = self._free_mask(fits)
        hessians = self._batch.hessians(self.theta[fits], fits)
        # The Hessian of a parameter that is not free is replaced by the identity, and its gradient by 0.
        is_free_pair = free[:, :, None] & free[:, None, :]
        is_defined: Mask = np.asarray((np.isfinite(hessians) | ~is_free_pair).all(axis=(1, 2)))
        is_defined &= (np.abs(self.theta[fits]) < SETTINGS.largest_parameter).all(axis=1)
        hessians = np.where(is_free_pair & is_defined[:, None, None], hessians, np.eye(size))
        gradient = np.where(free, self.gradient[fits], 0.0)
        diagonal = np.sqrt(np.abs(np.diagonal(hessians, axis1=1, axis2=2)))
        scale = np.where(diagonal > 0, diagonal, 1.0)
        curvatures, directions = eigh(hessians / (scale[:, :, None] * scale[:, None, :]))
        slopes = (directions.swapaxes(1, 2) @ (gradient / scale)[:, :, None])[:, :, 0]
        sizes = np.abs(curvatures)
        least = SETTINGS.zero_curvature * size * sizes.max(axis=1)
        is_curved = sizes > least[:, None]
        components = np.where(is_curved, -slopes / np.where(is_curved, sizes, 1.0), 0.0)
        # In flat directions there is no step, only a slope, which is ignored if it is no larger than rounding errors.
        flat = np.sum(np.where(is_curved, 0.0, np.abs(slopes)), axis=1)
        is_sloped = flat > np.sqrt(least) * np.abs(slopes).max(axis=1)
        gain = np.sum(-slopes * components, axis=1) / 2 + np.where(is_sloped, flat, 0.0)
        steps = np.where(free, (directions @ components[:, :, None])[:, :, 0] / scale, 0.0)
        is_convex: Mask = np.asarray((curvatures >= -np.sqrt(SETTINGS.zero_curvature)).all(axis=1))
        return _NewtonSteps(
            steps * is_defined[:, None],
            np.where(is_defined, gain, np.inf),
            is_sloped | ~is_defined,
            is_convex & is_defined,
            np.where(is_defined, np.sqrt(np.sum(np.square(slopes), axis=1)), np.inf),
            np.where(free, directions[:, :, 0] / scale, 0.0),
            is_defined,
        )

    def _is_minimum(self, fits: Fits, newton: _NewtonSteps) -> Mask:
        """Whether points are minima, up to rounding, for any units of the parameters and the loss."""
        is_near = (np.abs(newton.step) <= SETTINGS.negligible_step * np.abs(self.theta[fits])).all(axis=1)
        is_near &= ~newton.has_flat_slope
        return newton.is_convex & ((newton.gain <= SETTINGS.negligible_gain * self.loss_scale(fits)) | is_near)

    def _refine(self, fits: Fits) -> None:
        """Take Newton steps as long as they get closer to the minimum, and store the properties of the last points.

        Close to a minimum the loss has only half of the digits, so the gradient is the measure there.
        """
        before, remaining = np.full(len(fits), np.inf), SETTINGS.max_newton_steps
        while len(fits):
            newton = self._newton_steps(fits)
            self.is_at_minimum[fits], self.remaining_gain[fits] = self._is_minimum(fits, newton), newton.gain
            is_done = self.is_at_minimum[fits] & (newton.gradient_norm > SETTINGS.min_gradient_reduction * before)
            is_open = ~is_done & ((newton.gradient_norm != 0) | ~newton.is_convex)
            fits, newton, remaining = fits[is_open], newton.select(is_open), remaining - 1
            if not len(fits) or remaining < 0:
                return
            is_taken = self._take_steps(fits, newton)
            fits, before = fits[is_taken], newton.gradient_norm[is_taken]

    def _take_steps(self, fits: Fits, newton: _NewtonSteps) -> Mask:
        """Take a step of each fit, and return which made progress."""
        is_polished = self.is_at_minimum[fits]
        is_gainless = newton.gain <= SETTINGS.negligible_gain * np.maximum(np.abs(self.loss[fits]), 1e-300)
        is_saddle = ~is_polished & ~newton.is_convex & newton.is_defined & is_gainless
        is_taken = np.zeros(len(fits), np.bool_)
        kinds = (
            (is_polished, self._polish),
            (is_saddle, self._leave_saddles),
            (~is_polished & ~is_saddle, lambda some, steps: self._line_search(some, steps.step)),
        )
        for chosen, take in kinds:
            if chosen.any():
                is_taken[chosen] = take(fits[chosen], newton.select(chosen))
        return is_taken & self._is_running(fits)

    def _polish(self, fits: Fits, newton: _NewtonSteps) -> Mask:
        """Take full Newton steps that reduce the gradient and do not increase the loss beyond rounding."""
        theta, free = self._bounds(fits).clip(self.theta[fits] + newton.step), self._free_mask(fits)
        loss, gradient = self._batch.values_and_gradients(theta, fits)
        before, after = (np.sum(np.where(free, np.abs(g), 0.0), axis=1) for g in (self.gradient[fits], gradient))
        is_better: Mask = loss <= self.loss[fits] + 1e-12 * np.abs(self.loss[fits])
        is_better &= np.isfinite(loss) & (after <= SETTINGS.min_gradient_reduction * before)
        self._move_to(fits[is_better], theta[is_better], loss[is_better], gradient[is_better])
        return is_better

    def _follow_valleys(self, fits: Fits) -> None:
        """Take full Newton steps at ends that are not precise, and keep those that lead closer to a minimum.

        In a bent valley, as that of `a*exp(b*year)`, the first step raises the gradient, and the next ones reduce it.
        The second derivatives, and with them the standard errors, are right at the bottom of the valley only.
        """
        before, first = (self.theta[fits], self.loss[fits], self.gradient[fits]), self._newton_steps(fits)
        newton = first
        for _ in range(SETTINGS.valley_steps):
            self.theta[fits] = self._bounds(fits).clip(self.theta[fits] + newton.step)
            self.loss[fits], self.gradient[fits] = self._batch.values_and_gradients(self.theta[fits], fits)
            newton = self._newton_steps(fits)
        is_better = newton.is_convex & (newton.gain < SETTINGS.valley_reduction * first.gain)
        is_better &= self.loss[fits] <= before[1] + first.gain
        after = self.theta[fits], self.loss[fits], self.gradient[fits]
        self.theta[fits], self.loss[fits], self.gradient[fits] = before
        self._move_to(fits[is_better], *(values[is_better] for values in after))

    def _leave_saddles(self, fits: Fits, newton: _NewtonSteps) -> Mask:
        """Leave saddle points along their directions of negative curvature, and return whether losses decreased."""
        is_left = np.zeros(len(fits), np.bool_)
        for sign in (1.0, -1.0):
            for power in range(SETTINGS.max_saddle_trials):
                some = (~is_left).nonzero()[0]
                if not len(some):
                    return is_left
                moves = sign * 0.25**power * newton.descent_direction[some]
                theta = self._bounds(fits[some]).clip(self.theta[fits[some]] + moves)
                loss, gradient = self._batch.values_and_gradients(theta, fits[some])
                is_lower = _is_finite(loss, gradient) & (loss < self.loss[fits[some]])
                left = some[is_lower]
                self._move_to(fits[left], theta[is_lower], loss[is_lower], gradient[is_lower])
                is_left[left] = True
        return is_left

    def outcomes(self, start: Array) -> list[Outcome]:
        """Return the ends of the fits from their starting points."""
        is_minimum = self.is_usable & self._is_running(np.arange(len(start))) & self.is_at_minimum
        theta = self._snapped_points(is_minimum.nonzero()[0], start)
        return [
            Outcome(point, True) if is_minimum[fit] else self._failed_outcome(fit, point, start[fit])
            for fit, point in enumerate(theta)
        ]

    def _failed_outcome(self, fit: int, theta: Array, start: Array) -> Outcome:
        """Return the end of a fit that is not at a minimum, or that took as many steps as it may."""
        count = pluralize(self.step_count[fit], "iteration")
        if not self.is_usable[fit]:
            return Outcome.of_undefined_start(start, float(self.loss[fit]))
        if self.is_limited[fit]:
            return Outcome(theta, False, "" if self._epochs is not None else f"no convergence after {count}")
        if self._runaways.is_found[fit]:
            return Outcome(theta, False, RunawayDetector.REASON)
        if self.is_unbounded[fit]:
            return Outcome(theta, False, "the loss has no minimum: it decreases without bound", is_unbounded=True)
        reason = f"no minimum was found: after {count} the fit is on a slope or saddle that no step leaves"
        return Outcome(theta, False, reason, is_stuck=True)

    def _snapped_points(self, fits: Fits, start: Array) -> Array:
        """The points of all fits, with those parameters of some set to 0 that converge to 0.

        The loss is even in them, as in `a` of `a^2`.
        """
        theta = self.theta.copy()
        chosen, points, is_small = snap_to_zero(theta[fits], start[fits], self._bounds(fits))
        if len(fits := fits[chosen]):
            loss, gradient = self._batch.values_and_gradients(points, fits)
            is_zero = loss <= self.loss[fits] + ZERO_LOSS_TOLERANCE * self.loss_scale(fits)
            is_zero &= ~(is_small & (gradient != 0)).any(axis=1)
            theta[fits[is_zero]] = points[is_zero]
        return theta


def _backtracking_factors(loss: Array, slope: Array, beyond: Array) -> Array:
    """The minimisers of parabolas through the known values, as shares of the steps, between 0.1 and 0.5."""
    return np.where(np.isfinite(beyond), np.clip(-slope / (2 * (beyond - loss - slope)), 0.1, 0.5), 0.5)


def _is_finite(loss: Array, gradient: Array) -> Mask:
    return np.isfinite(loss) & np.isfinite(gradient).all(axis=1)


@ignore_float_errors()
def fit_smooth_loss(
    batch: Batch,
    start: Array,
    on_step: BatchCallback = ignore_steps,
    stop: StoppingRule = CONVERGENCE,
    unit: float | None = None,
    *,
    is_near: bool = False,
) -> list[Outcome]:
    """Minimise the losses of a batch of fits.

    Losses may have kinks: `abs(u)` is smoothed, with ever smaller radii. The last radius is negligible, so the point at
    the end can be proved to be a minimum.

    Args:
        start: the starting points, of shape (fits, P), between the bounds.
        on_step: is called with the starts and with every step.
        stop: without a tolerance the method stops when second derivatives prove a minimum.
        unit: the unit of the loss, if it has one: 1 for logarithms of probabilities.
        is_near: whether the starts are near minima, such as the minima of a similar loss, so that Newton's method comes
            first.

    Returns:
        The end of each fit, with a `divergence` if the loss or its gradient at the start is not finite.
    """
    smooth = batch.without_kinks() if start.shape[1] <= MAX_HESSIAN_SIZE else None
    if smooth is None:
        return _fit_without_kinks(batch, start, on_step, stop, unit, is_near=is_near)
    theta, outcomes = start.copy(), [Outcome(point, False) for point in start]
    epochs_done, active = np.zeros(len(start), np.intp), np.arange(len(start))

    def report_with_kinks(fits: Fits, numbers: Fits, _: Array, points: Array) -> None:
        on_step(fits, numbers, batch.losses(points, fits), points)

    for radius in SETTINGS.smoothing_radii:
        report = renumber(report_with_kinks, active, epochs_done)
        part = smooth.take(active).with_smoothing(radius, theta[active])
        remaining = stop.after(int(epochs_done[active].max()))
        # At the smallest radius quadratic models hold only next to the minimum: L-BFGS ends lower.
        is_last = radius == SETTINGS.smoothing_radii[-1]
        ends = _fit_without_kinks(part, theta[active], report, remaining, unit, is_near=is_near and not is_last)
        for fit, end in zip(active.tolist(), ends, strict=True):
            outcomes[fit], theta[fit] = end, end.theta
        is_near = True
        active = np.array([fit for fit in active.tolist() if not outcomes[fit].failure], np.intp)
        if stop.epochs is not None:
            active = active[epochs_done[active] < stop.epochs]
        if not len(active):
            break
    return outcomes


def _fit_without_kinks(
    batch: Batch, start: Array, on_step: BatchCallback, stop: StoppingRule, unit: float | None, *, is_near: bool
) -> list[Outcome]:
    """Minimise smooth losses; see `fit_smooth_loss`."""
    iterates = _Iterates(batch, start, on_step, stop, unit)
    iterates.run(is_near=is_near)
    return iterates.outcomes(start)
