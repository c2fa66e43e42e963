"""Derivatives of high order in one variable, against closed forms, mpmath, and the other ways to differentiate."""

from __future__ import annotations

import math
from fractions import Fraction
from math import inf

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mpmath import mp, mpf

from autodiff_cli.autodiff.sweeps import forward, reverse
from autodiff_cli.autodiff.taylor import derivatives
from autodiff_cli.expression import parse
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.errors import ExpressionError, UnknownNameError
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops import get_op
from tests.each import each, examples
from tests.graphs import SMOOTH, graphs
from tests.ops.table import ROWS, Row

moderate = st.floats(-2, 2, allow_subnormal=False)
points = st.fixed_dictionaries(dict.fromkeys("xyz", moderate))
Drawn = tuple[Node, list[Node]]


def towards_x(text: str, order: int, x: float, **others: float) -> list[float]:
    return parse(text).derivatives("x", order, {"x": x, **others})


# --- against other ways to differentiate


@examples(200)
@given(graphs(SMOOTH, most=6), points)
def test_the_first_orders_are_those_of_the_gradient_as_a_graph(drawn: Drawn, point: dict[str, float]) -> None:
    output, leaves = drawn
    x = leaves[0]
    found = derivatives(Tape((output,), [x]), x, FLOATS, point, 3)
    graph = output
    for value in found:
        expected = forward(Tape((graph,)), FLOATS, point)[-1]
        assume(abs(expected) < 1e6)
        assert value == pytest.approx(expected, rel=1e-6, abs=1e-6)
        (graph,) = gradient_nodes(graph, [x])


@examples(300)
@given(graphs(), points)
def test_the_first_order_is_the_gradient_whatever_the_operations(drawn: Drawn, point: dict[str, float]) -> None:
    output, leaves = drawn
    x = leaves[0]
    tape = Tape((output,), [x])
    slope = reverse(tape, FLOATS, forward(tape, FLOATS, point), 1.0)[tape.index[x]] if x in tape.index else None
    expected = 0.0 if slope is None else slope
    value = derivatives(tape, x, FLOATS, point, 1)[1] if x in tape.index else 0.0
    if math.isfinite(expected) and math.isfinite(value) and abs(expected) < 1e100:
        assert value == pytest.approx(expected, rel=1e-6, abs=1e-6)


# --- against closed forms


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=8), st.integers(-4, 4), st.integers(1, 10))
def test_polynomials_of_whole_numbers_are_exact(coefficients: list[int], x: int, order: int) -> None:
    text = " + ".join(f"({c})*x^{k}" for k, c in enumerate(coefficients))
    expected = [
        sum(c * math.perm(k, n) * Fraction(x) ** (k - n) for k, c in enumerate(coefficients) if k >= n)
        for n in range(order + 1)
    ]
    assert towards_x(text, order, x) == expected


@each("n", [-3, -2, -1, 0, 1, 2, 3, 4, 0.5, 1.5, 2.5])
@each("text", ["x^n", "x^(n + 1 - 1)", "pow(x, 2*n/2)"])
def test_powers_follow_the_rule_of_powers_at_0_and_on_both_sides(text: str, n: float) -> None:
    """n·(n - 1)·…·x^(n-k): of whole numbers n, slopes of an order above n are 0, where x^(n-k) is infinite, too."""
    for x in (0.0, -0.0, 2.0, -3.0):
        if x < 0 and n != int(n):
            continue
        factor = 1.0
        for order, slope in enumerate(towards_x(text, 5, x, n=n)):
            power = FLOATS.function(get_op("pow"), 2)(x, n - order)
            assert slope == pytest.approx(factor * power if factor else 0.0, rel=1e-13, abs=0), (x, order)
            factor *= n - order


@each("n", [0.0, 1.0, 2.0, 3.0])
def test_second_slopes_of_powers_at_0_and_below(n: float) -> None:
    """The slope n·x^(n-1) has the slope x^(n-1)·(1 + n·log(x)) with respect to n, which no negative x has."""
    (by_x, mixed), (again, by_n) = parse("x^n").hessian(x=0.0, n=n)
    assert (by_x, mixed, again) == (2.0 if n == 2 else 0.0, *[inf if n == 0 else -inf if n == 1 else 0.0] * 2)
    assert by_n == 0 or n == 0
    (by_x, *others), (_, by_n) = parse("x^n").hessian(x=-2.0, n=n)
    assert by_x == n * (n - 1) * (-2.0) ** (n - 2)
    assert all(map(math.isnan, (*others, by_n)))


def test_the_logarithm_has_factorials() -> None:
    assert towards_x("ln(1 + x)", 6, 0.0) == [0.0, 1.0, -1.0, 2.0, -6.0, 24.0, -120.0]
    assert towards_x("ln(1 + x)", 6, 1.0)[6] == -1.875


@given(st.floats(-3, 3))
def test_sine_and_cosine_take_turns(x: float) -> None:
    turns = [math.sin(x), math.cos(x), -math.sin(x), -math.cos(x)]
    assert towards_x("sin(x)", 9, x) == [turns[k % 4] for k in range(10)]


# --- against mpmath, over the table

AT = {"acosh": 1.7, "acoth": 1.7, "asec": 1.7, "acsc": 1.7}
OF_ONE_NUMBER = [row for row in ROWS if len(row.domain) == 1 and get_op(row.name).min_inputs == 1]


@each("row", OF_ONE_NUMBER, ids=lambda row: row.name)
def test_every_function_of_one_number_to_the_sixth_order(row: Row) -> None:
    x, order = AT.get(row.name, 0.7), 6
    op = get_op(row.name)
    leaf = parse("x").leaves["x"]
    found = derivatives(Tape((op(leaf),), [leaf]), leaf, FLOATS, {"x": x}, order)
    with mp.workdps(80):
        expected = [c * math.factorial(k) for k, c in enumerate(mp.taylor(row.value, mpf(x), order))]
    assert found == pytest.approx([float(e) for e in expected], rel=1e-11, abs=1e-11)


# fmt: off
COMPOSED = [
    ("tanh(exp(sin(x))*x)",  lambda x: mp.tanh(mp.exp(mp.sin(x)) * x)),
    ("x^x",                  lambda x: x**x),
    ("x^2.5",                lambda x: x ** mpf("2.5")),
    ("x^-3",                 lambda x: x**-3),
    ("sqrt(1 + x^2)/(1 + x)", lambda x: mp.sqrt(1 + x * x) / (1 + x)),
    ("hypot(x, 2)",          lambda x: mp.sqrt(x * x + 4)),
    ("atan2(x, 2)",          lambda x: mp.atan(x / 2)),
    ("root(x, 5)",           lambda x: mp.root(x, 5)),
    ("log(x, 3)",            lambda x: mp.log(x) / mp.log(3)),
    ("normal_pdf(x, 1, 2)",  lambda x: mp.npdf(x, 1, 2)),
    ("logaddexp(x, x^2)",    lambda x: mp.log(mp.exp(x) + mp.exp(x * x))),
]
# fmt: on


@each(("text", "exact"), COMPOSED, ids=[text for text, _ in COMPOSED])
def test_the_tenth_order_keeps_its_digits(text: str, exact: object) -> None:
    with mp.workdps(80):
        expected = [c * math.factorial(k) for k, c in enumerate(mp.taylor(exact, mpf(0.7), 10))]
    assert towards_x(text, 10, 0.7) == pytest.approx([float(e) for e in expected], rel=1e-12)


# --- what is structurally absent, and what is not defined


def test_an_unused_branch_contributes_nothing_at_any_order() -> None:
    assert towards_x("where(x > 0, sqrt(x), 5*x^2)", 3, 0.0) == [0.0, 0.0, 10.0, 0.0]
    assert towards_x("where(x > 0, x^3, log(x))", 3, 2.0) == [8.0, 12.0, 12.0, 6.0]
    assert towards_x("relu(x)^3", 3, 2.0) == [8.0, 12.0, 12.0, 6.0]
    assert towards_x("max(x^2, x)", 2, 3.0) == [9.0, 6.0, 2.0]
    assert towards_x("log(where(y > 0, y, x), -1)", 1, 2.0, y=1.0)[1] == 0.0


def test_literal_zeros_and_other_variables_contribute_nothing() -> None:
    assert towards_x("x + 0*sqrt(x)", 2, 0.0) == [0.0, 1.0, 0.0]
    assert towards_x("y^2*x + 3", 2, 1.0, y=5.0) == [28.0, 25.0, 0.0]
    assert towards_x("x^0 + sin(y)*x", 2, 0.0, y=0.0) == [1.0, 0.0, 0.0]
    assert towards_x("floor(x)*x + heaviside(x)", 2, 2.5) == [6.0, 2.0, 0.0]


def test_outside_the_domain_everything_is_nan_and_nothing_is_raised() -> None:
    assert all(map(math.isnan, towards_x("log(x)", 4, -1.0)))
    assert all(map(math.isnan, towards_x("asin(x)", 4, 2.0)))
    assert towards_x("sqrt(x)", 1, 0.0) == [0.0, math.inf]
    assert math.isinf(towards_x("1/x", 1, 0.0)[0])


# --- size


@pytest.mark.slow
def test_a_long_chain_and_a_high_order() -> None:
    text = "x"
    for _ in range(3000):
        text = f"sin({text} + 1)"
    found = towards_x(text, 3, 0.5)
    assert found[1] == pytest.approx(parse(text).grad(x=0.5)["x"])
    assert towards_x("exp(x)", 170, 0.0) == [1.0] * 171


def test_a_graph_is_not_repeated_for_every_order() -> None:
    # Each order of the expression is several times as long as the one before; a list of closed graphs is not.
    text = "x"
    for _ in range(60):
        text = f"tanh({text}*sin(x) + x/(2 + cos(x)))"
    found = towards_x(text, 10, 0.7)
    assert all(map(math.isfinite, found))


# --- the front door


def test_names_and_arrays_are_checked() -> None:
    f = parse("x*y")
    assert f.derivatives("y", 2, x=3, y=4) == [12.0, 3.0, 0.0]
    with pytest.raises(UnknownNameError):
        f.derivatives("z", 2, x=3, y=4)
    assert parse("sum([x, x^2])").derivatives("x", 2, x=3) == [12.0, 7.0, 2.0]
    with pytest.raises(ExpressionError, match="`v` is an array"):
        parse("sum(v^2)").derivatives("v", 2, v=[1, 2])


@each(("text", "x"), [("log(x, 2)", -1.0), ("log10(x)", -1.0), ("acosh(x)", 0.5), ("asec(x)", 0.5), ("logit(x)", 2.0)])
def test_all_orders_are_nan_outside_of_the_domain(text: str, x: float) -> None:
    """The definitions of some functions have numbers there."""
    assert all(map(math.isnan, towards_x(text, 4, x)))
