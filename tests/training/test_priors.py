"""Priors: densities against SciPy, modes and errors against conjugate posteriors and numeric Hessians, and refusals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

import autodiff_cli as ad
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.data.table import MemoryDataset
from autodiff_cli.graph.node import variable
from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting.minimization import comparison_losses
from autodiff_cli.training.losses import parse_priors, prior_graph
from autodiff_cli.training.objective.batch import repeat_objective
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import FitOptions
from tests.each import each

GENERATOR = np.random.default_rng(5)
X = np.linspace(0, 3, 30)
DECAY = {"x": X, "y": 2.5 * np.exp(-1.3 * X) + GENERATOR.normal(0, 0.05, len(X))}
NORMAL = {"y": GENERATOR.normal(2, 1, 20)}
COUNTS = GENERATOR.poisson(3.0, 25)


def test_priors_of_a_model_that_is_its_own_likelihood() -> None:
    """The mode is where the gradients of the negative log-likelihood and of the prior cancel."""
    found = ad.fit("(y - m)^2/2", NORMAL, likelihood=True, priors={"m": "normal(0, 0.5)"})
    total = NORMAL["y"].sum()
    assert found.parameters["m"] == pytest.approx(total / (len(NORMAL["y"]) + 4), rel=1e-6)


@each(
    ("prior", "reference"),
    [
        ("normal(1, 2)", scipy.stats.norm(1, 2)),
        ("lognormal(0.3, 0.7)", scipy.stats.lognorm(0.7, scale=math.exp(0.3))),
        ("student_t(3, 1, 2)", scipy.stats.t(3, 1, 2)),
        ("cauchy(1, 2)", scipy.stats.cauchy(1, 2)),
        ("half_normal(2)", scipy.stats.halfnorm(0, 2)),
        ("half_cauchy(2)", scipy.stats.halfcauchy(0, 2)),
        ("exponential(2)", scipy.stats.expon(0, 1 / 2)),
        ("gamma(2.5, 3)", scipy.stats.gamma(2.5, scale=1 / 3)),
        ("beta(2, 3.5)", scipy.stats.beta(2, 3.5)),
        ("uniform(-1, 4/2)", scipy.stats.uniform(-1, 3)),
    ],
)
def test_densities(prior: str, reference: scipy.stats.rv_continuous) -> None:
    data = {"y": [0.4, 0.6]}
    fit = ad.fit("y ~ a", data, start={"a": 0.5}, sigma=1e-9, absolute_sigma=True, priors={"a": prior})
    assert fit.log_prior == pytest.approx(reference.logpdf(fit.parameters["a"]), rel=1e-12)
    assert fit.parameters["a"] == pytest.approx(0.5)
    low, high = parse_priors([f"a ~ {prior}"])["a"].likely_range
    assert reference.cdf(high) - reference.cdf(low) > 0.89


def _wave(x: np.ndarray, q: dict[str, float]) -> np.ndarray:
    return q["a"] * np.sin(q["w"] * x + q["p"])


def _peaks(x: np.ndarray, q: dict[str, float]) -> np.ndarray:
    return q["a"] * np.exp(-(((x - q["m"]) / q["s"]) ** 2)) + q["b"] * np.exp(-(((x - q["n"]) / q["t"]) ** 2))


def _decay(x: np.ndarray, q: dict[str, float]) -> np.ndarray:
    return q["a"] * np.exp(-q["k"] * x) + q["c"]


@each(
    ("model", "predict", "rows", "mode", "centres", "sd"),
    [
        # evenly spaced rows also fit frequencies that are lower by whole turns per row
        ("a*sin(w*x + p)", _wave, np.arange(20.0), {"a": 2.0, "w": 6.9, "p": 0.5}, {"w": 6.92}, 0.02),
        ("a*sin(w*x + p)", _wave, np.arange(20.0), {"a": 2.0, "w": 8.3, "p": 0.5}, {"w": 7.7}, 0.05),
        # either peak may come first, and the prior says which does
        (
            "a*exp(-((x - m)/s)^2) + b*exp(-((x - n)/t)^2)",
            _peaks,
            np.linspace(0, 10, 40),
            {"a": 2.7, "m": 6.7, "s": 0.55, "b": 1.9, "n": 4.2, "t": 1.0},
            {"m": 6.75},
            0.1,
        ),
        # far from the best curve for the data alone, and a less probable curve is near that one
        ("a*exp(-k*x) + c", _decay, np.linspace(0, 10, 54), {"a": 2.45, "k": 3.9, "c": 1.69}, {"k": 4.09}, 0.03),
    ],
    quick=lambda *case: case[-1] != 0.02,
)
def test_the_mode_is_the_best_one(
    model: str, predict: Any, rows: np.ndarray, mode: dict[str, float], centres: dict[str, float], sd: float
) -> None:
    """No mode that is known is more probable than the one that is reported."""
    truth = mode | {"k": 1.36} if "k" in mode else mode
    target = predict(rows, truth) + np.random.default_rng(4).normal(0, 0.1, len(rows))
    priors = {name: f"normal({centre}, {sd * centre})" for name, centre in centres.items()}
    found = ad.fit(f"y ~ {model}", {"x": rows, "y": target}, priors=priors).parameters

    def density(point: dict[str, float]) -> float:
        squares = np.sum((target - predict(rows, point)) ** 2)
        prior = sum(((point[name] - centre) / (sd * centre)) ** 2 for name, centre in centres.items())
        return float(-len(rows) / 2 * math.log(squares) - prior / 2)

    assert density(found) > max(density(mode), density(truth)) - 1e-6


@each("prior", ["gamma(0.1, 0.1)", "gamma(0.5, 1)", "lognormal(0, 10)", "lognormal(0, 300)"])
def test_an_infinite_density_at_0_is_no_mode(prior: str) -> None:
    """These priors say little, except at 0: there is hardly any probability, but the density is infinite or huge."""
    target = DECAY["y"] + np.random.default_rng(0).normal(0, 0.3, len(X))
    plain, found = (ad.fit("y ~ a*exp(-b*x)", {"x": X, "y": target}, priors=p) for p in (None, {"a": prior}))
    assert found.converged
    assert found.parameters["a"] == pytest.approx(plain.parameters["a"], rel=0.1)


@each("kind", ["unknown variance", "known variance", "counts"])
def test_ends_are_compared_by_their_posterior_density(kind: str) -> None:
    """A density that is infinite or huge at 0 counts as that at the nearest likely value."""
    scale, rate = scipy.stats.gamma(0.5, scale=1.0), scipy.stats.norm(1.0, 0.2)
    options: dict[str, Any] = {"priors": {"a": "gamma(0.5, 1)", "b": "normal(1, 0.2)"}}
    options |= {"sigma": 0.1, "absolute_sigma": True} if kind == "known variance" else {}
    options |= {"family": "poisson"} if kind == "counts" else {}
    y = np.round(3 * DECAY["y"]).clip(0) if kind == "counts" else DECAY["y"]
    objective = Objective.of("y ~ a*exp(-b*x)", MemoryDataset({"x": X, "y": y}), FitOptions(**options))
    points = np.column_stack([[2.0, 0.3, 2.5, 1.0, 1e-250], [1.0, 0.2, 1.5, 1.9, 1.2]])
    means = points[:, :1] * np.exp(-points[:, 1:] * X)
    squares = np.sum(np.square(y - means), axis=1)
    surprises = {
        "unknown variance": len(X) / 2 * np.log(squares),
        "known variance": squares / (2 * 0.1**2),
        "counts": np.sum(means - y * np.log(means), axis=1),
    }[kind]
    likely = max(points[-1, 0], objective.priors["a"].likely_range[0])
    densities = scale.logpdf(np.append(points[:-1, 0], likely)) + rate.logpdf(points[:, 1])
    losses = comparison_losses(repeat_objective(objective, len(points)), points)
    by_kind = {
        "unknown variance": np.log(np.abs(losses)) / 2,
        "known variance": losses / (2 * 0.1**2),
        "counts": losses,
    }
    found = len(X) * by_kind[kind]
    wanted = surprises - densities
    np.testing.assert_allclose(found - found[0], wanted - wanted[0], rtol=1e-8)


def test_losses_of_steps_are_comparable() -> None:
    """The variance of the residuals is that of each step, so the last loss is that of the fit."""
    weights = np.random.default_rng(1).uniform(0.5, 2, len(X))
    steps: list[Any] = []
    found = ad.fit(
        "y ~ a*exp(-b*x)", DECAY, weights=weights, priors={"b": "normal(2, 0.1)", "a": "normal(3, 0.2)"},
        on_epoch=steps.append,
    )  # fmt: skip
    reference = [scipy.stats.norm(3, 0.2), scipy.stats.norm(2, 0.1)]
    for step in (steps[0], steps[-1]):
        a, b = step.theta
        squares = np.sum(weights * (DECAY["y"] - a * np.exp(-b * X)) ** 2) / np.sum(weights)
        prior = reference[0].logpdf(a) + reference[1].logpdf(b)
        assert step.loss == pytest.approx(squares * (1 - 2 * prior / len(X)), rel=1e-9)
    assert steps[-1].loss == pytest.approx(found.loss, rel=1e-6)


def test_normal_mean_with_known_variance() -> None:
    fit = ad.fit("y ~ a", NORMAL, sigma=1.0, absolute_sigma=True, priors={"a": "normal(3, 0.1)"})
    precision = 20 + 1 / 0.1**2
    assert fit.parameters["a"] == pytest.approx((NORMAL["y"].sum() + 300) / precision, rel=1e-12)
    assert fit.stderr["a"] == pytest.approx(precision**-0.5, rel=1e-10)
    plain = ad.fit("y ~ a", NORMAL, sigma=1.0, absolute_sigma=True, fixed=None)
    shift = fit.parameters["a"] - plain.parameters["a"]
    assert fit.log_likelihood == pytest.approx(plain.log_likelihood - 10 * shift**2, rel=1e-12)
    assert fit.aic is None


def test_a_prior_counts_as_much_beside_several_targets() -> None:
    data = {"y": [1.0, 2.0, 4.0], "z": [3.0, 5.0, 2.5]}
    fit = ad.fit("[y, z] ~ [a, a]", data, sigma=1.0, absolute_sigma=True, priors={"a": "normal(0, 1)"})
    assert fit.parameters["a"] == pytest.approx(sum(data["y"] + data["z"]) / 7, rel=1e-10)
    assert fit.stderr["a"] == pytest.approx(7**-0.5, rel=1e-8)


def test_poisson_and_binomial_conjugates() -> None:
    poisson = ad.fit("k ~ m", {"k": COUNTS}, family="poisson", priors=["m ~ gamma(2, 1.5)"])
    shape, rate = 2 + COUNTS.sum(), 1.5 + len(COUNTS)
    assert poisson.parameters["m"] == pytest.approx((shape - 1) / rate, rel=1e-10)
    assert poisson.stderr["m"] == pytest.approx(math.sqrt(shape - 1) / rate, rel=1e-8)
    hits = {"k": [1, 0, 0, 1, 0, 0, 0, 1]}
    binomial = ad.fit("k ~ p", hits, family="binomial", start={"p": 0.5}, priors={"p": "beta(3, 2)"})
    assert binomial.parameters["p"] == pytest.approx(5 / 11, rel=1e-10)
    assert binomial.stderr["p"] == pytest.approx((11**3 / (5 * 6)) ** -0.5, rel=1e-8)


@pytest.mark.slow
def test_errors_are_those_of_the_profiled_posterior() -> None:
    fit = ad.fit("y ~ a*exp(-b*x)", DECAY, priors={"a": "normal(2, 0.02)", "b": "exponential(3)"})

    def minus_log_density(theta: np.ndarray) -> float:
        a, b = theta
        rss = np.sum((DECAY["y"] - a * np.exp(-b * X)) ** 2)
        return len(X) / 2 * math.log(rss) + (a - 2) ** 2 / (2 * 0.02**2) + 3 * b

    best, step = np.array([*fit.parameters.values()]), 1e-4
    shifts = step * np.eye(2)
    slopes = [(minus_log_density(best + s) - minus_log_density(best - s)) / (2 * step) for s in shifts]
    assert slopes == pytest.approx([0, 0], abs=0.01)
    hessian = [
        [
            (
                minus_log_density(best + s + t)
                - minus_log_density(best + s - t)
                - minus_log_density(best - s + t)
                + minus_log_density(best - s - t)
            )
            / (4 * step * step)
            for s in shifts
        ]
        for t in shifts
    ]
    assert fit.covariance == pytest.approx(np.linalg.inv(hessian), rel=1e-3)


@pytest.mark.slow
def test_mean_fit_does_not_depend_on_where_rows_are() -> None:
    options = {"priors": ["a ~ normal(2, 0.02)"], "weights": np.arange(1.0, 31)}
    whole = ad.fit("y ~ a*exp(-b*x)", DECAY, **options)
    data = {name: np.concatenate((values, values + 0.1)) for name, values in DECAY.items()}
    data["g"] = np.repeat(["u", "v"], 30)
    [group, _] = ad.fit_by("y ~ a*exp(-b*x)", data, "g", priors=options["priors"])
    alone = ad.fit("y ~ a*exp(-b*x)", DECAY, priors=options["priors"])
    assert group.fit.parameters == pytest.approx(alone.parameters, rel=1e-9)
    assert whole.parameters != pytest.approx(alone.parameters, rel=1e-9)


def test_levels_bounds_and_priors_of_priors() -> None:
    data = {"y": [1.0, 1.2, 3.0, 3.3, 2.0, 2.1], "g": [*"AABBCC"]}
    priors = ["a[g] ~ normal(2, 1)", "a[A] ~ uniform(1.5, 9)"]
    fit = ad.fit("y ~ a[g]", data, sigma=1, absolute_sigma=True, priors=priors, start={"a[A]": 2})
    assert fit.parameters["a[B]"] == pytest.approx((6.3 + 2) / 3)
    assert fit.parameters["a[A]"] == 1.5
    assert fit.priors == {"a[B]": "normal(2, 1)", "a[C]": "normal(2, 1)", "a[A]": "uniform(1.5, 9)"}
    pooled = ad.fit("y ~ a[g]", data, sigma=1, absolute_sigma=True, priors=["a[g] ~ normal(m, 1)"])
    assert pooled.parameters["m"] == pytest.approx(2.1)
    assert pooled.parameters["a[A]"] == pytest.approx((2.2 + 2.1) / 3)
    assert any("hierarchical" in warning for warning in pooled.warnings)


@each(
    ("priors", "fixed", "words"),
    [
        (["a ~ normal(0, 1)", "a[g] ~ normal(9, 1)"], {}, "`a` has two priors: leave one of them out"),
        (["a[A] ~ normal(9, 1)", "a[g] ~ normal(0, 1)", "a ~ normal(0, 1)"], {"a[B]": 1}, "`a` has two priors"),
        (["a[g] ~ normal(0, 1)"], {"a": 2}, r"the prior of `a\[g\]`: the parameter is fixed"),
        (["a ~ normal(m, 1)"], {"a[A]": 2, "a[B]": 2}, "the prior of `a`: the parameter is fixed"),
        (["a[Z] ~ normal(0, 1)"], {}, r"the prior of `a\[Z\]`: the model has no such parameter"),
    ],
)
def test_a_prior_of_all_levels_that_would_be_left_out_is_refused(priors: list[str], fixed: dict, words: str) -> None:
    data = {"y": [1.0, 2.0, 3.0, 4.5], "g": ["A", "A", "B", "B"]}
    with pytest.raises(OptionError, match=words):
        ad.fit("y ~ a[g]", data, priors=priors, fixed=fixed)


@each(
    ("options", "words"),
    [
        ({"priors": ["a ~ normall(0, 1)"]}, "no distribution normall; did you mean normal"),
        ({"priors": {"a": "normal(0)"}}, r"takes normal\(mu, sigma\), not 1"),
        ({"priors": {"a": "normal(mean=0, sd=1)"}}, r"its arguments have no names: normal\(mu, sigma\)"),
        ({"priors": {"a": "normal(0, sd=1)"}}, r"its arguments have no names: normal\(mu, sigma\)"),
        ({"priors": {"a": "normal(0, 0)"}}, "sigma must be positive, not 0"),
        ({"priors": {"a": "normal(0, 1"}}, "is written normal"),
        ({"priors": {"a": "normal(0, *)"}}, "the prior of `a`, normal"),
        ({"priors": {"a": "uniform(2, 1)"}}, "low < high"),
        ({"priors": {"c": "normal(0, 1)"}}, "`c`: the model has no such parameter"),
        ({"priors": ["a normal(0, 1)"]}, "a prior is written"),
        ({"priors": ["a ~ normal(0, 1)", "a ~ cauchy(0, 1)"]}, "two priors"),
        ({"priors": True}, "NAME ~ DISTRIBUTION"),
        ({"priors": {"a": "beta(1, 2)"}, "start": {"a": 3}}, "starting value 3 of `a` is outside the support"),
        ({"priors": {"a": "normal(0, 1)"}, "loss": "mae"}, "the loss mae is not a likelihood"),
        ({"priors": {"a": "normal(0, 1)"}, "family": "quasipoisson"}, "quasipoisson has none"),
        ({"priors": {"a": "normal(0, 1)"}, "l2": 1.0}, "priors cannot be combined with l2"),
        ({"priors": {"a": "normal(0, 1)"}, "optimizer": "adam"}, "by lbfgs; leave out the optimizer, adam"),
        ({"priors": {"a": "normal(0, 1)"}, "fixed": {"a": 1}}, "the parameter is fixed"),
        ({"priors": {"sigma": "half_normal(1)"}}, "sigma, the standard deviation .* in a posterior only"),
        ({"priors": {"a": "normal(x, 1)"}}, r"normal\(x, 1\): `x` is not a parameter"),
        ({"priors": {"a": "normal(b, 1)", "b": "normal(a, 1)"}}, "the prior of `.` depends on this parameter itself"),
        ({"priors": {"a": "gamma(1, 1)"}, "bounds": {"a": (-5, -1)}}, "`a`: no number is within its bounds"),
    ],
)
def test_refusals(options: dict, words: str) -> None:
    with pytest.raises(ad.OptionError if hasattr(ad, "OptionError") else ValueError, match=words):
        ad.fit("y ~ a*exp(-b*x)", DECAY, **options)


def test_a_model_that_is_its_own_loss_has_no_priors() -> None:
    with pytest.raises(OptionError, match="the model is its own loss; add --likelihood"):
        ad.fit("(y - a*x)^2", DECAY, priors={"a": "normal(0, 1)"})


@each("options", [{"loss": "huber"}, {"sigma": 0.1, "absolute_sigma": True}])
def test_only_an_estimated_standard_deviation_of_residuals_has_a_prior(options: dict) -> None:
    with pytest.raises(OptionError, match="`sigma`: the model has no such parameter"):
        ad.fit("y ~ a*exp(-b*x)", DECAY, priors={"sigma": "half_normal(1)"}, **options)


def test_options_without_priors_parse_nothing() -> None:
    assert FitOptions().parsed_priors == {}


@each(
    "text, words",
    [
        ("a ~ normal(0)", "normal takes normal(mu, sigma), not 1 argument: `normal(0)`"),
        ("a ~ normal()", "normal takes normal(mu, sigma), not 0 arguments"),
        ("a ~ normal", "normal is written normal(mu, sigma), not `normal`"),
        ("a ~ normal(0, 1", "normal is written normal(mu, sigma), not `normal(0, 1`"),
        ("a ~ normal(0, 0)", "sigma must be positive, not 0"),
        ("a ~ normal(0, -1)", "sigma must be positive, not -1"),
        ("a ~ normal(inf, 1)", "mu must be finite, not inf"),
        ("a ~ uniform(2, 2)", "low and high must be numbers, low < high"),
        ("a ~ uniform(3, 2)", "low and high must be numbers, low < high"),
        ("a ~ uniform(0, b)", "low and high must be numbers, low < high"),
        ("a ~ normal(m[g], 1)", "its arguments are numbers and parameters without levels"),
        ("a ~ norml(0, 1)", "did you mean normal"),
        ("a + b ~ normal(0, 1)", "a prior is written"),
        ("a ~ ", "a prior is written"),
    ],
)
def test_texts_that_are_no_priors_are_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_priors([text])
    assert words in str(caught.value)


def test_a_parameter_has_one_prior_however_it_is_written() -> None:
    with pytest.raises(OptionError, match="`a` has two priors: leave one of them out"):
        parse_priors(["a ~ normal(0, 1)", "a ~ normal(0, 2)"])
    (prior,) = parse_priors({"a": " normal(2*m, s) "}).values()
    assert (prior.text, prior.parameters, prior.positive_parameters) == ("normal(2*m, s)", ("m", "s"), ("s",))
    assert (prior.argument("sigma"), prior.argument("rate")) == ("s", "")
    assert parse_priors("b ~ uniform(-1, pi)")["b"].support == (-1, math.pi)
    assert parse_priors(None) == {}


def test_an_array_has_the_prior_for_each_of_its_numbers() -> None:
    leaves = {name: variable(name) for name in "avm"}
    priors = parse_priors(["a ~ normal(1, 2)", "v ~ normal(m, 3)"])
    graph = prior_graph(priors, leaves, {"v": (3,)})
    point: dict[str, Any] = {"a": 0.5, "v": np.array([1.0, 2, 4]), "m": 0.7}
    logpdf = scipy.stats.norm.logpdf
    wanted = -logpdf(0.5, 1, 2) - logpdf(point["v"], 0.7, 3).sum()
    assert float(evaluate([graph], point, {"v": (3,)})[0]) == pytest.approx(wanted, rel=1e-12)


def test_a_classifier_has_the_hierarchical_prior_of_its_arrays(tmp_path: Path) -> None:
    generator = np.random.default_rng(4)
    x = generator.normal(size=60)
    data: dict[str, Any] = {"x": x, "kind": np.where(x + generator.normal(size=60) > 0, "a", "b")}
    model, name = "kind ~ softmax(dense(x, 2))", "dense.0.weight"
    plain = ad.fit(model, data, priors={name: "normal(0, 2)"})
    fixed = ad.fit(model, data, priors={name: "normal(0, s)"}, fixed={"s": 2})
    assert fixed.parameters[name] == pytest.approx(plain.parameters[name], rel=1e-6)
    free = ad.fit(model, data, priors={name: "normal(0, s)", "s": "half_normal(1)"})
    free.save(tmp_path / "model.json")
    assert ad.load(tmp_path / "model.json").probabilities(data) == pytest.approx(free.probabilities(data), rel=1e-12)
