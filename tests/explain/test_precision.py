"""Digits: those that floats lose, and those that more precision gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from autodiff_cli.explain.precision import precise_trace
from autodiff_cli.explain.steps import trace
from autodiff_cli.expression import Expression, parse
from autodiff_cli.graph.node import Node
from tests.graphs import SMOOTH, graphs

# expression, point, the sub-expression that loses digits, and how many of 16
LOST = [
    ("x - y", {"x": 0.1234567, "y": 0.1234566999}, "x - y", 9),
    ("(1 + x) - 1", {"x": 1e-12}, "1 + x - 1", 12),
    ("(1 - cos(x))/x^2", {"x": 1e-7}, "1 - cos(x)", 14),
    ("sqrt(x + 1) - sqrt(x)", {"x": 1e13}, "sqrt(x + 1) - sqrt(x)", 14),
    ("sin(x)*2", {"x": 3.141592653589793}, "sin(x)", 16),
]
KEPT = [
    ("x - y", {"x": 3.0, "y": 2.9}),
    ("x^2 - 4", {"x": 2.0}),
    ("(x - 0.3)^2", {"x": 0.3}),
    ("exp(x)", {"x": 700.0}),
    ("where(x > 0, x, (x + 1e-15) - x)", {"x": 1.3}),
    ("log(x)", {"x": -1.0}),
]


@pytest.mark.parametrize(("text", "point", "label", "digits"), LOST)
def test_digits_that_cancel_are_counted_where_most_are_lost(
    text: str, point: dict[str, float], label: str, digits: int
) -> None:
    found = trace(parse(text), point)
    (warning,) = [warning for warning in found.warnings if warning.kind == "precision"]
    assert found.labels[warning.node] == label
    assert f"spoil {digits} of the 16 digits" in warning.message
    assert label in warning.message


@pytest.mark.parametrize(("text", "point"), KEPT)
def test_nothing_is_said_where_digits_are_kept(text: str, point: dict[str, float]) -> None:
    assert "precision" not in {warning.kind for warning in trace(parse(text), point).warnings}


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(graphs(ops=SMOOTH, names="xy", most=8))
def test_more_digits_begin_with_the_same_ones(graph: tuple[Node, list[Node]]) -> None:
    output, leaves = graph
    expression = Expression(output, {leaf.text: leaf for leaf in leaves})
    point = {"x": parse("0.37").output, "y": parse("-1.25").output}
    fewer, more = (precise_trace(expression, point, ("x", "y"), digits) for digits in (30, 60))
    for a, b in zip([fewer.value, *fewer.gradient.values()], [more.value, *more.gradient.values()], strict=True):
        mantissa, _, exponent = a.partition("e")
        assert b.startswith(mantissa[:-3])
        assert b.partition("e")[2] == exponent
    floats = trace(expression, {"x": 0.37, "y": -1.25})
    assert float(fewer.value) == pytest.approx(floats.value, rel=1e-9, abs=1e-9)


def test_what_is_said_of_floats_does_not_hold_for_more_digits() -> None:
    point = {"x": parse("1000").output, "y": parse("1e-20").output}
    found = precise_trace(parse("exp(x)*((1 + y) - 1)"), point, ("x", "y"), 20)
    assert found.warnings == []
    assert found.value.startswith("1.970071114017046993")


def test_what_is_beyond_even_these_numbers_is_infinite_with_a_warning() -> None:
    found = precise_trace(parse("exp(exp(exp(x)))"), {"x": parse("20").output}, ("x",), 20)
    assert found.value == "inf"
    assert found.warnings[0].kind == "overflow"
