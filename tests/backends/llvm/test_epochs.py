"""Compiled epochs: what the loop over batches does, step by step, in one call."""

from __future__ import annotations

import signal
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from autodiff_cli import Objective, fit
from autodiff_cli.backends import gradient_descent
from autodiff_cli.backends.gradient_descent import epoch_orders
from autodiff_cli.backends.llvm import backend as llvm_backend
from autodiff_cli.backends.llvm.backend import LlvmBackend
from autodiff_cli.backends.numpy_backend import NumpyBackend
from autodiff_cli.backends.protocol import Backend, EpochRequest, GradientDescent, OptimizerState
from autodiff_cli.training.optimizers import OPTIMIZERS
from tests.backends.llvm.compiled import every_width
from tests.backends.llvm.test_columns import Fenced
from tests.each import each

MODEL = "y ~ a*exp(-b*x) + c*sin(d*x)"
NETWORK = "y ~ mlp(x, [3, 2], tanh)"
VECTORS = "y ~ tanh(v @ [x, z]) + sum(v)*a"
RATE = 0.02


def data(rows: int, kind: Any = np.float64) -> dict[str, Any]:
    generator = np.random.default_rng(rows)
    x, z = generator.uniform(0, 3, (2, rows))
    columns = {"x": x * 30, "z": z * 30, "y": (2 * np.exp(-x) + np.sin(2 * x)) * 30}
    return {**{name: column.astype(kind) for name, column in columns.items()}, "w": generator.uniform(0.1, 1, rows)}


def change_settings(monkeypatch: pytest.MonkeyPatch, **settings: float) -> None:
    for name, value in settings.items():
        monkeypatch.setattr(llvm_backend, f"_{name.upper()}", value)


def descent_of(objective: Objective, method: str, longest: float | None = None) -> GradientDescent:
    """What an objective hands a backend."""
    descents: list[GradientDescent] = []

    class Taking(NumpyBackend):
        def epoch_kernel(self, descent: GradientDescent) -> Any:
            descents.append(descent)
            return super().epoch_kernel(descent)

    objective.kernels.epoch_backend = Taking()
    objective.epoch_runner(OPTIMIZERS[method], longest)
    return descents[0]


def run(
    backend: Backend,
    objective: Objective,
    method: str,
    batch: int,
    columns: Any = None,
    times: int = 3,
    longest: float | None = None,
) -> tuple[list[float], OptimizerState]:
    """Some epochs: their losses, and the state after them."""
    kernel = backend.epoch_kernel(descent_of(objective, method, longest))
    state, generator = OptimizerState.initial(objective.start, OPTIMIZERS[method]), np.random.default_rng(5)
    point = {**objective.fixed, **objective.settings}
    columns = objective.table.columns if columns is None else columns
    rows = next(iter(columns.values())).shape[-1]
    drawn = (next(epoch_orders(generator, rows, batch)) for _ in range(times))
    return [kernel.run(EpochRequest(state, RATE, point, batch), columns, order) for order in drawn], state


def assert_same(found: tuple[list[float], OptimizerState], wanted: tuple[list[float], OptimizerState]) -> None:
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(found[1].values, wanted[1].values, rtol=1e-9, atol=1e-12)
    assert found[1].step_count == wanted[1].step_count


def scaled(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: column if name == "w" else column / 30 for name, column in columns.items()}


@each("method", OPTIMIZERS)
@each("batch", [7, 1, 32, 1000], sampled=True)
def test_compiled_epochs_are_those_of_the_loop(method: str, batch: int) -> None:
    objective = Objective(MODEL, scaled(data(203)))
    assert_same(run(LlvmBackend(1), objective, method, batch), run(NumpyBackend(), objective, method, batch))


@each("model", [MODEL, NETWORK, VECTORS, "y ~ a*x + gamma(b + z)", "(a - 1)^2 + (y - b)^2 + 0*c"], sampled=True)
@each("method", ["sgd", "adam"])
@each("weighted", [False, True])
def test_whatever_the_model_and_the_weights(model: str, method: str, weighted: bool) -> None:
    start: dict[str, Any] = {"v": [0.5, -0.25]} if model is VECTORS else {}
    objective = Objective(model, scaled(data(101)), weights="w" if weighted else None, start=start)
    for batch in (2, 16, 60):
        assert_same(run(LlvmBackend(1), objective, method, batch), run(NumpyBackend(), objective, method, batch))


@each("longest", [1e-3, 0.3, 1e9])
def test_gradients_are_shortened_as_in_the_loop(longest: float) -> None:
    objective = Objective(VECTORS, scaled(data(90)), weights="w", start={"v": [3, 1], "a": 2})
    found, wanted = (run(each, objective, "momentum", 9, longest=longest) for each in (LlvmBackend(1), NumpyBackend()))
    assert_same(found, wanted)
    assert (found[1].theta != run(LlvmBackend(1), objective, "momentum", 9)[1].theta).any() == (longest < 1e9)


@each("slope", [1e200, np.inf, np.nan, 0.0])
def test_gradients_of_any_size_are_shortened(slope: float) -> None:
    objective = Objective("a*x + b*y", {"x": [1.0], "y": [1.0]})
    columns = {"x": np.full(4, slope), "y": np.full(4, slope / 2)}
    found, wanted = (
        run(each, objective, "sgd", 2, columns, times=1, longest=1.0)[1].theta
        for each in (LlvmBackend(1), NumpyBackend())
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@each("batch", [1, 13, 64, 600])
def test_wide_layers_too(batch: int) -> None:
    objective = Objective("y ~ mlp([x, z], [40, 40], relu)", scaled(data(601)), weights="w")
    assert_same(*(run(each, objective, "nesterov", batch, times=1) for each in (LlvmBackend(1), NumpyBackend())))


@every_width
def test_on_every_width(width: int) -> None:
    objective = Objective(MODEL, scaled(data(77)), weights="w")
    assert_same(run(LlvmBackend(1, width), objective, "adamw", 10), run(NumpyBackend(), objective, "adamw", 10))


def test_the_bits_are_the_same_for_any_number_of_threads_and_any_split(monkeypatch: pytest.MonkeyPatch) -> None:
    objective = Objective(MODEL, scaled(data(3001)))
    one = run(LlvmBackend(1), objective, "adam", 8)
    change_settings(monkeypatch, call_seconds=0.0, gather_bytes=2000)  # as many calls as possible
    other = run(LlvmBackend(2), objective, "adam", 8)
    assert one[0] == other[0]
    np.testing.assert_array_equal(one[1].values, other[1].values)


def test_batches_larger_than_a_kernel_takes_go_to_all_threads() -> None:
    objective = Objective(MODEL, scaled(data(20_000)))
    assert_same(
        run(LlvmBackend(2), objective, "adam", 9000, times=1), run(NumpyBackend(), objective, "adam", 9000, times=1)
    )


def test_fixed_parameters_bounds_and_patience_go_through_whole_fits() -> None:
    given = scaled(data(300))
    wanted, found = [
        fit(
            MODEL, given, optimizer="momentum", batch_size=16, epochs=8, seed=3, validation=0.2, patience=2,
            fixed={"d": 2}, learning_rate=0.001, weights="w", backend=name,
        )
        for name in ("numpy", "llvm")
    ]  # fmt: skip
    assert len(found.history) == len(wanted.history)
    for one, other in zip(found.history, wanted.history, strict=True):
        assert one == pytest.approx(other, rel=1e-9)
    assert found.parameters == pytest.approx(wanted.parameters, rel=1e-8)


def test_columns_of_other_types_are_widened() -> None:
    kinds = ("f4", "i8", "i4", "i2", "i1", "u1", "u2", "u4")
    columns = {f"x{kind}": data(150, kind)["x"] for kind in kinds} | {"y": data(150, "i2")["y"]}
    objective = Objective("y ~ b + " + " + ".join(f"a{kind}*x{kind}" for kind in kinds), columns)
    wide = {name: np.asarray(column, np.float64) for name, column in columns.items()}
    found, wanted = (run(LlvmBackend(1), objective, "adagrad", 13, given) for given in (columns, wide))
    assert found[0] == wanted[0]
    np.testing.assert_array_equal(found[1].theta, wanted[1].theta, err_msg=f"of {objective.parameters}")
    np.testing.assert_array_equal(found[1].values, wanted[1].values)


def test_columns_in_any_memory_are_read_and_nothing_beside_them() -> None:
    objective = Objective("y ~ a*x + b", scaled(data(101)))
    plain = {name: np.array(objective.table.columns[name]) for name in ("x", "y")}
    wanted = run(LlvmBackend(1), objective, "sgd", 10, plain)

    def between(column: Any, step: int) -> Any:
        space = np.full(3 * 101 * 3, np.nan)
        place = space[101 : 101 + 101 * step : step]
        place[...] = column
        place.setflags(write=False)
        return place

    for step in (1, 3):
        found = run(
            LlvmBackend(1), objective, "sgd", 10, {name: between(column, step) for name, column in plain.items()}
        )
        assert found[0] == wanted[0]
    swapped = {name: column.astype(column.dtype.newbyteorder()) for name, column in plain.items()}
    assert run(LlvmBackend(1), objective, "sgd", 10, swapped)[0] == wanted[0]


def test_compiled_code_reads_and_writes_only_the_buffers_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    fenced, mark, ends = Fenced(), 1234.5, []

    def aligned_zeros(count: int) -> Any:
        space = fenced.array(np.full(-(-count // 8) * 8, mark), at_end=True)
        space[:count] = 0
        ends.append(space[count:])
        return space[:count]

    monkeypatch.setattr(llvm_backend, "aligned_zeros", aligned_zeros)
    for model in (MODEL, NETWORK, VECTORS):
        objective = Objective(model, data(50), weights="w")
        for method in ("sgd", "adam"):
            run(LlvmBackend(1), objective, method, 8)
    assert len(ends) > 6 * 6
    assert all((end == mark).all() for end in ends)


@each("at_end", [False, True])
def test_no_byte_beyond_a_column_is_touched(at_end: bool) -> None:
    rows, fenced, kinds = 1 + 8 * 13, Fenced(), {"x": "f8", "z": "f4", "u": "i2", "v": "u1"}
    given = data(rows)
    given |= {name: given["z"].astype(kind) for name, kind in kinds.items()}
    objective = Objective("y ~ a*x*u + b*[v, z]@[z, v]", given, weights="w", start={"a": 0.01, "b": 0.001})
    columns = {name: fenced.array(column, at_end=at_end) for name, column in objective.table.columns.items()}
    for batch in (3, 8, 32, rows):
        found, wanted = (
            run(LlvmBackend(1), objective, "adam", batch, each) for each in (columns, objective.table.columns)
        )
        assert found[0] == wanted[0]


def test_columns_that_do_not_fit_are_an_error() -> None:
    objective = Objective("y ~ a*x + b", scaled(data(20)))
    for wrong in (np.zeros(19), np.zeros(21), np.zeros((2, 20))):
        columns = {"y": np.zeros(20), "x": wrong}
        with pytest.raises(ValueError, match=r"column `x` has .* numbers; 20 are needed"):
            run(LlvmBackend(1), objective, "sgd", 4, columns)


@each("backend", [NumpyBackend(), LlvmBackend(1)])
def test_no_rows_take_no_step(backend: Backend) -> None:
    objective = Objective("y ~ a*x + b", scaled(data(20)), weights="w")
    losses, state = run(backend, objective, "sgd", 4, dict.fromkeys(("x", "y", ""), np.zeros(0)), times=1)
    assert np.isnan(losses[0])
    np.testing.assert_array_equal(state.theta, objective.start)
    assert state.step_count == 0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no such timer")
def test_ctrl_c_interrupts_an_epoch() -> None:
    rows = 3_000_000
    objective = Objective("y ~ a*x + b", {"x": np.linspace(0, 1, rows), "y": np.zeros(rows)}, backend="llvm")
    adam = OPTIMIZERS["adam"]
    take, state = objective.epoch_runner(adam), OptimizerState.initial(objective.start, adam)
    before = signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    take(state, RATE, 8_000, np.random.default_rng(0))  # compiled, by then
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            take(state, RATE, 1, np.random.default_rng(0))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert 0 < state.step_count < rows


def test_a_long_epoch_reports_progress_and_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    objective = Objective(MODEL, scaled(data(3001)))
    change_settings(monkeypatch, call_seconds=0.0, gather_bytes=4000)
    monkeypatch.setattr(gradient_descent, "_PROGRESS_SECONDS", 0.0)
    for backend in (LlvmBackend(1), NumpyBackend()):
        kernel = backend.epoch_kernel(descent_of(objective, "sgd"))
        reports: list[tuple[float, float]] = []

        def report(part: float, loss: float, reports: list[tuple[float, float]] = reports) -> None:
            reports.append((part, loss))
            if len(reports) == 5:
                raise KeyboardInterrupt

        state = OptimizerState.initial(objective.start, OPTIMIZERS["sgd"])
        with pytest.raises(KeyboardInterrupt):
            kernel.run(EpochRequest(state, RATE, objective.settings, 10, report), objective.table.columns)
        assert all(before[0] < after[0] < 1 and np.isfinite(after[1]) for before, after in pairwise(reports))
        assert state.step_count == round(reports[-1][0] * 3001 / 10)
        assert (state.theta != objective.start).all()
