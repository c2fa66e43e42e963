"""Errors of the inputs, carried through the gradient to the value.

To first order, and for inputs whose errors are independent: the variance of the value is Σ (slope·σ)².
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple


class Uncertainty(NamedTuple):
    """The standard error of a value, and the share of its variance that each uncertain input has (they sum to 1)."""

    value: float
    shares: dict[str, float]


def propagated(gradient: Mapping[str, Any], deviations: Mapping[str, Any]) -> Uncertainty:
    """The uncertainty of a value.

    Args:
        gradient: the slope towards every uncertain input; an array for an array.
        deviations: the standard error of every uncertain input; of an array one for all elements, or one for each.

    >>> found = propagated({"x": 3.0, "y": 2.0}, {"x": 0.25, "y": 0.5})
    >>> found.value
    1.25
    >>> round(found.shares["x"], 3)
    0.36
    """
    errors = {name: _length(gradient[name], deviation) for name, deviation in deviations.items()}
    total = math.hypot(*errors.values())
    if total == 0:
        return Uncertainty(0.0, dict.fromkeys(errors, 0.0))
    return Uncertainty(total, {name: (error / total) ** 2 for name, error in errors.items()})


def _length(slope: Any, deviation: Any) -> float:
    """|slope·σ|; an input without error contributes none, whatever its slope."""
    if isinstance(slope, float) and isinstance(deviation, float):
        return abs(slope * deviation) if deviation else 0.0
    import numpy as np

    return float(np.linalg.norm(np.where(np.equal(deviation, 0), 0, slope * deviation)))
