"""Exact numbers in proofs: factors, polynomials, fields with a constant or a square root, and points in them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, fmpq, fmpq_poly
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

import autodiff_cli as ad
from autodiff_cli.autodiff.arbitrary_precision import BallFunction
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import constant, variable
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import read
from autodiff_cli.numbers import ball_arithmetic as ball
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.solving import proof
from tests.each import each

X = variable("x")
BITS = 256


@given(
    st.integers(0, 4).flatmap(
        lambda n: st.lists(st.lists(st.integers(-9, 9), min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
def test_determinants(rows: list[list[int]]) -> None:
    node = proof._determinant([[constant(str(abs(x))) * (1 if x >= 0 else -1) for x in row] for row in rows])
    found = forward(Tape([node]), FLOATS, {})[-1]
    assert found == pytest.approx(np.linalg.det(np.array(rows, dtype=float)) if rows else 1.0, abs=1e-6)


# The systems of an equation, or of several, and what must be defined at their zeros.
FACTORS = {
    "x*y": {"x": "y", "y": "x"},
    "x*sin(x)*exp(y)": {"x": "exp(y), sin(x)", "sin(x)": "exp(y), x", "exp(y)": "x*sin(x)"},
    "(x - 1)^3": {"x - 1": ""},
    "(x - y)^-3": {"(x - y)^-3": ""},
    "(x - y)^y": {"(x - y)^y": ""},
    "-abs(sqrt(square(cbrt(x + y))))": {"x + y": ""},
    "x*y - 0": {"x": "y", "y": "x"},
    "x*y - 1": {"x*y - 1": ""},
    "(x + y)/(y - 2)": {"x + y": "1/(y - 2)"},
    "(x + y)/exp(y)": {"x + y": "1/exp(y)"},
    "(x + y)/(1 - tan(y))": {"1/(1 - tan(y))": "x + y", "x + y": "1/(1 - tan(y))"},
    "(x + y)/log(y)": {"1/log(y)": "x + y", "x + y": "1/log(y)"},
    "(x + y)/y^2": {"x + y": "1/y^2"},
    "(x + y)/y^-2": {"1/y^-2": "x + y", "x + y": "1/y^-2"},
}  # fmt: skip


@each("text", FACTORS)
def test_an_equation_is_0_where_a_factor_is(text: str) -> None:
    program = read(text)
    found = proof.factor_systems([program.output], [*program.leaves.values()])
    printed = {to_text(system[0]): ", ".join(sorted(map(to_text, others))) for system, others in found.items()}
    assert printed == {
        name: others.replace("^-3", "^(-3)") if False else others for name, others in FACTORS[text].items()
    }


def test_systems_are_all_combinations_of_factors_unless_these_are_many() -> None:
    a, b = read("x*(y - 1)").output, read("(x - 2)*y*(x + y)").output
    leaves = [X, variable("y")]
    found = {tuple(map(to_text, system)) for system in proof.factor_systems([a, b], leaves)}
    assert found == {(p, q) for p in ("x", "y - 1") for q in ("x - 2", "y", "x + y")}
    sixteen = [
        read("*".join(f"(x - {k})" for k in range(4))).output,
        read("*".join(f"(y - {k})" for k in range(4))).output,
    ]
    assert len(proof.factor_systems(sixteen, leaves)) == 16
    more = [sixteen[0], read("*".join(f"(y - {k})" for k in range(5))).output]
    assert [*proof.factor_systems(more, leaves)] == [tuple(more)]


ROOTS = st.dictionaries(st.fractions(-5, 5, max_denominator=6), st.integers(1, 3), min_size=1, max_size=4)


@given(ROOTS, st.fractions(-9, 9, max_denominator=5).filter(bool))
def test_polynomials_with_multiple_zeros_get_simple_ones(roots: dict[Fraction, int], factor: Fraction) -> None:
    text = "*".join([f"({factor})", *(f"(x - ({root}))^{count}" for root, count in roots.items())])
    program = read(text)
    found = proof._squarefree(program.output, program.leaves["x"])
    values = [forward(Tape([found]), FLOATS, {"x": at})[-1] for at in (-6.5, 0.123, 7.25)]
    wanted = [math.prod(at - float(root) for root in roots) for at in (-6.5, 0.123, 7.25)]
    if max(roots.values()) > 1:
        assert np.array(values) / wanted == pytest.approx(values[0] / wanted[0], rel=1e-6)
    else:
        assert found is program.output
    other = read("sin(x)^2 + x")
    assert proof._squarefree(other.output, other.leaves["x"]) is other.output


@each(
    "base, exponent, has_value",
    [
        ("x", 64, True), ("x", 65, False), ("x^2", 32, True), ("x^2", 33, False), ("x + 1", 0, True), ("x", -1, False),
        ("x", 0.5, False), ("2", 64, True), ("2", 65, False), ("2", -1, False),
    ],
)  # fmt: skip
def test_powers_of_polynomials_up_to_a_degree(base: str, exponent: float, has_value: bool) -> None:
    unit = fmpq_poly([0, 1])
    polynomial = {"x": unit, "x^2": unit**2, "x + 1": unit + 1, "2": fmpq_poly([2])}[base]
    number = Fraction(exponent)
    found = proof._power(polynomial, fmpq_poly([fmpq(number.numerator, number.denominator)]))
    assert (found is not None) == has_value
    assert found is None or found == polynomial ** int(exponent)
    assert proof._power(polynomial, unit) is None


@given(st.fractions(-1000, 1000, max_denominator=1000))
def test_fractions_as_graphs(x: Fraction) -> None:
    assert forward(Tape([proof.fraction_node(fmpq(x.numerator, x.denominator))]), FLOATS, {})[-1] == float(x)


PI, E, ROOT_2 = proof._Field({"pi": 1, "tau": 2}), proof._Field({"e": 1}), proof._Field(square=2)


@each(
    "field, text, coefficients",
    [
        (PI, "pi^2/3 - tau", [0, -2, Fraction(1, 3)]),
        (PI, "sin(pi/6) + cos(tau/3) + tan(pi) + sin(-7*pi/2)", [1]),
        (PI, "sin(pi/5)", None),
        (PI, "sin(pi + 1)", None),
        (PI, "e + pi", None),
        (PI, "exp(0) + sqrt(9/4) + abs(-2)", [Fraction(9, 2)]),
        (PI, "sqrt(2)", None),
        (PI, "0*sqrt(2)", []),
        (PI, "pi/pi", None),
        (PI, "pi/4", [0, Fraction(1, 4)]),
        (E, "exp(2) - e^2 + e/7", [0, Fraction(1, 7)]),
        (E, "exp(64)", [0] * 64 + [1]),
        (E, "exp(65)", None),
        (E, "exp(1/2)", None),
        (E, "exp(-1)", None),
        (E, "log(1)", []),
        (ROOT_2, "sqrt(8) + sqrt(1/2)", [0, Fraction(5, 2)]),
        (ROOT_2, "(1 + sqrt(2))^3", [7, 5]),
        (ROOT_2, "sqrt(3)", None),
        (ROOT_2, "square(sqrt(2)) - 2", []),
    ],
)
def test_values_in_fields(field: proof._Field, text: str, coefficients: list[Fraction] | None) -> None:
    (found,) = field.evaluate([read(text).output], {})
    wanted = None if coefficients is None else [*map(Fraction, coefficients)]
    assert wanted == (None if found is None else [Fraction(int(c.p), int(c.q)) for c in found.coeffs()])


@each(
    "text, near",
    [
        ("x^2 - 2", math.sqrt(2)), ("x^2 - x - 1", (1 + math.sqrt(5)) / 2), ("sin(x) - 1/2", math.pi / 6),
        ("cos(2*x/3) - 1/2", math.pi / 2), ("3*x - 7", 7 / 3), ("x - 2*e/3 + 1/5", 2 * math.e / 3 - 0.2),
        ("x^2 + 6*x + 2", -3 + math.sqrt(7)), ("x - tau/3", 2.1), ("x*(x - 4)", 0.0),
    ],
)  # fmt: skip
def test_points_with_exact_coordinates_are_recognized(text: str, near: float) -> None:
    program = read(text)
    f, leaf = program.output, program.leaves["x"]
    prover = BallFunction(["x"], [f], BITS)
    with ball.working_precision(BITS):
        x = arb(near)
        slope = BallFunction(["x"], gradient_nodes(f, [leaf]), BITS)
        for _ in range(9):  # Newton's method
            value, rise = prover([x]), slope([x])
            assert value is not None
            assert rise is not None
            if not ball.as_ball(rise[0]).contains(0):
                x = arb((x - ball.as_ball(value[0]) / ball.as_ball(rise[0])).mid())
    found = [*proof.exact_points([x], [leaf], [f], BITS)]
    assert found
    with ball.working_precision(BITS):
        for (point,) in found:
            assert abs(ball.as_ball(point) - x) < 1e-30
    assert [*proof.exact_points([x], [leaf], [f + constant("1e-30")], BITS)] == []


def test_other_numbers_are_not_recognized() -> None:
    with ball.working_precision(BITS):
        for number, f in (
            (arb(2).root(3), "x^3 - 2"),
            (arb.pi() * arb(2).sqrt(), "x^2 - 2*pi^2"),
            (arb(3).log(), "exp(x) - 3"),
        ):
            program = read(f)
            assert [*proof.exact_points([number], [*program.leaves.values()], [program.output], BITS)] == []


@given(st.floats(-100, 100), st.floats(1e-6, 3))
def test_the_simplest_number_has_nearly_the_least_denominator(low: float, width: float) -> None:
    high = low + width
    found = proof.simplest_number(low, high)
    number = Fraction(int(found.p), int(found.q))
    assert low <= number <= high
    least = next(q for q in range(1, 10**7) if math.ceil(Fraction(low) * q) <= Fraction(high) * q)
    assert number.denominator <= 4 * least


@each("a, b, d", [(0, 1, 2), (1, 2, 5), (-3, -1, 7), (0.5, 0.25, 12), (2, 1, 6), (10, 3, 1), (0, 0, 3), (1, 1, 45)])
def test_the_square_in_a_quadratic_number(a: float, b: float, d: int) -> None:
    free = next(d // k**2 for k in range(d, 0, -1) if d % k**2 == 0)
    with ball.working_precision(BITS):
        number = arb(a) + arb(b) * arb(d).sqrt()
    found = proof._square_in_quadratic(arb(number.mid()), BITS)
    assert found == free if b and free > 1 else found <= 1


def test_integer_relations() -> None:
    with ball.working_precision(BITS):
        pi = arb.pi()
        relation = proof._integer_relation([arb(1), (pi * 3 - 5) / 7, pi], BITS)
        assert [k * (1 if relation[1] > 0 else -1) for k in relation] == [5, 7, -3]
        assert proof._integer_relation([arb(1), arb(2).root(3), pi], BITS) == (0, 0, 0)


def test_exact_numbers_as_fractions() -> None:
    assert proof.as_fraction(fmpq(3, 7)) == fmpq(3, 7)
    assert proof.as_fraction(arb(0.375)) == fmpq(3, 8)
    assert proof.as_fraction(arb(-6)) == -6
    assert proof.as_fraction(arb(1, 1e-9)) is None
    assert proof.as_fraction(arb(2) ** -1000) == fmpq(1, 2**1000)
    for exponent in (10**8, -(10**8), 10**15, -(10**15)):  # GMP ends the process for the longest
        assert proof.as_fraction(arb(2) ** exponent) is None


def test_numbers_whose_fractions_would_fill_the_memory_are_balls() -> None:
    assert ad.parse("x - exp2(1e15)").solve(x=(0, 1)).complete
    (root,) = ad.parse("x*exp2(1e18)").solve(x=(0, 1)).roots
    assert root.point == {"x": 0.0}
    for text in ("where(x > exp2(-1e17), x, 1)", "exp2(1e15) % 3 + x", "round(exp2(1e14))*x - 1"):
        assert not ad.parse(text).solve(x=(0, 1)).complete
    (best,) = ad.parse("exp2(1e9) + x").maximize(x=(0, 1), precision=20).points
    with mp.workdps(40):
        exact = mp.mpf(2) ** (10**9) + 1
        low, high = map(mp.mpf, best.value_enclosure)
        assert low <= exact <= high
        assert (high - low) / exact < 1e-18


def test_enclosures_overlap_if_all_their_coordinates_do() -> None:
    one, near, far = arb(1, 0.1), arb(1.15, 0.1), arb(2, 0.1)
    assert proof.overlap([one, one], [near, one])
    assert not proof.overlap([one, far], [near, one])
    assert not proof.overlap([far, one], [near, one])
