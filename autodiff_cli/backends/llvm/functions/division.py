"""Quotients by the same number: one division, then products.

n/d becomes n·(1/d), off by 1.5 units in the last place at most, where a quotient is off by half a unit. For that 1/d
must neither overflow nor lose digits as a denormal number. Where that is not sure, as it is in 1 + exp(-|x|), a vector
of divisors is looked at, and if one of them is too near the ends of the range all quotients are divisions again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from autodiff_cli.backends.llvm.functions.vectors import Lane, Vector, VectorCode, ordered

Bounds: TypeAlias = tuple[float, float]

_FAR, _NEAR = 2.0**1000, 2.0**-1000  # between these a divisor is not near them

_ALL: Bounds = (-math.inf, math.inf)


def with_shared_divisors(roots: Sequence[Vector]) -> list[Vector]:
    """The same results, with one division by each divisor that there is more than once."""
    order = ordered(roots)
    divisors = Counter(vector.inputs[1] for vector in order if vector.op == "fdiv" and vector.varies)
    shared = {divisor for divisor, count in divisors.items() if count > 1}
    if not shared:
        return [*roots]
    code = VectorCode()
    bounds: dict[Vector, Bounds] = {}
    made: dict[Vector, Vector] = {}
    for vector in order:
        bounds[vector] = _bounds(vector, bounds)
        inputs = [made[each] for each in vector.inputs]
        if vector.op == "fdiv" and vector.inputs[1] in shared:
            low, high = bounds[vector.inputs[1]]
            made[vector] = _quotient(inputs[0], inputs[1], low >= _NEAR and high <= _FAR)
        else:
            made[vector] = code.make(vector.op, vector.kind, *inputs, detail=vector.detail, varies=vector.varies)
    return [made[root] for root in roots]


def _quotient(n: Vector, d: Vector, is_moderate: bool) -> Vector:
    code = d.code
    product = n * code.make("fdiv", Lane.FLOAT, code.vector(1.0), d)
    if is_moderate:
        return product
    size = abs(d)
    is_far = code.compare("ult", size, _NEAR) | code.compare("ugt", size, _FAR)
    return code.make("quotient", Lane.FLOAT, is_far, product, n, d)


def _bounds(vector: Vector, known: dict[Vector, Bounds]) -> Bounds:
    """Between which numbers a value lies, if it is one: nan may always be there."""
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
