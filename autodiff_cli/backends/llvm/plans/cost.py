"""What a kernel's work costs, roughly: enough to tell a microsecond from a second, until it has been measured."""

from __future__ import annotations

import math

from autodiff_cli.backends.llvm.plans.items import Called, Each, MatrixProduct, Plan, Stage

# Nanoseconds: a vector of numbers through one instruction; through one operation, functions among them; one number
# through a function of NumPy's arrays.
_INSTRUCTION, _OPERATION, _CALLED = 0.25, 2.0, 150.0


def seconds_per_row(plan: Plan, width: int) -> float:
    """The time that a row takes on one thread, about.

    Args:
        width: how many rows a vector has.
    """
    total = 0.0
    for item in plan.items:
        if item.level is not Stage.ROW:
            continue
        match item:
            case MatrixProduct():
                total += item.size * item.inner * _INSTRUCTION / width
            case Called():
                total += item.size * _CALLED
            case Each():
                total += math.prod(item.shape) * _OPERATION / width
            case _:
                total += item.size * _INSTRUCTION / width
    return total * 1e-9
