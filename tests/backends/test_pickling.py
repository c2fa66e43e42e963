"""A pickled kernel is rebuilt once in each process, and gives the same bits there."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from autodiff_cli.backends.llvm.backend import LlvmBackend
from autodiff_cli.backends.protocol import Backend, CompilationError, RowGraphs
from autodiff_cli.backends.selection import choose_backend, make_backend
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.language.program import read

ROWS = 20_000
COLUMNS = {"x": np.linspace(-2, 3, ROWS), "y": np.sin(np.arange(ROWS))}
POINT = {"a": 1.5, "b": 0.3}

ELSEWHERE = """
import pickle, sys
kernel, point, columns, rows = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(kernel.sums(point, columns, rows).tobytes())
"""


def _graphs(text: str = "(y - a*exp(-b*x))^2") -> RowGraphs:
    program = read(text)
    leaves = [program.leaves["a"], program.leaves["b"]]
    return RowGraphs([program.output, *gradient_nodes(program.output, leaves)], {"x", "y"}, {}, [(), (), ()])


BACKENDS = {
    "numpy": make_backend("numpy"),
    "llvm": make_backend("llvm", 2),
    "auto": choose_backend("llvm", 2, _graphs(), ROWS),
    "narrow": LlvmBackend(1, 2),
}


@pytest.mark.parametrize("name", BACKENDS)
def test_sums_and_rows_of_a_copy_have_the_same_bits(name: str) -> None:
    sums, rows = BACKENDS[name].sum_kernel(_graphs()), BACKENDS[name].row_kernel(_graphs())
    copied_sums, copied_rows = pickle.loads(pickle.dumps((sums, rows)))
    assert (copied_sums.names, copied_sums.block_rows) == (sums.names, sums.block_rows)
    np.testing.assert_array_equal(copied_sums.sums(POINT, COLUMNS, ROWS), sums.sums(POINT, COLUMNS, ROWS))
    found, wanted = np.empty((3, ROWS)), np.empty((3, ROWS))
    copied_rows.write(copied_rows.prepare(POINT), COLUMNS, found)
    rows.write(rows.prepare(POINT), COLUMNS, wanted)
    np.testing.assert_array_equal(found, wanted)
    assert copied_rows.output_slices == rows.output_slices


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", BACKENDS)
def test_another_process_computes_the_same_bits(name: str) -> None:
    kernel = BACKENDS[name].sum_kernel(_graphs())
    given = pickle.dumps((kernel, POINT, COLUMNS, ROWS))
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], input=given, capture_output=True, check=True)
    assert done.stdout == kernel.sums(POINT, COLUMNS, ROWS).tobytes()


def test_a_kernel_is_made_once_however_often_it_arrives() -> None:
    kernel = make_backend("llvm", 1).sum_kernel(_graphs("a*b*x - y"))
    first, second = (pickle.loads(pickle.dumps(kernel)) for _ in range(2))
    same = pickle.loads(pickle.dumps(make_backend("llvm", 1).sum_kernel(_graphs("a*b*x - y"))))
    other = pickle.loads(pickle.dumps(make_backend("llvm", 1).sum_kernel(_graphs("a*b*x + y"))))
    assert first is second is same
    assert other is not first


def test_plans_of_numpy_calls_are_for_one_thread_each() -> None:
    content = pickle.dumps(make_backend("numpy").sum_kernel(_graphs()))
    there: list[Any] = []
    thread = threading.Thread(target=lambda: there.append(pickle.loads(content)))
    thread.start()
    thread.join()
    here = pickle.loads(content)
    assert here is pickle.loads(content)
    assert here is not there[0]


def test_a_process_keeps_only_so_many() -> None:
    contents = [pickle.dumps(make_backend("numpy").sum_kernel(_graphs(f"a*x + b*{k}"))) for k in range(70)]
    kernels = [*map(pickle.loads, contents)]
    assert pickle.loads(contents[-1]) is kernels[-1]
    assert pickle.loads(contents[0]) is not kernels[0]


def test_what_did_not_compile_is_copied_as_what_took_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise CompilationError("no")

    messages: list[str] = []
    backend_with_fallback: Backend = choose_backend("llvm", 1, _graphs(), ROWS, notify=messages.append)
    kernel = backend_with_fallback.sum_kernel(_graphs())
    monkeypatch.setattr("autodiff_cli.backends.llvm.runtime.compile_module", fails)
    wanted = kernel.sums(POINT, COLUMNS, ROWS)
    assert messages
    monkeypatch.undo()
    copy = pickle.loads(pickle.dumps(kernel))
    assert type(copy) is type(make_backend("numpy").sum_kernel(_graphs()))
    np.testing.assert_array_equal(copy.sums(POINT, COLUMNS, ROWS), wanted)


def test_graphs_share_in_a_copy_what_they_shared() -> None:
    graphs = _graphs()
    copy = pickle.loads(pickle.dumps(graphs))
    for name in ("output_shapes", "columns", "declared_shapes"):
        assert getattr(copy, name) == getattr(graphs, name)
    assert len(pickle.dumps(graphs)) < 3000
    deep = read("x" + " + sin(x)" * 5000)
    assert pickle.loads(pickle.dumps(RowGraphs([deep.output], {"x"}))).output_shapes == ((),)
