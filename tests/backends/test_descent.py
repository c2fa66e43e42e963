"""Epochs of a gradient method: all rows once, in a new order each time, one step per batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autodiff_cli import Objective
from autodiff_cli.backends.gradient_descent import epoch_orders, total_weight
from autodiff_cli.backends.protocol import EpochRequest, OptimizerState, Point, SumKernel
from autodiff_cli.backends.reductions import fold
from autodiff_cli.training.optimizers import OPTIMIZERS

RATE = 0.03
ROWS = 10


def shuffled(generator: np.random.Generator, rows: int) -> Any:
    """The order of a whole epoch."""
    return np.concatenate([part for part in epoch_orders(generator, rows, 1) if part is not None])


def data() -> dict[str, Any]:
    generator = np.random.default_rng(3)
    weights = generator.uniform(0, 2, ROWS)
    return {"x": generator.normal(size=ROWS), "y": generator.normal(size=ROWS), "w": weights}


def by_hand(columns: dict[str, Any], weights: Any, size: int, epochs: int) -> tuple[list[float], list[float]]:
    """The losses and the parameters of gradient descent on `y ~ a*x + b`, row by row."""
    generator, theta, losses = np.random.default_rng(7), np.array([1.0, 1.0]), []
    for _ in range(epochs):
        order, batches = shuffled(generator, ROWS), []
        assert sorted(order) == [*range(ROWS)]
        for start in range(0, ROWS, size):
            rows = order[start : start + size]
            x, y, w = columns["x"][rows], columns["y"][rows], weights[rows]
            residual = y - theta[0] * x - theta[1]
            batches.append(np.sum(w * residual**2) / np.sum(w))
            theta = theta + RATE * 2 * np.array([np.sum(w * residual * x), np.sum(w * residual)]) / np.sum(w)
        losses.append(np.mean(batches))
    return losses, theta.tolist()


@pytest.mark.parametrize("size", [1, 3, 4, ROWS, 100])
@pytest.mark.parametrize("weighted", [False, True])
def test_epochs_are_those_of_the_formula(size: int, weighted: bool) -> None:
    columns = data()
    objective = Objective("y ~ a*x + b", columns, weights="w" if weighted else None)
    run, state = objective.epoch_runner(OPTIMIZERS["sgd"]), OptimizerState.initial(objective.start, OPTIMIZERS["sgd"])
    generator = np.random.default_rng(7)
    losses = [run(state, RATE, size, generator) for _ in range(5)]
    expected, theta = by_hand(columns, columns["w"] if weighted else np.ones(ROWS), size, 5)
    np.testing.assert_allclose(losses, expected, rtol=1e-13)
    np.testing.assert_allclose(state.theta, theta, rtol=1e-12)
    assert state.step_count == 5 * -(-ROWS // size)


def test_the_order_is_new_in_every_epoch() -> None:
    generator = np.random.default_rng(0)
    orders = {tuple(shuffled(generator, 20)) for _ in range(10)}
    assert len(orders) == 10


@pytest.mark.parametrize("rows", [2**18 + 1, 2**18 + 31, 300_000, 8192 * 40])
def test_many_rows_are_mixed_all_over_and_each_comes_once(rows: int) -> None:
    order = shuffled(np.random.default_rng(1), rows)
    assert (np.bincount(order, minlength=rows) == 1).all()
    batches = order[: rows // 32 * 32].reshape(-1, 32)
    # 32 rows drawn from all of them have this mean and this deviation, and neighbours fall apart.
    means, deviations = batches.mean(axis=1) / rows, batches.std(axis=1) / rows
    assert means.mean() == pytest.approx(0.5, abs=0.005)
    assert means.std() == pytest.approx(np.sqrt(1 / 12 / 32), rel=0.1)
    assert deviations.mean() == pytest.approx(np.sqrt(1 / 12), rel=0.03)
    assert np.mean(np.abs(np.diff(np.sort(batches, axis=1), axis=1)) < 32) < 0.15
    np.testing.assert_array_equal(order, shuffled(np.random.default_rng(1), rows))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_stopped_method_resumes_where_it_was(name: str) -> None:
    objective, update = Objective("y ~ a*x + b + v@[x, 1]", data(), start={"v": [1, 2]}), OPTIMIZERS[name]
    whole, parts = OptimizerState.initial(objective.start, update), OptimizerState.initial(objective.start, update)
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(4):
        objective.epoch_runner(update)(whole, RATE, 3, one)
    for _ in range(4):
        parts = OptimizerState(parts.values.copy(), parts.step_count)
        objective.epoch_runner(update)(parts, RATE, 3, other)
    np.testing.assert_array_equal(whole.values, parts.values)
    assert whole.step_count == parts.step_count == 16


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_a_batch_of_all_rows_is_a_step_down_sums_that_anyone_may_take(backend: str) -> None:
    rows = 40_000
    generator = np.random.default_rng(1)
    columns = {name: generator.normal(size=rows) for name in "xy"} | {"w": generator.uniform(0, 2, rows)}
    objective = Objective("y ~ a*tanh(b*x)", columns, weights="w", backend=backend)
    kernel = objective.kernels.epoch_kernel(OPTIMIZERS["adam"], clip_norm=0.1)
    point = {**objective.fixed, **objective.settings}
    here, there = (OptimizerState.initial(objective.start, OPTIMIZERS["adam"]) for _ in range(2))
    everything = objective.table.columns
    parts = [slice(0, 16384), slice(16384, 32768), slice(32768, rows)]

    def in_parts(kernel: SumKernel, at: Point) -> Any:
        sums = (kernel.sums(at, {n: c[p] for n, c in everything.items()}, p.stop - p.start) for p in parts)
        return fold(sums, np.add)

    for _ in range(5):
        loss = kernel.run(EpochRequest(here, 0.1, point, rows), everything)
        assert loss == kernel.run_full_batch(
            EpochRequest(there, 0.1, point, rows), total_weight(columns["w"]), in_parts
        )
    np.testing.assert_array_equal(here.values, there.values)
    assert here.step_count == there.step_count == 5
