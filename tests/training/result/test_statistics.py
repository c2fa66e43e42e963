"""Covariances and standard errors at given points, compared with their definitions, alone and in batches."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import autodiff_cli as ad
from autodiff_cli import Objective
from autodiff_cli.array_types import Array
from autodiff_cli.language.errors import format_correlation
from autodiff_cli.training.fitting.minimization import root_mean_square
from autodiff_cli.training.objective.batch import GroupBatch, ObjectiveBatch, softmax_null_space
from autodiff_cli.training.objective.loading import as_dataset
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.statistics import (
    COVARIANCE,
    ComputedStatistics,
    batch_statistics,
    bound_text,
    combination_variances,
    compute_statistics,
    delta_method_variances,
    flat_errors,
    inverse_grams,
    inverse_hessians,
)
from tests.each import each

ROWS = np.random.default_rng(4)
COUNT = 14
DATA = {"x": np.linspace(0.1, 2, COUNT), "w": ROWS.uniform(0.5, 2, COUNT)}
DATA["y"] = 2 * np.exp(-0.8 * DATA["x"]) + 0.1 * ROWS.normal(size=COUNT)
DATA["n"] = ROWS.poisson(4 * np.exp(0.3 * DATA["x"])).astype(float)
DATA["share"] = ROWS.binomial(5, 0.4, COUNT) / 5
DATA["positive"] = np.exp(ROWS.normal(size=COUNT))
CURVE = "y ~ a*exp(-b*x)"


def second_derivatives(objective: Objective, theta: Array) -> Array:
    """Return the Hessian of the summed loss, by differences of its exact gradient."""
    rows = []
    for unit in 1e-5 * np.eye(len(theta)):
        high, low = (objective.value_and_grad(theta + side * unit)[1] for side in (1, -1))
        rows.append((high - low) / 2e-5)
    return np.array(rows) * objective.total_weight * objective.components


def jacobian_and_residuals(objective: Objective, theta: Array) -> tuple[Array, Array]:
    """Return the weighted Jacobian and residuals of all rows."""
    values = objective.evaluate_rows(objective.kernels.residuals_and_jacobian, theta)
    root = np.sqrt(objective.column("w")) if objective.is_weighted else 1.0
    return (values[:-1] * root).T, values[-1] * root


KINDS: list[tuple[str, dict[str, Any]]] = [
    (CURVE, {}),
    (CURVE, {"weights": "w"}),
    (CURVE, {"family": "gaussian"}),
    (CURVE, {"l2": 0.03}),
    (CURVE, {"loss": "huber"}),
    (CURVE, {"loss": "huber", "l2": 0.0003}),
    ("n ~ exp(a + b*x)", {"family": "poisson", "weights": "w"}),
    ("n ~ exp(a + b*x)", {"family": "quasipoisson"}),
    ("n ~ exp(a + b*x)", {"family": "poisson", "l2": 0.03}),
    ("n ~ exp(a + b*x)", {"family": "negative_binomial"}),
    ("share ~ sigmoid(a + b*x)", {"family": "binomial"}),
    ("positive ~ exp(a + b*x)", {"family": "gamma"}),
]


def covariance(found: ComputedStatistics, objective: Objective) -> Array:
    errors = flat_errors(found.stderr, objective.layout.values(objective.start))
    return np.asarray(found.correlation * np.outer(errors, errors))


def minimum(objective: Objective) -> Array:
    """Return the minimum of an objective, by SciPy and then Newton's method, with a fixed scale."""
    start = np.array([2.0, 0.8]) if objective.model.text == CURVE else np.array([0.5, 0.3])
    theta = optimize.minimize(objective.value_and_grad, start, jac=True, method="BFGS", tol=1e-9).x
    for _ in range(3):
        gradient = objective.value_and_grad(theta)[1]
        theta = theta - np.linalg.solve(objective.curvature(theta), gradient)
    assert np.abs(objective.value_and_grad(theta)[1]).max() < 1e-10
    return theta


def scaled(objective: Objective) -> Objective:
    """Return an objective with a given scale of robust losses, or theta of counts."""
    if objective.kind.name == "ROBUST" or objective.has_theta:
        objective.set_scale(0.11 if objective.kind.name == "ROBUST" else 3.0)
    return objective


@each("model, options", KINDS)
@each("absolute", [False, True])
def test_covariances_are_those_of_their_definitions(model: str, options: dict[str, Any], absolute: bool) -> None:
    objective = scaled(Objective(model, DATA, **options))
    theta = minimum(objective)
    plain = objective.without_penalty() if objective.is_penalised else objective
    found = compute_statistics(objective, theta, absolute)
    hessian, loss, family = second_derivatives(objective, theta), options.get("loss"), options.get("family")
    if model == CURVE:
        jacobian, residuals = jacobian_and_residuals(objective, theta)
        squares, variance = jacobian.T @ jacobian, residuals @ residuals / (COUNT - 2)
    if "l2" in options and loss is None and family is None:
        reference = plain_minimum = minimum(plain)
        residuals = jacobian_and_residuals(plain, plain_minimum)[1]
        inverse = np.linalg.inv(hessian / 2)
        wanted = inverse @ squares @ inverse * (1 if absolute else residuals @ residuals / (COUNT - 2))
        assert reference.shape == theta.shape
    elif "l2" in options and family == "poisson":
        inverse = np.linalg.inv(hessian)
        wanted = inverse @ second_derivatives(plain, theta) @ inverse
    elif loss == "huber":
        size, limit = 0.11, 1.345
        psi, slope = np.clip(residuals / size, -limit, limit), np.abs(residuals / size) < limit
        correction = 1 + 2 / COUNT * (np.mean(slope**2) / np.mean(slope) ** 2 - 1)
        norm = size * correction * math.sqrt(np.sum(psi**2))
        if "l2" in options:
            data = np.mean(slope) * squares
            inverse = np.linalg.inv(hessian - second_derivatives(plain, theta) + data)
            dof = COUNT - np.trace(inverse @ data)
            wanted = inverse @ data @ inverse * norm**2 / np.mean(slope) / dof
        else:
            wanted = np.linalg.inv(squares) * (norm / np.mean(slope)) ** 2 / (COUNT - 2)
    elif family == "gaussian":
        wanted = np.linalg.inv(hessian / 2) * variance
    elif model == CURVE:
        wanted = np.linalg.inv(squares) * (1 if absolute else variance)
    elif family in ("poisson", "binomial"):
        wanted = np.linalg.inv(hessian)
    else:
        mean = objective.evaluate_rows(objective.kernels.target_and_prediction, theta)[1]
        design = np.stack([mean, mean * DATA["x"]], axis=1)
        variances = {"quasipoisson": mean, "gamma": mean**2, "negative_binomial": mean + mean**2 / 3}[str(family)]
        target = DATA["positive"] if family == "gamma" else DATA["n"]
        wanted = np.linalg.inv(design.T @ (design / variances[:, None]))
        wanted *= 1 if family == "negative_binomial" else np.sum((target - mean) ** 2 / variances) / (COUNT - 2)
    np.testing.assert_allclose(covariance(found, objective), wanted, rtol=2e-5)
    assert [*found.stderr.values()] == pytest.approx(np.sqrt(np.diag(wanted)), rel=1e-5)
    assert found.warnings == ()
    assert found.dof == COUNT - 2
    uses_normal = absolute or family in ("poisson", "binomial", "negative_binomial")
    assert found.interval_dof == (None if uses_normal else COUNT - 2)
    if model == CURVE:
        assert found.rss == pytest.approx(residuals @ residuals if "l2" not in options else found.rss, rel=1e-10)
        weights = DATA["w"] if "weights" in options else np.ones(COUNT)
        mean = np.average(DATA["y"], weights=weights)
        variation = np.sum(weights * (DATA["y"] - mean) ** 2)
        assert found.r_squared == pytest.approx(1 - float(found.rss or 0) / variation, rel=1e-10)
    else:
        assert found.r_squared is None


@each("model, options", [kind for kind in KINDS if "negative" not in str(kind)])
def test_statistics_of_a_batch_are_those_of_its_fits_alone(model: str, options: dict[str, Any]) -> None:
    """One of the fits ends on a bound, and one away from its minimum."""
    objective = scaled(Objective(model, DATA, **options))
    groups = [np.arange(COUNT), np.arange(3, COUNT), np.arange(0, COUNT, 2)]
    alone = [scaled(objective.select_rows(rows)) for rows in groups]
    theta = np.array([minimum(each_of) for each_of in alone])
    theta[2] += [0.3, 0.2]
    bounds = objective.bounds.with_fixed(1, 0.0).copy()
    bounds.low[1], bounds.high[1] = -math.inf, theta[1, 1]
    if model == CURVE and not options:
        theta[0, 1] = min(theta[0, 1], theta[1, 1])
    batch, single = GroupBatch(objective, groups, bounds), ObjectiveBatch(alone, bounds)
    for one, other in zip(batch_statistics(batch, theta, False), batch_statistics(single, theta, False), strict=True):
        np.testing.assert_allclose(one.correlation, other.correlation, rtol=1e-7)
        assert one.minimum_distance == pytest.approx(other.minimum_distance, rel=1e-6, abs=1e-8, nan_ok=True)
        assert (one.dof, one.definition, one.warnings) == (other.dof, other.definition, other.warnings)
        assert (one.rss, one.r_squared) == (
            (None, None) if other.rss is None else (pytest.approx(other.rss), pytest.approx(other.r_squared))
        )
    on_bound = batch_statistics(batch, theta, False)[1]
    assert on_bound.stderr["b"] is None
    assert on_bound.stderr["a"] is not None


@each("distance, is_reported", [(0.4, True), (0.6, False)])
@each("model, options", [
    (CURVE, {}),
    (CURVE, {"l2": 0.01}),
    (CURVE, {"loss": "huber"}),
    (CURVE, {"loss": "cauchy", "weights": "positive"}),
    ("n ~ exp(a + b*x)", {"family": "poisson"}),
    ("n ~ exp(a + b*x)", {"family": "quasipoisson", "l2": 0.01}),
    ("positive ~ exp(a + b*x)", {"family": "gamma"}),
])  # fmt: skip
def test_a_fit_half_a_standard_error_from_its_minimum_has_no_errors(
    model: str, options: dict[str, Any], distance: float, is_reported: bool
) -> None:
    objective = Objective(model, DATA, **options)
    theta = minimum(objective)
    errors = compute_statistics(objective, theta).stderr
    away = compute_statistics(objective, theta + np.array([0.0, distance * float(errors["b"] or 0.0)]))
    assert away.minimum_distance == pytest.approx(distance, rel=0.2)
    assert (away.stderr["a"] is not None) is is_reported
    assert any(f"the fit stopped {away.minimum_distance:.2g} standard errors away" in w for w in away.warnings) is (
        not is_reported
    )


def test_inverses_of_matrices_leave_out_what_they_do_not_determine() -> None:
    generator = np.random.default_rng(0)
    factors = generator.normal(size=(4, 6, 3)) * [1.0, 1e9, 1e-9]
    factors[1, :, 2] = 1e-18 * factors[1, :, 1]
    factors[2, :, 0] = 0.0
    factors[3, 0, 0] = math.inf
    inverses, reasons, nullities, *_ = inverse_grams(factors, [*"abc"])
    assert nullities.tolist() == [0, 1, 1, 0]
    np.testing.assert_allclose(inverses[0], np.linalg.inv(factors[0].T @ factors[0]), rtol=1e-8)
    assert np.isnan(inverses[1]).tolist() == [[False, True, True], [True] * 3, [True] * 3]
    assert inverses[1, 0, 0] > 0
    assert np.isnan(inverses[2]).tolist() == [[True] * 3, [True, False, False], [True, False, False]]
    np.testing.assert_allclose(inverses[2][1:, 1:], np.linalg.inv(factors[2][:, 1:].T @ factors[2][:, 1:]), rtol=1e-8)
    assert np.isnan(inverses[3]).all()
    assert reasons == [
        [],
        [
            "the data determine only a combination of `b`, `c`, not each of them; fix one of them with "
            "`train --fix`, or leave one out"
        ],
        ["`a` is not determined: small changes of it do not change the prediction at the solution"],
        ["no standard errors: the derivatives are not finite at the solution"],
    ]


def test_inverses_of_hessians_have_no_directions_without_curvature() -> None:
    scale = np.diag([1.0, 1e6, 1e-6])
    whole = scale @ np.array([[2.0, 1, 0.5], [1, 3, 0.2], [0.5, 0.2, 1]]) @ scale
    flat = scale @ np.array([[2.0, 0, 0], [0, 1, 1], [0, 1, 1]]) @ scale
    down = scale @ np.diag([1.0, -1.0, 1.0]) @ scale
    inverses, reasons, nullities, *_ = inverse_hessians(np.array([whole, flat, down, whole * np.nan]), [*"abc"])
    assert nullities.tolist() == [0, 1, 1, 0]
    np.testing.assert_allclose(inverses[0], np.linalg.inv(whole), rtol=1e-9)
    assert inverses[1, 0, 0] == pytest.approx(0.5)
    assert np.isnan(inverses[1][1:]).all()
    assert np.isnan(inverses[2][1]).all()
    assert inverses[2, 0, 0] == pytest.approx(1.0)
    assert reasons[1][0].startswith("the data determine only a combination of `b`, `c`, not each of them")
    assert reasons[2] == ["`b` is not determined: the loss has no curvature in it at the solution"]
    assert reasons[3] == ["no standard errors: the derivatives are not finite at the solution"]


def test_quantities_are_known_although_their_parameters_are_not() -> None:
    generator = np.random.default_rng(1)
    factor = generator.normal(size=(5, 3)) * [1.0, 1e6, 1e-3]
    factor[:, 2] = 1e-3 * factor[:, 0]
    slopes = np.array([[1.0, 0, 1e-3], [0.0, 1, 0], [2.0, 5, 2e-3], [1.0, 0, 0], [1.0, 0, 1.1e-3]])
    found = combination_variances(slopes, factor)
    product = np.linalg.inv(factor[:, :2].T @ factor[:, :2])
    known = [slope[:2] @ product @ slope[:2] for slope in slopes[:3]]
    np.testing.assert_allclose(found, [*known, math.nan, math.nan], rtol=1e-9)


@each("correlation, decimals, text", [
    (0.5, 3, "0.500"), (-0.99999, 3, "-0.99999"), (0.9994, 3, "0.999"), (0.99951, 3, "0.9995"),
    (1.0, 2, "1.00"), (1 - 4e-13, 3, "1.000"), (1 - 6e-13, 3, "0.999999999999"),
])  # fmt: skip
def test_correlations_have_the_decimals_that_distinguish_them_from_1(
    correlation: float, decimals: int, text: str
) -> None:
    assert format_correlation(correlation, decimals) == text


def test_parameters_on_bounds_are_named_with_their_side_and_the_rest_counted() -> None:
    names = [f"p{k}" for k in range(13)]
    data = {"x": np.ones(20), "y": np.ones(20)}
    objective = Objective(f"y ~ x*({' + '.join(names)})", data, bounds=dict.fromkeys(names, (1, 2)))
    theta = np.where(np.arange(13) % 2, 2.0, 1.0)
    on_bound = np.arange(13) != 5
    found = bound_text(ObjectiveBatch([objective]), 0, theta, on_bound, True)
    assert len(found) == COVARIANCE.max_bounds_shown + 1
    assert found[0] == (
        "`p0` ends on its lower bound, 1; the standard errors of the other parameters assume that it is fixed there"
    )
    assert found[1].startswith("`p1` ends on its upper bound, 2;")
    assert found[-1] == "the same is true of 2 more parameters"
    one_more = bound_text(ObjectiveBatch([objective]), 0, theta, np.arange(13) < 11, True)
    assert one_more[-1] == "the same is true of 1 more parameter"
    few = bound_text(ObjectiveBatch([objective]), 0, theta, np.arange(13) == 3, False)
    assert few == ("`p3` ends on its upper bound, 2",)


@each("model, options, words", [
    (CURVE, {"l1": 0.1}, "an l1 penalty sets parameters to exactly 0"),
    (CURVE, {"loss": "mae"}, "the loss mae is not a likelihood"),
    ("(y - a*x)^2", {}, "the model is a loss without residuals; add --likelihood"),
    ("y ~ mlp(x, [2], tanh)", {}, "hidden units are interchangeable"),
])  # fmt: skip
def test_why_there_are_no_standard_errors(model: str, options: dict[str, Any], words: str) -> None:
    objective = Objective(model, DATA, **options)
    found = compute_statistics(objective, objective.start)
    assert words in found.missing_error_reasons[0]
    assert found.definition == ""
    assert np.isnan(found.correlation).all()
    given = compute_statistics(Objective(CURVE, DATA), np.ones(2), missing="no standard errors: nobody knows")
    assert given.missing_error_reasons == ("no standard errors: nobody knows",)


def test_directions_that_change_no_softmax_are_found() -> None:
    kinds = np.array([*"abcabcabbcacba"])
    objective = Objective("kind ~ softmax(dense(x, 3))", {"x": DATA["x"], "kind": kinds})
    theta = np.arange(6) / 10
    basis = softmax_null_space(objective, theta)
    assert basis is not None
    np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-12)
    for direction in basis.T:
        assert objective.value(theta + 3 * direction) == pytest.approx(objective.value(theta), rel=1e-12)
    assert softmax_null_space(Objective(CURVE, DATA), np.ones(2)) is None


@each("unit", [1.0, 1e-10, 1e8])
@each("share", [0.0, 1e-2])
def test_directions_that_change_no_softmax_are_found_in_any_units(unit: float, share: float) -> None:
    """A penalty that is a share of the curvature determines all of them, however small both are."""
    chance = np.random.default_rng(3)
    columns = {"u": unit * chance.normal(size=40), "v": 3 * unit * chance.normal(size=40)}
    data = {**columns, "kind": chance.integers(0, 3, 40)}
    objective = Objective("W: 3x2; kind ~ softmax(W @ [u, v])", data, loss="cross_entropy", l2=share * unit**2)
    basis = softmax_null_space(objective, chance.normal(size=6) / unit)
    assert basis is not None
    assert basis.shape == (6, 0 if share else 2)


def test_errors_of_softmax_parameters_are_those_with_scores_of_sum_0() -> None:
    """The generalised inverse of the Hessian, whose null space are the directions that change no probability."""
    kinds = np.array([*"abcabcabbcacba"])
    objective = Objective("kind ~ softmax(dense(x, 3))", {"x": DATA["x"], "kind": kinds})
    end = optimize.minimize(objective.value_and_grad, np.zeros(6), jac=True, method="BFGS", tol=1e-10).x
    found = compute_statistics(objective, end)
    hessian = second_derivatives(objective, end)
    np.testing.assert_allclose(covariance(found, objective), np.linalg.pinv(hessian, rcond=1e-7), rtol=1e-4, atol=1e-6)
    assert "sums over the classes of 0" in found.definition
    assert found.warnings == ()


@each("sigma", [None, 0.2])
def test_errors_with_priors_are_those_of_the_posterior_density(sigma: float | None) -> None:
    """With an unknown variance, its best value for all parameters is put in: n/2*log(rss) - log prior."""
    options = FitOptions(
        priors={"a": "normal(1.5, 0.2)", "b": "normal(1, 0.3)"}, sigma=sigma, absolute_sigma=bool(sigma)
    )
    objective = Objective.of(CURVE, as_dataset(DATA), options)

    def minus_log_posterior(theta: Array) -> float:
        rss = np.sum((DATA["y"] - theta[0] * np.exp(-theta[1] * DATA["x"])) ** 2)
        prior = ((theta[0] - 1.5) / 0.2) ** 2 / 2 + ((theta[1] - 1) / 0.3) ** 2 / 2
        return float(prior + (COUNT / 2 * math.log(rss) if sigma is None else rss / sigma**2 / 2))

    end = optimize.minimize(
        minus_log_posterior, [2.0, 0.8], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13}
    ).x
    if sigma is None:
        objective.set_scale(root_mean_square(objective, end))
    h = 1e-4
    steps = h * np.eye(2)
    hessian = np.array(
        [
            [
                sum(i * j * minus_log_posterior(end + i * one + j * other) for i in (1, -1) for j in (1, -1))
                / (4 * h * h)
                for other in steps
            ]
            for one in steps
        ]
    )
    found = compute_statistics(objective, end)
    np.testing.assert_allclose(covariance(found, objective), np.linalg.inv(hessian), rtol=1e-4)
    assert found.interval_dof is None


@each("model, options", [kind for kind in KINDS if kind[0] != CURVE or not kind[1]])
def test_one_row_more_than_parameters_is_needed_for_an_estimated_variance(model: str, options: dict[str, Any]) -> None:
    for rows in (2, 3):
        objective = scaled(
            Objective(model, {name: column[[1, 6, 12][:rows]] for name, column in DATA.items()}, **options)
        )
        theta = objective.start
        found = compute_statistics(objective, theta, missing="")
        is_estimated = options.get("family") in (None, "quasipoisson", "gamma")
        reason = "no standard errors: there are no more rows than parameters, so the residual variance is unknown"
        assert (reason in found.missing_error_reasons) is (is_estimated and rows == 2)
        assert found.dof == rows - 2


@each("is_known", [True, False])
def test_errors_on_an_order_are_those_of_the_model_with_one_parameter(is_known: bool) -> None:
    """Tied parameters have the error of their common value; what depends on an unknown parameter is unknown."""
    model = "y ~ a*x + b*x^2 + c" + ("" if is_known else " + d - d")
    tied = Objective(model, DATA, bounds={"b": ("a", None)})
    free = Objective("y ~ a*(x + x^2) + c", DATA)
    design = np.stack([DATA["x"] + DATA["x"] ** 2, np.ones(COUNT)], axis=1)
    a, c = np.linalg.lstsq(design, DATA["y"])[0]
    names = tied.parameters
    theta = np.array([{"a": a, "b": a, "c": c, "d": 0.3}[name] for name in names])
    found = compute_statistics(tied, theta)
    wanted = compute_statistics(free, np.array([a, c]))
    ratio = math.sqrt((COUNT - 2) / (COUNT - 3))  # both count as parameters, unlike one that changes nothing
    assert found.stderr["a"] == pytest.approx(found.stderr["b"], rel=1e-9)
    assert found.stderr["a"] == pytest.approx(float(wanted.stderr["a"] or 0.0) * ratio, rel=1e-9)
    assert (found.stderr.get("d") is None) is True
    if not is_known:
        k = names.index("d")
        assert np.isnan(found.correlation[k]).all()
        assert np.isnan(found.correlation[:, k]).all()
        assert not np.isnan(np.delete(np.delete(found.correlation, k, 0), k, 1)).any()


FIGURES = (
    *("loss", "rss", "dof", "r_squared", "adjusted_r_squared", "rmse", "reduced_chi_squared", "log_likelihood"),
    *("aic", "aicc", "bic", "chi_squared_p", "deviance", "null_deviance", "pearson_chi_squared", "dispersion"),
    *("overdispersion_p", "theta"),
)


@each(
    ("model", "options"),
    [
        ("y ~ b*x + a", {}),
        ("y ~ b*x + a", {"weights": "w"}),
        ("y ~ b*x + a", {"sigma": "w", "absolute_sigma": True}),
        ("y ~ b*x + a", {"loss": "huber"}),
        ("n ~ exp(b*x + a)", {"family": "poisson"}),
        ("n ~ exp(b*x + a)", {"family": "quasipoisson"}),
        ("n ~ exp(b*x + a)", {"family": "negative_binomial"}),
        ("positive ~ exp(b*x + a)", {"family": "gamma"}),
        ("share ~ sigmoid(b*x + a)", {"family": "binomial", "weights": "trials"}),
        ("t ~ sigmoid(b*x + a)", {"loss": "bce"}),
        ("-normal_logpdf(y, b*x + a, exp(s))", {"likelihood": True}),
        ("y ~ b*x + a", {"by": "half"}),
    ],
    quick=lambda model, options: options.get("family", "binomial") == "binomial" and options.get("loss") != "bce",
)
def test_a_redundant_parameter_changes_no_figure(model: str, options: dict[str, Any]) -> None:
    """In R, `lm` and `glm` count the rank of the model, too, and predict with it."""
    data = {**DATA, "trials": np.full(COUNT, 5.0), "half": np.arange(COUNT) % 2, "t": np.arange(COUNT) % 3 == 0}
    by = {key: value for key, value in options.items() if key != "by"}

    def fits(text: str, constant: str) -> list[Any]:
        derived = {**by, "derive": {"constant": constant, "alone": "a"}}
        return [*ad.fit_by(text, data, "half", **derived)] if "by" in options else [ad.fit(text, data, **derived)]

    redundant_fits = fits(model.replace(" + a", " + a + c"), "a + c")
    for plain, redundant in zip(fits(model, "a"), redundant_fits, strict=True):
        one, other = (getattr(each, "fit", each) for each in (plain, redundant))
        for name in FIGURES:
            wanted = getattr(one, name)
            assert getattr(other, name) == (wanted and pytest.approx(wanted, rel=1e-5)), name
        assert (other.null_test is None) == (one.null_test is None)
        if one.null_test is not None:
            assert other.null_test.dof == one.null_test.dof
            assert other.null_test.statistic == pytest.approx(one.null_test.statistic, rel=1e-5)
        assert other.stderr["b"] == pytest.approx(one.stderr["b"], rel=1e-4)
        assert other.p_values["b"] == pytest.approx(one.p_values["b"], rel=1e-3)
        assert other.stderr["c"] is None
        assert other.derived["constant"] == pytest.approx(one.derived["constant"], rel=1e-4)
        assert other.derived["alone"]["stderr"] is None
        if "likelihood" not in options:
            assert other.parameters["c"] == pytest.approx(other.parameters["a"], rel=1e-5)  # the smallest values
            columns = {"x": [-1.0, 3], "w": [0.5, 2], "trials": [5, 5]}
            bands, others = one.predict(columns, interval=0.9), other.predict(columns, interval=0.9)
            for low, found in zip(bands, others, strict=True):
                np.testing.assert_allclose(found, low, rtol=1e-4)


@each("model", ["y ~ a + c + b*x", "n ~ exp(a + c + b*x)", "y ~ a[g] + c[h] + b*x"])
@each("by", [None, "half"])
def test_a_bound_that_a_redundant_parameter_can_leave_changes_nothing(model: str, by: str | None) -> None:
    """Rounding errors had chosen a parameter that ended on its bound and counted as fixed there."""
    data = {**DATA, "half": np.arange(COUNT) % 2, "g": [*"uuvvuuv"] * 2, "h": [*"kkklllk"] * 2}
    data["y"] = 9 + data["y"]
    options = {"family": "poisson"} if model.startswith("n") else {}

    def fits(**given: Any) -> list[Any]:
        single = by is None
        return (
            [ad.fit(model, data, **options, **given)] if single else [*ad.fit_by(model, data, by, **options, **given)]
        )

    for free, bounded in zip(fits(), fits(bounds={"a": (0, None), "c": (0, None)}), strict=True):
        one, other = (getattr(each, "fit", each) for each in (free, bounded))
        for values, found in ((one.parameters, other.parameters), (one.stderr, other.stderr)):
            for name, value in values.items():
                np.testing.assert_allclose(np.array(found[name], float), np.array(value, float), rtol=1e-4)
        assert (other.dof, other.null_test.dof) == (one.dof, one.null_test.dof)
        assert other.warnings == one.warnings


def test_a_saved_fit_knows_the_combinations_that_the_data_determine(tmp_path: Path) -> None:
    fit = ad.fit("y ~ a[g] + b[h] + c*x", {**DATA, "g": [*"uv"] * 7, "h": [*"kkllkkllkkllkk"]})
    assert any("; fix one of them with `train --fix`, or leave one out" in warning for warning in fit.warnings)
    fit.save(tmp_path / "model.json")
    loaded = ad.load(tmp_path / "model.json")
    rows = {"x": [0.5, 0.5], "g": ["u", "v"], "h": ["l", "k"]}
    for kept, found in zip(fit.predict(rows, interval=0.9), loaded.predict(rows, interval=0.9), strict=True):
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, kept, rtol=1e-12)
    assert str(loaded) == str(fit)


def test_unknown_errors_of_many_parameters_take_no_memory() -> None:
    """A network has no errors, and its correlations are a single nan in memory."""
    size = 10**6
    unknown: Any = SimpleNamespace(correlation=np.broadcast_to(math.nan, (size, size)), partial_factor=None)
    gradients = np.zeros((2, size))
    gradients[0, 7] = 1.0
    found = delta_method_variances(gradients, unknown, np.full(size, math.nan))
    np.testing.assert_array_equal(found, [math.nan, 0.0])


def test_rows_that_a_fit_does_not_determine_have_no_bands() -> None:
    x, z = DATA["x"], 2 * DATA["x"]
    fit = ad.fit("y ~ a + b*x + c*z", {"x": x, "z": z, "y": DATA["y"]})
    bands = fit.predict({"x": [1.0, 1.0], "z": [2.0, 3.0]}, interval=0.9)
    assert np.isfinite(bands.confidence_low).tolist() == [True, False]


def test_softmax_of_two_classes_is_a_logistic_regression() -> None:
    """R: `multinom` and `glm` have the same AIC."""
    labels = [*"uvuvvuvuvuvvuv"]
    softmax = ad.fit("label ~ softmax([a + b*x, c + d*x])", {"x": DATA["x"], "label": labels})
    logistic = ad.fit("t ~ sigmoid(a + b*x)", {"x": DATA["x"], "t": [each == "v" for each in labels]}, loss="bce")
    assert [softmax.parameters[name] for name in "cd"] == pytest.approx([-softmax.parameters[name] for name in "ab"])
    for name in ("dof", "deviance", "log_likelihood", "aic", "aicc", "bic"):
        assert getattr(softmax, name) == pytest.approx(getattr(logistic, name), rel=1e-9), name
