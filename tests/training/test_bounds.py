"""Parameters between bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import least_squares

import autodiff_cli as ad
from autodiff_cli.options import OptionError
from autodiff_cli.training.objective.parameters import parse_bounds
from autodiff_cli.training.optimizers import OPTIMIZERS
from autodiff_cli.training.options import check_bounds
from tests.each import each

X = np.linspace(0, 4, 40)
Y = 2.5 * np.exp(-1.3 * X) + 0.1 + 0.02 * np.random.default_rng(1).standard_normal(40)
MODEL = "y ~ a*exp(-b*x) + c"
BOUNDS = {"b": (0, 1.1), "c": (None, 0.2)}


@each("optimizer", ["lm", "lbfgs"])
def test_a_fit_between_bounds_is_that_of_another_program(optimizer: str) -> None:
    def residuals(theta: np.ndarray) -> np.ndarray:
        a, b, c = theta
        return a * np.exp(-b * X) + c - Y

    box = ([-np.inf, 0, -np.inf], [np.inf, 1.1, 0.2])
    reference = least_squares(residuals, [1, 0.5, 0.1], bounds=box, xtol=1e-15, ftol=1e-15, gtol=1e-15)
    fit = ad.fit(MODEL, {"x": X, "y": Y}, optimizer=optimizer, bounds=BOUNDS)
    assert fit.converged
    assert fit.parameters["b"] == 1.1
    assert [*fit.parameters.values()] == pytest.approx(reference.x, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_line_ends_exactly_on_a_bound_that_it_would_cross(seed: int) -> None:
    """A step to a bound may end beside it by rounding, from where no further step lowers the loss."""
    generator = np.random.default_rng(seed)
    for _ in range(15):
        x, slope, bound = generator.uniform(0, 5, 12), generator.normal(), generator.uniform(0.01, 1)
        y = slope * x + generator.normal(0, 0.5, 12)
        free = ad.fit("y ~ a + b*x", {"x": x, "y": y}).parameters["b"]
        bounds = (None, bound) if free > bound else (bound, None)
        fit = ad.fit("y ~ a + b*x", {"x": x, "y": y}, bounds={"b": bounds})
        assert fit.converged
        assert fit.parameters == pytest.approx({"a": np.mean(y - bound * x), "b": bound}, rel=1e-9)
        assert fit.on_bounds == ("b",)


@each("optimizer", ["lm", "lbfgs"])
def test_lower_bounds_hold_as_upper_ones_do(optimizer: str) -> None:
    fit = ad.fit(MODEL, {"x": X, "y": Y}, optimizer=optimizer, bounds={"b": (2, None), "c": (0.3, 3)})
    held = ad.fit(MODEL, {"x": X, "y": Y}, fixed={"b": 2, "c": 0.3})
    assert fit.converged
    assert fit.on_bounds == ("b", "c")
    assert fit.parameters["a"] == pytest.approx(held.parameters["a"], rel=1e-8)


@pytest.mark.slow
@each("batch_size", [None, 8])
@each("optimizer", OPTIMIZERS)
def test_gradient_methods_never_leave_the_bounds(optimizer: str, batch_size: int | None) -> None:
    met: list[np.ndarray] = []
    fit = ad.fit(
        MODEL,
        {"x": X, "y": Y},
        optimizer=optimizer,
        learning_rate=0.05,
        batch_size=batch_size,
        bounds={"b": (0.2, 0.7), "c": (0.3, None)},
        on_epoch=lambda epoch: met.append(epoch.theta),
    )
    _, b, c = np.array(met).T
    assert b.min() >= 0.2
    assert b.max() <= 0.7
    assert c.min() >= 0.3
    assert fit.on_bounds


@each("backend", ["numpy", "llvm"])
def test_a_projected_method_ends_where_least_squares_does(backend: str) -> None:
    options = {"optimizer": "adam", "learning_rate": 0.05, "epochs": 600, "backend": backend}
    fit = ad.fit(MODEL, {"x": X, "y": Y}, bounds=BOUNDS, **options)
    assert fit.parameters == pytest.approx(ad.fit(MODEL, {"x": X, "y": Y}, bounds=BOUNDS).parameters, rel=1e-6)


def test_a_parameter_on_a_bound_has_no_error_and_counts_as_fixed() -> None:
    fit = ad.fit(MODEL, {"x": X, "y": Y}, bounds=BOUNDS)
    held = ad.fit(MODEL, {"x": X, "y": Y}, fixed={"b": 1.1})
    assert fit.stderr["b"] is None
    assert fit.confidence()["b"] is None
    assert np.isnan(fit.covariance[1]).all()
    scale = math.sqrt(held.dof / fit.dof)  # it still counts as a parameter
    assert fit.stderr["a"] == pytest.approx(held.stderr["a"] * scale, rel=1e-9)
    assert fit.stderr["c"] == pytest.approx(held.stderr["c"] * scale, rel=1e-9)
    assert [*filter(lambda sentence: "bound" in sentence, fit.warnings)] == [
        "`b` ends on its upper bound, 1.1; the standard errors of the other parameters assume that it is fixed there"
    ]
    assert "on its bound" in fit.summary()


COUNTS = np.random.default_rng(2).poisson(4 * np.exp(-0.9 * X) + 1)


@each(
    "options",
    [
        {"sigma": 0.02, "absolute_sigma": True},
        {"loss": "huber"},
        {"sigma": 0.02, "absolute_sigma": True, "l2": 0.01},
        {"family": "poisson"},
        {"family": "gamma"},
        {"family": "poisson", "priors": {"a": "normal(4, 3)"}},
    ],
)
def test_errors_beside_a_bound_are_those_of_a_fit_with_the_parameter_fixed_there(options: dict[str, Any]) -> None:
    y = COUNTS + 0.5 * (options.get("family") == "gamma") if "family" in options else Y
    bounded = ad.fit(MODEL, {"x": X, "y": y}, bounds={"b": (0, 0.5)}, start={"a": 3, "b": 0.4}, **options)
    fixed = ad.fit(MODEL, {"x": X, "y": y}, fixed={"b": 0.5}, start={"a": 3}, **options)
    assert bounded.on_bounds == ("b",)
    is_scaled = options.get("loss") == "huber" or options.get("family") == "gamma"
    scale = math.sqrt(fixed.dof / bounded.dof) if is_scaled else 1.0
    expected = {name: error * scale for name, error in fixed.stderr.items()}
    assert {name: bounded.stderr[name] for name in expected} == pytest.approx(expected, rel=1e-6)
    assert bounded.correlation[0, 2] == pytest.approx(fixed.correlation[0, 1], rel=1e-6)


def test_groups_with_different_parameters_on_bounds_have_the_errors_of_single_fits() -> None:
    groups, slopes = np.repeat(np.arange(6), len(X)), np.repeat([0.4, 0.8, 1.2, 0.4, 0.9, 2.0], len(X))
    x = np.tile(X, 6)
    data = {
        "g": groups,
        "x": x,
        "y": np.exp(-slopes * x) + np.repeat([0, 0.3, 0, 0.3, 0, 0.3], len(X)) + np.tile(Y, 6) / 9,
    }
    options: dict[str, Any] = {"bounds": {"b": (0.5, 1.3), "c": (0.1, None)}, "start": {"b": 0.7, "c": 0.2}}
    fits = ad.fit_by(MODEL, data, "g", **options)
    assert len({fits[group].on_bounds for group in range(6)}) > 2
    for group in range(6):
        alone = ad.fit(MODEL, {name: data[name][groups == group] for name in "xy"}, **options)
        assert fits[group].on_bounds == alone.on_bounds
        assert fits[group].errors == pytest.approx(alone.errors, rel=1e-6, nan_ok=True)


def test_bounds_that_do_not_bind_change_nothing() -> None:
    free, wide = (ad.fit(MODEL, {"x": X, "y": Y}, bounds=box) for box in ({}, {"b": (0, 100), "c": (-5, None)}))
    assert wide.parameters == pytest.approx(free.parameters, rel=1e-12)
    assert wide.stderr == pytest.approx(free.stderr, rel=1e-9)
    assert not wide.on_bounds
    assert not wide.warnings


@pytest.mark.slow
@each("loss", ["huber", "mae"])
def test_other_losses_know_bounds(loss: str) -> None:
    fit = ad.fit(MODEL, {"x": X, "y": Y}, loss=loss, bounds={"b": (0, 1.1)})
    assert fit.parameters["b"] == 1.1
    assert fit.converged


def test_an_array_has_the_bounds_in_each_number() -> None:
    data = {"x": X, "z": X**2, "y": 5 * X - X**2}
    fit = ad.fit("y ~ dot(w, [x, z])", data, bounds={"w": (0, None)})
    assert fit.parameters["w"].min() == 0
    assert fit.on_bounds == ("w",)
    assert fit.parameters["w"][0] == pytest.approx(np.sum(X * data["y"]) / np.sum(X * X))


def test_a_default_start_lies_between_the_bounds() -> None:
    objective = ad.Objective(MODEL, {"x": X, "y": Y}, bounds={"a": (2, 4), "b": (5, None)})
    assert objective.start.tolist() == [3, 10, 1]
    assert ad.Objective(MODEL, {"x": X, "y": Y}, bounds={"a": (0, 4)}, start={"a": 4}).start[0] == 4


@each(
    ("options", "words"),
    [
        ({"bounds": {"b": (0, 1)}, "start": {"b": 5}}, "the starting value 5 of `b` is outside its bounds, 0 to 1"),
        ({"bounds": {"b": (2, 1)}}, "lower bound of `b` is above the upper one: 2 to 1"),
        ({"bounds": {"b": (1, 1)}}, "fix it"),
        ({"bounds": {"b": (0, math.nan)}}, "a bound of `b` is nan"),
        ({"bounds": {"b": 3}}, "a pair of numbers"),
        ({"bounds": {"b": (0, 1)}, "fixed": {"b": 0.5}}, "`b` is fixed"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words.replace("(", r"\(")):
        ad.fit(MODEL, {"x": X, "y": Y}, **options)


def test_bounds_of_what_is_no_parameter_are_refused() -> None:
    for name in ("bb", "x"):
        with pytest.raises(ad.UnknownNameError, match=f"`{name}`"):
            ad.fit(MODEL, {"x": X, "y": Y}, bounds={name: (0, 1)})
    with pytest.raises(OptionError, match="`b` must be a number that is fitted"):
        ad.fit(MODEL, {"x": X, "y": Y}, bounds={"a": ("b", None)}, fixed={"b": 1.0})


@each(
    ("texts", "found"),
    [
        (["a=0:1", "b=:2^3"], {"a": (0, 1), "b": (-math.inf, 8)}),
        (["0 < a < 1"], {"a": (0, 1)}),
        (["1 >= a", "-2 <= b"], {"a": (-math.inf, 1), "b": (-2, math.inf)}),
        (["a > 0 and a < pi and b > 1"], {"a": (0, math.pi), "b": (1, math.inf)}),
    ],
)
def test_both_ways_to_write_bounds(texts: list[str], found: dict[str, tuple[float, float]]) -> None:
    assert parse_bounds(texts) == found


@each(
    "texts",
    [
        ["a"],
        ["a=0"],
        ["a=:"],
        ["a + b < 1"],
        ["a < 2*b"],
        ["a=b:1"],
        ["0 < a", "a=1:2"],
        ["a < 1 and a < 2"],
        ["a=[1]:"],
    ],
)
def test_other_texts_are_no_bounds(texts: list[str]) -> None:
    with pytest.raises(OptionError, match="bound"):
        parse_bounds(texts)


def test_a_model_file_keeps_bounds(tmp_path) -> None:
    fit = ad.fit(MODEL, {"x": X, "y": Y}, bounds=BOUNDS)
    fit.save(tmp_path / "model.json")
    assert ad.load(tmp_path / "model.json").bounds == {"b": (0, 1.1), "c": (-math.inf, 0.2)}


def test_bands_hold_what_stands_on_a_bound() -> None:
    fit = ad.fit(MODEL, {"x": X, "y": Y}, bounds=BOUNDS)
    held = ad.fit(MODEL, {"x": X, "y": Y}, fixed={"b": 1.1})
    new = {"x": [0.5, 5.0]}
    scale = math.sqrt(held.dof / fit.dof)
    bands, reference = fit.predict(new, interval=0.95), held.predict(new, interval=0.95)
    width, of_reference = (found.confidence_high - found.prediction for found in (bands, reference))
    assert width == pytest.approx(of_reference * scale * fit.quantile(0.95) / held.quantile(0.95))


def _sum_of_exponentials() -> dict[str, np.ndarray]:
    t = np.linspace(0, 10, 60)
    return {"t": t, "y": 5 * np.exp(-0.3 * t) + 3 * np.exp(-2 * t) + 0.02 * np.sin(37 * t)}


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("bounds", [{"k2": ("k1", None)}, {"k1": ("k2", None)}, {"k1": (0, "k2")}])
def test_a_parameter_bounds_another_one(bounds: dict) -> None:
    fit = ad.fit("y ~ A*exp(-k1*t) + B*exp(-k2*t)", _sum_of_exponentials(), bounds=bounds)
    low, high = ("k2", "k1") if bounds == {"k1": ("k2", None)} else ("k1", "k2")
    assert fit.parameters[low] == pytest.approx(0.3, abs=0.01)
    assert fit.parameters[high] == pytest.approx(2, abs=0.1)
    assert fit.converged
    assert all(error is not None for error in fit.stderr.values())


def test_an_order_that_the_data_contradict_binds() -> None:
    x = np.linspace(0, 10, 30)
    y = 3 * x + 1 + 0.1 * np.sin(37 * x)
    fit = ad.fit("y ~ a*x + b", {"x": x, "y": y}, bounds={"b": ("a", None)})
    together = np.sum(y * (x + 1)) / np.sum((x + 1) ** 2)  # of y ~ a*(x + 1)
    assert fit.parameters == pytest.approx({"a": together, "b": together}, rel=1e-9)
    assert "`a`, `b` end equal" in [words[:18] for words in fit.warnings]
    for bounds, words in (({"a": ("b", None), "b": ("a", None)}, "cycle"), ({"a": ("q", None)}, "no parameter `q`")):
        with pytest.raises(ValueError, match=words):
            ad.fit("y ~ a*x + b", {"x": x, "y": y}, bounds=bounds)


def test_a_fit_that_stops_before_an_order_binds_ends_on_no_bound() -> None:
    x = np.arange(6.0)
    fit = ad.fit("y ~ a*x + b", {"x": x, "y": 5 - x}, bounds={"b": (None, "a")}, optimizer="adam", epochs=3)
    assert fit.parameters["b"] < fit.parameters["a"]
    assert not [words for words in fit.warnings if "bound" in words or "end equal" in words]


def test_errors_on_an_order_are_those_of_the_model_with_fewer_parameters() -> None:
    x = np.linspace(0, 10, 30)
    y = 3 * x + 1 + 0.1 * np.sin(37 * x)
    ordered = ad.fit("y ~ a*x + b*x^2 + c", {"x": x, "y": y}, bounds={"b": ("a", None)}, profile=True)
    tied = ad.fit("y ~ a*(x + x^2) + c", {"x": x, "y": y})
    scale = math.sqrt(28 / 27)  # the order takes no degree of freedom
    assert ordered.stderr == pytest.approx(
        {name: tied.stderr[name[:1]] * scale for name in ("a", "c")} | {"b": tied.stderr["a"] * scale}, rel=1e-9
    )
    assert ordered.intervals == {}
    assert "no profile" in ordered.warnings[-1]


@pytest.mark.slow
def test_errors_on_a_sum_of_shares_are_those_of_the_model_with_fewer_parameters() -> None:
    generator = np.random.default_rng(1)  # two components, so that the third one would get a negative share
    z = np.concatenate([generator.normal(-1.4, 0.6, 150), generator.normal(1.4, 0.6, 150)])
    parts = "w1*normal_pdf(z, m1, s1) + {}*normal_pdf(z, m2, s2)"
    start = {"w1": 0.5, "m1": -1.4, "s1": 0.6, "m2": 1.4, "s2": 0.7}
    three = ad.fit(
        f"-log({parts.format('w2')} + (1 - w1 - w2)*normal_pdf(z, m3, s3))", {"z": z}, likelihood=True,
        start=start | {"w2": 0.5, "m3": 0, "s3": 0.3},
    )  # fmt: skip
    two = ad.fit(f"-log({parts.format('(1 - w1)')})", {"z": z}, likelihood=True, start=start)
    assert three.parameters["w1"] + three.parameters["w2"] == pytest.approx(1, abs=1e-12)
    assert three.loss == pytest.approx(two.loss, rel=1e-9)
    assert [three.stderr[name] for name in start] == pytest.approx([*two.stderr.values()], rel=1e-5)
    assert three.stderr["w2"] == pytest.approx(two.stderr["w1"], rel=1e-5)
    assert three.stderr["m3"] is None


@each("low, high", [(math.inf, None), (None, -math.inf), (math.inf, math.inf), (2, 1), (1, 1), (math.nan, 1)])
def test_bounds_between_which_there_is_no_number(low: float | None, high: float | None) -> None:
    with pytest.raises(OptionError, match="bound"):
        check_bounds("a", (low, high))


@each("optimizer", ["lm", "lbfgs"])
@each("limit", [1.7, 1.9, 1.95])
def test_the_value_of_one_level_is_no_way_around_the_bound_of_another(optimizer: str, limit: float) -> None:
    """Levels that are alike are also fitted from a common value, which the bound of one of them may not allow."""
    x = np.tile(np.linspace(0, 3, 12), 3)
    site = np.repeat(["A", "B", "C"], 12)
    y = 2 * np.exp(-0.7 * x) + 0.05 * np.cos(9 * np.arange(36))
    fit = ad.fit(
        "y ~ a[site]*exp(-b*x)", {"x": x, "y": y, "site": site}, bounds={"a[A]": (0, limit)}, optimizer=optimizer
    )
    assert fit.converged
    assert fit.parameters["a[A]"] == limit
    assert fit.stderr["b"] is not None


@pytest.mark.slow
@each("seed", range(3))
def test_terms_that_change_places_end_at_a_minimum_within_the_bounds_of_their_new_places(seed: int) -> None:
    """Two exponentials with different bounds: what is a minimum on the bound of one rate is none as the other rate."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 4, 22)
    y = 2 * np.exp(-0.7 * x) + np.exp(-3 * x) + generator.normal(0, 0.02, 22)
    bounds = {"b": (0.7037, None), "d": (None, 2.835)}

    def residuals(theta: np.ndarray) -> np.ndarray:
        a, b, c, d = theta
        return a * np.exp(-b * x) + c * np.exp(-d * x) - y

    box = ([-np.inf, 0.7037, -np.inf, -np.inf], [np.inf, np.inf, np.inf, 2.835])
    reference = min(
        least_squares(residuals, start, bounds=box, xtol=1e-15, ftol=1e-15, gtol=1e-15).cost
        for start in ([2, 0.8, 1, 2.5], [1, 3, 2, 0.7])
    )
    for optimizer in ("lm", "lbfgs"):
        fit = ad.fit("y ~ a*exp(-b*x) + c*exp(-d*x)", {"x": x, "y": y}, bounds=bounds, optimizer=optimizer)
        assert fit.converged
        assert fit.rss == pytest.approx(2 * reference, rel=1e-6)
        assert fit.parameters["b"] >= 0.7037
        assert fit.parameters["d"] <= 2.835
