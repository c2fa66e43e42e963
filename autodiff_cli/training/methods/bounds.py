"""Bounds of parameters, as the methods see them: a box in the space of `theta`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest value of each number, infinite where there is none.

    Attributes:
        low, high: of shape (P,).

    >>> box = Bounds(np.array([0.0, -np.inf]), np.array([1.0, np.inf]))
    >>> box.clipped(np.array([2.0, 5.0]))
    array([1., 5.])
    """

    low: Array
    high: Array

    @classmethod
    def none(cls, count: int) -> Bounds:
        """No bounds.

        >>> Bounds.none(2).contain(np.array([1e300, -1e300]))
        True
        """
        return cls(np.full(count, -np.inf), np.full(count, np.inf))

    def clipped(self, theta: Array) -> Array:
        """The nearest point between the bounds."""
        return np.clip(theta, self.low, self.high)

    def contain(self, theta: Array) -> bool:
        """Whether a point lies between the bounds."""
        return bool((theta >= self.low).all() and (theta <= self.high).all())

    def around(self, theta: Array) -> Bounds:
        """The bounds of steps from a point."""
        return Bounds(self.low - theta, self.high - theta)

    def free(self, theta: Array, slopes: Array) -> NDArray[np.bool_]:
        """Which numbers may move down the slope: not those at a bound beyond which the loss falls.

        Args:
            slopes: the derivatives of the loss.
        """
        held: NDArray[np.bool_] = ((theta <= self.low) & (slopes > 0)) | ((theta >= self.high) & (slopes < 0))
        return ~held
