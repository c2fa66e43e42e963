"""Cached machine code: only code that this user stored is run, and unusable entries are compiled again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autodiff_cli.backends.llvm.backend import LlvmBackend
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.language.program import read
from autodiff_cli.numbers import machine_code

X = np.arange(20.0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("AUTODIFF_CACHE", raising=False)
    return tmp_path / "autodiff"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that have been compiled, not loaded."""
    texts: list[str] = []
    parsed = machine_code.parse_assembly

    def recorded(text: str) -> object:
        texts.append(text)
        return parsed(text)

    monkeypatch.setattr(machine_code, "parse_assembly", recorded)
    return texts


def run(text: str = "3*x + a") -> float:
    graphs = RowGraphs([read(text).output], {"x"})
    (found,) = LlvmBackend(1).sum_kernel(graphs).sums({"a": 1.0}, {"x": X}, len(X))
    return float(found)


WANTED = 3 * float(X.sum()) + len(X)


def test_code_is_compiled_once_for_all_processes(folder: Path, compiled: list[str]) -> None:
    assert [run(), run(), run("3*x - a")] == [WANTED, WANTED, WANTED - 2 * len(X)]
    assert len(compiled) == 2
    assert len([*folder.glob("kernel-*")]) == 2


def _cut(entry: Path) -> None:
    entry.write_bytes(entry.read_bytes()[:-100])


def _changed(entry: Path) -> None:
    content = bytearray(entry.read_bytes())
    content[len(content) // 2] ^= 1
    entry.write_bytes(content)


def _of_another_graph(entry: Path) -> None:
    run("5*x + a")
    (other,) = {*entry.parent.iterdir()} - {entry}
    other.replace(entry)


SPOILS: list[Callable[[Path], None]] = [
    _cut,
    _changed,
    _of_another_graph,
    lambda entry: entry.write_bytes(b""),
    lambda entry: entry.chmod(0o620),
    lambda entry: entry.chmod(0o602),
]


@pytest.mark.parametrize("spoil", SPOILS)
def test_what_is_not_as_it_was_stored_is_made_again(
    folder: Path, compiled: list[str], spoil: Callable[[Path], None]
) -> None:
    run()
    (entry,) = folder.glob("kernel-*")
    spoil(entry)
    compiled.clear()
    assert [run(), len(compiled)] == [WANTED, 1]
    assert [run(), len(compiled)] == [WANTED, 1]  # and kept again


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners here")
def test_another_users_code_is_never_run(folder: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    kept = {entry: entry.read_bytes() for entry in folder.glob("kernel-*")}
    compiled.clear()
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    assert [run(), len(compiled)] == [WANTED, 1]
    assert {entry: entry.read_bytes() for entry in folder.glob("kernel-*")} == kept  # nor written over


def test_a_folder_that_others_can_write_to_is_not_used(folder: Path, compiled: list[str]) -> None:
    run()
    folder.chmod(0o777)
    compiled.clear()
    assert [run(), run(), len(compiled)] == [WANTED, WANTED, 2]


def test_nothing_is_written_when_the_cache_is_off(
    tmp_path: Path, folder: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTODIFF_CACHE", "off")
    assert [run(), run(), len(compiled)] == [WANTED, WANTED, 2]
    assert [*tmp_path.iterdir()] == []
    assert not folder.exists()
