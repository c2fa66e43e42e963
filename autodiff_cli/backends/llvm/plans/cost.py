"""What a kernel's work costs, roughly: enough to tell a microsecond from a second."""

from __future__ import annotations

import math

from autodiff_cli.backends.llvm.functions.vectors import Lane, Vector, VectorCode
from autodiff_cli.backends.llvm.plans.items import Called, Each, MatrixProduct, Plan, Stage

# Nanoseconds, measured: a vector of numbers through one instruction, through a function of the library; one number
# through a function of Python's, or of NumPy's arrays.
_INSTRUCTION, _FUNCTION, _CALLED = 0.25, 5.0, 150.0


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
                total += math.prod(item.shape) * _each(item) / width
            case _:
                total += item.size * _INSTRUCTION / width
    return total * 1e-9


def _each(item: Each) -> float:
    """Of one vector."""
    code = VectorCode()
    vectors = [
        code.vector(given) if isinstance(given, float) else code.make("load", Lane.FLOAT, detail=k)
        for k, given in enumerate(item.inputs)
    ]
    value = item.compute(*vectors)
    assert value is not None
    return _INSTRUCTION + _of(value)


def _of(value: Vector) -> float:
    waiting, seen, total = [value], {value}, 0.0
    while waiting:
        vector = waiting.pop()
        total += (
            _FUNCTION if vector.op in ("call", "frem") else 0.0 if vector.op in ("number", "load") else _INSTRUCTION
        )
        fresh = [each for each in vector.inputs if each not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
    return total
