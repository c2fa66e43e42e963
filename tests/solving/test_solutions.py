"""All zeros and optima in a box are found and proven, and what is not proven is said."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

import autodiff_cli as ad
from autodiff_cli.array_types import Array
from autodiff_cli.autodiff.arbitrary_precision import BallFunction
from autodiff_cli.numbers import ball_arithmetic as ball
from autodiff_cli.solving import proof, solutions
from autodiff_cli.solving import search as searches
from autodiff_cli.solving.proof import as_fraction
from autodiff_cli.solving.search import System
from autodiff_cli.solving.solutions import BoxProblem, _hulls_on_grid
from tests.each import each
from tests.solving.functions import MINIMA, SYSTEMS


def encloses(bounds: tuple[float | str, float | str], exact: mpf) -> bool:
    low, high = (mpf(end) for end in bounds)
    return bool(low <= exact <= high)


@each("seed", range(12))
def test_a_polynomial_with_known_roots(seed: int) -> None:
    chance = random.Random(seed)
    roots = sorted({Fraction(chance.randint(-60, 60), chance.choice([1, 2, 3, 5, 8])) for _ in range(5)})
    text = "*".join(f"(x - ({root}))" for root in roots)
    found = ad.parse(text).solve(x=(-70, 70.5))
    assert found.complete
    assert len(found.roots) == len(roots)
    for root, exact in zip(found.roots, roots, strict=True):
        assert root.unique
        low, high = map(Fraction, root.enclosure["x"])
        assert low <= exact <= high
        assert root.point["x"] == float(exact)


@each(
    ("text", "wanted"),
    [("x - 1e-400", "1e-400"), ("x*exp(x) - exp(-1000)", "5.0759588975494567653e-435"), ("x^3 + x - 1e-310", "1e-310")],
)
def test_zeros_too_small_for_a_float_are_not_called_0(text: str, wanted: str) -> None:
    formula = ad.parse(text)
    box = dict.fromkeys(formula.variables, (-1, 1.5))
    with mp.workdps(30):
        for digits, error in ((None, "1e-13"), (20, "1e-19")):
            (root,) = formula.solve(box, precision=digits).roots
            assert abs(mpf(root.point["x"]) / mpf(wanted) - 1) < mpf(error)


@each(
    "text, exact",
    [
        ("x^3 - 2*x - 5", "2.0945514815423265914823865405793"),
        ("exp(x) - 3", "1.0986122886681096913952452369225"),
        ("x^2 - 0.1", "0.31622776601683793319988935444327"),
        ("cos(x) == x", "0.73908513321516064165531208767387"),
        ("x*sqrt(x) - pi", "2.1450293971110256000774441009413"),
    ],
)
def test_digits_of_zeros_are_proven(text: str, exact: str) -> None:
    with mp.workdps(60):
        (root,) = ad.parse(text).solve(x=(0, 3)).roots
        assert encloses(root.enclosure["x"], mpf(exact))
        low, high = root.enclosure["x"]
        assert high - low < 1e-15
        (precise,) = ad.parse(text).solve(x=(0, 3), precision=30).roots
        assert encloses(precise.enclosure["x"], mpf(exact))
        assert precise.point["x"] == mp.nstr(mpf(exact), 30)


@each(
    "text, low, high, points",
    [
        ("exp(x)", -9, 9, []),
        ("log(x)", -1, 3, [1]),
        ("sqrt(x) - 1", -1, 3, [1]),
        ("abs(x) - 1", -3, 3, [-1, 1]),
        ("max(x, -2*x) - 1", -3, 3, [-0.5, 1]),
        ("x*(x - 1)*(x + 1)", -1, 1, [-1, 0, 1]),
        ("x - 0.1", 0, 0.5, [0.1]),
        ("(x - 1)^2", 0, 3, [1]),
        ("x^3", -1, 2, [0]),
        ("exp(x) - x - 1", -2, 2.1, [0]),
        ("abs(x)", -1, 2, [0]),
        ("sqrt(x)", -1, 2, [0]),
        ("(x - sqrt(2))^2", 0, 3, [2**0.5]),
        ("(x - 1)^2*(x - pi)^3", 0, 4, [1, math.pi]),
        ("x^4 - 4*x^2 + 4", -3, 3.1, [-(2**0.5), 2**0.5]),
        ("x*sin(x)/(x + 2)", -1, 4, [0, math.pi]),
        ("(x - 1)^-2", 0, 3, []),
        ("1/x", -1, 2, []),
        ("x^4 - 2*x^2 + 1", -3, 2, [-1, 1]),
        ("x^2 + 1", -3, 3, []),
        ("erf(x)", -3, 2, [0]),
        ("x - 1", 0, 1, [1]),
        ("gamma(x) - 2", 1.5, 4, [3]),
        ("max(x, 1 - x, 0.2) - 0.7", 0, 1, [0.3, 0.7]),
        ("min(x, 0.9 - x, 0.3) - 0.2", 0, 1, [0.2, 0.7]),
    ],
)
def test_complete_solutions(text: str, low: float, high: float, points: list[float]) -> None:
    found = ad.parse(text).solve(x=(low, high))
    assert found.complete
    assert not found.unresolved
    assert [root.point["x"] for root in found.roots] == pytest.approx(points, rel=1e-15)


@each(
    "text, at",
    [
        ("floor(x) - 0.5", 1),
        ("tan(x)", 1.5707963),
        ("exp(x) - 2*x - 2 + 2*log(2)", 0.6931471805599453),
        ("cosh(x)^2 - sinh(x)^2 - 1", 0.3),
        ("x*log(x)", 0),
        ("(x - 1)^2/(x - 1)", 1),
        ("where(x > 0, x - 3, 5)", 0),
    ],
)
def test_what_cannot_be_proven_is_unresolved(text: str, at: float) -> None:
    found = ad.parse(text).solve(x=(-1, 2))
    assert not found.complete
    assert any(low - 1e-6 <= at <= high + 1e-6 for box in found.unresolved for low, high in box.values())


@each(
    "text, points",
    [
        ("1 + cos(x)", [math.pi]),
        ("sin(3*x) - 1", [math.pi / 6, 5 * math.pi / 6, 3 * math.pi / 2]),
        ("1 + cos(x - 1)", [math.pi + 1]),
        ("exp(x) - e*x", [1]),
        ("cosh(x - 1/3) - 1", [1 / 3]),
        ("x - 1 - sin(x - 1)", [1]),
        ("cosh(x^2 - 2) - 1", [2**0.5]),
        ("1.0000000000001 + cos(x)", []),
        ("0.99999999999999 + cos(x)", [math.pi - 1.4142135623739e-7, math.pi + 1.4142135623739e-7]),
        ("0.99999999999999999999 + cos(x)", [math.pi - 1.41421356237310e-10, math.pi + 1.41421356237310e-10]),
        ("x^2*exp(x) + 1e-30", []),
    ],
)
def test_where_a_function_touches_zero_or_nearly(text: str, points: list[float]) -> None:
    found = ad.parse(text).solve(x=(-0.7, 4.8))
    assert found.complete
    assert [root.point["x"] for root in found.roots] == pytest.approx(points, rel=1e-15, abs=1e-15)
    assert all(root.unique for root in found.roots)


@each("seed", range(16), sampled=True)
def test_curves_that_touch_or_nearly(seed: int) -> None:
    """Two curves whose difference is a known product: their common points are known, and so is how many there are.

    Whether they touch is undecided if a coordinate is a number like sin(1/2), of which no exact form is known.
    """
    chance = random.Random(seed)
    a, b = Fraction(chance.randint(-9, 9), 8), Fraction(chance.randint(20, 30), 8)
    power, gap = chance.choice([2, 2, 3, 4]), chance.choice([0, 0, 1, -1])
    curve, is_exact = chance.choice([("sin(x)", False), ("x^2/3", True), ("x^3 - x", True), ("1/(x + 7)", True)])
    near = f"(x - ({a}))^{power} - {gap}*1e-18" if power == 2 else f"(x - ({a}))^{power}"
    difference = chance.choice(["({near})*(x - ({b}))", "({near})*exp(x - {b})*({b} - x)"]).format(near=near, b=b)
    factor = chance.choice(["1", "exp(x)", "(2 + y^2)"])
    found = ad.parse(f"[y - {curve}, {factor}*(y - {curve} + {difference})]").solve(x=(-2.1, 4.3), y=(-99, 99))
    offsets = [0.0] if power > 2 or gap == 0 else [-1e-9, 1e-9] if gap > 0 else []
    is_decided = is_exact or len(offsets) != 1
    assert found.complete == is_decided
    exact = sorted([float(a) + shift for shift in offsets if is_decided] + [float(b)])
    assert sorted(root.point["x"] for root in found.roots) == pytest.approx(exact, abs=1e-14)
    assert [near.point["x"] for near in found.nearly] == pytest.approx([float(a)] * (not is_decided), abs=1e-14)


@each(
    "text, names, points",
    [
        ("[x^2 + y^2 == 1, y == 1]", "xy", [(0, 1)]),
        ("[x^2 + y^2 == 2, x*y == 1]", "xy", [(-1, -1), (1, 1)]),
        ("[x^2 + y^2 == 1, x + y == sqrt(2)]", "xy", [(0.5**0.5, 0.5**0.5)]),
        ("[x^2 + y^2 + z^2 == 3, x*y*z == 1, x == y]", "xyz", [(-1, -1, 1), (1, 1, 1)]),
        ("[x^2 - y^2, x*y]", "xy", [(0, 0)]),
        ("[exp(x) - 1 - y, x*(x - y) + y^2]", "xy", [(0, 0)]),
        ("[x^2 + y^2, x^9 + 2*y^9 + x^10]", "xy", [(0, 0)]),  # the first equation has no other zero
    ],
)
def test_systems_with_singular_zeros(text: str, names: str, points: list[tuple[float, ...]]) -> None:
    found = ad.parse(text).solve(dict.fromkeys(names, (-2, 2.1)))
    assert found.complete
    assert [tuple(root.point[n] for n in names) for root in found.roots] == [
        pytest.approx(p, abs=1e-15) for p in points
    ]


@each(
    "text, point",
    [
        ("[x^2 - 3*x*y + y^2, x^2 - 2*y^2]", (0, 0)),  # small boxes of directions decide that none is common
        ("[sin(40*x) - y, y - 1]", (math.pi / 80, 1)),  # slopes at the middle of the box, not at 0
    ],
)
def test_singular_zeros_are_decided_in_the_middle_of_boxes(text: str, point: tuple[float, float]) -> None:
    found = ad.parse(text).solve(x=(point[0] - 0.03, point[0] + 0.04), y=(point[1] - 0.3, point[1] + 0.4))
    assert found.complete
    (root,) = found.roots
    assert (root.point["x"], root.point["y"]) == pytest.approx(point, abs=1e-15)


@each(
    "text, x, y, z",
    [
        ("[9*sin(x) - y, y - 9]", 2.5, 9, None),
        ("[40*sin(40*x) - y, y - 40]", 20.5 / 40, 40, None),
        ("[sin(40*x) - z, z - y, y == 1]", 20.5 / 40, 1, 1),
    ],
)
def test_steep_curves_that_touch_a_line_far_from_0(text: str, x: float, y: float, z: float | None) -> None:
    """Slopes elsewhere say nothing about the point of contact."""
    point = {"x": x * math.pi, "y": float(y), **({} if z is None else {"z": float(z)})}
    found = ad.parse(text).solve({n: (at - 0.06 * at, at + 0.05 * at) for n, at in point.items()})
    assert found.complete
    (root,) = found.roots
    assert root.point == pytest.approx(point, rel=1e-15)


@each("across, along", ["xy", "yx"])
def test_a_zero_that_may_be_multiple_is_near_its_point_whichever_way_its_curve_runs(across: str, along: str) -> None:
    text = f"[{across} - sin(1/2), ({along} - cos(1/3))^3 + {across} - sin(1/2)]"
    found = ad.parse(text).solve(x=(-2, 3), y=(-2, 3.1))
    assert (found.complete, found.roots) == (False, [])
    (near,) = found.nearly
    assert near.point == pytest.approx({across: math.sin(0.5), along: math.cos(1 / 3)}, abs=1e-14)


def test_a_zero_that_may_be_double_is_said_to_be_so() -> None:
    found = ad.parse("exp(x) - 2*x - 2 + 2*log(2)").solve(x=(-3, 3))
    (box,), (near,) = found.unresolved, found.nearly
    low, high = box["x"]
    assert low <= math.log(2) <= high <= math.nextafter(low, 9)
    assert near.point["x"] == pytest.approx(math.log(2), rel=1e-15)
    assert near.error < 1e-30


@each("shift", ["0", "6e-39", "-2e-39", "6e-36", "6e-30"])
def test_a_zero_near_a_point_that_may_be_a_triple_one_is_in_a_box(shift: str) -> None:
    with mp.workdps(80):
        found = ad.parse(f"sinh(x - log(2)) - x + log(2) - ({shift})").solve(x=(-3, 3))
        offset = mp.sign(mpf(shift)) * mp.cbrt(6 * abs(mpf(shift)))  # sinh(u) - u is u^3/6 near 0
        boxes = [box["x"] for box in found.unresolved] + [root.enclosure["x"] for root in found.roots]
        assert any(encloses(box, mp.log(2) + offset) for box in boxes)


@each("unit", [1.0, 1e9, 1e-9])
@each("second", ["sinh(x - log(2)) - y/unit + log(2)", "sinh(y/unit - log(2)) - x + log(2)"])
def test_the_box_around_a_zero_that_may_be_a_triple_one_has_the_size_of_its_units(unit: float, second: str) -> None:
    found = ad.parse(f"[y - {unit!r}*x, {second.replace('unit', repr(unit))}]").solve(
        x=(-3, 3.1), y=(unit / 10, 6 * unit)
    )
    (box,) = found.unresolved
    for name, size in (("x", 1.0), ("y", unit)):
        low, high = box[name]
        assert low <= math.log(2) * size <= high <= low + 1e-11 * size


def test_zeros_of_factors_that_cannot_be_told_apart_are_not_called_unique() -> None:
    (root,) = ad.parse("(x - 0.1)*(x - 0.10000000000000000001)").solve(x=(0, 1)).roots
    assert not root.unique
    (root,) = ad.parse("x*sin(x)").solve(x=(-1, 1)).roots
    assert root.unique
    found = ad.parse("[(x - y)^2, x*(x^2 - 2)]").solve(x=(-1, 2), y=(-1, 2))
    assert found.complete
    assert [r.point for r in found.roots] == [{"x": 0.0, "y": 0.0}, {"x": 2**0.5, "y": 2**0.5}]


@each("factor", ["where(x < 3, 0, 1)", "relu(x - 3)", "0", "floor(x/9)", "(x^2 - 3)"])
def test_a_zero_that_is_called_unique_has_no_other_zeros_beside_it(factor: str) -> None:
    f = ad.parse(f"(x^2 - 2)*{factor}")
    root = next(root for root in f.solve(x=(0, 4)).roots if root.point["x"] == 2**0.5)
    assert root.unique == all(f(x=end) for end in root.enclosure["x"])


@pytest.mark.slow
@each(
    ("text", "pole"),
    [
        ("1/(1/(x - 1))", 1),
        ("1/(1 + 1/x^2)", 0),
        ("(2*x - pi*x)/(x*x/log(x))", 1),
        ("sin(x + 1)/(5 - gamma(x + 1))", -1),
        ("1/tan(x)", math.pi / 2),
        ("(x + 5)/lgamma(x)", -1),
        ("exp(x)*(x + 4)/(2 + 1/(x - 2))", 2),
    ],
)
def test_a_quotient_is_not_proven_to_differ_from_zero_where_its_divisor_is_infinite(text: str, pole: float) -> None:
    """`grad` evaluates it to 0 there, or to a number of another sign on the other side."""
    found = ad.parse(text).solve(x=(-2.5, 2.5))
    assert not found.complete
    assert any(low - 1e-9 <= pole <= high + 1e-9 for box in found.unresolved for low, high in box.values())


@each(
    "text", ["x/(x - 1)", "x/(log(x + 3) - 1)", "(x - 1)/(x/(x + 3) - 5)", "x/(sqrt(x + 3) + 1)", "sin(x)/(cos(x) - 2)"]
)
def test_other_divisors_leave_no_doubt(text: str) -> None:
    assert ad.parse(text).solve(x=(-2.5, 2.5)).complete


@pytest.mark.slow
def test_where_rounding_hides_a_flat_function_around_0_the_search_soon_ends() -> None:
    """The sign is lost within 0.01 of 0. Beside 0, no box is narrow compared to its distance from 0."""
    found = ad.parse("log(1 + x^8) - x^8/3").solve(x=(-20, 20.5), max_boxes=2000)
    assert found.complete
    assert found.boxes < 1000
    assert len(found.roots) == 3


@pytest.mark.parametrize("digits", [0, -5])
def test_numbers_of_digits_below_1_are_refused(digits: int) -> None:
    with pytest.raises(ad.ExpressionError, match="from 1"):
        ad.parse("sin(x)").solve(x=(0, 10), precision=digits)


def test_a_search_that_is_cut_short_loses_no_zero() -> None:
    assert ad.parse("x - 1").solve(x=(0, 3)).boxes == 1
    found = ad.parse("sin(x)").solve(x=(0.5, 100), max_boxes=7)
    assert not found.complete
    assert found.boxes == 7
    for k in range(1, 32):
        zero = k * 3.141592653589793
        boxes = [*found.unresolved, *(root.enclosure for root in found.roots)]
        assert any(low <= zero <= high for box in boxes for low, high in box.values())


def test_a_search_that_is_cut_short_has_examined_the_lowest_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "_BATCH", 8)
    text = "20 + x^2 - 10*cos(2*pi*x) + y^2 - 10*cos(2*pi*y)"  # of Rastrigin 1974, with dozens of minima
    found = ad.parse(text).minimize(x=(-4, 5.1), y=(-4, 5.2), max_boxes=100)
    assert not found.complete
    assert found.global_.value_enclosure == (0, 0)


@pytest.mark.slow
def test_a_search_that_is_cut_short_bounds_the_global_minimum_well() -> None:
    found = ad.parse("max(abs(x - 1), abs(y + 1), abs(x + y), abs(x*y - 1))").minimize(
        x=(-3, 3.1), y=(-3, 3.2), max_boxes=9_000
    )
    assert not found.complete
    low, high = found.global_.value_enclosure
    assert 1 - 1e-2 < low <= 1 <= high < 1 + 1e-9


@each("equations, box, count", SYSTEMS)
def test_systems_of_the_literature(equations: str, box: dict[str, tuple[float, float]], count: int) -> None:
    f = ad.parse(equations)
    found = f.solve(box)
    assert found.complete
    assert len(found.roots) == count
    for root in found.roots:
        assert all(abs(value) < 1e-9 for value in f(root.point)) if "==" not in equations else root.unique


@pytest.mark.slow
@each("name, text, box, value", MINIMA, sampled=True)
def test_global_minima_of_published_functions(
    name: str, text: str, box: dict[str, tuple[float, float]], value: float
) -> None:
    found = ad.parse(text).minimize(box)
    low, high = getattr(found, "global").value_enclosure
    assert low <= high
    assert high - low <= 1e-12 * max(1, abs(value)), name
    assert low - 1e-6 * max(1, abs(value)) <= value <= high + 1e-6 * max(1, abs(value)), name
    assert found.global_ is not None
    assert found.global_.points, name


def test_kinds_edges_and_global_points() -> None:
    found = ad.parse("x^3 - x").minimize(x=(-2, 2))
    assert [(p.kind, p.on_edge) for p in found.points] == [("minimum", True), ("maximum", False), ("minimum", False)]
    assert (found.global_.points, found.global_.value_enclosure) == ([0], (-6.0, -6.0))
    found = ad.parse("x*y").maximize(x=(-1, 2), y=(-1, 2))
    assert found.global_.value_enclosure == (4.0, 4.0)
    assert [found.points[i].point for i in found.global_.points] == [{"x": 2.0, "y": 2.0}]
    assert {p.kind for p in found.points if not p.on_edge} == {"saddle"}


@each(
    "text, best",
    [
        ("1 + (x^2 - 1)^2 + 1e-30*x", -1),  # floats do not tell the two minima apart
        ("1 + (x^2 - 1)^2 - 1e-30*x", 1),
        ("-exp(1000*abs(x))", 2),  # nor numbers beyond their range
    ],
)
def test_only_the_lowest_of_proven_values_is_the_global_minimum(text: str, best: float) -> None:
    for digits in (None, 40):
        found = ad.parse(text).minimize(x=(-1.5, 2), precision=digits)
        assert [float(found.points[k].point["x"]) for k in found.global_.points] == [best]


@each(("text", "best"), [("1 + (x - 0.1)*(2.1 - x) + 1e-30*x", 0.1), ("1 + (x - 0.1)*(2.1 - x) - 1e-30*x", 2.1)])
def test_of_two_ends_that_are_no_floats_the_lower_one_is_the_global_minimum(text: str, best: float) -> None:
    found = ad.parse(text).minimize(x=("0.1", "2.1"))
    assert [found.points[k].point["x"] for k in found.global_.points] == [best]


def test_bounds_of_numbers_contain_them() -> None:
    chance = np.random.default_rng(4)
    sizes = [0.0, math.inf, *chance.normal(size=20) * 10.0 ** chance.integers(-300, 300, 20)]
    for digits in (None, 1, 15, 40):
        problem = BoxProblem(ad.parse("x"), {"x": (ball.ZERO, ball.from_float(1.0))}, {}, digits)
        for number in (arb(x, x * width) for x in sizes for width in (0.0, 1e-30, 0.1, 3.0)):
            low, high = problem.bounds(number)
            if number.is_finite():
                ends = [Fraction(int(x.p), int(x.q)) for x in map(as_fraction, (number.lower(), number.upper()))]
                assert Fraction(low) <= ends[0] <= ends[1] <= Fraction(high)
            else:
                assert (low, high) == (-math.inf, math.inf)


@each(
    "slope, at",
    [*itertools.product(["x^4", "(x^3 - x - 1)^4", "exp(x)", "-x^2"], [3, -2.5])],
    quick=lambda slope, at: (at == 3) == (slope in ("x^4", "-x^2")),
)
def test_the_optimum_at_a_kink_of_a_product_is_proven(slope: str, at: float) -> None:
    optimize = ad.parse(f"{slope}*abs(x - a)").maximize if slope[0] == "-" else ad.parse(f"{slope}*abs(x - a)").minimize
    found = optimize(x=(at - 0.1, at + 0.2), a=at)
    assert [point.point["x"] for point in found.points if point.at_kink] == [at]
    assert found.complete


@each("sign", [1, -1])
def test_a_multiple_optimum_that_is_not_decided_hides_no_kink_elsewhere(sign: int) -> None:
    found = ad.parse("(exp(s*x) - 2)^4*abs(x - 3*s)").minimize(x=(-4, 4), s=sign)
    assert [point.point for point in found.points if point.at_kink] == [{"x": 3.0 * sign}]
    assert [*found.unresolved[0]["x"]] == pytest.approx([sign * math.log(2)] * 2, abs=1e-3)


@each("text", ["x^2 + x + abs(x)", "x^2 - x + abs(x)", "x^4 + max(2*x, 0)", "where(x < 0, x^2, x)"])
def test_a_minimum_where_the_slope_of_one_side_of_a_kink_is_0_is_not_lost(text: str) -> None:
    found = ad.parse(text).minimize(x=(-1, 2))
    assert found.global_.value_enclosure[0] <= 0 <= found.global_.value_enclosure[1]
    places = [point.point["x"] for point in found.points] + [sum(box["x"]) / 2 for box in found.unresolved]
    assert any(abs(place) < 1e-6 for place in places)


def test_values_around_a_point_say_its_kind_only_if_nothing_else_may_be_there() -> None:
    """The values on the border of -1.9..1.9 are above the one at 0, which is a maximum between two minima."""
    problem = BoxProblem(ad.parse("x^4 - 2*x^2 + 9"), {"x": (ball.from_float(-10), ball.from_float(10))}, {})
    (output,), near = problem.outputs(), np.array([1e-9])
    system = System.of_objective(problem.unknowns, output)
    region = proof.SingularZeros(-near, near, [[ball.ZERO]])
    minima: list[list[Any]] = [[ball.from_float(-1.0)], [ball.from_float(1.0)]]
    boxes = [(np.array([at - 0.05]), np.array([at + 0.05])) for at in (-1.0, 1.0)]
    with mock.patch.object(solutions, "_SURROUNDINGS", (0.095, 1e-2)):
        for others, unresolved, kind in ((minima, [], "maximum"), ([], boxes, "maximum"), ([], [], "minimum")):
            assert solutions._kind_in_region(problem, system, arb(9), region, others, unresolved) == kind
        unresolved = [(np.array([-1.0]), -near * 1.5)]
        assert solutions._kind_in_region(problem, system, arb(9), region, [], unresolved) == "degenerate"


def test_a_global_optimum_has_the_digits_of_its_point() -> None:
    for digits in (None, 30):
        lowest = ad.parse("exp(x) - 2*x").minimize(x=(-3, 3), precision=digits)
        highest = ad.parse("2*x - exp(x)").maximize(x=(-3, 3), precision=digits)
        for found in (lowest, highest):
            (k,) = found.global_.points
            assert found.global_.value_enclosure == found.points[k].value_enclosure


@each(
    "text, box, point, kind",
    [
        ("abs(x)", {"x": (-1, 2)}, [0], "minimum"),
        ("max(x, -2*x)", {"x": (-1, 2)}, [0], "minimum"),
        ("abs(x - 1/3) + x/2", {"x": (-1, 2)}, [1 / 3], "minimum"),
        ("x^4", {"x": (-1, 2)}, [0], "minimum"),
        ("abs(x) + abs(y)", {"x": (-1, 2), "y": (-1, 2)}, [0, 0], "minimum"),
        ("abs(x - 0.3) + y^2 + x^2", {"x": (-1, 2), "y": (-1, 1)}, [0.3, 0], "minimum"),
        ("abs(x) + abs(y) + abs(z) + abs(w)", dict.fromkeys("xyzw", (-1, 2)), [0, 0, 0, 0], "minimum"),
        ("x^4 + y^4 + z^4", dict.fromkeys("xyz", (-1, 2)), [0, 0, 0], "minimum"),
        ("x^2 + y^4 + x*y^2", dict.fromkeys("xy", (-1, 2)), [0, 0], "minimum"),
        ("x^3 - 3*x*y^2", dict.fromkeys("xy", (-1, 2)), [0, 0], "degenerate"),
        ("(1 + cos(x))^2", {"x": (1, 6)}, [math.pi], "minimum"),
    ],
    quick=lambda text, box, *_: len(box) == 1,
)
def test_kinks_and_multiple_zeros_of_the_gradient(
    text: str, box: dict[str, tuple[float, float]], point: list[float], kind: str
) -> None:
    found = ad.parse(text).minimize(box)
    assert found.complete
    (only,) = [p for p in found.points if not p.on_edge]
    assert [*only.point.values()] == pytest.approx(point, abs=1e-14)
    assert only.kind == kind
    assert only.at_kink is ("abs" in text or "max" in text)


@each(
    "text, kinds",
    [
        ("x^6/6 - 3*x^5/50 + 3*x^4/400 - x^3/3000", {0: "degenerate", 0.1: "minimum"}),  # both are multiple zeros
        ("2*abs(x) + abs(x - 1e-12)", {0: "minimum"}),  # another kink is in the same box
        ("x^4 + max(0, x - 1)^2", {0: "minimum"}),  # the border of the condition is elsewhere
        ("abs(x) + where(x > 5, x, 0)", {0: "minimum"}),
    ],
)
def test_points_that_second_derivatives_do_not_decide_have_neighbours(text: str, kinds: dict[float, str]) -> None:
    found = ad.parse(text).minimize(x=(-1, 1.1))
    assert found.complete
    assert {p.point["x"]: p.kind for p in found.points if not p.on_edge} == kinds


@pytest.mark.parametrize("distance", [0.1, 1e-3, 1e-6, 1e-9, 1e-12])
def test_a_jump_beside_a_minimum_is_not_lost(distance: float) -> None:
    """The minimum is proven in a box as wide as possible, which must not hold the jump."""
    found = ad.parse(f"x^2 + floor(x + {distance})").minimize(x=(-1, 0.9))
    assert not found.complete
    assert any(box["x"][0] <= -distance <= box["x"][1] for box in found.unresolved)
    low, high = getattr(found, "global").value_enclosure
    assert low <= distance**2 - 1 <= high


def test_many_zeros_are_not_compared_in_pairs() -> None:
    f, bounds = ad.parse("sin(x)"), solutions.BoxProblem.bounds
    with mock.patch.object(solutions.BoxProblem, "bounds", autospec=True, side_effect=bounds) as rounded:
        found = f.solve(x=(0, 200))
    assert (found.complete, len(found.roots)) == (True, 64)
    assert rounded.call_count <= 2 * len(found.roots)


@each("size", [6, 10, 14, 18, 20])
@each(
    "text, order, b",
    [("x - 1/x", 2, 1), ("x - 2/x", 2, 2), ("x - 3/x", 2, 3), ("x*x - 1/x", 3, 1), ("x^2 - 7/x", 3, 7)],
)
def test_zeros_that_are_small_beside_the_box_have_all_digits(text: str, order: int, b: int, size: int) -> None:
    solved = ad.parse(f"1e{size}*{text}").solve(x=(0, 0.5))
    assert (solved.complete, len(solved.roots)) == (True, 1)
    with mp.workdps(40):
        wanted = mp.root(b / mpf(10) ** size, order)
    low, high = solved.roots[0].enclosure["x"]
    assert low <= wanted <= high <= low * (1 + 1e-15)


@each("text", ["cos(x) - 1 + d", "[y - x^2, y + cos(x) - 1 - d]", "[y - x^2, y - 3*x^2 + 2*d]"])
def test_two_zeros_that_nearly_meet_are_told_apart(text: str) -> None:
    for d in (1e-8, 1e-20):
        box = {name: (-1, 1.3) for name in "xy" if name in text}
        found = ad.parse(text.replace("d", repr(d))).solve(box)
        at = math.sqrt(2 * d) if "cos" in text else math.sqrt(d)
        assert [root.point["x"] for root in found.roots] == pytest.approx([-at, at], rel=1e-8)
        assert found.complete


@each(
    "text, kind",
    [
        ("x^2 + y^4 + x*y^2", "minimum"),
        ("-x^2*(1 + y^2) - y^4 + x*y^3", "maximum"),
        ("x^2 - y^4 + x*y^2", "degenerate"),
    ],
)
def test_points_with_a_singular_hessian_are_told_from_values_all_around(text: str, kind: str) -> None:
    """Which are compared in parts of the border, each as narrow as terms that cancel demand."""
    found = ad.parse(text).minimize(dict.fromkeys("xy", (-1, 2)))
    assert [(p.point, p.kind) for p in found.points if not p.on_edge] == [({"x": 0.0, "y": 0.0}, kind)]


@each(("text", "kind"), [("x^4 + y^4", "minimum"), ("-x^4 - 2*y^4", "maximum"), ("x^4 - y^4", "degenerate")])
def test_a_flat_point_is_an_optimum_if_the_whole_border_around_it_is_on_one_side(text: str, kind: str) -> None:
    found = ad.parse(text).minimize(dict.fromkeys("xy", (-1, 2)))
    assert [point.kind for point in found.points if not point.on_edge] == [kind]


def test_a_flat_minimum_is_told_from_its_surroundings_alone() -> None:
    """Farther away the function is lower."""
    found = ad.parse("(x - 1)^4*(1.3 - x) + (y - 1)^4*(1.3 - y)").minimize({"x": (0.2, 1.2), "y": (0.1, 1.1)})
    assert [(point.point, point.kind) for point in found.points] == [({"x": 1.0, "y": 1.0}, "minimum")]


@pytest.mark.slow
@each(
    "text, box, count, least",
    [
        ("abs(x - 1/3) + abs(y - 1/7) + abs(x - y) + x*y", {"x": (-2, 2), "y": (-2, 2)}, 3, 4 / 21 + 1 / 49),
        ("abs(x^2 + y^2 - 1) + abs(x - y)", {"x": (-2, 2), "y": (-2, 2.1)}, 7, 0),
        ("abs(sin(9*x)) + x/7", {"x": (-1, 1.2)}, 13, -2 * math.pi / 63),
    ],
)
def test_points_along_kinks(text: str, box: dict[str, tuple[float, float]], count: int, least: float) -> None:
    found = ad.parse(text).minimize(box)
    assert found.complete
    assert len(found.points) == count
    low, high = found.global_.value_enclosure
    assert low - 1e-14 <= least <= high + 1e-14


@each("text", ["1 - cos(x - 1)", "[exp(x - 1) - x, y - x]", "[x^2 + y^2 - 2, x*y - 1]"])
def test_a_double_zero_belongs_to_boxes_that_contain_it_only(text: str) -> None:
    f = ad.parse(text)
    for low, count in ((0.5, 1), (1 + 1e-12, 0)):
        found = f.solve(dict.fromkeys(f.variables, (low, 2)))
        assert (len(found.roots), found.complete) == (count, True)


def test_a_multiple_zero_with_a_coordinate_near_0_is_left_undecided() -> None:
    text = "[cos(y + x) == cos(0.75), (y*x*1.5^(1/3))^4 == (0*1.5^(1/3))^4]"
    found = ad.parse(text).solve(x=(-1, 1), y=(-1.35, 1.75))
    assert {(near.point["x"], near.point["y"]) for near in found.nearly} >= {(0, -0.75), (0, 0.75)}


def test_a_box_that_no_choice_between_branches_admits_is_left() -> None:
    found = ad.parse("min(lgamma(Ei(0.5 - x)), x)").minimize(x=(-3, 3), max_boxes=300)
    assert found.global_.value_enclosure[0] <= -3


@pytest.mark.slow
@each("text", ["1/x", "x*log(x)", "sqrt(x)"])
def test_the_global_minimum_is_not_claimed_beyond_poles_and_domains(text: str) -> None:
    found = ad.parse(text).minimize(x=(-1, 2))
    assert not found.complete
    low, _ = found.global_.value_enclosure
    f = ad.parse(text)
    samples = [f(x=-1 + 3 * k / 997) for k in range(998)]
    assert low <= min(x for x in samples if x == x) or low < -1e9


@pytest.mark.slow
@each(
    "text, low, high",
    [
        ("0.3*y*x + 0.3*exp(x/3) + sin(x) - 1.7*cos(2*x)", (0, -2), (2, 2)),
        ("-0.3*y*x + sqrt(x + 3) + 0.3*cos(2*x) + 0.3*y", (-2, -1), (1, 0.5)),
        ("2*y^4 - 2*y^3 + sin(y) + 0.3*x*y", (0, -1.5), (2, 1)),
        ("x*y + x", (0, -1), (1, 1)),
    ],
)
def test_no_value_in_the_box_is_beyond_the_global_optima(
    text: str, low: tuple[float, float], high: tuple[float, float]
) -> None:
    f = ad.parse(text)
    box = dict(zip("xy", zip(low, high, strict=True), strict=True))
    least, most = f.minimize(box), f.maximize(box)
    grid = [[a + (b - a) * k / 60 for k in range(61)] for a, b in box.values()]
    values = [f(x=x, y=y) for x in grid[0] for y in grid[1]]
    assert least.global_.value_enclosure[0] <= min(values) + 1e-12
    assert most.global_.value_enclosure[1] >= max(values) - 1e-12


@each(
    "text",
    [
        "where(x > 0, -1, x) + x + y^2",
        "floor(-x) + x - y^2",
        "x - heaviside(x) + y",
        "x - ceil(x)*(1 + y^2)",
        "where(x < 1, -x - 5, -x) + y*x",
        "relu(x) - x/2 + y^2",
        "relu(-y) + y/2 + abs(x) - x/2",
        "clip(x, 0, 1) - x/2 - y^2",
        "max(x, y) - x/2",
        "x + y^2",
        "x - y^2",
        "x*y - y^2 + 2*x",
    ],
    sampled=True,
)
@each("is_maximum", [False, True], sampled=True)
def test_points_and_bounds_are_what_samples_near_them_say(text: str, is_maximum: bool) -> None:
    """Also on edges with jumps and kinks, where a function has other slopes than beside them."""
    f, chance = ad.parse(text), random.Random(text)
    box = dict.fromkeys(f.variables, (0.0, 1.0))
    found = (f.maximize if is_maximum else f.minimize)(box, max_boxes=2000)
    for point in found.points:
        for step in (1e-3, 1e-5, 1e-7):
            near = [
                {name: min(max(x + step * chance.uniform(-1, 1), 0.0), 1.0) for name, x in point.point.items()}
                for _ in range(40)
            ]
            values = [f(place) for place in near]
            assert point.kind != "minimum" or min(values) >= point.value - 1e-15, (point, min(values))
            assert point.kind != "maximum" or max(values) <= point.value + 1e-15, (point, max(values))
    low, high = found.global_.value_enclosure
    samples = [f({name: chance.random() for name in box}) for _ in range(500)]
    assert high >= max(samples) if is_maximum else low <= min(samples)


@pytest.mark.slow
@each(
    "text, box, is_attained",
    [
        ("abs(x) + where(x > 0, -1, 0)", (-1, 4), False),
        ("where(x > 0, x, 5)", (0, 1), False),
        ("floor(x) - x", (0, 3), False),
        ("1/x", (-1, 1), False),
        ("exp(-1/x^2)", (-1, 1), False),
        ("where(x^2 > 2, 0, 1) + abs(x - sqrt(2))", (0, 4), False),
        ("-abs(x) + where(x > 0, 1, 0)", (-1, 4), True),
        ("x % 1", (0, 2), True),  # 0 at x = 0, while values near the jump at 1 are at least 0
        ("-x*log(x)", (0, 1), True),
        ("floor(x)", (-2.5, 3), True),
        ("exp(sign(x))", (-2.5, 3), True),
        ("where(x < 1, 0.1, 2)*round(y/3)", (-2.5, 3), True),
        ("exp(floor(1/x))", (-1, 1), False),
        ("x*(x - 1) + where(x > 3, 9, 0)", (-1, 4), True),
        ("x + y^2", (-1, 4), True),
        ("(x - y)^2", (-1, 4), True),
    ],
)
def test_an_infimum_is_called_a_minimum_if_it_is_proven_to_be_attained(
    text: str, box: tuple[float, float], is_attained: bool
) -> None:
    f = ad.parse(text)
    ranges = dict.fromkeys(f.variables, box)
    for found in (f.minimize(ranges), ad.parse(f"-({text})").maximize(ranges)):
        assert found.global_.attained is is_attained


@each("text, value", [("cosh(x)", 1.0), ("x^2 + y^2", 0.0), ("(x - 1)^2 + x*y", 0.0)])
def test_a_stationary_point_on_an_edge(text: str, value: float) -> None:
    f = ad.parse(text)
    found = f.minimize(dict.fromkeys(f.variables, (0, 1)))
    assert found.complete
    assert found.global_.value_enclosure == pytest.approx((value, value), abs=1e-15)


def test_a_face_where_the_slope_is_zero_everywhere_takes_few_boxes() -> None:
    found = ad.parse("sin(x)*cos(y)").minimize(x=(0, 6), y=(0, 6))
    assert found.complete
    assert found.boxes < 1000
    assert len(found.global_.points) == 2


@each(
    ("text", "box", "points"),
    [
        ("erf(100*x)", {"x": (-2, 2)}, 0),
        ("tanh(1e3*x)", {"x": (-2, 2)}, 0),
        ("softplus(x)", {"x": (-1e4, 10)}, 0),
        ("normal_pdf(x, 0, 0.01)", {"x": (-3, 3)}, 1),
        ("x^2*exp(-x)", {"x": (0, 2000)}, 2),
        ("exp(-x^2 - y^2)", {"x": (-50, 50), "y": (-50, 50)}, 1),
        ("min(1, max(0, x)) + 0*y", {"x": (-3, 3), "y": (0, 1)}, 0),
    ],
)
def test_plateaus_on_which_slopes_underflow_take_few_boxes(
    text: str, box: dict[str, tuple[float, float]], points: int
) -> None:
    """There no slope is proven to differ from 0, however small the boxes are; none is lost elsewhere."""
    found = ad.parse(text).minimize(box)
    assert found.boxes < 1000
    assert (len(found.points), found.complete, len(found.unresolved)) == (points, False, 1)


def test_poles_of_the_gamma_function_take_few_boxes() -> None:
    found = ad.parse("lgamma(x)").minimize(x=(-3, 3), max_boxes=2000)
    assert (found.boxes < 1500, len(found.points)) == (True, 4)


@each(
    "text, zeros",
    [
        ("(x - 1)*log(x - 2)", [3.0]),
        ("sin(x)*sqrt(x - 4)/(x - 9)", [4.0, 2 * math.pi]),
        ("(x + 2)*(x - 8)*log(6 - x)", [-2.0, 5.0]),
    ],
)
def test_the_zero_of_one_factor_is_none_where_another_is_undefined(text: str, zeros: list[float]) -> None:
    found = ad.parse(text).solve(x=(-5.5, 8.9))
    assert [root.point["x"] for root in found.roots if root.unique] == pytest.approx(zeros)
    undefined = {1.0, 8.0, math.pi} - {*zeros}
    assert not any(low <= x <= high for x in undefined for low, high in (root.enclosure["x"] for root in found.roots))


@each(
    "text, start, end",
    [
        ("cos(x)", {"x": 0.0}, {"x": math.pi}),
        ("x^4 - 18*x^2 + y^2", {"x": 0.0, "y": 0.0}, {"x": 3.0, "y": 0.0}),
        ("-exp(-x^2/100)*cos(y)", {"x": 0.0, "y": math.pi}, {"x": 0.0, "y": 0.0}),
    ],
)
def test_a_local_search_leaves_maxima_and_saddles_for_the_minimum_below(
    text: str, start: dict[str, float], end: dict[str, float]
) -> None:
    found = ad.parse(text).minimize(**start)
    assert 0 < found.boxes < 20
    (lowest,), (highest,) = found.points, ad.parse(f"-({text})").maximize(**start).points
    assert (lowest.kind, highest.kind) == ("minimum", "maximum")
    for each_end in (lowest, highest):
        assert {name: abs(x) % math.tau for name, x in each_end.point.items()} == pytest.approx(end)  # type: ignore[arg-type]


@each("text", ["x^3", "x^3 + y^2", "x*y^2 + x^3"])
def test_a_stationary_point_without_a_minimum_is_no_result_of_a_local_search(text: str) -> None:
    formula = ad.parse(text)
    assert formula.minimize(dict.fromkeys(formula.variables, 0.0)).points == []


@pytest.mark.slow
def test_a_local_search_ends_in_a_proven_minimum() -> None:
    found = ad.parse("(1 - x)^2 + 100*(y - x^2)^2").minimize(x=-1.2, y=1)
    assert [p.point for p in found.points] == [{"x": 1.0, "y": 1.0}]
    assert not found.complete
    assert found.global_ is None
    assert ad.parse("x + y").minimize(x=0, y=0).points == []


@each("equations", ["[x^2 - y^2, x^3 + 2*y^3]", "[x^2 - y^2 + x^3, 2*x*y + y^3]"])
def test_a_zero_of_a_system_is_proven_though_its_leading_forms_vanish_along_a_diagonal(equations: str) -> None:
    found = ad.parse(equations).solve(x=(-1, 1.2), y=(-1, 1.3))
    assert found.complete
    assert (found.roots[-1].point, found.roots[-1].unique) == ({"x": 0.0, "y": 0.0}, True)


@each("size", [1e-20, 1e20])
def test_a_local_search_finds_minima_of_any_size(size: float) -> None:
    assert [p.point["x"] for p in ad.parse(f"(x/{size} - 1)^2").minimize(x=0.9 * size).points] == [size]


def test_a_local_search_finds_a_minimum_at_a_kink() -> None:
    assert ad.parse("abs(x) + y^2").minimize(x=1, y=1).points[0].kind == "minimum"


@each(
    "text, values, message",
    [
        ("x + y", {"x": (0, 1)}, "no range or value for `y`"),
        ("x", {"x": (1, 0)}, "low < high"),
        ("x", {"x": (0, 0)}, "low < high"),
        ("x", {"x": (0, float("inf"))}, "finite"),
        ("[x, x - 1]", {"x": (0, 1)}, "2 equations for 1 unknown"),
        ("x + y", {"x": (0, 1), "y": (0, 1)}, "1 equation for 2 unknowns"),
        ("x", {"x": 1}, "no unknown"),
        ("x", {"z": (0, 1)}, "`z`"),
        ("x", {"x": "a"}, "finite number"),
    ],
)
def test_refusals(text: str, values: dict[str, object], message: str) -> None:
    with pytest.raises(ad.ExpressionError, match=message):
        ad.parse(text).solve(values)


def test_most_zeros_are_proven_in_floats_and_take_few_evaluations_in_balls(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate = BallFunction.__call__
    points: list[Any] = []

    def counted(self: BallFunction, point: Any) -> Any:
        points.append(point)
        return evaluate(self, point)

    monkeypatch.setattr(BallFunction, "__call__", counted)
    found = ad.parse("20 + x^2 - 10*cos(2*pi*x) + y^2 - 10*cos(2*pi*y)").minimize(x=(-1, 1.25), y=(-1, 1.25))
    assert found.complete
    assert len(points) <= 2.5 * len(found.points)


@pytest.mark.slow
@each("max_boxes", [20, 200, 20_000])
def test_a_maximum_is_the_minimum_of_the_negative_however_far_the_search_goes(max_boxes: int) -> None:
    text, box = "sin(5*x)*cos(3*y) + x/3 - abs(y - 1)/5", {"x": (-2, 2.1), "y": (-2, 2.2)}
    most = ad.parse(text).maximize(box, max_boxes=max_boxes)
    least = ad.parse(f"-({text})").minimize(box, max_boxes=max_boxes)
    assert most.global_ is not None
    assert least.global_ is not None
    assert most.global_.value_enclosure == tuple(-end for end in reversed(least.global_.value_enclosure))
    assert most.complete is least.complete is (not most.unresolved) is (max_boxes > 1000)
    x, y = np.meshgrid(np.linspace(-2, 2.1, 500), np.linspace(-2, 2.2, 500))
    best = float(np.max(np.sin(5 * x) * np.cos(3 * y) + x / 3 - abs(y - 1) / 5))
    assert most.global_.value_enclosure[0] < best + 1e-3
    assert most.global_.value_enclosure[1] >= best


def test_a_jump_hides_no_kink_elsewhere() -> None:
    found = ad.parse("floor(x/2)*3 + abs(x - 1)").minimize(x=(-3, 3))
    assert [point.point for point in found.points] == [{"x": 1.0}]
    (left,) = found.unresolved
    assert left["x"][0] < -2 < left["x"][1]
    assert not found.complete


def test_many_boxes_are_joined_within_the_cells_of_a_grid() -> None:
    """Of 16 cells along each coordinate; a coordinate without extent has one."""
    chance = np.random.default_rng(0)
    lower = np.column_stack((chance.uniform(-7.3, 24, 500), np.full(500, 3.0)))
    lower[:2, 0] = -7.3, 24
    upper = lower + np.array([1e-3, 0.0])
    found = _hulls_on_grid(lower, upper)
    assert len(found) == 16
    cells = np.floor((lower[:, 0] + 7.3) / (31.3 + 1e-3) * 16)
    wanted = [(lower[cells == cell].min(axis=0), upper[cells == cell].max(axis=0)) for cell in range(16)]
    for hull, other in zip(sorted(found, key=lambda hull: hull[0][0]), wanted, strict=True):
        np.testing.assert_array_equal(hull, other)


@each(
    "kind, text, ranges, points",
    [
        ("solve", "x^5 - 3*x^3 + x - 0.1", "--x -3..3", 5),
        ("solve", "[x^2 + y^2 - 4, x*y - 1]", "--x -3..3 --y -3..3", 4),
        ("solve", "1/x - 2", "--x -1..1", 1),
        ("minimize", "x^4 - 3*x^2 + x", "--x -2..2", 3),
        ("minimize", "abs(x) + abs(y - 1)/2", "--x -1..2 --y -1..3", 1),
        ("minimize", "(x^2 + y - 11)^2 + (x + y^2 - 7)^2", "--x -5..5 --y -5..5", 9),
        ("maximize", "x*y*(1 - x - y)", "--x 0..1 --y 0..1", 4),
    ],
)
def test_enclosures_hold_the_points_and_are_a_few_ulps_wide(kind: str, text: str, ranges: str, points: int) -> None:
    box = {name: tuple(map(float, ends.split(".."))) for name, ends in re.findall(r"--(\w) (\S+)", ranges)}
    found = getattr(ad.parse(text), kind)(box)
    places = found.roots if kind == "solve" else found.points
    assert len(places) == points
    for point in places:
        for name, (low, high) in point.enclosure.items():
            assert low <= point.point[name] <= high
            assert high - low <= 4 * math.ulp(max(abs(low), abs(high))) or point.point[name] == 0


@each(
    "text, start, steps, end",
    [
        ("(1 - x)^2 + 100*(y - x^2)^2", {"x": -1, "y": 2}, 32, (1, 1)),
        ("x^4 - 3*x^2 + x", {"x": 0}, 7, (-1.3008395659415772,)),
        ("x^2 - y^2 + y^4", {"x": 1, "y": 0}, 6, (0, math.sqrt(0.5))),
        ("(x^2 + y - 11)^2 + (x + y^2 - 7)^2", {"x": 0, "y": 0}, 10, (3, 2)),
        ("x^2 + y^2/1000 + x*y/50", {"x": 900, "y": -7000}, 11, (0, 0)),
        ("-exp(-x^2)", {"x": 1.5}, 7, (0,)),
        ("log(1 + x^2) + (y - x)^2", {"x": 40, "y": -3}, 12, (0, 0)),
    ],
)
def test_a_descent_takes_few_steps(text: str, start: dict[str, float], steps: int, end: tuple[float, ...]) -> None:
    """No more than were measured, but for rounding; each is within the radius, and steps that lead up are not taken."""
    taken: list[float] = []

    def counted(slope: Array, hessian: Array, radius: float) -> Array:
        step = trust_region_step(slope, hessian, radius)
        taken.append(radius)
        assert np.linalg.norm(step) <= radius * (1 + 1e-9)
        return step

    trust_region_step = solutions._trust_region_step
    with mock.patch.object(solutions, "_trust_region_step", counted):
        found = ad.parse(text).minimize(start)
    assert taken[0] == 1
    assert len(taken) <= steps + 1
    (point,) = found.points
    assert [*point.point.values()] == pytest.approx(end, abs=1e-12)
    assert point.kind == "minimum"


@given(st.integers(0, 10**9), st.integers(1, 4), st.floats(-3, 3))
def test_a_step_minimizes_the_model_within_its_radius(seed: int, size: int, log_radius: float) -> None:
    chance = np.random.default_rng(seed)
    matrix, slope, radius = chance.normal(size=(size, size)), chance.normal(size=size), 10.0**log_radius
    hessian = matrix + matrix.T
    step = solutions._trust_region_step(slope, hessian, radius)

    def model(at: Array) -> float:
        return float(slope @ at + at @ hessian @ at / 2)

    assert np.linalg.norm(step) <= radius * (1 + 1e-9)
    others = chance.normal(size=(200, size))
    others *= radius * chance.random((200, 1)) / np.linalg.norm(others, axis=1, keepdims=True)
    assert model(step) <= min(map(model, others)) + 1e-6 * (abs(model(step)) + radius)


@each("text", ["x", "-x", "x^3", "-x^3 - x", "x*(x + 1)", "-sin(x)", "abs(x)", "-x/(1 + x^2)"])
def test_a_zero_at_0_has_no_sign(text: str) -> None:
    found = ad.parse(text).solve(x=(-0.75, 0.5))
    (zero,) = [root.point["x"] for root in found.roots if root.point["x"] == 0]
    assert str(zero) == "0.0"
    if text == "x^3":
        (least,) = ad.parse("x^2").minimize(x=(-1, 1)).points
        assert [*map(str, (least.point["x"], least.value))] == ["0.0", "0.0"]
        (most,) = ad.parse("-x^2").maximize(x=(-1, 1)).points
        assert [*map(str, (most.point["x"], most.value))] == ["0.0", "0.0"]


def numbers_in(value: Any) -> Iterator[float]:
    """Yield all numbers in a record, also those that are written as texts."""
    if dataclasses.is_dataclass(value):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    for item in [*value.values()] if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from numbers_in(item)
    if isinstance(value, float) or (isinstance(value, str) and value.startswith("-0")):
        yield float(value)


@each(
    "text",
    ["min(x, 0)", "x*y", "x^2 + y^2", "-exp(-x^2 - 1000)", "exp(-x^2 - 1000)", "-exp(-1000*x)", "-abs(x)", "0*x"],
)
def test_no_number_of_a_solution_is_a_negative_zero(text: str) -> None:
    """Also not the end of an enclosure, of a box without a decision, or of an optimum that is too small for a float."""
    formula = ad.parse(text)
    box = {"x": (-1, 0) if "y" in text else (0, 2) if "1000*x" in text else (-1, 1), "y": (-1, 0)}
    box = {name: box[name] for name in formula.variables}
    searches = formula.solve, formula.minimize, formula.maximize
    for search in searches[len(box) - 1 :]:
        for precision in (None, 20):
            found = search(box, precision=precision, max_boxes=2000)
            assert not [x for x in numbers_in(found) if x == 0 and math.copysign(1, x) < 0], (search, precision)


@pytest.mark.parametrize("text", ["v: 2; norm(v) - 1", "dot(v, w) - 1"])
def test_arrays_are_refused(text: str) -> None:
    """Their shape would be ignored, and the zeros of another formula be proven."""
    formula = ad.parse(text)
    box = {name: (0, 1) if name == "v" else 1 for name in formula.variables}
    for search in (formula.solve, formula.minimize):
        with pytest.raises(ad.ExpressionError, match="`v` is an array; here, write its elements as numbers"):
            search(box)


@each("chosen", [(0, 1), (1, 2), (0, 1, 2)])
def test_factors_are_searched_one_by_one_within_one_limit(chosen: tuple[int, ...]) -> None:
    factors = [["sin(7*x)", "cos(9*x) - 0.1", "exp(x) - 2"][k] for k in chosen]
    product = ad.parse("*".join(f"({factor})" for factor in factors))
    alone = [ad.parse(factor).solve(x=(-3, 3.1)) for factor in factors]
    whole = product.solve(x=(-3, 3.1))
    assert whole.boxes == sum(found.boxes for found in alone)
    assert len(whole.roots) == sum(len(found.roots) for found in alone)
    for limit in (9, 20, 60):
        found = product.solve(x=(-3, 3.1), max_boxes=limit)
        assert found.boxes <= limit
        assert not found.complete


@each("text", ["x*sin(x)", "x^4 - x", "x*exp(-x)", "abs(x - 1)*cos(3*x)"])
@each("max_boxes", [1, 3, 10])
def test_bounds_of_a_search_that_ends_early_hold_the_optimum(text: str, max_boxes: int) -> None:
    f = ad.parse(text)
    values = f(x=np.linspace(-2, 3, 100_001))
    for search, optimum in ((f.minimize, values.min()), (f.maximize, values.max())):
        low, high = search(x=(-2, 3), max_boxes=max_boxes).global_.value_enclosure
        assert low - 1e-8 <= optimum <= high + 1e-8
