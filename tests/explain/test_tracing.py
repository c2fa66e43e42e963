"""The trace says what the passes did."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.tracing import trace
from autodiff_cli.expression import Expression, parse
from autodiff_cli.graph.node import Node
from tests.graphs import graphs

POINTS = st.fixed_dictionaries(dict.fromkeys("xyz", st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0, -3.25, 800.0])))


def traced(graph: tuple[Node, list[Node]], point: dict[str, float], wrt: str | None = None) -> Trace:
    output, leaves = graph
    return trace(Expression(output, {leaf.text: leaf for leaf in leaves}), point, wrt)


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


@given(graphs(), POINTS)
def test_the_contributions_to_a_node_sum_to_its_adjoint(
    graph: tuple[Node, list[Node]], point: dict[str, float]
) -> None:
    found = traced(graph, point)
    totals = {given.to: given.total for step in found.backward for given in step.contributions}
    for node, total in totals.items():
        adjoint = found.adjoints[node]
        assert adjoint is not None
        assert same(total, adjoint)


@given(graphs(), POINTS)
def test_every_contribution_is_local_times_adjoint_and_adds_to_the_total(
    graph: tuple[Node, list[Node]], point: dict[str, float]
) -> None:
    totals: dict[int, float] = {}
    for step in traced(graph, point).backward:
        for given_ in step.contributions:
            assert given_.amount == 0 if given_.is_structural_zero else same(given_.amount, given_.local * step.adjoint)
            assert same(given_.total, totals.get(given_.to, 0.0) + given_.amount)
            totals[given_.to] = given_.total


@given(graphs(), POINTS)
def test_a_node_contributes_only_after_all_its_users(graph: tuple[Node, list[Node]], point: dict[str, float]) -> None:
    found = traced(graph, point)
    done: set[int] = set()
    for step in found.backward:
        users = [
            i for i, inputs in enumerate(found.tape.inputs) if step.node in inputs and found.adjoints[i] is not None
        ]
        assert done.issuperset(users)
        assert all(given_.use <= given_.uses for given_ in step.contributions)
        done.add(step.node)


@given(graphs(), POINTS)
def test_contributions_go_to_what_a_variable_reaches_and_nowhere_else(
    graph: tuple[Node, list[Node]], point: dict[str, float]
) -> None:
    found = traced(graph, point, "x")
    x = found.tape.index.get(found.expression.leaves["x"])
    reached = [False] * len(found.tape)
    for i, inputs in enumerate(found.tape.inputs):
        reached[i] = i == x or any(reached[j] for j in inputs)
    assert [adjoint is not None for adjoint in found.adjoints] == reached
    for step in found.backward:
        assert [given_.to for given_ in step.contributions] == [j for j in found.tape.inputs[step.node] if reached[j]]


@given(graphs(), POINTS)
def test_leaving_out_variables_does_not_change_the_derivative_towards_others(
    graph: tuple[Node, list[Node]], point: dict[str, float]
) -> None:
    everything, only = traced(graph, point).gradient, traced(graph, point, "y").gradient
    assert [*only] == ["y"]
    assert same(only["y"], everything["y"])


def test_the_worked_example_step_by_step() -> None:
    found = trace(parse("x*y + sin(x)"), {"x": 2.0, "y": 3.0})
    assert found.labels == ["x", "y", "x*y", "sin(x)", "x*y + sin(x)"]
    assert [(step.op.name, step.value) for step in found.forward] == [
        ("mul", 6.0),
        ("sin", math.sin(2)),
        ("add", 6 + math.sin(2)),
    ]
    assert [step.node for step in found.backward] == [4, 3, 2]
    last = [*found.backward][-1].contributions
    assert [(given_.to, given_.local, given_.total) for given_ in last] == [(0, 3.0, 3 + math.cos(2)), (1, 2.0, 2.0)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("where(x > 0, x, log(x - 5))", "the branch not taken"), ("x + 0*log(x - 5)", "a literal zero factor")],
)
def test_structural_zeros_contribute_exactly_0(text: str, reason: str) -> None:
    found = trace(parse(text), {"x": 2.0})
    label = found.labels.index("log(x - 5)")
    assert found.adjoints[label] == 0, reason
    step = next(step for step in found.backward if step.node == label)
    assert [given_.amount for given_ in step.contributions] == [0.0]
    assert found.gradient == {"x": 1.0}


# Below a unit that is off, past a literal zero factor, and in a network whose input is a literal 0.
LOCALS = [
    ("w*0 + b", {"w": 2, "b": 1}, {("w*0 + b", "w*0"): 1, ("w*0 + b", "b"): 1, ("w*0", "w"): 0}),
    ("5*relu(x*w)", {"x": 2, "w": -1}, {("5*relu(x*w)", "relu(x*w)"): 5, ("relu(x*w)", "x*w"): 0, ("x*w", "x"): -1}),
    ("where(c > 0, 3*a, 4*b)", {"c": 1, "a": 1, "b": 1}, {("4*b", "b"): 4, ("where(c > 0, 3*a, 4*b)", "4*b"): 0}),
    ("(sin(x)*y)^0", {"x": 0, "y": 3}, {("sin(x)*y", "sin(x)"): 3, ("sin(x)", "x"): 1}),
    ("max(log(x), 2)", {"x": 2}, {("max(log(x), 2)", "log(x)"): 0, ("log(x)", "x"): 0.5}),
]  # fmt: skip


@pytest.mark.parametrize("arrays", [False, True])
@pytest.mark.parametrize(("text", "point", "expected"), LOCALS)
def test_a_local_derivative_is_the_operations_own_whether_or_not_anything_arrives(
    text: str, point: dict[str, float], expected: dict[tuple[str, str], float], arrays: bool
) -> None:
    found = trace(parse(f"v: 2; {text} + 0*sum(v)"), {**point, "v": [0, 0]}) if arrays else trace(parse(text), point)
    locals_ = {
        (found.labels[step.node], found.labels[given_.to]): given_.local
        for step in found.backward
        for given_ in step.contributions
    }
    assert {edge: float(locals_[edge]) for edge in expected} == expected


def test_a_sum_contributes_to_a_term_that_is_only_a_zero_factor() -> None:
    found = trace(parse("w*0 + b"), {"w": 2.0, "b": 1.0})
    assert found.adjoints[found.labels.index("w*0")] == 1
    assert found.gradient == {"w": 0.0, "b": 1.0}


def test_a_variable_that_the_output_does_not_need_has_the_derivative_0() -> None:
    assert trace(parse("a = y^2; x"), {"x": 1.0, "y": 1.0}).gradient == {"y": 0.0, "x": 1.0}


@pytest.mark.slow
def test_a_chain_of_30000_operations() -> None:
    found = trace(parse("sin(" * 30_000 + "x" + ")" * 30_000), {"x": 1.0})
    assert sum(1 for _ in found.backward) == 30_000
    assert found.warnings == []
