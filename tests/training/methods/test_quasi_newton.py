"""L-BFGS ends at minima, in any unit, from any start where the loss is defined, or says that it does not."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from autodiff_cli import Objective, fit
from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.training.methods import quasi_newton
from autodiff_cli.training.methods.gradient_descent import (
    CONVERGENCE,
    Outcome,
    RunawayDetector,
    StoppingRule,
    ignore_steps,
    report_single_fit,
)
from autodiff_cli.training.methods.quasi_newton import SETTINGS, _backtracking_factors, _Iterates, fit_smooth_loss
from autodiff_cli.training.objective.batch import ObjectiveBatch
from autodiff_cli.training.objective.parameters import Bounds
from autodiff_cli.training.optimizers import Epoch
from tests.each import each, examples

T = np.linspace(0, 5, 200)
LIKELIHOOD = "((y-a*exp(-b*t)-c)/s)^2/2+log(s)"


def decay(noise: float = 0.02) -> dict[str, Any]:
    return {"t": T, "y": 2.5 * np.exp(-1.3 * T) + 0.1 + np.random.default_rng(0).normal(0, noise, len(T))}


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e6])
@pytest.mark.parametrize(
    "start", [{}, {"a": 2.5, "b": 1.3, "c": 0.1, "s": 0.02}, {"s": 10}, {"a": 9, "b": 0.1, "s": 0.3}]
)
def test_the_likelihood_of_a_decay_with_its_noise(start: dict[str, float], unit: float) -> None:
    """Where `s` is negative the loss is not defined, and next to a good fit it is steep."""
    data = decay()
    squares = fit("y ~ a*exp(-b*t) + c", data)
    scaled = {
        name: value * (unit if name in "acs" else 1)
        for name, value in {"a": 1, "b": 1, "c": 1, "s": 1, **start}.items()
    }
    found = fit(LIKELIHOOD, {"t": T, "y": data["y"] * unit}, start=scaled)
    spread = np.sqrt(squares.rss / len(T))  # type: ignore[operator]
    assert found.converged
    expected = {name: value * (unit if name in "ac" else 1) for name, value in squares.parameters.items()}
    assert found.parameters == pytest.approx({**expected, "s": spread * unit}, rel=1e-8)
    assert found.loss == pytest.approx(0.5 + np.log(spread * unit), rel=1e-12)


@pytest.mark.parametrize("count", [499, 500])
def test_the_likelihood_of_a_laplace_distribution_has_a_corner(count: int) -> None:
    y = np.random.default_rng(0).laplace(3, 2, count)
    found = fit("log(s)+abs(y-m)/s", {"y": y})
    assert found.converged
    assert np.mean(np.abs(y - found.parameters["m"])) == pytest.approx(np.mean(np.abs(y - np.median(y))), rel=1e-9)
    assert found.parameters["s"] == pytest.approx(np.mean(np.abs(y - np.median(y))), rel=1e-7)


@pytest.mark.slow
@examples(20)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-8, 1.0, 1e5]))
def test_least_absolute_residuals_are_those_of_linear_programming(seed: int, unit: float) -> None:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(15, 2))
    y = unit * (x @ [2, -1] + 0.5 + generator.standard_cauchy(15))
    columns = np.column_stack((x, np.ones(15)))
    found = fit("y ~ a*x1 + b*x2 + c", {"x1": x[:, 0], "x2": x[:, 1], "y": y}, loss="mae")
    parts = np.hstack((columns, np.eye(15), -np.eye(15)))
    free = [(None, None)] * 3 + [(0, None)] * 30
    reference = linprog([0] * 3 + [1 / unit] * 30, A_eq=parts / unit, b_eq=y / unit, bounds=free)
    assert found.converged
    assert found.loss * 15 == pytest.approx(unit * reference.fun, rel=1e-6)


class Function:
    """A function and its derivatives by complex steps, for the method alone."""

    def __init__(self, value: Any, count: int) -> None:
        self.value, self.count = value, count

    def value_and_grad(self, theta: Any) -> tuple[float, Any]:
        slopes = [self.value(theta + 1e-100j * unit).imag / 1e-100 for unit in np.eye(self.count)]
        return float(self.value(theta + 0j).real), np.array(slopes)

    def without_kinks(self) -> None:
        """There are no kinks to smooth."""

    def curvature(self, theta: Any) -> Any:
        step = 1e-6 * np.maximum(np.abs(theta), 1)
        rows = [
            (self.value_and_grad(theta + h * unit)[1] - self.value_and_grad(theta - h * unit)[1]) / (2 * h)
            for h, unit in zip(step, np.eye(self.count), strict=True)
        ]
        return (np.array(rows) + np.array(rows).T) / 2


def lbfgs(function: Function, start: Any, on_epoch: Any, bounds: Bounds | None = None) -> Outcome:
    """Return the end of the fit of a function."""
    batch = ObjectiveBatch([function], bounds or Bounds.unbounded(len(start)))  # type: ignore[list-item]
    (outcome,) = fit_smooth_loss(batch, start[None], report_single_fit(on_epoch))
    assert isinstance(outcome, Outcome)
    return outcome


def rosenbrock(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@pytest.mark.parametrize("count", [2, 5, 10])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_a_curved_valley(count: int, scale: float) -> None:
    seen: list[Epoch] = []
    start = np.full(count, -1.2) * scale
    outcome = lbfgs(Function(lambda x: rosenbrock(x / scale), count), start, seen.append)
    assert outcome.converged
    assert [epoch.number for epoch in seen] == [*range(len(seen))]
    assert all(later.loss <= earlier.loss * (1 + 1e-9) for earlier, later in pairwise(seen))
    assert seen[-1].loss < 1e-12 or np.allclose(outcome.theta / scale, [-1, *[1] * (count - 1)], atol=0.05)


@examples(30)
@given(st.lists(st.floats(-2, 2), min_size=3, max_size=3), st.lists(st.floats(0.1, 2), min_size=3, max_size=3))
def test_in_a_box_against_scipy(low: list[float], widths: list[float]) -> None:
    bounds = Bounds(np.array(low), np.add(low, widths))
    function = Function(lambda x: rosenbrock(x) + np.sum((x - 0.3) ** 4), 3)
    start = (bounds.low + bounds.high) / 2
    seen: list[Epoch] = []
    outcome = lbfgs(function, start, seen.append, bounds=bounds)
    box, options = [*zip(bounds.low, bounds.high, strict=True)], {"ftol": 1e-15, "gtol": 1e-10}
    reference = minimize(function.value_and_grad, start, jac=True, method="L-BFGS-B", bounds=box, options=options)
    assert all(bounds.contains(epoch.theta) for epoch in seen)
    assert seen[-1].loss <= reference.fun + 1e-8 * max(1, abs(reference.fun))
    assert outcome.converged


def test_a_saddle_is_left() -> None:
    found = fit("(a^2 - 1)^2 + (b - 1)^2*x", {"x": [1.0, 1.0]}, start={"a": 0, "b": 1})
    assert found.converged
    assert abs(found.parameters["a"]) == pytest.approx(1)


def test_a_minimum_is_found_in_any_unit_of_the_loss_and_far_below_0() -> None:
    for unit in (1.0, 1e10):
        found = fit(f"({unit}*(a - x))^2 - 1e-7*{unit}^2", {"x": [1.0, 1.0]}, start={"a": 2.5}, optimizer="lbfgs")
        assert found.converged
        assert found.parameters["a"] == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
def test_a_top_is_no_minimum() -> None:
    found = fit("1/(1 + (a*x)^2)", {"x": [1.0, 2.0]}, start={"a": 0})
    assert not found.converged or abs(found.parameters["a"]) > 1e3


def test_the_edge_of_a_domain_is_no_minimum() -> None:
    found = fit("sqrt(a) + 0*x", {"x": [1.0]}, start={"a": 5})
    assert not found.converged
    assert "no minimum was found" in found.failure


@pytest.mark.parametrize("model", ["(y - a*x)^4", "cosh(y - a*x)", "exp(a*x) - y*a*x", "(y - exp(a)*x)^2"])
def test_other_smooth_losses_end_where_the_gradient_does(model: str) -> None:
    data = {"x": np.array([1.0, 2.0, 3.0]), "y": np.array([1.0, 2.5, 2.0])}
    found = fit(model, data)
    objective = Objective(model, data)
    theta = np.array([found.parameters["a"]])
    here, nearby = objective.value(theta), [objective.value(theta * factor) for factor in (0.999, 1.001)]
    assert found.converged
    assert here < min(nearby)
    assert abs(objective.value_and_grad(theta)[1][0]) < 1e-8


# --- Parts of the method, by their definitions


def iterates(
    functions: list[Function], start: Any, bounds: Bounds | None = None, unit: float | None = None, **stop: Any
) -> _Iterates:
    """Return the fits of some functions at their starts."""
    batch = ObjectiveBatch(functions, bounds or Bounds.unbounded(start.shape[1]))  # type: ignore[arg-type]
    return _Iterates(batch, start, ignore_steps, StoppingRule(**stop), unit)


def bowl(x: Any) -> Any:
    """A convex function without symmetries."""
    return np.sum((1 + np.arange(len(x))) * x**2) + np.exp(x[0] - x[1]) + x[1] ** 4 - x.sum()


@each("pairs", [0, 1, 2, 5])
@each("low", [-np.inf, 0.0])
def test_directions_are_those_of_the_bfgs_formula(pairs: int, low: float) -> None:
    """The memory of `pairs` steps stands for as many updates of an explicit inverse Hessian."""
    generator = np.random.default_rng(pairs)
    start, size = np.array([[0.5, 0.2, -0.7], [0.3, 0.0, 1.0]]), 3
    bounds = Bounds(np.array([-np.inf, low, -np.inf]), np.full(3, np.inf))
    run = iterates([Function(bowl, size), Function(lambda x: bowl(-x) + x[1], size)], start, bounds)
    every, diagonal = np.arange(2), generator.uniform(0.5, 2, (2, size))
    matrix = np.array([[3.0, 1, 0], [1, 2, 0.5], [0, 0.5, 1]])
    stored = generator.normal(size=(pairs, 2, size))
    for moves in stored:
        run._store(every, moves, moves @ matrix)
    found = run._directions(every, diagonal)
    for k in every:
        free = np.ones(size, bool)
        free[1] = not (start[k, 1] == low and run.gradient[k, 1] > 0)
        inverse = np.diag(1 / diagonal[k])
        for number, move in enumerate(np.where(free, stored[:, k], 0.0)):
            change = np.where(free, stored[number, k] @ matrix, 0.0)
            if number == 0:  # the newest pair sets the scale of the first matrix
                last, last_change = (np.where(free, v, 0.0) for v in (stored[-1, k], stored[-1, k] @ matrix))
                inverse *= last @ last_change / (last_change @ (last_change / diagonal[k]))
            unit, product = np.eye(size), move @ change
            left = unit - np.outer(move, change) / product
            inverse = left @ inverse @ left.T + np.outer(move, move) / product
        wanted = np.where(free, -inverse @ np.where(free, run.gradient[k], 0.0), 0.0)
        np.testing.assert_allclose(found[k], wanted, rtol=1e-9, atol=1e-12)


def test_pairs_along_which_the_gradient_does_not_rise_are_not_used() -> None:
    run, every = iterates([Function(bowl, 2)] * 2, np.array([[0.5, 0.2], [0.5, 0.2]])), np.arange(2)
    good = np.array([[0.1, 0.3], [0.1, 0.3]])
    run._store(every, good, 2 * good)
    run._store(every[1:], np.array([[1.0, 0.0]]), np.array([[-1.0, 0.5]]))
    with ignore_float_errors():
        found = run._directions(every, np.ones((2, 2)))
    alone = iterates([Function(bowl, 2)], run.theta[:1])
    alone._store(every[:1], good[:1], 2 * good[:1])
    np.testing.assert_allclose(found, alone._directions(every[:1], np.ones((1, 2))).repeat(2, axis=0), rtol=1e-12)


def test_the_memory_holds_the_last_pairs() -> None:
    run, count = iterates([Function(np.sum, 1)] * 2, np.ones((2, 1))), SETTINGS.memory + 3
    for k in range(count):
        run._store(np.array([1]), np.array([[k]]), np.array([[-k]]))
    assert run._moves[:, 1, 0].tolist() == [*range(3, count)]
    assert run._changes[:, 1, 0].tolist() == [-k for k in range(3, count)]
    assert run._is_stored.all(axis=0).tolist() == [False, True]
    assert not run._moves[:, 0].any()


@each("unit", [1e-6, 1.0, 1e6])
def test_first_diagonals_are_curvatures_and_their_median_where_there_are_none(unit: float) -> None:
    run = iterates(
        [
            Function(lambda x: (x[0] ** 2 - 3 * x[1] ** 2 + x[2] + x[3] ** 2 * 2) * unit, 4),
            Function(lambda x: 3 * x[0] + 4 * x[1], 4),
        ],
        np.ones((2, 4)),
    )
    found = run._initial_diagonals(np.arange(2))
    np.testing.assert_allclose(found[0] / unit, [2, 6, 4, 4], rtol=1e-4)
    np.testing.assert_allclose(found[1], 5, rtol=1e-9)


SLOPES: list[Any] = [
    lambda t: (t - 3) ** 2,
    lambda t: np.exp(t) - 5 * t,
    lambda t: -np.log(t + 1) + 0.1 * t,
    lambda t: (t - 0.01) ** 4 + 0.001 * (t - 0.01) ** 2,
    lambda t: np.sqrt(1 + 400 * (t - 20) ** 2),
    lambda t: 100 * np.maximum(0, t - 3.1) ** 2 - t,
]


@each("first", [1e-6, 0.01, 1.0, 100.0])
def test_a_line_search_ends_where_wolfes_conditions_hold(first: float) -> None:
    run = iterates([Function(lambda x, f=f: f(x[0]), 1) for f in SLOPES], np.zeros((len(SLOPES), 1)))
    loss, slope = run.loss.copy(), run.gradient[:, 0].copy()
    taken = run._line_search(np.arange(len(SLOPES)), -np.sign(run.gradient) * first)
    assert taken.all()
    for k, f in enumerate(SLOPES):
        end = run.theta[k, 0]
        after, slope_there = Function(lambda x, f=f: f(x[0]), 1).value_and_grad(np.array([end]))
        assert (run.loss[k], run.gradient[k, 0]) == (after, slope_there[0])
        assert after <= loss[k] + 1e-4 * slope[k] * end
        assert abs(slope_there[0]) <= abs(slope[k]) or slope_there[0] * slope[k] < 0
        assert slope_there[0] * np.sign(slope[k]) <= 0.9 * abs(slope[k])
    assert run.step_count.tolist() == [1] * len(SLOPES)


def test_a_line_search_stops_at_a_bound_and_not_without_a_descent() -> None:
    bounds = Bounds(np.array([-1.0]), np.array([0.5]))
    run = iterates([Function(lambda x: (x[0] - 3) ** 2, 1)] * 3, np.zeros((3, 1)), bounds)
    taken = run._line_search(np.arange(3), np.array([[1.0], [0.0], [-1.0]]))
    assert taken.tolist() == [True, False, False]
    assert run.theta.tolist() == [[0.5], [0], [0]]
    endless = iterates([Function(lambda x: -x[0], 1)], np.zeros((1, 1)))
    assert endless._line_search(np.arange(1), np.ones((1, 1))).tolist() == [False]
    assert endless.is_unbounded.tolist() == [True]


@each("loss, beyond", [(0.0, 5.0), (3.0, 4.0), (-1.0, 0.0), (2.0, 2.5)])
@each("slope", [-0.5, -1.0, -3.0])
def test_steps_back_go_to_the_minimum_of_a_parabola(loss: float, beyond: float, slope: float) -> None:
    curvature = beyond - loss - slope
    found = _backtracking_factors(np.array([loss, loss]), np.array([slope, slope]), np.array([beyond, np.nan]))
    assert found.tolist() == pytest.approx([min(max(-slope / (2 * curvature), 0.1), 0.5), 0.5])


@each("scales", [(1.0, 1.0), (1e-4, 1e3)])
@each("low", [-np.inf, 0.0])
def test_newton_steps_lead_to_the_minimum_of_a_quadratic_model(scales: Any, low: float) -> None:
    """With negative curvatures made positive; a parameter that presses on its bound stays."""
    scale = np.array([*scales, 1.0])
    hessian = np.array([[4.0, 1, 0], [1, 3, 0], [0, 0, 2]])
    signs = np.array([1.0, 1.0, -1.0])
    start, slope = np.array([[0.0, 0.0, 0.3]]) * scale, np.array([-1.0, 2.0, 0.5])

    def quadratic(x: Any, sign: Any) -> Any:
        u = x / scale
        return u @ slope + (u @ (hessian * sign) @ u) / 2

    bounds = Bounds(np.array([-np.inf, low, -np.inf]), np.full(3, np.inf))
    functions = [Function(lambda x: quadratic(x, 1.0), 3), Function(lambda x: quadratic(x, np.diag(signs)), 3)]
    run = iterates(functions, np.tile(start, (2, 1)), bounds)
    newton, every = run._newton_steps(np.arange(2)), np.arange(2)
    gradient = slope + hessian @ (start[0] / scale)
    free = [0, 2] if low == 0 else [0, 1, 2]  # the loss falls below the bound
    wanted = np.zeros(3)
    wanted[free] = np.linalg.solve(hessian[np.ix_(free, free)], -gradient[free])
    np.testing.assert_allclose(newton.step[0] / scale, wanted, rtol=1e-4, atol=1e-9)
    assert newton.gain[0] == pytest.approx(-gradient @ wanted / 2, rel=1e-4)
    assert newton.is_convex.tolist() == [True, False]
    assert newton.is_defined.all()
    assert not newton.has_flat_slope.any()
    assert newton.gradient_norm[0] > 0
    saddle = newton.descent_direction[1] / scale
    assert abs(saddle[2]) > 1e3 * np.abs(saddle[:2]).max()
    assert not run._is_minimum(every, newton).any()
    if low == 0:
        assert newton.step[:, 1].tolist() == [0, 0]


def test_a_slope_without_curvature_is_flat_and_an_undefined_curvature_is_no_minimum() -> None:
    run = iterates(
        [Function(lambda x: x[0] ** 2 + x[1], 2), Function(lambda x: x[0] ** 2 + x[1] ** 4, 2)], np.ones((2, 2))
    )
    run.gradient[1] = [0.0, 0.0]
    newton = run._newton_steps(np.arange(2))
    assert newton.has_flat_slope.tolist() == [True, False]
    assert run._is_minimum(np.arange(2), newton).tolist() == [False, True]
    run._batch.objectives[0].curvature = lambda theta: np.full((2, 2), np.nan)
    newton = run._newton_steps(np.arange(2))
    assert newton.is_defined.tolist() == [False, True]
    assert newton.has_flat_slope.tolist() == [True, False]
    assert (newton.step[0].tolist(), newton.gain[0]) == ([0, 0], np.inf)
    assert not newton.is_convex[0]


@each("loss, reference, unit, wanted", [
    (2.0, 3.0, None, 2.0), (-2.0, 3.0, None, 5.0), (0.5, 3.0, None, 2.5), (-2.0, 3.0, 1.0, 2.0), (0.1, 9.0, 1.0, 1.0),
    (0.1, 0.2, 1.0, 0.1), (1.5, 1.0, None, 1.5),
])  # fmt: skip
def test_decreases_are_judged_by_the_loss_or_its_fall(loss: float, reference: float, unit: Any, wanted: float) -> None:
    run = iterates([Function(bowl, 1 + 1)], np.zeros((1, 2)), unit=unit)
    run.loss[:], run._reference_loss[:] = loss, reference
    assert run.loss_scale(np.arange(1))[0] == pytest.approx(wanted)


def test_a_fit_without_a_minimum_says_why_it_ended() -> None:
    run = iterates([Function(bowl, 2)], np.ones((1, 2)))
    for flag, words in (
        (None, "no minimum was found: after 0 iterations the fit is on a slope or saddle that no step leaves"),
        (run.is_unbounded, "the loss has no minimum: it decreases without bound"),
        (run._runaways.is_found, RunawayDetector.REASON),
        (run.is_limited, "no convergence after 0 iterations"),
    ):
        if flag is not None:
            flag[:] = True
        (end,) = run.outcomes(np.ones((1, 2)))
        assert (end.converged, end.failure) == (False, words)
        assert (end.is_stuck, end.is_unbounded) == (flag is None, flag is run.is_unbounded)


def test_a_loss_that_fell_by_orders_of_magnitude_is_judged_anew() -> None:
    for unit, fall, is_reset in ((None, 1001.0, True), (None, 999.0, False), (1.0, 1e9, False)):
        run = iterates([Function(bowl, 2)], np.zeros((1, 2)), unit=unit)
        run.loss[:], run._reference_loss[:] = 2.0, 2.0 + 2 * fall
        assert run._reset_loss_scale(np.arange(1)).tolist() == [is_reset]
        assert run._reference_loss.tolist() == [2.0 if is_reset else 2.0 + 2 * fall]


@each("direction", [1.0, -1.0])
def test_a_saddle_is_left_to_the_side_that_bounds_allow(direction: float) -> None:
    function = Function(lambda x: x[0] ** 2 - x[1] ** 2 + 0.1 * x[1] ** 4, 2)
    bounds = Bounds(np.array([-9.0, -9.0 if direction < 0 else 0.0]), np.array([9.0, 0.0 if direction < 0 else 9.0]))
    run = iterates([function], np.zeros((1, 2)), bounds)
    run.gradient[:] = 0.0
    assert run._leave_saddles(np.arange(1), run._newton_steps(np.arange(1))).tolist() == [True]
    assert np.sign(run.theta[0, 1]) == direction
    assert run.loss[0] < 0


@each("start", [(1.0, 1.0, 1.0), (-1.2, 1.0, 0.5), (8.0, -3.0, 2.0)])
def test_the_valley_takes_few_evaluations(start: Any) -> None:
    """A loss of the method's efficiency would be seen here: half as many more evaluations are too many."""
    calls: list[int] = []

    class Counted(Function):
        def value_and_grad(self, theta: Any) -> tuple[float, Any]:
            calls.append(1)
            return super().value_and_grad(theta)

        def curvature(self, theta: Any) -> Any:
            return Function(self.value, self.count).curvature(theta)

    seen: list[Epoch] = []
    outcome = lbfgs(Counted(lambda x: rosenbrock(x) + np.sum((x - 1) ** 2), 3), np.array(start), seen.append)
    assert outcome.converged
    np.testing.assert_allclose(outcome.theta, 1, atol=1e-7)
    assert len(calls) <= 90


def test_fits_stop_after_their_epochs_and_say_so_only_where_nobody_asked() -> None:
    start = np.array([[-1.2, 1.0]])
    for stop, failure in ((StoppingRule(5), ""), (CONVERGENCE, "no convergence after")):
        run = iterates([Function(rosenbrock, 2)], start, epochs=stop.epochs)
        run._max_steps = 5
        run.run(is_near=False)
        (end,) = run.outcomes(start)
        assert run.step_count.tolist() == [5]
        assert not end.converged
        assert end.failure.startswith(failure)
        assert bool(end.failure) is bool(failure)
    none = iterates([Function(rosenbrock, 2)], start, epochs=0)
    none.run(is_near=False)
    assert none.theta.tolist() == start.tolist()
    assert not none.outcomes(start)[0].converged


@each("model, loss", [("y ~ a*exp(-b*x) + c", "logcosh"), ("exp(a + b*x) - y*(a + b*x) + (c - a)^2/2", None)])
def test_the_path_does_not_depend_on_the_units_of_parameters(model: str, loss: str | None) -> None:
    """The units are powers of 2, so that hardly a rounding error differs."""
    x, paths = np.linspace(0, 2, 12), []
    y = 3 * np.exp(-x) + 0.5 + 0.1 * np.cos(9 * x)
    for unit in (1.0, 2.0**12, 2.0**-14):
        objective = Objective(model, {"x": x * unit, "y": y}, loss=loss)
        seen: list[Epoch] = []
        start = np.array([[1.0, -0.5 / unit if loss is None else 0.5 / unit, 2.0]])
        (end,) = fit_smooth_loss(ObjectiveBatch([objective]), start, report_single_fit(seen.append))
        assert end.converged
        paths.append(np.array([[epoch.loss, *epoch.theta * [1, unit, 1]] for epoch in seen]))
    most = min(map(len, paths)) - 2  # rounding errors may decide whether there is one more step
    assert most >= max(map(len, paths)) - 4
    for path in paths[1:]:
        np.testing.assert_allclose(path[:most], paths[0][:most], rtol=1e-6, atol=1e-9)


class RecordingFunction(Function):
    """A function that remembers where it was evaluated, and the values there."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.found: list[tuple[float, float]] = []

    def value_and_grad(self, theta: Any) -> tuple[float, Any]:
        value, gradient = super().value_and_grad(theta)
        self.found.append((float(theta[0]), value))
        return value, gradient


@each("first, most", [(1e-3, 70), (1.0, 26), (100.0, 30)])
def test_a_line_search_takes_few_evaluations(first: float, most: int) -> None:
    """Steps double until they are too long, and are halved or interpolated from then on: between the longest of those
    that are too short and the shortest of those that are too long."""
    functions = [RecordingFunction(lambda x, f=f: f(x[0]), 1) for f in SLOPES]
    run = iterates(functions, np.zeros((len(SLOPES), 1)))
    slopes = run.gradient[:, 0].copy()
    run._line_search(np.arange(len(SLOPES)), -np.sign(run.gradient) * first)
    assert sum(len(function.found) for function in functions) <= most
    for function, slope in zip(functions, slopes, strict=True):
        (_, base), *tried = function.found
        near, far = 0.0, np.inf
        for at, value in tried:
            assert near < abs(at) < far
            is_low = value <= base + 1e-4 * slope * at
            near, far = (abs(at), far) if is_low else (near, abs(at))


@each("epochs", [1, 4, 9])
def test_losses_with_kinks_are_reported_as_they_are_and_not_as_they_are_smoothed(epochs: int) -> None:
    x, seen = np.arange(9.0), list[Epoch]()
    objective = Objective("y ~ a*x + b", {"x": x, "y": 1 + 2 * x + np.cos(9 * x)}, loss="mae")
    batch = ObjectiveBatch([objective])
    (end,) = fit_smooth_loss(batch, np.ones((1, 2)), report_single_fit(seen.append), StoppingRule(epochs))
    assert (end.converged, end.failure) == (False, "")
    assert [epoch.number for epoch in seen] == [*range(epochs + 1)]
    assert [epoch.loss for epoch in seen] == [objective.value(epoch.theta) for epoch in seen]
    assert end.theta.tolist() == seen[-1].theta.tolist()


def test_kinks_are_not_smoothed_if_there_are_too_many_parameters_for_a_hessian() -> None:
    """Each of the smoothed losses is minimised in turn, which costs many steps."""
    x = np.arange(9.0)
    batch, counts = ObjectiveBatch([Objective("y ~ a*x + b", {"x": x, "y": 1 + 2 * x + np.cos(9 * x)}, loss="mae")]), []
    for most in (2, 1):
        seen: list[Epoch] = []
        with mock.patch.object(quasi_newton, "MAX_HESSIAN_SIZE", most):
            fit_smooth_loss(batch, np.ones((1, 2)), report_single_fit(seen.append))
        counts.append(len(seen))
    assert counts[1] < counts[0]


@each("names", [2, 12])
def test_newtons_method_is_tried_after_fifty_steps_and_two_for_each_parameter(names: int) -> None:
    run = iterates(
        [Function(lambda x: np.sum(x**4) + 1e-3 * np.sum((x[1:] - x[:-1]) ** 2), names)], np.full((1, names), 9.0)
    )
    run._line_search = lambda fits, _: (run.step_count.__setitem__(fits, run.step_count[fits] + 1), fits >= 0)[1]
    with ignore_float_errors():
        assert run._descend(np.arange(1)).tolist() == [True]
    assert run.step_count.tolist() == [50 + 2 * names]
    again = iterates([Function(bowl, 2)], np.ones((1, 2)), tolerance=1e-3)
    assert again._descend(np.arange(1)).tolist() == [False]
    assert again.is_at_minimum.tolist() == [True]
    assert not again._is_refined


def test_a_polishing_step_halves_the_gradient_without_a_rise_of_the_loss() -> None:
    """A full Newton step from far away lowers neither; one from near 0 lowers both."""
    functions = [Function(lambda x: np.sqrt(1 + x[0] ** 2), 1)] * 2
    run = iterates(functions, np.array([[3.0], [0.3]]))
    taken = run._polish(np.arange(2), run._newton_steps(np.arange(2)))
    assert taken.tolist() == [False, True]
    assert run.theta[0, 0] == 3.0
    assert abs(run.theta[1, 0]) < 0.1


def test_steps_along_a_valley_do_not_lead_to_a_higher_minimum() -> None:
    """A full Newton step from 0 leads to the minimum at -1; in the first function a barrier and a rise are between."""

    def parabola(x: Any) -> Any:
        return 1e-3 * (x[0] + x[0] ** 2 / 2) - 5

    def higher(x: Any) -> Any:
        return parabola(x) - x[0] ** 5 / 5 - 0.45 * x[0] ** 4 - 0.8 * x[0] ** 3 / 3

    run = iterates([Function(higher, 1), Function(parabola, 1)], np.zeros((2, 1)))
    run._follow_valleys(np.arange(2))
    np.testing.assert_allclose(run.theta[:, 0], [0, -1], atol=1e-9)


@each("steepness", [1.0, 1e2, 1e4])
def test_a_saddle_is_left_by_a_step_that_is_short_enough(steepness: float) -> None:
    run = iterates([Function(lambda x: steepness * x[0] ** 4 - x[0] ** 2 / 2, 1)], np.zeros((1, 1)))
    assert run._leave_saddles(np.arange(1), run._newton_steps(np.arange(1))).tolist() == [True]
    assert run.loss[0] < 0


def test_a_small_parameter_that_matters_is_not_set_to_0() -> None:
    x = np.linspace(1, 4, 9)
    objective = Objective("y ~ a^2*x", {"x": x, "y": 1e-12 * x})
    (end,) = fit_smooth_loss(ObjectiveBatch([objective]), np.ones((1, 1)))
    assert end.theta == pytest.approx(1e-6)
