"""The region in which the linear model of the residuals is trusted, and the best step within it.

Moré 1978, "The Levenberg-Marquardt algorithm: implementation and theory", sections 3 to 6.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.training.bounds import Bounds

Array = NDArray[np.float64]

_BEGINNING = 100.0  # times the scaled start: the first radius
_CLOSE = 0.1  # how far, relative to it, the length of a step may be from the radius
_ITERATIONS = 30  # of the damping, which takes about 3
_POOR, _GOOD = 0.25, 0.75  # parts of the predicted reduction
# A direction with a singular value this small does not exist. A small one is no reason to leave a direction out: that
# it asks for a step far beyond the region keeps the other parameters from running ahead.
_NOTHING = 1e-70
_SMALL = 1e-280  # a square that has lost no digits


class Region:
    """An ellipsoid around where the method stands, with the axes along the parameters.

    Args:
        scale: the length of each column of J, which makes parameters of any unit comparable: of shape (P,).
        start: of shape (P,).

    Attributes:
        predicted: by how much the last step should reduce the sum of squares, relative to it.
    """

    def __init__(self, scale: Array, start: Array) -> None:
        self._scale = scale
        self._radius = _BEGINNING * (norm(scale * start) or 1.0)
        self._damping = 0.0
        self._length = self._slope = self.predicted = 0.0  # of the last step

    def widen_scale(self, lengths: Array) -> None:
        """Take note of the lengths of the columns of J at a new point. Scales never shrink."""
        self._scale = np.maximum(self._scale, lengths)

    def is_narrow(self, theta: Array, tolerance: float) -> bool:
        """Whether steps have become too short to matter beside the parameters."""
        return self._radius <= tolerance * norm(self._scale * theta)

    def step(self, triangle: Array, box: Bounds, slopes: Array) -> Array:
        """The step within the region, and between bounds, that makes the linear model of the residuals least.

        Numbers that would leave the box are set on its edge, and the others moved anew.

        Args:
            box: of steps.
            slopes: of the sum of squares; where a number stands at a bound beyond which it falls, it stays.
        """
        jacobian, residuals = triangle[:, :-1], triangle[:, -1]
        step = np.zeros(len(self._scale))
        moving = box.free(step, slopes)
        while moving.any():
            inner, self._damping = self._inner(jacobian[:, moving], residuals + jacobian @ step, self._scale[moving])
            outside = (inner < box.low[moving]) | (inner > box.high[moving])
            if not outside.any():
                step[moving] = inner
                break
            pinned = np.flatnonzero(moving)[outside]
            step[pinned] = np.clip(inner, box.low[moving], box.high[moving])[outside]
            moving[pinned] = False
        self._note(step, jacobian @ step, residuals)
        return step

    def _note(self, step: Array, moved: Array, residuals: Array) -> None:
        """Keep what the linear model says of a step, relative to the sum of squares."""
        size = norm(residuals) or 1.0
        moved, residuals = moved / size, residuals / size
        self._length = norm(self._scale * step)
        self._slope = float(moved @ residuals)
        self.predicted = -2 * self._slope - float(moved @ moved)

    def judge(self, actual: float, *, is_first: bool) -> float:
        """Widen or narrow the region by what the last step has brought.

        Args:
            actual: the reduction of the sum of squares, relative to it; -1 for a point that is out of the question.
            is_first: whether no step was taken yet: the first radius is no more than a guess.

        Returns:
            The actual reduction as a part of the predicted one.
        """
        if is_first:
            self._radius = min(self._radius, self._length)
        ratio = actual / self.predicted if self.predicted > 0 else 0.0
        if ratio <= _POOR:
            factor = 0.5
            if actual < 0:
                factor = 0.1 if actual == -1 else max(0.1, 0.5 * self._slope / (self._slope + 0.5 * actual))
            self._radius = factor * min(self._radius, 10 * self._length)
            self._damping /= factor
        elif self._damping == 0 or ratio >= _GOOD:
            self._radius = 2 * self._length
            self._damping *= 0.5
        return ratio

    def _inner(self, jacobian: Array, residuals: Array, scale: Array) -> tuple[Array, float]:
        """The step within the region alone, and its damping: the λ of `(JᵀJ + λD²)·step = -Jᵀr` that makes it as long
        as the radius, if the step for λ = 0 is longer."""
        left, sizes, right = np.linalg.svd(jacobian / scale, full_matrices=False)
        along = left.T @ residuals
        usable = sizes > _NOTHING
        along, sizes, right = along[usable], sizes[usable], right[usable]
        damping = self._damped(along, sizes)
        return -(right.T @ (sizes * along / (np.square(sizes) + damping))) / scale, damping

    def _damped(self, along: Array, sizes: Array) -> float:
        def length(damping: float) -> float:
            return norm(sizes * along / (np.square(sizes) + damping))

        radius = self._radius
        longest = length(0.0)
        if longest <= (1 + _CLOSE) * radius:
            return 0.0
        # φ(λ) = length - radius is convex and falls: Newton's steps on it from the left never pass its root.
        steep = float(np.sum(np.square(along / sizes / longest / sizes)))  # -φ'/φ: no square of it vanishes
        low, high = (1 - radius / longest) / steep, norm(sizes * along) / radius
        damping = min(max(self._damping, low), high)
        for _ in range(_ITERATIONS):
            now = length(damping)
            if abs(now - radius) <= _CLOSE * radius:
                break
            low, high = (damping, high) if now > radius else (low, damping)
            squared = np.square(sizes) + damping
            steep = float(np.sum(np.square(sizes * along / squared / now) / squared))
            damping = min(max(damping + (now - radius) / radius / steep, low), high)
        return damping


def norm(vector: Array) -> float:
    """The length of a vector, also where its square would vanish."""
    square = float(vector @ vector)
    if square > _SMALL or math.isnan(square):
        return math.sqrt(square)
    largest = float(np.abs(vector).max(initial=0.0))
    return largest * math.sqrt(float(np.sum(np.square(vector / largest)))) if largest else 0.0
