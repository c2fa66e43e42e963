"""Robust losses: as they are defined, the same in any unit, and the estimates that iterated weights give."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.optimize import least_squares

from autodiff_cli import Objective, fit, fit_by
from autodiff_cli.language.printer import to_text
from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting import minimization
from autodiff_cli.training.fitting.row_loss import row_loss_formula
from autodiff_cli.training.methods.gradient_descent import Outcome
from autodiff_cli.training.objective.batch import GroupBatch, ObjectiveBatch
from autodiff_cli.training.objective.loading import as_dataset
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.preparation import parse_model
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.goodness import MAD_TO_STD, robust_scale
from tests.each import amount, each
from tests.support import run_cli

GENERATOR = np.random.default_rng(0)
X = np.linspace(0, 10, 200)
Y = 2 * X + 1 + GENERATOR.normal(0, 0.3, len(X))
Y[::15] += 30
ROBUST = ("huber", "logcosh", "soft_l1", "cauchy")

# By definition, of r/s; the weight of a residual is the slope of the loss divided by it.
LOSSES: dict[str, Callable[[Any], Any]] = {
    "huber": lambda r: r**2 / 2 if abs(r) <= 1.345 else 1.345 * abs(r) - 1.345**2 / 2,
    "logcosh": lambda r: mpmath.log(mpmath.cosh(r)),
    "soft_l1": lambda r: 2 * (mpmath.sqrt(1 + r**2) - 1),
    "cauchy": lambda r: mpmath.log(1 + r**2),
}
WEIGHTS: dict[str, Callable[[Any], Any]] = {
    "huber": lambda r: np.minimum(1, 1.345 / np.abs(r)),
    "logcosh": lambda r: np.tanh(r) / r,
    "soft_l1": lambda r: 1 / np.sqrt(1 + r**2),
    "cauchy": lambda r: 1 / (1 + r**2),
}


@each("loss", ROBUST)
@each("scale", [1, 0.5, 40])
@each("residual", [-1e9, -3, -1.345, -1e-9, 0, 0.3, 0.999, 1.001, 1.344, 1.346, 800])
def test_losses_are_of_residuals_by_scale_times_its_square(loss: str, scale: float, residual: float) -> None:
    value, gradient = Objective("y ~ a", {"y": [residual]}, loss=loss, scale=scale).value_and_grad([0.0])
    with mpmath.workdps(50):
        r = mpmath.mpf(residual) / scale
        expected = float(scale**2 * LOSSES[loss](r))
        slope = float(-scale * mpmath.diff(LOSSES[loss], r)) if abs(r) != 1.345 else math.nan
    assert value == pytest.approx(expected, rel=1e-14)
    assert math.isnan(slope) or gradient[0] == pytest.approx(slope, rel=1e-10, abs=1e-300)


@each("loss", [*ROBUST, "negative_binomial"])
@each("scale", [None, 2.5])
def test_the_loss_of_a_row_that_is_shown_is_that_of_fits_without_needless_operations(
    loss: str, scale: float | None
) -> None:
    """Without a scale the unit of residuals is 1, which no learner wants to see as `/1` or `square(1)`."""
    model = Model.parse("y ~ a", ["y"], {})
    formula = row_loss_formula(model, loss, FitOptions(loss=loss, scale=scale), None)
    for y, a in ((3.0, 0.5), (1.0, 0.9)):
        objective = Objective("y ~ a", {"y": [y]}, loss=loss, scale=scale or 1)
        fitted, (slope,) = objective.value_and_grad([a])
        value, gradient = formula.value_and_grad({"y": y, "a": a})
        assert (value, gradient["a"]) == pytest.approx((fitted, slope), rel=1e-14)
    shown = to_text(formula.output)
    assert "hypot" not in shown
    assert ("/2.5" in shown) == (scale is not None)
    assert not re.search(r"/1\b(?!\.)|square\(\d|[(^ ]1(\.0)?\*", shown), shown


@pytest.mark.slow
@each("unit", [1e-9, 1.0, 1e4])
@each("loss", ROBUST)
def test_the_unit_of_the_data_does_not_matter(loss: str, unit: float) -> None:
    plain = fit("y ~ a*x + b", {"x": X, "y": Y}, loss=loss)
    scaled = fit("y ~ a*x + b", {"x": X, "y": Y * unit}, loss=loss)
    for one, other in ((plain.parameters, scaled.parameters), (plain.stderr, scaled.stderr)):
        assert {name: value * unit for name, value in one.items()} == pytest.approx(other, rel=1e-6)
    assert scaled.converged
    assert scaled.scale == pytest.approx(unit * plain.scale, rel=1e-7)  # type: ignore[operator]
    assert scaled.loss == pytest.approx(unit**2 * plain.loss, rel=1e-6)


@pytest.mark.slow
@each("loss", ROBUST)
def test_the_estimate_is_that_of_iterated_weights(loss: str) -> None:
    matrix = np.column_stack((X, np.ones(len(X))))
    theta = np.linalg.lstsq(matrix, Y)[0]
    for _ in range(1000):
        residuals = Y - matrix @ theta
        scale = 1.482602218505602 * np.median(np.abs(residuals))
        root = np.sqrt(WEIGHTS[loss](residuals / scale))
        theta = np.linalg.lstsq(matrix * root[:, None], Y * root)[0]
    found = fit("y ~ a*x + b", {"x": X, "y": Y}, loss=loss)
    assert [found.parameters["a"], found.parameters["b"]] == pytest.approx(theta.tolist(), rel=1e-7)
    assert found.scale == pytest.approx(scale, rel=1e-7)
    assert found.parameters == pytest.approx({"a": 2, "b": 1}, abs=0.15)


@each("loss", ROBUST)
def test_errors_have_the_formula_of_huber(loss: str) -> None:
    """With the correction for few rows, from the definitions of the losses."""
    x = np.linspace(0, 3, 12)
    y = 1 + 2 * x + np.random.default_rng(3).standard_t(2, len(x))
    found = fit("y ~ a + b*x", {"x": x, "y": y}, loss=loss, scale=1.0)
    columns = np.stack((np.ones_like(x), x), axis=1)
    residuals = y - columns @ [*found.parameters.values()]
    slopes, bends = (np.vectorize(lambda r, n=n: float(mpmath.diff(LOSSES[loss], r, n)))(residuals) for n in (1, 2))
    correction = 1 + 2 / 12 * np.var(bends) / np.mean(bends) ** 2
    variance = correction**2 * np.sum(slopes**2) / 10 / np.mean(bends) ** 2
    np.testing.assert_allclose(found.covariance, variance * np.linalg.inv(columns.T @ columns), rtol=1e-5)


@each("loss", ROBUST, sampled=True)
def test_a_tiny_penalty_leaves_errors_as_they_are(loss: str) -> None:
    x = np.linspace(0, 4, 12)
    data = {"x": x, "y": 3 * np.exp(-0.8 * x) + 0.1 * np.random.default_rng(1).normal(size=12), "w": 1 + x}
    for weights in ({}, {"weights": "w"}):
        plain, penalised = (fit("y ~ a*exp(-b*x)", data, loss=loss, l2=l2, **weights) for l2 in (0, 1e-12))
        np.testing.assert_allclose(penalised.covariance, plain.covariance, rtol=1e-5)


@pytest.mark.slow
def test_errors_are_those_of_statsmodels() -> None:
    statsmodels = pytest.importorskip("statsmodels.api")
    for seed in range(5):
        x = np.linspace(0, 3, 15)
        y = 1 + 2 * x + np.random.default_rng(seed).standard_t(2, len(x))
        found = fit("y ~ a + b*x", {"x": x, "y": y}, loss="huber")
        model = statsmodels.RLM(y, statsmodels.add_constant(x), M=statsmodels.robust.norms.HuberT(1.345))
        np.testing.assert_allclose(found.covariance, model.fit(tol=1e-14, maxiter=1000).bcov_scaled, rtol=1e-6)


@each("loss", ROBUST, sampled=True)
def test_residuals_are_compared_with_their_own_standard_deviations(loss: str) -> None:
    """A line with weights is the plane through the origin whose columns and target are multiplied by their roots."""
    generator = np.random.default_rng(4)
    samples, rows = amount(6, 20, 20), 25
    x, sigma = generator.uniform(0, 5, samples * rows), generator.uniform(0.02, 2, samples * rows)
    y = 1 + 2 * x + sigma * generator.standard_t(2, samples * rows)
    data = {"x": x, "y": y, "s": sigma, "u": 1 / sigma, "v": x / sigma, "z": y / sigma}
    data["sample"] = np.arange(samples).repeat(rows)
    wanted = [group.fit for group in fit_by("z ~ a*u + b*v", data, "sample", loss=loss)]
    for weights in ({"sigma": "s"}, {"weights": "1/s^2"}):
        found = [group.fit for group in fit_by("y ~ a + b*x", data, "sample", loss=loss, **weights)]
        single = fit("y ~ a + b*x", {name: column[:rows] for name, column in data.items()}, loss=loss, **weights)
        for one, other in zip([*found, single], [*wanted, wanted[0]], strict=True):
            assert one.parameters == pytest.approx(other.parameters, rel=1e-6)
            assert one.stderr == pytest.approx(other.stderr, rel=1e-5)
            assert (one.scale, one.residual_std) == pytest.approx((other.scale, other.residual_std), rel=1e-6)


@each("loss", ["huber", "soft_l1", "cauchy"])
def test_with_errors_of_rows_the_estimate_is_that_of_scipy(loss: str) -> None:
    generator = np.random.default_rng(3)
    x, sigma = np.linspace(0, 5, 40), generator.uniform(0.02, 0.5, 40)
    y = 2.5 * np.exp(-0.7 * x) + sigma * generator.standard_t(2, 40)
    found = fit("y ~ a*exp(-b*x)", {"x": x, "y": y}, loss=loss, sigma=sigma, scale=1)
    threshold = 1.345 if loss == "huber" else 1
    residuals = lambda p: (p[0] * np.exp(-p[1] * x) - y) / sigma  # noqa: E731
    expected = least_squares(residuals, [2, 1], loss=loss, f_scale=threshold, xtol=1e-15, ftol=1e-15, gtol=1e-15)
    assert [*found.parameters.values()] == pytest.approx(expected.x, rel=1e-6)


def test_least_absolute_residuals_are_in_units_of_their_errors() -> None:
    """Weights multiply the loss, as in R's `rq`; errors divide the residual."""
    generator = np.random.default_rng(6)
    x, sigma = generator.uniform(0, 5, 31), generator.uniform(0.02, 2, 31)
    data = {"x": x, "y": 1 + 2 * x + sigma * generator.standard_t(2, 31), "s": sigma}
    plane = {"u": 1 / sigma, "v": x / sigma, "z": data["y"] / sigma}
    wanted = fit("z ~ a*u + b*v", plane, loss="mae").parameters
    for weights in ({"sigma": "s"}, {"weights": "1/s"}):
        assert fit("y ~ a + b*x", data, loss="mae", **weights).parameters == pytest.approx(wanted, rel=1e-6)


@pytest.mark.slow
@each("loss", ROBUST, sampled=True)
def test_few_rows_are_covered_by_intervals_as_often_as_promised(loss: str) -> None:
    """A sandwich of gradients covers a half to three quarters here: `a` depends on few rows."""
    samples, x = 300, np.linspace(0, 4, 12)
    noise = 0.1 * np.random.default_rng(2).normal(size=(samples, len(x)))
    data = {
        "x": np.tile(x, samples),
        "y": (3 * np.exp(-0.8 * x) + noise).ravel(),
        "sample": np.arange(samples).repeat(12),
    }
    fits = [group.fit for group in fit_by("y ~ a*exp(-b*x)", data, "sample", loss=loss)]
    covered = [low <= 3 <= high for low, high in (one.confidence()["a"] for one in fits if one.converged)]
    assert np.mean(covered) > 0.84


@pytest.mark.slow
@each("loss", ROBUST, sampled=True)
def test_errors_are_those_of_many_samples(loss: str) -> None:
    samples, x = 100, np.linspace(-1, 1, 60)
    noise = np.random.default_rng(1).standard_t(2, (samples, len(x)))
    data = {"x": np.tile(x, samples), "y": (3 * x + noise).ravel(), "sample": np.repeat(np.arange(samples), len(x))}
    found = [group.fit for group in fit_by("y ~ a*x + b", data, "sample", loss=loss)]
    spread = np.std([one.parameters["a"] for one in found])
    assert np.median([one.stderr["a"] for one in found]) == pytest.approx(spread, rel=0.2)
    assert "Huber 1981" in found[0].definition


def test_scale_and_huber_delta_are_used_as_set() -> None:
    given = fit("y ~ a*x + b", {"x": X, "y": Y}, loss="huber", scale=100, huber_delta=2)
    squares = fit("y ~ a*x + b", {"x": X, "y": Y})
    assert given.scale == 100  # of which all residuals are a small part: half of the squares
    assert given.parameters == pytest.approx(squares.parameters, rel=1e-9)
    assert given.loss == pytest.approx(squares.loss / 2, rel=1e-9)


def test_the_scale_of_many_rows_with_few_different_residuals_is_exact() -> None:
    """The median of a random sample says between which residuals that of all rows lies."""
    for share in (0.495, 0.4995, 0.5005, 0.505):
        y = np.where(np.arange(300_000) < share * 300_000, 1.0, 2.0)
        found = robust_scale(Objective("y ~ a", {"y": y * (-1) ** np.arange(len(y))}), np.array([0.0]))
        assert found == pytest.approx(MAD_TO_STD * np.median(y), rel=1e-14)


def test_rows_that_are_fitted_exactly_have_no_scale() -> None:
    y = 2 * X + 1
    y[:9] += 7
    found = fit("y ~ a*x + b", {"x": X, "y": y}, loss="huber")
    assert found.parameters == pytest.approx({"a": 2, "b": 1}, abs=1e-6)
    assert any("at least half of the rows are fitted exactly" in warning for warning in found.warnings)
    assert {*found.stderr.values()} == {None}


@each("unit", [1e100, 1e-100])
@each("options", [{"loss": "huber"}, {"loss": "cauchy"}])
def test_errors_do_not_depend_on_the_unit_of_the_target(unit: float, options: dict[str, Any]) -> None:
    """The loss of a row is a square of its unit, and a product of two gradients is the fourth power."""
    y = 2 * np.exp(-X) + np.random.default_rng(0).normal(0, 0.1, len(X))
    starts = [{"a": 2 * each, "b": 1} for each in (1.0, unit)]
    one, other = (fit("y ~ a*exp(-b*x)", {"x": X, "y": y * s["a"]}, start=s, **options).stderr for s in starts)
    assert other == pytest.approx({"a": one["a"] * unit, "b": one["b"]}, rel=1e-5)


@pytest.mark.slow
@each("loss", ["huber", "mae"])
def test_starts_are_looked_for_here_too(loss: str) -> None:
    generator = np.random.default_rng(0)
    y = 3 * np.sin(7 * X + 0.4) + generator.normal(0, 0.05, len(X))
    y[generator.permutation(len(X))[:10]] += 10
    found = fit("y ~ a*sin(w*x + p)", {"x": X, "y": y}, loss=loss)
    assert found.converged
    assert abs(found.parameters["w"]) == pytest.approx(7, rel=1e-2)
    assert any("better ones were estimated from the data" in note for note in found.notes)


@each(
    ("options", "message"),
    [
        ({"scale": 2}, "the loss mse has no scale; losses with a scale are huber, logcosh, soft_l1, cauchy"),
        ({"loss": "mae", "scale": 2}, "the loss mae has no scale"),
        ({"loss": "cauchy", "huber_delta": 2}, "huber_delta requires the loss huber, not cauchy"),
        ({"loss": "huber", "scale": 0}, "scale must be positive, not 0"),
        ({"loss": "huber", "huber_delta": -1}, "huber_delta must be positive, not -1"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        fit("y ~ a*x + b", {"x": X, "y": Y}, **options)


def test_on_the_command_line(tmp_path: Any) -> None:
    path = tmp_path / "data.csv"
    path.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in zip(X, Y, strict=True)))
    words = ["train", "y ~ a*x + b", str(path), "--loss", "huber", "--huber-delta", "2"]
    report = run_cli([*words, "--json"]).json
    found = fit("y ~ a*x + b", {"x": X, "y": Y}, loss="huber", huber_delta=2)
    assert report["parameters"] == found.parameters
    assert report["scale"] == found.scale
    assert "scale of residuals = " in run_cli(words)
    assert run_cli([*words, "--scale", "1", "--json"]).json["scale"] == 1


@each("weighted", [False, True])
@each("rows", [100_000, 100_001])
def test_the_scale_of_many_rows_is_exact(rows: int, weighted: bool) -> None:
    generator = np.random.default_rng(0)
    y = generator.standard_cauchy(rows)
    weights = generator.integers(0, 3, rows).astype(float) if weighted else None
    objective = Objective("y ~ a", {"y": y}, loss="huber", weights=weights)
    counted = np.abs(y - 0.5) if weights is None else (np.abs(y - 0.5) * np.sqrt(weights))[weights > 0]
    expected = MAD_TO_STD * float(np.median(counted))
    assert robust_scale(objective, np.array([0.5])) == pytest.approx(expected, rel=1e-15)
    sorted_rows = Objective("y ~ a", {"y": np.sort(y)}, loss="huber")
    assert robust_scale(sorted_rows, np.array([0.0])) == pytest.approx(
        MAD_TO_STD * float(np.median(np.abs(y))), rel=1e-15
    )


@pytest.mark.slow
@each("seed", range(3), sampled=True)
def test_starting_values_are_estimated_despite_outliers(seed: int) -> None:
    generator = np.random.default_rng(seed)
    x = np.sort(generator.uniform(0, 1, 78))
    noise, far = 0.02 * generator.standard_normal(78), generator.choice(78, 7, replace=False)
    y = 1.6 * np.exp(-(((x - 0.32) / 0.18) ** 2) / 2) + 0.03 + noise
    y[far] += generator.uniform(3, 9, 7)
    found = fit("y ~ a*exp(-((x - m)/s)^2/2) + c", {"x": x, "y": y}, loss="huber")
    assert found.converged
    assert [*found.parameters.values()] == pytest.approx([1.6, 0.32, 0.18, 0.03], abs=0.05)


@pytest.mark.slow
@each("seed", range(10), sampled=True)
def test_the_scale_is_that_of_the_residuals_where_the_fit_ends(seed: int) -> None:
    """In turn, the fit with one of two scales can lead to the other, and back, for ever."""
    generator = np.random.default_rng(seed)
    x = np.sort(generator.uniform(0, 3, 12))
    data = {"x": x, "y": np.round(20 * (3 * np.exp(-x) + 0.02 * generator.normal(size=12)))}
    found = fit("y ~ a*exp(-b*x)", data, loss="huber", l2=0.01)
    assert found.converged
    objective = Objective("y ~ a*exp(-b*x)", data, loss="huber", l2=0.01)
    assert robust_scale(objective, np.array([*found.parameters.values()])) == pytest.approx(found.scale, rel=1e-8)


@each("seed", [0, 1, 2, 3], quick=lambda seed: seed == 1)
def test_the_scale_is_found_where_residuals_are_proportional_to_it(seed: int) -> None:
    """In some resamples the ratio of the estimate to the scale is constant over a wide range of scales."""
    generator = np.random.default_rng(seed)
    group, x = np.repeat([0.0, 1, 2], [9, 9, 2]), generator.normal(size=20)
    y = 1 + 2 * x + 0.5 * generator.normal(size=20)
    model = parse_model("y ~ a + b*x + c*(g == 1) + d*(g == 2)", ("x", "y", "g"), frozenset())
    objective = Objective.of(model, as_dataset({"x": x, "y": y, "g": group}), FitOptions(loss="huber"))
    rows = generator.integers(20, size=(200, 20))
    batch = GroupBatch(objective, [*rows])
    ends = minimization.minimize_batch("lbfgs", batch, np.tile(objective.start, (200, 1)))
    a, b, c, d = np.array([end.theta for end in ends]).T[:, :, None]
    residuals = y[rows] - (a + b * x[rows] + c * (group[rows] == 1) + d * (group[rows] == 2))
    estimates = MAD_TO_STD * np.median(np.abs(residuals), axis=1)
    has_scale = np.array([end.note == "" for end in ends])
    assert all(end.converged for end in ends)
    assert np.count_nonzero(has_scale) > 190
    assert batch.scales[has_scale] == pytest.approx(estimates[has_scale], rel=1e-8)


@pytest.mark.slow
def test_a_fit_whose_scale_leads_to_other_scales_for_ever_has_not_converged() -> None:
    """With a small scale the penalty outweighs the rows, whose residuals then lead to a large one."""
    generator = np.random.default_rng(5)
    x = np.linspace(0, 3, 24)
    y = 3 * np.exp(-1.1 * x) + 0.03 * generator.normal(size=24) + 3 * (generator.random(24) < 0.05)
    options: dict[str, Any] = {"loss": "cauchy", "l1": 0.01}
    found = fit("y ~ a*exp(-b*x)", {"x": x, "y": y}, **options)
    objective = Objective("y ~ a*exp(-b*x)", {"x": x, "y": y}, **options)
    estimate = robust_scale(objective, np.array([*found.parameters.values()]))
    assert found.converged == (estimate == pytest.approx(found.scale, rel=1e-8))
    assert not found.converged
    assert "the residual scale does not settle" in found.failure
    assert not any("--lr" in text for text in found.warnings)
    advised = fit("y ~ a*exp(-b*x)", {"x": x, "y": y}, scale=0.03, **options)
    assert advised.converged


def test_a_robust_fit_of_another_shape_is_doubtful() -> None:
    y = np.sin(X) + 0.02 * np.random.default_rng(0).standard_normal(len(X))
    y[::15] += 9
    found = fit("y ~ a + b*x", {"x": X, "y": y}, loss="huber")
    assert found.converged
    assert any(text.startswith("this fit is doubtful") for text in found.warnings)
    assert not any("doubtful" in text for text in fit("y ~ a + b*x", {"x": X, "y": Y}, loss="huber").warnings)


def with_outliers(f: Callable[..., Any], generator: np.random.Generator, theta: Any) -> dict[str, Any]:
    """Return 20 rows of a curve, of which six lie on another line."""
    x = np.sort(generator.uniform(0.05, 4, 20))
    y = f(theta, x) + 0.05 * generator.normal(size=20)
    outliers = generator.choice(20, size=6, replace=False)
    y[outliers] += generator.normal(0, 4) + generator.normal(0, 1) * x[outliers]
    return {"x": x, "y": y}


CURVES: dict[str, Callable[..., Any]] = {
    "y ~ a + b*x": lambda p, x: p[0] + p[1] * x,
    "y ~ a + b*x + c*x^2": lambda p, x: p[0] + p[1] * x + p[2] * x * x,
    "y ~ a*exp(-b*x)": lambda p, x: p[0] * np.exp(-p[1] * x),
}


@pytest.mark.slow
@each("model", [*CURVES])
def test_outliers_do_not_decide_where_a_fit_ends(model: str) -> None:
    """Losses that are not convex have minima at which outliers are fitted; no fit ends there that is not the best.

    From the first start alone, one of these groups or more does, in each model.
    """
    generator, tables = np.random.default_rng(7), []
    for group in range(4):
        theta = np.abs(generator.normal(0, 2, 3))
        data = with_outliers(CURVES[model], generator, theta)
        tables.append({**data, "group": np.full(20, group)})
        found = fit(model, data, loss="cauchy", scale=0.1)
        count = len(found.parameters)
        starts = [theta[:count], *generator.normal(0, 3, (4, count))]
        ends = [
            least_squares(lambda p: CURVES[model](p, data["x"]) - data["y"], start, loss="cauchy", f_scale=0.1)  # noqa: B023
            for start in starts
        ]
        best = min(2 * end.cost / 20 for end in ends)
        assert found.loss <= best * (1 + 1e-6)
        tables[-1]["loss"] = np.full(20, found.loss)
    columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    for each_group in fit_by(model, columns, "group", loss="cauchy", scale=0.1):
        assert each_group.fit is not None
        assert each_group.fit.loss <= tables[int(each_group.by)]["loss"][0] * (1 + 1e-6)


@each("seed", range(2, 8), quick=lambda seed: seed < 4)
def test_huge_outliers_make_no_other_minimum_likelier(seed: int) -> None:
    """In units of its own larger scale, outliers are nearer to a curve that is far from most rows."""
    generator, x = np.random.default_rng(seed), np.linspace(0.05, 3, 30)
    y = 3 / (1 + np.exp(-4 * (x - 1.5))) + 0.05 * generator.normal(size=30)
    y[generator.choice(30, 4, replace=False)] += 5 * generator.normal(size=4)
    found = fit("y ~ a/(1 + exp(-k*(x - m)))", {"x": x, "y": y}, loss="huber")
    assert [*found.parameters.values()] == pytest.approx([3, 4, 1.5], rel=0.2)
    assert found.warnings == []


@pytest.mark.parametrize("loss", ROBUST)
def test_the_traced_loss_of_a_row_reads_as_in_textbooks(loss: str, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("x,y\n1,1.5\n")
    for a in (2, 9):
        document = run_cli(f'trace "y ~ a*x/1" {tmp_path}/d.csv --row 1 --a {a} --loss {loss} --json').json
        assert document["value"] == pytest.approx(float(LOSSES[loss](1.5 - a)), rel=1e-14)
    labels = [node["label"] for node in document["nodes"]]
    assert [label for label in labels if "hypot" in label or ")/1" in label or "square(1)" in label] == []
    assert "a*x/1" in labels  # what was typed stays


@each("theta", [[3.9e-42, -95.35, -0.0035], [5e-15, -32.9, -0.0099]])
def test_a_slope_of_a_smooth_loss_is_no_minimum_at_a_kink(theta: list[float]) -> None:
    """Parameters on their way to infinity, in a valley that is far steeper across than along."""
    x = np.linspace(0.1, 3, 30)
    y = 3 * np.exp(-4 * np.exp(-1.5 * x)) + np.random.default_rng(0).normal(size=30)
    objective = Objective("y ~ A*exp(-b*exp(-c*x))", {"x": x, "y": y}, loss="huber")
    stuck = Outcome(np.array(theta), converged=False, failure="on a slope", is_stuck=True)
    assert not minimization._check_stuck_solution("lbfgs", ObjectiveBatch([objective]), 0, stuck).converged


@pytest.mark.slow
@pytest.mark.parametrize("seed", [39, pytest.param(70, marks=pytest.mark.slow)])
def test_a_minimum_at_a_kink_of_the_model_is_found_and_said_whatever_the_order_of_the_rows(seed: int) -> None:
    generator = np.random.default_rng(seed)
    x = generator.uniform(0.1, 5, 12)
    y = np.where(x < 2.5, 2, 2 + 1.5 * (x - 2.5)) + 0.2 * generator.normal(size=12)
    found = fit("y ~ where(x < c, a, a + b*(x - c))", {"x": x, "y": y}, loss="huber")
    mixed = fit("y ~ where(x < c, a, a + b*(x - c))", {"x": x[::-1], "y": y[::-1]}, loss="huber")
    assert found.converged
    assert np.abs(x - found.parameters["c"]).min() < 1e-12
    assert any("`c` ends at a kink of the loss" in words for words in found.warnings)
    for name, value in found.parameters.items():
        assert mixed.parameters[name] == pytest.approx(value, rel=1e-6)
        assert mixed.stderr[name] == pytest.approx(found.stderr[name], rel=1e-4)


def test_a_slope_of_a_likelihood_is_no_minimum_at_a_kink() -> None:
    """Counts grow as an exponential, which a logistic curve is in the limit."""
    x, y = np.linspace(0.87, 10, 15), [1, 1, 0, 3, 2, 0, 1, 0, 1, 1, 6, 3, 2, 4, 8]
    objective = Objective("y ~ a/(1 + exp(-b*(x - c)))", {"x": x, "y": y}, loss="poisson")
    batch = ObjectiveBatch([objective])
    assert not minimization.minimize_and_check("lbfgs", batch, objective.start[None])[0].converged


@pytest.mark.slow
def test_a_minimum_that_is_met_on_the_way_is_reported_instead_of_a_fit_without_one() -> None:
    """The best fit from the start is a line, a limit without a minimum; another minimum is more likely."""
    x = np.linspace(0.86, 10, 21)
    y = [
        28.2,
        48.3,
        29,
        30,
        21.7,
        -8.6,
        23,
        22.5,
        19.5,
        41.3,
        17.1,
        28.8,
        25.7,
        24.3,
        18.4,
        7.9,
        5.7,
        9.1,
        3.9,
        6.9,
        28.3,
    ]
    found = fit("y ~ a*exp(-b*x) + c", {"x": x, "y": y}, loss="soft_l1")
    assert found.converged
    assert found.parameters == pytest.approx({"a": -31.1, "b": -0.0586, "c": 63.3}, rel=0.05)
    assert any(note.startswith("a better minimum was found") for note in found.notes)


@pytest.mark.slow
@each("loss", ["huber", "soft_l1", "logcosh", "cauchy"])
def test_one_outlier_among_exact_rows_leaves_no_scale_and_no_standard_errors(loss: str) -> None:
    for seed in range(4):
        generator = np.random.default_rng(seed)
        x = np.sort(generator.uniform(0, 5, 10))
        y = 2 * x + 1
        y[generator.integers(10)] += 10 ** generator.uniform(-1, 1.5)
        found = fit("y ~ a*x + b", {"x": x, "y": y}, loss=loss)
        assert found.parameters == pytest.approx({"a": 2, "b": 1}, rel=1e-6)
        assert found.stderr == {"a": None, "b": None}
        assert found.scale is None


@each("seed", range(3))
def test_most_rows_decide_although_all_outliers_are_at_one_end(seed: int) -> None:
    """The least squares of all rows lead to another minimum of the loss."""
    generator = np.random.default_rng(seed)
    x = np.linspace(0, 10, 30)
    y = np.where(x < 6.5, 2 * x + 1 + generator.normal(0, 0.01, 30), generator.normal(-5, 6, 30))
    found = fit("y ~ a*x + b", {"x": x, "y": y}, loss="cauchy")
    assert found.parameters == pytest.approx({"a": 2, "b": 1}, abs=0.02)


@each("loss, seed", [("cauchy", 4), ("mae", 4), ("cauchy", 3)], sampled=True)
def test_the_period_of_a_wave_is_found_although_a_third_of_the_rows_are_outliers(loss: str, seed: int) -> None:
    """Sums of squares, by which frequencies are scanned, would be those of the outliers."""
    generator = np.random.default_rng(seed)
    x, truth = np.sort(generator.uniform(0, 100, 40)), {"a": 2, "P": generator.uniform(4, 20), "p": 1, "c": 0.5}
    y = 2 * np.sin(2 * np.pi * x / truth["P"] + 1) + 0.5 + 0.1 * generator.normal(size=40)
    y[generator.permutation(40)[:12]] += generator.uniform(3, 30, 12)
    found, near = (
        fit("y ~ a*sin(2*pi*x/P + p) + c", {"x": x, "y": y}, loss=loss, start=start) for start in ({}, truth)
    )
    assert found.loss == pytest.approx(near.loss, rel=1e-6)
