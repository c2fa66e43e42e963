"""Chunks of streamed columns, and rows that are read from them by their numbers, are those of the whole columns."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from autodiff_cli.data import streaming
from autodiff_cli.data.files import open_data
from autodiff_cli.data.streaming import DecodedColumns, PassProgress, Rechunker, StreamedColumns
from tests.each import each

ROWS = 1000
COLUMNS = {"x": np.random.default_rng(0).normal(size=ROWS), "y": np.arange(ROWS, dtype=np.float64)}


@each("chunk", [1, 7, 100, 999, 1000, 1001])
@each("buffers", [0, 1, 2, 3])
def test_batches_of_any_length_become_chunks_of_one_length(chunk: int, buffers: int) -> None:
    generator = np.random.default_rng(chunk)
    own = [{name: np.empty(chunk) for name in COLUMNS} for _ in range(buffers)]
    chunks, recent, found = Rechunker(chunk, own), list[dict[str, Any]](), list[dict[str, Any]]()
    start = 0

    def take(columns: dict[str, Any], count: int) -> None:
        found.append({name: column[:count].copy() for name, column in columns.items()})
        recent.append(columns)
        for age, kept in enumerate(recent[: -max(buffers, 1) - 1 : -1], 1):  # not overwritten yet
            np.testing.assert_array_equal(kept["y"][:1], found[-age]["y"][:1])

    while start < ROWS:
        length = int(generator.integers(1, 300))
        batch = {name: column[start : start + length] for name, column in COLUMNS.items()}
        for columns in chunks.add(batch, len(batch["x"])):
            take(columns, chunk)
        start += length
    assert [len(columns["x"]) for columns in found] == [chunk] * (ROWS // chunk)
    for columns, count in chunks.remainder():
        assert count == ROWS % chunk
        take(columns, count)
    for name, column in COLUMNS.items():
        np.testing.assert_array_equal(np.concatenate([columns[name] for columns in found]), column)


@pytest.mark.parametrize("chunk", [7, 600, 1000])
def test_rows_of_decoded_columns_by_their_numbers(chunk: int, tmp_path: Path) -> None:
    decoded, generator = DecodedColumns(tmp_path, [*COLUMNS], chunk), np.random.default_rng(chunk)
    for start in range(0, ROWS, chunk):
        part = {name: column[start : start + chunk] for name, column in COLUMNS.items()}
        decoded.add(part, len(part["x"]))
    assert decoded.rows == ROWS
    assert not [*tmp_path.iterdir()]  # the file has no name
    for rows in ([], [0], [ROWS - 1], generator.integers(ROWS, size=50), generator.permutation(ROWS), [0, 700, 1, 0]):
        numbers = np.array(rows, np.intp)
        for name, values in decoded.gather(numbers, ["y", "x"]).items():
            np.testing.assert_array_equal(values, COLUMNS[name][numbers])
    buffers = {"x": np.empty(chunk)}
    for number, start in enumerate(range(0, ROWS, chunk)):
        count = decoded.read(number, buffers)
        np.testing.assert_array_equal(buffers["x"][:count], COLUMNS["x"][start : start + chunk])


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("names", [["x"], ["y", "x"]])
def test_rows_of_a_streamed_file_by_their_numbers(
    stored: bool, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(streaming, "_MAX_CHUNK_ROWS", 100)
    monkeypatch.setattr(streaming, "MIN_CHUNK_ROWS", 100)
    path = tmp_path / "data.parquet"
    parquet.write_table(pa.table(COLUMNS), path, row_group_size=130)
    seen, reports = list[int](), list[PassProgress]()
    streamed = StreamedColumns(
        open_data([str(path)]), ["x", "y"], [], "asked for", random_access=stored,
        inspect=lambda _, before: seen.append(before), on_progress=reports.append,
    )  # fmt: skip
    assert (streamed.rows, streamed.dropped, streamed._decoded is not None) == (ROWS, 0, stored)
    assert seen == [*range(0, ROWS, 100)]
    assert reports[0][:3] == (1, 100, None)
    generator = np.random.default_rng(1)
    for rows in ([], [ROWS - 1, 0, 99, 100, 101], generator.integers(ROWS, size=30), generator.permutation(ROWS)):
        numbers = np.array(rows, np.intp)
        found = streamed.gather(numbers, names)
        assert {*found} == {*names}
        for name, values in found.items():
            np.testing.assert_array_equal(values, COLUMNS[name][numbers])
    passes = streamed.passes
    counts = [count for _, count in streamed.iter_chunks(names)]
    assert (counts, streamed.passes) == ([100] * 10, passes + 1)
    assert streamed.rows_read == ROWS * (streamed.passes if not stored else 2)
    storage = "decoded on disk" if stored else "read again in every pass"
    assert f"(asked for): {streamed.passes} passes over {ROWS} rows, {storage}, " in streamed.note


def test_every_pass_leaves_out_the_same_rows_whichever_columns_it_reads(tmp_path: Path) -> None:
    columns = {
        name: np.where(np.arange(ROWS) % divisor == 3, np.nan, COLUMNS[name]) for name, divisor in (("x", 7), ("y", 5))
    }
    parquet.write_table(pa.table(columns), tmp_path / "data.parquet", row_group_size=130)
    streamed = StreamedColumns(open_data([str(tmp_path / "data.parquet")]), ["x", "y"], [], "asked for", True)
    is_whole = ~np.isnan(columns["x"]) & ~np.isnan(columns["y"])
    for names in (["x"], ["y"], ["x", "y"]):
        chunks = [
            {name: values[name][:count].copy() for name in names} for values, count in streamed.iter_chunks(names)
        ]
        for name in names:
            np.testing.assert_array_equal(np.concatenate([chunk[name] for chunk in chunks]), columns[name][is_whole])


@each("labels", [[], ["g"]])
def test_labels_of_files_that_are_quickly_read_are_decoded_only_once(labels: list[str]) -> None:
    buffer = io.BytesIO()
    parquet.write_table(pa.table({"x": [1.0, 2.0, 3.0], "g": ["a", "b", "a"]}), buffer)
    buffer.seek(0)
    streamed = StreamedColumns(open_data(["-"], buffer), ["x"], labels, "asked for")
    assert (streamed._decoded is not None) is bool(labels)
