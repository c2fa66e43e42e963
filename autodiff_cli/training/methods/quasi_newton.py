"""L-BFGS with bounds, for smooth losses (Liu & Nocedal 1989), finished by Newton steps with exact second derivatives.

The initial Hessian approximation is the diagonal of the exact one, so parameters may have any unit. The Newton steps at
the end give all digits and prove that the point is a minimum. Losses with kinks are fitted with the kinks smoothed, by
ever smaller radii.

`Iterate` is the current point of a method with its line search; `refine_minimum` is Newton's method; `lbfgs` and
`lbfgs_with_kinks` are the methods themselves.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.numbers.arrays import ignore_float_errors
from autodiff_cli.training.losses import LossKind
from autodiff_cli.training.methods.gradient_descent import Diverged, Epoch, EpochCallback, Outcome
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.objective.parameters import ZERO_LOSS_TOLERANCE, Bounds, snap_to_zero


@dataclass(frozen=True, slots=True)
class LineSearchSettings:
    """Conditions and limits of the line search, and of losses without a minimum."""

    armijo: float = 1e-4  # least share of the decrease promised by the slope (Armijo's condition)
    wolfe: float = 0.9  # greatest share of the initial slope that may be left at the end of a line (Wolfe's condition)
    max_evaluations: int = 60  # step lengths tried along one line
    max_step_length: float = 2.0**50  # a loss that still falls at this multiple of the first step has no minimum
    rescale_ratio: float = 1e3  # if the loss fell by more than this multiple of itself, tolerances are rescaled
    unbounded_ratio: float = 1e12  # a loss below minus this multiple of the initial loss (or of 1) has no minimum


LINE_SEARCH = LineSearchSettings()


class SmoothFunction(Protocol):
    """A differentiable function to be minimised."""

    def value_and_grad(self, theta: Array) -> tuple[float, Array]:
        """Return the value and the gradient, nan or infinite where they are undefined."""

    def curvature(self, theta: Array) -> Array:
        """Return the Hessian, of shape (P, P)."""


class UnboundedLoss(Exception):  # noqa: N818 - named after the event
    """The loss decreases without bound along a line."""


class EpochLimitReached(Exception):  # noqa: N818 - named after the event
    """The requested number of epochs is reached."""


class Iterate:
    """The current point of a method, between bounds.

    Args:
        on_epoch: is called with the start and with every step.
        epochs: the maximum number of steps, after which `EpochLimitReached` is raised.
        unit: the unit of the loss, if it has one: a larger decrease is measured as one unit.

    Attributes:
        theta, loss, gradient: the point, and the loss and its gradient there.
        reference_loss: the loss from which its decrease is measured; at first the one at the start.
        step_count: the number of steps taken.

    Raises:
        Diverged: if the loss or its gradient at the start is not finite.
    """

    def __init__(
        self,
        function: SmoothFunction,
        start: Array,
        on_epoch: EpochCallback,
        epochs: int | None,
        bounds: Bounds,
        unit: float | None = None,
    ) -> None:
        self.function = function
        self._loss_unit = unit
        self.bounds = bounds
        self._on_epoch = on_epoch
        self._max_steps = epochs
        self.theta = start
        self.loss, self.gradient = function.value_and_grad(start)
        if not _is_finite(self.loss, self.gradient):
            raise Diverged(0, self.loss)
        self.reference_loss = self.loss
        self.step_count = 0
        on_epoch(Epoch(0, self.loss, start.copy()))

    @property
    def free_mask(self) -> NDArray[np.bool_]:
        """Which parameters can move down the gradient."""
        return self.bounds.free_mask(self.theta, self.gradient)

    def move_to(self, theta: Array, loss: float, gradient: Array) -> None:
        """Move to a point. Raises EpochLimitReached if that was the last step, and UnboundedLoss."""
        if loss < -LINE_SEARCH.unbounded_ratio * max(abs(self.reference_loss), 1.0):
            raise UnboundedLoss
        self.theta, self.loss, self.gradient = theta, loss, gradient
        self.step_count += 1
        self._on_epoch(Epoch(self.step_count, loss, theta.copy()))
        if self.step_count == self._max_steps:
            raise EpochLimitReached

    @property
    def loss_scale(self) -> float:
        """The size against which a decrease is judged: the loss, or its decrease so far if that is larger."""
        fallen = self.reference_loss - self.loss
        return max(abs(self.loss), fallen if self._loss_unit is None else min(fallen, self._loss_unit))

    def reset_loss_scale(self) -> bool:
        """Measure the decrease of the loss from here on, if the loss started out of proportion to its value now.

        If a loss started at 1e30, a share of 1e-12 of that is not small. Returns whether the scale was reset.
        """
        if self._loss_unit is not None or not self.reference_loss - self.loss > LINE_SEARCH.rescale_ratio * abs(
            self.loss
        ):
            return False
        self.reference_loss = self.loss
        return True

    def line_search(self, direction: Array) -> bool:
        """Search along a descent direction until Wolfe's conditions hold, or up to the bounds.

        The step length is found by bisection and interpolation, which requires no smoothness (Lewis & Overton 2013,
        Math.
        Program. 141). A point where the loss is undefined counts as too far.

        Returns:
            Whether a step was taken.

        Raises:
            UnboundedLoss: if the loss keeps decreasing up to the largest step.
            EpochLimitReached: see `move_to`.
        """
        slope = float(self.gradient @ direction)
        if not slope < 0:
            return False
        near, far, length = 0.0, math.inf, 1.0
        reached: tuple[Array, float, Array] | None = None
        for _ in range(LINE_SEARCH.max_evaluations):
            theta = self.bounds.clip(self.theta + length * direction)
            if (theta == self.theta).all():
                break
            loss, gradient = self.function.value_and_grad(theta)
            promised = float(self.gradient @ (theta - self.theta))
            if not _is_finite(loss, gradient) or loss > self.loss + LINE_SEARCH.armijo * promised or loss >= self.loss:
                far = length
                length = near + (far - near) * _backtracking_factor(
                    self.loss, slope * length, loss if near == 0 else math.nan
                )
                continue
            reached = theta, loss, gradient
            is_inside = bool((theta == self.theta + length * direction).all())
            if float(gradient @ direction) >= LINE_SEARCH.wolfe * slope or not is_inside:
                break
            near = length
            length = 2 * near if math.isinf(far) else (near + far) / 2
            if length > LINE_SEARCH.max_step_length:
                raise UnboundedLoss
        if reached is None:
            return False
        self.move_to(*reached)
        return True


def _backtracking_factor(loss: float, slope: float, beyond: float) -> float:
    """The minimiser of a parabola through the known values, as a share of the step, between 0.1 and 0.5."""
    if not math.isfinite(beyond):
        return 0.5
    return min(max(-slope / (2 * (beyond - loss - slope)), 0.1), 0.5)


def _is_finite(loss: float, gradient: Array) -> bool:
    return math.isfinite(loss) and bool(np.isfinite(gradient).all())


@dataclass(frozen=True, slots=True)
class NewtonSettings:
    """Tolerances and limits of Newton's method."""

    max_steps: int = 100  # Newton steps at the end; a few are usual
    max_saddle_trials: int = 40  # step lengths tried in each direction to leave a saddle point
    # relative to the largest curvature, with scaled parameters: what rounding leaves of 0
    zero_curvature: float = 1e-13
    negligible_gain: float = 1e-10  # relative to the loss or its decrease so far: nothing more to gain
    negligible_step: float = 1e-9  # relative to the parameters: the point is at the minimum
    min_gradient_reduction: float = 0.5  # a polishing step must reduce the gradient to less than this share


NEWTON = NewtonSettings()


class NewtonStep(NamedTuple):
    """The result of Newton's method at one point: the step, and what the second derivatives say about the point.

    Attributes:
        step: the step to the minimum of the quadratic model, with negative curvatures made positive.
        gain: the decrease of the loss that the model predicts.
        has_flat_slope: whether the loss decreases in a direction without curvature, where no step length is known.
        is_convex: whether no curvature is negative.
        gradient_norm: the norm of the gradient, with parameters scaled by the curvatures.
        descent_direction: the direction of the most negative curvature; None if there is none.
    """

    step: Array
    gain: float
    has_flat_slope: bool
    is_convex: bool
    gradient_norm: float
    descent_direction: Array | None


def is_minimum(iterate: Iterate, verdict: NewtonStep) -> bool:
    """Whether nothing more is to be gained at a point, whatever the units of the parameters and the loss."""
    is_near = bool((np.abs(verdict.step) <= NEWTON.negligible_step * np.abs(iterate.theta)).all())
    is_near = is_near and not verdict.has_flat_slope
    return verdict.is_convex and (verdict.gain <= NEWTON.negligible_gain * iterate.loss_scale or is_near)


def newton_step(iterate: Iterate) -> NewtonStep:
    """Analyse the second derivatives at the current point."""
    free = iterate.free_mask
    count = len(free)
    step, downhill = np.zeros(count), None
    hessian = iterate.function.curvature(iterate.theta)[np.ix_(free, free)]
    gradient = iterate.gradient[free]
    if not free.any():
        return NewtonStep(step, 0.0, False, True, 0.0, None)
    if not np.isfinite(hessian).all():
        return NewtonStep(step, np.inf, True, False, np.inf, None)
    diagonal = np.sqrt(np.abs(np.diag(hessian)))
    scale = np.where(diagonal > 0, diagonal, 1.0)
    curvatures, directions = np.linalg.eigh(hessian / np.outer(scale, scale))
    slopes = directions.T @ (gradient / scale)
    least = NEWTON.zero_curvature * len(scale) * max(float(np.abs(curvatures).max()), 0.0)
    sizes = np.abs(curvatures)
    is_curved = sizes > least
    components = np.where(is_curved, -slopes / np.where(is_curved, sizes, 1.0), 0.0)
    # In flat directions there is no step, only a slope, which is ignored if it is no larger than rounding errors.
    flat = float(np.sum(np.abs(slopes[~is_curved])))
    gain = float(np.sum(np.square(slopes[is_curved]) / sizes[is_curved])) / 2
    is_sloped = flat > np.sqrt(least) * float(np.abs(slopes).max(initial=0.0))
    gain += flat if is_sloped else 0.0
    step[free] = directions @ components / scale
    is_bowl = not bool((curvatures < -np.sqrt(NEWTON.zero_curvature)).any())
    if not is_bowl:
        downhill = np.zeros(count)
        downhill[free] = directions[:, 0] / scale
    return NewtonStep(step, gain, is_sloped, is_bowl, float(np.linalg.norm(slopes)), downhill)


def refine_minimum(iterate: Iterate) -> NewtonStep:
    """Take Newton steps as long as they get closer to the minimum, and return the analysis of the last point.

    Close to a minimum the loss has only half of the digits, so the gradient is the measure there.

    Raises:
        UnboundedLoss, EpochLimitReached: see `Iterate`.
    """
    verdict = newton_step(iterate)
    for _ in range(NEWTON.max_steps):
        if verdict.gradient_norm == 0 and verdict.is_convex:
            break
        if not _take_step(iterate, verdict):
            break
        following = newton_step(iterate)
        if (
            is_minimum(iterate, following)
            and following.gradient_norm > NEWTON.min_gradient_reduction * verdict.gradient_norm
        ):
            return following
        verdict = following
    return verdict


def _take_step(iterate: Iterate, verdict: NewtonStep) -> bool:
    """Take a step, and return whether it made progress."""
    if is_minimum(iterate, verdict):
        return _polish(iterate, verdict)
    if verdict.descent_direction is not None and verdict.gain <= NEWTON.negligible_gain * max(
        abs(iterate.loss), 1e-300
    ):
        return _leave_saddle(iterate, verdict.descent_direction)
    return iterate.line_search(verdict.step)


def _polish(iterate: Iterate, verdict: NewtonStep) -> bool:
    """Take the full Newton step if it reduces the gradient and does not increase the loss beyond rounding."""
    theta = iterate.bounds.clip(iterate.theta + verdict.step)
    loss, gradient = iterate.function.value_and_grad(theta)
    if not np.isfinite(loss) or loss > iterate.loss + 1e-12 * abs(iterate.loss) + verdict.gain:
        return False
    before, after = (np.abs(g[iterate.free_mask]) for g in (iterate.gradient, gradient))
    if not np.isfinite(after).all() or float(np.sum(after)) > NEWTON.min_gradient_reduction * float(np.sum(before)):
        return False
    iterate.move_to(theta, loss, gradient)
    return True


def _leave_saddle(iterate: Iterate, downhill: Array) -> bool:
    """Leave a saddle point along its direction of negative curvature, and return whether the loss decreased."""
    for sign in (1.0, -1.0):
        length = 1.0
        for _ in range(NEWTON.max_saddle_trials):
            theta = iterate.bounds.clip(iterate.theta + sign * length * downhill)
            loss, gradient = iterate.function.value_and_grad(theta)
            if np.isfinite(loss) and np.isfinite(gradient).all() and loss < iterate.loss:
                iterate.move_to(theta, loss, gradient)
                return True
            length /= 4
    return False


@dataclass(frozen=True, slots=True)
class LbfgsSettings:
    """Tolerances and limits of L-BFGS."""

    max_epochs: int = 10_000  # steps, if no number of epochs is given
    memory: int = 10  # pairs of steps and gradient changes from which the Hessian is approximated
    negligible_decrease: float = 1e-12  # promised decrease relative to the loss or its decrease so far
    # after this many steps, plus so many per parameter, Newton's method is tried
    steps_before_newton: tuple[int, ...] = 50, 2
    max_restarts: int = 3  # with an empty memory, after a line search without success
    # of kinks, relative to the mean size of their arguments; each fit starts from the last
    smoothing_radii: tuple[float, ...] = tuple(10.0**-k for k in range(1, 9))


LBFGS = LbfgsSettings()


MAX_HESSIAN_SIZE = 500  # parameters; for more, a full Hessian takes too long


def lbfgs(
    function: SmoothFunction,
    start: Array,
    on_epoch: EpochCallback,
    epochs: int | None = None,
    bounds: Bounds | None = None,
    tolerance: float | None = None,
    unit: float | None = None,
) -> Outcome:
    """Minimise a smooth function.

    Args:
        start: the starting point, of shape (P,), between the bounds.
        on_epoch: is called with the start and with every step.
        epochs: the maximum number of steps.
        tolerance: the predicted decrease, relative to the loss, at which to stop; by default the method stops when
            second
            derivatives prove a minimum.
        unit: the unit of the function, if it has one: 1 for logarithms of probabilities.

    Raises:
        Diverged: if the loss or its gradient at the start is not finite.
    """
    with ignore_float_errors():
        limit = LBFGS.max_epochs if epochs is None else epochs
        iterate = Iterate(function, start, on_epoch, limit, bounds or Bounds.unbounded(len(start)), unit)
        return _minimize(iterate, epochs, tolerance)


def _minimize(iterate: Iterate, epochs: int | None, tolerance: float | None) -> Outcome:
    start = iterate.theta
    if epochs == 0:
        return Outcome(start, False)
    has_curvatures = len(start) <= MAX_HESSIAN_SIZE
    try:
        while True:
            max_steps = (
                LBFGS.steps_before_newton[0] + LBFGS.steps_before_newton[1] * len(start)
                if has_curvatures and tolerance is None
                else None
            )
            promised, is_slow = _descend(iterate, has_curvatures, tolerance or 0.0, max_steps)
            verdict = refine_minimum(iterate) if has_curvatures and tolerance is None else None
            is_at_minimum = verdict is None or is_minimum(iterate, verdict)
            if not (is_slow and not is_at_minimum) and not iterate.reset_loss_scale():
                break
    except EpochLimitReached:
        if epochs is None:
            return Outcome(iterate.theta, False, f"no convergence after {iterate.step_count} iterations")
        return Outcome(iterate.theta, False)
    except UnboundedLoss:
        return Outcome(iterate.theta, False, "the loss has no minimum: it decreases without bound", is_unbounded=True)
    return _outcome_at(iterate, start, verdict, promised, tolerance or 0.0)


def lbfgs_with_kinks(
    objective: Objective,
    start: Array,
    on_epoch: EpochCallback,
    epochs: int | None = None,
    bounds: Bounds | None = None,
    tolerance: float | None = None,
) -> Outcome:
    """Minimise an objective that may have kinks: `abs(u)` is smoothed, with ever smaller radii.

    Args:
        start, on_epoch, epochs, bounds, tolerance: see `lbfgs`.

    The last radius is negligible, so the point at the end can be proved to be a minimum.
    """
    unit = 1.0 if objective.kind is LossKind.LIKELIHOOD else None
    smooth = objective.without_kinks() if len(start) <= MAX_HESSIAN_SIZE else None
    if smooth is None:
        return lbfgs(objective, start, on_epoch, epochs, bounds, tolerance, unit)
    epochs_done, theta = 0, start
    outcome = Outcome(start, False)

    def report(epoch: Epoch) -> None:
        if epoch.number or not epochs_done:
            on_epoch(Epoch(epochs_done + epoch.number, objective.value(epoch.theta), epoch.theta))
            reached.append(epoch.number)

    for radius in LBFGS.smoothing_radii:
        reached = [0]
        epochs_left = None if epochs is None else epochs - epochs_done
        outcome = lbfgs(smooth.with_smoothing(radius, theta), theta, report, epochs_left, bounds, tolerance, unit)
        epochs_done, theta = epochs_done + reached[-1], outcome.theta
        if outcome.failure or (epochs is not None and epochs_done >= epochs):
            break
    return outcome


def _outcome_at(
    iterate: Iterate, start: Array, verdict: NewtonStep | None, promised: float, tolerance: float
) -> Outcome:
    is_found = promised <= _negligible_decrease(iterate, tolerance) if verdict is None else is_minimum(iterate, verdict)
    if is_found:
        return Outcome(_snapped_point(iterate, start), True)
    kind_of_point = "a saddle point" if verdict is not None and not verdict.is_convex else "a slope"
    reason = f"no minimum was found: after {iterate.step_count} iterations it is on {kind_of_point} that no step leaves"
    return Outcome(iterate.theta, False, reason, is_stuck=True)


def _snapped_point(iterate: Iterate, start: Array) -> Array:
    """The point with those parameters set to 0 that converge to 0.

    The loss is even in them, as in `a` of `a^2`.
    """
    snapped = snap_to_zero(iterate.theta, start, iterate.bounds)
    if snapped is None:
        return iterate.theta
    point, is_small = snapped
    loss, gradient = iterate.function.value_and_grad(point)
    is_same = loss <= iterate.loss + ZERO_LOSS_TOLERANCE * iterate.loss_scale and not gradient[is_small].any()
    return point if is_same else iterate.theta


def _descend(iterate: Iterate, has_curvatures: bool, tolerance: float, max_steps: int | None) -> tuple[float, bool]:
    """Take L-BFGS steps until the predicted decrease is negligible, or until `max_steps` steps were taken.

    Returns:
        The predicted decrease, and whether the method stopped because of the number of steps.
    """
    restarts = 0
    last_step = math.inf if max_steps is None else iterate.step_count + max_steps
    while True:
        diagonal = _initial_diagonal(iterate, has_curvatures)
        pairs: deque[tuple[Array, Array]] = deque(maxlen=LBFGS.memory)
        while True:
            free = iterate.free_mask
            direction = _lbfgs_direction(pairs, iterate.gradient, free, diagonal)
            promised = -float(iterate.gradient @ direction) / 2
            if promised <= _negligible_decrease(iterate, tolerance) or iterate.step_count >= last_step:
                return promised, iterate.step_count >= last_step
            before = iterate.theta, iterate.gradient
            if not iterate.line_search(direction):
                break
            pairs.append((iterate.theta - before[0], iterate.gradient - before[1]))
            restarts = 0
        restarts += 1
        if restarts > LBFGS.max_restarts or not pairs:
            return promised, False


def _negligible_decrease(iterate: Iterate, tolerance: float) -> float:
    """The decrease of the loss that counts as none."""
    return max(tolerance * abs(iterate.loss), LBFGS.negligible_decrease * iterate.loss_scale)


def _initial_diagonal(iterate: Iterate, has_curvatures: bool) -> Array:
    """The absolute curvature along each parameter; the norm of the gradient for all of them if it is not known."""
    count = len(iterate.theta)
    if has_curvatures:
        curvatures = np.abs(np.diag(iterate.function.curvature(iterate.theta)))
        known = np.isfinite(curvatures) & (curvatures > 0)
        if known.any():
            return np.where(known, curvatures, np.median(curvatures[known]))
    steepest = float(np.linalg.norm(iterate.gradient))
    return np.full(count, steepest or 1.0)


def _lbfgs_direction(
    pairs: deque[tuple[Array, Array]], gradient: Array, free: NDArray[np.bool_], diagonal: Array
) -> Array:
    """The L-BFGS direction over the free parameters, by the two-loop recursion (Nocedal 1980)."""
    direction = np.where(free, gradient, 0.0)
    used = []
    scale = 1.0
    for step, change in pairs:
        step, change = np.where(free, step, 0.0), np.where(free, change, 0.0)
        inner_product = float(step @ change)
        square = float(np.sum(np.square(change) / diagonal))
        if inner_product > 1e-16 * float(np.linalg.norm(step) * np.linalg.norm(change)) and square > 0:
            used.append((step, change, inner_product))
            scale = inner_product / square
    coefficients = []
    for step, change, inner_product in reversed(used):
        coefficient = float(step @ direction) / inner_product
        direction = direction - coefficient * change
        coefficients.append(coefficient)
    direction = scale * direction / diagonal
    for (step, change, inner_product), coefficient in zip(used, reversed(coefficients), strict=True):
        direction = direction + (coefficient - float(change @ direction) / inner_product) * step
    return np.where(free, -direction, 0.0)
