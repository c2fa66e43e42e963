"""NumPy arrays of floats: whole columns, element by element, by the rules of IEEE 754.

Evaluate inside `quiet()`: NumPy would otherwise print a warning wherever a nan or an infinity comes up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.activations import ACTIVATIONS
from autodiff_cli.numbers.arrays.elementary import ELEMENTARY
from autodiff_cli.numbers.arrays.special import SPECIAL
from autodiff_cli.numbers.arrays.structures import STRUCTURES
from autodiff_cli.numbers.floats.table import read
from autodiff_cli.numbers.kind import Kind

Array = NDArray[np.float64]


def quiet() -> np.errstate:
    """A context in which NumPy does not warn about what IEEE arithmetic defines."""
    return np.errstate(all="ignore")


# Comparisons and logic as NumPy has them, for whoever can use truth values.
TRUTHS: dict[str, np.ufunc] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
}  # fmt: skip


def _number(compare: np.ufunc) -> Callable[..., Array]:
    # Floats, not booleans: `True + True` is `True` in NumPy, and rules count ties.
    return lambda *xs: np.asarray(compare(*xs), dtype=np.float64)


def _extreme(pick: np.ufunc) -> Callable[..., Array]:
    def extreme(first: Array, *rest: Array) -> Array:
        for x in rest:
            first = pick(x, first)  # of two zeros NumPy picks the second, and floats the first
        return first

    return extreme


def _read(text: str) -> Any:
    return np.float64(read(text))


# fmt: off
ARRAYS: Kind[Any] = Kind("arrays", {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "quotient_slope": lambda x, y: x / y / y,
    "mod": np.mod,
    **{name: _number(truth) for name, truth in TRUTHS.items()},
    "abs": np.abs, "sign": lambda x: np.where(x == 0, x, np.sign(x)),
    "floor": np.floor, "ceil": np.ceil, "round": np.round,
    "where": lambda condition, a, b: np.where(condition != 0, a, b),
    "max": _extreme(np.maximum), "min": _extreme(np.minimum),
    "clip": lambda x, low, high: np.minimum(high, np.maximum(low, x)),
    "relu": lambda x: np.maximum(x, 0.0), "heaviside": lambda x: np.heaviside(x, 0.5),
    "within": lambda z, slope: np.where(np.isnan(z), np.nan, slope),
    **ELEMENTARY,
    **ACTIVATIONS,
    **SPECIAL,
    **STRUCTURES,
}, _read)
# fmt: on
