"""Balls agree with floats, and their digits are correct."""

from __future__ import annotations

import contextlib
import itertools
import math
import operator
import time
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from flint import arb, ctx, fmpq
from hypothesis import example, given
from hypothesis import strategies as st
from mpmath import mp, mpf

from autodiff_cli.autodiff.arbitrary_precision import MAX_CANCELLED_DIGITS, evaluate_to_digits, refine
from autodiff_cli.autodiff.sweeps import forward, reverse
from autodiff_cli.graph.node import Node, Op, variable
from autodiff_cli.graph.tape import Tape, substitute
from autodiff_cli.language.program import read
from autodiff_cli.numbers.ball_arithmetic import (
    MAX_ARGUMENT,
    Undecided,
    accurate_bits,
    as_ball,
    decided_arithmetic,
    format_digits,
    from_float,
    interval_between,
    is_exact,
    is_finite,
    is_nan,
    nearest_float,
    round_ball,
    unique_integer,
)
from autodiff_cli.numbers.balls import (
    FUNCTIONS,
    TABLE,
    has_possible_jump,
    interval_arithmetic,
    parse_constant,
    polygamma,
    precision,
    reset_jumps,
)
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.numbers.special_functions import MAX_BESSEL_ORDER
from autodiff_cli.ops import all_ops, get_op
from tests.autodiff import test_structural_zeros as zeros
from tests.autodiff.test_conventions import SLOPES
from tests.each import amount, each, evenly_spread_part
from tests.ops.table import sinc_n, sinhc_n

inf, nan = math.inf, math.nan
ELEMENTWISE = [op for op in all_ops() if not op.is_structural]
MODERATE = (0.0, 1.0, -1.0, 0.3, -0.5, 2.0, 3.0, -2.0, 4.5)
SPECIAL = (inf, -inf, nan)


def digits_of(expression: str, digits: int = 50) -> str:
    return format_digits(evaluate_to_digits([read(expression).output], digits).numbers[0], digits)


def points(op: Op) -> Iterator[tuple[float, ...]]:
    counts = {op.min_inputs, max(op.min_inputs, min(op.max_inputs or 3, 3))}
    for count in counts:
        numbers = MODERATE if count < 3 else MODERATE[:5] if count < 5 else (-1.0, 0.5, 2.0)
        yield from itertools.product(numbers, repeat=count)
        if count == 1:
            yield from ((x,) for x in SPECIAL)


def same(found: float, wanted: float) -> bool:
    if math.isnan(found) or math.isnan(wanted):
        return math.isnan(found) and math.isnan(wanted)
    return math.isclose(found, wanted, rel_tol=1e-11, abs_tol=1e-13)


@each("op", ELEMENTWISE, ids=lambda op: op.name)
def test_every_operation_exists_and_agrees_with_floats(op: Op) -> None:
    with precision(200) as kind:
        tried = [*points(op)]
        for point in tried if op.max_inputs == 1 else evenly_spread_part(tried):
            wanted = FLOATS.function(op, len(point))(*point)
            found = kind.function(op, len(point))(*map(from_float, point))
            assert same(nearest_float(found), wanted), (point, found, wanted)


# Formulas that say the same in other words, to 50 digits.
IDENTITIES = [
    ("sin(0.1)^2 + cos(0.1)^2", "1"),
    ("exp(log(7.3))", "7.3"),
    ("tanh(0.3)", "(exp(0.6) - 1)/(exp(0.6) + 1)"),
    ("atan(1)*4", "pi"),
    ("acosh(1.5)", "log(1.5 + sqrt(1.25))"),
    ("asec(1.0000001)", "acos(1/1.0000001)"),
    ("acsc(-1.5)", "-asin(1/1.5)"),
    ("acoth(1.25)", "log(9)/2"),
    ("asech(0.3)", "acosh(1/0.3)"),
    ("logit(0.501)", "log(0.501/0.499)"),
    ("log1p(1e-30)", "log(1 + 1e-30)"),
    ("softplus(-200)", "log(1 + exp(-200))"),
    ("normal_cdf(1.5)", "(1 + erf(1.5/sqrt(2)))/2"),
    ("root(-8.5, 3)", "-exp(log(8.5)/3)"),
    ("sinc(0.1)", "sin(0.1)/0.1"),
    ("gamma(4.5)", "3.5*2.5*1.5*0.5*sqrt(pi)"),
    ("exp(lgamma(4.5))", "gamma(4.5)"),
    ("digamma(2.5)", "digamma(0.5) + 2 + 2/3"),
    ("polygamma(1, 0.5)", "pi^2/2"),
    ("polygamma(2, -1.5)", "polygamma(2, 2.5) + 2*pi^3*cot(1.5*pi)/sin(1.5*pi)^2"),
    ("beta(2.5, 1.5)", "gamma(2.5)*gamma(1.5)/gamma(4)"),
    ("gammainc(3, 2)", "1 - exp(-2)*(1 + 2 + 2)"),
    ("gammainc(0.7, 2) + gammaincc(0.7, 2)", "1"),
    ("erf(erfinv(0.3))", "0.3"),
    ("lambertw(2)*exp(lambertw(2))", "2"),
    ("Ei(2)", "Chi(2) + Shi(2)"),
    ("mish(0.7)", "0.7*tanh(log(1 + exp(0.7)))"),
]


@each(("left", "right"), IDENTITIES)
def test_equivalent_expressions_agree_to_fifty_digits(left: str, right: str) -> None:
    assert digits_of(left) == digits_of(right)


@each(
    ("expression", "value"),
    [
        ("0.1 + 0.2 - 0.3", "0.0"),
        ("(1 + 1e-200) - 1", "1.0000000000e-200"),
        ("log(1 + 1e-100)^2", "1.0000000000e-200"),
        ("sin(pi)", "0.0"),
        ("abs(0.1 + 0.2 - 0.3)", "0.0"),
        ("1/3", "0.33333333333"),
        ("exp(1000)", "1.9700711140e+434"),
        ("exp(-1e6)", "3.2968314781e-434295"),
        ("sin(1e22)", "-0.85220084977"),
        ("(1e30 + 1e-30) - 1e30", "1.0000000000e-30"),
        ("1/0", "inf"),
        ("-1/0", "-inf"),
        ("log(-1)", "nan"),
        ("0.125", "0.12500000000"),
        ("asin(0.1*10)", "1.5707963268"),
    ],
)
def test_digits_are_correct_despite_cancellation(expression: str, value: str) -> None:
    assert digits_of(expression, 11) == value


def test_a_thousand_digits_agree_with_mpmath() -> None:
    with mp.workdps(1020):
        wanted = mp.nstr(mp.erf(mpf("0.7")) * mp.exp(mp.pi), 1000, strip_zeros=False)
    assert digits_of("erf(0.7)*exp(pi)", 1000) == wanted


def test_the_global_precision_is_unchanged() -> None:
    before = ctx.prec
    digits_of("exp(1)", 77)
    with pytest.raises(KeyError):
        evaluate_to_digits([variable("x")], 77)
    assert ctx.prec == before


@each(("name", "point", "slopes"), SLOPES, ids=str)
def test_conventions_are_those_of_floats(name: str, point: tuple[float, ...], slopes: tuple[float, ...]) -> None:
    leaves = [variable(f"x{i}") for i in range(len(point))]
    assert gradient(get_op(name)(*leaves), leaves, point) == pytest.approx(slopes, rel=1e-15, abs=0, nan_ok=True)


@each("case", [*zeros.ABSENT, *zeros.HONEST], ids=str)
def test_structural_zeros_are_those_of_floats(case: str) -> None:
    output, point = (zeros.ABSENT.get(case) or zeros.HONEST[case])[:2]
    leaves = [node for node in Tape((output,)).nodes if node.is_input]
    found = gradient(output, leaves, [point[leaf.text] for leaf in leaves])[leaves.index(zeros.x)]
    assert same(found, zeros.ABSENT[case][2] if case in zeros.ABSENT else nan)


def gradient(output: Node, leaves: list[Node], point: tuple[float, ...] | list[float]) -> list[float]:
    with precision(200) as kind:
        tape = Tape((output,))
        values = forward(tape, kind, {leaf.text: from_float(x) for leaf, x in zip(leaves, point, strict=True)})
        adjoints = reverse(tape, kind, values, from_float(1.0))
        found = [adjoints[tape.index[leaf]] for leaf in leaves]
        return [0.0 if x is None else nearest_float(x) for x in found]


def test_a_long_chain_needs_no_recursion() -> None:
    x = variable("x")
    output = x
    for _ in range(20_000):
        output = output + x
    (placed,) = substitute([output], {x: read("0.1").output})
    assert format_digits(evaluate_to_digits([placed], 30).numbers[0], 30).startswith("2000.1000000000")


def test_long_numbers_are_rounded_to_the_requested_digits() -> None:
    assert digits_of("10^100000 % 3", 20) == "1.0000000000000000000"
    assert digits_of("10^100000 + 1", 20) == "1.0000000000000000000e+100000"


# Functions of one number far out and near 0, whose digits take long where precision has no bound.
ONE_NUMBER = [op for op in ELEMENTWISE if op.accepts(1) and not op.is_helper]
FAR = [f"{sign}1e{k}" for k in range(-20, 21, 4) for sign in ("", "-")]


@pytest.mark.slow
@each("op", ONE_NUMBER, ids=lambda op: op.name)
def test_functions_agree_with_floats_at_huge_and_tiny_arguments(op: Op) -> None:
    for point in FAR:
        (found,) = evaluate_to_digits([op(read(point).output)], 30).numbers
        float_value = FLOATS.function(op, 1)(float(point))
        is_tiny = abs(float_value) < 1e-290
        assert same(nearest_float(found), float_value) or is_tiny or math.isinf(float_value), (
            point,
            found,
            float_value,
        )


@each("op", [op for op in ONE_NUMBER if op.name in FUNCTIONS], ids=lambda op: op.name)
def test_functions_of_inexact_numbers_far_out_have_their_digits(op: Op) -> None:
    """A value without digits may be a tiny one, and would be taken for a 0."""
    for exponent, sign in itertools.product((4, 6, 8, 11, 17), (1, -1)):
        with precision(300) as kind:
            exact = sign * arb(10) ** exponent + arb(0.375)
            with contextlib.suppress(Undecided):
                value, near = (as_ball(kind.function(op, 1)(x)) for x in (exact, exact * (1 + arb(0, 1e-80))))
                has_digits = is_exact(value) or accurate_bits(near) > 100
                assert has_digits or not is_finite(value), (exact.str(20), near.str(10))
                assert near.overlaps(value) or not is_finite(value)


@each("op", [op for op in ELEMENTWISE if op.name in FUNCTIONS], ids=lambda op: op.name)
def test_tiny_values_at_tiny_arguments_have_their_digits(op: Op) -> None:
    """Underflows have such arguments. Digits that cancelled there would be taken for a 0."""
    tiny = arb(10) ** -5000
    with precision(128) as kind:
        for count in filter(op.accepts, (1, 2, 3)):
            for others in itertools.product((1, 2, 0.5), repeat=count - 1):
                for place, x in itertools.product(range(count), (tiny, -tiny)):
                    arguments = [*map(arb, others[:place]), x, *map(arb, others[place:])]
                    with contextlib.suppress(Undecided):
                        value = as_ball(kind.function(op, count)(*arguments))
                        is_known = is_exact(value) or accurate_bits(value) > 40
                        assert is_known or not value.abs_upper() < 1e-300, (arguments, value.str(10))


@each("name", ["besselj", "besseli", "bessely", "besselk"])
def test_a_ball_of_orders_encloses_bessel_functions_at_0(name: str) -> None:
    """They jump there between orders, from 1 at order 0 to 0, or from 0 to an infinity of either sign."""
    of_order = FLOATS.function(get_op(name), 2)
    with precision(64) as kind:
        for low, high in itertools.combinations([k / 2 for k in range(-5, 6)], 2):
            with contextlib.suppress(Undecided):
                ball = as_ball(kind.function(get_op(name), 2)(interval_between(arb(low), arb(high)), arb(0)))
                for k in range(int(2 * low), int(2 * high) + 1):
                    assert is_nan(ball) or ball.contains(arb(of_order(k / 2, 0.0))), (low, high, k / 2)


SIZES = (1.0, 3.0, 1e9, 1e-9, 1e108, -0.5, -1e30)


# Of which some points take a tenth of a second.
SLOW = {"gammainc", "gammaincc", "gammainc_slope", "gammainc_curvature"}


@each(
    "op",
    [op for op in ELEMENTWISE if op.name in FUNCTIONS],
    ids=lambda op: op.name,
    quick=lambda op: op.name not in SLOW,
)
def test_more_bits_never_contradict_what_fewer_have_proven(op: Op) -> None:
    """A ball too wide to be finite proves nothing: neither 0 nor a value that floats have at exact arguments."""
    for point in evenly_spread_part([*itertools.product(SIZES, repeat=op.min_inputs)]):
        found = []
        for bits in (80, 1500):
            try:
                with precision(bits) as kind:
                    found.append(kind.function(op, op.min_inputs)(*map(from_float, point)))
            except Undecided:
                break
        if len(found) == 2 and all(map(is_finite, found)):
            assert as_ball(found[0]).overlaps(as_ball(found[1])), (point, found)


@each(
    ("expression", "value"),
    [
        ("sin(0.7)^2 + cos(0.7)^2 - 1", 0.0),
        ("sqrt(2)^2 - 2", 0.0),
        ("where(sqrt(2)^2 == 2, 1, 5)", 1.0),
        ("sign(sin(pi))", 0.0),
        ("floor(sqrt(9.61)*10)", 31.0),
        ("lambertw(-1/e)", -1.0),
    ],
)
def test_undecidable_ties_are_assumed_and_not_reported_as_proven(expression: str, value: float) -> None:
    found = evaluate_to_digits([read(expression).output], 30)
    assert nearest_float(found.numbers[0]) == value
    is_exact = expression.startswith("floor")  # 9.61 is the square of a fraction
    assert found.is_proven == [is_exact]


MAGNIFIED = [  # formulas of a large number, and their values
    ("(1 - tanh({x}))*exp(2*{x})", 2.0),
    ("5 + (1 - tanh({x}))*exp(2*{x})", 7.0),
    ("(expm1(-{x}) + 1)*exp({x})", 1.0),
    ("exp(log(exp({x})*(coth({x}) - 1))/2)^2*exp({x})", 2.0),
    ("where((1 - tanh({x}))*exp(2*{x}) > 1, 3, 4)", 3.0),
    ("1/((celu(-{x}) + 1)*exp({x}) + 1)", 0.5),
]


@each("x", [100, 1000, 2000, 3000, 20_000])
@each(("text", "value"), MAGNIFIED)
def test_no_large_factor_magnifies_what_is_assumed_to_be_0(text: str, value: float, x: int) -> None:
    result = evaluate_to_digits([read(text.format(x=x)).output], 15)
    (number,) = result.known_numbers
    assert number is None or same(nearest_float(number), value)


@each(
    ("expression", "value"),
    [("0.1 + 0.2 - 0.3", 0), ("sqrt(0.01) - 0.1", 0), ("1/3*3 - 1", 0), ("(1/3)^-2 - 9", 0), ("7.5 % 2.5", 0)],
)
def test_fractions_are_exact(expression: str, value: float) -> None:
    found = evaluate_to_digits([read(expression).output], 30)
    assert (found.numbers, found.is_proven) == ([value], [True])


@each("expression", ["(-2)^sqrt(2)", "(-pi)^(1/3)", "polygamma(sqrt(2), 3)", "besselj(sqrt(2), -1)", "log(-pi)"])
def test_outside_of_a_domain_it_is_proven_that_there_is_no_value(expression: str) -> None:
    found = evaluate_to_digits([read(expression).output], 30)
    assert (math.isnan(nearest_float(found.numbers[0])), found.is_proven) == (True, [True])


@each("expression", ["sin(10^39371944)", "gamma(-exp(1e6) - 1/3)", "cos(exp(1e6))/tan(exp(1e6))"])
def test_it_is_not_proven_that_a_function_of_a_huge_number_has_no_value(expression: str) -> None:
    found = evaluate_to_digits([read(expression).output], 30)
    assert (math.isnan(nearest_float(found.numbers[0])), found.is_proven) == (True, [False])


@each("text", ["0e99999999999", "0.000e-99999999999", "0"])
def test_0_with_any_exponent_is_0(text: str) -> None:
    assert parse_constant(text) == 0


def test_a_ball_encloses_the_true_value() -> None:
    texts = [text for pair in IDENTITIES for text in pair]
    with precision(80) as few:
        rough = [forward(Tape([read(text).output]), few, {})[-1] for text in texts]
    with precision(2000) as many:
        fine = [forward(Tape([read(text).output]), many, {})[-1] for text in texts]
        assert all(as_ball(a).overlaps(as_ball(b)) for a, b in zip(rough, fine, strict=True))
        assert any(not as_ball(a).is_exact() for a in rough)


MIDDLES = (0.0, 1.0, -1.0, 0.5, 2.0, -0.5, 3.0, 10.0, 40.0, -7.5, 100.0, 1000.0, 1e-300, 1e4, 1e8)


@each("op", [op for op in ELEMENTWISE if op.name in FUNCTIONS], ids=lambda op: op.name)
def test_wide_balls_soon_have_a_result_that_encloses_those_at_their_points(op: Op) -> None:
    chance, bits, seconds = Random(op.name), 128, 0.0
    is_whole = op.name in {"polygamma", "sinc_derivative", "sinhc_derivative"}
    for _ in range(amount(10, 60, 120)):
        middles = [chance.choice((chance.choice(MIDDLES), chance.gauss(0, 3))) for _ in range(op.min_inputs)]
        widths = [10 ** chance.uniform(-16, 1) * chance.choice((0, 1, abs(middle) or 1)) for middle in middles]
        if is_whole:
            middles[0], widths[0] = chance.randint(0, 4), 0.0
        balls = [
            arb(middle, width) if width else from_float(middle) for middle, width in zip(middles, widths, strict=True)
        ]
        start = time.process_time()
        with interval_arithmetic(bits) as kind:
            enclosed = kind.function(op, op.min_inputs)(*balls)
        seconds += time.process_time() - start
        for share in (-1.0, -0.3, 0.0, 0.5, 1.0) if is_finite(enclosed) else ():
            point = [
                from_float(middle) + from_float(share * width) for middle, width in zip(middles, widths, strict=True)
            ]
            with contextlib.suppress(Undecided), precision(2 * bits) as kind:
                exact = as_ball(kind.function(op, op.min_inputs)(*point))
                assert not exact.is_nan(), (balls, enclosed, point)
                assert exact.overlaps(as_ball(enclosed)), (balls, enclosed, point, exact)
    assert seconds < 2


@each("op", [op for op in ELEMENTWISE if op.name in FUNCTIONS and op.min_inputs == 1], ids=lambda op: op.name)
def test_wide_balls_around_an_extremum_enclose_the_values_at_their_ends(op: Op) -> None:
    def at(x: Any, kind: Any) -> Any:
        try:
            return as_ball(kind.function(op, 1)(x))
        except Undecided:
            return arb.nan()

    with precision(256) as kind:

        def is_rising(x: Any) -> Any:
            return at(x + arb(2) ** -80, kind) > at(x - arb(2) ** -80, kind)

        grid = [arb(k) / 4 + arb(1) / 100 for k in range(-20, 21)]
        rises = [at(x, kind).is_finite() and is_rising(x) for x in grid]
        places = []
        for (low, high), ends in zip(itertools.pairwise(grid), itertools.pairwise(rises), strict=True):
            for _ in range(60 if ends[0] != ends[1] else 0):
                middle = ((low + high) / 2).mid()
                low, high = (middle, high) if is_rising(middle) == ends[0] else (low, middle)
            places += [low] * (ends[0] != ends[1])
        for place, k, shift in itertools.product(places, range(5, 45, amount(5, 1, 1)), (-0.7, 0, 0.4)):
            middle, radius = (place + shift * arb(2) ** -k).mid(), arb(2) ** -k
            low, high = middle - radius, middle + radius
            with interval_arithmetic(128) as wide:
                enclosed = at(low.union(high), wide)
            for x in (low, middle, high) if enclosed.is_finite() else ():
                assert not at(x, kind).is_finite() or at(x, kind).overlaps(enclosed), (x, radius)


@each("name, others", [("gamma", ()), ("gamma_density", (1.0,)), ("beta", (0.01,)), ("beta", (1.0,))])
def test_wide_balls_around_the_minimum_of_gamma_enclose_the_values_at_their_ends(
    name: str, others: tuple[float, ...]
) -> None:
    for k, shift in itertools.product(range(10, 40), (0.0, 1.0)):
        middle = from_float(1.4616321449683622 - shift * (name == "beta"))
        low, high = as_ball(middle) - arb(2) ** -k, as_ball(middle) + arb(2) ** -k
        with interval_arithmetic(128):
            enclosed = FUNCTIONS[name](low.union(high), *map(arb, others))
        with precision(256):
            for x in (low, high):
                assert FUNCTIONS[name](x, *map(arb, others)).overlaps(enclosed)


@each("name, order", [("lgamma", 0), *(("polygamma", order) for order in range(5))])
def test_wide_balls_between_poles_enclose_the_extremum_between_them(name: str, order: int) -> None:
    chance = Random(order)
    for pole, _ in itertools.product((1, 0, -1, -2, -7), range(3)):
        low, high = sorted(pole - chance.uniform(0.01, 0.99) for _ in range(2))
        ball = arb(low).union(arb(high))
        found = FUNCTIONS["lgamma"](ball) if name == "lgamma" else polygamma(order, ball)
        for share in range(9):
            at = low + (high - low) * share / 8
            exact = float(mp.polygamma(order, at) if name == "polygamma" else mp.log(abs(mp.gamma(at))))
            assert found.lower() - 1e-9 * abs(exact) <= exact <= found.upper() + 1e-9 * abs(exact)


def test_undecidable_questions_raise_undecided() -> None:
    with precision(100) as kind:
        wide = forward(Tape([read("sin(pi)").output]), kind, {})[-1]
        for name in ("sign", "log", "sqrt", "floor"):
            with pytest.raises(Undecided):
                kind.function(get_op(name), 1)(wide)


@each("expression", ["floor(exp(exp(50)))", "-3 % exp(-exp(50))", "root(-8, exp(exp(50)))"])
def test_integers_beyond_the_limit_are_undecided(expression: str) -> None:
    """FLINT ends the process where it is asked for one."""
    assert evaluate_to_digits([read(expression).output], 20).is_proven == [False]


@each("middle", [(0, 0), (3, -(10**50)), (-3, -(10**50)), (1, -1), (-1, -1), (5, 0), (3, 100), (3, 10**30)])
@each("radius", [(1, -(10**38)), (1, -(10**60)), (1, -100), (5, -3), (1, 0)])
def test_the_integer_in_a_ball_of_any_exponents(middle: tuple[int, int], radius: tuple[int, int]) -> None:
    """FLINT's own function ends the process at some of these."""
    ball, (number, power) = arb(arb(middle), arb(radius)), middle
    if power < -100:  # next to 0, on one side
        is_around = Fraction(2) ** max(radius[1], -99) * radius[0] < 1 and (radius[1] > power)
        assert unique_integer(ball) == (0 if is_around else None)
    elif power < 10**6:
        width, centre = Fraction(2) ** max(radius[1], -99) * radius[0], number * Fraction(2) ** power
        inside = range(math.ceil(centre - width), math.floor(centre + width) + 1)
        assert unique_integer(ball) == (inside[0] if len(inside) == 1 else None)
    else:
        assert unique_integer(ball) is None


@each("name", ["exp", "sin", "gamma", "erf", "tanh"])
def test_a_ball_that_may_or_may_not_fill_the_memory_is_undecided(name: str) -> None:
    with precision(100) as kind:
        for sign in (1, -1):
            with pytest.raises(Undecided):
                kind.function(get_op(name), 1)(arb(sign * MAX_ARGUMENT, MAX_ARGUMENT / 2))


@each("a", [300.0, 1000.0, 1e6, 1e8])
@each("share", [0.1, 0.8, 0.9, 1.0, 1.1, 2.0])
def test_the_lower_incomplete_gamma_function_of_large_numbers_is_proven_at_once(a: float, share: float) -> None:
    """FLINT's own function takes minutes there, or loses all digits."""
    with precision(200):
        assert FUNCTIONS["gammainc"](arb(a), arb(a * share)).rel_accuracy_bits() > 100


@each(
    ("a", "x"),
    [(0.5, 20.0), (3.0, 90.0), (3.0, 30_000.0), (40.0, 90.0), (40.0, 700.0), (4000.0, 4800.0), (900.0, 700.0)],
)
def test_slopes_of_incomplete_gamma_functions_in_their_tails(a: float, x: float) -> None:
    """Far out, the derivatives towards the first argument are bounded at points, and over balls, whose sign is sure."""
    for order, name in ((1, "gammainc_slope"), (2, "gammainc_curvature")):
        with mp.workdps(60):
            exact_text = mp.nstr(mp.diff(lambda s: -mp.gammainc(s, x, mp.inf, regularized=True), a, order), 30)
        with precision(100):
            exact = arb(exact_text)
            at_point = FUNCTIONS[name](arb(a), arb(x))
            around = FUNCTIONS[name](arb(a, 1e-3), arb(x, 1e-3))
        assert abs(at_point - exact) <= 1e-12 * abs(exact)
        assert around.contains(exact)
        assert not around.contains(0)


@pytest.mark.slow
@each("order", ["1e-300", "1e-25", f"1.{'0' * 40}1", f"2.{'9' * 60}", "7.0000000000001"])
def test_besselk_next_to_an_integer_order_has_its_digits(order: str) -> None:
    """At once, whereas FLINT needs as many bits as there are zeros."""
    result = evaluate_to_digits([read(f"besselk({order}, x)").output], 30, leaves={"x": parse_constant("0.3")})
    assert result.is_proven == [True]
    with mp.workdps(400):
        assert abs(mpf(format_digits(result.numbers[0], 30)) / mp.besselk(mpf(order), mpf("0.3")) - 1) < mpf("1e-29")


@each("whole", [0, 1, 2, 5])
@each("side", [-1, 1])
def test_besselk_next_to_an_integer_order_is_enclosed(whole: int, side: int) -> None:
    bits = 100
    for x in (0.1, 1.0, 30.0):
        order = arb(whole) + side * arb(2) ** -(bits // 2 + 1)
        with precision(bits):
            enclosure = FUNCTIONS["besselk"](order, arb(x))
        with precision(4 * bits):
            exact = FUNCTIONS["besselk"](arb(whole) + side * arb(2) ** -(bits // 2 + 1), arb(x))
        assert enclosure.contains(exact), x
        assert x > 1 or enclosure.rel_accuracy_bits() >= bits // 2 - 5


@each("x", [-7.458340731200194e-155, 7.4e-155, -1e-160, -3e-310], quick=lambda x: x == 7.4e-155)
def test_slopes_beyond_floats_are_no_poles(x: float) -> None:
    """Where floats overflow and balls need more bits than at first, as slopes of beta do next to two poles."""
    for point in ((x, x * x), (x, 1e-170), (-1e-170, x)):
        exact = [from_float(argument) for argument in point]
        with precision(3000):
            wanted = TABLE["beta_slope"](*exact)
        for bits in (100, 200, 1000):
            with precision(bits), contextlib.suppress(Undecided):
                found = TABLE["beta_slope"](*exact)
                assert is_finite(found) == is_finite(wanted), point
                assert not is_finite(wanted) or found.overlaps(wanted), point


@pytest.mark.slow
@each("order", [0.0, 2.5, 16.0, 900.5])
def test_besselk_loses_few_bits_at_any_argument(order: float) -> None:
    """FLINT makes up for lost bits by numerical integration, for minutes: for 2500 bits of K at 2.5 and 1024. So few
    may be lost, also next to integer orders, where a ball may contain both."""
    for bits, x in itertools.product((100, 1000, 3500), (1e-300, 1e-9, 0.7, 30.0, 1024.0, 1403.0, 1e5, 1e7)):
        with precision(bits):
            assert FUNCTIONS["besselk"](arb(order), arb(x)).rel_accuracy_bits() > bits - 30, (bits, x)
            for near in (order + arb(2) ** (5 - bits), arb(order, arb(2) ** -bits)):
                assert FUNCTIONS["besselk"](near, arb(x)).rel_accuracy_bits() > bits / 2 - 30, (bits, x)


def test_a_ball_covers_an_interval_and_little_else() -> None:
    for low, high in itertools.product((-3.0, -1.0, -1e-300, 0.0, 1e-300, 2.0, 7.0), (-1.0, 0.0, 1e-300, 2.0, 1e300)):
        if low <= high:
            found = interval_between(from_float(low), from_float(high))
            ends = [Fraction(float(as_ball(end).mid())) for end in (as_ball(found).lower(), as_ball(found).upper())]
            slack = Fraction(1, 2**20) * (Fraction(high) - Fraction(low) + abs(Fraction(low)))
            assert Fraction(low) - slack <= ends[0] <= low <= high <= ends[1] <= Fraction(high) + slack, (low, high)
            assert low < 0 or ends[0] >= 0


def test_a_ball_around_0_times_an_infinity_is_undecided() -> None:
    around = arb(0, 1)
    multiply = decided_arithmetic(operator.mul)
    for pair in ((around, arb("inf")), (arb("-inf"), around)):
        with pytest.raises(Undecided):
            multiply(*pair)
    assert multiply(arb(2, 1), arb("inf")) == arb("inf")


@each("name", ["eq", "ne", "lt", "le", "gt", "ge", "not", "and", "or", "where"])
def test_a_condition_over_intervals_encloses_that_of_every_number_inside(name: str) -> None:
    """Also where an argument may be any number, and where it may not even be one."""
    op = get_op(name)
    unknown = arb("nan"), (-1.0, 0.0, 1.0, 2.0)
    known = (arb(0.5, 0.5), (0.0, 0.5, 1.0)), (arb(1), (1.0,)), (arb(0), (0.0,)), (arb(2, 1), (1.0, 1.5, 3.0))
    cases = [*known, unknown]
    with interval_arithmetic(60) as kind:
        function = kind.function(op, op.min_inputs)
        for chosen in itertools.product(cases, repeat=op.min_inputs):
            if name == "where":
                truths = {bool(x) for x in chosen[0][1]}
                if any(chosen[2 - truth] is unknown for truth in truths):
                    continue  # a value that is no number
            reset_jumps()
            found = as_ball(function(*(interval for interval, _ in chosen)))
            inside = {
                FLOATS.function(op, op.min_inputs)(*point) for point in itertools.product(*(xs for _, xs in chosen))
            }
            assert all(found.contains(arb(value)) for value in inside), chosen
            # Intervals that meet at their ends are not compared.
            assert len(inside) > 1 or found.is_exact() or name in ("eq", "ne", "lt", "le", "gt", "ge"), chosen
            assert has_possible_jump() == (len({bool(x) for x in chosen[0][1]}) > 1) or name != "where", chosen
            if name != "where":
                assert len(inside) == 1 or has_possible_jump(), chosen
                assert arb(0.5, 0.5001).contains(found), chosen


# Where domains end, and values jump or are infinite: the number of the argument that moves, and all arguments.
EDGES = [
    ("log", 0, (0.0,)), ("log1p", 0, (-1.0,)), ("sqrt", 0, (0.0,)), ("asin", 0, (1.0,)), ("asin", 0, (-1.0,)),
    ("acos", 0, (1.0,)), ("acos", 0, (-1.0,)), ("acosh", 0, (1.0,)), ("atanh", 0, (1.0,)), ("atanh", 0, (-1.0,)),
    ("gamma", 0, (0.0,)), ("gamma", 0, (-1.0,)), ("lgamma", 0, (-2.0,)), ("digamma", 0, (0.0,)), ("floor", 0, (2.0,)),
    ("ceil", 0, (-1.0,)), ("round", 0, (0.5,)), ("sign", 0, (0.0,)), ("erfinv", 0, (1.0,)), ("erfinv", 0, (-1.0,)),
    ("logit", 0, (0.0,)), ("logit", 0, (1.0,)), ("lambertw", 0, (-math.exp(-1),)), ("Ei", 0, (0.0,)),
    ("log2", 0, (0.0,)), ("log10", 0, (0.0,)), ("not", 0, (0.0,)), ("cot", 0, (0.0,)), ("csch", 0, (0.0,)),
    ("acoth", 0, (1.0,)), ("acoth", 0, (-1.0,)), ("asech", 0, (1.0,)), ("polygamma", 1, (2.0, 0.0)),
    ("gammainc", 0, (0.0, 1.5)), ("gammainc", 1, (1.5, 0.0)), ("gammaincc", 1, (1.5, 0.0)),
    ("gammaincc", 0, (0.0, 2.0)), ("gammainc_slope", 1, (1.5, 0.0)), ("besselj", 1, (2.5, 0.0)),
    ("bessely", 1, (2.0, 0.0)), ("besseli", 1, (0.5, 0.0)), ("besselk", 1, (1.0, 0.0)),
    ("besselk", 0, (MAX_BESSEL_ORDER, 900.0)), ("wofz_real", 1, (0.5, 0.0)), ("wofz_imag", 1, (0.5, 0.0)),
    ("div", 1, (2.0, 0.0)), ("pow", 0, (0.0, 0.5)), ("pow", 0, (0.0, -2.0)), ("root", 0, (0.0, 2.0)),
    ("beta", 0, (0.0, 1.5)), ("beta", 1, (0.7, -1.0)), ("mod", 0, (3.0, 1.5)), ("eq", 0, (1.0, 1.0)),
    ("lt", 1, (1.0, 1.0)), ("and", 0, (0.0, 1.0)), ("or", 1, (0.0, 0.0)), ("log_base", 1, (2.0, 1.0)),
    ("where", 0, (0.0, 1.0, 2.0)),
]  # fmt: skip


@each("name, which, at", EDGES)
def test_balls_across_an_edge_are_undecided_and_others_beside_it_are_not(
    name: str, which: int, at: tuple[float, ...]
) -> None:
    radius = 2.0**-10 * max(1.0, abs(at[which]) * 2.0**-12)
    with precision(100) as kind:
        function = kind.function(get_op(name), len(at))
        with pytest.raises(Undecided):
            function(*(arb(x, radius) if k == which else from_float(x) for k, x in enumerate(at)))
        for side in (-2, 2):
            beside = [x + side * radius if k == which else x for k, x in enumerate(at)]
            found = function(*(arb(x, radius) if k == which else from_float(x) for k, x in enumerate(beside)))
            number = FLOATS.function(get_op(name), len(at))(*beside)
            assert is_nan(found) == math.isnan(number), side
            assert is_nan(found) or as_ball(found).overlaps(arb(number, 1e-13 * abs(number))), side


@each("op", [op for op in ELEMENTWISE if op.min_inputs == 1 == op.max_inputs and op.parity])
def test_enclosures_of_odd_and_even_functions_are_those_of_the_mirrored_balls(op: Op) -> None:
    with precision(100) as kind:
        function = kind.function(op, 1)
        for middle, radius in ((0.3, 0.01), (0.97, 0.02), (1.03, 0.02), (5.0, 0.5), (40.0, 0.1), (1e-9, 1e-12)):
            found = []
            for side in (1, -1):
                try:
                    found.append(as_ball(function(arb(side * middle, radius))))
                except Undecided:
                    found.append(None)
            right, left = found
            assert (right is None) == (left is None), (middle, radius)
            if right is not None and left is not None and not right.is_nan():
                assert (left * op.parity - right).contains(0)
                assert abs(left.rad() - right.rad()) <= 1e-3 * right.rad(), (middle, radius)


@each("name, function", [("polygamma", mp.polygamma), ("sinc_derivative", sinc_n), ("sinhc_derivative", sinhc_n)])
@each("order", [0, 1, 2, 9, 10, 11, 20, 41])
def test_derivatives_of_high_orders_are_proven_on_both_sides_of_0(name: str, function: Any, order: int) -> None:
    with precision(200) as kind, mp.workdps(80):
        for x in (-100.25, -7.4, -3.3, -0.7, -0.001, 0.3, 4.5):
            if name == "polygamma" or abs(x) < 30:
                found = as_ball(kind.function(get_op(name), 2)(from_float(order), from_float(x)))
                exact, size = function(order, mpf(x)), mpf(found.mid().str(60, radius=False))
                assert abs(size - exact) <= mpf(10) ** -35 * abs(exact), x
                number = FLOATS.function(get_op(name), 2)(order, x)
                assert number == pytest.approx(float(exact), rel=1e-12), x


@given(
    st.one_of(st.fractions(-(10**9), 10**9, max_denominator=10**6), st.floats(allow_nan=False, allow_infinity=False)),
    st.integers(1, 20),
)
@example(1e-5, 3)
@example(9.99e-6, 2)
@example(9.996e-6, 3)
@example(Fraction(99999), 5)
@example(Fraction(999996, 10), 5)
@example(Fraction(10**5), 5)
@example(Fraction(5, 2), 1)
@example(Fraction(7, 2), 1)
def test_numbers_are_written_as_decimals_of_so_many_digits(x: Fraction | float, digits: int) -> None:
    exact = Fraction(x)
    text = format_digits(fmpq(exact.numerator, exact.denominator), digits)
    assert not isinstance(x, float) or text == format_digits(arb(x), digits)
    if not exact:
        assert text == "0.0"
        return
    context = Context(prec=400, rounding=ROUND_HALF_EVEN, Emax=10**6, Emin=-(10**6))
    quotient = context.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    wanted = Context(prec=digits, rounding=ROUND_HALF_EVEN, Emax=10**6, Emin=-(10**6)).plus(quotient)
    assert Decimal(text) == wanted
    significand, _, power = text.partition("e")
    assert bool(power) == (not -5 <= wanted.adjusted() < digits)
    assert len(significand.lstrip("-").replace(".", "").lstrip("0")) == digits  # a further zero would be no digit of it


@each("digits", [5, 17, 20, 40])
@each("cancelled", [None, *range(1, 60, 3), 25, 26, 27, 28])
def test_no_precision_is_tried_twice(cancelled: int | None, digits: int) -> None:
    """Each is at least twice the one before, and the last one has room for the digits that may cancel."""
    tried: list[int] = []

    def compute(_: Any, final_bits: int | None) -> list[Any]:
        tried.append(ctx.prec)
        assert final_bits in (None, ctx.prec)
        if final_bits is None:
            raise Undecided
        return [arb(1, 0.5), from_float(0.25)]

    found = refine(compute, 10**9, digits, max_cancelled_digits=cancelled)
    assert (found.is_proven, found.numbers[1]) == ([False, True], fmpq(1, 4))
    assert tried[0] >= digits * math.log2(10) + 8
    assert all(2 * one == next_one for one, next_one in itertools.pairwise(tried[:-1]))
    assert tried[-1] > tried[-2] if len(tried) > 1 else cancelled is not None
    least = (digits + (MAX_CANCELLED_DIGITS if cancelled is None else cancelled)) * math.log2(10)
    assert least <= tried[-1] <= 2 * least + 100


@each("op", [op for op in ELEMENTWISE if op.min_inputs <= 2 and op.name in TABLE])
def test_at_infinities_and_whole_numbers_balls_have_the_values_of_floats(op: Op) -> None:
    with precision(100) as kind:
        for point in itertools.product(
            (0.0, 1.0, -1.0, 2.0, 0.3, -2.3, math.inf, -math.inf, math.nan), repeat=op.min_inputs
        ):
            number = FLOATS.function(op, len(point))(*point)
            try:
                found = kind.function(op, len(point))(*map(from_float, point))
            except Undecided:
                assert all(map(math.isfinite, point)), point  # at infinities, floats decide
                continue
            assert is_nan(found) == math.isnan(number), point
            if math.isinf(number):
                assert (found > 0, is_finite(found)) == (number > 0, False), point
            elif not math.isnan(number):
                assert nearest_float(found) == pytest.approx(number, rel=1e-11, abs=1e-300), point


@each("half", range(-7, 8))
def test_halves_are_rounded_to_even_and_balls_to_all_integers_they_may_have(half: int) -> None:
    assert round_ball(arb(half) / 2) == round(half / 2)
    assert round_ball(arb(half) / 2 + arb(0.25)) == round(half / 2 + 0.25)
    around = round_ball(arb(half / 2, 1e-9))
    assert all(around.contains(round(half / 2 + step)) for step in (-1e-9, 1e-9))
