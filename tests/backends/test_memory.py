"""Memory that is used again changes no result."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from autodiff_cli import Objective, fit
from autodiff_cli.backends import numpy_backend
from autodiff_cli.backends.numpy_backend import BlockEvaluator
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.language.program import read
from autodiff_cli.numbers.arrays import ignore_float_errors

DEEP = f"y ~ mlp([x, x^2], [{', '.join(['40'] * 16)}], tanh)"


def data(rows: int) -> dict[str, np.ndarray]:
    x = np.linspace(-1, 1, rows)
    return {"x": x, "y": np.sin(3 * x)}


def test_what_a_block_gives_is_not_overwritten_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_backend, "_REUSE_ELEMENTS", 1)
    text = "s = W @ [x, 1]; t = tanh(s + b); concat(relu(t)*t, transpose([t])[0], t[0]*s)"
    program = read("W: 3x2; b: 3; " + text)
    kernel = BlockEvaluator(RowGraphs([program.output], {"x"}, {"W": (3, 2), "b": (3,)}))
    generator = np.random.default_rng(0)
    with ignore_float_errors():
        prepared = kernel.prepare({"W": generator.normal(size=(3, 2)), "b": generator.normal(size=3)})
        xs = [generator.normal(size=5) for _ in range(4)]
        together = [kernel.evaluate_block(prepared, {"x": x})[0] for x in xs]
        monkeypatch.setattr(numpy_backend, "_REUSE_ELEMENTS", 10**9)
        for x, found in zip(xs, together, strict=True):
            np.testing.assert_array_equal(found, kernel.evaluate_block(prepared, {"x": x})[0])


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
