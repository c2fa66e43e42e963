"""Every operation in every language has the value and the derivatives that `grad` computes.

To 1e-13 wherever the numbers are ordinary, with the same nan and infinities at the edges of everything.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from autodiff_cli.export.languages import EXPORTERS, export
from autodiff_cli.export.program import ExportOptions
from autodiff_cli.expression import Expression
from autodiff_cli.graph.node import Op, variable
from tests.each import amount
from tests.export.support import Case, Found, close, in_c, in_fortran, in_javascript, in_jax, in_python, in_torch
from tests.numbers.test_arrays import ELEMENTWISE, inputs_of
from tests.ops.table import ROWS
from tests.ops.test_rules import every_point

Runner = Callable[[Sequence[Case], Path], list[list[Found]]]
POINTS = {row.name: [*every_point(row)] for row in ROWS}


def formulas() -> list[tuple[Op, Expression]]:
    """Each operation on variables, with each number of inputs at which it is tested."""
    found = []
    for op in ELEMENTWISE:
        for count in sorted({len(point) for point in points_of(op)}):
            leaves = [variable(name) for name in "xyzuvabcd"[:count]]
            found.append((op, Expression(op(*leaves), {leaf.text: leaf for leaf in leaves})))
    return found


def points_of(op: Op) -> list[tuple[float, ...]]:
    """Special numbers, of two and more inputs some of their many combinations, and the points of the table."""
    apart = 1 if op.min_inputs < 2 else amount(5, 5, 1) if op.min_inputs == 2 else amount(23, 23, 7)
    return [*inputs_of(op)[::apart], *POINTS.get(op.name, ())]


@functools.cache
def evaluated() -> list[tuple[Op, Expression, list[tuple[float, ...]], list[tuple[float, dict[str, float]]]]]:
    """Each of `formulas`, the points that have as many numbers, and its value and derivatives there."""
    return [
        (op, f, points, [f.value_and_grad(dict(zip(f.variables, point, strict=True))) for point in points])
        for op, f in formulas()
        for points in [[point for point in points_of(op) if len(point) == len(f.variables)]]
    ]


@pytest.mark.parametrize(
    ("target", "runner"),
    [
        pytest.param("python", in_python, marks=pytest.mark.slow),
        pytest.param("numpy", in_python, marks=pytest.mark.slow),
        pytest.param("js", in_javascript, marks=pytest.mark.slow),
        pytest.param("c", in_c, marks=pytest.mark.slow),
        pytest.param("fortran", in_fortran, marks=pytest.mark.slow),
    ],
)
def test_every_operation_and_its_slopes(tmp_path: Path, target: str, runner: Runner) -> None:
    cases = [
        Case(export(f, target, ExportOptions(f"f{k}")), f"f{k}", f.variables, points)
        for k, (_, f, points, _) in enumerate(evaluated())
    ]
    # Python calls the functions of `grad` in the same order; the other languages have other libraries.
    relative, absolute = (0.0, 0.0) if target == "python" else (1e-13, 1e-300)
    wrong = [
        (str(f), point, got, (value, slopes))
        for (op, f, points, expected), results in zip(evaluated(), runner(cases, tmp_path), strict=True)
        for point, got, (value, slopes) in zip(points, results, expected, strict=True)
        for pairs in [[*zip([got[0], *got[1]], [value, *slopes.values()], strict=True)]]
        if not all(close(*pair, relative, absolute) for pair in pairs)
    ]
    assert not wrong, (len(wrong), sorted({text for text, *_ in wrong}), wrong[:: 1 + len(wrong) // 12])
    assert sum(len(case.points) for case in cases) > 10_000


UNDIFFERENTIATED = {"jax": (), "torch": ("gammainc", "gammaincc")}  # frameworks refuse to differentiate these by a


@pytest.mark.slow
@pytest.mark.parametrize(("target", "runner"), [("jax", in_jax), ("torch", in_torch)])
def test_frameworks_differentiate_what_they_have(tmp_path: Path, target: str, runner: Runner) -> None:
    """At points that are nothing special; values agree to 9 digits or so, slopes may cancel."""
    cases, expected = [], []
    for k, (op, f) in enumerate(formulas()):
        drawn = [p for p in POINTS.get(op.name, []) if len(p) == len(f.variables)]
        points = [p for p in drawn if all(1e-3 < abs(x) < 20 and 2 * x != round(2 * x) for x in p)][:40]
        if op.is_helper or op.unavailable_inputs or not points or not EXPORTERS[target].supports(op):
            continue
        if op.name in UNDIFFERENTIATED[target]:
            continue
        cases.append(Case(export(f, target, ExportOptions(f"f{k}")), f"f{k}", f.variables, points))
        expected.append([f.value_and_grad(dict(zip(f.variables, point, strict=True))) for point in points])
    wrong = [
        (case.source, point, got, (value, slopes))
        for case, results, wanted in zip(cases, runner(cases, tmp_path), expected, strict=True)
        for point, got, (value, slopes) in zip(case.points, results, wanted, strict=True)
        if not close(got[0], value, 1e-9, 1e-13)
        or not all(close(a, b, 1e-6, 1e-9) for a, b in zip(got[1], slopes.values(), strict=True))
    ]
    assert not wrong, (len(wrong), wrong[:: 1 + len(wrong) // 12])
