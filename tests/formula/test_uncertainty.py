"""Propagation of the uncertainty of inputs to the value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from autodiff_cli import ExpressionError, parse
from autodiff_cli.cli.inputs import split_uncertainties
from autodiff_cli.formula import uncertainty
from autodiff_cli.formula.array_derivatives import BatchedGradient
from autodiff_cli.formula.derivatives import hessian_by_name
from autodiff_cli.formula.uncertainty import (
    UNCORRELATED,
    Correlations,
    Moments,
    MonteCarlo,
    RowErrors,
    UncertainPoint,
    Uncertainty,
    check_error_columns,
)
from tests.each import each, examples
from tests.support import run_cli

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)
ERRORS = st.floats(1e-6, 1e6)


def propagate(
    text: str, point: dict[str, Any], errors: dict[str, Any], pairs: dict[Any, float] | None = None, draws: int = 0
) -> Uncertainty:
    """Return the uncertainty of a formula at a point."""
    formula = parse(text)
    uncertain = UncertainPoint(formula, point, errors, Correlations(pairs or {}))
    value, gradient = formula.value_and_grad(point)
    return uncertain.uncertainty(value, gradient, hessian_by_name(formula, point, errors), draws=draws)  # type: ignore[arg-type]


@given(st.lists(st.tuples(NUMBERS, ERRORS), min_size=1, max_size=4))
def test_of_a_linear_formula_both_orders_are_exact(pairs: list[tuple[float, float]]) -> None:
    names = [f"x{i}" for i in range(len(pairs))]
    text = " + ".join(f"({slope!r})*{name}" for name, (slope, _) in zip(names, pairs, strict=True))
    found = propagate(text, dict.fromkeys(names, 1.0), {f"x{i}": error for i, (_, error) in enumerate(pairs)})
    assert found.stderr == pytest.approx(math.hypot(*(slope * error for slope, error in pairs)))
    assert sum(found.shares.values()) == pytest.approx(1.0 if found.stderr else 0.0)
    assert found.second_order is not None
    assert found.second_order.stderr == pytest.approx(found.stderr)
    assert found.warning == ""


CORRELATION = st.floats(-1, 1)
COEFFICIENTS = st.lists(st.floats(-3, 3), min_size=5, max_size=5)


@examples(40)
@given(COEFFICIENTS, st.floats(0, 2), st.floats(0.01, 2), CORRELATION)
def test_the_second_order_has_the_moments_of_a_quadratic_formula(
    coefficients: list[float], sx: float, sy: float, rho: float
) -> None:
    a, b, c, d, e = coefficients
    found = propagate(
        f"({a!r})*x + ({b!r})*y + ({c!r})*x^2 + ({d!r})*x*y + ({e!r})*y^2",
        {"x": 0.0, "y": 0.0},
        {"x": sx, "y": sy},
        {("x", "y"): rho},
    )
    # Moments of normal numbers: E x^2 = sx^2, E x^4 = 3 sx^4, E x^2 y^2 = sx^2 sy^2 (1 + 2 rho^2), and so on.
    xx, xy, yy = sx * sx, rho * sx * sy, sy * sy
    mean = c * xx + d * xy + e * yy
    linear = a * a * xx + 2 * a * b * xy + b * b * yy
    quadratic = (
        2 * c * c * xx * xx
        + d * d * (xx * yy + xy * xy)
        + 2 * e * e * yy * yy
        + 4 * c * d * xx * xy
        + 4 * d * e * xy * yy
        + 4 * c * e * xy * xy
    )
    assert found.second_order is not None
    assert found.second_order.mean == pytest.approx(mean, abs=1e-9)
    assert found.stderr**2 == pytest.approx(linear, abs=1e-9)
    assert found.second_order.stderr**2 == pytest.approx(linear + quadratic, abs=1e-9)
    assert sum(found.shares.values()) == pytest.approx(1.0 if found.stderr else 0.0)
    assert "parabola" not in found.warning


def test_an_input_without_error_contributes_none_whatever_its_slope() -> None:
    found = propagate("sqrt(x) + y", {"x": 0.0, "y": 1.0}, {"x": 0.0, "y": 2.0})
    assert (found.stderr, found.shares) == (2.0, {"x": 0.0, "y": 1.0})
    assert found.second_order == (1.0, 2.0)
    assert propagate("3*x", {"x": 1.0}, {"x": 0.0}).shares == {"x": 0.0}


def test_perfectly_correlated_errors_cancel_exactly() -> None:
    found = propagate("x - y", {"x": 3.0, "y": 1.0}, {"x": 0.1, "y": 0.1}, {("x", "y"): 1.0})
    assert (found.stderr, found.shares) == (0.0, {"x": 0.0, "y": 0.0})


def test_errors_of_any_size_neither_overflow_nor_vanish() -> None:
    for size in (1e-200, 1e200):
        found = propagate("3*x + 4*y", {"x": 0.0, "y": 0.0}, {"x": size, "y": size})
        assert found.stderr == pytest.approx(5 * size, rel=1e-14)
        assert found.shares == pytest.approx({"x": 9 / 25, "y": 16 / 25})


def test_elements_of_arrays_may_be_correlated() -> None:
    point, pairs = {"v": np.array([1.0, 2.0])}, {("v[0]", "v[1]"): -0.5}
    found = propagate("sum(v*[3, 4])", point, {"v": np.array([0.1, 0.2])}, pairs)
    assert found.stderr == pytest.approx(math.sqrt(0.3**2 + 0.8**2 - 0.3 * 0.8))
    assert found.shares == pytest.approx({"v": 1.0})


# fmt: off
MISLEADING = [
    # What the second order sees, and what it does not: x^4 at 0, many periods, kinks, steps, edges of domains.
    ("x^2",      0.0,   0.1, "curvature"),
    ("exp(x)",   0.0,   1.0, "to second order"),
    ("x^4",      0.0,   0.1, "far from quadratic"),
    ("sin(x)",   0.0,  10.0, "far from quadratic"),
    ("abs(x)",   0.01,  0.1, "far from quadratic"),
    ("floor(x)", 2.5,   1.0, "far from quadratic"),
    ("log(x)",   1.0,   0.6, "not defined"),
    ("sqrt(x)",  0.0,   0.1, "not finite"),
    ("1e-200*x", 1.0, 1e-200, "too small for a float"),
]
# fmt: on


@each("text, x, error, words", MISLEADING)
def test_a_warning_says_that_the_first_order_misleads(text: str, x: float, error: float, words: str) -> None:
    for either in (text, f"-({text})"):
        assert words in propagate(either, {"x": x}, {"x": error}).warning


def test_a_linear_formula_that_overflows_nearby_is_still_linear() -> None:
    for text in ("x", "-x", "x/2 + x/2"):
        assert not propagate(text, {"x": 1e308}, {"x": 1e308}).warning


@each("text", ["x*y^2", "x*y*z + 1", "x + 20*x^2*y^2", "(x - y)^2*z", "y + max(x, z)*min(x, z)^2"])
def test_errors_that_act_only_together_are_not_missed(text: str) -> None:
    names = parse(text).variables
    assert "far from quadratic" in propagate(text, dict.fromkeys(names, 0.0), dict.fromkeys(names, 1.0)).warning


@each(
    "text, x",
    [
        ("x^2", 3.0),
        ("exp(x)", 0.0),
        ("abs(x)", 1.0),
        ("sin(x)", 1.0),
        ("x^3", 1.0),
        ("1e9 + x", 1.0),
        ("(x + 1e20) - 1e20", 1.0),
    ],
)
def test_small_errors_need_no_warning(text: str, x: float) -> None:
    assert propagate(text, {"x": x}, {"x": 0.05}).warning == ""


# fmt: off
REFEREED = [
    ("3*x + 1",  2.0,  0.1, "first order"),
    ("x^2",      0.0,  0.1, "second order"),
    ("x^4",      0.0,  0.1, "Monte Carlo"),
    ("1/x",      0.1,  0.1, "quantiles"),   # no variance exists
    ("log(x)",   1.0,  0.6, "quantiles"),   # not defined for some draws
    ("(x + 1e20) - 1e20",  1.0,  0.1, "second order"),  # floats lose the draws, not the derivatives
    ("sum((v + 1e20) - 1e20)",  np.ones(2),  0.1, "second order"),
]
# fmt: on


@each("text, x, error, recommended", REFEREED)
def test_random_draws_are_the_referee(text: str, x: Any, error: float, recommended: str) -> None:
    name = "v" if np.ndim(x) else "x"
    found = propagate(text, {name: x}, {name: error}, draws=20_000)
    assert (found.recommended, found.reason.lower().count("use ") == 1) == (recommended, True)


def test_random_draws_have_the_moments_and_quantiles_of_a_lognormal_number() -> None:
    found = propagate("exp(x + y)", {"x": 0.0, "y": 0.0}, {"x": 0.3, "y": 0.4}, {("x", "y"): 0.5}, 100_000).monte_carlo
    assert found is not None
    variance = 0.09 + 0.16 + 2 * 0.5 * 0.12
    assert found.mean == pytest.approx(math.exp(variance / 2), rel=0.01)
    assert found.stderr == pytest.approx(math.sqrt(math.expm1(variance) * math.exp(variance)), rel=0.03)
    for share, value in found.quantiles.items():
        assert value == pytest.approx(stats.lognorm.ppf(float(share), math.sqrt(variance)), rel=0.02)
    assert found.undefined == 0


def test_the_sampling_errors_of_random_draws_are_those_of_other_seeds() -> None:
    uncertain = UncertainPoint(parse("6*x + 3*y"), {"x": 1.0, "y": 1.0}, {"x": 0.3, "y": 0.8})
    found = [uncertain.simulate(400, seed) for seed in range(150)]
    assert np.mean([each.stderr for each in found]) == pytest.approx(3.0, rel=0.01)
    spread = np.std([each.stderr for each in found])
    assert np.mean([each.stderr_error for each in found]) == pytest.approx(spread, rel=0.2)
    assert spread == pytest.approx(3 / math.sqrt(2 * 400), rel=0.2)


@pytest.mark.parametrize("sign", [-1, 1])
def test_draws_agree_with_a_result_within_three_sampling_errors_and_half_of_what_misleads(sign: int) -> None:
    draws = MonteCarlo(10_000, 0, mean=5.0, stderr=2.0, stderr_error=0.015, quantiles={}, undefined=0, rounding=0.0)
    exact, far = Moments(5.0, 2.0), Moments(9.0, 2.0)
    half = uncertainty.MAX_DIFFERENCE / 2 * 2.0
    limits = Moments(half + 3 * 2.0 / math.sqrt(10_000), half + 3 * 0.015)
    for share, is_close in ((0.99, True), (1.01, False)):
        for moments in (
            exact._replace(mean=5.0 + sign * share * limits.mean),
            exact._replace(stderr=2.0 + sign * share * limits.stderr),
        ):
            assert uncertainty._recommend(moments, exact, draws)[0] == ("first order" if is_close else "second order")
            assert uncertainty._recommend(far, moments, draws)[0] == ("second order" if is_close else "Monte Carlo")


@pytest.mark.parametrize("error", [1e-10, 1e-9, 1e-8, 2e-8])
@pytest.mark.parametrize("text", ["x - y", "2*y - x", "abs(x - y + 1) + y"])
def test_an_error_below_the_spacing_of_floats_is_not_called_nonlinear(text: str, error: float) -> None:
    """Draws of such an input are rounded to a few floats; the slope is exact."""
    found = propagate(text, {"x": 1e8, "y": 1e8}, {"x": error}, draws=2000)
    assert (found.warning, found.recommended) == ("", "second order")
    assert found.reason == "Use the second-order result: rounding errors destroy the digits of the draws."
    assert found.stderr == pytest.approx(error, rel=1e-12)
    assert propagate("floor(x)", {"x": 1.0}, {"x": 0.5}).warning  # exact sums beside a step are not excused


def test_few_draws_agree_with_a_first_order_that_is_exact() -> None:
    formula = parse("2*x + y")
    point, errors = {"x": 1.0, "y": 1.0}, {"x": 0.3, "y": 0.8}
    hessian = hessian_by_name(formula, point, errors)
    found = [
        UncertainPoint(formula, point, errors).uncertainty(3.0, {"x": 2.0, "y": 1.0}, hessian, draws=150, seed=seed)  # type: ignore[arg-type]
        for seed in range(60)
    ]
    assert sum(each.recommended == "first order" for each in found) >= 58


def test_infinite_draws_count_among_the_quantiles_and_undefined_ones_do_not() -> None:
    """The quantile of an increasing function is the function of the quantile."""
    found = propagate("log(max(x, 0))", {"x": 0.5}, {"x": 1.0}, draws=20_000).monte_carlo
    half = propagate("log(x)", {"x": 0.5}, {"x": 1.0}, draws=20_000).monte_carlo
    assert found is not None
    assert half is not None
    negative = stats.norm.cdf(-0.5)
    for moved, undefined in ((found, 0.0), (half, negative)):
        assert moved.undefined == pytest.approx(20_000 * negative, rel=0.05)
        for share, value in moved.quantiles.items():
            x = 0.5 + stats.norm.ppf(undefined + (1 - undefined) * float(share))
            assert math.exp(value) == pytest.approx(max(x, 0.0), abs=0.02), share


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=6))
def test_correlations_are_accepted_if_their_matrix_is_positive_semidefinite(numbers: list[float]) -> None:
    names = [(a, b) for k, a in enumerate("abcd") for b in "abcd"[k + 1 :]]
    pairs = dict(zip(names, numbers, strict=True))
    matrix = np.eye(4)
    for (a, b), correlation in pairs.items():
        i, j = "abcd".index(a), "abcd".index(b)
        matrix[i, j] = matrix[j, i] = correlation
    smallest = np.linalg.eigvalsh(matrix)[0]
    if smallest > 1e-4:
        found = Correlations(pairs)
        assert found.factor @ found.factor.T == pytest.approx(matrix, abs=1e-9)
    elif smallest < -1e-4:
        with pytest.raises(ExpressionError, match="positive semidefinite"):
            Correlations(pairs)


@examples(20)
@given(st.lists(st.tuples(st.floats(-2, 2), st.floats(0, 1)), min_size=1, max_size=5), CORRELATION)
def test_rows_have_the_standard_errors_of_their_points(rows: list[tuple[float, float]], rho: float) -> None:
    formula, pairs = parse("x*y + sin(x) + sum(v*[x, 1])"), Correlations({("x", "v[1]"): rho})
    fixed = {"y": 3.0, "v": np.array([0.5, 2.0])}
    errors = RowErrors({"x": "sx"}, {"y": 0.2, "v": np.array([0.3, 0.1])}, pairs)
    columns = {name: np.array(column) for name, column in zip(("x", "sx"), zip(*rows, strict=True), strict=True)}
    found = BatchedGradient(formula, ["x"], fixed, ["x"], errors).evaluate(columns)[-2]
    for (x, sx), stderr in zip(rows, found, strict=True):
        point = {**fixed, "x": x}
        uncertain = UncertainPoint(formula, point, {"x": sx, **errors.fixed}, pairs)
        wanted = uncertain.uncertainty(formula(point), formula.grad(point), None).stderr  # type: ignore[arg-type]
        assert stderr == pytest.approx(wanted, rel=1e-12, abs=1e-12)


def test_a_row_without_error_has_none_although_its_slope_is_infinite() -> None:
    errors = RowErrors({"x": "s"}, {}, UNCORRELATED)
    gradients = BatchedGradient(parse("sqrt(x)"), ["x"], {}, ["x"], errors)
    assert gradients.evaluate({"x": np.zeros(2), "s": np.array([0.0, 1.0])})[-2].tolist() == [0, math.inf]


def test_rows_mislead_by_a_shift_of_the_mean_as_their_points_do() -> None:
    """Of six squares the shifts add up, while the standard error hardly grows."""
    names = "abcdgh"
    text = " + ".join(f"{name}^2" for name in names)
    for place, misleads in ((4.0, False), (2.0, True)):
        point = dict.fromkeys(names, place)
        assert bool(propagate(text, point, dict.fromkeys(names, 1.0)).warning) is misleads
        errors = RowErrors({"a": "s"}, dict.fromkeys("bcdgh", 1.0), UNCORRELATED)
        gradients = BatchedGradient(parse(text), ["a"], dict.fromkeys("bcdgh", place), ["a"], errors)
        assert [*map(bool, gradients.evaluate({"a": np.array([place]), "s": np.ones(1)})[-1])] == [misleads]


@examples(20)
@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0.01, 1)), min_size=1, max_size=5), CORRELATION)
def test_rows_are_said_to_mislead_like_their_points(rows: list[tuple[float, float]], rho: float) -> None:
    formula, pairs = parse("x*y + x^2 + y"), Correlations({("x", "y"): rho})
    columns = {name: np.array(column) for name, column in zip(("x", "sx"), zip(*rows, strict=True), strict=True)}
    errors = RowErrors({"x": "sx"}, {"y": 0.2}, pairs)
    found = BatchedGradient(formula, ["x"], {"y": 0.5}, ["x"], errors).evaluate(columns)[-1]
    for (x, sx), misleads in zip(rows, found, strict=True):
        one = propagate("x*y + x^2 + y", {"x": x, "y": 0.5}, {"x": sx, "y": 0.2}, pairs.pairs)
        first, second = one.stderr, one.second_order
        assert second is not None
        margins = second.stderr - 1.1 * first, abs(second.mean - formula(x=x, y=0.5)) - 0.5 * first
        assert max(margins) == pytest.approx(0, abs=1e-9) or bool(misleads) == (max(margins) > 0)


@each(
    "text, value, error",
    [
        ("2.05(12)", 2.05, 0.12),
        (".25(3)", 0.25, 0.03),
        ("7(2)", 7, 2),
        ("-1.5(21)e-3", -1.5e-3, 2.1e-3),
        ("12.(3)e2", 1200, 300),
        ("4+-5%", 4, 0.2),
        ("-4±5 %", -4, 0.2),
        ("1e3+-2", 1000, 2),
    ],
)
def test_values_with_errors_as_people_write_them(text: str, value: float, error: float) -> None:
    values, errors = split_uncertainties({"x": text, "y": "log2(8)*atan2(1, 2)/(3)"})
    assert (parse(values["x"]).value(), parse(errors["x"]).value()) == pytest.approx((value, error), rel=1e-12)
    assert [*errors] == ["x"]


@each("error", [-0.1, math.inf, math.nan])
def test_errors_in_columns_are_finite_and_not_negative(error: float) -> None:
    check_error_columns({"s": np.array([0.0, 2.0, 1e300])}, ["s"], 5)
    with pytest.raises(ExpressionError, match="row 7: the error in column `s`"):
        check_error_columns({"s": np.array([0.0, 2.0, error, -1.0])}, ["s"], 5)


def test_an_uncertainty_does_not_depend_on_what_was_computed_before() -> None:
    """Comparisons are recorded over several runs, of which each formula has its own."""
    texts = {"x + (x > 0)": ["x"], "x^2 + (y != 0.5) + 0*z": ["x", "y", "z"], "x*y + (x > 0)": ["x", "y"]}
    found = [
        propagate(text, dict.fromkeys(names, 2.0), dict.fromkeys(names, 0.1)).stderr for text, names in texts.items()
    ]
    assert found == pytest.approx([0.1, 0.4, 0.2 * math.sqrt(2)])


def test_correct_digits_may_have_exponents_of_any_length() -> None:
    output = run_cli(["grad", "exp(-x^2)", "--x", "1e200+-1"])
    assert output.status == 0
    assert "too small for a float" in output


@pytest.mark.parametrize("draws", [1, 24, 25, 101])
def test_draws_in_blocks_are_those_of_one_block(draws: int, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments: Any = ("x*y + y^2", {"x": 1.0, "y": 2.0}, {"x": 0.3, "y": 0.4}, {("x", "y"): 0.5})
    whole = propagate(*arguments, draws).monte_carlo
    monkeypatch.setattr(uncertainty, "_BLOCK_NUMBERS", 16)
    assert propagate(*arguments, draws).monte_carlo == whole


@pytest.mark.parametrize(
    ("error", "shape", "words"),
    [
        (-0.1, (), "not -0.1"),
        (math.inf, (), "not inf"),
        (math.nan, (), "not nan"),
        ([0.1, -0.2], (2,), "not [ 0.1, -0.2]"),
        ([0.1, 0.2, 0.3], (2,), "not [0.1, 0.2, 0.3]"),
        (np.full(9, -1.0), (9,), "not [-1., -1., -1., ..., -1., -1., -1.]"),
        (0.0, (), ""),
        (0.1, (2,), ""),
        ([0.0, 0.2], (2,), ""),
    ],
)
def test_errors_that_are_none_are_refused(error: Any, shape: tuple[int, ...], words: str) -> None:
    if not words:
        uncertainty.check_errors("x", error, shape)
        return
    with pytest.raises(ExpressionError) as caught:
        uncertainty.check_errors("x", error, shape)
    assert words in str(caught.value)
    assert "the error of `x` must be 0 or positive, or an array of such errors" in str(caught.value)


@each("first, second", [(1.0, 1 + 1.01 * uncertainty.MAX_DIFFERENCE), (1 + 1.01 * uncertainty.MAX_DIFFERENCE, 1.0)])
def test_standard_errors_that_differ_by_more_than_a_share_of_the_smaller_are_compared(
    first: float, second: float
) -> None:
    moments = (Moments(0.0, first), Moments(0.0, second))
    assert uncertainty._compare_orders(*moments).startswith("the standard error is ")
    close = (Moments(0.0, 1.0), Moments(0.0, 1 + 0.99 * uncertainty.MAX_DIFFERENCE))
    assert uncertainty._compare_orders(*close) == ""
