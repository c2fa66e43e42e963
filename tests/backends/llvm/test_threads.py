"""Threads share blocks of rows: the same bits with any number of them and any split; interrupts come through."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

from autodiff_cli.backends.fold import fold, slices
from autodiff_cli.backends.llvm.kernel import CompiledSums, Llvm
from autodiff_cli.backends.llvm.machine import runner
from autodiff_cli.backends.llvm.machine import threads as machine_threads
from autodiff_cli.backends.llvm.machine.threads import together
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.language.lowering import read

PROGRAM = read("(y - a*exp(-b*x) - sin(c*x))^2")
GRAPHS = RowGraphs(
    [PROGRAM.output, *gradient_nodes(PROGRAM.output, [PROGRAM.leaves[name] for name in "abc"])], {"x", "y"}
)
POINT = {"a": 2.0, "b": 0.5, "c": 3.0}
ROWS = 300_001
X = np.random.default_rng(0).normal(size=ROWS)
COLUMNS = {"x": X, "y": np.cos(X)}


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are used however small the work."""
    monkeypatch.setattr(runner, "_ALONE", 0.0)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("rows", [ROWS, 3 * 8192, 8193, 100])
def test_the_same_bits_with_any_number_of_threads(rows: int) -> None:
    columns = {name: column[:rows] for name, column in COLUMNS.items()}
    found = [Llvm(threads).sums(GRAPHS).sums(POINT, columns, rows).tobytes() for threads in (1, 2, 3, 8)]
    assert len(set(found)) == 1


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("blocks", [1, 2, 8, 16])
def test_the_same_bits_for_any_split_into_calls(blocks: int) -> None:
    kernel = Llvm(2).sums(GRAPHS)
    size = blocks * kernel.block_rows
    whole = kernel.sums(POINT, COLUMNS, ROWS)
    parts = (
        kernel.sums(POINT, {name: column[part] for name, column in COLUMNS.items()}, part.stop - part.start)
        for part in slices(ROWS, size)
    )
    assert fold(parts, np.add).tobytes() == whole.tobytes()


@pytest.mark.usefixtures("eager")
def test_the_same_bits_however_many_blocks_go_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Llvm(2).sums(GRAPHS).sums(POINT, COLUMNS, ROWS)
    monkeypatch.setattr(runner, "_LONG", 1e-9)
    assert Llvm(2).sums(GRAPHS).sums(POINT, COLUMNS, ROWS).tobytes() == whole.tobytes()


@pytest.mark.usefixtures("eager")
def test_values_by_row_from_several_threads() -> None:
    kernel = Llvm(3).rows(RowGraphs([read("a*x + y").output], {"x", "y"}))
    out = np.empty((1, ROWS))
    kernel.write(kernel.prepare({"a": 2.0}), COLUMNS, out)
    np.testing.assert_allclose(out[0], 2 * X + np.cos(X), rtol=1e-15, atol=1e-15)


@pytest.mark.usefixtures("eager")
def test_functions_of_python_are_called_from_every_thread() -> None:
    kernel = Llvm(3).sums(RowGraphs([read("gamma(1 + x^2)").output], {"x"}))
    x = np.linspace(0, 2, 50_000)
    (found,) = kernel.sums({}, {"x": x}, len(x))
    (alone,) = Llvm(1).sums(RowGraphs([read("gamma(1 + x^2)").output], {"x"})).sums({}, {"x": x}, len(x))
    assert found == alone


def test_one_kernel_serves_several_callers_at_once() -> None:
    kernel = Llvm(1).sums(GRAPHS)
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


def _endless(kernel: CompiledSums, timer: threading.Timer) -> None:
    timer.start()
    for _ in range(10_000):
        kernel.sums(POINT, COLUMNS, ROWS)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("text", ["sin(x)*a", "gamma(2 + sin(x))*a"])
def test_an_interrupt_comes_through_at_any_moment(text: str, threads: int) -> None:
    kernel = Llvm(threads).sums(RowGraphs([read(text).output], {"x"}))
    whole = kernel.sums(POINT, COLUMNS, ROWS).tobytes()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    for seconds in np.linspace(0.001, 0.03, 25):
        timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            _endless(kernel, timer)
        timer.join()
    signal.signal(signal.SIGINT, before)
    assert kernel.sums(POINT, COLUMNS, ROWS).tobytes() == whole


def test_where_no_thread_can_be_started_one_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(machine_threads, "_count", 0)
    monkeypatch.setattr(threading.Thread, "start", refuses)
    done: list[int] = []
    together([lambda: done.append(1), lambda: done.append(2), lambda: done.append(3)], done.clear)
    assert done == [1, 2, 3]


def test_what_a_thread_raises_is_raised_once_all_have_ended() -> None:
    ended = []

    def fails() -> None:
        raise OverflowError("in a thread")

    def ends() -> None:
        time.sleep(0.05)
        ended.append(True)

    with pytest.raises(OverflowError, match="in a thread"):
        together([ends, fails, ends], lambda: None)
    assert len(ended) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.usefixtures("eager")
def test_a_forked_process_has_threads_of_its_own() -> None:
    kernel = Llvm(2).sums(GRAPHS)
    wanted = kernel.sums(POINT, COLUMNS, ROWS).tobytes()
    child = os.fork()
    if not child:
        os._exit(0 if kernel.sums(POINT, COLUMNS, ROWS).tobytes() == wanted else 1)
    assert os.waitpid(child, 0)[1] == 0
