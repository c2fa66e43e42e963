"""Derivatives are written as a person would write them, and what is written has the same value."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, reject
from hypothesis import strategies as st

import autodiff_cli as ad
from autodiff_cli.algebra.readable import readable
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, Op, variable
from autodiff_cli.graph.tape import Tape, expand_helpers, infer_shapes, topological_order
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import read
from autodiff_cli.numbers.ball_arithmetic import Undecided, is_finite, log10_size
from autodiff_cli.numbers.balls import precision
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.numbers.kind import Kind
from autodiff_cli.ops.arithmetic import div, sub
from autodiff_cli.ops.functions import sin
from tests.each import each, examples
from tests.graphs import OPS, SHAPES, array_graphs, graphs

ARITHMETIC = tuple(
    op for op in OPS if op.name in {"add", "sub", "mul", "div", "neg", "pow", "square", "exp", "log", "sqrt", "where"}
)
MODERATE = st.floats(-3, 3, allow_subnormal=False)
SPECIAL = st.sampled_from([0.0, 1.0, -1.0, 0.5, 3.0, 800.0, -800.0, 1e-8, -1e8, 1e-300, 1e300, -1e300])
Drawn = tuple[Node, list[Node]]


def written(text: str) -> str:
    return to_text(readable([read(text).output], tuple(read(text).leaves))[0], share=False)


def values(root: Node, kind: Kind[Any], point: dict[str, float]) -> list[Any]:
    tape = Tape((root,))
    return forward(tape, kind, {name: kind.parse_constant(repr(x)) for name, x in point.items()})


def drawn_formula(drawn: Drawn, derived: bool) -> Node:
    """The graph or its derivative, without operations that only numbers have."""
    output, leaves = drawn
    root = gradient_nodes(output, leaves[:1])[0] if derived else output
    return expand_helpers([root])[root]


@st.composite
def sums_of_products(draw: st.DrawFn) -> str:
    """Text such as people write: sums of products of powers, quotients and calls."""
    atoms = st.sampled_from(["x", "y", "2", "3", "(1 - x)", "(x + y)", "(2*x - 3*y)", "(1 + x^2)", "(x^2 + x*y)"])
    calls = st.sampled_from(
        ["exp({})", "sqrt(1 + {}^2)", "sin({})", "exp(-{})", "({})^(3/2)", "abs({})", "log(4 + {})"]
    )
    terms = []
    for _ in range(draw(st.integers(1, 3))):
        factors = [
            draw(atoms) + draw(st.sampled_from(["", "", "^2", "^-1", "^3"])) for _ in range(draw(st.integers(1, 3)))
        ]
        if draw(st.booleans()):
            factors.append(draw(calls).format(draw(atoms)))
        terms.append("".join(f + draw(st.sampled_from("**/")) for f in factors[:-1]) + factors[-1])
    return draw(st.sampled_from([" + ", " - "])).join(terms)


def points(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[dict[str, float]]:
    return st.fixed_dictionaries(dict.fromkeys("xyz", numbers))


@examples(300)
@given(st.sampled_from([OPS, ARITHMETIC]).flatmap(graphs), st.booleans(), points(MODERATE))
def test_the_value_and_that_of_the_text_stay(drawn: Drawn, derived: bool, point: dict[str, float]) -> None:
    root = drawn_formula(drawn, derived)
    before = values(root, FLOATS, point)
    assume(all(abs(x) < 1e12 for x in before))
    tidy = readable([root])[0]
    after = values(tidy, FLOATS, point)
    scale = max(1.0, *(abs(x) for x in before), *(abs(x) for x in after if math.isfinite(x)))
    assert math.isclose(before[-1], after[-1], abs_tol=1e-9 * scale)
    again = values(read(to_text(tidy, share=False)).output, FLOATS, point)[-1]
    assert math.isclose(after[-1], again, abs_tol=1e-9 * scale)


@pytest.mark.slow
@examples(300)
@given(st.integers(0, 2), st.data(), points(SPECIAL))
def test_the_value_is_exactly_the_same_at_special_points(
    order: int, data: st.DataObject, point: dict[str, float]
) -> None:
    """With 60 digits and no overflow: what differs there is wrong algebra."""
    output, leaves = data.draw(graphs(ARITHMETIC, most=12 - 3 * order))
    for _ in range(order):
        (output,) = gradient_nodes(output, leaves[:1])
    root = expand_helpers([output])[output]
    with precision(200) as kind:
        try:
            before = values(root, kind, point)
            after = values(readable([root])[0], kind, point)[-1]
        except Undecided:
            reject()
        assume(all(is_finite(x) and log10_size(x) < 600 for x in before))
        assert log10_size(before[-1] - after) <= -40 + max(0, *map(log10_size, before))


@pytest.mark.slow
@examples(150)
@given(sums_of_products(), st.sampled_from([(0.7, 1.3), (-0.4, 2.1), (1.9, -1.2)]))
def test_second_derivatives_read_back_as_they_are(text: str, place: tuple[float, float]) -> None:
    f = ad.parse(text, variables=["x", "y"])
    point = dict(zip("xy", place, strict=True))
    for name, other in itertools.product(f.variables, repeat=2):
        second = f.derivative(name).derivative(other)
        expected = second({own: point[own] for own in second.variables})
        again = ad.parse(str(second))
        found = again({own: point[own] for own in again.variables})
        if math.isfinite(expected):
            assert found == pytest.approx(expected, rel=1e-8, abs=1e-6)


@examples(150)
@given(graphs(ARITHMETIC), points(MODERATE))
def test_formulas_written_together_keep_their_values(drawn: Drawn, point: dict[str, float]) -> None:
    output, leaves = drawn
    roots = [output, *gradient_nodes(output, leaves)]
    for root, tidy in zip(roots, readable(roots), strict=True):
        before = values(root, FLOATS, point)
        assume(all(abs(x) < 1e9 for x in before))
        assert math.isclose(before[-1], values(tidy, FLOATS, point)[-1], abs_tol=1e-9 * max(1, *map(abs, before)))


@each("op", [op for op in OPS if op.min_inputs == 1], ids=lambda op: op.name)
def test_the_printed_derivative_of_every_operation_is_its_gradient(op: Op) -> None:
    x = variable("x")
    f = ad.parse(to_text(op(x)))
    printed = ad.parse(str(f.derivative("x")))
    for place in (0.3, 0.7, 1.0, 1.6, -0.3, -2.5):
        slope = f.grad(x=place)["x"]
        if math.isfinite(slope):
            found = printed(x=place) if printed.variables else printed()
            assert found == pytest.approx(slope, rel=1e-12), place


@examples(200)
@given(array_graphs(ARITHMETIC))
def test_shapes_stay(drawn: Drawn) -> None:
    root = drawn_formula(drawn, derived=False)
    before, after = Tape((root,)), Tape((readable([root], shapes=SHAPES)[0],))
    assert infer_shapes(before, SHAPES)[before.outputs[0]] == infer_shapes(after, SHAPES)[after.outputs[0]]


@st.composite
def stretched_texts(draw: st.DrawFn) -> str:
    """Formulas of arrays, in which numbers and rows are stretched, that are made of what cancels in derivatives."""
    parts = ["a", "b", "V", "M", "2"]
    for _ in range(draw(st.integers(1, 4))):
        x, y = draw(st.permutations([draw(st.sampled_from(parts[-3:])), draw(st.sampled_from(parts))]))
        form = draw(
            st.sampled_from(
                [
                    "hypot({x}, {y})",
                    "exp({x}/3)",
                    "log({x}^2 + {y}^2)",
                    "({x})*({y})",
                    "({x})/({y})",
                    "{x} + {y}",
                    "({x})^2",
                    "sqrt({x})",
                    "({x} - {y})",
                    "({x} + {y} - {x})",
                    "max({x}, {y})",
                ]
            )
        )
        parts.append(form.format(x=x, y=y))
    reduction = draw(st.sampled_from(["sum", "norm"]))
    last = parts[-1] if {"V", "M"} & {*parts[-1]} else f"hypot({parts[-1]}, M)"
    return f"V: 3; M: 2x3; {reduction}({last})"


@examples(200)
@given(stretched_texts())
@example("V: 3; norm(hypot(a, exp(V)))")
@example("V: 3; M: 2x3; sum(hypot(a, V*M)*hypot(b, M))")
def test_printed_derivatives_of_arrays_are_the_gradient(text: str) -> None:
    f = ad.parse(text)
    point = {"a": 1.3, "b": 0.7, "V": [0.6, 1.1, 2.3], "M": [[0.4, 1.7, 0.9], [2.1, 1.2, 0.5]]}
    point = {name: point[name] for name in f.variables}
    gradient = f.grad(point)
    assume(all(np.isfinite(slope).all() and np.abs(slope).max() < 1e8 for slope in gradient.values()))
    for name, slope in gradient.items():
        printed = ad.parse(str(f.derivative(name)))
        found = printed({other: point[other] for other in printed.variables})
        assert np.broadcast_to(found, np.shape(slope)) == pytest.approx(slope, rel=1e-6, abs=1e-9), (name, str(printed))


@each(
    ("text", "expected"),
    [
        ("x + x", "2*x"),
        ("3*x + 2*x", "5*x"),
        ("x - y + (x + y)", "2*x"),
        ("2*(x + y) - 2*y", "2*x"),
        ("x*x", "x^2"),
        ("x^2*x", "x^3"),
        ("x^n*x", "x^(n + 1)"),
        ("t*s/t", "s"),
        ("x^1 + 0*y - (-z)", "x + z"),
        ("-x + y", "y - x"),
        ("-(x - y)", "y - x"),
        ("-(1/x^2)", "-1/x^2"),
        ("-(a*exp(-(b*x^2))*(2*x))", "-2*a*x*exp(-b*x^2)"),
        ("a/(b/c)", "a*c/b"),
        ("x/2 + x/3", "5*x/6"),
        ("0.5*x + 0.25*x", "0.75*x"),
        ("x^(1/2)*3", "3*sqrt(x)"),
        ("0.1*x/3", "x/30"),
        ("0.37*x/1.9", "0.19473684210526315*x"),
        ("6.02e23*x*1e-30", "6.02e-07*x"),
        ("sin(y)*pi*x*2*(x + 1)", "2*pi*x*(x + 1)*sin(y)"),
        ("exp(y*2 - x - x)", "exp(2*y - 2*x)"),
        ("where(c > 0, x - x, 0)", "0"),
        ("where(not c, x, 0)", "where(c, 0, x)"),
        ("x/hypot(x, y)/hypot(x, y)", "x/hypot(x, y)/hypot(x, y)"),
        ("x/0", "x/0"),
        ("1e400*x - 1e400*x", "0"),
        ("sqrt(x)^2", "x"),
        ("sqrt(4*x)", "2*sqrt(x)"),
        ("sqrt(x^2)*sqrt(9)", "3*abs(x)"),
        ("x/sqrt(x)", "sqrt(x)"),
        ("x*sqrt(x)/2", "x^(3/2)/2"),
        ("sqrt(a*b)*c*sqrt(a*b)", "a*b*c"),
        ("abs(x)^2*abs(-y)", "x^2*abs(y)"),
        ("sin(-x) + cos(-2*x)", "cos(2*x) - sin(x)"),
        ("sin(-x - y)*cos(-2*x - y)", "-sin(x + y)*cos(2*x + y)"),
        ("atan(y - x) - atan(x - y)", "atan(y - x) - atan(x - y)"),
        ("exp(a)*exp(b)*exp(-a)", "exp(b)"),
        ("exp(x)^2", "exp(2*x)"),
        ("1/exp(x)", "1/exp(x)"),
        ("x^a*x^b", "x^(a + b)"),
        ("x^n/x^3", "x^(n - 3)"),
        ("x^a/x^b", "x^(a - b)"),
        ("x^n*sqrt(x)", "x^n*sqrt(x)"),
        ("z*(x*sin(y) + sin(y)/x)", "z*(x + 1/x)*sin(y)"),
        ("exp(log(x)) + log(exp(y))", "x + y"),
        ("z + sin(x)%sin(x) + round(x/x)", "z + 1"),
        ("2*where(x > 0, x, 0) + 3*where(x > 0, 0, y)", "where(x > 0, 2*x, 3*y)"),
        ("(1 - x)*(1 + x)*y", "y*(1 - x^2)"),
        ("(2 - x)*(2 + x)*y", "y*(2 - x)*(2 + x)"),  # whose zeros are plain
        ("sqrt(x - 1)*sqrt(x + 1)", "sqrt(x^2 - 1)"),
        ("z*(2*a*x + 4*b*x)", "2*z*x*(a + 2*b)"),
        ("2*x*sin(y) + sin(y)", "(2*x + 1)*sin(y)"),
        ("sqrt(2*x + 2*y)", "sqrt(2*x + 2*y)"),  # a sum that nothing multiplies stays as it is
        ("(x*y + x*z)^1", "x*y + x*z"),
        ("x^2*sin(x) + x*cos(x)", "x^2*sin(x) + x*cos(x)"),
        ("1/(x + 1) - x/(x + 1)^2", "1/(x + 1)^2"),
        ("1/(1/x + 1) - 1/(1/x + 1)^2", "1/(1/x + 1) - 1/(1/x + 1)^2"),
    ],
)
def test_forms(text: str, expected: str) -> None:
    assert written(text) == expected


@each(
    ("text", "name", "expected"),
    [
        ("a*exp(-b*x^2)", "x", "-2*a*b*x*exp(-b*x^2)"),
        ("a*exp(-(x - mu)^2/(2*sigma^2))", "sigma", "a*(x - mu)^2*exp(-(x - mu)^2/(2*sigma^2))/sigma^3"),
        ("x*exp(-a*x)", "x", "(1 - a*x)*exp(-a*x)"),
        ("log(sigmoid(w*x + b))", "w", "x*sigmoid(-w*x - b)"),
        ("(w*x + b - t)^2", "w", "2*x*(w*x + b - t)"),
        ("tanh(a*b)", "a", "b/cosh(a*b)^2"),
        ("1/(a*x^2 + b*x)", "b", "-x/(a*x^2 + b*x)^2"),
        ("-log(1 - p)*(1 - y)", "p", "(1 - y)/(1 - p)"),
        ("x^n", "x", "n*x^(n - 1)"),
        ("x^x", "x", "x^x*log(x) + x^x"),
        ("1/x", "x", "-1/x^2"),
        ("m*v^2/2", "v", "m*v"),
        ("G*m1*m2/r^2", "r", "-2*G*m1*m2/r^3"),
        ("sqrt(1 - x^2)", "x", "-x/sqrt(1 - x^2)"),
        ("sin(x)/x", "x", "cos(x)/x - sin(x)/x^2"),
        ("log(x, b)", "b", "-log(x)/(b*log(b)^2)"),
        ("x*log(x) - x", "x", "log(x)"),
        ("sin(x)^2 + cos(x)^2", "x", "0"),
        ("erf(x)", "x", "2*exp(-x^2)/sqrt(pi)"),
        ("e^(-x^2/2)", "x", "-x*e^(-x^2/2)"),
        ("where(x > 0, x^3, sin(x))", "x", "where(x > 0, 3*x^2, cos(x))"),
        ("leaky_relu(x)", "x", "where(x > 0, 1, 0.01)"),
        ("asin(x)", "x", "1/sqrt(1 - x^2)"),
        ("acosh(x)", "x", "1/sqrt(x^2 - 1)"),
        ("asec(x)", "x", "1/(abs(x)*sqrt(x^2 - 1))"),
        ("asinh(x)", "x", "1/sqrt(1 + x^2)"),
        ("x*asin(x) + sqrt(1 - x^2)", "x", "asin(x)"),
        ("x*atan(x) - log(1 + x^2)/2", "x", "atan(x)"),
        ("(x - 1)/(x + 1)", "x", "2/(x + 1)^2"),
        ("(a*x + b)/(c*x + d)", "x", "(a*d - c*b)/(c*x + d)^2"),
        ("x/(x^2 + 1)", "x", "(1 - x^2)/(x^2 + 1)^2"),
        ("Vmax*S/(Km + S)", "S", "Vmax*Km/(Km + S)^2"),
        ("m0*v/sqrt(1 - v^2/c^2)", "v", "m0/(1 - v^2/c^2)^(3/2)"),
        ("(exp(x) - exp(-x))/(exp(x) + exp(-x))", "x", "4/(exp(x) + exp(-x))^2"),
        ("(x^2 + 3*x + 2)^5", "x", "5*(x^2 + 3*x + 2)^4*(2*x + 3)"),
        ("4*eps*((s/r)^12 - (s/r)^6)", "r", "-24*eps*s^6*(2*s^6/r^6 - 1)/r^7"),
    ],
)
def test_derivatives(text: str, name: str, expected: str) -> None:
    assert str(ad.parse(text).derivative(name)) == expected


@each(
    ("text", "order", "expected"),
    [
        ("log(1 + x)", 3, "2/(1 + x)^3"),
        ("a*exp(-b*x^2)", 3, "4*a*b^2*x*(3 - 2*b*x^2)*exp(-b*x^2)"),
        ("x^n", 3, "n*(n - 1)*(n - 2)*x^(n - 3)"),
        ("exp(-x^2/2)", 3, "x*(3 - x^2)*exp(-x^2/2)"),
        ("tanh(x)", 2, "-2*tanh(x)/cosh(x)^2"),
        ("asin(x)", 2, "x/(1 - x^2)^(3/2)"),
    ],
)
def test_higher_derivatives(text: str, order: int, expected: str) -> None:
    expression = ad.parse(text)
    for _ in range(order):
        expression = expression.derivative("x")
    assert str(expression) == expected


def test_the_users_formula_is_not_rewritten() -> None:
    assert str(ad.parse("x + x*1")) == "x + x*1"


def test_terms_of_arrays_that_cancel_keep_the_shape() -> None:
    assert to_text(readable([read("v - v").output], collect=False)[0]) == "v - v"


def test_what_is_used_twice_at_every_step_takes_no_exponential_time() -> None:
    node, y = variable("x"), variable("y")
    for _ in range(100):
        node = sin(y) + (node + node)
    assert len(topological_order(readable([node]))) < 1000


@pytest.mark.slow
def test_a_long_product_of_symbolic_powers() -> None:
    text = "*".join(f"x{i}^a*x{i}^b" for i in range(500))
    assert written(text) == "t1 = a + b; " + "*".join(f"x{i}^t1" for i in range(500))


@pytest.mark.parametrize(
    "op", [pytest.param(op, marks=pytest.mark.slow) for op in (sub, div, sin)], ids=["sub", "div", "sin"]
)
def test_deep_chains(op: Op) -> None:
    node = x = variable("x")
    for _ in range(30_000):
        node = op(*[node, x][: op.max_inputs])
    depth = len(topological_order(readable([node])))
    assert depth == 30_001 if op is sin else depth < 10


@each(
    "text",
    [
        "a0 = x; a1 = acsch(a0) - (y - a0); where((a0 != a1 < y), a1, a1)*(2.5 - a0)",
        "a0 = log(x) - x; (y*where((a0 > y and not a0), a0, a0)^2)^2",
        "a0 = sin(x) - x; y*where(a0 > y, a0, a0) - where(a0 > y, x*a0, x*a0)",
    ],
)
def test_derivatives_of_choices_between_equal_branches_end(text: str) -> None:
    formula, point = ad.parse(text), {"x": 1.3, "y": 0.7}
    for name, slope in formula.grad(point).items():
        found = ad.parse(str(formula.derivative(name)))
        assert found(**{each: point[each] for each in found.variables}) == pytest.approx(slope, rel=1e-12)
