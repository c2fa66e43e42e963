"""Levenberg-Marquardt against SciPy's, with and without bounds, and at points where a model is not defined."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import least_squares, lsq_linear

from autodiff_cli import Objective, fit
from autodiff_cli.data.files import open_data
from autodiff_cli.training.methods.gradient_descent import Diverged, report_single_fit
from autodiff_cli.training.methods.least_squares import fit_least_squares
from autodiff_cli.training.objective.batch import ObjectiveBatch, repeat_objective
from autodiff_cli.training.objective.parameters import Bounds
from autodiff_cli.training.optimizers import Epoch
from tests.each import each, examples
from tests.support import SETS

MODELS = {
    "y ~ a*exp(-b*x) + c": lambda x, a, b, c: a * np.exp(-b * x) + c,
    "y ~ a*exp(-((x - b)/c)^2)": lambda x, a, b, c: a * np.exp(-(((x - b) / c) ** 2)),
    "y ~ a/(1 + b*exp(-c*x))": lambda x, a, b, c: a / (1 + b * np.exp(-c * x)),
}
X = np.linspace(0.1, 3, 40)


def solved(model: str, columns: dict[str, Any], start: Any, bounds: Bounds | None = None) -> tuple[Any, float]:
    objective, seen = Objective(model, columns), list[Epoch]()
    batch = ObjectiveBatch([objective], bounds or Bounds.unbounded(len(start)))
    (outcome,) = fit_least_squares(batch, np.array([start], dtype=float), report_single_fit(seen.append))
    if outcome.divergence is not None:
        raise outcome.divergence
    for epoch in seen:
        assert bounds is None or bounds.contains(epoch.theta)
    assert all(after.loss <= before.loss * (1 + 1e-12) for before, after in pairwise(seen))
    return outcome, objective.rss(outcome.theta)


@pytest.mark.sampled
@pytest.mark.parametrize("model", MODELS)
@examples(25)
@given(st.lists(st.floats(0.3, 3), min_size=3, max_size=3), st.lists(st.floats(0.5, 2), min_size=3, max_size=3))
def test_it_gets_at_least_as_far_as_minpack(model: str, truth: list[float], factors: list[float]) -> None:
    predict = MODELS[model]
    y = predict(X, *truth) + np.random.default_rng(0).normal(0, 0.01, len(X))
    start = np.multiply(truth, factors)
    reference = least_squares(lambda p: y - predict(X, *p), start, method="lm", x_scale="jac", xtol=1e-15, ftol=1e-15)
    assume(reference.success)
    outcome, rss = solved(model, {"x": X, "y": y}, start)
    assert rss <= 2 * reference.cost * (1 + 1e-6)
    assert outcome.converged


@examples(60)
@given(st.integers(0, 2**32 - 1), st.lists(st.sampled_from([-0.5, 0.0, 0.5, None]), min_size=4, max_size=4))
def test_linear_problems_in_a_box_against_scipy(seed: int, lows: list[float | None]) -> None:
    generator = np.random.default_rng(seed)
    matrix, y = generator.normal(size=(12, 4)) * [1, 1e3, 1e-4, 10], generator.normal(size=12)
    scale = np.array([1, 1e-3, 1e4, 0.1])
    low = np.array([-np.inf if value is None else value for value in lows]) * scale
    high = np.where(np.isfinite(low), low + 0.4 * scale, np.inf)
    reference = lsq_linear(matrix, y, (low, high), tol=1e-14, method="bvls")
    start = np.clip(np.zeros(4), low, high)
    columns = {**{f"x{k}": matrix[:, k] for k in range(4)}, "y": y}
    outcome, rss = solved("y ~ a*x0 + b*x1 + c*x2 + d*x3", columns, start, Bounds(low, high))
    assert outcome.converged
    assert rss == pytest.approx(2 * reference.cost, rel=1e-9)
    np.testing.assert_allclose(outcome.theta / scale, reference.x / scale, atol=1e-6)


def test_a_bound_that_binds_stops_no_other_parameter() -> None:
    y = MODELS["y ~ a*exp(-b*x) + c"](X, 2.5, 1.3, 0.4)
    box = Bounds(np.array([-np.inf, -np.inf, 0.5]), np.array([np.inf, 1.0, np.inf]))
    outcome, rss = solved("y ~ a*exp(-b*x) + c", {"x": X, "y": y}, [1, 0.5, 1], box)
    inner = least_squares(
        lambda p: y - p[0] * np.exp(-p[1] * X) - p[2], [1, 0.5, 1], bounds=(box.low, box.high), xtol=1e-15
    )
    assert outcome.converged
    assert rss <= 2 * inner.cost * (1 + 1e-9)
    assert outcome.theta[2] == 0.5 or outcome.theta[1] == 1.0


def test_steps_shrink_before_points_where_the_model_is_not_defined() -> None:
    y = np.sqrt(0.01 * X) + np.log(0.02 + X)
    outcome, rss = solved("y ~ sqrt(a*x) + log(b + x)", {"x": X, "y": y}, [9, 9])
    assert outcome.converged
    np.testing.assert_allclose(outcome.theta, [0.01, 0.02], rtol=1e-7)
    assert rss < 1e-20


def test_a_start_that_is_not_defined_diverges_at_once() -> None:
    with pytest.raises(Diverged, match="at the start"):
        solved("y ~ log(a*x)", {"x": X, "y": X}, [-1])


def test_residuals_whose_squares_overflow_are_as_if_infinite() -> None:
    with pytest.raises(Diverged, match="at the start"):
        solved("y ~ a*exp(b*x)", {"x": X, "y": X}, [1, 200])


def bent(x: Any, seed: int) -> Any:
    return 1 + 2 * np.maximum(x - 1.5, 0) + np.random.default_rng(seed).normal(0, 0.3, len(x))


@pytest.mark.parametrize("seed", range(6))
def test_ends_in_corners_are_minima(seed: int) -> None:
    y = bent(X, seed)
    outcome, rss = solved("y ~ a + c*relu(x - k)", {"x": X, "y": y}, [1, 1, 1])

    def least(k: float) -> float:
        columns = np.column_stack([np.ones_like(X), np.maximum(X - k, 0)])
        return float(np.sum((y - columns @ np.linalg.lstsq(columns, y)[0]) ** 2))

    near = [least(outcome.theta[2] + d) for d in (-1e-3, -1e-6, 0.0, 1e-6, 1e-3)]
    assert outcome.converged
    assert rss <= min(near) * (1 + 1e-9)


@each("unit", [1e-6, 1.0, 1e6])
def test_an_end_at_a_kink_is_reported(unit: float) -> None:
    x = np.linspace(0, 1, 16)
    y = np.where(x < 0.6, 0, 2 * (x - 0.6)) + 0.15 * np.random.default_rng(2).standard_normal(16)
    start = {"k": 0.5, "a": 0, "b": unit}
    found = fit("y ~ where(x < k, a, a + b*(x - k))", {"x": x, "y": unit * y}, start=start)
    assert found.converged
    assert found.parameters["k"] == pytest.approx(0.6, rel=1e-9)
    assert any(words.startswith("`k` ends at a kink of the loss") for words in found.warnings)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(4))
def test_no_small_step_lowers_the_loss_of_a_line_with_two_bends(seed: int) -> None:
    generator = np.random.default_rng(seed)
    x = np.sort(generator.uniform(0, 1, 16)).round(2)
    y = 2 * np.maximum(x - x[4], 0) - 3 * np.maximum(x - x[11], 0) + 0.1 * generator.standard_normal(16)
    start = {"k": generator.uniform(0.2, 0.5), "m": generator.uniform(0.5, 0.8)}
    model, data = "y ~ a*x + b*relu(x - k) + c*relu(x - m)", {"x": x, "y": y}
    found, objective = fit(model, data, start=start), Objective(model, data)
    theta = np.array([found.parameters[name] for name in objective.parameters])
    assert found.converged
    for index, distance in np.ndindex(5, 4):
        step = [1e-7, -1e-7, 1e-4, -1e-4][distance] * np.eye(5)[index]
        assert objective.value(theta + step) >= found.loss * (1 - 1e-12)


@pytest.mark.slow
def test_terms_that_grow_and_cancel_are_no_solution() -> None:
    x = np.arange(16) / 16
    data = {"x": x, "y": np.maximum(x - 0.375, 0) + 0.1 * np.sin(37 * x)}
    at = {"a": 0, "b": 1e10, "c": -1e10, "k": 0.5, "m": 0.5}
    found = fit("y ~ a*x + b*relu(x - k) + c*relu(x - m)", data, start=at)
    assert not (found.converged and abs(found.parameters["b"]) > 1e6)
    assert found.converged or "grow without bound" in found.warnings[-1]


def test_large_numbers_that_are_not_determined_may_belong_to_small_terms() -> None:
    x = 1e-12 * np.linspace(0, 1, 20)
    found = fit("y ~ (a + c)*x", {"x": x, "y": 1e12 * x + 0.1 * np.cos(9 * np.arange(20))})
    assert found.converged
    assert found.parameters["a"] + found.parameters["c"] == pytest.approx(1e12, rel=0.1)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("model", "y"),
    [
        ("y ~ a^2*x", -X + 0.1 * np.sin(7 * X)),
        ("y ~ a^2 + b*x", X - 1 + 0.1 * np.sin(7 * X)),
        ("y ~ sqrt(a^2 + (b*x)^2)", 0.98 * X - 0.05 + 0.01 * np.sin(7 * X)),
    ],
)
@pytest.mark.parametrize("optimizer", ["lm", "lbfgs"])
def test_what_a_model_is_even_in_may_end_at_0(model: str, y: Any, optimizer: str) -> None:
    found = fit(model, {"x": X, "y": y}, optimizer=optimizer)
    assert found.converged
    assert found.parameters["a"] == 0
    assert found.stderr["a"] is None
    assert found.stderr.get("b", 0.0) is not None


@pytest.mark.parametrize("seed", range(5))
def test_rounding_errors_at_the_end_cost_no_evaluations(seed: int) -> None:
    x = np.linspace(0, 3, 50)
    y = 2.5 * np.exp(-1.3 * x) + 0.02 * np.random.default_rng(seed).normal(size=50)
    objective, seen = Objective("y ~ a*exp(-b*x)", {"x": x, "y": y}), list[Epoch]()
    batch = CountingBatch([objective], objective.bounds)
    fit_least_squares(batch, np.ones((1, 2)), report_single_fit(seen.append))
    assert batch.evaluations <= len(seen) + 4  # polishing, and steps that are rejected


@pytest.mark.parametrize("start", [0, 1])
def test_large_residuals_take_few_evaluations_to_the_last_digits(start: int) -> None:
    problem = json.loads((SETS / "nist" / "problems.json").read_text())["Thurber"]
    data = open_data([str(SETS / "nist" / problem["data"])])
    objective = Objective(problem["model"], data, start=problem["starts"][start])
    batch = CountingBatch([objective], objective.bounds)
    (end,) = fit_least_squares(batch, objective.start[None])
    assert objective.layout.values(end.theta) == pytest.approx(problem["certified"]["parameters"], rel=1e-9)
    assert batch.evaluations <= 35  # steps that are not accelerated gain a third of the distance each: 75


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_fits_of_a_batch_have_the_bits_that_they_have_alone(noise: float) -> None:
    generator = np.random.default_rng(3)
    y = 2.5 * np.exp(-1.3 * X) + 0.5 + noise * generator.normal(size=len(X))
    objective = Objective("y ~ a*exp(-b*x) + c", {"x": X, "y": y})
    starts = np.array([[2.5, 1.3, 0.5], [2.5, 1.3, 0.6], [1, 1, 1], *generator.normal(0, 2, (3, 3))])
    batch = repeat_objective(objective, len(starts))
    for k, end in enumerate(fit_least_squares(batch, starts)):
        (alone,) = fit_least_squares(batch.take(np.array([k])), starts[k : k + 1])
        assert (end.theta.tobytes(), end.converged) == (alone.theta.tobytes(), alone.converged)


class CountingBatch(ObjectiveBatch):
    """A batch that counts how often its triangular factors are computed."""

    evaluations = 0

    def triangles(self, theta: Any, fits: Any) -> Any:
        self.evaluations += 1
        return super().triangles(theta, fits)


def test_a_fit_without_residuals_ends_soon() -> None:
    x = np.arange(40) / 7
    found = fit("y ~ a*sin(x) + b", {"x": x, "y": np.sin(x)})
    assert found.converged
    assert found.epochs < 10
    assert found.parameters == pytest.approx({"a": 1, "b": 0}, abs=1e-15)
