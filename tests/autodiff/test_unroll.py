"""Arrays written out are the same formulas, number by number."""

from __future__ import annotations

import math
import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.autodiff.unrolling import NodeArray, TooManyOperationsError, unroll
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.data.json_records import to_json
from autodiff_cli.expression import parse
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.tape import ShapeError, Tape, infer_shapes
from autodiff_cli.language.program import read
from autodiff_cli.numbers import arrays
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops.arithmetic import mul
from autodiff_cli.ops.functions import exp, sin
from autodiff_cli.ops.structural import matmul, outer, sum_
from tests.each import each, examples
from tests.graphs import ELEMENTWISE, SHAPES, STRUCTURAL, array_graphs
from tests.support import run_cli

POINT = {name: np.linspace(0.3, 1.7, int(np.prod(shape))).reshape(shape) for name, shape in SHAPES.items()}


def elements(name: str, shape: tuple[int, ...]) -> NodeArray:
    made = np.empty(shape, dtype=object)
    for position in np.ndindex(shape):
        made[position] = variable(f"{name}{list(position)}")
    return made


ELEMENTS = {name: elements(name, shape) for name, shape in SHAPES.items()}
NUMBERS = {
    node.text: float(value)
    for name in SHAPES
    for node, value in zip(ELEMENTS[name].flat, POINT[name].flat, strict=True)
}


def values(array: NodeArray) -> Any:
    """The values of an unrolled array, each by a tape of floats."""
    tape = Tape(array.reshape(-1).tolist())
    numbers = forward(tape, FLOATS, NUMBERS)
    return np.array([numbers[i] for i in tape.outputs]).reshape(array.shape)


def same_in_both(graphs: list[Node], leaves: list[Node]) -> None:
    with ignore_float_errors():
        wanted = evaluate(graphs, POINT, SHAPES)
    written = unroll(graphs, {leaf: ELEMENTS[leaf.text] for leaf in leaves})
    for array, value in zip(written, wanted, strict=True):
        assert array.shape == np.shape(value)
        assert all(node.op is None or not node.op.is_structural for node in array.flat)
        np.testing.assert_allclose(values(array), value, rtol=1e-9, atol=1e-12)


@examples(100)
@given(array_graphs(ops=[op for op in ELEMENTWISE if op in (sin, exp, mul)]))
def test_values_are_the_same(graph: tuple[Node, list[Node]]) -> None:
    output, leaves = graph
    same_in_both([output], leaves)


@examples(100)
@given(array_graphs(ops=[op for op in ELEMENTWISE if op in (sin, mul)], most=6))
def test_gradients_are_the_same(graph: tuple[Node, list[Node]]) -> None:
    output, leaves = graph
    same_in_both(gradient_nodes(sum_(output), leaves, SHAPES), leaves)


@each("text", ["max([x, y, z])", "min([x, y, z])", "norm([x, y, z])", "norm([x, y])", "norm([x])", "max([x])"])
def test_slopes_at_ties_and_tips_are_those_of_the_operations(text: str) -> None:
    """Forward mode with tables and higher derivatives write arrays out."""
    formula = parse(text)
    point = dict.fromkeys(formula.variables, 0.0)
    wanted = formula.grad(point)
    assert {name: formula.derivatives(name, 1, point)[1] for name in wanted} == wanted
    document = run_cli(f'grad "{text}" --mode forward --json {" ".join(f"--{name} 0" for name in point)}').json
    assert document["gradient"] == wanted


WHOLE = [
    "norm(v)", "norm([x, y])", "max(v)", "min(v)", "sum(v)", "mean(v)", "prod(v)", "logsumexp(v)", "softmax(v)[1]",
    "logsoftmax(v)[0]", "dot(v, [y, z, x])", "([v, [1, x, 0]] @ v)[1]", "outer(v, v)[0, 2]", "concat(v, v)[4]",
]  # fmt: skip
EXTREMES = [0.0, -0.0, 1.5, -1e200, 1e-200, math.inf, -math.inf, math.nan]


# Exact numbers need no shift before exponentials.
@each(
    ("text", "is_exact"),
    [
        (text, is_exact)
        for text in WHOLE
        for is_exact in (False, True)
        if not (is_exact and re.search("softmax|exp|y]", text))
    ],
)
def test_where_elements_are_extreme_values_and_slopes_are_the_same(text: str, is_exact: bool) -> None:
    """Also where some are infinite and others nan."""
    f = parse(f"v = [x, y, z]; {text}")
    leaves = [*f.leaves.values()]
    graphs = [f.output, *gradient_nodes(f.output, leaves)]
    written = [array.item() for array in unroll(graphs, is_exact=is_exact)]
    points = np.array([*product(EXTREMES, repeat=len(leaves))]).T
    tape = Tape([*graphs, *written])
    with ignore_float_errors():
        numbers = forward(tape, arrays.ARRAYS, dict(zip(f.leaves, points, strict=True)))
    found = [np.broadcast_to(numbers[i], points.shape[1:]) for i in tape.outputs]
    for label, ours, theirs in zip(["value", *f.leaves], found[len(graphs) :], found, strict=False):
        np.testing.assert_allclose(ours, theirs, 1e-13, 1e-300, err_msg=label)


@each("text", ["norm([x, y])", "norm([x, y, 1])"])
def test_forward_mode_and_higher_derivatives_of_extreme_norms_are_those_of_reverse_mode(text: str) -> None:
    for x, y in ((3e200, 1e200), (3e-200, 1e-200), (math.inf, math.nan), (math.nan, 2.0)):
        wanted = parse(text).grad(x=x, y=y)
        document = run_cli(f'grad "{text}" --mode forward --x {x} --y {y} --json').json
        assert document["value"] == to_json(parse(text)(x=x, y=y))
        for name, slope in wanted.items():
            assert float(document["gradient"][name]) == pytest.approx(slope, rel=1e-14, nan_ok=True)
            found = parse(text).derivatives(name, 1, {"x": x, "y": y})[1]
            assert found == pytest.approx(slope, rel=1e-14, nan_ok=True)


def test_every_operation_on_whole_arrays_can_be_written_out() -> None:
    assert {op.name for op in STRUCTURAL if not op.is_composite} == set(arrays.STRUCTURAL)


def test_what_is_one_node_stays_one_and_numbers_stay_what_they_are() -> None:
    x, v = variable("x"), variable("v")
    scaled = x * v
    (array,) = unroll([sum_(sin(scaled) + scaled)], {v: ELEMENTS["v"]})
    tape = Tape([array.item()])
    assert sum(node.op is mul for node in tape.nodes) == SHAPES["v"][0]
    assert x in tape.nodes


def test_a_large_array_is_refused_before_it_is_made() -> None:
    v = variable("v")
    long = np.full(100_000, variable("x"), dtype=object)
    with pytest.raises(TooManyOperationsError, match="500,000 operations"):
        unroll([sum_(outer(v, v))], {v: long})
    square = np.full((1000, 1000), variable("x"), dtype=object)
    with pytest.raises(TooManyOperationsError, match="more than 1,000,000"):
        unroll([sum_(matmul(v, v))], {v: square}, max_operations=1_000_000)


def test_shapes_that_do_not_fit_are_refused() -> None:
    v = variable("v")
    with pytest.raises(ShapeError):
        unroll([v + read("[1, 2]").output], {v: ELEMENTS["v"]})


def test_shapes_are_those_of_the_pass_over_shapes() -> None:
    graph = read("A: 2x3; transpose(A) @ A + [1, 2, 3]")
    leaf = graph.leaves["A"]
    (array,) = unroll([graph.output], {leaf: ELEMENTS["A"]})
    assert array.shape == infer_shapes(Tape([graph.output]), {"A": (2, 3)})[-1]
