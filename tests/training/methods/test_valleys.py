"""Curved valleys of the sum of squares, as those of exponential functions far from the origin of their rows."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from tests.each import each

YEARS = np.arange(1990.0, 2021.0)


def grown(rate: float) -> dict[str, Any]:
    """Return growth or decay over years, with noise of 2 %."""
    generator = np.random.default_rng(4)
    y = np.exp(rate * (YEARS - YEARS[0 if rate > 0 else -1])) * (5 + 0.1 * generator.normal(size=len(YEARS)))
    return {"t": YEARS, "y": y}


@each(
    "model, rate",
    [("a*exp(b*t)", 0.3), ("a*exp(b*t) + c", 0.03), ("a*2^(t/b)", 0.17), ("a*exp(b*t) + c", -0.3)],
    quick=lambda model, rate: rate == 0.3,
)
def test_a_fit_does_not_depend_on_the_origin_of_its_column(model: str, rate: float) -> None:
    """Variances of `a` are beyond floats where its errors are above 1e154 or below 1e-162."""
    data = grown(rate)
    found, shifted = (
        ad.fit(f"y ~ {text}", data, derive={"d": "1/b"}) for text in (model, model.replace("t", "(t - 2005)"))
    )
    assert found.converged
    assert found.epochs < 300
    assert found.loss == pytest.approx(shifted.loss, rel=1e-9)
    assert found.r_squared == pytest.approx(shifted.r_squared, rel=1e-9)
    assert found.parameters["b"] == pytest.approx(shifted.parameters["b"], rel=1e-6)
    assert found.stderr["b"] == pytest.approx(shifted.stderr["b"], rel=1e-6)
    assert found.derived["d"]["stderr"] == pytest.approx(shifted.derived["d"]["stderr"], rel=1e-6)
    bands, shifted_bands = (each.predict({"t": [1995.0, 2030.0]}, interval=0.9) for each in (found, shifted))
    np.testing.assert_allclose(bands.confidence_low, shifted_bands.confidence_low, rtol=1e-6)
    np.testing.assert_allclose(bands.prediction_high, shifted_bands.prediction_high, rtol=1e-6)


@each("model, rate", [("y ~ a*exp(b*t) + c", 0.5), ("y ~ a*2^(t/b)", -0.6)], quick=lambda model, rate: rate > 0)
def test_a_fit_beyond_floats_says_how_to_write_the_model_and_then_converges(model: str, rate: float) -> None:
    data = grown(rate)
    failed = ad.fit(model, data)
    assert not failed.converged
    (advice,) = [each for each in failed.warnings if "are far from 0" in each]
    found = re.search(r"`(\(t - [\d.]+\))` in its place", advice)
    assert found
    assert ad.fit(model.replace("t", found[1]), data).converged


@each(
    "family, rate",
    itertools.product(("poisson", "quasipoisson", "negative_binomial", "gamma"), (-0.05, -0.25)),
    quick=lambda family, rate: (family, rate) in (("poisson", -0.25), ("gamma", -0.05)),
)
def test_standard_errors_of_families_do_not_depend_on_the_origin_of_their_column(family: str, rate: float) -> None:
    """They come from second derivatives, which are wrong where a fit stops on the slope of the valley."""
    counts = np.random.default_rng(1).poisson(80 * np.exp(rate * (YEARS - YEARS[-1]))) + 1.0
    data = {"t": YEARS, "n": counts}
    found, centred = (ad.fit(f"n ~ a*exp(b*{t})", data, family=family) for t in ("t", "(t - 2005)"))
    assert centred.converged
    if found.converged:
        assert found.parameters["b"] == pytest.approx(centred.parameters["b"], rel=1e-6)
        assert found.stderr["b"] == pytest.approx(centred.stderr["b"], rel=1e-4)
    assert found.converged or any("are far from 0" in each for each in found.warnings)
    assert found.converged == (rate == -0.05)


@pytest.mark.parametrize(("second", "is_advised"), [("c + d*t", True), ("c*t - d", True), ("d*t", False)])
def test_all_targets_must_absorb_the_shift(second: str, is_advised: bool) -> None:
    data = {"t": YEARS, "y": 3 + 0.1 * (YEARS - 2000), "z": 1 - 0.2 * (YEARS - 2000)}
    failed = ad.fit(f"[y, z] ~ [a + b*t, {second}]", data, optimizer="sgd", learning_rate=1)
    assert not failed.converged
    assert any("are far from 0" in each for each in failed.warnings) == is_advised
    assert not any("nan" in each for each in failed.warnings)  # where the slopes overflow, they have no direction


@each("model", ["v*t/(k + t)", "a*t*exp(b*z)", "1/(1 + exp(-r*t))", "a*exp(b*(t - 1990))", "a*t^k"])
def test_no_other_model_is_advised(model: str) -> None:
    """A shift of the column gives another model there, or the column is shifted already."""
    data = grown(0.1) | {"z": np.linspace(0, 1, len(YEARS))}
    found = ad.fit(f"y ~ {model}", data, optimizer="adam", epochs=2)
    assert not found.converged
    assert not any("in its place" in each for each in found.warnings)
