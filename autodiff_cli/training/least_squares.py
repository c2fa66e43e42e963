"""Levenberg-Marquardt, through SciPy, on a problem of P+1 residuals however many rows there are.

The QR factorization of [J | r] keeps cost, gradient and Gauss-Newton matrix: with R its triangle, the residuals
`R[:, P]` and the Jacobian `R[:, :P]` are, to the method (Moré 1978, MINPACK's lmder), the whole problem.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.training.loop import Diverged, Epoch, Observer, Outcome
from autodiff_cli.training.objective import Objective
from autodiff_cli.training.statistics import DEPENDENT

Array = NDArray[np.float64]

_TOLERANCE = 1e-15  # of cost, parameters and gradient; SciPy's default of 1e-8 leaves digits in flat valleys
_EVALUATIONS = 1000  # the cap where no number of epochs is given, and 20 more for each parameter
_NOISE = 1e-20  # of the target's variation: what rounding leaves of a perfect fit
_FLAT = 1e-3  # cosine of the angle between residuals and a column of J that counts as a right one
_POLISHES = 30
_PROGRESS = 0.9  # of a polishing step: what is left, at most, of the length that it is to take away
_FAR = 1e150  # stands for a residual that is not finite; larger ones count as not finite, since their squares are not


class _Enough(Exception):  # noqa: N818 - not an error
    """Stops SciPy after the last epoch that was asked for."""


class _Compressed:
    """The compressed problem, as SciPy calls it: residuals first, then perhaps the Jacobian at the same point."""

    def __init__(self, objective: Objective, observe: Observer, epochs: int | None) -> None:
        self._objective = objective
        self._observe = observe
        self._epochs = epochs
        self._told: bytes | None = None
        self.last = Epoch(-1, np.inf, np.empty(0))

    def residuals(self, theta: Array) -> Array:
        """Of shape (P+1,)."""
        triangle = self._objective.triangle(theta)
        return triangle[:, -1] if _is_usable(triangle) else np.full(len(triangle), _FAR)

    def jacobian(self, theta: Array) -> Array:
        """Of shape (P+1, P). Asked for only where a step was taken: here an epoch ends."""
        self.tell(theta)
        if self.last.number == self._epochs:
            raise _Enough
        return self._objective.triangle(theta)[:, :-1]

    def tell(self, theta: Array) -> None:
        """Report an epoch if it is a new one."""
        if theta.tobytes() == self._told:
            return
        loss = self._objective.mean_of_squares(float(np.sum(np.square(self._objective.triangle(theta)[:, -1]))))
        self._told = theta.tobytes()
        self.last = Epoch(self.last.number + 1, loss, theta.copy())
        self._observe(self.last)


def levenberg_marquardt(
    objective: Objective, start: Array, observe: Observer, epochs: int | None = None, evaluations: int | None = None
) -> Outcome:
    """Minimise the (weighted) sum of squared residuals.

    Args:
        start: of shape (P,).
        observe: is told the start and every step taken.
        epochs: the most steps; by default there is a cap on evaluations alone.
        evaluations: that cap.

    Raises:
        Diverged: if the residuals or their derivatives at the start are not finite.
    """
    from scipy.optimize import least_squares

    problem = _Compressed(objective, observe, epochs)
    triangle = objective.triangle(start)
    if not _is_usable(triangle):
        raise Diverged(0, objective.value_and_grad(start)[0])
    try:
        result = least_squares(
            problem.residuals,
            start,
            jac=problem.jacobian,
            method="lm",
            x_scale="jac",
            ftol=_TOLERANCE,
            xtol=_TOLERANCE,
            gtol=_TOLERANCE,
            max_nfev=evaluations or _EVALUATIONS + 20 * len(start),
        )
    except _Enough:
        return Outcome(problem.last.theta, False)
    if result.status <= 0:
        problem.tell(result.x)
        return Outcome(result.x, False, f"no convergence within {result.nfev} evaluations")
    theta = result.x if problem.last.number == epochs else _polished(objective, result.x)
    problem.tell(theta)
    if _is_stuck(objective, theta):
        return Outcome(
            theta, False, "stuck at the edge of the model's domain: the loss falls beyond, but is not defined"
        )
    return Outcome(theta, True)


def _polished(objective: Objective, theta: Array) -> Array:
    """The point after a few plain Gauss-Newton steps.

    The method above stops where the cost changes no more, which in a flat valley leaves half of the digits. Here the
    measure is what vanishes at the solution: the part of the residuals that the parameters can still take away.
    """
    count = len(theta)
    triangle = objective.triangle(theta)
    for _ in range(_POLISHES):
        scale = np.sqrt(np.sum(np.square(triangle[:, :count]), axis=0))
        if not scale.all():
            break
        step, _, rank, _ = np.linalg.lstsq(triangle[:count, :count] / scale, triangle[:count, count], rcond=DEPENDENT)
        if rank < count:
            break
        moved = theta - step / scale
        there = objective.triangle(moved)
        if not _is_usable(there) or _left(there) >= _PROGRESS * _left(triangle):
            break
        theta, triangle = moved, there
    return theta


def _is_stuck(objective: Objective, theta: Array) -> bool:
    """Whether the residuals still have a part along a column of J: at the edge of a domain, steps end without that."""
    triangle = objective.triangle(theta)
    residuals = float(np.sum(np.square(triangle[:, -1])))
    if residuals <= _NOISE * objective.target_variation():
        return False  # nothing is left but rounding errors, which may have any direction
    slopes = np.abs(triangle[:, :-1].T @ triangle[:, -1])
    lengths = np.sqrt(np.sum(np.square(triangle[:, :-1]), axis=0))
    return bool((slopes > _FLAT * lengths * np.sqrt(residuals)).any())


def _left(triangle: Array) -> float:
    """The length of the residuals within the space of the columns of J."""
    return float(np.linalg.norm(triangle[:-1, -1]))


def _is_usable(triangle: Array) -> bool:
    return bool((np.abs(triangle) < _FAR).all())  # false where it is nan
