"""Newton's method with exact second derivatives: the last steps to a minimum, and the proof that it is one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.training.methods.descent import Position

Array = NDArray[np.float64]

_STEPS = 100
_HALVINGS = 40
_NOTHING = 1e-13  # beside the largest curvature, parameters scaled: none at all
_LITTLE = 1e-10  # the decrease still to be had, beside the loss or what it has fallen: nothing more to gain
_NEAR = 1e-9  # a step relative to the parameters that is as good as none
_FALLING = 0.5  # of the scaled gradient: what a step leaves, at most, while it gets nearer


class Curvatures(NamedTuple):
    """What the second derivatives say of a point.

    Attributes:
        step: to the minimum of the parabola, with curvatures taken for positive.
        gain: how much lower that is.
        is_sloped: whether the loss falls along what has no curvature, where no step says how far.
        is_bowl: whether no curvature is negative.
        slope: the length of the gradient, parameters scaled by the curvatures.
        downhill: along the most negative curvature, either way; None for a bowl.
    """

    step: Array
    gain: float
    is_sloped: bool
    is_bowl: bool
    slope: float
    downhill: Array | None


def is_minimum(position: Position, verdict: Curvatures) -> bool:
    """Whether there is nothing more to gain at a point, in any unit of the parameters and of the loss."""
    is_near = bool((np.abs(verdict.step) <= _NEAR * np.abs(position.theta)).all())
    is_near = is_near and not verdict.is_sloped
    return verdict.is_bowl and (verdict.gain <= _LITTLE * position.measure or is_near)


def judged(position: Position) -> Curvatures:
    """Look at the second derivatives where a method stands."""
    free = position.free
    count = len(free)
    step, downhill = np.zeros(count), None
    hessian = position.function.curvature(position.theta)[np.ix_(free, free)]
    gradient = position.gradient[free]
    if not free.any():
        return Curvatures(step, 0.0, False, True, 0.0, None)
    if not np.isfinite(hessian).all():
        return Curvatures(step, np.inf, True, False, np.inf, None)
    diagonal = np.sqrt(np.abs(np.diag(hessian)))
    scale = np.where(diagonal > 0, diagonal, 1.0)
    curvatures, directions = np.linalg.eigh(hessian / np.outer(scale, scale))
    along = directions.T @ (gradient / scale)
    least = _NOTHING * len(scale) * max(float(np.abs(curvatures).max()), 0.0)
    sizes = np.abs(curvatures)
    curved = sizes > least
    moves = np.where(curved, -along / np.where(curved, sizes, 1.0), 0.0)
    # Along what is flat there is no step, only a slope, which is none if it is what rounding leaves.
    flat = float(np.sum(np.abs(along[~curved])))
    gain = float(np.sum(np.square(along[curved]) / sizes[curved])) / 2
    is_sloped = flat > np.sqrt(least) * float(np.abs(along).max(initial=0.0))
    gain += flat if is_sloped else 0.0
    step[free] = directions @ moves / scale
    is_bowl = not bool((curvatures < -np.sqrt(_NOTHING)).any())
    if not is_bowl:
        downhill = np.zeros(count)
        downhill[free] = directions[:, 0] / scale
    return Curvatures(step, gain, is_sloped, is_bowl, float(np.linalg.norm(along)), downhill)


def finish(position: Position) -> Curvatures:
    """Take Newton steps as long as they get nearer, and judge where they end.

    The loss tells neighbours of a minimum apart to half of the digits only; so near it the gradient is the measure.

    Raises:
        Endless, Stop: see `Position`.
    """
    verdict = judged(position)
    for _ in range(_STEPS):
        if verdict.slope == 0 and verdict.is_bowl:
            break
        if not _moved(position, verdict):
            break
        following = judged(position)
        if is_minimum(position, following) and following.slope > _FALLING * verdict.slope:
            return following
        verdict = following
    return verdict


def _moved(position: Position, verdict: Curvatures) -> bool:
    """Take a step. Returns whether it leads anywhere."""
    if is_minimum(position, verdict):
        return _polished(position, verdict)
    if verdict.downhill is not None and verdict.gain <= _LITTLE * max(abs(position.loss), 1e-300):
        return _left(position, verdict.downhill)
    return position.along(verdict.step)


def _polished(position: Position, verdict: Curvatures) -> bool:
    """Take the whole step, if the gradient is smaller there and the loss, to rounding, no larger."""
    theta = position.bounds.clipped(position.theta + verdict.step)
    loss, gradient = position.function.value_and_grad(theta)
    if not np.isfinite(loss) or loss > position.loss + 1e-12 * abs(position.loss) + verdict.gain:
        return False
    before, after = (np.abs(g[position.free]) for g in (position.gradient, gradient))
    if not np.isfinite(after).all() or float(np.sum(after)) > _FALLING * float(np.sum(before)):
        return False
    position.go(theta, loss, gradient)
    return True


def _left(position: Position, downhill: Array) -> bool:
    """Leave a saddle along its downhill side, as far as the loss falls."""
    for sign in (1.0, -1.0):
        length = 1.0
        for _ in range(_HALVINGS):
            theta = position.bounds.clipped(position.theta + sign * length * downhill)
            loss, gradient = position.function.value_and_grad(theta)
            if np.isfinite(loss) and np.isfinite(gradient).all() and loss < position.loss:
                position.go(theta, loss, gradient)
                return True
            length /= 4
    return False
