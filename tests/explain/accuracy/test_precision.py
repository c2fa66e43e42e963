"""Digits: those that floats lose, and those that more precision gives."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from mpmath import mp, mpf

from autodiff_cli.explain import precision
from autodiff_cli.explain.precision import precise_trace
from autodiff_cli.explain.tracing import trace
from autodiff_cli.expression import Expression, parse
from autodiff_cli.graph.node import Node
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.numbers.ball_arithmetic import from_float
from autodiff_cli.numbers.balls import parse_constant
from tests.each import each, examples
from tests.graphs import SMOOTH, graphs
from tests.support import run_cli

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
    assert f"destroy {digits} of the 16 digits" in warning.message
    assert label in warning.message


@pytest.mark.parametrize(("text", "point"), KEPT)
def test_stable_formulas_have_no_warning(text: str, point: dict[str, float]) -> None:
    assert "precision" not in {warning.kind for warning in trace(parse(text), point).warnings}


@examples(40)
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


def test_warnings_about_floats_do_not_apply_to_more_digits() -> None:
    point = {"x": parse("1000").output, "y": parse("1e-20").output}
    found = precise_trace(parse("exp(x)*((1 + y) - 1)"), point, ("x", "y"), 20)
    assert found.warnings == []
    assert found.value.startswith("1.970071114017046993")


def test_what_is_beyond_even_these_numbers_is_infinite_with_a_warning() -> None:
    found = precise_trace(parse("exp(exp(exp(x)))"), {"x": parse("20").output}, ("x",), 20)
    assert found.value == "inf"
    assert found.warnings[0].kind == "overflow"


@each("text", ["exp(exp(exp(x)))", "-exp(exp(exp(x)))", "sinh(exp(exp(x)))*x", "exp(exp(exp(x))) + x"])
def test_a_number_of_which_no_digit_can_be_computed_is_not_assumed_to_be_0(text: str) -> None:
    found = precise_trace(parse(text), {"x": parse("10").output}, ["x"], 20)
    assert (found.value, found.gradient["x"]) == ("nan", "nan")
    assert "more digits are needed" in found.warnings[-1].message


@each("text", ["exp(1e9500)", "exp(-1e9500)", "9.99999999*exp(1e9500)"])
def test_tables_show_numbers_with_exponents_of_thousands_of_digits(text: str) -> None:
    output = run_cli(["grad", text, "--precision", "20"])
    assert output.status == 0
    assert "4342944819032518276511289189166" in output


def test_every_element_of_an_array_has_its_digits() -> None:
    texts = {"W": [["0.1", "0.2"], ["0.3", "1/3"]], "x": ["1", "2/7"]}
    point = {name: parse(str(rows).replace("'", "")).output for name, rows in texts.items()}
    found = precise_trace(parse("sum(tanh(W @ x))"), point, ("W", "x"), 50)
    with mp.workdps(70):
        x, rows = [mpf(1), mpf(2) / 7], [[mpf("0.1"), mpf("0.2")], [mpf("0.3"), mpf(1) / 3]]
        slopes = [1 / mp.cosh(row[0] * x[0] + row[1] * x[1]) ** 2 for row in rows]
        wanted = [[mp.nstr(slope * a, 50, strip_zeros=False) for a in x] for slope in slopes]
    assert found.gradient["W"].tolist() == wanted
    assert found.point["W"].tolist()[1][1] == "0." + 50 * "3"
    assert found.warnings == []


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("norm(v)*x + 0*sum(v)", {"v": "[3, 4]", "x": "2"}),
        ("logsumexp(v + b)", {"v": "[1000, -1000, 0.1]", "b": "0.2"}),
        ("sum(softmax(M)[0]*[x, 1])", {"M": "[[1, 2], [3, 4]]", "x": "-1"}),
        ("max(v)/min(v) + prod(v) + mean(v)", {"v": "[0.5, 0.25, 4]"}),
        ("sum(concat(v, w)) + dot(v, v) + sum(outer(v, w))", {"v": "[0.1, 0.2]", "w": "[1, 2]"}),
    ],
)
def test_arrays_of_many_digits_begin_as_floats_do(text: str, point: dict[str, str]) -> None:
    expression = parse(text)
    found = precise_trace(expression, {name: parse(x).output for name, x in point.items()}, expression.variables, 30)
    floats = trace(expression, {name: parse(x).value() for name, x in point.items()})
    for precise, near in zip([*found.values, *found.adjoints], [*floats.values, *floats.adjoints], strict=True):
        assert (precise is None) == (near is None)
        if precise is not None:
            np.testing.assert_allclose(np.array(precise, dtype=object).astype(float), near, rtol=1e-12, atol=1e-300)


def test_warnings_name_the_element_and_overflow_only_what_is_infinite() -> None:
    point = {"v": parse("[0, 1000]").output}
    (warning,) = precise_trace(parse("sum(sqrt(v)*exp(v))"), point, ("v",), 20).warnings
    assert warning.kind == "singular"
    assert "element [0]" in warning.message


@pytest.mark.parametrize(
    ("text", "value", "message"),
    [("sum(outer(v, v))", "[1, 2, 3, 4]", "more than 10 operations.*max_operations="),
     ("v: 2; 2*v", "[1, 2]", "jacobian"), ("v: 2; sum(v)", "[1, 2, 3]", "declared with the shape 2"),
     ("v^2", "[1, 2]", "is a number here, not an array")],
)  # fmt: skip
def test_arrays_that_do_not_do(text: str, value: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        precise_trace(parse(text), {"v": parse(value).output}, ("v",), 20, max_operations=10)


@pytest.mark.parametrize("digits", [4_400, pytest.param(20_000, marks=pytest.mark.slow)])
def test_thousands_of_digits(digits: int) -> None:
    """More than Python writes a whole number with."""
    found = precise_trace(parse("erf(x) + 10^-30000*x"), {"x": parse("0.1").output}, ["x"], digits)
    with mp.workdps(digits + 20):
        right = mp.erf(mpf("0.1")) + mpf(10) ** -30001
        assert abs(mpf(found.value) / right - 1) < mpf(10) ** (1 - digits)
        assert abs(mpf(found.gradient["x"]) * mp.sqrt(mp.pi) / 2 / mp.exp(mpf("-0.01")) - 1) < mpf(10) ** (1 - digits)


def test_every_element_of_a_gradient_has_its_digits() -> None:
    point = {"v": parse("[1, 0]").output, "x": parse("2").output}
    found = precise_trace(parse("dot(v, [1, (sqrt(x) + 10^99) - 10^99])"), point, ("v",), 20)
    assert not found.warnings
    assert [*found.gradient["v"]] == ["1.0000000000000000000", "1.4142135623730950488"]


@pytest.mark.parametrize("text", ["x*y + sin(x)*x - y^2", "t = x/y; exp(t)*t + max(x, y)", "log(x^2 + y)*x*x"])
def test_every_number_of_a_precise_trace_is_that_of_the_trace_in_floats(text: str) -> None:
    formula = parse(text)
    floats = trace(formula, {"x": 2.0, "y": 3.0}, ("x", "y"))
    precise = precise_trace(formula, {"x": parse("2").output, "y": parse("3").output}, ("x", "y"), 25)

    def number(text: str | float | None) -> float | None:
        return None if text is None else pytest.approx(float(text), rel=1e-12)

    assert floats.values == [*map(number, precise.values)]
    assert floats.adjoints_or_none == [*map(number, precise.adjoints_or_none)]
    for parts, others in zip(floats.contributions, precise.contributions, strict=True):
        for part, other in zip(parts, others, strict=True):
            expected = {name: number(getattr(other, name)) for name in ("local", "amount", "total")}
            assert part == other._replace(**expected)


@pytest.mark.parametrize("text", ["1e300", "1e400", "5e-400", "2", "inf"])
def test_numbers_beyond_floats_keep_their_signs(text: str) -> None:
    """Finite ones become the largest float of their sign, and infinite ones stay infinite."""
    number = parse_constant(text) if text != "inf" else from_float(float("inf"))
    found = precision._nearest_float(number)
    assert precision._nearest_float(-number) == -found
    assert found == {"1e400": sys.float_info.max, "5e-400": 0.0}.get(text, float(text))
