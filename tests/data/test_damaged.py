"""Damaged files of data: what is read is a table, or a reason that names the file; never anything else."""

from __future__ import annotations

import csv
import gzip
import io
import math
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyarrow import parquet

from autodiff_cli.data.files import DataFile
from autodiff_cli.data.table import DataError
from tests.support import SETS, run_cli

ROWS = "x,y,note\n" + "".join(f'{k},{math.sin(k)},"row {k}, of é"\n' for k in range(40))
STRANGE = [
    b'"',
    b",",
    b"\n",
    b"\r",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"1e999",
    b"nan",
    b"\x1f\x8b",
    b"PAR1",
    b";",
    b"\t",
    b"",
]


def as_parquet(compression: str) -> bytes:
    rows = [*csv.DictReader(io.StringIO(ROWS))]
    columns = {"x": [int(row["x"]) for row in rows], "y": [float(row["y"]) for row in rows]}
    stream = io.BytesIO()
    parquet.write_table(pa.table({**columns, "note": [row["note"] for row in rows]}), stream, compression=compression)
    return stream.getvalue()


WHOLE = {
    "csv": ROWS.encode(),
    "tsv": ROWS.replace(",", "\t").encode(),
    "gzip": gzip.compress(ROWS.encode(), mtime=0),
    "parquet": as_parquet("none"),
    "snappy": as_parquet("snappy"),
    "iris": (SETS / "iris.csv").read_bytes(),
}


def damaged(content: bytes, chance: Random) -> bytes:
    """The content with a few bits, bytes or stretches changed, or cut short."""
    found = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(found) + 1)
        match chance.randrange(4):
            case 0 if place < len(found):
                found[place] ^= 1 << chance.randrange(8)
            case 1:
                found[place : place + chance.randint(0, 3)] = chance.choice(STRANGE)
            case 2:
                start = chance.randrange(len(found) + 1)
                found[place:place] = found[start : start + chance.randint(1, 60)]
            case _ if chance.random() < 0.3:
                del found[place:]
    return bytes(found)


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(1000, 3000), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("kind", WHOLE)
def test_a_damaged_file_is_read_or_refused_by_name(kind: str, seeds: range, tmp_path: Path) -> None:
    path = tmp_path / "data"
    for seed in seeds:
        path.write_bytes(damaged(WHOLE[kind], Random(seed)))
        try:
            file = DataFile(str(path))
            file.load([name for name in file.names if name in ("x", "y", "petal_length")], drop_missing=seed % 2 == 0)
        except DataError as error:
            assert str(path) in str(error), seed  # noqa: PT017 - it may be read


@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(1000, 1300), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("kind", ["csv", "gzip", "parquet", "snappy"])
def test_commands_answer_or_say_what_is_wrong(kind: str, seeds: range, tmp_path: Path) -> None:
    path, model, whole = tmp_path / "data", tmp_path / "model.json", tmp_path / "whole.csv"
    whole.write_text(ROWS)
    assert run_cli(["train", "y ~ a*sin(x) + b", str(whole), "--save", str(model), "--json"]).status == 0
    for seed in seeds:
        path.write_bytes(damaged(WHOLE[kind], Random(seed)))
        for line in (["predict", str(model), str(path)], ["grad", "x^2", "--at", str(path)]):
            output = run_cli(line)
            assert output.status in (0, 2), (seed, line)
            if output.status == 2:
                assert output == ""
                assert "error: " in output.stderr
