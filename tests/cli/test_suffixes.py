"""Files hold what their suffix says, or are refused by name before anything is written."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import run_cli

_COMMANDS = (
    'trace "x^2 + y" --x 2 --y 3 -o FILE',
    "lesson slope -o FILE",
    "predict fit.json d.csv -o FILE",
    "predict fit.json --inverse x --y 3 --x 0..4 -o FILE",
    'train "y ~ a*x" d.csv -o FILE',
    'train "y ~ a*x" d.csv --by g -o FILE',
    'train "y ~ a*x" d.csv --page FILE',
    pytest.param('train "y ~ a*x" d.csv --posterior 20 --draws FILE', marks=pytest.mark.slow),
    pytest.param('train "y ~ a*x" d.csv --plot FILE', marks=pytest.mark.slow),
    'export "x^2 + y" -o FILE',
)


def _is_json(content: bytes) -> bool:
    try:
        return all(map(json.loads, content.decode().splitlines()))
    except ValueError:
        return False


def _is_table(delimiter: str) -> Callable[[bytes], bool]:
    def holds(content: bytes) -> bool:
        widths = {len(row) for row in csv.reader(io.StringIO(content.decode()), delimiter=delimiter)}
        return len(widths) == 1 and min(widths) > 1

    return holds


_FORMATS: dict[str, Callable[[bytes], bool]] = {
    ".json": _is_json,
    ".csv": _is_table(","),
    ".tsv": _is_table("\t"),
    ".html": lambda content: content.lower().startswith(b"<!doctype html>"),
    ".svg": lambda content: b"<svg" in content[:200],
    ".md": lambda content: content.startswith(b"|"),
    ".tex": lambda content: b"\\begin{" in content,
    ".pdf": lambda content: content.startswith(b"%PDF"),
    ".png": lambda content: content.startswith(b"\x89PNG"),
    ".parquet": lambda content: content.startswith(b"PAR1"),
    ".xlsx": lambda content: content.startswith(b"PK"),
    ".npz": lambda content: content.startswith(b"PK"),
    ".pkl": lambda content: content.startswith(b"\x80"),
}


@pytest.mark.parametrize("command", _COMMANDS)
def test_a_file_holds_what_its_suffix_says_or_is_refused(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.csv").write_text("x,y,g\n1,2,a\n2,4.1,a\n3,6.2,a\n1,3,b\n2,4,b\n3,5.2,b\n")
    run_cli('train "y ~ a*x" d.csv --save fit.json')
    for suffix, is_format in _FORMATS.items():
        file = Path(f"of{suffix if suffix > '.k' else suffix.upper()}")
        done = run_cli(command.replace("FILE", str(file)))
        if file.exists():
            assert done.status == 0, done.stderr
            assert is_format(file.read_bytes()), file.read_bytes()[:100]
        else:
            assert done.status == 2
            assert suffix in done.stderr.lower()
