"""The trust regions of the Levenberg-Marquardt method, and the best steps within them, for many fits at once.

Moré 1978, "The Levenberg-Marquardt algorithm: implementation and theory", sections 3 to 6. Every array has the fits as
its first axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from autodiff_cli.array_types import Array, Mask
from autodiff_cli.training.objective.batch import Fits
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


class TrustRegions:
    """An ellipsoid around the current point of each fit, with axes along the parameters, where the linear model is
    trusted.

    Args:
        scale: the norm of each column of J, of shape (fits, P); it makes parameters of different units comparable.
        start: the starting points, of shape (fits, P).

    Attributes:
        predicted_reduction: the relative reduction of the sum of squares that the model predicts for the last steps.
    """

    def __init__(self, scale: Array, start: Array) -> None:
        self._scale = scale
        sizes = norms(scale * start)
        self._radius = SETTINGS.initial_radius_factor * np.where((sizes > 0) | np.isnan(sizes), sizes, 1.0)
        count = len(start)
        self._damping, self._step_length = np.zeros(count), np.zeros(count)
        self._slope, self.predicted_reduction = np.zeros(count), np.zeros(count)

    def widen_scale(self, fits: Fits, lengths: Array) -> None:
        """Update the scales with the norms of the columns of J at new points. Scales never decrease."""
        self._scale[fits] = np.maximum(self._scale[fits], lengths)

    def is_narrow(self, fits: Fits, theta: Array, tolerance: float) -> Mask:
        """Whether steps have become negligible relative to the parameters."""
        narrow: Mask = self._radius[fits] <= tolerance * norms(self._scale[fits] * theta)
        return narrow

    def steps(self, fits: Fits, triangles: Array, box: Bounds, slopes: Array) -> Array:
        """Return the steps within the regions and the bounds that minimise the linear models.

        Parameters that would leave the box are placed on its edge, and the step of the others is computed again.

        Args:
            triangles: the triangular factors of [J | r].
            box: the bounds of the steps.
            slopes: the gradients of the sums of squares; a parameter at a bound beyond which the sum decreases does not
                move.
        """
        jacobian, residuals = triangles[:, :, :-1], triangles[:, :, -1]
        steps = np.zeros(slopes.shape)
        moving = box.free_mask(steps, slopes)
        low, high = box.low, box.high
        pending = np.flatnonzero(moving.any(axis=1))
        while len(pending):
            remaining = residuals[pending] + _apply(jacobian[pending], steps[pending])
            inner = steps[pending]
            for some, columns in distinct_masks(moving[pending]):
                parts = pending[some]
                inner[some[:, None], columns] = self._constrained_steps(
                    fits[parts], jacobian[parts][:, :, columns], remaining[some], columns
                )
            clipped = np.clip(inner, low[pending], high[pending])
            outside = moving[pending] & (clipped != inner)
            is_inside = ~outside.any(axis=1)
            steps[pending] = np.where(outside | is_inside[:, None], clipped, steps[pending])
            moving[pending] &= ~outside
            pending = pending[~is_inside & moving[pending].any(axis=1)]
        self._predict(fits, steps, _apply(jacobian, steps), residuals)
        return steps

    def _predict(self, fits: Fits, steps: Array, change: Array, residuals: Array) -> None:
        """Store what the linear models predict for steps, relative to the sums of squares."""
        sizes = norms(residuals)[:, None]
        sizes[sizes == 0] = 1.0
        change, residuals = change / sizes, residuals / sizes
        self._step_length[fits] = norms(self._scale[fits] * steps)
        self._slope[fits] = np.sum(change * residuals, axis=1)
        self.predicted_reduction[fits] = -2 * self._slope[fits] - np.sum(np.square(change), axis=1)

    def update(self, fits: Fits, actual: Array, is_first: Mask) -> Array:
        """Grow or shrink regions according to the results of the last steps.

        Args:
            actual: the relative reductions of the sums of squares; -1 for unusable points.
            is_first: for which fits no step was accepted yet, so that the radius is only a guess.

        Returns:
            The ratios of actual to predicted reduction.
        """
        radius, damping, length = self._radius[fits], self._damping[fits], self._step_length[fits]
        slope, predicted = self._slope[fits], self.predicted_reduction[fits]
        radius = np.where(is_first, np.minimum(radius, length), radius)
        ratio = np.where(predicted > 0, actual / predicted, 0.0)
        is_poor = ratio <= SETTINGS.poor_ratio
        factor = np.where(actual < 0, np.fmax(0.1, 0.5 * slope / (slope + 0.5 * actual)), 0.5)
        factor[actual == -1] = 0.1
        is_good = ~is_poor & ((damping == 0) | (ratio >= SETTINGS.good_ratio))
        self._radius[fits] = np.where(
            is_poor, factor * np.minimum(radius, 10 * length), np.where(is_good, 2 * length, radius)
        )
        self._damping[fits] = np.where(is_poor, damping / factor, np.where(is_good, 0.5 * damping, damping))
        return ratio

    def _constrained_steps(self, fits: Fits, jacobian: Array, residuals: Array, columns: Fits) -> Array:
        """Return the steps of some parameters within the regions, ignoring bounds, and store their damping λ.

        λ in `(JᵀJ + λD²)·step = -Jᵀr` makes the step as long as the radius; it is 0 if the undamped step is shorter.
        """
        scale = self._scale[fits[:, None], columns]
        left, sizes, right = np.linalg.svd(jacobian / scale[:, None, :], full_matrices=False)
        usable = sizes > SETTINGS.zero_singular_value
        along = np.where(usable, _apply(left.swapaxes(1, 2), residuals), 0.0)
        sizes = np.where(usable, sizes, 1.0)
        damping = self._damping[fits] = self._find_damping(along, sizes, self._radius[fits], self._damping[fits])
        components = sizes * along / (np.square(sizes) + damping[:, None])
        steps: Array = -_apply(right.swapaxes(1, 2), components) / scale
        return steps

    @staticmethod
    def _find_damping(along: Array, sizes: Array, radius: Array, guess: Array) -> Array:
        """Return the damping for which each step has the length of the radius, by Newton's method with safeguards."""
        damping = np.zeros(len(along))
        longest = norms(along / sizes)
        open_ = (~(longest <= (1 + SETTINGS.radius_tolerance) * radius)).nonzero()[0]
        if not len(open_):
            return damping
        along, sizes, radius, longest = along[open_], sizes[open_], radius[open_], longest[open_]
        # φ(λ) = length - radius is convex and decreasing: Newton steps from the left never pass its root.
        steep = np.sum(np.square(along / sizes / longest[:, None] / sizes), axis=1)  # -φ'/φ; no square underflows
        low, high = (1 - radius / longest) / steep, norms(sizes * along) / radius
        found = np.minimum(np.maximum(guess[open_], low), high)
        searching = np.arange(len(open_))
        for _ in range(SETTINGS.max_damping_steps):
            squared = np.square(sizes[searching]) + found[searching, None]
            parts = sizes[searching] * along[searching] / squared
            now, wanted = norms(parts), radius[searching]
            is_off = np.abs(now - wanted) > SETTINGS.radius_tolerance * wanted
            searching, squared, parts = searching[is_off], squared[is_off], parts[is_off]
            now, wanted = now[is_off], wanted[is_off]
            if not len(searching):
                break
            is_long = now > wanted
            low[searching] = np.where(is_long, found[searching], low[searching])
            high[searching] = np.where(is_long, high[searching], found[searching])
            steep = np.sum(np.square(parts / now[:, None]) / squared, axis=1)
            newton = found[searching] + (now - wanted) / wanted / steep
            found[searching] = np.minimum(np.maximum(newton, low[searching]), high[searching])
        damping[open_] = found
        return damping


def distinct_masks(masks: Mask) -> Iterator[tuple[Fits, Fits]]:
    """Yield the rows of a matrix that have one mask, and the columns where this mask is true.

    >>> [(rows.tolist(), columns.tolist()) for rows, columns in distinct_masks(np.array([[1, 1], [0, 1], [1, 1]]) > 0)]
    [([1], [1]), ([0, 2], [0, 1])]
    """
    if (masks == masks[:1]).all():
        if len(masks):
            yield np.arange(len(masks)), masks[0].nonzero()[0]
        return
    distinct, numbers = np.unique(masks, axis=0, return_inverse=True)
    for number, mask in enumerate(distinct):
        yield (numbers.ravel() == number).nonzero()[0], mask.nonzero()[0]


def _apply(matrices: Array, vectors: Array) -> Array:
    """Return the product of each matrix with its vector."""
    products: Array = (matrices @ vectors[:, :, None])[:, :, 0]
    return products


def norms(vectors: Array) -> Array:
    """Return the Euclidean norm of each row, also where its square would underflow."""
    squares = np.einsum("ij,ij->i", vectors, vectors)
    lengths: Array = np.sqrt(squares)
    is_tiny = squares <= SETTINGS.min_safe_square
    if is_tiny.any():
        (tiny,) = is_tiny.nonzero()
        largest = np.abs(vectors[tiny]).max(axis=1, initial=0.0)
        unit = np.where(largest > 0, largest, 1.0)
        lengths[tiny] = largest * np.sqrt(np.sum(np.square(vectors[tiny] / unit[:, None]), axis=1))
    return lengths
