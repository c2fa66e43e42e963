"""Numbers that rounding makes inaccurate are reported: generated formulas beside exact references."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest

from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.explain import array_accuracy
from autodiff_cli.explain.accuracy import VALUE, doubtful_numbers
from autodiff_cli.explain.array_accuracy import RowAccuracy
from autodiff_cli.explain.precision import precise_trace
from autodiff_cli.explain.tracing import trace
from autodiff_cli.expression import parse
from autodiff_cli.formula.array_derivatives import BatchedGradient
from autodiff_cli.graph.node import constant
from autodiff_cli.numbers import floats
from autodiff_cli.numbers.floats import FLOATS, PERTURBED_RUNS, is_short, start_perturbed_run
from autodiff_cli.ops import get_op
from tests.each import amount, each
from tests.fuzz.delicate import bisect
from tests.ops.table import ROWS

AT = {"x": 0.3, "y": 0.3}


def is_reported_or_correct(text: str, point: dict[str, Any], exact: mpmath.mpf, name: str = VALUE) -> bool:
    """Whether a number has 12 correct digits, or a warning that has its correct digits."""
    found = trace(parse(text), point)
    number = mpmath.mpf(float(found.value if name == VALUE else found.gradient[name]))
    right = {name: digits for warning in found.warnings for name, digits in warning.right.items()}
    if name in right:
        return right[name] == "unknown" or is_near(mpmath.mpf(right[name]), exact)
    return is_near(number, exact)


def is_near(number: mpmath.mpf, exact: mpmath.mpf) -> bool:
    return bool(abs(number - exact) <= mpmath.mpf(10) ** -12 * abs(exact))


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    with mpmath.workdps(60):
        yield


def test_every_run_perturbs_every_result_by_few_ulps_that_do_not_accumulate() -> None:
    runs = np.array([floats.perturbation_ulps(run, 4096) for run in PERTURBED_RUNS])
    assert not floats.perturbation_ulps(floats.UNPERTURBED, 99).count(1)
    assert set(np.abs(runs[[0, 2]]).flat) == {*range(1, floats.MAX_PERTURBATION_ULPS + 1)}
    assert np.abs(runs).min() == 1
    assert (np.abs(runs.mean(axis=1)) < 4 * runs.std(axis=1) / 64).all()
    assert (runs.std(axis=0) > 0).mean() > 0.99
    assert np.abs(np.corrcoef(runs)[2, :2]).max() < 0.05


@each("x", [3.0, -2.0, 2.5, 0.75, 7.0, 0.5, 65537.0, 1048577.5, 4194305.0])
def test_powers_are_perturbed_unless_they_are_known_to_be_exact(x: float) -> None:
    """Of fractions, only squares are known to be."""
    power = get_op("pow")
    for y in (0.0, 1.0, 2.0, 3.0, 4.0, -1.0, -2.0, 0.5, 1.5):
        if x < 0 and y % 1:
            continue
        plain = FLOATS.function(power, 2)(x, y)
        is_exact = y >= 0 and y % 1 == 0 and Fraction(x) ** int(y) == Fraction(plain) and is_short(plain)
        found = {start_perturbed_run(run).function(power, 2)(x, y) for run in PERTURBED_RUNS}
        assert (found == {plain}) == (is_exact and (x % 1 == 0 or y <= 2)), (y, found)


PRODUCTS = ["x*y - z", "y*x - z", "sum([x, 1]*[y, 2]) - z - 2", "dot([x, 0], [y, 1]) - z", "[x, 1][0]*y - z"]
POWERS = ["x^2 - z", "x^y - z", "square(x) - z", "sum([x, 1]^2) - z - 1", "sum(v^y) - z", "sum(v^2) - z"]


@each("bits", range(38, 56), sampled=True)
@each("text", PRODUCTS + POWERS)
def test_products_of_short_numbers_are_exact_only_without_an_error(text: str, bits: int) -> None:
    """Every float from 2^42 on is a multiple of 1/1024, rounded or not."""
    draw = random.Random(bits)
    for _ in range(4):
        x = draw.randrange(2**10, 2**21) / draw.choice([1, 8, 64, 1024])
        y = 2.0 if text in POWERS else round(2.0**bits / x * draw.uniform(1, 2) * 1024) / 1024
        x = x if text in PRODUCTS else round(2 ** (bits / 2) * draw.uniform(1, 1.4) * 1024) / 1024
        z = float(x**2 if text in POWERS else x * y)
        values = {"x": x, "y": y, "z": z, "v": [x]}
        expression = parse(text)
        point = {name: value for name, value in values.items() if name in expression.leaves}
        exact = mpmath.mpf(x) * mpmath.mpf(x if text in POWERS else y) - mpmath.mpf(z)
        assert is_reported_or_correct(text, point, exact), (text, point)


@each("text", ["5000000000000.1", "6000000000000.3", "4398046511104.7"])
def test_a_short_decimal_is_not_exact_because_its_float_is_short(text: str) -> None:
    exact = mpmath.mpf(text) - int(float(text))
    assert is_reported_or_correct(f"x*({text} - {int(float(text))})", {"x": 2.0}, 2 * exact)


CONSTANTS = ["pi", "tau", "e", "0.1", "2.7", "123.456", "1e-5", "6.02214076e23", "1e23", "0.333333333333333333"]


@each("text", CONSTANTS, sampled=True)
def test_differences_of_rounded_constants_are_reported(text: str) -> None:
    number = mpmath.mpf({"pi": mpmath.pi, "tau": 2 * mpmath.pi, "e": mpmath.e}.get(text, text))
    for power in range(-17, -2):
        near = mpmath.nstr(number * (1 + mpmath.mpf(10) ** power / 3), 19)
        exact = number - mpmath.mpf(near)
        for formula in (f"x*({text} - {near})", f"x*{text} - {near}*x", f"sum([x, 0])*({near} - {text})"):
            sign = -1 if formula.startswith("sum") else 1
            assert is_reported_or_correct(formula, {"x": 2.0}, sign * 2 * exact), formula
            assert is_reported_or_correct(formula, {"x": 2.0}, sign * exact, "x"), formula
        assert is_reported_or_correct(f"x + 1e20*({text} - {near})", {"x": 2.0}, 2 + exact * 10**20)


EQUAL = [  # pairs that are equal as numbers
    *((f"x/{k}*{k}", "x") for k in (3, 7, 41, 47, 49, 55, 61)),
    *((f"0.{k} + 0.{m}", f"0.{k + m}") for k in (1, 2, 3) for m in (2, 4, 5)),
    ("sqrt(x)^2", "x"),
    ("x*0.1*10", "x"),
    ("(x + 0.1) + 0.2", "x + 0.3"),
]


@each("x", [1.0, 2.0, 4.0, 5.0, 17.0], sampled=True)
@each(("one", "other"), EQUAL, sampled=True)
def test_comparisons_of_rounded_numbers_take_the_correct_branch(one: str, other: str, x: float) -> None:
    for condition, holds in (
        (f"{one} == {other}", True),
        (f"{other} != {one}", False),
        (f"{one} > {other}", False),
        (f"{one} >= {other}", True),
        (f"not ({one} - ({other}))", True),
        (f"{one} - ({other})", False),
    ):
        correct = mpmath.mpf(x if holds else 3 * x)
        assert is_reported_or_correct(f"where({condition}, x, 3*x)", {"x": x}, correct), condition
        assert is_reported_or_correct(f"sum(where({condition}, [x, 0], 3*[x, 0]))", {"x": x}, correct), condition


@each(("one", "other"), EQUAL)
def test_jumps_at_rounded_numbers_take_the_correct_side(one: str, other: str) -> None:
    for jump, correct in (
        (f"floor({one} - ({other}) + 1)", 1),
        (f"ceil({one} - ({other}))", 0),
        (f"round({one} - ({other}) + 0.5)", 0),
        (f"({one}) % ({other})", 0),
        (f"sign({one} - ({other}))", 0),
        (f"heaviside({one} - ({other}))", 0.5),
    ):
        assert is_reported_or_correct(f"{jump} + 0*x", {"x": 17.0}, mpmath.mpf(correct)), jump


INVERSES = ["tan(atan(x))", "tan(asin(x/hypot(1, x)))", "atanh(tanh(x))", "1/(pi/2 - atan(x))", "log(exp(x))"]


@each("text", INVERSES)
def test_comparisons_of_numbers_without_correct_digits_take_the_correct_branch(text: str) -> None:
    """Near a pole, perturbations of some ulps are far from what an error of less than an ulp does."""
    draw = random.Random(1)
    for _ in range(12):
        x = 10 ** draw.uniform(0, 2 if "tanh" in text else 21)
        y = x * draw.choice([0.25, 0.75, 1.25, 4.0])
        correct = mpmath.mpf(x if x >= y else 3 * x)
        point = {"x": x, "y": y}
        assert is_reported_or_correct(f"where({text} >= y, x, 3*x)", point, correct), point
        assert is_reported_or_correct(f"sum(where([{text}, 0] >= [y, 1], [x, 0], [3*x, 0]))", point, correct), point


@each("text", ["atanh(tanh(x))", "-log(1 - tanh(x))/2", "1/(1/(8*x) + 1 - sin(x)^2 - cos(x)^2)"])
def test_nothing_is_decided_in_silence_by_a_number_that_no_precision_reaches(text: str) -> None:
    """At the last precision tanh(x) is 1, where atanh has a pole; its value is about x."""
    for x in (227221.0, 1e6, 3e7):
        for factor in (0.25, 4.0):
            correct = mpmath.mpf(x if "8" in text or factor < 1 else 3 * x)
            assert is_reported_or_correct(f"where({text} >= {factor}*x, x, 3*x)", {"x": x}, correct), x


@each("text", ["where(x == y, x, -x)", "where(x > y - 1, x, 2*x)", "where(x, y, 2*y) + 0*relu(x)"])
def test_comparisons_of_exact_numbers_are_not_in_doubt(text: str) -> None:
    assert not doubtful_numbers({VALUE: 0.3}, lambda kind: {VALUE: forward(parse(text).tape, kind, AT)[-1]})


@each(
    "text", ["where(x + y == 0.875, x, -x)", "where(4*x - 1, x, -x)", "(x + y) - 0.875", "x*y - 0.15625", "floor(8*y)"]
)
def test_sums_and_products_of_short_fractions_are_not_in_doubt(text: str) -> None:
    """Floats have them exactly, so nobody needs a proof that they are equal."""
    point = {"x": 0.25, "y": 0.625}
    value = {VALUE: parse(text)({name: point[name] for name in parse(text).leaves})}
    assert not doubtful_numbers(value, lambda kind: {VALUE: forward(parse(text).tape, kind, point)[-1]})


def test_only_the_rows_with_a_comparison_in_doubt_are_doubtful() -> None:
    rows = RowAccuracy(BatchedGradient(parse("where(x/49*49 == x, x, -x)"), ["x"], {}, ["x"]))
    x = np.array([0.0, 1.0, 2.0, 3.0])
    found = np.array([np.where(x / 49 * 49 == x, x, -x), np.where(x / 49 * 49 == x, 1.0, -1.0)])
    assert rows.check({"x": x}, found).keys() == {*np.flatnonzero(x / 49 * 49 != x).tolist()}
    rows = RowAccuracy(BatchedGradient(parse("where(0.1*x > 0.3, x, -x)"), ["x"], {}, ["x"]))
    assert not rows.check({"x": np.array([1.0, 2.0, 4.0])}, np.array([[-1.0, -2.0, 4.0], [-1.0, -1.0, 1.0]]))
    assert (rows._checked, rows.unchecked) == (0, 0)


ZEROS = [  # a formula, its value and derivative, and an interval with a zero of one of them
    ("lgamma(x)", lambda x: mpmath.log(abs(mpmath.gamma(x))), mpmath.digamma, (-2.6, -2.3)),
    ("digamma(x)", mpmath.digamma, lambda x: mpmath.psi(1, x), (1.2, 1.8)),
    ("digamma(x)", mpmath.digamma, lambda x: mpmath.psi(1, x), (-0.8, -0.3)),
    ("gamma(x)", mpmath.gamma, lambda x: mpmath.gamma(x) * mpmath.digamma(x), (1.2, 1.8)),
    ("Ei(x)", mpmath.ei, lambda x: mpmath.exp(x) / x, (0.2, 0.6)),
    ("Ci(x)", mpmath.ci, lambda x: mpmath.cos(x) / x, (0.3, 1.0)),
    ("Chi(x)", mpmath.chi, lambda x: mpmath.cosh(x) / x, (0.3, 1.0)),
    ("silu(x)", lambda x: x / (1 + mpmath.exp(-x)), None, (-1.6, -1.0)),
    ("mish(x)", lambda x: x * mpmath.tanh(mpmath.log(1 + mpmath.exp(x))), None, (-1.6, -1.0)),
    ("sinc(x)", lambda x: mpmath.sin(x) / x, lambda x: mpmath.cos(x) / x - mpmath.sin(x) / x**2, (4.0, 5.0)),
    ("sinc(x)", lambda x: mpmath.sin(x) / x, lambda x: mpmath.cos(x) / x - mpmath.sin(x) / x**2, (3.0, 3.3)),
    ("besselj(0, x)", lambda x: mpmath.besselj(0, x), lambda x: -mpmath.besselj(1, x), (2.0, 3.0)),
    ("bessely(1.5, x)", lambda x: mpmath.bessely(1.5, x), None, (2.5, 3.5)),
    ("besseli(-1.5, x)", lambda x: mpmath.besseli(-1.5, x), None, (1.0, 1.5)),
]


@each(("text", "function", "slope", "interval"), ZEROS, sampled=True)
def test_numbers_next_to_zeros_of_functions_and_slopes_are_reported(
    text: str, function: Any, slope: Any, interval: tuple[float, float]
) -> None:
    slope = slope or (lambda x: mpmath.diff(function, x))
    vanishing = function if function(interval[0]) * function(interval[1]) < 0 else slope
    zero = float(mpmath.findroot(vanishing, interval, solver="anderson"))
    for power in range(8, 17):
        for x in (zero + 10.0**-power, zero - 3 * 10.0**-power, zero):
            for formula, point in ((text, {"x": x}), (f"sum({text.replace('x', 'v', 1)})", {"v": [x]})):
                exact = mpmath.mpf(x)
                assert is_reported_or_correct(formula, point, function(exact)), (formula, x)
                if "x" in point:
                    assert is_reported_or_correct(formula, point, slope(exact), "x"), (formula, x)


ROWS_OF_TWO = {row.name: row for row in ROWS if len(row.domain) == 2 and get_op(row.name).spelling}
BESIDE_A_LARGE_NUMBER = [(name, position) for name in ROWS_OF_TWO for position in (0, 1)]
SIZES = [10.0 ** (k / 4) for k in range(-8, 41)]
LARGE = 7.3e6


@each(("name", "position"), BESIDE_A_LARGE_NUMBER, quick=lambda name, _: name in ("beta", "wofz_imag"))
def test_numbers_next_to_zeros_are_reported_beside_a_large_number(name: str, position: int) -> None:
    """The value and the slope towards one argument, also where the other one is so large that it hardly matters."""
    row = ROWS_OF_TWO[name]
    text = f"{get_op(name).spelling}({('x, y', 'y, x')[position]})"
    formula = parse(text)
    values = {VALUE: lambda x: formula(x=x, y=LARGE), "x": lambda x: formula.grad(x=x, y=LARGE)["x"]}
    for (label, at), exact in zip(values.items(), (row.value, row.slopes[position]), strict=True):
        for low, high in pairwise([*(-size for size in reversed(SIZES)), *SIZES]):
            if exact is None or not -math.inf < at(low) * at(high) < 0:
                continue
            for x in (zero := bisect(at, low, high), zero * (1 + 1e-7)):
                arguments = [mpmath.mpf(x), mpmath.mpf(LARGE)][:: 1 - 2 * position]
                assert is_reported_or_correct(text, {"x": x, "y": LARGE}, exact(*arguments), label), (label, x)


EXPONENTIALS = {  # with the ranges of their arguments
    "gammainc(x, y)": (ROWS_OF_TWO["gammainc"].value, (10, 90), (1e-3, 1)),
    "gammaincc(x, y)": (ROWS_OF_TWO["gammaincc"].value, (1, 40), (100, 490)),
    "gammainc_slope(x, y)": (ROWS_OF_TWO["gammainc_slope"].value, (10, 90), (1e-3, 1)),
    "beta(x, y)": (mpmath.beta, (50, 300), (50, 300)),
    "softmax([-x, y])[0]": (lambda x, y: 1 / (1 + mpmath.exp(x + y)), (100, 600), (0.1, 1)),
}


@each("text", EXPONENTIALS)
def test_errors_of_exponents_that_a_difference_magnifies_are_reported(text: str) -> None:
    """A difference of 1 % magnifies an error of 500 ulps to 1e-11."""
    function, *ranges = EXPONENTIALS[text]
    chance = random.Random(text)
    for _ in range(amount(12, 40, 400)):
        x, y = (math.exp(chance.uniform(math.log(low), math.log(high))) for low, high in ranges)
        subtrahend = float(f"{parse(text)(x=x, y=y) * (1 - chance.choice((0.03, 0.01, 0.005))):.8g}")
        points = [(mpmath.mpf(x), mpmath.mpf(y)), (mpmath.mpf(repr(x)), mpmath.mpf(repr(y)))]
        exact = [function(*point) - mpmath.mpf(repr(subtrahend)) for point in points]
        formula = f"{text} - ({subtrahend!r})"
        assert any(is_reported_or_correct(formula, {"x": x, "y": y}, number) for number in exact), (x, y)


@each(
    "text, x, right",
    [
        ("normal_sf(x)", 50.0, "1.08059794676164e-545"),
        ("normal_cdf(0, x)", 50.0, "1.08059794676164e-545"),
        ("normal_pdf(0, x, 1)", 50.0, "5.40514920419271e-544"),
        ("logaddexp(x, 0)", -800.0, "3.66787458417769e-348"),
        ("sum(normal_sf([x, x]))", 50.0, "2.16119589352327e-545"),
    ],
)
def test_results_that_vanish_are_reported_also_where_an_argument_is_zero(text: str, x: float, right: str) -> None:
    found = trace(parse(text), {"x": x})
    assert {name: digits for each in found.warnings for name, digits in each.right.items()}[VALUE] == right


VANISHED = [
    ("gammainc(a, x)", {"a": 300.0, "x": 1e-3}),
    ("gammaincc(a, x)", {"a": 1.0, "x": 54770.0}),
    *(
        (f"{name}(a, x)", point)
        for name in ("gammainc_slope", "gammainc_curvature")
        for point in ({"a": 1.0, "x": 54770.0}, {"a": 101.0, "x": 1e-7}, {"a": 2e5, "x": 1.0}, {"a": 2e5, "x": 1e6})
    ),
    *((f"{name}(x)", {"x": -1000.0}) for name in ("exp", "Ei", "gelu", "silu", "mish")),
    *((f"besselj(a, {sign}x)", {"a": 861.0, "x": 5e-61}) for sign in ("", "-")),
    ("logsigmoid(x)", {"x": 1000.0}),
    ("polygamma(2, x)", {"x": 1e200}),
    ("normal_pdf(x)", {"x": 50.0}),
]


@each("text, point", VANISHED)
def test_comparisons_with_results_that_vanish_take_the_correct_branch(text: str, point: dict[str, float]) -> None:
    for relation, compare in (("<", operator.lt), (">", operator.gt)):
        exact = precise_trace(parse(text), {name: constant(x) for name, x in point.items()}, [], 20).value
        assert mpmath.mpf(exact) != 0
        assert is_reported_or_correct(f"{text} {relation} 0", point, mpmath.mpf(compare(mpmath.mpf(exact), 0)))


@each(
    ("runs", "is_undecided"),
    [
        ([[(1.0, 2.0)], [(1.001, 2.0)], [(0.999, 2.0)]], False),
        ([[(1.0, 1.0)], [(1.0, 1.0)], [(1.0, 1.0)]], False),  # equal without any error
        ([[(1.0, 1.01)], [(1.02, 1.0)], [(1.0, 1.01)]], True),  # within the errors of each other
        ([[(0.01, 5.0)], [(-0.01, 5.0)], [(0.02, 5.0)]], True),  # the left side has no correct digit
        ([[(5.0, 0.01)], [(5.0, -0.01)], [(5.0, 0.02)]], True),
        ([[(1.0, 2.0)], [(1.0, 2.0)], [(math.inf, 2.0)]], True),
        ([[(1.0, 2.0)], [], [(1.0, 2.0)]], True),  # one run took another way
        ([[], [], [(1.0, 2.0), (3.0, 4.0)]], True),
        ([[], [], []], False),
    ],
)
def test_comparisons_that_errors_may_reverse_are_in_doubt(
    runs: list[list[tuple[float, float]]], is_undecided: bool
) -> None:
    factors = floats._FactorSequence()
    for _ in range(2):  # the first run begins anew
        for run, sides in zip(floats.PERTURBED_RUNS, runs, strict=True):
            factors.start(run)
            for a, b in sides:
                factors.compared(a, b)
            assert factors.has_comparisons() == bool(sides)
        assert factors.has_undecided() == is_undecided


@each(
    "sizes, is_within",
    [
        ([[1e100, 2.0], [1e200]], True),
        ([[1e200, 2.0], [1e200]], False),
        ([[1e-100, 2.0], [1e-200]], True),
        ([[1e-200, 2.0], [1e-200]], False),
        ([[0.0, 2.0], [1e-300]], True),
        ([[0.0, 0.0], [1e-300]], True),
        ([[math.inf, 1.0], [1.0]], False),
        ([[1e200], [1e200], [1e-200]], False),  # on the way
    ],
)
def test_products_of_elements_within_the_range_of_floats(sizes: list[list[float]], is_within: bool) -> None:
    with np.errstate(all="ignore"):
        assert array_accuracy._is_within_range([np.array(size) for size in sizes]) == is_within
