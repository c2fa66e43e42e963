"""Rows that a mask chooses among many: the same bits as a copy of them, without the copy."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.training import rows as memory
from autodiff_cli.training.rows import MemoryRows, SelectedRows
from tests.support import goodness

ROWS = 60_000


def data() -> dict[str, Any]:
    random = np.random.default_rng(0)
    x = random.uniform(0, 3, ROWS)
    y = 2 * np.exp(-1.3 * x) + random.normal(0, 0.1, ROWS)
    return {"x": x, "y": y, "z": random.normal(size=ROWS), "w": random.uniform(0, 2, ROWS), "g": ["A", "B"] * 30_000}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("y ~ a*exp(-b*x)", {}),
        ("y ~ a*exp(-b*x)", {"weights": "w", "loss": "huber"}),
        ("y ~ a[g]*exp(-b*x)", {"backend": "llvm"}),
        ("y ~ dense([x, z], 1)[0]", {"optimizer": "lbfgs"}),
        ("y ~ a*exp(-b*x)", {"optimizer": "adam", "batch_size": 1000, "epochs": 2}),
        ("y ~ a*exp(-b*x)", {"optimizer": "adam", "epochs": 2, "weights": "w"}),
    ],
)
def test_a_fit_with_validation_rows_has_the_same_bits(
    model: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = data()
    expected = ad.fit(model, columns, validation=0.3, **options)
    made: list[None] = []
    monkeypatch.setattr(memory, "MAX_COPIED_ROWS", 1000)
    monkeypatch.setattr(memory, "_GATHER_ROWS", 8192)
    begin = SelectedRows.__init__
    monkeypatch.setattr(SelectedRows, "__init__", lambda *given: (made.append(None), begin(*given))[1])
    found = ad.fit(model, columns, validation=0.3, **options)
    assert len(made) == 2
    for name, value in expected.parameters.items():
        assert np.array_equal(found.parameters[name], value)
    assert found.history == expected.history
    assert found.validation_loss == expected.validation_loss
    np.testing.assert_array_equal(found.covariance, expected.covariance)
    assert goodness(found) == goodness(expected)


def test_a_bootstrap_of_many_rows_has_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = data()
    expected = ad.fit("y ~ a*exp(-b*x)", columns, bootstrap=5).intervals["bootstrap"]
    monkeypatch.setattr(memory, "MAX_COPIED_ROWS", 1000)
    monkeypatch.setattr(memory, "_GATHER_ROWS", 8192)
    assert ad.fit("y ~ a*exp(-b*x)", columns, bootstrap=5).intervals["bootstrap"] == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "sgd", "batch_size": 500, "epochs": 1},
        {"optimizer": "sgd", "batch_size": 500, "epochs": 1, "validation": 0.2},
        {"bootstrap": 2},
    ],
    ids=str,
)
def test_no_method_takes_memory_as_columns_do(options: dict[str, Any]) -> None:
    rows = 2_500_000
    x = np.arange(rows) / rows
    columns = {"x": x, "y": 2 * np.exp(-1.3 * x)}
    ad.fit("y ~ a*exp(-b*x)", {name: column[:300_000] for name, column in columns.items()}, **options)
    tracemalloc.start()
    try:
        ad.fit("y ~ a*exp(-b*x)", columns, **options)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 18_000_000  # the columns have 40 million bytes


def test_few_rows_are_copied() -> None:
    objective = ad.Objective("y ~ a*x", data())
    assert isinstance(objective.data.select_rows(np.arange(ROWS) % 2 == 0), MemoryRows)
