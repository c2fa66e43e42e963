"""Every number that is printed has 12 right digits, or the right ones stand beside it."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from flint import arb, ctx
from hypothesis import given

from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits
from autodiff_cli.explain.accuracy import VALUE
from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.tracing import trace
from autodiff_cli.expression import Expression, parse
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.numbers.ball_arithmetic import from_float, nearest_float
from tests.each import each, examples
from tests.graphs import SMOOTH, graphs

# Formulas of published collections on rounding (Hamming 1987, "Numerical methods for scientists and engineers", chapter
# 3, and others), where floats lose digits, and which numbers are inaccurate.
SPOILT = [
    ("(1 - cos(x))/x^2", {"x": 1e-8}, {VALUE: "0.5", "x": "-8.33333333333333e-10"}),
    ("exp(x) - 1", {"x": 2e-6}, {VALUE: "2.00000200000133e-6"}),
    ("(x + y)/(x - y)", {"x": 3e-8, "y": -0.17}, {"y": "2.07612383472439e-6"}),
    ("sin(x + y) - sin(x)", {"x": -54770.0, "y": 1e-9}, {VALUE: "8.64660237975496e-10"}),
    ("1/(x + 1) - 1/x", {"x": 36208.0}, {"x": "4.21306727885378e-14"}),
    ("(1 + x) - 1", {"x": 1e-20}, {VALUE: "1e-20"}),
    ("sqrt(x + 1) - sqrt(x)", {"x": 1e13}, {VALUE: "1.58113883008415e-7", "x": "-7.90569415042036e-21"}),
    ("log((1 - x)/(1 + x))", {"x": 1e-9}, {VALUE: "-2e-9"}),
    ("exp(-x)", {"x": 1000.0}, {VALUE: "5.07595889754946e-435", "x": "-5.07595889754946e-435"}),
    ("exp(x)/exp(999)", {"x": 1000.0}, {VALUE: "2.71828182845905", "x": "2.71828182845905"}),
    # the slope towards the deviation vanishes within the rule, before it is multiplied
    (
        "normal_cdf(0.25, 0, y*x)",
        {"x": -0.5, "y": -1e200},
        {"x": "3.98942280401433e-201", "y": "1.99471140200716e-401"},
    ),
    ("exp(x)", {"x": 1000.0}, {VALUE: "1.97007111401705e+434", "x": "1.97007111401705e+434"}),
    ("(-b + sqrt(b^2 - 4*a*c))/(2*a)", {"a": 1.0, "b": 1e8, "c": 1.0}, {VALUE: "-1e-8"}),
    # an infinity by overflow is divided by, and what is left is finite
    ("(-b + sqrt(b^2 - a))/a", {"a": -679.0, "b": -1e200}, {"b": "0.00294550810014728"}),
    # differences of what has vanished
    ("1/(x + 1) - 1/x", {"x": 1e300}, {VALUE: "-1e-600", "x": "2e-900"}),
    ("(1 - cos(x))/x^2", {"x": 1e-214}, {VALUE: "0.5", "x": "-8.33333333333333e-216"}),
    # of numbers far beyond those whose exponential can be computed
    ("log(1 + exp(x))", {"x": 1e6}, {VALUE: "1000000", "x": "1"}),
    ("asinh(exp(x))", {"x": 1e6}, {VALUE: "1000000.69314718", "x": "1"}),
    ("sqrt(exp(x))", {"x": 1e6}, {VALUE: "1.74161287225436e+217147", "x": "8.70806436127181e+217146"}),
    ("softplus(exp(x))/hypot(exp(x), 1)", {"x": 1e6}, {VALUE: "1"}),
    # parts that two ways to move results move alike by chance
    (
        "where(z*2.1 > 1e9, 1, 0) + where(z*1.1 > 1e9, 1, 0) + where(z*0.1 > 1e9, 1, 0) + (0.1*x*3) - (x*0.3)",
        {"x": 2.5919903038587164, "z": 0.5879415013002716},
        {VALUE: "0"},
    ),
    # terms that cancel in more than a thousand digits
    ("(x - sin(x))/(x - tan(x))", {"x": -2e-287}, {VALUE: "-0.5", "x": "-9e-288"}),
    # where the value is smaller than what spoils it by more than a float can hold
    ("x*(exp(y) - exp(-y)) + z", {"x": -2e238, "y": 1e-202, "z": 2.7e-283}, {VALUE: "-4e+36"}),
    # numbers in the text that no float holds, or only nearly
    ("1e-400*x", {"x": 2.0}, {VALUE: "2e-400", "x": "1e-400"}),
    ("1e400*x", {"x": 2.0}, {VALUE: "2e+400", "x": "1e+400"}),
    ("log(x*1e-400)", {"x": 2.0}, {VALUE: "-920.340890017058", "x": "0.5"}),
    ("(x + 1e-400 - x)*1e300*1e100", {"x": 2.0}, {VALUE: "1", "x": "0"}),
    ("where(1e-400 > 0, x, 2)", {"x": 2.0}, {"x": "1"}),
    ("2.00000000000000000001*x - 2*x", {"x": 2.0}, {VALUE: "2e-20", "x": "1e-20"}),
    # a factor that has lost digits itself
    ("x*y", {"x": 2.0**-1030, "y": 2.0**-100}, {VALUE: "6.85653819611563e-341"}),
]
RIGHT = [
    ("x*y + sin(x)", {"x": 2.0, "y": 3.0}),
    ("x^2 - 4", {"x": 2.0}),
    ("(x - 0.3)^2", {"x": 0.3}),
    ("sin(x)", {"x": 1e22}),
    ("log(x)", {"x": 0.0}),
    ("log(x)", {"x": -1.0}),
    ("1/sign(x)", {"x": -0.0}),
    ("sqrt(x)^2", {"x": 0.0}),
    ("abs(x)*relu(x)", {"x": -3.0}),
    ("where(x > 0, x, (x + 1e-15) - x)", {"x": 1.3}),
    ("lambertw(x)", {"x": -0.36787944117144233}),
    ("gamma(x)*erf(x)/tanh(x)", {"x": 3.7}),
    ("(a + b)/2 - a", {"a": 1.5e-85, "b": 1.5e-85}),
    ("1 - cos(x)", {"x": 0.0}),
    ("sin(1.00000000000000000001*x + 1e-400)", {"x": 2.0}),
    ("min(x, 1e400) + 0e400", {"x": 2.0}),
]


def right(found: Trace) -> dict[str, str]:
    return {name: text for warning in found.warnings for name, text in warning.right.items()}


@each(("text", "point", "expected"), SPOILT)
def test_warnings_give_the_correct_digits_of_inaccurate_results(
    text: str, point: dict[str, float], expected: dict[str, str]
) -> None:
    found = right(trace(parse(text), point))
    assert {name: found.get(name) for name in expected} == expected


@each("text", ["6.02E23", "1e30", "x^2"])
def test_remainders_of_numbers_without_digits_for_them(text: str) -> None:
    """There are so few of them that wrong ones may agree by chance."""
    number = {"6.02E23": 602 * 10**21, "1e30": 10**30, "x^2": (3**30) ** 2}[text]
    for divisor in range(2, 40):
        found = trace(parse(f"{text} % z"), {"z": float(divisor)} | ({"x": 3.0**30} if text == "x^2" else {}))
        assert float(right(found).get(VALUE, found.values[-1])) == number % divisor


@each(("text", "point"), RIGHT)
def test_accurate_results_have_no_warning(text: str, point: dict[str, float]) -> None:
    found = trace(parse(text), point)
    assert right(found) == {}
    assert "precision" not in [warning.kind for warning in found.warnings]


@each("x", [800.0, 2500.0, 3000.0, 1e4, 3e4, 1e5])
@each("text", ["cosh(x)^2 - sinh(x)^2", "(1 + x*exp(x)) - x*exp(x)", "exp(2*x) + 1 - exp(x)^2"])
def test_what_is_left_of_terms_beyond_all_digits_is_not_called_0(text: str, x: float) -> None:
    assert right(trace(parse(text), {"x": x}))[VALUE] in ("1", "unknown")


def test_what_no_number_of_digits_shows_is_unknown() -> None:
    """sin(π) is 0, which no ball can tell from a number next to it, and gamma has a pole there."""
    assert right(trace(parse("gamma(x*sin(pi) - 1)"), {"x": 1000.0}))[VALUE] == "unknown"
    assert right(trace(parse("logit(sigmoid(x))"), {"x": 1e6})) == {VALUE: "unknown", "x": "unknown"}


def test_a_size_of_which_no_float_holds_the_logarithm_is_not_zero() -> None:
    found = right(trace(parse("exp(-exp(x))"), {"x": 900.0}))
    assert found[VALUE].startswith("5.56795313496089e-3182863575642185172717811849160185016857")


def test_what_hangs_on_the_side_of_a_kink_falls_on_both_sides_of_it() -> None:
    """The value is 0 as floats have it, and 1e-20: half of all ways to move the sum put it where relu is 0 too."""
    for k in range(1, 60):
        found = right(trace(parse("relu((x + y) - x)"), {"x": math.sqrt(k), "y": 1e-20}))
        assert found == {VALUE: "1e-20", "x": "0", "y": "1"} or found == {VALUE: "1e-20", "y": "1"}


def test_what_floats_compute_rightly_needs_nothing_more() -> None:
    program = "import sys; from autodiff_cli.cli.main import main; main(); sys.exit('flint' in sys.modules)"
    for text, expected in (("x*y + sin(x)", 0), ("(1 - cos(x))*y", 1)):
        words = ["grad", text, "--x", "1e-8", "--y", "3"]
        done = subprocess.run([sys.executable, "-c", program, *words], check=False, capture_output=True)
        assert done.returncode == expected


@examples(150)
@given(graphs(ops=SMOOTH, names="xy", most=10))
def test_no_number_is_silently_wrong(graph: tuple[Node, list[Node]]) -> None:
    output, leaves = graph
    expression = Expression(output, {leaf.text: leaf for leaf in leaves})
    point = {"x": 1e-7, "y": -1.000000001}
    found = trace(expression, {name: point[name] for name in expression.variables})
    said = right(found)
    exact = _independent(expression, point)
    for name, x in {VALUE: found.value, **found.gradient}.items():
        ball = exact[name]
        if ball is not None and ball.is_finite() and ball.rel_accuracy_bits() > 60:
            shown = arb(said[name]) if name in said else arb(x)
            with ctx.workprec(200):
                assert abs(shown - ball) <= abs(ball) * arb("1e-11"), (name, x, said)


def _independent(expression: Expression, point: dict[str, float]) -> dict[str, arb | None]:
    """Value and gradient by balls alone, from forward mode: no graph of a gradient, no doubt to clear."""
    from autodiff_cli.autodiff.sweeps import forward, tangents
    from autodiff_cli.numbers.ball_arithmetic import Undecided, as_ball, from_float
    from autodiff_cli.numbers.balls import precision

    with precision(600) as kind:
        try:
            values = forward(expression.tape, kind, {name: from_float(x) for name, x in point.items()})
            slopes = {
                name: tangents(expression.tape, kind, values, {name: from_float(1.0)})[-1]
                for name in expression.variables
            }
        except Undecided:
            return dict.fromkeys((VALUE, *expression.variables))
        return {VALUE: as_ball(values[-1]), **{name: None if x is None else as_ball(x) for name, x in slopes.items()}}


def test_an_array_that_the_output_is_not_made_of_has_zeros_for_a_gradient() -> None:
    found = trace(parse("v: 2; a = sum(v); exp(x) - 1"), {"v": [1.0, 2.0], "x": 2e-6})
    assert found.gradient["v"].tolist() == [0.0, 0.0]
    assert [warning.right for warning in found.warnings] == [{VALUE: "2.00000200000133e-6"}]


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("x^9007199254740993", {"x": -1.0}),
        ("x^(y*3)", {"x": -1.0, "y": 3002399751580331.0}),
        ("x^-9007199254740995", {"x": -1.0}),
        ("x^1e16", {"x": -1.0}),
        ("x^9007199254740992", {"x": -1.0}),
        ("x^9007199254740991", {"x": -1.0}),
        ("x^y", {"x": -1.0, "y": -(2.0**60)}),
    ],
)
def test_the_sign_of_a_power_with_a_huge_exponent_is_proven(text: str, point: dict[str, float]) -> None:
    """All floats beyond 2^53 are even. Exponents that are rounded may be odd, and that of the slope is odd."""
    f = parse(text)
    at = trace(f, point)
    right = {name: digits for warning in at.warnings for name, digits in warning.right.items()}
    graphs = [f.output, *gradient_nodes(f.output, [f.leaves["x"]])]
    exact = evaluate_to_digits(graphs, 20, leaves={name: from_float(x) for name, x in point.items()}).numbers
    for name, ours, wanted in zip(("value", "x"), (at.value, at.gradient["x"]), exact, strict=True):
        assert float(right.get(name, ours)) == pytest.approx(nearest_float(wanted), rel=1e-12)


@each("text, values", [
    ("sqrt(2)^2 - 2", ["0"]),
    ("1e300*(sqrt(2)^2 - 2)", ["0"]),
    ("10^4000*(sqrt(2)^2 - 2)", ["nan"]),
    ("1/(sqrt(2)^2 - 2)", ["nan"]),
])  # fmt: skip
def test_a_number_that_is_assumed_to_be_0_is_not_magnified(text: str, values: list[str]) -> None:
    found = evaluate_to_digits([parse(text).output], 15)
    assert ([*map(str, found.numbers)], found.is_proven) == (values, [False])
