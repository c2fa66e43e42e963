"""Intervals cover what they promise, in simulations of few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from tests.each import each

FITS, X = 400, np.linspace(0, 4, 12)
SPREAD = 0.05 + 0.1 * X
NEW = np.array([0, 2, 5, 8, 11])  # the rows of X at which new observations are predicted


def normal(generator: np.random.Generator, spread: Any) -> Any:
    """Return observations of an exponential decay."""
    x = np.resize(X, np.shape(spread)) if len(spread) != len(NEW) else X[NEW]
    return 3 * np.exp(-0.8 * x) + spread * generator.normal(size=len(spread))


@pytest.mark.slow
@each(
    "options",
    [
        {"loss": "mse"},
        {"loss": "huber"},
        {"loss": "soft_l1"},
        {"loss": "cauchy"},
        {"loss": "huber", "sigma": "s"},
        {"loss": "logcosh", "weights": "1/s^2"},
    ],
    sampled=True,
)
def test_prediction_intervals_of_few_rows_cover_new_observations(options: dict[str, Any]) -> None:
    generator, is_weighted = np.random.default_rng(1), len(options) > 1
    spread = SPREAD if is_weighted else np.full(len(X), 0.1)
    data = {
        "x": np.tile(X, FITS),
        "y": normal(generator, np.tile(spread, FITS)),
        "s": np.tile(spread, FITS),
        "run": np.repeat(np.arange(FITS), len(X)),
    }
    hits = []
    for group in ad.fit_by("y ~ a*exp(-b*x)", data, "run", **options):
        assert group.fit is not None
        band = group.fit.predict({"x": X[NEW], "s": spread[NEW]}, 0.95)
        new = normal(generator, spread[NEW])
        hits.append(np.mean((band.prediction_low <= new) & (new <= band.prediction_high)))
    assert 0.925 < np.mean(hits) < 0.975  # the standard error of the simulation is below 0.7 %


def test_the_standard_deviation_without_outliers_solves_the_equation_of_proposal_2() -> None:
    generator = np.random.default_rng(2)
    x = np.linspace(0, 1, 30)
    y = x + generator.standard_t(2, size=30)
    found = ad.fit("y ~ a + b*x", {"x": x, "y": y}, loss="huber")
    ratios = found.residuals({"x": x, "y": y}) / found.residual_std
    normal_draws = np.random.default_rng(3).normal(size=10**6)
    expected = np.mean(np.minimum(normal_draws**2, 1.345**2))
    assert np.sum(np.minimum(ratios**2, 1.345**2)) == pytest.approx(28 * expected, rel=0.005)
