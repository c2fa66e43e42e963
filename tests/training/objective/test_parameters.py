"""Parameters as one vector, and what they begin with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from autodiff_cli import Objective
from autodiff_cli.language.arrays import LayerParameter
from autodiff_cli.language.program import read
from autodiff_cli.options import OptionError
from autodiff_cli.training.objective.parameters import (
    Bounds,
    Constraints,
    ParameterLayout,
    check_value,
    initial_arrays,
    mixture_shares,
    natural_bounds,
    parse_bounds,
    snap_to_zero,
)
from tests.each import each

LAYOUT = ParameterLayout(("a", "W", "v"), {"W": (2, 3), "v": (2,), "unused": (9,)})


def test_arrays_lie_in_the_vector_row_by_row_in_order() -> None:
    theta = np.arange(9.0)
    values = LAYOUT.values(theta)
    assert LAYOUT.size == 9
    assert values["a"] == 0.0
    assert isinstance(values["a"], float)
    assert values["W"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert values["v"].tolist() == [7, 8]
    assert LAYOUT.element_names == (
        "a",
        "W[0, 0]",
        "W[0, 1]",
        "W[0, 2]",
        "W[1, 0]",
        "W[1, 1]",
        "W[1, 2]",
        "v[0]",
        "v[1]",
    )
    np.testing.assert_array_equal(LAYOUT.flatten([*values.values()]), theta)
    assert LAYOUT.mask(["a", "v"]).tolist() == [True] + [False] * 6 + [True] * 2


def test_views_move_with_the_vector_and_values_do_not() -> None:
    theta = np.zeros(9)
    views, values = LAYOUT.views(theta), LAYOUT.values(theta)
    theta += 1
    assert views["W"].all()
    assert not values["W"].any()


def test_one_number_stands_for_a_whole_array() -> None:
    assert LAYOUT.flatten([1, 2, np.zeros(())]).tolist() == [1] + [2] * 6 + [0] * 2


@pytest.mark.parametrize(
    ("layer", "spread"),
    [
        (LayerParameter("weight", "relu"), math.sqrt(2 / 300)),
        (LayerParameter("weight", "gelu"), math.sqrt(2 / 300)),
        (LayerParameter("weight", "tanh"), math.sqrt(2 / 500)),
        (LayerParameter("weight", None), math.sqrt(2 / 500)),
        (None, math.sqrt(2 / 500)),
    ],
)
def test_first_weights_are_as_large_as_their_papers_say(layer: LayerParameter | None, spread: float) -> None:
    drawn = initial_arrays({"W": (200, 300)}, {"W": layer} if layer else {}, seed=1)["W"]
    assert drawn.std() == pytest.approx(spread, rel=0.02)
    assert abs(drawn.mean()) < spread / 50


def test_default_starts_are_1_for_numbers_and_0_for_biases_beside_user_values() -> None:
    columns = {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]}
    model = "y ~ a*mlp(x, [3], tanh)"
    plain = Objective(model, columns, seed=4)
    given = Objective(model, columns, seed=4, start={"mlp.0.weight": [[1], [2], [3]]}, fixed={"a": None})
    first, second = plain.point(plain.start), given.point(given.start)
    assert first["a"] == second["a"] == 1
    assert not first["mlp.0.bias"].any()
    assert second["mlp.0.weight"].tolist() == [[1], [2], [3]]
    np.testing.assert_array_equal(first["mlp.1.weight"], second["mlp.1.weight"])
    assert given.user_starts == {"mlp.0.weight"}
    assert "a" not in given.parameters


@each("value, message", [
    ("three", "neither a number nor an array of numbers"),
    ([1.0, math.nan, math.inf], "is nan; it must be finite"),
    (-math.inf, "is -inf; it must be finite"),
])  # fmt: skip
def test_values_that_are_no_finite_numbers_are_refused(value: Any, message: str) -> None:
    with pytest.raises(OptionError, match=f"the value of `a` .*{message}"):
        check_value("a", value)


def test_values_are_copied_and_vectors_of_another_size_refused() -> None:
    given = np.ones(3)
    taken = check_value("a", given)
    given += 1
    assert taken.tolist() == [1, 1, 1]
    assert (check_value("a", np.float32(2)), type(check_value("a", 2))) == (2.0, float)
    with pytest.raises(OptionError, match=r"theta has the shape \(8,\); the free parameters need \(9,\)"):
        LAYOUT.views(np.zeros(8))


BOX = Bounds(np.array([0.0, -math.inf, -9.0, -math.inf, 1e300]), np.array([1.0, 3.0, math.inf, math.inf, 1.5e300]))


@each("place", range(3))
def test_points_are_compared_with_bounds(place: int) -> None:
    """Below, on and above each bound."""
    inside = np.array([0.5, 0.0, 0.0, 0.0, 1.2e300])
    for end, beyond in ((BOX.low, -1.0), (BOX.high, 1.0)):
        if np.isinf(end[place]):
            continue
        for shift, is_inside in ((-beyond * 0.25, True), (0.0, True), (beyond * 0.25, False)):
            theta = inside.copy()
            theta[place] = end[place] + shift
            assert bool(BOX.contains(theta)) is is_inside
            assert BOX.contains(np.array([theta, inside])).tolist() == [is_inside, True]
            assert BOX.active(theta).tolist() == [k == place and shift * beyond >= 0 for k in range(5)]
            for slope in (-1.0, 0.0, 1.0):
                is_blocked = shift * beyond >= 0 and slope * beyond < 0
                assert BOX.free_mask(theta, np.full(5, slope))[place] == (not is_blocked)
            clipped = BOX.clip(theta)
            assert clipped[place] == (end[place] if shift * beyond > 0 else theta[place])
            moved = BOX.move_inside(theta)
            assert BOX.contains(moved)
            assert bool(moved[place] == theta[place]) is (shift * beyond < 0)


def test_points_are_moved_to_the_middle_or_near_the_only_bound() -> None:
    theta = np.array([2.0, 4.0, -30.0, 7.0, 0.0])
    assert BOX.move_inside(theta).tolist() == [0.5, 0.0, 0.0, 7.0, 1.25e300]
    narrow = Bounds(np.array([0.2, -math.inf]), np.array([math.inf, 0.1]))
    assert narrow.move_inside(np.array([0.1, 0.2])).tolist() == [1.2, -0.9]
    assert BOX.has_bounds
    assert Bounds(np.array([-math.inf]), np.array([5.0])).has_bounds
    fixed = BOX.with_fixed(2, 4.0)
    assert (fixed.low[2], fixed.high[2], BOX.low[2], BOX.high[2]) == (4, 4, -9, math.inf)
    several = Bounds(np.zeros((2, 1)), np.array([[1.0], [2.0]]))
    assert several.select(1).high.tolist() == [2]
    assert several.select(np.array([1, 1, 0])).high.tolist() == [[2], [2], [1]]
    assert BOX.select(1) is BOX
    assert BOX.active(np.full(5, np.nan)).tolist() == [False] * 5


SHARES = Constraints([(0, 1)], [(2, 3, 4)], (7.0,))


def test_orders_and_shares_are_met_up_to_rounding() -> None:
    met = np.array([1.0, 2.0, 0.2, 0.3, 0.4])
    assert SHARES.are_met(met)
    assert SHARES.are_met(met + np.array([0, -1, 0, 0, 0.1 + 1e-13]))
    assert not SHARES.are_met(met + np.array([0, -1.001, 0, 0, 0]))
    assert not SHARES.are_met(met + np.array([0, 0, 0, 0, 0.1 + 1e-11]))
    restored = SHARES.restore(np.array([3.0, 1.0, 0.2, 0.8, 1.0]))
    np.testing.assert_allclose(restored, [1, 3, 0.1, 0.4, 0.5])
    np.testing.assert_array_equal(SHARES.restore(met), met)


def test_constraints_are_solved_for_the_larger_parameter_and_the_largest_share() -> None:
    theta, bounds = np.array([1.0, 2.0, 0.2, 0.5, 0.3]), Bounds.unbounded(5)
    order, shares = SHARES.solved(theta, bounds)
    assert (order.position, order.others, order.positions) == (1, [0], [0, 1])
    assert order.value(np.array([1.5, 9, 0, 0, 0])) == 1.5
    assert (shares.position, shares.others, shares.positions) == (3, [2, 4], [2, 3, 4])
    assert shares.value(np.array([1.5, 9, 0.2, 0, 0.3])) == pytest.approx(0.5)
    # A fixed parameter is not solved for; if it is one of an order, the other one has a bound.
    [shares] = SHARES.solved(theta, bounds.with_fixed(3, 0.5).with_fixed(1, 2.0))
    assert (shares.position, shares.others) == (4, [2, 3])


@each("theta, positions", [
    ([1.0, 2.0, 0.2, 0.5, 0.2], []),
    ([2.0, 2.0, 0.2, 0.5, 0.2], [[0, 1]]),
    ([7.0, 7.0, 0.2, 0.5, 0.2], []),  # both are on a bound of the user
    ([1.0, 2.0, 0.2, 0.5, 0.3], [[2, 3, 4]]),
    ([1.0, 2.0, 0.0, 0.7, 0.3], [[3, 4]]),
    ([1.0, 2.0, 0.0, 1.0, 0.0], []),
    ([1.0, 2.0, 0.2, 0.5, 0.3 - 1e-13], [[2, 3, 4]]),
    ([1.0, 2.0, 0.2, 0.5, 0.3 - 1e-11], []),
])  # fmt: skip
def test_constraints_that_hold_with_equality(theta: list[float], positions: list[list[int]]) -> None:
    assert [each_of.positions for each_of in SHARES.active(np.array(theta))] == positions


@each("text, bounds", [
    ("log(s)", {"s": (0, math.inf)}),
    ("sqrt(s) + log(3 - r)", {"s": (0, math.inf), "r": (-math.inf, 3)}),
    ("log(s) + sqrt(2 - s)", {"s": (0, 2)}),
    ("exp(s) + abs(r) + 1/q", {}),
    ("log(w*f + (1 - w)*g)", {"w": (0, 1)}),
    ("log(v*f + w*g + (1 - v - w)*h)", {"v": (0, 1), "w": (0, 1)}),
    ("log(f/(1 - w))", {}),
    ("lgamma(s)*2", {}),
    ("normal_logpdf(x, m, s)", {"s": (0, math.inf)}),
])  # fmt: skip
def test_ranges_of_parameters_are_those_where_operations_are_defined(text: str, bounds: dict[str, Any]) -> None:
    names = [*"fghmqrsvw"]
    found = natural_bounds(read(text), names)
    assert {name: limits for name, limits in found.items() if name in "qrsvw"} == bounds
    fewer = natural_bounds(read(text), [name for name in names if name != "s"])
    assert "s" not in fewer


def test_mixtures_of_three_components_have_shares() -> None:
    for text, shares in (
        ("log(v*f + w*g + (1 - v - w)*h)", ((0, 1),)),
        ("log(w*f + (1 - w)*g)", ()),
        ("log(u*f + v*g + w*h + (1 - u - v - w)*k)", ((2, 0, 1),)),
    ):
        assert mixture_shares(read(text), ParameterLayout(("v", "w", "u"), {})) == shares
    assert mixture_shares(read("log(v*f + w*g + (1 - v - w)*h)"), ParameterLayout(("v",), {})) == ()


def test_parameters_that_shrank_to_a_thousandth_are_set_to_0() -> None:
    start = np.array([[1.0, 2.0]] * 4)
    theta = np.array([[0.9e-3, 1.0], [1.1e-3, 1.0], [-0.9e-3, 1.9e-3], [0.0, 1.0]])
    chosen, points, is_small = snap_to_zero(theta, start, Bounds.unbounded(2))
    assert chosen.tolist() == [True, False, True, False]
    assert points.tolist() == [[0, 1], [0, 0]]
    assert is_small.tolist() == [[True, False], [True, True]]
    chosen, _, _ = snap_to_zero(theta, start, Bounds(np.array([1e-9, -9.0]), np.array([9.0, 9.0])))
    assert not chosen.any()


@each("texts, message", [
    (["a=0:1", "a=2:3"], "the bounds of `a` are given twice"),
    (["a > 0", "a=:1", "a < 3"], "the bounds of `a` are given twice"),
    (["a=:x"], "a bound must be a number; write what depends on parameters into the model"),
    (["a=:[1, 2]"], "a bound must be a number, not an array"),
    (["a=1e400:"], "representable as a float"),
    (["a=(:1"], "bounds `a=\\(:1`: "),
    (["1 < 2"], "write bounds as NAME=LOW:HIGH"),
    (["a + b < 2"], "write bounds as NAME=LOW:HIGH"),
    (["a=3"], "write bounds as NAME=LOW:HIGH"),
])  # fmt: skip
def test_texts_that_are_no_bounds_are_refused_with_the_reason(texts: list[str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_bounds(texts)


def test_bounds_of_levels_and_orders_are_read() -> None:
    assert parse_bounds(["0 < a[north] < 2", "b[1]=:3"]) == {"a[north]": (0, 2), "b[1]": (-math.inf, 3)}
    assert parse_bounds(["a < b", "b < 3"]) == {"b": ("a", 3.0)}
