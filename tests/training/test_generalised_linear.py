"""Generalised linear models, from the default start, against iteratively reweighted least squares in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mpmath import mp
from numpy.typing import NDArray

import autodiff_cli as ad
from autodiff_cli.language.program import read
from autodiff_cli.training.objective.kernels import is_generalised_linear, linear_parameters
from tests.each import each

Array = NDArray[np.float64]


def data(spread: float, seed: int) -> tuple[Array, Array, Array]:
    generator = np.random.default_rng(seed)
    x, z = spread * generator.normal(size=90), generator.normal(size=90)
    return x, z, np.exp(0.4 + 0.6 * x / spread - 0.5 * z)


def reweighted(design: Array, y: Array) -> Array:
    """The coefficients of a Poisson regression with a logarithmic link: McCullagh & Nelder 1989, section 2.5."""
    scale = np.abs(design).max(axis=0)
    design = design / scale
    beta = np.linalg.lstsq(design, np.log(y + 0.5), rcond=None)[0]
    for _ in range(50):
        mean = np.exp(design @ beta)
        beta = beta + np.linalg.solve(design.T @ (mean[:, None] * design), design.T @ (y - mean))
    return np.asarray(beta / scale)


# From a = b = c = 1 the mean is in range, or so large that all that follows is little beside it, or infinite.
@pytest.mark.sampled
@pytest.mark.parametrize("spread", [1e-4, 1.0, 20.0, 1e3, 1e5])
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("y ~ exp(a + b*x + c*z)", {"family": "poisson"}),
        ("exp(a + b*x + c*z) - y*(a + b*x + c*z)", {"likelihood": True}),
    ],
)
def test_columns_of_any_size(model: str, options: dict[str, object], spread: float) -> None:
    if spread > 20 and "~" not in model:
        options = options | {"start": {"a": 0, "b": 0, "c": 0}}
    for seed in range(4):
        x, z, mean = data(spread, seed)
        y = np.random.default_rng(seed).poisson(mean).astype(float)
        fit = ad.fit(model, {"x": x, "z": z, "y": y}, **options)  # type: ignore[arg-type]
        assert fit.converged
        wanted = reweighted(np.column_stack([np.ones_like(x), x, z]), y)
        np.testing.assert_allclose([*fit.parameters.values()], wanted, rtol=1e-6)


def test_a_loss_of_no_known_unit_that_begins_far_beyond_its_minimum() -> None:
    x, z, mean = data(20.0, 1)
    fit = ad.fit("exp(a + b*x + c*z) - m*(a + b*x + c*z)", {"x": x, "z": z, "m": mean})
    assert fit.history[0]["loss"] > 1e12
    assert fit.converged
    np.testing.assert_allclose([*fit.parameters.values()], [0.4, 0.03, -0.5], rtol=1e-6)


def survey(rows: int) -> tuple[dict[str, Any], Any]:
    """Columns as they come: ages, incomes, and their product."""
    generator = np.random.default_rng(3)
    age, income = generator.normal(45, 12, rows), generator.lognormal(10.3, 0.5, rows)
    columns = {"age": age, "income": income, "both": age * income}
    return columns, np.column_stack([np.ones(rows), *columns.values()])


def scored(design: Any, mean: Any, slope: Any, weight: Any, y: Any, begun: float) -> tuple[Any, Any]:
    """Fisher's scoring, by QR: coefficients, and errors of dispersion 1."""
    scale = np.linalg.norm(design, axis=0)
    beta = np.zeros(design.shape[1])
    beta[0] = begun * scale[0]
    for _ in range(100):
        eta = design / scale @ beta
        root = np.sqrt(weight(eta)) * slope(eta)
        q, r = np.linalg.qr(design / scale * root[:, None])
        beta = beta + np.linalg.solve(r, q.T @ ((y - mean(eta)) * np.sqrt(weight(eta))))
    return beta / scale, np.sqrt(np.sum(np.linalg.inv(r) ** 2, axis=1)) / scale


def test_columns_of_very_different_sizes_against_fishers_scoring() -> None:
    columns, design = survey(400)
    eta = design @ [-3.0, 0.03, 4e-5, -3e-7]
    generator = np.random.default_rng(4)

    def expit(z: Any) -> Any:
        return 1 / (1 + np.exp(-z))

    y = (generator.random(400) < expit(eta)).astype(float)
    found = ad.fit("y ~ sigmoid(a + b*age + c*income + d*both)", {**columns, "y": y}, family="binomial")

    def variance(z: Any) -> Any:
        return expit(z) * expit(-z)

    values, errors = scored(design, expit, variance, lambda z: 1 / variance(z), y, 0.0)
    assert found.converged
    np.testing.assert_allclose([*found.parameters.values()], values, rtol=1e-7)
    np.testing.assert_allclose([*found.stderr.values()], errors, rtol=1e-6)


@pytest.mark.slow
def test_a_gamma_family_with_reciprocal_and_logarithmic_links_of_raw_columns() -> None:
    columns, design = survey(60)
    mean = 1 / (design @ [0.01, 1e-4, 1e-7, 1e-9])
    y = np.random.default_rng(5).gamma(50.0, mean / 50)
    found = ad.fit("y ~ 1/(a + b*age + c*income + d*both)", {**columns, "y": y}, family="gamma")
    values, errors = scored(design, lambda z: 1 / z, lambda z: -1 / z**2, lambda z: z**2, y, 1 / y.mean())
    assert found.converged
    np.testing.assert_allclose([*found.parameters.values()], values, rtol=1e-7)
    dispersion = found.dispersion
    assert dispersion is not None
    np.testing.assert_allclose([*found.stderr.values()], errors * np.sqrt(dispersion), rtol=1e-6)
    logarithmic = ad.fit("y ~ exp(a + b*age + c*income + d*both)", {**columns, "y": y}, family="gamma")
    values, _ = scored(design, np.exp, np.exp, lambda z: np.exp(-2 * z), y, float(np.log(y.mean())))
    assert logarithmic.converged
    np.testing.assert_allclose([*logarithmic.parameters.values()], values, rtol=1e-7)


@pytest.mark.slow
def test_a_softmax_of_raw_columns_reaches_its_optimum() -> None:
    columns, design = survey(300)
    scores = design @ np.array([[0, 0, 0, 0], [-2, 0.05, 1e-5, 0], [1, -0.03, 3e-5, -4e-7]]).T
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    generator = np.random.default_rng(6)
    kind = [["a", "b", "c"][generator.choice(3, p=share)] for share in shares]
    found = ad.fit("kind ~ softmax(dense([age, income, both], 3))", {**columns, "kind": kind})
    scaled = {name: values / values.mean() for name, values in columns.items()}
    better = ad.fit("kind ~ softmax(dense([age, income, both], 3))", {**scaled, "kind": kind})
    assert found.converged
    assert better.converged
    assert found.log_likelihood == pytest.approx(better.log_likelihood, rel=1e-10)


@pytest.mark.slow
def test_links_that_are_not_defined_at_the_default_start() -> None:
    columns, design = survey(200)
    eta = (design - design.mean(axis=0)) @ [0, 0.03, 4e-5, -3e-7]
    generator = np.random.default_rng(7)
    y = (generator.random(200) < 0.5 * (1 + np.tanh(eta))).astype(float)
    for link in ("normal_cdf(%s)", "1 - exp(-exp(%s))"):
        found = ad.fit(f"y ~ {link % 'a + b*age + c*income + d*both'}", {**columns, "y": y}, family="binomial")
        scaled = {name: (values - values.mean()) / values.std() for name, values in columns.items()}
        start = {"a": -0.2, "b": 0.0, "c": 0.0, "d": 0.0}
        better = ad.fit(
            f"y ~ {link % 'a + b*age + c*income + d*both'}", {**scaled, "y": y}, family="binomial", start=start
        )
        assert found.converged
        assert better.converged
        assert found.deviance == pytest.approx(better.deviance, rel=1e-9)
        assert found.stderr["d"] == pytest.approx(better.stderr["d"] / columns["both"].std(), rel=1e-5)


@pytest.mark.slow
def test_predictions_that_hardly_depend_on_parameters_are_no_crash() -> None:
    generator = np.random.default_rng(8)
    x = generator.normal(10, 1, 100)
    for size in (1.0, 1e3, 1e6):
        y = (generator.random(100) < 0.4).astype(float)
        found = ad.fit("y ~ normal_cdf(a + b*x)", {"x": x * size, "y": y}, family="binomial")
        assert found.converged


@each(
    "model, is_linear",
    [
        ("exp(a + b*x)", True),
        ("sigmoid(a + b*x)", True),
        ("a*exp(b*x)", False),
        ("exp(a*b*x)", False),
        ("a*x + b", True),
        ("a*b*x", False),
        ("log(a + b*x)", False),
        ("softmax([a*x, b*x + c])", True),
        ("softmax([a*x, b*c*x])", False),
        ("softmax([a*x, exp(b*x)])", False),
        ("[a*x, b*x + c]", True),
        ("[a*x, b^2*x]", False),
        ("[a^2*x, -a^2*x]", False),  # whose sum is 0
        ("softmax([a*b*x, -a*b*x])", False),
        ("where(a > x, b*x, 0)", False),
    ],
)
def test_models_are_recognised_that_are_linear_up_to_a_link(model: str, is_linear: bool) -> None:
    program = read(model)
    leaves = [program.leaves[name] for name in "abc" if name in program.leaves]
    assert is_generalised_linear(program.output, leaves, {}) is is_linear


@each(
    "model, names",
    [
        ("a*exp(-b*x) + c", ["a", "c"]),
        ("a*b*x", ["a"]),
        ("a*b*x + c*b", ["a", "c"]),
        ("a + b*(a - x)", ["a"]),
        ("where(a > x, b, c*x)", ["b", "c"]),
        ("a/b + c", ["a", "c"]),
        ("exp(a + b)*x", []),
    ],
)
def test_parameters_are_linear_together(model: str, names: list[str]) -> None:
    program = read(model)
    leaves = [program.leaves[name] for name in "abc" if name in program.leaves]
    assert linear_parameters(program.output, leaves, {}) == names


EXACT: list[list[float]] = [
    [2.6],
    [2.6, 2.6],
    [2.6] * 4,
    [3.869006449092586, 3.6985737486838155],
    [1e-200, 3e200],
    [1, 2, 4, 8],
]


@each("y", EXACT)
@each("model", ["y ~ exp(a + b*x)", "y ~ exp(a)*2^x"])
def test_a_gamma_family_fits_exact_data(model: str, y: list[float]) -> None:
    found = ad.fit(model, {"x": np.arange(len(y)), "y": y}, family="gamma")
    if found.rss:
        return
    assert (found.converged, found.log_likelihood, found.aic, found.deviance) == (True, None, None, 0.0)


@each("spread", [1e-2, 1e-5, 1e-7])
def test_a_gamma_deviance_of_precise_data_has_its_digits(spread: float) -> None:
    x = np.arange(20.0)
    y = np.exp(0.3 * x) * (1 + spread * np.cos(5 * x))
    found = ad.fit("y ~ exp(a + b*x)", {"x": x, "y": y}, family="gamma")
    ratios = [mp.mpf(u) / mp.mpf(p) - 1 for u, p in zip(y, found.predict({"x": x}), strict=True)]
    with mp.workdps(40):
        exact = 2 * sum(r - mp.log1p(r) for r in ratios)
    assert found.deviance == pytest.approx(float(exact), rel=1e-6, abs=0)


def test_squares_of_targets_0_and_1_are_noted() -> None:
    x = np.random.default_rng(0).normal(size=60)
    y = np.random.default_rng(1).uniform(size=60) < 1 / (1 + np.exp(-2 * x))
    for target, weights in ((y, None), (y, x**2 + 1), (y * 0.5, None), (np.where(x == x.max(), 0.5, y), None)):
        table, model = {"x": x, "y": target.astype(float)}, "y ~ sigmoid(a + b*x)"
        notes = {loss: "\n".join(ad.fit(model, table, weights=weights, loss=loss).notes) for loss in ("mse", "bce")}
        assert ("all targets are 0 or 1" in notes["mse"]) == (target is y)
        assert "all targets" not in notes["bce"]
