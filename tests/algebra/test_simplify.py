"""Simplifying for evaluation changes no value and no shape; sharing makes equal nodes one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autodiff_cli.algebra.simplify import Sign, share, sign_of, simplify
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import Tape, infer_shapes, topological_order
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import read
from autodiff_cli.numbers.floats import FLOATS
from tests.each import each, examples
from tests.graphs import SHAPES, array_graphs, graphs
from tests.texts import formulas

points = st.fixed_dictionaries(dict.fromkeys("xyz", st.floats(-3, 3, allow_subnormal=False)))
Drawn = tuple[Node, list[Node]]


@examples(400)
@given(graphs(), points)
def test_simplifying_keeps_every_finite_value(drawn: Drawn, point: dict[str, float]) -> None:
    output, _ = drawn
    before, after = (forward(Tape([root]), FLOATS, point)[-1] for root in (output, simplify([output])[0]))
    if math.isfinite(before):
        assert math.isclose(before, after, rel_tol=1e-9, abs_tol=1e-9)


@each(
    "text",
    [
        f"{name}({number})"
        for name in ("log", "cbrt", "tanh", "abs", "exp")
        for number in ("1/2", "0.5", "1", "2", "-3")
    ],
)
def test_the_sign_of_a_constant_is_that_of_its_value(text: str) -> None:
    node = read(text).output
    value, sign = forward(Tape([node]), FLOATS, {})[-1], sign_of(node)
    assert sign is Sign.UNKNOWN or value > 0 or (value == 0 and sign is Sign.NONNEGATIVE) or math.isnan(value)


@examples(200)
@given(array_graphs())
def test_simplifying_keeps_every_shape(drawn: Drawn) -> None:
    before, after = Tape([drawn[0]]), Tape(simplify([drawn[0]]))
    assert infer_shapes(before, SHAPES)[before.outputs[0]] == infer_shapes(after, SHAPES)[after.outputs[0]]


SIGNS = [
    "-x + y", "x + -y", "0 - x", "x - 0", "x - -y", "-(x - y)", "--x", "-x*y", "x*-y", "-x/y", "x/-y",
    "x*(1/y)", "(1/x)*y", "2*(3*x)", "x*(3*y)", "0 - (x - y)", "1*x", "x/1", "x*x", "-x - y",
]  # fmt: skip


@pytest.mark.parametrize("text", SIGNS)
def test_signs_and_quotients_keep_their_value(text: str) -> None:
    output = read(text).output
    before, after = (
        forward(Tape([root]), FLOATS, {"x": 3.0, "y": 7.0})[-1] for root in (output, simplify([output])[0])
    )
    assert math.isclose(before, after, rel_tol=1e-15)


@each("text, wanted", [
    ("-x + y", "y - x"), ("x + -y", "x - y"), ("x - -y", "x + y"), ("--x", "x"), ("-x*y", "-(x*y)"), ("x*-y", "-(x*y)"),
    ("-x/y", "-(x/y)"), ("x/-y", "-(x/y)"), ("-x*-y", "x*y"), ("-x/-y", "x/y"),
])  # fmt: skip
def test_minus_signs_cancel_or_move_out(text: str, wanted: str) -> None:
    assert to_text(simplify([read(text).output])[0]) == wanted


def test_quotients_and_decimals_stay_what_they_are() -> None:
    assert [to_text(simplify([read(text).output])[0]) for text in ("x*(1/2)", "x*(0.5/2)", "x*(6/2)")] == [
        "x*(1/2)", "0.25*x", "3*x",
    ]  # fmt: skip


@each(
    "text, wanted",
    [
        ("4503599627370496*2*x", "9007199254740992*x"),
        ("9007199254740991 + 1 + x", "9007199254740992 + x"),
        ("4503599627370497*2*x", "4503599627370497*2*x"),
        ("9007199254740992 + 1 + x", "9007199254740992 + 1 + x"),
        ("1e200*1e200*x", "1e200^2*x"),
        ("2^3*x", "8*x"),
        ("2^53*x", "9007199254740992*x"),
        ("2^54*x", "2^54*x"),
        ("4^0.5*x", "4^0.5*x"),
        ("0^0*x", "0^0*x"),
    ],
)
def test_integers_are_computed_as_far_as_floats_have_all_of_them(text: str, wanted: str) -> None:
    assert to_text(simplify([read(text).output])[0]) == wanted


def test_numbers_beyond_all_bounds_stay() -> None:
    assert to_text(simplify([read("1*(1e999999999*x)").output])[0]) == "1e999999999*x"


ROUNDED = "{} + {}|{} - {}|{} - {}|{}*{}|{}*{}|{}/{}|-{}|({} < {})|({} == {})|where({} >= {}, {}, {})|abs({})|{}^0.5"
NUMBERS = ["x", "y", "z", "0", "1", "2", "3", "0.1", "10", "0.5", "0.3", "-0", "7", "49"]
EDGES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, 0.3, 49.0, 1e308, -1e308, 5e-324, 3e-310, math.inf]) | st.floats()


@examples(1000)
@given(formulas(ROUNDED.split("|"), NUMBERS, 6), st.fixed_dictionaries(dict.fromkeys("xyz", EDGES)))
@example("(10*(x*0.1)) - x", {"x": 0.3, "y": 0.0, "z": 0.0})
@example("1/(0 - x)", {"x": 0.0, "y": 0.0, "z": 0.0})
@example("1/(-(x - y))", {"x": 1.0, "y": 1.0, "z": 0.0})
@example("1/(x + 0)", {"x": -0.0, "y": 0.0, "z": 0.0})
@example("x + 1/(0*-1)", {"x": 1.0, "y": 0.0, "z": 0.0})
@example("x + 1/((-0)^3)", {"x": 1.0, "y": 0.0, "z": 0.0})
@example("0.5*(2*x)", {"x": 1e308, "y": 0.0, "z": 0.0})
def test_simplifying_keeps_every_bit(text: str, point: dict[str, float]) -> None:
    """What cancels before is the same zero, with the same sign, and every comparison falls on the same side."""
    output = read(text).output
    before, after = (forward(Tape([root]), FLOATS, point)[-1] for root in (output, simplify([output])[0]))
    assert repr(before) == repr(after), to_text(simplify([output])[0])


POWERS = "{} + {}|{}*{}|{}/{}|-{}|{}^(1 - 1)|{}^(2 - 1)|{}^(3 - 1)|{}^(0.5 - 0.5)|{}^(-1)|sqrt({})|root({}, 1)|exp({})"


@examples(400)
@given(formulas(POWERS.split("|"), NUMBERS, 3), st.fixed_dictionaries(dict.fromkeys("xyz", EDGES)))
@example("x^(1 - 1)", {"x": 0.0, "y": 0.0, "z": 0.0})
@example("(x*x)^(2 - 1)", {"x": 0.0, "y": 0.0, "z": 0.0})
def test_simplified_derivatives_are_finite_where_the_derivatives_are(text: str, point: dict[str, float]) -> None:
    program = read(text)
    leaves = [*program.leaves.values()]
    slopes = gradient_nodes(program.output, leaves)
    graphs = [*slopes, *(second for slope in slopes for second in gradient_nodes(slope, leaves))]
    before, after = Tape(graphs), Tape(simplify(graphs))
    numbers = [[forward(tape, FLOATS, point)[i] for i in tape.outputs] for tape in (before, after)]
    finite = [[math.isfinite(number) for number in found] for found in numbers]
    assert finite[0] == finite[1]


@examples(200)
@given(graphs())
def test_sharing_leaves_no_two_equal_nodes(drawn: Drawn) -> None:
    nodes = topological_order(share([drawn[0]]))
    keys = {(node.op, node.inputs, node.text, node.is_constant) for node in nodes}
    assert len(keys) == len(nodes)


def test_sharing_takes_elements_out_of_arrays_that_are_written_out() -> None:
    (element,) = share([read("v = [[x, sin(x)], [y, x^2]]; v[0, 1]*v[1, 0] + v[1][1]").output])
    assert to_text(element) == "sin(x)*y + x^2"
    (row,) = share([read("[[x, y], [y, x]][1]").output])
    assert to_text(row) == "[y, x]"


def test_products_with_small_numbers_keep_every_bit() -> None:
    """Only powers of two may change places: 6*(7*x) is not 42*x."""
    x = np.linspace(0.1, 1, 40)
    for a, b in itertools.product(range(2, 12), repeat=2):
        (simple,) = simplify([read(f"{a}*({b}*x)").output])
        (found,) = evaluate([simple], {"x": x}, backend="numpy")
        np.testing.assert_array_equal(found, a * (b * x))
