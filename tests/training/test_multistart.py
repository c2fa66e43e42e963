"""Fits from several starts."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting.minimization import MINIMIZATION, likely_ends
from autodiff_cli.training.fitting.optimization import _multistart_summary
from autodiff_cli.training.fitting.starts import StartCandidate, best_candidate
from tests.each import each

X = np.linspace(0, 10, 80)
PEAKS = 2 * np.exp(-((X - 3) ** 2) / 0.5) + 1.2 * np.exp(-((X - 7) ** 2) / 1.5)
DATA = {"x": X, "y": PEAKS + 0.03 * np.random.default_rng(0).standard_normal(len(X))}
MODEL = "y ~ a*exp(-(x - m)^2/s) + b*exp(-(x - n)^2/q)"
LOCAL = {"m": 0.5, "n": 0.6}  # both peaks at one end


@pytest.mark.parametrize(
    "options",
    [{}, *(pytest.param(each, marks=pytest.mark.slow) for each in ({"optimizer": "lbfgs"}, {"loss": "huber"}))],
)
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


INF = math.inf


@each("losses, best, words", [
    ([1.0, 1.0, 1.0], 1.0, "the best of 3 starting points: 3 of them led to this fit"),
    ([1.0, 2.0, 1.0 + 1e-8], 1.0, "the best of 3 starting points: 2 of them led to this fit, 1 led to worse fits"),
    ([2.0, 1.0, INF, INF], 1.0, "the best of 4 starting points: 1 of them led to this fit, 1 led to worse fits, "
                                "2 failed; the given start is not among them"),
    ([INF, 1.0], 1.0, "the best of 2 starting points: 1 of them led to this fit, 1 failed; the given start "
                      "is not among them"),
    ([INF, INF], INF, "none of 2 starting points led to a fit"),
    ([-1.0, -1.0 - 1e-8], -1.0, "the best of 2 starting points: 2 of them led to this fit"),
    ([1.0 + 2e-6, 1.0], 1.0, "the best of 2 starting points: 1 of them led to this fit, 1 led to worse fits; the given "
                             "start is not among them"),
])  # fmt: skip
def test_the_summary_counts_starts_by_where_they_led(losses: list[float], best: float, words: str) -> None:
    assert _multistart_summary(losses, best) == words


def test_the_first_of_equal_candidates_is_the_best() -> None:
    ends = [np.array([float(k)]) for k in range(4)]
    candidates = [StartCandidate(end, end, loss) for end, loss in zip(ends, (2.0, 1.0 + 1e-8, 1.0, 3.0), strict=True)]
    assert best_candidate(candidates) is candidates[1]
    assert best_candidate(candidates[2:]) is candidates[2]
    assert best_candidate([]) is None
    negative = [StartCandidate(end, end, loss) for end, loss in zip(ends, (-1.0, -2.0, -2.0 - 1e-8, 0.0), strict=True)]
    assert best_candidate(negative) is negative[1]


def test_rivals_are_nearly_as_likely_and_differ() -> None:
    """Of normal errors with an estimated variance, half of the rows times the logarithm of losses counts."""
    x = np.linspace(0, 3, 20)
    objective = ad.Objective("y ~ a*sin(b*x)", {"x": x, "y": np.sin(2 * x) + 0.3 * np.cos(9 * x)})
    ends = np.array(
        [[1.0, 2.0], [-1.0, -2.0], [1.0, 5.0], [1.0, 7.0], [1.0, 9.0], [1.0, 5.0 + 1e-4], [0.5, 11], [0.4, 13]]
    )
    losses = np.array([1.0, 1.0, np.exp(0.29), np.exp(0.31), np.exp(0.1), np.exp(0.2), np.exp(0.05), np.exp(0.02)])
    found = likely_ends(objective, ends, losses)
    assert [end.tolist() for end in found] == [[0.4, 13], [0.5, 11], [1, 9], [1, 5.0001]]


def test_rivals_of_a_quasi_likelihood_are_compared_in_units_of_the_dispersion_at_the_best() -> None:
    counts = np.array([0.0, 30, 2, 45, 1, 60, 3, 80])
    objective = ad.Objective("k ~ exp(a)", {"k": counts}, family="quasipoisson")
    mean = float(counts.mean())
    dispersion = np.sum((counts - mean) ** 2) / mean / 7  # Pearson's
    ends = np.log(mean) + np.array([[0.0], [5.0], [6.0]])
    losses = np.array([1.0, 1 + 2.9 * dispersion / 8, 1 + 3.1 * dispersion / 8])
    assert MINIMIZATION.exclusion == 3
    assert likely_ends(objective, ends, losses) == (ends[1],)
    assert likely_ends(objective, ends[:1], losses[:1]) == ()


@each("optimizer", ["lm", "lbfgs"])
@each("starts", [1, 2, 4])
def test_all_starts_of_a_line_lead_to_it(starts: int, optimizer: str) -> None:
    data = {"x": X, "y": 1 + 2 * X + np.cos(9 * X)}
    found = ad.fit("y ~ a + b*x", data, starts=starts, optimizer=optimizer)
    assert f"the best of {starts} starting points: {starts} of them led to this fit" in found.notes
    assert found.parameters == pytest.approx(ad.fit("y ~ a + b*x", data).parameters, rel=1e-6)
