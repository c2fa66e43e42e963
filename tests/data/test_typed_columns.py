"""Random columns of every type, in formats with types, workbooks and lines of JSON: read as they were written."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, parquet

import autodiff_cli as ad
from autodiff_cli.data import formats
from autodiff_cli.data.batches import ColumnQuery, MissingCells
from autodiff_cli.data.dialect import FileOptions
from autodiff_cli.data.files import DataSource, open_data
from autodiff_cli.data.table import DataError
from tests.each import amount, examples

TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # per second
DAY = 86_400


class Written(NamedTuple):
    """A column as it is written, and what it is read as.

    Attributes:
        cells: the cells, for Arrow of the type `kind`.
        numbers: the numbers, None for missing ones; None in all for a column without numbers.
        texts: the labels, None for missing ones; None in all for a column that is not compared as text.
    """

    kind: pa.DataType | None
    cells: Sequence[Any]
    numbers: Sequence[float | None] | None
    texts: Sequence[str | None] | None


def written(
    kind: pa.DataType | None,
    cells: Sequence[Any],
    number: Callable[[Any], float] | None,
    text: Callable[[Any], str] | None = None,
) -> Written:
    numbers = None if number is None else [None if cell is None else number(cell) for cell in cells]
    return Written(kind, cells, numbers, None if text is None else [None if c is None else text(c) for c in cells])


def counted(cells: Sequence[int | None], rate: int) -> Callable[[int], float]:
    """Return the seconds of a time since the first one, whose own are known to the microsecond."""
    first = next((cell for cell in cells if cell is not None), 0)
    origin = Fraction(first * 10**6 // rate, 10**6)
    return lambda ticks: float(Fraction(ticks, rate) - origin)


def moment_text(ticks: int, rate: int) -> str:
    """Return a time as its label: to the microsecond if that is exact, otherwise with nine digits."""
    seconds, rest = divmod(ticks, rate)
    nanoseconds = rest * (10**9 // rate)
    text = str(datetime(1970, 1, 1) + timedelta(seconds=seconds))
    if nanoseconds % 1000:
        return f"{text}.{nanoseconds:09d}"
    return (f"{text}.{nanoseconds // 1000:06d}" if nanoseconds else text).removesuffix(" 00:00:00")


def columns_of_types(chance: Random, rows: int) -> dict[str, Written]:
    """Return a column of each type of Arrow with random values, of which some, all or none are missing."""

    def cells(value: Callable[[], Any]) -> list[Any]:
        missing = chance.choice([0.0, 0.0, 0.3, 1.0 if rows < 3 else 0.6])
        return [None if chance.random() < missing else value() for _ in range(rows)]

    found: dict[str, Written] = {}
    for width in (8, 16, 32, 64):
        for name, low in ((f"int{width}", -(2 ** (width - 1))), (f"uint{width}", 0)):
            high = low + 2**width - 1
            values = cells(lambda low=low, high=high: chance.choice([low, high, 0, chance.randint(low, high)]))
            found[name] = written(
                getattr(pa, name)(), values, float, str if max(map(abs, (low, high))) < 2**53 else None
            )
    for name, kind in (("half", np.float16), ("single", np.float32), ("double", np.float64)):
        values = cells(lambda kind=kind: kind(chance.gauss(0, 1) * 10.0 ** chance.randint(-4, 4)))
        found[name] = written(pa.from_numpy_dtype(kind), values, float)
    for name, make, precision in (("decimal", pa.decimal128, 38), ("wide decimal", pa.decimal256, 76)):
        scale = chance.randint(0, precision)
        digits = cells(lambda precision=precision: chance.randint(1 - 10**precision, 10**precision - 1))
        values = [None if n is None else Decimal((n < 0, [*map(int, str(abs(n)))], -scale)) for n in digits]
        found[name] = written(make(precision, scale), values, lambda cell: float(Fraction(cell)))
    for unit, rate in TICKS.items():
        whole = chance.random() < 0.3  # seconds, at midnight
        ticks = cells(
            lambda r=rate, w=whole: (
                chance.randint(-9999, 9999) * DAY * r if w else chance.randint(-(10**9), 10**9) * r // 7
            )
        )
        seconds = counted(ticks, rate)
        found[f"times in {unit}"] = written(pa.timestamp(unit), ticks, seconds, lambda t, r=rate: moment_text(t, r))
        found[f"zoned in {unit}"] = written(pa.timestamp(unit, "Europe/Berlin"), ticks, seconds)
        spans = cells(lambda: chance.randint(-(10 ** chance.randint(1, 15)), 10 ** chance.randint(1, 15)))
        found[f"spans in {unit}"] = written(pa.duration(unit), spans, lambda t, r=rate: float(Fraction(t, r)))
        clock = cells(lambda r=rate: chance.randint(0, DAY - 1) * r + chance.choice([0, chance.randint(0, r - 1)]))
        make = pa.time32 if unit in ("s", "ms") else pa.time64
        clock_text = lambda t, r=rate: moment_text(t + r * DAY, r)[11:] or "00:00:00"  # noqa: E731
        found[f"clock in {unit}"] = written(make(unit), clock, counted(clock, rate), clock_text)
    days = cells(lambda: chance.randint(-200_000, 200_000))
    found["days"] = written(
        pa.date32(), days, counted(days, 1), lambda day: str(date(1970, 1, 1) + timedelta(days=day))
    )
    found["days"] = found["days"]._replace(
        numbers=[None if x is None else x * DAY for x in found["days"].numbers or ()]
    )
    found["truth"] = written(pa.bool_(), cells(lambda: chance.random() < 0.5), float, lambda cell: str(cell).lower())
    words = chance.choice([["a", "b c"], ["x,y", 'q"q'], ["é", "λ₁", "日本"], ["1x", "2;3"]])
    for name, kind in (("text", pa.string()), ("long text", pa.large_string()), ("views", pa.string_view())):
        found[name] = written(kind, cells(lambda: chance.choice(words)), None, str)
    found["bytes"] = written(pa.binary(), cells(lambda: chance.choice(words).encode()), None, bytes.decode)
    found["lists"] = written(pa.list_(pa.int8()), cells(lambda: [chance.randint(0, 3)] * 2), None, str)
    found["records"] = written(pa.struct({"p": pa.int8()}), cells(lambda: {"p": chance.randint(0, 3)}), None, str)
    found["nothing"] = written(pa.null(), [None] * rows, float)
    return found


def opened(content: bytes, **options: Any) -> DataSource:
    return open_data(["-"], io.BytesIO(content), options=FileOptions(**options))


def assert_read(columns: Mapping[str, Written], content: bytes, where: Any, **options: Any) -> None:
    """Every column is read as numbers, as labels, and as the text that is copied, which reads back as the numbers."""
    blocks = [cells if isinstance(cells, list) else cells.rows() for cells in opened(content, **options).iter_rows()]
    texts = dict(zip(columns, zip(*(row for block in blocks for row in block), strict=True), strict=True))
    for name, column in columns.items():
        place = where, name
        if column.numbers is None:
            if any(cell is not None for cell in column.cells):
                with pytest.raises(DataError, match=r"not a number|not numbers"):
                    opened(content, **options).read(ColumnQuery([name], (), MissingCells.KEEP))
        else:
            found = opened(content, **options).read(ColumnQuery([name], (), MissingCells.KEEP)).columns[name].tolist()
            assert [None if math.isnan(x) else float(x) for x in found] == column.numbers, place
        if column.texts is not None:
            labels = opened(content, **options).read(ColumnQuery((), [name], MissingCells.KEEP)).labels[name]
            assert [None if c < 0 else str(labels.values[c]) for c in labels.codes] == column.texts, place
        elif column.numbers is not None and "zoned" not in name:
            kind = {"half": np.float16, "single": np.float32}.get(name, float)  # their shortest decimal numbers
            assert [kind(x) if x else None for x in texts[name]] == [
                None if x is None else kind(x) for x in column.numbers
            ], place


def test_columns_of_every_type_are_read_as_they_were_written() -> None:
    for seed in range(amount(3, 12, 100)):
        chance = Random(seed)
        columns = columns_of_types(chance, chance.choice([1, 2, 9]))
        for coded in ("text", "days", "int16", "spans in ms", "times in ns"):
            columns[f"codes of {coded}"] = columns[coded]
        arrays = {name: pa.array(column.cells, column.kind) for name, column in columns.items()}
        table = pa.table({n: a.dictionary_encode() if n.startswith("codes") else a for n, a in arrays.items()})
        stream = io.BytesIO()
        feather.write_feather(table, stream, chunksize=chance.choice([1, 2, 100]))
        assert_read(columns, stream.getvalue(), (seed, "Arrow"))
        # Parquet writes codes of spans as codes of integers.
        here = {name: column for name, column in columns.items() if name != "codes of spans in ms"}
        stream = io.BytesIO()
        parquet.write_table(table.select([*here]), stream, row_group_size=chance.choice([1, 2, 100]))
        assert_read(here, stream.getvalue(), (seed, "Parquet"))


@pytest.mark.slow
def test_times_with_nanoseconds_are_read_without_pandas() -> None:
    """With it, pyarrow represents them by types of pandas; without, it has none for them."""
    program = (
        "import sys\n"
        "class NoPandas:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'pandas':\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, NoPandas())\n"
        "import tests.data.test_typed_columns as here\n"
        "here.test_columns_of_every_type_are_read_as_they_were_written()\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# --- workbooks


def columns_of_cells(chance: Random, rows: int) -> dict[str, Written]:
    """Return columns of random values that cells of a workbook can hold, some of which are empty."""

    def cells(value: Callable[[], Any]) -> list[Any]:
        missing = chance.choice([0.0, 0.3])
        return [None if k and chance.random() < missing else value() for k in range(rows)]  # the first has the kind

    words = chance.choice(
        [["a", "b"], ["x;y", "p;q"], ["a|b", "c|d"], ["A B", "C D"], ['"hi"', "it's"], ["u, v", "w, x"]]
    )
    moments = cells(lambda: datetime(2020, 1, 1) + timedelta(seconds=chance.randint(0, 10**8)))
    days = cells(lambda: datetime(2000, 1, 1) + timedelta(days=chance.randint(0, 9999)))
    since = [lambda cell, first=column[0]: (cell - first).total_seconds() for column in (moments, days)]
    label = lambda cell: str(cell).removesuffix(" 00:00:00")  # noqa: E731
    clock = cells(lambda: time(chance.randint(0, 23), chance.randint(0, 59), chance.randint(0, 59)))
    of_day = [None if t is None else t.hour * 3600 + t.minute * 60 + t.second for t in clock]
    seconds = dict(zip(clock, of_day, strict=True))
    return {
        "whole": written(None, cells(lambda: chance.randint(-(10**15), 10**15)), float, str),
        "a;b": written(
            None, cells(lambda: float(f"{chance.gauss(0, 1) * 10.0 ** chance.randint(-99, 99):.14g}")), float
        ),
        "yes or no": written(None, cells(lambda: chance.random() < 0.5), float, lambda cell: str(cell).lower()),
        "moment": written(None, moments, since[0], label),
        "Temp [°C]": written(None, days, since[1], label),
        "p|q": written(None, clock, lambda cell: float(seconds[cell] - of_day[0]), str),
        "first name": written(None, cells(lambda: chance.choice(words)), None, str),
    }


def test_cells_of_workbooks_are_read_as_they_were_written() -> None:
    """A column of names with blanks, semicolons or bars was read as several, as in a text file."""
    openpyxl = pytest.importorskip("openpyxl")
    for seed in range(amount(15, 60, 500)):
        chance = Random(seed)
        every = columns_of_cells(chance, chance.choice([1, 2, 6]))
        names = chance.sample([*every], chance.randint(1, 3))
        columns = {name: every[name] for name in names}
        rows = [*zip(*(column.cells for column in columns.values()), strict=True)]
        kept = [k for k, row in enumerate(rows) if any(cell is not None for cell in row)]
        book, stream, options = openpyxl.Workbook(), io.BytesIO(), {}
        sheet = book.active
        if chance.random() < 0.5:
            sheet.append(["other"])
            options = {"sheet": "Mes données"}
            sheet = book.create_sheet(options["sheet"])
        for row in [names, *rows]:
            sheet.append(row)
        book.save(stream)
        columns = {
            name: Written(None, *([each[k] for k in kept] if each is not None else None for each in column[1:]))
            for name, column in columns.items()
        }
        file = opened(stream.getvalue(), **options)
        assert (file.names, file.notes, file.files[0].format.options) == ((*names,), [], ()), seed
        assert_read(columns, stream.getvalue(), seed, **options)


# --- lines of JSON


def columns_of_values(chance: Random, rows: int) -> dict[str, Written]:
    """Return columns of random values that JSON has, some of which are missing."""

    def cells(value: Callable[[], Any]) -> list[Any]:
        missing = chance.choice([0.0, 0.4])
        return [None if k and chance.random() < missing else value() for k in range(rows)]

    moments = cells(lambda: datetime(2020, 1, 1) + timedelta(seconds=chance.randint(0, 10**8)))
    words = chance.choice([["a", "b c"], ["é", "日本", "\U0001f600"], ['q"q', "a\\b"], ["1x", "x,y"]])
    return {
        "whole": written(None, cells(lambda: chance.randint(-(10**15), 10**15)), float, str),
        "huge": written(None, cells(lambda: chance.choice([2**53 + 1, 2**64, 10**30])), float),
        "x": written(None, cells(lambda: chance.choice([1, 0.5, chance.gauss(0, 1) * 1e-200])), float),
        "Temp [°C]": written(None, cells(lambda: chance.random() < 0.5), float, lambda cell: str(cell).lower()),
        "moment": written(None, moments, lambda cell: (cell - moments[0]).total_seconds(), str),
        'a "b"': written(None, cells(lambda: chance.choice(words)), None, str),
    }


def test_lines_of_json_are_read_as_they_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Null and absent values are missing. Lines are parsed in blocks, here of a few."""
    for seed in range(amount(25, 100, 1000)):
        chance = Random(seed)
        rows = chance.choice([1, 3, 9])
        every = columns_of_values(chance, rows)
        columns, lines = {name: every[name] for name in chance.sample([*every], 4)}, []
        for k in range(rows):
            items = [(name, column.cells[k]) for name, column in columns.items()]
            given = [item for item in items if k == 0 or item[1] is not None or chance.random() < 0.5]
            values = dict(given if k == 0 else chance.sample(given, len(given)))
            lines.append(json.dumps(values, default=str, ensure_ascii=False) + chance.choice(["\n", "\r\n"]))
        monkeypatch.setattr(formats, "_JSON_BLOCK_BYTES", chance.choice([1, 100, 1 << 22]))
        assert_read(columns, "".join(lines).encode(), seed)


TEXTS = ["nan", "NaN", "-nan", "NA", "inf", "-inf", "1e999", "1e998", "9" * 400, "9" * 399 + "8", "7", "07", "7.0", "8"]


@examples(50)
@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=6))
def test_labels_are_numbers_only_if_all_of_them_are_finite_numbers(texts: list[str]) -> None:
    """Fits ended with a traceback for the text `nan` among numbers in Parquet, and for labels of hundreds of digits."""
    are_numbers = {*texts} <= {"7", "07", "7.0", "8"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "labels.parquet")
        parquet.write_table(pa.table({"g": texts, "y": [*map(float, range(len(texts)))]}), file)
        fit = ad.fit("y ~ a[g]", ad.read_data(file))
    assert {*fit.parameters} == {f"a[{int(float(text))}]" if are_numbers else f"a[{text}]" for text in texts}


JSON_NUMBERS = ["0", "-0.0", "0.5", "1e400", "-1e400", "1e-400", "null", "NaN", "9" * 5000]
JSON_NUMBERS += [f"{sign}{2**bits + step}" for bits in (53, 63, 64, 80) for step in (-1, 0, 1) for sign in ("", "-")]


@examples(100)
@given(st.lists(st.tuples(st.sampled_from(JSON_NUMBERS), st.sampled_from(JSON_NUMBERS)), min_size=1, max_size=5))
def test_numbers_of_any_size_in_json_are_floats(rows: list[tuple[str, str]]) -> None:
    """A number beyond 64 bits, or beyond 53 beside others, was an error if another was beyond the range of floats."""
    lines = "".join(f'{{"x": {x}, "y": {y}}}\n' for x, y in rows)
    found = opened(lines.encode()).read(ColumnQuery(["x", "y"], (), MissingCells.KEEP)).columns
    for name, texts in zip("xy", zip(*rows, strict=True), strict=True):
        np.testing.assert_array_equal(found[name], [float(text.replace("null", "nan")) for text in texts])
