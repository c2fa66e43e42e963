"""L-BFGS ends at minima, in any unit, from any start where the loss is defined, or says that it does not."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from autodiff_cli import Objective, fit
from autodiff_cli.training.methods.gradient_descent import Outcome, report_single_fit
from autodiff_cli.training.methods.quasi_newton import fit_smooth_loss
from autodiff_cli.training.objective.batch import ObjectiveBatch
from autodiff_cli.training.objective.parameters import Bounds
from autodiff_cli.training.optimizers import Epoch
from tests.each import examples

T = np.linspace(0, 5, 200)
LIKELIHOOD = "((y-a*exp(-b*t)-c)/s)^2/2+log(s)"


def decay(noise: float = 0.02) -> dict[str, Any]:
    return {"t": T, "y": 2.5 * np.exp(-1.3 * T) + 0.1 + np.random.default_rng(0).normal(0, noise, len(T))}


@pytest.mark.sampled
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


@pytest.mark.sampled
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


@pytest.mark.slow
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


@pytest.mark.slow
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
