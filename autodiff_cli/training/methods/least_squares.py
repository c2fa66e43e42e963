"""The Levenberg-Marquardt method for least squares, with bounds, after Moré 1978 (MINPACK's lmder).

The QR factorization of [J | r] has all information on cost, gradient and Gauss-Newton matrix. With R its triangular
factor, the method treats `R[:, P]` as the residuals and `R[:, :P]` as the Jacobian: a problem of P+1 residuals, however
many rows there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.numbers.arrays import ignore_float_errors
from autodiff_cli.training.methods.gradient_descent import Diverged, Epoch, EpochCallback, Outcome, ignore_epoch
from autodiff_cli.training.methods.region import TrustRegion, norm
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.objective.parameters import ZERO_LOSS_TOLERANCE, Bounds, snap_to_zero

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
    """Minimise the (weighted) sum of squared residuals.

    Args:
        start: the starting point, of shape (P,).
        on_epoch: is called with the start and with every accepted step.
        epochs: the maximum number of steps; None for a limit on evaluations alone.
        evaluations: the maximum number of evaluations.
        bounds: the box in which the parameters stay; it contains the start.
        tolerance: the relative change of the sum of squares or the parameters at which to stop; by default the method
            continues to the last digits.

    Raises:
        Diverged: if the residuals or their derivatives at the start are not finite.
    """
    method = _LevenbergMarquardt(
        objective, start, on_epoch, bounds or Bounds.unbounded(len(start)), tolerance or SETTINGS.tolerance
    )
    max_evaluations = evaluations or SETTINGS.max_evaluations + 20 * len(start)
    is_finished = method.run(max_evaluations, epochs)
    if method.epoch == epochs:
        return Outcome(method.theta, is_finished and not method.is_stuck())
    if is_finished and tolerance is None:
        method.polish()
    if (not is_finished or method.is_stuck()) and method.snap_to_zero():
        is_finished = method.run(method.evaluations + max_evaluations)
    if not is_finished:
        return Outcome(method.theta, False, f"no convergence within {method.evaluations} evaluations")
    if not method.is_stuck():
        return Outcome(method.theta, True)
    with ignore_float_errors():
        if method.is_at_domain_edge():
            reason = "stuck at the edge of the model's domain: the loss falls towards where it is undefined"
            return Outcome(method.theta, False, reason)
        kinks = method.find_kink(max_evaluations) if evaluations is None else None
    if kinks is None:
        return Outcome(method.theta, False, "no minimum was found: the loss has a slope there, but no step reduces it")
    return Outcome(method.theta, True, note=_kink_note([objective.layout.element_names[index] for index in kinks]))


def _kink_note(names: list[str]) -> str:
    """Return a sentence that says which parameters end at a kink; empty without any."""
    if not names:
        return ""
    listed = " and ".join(f"`{name}`" for name in names)
    verb = "ends at a kink" if len(names) == 1 else "end at kinks"
    return f"{listed} {verb} of the loss (from abs, max, relu or where); standard errors hold on one side of it only"


class _LevenbergMarquardt:
    """The state of the method during a fit.

    Attributes:
        theta: the parameters; `triangle` is the triangular factor of [J | r] there.
        epoch: the number of accepted steps.
        evaluations: the number of triangular factors computed.
    """

    def __init__(
        self, objective: Objective, start: Array, on_epoch: EpochCallback, bounds: Bounds, tolerance: float
    ) -> None:
        self._objective = objective
        self._start = start
        self._tolerance = tolerance
        self._on_epoch = on_epoch
        self._bounds = bounds
        self.evaluations = 1
        self.epoch = -1
        triangle = objective.triangle(start)
        if not _is_usable_triangle(triangle):
            raise Diverged(0, objective.value_and_grad(start)[0])
        self._move_to(start, triangle)
        self._report()
        self._region = TrustRegion(np.where(self._column_norms > 0, self._column_norms, 1.0), start)

    def run(self, max_evaluations: int, epochs: int | None = None) -> bool:
        """Take steps until the method converges. Returns False if it reaches a limit on steps or evaluations before."""
        while not self.is_stationary():
            if self.epoch == epochs or self.evaluations >= max_evaluations:
                return False
            if not self.step(max_evaluations):
                break
        return True

    def _move_to(self, theta: Array, triangle: Array) -> None:
        """Move to a point, and store what is needed of its triangular factor more than once."""
        self.theta, self.triangle = theta, triangle
        self._gradient, self._column_norms = _half_gradient(triangle), _jacobian_column_norms(triangle)
        self._residual_norm = norm(triangle[:, -1])

    def is_stationary(self) -> bool:
        """Whether the residuals are orthogonal to all columns of J along which the parameters can move."""
        residual_norm = self._residual_norm
        if residual_norm == 0:
            return True
        lengths, slopes = self._column_norms, self._gradient
        is_free = self._bounds.free_mask(self.theta, slopes) & (lengths > 0)
        return not is_free.any() or bool(
            (np.abs(slopes[is_free]) <= SETTINGS.tolerance * lengths[is_free] * residual_norm).all()
        )

    def step(self, max_evaluations: int) -> bool:
        """Take the next step, and return whether another may follow."""
        self._region.widen_scale(self._column_norms)
        while True:
            step = self._region.step(self.triangle, self._bounds.step_bounds(self.theta), self._gradient)
            trial = self._bounds.clip(self.theta + step)
            triangle = self._objective.triangle(trial)
            self.evaluations += 1
            ratio = self._region.update(actual := self._reduction(triangle), is_first=self.epoch == 0)
            is_accepted = ratio >= SETTINGS.min_accepted_ratio
            if is_accepted:
                self._move_to(trial, triangle)
                self._report()
            is_converged = max(abs(actual), self._region.predicted_reduction) <= self._tolerance and ratio <= 2
            if is_converged or self._region.is_narrow(self.theta, self._tolerance):
                return False
            if is_accepted or self.evaluations >= max_evaluations:
                return True

    def _reduction(self, triangle: Array) -> float:
        """The relative reduction of the sum of squares at a point; -1 if the point is unusable."""
        if not _is_usable_triangle(triangle):
            return -1.0
        length = norm(triangle[:, -1])
        return 1 - (length / self._residual_norm) ** 2 if 0.1 * length < self._residual_norm else -1.0

    def polish(self) -> None:
        """Take a few Gauss-Newton steps at the end.

        The method stops when the cost no longer changes, which in a flat valley leaves half of the digits inaccurate.
        Polishing
        reduces what vanishes at the solution instead: the part of the residuals that the parameters can still remove.
        """
        theta, triangle = self.theta, self.triangle
        for _ in range(SETTINGS.max_polish_steps):
            free = self._bounds.free_mask(theta, _half_gradient(triangle))
            point = _gauss_newton_point(theta, triangle, free)
            if point is None or not self._bounds.contains(point):
                break
            new_triangle = self._objective.triangle(point)
            if not _is_usable_triangle(new_triangle) or _projected_residual_norm(
                new_triangle, free
            ) >= SETTINGS.polish_reduction * _projected_residual_norm(triangle, free):
                break
            theta, triangle = point, new_triangle
        if theta is not self.theta:
            self._move_to(theta, triangle)
            self._report()

    def is_stuck(self) -> bool:
        """Whether the residuals still have a component along a column of J. This happens at the edge of a domain."""
        if self._residual_norm**2 <= SETTINGS.rounding_variation * self._objective.target_variation():
            return False  # only rounding errors are left, and they may have any direction
        is_free = self._bounds.free_mask(self.theta, self._gradient)
        return bool(
            (np.abs(self._gradient) > SETTINGS.orthogonality_tolerance * self._column_norms * self._residual_norm)[
                is_free
            ].any()
        )

    def is_at_domain_edge(self) -> bool:
        """Whether the residuals are undefined at the neighbouring point in the direction of descent."""
        step = -np.linalg.lstsq(self.triangle[:, :-1], self.triangle[:, -1], rcond=DEPENDENCE_TOLERANCE)[0]
        probe = SETTINGS.probe_step * np.maximum(np.abs(self.theta), np.abs(self._start))
        share = min(1.0, norm(self._column_norms * probe) / (norm(self._column_norms * step) or 1.0))
        return not _is_usable_triangle(self._objective.triangle(self._bounds.clip(self.theta + share * step)))

    def snap_to_zero(self) -> bool:
        """Set parameters to 0 that every step halves, and return whether there are any.

        The model is even in such a parameter, as in `a` of `a^2`, and 0 is its best value.
        """
        snapped = snap_to_zero(self.theta, self._start, self._bounds)
        if snapped is None:
            return False
        point, is_small = snapped
        triangle = self._objective.triangle(point)
        if (
            not _is_usable_triangle(triangle)
            or _jacobian_column_norms(triangle)[is_small].any()
            or norm(triangle[:, -1]) > self._residual_norm * (1 + ZERO_LOSS_TOLERANCE)
        ):
            return False
        self._move_to(point, triangle)
        self._report()
        return True

    def find_kink(self, max_evaluations: int) -> list[int] | None:
        """Find a minimum at kinks of the loss: no single parameter can move without a rise, and the others are optimal.

        Steps along one side of a kink end where they cross it. So the parameter that causes the kink is fixed while the
        others
        continue; if one of its sides is lower then, all parameters continue from there.

        Returns:
            The parameters that are at a kink; None if no such point is found.
        """
        for _ in range(SETTINGS.max_kink_rounds):
            kinks = self._fix_kinked(max_evaluations)
            if kinks is None:
                return None
            lower = self._lower_neighbour(kinks)
            if lower is None:
                return kinks
            continued = _LevenbergMarquardt(self._objective, lower, ignore_epoch, self._bounds, self._tolerance)
            continued.run(max_evaluations)
            self._adopt(continued)
            if not self.is_stuck():
                return []
        return None

    def _fix_kinked(self, max_evaluations: int) -> list[int] | None:
        """Fix the parameter whose fixing lets the others get furthest, then a second one, until the rest converges.

        Returns:
            The fixed parameters; None if the rest does not converge.
        """
        kinks: list[int] = []
        bounds = self._bounds
        while len(kinks) < min(SETTINGS.max_kinks, len(self.theta) - 1):
            best: tuple[_LevenbergMarquardt, int] | None = None
            for index in np.flatnonzero(bounds.low < bounds.high).tolist():
                box = bounds.with_fixed(index, float(self.theta[index]))
                trial = _LevenbergMarquardt(self._objective, self.theta, ignore_epoch, box, self._tolerance)
                trial.run(max_evaluations)
                if best is None or (trial.is_stuck(), trial._residual_norm) < (
                    best[0].is_stuck(),
                    best[0]._residual_norm,
                ):
                    best = trial, index
            if best is None:
                break
            self._adopt(best[0])
            kinks.append(best[1])
            if not best[0].is_stuck():
                return kinks
            bounds = bounds.with_fixed(best[1], float(self.theta[best[1]]))
        return None

    def _lower_neighbour(self, kinks: list[int]) -> Array | None:
        """A lower point close by, with one of the given parameters moved; None if there is none."""
        for index in kinks:
            for step in (SETTINGS.kink_probe, -SETTINGS.kink_probe):
                point = self.theta.copy()
                point[index] += step * (abs(point[index]) or 1.0)
                triangle = self._objective.triangle(point)
                if (
                    self._bounds.contains(point)
                    and _is_usable_triangle(triangle)
                    and norm(triangle[:, -1]) < self._residual_norm
                ):
                    return point
        return None

    def _adopt(self, other: _LevenbergMarquardt) -> None:
        """Move to the point that another run of the method reached, if it is lower."""
        self.evaluations += other.evaluations
        if other._residual_norm < self._residual_norm:
            self._move_to(other.theta, other.triangle)
            self._report()

    def _report(self) -> None:
        self.epoch += 1
        loss = self._objective.mean_square(self._residual_norm**2)
        self._on_epoch(Epoch(self.epoch, loss, self.theta.copy()))


def _gauss_newton_point(theta: Array, triangle: Array, free: NDArray[np.bool_]) -> Array | None:
    """The point at which linearised residuals are least over the free parameters; None if it is not unique."""
    size = len(theta)
    scale = _jacobian_column_norms(triangle)[free]
    if not len(scale) or not scale.all():
        return None
    factor = triangle[:size, :size][:, free] / scale
    step, _, rank, _ = np.linalg.lstsq(factor, triangle[:size, size], rcond=DEPENDENCE_TOLERANCE)
    if rank < len(scale):
        return None
    point = theta.copy()
    point[free] -= step / scale
    return point


def _half_gradient(triangle: Array) -> Array:
    """Half of the gradient of the sum of squares."""
    slopes: Array = triangle[:, :-1].T @ triangle[:, -1]
    return slopes


def _jacobian_column_norms(triangle: Array) -> Array:
    """The norms of the columns of J."""
    lengths: Array = np.sqrt(np.square(triangle[:, :-1]).sum(axis=0))
    return lengths


def _projected_residual_norm(triangle: Array, free: NDArray[np.bool_]) -> float:
    """The norm of the residuals projected onto the space of the free columns of J."""
    if free.all():
        return norm(triangle[:-1, -1])
    basis, _ = np.linalg.qr(triangle[:, :-1][:, free])
    return norm(basis.T @ triangle[:, -1])


def _is_usable_triangle(triangle: Array) -> bool:
    """Whether all entries are finite and their squares do not overflow."""
    return bool((np.abs(triangle) < SETTINGS.max_usable).all())  # False for nan
