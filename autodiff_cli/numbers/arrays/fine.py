"""NumPy arrays of the platform's long floats, which on most have eleven bits more than floats, or sixty.

The functions are those of arrays, as far as they work in whatever floats they are given; what is compiled, or has
constants with the digits of a float, is missing here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autodiff_cli.graph.op import Op
from autodiff_cli.numbers.arrays.structures import STRUCTURES
from autodiff_cli.numbers.arrays.table import ARRAYS
from autodiff_cli.numbers.kind import Kind

FINER = float(np.finfo(np.longdouble).eps / np.finfo(np.float64).eps)  # their rounding, as a part of that of floats

_OF_ANY_FLOATS = (
    *("add", "sub", "mul", "div", "neg", "quotient_slope", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not"),
    *("abs", "sign", "floor", "ceil", "round", "where", "max", "min", "clip", "relu", "heaviside", "within"),
    *("pow", "pow_slope_base", "square", "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "times_log"),
    *("sin", "cos", "tan", "sec", "csc", "cot", "asin", "acos", "atan", "acot", "atan2", "arc_slope", "witch"),
    *("sinh", "cosh", "tanh", "sech", "csch", "coth", "sech_square", "csch_square", "asinh", "acosh", "atanh"),
    *("hypot", "direction", "sigmoid", "sigmoid_slope", "silu", "silu_slope", "softplus", "logsigmoid", "softsign"),
    *STRUCTURES,
)
_NAMED = {
    "pi": "3.14159265358979323846264338327950288419717",
    "tau": "6.28318530717958647692528676655900576839434",
    "e": "2.71828182845904523536028747135266249775725",
}


class _Fine(Kind[Any]):
    def function(self, op: Op, count: int) -> Callable[..., Any]:
        """What `op` does. Raises NotImplementedError for one that arrays have a function of their own for, and these
        have not: its expansion may lose digits."""
        if op.name in ARRAYS.table and op.name not in self.table:
            raise NotImplementedError(f"{op.name} is not defined for {self.name}")
        return super().function(op, count)


def _read(text: str) -> Any:
    return np.longdouble(_NAMED.get(text, text))


FINE: Kind[Any] = _Fine("arrays of long floats", {name: ARRAYS.table[name] for name in _OF_ANY_FLOATS}, _read)
