"""Bands compared with statsmodels 0.14 (`get_prediction(…).summary_frame(0.05)`), SciPy's covariance, and their
coverage.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

import autodiff_cli as ad
from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.options import OptionError
from autodiff_cli.training.result import prediction
from autodiff_cli.training.result.goodness import DRAWN
from autodiff_cli.training.result.prediction import (
    PredictionRequest,
    column_chunks,
    prediction_chunks,
    prediction_columns,
)
from tests.each import amount, each
from tests.support import expect_refusal, run_cli

X = np.linspace(0, 4, 12)
Y = [1.17, 2.14, 2.62, 2.53, 4.36, 4.86, 5.1, 6.38, 7.0, 7.69, 8.29, 9.27]
S = 0.3 + 0.1 * X
COUNTS = [2, 1, 1, 2, 5, 3, 4, 5, 8, 7, 5, 9]
NEW = [0.5, 5.0, 2.0]


def close(found: np.ndarray, wanted: list[float], digits: float = 1e-9) -> None:
    np.testing.assert_allclose(found, wanted, rtol=digits)


def test_least_squares_as_statsmodels_has_it() -> None:
    found = ad.fit("y ~ a + b*x", {"x": X, "y": Y}).predict({"x": NEW}, interval=0.95)
    close(found.prediction, [2.1089903846, 11.1345192308, 5.1175])
    close(found.confidence_low, [1.7890994043, 10.6026571664, 4.9122004614])
    close(found.confidence_high, [2.4288813649, 11.6663812952, 5.3227995386])
    close(found.prediction_low, [1.3291794808, 10.2464583871, 4.3772819868])
    close(found.prediction_high, [2.8888012885, 12.0225800744, 5.8577180132])


def test_weights_widen_the_bands_of_new_rows_as_they_did_those_of_the_fit() -> None:
    fit = ad.fit("y ~ a + b*x", {"x": X, "y": Y, "s": S}, sigma="s")
    found = fit.predict({"x": NEW, "s": [0.5, 0.9, 0.4]}, interval=0.95)
    close(found.confidence_low, [1.8776758595, 10.3418931196, 4.8641485638])
    close(found.prediction_low, [1.2667106617, 9.3848009448, 4.3987560791])
    close(found.prediction_high, [3.0234026375, 12.7115680864, 5.8267757974])
    weighed = ad.fit("y ~ a + b*x", {"x": X, "y": Y, "w": 1 / S**2}, weights="w")
    again = weighed.predict({"x": NEW, "w": 1 / np.square([0.5, 0.9, 0.4])}, interval=0.95)
    np.testing.assert_allclose(again, found, rtol=1e-12)
    without = fit.predict({"x": NEW}, interval=0.95)
    close(without.confidence_low, found.confidence_low.tolist())
    assert np.isnan(without.prediction_low).all()


def test_absolute_sigma_gives_normal_bands() -> None:
    fit = ad.fit("y ~ a + b*x", {"x": X, "y": Y, "s": S}, sigma="s", absolute_sigma=True)
    found = fit.predict({"x": [2.0], "s": [0.4]}, interval=0.9)
    gradient = np.array([1.0, 2.0])
    variance = gradient @ fit.covariance @ gradient
    width = stats.norm.ppf(0.95)
    close(found.prediction_high - found.prediction, [width * math.sqrt(variance + 0.16)])
    close(found.confidence_high - found.prediction, [width * math.sqrt(variance)])


def test_curves_have_the_covariance_of_curve_fit() -> None:
    def curve(x: np.ndarray, a: float, b: float, c: float) -> np.ndarray:
        return a * np.exp(-b * x) + c

    y = curve(X, 3, 0.7, 1) + 0.05 * np.sin(9 * X)
    values, covariance = optimize.curve_fit(curve, X, y, [3, 0.7, 1])
    a, b, _ = values
    slopes = np.stack([np.exp(-b * X), -a * X * np.exp(-b * X), np.ones_like(X)], axis=1)
    error = np.sqrt(np.einsum("ij,jk,ik->i", slopes, covariance, slopes))
    found = ad.fit("y ~ a*exp(-b*x) + c", {"x": X, "y": y}).predict({"x": X}, interval=0.99)
    width = stats.t.ppf(0.995, len(X) - 3)
    np.testing.assert_allclose(found.confidence_high - found.prediction, width * error, rtol=1e-5)


def test_the_mean_of_a_family_stays_where_it_can_be() -> None:
    """The limits of the linear predictor are transformed by the link, as in statsmodels' GLM."""
    counts = ad.fit("c ~ exp(a + b*x)", {"x": X, "c": COUNTS}, family="poisson").predict({"x": NEW}, interval=0.95)
    close(counts.confidence_low, [1.0918854892, 7.4929276122, 2.7395565798], 1e-6)
    close(counts.confidence_high, [3.4560745019, 25.7905689919, 5.1152163385], 1e-6)
    happened = [0, 0, 0, 1, 0, 1, 1, 1, 1, 0, 1, 1]
    chance = ad.fit("y ~ sigmoid(a + b*x)", {"x": X, "y": happened}, loss="bce")
    found = chance.predict({"x": [5.0, 2.0]}, interval=0.95)
    close(found.confidence_low, [0.3586322303, 0.2817701761], 1e-4)
    close(found.confidence_high, [0.9998216920, 0.8740587470], 1e-4)
    assert np.isnan(found.prediction_low).all()


def test_bands_for_counts_hold_the_counts_that_they_should() -> None:
    """Means are drawn from their gamma distribution and counts from Poisson distributions: at most 1/40 lie beyond each
    limit.
    """
    fit = ad.fit("c ~ exp(a + b*x)", {"x": X, "c": COUNTS}, family="poisson")
    found = fit.predict({"x": [2.0]}, interval=0.95)
    mean = float(found.prediction[0])
    gradient = mean * np.array([1.0, 2.0])
    variance = gradient @ fit.covariance @ gradient
    generator = np.random.default_rng(0)
    drawn = generator.poisson(generator.gamma(mean**2 / variance, variance / mean, 200_000))
    assert np.quantile(drawn, 0.025) == found.prediction_low[0]
    assert np.quantile(drawn, 0.975) == found.prediction_high[0]


def test_several_targets_have_bands_each() -> None:
    data = {"x": X, "u": Y, "v": np.cos(X)}
    both = ad.fit("[u, v] ~ [a + b*x, c*cos(x) + d]", data).predict({"x": NEW}, interval=0.95)
    assert both.confidence_low.shape == (3, 2)
    assert (both.confidence_low[:, 0] < both.prediction[:, 0]).all()


@each("target, names", [("[u, 2*v]", ["u", "2*v"]), ("2*[u, v]", ["0", "1"])])
def test_columns_of_several_targets_have_their_names_or_numbers(target: str, names: list[str]) -> None:
    fit = ad.fit(f"{target} ~ [a + b*x, c + d*x]", {"x": X, "u": Y, "v": np.cos(X)})
    found = prediction_columns(fit, {"x": NEW}, PredictionRequest()).columns
    assert [*found] == [f"prediction_{name}" for name in names]
    np.testing.assert_array_equal(np.transpose([*found.values()]), fit.predict({"x": NEW}))


@each("model", ["y ~ a + b*x", "y ~ a"])
def test_a_row_of_numbers_has_the_bands_of_a_row_of_columns(model: str) -> None:
    fit = ad.fit(model, {"x": X, "y": Y}, no_columns=True)
    one, column = (fit.predict({"x": x}, interval=0.95) for x in (1.5, [1.5]))
    assert np.shape(one) == np.shape(column) == (5, 1)
    np.testing.assert_array_equal(one, column)


def test_a_missing_band_has_a_reason() -> None:
    classes = ad.fit("c ~ softmax([a + b*x, 0])", {"x": X, "c": np.where(np.arange(len(X)) % 3 == 1, "u", "v")})
    with pytest.raises(OptionError, match="a classifier has no intervals; use --probabilities"):
        classes.predict({"x": NEW}, interval=0.95)
    absolute = ad.fit("y ~ a + b*x", {"x": X, "y": Y}, loss="mae")
    with pytest.raises(OptionError, match="mae is not a likelihood"):
        absolute.predict({"x": NEW}, interval=0.95)
    with pytest.raises(ValueError, match="between 0 and 1"):
        ad.fit("y ~ a + b*x", {"x": X, "y": Y}).predict({"x": NEW}, interval=0.0)


@pytest.mark.parametrize(
    ("model", "loss", "has_priors"),
    [
        ("y ~ a + b*x", "mse", True),
        ("y ~ a + b*x", "cauchy", False),
        ("y ~ exp(a + b*x)", "gamma", False),
        ("y ~ exp(a + b*x)", "poisson", True),
        ("y/10 ~ sigmoid(a + b*x)", "bce", True),
    ],
)
def test_bands_that_are_missing_have_a_note_and_others_have_none(model: str, loss: str, has_priors: bool) -> None:
    several: list[dict[str, Any]] = [{}, {"l2": 0.1}, {"weights": "w"}]
    for options in [*several, {"priors": {"a": "normal(0, 10)"}}] if has_priors else several:
        fit = ad.fit(model, {"x": X, "y": np.array(COUNTS), "w": 1 + X}, loss=loss, **options)
        columns, note = prediction_columns(fit, {"x": np.array([*NEW, np.nan])}, PredictionRequest(0.95))
        known = np.isfinite(columns["prediction"])
        assert np.isnan(columns["prediction_low"][known]).any() == ("no prediction band" in note), options
        assert ("proportion" in note) == (loss == "bce"), options


def test_a_parameter_of_no_known_error_spoils_only_what_it_has_a_part_in() -> None:
    fit = ad.fit("y ~ a + b*x*where(x > 100, c, 1)", {"x": X, "y": Y})
    found = fit.predict({"x": [2.0, 200.0]}, interval=0.95)
    assert np.isfinite(found.confidence_low[0])
    assert np.isnan(found.confidence_low[1])
    for x, has_note in ((2.0, False), (200.0, True)):
        note = prediction_columns(fit, {"x": [x]}, PredictionRequest(0.95)).note
        expected = "no bands where the prediction depends on a parameter without a standard error"
        assert note == expected * has_note


def test_missing_bands_have_the_reason_that_is_theirs() -> None:
    """Overflow and negative weights were put down to standard errors and to a penalty."""
    data = {"x": X, "y": Y, "w": np.ones_like(X)}
    weighted, penalised = ad.fit("y ~ a + b*x", data, weights="w"), ad.fit("y ~ a + b*x", data, l2=1)
    cases = [
        (weighted, -1.7e308, 1, ""),
        (weighted, 1.7e308, 1, ""),
        (weighted, 1, 1, ""),
        (weighted, 1, -1, "weight is out of range"),
        (penalised, 1, 1, "l2 penalty"),
    ]
    for fit, x, weight, reason in cases:
        note = prediction_columns(fit, {"x": [x], "w": [weight]}, PredictionRequest(0.95)).note
        assert (reason in note) if reason else not note, (x, weight, note)


def test_a_fit_from_a_file_has_the_same_bands(tmp_path: Path) -> None:
    fit = ad.fit("y ~ a + b*x", {"x": X, "y": Y, "s": S}, sigma="s", absolute_sigma=True)
    fit.save(tmp_path / "m.json")
    new = {"x": NEW, "s": [1, 1, 1]}
    np.testing.assert_array_equal(
        ad.load(tmp_path / "m.json").predict(new, interval=0.5), fit.predict(new, interval=0.5)
    )


def test_residuals_are_target_minus_prediction() -> None:
    fit = ad.fit("log(y) ~ a + b*x", {"x": X, "y": Y})
    np.testing.assert_array_equal(fit.residuals({"x": X, "y": Y}), np.log(Y) - fit.predict({"x": X}))


def test_rows_in_parts_have_the_predictions_of_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = ad.fit("y ~ a + b*x", {"x": X, "y": Y})
    wanted = PredictionRequest(0.95, residuals=True)
    whole = prediction_columns(fit, {"x": X, "y": np.array(Y)}, wanted)
    monkeypatch.setattr(prediction, "_PREDICTION_CHUNK_ROWS", 5)
    parts = prediction_chunks(fit, len(X), lambda: column_chunks({"x": X, "y": np.array(Y)}), wanted)
    for _ in range(2):
        found = [*parts()]
        assert [len(part.columns["prediction"]) for part in found] == [5, 5, 2]
        for name, column in whole.columns.items():
            np.testing.assert_array_equal(np.concatenate([part.columns[name] for part in found]), column)


@pytest.mark.parametrize("noise", [0.3, pytest.param(0.001, marks=pytest.mark.slow)])
@pytest.mark.parametrize("limits", [(0.0, 12.0), pytest.param((-700.0, 900.0), marks=pytest.mark.slow)])
def test_a_reading_leads_back_to_its_cause_as_in_fiellers_theorem(noise: float, limits: tuple[float, float]) -> None:
    """Also where the interval lies between two of the points at which predictions and reading are compared."""
    x = np.linspace(1, 10, 12)
    y = 1.5 + 2 * x + np.random.default_rng(2).normal(0, noise, 12)
    found = ad.fit("y ~ a + b*x", {"x": x, "y": y})
    (back,) = found.inverse("x", 12.0, limits=limits)
    slope, spread, squares = found.parameters["b"], found.residual_std, np.sum((x - x.mean()) ** 2)
    t = found.quantile()
    root = (12 - found.parameters["a"]) / slope
    g = (t * spread / slope) ** 2 / squares
    half = t * spread / slope * math.sqrt((1 - g) * (1 + 1 / 12) + (root - x.mean()) ** 2 / squares) / (1 - g)
    middle = x.mean() + (root - x.mean()) / (1 - g)
    error = spread / slope * math.sqrt(1 + 1 / 12 + (root - x.mean()) ** 2 / squares)
    assert back == pytest.approx((root, error, middle - half, middle + half), rel=1e-9)
    (given,) = found.inverse("x", 12.0, spread, limits=limits)
    assert given == pytest.approx(back, rel=1e-9)
    (exact,) = found.inverse("x", 12.0, 0.0, limits=limits)
    assert exact.stderr == pytest.approx(math.sqrt(error**2 - (spread / slope) ** 2), rel=1e-9)


@each("target, slope", [("log(y)", 0.2), ("3 - 2*y", 2.0)])
def test_the_error_of_a_reading_passes_through_the_target(target: str, slope: float) -> None:
    """Of an exact line, it is the only error: times the slope of the target at 5, divided by the slope of the line."""
    value = float(ad.parse(target)(y=5.0))  # type: ignore[arg-type]
    y = [0.5, 1.0, 2.0, 4.0, 8.0]
    fit = ad.fit(f"{target} ~ a + b*x", {"x": [ad.parse(target)(y=each) / 2 for each in y], "y": y})
    ends = sorted((value / 2 - 1, value / 2 + 1))
    (cause,) = fit.inverse("x", 5.0, 0.01, limits=(ends[0], ends[1]))
    assert (cause.value, cause.stderr) == pytest.approx((value / 2, 0.01 * slope / 2), rel=1e-6)


@pytest.mark.slow
def test_readings_have_several_causes_or_none() -> None:
    x = np.linspace(1, 10, 12)
    parabola = ad.fit("y ~ a*(x - 5)^2 + c", {"x": x, "y": (x - 5) ** 2 + 1 + 0.1 * np.sin(7 * x)})
    assert [each.value for each in parabola.inverse("x", 5.0, 0.2, limits=(0, 12))] == pytest.approx([3, 7], abs=0.1)
    assert parabola.inverse("x", 0.0, 0.2, limits=(0, 12)) == []
    pole = ad.fit("y ~ a/x", {"x": x, "y": 3 / x + 0.01 * np.sin(7 * x)})
    assert [each.value for each in pole.inverse("x", 1.0, 0.02, limits=(-10, 10))] == pytest.approx([3], abs=0.1)
    plateau = ad.fit("y ~ a*x/(k + x)", {"x": x, "y": 5 * x / (2 + x) + 0.05 * np.sin(7 * x)})
    (open_end,) = plateau.inverse("x", 4.5, 0.2, limits=(0, 30))
    assert 6 < open_end.low < open_end.value == pytest.approx(18, abs=3)
    assert open_end.high is None
    (beyond,) = plateau.inverse("x", 5.2, 0.2, limits=(0, 100))  # the plateau is 5
    assert (beyond.value, beyond.stderr, beyond.high) == (None, None, None)
    at_a_point = float(plateau.predict({"x": [6.0]})[0])  # of those at which predictions are compared
    assert [each.value for each in plateau.inverse("x", at_a_point, 0.2, limits=(0, 12))] == [pytest.approx(6)]
    bands = plateau.predict({"x": [beyond.low]}, interval=0.95)
    spread = (bands.confidence_high - bands.confidence_low) / 2 / plateau.quantile()
    assert 5.2 - bands.prediction == pytest.approx(plateau.quantile() * np.hypot(spread, 0.2), rel=1e-9)
    touched = parabola.inverse("x", 0.85, 0.2, limits=(0, 12))  # below the minimum, but not significantly
    assert [each.value for each in touched] == [None]
    assert touched[0].low < 5 < touched[0].high
    assert parabola.inverse("x", 0.85, 0.2, limits=(touched[0].low + 0.1, 12)) == [(None, None, None, touched[0].high)]
    logarithm = ad.fit("log(y) ~ a - b*x + c*(g == 'u')", {"x": x, "y": np.exp(2 - x / 3), "g": ["u", "v"] * 6})
    (value,) = logarithm.inverse("x", 1.0, 0.01, limits=(0, 10), others={"g": "v"})
    assert value[:2] == pytest.approx((6, 0.03), rel=1e-6)


def test_readings_that_lead_nowhere_are_refused() -> None:
    x, group = np.arange(8.0), ["u", "v"] * 4
    line = ad.fit("y ~ a*x + b*(g == 'u')", {"x": x, "y": 2 * x + 1, "g": group})
    counts = ad.fit("y ~ exp(a*x)", {"x": x, "y": x}, family="poisson")
    classes = ad.fit("g ~ softmax(dense(x, 2))", {"x": x, "g": group})
    two = ad.fit("[y, z] ~ [a*x, b*x]", {"x": x, "y": 2 * x + 1, "z": x + 1})
    twice = ad.fit("[y, 2*y] ~ [a*x, b*x]", {"x": x, "y": 2 * x + 1})
    likelihood = ad.fit("(y - a*x)^2", {"x": x, "y": 2 * x + 1})
    for fit in (counts, classes, two, twice, likelihood):
        with pytest.raises(OptionError, match="needs least squares or a robust loss, and one target column"):
            fit.inverse("x", 4.0)
    for limits in ((3, 3), (4, 3), (0, math.nan), (-math.inf, 0)):
        with pytest.raises(OptionError, match="is two numbers, the lower one first"):
            line.inverse("x", 4.0, limits=limits)
    for limits in ((-1e300, 1e300), (-1.7e308, 1.7e308), (1e299, 1e300)):  # squares of x overflow in standard errors
        with pytest.raises(OptionError, match=r"the errors of predictions overflow for `x` from .* narrow it"):
            line.inverse("x", 4.0, 0.1, limits=limits, others={"g": "u"})
    [wide] = line.inverse("x", 4.0, 0.1, limits=(-1e100, 1e100), others={"g": "v"})
    assert wide.value == pytest.approx(4 / line.parameters["a"])
    logarithm = ad.fit("log(y) ~ a*x", {"x": x, "y": np.exp(x)})
    for reading in (-5, 0, math.inf, math.nan):
        with pytest.raises(OptionError, match="is undefined or infinite where `y` is"):
            logarithm.inverse("x", reading)
    for column in ("g", "y", "z"):
        with pytest.raises(OptionError, match=f"does not read numbers from `{column}`"):
            line.inverse(column, 4.0, limits=(0, 1))
    with pytest.raises(OptionError, match="the range of `z` is not known"):
        line.inverse("z", 4.0)
    for name in ("x", "y", "z"):  # a value of `x` would take the place of the range
        with pytest.raises(ad.UnknownNameError, match=f"the prediction reads no other column `{name}`"):
            line.inverse("x", 4.0, others={"g": "u", name: 1})
    weighted = ad.fit("y ~ a*x", {"x": x, "y": x + np.sin(x)}, weights=x + 1)
    with pytest.raises(OptionError, match="the standard deviation of a new reading is not known"):
        weighted.inverse("x", 4.0)
    assert weighted.inverse("x", 4.0, 0.5)
    data, priors = {"x": x, "y": x + np.sin(x), "g": group}, {"b[g]": "normal(0, s)"}
    with pytest.raises(OptionError, match="a fit with random effects has no inverse predictions"):
        ad.fit("y ~ a*x + b[g]", data, priors=priors, laplace="b").inverse("x", 4.0)
    with pytest.raises(OptionError, match="there are no residuals: the model needs a numeric target"):
        likelihood.residuals({"x": x, "y": x})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"reading": "high"}, "a reading is a number, not 'high'"),
        ({"reading": [1.0, 2.0]}, "a reading is a number, not list"),
        ({"error": "0.1"}, "the error of a reading is a number, not '0.1'"),
        ({"limits": 3}, r"limits are the ends of the range of `x`, such as \(0, 10\)"),
        ({"limits": (0,)}, "limits are the ends of the range of `x`"),
        ({"limits": ("0", "9")}, "a limit is a number, not '0'"),
        ({"others": 3}, "others must be a mapping of names to values, not int"),
    ],
)
def test_arguments_of_an_inverse_prediction_that_are_no_numbers_are_named(
    arguments: dict[str, Any], words: str
) -> None:
    line = ad.fit("y ~ a*x", {"x": [1.0, 2, 3], "y": [2.0, 4.1, 6]})
    with pytest.raises(OptionError, match=words):
        line.inverse(**{"column": "x", "reading": 4.0, **arguments})
    assert line.inverse("x", np.float32(4), limits=np.array([0, 3])) == line.inverse("x", 4, limits=(0, 3))


def test_columns_of_other_lengths_are_refused_by_their_names() -> None:
    x = np.arange(8.0)
    data = {"x": x, "y": 2 * x + np.sin(x), "w": x + 1, "g": ["u", "v"] * 4}
    weighted, levels = ad.fit("y ~ a*x", data, weights="w"), ad.fit("y ~ a[g]*x", data)
    for weights in (np.ones(3), np.ones((2, 2))):
        with pytest.raises(ad.DataError, match=f"differ in length: `w` has {weights.size}, others have 2"):
            weighted.predict({"x": [1, 2], "w": weights}, interval=0.9)
    with pytest.raises(ad.DataError, match="differ in length: `w` has 3, others have 1"):
        weighted.predict({"x": 1.0, "w": np.ones(3)}, interval=0.9)
    with pytest.raises(ad.DataError, match=r"differ in length: `x` has 2, `g` has 3$"):
        levels.predict({"x": [1, 2], "g": ["u", "v", "u"]})
    whole = weighted.predict({"x": [1, 2], "w": [4, 4]}, interval=0.9)
    np.testing.assert_array_equal(weighted.predict({"x": [1, 2], "w": 4}, interval=0.9), whole)
    np.testing.assert_array_equal(weighted.predict({"x": [1, 2], "w": [4]}, interval=0.9), whole)


@pytest.mark.slow
def test_inverse_predictions_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "line.json"
    ad.fit("y ~ a*x", {"x": [1, 2, 3, 4], "y": [2.1, 3.9, 6.1, 7.9]}).save(path)
    line = ["predict", str(path), "--inverse", "x", "--y", "5+-0.1"]
    document = run_cli([*line, "--x", "0..10", "--json"]).json
    assert document["solutions"][0]["value"] == pytest.approx(2.5, rel=0.01)
    assert str(run_cli([*line, "--x", "0..10"])).splitlines()[0] == "x,stderr,low,high"
    assert "no x from 5 to 10 gives the prediction 5" in run_cli([*line, "--x", "5..10"]).stderr
    assert run_cli([*line, "--json"]).json["solutions"][0]["value"] == document["solutions"][0]["value"]
    assert "searching the range of x in the fitted rows, 1 to 4" in run_cli(line).stderr
    refusal = "--inverse x needs a reading and a range: --y 3.2+-0.1 --x 0..10"
    expect_refusal(run_cli(["predict", str(path), "--inverse", "x"]), refusal)
    expect_refusal(run_cli(["predict", str(path), "-", "--intervall", "0.9"]), "--interval")
    expect_refusal(run_cli(["predict", str(path)]), "missing DATA")


@pytest.mark.slow
def test_bands_of_the_gamma_family_hold_new_rows_as_often_as_promised() -> None:
    """With 12 rows; quantiles of the gamma distribution with the estimated dispersion alone hold 91 %."""
    generator, x, new = np.random.default_rng(7), np.linspace(0, 4, 12), np.array([0.3, 1.0, 2.0, 3.5])
    shares = []
    for _ in range(300):
        y = generator.gamma(4, np.exp(0.3 + 0.5 * x) / 4)
        found = ad.fit("y ~ exp(a + b*x)", {"x": x, "y": y}, family="gamma").predict({"x": new}, interval=0.95)
        drawn = generator.gamma(4, np.exp(0.3 + 0.5 * new) / 4, (40, 4))
        shares.append(np.mean((drawn >= found.prediction_low) & (drawn <= found.prediction_high)))
    assert np.mean(shares) > 0.93


@pytest.mark.parametrize(
    ("family", "dispersion", "scale", "extra"),
    [
        ("poisson", None, None, [0.0, 0.0]),
        ("quasipoisson", 0.5, None, [0.0, 0.0]),
        ("quasipoisson", 3.0, None, [6.0, 80.0]),
        ("negative_binomial", None, 4.0, [2.25, 400.0]),
    ],
)
def test_new_counts_vary_as_their_family_says(
    family: str, dispersion: float | None, scale: float | None, extra: list[float]
) -> None:
    mean, error = np.array([3.0, 40.0]), np.array([0.5, 2.0])
    settings = SimpleNamespace(family=family)
    fit: Any = SimpleNamespace(loss_name="poisson", settings=settings, dispersion=dispersion, scale=scale)
    found = prediction._prediction_limits(fit, mean, error, 1.0, 1.96, 0.9)
    deviation = np.sqrt(np.square(error) + extra)
    for limits, share in zip(found, (0.05, 0.95), strict=True):
        np.testing.assert_array_equal(limits, prediction.count_quantiles(mean, deviation, share))
        shape = np.square(mean / deviation)
        wanted = stats.nbinom.ppf(share, shape, shape / (shape + mean))
        np.testing.assert_array_equal(limits, wanted)


@each("weight", [0.25, 1.0, 4.0, 9.0])
@each("loss", ["poisson", "negative_binomial", "gamma"])
def test_a_row_of_weight_w_varies_as_the_mean_of_w_observations(weight: float, loss: str) -> None:
    mean, error = np.array([30.0]), np.array([0.0])
    settings = SimpleNamespace(family=None)
    fit: Any = SimpleNamespace(loss_name=loss, settings=settings, dispersion=0.5, scale=4.0)
    fit.scale = None if loss == "poisson" else fit.scale
    low, high = prediction._prediction_limits(fit, mean, error, weight**-0.5, stats.norm.ppf(0.95), 0.9)
    for limit, share in ((low, 0.05), (high, 0.95)):
        if loss == "poisson":
            wanted = stats.poisson.ppf(share, weight * 30) / weight
        elif loss == "negative_binomial":  # the sum of w counts has the parameter w*theta
            wanted = stats.nbinom.ppf(share, weight * 4, 4 / 34) / weight
        else:
            wanted = stats.gamma.ppf(share, 2 * weight, scale=30 / (2 * weight))
        assert limit[0] == pytest.approx(wanted, rel=1e-9)


@each("loss", ["mse", "poisson", "negative_binomial"])
@each("weight", [0.25, 1.0, 9.0])
def test_new_rows_of_draws_without_spread_vary_as_the_target_does(loss: str, weight: float) -> None:
    """With its weight, whose rows are means of so many counts, or have so many times the precision."""
    counts = [3.0, 0.0, 4.0, 9.0, 1.0, 7.0, 18.0, 2.0]
    data = {"x": np.arange(1.0, 9.0), "y": np.array(counts), "w": np.ones(8)}
    fit = ad.fit("y ~ a*x", data, loss=loss, weights="w")
    draws = {"a": np.full((2, 2000), 2.0), **({"sigma": np.full((2, 2000), 3.0)} if loss == "mse" else {})}
    drawn = dataclasses.replace(fit, draws=draws)
    bands = drawn.predict_posterior({"x": np.array([5.0, 20.0]), "w": np.full(2, weight)}, interval=0.8)
    mean, shares = np.array([10.0, 40.0]), np.array([[0.1], [0.9]])
    close(bands.prediction, mean.tolist())
    if loss == "mse":
        wanted, deviation = stats.norm.ppf(shares, mean, 3 / weight**0.5), np.full(2, 3 / weight**0.5)
    elif loss == "poisson":
        wanted, deviation = stats.poisson.ppf(shares, weight * mean) / weight, np.sqrt(mean / weight)
    else:
        assert fit.scale is not None
        theta = fit.scale
        wanted = stats.nbinom.ppf(shares, weight * theta, theta / (theta + mean)) / weight
        deviation = np.sqrt((mean + mean**2 / theta) / weight)
    assert (np.abs([bands.prediction_low, bands.prediction_high] - wanted) <= 0.15 * deviation + 0.5 / weight).all()


def test_intervals_of_draws_are_their_quantiles() -> None:
    draws = np.random.default_rng(0).normal(size=(2, 300))
    fit = ad.fit("y ~ a*x", {"x": X, "y": Y}, confidence=0.8)
    drawn = dataclasses.replace(fit, definition=DRAWN, draws={"a": draws})
    assert drawn.confidence()["a"] == pytest.approx(np.quantile(draws, [0.1, 0.9]))
    assert drawn.confidence(0.5)["a"] == pytest.approx(np.quantile(draws, [0.25, 0.75]))


def test_new_positive_numbers_vary_in_proportion_to_their_mean() -> None:
    """The dispersion is estimated, so that intervals are as much wider as those of Student's t."""
    mean, error, width, level = np.array([3.0, 0.04]), np.array([0.5, 0.01]), 2.5, 0.9
    fit: Any = SimpleNamespace(loss_name="gamma", settings=SimpleNamespace(family=None), dispersion=0.3)
    found = prediction._prediction_limits(fit, mean, error, 1.0, width, level)
    variance = (width / stats.norm.ppf(0.95)) ** 2 * (error**2 + 0.3 * mean**2)
    for limits, share in zip(found, (0.05, 0.95), strict=True):
        close(limits, stats.gamma.ppf(share, mean**2 / variance, scale=variance / mean).tolist())


# --- Quantiles of new observations, by SciPy


@each("mean", [0.0, 1e-6, 0.4, 3.0, 77.5, 1e5])
@each("share", [0.005, 0.025, 0.5, 0.9, 0.975, 0.9999])
def test_quantiles_of_counts_are_those_of_poisson_and_negative_binomial_distributions(
    mean: float, share: float
) -> None:
    for error in (0.0, 0.3 * mean, 2 * mean + 0.1):
        with ignore_float_errors():
            found = prediction.count_quantiles(np.array([mean]), np.array([error]), share)[0]
        if error == 0:
            wanted = max(stats.poisson.ppf(share, mean), 0)
        elif mean == 0:
            continue
        else:
            shape = (mean / error) ** 2
            wanted = stats.nbinom.ppf(share, shape, shape / (shape + mean))
        assert found == pytest.approx(wanted, abs=1e-9)
    with ignore_float_errors():
        unknown = prediction.count_quantiles(np.array([math.nan, 3.0]), np.array([1.0, math.inf]), share)
    assert np.isnan(unknown).all()


@each("share", [0.005, 0.05, 0.5, 0.975])
def test_quantiles_of_counts_do_not_depend_on_the_other_rows(share: float) -> None:
    """A row whose quantile is 0 had the quantile -1 beside rows with larger means."""
    means = np.array([0.0, 0.1, 0.67, 1.8, 4.0, 30.0, 1e4])
    for errors in (0.0 * means, 0.3 * means + 0.01):
        with ignore_float_errors():
            found = prediction.count_quantiles(means, errors, share)
            singly = [
                prediction.count_quantiles(means[k : k + 1], errors[k : k + 1], share)[0] for k in range(len(means))
            ]
        assert found.tolist() == singly
        assert found.min() >= 0


@each("mean, variance", [(1.0, 1.0), (0.2, 3.0), (50.0, 4.0)])
def test_quantiles_of_positive_numbers_are_those_of_gamma_distributions(mean: float, variance: float) -> None:
    for share in (0.01, 0.5, 0.99):
        found = prediction.gamma_quantiles(np.array([mean]), np.array([variance]), share)[0]
        assert found == pytest.approx(stats.gamma.ppf(share, mean**2 / variance, scale=variance / mean), rel=1e-9)


def curve_fit(model: str, x: Any, y: Any, **options: Any) -> Any:
    return ad.fit(model, {"x": x, "y": y}, **options)


def test_intervals_of_a_higher_level_are_wider() -> None:
    x = np.linspace(1, 9, 15)
    data = {"x": x, "y": 2 + 0.5 * x + 0.1 * np.sin(7 * x)}
    low, high = (ad.fit("y ~ a + b*x", data, confidence=level, profile=True, bootstrap=20) for level in (0.5, 0.9))

    def widths(fit: Any, level: float | None) -> list[float]:
        bands = fit.predict({"x": [3.0]}, interval=level or fit.confidence_level)
        root = fit.inverse("x", 4.0, 0.1, limits=(0, 10), level=level)[0]
        ends = [fit.confidence(level)["b"], (bands.confidence_low[0], bands.confidence_high[0])]
        ends += [(bands.prediction_low[0], bands.prediction_high[0]), (root.low, root.high)]
        ends += [] if level else [fit.intervals[kind]["b"] for kind in ("profile", "bootstrap")]
        return [end - begin for begin, end in ends]

    for narrow, wide in ((widths(low, None), widths(high, None)), (widths(low, 0.3), widths(low, 0.5))):
        assert all(0 < one < 0.8 * other for one, other in zip(narrow, wide, strict=True))
    assert widths(low, 0.5) == pytest.approx(widths(low, None)[:4], rel=1e-12)


def test_inverse_predictions_of_a_parabola_are_its_two_roots_with_their_errors() -> None:
    """The errors by the delta method: those of reading and prediction, over the slope."""
    x = np.linspace(1, 9, 15)
    found = curve_fit("y ~ a*(x - 5)^2 + c", x, (x - 5) ** 2 + 1 + 0.1 * np.sin(7 * x))
    a, c = found.parameters["a"], found.parameters["c"]
    left, right = found.inverse("x", 5.0, 0.2, limits=(0, 10))
    for each_of, side in ((left, -1), (right, 1)):
        root = 5 + side * math.sqrt((5 - c) / a)
        gradient = np.array([(root - 5) ** 2, 1.0])
        error = math.sqrt(gradient @ found.covariance @ gradient + 0.04) / abs(2 * a * (root - 5))
        assert each_of[:2] == pytest.approx((root, error), rel=1e-9)
        for end in each_of[2:]:
            gradient = np.array([(end - 5) ** 2, 1.0])
            spread = math.sqrt(gradient @ found.covariance @ gradient + 0.04)
            distance = a * (end - 5) ** 2 + c - 5
            assert abs(distance) == pytest.approx(found.quantile() * spread, rel=1e-6)
    assert found.inverse("x", 5.0, 0.2, limits=(0, 4))[0][0] == pytest.approx(left.value, rel=1e-9)
    assert found.inverse("x", 0.0, 0.2, limits=(0, 10)) == []
    (open_ended,) = found.inverse("x", 5.0, 0.2, limits=(2.99, 4))
    assert open_ended.low is None
    assert open_ended.high == pytest.approx(left.high, rel=1e-6)


# --- Data of plots


def plot_of(model: str, data: Any, **options: Any) -> Any:
    found = ad.fit(model, data, plot=True, **options)
    assert found.plot is not None
    return found, found.plot


@each("first, power, is_log", [(1.0, 3.5, True), (1.0, 3.1, False), (20.0, 3.5, False), (0.0, 3.5, False)])
def test_axes_are_logarithmic_if_values_spread_over_a_hundredfold_and_lie_low(
    first: float, power: float, is_log: bool
) -> None:
    x = first + 1000 * np.linspace(0, 1, 30) ** power
    assert plot_of("y ~ a*x + b", {"x": x, "y": x + np.sin(x)})[1].is_log_scale is is_log


def test_curves_have_a_point_at_every_ratio_if_their_ends_differ_much() -> None:
    near, far = prediction._curve_points(np.array([1.0, 99.0])), prediction._curve_points(np.array([1.0, 50, 100.0]))
    np.testing.assert_allclose(near, np.linspace(1, 99, 241))
    assert {*np.linspace(1, 100, 241)} <= {*far}
    assert len(far) > 2 * 241 - 4
    assert (far[0], far[-1]) == (1, 100)
    with_zero = prediction._curve_points(np.array([0.0, 0.1, 100.0]))
    assert np.sum((with_zero > 0) & (with_zero < 1)) > 50
    assert len(prediction._curve_points(np.array([-100.0, -1.0]))) == 241


def test_plots_show_rows_residuals_and_the_curve_of_each_label() -> None:
    data = {"x": np.tile(np.arange(1.0, 7), 2), "g": np.repeat(["u", "v"], 6)}
    data["y"] = 1 + data["x"] + 3 * (data["g"] == "u") + 0.1 * np.cos(9 * np.arange(12))
    found, plot = plot_of("`y` ~ a[g] + b*x", data, sigma=0.2)
    predicted = found.predict(data)
    assert (plot.predictor, plot.target) == ("x", "y")
    np.testing.assert_allclose(plot.residuals, data["y"] - predicted, atol=1e-12)
    np.testing.assert_allclose(plot.sigma, np.full(12, 0.2))
    assert [curve.name for curve in plot.curves] == ["u", "v"]
    for number, curve in enumerate(plot.curves):
        assert (plot.groups == number).tolist() == (data["g"] == curve.name).tolist()
        wanted = found.predict({"x": curve.x, "g": np.full(len(curve.x), curve.name)})
        np.testing.assert_allclose(curve.y, wanted)
    _, both = plot_of("y ~ a + b*x + c*z", {"x": data["x"], "z": np.cos(data["x"] * 2), "y": data["y"]})
    assert both.predictor == ""
    (diagonal,) = both.curves
    np.testing.assert_array_equal(diagonal.x, diagonal.y)


def test_of_too_many_labels_a_plot_compares_target_and_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "PLOT", prediction.PLOT._replace(max_groups=2))
    for labels, predictor, curves in (("uvuvuv", "x", 2), ("uvwuvw", "", 1)):
        x = np.arange(6.0)
        _, plot = plot_of("y ~ a[g] + b*x", {"x": x, "y": x + np.cos(9 * x), "g": [*labels]})
        assert (plot.predictor, len(plot.curves)) == (predictor, curves)


def test_a_seed_draws_the_rows_of_a_plot_if_there_are_too_many() -> None:
    data = {"x": np.arange(prediction.PLOT.max_rows + 100.0)}
    first, again, other = (plot_of("y ~ a*x", data | {"y": data["x"]}, seed=seed)[1].x for seed in (1, 1, 2))
    assert len(first) == prediction.PLOT.max_rows
    assert (first == again).all()
    assert (first != other).any()


def test_plots_name_targets_without_backticks() -> None:
    data = {"x": np.arange(6.0), "T [K]": np.arange(6.0) + 0.1 * np.cos(9 * np.arange(6)), "v": np.arange(6.0) ** 2}
    assert plot_of("`T [K]` ~ a + b*x", data)[1].target == "T [K]"
    assert plot_of("[`T [K]`, 2*v] ~ [a + b*x, b*x]", data)[1].target == "T [K], 2*v"


@each(
    "model, curve",
    [
        ("y ~ a + b*x", lambda x: 0.2 * x - 0.4),
        ("y ~ a + b*(x - 4)^2", lambda x: 1.5 - 0.1 * (x - 4) ** 2),
        ("y ~ a*exp(-b*x)", lambda x: 2 * np.exp(-0.6 * x)),
        ("y ~ a*sin(x) + b", lambda x: np.sin(x) + 0.5),
    ],
)
@each("reading", [-0.7, 0.1, 0.9, 1.45, 3.0], quick=lambda reading: reading == 0.9)
def test_inverse_predictions_are_all_numbers_that_may_have_caused_a_reading(
    model: str, curve: Any, reading: float
) -> None:
    """By the prediction and its band at 4001 numbers."""
    x, grid = np.linspace(0, 9, 25), np.linspace(0, 9, 4001)
    found = ad.fit(model, {"x": x, "y": curve(x) + 0.1 * np.cos(11 * x)}, confidence=0.9)
    quantile, bands = stats.t.ppf(0.95, found.dof), found.predict({"x": grid}, interval=0.9)
    spread = np.hypot((bands.confidence_high - bands.confidence_low) / 2 / quantile, 0.15)
    distance = bands.prediction - reading
    causes = found.inverse("x", reading, 0.15, limits=(0, 9))
    known = [cause for cause in causes if cause.value is not None]
    crossings = np.flatnonzero(np.diff(distance > 0))
    assert [cause.value for cause in known] == pytest.approx(grid[crossings], abs=grid[1])
    errors = (spread / np.abs(np.gradient(bands.prediction, grid)))[crossings]
    assert [cause.stderr for cause in known] == pytest.approx(errors, rel=0.02)
    ends = [(-np.inf if low is None else low, np.inf if high is None else high) for *_, low, high in causes]
    is_inside = np.any([(grid > low) & (grid < high) for low, high in ends] or np.zeros((1, len(grid)), bool), axis=0)
    is_near = np.min([abs(grid - end) for pair in ends for end in pair] or np.ones((1, len(grid))), axis=0) < grid[1]
    is_possible = np.abs(distance) <= quantile * spread
    assert (is_inside == is_possible)[~is_near].all()
    assert ends == sorted(ends)


def test_bands_of_no_rows_are_empty_and_columns_of_different_lengths_are_refused() -> None:
    found = ad.fit("y ~ a + b*x + c*z", {"x": [1, 2, 3, 4.5], "z": [1, 0, 2, 1], "y": [1, 2.1, 2.9, 4.2]})
    assert [band.shape for band in found.predict({"x": [], "z": []}, interval=0.9)] == [(0,)] * 5
    for call in (found.predict, found.residuals, partial(found.predict, interval=0.9)):
        with pytest.raises(ad.DataError, match=r"the columns differ in length: .*`x` has 3, `z` has 2"):
            call({"x": [1, 2, 3], "z": [1, 2], "y": [1, 2, 3]})
    with pytest.raises(ad.DataError, match="an array of shape 2x2"):
        found.predict({"x": np.ones((2, 2)), "z": [1, 2]}, interval=0.9)


@each(
    "slope, limits",
    itertools.product((-2.0, 0.5), [(0.0, 7.0), (-3.0, 7.0), (-1e12, 1e25)]),
    quick=lambda slope, limits: limits == ((-3.0, 7.0) if slope > 0 else (-1e12, 1e25)),
)
def test_the_inverse_of_a_predicted_value_is_where_it_was_predicted(slope: float, limits: tuple[float, float]) -> None:
    """Values at the upper end of the range were not found, and in wide ranges they were far off."""
    x = np.linspace(0, 7, 8)
    fit = ad.fit("y ~ a + b*x", {"x": x, "y": 1 + slope * x + 0.2 * np.cos(40 * x)})
    for place in (0.3, 7.0, 2.5)[: amount(2, 3, 3)]:
        reading = float(fit.predict({"x": [place]})[0])
        (found,) = fit.inverse("x", reading, limits=limits)
        assert found.value == pytest.approx(place, rel=1e-12), place


def test_a_reading_at_the_extremum_of_a_curve_has_one_inverse_and_one_on_a_plateau_none() -> None:
    x = np.linspace(-2, 2, 12)
    noise = 0.1 * np.cos(40 * x)
    for sign in (-1, 1):
        curve = ad.fit(f"y ~ {sign}*c*x^2", {"x": x, "y": sign * x**2 + noise})
        assert [each.value for each in curve.inverse("x", 0.0, limits=(-1, 1))] == [0.0]
    plateau = ad.fit("y ~ where(x < 0, 0, a*x)", {"x": x, "y": np.maximum(x, 0) + noise})
    assert [each.value for each in plateau.inverse("x", 0.0)] == [None]


@pytest.mark.parametrize("x", [-100.0, 100.0, 200.0])
@pytest.mark.parametrize("model", ["n ~ a + b*x", "n ~ exp(a + b*x)"])
def test_means_that_counts_cannot_have_have_no_prediction_band(model: str, x: float) -> None:
    """The band of a negative mean was at 1e24, and draws for such means ended in a traceback."""
    rows = np.linspace(0, 3, 24)
    fit = ad.fit(model, {"x": rows, "n": np.round(4 + 3 * rows + np.cos(40 * rows))}, family="poisson")
    draws = {name: value + 0.001 * np.ones((4, 5)) for name, value in fit.parameters.items()}
    for bands in (
        fit.predict({"x": [x]}, interval=0.9),
        dataclasses.replace(fit, draws=draws).predict_posterior({"x": [x]}),
    ):
        is_possible = 0 <= bands.prediction[0] <= 2.0**53
        limits = bands.prediction_low[0], bands.prediction_high[0]
        assert np.isfinite(limits).all() == is_possible, (bands, is_possible)
        assert not is_possible or limits[0] <= bands.prediction[0] <= limits[1] + 1


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_prediction_bands_far_from_the_rows_are_the_quantiles_of_simulated_rows(family: str) -> None:
    """They were narrower than the confidence band of the mean."""
    random = np.random.default_rng(3)
    x, error = np.linspace(0, 3, 30), 0.1 * np.cos(40 * np.linspace(0, 3, 30))
    target = np.exp(1 + 0.3 * x + 3 * error)
    fit = ad.fit("y ~ exp(a + b*x)", {"x": x, "y": np.round(target) if family == "poisson" else target}, family=family)
    for far in (3.0, 15.0, 30.0):
        bands = fit.predict({"x": [far]}, interval=0.9)
        middle, wide = np.log(bands.prediction[0]), np.log(bands.confidence_high[0] / bands.prediction[0])
        means = np.exp(middle + wide / 1.645 * random.normal(size=200_000))
        dispersion = fit.dispersion or 1.0
        rows = random.poisson(means) if family == "poisson" else random.gamma(1 / dispersion, means * dispersion)
        low, high = np.quantile(rows, [0.05, 0.95])
        assert bands.prediction_high[0] == pytest.approx(high, rel=0.25), far
        assert bands.prediction_low[0] <= max(1.25 * low, low + 1), far


@each("model, curve", [
    ("y ~ where(x < 3, a + b*x, c + b*x)", lambda x: np.where(x < 3, 1, 5) + 0.1 * x),
    ("y ~ a*floor(x/2) + b*x", lambda x: 2 * np.floor(x / 2) + 0.3 * x),
    ("y ~ a*sign(x - 2) + b/(x - 4.45)", lambda x: np.sign(x - 2) + 0.3 / (x - 4.45)),
])  # fmt: skip
def test_the_prediction_at_every_inverse_is_the_reading_also_beside_a_jump(model: str, curve: Any) -> None:
    x = np.linspace(0, 6, 60)
    fit = ad.fit(model, {"x": x, "y": curve(x) + 0.01 * np.cos(40 * x)})
    readings = np.quantile(curve(x), np.linspace(0.03, 0.97, amount(2, 6, 6)))
    causes = [(cause.value, reading) for reading in readings for cause in fit.inverse("x", float(reading))]
    values, expected = zip(*[pair for pair in causes if pair[0] is not None], strict=True)
    assert fit.predict({"x": values}) == pytest.approx(expected, abs=1e-3)
