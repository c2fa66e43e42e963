"""Diagnosis of networks with deliberate problems, and of healthy ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import autodiff_cli as ad
from autodiff_cli.array_types import Array
from autodiff_cli.training.methods.gradient_descent import Diverged, Outcome
from autodiff_cli.training.objective.batch import GroupBatch, ObjectiveBatch
from autodiff_cli.training.result import diagnosis as diagnoses
from autodiff_cli.training.result.diagnosis import (
    Diagnosis,
    LayerGradients,
    LayerUnits,
    _describe_runaways,
    count_flat_rows,
    curve_warning,
    curve_warnings,
    explain_divergence,
    explain_failure,
    residual_structure,
    residual_structures,
    structure_scores,
    von_neumann_scores,
)
from tests.each import amount, each

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


def test_gradients_are_those_at_the_start_and_at_the_end() -> None:
    model = "v: 2; w: 2; y ~ dot(v, tanh(w*x))"
    start = {"v": np.array([0.1, 0.2]), "w": np.array([0.3, -0.4])}
    fit = ad.fit(model, DATA, start=start, diagnosis=True, epochs=20, optimizer="adam")
    assert fit.diagnosis is not None
    objective = ad.Objective(model, DATA)
    points = (np.concatenate([point["v"], point["w"]]) for point in (start, fit.parameters))
    at_start, at_end = (objective.value_and_grad(point)[1].reshape(2, 2) for point in points)
    for k, layer in enumerate(fit.diagnosis.gradients):
        assert layer.start == pytest.approx(np.sqrt(np.mean(at_start[k] ** 2)), rel=1e-9)
        assert layer.end == pytest.approx(np.sqrt(np.mean(at_end[k] ** 2)), rel=1e-9)


def test_a_diagnosis_needs_layers_and_the_option() -> None:
    assert diagnosed("y ~ a*x + b") == Diagnosis((), ())
    assert ad.fit("y ~ a*x + b", DATA).diagnosis is None


def test_rows_come_in_blocks_without_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    model, start = "y ~ mlp(x, [5], relu)", {"mlp.0.bias": [-0.9, -0.5, 0.0, 0.5, -3.0]}
    whole = diagnosed(model, start)
    monkeypatch.setattr("autodiff_cli.backends.numpy_backend.BLOCK_ROWS", 13)
    assert diagnosed(model, start).units == whole.units


@each("has_equal_scatter", [True, False])
def test_scores_of_several_series_in_groups_are_those_of_each_alone(has_equal_scatter: bool) -> None:
    series = np.random.default_rng(0).normal(size=(3, 40)).cumsum(axis=1)
    found = von_neumann_scores(series, np.array([15, 25]), has_equal_scatter=has_equal_scatter)
    for one, scores in zip(series, found, strict=True):
        for part, score in zip(np.split(one, [15]), scores, strict=True):
            alone = von_neumann_scores(part, np.array([len(part)]), has_equal_scatter=has_equal_scatter)
            assert alone == pytest.approx([score], rel=1e-9)
        assert scores.min() > 1


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


@each("sizes", [[201, 30, 401], [500], [10, 9, 11], [1999, 30, 701]])
@each("height", [0.3, 2.0])  # a low wave shows in the means only
def test_slow_variation_is_seen_in_means_of_neighbours(sizes: list[int], height: float) -> None:
    """Of more than 200 values, the means of 200 blocks of neighbours are tested too."""
    ordered = np.random.default_rng(2).normal(size=sum(sizes))
    ordered += height * np.sin(np.linspace(0, 6, len(ordered)))
    wanted = []
    for n, values in zip(sizes, np.split(ordered, np.cumsum(sizes)[:-1]), strict=True):
        blocks = np.arange(n) * min(n, 200) // n
        means = np.bincount(blocks, values) / np.bincount(blocks)
        wanted.append(max(*(von_neumann_scores(each, np.array([len(each)]))[0] for each in (values, means))))
    assert structure_scores(ordered, np.array(sizes)) == pytest.approx(wanted, rel=1e-9)
    assert von_neumann_scores(np.r_[ordered[:9], ordered], np.array([9, len(ordered)]))[0] == 0
    constant = np.r_[np.ones(12), ordered[:12], np.full(12, np.inf)]
    with np.errstate(all="ignore"):
        scores = von_neumann_scores(constant, np.array([12, 12, 12]))
    assert [score != 0 for score in scores] == [False, True, False]


@each("loss", ["mse", "huber"])
@each("weighted", [False, True])
def test_residuals_in_order_of_the_predictor_are_scored_alone_and_in_groups(loss: str, weighted: bool) -> None:
    """Weighted residuals count, those of robust losses clipped at 1.345 scales, and rows of no weight do not."""
    generator = np.random.default_rng(3)
    x = generator.permutation(np.linspace(0, 3, 60))
    y = 1 + x + np.sin(6 * x) + 0.4 * generator.normal(size=60)
    y[:3] += 40
    weights = np.where(np.arange(60) % 7, generator.uniform(0.2, 3, 60), 0.0) if weighted else np.ones(60)
    objective = ad.Objective("y ~ a + b*x", {"x": x, "y": y}, loss=loss, weights=weights if weighted else None)
    read = np.flatnonzero(weights)
    groups, theta = np.split(np.arange(len(read)), [np.sum(read < 30)]), np.array([[1.1, 0.9], [0.8, 1.2]])
    together = GroupBatch(objective, groups)
    found = [residual_structure(objective.select_rows(rows), at) for rows, at in zip(groups, theta, strict=True)]
    wanted = []
    for rows, (a, b) in zip(groups, theta, strict=True):
        used = read[rows]
        residuals = ((y - a - b * x) * np.sqrt(weights))[used]
        limit = 1.345 * 1.4826022185 * np.median(np.abs(residuals)) if loss == "huber" else np.inf
        ordered = np.clip(residuals, -limit, limit)[np.argsort(x[used])]
        wanted.append(von_neumann_scores(ordered, np.array([len(used)]))[0])
    assert found == pytest.approx(wanted, rel=1e-7)
    assert residual_structures(together, theta, np.arange(2)) == pytest.approx(wanted, rel=1e-7)
    alone = ObjectiveBatch([objective.select_rows(rows) for rows in groups])
    assert residual_structures(alone, theta, np.arange(2)) == pytest.approx(wanted, rel=1e-7)
    for model in ("y ~ a + b*x + c*z", "y ~ a"):  # two predictors have no order, nor has none
        other = ad.Objective(model, {"x": x, "z": y, "y": y} if "x" in model else {"y": y})
        at = np.ones(other.layout.size)
        assert residual_structure(other, at) == 0
        batch = GroupBatch(other, groups)
        assert residual_structures(batch, np.array([at, at]), np.arange(2)).tolist() == [0, 0]


POLES: list[tuple[str, tuple[float, ...], float | None, str]] = [
    ("y ~ a/(x - c)", (1, 4.3), 4.3, "has a pole"),
    ("y ~ a/(x - c)", (1, 0.4), None, ""),
    ("y ~ a/(x - c)", (1, 10.2), None, ""),
    ("y ~ a/(x - c)^2", (1, 9.01), 9.01, "has a pole"),
    ("y ~ (a + b*x)/(1 + c*x)", (3, 1, -1 / 7.6), 7.6, "has a pole"),
    ("y ~ a*tan(b*x)", (1, 0.2), math.pi / 0.4, "has a pole"),
    ("y ~ a*(x - c)^-3", (1, 4.3), 4.3, "has a pole"),
    ("y ~ a*b^x", (1, -0.8), math.nan, "is undefined"),
    ("y ~ a*sqrt((x - c)^2 - d)", (1, 6.5, 0.01), 6.5, "is undefined"),
    ("y ~ a*where(x > c, 1/(x - c), 1)", (1, 4.3), 4.3, "has a pole"),
    ("y ~ a*where(x < c, 1/(x - c), 1)", (1, 4.3), 4.3, "has a pole"),
    ("y ~ a*b^x", (1, 0.8), None, ""),
    ("y ~ a*sin(k*(x - c))/(x - c)", (1, 2, 4.3), None, ""),
    ("y ~ a/(x - c)", (1, 4.5), 4.5, "has a pole"),  # in the middle between two rows
    ("y ~ a*floor(b*x) + c", (1, 1.04, 0), None, ""),
    ("y ~ v*x^n/(k^n + x^n)", (1, 2, 3), None, ""),
    ("y ~ a + b/x", (1, 2), None, ""),
]


@each("model, theta, place, words", POLES)
@each("form", ["y ~ {}", "y ~ sum([{}, 0])", "[y, y] ~ [{}, x]"], quick=lambda form: "sum" not in form)
def test_a_curve_is_followed_between_rows(
    model: str, theta: tuple[float, ...], place: float | None, words: str, form: str
) -> None:
    """Also where the formula has lists of numbers, such as those of several targets."""
    model = form.format(model.removeprefix("y ~ "))
    objective = ad.Objective(model, {"x": ROWS, "y": ROWS}, start=dict.fromkeys("cd", 0.5) if "sqrt" in model else None)
    warning = curve_warning(objective, np.array(theta, float))
    if place is None:
        assert warning == ""
        return
    assert warning.startswith(f"the fitted curve {words} at x = ")
    assert warning.endswith(", between two rows")
    found = float(warning.partition("x = ")[2].partition(",")[0])
    assert math.isnan(place) or found == pytest.approx(place, abs=0.11 if "undefined" in words else 1e-5)


def test_a_curve_with_a_fixed_parameter_is_followed() -> None:
    objective = ad.Objective("y ~ a/(h*x - c)", {"x": ROWS, "y": ROWS}, fixed={"h": 2})
    assert f"{POLE} x = 4.3" in curve_warning(objective, np.array([1, 8.6]))
    assert curve_warning(objective, np.array([1, 1.4])) == ""


def test_curves_of_groups_and_of_labels_are_followed_each_between_its_own_rows() -> None:
    poles = np.array([0.5, 4.3, 0.4, 7.6])
    data = {"x": np.tile(ROWS, 4), "y": np.ones(40), "site": np.repeat([*"ABCD"], 10)}
    theta, every = np.stack([np.ones(4), poles], axis=1), np.arange(4)
    objective = ad.Objective("y ~ a/(x - c)", data)
    rows = np.split(np.arange(40), 4)
    wanted = [1 < pole < 10 for pole in poles.tolist()]
    for batch in (GroupBatch(objective, rows), ObjectiveBatch([*map(objective.select_rows, rows)])):
        found = curve_warnings(batch, theta, every)
        assert [POLE in text for text in found] == wanted
        assert ["4.3" in text for text in found] == [False, True, False, False]
    labelled = ad.Objective("y ~ a/(x - c[site])", data)
    for k, is_broken in enumerate(wanted):
        at = np.r_[1.0, np.where(every == k, poles, 0.2)]
        assert (POLE in curve_warning(labelled, at)) is is_broken
    for model in (
        "y ~ a/(x*z - c)",
        "y ~ a/(1 + x^2)",
        "y ~ dot(v, [x, 1/(x - c)])",
    ):  # two predictors, no pole, arrays
        start = {"v": [1.0, 1.0], "c": 4.3} if "dot" in model else None
        plain = ad.Objective(model, {**data, "z": data["x"]}, start=start)
        assert curve_warning(plain, np.full(plain.layout.size, 4.3)) == ""
        single = ObjectiveBatch([plain])
        assert curve_warnings(single, np.full((1, plain.layout.size), 4.3), np.arange(1)).tolist() == [""]


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
        ("y ~ v*x/(k + x)", {"v": 2, "k": 3.4}, 2 * ROWS / (ROWS + 3.4)),
        ("y ~ a/(x - c)", {"a": 1, "c": 0.5}, 1 / (ROWS - 0.5)),  # its pole is left of all rows
        ("y ~ a + b/x", {}, 1 + 2 / ROWS),
        ("y ~ a*sin(k*(x - c))/(x - c)", {"a": 1, "k": 2.0, "c": 4.3}, np.sin(2 * (ROWS - 4.3)) / (ROWS - 4.3)),
        ("y ~ a*floor(b*x) + c", {"a": 1, "b": 1.04, "c": 0}, np.floor(ROWS)),  # jumps are no poles
        ("y ~ a*sqrt(x - c)", {"a": 1, "c": 0.4}, np.sqrt(ROWS - 0.4)),
        ("y ~ a*b^x", {"a": 1, "b": 0.8}, 0.8**ROWS),
        ("y ~ v*x^n/(k^n + x^n)", {"v": 1, "k": 3.0, "n": 2.0}, ROWS**2 / (9 + ROWS**2)),
    ],
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


def test_the_curve_of_each_label_is_followed_between_its_own_rows() -> None:
    data = {"x": np.tile(ROWS, 2), "site": np.repeat(["A", "B"], len(ROWS))}
    for pole, is_reported in ((4.3, True), (0.5, False)):
        data["y"] = np.concatenate([1 / (ROWS - 0.4), 1 / (ROWS - pole)]) + np.tile(NOISE, 2)
        start = {"c[A]": 0.5, "c[B]": pole + 0.1}
        fit = ad.fit("y ~ a[site]/(x - c[site])", data, start=start)
        assert any(POLE in text for text in fit.warnings) == is_reported


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


@each("model", ["y ~ a", "y ~ a[g]", "y ~ a*(1 + b*(g == 'u'))"], quick=lambda model: model == "y ~ a[g]")
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


def test_unequal_scatter_alone_makes_no_fit_doubtful() -> None:
    """The few largest residuals decide whether residuals are alike, but chance decides whether they are neighbours."""
    alike = 0
    for seed in range(40):
        generator = np.random.default_rng(seed)
        x = np.linspace(0, 3, 150)
        scatter = np.exp(3 * x) * generator.normal(size=150)
        found = ad.fit("y ~ a + b*x", {"x": x, "y": 1 + x + scatter})
        objective = ad.Objective("y ~ a + b*x", {"x": x, "y": 1 + x + scatter})
        alike += residual_structure(objective, np.array([*found.parameters.values()])) > 3.5
        assert not [warning for warning in found.warnings if "doubtful" in warning]
        curved = ad.fit("y ~ a + b*x", {"x": x, "y": 1 + x + 0.002 * scatter + 20 * np.cos(4 * x)})
        assert [warning for warning in curved.warnings if "doubtful" in warning]
    assert alike


def draw_of_family(family: str, generator: np.random.Generator, mean: Array, trials: Array) -> Array:
    if family == "gamma":
        return generator.gamma(3, mean / 3)
    if family == "binomial":
        return generator.binomial(trials, np.minimum(mean, 0.9)) / trials
    counts = (
        generator.negative_binomial(5, 5 / (5 + mean)) if family == "negative_binomial" else generator.poisson(mean)
    )
    return counts.astype(np.float64)


@each(
    "family, variance",
    [
        ("poisson", lambda mean: mean),
        ("gamma", np.square),
        ("binomial", lambda mean: mean * (1 - mean)),
        ("negative_binomial", lambda mean: mean + mean**2 / 5),
        ("rare", lambda mean: mean),
    ],
    quick=lambda family, _: family in ("gamma", "binomial"),
)
def test_neighbours_of_a_family_are_compared_in_units_of_its_standard_deviations(family: str, variance: Any) -> None:
    """A bump makes them alike, but neither scatter that differs from row to row nor the heavy tails of rare counts."""
    x, doubtful = np.linspace(0, 1, 240), {0: 0, 9: 0}
    model, weights = "y ~ exp(a + b*x)", "trials" if family == "binomial" else None
    options = {"family": "poisson" if family == "rare" else family, "weights": weights}
    for seed, height in [*((seed, 0) for seed in range(amount(2, 6, 6))), (0, 9)]:
        generator = np.random.default_rng(seed)
        trials = generator.integers(5, 50, 240)
        mean = np.exp({"binomial": -2, "rare": -3}.get(family, 3) - 2 * x) * (
            1 + height * np.exp(-(((x - 0.5) / 0.04) ** 2))
        )
        y = draw_of_family(family, generator, mean, trials)
        found = ad.fit(model, data := {"x": x, "y": y, "trials": trials}, **options)
        doubtful[height] += any("neighbouring residuals are alike" in text for text in found.warnings)
    assert doubtful == {0: 0, 9: int(family != "rare")}
    objective, theta = ad.Objective(model, data, **options), np.array([[0.3, -1.5], [0.1, -0.9]])
    if family == "negative_binomial":
        objective.set_scale(5.0)
    groups = [np.arange(0, 240, 2), np.arange(1, 240, 2)]
    wanted = []
    for rows, (a, b) in zip(groups, theta, strict=True):
        mean = np.exp(a - 2 * (family == "binomial") + b * x[rows])
        pearson = (y[rows] - mean) / np.sqrt(variance(mean)) * np.sqrt(trials[rows] if weights else 1)
        wanted.append(von_neumann_scores(pearson, np.array([120]))[0])
    theta[:, 0] -= 2 * (family == "binomial")
    assert residual_structures(GroupBatch(objective, groups), theta, np.arange(2)) == pytest.approx(wanted, rel=1e-7)
    alone = [residual_structure(objective.select_rows(rows), at) for rows, at in zip(groups, theta, strict=True)]
    assert alone == pytest.approx(wanted, rel=1e-7)


@each("last", [1.0, 1e-2, 0.0])
@each("size", [1.0, 1.01e-3, 0.99e-3, 0.99e3, 1.01e3, 1.01e-5, 0.99e-5, 9.9, 10.1, math.nan, math.inf])
@each("when", ["start", "end"])
def test_gradients_vanish_or_explode_next_to_those_of_the_last_layer(when: str, size: float, last: float) -> None:
    """A thousandth of the last layer's vanishes; a thousandfold, or one above a thousand, explodes."""
    sizes = {"start": (1.0, 1.0), "end": (1.0, 1.0), when: (size, last)}
    layers = tuple(LayerGradients(f"mlp.{k}", sizes["start"][k], sizes["end"][k]) for k in (0, 1))
    problems = [problem for problem in Diagnosis((), layers).problems if problem.layer == "mlp.0"]
    explodes = not size <= 1e3 or (last > 0 and size > 1e3 * last)
    wanted = "exploding" if explodes else "vanishing" if size < 1e-3 * last else None
    assert [problem.kind for problem in problems] == ([wanted] if wanted else [])
    for problem in problems:
        assert problem[1:] == ("mlp.0", pytest.approx(size, nan_ok=True), last, when)


def test_dead_and_saturated_units_are_problems_at_the_end() -> None:
    units = (
        LayerUnits("mlp.0", "relu", 8, 3, 0),
        LayerUnits("mlp.1", "tanh", 4, 0, 2),
        LayerUnits("v", "tanh", 4, 0, 0),
    )
    assert [tuple(problem) for problem in Diagnosis(units, ()).problems] == [
        ("dead", "mlp.0", 3, 8, "end"),
        ("saturated", "mlp.1", 2, 4, "end"),
    ]


def test_rows_in_which_units_are_flat_are_counted() -> None:
    """A rectified unit is flat at its limit or below; a sigmoid or tanh unit beyond 98 % of its range."""
    values = np.array([[0.0, -1, 1e-9, 2], [0.979, 0.981, 0.021, 0.019], [-0.97, -0.95, 0.97, 0.5]])
    layers = [(0.0, math.inf, True, slice(0, 1)), (0.0, 1.0, False, slice(1, 2)), (-1.0, 1.0, False, slice(2, 3))]
    assert count_flat_rows(layers, values, {}).tolist() == [2, 2, 2]


@each("share, is_saturated", [(0.94, False), (0.96, True)])
def test_a_unit_is_saturated_if_it_is_flat_in_nearly_all_rows(share: float, is_saturated: bool) -> None:
    x = np.where(np.arange(100) < 100 * share, 9.0, 0.0)
    fit = ad.fit(
        "y ~ mlp(x, [1], tanh)",
        {"x": x, "y": x},
        start={"mlp.0.weight": [[1.0]], "mlp.0.bias": [0.0]},
        diagnosis=True,
        optimizer="sgd",
        learning_rate=1e-12,
        epochs=1,
    )
    assert fit.diagnosis is not None
    assert fit.diagnosis.units[0][1:] == ("tanh", 1, 0, int(is_saturated))


# --- Failed fits


def failed(model: str, data: dict[str, Any], theta: list[float], losses: list[float], **options: Any) -> list[str]:
    objective = ad.Objective(model, data, **options)
    return explain_failure(objective, Outcome(np.array(theta), False, "no minimum was found"), losses)


LINE = {"x": np.array([1.0, 2.0, 3.0, 4.0]), "y": np.array([1.0, 2.0, 2.0, 3.0])}


def test_a_failure_is_explained_by_what_is_known() -> None:
    plain = "what to try: other starting values (--starts 20), or a simpler model"
    assert failed("y ~ a*x + b", LINE, [1, 1], [2.0, 1.0]) == [plain]
    rose, advice = failed("y ~ a*x + b", LINE, [1, 1], [1.0, 2.0])
    assert (rose, advice) == ("the loss rose from 1 to 2; try a lower --lr or --clip-norm", plain)
    assert failed("y ~ a*x + b", LINE, [1, 1], []) == []
    ran, advice = failed("y ~ a*x + b", LINE, [300, 1], [2.0, 1.0])
    assert ran == "`a` went from 1 to 300"
    assert advice.endswith(
        "(--starts 20), bounds for the diverging parameter (--bounds a=LOW:HIGH), or a simpler model"
    )
    without, advice = failed("y ~ a*x + b*0", LINE, [1, 1], [2.0, 1.0])
    assert without == "`b` has no effect on the prediction there"
    alike, advice = failed("y ~ a*x + b*x + c", LINE, [1, 1, 1], [2.0, 1.0])
    assert "the condition number at the last point is " in alike
    assert alike.endswith("(with scaled parameters): changing `a` and `b` together hardly changes the prediction")
    assert "fixing one of the dependent parameters (--fix a=VALUE)" in advice
    falling = {**LINE, "y": -LINE["y"]}
    (edge, _) = failed("y ~ sqrt(a - 1)*x", falling, [1 + 1e-9], [2.0, 1.0], start={"a": 2})
    assert edge.startswith("the loss falls towards the edge of the model's domain")
    assert edge.endswith("; --bounds may keep it inside")
    (edge, _) = failed("y ~ sqrt(a - 1)*x + b", falling, [1 + 1e-9, 0], [2.0, 1.0], start={"a": 2, "b": 0})
    assert edge.startswith("the loss falls towards the edge of the model's domain")
    assert failed("y ~ sqrt(a - 1)*x", LINE, [1 + 1e-9], [2.0, 1.0], start={"a": 2}) == [plain]
    assert failed("y ~ sqrt(a - 1)*x", falling, [1 + 1e-5], [2.0, 1.0], start={"a": 2}) == [plain]
    exact = {**LINE, "y": LINE["x"]}  # where the gradient is 0, the loss falls towards no edge
    assert failed("y ~ sqrt(a)*x", exact, [1], [2.0, 1.0]) == [plain]


@each("factor, is_reported", [(5e-6, False), (2e-7, True)])
@each("unit", [1e-8, 1.0, 1e8])
def test_parameters_are_called_indistinguishable_above_a_condition_of_a_million(
    factor: float, is_reported: bool, unit: float
) -> None:
    data = {**LINE, "z": unit * (LINE["x"] + factor * np.array([1.0, -1, 1, -1]) * 2.74)}
    found = failed("y ~ a*x + b*z", data, [1, 1], [2.0, 1.0])
    assert (len(found) == 2) is is_reported
    assert not is_reported or "`a` and `b`" in found[0]


@each("scale", [1e-250, 1.0, 1e250])
def test_the_size_of_a_layers_gradient_is_its_root_mean_square(scale: float) -> None:
    found = diagnoses._root_mean_square(scale * np.array([3.0, -4.0, 0.0, 5.0]))
    assert found / scale == pytest.approx(math.sqrt(50 / 4), rel=1e-12)


def test_only_fits_that_failed_are_explained() -> None:
    objective = ad.Objective("y ~ a*x + b", LINE)
    for outcome in (Outcome(np.array([300.0, 1]), True), Outcome(np.array([300.0, 1]), False, "interrupted")):
        assert explain_failure(objective, outcome, [1.0, 2.0]) == []
    unfinished = explain_failure(objective, Outcome(np.array([300.0, 1]), False), [1.0, 2.0])
    assert [text.partition(" ")[2][:4] for text in unfinished] == ["went", "loss"]
    unbounded = Outcome(np.array([300.0, 1]), False, "the loss has no minimum", is_unbounded=True)
    assert explain_failure(objective, unbounded, [2.0, 1.0]) == ["`a` went from 1 to 300"]


def test_a_divergence_is_explained_by_infinite_parameters_or_undefined_values() -> None:
    objective = ad.Objective("y ~ a*log(x - b)", LINE)
    assert (
        explain_divergence(Diverged(3, math.inf, np.array([1.0, math.inf])), objective) == ": `b` diverged to infinity"
    )
    both = explain_divergence(Diverged(3, math.nan, np.array([math.nan, -math.inf])), objective)
    assert both == ": `a` and `b` diverged to infinity"
    assert "log" in explain_divergence(Diverged(3, math.nan, np.array([1.0, 2.5])), objective)
    assert explain_divergence(Diverged(3, math.nan, np.array([1.0, 0.5])), objective) == ""
    assert diagnoses._join_names([*"abcdefg"]) == "`a`, `b`, `c`, `d`, `e` and 2 more"
    assert diagnoses._join_names(["a"]) == "`a`"
    assert diagnoses._join_names([*"abcde"]) == "`a`, `b`, `c`, `d` and `e`"
    assert diagnoses._advice(["a[3]"], []).count("--bounds a=LOW:HIGH") == 1
    assert diagnoses._advice([], ["a"]) == "what to try: other starting values (--starts 20), or a simpler model"
    assert "--fix a=VALUE" in diagnoses._advice([], ["a", "b"])


def test_the_layer_of_an_activation_is_named_by_all_its_parameters() -> None:
    """Also by those below a sum that the activation reads twice, and not by those below another activation."""
    text = "W: 2x1; V: 2x2; b: 2; v: 2; h = tanh(W @ [x]); z = V @ h + b; y ~ dot(v, tanh(z + z*z))"
    diagnosis = diagnosed(text, epochs=1)
    assert [(units.layer, units.units) for units in diagnosis.units] == [("W", 2), ("V, b", 2)]


@each(
    ("start", "end", "is_far"),
    [
        (1.0, 103.0, True),
        (1.0, 99.0, False),
        (0.0, -101.0, True),
        (1e9, 9e10, False),
        (1e9, 1e-5, True),
        (1e-6, 1e-13, False),
        (1e-6, 1e-19, True),
        (1.0, 0.0, False),
    ],
)
def test_parameters_that_went_far_or_vanished_are_named(start: float, end: float, is_far: bool) -> None:
    objective = ad.Objective("y ~ a*x", {"x": [1.0, 2], "y": [1.0, 2]}, start={"a": start})
    wanted = {"a": f"`a` went from {start:g} to {end:.6g}"} if is_far else {}
    assert _describe_runaways(objective, np.array([end])) == wanted
