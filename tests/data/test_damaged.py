"""Damaged data files: reading one gives either a table or an error that names the file."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import math
import sys
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.main import run
from autodiff_cli.data import formats, source
from autodiff_cli.data.batches import ColumnQuery
from autodiff_cli.data.files import DataFile, DataSource, open_data
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


def as_workbook(rows: int = 20, *, far_cell: bool = False) -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    book, stream = openpyxl.Workbook(), io.BytesIO()
    for row in itertools.islice(csv.reader(io.StringIO(ROWS)), rows):
        book.active.append(row)
    if far_cell:
        book.active.cell(rows, 16_384, "far")
    book.save(stream)
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
    """Return the content with some bits, bytes or ranges changed, or truncated."""
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


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(1000, 1600), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("kind", WHOLE)
def test_a_damaged_file_is_read_or_refused_by_name(kind: str, seeds: range, tmp_path: Path) -> None:
    path = tmp_path / "data"
    for seed in seeds:
        path.write_bytes(damaged(WHOLE[kind], Random(seed)))
        try:
            file = open_data([str(path)])
            file.load([name for name in file.names if name in ("x", "y", "petal_length")], drop_missing=seed % 2 == 0)
        except DataError as error:
            assert str(path) in str(error), seed  # noqa: PT017 - it may be read


@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(1000, 1100), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("kind", ["csv", "gzip", "parquet", "snappy"])
def test_commands_answer_or_explain_the_error(kind: str, seeds: range, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(1000, 1400), marks=pytest.mark.slow)], ids=str)
def test_a_damaged_workbook_is_read_or_refused(seeds: range, tmp_path: Path) -> None:
    path, whole = tmp_path / "book.xlsx", as_workbook()
    for seed in seeds:
        path.write_bytes(damaged(whole, Random(seed)))
        try:
            open_data([str(path)]).load([])
        except DataError as error:
            assert str(path) in str(error), seed  # noqa: PT017 - it may be read


# --- what would take all memory, all stack or for ever


def test_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, content = tmp_path / "bomb.xlsx", io.BytesIO(as_workbook())
    monkeypatch.setattr(formats, "_MAX_SHEET_CHARS", 1 << 18)
    with zipfile.ZipFile(content, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/media/nothing.bin", bytes(8 << 20))
    for bomb, message in ((content.getvalue(), "unpacks to"), (as_workbook(far_cell=True), "the sheet is longer than")):
        path.write_bytes(bomb)
        output = run_cli(["data", str(path)])
        assert (output.status, output) == (2, "")
        assert message in output.stderr


def test_a_workbook_may_be_longer_than_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, content = tmp_path / "book.xlsx", as_workbook()
    path.write_bytes(content)
    monkeypatch.setattr(formats, "_MAX_SHEET_CHARS", len(content))  # its text is shorter, and its XML longer
    assert run_cli(["data", str(path)]).status == 0
    monkeypatch.setattr(formats, "_MAX_UNPACKING", 0)
    assert "unpacks to" in run_cli(["data", str(path)]).stderr


@pytest.mark.parametrize("kind", ["lz4", "uncompressed"])
@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(1000, 1600), marks=pytest.mark.slow)], ids=str)
def test_a_damaged_file_of_arrow_is_read_or_refused(kind: Any, seeds: range, tmp_path: Path) -> None:
    """Arrow trusts text offsets unless they are validated; some of these files crashed the process."""
    stream, path = io.BytesIO(), tmp_path / "data"
    columns: dict[str, Any] = {"x": [float(k) for k in range(40)], "note": ["é" * (k % 3) for k in range(40)]}
    feather.write_feather(pa.table(columns), stream, compression=kind)
    for seed in seeds:
        path.write_bytes(damaged(stream.getvalue(), Random(seed)))
        try:
            file = open_data([str(path)])
            file.load([name for name in file.names if name == "x"])
            file.row(3, (), [name for name in file.names if name == "note"])
        except DataError as error:
            assert str(path) in str(error), seed  # noqa: PT017 - it may be read


@pytest.mark.slow
def test_a_line_without_an_end_is_refused_before_memory_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MAX_LINE_BYTES", 1 << 20)
    path = tmp_path / "bomb.csv.gz"
    for content in (
        bytes(3 << 20),
        b"x,y\n1," + b"1" * (3 << 20),
        b'x,y\n1,"' + b"1" * (3 << 20),
        b'{"x": "' + bytes(3 << 20),
    ):
        path.write_bytes(gzip.compress(content))
        for words in (["data"], ["train", "y ~ a*x"], ["grad", "x^2", "--at"]):
            output = run_cli([*words, str(path)])
            assert (output.status, output) == (2, "")
            assert "a line is longer than 1 MB, the maximum" in output.stderr
    path.write_bytes(b"x,y\n" + b"1,2\n" * (1 << 19))  # a long file of short lines
    assert open_data([str(path)]).load(["x", "y"]).rows == 1 << 19


def test_a_device_without_an_end_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_MEMORY_CHECK_BYTES", 1 << 16)
    with pytest.raises(DataError, match=r"^/dev/zero: this is an endless device, not a data file"):
        DataFile("/dev/zero")
    with pytest.raises(DataError, match="/dev/null: the file is empty"):
        DataFile("/dev/null")


@pytest.mark.parametrize("line", range(3))
def test_a_key_that_occurs_twice_in_an_object_is_refused_with_its_line(tmp_path: Path, line: int) -> None:
    """Whatever its values are, also where null stands for a missing cell."""
    path = tmp_path / "twice.jsonl"
    for first, second in [("1", "2"), ("null", '"a"'), ('"a"', "null"), ('{"b": 1}', "[3]")]:
        for twice in (
            f'"y": {first}, "y": {second}',
            f'"y": {first}, "\\u0079":{second}',
            f'"z": {{"y": 1, "y":{second}}}',
        ):
            lines = ['{"x": 1, "y": 2.5}', '{"x": null, "note": "is \\": 1"}', '{"y":3}']
            lines[line] = f'{{"x": 4, {twice}}}'
            path.write_text("\n".join(lines), encoding="utf-8")
            with pytest.raises(DataError, match=rf"twice\.jsonl: line {line + 1}: the key `y` occurs more than once"):
                open_data([str(path)]).load(["x"])


@pytest.mark.parametrize("opening", [b'{"x":', b'{"x":[', b'{"x":' + b"[" * 99])
def test_lines_of_json_that_are_nested_too_deeply_are_refused(opening: bytes, tmp_path: Path) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_bytes(b'{"x": 1}\n' + opening * 5_000 + b"\n")
    with pytest.raises(DataError, match=r"deep\.jsonl: line 2: nested more than 100 levels"):
        open_data([str(path)])
    path.write_bytes(b'{"x": 1, "note": "%s"}\n' % (b"[" * 5000) * 2)  # brackets inside a text do not nest
    assert open_data([str(path)]).load(["x"]).rows == 2


def test_the_first_line_that_is_nested_more_than_100_levels_is_named(tmp_path: Path) -> None:
    """Values beside each other, brackets in texts, and other lines do not count."""
    (tmp_path / "x.jsonl").write_bytes(b'{"x": 1}\n')
    (file,) = open_data([str(tmp_path / "x.jsonl")]).files
    assert isinstance(file.format, formats.JsonLines)
    random = Random(1)
    kinds = ['{"a": [], "b": {}, "c": ', "[[], ", "["]
    for before in range(60):
        lines, depths, some = [], random.choices([50, 99, 100, 101], k=3), random.choice([kinds, kinds[1:]])
        for depth in depths:
            openings = [*random.choices(some, k=depth - 1), "["]
            closings = ["}" if opening[0] == "{" else "]" for opening in reversed(openings)]
            lines.append("".join([*openings, random.choice(['"[{["', "0", r'"\"[["']), *closings]))
        content = "\n".join(lines).encode()
        if 101 not in depths:
            file.format._check_depth(content, before)
            continue
        with pytest.raises(DataError, match=f"line {before + depths.index(101) + 1}: nested more than 100 levels"):
            file.format._check_depth(content, before)


def test_moments_beyond_the_calendar_are_refused(tmp_path: Path) -> None:
    for type in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date64()):
        parquet.write_table(pa.table({"x": pa.array([1 << 62], pa.int64()).cast(type)}), tmp_path / "far.parquet")
        with pytest.raises(DataError, match=r"far\.parquet: "):
            open_data([str(tmp_path / "far.parquet")]).load(["x"])


# --- quotes that are never closed


@pytest.mark.parametrize("rows", [3, pytest.param(40_000, marks=pytest.mark.slow)], ids=["short", "long"])
@pytest.mark.parametrize("stream", [[], ["--stream"]], ids=["memory", "stream"])
def test_a_quote_that_is_never_closed_takes_no_rows_away(rows: int, stream: list[str], tmp_path: Path) -> None:
    """Otherwise the rest of the file would be one cell, possibly of a column that the model does not read."""
    path = tmp_path / "data.csv"
    lines = [f"{k},{2 * k},a\n" for k in range(rows)]
    path.write_text("x,y,note\n" + "".join(lines) + '7,14,"b\n' + "".join(lines))
    output = run_cli(["train", "y ~ a*x", str(path), *stream])
    assert (output.status, output) == (2, "")
    assert f"{path}: line {rows + 2}: a quote that opens in this row is never closed" in output.stderr
    path.write_text(
        "x,y,note\n" + "".join(lines) + '7,14,5" pipe\n' + "".join(lines)
    )  # an inch mark, not an opening quote
    assert run_cli(["train", "y ~ a*x", str(path), "--json", *stream]).json["rows"] == 2 * rows + 1


def test_quotes_among_the_names_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text('x,h 5",y\n1,2,3\n4,5,6\n')
    assert open_data([str(path)]).names == ("x", 'h 5"', "y")
    path.write_text('x,"h\n""5""",y\n1,2,3\n4,5,6\n')
    assert open_data([str(path)]).header == ("x", 'h\n"5"', "y")
    path.write_text('x,"y\n' + "1,2\n" * 200_000)  # must not take quadratic time
    with pytest.raises(DataError, match="line 1: a quote that opens in the header is never closed"):
        open_data([str(path)])


def test_lines_that_end_in_carriage_returns_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_bytes(b"x,y\r1,2\r3,4\r")
    with pytest.raises(DataError, match="a line ends in a carriage return alone; save the file with line feeds"):
        open_data([str(path)])


# --- many columns, long cells


@pytest.mark.slow
def test_a_table_of_very_many_columns_takes_no_square_of_them(tmp_path: Path) -> None:
    """Four times as many columns take four times as many calls of functions, and not sixteen times."""
    calls, totals = itertools.count(), [0]
    for count in (1_000, 4_000):
        path = tmp_path / f"{count}.csv"
        path.write_text("\n".join([",".join(f"c{k}" for k in range(count)), *[",".join(["1"] * count)] * 2]))
        sys.setprofile(lambda *_: next(calls))
        try:
            found = run_cli(["data", str(path), "--json"])
        finally:
            sys.setprofile(None)
        totals.append(next(calls))
        assert len(found.json["columns"]) == count
    assert totals[2] - totals[1] < 6 * totals[1]


def test_no_column_is_searched_for_among_all_others(tmp_path: Path) -> None:
    class NamesWithoutSearch(tuple[str, ...]):
        def __contains__(self, name: object) -> bool:
            raise AssertionError("a search through all names for each of them takes the square of their number")

    files = []
    for k, header in enumerate(("x,y", "x,z")):
        (tmp_path / f"{k}.csv").write_text(f"{header}\n1,2\n")
        files.append(DataFile(str(tmp_path / f"{k}.csv"), is_one_of_several=True))
        files[k].names = NamesWithoutSearch(files[k].names)
    opened = DataSource(files)
    assert opened.common_names == ["x"]
    assert [{*file.foreign_columns} for file in files] == [{"z"}, {"y"}]


def test_long_cells_are_shown_short(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text(f"x,{'n' * 5000}\n1,{'c' * 5000}\n2,d\n")
    assert max(map(len, run_cli(["data", str(path)]).splitlines())) < 400


def test_standard_input_of_any_format_has_points(tmp_path: Path) -> None:
    """Only delimited text can be read as it arrives; other formats are buffered first."""
    table, lines, streams = pa.table({"x": [1.0, 2.0]}), b'{"x": 1.0}\n{"x": 2.0}\n', [io.BytesIO(), io.BytesIO()]
    parquet.write_table(table, streams[0])
    feather.write_feather(table, streams[1])
    contents = [*(stream.getvalue() for stream in streams), lines, gzip.compress(lines), b"x\n1.0\n2.0\n"]
    for content in contents:
        path = tmp_path / "input"
        path.write_bytes(content)
        with path.open() as stdin:
            environment = Environment(stdin, io.StringIO(), io.StringIO())
            assert run(["grad", "x^2", "--at", "-"], environment) == 0
        assert environment.stdout.getvalue() == "x,value,d_x\n1.0,1,2\n2.0,4,4\n"  # type: ignore[attr-defined]


def test_names_that_no_file_can_have_are_reported(tmp_path: Path) -> None:
    for path, reason in ((str(tmp_path / ("a" * 5000)), "file name too long"), ("a\0b", "embedded null byte")):
        for words in (["train", "y ~ a*x", path], ["grad", "x", "--at", path]):
            output = run_cli(words)
            assert (output.status, output) == (2, "")
            assert reason in output.stderr


def test_a_number_beyond_all_floats_is_shown_short(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("x,y\n1," + "9" * 100_000 + "\n2,3\n")
    with pytest.raises(DataError, match=r"line 2, column `y`: 9{40} is too large for a float$"):
        open_data([str(path)]).load(["x", "y"])


@pytest.mark.parametrize(
    ("content", "description"),
    [
        (gzip.compress(b"x,y\n1,2\n", mtime=0), "a gzip file"),
        (b"PAR1 and more", "Parquet"),
        (b"ARROW1 and more", "Arrow"),
        (b"PK\x03\x04 and more", "a zip file"),
        (b"\x89PNG and more", "an image"),
        (b"SQLite format 3", "an SQLite database"),
    ],
)
def test_what_gzip_contains_is_named(content: bytes, description: str, tmp_path: Path) -> None:
    (tmp_path / "data.gz").write_bytes(gzip.compress(content))
    for words in ("data FILE", "train 'y ~ a*x' FILE", "grad x --at FILE"):
        refused = run_cli(words.replace("FILE", str(tmp_path / "data.gz")))
        assert (refused.status, refused) == (2, "")
        assert f"data.gz: gzip contains {description}" in refused.stderr
    (tmp_path / "more.gz").write_bytes(gzip.compress(b"x,y\n1,2\n") + b"more")
    assert "other bytes follow the compressed data" in run_cli(["data", str(tmp_path / "more.gz")]).stderr


ENCODED = "größe,όνομα,名\n1,αβγ,一\n2,д,Ā\n3,z,z\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_text_of_any_script_is_read_in_its_encoding(encoding: str) -> None:
    table = open_data(["-"], io.BytesIO(ENCODED.encode(encoding))).load(["größe"], labels=["όνομα", "名"])
    assert table.columns["größe"].tolist() == [1, 2, 3]
    assert [table.labels[name].values for name in ("όνομα", "名")] == [["αβγ", "д", "z"], ["一", "Ā", "z"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x,y\n1,2\n" + b"\0" * 100, "line 3: 1 cell, but the header has 2"),
        (b"x,y\n1,2\n\0\0\0\n3,4\n", "line 3: 1 cell, but the header has 2"),
        (b"x,y\n1,2\n3,4\0\n", 'line 3, column `y`: "4\0" is not a number'),
    ],
)
def test_nul_bytes_are_not_an_encoding(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        open_data(["-"], io.BytesIO(content)).load(["x", "y"])


def test_labels_with_nul_characters_are_refused() -> None:
    """NumPy drops them at the end of a text, so that different labels would be one."""
    column = open_data(["-"], io.BytesIO(b"y,g\n1,a\0\n2,a\n3,a\0\n")).load((), labels=["g"]).labels["g"]
    with pytest.raises(DataError, match=r"column `g`: 'a\\x00' has a NUL character"):
        column.levels("g")


def test_rows_are_numbered_through_all_batches_of_a_file(tmp_path: Path) -> None:
    y = [None if k == 2500 else float(k) for k in range(3000)]
    table = pa.table({"x": range(3000), "y": y})
    parquet.write_table(table, tmp_path / "d.parquet", row_group_size=1000)
    with pytest.raises(DataError, match=r"d\.parquet: row 2501, column `y`: nan"):
        open_data([str(tmp_path / "d.parquet")]).read(ColumnQuery(["x", "y"], batch_rows=1000))


def test_lines_of_json_are_numbered_through_all_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_JSON_BLOCK_BYTES", 100)
    lines = [f'{{"t": "2024-01-{1 + k % 28:02}", "y": {k}}}\n' for k in range(60)]
    for bad, words in (
        ('{"t": "soon", "y": 1}\n', "row 61"),
        ('{"t": "2024-01-01", "y": "a"}\n', "line 61, column `y`"),
    ):
        data = open_data(["-"], io.BytesIO("".join([*lines, bad]).encode()))
        with pytest.raises(DataError, match=words):
            data.load({"t", "y"})


@pytest.mark.parametrize("spool_to_disk", [False, True])
@pytest.mark.parametrize("start", [b"\0", b"x,y\n1,2\n"])
def test_a_pipe_of_one_endless_line_is_read_only_up_to_the_limit(
    monkeypatch: pytest.MonkeyPatch, spool_to_disk: bool, start: bytes
) -> None:
    monkeypatch.setattr(source, "MAX_LINE_BYTES", 1 << 22)
    pipe = source.ByteChunkStream(iter([start, *[bytes(1 << 16)] * 100]))
    with pytest.raises(OSError, match="a line is longer than 4 MB, the maximum"):
        source.read_all(io.BufferedReader(pipe), "standard input", spool_to_disk=spool_to_disk)


def test_a_pipe_goes_to_disk_when_it_has_filled_the_memory_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that other programs take meanwhile counts too."""
    monkeypatch.setattr(source, "_MEMORY_CHECK_BYTES", 1 << 21)
    free = iter([1 << 30, 1 << 30, 1 << 20])
    monkeypatch.setattr(source, "available_memory", lambda: next(free))
    lines = (b"1,2\n" * (1 << 18) for _ in range(12))
    content = source.read_all(io.BufferedReader(source.ByteChunkStream(lines)), "standard input")
    assert isinstance(content, source.TemporaryBytes)
    assert source.reopen(content).read() == b"1,2\n" * (12 << 18)


def test_a_device_is_no_model_file() -> None:
    output = run_cli(["predict", "/dev/zero", "-"])
    assert (output.status, output.stderr) == (2, "error: /dev/zero: a device, not a model file\n")
