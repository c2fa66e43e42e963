"""Text with columns: CSV and TSV.

pyarrow reads it: it is fast, but of a bad cell it tells the column at most. So text that it refuses, or that has
missing cells, is read again with the standard `csv` module, which knows the line.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import math
import zlib
from collections.abc import Generator, Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.cells import MISSING, counted, is_broken, number, shown
from autodiff_cli.data.source import ByteSource
from autodiff_cli.data.table import DataError, Record, as_floats, as_texts, listing
from autodiff_cli.data.texts import NotPlain, TextColumns, has_quotes, text_batches

_BOM = b"\xef\xbb\xbf"
LONGEST_CELL = 1 << 24  # characters

# The module's own limit, which holds for the whole process, is lower than what tables have in columns of text.
csv.field_size_limit(max(csv.field_size_limit(), LONGEST_CELL))


class Delimited:
    """A text of records, the names of the columns first. See `files.ColumnFormat`."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._delimiter = ","
        records = self._records()
        self.header = next(records).cells
        self._rest: Iterator[Record] | None = records if source.once else None  # what has not been read
        if not source.once:
            records.close()

    def records(self) -> Generator[Record]:
        """See `ColumnFormat.records`."""
        if self._source.once:
            rest, self._rest = self._rest, None
            yield from rest or ()
            return
        with contextlib.closing(self._records()) as records:
            next(records)
            yield from records

    def texts(self) -> Generator[TextColumns]:
        """See `ColumnFormat.texts`."""
        if not self._source.is_long:
            raise NotPlain
        with self._source.text() as stream:
            _first_record(stream)
            if self._has_quotes(stream):
                raise NotPlain
        with self._source.text() as stream:
            _first_record(stream)
            yield from text_batches(stream, self._delimiter, len(self.header))

    def _has_quotes(self, stream: BinaryIO) -> bool:
        """Whether there are quotes, or what cannot be read."""
        try:
            return has_quotes(stream)
        except (OSError, EOFError, zlib.error):
            return True

    def columns(self, places: Mapping[str, int], drop_missing: bool, labels: str | None) -> dict[str, Any]:
        """See `ColumnFormat.columns`."""
        columns = self._read_fast(places, labels)
        if columns is None or not (drop_missing or all(map(_is_complete, columns.values()))):
            return self._read_carefully(places, drop_missing, labels)
        return columns

    def _read_fast(self, places: Mapping[str, int], labels: str | None) -> dict[str, Any] | None:
        """The columns, nan or None where a cell is missing; None if anything else is wrong."""
        import pyarrow as pa
        from pyarrow import csv as pa_csv

        # Columns by position: names that the model does not use may be empty, or twice there.
        positions = [str(place) for place in range(len(self.header))]
        chosen = {name: positions[place] for name, place in places.items()}
        types = {position: pa.string() if name == labels else pa.float64() for name, position in chosen.items()}
        with self._source.text() as stream:
            _first_record(stream)
            try:
                table = pa_csv.read_csv(
                    stream,
                    read_options=pa_csv.ReadOptions(column_names=positions),
                    parse_options=pa_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                    convert_options=pa_csv.ConvertOptions(
                        include_columns=[*types],
                        column_types=types,
                        null_values=[*MISSING],
                        strings_can_be_null=True,
                    ),
                )
            except (pa.ArrowInvalid, OSError, EOFError, zlib.error):
                return None
        return {
            name: as_texts(table.column(position)) if name == labels else as_floats(table.column(position))
            for name, position in chosen.items()
        }

    def _read_carefully(self, places: Mapping[str, int], drop_missing: bool, labels: str | None) -> dict[str, Any]:
        """The same, cell by cell. Raises DataError that lists what is wrong by line, column and text."""
        wrong: list[str] = []
        missing: list[str] = []
        columns: dict[str, list[Any]] = {name: [] for name in places}
        for place, cells in itertools.islice(self._records(), 1, None):
            if len(cells) != len(self.header):
                wrong.append(f"{place}: {counted(len(cells))}, but the header has {len(self.header)}")
                continue
            for name, k in places.items():
                cell = cells[k].strip()
                where = f"{place}, column `{name}`"
                if name == labels:
                    if is_broken(cell):
                        wrong.append(f"{where}: {shown(cell)}")
                    if cell in MISSING:
                        missing.append(f"{where}: {cell or 'empty'}")
                    columns[name].append(None if cell in MISSING else cell)
                    continue
                value = math.nan if cell in MISSING else number(cell)
                if value is None:
                    wrong.append(f"{where}: {shown(cell)} is not a number")
                elif not math.isfinite(value):
                    missing.append(f"{where}: {cell or 'empty'}")
                columns[name].append(math.nan if value is None else value)
        if wrong or (missing and not drop_missing):
            raise DataError(listing(wrong or missing, f"{self._source.name}: "), missing=not wrong)
        return {name: np.array(values, dtype=object if name == labels else None) for name, values in columns.items()}

    def _records(self) -> Generator[Record]:
        """Each record that is not blank, the header first, with the line on which it begins."""
        line = 1
        with self._source.text() as stream:
            try:
                first = _first_record(stream)
                self._delimiter = self._separator(first)
                text = io.TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline="")
                begun = io.StringIO(first.decode("utf-8").removeprefix("\ufeff"), newline="")
                reader = csv.reader(itertools.chain(begun, text), delimiter=self._delimiter)
                for cells in reader:
                    if cells:
                        yield Record(f"line {line}", cells)
                    line = reader.line_num + 1
                text.detach()
            except (csv.Error, OSError, EOFError, zlib.error) as error:
                raise self._source.unreadable(error, line) from None

    def _separator(self, first: bytes) -> str:
        """What separates the columns, from the record that names them. Raises DataError if it names none."""
        name = self._source.name
        try:
            record = first.decode("utf-8").strip("\ufeff\r\n")
        except UnicodeDecodeError:
            raise DataError(f"{name}: line 1 is not UTF-8 text; save the file as UTF-8") from None
        if not record:
            raise DataError(f"{name}: the file is empty")
        if ";" in record and "," not in record and "\t" not in record:
            raise DataError(
                f"{name}: the columns are separated by semicolons; commas or tabs are needed "
                "(`tr ';' ',' < FILE` makes them commas, if numbers have decimal points)"
            )
        delimiter = "\t" if "\t" in record and "," not in record else ","
        cells = next(csv.reader([record], delimiter=delimiter))
        if all(number(cell) is not None for cell in cells):
            raise DataError(f"{name}: the first line holds numbers; it must hold the names of the columns")
        return delimiter


def _first_record(stream: BinaryIO) -> bytes:
    """Read the first record that is not blank, which may have line ends within quotes."""
    record = b""
    while line := stream.readline():
        record += line
        if record.strip(_BOM + b"\r\n") and record.count(b'"') % 2 == 0:
            break
    return record


def _is_complete(column: NDArray[Any]) -> bool:
    return bool(np.isfinite(column).all()) if column.dtype.kind == "f" else None not in column.tolist()
