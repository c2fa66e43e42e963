"""What the documentation shows is what the program does: every block is run and compared."""

from __future__ import annotations

import doctest
import os
import re
import shlex
from pathlib import Path

import pytest

from autodiff_cli.ops import function_names
from tests.support import run_cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def console_blocks(page: Path) -> list[tuple[str, str]]:
    """Each command of a page's ```console blocks, with the output shown under it."""
    found = []
    for block in re.findall(r"^ *```console\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.S | re.M):
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            found.append((command, shown.rstrip()))
    return found


COMMANDS = [(page, *block) for page in PAGES for block in console_blocks(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    results = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS, encoding="utf-8")
    assert results.failed == 0


@pytest.mark.parametrize(("page", "command", "shown"), COMMANDS, ids=[f"{p.name}: {c}" for p, c, _ in COMMANDS])
def test_commands_print_what_is_shown(page: Path, command: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = shlex.split(command)
    assert words[0] == "autodiff", f"{page.name} shows a command that is not ours"
    result = run_cli(words[1:])
    printed = "\n".join(line.rstrip() for line in (str(result) + result.stderr).rstrip().split("\n"))
    pattern = re.escape(shown).replace(re.escape("[...]"), ".*?")
    assert re.fullmatch(pattern, printed, re.S), printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert os.path.exists(page.parent / target), target


def test_every_function_is_in_the_language_page() -> None:
    text = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`([^`(]+)\(", text)) | set(re.findall(r"`([^` ]+)`", text))
    assert set(function_names()) <= listed
