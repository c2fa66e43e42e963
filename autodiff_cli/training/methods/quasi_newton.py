"""L-BFGS between bounds, for smooth losses: Liu & Nocedal 1989, with the curvatures of single parameters to begin with,
so that parameters may have any unit, and Newton steps to end with, so that digits are right and ends are minima."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.bounds import Bounds
from autodiff_cli.training.methods.descent import VANISHED, Endless, Position, Smooth, Stop, vanishing
from autodiff_cli.training.methods.loop import Epoch, Observer, Outcome
from autodiff_cli.training.methods.newton import Curvatures, finish, is_minimum
from autodiff_cli.training.objective.losses import LossKind
from autodiff_cli.training.objective.objective import Objective

Array = NDArray[np.float64]

_EPOCHS = 10_000  # the cap where none is given
_MEMORY = 10  # pairs of steps and changes of the gradient
_LITTLE = 1e-12  # the decrease still promised, beside the loss or what it has fallen
_TURNS = 50, 2  # steps, and more for each parameter, after which second derivatives may lead on faster
_RESTARTS = 3  # with nothing remembered, where a line leads nowhere
_RADII = tuple(10.0**-k for k in range(1, 9))  # of rounded corners, beside the mean size of what has them
MATRIX = 500  # numbers, at most, for which all second derivatives are worth their while


def lbfgs(
    function: Smooth,
    start: Array,
    observe: Observer,
    epochs: int | None = None,
    bounds: Bounds | None = None,
    tolerance: float | None = None,
    unit: float | None = None,
) -> Outcome:
    """Minimise a smooth function.

    Args:
        start: of shape (P,), between the bounds.
        observe: is told the start and every step taken.
        epochs: the most steps.
        tolerance: the decrease still promised, beside the loss, that is none; by default so little that second
            derivatives prove a minimum.
        unit: of the function, where it has one: 1 for logarithms of probabilities.

    Raises:
        Diverged: if the loss or its gradient at the start is not finite.
    """
    with quiet():
        limit = _EPOCHS if epochs is None else epochs
        position = Position(function, start, observe, limit, bounds or Bounds.none(len(start)), unit)
        return _minimised(position, epochs, tolerance)


def _minimised(position: Position, epochs: int | None, tolerance: float | None) -> Outcome:
    start = position.theta
    if epochs == 0:
        return Outcome(start, False)
    has_curvatures = len(start) <= MATRIX
    try:
        while True:
            turns = _TURNS[0] + _TURNS[1] * len(start) if has_curvatures and tolerance is None else None
            promised, is_slow = _descend(position, has_curvatures, tolerance or 0.0, turns)
            verdict = finish(position) if has_curvatures and tolerance is None else None
            is_there = verdict is None or is_minimum(position, verdict)
            if not (is_slow and not is_there) and not position.measures_anew():
                break
    except Stop:
        if epochs is None:
            return Outcome(position.theta, False, f"no convergence after {position.number} epochs")
        return Outcome(position.theta, False)
    except Endless:
        return Outcome(position.theta, False, "the loss has no least value: it falls without end", is_endless=True)
    return _concluded(position, start, verdict, promised, tolerance or 0.0)


def lbfgs_with_corners(
    objective: Objective,
    start: Array,
    observe: Observer,
    epochs: int | None = None,
    bounds: Bounds | None = None,
    tolerance: float | None = None,
) -> Outcome:
    """The same for an objective that may have corners: `abs(u)` is rounded, less and less.

    Whether an end is a minimum is judged where the corners are rounded by next to nothing.
    """
    unit = 1.0 if objective.kind is LossKind.LIKELIHOOD else None
    smooth = objective.without_corners() if len(start) <= MATRIX else None
    if smooth is None:
        return lbfgs(objective, start, observe, epochs, bounds, tolerance, unit)
    begun, theta = 0, start
    outcome = Outcome(start, False)

    def told(epoch: Epoch) -> None:
        if epoch.number or not begun:
            observe(Epoch(begun + epoch.number, objective.value(epoch.theta), epoch.theta))
            reached.append(epoch.number)

    for part in _RADII:
        reached = [0]
        left = None if epochs is None else epochs - begun
        outcome = lbfgs(smooth.with_radii(part, theta), theta, told, left, bounds, tolerance, unit)
        begun, theta = begun + reached[-1], outcome.theta
        if outcome.failure or (epochs is not None and begun >= epochs):
            break
    return outcome


def _concluded(
    position: Position, start: Array, verdict: Curvatures | None, promised: float, tolerance: float
) -> Outcome:
    found = promised <= _nothing(position, tolerance) if verdict is None else is_minimum(position, verdict)
    if found:
        return Outcome(_vanished(position, start), True)
    what = "a saddle" if verdict is not None and not verdict.is_bowl else "a slope"
    words = f"no minimum was found: after {position.number} epochs it ends on {what} that no step leads down from"
    return Outcome(position.theta, False, words, is_nowhere=True)


def _vanished(position: Position, start: Array) -> Array:
    """The point with those parameters at 0 that are next to it because the loss is even in them, as in `a` of `a^2`."""
    near = vanishing(position.theta, start, position.bounds)
    if near is None:
        return position.theta
    moved, small = near
    loss, gradient = position.function.value_and_grad(moved)
    is_same = loss <= position.loss + VANISHED * position.measure and not gradient[small].any()
    return moved if is_same else position.theta


def _descend(position: Position, has_curvatures: bool, tolerance: float, turns: int | None) -> tuple[float, bool]:
    """Go down until hardly any decrease is promised any more, which is returned, or for so many steps, and whether
    there were more to take."""
    restarts = 0
    last = math.inf if turns is None else position.number + turns
    while True:
        diagonal = _diagonal(position, has_curvatures)
        pairs: deque[tuple[Array, Array]] = deque(maxlen=_MEMORY)
        while True:
            free = position.free
            direction = _direction(pairs, position.gradient, free, diagonal)
            promised = -float(position.gradient @ direction) / 2
            if promised <= _nothing(position, tolerance) or position.number >= last:
                return promised, position.number >= last
            before = position.theta, position.gradient
            if not position.along(direction):
                break
            pairs.append((position.theta - before[0], position.gradient - before[1]))
            restarts = 0
        restarts += 1
        if restarts > _RESTARTS or not pairs:
            return promised, False


def _nothing(position: Position, tolerance: float) -> float:
    """The decrease that counts as none."""
    return max(tolerance * abs(position.loss), _LITTLE * position.measure)


def _diagonal(position: Position, has_curvatures: bool) -> Array:
    """The size of the curvature along each parameter, or the same for all where it is not known."""
    count = len(position.theta)
    if has_curvatures:
        curvatures = np.abs(np.diag(position.function.curvature(position.theta)))
        known = np.isfinite(curvatures) & (curvatures > 0)
        if known.any():
            return np.where(known, curvatures, np.median(curvatures[known]))
    steepest = float(np.linalg.norm(position.gradient))
    return np.full(count, steepest or 1.0)


def _direction(pairs: deque[tuple[Array, Array]], gradient: Array, free: NDArray[np.bool_], diagonal: Array) -> Array:
    """Minus the inverse Hessian that the pairs stand for times the gradient, over the free numbers: the two loops of
    Nocedal 1980."""
    found = np.where(free, gradient, 0.0)
    used = []
    scale = 1.0
    for step, change in pairs:
        step, change = np.where(free, step, 0.0), np.where(free, change, 0.0)
        inner = float(step @ change)
        square = float(np.sum(np.square(change) / diagonal))
        if inner > 1e-16 * float(np.linalg.norm(step) * np.linalg.norm(change)) and square > 0:
            used.append((step, change, inner))
            scale = inner / square
    parts = []
    for step, change, inner in reversed(used):
        part = float(step @ found) / inner
        found = found - part * change
        parts.append(part)
    found = scale * found / diagonal
    for (step, change, inner), part in zip(used, reversed(parts), strict=True):
        found = found + (part - float(change @ found) / inner) * step
    return np.where(free, -found, 0.0)
