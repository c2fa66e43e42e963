"""Draws from posteriors against exact posteriors: priors without data, conjugate models, and hierarchical models."""

from __future__ import annotations

import csv
import dataclasses
import gc
import importlib
import itertools
import json
import math
import shutil
import sys
import threading
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.stats

import autodiff_cli as ad
from autodiff_cli import Objective
from autodiff_cli.backends.llvm.backend import CompiledSumKernel
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.data.files import open_data
from autodiff_cli.graph.node import variable
from autodiff_cli.render.fit_tables import comparison_report
from autodiff_cli.training.checkpoint import CheckpointError, CheckpointFile, EvaluationLog
from autodiff_cli.training.fitting import fit, posterior
from autodiff_cli.training.fitting.fit import Interrupted
from autodiff_cli.training.fitting.posterior import Density, leave_one_out, save_draws
from autodiff_cli.training.fitting.progress import Progress
from autodiff_cli.training.objective.loading import as_dataset
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.goodness import ParameterPosterior
from tests.each import amount, each
from tests.support import run_cli

pytestmark = pytest.mark.skipif(find_spec("nutpie") is None, reason="the extra bayes is not installed")

GENERATOR = np.random.default_rng(5)
X = np.linspace(0, 3, 30)
DECAY = {"x": X, "y": 2.5 * np.exp(-1.3 * X) + GENERATOR.normal(0, 0.05, len(X))}


def test_ranks_for_diagnostics_are_those_of_scipy() -> None:
    """Equal draws, of a chain that stood still, share their mean rank."""
    values = np.random.default_rng(0).integers(0, 9, (2, 20)) / 4
    ranks = posterior._stand_ins()["scipy.stats"].rankdata(values, method="average")
    np.testing.assert_array_equal(ranks, scipy.stats.rankdata(values).reshape(values.shape))


SCHOOLS = {"y": [28.0, 8, -3, 7, -1, 1, 18, 12], "s": [15.0, 10, 16, 11, 9, 11, 10, 18], "school": [*"ABCDEFGH"]}
MCSE = 5  # Monte Carlo standard errors


def assert_drawn_from(fit: ad.Fit, name: str, exact: scipy.stats.rv_continuous) -> None:
    """Mean, standard deviation and quantiles are those of a distribution, within Monte Carlo errors."""
    found = fit.posterior[name]
    error = exact.std() / math.sqrt(found.ess_bulk)
    assert found.mean == pytest.approx(exact.mean(), abs=MCSE * error)
    assert found.sd == pytest.approx(exact.std(), rel=0.15)
    for quantile, share in ((found.q05, 0.05), (found.median, 0.5), (found.q95, 0.95)):
        density = exact.pdf(exact.ppf(share))
        width = math.sqrt(share * (1 - share) / min(found.ess_bulk, found.ess_tail)) / density
        assert quantile == pytest.approx(exact.ppf(share), abs=MCSE * width)


@pytest.mark.slow
@each(
    ("prior", "bounds", "exact"),
    [
        ("normal(1, 2)", (0, None), scipy.stats.truncnorm(-0.5, math.inf, 1, 2)),
        ("normal(1, 2)", (None, 1.5), scipy.stats.truncnorm(-math.inf, 0.25, 1, 2)),
        ("normal(1, 2)", (0.3, 1.8), scipy.stats.truncnorm(-0.35, 0.4, 1, 2)),
        ("gamma(2.5, 3)", (None, None), scipy.stats.gamma(2.5, scale=1 / 3)),
        ("beta(2, 3.5)", (None, None), scipy.stats.beta(2, 3.5)),
    ],
)
def test_without_information_the_posterior_is_the_prior(prior: str, bounds: Any, exact: Any) -> None:
    data, options = {"y": [0.4]}, {"sigma": 1e9, "absolute_sigma": True, "bounds": {"a": bounds}}
    fit = ad.fit("y ~ a", data, start={"a": 0.5}, priors={"a": prior}, posterior=500, seed=1, **options)
    assert_drawn_from(fit, "a", exact)


def test_ordered_parameters() -> None:
    """Of two independent normal numbers, the larger one is drawn above the smaller one, also if their mode is not."""
    data = {"y": [0.0, 0.5], "is_second": [0.0, 1.0]}
    options = {"sigma": 1.0, "absolute_sigma": True, "bounds": {"b": ("a", None)}}
    for priors, mode, variances in ((None, [0, 0.5], [1, 1]), (["a ~ normal(3, 1)"], [1.5, 0.5], [0.5, 1])):
        fit = ad.fit("y ~ where(is_second == 1, b, a)", data, posterior=500, priors=priors, **options)
        assert (fit.draws["b"] > fit.draws["a"]).all()
        free = np.random.default_rng(0).normal(mode, np.sqrt(variances), (100_000, 2))
        expected = free[free[:, 1] > free[:, 0]].mean(axis=0)
        assert [fit.posterior[name].mean for name in "ab"] == pytest.approx(expected, abs=0.15)


def test_conjugate_models() -> None:
    generator = np.random.default_rng(5)
    y = generator.normal(2, 1, 20)
    normal = ad.fit("y ~ a", {"y": y}, sigma=1.0, absolute_sigma=True, priors={"a": "normal(3, 0.2)"}, posterior=500)
    precision = 20 + 25
    assert_drawn_from(normal, "a", scipy.stats.norm((y.sum() + 75) / precision, precision**-0.5))
    counts = generator.poisson(3.0, 25)
    options = {"posterior": 500, "derive": ["twice = 2*m", "two = 2"]}
    poisson = ad.fit("k ~ m", {"k": counts}, family="poisson", priors=["m ~ gamma(2, 1.5)"], **options)
    assert poisson.posterior["twice"].mean == pytest.approx(2 * poisson.posterior["m"].mean)
    assert (poisson.draws["two"] == 2).all()
    assert_drawn_from(poisson, "m", scipy.stats.gamma(2 + counts.sum(), scale=1 / 26.5))
    hits = {"k": [1, 0, 0, 1, 0, 0, 0, 1]}
    binomial = ad.fit(
        "k ~ p", hits, family="binomial", start={"p": 0.5}, priors={"p": "beta(3, 2)"}, posterior=500, chains=2
    )
    assert_drawn_from(binomial, "p", scipy.stats.beta(6, 7))
    assert binomial.draws["p"].shape == (2, 500)


def test_unknown_variance() -> None:
    """With a flat prior of log(sigma), precision and mean have a normal-gamma posterior: Student's t for the mean."""
    options = {"priors": ["sigma ~ lognormal(0, 100)"], "posterior": 1000, "derive": ["twice = 2*a"]}
    for unit in (1e-12, 1.0, 1e12)[: amount(1, 3, 3)]:
        y = unit * np.random.default_rng(5).normal(2, 1, 15)
        fit = ad.fit("y ~ a", {"y": y}, **options)
        assert_drawn_from(fit, "a", scipy.stats.t(14, y.mean(), y.std(ddof=1) / math.sqrt(15)))
        np.testing.assert_allclose(fit.draws["twice"], 2 * fit.draws["a"])
        variance = scipy.stats.invgamma(7, scale=np.sum((y - y.mean()) ** 2) / 2)
        assert np.mean(fit.draws["sigma"] ** 2) == pytest.approx(variance.mean(), rel=0.1)


def test_the_prior_of_sigma_is_one_of_numbers_above_0() -> None:
    """Chains that have to stay above 0 by themselves diverge, here 40 times."""
    whole, half = (
        ad.fit("y ~ a", {"y": [1.2, 0.1, -0.7]}, priors={"a": "normal(0, 1)", "sigma": prior}, posterior=1000, seed=1)
        for prior in ("normal(0, 1)", "half_normal(1)")
    )
    assert whole.divergences < 20
    assert whole.posterior["sigma"].mean == pytest.approx(half.posterior["sigma"].mean, rel=0.1)
    with pytest.raises(ValueError, match=r"the prior of `sigma`, uniform\(-3, 0\): no number above 0"):
        ad.fit("y ~ a", {"y": [1.2, 0.1, -0.7]}, priors={"sigma": "uniform(-3, 0)"}, posterior=10)


@pytest.mark.slow
def test_no_mode_is_reported_under_hierarchical_priors(tmp_path: Path) -> None:
    path = tmp_path / "levels.csv"
    path.write_text("g,y\n" + "".join(f"{'ABC'[k % 3]},{k % 7}\n" for k in range(21)), encoding="utf-8")
    text = str(run_cli(["train", "y ~ a[g]", str(path), "--prior", "a[g] ~ normal(m, s)", "--posterior", "20"]))
    assert "means of draws by the No-U-Turn sampler" in text
    assert "iterations" not in text
    fit = ad.fit(
        "y ~ a[g]", {"g": [*"ABC"] * 7, "y": [k % 7 for k in range(21)]}, priors=["a[g] ~ normal(m, s)"], posterior=20
    )
    assert fit.confidence(0.9) == {
        name: pytest.approx((fit.posterior[name].q05, fit.posterior[name].q95)) for name in fit.parameters
    }
    assert fit.confidence()["s"][0] > 0
    assert fit.p_values == {}


def test_eight_schools() -> None:
    """The reference posterior of posteriordb, eight_schools_noncentered: mu 4.4, tau 3.6, theta[1] 6.2."""
    priors = ["a[school] ~ normal(mu, tau)", "mu ~ normal(0, 5)", "tau ~ half_cauchy(5)"]
    fit = ad.fit("y ~ a[school]", SCHOOLS, sigma="s", absolute_sigma=True, priors=priors, posterior=500, seed=3)
    for name, mean, sd in (("mu", 4.4, 3.3), ("tau", 3.6, 3.2), ("a[A]", 6.2, 5.6), ("a[H]", 4.8, 5.3)):
        found = fit.posterior[name]
        assert found.mean == pytest.approx(mean, abs=0.1 + MCSE * sd / math.sqrt(found.ess_bulk))
        assert found.sd == pytest.approx(sd, rel=0.15)
    assert fit.divergences < 20
    assert fit.warnings == []
    assert fit.parameters["mu"] == fit.posterior["mu"].mean
    assert fit.stderr["mu"] == pytest.approx(fit.posterior["mu"].sd, rel=1e-9)
    assert fit.converged
    few = ad.fit("y ~ a[school]", SCHOOLS, sigma="s", absolute_sigma=True, priors=priors, posterior=8, seed=3)
    assert few.converged == all(each.has_converged for each in few.posterior.values()) == False  # noqa: E712
    assert any("means of the draws" in note for note in fit.notes)
    assert fit.confidence(0.9)["tau"] == pytest.approx((fit.posterior["tau"].q05, fit.posterior["tau"].q95))


def test_hierarchical_chains_start_where_the_rows_are() -> None:
    """From 1 a chain comes to a rate at which all predictions are 0, and the density no longer changes."""
    x = np.tile(np.arange(4.0), 2)
    data = {"x": x, "site": ["u"] * 4 + ["v"] * 4, "y": [2, 1.5, 1.1, 0.8, 4, 3.1, 2.3, 1.65]}
    priors = ["a[site] ~ normal(m, s)", "s ~ half_normal(1)", "m ~ normal(0, 5)"]
    found = ad.fit("y ~ a[site]*exp(-b*x)", data, priors=priors, posterior=300)
    plain = ad.fit("y ~ a[site]*exp(-b*x)", data)
    assert found.posterior["b"].median == pytest.approx(plain.parameters["b"], rel=0.1)
    assert found.r_squared > 0.99
    assert not [words for words in found.warnings if "run away" in words]


@pytest.mark.slow
@each(
    ("rows", "deviation", "sigma", "is_centred"),
    [(3, 1.0, 0.05, True), (20, 1.0, 1.0, True), (3, 0.3, 1.0, False), (60, 0.03, 1.0, False)],
    sampled=True,
)
def test_the_form_of_hierarchical_priors_follows_what_rows_say_of_levels(
    rows: int, deviation: float, sigma: float, is_centred: bool
) -> None:
    """With the other form, these chains have 6, 73, 25 and 66 effective draws of some number."""
    generator = np.random.default_rng(0)
    levels, means = np.repeat(np.arange(30), rows), 1e3 * generator.normal(1, deviation, 30)
    data = {"g": levels, "y": means[levels] + 1e3 * generator.normal(0, sigma, len(levels))}
    priors = ["a[g] ~ normal(m, s)", "s ~ half_normal(2000)", "m ~ normal(0, 10000)"]
    options = FitOptions(priors=priors)
    objective = Objective.of("y ~ a[g]", as_dataset(data), options)
    density = Density(objective, fit._chain_start(objective, options), options)
    assert density.find_similar_levels() == ([] if is_centred else ["a[g]"])
    found = ad.fit("y ~ a[g]", data, priors=priors, posterior=400, chains=2, seed=1)
    assert min(each.ess_bulk for each in found.posterior.values()) > 100  # of 800
    assert found.divergences == 0


def test_hierarchical_prior_whose_scale_is_flat() -> None:
    """The posterior is proper, but in the sampler's numbers its density has no mode."""
    generator = np.random.default_rng(5)
    site = [*"ABCDEF"] * 4
    y = np.array([*map("ABCDEF".index, site)]) / 10 + generator.normal(0, 0.3, 24)
    data = {"y": y, "s": site}
    fit = ad.fit("y ~ a[s]", data, fixed={"m": 0.25}, priors={"a[s]": "normal(m, t)"}, posterior=150, chains=2)
    assert 0 < fit.posterior["t"].mean < 1
    assert abs(fit.posterior["a[A]"].mean) < 0.5


def test_a_deviation_of_too_few_levels_needs_a_prior() -> None:
    """Its density falls as 1/s or slower (Gelman 2006): no draws say that by themselves."""
    data = {"y": [0.1, 0.5, 0.2, 0.4, 0.3, 0.9], "g": [*"ABABAB"]}
    levels, means = {"a[g]": "normal(m, s)"}, {"m": "normal(0, 5)"}
    for priors in (levels, {"a[g]": "cauchy(m, s)"}, {"a[A]": "normal(m, s)"} | means):
        with pytest.raises(
            ValueError, match=r"improper: [12] levels? cannot determine the deviation `s`.* half_normal"
        ):
            ad.fit("y ~ a[g]", data, priors=priors, posterior=10)
    three = {"y": data["y"], "g": [*"ABCABC"]}
    for table, priors, bounds in (
        (data, levels | means, {}),
        (data, levels | {"s": "half_normal(1)"}, {}),
        (data, levels, {"s": (0, 10)}),
        (three, levels, {}),
    ):
        assert len(ad.fit("y ~ a[g]", table, priors=priors, bounds=bounds, posterior=10, chains=1).draws["s"]) == 1


def test_the_same_seed_gives_the_same_draws() -> None:
    first, again, other = (
        ad.fit("y ~ a*exp(-b*x)", DECAY, posterior=50, chains=2, seed=seed, starts=2).draws["b"] for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()
    assert not np.allclose(first, other)  # not only by the rounding errors of other starts


@pytest.mark.slow
def test_chains_resume_with_the_same_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer chains, and others, have the draws of one run, and what was computed is not computed again."""
    computed, evaluate = [], EvaluationLog.evaluate
    monkeypatch.setattr(EvaluationLog, "evaluate", lambda *of: evaluate(*of[:2], lambda: computed.append(1) or of[2]()))
    path, options = tmp_path / "chains", {"priors": {"a": "normal(2, 1)"}}
    whole = ad.fit("y ~ a*exp(-b*x)", DECAY, posterior=60, chains=3, **options)
    assert not computed  # nothing is remembered without a checkpoint
    ad.fit("y ~ a*exp(-b*x)", DECAY, posterior=20, chains=2, checkpoint=path, **options)
    first = len(computed)
    again = ad.fit("y ~ a*exp(-b*x)", DECAY, posterior=60, chains=3, resume=path, checkpoint=path, **options)
    assert all(np.array_equal(again.draws[name], whole.draws[name]) for name in ("a", "b", "sigma"))
    total = len(computed)
    assert 0.5 * total < first < total
    ad.fit("y ~ a*exp(-b*x)", DECAY, posterior=60, chains=3, resume=path, **options)
    assert len(computed) == total
    with pytest.raises(CheckpointError, match="in its priors"):
        ad.fit("y ~ a*exp(-b*x)", DECAY, posterior=60, resume=path, priors={"a": "normal(2, 3)"})


@pytest.mark.slow
def test_chains_resume_from_a_checkpoint_in_their_midst(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, copy, options = tmp_path / "chains", tmp_path / "copy", {"posterior": 50, "chains": 2}
    record_draw, lock = Progress.record_draw, threading.Lock()

    def keep(progress: Progress, count: int) -> None:
        record_draw(progress, count)
        with lock:
            if count >= 600 and not copy.exists():
                shutil.copy(path, copy)

    monkeypatch.setattr(Progress, "record_draw", keep)
    whole = ad.fit("y ~ a*exp(-b*x)", DECAY, checkpoint=path, checkpoint_every=100, **options)
    again = ad.fit("y ~ a*exp(-b*x)", DECAY, resume=copy, **options)
    assert copy.stat().st_size <= path.stat().st_size  # equal where the sampler was done before the first report
    assert np.array_equal(again.draws["b"], whole.draws["b"])


@each(
    ("model", "rows", "options"),
    [
        ("y ~ a*exp(-b*x)", 3, {}),
        ("y ~ a*exp(-b*x)", 20_003, {"weights": "w", "bounds": {"b": (0, 5)}, "priors": {"a": "normal(2, 3)"}}),
        ("y ~ a + sum(tanh([b1, b2]*x))", 1001, {"priors": {"sigma": "exponential(3)"}}),
        ("y ~ m + a[g]*x", 40, {"priors": {"a[g]": "normal(0, s)"}}),
        ("k ~ sigmoid(m*x)", 77, {"loss": "bce"}),
    ],
)
def test_the_compiled_density_is_that_of_its_graphs(model: str, rows: int, options: dict[str, Any]) -> None:
    x = np.linspace(0.1, 3, rows)
    columns = {"x": x, "y": np.sin(9 * x), "w": x, "k": (np.sin(50 * x) > 0) * 1.0, "g": [*"uvw"] * (rows // 3 + 1)}
    columns["g"] = columns["g"][:rows]
    settings = FitOptions(posterior=10, **options)
    objective = Objective.of(model, as_dataset(columns), settings)
    density = Density(objective, objective.start + 0.5, settings)
    for z in np.random.default_rng(3).normal(0, 1, (5, density.size)):
        np.testing.assert_allclose(density.compiled(z), density._evaluate(z), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("y ~ m + a[g]*x", {"priors": {"a[g]": "normal(0, s)", "s": "exponential(1)"}}),
        ("y ~ a[g]*exp(-b[g]*x) + c[h]", {"priors": {"b[g]": "gamma(2, 1)", "c[h]": "normal(m, 2)"}}),
        (
            "y ~ a[g]*x + c[h] + d[g]",
            {"priors": {"a[g]": "normal(0, 1)", "a[v]": "normal(1, 2)"}, "fixed": {"c[p]": 1.0}},
        ),
        ("y ~ a[g] + a[g]*b[h]", {"bounds": {"a": (0, 5), "b[p]": (-1, 1)}, "weights": "x"}),
        ("k ~ exp(a[g] + c*x)", {"family": "poisson", "priors": {"a[g]": "student_t(4, m, s)"}}),
    ],
)
def test_levels_as_an_array_have_the_density_of_sums(
    model: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.linspace(0.1, 3, 41)
    columns = {
        "x": x,
        "y": np.sin(9 * x),
        "k": np.floor(2 * x),
        "g": [*"uvw"] * 13 + ["w", "v"],
        "h": [*"qp"] * 20 + ["q"],
    }
    settings = FitOptions(posterior=10, **options)
    objective = Objective.of(model, as_dataset(columns), settings)
    monkeypatch.setattr(Density, "_move_to_mode", lambda _: None)
    arrays = Density(objective, objective.start + 0.5, settings)
    assert len(arrays._layout.names) < len(arrays.names)
    monkeypatch.setattr(posterior, "gather_levels", lambda _, loss: (loss, {}))
    sums = Density(objective, objective.start + 0.5, settings)
    names = [each for name in arrays._layout.names for each in getattr(arrays._vectors.get(name), "names", [name])]
    places = [sums.names.index(name) for name in names]
    for z in np.random.default_rng(3).normal(0, 1, (5, sums.size)):
        value, gradient = arrays.value_and_gradient(z[places])
        expected, slopes = sums.value_and_gradient(z)
        np.testing.assert_allclose([value, *gradient], [expected, *slopes[places]], rtol=1e-9, atol=1e-9)
        points = arrays.parameters(z[None, None, places]), sums.parameters(z[None, None])
        assert [*points[0]] == [*points[1]]
        np.testing.assert_allclose([*points[0].values()], [*points[1].values()])


def test_without_compiled_code_the_draws_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the density is not defined, too: the standard deviation is 2 - a."""
    generator = np.random.default_rng(5)
    options = {"likelihood": True, "start": {"a": 1.0}, "posterior": 40, "chains": 2}
    model = "where(a < 2, log(2 - a) + (y/(2 - a))^2/2, log(a - 2) + sqrt(2 - a))"
    data = {"y": generator.normal(0, 1, 9)}
    first = ad.fit(model, data, threads=1, **options)
    monkeypatch.setattr(CompiledSumKernel, "density", lambda *_: None)
    second = ad.fit(model, data, **options)
    np.testing.assert_allclose(first.draws["a"], second.draws["a"], rtol=1e-4)
    assert first.divergences == second.divergences


def test_a_checkpoint_is_written_while_chains_go_on() -> None:
    """Garbage collection may let another chain evaluate its density at any moment."""
    log, points = EvaluationLog(), itertools.count()

    def evaluate(*_: object) -> None:
        log.evaluate(str(next(points)).encode(), lambda: np.zeros(2))

    for _ in range(1000):
        evaluate()
    gc.callbacks.append(evaluate)
    thresholds = gc.get_threshold()
    gc.set_threshold(10)
    try:
        assert len(log.results.copy()) >= 1000
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(evaluate)


def test_an_error_of_a_chain_is_raised_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Progress, "record_draw", fail)
    with pytest.raises(OSError, match="no space left"):
        ad.fit("y ~ a*exp(-b*x)", DECAY, posterior=10, chains=2)


def test_diagnostics_are_those_of_arviz(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is imported with only a part of SciPy; `arviz_stats` itself is whole."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "arviz_stats"]:
        monkeypatch.delitem(sys.modules, name)
    draws = np.random.default_rng(0).normal(size=(3, 4, 500)).round(2)  # with equal values
    own = posterior._libraries.__wrapped__().array_stats
    whole = importlib.import_module("arviz_stats.base").array_stats
    assert whole is not own
    for name, options in (("ess", {"method": "bulk"}), ("ess", {"method": "tail", "prob": 0.9}), ("rhat", {})):
        np.testing.assert_array_equal(getattr(own, name)(draws, **options), getattr(whole, name)(draws, **options))
    for part, expected in zip(own.loo(-np.square(draws)), whole.loo(-np.square(draws)), strict=True):
        np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize("count", [100, 101])
def test_a_single_chain_is_compared_in_its_quarters(count: int) -> None:
    draws = np.random.default_rng(0).normal(size=count) + np.linspace(0, 1, count)
    quarters = draws[:100].reshape(4, 25)
    within, between = quarters.var(axis=1, ddof=1).mean(), quarters.mean(axis=1).var(ddof=1)
    classic = math.sqrt((24 / 25 * within + between) / within)  # of the values, not of their ranks
    assert posterior.summarize_draws({"a": draws[None]})["a"].rhat == pytest.approx(classic, rel=0.05)
    halves = draws[:100].reshape(2, 50)
    assert posterior.summarize_draws({"a": draws[None]})["a"].rhat == posterior.summarize_draws({"a": halves})["a"].rhat


def test_an_improper_posterior_is_said() -> None:
    options = {"bounds": {"p": (0, 1)}, "start": {"p": 0.5}, "posterior": 300}
    on_bound = ad.fit("k ~ p", {"k": [1, 1]}, family="binomial", **options)
    assert_drawn_from(on_bound, "p", scipy.stats.beta(3, 1))
    data = {"x": [0.0, 1, 2, 3], "k": [0, 0, 1, 1]}
    with pytest.raises(ValueError, match="the posterior is improper: its density does not fall with `a`"):
        ad.fit("k ~ sigmoid(a*(x - 1.5))", data, loss="bce", posterior=100)
    data = {"x": [0.1, 0.2, 0.4, 0.6, 0.9, 1.1], "y": [0.19, 0.38, 0.76, 1.05, 1.55, 1.79]}  # almost a line
    with pytest.raises(ValueError, match="the posterior seems improper: chains of `A`, `K` run away"):
        ad.fit("y ~ A*x/(K + x)", data, posterior=300)


@each("modes, is_proper", [((10.0,), True), ((25.0,), True), ((10.0, 25.0), False)])
def test_a_posterior_is_improper_if_it_is_as_dense_at_two_points_far_from_its_mode(
    modes: tuple[float, ...], is_proper: bool
) -> None:
    density = mock.Mock(size=1, names=["a"], _factor=np.eye(1), _by_parameter=lambda _: {"a": 1.0})
    density.value_and_gradient = lambda z: (0.0 if z[0] in (0, *modes) else -9.0, z)
    with nullcontext() if is_proper else pytest.raises(ValueError, match="does not fall with `a`"):
        posterior.Density.check_is_proper(density)


@pytest.mark.slow
def test_a_fit_has_converged_if_its_mode_was_found_and_its_chains_agree(tmp_path: Path) -> None:
    """JSON, the warnings, the verdict of the text, `--by` and its CSV say the same of each fit."""
    path, verdicts = tmp_path / "decay.csv", set()
    rows = zip(itertools.cycle("uv"), X, DECAY["y"], strict=False)
    path.write_text("g,x,y\n" + "".join(f"{g},{x},{y}\n" for g, x, y in rows), encoding="utf-8")
    stopped = ["--epochs", "1"]
    for draws, chains, epochs in ((2, 1, []), (2, 3, stopped), (12, 3, []), (600, 1, []), (600, 3, stopped)):
        options = ["--posterior", str(draws), "--chains", str(chains), "--derive", "two = 2", *epochs]
        words = ["train", "y ~ a*exp(-b*x)", str(path), *options]
        single = json.loads(str(run_cli([*words, "--json"])))
        for document in (single, *([] if epochs else _groups(words))):
            agree = all(each["rhat"] is not None and each["rhat"] <= 1.01 for each in document["posterior"].values())
            assert document["converged"] == (agree and not epochs)
            assert any("chains agree" in text or "disagree" in text for text in document["warnings"]) != agree
            verdicts.add((bool(epochs), agree))
        assert draws == 2 or single["posterior"]["two"]["rhat"] == 1
        text = str(run_cli(words))
        assert ("; the chains have not converged" in text) == (draws < 600)
        assert (" converged after " in text) == single["converged"]
    assert verdicts == {*itertools.product((False, True), (False, True))}


def _groups(words: list[str]) -> list[dict[str, Any]]:
    """Return the documents of the fits to groups, whose verdicts the text and the CSV file repeat."""
    groups = json.loads(str(run_cli([*words, "--by", "g", "--json"])))["groups"]
    converged = [group["converged"] for group in groups]
    assert f"converged: {sum(converged)} of 2" in str(run_cli([*words, "--by", "g"]))
    path = Path(words[2]).with_name("groups.csv")
    run_cli([*words, "--by", "g", "-o", str(path)])
    lines = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    assert [line["converged"] for line in lines] == [str(each).lower() for each in converged]
    return groups


@pytest.mark.slow
def test_chains_that_disagree_are_not_called_converged(tmp_path: Path) -> None:
    """The mean of the levels and `c` are not determined one by one."""
    path, saved = tmp_path / "levels.csv", tmp_path / "fit.json"
    numbers = np.random.default_rng(1).normal(0, 1, 20)
    path.write_text("g,y\n" + "".join(f"{'ab'[k % 2]},{y}\n" for k, y in enumerate(numbers)), encoding="utf-8")
    priors = ["--prior", "a[g] ~ normal(m, s)", "--prior", "s ~ half_normal(1)"]
    words = ["train", "y ~ a[g] + c", str(path), *priors, "--posterior", "100", "--save", str(saved), "--chains"]
    for chains, who in (("1", "the quarters of the chain disagree"), ("3", "the chains disagree")):
        text = str(run_cli([*words, chains]))
        assert "draws by the No-U-Turn sampler; the chains have not converged" in text
        assert who in text
        assert not ad.load(saved).converged


def test_command_line(tmp_path: Path) -> None:
    path = tmp_path / "decay.csv"
    rows = zip(DECAY["x"], DECAY["y"], strict=True)
    path.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows), encoding="utf-8")
    draws, model = tmp_path / "draws.csv", tmp_path / "model.json"
    words = ["train", "y ~ a*exp(-b*x)", str(path), "--posterior", "60", "--chains", "2"]
    document = json.loads(str(run_cli([*words, "--draws", str(draws), "--save", str(model), "--json"])))
    assert (document["divergences"], document["chains"], document["draws"]) == (0, 2, 60)
    assert [*document["posterior"]["a"]] == ["mean", "sd", "q05", "median", "q95", "ess_bulk", "ess_tail", "rhat"]
    assert [*document["posterior"]] == ["a", "b", "sigma"]
    lines = draws.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "chain,draw,a,b,sigma"
    assert len(lines) == 121
    table = np.loadtxt(lines[1:], delimiter=",")
    assert table[:, 2].mean() == pytest.approx(document["posterior"]["a"]["mean"])
    assert ad.load(model).posterior["b"].sd == pytest.approx(document["posterior"]["b"]["sd"])
    predicted = str(run_cli(["predict", str(model), str(path), "--posterior"])).splitlines()
    assert predicted[0] == "x,y,prediction,confidence_low,confidence_high,prediction_low,prediction_high"
    picture = tmp_path / "draws.svg"
    text = str(run_cli([*words, "--plot", str(picture), "--panels", "posterior"]))
    assert picture.read_text(encoding="utf-8").count(">sigma<") == 3  # its trace, and its row and column of pairs
    assert run_cli([*words[:3], "--plot", str(picture), "--panels", "posterior"]).status == 2
    assert "posterior (2 chains of 60 draws, 0 divergent)" in text


def test_impossible_draws_are_refused_before_the_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "points.csv"
    path.write_text("x,y\n1,2\n2,3\n3,5\n4,6\n", encoding="utf-8")
    words = ["train", "y ~ a*x", str(path), "--posterior"]
    endless = run_cli([*words, "99999999999999"])
    assert (endless.status, "do not fit into memory" in endless.stderr) == (2, True)
    streamed = run_cli(["train", "y ~ a[x]", *words[2:], "10", "--prior", "a[x] ~ normal(m, s)", "--stream"])
    assert (streamed.status, "remove stream" in streamed.stderr) == (2, True)
    monkeypatch.setattr("autodiff_cli.cli.train.find_spec", lambda _: None)
    plain = run_cli([*words, "10", "--draws", str(tmp_path / "draws.nc")])
    assert (plain.status, "needs ArviZ" in plain.stderr, str(plain)) == (2, True, "")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("arviz") is None, reason="ArviZ is not installed")
@pytest.mark.filterwarnings("ignore")
def test_all_files_of_draws_have_the_same_numbers(tmp_path: Path) -> None:
    from pyarrow import parquet

    path = tmp_path / "levels.csv"
    path.write_text("g,y\n" + "".join(f"{'ab'[k % 2]},{k}\n" for k in range(9)), encoding="utf-8")
    for ending in ("csv", "parquet", "nc"):
        words = ["train", "y ~ a[g] + draw", str(path), "--posterior", "20", "--prior", "draw ~ normal(0, 1)"]
        words += ["--draws", str(tmp_path / f"draws.{ending}")]
        assert run_cli(words).status == 0
    with (tmp_path / "draws.csv").open(encoding="utf-8") as stream:
        names, *rows = csv.reader(stream)
    columns = dict(zip(names, np.array(rows, float).T, strict=True))
    table = parquet.read_table(tmp_path / "draws.parquet")
    assert names == table.column_names == ["chain", "draw", "a[a]", "a[b]", "draw_", "sigma"]
    group = importlib.import_module("arviz").from_netcdf(tmp_path / "draws.nc").posterior
    for name, values in columns.items():
        assert np.array_equal(table[name].to_numpy(), values)
        assert name in ("chain", "draw") or np.array_equal(group[name].values.ravel(), values)


def test_an_interrupted_posterior_says_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    start, has_draws = posterior._start_sampler, threading.Event()

    class Interrupting:
        def __init__(self, *arguments: Any) -> None:
            *others, report = arguments
            self._sampler = start(*others, lambda count: (report(count), count > 5000 and has_draws.set()))
            self.abort, self.take_results = self._sampler.abort, self._sampler.take_results

        def wait(self, _: object) -> None:
            assert has_draws.wait(60)
            raise KeyboardInterrupt

    monkeypatch.setattr(posterior, "_start_sampler", Interrupting)
    with pytest.raises(Interrupted) as caught:
        ad.fit("y ~ a*exp(-b*x)", DECAY, posterior=1_000_000, chains=1)
    fit = caught.value.fit
    count = fit.draws["a"].shape[1]
    assert 1 < count < 1_000_000
    assert f"interrupted: 1 of 1 chains are used, with {count} of 1000000 draws each" in fit.warnings


@pytest.mark.slow
def test_groups_show_their_posteriors(tmp_path: Path) -> None:
    path = tmp_path / "groups.csv"
    rows = ["c,1,1", *(f"{'ab'[k % 2]},{k},{k % 2 + k * k / 10}" for k in range(12))]
    path.write_text("g,x,y\n" + "\n".join(rows), encoding="utf-8")
    words = ["train", "y ~ m*x", str(path), "--by", "g", "--posterior", "100", "--chains", "2"]
    groups = json.loads(str(run_cli([*words, "--json"])))["groups"]
    means = [one["posterior"]["m"]["mean"] for one in groups if "posterior" in one]
    lines = str(run_cli([*words, "--digits", "9"])).splitlines()
    assert any(line.startswith("posterior (2 chains of 100 draws") for line in lines)
    shown = [float(line.split()[2]) for line in lines if line.split()[1:2] == ["m"]]
    assert shown == pytest.approx(means)
    assert len(shown) == 2  # the single row of c leaves no scatter to draw from


def test_predictive_bands() -> None:
    """With flat priors they are those of least squares and of maximum likelihood."""
    generator = np.random.default_rng(5)
    line = {"x": X, "y": 1 + X + generator.normal(0, 0.5, len(X)), "k": generator.poisson(np.exp(1 + X / 2))}
    new = {"x": [0.0, 2.0]}
    for model, options in (("y ~ a + b*x", {}), ("k ~ exp(a + b*x)", {"family": "poisson"})):
        fit = ad.fit(model, line, posterior=500, **options)
        drawn, usual = fit.predict_posterior(new, 0.9), fit.predict(new, interval=0.9)
        for low, high in (("confidence_low", "confidence_high"), ("prediction_low", "prediction_high")):
            width = getattr(usual, high) - getattr(usual, low)
            tolerance = 1 if options and "pred" in low else 0.09 * width  # predicted counts are whole numbers
            for end in (low, high):
                assert (np.abs(getattr(drawn, end) - getattr(usual, end)) <= tolerance).all()


def test_bands_of_array_parameters_are_quantiles_of_their_curves() -> None:
    generator = np.random.default_rng(5)
    fit = ad.fit("y ~ dot(v, [x, 1])", {"x": X, "y": 1 + X}, start={"v": [1.0, 1.0]})
    draws = {"v": generator.normal(1, 0.1, (2, 50, 2)), "sigma": np.full((2, 50), 0.1)}
    new = np.array([0.0, 2.0])
    curves = draws["v"].reshape(-1, 2) @ np.stack([new, np.ones(2)])
    found = dataclasses.replace(fit, draws=draws).predict_posterior({"x": new}, 0.8)
    assert found.confidence_low == pytest.approx(np.quantile(curves, 0.1, axis=0), rel=1e-9)
    assert found.confidence_high == pytest.approx(np.quantile(curves, 0.9, axis=0), rel=1e-9)


@each("options", [{}, {"priors": {"b": "normal(0, 1)"}}, {"sigma": 0.3}, {"priors": {"sigma": "exponential(1)"}}])
def test_levels_with_a_prior_have_the_posterior_of_indicators(options: dict[str, Any]) -> None:
    generator, sites = np.random.default_rng(1), np.array([*"abc"] * 5)
    data = {"x": np.arange(15.0), "g": sites, "y": (sites == "b") + 0.3 * np.arange(15) + generator.normal(0, 0.3, 15)}
    prior, own = "normal(0, 1)", options.get("priors", {})
    options = {**options, "posterior": 1500, "chains": 2}
    levels = ad.fit("y ~ a[g] + b*x", data, **options | {"priors": {"a": prior, **own}})
    apart = options | {"priors": {**dict.fromkeys(("a1", "a2", "a3"), prior), **own}}
    indicators = ad.fit("y ~ a1*(g == 'a') + a2*(g == 'b') + a3*(g == 'c') + b*x", data, **apart)
    for name, other in (("a[a]", "a1"), ("a[b]", "a2"), ("a[c]", "a3"), ("b", "b"), ("sigma", "sigma")):
        found, expected = levels.posterior[name], indicators.posterior[other]
        assert found.mean == pytest.approx(expected.mean, abs=0.15 * expected.sd)
        assert found.sd == pytest.approx(expected.sd, rel=0.25)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_saved_draws_are_read_back(ending: str, tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    draws = {"chain": generator.normal(size=(2, 3)), "v": generator.normal(size=(2, 3, 2))}
    path = str(tmp_path / f"draws.{ending}")
    save_draws(draws, path)
    table = open_data([path]).load(["chain", "draw", "chain_", "v[0]", "v[1]"])
    columns = [[0, 0, 0, 1, 1, 1], [0, 1, 2] * 2, draws["chain"].ravel(), *draws["v"].reshape(6, 2).T]
    for found, wanted in zip(table.columns.values(), columns, strict=True):
        assert np.array_equal(found, wanted)


def test_leave_one_out() -> None:
    """The predictive density of a normal mean without a row is known."""
    generator = np.random.default_rng(5)
    y = generator.normal(2, 1, 15)
    options = {"sigma": 1.0, "absolute_sigma": True, "priors": {"a": "normal(0, 3)", "b": "normal(0, 1)"}}
    compared = ad.compare(["y ~ a", "y ~ 2*b"], {"y": y}, posterior=500, folds=0, **options)
    for one in compared.models:
        prior = 9 if one.fit.model == "y ~ a" else 4
        expected = []
        for row in range(15):
            others = np.delete(y, row)
            precision = 14 + 1 / prior
            density = scipy.stats.norm(others.sum() / precision, math.sqrt(1 + 1 / precision))
            expected.append(density.logpdf(y[row]))
        assert one.loo.elpd == pytest.approx(np.sum(expected), abs=0.15)
        assert one.loo.se == pytest.approx(math.sqrt(15) * np.std(expected), rel=0.1)
        assert one.loo.max_k < 0.7
    models = [
        dataclasses.replace(one, loo=one.loo._replace(max_k=k))
        for one, k in zip(compared.models, (0.69, 0.71), strict=True)
    ]
    (document,) = comparison_report(dataclasses.replace(compared, models=models)).documents()
    assert ["Pareto" in str(model["warnings"]) for model in document["models"]] == [False, True]
    with pytest.raises(ValueError, match="no model has the parameter `c`"):
        ad.compare(["y ~ a", "y ~ 2*b"], {"y": y}, priors={"c": "normal(0, 1)"})


def test_draws_that_are_all_the_same_give_no_leave_one_out_estimate() -> None:
    objective = Objective("y ~ a", {"y": [1, 2, 3]}, loss="mse", sigma=1.0)
    assert leave_one_out(objective, {"a": np.ones((2, 50))}) is None


@each(
    ("model", "options"),
    [
        ("k ~ exp(a + b*x)", {"family": "poisson"}),
        ("share ~ sigmoid(a + b*x)", {"family": "binomial", "weights": "n"}),
        ("k ~ exp(a + b*x)", {"family": "negative_binomial", "scale": 2.0}),
    ],
    quick=lambda model, options: len(options) > 1,
)
def test_leave_one_out_is_an_estimate_of_the_log_likelihood_of_new_rows(model: str, options: dict[str, Any]) -> None:
    """It lies below the maximum for the same rows, by the number of parameters about: Vehtari, Gelman & Gabry 2017."""
    generator, x = np.random.default_rng(1), np.linspace(0, 2, 40)
    n = generator.integers(3, 20, 40)
    share = generator.binomial(n, 1 / (1 + np.exp(1 - x))) / n
    data = {"x": x, "k": generator.negative_binomial(2, 2 / (2 + np.exp(0.5 + 0.5 * x))), "share": share, "n": n}
    found = ad.compare([model, model.replace("b*x", "b*x^2")], data, posterior=100, folds=0, **options)
    for one in found.models:
        assert 0.5 < one.fit.log_likelihood - one.loo.elpd < 6


@each(
    ("options", "words"),
    [
        ({"loss": "mae"}, "posterior needs a likelihood: the loss mae"),
        ({}, "fits the rows exactly"),
        ({"family": "gamma"}, "dispersion of gamma"),
        ({"l2": 1.0}, "l1 or l2"),
        ({"bounds": {"b": ("a", 5)}}, "ordered parameters with other bounds"),
        ({"cluster": "local:2"}, "posterior cannot be combined with cluster"),
        ({"starts": 3, "priors": {"a": "normal(m, 1)"}}, "remove starts"),
    ],
)
def test_refusals(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ad.fit("y ~ a*exp(-b*x)", {"x": X, "y": np.exp(-X)}, posterior=10, **options)


@each(
    "rhat, bulk, tail, divergences, sentences",
    [
        (1.01, 400, 400, 0, []),
        (1.01, 400, 399, 0, ["the effective sample size of `b` is below 400: draw more than 50 per chain"]),
        (1.01, 399, 900, 0, ["the effective sample size of `b` is below 400: draw more than 50 per chain"]),
        (1.011, 10, 10, 0, ["the chains disagree: R-hat of `b` is up to 1.011, above 1.01; draw more"]),
        (math.nan, 10, 10, 0, ["50 draws per chain are too few to tell if the chains agree: draw more"]),
        (1.0, 400, 400, 1, ["1 transition of 200 diverged, so the draws may miss a part"]),
        (1.2, 400, 400, 3, ["3 transitions of 200 diverged", "the chains disagree: R-hat of `b` is up to 1.2,"]),
    ],
)
def test_warnings_of_draws(rhat: float, bulk: float, tail: float, divergences: int, sentences: list[str]) -> None:
    good, other = (ParameterPosterior(0, 1, -1, 0, 1, *figures) for figures in ((900, 900, 1.0), (bulk, tail, rhat)))
    found = posterior._diagnose({"a": good, "b": other}, divergences, 4, 50)
    assert len(found) == len(sentences)
    assert all(text.startswith(sentence) for text, sentence in zip(found, sentences, strict=True))


def test_numbers_without_bounds_are_the_inverse_of_those_within_them() -> None:
    leaf = variable("u")
    for low, high in ((0.0, math.inf), (-3.0, math.inf), (-math.inf, 2.0), (-1.0, 4.0)):
        inside, log_slope = posterior._constrained(leaf, low, high)
        numbers = np.array([-1.5, 0.0, 2.0])
        values, slopes = evaluate([inside, log_slope], {"u": numbers})
        np.testing.assert_allclose(posterior._unconstrained(values, low, high), numbers, atol=1e-12)
        near = evaluate([inside], {"u": numbers + 1e-6})[0]
        np.testing.assert_allclose(np.abs(near - values) / 1e-6, np.exp(slopes), rtol=1e-5)


# --- The density that is sampled, and what is said of draws


SITES = {"x": np.tile(X[::5], 3), "g": np.repeat([*"ABC"], 6)}
SITES["y"] = 1 + 0.4 * SITES["x"] + np.repeat([-1.0, 0.5, 0.7], 6) + 0.2 * np.cos(9 * np.arange(18))
SITES["n"] = np.round(np.exp(SITES["y"]))
SITES["s"] = np.linspace(0.2, 0.5, 18)
normal, gamma = scipy.stats.norm.logpdf, scipy.stats.gamma.logpdf
half_normal = scipy.stats.halfnorm.logpdf


def by_site(p: dict[str, Any]) -> Any:
    return np.array([p[f"a[{site}]"] for site in SITES["g"]])


DENSITIES: dict[str, tuple[str, dict[str, Any], Any]] = {
    "unknown variance": (
        "y ~ a*exp(b*x)",
        {"priors": {"a": "normal(1, 3)", "b": "gamma(2, 3)"}},
        lambda p: (
            normal(SITES["y"], p["a"] * np.exp(p["b"] * SITES["x"]), p["sigma"]).sum()
            + normal(p["a"], 1, 3) + gamma(p["b"], 2, scale=1 / 3)
            + half_normal(p["sigma"], scale=np.std(SITES["y"], ddof=1))
        ),
    ),
    "known errors and bounds": (
        "y ~ a*exp(b*x)",
        {"priors": {"a": "normal(1, 3)"}, "bounds": {"a": (0, 4), "b": (None, 0.9)}, "sigma": "s",
         "absolute_sigma": True},
        lambda p: normal(SITES["y"], p["a"] * np.exp(p["b"] * SITES["x"]), SITES["s"]).sum() + normal(p["a"], 1, 3),
    ),
    "counts": (
        "n ~ exp(a + b*x)",
        {"priors": {"a": "normal(0, 2)", "b": "normal(0, 2)"}, "family": "poisson"},
        lambda p: scipy.stats.poisson.logpmf(SITES["n"], np.exp(p["a"] + p["b"] * SITES["x"])).sum()
        + normal(p["a"], 0, 2) + normal(p["b"], 0, 2),
    ),
    "levels": (
        "y ~ a[g] + b*x",
        {"priors": {"a[g]": "normal(m, t)", "m": "normal(0, 5)", "t": "half_normal(2)", "b": "normal(0, 2)",
                    "sigma": "exponential(3)"}},
        lambda p: (
            normal(SITES["y"], by_site(p) + p["b"] * SITES["x"], p["sigma"]).sum()
            + sum(normal(p[f"a[{site}]"], p["m"], p["t"]) for site in "ABC")
            + normal(p["m"], 0, 5) + half_normal(p["t"], scale=2) + normal(p["b"], 0, 2)
            + scipy.stats.expon.logpdf(p["sigma"], scale=1 / 3)
        ),
    ),
}  # fmt: skip


@each("name", DENSITIES)
@each("is_compiled", [True, False])
def test_the_sampled_density_is_that_of_the_posterior_on_the_scale_without_bounds(name: str, is_compiled: bool) -> None:
    """Likelihood times priors times the derivative of the parameters, whatever the form of levels."""
    model, options, log_density = DENSITIES[name]
    settings = FitOptions(posterior=10, **options)
    objective = Objective.of(model, as_dataset(SITES), settings)
    for similar in ((), ["a[g]"]) if name == "levels" else ((),):
        density = Density(objective, objective.start * 0.5 + 0.1, settings, similar)
        assert density.compiled is not None
        if not is_compiled:
            density.compiled = None
        values = []
        for z in np.random.default_rng(3).normal(0, 0.4, (3, density.size)):
            steps = z + 1e-5 * np.array([*np.eye(density.size), *-np.eye(density.size)])
            ahead = density.parameters(np.array([z, *steps])[None])
            table = np.array([ahead[each_name][0] for each_name in density.names])
            high, low = np.split(table[:, 1:], 2, axis=1)
            slopes = np.linalg.slogdet((high - low) / 2e-5)[1]
            point = dict(zip(density.names, table[:, 0], strict=True))
            value, gradient = density.value_and_gradient(z)
            values.append((value, log_density(point) + slopes))
            rises = [density.value_and_gradient(step)[0] for step in steps]
            np.testing.assert_allclose(
                gradient, -np.subtract(*np.split(np.array(rises), 2)) / -2e-5, rtol=1e-4, atol=1e-6
            )
        found, wanted = np.array(values).T
        np.testing.assert_allclose(np.diff(found), np.diff(wanted), rtol=1e-6, atol=1e-6)


@each("low, high", [(-np.inf, np.inf), (1.0, np.inf), (-np.inf, 3.0), (1.0, 3.0)])
def test_numbers_without_bounds_lead_back_to_those_between_them(low: float, high: float) -> None:
    value = np.array([1.2, 2.0, 2.9])
    free = posterior._unconstrained(value, low, high)
    if np.isinf([low, high]).all():
        assert free.tolist() == value.tolist()
        return
    inside = evaluate([posterior._constrained(variable("u"), low, high)[0]], {"u": free})[0]
    np.testing.assert_allclose(inside, value, rtol=1e-12)
    ends = posterior._unconstrained(np.array([1.0, 3.0]), low, high)
    assert np.isfinite(ends).all()


GOOD = ParameterPosterior(0, 1, -1, 0, 1, 900, 900, 1.0)


@each("change, divergences, chains, words", [
    ({}, 0, 4, []),
    ({}, 1, 4, ["1 transition of 400 diverged"]),
    ({}, 7, 4, ["7 transitions of 400 diverged, so the draws may miss a part of the posterior"]),
    ({"rhat": 1.02}, 0, 4, ["the chains disagree: R-hat of `b` is up to 1.02, above 1.01"]),
    ({"rhat": 1.02}, 0, 1, ["the quarters of the chain disagree"]),
    ({"rhat": math.nan}, 0, 4, ["100 draws per chain are too few to tell if the chains agree"]),
    ({"ess_bulk": 399}, 0, 4, ["the effective sample size of `b` is below 400: draw more than 100 per chain"]),
    ({"ess_tail": 399}, 0, 4, ["the effective sample size of `b` is below 400"]),
    ({"ess_tail": 401}, 0, 4, []),
    ({"ess_tail": 99}, 0, 1, ["the effective sample size of `b` is below 100"]),
    ({"ess_tail": math.nan}, 0, 1, ["the effective sample size of `b`"]),
    ({"ess_bulk": 5, "rhat": 1.5}, 2, 4, ["2 transitions", "the chains disagree"]),
])  # fmt: skip
def test_draws_are_judged_by_their_diagnostics(
    change: dict[str, float], divergences: int, chains: int, words: list[str]
) -> None:
    found = posterior._diagnose({"a": GOOD, "b": GOOD._replace(**change)}, divergences, chains, 100)
    assert len(found) == len(words)
    assert all(text.startswith(start) for text, start in zip(found, words, strict=True))


def test_of_several_numbers_that_disagree_the_largest_r_hat_is_named() -> None:
    (found,) = posterior._diagnose({"a": GOOD._replace(rhat=1.02), "b": GOOD._replace(rhat=1.5)}, 0, 4, 100)
    assert "R-hat of `a`, `b` is up to 1.5, above" in found


def test_a_summary_has_the_moments_and_quantiles_of_all_chains() -> None:
    draws = {
        "a": np.random.default_rng(0).normal(size=(4, 50)),
        "v": np.random.default_rng(1).gamma(2, size=(4, 50, 2)),
    }
    found = posterior.summarize_draws(draws)
    assert [*found] == ["a", "v[0]", "v[1]"]
    for name, values in (("a", draws["a"]), ("v[1]", draws["v"][..., 1])):
        wanted = [values.mean(), values.std(ddof=1), *np.quantile(values, (0.05, 0.5, 0.95))]
        assert found[name][:5] == pytest.approx(wanted, rel=1e-12)
    names, numbers = posterior.draw_numbers(draws)
    assert names == ("a", "v[0]", "v[1]")
    np.testing.assert_array_equal(numbers[..., 2], draws["v"][..., 1])


@each("rows, deviation, noise, is_centred", [(3, 1.0, 0.05, True), (3, 0.3, 1.0, False)])
def test_levels_that_differ_less_than_their_errors_are_sampled_around_their_mean(
    rows: int, deviation: float, noise: float, is_centred: bool
) -> None:
    unit, generator = 1e3, np.random.default_rng(0)
    levels, means = np.repeat(np.arange(30), rows), unit * generator.normal(1, deviation, 30)
    data = {"g": levels, "y": means[levels] + unit * generator.normal(0, noise, len(levels))}
    priors = [f"a[g] ~ normal(m, {2 * unit}*s)", "s ~ half_normal(1)", f"m ~ normal(0, {10 * unit})"]
    unknown = FitOptions(priors=priors)
    for options in (unknown, dataclasses.replace(unknown, sigma=unit * noise, absolute_sigma=True)):
        objective = Objective.of("y ~ a[g]", as_dataset(data), options)
        density = Density(objective, fit._chain_start(objective, options), options)
        assert density.find_similar_levels() == ([] if is_centred else ["a[g]"])


def test_a_mode_that_no_chain_visited_is_said() -> None:
    """Chains start at one mode. R-hat cannot tell that another one is far, because all of them stay."""
    generator = np.random.default_rng(0)
    for number in range(amount(1, 6, 6)):
        distance, share = generator.uniform(8, 60), generator.uniform(0.3, 0.7)
        components = f"{share!r}*normal_pdf(a, {-distance!r}, 1) + {1 - share!r}*normal_pdf(a, {distance!r}, 2)"
        fit = ad.fit(f"-log({components}) + 0*y", {"y": [0.0]}, likelihood=True, posterior=100, chains=2, seed=number)
        drawn = share if fit.posterior["a"].mean < 0 else 1 - share
        (said,) = [each for each in fit.warnings if "no chain visited another mode" in each]
        assert not fit.converged
        assert f"about {1 - drawn:.0%} of the probability" in said
    y = 4 * X + generator.normal(0, 0.5, len(X))
    for model in ("y ~ a^2*x", "y ~ a*exp(-b*x) + c*x"):  # with an equivalent solution, and with one mode
        fit = ad.fit(
            model, {"x": X, "y": y}, posterior=100, chains=2, priors={"b": "gamma(2, 2)"} if "b" in model else {}
        )
        assert not any("another mode" in each for each in fit.warnings)


def test_a_checkpoint_that_fails_while_draws_are_taken_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = CheckpointFile.write, itertools.count()

    def fail_later(*arguments: Any) -> None:
        if next(written):
            raise OSError(28, "No space left on device")
        write(*arguments)

    monkeypatch.setattr(CheckpointFile, "write", fail_later)
    found = ad.fit("y ~ a", {"y": [1.0, 2.0]}, checkpoint=tmp_path / "kept", posterior=10, chains=1)
    assert [words for words in found.warnings if "could not be written: no space left on device" in words.lower()] == [
        f"the checkpoint {tmp_path / 'kept'} could not be written: no space left on device"
    ]
