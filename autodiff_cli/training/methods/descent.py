"""What methods for smooth losses share: where they stand, and how far they go along a direction."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.training.bounds import Bounds
from autodiff_cli.training.methods.loop import Diverged, Epoch, Observer

Array = NDArray[np.float64]

_VANISHING = 1e-3  # of its start: what a parameter that goes to 0 has become, at most
VANISHED = 1e-12  # the relative rise of a loss that is none where it has got there
_SUFFICIENT = 1e-4  # of the decrease that the slope promises: Armijo's condition
_FLATTER = 0.9  # of the slope at the start of a line, at most, at its end: Wolfe's condition
_TRIALS = 60  # of lengths along one line
_ENDLESS = 2.0**50  # times the first length: a loss that still falls there falls for ever
_PROPORTION = 1e3  # of a loss to its fall: beyond it, parts of its fall say nothing of it
_BOTTOMLESS = 1e12  # times the loss at the start, or 1: a loss so far below 0 falls for ever


def vanishing(theta: Array, start: Array, bounds: Bounds) -> tuple[Array, NDArray[np.bool_]] | None:
    """The point with those parameters at 0 that have nearly got there from their starts, as in `a` of `a^2`, and which
    these are; None if there are none, or 0 is out of bounds."""
    small = (theta != 0) & (np.abs(theta) < _VANISHING * np.abs(start))
    moved = np.where(small, 0.0, theta)
    return (moved, small) if small.any() and bounds.contain(moved) else None


class Smooth(Protocol):
    """A function to be made small."""

    def value_and_grad(self, theta: Array) -> tuple[float, Array]:
        """The value and the gradient, nan or infinite where they are not defined."""

    def curvature(self, theta: Array) -> Array:
        """The second derivatives, of shape (P, P)."""


class Endless(Exception):  # noqa: N818 - what it is
    """The loss falls without end along a line."""


class Stop(Exception):  # noqa: N818 - what it is
    """As many epochs have passed as were asked for."""


class Position:
    """Where a method stands between bounds.

    Args:
        observe: is told the start and every step.
        epochs: the most steps; more raise Stop.
        unit: of the loss, where it has one: a fall by more is measured as a fall by so much.

    Attributes:
        theta, loss, gradient: here.
        begun: the loss from which its fall is measured: that at the start, to begin with.
        number: of steps taken.

    Raises:
        Diverged: if the loss or its gradient at the start is not finite.
    """

    def __init__(
        self,
        function: Smooth,
        start: Array,
        observe: Observer,
        epochs: int | None,
        bounds: Bounds,
        unit: float | None = None,
    ) -> None:
        self.function = function
        self._unit = unit
        self.bounds = bounds
        self._observe = observe
        self._epochs = epochs
        self.theta = start
        self.loss, self.gradient = function.value_and_grad(start)
        if not _is_usable(self.loss, self.gradient):
            raise Diverged(0, self.loss)
        self.begun = self.loss
        self.number = 0
        observe(Epoch(0, self.loss, start.copy()))

    @property
    def free(self) -> NDArray[np.bool_]:
        """Which numbers may move down the gradient."""
        return self.bounds.free(self.theta, self.gradient)

    def go(self, theta: Array, loss: float, gradient: Array) -> None:
        """Take a step. Raises Stop if it was the last one, and Endless."""
        if loss < -_BOTTOMLESS * max(abs(self.begun), 1.0):
            raise Endless
        self.theta, self.loss, self.gradient = theta, loss, gradient
        self.number += 1
        self._observe(Epoch(self.number, loss, theta.copy()))
        if self.number == self._epochs:
            raise Stop

    @property
    def measure(self) -> float:
        """What a decrease is little or much of: the loss, or what it has fallen, if that is more."""
        fallen = self.begun - self.loss
        return max(abs(self.loss), fallen if self._unit is None else min(fallen, self._unit))

    def measures_anew(self) -> bool:
        """Measure the fall of the loss from here on, if it began out of all proportion to what it is now.

        Of a loss that began at 1e30 a part of 1e-12 is not little. Returns whether it is so.
        """
        if self._unit is not None or not self.begun - self.loss > _PROPORTION * abs(self.loss):
            return False
        self.begun = self.loss
        return True

    def along(self, direction: Array) -> bool:
        """Go along a direction in which the loss falls, as far as Wolfe's conditions ask, or to the bounds.

        The length is found by bisection and interpolation, which needs no second derivative, and so no smoothness
        (Lewis & Overton 2013, Math. Program. 141). A point where the loss is not defined counts as too far.

        Returns:
            Whether a step was taken.

        Raises:
            Endless: if the loss falls as far as numbers go.
            Stop: see `go`.
        """
        slope = float(self.gradient @ direction)
        if not slope < 0:
            return False
        near, far, length = 0.0, math.inf, 1.0
        reached: tuple[Array, float, Array] | None = None
        for _ in range(_TRIALS):
            theta = self.bounds.clipped(self.theta + length * direction)
            if (theta == self.theta).all():
                break
            loss, gradient = self.function.value_and_grad(theta)
            promised = float(self.gradient @ (theta - self.theta))
            if not _is_usable(loss, gradient) or loss > self.loss + _SUFFICIENT * promised or loss >= self.loss:
                far = length
                length = near + (far - near) * _shrunk(self.loss, slope * length, loss if near == 0 else math.nan)
                continue
            reached = theta, loss, gradient
            is_inside = bool((theta == self.theta + length * direction).all())
            if float(gradient @ direction) >= _FLATTER * slope or not is_inside:
                break
            near = length
            length = 2 * near if math.isinf(far) else (near + far) / 2
            if length > _ENDLESS:
                raise Endless
        if reached is None:
            return False
        self.go(*reached)
        return True


def _shrunk(loss: float, slope: float, beyond: float) -> float:
    """The part of a length at which a parabola through what is known is least, neither too near nor too far."""
    if not math.isfinite(beyond):
        return 0.5
    return min(max(-slope / (2 * (beyond - loss - slope)), 0.1), 0.5)


def _is_usable(loss: float, gradient: Array) -> bool:
    return math.isfinite(loss) and bool(np.isfinite(gradient).all())
