"""If compilation fails, NumPy is used, with equal results and one note."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.backends import selection
from autodiff_cli.backends.llvm import machine_code
from autodiff_cli.backends.llvm.backend import LlvmBackend
from autodiff_cli.backends.protocol import CompilationError, RowGraphs
from autodiff_cli.language.program import read
from autodiff_cli.training import options
from tests.support import run_cli

X = np.linspace(0, 3, 300)
DATA = {"x": X, "y": 2 * np.exp(-1.3 * X) + 0.1 * np.sin(40 * X)}
MODEL = "y ~ a*exp(-b*x)"


def _raises(*_: Any, **__: Any) -> Any:
    raise RuntimeError("LLVM is not what it was\nand more lines of it")


BREAKS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "compiling": lambda patch: patch.setattr(llvm.TargetMachine, "emit_object", _raises),
    "linking": lambda patch: patch.setattr("autodiff_cli.numbers.machine_code.load_object_code", _raises),
    "looking up": lambda patch: patch.setattr(
        "autodiff_cli.numbers.machine_code._LinkedLibrary.get_function_address", _raises
    ),
    "loading": lambda patch: patch.setitem(selection.BACKEND_FACTORIES, "llvm", _raises),
}


@pytest.fixture(params=BREAKS)
def broken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTODIFF_CACHE", "off")
    BREAKS[request.param](monkeypatch)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("options", [{}, {"optimizer": "adam", "batch_size": 50, "epochs": 3}, {"loss": "huber"}])
def test_a_fit_that_cannot_compile_falls_back_to_numpy_with_one_warning(options: dict[str, Any]) -> None:
    found = ad.fit(MODEL, DATA, backend="llvm", **options)
    wanted = ad.fit(MODEL, DATA, backend="numpy", **options)
    assert found.parameters == pytest.approx(wanted.parameters, rel=1e-12)  # epochs may have been compiled before
    assert len(found.history) == len(wanted.history)
    (note,) = [each for each in found.notes if each not in wanted.notes]
    assert "LLVM is not what it was" in note
    assert "NumPy" in note
    assert "\n" not in note


MISTAKES = ["backend.plan_kernel", "runtime.kernel_module", "backend.epoch_module"]


@pytest.mark.parametrize("what", MISTAKES)
@pytest.mark.parametrize("kind", [TypeError, NotImplementedError])
def test_a_mistake_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch, what: str, kind: type[Exception]) -> None:
    def mistaken(*_: Any, **__: Any) -> Any:
        raise kind("ours")

    monkeypatch.setattr(f"autodiff_cli.backends.llvm.{what}", mistaken)
    with pytest.raises(kind, match="ours"):
        ad.fit(MODEL, DATA, backend="llvm", optimizer="adam", batch_size=50, epochs=1)


def test_a_text_that_llvm_does_not_understand_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTODIFF_CACHE", "off")
    monkeypatch.setattr("autodiff_cli.backends.llvm.runtime.kernel_module", lambda *_, **__: "define oops")
    with pytest.raises(AssertionError, match="oops"):
        ad.fit(MODEL, DATA, backend="llvm")


def test_epochs_alone_that_cannot_be_compiled_are_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any) -> Any:
        raise CompilationError("LLVM is not what it was")

    monkeypatch.setattr("autodiff_cli.backends.llvm.backend.compile_module", refuses)
    options: dict[str, Any] = {"optimizer": "rmsprop", "batch_size": 50, "epochs": 3}
    found, wanted = (ad.fit(MODEL, DATA, backend=name, **options) for name in ("llvm", "numpy"))
    assert [record["loss"] for record in found.history] == pytest.approx([record["loss"] for record in wanted.history])
    (note,) = [each for each in found.notes if each not in wanted.notes]
    assert "LLVM is not what it was" in note


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.usefixtures("broken")
def test_the_command_line_has_the_same_note() -> None:
    rows = "x,y\n" + "".join(f"{x},{y}\n" for x, y in zip(DATA["x"], DATA["y"], strict=True))
    output = run_cli(["train", MODEL, "-", "--backend", "llvm"], rows)
    assert output.status == 0
    assert "LLVM is not what it was" in output + output.stderr
    assert "LLVM is not what it was" in " ".join(
        run_cli(["train", MODEL, "-", "--backend", "llvm", "--json"], rows).json["notes"]
    )


@pytest.mark.usefixtures("broken")
def test_many_points_are_evaluated_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(selection, "_MIN_WORK", 0)
    f = ad.parse("a*exp(-b*x)")
    with caplog.at_level(logging.WARNING, "autodiff_cli"):
        found = f(a=2, b=0.5, x=X)
    np.testing.assert_array_equal(found, 2 * np.exp(-0.5 * X))
    assert len(caplog.records) == 1
    assert "LLVM is not what it was" in caplog.text


def test_a_mistake_of_the_caller_is_no_reason_to_fall_back() -> None:
    kernel = selection.choose_backend("llvm", None, RowGraphs([read("a*x").output], {"x"}), 3).sum_kernel(
        RowGraphs([read("a*x").output], {"x"})
    )
    with pytest.raises(ValueError, match="2 are needed"):
        kernel.sums({"a": 1.0}, {"x": X[:3]}, 2)
    assert kernel.sums({"a": 2.0}, {"x": X[:3]}, 3) == pytest.approx(2 * X[:3].sum())


def test_without_llvmlite_everything_works(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "llvmlite" or ".llvm." in name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *arguments, **options)

    for module in (options, selection):
        monkeypatch.setattr(module, "has_compiler", lambda: False)
    monkeypatch.setattr(selection, "_MIN_WORK", 0)
    monkeypatch.setattr(builtins, "__import__", missing)
    assert ad.fit(MODEL, DATA).warnings == ad.fit(MODEL, DATA, backend="numpy").warnings
    assert "not installed" in run_cli("doctor")
    refused = run_cli(["train", MODEL, "-", "--backend", "llvm"], "x,y\n1,2\n2,3\n3,4\n")
    assert refused.status == 2
    assert "llvmlite" in refused.stderr


def test_without_the_library_of_vectors_numbers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTODIFF_CACHE", "off")
    graphs = RowGraphs([read("exp(x) + sin(x)*tanh(x) + log(1 + x) + x^2.5").output], {"x"})
    usual = LlvmBackend(1).sum_kernel(graphs).sums({}, {"x": X}, len(X))
    monkeypatch.setattr(machine_code, "_has_vector_library", lambda: False)
    np.testing.assert_allclose(LlvmBackend(1).sum_kernel(graphs).sums({}, {"x": X}, len(X)), usual, rtol=1e-14)
    assert "number by number" in run_cli("doctor")
