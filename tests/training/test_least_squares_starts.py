"""When a fit by least squares is trusted, and when other starts are looked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.data.table import DataError
from autodiff_cli.training.fitting import starts
from autodiff_cli.training.objective.batch import Batch
from autodiff_cli.training.objective.objective import Objective


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each search for starts with all strategies."""
    found: list[None] = []

    def search(batch: Batch, *arguments: Any) -> list[None]:
        if arguments[4] is None:
            found.append(None)
        return [None] * batch.count

    monkeypatch.setattr(starts, "multistart", search)
    return found


def explained(share: float) -> dict[str, Any]:
    """Data of which a line explains this share, its R², with residuals in a random order."""
    x = np.linspace(-1, 1, 40)
    rest = np.random.default_rng(0).normal(size=40)
    for known in (np.ones_like(x), x):
        rest -= known * (rest @ known) / (known @ known)
    return {"x": x, "y": 1 + x + rest * np.sqrt((1 / share - 1) * (x @ x) / (rest @ rest))}


@pytest.mark.parametrize(("share", "expected"), [(0.9001, 0), (0.8999, 1)])
def test_starts_that_nobody_gave_are_trusted_where_they_explain_nine_tenths(
    share: float, expected: int, searches: list[None]
) -> None:
    data = explained(share)
    found = ad.fit("y ~ exp(a)*x + b", data)
    assert found.r_squared == pytest.approx(share)
    assert len(searches) == expected
    ad.fit("y ~ exp(a)*x + b", data, start={"a": 1, "b": 1})  # those that somebody gave always are
    assert len(searches) == expected


@pytest.mark.parametrize(("share", "expected"), [(1 - 1e-14, 0), (1 - 1e-10, 1)])
def test_a_parameter_without_an_error_makes_other_starts_worth_a_try_unless_nothing_is_left_to_explain(
    share: float, expected: int, searches: list[None]
) -> None:
    found = ad.fit("y ~ exp(a)*x + b + c - c", explained(share))
    assert found.stderr["c"] is None
    assert len(searches) == expected


@pytest.mark.parametrize("unit", [1e-160, 1e-150, 1e-100, 1e100, 1e130])
def test_squares_that_vanish_or_grow_change_no_digit(unit: float) -> None:
    t = np.linspace(0, 4, 40)
    y = 2.5 * np.exp(-1.3 * t) + 0.02 * np.random.default_rng(2).standard_normal(40)
    plain, scaled = (ad.fit("y ~ a*exp(-b*t)", {"t": t, "y": y * by}) for by in (1, unit))
    assert scaled.converged
    assert scaled.parameters["a"] / unit == pytest.approx(plain.parameters["a"], rel=1e-7)
    for name, size in (("a", unit), ("b", 1)):
        assert scaled.stderr[name] / size == pytest.approx(plain.stderr[name], rel=1e-6)
    assert scaled.parameters["b"] == pytest.approx(plain.parameters["b"], rel=1e-7)


def test_a_target_whose_squares_vanish_is_refused() -> None:
    with pytest.raises(DataError, match="at most 3e-170 in size, so its squares underflow: rescale it"):
        ad.fit("y ~ a*t", {"t": [1, 2, 3], "y": [1e-170, -3e-170, 2e-170]})


@pytest.mark.sampled
@pytest.mark.parametrize("seed", [1, 9, 15, 62, 85, 108])
def test_of_the_minima_between_rows_the_least_is_found(seed: int) -> None:
    """A bend between any two rows may be a minimum: the best one is that of a scan over all places."""
    generator = np.random.default_rng(seed)
    x, slopes = np.sort(generator.uniform(0, 10, 12)), generator.uniform(-4, 4, 2)
    y = 0.5 + slopes[0] * x + slopes[1] * np.maximum(x - generator.uniform(2, 8), 0)
    y += 0.06 * np.std(y) * generator.normal(size=12)
    found = ad.fit("y ~ a + b*x + c*relu(x - k)", {"x": x, "y": y})
    assert found.converged

    def least(k: float) -> float:
        columns = np.column_stack([np.ones_like(x), x, np.maximum(x - k, 0)])
        return float(np.sum((y - columns @ np.linalg.lstsq(columns, y)[0]) ** 2))

    assert found.rss is not None
    assert found.rss <= 1.02 * min(map(least, np.linspace(x[0], x[-1], 1000)))


def test_starting_values_are_drawn_all_over_the_bounds() -> None:
    """Draws outside of the bounds ended on them, so that fits to sums of exponentials ended at worse minima."""
    x = np.linspace(0.0, 20, 30)
    bounds = {"r": (0.3, 0.6), "s": (2.0, 9.0), "t": (0.0, None)}
    objective = Objective("y ~ a*exp(-x/r) + b*exp(-x/s) + exp(-x*t)", {"x": x, "y": x}, bounds=bounds)
    names, free = objective.layout.names, np.ones(5, np.bool_)
    with ignore_float_errors():
        draws = starts.Multistart(objective, objective.start, free, 0, objective.bounds).random_draws()
    for name, (low, high) in bounds.items():
        values = draws[:, names.index(name)]
        assert (values >= low).all()
        assert (values != low).mean() > 0.99
        if high is not None:
            assert (values < high).all()
            assert len(np.unique(np.floor(8 * (values - low) / (high - low)))) == 8
