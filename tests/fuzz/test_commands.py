"""Command lines of fixed seeds end well. `python -m tests.fuzz.commands` looks at others, as long as wished."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.fuzz.commands import command_line, trouble, write_files


@pytest.mark.sampled
@pytest.mark.parametrize(
    "seeds", [pytest.param(range(40), id="quick"), pytest.param(range(40, 600), id="long", marks=pytest.mark.slow)]
)
def test_command_lines_end_with_a_status_and_a_message(
    seeds: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files()
    found = {shlex.join(words): trouble(words) for words in map(command_line, seeds)}
    assert {line: why for line, why in found.items() if why} == {}
