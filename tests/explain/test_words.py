"""The steps as someone would say them at a blackboard."""

from __future__ import annotations

from typing import Any

import pytest

from autodiff_cli.explain.steps import trace
from autodiff_cli.explain.words import Words
from autodiff_cli.expression import parse
from autodiff_cli.render.numbers import shows


def forward(text: str, **point: float) -> list[str]:
    found = trace(parse(text), point)
    words = Words(found, shows(6)[1])
    return [words.forward(step) for step in found.forward]


def backward(text: str, **point: Any) -> list[str]:
    found = trace(parse(text), point)
    words = Words(found, shows(6)[1])
    said = []
    for step in found.backward:
        said += [words.backward(step), *(words.contribution(step, given) for given in step.contributions)]
    return said


# fmt: off
FORWARD = [
    ("x*y",                {"x": 2, "y": 3},   "x*y = 2 × 3 = 6"),
    ("x - y",              {"x": 2, "y": -3},  "x - y = 2 - (-3) = 5"),
    ("x*y",                {"x": -2, "y": -3}, "x*y = -2 × (-3) = 6"),
    ("x^y",                {"x": -2, "y": 3},  "x^y = (-2)^3 = -8"),
    ("-x",                 {"x": -2},          "-x = -(-2) = 2"),
    ("sin(x)",             {"x": 2},           "sin(x) = sin(2) = 0.909297"),
    ("max(x, 1, y)",       {"x": 2, "y": 3},   "max(x, 1, y) = max(2, 1, 3) = 3"),
    ("x > y",              {"x": 2, "y": 3},   "x > y: 2 > 3 is false, so 0"),
    ("a = x + y",          {"x": 2, "y": 3},   "a = x + y = 2 + 3 = 5"),
    ("a = (x + 1)*(x*2)",  {"x": 2},           "a = (x + 1) × (x*2) = 3 × 4 = 12"),
    ("2 + 3",              {},                 "2 + 3 = 5"),
]
# fmt: on


@pytest.mark.parametrize(("text", "point", "last"), FORWARD)
def test_a_forward_step_has_its_numbers_filled_in(text: str, point: dict[str, float], last: str) -> None:
    assert forward(text, **point)[-1] == last


SUM = "a sum distributes: each term gets the adjoint, unchanged"
DIFFERENCE = "a difference distributes: the first term gets the adjoint, the second gets it with its sign turned"
PRODUCT = "a product swaps: each factor gets the adjoint times the value of the other factor"
CONSTANT = "max chose something that does not depend on a variable, so its adjoint ends here"
# fmt: off
BACKWARD = [
    ("x + y",              {"x": 2, "y": 3}, SUM),
    ("x - y",              {"x": 2, "y": 3}, DIFFERENCE),
    ("x*y",                {"x": 2, "y": 3}, PRODUCT),
    ("max(x, y)",          {"x": 2, "y": 3}, "max routes its adjoint to what it chose, y; nothing goes elsewhere"),
    ("max(x, y)",          {"x": 2, "y": 2}, "max is tied and shares its adjoint equally: 0.5 of it for x and y"),
    ("max(x, 3)",          {"x": 2},         CONSTANT),
    ("where(x > 0, x, y)", {"x": 2, "y": 3}, "where routes its adjoint to what it chose, x; nothing goes elsewhere"),
    ("relu(x)",            {"x": 2},         "relu lets its adjoint pass"),
    ("relu(x)",            {"x": -2},        "relu is flat at -2 and blocks its adjoint: a dead unit at this point"),
    ("floor(x)",           {"x": 1.5},       "floor is flat wherever it does not jump, so it hands on nothing"),
    ("sin(x)",             {"x": 2},         "sin scales by its slope, cos(2) = -0.416147"),
    ("exp(x)",             {"x": 1},         "exp scales by its slope, exp(1) = 2.71828"),
    ("x^3",                {"x": 2},         "a power scales by its slope: 3*2^(3 - 1) = 12 towards x"),
    ("x/4",                {"x": 1},         "a quotient scales by its slope: 1/4 = 0.25 towards x"),
]
# fmt: on


@pytest.mark.parametrize(("text", "point", "first"), BACKWARD)
def test_a_backward_step_says_what_its_gate_does(text: str, point: dict[str, float], first: str) -> None:
    assert backward(text, **point)[0] == first


def test_contributions_have_all_three_numbers_and_the_total_of_what_is_used_twice() -> None:
    said = backward("x*y + sin(x)", x=2, y=3)
    assert "x: -0.416147 × 1 = -0.416147, use 1 of 2: total so far -0.416147" in said
    assert "x: 3 × 1 = 3, the last of 2 uses: accumulates to 2.58385" in said
    assert "y: 2 × 1 = 2" in said


def test_a_name_used_several_times_accumulates() -> None:
    said = [line for line in backward("x^2 + 3*x + sin(x)", x=2) if line.startswith("x:")]
    assert [line.partition(", ")[2] for line in said] == [
        "use 1 of 3: total so far -0.416147",
        "use 2 of 3: total so far 2.58385",
        "the last of 3 uses: accumulates to 6.58385",
    ]


def test_a_power_whose_exponent_moves_has_both_slopes() -> None:
    assert backward("x^y", x=2, y=3)[0] == (
        "a power scales by its slope: 3*2^(3 - 1) = 12 towards x, 2^3*log(2) = 5.54518 towards y"
    )


@pytest.mark.parametrize(("text", "dead"), [("relu(x)", True), ("relu6(x)", True), ("hardtanh(x)", False)])
def test_a_unit_that_learns_nothing_is_pointed_out(text: str, dead: bool) -> None:
    said = backward(text, x=-2)[0]
    assert "flat at -2 and blocks its adjoint" in said
    assert ("a dead unit" in said) == dead


def test_what_nothing_reaches_hands_on_nothing() -> None:
    said = backward("where(x > 0, x, log(x))", x=2)
    assert "nothing reaches it from the output, so it hands on nothing" in said


ON_ARRAYS = {
    "sum(v)": "v: adjoint, for every element = [1, 1]",
    "v[1]": "v: adjoint at [1], 0 elsewhere = [0, 1]",
    "mean(v)": "v: adjoint*(1/size(v)), for every element = [0.5, 0.5]",
    "dot(v, [3, 4])": "v: adjoint*[3, 4] = [3, 4]",
}


@pytest.mark.parametrize("text", ON_ARRAYS)
def test_operations_on_whole_arrays_say_where_the_adjoint_goes(text: str) -> None:
    assert ON_ARRAYS[text] in backward(text, v=[1, 2])


def test_max_of_an_array_routes() -> None:
    assert backward("max(v)", v=[1, 2])[0] == (
        "max routes its adjoint to the largest element, in equal shares where several tie"
    )


def test_a_branch_not_taken_hands_on_nothing_also_among_arrays() -> None:
    said = backward("where(s > 0, s, sum(log(v)))", s=1, v=[0, 1])
    assert said.count("nothing reaches it from the output, so it hands on nothing") == 3
