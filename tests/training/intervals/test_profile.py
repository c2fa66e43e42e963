"""Profile intervals compared with lmfit, and with root finding on the definition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.stats import chi2, norm, t

import autodiff_cli as ad
from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting import inference
from tests.each import each
from tests.support import run_cli

# Enzyme kinetics with treated cells: Bates & Watts 1988, table A1.3.
TREATED = {
    "c": [0.02, 0.02, 0.06, 0.06, 0.11, 0.11, 0.22, 0.22, 0.56, 0.56, 1.10, 1.10],
    "v": [76, 47, 97, 107, 123, 139, 159, 152, 191, 201, 207, 200],
}
KINETICS = "v ~ Vm*c/(K + c)"
FALLING = {"x": [0.0, 1, 2, 3, 4], "y": [1, 0.2, 0.12, -0.05, 0.1]}


@pytest.mark.parametrize("optimizer", ["lm", "lbfgs"])
def test_least_squares_have_the_intervals_of_lmfit(optimizer: str) -> None:
    found = ad.fit(KINETICS, TREATED, start={"Vm": 200, "K": 0.1}, optimizer=optimizer, profile=True)
    # lmfit 1.3.4, conf_interval(…, sigmas=[0.95])
    assert found.intervals["profile"]["Vm"] == pytest.approx((197.30193282579012, 229.2890556288213), rel=1e-8)
    assert found.intervals["profile"]["K"] == pytest.approx((0.046920342034558776, 0.0861569134282654), rel=1e-8)


@pytest.mark.slow
@each("seed", [2, 3, 30, 49, 53, 58], sampled=True)
def test_at_a_limit_no_other_minimum_is_better(seed: int) -> None:
    """With `a` fixed away from its estimate, an exponential with an offset may have two minima. The profile is
    the lower one, which changes on the way to the limits.
    """
    chance = np.random.default_rng(seed)
    rows = int(chance.integers(7, 20))
    x, sigma = np.sort(chance.uniform(0, 4, rows)), chance.uniform(0.05, 0.3, size=rows)
    y = 2.5 * np.exp(-0.8 * x) + 0.3 + sigma * chance.normal(size=rows)
    found = ad.fit("y ~ a*exp(-b*x) + c", {"x": x, "y": y}, profile=True)
    rates = np.concatenate([-np.logspace(-6, 1, 800), np.logspace(-6, 3, 1600)])
    shapes = np.exp(-np.clip(rates[:, None] * x, -300, 300))
    level = found.rss * (1 + t.ppf(0.975, rows - 3) ** 2 / (rows - 3))
    for a in filter(math.isfinite, found.intervals["profile"]["a"]):
        left = y - a * shapes  # the best offset is its mean
        best = np.square(left - left.mean(axis=1, keepdims=True)).sum(axis=1).min()
        assert best == pytest.approx(level, rel=5e-3)


def test_absolute_errors_have_the_normal_level() -> None:
    sigma = np.full(12, 10.0)
    found = ad.fit(KINETICS, TREATED, start={"Vm": 200, "K": 0.1}, sigma=sigma, absolute_sigma=True, profile=True)
    c, v = (np.array(TREATED[name]) for name in "cv")

    def risen(k: float) -> float:
        shape = c / (k + c)
        return float(np.sum(np.square(v - shape * (shape @ v) / (shape @ shape)))) / 100

    least = minimize_scalar(risen, bounds=(0.01, 0.2), options={"xatol": 1e-12}).fun
    ends = [brentq(lambda k: risen(k) - least - chi2.ppf(0.95, 1), a, b) for a, b in ((0.03, 0.064), (0.0642, 0.2))]
    assert found.intervals["profile"]["K"] == pytest.approx(tuple(ends), rel=1e-6)


def test_a_likelihood_falls_by_half_of_the_quantile() -> None:
    x = np.linspace(0, 2, 15)
    y = np.array([1, 0, 0, 4, 2, 1, 2, 2, 0, 2, 7, 2, 5, 3, 3])
    found = ad.fit("y ~ exp(a + b*x)", {"x": x, "y": y}, family="poisson", profile=True, confidence=0.9)

    def risen(b: float) -> float:
        # For given b the best exp(a) is known: Σy/Σexp(b·x).
        mean = np.exp(b * x) * y.sum() / np.exp(b * x).sum()
        return -2 * float(np.sum(y * np.log(mean) - mean))

    best = found.parameters["b"]
    level = risen(best) + chi2.ppf(0.9, 1)
    ends = brentq(lambda b: risen(b) - level, -1, best), brentq(lambda b: risen(b) - level, best, 3)
    assert found.intervals["profile"]["b"] == pytest.approx(ends, rel=1e-6)


@pytest.mark.parametrize("family", ["poisson", "quasipoisson", "gamma"])
def test_a_deviance_rises_by_the_square_of_the_quantile_times_the_dispersion(family: str) -> None:
    y = np.array([1.0, 2, 4, 7, 1, 3])
    found = ad.fit("y ~ m", {"y": y}, family=family, profile=True)

    def deviance(m: float) -> float:
        return 2 * float(np.sum((y - m) / m - np.log(y / m) if family == "gamma" else y * np.log(y / m) - (y - m)))

    unit = found.dispersion if family in ("quasipoisson", "gamma") else 1.0
    assert unit is not None
    for end in found.intervals["profile"]["m"]:
        assert (deviance(end) - deviance(y.mean())) / unit == pytest.approx(found.quantile() ** 2, rel=1e-6)


def test_the_mean_of_a_normal_sample_with_unknown_width() -> None:
    y = np.array([1.0, 2, 4, 7, 1, 3])
    found = ad.fit("((y - m)/s)^2/2 + log(s)", {"y": y}, likelihood=True, profile=True)
    width = math.sqrt(y.var() * math.expm1(chi2.ppf(0.95, 1) / len(y)))
    assert found.intervals["profile"]["m"] == pytest.approx((y.mean() - width, y.mean() + width), rel=1e-6)


def test_of_a_linear_model_the_profile_has_the_ends_of_the_errors() -> None:
    generator = np.random.default_rng(0)
    data = {"x": generator.normal(size=30), "y": generator.normal(size=30)}
    found = ad.fit("y ~ a + b*x + d*x^2", data, profile=True)
    for name, ends in found.confidence().items():
        assert found.intervals["profile"][name] == pytest.approx(ends, rel=1e-6)


def test_where_the_data_set_no_end_it_is_infinite_and_a_bound_ends_it() -> None:
    open_ended = ad.fit("y ~ a*exp(-b*x)", FALLING, profile=True)
    low, high = open_ended.intervals["profile"]["b"]
    assert (round(low, 4), high) == (0.7803, math.inf)
    assert "the data set no upper limit for `b`: its profile is flat" in open_ended.warnings
    bounded = ad.fit("y ~ a*exp(-b*x)", FALLING, profile=True, bounds={"b": (0, 2.5)})
    assert bounded.intervals["profile"]["b"] == pytest.approx((low, 2.5), rel=1e-6)
    assert "the profile interval of `b` ends at its bound, 2.5" in bounded.warnings
    held = ad.fit("y ~ a*exp(-b*x)", FALLING, profile=True, bounds={"b": (0, 1)})
    assert held.parameters["b"] == 1
    assert held.intervals["profile"]["b"][1] == 1
    assert "the profile interval of `b` ends at its bound, 1" in held.warnings


@pytest.mark.parametrize("ratio", [0.5, 0.9, 0.99, 1.01, 1.1, 2])
def test_a_profile_with_an_asymptote_has_an_end_only_above_the_threshold(ratio: float) -> None:
    """The rise of `2/(1 + exp(b))` towards large b has a limit, which is known exactly."""
    y = np.array([0.9, 1.1])
    quantile = norm.ppf(0.975)
    sigma = math.sqrt(2) / (quantile * ratio)  # the root of the rise from y = 1 to 0 in standard errors
    data = {"y": y, "s": np.full(2, sigma)}
    found = ad.fit("y ~ 2/(1 + exp(b))", data, start={"b": 0.1}, sigma="s", absolute_sigma=True, profile=True)
    low, high = found.intervals["profile"]["b"]
    if ratio < 1:
        assert high == math.inf
    else:
        rest = 1 - 1 / ratio
        assert high == pytest.approx(math.log(2 / rest - 1), rel=1e-6)
    assert low < found.parameters["b"] < high


CURVES = {"y ~ A*exp(-k*x)": lambda k, x: np.exp(-k * (x - x[0])), "y ~ A*x/(k + x)": lambda k, x: x / (k + x)}


@pytest.mark.slow
@each("model, seed", [("y ~ A*exp(-k*x)", 0), ("y ~ A*exp(-k*x)", 3), ("y ~ A*x/(k + x)", 5)])
def test_a_profile_ends_where_the_exact_one_does_or_nowhere(model: str, seed: int) -> None:
    """With `A` at its best value for each `k`, the profile of `k` is known exactly."""
    generator = np.random.default_rng([seed, 7])
    x = np.sort(generator.uniform(0.1, 3, 5))
    y = 5 * CURVES[model](generator.uniform(0.3, 3), x)
    y += generator.normal(0, 0.1 * np.ptp(y), len(x))

    def squares(k: float) -> float:
        curve = CURVES[model](k, x)
        curve /= np.abs(curve).max()
        return float(y @ y - (curve @ y) ** 2 / (curve @ curve))

    found = ad.fit(model, {"x": x, "y": y}, profile=True)
    best = found.parameters["k"]
    level = squares(best) * (1 + t.ppf(0.975, 3) ** 2 / 3)
    far = best + np.geomspace(1e-3, 1e9 if "+" in model else 1e2, 1000)
    for side, end in zip((-1, 1), found.intervals["profile"]["k"], strict=True):
        steps = best + side * (far - best)
        if "+" in model and side < 0:
            steps = steps[steps > -x[0]]  # beyond, there is a pole
        outside = np.array([squares(k) > level for k in steps])
        first = int(np.argmax(outside))
        if not outside.any():
            assert end is None or math.isinf(end) or end < -x[0] < best
        else:
            assert steps[first - 1] - 1e-6 <= end <= steps[first] + 1e-6 or steps[first] <= end <= steps[first - 1]


def test_an_estimate_is_not_its_own_end_where_no_fit_beyond_it_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"x": [0.0, 1, 2, 3], "y": [2.02, 0.72, 0.28, 0.09]}
    estimate = ad.fit("y ~ a*exp(-b*x)", data).parameters["b"]
    rise_of = inference._Profile._best_root_deviance

    def fails_above(profile: Any, value: float, *arguments: Any) -> float:
        return math.inf if profile._element == 1 and value > estimate else rise_of(profile, value, *arguments)

    monkeypatch.setattr(inference._Profile, "_best_root_deviance", fails_above)
    found = ad.fit("y ~ a*exp(-b*x)", data, profile=True)
    low, high = found.intervals["profile"]["b"]
    assert low < estimate
    assert high == math.inf
    assert f"the data set no upper limit for `b`: no fit succeeds beyond {estimate:.6g}" in found.warnings


def test_a_missing_end_is_null_and_words(tmp_path: Path) -> None:
    path = tmp_path / "falling.csv"
    path.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in zip(FALLING["x"], FALLING["y"], strict=True)))
    line = ["train", "y ~ a*exp(-b*x)", str(path), "--profile"]
    low, high = run_cli([*line, "--json"]).json["intervals"]["profile"]["b"]
    assert (round(low, 4), high) == (0.7803, None)
    assert "at least 0.78" in run_cli(line)


def test_profiles_that_keep_finding_better_fits_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise inference.BetterFit("b", np.array([1.0, 1.0]))

    monkeypatch.setattr(inference, "add_intervals", fail)
    found = ad.fit("y ~ a*exp(-b*x)", FALLING, profile=True)
    assert found.converged
    assert found.warnings == ["no intervals: the profiles find better fits; try --starts"]


def test_a_better_fit_met_on_the_way_is_adopted() -> None:
    x = np.linspace(0, 10, 60)
    data = {"x": x, "y": np.sin(2 * x) + 0.1 * np.cos(17 * x)}
    local = ad.fit("y ~ a*sin(w*x)", data, start={"a": 0.1, "w": 2.8}, optimizer="lbfgs", profile=True)
    best = ad.fit("y ~ a*sin(w*x)", data, start={"w": 2}, optimizer="lbfgs", profile=True)
    assert local.parameters == pytest.approx(best.parameters, rel=1e-6)
    assert local.stderr == pytest.approx(best.stderr, rel=1e-4)
    assert local.intervals["profile"]["w"] == pytest.approx(best.intervals["profile"]["w"], rel=1e-4)
    assert any("led to a better fit, which is reported" in words for words in local.notes)
    assert not local.warnings


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(8, marks=pytest.mark.exhaustive)])
def test_rounding_of_huge_terms_is_no_better_fit(seed: int) -> None:
    """To nearly straight data, `a` and `c` of opposite signs fit well up to infinity. From 1e13 on, rounding alone
    lowers the sum of squares, which is higher in exact arithmetic.
    """
    x = np.arange(1.0, 10.0)
    y = np.round(1 + 2 * x + np.random.default_rng(seed).normal(size=9) * 0.15, 1)
    fit = ad.fit("y ~ a*exp(b*x) + c", {"x": x, "y": y}, profile=True)
    a, b, c = map(Fraction, fit.parameters.values())
    terms = [sum((b * Fraction(each)) ** k / math.factorial(k) for k in range(40)) for each in x]
    rss = sum((a * term + c - Fraction(value)) ** 2 for term, value in zip(terms, y, strict=True))
    assert fit.converged
    assert fit.rss == pytest.approx(float(rss), rel=1e-9)


def test_a_missing_profile_has_a_reason() -> None:
    with pytest.raises(OptionError, match="the loss mae; use bootstrap instead"):
        ad.fit(KINETICS, TREATED, loss="mae", profile=True)
    with pytest.raises(OptionError, match="network"):
        ad.fit("v ~ mlp(c, [2], tanh)", TREATED, profile=True)
    exact = ad.fit("y ~ a*x", {"x": [0.0, 1, 2], "y": [0, 1, 2]}, profile=True)
    assert exact.intervals["profile"] == {"a": None}
    assert "no profile intervals: the residual variance is unknown" in exact.warnings
    for kind in ({"profile": True}, {"bootstrap": 10}):
        stopped = ad.fit(KINETICS, TREATED, epochs=1, **kind)
        assert stopped.intervals == {}
        assert "no profile or bootstrap intervals: the fit did not converge" in stopped.warnings


def test_a_model_file_keeps_them(tmp_path: Path) -> None:
    found = ad.fit("y ~ a*exp(-b*x)", FALLING, profile=True)
    found.save(tmp_path / "model.json")
    assert ad.load(tmp_path / "model.json").intervals == found.intervals


@each("options", [{}, {"family": "gamma"}])
def test_exact_data_have_no_profile(options: dict[str, Any]) -> None:
    x = np.arange(10.0)
    model, y = ("y ~ exp(a + b*x)", np.exp(0.3 + 0.1 * x)) if options else ("y ~ a + b*x", 1 + 2 * x)
    found = ad.fit(model, {"x": x, "y": y}, profile=True, **options)
    assert found.intervals["profile"] == {"a": None, "b": None}
    assert found.warnings[-1] == "no profile intervals: the residual variance is unknown"


@each("level", [0.95, 0.8, 0.5])
def test_the_place_of_a_jump_is_between_rows_by_the_quantile_of_hansen(level: float) -> None:
    """The quantile is compared by its distribution function, (1 - exp(-q/2))², and the sums of squares are means'."""
    generator, rows = np.random.default_rng(3), 60
    x = np.sort(generator.uniform(0, 10, rows))
    y = 1 + 0.9 * (x > 4) + 0.5 * generator.normal(size=rows)
    fit = ad.fit("y ~ a + b*(x > k)", {"x": x, "y": y}, profile=True, confidence=level)
    squares = np.array([y[:k].var() * k + y[k:].var() * (rows - k) for k in range(1, rows)])
    ratios = (squares - squares.min()) / (fit.rss / fit.dof)
    likely = np.flatnonzero((1 - np.exp(-ratios / 2)) ** 2 <= level)
    assert fit.intervals["profile"]["k"] == (x[likely[0]], x[likely[-1] + 1])


def test_the_places_of_other_jumps_have_no_profile_but_a_reason() -> None:
    x = np.linspace(0, 10, 30)
    fit = ad.fit("y ~ a + b*(abs(x - m) < w)", {"x": x, "y": (abs(x - 5) < 2) + 0.1 * np.sin(9 * x)}, profile=True)
    assert fit.intervals["profile"]["m"] is None
    assert "no profile interval for `m`: it moves several jumps, or shares one" in fit.warnings
    even = ad.fit("y ~ a + b*(x > k)", {"x": x, "y": np.sin(9 * x)}, profile=True)
    assert even.intervals["profile"]["k"] == (-math.inf, math.inf)


def test_undetermined_parameters_have_no_ends() -> None:
    found: Any = ad.fit("y ~ a*b*x", FALLING, profile=True)
    assert found.intervals["profile"]["a"] == (-math.inf, math.inf)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("seed", [5012, 5000, 5007, 5022, 5025])
def test_profiles_do_not_pass_over_values_that_do_not_fit(seed: int) -> None:
    generator = np.random.default_rng(seed)
    x = np.linspace(0.1, 1, 15)
    y = x * 2 / (1 + x / 8) + generator.normal(0, 0.05, 15)  # nearly straight: `V` may be large, of either sign
    found = ad.fit("y ~ V*x/(K + x)", {"x": x, "y": y}, profile=True)
    ends = sorted(map(abs, found.intervals["profile"]["V"]))
    assert ends[1] == math.inf
    fixed = ad.fit("y ~ V*x/(K + x)", {"x": x, "y": y}, fixed={"V": math.copysign(ends[0], found.parameters["V"])})
    threshold = t.ppf(0.975, 13) ** 2 / 13
    assert fixed.rss / found.rss - 1 == pytest.approx(threshold, rel=1e-5)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("model", "curve", "most"),
    [
        ("y ~ a + b*x", lambda x: 1 + 2 * x, 54),
        ("y ~ a*exp(-b*x) + c", lambda x: 2.5 * np.exp(-1.3 * x) + 0.1, 70),
        ("y ~ a*x/(b + x)", lambda x: 2 * x / (1.5 + x), 44),
    ],
)
def test_profiles_take_few_fits_and_end_at_the_height_of_students_quantile(
    model: str, curve: Any, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """About twelve fits for each limit, whose sum of squares is that of the definition."""
    fits, rise_of = list[float](), inference._Profile._best_root_deviance

    def counted(profile: Any, value: float, *others: Any) -> float:
        fits.append(value)
        return rise_of(profile, value, *others)

    monkeypatch.setattr(inference._Profile, "_best_root_deviance", counted)
    x = np.linspace(0, 4, 40)
    data = {"x": x, "y": curve(x) + 0.05 * np.cos(9 * x)}
    found = ad.fit(model, data, profile=True, confidence=0.9)
    assert len(fits) <= most
    level = found.rss * (1 + t.ppf(0.95, found.dof) ** 2 / found.dof)
    for name, ends in found.intervals["profile"].items():
        if name == "b" and " + b*x" not in model:
            for end in ends:  # with `b` fixed, the other parameters are linear
                shape = np.exp(-end * x) if "exp" in model else x / (end + x)
                columns = np.stack([shape, np.ones(40)] if "exp" in model else [shape], axis=1)
                _, (rss,), *_ = np.linalg.lstsq(columns, data["y"])
                assert rss == pytest.approx(level, rel=1e-6)
    if "exp" not in model and "/" not in model:
        straight = {name: pytest.approx(ends, rel=1e-6) for name, ends in found.confidence().items()}
        assert found.intervals["profile"] == straight


@each("change, words", [
    ({"loss": "mae"}, "profile needs least squares or a likelihood, not the loss mae; use bootstrap instead"),
    ({"l2": 0.1}, "profile needs a likelihood, which a penalised fit does not have; use bootstrap"),
    ({"model": "y ~ mlp(x, [2], tanh)"}, "profile: a network's parameters have no intervals"),
    ({"model": "g ~ softmax(dense(x, 2))"}, "profile needs least squares or a likelihood, not classes"),
    ({"model": "(y - a*x)^2"}, "profile needs least squares or a likelihood, not the loss of this model"),
    ({"model": f"y ~ x*({' + '.join(f'p{k}' for k in range(51))})"}, "profile handles at most 50 parameters, not 51"),
])  # fmt: skip
def test_profiles_that_have_no_meaning_are_refused(change: dict[str, Any], words: str) -> None:
    columns = {"x": np.arange(4.0), "y": np.arange(4.0), "g": [*"uvuv"]}
    model = change.get("model", "y ~ a*x + b")
    objective = ad.Objective(model, columns, **{name: value for name, value in change.items() if name != "model"})
    with pytest.raises(OptionError) as caught:
        inference.check_profile(objective)
    assert str(caught.value).startswith(words)


def test_a_fit_that_patience_ended_is_reported_also_if_its_profile_finds_a_better_one() -> None:
    """The better fit replaced it, though the validation rows had chosen the other, or ended in an exception."""
    given, chance = [], np.random.default_rng(1)
    for patience in (1, 2, 3, 30):
        u = chance.normal(size=40)
        data = {"u": u, "z": (chance.uniform(size=40) < 1 / (1 + np.exp(-u))) * 1.0}
        options: dict[str, Any] = {"optimizer": "adam", "learning_rate": 0.05, "validation": 0.3, "patience": patience}
        plain, found = (ad.fit("z ~ sigmoid(a + b*u)", data, epochs=400, profile=x, **options) for x in (False, True))
        assert (found.parameters, found.history) == (plain.parameters, plain.history)
        given.append("profile" in found.intervals)
        assert given[-1] or any("--patience ended the fit before its minimum" in text for text in found.warnings)
    assert not all(given)


def test_several_targets_of_counts_have_the_profiles_of_one_column() -> None:
    x = np.arange(12.0)
    n, m = np.round(np.exp(1 + 0.1 * x)), np.round(np.exp(2 - 0.05 * x) + np.cos(x))
    options: dict[str, Any] = {"family": "poisson", "profile": True, "start": {"a": 1, "b": 0.1}}
    several = ad.fit("[n, m] ~ [exp(a + b*x), exp(a)]", {"x": x, "n": n, "m": m}, **options)
    stacked = {"x": np.tile(x, 2), "n": np.concatenate((n, m)), "u": np.repeat([1.0, 0.0], 12)}
    single = ad.fit("n ~ exp(a + u*b*x)", stacked, **options)
    for name, ends in single.intervals["profile"].items():
        assert several.intervals["profile"][name] == pytest.approx(ends, rel=1e-6), name


@each("seed", range(8), quick=lambda seed: seed in (3, 4))
def test_an_interval_ends_at_0_where_the_model_does(seed: int) -> None:
    """In terms of the root of `b`, a line has the limits of its standard error."""
    generator = np.random.default_rng(seed)
    x = np.linspace(0, 3, 12)
    y = 1 + generator.uniform(0.1, 0.5) * x + generator.normal(0, 0.5, 12)
    low, high = ad.fit("y ~ a + b*x", {"x": x, "y": y}).confidence()["b"]
    found = ad.fit("y ~ a + x*sqrt(b)", {"x": x, "y": y}, profile=True)
    assert found.intervals["profile"]["b"] == pytest.approx((max(low, 0) ** 2, high**2), rel=1e-6)
    assert (low < 0) == any("`b` ends at 0" in sentence for sentence in found.warnings)


@pytest.mark.slow
def test_an_interval_ends_at_0_where_curves_on_the_other_side_fit_far_worse() -> None:
    """Counts that a line fits nearly as well as `c + exp(a + b*x)`, which approaches a line as `b` goes to 0."""
    x = np.linspace(0, 4, 14)
    data = {"x": x, "y": 1.0 * np.random.default_rng(8).poisson(3 + 3 * np.exp(0.7 * x - 0.5))}
    found = ad.fit("y ~ c + exp(a + b*x)", data, family="poisson", profile=True)
    line = ad.fit("y ~ c + a*x", data, family="poisson", start={"c": 4.0, "a": 5.0})
    assert 2 * (found.log_likelihood - line.log_likelihood) < chi2.ppf(0.95, 1)
    assert found.intervals["profile"]["b"][0] == 0


@each("curve", [
    lambda x: x,
    lambda x: x**40,
    lambda x: 1 - (1 - x) ** 40,
    lambda x: x**0.05,
    lambda x: 0.2 * x + (x > 0.3),
    lambda x: x if x < 0.1 else math.inf,
])  # fmt: skip
def test_a_limit_is_found_on_any_curve_also_where_it_jumps(curve: Callable[[float], float]) -> None:
    profile = mock.Mock()
    profile._root_deviance.side_effect = curve
    found, height = inference._Profile._find_root(profile, 0.0, 0.0, 1.0, curve(1.0), 0.5)
    low, high = brentq(lambda x: min(curve(x), 9.0) - 0.5, 0, 1, xtol=1e-14) + 2e-8 * np.array([-1, 1])
    assert low <= found <= high
    assert height == curve(found)
    assert profile._root_deviance.call_count < 50


@each("seed", range(4), quick=lambda seed: seed == 1)
def test_profiles_of_negative_binomial_counts_keep_theta(seed: int) -> None:
    """As those of glm.nb from MASS do."""
    generator = np.random.default_rng(seed)
    x = np.linspace(0, 3, 18)
    y = 1.0 * generator.poisson(np.exp(1.2 + 0.4 * x) * generator.gamma(2, 0.5, 18))
    found = ad.fit("y ~ exp(a + b*x)", {"x": x, "y": y}, family="negative_binomial", profile=True)
    theta = found.theta
    assert theta is not None

    def deviance(a: float, b: float) -> float:
        mean = np.exp(a + b * x)
        return float(2 * np.sum((y + theta) * np.log1p(mean / theta) - y * np.log(mean)))

    def rise(b: float) -> float:
        best = minimize_scalar(lambda a: deviance(a, b), bracket=(0, 2), tol=1e-12).fun
        return float(best) - deviance(found.parameters["a"], found.parameters["b"]) - float(chi2.ppf(0.95, 1))

    b = found.parameters["b"]
    wanted = brentq(rise, b - 3, b, xtol=1e-10), brentq(rise, b, b + 3, xtol=1e-10)
    assert found.intervals["profile"]["b"] == pytest.approx(wanted, rel=1e-7)


@pytest.mark.slow
@each("seed", [0, 4, 5])
def test_profiles_of_ordered_parameters_keep_their_order_and_the_bounds_that_follow(seed: int) -> None:
    x = np.linspace(0, 6, 14)
    y = 2 * np.exp(-0.4 * x) + 1.5 * np.exp(-1.2 * x) + 0.05 * np.random.default_rng(seed).normal(size=14)
    fit = ad.fit(
        "y ~ a*exp(-k1*x) + b*exp(-k2*x)", {"x": x, "y": y}, profile=True, bootstrap=40, bounds={"k1": (0, "k2")}
    )
    names, estimate = [*fit.parameters], np.array([*fit.parameters.values()])

    def loss(p: np.ndarray) -> float:
        return float(1e3 * np.sum((y - p[0] * np.exp(-p[1] * x) - p[2] * np.exp(-p[3] * x)) ** 2))

    order = {"type": "ineq", "fun": lambda p: p[3] - p[1]}
    for k, name in enumerate(names):
        for limit in fit.intervals["profile"][name]:
            rises = []
            for factor, size in itertools.product((0.5, 1, 2), repeat=2):  # starts
                start = estimate * [size, min(factor, 1), 1 / size, max(factor, 1)]
                start[k] = limit
                start[1], start[3] = min(start[1], limit if k == 3 else start[1]), max(start[3], start[1])
                here = {"type": "eq", "fun": lambda p, k=k, limit=limit: p[k] - limit}
                low = [(None, None), (0, None)] * 2
                found = minimize(loss, start, method="SLSQP", constraints=[order, here], bounds=low, tol=1e-12)
                rises.append((found.fun - loss(estimate)) / (loss(estimate) / 10))
            height = math.sqrt(max(min(rises), 0.0)) / t.ppf(0.975, 10)
            assert height == pytest.approx(1, rel=1e-3) or (name == "k1" and limit == 0 and height < 1)
    low, _ = fit.intervals["bootstrap"]["k2"]
    assert low >= 0  # as `0 <= k1 <= k2` implies


@pytest.mark.slow
def test_profiles_of_a_mixture_keep_its_shares() -> None:
    generator = np.random.default_rng(1)
    z = np.concatenate([generator.normal(m, 1, n) for m, n in ((0, 30), (2.5, 40), (6, 6))])
    density = "w1*normal_pdf(z, m1, 1) + w2*normal_pdf(z, m2, 1) + (1 - w1 - w2)*normal_pdf(z, m3, 1)"
    start = {"w1": 0.4, "m1": 0, "w2": 0.5, "m2": 3, "m3": 6}
    fit = ad.fit(f"-log({density})", {"z": z}, likelihood=True, start=start, profile=True)
    estimate = np.array([fit.parameters[name] for name in start])

    def loss(p: np.ndarray) -> float:
        peaks = norm.pdf(z[:, None], p[[1, 3, 4]])
        return float(-np.sum(np.log(np.maximum(peaks @ [p[0], p[2], 1 - p[0] - p[2]], 1e-300))))

    rest = {"type": "ineq", "fun": lambda p: 1 - p[0] - p[2]}
    for k, name in enumerate(start):
        for limit in fit.intervals["profile"][name]:
            rises = []
            for _ in range(12):
                point = estimate + generator.normal(size=5) * [0.2, 1.5, 0.2, 1.5, 1.5]
                point[k] = limit
                point[[0, 2]] = np.clip(point[[0, 2]], 0.01, 0.97)
                here = {"type": "eq", "fun": lambda p, k=k, limit=limit: p[k] - limit}
                ends = [(0, 1), (None, None), (0, 1), (None, None), (None, None)]
                found = minimize(loss, point, method="SLSQP", constraints=[rest, here], bounds=ends, tol=1e-12)
                rises.append(2 * (found.fun - loss(estimate)) if found.success else math.inf)
            assert min(rises) == pytest.approx(chi2.ppf(0.95, 1), rel=1e-3)


@each("seed", [0, 5])
def test_the_profile_of_a_line_with_ordered_parameters_is_that_of_quadratic_programming(seed: int) -> None:
    x = np.linspace(0, 1, 12)
    y = 1 + 1.02 * x + 0.5 * x**2 + 0.05 * np.random.default_rng(seed).normal(size=12)
    fit = ad.fit("y ~ a + b*x + c*x^2", {"x": x, "y": y}, profile=True, bounds={"a": (None, "b")})
    line = np.column_stack((np.ones(12), x))

    def rss(c: float) -> float:
        rest = y - c * x**2
        a, b = np.linalg.lstsq(line, rest, rcond=None)[0]
        if a > b:  # the best fit has a = b
            a = b = np.sum(rest * (1 + x)) / np.sum((1 + x) ** 2)
        return float(np.sum((rest - a - b * x) ** 2))

    c, unit = fit.parameters["c"], rss(fit.parameters["c"]) / 9

    def height(value: float) -> float:
        return math.sqrt(max(rss(value) - 9 * unit, 0.0) / unit) - t.ppf(0.975, 9)

    wanted = brentq(height, c - 2, c, xtol=1e-12), brentq(height, c, c + 2, xtol=1e-12)
    assert fit.intervals["profile"]["c"] == pytest.approx(wanted, abs=1e-6)


@each("level, a, b", [
    (0.95, (1.354605, 3.165158), (0.325548, 2.124821)),
    (0.8, (2.133595, 3.037282), (0.463150, 1.363793)),
], quick=lambda level, a, b: level < 0.9)  # fmt: skip
def test_intervals_keep_an_order_of_parameters(level: float, a: Any, b: Any) -> None:
    x = np.linspace(0, 6, 14)
    y = 2 * np.exp(-0.4 * x) + 1.5 * np.exp(-1.2 * x) + 0.05 * np.random.default_rng(0).normal(size=14)
    options: dict[str, Any] = {"profile": True, "confidence": level, "bounds": {"k1": (0, "k2")}}
    fit = ad.fit("y ~ a*exp(-k1*x) + b*exp(-k2*x)", {"x": x, "y": y}, **options)
    # If the terms exchanged their places on the way, the limits of `a` and `b` would be the same.
    assert fit.intervals["profile"]["a"] == pytest.approx(a, rel=1e-4)
    assert fit.intervals["profile"]["b"] == pytest.approx(b, rel=1e-4)
    line = 1 + 1.04 * x + 0.05 * np.random.default_rng(0).normal(size=14)
    fit = ad.fit("y ~ a + b*x", {"x": x, "y": line}, bootstrap=50, bounds={"a": (None, "b")}, derive={"gap": "b - a"})
    assert fit.intervals["bootstrap"]["gap"][0] == 0  # free fits of some samples have a negative one
