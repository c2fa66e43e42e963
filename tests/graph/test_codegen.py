"""Straight-line code: run as Python, it computes the values of the graph for every nesting of expressions."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.graph.codegen import INFIX, Fragment, StraightLineCode, call_notation, straight_line_code
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.tape import Tape, topological_order
from autodiff_cli.numbers.floats import FLOATS, OPERATIONS, parse_constant
from autodiff_cli.ops import get_op
from tests.graphs import graphs

OPS = tuple(get_op(name) for name in ("add", "sub", "mul", "neg", "square", "max", "atan"))
POINT = {"x": 0.75, "y": -3.0, "z": 1e-3}


def written(roots: list[Node], leaves: list[Node], width: int) -> StraightLineCode:
    names = {leaf: Fragment(leaf.text) for leaf in leaves}
    return straight_line_code(roots, names, write, width)


def write(node: Node, operands: Sequence[Fragment]) -> Fragment:
    if node.op is None:
        return Fragment(node.text)
    return (INFIX.get(node.op.name) or call_notation(node.op.name, len(operands))).format(operands)


@given(graphs(OPS), st.sampled_from([0, 8, 30, 1000]))
def test_generated_code_computes_the_graph(graph: tuple[Node, list[Node]], width: int) -> None:
    output, leaves = graph
    lines, (result,) = written([output], leaves, width)
    scope = OPERATIONS | POINT | {"pi": parse_constant("pi")}
    for name, piece in lines:
        scope[name] = eval(piece.text, {}, scope)
    expected = forward(Tape((output,)), FLOATS, POINT)[-1]
    found = eval(result.text, {}, scope)
    assert found == expected or (math.isnan(found) and math.isnan(expected))


@given(graphs(OPS), st.sampled_from([8, 30, 1000]))
def test_each_operation_is_generated_once_within_the_width(graph: tuple[Node, list[Node]], width: int) -> None:
    output, leaves = graph
    assume(
        not any(child.is_constant for node in topological_order([output]) for child in node.inputs[:1] if is_sign(node))
    )
    apart = [piece.text for _, piece in written([output], leaves, 0).lines]
    assert len(set(apart)) == len(apart)
    lines, (result,) = written([output], leaves, width)
    texts = [piece.text for _, piece in lines] + [result.text]
    assert operations(texts) == operations(apart)
    assert max(map(len, texts)) <= 3 * (width + len("max(") + len(", "))


def is_sign(node: Node) -> bool:
    """Numbers with a sign are written again and again."""
    return node.op is not None and node.op.name == "neg"


def operations(texts: list[str]) -> int:
    """How many operations pieces of code have: signs without a blank, operators with blanks, calls."""
    return sum(len(re.findall(r"-(?=[\w(])| [-+*] |\w+(?=\()", text)) for text in texts)


X, Y, Z = variable("x"), variable("y"), variable("z")


@pytest.mark.parametrize(
    ("root", "text"),
    [
        (X - (Y - Z), "x - (y - z)"),
        ((X - Y) - Z, "x - y - z"),
        (X * (Y + Z), "x * (y + z)"),
        (X * (Y * Z), "x * (y * z)"),
        (X * Y + Z, "x * y + z"),
        (-(X * Y), "-(x * y)"),
        (-X * Y, "-x * y"),
        (X - (-Y), "x - -y"),
        (get_op("neg")(-X), "-(-x)"),
        (get_op("max")(X + Y, -Z), "max(x + y, -z)"),
    ],
)
def test_brackets_only_where_precedence_requires_them(root: Node, text: str) -> None:
    assert written([root], [X, Y, Z], 100).results[0].text == text


def test_lines_have_the_names_of_their_intermediates() -> None:
    x, y = variable("x"), variable("y")
    product, elsewhere = x * y, x - y
    names = {leaf: Fragment(leaf.text) for leaf in (x, y)}
    lines, (result,) = straight_line_code(
        [product + 1], names, write, 1000, line_names={product: "area", elsewhere: "unused"}
    )
    assert [(name, piece.text) for name, piece in lines] == [("area", "x * y")]
    assert result.text == "area + 1"


def test_common_subexpressions_are_assigned_once() -> None:
    x, y = variable("x"), variable("y")
    atan = get_op("atan")
    lines, results = written([atan(x * y) - x * y, atan(x * y), x], [x, y], 100)
    assert [(name, piece.text) for name, piece in lines] == [("t0", "x * y"), ("t1", "atan(t0)")]
    assert [result.text for result in results] == ["t1 - t0", "t1", "x"]


@pytest.mark.slow
def test_a_long_chain_needs_no_recursion_and_linear_size() -> None:
    x = variable("x")
    output = x
    for _ in range(20_000):
        output = x - output
    lines, _ = written([output], [x], 60)
    assert sum(len(piece.text) for _, piece in lines) < 40 * 20_000
