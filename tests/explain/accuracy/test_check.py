"""A check accepts derivatives, and nothing else."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from autodiff_cli.autodiff import arbitrary_precision
from autodiff_cli.explain.gradient_check import GradientCheck, Verdict, check_gradient
from autodiff_cli.expression import Expression, parse
from autodiff_cli.graph.node import Node, Op, variable
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.ops import all_ops
from autodiff_cli.ops.functions import exp, sin
from autodiff_cli.ops.structural import norm
from tests.each import amount, each, examples
from tests.graphs import SMOOTH, graphs
from tests.support import run_cli


def checked(text: str, **point: str) -> GradientCheck:
    expression = parse(text)
    return check_gradient(
        expression, {name: parse(value).output for name, value in point.items()}, expression.variables
    )


@each(
    ("text", "point", "orders"),
    [
        ("x*y + sin(x)", {"x": "2", "y": "1/3"}, {"x": 2, "y": math.inf}),
        ("x^3", {"x": "0"}, {"x": 3}),
        ("x^1.5", {"x": "0"}, {"x": 1.5}),
        ("3*x", {"x": "1e10"}, {"x": math.inf}),
        ("x + x^6", {"x": "0"}, {"x": 6}),
        ("x*(gamma(y) + x^9)", {"x": "0", "y": "1/3"}, {"x": 10, "y": math.inf}),
        ("sin(x)", {"x": "1e-300"}, {"x": 2}),
        ("gelu(x)*tanh(x)", {"x": "-0.75"}, {"x": 2}),
        ("gamma(x)", {"x": "2.5"}, {"x": 2}),
    ],
)
def test_derivatives_agree(text: str, point: dict[str, str], orders: dict[str, float]) -> None:
    found = checked(text, **point)
    assert found.agrees
    assert {finding.variable: finding.order for finding in found.findings} == pytest.approx(orders, abs=1e-6)
    assert {finding.verdict for finding in found.findings} == {Verdict.AGREES}


def test_a_remainder_that_is_nothing_takes_few_digits_and_few_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    precision = arbitrary_precision.precision
    monkeypatch.setattr(
        arbitrary_precision, "precision", lambda bits, **how: asked.append(bits) or precision(bits, **how)
    )
    assert checked("y*gamma(z)", y="1.14", z="0.187").agrees
    assert max(asked) < 700 * math.log2(10)
    assert len(asked) < 30


@examples(15)
@given(graphs(ops=SMOOTH, names="xy", most=6))
def test_every_smooth_expression_agrees(graph: tuple[Node, list[Node]]) -> None:
    output, leaves = graph
    expression = Expression(output, {leaf.text: leaf for leaf in leaves})
    assert check_gradient(expression, {"x": parse("0.37").output, "y": parse("-1.21").output}, ("x", "y")).agrees


def test_a_wrong_rule_is_detected_although_floats_and_reference_share_it() -> None:
    x = variable("x")
    wrong = Op(name="wrong_sine", min_inputs=1, max_inputs=1, rule=lambda z, t: (exp(t),), expansion=lambda t: sin(t))
    found = check_gradient(Expression(wrong(x), {"x": x}), {"x": parse("0.7654321").output}, ["x"])
    assert not found.agrees
    assert found.findings[0].order == pytest.approx(1.0)


@each(
    ("text", "point", "words"),
    [
        ("abs(x)", {"x": "0"}, "on the left the slope is -1, on the right the slope is 1; the convention is 0"),
        ("max(x, 2)", {"x": "2"}, "the convention is 0.5"),
        ("where(x >= 0, x, 2*x)", {"x": "0"}, "on the left the slope is 2"),
        ("floor(x) + x", {"x": "2"}, "on the left it jumps"),
        ("heaviside(x) + x", {"x": "0"}, "on the left it jumps, on the right it jumps"),  # by the same amount
        ("abs(x - 0.3)", {"x": "0.1 + 0.2"}, "the convention is"),
    ],
)
def test_a_kink_is_explained_and_not_accused(text: str, point: dict[str, str], words: str) -> None:
    found = checked(text, **point)
    assert found.agrees
    assert found.findings[0].verdict is Verdict.KINK
    assert words in found.findings[0].note


def test_a_derivative_that_is_not_finite_is_reported_with_its_reason() -> None:
    (finding,) = checked("sqrt(x)", x="0").findings
    assert (finding.verdict, finding.order) == (Verdict.UNDEFINED, None)
    assert "sqrt(x)" in finding.note


@each(
    ("text", "point", "right"),
    [
        ("(1 - cos(x))/x^2", {"x": "1e-8"}, {"x": "-8.33333333333333e-10"}),
        ("silu(x)", {"x": "-1.2784645427610738"}, {"x": "-1.06523891511704e-18"}),
        ("(x + y)/(x - y)", {"x": "3e-8", "y": "-0.17"}, {}),
        ("log((1 - x)/(1 + x))", {"x": "1e-9"}, {}),
        ("1/(x + 1) - 1/x", {"x": "1e13"}, {"x": "1.99999999999970e-39"}),
    ],
)
def test_an_inaccurate_number_is_reported_with_its_correct_digits(
    text: str, point: dict[str, str], right: dict[str, str]
) -> None:
    found = checked(text, **point)
    notes = {finding.variable: finding.note for finding in found.findings if finding.verdict is Verdict.INACCURATE}
    assert notes.keys() == right.keys()
    assert found.agrees is not bool(right)
    for name, digits_ in right.items():
        assert digits_ in notes[name]


@each("x", ["exp(exp(900))", "1e100000000", "1e-100000000"])
def test_where_no_step_is_of_a_size_that_can_be_computed_with_there_is_no_order(x: str) -> None:
    (finding,) = checked("3*x", x=x).findings
    assert (finding.verdict, finding.order) == (Verdict.AGREES, None)


def test_powers_of_ten_of_thousands_of_digits_are_written() -> None:
    (finding,) = checked("exp(-x)", x="1e5000").findings
    mantissa, _, power = finding.reference.partition("e-")
    assert (mantissa[0], power[:12], len(power)) == ("-", "434294481903", 5000)


def test_a_factor_that_is_nearly_one_is_a_factor() -> None:
    (finding,) = checked("sin(1.00000000000000000001*x)", x="2").findings
    assert finding.verdict is Verdict.AGREES
    assert finding.reference.startswith("-0.41614683654714238701991")  # that of sin(x) ends in …86997568
    assert str(parse("sin(1e-400*x)").derivative("x")) == "1e-400*cos(1e-400*x)"


@each(("text", "digits_"), [("(1 + x) - 1", 7), ("exp(x) - 1", 16)])
def test_digits_that_are_right_are_counted(text: str, digits_: int) -> None:
    (finding,) = checked(f"({text})^2", x="1e-9").findings
    assert finding.verdict is Verdict.AGREES
    assert digits_ == 16 or f"{digits_} digits are correct" in finding.note


# fmt: off
BEYOND_FLOATS = [
    ("1/x",             "1e300",    "-1.00000000000000e-600, which is too small for a float"),
    ("exp(-x)",         "745",      "which is too small for a float"),
    ("1e-400*x",        "2",        "1.00000000000000e-400, which is too small for a float"),
    ("exp(x)",          "1000",     "1.97007111401705e+434, which is too large for a float"),
    ("abs(x)",          "1e-400",   "no digit is correct; the correct value is 1.00000000000000"),
    ("exp(x)/exp(999)", "1000",     "exp(x) or its slope is too large for a float"),
    ("where(0.1*x > 0.3, x, -x)", "3", "no digit is correct; the correct value is -1.00000000000000"),
]
# fmt: on


def test_a_derivative_that_is_exact_at_the_float_of_a_value_agrees() -> None:
    (finding,) = checked("x^2", x="1.1e-320").findings
    assert (finding.verdict, finding.note) == (Verdict.AGREES, "it is too small for a float to have all digits")


@each("text, point, words", BEYOND_FLOATS)
def test_a_number_without_correct_digits_is_accused_whatever_the_cause(text: str, point: str, words: str) -> None:
    found = checked(text, x=point)
    assert (found.agrees, found.findings[0].verdict) == (False, Verdict.INACCURATE)
    assert words in found.findings[0].note
    assert "rounding" not in found.findings[0].note or found.findings[0].gradient == 1


@each(
    ("text", "point", "verdict"),
    [
        ("sin(1e40*x)", {"x": "1"}, Verdict.INACCURATE),
        ("round(1e200*x + 1/4)", {"x": "3.27"}, Verdict.AGREES),
        ("1e-3 % (x*6e23)", {"x": "1e-300"}, Verdict.AGREES),
        ("abs(sin(1e100*x))", {"x": "0"}, Verdict.KINK),
    ],
)
def test_functions_that_bend_within_the_step_are_checked_with_a_smaller_one(
    text: str, point: dict[str, str], verdict: Verdict
) -> None:
    assert [finding.verdict for finding in checked(text, **point).findings] == [verdict]


def test_a_jump_beside_an_unknown_side_is_no_wrong_gradient() -> None:
    found = checked(
        "floor(where(x < y, 0, z))/clip(atan2(0.5, x), y, y^-1)", x="1.4", y="1.5853106305099013e-12", z="-2"
    )
    finding = next(finding for finding in found.findings if finding.variable == "z")
    assert (finding.gradient, finding.reference, finding.verdict) == (0, "0.0", Verdict.KINK)
    assert finding.note == "on one side it jumps; the convention is 0"


def test_a_derivative_that_no_digits_decide_is_not_called_wrong() -> None:
    text = "a = sinc(10) + (z < y); uniform_logpdf(1 - y, 1, a/a + where(a >= a, z, a) + a) + z"
    point = {"y": "1e150", "z": "-0.3"}
    assert {finding.verdict for finding in checked(text, **point).findings} == {Verdict.UNKNOWN}
    said = run_cli(["check", text, *(f"--{name}={value}" for name, value in point.items())])
    assert (said.status, "The gradient is not known completely." in said) == (1, True)


def test_a_gradient_at_the_floats_of_a_point_without_one_is_inaccurate() -> None:
    found = checked("1/(z % y)", z="-2", y="0.2")  # exactly a multiple of 0.2, but not of the nearest float
    assert {finding.verdict for finding in found.findings} == {Verdict.INACCURATE}
    assert all("only for inputs rounded to floats" in finding.note for finding in found.findings)


def test_an_underflow_on_the_way_to_a_derivative_that_floats_have_differs() -> None:
    assert not checked("(x*1e-200*1e-200)^2*1e300*1e300", x="1").agrees


def test_an_overflow_on_the_way_to_a_finite_derivative_is_one() -> None:
    assert not checked("exp(x)/exp(999)", x="1000").agrees


@each(
    ("text", "point"),
    [
        ("sum(tanh(W @ x))", {"W": "[[0.1, 0.2], [0.3, 1/3]]", "x": "[1, 2/7]"}),
        ("norm(v)*t", {"v": "[3, -4, 0]", "t": "2"}),
        ("logsumexp(softmax(v) + mean(v))", {"v": "[1, 2, 3]"}),
        ("prod(concat(v, [2, 0.5])) + max(v)", {"v": "[1.5, -2]"}),
        ("M: 2x2; u: 2; dot(u, transpose(M) @ u)/M[0, 1]", {"M": "[[1, 2], [3, 4]]", "u": "[0.1, -1/3]"}),
    ],
)
def test_every_element_of_an_array_is_checked(text: str, point: dict[str, str]) -> None:
    found = checked(text, **point)
    assert {finding.verdict for finding in found.findings} == {Verdict.AGREES}
    shapes = {name: np.shape(found.trace.gradient[name]) for name in found.trace.wrt}
    assert len(found.findings) == sum(math.prod(shape) for shape in shapes.values())


def test_elements_are_called_as_the_language_writes_them() -> None:
    found = checked("sum(A @ x)*t", A="[[1, 2]]", x="[3, 4]", t="5")
    assert [finding.variable for finding in found.findings] == ["A[0, 0]", "A[0, 1]", "x[0]", "x[1]", "t"]
    assert [finding.gradient for finding in found.findings] == [15.0, 20.0, 5.0, 10.0, 11.0]


def test_a_wrong_rule_of_an_array_operation_is_detected() -> None:
    v = variable("v")
    wrong = replace(norm, name="wrong_norm", expansion=norm.__call__, vjp=lambda s, g, z, x: (g * x,))
    found = check_gradient(Expression(wrong(v), {"v": v}, shapes={"v": (2,)}), {"v": parse("[1, 0.25]").output}, ["v"])
    assert [finding.verdict for finding in found.findings] == [Verdict.DIFFERS, Verdict.DIFFERS]


def test_a_kink_at_an_element() -> None:
    kinks = {finding.variable: finding.verdict for finding in checked("max(v)", v="[1, 1, 0]").findings}
    assert kinks == {"v[0]": Verdict.KINK, "v[1]": Verdict.KINK, "v[2]": Verdict.AGREES}


def test_arrays_that_are_too_large_are_refused_with_the_limit() -> None:
    text, value = "sum(outer(v, v))", parse("[1, 2, 3, 4]").output
    with pytest.raises(ExpressionError, match=r"more than 10 operations.*`max_operations=`"):
        check_gradient(parse(text), {"v": value}, ["v"], max_operations=10)
    assert check_gradient(parse(text), {"v": value}, ["v"], max_operations=1000).agrees


@pytest.mark.slow
@each("op", [op for op in all_ops() if op.accepts(1) and not op.is_helper and not op.is_structural])
def test_functions_of_one_number_hold_from_tiny_to_huge(op: Op) -> None:
    x = variable("x")
    expression = Expression(op(x), {"x": x})
    for power in range(-20, 21, amount(10, 10, 2)):
        for sign in ("", "-"):
            found = check_gradient(expression, {"x": parse(f"{sign}1e{power}").output}, ["x"])
            (gradient,) = (abs(finding.gradient) for finding in found.findings)
            assert found.agrees or gradient < 1e-300 or gradient == math.inf, (power, found.findings)


def test_of_a_number_that_should_be_0_no_digit_is_right() -> None:
    weights = "[[1, 0, 1e-08], [-0.03607455437053324, -2.1, -0.9]]"
    found = checked("mean(softmax(A @ v))", A=weights, v="[-1.7464886571418035, -2.41, 0.007484754113589]")
    notes = [finding.note for finding in found.findings if finding.verdict is Verdict.INACCURATE]
    assert notes
    assert all("no digit is correct; the correct value is 0" in note for note in notes)


@each(
    ("text", "point", "better", "spoiler"),
    [
        ("(1 - cos(x))/x^2", {"x": "1e-8"}, "sinc(x/2)^2/2", "cos(x)"),
        ("sqrt(x + 1) - sqrt(x)", {"x": "1e12"}, "1/(sqrt(x + 1) + sqrt(x))", "sqrt(x + 1)"),
        ("sin(x + y) - sin(x)", {"x": "-54770", "y": "1e-9"}, None, "x + y"),
    ],
)
def test_inaccurate_results_are_explained(text: str, point: dict[str, str], better: str | None, spoiler: str) -> None:
    found = checked(text, **point)
    x = found.findings[0]
    assert x.verdict is Verdict.INACCURATE
    assert x.note.endswith(f"; most of the error comes from rounding {spoiler}")
    assert found.rewriting == better


def test_what_is_offered_has_the_digits() -> None:
    found = checked("(-b + sqrt(b^2 - 4*a*c))/(2*a)", a="1", b="1e8", c="1")
    assert not found.agrees
    assert found.rewriting is not None
    assert parse(found.rewriting).grad(a=1.0, b=1e8, c=1.0)["b"] == pytest.approx(1.0000000000000003e-16, rel=1e-13)


def test_nothing_is_offered_where_nothing_is_lost() -> None:
    assert checked("(1 - cos(x))/x^2", x="1.25").rewriting is None


def test_what_is_offered_is_of_the_numbers_alone_beside_an_array() -> None:
    answer = run_cli('check "v: 2; a = sum(v); (1 - cos(x))/x^2" --v "[1, 2]" --x 1e-8')
    assert (answer.status, "sinc(x/2)^2/2" in answer) == (1, True)


@each(
    ("words", "verdict"),
    [
        # far out, where remainders are smaller than the value by hundreds of digits
        ('"sqrt(2*x^2)" --x=-2.186208333692891e+131', "agrees"),
        ('"log(x + sqrt(x*x - 1))" --x 1.98e144', "agrees"),
        ('"sqrt(x + 1e194) - sqrt(x)" --x 3e59', "agrees"),
        # a square that has vanished, so that 0/0 is left
        ('"acos((1 - 5*x*x)/(x*x - 1))" --x=-1.5e-187', "spoilt"),
        # right at the float that stands for the decimal, whose digits are others
        ('"cos(x/2)" --x 5.6e96', "agrees"),
    ],
)
def test_verdicts_at_ends_of_the_range_of_floats(words: str, verdict: str) -> None:
    found = run_cli(f"check {words} --json").json
    assert found["checks"]["x"]["verdict"] == verdict
    assert found["agrees"] == (verdict == "agrees")


@each("command", ["check x*y --x 1e-400 --y 2", "check sum(v)*2 --v [1e400,1]"])
def test_a_number_that_no_float_represents_is_named(command: str) -> None:
    number = "1e-400" if "1e-400" in command else "1e+400"
    words = f"{number} is not representable as a float"
    assert words in run_cli(command)
    (note,) = run_cli(f"{command} --json").json["notes"]
    assert words in note


def test_without_such_numbers_there_are_no_notes() -> None:
    assert "notes" not in run_cli("check x --x 2 --json").json
