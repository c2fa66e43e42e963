"""What is structurally absent contributes exactly 0, in every mode and kind of number, whatever stands there."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.autodiff.sweeps import forward, reverse, tangents
from autodiff_cli.expression import parse
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.gradient import tangents as tangent_graphs
from autodiff_cli.graph.node import ONE, Node, constant, variable
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.arrays import ARRAYS
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops.arithmetic import clip, floor, max_, min_, relu, where
from autodiff_cli.ops.functions import exp, hardtanh, log, relu6, sqrt
from tests.each import each
from tests.support import run_cli

x, y = variable("x"), variable("y")


def by_reverse(output: Node, point: dict[str, float]) -> float:
    tape = Tape((output,))
    return reverse(tape, FLOATS, forward(tape, FLOATS, point), 1.0)[tape.index[x]] or 0.0


def by_forward(output: Node, point: dict[str, float]) -> float:
    tape = Tape((output,), [x])
    return tangents(tape, FLOATS, forward(tape, FLOATS, point), {"x": 1.0})[-1] or 0.0


def by_gradient_graph(output: Node, point: dict[str, float]) -> float:
    return forward(Tape(gradient_nodes(output, [x])), FLOATS, point)[-1]


def by_tangent_graph(output: Node, point: dict[str, float]) -> float:
    return forward(Tape((*tangent_graphs([output], {x: ONE}),)), FLOATS, point)[-1]


def by_arrays(output: Node, point: dict[str, float]) -> float:
    columns = {name: np.array([value]) for name, value in point.items()}
    with ignore_float_errors():
        return float(np.squeeze(forward(Tape(gradient_nodes(output, [x])), ARRAYS, columns)[-1]))


WAYS = [by_reverse, by_forward, by_gradient_graph, by_tangent_graph, by_arrays]

ABSENT = {
    "where leaves sqrt at 0": (where(x > 0, sqrt(x), 5 * x), {"x": 0.0}, 5.0),
    "where leaves log below 0": (where(x > 0, log(x), 2 * x), {"x": -1.0}, 2.0),
    "an overflow behind where": (where(x > 0, x, exp(exp(-x))), {"x": 800.0}, 1.0),
    "a chain of operations behind where": (where(x > 0, x, exp(sqrt(log(x)))), {"x": 1.0}, 1.0),
    "nested where": (where(x > 0, where(x > 1, log(x - 1), 3 * x), sqrt(x)), {"x": 1.0}, 3.0),
    "two where on one branch": (where(x > 0, sqrt(x), 1) * where(x > 0, log(x), 4 * x), {"x": 0.0}, 4.0),
    "max leaves minus infinity": (max_(log(x), 3 * x), {"x": 0.0}, 3.0),
    "min leaves infinity": (min_(1 / x, 3 * x), {"x": 0.0}, 3.0),
    "clip at its lower end": (clip(log(x), -3, 3), {"x": 0.0}, 0.0),
    "relu blocks": (relu(log(x)) + x, {"x": 0.0}, 1.0),
    "composites of choices": (relu6(log(x)) + hardtanh(1 / x) + x, {"x": 0.0}, 1.0),
    "a literal zero factor": (0 * sqrt(x) + x, {"x": 0.0}, 1.0),
    "a literal zero divided": (constant("0") / sqrt(x) + x, {"x": 1.0}, 1.0),
    "a literal zero exponent": (sqrt(x) ** 0 + x, {"x": 0.0}, 1.0),
    "a root above relu": (sqrt(relu(x)), {"x": -1.0}, 0.0),
    "a logarithm above max": (log(max_(x, 0)), {"x": -1.0}, 0.0),
    "a root above clip": (sqrt(clip(x, 0, 1)), {"x": -1.0}, 0.0),
    "a root above where": (sqrt(where(x > 0, x, 0)) + x, {"x": -1.0}, 1.0),
    "a step above a root": (floor(sqrt(x)), {"x": 0.0}, 0.0),
    "a comparison above a root": ((sqrt(x) > 0) * 2, {"x": 0.0}, 0.0),
}


@each("way", WAYS, ids=lambda way: way.__name__)
@each("case", ABSENT, ids=str)
def test_absent(case: str, way: Callable[[Node, dict[str, float]], float]) -> None:
    output, point, slope = ABSENT[case]
    assert way(output, point) == slope


# Elsewhere IEEE holds: zero times infinity is nan, never a finite guess.
HONEST = {
    "sqrt(x)^2 at 0": (sqrt(x) ** 2, {"x": 0.0}),
    "a taken branch above it": (where(x >= 0, sqrt(x), 1) ** 2, {"x": 0.0}),
    "a variable that is 0": (y * sqrt(x), {"x": 0.0, "y": 0.0}),
    "max of nan": (max_(log(x), x), {"x": -1.0}),
}


@each("way", WAYS, ids=lambda way: way.__name__)
@each("case", HONEST, ids=str)
def test_honest(case: str, way: Callable[[Node, dict[str, float]], float]) -> None:
    assert math.isnan(way(*HONEST[case]))


@each("way", [by_gradient_graph, by_arrays], ids=lambda way: way.__name__)
def test_second_derivatives_too(way: Callable[[Node, dict[str, float]], float]) -> None:
    (slope,) = gradient_nodes(where(x > 0, x**3, log(x) * sqrt(x)), [x])
    assert way(slope, {"x": 2.0}) == 12.0
    (slope,) = gradient_nodes(where(x > 0, log(x) * sqrt(x), x**3), [x])
    assert way(slope, {"x": 0.0}) == 0.0


@each("cancelling", ["x%x", "x/x", "x - x", "atan2(x, x)"])
@each("text", ["log(x) - ({})", "log(x) + ({})", "({}) + log(x)"])
def test_what_cancels_within_one_operation_costs_no_digits(text: str, cancelling: str) -> None:
    f = parse(text.format(cancelling))
    graphs = Tape([*gradient_nodes(f.output, [f.leaves["x"]]), f.derivative("x").output])
    for point in (1e-40, 1e17):
        values = forward(graphs, FLOATS, {"x": point})
        assert [values[i] for i in graphs.outputs] == pytest.approx([1 / point] * 2, rel=1e-15, abs=0)


ARRAYS_ABSENT = {
    "where(s > 0, s, sum(log(v)))": ({"s": 1, "v": [0, 1]}, {"s": 1, "v": [0, 0]}),
    "where(s > 0, s, dot(sqrt(v), log(v)))": ({"s": 1, "v": [0, 1]}, {"s": 1, "v": [0, 0]}),
    "where(s > 0, s, max(1/v) + (1/v)[0])": ({"s": 1, "v": [0, 1]}, {"s": 1, "v": [0, 0]}),
    "sum(where(v > 0, v, s*log(v)))": ({"s": 2, "v": [2, 0.5]}, {"s": 0, "v": [1, 1]}),
    "sum(where(v > 0, v, W @ log(v)))": (
        {"v": [1, 2], "W": [[1, 2], [3, float("inf")]]},
        {"v": [1, 1], "W": [[0, 0], [0, 0]]},
    ),
    "s + 0*sum(log(v))": ({"s": 2, "v": [0, 1]}, {"s": 1, "v": [0, 0]}),
}


@each("text", ARRAYS_ABSENT)
def test_unused_branches_contribute_nothing_through_array_operations(text: str) -> None:
    point, expected = ARRAYS_ABSENT[text]
    found = parse(text).grad(point)
    assert {name: np.asarray(slope).tolist() for name, slope in found.items()} == expected


def test_a_derivative_has_the_shape_of_its_variable_also_where_it_is_absent() -> None:
    f = parse("s^2 + where(s > 0, s, sum(v))")
    assert f.hvp({"s": 1}, s=1, v=[1, 2])["v"].tolist() == [0, 0]
    assert parse("v: 2; s + 0*sum(v)").grad(s=[1, 2, 3], v=[1, 2])["v"].shape == (3, 2)


@pytest.mark.slow
def test_many_arguments_of_max_are_a_matter_of_one_pass() -> None:
    names = [f"x{k}" for k in range(3000)]
    slopes = parse(f"max({', '.join(names)})").grad({name: float(k % 2999) for k, name in enumerate(names)})
    assert {name: slope for name, slope in slopes.items() if slope} == {"x2998": 1}


def test_a_constant_exponent_brings_in_no_logarithm() -> None:
    tape = Tape((x**3,))
    values = forward(tape, FLOATS, {"x": -2.0})
    adjoints = reverse(tape, FLOATS, values, 1.0)
    assert adjoints[tape.index[x]] == 12.0
    assert [tape.is_active[i] for i, node in enumerate(tape.nodes) if node.is_constant] == [False]
    assert [adjoints[i] for i, node in enumerate(tape.nodes) if node.is_constant] == [None]


# Formulas over arrays, with the element that takes part named; what does not is infinite or undefined where it stands.
AMONG_ARRAYS = {
    "max(log(v))": ([0.0, 2.0], [0.0, 0.5]),
    "min(1/v)": ([0.0, 2.0], [0.0, -0.25]),
    "max(transpose([[1], [2]]*log(v))[1])": ([0.0, 2.0], [0.0, 1.0]),
    "sqrt(v)[1]": ([0.0, 4.0], [0.0, 0.25]),
    "[sqrt(v[0]), sqrt(v[1])][1]": ([0.0, 4.0], [0.0, 0.25]),
    "max([log(v[0]), v[1]])": ([0.0, 2.0], [0.0, 1.0]),
    "concat(1/v, [3])[1]": ([0.0, 2.0], [0.0, -0.25]),
    "[v, sqrt(v)][1, 1]": ([0.0, 4.0], [0.0, 0.25]),
    "sum(where(v > 0, [sqrt(v[0]), sqrt(v[1])], 0))": ([0.0, 4.0], [0.0, 0.25]),
    "sum(where(v > 0, transpose([sqrt(v), v]), 0)[1])": ([0.0, 4.0], [0.0, 1.0]),
    "sum(max([[1], [2]]*log(v), 0))": ([0.0, 2.0], [0.0, 1.5]),
}


@each("text", AMONG_ARRAYS)
def test_what_is_absent_among_the_elements_of_arrays(text: str) -> None:
    at, expected = AMONG_ARRAYS[text]
    f = parse(f"v: 2; {text}")
    assert f.grad(v=at)["v"].tolist() == expected
    assert f.trace(v=at).gradient["v"].tolist() == expected
    assert f.derivative("v")(v=at).tolist() == expected
    assert parse(str(f.derivative("v")))(v=at).tolist() == expected
    assert f.grad(v=[at, at])["v"].tolist() == [expected, expected]


def test_what_is_absent_among_arrays_in_second_derivatives() -> None:
    assert parse("v: 2; max(log(v))").hessian(v=[0, 2]).tolist() == [[0, 0], [0, -0.25]]
    assert parse("v: 2; sqrt(v)[1]").hessian(v=[0, 1]).tolist() == [[0, 0], [0, -0.25]]
    assert parse("v: 2; sum(sqrt(v))").hessian(v=[0, 1]).tolist()[1] == [0, -0.25]


@each(
    ("text", "expected"),
    [
        ("sum(sqrt(relu(v)))", 0.5),
        ("sum(log([max(v[0], 0), v[1]]))", 1),
        ("sum(sqrt(transpose([max(v, 0), v])[1]))", 1),
        ("sum(sqrt(where(v > 0, v, 0)*[[1], [4]]))", 1.5),
    ],
)
def test_what_is_absent_among_arrays_in_forward_mode(text: str, expected: float) -> None:
    f = parse(f"v: 2; {text}")
    assert f.jvp({"v": [0, 1]}, v=[-1, 1])[1] == expected
    assert f.jvp({"v": [0, 1]}, v=[[-1, 1], [-1, 1]])[1].tolist() == [expected, expected]


@each("text", ["[x, y]", "concat([x], [y])", "[[x, 2], [3, y]]", "where([x, y] > 0, [x, y], 0)"])
def test_an_element_that_does_not_move_is_absent(text: str) -> None:
    assert parse(f"sum(sqrt({text}))").jvp({"x": 1}, x=1, y=0)[1] == 0.5


@each("text", ["norm([x, y])", "[x, y] @ [y, x]", "dot([x, 1], [1, y])", "prod([x, y, x])", "logsumexp([x, y])",
               "max([x, y])", "mean([1/x, y])", "sum([x, y]*[y, 2])"])  # fmt: skip
def test_forward_mode_ignores_elements_that_do_not_move_wherever_they_are(text: str) -> None:
    """Along one variable it computes the derivative that reverse mode computes, at infinity and beyond overflow too."""
    f = parse(text)
    for x, y in itertools.product([0.0, -1.0, 1e300, math.inf], repeat=2):
        for name, slope in f.grad(x=x, y=y).items():
            assert f.jvp({name: 1}, x=x, y=y)[1] == pytest.approx(slope, nan_ok=True), (name, x, y)


@each(
    ("text", "masked"),
    [
        ("v: 3; M: 3x2; sum(where(v > 0, log(transpose(sqrt(M))), 0))", np.s_[1]),
        ("v: 2; M: 2x3; sum(where(v > 0, transpose(sqrt(M)), 0))", np.s_[1]),
        ("v: 3; M: 2x3; sum(where(v > 0, concat(sqrt(M), sqrt(M)), 0))", np.s_[:, 1]),
        ("v: 3; M: 2x3; sum(where(v > 0, [sqrt(M[0]), sqrt(M[1])], 0))", np.s_[:, 1]),
    ],
)
def test_a_condition_on_rows_or_columns_holds_for_all_their_elements(text: str, masked: Any) -> None:
    """Also behind an operation that rearranges elements."""
    f = parse(text)
    matrix = np.full(f.shapes["M"], 4.0)
    matrix[masked] = 0.0  # where the slope of the root is infinite
    slopes = f.grad(v=[1, -1, 2][: f.shapes["v"][0]], M=matrix)["M"]
    assert not slopes[masked].any()
    assert ((slopes > 0) == (matrix > 0)).all()


def test_a_jacobian_has_zeros_beside_what_is_infinite() -> None:
    found = parse("[sqrt(x), y]").jacobian(x=0, y=1)
    assert found["x"].tolist() == [math.inf, 0]
    assert found["y"].tolist() == [0, 1]
    assert parse("v: 2; sqrt(v)").jacobian(v=[0, 1])["v"].tolist() == [[math.inf, 0], [0, 0.5]]


@each("text", ["sum(sqrt(v))", "norm(sqrt(v))", "log(v[0]) + v[1]^3", "max(sqrt(v[0]), 1)*v[1]^2"])
def test_products_along_one_element_are_its_derivatives_where_others_are_infinite(text: str) -> None:
    """Also where directions are a batch. What the direction leaves out contributes exactly 0."""
    f = parse(f"v: 2; {text}")
    for at in ([0, 1], [0, 4]):
        matrix = f.hessian(v=at)
        for direction, row, slope in zip(np.eye(2), matrix, f.grad(v=at)["v"], strict=True):
            np.testing.assert_allclose(f.hvp({"v": direction}, v=at)["v"], row)
            np.testing.assert_allclose(f.jvp({"v": direction}, v=at)[1], slope)
        np.testing.assert_allclose(f.hvp({"v": np.eye(2)}, v=at)["v"], matrix)
        np.testing.assert_allclose(f.jvp({"v": np.eye(2)}, v=at)[1], f.grad(v=at)["v"])


def test_a_direction_that_leaves_out_an_infinite_slope_is_not_called_inaccurate() -> None:
    output = run_cli("grad 'v: 2; sum(sqrt(v))' --v [0,1] --direction v=[0,1] --json").json
    assert output["directional"] == 0.5
    assert [warning["kind"] for warning in output["warnings"]] == ["singular"]


def test_slopes_of_nested_branches_are_those_of_the_branch_that_is_taken() -> None:
    chance = Random(4)

    def drawn(depth: int) -> str:
        if depth == 0:
            return chance.choice(["x", "y", "x*y", "sqrt(x)", "1/y", "y^2", "log(x)*sqrt(x)", "3*x"])
        condition = chance.choice(["x > 0", "y > 1", "x > y", "y > 0"])
        branches = f"{drawn(depth - chance.choice([1, depth]))}, {drawn(depth - chance.choice([1, depth]))}"
        return f"where({condition}, {branches})" + chance.choice(["", "", f" + {drawn(depth - 1)}"])

    def taken(text: str, point: dict[str, float]) -> str:
        """The sum of the branches that are taken."""
        node = ast.parse(text.replace("^", "**"), mode="eval").body
        while any(isinstance(part, ast.Call) and part.func.id == "where" for part in ast.walk(node)):
            node = Taken(point).visit(node)
        return ast.unparse(node).replace("**", "^")

    for text in (drawn(2) for _ in range(25)):
        f = parse(f"{text} + 0*x + 0*y")
        slopes = {name: f.derivative(name) for name in ("x", "y")}
        for x, y in itertools.product((-1.0, 0.5, 2.0), (-2.0, 0.7, 3.0)):
            point = {"x": x, "y": y}
            plain = parse(taken(f.text, point)).grad(point)
            assert f.grad(point) == pytest.approx(plain, nan_ok=True), (text, point)
            found = {name: slope.value({leaf: point[leaf] for leaf in slope.leaves}) for name, slope in slopes.items()}
            assert found == pytest.approx(plain, nan_ok=True), (text, point)


class Taken(ast.NodeTransformer):
    """Replaces choices by the branch that is taken at a point."""

    def __init__(self, point: dict[str, float]) -> None:
        self.point = point

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not isinstance(node.func, ast.Name) or node.func.id != "where":
            return node
        condition, first, second = node.args
        return first if eval(ast.unparse(condition), {}, self.point) else second
