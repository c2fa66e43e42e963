"""The figures of a report: every one that the fit has is written, by its name, with the number of the JSON document."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.render.fit import fit_report
from autodiff_cli.render.formatting import number_formats
from autodiff_cli.render.report import Paper
from tests.each import each

BRIEF = number_formats(None)[1]
NUMBER = r"([-+]?[\d.]+(?:e[-+]?\d+)?)"
# How the number of each figure is found, as `#`.
PATTERNS = {
    "accuracy": r"  accuracy = #",
    "auc": r", AUC = #",
    "r_squared": r"R²  = #",
    "adjusted_r_squared": r", adjusted #",
    "rss": r"rss = #",
    "chi_squared": r"  χ² = #",
    "deviance": r"deviance = #",
    "null_deviance": r", # for the mean alone",
    "dispersion": r"dispersion = #",
    "pearson_chi_squared": r"\(Pearson's χ² = #\)",
    "theta": r"theta = #",
    "theta_stderr": r" ± #, by maximum likelihood",
    "residual_std": r"(?:standard deviation of residuals.* = |whose root )#",
    "reduced_chi_squared": r"(?:reduced χ²|χ²/dof) = #",
    "penalty": r"penalty = # \(included",
    "scale": r"scale of residuals = #",
    "chi_squared_p": r", probability #",
    "log_likelihood": r"log-likelihood = #",
    "aic": r"AIC = #",
    "aicc": r"AICc = #",
    "bic": r"BIC = #",
    "durbin_watson": r"Durbin-Watson = #",
    "validation_loss": r"validation: loss # \(10 rows held out\)",
}
SQUARES = {"r_squared", "adjusted_r_squared", "log_likelihood", "aic", "aicc", "bic", "durbin_watson"}
COUNTS = {"deviance", "null_deviance", "dispersion", "pearson_chi_squared", "log_likelihood", "aic", "aicc", "bic"}
CHI_SQUARED = SQUARES | {"chi_squared", "reduced_chi_squared"}
CASES: list[tuple[str, dict[str, Any], set[str]]] = [
    ("y ~ a + b*x", {}, SQUARES | {"rss", "residual_std"}),
    ("y ~ a + b*x", {"weights": "w"}, SQUARES | {"rss", "residual_std"}),
    ("y ~ a + b*x", {"sigma": "w"}, CHI_SQUARED | {"residual_std"}),
    ("y ~ a + b*x", {"sigma": "w", "absolute_sigma": True}, CHI_SQUARED | {"chi_squared_p"}),
    ("y ~ a + b*x", {"l2": 0.1}, {"r_squared", "rss", "penalty", "durbin_watson"}),
    ("y ~ a + b*x", {"loss": "huber"}, {"r_squared", "rss", "scale", "durbin_watson"}),
    ("y ~ a + b*x", {"validation": 0.25, "seed": 1}, SQUARES | {"rss", "residual_std", "validation_loss"}),
    ("k ~ exp(a + b*x)", {"family": "poisson"}, COUNTS),
    ("k ~ exp(a + b*x)", {"family": "negative_binomial"}, COUNTS | {"theta", "theta_stderr"}),
    ("y ~ exp(a + b*x)", {"family": "gamma"}, COUNTS),
    ("h ~ sigmoid(a + b*x)", {"family": "binomial"}, COUNTS | {"accuracy", "auc"}),
]


@each("model, options, wanted", CASES)
def test_a_report_has_the_figures_of_its_fit(model: str, options: dict[str, Any], wanted: set[str]) -> None:
    generator = np.random.default_rng(2)
    x = np.linspace(0, 4, 40)
    data = {"x": x, "y": 3 + 0.4 * x + generator.normal(0, 0.3, 40), "w": generator.uniform(0.5, 2, 40)}
    data |= {"k": generator.poisson(np.exp(0.3 * x) * generator.gamma(2, 0.5, 40)), "h": generator.random(40) < x / 4}
    found = ad.fit(model, data, **options)
    stream = io.StringIO()
    fit_report(found).write(Paper(stream))
    text = stream.getvalue()
    matches = {name: re.search(pattern.replace("#", NUMBER), text) for name, pattern in PATTERNS.items()}
    shown = {name: match[1] for name, match in matches.items() if match}
    assert shown == {name: BRIEF(getattr(found, name)) for name in wanted}
    assert f"  dof = {found.dof} ({found.rows} rows - 2 parameters)\n" in text
    if quantiles := found.residual_quantiles if found.deviance is None else None:
        low, lower, middle, upper, high = map(BRIEF, quantiles)
        assert f"residuals from {low} to {high}, quartiles {lower}, {middle}, {upper}\n" in text


PRIOR = ["a ~ normal(0, 1)"]


@each("options", [{"l1": 0.1}, {"l2": 0.1}, {"priors": PRIOR}, {"priors": PRIOR, "weights": "w"}])
def test_the_loss_is_that_of_the_residuals_and_the_penalty(options: dict[str, Any]) -> None:
    data = {"x": [0.0, 1, 2, 3, 4, 5], "y": [1.6, 2.6, 5.2, 7.8, 8.0, 11.4], "w": [1.0, 2, 1, 2, 1, 2]}
    found = ad.fit("y ~ a*x + b", data, **options)
    total_weight = 9 if "weights" in options else 6
    assert found.loss == pytest.approx(found.rss / total_weight + found.penalty)


def test_a_target_that_does_not_vary_has_no_r_squared() -> None:
    for y, is_shown in (([2.0, 2, 2, 2], False), ([2.0, 2, 2, 3], True)):
        stream = io.StringIO()
        fit_report(ad.fit("y ~ a*x", {"x": [1, 2, 3, 4], "y": y})).write(Paper(stream))
        assert ("R²" in stream.getvalue()) == is_shown
        assert "rss = " in stream.getvalue()


def test_fixed_and_derived_quantities_and_rows_that_are_left_out_are_in_the_report() -> None:
    data = {"x": [1.0, 2, 3, 4, 5], "y": [2.0, 4, 5, 8, 9], "w": [1.0, 0, 1, 0, 1]}
    found = ad.fit("y ~ a*x + b", data, weights="w", fixed={"b": 0.125}, derive={"twice": "2*a"})
    stream = io.StringIO()
    fit_report(found).write(Paper(stream))
    lines = {cells[0]: cells[1:] for cells in map(str.split, stream.getvalue().splitlines()) if cells}
    assert lines["b"][:2] == ["0.125", "fixed"]
    assert float(lines["twice"][0]) == pytest.approx(2 * found.parameters["a"], rel=0.01)
    assert f"  dof = {found.dof} (3 rows - 1 parameter)\n" in stream.getvalue()
    assert "  rows left out because their weight is 0: 2\n" in stream.getvalue()
    assert found.dof == 2
