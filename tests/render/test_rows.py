"""Many rows at once are written as the same rows one after the other."""

from __future__ import annotations

import csv
import gzip
import io
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autodiff_cli.data import source
from autodiff_cli.data.dialect import FileOptions
from autodiff_cli.data.files import DataFile, open_data
from autodiff_cli.data.table import DataError, TextBatch, csv_text, format_numbers
from autodiff_cli.render.formatting import shortest_text
from autodiff_cli.render.rows import _ColumnBuffer, csv_rows

EDGES = [0.0, -0.0, 1.0, -3.0, 0.1, 1e-3, 9.99e-4, 1e-4, 1e-5, 123456.5, 1e15, 1e16, 2.5e15, 1e22, 5e-324, 1e308]
SPECIAL = [math.nan, math.inf, -math.inf]


@given(st.lists(st.floats(), min_size=1, max_size=50))
@example(EDGES + SPECIAL)
@example((10.0 ** np.arange(-8, 20) / 3).tolist())
def test_numbers_are_written_in_full(numbers: list[float]) -> None:
    texts = format_numbers(np.array(numbers), shortest_text).to_pylist()
    assert texts == [shortest_text(number) for number in numbers]


@pytest.mark.parametrize("count", [3, 5000])
def test_columns_of_numbers_of_labels_and_of_whole_numbers(count: int) -> None:
    columns = [np.arange(count) / 7, np.arange(count), np.array(["a", "b,c", 'd"e'] * count)[:count]]
    text = csv_rows(None, columns)
    found = [*csv.reader(io.StringIO(text))]
    assert found == [[shortest_text(k / 7), str(k), ("a", "b,c", 'd"e')[k % 3]] for k in range(count)]
    assert csv_rows(None, columns[:1], "{:.2f}".format) == "".join(f"{k / 7:.2f}\n" for k in range(count))


def test_predictions_stand_beside_their_rows_whatever_the_blocks_of_both() -> None:
    buffer = _ColumnBuffer({"y": np.arange(k, k + 3.0)} for k in range(0, 12, 3))
    taken = [buffer.take(count)[0] for count in (1, 1, 4, 2, 4)]
    assert np.concatenate(taken).tolist() == [*range(12)]


PLAIN = b"x,name,y\n" + b"".join(b"%d.50, n%d ,%d\n" % (k, k, k) for k in range(9000))


@pytest.fixture
def always_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_LARGE_FILE_BYTES", 0)


def file_of(content: bytes, tmp_path: Path) -> DataFile:
    (tmp_path / "rows.csv").write_bytes(content)
    return DataFile(str(tmp_path / "rows.csv"))


@pytest.mark.sampled
@pytest.mark.usefixtures("always_at_once")
@pytest.mark.parametrize(
    ("content", "at_once"),
    [
        (PLAIN, True),
        (PLAIN.replace(b"\n", b"\r\n"), True),
        (PLAIN.replace(b"\n", b"\n\n"), True),
        (PLAIN.replace(b",", b"\t"), True),
        (b"\xef\xbb\xbf" + PLAIN, True),
        (b'"x","a, b",y\n' + PLAIN.partition(b"\n")[2], True),
        (gzip.compress(PLAIN), True),
        (PLAIN.replace(b" n7 ", b"caf\xe9"), True),
        (PLAIN.replace(b" n7 ", b""), True),
        (PLAIN.replace(b",", b"\t").replace(b" n7 ", b"a,b"), True),
        (PLAIN.replace(b" n7 ", b'"a,\nb"'), False),
        (PLAIN.replace(b" n8990 ", b'a"b'), False),
    ],
)
def test_the_rows_of_a_file_come_back_as_they_are(content: bytes, at_once: bool, tmp_path: Path) -> None:
    file = file_of(content, tmp_path)
    wanted = [record.cells for record in file.format.iter_records()]
    numbers = np.arange(9000) / 3
    found, start = "", 0
    for block in file.iter_blocks(["x", "y"], 4000):
        assert isinstance(block.cells, TextBatch) is at_once
        assert len(block.cells) <= 4000
        part = slice(start, start := start + len(block.cells))
        np.testing.assert_array_equal(block.columns["x"], np.arange(9000)[part] + 0.5)
        found += csv_rows(block.cells, [numbers[part]])
    assert found == "".join(csv_text([[*row, shortest_text(k / 3)]]) for k, row in enumerate(wanted))
    assert start == 9000


def test_selected_rows_have_their_numbers_and_their_text(tmp_path: Path) -> None:
    groups = ["NA" if k == 20 else "abc"[k % 3] for k in range(50)]
    (tmp_path / "rows.csv").write_text("x,group,y\n" + "".join(f"{k}.5, {groups[k]} ,{k}\n" for k in range(50)))
    options = FileOptions(where="group != 'b' and y > 9")
    blocks = [*DataFile(str(tmp_path / "rows.csv"), options=options).iter_blocks(["x"], 8, is_filtered=True)]
    table = open_data([str(tmp_path / "rows.csv")], options=options).load(["x"])
    np.testing.assert_array_equal(np.concatenate([block.columns["x"] for block in blocks]), table.columns["x"])
    cells = [row for block in blocks for row in block.cells]
    assert cells == [[f"{k}.5", f" {groups[k]} ", str(k)] for k in range(10, 50) if groups[k] != "b"]


@pytest.mark.usefixtures("always_at_once")
@pytest.mark.parametrize("cell", ["inf", "nan", " 2.5 ", "1e400", "+1"])
def test_numbers_are_those_that_are_read_one_by_one(cell: str, tmp_path: Path) -> None:
    file = file_of(PLAIN.replace(b"\n8500.50,", f"\n{cell},".encode()), tmp_path)
    found = np.concatenate([block.columns["x"] for block in file.iter_blocks(["x"], 4000)])
    assert found.shape == (9000,)
    np.testing.assert_equal(found[8500], float(cell))


@pytest.mark.usefixtures("always_at_once")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"\n8500.50,", b"\nmany,", 'line 8502, column `x`: "many" is not a number'),
        (b"\n8500.50,", b"\n1_0,", 'line 8502, column `x`: "1_0" is not a number'),
        (b"\n8500.50,", b"\n,", "line 8502, column `x`: empty"),
        (b" n8500 ,", b"", "line 8502: 2 cells, but the header has 3"),
    ],
)
def test_errors_are_reported_with_their_place(old: bytes, new: bytes, message: str, tmp_path: Path) -> None:
    file = file_of(PLAIN.replace(old, new), tmp_path)
    done: list[int] = []

    def read() -> None:
        done.extend(len(block.cells) for block in file.iter_blocks(["x"], 1000))

    with pytest.raises(DataError) as error:
        read()
    assert message in str(error.value)
    assert 7000 <= sum(done) <= 8500 or not sum(done)  # rows before it were answered
