"""Every operation, compiled for every width of vectors: against mpmath over its domain, against NumPy at the edges."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest

from autodiff_cli import parse
from autodiff_cli.backends.llvm.backend import LlvmBackend
from autodiff_cli.backends.numpy_backend import NumpyBackend
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Op, constant, get_op, variable
from autodiff_cli.language.program import read
from autodiff_cli.numbers.arrays import ARRAYS
from tests.backends.llvm.compiled import alone, by_row, every_width
from tests.each import each
from tests.numbers.test_arrays import ELEMENTWISE, by_arrays, inputs_of, same
from tests.ops.table import ROWS, Row
from tests.ops.test_rules import NAMES, anywhere, compare, every_point, is_cheap, random_points

ULPS = 8  # what an operation may be off, unless its record promises less


@every_width
@each("row", ROWS, ids=lambda row: row.name, sampled=is_cheap)
def test_values_and_slopes_have_the_digits(row: Row, width: int) -> None:
    chance = random.Random(row.name)
    points = [
        *every_point(row),
        *(tuple(anywhere(interval, chance) for interval in row.domain) for _ in range(random_points(row, 75))),
    ]
    leaves = [variable(name) for name in NAMES[: len(row.domain)]]
    output = get_op(row.name)(*leaves)
    columns = dict(zip(NAMES, np.array(points).T, strict=False))
    found = by_row(LlvmBackend(1, width), [output, *gradient_nodes(output, leaves)], columns)
    for point, numbers in zip(points, found.T.tolist(), strict=True):
        compare(row, point, numbers, max(row.bound, ULPS), f"vectors of {width}")


def check_edges(ops: list[Op], width: int) -> None:
    """Compare operations that are tried at the same points, in one kernel."""
    points = inputs_of(ops[0])
    leaves = [variable(name) for name in NAMES[: len(points[0])]]
    found = alone(width, [op(*leaves) for op in ops], dict(zip(NAMES, np.array(points).T, strict=False)))
    wrong = {}
    for op, values in zip(ops, found.tolist(), strict=True):
        compared = zip(points, values, by_arrays(op, points), strict=True)
        wrong[op.name] = [difference for difference in compared if not same(op, *difference[1:])]
    assert not any(wrong.values()), {name: differences[:5] for name, differences in wrong.items() if differences}


@every_width
def test_edges_are_those_of_numpy(width: int) -> None:
    together = defaultdict(list)
    for op in ELEMENTWISE:
        together[tuple(inputs_of(op))].append(op)
    for ops in together.values():
        check_edges(ops, width)


@pytest.mark.slow
@every_width
@each("op", ELEMENTWISE, ids=lambda op: op.name, sampled=True)
def test_edges_of_an_operation_alone_are_those_of_numpy(op: Op, width: int) -> None:
    """Where an operation that needs care makes no others of its kernel careful."""
    check_edges([op], width)


# What a number in the formula makes another operation of.
WRITTEN = ["x^2", "x^3", "x^4", "x^-1", "x^-2", "x^0.5", "x^1.5", "log(x, 2)", "log(x, 10)", "log(x, 3)", "x/4", "x/0"]
EDGES = (-np.inf, -1e300, -2.0, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1e-200, 0.3, 1.0, 3.0, 1e200, np.inf, np.nan)


@every_width
def test_a_number_in_the_formula_changes_no_value(width: int) -> None:
    outputs, x = [read(text).output for text in WRITTEN], np.array(EDGES)
    found = by_row(LlvmBackend(1, width), outputs, {"x": x})
    for text, output, values in zip(WRITTEN, outputs, found.tolist(), strict=True):
        op = output.op
        assert op is not None
        points = [tuple(float(n.text) if n.is_constant else value for n in output.inputs) for value in x.tolist()]
        if any(node.op is not None for node in output.inputs):  # the sign of a negative number
            points = [(value, -float(output.inputs[1].inputs[0].text)) for value in x.tolist()]
        for value, one, other in zip(EDGES, values, by_arrays(op, points), strict=True):
            assert same(op, one, other), (text, value, one, other)


@every_width
@each("text", [*WRITTEN, "x^1"])
def test_a_slope_is_no_number_where_numpys_is_none(text: str, width: int) -> None:
    program, x = read(text), np.array(EDGES[1:])  # of -inf, NumPy has other powers in vectors than alone
    slopes = gradient_nodes(program.output, [program.leaves["x"]])
    found, wanted = (by_row(backend, slopes, {"x": x}) for backend in (LlvmBackend(1, width), NumpyBackend()))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))


@every_width
def test_signs_of_zero_survive(width: int) -> None:
    x = np.array([-0.0, 0.0])
    for text in ("x", "-x", "tanh(x)", "sinh(x)", "asinh(x)", "x^3", "cbrt(x)", "floor(x)", "1*x", "x*1", "x/1"):
        wanted = np.signbit(x) ^ text.startswith("-")
        np.testing.assert_array_equal(
            np.signbit(by_row(LlvmBackend(1, width), [read(text).output], {"x": x})[0]), wanted, text
        )


@every_width
def test_of_equal_numbers_the_first_is_the_largest_and_the_smallest(width: int) -> None:
    """So a maximum of 0 and -0 has the same sign everywhere."""
    zeros = np.array([[0.0, 0.0, -0.0, -0.0], [0.0, -0.0, 0.0, -0.0]])
    for text in ("max(x, y)", "min(x, y)", "max(0, -x)", "max(-x, 0)", "min(x, y, 0)", "clip(x, y, 1)", "relu6(x)"):
        f = parse(f"1/{text}")
        wanted = [f({name: {"x": x, "y": y}[name] for name in f.variables}) for x, y in zeros.T]
        for backend in (LlvmBackend(1, width), NumpyBackend()):
            found = by_row(backend, [f.output], dict(zip("xy", zeros, strict=True)))[0]
            np.testing.assert_array_equal(found, wanted, text)


@every_width
def test_sine_and_cosine_keep_their_digits_next_to_their_zeros(width: int) -> None:
    row = {row.name: row for row in ROWS}
    points = [float(k) * np.pi / 2 for k in range(1, 400)] + [355.0, 103993.0, 5419351.0, 1e22, 1e300]
    for name in ("sin", "cos", "tan"):
        a = variable("a")
        output = get_op(name)(a)
        found = by_row(LlvmBackend(1, width), [output, *gradient_nodes(output, [a])], {"a": np.array(points)})
        for point, numbers in zip(points, found.T.tolist(), strict=True):
            compare(row[name], (point,), numbers, ULPS, name)


def test_a_library_without_vectors_gives_the_same_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    from autodiff_cli.backends.llvm import machine_code

    monkeypatch.setattr(machine_code, "_has_vector_library", lambda: False)
    x = np.linspace(0.1, 0.9, 11)
    names = ("sin", "exp", "log1p", "erf", "cbrt", "asinh", "tanh", "expm1", "atan", "pow", "hypot", "atan2")
    x_node, other = variable("x"), constant("1.7")
    nodes = [op(x_node, other) if op.min_inputs == 2 else op(x_node) for op in map(get_op, names)]
    found = by_row(LlvmBackend(1), nodes, {"x": x})
    for name, values in zip(names, found, strict=True):
        op = get_op(name)
        wanted = by_arrays(op, [(v, 1.7) if op.min_inputs == 2 else (v,) for v in x.tolist()])
        np.testing.assert_allclose(values, wanted, rtol=1e-15, err_msg=name)


def test_composites_of_numbers_alone_are_those_of_numpy() -> None:
    ops = [op for op in ELEMENTWISE if op.name not in ARRAYS.table]
    points = [tuple(0.3 + 0.2 * k for k in range(len(inputs_of(op)[0]))) for op in ops]
    outputs = [op(*map(constant, map(repr, point))) for op, point in zip(ops, points, strict=True)]
    found = by_row(LlvmBackend(1), outputs, {"x": np.zeros(1)})
    for op, point, value in zip(ops, points, found[:, 0].tolist(), strict=True):
        assert same(op, value, by_arrays(op, [point])[0]), op.name
