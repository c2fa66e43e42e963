"""How often the 95 % intervals of a fit contain the truth, for simulated data.

    python benchmarks/coverage.py [WORDS] [--fits N] [--rows 12,40,200]

Each scenario draws many data sets from a model with known parameters, fits each of them, and counts the intervals that
contain the truth: of parameters, of derived quantities, of the mean at new rows and of new observations. The standard
error of the simulation stands behind each share. `!` marks shares that are significantly outside of 92 to 98 %. WORDS
select the scenarios whose names contain them. The seed is fixed, so that runs repeat.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

import autodiff_cli as ad
from autodiff_cli.training.result.fitted_model import FittedModel

SEED = 1
ROWS = (12, 40, 200)
LEVEL = 0.95
ACCEPTED = (0.92, 0.98)  # shares outside are marked if they are also 3 standard errors outside
RESAMPLES = 400
DRAWS = 250  # of each of 4 chains


class Curve(NamedTuple):
    """A model with its true parameters.

    Attributes:
        model: its text.
        truth: the true parameters, and derived quantities.
        mean: the mean of the target.
        ends: the range of the predictor.
        derive: derived quantities.
    """

    model: str
    truth: dict[str, float]
    mean: Callable[[Any], Any]
    ends: tuple[float, float] = (0.0, 4.0)
    derive: Mapping[str, str] = MappingProxyType({})


DECAY = Curve(
    "y ~ a*exp(-b*x)",
    {"a": 3.0, "b": 0.8, "half": math.log(2) / 0.8},
    lambda x: 3 * np.exp(-0.8 * x),
    derive={"half": "ln(2)/b"},
)
LINE = Curve("y ~ a + b*x", {"a": 1.0, "b": 0.5}, lambda x: 1 + 0.5 * x)
SATURATION = Curve("y ~ V*x/(K + x)", {"V": 3.0, "K": 1.5}, lambda x: 3 * x / (1.5 + x), (0.2, 6.0))
GROWTH = Curve(
    "y ~ exp(a + b*x)",
    {"a": 0.3, "b": 0.5, "ratio": math.exp(0.5)},
    lambda x: np.exp(0.3 + 0.5 * x),
    derive={"ratio": "exp(b)"},
)
MIXED_LINE = Curve("y ~ a + b*x + u[g]", {"a": 1.0, "b": 0.5, "s": 0.5}, lambda x: 1 + 0.5 * x)
MIXED_GROWTH = Curve("y ~ exp(a + b*x + u[g])", {"a": 0.3, "b": 0.5, "s": 0.5}, lambda x: np.exp(0.3 + 0.5 * x))
LOGISTIC = Curve("y ~ sigmoid(a + b*x)", {"a": 0.2, "b": 0.8}, lambda x: 1 / (1 + np.exp(-0.2 - 0.8 * x)), (-3.0, 3.0))

Draw = Callable[[np.random.Generator, Any, Any], Any]  # observations, from a generator, the predictor and the means


def normal(size: float) -> Draw:
    """Return normal errors of a size."""
    return lambda generator, x, mean: mean + size * generator.normal(size=np.shape(x))


def student(size: float) -> Draw:
    """Return errors from Student's t distribution with 3 degrees of freedom."""
    return lambda generator, x, mean: mean + size * generator.standard_t(3, size=np.shape(x))


def laplace(size: float) -> Draw:
    """Return errors from Laplace's distribution, whose most likely centre is the median."""
    return lambda generator, x, mean: generator.laplace(mean, size)


def spread(x: Any) -> Any:
    """The standard deviation of errors that differ between rows."""
    return 0.05 + 0.1 * x


def unequal(generator: np.random.Generator, x: Any, mean: Any) -> Any:
    """Return observations with errors of the size `spread`."""
    return mean + spread(x) * generator.normal(size=np.shape(x))


def poisson(generator: np.random.Generator, _: Any, mean: Any) -> Any:
    """Return counts with the variance of their mean."""
    return generator.poisson(mean).astype(float)


def overdispersed(generator: np.random.Generator, _: Any, mean: Any) -> Any:
    """Return counts with three times the variance of their mean."""
    return generator.negative_binomial(mean / 2, 1 / 3).astype(float)


def negative_binomial(generator: np.random.Generator, _: Any, mean: Any) -> Any:
    """Return counts with theta 3."""
    return generator.negative_binomial(3, 3 / (3 + mean)).astype(float)


def gamma(generator: np.random.Generator, _: Any, mean: Any) -> Any:
    """Return positive numbers with half their mean as standard deviation."""
    return generator.gamma(4, mean / 4)


def binary(generator: np.random.Generator, _: Any, mean: Any) -> Any:
    """Return 0 or 1."""
    return (generator.random(np.shape(mean)) < mean).astype(float)


def proportions(generator: np.random.Generator, _: Any, mean: Any) -> Any:
    """Return shares of 20 trials."""
    return generator.binomial(20, mean) / 20


def with_levels(draw: Draw, level_rows: int, *, is_factor: bool) -> Draw:
    """Return observations whose means differ between levels of some rows, by normal effects of standard deviation 0.5.

    Args:
        is_factor: whether means are multiplied by the exponential of the effect; else it is added to them.
    """

    def drawn(generator: np.random.Generator, x: Any, mean: Any) -> Any:
        effect = np.repeat(0.5 * generator.normal(size=-(-len(x) // level_rows)), level_rows)[: len(x)]
        return draw(generator, x, mean * np.exp(effect) if is_factor else mean + effect)

    return drawn


def correlated_proportions(generator: np.random.Generator, _: Any, mean: Any) -> Any:
    """Return shares of 20 trials, with three times the binomial variance."""
    precision = (20 - 3) / (3 - 1)
    return generator.binomial(20, generator.beta(mean * precision, (1 - mean) * precision)) / 20


class Scenario(NamedTuple):
    """Data that are drawn again and again, and how they are fitted.

    Attributes:
        name: what it shows.
        curve: the model and its truth.
        draw: draws observations.
        options: the options of the fit.
        columns: further columns, from the predictor.
        effort: how much more a fit costs than one by least squares; so many times fewer are made.
        model: the text of the model, if it is not that of the curve.
        x_error: the standard deviation of the errors of the predictor, which new rows do not have.
        level_rows: the number of rows of each level of the column `g`; 0 for none.
    """

    name: str
    curve: Curve
    draw: Draw
    options: Mapping[str, Any] = MappingProxyType({})
    columns: Callable[[Any], dict[str, Any]] = lambda x: {}
    effort: int = 1
    model: str = ""
    x_error: float = 0.0
    level_rows: int = 0


def sigma_columns(x: Any) -> dict[str, Any]:
    """Return the columns of known standard deviations and of weights."""
    return {"s": spread(x), "w": spread(x) ** -2}


X_ERRORS: dict[str, Any] = {"sigma": "s", "x_sigma": {"x": 0.05}}
ABSOLUTE: dict[str, Any] = {"absolute_sigma": True}
TRIALS: Callable[[Any], dict[str, Any]] = lambda x: {"n": np.full(np.shape(x), 20.0)}  # noqa: E731

SCENARIOS = (
    Scenario("least squares", DECAY, normal(0.1)),
    Scenario("least squares by lbfgs", DECAY, normal(0.1), {"optimizer": "lbfgs"}),
    Scenario("family gaussian", DECAY, normal(0.1), {"family": "gaussian"}),
    Scenario("saturation", SATURATION, normal(0.15)),
    Scenario("weights", DECAY, unequal, {"weights": "w"}, sigma_columns),
    Scenario("sigma", DECAY, unequal, {"sigma": "s"}, sigma_columns),
    Scenario("absolute sigma", DECAY, unequal, {"sigma": "s", "absolute_sigma": True}, sigma_columns),
    Scenario("bound not active", DECAY, normal(0.1), {"bounds": {"b": (0, 5)}}),
    Scenario("bound near the truth", DECAY, normal(0.1), {"bounds": {"b": (0.78, None)}}),
    Scenario("bound at the truth", DECAY, normal(0.1), {"bounds": {"b": (0.8, None)}}),
    Scenario(
        "bound at the truth, profile", DECAY, normal(0.1), {"bounds": {"b": (0.8, None)}, "profile": True}, effort=8
    ),
    Scenario("errors in x", DECAY, unequal, X_ERRORS, sigma_columns, effort=4, x_error=0.05),
    Scenario("errors in x, absolute", DECAY, unequal, X_ERRORS | ABSOLUTE, sigma_columns, effort=4, x_error=0.05),
    Scenario(
        "random effects",
        MIXED_LINE,
        with_levels(normal(0.2), 4, is_factor=False),
        {"laplace": "u", "priors": {"u[g]": "normal(0, s)"}},
        effort=10,
        level_rows=4,
    ),
    Scenario(
        "random effects, poisson",
        MIXED_GROWTH,
        with_levels(poisson, 4, is_factor=True),
        {"laplace": "u", "priors": {"u[g]": "normal(0, s)"}, "family": "poisson"},
        effort=10,
        level_rows=4,
    ),
    *(
        Scenario(f"{loss}, {errors}", DECAY, draw, {"loss": loss})
        for loss in ("huber", "logcosh", "soft_l1", "cauchy")
        for errors, draw in (("normal", normal(0.1)), ("t3", student(0.1)))
    ),
    Scenario("huber, line", LINE, normal(0.1), {"loss": "huber"}),
    Scenario("huber, sigma", DECAY, unequal, {"loss": "huber", "sigma": "s"}, sigma_columns),
    Scenario("huber, scale", DECAY, normal(0.1), {"loss": "huber", "scale": 0.1}),
    Scenario("poisson", GROWTH, poisson, {"family": "poisson"}),
    Scenario("quasipoisson", GROWTH, overdispersed, {"family": "quasipoisson"}),
    Scenario("negative binomial", GROWTH, negative_binomial, {"family": "negative_binomial"}, effort=4),
    Scenario("gamma", GROWTH, gamma, {"family": "gamma"}),
    Scenario("binomial", LOGISTIC, binary, {"family": "binomial"}),
    Scenario("binomial, trials", LOGISTIC, proportions, {"family": "binomial", "weights": "n"}, TRIALS),
    Scenario("quasibinomial", LOGISTIC, correlated_proportions, {"family": "quasibinomial", "weights": "n"}, TRIALS),
    Scenario("likelihood", LINE, normal(0.1), {"likelihood": True}, model="(y - a - b*x)^2/0.02", effort=2),
    Scenario("profile", SATURATION, normal(0.15), {"profile": True}, effort=8),
    Scenario("profile, poisson", GROWTH, poisson, {"family": "poisson", "profile": True}, effort=8),
    Scenario("profile, gamma", GROWTH, gamma, {"family": "gamma", "profile": True}, effort=8),
    Scenario("bootstrap", DECAY, normal(0.1), {"bootstrap": RESAMPLES}, effort=8),
    Scenario("bootstrap, bca", DECAY, normal(0.1), {"bootstrap": RESAMPLES, "bootstrap_method": "bca"}, effort=8),
    Scenario("bootstrap, mae", DECAY, laplace(0.1), {"loss": "mae", "bootstrap": RESAMPLES}, effort=20),
    Scenario("posterior", DECAY, normal(0.1), {"posterior": DRAWS}, effort=20),
    Scenario("posterior, poisson", GROWTH, poisson, {"family": "poisson", "posterior": DRAWS}, effort=20),
    Scenario("wide priors", LINE, normal(0.5), {"priors": {"a": "normal(0, 100)"}}, effort=4),
)


def fit_many(scenario: Scenario, rows: int, count: int, generator: np.random.Generator) -> Iterator[FittedModel]:
    """Yield the fits of data sets that converged."""
    x = np.tile(np.linspace(*scenario.curve.ends, rows), count)
    y = scenario.draw(generator, x, scenario.curve.mean(x))
    run = np.repeat(np.arange(count), rows)
    data = {"x": x, "y": y, "run": run, **scenario.columns(x)}
    if scenario.x_error:
        data["x"] = x + scenario.x_error * generator.normal(size=len(x))
    model = scenario.model or scenario.curve.model
    if scenario.level_rows:
        data["g"] = np.arange(len(x)) // scenario.level_rows
        parts = ({name: column[run == number] for name, column in data.items()} for number in range(count))
        fits = (ad.fit(model, part, derive=scenario.curve.derive, **scenario.options) for part in parts)
        return (fit for fit in fits if fit.converged)
    groups = ad.fit_by(model, data, "run", derive=scenario.curve.derive, **scenario.options)
    return (group.fit for group in groups if group.fit is not None and group.fit.converged)


def intervals(fit: FittedModel, scenario: Scenario, generator: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Yield the name of each interval of a fit, and whether it contains the truth, or in which share of new rows."""
    truth = scenario.curve.truth
    sets = {"": fit.confidence_of(truth, LEVEL), **{f"{kind} ": each for kind, each in fit.intervals.items()}}
    if fit.draws:
        sets["draws "] = {
            name: np.quantile(fit.draws[name], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=(0, 1))
            for name in truth.keys() & fit.draws.keys()
        }
    for kind, pairs in sets.items():
        for name in truth:
            if pairs.get(name) is not None:
                low, high = pairs[name]
                yield kind + name, low <= truth[name] <= high
    if fit.parsed_model.program.target is None or not fit.definition or scenario.level_rows:
        return
    x = np.linspace(*scenario.curve.ends, 5)[1:]
    mean = scenario.curve.mean(x)
    new, data = scenario.draw(generator, x, mean), {"x": x, **scenario.columns(x)}
    bands = [("", fit.predict(data, LEVEL))]
    if fit.draws:
        bands.append(("draws ", fit.predict_posterior(data, LEVEL)))
    for kind, band in bands:
        yield f"{kind}mean", np.mean((band.confidence_low <= mean) & (mean <= band.confidence_high))
        if np.isfinite(band.prediction_low).all():
            yield f"{kind}prediction", np.mean((band.prediction_low <= new) & (new <= band.prediction_high))


def coverage(scenario: Scenario, rows: int, count: int) -> dict[str, tuple[float, float, int]]:
    """Return the share of intervals that contain the truth, its standard error and the number of fits, by name."""
    generator, hits = np.random.default_rng([SEED, rows]), dict[str, list[float]]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for fit in fit_many(scenario, rows, count, generator):
            for name, hit in intervals(fit, scenario, generator):
                hits.setdefault(name, []).append(float(hit))
    return {
        name: (float(np.mean(each)), float(np.std(each)) / math.sqrt(len(each)), len(each))
        for name, each in hits.items()
    }


def main() -> None:
    """Print a line for each scenario and number of rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="parts of names of scenarios")
    parser.add_argument("--fits", type=int, default=1000, help="fits by least squares; others are fewer")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)), help="numbers of rows, separated by commas")
    request = parser.parse_args()
    low, high = ACCEPTED
    for scenario in SCENARIOS:
        if request.words and not any(word in scenario.name for word in request.words):
            continue
        for rows in map(int, request.rows.split(",")):
            found = coverage(scenario, rows, max(10, request.fits // scenario.effort))
            cells = []
            for name, (share, error, _) in found.items():
                is_outside = share < low - 3 * error or share > high + 3 * error
                cells.append(f"{name} {100 * share:.1f}±{100 * error:.1f}{'!' if is_outside else ''}")
            count = max((count for *_, count in found.values()), default=0)
            print(f"{scenario.name:24} {rows:4} rows, {count:5} fits:  {'  '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
