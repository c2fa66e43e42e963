"""The trust region of the Levenberg-Marquardt method, and the best step within it.

Moré 1978, "The Levenberg-Marquardt algorithm: implementation and theory", sections 3 to 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autodiff_cli.array_types import Array
from autodiff_cli.training.objective.parameters import Bounds


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


SETTINGS = TrustRegionSettings()


class TrustRegion:
    """An ellipsoid around the current point, with axes along the parameters, where the linear model is trusted.

    Args:
        scale: the norm of each column of J, of shape (P,); it makes parameters of different units comparable.
        start: the starting point, of shape (P,).

    Attributes:
        predicted_reduction: the relative reduction of the sum of squares that the model predicts for the last step.
    """

    def __init__(self, scale: Array, start: Array) -> None:
        self._scale = scale
        self._radius = SETTINGS.initial_radius_factor * (norm(scale * start) or 1.0)
        self._damping = 0.0
        self._step_length = self._slope = self.predicted_reduction = 0.0  # of the last step

    def widen_scale(self, lengths: Array) -> None:
        """Update the scales with the norms of the columns of J at a new point. Scales never decrease."""
        self._scale = np.maximum(self._scale, lengths)

    def is_narrow(self, theta: Array, tolerance: float) -> bool:
        """Whether steps have become negligible relative to the parameters."""
        return self._radius <= tolerance * norm(self._scale * theta)

    def step(self, triangle: Array, box: Bounds, slopes: Array) -> Array:
        """Return the step within the region and the bounds that minimises the linear model.

        Parameters that would leave the box are placed on its edge, and the step of the others is computed again.

        Args:
            triangle: the triangular factor of [J | r].
            box: the bounds of the step.
            slopes: the gradient of the sum of squares; a parameter at a bound beyond which it decreases does not move.
        """
        jacobian, residuals = triangle[:, :-1], triangle[:, -1]
        step = np.zeros(len(self._scale))
        moving = box.free_mask(step, slopes)
        while moving.any():
            inner, self._damping = self._constrained_step(
                jacobian[:, moving], residuals + jacobian @ step, self._scale[moving]
            )
            outside = (inner < box.low[moving]) | (inner > box.high[moving])
            if not outside.any():
                step[moving] = inner
                break
            pinned = np.flatnonzero(moving)[outside]
            step[pinned] = np.clip(inner, box.low[moving], box.high[moving])[outside]
            moving[pinned] = False
        self._predict(step, jacobian @ step, residuals)
        return step

    def _predict(self, step: Array, change: Array, residuals: Array) -> None:
        """Store what the linear model predicts for a step, relative to the sum of squares."""
        size = norm(residuals) or 1.0
        change, residuals = change / size, residuals / size
        self._step_length = norm(self._scale * step)
        self._slope = float(change @ residuals)
        self.predicted_reduction = -2 * self._slope - float(change @ change)

    def update(self, actual: float, *, is_first: bool) -> float:
        """Grow or shrink the region according to the result of the last step.

        Args:
            actual: the relative reduction of the sum of squares; -1 for an unusable point.
            is_first: whether no step was accepted yet, so that the radius is only a guess.

        Returns:
            The ratio of actual to predicted reduction.
        """
        if is_first:
            self._radius = min(self._radius, self._step_length)
        ratio = actual / self.predicted_reduction if self.predicted_reduction > 0 else 0.0
        if ratio <= SETTINGS.poor_ratio:
            factor = 0.5
            if actual < 0:
                factor = 0.1 if actual == -1 else max(0.1, 0.5 * self._slope / (self._slope + 0.5 * actual))
            self._radius = factor * min(self._radius, 10 * self._step_length)
            self._damping /= factor
        elif self._damping == 0 or ratio >= SETTINGS.good_ratio:
            self._radius = 2 * self._step_length
            self._damping *= 0.5
        return ratio

    def _constrained_step(self, jacobian: Array, residuals: Array, scale: Array) -> tuple[Array, float]:
        """Return the step within the region, ignoring bounds, and its damping λ.

        λ in `(JᵀJ + λD²)·step = -Jᵀr` makes the step as long as the radius; it is 0 if the undamped step is shorter.
        """
        left, sizes, right = np.linalg.svd(jacobian / scale, full_matrices=False)
        along = left.T @ residuals
        usable = sizes > SETTINGS.zero_singular_value
        along, sizes, right = along[usable], sizes[usable], right[usable]
        damping = self._find_damping(along, sizes)
        return -(right.T @ (sizes * along / (np.square(sizes) + damping))) / scale, damping

    def _find_damping(self, along: Array, sizes: Array) -> float:
        """Return the damping for which the step has the length of the radius, by Newton's method with safeguards."""

        def length(damping: float) -> float:
            return norm(sizes * along / (np.square(sizes) + damping))

        radius = self._radius
        longest = length(0.0)
        if longest <= (1 + SETTINGS.radius_tolerance) * radius:
            return 0.0
        # φ(λ) = length - radius is convex and decreasing: Newton steps from the left never pass its root.
        steep = float(np.sum(np.square(along / sizes / longest / sizes)))  # -φ'/φ; no square underflows
        low, high = (1 - radius / longest) / steep, norm(sizes * along) / radius
        damping = min(max(self._damping, low), high)
        for _ in range(SETTINGS.max_damping_steps):
            now = length(damping)
            if abs(now - radius) <= SETTINGS.radius_tolerance * radius:
                break
            low, high = (damping, high) if now > radius else (low, damping)
            squared = np.square(sizes) + damping
            steep = float(np.sum(np.square(sizes * along / squared / now) / squared))
            damping = min(max(damping + (now - radius) / radius / steep, low), high)
        return damping


def norm(vector: Array) -> float:
    """Return the Euclidean norm, also if its square would underflow."""
    square = float(vector @ vector)
    if square > SETTINGS.min_safe_square or math.isnan(square):
        return math.sqrt(square)
    largest = float(np.abs(vector).max(initial=0.0))
    return largest * math.sqrt(float(np.sum(np.square(vector / largest)))) if largest else 0.0
