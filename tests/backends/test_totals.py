"""Sums over rows equal the sums of values by row, without a matrix for every row."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.backends import reductions
from autodiff_cli.backends.numpy_backend import BlockEvaluator
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.backends.selection import make_backend
from autodiff_cli.graph.gradient import gradient_nodes, tangents
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.language.program import read
from autodiff_cli.ops.arithmetic import equal, where
from autodiff_cli.ops.functions import exp, square
from autodiff_cli.ops.structural import dot, index, stack, sum_

DECLARED = "W: 2x3; v: 3; "
FORMULAS = (
    "x*y",
    "W",
    "[x, y, x*y]",
    "outer([x, y], [y, 1, x])",
    "outer([x, y], v)",
    "outer([a, 2], [x, y, 1])",
    "outer([a, 2], v)",
    "outer([x, y], [1, 2, 3]) - W*x",
    "-outer([x, y], v)*a + outer([y, y], [x, 1, 2])/a",
    "transpose(outer([y, 1, x], [x, y]))",
    "W @ outer([x, y, 1], v)",
    "outer([x, y], [y, 1, x]) @ outer([1, x, 2], [x, y])",
    "where(x > y, outer([x, y], v), W)",
    "where(x > y, outer([x, 1/x], [y, 1/y]), 0)",  # nan and infinities only where they are chosen
    "concat([x], [y, a])",
    "mean([x, y])*[a, 1]",
    # the same for all rows, although a column is read: its shape
    "sum_like(v, x)",
    "outer([a, sum_like(v, x)], v)",
    "outer([a, sum_like(v, x)], [x, 2])",
    "W @ outer([1, 2, sum_like(v, x)], v)",
    "outer([a, 1], [sum_like(v, x), 2]) @ outer([a, 2], [sum_like(v, y), 1])",
    "outer([a, 1], [sum_like(v, x), 2]) - outer([x, 1], v[0]*[1, y])",
)

numbers = st.floats(-3, 3)


@pytest.mark.sampled
@pytest.mark.parametrize("text", FORMULAS)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=5), st.integers(0, 9))
def test_a_total_is_the_sum_of_the_rows(text: str, rows: list[tuple[float, float]], seed: int) -> None:
    program = read(DECLARED + text)
    generator = np.random.default_rng(seed)
    point = {"W": generator.normal(size=(2, 3)), "v": generator.normal(size=3), "a": 1.5}
    columns = dict(zip("xy", np.array(rows).T, strict=True))
    shapes = {"W": (2, 3), "v": (3,)}
    with ignore_float_errors():
        (total,) = _block(BlockEvaluator(RowGraphs([program.output], {*"xy"}, shapes), summed=True), point, columns)
        (by_row,) = _block(BlockEvaluator(RowGraphs([program.output], {*"xy"}, shapes)), point, columns)
        expected = np.sum(np.broadcast_to(by_row, (*np.shape(by_row)[:-1], len(rows))), axis=-1)
    np.testing.assert_allclose(np.squeeze(total), np.squeeze(expected), rtol=1e-12, atol=1e-12)


def test_slopes_that_are_the_same_for_all_rows_count_in_each() -> None:
    program = read("W: 2x3; sum(W*x)")
    slopes = gradient_nodes(program.output, [program.leaves["x"]], program.shapes)
    weights = np.arange(6.0).reshape(2, 3)
    sums = (
        make_backend()
        .sum_kernel(RowGraphs(slopes, {"x"}, program.shapes))
        .sums({"W": weights}, {"x": np.arange(5.0)}, 5)
    )
    assert sums.tolist() == [5 * 15]


def _block(kernel: BlockEvaluator, point: dict[str, object], columns: dict[str, object]) -> list[object]:
    return kernel.evaluate_block(kernel.prepare(point), columns, slice(0, len(columns["x"])))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("activation", "slope"), [("tanh", lambda x: 1 / np.cosh(x) ** 2), ("relu", lambda x: np.where(x > 0, 1.0, 0.0))]
)
def test_the_gradient_towards_a_matrix_is_no_larger_than_the_matrix(
    activation: str, slope: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> None:
    size, rows = 100, 512
    program = read(f"W: {size}x{size}; x: {size}; sum({activation}(W @ x))")
    shapes = {"W": (size, size), "x": (size,)}
    slopes = simplify(gradient_nodes(program.output, [program.leaves["W"]], shapes))
    kernel = BlockEvaluator(RowGraphs(slopes, {"x"}, shapes), summed=True)
    generator = np.random.default_rng(0)
    x, weights = generator.normal(size=(size, rows)), generator.normal(size=(size, size)) / 10
    with ignore_float_errors():
        prepared = kernel.prepare({"W": weights})
        tracemalloc.start()
        (total,) = kernel.evaluate_block(prepared, {"x": x}, slice(0, rows))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    np.testing.assert_allclose(total[..., 0], slope(weights @ x) @ x.T, rtol=1e-12, atol=1e-12)
    assert peak < 10 * x.nbytes < size * size * rows * x.itemsize


@pytest.mark.parametrize("rows", [1, 13, pytest.param(20_001, marks=pytest.mark.slow)])
def test_an_element_at_the_position_of_each_row_is_that_times_an_indicator(rows: int) -> None:
    """Values, gradients and derivatives of gradients along a direction, summed and by row, on both backends."""
    generator, levels = np.random.default_rng(rows), 7
    x, y, k, b, a, direction = (variable(name) for name in ("x", "y", "k", "b", "a", "direction"))
    columns = {"x": generator.normal(size=rows), "y": generator.normal(size=rows)}
    columns["k"] = generator.integers(0, levels, rows).astype(float)
    shapes = {"a": (levels,), "direction": (levels,)}
    point = {"a": generator.normal(size=levels), "b": 0.7, "direction": generator.normal(size=levels)}
    indicators = dot(a, stack(*(equal(k, position) for position in range(levels))))

    def losses(of_row: Node) -> list[Node]:
        return [
            square(y - of_row - b * x) + sum_(square(a)) / rows,
            where(x > 0, square(y - exp(of_row / 9) * b), 2) - sum_(exp(a * b)) / rows,
            of_row * x + of_row,
        ]

    graphs_by_index = [*losses(index(a, k)), index(a * x + b, k)]  # of an array that has values for each row too
    for loss, expected in zip(graphs_by_index, [*losses(indicators), indicators * x + b], strict=True):
        results = []
        for graph in (loss, expected):
            slopes = gradient_nodes(graph, [a, b], shapes)
            outputs = simplify([graph, *slopes, *tangents(slopes, {a: direction}, shapes)])
            graphs = RowGraphs(outputs, {*columns}, shapes, [(), (levels,), (), (levels,), ()])
            for backend in (make_backend("numpy"), make_backend("llvm")):
                results.append(backend.sum_kernel(graphs).sums(point, columns, rows))
                kernel, values = backend.row_kernel(graphs), np.empty((graphs.value_count, rows))
                kernel.write(kernel.prepare(point), columns, values)
                results.append(values.sum(axis=1))
        for result in results[1:]:
            np.testing.assert_allclose(result, results[0], rtol=1e-9, atol=1e-9 * rows)


@pytest.mark.parametrize("lengths", [*itertools.product((1, 7), repeat=2)])
def test_factors_that_are_equal_in_all_rows_count_once_for_each_row(lengths: tuple[int, int]) -> None:
    generator, rows = np.random.default_rng(0), 7

    def repeated(array: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.broadcast_to(array, (*array.shape[:-1], rows))

    a, b = (generator.normal(size=(size, length)) for size, length in zip((2, 3), lengths, strict=True))
    outer = np.einsum("ir,jr->ij", repeated(a), repeated(b))
    np.testing.assert_allclose(reductions._total_of_outer(a, b, rows)[..., 0], outer, rtol=1e-12)
    a, b = generator.normal(size=(2, 4, lengths[0])), generator.normal(size=(4, 3, lengths[1]))
    product = np.einsum("ikr,kjr->ij", repeated(a), repeated(b))
    np.testing.assert_allclose(reductions._total_of_matmul(a, b, rows)[..., 0], product, rtol=1e-12)
    x, at = generator.normal(size=lengths[0]), generator.integers(0, 5, lengths[1]).astype(np.float64)
    placed = np.zeros(5)
    np.add.at(placed, repeated(at).astype(int), repeated(x))
    if lengths != (7, 1):  # a value by row has a place by row
        np.testing.assert_allclose(reductions._total_of_place(x, np.zeros((5, 1)), at, rows)[:, 0], placed, rtol=1e-12)
