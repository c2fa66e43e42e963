"""Figures of fits compared with their definitions, and generalised linear models with iteratively reweighted least
squares.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from autodiff_cli import Fit, Objective, fit, fit_by, load
from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.options import OptionError
from autodiff_cli.training.objective.batch import GatheredRows, GroupBatch
from autodiff_cli.training.result import goodness as figures
from autodiff_cli.training.result.goodness import GoodnessOfFit
from autodiff_cli.training.result.row_figures import (
    LikelihoodSums,
    differences,
    figures_of_groups,
    likelihood_sums,
    ranks_with_constant,
)
from tests.each import amount, each
from tests.support import goodness, run_cli

GENERATOR = np.random.default_rng(0)
N = 60
X = np.linspace(0, 4, N)
Y = 2.5 * np.exp(-1.3 * X) + 0.1 + GENERATOR.normal(0, 0.05, N)
MODEL = "y ~ a*exp(-b*x) + c"


def decay(**more: Any) -> Fit:
    return fit(MODEL, {"x": X, "y": Y}, **more)


def test_least_squares() -> None:
    found = decay()
    rss = float(np.sum((Y - found.predict({"x": X})) ** 2))
    logarithm = math.log(rss / N)
    assert found.rss == pytest.approx(rss, rel=1e-12)
    assert found.rmse == pytest.approx(math.sqrt(rss / N), rel=1e-12)
    assert found.reduced_chi_squared == pytest.approx(rss / (N - 3), rel=1e-12)
    assert found.residual_std == pytest.approx(math.sqrt(rss / (N - 3)), rel=1e-12)
    k = 4  # three parameters and the variance
    assert found.aic == pytest.approx(N * logarithm + N * (1 + math.log(2 * math.pi)) + 2 * k, rel=1e-12)
    assert found.bic == pytest.approx(found.aic - 2 * k + k * math.log(N), rel=1e-12)  # type: ignore[operator]
    assert found.aicc == pytest.approx(found.aic + 2 * k * (k + 1) / (N - k - 1), rel=1e-12)  # type: ignore[operator]
    residuals = Y - found.predict({"x": X})
    assert found.log_likelihood == pytest.approx(np.sum(stats.norm.logpdf(residuals, 0, math.sqrt(rss / N))), rel=1e-12)
    variance = np.sum((Y - Y.mean()) ** 2) / (N - 1)
    assert found.adjusted_r_squared == pytest.approx(1 - rss / (N - 3) / variance, rel=1e-12)
    assert found.residual_quantiles == pytest.approx(np.quantile(residuals, [0, 0.25, 0.5, 0.75, 1]))
    assert found.durbin_watson == pytest.approx(np.sum(np.diff(residuals) ** 2) / rss, rel=1e-9)


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("targets", [1, 2, 3])
def test_a_constant_of_each_target_explains_nothing(targets: int, weights: str | None) -> None:
    """So both R² are 0; the variances of the targets and of the residuals are the same."""
    names, generator = [f"y{k}" for k in range(targets)], np.random.default_rng(targets)
    data = {name: 5 * k + generator.normal(0, 1, N) for k, name in enumerate(names)} | {"w": 1 + X}
    found = fit(
        f"[{', '.join(names)}] ~ [{', '.join(f'a{k}' for k in range(targets))}]", data, weights=weights, no_columns=True
    )
    assert [found.r_squared, found.adjusted_r_squared] == pytest.approx([0, 0], abs=1e-12)


def test_intervals_are_students_and_normal_ones_where_errors_are_known() -> None:
    found = decay()
    for level in (0.5, 0.95, 0.99):
        width = stats.t.ppf(0.5 + level / 2, N - 3)
        for name, (low, high) in found.confidence(level).items():
            value, error = found.parameters[name], found.stderr[name]
            assert [low, high] == pytest.approx([value - width * error, value + width * error])
    known = decay(sigma=np.full(N, 0.05), absolute_sigma=True, confidence=68)
    assert known.confidence()["a"][1] - known.parameters["a"] == pytest.approx(
        stats.norm.ppf(0.84) * known.stderr["a"], rel=1e-9
    )
    with pytest.raises(ValueError, match=r"between 0 and 1 .*, not 1"):
        found.confidence(1)


def test_correlations_are_covariances_by_errors() -> None:
    found = decay()
    errors = np.array([found.stderr[name] for name in found.parameters])
    np.testing.assert_allclose(found.correlation * np.outer(errors, errors), found.covariance, rtol=1e-12)
    open_ones = fit("y ~ a*b*x + c", {"x": X, "y": Y}).correlation
    assert np.isnan(open_ones).sum() == 8


def test_known_errors_have_a_chi_squared() -> None:
    found = decay(sigma=np.full(N, 0.05), absolute_sigma=True)
    assert found.chi_squared_p == pytest.approx(stats.chi2.sf(found.rss, N - 3), rel=1e-9)
    assert decay(sigma=np.full(N, 0.05)).chi_squared_p is None


def test_the_likelihood_of_weighted_rows_is_that_of_their_own_deviations() -> None:
    sigma = np.random.default_rng(1).uniform(0.02, 0.1, N)
    known, scaled = decay(sigma=sigma, absolute_sigma=True), decay(sigma=sigma)
    residuals = Y - known.predict({"x": X})
    assert known.log_likelihood == pytest.approx(np.sum(stats.norm.logpdf(residuals, 0, sigma)), rel=1e-12)
    assert scaled.rss is not None
    spread = sigma * math.sqrt(scaled.rss / N)
    assert scaled.log_likelihood == pytest.approx(np.sum(stats.norm.logpdf(residuals, 0, spread)), rel=1e-12)
    by = fit_by(
        MODEL,
        {"x": np.tile(X, 2), "y": np.tile(Y, 2), "s": np.tile(sigma, 2), "g": np.repeat([1, 2], N)},
        "g",
        sigma="s",
    )
    assert by[2].log_likelihood == pytest.approx(scaled.log_likelihood, rel=1e-9)


@each("groups", [1, 4])
@each("absolute", [False, True])
@each("sigma", [None, "s"])
def test_criteria_are_those_of_the_log_likelihood(sigma: str | None, absolute: bool, groups: int) -> None:
    if absolute and sigma is None:
        return
    spread = np.random.default_rng(1).uniform(0.02, 0.1, N)
    data = {name: np.tile(values, groups) for name, values in (("x", X), ("y", Y), ("s", spread))}
    options = {"sigma": sigma, "absolute_sigma": absolute}
    if groups == 1:
        found = fit(MODEL, data, **options)
    else:
        found = fit_by(MODEL, {**data, "g": np.repeat(np.arange(groups), N)}, "g", **options)[2]
    k = 3 if absolute else 4  # the parameters, and the variance if it is estimated
    assert found.log_likelihood is not None
    assert found.aic is not None
    assert found.aic == pytest.approx(2 * k - 2 * found.log_likelihood, rel=1e-12)
    assert found.aicc == pytest.approx(found.aic + 2 * k * (k + 1) / (N - k - 1), rel=1e-12)
    assert found.bic == pytest.approx(k * math.log(N) - 2 * found.log_likelihood, rel=1e-12)


def test_without_a_likelihood_there_are_no_criteria() -> None:
    found = decay(sigma=np.full(N, 0.05), x_sigma={"x": np.full(N, 0.01)})
    assert (found.log_likelihood, found.aic, found.aicc, found.bic) == (None, None, None, None)


def test_criteria_count_a_dispersion_that_is_estimated() -> None:
    """A gamma distribution has a shape of its own, as in R; counts have none, and one that is given is not counted."""
    x = np.linspace(0, 1, 25)
    y = np.exp(0.3 + x) * np.random.default_rng(3).gamma(4, 1 / 4, 25)
    for family, k in (("gamma", 3), ("poisson", 2), ("gaussian", 3), ("negative_binomial", 3)):
        target = y if family in ("gamma", "gaussian") else np.round(9 * y)
        found = fit("y ~ exp(a + b*x)", {"x": x, "y": target}, family=family)
        assert found.log_likelihood is not None
        assert found.aic == pytest.approx(2 * k - 2 * found.log_likelihood, rel=1e-12), family
        assert found.bic == pytest.approx(k * math.log(25) - 2 * found.log_likelihood, rel=1e-12), family


@each("rows", [4, 5, 9])
def test_penalised_errors_have_the_variance_about_the_fit_without_the_penalty(rows: int) -> None:
    """inv(H) X'X inv(H) s^2 with H = X'X + n l2 I, for any number of rows beyond that of the parameters."""
    x = np.linspace(-1, 1, rows)
    design = np.stack([np.ones(rows), x, x**2]).T
    y = 1 + x + 0.3 * np.cos(7 * x)
    found = fit("y ~ a + b*x + c*x^2", {"x": x, "y": y}, l2=0.05)
    variance = np.sum((y - design @ np.linalg.lstsq(design, y)[0]) ** 2) / (rows - 3)
    inverse = np.linalg.inv(design.T @ design + rows * 0.05 * np.eye(3))
    wanted = np.sqrt(np.diag(inverse @ design.T @ design @ inverse) * variance)
    assert [*found.stderr.values()] == pytest.approx(wanted, rel=1e-6)


@each("noise, is_perfect", [(0.0, True), (1e-15, True), (1e-12, False), (1e-6, False)])
def test_residuals_are_called_rounding_errors_only_where_they_are(noise: float, is_perfect: bool) -> None:
    found = fit("y ~ a + b*x", {"x": X, "y": 1 + 2 * X + noise * np.cos(50 * X)})
    assert any("the residuals are rounding errors" in text for text in found.warnings) is is_perfect


def test_a_perfect_fit_says_only_what_it_lacks() -> None:
    few = {"x": [1.0, 2.0], "y": [2.0, 3.0]}
    (_, words) = fit("y ~ a + b*x", few).warnings
    assert words == "the residuals are rounding errors, so there is no likelihood and no AIC"
    assert "the residuals are rounding errors" in fit("y ~ exp(a + b*x)", few, family="quasipoisson").warnings
    (reason, _) = fit("y ~ exp(a + b*x)", few, loss="gamma").warnings
    assert reason.startswith("no standard errors: there are no more rows than parameters")


CONSTANT_COUNTS = {"x": np.arange(1.0, 5), "k": np.full(4, 3.0), "n": np.full(4, 5.0), "one": np.ones(4)}


@each("family", ["poisson", "quasipoisson", "negative_binomial", "binomial", "quasibinomial", "gamma"])
def test_where_the_scatter_is_known_a_perfect_fit_has_errors_and_elsewhere_a_warning(family: str) -> None:
    """Equal counts have the errors of their family; only an estimate of their scatter is a rounding error."""
    is_share = "binomial" in family and family != "negative_binomial"
    model, weights = ("k/n ~ sigmoid(a + b*x)", "n") if is_share else ("k ~ exp(a + b*x)", "one")
    found = fit(model, CONSTANT_COUNTS, family=family, weights=weights)
    is_estimated = family in {"quasipoisson", "quasibinomial", "gamma"}
    assert found.converged
    assert any("the residuals are rounding errors" in text for text in found.warnings) is is_estimated
    if not is_estimated:
        variance = {"poisson": 3.0, "negative_binomial": 3.0, "binomial": 5 * 0.6 * 0.4}[family]
        assert found.stderr["b"] == pytest.approx(
            1 / np.sqrt(variance * 5), rel=1e-5
        )  # the squares of x - 2.5 sum to 5


@each("start", [1.0, 0.0, 1e-3, 1e3])
def test_a_parameter_whose_estimate_is_0_but_for_rounding_does_not_run_to_infinity(start: float) -> None:
    found = fit("-normal_logpdf(k, a + b*x, 1)", CONSTANT_COUNTS, likelihood=True, start={"b": start})
    assert found.converged
    assert found.stderr["b"] == pytest.approx(1 / np.sqrt(5), rel=1e-6)
    assert not any("infinity" in text for text in found.warnings)


def test_residuals_are_listed_without_their_weights() -> None:
    weights = np.linspace(0, 3, N)
    found = decay(weights=weights)
    residuals = (Y - found.predict({"x": X}))[1:]  # the first has no weight
    assert found.residual_quantiles == pytest.approx(np.quantile(residuals, [0, 0.25, 0.5, 0.75, 1]))


@each("unit", [1e-158, 1e140])
def test_errors_where_squares_vanish_or_are_huge(unit: float) -> None:
    plain = fit("y ~ a*x + b", {"x": X, "y": Y})
    scaled = fit("y ~ a*x + b", {"x": X, "y": Y * unit})
    for name in "ab":
        assert scaled.parameters[name] == pytest.approx(plain.parameters[name] * unit, rel=1e-9)
        assert scaled.stderr[name] == pytest.approx(plain.stderr[name] * unit, rel=1e-7)


@each("options", [{}, {"weights": "w"}, {"sigma": "w"}, {"sigma": "w", "absolute_sigma": True}, {"loss": "huber"}])
def test_figures_follow_the_unit_and_not_the_order_of_rows(options: dict[str, Any]) -> None:
    unit, order = 8.0, np.random.default_rng(3).permutation(N)
    weights = np.random.default_rng(1).uniform(0.5, 2, N)
    plain = goodness(decay(**{key: weights if value == "w" else value for key, value in options.items()}))
    has_unit = "sigma" not in options
    scaled = {"x": X[order], "y": unit * Y[order], "w": (weights if has_unit else unit * weights)[order]}
    found = goodness(fit(MODEL, scaled, **options))
    powers = {"residual_quantiles": 1, "scale": 1}
    if has_unit:
        powers |= {"rss": 2, "loss": 2, "reduced_chi_squared": 2, "rmse": 1, "residual_std": 1, "largest_residual": 1}
    added = dict.fromkeys(("aic", "aicc", "bic"), 2 * N * math.log(unit)) | {"log_likelihood": -N * math.log(unit)}
    for name, value in plain.items():
        if isinstance(value, float | tuple) and name not in ("null_test", "durbin_watson"):
            wanted = np.asarray(value) * unit ** powers.get(name, 0) + added.get(name, 0.0)
            assert found[name] == pytest.approx(wanted, rel=1e-6), name
    assert found["durbin_watson"] is None
    if plain["null_test"] is not None:
        np.testing.assert_allclose(np.hstack(found["null_test"][1:]), np.hstack(plain["null_test"][1:]), rtol=1e-6)


CONSTANTS = [
    ("y ~ a + b*x", 2.0),
    ("y ~ a + b*x", 0.0),
    ("y ~ a*exp(-b*x) + c", 2.7),
    ("y ~ a + b*x", 1e-9),
    ("y ~ a*x + b", 1e9),
]


@pytest.mark.parametrize(("model", "constant"), CONSTANTS)
@each("rows", [3, 20])
def test_a_target_that_is_the_same_in_all_rows_is_fitted(model: str, constant: float, rows: int) -> None:
    """It has no variation with which rounding errors could be compared, alone and as one of the groups."""
    x = np.arange(rows + 1.0)
    y = np.full(rows + 1, constant)
    groups = {"x": np.tile(x, 2), "y": np.r_[y, y + np.exp(-x)], "g": np.repeat([1, 2], rows + 1)}
    for found in (fit(model, {"x": x, "y": y}), *([fit_by(model, groups, "g")[1.0]] if rows == 20 else [])):
        assert found.converged
        assert found.predict({"x": x}) == pytest.approx(y, rel=1e-14, abs=1e-300)
        assert found.r_squared is None or math.isnan(found.r_squared)
        assert any("the residuals are rounding errors" in warning for warning in found.warnings)
        assert not any("without bound" in warning for warning in found.warnings)


def test_a_durbin_watson_figure_needs_rows_in_order() -> None:
    generator = np.random.default_rng(0)
    order = generator.permutation(N)
    assert fit(MODEL, {"x": X[order], "y": Y[order]}).durbin_watson is None


# --- generalised linear models


Curve = Callable[[Any], Any]


def reweighted(y: Any, inverse: Curve, slope: Curve, variance: Curve) -> Any:
    """Fit a generalised linear model by Fisher scoring; return its information matrix, too."""
    design = np.column_stack((np.ones(N), X))
    theta = np.array([0.1, 0.0])
    for _ in range(200):
        score = design @ theta
        mean, rise = inverse(score), slope(score)
        weight = rise**2 / variance(mean)
        working = weight * (score + (y - mean) / rise)
        theta = np.linalg.solve(design.T @ (design * weight[:, None]), design.T @ working)
    return theta, design, inverse(design @ theta)


def test_counts() -> None:
    generator = np.random.default_rng(0)
    y = generator.poisson(np.exp(0.5 + 0.4 * X)).astype(float)
    theta, design, mean = reweighted(y, np.exp, np.exp, lambda mean: mean)
    found = fit("y ~ exp(a + b*x)", {"x": X, "y": y}, family="poisson")
    assert found.converged
    assert [*found.parameters.values()] == pytest.approx(theta.tolist(), rel=1e-9)
    expected = np.linalg.inv(design.T @ (design * mean[:, None]))
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-8)
    assert found.log_likelihood == pytest.approx(np.sum(stats.poisson.logpmf(y, mean)), rel=1e-10)
    assert found.aic == pytest.approx(4 - 2 * found.log_likelihood, rel=1e-12)  # type: ignore[operator]
    ratio = np.where(y > 0, y * np.log(np.where(y > 0, y, 1) / mean), 0)
    assert found.deviance == pytest.approx(2 * np.sum(ratio - (y - mean)), rel=1e-9)
    assert found.r_squared is None
    assert found.loss == pytest.approx(np.mean(mean - y * np.log(mean)), rel=1e-12)


def test_the_test_of_overdispersion_has_the_moments_of_the_family() -> None:
    """Pearson's chi-squared of Poisson counts has the variance 2 + 1/mean per row; of binomial ones, with n trials,
    2 + (1/(p(1 - p)) - 6)/n."""
    generator = np.random.default_rng(5)
    y = generator.poisson(0.7, 50).astype(float)
    found = fit("y ~ exp(a)", {"y": y}, family="poisson", no_columns=True)
    squares = np.sum((y - y.mean()) ** 2) / y.mean()
    assert found.pearson_chi_squared == pytest.approx(squares, rel=1e-9)
    score = (squares - 49) / math.sqrt(50 * (2 + 1 / y.mean()))
    assert found.overdispersion_p == pytest.approx(stats.norm.sf(score), rel=1e-7)
    trials = np.repeat([4.0, 9.0], 25)
    y = generator.binomial(trials.astype(int), 0.3) / trials
    found = fit("y ~ sigmoid(a)", {"y": y, "n": trials}, family="binomial", weights="n", no_columns=True)
    p = np.average(y, weights=trials)
    squares = np.sum(trials * (y - p) ** 2) / (p * (1 - p))
    score = (squares - 49) / math.sqrt(np.sum(2 + (1 / (p * (1 - p)) - 6) / trials))
    assert found.overdispersion_p == pytest.approx(stats.norm.sf(score), rel=1e-7)


def test_two_outcomes_and_shares_of_trials() -> None:
    generator = np.random.default_rng(0)
    t = (generator.random(N) < 1 / (1 + np.exp(2 - X))).astype(float)
    logistic = lambda score: 1 / (1 + np.exp(-score))  # noqa: E731
    theta, design, mean = reweighted(t, logistic, lambda s: logistic(s) * (1 - logistic(s)), lambda p: p * (1 - p))
    found = fit("t ~ sigmoid(a + b*x)", {"x": X, "t": t}, family="binomial")
    assert [*found.parameters.values()] == pytest.approx(theta.tolist(), rel=1e-8)
    np.testing.assert_allclose(
        found.covariance, np.linalg.inv(design.T @ (design * (mean * (1 - mean))[:, None])), rtol=1e-7
    )
    assert found.accuracy == np.mean((mean > 0.5) == (t > 0.5))
    assert found.deviance == pytest.approx(-2 * found.log_likelihood, rel=1e-12)  # type: ignore[operator]
    rate = t.mean()
    entropy = -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)
    assert found.null_deviance == pytest.approx(2 * N * entropy)
    trials = generator.integers(1, 20, N).astype(float)
    hits = generator.binomial(trials.astype(int), mean)
    shares = fit("s ~ sigmoid(a + b*x)", {"x": X, "s": hits / trials, "m": trials}, family="binomial", weights="m")
    p = shares.predict({"x": X})
    assert shares.log_likelihood == pytest.approx(np.sum(stats.binom.logpmf(hits, trials, p)), rel=1e-9)


def test_positive_numbers() -> None:
    generator = np.random.default_rng(0)
    y = generator.gamma(4, np.exp(0.5 + 0.4 * X) / 4)
    theta, _, mean = reweighted(y, np.exp, np.exp, lambda mean: mean**2)
    found = fit("y ~ exp(a + b*x)", {"x": X, "y": y}, family="gamma")
    assert [*found.parameters.values()] == pytest.approx(theta.tolist(), rel=1e-7)
    assert found.dispersion == pytest.approx(np.sum((y / mean - 1) ** 2) / (N - 2), rel=1e-9)
    assert found.deviance == pytest.approx(2 * np.sum(-np.log(y / mean) + y / mean - 1), rel=1e-9)
    shape = N / found.deviance  # type: ignore[operator]
    assert found.log_likelihood == pytest.approx(np.sum(stats.gamma.logpdf(y, shape, scale=mean / shape)), rel=1e-9)
    design = np.column_stack((np.ones(N), X))
    # Expected information, as R's glm: with the logarithmic link it does not depend on the observations.
    np.testing.assert_allclose(found.covariance, np.linalg.inv(design.T @ design) * found.dispersion, rtol=1e-7)  # type: ignore[operator]


def test_normal_numbers_have_errors_of_the_exact_hessian() -> None:
    linear = [fit("y ~ a + b*x", {"x": X, "y": Y}, family=family) for family in (None, "gaussian")]
    np.testing.assert_allclose(linear[0].covariance, linear[1].covariance, rtol=1e-9)
    found, plain = decay(family="gaussian"), decay()
    assert found.parameters == pytest.approx(plain.parameters, rel=1e-9)
    assert found.stderr != plain.stderr
    assert found.stderr == pytest.approx(plain.stderr, rel=0.2)


def test_a_likelihood_of_ones_own() -> None:
    data = {"x": X, "y": Y}
    found = fit("((y - a - b*x)/s)^2/2 + log(s) + log(2*pi)/2", data, likelihood=True)
    line = fit("y ~ a + b*x", data)
    assert found.log_likelihood == pytest.approx(line.log_likelihood, rel=1e-10)
    assert found.aic == pytest.approx(line.aic, rel=1e-10)
    ratio = math.sqrt((N - 2) / N)
    assert found.stderr["b"] == pytest.approx(line.stderr["b"] * ratio, rel=1e-8)
    assert found.stderr["s"] == pytest.approx(found.parameters["s"] / math.sqrt(2 * N), rel=1e-8)
    assert found.deviance == pytest.approx(-2 * found.log_likelihood)  # type: ignore[operator]


@each(
    ("model", "options", "message"),
    [
        (MODEL, {"family": "poison"}, "there is no family poison; did you mean poisson?"),
        (MODEL, {"family": "poisson", "loss": "mse"}, "a family determines its loss"),
        (MODEL, {"likelihood": True}, "likelihood needs a model without `~`"),
        ("y - a", {"likelihood": True, "loss": "mse"}, "likelihood cannot be combined with loss"),
        ("y - a", {"family": "gamma"}, "family requires a model `target ~ prediction`"),
        (MODEL, {"confidence": 0}, "between 0 and 1 .*, not 0"),
        (MODEL, {"confidence": 100}, "between 0 and 1 .*, not 100"),
    ],
)
def test_what_does_not_go_together(model: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        fit(model, {"x": X, "y": Y}, **options)


@each(
    ("family", "y", "message"),
    [
        ("poisson", -1.0, "the loss poisson needs a target not below 0"),
        ("gamma", 0.0, "the loss gamma needs a target above 0"),
        ("binomial", 1.5, "the loss bce needs a target between 0 and 1"),
    ],
)
def test_targets_that_a_family_does_not_have(family: str, y: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit("y ~ exp(a*x)", {"x": [1, 2], "y": [0.5, y]}, family=family)


# --- classes


def test_classes_that_a_model_separates_are_warned_of() -> None:
    x = np.linspace(-1, 1, 20)
    found = fit("t ~ sigmoid(a*x + b)", {"x": x, "t": (x > 0).astype(float)}, loss="bce")
    assert not found.converged
    assert "the model separates classes completely (20 rows are predicted with certainty): `a`" in found.warnings[-1]
    overlapping = fit("t ~ sigmoid(a*x + b)", {"x": x, "t": (np.sin(40 * x) + 3 * x > 0).astype(float)}, loss="bce")
    assert overlapping.converged
    assert not overlapping.warnings


def test_a_single_layer_of_a_softmax_reaches_its_one_minimum_and_has_errors() -> None:
    generator = np.random.default_rng(0)
    z = generator.normal(size=(300, 2))
    kind = np.array(["low", "middle", "high"])[np.digitize(z[:, 0] + 0.7 * generator.normal(size=300), [-0.5, 0.5])]
    data = {"u": z[:, 0], "v": z[:, 1], "kind": kind}
    found = fit("kind ~ softmax(dense([u, v], 3))", data)
    assert (found.optimizer, found.converged) == ("lbfgs", True)
    again = fit("kind ~ softmax(dense([u, v], 3))", data, seed=5)
    weights, biases = found.parameters["dense.0.weight"], found.parameters["dense.0.bias"]
    np.testing.assert_allclose(weights, again.parameters["dense.0.weight"], atol=1e-6)
    np.testing.assert_allclose([weights.sum(axis=0).tolist(), [biases.sum(), 0]], 0, atol=1e-9)
    # Compare with the model whose scores of one class are 0: its parameters are differences of these.
    text = "kind ~ softmax([0, a + b*u + c*v, f + g*u + h*v])"
    differences = fit(text, data)
    assert differences.classes is not None
    high, low = map(differences.classes.index, ("high", "low"))
    assert found.loss == pytest.approx(differences.loss, rel=1e-9)
    np.testing.assert_allclose(weights[low] - weights[high], [differences.parameters[n] for n in "bc"], atol=1e-6)
    places = [2 * low, 2 * high]  # the elements of u among the weights
    unit = np.zeros(9)
    unit[places] = [1, -1]
    assert unit @ found.covariance @ unit == pytest.approx(differences.stderr["b"] ** 2, rel=1e-5)


# --- reports


@pytest.mark.parametrize("model", ["y ~ a + b*x", "y ~ a*exp(b*x)", "y ~ a*x^b"])
def test_a_predictor_that_is_the_same_in_all_rows_explains_exactly_nothing(model: str) -> None:
    generator = np.random.default_rng(1)
    for _ in range(amount(1, 5, 5)):
        y = generator.uniform(1, 3, 12)
        found = fit(model, {"x": np.full(12, generator.uniform(1, 4)), "y": y})
        assert found.r_squared == 0
        assert found.stderr == {"a": None, "b": None}
        assert any("determine only a combination of `a`, `b`, not each" in warning for warning in found.warnings)


def test_what_is_not_known_is_null_everywhere(tmp_path: Any) -> None:
    path = tmp_path / "data.csv"
    path.write_text("x,y\n0,2\n1,2\n2,2\n3,2\n")
    output = run_cli(["train", "y ~ a + b + c*x", str(path), "--json"])
    assert '"nan"' not in output
    report = output.json
    assert report["stderr"]["a"] is None
    assert report["covariance"]["a"] == {"a": None, "b": None, "c": None}
    assert report["correlation"]["a"]["b"] is None
    assert report["confidence"]["a"] is None
    assert report["r_squared"] is None


def test_saved_models_keep_their_figures(tmp_path: Any) -> None:
    found = decay(confidence=0.9)
    found.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert goodness(again) == goodness(found)
    assert again.confidence() == found.confidence()
    assert again.aic == found.aic


@each("model", ["k ~ softmax(dense(x, 3))", "k ~ softmax(dense([x, z], 3))"])
@each("seed", [0, 1])
def test_three_classes_that_a_line_separates_are_no_failure(model: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    x, z = generator.uniform(-2, 2, (2, 60))
    found = fit(model, {"x": x, "z": z, "k": np.digitize(x, [-0.5, 0.5])})
    assert not found.converged
    assert found.accuracy == 1
    assert not found.failure
    assert [text.partition(" (")[0] for text in found.warnings] == ["the model separates classes completely"]


def test_a_class_that_is_separated_from_two_that_are_not() -> None:
    """R warns here that fitted probabilities are numerically 0 or 1."""
    x = np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 20, 21, 22, 23])
    k = ["a", "b", "a", "b", "b", "a", "b", "b", "c", "c", "c", "c"]
    found = fit("k ~ softmax(dense(x, 3))", {"x": x, "k": k})
    said = "the model separates some rows completely from those of other classes (4 rows are predicted with certainty)"
    assert any(text.startswith(said) for text in found.warnings)
    assert not found.failure


@each("family", ["binomial", "quasibinomial"])
@each("rows", [10, 60])
def test_separated_classes_have_the_test_of_the_limit_and_no_errors(rows: int, family: str) -> None:
    """The deviance goes to 0, so the statistic is the null deviance; a dispersion cannot be estimated."""
    x, z = np.random.default_rng(rows).normal(0, 1, (2, rows))
    k = (x + z > 0).astype(float)
    found = fit("k ~ sigmoid(a + b*x + c*z)", {"x": x, "z": z, "k": k}, family=family)
    assert not found.converged
    assert {*found.stderr.values(), *found.p_values.values()} == {None}
    share = k.mean()
    deviance = -2 * rows * (share * math.log(share) + (1 - share) * math.log(1 - share))
    if family == "binomial":
        assert found.null_test.statistic == pytest.approx(deviance, rel=1e-6)
        assert found.null_test.p == pytest.approx(stats.chi2.sf(deviance, 2), rel=1e-5)
    else:
        assert found.null_test is None


@each("family", ["poisson", "binomial", "negative_binomial"])
@each("value", [0, 1])
def test_equal_targets_are_not_tested_against_a_constant(value: int, family: str) -> None:
    link = "sigmoid" if family == "binomial" else "exp"
    data = {"x": np.arange(6.0), "k": np.full(6, value)}
    assert fit(f"k ~ {link}(a + b*x)", data, family=family).null_test is None


def test_a_level_all_of_whose_rows_are_of_one_class_is_no_separation_of_all() -> None:
    generator = np.random.default_rng(0)
    g = generator.integers(0, 3, 400)
    k = np.where(g == 2, 1, generator.uniform(size=400) < 0.4).astype(int)
    found = fit("k ~ sigmoid(a[g])", {"g": g, "k": k}, loss="bce")
    assert "some rows completely from those of other classes" in found.warnings[-1]
    assert "`a[2]` would go to infinity, so the values of such parameters" in found.warnings[-1]


@each("seed", [1, 3, 22])
def test_a_parameter_about_0_beside_rows_beyond_doubt_does_not_run_to_infinity(seed: int) -> None:
    generator = np.random.default_rng(seed)
    x, z = generator.uniform(-25, 25, 400), generator.normal(size=400)
    k = (generator.uniform(size=400) < 1 / (1 + np.exp(-1.5 * x))).astype(int)
    found = fit("k ~ sigmoid(a*x + b + c*z)", {"x": x, "k": k, "z": z}, loss="bce")
    assert abs(found.parameters["c"]) < 0.1 * found.stderr["c"]
    assert found.converged
    assert found.warnings == []


def test_a_probability_of_exactly_one_half_is_that_of_class_0() -> None:
    x, t = np.array([-2.0, -1, 0, 0, 0, 1, 2]), np.array([0.0, 1, 0, 0, 1, 0, 1])
    found = fit("t ~ sigmoid(a*x)", {"x": x, "t": t}, loss="bce")
    assert (found.predict({"x": x})[2:5] == 0.5).all()
    assert found.parameters["a"] > 0
    assert found.accuracy == pytest.approx(4 / 7)


@pytest.mark.parametrize(
    ("model", "point"),
    [
        ("t ~ sigmoid(a*(x - m)/s)", [50, 0.1, 0.1]),
        ("t ~ sigmoid(a*(x - m)/s)", [1.2, 0.4, 0.2]),  # at the minimum, any multiple of a and s is as good
        ("t ~ sigmoid(exp(a)*(x - m))", [5, 0.3]),
        ("t ~ sigmoid(exp(a)*(x - m))", [300, 0.3]),
        ("t ~ sigmoid(a*x + b)", [200, 0]),
    ],
)
def test_no_class_is_separated_where_a_slope_leads_back_or_along_a_ratio(model: str, point: list[float]) -> None:
    generator, x = np.random.default_rng(1), np.linspace(-3, 3, 60)
    data = {"x": x, "t": (generator.random(60) < 1 / (1 + np.exp(1 - 3 * x))).astype(int)}
    objective = Objective(model, data, loss="bce")
    assert figures.find_separation(objective, np.array(point, float))[0] == ""
    found = fit(model, data, loss="bce", start=dict(zip(objective.parameters, point, strict=True)))
    assert not any("separates" in warning for warning in found.warnings)


def test_classes_that_overlap_are_not_called_separated() -> None:
    x = np.array([-3.0, -2, -1, 0, 1, 2, 3, 40])
    found = fit("k ~ sigmoid(a + b*x)", {"x": x, "k": [0, 0, 1, 0, 1, 0, 1, 1]}, loss="bce")
    assert found.converged
    assert found.warnings == []


def test_where_a_fit_stops_too_early_there_are_no_errors() -> None:
    early, near = (decay(optimizer="adam", epochs=epochs, learning_rate=0.05) for epochs in (20, 400))
    assert not early.converged
    assert set(early.stderr.values()) == {None}
    assert any("standard errors away from the minimum" in text for text in early.warnings)
    assert near.converged
    assert near.stderr == pytest.approx(decay().stderr, rel=1e-3)


def test_where_there_is_no_loss_there_are_no_figures() -> None:
    found = fit("y ~ a + b*log(x)", {"x": X, "y": Y})
    assert not found.converged
    assert found.aic is None
    assert found.residual_quantiles is None
    assert found.durbin_watson is None


def test_the_gaussian_family_has_the_digits_of_least_squares_where_the_model_is_linear() -> None:
    x = np.linspace(3, 9, 80)
    y = np.sin(x) + np.random.default_rng(2).normal(0, 0.01, 80)
    model = "y ~ " + " + ".join(f"b{k}*x^{k}" for k in range(9))  # too ill-conditioned for a Hessian
    squares, family = fit(model, {"x": x, "y": y}), fit(model, {"x": x, "y": y}, family="gaussian")
    assert family.stderr == pytest.approx(squares.stderr, rel=1e-9)


def noisy_line(seed: int, rows: int = 40) -> tuple[Any, Any]:
    """Return x and a line with independent normal errors."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 5, rows)
    return x, 1 + 2 * x + 0.1 * generator.normal(size=rows)


@each("weight", [1.0, 4.0])
def test_a_row_far_from_the_curve_is_named_as_an_outlier(weight: float) -> None:
    x, y = noisy_line(1)
    y[7] += 0.9
    weights = np.where(np.arange(40) == 7, weight, 1.0)
    found = fit("y ~ a + b*x", {"x": x, "y": y}, weights=weights)
    assert found.dof is not None
    assert found.rss is not None
    (warning,) = found.warnings
    assert warning.startswith(f"row 8 (y = {y[7]:g}, x = {x[7]:g}) is an outlier")
    largest = weight * (y[7] - found.predict({"x": x[7:8]})[0]) ** 2
    distance = math.sqrt(largest * (found.dof - 1) / (found.rss - largest))
    assert f"{distance:.3g} standard deviations of the other residuals" in warning


def test_scatter_that_rises_with_the_prediction_is_reported_with_its_rank_correlation() -> None:
    x, y = noisy_line(2, 200)
    y += (y - 1 - 2 * x) * 4 * x
    found = fit("y ~ a + b*x", {"x": x, "y": y})
    (warning,) = found.warnings
    prediction = found.predict({"x": x})
    score = stats.spearmanr(np.abs(y - prediction), prediction).statistic * math.sqrt(199)
    assert f"predictions are large ({score:.2g} standard errors from equal scatter)" in warning
    weighted = fit("y ~ a + b*x", {"x": x, "y": y}, sigma=0.1 * (1 + 4 * x))
    assert weighted.warnings == []


def test_rows_with_equal_normal_errors_have_neither_outliers_nor_trends() -> None:
    columns = [noisy_line(seed) for seed in range(100)]
    x, y = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    fits = fit_by("y ~ a + b*x", {"x": x, "y": y, "group": np.repeat(np.arange(100), 40)}, "group")
    assert sum(len(found.fit.warnings) for found in fits) <= 1  # of 100 fits, 0.07 are expected


@each("rows, offset", [(10, 0.0), (10, 1e6), (200, 1e9), (3000, -1e12)])
def test_a_constant_explains_nothing_whatever_the_size_and_number_of_the_targets(rows: int, offset: float) -> None:
    targets = offset + np.random.default_rng(rows).normal(size=rows)
    assert fit("y ~ m", {"y": targets}).r_squared == 0


@each("model", ["y ~ a*exp(-b*x)", "y ~ a + b*x", "y ~ a*exp(b*x) + c", "y ~ a + b/(1 + x)"])
def test_errors_of_a_constant_target_are_those_of_rounding(model: str) -> None:
    found = fit(model, {"x": np.linspace(0, 4, 12), "y": np.full(12, 3.0)})
    assert found.rss == pytest.approx(0, abs=1e-28)
    for name, value in found.parameters.items():
        error = found.stderr[name]
        assert error is None or error > 1e-17
        truth = 3.0 if (name == "a" and "c" not in found.parameters) or name == "c" else 0.0
        assert error is None or abs(value - truth) < 4 * error


# --- Figures of rows, by their definitions


ROWS = np.random.default_rng(9)
GROUPED = {"x": ROWS.uniform(0, 3, 110), "z": ROWS.normal(size=110), "g": np.repeat([0, 1, 2], [40, 7, 63])}
GROUPED["x"][40:] = np.sort(GROUPED["x"][40:])
GROUPED["y"] = 1 + 2 * GROUPED["x"] + (0.2 + GROUPED["x"]) * ROWS.normal(size=110)
GROUPED["n"] = ROWS.poisson(np.exp(0.3 + 0.4 * GROUPED["x"])).astype(float)
GROUP_WEIGHTS = ROWS.uniform(0.3, 3, 110)
PARTS = [np.flatnonzero(GROUPED["g"] == k) for k in range(3)]


@each("model, options", [
    ("y ~ a + b*x", {}),
    ("y ~ a*exp(-b*x)", {}),
    ("y ~ a + b*x + z", {}),
    ("[y, z] ~ [a + b*x, a*x]", {}),
    ("y ~ a + b*x", {"loss": "huber"}),
    ("[y, z] ~ [a + b*x, a*x]", {"loss": "huber"}),
    ("n ~ exp(a + b*x)", {"loss": "poisson"}),
])  # fmt: skip
@each("weights", [None, GROUP_WEIGHTS])
def test_figures_of_groups_are_those_of_their_rows_alone(model: str, options: dict[str, Any], weights: Any) -> None:
    objective = Objective(model, GROUPED, weights=weights, **options)
    theta = np.array([[0.9, 0.5], [1.2, 0.3], [0.7, 0.6]])
    found = figures_of_groups(GroupBatch(objective, PARTS), theta, np.full(3, objective.layout.size))
    for part, rows, at in zip(found, PARTS, theta, strict=True):
        alone = objective.select_rows(rows)
        assert part is not None
        logarithms = 0.0 if weights is None else np.sum(np.log(weights[rows])) * objective.components
        assert part.log_weights == pytest.approx(logarithms, rel=1e-12)
        assert weights is None or figures.sum_log_weights(alone) == pytest.approx(logarithms, rel=1e-12)
        assert part.variation == pytest.approx(alone.target_variation(), rel=1e-12)
        rank = 2 if model in ("y ~ a + b*x", "n ~ exp(a + b*x)") else 0
        assert part.rank_with_constant == figures.rank_with_constant(alone) == rank
        if "loss" in options and options["loss"] == "poisson":
            assert part.sums == pytest.approx(likelihood_sums(alone, at), rel=1e-10)
            assert part.residuals == {}
            continue
        assert part.sums == LikelihoodSums(*np.zeros(6))
        wanted = figures._residual_summary(alone, at, objective.layout.size)
        assert part.residuals.keys() == wanted.keys()
        for name, value in wanted.items():
            assert part.residuals[name] == (value if value is None else pytest.approx(value, rel=1e-9, abs=1e-12)), name
        check_residual_figures(wanted, alone, at, rows)


def check_residual_figures(found: dict[str, Any], objective: Objective, theta: Any, rows: Any) -> None:
    """Compare the figures of residuals with their definitions."""
    weights = objective.column(figures.WEIGHT) if objective.is_weighted else np.ones(len(rows))
    residuals = objective.evaluate_rows(objective.kernels.residuals, theta)
    weighted = residuals * np.sqrt(weights)
    assert found["residual_quantiles"] == pytest.approx(np.quantile(residuals, [0, 0.25, 0.5, 0.75, 1]))
    assert found["largest_residual"] == pytest.approx(np.abs(weighted).max())
    is_single, x = len(residuals) == 1, GROUPED["x"][rows]
    is_ordered = is_single and rows[0] >= 40 and objective.model.predictors == ("x",)
    ratio = np.sum(np.diff(weighted[0]) ** 2) / np.sum(weighted[0] ** 2) if is_ordered else None
    assert found["durbin_watson"] == (pytest.approx(ratio) if is_ordered else None)
    predictions = objective.evaluate_rows(objective.kernels.target_and_prediction, theta)[-1]
    trend = stats.spearmanr(np.abs(weighted[0]), predictions).statistic * math.sqrt(len(x) - 1)
    assert found["scatter_trend"] == pytest.approx(trend if is_single and len(rows) >= 30 else 0, abs=1e-9)
    if "residual_std" in found:  # proposal 2 of Huber
        size, tail = found["residual_std"], stats.norm.sf(1.345)
        mean = 1 - 2 * (1.345 * stats.norm.pdf(1.345) + tail) + 2 * 1.345**2 * tail  # of min(z², 1.345²)
        limited = np.minimum((weighted / size) ** 2, 1.345**2)
        assert np.sum(limited) == pytest.approx((residuals.size - 2) * mean, rel=1e-6)


def test_groups_with_undefined_residuals_are_examined_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    objective = Objective("y ~ a*log(x - b)", GROUPED)
    batch = GroupBatch(objective, PARTS)
    with ignore_float_errors():
        assert (
            figures_of_groups(batch, np.array([[1.0, -1], [1, -1], [1, 2]]), np.full(3, 2)) == [None] * 3
        )  # one part of all rows
        (fine,) = figures_of_groups(batch.take(np.array([0])), np.array([[1.0, -1]]), np.full(1, 2))
        parts = GroupBatch.parts
        monkeypatch.setattr(GroupBatch, "parts", lambda batch, fits=None: parts(batch, fits, most=1))
        several = figures_of_groups(
            batch.take(np.array([1, 0, 2])), np.array([[1.0, -1], [1, -1], [1, 2]]), np.full(3, 2)
        )
    assert fine is not None
    assert None not in several[:2]  # of parts of one group each
    assert several[1:] == [fine, None]
    for options in ({"l2": 0.1}, {"loss": "mae"}, {"loss": "gamma"}):
        other = Objective("y ~ exp(a + b*x)", {**GROUPED, "y": np.abs(GROUPED["y"])}, **options)
        assert figures_of_groups(GroupBatch(other, PARTS), np.ones((3, 2)), np.full(3, 2)) == [None] * 3


def test_a_constant_is_in_the_span_of_columns_of_any_unit() -> None:
    count, x = 12, np.linspace(0, 1, 12)
    for unit in (1e-9, 1.0, 1e9):
        for columns, rank in (
            ([np.ones(count), x], 2),
            ([x, 1 - x], 2),
            ([x, x**2], 0),
            ([np.ones(count), np.ones(count)], 1),
            ([np.ones(count), np.zeros(count)], 1),
            ([np.ones(count), 2 * x, x], 2),
            ([x, x, 1 - x, x**2], 3),
            ([x, x, x**2], 0),
            ([x < 0.5, x >= 0.5], 2),
        ):
            rows = GatheredRows(lambda _: np.ones(count), np.array([count]), is_weighted=False)
            for offset, has_none in ((np.zeros(count), True), (np.full(count, 3.0), True), (x, False)):
                stacked = np.vstack((*(np.array(column, float) * unit for column in columns), offset))
                assert ranks_with_constant(rows, stacked).tolist() == [rank if has_none else 0]
    assert differences(np.array([[1.0, 4, 2, 2]]), np.array([0, 3])).tolist() == [[0, 3, -2, 0]]


@each("gain, extra, unit, dof", [(12.0, 2, 1.5, 20), (0.5, 1, None, 20), (-1e-9, 1, 2.0, 5), (80.0, 3, None, 9)])
def test_gains_of_parameters_are_tested_by_f_or_by_the_likelihood_ratio(
    gain: float, extra: int, unit: float | None, dof: int
) -> None:
    found = figures.significance_test(gain, extra, unit, dof)
    kept = max(gain, 0.0)
    if unit is None:
        assert found[:3] == ("likelihood ratio", kept, (extra,))
        assert found.p == pytest.approx(stats.chi2.sf(kept, extra), rel=1e-9)
    else:
        assert found[:3] == ("F", pytest.approx(kept / extra / unit), (extra, dof))
        assert found.p == pytest.approx(stats.f.sf(kept / extra / unit, extra, dof), rel=1e-9)


@each("rhat, has_converged", [(1.0099, True), (1.0101, False), (math.nan, False)])
def test_chains_agree_up_to_an_rhat_of_1_01(rhat: float, has_converged: bool) -> None:
    assert figures.ParameterPosterior(0, 1, -1, 0, 1, 900, 900, rhat).has_converged is has_converged


@each("change, words", [
    ({}, "the counts scatter more than Poisson counts: the dispersion is 1.5 instead of 1, so the standard errors are "
         "too small by a factor of 1.2; use --family quasipoisson or negative_binomial"),
    ({"overdispersion_p": 2.4e-4}, ""),
    ({"overdispersion_p": None}, ""),
    ({"dispersion": 1.19}, ""),
    ({"dispersion": 1.2}, "the counts scatter more"),
    ({"dispersion": math.inf}, ""),
    ({"loss": "bce"}, "the proportions scatter more than binomial ones: the dispersion is 1.5 instead of 1"),
    ({"loss": "bce", "dispersion": 4.0}, "by a factor of 2; use --family quasibinomial"),
    ({"theta": math.inf}, "theta has no finite estimate"),
    ({"theta": 3.0}, "the counts scatter more"),
    ({"non_integers": 1}, "not all targets are whole numbers, as counts are"),
    ({"non_integers": 1, "loss": "bce"}, "not all products of weight and target are whole numbers, as numbers of"),
    ({"non_integers": 1, "loss": "bce"}, "use the numbers of trials as --weights, or --family quasibinomial"),
    ({"non_integers": 1}, "there is no likelihood, and the standard errors assume the variance of counts; use --family "
                          "quasipoisson"),
])  # fmt: skip
def test_warnings_of_families_are_given_where_their_figures_call_for_them(change: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"dispersion": 1.5, "overdispersion_p": 2.2e-4, **change}
    loss = given.pop("loss", "poisson")
    found = figures.family_warnings(GoodnessOfFit(**given), loss)
    assert len(found) == bool(words)
    assert not words or words in found[0]


def sampled_median(values: Any, limit: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """Return the robust scale of residuals, with so few sampled rows that the median is bracketed."""
    monkeypatch.setattr(figures, "RESIDUALS", figures.ResidualSettings(max_sampled_rows=limit, median_margin=0.2))
    monkeypatch.setattr(figures, "subsample", lambda objective: objective.select_rows(np.arange(0, len(values), 7)))
    return figures.robust_scale(Objective("y ~ a", {"y": values}), np.zeros(1))


@pytest.mark.parametrize("count", [400, 401])
@pytest.mark.parametrize("kind", ["spread", "tied", "off"])
def test_medians_of_very_many_rows_are_exact(kind: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(count).normal(size=count)
    if kind == "tied":
        values = values.round(0)
    if kind == "off":  # the sample is not like the other rows
        values[::7] *= 100
    read, residuals = list[int](), figures._absolute_residuals
    monkeypatch.setattr(figures, "_absolute_residuals", lambda o, theta: read.append(o.rows) or residuals(o, theta))
    found = sampled_median(values, 50, monkeypatch)
    assert found == pytest.approx(1.482602218505602 * np.median(np.abs(values)), rel=1e-12)
    assert (count in read) is (kind == "off")  # all of them are kept in memory only if the sample misleads


@each("count", [8, 9])
def test_medians_are_exact_whatever_bounds_are_thought_to_bracket_them(count: int) -> None:
    values = np.random.default_rng(count).normal(size=count)
    objective, sizes = Objective("y ~ a", {"y": values}), np.sort(np.abs(values))
    for low, high in itertools.combinations_with_replacement(sizes.tolist(), 2):
        found = figures._median_between(objective, np.zeros(1), low, high)
        assert found == pytest.approx(np.median(sizes), rel=1e-14)


@each("rows, most", [(5, 9), (9, 9), (1000, 300)])
def test_rows_are_sampled_at_random_and_each_once(rows: int, most: int) -> None:
    found = figures.sampled_rows(rows, most)
    assert (np.diff(found) > 0).all()
    assert 0 <= found[0] <= found[-1] < rows
    assert found.tolist() == [*range(rows)] if rows <= most else 0.8 * most < len(found) <= most
    if rows > most:
        assert abs(found.mean() / rows - 0.5) < 0.05


@each("weights", [None, np.array([1.0, 2, 0, 1, 3, 1, 1])])
def test_the_robust_share_of_variance_is_that_of_medians(weights: Any) -> None:
    x, y = np.arange(7.0), np.array([0.1, 1.4, 99, 2.8, 4.3, 4.9, 60])
    objective = Objective("y ~ a*x", {"x": x, "y": y}, weights=weights)
    root = np.sqrt(np.ones(7) if weights is None else weights)
    used = root > 0
    median = np.median(np.abs((y - 1.1 * x) * root)[used]), np.median(np.abs((y - np.median(y[used])) * root)[used])
    found = figures.robust_r_squared(objective, np.array([1.1]))
    assert found == pytest.approx(1 - (median[0] / median[1]) ** 2, rel=1e-12)
    assert math.isnan(figures.robust_r_squared(Objective("y ~ a*x", {"x": x, "y": np.ones(7)}), np.array([1.1])))


@each("loss", ["huber", "cauchy", "logcosh"])
def test_influence_norms_are_those_of_hubers_covariance(loss: str) -> None:
    """s K sqrt(sum(psi^2)) and mean(psi'), with psi by differences of the loss of a row."""
    x, y = np.arange(9.0), np.array([0.3, 1.4, 9, 2.8, 4.3, 4.9, 6.6, 7.1, 3])
    objective = Objective("y ~ a*x", {"x": x, "y": y}, loss=loss)
    objective.set_scale(0.8)

    def row_loss(at: float) -> Any:
        shifted = Objective("y ~ a*x", {"x": x, "y": y + at}, loss=loss)
        shifted.set_scale(0.8)
        return shifted.evaluate_rows(shifted.kernels.row_loss, np.ones(1))[0] / 0.64

    h = 1e-4 * 0.8
    low, middle, high = row_loss(-h), row_loss(0.0), row_loss(h)
    psi, slope = (high - low) / 2e-4, (high - 2 * middle + low) / 1e-8
    correction = 1 + 1 / 9 * (np.mean(slope**2) / np.mean(slope) ** 2 - 1)
    batch = GroupBatch(objective, [np.arange(9)])
    batch.set_scales(np.arange(1), np.array([0.8]))
    norms, means = figures.influence_norms(batch, np.ones((1, 1)), 1)
    assert means[0] == pytest.approx(np.mean(slope), rel=1e-4)
    assert norms[0] == pytest.approx(0.8 * correction * math.sqrt(np.sum(psi**2)), rel=1e-4)


@each("dof, rows", [(38, 40), (5, 7), (500, 502)])
@each("weights", [False, True])
def test_the_largest_residual_is_an_outlier_if_that_is_less_probable_than_1_in_4000(
    dof: int, rows: int, weights: bool
) -> None:
    """By Student's distribution of a residual in units of the scatter of the others, times the number of rows."""
    y, weight = np.zeros(rows), np.ones(rows)
    y[[3, 4]] = [1.0, 0.8]
    weight[4] = 9.0 if weights else 1.0
    objective = Objective("y ~ 0*a + b", {"y": y}, weights=weight if weights else None, start={"a": 0, "b": 0})
    for factor, is_outlier in ((0.5, True), (2.0, False)):
        distance = stats.t.isf(factor * 2.3e-4 / rows / 2, dof - 1)
        size = math.sqrt(dof * distance**2 / (dof - 1 + distance**2))
        given = GoodnessOfFit(residual_std=2.0, largest_residual=2.0 * size)
        found = figures.scatter_warnings(objective, np.zeros(2), given, dof)
        assert len(found) == is_outlier
        assert not found or f"its residual is {distance:.3g} standard deviations of the other residuals" in found[0]
        assert not found or found[0].startswith(f"row {5 if weights else 4} ")
    exact = GoodnessOfFit(residual_std=1.0, largest_residual=math.sqrt(dof) * (1 + 1e-15))
    assert "inf standard deviations" in figures.scatter_warnings(objective, np.zeros(2), exact, dof)[0]
    assert figures.scatter_warnings(objective, np.zeros(2), exact, 1) == []
    assert figures.scatter_warnings(objective, np.zeros(2), GoodnessOfFit(largest_residual=9.0), dof) == []


@each("trend, where", [(3.4, ""), (3.6, "large"), (-3.4, ""), (-3.6, "small")])
def test_unequal_scatter_is_reported_by_its_trend(trend: float, where: str) -> None:
    objective = Objective("y ~ a*x", {"x": X, "y": Y})
    given = GoodnessOfFit(residual_std=1.0, largest_residual=2.0, scatter_trend=trend)
    found = figures.scatter_warnings(objective, np.ones(1), given, 50)
    assert len(found) == bool(where)
    assert not where or f"predictions are {where} ({abs(trend):.2g} standard errors from equal scatter)" in found[0]
    robust = Objective("y ~ a*x", {"x": X, "y": Y}, loss="huber")
    assert figures.scatter_warnings(robust, np.ones(1), given, 50) == []


@each("model, is_convex", [
    ("t ~ sigmoid(a*x + b)", True), ("t ~ sigmoid(a*b*x)", False), ("t ~ a*x + b", False), ("t ~ exp(-a*x)", False),
])  # fmt: skip
def test_a_loss_that_only_falls_to_certain_rows_has_no_finite_minimum(model: str, is_convex: bool) -> None:
    x = np.array([-3.0, -2, -1, 1, 2, 3])
    objective = Objective(model, {"x": x, "t": (x > 0).astype(float)}, loss="bce")
    steep = np.array([30.0, 0.0] if "a*b" not in model else [30.0, 1.0])[: objective.layout.size]
    assert figures._is_convex(objective) is is_convex
    if "sigmoid" in model:
        assert figures.has_no_finite_minimum(objective, steep) is is_convex
        assert not figures.has_no_finite_minimum(objective, 0.1 * np.ones(len(steep)))
    penalised = Objective(model, {"x": x, "t": (x > 0).astype(float)}, loss="bce", l2=0.1)
    assert not figures._is_convex(penalised)


def test_accuracy_counts_rows_on_the_right_side_of_one_half() -> None:
    x, t = np.array([-2.0, -1, 1, 2, 3]), np.array([0.0, 1, 1, 0, 1])
    for weights, wanted in ((None, 3 / 5), (np.array([1.0, 0, 1, 0, 1]), 1.0), (np.array([0.0, 1, 0, 5, 0]), 0.0)):
        objective = Objective("t ~ sigmoid(a*x)", {"x": x, "t": t}, loss="bce", weights=weights)
        assert figures.classification_accuracy(objective, np.ones(1)) == pytest.approx(wanted)
    shares = Objective("t ~ sigmoid(a*x)", {"x": x, "t": t / 2}, loss="bce")
    assert figures.classification_accuracy(shares, np.ones(1)) is None
    two = Objective("[t, 1 - t] ~ [sigmoid(a*x), sigmoid(-a*x)]", {"x": x, "t": t}, loss="bce")
    assert figures.classification_accuracy(two, np.ones(1)) is None
    assert figures.classification_accuracy(Objective("t ~ a*x", {"x": x, "t": t}), np.ones(1)) is None


def test_the_only_row_that_is_not_fitted_exactly_is_an_outlier() -> None:
    x = np.arange(10.0)
    found = fit("y ~ a*x", {"x": x, "y": np.where(x == 0, 5, 2 * x)})
    assert found.parameters["a"] == pytest.approx(2)
    assert found.warnings[0].startswith("row 1 (y = 5, x = 0) is an outlier: its residual is ")


@each("rows, is_sampled", [(200_000, False), (200_001, True)])
def test_up_to_200_000_rows_the_scale_is_that_of_all_rows(rows: int, is_sampled: bool) -> None:
    """Of more rows a sample brackets the median, so that not all residuals are sorted; it is the same."""
    values = np.random.default_rng(0).normal(size=rows)
    objective, folds = Objective("y ~ a", {"y": values}), list[int]()
    fold_rows = objective.fold_rows
    objective.fold_rows = lambda *of: folds.append(1) or fold_rows(*of)  # type: ignore[method-assign]
    found = figures.robust_scale(objective, np.zeros(1))
    assert found == pytest.approx(1.482602218505602 * np.median(np.abs(values)), rel=1e-12)
    assert bool(folds) is is_sampled
