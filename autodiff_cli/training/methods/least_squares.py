"""Levenberg-Marquardt as Moré 1978 describes it (MINPACK's lmder), on a problem of P+1 residuals, and between bounds.

The QR factorization of [J | r] keeps cost, gradient and Gauss-Newton matrix: with R its triangle, the residuals
`R[:, P]` and the Jacobian `R[:, :P]` are, to the method, the whole problem.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.training.bounds import Bounds
from autodiff_cli.training.methods.loop import Diverged, Epoch, Observer, Outcome
from autodiff_cli.training.methods.region import Region, norm
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.result.covariance import DEPENDENT

Array = NDArray[np.float64]

_TOLERANCE = 1e-15  # of cost, parameters and gradient: 1e-8, the usual one, leaves digits in flat valleys
_EVALUATIONS = 1000  # the cap where no number of epochs is given, and 20 more for each parameter
_ACCEPTED = 1e-4  # the least part of the predicted reduction for which a step is taken
_NOISE = 1e-20  # of the target's variation: what rounding leaves of a perfect fit
_FLAT = 1e-3  # cosine of the angle between residuals and a column of J that counts as a right one
_POLISHES = 30
_PROGRESS = 0.9  # of a polishing step: what is left, at most, of the length that it is to take away
_FAR = 1e150  # residuals beyond it count as not finite, since their squares are not


def levenberg_marquardt(
    objective: Objective,
    start: Array,
    observe: Observer,
    epochs: int | None = None,
    evaluations: int | None = None,
    bounds: Bounds | None = None,
    tolerance: float | None = None,
) -> Outcome:
    """Minimise the (weighted) sum of squared residuals.

    Args:
        start: of shape (P,).
        observe: is told the start and every step taken.
        epochs: the most steps; by default there is a cap on evaluations alone.
        evaluations: that cap.
        bounds: between which the parameters stay; the start lies between them.
        tolerance: the relative change of the sum of squares, or of the parameters, that is none; by default as many
            digits as there are.

    Raises:
        Diverged: if the residuals or their derivatives at the start are not finite.
    """
    walk = _Walk(objective, start, observe, bounds or Bounds.none(len(start)), tolerance or _TOLERANCE)
    most = evaluations or _EVALUATIONS + 20 * len(start)
    while not walk.is_flat():
        if walk.epoch == epochs:
            return Outcome(walk.theta, False)
        if walk.evaluations >= most:
            return Outcome(walk.theta, False, f"no convergence within {walk.evaluations} evaluations")
        if not walk.step(most):
            break
    if walk.epoch != epochs and tolerance is None:
        walk.polish()
    if walk.is_stuck():
        words = "stuck at the edge of the model's domain: the loss falls beyond, but is not defined"
        return Outcome(walk.theta, False, words)
    return Outcome(walk.theta, True)


class _Walk:
    """Where the method stands.

    Attributes:
        theta: the parameters, and `triangle` there.
        epoch: how many steps were taken.
        evaluations: how many triangles were asked for.
    """

    def __init__(self, objective: Objective, start: Array, observe: Observer, bounds: Bounds, tolerance: float) -> None:
        self._objective = objective
        self._tolerance = tolerance
        self._observe = observe
        self._bounds = bounds
        self.evaluations = 1
        self.epoch = -1
        begun = objective.triangle(start)
        if not _is_usable(begun):
            raise Diverged(0, objective.value_and_grad(start)[0])
        self._stand(start, begun)
        self._tell()
        self._region = Region(np.where(self._lengths > 0, self._lengths, 1.0), start)

    def _stand(self, theta: Array, triangle: Array) -> None:
        """Take a point, and what is asked of its triangle more than once."""
        self.theta, self.triangle = theta, triangle
        self._slopes, self._lengths = _slopes(triangle), _lengths(triangle)
        self._length = norm(triangle[:, -1])

    def is_flat(self) -> bool:
        """Whether the residuals are at right angles to all columns of J along which the parameters may move."""
        residuals = self._length
        if residuals == 0:
            return True
        lengths, slopes = self._lengths, self._slopes
        moving = self._bounds.free(self.theta, slopes) & (lengths > 0)
        return not moving.any() or bool((np.abs(slopes[moving]) <= _TOLERANCE * lengths[moving] * residuals).all())

    def step(self, most: int) -> bool:
        """Take the next step. Returns whether there may be another."""
        self._region.widen_scale(self._lengths)
        while True:
            step = self._region.step(self.triangle, self._bounds.around(self.theta), self._slopes)
            trial = self._bounds.clipped(self.theta + step)
            there = self._objective.triangle(trial)
            self.evaluations += 1
            ratio = self._region.judge(actual := self._reduction(there), is_first=self.epoch == 0)
            taken = ratio >= _ACCEPTED
            if taken:
                self._stand(trial, there)
                self._tell()
            small = max(abs(actual), self._region.predicted) <= self._tolerance and ratio <= 2
            if small or self._region.is_narrow(self.theta, self._tolerance):
                return False
            if taken or self.evaluations >= most:
                return True

    def _reduction(self, there: Array) -> float:
        """Of the sum of squares, relative to it, at another point; -1 where that is out of the question."""
        if not _is_usable(there):
            return -1.0
        length = norm(there[:, -1])
        return 1 - (length / self._length) ** 2 if 0.1 * length < self._length else -1.0

    def polish(self) -> None:
        """Take a few plain Gauss-Newton steps.

        The method stops where the cost changes no more, which in a flat valley leaves half of the digits. Here the
        measure is what vanishes at the solution: the part of the residuals that the parameters can still take away.
        """
        theta, triangle = self.theta, self.triangle
        for _ in range(_POLISHES):
            free = self._bounds.free(theta, _slopes(triangle))
            moved = _gauss_newton(theta, triangle, free)
            if moved is None or not self._bounds.contain(moved):
                break
            there = self._objective.triangle(moved)
            if not _is_usable(there) or _left(there, free) >= _PROGRESS * _left(triangle, free):
                break
            theta, triangle = moved, there
        if theta is not self.theta:
            self._stand(theta, triangle)
            self._tell()

    def is_stuck(self) -> bool:
        """Whether the residuals still have a part along a column of J: at the edge of a domain, steps end without."""
        if self._length**2 <= _NOISE * self._objective.target_variation():
            return False  # nothing is left but rounding errors, which may have any direction
        moving = self._bounds.free(self.theta, self._slopes)
        return bool((np.abs(self._slopes) > _FLAT * self._lengths * self._length)[moving].any())

    def _tell(self) -> None:
        self.epoch += 1
        loss = self._objective.mean_of_squares(self._length**2)
        self._observe(Epoch(self.epoch, loss, self.theta.copy()))


def _gauss_newton(theta: Array, triangle: Array, free: NDArray[np.bool_]) -> Array | None:
    """The point where the residuals, were they linear in the free parameters, would be least; None if that is no one
    point."""
    count = len(theta)
    scale = _lengths(triangle)[free]
    if not len(scale) or not scale.all():
        return None
    factor = triangle[:count, :count][:, free] / scale
    step, _, rank, _ = np.linalg.lstsq(factor, triangle[:count, count], rcond=DEPENDENT)
    if rank < len(scale):
        return None
    moved = theta.copy()
    moved[free] -= step / scale
    return moved


def _slopes(triangle: Array) -> Array:
    """Half of the derivatives of the sum of squares."""
    slopes: Array = triangle[:, :-1].T @ triangle[:, -1]
    return slopes


def _lengths(triangle: Array) -> Array:
    """The lengths of the columns of J."""
    lengths: Array = np.sqrt(np.square(triangle[:, :-1]).sum(axis=0))
    return lengths


def _left(triangle: Array, free: NDArray[np.bool_]) -> float:
    """The length of the residuals within the space of the free columns of J."""
    if free.all():
        return norm(triangle[:-1, -1])
    basis, _ = np.linalg.qr(triangle[:, :-1][:, free])
    return norm(basis.T @ triangle[:, -1])


def _is_usable(triangle: Array) -> bool:
    return bool((np.abs(triangle) < _FAR).all())  # false where it is nan
