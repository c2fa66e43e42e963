"""Errors in x, by the effective variance, and weights that are expressions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.options import OptionError
from tests.each import each
from tests.support import expect_refusal, run_cli

# Pearson's data with York's weights: York 1966, Can. J. Phys. 44, 1079.
X = np.array([0, 0.9, 1.8, 2.6, 3.3, 4.4, 5.2, 6.1, 6.5, 7.4])
Y = np.array([5.9, 5.4, 4.4, 4.6, 3.5, 3.7, 2.8, 2.8, 2.4, 1.5])
SX = np.array([1000, 1000, 500, 800, 200, 80, 60, 20, 1.8, 1]) ** -0.5
SY = np.array([1, 1.8, 4, 8, 20, 20, 70, 70, 100, 500]) ** -0.5
PEARSON = {"x": X, "y": Y, "sx": SX, "sy": SY}


@pytest.mark.parametrize("optimizer", ["lm", "lbfgs"])
def test_the_line_and_its_errors_are_those_of_york(optimizer: str) -> None:
    options: dict[str, Any] = {"sigma": "sy", "x_sigma": {"x": "sx"}, "optimizer": optimizer}
    found = ad.fit("y ~ a + b*x", PEARSON, absolute_sigma=True, **options)
    # York et al. 2004, Am. J. Phys. 72, 367, table II.
    assert found.parameters == pytest.approx({"a": 5.47991022, "b": -0.480533407}, rel=1e-8)
    assert found.stderr == pytest.approx({"a": 0.294970735, "b": 0.0579850090}, rel=1e-6)
    # scipy.odr 1.17.1: sum_square, sd_beta
    assert found.rss == pytest.approx(11.86635319406225, rel=1e-10)
    scaled = ad.fit("y ~ a + b*x", PEARSON, **options)
    assert scaled.stderr == pytest.approx({"a": 0.35924659, "b": 0.07062028}, rel=1e-6)


def test_of_a_curve_it_is_near_orthogonal_distance_regression() -> None:
    generator = np.random.default_rng(0)
    true = np.linspace(0, 4, 30)
    x = true + 0.05 * generator.standard_normal(30)
    y = 2.5 * np.exp(-1.3 * true) + 0.03 * generator.standard_normal(30)
    data = {"x": x, "y": y}
    found = ad.fit("y ~ a*exp(-b*x)", data, sigma=np.full(30, 0.03), x_sigma={"x": np.full(30, 0.05)})
    # scipy.odr 1.17.1, the same model: beta, sd_beta
    assert [*found.parameters.values()] == pytest.approx([2.48246401, 1.26692388], rel=1e-3)
    assert [*found.stderr.values()] == pytest.approx([0.06910786, 0.02751101], rel=1e-2)


def test_two_columns_with_errors_and_slopes_by_hand() -> None:
    generator = np.random.default_rng(1)
    x, z = generator.normal(size=(2, 50))
    y = 1 + 2 * x - 3 * z + 0.1 * generator.normal(size=50)
    sigma, of_x, of_z = (generator.uniform(0.1, 0.3, 50) for _ in range(3))
    found = ad.fit("y ~ a + dot(w, [x, z])", {"x": x, "y": y, "z": z}, sigma=sigma, x_sigma={"x": of_x, "z": of_z})
    a, (p, q) = found.parameters.values()
    residuals = y - (a + p * x + q * z)
    variance = sigma**2 + (p * of_x) ** 2 + (q * of_z) ** 2
    assert found.rss == pytest.approx(np.sum(residuals**2 / variance), rel=1e-10)


def test_errors_of_0_change_nothing() -> None:
    plain = ad.fit("y ~ a + b*x", PEARSON, sigma="sy")
    found = ad.fit("y ~ a + b*x", PEARSON, sigma="sy", x_sigma={"x": np.zeros(10)})
    assert found.parameters == pytest.approx(plain.parameters, rel=1e-12)
    assert found.stderr == pytest.approx(plain.stderr, rel=1e-9)


def test_errors_in_x_are_reported_and_there_is_no_r_squared() -> None:
    found = ad.fit("y ~ a + b*x", PEARSON, sigma="sy", x_sigma={"x": "sx"}, profile=True)
    note = "errors in `x` are included by the effective variance sigma² + (∂f/∂x·sigma_x)², to first order"
    assert note in found.notes
    assert found.definition.endswith("W = 1/(sigma^2 + (df/dx*sigma_x)^2)")
    assert found.r_squared is found.adjusted_r_squared is None
    low, high = found.intervals["profile"]["b"]
    assert low < found.parameters["b"] < high


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"x_sigma": {"x": "sx"}}, "x_sigma needs sigma"),
        ({"x_sigma": {"x": "sx"}, "weights": "sy"}, "x_sigma needs sigma"),
        ({"x_sigma": {"z": "sx"}, "sigma": "sy"}, "`z` is not in the model"),
        ({"x_sigma": {"a": "sx"}, "sigma": "sy"}, "`a` is a parameter"),
        ({"x_sigma": {"x": "sx"}, "sigma": "sy", "loss": "huber"}, "x_sigma requires least squares"),
        ({"x_sigma": {"x": "sx"}, "sigma": "sy", "family": "gaussian"}, "cannot be combined with family"),
        ({"x_sigma": {"x": "nowhere"}, "sigma": "sy"}, "no column `nowhere`"),
        ({"x_sigma": {"x": -SX}, "sigma": "sy"}, "row 1 has -0.0316.*; a standard deviation cannot be negative"),
        ({"x_sigma": {"x": SX[1:]}, "sigma": "sy"}, "9 values for 10 rows"),
    ],
)
def test_errors_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises((OptionError, ad.DataError), match=words):
        ad.fit("y ~ a + b*x", PEARSON, **options)


def test_on_the_command_line(tmp_path) -> None:
    path = tmp_path / "pearson.csv"
    rows = "\n".join(",".join(map(str, row)) for row in zip(*PEARSON.values(), strict=True))
    path.write_text(f"{','.join(PEARSON)}\n{rows}\n")
    options = ["--sigma", "sy", "--x-sigma", "x=sx"]
    found = run_cli(["train", "y ~ a + b*x", str(path), *options, "--absolute-sigma", "--json"]).json
    assert found["stderr"]["b"] == pytest.approx(0.0579850090, rel=1e-6)
    assert found["r_squared"] is None
    assert "effective variance" in run_cli(["train", "y ~ a + b*x", str(path), *options])
    expect_refusal(run_cli(["train", "y ~ a + b*x", str(path), "--x-sigma", "x=sx"]), "--x-sigma needs --sigma")
    twice = [*options, "--x-sigma", "x=sy"]
    expect_refusal(run_cli(["train", "y ~ a + b*x", str(path), *twice]), "--x-sigma x is given twice")


READINGS = {
    "x": [1.0, 2, 3, 4, 5],
    "y": [2.1, 3.9, 6.2, 8.1, 9.8],
    "z": [3.0, 5.2, 6.9, 9.1, 11],
    "n": [4.0, 9, 16, 25, 36],
    "s": [0.1, 0.2, 0.1, 0.3, 0.2],
}


@each(
    "options, column",
    [
        ({"sigma": 0.1}, [0.1] * 5),
        ({"sigma": "0.1"}, [0.1] * 5),
        ({"sigma": "sqrt(n)/10"}, [0.2, 0.3, 0.4, 0.5, 0.6]),
        ({"weights": "1/y^2"}, [2.1, 3.9, 6.2, 8.1, 9.8]),
    ],
)
def test_an_expression_gives_the_fit_that_its_values_give(options: dict[str, Any], column: list[float]) -> None:
    by_array = {"weights": 1 / np.square(column)} if "weights" in options else {"sigma": column}
    found, wanted = (ad.fit("y ~ a*x + b", READINGS, **each_option) for each_option in (options, by_array))
    assert found.parameters == pytest.approx(wanted.parameters, rel=1e-12)
    assert found.stderr == pytest.approx(wanted.stderr, rel=1e-12)
    assert found.aic == pytest.approx(wanted.aic)
    new_rows = {name: np.array(values[:2]) for name, values in READINGS.items()}
    assert np.isfinite(found.predict(new_rows, interval=0.9).prediction_low).all()  # it knows the spread of new rows


def test_each_target_has_its_own_standard_deviation() -> None:
    found = ad.fit("[y, z] ~ [a*x + b, c*x + b]", READINGS, sigma="[s, 0.3]", absolute_sigma=True)
    x, s, zero, one = np.array(READINGS["x"]), np.array(READINGS["s"]), np.zeros(5), np.ones(5)
    design = np.vstack([np.c_[x, one, zero] / s[:, None], np.c_[zero, one, x] / 0.3])
    target = np.r_[np.array(READINGS["y"]) / s, np.array(READINGS["z"]) / 0.3]
    wanted = np.linalg.lstsq(design, target, rcond=None)[0]
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    chi_squared = np.sum((target - design @ wanted) ** 2)
    assert [*found.parameters.values()] == pytest.approx(wanted, rel=1e-9)
    assert [*found.stderr.values()] == pytest.approx(errors, rel=1e-9)
    assert found.rss == pytest.approx(chi_squared)
    constant = 2 * np.log(s).sum() + 10 * np.log(0.3) + 10 * np.log(2 * np.pi)
    assert found.log_likelihood == pytest.approx(-(chi_squared + constant) / 2)
    bands = found.predict({"x": [1.0], "s": [0.2]}, interval=0.95)
    spreads = (bands.prediction_high - bands.prediction_low) / 2 / 1.959964
    assert spreads[0, 0] > 0.2
    assert spreads[0, 1] > 0.3


@each(
    "options, words",
    [
        ({"sigma": "sqrt(q)"}, "no column `q`"),
        ({"sigma": "x - 3"}, "row 1 has -2"),
        ({"weights": "1/(x-1)"}, "row 1 has inf"),
        ({"sigma": "[s, s]"}, "as many targets"),
    ],
)
def test_expressions_that_are_no_errors_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ad.fit("y ~ a*x + b", READINGS, **options)


@pytest.mark.parametrize("starts", [None, 4])
@pytest.mark.parametrize("rows", [12, 40])
def test_a_decay_with_errors_in_x_is_found(rows: int, starts: int | None) -> None:
    """A curve that is steep everywhere has smaller residuals in units of its errors, but is no better."""
    for seed in range(4):
        generator = np.random.default_rng([seed, rows])
        true = np.linspace(0, 4, rows)
        sigma = 0.05 + 0.1 * true
        data = {
            "x": true + 0.05 * generator.normal(size=rows),
            "y": 3 * np.exp(-0.8 * true) + sigma * generator.normal(size=rows),
            "s": sigma,
        }
        found = ad.fit("y ~ a*exp(-b*x)", data, sigma="s", x_sigma={"x": 0.05}, starts=starts)
        assert found.converged
        assert found.parameters == pytest.approx({"a": 3, "b": 0.8}, rel=0.3)
        assert sum("starting points" in note for note in found.notes) == (starts is not None)


@each("curve", [0.0, 0.5])
@each("is_grouped", [False, True])
def test_only_wrong_models_have_residuals_alike_where_x_most_likely_was(is_grouped: bool, curve: float) -> None:
    """Errors of x also change the residuals, which are therefore alike at neighbouring measured values of x."""
    generator = np.random.default_rng(7)
    errors = np.tile([0.1, 0.1, 0.5, 0.5], 300)
    true = generator.uniform(0, 5, 1200)
    x, noise = true + errors * generator.normal(size=1200), 0.2 * generator.normal(size=1200)
    data = {"x": x, "y": 1 + 2 * true + curve * true**2 + noise, "sx": errors, "g": np.tile(["a", "b"], 600)}
    options: dict[str, Any] = {"sigma": 0.2, "x_sigma": {"x": "sx"}}
    single = [] if is_grouped else [ad.fit("y ~ a + b*x", data, **options)]
    fits = single or [each.fit for each in ad.fit_by("y ~ a + b*x", data, "g", **options)]
    found = [any("neighbouring residuals are alike" in warning for warning in fit.warnings) for fit in fits]
    assert found == [curve > 0] * len(found)


@each("absolute", [True, False])
def test_new_rows_scatter_by_the_errors_of_their_predictor_too(absolute: bool) -> None:
    found = ad.fit("y ~ a*exp(-b*x)", PEARSON, sigma="sy", x_sigma={"x": "sx"}, absolute_sigma=absolute)
    new = {"x": [2.0, 2.0, 5.0], "sy": [0.1, 0.1, 0.3], "sx": [0.0, 0.5, 2.0]}
    bands = found.predict(new, interval=0.9)
    a, b = found.parameters.values()
    variance = np.square(new["sy"]) + np.square(a * b * np.exp(-b * np.array(new["x"])) * new["sx"])
    variance *= 1 if absolute else found.reduced_chi_squared
    error = (bands.confidence_high - bands.confidence_low) / 2 / found.quantile(0.9)
    half_width = found.quantile(0.9) * np.sqrt(variance + error**2)
    np.testing.assert_allclose(bands.prediction_high - bands.prediction, half_width, rtol=1e-9)


def test_without_the_errors_of_the_predictor_there_is_no_prediction_band(tmp_path: Path) -> None:
    found = ad.fit("y ~ a + b*x", PEARSON, sigma="sy", x_sigma={"x": "sx"})
    found.save(tmp_path / "line.json")
    (tmp_path / "new.csv").write_text("x,sy\n1,0.1\n")
    bands = ad.load(tmp_path / "line.json").predict({"x": [1.0], "sy": [0.1]}, interval=0.9)
    assert np.isnan(bands.prediction_low).all()
    result = run_cli(["predict", str(tmp_path / "line.json"), str(tmp_path / "new.csv"), "--interval", "0.9"])
    assert "the fit weighted the rows by `sy`, `sx`, whose columns these data lack" in result.stderr
