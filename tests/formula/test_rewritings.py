"""Every rewrite rule preserves the value, and keeps digits that the original loses."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff_cli as ad
from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits
from autodiff_cli.formula import rewriting as engine
from autodiff_cli.formula.rewriting import REWRITE_RULES, RewriteRule, stable_form
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import substitute, topological_order
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import read
from autodiff_cli.numbers.ball_arithmetic import as_ball, from_float, is_finite, nearest_float, working_precision
from tests.each import each, examples
from tests.texts import formulas

ROWS = [pytest.param(row, id=f"row {i}") for i, row in enumerate(REWRITE_RULES)]
Point = dict[str, float]

# What is written, what is better, and a point at which that shows: in the value, or else in a slope.
EXAMPLES: list[tuple[str, str, Point]] = [
    ("1 - cos(x)", "2*sin(x/2)^2", {"x": 1e-7}),
    ("cos(2*x) - 1", "-2*sin(x)^2", {"x": 1e-7}),
    ("y*(3 - 3*cos(a*b))/x^2", "6*y*sin(a*b/2)^2/x^2", {"a": 1e-5, "b": 1e-4, "x": 0.5, "y": 2}),
    ("1 + cos(x)", "2*cos(x/2)^2", {"x": 3.1415926}),
    ("exp(x) - 1", "expm1(x)", {"x": 1e-10}),
    ("-1 + e^x", "expm1(x)", {"x": 1e-10}),
    ("a - a*exp(-b*t)", "-a*expm1(-b*t)", {"a": 3, "b": 1e-5, "t": 1e-5}),
    ("exp(x) - 2 + exp(-x)", "4*sinh(x/2)^2", {"x": 1e-6}),
    ("exp(x) + 1/exp(x) - 2", "4*sinh(x/2)^2", {"x": 1e-6}),
    ("(exp(x) - exp(-x))/2", "sinh(x)", {"x": 1e-9}),
    ("cosh(x) - sinh(x)", "exp(-x)", {"x": 20}),
    ("exp(x)/(exp(x) - 1)", "-1/expm1(-x)", {"x": 1e-10}),
    ("1/(1 + exp(-x))", "sigmoid(x)", {"x": -400}),
    ("K/(1 + exp(-r*(t - m)))", "K*sigmoid(r*(t - m))", {"K": 5, "r": 1, "t": 3, "m": 450}),
    ("exp(x)/(1 + exp(x))", "sigmoid(x)", {"x": 800}),
    ("exp(a)/(exp(a) + exp(b))", "sigmoid(a - b)", {"a": 800, "b": 799}),
    ("(exp(2*x) - 1)/(exp(x) - 1)", "exp(x) + 1", {"x": 1e-12}),
    ("(1 + x)^n - 1", "where(x > -1, expm1(n*log1p(x)), (1 + x)^n - 1)", {"x": 1e-12, "n": 3.5}),
    ("(1 + x)^2 - 1", "x*(2 + x)", {"x": 1e-12}),
    ("log(1 + x)", "log1p(x)", {"x": 1e-10}),
    ("log(x*y + 1)", "log1p(x*y)", {"x": 1e-6, "y": 1e-5}),
    ("y*log(1 - x)", "y*log1p(-x)", {"x": 1e-10, "y": 3}),
    ("log((1 - x)/(1 + x))", "-2*atanh(x)", {"x": 1e-9}),
    ("log((1 + x)/(1 - x))/2", "atanh(x)", {"x": 1e-9}),
    ("log(1 - x) - log(1 + x)", "-2*atanh(x)", {"x": 1e-9}),
    ("log(x + sqrt(x^2 + 1))", "asinh(x)", {"x": -1e6}),
    ("log(x + sqrt(x*x - 1))", "acosh(x)", {"x": 1.00000001234567}),
    ("log(1 + exp(x))", "softplus(x)", {"x": -40}),
    ("log(1 - exp(-x))", "where(-x > -log(2), log(-expm1(-x)), log1p(-exp(-x)))", {"x": 1e-10}),
    ("log(exp(x) + exp(y))", "logaddexp(x, y)", {"x": 800, "y": 801}),
    ("log(sigmoid(x))", "logsigmoid(x)", {"x": -800}),
    ("log(gamma(x + 1))", "lgamma(x + 1)", {"x": 200}),
    ("log(cosh(x))", "where(abs(x) > 1, abs(x) + log1p(exp(-2*abs(x))) - log(2), log1p(2*sinh(x/2)^2))", {"x": 1e-5}),
    ("1 - erf(x/sqrt(2))", "erfc(x/sqrt(2))", {"x": 8}),
    ("1 - erfc(x)", "erf(x)", {"x": 1e-12}),
    ("1 - normal_cdf((x - m)/s)", "normal_cdf(-(x - m)/s)", {"x": 9, "m": 0.5, "s": 1}),
    ("a - a*sigmoid(x)", "a*sigmoid(-x)", {"a": 2, "x": 40}),
    ("1 - gammainc(2, x)", "gammaincc(2, x)", {"x": 40}),
    ("1 - gammaincc(2, x)", "gammainc(2, x)", {"x": 1e-7}),
    ("1 - tanh(x)^2", "sech(x)^2", {"x": 15}),
    ("1 - tanh(x)", "2*sigmoid(-2*x)", {"x": 18}),
    ("1 + tanh(x)", "2*sigmoid(2*x)", {"x": -18}),
    ("1 - cos(x)^2", "sin(x)^2", {"x": 1e-7}),
    ("1 - sin(x)^2", "cos(x)^2", {"x": 1.5707963}),
    ("cosh(x)^2 - 1", "sinh(x)^2", {"x": 1e-7}),
    ("sec(x)^2 - 1", "tan(x)^2", {"x": 1e-7}),
    ("(1 - cos(x))/sin(x)", "tan(x/2)", {"x": 1e-7}),
    ("sin(x)/(1 + cos(x))", "tan(x/2)", {"x": 3.1415926}),
    ("cosh(x) - 1", "2*sinh(x/2)^2", {"x": 1e-7}),
    ("sec(x) - 1", "2*sin(x/2)^2/cos(x)", {"x": 1e-7}),
    ("tan(x) - sin(x)", "2*tan(x)*sin(x/2)^2", {"x": 1e-6}),
    ("cos(x)^2 - sin(x)^2", "cos(2*x)", {"x": 0.78539816}),
    ("(exp(x + h) - exp(x))/h", "exp(x)*expm1(h)/h", {"x": 1, "h": 1e-9}),
    ("log(x + 1) - log(x)", "log1p(1/x)", {"x": 1e12}),
    ("log(x/(x + 1))", "log1p(-1/(x + 1))", {"x": 1e12}),
    ("sin(x + h) - sin(x)", "2*cos(x + h/2)*sin(h/2)", {"x": 1, "h": 1e-9}),
    ("cos(x + h) - cos(x)", "-2*sin(x + h/2)*sin(h/2)", {"x": 1, "h": 1e-9}),
    ("tan(x + h) - tan(x)", "sin(h)/(cos(x + h)*cos(x))", {"x": 1, "h": 1e-9}),
    ("atan(x + 1) - atan(x)", "atan2(1, 1 + x*(x + 1))", {"x": 1e8}),
    ("sinh(x + h) - sinh(x)", "2*cosh(x + h/2)*sinh(h/2)", {"x": 1, "h": 1e-9}),
    ("cosh(x + h) - cosh(x)", "2*sinh(x + h/2)*sinh(h/2)", {"x": 1, "h": 1e-9}),
    ("tanh(x + h) - tanh(x)", "sinh(h)/(cosh(x + h)*cosh(x))", {"x": 1, "h": 1e-9}),
    ("sqrt(x + 1) - sqrt(x)", "1/(sqrt(x + 1) + sqrt(x))", {"x": 1e12}),
    ("(1 + x)^0.5 - 1", "x/(sqrt(1 + x) + 1)", {"x": 1e-12}),
    ("(1 + x)^(1/2) - 1", "x/(sqrt(1 + x) + 1)", {"x": 1e-12}),
    ("1 - sqrt(1 - x^2)", "x^2/(sqrt((1 - x)*(1 + x)) + 1)", {"x": 1e-6}),
    ("sqrt(1 + x) - sqrt(1 - x)", "2*x/(sqrt(1 + x) + sqrt(1 - x))", {"x": 1e-10}),
    ("1/sqrt(x) - 1/sqrt(x + 1)", "1/((sqrt(x + 1) + sqrt(x))*sqrt(x + 1)*sqrt(x))", {"x": 1e12}),
    ("cbrt(x + 1) - cbrt(x)", "1/(cbrt(x + 1)^2 + cbrt(x + 1)*cbrt(x) + cbrt(x)^2)", {"x": 1e12}),
    ("sqrt(x^2 + 1) - x", "t1 = sqrt(x^2 + 1); where(x > 0, 1/(t1 + x), t1 - x)", {"x": 1e6}),
    ("x + sqrt(x^2 + c)", "t1 = sqrt(x^2 + c); where(x < 0, c/(t1 - x), t1 + x)", {"x": -1e6, "c": 2}),
    (
        "(-b + sqrt(b^2 - 4*a*c))/(2*a)",
        "t1 = sqrt(b^2 - 4*a*c); where(b > 0, -4*a*c/(t1 + b), t1 - b)/(2*a)",
        {"a": 1, "b": 1e6, "c": 1},
    ),
    (
        "(-b - sqrt(b^2 - 4*a*c))/(2*a)",
        "t1 = sqrt(b^2 - 4*a*c); -where(b < 0, -4*a*c/(t1 - b), t1 + b)/(2*a)",
        {"a": 1, "b": -1e6, "c": 1},
    ),
    (
        "(x + 1)^(1/n) - x^(1/n)",
        "where(min(x + 1, x) > 0, x^(1/n)*expm1(log1p(1/x)/n), (x + 1)^(1/n) - x^(1/n))",
        {"x": 1e12, "n": 3},
    ),
    ("sqrt(x^2 + y^2)", "hypot(x, y)", {"x": 3e200, "y": 4e200}),
    ("x^2 - y^2", "(x - y)*(x + y)", {"x": 123456789.125, "y": 123456789.0625}),
    ("sqrt(x^2 - 1)", "sqrt((x - 1)*(x + 1))", {"x": 1.00000001234567}),
    ("1/(1 - x^2)", "1/((1 - x)*(1 + x))", {"x": 1.00000001234567}),
    ("1 - (1 - p)^2", "p*(2 - p)", {"p": 1e-12}),
    ("(x + h)^2 - x^2", "h*(2*x + h)", {"x": 1e5, "h": 1e-7}),
    ("x^3 - y^3", "(x - y)*(x^2 + x*y + y^2)", {"x": 123456789.125, "y": 123456789.0625}),
    ("(x + h)^3 - x^3", "h*((x + h)^2 + x*(x + h) + x^2)", {"x": 1e5, "h": 1e-7}),
    ("acos(1 - x)", "2*asin(sqrt(x/2))", {"x": 1e-12}),
    ("1/(x + 1) - 1/x", "-1/(x*(x + 1))", {"x": 1e9}),
    ("1/(x + 1) - 2/x + 1/(x - 1)", "2/(x*(x + 1)*(x - 1))", {"x": 1e6}),
    ("x/(x + 1) - 1", "-1/(x + 1)", {"x": 1e9}),
    ("gamma(a)*gamma(b)/gamma(a + b)", "beta(a, b)", {"a": 170, "b": 20}),
    (
        "eps*(exp((a + b)*eps) - 1)/((exp(a*eps) - 1)*(exp(b*eps) - 1))",
        "eps*expm1(eps*(a + b))/(expm1(eps*a)*expm1(eps*b))",
        {"eps": 1e-10, "a": 1.5, "b": 0.5},
    ),
]
# The same, where the slope gains and not the value.
SLOPES: list[tuple[str, str, Point]] = [
    ("(1 - cos(x))/x^2", "sinc(x/2)^2/2", {"x": 1e-8}),
    ("2*sin(a*x)/(a*x)", "2*sinc(a*x)", {"x": 1e-5, "a": 1}),
    ("(x + y)/(x - y)", "2*x/(x - y) - 1", {"x": 3e-8, "y": -0.17}),
]


def right(graphs: list[Node], point: Point) -> list[float]:
    """The values of graphs, proven."""
    found = evaluate_to_digits(
        graphs, 30, max_cancelled_digits=400, leaves={name: from_float(x) for name, x in point.items()}
    )
    assert all(found.is_proven)
    return [nearest_float(x) for x in found.numbers]


def errors(f: ad.Expression, like: ad.Expression, point: Point) -> tuple[float, float]:
    """The relative errors of the value, and of the worst slope, as the floats of a formula like another."""
    leaves = list(like.leaves.values())
    exact, *slopes = right([like.output, *gradient_nodes(like.output, leaves)], point)
    value, gradient = f.value_and_grad(point)
    return error(value, exact), max(error(gradient[x], slope) for x, slope in zip(like.variables, slopes, strict=True))


def error(found: float, exact: float) -> float:
    if not math.isfinite(found) or not exact:
        return 0.0 if found == exact else math.inf
    return abs(found - exact) / abs(exact)


def sides_and_names(row: RewriteRule) -> tuple[list[Node], list[str]]:
    """Return the pattern and the replacement of a rule, and the names of their inputs."""
    replacement = row.replacement
    if row.difference is not None:
        (replacement,) = substitute([replacement], {engine.d: row.difference})
    return [row.pattern, replacement], [node.text for node in topological_order([row.pattern]) if node.is_input]


@each("row", ROWS)
def test_both_sides_are_the_same_to_50_digits(row: RewriteRule) -> None:
    sides, names = sides_and_names(row)
    chance = random.Random(3)
    for _ in range(8):
        leaves = {name: from_float(round(chance.uniform(*row.domain), 3)) for name in names}
        found = evaluate_to_digits(sides, 60, leaves=leaves)
        assert all(found.is_proven)
        with working_precision(300):
            before, after = map(as_ball, found.numbers)
            assert abs(before - after) <= 1e-50 * abs(before)


@each("row", ROWS)
def test_both_sides_are_the_same_wherever_the_pattern_has_a_value(row: RewriteRule) -> None:
    sides, names = sides_and_names(row)
    chance = random.Random(4)
    for _ in range(25):
        leaves = {name: from_float(chance.choice([-7, -3, -1.5, -0.4, -1e-5, 1e-5, 0.3, 1.2, 2, 4])) for name in names}
        before, after = evaluate_to_digits(sides, 30, leaves=leaves).numbers
        with working_precision(200):
            difference = as_ball(before) - as_ball(after)
            assert not is_finite(before) or abs(difference) <= 1e-25 * abs(as_ball(before)), leaves


@each(("text", "expected", "point"), EXAMPLES, ids=[text for text, _, _ in EXAMPLES])
def test_what_is_better(text: str, expected: str, point: Point) -> None:
    check_better(text, expected, point, slopes=False)


@each(("text", "expected", "point"), SLOPES, ids=[text for text, _, _ in SLOPES])
def test_what_is_better_for_slopes(text: str, expected: str, point: Point) -> None:
    for_value = stable_form(read(text).output)
    assert for_value is None or to_text(for_value, share=False) != expected
    check_better(text, expected, point, slopes=True)


def check_better(text: str, expected: str, point: Point, slopes: bool) -> None:
    found = stable_form(read(text).output, slopes)
    assert found is not None
    assert to_text(found, share=False) == expected
    original = ad.parse(text)
    written = ad.parse(expected, variables=original.variables)
    before, after = errors(original, original, point), errors(written, original, point)
    gain = 1 if slopes or before[0] < 1e-10 else 0
    assert before[gain] > 1e-10
    assert after[gain] < 1e-13
    assert after[0] < 1e-13


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    monkeypatch.undo()
    engine._rules_for.cache_clear()


@pytest.mark.slow
@each("row", ROWS)
def test_every_row_has_an_example(row: RewriteRule, only: pytest.MonkeyPatch) -> None:
    only.setattr(engine, "REWRITE_RULES", (row,))
    engine._rules_for.cache_clear()
    assert any(stable_form(read(text).output, for_derivative=True) is not None for text, _, _ in [*EXAMPLES, *SLOPES])


FORMS = (
    "exp({})|log({})|cos({})|sin({})|sqrt({})|{} - {}|{} - {}|{} + {}|{}*{}|{}/{}|{}^2|1 - {}|{} - 1|1/{}|-{}|cosh({})"
)
FORMS += "|tanh({})|{}^{}|atan({})|tan({})|exp(-{})|1 + exp({})"
NUMBERS = st.one_of(st.floats(-3, 3), st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0]))


@pytest.mark.slow
@examples(300)
@given(
    formulas(FORMS.split("|"), ["x", "y", "1", "2", "(x + y)", "(x + 1)", "x^2"], most=6),
    st.booleans(),
    NUMBERS,
    NUMBERS,
)
def test_what_is_better_is_the_same(text: str, slopes: bool, x: float, y: float) -> None:
    graph = read(text).output
    found = stable_form(graph, slopes)
    if found is None:
        return
    leaves = {"x": from_float(x), "y": from_float(y)}
    values = evaluate_to_digits([graph, found], 30, max_cancelled_digits=60, leaves=leaves)
    if all(values.is_proven) and is_finite(values.numbers[0]):
        with working_precision(300):
            before, after = map(as_ball, values.numbers)
            assert abs(before - after) <= 1e-25 * (1 + abs(before))


@each(
    "text", ["x*y + sin(x)", "x + 1 - x", "a*exp(-b*x)", "(x*y - 1)/(x + y)", "sqrt(2) - 1 + x", "exp(x) - 2", "x - y"]
)
def test_what_is_left_alone(text: str) -> None:
    assert stable_form(read(text).output, for_derivative=True) is None


@each("text", ["x - (y - (-z + x*y))", "-(x - y) - z", "x*-(y + z)*(y/(z/2))", "x*-y/-(-(x*z)/y)", "1*x/1*(y/z)"])
def test_operands_of_a_sum_or_product_have_its_value(text: str) -> None:
    formula, point = ad.parse(text), {"x": 1.3, "y": 0.7, "z": -2.9}
    for split in (engine.terms_of, engine.factors_of):
        values = [(formula.with_output(node).value(point), is_inverse) for node, is_inverse in split(formula.output)]
        if split is engine.terms_of:
            found = sum(-value if is_inverse else value for value, is_inverse in values)
        else:
            found = math.prod(1 / value if is_inverse else value for value, is_inverse in values)
        assert found == pytest.approx(formula.value(point), rel=1e-14)


@each(
    ("text", "wanted"),
    [
        ("log((1 + x)/(1 - x))", "2*atanh(x)"),
        ("log((1 - x)/(1 + x))", "-2*atanh(x)"),
        ("log(1 + x) - log(1 - x)", "2*atanh(x)"),
        ("z - (log(1 - x) - log(1 + x))", "z + 2*atanh(x)"),
    ],
)
def test_a_pattern_does_not_match_with_all_signs_reversed(text: str, wanted: str) -> None:
    """`-2*atanh(-x)` would be right as well."""
    assert to_text(stable_form(read(text).output)) == wanted
