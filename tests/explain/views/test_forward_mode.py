"""Forward mode, step by step, agrees with reverse mode and says what both cost."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodiff_cli.explain.tracing import trace
from autodiff_cli.explain.views import ForwardMode, OperationCounts
from autodiff_cli.expression import Expression, parse
from autodiff_cli.graph.node import Node
from autodiff_cli.language.errors import ExpressionError
from tests.graphs import SMOOTH, graphs

POINTS = st.fixed_dictionaries(dict.fromkeys("xyz", st.floats(-1.5, 1.5)))


@settings(deadline=None)
@given(graphs(SMOOTH), POINTS)
def test_a_tangent_is_the_sum_of_what_its_inputs_add_and_the_last_is_the_derivative(
    graph: tuple[Node, list[Node]], point: dict[str, float]
) -> None:
    output, leaves = graph
    found = trace(Expression(output, {leaf.text: leaf for leaf in leaves}), point)
    mode = ForwardMode(found, "x")
    for step in mode.steps:
        assert step.tangent == mode.tangents[step.forward.node]
        assert step.tangent == sum(carried.amount for carried in step.contributions)
        for carried in step.contributions:
            assert carried.tangent == mode.tangents[carried.input]
            assert carried.amount == carried.local * carried.tangent
    assert mode.tangents[-1] == pytest.approx(found.gradient["x"], rel=1e-9, abs=1e-12)


def test_the_worked_example() -> None:
    mode = ForwardMode(trace(parse("x*y + sin(x)"), {"x": 2.0, "y": 3.0}), "x")
    assert mode.tangents == [1.0, 0.0, 3.0, math.cos(2), 3 + math.cos(2)]
    assert (mode.work, mode.all_variables, mode.reverse) == (
        OperationCounts(4, 1),
        OperationCounts(6, 1),
        OperationCounts(5, 1),
    )


def test_one_variable_costs_the_same_in_both_modes_and_many_do_not() -> None:
    names = [f"x{i}" for i in range(50)]
    mode = ForwardMode(trace(parse(f"sin({'*'.join(names)})"), dict.fromkeys(names, 1.0)), "x0")
    assert mode.reverse.multiplications == 2 * 49 + 1
    assert mode.work.multiplications == 50
    assert mode.all_variables.multiplications == 49 + sum(range(1, 50)) + 50


def test_arrays_are_refused_in_words() -> None:
    with pytest.raises(ExpressionError, match="arrays"):
        ForwardMode(trace(parse("sum(v)"), {"v": [1.0, 2.0]}), "v")
