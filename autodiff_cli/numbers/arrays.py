"""NumPy arrays of floats: whole columns, element by element, by the rules of IEEE 754.

Evaluate inside `quiet()`: NumPy would otherwise print a warning wherever a nan or an infinity comes up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.activation_arrays import ACTIVATIONS
from autodiff_cli.numbers.elementary_arrays import ELEMENTARY
from autodiff_cli.numbers.floats import read
from autodiff_cli.numbers.kind import Kind
from autodiff_cli.numbers.special_arrays import SPECIAL
from autodiff_cli.numbers.structures import STRUCTURES

Array = NDArray[np.float64]


def quiet() -> np.errstate:
    """A context in which NumPy does not warn about what IEEE arithmetic defines."""
    return np.errstate(all="ignore")


def _truth(compare: Callable[..., Any]) -> Callable[..., Array]:
    # Floats, not booleans: `True + True` is `True` in NumPy, and rules count ties.
    return lambda *xs: np.asarray(compare(*xs), dtype=np.float64)


def _extreme(pick: np.ufunc) -> Callable[..., Array]:
    def extreme(first: Array, *rest: Array) -> Array:
        for x in rest:
            first = pick(first, x)
        return first

    return extreme


def _read(text: str) -> Any:
    return np.float64(read(text))


# fmt: off
ARRAYS: Kind[Any] = Kind("arrays", {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "quotient_slope": lambda x, y: x / y / y,
    "mod": np.mod,
    "eq": _truth(np.equal), "ne": _truth(np.not_equal), "lt": _truth(np.less),
    "le": _truth(np.less_equal), "gt": _truth(np.greater), "ge": _truth(np.greater_equal),
    "and": _truth(np.logical_and), "or": _truth(np.logical_or), "not": _truth(np.logical_not),
    "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "round": np.round,
    "where": lambda condition, a, b: np.where(condition != 0, a, b),
    "max": _extreme(np.maximum), "min": _extreme(np.minimum),
    "clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "relu": lambda x: np.maximum(x, 0.0), "heaviside": lambda x: np.heaviside(x, 0.5),
    "within": lambda z, slope: np.where(np.isnan(z), np.nan, slope),
    **ELEMENTARY,
    **ACTIVATIONS,
    **SPECIAL,
    **STRUCTURES,
}, _read)
# fmt: on
