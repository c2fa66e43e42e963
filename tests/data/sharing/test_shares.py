"""The shares of files together are the files."""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from autodiff_cli.data.batches import FallbackRequired
from autodiff_cli.data.dialect import DEFAULT_FILE_OPTIONS, DataError, FileOptions
from autodiff_cli.data.files import open_data
from autodiff_cli.training.objective.cluster import ShareData, divide_files, read_share

ROWS = 1000
X = np.round(np.random.default_rng(1).normal(size=ROWS), 6)
Y = np.arange(ROWS, dtype=np.float64)
G = np.array(["left", "right", "up"])[np.arange(ROWS) % 3]
TEXT = "x,y,g\n" + "".join(f"{x},{y:g},{g}\n" for x, y, g in zip(X, Y, G, strict=True))


def written(folder: Path, name: str) -> str:
    path = folder / name
    table = pa.table({"x": X, "y": Y, "g": G})
    if name.endswith(".parquet"):
        parquet.write_table(table, path, row_group_size=130)
    elif name.endswith(".arrow"):
        feather.write_feather(table, path)
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(TEXT.encode()))
    elif name.startswith("crlf"):
        path.write_bytes(TEXT.replace("\n", "\r\n").encode())
    elif name.startswith("unended"):
        path.write_text(TEXT.rstrip("\n"))
    elif name.startswith("commented"):
        path.write_text("# about\n# it\n" + TEXT)
    elif name.startswith("blanks"):
        path.write_text(TEXT.replace(",", "   "))
    else:
        path.write_text(TEXT)
    return str(path)


def all_of(paths: list[str], count: int, options: FileOptions = DEFAULT_FILE_OPTIONS, **more: Any) -> list[ShareData]:
    found = divide_files(open_data(paths, options=options), count)
    assert found is not None
    given = {"names": ["x", "y"], "labels": ["g"], "drop_missing": False, **more}
    return [read_share(pickle.loads(pickle.dumps(share)), **given) for share in itertools.chain(*found)]


def joined(found: list[ShareData], name: str) -> Any:
    return np.concatenate([part.table.columns[name] for part in found])


def texts(found: list[ShareData], name: str) -> list[str]:
    columns = [part.table.labels[name] for part in found]
    return [*itertools.chain(*(np.array(column.values, object)[column.codes].tolist() for column in columns))]


NAMES = ["plain.csv", "crlf.csv", "unended.csv", "commented.csv", "blanks.txt", "a.parquet", "a.csv.gz", "a.arrow"]


@pytest.mark.sampled
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_shares_have_each_row_once_and_in_order(name: str, count: int, tmp_path: Path) -> None:
    found = all_of([written(tmp_path, name)], count)
    np.testing.assert_array_equal(joined(found, "x"), X)
    np.testing.assert_array_equal(joined(found, "y"), Y)
    assert texts(found, "g") == G.tolist()
    assert len(found) == (1 if name.endswith((".gz", ".arrow")) else min(count, 8) if "parquet" in name else count)


@pytest.mark.parametrize("count", [1, 3, 40])
def test_lines_longer_than_a_share_are_in_one_share(count: int, tmp_path: Path) -> None:
    path, notes = tmp_path / "long.csv", ["a" * length for length in (1, 3000, 2, 500, 1, 1, 900)]
    path.write_text("x,y,g\n" + "".join(f"{k},{k * k},{note}\n" for k, note in enumerate(notes)))
    found = all_of([str(path)], count)
    assert joined(found, "x").tolist() == [*range(len(notes))]
    assert texts(found, "g") == notes


def test_several_files_are_divided_by_their_size(tmp_path: Path) -> None:
    paths = [written(tmp_path, name) for name in ("plain.csv", "a.parquet", "a.csv.gz")]
    np.testing.assert_array_equal(joined(all_of(paths, 6), "y"), [*Y, *Y, *Y])


@pytest.mark.parametrize("name", ["plain.csv", "a.parquet"])
def test_conditions_and_missing_cells(name: str, tmp_path: Path) -> None:
    options = FileOptions(where="y >= 500 and g == 'left'")
    found = all_of([written(tmp_path, name)], 5, options)
    kept = (Y >= 500) & (G == "left")
    np.testing.assert_array_equal(joined(found, "y"), Y[kept])
    assert sum(part.filter_counts.rows - part.filter_counts.selected for part in found) == np.count_nonzero(~kept)
    path = tmp_path / "gaps.csv"
    lines = TEXT.splitlines()
    lines[8], lines[9], lines[901] = "1,,left", "1,nan,left", "1,900,"
    path.write_text("\n".join(lines))
    found = all_of([str(path)], 5, drop_missing=True)
    np.testing.assert_array_equal(joined(found, "y"), np.delete(Y, [7, 8, 900]))
    assert sum(part.table.dropped for part in found) == 3
    with pytest.raises(FallbackRequired):
        all_of([str(path)], 5)


@pytest.mark.parametrize("cell", ['"1.5"', "yes", "2020-01-01", "word"])
def test_what_only_the_whole_file_tells_is_not_guessed(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(TEXT + f"{cell},1,left\n")
    with pytest.raises((FallbackRequired, DataError)):
        all_of([str(path)], 4)


def test_a_file_that_is_not_divided_leaves_no_other_out(tmp_path: Path) -> None:
    found = all_of([written(tmp_path, name) for name in ("a.csv.gz", "plain.csv", "b.csv.gz")], 5)
    np.testing.assert_array_equal(joined(found, "y"), np.tile(Y, 3))
    assert len(found) > 3


def test_a_file_that_is_not_there_or_another_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "plain.csv")
    found = divide_files(open_data([path]), 2)
    assert found is not None
    other = dataclasses.replace(found[0][0], path="/nowhere/plain.csv")
    with pytest.raises(DataError, match=r"/nowhere/plain\.csv: no such file or directory"):
        read_share(other, ["x"], [], drop_missing=False)
    with Path(path).open("a") as stream:
        stream.write("1,2,up\n")
    with pytest.raises(DataError, match=r"plain.csv: the file has \d+ bytes on a worker, but \d+ where"):
        read_share(found[0][0], ["x"], [], drop_missing=False)


def test_a_check_differs_where_a_number_does(tmp_path: Path) -> None:
    path = written(tmp_path, "plain.csv")
    first = all_of([path], 1)[0].checksum
    text = Path(path).read_text()
    Path(path).write_text(text.replace(",999,", ",998,"))
    assert all_of([path], 1)[0].checksum != first


def test_lines_above_the_header_belong_to_no_share(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("# about\n# it\nx,y,g\n1,2,u\n3,4,v\n5,6,u\n")
    found = divide_files(open_data([str(path)]), 2)
    assert found is not None
    extents = [share.extent for share in found[0]]
    assert None not in extents
    (begin, middle), (again, end) = extents
    assert path.read_bytes()[begin:end] == b"1,2,u\n3,4,v\n5,6,u\n"
    assert begin < middle == again < end


@pytest.mark.parametrize("lines", [[0], [1], [50], [50, 3, 1000]])
@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_shares_divide_all_bytes_in_proportion(lines: list[int], count: int, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.csv" for number in range(len(lines))]
    for path, length in zip(paths, lines, strict=True):
        path.write_text("x,y\n" + "".join(f"{k},{k * k}\n" for k in range(length)))
    files = open_data([*map(str, paths)])
    total = sum(path.stat().st_size for path in paths)
    found = divide_files(files, count)
    assert found is not None
    for file, path, shares in zip(files.files, paths, found, strict=True):
        begin, end = file.format.divisible_range
        extents = [share.extent for share in shares]
        assert [share.path for share in shares] == [str(path)] * len(shares)
        assert (extents[0][0], extents[-1][1]) == (begin, end)
        assert all(one[1] == other[0] for one, other in itertools.pairwise(extents))
        lengths = [last - first for first, last in extents]
        assert max(lengths) - min(lengths) <= 1
        assert len(shares) == min(max(1, round(count * path.stat().st_size / total)), max(1, end - begin))
