"""Fits from several starts."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.options import OptionError

X = np.linspace(0, 10, 80)
PEAKS = 2 * np.exp(-((X - 3) ** 2) / 0.5) + 1.2 * np.exp(-((X - 7) ** 2) / 1.5)
DATA = {"x": X, "y": PEAKS + 0.03 * np.random.default_rng(0).standard_normal(len(X))}
MODEL = "y ~ a*exp(-(x - m)^2/s) + b*exp(-(x - n)^2/q)"
LOCAL = {"m": 0.5, "n": 0.6}  # both peaks at one end


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"optimizer": "lbfgs"}, {"loss": "huber"}])
def test_multistart_finds_the_minimum_that_one_start_misses(options: dict[str, Any]) -> None:
    start = {"a": 1, "b": 1, "s": 1, "q": 1, **LOCAL}
    found = ad.fit(MODEL, DATA, start=start, starts=6, seed=1, **options)
    assert sorted(found.parameters[name] for name in "mn") == pytest.approx([3, 7], abs=0.05)
    assert any(words.startswith("the best of 6 starting points: ") for words in found.notes)


def test_the_same_seed_gives_the_same_fit_and_the_epochs_are_those_of_the_best() -> None:
    told: list[int] = []
    one = ad.fit(MODEL, DATA, starts=5, seed=3, on_epoch=lambda epoch: told.append(epoch.number))
    assert one.parameters == ad.fit(MODEL, DATA, starts=5, seed=3).parameters
    assert told[-len(one.history) :] == [record["epoch"] for record in one.history]


def test_networks_draw_their_weights_anew() -> None:
    options = {"epochs": 100, "learning_rate": 0.05, "validation": 0.2}
    alone, best = (ad.fit("y ~ mlp(x, [4], tanh)", DATA, starts=count, **options) for count in (None, 4))
    assert best.validation_loss < alone.validation_loss
    assert json.dumps(best.history) != json.dumps(alone.history)


def test_starts_lie_between_bounds() -> None:
    met = []
    bounds = {"m": (2, 4), "n": (6, 8), "s": (0, None), "q": (0.1, None)}
    found = ad.fit(MODEL, DATA, starts=5, bounds=bounds, on_epoch=lambda epoch: met.append(epoch.theta))
    assert found.parameters["m"] == pytest.approx(3, abs=0.05)
    assert all(2 <= m <= 4 and 6 <= n <= 8 for _, m, _, _, n, _ in met)


def test_failing_from_every_start_is_reported() -> None:
    found = ad.fit("y ~ a*sqrt(-1 - b^2*x^2)", DATA, starts=3)
    assert not found.converged
    assert "none of 3 starting points led to a fit" in found.warnings
    with pytest.raises(OptionError, match="starts must be at least 1, not 0"):
        ad.fit(MODEL, DATA, starts=0)
    with pytest.raises(OptionError, match="a checkpoint holds a single fit"):
        ad.fit(MODEL, DATA, starts=2, checkpoint="fit.checkpoint")
