"""Fits as users see them: what the record says, what is reproducible, and how a fit that fails says so."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import numpy as np
import pytest

from autodiff_cli import DataError, ExpressionError, MissingValueError, Objective, UnknownNameError, fit, parse
from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting.fit import FitRun, FitVerdict, judge
from autodiff_cli.training.fitting.inference import DerivedQuantities
from autodiff_cli.training.fitting.progress import Progress
from autodiff_cli.training.methods.gradient_descent import Outcome
from autodiff_cli.training.objective.loading import as_dataset
from autodiff_cli.training.optimizers import OPTIMIZERS, Epoch
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.statistics import compute_statistics
from tests.each import each

MODEL = "y ~ a*exp(-b*x) + c"
TRUTH = {"a": 2.5, "b": 1.3, "c": 0.1}


def decay(rows: int = 200, noise: float = 0.02) -> dict[str, Any]:
    x = np.linspace(0, 4, rows)
    clean = TRUTH["a"] * np.exp(-TRUTH["b"] * x) + TRUTH["c"]
    return {"x": x, "y": clean + np.random.default_rng(0).normal(0, noise, rows)}


def line(**columns: Any) -> dict[str, Any]:
    return {"x": [0.0, 1.0, 2.0, 3.0], "y": [1.0, 3.0, 4.0, 8.0], **columns}


# --- what is found


@each("optimizer", ["auto", "lm", "lbfgs"])
def test_methods_that_run_to_convergence(optimizer: str) -> None:
    found = fit(MODEL, decay(noise=0), optimizer=optimizer)
    assert found.parameters == pytest.approx(TRUTH, rel=1e-6)
    assert found.converged
    assert found.optimizer == ("lm" if optimizer == "auto" else optimizer)
    assert not found.failure


@each("optimizer", OPTIMIZERS)
@each("batch_size", [None, 32])
def test_gradient_methods_go_down_and_are_the_same_again(optimizer: str, batch_size: int | None) -> None:
    runs = [fit(MODEL, decay(), optimizer=optimizer, epochs=20, batch_size=batch_size, seed=3) for _ in range(2)]
    assert runs[0].parameters == runs[1].parameters
    assert runs[0].history == runs[1].history
    assert runs[0].loss < runs[0].history[0]["loss"]
    assert runs[0].epochs == 20


def test_the_loss_of_several_targets_is_the_mean_of_all_squares() -> None:
    x, y, z = np.array([1.0, 2, 3]), np.array([1.0, 2, 4]), np.array([2.0, 5, 6])
    found = fit("[y, z] ~ [a*x, b*x]", {"x": x, "y": y, "z": z})
    slopes = np.array([[found.parameters["a"]], [found.parameters["b"]]])
    assert found.loss == pytest.approx(np.mean((np.array([y, z]) - slopes * x) ** 2), rel=1e-12)


@each(
    "options",
    [
        {},
        {"sigma": 0.1, "absolute_sigma": True},
        {"priors": {"a": "normal(2, 0.2)", "d": "normal(0.1, 0.1)"}},
        {"priors": {"a": "normal(2, 0.2)"}, "sigma": 0.2, "absolute_sigma": True},
        {"l2": 0.01},
        {"loss": "huber"},
    ],
)
def test_several_targets_are_fitted_as_one_target_with_as_many_rows(options: Any) -> None:
    x, generator = np.linspace(0.1, 3, 9), np.random.default_rng(3)
    y = 3 * np.exp(-x) + 0.5 + 0.1 * generator.normal(size=9)
    z = 2 - 0.4 * x + 0.1 * generator.normal(size=9)
    start = {"a": 3, "b": 1, "c": 0.5, "d": 0.4}
    together = fit("[y, z] ~ [a*exp(-b*x) + c, a - d*x]", {"x": x, "y": y, "z": z}, start=start, **options)
    data = {"x": np.tile(x, 2), "y": np.concatenate((y, z)), "first": np.repeat([1.0, 0.0], 9)}
    stacked = fit("y ~ where(first == 1, a*exp(-b*x) + c, a - d*x)", data, start=start, **options)
    for name in ("parameters", "stderr"):
        assert getattr(together, name) == pytest.approx(getattr(stacked, name), rel=1e-6), name
    assert np.allclose(together.correlation, stacked.correlation, atol=1e-6)
    for name in ("loss", "rss", "rmse", "dof", "log_likelihood", "aicc"):
        mine, theirs = getattr(together, name), getattr(stacked, name)
        assert mine == theirs or mine == pytest.approx(theirs, rel=1e-6), name


def test_another_seed_is_another_order() -> None:
    runs = [fit(MODEL, decay(), batch_size=32, epochs=3, seed=seed).parameters for seed in (0, 1)]
    assert runs[0] != runs[1]


def test_the_defaults_of_auto() -> None:
    assert fit(MODEL, decay(), batch_size=50, epochs=1).optimizer == "adam"
    assert fit(MODEL, decay(), loss="huber").optimizer == "lbfgs"
    assert fit("(y - a)^2", line()).parameters["a"] == pytest.approx(4.0)
    assert fit(MODEL, decay(), optimizer="sgd").epochs == 100


def test_least_absolute_residuals_resist_an_outlier_and_have_no_standard_errors() -> None:
    data = {"x": np.arange(20.0), "y": 2 * np.arange(20.0) + 1}
    data["y"][7] = 1e4
    found = fit("y ~ a*x + b", data, loss="mae")
    assert found.parameters == pytest.approx({"a": 2, "b": 1}, abs=1e-4)
    assert found.stderr == {"a": None, "b": None}
    assert "the loss mae is not a likelihood" in found.warnings[-1]


@pytest.mark.parametrize("slope", [2.0, 2.1, -1 / 3])
def test_statistics_of_rounding_errors_are_not_to_be_trusted(slope: float) -> None:
    x = np.arange(1.0, 9.0)
    perfect = fit("y ~ a*x + b", {"x": x, "y": slope * x})
    assert any("residuals are rounding errors" in warning for warning in perfect.warnings)
    assert not any("signs" in note for note in perfect.notes)  # b is 0 but for rounding
    huge = fit("y ~ a*x", {"x": x, "y": 1e300 * x})
    assert huge.failure
    assert not any("rounding" in warning for warning in huge.warnings)
    good = fit("y ~ a*x + b", {"x": x, "y": np.round(slope * x + 1e-10 * np.cos(9 * x), 12)})
    assert not good.warnings


def test_better_starting_values_are_estimated_and_reported() -> None:
    x = np.linspace(0, 10, 100)
    found = fit("y ~ a*sin(w*x + p)", {"x": x, "y": 3 * np.sin(2.2 * x + 0.4) + 1e-3 * np.sin(40 * x)})
    assert found.rss == pytest.approx(0, abs=1e-4)
    assert any("better ones were estimated from the data: a = " in note for note in found.notes)
    assert not found.warnings  # the fit is good
    assert [record["epoch"] for record in found.history] == [*range(found.epochs + 1)]


def test_starting_values_of_the_user_are_used() -> None:
    x = np.linspace(0, 10, 100)
    data = {"x": x, "y": 3 * np.sin(2.2 * x + 0.4)}
    found = fit("y ~ a*sin(w*x + p)", data, start={"a": 1, "w": 5, "p": 0})
    first = Objective("y ~ a*sin(w*x + p)", data).value_and_grad([1, 5, 0])[0]
    assert found.history[0]["loss"] == pytest.approx(first, rel=1e-14)
    assert not any("better ones were estimated" in note for note in found.notes)
    assert ["doubtful" in warning for warning in found.warnings] == [True]  # w is 2.2, far from there


def test_points_outside_the_domain_on_the_way_do_not_stop_it() -> None:
    x = np.linspace(0.1, 5, 50)
    found = fit(
        "y ~ sqrt(a*x) + log(b + x)", {"x": x, "y": np.sqrt(0.01 * x) + np.log(0.02 + x)}, start={"a": 9, "b": 9}
    )
    assert found.parameters == pytest.approx({"a": 0.01, "b": 0.02}, rel=1e-6)


# --- history


def test_history_begins_before_the_first_step_and_ends_at_the_loss() -> None:
    data = decay()
    objective = Objective(MODEL, data)
    seen: list[Epoch] = []
    for optimizer in ("lm", "lbfgs", "adam"):
        seen.clear()
        found = fit(MODEL, data, start={"a": 2}, optimizer=optimizer, epochs=5, on_epoch=seen.append)
        assert [record["epoch"] for record in found.history] == [*range(6)]
        assert found.history[0]["loss"] == pytest.approx(objective.value_and_grad([2, 1, 1])[0], rel=1e-14)
        assert found.history[-1]["loss"] == pytest.approx(found.loss, rel=1e-14)
        assert [{"epoch": epoch.number, "loss": epoch.loss} for epoch in seen] == found.history
        for epoch in seen:
            assert epoch.loss == pytest.approx(objective.value_and_grad(epoch.theta)[0], rel=1e-13)


def test_with_batches_history_is_the_mean_of_the_batches_and_loss_is_over_all_rows() -> None:
    data = {"y": [1.0, 1.0, 1.0, 1.0]}
    found = fit("y ~ a", data, start={"a": 0}, optimizer="sgd", learning_rate=0.25, batch_size=2, epochs=1)
    # Each batch halves the distance: the losses are 1 and 1/4.
    assert found.history == [{"epoch": 0, "loss": 1.0}, {"epoch": 1, "loss": (1 + 0.25) / 2}]
    assert found.loss == 0.0625


def test_no_epochs_is_the_start() -> None:
    found = fit(MODEL, decay(), start=TRUTH, optimizer="adam", epochs=0)
    assert found.parameters == TRUTH
    assert found.history == [{"epoch": 0, "loss": found.loss}]


# --- statistics


def test_errors_of_a_straight_line() -> None:
    found = fit("y ~ a + b*x", line())
    # By the textbook: b = 2.2, a = 0.7, rss = 1.8, standard errors sqrt(0.9/5) and sqrt(0.9*14/(4*5)).
    assert found.parameters == pytest.approx({"a": 0.7, "b": 2.2}, rel=1e-14)
    assert (found.rss, found.dof, found.loss) == (pytest.approx(1.8), 2, pytest.approx(0.45))
    assert found.stderr == pytest.approx({"a": math.sqrt(0.9 * 14 / 20), "b": math.sqrt(0.9 / 5)}, rel=1e-13)
    np.testing.assert_allclose(found.covariance, 0.9 * np.array([[14, -6], [-6, 4]]) / 20, rtol=1e-13)
    assert found.r_squared == pytest.approx(1 - 1.8 / 26, rel=1e-14)


def test_weights_count_rows() -> None:
    twice = {name: [values[0], *values] for name, values in line().items()}
    weighted = fit("y ~ a + b*x", line(), weights=[2, 1, 1, 1])
    repeated = fit("y ~ a + b*x", twice)
    assert weighted.parameters == pytest.approx(repeated.parameters, rel=1e-13)
    assert weighted.rss == pytest.approx(repeated.rss, rel=1e-13)
    assert weighted.loss == pytest.approx(repeated.loss, rel=1e-13)
    assert weighted.r_squared == pytest.approx(repeated.r_squared, rel=1e-13)
    assert weighted.dof == 2


def test_sigma_scaled_and_absolute() -> None:
    scaled = fit("y ~ a + b*x", line(s=[3.0] * 4), sigma="s")
    absolute = fit("y ~ a + b*x", line(), sigma=[3.0] * 4, absolute_sigma=True)
    plain = fit("y ~ a + b*x", line())
    assert scaled.stderr == pytest.approx(plain.stderr, rel=1e-13)
    assert absolute.stderr == pytest.approx({"a": 3 * math.sqrt(14 / 20), "b": 3 * math.sqrt(1 / 5)}, rel=1e-13)
    assert scaled.rss == pytest.approx(plain.rss / 9, rel=1e-13)
    assert len({scaled.definition, absolute.definition, plain.definition}) == 3


def test_errors_of_a_likelihood_come_from_its_hessian() -> None:
    generator = np.random.default_rng(0)
    z = generator.normal(size=400)
    t = generator.random(400) < 1 / (1 + np.exp(0.5 - 2 * z))
    found = fit("t ~ sigmoid(a*z + b)", {"z": z, "t": t}, loss="bce")
    p = found.predict({"z": z})
    design = np.stack([z, np.ones(400)], axis=1)
    expected = np.linalg.inv(design.T @ (design * (p * (1 - p))[:, None]))
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-6)
    assert found.converged


@each(
    ("model", "data", "unknown", "reason", "dof"),
    [
        ("y ~ a*b*x + c", line(), {"a", "b"}, "only a combination of `a`, `b`", 2),
        ("y ~ a + b*x + 0*c*x", line(), {"c"}, "`c` is not determined: .* do not change", 2),
        ("y ~ a + where(x > 9, b, 0)", line(), {"b"}, "`b` is not determined", 3),
        ("y ~ a + b*x + c*x^2 + d*x^3", line(), {"a", "b", "c", "d"}, "no more rows than parameters", 0),
        ("y ~ a + b*x + c*x^2 + d*x^3 + f*x^4", line(), {"a", "b", "c", "d", "f"}, "no more rows than parameters", 0),
    ],
)
def test_undetermined_parameters_have_no_error_but_a_reason(
    model: str, data: dict[str, Any], unknown: set[str], reason: str, dof: int
) -> None:
    found = fit(model, data)
    assert {name for name, error in found.stderr.items() if error is None} == unknown
    assert re.search(reason, "\n".join(found.warnings))
    assert found.dof == dof


def test_a_perfect_fit_has_errors_of_0() -> None:
    found = fit("y ~ a + b*x", {"x": [0, 1, 2], "y": [1, 3, 5]})
    assert found.parameters == pytest.approx({"a": 1, "b": 2}, rel=1e-14)
    assert found.stderr == pytest.approx({"a": 0, "b": 0}, abs=1e-14)
    assert found.r_squared == 1


def test_a_target_that_does_not_vary_has_no_r_squared() -> None:
    assert math.isnan(fit("y ~ a", {"y": [2, 2, 2]}).r_squared or 0)


def test_an_expression_has_a_loss_only() -> None:
    found = fit("(y - a)^2", line())
    assert (found.rss, found.r_squared, found.dof) == (None, None, 3)
    assert "without residuals" in found.warnings[-1]


def test_transformed_targets_are_judged_on_their_scale() -> None:
    data = {"x": [0.0, 1.0, 2.0], "y": np.exp([1.0, 3.0, 4.0])}
    found = fit("log(y) ~ a + b*x", data)
    assert found.rss == pytest.approx(fit("y ~ a + b*x", {**data, "y": [1.0, 3.0, 4.0]}).rss, rel=1e-12)


# --- names


def test_a_column_replaces_a_constant_with_a_warning() -> None:
    found = fit("y ~ a*e", {"e": [1.0, 2.0], "y": [3.0, 6.0]})
    assert found.parameters == pytest.approx({"a": 3})
    assert any("`e` is a variable here, not the constant" in warning for warning in found.warnings)


def test_parameters_with_names_of_constants_are_noted_without_a_warning() -> None:
    found = fit("y ~ a*x/tau + e", line(), fixed={"tau": 2})
    assert not any("constant" in warning for warning in found.warnings)
    assert [note.partition(" is a variable here")[0] for note in found.notes] == ["`tau`", "`e`"]
    assert "write `exp(x)`" in found.notes[1]


@each(
    "model",
    [
        "y ~ a*(x/k)^n/(1 + (x/k)^n)",
        "y ~ a/(1 + (k/x)^n)",
        "y ~ a*(1 - 1/(1 + (x/k)^n))",
        "y ~ a*sqrt(x/k)/(1 + sqrt(x/k))",
    ],
)
def test_a_row_at_0_is_no_problem_for_powers_of_ratios(model: str) -> None:
    """As a control without a dose is: the power is 0 there whatever the exponent, or infinite."""
    x = np.array([0, 0, 0.2, 0.5, 1, 2, 4, 8])
    power = (x / 1.3) ** (0.5 if "sqrt" in model else 0.7)
    found = fit(model, {"x": x, "y": 3 * power / (1 + power) + 0.01 * np.cos(9 * x)}, start={"a": 2.0})
    assert found.converged
    assert found.parameters["a"] == pytest.approx(3, rel=0.05)
    assert found.parameters["k"] == pytest.approx(1.3, rel=0.1)
    assert not found.warnings


def test_columns_that_are_no_names_do_not_matter() -> None:
    assert fit("y ~ a*x", line(**{"2nd col": ["u"] * 4, "": [0] * 4})).parameters["a"] > 0


def test_a_likely_misspelling_is_pointed_out() -> None:
    data = {"price": [1.0, 2.0, 4.0], "y": [1.0, 2.0, 3.0]}
    assert any("did you mean the column `price`?" in warning for warning in fit("y ~ a*price + pricee", data).warnings)
    assert any("did you mean the column `price`?" in warning for warning in fit("y ~ a*price + Price", data).warnings)
    assert not fit("y ~ a*price + pricee", data, start={"pricee": 1}).warnings
    assert not fit("y ~ a*price + b", data).warnings


@each(
    ("options", "error", "message"),
    [
        ({"start": {"aa": 1}}, UnknownNameError, "no parameter `aa`(.|\n)*Did you mean `a`"),
        ({"start": {"x": 1}}, UnknownNameError, "`x` is a column"),
        ({"fixed": {"a": 1, "b": 1, "c": 1}}, OptionError, "every parameter is fixed"),
        ({"optimizer": "adm"}, OptionError, "did you mean adam?"),
        ({"optimizer": "lm", "loss": "mae"}, OptionError, "lm minimises squared residuals"),
        ({"optimizer": "lm", "batch_size": 2}, OptionError, "lm uses all rows at every step"),
        ({"batch_size": 0}, OptionError, "batch_size must be at least 1, not 0"),
        ({"epochs": -1}, OptionError, "epochs must be at least 0, not -1"),
        ({"seed": -1}, OptionError, "seed must be at least 0, not -1"),
        ({"learning_rate": 0}, OptionError, "must be positive, not 0"),
        ({"learning_rate": math.nan}, OptionError, "must be positive, not nan"),
        ({"absolute_sigma": True}, OptionError, "absolute_sigma needs sigma"),
        ({"learning_rate": 0.1}, OptionError, "lm chooses its own step sizes; a learning rate is for sgd, .* or adamw"),
        ({"optimizer": "lbfgs", "learning_rate": 0.1}, OptionError, "lbfgs chooses its own step sizes"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fit(MODEL, decay(5), **options)


def test_a_bad_cell_stops_the_fit_unless_it_is_left_out() -> None:
    data = line(y=[1.0, 3.0, math.nan, 8.0])
    with pytest.raises(DataError, match="row 3, column `y`: nan"):
        fit("y ~ a*x + b", data)
    found = fit("y ~ a*x + b", data, drop_missing=True)
    assert found.rows == 3
    assert "rows left out because a cell is missing: 1" in found.notes


def test_a_model_continues_after_its_sign() -> None:
    assert fit("y ~\n a*x +\n b", line()).parameters == fit("y ~ a*x + b", line()).parameters


def test_a_model_that_is_no_text_of_the_language() -> None:
    with pytest.raises(ExpressionError):
        fit("y ~ a*", line())


# --- what a fit can do


def test_predictions_and_the_formula_agree() -> None:
    found = fit(MODEL, decay(), fixed={"c": -0.25})
    x = np.linspace(0, 9, 5)
    formula = parse(found.formula)
    assert formula.variables == ("x",)
    np.testing.assert_array_equal(formula(x=x), found.predict({"x": x}))
    np.testing.assert_array_equal(found.predict({"x": [1.0], "other": ["text"]}), found.predict({"x": np.array([1.0])}))
    with pytest.raises(MissingValueError, match="`x`"):
        found.predict({"z": x})


def test_a_prediction_without_columns_has_one_value_per_row() -> None:
    assert fit("y ~ a", line(), no_columns=True).predict({"x": [1.0, 2.0, 3.0]}) == pytest.approx([4.0] * 3)


# --- fits that fail


def test_divergence_gives_the_parameters_before_it_and_advice() -> None:
    found = fit(MODEL, decay(), optimizer="sgd", learning_rate=1e4)
    assert not found.converged
    assert found.epochs == len(found.history) - 1
    assert f"in epoch {found.epochs + 1}: `square(y - (a*exp(-b*x) + c))` is inf in row 1" in found.failure
    assert f"; the parameters are those of epoch {found.epochs}." in found.failure
    assert "smaller learning rate" in found.failure
    assert all(math.isfinite(value) for value in found.parameters.values())
    assert found.loss == found.history[-1]["loss"] > found.history[0]["loss"]
    assert found.stderr == dict.fromkeys("abc")
    assert found.warnings[-1] == found.failure


@each("optimizer", ["lm", "lbfgs", "adam"])
def test_a_loss_that_is_not_defined_at_the_start(optimizer: str) -> None:
    found = fit("y ~ log(a) + b*x", line(), start={"a": -1, "b": 2}, optimizer=optimizer)
    if optimizer != "adam":
        assert any("better ones were estimated" in note for note in found.notes)
        assert found.converged
        return
    where = "`log(a)` is nan in row 1 (y = 1, x = 0) and 3 more, where a = -1"
    assert found.failure == f"the loss is nan at the start: {where}; try other starting values, or leave such rows out"
    assert found.parameters == {"a": -1, "b": 2}
    assert (found.epochs, found.history, found.converged) == (0, [], False)


@each("model", ["y ~ sqrt(a)", "y ~ a + where(a > 2, 0, sqrt(-1))"])
def test_the_edge_of_a_domain_is_no_solution(model: str) -> None:
    found = fit(model, {"y": [-1.0, -1.1, -1.3]}, start={"a": 5})
    assert not found.converged
    assert any("towards the edge of the model's domain" in words for words in found.warnings)


def test_stopping_early_is_not_convergence_and_no_failure() -> None:
    for optimizer in ("lm", "lbfgs", "adam"):
        found = fit(MODEL, decay(), optimizer=optimizer, epochs=2)
        assert (found.converged, found.failure, found.epochs) == (False, "", 2)
        assert "not converged" in found.warnings[-1]


@each(("epochs", "converged"), [(27, False), (30, False), (31, True), (40, True)])
def test_a_gradient_method_has_converged_when_a_millionth_is_left(epochs: int, converged: bool) -> None:
    # Each epoch leaves 0.8² of what the loss exceeds 1 by, and 0.64^30.96 is a millionth.
    found = fit("y ~ a", {"y": [0.0, 2.0]}, start={"a": 0}, optimizer="sgd", learning_rate=0.1, epochs=epochs)
    assert found.loss == pytest.approx(1 + 0.64**epochs)
    assert found.converged is converged


def test_small_steps_are_not_convergence() -> None:
    assert not fit("y ~ a", {"y": [1.0, 1.0]}, start={"a": 0}, optimizer="sgd", learning_rate=1e-9).converged


@pytest.mark.slow
@each("optimizer", ["lm", "lbfgs"])
@each("power", ["x^b", "abs(x)^b", "sqrt(x)^b"])
def test_a_parameter_that_converges_to_a_jump_of_the_loss_has_no_error(power: str, optimizer: str) -> None:
    """`0^b` is 0 for b > 0, 1 at 0 and infinite below, so no error describes how far `b` may be from 0."""
    data = {"x": [0.0, 1.0, 2.0, 3.0], "y": [3.0, 3.0, 3.0, 3.0]}
    found = fit(f"y ~ a*{power}", data, optimizer=optimizer)
    assert found.parameters["b"] == pytest.approx(0, abs=1e-5)
    assert found.stderr == {"a": None, "b": None}
    assert "no standard errors: `b` converges to 0, where the loss jumps" in found.warnings
    data["x"][0] = 1.5
    data["y"][0] = 3.25
    assert fit(f"y ~ a*{power}", data, optimizer=optimizer).stderr["b"] is not None


# --- The verdict on a fit

VERDICT_DATA = {"x": np.arange(9.0), "y": 300 * (1 + 2 * np.arange(9.0) + 0.3 * np.cos(9 * np.arange(9)))}
LINE_END = np.polyfit(VERDICT_DATA["x"], VERDICT_DATA["y"], 1)


def verdict(
    method: str = "lm", end: dict[str, Any] | None = None, options: dict[str, Any] | None = None, **change: Any
) -> FitVerdict:
    """Return the verdict on the best line, with changes of its outcome, options and statistics."""
    settings = FitOptions(**(options or {}))
    objective = Objective.of("y ~ a*x + b", as_dataset(VERDICT_DATA), settings)
    statistics = compute_statistics(objective, LINE_END, with_goodness=True)
    assert statistics.null_test is not None
    outcome = Outcome(LINE_END, **{"converged": True, **(end or {})})
    quantities = DerivedQuantities({}, objective.model, objective.layout)
    run = FitRun(objective, method, Progress(), settings, quantities)
    return judge(run, outcome, dataclasses.replace(statistics, **change))


OPEN: dict[str, Any] = {"converged": False}
PATIENT: dict[str, Any] = {"patience": 3, "validation": 0.2}


@each("method, end, options, distance, closing", [
    ("lm", {}, {}, 1e-9, None),
    ("lm", {}, {}, 0.49, None),
    ("lm", {}, {}, 0.51, "not converged: the loss falls ever more slowly"),
    ("adam", {}, {}, 0.51, "not converged: this learning rate leads close to the minimum"),
    ("lm", {}, {"tolerance": 1e-3}, 0.51, None),
    ("adam", {}, PATIENT, 0.51, None),
    ("lm", {"kinks": (0,)}, {}, 0.51, "`a` ends at a kink of the loss"),
    ("lm", {"kinks": (0,), "note": "a remark"}, {}, 0.51, "a remark; `a` ends at a kink of the loss"),
    ("adam", OPEN, {}, 1e-9, None),
    ("adam", OPEN, {}, 0.2, "not converged"),
    ("lm", OPEN | {"failure": "no minimum was found"}, {}, 1e-9, "no minimum was found"),
    ("lm", {"note": "a remark"}, {}, 1e-9, "a remark"),
    ("lm", OPEN | {"note": "a remark"}, {}, 0.2, "a remark"),
    ("lm", {}, {}, math.nan, None),
])  # fmt: skip
def test_a_fit_has_converged_by_its_end_and_its_distance_to_the_minimum(
    method: str, end: dict[str, Any], options: dict[str, Any], distance: float, closing: str | None
) -> None:
    found = verdict(method, end, options, minimum_distance=distance)
    is_remark = closing is not None and (closing == "a remark" or "kink" in closing)
    assert found.converged is (closing is None or (is_remark and end.get("converged", True)))
    assert (found.reasons == []) is (closing is None)
    assert closing is None or found.reasons[-1].startswith(closing)
    assert (found.statistics.null_test is not None) is found.converged
    assert any("`a` went from 1 to 593.49" in text for text in found.reasons) is (not found.converged)


def test_a_perfect_fit_has_no_likelihood_and_a_separated_one_no_minimum() -> None:
    perfect = verdict(is_perfect=True)
    assert (perfect.statistics.aic, perfect.statistics.log_likelihood, perfect.statistics.null_test) == (None,) * 3
    assert "the residuals are rounding errors, so there is no likelihood and no AIC" in perfect.warnings[0]
    assert perfect.warnings[0].endswith("; the standard errors only reflect rounding")
    without = verdict(is_perfect=True, aic=None, definition="")
    assert without.warnings[0] == "the residuals are rounding errors"
    separated = verdict(separation_warning="the model separates classes")
    assert (separated.converged, separated.reasons) == (False, ["the model separates classes"])
    assert separated.statistics.null_test is not None
