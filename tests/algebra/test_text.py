"""What is printed for a derivative has the derivative's value: in floats, and exactly, at special points too."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import autodiff_cli as ad
from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.tape import Tape, substitute
from autodiff_cli.numbers.ball_arithmetic import as_ball, is_finite, working_precision
from autodiff_cli.numbers.balls import parse_constant
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops import overloads
from tests.each import examples
from tests.graphs import OPS
from tests.texts import formulas

PLACES = ["0", "0", "1", "-1", "0.5", "-0.5", "2", "3", "-2", "0.001", "7"]
CALLS = [op.spelling + "(" + ", ".join(["{}"] * op.min_inputs) + ")" for op in OPS if op.spelling]
CHOOSING = (
    "{} + {}|{} - {}|{}*{}|{}/{}|{}^{}|{}^{}|{}%{}|where({} < {}, {}, {})|max({}, {})|hypot({}, {})|clip({}, {}, {})"
)
CHOOSING += "|abs({})|sqrt({})|square({})|relu({})|root({}, {})|exp({})|log({})|min({}, {}, {})|-{}|({} <= {})"
Point = dict[str, str]


def floats(f: ad.Expression, point: Point) -> list[float]:
    return forward(Tape((f.output,)), FLOATS, {name: float(x) for name, x in point.items()})


def exactly(nodes: list[Node], point: Point, most_cancelled: int = 100) -> tuple[list[Any], bool]:
    """The values of formulas to 50 digits, and whether they are proven."""
    leaves = {name: -parse_constant(x[1:]) if x.startswith("-") else parse_constant(x) for name, x in point.items()}
    found = evaluate_to_digits(nodes, 50, max_cancelled_digits=most_cancelled, leaves=leaves)
    return found.numbers, all(found.is_proven)


def has_its_usual_formula(f: ad.Expression, point: Point) -> bool:
    """Whether a formula stands as in books at a point where it has no value: the power rule at 0^0, and beta at 0."""
    tape, values = Tape((f.output,)), floats(f, point)
    for node, inputs in zip(tape.nodes, tape.inputs, strict=True):
        name = "" if node.op is None else node.op.name
        if name.startswith("pow") and values[inputs[0]] == 0 and values[inputs[1]] <= 0:
            return True
        if name == "beta_slope" and floats(f.with_output(overloads("beta")[0](*node.inputs)), point)[-1] == 0:
            return True
    return False


def agree(f: ad.Expression, name: str, point: Point) -> None:
    """The derivative, what is printed of it, and the gradient at a point."""
    slope = f.derivative(name)
    text = ad.parse(str(slope), variables=slope.variables)
    value, expected, found = floats(f, point)[-1], floats(slope, point), floats(text, point)
    assume(math.isfinite(value) and math.isfinite(expected[-1]) and not has_its_usual_formula(slope, point))
    gradient = f.grad({variable: float(point[variable]) for variable in f.variables})[name]
    sizes = [abs(x) for x in (*expected, *found) if math.isfinite(x)]
    assume(max(sizes) < 1e12)
    close = 1e-9 * max(1.0, *sizes)
    assert math.isclose(expected[-1], found[-1], abs_tol=close), str(slope)
    assert math.isclose(expected[-1], gradient, abs_tol=close)
    (exact, printed), are_proven = exactly([slope.output, text.output], point)
    if are_proven and is_finite(exact):
        with working_precision(300):
            assert abs(as_ball(exact) - as_ball(printed)) < 1e-45 * (1 + abs(as_ball(exact))), str(slope)


@pytest.mark.parametrize("forms", [CALLS, CHOOSING.split("|")], ids=["calls", "choosing"])
@pytest.mark.parametrize("order", [1, 2])
@examples(200)
@given(data=st.data(), point=st.fixed_dictionaries(dict.fromkeys("xyz", st.sampled_from(PLACES))))
def test_the_text_of_a_derivative_is_the_derivative(
    forms: list[str], order: int, data: st.DataObject, point: Point
) -> None:
    f = ad.parse(data.draw(formulas(forms)))
    for _ in range(order - 1):
        assume(f.variables)
        f = f.derivative(f.variables[0])
    for name in f.variables:
        agree(f, name, point)


@pytest.mark.parametrize(
    ("text", "name", "point", "slope"),
    [
        ("0^(2^x + x^3 + 2)", "x", {"x": "1"}, 0),
        ("x^n", "n", {"x": "0", "n": "2"}, 0),
        ("a*x^n", "n", {"a": "3", "x": "0", "n": "0.5"}, 0),
        ("hypot(x, y)", "x", {"x": "0", "y": "0"}, 0),
        ("hypot(x, y)^2*y", "y", {"x": "0", "y": "0"}, 0),
        ("norm([x, y])", "y", {"x": "0", "y": "0"}, 0),
        ("clip(z, z, x)", "z", {"z": "1", "x": "2"}, 0),
        ("clip(z, z, x)", "x", {"z": "3", "x": "2"}, 1),
        ("root(x, 3)", "x", {"x": "-8"}, 1 / 12),
        ("root(x, n)", "x", {"x": "0", "n": "0.5"}, 0),
        ("root(x, n)", "n", {"x": "1", "n": "3"}, 0),
        ("max(x, y, x)", "x", {"x": "2", "y": "2"}, 2 / 3),
        ("root(x, n)", "n", {"x": "0", "n": "0.5"}, 0),
        ("gammainc(1, x)", "x", {"x": "0"}, 1),
        ("gammainc_slope(2, x)", "x", {"x": "0"}, 0),
        ("weibull_cdf(x, k, 1)", "k", {"x": "0", "k": "0.5"}, 0),
        ("voigt(x, s, 1)", "x", {"x": "1", "s": "0"}, -1 / (2 * math.pi)),
        ("voigt(x, s, 1)", "s", {"x": "1", "s": "0"}, 0),
    ],
)
def test_values_by_convention(text: str, name: str, point: Point, slope: float) -> None:
    f = ad.parse(text)
    derivative = f.derivative(name)
    printed = ad.parse(str(derivative), variables=derivative.variables)
    values = {variable: float(x) for variable, x in point.items()}
    assert f.grad(values)[name] == pytest.approx(slope)
    for formula in (derivative, printed):
        assert formula({variable: values[variable] for variable in formula.variables}) == pytest.approx(slope)


def test_second_derivatives_have_values_by_convention() -> None:
    slope = ad.parse("x^n").derivative("n").derivative("x")
    assert str(slope) == "where(x == 0 and n*x^(n - 1) == 0, 0, n*x^(n - 1)*log(x)) + x^(n - 1)"
    assert slope(x=0, n=3) == ad.parse(str(slope))(x=0, n=3) == 0
    slope = ad.parse("gammainc(a, x)").derivative("x").derivative("x")
    assert slope(a=1, x=0) == ad.parse(str(slope))(a=1, x=0) == -1


@pytest.mark.parametrize(
    ("text", "point", "curvature"),
    [
        ("beta_logpdf(x, a, 1)", {"x": 1.0, "a": 2.0}, -1),
        ("beta_logpdf(x, 2, b)", {"x": 1.0, "b": 1.0}, -1),
        ("beta_logpdf(x, a, 3)", {"x": 0.0, "a": 1.0}, -2),
        ("gamma_logpdf(x, a, 2)", {"x": 0.0, "a": 1.0}, 0),
    ],
)
def test_a_power_of_0_is_constant_at_the_edge_of_a_density(
    text: str, point: dict[str, float], curvature: float
) -> None:
    """Its factor 0 meets an infinite slope of the logarithm, at every order."""
    f = ad.parse(text)
    assert f.hessian(point)[0, 0] == curvature
    assert (
        float(as_ball(exactly([f.derivative("x").derivative("x").output], {k: str(v) for k, v in point.items()})[0][0]))
        == curvature
    )


def test_the_gradient_of_norm_at_0_is_printed_with_it() -> None:
    slope = ad.parse("v: 3; norm(v)").derivative("v")
    assert str(slope) == "v: 3; where(norm(v) == 0, 0, v/norm(v))"
    assert ad.parse(str(slope))(v=[0, 0, 0]).tolist() == slope(v=[0, 0, 0]).tolist() == [0, 0, 0]


def test_a_remainder_by_a_tiny_number_has_the_slope_that_is_printed() -> None:
    """Its teeth are 1e-134 wide, so that only differences far narrower show the slope."""
    f = ad.parse("y % normal_cdf(7, expm1(3), y^2)")
    slope = f.derivative("y")
    step = constant("1e-180")
    quotient = (substitute([f.output], {f.leaves["y"]: f.leaves["y"] + step})[0] - f.output) / step
    formulas = [quotient, slope.output, ad.parse(str(slope)).output]
    (difference, exact, printed), are_proven = exactly(formulas, {"y": "0.7"}, most_cancelled=600)
    assert are_proven
    assert float(exact.mid()) == pytest.approx(-1217.6548917849262)
    with working_precision(300):
        assert abs(as_ball(exact) - as_ball(printed)) < 1e-45
        assert abs(as_ball(exact) - as_ball(difference)) < 1e-30
