"""Threads share blocks of rows: the same bits with any number of them and any split; interrupts come through."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autodiff_cli.backends.llvm import runtime
from autodiff_cli.backends.llvm.backend import CompiledSumKernel, LlvmBackend
from autodiff_cli.backends.llvm.runtime import ThreadPool, job_table
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.backends.reductions import block_slices, fold
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.language.program import read

PROGRAM = read("(y - a*exp(-b*x) - sin(c*x))^2")
GRAPHS = RowGraphs(
    [PROGRAM.output, *gradient_nodes(PROGRAM.output, [PROGRAM.leaves[name] for name in "abc"])], {"x", "y"}
)
POINT = {"a": 2.0, "b": 0.5, "c": 3.0}
ROWS = 300_001
X = np.random.default_rng(0).normal(size=ROWS)
COLUMNS = {"x": X, "y": np.cos(X)}


def change_scheduling(monkeypatch: pytest.MonkeyPatch, **settings: float) -> None:
    for name, value in settings.items():
        monkeypatch.setattr(runtime, f"_{name.upper()}", value)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are used however small the work, and whatever else the machine does."""
    change_scheduling(monkeypatch, solo_seconds=0.0, solo_seconds_if_awake=0.0, max_solo_doublings=0)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("rows", [pytest.param(ROWS, marks=pytest.mark.slow), 3 * 8192, 8193, 100])
def test_the_same_bits_with_any_number_of_threads(rows: int) -> None:
    columns = {name: column[:rows] for name, column in COLUMNS.items()}
    found = [LlvmBackend(threads).sum_kernel(GRAPHS).sums(POINT, columns, rows).tobytes() for threads in (1, 2, 3, 8)]
    assert len(set(found)) == 1


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("blocks", [1, 2, 8, 16])
def test_the_same_bits_for_any_split_into_calls(blocks: int) -> None:
    kernel = LlvmBackend(2).sum_kernel(GRAPHS)
    size = blocks * kernel.block_rows
    whole = kernel.sums(POINT, COLUMNS, ROWS)
    parts = (
        kernel.sums(POINT, {name: column[part] for name, column in COLUMNS.items()}, part.stop - part.start)
        for part in block_slices(ROWS, size)
    )
    assert fold(parts, np.add).tobytes() == whole.tobytes()


@pytest.mark.usefixtures("eager")
def test_the_same_bits_however_many_blocks_go_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = LlvmBackend(2).sum_kernel(GRAPHS).sums(POINT, COLUMNS, ROWS)
    change_scheduling(monkeypatch, call_seconds=1e-9)
    assert LlvmBackend(2).sum_kernel(GRAPHS).sums(POINT, COLUMNS, ROWS).tobytes() == whole.tobytes()


@pytest.mark.usefixtures("eager")
def test_values_by_row_from_several_threads() -> None:
    kernel = LlvmBackend(3).row_kernel(RowGraphs([read("a*x + y").output], {"x", "y"}))
    out = np.empty((1, ROWS))
    kernel.write(kernel.prepare({"a": 2.0}), COLUMNS, out)
    np.testing.assert_allclose(out[0], 2 * X + np.cos(X), rtol=1e-15, atol=1e-15)


@pytest.mark.usefixtures("eager")
def test_special_functions_are_called_from_every_thread() -> None:
    kernel = LlvmBackend(3).sum_kernel(RowGraphs([read("gamma(1 + x^2)").output], {"x"}))
    x = np.linspace(0, 2, 50_000)
    (found,) = kernel.sums({}, {"x": x}, len(x))
    (alone,) = LlvmBackend(1).sum_kernel(RowGraphs([read("gamma(1 + x^2)").output], {"x"})).sums({}, {"x": x}, len(x))
    assert found == alone


def test_one_kernel_serves_several_callers_at_once() -> None:
    kernel = LlvmBackend(1).sum_kernel(GRAPHS)
    points = [{**POINT, "a": float(k)} for k in range(6)]
    wanted = [kernel.sums(point, COLUMNS, ROWS).tolist() for point in points]
    found: list[list[float]] = [[] for _ in points]

    def call(k: int) -> None:
        found[k] = kernel.sums(points[k], COLUMNS, ROWS).tolist()

    callers = [threading.Thread(target=call, args=(k,)) for k in range(len(points))]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == wanted


def _endless(kernel: CompiledSumKernel, timer: threading.Timer) -> None:
    timer.start()
    for _ in range(10_000):
        kernel.sums(POINT, COLUMNS, ROWS)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("text", ["sin(x)*a", "gamma(2 + sin(x))*a"])
def test_an_interrupt_comes_through_at_any_moment(text: str, threads: int) -> None:
    kernel = LlvmBackend(threads).sum_kernel(RowGraphs([read(text).output], {"x"}))
    whole = kernel.sums(POINT, COLUMNS, ROWS).tobytes()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    for seconds in np.linspace(0.001, 0.03, 25):
        timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            _endless(kernel, timer)
        timer.join()
    signal.signal(signal.SIGINT, before)
    assert kernel.sums(POINT, COLUMNS, ROWS).tobytes() == whole


@pytest.mark.usefixtures("eager")
def test_where_no_thread_can_be_started_one_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    wanted = LlvmBackend(1).sum_kernel(GRAPHS).sums(POINT, COLUMNS, ROWS)
    monkeypatch.setattr(runtime, "_pool", None)
    monkeypatch.setattr(threading.Thread, "start", refuses)
    assert LlvmBackend(4).sum_kernel(GRAPHS).sums(POINT, COLUMNS, ROWS).tobytes() == wanted.tobytes()


_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def _share(pool: ThreadPool, work: Callable[[], object], count: int) -> None:
    function = _RUN(lambda _job, _memory: work())
    job = job_table(ctypes.cast(function, ctypes.c_void_p).value or 0, 0, [0] * count)
    pool.run(ctypes.addressof(job), count)


@pytest.mark.parametrize("seconds", [0, 1e-4])
def test_helpers_work_beside_the_caller_who_waits_for_them(seconds: float) -> None:
    pool, under_way, done = ThreadPool(seconds), [], []
    assert pool._patience <= seconds / 2e-10  # a poll is several instructions, on any processor

    def work() -> None:
        under_way.append(threading.get_ident())
        time.sleep(0.02)
        done.append(under_way[-1])

    end = time.monotonic() + 100  # on a busy machine, helpers come late, and are then called seldom
    while len({*under_way}) < 3:
        assert time.monotonic() < end, "helpers never came"
        _share(pool, work, 3)
        assert len(done) == len(under_way)


def test_a_job_beside_another_one_is_done_by_its_caller() -> None:
    pool, started, release, done = ThreadPool(0), threading.Event(), threading.Event(), []

    def hold() -> None:
        started.set()
        release.wait(10)

    first = threading.Thread(target=_share, args=(pool, hold, 2))
    first.start()
    assert started.wait(10)  # from now on another job is under way
    _share(pool, lambda: done.append("caller"), 2)
    assert done == ["caller"]
    release.set()
    first.join()


def test_helpers_who_come_in_vain_are_seldom_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that is busy with something else."""
    shared, real = [], ThreadPool.run

    def late(pool: ThreadPool, job: int, count: int) -> None:
        shared.append(count)
        real(pool, job, 1)
        time.sleep(0.01)

    change_scheduling(monkeypatch, solo_seconds=0.0, solo_seconds_if_awake=0.0)
    monkeypatch.setattr(ThreadPool, "run", late)
    kernel, columns = LlvmBackend(2).sum_kernel(GRAPHS), {name: column[:20_000] for name, column in COLUMNS.items()}
    for _ in range(150):
        kernel.sums(POINT, columns, 20_000)
    assert 0 < len(shared) < 30


@pytest.mark.usefixtures("eager")
def test_kernels_of_several_callers_share_helpers() -> None:
    kernels = [LlvmBackend(threads).sum_kernel(GRAPHS) for threads in (2, 3, 4, 8)]
    wanted = kernels[0].sums(POINT, COLUMNS, ROWS).tobytes()
    found: list[bytes] = []

    def call(kernel: CompiledSumKernel) -> None:
        found.extend(kernel.sums(POINT, COLUMNS, ROWS).tobytes() for _ in range(20))

    callers = [threading.Thread(target=call, args=(kernel,)) for kernel in kernels]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == [wanted] * 80


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("ends", ["", "os._exit(0)", "raise SystemExit", "os.kill(os.getpid(), 15)"])
def test_a_process_ends_while_helpers_look_for_work(ends: str) -> None:
    program = f"""
import ctypes, os, time
from autodiff_cli.backends.llvm.runtime import ThreadPool, job_table
run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(lambda *_: time.sleep(0.05))
address = ctypes.cast(run, ctypes.c_void_p).value
job = job_table(address, 0, [0, 0])
ThreadPool(60).run(ctypes.addressof(job), 2)
{ends}
"""
    started = time.monotonic()
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
    assert (found.returncode, found.stderr) == (-15 if "kill" in ends else 0, "")
    assert time.monotonic() - started < 30


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.usefixtures("eager")
def test_a_forked_process_has_threads_of_its_own() -> None:
    kernel = LlvmBackend(2).sum_kernel(GRAPHS)
    wanted = kernel.sums(POINT, COLUMNS, ROWS).tobytes()
    child = os.fork()
    if not child:
        os._exit(0 if kernel.sums(POINT, COLUMNS, ROWS).tobytes() == wanted else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("block_seconds", [1e-9, 1e-3, 0.004, 0.3])
@pytest.mark.parametrize("most", [1, 5, 64, 10**6])
def test_calls_run_as_many_blocks_as_take_a_time_that_ctrl_c_may_wait(block_seconds: float, most: int) -> None:
    """Several threads do several times as many; their number is a power of two, of which sums are subtrees."""
    for threads in (1, 4):
        runner: Any = SimpleNamespace(_threads=threads, _seconds_per_block=block_seconds)
        fitting = min(most, runtime._CALL_SECONDS * threads / block_seconds)
        for blocks in (1, 3, 60, 1000):
            groups = runtime.PlanRunner.block_groups(runner, blocks, most)
            assert [start for start, _ in groups] == [0, *(end for _, end in groups)][:-1]
            assert groups[-1][1] == blocks
            size = groups[0][1]
            assert all(end - start == size for start, end in groups[:-1])
            assert size == 1 or size <= fitting
            assert len(groups) == 1 or (size & (size - 1) == 0 and 2 * size > fitting)
