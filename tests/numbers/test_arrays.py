"""The table of arrays means the same as the table of floats."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autodiff_cli.graph.op import Op
from autodiff_cli.numbers.arrays import ARRAYS, quiet
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops import all_ops

GRID = [
    -math.inf,
    -800.0,
    -30.0,
    -2.5,
    -1.0,
    -0.5,
    -1e-9,
    0.0,
    1e-9,
    0.3,
    0.5,
    1.0,
    1.5,
    2.0,
    3.0,
    30.0,
    800.0,
    1e200,
    math.inf,
    math.nan,
]


def inputs_of(op: Op) -> list[tuple[float, ...]]:
    if op.name in {"sinc_derivative", "sinhc_derivative", "polygamma"}:
        return [(n, x) for n in (0.0, 1.0, 2.0, 3.0, 1.5) for x in GRID]
    count = max(op.least, 1) if op.most is not None else 2
    if count == 1:
        return [(x,) for x in GRID]
    if count == 2:
        return [(x, y) for x in GRID for y in GRID]
    return [(x, y, z) for x in GRID for y in (-1.0, 0.0, 2.0) for z in (-1.0, 1.0, 2.0)]


def same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=4e-15, abs_tol=1e-300)


# Remainders by an infinite number, and roots and logarithms of infinite order: C libraries differ there.
ODD = {"mod", "root", "log_base", "direction"}


@pytest.mark.parametrize("op", [op for op in all_ops() if not op.structural], ids=lambda op: op.name)
def test_arrays_agree_with_floats(op: Op) -> None:
    points = inputs_of(op)
    if op.name in ODD:
        points = [point for point in points if all(map(math.isfinite, point))]
    columns = [np.array(column) for column in zip(*points, strict=True)]
    count = len(columns)
    with quiet():
        found = np.broadcast_to(ARRAYS.function(op, count)(*columns), (len(points),))
    wrong = [
        (point, value, expected)
        for point, value in zip(points, found.tolist(), strict=True)
        if not same(value, expected := FLOATS.function(op, count)(*point))
    ]
    assert not wrong, wrong[:5]
