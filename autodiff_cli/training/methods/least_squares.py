"""Levenberg-Marquardt as Moré 1978 describes it (MINPACK's lmder), on a problem of P+1 residuals, and between bounds.

The QR factorization of [J | r] keeps cost, gradient and Gauss-Newton matrix: with R its triangle, the residuals
`R[:, P]` and the Jacobian `R[:, :P]` are, to the method, the whole problem.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.bounds import Bounds
from autodiff_cli.training.methods.descent import VANISHED, vanishing
from autodiff_cli.training.methods.loop import Diverged, Epoch, Observer, Outcome, unheard
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
_NEXT = 1e-6  # of the parameters, or their starts: a step that leads next to them
_CORNERS = 3  # numbers that stand at a corner of the loss, at most
_ROUNDS = 10  # of leaving a corner where one of its sides is lower
_BESIDE = 1e-7  # of a number: how far it is moved to see on which side of a corner the loss falls
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
    has_ended = walk.run(most, epochs)
    if walk.epoch == epochs:
        return Outcome(walk.theta, has_ended and not walk.is_stuck())
    if has_ended and tolerance is None:
        walk.polish()
    if (not has_ended or walk.is_stuck()) and walk.vanish():
        has_ended = walk.run(walk.evaluations + most)
    if not has_ended:
        return Outcome(walk.theta, False, f"no convergence within {walk.evaluations} evaluations")
    if not walk.is_stuck():
        return Outcome(walk.theta, True)
    with quiet():
        if walk.is_at_edge():
            words = "stuck at the edge of the model's domain: the loss falls beyond, but is not defined"
            return Outcome(walk.theta, False, words)
        corners = walk.into_corner(most) if evaluations is None else None
    if corners is None:
        return Outcome(walk.theta, False, "no minimum was found: it ends on a slope that no step leads down from")
    return Outcome(walk.theta, True, note=_of_corners([objective.layout.numbers[place] for place in corners]))


def _of_corners(names: list[str]) -> str:
    if not names:
        return ""
    what = " and ".join(f"`{name}`" for name in names)
    ends = "ends at a corner" if len(names) == 1 else "end at corners"
    return f"{what} {ends} of the loss, as abs, max, relu and where make them; standard errors are those of one side"


class _Walk:
    """Where the method stands.

    Attributes:
        theta: the parameters, and `triangle` there.
        epoch: how many steps were taken.
        evaluations: how many triangles were asked for.
    """

    def __init__(self, objective: Objective, start: Array, observe: Observer, bounds: Bounds, tolerance: float) -> None:
        self._objective = objective
        self._start = start
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

    def run(self, most: int, epochs: int | None = None) -> bool:
        """Take steps while there are any. Returns whether there are no more; else as many were taken, or evaluations
        made, as there may be."""
        while not self.is_flat():
            if self.epoch == epochs or self.evaluations >= most:
                return False
            if not self.step(most):
                break
        return True

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

    def is_at_edge(self) -> bool:
        """Whether the residuals are not defined next to here, in the direction in which they would get less."""
        step = -np.linalg.lstsq(self.triangle[:, :-1], self.triangle[:, -1], rcond=DEPENDENT)[0]
        far = _NEXT * np.maximum(np.abs(self.theta), np.abs(self._start))
        part = min(1.0, norm(self._lengths * far) / (norm(self._lengths * step) or 1.0))
        return not _is_usable(self._objective.triangle(self._bounds.clipped(self.theta + part * step)))

    def vanish(self) -> bool:
        """Put parameters at 0 that steps halve for ever: the model is even in them, as in `a` of `a^2`, and 0 is best.
        Returns whether there are any."""
        near = vanishing(self.theta, self._start, self._bounds)
        if near is None:
            return False
        moved, small = near
        there = self._objective.triangle(moved)
        if not _is_usable(there) or _lengths(there)[small].any() or norm(there[:, -1]) > self._length * (1 + VANISHED):
            return False
        self._stand(moved, there)
        self._tell()
        return True

    def into_corner(self, most: int) -> list[int] | None:
        """Go where no single number can be moved either way without a rise, and the others have their best values: a
        minimum where the loss has corners. Returns which numbers stand at one; None if no such point is found.

        Steps along one side of a corner end where they cross it. So the number that makes it is held, and the others
        go on; if one of its sides is lower then, everything goes on from there.
        """
        for _ in range(_ROUNDS):
            corners = self._held(most)
            if corners is None:
                return None
            lower = self._beside(corners)
            if lower is None:
                return corners
            following = _Walk(self._objective, lower, unheard, self._bounds, self._tolerance)
            following.run(most)
            self._follow(following)
            if not self.is_stuck():
                return []
        return None

    def _held(self, most: int) -> list[int] | None:
        """Let the others go on while one number is held, the one with which that leads farthest; then two."""
        corners: list[int] = []
        bounds = self._bounds
        while len(corners) < min(_CORNERS, len(self.theta) - 1):
            best: tuple[_Walk, int] | None = None
            for place in np.flatnonzero(bounds.low < bounds.high).tolist():
                box = bounds.pinned(place, float(self.theta[place]))
                trial = _Walk(self._objective, self.theta, unheard, box, self._tolerance)
                trial.run(most)
                if best is None or (trial.is_stuck(), trial._length) < (best[0].is_stuck(), best[0]._length):
                    best = trial, place
            if best is None:
                break
            self._follow(best[0])
            corners.append(best[1])
            if not best[0].is_stuck():
                return corners
            bounds = bounds.pinned(best[1], float(self.theta[best[1]]))
        return None

    def _beside(self, corners: list[int]) -> Array | None:
        """A lower point a little beside, with one of some numbers moved; None if there is none."""
        for place in corners:
            for part in (_BESIDE, -_BESIDE):
                moved = self.theta.copy()
                moved[place] += part * (abs(moved[place]) or 1.0)
                there = self._objective.triangle(moved)
                if self._bounds.contain(moved) and _is_usable(there) and norm(there[:, -1]) < self._length:
                    return moved
        return None

    def _follow(self, other: _Walk) -> None:
        """Go where another walk has got to."""
        self.evaluations += other.evaluations
        if other._length < self._length:
            self._stand(other.theta, other.triangle)
            self._tell()

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
