"""Starts that are found in the data, whatever their units; and fits that say so when none were."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from autodiff_cli import Objective, fit
from autodiff_cli.array_types import Array, ignore_float_errors
from autodiff_cli.language.program import read
from autodiff_cli.training.fitting.starts import (
    SETTINGS,
    START_STRATEGIES,
    DescentRequest,
    Multistart,
    StartCandidate,
    _balance_with_partners,
    _find_partners,
    _sample_values,
    sample_starts,
)
from autodiff_cli.training.fitting.symmetries import Sinusoids
from autodiff_cli.training.objective.kernels import linear_parameters
from tests.each import each

GENERATOR = np.random.default_rng(0)
NOISE = GENERATOR.normal(size=200)


def at(low: float, high: float) -> Any:
    return np.linspace(low, high, len(NOISE))


def peak(x: Any, centre: float, width: float) -> Any:
    return np.exp(-(((x - centre) / width) ** 2))


# The model, x, y without noise, and what should come out.
CASES: dict[str, tuple[str, Any, Any, dict[str, float]]] = {
    "a peak at 550 nm": (
        "y ~ a*exp(-((x - m)/w)^2) + c", x := at(500e-9, 600e-9), 3 * peak(x, 550e-9, 5e-9) + 0.2,
        {"a": 3, "m": 550e-9, "w": 5e-9, "c": 0.2},
    ),
    "a wave in microseconds": (
        "y ~ a*sin(2*pi*f*x + p)", x := at(0, 50e-6), 2 * np.sin(2 * np.pi * 3e5 * x + 0.7),
        {"a": 2, "f": 3e5, "p": 0.7},
    ),
    "a fast wave": ("y ~ a*sin(w*x + p) + c", x := at(0, 10), 2 * np.sin(55 * x + 0.7) + 5, {"a": 2, "w": 55, "c": 5}),
    "a period": (
        "y ~ a*cos(2*pi*x/P + p) + c", x := at(0, 1e4), 2 * np.cos(2 * np.pi * x / 830 + 0.7), {"P": 830, "c": 0}
    ),
    "two waves": (
        "y ~ a*sin(w*x) + b*cos(v*x)", x := at(0, 10), 2 * np.sin(13 * x) + np.cos(4.4 * x),
        {"a": 2, "w": 13, "b": 1, "v": 4.4},
    ),
    "a wave that dies": (
        "y ~ a*exp(-g*x)*sin(2*pi*f*x)", x := at(0, 2e-3), np.exp(-900 * x) * np.sin(2 * np.pi * 9e3 * x),
        {"a": 1, "g": 900, "f": 9e3},
    ),
    "a line far from the origin": (
        "y ~ a/(1 + ((x - m)/w)^2)", x := at(10_000, 10_010), 2 / (1 + ((x - 10_003) / 0.1) ** 2),
        {"a": 2, "m": 10_003, "w": 0.1},
    ),
    "two peaks": (
        "y ~ a*exp(-((x - m)/w)^2) + b*exp(-((x - n)/v)^2)", x := at(0, 10), 2 * peak(x, 3, 0.3) + peak(x, 7, 0.8), {}
    ),
    "growth that ends": (
        "y ~ L/(1 + exp(-k*(x - m)))", x := at(0, 1e6), 200 / (1 + np.exp(-(x - 5e5) * 2e-5)),
        {"L": 200, "k": 2e-5, "m": 5e5},
    ),
    "small amounts": ("y ~ V*x/(K + x)", x := at(1e-9, 1e-5), 3e-9 * x / (2e-6 + x), {"V": 3e-9, "K": 2e-6}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES)
def test_starting_values_are_estimated_at_any_scale(case: str) -> None:
    model, x, y, expected = CASES[case]
    data = {"x": x, "y": y + 0.01 * np.std(y) * NOISE}
    found = fit(model, data)
    assert found.converged
    assert found.r_squared > 0.999  # type: ignore[operator]
    for name, value in expected.items():
        scale = np.std(y) if value == 0 else abs(value)
        assert abs(abs(found.parameters[name]) - abs(value)) < 0.02 * scale or name == "p", name


@pytest.mark.slow
def test_a_wave_in_many_rows_is_found_from_a_sample() -> None:
    x = np.linspace(0, 10, 2000)
    y = 2 * np.sin(413 * x + 0.7) + np.random.default_rng(1).normal(0, 0.2, len(x))
    assert fit("y ~ a*sin(w*x + p)", {"x": x, "y": y}).parameters["w"] == pytest.approx(413, rel=1e-4)


def test_a_fit_that_explains_nothing_of_what_is_there_is_doubtful() -> None:
    x = at(0, 10)
    found = fit("y ~ a*sin(w*x + p)", {"x": x, "y": 3 * np.sin(22 * x)}, start={"a": 1, "w": 1, "p": 0})
    assert found.r_squared < 0.1  # type: ignore[operator]
    assert any(warning.startswith("this fit is doubtful: it explains") for warning in found.warnings)


def test_a_line_through_noise_is_not_doubtful_but_its_best_frequency_is() -> None:
    data = {"x": at(0, 1), "y": NOISE}
    line, wave = (fit(model, data) for model in ("y ~ a*x + b", "y ~ a*sin(w*x + p)"))
    assert line.r_squared < 0.1 > wave.r_squared  # type: ignore[operator]
    assert not line.warnings
    assert any("frequencies does so in pure noise with probability" in warning for warning in wave.warnings)


def test_the_probability_of_a_wave_in_noise_is_that_of_a_periodogram() -> None:
    """Noise has a peak of this height at one frequency with the probability of Scargle 1982, Astrophys. J. 263, 835,
    with degrees of freedom in place of rows."""
    generator = np.random.default_rng(8)
    x = np.sort(generator.uniform(0, 20, 40))
    y = np.sin(1.7 * x + 0.3) + generator.normal(size=40)
    found = fit("y ~ a*sin(w*x + p)", {"x": x, "y": y})
    words = re.search(r"the best of (\d+) frequencies .* with probability (\S+)$", " ".join(found.warnings))
    assert words
    assert found.r_squared is not None
    assert float(words[2]) == pytest.approx(int(words[1]) * (1 - found.r_squared) ** (37 / 2), rel=0.5)


def test_the_seed_decides_which_are_tried() -> None:
    model, x, y, _ = CASES["a peak at 550 nm"]
    first, again = (fit(model, {"x": x, "y": y}, seed=5) for _ in range(2))
    assert first.parameters == again.parameters
    assert first.history == again.history


# --- what is known of a prediction


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a*exp(-b*x) + c", ["a", "c"]),
        ("a*b*x", ["a"]),
        ("a + a^2*x", []),
        ("(a + b*x + c*x^2)/(1 + d*x)", ["a", "b", "c"]),
        ("where(x > k, a*x, b)", ["a", "b"]),
        ("log(a*x)", []),
    ],
)
def test_parameters_that_a_prediction_is_linear_in(text: str, names: list[str]) -> None:
    program = read(text)
    leaves = [leaf for name, leaf in program.leaves.items() if name != "x"]
    assert sorted(linear_parameters(program.output, leaves, {})) == names


def test_values_to_scan_go_from_one_turn_to_one_per_two_rows() -> None:
    x = np.linspace(3, 7, 41)
    data = {"x": x, "y": x}
    for model, turns_of in (
        ("y ~ a*sin(w*x + p)", lambda w: 4 * w / (2 * np.pi)),
        ("y ~ a*cos(2*pi*f*(x - c))", lambda f: 4 * f),
        ("y ~ a*sin(2*pi*x/w)", lambda w: 4 / w),
    ):
        objective = Objective(model, data)
        (scan,) = Sinusoids(objective).frequency_grids(objective.start, 2, 1000, objective.bounds)
        np.testing.assert_allclose(turns_of(scan.values), np.arange(1, 42) / 2, rtol=1e-9)
    decay = Objective("y ~ a*exp(b*x)", data)
    assert not [*Sinusoids(decay).frequency_grids(np.ones(2), 2, 1000, decay.bounds)]


def test_equal_starts_of_parts_that_could_change_places_are_left() -> None:
    x = np.linspace(0, 1.15, 24)
    y = 0.0951 * np.exp(-x) + 0.8607 * np.exp(-3 * x) + 1.5576 * np.exp(-5 * x)  # Lanczos's problem
    found = fit("y ~ a*exp(-b*x) + c*exp(-d*x) + e0*exp(-f*x)", {"x": x, "y": y.round(4)})
    assert found.converged
    assert all(error is not None for error in found.stderr.values())
    assert found.rss < 2e-8


def test_lbfgs_finds_starts_as_least_squares_do() -> None:
    x = np.linspace(0.5, 6, 54)  # of the shape of NIST's Chwirut
    y = np.exp(-0.17 * x) / (0.005 + 0.012 * x) + np.random.default_rng(0).normal(0, 3, len(x))
    model = "y ~ exp(-a*x)/(b + c*x)"
    best = fit(model, {"x": x, "y": y})
    found = fit(model, {"x": x, "y": y}, optimizer="lbfgs")
    assert found.rss == pytest.approx(best.rss, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 13])
def test_a_wave_through_nine_rows_is_the_best_one(seed: int) -> None:
    generator = np.random.default_rng(seed)
    x = np.sort(generator.uniform(0, 6, 9))
    a, g, b, c = (generator.uniform(*ends) for ends in ((1, 5), (0.1, 0.4), (1.5, 3), (-3, 3)))
    truth = a * np.exp(-g * x) * np.cos(b * x + c)
    data = {"x": x, "y": truth + 0.02 * generator.normal(size=9)}
    found = fit("y ~ a*exp(-g*x)*cos(b*x + c)", data)
    assert found.rss < np.sum(np.square(data["y"] - truth))
    assert found.parameters["b"] == pytest.approx(b, abs=0.05)


def test_a_wave_that_so_few_rows_leave_open_is_doubtful() -> None:
    generator = np.random.default_rng(3)
    x = np.sort(generator.uniform(0, 8, 8))
    y = 3 * np.cos(9 * x - 2)  # more turns than rows
    found = fit("y ~ a*cos(b*x + c)", {"x": x, "y": y}, bounds={"b": (0, 2)})
    assert found.r_squared is not None
    assert found.r_squared < 0.9
    assert any("so few rows do not determine the frequency" in text for text in found.warnings)


@pytest.mark.slow
@each("model, curve", [
    ("y ~ r + (s - r)/(1 + (a*x)^n)^(1 - 1/n)", lambda x: 0.08 + 0.38 / (1 + (0.026 * x) ** 2) ** 0.5),
    ("y ~ r - s*exp(-(x/a)^n)", lambda x: 59 - 47 * np.exp(-((x / 400) ** 1.4))),
])  # fmt: skip
def test_both_signs_of_an_exponent_are_tried(model: str, curve: Callable[[Array], Array]) -> None:
    x = np.logspace(0, 4.2, 20)
    noise = np.random.default_rng(2).normal(0, 0.01 * np.ptp(curve(x)), 20)
    data = {"x": x, "y": curve(x) + noise}
    found = fit(model, data)
    other = fit(model, data, start=found.parameters | {"n": -found.parameters["n"]})
    assert found.rss is not None
    assert other.rss is not None
    assert found.rss <= other.rss * (1 + 1e-9)
    assert found.rss < 1.1 * np.sum(noise**2)


def test_a_spline_is_fitted_by_its_values_at_the_knots() -> None:
    x, knots = np.linspace(-1, 11, 50), [0.0, 2.5, 4.0, 7.0, 10.0]
    basis = CubicSpline(knots, np.eye(5), bc_type="natural")
    y = np.sin(x) + np.random.default_rng(0).normal(0, 0.1, 50)
    design = np.array([basis(t) if 0 <= t <= 10 else basis(e := 10.0 * (t > 10)) + (t - e) * basis(e, 1) for t in x])
    found = fit(f"y ~ spline(x, {knots}, h)", {"x": x, "y": y})
    np.testing.assert_allclose(found.parameters["h"], np.linalg.lstsq(design, y)[0], rtol=1e-9)
    assert found.converged


def test_structure_makes_a_fit_doubtful_whatever_it_explains() -> None:
    x = np.linspace(0, 10, 200)
    y = 100 * np.exp(-x) + 2 * np.exp(-x / 8)
    one, two = (
        fit(model, {"x": x, "y": y + 0.05 * NOISE}) for model in ("y ~ a*exp(-x/t)", "y ~ a*exp(-x/t) + b*exp(-x/u)")
    )
    assert one.r_squared > 0.99  # type: ignore[operator]
    assert any("neighbouring residuals are alike (" in warning for warning in one.warnings)
    assert not two.warnings


@pytest.mark.slow
def test_many_rows_do_not_hide_what_a_fit_misses() -> None:
    x = np.linspace(0, 20, 20_000)
    y = peak(x, 5, 1) + 0.05 * peak(x, 15, 0.3) + 0.05 * np.random.default_rng(2).normal(size=len(x))
    found = fit("y ~ a*exp(-((x - m)/s)^2)", {"x": x, "y": y})
    assert any("neighbouring residuals are alike" in warning for warning in found.warnings)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("n", [0.9, 0.6, 1.5])
@each("model", ["y ~ b + E/(1 + (k/x)^n)", "y ~ b + E*(x/k)^n/(1 + (x/k)^n)"])
def test_powers_of_ratios_are_fitted_to_rows_at_zero(model: str, n: float) -> None:
    x = np.array([0, *np.geomspace(0.01, 100, 12)])
    data = {"x": x, "y": 2 + 50 * x**n / (0.5**n + x**n) + 0.3 * NOISE[: len(x)]}
    found, wanted = fit(model, data), fit("y ~ b + E*x^n/(k^n + x^n)", data)
    assert found.converged
    assert found.parameters == pytest.approx(wanted.parameters, rel=1e-6)
    assert found.stderr == pytest.approx(wanted.stderr, rel=1e-6)


def test_units_of_weights_do_not_decide_which_minimum_is_better() -> None:
    x = np.linspace(0, 10, 60)
    data = {"x": x, "y": 3 * np.sin(4.1 * x) + 0.3 * NOISE[: len(x)], "w": np.full(len(x), 1e-9)}
    assert fit("y ~ a*sin(b*x)", data, weights="w").parameters["b"] == pytest.approx(4.1, abs=0.05)


def test_a_multiple_of_a_parameter_meets_a_column_with_the_power_of_the_parameter() -> None:
    model = "y ~ log(a/2 + x) + exp(3/b - x) + sqrt(c^2*4 + x) + x^(2*d) + 2^g^2"
    partners = _find_partners(Objective(model, {"x": np.arange(9.0), "y": np.arange(9.0)}))
    assert [(each.parameter, each.operation, each.power) for each in partners] == [
        (0, "add", 1.0),
        (1, "sub", -1.0),
        (2, "add", 2.0),
        (3, "pow", 1.0),
        (4, "pow", 2.0),
    ]


def test_random_values_are_in_columns_or_within_a_hundredfold_of_sizes() -> None:
    count = 40_000
    columns = np.array([10.0, -40.0]), np.array([11.0, -30.0]), np.array([1e-9, 1e-6, 1e-3])
    found = _sample_values(columns, np.random.default_rng(0), count)
    own = [found[(low <= found) & (found <= high)] for low, high in zip(*columns[:2], strict=True)]
    for values, low, high in zip(own, *columns[:2], strict=True):
        assert len(values) == pytest.approx(count / 4, rel=0.05)
        assert values.mean() == pytest.approx((low + high) / 2, rel=0.01)
    scaled = found[np.abs(found) < 1]
    assert len(scaled) == pytest.approx(count / 2, rel=0.03)
    assert np.mean(scaled > 0) == pytest.approx(2 / 3, abs=0.02)
    powers = np.log10(np.abs(scaled)) + 6  # -3, 0 or 3, and a number from -2 to 2 that is most often 0
    assert -5 <= powers.min() < -4.8 < 4.8 < powers.max() <= 5
    assert powers.mean() == pytest.approx(0, abs=0.1)
    assert powers.var() == pytest.approx(6 + 2 / 3, rel=0.03)


def test_random_starts_of_a_model_without_columns_of_numbers_have_the_size_of_1() -> None:
    objective = Objective("(a[g] - 1)^2 + b^2", {"g": ["A", "B", "A"]}, likelihood=True)
    numbers = sample_starts(objective, 0, 400).ravel()
    is_location = (numbers > 0) & (numbers < 1)
    assert 0.65 < is_location.mean() < 0.85  # half of the numbers, and a third of the others
    powers = np.log10(-numbers[numbers < 0])
    assert -2 < powers.min() < powers.max() < 2
    assert powers.mean() == pytest.approx(0, abs=0.2)


def test_random_starts_are_inside_the_bounds() -> None:
    """On a bound, a parameter might not move."""
    data = {"x": [1.0, 2.0, 3.0], "y": [2.0, 4.1, 6.3]}
    objective = Objective("y ~ a + b*x + c*x^2", data, bounds={"a": (5, None), "b": (None, -7), "c": (2, 3)})
    points = sample_starts(objective, 0, 300)
    assert ((points > objective.bounds.low) & (points < objective.bounds.high)).all()


def test_random_starts_of_networks_are_those_of_other_seeds() -> None:
    data = {"x": [0.5, 1.0, 2.0], "y": [1.0, 2.0, 1.0]}
    model, options = "y ~ k*mlp(x, [3, 1]) + c", {"bounds": {"c": (-2, 5)}}
    objective = Objective(model, data, **options)
    free = objective.layout.slices
    for seed in (0, 7):
        found = sample_starts(objective, seed, 4)
        assert len(found) == 4
        for number, theta in enumerate(found, 1):
            other = Objective(model, data, seed=seed + number, **options).start
            for name, place in free.items():
                if name.startswith("mlp"):
                    np.testing.assert_array_equal(theta[place], other[place])
            assert -2 < theta[free["c"]][0] < 5
        assert len({theta[free["k"]][0] for theta in found}) == len({theta[free["c"]][0] for theta in found}) == 4


def balanced(model: str, columns: dict[str, Any], searched: str, weight: Any = None) -> dict[str, Any]:
    """Return many draws of the parameters of a model; those that are not drawn are 77."""
    objective = Objective(model, columns)
    points = np.full((4000, objective.layout.size), 77.0)
    with ignore_float_errors():
        _balance_with_partners(objective, points, objective.layout.mask([*searched]), np.random.default_rng(0), weight)
    return dict(zip(objective.parameters, points.T, strict=True))


def test_parameters_are_drawn_with_the_sizes_of_what_they_meet() -> None:
    """In `k + x` they have the size of `x`, in `b*x` its reciprocal, and in `x - m` they are values of it."""
    x = np.array([1e-4, 0.02, 0.5, 3.0, 700.0])
    found = balanced("y ~ a*x/(k + x) + exp(-b*x) + (x - m)^2 + x/d + c^x", {"x": x, "y": x}, "kbmdc")
    assert (found["a"] == 77).all()  # is not searched
    assert {*found["m"]} <= {*x, 77.0}
    assert len({*found["m"]} - {77.0}) == 5
    sizes = np.abs(np.concatenate([x, (x - x[:, None]).ravel()]))
    sizes = sizes[sizes > 0]
    for name, power in (("k", 1), ("d", 1), ("b", -1)):
        drawn = found[name][found[name] != 77]
        assert len(drawn) > 3900
        logarithms = np.log10(np.abs(drawn)) * power
        assert logarithms.min() >= np.log10(sizes.min()) - 1
        assert logarithms.max() <= np.log10(sizes.max()) + 1
        assert logarithms.max() - logarithms.min() > 5
        assert np.mean(drawn > 0) == pytest.approx(0.75, abs=0.03)
        nearest = np.abs(logarithms[:, None] - np.log10(sizes)).min(axis=1)
        assert nearest.max() <= 1
    powers = found["c"][found["c"] != 77]
    assert len(powers) > 3900


def test_rows_with_large_weights_are_drawn_more_often_in_half_of_the_points() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0])
    weight = np.array([0.0, 0.0, 1.0, 0.0])
    found = balanced("y ~ (x - m)^2", {"x": x, "y": x}, "m", weight)["m"]
    assert (found[::2] == 3).all()
    assert np.mean(found[1::2] == 3) == pytest.approx(0.25, abs=0.03)
    even = balanced("y ~ (x - m)^2", {"x": x, "y": x}, "m", np.zeros(4))["m"]
    assert np.mean(even == 3) == pytest.approx(0.25, abs=0.03)


def test_each_of_two_partners_of_a_parameter_is_used_as_often() -> None:
    data = {"x": np.array([1.0, 2.0]), "z": np.array([1e6, 2e6]), "y": np.ones(2)}
    found = balanced("y ~ (x - m)^2 + (z - m)^2", data, "m")["m"]
    assert np.mean(found < 100) == pytest.approx(0.5, abs=0.04)


# --- what a search proposes

PLACES = np.linspace(0.1, 5, 40)
SEARCHED: dict[str, tuple[str, Callable[..., Any]]] = {  # the linear parameters, and the curve
    "a*exp(-b*x) + c": ("ac", lambda x, a, b, c: a * np.exp(-b * x) + c),
    "a*sin(w*x + p) + c": ("ac", lambda x, a, w, p, c: a * np.sin(w * x + p) + c),
    "a*sin(w*x) + b*cos(v*x)": ("ab", lambda x, a, w, b, v: a * np.sin(w * x) + b * np.cos(v * x)),
    "a*exp(-g*x)*sin(w*x + p)": ("a", lambda x, a, g, w, p: a * np.exp(-g * x) * np.sin(w * x + p)),
    "a*max(0, x - k) + b": ("ab", lambda x, a, k, b: a * np.maximum(0, x - k) + b),
    "a - b*exp(-(x/c)^k)": ("ab", lambda x, a, b, c, k: a - b * np.exp(-((x / c) ** k))),
    "a*exp(-((x - m)/w)^2) + b*exp(-((x - n)/v)^2) + c": (
        "abc",
        lambda x, a, m, w, b, n, v, c: a * peak(x, m, w) + b * peak(x, n, v) + c,
    ),
}


def search_of(model: str, fixed: str = "") -> tuple[Objective, Multistart]:
    """Return the search for starting values of a model."""
    y = 2 * peak(PLACES, 1.3, 0.4) + np.sin(4 * PLACES) + 0.1 * NOISE[:40]
    objective = Objective(f"y ~ {model}", {"x": PLACES, "y": y})
    free = objective.layout.mask([name for name in objective.parameters if name not in fixed])
    return objective, Multistart(objective, objective.start, free, 0, objective.bounds, SETTINGS.quick)


def requests_of(search: Multistart, strategy: Any, rss: Callable[[Any], float]) -> list[DescentRequest]:
    """Return what a strategy proposes if every fit ends where it starts."""
    requests, reply, proposals = list[DescentRequest](), None, strategy(search)
    with contextlib.suppress(StopIteration), ignore_float_errors():
        while True:
            requests.append(proposals.send(reply))
            reply = [StartCandidate(point, point, rss(point)) for point in requests[-1].points]
    return requests


@each("model", SEARCHED)
@each("fixed", ["", "cw"])
def test_proposed_points_have_the_best_values_of_linear_parameters(model: str, fixed: str) -> None:
    linear, curve = SEARCHED[model]
    objective, search = search_of(model, fixed)
    names, y, proposed = objective.parameters, objective.column("y"), 0

    def rss(theta: Any) -> float:
        return float(np.sum(np.square(y - curve(PLACES, **dict(zip(names, theta, strict=True))))))

    strategies = (
        *START_STRATEGIES,
        Multistart.exponent_points,
        Multistart.kink_points,
        Multistart.points_of_other_valleys,
    )
    for request in [request for strategy in strategies for request in requests_of(search, strategy, rss)]:
        proposed += len(request.points)
        is_free = search._free if request.box is None else np.asarray(request.box.low < request.box.high)
        for theta, is_varied in zip(request.points, np.broadcast_to(is_free, request.points.shape), strict=True):
            assert all(theta[k] == objective.start[k] for k, name in enumerate(names) if name in fixed)
            point = dict(zip(names, theta, strict=True))
            adjusted = {name: 0.0 for name, is_free in zip(names, is_varied, strict=True) if name in linear and is_free}
            rest = y - curve(PLACES, **(point | adjusted))
            none = dict.fromkeys(linear, 0.0)
            columns = [curve(PLACES, **(point | none | {name: 1.0})) for name in adjusted]
            design = np.array([column / max(np.abs(column).max(), 1e-300) for column in columns]).T
            best = rest - design @ np.linalg.lstsq(design, rest)[0]
            assert rss(theta) == pytest.approx(best @ best, rel=1e-6)
    assert proposed >= 2


@each("fixed, signs", [("", [[-1, -1, 1], [-1, 1, 1], [1, -1, 1]]), ("m", [[-1, 1, 1], [-1, 1, 1]])])
def test_free_exponents_change_their_sign_one_by_one_and_all_together(fixed: str, signs: list[list[float]]) -> None:
    objective, search = search_of("a*x^n + b*exp(-(x/c)^m)", fixed)
    (request,) = requests_of(search, Multistart.exponent_points, lambda theta: 0.0)
    nonlinear = [objective.parameters.index(name) for name in "nmc"]
    assert sorted(request.points[:, nonlinear].tolist()) == signs


@each("model", ["a*sin(w*x + p) + c", "a*exp(-g*x)*sin(w*x + p)"])
def test_a_scan_proposes_the_best_frequency_whatever_the_phase_and_the_linear_parameters(model: str) -> None:
    objective, search = search_of(model)
    y, turns = objective.column("y"), np.ptp(PLACES) / (2 * np.pi)
    names, damping = objective.parameters, np.exp(-objective.start[1] * PLACES) if "g" in model else np.ones(40)
    (scan,) = search._frequency_grids(objective.start)
    left = []
    for w in scan.values:
        design = [damping * np.sin(w * PLACES), damping * np.cos(w * PLACES)] + [np.ones(40)] * ("g" not in model)
        residuals = y - np.array(design).T @ np.linalg.lstsq(np.array(design).T, y)[0]
        left.append(residuals @ residuals)
    points = np.tile(objective.start, (len(left), 1))
    points[:, scan.parameter] = scan.values
    adjusted = [k for k, name in enumerate(names) if name in "apc"]
    found = search._remaining_squares(points, np.array(adjusted))
    np.testing.assert_allclose(found, left, rtol=0.01)  # near one turn per two rows, both waves are almost the same
    assert np.median(np.abs(found - left)) < 1e-9
    np.testing.assert_allclose(scan.turns, np.abs(scan.values) * turns, rtol=1e-9)
    best = scan.values[np.argmin(left * scan.turns ** (2 / 40))]
    assert best in search._scan_frequencies(objective.start)[:, scan.parameter]


@each("wave, rounds", [(0.0, 0), (0.5, SETTINGS.residual_rounds)])
def test_a_search_goes_on_near_its_best_end_while_neighbouring_residuals_are_alike(wave: float, rounds: int) -> None:
    y = 2 * np.exp(-PLACES) + 0.3 + 0.1 * NOISE[:40] + wave * np.sin(4 * PLACES)
    objective = Objective("y ~ a*exp(-b*x) + c", {"x": PLACES, "y": y})
    end = np.array([2.0, 1.0, 0.3])

    def count(search: Callable[[Multistart], Any]) -> int:
        proposals = search(Multistart(objective, objective.start, np.ones(3, bool), 0, objective.bounds))
        requests, reply = 0, None
        with contextlib.suppress(StopIteration):
            while True:
                request = proposals.send(reply)
                requests, reply = requests + 1, [StartCandidate(point, end, 0.1) for point in request.points]
        return requests

    assert count(Multistart.best) - count(lambda search: search.best_of(START_STRATEGIES)) == rounds


def least_squares_with_jump(x: Array, y: Array, *terms: Callable[[Array], Array]) -> float:
    """Return the least sum of squares of all places of a jump; `terms` are functions of where x is beyond it."""
    places = np.unique(x)
    designs = ([term(x > place) for term in terms] for place in (places[1:] + places[:-1]) / 2)
    return min(float(np.linalg.lstsq(np.array(design, float).T, y, rcond=None)[1][0]) for design in designs)


@each("seed", range(3), quick=lambda seed: seed == 0)
def test_jumps_are_at_their_best_places_alone_and_in_each_level(seed: int) -> None:
    generator, levels = np.random.default_rng(seed), np.array(["a", "b", "c", "d"])
    x = np.sort(generator.uniform(0, 10, 24))
    y = (
        1
        + generator.uniform(-2, 2, (4, 1)) * (x > generator.uniform(2, 8, (4, 1)))
        + 0.3 * generator.normal(size=(4, 24))
    )
    alone = [least_squares_with_jump(x, each_y, np.ones_like, np.array) for each_y in y]
    for term in ("b[g]*(x > k[g])", "where(k[g] < x, b[g], 0)"):
        rows = {"x": np.tile(x, 4), "y": y.ravel(), "g": np.repeat(levels, 24)}
        found = fit(f"y ~ a[g] + {term}", rows)
        assert found.rss == pytest.approx(sum(alone), rel=1e-9)
        assert found.converged
    sloped = least_squares_with_jump(x, y[0], np.ones_like, np.array, lambda _: x)
    assert fit("y ~ a + b*x + c*(x - k >= 0)", {"x": x, "y": y[0]}).rss == pytest.approx(sloped, rel=1e-9)


@each("seed", range(8), quick=lambda seed: seed == 0)
@each(
    "loss, model, parts",
    [
        ({"loss": "mae"}, "y ~ a + b*(x > k)", lambda y: np.abs(y - np.median(y)).sum()),
        ({"family": "poisson"}, "y ~ exp(a + b*(x > k))", lambda y: y.sum() * (1 - np.log(y.mean()))),
        ({"family": "gamma"}, "y ~ exp(a + b*(x > k))", lambda y: len(y) * (1 + np.log(y.mean()))),
        ({"likelihood": True, "fixed": {"s": 1}}, "(y - a - b*(x > k))^2/s", lambda y: len(y) * y.var()),
    ],
)
def test_jumps_are_at_the_places_of_the_least_loss(
    loss: Any, model: str, parts: Callable[[Array], float], seed: int
) -> None:
    """Held against the best of all places; on both sides of each, the best level is known in closed form. Places whose
    likelihoods differ by less than 1 % count as equal."""
    generator, rows = np.random.default_rng(seed), 80
    x, place = np.sort(generator.uniform(0, 10, rows)), generator.uniform(2, 8)
    y = 2 * np.exp(0.5 * (x > place)) + generator.exponential(size=rows)
    y = np.round(y) if loss == {"family": "poisson"} else y
    least = min(parts(y[:k]) + parts(y[k:]) for k in range(1, rows)) / rows
    assert -1e-9 <= fit(model, {"x": x, "y": y}, **loss).loss - least <= 0.011 / rows


@each("seed", range(6), quick=lambda seed: seed == 0)
def test_a_jump_or_bend_is_at_its_best_place_among_thousands_of_rows(seed: int) -> None:
    """Not only between rows of the sample on which starting values are searched, nor at the best place of that."""
    generator, rows = np.random.default_rng(seed), 5000
    x = np.sort(generator.uniform(0, 10, rows))
    y = 1 + 0.7 * (x > generator.uniform(3, 7)) + 0.5 * generator.normal(size=rows)
    below, sums = np.arange(1, rows), np.cumsum(y)
    explained = sums[:-1] ** 2 / below + (sums[-1] - sums[:-1]) ** 2 / (rows - below)
    for jump in ("(x > k)", "heaviside(x - k)", "sign(x - k)"):
        found = fit(f"y ~ a + b*{jump}", {"x": x, "y": y})
        assert found.rss == pytest.approx(np.sum(y**2) - explained.max(), rel=1e-9)
    x, y = x[::4], y[::4] - 0.7 * x[::4]
    bends = ([np.ones(len(x)), x, np.maximum(x - place, 0)] for place in x[5:-5])
    least = min(float(np.linalg.lstsq(np.array(bend).T, y, rcond=None)[1][0]) for bend in bends)
    for bend in ("relu(x - k)", "abs(x - k)"):
        assert fit(f"y ~ a + b*x + c*{bend}", {"x": x, "y": y}).rss <= least * (1 + 0.02 / len(x))


def least_squares_inside_and_outside(y: Array, is_inside: Array) -> float:
    """Return the sum of squares around the mean of some rows, and around the mean of the others."""
    return sum(float(np.sum((part - part.mean()) ** 2)) for part in (y[is_inside], y[~is_inside]) if len(part))


@each("seed", range(8), quick=lambda seed: seed == 0)
def test_two_parameters_of_one_jump_are_at_their_best_places(seed: int) -> None:
    """Neither can be improved alone: both edges of a window, and the slope and offset of a border."""
    generator, rows = np.random.default_rng(seed), 60
    x, z = np.sort(generator.uniform(0, 10, rows)), generator.normal(size=rows)
    noise, pairs = 0.5 * generator.normal(size=rows), list(itertools.combinations(range(rows), 2))
    low, width, slope = generator.uniform(1, 6), generator.uniform(1, 3), generator.uniform(-2, 2)
    y = 1.5 * (x > low) * (x < low + width) + noise
    least = min(least_squares_inside_and_outside(y, (x >= x[i]) & (x < x[j])) for i, j in pairs)
    assert fit("y ~ a + b*(abs(x - m) < w)", {"x": x, "y": y}).rss == pytest.approx(least, rel=1e-9)
    y = 1.5 * (x > 5 + slope * z) + noise
    slopes = {(i, j): (x[j] - x[i]) / (z[j] - z[i]) for i, j in pairs}
    least = min(least_squares_inside_and_outside(y, x > x[i] + slopes[i, j] * (z - z[i])) for i, j in pairs)
    assert fit("y ~ a + b*(x > k + c*z)", {"x": x, "z": z, "y": y}).rss <= least * (1 + 1e-9)
