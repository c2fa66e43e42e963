"""Evaluation over blocks of rows equals evaluation row by row, in bounded memory, for any block size."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.backends import numpy_backend
from autodiff_cli.backends.numpy_backend import BLOCK_ROWS, BlockEvaluator, NumpyBackend
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.backends.reductions import block_slices
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.program import read
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops.functions import exp, sin

FORMULAS = (
    "a*exp(-b*x) + c",
    "where(x > a, log(x - a), b*x)",
    "max(x, a, c*x^2) - min(x, b)",
    "s = sin(a*x); s*s + s/(1 + s^2)",
    "sigmoid(a*x + b)*exp(c) + log(c)*x",
    "a + b*c",
    # In NumPy, the sum of two conditions is their logical or, and none has a negative.
    "(x > 0) + (x > a) - (x < b)",
    "-(x > a)*c + (x > 0)^2",
    "where((x > a) + (x > b), x, -x) + where(x > a, x > b, not x < c)",
)

numbers = st.floats(-3, 3)


@pytest.mark.parametrize("text", FORMULAS)
@given(st.lists(numbers, min_size=1, max_size=5), numbers, numbers, numbers)
def test_rows_are_evaluated_as_one_by_one(text: str, xs: list[float], a: float, b: float, c: float) -> None:
    output = read(text).output
    found = evaluate([output], {"x": np.array(xs), "a": a, "b": b, "c": c})[0]
    one_by_one = [forward(Tape([output]), FLOATS, {"x": x, "a": a, "b": b, "c": c})[-1] for x in xs]
    assert found.shape == (len(xs),)
    np.testing.assert_allclose(found, one_by_one, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("rows", [1, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 3 * BLOCK_ROWS + 7])
def test_blocks_leave_no_seam(rows: int) -> None:
    x = np.linspace(0, 9, rows)
    output = read("sin(x)*a + x^2").output
    np.testing.assert_array_equal(evaluate([output], {"x": x, "a": 2.0})[0], np.sin(x) * 2 + x**2)
    assert sum(part.stop - part.start for part in block_slices(rows, BLOCK_ROWS)) == rows


def test_arrays_broadcast_by_the_rules_of_numpy() -> None:
    column, row = np.arange(3.0)[:, None], np.arange(4.0)
    total, same = evaluate([read("x + y").output, read("7").output], {"x": column, "y": row})
    np.testing.assert_array_equal(total, column + row)
    np.testing.assert_array_equal(same, np.full((3, 4), 7.0))


def test_no_rows_give_no_values() -> None:
    assert evaluate([read("x + 1").output], {"x": np.empty(0)})[0].shape == (0,)


def _chain(start: Node, length: int) -> Node:
    node = start
    for _ in range(length):
        node = sin(node)
    return node


@pytest.mark.slow
def test_memory_does_not_grow_as_rows_times_nodes() -> None:
    rows, length = 40 * BLOCK_ROWS, 500
    output = _chain(variable("x"), length)
    x, found = np.ones(rows), np.empty((1, rows))
    tracemalloc.start()
    kernel = NumpyBackend().row_kernel(RowGraphs([output], {"x"}))
    kernel.write(kernel.prepare({}), {"x": x}, found)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * BLOCK_ROWS * x.itemsize + 2000 * length


@pytest.mark.slow
def test_a_chain_of_30000_nodes() -> None:
    assert evaluate([_chain(variable("x"), 30_000)], {"x": np.zeros(2)})[0].tolist() == [0.0, 0.0]


def test_what_no_column_reaches_is_computed_once_and_equal_parts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = numpy_backend.ARRAYS.function

    def counting(op: object, count: int) -> object:
        function = real(op, count)  # type: ignore[arg-type]
        return lambda *xs: calls.append(op) or function(*xs)

    monkeypatch.setattr(numpy_backend.ARRAYS, "function", counting)
    a, x = variable("a"), variable("x")
    kernel = BlockEvaluator(RowGraphs([exp(a) * sin(x) + sin(x), exp(a)], {"x"}))
    with ignore_float_errors():
        prepared = kernel.prepare({"a": 1.0})
        for _ in range(5):
            kernel.evaluate_block(prepared, {"x": np.ones(2)}, slice(0, 2))
    assert calls.count(exp) == 1
    assert calls.count(sin) == 5


def test_a_kernel_can_be_used_again() -> None:
    kernel = BlockEvaluator(RowGraphs([read("a*x").output], {"x"}))
    with ignore_float_errors():
        first = kernel.prepare({"a": 2.0})
        second = kernel.prepare({"a": 3.0})
        assert kernel.evaluate_block(second, {"x": np.ones(1)}, slice(0, 1))[0].tolist() == [3.0]
        assert kernel.evaluate_block(first, {"x": np.ones(1)}, slice(0, 1))[0].tolist() == [2.0]


@pytest.mark.parametrize(("size", "share"), [(1, 1), (8, 1), (9, 2), (16, 2), (17, 4), (128, 16), (1000, 16)])
def test_blocks_of_values_with_many_elements_are_shorter(size: int, share: int) -> None:
    kernel = BlockEvaluator(RowGraphs([read("sum(w*x)").output], {"x"}, {"w": (size,)}))
    assert kernel.block_rows == BLOCK_ROWS // share


@pytest.mark.parametrize("rows", [1, 5, BLOCK_ROWS + 3])
def test_what_reads_no_column_counts_once_for_every_row(rows: int) -> None:
    kernel = NumpyBackend().sum_kernel(RowGraphs([read("a").output, read("0*x").output], {"x"}))
    assert kernel.sums({"a": 0.5}, {"x": np.ones(rows)}, rows).tolist() == [rows / 2, 0]
