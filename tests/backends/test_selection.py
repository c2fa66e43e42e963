"""The backend that is meant, and the one that suits the work."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.backends import selection
from autodiff_cli.backends.protocol import Backend, CompilationError, RowGraphs
from autodiff_cli.backends.selection import choose_backend
from autodiff_cli.data.table import MemoryDataset
from autodiff_cli.language.program import read
from autodiff_cli.options import OptionError
from autodiff_cli.training.options import FitOptions
from tests.support import run_cli

GRAPHS = RowGraphs([read("(y - a*exp(-b*x))^2").output], {"x", "y"})


def test_small_work_is_done_by_numpy_and_much_of_it_compiled() -> None:
    assert choose_backend("auto", None, GRAPHS, 1000).name == "numpy"
    assert choose_backend("auto", None, GRAPHS, 1_000_000).name == "llvm"
    assert choose_backend("numpy", None, GRAPHS, 1_000_000).name == "numpy"
    assert choose_backend("llvm", None, GRAPHS, 1).name == "llvm"


def test_many_small_batches_are_compiled() -> None:
    assert choose_backend("auto", None, GRAPHS, 1000, passes=100, batches=32).name == "llvm"
    assert choose_backend("auto", None, GRAPHS, 1000, passes=5, batches=32).name == "numpy"
    x = np.linspace(0, 3, 1000)
    for batch_size, expected in ((32, "llvm"), (500, "numpy"), (1000, "numpy"), (None, "numpy")):
        options = FitOptions(optimizer="sgd", batch_size=batch_size)
        objective = ad.Objective.of("y ~ a*exp(-b*x)", MemoryDataset({"x": x, "y": x}), options)
        kernels = objective.kernels
        assert (kernels.epoch_backend or kernels.backend).name == expected
        assert objective.kernels.backend.name == "numpy"


def test_many_evaluations_of_few_rows_are_compiled_by_their_number() -> None:
    x = np.linspace(0, 3, 1000)
    runs = []
    for backend in ("auto", "auto", "numpy"):
        objective = ad.Objective("y ~ a*exp(-b*x)", {"x": x, "y": x}, backend=backend)
        names, values = [], []
        for k in range(1000):
            values.append(objective.value([1.0, 1 + k / 1000]))
            names.append(objective.kernels.backend.name)
        runs.append((names, values))
    assert runs[0] == runs[1]  # to the last bit
    assert {*runs[0][0]} == {"numpy", "llvm"}
    assert {*runs[2][0]} == {"numpy"}
    np.testing.assert_allclose(runs[0][1], runs[2][1], rtol=1e-14)


@pytest.mark.parametrize("error", [OSError, CompilationError, RuntimeError])
def test_a_backend_that_cannot_be_made_is_reported(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def broken(_: int | None) -> Backend:
        raise error("no library")

    monkeypatch.setitem(selection.BACKEND_FACTORIES, "llvm", broken)
    notes: list[str] = []
    assert choose_backend("llvm", None, GRAPHS, 1000, notify=notes.append).name == "numpy"
    assert ["no library" in note for note in notes] == [True]


@pytest.mark.slow
def test_a_broken_compiler_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int | None) -> Backend:
        raise OSError("no library")

    monkeypatch.setitem(selection.BACKEND_FACTORIES, "llvm", broken)
    x = np.linspace(0, 3, 1000)
    for name in ("auto", "llvm"):
        fit = ad.fit("y ~ a*x", {"x": x, "y": x}, optimizer="sgd", batch_size=1, epochs=2, backend=name)
        assert sum("machine code could not be generated" in note for note in fit.notes) == 1
    many = np.linspace(0, 3, 200_000)  # compiled at once, not after some passes
    assert len(ad.fit("y ~ a*exp(-b*x)", {"x": many, "y": many}).notes) == 1


def test_what_would_take_long_to_compile_is_left_to_numpy() -> None:
    sizes = {"W": (1000, 1000), "v": (1000,)}
    graphs = RowGraphs([read("W: 1000x1000; v: 1000; sum(W @ v)*x").output], {"x"}, sizes)
    assert choose_backend("auto", None, graphs, 1_000_000).name == "llvm"  # wide layers are loops
    graphs = RowGraphs([read("v: 3000; sum(outer(v, v)*x)").output], {"x"}, {"v": (3000,)})
    assert choose_backend("auto", None, graphs, 1_000_000).name == "numpy"  # intermediates of nine million numbers
    graphs = RowGraphs([read("+".join(f"sin({k}*x)" for k in range(2000))).output], {"x"})
    assert choose_backend("auto", None, graphs, 1_000_000).name == "numpy"


def test_without_a_compiler_everything_is_done_by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "has_compiler", lambda: False)
    assert choose_backend("auto", None, GRAPHS, 1_000_000).name == "numpy"


def test_a_broken_compiler_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int | None) -> Backend:
        raise OSError("libllvmlite.so: cannot open shared object file")

    monkeypatch.setitem(selection.BACKEND_FACTORIES, "llvm", broken)
    assert choose_backend("auto", None, GRAPHS, 1_000_000).name == "numpy"


@pytest.mark.slow
def test_both_backends_fit_alike() -> None:
    x = np.linspace(0, 3, 500)
    data = {"x": x, "y": 2 * np.exp(-1.3 * x) + 0.1 * np.sin(40 * x)}
    for options in ({}, {"optimizer": "adam", "batch_size": 50, "epochs": 3}, {"loss": "huber"}):
        fits = [ad.fit("y ~ a*exp(-b*x)", data, backend=name, **options) for name in ("numpy", "llvm")]  # type: ignore[arg-type]
        for name in "ab":
            assert fits[0].parameters[name] == pytest.approx(fits[1].parameters[name], rel=1e-9)


def test_an_objective_gives_the_same_with_any_number_of_threads() -> None:
    x = np.linspace(0, 3, 200_000)
    data = {"x": x, "y": np.exp(-x)}
    found = [
        ad.Objective("y ~ a*exp(-b*x)", data, backend="llvm", threads=threads).value_and_grad([1.5, 0.5])
        for threads in (1, 2, 5)
    ]
    assert all(value == found[0][0] and gradient.tobytes() == found[0][1].tobytes() for value, gradient in found)
    value, gradient = ad.Objective("y ~ a*exp(-b*x)", data, backend="numpy").value_and_grad([1.5, 0.5])
    np.testing.assert_allclose([value, *gradient], [found[0][0], *found[0][1]], rtol=1e-12)


def test_what_cannot_be_is_refused() -> None:
    data = {"x": [1, 2], "y": [1, 2]}
    with pytest.raises(OptionError, match="backend"):
        ad.fit("y ~ a*x", data, backend="llmv")
    with pytest.raises(OptionError, match="threads must be at least 1"):
        ad.fit("y ~ a*x", data, threads=0)


def test_the_command_line_takes_both_options() -> None:
    data = "x,y\n1,2\n2,4.1\n3,5.9\n4,8.2\n"
    found = [run_cli(f"train 'y ~ a*x' - --json --backend {name} --threads 1", data).json for name in ("numpy", "llvm")]
    assert found[0]["parameters"]["a"] == pytest.approx(found[1]["parameters"]["a"], rel=1e-12)
    refused = run_cli("train 'y ~ a*x' - --backend cuda", data)
    assert refused.status == 2
    assert "cuda" in refused.stderr
