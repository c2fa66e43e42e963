"""Where the grammar is found, and where its tables are kept."""

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
from autodiff_cli.language import parser
from autodiff_cli.language.lowering import read

PACKAGE = Path(autodiff_cli.__file__).parent


@pytest.fixture(autouse=True)
def _fresh_parser() -> Iterator[None]:
    parser._parser.cache_clear()
    yield
    parser._parser.cache_clear()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of a user who has not used the program yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("AUTODIFF_CACHE", raising=False)
    return tmp_path / "autodiff"


def tables(home: Path) -> list[Path]:
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
    assert parser.grammar_file() == PACKAGE.parent / "grammars" / "expression.lark"


def test_an_installed_package_has_the_grammar_inside(tmp_path: Path) -> None:
    installed = tmp_path / "autodiff_cli"
    shutil.copytree(PACKAGE, installed)
    shutil.copytree(PACKAGE.parent / "grammars", installed / "grammars")
    code = "from autodiff_cli.language import lowering, parser; lowering.read('x'); print(parser.grammar_file())"
    assert run(code, tmp_path, AUTODIFF_CACHE="off") == str(installed / "grammars" / "expression.lark")


def test_lark_is_loaded_when_a_text_is_read() -> None:
    code = "import sys; from autodiff_cli.language import lowering, printer; print('lark' in sys.modules)"
    assert run(code) == "False"


def test_tables_are_kept_privately_and_used_again(home: Path) -> None:
    read("x + 1")
    (kept,) = tables(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    written = kept.read_bytes()
    parser._parser.cache_clear()
    assert list(read("x + y < z < 2").leaves) == ["x", "y", "z"]
    assert tables(home) == [kept]
    assert kept.read_bytes() == written


def test_texts_can_be_read_in_several_threads() -> None:
    texts = [f"a{i} = x{i} + 1; a{i}*y" for i in range(200)]
    with ThreadPoolExecutor(4) as pool:
        programs = list(pool.map(read, texts))
    assert [list(program.leaves) for program in programs] == [[f"x{i}", "y"] for i in range(200)]


def test_damaged_tables_are_built_again(home: Path) -> None:
    read("x")
    (kept,) = tables(home)
    whole = kept.read_bytes()
    for damage in (b"", whole[:100], b"nonsense"):
        kept.write_bytes(damage)
        parser._parser.cache_clear()
        assert list(read("x").leaves) == ["x"]


def test_off_writes_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTODIFF_CACHE", "off")
    read("x")
    assert not home.exists()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702])
def test_a_folder_that_others_can_write_is_not_used(home: Path, mode: int) -> None:
    home.mkdir()
    home.chmod(mode)
    read("x")
    assert tables(home) == []


def test_a_folder_of_another_user_is_not_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: home.parent.stat().st_uid + 1)
    read("x")
    assert tables(home) == []


def test_a_link_to_a_folder_is_not_used(home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    home.symlink_to(tmp_path / "elsewhere")
    read("x")
    assert tables(tmp_path / "elsewhere") == []


def test_a_cache_that_cannot_be_written_is_no_cache(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    home.parent.chmod(0o700)
    home.write_text("a file where the folder should be")
    assert list(read("x").leaves) == ["x"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("home")
def test_a_full_disk_is_no_obstacle(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("lark.Lark.save", full)
    assert list(read("x").leaves) == ["x"]
    assert capfd.readouterr() == ("", "")
