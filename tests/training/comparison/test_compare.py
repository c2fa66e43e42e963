"""Comparisons with statsmodels 0.14 (`anova_lm`, `GLM`), and pairs of models that must not be tested."""

from __future__ import annotations

import dataclasses
import io
import math
import re
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.data.table import DataError
from autodiff_cli.options import OptionError
from autodiff_cli.render.fit_tables import comparison_report
from autodiff_cli.render.report import Paper
from autodiff_cli.training.fitting.comparison import (
    ComparedModel,
    Comparison,
    NestedTest,
    _nested_test,
    _ranking_key,
    assign_folds,
    cross_validation_error,
    why_not_nested,
)
from autodiff_cli.training.fitting.posterior import LeaveOneOut
from autodiff_cli.training.objective.loading import as_dataset
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import FitOptions
from tests.each import amount, each

X = np.linspace(0, 4, 12)
Y = [1.17, 2.14, 2.62, 2.53, 4.36, 4.86, 5.1, 6.38, 7.0, 7.69, 8.29, 9.27]
COUNTS = [2, 1, 1, 2, 5, 3, 4, 5, 8, 7, 5, 9]
LINE, CUBIC = "y ~ a + b*x", "y ~ p + q*x + r*x^2 + s*x^3"


def only_test(comparison: Comparison) -> NestedTest:
    (test,) = comparison.tests
    return test


def test_lines_within_cubics_as_statsmodels_has_it() -> None:
    found = ad.compare([CUBIC, LINE], {"x": X, "y": Y})
    assert [one.fit.model for one in found.models] == [LINE, CUBIC]
    line, cubic = found.models
    assert (line.k, cubic.k) == (3, 5)
    assert line.fit.aic == pytest.approx(10.458701657261734, rel=1e-9)
    assert cubic.fit.aic == pytest.approx(13.704689589871911, rel=1e-9)
    assert line.fit.bic == pytest.approx(11.913421606625734, rel=1e-9)
    assert cubic.delta == pytest.approx(cubic.fit.aicc - line.fit.aicc)
    assert line.weight + cubic.weight == pytest.approx(1)
    test = only_test(found)
    assert (test.smaller, test.larger, test.name, test.dof) == (LINE, CUBIC, "F", (2, 8))
    assert test.statistic == pytest.approx(0.259401681517, rel=1e-9)
    assert test.p == pytest.approx(0.77775994547, rel=1e-9)


def test_models_that_fit_equally_well_are_listed_as_they_are_given() -> None:
    """Not in an order that rounding errors choose."""
    texts = [LINE, "y ~ a + c + b*x", "y ~ c + b*x + a - d", "y ~ a + b*(2*x)", "y ~ b*(x + 7) + a", CUBIC]
    for models in (texts[:-1], texts[-2::-1]):
        found = ad.compare([CUBIC, *models], {"x": X, "y": Y}, folds=0)
        assert [one.fit.model for one in found.models] == [*models, CUBIC]


def test_the_fits_of_a_comparison_predict_and_show_themselves() -> None:
    line, _ = ad.compare([LINE, CUBIC], {"x": X, "y": Y}).models
    assert isinstance(line.fit, ad.Fit)
    assert line.fit.summary() == ad.fit(LINE, {"x": X, "y": Y}).summary()
    bands = line.fit.predict({"x": [1.0]}, interval=0.95)
    assert bands.prediction_low < line.fit.predict({"x": [1.0]}) < bands.prediction_high


def test_a_likelihood_ratio_as_statsmodels_has_it() -> None:
    found = ad.compare(["c ~ exp(a)", "c ~ exp(a + b*x)"], {"x": X, "c": COUNTS}, family="poisson")
    test = only_test(found)
    assert (test.name, test.dof) == ("likelihood ratio", (1,))
    assert test.statistic == pytest.approx(14.360868019813495, rel=1e-7)
    assert test.p == pytest.approx(0.0001509061002413224, rel=1e-6)
    assert [one.k for one in found.models] == [2, 1]


def test_a_parameter_that_changes_nothing_is_tested_too() -> None:
    comparison = ad.compare(["y ~ a", "y ~ a + b*x"], {"x": [-1, 0, 1, -1, 0, 1], "y": [1, 2, 1, 2, 1, 2]})
    (test,) = comparison.tests
    assert (test.statistic, test.p, test.reason) == (0.0, 1.0, "")


def test_sigma_that_is_absolute_gives_the_difference_of_chi_squared() -> None:
    data = {"x": X, "y": Y, "error": np.full(12, 0.3)}
    found = ad.compare([LINE, CUBIC], data, sigma="error", absolute_sigma=True)
    test = only_test(found)
    assert [one.k for one in found.models] == [2, 4]  # the variance is known
    assert (test.name, test.dof) == ("likelihood ratio", (2,))
    assert test.statistic == pytest.approx(0.0620435841936 / 0.09, rel=1e-8)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("smaller", "larger", "is_tested"),
    [
        ("y ~ a*exp(-b*x)", "y ~ a*exp(-b*x) + c", True),
        ("y ~ a*x^2", "y ~ a*x^n*c^2 + 0*n", False),
        ("y ~ a*exp(-b*x)", "y ~ a*exp(-b*x) + c*exp(-d*x)", False),  # nothing determines d where c = 0
        ("y ~ a*x", "y ~ a*x^n", True),
        ("y ~ a + b*x", "y ~ a*exp(b*x) + c", False),
        ("y ~ a + b*x", "y ~ c + d*sin(x) + f*cos(x)", False),
        ("y ~ a*(x - 1)", "y ~ c + d*x", True),
        ("y ~ 1 + b*x", "y ~ c*x + d*x^2", False),  # the constant 1 is not in the span
        ("y ~ 1 + b*x", "y ~ 1 + c*x + d*x^2", True),
    ],
)
def test_a_special_case_is_one_for_certain(smaller: str, larger: str, is_tested: bool) -> None:
    y = 2 * np.exp(-0.4 * X) + 1 + 0.02 * np.cos(7 * X)
    test = only_test(ad.compare([smaller, larger], {"x": X + 0.5, "y": y}, folds=0))
    assert bool(test.name) == is_tested, test
    assert bool(test.reason) != is_tested


def test_one_parameter_for_all_levels_within_one_for_each() -> None:
    """The data set Puromycin of R, whose anova() of the two nls() gives F = 1.7182 and p = 0.2056."""
    conc = np.repeat([0.02, 0.06, 0.11, 0.22, 0.56, 1.1], 2)
    data = {
        "conc": [*conc, *conc[:-1]],
        "rate": [
            *(76, 47, 97, 107, 123, 139, 159, 152, 191, 201, 207, 200),
            *(67, 51, 84, 86, 98, 115, 131, 124, 144, 158, 160),
        ],
        "state": ["treated"] * 12 + ["untreated"] * 11,
    }
    models = ["rate ~ Vm[state]*conc/(K + conc)", "rate ~ Vm[state]*conc/(K[state] + conc)"]
    test = only_test(ad.compare(models, data, folds=0))
    assert (test.name, test.dof) == ("F", (1, 19))
    assert test.statistic == pytest.approx(1.7182, rel=1e-3)
    assert test.p == pytest.approx(0.2056, rel=1e-3)
    apart = only_test(ad.compare(["rate ~ Vm*conc", "rate ~ Vm[state]*conc/(1 + conc)"], data, folds=0))
    assert apart.reason


def test_cross_validation_agrees_with_fits_of_the_folds() -> None:
    found = ad.compare([LINE, CUBIC], {"x": X, "y": Y}, folds=4, seed=3)
    part_of, errors = assign_folds(12, 4, 3), []
    for fold in range(4):
        rest = part_of != fold
        line = np.polyfit(X[rest], np.array(Y)[rest], 1)
        errors += ((np.array(Y) - np.polyval(line, X))[~rest] ** 2).tolist()
    assert found.models[0].cv_error == pytest.approx(np.mean(errors), rel=1e-9)
    assert ad.compare([LINE, CUBIC], {"x": X, "y": Y}, folds=0).models[0].cv_error is None
    most = ad.compare([LINE, CUBIC], {"x": X, "y": Y}, folds=1000)
    assert most.folds == len(X)  # leaving out one row at a time


def test_folds_of_which_the_rest_has_as_many_rows_as_parameters_have_an_error() -> None:
    x, y = np.array([0.0, 1, 3]), np.array([1.0, 2, 5])
    lines = [np.polyfit(np.delete(x, row), np.delete(y, row), 1) for row in range(3)]
    errors = [(y[row] - np.polyval(line, x[row])) ** 2 for row, line in enumerate(lines)]
    found = ad.compare(["y ~ a + b*x", "y ~ a + b*x + c*x^2"], {"x": x, "y": y}, folds=3)
    by_model = {one.fit.model: one.cv_error for one in found.models}
    assert by_model["y ~ a + b*x"] == pytest.approx(np.mean(errors), rel=1e-9)
    assert by_model["y ~ a + b*x + c*x^2"] is None or math.isnan(by_model["y ~ a + b*x + c*x^2"])


@each(
    ("model", "optimizer"),
    [("y ~ mlp([x, z], [10], tanh)", "auto"), ("y ~ mlp([x, z], [2], tanh)", "lbfgs"), ("y ~ a + b*x", "adam")],
)
def test_cross_validation_of_a_descent_knows_nothing_of_the_held_out_rows(model: str, optimizer: str) -> None:
    """A network that went on from the fit to all rows would have an error that is two thirds of the right one. The same
    fits alone and in a batch differ by rounding errors, which grow from epoch to epoch."""
    generator = np.random.default_rng(0)
    x, z = generator.uniform(-2, 2, 120), generator.normal(size=120)
    data = {"x": x, "z": z, "y": np.sin(2 * x) + 0.6 * generator.normal(size=120)}
    options = {"optimizer": optimizer, "epochs": amount(30, 150, 150)}
    found = ad.compare([model, "y ~ p + q*z"], data, folds=3, **options)
    part_of, squares = assign_folds(120, 3, 0), []
    for fold in range(3):
        fit = ad.fit(model, {name: column[part_of != fold] for name, column in data.items()}, **options)
        held_out = {name: column[part_of == fold] for name, column in data.items()}
        squares += ((fit.predict(held_out) - held_out["y"]) ** 2).tolist()
    (error,) = (one.cv_error for one in found.models if one.fit.model == model)
    assert error == pytest.approx(np.mean(squares), rel=1e-2)


@each(
    ("model", "options"),
    [
        ("y ~ a + b*z", {}),
        ("y ~ a[g]", {}),
        ("y ~ exp(a + b*z)", {"family": "poisson"}),
        ("y ~ a + b*z", {"loss": "huber"}),
    ],
)
def test_rows_that_alone_determine_a_parameter_cannot_be_predicted_without_them(model: str, options: dict) -> None:
    """The fit to all rows knows the parameter, and would predict these rows exactly."""
    y = np.arange(20) % 7 + 1.0
    data = {"x": np.linspace(0, 1, 20), "y": y, "z": np.arange(20) == 3.0, "g": ["A", *["B"] * 9, *["C"] * 10]}
    found = ad.compare([model, "y ~ p + q*x^2"], data, **options)
    errors = {one.fit.model: one.cv_error for one in found.models}
    assert errors[model] is None
    assert errors["y ~ p + q*x^2"] is not None
    (fit,) = (one.fit for one in found.models if one.fit.model == model)
    assert any("a fold has rows whose parameters the other folds do not determine" in text for text in fit.warnings)
    # Gradient methods never see the held-out rows.
    anew = ad.compare([model, model + " + r"], data, optimizer="adam", epochs=5, **options)
    assert None not in [one.cv_error for one in anew.models]


def test_cross_validation_weights_rows_as_the_loss_does() -> None:
    weights = np.linspace(0.1, 5, len(X))
    found = ad.compare([LINE, CUBIC], {"x": X, "y": Y, "w": weights}, folds=3, weights="w")
    part_of, squares = assign_folds(len(X), 3, 0), np.zeros(len(X))
    for fold in range(3):
        rest = part_of != fold
        line = np.polyfit(X[rest], np.array(Y)[rest], 1, w=np.sqrt(weights[rest]))
        squares[~rest] = (np.array(Y) - np.polyval(line, X))[~rest] ** 2
    (line_model,) = (one for one in found.models if len(one.fit.parameters) == 2)
    assert line_model.cv_error == pytest.approx(np.average(squares, weights=weights), rel=1e-9)


def test_all_models_have_the_same_rows() -> None:
    data = {"x": X, "z": [math.nan, *X[1:]], "y": Y}
    with pytest.raises(DataError, match="row 1, column `z`"):
        ad.compare([LINE, "y ~ a + b*z"], data)
    found = ad.compare([LINE, "y ~ a + b*z"], data, drop_missing=True)
    assert {one.fit.rows for one in found.models} == {11}


def test_classes_compare_by_their_deviance() -> None:
    kind = ["u", "v", "u", "u", "v", "u", "v", "v", "u", "v", "v", "v"]
    found = ad.compare(["kind ~ softmax(dense(x, 2))", "kind ~ softmax(dense([x, x^2], 2))"], {"x": X, "kind": kind})
    assert len(found.models) == 2
    assert all(one.cv_error is not None for one in found.models)


def test_what_cannot_be_compared_is_refused() -> None:
    data = {"x": X, "y": Y}
    with pytest.raises(OptionError, match="different targets, `y` and `log\\(y\\)`"):
        ad.compare([LINE, "log(y) ~ a + b*x"], data)
    with pytest.raises(OptionError, match="two models"):
        ad.compare([LINE], data)
    with pytest.raises(OptionError, match="given twice"):
        ad.compare([LINE, LINE], data)
    with pytest.raises(OptionError, match="no model has the parameter `q`"):
        ad.compare([LINE, "y ~ a"], data, start={"q": 1})


def test_bounds_limit_the_parameters_of_the_models_that_have_them() -> None:
    x = np.linspace(0, 6, 30)
    data = {"x": x, "y": 2 * np.exp(-0.4 * x) + np.exp(-1.5 * x) - 0.2 + 0.05 * np.cos(7 * np.arange(30))}
    two, one, flat = "y ~ a*exp(-k1*x) + b*exp(-k2*x)", "y ~ a*exp(-k1*x) + c", "y ~ c"
    bounds: dict[str, Any] = {"k1": (0, "k2"), "k2": (None, 5), "c": (0, None)}
    start = {"a": 2, "k1": 0.4, "b": 1, "k2": 1.5, "c": 0.1}
    found = ad.compare([two, one, flat], data, bounds=bounds, start=start, starts=3, folds=0)
    fits = {each.fit.model: each.fit for each in found.models}
    alone = {two: {"k1": (0, "k2"), "k2": (None, 5)}, one: {"k1": (0, None), "c": (0, None)}, flat: {"c": (0, None)}}
    for model, limits in alone.items():
        own = {name: value for name, value in start.items() if re.search(rf"\b{name}\b", model)}
        fit = ad.fit(model, data, bounds=limits, start=own, starts=3, no_columns=True)
        assert fits[model].parameters == fit.parameters
        assert fits[model].bounds == fit.bounds
    assert fits[one].parameters["c"] == 0
    with pytest.raises(OptionError, match="no model has the parameter `k3`"):
        ad.compare([two, one], data, bounds={"k1": (0, "k3")})


def test_cross_validation_of_penalised_fits_measures_the_loss_without_the_priors() -> None:
    data = {"x": X, "y": Y}
    found = ad.compare([LINE, CUBIC], data, folds=3, priors=["b ~ normal(0, 0.05)"])
    (line,) = (one for one in found.models if len(one.fit.parameters) == 2)
    part_of, squares = assign_folds(len(X), 3, 0), np.zeros(len(X))
    for fold in range(3):
        rest = part_of != fold
        part = ad.fit(LINE, {"x": X[rest], "y": np.array(Y)[rest]}, priors=["b ~ normal(0, 0.05)"])
        squares[~rest] = (np.array(Y) - part.predict({"x": X}))[~rest] ** 2
    assert line.cv_error == pytest.approx(squares.mean(), rel=1e-6)


def test_a_fold_that_has_no_fit_gives_no_cross_validation_error() -> None:
    data = {"x": np.arange(6.0), "passed": [0, 0, 1, 0, 1, 1]}  # without the third or fourth row, x separates the rest
    found = ad.compare(["passed ~ sigmoid(a + b*x)", "passed ~ sigmoid(a)"], data, folds=6, loss="bce")
    constant, line = sorted(found.models, key=lambda one: len(one.fit.parameters))
    assert constant.cv_error == pytest.approx(0.9162907318741551, rel=1e-9)
    assert line.cv_error is None
    assert line.fit.warnings == ["no cross-validation error: 2 of 6 folds could not be fitted"]


@each("model", ["y ~ a + b*x", "y ~ a*exp(b*x)"])
def test_of_models_that_fit_exactly_the_smallest_is_first_and_no_likelihood_decides(model: str) -> None:
    """Their likelihood has no maximum: an AIC would rank them by their rounding errors."""
    data = {"x": X, "y": [ad.parse(model.partition("~")[2])(x=x, a=1.3, b=0.7) for x in X]}
    *exact, constant = ad.compare(["y ~ a", f"{model} + d*x^2", model], data, folds=0).models
    assert [one.fit.model for one in exact] == [model, f"{model} + d*x^2"]
    assert {(one.delta, one.weight) for one in (*exact, constant)} == {(None, None)}
    for one in exact:
        figures = ("log_likelihood", "aic", "aicc", "bic", "null_test", "durbin_watson")
        assert {getattr(one.fit, name) for name in figures} == {None}
    assert constant.fit.aicc > 0


@each("loss", ["huber", "cauchy", "negative_binomial"], quick=lambda loss: loss == "huber")
def test_held_out_rows_of_all_models_have_one_scale(loss: str) -> None:
    target, model = ("counts", "y ~ exp(a + b*x)") if loss == "negative_binomial" else ("y", LINE)
    generator = np.random.default_rng(3)
    x = np.linspace(-1, 1, 30)
    y = {"y": 1 + 2 * x + 0.3 * generator.standard_t(2, size=30)}
    y["counts"] = generator.negative_binomial(3, 3 / (3 + 9 * np.exp(x / 2))) ** 1.0
    data = {"x": x, "y": y[target]}
    models = [model, model.replace("b*x", "b*x + c*x^2 + d*x^3 + e*x^4")]
    found = ad.compare(models, data, loss=loss, folds=3)
    scales = [one.fit.scale or 1.0 for one in found.models]
    assert max(scales) > 1.02 * min(scales)
    sheet = io.StringIO()
    comparison_report(found).write(Paper(sheet))
    assert "all with the scale of the model with the least scatter" in sheet.getvalue()
    scale, fold_of_row = max(scales) if target == "counts" else min(scales), assign_folds(30, 3, 0)
    for one in found.models:
        total = 0.0
        for fold in range(3):
            rest, held_out = ({name: each[mask] for name, each in data.items()} for mask in masks(fold_of_row, fold))
            fit = ad.fit(one.fit.model, rest, loss=loss, start=one.fit.parameters)
            objective = ad.Objective(one.fit.model, held_out, loss=loss, scale=scale)
            total += objective.value([*fit.parameters.values()]) * objective.rows
        assert one.cv_error == pytest.approx(total / 30, rel=1e-6)


def masks(fold_of_row: np.ndarray, fold: int) -> tuple[np.ndarray, np.ndarray]:
    return fold_of_row != fold, fold_of_row == fold


@pytest.mark.slow
def test_a_polynomial_does_not_seem_better_because_its_scale_is_small() -> None:
    curve = "y ~ a + b*x + c*x^2 + d*x^3 + e*x^4 + f*x^5 + g*x^6"
    best = []
    for seed in range(amount(2, 4, 4)):
        x = np.linspace(-1, 1, 20)
        y = 1 + 2 * x + 0.3 * np.random.default_rng(seed).standard_t(2, size=20)
        best.append(ad.compare([LINE, curve], {"x": x, "y": y}, loss="cauchy").models[0].fit.model)
    assert {*best} == {LINE}


# --- Which pairs are tested, and how models are ranked

LEVELS = {"x": X + 0.5, "y": np.array(Y), "g": [*"uvw"] * 4, "z": np.cos(X)}
UNKNOWN = "it is not known whether one is a special case of the other"


def undetermined(which: str) -> str:
    return f"the data do not determine {which}, so the distribution of the test statistic is not known"


@each("smaller, larger, reason", [
    ("y ~ a*exp(-b*x)", "y ~ a*exp(-b*x) + c", None),
    ("y ~ a*exp(-b*x)", "y ~ a*exp(-b*x)*c", undetermined("`a`, `c` where c = 1")),
    ("y ~ a*exp(-b*x)", "y ~ a*exp(-b*x) + c + d", undetermined("`c`, `d` where c = 0 and d = 0")),
    ("y ~ a*exp(-b*x)", "y ~ a*exp(-b*x) + c^2", undetermined("`c` where c = 0")),  # c^2 cannot be negative
    ("y ~ a*exp(-b*x)", "y ~ a*exp(-b*x) + sqrt(c)", undetermined("`a`, `b`, `c` where c = 0")),
    ("y ~ a*exp(-b*x)", "y ~ c*exp(-d*x) + f", UNKNOWN),
    ("y ~ a*exp(-b*x)", "y ~ a*exp(-b*x) + c*exp(-d*x)",
     undetermined("`d` where c = 0 and d = 0")),
    ("y ~ a*exp(-b*x)", "y ~ a*exp(-b*x^2) + c", UNKNOWN),
    ("y ~ a*x/(b + x)", "y ~ a[g]*x/(b + x)", None),
    ("y ~ a*x/(b + x)", "y ~ a[g]*x/(b[g] + x)", None),
    ("y ~ a*x/(b + x)", "y ~ a[g]*x/(b + x^2)", UNKNOWN),
    ("y ~ a + b*x", "y ~ a[g] + b*x", None),
    ("y ~ a + b*x", "y ~ c + d*(1e12*x) + f*z", None),
    ("y ~ a + b*x", "y ~ c*x + d*z + f*x^2", UNKNOWN),
    ("y ~ a + b*x + z", "y ~ c + d*x + f*z", None),
    ("y ~ a + b*x + z", "y ~ c + d*x + f*x^2", UNKNOWN),
    ("y ~ a + b*x", "y ~ c + d*x + f*x^2 + z", UNKNOWN),
    ("y ~ a + b*x", "y ~ dot(v, [z, 1, x])", None),
    ("y ~ 2*dot(v, [x, 1])", "y ~ a + b*x + c*z", None),
    ("y ~ a + b*x^2", "y ~ dot(v, [z, 1, x])", UNKNOWN),
    ("y ~ a*exp(-b*x)", "y ~ a*exp(-b*x) + dot(v, [x, z])", "they have array parameters"),
])  # fmt: skip
def test_models_are_nested_if_that_is_certain(smaller: str, larger: str, reason: str | None) -> None:
    objectives = [ad.Objective(model, LEVELS) for model in (smaller, larger)]
    assert why_not_nested(*objectives, dict.fromkeys(objectives[0].parameters, 0.5)) == reason


SCORES = "softmax([0, a + b*x, c + d*x])"


@each("smaller, larger, extra", [
    (SCORES, "softmax([0, a + b*x + f*z, c + d*x + h*z])", 2),
    (SCORES, "softmax(W @ [x, 1, z])", 2),
    ("softmax(v)", SCORES, 2),
    ("softmax(w*x + v)", "softmax([p + q*(x - 2), 0, r*x + s + t*x^2])", 1),
    ("softmax([0, a + b*x^2, c + d*x])", "softmax(W @ [x, 1, z])", None),
    (SCORES, "softmax(W @ [x, 1])", 0),
    ("sigmoid(a + b*x)", "sigmoid(c + d*(x - 2) + f*x^2)", 1),
    ("sigmoid(a + b*x)", "exp(c + d*(x - 9) + f*x^2 - 9)", None),
    ("sigmoid(a + b*x^2)", "sigmoid(c + d*x + f*z)", None),
])  # fmt: skip
def test_models_with_linear_scores_are_nested_if_the_larger_one_makes_all_of_the_smaller_ones(
    smaller: str, larger: str, extra: int | None
) -> None:
    """The scores of a softmax are determined up to a constant for each row."""
    generator = np.random.default_rng(3)
    x, z = generator.uniform(0, 4, 60).round(3), generator.normal(0, 1, 60).round(3)
    scores = np.stack([0 * x, x - 2, z]) + generator.gumbel(size=(3, 60))
    data = {"x": x, "z": z, "species": np.array(["u", "v", "w"])[scores.argmax(axis=0)], "hit": 1.0 * (scores[1] > 0)}
    shapes = {"v": "v: 3; ", "w": "w: 3; ", "W": "W: 3x3; " if "z]" in larger else "W: 3x2; "}
    target, options = ("species", {}) if "softmax" in smaller else ("hit", {"loss": "bce"})
    models = [
        "".join(shapes[name] for name in shapes if re.search(rf"\b{name}\b", text)) + f"{target} ~ {text}"
        for text in (smaller, larger)
    ]
    objectives = [ad.Objective(model, data, no_columns=True, **options) for model in models]
    assert why_not_nested(*objectives, {}) == (UNKNOWN if extra is None else None)
    if extra is not None:
        found = ad.compare(models, data, folds=0, **options)
        test, losses = only_test(found), {each.fit.model: each.fit.loss for each in found.models}
        assert test.dof == ((extra,) if extra else ())
        assert extra or test.reason == "the data do not determine all parameters"
        assert not extra or test.statistic == pytest.approx(120 * (losses[models[0]] - losses[models[1]]), rel=1e-6)


@each("smaller, larger, options", [
    ("y ~ a + b*x", "y ~ a + b*x + c", {}),
    ("y ~ a + b*x + c", "y ~ a + b*x + c + d*z + f*x^2", {}),
    ("y ~ a*exp(-b*x)", "y ~ a*exp(-b*x) + c + d", {}),
    ("y ~ a*exp(-b*x)", "y ~ a[g]*exp(-b*x)*c", {}),
    ("y ~ a", "y ~ a + b^2*x", {}),
    ("y ~ a", "y ~ a + b^2*x", {"sigma": 0.5, "absolute_sigma": True}),
    ("n ~ exp(a)", "n ~ exp(a + b^2*x)", {"family": "poisson"}),
    ("n ~ exp(a)", "n ~ exp(a + b*x) + c", {"family": "poisson"}),
    ("n ~ exp(a + b*x)", "n ~ exp(a + b*x + c)", {"family": "gamma"}),
], quick=lambda smaller, larger, options: "exp(-b*x)" not in smaller)  # fmt: skip
def test_models_with_parameters_that_data_do_not_determine_are_not_tested(
    smaller: str, larger: str, options: dict[str, Any]
) -> None:
    test = only_test(ad.compare([smaller, larger], {**LEVELS, "n": 1 + np.square(Y)}, folds=0, **options))
    assert test.reason
    assert not test.name


def pair(models: tuple[str, str] = ("y ~ a + b*x", "y ~ a + b*x + c*z"), **options: Any) -> Any:
    objectives = [Objective.of(model, as_dataset(LEVELS), FitOptions(**options)) for model in models]
    fits = [ad.fit(model, LEVELS, **options) for model in models]
    return [ComparedModel(fit, 3, None, None, None) for fit in fits], objectives


def judged(changes: tuple[dict[str, Any], dict[str, Any]], **options: Any) -> NestedTest:
    compared, objectives = pair(**options)
    models = [
        dataclasses.replace(one, fit=dataclasses.replace(one.fit, **change))
        for one, change in zip(compared, changes, strict=True)
    ]
    return _nested_test(*(one.fit for one in models), *objectives)


@each("which", [0, 1])
def test_pairs_without_a_test_have_the_reason(which: int) -> None:
    def with_change(**change: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return (change, {}) if which == 0 else ({}, change)

    assert judged(({}, {})).reason == ""
    assert judged(with_change(converged=False)).reason == "one of the fits did not converge"
    assert judged(with_change(rss=None)).reason == "there is no likelihood"
    ends = pair()[0][which].fit.parameters["a"], None
    assert judged(with_change(bounds={"a": ends})).reason == "a parameter is on a bound"
    exact = "the larger model fits exactly, so the residual variance is unknown"
    assert judged(with_change(is_perfect=True)).reason == (exact if which else "")
    assert judged(with_change(dof=0)).reason == (exact if which else "")
    worse = "the model with more parameters fits worse, so its best fit was not found"
    rss = 0.0 if which == 0 else 99.0
    assert judged(with_change(rss=rss)).reason == worse
    larger = pair()[0][1].fit
    scatter = larger.rss / larger.dof
    for gain, reason in ((-1e-4, worse), (-1e-8, "")):  # in units of the variance: more than rounding, and less
        change = {"rss": larger.rss + (gain if which == 0 else -gain) * scatter}
        assert judged(({"rss": larger.rss}, change) if which else (change, {})).reason == reason


def test_tests_are_f_tests_or_likelihood_ratios() -> None:
    found, larger = judged(({}, {})), pair()[0][1].fit
    gain = pair()[0][0].fit.rss - larger.rss
    assert (found.name, found.dof) == ("F", (1, larger.dof))
    assert found.statistic == pytest.approx(gain / (larger.rss / larger.dof), rel=1e-9)
    known = judged(({}, {}), sigma=0.5, absolute_sigma=True)
    assert (known.name, known.statistic) == ("likelihood ratio", pytest.approx(gain / 0.25, rel=1e-9))
    assert judged(({}, {}), loss="huber").reason == "the loss huber is not a likelihood"
    assert judged(({}, {}), priors={"a": "normal(0, 9)"}).reason == "parameters have priors"
    counts = pair(("y ~ exp(a + b*x)", "y ~ exp(a + b*x + c*z)"), family="gamma")
    dispersed = _nested_test(*(one.fit for one in counts[0]), *counts[1])
    deviances = [one.fit.deviance for one in counts[0]]
    assert dispersed.name == "F"
    assert dispersed.statistic == pytest.approx((deviances[0] - deviances[1]) / counts[0][1].fit.dispersion, rel=1e-9)


def test_models_are_ranked_by_aicc_and_those_without_by_their_errors() -> None:
    plain = pair()[0][0]

    def one(cv_error: float | None = None, k: int = 3, **change: Any) -> ComparedModel:
        return ComparedModel(dataclasses.replace(plain.fit, **change), k, None, None, cv_error)

    ranked = [
        one(k=2, is_perfect=True, loss=0.0),
        one(k=5, is_perfect=True, loss=0.0),
        one(aicc=-9.0),
        one(aicc=4.0, bic=1.0),
        one(aicc=4.0, bic=2.0),
        one(cv_error=0.1, aicc=None, loss=9.0),
        one(cv_error=0.2, aicc=math.nan, loss=1.0),
        one(aicc=None, loss=1.0),
        one(aicc=None, loss=2.0),
        one(aicc=None, loss=math.nan),
        one(aicc=-99.0, failure="no minimum was found", loss=1.0),
    ]
    for seed in range(3):
        shuffled = [ranked[k] for k in np.random.default_rng(seed).permutation(len(ranked))]
        assert sorted(shuffled, key=_ranking_key) == ranked
    drawn = [
        dataclasses.replace(one(cv_error=error, aicc=None), loo=LeaveOneOut(elpd, 1.0, 2.0, 0.1))
        for error, elpd in ((0.3, -3.0), (0.2, -5.0), (0.1, -9.0))  # rows are predicted best by the largest density
    ]
    assert sorted([drawn[1], drawn[2], drawn[0]], key=_ranking_key) == drawn


@each("weights", [None, np.r_[0.0, np.linspace(0.5, 2, 11)]])
def test_the_cross_validation_error_is_the_weighted_mean_of_held_out_losses(weights: Any) -> None:
    options = FitOptions(weights=weights, seed=4)
    objective = Objective.of("y ~ a + b*x", as_dataset(LEVELS), options)
    found = ad.fit("y ~ a + b*x", LEVELS, weights=weights)
    error, reason = cross_validation_error(objective, found, options, 4)
    used, total = np.ones(12) if weights is None else weights, 0.0
    used, x, y = (column[used > 0] for column in (used, LEVELS["x"], LEVELS["y"]))
    for fold in range(4):
        rest = assign_folds(len(x), 4, 4) != fold
        line = np.polyfit(x[rest], y[rest], 1, w=np.sqrt(used[rest]))
        total += np.sum(used[~rest] * (y[~rest] - np.polyval(line, x[~rest])) ** 2)
    assert (error, reason) == (pytest.approx(total / used.sum(), rel=1e-9), "")
    assert cross_validation_error(objective, found, options, 1) == (None, "")
    assert cross_validation_error(objective, dataclasses.replace(found, failure="none"), options, 4) == (None, "")


def test_why_there_is_no_cross_validation_error() -> None:
    few = {"x": np.arange(4.0), "y": np.array([1.0, 3, 2, 5]), "g": [*"aabb"]}
    for model, folds, words in (
        ("y ~ a + b*x + c*x^2", 2, "the rows without a fold are fewer than the parameters"),
        ("y ~ a[g]", 3, "a fold has rows whose parameters the other folds do not determine"),
    ):
        options = FitOptions(seed=next(k for k in range(50) if len({*assign_folds(4, 3, k)[:2]}) == 1))
        objective = Objective.of(model, as_dataset(few), options)
        error, reason = cross_validation_error(objective, ad.fit(model, few), options, folds)
        assert error is None
        assert reason == f"no cross-validation error: {words}"


def test_a_wide_prior_changes_no_cross_validation_error() -> None:
    x = np.linspace(0, 4, 24)
    data, models = {"x": x, "y": 1 + 0.5 * x + 0.1 * np.cos(9 * x)}, ["y ~ a + b*x", "y ~ a + b*x + c*x^2"]
    plain, wide = (ad.compare(models, data, folds=4, priors=priors) for priors in ([], ["a ~ normal(0, 10000)"]))
    errors = [[one.cv_error for one in found.models] for found in (plain, wide)]
    assert errors[0] == pytest.approx(errors[1], rel=1e-6)
