"""Nonlinear fits with several minima end at the best one, as SciPy does from the true parameters."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import least_squares, minimize
from scipy.stats import gamma, poisson

from autodiff_cli import Objective, fit, fit_by
from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting import minimization
from autodiff_cli.training.fitting.minimization import MINIMIZATION, best_alternative, rank_gains
from autodiff_cli.training.fitting.optimization import BatchedFit, _describe_alternatives, _feasible_ends
from autodiff_cli.training.methods.gradient_descent import Outcome
from autodiff_cli.training.objective.batch import ObjectiveBatch, repeat_objective
from autodiff_cli.training.objective.loading import as_dataset
from autodiff_cli.training.objective.parameters import Bounds
from autodiff_cli.training.options import FitOptions
from tests.each import amount, each

TIMES = np.sort(np.random.default_rng(7).uniform(0, 20, 80))
COUNTS = "y ~ c - a*exp(-x/t)"
YIELD = "y ~ b0 + b1*(1 - exp(-x/t))/(x/t) + b2*((1 - exp(-x/t))/(x/t) - exp(-x/t))"
HOURS = np.array([0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12, 24])


class Problem(NamedTuple):
    """A model, its x, how to draw true parameters, the prediction, and the noise relative to its range."""

    model: str
    x: Any
    draw: Callable[[np.random.Generator], list[float]]
    predict: Callable[[Any, Any], Any]
    noise: float


PROBLEMS = {
    "absorption and elimination": Problem(
        "y ~ 320*ka*ke/(Cl*(ka - ke))*(exp(-ke*x) - exp(-ka*x))",
        HOURS,
        lambda g: [g.uniform(0.8, 3), g.uniform(0.03, 0.3), g.uniform(1, 5)],
        lambda p, x: 320 * p[0] * p[1] / (p[2] * (p[0] - p[1])) * (np.exp(-p[1] * x) - np.exp(-p[0] * x)),
        0.03,
    ),
    "water retention": Problem(
        "y ~ tr + (ts - tr)/(1 + (al*x)^n)^(1 - 1/n)",
        np.logspace(0, 4.2, 25),
        lambda g: [g.uniform(0.02, 0.1), g.uniform(0.35, 0.5), 10 ** g.uniform(-2.5, -1), g.uniform(1.2, 3)],
        lambda p, x: p[0] + (p[1] - p[0]) / (1 + (p[2] * x) ** p[3]) ** (1 - 1 / p[3]),
        0.01,
    ),
    "two binding sites": Problem(
        "y ~ b + (t - b)*(f/(1 + x/k1) + (1 - f)/(1 + x/k2))",
        np.logspace(-12, 4, 33),
        lambda g: [5, 100, g.uniform(0.3, 0.7), 10 ** g.uniform(-10, -6), 10 ** g.uniform(-3, 2)],
        lambda p, x: p[0] + (p[1] - p[0]) * (p[2] / (1 + x / p[3]) + (1 - p[2]) / (1 + x / p[4])),
        0.015,
    ),
    "growth over years": Problem(
        "y ~ a/(1 + b*exp(-c*x))",
        np.arange(1790, 2000, 10.0),
        lambda g: [g.uniform(200, 500), np.exp(0.03 * g.uniform(1880, 1950)), 0.03],
        lambda p, x: p[0] / (1 + p[1] * np.exp(-p[2] * x)),
        0.01,
    ),
    "Gompertz over years": Problem(
        "y ~ a*exp(-b*exp(-c*x))",
        np.arange(1900, 2020, 5.0),
        lambda g: [g.uniform(50, 500), np.exp(0.05 * g.uniform(1940, 1980)), 0.05],
        lambda p, x: p[0] * np.exp(-p[1] * np.exp(-p[2] * x)),
        0.01,
    ),
    "dose response": Problem(
        "y ~ b + (t - b)/(1 + (k/x)^h)",
        np.logspace(-9, -3, 25),
        lambda g: [g.uniform(0, 10), g.uniform(80, 120), 10 ** g.uniform(-7.5, -4.5), g.uniform(0.6, 3)],
        lambda p, x: p[0] + (p[1] - p[0]) / (1 + (p[2] / x) ** p[3]),
        0.02,
    ),
    "two decays": Problem(
        "y ~ a*exp(-k*x) + b*exp(-l*x)",
        np.logspace(-1.5, 2.3, 40),
        lambda g: [g.uniform(3, 8), 10 ** g.uniform(0, 0.8), g.uniform(2, 6), 10 ** g.uniform(-2, -1)],
        lambda p, x: p[0] * np.exp(-p[1] * x) + p[2] * np.exp(-p[3] * x),
        0.02,
    ),
    "two peaks": Problem(
        "y ~ a*exp(-((x - m)/s)^2) + b/(1 + ((x - n)/w)^2) + c",
        np.linspace(1000, 2000, 120),
        lambda g: [5, g.uniform(1150, 1350), g.uniform(10, 40), 3, g.uniform(1500, 1850), g.uniform(10, 60), 1],
        lambda p, x: p[0] * np.exp(-(((x - p[1]) / p[2]) ** 2)) + p[3] / (1 + ((x - p[4]) / p[5]) ** 2) + p[6],
        0.03,
    ),
    "overlapping peaks on a background": Problem(
        "y ~ a*exp(-(x - m)^2/(2*s^2)) + b*exp(-(x - n)^2/(2*w^2)) + c + d*x",
        np.linspace(400, 700, 100),
        lambda g: [
            30,
            (m := g.uniform(450, 600)),
            g.uniform(6, 20),
            15,
            m + g.uniform(30, 80),
            g.uniform(6, 30),
            9,
            0.01,
        ],
        lambda p, x: (
            p[0] * np.exp(-(((x - p[1]) / p[2]) ** 2) / 2)
            + p[3] * np.exp(-(((x - p[4]) / p[5]) ** 2) / 2)
            + p[6]
            + p[7] * x
        ),
        0.03,
    ),
    "beat": Problem(
        "y ~ A*sin(v*x)*cos(w*x) + m",
        np.linspace(0, 20, 60),
        lambda g: [2, g.uniform(1, 5), g.uniform(0.1, 0.9), 1],
        lambda p, x: p[0] * np.sin(p[1] * x) * np.cos(p[2] * x) + p[3],
        0.06,
    ),
    "damped beat at uneven times": Problem(
        "y ~ A*exp(-x/T)*sin(v*x)*cos(w*x) + m",
        TIMES,
        lambda g: [4, g.uniform(8, 20), g.uniform(2, 5), g.uniform(0.2, 0.9), 1],
        lambda p, x: p[0] * np.exp(-x / p[1]) * np.sin(p[2] * x) * np.cos(p[3] * x) + p[4],
        0.03,
    ),
    "frequency modulation": Problem(
        "y ~ A*sin(v*x + b*sin(w*x)) + m",
        TIMES,
        lambda g: [2, g.uniform(2, 5), g.uniform(0.5, 2), g.uniform(0.3, 1), 1],
        lambda p, x: p[0] * np.sin(p[1] * x + p[2] * np.sin(p[3] * x)) + p[4],
        0.05,
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.exhaustive) for k in range(1, 5))])
def test_a_fit_is_as_good_as_from_the_true_parameters(name: str, seed: int) -> None:
    problem, generator = PROBLEMS[name], np.random.default_rng(seed)
    truth = np.array(problem.draw(generator))
    exact = problem.predict(truth, problem.x)
    y = exact + generator.normal(0, problem.noise * np.ptp(exact), len(exact))
    with np.errstate(all="ignore"):
        best = least_squares(lambda u: problem.predict(u * truth, problem.x) - y, np.ones(len(truth)), method="lm")
    found = fit(problem.model, {"x": problem.x, "y": y})
    assert found.rss < 2 * best.cost * 1.001


@pytest.mark.slow
def test_the_least_minimum_is_found_although_much_noise_hides_it() -> None:
    """A step on a line, whose default start leads to another curve, which explains 90 % of the variation too."""
    x = np.linspace(0, 100, 60)
    for seed in (58, 70, 132):
        generator = np.random.default_rng(seed)
        low, high = (0, -0.05, 3, 30, 1), (10, 0.05, 10, 70, 6)
        a, b, c, m, w = (generator.uniform(*ends) for ends in zip(low, high, strict=True))
        exact = a + b * x + c / (1 + np.exp(-(x - m) / w))
        y = exact + 0.3 * np.std(exact) * generator.normal(size=len(x))
        model = "y ~ a + b*x + c/(1 + exp(-(x - m)/w))"
        from_truth = fit(model, {"x": x, "y": y}, start={"a": a, "b": b, "c": c, "m": m, "w": w})
        assert fit(model, {"x": x, "y": y}).rss <= from_truth.rss * (1 + 1e-6)


@pytest.mark.slow
@each(("peaks", "seed"), [(1, 23), (2, 17), (2, 3)])
def test_a_few_rows_near_a_wrong_minimum_do_not_hide_a_better_one(peaks: int, seed: int) -> None:
    """The residuals of so few rows look random, and R² is high, wherever the fit ended."""
    generator = np.random.default_rng(seed)
    x = np.sort(generator.uniform(0.1, 10, int(generator.integers(12, 25))))
    ranges = [(2, 10), (1, 4.5), (0.3, 1), (2, 10), (5.5, 9), (0.3, 1)]
    if peaks == 1:
        ranges = [(-10, 10), (1, 9), (0.3, 1.5), (-3, 3), (-0.5, 0.5)]
    truth = np.array([generator.uniform(*ends) for ends in ranges])

    def predict(p: np.ndarray) -> np.ndarray:
        rest = p[3] + p[4] * x if peaks == 1 else p[3] * np.exp(-(((x - p[4]) / p[5]) ** 2))
        return np.asarray(p[0] * np.exp(-(((x - p[1]) / p[2]) ** 2)) + rest)

    y = predict(truth) + 0.05 * np.ptp(predict(truth)) * generator.normal(size=len(x))
    with np.errstate(all="ignore"):
        best = least_squares(lambda u: predict(u * truth) - y, np.ones(len(truth)), method="lm")
    rest = "c + d*x" if peaks == 1 else "b*exp(-((x - n)/t)^2)"
    assert fit(f"y ~ a*exp(-((x - m)/s)^2) + {rest}", {"x": x, "y": y}).rss < 2 * best.cost * 1.001


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4, 10, 11])
def test_a_wrong_curve_that_explains_nearly_all_of_a_few_rows_does_not_end_the_search(seed: int) -> None:
    """R² is above 0.9999 at the second best minimum, because six parameters fit fifteen rows well."""
    generator, x = np.random.default_rng(seed), np.linspace(0.1, 10, 15)
    a, b, c, d, e, f = (generator.uniform(*ends) for ends in ((1, 4), (-1, 1), (0.2, 1), (2, 6), (0.5, 2), (-2, 2)))
    exact = a * np.arctan(b + c * x) + d / (1 + (e * x) ** 2) + f
    data = {"x": x, "y": exact + 0.01 * np.std(exact) * generator.normal(size=len(x))}
    start = {"a": a, "b": b, "c": c, "d": d, "e": e, "f": f}
    model = "y ~ a*atan(b + c*x) + d/(1 + (e*x)^2) + f"
    assert fit(model, data).rss <= fit(model, data, start=start).rss * (1 + 1e-6)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("seed", [19, 2, 7])
def test_two_close_frequencies_in_a_sum_are_found_together(seed: int) -> None:
    """In about one beat of the two, one sinusoid explains much of both, so a scan of each in turn ends elsewhere."""
    generator = np.random.default_rng(seed)
    n = int(generator.integers(12, 21))
    x = np.sort(generator.uniform(0, 10, n)) if seed % 2 else np.linspace(0, 10, n)
    low, high = np.sort(generator.uniform(0.5, 3, 2))
    ends = (0.5, 3), (-3, 3), (0.5, 3), (-3, 3)
    a, p, b, q = (generator.uniform(*each) for each in ends)
    truth = np.array([a, low, p, b, max(high, low + 0.7), q])

    def predict(u: np.ndarray) -> np.ndarray:
        return np.asarray(u[0] * np.sin(u[1] * x + u[2]) + u[3] * np.sin(u[4] * x + u[5]))

    y = predict(truth) + generator.normal(0, 0.1, n)
    best = least_squares(lambda u: predict(u) - y, truth, x_scale="jac")
    assert fit("y ~ a*sin(w1*x + p1) + b*sin(w2*x + p2)", {"x": x, "y": y}).rss < 2 * best.cost * 1.001


@pytest.mark.slow
def test_counts_end_at_the_least_minimum_alone_and_in_groups() -> None:
    """Saturation curves whose default start, a time constant of 1 for hours of data, is flat at another minimum."""
    x = np.linspace(0, 3600, 40)
    columns: dict[str, list[Any]] = {"x": [], "y": [], "group": []}
    least = []
    for seed in (1, 3, 5, 6, 19, 29):
        generator = np.random.default_rng(seed)
        c, a, t = generator.uniform(10, 20), generator.uniform(3, 9), generator.uniform(100, 1200)
        y = generator.poisson(c - a * np.exp(-x / t)).astype(float)
        data: dict[str, Any] = {"x": x, "y": y}
        least.append(fit(COUNTS, data, start={"c": c, "a": a, "t": t}, family="poisson").loss)
        assert fit(COUNTS, data, family="poisson").loss <= least[-1] + 1e-5
        columns = {name: [*cells, *data.get(name, [seed] * 40)] for name, cells in columns.items()}
    for group, loss in zip(fit_by(COUNTS, columns, "group", family="poisson"), least, strict=True):
        assert group.fit is not None
        assert group.fit.loss <= loss + 1e-5


@pytest.mark.slow
def test_classes_end_at_the_least_minimum_although_least_squares_leads_to_impossible_probabilities() -> None:
    """A probability with a peak, and one that falls, whose least squares of 0 and 1 go below 0 or beyond 1."""
    generator, x = np.random.default_rng(2), np.linspace(0, 100, 60)
    a, m, s, b = (generator.uniform(*ends) for ends in ((0.4, 0.8), (20, 80), (4, 15), (0.04, 0.16)))
    y = (generator.random(60) < b + a * np.exp(-(((x - m) / s) ** 2) / 2)).astype(float)
    model, start = "y ~ b + a*exp(-((x - m)/s)^2/2)", {"a": a, "m": m, "s": s, "b": b}
    found = fit(model, {"x": x, "y": y}, family="binomial")
    assert found.converged
    assert found.loss <= fit(model, {"x": x, "y": y}, start=start, family="binomial").loss + 1e-5

    generator, x = np.random.default_rng(14), np.linspace(0, 3600, 40)
    c, a, t = (generator.uniform(*ends) for ends in ((0.4, 0.8), (0.12, 0.36), (100, 1200)))
    y = (generator.random(40) < c - a * np.exp(-x / t)).astype(float)
    found = fit("y ~ c - a*exp(-x/t)", {"x": x, "y": y}, family="binomial")
    from_truth = fit("y ~ c - a*exp(-x/t)", {"x": x, "y": y}, start={"c": c, "a": a, "t": t}, family="binomial")
    assert found.loss <= from_truth.loss


@pytest.mark.sampled
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"starts": 10},
        {"loss": "huber"},
        {"priors": {"a": "normal(0, 10)"}},
        {"l1": 1e-6, "starts": 10},
        {"l2": 1e-6},
    ],
)
@pytest.mark.parametrize(("second", "has_alternative"), [(1.0, True), (0.5, False)])
def test_a_warning_names_another_minimum_that_is_nearly_as_likely(
    second: float, has_alternative: bool, options: dict[str, Any]
) -> None:
    """One peak is fitted to two, of equal heights or not."""
    x = np.linspace(0, 10, 60)
    noise = np.random.default_rng(1).normal(0, 0.2, 60)
    y = np.exp(-4 * (x - 1) ** 2) + second * np.exp(-4 * (x - 9) ** 2) + noise
    found = fit("y ~ a*exp(-(x - m)^2/(2*s^2))", {"x": x, "y": y}, **options)
    alternatives = [
        each for each in found.warnings if each.startswith("another minimum is nearly as likely (likelihood")
    ]
    assert len(alternatives) == has_alternative
    assert all(", m = 8.98" in each for each in alternatives)


def test_the_end_that_a_better_one_replaces_is_another_minimum() -> None:
    x = np.linspace(0, 10, 60)
    y = np.exp(-4 * (x - 1) ** 2) + 0.97 * np.exp(-4 * (x - 9) ** 2) + np.random.default_rng(1).normal(0, 0.2, 60)
    start = {"a": 1, "m": 8.9, "s": 0.4}
    objective = Objective("y ~ a*exp(-(x - m)^2/(2*s^2))", {"x": x, "y": y}, start=start)
    batch = BatchedFit(ObjectiveBatch([objective]), "lm", FitOptions())
    assert batch.theta[0, 1] == pytest.approx(9, abs=0.1)
    batch.alternatives[0].append(np.array([1, 1.1, 0.4]))
    ((warning,),) = batch.resolve_alternatives()
    assert batch.theta[0, 1] == pytest.approx(1, abs=0.1)
    assert warning.startswith("another minimum is nearly as likely")
    assert ", m = 8.9" in warning


@each("priors", [None, {"k1": "normal(1.2, 0.1)"}])
def test_terms_of_refits_are_in_the_same_order_unless_they_have_different_priors(priors: dict | None) -> None:
    x = np.linspace(0, 6, 14)
    data = {"x": x, "y": 2 * np.exp(-0.4 * x) + 1.5 * np.exp(-1.2 * x) + 0.01 * np.cos(9 * np.arange(14))}
    model = "y ~ a*exp(-k1*x) + b*exp(-k2*x)"
    objective = Objective.of(model, as_dataset(data), FitOptions(priors=priors))
    exchanged = Outcome(np.array([1.5, 1.2, 2.0, 0.4]), True)
    (end,) = _feasible_ends(repeat_objective(objective, 1), [exchanged])
    assert end.theta.tolist() == ([1.5, 1.2, 2, 0.4] if priors else [2, 0.4, 1.5, 1.2])


def test_another_minimum_is_within_the_order_and_the_bounds_of_parameters() -> None:
    """Without bounds, it is at k2 = 88."""
    n = [39, 22, 29, 20, 27, 13, 12, 7, 8, 4, 11, 5, 3, 7, 8, 3, 2, 1, 5, 3, 5, 2, 0, 2, 2]
    data = {"x": np.linspace(0, 6, 25), "n": n}
    limits = {"k1": (0, "k2"), "k2": (None, 5)}
    found = fit("n ~ a*exp(-k1*x) + b*exp(-k2*x)", data, family="poisson", bounds=limits)
    (warning,) = (each for each in found.warnings if each.startswith("another minimum is nearly as likely"))
    ratio, a, k1, b, k2 = map(float, re.findall(r"(?:ratio|=) ([\d.]+)", warning))
    assert 0 <= k1 <= k2 == 5
    here, there = (
        np.sum(poisson.logpmf(n, p["a"] * np.exp(-p["k1"] * data["x"]) + p["b"] * np.exp(-p["k2"] * data["x"])))
        for p in (found.parameters, {"a": a, "k1": k1, "b": b, "k2": k2})
    )
    assert math.exp(here - there) == pytest.approx(ratio, rel=0.01)


@each("second, words", [(0.97, ["another minimum is nearly as likely"]), (0.7, [])])
def test_of_two_minima_the_other_one_is_nearly_as_likely_or_likelier(second: float, words: list[str]) -> None:
    x, model = np.linspace(0, 10, 60), "y ~ a*exp(-(x - m)^2/(2*s^2))"
    y = np.exp(-4 * (x - 1) ** 2) + second * np.exp(-4 * (x - 9) ** 2) + np.random.default_rng(1).normal(0, 0.2, 60)
    objective = Objective(model, {"x": x, "y": y})
    starts = np.array([[1.0, 1.0, 0.35], [second, 9.0, 0.35]])
    ends = np.array([end.theta for end in minimization.minimize_batch("lm", repeat_objective(objective, 2), starts)])
    for points, wanted in (
        (ends, words),
        (ends[::-1], ["another minimum, where the median of the residuals is larger"]),
    ):
        warnings, _ = _describe_alternatives(objective, points)
        assert len(warnings) == len(wanted)
        assert all(map(str.startswith, warnings, wanted))


PEAK = "y ~ b + a*exp(-(x - m)^2/(2*s^2))"
PLACES = np.linspace(0, 10, 60)
TWO_PEAKS = np.exp(-4 * (PLACES - 1) ** 2) + 0.95 * np.exp(-4 * (PLACES - 9) ** 2)


@pytest.mark.slow
@each("sigma", [0.05, 1.0])
def test_known_errors_decide_whether_another_minimum_is_nearly_as_likely(sigma: float) -> None:
    """Chi-squared decides then, whatever the scatter of the residuals."""
    y = TWO_PEAKS + np.random.default_rng(1).normal(0, 0.2, 60)
    data = {"x": PLACES, "y": y, "error": np.full(60, sigma)}
    options: dict[str, Any] = {"sigma": "error", "absolute_sigma": True}
    starts = ({"a": 1.0, "m": m, "s": 0.35, "b": 0.0} for m in (1.0, 9.0))
    one, other = (fit(PEAK, data, start=start, **options).rss / 2 for start in starts)
    alternatives = [each for each in fit(PEAK, data, **options).warnings if each.startswith("another minimum")]
    ratio = float(np.exp(min(abs(one - other), 100)))
    assert len(alternatives) == (ratio < 20)
    assert all(f"likelihood ratio {ratio:.3g})" in each for each in alternatives)


def test_numbers_of_trials_decide_whether_another_minimum_is_nearly_as_likely() -> None:
    """With 50 trials in each row, the likelihoods of two peaks of proportions differ by a factor of 10⁸."""
    trials = np.full(60, 50.0)
    share = np.random.default_rng(1).binomial(50, 0.2 + 0.5 * TWO_PEAKS) / 50
    found = fit(PEAK, {"x": PLACES, "y": share, "n": trials}, family="binomial", weights="n")
    assert not any(each.startswith("another minimum") for each in found.warnings)


@pytest.mark.slow
def test_negative_binomial_fits_are_compared_with_their_own_theta() -> None:
    """Of two peaks of counts one is fitted, or the valley between them, whose counts scatter less."""
    counts = np.random.default_rng(3).poisson(2 + 20 * TWO_PEAKS / 0.95).astype(float)
    data = {"x": PLACES, "y": counts}
    starts = ({"a": a, "m": m, "s": 1.0, "b": 10.0} for a, m in ((20.0, 1.0), (20.0, 9.0), (-8.0, 5.0)))
    best = max(fit(PEAK, data, family="negative_binomial", start=start).log_likelihood or 0 for start in starts)
    assert fit(PEAK, data, family="negative_binomial").log_likelihood >= best - 1e-3


@pytest.mark.slow
@each("options", [{}, {"optimizer": "lbfgs"}, {"loss": "huber"}, {"family": "poisson"}])
def test_a_given_start_without_slopes_and_curvatures_is_left(options: dict[str, Any]) -> None:
    data = {"x": np.arange(1, 9), "y": np.round(np.exp(0.3 * np.arange(1, 9)))}
    found = fit("y ~ exp(a^2*b^2*x/10)", data, start={"a": 0, "b": 0}, **options)
    assert found.parameters["a"] * found.parameters["b"] == pytest.approx(3**0.5, rel=0.02)


RANKED = {"x": np.arange(1.0, 9), "y": np.array([0.3, -0.2, 0.5, 0.1, -0.6, 0.2, 0.4, -0.3])}


@each("loss", ["mse", "huber", "mae"])
def test_all_searches_rank_ends_alike(loss: str) -> None:
    """What one end gains on another, the other loses; a pole between rows counts as an exclusion, 20 to 1."""
    objective = Objective("y ~ a + b/(x - c)", RANKED, loss=loss)
    whole, broken = np.array([[0.05, 1e-3, 0.4], [0.05, 1e-3, 4.4]])
    for batch in (ObjectiveBatch([objective]), repeat_objective(objective, 1)):
        gain = rank_gains(batch, whole[None], broken[None])
        assert gain == pytest.approx([-MINIMIZATION.exclusion], abs=0.05)
        assert rank_gains(batch, broken[None], whole[None]) == pytest.approx(-gain)
        assert rank_gains(batch, np.array([[1, 1e-3, 0.4]]), whole[None]) > MINIMIZATION.clear_gain
    assert best_alternative(objective, Outcome(whole, True), [broken, whole]) is None
    assert best_alternative(objective, Outcome(broken, True), [broken, whole]) is whole


def test_a_likelihood_without_a_limit_ranks_below_any_minimum() -> None:
    model = "-log(0.5*normal_pdf(y, 0, 1) + 0.5*normal_pdf(y, m, s))"
    objective = Objective.of(model, as_dataset(RANKED), FitOptions(likelihood=True))
    minimum, spike = np.array([[0.05, 0.4], [0.3, 1e-12]])
    assert objective.value(spike) < objective.value(minimum)
    assert best_alternative(objective, Outcome(minimum, True), [spike]) is None
    assert best_alternative(objective, Outcome(spike, True), [minimum]) is minimum


def test_a_parameter_without_effect_takes_no_digits_from_the_others() -> None:
    """Neither one that has none anywhere, nor `a` of `a^2`, which is best at 0."""
    x = np.linspace(0, 4, 30)
    data = {"x": x, "y": 2.5 * np.exp(-1.3 * x) - 0.1 * x + 0.4 * np.sin(9 * x)}
    wanted = fit("y ~ b*exp(-c*x)", data, optimizer="lm").parameters
    for rest in ("0*a", "a^4*x", "relu(a - 9)*x", "a^2*x")[: amount(3, 4, 4)]:
        found = fit(f"y ~ b*exp(-c*x) + {rest}", data, optimizer="lm")
        assert found.converged
        for name, value in wanted.items():
            assert found.parameters[name] == pytest.approx(value, rel=1e-12), rest


# --- How ends are compared, and what makes an end a minimum


def test_ends_are_equal_up_to_signs_and_order_within_a_hundredth() -> None:
    ends = np.array([[1.0, -2.0, 300.0]])
    for other, is_equal in (
        ([300.0, 2.0, -1.0], True),
        ([300.0, 2.0, 1.009], True),
        ([300.0, 2.0, 1.011], False),
        ([-303.1, 2.0, 1.0], False),
        ([300.0, 2.0, 2.0], False),
    ):
        assert minimization.are_equal_solutions(ends, np.array([other])).tolist() == [is_equal]


SCATTER = {"x": np.arange(8.0), "y": np.array([0.1, 2.0, 2.1, 3.3, 4.2, 4.8, 6.3, 9.0])}


@each("loss", ["mse", "absolute", "mae", "huber", "cauchy", "poisson"])
@each("weights", [None, np.arange(1.0, 9)])
def test_gains_are_differences_of_log_likelihoods(loss: str, weights: Any) -> None:
    """Of normal errors with a known or estimated variance, of Laplace's distribution, or of the loss itself."""
    known: dict[str, Any] = {"sigma": 0.3 if weights is None else weights, "absolute_sigma": True}
    options = FitOptions(**(known if loss == "absolute" else {"weights": weights, "loss": loss}))
    objective = Objective.of("y ~ a*x + b", as_dataset(SCATTER), options)
    total, gain = objective.total_weight, np.log(0.7 / 0.4)
    wanted = {
        "mse": 8 * gain / 2,
        "absolute": total * 0.3 / 2,
        "mae": 8 * gain,
        "huber": 8 * gain / 2 if objective.is_scale_estimated else total * 0.3 / objective.scale**2,
        "poisson": total * 0.3,
    }
    for batch in (ObjectiveBatch([objective]), repeat_objective(objective, 1)):
        found = minimization.likelihood_gains(batch, np.array([0.7]), np.array([0.4]))[0]
        assert found == pytest.approx(wanted["huber" if loss == "cauchy" else loss], rel=1e-12)


@each(
    "names, share",
    [*itertools.product(["a", "ab", "abc"], [0.05, 0.5, 0.999, 1.001, 3.0])],
    quick=lambda names, share: names == "a" if share in (0.999, 3) else names == "abc",
)
def test_an_l1_penalty_sets_to_0_what_the_lasso_does(names: str, share: float) -> None:
    """Coordinate descent (Tibshirani 1996), also where all parameters are 0: above the largest slope there."""
    generator = np.random.default_rng(len(names))
    columns = generator.normal(size=(len(names), 12))
    y = 2 * columns[0] + 0.5 * generator.normal(size=12)
    penalty = share * 2 * np.abs(columns @ y).max() / 12
    wanted = np.zeros(len(names))
    for k in [*range(len(names))] * 200:
        rest = y - wanted @ columns + wanted[k] * columns[k]
        slope = columns[k] @ rest / 12
        wanted[k] = np.sign(slope) * max(abs(slope) - penalty / 2, 0) / np.mean(columns[k] ** 2)
    model = "y ~ " + " + ".join(f"{name}*{name}x" for name in names)
    found = fit(
        model, {"y": y, **{f"{name}x": column for name, column in zip(names, columns, strict=True)}}, l1=penalty
    )
    assert found.converged
    assert [value == 0 for value in found.parameters.values()] == (wanted == 0).tolist()
    assert [*found.parameters.values()] == pytest.approx(wanted, rel=1e-4, abs=1e-9)


@each("unit", [1e-6, 1.0, 1e6])
def test_scales_are_extrapolated_to_where_the_estimate_is_the_scale(unit: float) -> None:
    """With a straight relation of logarithms the secant method meets the fixed point in its second round."""
    gaps, fits = np.full((2, 1), np.nan), np.arange(1)

    def estimate(scale: Any) -> Any:
        return unit * (scale / unit) ** 0.6 * 1.02

    scale = np.array([unit])
    for _ in range(2):
        scale = minimization._next_scales(scale, estimate(scale), gaps, fits)
    assert scale[0] / unit == pytest.approx(1.02 ** (1 / 0.4), rel=1e-9)
    far = minimization._next_scales(np.array([unit]), np.array([5 * unit]), np.full((2, 1), np.nan), fits)
    assert far[0] == pytest.approx(5 * unit)  # a first estimate is taken as it is


KINKED: list[tuple[str, dict[str, float], bool]] = [
    ("abs(a - x) + 2*abs(b - 3)", {"a": 2.0, "b": 3.0}, True),
    ("abs(a - x) + 2*abs(b - 3)", {"a": 2.0, "b": 3.1}, False),
    ("abs(a - x) + 2*abs(b - 3)", {"a": 2.5, "b": 3.0}, False),
    ("max(0.7*(x - a), 0.3*(a - x)) + 0*b", {"a": 3.0, "b": 1.0}, True),
    ("max(0.7*(x - a), 0.3*(a - x)) + 0*b", {"a": 2.0, "b": 1.0}, False),
    ("abs(a - b) + 0.1*a + abs(b - x)", {"a": 2.0, "b": 2.0}, True),
]


@each("model, theta, is_minimum", KINKED)
@each("unit", [1e-4, 1.0, 1e4])
def test_a_point_is_a_minimum_at_a_kink_if_gradients_around_it_cancel(
    model: str, theta: dict[str, float], is_minimum: bool, unit: float
) -> None:
    objective = Objective(f"({model})*{unit}", {"x": np.array([1.0, 2.0, 3.0])}, start=theta)
    point = np.array([theta[name] for name in objective.parameters])
    radius = 1e-6 * np.maximum(np.abs(point), 1)
    assert bool(minimization._kinks_around(objective, point, radius)) is is_minimum


@each("end, words", [
    ({"m": 2.0, "s": 1.0}, ""),
    ({"m": 2.0, "s": 1e-12}, "it decreases without bound as `s` goes to 0, where the model is infinite or undefined"),
    ({"m": 2e9, "s": 0.1}, "it decreases without bound as `s` goes to 0, where the model is infinite or undefined"),
])  # fmt: skip
def test_a_width_that_shrank_to_0_has_no_likelihood(end: dict[str, float], words: str) -> None:
    objective = Objective("-normal_logpdf(y, m, s)", SCATTER, likelihood=True)
    assert minimization.unbounded_reason(objective, np.array([*end.values()])) == words
    assert minimization.solution_loss(objective, np.array([*end.values()])) == (
        float("inf") if words else objective.value(np.array([*end.values()]))
    )


@each("sign", [1, -1])
def test_a_parameter_that_larger_values_only_make_likelier_has_no_estimate(sign: int) -> None:
    found = fit(f"log(1 + exp(-{sign}*a*x))", {"x": np.array([1.0, 2.0])}, likelihood=True)
    end = "infinity" if sign > 0 else "minus infinity"
    reason = f"the loss has no minimum: it does not rise again as `a` goes to {end}, so the data set no limit to it"
    assert (found.converged, found.warnings[-1], found.stderr["a"]) == (False, reason, None)
    assert fit(f"log(1 + exp(-{sign}*a*x))", {"x": np.array([1.0, 2.0, -3.0])}, likelihood=True).converged
    flat = Objective("0*a*x", {"x": np.array([1.0, 2.0])}, likelihood=True)
    assert minimization.unbounded_reason(flat, np.array([1.0])) == "it is flat here: no parameter changes it"


MISSED_LIMITS = [  # random data whose fits were once reported as converged
    ("bce", "atan", 7), ("bce", "atan", 21), ("bce", "tanh", 9), ("bce", "tanh", 18), ("bce", "erf", 12),
    ("mse", "exp", 15), ("huber", "exp", 15), ("huber", "erf", 19),
    ("poisson", "atan", 18), ("poisson", "exp", 5), ("poisson", "exp", 8),
]  # fmt: skip


@each("loss, function, seed", MISSED_LIMITS, quick=lambda *case: case[1:] in [("tanh", 9), ("exp", 15), ("exp", 8)])
def test_a_curve_through_a_jump_without_an_error_is_better_than_steeper_ones(
    loss: str, function: str, seed: int
) -> None:
    """Those whose argument in one of the rows beside the jump is the same, which may be saturated in all others."""
    generator = np.random.default_rng(seed)
    x = np.sort(generator.uniform(0, 5, generator.integers(8, 40))).round(2)
    is_high = x > generator.uniform(1.5, 3.5)
    draw: dict[str, Callable[[], Any]] = {
        "bce": lambda: 1.0 * (generator.random(len(x)) < np.where(is_high, 0.95, 0.05)),
        "poisson": lambda: 1.0 * generator.poisson(np.where(is_high, 12.0, 1.5)),
    }
    noise = generator.choice([0.05, 0.3])
    data = {"x": x, "y": draw.get(loss, lambda: np.where(is_high, 3.0, 0.5) + generator.normal(0, noise, len(x)))()}
    argument = "k*(x - m)" if function != "exp" else "-exp(k*(x - m))"
    model = f"y ~ {0.5 if loss == 'bce' else 'a'} + c*{function}({argument})"
    found = fit(model, data, loss=loss)
    scale = {"scale": found.scale} if loss == "huber" else {}
    objective = Objective(model, data, loss=loss, **scale)

    def value(**changes: float) -> float:
        return objective.value(np.array([{**found.parameters, **changes}[name] for name in objective.parameters]))

    k, m, error = found.parameters["k"], found.parameters["m"], found.stderr["k"]
    steeper = [value(k=8 * k, m=row - (row - m) / 8) for row in x[np.argsort(np.abs(x - m))[:2]]]
    is_precise = error is not None and error < 10 * abs(k)
    assert is_precise or not found.converged or min(steeper) > value() + 1e-9 * abs(value())


@each("counts, has_limit", [([1.0, 9, 2, 14, 0, 6], True), ([5.0, 6, 4, 5, 6, 4], False)])
def test_the_size_of_negative_binomial_counts_is_finite_only_if_they_scatter_more_than_poisson_counts(
    counts: list[float], has_limit: bool
) -> None:
    """A classical result: the likelihood has a finite maximum if and only if the variance is larger than the mean."""
    model = "lgamma(k) + lgamma(y + 1) - lgamma(y + k) - k*log(k/(k + m)) - y*log(m/(k + m))"
    found = fit(model, {"y": np.array(counts)}, likelihood=True, bounds={"k": (0, None), "m": (0, None)})
    assert found.converged == has_limit == bool(np.var(counts) > np.mean(counts))
    assert has_limit or "as `k` goes to infinity" in found.warnings[-1]
    assert (found.stderr["k"] is not None) == has_limit


def test_a_fit_that_failed_or_is_undetermined_or_on_a_bound_is_no_minimum() -> None:
    objective, theta = Objective("y ~ a*x + b", SCATTER), np.polyfit(SCATTER["x"], SCATTER["y"], 1)
    assert not minimization.is_no_minimum(objective, Outcome(theta, True))
    assert minimization.is_no_minimum(objective, Outcome(theta, False))
    bounded = Objective("y ~ a*x + b", SCATTER, bounds={"b": (theta[1], None)})
    assert minimization.is_no_minimum(bounded, Outcome(theta, True))
    undetermined = Objective("y ~ a*x + b + c", SCATTER)
    assert minimization.is_no_minimum(undetermined, Outcome(np.array([*theta, 0.0]), True))


def test_linear_parameters_are_fitted_for_every_point() -> None:
    objective = Objective("y ~ a*exp(-b*x) + c*x", SCATTER)
    points = np.array([[5.0, 0.3, -4.0], [1.0, 1.0, 1.0], [1.0, -400.0, 1.0]])
    adjusted = np.array([True, False, True])
    theta, remaining = minimization.project_linear(objective, points, adjusted, Bounds.unbounded(3))
    assert theta[:, 1].tolist() == [0.3, 1.0]
    for (a, b, c), left in zip(theta, remaining, strict=True):
        columns = np.stack([np.exp(-b * SCATTER["x"]), SCATTER["x"]], axis=1)
        wanted, (rss,), *_ = np.linalg.lstsq(columns, SCATTER["y"])
        assert [a, c] == pytest.approx(wanted, rel=1e-9)
        assert left == pytest.approx(rss, rel=1e-9)
    box = Bounds(np.array([-np.inf, -np.inf, -np.inf]), np.array([0.5, np.inf, np.inf]))
    bounded, _ = minimization.project_linear(objective, points, adjusted, box)
    assert (bounded[:, 0] <= 0.5).all()


def test_shares_are_fractions_of_what_is_left_and_back() -> None:
    model = "-log(v*normal_pdf(y, 1, 1) + w*normal_pdf(y, 4, 1) + (1 - v - w)*normal_pdf(y, 8, 1))"
    objective = Objective(model, SCATTER, likelihood=True)
    fractions = np.array([[0.2, 0.5], [0.9, 0.9]])
    shares = minimization.stick_breaking_shares(objective, fractions)
    np.testing.assert_allclose(shares, [[0.2, 0.4], [0.9, 0.09]])
    for one, other in zip(fractions, shares, strict=True):
        np.testing.assert_allclose(minimization.stick_breaking_fractions(objective, other), one, rtol=1e-12)
    np.testing.assert_array_equal(minimization.stick_breaking_fractions(objective, np.array([1.0, 0.0])), [1, 0])
    broken = minimization.with_stick_breaking(objective)
    for one, other in zip(fractions, shares, strict=True):
        assert broken.value(one) == pytest.approx(objective.value(other), rel=1e-12)
    assert objective.constraints.are_met(shares[1])
    assert minimization.solution_loss(objective, np.array([0.7, 0.5])) == float("inf")


@each("change, message", [
    ({"loss": "huber"}, "lm minimises squared residuals"),
    ({"l1": 0.1}, "lm cannot minimise an l1 penalty"),
])  # fmt: skip
def test_least_squares_are_refused_where_there_are_none(change: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        minimization.choose_method(FitOptions(optimizer="lm", **change), Objective("y ~ a*x", SCATTER, **change))


def test_the_method_is_chosen_by_loss_penalty_and_size() -> None:
    chosen = {
        "lm": ({}, {"sigma": 0.1}, {"l2": 0.1}),
        "lbfgs": ({"l1": 0.1}, {"loss": "huber"}, {"loss": "poisson"}),
        "adam": ({"batch_size": 4},),
    }
    for method, several in chosen.items():
        for options in several:
            of_objective = {name: value for name, value in options.items() if name != "batch_size"}
            found = minimization.choose_method(FitOptions(**options), Objective("y ~ a*x", SCATTER, **of_objective))
            assert found == method
    assert minimization.choose_method(FitOptions(), Objective("y ~ mlp(x, [2], tanh)", SCATTER)) == "adam"
    assert minimization.choose_method(FitOptions(optimizer="sgd"), Objective("y ~ a*x", SCATTER)) == "sgd"


def test_fits_with_priors_are_compared_by_their_posterior_density() -> None:
    """The variance that maximises it, times exp(-2/n*log prior), so that half of n times its logarithm counts."""
    options = FitOptions(priors={"a": "normal(1, 0.2)"})
    objective = Objective.of("y ~ a*x + b", as_dataset(SCATTER), options)
    points = np.array([[1.1, 0.2], [0.9, 0.5]])
    batch = ObjectiveBatch([objective, objective.with_rows(objective.data)])
    found = minimization.comparison_losses(batch, points)
    rss = [np.sum((SCATTER["y"] - a * SCATTER["x"] - b) ** 2) for a, b in points]
    priors = [-(((a - 1) / 0.2) ** 2) / 2 - np.log(0.2 * np.sqrt(2 * np.pi)) for a, _ in points]
    np.testing.assert_allclose(found, np.array(rss) / 8 * np.exp(-2 / 8 * np.array(priors)), rtol=1e-9)


@each("options", [{"sigma": 0.3, "absolute_sigma": True}, {"family": "poisson"}])
def test_fits_without_a_scale_are_compared_by_posterior_densities_that_are_limited_where_a_prior_is_infinite(
    options: dict[str, Any],
) -> None:
    data = {"x": SCATTER["x"], "y": np.rint(SCATTER["y"])}
    objective = Objective.of("y ~ a*x + b", as_dataset(data), FitOptions(priors={"a": "gamma(0.5, 1)"}, **options))
    points = np.array([[1.1, 0.2], [0.9, 0.5], [1e-40, 2.0]])
    batch = repeat_objective(objective, 3)
    likely = objective.likely_bounds(objective.bounds).clip(points)
    excess = gamma.logpdf(points[:, 0], 0.5) - gamma.logpdf(likely[:, 0], 0.5)
    assert (excess > 1).tolist() == [False, False, True]
    unit = 1 / 8 if "family" in options else 2 * 0.3**2 / 8
    expected = batch.losses(points, np.arange(3)) + unit * np.maximum(excess, 0)
    np.testing.assert_allclose(minimization.comparison_losses(batch, points), expected, rtol=1e-9)


@each("loss", ["huber", "cauchy"])
def test_robust_fits_are_compared_by_the_squares_of_their_scales_or_at_the_smallest_scale(loss: str) -> None:
    objective = Objective.of("y ~ a*x + b", as_dataset(SCATTER), FitOptions(loss=loss))
    point = np.array([[1.1, 0.2]])
    residuals = SCATTER["y"] - 1.1 * SCATTER["x"] - 0.2
    scale = 1.482602218505602 * np.median(np.abs(residuals))
    for batch in (ObjectiveBatch([objective]), repeat_objective(objective, 1)):
        assert minimization.comparison_losses(batch, point)[0] == pytest.approx(scale**2, rel=1e-9)
        assert batch.scales[0] == 1.0
    size = np.abs([residuals, SCATTER["y"] - SCATTER["x"] - 2.2]) / scale  # the second line has a larger scale
    rho = np.where(size <= 1.345, size**2 / 2, 1.345 * (size - 1.345 / 2)) if loss == "huber" else np.log1p(size**2)
    densities = minimization.density_losses(objective, np.array([[1.1, 0.2], [1, 2.2]]))
    assert 8 / 2 * np.log(densities[1] / densities[0]) == pytest.approx(rho[1].sum() - rho[0].sum(), rel=1e-9)
    undefined = Objective("y ~ a*log(x - b)", SCATTER)
    assert minimization.comparison_losses(ObjectiveBatch([undefined]), np.array([[1.0, 3.0]]))[0] == np.inf


@each("seed", range(12), quick=lambda seed: seed < 4)
def test_a_fit_that_explains_almost_everything_may_still_have_a_better_minimum(seed: int) -> None:
    """Yield curves (Nelson & Siegel 1987) have two minima with R² above 0.97, and `b2` of either sign."""
    draw = np.random.default_rng(seed)
    true = {"b0": draw.uniform(3, 6), "b1": draw.uniform(-3, -1), "b2": draw.uniform(1, 3), "t": draw.uniform(2, 4)}
    x = np.geomspace(0.25, 30, 100)
    decay = np.exp(-x / true["t"])
    mean = (1 - decay) / (x / true["t"])
    curve = true["b0"] + true["b1"] * mean + true["b2"] * (mean - decay)
    data = {"x": x, "y": curve + 0.1 * curve.std() * draw.normal(size=len(x))}
    found, wanted = fit(YIELD, data), fit(YIELD, data, start=true)
    assert found.converged
    assert found.loss == pytest.approx(min(found.loss, wanted.loss), rel=1e-6)


def test_parameters_that_meet_arrays_are_searched() -> None:
    generator = np.random.default_rng(0)
    x = generator.uniform(1, 9, (2, 60))
    data = {"x": x[0], "z": x[1], "y": np.exp(-0.3 * x).sum(axis=0) + 0.2 * generator.normal(size=60)}
    found, written = fit("y ~ sum(exp(-b*[x, z]))", data), fit("y ~ exp(-b*x) + exp(-b*z)", data)
    assert found.parameters == pytest.approx(written.parameters, rel=1e-9)


# The losses of a row, for robust ones with the scale 0.1.
STEEP_LOSSES: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "mse": lambda y, p: np.square(y - p),
    "huber": lambda y, p: 0.1 * np.where(abs(y - p) < 0.1345, 5 * np.square(y - p), 1.345 * (abs(y - p) - 0.1345 / 2)),
    "cauchy": lambda y, p: 0.01 * np.log1p(np.square((y - p) / 0.1)),
    "mae": lambda y, p: np.abs(y - p),
    "poisson": lambda y, p: p - y * np.log(p),
}


def least_steep_loss(y: np.ndarray, loss: str) -> float:
    """Return the least mean loss of curves that jump between two constants, with at most one row on the jump."""
    rows, found = STEEP_LOSSES[loss], []

    def best(part: np.ndarray) -> float:
        """Return the best constant: the mean or the median, or what a search from the median finds."""
        if loss in ("mse", "poisson") or len(part) == 1:
            return float(part.mean())
        middle, size = float(np.median(part)), float(np.ptp(part))
        found = minimize(lambda p: rows(part, middle + size * p[0]).sum() / size**2, [0.0], method="BFGS", tol=1e-9)
        return middle if loss == "mae" else middle + size * float(found.x[0])

    for low, high, between in [(y[:k], y[k + free :], y[k : k + free]) for k in range(1, len(y)) for free in (0, 1)]:
        ends = sorted((best(low), best(high))) if len(high) else (math.inf, math.inf)
        if len(high) and all(ends[0] <= each <= ends[1] for each in between):
            parts = (low, high, between) if len(between) else (low, high)
            found.append(sum(float(rows(part, best(part)).sum()) for part in parts))
    return min(found) / len(y)


JUMPS = [
    "y ~ c + d*sigmoid(k*(x - m))",
    "y ~ c + d*tanh(k*(x - m))",
    "y ~ c + d*normal_cdf((x - m)/k)",
    "y ~ c + d/(1 + exp(k*x + m))",
    "y ~ c + d*atan(k*(x - m))",
]


STEEP_CASES = [
    *itertools.product(["mse"], JUMPS, (0.0, 0.05, 0.2), (0.0, 0.02, 2.0)),
    *itertools.product([*STEEP_LOSSES][1:], JUMPS, [0.05], (0.0, 2.0)),
]


@each("seed", range(3))
def test_a_bend_before_the_last_row_has_a_minimum_of_which_the_row_determines_a_combination(seed: int) -> None:
    """Any bend between the last two rows is as good as any other, with the slope that leads to the last row."""
    x = np.arange(10.0)
    y = 1 + 0.5 * x + 3 * (x == 9) + 0.05 * np.random.default_rng(seed).normal(size=10)
    found = fit("y ~ b + a*x + c*relu(x - m)", {"x": x, "y": y}, start={"m": 8.4, "c": 2})
    assert found.rss == pytest.approx(fit("y ~ b + a*x", {"x": x[:-1], "y": y[:-1]}).rss, rel=1e-9)
    assert found.converged
    assert found.stderr["c"] is found.stderr["m"] is None
    assert any("determine only a combination of `c`, `m`" in warning for warning in found.warnings)


@each("loss, model, noise, width", STEEP_CASES, sampled=True, quick=lambda *case: STEEP_CASES.index(case) % 3 == 1)
def test_a_curve_through_a_jump_has_a_finite_steepness_only_if_a_jump_fits_worse(
    loss: str, model: str, noise: float, width: float
) -> None:
    """In the limit the curve is two constants, whose least loss is found by trying all places of the jump."""
    generator = np.random.default_rng([JUMPS.index(model), round(100 * noise), round(100 * width)])
    x = np.arange(14.0)
    slope = np.tanh((x - 6.3) / width) if width else np.sign(x - 6.3)
    y, options = 1 + slope + noise * generator.normal(size=len(x)), dict[str, Any](loss=loss)
    if loss in ("huber", "cauchy"):
        options |= {"scale": 0.1}
    elif loss == "poisson":
        y, options["start"] = generator.poisson(20 + 15 * slope).astype(np.float64), {"c": 20, "d": 10}
    found = fit(model, {"x": x, "y": y}, **options)
    least = least_steep_loss(y, loss)
    has_limit = found.loss < least - (1e-3 / len(y) if loss == "poisson" else 1e-7 * least + 1e-20)
    assert found.converged == has_limit, found.parameters
    if not has_limit:
        assert re.search(r"no minimum|no convergence", found.warnings[-1])
        assert found.stderr["k"] is None


HEIGHTS = {"x": [3.0, 5.0, 10.0, 15.0, 20.0, 25.0], "y": [4.51, 10.89, 28.72, 41.74, 52.7, 60.92]}  # of a pine, by age


@each("seed", [None, 18, *range(4)], quick=lambda seed: seed in (None, 18))
def test_rounding_errors_of_terms_that_cancel_are_no_minimum(seed: int | None) -> None:
    """For large `a`, the curve is a line that rounding errors turn into steps, which may fit better than any curve."""
    data: dict[str, Any] = HEIGHTS
    if seed is not None:
        generator = np.random.default_rng(seed)
        x = np.sort(generator.uniform(0, 10, int(generator.integers(6, 15))))
        data = {"x": x, "y": 2 * x + generator.normal(0, 2, len(x))}
    found = fit("y ~ a*(1 - exp(-exp(k)*x))", data, profile=seed is None)
    x, y = np.array(data["x"]), np.array(data["y"])
    if found.converged:
        exact = -found.parameters["a"] * np.expm1(-np.exp(found.parameters["k"]) * x)
        assert found.rss == pytest.approx(np.sum((y - exact) ** 2), rel=1e-2)
    if seed is None:
        assert found.converged
        assert found.parameters == pytest.approx({"a": 240.3457, "k": -4.418294}, rel=1e-5)
        assert fit(found.model, data, start={"a": 4e16, "k": -37.29}).rss == pytest.approx(found.rss, rel=1e-9)
    assert not fit(found.model, data, bounds={"k": (-38, -37)}).converged
