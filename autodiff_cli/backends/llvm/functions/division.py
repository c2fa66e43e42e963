"""Quotients by the same number: one division, then products.

n/d becomes n·(1/d), off by 1.5 units in the last place at most, where a quotient is off by half a unit. For that 1/d
must neither overflow nor lose digits as a denormal number. Where that is not sure, as it is in 1 + exp(-|x|), divisors
are watched: if one of them comes too near the ends of the range, what was computed with it is computed again, all
quotients being divisions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from autodiff_cli.backends.llvm.functions.vectors import Lane, Vector, ordered, rebuilt

Bounds: TypeAlias = tuple[float, float]

FAR, NEAR = 2.0**1000, 2.0**-1000  # between these a divisor is not near the ends

_ALL: Bounds = (-math.inf, math.inf)


class Shared(NamedTuple):
    """Results with one division by each divisor.

    Attributes:
        watched: divisors whose size must be between `NEAR` and `FAR`; nan may be there.
    """

    roots: list[Vector]
    watched: list[Vector]


def with_shared_divisors(roots: Sequence[Vector], *, watching: bool) -> Shared:
    """The same results, with one division by each divisor that there is more than once.

    Args:
        watching: whether also by those that have to be watched.
    """
    order = ordered(roots)
    bounds = bounds_of(order)
    counts = Counter(vector.inputs[1] for vector in order if vector.op == "fdiv" and vector.varies)
    repeated = [divisor for divisor, count in counts.items() if count > 1]
    unsure = {divisor for divisor in repeated if not is_moderate(bounds[divisor])}
    shared = {divisor for divisor in repeated if watching or divisor not in unsure}
    if not shared:
        return Shared([*roots], [])

    def replaced(vector: Vector, inputs: Sequence[Vector]) -> Vector | None:
        if vector.op != "fdiv" or vector.inputs[1] not in shared:
            return None
        n, d = inputs
        return n * d.code.make("fdiv", Lane.FLOAT, d.code.vector(1.0), d)

    watched = [divisor for divisor in repeated if divisor in unsure & shared]
    found = rebuilt([*roots, *watched], replaced)
    return Shared(found[: len(roots)], found[len(roots) :])


def bounds_of(order: Sequence[Vector]) -> dict[Vector, Bounds]:
    """Between which numbers values lie, each after its inputs: nan may always be there."""
    found: dict[Vector, Bounds] = {}
    for vector in order:
        found[vector] = _bounds(vector, found)
    return found


def is_moderate(bounds: Bounds) -> bool:
    """Whether what lies between these is far from the ends of the range of positive numbers."""
    low, high = bounds
    return low >= NEAR and high <= FAR


def _bounds(vector: Vector, known: dict[Vector, Bounds]) -> Bounds:
    if vector.number is not None and vector.number == vector.number:
        return vector.number, vector.number
    given = [known[each] for each in vector.inputs]
    match vector.op:
        case "fadd":
            (a, b), (c, d) = given
            return (a + c, b + d) if math.isfinite(a + c) or math.isfinite(b + d) else _ALL
        case "fmul" if min(given)[0] >= 0:
            (a, b), (c, d) = given
            return a * c if math.isfinite(a * c) else 0.0, b * d if math.isfinite(b * d) else math.inf
        case "fmul" if vector.inputs[0] is vector.inputs[1]:
            return 0.0, math.inf
        case "fneg":
            return -given[0][1], -given[0][0]
        case "fabs":
            return 0.0, max(map(abs, given[0]))
        case "select":
            (a, b), (c, d) = given[1:]
            return min(a, c), max(b, d)
        case "call" if vector.detail == "exp":
            return 0.0, 2.0 if given[0][1] <= 0 else math.inf
    return _ALL
