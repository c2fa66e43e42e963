"""Values by convention are printed with a condition, where it can hold and where it matters."""

from __future__ import annotations

import itertools
import math

import autodiff_cli as ad
from autodiff_cli.algebra.conditions import decide, write_guard
from autodiff_cli.algebra.forms import FormTable
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import topological_order
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import read
from tests.each import each


def derivative(text: str, name: str) -> str:
    return str(ad.parse(text).derivative(name))


@each(
    ("text", "name", "expected"),
    [
        ("x^n", "n", "where(x == 0 and n > 0, 0, x^n*log(x))"),
        ("a*x^n + b", "n", "where(x == 0 and n > 0, 0, a*x^n*log(x))"),
        ("0^(x - 1)", "x", "where(x > 1, 0, 0^(x - 1)*log(0))"),
        ("hypot(x, y)", "x", "where(hypot(x, y) == 0, 0, x/hypot(x, y))"),
        (
            *("a^(n^3 - 2*exp(n))", "n"),
            "t1 = n^3 - 2*exp(n); where(a == 0 and t1 > 0, 0, 3*n^2*a^t1*log(a) - 2*a^t1*exp(n)*log(a))",
        ),
        ("hypot(a*x, b*x)", "x", "t1 = hypot(a*x, b*x); where(t1 == 0, 0, x*(a^2 + b^2)/t1)"),
    ],
)
def test_guards(text: str, name: str, expected: str) -> None:
    assert derivative(text, name) == expected


@each(
    ("text", "name", "expected"),
    [
        ("2^x", "x", "2^x*log(2)"),
        ("pi^x", "x", "pi^x*log(pi)"),
        ("(1 + x^2)^n", "n", "(1 + x^2)^n*log(1 + x^2)"),
        ("exp(x)^n", "n", "x*exp(x)^n"),
        ("cosh(x)^n", "n", "cosh(x)^n*log(cosh(x))"),
        ("(abs(x) + sqrt(2))^n", "n", "t1 = abs(x) + sqrt(2); t1^n*log(t1)"),
        ("hypot(x, 2)", "x", "x/hypot(x, 2)"),
        ("hypot(x, exp(y))", "x", "x/hypot(x, exp(y))"),
        ("x^x", "x", "x^x*log(x) + x^x"),
        ("x^sin(x)", "x", "x^sin(x)*log(x)*cos(x) + x^(sin(x) - 1)*sin(x)"),
        ("v: 3; sum(2^v)", "v", "v: 3; 2^v*log(2)"),
    ],
)
def test_a_condition_that_never_holds_is_not_printed(text: str, name: str, expected: str) -> None:
    assert derivative(text, name) == expected


@each(
    ("text", "name", "expected"),
    [
        ("hypot(x, y)^2", "x", "2*x"),
        ("hypot(x, y)*hypot(x, y)*y", "y", "2*y^2 + hypot(x, y)^2"),
        ("log(hypot(x, y))", "x", "x/hypot(x, y)/hypot(x, y)"),
        ("1/x^n", "n", "-x^-n*log(x)"),
    ],
)
def test_a_guard_that_the_other_factors_need_not_is_not_printed(text: str, name: str, expected: str) -> None:
    assert derivative(text, name) == expected


@each("rest", ["x/w", "w/x^3", "x*log(w)", "x^2/w^3", "log(x)", "x/hypot(x, y)"])
@each("guarded", ["hypot(x, y)", "z*hypot(x, y)", "x*z*hypot(x, y)"])
def test_a_printed_derivative_is_finite_where_the_derivative_is(guarded: str, rest: str) -> None:
    """Also where other terms divide by what is not 0 there."""
    f = ad.parse(f"{guarded} + {rest} + 0*(w + x + y + z)")
    printed = ad.parse(f"{f.derivative('x')} + 0*(w + x + y + z)")
    for x, y in itertools.product((0.0, 1.5), repeat=2):
        point = {"w": 3.0, "x": x, "y": y, "z": 2.0}
        slope = f.grad(point)["x"]
        assert not math.isfinite(slope) or math.isclose(printed(point), slope, rel_tol=1e-12)


def test_guards_in_a_sum_without_a_value_are_not_printed() -> None:
    second = ad.parse("hypot(x, y)^2").derivative("x").derivative("x")
    assert str(second) == "2"


@each(
    ("text", "name", "expected"),
    [
        ("clip(x, 0, 1)", "x", "where(0 < x < 1, 1, 0)"),
        ("clip(x, a, b)", "x", "where(a < x < b, 1, 0)"),
        ("clip(z, z, x)", "z", "0"),
        ("clip(z, z, x)", "x", "where(z > x, 1, 0)"),
        ("where(1 > x > y, x^2, x)", "x", "where(1 > x > y, 2*x, 1)"),
        ("where(x < 2 and 1 < x, x^2, x)", "x", "where(1 < x < 2, 2*x, 1)"),
        ("where(x - 1 > 0, x^2, x)", "x", "where(x > 1, 2*x, 1)"),
        ("where(2 - x >= 0, x^2, x)", "x", "where(x <= 2, 2*x, 1)"),
        ("where(x > 0 or x > 0, x^2, x)", "x", "where(x > 0, 2*x, 1)"),
        ("where(2 > 1 and x > 0, x^2, x)", "x", "where(x > 0, 2*x, 1)"),
        ("where(not 0.1 > 0.5, x^2, x)", "x", "2*x"),
        ("where(x < x, x^2, x)", "x", "1"),
        ("where(x <= x, x^2, x)", "x", "where(x <= x, 2*x, 1)"),
    ],
)
def test_conditions(text: str, name: str, expected: str) -> None:
    assert derivative(text, name) == expected


_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_DIFFERENCES = ("x - 2", "2 - x", "-x - 2", "2*x - 4")
_SIMPLIFIED = [
    *(pair.format(one, op) for one in _DIFFERENCES for op in _COMPARISONS for pair in ("{0} {1} 0", "0 {1} {0}")),
    *(f"{one} and {other}" for one in ("x < 2", "2 >= x", "x > 1", "1 <= x") for other in ("1 < x", "x <= 2")),
]


@each("condition", _SIMPLIFIED)
def test_a_condition_in_another_form_holds_at_the_same_points(condition: str) -> None:
    slope = ad.parse(str(ad.parse(f"where({condition}, x^2, x)").derivative("x")))
    for x in (-3, -2, -1, 0, 1, 2, 3):
        assert slope.value({"x": x}) == (2 * x if eval(condition, {"x": x}) else 1), (str(slope), x)


@each(
    ("text", "expected"),
    [
        ("0.1 + 0 < 1", None),
        ("0.1 < 1", True),
        ("0.1 == 1e-1", True),
        ("-2 < -1", True),
        ("pi < 3", False),
        ("nan == nan", None),
        ("1e400 > 1", None),
        ("x > x", False),
        ("x >= x", None),
        ("x + 1", None),
    ],
)
def test_what_is_decided_before_anything_is_evaluated(text: str, expected: bool | None) -> None:
    node = read(text).output
    assert node.op is not None
    assert decide(node.op, node.inputs) is expected


@each(("outer", "inner"), itertools.product(("x == 0", "y == 0", "x == 0 and y > 0", "hypot(x, y) == 0"), repeat=2))
def test_a_formula_with_two_guards_is_0_where_either_holds(outer: str, inner: str) -> None:
    forms = FormTable((), True, lambda *_: None)

    def node_of(text: str) -> Node:
        new: dict[Node, Node] = {}
        for node in topological_order((read(text).output,)):
            inputs = [new[child] for child in node.inputs]
            new[node] = forms.apply(node.operation, *inputs) if node.op else forms.add_leaf(node)
        return new[node]

    once = write_guard(forms, node_of(inner), node_of("x + y + 3"))
    twice = write_guard(forms, node_of(outer), once)
    assert (twice is once) is (outer == inner)
    for x, y in itertools.product((-1, 0, 1), repeat=2):
        holds = any(eval(condition, {"x": x, "y": y, "hypot": math.hypot}) for condition in (outer, inner))
        assert ad.parse(to_text(twice)).value({"x": x, "y": y}) == (0 if holds else x + y + 3)


def test_a_guard_that_is_there_is_not_repeated() -> None:
    second = str(ad.parse("n^n^n").derivative("n").derivative("n"))
    assert "where(n == 0, 0" in second
    assert "where(n == 0, 0, where(n == 0, 0" not in second
