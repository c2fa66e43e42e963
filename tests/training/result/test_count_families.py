"""Families of counts and proportions against published output of R and MASS, and against statsmodels."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpmath import binomial, digamma, findroot, log, log1p, loggamma, mp, mpf
from scipy import stats

import autodiff_cli as ad
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.graph.node import as_node, variable
from autodiff_cli.ops.functions import exp, sigmoid
from autodiff_cli.training.losses import LOSSES, RESIDUAL_SCALE
from autodiff_cli.training.result import row_figures
from tests.each import each
from tests.support import run_cli

# Days of absence from school (quine of the package MASS), by ethnicity, sex, age and type of learner.
_QUINE = """
A M F0 SL 2 11 14\nA M F0 AL 5 5 13 20 22\nA M F1 SL 6 6 15\nA M F1 AL 7 14\nA M F2 SL 6 32 53 57
A M F2 AL 14 16 16 17 40 43 46\nA M F3 AL 8 23 23 28 34 36 38\nA F F0 SL 3\nA F F0 AL 5 11 24 45
A F F1 SL 5 6 6 9 13 23 25 32 53 54\nA F F1 AL 5 5 11 17 19\nA F F2 SL 8 13 14 20 47 48 60 81\nA F F2 AL 2
A F F3 AL 0 2 3 5 10 14 21 36 40\nN M F0 SL 6 17 67\nN M F0 AL 0 0 2 7 11 12\nN M F1 SL 0 0 5 5 5 11 17
N M F1 AL 3 4\nN M F2 SL 22 30 36\nN M F2 AL 8 0 1 5 7 16 27\nN M F3 AL 0 30 10 14 27 41 69\nN F F0 SL 25
N F F0 AL 10 11 20 33\nN F F1 SL 5 7 0 1 5 5 5 5 7 11 15\nN F F1 AL 5 14 6 6 7 28\nN F F2 SL 0 5 14 2 2 3 8 10 12
N F F2 AL 1\nN F F3 AL 1 9 22 3 3 5 15 18 22 37
""".strip().splitlines()


def quine() -> dict[str, Any]:
    rows = [(*cell.split()[:4], int(days)) for cell in _QUINE for days in cell.split()[4:]]
    columns: dict[str, Any] = {"days": [row[4] for row in rows]}
    for name, place, level in (
        ("ethn", 0, "N"), ("male", 1, "M"), ("f1", 2, "F1"), ("f2", 2, "F2"), ("f3", 2, "F3"), ("slow", 3, "SL")
    ):  # fmt: skip
        columns[name] = [float(row[place] == level) for row in rows]
    return columns


QUINE_MODEL = "days ~ exp(a + b*ethn + c*male + d*f1 + g*f2 + h*f3 + k*slow)"


def test_negative_binomial_counts_as_glm_nb_of_mass() -> None:
    """The output of summary(glm.nb(Days ~ Eth + Sex + Age + Lrn, quine)); its last digits are in the tests of the
    package GLM.jl, which stops a little earlier.
    """
    found = ad.fit(QUINE_MODEL, quine(), family="negative_binomial")
    assert found.converged
    values = [2.89458, -0.56937, 0.08232, -0.44843, 0.08808, 0.35690, 0.29211]
    errors = [0.22842, 0.15333, 0.15992, 0.23975, 0.23619, 0.24832, 0.18647]
    assert [*found.parameters.values()] == pytest.approx(values, abs=6e-6)
    assert [*found.stderr.values()] == pytest.approx(errors, abs=6e-6)
    assert (found.theta, found.theta_stderr) == pytest.approx((1.275, 0.161), abs=5e-4)
    assert found.theta == pytest.approx(1.2748930, rel=1e-6)
    assert (found.deviance, found.null_deviance) == pytest.approx((167.95184, 195.28669), rel=1e-6)
    assert (found.log_likelihood, found.aic, found.bic) == pytest.approx((-546.57551, 1109.15102, 1133.01987), rel=1e-8)
    assert not any("scatter" in warning for warning in found.warnings)


@pytest.mark.parametrize("size", [20.0, 1e3, 1e5])
def test_theta_of_any_size_has_its_digits_after_few_passes(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences of digamma functions of a large theta have so few digits that Newton's method would never end."""
    passes, slopes_of = [], row_figures.theta_slopes
    monkeypatch.setattr(row_figures, "theta_slopes", lambda *of: passes.append(1) or slopes_of(*of))
    counts, weights = [1, 7, 4], [1.0, 1.0, 18 / (4 + 16 / size) - 2]  # the mean is 4, the variance 4 + 16/size
    found = ad.fit("k ~ exp(a)", {"k": counts, "w": weights}, family="negative_binomial", weights="w")

    def score(theta: mpf) -> mpf:
        terms = (digamma(k + theta) - digamma(theta) - log1p(4 / theta) - (k - 4) / (theta + 4) for k in counts)
        return sum(map(operator.mul, weights, terms))

    with mp.workdps(40):
        assert found.theta == pytest.approx(float(findroot(score, found.theta)), rel=1e-6)
    assert len(passes) < 200


def test_theta_can_be_given() -> None:
    found = ad.fit(QUINE_MODEL, quine(), family="negative_binomial", scale=2.0)
    # From the documentation of GLM.jl, which stops a little before the minimum: NegativeBinomial(2.0), LogLink().
    values = [2.88645, -0.567515, 0.0870771, -0.445076, 0.0927999, 0.359485, 0.296768]
    assert [*found.parameters.values()] == pytest.approx(values, abs=2e-4)
    assert (found.theta, found.theta_stderr) == (2.0, None)


WARPBREAKS = str(Path(__file__).parents[3] / "docs" / "data" / "warpbreaks.csv")  # warpbreaks of R


def test_quasipoisson_counts_as_glm_of_r() -> None:
    """The output of summary(glm(breaks ~ wool + tension, quasipoisson, warpbreaks))."""
    model = "breaks ~ exp(p + q*(wool == 'B') + r*(tension == 'M') + s*(tension == 'H'))"
    found, poisson = (ad.fit(model, WARPBREAKS, family=family) for family in ("quasipoisson", "poisson"))
    assert [*found.parameters.values()] == pytest.approx([3.69196, -0.20599, -0.32132, -0.51849], abs=6e-6)
    assert [*found.stderr.values()] == pytest.approx([0.09374, 0.10646, 0.12441, 0.13203], abs=6e-6)
    assert [*poisson.stderr.values()] == pytest.approx([0.04541, 0.05157, 0.06027, 0.06396], abs=6e-6)
    assert found.dispersion == pytest.approx(4.261537, abs=2e-5)  # R stops a little before the minimum
    assert (found.deviance, found.null_deviance) == pytest.approx((210.39, 297.37), abs=5e-3)
    assert found.log_likelihood is None
    assert found.aic is None
    assert found.interval_dof == 50
    assert poisson.aic == pytest.approx(493.06, abs=5e-3)
    assert poisson.dispersion == pytest.approx(4.261537, abs=2e-5)
    (warning,) = (text for text in poisson.warnings if "scatter" in text)
    assert "quasipoisson or negative_binomial" in warning
    assert not any("scatter" in text for text in found.warnings)


def test_proportions_that_scatter_more_than_binomial_ones() -> None:
    generator = np.random.default_rng(7)
    x = np.linspace(-2, 2, 40)
    trials = generator.integers(10, 60, 40).astype(float)
    mean = 1 / (1 + np.exp(-0.3 - 0.8 * x))
    hits = generator.binomial(trials.astype(int), generator.beta(5 * mean, 5 * (1 - mean)))
    data = {"x": x, "share": hits / trials, "n": trials}
    binomial, quasi = (
        ad.fit("share ~ sigmoid(a + b*x)", data, family=family, weights="n") for family in ("binomial", "quasibinomial")
    )
    statsmodels = pytest.importorskip("statsmodels.api")
    design = statsmodels.add_constant(x)
    referee = statsmodels.GLM(np.column_stack([hits, trials - hits]), design, statsmodels.families.Binomial())
    wanted = referee.fit(tol=1e-12)
    scatter = np.sqrt(wanted.pearson_chi2 / wanted.df_resid)
    for found, factor in ((binomial, 1.0), (quasi, scatter)):
        np.testing.assert_allclose([*found.parameters.values()], wanted.params, rtol=1e-7)
        np.testing.assert_allclose([*found.stderr.values()], wanted.bse * factor, rtol=1e-6)
    assert binomial.pearson_chi_squared == pytest.approx(wanted.pearson_chi2, rel=1e-8)
    assert binomial.deviance == pytest.approx(wanted.deviance, rel=1e-8)
    assert any("use --family quasibinomial" in text for text in binomial.warnings)
    assert quasi.aic is None


@pytest.mark.parametrize("mean", [0.05, 0.4, 3.0, 200.0])
def test_counts_of_their_family_give_no_warning(mean: float) -> None:
    """A property: of 200 fits to Poisson counts of any size, hardly any is called overdispersed."""
    generator = np.random.default_rng(11)
    groups = np.repeat(np.arange(200), 60)
    data = {"g": groups, "y": generator.poisson(mean, len(groups)).astype(float)}
    fits = ad.fit_by("y ~ exp(a)", data, "g", family="poisson", no_columns=True)
    warned = sum(any("scatter" in text for text in group.fit.warnings) for group in fits if group.fit is not None)
    assert warned <= 1


def test_counts_that_a_mean_of_0_excludes_do_not_scatter() -> None:
    found = ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [3, 6, 9]}, family="poisson", start={"a": 0}, epochs=1)
    assert not any("scatter" in text for text in found.warnings)


@pytest.mark.parametrize(("theta", "rows", "is_warned"), [(20.0, 2000, True), (100.0, 20_000, False)])
def test_counts_are_called_overdispersed_where_it_matters(theta: float, rows: int, is_warned: bool) -> None:
    """At a mean of 10, the dispersion is 1.5, or 1.1, which is certain but changes errors by 5 %."""
    y = np.random.default_rng(2).negative_binomial(theta, theta / (theta + 10), rows).astype(float)
    found = ad.fit("y ~ exp(a)", {"y": y}, family="poisson", no_columns=True)
    assert found.overdispersion_p is not None
    assert found.overdispersion_p < 1e-6
    assert any("scatter more" in text for text in found.warnings) is is_warned


def test_single_trials_say_nothing_about_dispersion() -> None:
    generator = np.random.default_rng(3)
    x = generator.normal(size=200)
    hit = (generator.random(200) < 1 / (1 + np.exp(-x))).astype(float)
    found = ad.fit("hit ~ sigmoid(a + b*x)", {"x": x, "hit": hit}, family="binomial")
    assert found.overdispersion_p is None


def test_counts_without_overdispersion_have_an_infinite_theta() -> None:
    found = ad.fit("y ~ exp(a)", {"y": [3, 4, 4, 5, 4, 3, 5, 4]}, family="negative_binomial")
    assert found.theta == np.inf
    assert any("quasi" not in text and "Poisson" in text for text in found.warnings)


@pytest.mark.slow
def test_groups_agree_with_single_fits() -> None:
    generator = np.random.default_rng(5)
    x, group = generator.normal(size=200), np.repeat(np.arange(5), 40)
    y = generator.negative_binomial(2, 2 / (2 + np.exp(1 + 0.3 * x))).astype(float)
    for family in ("poisson", "quasipoisson", "negative_binomial"):
        fits = ad.fit_by("y ~ exp(a + b*x)", {"x": x, "y": y, "g": group}, "g", family=family)
        for k in range(5):
            part = {"x": x[group == k], "y": y[group == k]}
            single = ad.fit("y ~ exp(a + b*x)", part, family=family)
            for name in ("pearson_chi_squared", "dispersion", "overdispersion_p", "theta"):
                one, other = getattr(fits[k], name), getattr(single, name)
                assert one == (None if other is None else pytest.approx(other, rel=1e-6)), (family, name)
            assert fits[k].warnings == single.warnings


@pytest.mark.parametrize("family", ["quasipoisson", "negative_binomial"])
def test_new_counts_fall_into_prediction_intervals(family: str) -> None:
    generator = np.random.default_rng(2)
    x = generator.uniform(0, 2, 4000)
    y = generator.negative_binomial(3, 3 / (3 + np.exp(2 + 0 * x))).astype(float)
    found = ad.fit("y ~ exp(a + b*x)", {"x": x[:2000], "y": y[:2000]}, family=family)
    bands = found.predict({"x": x[2000:]}, interval=0.9)
    inside = (y[2000:] >= bands.prediction_low) & (y[2000:] <= bands.prediction_high)
    assert 0.89 < inside.mean() < 0.94


def test_the_report_shows_the_dispersion_and_theta() -> None:
    text = str(run_cli(["train", "breaks ~ exp(a + b*(wool == 'B'))", WARPBREAKS, "--family", "negative_binomial"]))
    assert "dispersion = " in text
    assert "theta = " in text


@pytest.mark.parametrize("family", ["poisson", "negative_binomial"])
def test_counts_whose_best_mean_is_0_have_no_finite_estimate(family: str) -> None:
    """All counts of one level are 0, so its parameter falls without end; those of the other levels are determined."""
    level, counts = np.repeat(["a", "b", "c"], 6), [3, 2, 7, 1, 4, 4, 0, 0, 0, 0, 0, 0, 2, 5, 9, 1, 3, 3]
    found = ad.fit("n ~ exp(m[level])", {"n": counts, "level": level}, family=family)
    assert not found.converged
    (warning,) = [
        each for each in found.warnings if each.startswith("the best mean is 0 (6 rows are predicted to be 0")
    ]
    assert "`m[b]` would go to infinity" in warning
    assert found.parameters["m[a]"] == pytest.approx(np.log(np.mean(counts[:6])), rel=1e-6)
    rare = ad.fit("n ~ exp(a + b*x)", {"n": [0, 0, 0, 0, 0, 2, 1, 9, 40, 170], "x": np.arange(10.0)}, family=family)
    assert rare.converged


COUNTS = {"x": np.tile(np.linspace(0, 1, 8), 4), "g": np.repeat([1, 2, 3, 4], 8), "n": np.full(32, 4.0)}
COUNTS["y"] = np.tile([0.0, 1, 3, 2, 3, 1, 4, 3], 4)


def _fits(model: str, data: dict[str, Any], path: str, folder: Path, options: dict[str, Any]) -> list[Any]:
    if path == "by group":
        return [group.fit for group in ad.fit_by(model, data, "g", **options)]
    if path == "compared":
        compared = ad.compare([model, model.replace("a + ", "")], data, folds=0, **options)
        return [each.fit for each in compared.models]
    if path == "streamed":
        file = folder / "counts.csv"
        np.savetxt(file, np.array([*data.values()]).T, delimiter=",", header=",".join(data), comments="")
        return [ad.fit(model, str(file), stream=True, **options)]
    return [ad.fit(model, data, l2=0.01 if path == "penalised" else 0.0, **options)]


_SLOW_PATHS = ("penalised", "by group", "compared", "streamed")


@pytest.mark.parametrize("path", ["alone", *(pytest.param(path, marks=pytest.mark.slow) for path in _SLOW_PATHS)])
@pytest.mark.parametrize("family", ["poisson", "negative_binomial", "binomial", "quasipoisson"])
def test_targets_that_are_no_counts_have_a_warning_and_no_likelihood(family: str, path: str, tmp_path: Path) -> None:
    model, options = "y ~ exp(a + b*x)", dict[str, Any](family=family)
    if family == "binomial":
        model, options["weights"] = "y/4 ~ sigmoid(a + b*x)", "n"
    for shift in (0.0, 0.09):
        data = {**COUNTS, "y": abs(COUNTS["y"] - shift)}
        for fit in _fits(model, data, path, tmp_path, options):
            assert any("are whole numbers" in text for text in fit.warnings) is (shift > 0 and family != "quasipoisson")
            assert fit.aic is None or shift == 0


def test_proportions_that_a_file_rounds_are_whole_numbers_of_successes() -> None:
    trials = np.full(32, 3.0)
    share = np.minimum(COUNTS["y"], 3) / 3
    exact, rounded = (
        ad.fit("y ~ sigmoid(a + b*x)", {**COUNTS, "y": y, "n": trials}, family="binomial", weights="n")
        for y in (share, share.round(4))
    )
    assert rounded.aic == pytest.approx(exact.aic, rel=1e-3)


@pytest.mark.sampled
@pytest.mark.parametrize("model", ["y ~ exp(a + b*x)", "y ~ a + b*x", "y ~ a*exp(b*x)"])
@pytest.mark.parametrize("family", ["poisson", "negative_binomial", "quasipoisson", "binomial"])
def test_targets_that_are_all_0_do_not_determine_parameters(family: str, model: str) -> None:
    found = ad.fit(model, {"x": [1.0, 2, 3, 4], "y": [0.0, 0, 0, 0]}, family=family)
    assert not found.converged
    assert any("all targets are 0" in text for text in found.warnings)
    assert found.theta is None


_DISTRIBUTIONS: dict[str, Any] = {
    "poisson": (lambda y, p, w, k: stats.poisson.logpmf(y, p), lambda p, w, k: p),
    "bce": (lambda y, p, w, k: stats.binom.logpmf(np.round(w * y), w, p) / w, lambda p, w, k: p * (1 - p)),
    "gamma": (lambda y, p, w, k: stats.gamma.logpdf(y, k, scale=p / k), lambda p, w, k: p**2),
    "negative_binomial": (lambda y, p, w, k: stats.nbinom.logpmf(y, k, k / (k + p)), lambda p, w, k: p + p**2 / k),
}


@each("loss", _DISTRIBUTIONS)
@each("shape", [0.7, 4.0])
def test_the_terms_of_likelihoods_are_those_of_scipys_distributions(loss: str, shape: float) -> None:
    log_density, variance = _DISTRIBUTIONS[loss]
    y, p, w = np.array([[0.0, 1, 3, 7, 2]]), np.array([[0.4, 1.5, 2, 9, 3]]), np.array([[2.0, 1, 5, 10, 1]])
    if loss == "bce":
        y, p = y / 10 + (y == 2), p / 10
        w = np.array([[3.0, 10, 10, 10, 1]])
        y[0, 4] = 1.0
    if loss == "gamma":
        y = y + 0.5
    mean = 0.3 if loss == "bce" else 2.5
    terms = row_figures.row_likelihoods(loss, y, p, w, mean, shape)
    likelihoods = log_density(y, p, w, shape)
    np.testing.assert_allclose(terms.log_likelihood, w * likelihoods, rtol=1e-12, atol=1e-14)
    best = np.where(y == 0, 1e-300, y)
    for found, at in ((terms.deviance, p), (terms.null_deviance, np.full_like(p, mean))):
        gain = log_density(y, best, w, shape) - log_density(y, at, w, shape)
        gain /= shape if loss == "gamma" else 1.0  # of dispersion 1
        np.testing.assert_allclose(found, w * gain, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(terms.pearson, w * (y - p) ** 2 / variance(p, w, shape), rtol=1e-12)
    if loss in ("poisson", "bce"):
        kurtosis = stats.poisson.stats(p, moments="k") if loss == "poisson" else stats.binom.stats(w, p, moments="k")
        np.testing.assert_allclose(terms.pearson_variance, 2 + kurtosis, rtol=1e-12)
    assert not terms.non_integers.any()


_LOG_DENSITIES: dict[str, Any] = {
    "poisson": lambda y, p, w, k: y * log(p) - p - loggamma(y + 1),
    "bce": lambda y, p, w, k: log(binomial(w, w * y)) / w + y * log(p) + (1 - y) * log(1 - p),
    "gamma": lambda y, p, w, k: k * log(k / p) + (k - 1) * log(y) - k * y / p - loggamma(k),
    "negative_binomial": lambda y, p, w, k: (
        loggamma(y + k) - loggamma(k) - loggamma(y + 1) + y * log(p / (p + k)) + k * log(k / (p + k))
    ),
}


@each("loss", _LOG_DENSITIES)
@each("size", [1.0, 1e6, 1e15])
def test_likelihoods_and_deviances_of_any_size_have_all_digits(loss: str, size: float) -> None:
    """Counts as large as photon counts, and targets of the gamma family far below their mean."""
    y, ratio = (each.ravel() for each in np.meshgrid([1.0, 3, 50, 700], [1e-3, 0.7, 1 - 2.0**-30, 1, 1.25, 30]))
    y, w, shape = y * size, np.ones_like(y), 1.5
    p = y * ratio
    if loss == "gamma":
        y, p = y * np.where(ratio > 1, 1e-25, 1), p * 1e4
    if loss == "bce":
        w, y = 1024 * size + 0 * y, np.round(y / size) / 1024
        p = np.clip(ratio * y, 0.0, 0.75)
    with mp.workdps(60):
        density = _LOG_DENSITIES[loss]
        exact = [[mpf(value) for value in row] for row in zip(y, p, w, strict=True)]
        likelihoods = [w * density(y, p, w, mpf(shape)) for y, p, w in exact]
        best = [w * density(y, y, w, mpf(shape)) for y, p, w in exact]
        deviances = [float(b - a) for a, b in zip(likelihoods, best, strict=True)]
    with np.errstate(all="ignore"):
        found = row_figures.row_likelihoods(loss, y, p, w, 0.5, shape)
    deviance = found.deviance * (shape if loss == "gamma" else 1.0)
    np.testing.assert_allclose(deviance, deviances, rtol=1e-11, atol=1e-15 * np.abs(w * (y - p)).max())
    likelihoods = found.log_likelihood + deviance
    np.testing.assert_allclose(likelihoods, np.array(best, float), rtol=1e-12, atol=1e-15 * np.abs(w * (y - p)).max())


@each("loss", _DISTRIBUTIONS)
def test_losses_are_log_densities_up_to_a_constant(loss: str) -> None:
    """Also of a mean of 0, where only a count of 0 is possible, and of negative means, of which there are none."""
    p, shape = variable("p"), 1.0 if loss == "gamma" else 0.7
    at = np.array([0.3, 0.9, 1e-5] if loss == "gamma" else [0.3, 0.9, 1e-5, 0.0, -0.2])
    for y in (0.0, 1.0) if loss == "bce" else (1.0, 4.0) if loss == "gamma" else (0.0, 1.0, 4.0):
        for link in (p, sigmoid(p) if loss == "bce" else exp(p)):
            names = {"p": at, RESIDUAL_SCALE: np.array(shape)}
            mean, found = (np.array([evaluate([graph], {**names, "p": x})[0] for x in at])
                           for graph in (link, LOSSES[loss].graph(as_node(y), link, 1.0)))  # fmt: skip
            expected = -_DISTRIBUTIONS[loss][0](y, mean, 1.0, shape)
            np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-9, atol=1e-9)


def test_certain_predictions_and_impossible_means() -> None:
    zeros = np.zeros((1, 2))
    with np.errstate(all="ignore"):
        for loss, mean in (("poisson", -1.0), ("bce", -0.2), ("bce", 1.2), ("negative_binomial", -1.0)):
            terms = row_figures.row_likelihoods(loss, np.array([[0.0, 1]]), zeros + mean, zeros + 1, 0.5, 2.0)
            assert np.isnan(terms.log_likelihood[0, 1]), loss
        for loss in ("poisson", "bce", "negative_binomial"):
            y = np.array([[0.0, 1]])
            terms = row_figures.row_likelihoods(loss, y, y, zeros + 4, 0.5, 2.0)
            np.testing.assert_allclose([terms.pearson, terms.deviance], [zeros, zeros], err_msg=loss)


@each(
    "distance, is_whole",
    [(0.0, True), (0.9e-3, True), (-0.9e-3, True), (1.1e-3, False), (-1.1e-3, False), (0.5, False)],
)
def test_whole_numbers_are_recognised_in_spite_of_rounding(distance: float, is_whole: bool) -> None:
    one = np.ones((1, 1))
    for loss in ("poisson", "negative_binomial"):
        found = row_figures.row_likelihoods(loss, 3 * one + distance, one, one / 3, 1.0, 2.0)
        assert found.non_integers.tolist() == [[not is_whole]]
    for trials, share in ((4.0, (2 + distance) / 4), (4 + distance, 0.5 * 4 / (4 + distance))):
        found = row_figures.row_likelihoods("bce", share * one, 0.4 * one, trials * one, 0.5)
        assert found.non_integers.tolist() == [[not is_whole]]
    assert not row_figures.row_likelihoods("gamma", 3.5 * one, one, one, 1.0, 2.0).non_integers.any()


def test_remainders_of_digamma_functions_have_all_digits() -> None:
    x = np.array([1e-3, 0.5, 3.0, 19.9, 20.0, 20.1, 400.0, 1e6])
    value, slope = row_figures._digamma_remainders(x)
    with mp.workdps(40):
        wanted = [(float(digamma(mpf(at)) - mp.log(at)), float(mp.psi(1, mpf(at)) - 1 / mpf(at))) for at in x]
    np.testing.assert_allclose(np.array([value, slope]).T, wanted, rtol=1e-12)


@each("theta", [0.3, 5.0, 80.0])
@each("mean", [None, 2.2])
def test_slopes_of_the_likelihood_of_theta_are_its_derivatives(theta: float, mean: float | None) -> None:
    y, p = np.array([[0.0, 1, 3, 7]]), np.array([[0.4, 1.5, 2, 9]])
    weights = np.array([2.0, 1, 0.0, 3.0])
    found = row_figures.theta_slopes(1, theta, mean, np.vstack((y, p)), {row_figures.WEIGHT: weights})
    at = p[0] if mean is None else np.full(4, mean)

    def log_likelihood(size: mpf) -> mpf:
        terms = (
            mp.loggamma(k + size) - mp.loggamma(size) + size * mp.log(size / (size + m)) + k * mp.log(m / (size + m))
            for k, m in zip(y[0], at, strict=True)
        )
        return sum(w * term for w, term in zip(weights, terms, strict=True))

    with mp.workdps(40):
        first, second = (float(mp.diff(log_likelihood, theta, n)) for n in (1, 2))
    np.testing.assert_allclose(found, [first, -second], rtol=1e-9)


@each("weights", [None, np.array([1.0, 2, 1, 0, 3, 1, 1, 2])])
def test_theta_is_the_most_likely_one(weights: Any) -> None:
    data = {"y": [0.0, 9, 1, 3, 0, 14, 2, 5], "x": np.arange(8.0)}
    objective = ad.Objective("y ~ exp(a + b*x)", data, loss="negative_binomial", weights=weights)
    point, used = np.array([0.4, 0.15]), np.ones(8) if weights is None else weights
    for mean in (None, 4.0):
        at = np.exp(0.4 + 0.15 * data["x"]) if mean is None else np.full(8, mean)
        found = row_figures.estimate_theta(objective, point, mean)
        near = [
            np.sum(used * stats.nbinom.logpmf(data["y"], k, k / (k + at))) for k in found * np.array([0.99, 1, 1.01])
        ]
        assert max(near) == near[1]
        assert abs(near[0] - near[2]) < 0.05 * (near[1] - min(near))


@each("loss", ["poisson", "gamma", "negative_binomial"])
def test_expected_information_is_that_of_the_variance(loss: str) -> None:
    x, weights = np.linspace(0, 1, 6), np.array([1.0, 2, 0, 1, 3, 1])
    objective = ad.Objective("y ~ exp(a + b*x)", {"x": x, "y": np.arange(1.0, 7)}, loss=loss, weights=weights)
    objective.set_scale(1.7)
    mean = np.exp(0.3 + 0.8 * x)
    jacobian = np.stack([mean, mean * x], axis=1)
    variance = {"poisson": mean, "gamma": mean**2, "negative_binomial": mean + mean**2 / 1.7}[loss]
    factor = row_figures.fisher_factor(objective, np.array([0.3, 0.8]))
    np.testing.assert_allclose(factor.T @ factor, jacobian.T @ (jacobian * (weights / variance)[:, None]), rtol=1e-12)
    few = objective.select_rows(np.array([3]))
    assert row_figures.fisher_factor(few, np.array([0.3, 0.8])).shape == (2, 2)
