"""Dates and times are counted from the same time in a fit and in its predictions, or refused."""

from __future__ import annotations

import io
import itertools
import json
import re
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff_cli as ad
from autodiff_cli.data import formats, source
from autodiff_cli.data.dialect import FileOptions
from autodiff_cli.data.files import open_data
from tests.support import run_cli

DAYS = "day,y\n2024-01-01,1\n2024-01-02,3\n2024-01-03,5\n2024-01-04,7\n"
AT_DAY_3 = pytest.approx(5, rel=1e-9)


def prediction(*arguments: str) -> float:
    """Return the prediction of the first row of `autodiff predict`."""
    return float(run_cli(["predict", *arguments]).splitlines()[1].rpartition(",")[2])


@pytest.mark.parametrize("is_saved_in_python", [True, False])
def test_predictions_count_dates_as_the_fit_does(is_saved_in_python: bool, tmp_path: Path) -> None:
    data, model, new = (str(tmp_path / name) for name in ("days.csv", "days.json", "new.csv"))
    Path(data).write_text(DAYS)
    Path(new).write_text("day\n2024-01-03\n")
    if is_saved_in_python:
        ad.fit("y ~ a + b*day", data).save(model)
    else:
        run_cli(["train", "y ~ a + b*day", data, "--save", model])
    assert prediction(model, new) == AT_DAY_3
    assert prediction(model, "--day", "2024-01-03") == AT_DAY_3


@pytest.mark.parametrize("condition", ["day > '2024-01-02'", "'2024-01-02' < day", "'1/2/2024' <= day < '1/5/2024'"])
def test_the_order_of_dates_in_a_model_is_that_of_their_seconds(condition: str, tmp_path: Path) -> None:
    (path := tmp_path / "days.csv").write_text(DAYS)
    with pytest.raises(ad.ExpressionError, match="this is a date, but a number is needed: write the seconds since"):
        ad.fit(f"y ~ a + b*({condition})", path)
    assert ad.fit("y ~ a + b*(day > 86400)", path).parameters == pytest.approx({"a": 2, "b": 4})


def test_fits_of_groups_and_comparisons_know_the_origin_too(tmp_path: Path) -> None:
    path = tmp_path / "days.csv"
    path.write_text(DAYS)
    fits = [group.fit for group in ad.fit_by("y ~ a*day", str(path), "y")]
    fits += [one.fit for one in ad.compare(["y ~ a + b*day", "y ~ a*day"], str(path), folds=0).models]
    assert [fit.origins["day"] for fit in fits if fit is not None] == [datetime(2024, 1, 1)] * len(fits)


@pytest.mark.parametrize("first", ["2024-01-01", "12:30", "2024-01-01T00:00Z"])
@pytest.mark.parametrize("other", ["2024-01-02", "13:30:10", "2024-01-02 10:00+01:00"])
def test_dates_times_of_day_and_times_with_a_zone_are_not_mixed(first: str, other: str, tmp_path: Path) -> None:
    def kind(cell: str) -> tuple[bool, bool]:
        return "-" in cell, "Z" in cell or "+" in cell

    path = tmp_path / "times.csv"
    path.write_text(f"t,y\n{first},1\n{other},2\n{first},3\n")
    if kind(first) == kind(other):
        assert ad.fit("y ~ a + b*t", str(path)).rows == 3
    else:
        with pytest.raises(ad.DataError, match="is not a date or a time like the first one"):
            ad.fit("y ~ a + b*t", str(path))


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.time64("us")])
def test_columns_of_another_type_of_time_are_refused_by_predictions(kind: pa.DataType, tmp_path: Path) -> None:
    data, model, new = (str(tmp_path / name) for name in ("days.csv", "days.json", "new.parquet"))
    Path(data).write_text(DAYS)
    ad.fit("y ~ a + b*day", data).save(model)
    microseconds = 0 if pa.types.is_time(kind) else 1_704_240_000_000_000  # 2024-01-03
    pyarrow.parquet.write_table(pa.table({"day": pa.array([microseconds], kind)}), new)
    if kind == pa.timestamp("us"):
        assert prediction(model, new) == AT_DAY_3
    else:
        result = run_cli(["predict", model, new])
        assert result.status == 2
        assert "cannot be counted from 2024-01-01 00:00:00" in result.stderr


CELLS = {"numbers": ["1", "2", "4"], "dates or times": ["2024-01-01", "2024-01-02", "2024-01-04"]}
OTHERS = dict(zip(CELLS, reversed(CELLS), strict=True))


def write_column(path: Path, kind: str) -> str:
    """Write a column `t` of numbers or dates, and a column `y`, in the format that the suffix names."""
    cells, values = CELLS[kind], [1.0, 3.1, 4.9]
    if path.suffix == ".csv":
        path.write_text("t,y\n" + "".join(f"{cell},{y}\n" for cell, y in zip(cells, values, strict=True)))
    elif path.suffix == ".jsonl":
        typed = [float(cell) if kind == "numbers" else cell for cell in cells]
        path.write_text("".join(f"{json.dumps({'t': t, 'y': y})}\n" for t, y in zip(typed, values, strict=True)))
    else:
        column = [float(cell) if kind == "numbers" else date.fromisoformat(cell) for cell in cells]
        pyarrow.parquet.write_table(pa.table({"t": column, "y": values}), path)
    return str(path)


# In bytes: pyarrow reads larger files.
@pytest.mark.parametrize("size", [0, pytest.param(1 << 16, marks=pytest.mark.slow)])
@pytest.mark.parametrize("formats", [*itertools.product([".csv", ".jsonl", ".parquet"], repeat=2)])
@pytest.mark.parametrize("kind", [*CELLS])
def test_numbers_and_times_are_not_mixed(kind: str, formats: tuple[str, str], size: int, tmp_path: Path) -> None:
    """A number in a column of dates has no meaning: neither in another file, nor in the data of a prediction."""
    first = write_column(tmp_path / f"first{formats[0]}", kind)
    other = write_column(tmp_path / f"other{formats[1]}", OTHERS[kind])
    same = write_column(tmp_path / f"same{formats[1]}", kind)
    with patch.object(source, "_SMALL_FILE_BYTES", size):
        for stream in ([], ["--stream"]):
            refused = run_cli(["train", "y ~ a + b*t", first, other, *stream])
            message = f"error: {other}: column `t` holds {OTHERS[kind]}, but {kind} in the other data\n"
            assert (refused.status, refused, refused.stderr) == (2, "", message)
        model = str(tmp_path / "model.json")
        assert run_cli(["train", "y ~ a + b*t", first, same, "--save", model]).status == 0
        assert run_cli(["predict", model, same]).status == 0
        for line in (["predict", model, other], ["trace", model, other, "--row", "2"]):
            refused = run_cli(line)
            assert (refused.status, refused, refused.stderr) == (2, "", message)
        assert run_cli(["predict", model, "--t", CELLS[OTHERS[kind]][0]]).status == 2


def test_plots_of_times_of_day_name_no_date(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text("t,y\n12:30,1\n12:40,2\n12:55,3.1\n13:20,4\n14:00,7\n")
    shown = run_cli(["train", "y ~ a + b*t", str(path), "--plot"])
    assert "y over t, o: 5 rows" in shown
    assert ", from " not in shown


FORMS = {
    "%Y-%m-%d": pa.date32(),
    "%Y-%m-%d %H:%M:%S": pa.timestamp("ns"),
    "%Y-%m-%dT%H:%M:%S": pa.timestamp("ns", "UTC"),
    "%H:%M:%S": pa.time64("ns"),
}
MOMENTS = st.tuples(st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)), st.integers(0, 10**9 - 1))
OFFSETS = {"": 0, "Z": 0, "+00:00": 0, "+01:00": 3600, "-03:30": -12600}  # seconds


def typed_time(moment: tuple[datetime, int], form: str, zone: str) -> int | date:
    """Return a moment with nanoseconds as the value of an Arrow type."""
    day = datetime(1970, 1, 1) if "Y" in form else datetime.combine(moment[0], time())
    seconds = (moment[0].replace(microsecond=0) - day) // timedelta(seconds=1) - OFFSETS[zone]
    return seconds * 10**9 + moment[1] if "S" in form else moment[0].date()


def loaded_times(content: bytes, condition: str | None) -> Any:
    """Return times as a reader counts them, of the rows that a condition selects, or its message."""
    data = open_data(["-"], io.BytesIO(content), options=FileOptions(where=condition))
    try:
        table = data.load(["t", "y"], drop_missing=True)
    except ad.DataError as error:
        return re.sub(r"(line|row) \d+", "place", str(error))
    origin = data.origins["t"]
    since = origin.replace(tzinfo=origin.tzinfo or UTC).timestamp()
    return (
        {name: values.tolist() for name, values in table.columns.items()},
        since,
        data.notes[-1:] if condition else [],
    )


@given(st.lists(st.none() | MOMENTS, min_size=2, max_size=6), st.sampled_from([*FORMS]), st.data())
def test_times_are_the_same_in_text_lines_of_json_and_parquet(
    moments: list[tuple[datetime, int] | None], form: str, data: st.DataObject
) -> None:
    """Times with a zone and without are refused in one column, also where lines of JSON are read in blocks."""
    allowed = data.draw(st.sampled_from([["Z"], [*OFFSETS][1:], [*OFFSETS]] if "T" in form else [[""]]))
    zones = [data.draw(st.sampled_from(allowed)) for _ in moments]
    cells = [
        None if each is None else f"{each[0]:{form}}{f'.{each[1]:09}' * ('S' in form)}{zone}"
        for each, zone in zip(moments, zones, strict=True)
    ]
    first = next((cell for cell in cells if cell is not None), None)
    condition = data.draw(st.sampled_from([None, f"t <= '{first}'"]))
    text = "y,t\n" + "".join(f"{row},{cell or ''}\n" for row, cell in enumerate(cells))
    lines = "".join(f"{json.dumps({'y': row, 't': cell})}\n" for row, cell in enumerate(cells))
    expected = loaded_times(text.encode(), condition)
    with patch.object(formats, "_JSON_BLOCK_BYTES", data.draw(st.sampled_from([1, 1 << 22]))):
        assert loaded_times(lines.encode(), condition) == expected
    if first is not None and len({zone == "" for cell, zone in zip(cells, zones, strict=True) if cell}) == 1:
        times = [
            None if each is None else typed_time(each, form, zone) for each, zone in zip(moments, zones, strict=True)
        ]
        kind = FORMS[form] if "T" not in form or zones[cells.index(first)] else pa.timestamp("ns")
        buffer = io.BytesIO()
        pyarrow.parquet.write_table(pa.table({"y": [*range(len(cells))], "t": pa.array(times, kind)}), buffer)
        assert loaded_times(buffer.getvalue(), condition) == expected


def test_lines_of_json_have_one_type_per_column_in_all_blocks() -> None:
    for first, other in itertools.permutations(["1", '"2024-01-31"', "true", "[1]"], 2):
        content = f'{{"t": {first}, "y": 1}}\n{{"t": {other}, "y": 2}}\n'.encode()
        with (
            patch.object(formats, "_JSON_BLOCK_BYTES", 1),
            pytest.raises(ad.DataError, match=r"line 2, column `t`: .* but"),
        ):
            open_data(["-"], io.BytesIO(content)).load((), labels=["t"])


def test_a_column_that_only_later_lines_of_json_have_is_read() -> None:
    """NaN is no JSON, so that Arrow refuses these lines."""
    content = b'{"y": NaN}\n{"y": 2, "t": 3}\n'
    assert open_data(["-"], io.BytesIO(content)).load(["t", "y"], drop_missing=True).columns["t"].tolist() == [3]
