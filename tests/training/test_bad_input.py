"""Data and models that make no sense, or only half: what is refused, and what is fitted and said."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.options import OptionError
from tests.each import each
from tests.support import expect_refusal, run_cli

X = np.linspace(0, 4, 30)
DATA = {"x": X, "y": 2.5 * np.exp(-1.3 * X) + 0.03 * np.random.default_rng(0).standard_normal(30)}
OPTIMIZERS = ["lm", "lbfgs", "adam"]


# --- fitted, and said


@each("optimizer", OPTIMIZERS)
def test_more_parameters_than_rows(optimizer: str) -> None:
    found = ad.fit("y ~ a*exp(-b*x) + c", {"x": [0.0, 1], "y": [1, 0.5]}, optimizer=optimizer)
    assert found.dof == 0
    assert set(found.stderr.values()) == {None}
    assert any("no more rows than parameters" in words for words in found.warnings)
    assert found.reduced_chi_squared is None


def test_as_many_parameters_as_rows() -> None:
    found = ad.fit("y ~ a*exp(-b*x)", {"x": [0.0, 1], "y": [1, 0.5]})
    assert found.parameters == pytest.approx({"a": 1, "b": math.log(2)})
    assert (found.dof, set(found.stderr.values())) == (0, {None})
    assert found.confidence() == {"a": None, "b": None}


def test_a_single_row() -> None:
    found = ad.fit("y ~ a*x + b", {"x": [1.0], "y": [1.0]})
    assert found.rss == pytest.approx(0, abs=1e-20)
    assert any("only a combination of `a`, `b`" in words for words in found.warnings)


@each("optimizer", OPTIMIZERS)
def test_a_constant_predictor(optimizer: str) -> None:
    found = ad.fit("y ~ a*x + b", {"x": [2.0, 2, 2], "y": [1, 0.5, 2]}, optimizer=optimizer, epochs=None)
    assert set(found.stderr.values()) == {None}
    words = "the data determine only a combination of `a`, `b`, not each of them"
    assert f"{words}; fix one of them with `train --fix`, or leave one out" in found.warnings


@each("optimizer", ["lm", "lbfgs"])
def test_a_constant_target(optimizer: str) -> None:
    found = ad.fit("y ~ a*x + b", {"x": [1.0, 2, 3], "y": [1, 1, 1]}, optimizer=optimizer)
    assert found.parameters == pytest.approx({"a": 0, "b": 1}, abs=1e-9)
    assert found.r_squared is None or math.isnan(found.r_squared)


@each("optimizer", ["lm", "lbfgs"])
def test_parameters_that_are_the_same(optimizer: str) -> None:
    found = ad.fit("y ~ a*b*exp(-x)", DATA, optimizer=optimizer)
    both = ad.fit("y ~ c*exp(-x)", DATA)
    assert found.parameters["a"] * found.parameters["b"] == pytest.approx(both.parameters["c"], rel=1e-6)
    assert set(found.stderr.values()) == {None}
    assert any("only a combination of `a`, `b`" in words for words in found.warnings)


def test_a_parameter_without_effect() -> None:
    found = ad.fit("y ~ a*x + 0*b", DATA)
    assert found.stderr["b"] is None
    assert found.stderr["a"] > 0
    assert "`b` is not determined: small changes of it do not change the prediction at the solution" in found.warnings


# --- ends without an answer


@each("optimizer", OPTIMIZERS)
@each(("model", "b"), [("y ~ a*exp(b*x)", 1e4), ("y ~ a*log(b)*x", -1), ("y ~ a/b*x", 0)])
def test_a_start_where_the_loss_is_no_number(model: str, b: float, optimizer: str) -> None:
    found = ad.fit(model, DATA, start={"b": b, "a": 1}, optimizer=optimizer, epochs=5)
    assert not found.converged
    assert " at the start: `" in found.failure
    assert f"b = {b:g}" in found.failure
    assert "in row " in found.failure
    assert found.parameters["b"] == b


def test_a_start_where_the_loss_is_no_number_has_status_1(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n0,1\n1,2\n2,4\n")
    output = run_cli(["train", "y ~ a*log(b)*x", str(path), "--b=-1", "--epochs", "5", "--json"])
    assert output.status == 1
    assert output.json["converged"] is False
    assert "`log(b)` is nan in row 1 (y = 1, x = 0) and 2 more, where b = -1" in output.stderr


# --- refused


@each(
    ("options", "words"),
    [
        ({"weights": np.zeros(30)}, "weights: all weights are 0"),
        ({"weights": -np.ones(30)}, "weights: row 1 has -1.0; a weight cannot be negative"),
        ({"weights": np.full(30, np.inf)}, "weights: row 1 has inf; a weight must be below inf"),
        ({"sigma": [*[1.0] * 29, 1e200]}, "sigma: row 30 has 1e.200; a standard deviation must be below 1e.154"),
        ({"sigma": 1.0, "x_sigma": {"x": 1e200}}, "row 1 has 1e.200; a standard deviation must be below 1e.154"),
        ({"sigma": np.zeros(30)}, "sigma: row 1 has 0.0; a standard deviation must be positive"),
        ({"sigma": -np.ones(30)}, "sigma: row 1 has -1.0; a standard deviation must be positive"),
        (
            {"sigma": [*[1.0] * 29, 1e-320]},
            "sigma: row 30 has 1e-320; a standard deviation must be positive, above 1e-154",
        ),
        ({"start": {"b": math.nan}}, "the value of `b` is nan; it must be finite"),
        ({"start": {"b": math.inf}}, "the value of `b` is inf; it must be finite"),
        ({"fixed": {"b": math.nan}}, "the value of `b` is nan; it must be finite"),
        ({"start": {"b": "one"}}, "the value of `b` is neither a number"),
        ({"start": {"b": 5}, "bounds": {"b": (0, 1)}}, "the starting value 5 of `b` is outside its bounds, 0 to 1"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises((OptionError, ad.DataError), match=words):
        ad.fit("y ~ a*exp(-b*x)", DATA, **options)


def test_a_column_that_the_model_defines_anew_is_named() -> None:
    fit = ad.fit("x = a; y ~ x", DATA, no_columns=True)
    assert fit.warnings[0] == "the model defines `x`, so the column of this name is not read"


@each("model", ["y ~ a + b*y", "log(y) ~ a*x + y/b", "d = y - x; d ~ a + b*y"])
def test_a_column_that_is_predicted_from_itself_is_warned_of(model: str) -> None:
    rows = {"x": [1.0, 2.0, 3.0, 4.0], "y": [1.1, 2.3, 2.9, 4.2]}
    words = "`y` is on both sides of `~`: the column is predicted from itself"
    assert words in ad.fit(model, rows, epochs=2).warnings
    assert words not in ad.fit("y ~ a + b*x", rows).warnings
    assert "defines" not in "".join(ad.fit("z = a*x; y ~ z", DATA).warnings)


def test_a_model_that_does_not_use_the_data_is_refused() -> None:
    with pytest.raises(ad.ExpressionError, match=r"the prediction uses no column of the data .`x`.;"):
        ad.fit("y ~ a + b", DATA)
    with pytest.raises(ad.ExpressionError, match=r"Did you mean `x`\?"):  # of two that are close, the one in capitals
        ad.fit("y ~ a + b*X", {**DATA, "kb": DATA["x"]})
    meant = ad.fit("y ~ a", DATA, no_columns=True)
    assert meant.parameters["a"] == pytest.approx(DATA["y"].mean())


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ("x,y,w\n0,1,0\n1,2,0\n", ["--weights", "w"], "all weights are 0"),
        ("x,y,w\n0,1,1\n1,2,-1\n", ["--weights", "w"], "row 2 has -1.0; a weight cannot be negative"),
        ("x,y,w\n0,1,0\n1,2,1\n", ["--sigma", "w"], "row 1 has 0.0; a standard deviation must be positive"),
        ("x,y\n0,1\n1,2\n", ["--b", "nan"], "the value of `b` is nan"),
        ("x,y\n0,1\n1,2\n", ["--b", "5", "--bounds", "b=0:1"], "the starting value 5 of `b` is outside its bounds"),
        ("x,y\n", [], "no rows"),
    ],
)
def test_the_command_line_refuses_it_too(tmp_path: Path, rows: str, options: list[str], message: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(rows)
    expect_refusal(run_cli(["train", "y ~ a*x + b", str(path), *options]), message)


@each(
    "model, words",
    [
        ("y ~ a + b*wool", "write `b[wool]` for a parameter with a value for each label of `wool`"),
        ("y ~ a*exp(-wool)", "or compare: `wool == 'A'`"),
        ("y ~ a[wol]", "the data have no column `wol` (wool, y)\n  y ~ a[wol]\n        ^\nDid you mean `wool`?"),
        ("y ~ a[wool, tensio]", "the data have no column `tensio`"),
    ],
)
def test_a_column_of_text_as_a_number_and_a_misspelt_column(model: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        ad.fit(model, {"wool": ["A", "B", "A"], "y": [1.0, 2.0, 3.0]})


def test_a_file_of_text_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "wool.csv"
    path.write_text("wool,y\nA,1\nB,2\nA,3\n")
    expect_refusal(run_cli(["train", "y ~ a + b*wool", str(path)]), "write `b[wool]`")
    assert "b[" not in run_cli(["train", "wool ~ a + b*y", str(path)]).stderr  # the target has no levels


@pytest.mark.parametrize("model", ["y ~ a*x", "(y - a*x)^2"])
def test_a_penalty_on_parameters_that_are_all_fixed(model: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("x,y\n1,2\n2,4\n")
    output = run_cli(["train", model, str(path), "--fix", "a=1", "--l1", "0.1"])
    expect_refusal(output, "there is nothing to fit: every parameter is fixed")


@each("given", [5, [1], {"h": 3}, {1: "a"}, {"h": ["a"]}, b"h=a", [("h", "a")], object()])
def test_derived_quantities_that_are_no_texts(given: Any) -> None:
    with pytest.raises(OptionError, match=r"derived quantity is a text, not"):
        ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4.1, 6]}, derive=given)


@each(
    "options, message",
    [
        ({"on_epoch": 3}, "on_epoch is a function, not int"),
        ({"checkpoint": 3}, "checkpoint is the path of a file, not int"),
        ({"resume": ["state"]}, "resume is the path of a file, not list"),
        ({"weights": object()}, "weights is a column, an expression or an array, or is a number, not object"),
        ({"sigma": {"y": 1}}, "sigma is a column, an expression or an array, or is a number, not dict"),
        ({"priors": 3}, 'a prior is written "NAME ~ DISTRIBUTION", as in "a ~ normal(0, 10)", not `3`'),
        ({"start": {1: 2}}, "start: a name is a text, not int"),
        ({"bounds": {1: 2}}, "bounds: a name is a text, not int"),
    ],
)
def test_options_of_a_wrong_type_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        ad.fit("y ~ a*x", DATA, **options)


def test_arguments_of_a_wrong_type_are_refused_with_what_to_give(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("x,y\n1,2\n")
    wrong: Any = 3
    for use, error, message in (
        (lambda: ad.read_data(wrong), OptionError, "each path is the path of a file, not int"),
        (lambda: ad.read_data([wrong]), OptionError, "each path is the path of a file, not int"),
        (lambda: ad.read_data(tmp_path / "data.csv", column=wrong), ad.DataError, 'takes NAME="Original", not `3`'),
        (lambda: ad.read_data(tmp_path / "data.csv", encoding=""), ad.DataError, "there is no encoding ``"),
        (lambda: ad.fit_by("y ~ a*x", DATA, wrong), OptionError, "by is a text, not int"),
        (lambda: ad.compare(wrong, DATA), TypeError, "a model must be text, not int"),
        (lambda: ad.compare(["y ~ a*x", [wrong]], DATA), TypeError, "a model must be text, not list"),
        (lambda: ad.parse("x", wrong), TypeError, "a name must be text, not int"),
    ):
        with pytest.raises(error, match=re.escape(message)):
            use()


@each("level", ["0.9", [0.9], np.array([0.9]), 1j, object(), 10**400, b"1", 0, 100, -1, math.nan])
def test_levels_that_are_none(level: Any) -> None:
    found = ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4.1, 6]})
    for ask in (found.confidence, found.quantile, lambda of: found.predict({"x": [1]}, interval=of)):
        with pytest.raises(OptionError, match=r"a confidence level (is a number|must be between 0 and 1 .*), not"):
            ask(level)


@each("level, words", [(1.5, "0.015 for 1.5 %, or 0.8663856"), (2, "0.02 for 2 %, or 0.9544997 for 2 st")])
def test_levels_that_may_be_meant_in_two_ways_are_refused_with_both(level: float, words: str) -> None:
    with pytest.raises(OptionError, match=rf"a confidence level of {level} is unclear: write {words}"):
        ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4.1, 6]}, confidence=level)


def test_levels_in_per_cent_are_those_between_0_and_1() -> None:
    found = ad.fit("y ~ exp(a*x)", {"x": [1, 2, 3, 4], "y": [1, 3, 4, 9]}, loss="poisson")
    assert found.confidence(95) == found.confidence(0.95)
    for one, other in zip(*(found.predict({"x": [1]}, interval=level) for level in (90, 0.9)), strict=True):
        assert one == pytest.approx(other)


@each("scale", [np.array([1.0, 2.0]), [1], "1", 1j])
def test_scales_that_are_no_numbers(scale: Any) -> None:
    with pytest.raises(OptionError, match="scale is a number, not"):
        ad.Objective("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4.1, 6]}, loss="huber", scale=scale)


@pytest.mark.parametrize(
    ("loss", "target", "prediction"),
    [("poisson", 0.0, -0.5), ("negative_binomial", 0.0, -0.5), ("bce", 0.0, -0.5), ("bce", 1.0, 1.5)],
)
def test_no_likelihood_is_that_of_a_prediction_which_no_mean_can_be(
    loss: str, target: float, prediction: float
) -> None:
    """A count of 0 leaves out the logarithm of the mean, and a certain class that of the other one."""
    objective = ad.Objective("y ~ a*x", {"x": [1.0], "y": [target]}, loss=loss)
    assert math.isnan(objective.value([prediction]))
    assert math.isfinite(objective.value([0.5]))


def test_a_mean_that_is_none_has_no_figures() -> None:
    """In the first row the mean would be below 0, which is a deviance below that of any other fit."""
    found = ad.fit("y ~ a*(x - 2)", {"x": [1.0, 2, 3, 4, 5], "y": [0.0, 0, 1, 2, 3]}, family="poisson")
    assert not found.converged
    assert math.isnan(found.deviance)
    assert math.isnan(found.log_likelihood)


@pytest.mark.parametrize("option", ["weights", "sigma", "x_sigma"])
@pytest.mark.parametrize("source", ["memory", "file"])
def test_arrays_beside_the_data_lose_the_rows_that_the_data_lose(option: str, source: str, tmp_path: Path) -> None:
    numbers = 0.5 + np.random.default_rng(1).random(30)
    columns = {"x": X.copy(), "y": DATA["y"].copy()}
    columns["x"][[3, 29]] = columns["y"][7] = np.nan
    is_left = np.isfinite(columns["x"] + columns["y"])
    path = tmp_path / "data.csv"
    lines = zip(columns["x"].tolist(), columns["y"].tolist(), strict=True)
    path.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in lines))
    data = columns if source == "memory" else path

    def fit(data: Any, numbers: Any, **options: Any) -> ad.Fit:
        named = {"sigma": 0.1, "x_sigma": {"x": numbers}} if option == "x_sigma" else {option: numbers}
        return ad.fit("y ~ a*exp(-b*x)", data, **named, **options)

    expected = fit({name: values[is_left] for name, values in columns.items()}, numbers[is_left])
    for given in (numbers, numbers[is_left], np.where(is_left, numbers, np.nan)):
        found = fit(data, given, drop_missing=True)
        assert (found.rows, found.parameters) == (27, expected.parameters)
    numbers[8] = np.nan
    with pytest.raises(ad.DataError, match="row 9 has nan"):
        fit(data, numbers, drop_missing=True)
    with pytest.raises(ad.DataError, match="28 values for 27 rows"):
        fit(data, numbers[:28], drop_missing=True)
