"""Floats, arrays and compiled kernels have the same values and slopes of every operation at extreme arguments."""

from __future__ import annotations

import itertools
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.backends.llvm.backend import LlvmBackend
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Gate, Node, all_ops, constant, get_op, variable
from autodiff_cli.graph.tape import topological_order
from autodiff_cli.numbers.arrays import ARRAYS
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.numbers.kind import Kind
from tests.backends.llvm.compiled import by_row
from tests.each import each, is_exhaustive
from tests.numbers.test_arrays import LOG_GAMMAS
from tests.ops.table import CANCELLING_SLOPES

POINTS = [
    0.0, -0.0, 5e-324, 1e-310, 2.0**-1022, 1e-200, -1e-200, 1e-17, 0.5, -0.5, 1.0, -1.0, 1.5, 2.0, -2.0, 2.5, 3.0, -3.0,
    171.0, -171.5, 171.5, 709.5, 710.2, -745.0, -750.0, 1e10, -1e10, 1e150, -1e150, 1e200, -1e200, 1.7e308, -1.7e308,
    inf, -inf, nan,
]  # fmt: skip
FEW_POINTS = [0.0, 1.0, -1.0, 2.5, 1e200, inf, -inf, nan]
OPERATIONS = [op.name for op in all_ops() if not op.is_structural]


def evaluated(kind: Kind[Any], order: list[Node], values: dict[Node, Any]) -> dict[Node, Any]:
    for node in order:
        if node not in values:
            inputs = [values[each] for each in node.inputs]
            number = kind.parse_constant(node.text) if node.op is None else None
            values[node] = number if node.op is None else kind.function(node.op, len(inputs))(*inputs)
    return values


@pytest.mark.slow
@each("name", OPERATIONS, sampled=True)
def test_all_kinds_of_number_agree(name: str) -> None:
    op = get_op(name)
    count = max(op.min_inputs, 1)
    leaves = [variable(letter) for letter in "xyzuv"[:count]]
    numbers = (POINTS, POINTS, FEW_POINTS, FEW_POINTS, (-1.0, 0.0, 2.0))[count - 1]
    if name in LOG_GAMMAS:  # see inputs_of
        numbers = [x for x in numbers if not 1e15 < abs(x) < inf]
    points = [*itertools.product(numbers, repeat=count)]
    if count == 2 and not is_exhaustive():
        points = points[::5]  # in which each of the 36 numbers meets seven others or more
    columns = np.array(points).T.copy()
    graphs = [op(*leaves)]
    if op.gate is not Gate.BLOCK and name not in CANCELLING_SLOPES:
        graphs += gradient_nodes(graphs[0], leaves)
    order = topological_order(graphs)
    compiled = by_row(LlvmBackend(1), graphs, dict(zip("xyzuv", columns, strict=False)))
    with ignore_float_errors():
        arrays = evaluated(ARRAYS, order, dict(zip(leaves, columns, strict=True)))
    floats = [evaluated(FLOATS, order, dict(zip(leaves, point, strict=True))) for point in columns.T.tolist()]
    domain = op.predicate("domain", count)
    if domain is not None:
        placeholders = dict(zip(op.placeholders(count), columns, strict=True))
        with ignore_float_errors():
            is_inside = evaluated(ARRAYS, topological_order([domain]), placeholders)[domain]
        assert np.isnan(compiled[0][is_inside == 0]).all()
    for graph, found in zip(graphs, compiled, strict=True):
        wanted = np.array([values[graph] for values in floats], dtype=float)
        for numbers in (found, np.broadcast_to(arrays[graph], wanted.shape)):
            np.testing.assert_allclose(numbers, wanted, rtol=1e-9, atol=1e-319)


def test_powers_with_a_constant_exponent_agree() -> None:
    """Compiled code has shorter forms for some of them."""
    exponents = (0.5, -0.5, 1.5, 2.5, 1 / 3, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, inf, -inf)
    columns = np.array(POINTS)
    graphs = [variable("x") ** constant(repr(exponent)) for exponent in exponents]
    compiled = by_row(LlvmBackend(1), graphs, {"x": columns})
    for exponent, values in zip(exponents, compiled, strict=True):
        wanted = [FLOATS.table["pow"](number, exponent) for number in POINTS]
        with ignore_float_errors():
            arrays = ARRAYS.table["pow"](columns, np.float64(exponent))
        for found in (values, arrays):
            np.testing.assert_allclose(found, wanted, rtol=1e-15, atol=1e-323, err_msg=f"x^{exponent}")


def test_remainders_of_0_have_the_sign_of_the_divisor() -> None:
    a, b = np.array([*itertools.product((-4.0, -0.0, 0.0, 4.0, 1e300), (2.0, -2.0, 1.0, -0.5))]).T
    found = by_row(LlvmBackend(1), [get_op("mod")(variable("a"), variable("b"))], {"a": a, "b": b})[0]
    assert (found == 0).all()
    np.testing.assert_array_equal(np.signbit(found), np.signbit(b))
    floats = [FLOATS.table["mod"](*pair) for pair in zip(a.tolist(), b.tolist(), strict=True)]
    np.testing.assert_array_equal(np.signbit(floats), np.signbit(b))
