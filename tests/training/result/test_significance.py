"""Tests of parameters, odds ratios and the receiver operating characteristic, against statsmodels, scikit-learn and
published output of R.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import autodiff_cli as ad
from autodiff_cli.training.result.goodness import fisher_tail
from tests.support import run_cli

CARS = """
21 6 110 2.62;21 6 110 2.875;22.8 4 93 2.32;21.4 6 110 3.215;18.7 8 175 3.44;18.1 6 105 3.46;14.3 8 245 3.57
24.4 4 62 3.19;22.8 4 95 3.15;19.2 6 123 3.44;17.8 6 123 3.44;16.4 8 180 4.07;17.3 8 180 3.73;15.2 8 180 3.78
10.4 8 205 5.25;10.4 8 215 5.424;14.7 8 230 5.345;32.4 4 66 2.2;30.4 4 52 1.615;33.9 4 65 1.835;21.5 4 97 2.465
15.5 8 150 3.52;15.2 8 150 3.435;13.3 8 245 3.84;19.2 8 175 3.845;27.3 4 66 1.935;26 4 91 2.14;30.4 4 113 1.513
15.8 8 264 3.17;19.7 6 175 2.77;15 8 335 3.57;21.4 4 109 2.78
"""  # mtcars of R: mpg, cyl, hp, wt
MPG, CYL, HP, WT = np.array([row.split() for row in CARS.strip().replace("\n", ";").split(";")], float).T
MTCARS = {"mpg": MPG, "cyl": CYL, "hp": HP, "wt": WT}


def test_t_values_and_the_overall_test_as_summary_lm_of_r() -> None:
    """The output of summary(lm(mpg ~ wt + hp, mtcars))."""
    found = ad.fit("mpg ~ a + b*wt + c*hp", MTCARS)
    assert [*found.parameters.values()] == pytest.approx([37.22727, -3.87783, -0.03177], abs=6e-6)
    assert [*found.t_values.values()] == pytest.approx([23.285, -6.129, -3.519], abs=6e-4)
    assert found.p_values["b"] == pytest.approx(1.12e-06, rel=5e-3)
    assert found.p_values["c"] == pytest.approx(0.00145, rel=5e-3)
    assert found.null_test is not None
    assert (found.null_test.name, found.null_test.dof) == ("F", (2, 29))
    assert found.null_test.statistic == pytest.approx(69.21, abs=5e-3)
    assert found.null_test.p == pytest.approx(9.109e-12, rel=1e-3)


def test_the_tail_of_an_f_distribution() -> None:
    for ratio in (0.0, 1e-9, 0.3, 1.0, 7.5, 1e5):
        for above, below in ((1, 4), (3, 20), (2, 1)):
            assert fisher_tail(ratio, above, below) == pytest.approx(stats.f.sf(ratio, above, below), rel=1e-12)
    assert fisher_tail(-1e-12, 1, 4) == 1  # of a gain that rounding made negative


def test_parameters_of_levels_contain_a_constant() -> None:
    found = ad.fit("mpg ~ a[cyl]", MTCARS)
    referee = stats.f_oneway(*(MPG[level == CYL] for level in (4, 6, 8)))
    assert found.null_test is not None
    assert found.null_test.statistic == pytest.approx(referee.statistic, rel=1e-9)
    assert found.null_test.p == pytest.approx(referee.pvalue, rel=1e-6)
    assert found.null_test.dof == (2, 29)


@pytest.mark.parametrize("model", ["mpg ~ b*wt + c*hp", "mpg ~ a*exp(-b*wt)", "mpg ~ a"])
def test_models_without_a_constant_have_no_test_against_it(model: str) -> None:
    assert ad.fit(model, MTCARS, no_columns=True).null_test is None


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("mpg ~ a + b*wt + hp", {}),
        ("mpg ~ a + b*wt + c*hp", {"fixed": {"c": 2}}),
        ("mpg ~ a[cyl] + b*wt - hp/10", {}),
        ("hp ~ exp(a + b*mpg + log(wt))", {"family": "poisson"}),
        ("share ~ sigmoid(a + b*mpg + wt)", {"family": "binomial"}),
    ],
)
def test_a_model_with_an_offset_has_no_test_against_a_constant_that_is_no_case_of_it(
    model: str, options: dict[str, Any]
) -> None:
    columns = {**MTCARS, "share": (HP > 120).astype(float)}
    assert ad.fit(model, columns, **options).null_test is None
    without = model.replace(" + log(wt)", "").replace(" + wt", "").replace(" + hp", "").replace(" - hp/10", "")
    plain = ad.fit(without, columns, **{name: value for name, value in options.items() if name != "fixed"})
    assert plain.null_test is not None
    if plain.converged and "family" not in options:
        (group,) = ad.fit_by(model, {**columns, "by": np.zeros(len(MPG))}, "by", **options)
        assert group.fit is not None
        assert group.fit.null_test is None


def test_intervals_with_an_estimated_dispersion_use_t_as_glm_of_r() -> None:
    generator = np.random.default_rng(0)
    x = np.linspace(0.1, 5, 6)
    y = generator.gamma(3, np.exp(0.5 + 0.3 * x) / 3)
    for family in ("gamma", "quasipoisson"):
        found = ad.fit("y ~ exp(a + b*x)", {"x": x, "y": y}, family=family)
        assert found.p_values["b"] == pytest.approx(2 * stats.t.sf(abs(found.t_values["b"]), 4), rel=1e-6)
        low, high = found.confidence(0.95)["b"]
        assert (high - low) / 2 / found.stderr["b"] == pytest.approx(stats.t.ppf(0.975, 4), rel=1e-6)


_X = np.linspace(0.1, 5, 8)
_DRAWS: dict[str, Any] = {
    "linear": ("y ~ a + b*x", {}, {"a": 1, "b": 2}, lambda g: 1 + 2 * _X + g.normal(0, 1, 8)),
    "decay": ("y ~ a*exp(-b*x)", {}, {"a": 3, "b": 0.8}, lambda g: 3 * np.exp(-0.8 * _X) + g.normal(0, 0.2, 8)),
    "gamma": (
        "y ~ exp(a + b*x)", {"family": "gamma"}, {"a": 0.5, "b": 0.3}, lambda g: g.gamma(3, np.exp(0.5 + 0.3 * _X) / 3)
    ),
    "poisson": (
        "y ~ exp(a + b*x)", {"family": "poisson"}, {"a": 0.5, "b": 0.3}, lambda g: g.poisson(np.exp(0.5 + 0.3 * _X))
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", _DRAWS)
def test_intervals_of_eight_rows_cover_the_truth_about_as_often_as_they_say(kind: str) -> None:
    """Of 400 intervals of 95 %, the share that covers has a standard deviation of 0.011."""
    model, options, truth, draw = _DRAWS[kind]
    generator, count = np.random.default_rng(7), 400
    y = np.concatenate([draw(generator) for _ in range(count)])
    columns = {"x": np.tile(_X, count), "y": y, "group": np.repeat(np.arange(count), 8)}
    fits = [group.fit for group in ad.fit_by(model, columns, "group", **options)]
    intervals = [fit.confidence(0.95) for fit in fits if fit is not None and fit.converged]
    assert len(intervals) > 0.99 * count
    for name, value in truth.items():
        share = np.mean([each[name][0] <= value <= each[name][1] for each in intervals])
        assert 0.915 < share < 0.985


def test_tests_of_negative_binomial_counts_compare_likelihoods_each_with_its_own_theta() -> None:
    """Deviances for different theta have different references, so their difference is not that of likelihoods."""
    generator = np.random.default_rng(1)
    x, z = generator.normal(size=60), generator.normal(size=60)
    counts = generator.negative_binomial(5, 5 / (5 + np.exp(1 + 0.9 * x)))
    columns, models = {"x": x, "z": z, "k": counts}, ["k ~ exp(a)", "k ~ exp(a + b*x)", "k ~ exp(a + b*x + c*z)"]
    for scale in (None, 3.0):
        found = [ad.fit(m, columns, family="negative_binomial", scale=scale, no_columns=True) for m in models]
        gains = [2 * (fit.log_likelihood - found[0].log_likelihood) for fit in found]
        tests = ad.compare(models, columns, family="negative_binomial", scale=scale, folds=0).tests
        for i, j in ((0, 1), (0, 2), (1, 2)):
            test = next(each for each in tests if (each.smaller, each.larger) == (models[i], models[j]))
            assert (test.name, test.statistic) == ("likelihood ratio", pytest.approx(gains[j] - gains[i], rel=1e-6))
        for fit, gain in zip(found[1:], gains[1:], strict=True):
            assert fit.null_test is not None
            assert fit.null_test.statistic == pytest.approx(gain, rel=1e-6)


def logistic(family: str = "binomial") -> tuple[Any, Any]:
    statsmodels = pytest.importorskip("statsmodels.api")
    generator = np.random.default_rng(4)
    x, z = generator.normal(size=150), generator.normal(size=150)
    hit = (generator.random(150) < 1 / (1 + np.exp(-0.4 - x + 0.5 * z))).astype(float)
    found = ad.fit("hit ~ sigmoid(a + b*x + c*z)", {"x": x, "z": z, "hit": hit}, family=family)
    return found, statsmodels.Logit(hit, statsmodels.add_constant(np.column_stack([x, z]))).fit(disp=0, tol=1e-12)


def test_logistic_regression_as_statsmodels() -> None:
    found, referee = logistic()
    np.testing.assert_allclose([*found.t_values.values()], referee.tvalues, rtol=1e-6)
    np.testing.assert_allclose([*found.p_values.values()], referee.pvalues, rtol=1e-6)
    assert found.null_test is not None
    assert found.null_test.name == "likelihood ratio"
    assert found.null_test.statistic == pytest.approx(referee.llr, rel=1e-8)
    assert found.null_test.p == pytest.approx(referee.llr_pvalue, rel=1e-6)
    ratios = found.odds_ratios
    np.testing.assert_allclose([ratio["value"] for ratio in ratios.values()], np.exp(referee.params), rtol=1e-7)
    np.testing.assert_allclose(
        [[ratio["low"], ratio["high"]] for ratio in ratios.values()], np.exp(referee.conf_int()), rtol=1e-6
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_the_receiver_operating_characteristic_as_scikit_learn(weighted: bool) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    generator = np.random.default_rng(9)
    x = generator.normal(size=300).round(1)  # rounded, so that scores are tied
    hit = (generator.random(300) < 1 / (1 + np.exp(-x))).astype(float)
    weight = generator.integers(1, 4, 300).astype(float) if weighted else None
    found = ad.fit("hit ~ sigmoid(a + b*x)", {"x": x, "hit": hit}, loss="bce", weights=weight)
    score = found.predict({"x": x})
    assert found.auc == pytest.approx(metrics.roc_auc_score(hit, score, sample_weight=weight), rel=1e-12)
    assert found.roc is not None
    false, true, _ = metrics.roc_curve(hit, score, sample_weight=weight, drop_intermediate=False)
    np.testing.assert_allclose(
        np.interp(false, found.roc["false_positive_rate"], found.roc["true_positive_rate"])[
            np.diff(false, append=2) > 0
        ],
        true[np.diff(false, append=2) > 0],
        atol=1e-12,
    )
    assert metrics.auc(found.roc["false_positive_rate"], found.roc["true_positive_rate"]) == pytest.approx(found.auc)
    for name, label in (("false_positive_rate", 0), ("true_positive_rate", 1)):
        own = score[hit == label]
        shares = [
            np.average(own >= least, weights=None if weight is None else weight[hit == label])
            for least in found.roc["threshold"]
        ]
        np.testing.assert_allclose(found.roc[name], shares, atol=1e-12)


def test_two_classes_have_an_area_and_three_have_none() -> None:
    kinds = np.where(MPG > 20, "thrifty", "thirsty")
    found = ad.fit("kind ~ softmax(dense(wt, 2))", {"wt": WT, "kind": kinds})
    share = stats.mannwhitneyu(WT[MPG <= 20], WT[MPG > 20]).statistic / (np.sum(MPG > 20) * np.sum(MPG <= 20))
    assert found.auc == pytest.approx(share)
    assert ad.fit("cyl ~ softmax(dense(wt, 3))", {"wt": WT, "cyl": CYL.astype(int)}).auc is None


def test_sums_of_squares_in_units_of_sigma_are_chi_squared() -> None:
    found = ad.fit("mpg ~ a + b*wt", MTCARS, sigma=np.full(len(MPG), 2.0))
    assert found.chi_squared == pytest.approx(found.rss)
    assert ad.fit("mpg ~ a + b*wt", MTCARS).chi_squared is None


@pytest.fixture
def cars(tmp_path: Path) -> Path:
    path = tmp_path / "cars.csv"
    np.savetxt(
        path,
        np.column_stack([MPG, CYL, HP, WT, np.full(len(MPG), 2.0)]),
        "%g",
        ",",
        header="mpg,cyl,hp,wt,s",
        comments="",
    )
    return path


def test_the_report_names_what_it_shows(cars: Path) -> None:
    plain = str(run_cli(["train", "mpg ~ a + b*wt + c*hp", str(cars)]))
    assert "test against a constant: F(2, 29) = 69.2" in plain
    assert "log-likelihood = -74.3" in plain
    assert [*plain.split("parameters")[1].split()][:6] == ["name", "value", "standard", "error", "t", "p"]
    weighted = str(run_cli(["train", "mpg ~ a + b*wt", str(cars), "--sigma", "s"]))
    assert "rss" not in weighted.split("figures")[1]
    assert "standard deviation of residuals" not in weighted
    by_weight = str(run_cli(["train", "mpg ~ a + b*wt", str(cars), "--weights", "s"]))
    assert "standard deviation of residuals of weight 1 = " in by_weight
    unfinished = ["train", "mpg ~ a + b*wt", str(cars), "--optimizer", "adam", "--epochs", "9"]
    assert "test against a constant" not in str(run_cli(unfinished))  # the residuals could still be smaller
    assert "χ² = " in weighted
    assert "reduced χ² = " in weighted
    document = json.loads(str(run_cli(["train", "mpg ~ a + b*wt", str(cars), "--sigma", "s", "--json"])))
    assert document["chi_squared"] == document["rss"]
    assert {"a", "b"} == {*document["t_values"]} == {*document["p_values"]}
    assert document["null_test"]["name"] == "F"


def test_points_on_a_straight_line_are_left_out_of_the_receiver_operating_characteristic() -> None:
    x = np.linspace(-2, 2, 30)
    found = ad.fit("y ~ sigmoid(a + b*x)", {"x": x, "y": (x > 0) * 1.0}, family="binomial")
    assert found.roc is not None
    rates = [found.roc[f"{kind}_positive_rate"].tolist() for kind in ("false", "true")]
    assert rates == [[0, 0, 1], [0, 1, 1]]


@pytest.mark.parametrize("prediction", ["a + b*x", "dot(w, [x, z])", "dot(w, [x, z, 1])"])
def test_parameters_are_tested_from_one_degree_of_freedom_on(prediction: str) -> None:
    found = ad.fit(f"y ~ {prediction}", {"x": [1.0, 2.0], "z": [2.0, 1.0], "y": [1.0, 3.0]})
    assert found.dof == 0
    for figures in (found.t_values, found.p_values):
        assert {*figures} == {*found.parameters}
        assert all(value is None or np.isnan(value).all() for value in figures.values())
    one = ad.fit(f"y ~ {prediction}", {"x": [1.0, 2.0, 4.0], "z": [2.0, 1.0, 3.0], "y": [1.0, 3.0, 4.0]})
    if one.dof == 1:
        for name, value in one.t_values.items():
            np.testing.assert_allclose(one.p_values[name], 2 * stats.t.sf(np.abs(value), 1), rtol=1e-9)
