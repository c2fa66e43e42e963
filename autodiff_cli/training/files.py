"""Data files: CSV, TSV, gzip of either, Parquet.

pyarrow reads them: it is fast, but of a bad cell it tells the column at most. So text that it refuses, or that has
missing cells, is read again with the standard `csv` module, which knows the line.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import math
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.language.lexer import canonical
from autodiff_cli.training.data import Array, DataError, Labels, Table, as_labels, complete, listing

# What stands for no value: a blank, or what spreadsheets, R and pandas write.
_MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL")
_BOM = b"\xef\xbb\xbf"
_PIECE = 1 << 20  # bytes that are read at a time


class DataFile:
    """A file of named columns, as a Dataset. Its content tells the format, not its name.

    Args:
        path: `-` stands for `stdin`.
        stdin: where `-` is read from.

    Raises:
        DataError: if there is no such file, or no header that can be read.
    """

    def __init__(self, path: str, stdin: BinaryIO | None = None) -> None:
        self.name = "standard input" if path == "-" else path
        self._path = Path(path)
        self._bytes: bytes | None = None
        self._delimiter = ","
        try:
            if path == "-" and stdin is not None:
                self._bytes = _all_of(stdin)
            elif not (self._path.is_file() or self._path.is_dir()):
                with self._path.open("rb") as pipe:  # it gives its bytes only once
                    self._bytes = _all_of(pipe)
            with self._raw() as stream:
                start = stream.read(4)
        except OSError as error:
            raise self._unreadable(error) from None
        self._zipped = start.startswith(b"\x1f\x8b")
        self._parquet = start == b"PAR1"
        self._header = self._parquet_header() if self._parquet else self._text_header()
        self.names = tuple(dict.fromkeys(name for name in self._header if name))

    def load(self, wanted: Collection[str], *, drop_missing: bool = False, labels: str | None = None) -> Table:
        """See `Dataset.load`. Only the columns asked for are read. Labels that are all numbers as text are numbers."""
        places = {name: place for place, name in enumerate(self._header) if name in wanted or name == labels}
        if not places:
            raise DataError(f"{self.name}: the model uses none of its columns ({', '.join(self.names)})")
        for name in places:
            if self._header.count(name) > 1:
                raise DataError(f"{self.name}: the header names the column `{name}` more than once")
        if self._parquet:
            columns = self._parquet_columns(places, labels)
        else:
            columns = self._text_columns(places, drop_missing, labels)
        named = None
        if labels is not None:
            named = Labels(labels, *as_labels(_as_numbers(columns.pop(labels)), labels))
        return complete(columns, drop_missing, f"{self.name}: ", named)

    def rows(self) -> Iterator[list[str]]:
        """All rows as text, cell by cell, below a first one with the names of the columns as the file spells them."""
        return (cells for _, cells in self.numbered_rows())

    def numbered_rows(self) -> Iterator[tuple[str, list[str]]]:
        """The same, each with its place: `line 2`, or `row 1` of a file that has no lines."""
        if self._parquet:
            return ((f"row {k}", cells) for k, cells in enumerate(self._parquet_rows()))
        return ((f"line {line}", cells) for line, cells in self._records())

    # --- text

    def _text_header(self) -> list[str]:
        try:
            with self._stream() as stream:
                record = _first_record(stream).removeprefix(_BOM).decode("utf-8").strip("\r\n")
        except UnicodeDecodeError:
            raise DataError(f"{self.name}: line 1 is not UTF-8 text; save the file as UTF-8") from None
        except (OSError, EOFError, zlib.error) as error:
            raise self._unreadable(error) from None
        if not record:
            raise DataError(f"{self.name}: the file is empty")
        if "\t" in record and "," not in record:
            self._delimiter = "\t"
        elif ";" in record and "," not in record:
            raise DataError(
                f"{self.name}: the columns are separated by semicolons; commas or tabs are needed "
                "(`tr ';' ',' < FILE` makes them commas, if numbers have decimal points)"
            )
        _, cells = next(self._records())
        if all(_number(cell) is not None for cell in cells):
            raise DataError(f"{self.name}: the first line holds numbers; it must hold the names of the columns")
        return [canonical(cell.strip()) for cell in cells]

    def _text_columns(self, places: Mapping[str, int], drop_missing: bool, labels: str | None) -> dict[str, Any]:
        columns = self._read_fast(places, labels)
        if columns is None or not (drop_missing or all(map(_is_complete, columns.values()))):
            return self._read_carefully(places, drop_missing, labels)
        return columns

    def _read_fast(self, places: Mapping[str, int], labels: str | None) -> dict[str, Any] | None:
        """The columns, nan or None where a cell is missing; None if anything else is wrong."""
        import pyarrow as pa
        from pyarrow import csv as pa_csv

        # Columns by position: names that the model does not use may be empty, or twice there.
        positions = [str(place) for place in range(len(self._header))]
        chosen = {name: positions[place] for name, place in places.items()}
        types = {position: pa.string() if name == labels else pa.float64() for name, position in chosen.items()}
        with self._stream() as stream:
            _first_record(stream)
            try:
                table = pa_csv.read_csv(
                    stream,
                    read_options=pa_csv.ReadOptions(column_names=positions),
                    parse_options=pa_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                    convert_options=pa_csv.ConvertOptions(
                        include_columns=[*types],
                        column_types=types,
                        null_values=[*_MISSING],
                        strings_can_be_null=True,
                    ),
                )
            except (pa.ArrowInvalid, OSError, EOFError, zlib.error):
                return None
        return {
            name: _texts(table.column(position)) if name == labels else _floats(table.column(position))
            for name, position in chosen.items()
        }

    def _read_carefully(self, places: Mapping[str, int], drop_missing: bool, labels: str | None) -> dict[str, Any]:
        """The same, cell by cell. Raises DataError that lists what is wrong by line, column and text."""
        wrong: list[str] = []
        missing: list[str] = []
        columns: dict[str, list[Any]] = {name: [] for name in places}
        records = self._records()
        next(records)
        for line, cells in records:
            if len(cells) != len(self._header):
                wrong.append(f"line {line}: {_counted(len(cells))}, but the header has {len(self._header)}")
                continue
            for name, place in places.items():
                cell = cells[place].strip()
                if name == labels:
                    if cell in _MISSING:
                        missing.append(f"line {line}, column `{name}`: {cell or 'empty'}")
                    columns[name].append(None if cell in _MISSING else cell)
                    continue
                number = math.nan if cell in _MISSING else _number(cell)
                if number is None:
                    wrong.append(f"line {line}, column `{name}`: {_shown(cell)} is not a number")
                elif not math.isfinite(number):
                    missing.append(f"line {line}, column `{name}`: {cell or 'empty'}")
                columns[name].append(math.nan if number is None else number)
        if wrong or (missing and not drop_missing):
            raise DataError(listing(wrong or missing, f"{self.name}: "), missing=not wrong)
        return {name: np.array(values, dtype=object if name == labels else None) for name, values in columns.items()}

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Each record that is not blank, the header first, with the number of the line on which it begins."""
        with self._stream() as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
            reader = csv.reader(text, delimiter=self._delimiter)
            line = 1
            try:
                for cells in reader:
                    if cells:
                        yield line, cells
                    line = reader.line_num + 1
            except (csv.Error, OSError, EOFError, zlib.error) as error:
                raise self._unreadable(error, line) from None

    # --- Parquet

    def _parquet_header(self) -> list[str]:
        from pyarrow import parquet

        with self._raw() as stream:
            try:
                return [canonical(name.strip()) for name in parquet.ParquetFile(stream).schema_arrow.names]
            except (OSError, ValueError) as error:
                raise self._unreadable(error) from None

    def _parquet_columns(self, places: Mapping[str, int], labels: str | None) -> dict[str, Any]:
        import pyarrow as pa
        from pyarrow import parquet

        with self._raw() as stream:
            file = parquet.ParquetFile(stream)
            names = {name: file.schema_arrow.names[place] for name, place in places.items()}
            try:
                table = file.read(columns=list(names.values()))
            except (OSError, ValueError) as error:
                raise self._unreadable(error) from None
        columns: dict[str, Any] = {}
        for name, own in names.items():
            cells = table.column(own)
            if name == labels:
                columns[name] = _texts(cells)
                continue
            if pa.types.is_boolean(cells.type):
                cells = cells.cast(pa.int8())
            try:
                columns[name] = _floats(cells.cast(pa.float64(), safe=False))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise DataError(
                    f"{self.name}: column `{name}` holds values of type {cells.type}, not numbers"
                ) from None
        return columns

    def _parquet_rows(self) -> Iterator[list[str]]:
        from pyarrow import parquet

        with self._raw() as stream:
            try:
                table = parquet.read_table(stream)
            except (OSError, ValueError) as error:
                raise self._unreadable(error) from None
        yield table.column_names
        for cells in zip(*(column.to_pylist() for column in table.columns), strict=True):
            yield ["" if cell is None else str(cell) for cell in cells]

    # --- bytes

    def _raw(self) -> BinaryIO:
        return self._path.open("rb") if self._bytes is None else io.BytesIO(self._bytes)

    @contextlib.contextmanager
    def _stream(self) -> Iterator[BinaryIO]:
        """The bytes of the text, unzipped."""
        with self._raw() as raw:
            if not self._zipped:
                yield raw
                return
            with gzip.GzipFile(fileobj=raw) as unzipped:
                yield cast(BinaryIO, unzipped)

    def _unreadable(self, error: Exception, line: int | None = None) -> DataError:
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        return DataError(f"{self.name}: {'' if line is None else f'line {line}: '}{reason}")


def _all_of(stream: BinaryIO) -> bytes:
    """All bytes, by steps between which an endless stream can be interrupted."""
    return b"".join(iter(lambda: stream.read(_PIECE), b""))


def _first_record(stream: BinaryIO) -> bytes:
    """Read the first record that is not blank, which may have line ends within quotes."""
    record = b""
    while line := stream.readline():
        record += line
        if record.strip(_BOM + b"\r\n") and record.count(b'"') % 2 == 0:
            break
    return record


def _number(cell: str) -> float | None:
    """The number that a cell holds; None if it holds none. What Python reads but files do not mean (`1_0`) is none."""
    if not cell.isascii() or "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _counted(cells: int) -> str:
    return "1 cell" if cells == 1 else f"{cells} cells"


def _floats(cells: object) -> Array:
    return np.array(cells, dtype=np.float64)


def _texts(cells: Any) -> NDArray[np.object_]:
    """Labels as they stand, without the blanks around them; None for those that are missing."""
    return np.array([cell.strip() if isinstance(cell, str) else cell for cell in cells.to_pylist()], dtype=object)


def _is_complete(column: NDArray[Any]) -> bool:
    return bool(np.isfinite(column).all()) if column.dtype.kind == "f" else None not in column.tolist()


def _as_numbers(labels: NDArray[np.object_]) -> NDArray[Any]:
    """The same as numbers, nan where one is missing, if all of them are written as numbers."""
    found = [math.nan if label is None else _number(str(label)) for label in labels.tolist()]
    return labels if None in found else np.array(found, dtype=np.float64)


def _shown(cell: str) -> str:
    if any("\udc80" <= character <= "\udcff" for character in cell):
        return "text that is not UTF-8"
    return f'"{cell}"' if len(cell) <= 40 else f'"{cell[:39]}…"'
