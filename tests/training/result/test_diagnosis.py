"""Diagnosis of networks with deliberate problems, and of healthy ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import autodiff_cli as ad
from autodiff_cli.array_types import Array
from autodiff_cli.training.result.diagnosis import Diagnosis, _describe_runaways, von_neumann_scores
from tests.each import each

X = np.linspace(-1, 1, 40)
DATA = {"x": X, "y": np.sin(2 * X)}


def diagnosed(model: str, start: dict[str, Any] | None = None, **options: Any) -> Diagnosis:
    fit = ad.fit(model, DATA, start=start, diagnosis=True, **{"epochs": 1, "optimizer": "adam", **options})
    assert fit.diagnosis is not None
    return fit.diagnosis


def kinds(diagnosis: Diagnosis) -> set[str]:
    return {problem.kind for problem in diagnosis.problems}


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "leaky_relu", "gelu"])
def test_a_trained_network_is_healthy(activation: str) -> None:
    diagnosis = diagnosed(f"y ~ mlp(x, [8, 8], {activation})", epochs=300)
    assert diagnosis.problems == []
    assert [layer.layer for layer in diagnosis.gradients] == ["mlp.0", "mlp.1", "mlp.2"]


def test_units_that_are_never_active_are_dead() -> None:
    diagnosis = diagnosed("y ~ mlp(x, [4], relu)", {"mlp.0.bias": [-100.0, -100.0, 5.0, 5.0]})
    (units,) = diagnosis.units
    assert (units.layer, units.activation, units.units, units.dead, units.saturated) == ("mlp.0", "relu", 4, 2, 0)
    (problem,) = (problem for problem in diagnosis.problems if problem.kind == "dead")
    assert (problem.layer, problem.amount, problem.of) == ("mlp.0", 2, 4)


def test_a_unit_that_is_active_in_one_row_lives() -> None:
    start = {"mlp.0.weight": [[1.0]], "mlp.0.bias": [-0.96]}  # positive in the last row alone, where x is 1
    assert diagnosed("y ~ mlp(x, [1], relu)", start, learning_rate=1e-9).units[0].dead == 0


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_units_at_their_ends_are_saturated(activation: str) -> None:
    diagnosis = diagnosed(f"y ~ mlp(x, [3], {activation})", {"mlp.0.bias": [50.0, -50.0, 0.0]})
    assert diagnosis.units[0].saturated == 2
    assert "saturated" in kinds(diagnosis)


def test_many_sigmoid_layers_make_the_gradient_vanish() -> None:
    diagnosis = diagnosed("y ~ mlp(x, [6, 6, 6, 6, 6, 6, 6, 6], sigmoid)")
    problems = [problem for problem in diagnosis.problems if problem.kind == "vanishing"]
    assert problems[0].layer == "mlp.0"
    assert problems[0].when == "start"
    sizes = [layer.start for layer in diagnosis.gradients]
    assert sizes == sorted(sizes)


def test_large_weights_make_the_gradient_explode() -> None:
    large = {f"mlp.{k}.weight": 30 * np.ones((4, 4)) for k in range(1, 5)}
    diagnosis = diagnosed("y ~ mlp(x, [4, 4, 4, 4, 4], softplus)", large, learning_rate=1e-9)
    assert "exploding" in kinds(diagnosis)


def test_a_fit_that_diverged_is_diagnosed_where_it_stopped() -> None:
    diagnosis = diagnosed("y ~ mlp(x, [16, 16], relu)", optimizer="sgd", learning_rate=5.0, epochs=50)
    assert "exploding" in kinds(diagnosis)
    assert "end" in {problem.when for problem in diagnosis.problems}


def test_a_network_written_by_hand_has_layers_by_the_names_of_its_parameters() -> None:
    text = "W: 3x1; b: 3; v: 3; y ~ dot(v, tanh(W @ [x] + b))"
    diagnosis = diagnosed(text, epochs=50)
    assert [(units.layer, units.units) for units in diagnosis.units] == [("W, b", 3)]
    assert [layer.layer for layer in diagnosis.gradients] == ["W", "b", "v"]


def test_a_diagnosis_needs_layers_and_the_option() -> None:
    assert diagnosed("y ~ a*x + b") == Diagnosis((), ())
    assert ad.fit("y ~ a*x + b", DATA).diagnosis is None


def test_rows_come_in_blocks_without_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    model, start = "y ~ mlp(x, [5], relu)", {"mlp.0.bias": [-0.9, -0.5, 0.0, 0.5, -3.0]}
    whole = diagnosed(model, start)
    monkeypatch.setattr("autodiff_cli.backends.numpy_backend.BLOCK_ROWS", 13)
    assert diagnosed(model, start).units == whole.units


def test_scores_of_neighbours_are_those_of_von_neumann() -> None:
    """Twice the normal approximation's mean is 2 and its variance 4*(n - 2)/(n^2 - 1), for each group by itself."""
    sizes = np.array([30, 12, 75])
    ordered = np.random.default_rng(2).normal(size=sizes.sum()) + np.repeat([0.0, 50.0, -9.0], sizes)
    wanted = []
    for n, values in zip(sizes, np.split(ordered, np.cumsum(sizes)[:-1]), strict=True):
        ratio = np.sum(np.diff(values) ** 2) / np.sum((values - values.mean()) ** 2)
        wanted.append((2 - ratio) / math.sqrt(4 * (n - 2) / (n**2 - 1)))
    assert von_neumann_scores(ordered, sizes) == pytest.approx(wanted, rel=1e-9)


ROWS = np.linspace(1.0, 10.0, 10)
NOISE = 0.01 * np.cos(37 * ROWS)
BROKEN, POLE, UNDEFINED = "the fitted curve", "has a pole at", "is undefined at"


@pytest.mark.slow
@each(
    "model, start, curve, expected",
    [
        ("y ~ a/(x - c)", {"c": 4.4}, 1 / (ROWS - 4.3), 4.3),
        ("y ~ a/(x - c)^2", {"c": 4.4}, 1 / (ROWS - 4.3) ** 2, 4.3),
        ("y ~ v*x/(k + x)", {"k": -3.5}, 2 * ROWS / (ROWS - 3.4), 3.4),
        ("y ~ (a + b*x)/(1 + c*x)", {"c": -0.13}, (3 + ROWS) / (1 - ROWS / 7.6), 7.6),
        ("y ~ a*tan(b*x)", {"b": 0.2}, np.tan(0.2 * ROWS), math.pi / 0.4),
        ("y ~ a*(x - c)^-3", {"c": 4.4}, (ROWS - 4.3) ** -3.0, 4.3),
        ("y ~ a*b^x", {"b": -0.8}, (-0.8) ** ROWS, math.nan),  # a power of a negative number at whole numbers alone
    ],
)
def test_a_curve_that_is_infinite_or_undefined_between_rows_is_reported(
    model: str, start: dict[str, float], curve: Array, expected: float
) -> None:
    fit = ad.fit(model, {"x": ROWS, "y": curve + NOISE}, start=start)
    assert fit.converged
    (warning,) = (text for text in fit.warnings if text.startswith(BROKEN))
    place = float(warning.partition("x = ")[2].partition(",")[0])
    if math.isnan(expected):
        assert UNDEFINED in warning
        assert math.isnan(float(fit.predict({"x": [place]})[0]))
    else:
        assert POLE in warning
        assert place == pytest.approx(expected, abs=0.05)
        assert abs(fit.predict({"x": [place * (1 + 1e-6)]})[0]) > 100 * np.abs(curve).max()


@each(
    "model, start, curve",
    [
        ("y ~ v*x/(k + x)", {}, 2 * ROWS / (ROWS + 3.4)),
        ("y ~ a/(x - c)", {"c": 0.5}, 1 / (ROWS - 0.5)),  # its pole is left of all rows
        ("y ~ a + b/x", {}, 1 + 2 / ROWS),
        ("y ~ a*sin(k*(x - c))/(x - c)", {"k": 2.0, "c": 4.3}, np.sin(2 * (ROWS - 4.3)) / (ROWS - 4.3)),
        ("y ~ a*floor(b*x) + c", {"b": 1.04}, np.floor(ROWS)),  # jumps are no poles
        ("y ~ a*sqrt(x - c)", {"c": 0.4}, np.sqrt(ROWS - 0.4)),
        ("y ~ a*b^x", {"b": 0.8}, 0.8**ROWS),
        ("y ~ v*x^n/(k^n + x^n)", {"k": 3.0, "n": 2.0}, ROWS**2 / (9 + ROWS**2)),
    ],
    sampled=True,
)
def test_a_curve_without_poles_between_rows_is_not_called_infinite(
    model: str, start: dict[str, float], curve: Array
) -> None:
    fit = ad.fit(model, {"x": ROWS, "y": curve + NOISE}, start=start)
    assert not [text for text in fit.warnings if text.startswith(BROKEN)]


RATIONAL = "y ~ (a + b*x)/(1 + c*x + d*x^2)"


def noisy_rational(seed: int) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    x = np.linspace(0.5, 8, 16)
    a, b, c, d = (generator.uniform(*ends) for ends in ((1, 3), (-0.3, 0.3), (0.1, 0.4), (0.02, 0.1)))
    exact = (a + b * x) / (1 + c * x + d * x * x)
    return {"x": x, "y": exact + 0.15 * np.ptp(exact) * generator.normal(size=len(x))}


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("seed", [28, 32, 4, 5, 12, 15, 19])
def test_of_curves_that_are_nearly_as_likely_the_one_without_a_pole_is_reported(seed: int) -> None:
    """A pole between two rows explains the noise of one of them."""
    data = noisy_rational(seed)
    fit = ad.fit(RATIONAL, data)
    assert fit.converged
    assert not [text for text in fit.warnings if text.startswith(BROKEN)]
    (note,) = (text for text in fit.notes if POLE in text)
    assert "the data do not exclude the one reported" in note
    assert np.abs(fit.predict({"x": np.linspace(0.5, 8, 400)})).max() < 3 * np.abs(data["y"]).max()


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_a_reported_pole_is_far_more_likely_than_a_minimum_without_one(seed: int) -> None:
    data = noisy_rational(seed)
    fit = ad.fit(RATIONAL, data)
    if not [text for text in fit.warnings if text.startswith(BROKEN)]:
        return
    assert fit.rss is not None
    for start in ({"a": 2, "b": 0, "c": 0.2, "d": 0.05}, {"a": 1, "b": 0.2, "c": 0, "d": 0.1}):
        other = ad.fit(RATIONAL, data, start=start)
        is_whole = not [text for text in other.warnings if text.startswith(BROKEN)]
        if is_whole and other.converged and not [text for text in other.warnings if "determine only" in text]:
            assert other.rss is not None
            assert 8 * math.log(other.rss / fit.rss) > 2.9


@pytest.mark.slow
def test_the_curve_of_each_label_is_followed_between_its_own_rows() -> None:
    data = {"x": np.tile(ROWS, 2), "site": np.repeat(["A", "B"], len(ROWS))}
    for pole, is_reported in ((4.3, True), (0.5, False)):
        data["y"] = np.concatenate([1 / (ROWS - 0.4), 1 / (ROWS - pole)]) + np.tile(NOISE, 2)
        start = {"c[A]": 0.5, "c[B]": pole + 0.1}
        fit = ad.fit("y ~ a[site]/(x - c[site])", data, start=start)
        assert any(POLE in text for text in fit.warnings) == is_reported


@pytest.mark.slow
def test_the_curves_of_groups_are_followed_as_curves_alone_are() -> None:
    poles = (0.5, 4.3, 0.4, 7.6, 0.3, 0.45)
    data = {"x": np.tile(ROWS, len(poles)), "group": np.repeat(np.arange(len(poles)), len(ROWS))}
    data["y"] = np.concatenate([1 / (ROWS - pole) + NOISE for pole in poles])
    fits = ad.fit_by("y ~ a/(x - c)", data, "group")
    warned = [any(POLE in text for text in group.fit.warnings) for group in fits]
    assert warned == [ROWS[0] < group.fit.parameters["c"] < ROWS[-1] for group in fits]
    assert warned[:4] == [False, True, False, True]


def test_parameters_that_ran_away_are_named_with_the_farthest_first() -> None:
    names = [*"abcdefg"]
    objective = ad.Objective(
        f"y ~ {' + '.join(names)} + x", {"x": [1.0, 2.0], "y": [1.0, 2.0]}, start={"a": -4, "g": 2}
    )
    theta = np.array([-404.001, 101.002, 101.001, -300.0, 250.0, 90.0, 1e-13])
    found = _describe_runaways(objective, theta)
    assert [*found] == ["g", "d", "e", "b", "c"]  # and `a`, but five at most
    assert found["g"] == "`g` went from 2 to 1e-13"
    assert found["d"] == f"`d` went from {objective.start[3]:g} to -300"
    near = objective.start + 100.0 * np.maximum(1, np.abs(objective.start))
    assert _describe_runaways(objective, near) == {}
    near[0] += 0.1
    assert [*_describe_runaways(objective, near)] == ["a"]


def unequal_rows(rows: int = 120) -> dict[str, Any]:
    """Return rows whose scatter grows from row to row."""
    generator, number = np.random.default_rng(0), np.arange(rows)
    return {"y": 1 + (0.1 + number / 60) * generator.normal(size=rows), "g": np.where(number % 2, "u", "v")}


@each("model", ["y ~ a", "y ~ a[g]", "y ~ a*(1 + b*(g == 'u'))"])
@each("loss", ["mse", "huber"])
def test_scatter_that_predictions_do_not_explain_is_not_reported(model: str, loss: str) -> None:
    """Rows with equal predictions have no order."""
    data = unequal_rows()
    found = ad.fit(model, data, loss=loss, no_columns=True)
    shuffled = np.random.default_rng(1).permutation(len(data["y"]))
    permuted = ad.fit(model, {name: values[shuffled] for name, values in data.items()}, loss=loss, no_columns=True)
    assert abs(found.scatter_trend) < 3.5
    assert permuted.scatter_trend == pytest.approx(found.scatter_trend, abs=1e-6)
    assert not any("scatter" in text for text in found.warnings)
    groups = ad.fit_by(model, {**data, "run": np.zeros(len(shuffled), int)}, "run", loss=loss, no_columns=True)
    assert groups[0].scatter_trend == pytest.approx(found.scatter_trend, abs=1e-6)


@each("kind", ["mse", "x errors", "groups"])
@each("levels", [1, 5, 20])
def test_the_trend_of_the_scatter_is_the_rank_correlation_with_predictions(kind: str, levels: int) -> None:
    """SciPy's `spearmanr` shares the ranks of equal values, too. Residuals are in units of their errors."""
    generator = np.random.default_rng(levels)
    x = np.repeat(np.linspace(0, 3, 60 // levels), levels)[:60]
    y = 5 + 2 * x + (0.2 + x) * (generator.exponential(size=len(x)) - 1)
    data = {"x": x, "y": y.round(1)}
    options: dict[str, Any] = {"sigma": 0.05, "x_sigma": {"x": 0.02}} if kind == "x errors" else {}
    if kind == "groups":
        found = ad.fit_by("y ~ a + b*x", {**data, "run": np.ones(len(x), int)}, "run")[1]
    else:
        found = ad.fit("y ~ a + b*x", data, **options)
    predictions = found.predict(data)
    sizes = np.abs(data["y"] - predictions)
    wanted = stats.spearmanr(sizes.round(9), predictions).statistic * math.sqrt(len(x) - 1)
    assert found.scatter_trend == pytest.approx(wanted if len(x) >= 30 else 0, abs=0.05)


def test_rows_sorted_by_the_target_do_not_make_a_fit_doubtful() -> None:
    doubtful = {"as measured": 0, "sorted": 0}
    for seed in range(12):
        generator = np.random.default_rng(seed)
        x = np.repeat(np.arange(1, 6.0), 12)
        y = 2 * np.exp(-0.3 * x) + 0.1 * generator.normal(size=60)
        for name, order in (("as measured", np.arange(60)), ("sorted", np.lexsort((y, x)))):
            found = ad.fit("y ~ a*exp(-b*x)", {"x": x[order], "y": y[order]})
            doubtful[name] += any("doubtful" in text for text in found.warnings)
    assert doubtful == {"as measured": 0, "sorted": 0}
