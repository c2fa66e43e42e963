"""Memory that evaluation takes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from autodiff_cli import Objective, fit

DEEP = f"y ~ mlp([x, x^2], [{', '.join(['40'] * 16)}], tanh)"


def data(rows: int) -> dict[str, np.ndarray]:
    x = np.linspace(-1, 1, rows)
    return {"x": x, "y": np.sin(3 * x)}


def test_a_value_alone_keeps_nothing_for_a_gradient() -> None:
    objective = Objective(DEEP, data(512), backend="numpy")
    tracemalloc.start()
    objective.value(objective.start)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found < 6 * 40 * 512 * 8  # a few layers at a time, not 16


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"optimizer": "lm"}, {"loss": "huber"}])
def test_a_fit_of_many_rows_takes_no_array_of_their_length(options: dict[str, Any]) -> None:
    rows = 2_000_000  # 16 MB in each column
    x = np.linspace(0, 3, rows)
    columns = {"x": x, "y": 2.5 * np.exp(-1.3 * x) + np.random.default_rng(0).normal(0, 0.05, rows)}
    fit("y ~ a*exp(-b*x)", {name: values[:1000] for name, values in columns.items()}, **options)
    tracemalloc.start()
    try:
        fit("y ~ a*exp(-b*x)", columns, **options)
        assert tracemalloc.get_traced_memory()[1] < 15e6
    finally:
        tracemalloc.stop()
