"""Columns in memory: which data are accepted, and the errors for other data."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.data import batches
from autodiff_cli.data.batches import CodeTable, LabelColumn, arrow_floats, join_labels
from autodiff_cli.data.table import DataError, MemoryDataset
from tests.support import run_cli

pytestmark = pytest.mark.usefixtures("size")


def test_labels_of_several_columns_are_whole_numbers_or_as_they_are() -> None:
    numbers, words = LabelColumn.of(np.array([1.0, 3.0, 2.5])), LabelColumn.of(np.array(["inf", "b", "c"]))
    for joint in (join_labels([numbers, words]).joined(), join_labels([numbers, words]).parsed()):
        assert {*joint.values} == {"1, inf", "3, b", "2.5, c"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("lots", ["07 7 A", "07 7 8", "07 7.0 A", "A B C"])
def test_labels_are_the_same_alone_and_in_combinations(tmp_path: Path, lots: str, stream: bool) -> None:
    """Also in predictions: what the fit takes for one label is one label, and nothing else is."""
    data, model = tmp_path / "data.csv", tmp_path / "model.json"
    rows = [f"{lot},{'1' if k % 2 else '1.0'},{k % 3 + k / 100}" for k, lot in enumerate(3 * lots.split())]
    data.write_text("\n".join(["lot,dose,y", *rows]))
    found = []
    for effect in ("a[lot]", "a[lot, dose]"):
        words = ["train", f"y ~ {effect}", str(data), "--save", str(model), "--json", *["--stream"] * stream]
        fit = json.loads(run_cli(words))
        predicted = json.loads(run_cli(["predict", str(model), str(data), "--json"]))["prediction"]
        found.append(([name.replace(", 1]", "]") for name in fit["parameters"]], predicted))
    assert found[0][0] == found[1][0]
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-12)


def test_numbers_stay_what_they_are_if_kernels_can_read_them_and_become_float64_if_not() -> None:
    data = {
        "a": [1, 2.0],
        "b": np.array([1, 2], np.float32),
        "c": np.array([3, 4], np.int8),
        "d": [True, False],
        "e": np.array([1, 2], np.float16),
        "f": np.array([1, 2], np.dtype(np.int32).newbyteorder()),
    }
    table = MemoryDataset(data).load(data)
    assert table.rows == 2
    assert {name: (column.dtype, column.tolist()) for name, column in table.columns.items()} == {
        "a": (np.float64, [1, 2]),
        "b": (np.float32, [1, 2]),
        "c": (np.int8, [3, 4]),
        "d": (np.bool_, [1, 0]),
        "e": (np.float64, [1, 2]),
        "f": (np.float64, [1, 2]),
    }


@pytest.mark.parametrize("cells", [["b", "a", None, "b", "c", "a", "d"], [3.0, 1.0, math.nan, 3.0, 2.0, 1.0, 7.0]])
def test_labels_of_many_cells_are_those_of_a_few(cells: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_BLOCK_VALUES", 2)
    labels = batches.LabelColumn.of(np.array(cells))
    assert [None if code < 0 else labels.values[code] for code in labels.codes] == [*cells[:2], None, *cells[3:]]


def test_labels_that_are_not_all_whole_are_floats_if_these_tell_them_apart_and_otherwise_texts() -> None:
    for values, levels in (
        ([0.5, 2, -3.0], [0.5, 2.0, -3.0]),
        ([0.5, 2**53, 2**53 + 1], ["0.5", str(2**53), str(2**53 + 1)]),
        ([3.0, 2], [3, 2]),
    ):
        found = LabelColumn(np.arange(len(values), dtype=np.int32), values).levels("k", are_whole=False).tolist()
        assert [*map(repr, found)] == [*map(repr, levels)]


def test_a_limit_of_labels_is_the_number_that_is_still_taken() -> None:
    table = CodeTable()
    for batch, codes in (("b", [0]), ("cab", [1, 2, 0]), ("abc", [2, 0, 1])):
        assert table.encode(LabelColumn.of(np.array([*batch])), "name", 3).tolist() == codes
    with pytest.raises(DataError, match="column `name` has more than 3 different values"):
        table.encode(LabelColumn.of(np.array(["d"])), "name", 3)


def test_only_requested_columns_are_checked() -> None:
    table = MemoryDataset({"x": [1.0], "name": ["text"], "long": [1, 2, 3]}).load({"x"})
    assert [*table.columns] == ["x"]


def test_names_are_compared_in_one_form() -> None:
    assert MemoryDataset({"é": [1.0], "µ": [2.0]}).names == ("é", "μ")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"x": [1, 2], "y": [1, 2, 3]}, "differ in length: `x` has 2, `y` has 3"),
        ({"x": [], "y": []}, "no rows"),
        ({"x": [[1, 2]], "y": [1]}, r"`x` has the shape \(1, 2\)"),
        ({"x": 3.0, "y": [1]}, r"`x` has the shape \(\)"),
        ({"x": ["1", "2"], "y": [1, 2]}, "`x` holds values that are not numbers$"),
        ({"x": np.array([0, 1], "datetime64[D]"), "y": [1, 2]}, r"not numbers; use \(t - t\[0\]\)/np.timedelta64"),
        ({"x": [1j, 2], "y": [1, 2]}, "`x` holds values that are not numbers"),
        ({"x": [[1, 2], [3]], "y": [1, 2]}, "`x` holds values that are not numbers"),
        ({"x": [1, np.nan], "y": [np.inf, 2]}, r"2 problems:\n  row 1, column `y`: inf\n  row 2, column `x`: nan"),
        ({"x": [1, None], "y": [1, 2]}, "row 2, column `x`: nan"),
        ({"z": [1]}, r"uses none of the columns, which are z"),
    ],
)
def test_what_cannot_be_used_is_named(data: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        MemoryDataset(data).load({"x", "y"})


def test_rows_with_missing_cells_can_be_left_out() -> None:
    data = MemoryDataset({"x": [1, np.nan, 3, 4], "y": [1, 2, np.inf, 4]})
    table = data.load({"x", "y"}, drop_missing=True)
    assert (table.rows, table.dropped, table.columns["x"].tolist()) == (2, 2, [1, 4])
    with pytest.raises(DataError, match="no rows are left"):
        MemoryDataset({"x": [np.nan]}).load({"x"}, drop_missing=True)


def test_an_arrow_column_is_read_as_it_lies() -> None:
    import pyarrow as pa

    whole = pa.array([None, 1.5, 2.5, None, *range(20), None], pa.float64())
    column = pa.chunked_array([whole.slice(1, 9), pa.array([], pa.float64()), whole.slice(11)])
    expected = [1.5, 2.5, np.nan, 0, 1, 2, 3, 4, 5, *range(7, 20), np.nan]
    assert np.array_equal(arrow_floats(column), expected, equal_nan=True)


def test_a_missing_cell_of_an_arrow_dictionary_is_missing() -> None:
    """NumPy reads the last value of the dictionary there."""
    import pyarrow as pa

    codes = pa.table(
        {"g": pa.array(["a", None, "b"]).dictionary_encode(), "x": pa.array([1, None, 3]).dictionary_encode()}
    )
    for data in (codes, {name: codes[name] for name in codes.column_names}):
        table = MemoryDataset(data).load({"x"}, labels={"g"}, drop_missing=True)
        assert (table.dropped, table.columns["x"].tolist()) == (1, [1, 3])
        assert table.labels["g"].levels("g").tolist() == ["a", "b"]


@pytest.mark.slow
def test_reading_a_file_of_any_format_imports_no_pandas(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    count = 20_000  # rows that Arrow parses: fewer are parsed without it
    numbers = [*range(count)]
    table = pa.table({"x": numbers, "y": [k / 8 for k in numbers], "g": ["AB"[k % 2] for k in numbers]})
    pa.parquet.write_table(table, tmp_path / "data.parquet")
    pa.feather.write_feather(table, tmp_path / "data.feather")
    rows = table.to_pylist()
    lines = "".join(f"{row['x']},{row['y']},{row['g']}\n" for row in rows)
    (tmp_path / "small.csv").write_text("x,y,g\n1,2,A\n2,3,B\n", encoding="utf-8")
    (tmp_path / "plain.csv").write_text(f"x,y,g\n{lines},3,A\n", encoding="utf-8")
    (tmp_path / "quoted.csv").write_text(f'x,y,g\n{lines}3,3,"A"\n', encoding="utf-8")
    (tmp_path / "data.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    script = """
import sys
import autodiff_cli as ad
from autodiff_cli.data.files import open_data
for path in sys.argv[1:]:
    open_data([path]).load({"x", "y"}, labels={"g"}, drop_missing=True)
    ad.fit("y ~ a*x + b[g]", path, stream=True, drop_missing=True)
    print("pandas" in sys.modules, path)
"""
    paths = [*map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run([sys.executable, "-c", script, *paths], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("".join(f"False {path}\n" for path in paths), "")


def test_text_that_a_condition_reads_is_no_number(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("x,y,g\n" + "".join(f"{k},{2 * k},{'AB'[k % 2]}\n" for k in range(1, 9)))
    output = run_cli(["train", "y ~ a*x*g", str(path), "--where", "g == 'A'"])
    assert (output.status, output) == (2, "")
    assert "column `g` holds text, not numbers" in output.stderr
    path.write_text("x,y\nnone,1\n2,4\n3,6\n")
    kept = run_cli(["train", "y ~ a*x", str(path), "--where", "x != 'none'", "--json"])
    assert kept.json["parameters"] == pytest.approx({"a": 2})


def test_an_array_has_no_names() -> None:
    with pytest.raises(TypeError, match="an array has no column names"):
        ad.fit("y ~ a*x", np.zeros((3, 2)))  # type: ignore[arg-type]


def test_a_summary_counts_the_missing_cells_of_each_column(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x,w,site\n1,,north\n2,3.5,\n3,,south\n4,1,north\n", encoding="utf-8")
    columns = run_cli(["data", str(path), "--json"]).json["columns"]
    assert [(column["name"], column["missing"], column["min"], column["max"]) for column in columns] == [
        ("x", 0, 1, 4), ("w", 2, 1, 3.5), ("site", 1, None, None)
    ]  # fmt: skip
