"""Periods and frequencies of series with uneven times, far above one turn per two rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autodiff_cli import fit, fit_by
from tests.each import each

SPAN = 100.0


def uneven_times(kind: str, generator: np.random.Generator, rows: int) -> Any:
    if kind == "random":
        return np.sort(generator.uniform(0, SPAN, rows))
    if kind == "gaps":
        starts = np.repeat([0.0, 60.0, 90.0], [rows // 3, rows // 3, rows - 2 * (rows // 3)])
        return np.sort(starts + generator.uniform(0, 10, rows))
    if kind == "nights":
        return np.sort(generator.integers(0, SPAN, rows) + generator.uniform(0, 0.3, rows))
    if kind == "logarithmic":
        return np.logspace(-1, np.log10(SPAN), rows)
    return np.arange(rows) * SPAN / rows + generator.uniform(-0.2, 0.2, rows) * SPAN / rows


MODELS = {
    "y ~ a*sin(2*pi*f*t + p) + c": lambda found: abs(found["f"]),
    "y ~ c + a*cos(2*pi*t/P) + b*sin(2*pi*t/P)": lambda found: 1 / abs(found["P"]),
    "y ~ m + a*sin(w*t + p)": lambda found: abs(found["w"]) / (2 * np.pi),
}


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["random", "gaps", "nights", "logarithmic", "jittered"])
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(k, marks=pytest.mark.exhaustive) for k in range(3, 8))])
def test_the_period_of_an_uneven_series_is_found(kind: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = int(generator.integers(40, 120))
    t = uneven_times(kind, generator, rows)
    frequency = generator.uniform(0.3, 4) * rows / (2 * SPAN)
    y = 5 + 2 * np.sin(2 * np.pi * frequency * t + generator.uniform(0, 6)) + generator.normal(0, 0.5, rows)
    model, frequency_of = [*MODELS.items()][seed % 3]
    found = fit(model, {"t": t, "y": y})
    assert found.converged
    assert abs(frequency_of(found.parameters) - frequency) < 0.3 / SPAN
    assert found.r_squared > 0.85  # type: ignore[operator]


def test_a_wave_upon_a_trend_is_found_although_the_trend_explains_nearly_all() -> None:
    generator = np.random.default_rng(4)
    t = np.sort(generator.uniform(0, 100, 80))
    y = 3 * t + 2 * np.sin(2 * np.pi * 1.37 * t) + generator.normal(0, 0.3, 80)
    found = fit("y ~ c + d*t + a*sin(2*pi*f*t + p)", {"t": t, "y": y})
    assert abs(found.parameters["f"]) == pytest.approx(1.37, rel=1e-3)


@pytest.mark.parametrize(("seed", "rows", "period"), [(14, 80, 0.9453), (23, 20, 0.5387)])
def test_periods_of_damped_waves_and_of_few_rows_are_found(seed: int, rows: int, period: float) -> None:
    generator = np.random.default_rng(seed)
    t = np.sort(generator.uniform(0, SPAN, rows))
    decay = np.exp(-t / 40) if rows > 20 else np.ones(rows)
    y = 4 * decay * np.sin(2 * np.pi * t / period + generator.uniform(-3, 3)) + generator.normal(0, 0.3, rows)
    model = "y ~ a*sin(2*pi*t/P + p)" if rows == 20 else "y ~ a*exp(-t/s)*sin(2*pi*t/P + p)"
    found = fit(model, {"t": t, "y": y})
    assert abs(found.parameters["P"]) == pytest.approx(period, rel=2e-3)
    assert found.converged
    assert not found.warnings


FAMILIES = {
    "binomial": ("sigmoid", lambda generator, mean: generator.random(80) < mean),
    "gamma": ("exp", lambda generator, mean: generator.gamma(4, mean / 4)),
    "poisson": ("exp", lambda generator, mean: generator.poisson(mean)),
}


@each("family", FAMILIES, quick=lambda family: family != "gamma")
def test_families_have_the_period_of_their_means(family: str) -> None:
    link, draw = FAMILIES[family]
    generator = np.random.default_rng(2)
    t = np.sort(generator.uniform(0, 50, 80))
    frequency, phase = 2 * np.pi / generator.uniform(4, 40), generator.uniform(0, 6)
    score = 0.5 + 1.5 * np.sin(frequency * t + phase)
    mean = 1 / (1 + np.exp(-score)) if link == "sigmoid" else np.exp(score)
    data = {"t": t, "y": draw(generator, mean).astype(float)}
    found = fit(f"y ~ {link}(a + b*sin(w*t + p))", data, family=family)
    assert abs(found.parameters["w"]) == pytest.approx(frequency, rel=0.05)


@each("seed", [2, 5, 7], sampled=True)
def test_a_likelihood_has_the_frequency_of_its_wave(seed: int) -> None:
    generator = np.random.default_rng(seed)
    t = np.sort(generator.uniform(0, 50, 80))
    frequency, phase = 2 * np.pi / generator.uniform(1.3, 3), generator.uniform(0, 6)
    data = {"t": t, "y": 1 + 1.5 * np.sin(frequency * t + phase) + 0.3 * generator.normal(size=80)}
    found = fit("log(s) + ((y - a - b*sin(w*t + p))/s)^2/2", data, likelihood=True)
    assert abs(found.parameters["w"]) == pytest.approx(frequency, rel=0.01)


def test_frequencies_are_scanned_within_their_bounds() -> None:
    generator = np.random.default_rng(3)
    t = np.sort(generator.uniform(0, 100, 60))
    y = 2 * np.sin(2 * np.pi * 55.5 * t + 1) + 1.5 * np.sin(2 * np.pi * 0.2 * t) + generator.normal(0, 0.2, 60)
    found = fit("y ~ a*sin(2*pi*f*t + p)", {"t": t, "y": y}, bounds={"f": (50, 60)})
    assert found.parameters["f"] == pytest.approx(55.5, rel=1e-4)


_WAVE = "a*sin(2*pi*t/P + p)"


@each(("model", "options"), [
    (f"y ~ {_WAVE}", {}),
    (f"y ~ {_WAVE}", {"loss": "huber"}),
    (f"y ~ {_WAVE}", {"l2": 1e-6}),
    (f"y ~ {_WAVE}", {"sigma": "e", "x_sigma": {"t": "e"}}),
    (f"y ~ {_WAVE}", {"priors": {"P": "normal(1, 5)"}}),
    (f"y ~ {_WAVE}", {"priors": {"P": "normal(m, 5)", "m": "normal(1, 1)"}}),
    (f"y ~ {_WAVE} + u[g]", {"priors": {"u[g]": "normal(0, s)"}, "laplace": "u"}),
    (f"n ~ exp({_WAVE})", {"family": "poisson"}),
    (f"k ~ sigmoid({_WAVE})", {"family": "binomial"}),
], quick=lambda model, options: model[0] != "y" or "loss" in options or not options)  # fmt: skip
def test_a_given_period_that_explains_little_is_doubtful(model: str, options: dict[str, Any]) -> None:
    """The warning says where the best period is."""
    generator = np.random.default_rng(5)
    t = np.sort(generator.uniform(0, 100, 80))
    y = 2 * np.sin(2 * np.pi * t / 0.73) + generator.normal(0, 0.3, 80)
    data = {"t": t, "y": y, "g": np.arange(80) % 8, "e": np.full(80, 0.01)}
    data |= {"n": generator.poisson(np.exp(y)), "k": generator.uniform(size=80) < 1 / (1 + np.exp(-3 * y))}
    found = fit(model, data, start={"a": 1, "P": 5, "p": 0}, **options)
    assert any("doubtful" in warning and "P = 0.73" in warning for warning in found.warnings)


@pytest.mark.slow
def test_counts_that_scatter_more_than_poisson_ones_have_no_doubtful_period() -> None:
    for seed in range(6):
        generator = np.random.default_rng(seed)
        t = np.sort(generator.uniform(0, 100, 80))
        mean = 20 * np.exp(0.3 * np.sin(2 * np.pi * t / 7))
        data = {"t": t, "n": generator.negative_binomial(2, 2 / (2 + mean))}
        found = fit(f"n ~ exp(c + {_WAVE})", data, start={"a": 0.3, "P": 7, "p": 0, "c": 3}, family="poisson")
        assert not [warning for warning in found.warnings if "doubtful" in warning]


def test_noise_has_no_doubtful_period() -> None:
    generator = np.random.default_rng(6)
    data = {"t": np.sort(generator.uniform(0, 100, 80)), "y": generator.normal(0, 1, 80)}
    assert not fit("y ~ a*sin(2*pi*t/P + p)", data, start={"a": 1, "P": 5, "p": 0}).warnings


@pytest.mark.slow
def test_every_group_has_the_period_of_its_own() -> None:
    generator = np.random.default_rng(7)
    frequencies = np.array([0.31, 1.9, 0.77, 1.2, 1.55])
    t = np.concatenate([np.sort(generator.uniform(0, 100, 60)) for _ in frequencies])
    star = np.repeat(np.arange(5.0), 60)
    y = 3 * np.sin(2 * np.pi * np.repeat(frequencies, 60) * t + star) + generator.normal(0, 0.3, 300)
    fits = fit_by("y ~ a*sin(2*pi*f*t + p)", {"t": t, "y": y, "star": star}, "star")
    found = [abs(group.fit.parameters["f"]) for group in fits if group.fit is not None]
    np.testing.assert_allclose(found, frequencies, rtol=1e-3)


@pytest.mark.slow
def test_a_second_frequency_that_explains_nearly_as_much_is_said() -> None:
    """Of rows near whole numbers, frequencies that differ by one per unit are nearly the same."""
    generator = np.random.default_rng(0)
    doubts = []
    for spread in (0.003, 0.3):
        t = np.sort(generator.integers(0, 60, 25) + generator.normal(0, spread, 25))
        y = 2 * np.sin(1.1 * t + 0.4) + generator.normal(0, 0.15, 25)
        doubts.append(fit("y ~ a*sin(w*t + p) + c", {"t": t, "y": y}).warnings)
    assert "another minimum is nearly as likely" in str(doubts[0])
    assert ", w = " in str(doubts[0])
    assert not doubts[1]


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(("seed", "rows"), [(0, 60), (1, 150), (2, 700)])
def test_sines_and_cosines_of_julian_days_reach_the_fit_by_phase(seed: int, rows: int) -> None:
    generator = np.random.default_rng(seed)
    t = 2_450_000 + np.sort(generator.uniform(0, 400, rows))
    y = 3 + np.sin(2 * np.pi * t / generator.uniform(8, 60)) + generator.normal(0, 0.4, rows)
    bounds = {"w": (0.02, 1.5)}
    by_phase = fit("y ~ c + A*sin(w*t + p)", {"t": t, "y": y}, bounds=bounds)
    found = fit("y ~ c + a*sin(w*t) + b*cos(w*t)", {"t": t, "y": y}, bounds=bounds)
    assert found.converged
    assert found.loss == pytest.approx(by_phase.loss, rel=1e-9)
    assert found.parameters["w"] == pytest.approx(by_phase.parameters["w"], rel=1e-9)


def test_an_alias_at_evenly_spaced_places_is_no_doubt() -> None:
    generator = np.random.default_rng([7105, 6])
    values = [generator.uniform(*limits) for limits in ((2, 5), (0.8, 3), (15, 80), (-3, 3), (-1, 1))]
    t = np.linspace(0, 2, 90)
    y = values[0] * np.exp(-values[1] * t) * np.cos(values[2] * t + values[3]) + values[4]
    found = fit("y ~ a*exp(-g*t)*cos(w*t+p)+c", {"t": t, "y": y + 0.05 * np.ptp(y) * generator.normal(size=90)})
    assert found.parameters["w"] == pytest.approx(66.27, abs=0.01)  # 345.9 is the same at these places
    assert not found.warnings


def test_two_frequencies_that_multiply_are_found_together() -> None:
    """The best of one, whatever the other, is far from both."""
    generator = np.random.default_rng(3)
    t, v, w = np.linspace(0, 10, 12), generator.uniform(2, 4), generator.uniform(0.3, 1.5)
    noise = generator.normal(0, 0.1, 12)
    found = fit("y ~ a*sin(v*t)*cos(w*t) + c", {"t": t, "y": 2 * np.sin(v * t) * np.cos(w * t) + 1 + noise})
    assert found.rss is not None
    assert found.rss < noise @ noise
