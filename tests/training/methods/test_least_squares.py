"""Levenberg-Marquardt against SciPy's, with and without bounds, and at points where a model is not defined."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import least_squares, lsq_linear

from autodiff_cli import Objective, fit
from autodiff_cli.data.files import open_data
from autodiff_cli.training.fitting import minimization
from autodiff_cli.training.methods.gradient_descent import (
    CONVERGENCE,
    Diverged,
    StoppingRule,
    ignore_steps,
    report_single_fit,
)
from autodiff_cli.training.methods.least_squares import (
    _bounded_steps,
    _extrapolated,
    _find_damping,
    _gauss_newton_steps,
    _LevenbergMarquardt,
    _trust_region_steps,
    _update_regions,
    fit_least_squares,
    norms,
)
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


@each("unit", [1e-6, 1.0, 1e6], quick=lambda unit: unit < 1)
def test_an_end_at_a_kink_is_reported(unit: float) -> None:
    x = np.linspace(0, 1, 16)
    y = np.where(x < 0.6, 0, 2 * (x - 0.6)) + 0.15 * np.random.default_rng(2).standard_normal(16)
    start = {"k": 0.5, "a": 0, "b": unit}
    found = fit("y ~ where(x < k, a, a + b*(x - k))", {"x": x, "y": unit * y}, start=start)
    assert found.converged
    assert found.parameters["k"] == pytest.approx(0.6, rel=1e-9)
    assert any(words.startswith("`k` ends at a kink of the loss") for words in found.warnings)


@each(("mirror", "shift"), [(1, 0), (-1, 0), (1, -20), (-1, 20)])
@each("seed", [1, 9])
def test_at_a_kink_standard_errors_are_those_of_the_flatter_side(seed: int, mirror: int, shift: float) -> None:
    x = np.linspace(-3, 3, 12)
    y = 1 + 2 * np.maximum(x - x[5 + seed % 3], 0) + 0.6 * np.random.default_rng(seed).normal(size=12)
    columns = {"x": mirror * x + shift, "y": y}
    start = {"a": 1, "b": 2, "c": columns["x"][6] + 0.01}
    found = fit(f"y ~ a + b*relu({'x - c' if mirror > 0 else 'c - x'})", columns, start=start)
    end = x[np.argmin(np.abs(columns["x"] - found.parameters["c"]))]
    assert found.parameters["c"] == pytest.approx(mirror * end + shift, rel=1e-9)
    bend = np.maximum(x - end, 0)
    design = np.stack([np.ones(12), bend], axis=1)
    (a, b), (rss,) = np.linalg.lstsq(design, y, rcond=None)[:2]
    slopes = [-b * side for side in (x > end + 1e-9, x > end - 1e-9)]
    flatter = min(slopes, key=lambda slope: abs(slope @ (y - a - b * bend)))
    errors = np.sqrt(rss / 9 * np.diag(np.linalg.inv((full := np.column_stack([design, flatter])).T @ full)))
    assert [*found.stderr.values()] == pytest.approx(errors, rel=1e-6)


@each("step", ["x > k", "x >= k", "k < x"])
@each("origin", [0, 1900, -300])
def test_standard_errors_of_levels_are_those_at_a_known_jump_also_if_it_is_at_a_row(step: str, origin: float) -> None:
    x = np.arange(20) / 3 + origin
    y = 1 + 2 * (x > origin + 4) + 0.1 * np.random.default_rng(2).normal(size=20)
    found = fit(f"y ~ a + where({step}, b, 0)", {"x": x, "y": y})
    k = found.parameters["k"]
    design = np.column_stack([np.ones(20), x >= k if "=" in step else x > k])
    rss = np.linalg.lstsq(design, y, rcond=None)[1][0]
    errors = np.sqrt(rss / found.dof * np.diag(np.linalg.inv(design.T @ design)))
    assert [found.stderr["a"], found.stderr["b"]] == pytest.approx(errors, rel=1e-6)
    assert found.dof == 18
    assert not any("kink" in warning for warning in found.warnings)


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
    objective = Objective("y ~ a*exp(-b*x)", {"x": x, "y": y})
    for stop, others in ((CONVERGENCE, 4), (StoppingRule(60), 2)):  # polishing, and steps that are rejected
        batch, seen = CountingBatch([objective], objective.bounds), list[Epoch]()
        fit_least_squares(batch, np.ones((1, 2)), report_single_fit(seen.append), stop)
        assert batch.evaluations <= len(seen) + others


# Steps that are not accelerated gain a third of the distance each in the first problem: 75. In the second one, a bent
# valley takes 457 steps if the linear parameters are not eliminated.
@each("name, start, most", [("Thurber", 0, 35), ("Thurber", 1, 35), ("MGH17", 0, 120)])
def test_large_residuals_and_bent_valleys_take_few_evaluations_to_the_last_digits(
    name: str, start: int, most: int
) -> None:
    problem = json.loads((SETS / "nist" / "problems.json").read_text())[name]
    data = open_data([str(SETS / "nist" / problem["data"])])
    objective = Objective(problem["model"], data, start=problem["starts"][start])
    batch = CountingBatch([objective], objective.bounds)
    (end,) = fit_least_squares(batch, objective.start[None])
    assert end.converged
    assert objective.layout.values(end.theta) == pytest.approx(problem["certified"]["parameters"], rel=1e-9)
    assert batch.evaluations <= most


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


# The parameters of MODELS: good ones, and the powers of the units of y and of x that each has.
UNITS = {
    "y ~ a*exp(-b*x) + c": ([2.5, 1.3, 0.4], [(1, 0), (0, -1), (1, 0)]),
    "y ~ a*exp(-((x - b)/c)^2)": ([2.0, 1.5, 0.7], [(1, 0), (0, 1), (0, 1)]),
    "y ~ a/(1 + b*exp(-c*x))": ([2.0, 9.0, 2.0], [(1, 0), (0, 0), (0, -1)]),
}


@each("model", [*MODELS])
@each("noise", [0.05, 1.0, 3.0])
def test_a_fit_takes_the_same_work_to_the_same_end_in_any_units(model: str, noise: float) -> None:
    """Nothing is compared with a number of another unit, also where residuals are large and the end is polished long.
    The units are powers of 2, so that hardly a rounding error differs.
    """
    truth, powers = UNITS[model]
    for seed in range(3):
        chance, ends = np.random.default_rng(seed), []
        y, first = MODELS[model](X, *truth) + noise * chance.normal(size=len(X)), truth * chance.uniform(0.5, 2, 3)
        for unit, width in ((1.0, 1.0), (2.0**20, 2.0**-15), (2.0**-20, 2.0**9)):
            batch = CountingBatch([Objective(model, {"x": width * X, "y": unit * y})])
            scale, seen = np.array([unit**p * width**q for p, q in powers]), list[Epoch]()
            (end,) = fit_least_squares(batch, [first] * scale, report_single_fit(seen.append))
            ends.append((batch.evaluations, len(seen), end.converged, *(end.theta / scale).round(8)))
        assert ends == [ends[0]] * 3, seed


@each("start", [(1.0, 0.5, 0.9), (2.0, 2.5, -1.0), (0.1, 1.0, 0.5)])
def test_a_fit_below_upper_bounds_is_the_mirror_image_of_one_above_lower_bounds(start: tuple[float, ...]) -> None:
    y, ends = 2.5 * np.exp(-1.3 * X) + 0.4 + 0.05 * np.cos(9 * X), []
    low, high = np.array([-np.inf, 0.2, -3.0]), np.array([2.2, 4.0, 1.0])
    for sign, model in ((1, "y ~ a*exp(-b*x) + c"), (-1, "y ~ -a*exp(b*x) - c")):
        seen = list[Epoch]()
        box = Bounds(*np.sort([sign * low, sign * high], axis=0))
        batch = CountingBatch([Objective(model, {"x": X, "y": y})], box)
        fit_least_squares(batch, sign * np.array([start]), report_single_fit(seen.append))
        ends.append([batch.evaluations, *(sign * epoch.theta for epoch in seen)])
    assert ends[0][0] == ends[1][0]
    np.testing.assert_allclose(ends[0][1:], ends[1][1:], rtol=1e-6)


@each("is_limited", [False, True])
def test_the_path_does_not_depend_on_units(is_limited: bool) -> None:
    """The units are powers of 2, so that hardly a rounding error differs."""
    paths, evaluations = [], []
    stop = StoppingRule(60, 1e-9) if is_limited else CONVERGENCE
    y = 2.5 * np.exp(-1.3 * X) + 0.4 + 0.05 * np.cos(9 * X)
    for unit, width in ((1.0, 1.0), (2.0**20, 2.0**-15), (2.0**-20, 2.0**9)):
        objective, seen = Objective("y ~ a*exp(-b*x) + c", {"x": width * X, "y": unit * y}), list[Epoch]()
        batch, scale = CountingBatch([objective]), np.array([unit, 1 / width, unit])
        start = np.array([[9.0, 7.0, -3.0]]) * scale
        (end,) = fit_least_squares(batch, start, report_single_fit(seen.append), stop)
        assert end.converged
        paths.append(np.array([[epoch.number, epoch.loss / unit**2, *epoch.theta / scale] for epoch in seen]))
        evaluations.append(batch.evaluations)
    for path in paths[1:]:
        np.testing.assert_allclose(path, paths[0], rtol=1e-6)
    assert evaluations == [evaluations[0]] * 3
    assert evaluations[0] < len(paths[0]) + 4
    assert paths[0][:, 0].tolist() == [*range(len(paths[0]))]


@each("cosine, is_stuck", [(2e-3, True), (0.5e-3, False)])
@each("unit", [1e-3, 1.0, 1e3])
def test_an_end_is_stuck_if_residuals_lean_on_a_column(cosine: float, is_stuck: bool, unit: float) -> None:
    """The angle between residuals and the column counts, in any unit."""
    x, other = np.array([1.0, 2.0, 3.0, 4.0]), np.array([3.0, -1.0, 1.0, -1.0])  # orthogonal
    other -= x * (x @ other) / (x @ x)
    residuals = other / np.linalg.norm(other) + cosine * x / np.linalg.norm(x)
    objective = Objective("y ~ a*x*u + b", {"x": x, "u": np.full(4, unit), "y": residuals * unit}, fixed={"b": 0})
    method = _LevenbergMarquardt(
        ObjectiveBatch([objective]), np.zeros((1, 1)), ignore_steps, StoppingRule(tolerance=1e-15)
    )
    assert method.is_stuck().tolist() == [is_stuck]
    exact = Objective("y ~ a*x + b", {"x": x, "y": 2 * x}, fixed={"b": 0})
    for theta, is_exact in ((2 * (1 + 2.0**-52), True), (2 * (1 + 1e-6), False)):  # rounding errors lean anywhere
        method = _LevenbergMarquardt(
            ObjectiveBatch([exact]), np.array([[theta]]), ignore_steps, StoppingRule(tolerance=1e-15)
        )
        assert method.is_stuck().tolist() == [not is_exact]


def test_the_end_of_a_fit_says_why_it_ended() -> None:
    batch = ObjectiveBatch([Objective("y ~ a*exp(-b*x) + c", {"x": X, "y": np.exp(-X)})])
    (end,) = fit_least_squares(batch, np.array([[9.0, 7.0, -3.0]]), stop=StoppingRule(evaluations=4))
    assert (end.converged, end.failure) == (False, "no convergence within 4 evaluations")
    (end,) = fit_least_squares(batch, np.array([[9.0, 7.0, -3.0]]), stop=StoppingRule(epochs=2))
    assert (end.converged, end.failure, end.is_stuck) == (False, "", False)
    corner = Objective("y ~ x^0*where(a > 1, 3*(a - 1), 1 - a)", {"x": X, "y": 0 * X - 1})
    ends = fit_least_squares(ObjectiveBatch([corner, corner]), np.array([[3.0], [-2.0]]))
    for end in ends:
        assert end.theta == pytest.approx(1, abs=1e-6)
        assert (end.converged, end.failure.partition(":")[0], end.is_stuck) == (False, "no minimum was found", True)


def test_a_small_parameter_that_matters_is_not_set_to_0() -> None:
    method, _ = method_at("y ~ a^2*x", {"x": X, "y": 1e-12 * X}, [1.0])
    every, small = np.arange(1), np.array([[1e-6]])
    method._move_to(every, small, *method._evaluate(small, every))
    assert method.snap_to_zero(every).tolist() == []
    assert method.fits.theta.tolist() == [[1e-6]]


def test_a_fit_leaves_a_plateau_where_the_loss_falls_faster_than_predicted() -> None:
    batch = ObjectiveBatch([Objective("y ~ a^3*x", {"x": X, "y": X})])
    for start in (1e-4, 1e-5, -1e-6):
        (end,) = fit_least_squares(batch, np.array([[start]]))
        assert end.theta == pytest.approx(1, rel=1e-12)


# --- Parts of the method, by their definitions


def linear_models(seed: int, count: int = 6, size: int = 3) -> tuple[Any, Any, Any]:
    """Return triangular Jacobians of very different columns, residuals, and the scale of the parameters."""
    generator = np.random.default_rng(seed)
    jacobian = np.triu(generator.normal(size=(count, size, size))) * 10.0 ** generator.integers(-3, 4, (count, 1, size))
    return jacobian, generator.normal(size=(count, size)), np.linalg.norm(jacobian, axis=1)


@each("seed", [0, 1])
@each("guess", [0.0, 1e-6, 1.0, 1e9])
@each("is_free", [(True, True, True), (True, False, True), (False, True, False), (True, True, False, True, False)])
def test_a_step_in_a_trust_region_solves_the_damped_equations(seed: int, guess: float, is_free: Any) -> None:
    jacobian, residuals, scale = linear_models(seed, size=len(is_free))
    free = np.tile(is_free, (len(jacobian), 1))
    for radius in (1e-3, 0.1, 1.0, 1e3):
        radii = np.full(len(jacobian), radius)
        masks = [None, free] if all(is_free) else [free]
        for mask in masks:
            steps, damping = _trust_region_steps(jacobian, residuals, scale, radii, np.full(len(radii), guess), mask)
            columns = jacobian * free[:, None, :]
            assert (steps[~free] == 0).all()
            for k, step in enumerate(steps):
                length = np.linalg.norm(scale[k] * step)
                if damping[k] == 0:
                    assert length <= 1.1 * radius * (1 + 1e-12)
                    full = np.linalg.lstsq(columns[k] / scale[k], -residuals[k], rcond=1e-12)[0] / scale[k]
                    np.testing.assert_allclose(step, full, rtol=1e-8, atol=1e-12 / scale[k].max())
                else:
                    assert length == pytest.approx(radius, rel=0.1)
                    slopes = columns[k].T @ (columns[k] @ step + residuals[k])
                    np.testing.assert_allclose(
                        slopes / scale[k], -damping[k] * scale[k] * step, rtol=1e-6, atol=1e-9 * damping[k] * length
                    )


def test_columns_of_zeros_have_no_step() -> None:
    jacobian, residuals, scale = linear_models(3, count=2)
    jacobian[:, :, 1], scale[:, 1] = 0.0, 1.0
    for radius in (1e-3, 1e6):
        steps, _ = _trust_region_steps(jacobian, residuals, scale, np.full(2, radius), np.zeros(2))
        np.testing.assert_allclose(steps[:, 1], 0, atol=1e-12)
        assert np.isfinite(steps).all()


def test_the_damping_is_found_in_few_rounds_from_any_guess() -> None:
    """The equation `norm(along/(sizes + damping/sizes)) = radius` is solved within a tenth of the radius."""
    generator = np.random.default_rng(1)
    along, sizes = generator.normal(size=(40, 4)), 10.0 ** generator.uniform(-6, 1, (40, 4))
    longest = np.linalg.norm(along / sizes, axis=1)
    for share in (1e-8, 0.01, 0.85, 1.0, 1.2):
        for guess in (0.0, 1e-3, 1e30):
            damping = _find_damping(along, sizes, share * longest, np.full(40, guess))
            assert (damping > 0).tolist() == [share < 0.9] * 40
            lengths = np.linalg.norm(along / (sizes + damping[:, None] / sizes), axis=1)
            assert (np.abs(lengths / (share * longest) - 1) <= 0.1 + 1e-9).all() or share >= 0.9


@each("actual", [-math.inf, -2.0, -1e-9, 0.0, 0.3])
@each("ratio", [-1.0, 0.0, 0.25, 0.2500001, 0.7499999, 0.75, 2.0])
@each("damping", [0.0, 0.5])
def test_trust_regions_are_updated_as_in_minpack(actual: float, ratio: float, damping: float) -> None:
    """A step of lmder (More, Garbow & Hillstrom 1980), for one fit beside others with poor and with good steps."""
    radius, length, slope = 3.0, 0.1, -0.7
    if ratio <= 0.25:
        factor = 0.5 if actual >= 0 else max(0.1, 0.5 * slope / (slope + 0.5 * actual))
        wanted = factor * min(radius, length / 0.1), damping / factor
    elif damping == 0 or ratio >= 0.75:
        wanted = length / 0.5, 0.5 * damping
    else:
        wanted = radius, damping
    for other in (0.0, 1.0):
        columns = [[radius, 1.0], [damping, 1.0], [length, 1.0], [slope, -1.0], [actual, other], [ratio, other]]
        radii, dampings = _update_regions(*map(np.array, columns))
        assert (radii[0], dampings[0]) == pytest.approx(wanted, rel=1e-14)


@each("seed", range(4))
def test_a_bounded_step_is_the_best_one_for_the_parameters_that_stay_inside(seed: int) -> None:
    jacobian, residuals, scale = linear_models(seed, count=30, size=4)
    generator, large = np.random.default_rng(seed), np.full(30, 1e9)
    box = Bounds(*(side * generator.uniform(0, 1, scale.shape) / scale for side in (-1, 1)))
    box.low[::3, 0], box.high[1::3, 1] = 0.0, 0.0  # some parameters are at a bound already
    slopes = np.einsum("gij,gi->gj", jacobian, residuals)
    steps, damping = _bounded_steps(jacobian, residuals, scale, large, np.zeros(30), box, slopes)
    assert (damping == 0).all()
    assert ((steps >= box.low) & (steps <= box.high)).all()
    is_blocked = ((box.low == 0) & (slopes > 0)) | ((box.high == 0) & (slopes < 0))
    assert (steps[is_blocked] == 0).all()
    inside = (steps > box.low) & (steps < box.high)
    assert 0 < inside.sum() < inside.size
    remaining = np.einsum("gij,gi->gj", jacobian, np.einsum("gij,gj->gi", jacobian, steps) + residuals)
    np.testing.assert_allclose((remaining / scale)[inside & ~is_blocked], 0, atol=1e-9)
    short, _ = _bounded_steps(jacobian, residuals, scale, large * 1e-12, np.zeros(30), box, slopes)
    assert (np.linalg.norm(scale * short, axis=1) <= 1.1e-3).all()
    gains = np.einsum("gj,gj->g", short, slopes)
    assert (gains[(~is_blocked & (slopes != 0)).any(axis=1)] < 0).all()


@each("is_free", [(True, True, True), (True, False, True)])
def test_gauss_newton_steps_solve_the_linear_model_and_tell_what_they_can_remove(is_free: Any) -> None:
    jacobian, residuals, _ = linear_models(5)
    jacobian[2, :, 2] = 3 * jacobian[2, :, 0]  # two parameters have the same effect
    triangles = np.zeros((6, 4, 4))
    triangles[:, :3, :3], triangles[:, :3, 3], triangles[:, 3, 3] = jacobian, residuals, 7.0
    free = np.tile(is_free, (6, 1))
    steps, is_unique, removable = _gauss_newton_steps(triangles, norms(triangles.swapaxes(1, 2)), free)
    assert is_unique.tolist() == [True, True, False, True, True, True]
    for k, step in enumerate(steps):
        columns = jacobian[k] * free[k]
        scale = np.where(free[k], np.linalg.norm(jacobian[k], axis=0), 1.0)
        wanted, *_ = np.linalg.lstsq(columns / scale, -residuals[k], rcond=1e-12)
        np.testing.assert_allclose(step, wanted / scale, rtol=1e-7, atol=1e-12)
        assert removable[k] == pytest.approx(np.linalg.norm(columns @ step), rel=1e-9)


@each("unit", [1e-5, 1.0, 1e5])
@each("rate", [0.9, 0.5, 0.2, -0.3])
def test_a_sequence_that_converges_linearly_is_extrapolated_to_its_limit(rate: float, unit: float) -> None:
    limit, distance = np.array([[3.0, -2.0 * unit]]), np.array([[1.0, 0.4 * unit]])
    last, theta = limit + distance, limit + rate * distance
    found = _extrapolated(last, (rate - 1) * distance, theta, rate * (rate - 1) * distance, np.array([[1.0, 1 / unit]]))
    np.testing.assert_allclose(found, limit, rtol=1e-12)


@each("share, is_used", [(9.9, True), (10.1, False), (-9.9, True), (-10.1, False), (math.nan, False)])
def test_a_sequence_that_hardly_converges_is_not_extrapolated_far(share: float, is_used: bool) -> None:
    """The step, in units of its change, is the share of the last points that is taken away."""
    last, theta, change = np.array([[1.0]]), np.array([[1.5]]), np.array([[0.01]])
    step = share * change if not math.isnan(share) else 0 * change
    last_step = step - change if not math.isnan(share) else step
    with np.errstate(all="ignore"):
        found = _extrapolated(last, last_step, theta, step, np.ones((1, 1)))
    plain = theta + step
    wanted = plain - share * (theta - last + change) if is_used else plain
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_fits_of_a_search_end_early_where_they_fall_too_slowly_to_be_its_lowest() -> None:
    x, start = np.linspace(0.1, 10, 50), np.array([[4.0, 1.0], [-5.0, -15.0]])
    batch = repeat_objective(Objective("y ~ v*x/(k + x)", {"x": x, "y": 5 * x / (2 + x) + 0.05 * np.cos(9 * x)}), 2)

    def end_and_count(*searches: int) -> tuple[Any, Any, Any]:
        steps, lowest = np.zeros(2, np.intp), np.full(2, np.inf)

        def record(fits: Any, epochs: Any, *_: Any) -> None:
            steps[fits] = epochs

        stop = StoppingRule(evaluations=60, searches=(np.array(searches), lowest) if searches else None)
        ends = fit_least_squares(batch, start, record, stop)
        return steps, [end.theta.tolist() for end in ends], lowest

    (least, most), (best, runaway), _ = end_and_count()
    assert least < 8 < 50 < most
    assert runaway[0] < -1e6
    steps, ends, lowest = end_and_count(0, 0)
    assert steps[0] == least
    assert steps[1] < most / 2
    assert ends[0] == best
    assert lowest[0] == pytest.approx(float(np.square(np.cos(9 * x) * 0.05).sum()), rel=0.1)
    steps, ends, _ = end_and_count(0, 1)  # no rivals
    assert steps.tolist() == [least, most]
    assert ends == [best, runaway]


def test_norms_of_tiny_and_ordinary_vectors() -> None:
    vectors = np.array([[3.0, 4.0], [3e-200, 4e-200], [0.0, 0.0], [5e-324, 0.0], [3e100, 4e100], [-3e-140, 4e-140]])
    np.testing.assert_allclose(norms(vectors), [5, 5e-200, 0, 5e-324, 5e100, 5e-140], rtol=1e-15)


def method_at(model: str, columns: dict[str, Any], theta: list[float], bounds: Bounds | None = None) -> Any:
    """Return the method at a starting point, with the epochs that it reports."""
    seen = list[Epoch]()
    batch = CountingBatch([Objective(model, columns)], bounds)
    return _LevenbergMarquardt(
        batch, np.array([theta]), report_single_fit(seen.append), StoppingRule(tolerance=1e-15)
    ), seen


@each("unit", [1e-7, 1.0, 1e7])
@each("width", [1e-7, 1.0, 1e7])
def test_points_are_stationary_up_to_rounding_in_any_unit(unit: float, width: float) -> None:
    x, y = np.array([1.0, 2.0, 3.0]) * width, np.array([1.0, 3.0, 2.0]) * unit
    best = float(x @ y / (x @ x))
    for shift, is_still in ((0.0, True), (1e-13, False)):
        method, _ = method_at("y ~ a*x", {"x": x, "y": y}, [best * (1 + shift)])
        assert method._is_stationary(method.fits).tolist() == [is_still]
    bounds = Bounds(np.array([-np.inf]), np.array([best / 2]))
    method, _ = method_at("y ~ a*x", {"x": x, "y": y}, [best / 2], bounds)
    assert method._is_stationary(method.fits).tolist() == [True]
    method, _ = method_at("y ~ a*x", {"x": x, "y": y}, [best / 3], bounds)
    assert method._is_stationary(method.fits).tolist() == [False]
    method, _ = method_at("y ~ a*x + b", {"x": x, "y": np.zeros(3)}, [0.0, 0.0])
    assert method._is_stationary(method.fits).tolist() == [True]


def test_polishing_leads_to_the_last_digits() -> None:
    y = 2.5 * np.exp(-1.3 * X) + 0.4 + 0.05 * np.cos(9 * X)
    best = least_squares(lambda p: y - p[0] * np.exp(-p[1] * X) - p[2], [2.5, 1.3, 0.4], xtol=1e-15, ftol=1e-15).x
    for shift in (1e-5, 1e-2):
        start = best * (1 + shift * np.array([1, -1, 1]))
        method, seen = method_at("y ~ a*exp(-b*x) + c", {"x": X, "y": y}, [*start])
        method.polish(np.arange(1))
        end = method.fits.theta[0]
        np.testing.assert_allclose(end, best, rtol=1e-9)
        assert [epoch.number for epoch in seen] == [0, 1]
        jacobian = np.stack([np.exp(-end[1] * X), -end[0] * X * np.exp(-end[1] * X), np.ones(40)], axis=1)
        residuals = y - end[0] * np.exp(-end[1] * X) - end[2]
        projected = jacobian @ np.linalg.lstsq(jacobian, residuals)[0]
        assert np.linalg.norm(projected) < 1e-10 * np.linalg.norm(residuals)


def test_polishing_keeps_bounds_and_parameters_without_effect() -> None:
    y = 2.5 * np.exp(-1.3 * X) + 0.4 + 0.05 * np.cos(9 * X)
    box = Bounds(np.array([-np.inf, -np.inf, -np.inf]), np.array([np.inf, 1.0, np.inf]))
    method, _ = method_at("y ~ a*exp(-b*x) + c", {"x": X, "y": y}, [2.41, 1.0, 0.26], box)
    method.polish(np.arange(1))
    assert method.fits.theta[0, 1] == 1.0
    columns = np.stack([np.exp(-X), np.ones(40)], axis=1)
    np.testing.assert_allclose(method.fits.theta[0, [0, 2]], np.linalg.lstsq(columns, y)[0], rtol=1e-9)
    method, _ = method_at("y ~ a*x + b^2", {"x": X, "y": X - 1}, [0.6, 0.0])
    method.polish(np.arange(1))
    assert method.fits.theta[0, 1] == 0.0
    assert method.fits.theta[0, 0] == pytest.approx(X @ (X - 1) / (X @ X), rel=1e-12)


@each("unit", [1e-4, 1.0, 1e4])
def test_a_parameter_is_at_a_kink_where_both_sides_rise(unit: float) -> None:
    x = np.arange(8.0)
    y = np.where(x < 3, 0, 2 * (x - 3)) + 0.3 * np.array([1, -1, -2, 4, 1, -1, 1, -1])
    for place, is_kink in ((3.0, True), (3.5, False), (2.5, False)):
        objective = Objective("y ~ c*relu(x - k)", {"x": x * unit, "y": y})
        here = np.array([2.0 / unit, place * unit])
        found = minimization._kink_sides(ObjectiveBatch([objective]), 0, here) != 0
        sides = [objective.value(here + np.array([0, side * 1e-4 * unit])) > objective.value(here) for side in (1, -1)]
        assert found.tolist() == [False, is_kink and all(sides)]


def test_parameters_that_shrink_to_0_are_set_to_0_where_that_costs_nothing() -> None:
    x = np.array([1.0, 2.0, 3.0])
    for y, is_zero in ((-x, True), (1e-4 * x, False)):
        method, seen = method_at("y ~ a^2*x", {"x": x, "y": y}, [1.0])
        method.fits.theta[:] = 1e-5 if is_zero else 1e-2
        triangles, sizes = method._evaluate(method.fits.theta, np.arange(1))
        method.fits.move(slice(None), method.fits.theta, triangles, sizes)
        assert method.snap_to_zero(np.arange(1)).tolist() == ([0] if is_zero else [])
        assert bool(method.fits.theta[0, 0] == 0) is is_zero
        assert len(seen) == 1 + is_zero


@each("start", [(9.0, 7.0), (0.1, 9.0), (30.0, 4.0)])
def test_after_a_poor_first_step_the_next_one_is_at_most_half_as_long(start: Any) -> None:
    """The first radius is only a guess, which the length of the first step replaces (More 1978)."""
    tried: list[Any] = []

    class Recorded(ObjectiveBatch):
        def triangles(self, theta: Any, fits: Any) -> Any:
            tried.append(theta[0].copy())
            return super().triangles(theta, fits)

    objective = Objective("y ~ a*exp(-b*x)", {"x": X, "y": 2.5 * np.exp(-0.2 * X)})
    method = _LevenbergMarquardt(Recorded([objective]), np.array([start]), ignore_steps, StoppingRule(tolerance=1e-15))
    scale = method.fits.scale[0].copy()
    before = method.fits.norms[0, -1]
    method._step(method.fits, hands_over=False)
    if method.fits.norms[0, -1] == before:  # the step was rejected
        method._step(method.fits, hands_over=False)
        first, second = (np.linalg.norm(scale * (theta - tried[0])) for theta in tried[1:3])
        assert second <= 0.5 * 1.1 * first
        assert second >= 0.05 * first
