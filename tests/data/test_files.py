"""Data files: every format gives the same columns, and every bad cell is reported by line, column and text."""

from __future__ import annotations

import functools
import gzip
import io
import itertools
import json
import os
import random
import re
import threading
from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv as arrow_csv
from pyarrow import feather, parquet

import autodiff_cli as ad
from autodiff_cli.data import formats
from autodiff_cli.data.dialect import FileOptions
from autodiff_cli.data.files import DataFile, DataSummary, open_data
from autodiff_cli.data.source import TemporaryBytes, reopen
from autodiff_cli.data.streaming import StreamedColumns
from autodiff_cli.data.table import DataError, MemoryDataset, Table
from autodiff_cli.options import OptionError
from tests.each import each, examples
from tests.support import expect_refusal, run_cli

pytestmark = pytest.mark.usefixtures("size")

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def load(content: bytes, wanted: Collection[str] = ("x", "y"), **options: Any) -> Table:
    return open_data(["-"], io.BytesIO(content)).load(wanted, **options)


def rows_of(table: Table) -> list[list[float]]:
    return [[float(column[i]) for column in table.columns.values()] for i in range(table.rows)]


def as_parquet(columns: dict[str, Any] | pa.Table) -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def as_arrow(columns: dict[str, Any] | pa.Table) -> bytes:
    buffer = io.BytesIO()
    feather.write_feather(pa.table(columns), buffer)
    return buffer.getvalue()


@each(
    "content",
    [
        b"x,y\n1,2\n3,4\n",
        b"x,y\n1,2\n3,4",
        b"x,y\r\n1,2\r\n3,4\r\n",
        b"\xef\xbb\xbfx,y\n1,2\n3,4\n",
        b'"x", y \n"1", 2\n3,"4"\n',
        b"\nx,y\n\n1,2\n\n3,4\n\n",
        b"x\ty\n1\t2\n3\t4\n",
        gzip.compress(b"x,y\n1,2\n3,4\n", mtime=0),
        gzip.compress(b"x\ty\n1\t2\n3\t4\n", mtime=0),
        as_parquet({"x": [1, 3], "y": [2.0, 4.0]}),
        b"x;y\n1;2\n3;4\n",
        b"x;y\n1,0;2\n3,0;4\n",
        b"x y\n1 2\n3 4\n",
        b"  x    y\n  1.0  2.0\n\t3.0\t 4.0  \n",
        b"# made by hand\n# at noon\nx,y\n1,2\n3,4\n",
        b"# a peak\n#---------\n# x    y\n 1.0  2.0\n 3.0  4.0\n",
        b'x,y\n"1","2"\n"3","4"\n',
        b'{"x": 1, "y": 2}\n{"y": 4.0, "x": 3}\n',
        gzip.compress(b'{"x": 1, "y": 2}\n{"y": 4.0, "x": 3}', mtime=0),
        as_arrow({"x": [1, 3], "y": [2.0, 4.0]}),
        b",x,y,,y 2\nrow,1,2,,a\nrow,3,4,,b\n",
        b'x,"note,\n""long""",y\n1,"a\nb",2\n3,"c,d",4\n',
        b"x,caf\xe9,y\n1,2,2\n3,4,4\n".replace(b"caf\xe9", "café".encode()),
        b"x,name,y\n1,caf\xe9,2\n3,b,4\n",
    ],
)
def test_every_form_of_the_same_data(content: bytes) -> None:
    assert rows_of(load(content)) == [[1, 2], [3, 4]]


def test_rows_that_are_left_out_are_counted_over_all_files(tmp_path: Path) -> None:
    paths = [tmp_path / f"{k}.csv" for k in range(3)]
    for path, cells in zip(paths, (["1,2", ",3"], ["4,", "5,6", "7,"], ["8,9"]), strict=True):
        path.write_text("\n".join(["x,y", *cells]))
    table = open_data([*map(str, paths)]).load(("x", "y"), drop_missing=True)
    assert (table.rows, table.dropped, rows_of(table)) == (3, 3, [[1, 2], [5, 6], [8, 9]])


@each(
    ("content", "message"),
    [
        (b"", "standard input: the file is empty"),
        (b"\n\n", "standard input: the file is empty"),
        (b"x,y\n", "standard input: there are no rows"),
        (b"1,2\n3,4\n", "standard input: the first line holds numbers, not column names"),
        (b"x,y\n1,\xff\n", 'line 2, column `y`: "ÿ" is not a number'),
        (b"x,y\n1,13/02/2024\n", 'line 2, column `y`: "13/02/2024" is not a number; if it is a date, .*--date-format'),
        (b'[{"x": 1, "y": 2}]', r"not a list of objects; `jq -c '\.\[\]' FILE > NEW\.jsonl` writes these"),
        (b'{"x": [1, 2], "y": [2, 4]}', "JSON data must have one object per line, with single values"),
        (b'{"x": 1}\n{"x": null}\n\n{"x": "2"}', 'line 4, column `x`: "2" is text, but the column holds a number'),
        (b'{"x": 1, "y": true}\n{"y": 0}', "line 2, column `y`: 0 is a number, but the column holds true or false"),
        (b"x,y,x\n1,2,3\n", "the header names the column `x` more than once"),
        (b"a,b\n1,2\n", r"the model uses none of its columns, which are a, b"),
        (b"x,y\n1,2\n3\n\n5,6,7\n", r"2 problems:\n  line 3: 1 cell, but .* 2\n  line 5: 3 cells, but .* 2$"),
        (b'x,y\n1,"a\nb"\n2,z\n', '2 problems:\n  line 2, column `y`: "a\nb" is not .*\n  line 4, column `y`: "z"'),
        (b"x,y\n1,1_0\n", 'line 2, column `y`: "1_0" is not a number'),
        (b"x,y\n1," + b"a" * 99 + b"\n", 'column `y`: "a{39}…" is not a number'),
        (b"x,y\n1,\nnan,2\n3,-inf\n", "3 problems:\n  line 2, .*y`: empty\n  line 3, .*x`: nan\n  line 4, .*y`: -inf"),
        (b"x,y\n" + b"a,1\n" * 8, r"8 problems:(\n  line \d, column `x`: \"a\" is not a number){5}\n  … and 3 more$"),
        (gzip.compress(b"x,y\n1,2\n", mtime=0)[:-9], r"standard input: line \d: Compressed file ended"),
        (as_parquet({"x": [1, None], "y": [1, 2]}), "row 2, column `x`: nan"),
        (as_parquet({"x": [1], "y": ["one"]}), "column `y` holds values of type string, not numbers"),
        (as_parquet({"x": [1], "y": [1]})[:-5], "Parquet"),
    ],
)
def test_what_cannot_be_used_is_named(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(content)


def test_missing_cells_can_be_left_out_but_not_text() -> None:
    cells = ("", " ", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "inf")
    content = b"x,y\n ,3\n5,6\n" + "".join(f"1,{cell}\n" for cell in cells).encode()
    table = load(content, drop_missing=True)
    assert (rows_of(table), table.dropped) == ([[5, 6]], 1 + len(cells))
    with pytest.raises(DataError) as missing:
        load(content)
    assert missing.value.missing
    with pytest.raises(DataError) as text:
        load(content + b"?,1\n", drop_missing=True)
    assert str(text.value).startswith('standard input: line 15, column `x`: "?" is not a number\nwrite numbers')
    assert not text.value.missing


def test_a_quote_far_down_changes_how_all_is_read() -> None:
    rows = 200_000
    lines = [f'{k},{2 * k},"a word,\nand ""more"""' if k == rows - 2 else f"{k},{2 * k},word" for k in range(rows)]
    table = load("\n".join(["x,y,text", *lines]).encode())
    assert table.rows == rows
    assert table.columns["y"].tolist() == [2 * k for k in range(rows)]


BEYOND_FLOATS = {
    b"x,t\n1e999,a\n0.5,b\n": "too large",
    b"x,t\n1e-400,a\n0.5,b\n": "too small",
    b'x,t\n1e999,"a"\n0.5,b\n': "too large",
    b'x,t\n1e-400,"a"\n0.5,b\n': "too small",
    b"x,t\n" + b"9" * 400 + b",a\n0.5,b\n": "too large",
    b'{"x": 1e999}\n{"x": 0.5}': "too large",
    b'{"x": 1e-400}\n{"x": 0.5}': "too small",
    b'{"x": 1' + b"0" * 400 + b'}\n{"x": 0.5}': "too large",
    b"x,t\ninf,1e999\n0.5,b\n": "",
    b'{"x": 0.0, "t": "1e-400"}\n{"x": 0.5, "t": null}': "",
    as_parquet({"x": [float("inf"), 0.5]}): "",
}


@each("content", [*BEYOND_FLOATS])
def test_numbers_beyond_all_floats_are_noted_in_every_format(content: bytes) -> None:
    data = open_data(["-"], io.BytesIO(content))
    values = data.load(["x"], drop_missing=True).columns["x"].tolist()
    size = BEYOND_FLOATS[content]
    assert values in ([0.5], [0.0, 0.5])
    assert [
        f"is {size} for a float and is read as {'inf' if values == [0.5] else '0'}" in note for note in data.notes
    ] == [True] * bool(size)


def test_missing_files_and_directories(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere.csv: no such file or directory"):
        DataFile(str(tmp_path / "nowhere.csv"))
    with pytest.raises(DataError, match="is a directory"):
        DataFile(str(tmp_path))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_files_beyond_the_first_three_are_counted_in_messages(count: int, tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{k}.csv") for k in range(count)]
    for path in paths:
        Path(path).write_text("x,y\n1,2\n")
    more = {4: " and 1 more file", 5: " and 2 more files"}.get(count, "")
    assert open_data(paths).name == ", ".join(paths[:3]) + more


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"x,y\n1,2\n",))
    writer.start()
    assert rows_of(open_data([str(path)]).load({"x", "y"})) == [[1, 2]]
    writer.join()


@examples(30)
@given(st.lists(st.tuples(FINITE, st.integers(-(10**15), 10**15)), min_size=1))
def test_numbers_are_read_as_they_were_written(rows: list[tuple[float, int]]) -> None:
    text = "x,y\n" + "\n".join(f"{x!r},{y}" for x, y in rows)
    assert rows_of(load(text.encode())) == [[x, y] for x, y in rows]


@examples(100)
@given(st.binary(max_size=60), st.sampled_from([b"", b"x,y\n", b"x\ty\n1\t", b"\x1f\x8b", b"PAR1"]))
def test_no_bytes_raise_anything_but_a_data_error(content: bytes, beginning: bytes) -> None:
    try:
        table = load(beginning + content)
    except DataError:
        return
    assert all(np.isfinite(column).all() for column in table.columns.values())


@each("write", [as_parquet, as_arrow])
def test_columns_of_arrow_keep_their_types_where_nothing_is_missing(write: Any) -> None:
    content = write(
        {
            "x": pa.array([0.5, 1.5, 2.5], pa.float32()),
            "y": pa.array([1, -2, 3], pa.int16()),
            "flag": pa.array([True, False, True]),
            "late": pa.array([1.0, None, 3.0], pa.float32()),
            "half": pa.array(np.array([1, 2, 3], np.float16)),
        }
    )
    columns = load(content, ["x", "y", "flag", "half"]).columns
    assert {name: str(column.dtype) for name, column in columns.items()} == {
        "x": "float32",
        "y": "int16",
        "flag": "int8",
        "half": "float64",
    }
    assert [column.tolist() for column in columns.values()] == [[0.5, 1.5, 2.5], [1, -2, 3], [1, 0, 1], [1, 2, 3]]
    kept = load(content, ["y", "late"], drop_missing=True)
    assert kept.columns["late"].tolist() == [1, 3]
    assert str(kept.columns["late"].dtype) == "float64"


def test_parts_of_a_parquet_file_are_put_together(tmp_path: Path) -> None:
    path = tmp_path / "parts.parquet"
    rows = 600_000
    table = pa.table({"x": np.arange(rows, dtype=np.int32), "y": np.arange(rows) / 8})
    parquet.write_table(table, path, row_group_size=100_003)
    columns = open_data([str(path)]).load(["x", "y"]).columns
    assert columns["x"].dtype == np.int32
    assert np.array_equal(columns["x"], np.arange(rows))
    assert np.array_equal(columns["y"], np.arange(rows) / 8)


def test_columns_of_types_as_text_are_written_as_python_writes_them() -> None:
    odd = [0.1, -0.0, 3.0, 1e300, 1e-5, 1e10, 123456.789, float("nan"), float("inf"), None, 1 / 3, -2.5]
    columns = {
        "x": odd,
        "y": pa.array(odd, pa.float32()),
        "k": [*range(-6, 5), None],
        "s": ["a", 'b "c"', "d,e", "", None, "é", "\n", " f ", "1", "nan", "g", "h"],
    }
    for content in (as_parquet(columns), as_arrow(columns)):
        file = DataFile("-", io.BytesIO(content))
        texts = [row for cells in file.format.iter_text_batches() for row in cells.rows()]
        assert texts == [record.cells for record in file.format.iter_records()]
        assert len(texts) == len(odd)


@each("cells", [["b", "a", "b"], ["07", "x", "07"], [2, -1, 2], [2.0, -1.0, 2.0], [True, False, True]])
def test_labels_are_the_same_from_memory_and_from_files(cells: list[Any]) -> None:
    labels = open_data(["-"], io.BytesIO(as_parquet({"k": cells}))).load((), labels=["k"]).labels["k"]
    in_memory = MemoryDataset({"k": cells}).load((), labels=["k"]).labels["k"]
    assert labels.levels("k")[labels.codes].tolist() == in_memory.levels("k")[in_memory.codes].tolist()


@pytest.mark.parametrize(
    ("words", "content", "message"),
    [
        (["train", "q^2", "FILE", "--no-columns"], "a\n1\n", "the model uses none of its columns, which are a"),
        (["train", "q^2", "FILE", "--no-columns", "--stream"], "a\n1\n", "the model uses none of its columns"),
        (["data", "FILE"], ",\n1,2\n", "the columns have no names"),
    ],
)
def test_data_without_a_column_to_read_are_refused(
    words: list[str], content: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "data.csv"
    path.write_text(content)
    result = run_cli([str(path) if word == "FILE" else word for word in words])
    assert result.status == 2
    assert message in result.stderr


def test_options_of_files_in_python_and_for_points(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("made in May\nx;g\nm;-\n1,5;a\n2,5;b\n3,5;b\n")
    data = ad.read_data(path, skip=1, units_row=True, where="g == 'b'")
    assert ad.fit("x ~ a", data, no_columns=True).parameters["a"] == pytest.approx(3)
    with pytest.raises(OptionError, match="skip"):
        ad.read_data(path, skip=-1)
    with pytest.raises(ad.DataError, match="there is no file to read"):
        ad.read_data([])
    options = ["--skip", "1", "--units-row", "--where", "g == 'b' and x < 3"]
    assert str(run_cli(["grad", "x^2", "--at", str(path), *options])).splitlines()[1:] == ["2.5,b,6.25,5"]
    expect_refusal(run_cli(["grad", "x^2", "--x", "2", "--skip", "1"]), "--skip needs --at FILE")


# --- labels and times, in every format


MOMENTS = st.lists(
    st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1)).map(lambda t: t.replace(microsecond=0, second=0))
    | st.dates(date(1980, 1, 1), date(2100, 1, 1)).map(lambda day: datetime(day.year, day.month, day.day)),
    min_size=1,
    max_size=6,
)


@given(MOMENTS)
def test_times_are_the_same_labels_in_every_format(moments: list[datetime]) -> None:
    words = [str(moment).removesuffix(" 00:00:00") for moment in moments]
    text = "x,t\n" + "".join(f"{k},{word}\n" for k, word in enumerate(words))
    lines = "".join(f'{{"x": {k}, "t": "{word}"}}\n' for k, word in enumerate(words))
    columns = {"x": [*range(len(words))], "t": moments}
    coded = {"x": columns["x"], "t": pa.array(moments).dictionary_encode()}
    for content in (text.encode(), lines.encode(), as_parquet(columns), as_arrow(columns), as_arrow(coded)):
        labels = load(content, ["x"], labels=["t"]).labels["t"]
        assert [labels.values[code] for code in labels.codes] == words


NOTATIONS: dict[str, list[str]] = {
    "2024-01-02 03:04:05": ["2024-01-02T03:04:05", "2024-01-02 03:04:05.000000", " 2024-01-02T03:04:05.000"],
    "2024-01-03": ["2024-01-03 00:00:00", "2024-01-03T00:00:00.000000", "2024-01-03T00:00"],
    "2024-01-02 03:04:05+00:00": ["2024-01-02T03:04:05Z", "2024-01-02 03:04:05.000000+0000"],
    "2024-01-02 03:04:05.120000": ["2024-01-02T03:04:05.12", "2024-01-02 03:04:05.120000000"],
    "2024-01-02 03:04:05.123456789": [],  # more digits than times have
    "03:04:05": ["3:04:05", "03:04:05.000000"],
    "00:00:00": ["0:00:00"],
    "1:10": ["1:10"],
    "true": ["True", "TRUE"],
    "false": ["False", "FALSE "],
    "yes": [],
    "2024-01-32": [],
    "1:2:3": [],
}


def test_a_label_is_the_same_in_every_notation() -> None:
    cells = [cell for label, others in NOTATIONS.items() for cell in (label, *others)]
    expected = [label for label, others in NOTATIONS.items() for _ in (label, *others)]
    text = "x,k\n" + "".join(f"1,{cell}\n" for cell in cells)
    for content in (text.encode(), as_parquet({"k": cells}), as_arrow({"k": cells})):
        labels = load(content, (), labels=["k"]).labels["k"]
        assert [labels.values[code] for code in labels.codes] == expected
    in_memory = MemoryDataset({"k": cells}).load((), labels=["k"]).labels["k"]
    assert [in_memory.values[code] for code in in_memory.codes] == expected
    for written, day in (("31/01/2024", "2024-01-31"), ("2024-01-31", "2024-01-31")):
        data = open_data(
            ["-"], io.BytesIO(f"x,k\n1,{written}\n".encode()), options=FileOptions(date_format="DD/MM/YYYY")
        )
        assert data.load((), labels=["k"]).labels["k"].values == [day]


LABEL_COLUMNS: dict[str, list[Any]] = {
    "times": [datetime(2024, 1, 2, 3, 4, 5), datetime(2024, 1, 3), datetime(2024, 1, 2, 3, 4, 5, 500_000)],
    "zoned": [datetime(2024, 1, 2, hour, tzinfo=UTC) for hour in (0, 1, 2)],
    "days": [date(2024, 1, 2), date(2024, 1, 3), date(2024, 1, 4)],
    "times of day": [time(3, 4, 5), time(0), time(12, 0, 0, 500_000)],
    "truth": [True, False, True],
    "integers": [7, -3, 2**53 + 1],
    "whole floats": [7.0, -3.0, 2.0],
    "text": ["a", "b ", "07"],
}


@pytest.mark.parametrize("name", [*LABEL_COLUMNS])
def test_a_fit_to_one_format_predicts_from_every_other(name: str, tmp_path: Path) -> None:
    """Text files as pandas, polars and Arrow write them: with other texts for times and truth values."""
    pl, _ = (pytest.importorskip(name) for name in ("polars", "pandas"))
    table = pa.table({"y": [1.0, 2, 3] * 2, "k": LABEL_COLUMNS[name] * 2})
    frame, arrow_text = pl.from_arrow(table), io.BytesIO()
    arrow_csv.write_csv(table, arrow_text)
    contents = {
        "a.parquet": as_parquet(table),
        "a.arrow": as_arrow(table),
        "pandas.csv": table.to_pandas().to_csv(index=False).encode(),
        "polars.csv": frame.write_csv().encode(),
        "arrow.csv": arrow_text.getvalue(),
        "pandas.jsonl": table.to_pandas().to_json(orient="records", lines=True, date_format="iso").encode(),
    }
    (tmp_path / "files").mkdir()
    for file, content in contents.items():
        (tmp_path / "files" / file).write_bytes(content)
    paths = [str(tmp_path / "files" / file) for file in contents]
    sources = [*paths, {"y": table["y"], "k": table["k"]}, table.to_pandas(), frame, table.to_pydict()]
    fits = [ad.fit("y ~ a[k]", source) for source in sources]
    assert len({tuple(fit.parameters.items()) for fit in fits}) == 1
    together = ad.fit("y ~ a[k]", str(tmp_path / "files"))
    assert {*together.parameters} == {*fits[0].parameters}
    assert together.parameters == pytest.approx(fits[0].parameters)
    fits[0].save(tmp_path / "model.json")
    expected = fits[0].predict(table).tolist()
    for source in sources[len(paths) :]:
        assert fits[0].predict(source).tolist() == expected
    for path in paths:
        rows = run_cli(["predict", str(tmp_path / "model.json"), path]).splitlines()[1:]
        assert [float(row.rpartition(",")[2]) for row in rows] == expected


@given(st.lists(st.sampled_from(["1", "1.0", "2", "2.00", "2.5", "2.50", "1234.5", "A"]), min_size=1, max_size=6))
def test_numbers_with_decimal_commas_are_the_labels_that_they_are_with_points(cells: list[str]) -> None:
    """`0,5` and `0,50` were two groups, and the levels of `1,0` and `1` had a parameter each."""
    points = "k,y\n" + "".join(f"{cell},0.5\n" for cell in cells)
    separated = ["1.234,5" if cell == "1234.5" else cell.replace(".", ",") for cell in cells]
    commas = "k;y\n" + "".join(f"{cell};0,5\n" for cell in separated)
    expected, found = (load(text.encode(), (), labels=["k"]).labels["k"] for text in (points, commas))
    assert [found.values[code] for code in found.codes] == [expected.values[code] for code in expected.codes]


def test_a_label_given_as_an_option_is_never_taken_for_a_number_with_a_comma(tmp_path: Path) -> None:
    (tmp_path / "data.parquet").write_bytes(as_parquet({"g": ["1,5", "a;b"], "y": [1.0, 2.0]}))
    ad.fit("y ~ a[g]", str(tmp_path / "data.parquet")).save(tmp_path / "model.json")
    for label, value in (("1,5", 1), ("a;b", 2)):
        assert f",{value}\n" in run_cli(["predict", str(tmp_path / "model.json"), "--g", label]).replace('"', "")


def test_labels_of_a_prediction_are_those_of_the_fit(tmp_path: Path) -> None:
    """A file with some of the labels may look like one of numbers."""
    (tmp_path / "data.csv").write_text("g,y\n07,1\n7,5\nx,9\n07,1\n7,5\nx,9\n")
    fit = ad.fit("y ~ a[g]", str(tmp_path / "data.csv"))
    fit.save(tmp_path / "model.json")
    for cells in (["07"], ["7"], ["7", "07"], ["x", "7", "07"]):
        (tmp_path / "new.csv").write_text("g\n" + "".join(f"{cell}\n" for cell in cells))
        rows = run_cli(["predict", str(tmp_path / "model.json"), str(tmp_path / "new.csv")]).splitlines()
        assert rows[1:] == [f"{cell},{fit.parameters[f'a[{cell}]']:g}" for cell in cells]
        for k, cell in enumerate(cells, 1):
            words = ["trace", str(tmp_path / "model.json"), str(tmp_path / "data.csv"), "--row", str(k)]
            assert f"(`g` == '{cell}') = 1" in run_cli(words) or cell != ["07", "7", "x"][k - 1]
    (tmp_path / "numbers.csv").write_text("g,y\n07,1\n08,5\n07,1\n8,5\n")
    for text in ("07", "7"):
        numbers = ad.fit(f"y ~ where(g == '{text}', a, b)", str(tmp_path / "numbers.csv"))
        assert numbers.parameters == pytest.approx({"a": 1, "b": 5})
    fit = ad.fit("y ~ a[g]", str(tmp_path / "numbers.csv"))
    assert [*fit.parameters] == ["a[7]", "a[8]"]
    assert fit.predict({"g": ["08", "7"]}).tolist() == pytest.approx([5, 1])
    with pytest.raises(DataError, match="not fitted with the level `9`"):
        fit.predict({"g": ["08", "9"]})


def test_truth_values_are_labels_and_numbers(tmp_path: Path) -> None:
    for content in (b"y,b\n1,True\n2,False\n3,True\n", as_parquet({"y": [1, 2, 3], "b": [True, False, True]})):
        (tmp_path / "data").write_bytes(content)
        assert ad.fit("y ~ a[b]", str(tmp_path / "data")).parameters == pytest.approx({"a[false]": 2, "a[true]": 2})
        both = ad.fit("y ~ a[b] + c*b", str(tmp_path / "data"), fixed={"a[false]": 0, "a[true]": 0})
        assert both.parameters == pytest.approx({"c": 2})


def test_types_of_columns_are_the_same_in_all_formats(tmp_path: Path) -> None:
    table = pa.table({"b": [True, False], "n": [1, 2], "x": [1.5, 2], "t": [date(2024, 1, 2), date(2024, 1, 3)]})
    text = b"b,n,x,t\ntrue,1,1.5,2024-01-02\nfalse,2,2,2024-01-03\n"
    lines = b'{"b": true, "n": 1, "x": 1.5, "t": "2024-01-02"}\n{"b": false, "n": 2, "x": 2, "t": "2024-01-03"}\n'
    for content in (text, lines, as_parquet(table), as_arrow(table)):
        (tmp_path / "data").write_bytes(content)
        columns = json.loads(run_cli(["data", str(tmp_path / "data"), "--json"]))["columns"]
        assert [each["type"] for each in columns] == ["yes or no", "whole number", "number", "date or time"]


def test_floats_of_any_size_are_the_same_labels() -> None:
    numbers = [0.1, 1e-7, 2.5, 1e10]
    contents = [as_parquet({"k": pa.array(numbers, kind)}) for kind in (pa.float32(), pa.float64())]
    for content in (*contents, b"k\n" + b"".join(b"%r\n" % number for number in numbers)):
        assert load(content, (), labels=["k"]).labels["k"].values == numbers
    single = MemoryDataset({"k": np.array(numbers, np.float32)}).load((), labels=["k"]).labels["k"]
    assert [single.values[code] for code in single.codes] == numbers
    pair = as_parquet({"k": ["0.50", "0.5", "2.0", "x"], "g": [1, 1, 1, 1]})
    assert load(pair, (), labels=["k, g"]).labels["k, g"].values == ["0.50, 1", "0.5, 1", "2.0, 1", "x, 1"]


def test_whole_numbers_that_floats_cannot_tell_apart_are_no_labels() -> None:
    """Lines of JSON have floats in place of integers beyond 64 bits; text keeps all digits."""
    huge = [2**63 + 1, 2**63 + 2]
    column = load("".join(f'{{"k": {number}}}\n' for number in huge).encode(), (), labels=["k"]).labels["k"]
    for are_whole in (True, False):
        with pytest.raises(DataError, match="a label must be a whole number below"):
            column.levels("k", are_whole=are_whole)
    text = load("".join(f"{number}\n" for number in ["k", *huge]).encode(), (), labels=["k"]).labels["k"]
    assert text.levels("k", are_whole=False).tolist() == [*map(str, huge)]


@pytest.mark.parametrize("number", [2**63 - 1, 1 - 2**63, 2**53 + 1, -1])
def test_whole_numbers_below_2_to_the_63_keep_their_digits_in_lines_of_json(number: int) -> None:
    """Also where a cell is missing, for which lines are read one by one."""
    content = f'{{"k": {number}, "x": 1}}\n{{"k": 5, "x": null}}\n'.encode()
    assert load(content, (), labels=["k"]).labels["k"].values == [number, 5]
    assert formats._whole_number(str(number)) == number


@pytest.mark.parametrize("others", [[], ["e"], ["e", "f"]])
def test_files_with_the_same_name_in_two_folders_have_different_labels(others: list[str], tmp_path: Path) -> None:
    paths = [
        tmp_path / folder / f"{name}.csv" for folder, name in (("a", "d"), ("b", "d"), *(("a", x) for x in others))
    ]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text("x\n1\n")
    labels = [file.label for file in open_data([*map(str, paths)]).files]
    assert len({*labels}) == len(paths)
    assert [file.label for file in open_data([*map(str, paths[1:])]).files] == [path.name for path in paths[1:]]


@given(
    st.lists(
        st.decimals(allow_nan=False, allow_infinity=False, places=7, min_value=-(10**9), max_value=10**9), min_size=1
    )
)
def test_decimals_are_rounded_to_the_nearest_float(numbers: list[Decimal]) -> None:
    kinds = (pa.decimal128(38, 7), pa.decimal128(38, 20), pa.decimal256(76, 40))
    columns = {f"x{k}": pa.array(numbers, kind) for k, kind in enumerate(kinds)}
    table = load(as_parquet({**columns, "codes": columns["x0"].dictionary_encode()}), [*columns, "codes"])
    assert all(column.tolist() == [*map(float, numbers)] for column in table.columns.values())


def test_bytes_are_text_if_they_are_utf8() -> None:
    content = as_parquet({"k": ["é".encode(), b"b"], "x": [1, 2], "y": [1, 2]})
    assert load(content, (), labels=["k"]).labels["k"].values == ["é", "b"]
    labels = load(as_parquet({"k": [b"\xff", b"b"]}), (), labels=["k"]).labels["k"]
    with pytest.raises(DataError, match=r"column `k`: '\\udcff' is not Unicode text"):
        labels.levels("k")


OTHER_COLUMNS: dict[str, pa.Array] = {
    "integers": pa.array([1, 2, 1]).dictionary_encode(),
    "floats": pa.array([0.5, 2, 0.5]).dictionary_encode(),
    "dates": pa.array([date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 1)]).dictionary_encode(),
    "truth": pa.array([True, False, True]).dictionary_encode(),
    "views": pa.array(["u", "v", "u"], pa.string_view()),
    "lists": pa.array([[1], [2], [1]]),
    "structs": pa.array([{"a": 1}, {"a": 2}, {"a": 1}]),
}


@pytest.mark.parametrize("name", [*OTHER_COLUMNS])
def test_columns_of_any_type_are_described_compared_and_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "data.arrow"
    feather.write_feather(pa.table({"y": [1.0, 2, 3], "c": OTHER_COLUMNS[name]}), path)
    described = run_cli(f"data {path} --json").json["columns"][1]
    is_text = described["type"] == "text"
    assert is_text == (name in ("views", "lists", "structs"))
    found = run_cli(f"""train "y ~ a*y" {path} --where "c == 'u'" """)
    message = "keeps none of 3 rows" if is_text else "cannot compare 'u' with `c`"
    assert found.status == 0 if name == "views" else message in found.stderr
    assert "a[" in run_cli(f'train "y ~ a[c]" {path}') or name == "floats"
    if is_text:
        expect_refusal(run_cli(f'train "y ~ a*c" {path}'), "not numbers")


def test_spans_of_time_are_seconds_everywhere(tmp_path: Path) -> None:
    """The text of a span, `0:00:02`, would be the time of a day, which counts from the first row."""
    path = tmp_path / "data.parquet"
    spans = [timedelta(seconds=2), timedelta(days=1, seconds=3), timedelta(milliseconds=4500)]
    parquet.write_table(pa.table({"s": spans}), path)
    expected = [2.0, 86403.0, 4.5]
    assert open_data([str(path)]).load(["s"]).columns["s"].tolist() == expected
    assert [column.type for column in DataSummary(open_data([str(path)])).columns] == ["number"]
    rows = run_cli(f"grad s^2 --at {path}").splitlines()[1:]
    assert [float(row.split(",")[1]) for row in rows] == [s * s for s in expected]
    assert [float(row.split(",")[0]) for row in rows] == expected


def test_temporary_bytes_are_read_as_those_in_memory(tmp_path: Path) -> None:
    content = random.Random(1).randbytes(3000)
    kept = TemporaryBytes(tmp_path)
    kept.write(content[1000:], 1000)
    kept.write(content[:1200], 0)
    assert len(kept) == 3000
    chance, on_disk, in_memory = random.Random(2), reopen(kept), reopen(content)
    other = reopen(kept)  # with a position of its own
    for _ in range(200):
        place, whence = chance.randrange(-500, 3500), chance.choice((io.SEEK_SET, io.SEEK_CUR, io.SEEK_END))
        offset = {io.SEEK_SET: abs(place), io.SEEK_CUR: place // 3, io.SEEK_END: -abs(place) // 2}[whence]
        if chance.random() < 0.5 and in_memory.tell() + offset >= 0:
            assert on_disk.seek(offset, whence) == in_memory.seek(offset, whence)
        size = chance.choice((0, 1, 7, 300, -1))
        assert on_disk.read(size) == in_memory.read(size)
        assert on_disk.tell() == in_memory.tell()
    assert other.read() == content


def test_rows_that_a_file_gains_while_it_is_read_are_refused_before_they_are_used() -> None:
    def stream(counts: list[int], checksum: int = 7) -> Any:
        def read(_: list[str]) -> Iterator[tuple[dict[str, Any], int]]:
            for count in counts:
                found._checksums["x"] = checksum
                yield {}, count

        found = SimpleNamespace(
            source=SimpleNamespace(name="f", signature=lambda: "same"), _signature="same", names=["x"], dropped=0,
            rows=10, _checksums={"x": 7}, _read_files=read,
        )  # fmt: skip
        found._check_unchanged = functools.partial(StreamedColumns._check_unchanged, found)
        return StreamedColumns._reread_files(found, ["x"])

    assert [count for _, count in stream([6, 4])] == [6, 4]
    for counts, checksum, seen in (([6, 5, 1], 7, [6]), ([6, 3], 7, [6, 3]), ([6, 4], 8, [6, 4])):
        chunks = stream(counts, checksum)
        assert [next(chunks)[1] for _ in seen] == seen
        with pytest.raises(DataError, match="f: the data changed while they were read"):
            next(chunks)


def test_a_renamed_column_is_as_if_the_file_had_the_new_name(tmp_path: Path) -> None:
    """With its unit, kind, notes, labels and conditions, and in messages."""
    contents = {
        "a.csv": "{},y,g\n1,2,A\n2,3,B\n,4,A\n",
        "b.csv": "{};y;g\ns;m/s;-\n1,5;2;A\n2,5;3;B\n",
        "c.csv": "y,{},g\n2,2024-01-01,A\n3,2024-01-02,B\n",
        "d.csv": "{},y,g\n1,2,A\n1.5.2,3,B\n",
        "e.jsonl": '{{"{}": 1.5, "y": 2, "g": "A"}}\n{{"{}": true, "y": 3, "g": "B"}}\n',
        "f.csv": "y,g,{}\n2,A,07\n3,B,7\n4,B,x\n",
    }
    lines = [
        ["data", "--json"], ["grad", "t^2*y", "--at"], ["train", "y ~ a + b*t", "--json"],
        ["train", "y ~ a[t]", "--json"], ["train", "y ~ a + b*t", "--json", "--where", "t > 0", "--drop-missing"],
        ["trace", "y ~ a + b*t", "--row", "2"], ["compare", "y ~ a + b*t", "y ~ a", "--json"], ["train", "y ~ s*t"],
    ]  # fmt: skip
    for (file, content), line in itertools.product(contents.items(), lines):
        words = [line[0], *([] if line[0] in ("data", "grad") else [line[1]])] if line[0] != "grad" else line
        words = (
            [*line, str(tmp_path / file)] if line[0] in ("data", "grad") else [*words, str(tmp_path / file), *line[2:]]
        )
        units = ["--units-row"] * (file == "b.csv")
        found = []
        for name, options in (("Time [s]", ["--column", 't="Time [s]"']), ("t", [])):
            (tmp_path / file).write_text(content.replace("{}", name).replace("{{", "{").replace("}}", "}"))
            output = run_cli([*words, *units, *options])
            found.append((output.status, str(output).replace("Time [s]", "t"), output.stderr.replace("Time [s]", "t")))
        assert found[0] == found[1], (file, line)


@each("options", [{}, {"comment": "#"}, {"decimal": ","}])
@each("delimiter", [";", "\t", "|", " ", "  \t"])
def test_plain_numbers_of_large_files_are_not_parsed_cell_by_cell(options: dict[str, str], delimiter: str) -> None:
    numbers, mark = [k + 0.5 for k in range(9)], options.get("decimal", ".")
    lines = [f"x{delimiter}y", *(f"{k}{delimiter}{number}".replace(".", mark) for k, number in enumerate(numbers))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autodiff_cli.data.source._SMALL_FILE_BYTES", 0)
        patch.setattr("autodiff_cli.data.delimited.DelimitedText._parse_cells", None)
        file = open_data(["-"], io.BytesIO("\n".join(lines).encode()), options=FileOptions(**options))  # type: ignore[arg-type]
        assert file.load({"y"}).columns["y"].tolist() == numbers


def test_a_notation_far_down_repeats_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells that Arrow does not read as numbers are parsed one by one, from the first row that is not read yet."""
    monkeypatch.setattr("autodiff_cli.data.source._LARGE_FILE_BYTES", 0)
    for place, most in itertools.product([0, 1, 5, 29], [1, 4, 100]):
        cells = ["3D+01" if k == place else str(k + 0.5) for k in range(30)]
        file = DataFile("-", io.BytesIO(("x,k\n" + "".join(f"{x},{k}\n" for k, x in enumerate(cells))).encode()))
        blocks = [*file.iter_blocks(["x"], most)]
        assert max(len(block.cells) for block in blocks) <= most
        texts = [block.cells if isinstance(block.cells, list) else block.cells.rows() for block in blocks]
        assert [*itertools.chain(*texts)] == [[x, str(k)] for k, x in enumerate(cells)]
        found = np.concatenate([block.columns["x"] for block in blocks])
        assert found.tolist() == [30.0 if k == place else k + 0.5 for k in range(30)]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_message_quotes_at_most_40_characters_of_a_cell(ending: str) -> None:
    for length in (1, 38, 39, 40, 41, 99):
        cell = "é" * length
        rows = {"csv": f"x,y\n1,{cell}\n", "jsonl": f'{{"x": 1, "y": "2024-01-01"}}\n{{"x": 1, "y": "{cell}"}}\n'}[
            ending
        ]
        quoted = f'"{cell}"' if length <= 40 else f'"{cell[:39]}…"'
        with pytest.raises(DataError) as error:
            load(rows.encode())
        assert f"column `y`: {quoted} is not a" in str(error.value)


def test_the_options_that_a_message_on_commas_suggests_read_the_cell_as_it_says() -> None:
    """After five rows without decimals, 1,234 may be either."""
    content = "x\ty\n" + "1\t2\n" * 6 + "1,234\t2\n"
    with pytest.raises(DataError) as error:
        load(content.encode())
    found = re.search(r"if it has a decimal comma, say so: --decimal (.) \(or (.) for thousands\)", str(error.value))
    assert found is not None
    for mark, number in zip(found.groups(), (1.234, 1234), strict=True):
        options = FileOptions(decimal=mark)
        assert open_data(["-"], io.BytesIO(content.encode()), options=options).load(["x"]).columns["x"][-1] == number
