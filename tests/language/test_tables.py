"""The grammar is found in every installation, and its tables are cached."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import autodiff_cli
from autodiff_cli.language import parser as tables
from autodiff_cli.language.program import read
from autodiff_cli.system import load
from tests.language.compare import identical

PACKAGE = Path(autodiff_cli.__file__).parent
TEXTS = ["0 < x <= 1 and not y or z", "a = -x^2 + y[0]; f(t) = max(t, 2); f(a) - 1"]


@pytest.fixture(autouse=True)
def _fresh_tables() -> Iterator[None]:
    tables.grammar_tables.cache_clear()
    yield
    tables.grammar_tables.cache_clear()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of a user who has not used the program yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("AUTODIFF_CACHE", raising=False)
    return tmp_path / "autodiff"


def kept(home: Path) -> list[Path]:
    return list(home.iterdir()) if home.exists() else []


def run(code: str, path: Path | None = None, **environment: str) -> str:
    """What a Python program prints, with the package from `path`."""
    variables = {**os.environ, "PYTHONPATH": str(path or PACKAGE.parent), **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=path, env=variables, capture_output=True, text=True, check=True
    )
    assert not done.stderr
    return done.stdout.strip()


def test_a_checkout_has_the_grammar_beside_the_package() -> None:
    assert tables.grammar_path() == PACKAGE.parent / "grammars" / "expression.lark"


@pytest.mark.slow
def test_an_installed_package_has_the_grammar_inside(tmp_path: Path) -> None:
    installed = tmp_path / "autodiff_cli"
    shutil.copytree(PACKAGE, installed)
    shutil.copytree(PACKAGE.parent / "grammars", installed / "grammars")
    code = "from autodiff_cli.language import parser, program; program.read('x'); print(parser.grammar_path())"
    assert run(code, tmp_path, AUTODIFF_CACHE="off") == str(installed / "grammars" / "expression.lark")


@pytest.mark.slow
def test_lark_is_loaded_only_where_there_are_no_tables_yet(tmp_path: Path) -> None:
    code = "import sys; from autodiff_cli.language.program import read; read('x + 1'); print('lark' in sys.modules)"
    assert run(code, XDG_CACHE_HOME=str(tmp_path), AUTODIFF_CACHE="") == "True"
    assert run(code, XDG_CACHE_HOME=str(tmp_path), AUTODIFF_CACHE="") == "False"


def test_tables_are_cached_privately_and_reused(home: Path) -> None:
    read("x + 1")
    (entry,) = kept(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    written = entry.read_bytes()
    tables.grammar_tables.cache_clear()
    assert list(read("x + y < z < 2").leaves) == ["x", "y", "z"]
    assert kept(home) == [entry]
    assert entry.read_bytes() == written


def test_texts_can_be_read_in_several_threads() -> None:
    texts = [f"a{i} = x{i} + 1; a{i}*y" for i in range(200)]
    with ThreadPoolExecutor(4) as pool:
        programs = list(pool.map(read, texts))
    assert [list(program.leaves) for program in programs] == [[f"x{i}", "y"] for i in range(200)]


@pytest.mark.slow
def test_with_a_flipped_bit_the_tables_are_built_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tables._build_tables(tables.grammar_path().read_text(encoding="utf-8"))
    buildings: list[str] = []
    monkeypatch.setattr(tables, "_build_tables", lambda grammar: buildings.append(grammar) or made)
    right = [read(text).output for text in TEXTS]
    (entry,) = kept(home)
    whole = entry.read_bytes()
    bits = range(0, 8 * len(whole), 997)
    for bit in bits:
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        entry.write_bytes(damaged)
        tables.grammar_tables.cache_clear()
        assert all(identical(read(text).output, output) for text, output in zip(TEXTS, right, strict=True))
        assert entry.read_bytes() == whole
    assert len(buildings) == 1 + len(bits)


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"{}" * 10_000])
def test_what_is_no_table_is_built_again(home: Path, damage: bytes) -> None:
    read("x")
    (entry,) = kept(home)
    entry.write_bytes(damage)
    tables.grammar_tables.cache_clear()
    assert list(read("x").leaves) == ["x"]
    assert load(entry.name) is not None


def test_a_pipe_in_the_place_of_the_tables_keeps_nobody_waiting(home: Path) -> None:
    read("x")
    (entry,) = kept(home)
    entry.unlink()
    os.mkfifo(entry)
    tables.grammar_tables.cache_clear()
    assert list(read("x").leaves) == ["x"]


def test_off_writes_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTODIFF_CACHE", "off")
    read("x")
    assert not home.exists()


def test_a_cache_that_cannot_be_written_is_no_cache(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    home.parent.chmod(0o700)
    home.write_text("a file where the folder should be")
    assert list(read("x").leaves) == ["x"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("home")
def test_a_full_disk_is_no_obstacle(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    assert list(read("x").leaves) == ["x"]
    assert capfd.readouterr() == ("", "")
