"""Bounds over intervals hold everywhere inside."""

from __future__ import annotations

import itertools
import json
import math
import random
import sys

import pytest
from hypothesis import given

from autodiff_cli.explain import precision
from autodiff_cli.explain.accuracy import VALUE
from autodiff_cli.explain.precision import Interval, enclosure
from autodiff_cli.expression import Expression, parse
from autodiff_cli.graph.node import Node
from autodiff_cli.numbers.ball_arithmetic import ONE, from_float
from tests.each import amount, each, examples
from tests.graphs import graphs
from tests.support import run_cli

Ends = tuple[float, float]


def bounds(expression: Expression, ends: dict[str, Ends]) -> dict[str, Ends]:
    intervals: dict[str, Interval] = {name: (from_float(low), from_float(high)) for name, (low, high) in ends.items()}
    return enclosure(expression, intervals, expression.variables).bounds


@each(
    ("text", "ends"),
    [
        ("x^2*sin(x)", {"x": (1.9, 2.1)}),
        ("x*y - log(y)", {"x": (-1.0, 2.0), "y": (1.0, 3.0)}),
        ("exp(x)/(1 + y)", {"x": (-3.0, 0.1), "y": (0.3, 7.0)}),
        ("sqrt(x) + atan(x)", {"x": (0.1, 0.9)}),
    ],
)
def test_numbers_that_rise_or_fall_have_exact_bounds(text: str, ends: dict[str, Ends]) -> None:
    f = parse(text)
    corners = [f.value_and_grad(dict(zip(ends, corner, strict=True))) for corner in itertools.product(*ends.values())]
    for name, (low, high) in bounds(f, ends).items():
        numbers = [value if name == VALUE else slopes[name] for value, slopes in corners]
        assert (low, high) == pytest.approx((min(numbers), max(numbers)), rel=1e-14)


def test_bounds_of_monotonic_functions_need_no_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert bounds(parse("x^2"), {"x": (1.5, 2.5)}) == {VALUE: (2.25, 6.25), "x": (3.0, 5.0)}


@pytest.mark.slow
@each(
    ("text", "ends", "value", "slope"),
    [
        ("x^2", (1.5, 2.5), (2.25, 6.25), (3.0, 5.0)),
        ("x^3", (-1.0, 2.0), (-1.0, 8.0), (0.0, 12.0)),
        ("exp(x)", (0.0, 1.0), (1.0, math.e), (1.0, math.e)),
        ("x*(1 - x)", (0.0, 1.0), (0.0, 0.25), (-1.0, 1.0)),
        ("abs(x)", (-1.0, 1.0), (0.0, 1.0), (-1.0, 1.0)),
        ("floor(x) + relu(x)", (-1.5, 1.5), (-2.0, 2.5), (0.0, 1.0)),
        ("where(x > 0, x^2, -x)", (-1.0, 2.0), (0.0, 4.0), (-1.0, 4.0)),
        ("x % 1", (0.25, 0.75), (0.25, 0.75), (1.0, 1.0)),
        ("sqrt(x)", (0.0, 1.0), (0.0, 1.0), (0.5, math.inf)),
        ("acos(x)", (-1.0, 1.0), (0.0, math.pi), (-math.inf, -1.0)),
    ],
)
def test_bounds_are_close_to_the_least_and_the_largest(text: str, ends: Ends, value: Ends, slope: Ends) -> None:
    found = bounds(parse(text), {"x": ends})
    assert found[VALUE] == pytest.approx(value, abs=1e-8)
    assert found["x"] == pytest.approx(slope, abs=1e-8)
    assert found[VALUE][0] <= value[0] + 1e-15
    assert found[VALUE][1] >= value[1] - 1e-15


@examples(25)
@given(graphs(names="xy", most=7))
def test_value_and_gradient_lie_between_the_bounds(graph: tuple[Node, list[Node]]) -> None:
    output, leaves = graph
    expression = Expression(output, {leaf.text: leaf for leaf in leaves})
    ends = {"x": (-0.75, 1.25), "y": (0.5, 0.625)}
    found = bounds(expression, {name: ends[name] for name in expression.variables})
    parts = (0.0, 0.3, 0.5, 0.875, 1.0)[:: amount(2, 1, 1)]
    inside = [[low + (high - low) * part for part in parts] for low, high in ends.values()]
    for x, y in itertools.product(*inside):
        point = {"x": x, "y": y}
        value, slopes = expression.value_and_grad({name: point[name] for name in expression.variables})
        for name, number in {VALUE: value, **slopes}.items():
            low, high = found[name]
            slack = 1e-9 * max(1.0, abs(number))
            assert math.isnan(number) or low - slack <= number <= high + slack, (name, point, number, low, high)


# Where slopes or values jump at 2 or on the way there; and how far below and above the bounds may be.
AT_TIES = [
    "max(x, 2)", "min(x^2, 4)*x", "max(x, 2, 4 - x)", "max(x, x)", "max(x, y)", "max(x, y, 2)*y", "min(x - y, y - x)",
    "abs(x - 2)*x", "relu(x - y) + x", "clip(x, 1.95, 2.05)", "hardtanh(x - 1)*x", "leaky_relu(x - 2)", "relu6(3*x)",
    "x % 2", "mod(x, 0.5)", "(x*y) % 0.3", "x % (y - 1)", "floor(x) + x", "ceil(x*y)", "round(x + 0.5)*x",
    "sign(x - 2)*x", "heaviside(x - 2) + x", "where(x > 2, x - 10, x)", "where(x == 2, 100, x)", "1 - (x > 2)",
    "where(1/(x - 2) > 9000, 7, 0)", "where(not 1/(x - 2) > -3, x, y)", "(x > 2 and y < 2)*x", "atan2(x - 2, -1)",
    "max(floor(x), x - 0.5)", "where(x > y, x^2, x*y)", "max(sqrt(x - 1.5), x % 1)",
]  # fmt: skip
PLACES = [1.9, 1.95, 1.99999, 2 - 1e-9, 2 - 2**-52, 2.0, 2 + 2**-51, 2 + 1e-9, 2.0001, 2.05, 2.1]


@each("text", AT_TIES, sampled=True)
def test_bounds_hold_at_ties_and_jumps(text: str) -> None:
    f = parse(text)
    found = bounds(f, dict.fromkeys(f.variables, (1.9, 2.1)))
    for place in itertools.product(PLACES[:: amount(5, 1, 1)], repeat=len(f.variables)):
        point = dict(zip(f.variables, place, strict=True))
        value, slopes = f.value_and_grad(point)
        for name, number in {VALUE: value, **slopes}.items():
            low, high = found[name]
            assert math.isfinite(low)
            assert low - 1e-13 <= number <= high + 1e-13, (name, point)


@pytest.mark.slow
@each(
    ("text", "ends", "value"),
    [
        ("gammainc(a, x)", {"a": (0.5, 5.0), "x": (3.0, 3.5)}, (0.18473675547622792, 0.9918490284064973)),
        ("gammaincc(2, x)", {"x": (3.0, 4000.0)}, (0.0, 4 * math.exp(-3))),
        ("gammaincc(a, x)", {"a": (1.0, 2.0), "x": (3.0, 4.0)}, (math.exp(-4), 4 * math.exp(-3))),
    ],
    sampled=True,
)
def test_bounds_of_monotonic_functions_of_two_numbers_are_their_ends(
    text: str, ends: dict[str, Ends], value: Ends
) -> None:
    assert bounds(parse(text), ends)[VALUE] == pytest.approx(value, rel=1e-8)


FROM_0 = ["gammaincc(x, 2)", "gammainc(2, x)", "wofz_real(1, x)", "besselj(0.5, x)", "gammainc(2, x^2)/sqrt(x)"]


def test_bounds_exist_from_the_edge_of_a_domain_on_and_not_a_denormal_number_below(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(precision, "_MAX_EVALUATIONS", 200)  # so that the box at the edge is not tiny
    for text in FROM_0:
        at_edge, below = (bounds(parse(text), {"x": (low, 1e-5)})[VALUE] for low in (5e-324, -5e-324))
        assert all(map(math.isfinite, at_edge)), text
        assert below == (-math.inf, math.inf), text


@pytest.mark.slow
def test_there_are_no_bounds_around_a_point_without_a_value() -> None:
    assert bounds(parse("gammainc(x, 2*x)"), {"x": (0.0, 1.0)})[VALUE] == (-math.inf, math.inf)


@pytest.mark.slow
def test_bounds_of_a_tie_are_those_of_its_sides() -> None:
    assert bounds(parse("max(x, 2)"), {"x": (1.9, 2.1)})["x"] == pytest.approx((0.0, 1.0), abs=1e-8)
    assert bounds(parse("max(x, x^2)"), {"x": (0.5, 2.0)})["x"] == pytest.approx((1.0, 4.0), abs=1e-8)
    tied = enclosure(parse("max(x, y)*z"), {"x": (ONE, ONE), "y": (ONE, ONE), "z": (ONE, ONE + 1)}, ["x", "y", "z"])
    low, high = tied.bounds["x"]
    assert low <= 0.5 <= 1.0 <= high


def test_what_may_be_undefined_has_no_bounds_and_a_warning() -> None:
    document = json.loads(run_cli('grad "1/x" --x=-1..2 --json'))
    assert document["enclosure"] == {"value": ["-inf", "inf"], "x": ["-inf", "inf"]}
    assert [warning["kind"] for warning in document["warnings"]] == ["domain"]


def test_what_has_no_value_has_no_derivative() -> None:
    assert bounds(parse("min(acos(x), x - 9)"), {"x": (15.0, 16.0)})["x"] == (-math.inf, math.inf)


def test_bounds_beyond_all_floats_are_not_infinite_on_both_sides() -> None:
    assert bounds(parse("x^4"), {"x": (1e200, 2e200)})[VALUE] == (sys.float_info.max, math.inf)
    assert bounds(parse("-x^4"), {"x": (1e200, 2e200)})[VALUE] == (-math.inf, -sys.float_info.max)


def test_an_unused_branch_does_no_harm() -> None:
    assert bounds(parse("where(x > 1, x, log(x - 5))"), {"x": (2.0, 3.0)}) == {VALUE: (2.0, 3.0), "x": (1.0, 1.0)}


def test_ends_are_decimals_and_bounds_are_rounded_outwards() -> None:
    document = json.loads(run_cli('grad "x*y" --x 0.1..0.3 --y 1 --json'))
    assert document["variables"] == {"x": [0.1, 0.3], "y": 1.0}
    low, high = document["enclosure"]["value"]
    assert (low, high) == (math.nextafter(0.1, 0), math.nextafter(0.3, 1))
    assert run_cli('grad "x*y" --x 0.1..0.3 --y 1').splitlines()[1] == "with x between 0.1 and 0.3, y = 1"


@each(
    ("words", "message"),
    [
        ('grad "x" --x 3..2', "LOW..HIGH"),
        ('grad "x" --x 1..inf', "finite numbers"),
        ('grad "x" --x 1..', "value of `x`"),
        ('grad "sum(v)" --v 1..2', "has arrays"),
        ('grad "x" --x 1..2 --hessian', "--hessian"),
        ('grad "x" --x 1..2 --precision 30', "--precision"),
        ('grad "x*y" --x 1..2', "no value for `y`"),
        ('trace "x" --x 1..2', "a range here (`1..2`); only `grad` takes grids, and `grad`, `solve`"),
    ],
)
def test_what_is_no_interval_is_refused(words: str, message: str) -> None:
    answer = run_cli(words)
    assert (answer.status, answer) == (2, "")
    assert message in answer.stderr


def test_a_slope_that_is_0_at_one_end_leaves_the_bounds_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_MAX_EVALUATIONS", 200)
    for text in ("x^2", "x^4*3", "exp(-x^2)", "abs(x)", "cosh(x)", "hypot(x, 1)", "relu(x)*2", "x*x", "1 - cos(x)"):
        f = parse(text)
        exact = sorted(f(x=x) for x in (0, 0.75))
        assert bounds(f, {"x": (0, 0.75)})[VALUE] == pytest.approx(exact, rel=1e-15, abs=0), text


CHOICES = ["min(x, y)", "max(x, y)", "min(x, y, z)", "max(z, x, y)"]


@each("text", CHOICES)
def test_slopes_of_choices_over_separate_intervals_are_those_of_their_points(text: str) -> None:
    """One argument is always the smallest one, whatever their signs."""
    formula, chance = parse(text), random.Random(2)
    for _ in range(3):
        lows = dict(zip(formula.variables, chance.sample(range(-4, 5), 3), strict=False))
        ends = {name: (low + 0.125, low + chance.choice([0.25, 0.5, 0.75])) for name, low in lows.items()}
        found = bounds(formula, ends)
        points = [{name: chance.uniform(*pair) for name, pair in ends.items()} for _ in range(20)]
        points += [dict(zip(ends, corner, strict=True)) for corner in itertools.product(*ends.values())]
        slopes = [formula.grad(point) for point in points]
        for name in ends:
            least, most = (end(slope[name] for slope in slopes) for end in (min, max))
            assert found[name] == (least, most), (ends, name)
