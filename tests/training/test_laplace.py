"""Random effects: against TMB's and nlme's published results, exact marginal likelihoods of linear models, and a plain
NumPy version of Laplace's approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
from numpy.typing import NDArray

import autodiff_cli as ad
from autodiff_cli.data.files import open_data
from autodiff_cli.data.table import DataError, csv_text
from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting import laplace as laplace_module
from autodiff_cli.training.fitting.laplace import EffectIndex, MarginalLikelihood, check_laplace
from autodiff_cli.training.fitting.row_loss import trace_fit_row
from autodiff_cli.training.objective.loading import as_dataset
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import FitOptions
from tests.each import amount, each

AGES = [118, 484, 664, 1004, 1231, 1372, 1582]
ORANGE: dict[str, Any] = {  # Draper & Smith 1998
    "age": AGES * 5,
    "size": [
        *(30, 58, 87, 115, 120, 142, 145, 33, 69, 111, 156, 172, 203, 203, 30, 51, 75, 108, 115, 139, 140),
        *(32, 62, 112, 167, 179, 209, 214, 30, 49, 81, 125, 142, 174, 177),
    ],
    "tree": np.repeat([1, 2, 3, 4, 5], 7),
}
LOGISTIC = "size ~ (A + u[tree])/(1 + exp(-(age - m)/c))"
HEIGHTS = {  # Kung 1986, by seed source, at 3, 5, 10, 15, 20 and 25 years
    301: (4.51, 10.89, 28.72, 41.74, 52.7, 60.92),
    303: (4.55, 10.92, 29.07, 42.83, 53.88, 63.39),
    305: (4.79, 11.37, 30.21, 44.4, 55.82, 64.1),
    307: (3.91, 9.48, 25.66, 39.07, 50.78, 59.07),
    309: (4.81, 11.2, 28.66, 41.66, 53.31, 63.05),
    311: (3.88, 9.4, 25.99, 39.55, 51.46, 59.64),
    315: (4.32, 10.43, 27.16, 40.85, 51.33, 60.07),
    319: (4.57, 10.57, 27.9, 41.13, 52.43, 60.69),
    321: (3.77, 9.03, 25.45, 38.98, 49.76, 60.28),
    323: (4.33, 10.79, 28.97, 42.44, 53.17, 61.62),
    325: (4.38, 10.48, 27.93, 40.2, 50.06, 58.49),
    327: (4.12, 9.92, 26.54, 37.82, 48.43, 56.81),
    329: (3.93, 9.34, 26.08, 37.79, 48.31, 56.43),
    331: (3.46, 9.05, 25.85, 39.15, 49.12, 59.49),
}
LOBLOLLY = {
    "seed": np.repeat([*HEIGHTS], 6),
    "age": [3, 5, 10, 15, 20, 25] * len(HEIGHTS),
    "height": np.concatenate([*HEIGHTS.values()]),
}


def _levels(generator: np.random.Generator, rows: int, levels: int) -> NDArray[np.intp]:
    """Return the level of each row, all of which occur, in no order."""
    return generator.permutation(np.arange(rows) % levels)


def _crossed() -> dict[str, NDArray[Any]]:
    generator = np.random.default_rng(11)
    g, h, x = _levels(generator, 60, 8), _levels(generator, 60, 5), generator.uniform(-1, 1, 60)
    effects = generator.normal(0, 0.8, 8)[g] + generator.normal(0, 0.5, 5)[h] + generator.normal(0, 0.6, 8)[g] * x
    return {"g": g, "h": h, "x": x, "y": 1 + 2 * x + effects + generator.normal(0, 0.3, 60)}


CROSSED = _crossed()


@pytest.mark.slow
def test_orange_trees_of_tmb() -> None:
    # The file orange_big.expected.RData of TMB's examples: 5,000 effects, which are 1,000 copies of the five trees.
    data = {
        "age": np.tile(ORANGE["age"], 1000),
        "size": np.tile(ORANGE["size"], 1000),
        "tree": (np.arange(1000)[:, None] * 5 + ORANGE["tree"]).ravel(),
    }
    fit = ad.fit(LOGISTIC, data, laplace="u", priors={"u[tree]": "normal(0, s)"})
    values = {"A": 192.053152, "m": 727.906339, "c": 348.073042, "s": 31.6462978, "sigma": 7.84301303}
    errors = {"A": 0.495138, "m": 1.114660, "c": 0.856338, "s": 0.324496, "sigma": 0.0320190}
    assert fit.parameters == pytest.approx(values, rel=1e-6)
    assert fit.stderr == pytest.approx(errors, rel=4e-6)
    # TMB leaves out log(2π)/2 for each row and effect.
    assert fit.log_likelihood == pytest.approx(-94814.34377 - (35_000 + 5000) / 2 * math.log(2 * math.pi), rel=1e-9)


def _pine_likelihood(asymptote: float, start: float, rate: float, deviation: float, sigma: float) -> float:
    """Return the exact log-likelihood of `LOBLOLLY`."""
    decay = np.exp(-math.exp(rate) * np.array(LOBLOLLY["age"]))
    z = np.repeat(np.eye(len(HEIGHTS)), 6, axis=0) * (1 - decay)[:, None]
    variance = sigma**2 * np.eye(len(z)) + deviation**2 * z @ z.T
    mean = asymptote * (1 - decay) + start * decay
    return float(scipy.stats.multivariate_normal(mean, variance).logpdf(LOBLOLLY["height"]))


THEOPHYLLINE = """
4.02: 0,.74 .25,2.84 .57,6.57 1.12,10.5 2.02,9.66 3.82,8.58 5.1,8.36 7.03,7.47 9.05,6.89 12.12,5.94 24.37,3.28
4.4: 0,0 .27,1.72 .52,7.91 1,8.31 1.92,8.33 3.5,6.85 5.02,6.08 7.03,5.4 9,4.55 12,3.01 24.3,.9
4.53: 0,0 .27,4.4 .58,6.9 1.02,8.2 2.02,7.8 3.62,7.5 5.08,6.2 7.07,5.3 9,4.9 12.15,3.7 24.17,1.05
4.4: 0,0 .35,1.89 .6,4.6 1.07,8.6 2.13,8.38 3.5,7.54 5.02,6.88 7.02,5.78 9.02,5.33 11.98,4.19 24.65,1.15
5.86: 0,0 .3,2.02 .52,5.63 1,11.4 2.02,9.33 3.5,8.74 5.02,7.56 7.02,7.09 9.1,5.9 12,4.37 24.35,1.57
4: 0,0 .27,1.29 .58,3.08 1.15,6.44 2.03,6.32 3.57,5.53 5,4.94 7,4.02 9.22,3.46 12.1,2.78 23.85,.92
4.95: 0,.15 .25,.85 .5,2.35 1.02,5.02 2.02,6.58 3.48,7.09 5,6.66 6.98,5.25 9,4.39 12.05,3.53 24.22,1.15
4.53: 0,0 .25,3.05 .52,3.05 .98,7.31 2.02,7.56 3.53,6.59 5.05,5.88 7.15,4.73 9.07,4.57 12.1,3 24.12,1.25
3.1: 0,0 .3,7.37 .63,9.03 1.05,7.14 2.02,6.33 3.53,5.66 5.02,5.67 7.17,4.24 8.8,4.11 11.6,3.16 24.43,1.12
5.5: 0,.24 .37,2.89 .77,5.22 1.02,6.41 2.05,7.83 3.55,10.21 5.05,9.18 7.08,8.02 9.38,7.14 12.1,5.68 23.7,2.42
4.92: 0,0 .25,4.86 .5,7.24 .98,8 1.98,6.81 3.6,5.87 5.02,5.22 7.03,4.45 9.03,3.62 12.12,2.69 24.08,.86
5.3: 0,0 .25,1.25 .5,3.96 1,7.82 2,9.72 3.52,9.75 5.07,8.57 7.07,6.59 9.03,6.11 12.05,4.57 24.15,1.17
"""  # dose, and time, concentration of twelve subjects: the data `Theoph` of R


@pytest.mark.slow
def test_theophylline() -> None:
    """The model `SSfol` of R, with effects of absorption and clearance. At these estimates Laplace's approximation with
    differences in NumPy is -177.870206 and lower all around, and 25 x 25 points of Gauss-Hermite give -177.7406.
    """
    doses = [line.partition(": ") for line in THEOPHYLLINE.split("\n") if line]
    cells = [
        (float(dose), str(k), *map(float, cell.split(",")))
        for k, (dose, _, row) in enumerate(doses)
        for cell in row.split()
    ]
    columns = dict(zip(("dose", "subject", "t", "conc"), map(list, zip(*cells, strict=True)), strict=True))
    absorption = "ka = exp(lka + u[subject]); ke = exp(lke); "
    model = "conc ~ dose*ke*ka*exp(-lcl - v[subject])*(exp(-ke*t) - exp(-ka*t))/(ka - ke)"
    fit = ad.fit(
        absorption + model,
        columns,
        laplace="u,v",
        priors={"u[subject]": "normal(0, su)", "v[subject]": "normal(0, sv)"},
        start={"lke": -2.5, "lka": 0.5, "lcl": -3.2},
    )
    assert fit.log_likelihood == pytest.approx(-177.8702059, abs=1e-6)
    known = {"lka": 0.47906, "lke": -2.45888, "lcl": -3.22668, "su": 0.65393, "sv": 0.167356, "sigma": 0.707976}
    assert fit.parameters == pytest.approx(known, abs=2e-5)


@pytest.mark.slow
def test_loblolly_pines_of_nlme() -> None:
    # summary(nlme(height ~ SSasymp(age, Asym, R0, lrc), Loblolly, random = Asym ~ 1)) has logLik -114.7428 at these
    # estimates. That is their exact likelihood, but not the largest one: nlme alternates between two approximations.
    assert _pine_likelihood(101.44960, -8.62733, -3.23375, 3.650642, 0.7188625) == pytest.approx(-114.7428, abs=1e-4)
    fit = ad.fit(
        "height ~ Asym[seed] + (R0 - Asym[seed])*exp(-exp(lrc)*age)",
        LOBLOLLY,
        laplace="Asym",
        priors=["Asym[seed] ~ normal(A, s)"],
        start={"A": 103, "R0": -8.5, "lrc": -3.3},
    )
    values = [fit.parameters[name] for name in ("A", "R0", "lrc", "s", "sigma")]
    assert fit.log_likelihood == pytest.approx(_pine_likelihood(*values), abs=1e-9)
    best = scipy.optimize.minimize(lambda theta: -_pine_likelihood(*theta), values, method="Nelder-Mead")
    assert fit.log_likelihood == pytest.approx(-best.fun, abs=1e-9)
    assert fit.aic == pytest.approx(10 - 2 * fit.log_likelihood)
    assert fit.random_effects["Asym"].mean == fit.parameters["A"]


def _log_likelihood(theta: NDArray[Any], design: list[NDArray[Any]]) -> float:
    """Return the exact log-likelihood of `CROSSED`, given the intercept, slope, deviations, and log sigma."""
    x, y, count = CROSSED["x"], CROSSED["y"], len(design)
    variance = math.exp(2 * theta[-1]) * np.eye(len(y))
    variance += sum(s * s * z @ z.T for s, z in zip(theta[2 : 2 + count], design, strict=True))
    return float(scipy.stats.multivariate_normal(theta[0] + theta[1] * x, variance).logpdf(y))


def _numeric_hessian(function: Callable[[NDArray[Any]], float], at: NDArray[Any], step: float) -> NDArray[Any]:
    """Return a Hessian by central differences."""
    moves = np.eye(len(at)) * step
    values = [
        [function(at + a + b) - function(at + a - b) - function(at - a + b) + function(at - a - b) for b in moves]
        for a in moves
    ]
    return np.array(values) / (4 * step * step)


G, H = np.eye(8)[CROSSED["g"]], np.eye(5)[CROSSED["h"]]


@each(
    ("effects", "design"),
    [
        ({"u": "g"}, [G]),
        ({"u": "h", "v": "g"}, [H, G]),
        ({"u": "g", "w": "g"}, [G, G * CROSSED["x"][:, None]]),
        ({"u": "g", "v": "h", "w": "g"}, [G, H, G * CROSSED["x"][:, None]]),
    ],
    quick=lambda effects, design: "v" in effects,
)
def test_linear_models_are_exact(effects: Mapping[str, str], design: list[NDArray[Any]]) -> None:
    factors = {"u": "", "v": "", "w": "*x"}
    terms = [f"{name}[{column}]{factors[name]}" for name, column in effects.items()]
    priors = {f"{name}[{column}]": f"normal(0, s_{name})" for name, column in effects.items()}
    fit = ad.fit(f"y ~ a + b*x + {' + '.join(terms)}", CROSSED, laplace=",".join(effects), priors=priors)
    names = ["a", "b", *(f"s_{name}" for name in effects), "sigma"]
    theta = np.array([fit.parameters[name] for name in names])
    theta[-1] = math.log(theta[-1])
    assert fit.log_likelihood == pytest.approx(_log_likelihood(theta, design), abs=1e-9)
    errors = np.sqrt(np.diag(np.linalg.inv(_numeric_hessian(lambda t: -_log_likelihood(t, design), theta, 1e-3))))
    moves = 1e-3 * np.diag(errors)
    slopes = [_log_likelihood(theta + move, design) - _log_likelihood(theta - move, design) for move in moves]
    assert np.array(slopes) / 2e-3 == pytest.approx(0, abs=1e-6)
    errors[-1] *= math.exp(theta[-1])
    assert [fit.stderr[name] for name in names] == pytest.approx(errors, rel=1e-3)
    # The modes and their errors are the mean and covariance of the effects given the data.
    spread = np.concatenate([np.full(z.shape[1], s) for z, s in zip(design, theta[2:-1], strict=True)])
    z = np.hstack(design)
    precision = z.T @ z / math.exp(2 * theta[-1]) + np.diag(1 / spread**2)
    residuals = CROSSED["y"] - theta[0] - theta[1] * CROSSED["x"]
    modes = np.linalg.solve(precision, z.T @ residuals) / math.exp(2 * theta[-1])
    found = [value for name in effects for value in fit.random_effects[name].modes.values()]
    assert found == pytest.approx(modes, abs=1e-7)
    found = [value for name in effects for value in fit.random_effects[name].errors.values()]
    assert found == pytest.approx(np.sqrt(np.diag(np.linalg.inv(precision))), rel=1e-7)


def _plain_laplace(losses: Callable[[NDArray[Any]], NDArray[Any]], levels: int) -> float:
    """Return minus the log of Π∫exp(-loss(b))·φ(b)db by Laplace's approximation with finite differences, where `losses`
    returns the loss of each level for its effect.
    """
    b, step = np.zeros(levels), 1e-3
    for _ in range(40):
        low, middle, high = (losses(at) + at * at / 2 for at in (b - step, b, b + step))
        curvature = (low - 2 * middle + high) / step**2
        b = b - np.clip((high - low) / (2 * step * curvature), -0.5, 0.5)
    return float(np.sum(middle + np.log(curvature) / 2))


def _rates() -> dict[str, NDArray[Any]]:
    generator = np.random.default_rng(11)
    g, x = _levels(generator, 40, 6), generator.uniform(0, 2, 40)
    k = generator.poisson(np.exp(0.5 + 0.4 * x + generator.normal(0, 0.7, 6)[g]))
    z = generator.random(40) < 1 / (1 + np.exp(1 - x + generator.normal(0, 1.5, 6)[g]))
    y = 3 * np.exp(-(0.7 + generator.normal(0, 0.3, 6)[g]) * x) + generator.normal(0, 0.05, 40)
    return {"g": g, "x": x, "k": k, "z": z, "y": y}


RATES = _rates()


def _poisson(p: Mapping[str, float], b: NDArray[Any]) -> NDArray[Any]:
    return -scipy.stats.poisson(np.exp(p["a"] + p["c"] * RATES["x"] + p["s"] * b)).logpmf(RATES["k"])


def _logistic(p: Mapping[str, float], b: NDArray[Any]) -> NDArray[Any]:
    return np.logaddexp(0, np.where(RATES["z"], -1, 1) * (p["a"] + p["c"] * RATES["x"] + p["s"] * b))


def _decay(p: Mapping[str, float], b: NDArray[Any]) -> NDArray[Any]:
    mean = p["a"] * np.exp(-(p["c"] + p["s"] * b) * RATES["x"])
    return -scipy.stats.norm(mean, p["sigma"]).logpdf(RATES["y"])


@pytest.mark.slow
@each(
    ("model", "options", "density"),
    [
        ("k ~ exp(a + c*x + u[g])", {"family": "poisson"}, _poisson),
        ("z ~ sigmoid(a + c*x + u[g])", {"family": "binomial"}, _logistic),
        ("y ~ a*exp(-(c + u[g])*x)", {}, _decay),
        ("exp(a + c*x + u[g]) - k*(a + c*x + u[g]) + lgamma(k + 1)", {"likelihood": True}, _poisson),
    ],
)
def test_nonlinear_models(
    model: str, options: dict[str, Any], density: Callable[[Mapping[str, float], NDArray[Any]], NDArray[Any]]
) -> None:
    data = {**RATES, "z": RATES["z"].astype(float)}
    fit = ad.fit(model, data, laplace="u", priors={"u": "normal(0, s)"}, **options)
    assert fit.converged

    def minus_log_likelihood(theta: NDArray[Any]) -> float:
        p = dict(zip(fit.parameters, theta, strict=True))
        return _plain_laplace(lambda b: np.bincount(RATES["g"], density(p, b[RATES["g"]]), 6), 6)

    theta = np.array([*fit.parameters.values()])
    at_end = minus_log_likelihood(theta)
    assert fit.log_likelihood == pytest.approx(-at_end, abs=1e-4)
    for k, error in enumerate(fit.stderr.values()):
        step = np.eye(len(theta))[k] * error
        assert minus_log_likelihood(theta + 0.3 * step) > at_end < minus_log_likelihood(theta - 0.3 * step)


@each("model", ["y ~ a*exp(-(c + u[g])*x) + v[h]", "y ~ a*exp(-(c + u[g])*x + v[g]*x^2)", "y ~ exp(u[g]*v[h]) + a*x"])
def test_gradients(model: str) -> None:
    names = ["u[g]", "v[h]" if "v[h]" in model else "v[g]"]
    priors = {names[0]: "normal(m, exp(t))", names[1]: "normal(0, s)"}
    options = FitOptions(laplace=["u", "v"], priors=priors, sigma="w")
    generator = np.random.default_rng(13)
    data = {**RATES, "h": _levels(generator, 40, 4), "w": generator.uniform(0.5, 2, 40)}
    marginal = MarginalLikelihood(Objective.of(model, as_dataset(data), options), options)
    theta = generator.uniform(0.2, 0.8, len(marginal.names))
    _, gradient = marginal.value_and_gradient(theta)
    step = 1e-5
    for k, slope in enumerate(gradient):
        ends = [marginal.value_and_gradient(theta + sign * step * np.eye(len(theta))[k])[0] for sign in (1, -1)]
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(slope, rel=1e-6, abs=1e-6), marginal.names[k]


def test_prediction_file_and_derived_quantity(tmp_path: Path) -> None:
    data = {**ORANGE, "tree": np.array(list("abcde"))[np.asarray(ORANGE["tree"]) - 1]}
    options = {"laplace": "u", "priors": {"u[tree]": "normal(0, s)"}, "derive": "share = s/A"}
    fit = ad.fit(LOGISTIC, data, **options)
    p, effect = fit.parameters, fit.random_effects["u"]
    assert fit.derived["share"]["value"] == p["s"] / p["A"]
    assert (effect.column, effect.distribution, effect.mean, effect.sd) == ("tree", "normal(0, s)", 0, p["s"])
    path = tmp_path / "model.json"
    fit.save(path)
    for one in (fit, ad.load(path)):
        found = one.predict({"age": [500, 1000], "tree": ["b", "d"]})
        asymptotes = p["A"] + np.array([effect.modes["b"], effect.modes["d"]])
        assert found == pytest.approx(asymptotes / (1 + np.exp(-(np.array([500, 1000]) - p["m"]) / p["c"])))
        assert np.sum(one.residuals(data) ** 2) == pytest.approx(one.rss) == pytest.approx(35 * one.rmse**2)
        assert one.residual_std == p["sigma"]
        assert one.r_squared == pytest.approx(1 - one.rss / (35 * np.var(data["size"])))
        with pytest.raises(DataError, match="not fitted with the level `f`"):
            one.predict({"age": [500], "tree": ["f"]})
        with pytest.raises(OptionError, match="random effects"):
            one.predict({"age": [500], "tree": ["b"]}, interval=0.9)


def test_rows_that_effects_fit_exactly() -> None:
    data = {"g": np.arange(12) % 3, "y": np.arange(12) % 3 * 1.5}
    with pytest.raises(OptionError, match="fits the rows exactly"):
        ad.fit("y ~ a + u[g]", data, laplace="u", priors={"u": "normal(0, s)"})


def test_levels_that_do_not_differ() -> None:
    g = np.repeat(np.arange(6), 4)
    data = {"g": g, "y": np.tile([-1.0, 1.0, -2.0, 2.0], 6)}
    fit = ad.fit("y ~ a + u[g]", data, laplace="u", priors={"u[g]": "normal(0, s)"})
    assert fit.parameters["s"] == 0
    assert fit.stderr["s"] is None
    assert fit.stderr["a"] == pytest.approx(math.sqrt(2.5 / 24))
    assert any("standard deviation of `u` is 0" in warning for warning in fit.warnings)


@each("is_absolute", [True, False])
def test_errors_of_rows(is_absolute: bool) -> None:
    data = {"g": np.repeat([0, 1, 2], 3), "y": [1.0, 2, 1.5, 4, 5, 4.4, 0.2, -1, 0.5], "e": [0.5, 1, 0.7] * 3}
    options = {"laplace": "u", "priors": {"u[g]": "normal(m, s)"}, "sigma": "e", "absolute_sigma": is_absolute}
    fit = ad.fit("y ~ u[g]", data, **options)
    z, unit = np.eye(3)[data["g"]], fit.parameters.get("sigma", 1.0)
    variance = np.diag(np.square(unit * np.array(data["e"]))) + fit.parameters["s"] ** 2 * z @ z.T
    exact = scipy.stats.multivariate_normal(np.full(9, fit.parameters["m"]), variance).logpdf(data["y"])
    assert fit.log_likelihood == pytest.approx(exact, abs=1e-9)
    assert [*fit.parameters] == ["m", "s", *([] if is_absolute else ["sigma"])]
    assert fit.residual_std == fit.parameters.get("sigma")


@each(
    ("family", "written", "equal"),
    [
        ("poisson", "k ~ w*exp(c*x + u[g])", "k ~ exp(log(w) + c*x + u[g])"),
        ("binomial", "z ~ 1/(1 + exp(-c*x - u[g]))", "z ~ sigmoid(c*x + u[g])"),
    ],
)
def test_means_in_other_forms(family: str, written: str, equal: str) -> None:
    data = {**RATES, "z": RATES["z"].astype(float), "w": 1.0 + np.arange(40) % 3}
    options = FitOptions(family=family, laplace=["u"], priors={"u": "normal(0, s)"}, backend="numpy")
    values = []
    for model in (written, equal):
        objective = Objective.of(model, as_dataset(data), options)
        check_laplace(objective)  # domains of losses are no kinks
        marginal = MarginalLikelihood(objective, options)
        point = {"c": 0.3, "s": 0.7}
        values.append(marginal.value_and_gradient(np.array([point[name] for name in marginal.names]))[0])
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_fixed_and_bounded_parameters() -> None:
    options = {"laplace": "u", "priors": {"u[tree]": "normal(0, s)"}, "fixed": {"s": 20}, "bounds": {"A": (None, 185)}}
    fit = ad.fit(LOGISTIC, ORANGE, **options)
    assert fit.random_effects["u"].sd == 20
    assert (fit.parameters["A"], fit.stderr["A"], fit.on_bounds) == (185, None, ("A",))
    assert fit.stderr["sigma"] > 0


@each(
    ("options", "words"),
    [
        ({"laplace": "v"}, "no parameter `v` with a value for each level"),
        ({"laplace": "A"}, "no parameter `A` with a value for each level"),
        ({"priors": {"A": "normal(0, 1)"}}, '`u` needs a distribution: add --prior "u\\[tree\\] ~ normal'),
        ({"priors": None}, "laplace needs the distribution"),
        ({"priors": {"u[tree]": "cauchy(0, s)"}}, "must be normal, not cauchy"),
        ({"priors": {"u[tree]": "uniform(0, 1)"}}, "must be normal, not uniform"),
        ({"priors": {"u[tree]": "normal(0, s)", "u[1]": "normal(0, 1)"}}, "`u\\[1\\]` has its own"),
        ({"priors": {"u[tree]": "normal(0, s)", "A": "normal(0, 1)"}}, "only the effects can have priors"),
        ({"priors": {"u[tree]": "normal(0, A)"}}, "`A`, the standard deviation of `u`, also occurs elsewhere"),
        ({"priors": {"u[tree]": "normal(u, s)"}}, "`u` must be a single parameter"),
        ({"posterior": 100}, "laplace cannot be combined with posterior"),
        ({"start": {"u[1]": 2}}, "`u` is integrated out"),
        ({"fixed": {"u": 0}}, "`u` is integrated out"),
        ({"validation": 0.2}, "laplace cannot be combined with validation"),
        ({"cluster": "local:2"}, "laplace cannot be combined with cluster"),
        ({"loss": "huber"}, "laplace needs a likelihood"),
        ({"bounds": {"m": ("c", None)}}, "ordered parameters"),
    ],
)
def test_refusals(options: dict[str, Any], words: str) -> None:
    given = {"laplace": "u", "priors": {"u[tree]": "normal(0, s)"}, **options}
    with pytest.raises(OptionError, match=words):
        ad.fit(LOGISTIC, ORANGE, **given)


def test_modes_of_effects_lie_between_their_mean_and_the_means_of_their_levels() -> None:
    """By the ratio of variances, as of a linear model (Robinson 1991)."""
    groups, noise = np.repeat(np.arange(6), 8), np.cos(37 * np.arange(48.0))
    y = 5 + 2 * np.sin(3 * groups) + noise
    fit = ad.fit("y ~ u[g]", {"y": y, "g": groups}, laplace="u", priors={"u[g]": "normal(mu, s)"})
    effect, residual = fit.random_effects["u"], fit.parameters["sigma"]
    share = effect.sd**2 / (effect.sd**2 + residual**2 / 8)
    means = y.reshape(6, 8).mean(axis=1)
    assert [*effect.modes.values()] == pytest.approx((1 - share) * effect.mean + share * means, rel=1e-5)


def test_other_refusals() -> None:
    given = {"laplace": "u", "priors": {"u[tree]": "normal(0, s)"}}
    for term in ("abs(u[tree])", "abs(2 + 3*u[tree])", "max(u[tree], 0)", "where(u[tree] > 0, 1, 2)", "(u[tree] > 0)"):
        with pytest.raises(OptionError, match="must be smooth in the model"):
            ad.fit(f"size ~ A + {term}*age", ORANGE, **given)
    with pytest.raises(OptionError, match="no random effects"):
        ad.fit("size ~ dot(w, [age, 1]) + u[tree]", ORANGE, **given)
    with pytest.raises(OptionError, match="compare has no option laplace"):
        ad.compare([LOGISTIC, "size ~ A"], ORANGE, **given)
    with pytest.raises(OptionError, match="laplace needs a single fit"):
        ad.fit_by(LOGISTIC, ORANGE, "tree", **given)


@pytest.mark.parametrize("bounds", [{"s": (0, 0.3)}, {"b": (0.6, None)}, {"s": (1.5, None), "b": (None, 0.4)}])
def test_parameters_on_a_bound_are_named(bounds: dict[str, Any]) -> None:
    generator = np.random.default_rng(3)
    site, x = np.repeat(np.arange(12), 6), generator.uniform(0, 4, 72)
    y = 1 + 0.5 * x + generator.normal(0, 0.7, 12)[site] + generator.normal(0, 0.4, 72)
    data = {"x": x, "site": site, "y": y}
    priors = {"u[site]": "normal(0, s)"}
    found = ad.fit("y ~ a + b*x + u[site]", data, laplace="u", priors=priors, bounds=bounds)
    on_bounds = {name for name, pair in bounds.items() if found.parameters[name] in pair}
    assert on_bounds
    assert on_bounds == {text.split("`")[1] for text in found.warnings if "ends on its" in text}
    assert all("the standard errors of the other parameters assume" in text for text in found.warnings if "its" in text)
    assert {name for name, error in found.stderr.items() if error is None} == on_bounds


@each("seed", range(8), quick=lambda seed: seed < 2)
def test_levels_of_one_row_cannot_tell_their_spread_from_that_of_the_residuals(seed: int) -> None:
    """Only the sum of the variances is determined, so neither standard deviation has a standard error.

    The curvature along the other direction is the rounding error of differences, which is not always negative.
    """
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 2, 30)
    data = {"x": x, "y": 1 + x + rng.normal(0, 0.5, 30), "g": np.arange(30)}
    fit = ad.fit("y ~ a + b*x + u[g]", data, laplace="u", priors={"u[g]": "normal(0, s)"})
    assert fit.stderr["s"] is fit.stderr["sigma"] is None
    assert fit.stderr["a"] is not None
    assert any("the data determine only a combination of `s`, `sigma`" in warning for warning in fit.warnings)


# --- The marginal likelihood at given parameters


GENERATOR = np.random.default_rng(8)
FEW_ROWS: dict[str, Any] = {"x": GENERATOR.normal(size=14), "g": [*"ABCDAABBCCDDAB"], "h": [*"uvuvvvuuvuvuvu"]}
FEW_ROWS["y"] = 1 + FEW_ROWS["x"] + GENERATOR.normal(size=14)
FEW_ROWS["k"] = GENERATOR.poisson(2, 14).astype(float)
FEW_ROWS["w"] = GENERATOR.uniform(0.5, 2, 14)


def marginal(model: str, priors: dict[str, str], laplace: Any, **options: Any) -> MarginalLikelihood:
    settings = FitOptions(priors=priors, laplace=laplace, **options)
    return MarginalLikelihood(Objective.of(model, as_dataset(FEW_ROWS), settings), settings)


def check_gradient(found: MarginalLikelihood, theta: Any, units: Any = 1.0) -> None:
    """Compare the gradient and the Hessians, for parameters in units, with differences of the value."""

    def at(point: Any) -> tuple[float, NDArray[Any]]:
        value, gradient = found.value_and_gradient(point * units)
        return value, gradient * units

    gradient, steps = at(theta)[1], 1e-5 * np.eye(len(theta))
    rises = [(at(theta + s)[0] - at(theta - s)[0]) / 2e-5 for s in steps]
    np.testing.assert_allclose(gradient, rises, rtol=1e-5, atol=1e-6)
    rows = [(at(theta + s)[1] - at(theta - s)[1]) / 2e-5 for s in steps]
    for hessian in (found.hessian(theta * units), found.hessians((theta * units)[None], np.zeros(1, np.intp))[0]):
        np.testing.assert_allclose(hessian * np.multiply.outer(units, units), rows, rtol=1e-3, atol=1e-3)


def test_derivatives_are_as_accurate_in_other_units() -> None:
    """Of the target, and so of the effects, of a line and of the logarithm of the residual standard deviation."""
    for unit in (1e-5, 1e5):
        model, prior = f"y*{unit} ~ c + b[g] + d*x", {"b[g]": "normal(0, s)"}
        found = marginal(model, prior, "b")
        sizes = np.array([unit] * 3 + [1.0])
        theta = np.array([0.9, 1.2, 0.3, math.log(0.8 * unit)])
        check_gradient(found, theta, sizes)


LEVELS_G, LEVELS_H = (np.array([[float(a == b) for b in sorted({*FEW_ROWS[n]})] for a in FEW_ROWS[n]]) for n in "gh")
LINEAR: list[tuple[str, dict[str, str], Any, Any]] = [
    ("y ~ c + b[g] + d*x", {"b[g]": "normal(0, s)"}, "b", lambda p: p["s"] ** 2 * LEVELS_G @ LEVELS_G.T),
    ("y ~ b[g] + d*x + c*0", {"b[g]": "normal(c, s)"}, "b", lambda p: p["s"] ** 2 * LEVELS_G @ LEVELS_G.T),
    ("y ~ c + b[g] + v[g]*x + d*x", {"b[g]": "normal(0, s)", "v[g]": "normal(0, t)"}, ["b", "v"],
     lambda p: p["s"] ** 2 * LEVELS_G @ LEVELS_G.T
     + p["t"] ** 2 * (LEVELS_G * FEW_ROWS["x"][:, None]) @ (LEVELS_G * FEW_ROWS["x"][:, None]).T),
    ("y ~ c + b[g] + v[h] + d*x", {"b[g]": "normal(0, s)", "v[h]": "normal(0, t)"}, ["b", "v"],
     lambda p: p["s"] ** 2 * LEVELS_G @ LEVELS_G.T + p["t"] ** 2 * LEVELS_H @ LEVELS_H.T),
]  # fmt: skip


@each(
    "model, priors, laplace, covariance, weights",
    [(*case, weights) for case in LINEAR for weights in (None, "w")],
    quick=lambda *case: (case[-1] is None) == (LINEAR.index(case[:-1]) % 2 == 0),
)
def test_the_marginal_likelihood_of_a_linear_model_is_a_multivariate_normal_density(
    model: str, priors: dict[str, str], laplace: Any, covariance: Any, weights: str | None
) -> None:
    found, values = marginal(model, priors, laplace, weights=weights), []
    for seed in range(3):
        theta = np.random.default_rng(seed).uniform(0.3, 1.3, len(found.names))
        p = dict(zip(found.names, theta.tolist(), strict=True))
        noise = np.exp(2 * theta[-1]) / (FEW_ROWS["w"] if weights else np.ones(14))
        mean = p["c"] + p["d"] * FEW_ROWS["x"]
        wanted = -scipy.stats.multivariate_normal.logpdf(FEW_ROWS["y"], mean, covariance(p) + np.diag(noise))
        values.append((found.value_and_gradient(theta)[0], wanted))
    differences = np.diff(np.array(values), axis=0)
    np.testing.assert_allclose(differences[:, 0], differences[:, 1], rtol=1e-9)
    check_gradient(found, np.random.default_rng(5).uniform(0.3, 1.3, len(found.names)))


@each("options", [{}, {"weights": "w"}, {"weights": "w", "family": "poisson"}])
def test_the_loss_is_the_marginal_likelihood_of_a_row(options: dict[str, Any]) -> None:
    generator = np.random.default_rng(3)
    site = np.repeat(np.arange(6), 6)
    effects = generator.normal(0, 0.7, 6)[site]
    data = {"site": site, "w": 1 + np.arange(36) % 3, "y": generator.poisson(np.exp(1 + effects)).astype(float)}
    model = "y ~ exp(a + u[site])" if "family" in options else "y ~ a + u[site]"
    found = ad.fit(model, data, laplace="u", priors={"u[site]": "normal(0, s)"}, **options)
    assert found.loss == pytest.approx(-found.log_likelihood / 36, rel=1e-12)


def test_two_targets_that_share_effects_are_one_normal_sample() -> None:
    """The reported estimates maximise its density, and the log-likelihood is the density there."""
    generator, rows = np.random.default_rng(1), 24
    x, group = np.arange(rows) / 5, np.arange(rows) % 6
    effect = generator.normal(size=6)[group]
    y, z = (line + effect + 0.3 * generator.normal(size=rows) for line in (1 + 2 * x, 2 - x))
    data = {"x": x, "y": y, "z": z, "g": [f"g{k}" for k in group]}
    model = "[y, z] ~ [a + b*x + u[g], c + d*x + u[g]]"
    found = ad.fit(model, data, laplace="u", priors=["u[g] ~ normal(0, s)"])

    def log_density(a: float, b: float, c: float, d: float, s: float, sigma: float) -> float:
        shared = s * s * np.equal.outer(np.tile(group, 2), np.tile(group, 2)) + sigma**2 * np.eye(2 * rows)
        mean = np.concatenate((a + b * x, c + d * x))
        return float(scipy.stats.multivariate_normal.logpdf(np.concatenate((y, z)), mean, shared))

    best = log_density(**found.parameters)
    assert found.log_likelihood == pytest.approx(best, rel=1e-9)
    for name, value in found.parameters.items():
        for factor in (0.99, 1.01):
            assert log_density(**{**found.parameters, name: value * factor}) < best


def test_a_likelihood_that_is_written_out_has_the_random_effects_of_the_model_with_a_target() -> None:
    generator, group = np.random.default_rng(1), np.arange(24) % 6
    x = np.arange(24) / 5
    y = 1 + 2 * x + generator.normal(size=6)[group] + 0.1 * generator.normal(size=24)
    data = {"x": x, "y": y, "g": [f"g{k}" for k in group]}
    options: dict[str, Any] = {"laplace": "u", "priors": ["u[g] ~ normal(0, q)"]}
    wanted = ad.fit("y ~ a + b*x + u[g]", data, **options)
    found = ad.fit("-log(normal_pdf(y, a + b*x + u[g], sigma))", data, likelihood=True, **options)
    assert found.converged
    assert found.log_likelihood == pytest.approx(wanted.log_likelihood, rel=1e-9)
    for name, value in wanted.parameters.items():
        assert found.parameters[name] == pytest.approx(value, rel=1e-6)
        assert found.stderr[name] == pytest.approx(wanted.stderr[name], rel=1e-4)


def test_the_marginal_likelihood_of_counts_is_laplaces_approximation_of_each_level() -> None:
    """The joint density at the mode of a level, over the root of the curvature there."""
    found, values = marginal("k ~ exp(c + b[g] + d*x)", {"b[g]": "normal(0, s)"}, "b", family="poisson"), []
    for theta in np.random.default_rng(1).uniform(0.2, 0.9, (3, 3)):
        p = dict(zip(found.names, theta.tolist(), strict=True))
        total = 0.0
        for level in "ABCD":
            rows = np.array([each_of == level for each_of in FEW_ROWS["g"]])
            counts, offset = FEW_ROWS["k"][rows], p["c"] + p["d"] * FEW_ROWS["x"][rows]

            def joint(z: float, counts: Any = counts, offset: Any = offset, s: float = p["s"]) -> float:
                return float(z * z / 2 + np.sum(np.exp(offset + s * z) - counts * (offset + s * z)))

            z = scipy.optimize.minimize_scalar(joint, options={"xtol": 1e-9}).x
            total += joint(z) + math.log(1 + p["s"] ** 2 * np.sum(np.exp(offset + p["s"] * z))) / 2
        values.append((found.value_and_gradient(theta)[0], total))
    differences = np.diff(np.array(values), axis=0)
    np.testing.assert_allclose(differences[:, 0], differences[:, 1], rtol=1e-7)
    check_gradient(found, np.array([0.4, 0.7, 0.6]))


@each("columns, counts", [("gh", [3, 2]), ("g", [4]), ("hgf", [2, 5, 3]), ("gg", [4, 4]), ("ghg", [5, 2, 5])])
def test_the_factors_of_hessians_are_those_of_the_whole_matrix(columns: str, counts: list[int]) -> None:
    """Of effects of columns that cross, and of two effects of one column."""
    generator = np.random.default_rng(len(counts))
    drawn = {column: generator.integers(count, size=30) for column, count in zip(columns, counts, strict=True)}
    codes = [drawn[column] for column in columns]
    index = EffectIndex([*columns], codes, counts)
    weights = generator.normal(size=(len(counts), 30))
    curvatures = np.array([weights[a] * weights[b] for a, b in index.pairs])
    whole = np.eye(index.size)
    for row in range(30):
        places = [rows[row] for rows in index.rows]
        whole[np.ix_(places, places)] += np.outer(weights[:, row], weights[:, row])
    found = laplace_module._Hessian(index, curvatures)
    assert found.log_determinant == pytest.approx(np.linalg.slogdet(whole)[1], rel=1e-12)
    values = generator.normal(size=index.size)
    np.testing.assert_allclose(found.solve(values), np.linalg.solve(whole, values), rtol=1e-9)
    inverse = found.inverse()
    for (a, b), elements in zip(index.pairs, index.elements, strict=True):
        np.testing.assert_allclose(inverse[elements], np.linalg.inv(whole)[index.rows[a], index.rows[b]], rtol=1e-8)
    summed = np.zeros(index.size)
    for rows, each_of in zip(index.rows, weights, strict=True):
        np.add.at(summed, rows, each_of)
    np.testing.assert_allclose(index.sum_by_effect(weights), summed)


def test_matrices_that_are_not_positive_have_the_inverse_of_their_absolute_value() -> None:
    for matrix in (np.array([[2.0]]), np.array([[2.0, 1], [1, 3]])):
        inverses, logarithm = laplace_module._inverted(np.array([matrix, 2 * matrix]))
        np.testing.assert_allclose(inverses, [np.linalg.inv(matrix), np.linalg.inv(2 * matrix)])
        assert logarithm == pytest.approx(math.log(np.linalg.det(matrix)) + math.log(np.linalg.det(2 * matrix)))
        inverses, logarithm = laplace_module._inverted(-matrix[None])
        np.testing.assert_allclose(inverses[0], np.linalg.inv(matrix))
        assert math.isnan(logarithm)
    assert np.isnan(laplace_module._inverted(np.full((1, 2, 2), np.inf))[0]).all()


def test_an_approximation_that_exceeds_the_likelihood_is_said() -> None:
    """With few rows of 0 and 1, the approximation may be largest where it is wrong: against a fine grid."""
    grid = np.linspace(-8, 8, 2001)
    density = np.exp(-(grid**2) / 2) / np.exp(-(grid**2) / 2).sum()
    cases = [((15, 2, 1.5, 1), True), ((40, 1, 0.5, 4), True)]
    cases += [((15, 3, 1.5, 4), False), ((15, 10, 1.5, 1), False), ((40, 2, 1.5, 3), False)]
    for (levels, rows, spread, seed), is_excessive in cases[:: amount(2, 1, 1)]:
        generator = np.random.default_rng(seed)
        g = np.repeat(np.arange(levels), rows)
        x, u = generator.normal(size=len(g)), spread * generator.normal(size=levels)
        y = (generator.random(len(g)) < scipy.special.expit(0.5 + 0.8 * x + u[g])).astype(float)
        fit = ad.fit(
            "y ~ sigmoid(a + b*x + u[g])",
            {"x": x, "y": y, "g": g},
            laplace="u",
            priors={"u[g]": "normal(0, s)"},
            family="binomial",
        )
        a, b, s = fit.parameters.values()
        margins = (2 * y - 1)[:, None] * ((a + b * x)[:, None] + s * grid)
        of_levels = np.add.reduceat(-np.logaddexp(0, -margins), np.arange(0, len(g), rows))
        excess = fit.log_likelihood - np.log(np.exp(of_levels) @ density).sum()
        is_said = any("exceeds the log-likelihood" in warning for warning in fit.warnings)
        assert (excess > 0.5) == is_said == is_excessive


def test_classes_that_the_model_separates_have_no_fit() -> None:
    """Along a direction in which the likelihood of every row rises, the marginal likelihood rises as well."""
    x = np.arange(12.0)
    options: dict[str, Any] = {"laplace": "u", "priors": {"u[g]": "normal(0, s)"}, "family": "binomial"}
    for y in (x > 5.5, x >= 0):
        data = {"x": x, "y": y.astype(float), "g": np.arange(12) % 3}
        with pytest.raises(OptionError, match=r"without random effects, (the model separates|all targets are 1)"):
            ad.fit("y ~ sigmoid(a + b*x + u[g])", data, **options)
    data["y"][[2, 8]] = 1, 0
    assert ad.fit("y ~ sigmoid(a + b*x + u[g])", data, **options).converged


def test_the_trace_of_a_row_has_the_modes_of_its_levels(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    plot, year = np.repeat([*"abcdef"], 8), np.tile([2001, 2002, 2003, 2004], 12)
    x = generator.normal(size=48)
    y = generator.poisson(np.exp(1 + 0.5 * x + np.repeat(generator.normal(0, 0.4, 6), 8)))
    data: dict[str, Any] = {"plot": plot, "year": year, "x": x, "y": y}
    priors = {"u[plot]": "normal(0, s)", "v[year]": "normal(0, r)"}
    fit = ad.fit("y ~ exp(a + b*x + u[plot] + v[year])", data, family="poisson", priors=priors, laplace=["u", "v"])
    (tmp_path / "rows.csv").write_text(
        csv_text([[*data], *zip(*(each.tolist() for each in data.values()), strict=True)])
    )
    for number in (1, 20, 48):
        row = trace_fit_row(fit, open_data([str(tmp_path / "rows.csv")]), number, {})
        mean = fit.predict(data)[number - 1]
        assert row.point["u[plot]"] == fit.random_effects["u"].modes[plot[number - 1]]
        assert row.formula.value_and_grad(row.point)[0] == pytest.approx(mean - y[number - 1] * np.log(mean), rel=1e-12)


def test_a_model_of_effects_alone_has_the_estimates_of_balanced_levels() -> None:
    """With the mean known, the variances have a closed form; no other parameter is fitted first."""
    generator = np.random.default_rng(2)
    levels = np.repeat(np.arange(12), 5)
    y = generator.normal(0, 1.5, 12)[levels] + generator.normal(0, 0.4, 60)
    priors = {"u[tree]": "normal(0, s)"}
    found = ad.fit("y ~ u[tree]", {"y": y, "tree": levels}, laplace="u", priors=priors, no_columns=True)
    means = y.reshape(12, 5).mean(axis=1)
    within = np.sum((y.reshape(12, 5) - means[:, None]) ** 2) / (60 - 12)
    expected = {"s": np.sqrt(np.mean(means**2) - within / 5), "sigma": np.sqrt(within)}
    assert found.parameters == pytest.approx(expected, rel=1e-5)
    data, values = {"y": y + 3, "tree": levels}, {"fixed": {"a": 3.0}, "start": {"s": -2.0}}  # a deviation is positive
    fixed = ad.fit("y ~ a + u[tree]", data, laplace="u", priors=priors, **values)
    assert fixed.parameters == pytest.approx(expected, rel=1e-5)
