"""The formats of data files: Parquet, Arrow (Feather) and lines of JSON here, delimited text in `delimited`.

The two classes `ArrowFormat` and `delimited.DelimitedText` have the same methods; `ColumnFormat` is either of them.
`detect_format` chooses the format from the first bytes of a file.
"""

from __future__ import annotations

import abc
import contextlib
import csv
import dataclasses
import io
import itertools
import json
import re
import warnings
import zipfile
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, BinaryIO, TypeAlias, cast

import numpy as np

from autodiff_cli.data import batches
from autodiff_cli.data.delimited import DelimitedText, parse_block
from autodiff_cli.data.dialect import MISSING_VALUES, NO_DATE, CellKind, CellParser, DataError, FileOptions
from autodiff_cli.data.json_records import parse_json
from autodiff_cli.data.source import ByteSource
from autodiff_cli.data.table import Record, TextBatch, format_numbers
from autodiff_cli.language.errors import format_names
from autodiff_cli.options import command_words

# --- Formats that pyarrow reads


_JSON_BLOCK_BYTES = 1 << 22  # bytes of lines of JSON that are parsed together
_TEXT_BATCH_ROWS = 1 << 15  # rows that are converted to text together: text takes several times the memory
_COLUMN_BUFFER_BYTES = 1 << 20  # bytes of a column per read
_MAX_JSON_DEPTH = 100  # levels of nesting: values are numbers or texts, and more could overflow the stack


_JSON_KEY = re.compile(rb'"\s*:')  # the end of each key; also found in some texts
_JSON_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


class ArrowFormat(abc.ABC):
    """A format of typed columns that pyarrow reads.

    Attributes:
        title: the name of the format.
        header: the names of the columns as the file has them.
        has_types: whether all cells of a column are known to have one type.
        divisible_range: the range of row groups, if parts of it can be read separately; otherwise None.
        is_slow_to_parse: whether parsing takes long because numbers are written as text.
        notes: sentences on how the file was interpreted, as far as that was detected.
        units: the unit of each column of the header; none.
        options: the command-line options that request the same interpretation explicitly.
    """

    title: str
    has_types: bool = True
    divisible_range: tuple[int, int] | None = None
    is_slow_to_parse: bool = False
    notes: tuple[str, ...] = ()
    units: Mapping[str, str] = MappingProxyType({})
    options: tuple[str, ...] = ()

    def __init__(self, source: ByteSource, date_format: str | None = None) -> None:
        self._source, self._date_format = source, date_format
        with self._open_checked() as stream:
            self.header = tuple(self._read_schema(stream).names)

    @abc.abstractmethod
    def _read_schema(self, stream: BinaryIO) -> Any:
        """Return the names and types of the columns as a `pyarrow.Schema`."""

    def restrict(self, begin: int, end: int) -> None:
        """Restrict `iter_batches` to the rows of a part of the divisible range."""
        raise NotImplementedError

    @abc.abstractmethod
    def _iter_tables(self, stream: BinaryIO, names: list[str] | None, size: int) -> Iterator[Any]:
        """Yield columns as tables of about `size` rows. Without names, yield all of them, in the order of the file."""

    @abc.abstractmethod
    def estimate_rows(self) -> int:
        """Return the number of rows, estimated from the first ones if the file does not state it."""

    def _open_stream(self) -> contextlib.AbstractContextManager[BinaryIO]:
        return self._source.open_raw()

    def text_positions(self) -> set[int]:
        """Return the positions of columns that do not hold numbers, truth values or times."""
        import pyarrow as pa

        with self._open_checked() as stream:
            types = self._read_schema(stream).types
        types = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in types]
        is_numeric = (pa.types.is_primitive, pa.types.is_decimal, pa.types.is_null)
        return {position for position, kind in enumerate(types) if not any(is_of(kind) for is_of in is_numeric)}

    def new_parser(self) -> CellParser:
        """Return a parser, which records the kind of a column."""
        return CellParser(date_format=self._date_format)

    def iter_batches(self, request: batches.ColumnRequest) -> Generator[batches.RawBatch]:
        """Yield columns of some rows at a time. Raises DataError for columns that are not numbers."""
        names = {name: self.header[position] for name, position in request.positions.items()}
        rows = 0
        with self._open_checked() as stream:
            for table in self._iter_tables(stream, list(names.values()), request.batch_rows):
                yield {
                    name: batches.arrow_labels(table.column(original), self.new_parser().label)
                    if name in request.labels
                    else self._numeric_column(table.column(original), request.parsers[name], original, rows)
                    for name, original in names.items()
                }
                rows += table.num_rows

    def _numeric_column(self, cells: Any, parser: CellParser, original: str, rows: int) -> Any:  # noqa: ARG002
        """Return an Arrow column as numbers, after the given number of rows. Raises DataError for other types."""
        import pyarrow as pa

        cells = batches.without_dictionary(cells)
        if pa.types.is_decimal(cells.type):
            cells = cells.cast(pa.string())  # which is exact; Arrow's cast to floats errs in the last digit
        if pa.types.is_boolean(cells.type):
            cells, parser.kind = cells.cast(pa.int8()), CellKind.BOOLEAN
        if pa.types.is_temporal(cells.type):
            return _seconds_since_origin(cells, parser)
        try:
            if not cells.null_count and (native := batches.arrow_native(cells)) is not None:
                return native
            return batches.arrow_floats(cells.cast(pa.float64(), safe=False))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            problem = f"column `{original}` holds values of type {format_names([str(cells.type)])}, not numbers"
            raise DataError(f"{self._source.name}: {problem}") from None

    def iter_text_batches(self) -> Generator[TextBatch]:
        """Yield the rows as columns of text."""
        import pyarrow as pa

        names = [*map(str, range(len(self.header)))]  # the names of the file may not be unique
        with self._open_checked() as stream:
            for table in self._iter_tables(stream, None, _TEXT_BATCH_ROWS):
                for batch in table.combine_chunks().to_batches():
                    cells = [_column_as_text(column) for column in batch.columns]
                    yield TextBatch(pa.RecordBatch.from_arrays(cells, names=names))

    def iter_records(self) -> Generator[Record]:
        """Yield the rows as text with their locations."""
        with contextlib.closing(self.iter_text_batches()) as parts:
            for number, cells in enumerate(itertools.chain.from_iterable(part.rows() for part in parts), 1):
                yield Record(f"row {number}", cells)

    @contextlib.contextmanager
    def _open_checked(self) -> Iterator[BinaryIO]:
        """Open the file. Errors of pyarrow while it is open are raised as DataError."""
        import pyarrow as pa

        with self._open_stream() as stream:
            try:
                yield stream
            except (OSError, EOFError, ValueError, OverflowError, pa.ArrowException) as error:
                raise self._source.read_error(error) from None


class Parquet(ArrowFormat):
    """The Parquet format. Row groups can be read separately."""

    MAGIC = b"PAR1"
    title = "Parquet"
    _row_groups: list[int] | None = None  # None for all

    def _read_schema(self, stream: BinaryIO) -> Any:
        from pyarrow import parquet

        file = parquet.ParquetFile(stream)
        self.divisible_range, self._rows = (0, file.num_row_groups), file.metadata.num_rows
        return file.schema_arrow

    def restrict(self, begin: int, end: int) -> None:
        """Restrict reading to some row groups."""
        self._row_groups = [*range(begin, end)]

    def estimate_rows(self) -> int:
        """Return the number of rows."""
        return self._rows

    def _iter_tables(self, stream: BinaryIO, names: list[str] | None, size: int) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import parquet

        # With a buffer, long row groups are not read as a whole.
        file = parquet.ParquetFile(stream, buffer_size=_COLUMN_BUFFER_BYTES, pre_buffer=False)
        for batch in file.iter_batches(batch_size=size, row_groups=self._row_groups, columns=names):
            yield pa.Table.from_batches([batch])


class Feather(ArrowFormat):
    """Arrow's file format, which is also Feather version 2."""

    MAGIC = b"ARROW1"
    title = "Arrow (Feather)"

    def _read_schema(self, stream: BinaryIO) -> Any:
        from pyarrow import ipc

        return ipc.open_file(cast(io.IOBase, stream)).schema

    def estimate_rows(self) -> int:
        """Return the number of rows, estimated from the first batch."""
        from pyarrow import ipc

        with self._open_checked() as stream:
            file = ipc.open_file(cast(io.IOBase, stream), options=ipc.IpcReadOptions(included_fields=[0]))
            return int(file.num_record_batches and file.num_record_batches * file.get_batch(0).num_rows)

    def _iter_tables(self, stream: BinaryIO, names: list[str] | None, size: int) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import ipc

        fields = None if names is None else [self.header.index(name) for name in names]
        file = ipc.open_file(cast(io.IOBase, stream), options=ipc.IpcReadOptions(included_fields=fields))
        for number in range(file.num_record_batches):
            # Arrow trusts the offsets in a file, and would read a damaged one out of bounds.
            batch = file.get_batch(number)
            batch.validate(full=True)
            for start in range(0, batch.num_rows, size):
                yield pa.Table.from_batches([batch.slice(start, size)])


class JsonLines(ArrowFormat):
    """Lines of JSON, each an object with a value for each column."""

    MAGIC = b"{"
    title = "lines of JSON"
    is_slow_to_parse = True

    def _open_stream(self) -> contextlib.AbstractContextManager[BinaryIO]:
        return self._source.open_text()

    def _read_schema(self, stream: BinaryIO) -> Any:
        """Return the names and types of the columns. Text that begins with a date or a time has the type of times."""
        import pyarrow as pa

        table = self._parse_lines(stream.read(_JSON_BLOCK_BYTES) + stream.readline(), 0, {})
        if table.num_rows == 1 and all(pa.types.is_list(cells.type) for cells in table.columns):
            words = "one object per line, with single values, not lists of values; in Python, `json.load` reads these"
            raise DataError(f"{self._source.name}: JSON data must have {words}")
        types = [pa.timestamp("us") if self._holds_times(cells) else cells.type for cells in table.columns]
        return pa.schema([*zip(table.column_names, types, strict=True)])

    def _holds_times(self, cells: Any) -> bool:
        """Return whether a column is text whose first cell that is not missing is a date or a time."""
        parser = self.new_parser()
        texts = ((cell.as_py() or "").strip() for cell in cells) if str(cells.type) == "string" else ()
        parser.parse(next((text for text in texts if text not in MISSING_VALUES), ""))
        return parser.kind is CellKind.DATETIME

    def _numeric_column(self, cells: Any, parser: CellParser, original: str, rows: int) -> Any:
        """Return an Arrow column as numbers. Text that begins with a date or a time is parsed as in text files."""
        if str(cells.type) != "string" or not (parser.kind or self._holds_times(cells)):
            return super()._numeric_column(cells, parser, original, rows)
        records = [Record(f"row {row}", [cell or ""]) for row, cell in enumerate(cells.to_pylist(), rows + 1)]
        request = batches.ColumnRequest({original: 0}, (), {original: parser}, len(records), True, True)
        return parse_block(self._source.name, 1, records, request)[original]

    def estimate_rows(self) -> int:
        """Return the number of rows, estimated from the lengths of the first lines."""
        return self._source.estimate_lines()

    def _iter_tables(self, stream: BinaryIO, names: list[str] | None, size: int) -> Iterator[Any]:  # noqa: ARG002
        import pyarrow as pa

        lines, kinds = 0, dict[str, str]()
        while content := stream.read(_JSON_BLOCK_BYTES) + stream.readline():
            table = self._parse_lines(content, lines, kinds)
            lines += content.count(b"\n")
            columns = self.header if names is None else names
            for name in {*columns}.difference(table.column_names):  # no line of this block has it
                table = table.append_column(name, pa.nulls(table.num_rows, pa.float64()))
            yield table.select(list(columns))

    def _parse_lines(self, content: bytes, before: int, kinds: dict[str, str]) -> Any:
        """Return lines as a table.

        Args:
            content: the lines.
            before: the number of lines before them.
            kinds: the kinds of values that the columns have there, which new columns are added to.
        """
        import pyarrow as pa
        from pyarrow import json as pa_json

        self._check_depth(content, before)
        try:
            table = pa_json.read_json(io.BytesIO(content))
            times = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
            if times:  # Arrow converts times with zones, and those without, to UTC
                options = pa_json.ParseOptions(explicit_schema=pa.schema(dict.fromkeys(times, pa.string())))
                table = pa_json.read_json(io.BytesIO(content), parse_options=options).select(table.column_names)
            values = sum(len(column) - column.null_count for column in table.columns)
            has_nulls = sum(1 for _ in _JSON_KEY.finditer(content)) != values  # or nested values, or a key twice
            kinds_here = {x.name: _ARROW_KINDS.get(str(x.type).partition("<")[0], "a number") for x in table.schema}
            if has_nulls or any(kinds.setdefault(name, kind) != kind for name, kind in kinds_here.items()):
                deque(self._parse_objects(content, before, kinds), 0)
        except pa.ArrowInvalid:
            rows = list(self._parse_objects(content, before, kinds))
            columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(itertools.chain(*rows))}
            table = pa.table({name: _without_mixed_numbers(values) for name, values in columns.items()})
        if batches.has_extremes(table, content):
            self._note_extremes(content)
        return table

    def _note_extremes(self, content: bytes) -> None:
        """Note a number beyond the range of floats, if there is one."""
        parser = CellParser()
        for line in content.splitlines():
            with contextlib.suppress(ValueError):
                json.loads(line, parse_float=parser.parse, parse_int=parser.parse)
        self.notes = self.notes if parser.number_note is None else (parser.number_note,)

    def _check_depth(self, content: bytes, before: int) -> None:
        """Raise DataError for lines that are nested so deeply that JSON parsers could overflow the stack."""
        if content.count(b"{") + content.count(b"[") <= content.count(b"\n") + _MAX_JSON_DEPTH:
            return
        for number, line in enumerate(content.split(b"\n"), before + 1):
            if line.count(b"{") + line.count(b"[") > _MAX_JSON_DEPTH:
                steps = ((mark in b"{[") - (mark in b"}]") for mark in _JSON_STRING.sub(b"", line))
                if max(itertools.accumulate(steps)) > _MAX_JSON_DEPTH:
                    raise DataError(f"{self._source.name}: line {number}: nested more than {_MAX_JSON_DEPTH} levels")

    def _parse_objects(self, content: bytes, before: int, kinds: dict[str, str]) -> Iterator[dict[str, Any]]:
        """Yield the objects one by one; for the arguments see `_parse_lines`.

        Raises DataError that names the line of anything else, and of a value that has another type than its column.
        """
        for number, line in enumerate(content.splitlines(), before + 1):
            if not line.strip():
                continue
            try:
                record = parse_json(line, _whole_number)
            except ValueError as error:
                raise self._source.read_error(error, number) from None
            if not isinstance(record, dict):
                raise DataError(f"{self._source.name}: line {number}: expected an object with a value for each column")
            for name, value in record.items():
                kind = _JSON_TYPES.get(type(value), "a number")
                if value is not None and kinds.setdefault(name, kind) != kind:
                    place = f"{self._source.name}: line {number}, column `{name}`"
                    raise DataError(f"{place}: {json.dumps(value)} is {kind}, but the column holds {kinds[name]}")
            yield record


def _whole_number(digits: str) -> float:
    number = int(digits) if len(digits) <= 20 else 2**63  # Python refuses to convert thousands of digits
    return number if -(2**63) <= number < 2**63 else float(digits)


def _without_mixed_numbers(values: list[Any]) -> list[Any]:
    """Return the values of a column, with floats for whole numbers if there are floats: Arrow refuses large ones."""
    return [x if x is None else float(x) for x in values] if float in map(type, values) else values


def _column_as_text(cells: Any) -> Any:
    """Return the text of each cell as Python prints it, as an Arrow array of bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = batches.with_python_values(cells)
    if cells.type in (pa.float32(), pa.float64()):
        floats = batches.arrow_floats(pa.chunked_array([cells.cast(pa.float64())]))
        texts = pc.if_else(cells.is_valid(), format_numbers(floats, str), "")
    elif pa.types.is_integer(cells.type) or cells.type == pa.string():
        cells.validate(full=True)  # texts may not be valid UTF-8
        texts = cells.cast(pa.string())
    else:
        texts = pa.array([batches.cell_text(cell).encode("utf-8", "surrogateescape") for cell in cells.to_pylist()])
    return texts.cast(pa.binary()).fill_null(b"")


def _seconds_since_origin(cells: Any, parser: CellParser) -> Any:
    """Return times as seconds since the parser's origin, which becomes the first time if it is not set; nan for missing
    ones. Raises ValueError if times of this type cannot be counted from the origin.
    """
    import pyarrow as pa

    zone, is_time = getattr(cells.type, "tz", None), pa.types.is_time(cells.type)
    if pa.types.is_duration(cells.type):
        return batches.arrow_floats(pa.chunked_array([batches.with_python_values(cells)]))
    parser.kind = CellKind.DATETIME
    if is_time or getattr(cells.type, "unit", "s") == "ns":
        kind, rate = pa.time64("ns") if is_time else pa.timestamp("ns", zone), 10**9
    else:  # nanoseconds only cover the years 1677 to 2262
        kind, rate = pa.timestamp("us", zone), 10**6
    ticks = cells.cast(kind).cast(pa.int64()).to_pylist()
    start = NO_DATE if is_time else datetime(1970, 1, 1, tzinfo=UTC if zone else None)
    first = next((x for x in ticks if x is not None), None)
    if first is None:
        return np.full(len(ticks), np.nan)
    if not parser.counts_from(start + timedelta(microseconds=first * 10**6 // rate)):
        raise ValueError(f"times of the type {cells.type} cannot be counted from {parser.origin}")
    origin = (cast(datetime, parser.origin) - start) // timedelta(microseconds=1) * rate // 10**6
    return np.array([None if x is None else (x - origin) / rate for x in ticks], np.float64)  # rounded once


# --- Detection of formats


ColumnFormat: TypeAlias = DelimitedText | ArrowFormat
_LEADING_WHITESPACE = b"\xef\xbb\xbf \t\r\n"  # a byte order mark and blanks before the first character
_JSON_TYPES: Mapping[type, str] = {str: "text", bool: "true or false", list: "a list", dict: "an object"}
_ARROW_KINDS = {"string": "text", "bool": "true or false", "list": "a list", "struct": "an object"}
# An object with a name in quotes and a colon, as far as the first bytes show; `{x},y` is the header of a table.
_JSON_START = re.compile(rb'\{\s*(\}|$|"([^"\\]|\\.)*(\\?$|"\s*(:|$)))')
_ZIP_MAGIC = b"PK\x03\x04"  # first bytes of a workbook
_MAX_UNPACKING = 200  # ratio of unpacked to packed size; 5 to 20 for tables, up to 1000 for zip bombs
_MAX_SHEET_CHARS = 1 << 28  # characters of a sheet as text; a single cell far out makes every row long


def detect_format(source: ByteSource, dialect: FileOptions) -> ColumnFormat:
    """Return the format of a file. Raises DataError if it has no column names."""
    not_delimited = (Parquet.MAGIC, Feather.MAGIC, JsonLines.MAGIC, _ZIP_MAGIC)
    if source.is_gzipped or source.first_bytes.lstrip(_LEADING_WHITESPACE).startswith(not_delimited):
        source.buffer_all()  # only plain delimited text can be read as it arrives
    source.check_compressed_format()
    if source.first_bytes.startswith(_ZIP_MAGIC):
        _refuse_options(source, dialect, ("delimiter", "decimal", "encoding"), "a workbook")
        text, sheet = _workbook_text(source, dialect.sheet)
        return DelimitedText(text, dataclasses.replace(dialect, delimiter=","), f"workbook (.xlsx), {sheet}")
    start = source.first_text_bytes.lstrip(_LEADING_WHITESPACE)
    is_json = start.startswith(JsonLines.MAGIC) and (".json" in source.name or _JSON_START.match(start))
    if re.match(rb"\[\s*\{", start):
        words = "one object per line, not a list of objects; `jq -c '.[]' FILE > NEW.jsonl` writes these"
        raise DataError(f"{source.name}: JSON data must have {words}")
    lines = JsonLines if is_json else None
    typed = next((kind for kind in (Parquet, Feather) if source.first_bytes.startswith(kind.MAGIC)), lines)
    if typed is None:
        _refuse_options(source, dialect, ("sheet",), "text")
        return DelimitedText(source, dialect)
    ignored = ("delimiter", "decimal", "comment", "no_header", "skip", "units_row", "sheet")
    _refuse_options(source, dialect, ignored if typed is JsonLines else (*ignored, "encoding"), typed.title)
    return typed(source, dialect.date_format)


def _refuse_options(source: ByteSource, dialect: FileOptions, ignored: Iterable[str], kind: str) -> None:
    """Raise DataError if options are given that have no effect on a kind of file."""
    for name in ignored:
        if getattr(dialect, name):
            raise DataError(f"{source.name}: {command_words(name)} has no effect on {kind}: leave it out")


def _workbook_text(source: ByteSource, sheet: str | None) -> tuple[ByteSource, str]:
    """Return a sheet of a workbook as text with columns separated by commas, one line for each row, and which it is.

    Args:
        sheet: the name of the sheet; by default the first one with cells.

    Raises:
        DataError: for other zip files, damaged or exorbitant workbooks, and if there is no such sheet.
    """
    import openpyxl

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    try:
        with source.open_raw() as stream, warnings.catch_warnings(action="ignore"):
            content = stream.read()
            unpacked_bytes = sum(entry.file_size for entry in zipfile.ZipFile(io.BytesIO(content)).infolist())
            if unpacked_bytes > max(_MAX_UNPACKING * len(content), _MAX_SHEET_CHARS):
                raise DataError(f"{source.name}: this workbook unpacks to {unpacked_bytes:,} bytes, too many")
            book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
            names = [table.title for table in book.worksheets]  # without sheets that are charts
            name = next((each for each in names if any(book[each].values)), names[0]) if sheet is None else sheet
            if name not in names:
                raise DataError(f"{source.name}: there is no sheet `{name}`; the sheets are {', '.join(names)}")
            for row in book[name].iter_rows(values_only=True):
                cells = [" ".join(batches.cell_text(value).split()) for value in row]
                writer.writerow(cells if any(cells) else [])
                if text.tell() > _MAX_SHEET_CHARS:
                    raise DataError(f"{source.name}: the sheet is longer than {_MAX_SHEET_CHARS:,} characters")
    except DataError:
        raise
    except Exception:  # a damaged archive makes openpyxl raise anything
        raise DataError(f"{source.name}: this is not a workbook (.xlsx), or damaged; write its table as CSV") from None
    return source.with_bytes(text.getvalue().encode()), f"sheet `{name}` ({names.index(name) + 1} of {len(names)})"
