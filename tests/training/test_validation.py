"""Rows held out of a fit: which they are, what they say, and when they end it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting import progress
from autodiff_cli.training.fitting.progress import selection_loss, split_validation
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.optimizers import Epoch
from tests.each import amount, each

X = np.linspace(-1, 1, 40)
DATA = {"x": X, "y": 3 * X + np.sin(50 * X)}


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5, 0.9])
def test_a_split_shares_the_rows_out(fraction: float, is_large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_large:  # rows of large data are drawn block by block
        monkeypatch.setattr(progress, "_MAX_SHUFFLED_ROWS", 39)
        monkeypatch.setattr(progress, "_SAMPLING_BLOCK_ROWS", 7)
    objective = Objective("y ~ a*x", DATA)
    fitted, held_out = split_validation(objective, fraction, seed=3)
    assert held_out.rows == round(fraction * 40)
    both = np.concatenate([fitted.table.columns["x"], held_out.table.columns["x"]])
    assert np.array_equal(np.sort(both), X)


def test_of_too_many_rows_none_are_split_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_MAX_SHUFFLED_ROWS", 20)
    monkeypatch.setattr(progress, "_MAX_ROWS", 40)
    with pytest.raises(OptionError, match="validation supports fewer than"):
        split_validation(Objective("y ~ a*x", DATA), 0.5, 0)


def test_the_seed_decides_which_rows() -> None:
    objective = Objective("y ~ a*x", DATA)
    first, again, other = (split_validation(objective, 0.5, seed)[1].table.columns["x"] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_validation_rows_do_not_affect_the_fit() -> None:
    objective = Objective("y ~ a*x", DATA)
    kept, held_out = split_validation(objective, 0.25, seed=0)
    fit = ad.fit("y ~ a*x", DATA, validation=0.25)
    alone = ad.fit("y ~ a*x", dict(kept.table.columns))
    assert fit.parameters == alone.parameters
    assert (fit.rows, fit.validation_rows, fit.dof) == (30, 10, 29)
    theta = [*fit.parameters.values()]
    assert fit.validation_loss == held_out.value_and_grad(theta)[0]
    assert fit.history[-1]["validation_loss"] == pytest.approx(fit.validation_loss)


def test_weights_go_with_their_rows() -> None:
    weights = np.where(np.arange(40) < 20, 0.0, 1.0)
    fit = ad.fit("y ~ a*x", {**DATA, "w": weights}, weights="w", validation=0.25)
    assert fit.parameters != ad.fit("y ~ a*x", DATA, validation=0.25).parameters
    assert np.isfinite(fit.validation_loss)


def test_patience_ends_the_fit_and_restores_the_best() -> None:
    fit = ad.fit(
        "y ~ a*x", DATA, start={"a": 0}, optimizer="sgd", learning_rate=0.9, batch_size=1, validation=0.3, patience=4
    )
    losses = [record["validation_loss"] for record in fit.history]
    best = int(np.argmin(losses))
    assert fit.epochs == best + 4 < 100
    assert fit.validation_loss == losses[best]
    assert fit.converged
    assert f"epoch {best}" in fit.notes[-1]


def test_a_fit_that_no_epoch_improves_has_not_converged() -> None:
    start, options = {"a": 3.0}, {"optimizer": "adam", "learning_rate": 10, "validation": 0.3, "patience": 3}
    fit = ad.fit("y ~ a*x", DATA, start=start, **options)
    assert (fit.epochs, fit.converged) == (3, False)
    assert fit.warnings[-1] == "not converged: no epoch had a lower validation loss than the starting values"


@pytest.mark.parametrize("optimizer", ["lm", "lbfgs", "adam"])
def test_patience_goes_with_every_optimizer(optimizer: str) -> None:
    fit = ad.fit("y ~ a*x + b", DATA, optimizer=optimizer, validation=0.3, patience=1)
    assert fit.validation_loss == pytest.approx(min(record["validation_loss"] for record in fit.history))


def test_without_validation_all_rows_are_fitted() -> None:
    fit = ad.fit("y ~ a*x", DATA)
    assert (fit.rows, fit.validation_rows, fit.validation_loss) == (40, 0, None)
    assert "validation_loss" not in fit.history[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation": 0}, "between 0 and 1"),
        ({"validation": 1.0}, "between 0 and 1"),
        ({"validation": float("nan")}, "between 0 and 1"),
        ({"validation": 0.001}, "leaves one part empty"),
        ({"validation": 0.999}, "leaves one part empty"),
        ({"patience": 3}, "needs validation"),
        ({"validation": 0.5, "patience": 0}, "patience must be at least 1"),
    ],
)
def test_options_that_cannot_be(options: dict[str, float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ad.fit("y ~ a*x", DATA, **options)  # type: ignore[arg-type]


def test_an_epoch_without_a_loss_is_never_the_best() -> None:
    numbers = [Epoch(k, loss, np.zeros(1)) for k, loss in enumerate((math.nan, 3.0, 2.0))]
    assert min(numbers, key=selection_loss).number == 2
    assert selection_loss(numbers[0]) == math.inf


VALIDATED = [{}, {"optimizer": "adam", "epochs": 20, "learning_rate": 0.1}, {"starts": 3}, {"l2": 0.001}]


@each("model", ["y ~ a + b*x", "counts ~ exp(a + b*x)"])
@each(
    "options, weights",
    itertools.product(VALIDATED, [None, "w"]),
    quick=lambda options, weights: (not options or "starts" in options) == (weights is None),
)
def test_the_validation_loss_has_the_scale_of_the_fit(model: str, weights: str | None, options: dict[str, Any]) -> None:
    generator = np.random.default_rng(0)
    y = 3 * X + 0.2 * generator.standard_t(2, size=40)
    data = {"x": X, "y": y, "counts": generator.negative_binomial(2, 2 / (2 + np.exp(1 + X))), "w": 1 + (X > 0)}
    robust = ["huber", "cauchy", "logcosh", "soft_l1"][: amount(2, 4, 4)]
    for loss in ["negative_binomial"] if "counts" in model else robust:
        found = ad.fit(model, data, loss=loss, weights=weights, validation=0.3, **options)
        assert found.scale not in (None, 1.0)
        objective = Objective(model, data, loss=loss, weights=weights, scale=found.scale)
        held_out = split_validation(objective, 0.3, seed=0)[1]
        wanted = held_out.value([*found.parameters.values()])
        assert found.validation_loss == pytest.approx(wanted, rel=1e-12)
        assert found.history[-1]["validation_loss"] == pytest.approx(wanted, rel=1e-12)


@each(
    "model, is_warned",
    [
        ("y ~ a[g] + b*x", True),  # no fitted row has the level
        ("y ~ exp(a[g] + b*x)", True),
        ("y ~ a + c*(g == 'w') + b*x", True),
        ("y ~ a + c + b*x", False),  # redundant parameters, whose sum is all that any row needs
        ("y ~ a + b*x", False),
    ],
)
def test_a_validation_loss_of_parameters_that_are_not_fitted_has_a_warning(model: str, is_warned: bool) -> None:
    x = np.arange(12.0)
    seed = next(seed for seed in range(100) if np.random.default_rng(seed).permutation(12)[:3].min() == 0)
    fit = ad.fit(model, {"x": x, "y": 1 + x + 0.1 * np.cos(9 * x), "g": [*"wuvuvuvuvuvu"]}, validation=0.25, seed=seed)
    assert any("the validation loss means little" in warning for warning in fit.warnings) == is_warned


def test_there_are_at_most_as_many_folds_as_rows_that_count() -> None:
    weights, y = [1, 1, 0, 0, 0, 0, 1, 1], [2.0, 2.3, 5, 6, 7, 8, 1.9, 2.2]
    data = {"x": [*range(8)], "y": y, "w": weights}
    rows = {name: [cell for cell, weight in zip(cells, weights, strict=True) if weight] for name, cells in data.items()}
    with_all, alone = (ad.compare(["y ~ a + b*x", "y ~ b*x"], each, weights="w").models for each in (data, rows))
    errors = [model.cv_error for model in with_all]
    assert None not in errors
    assert errors == pytest.approx([model.cv_error for model in alone])
