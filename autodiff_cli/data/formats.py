"""The formats of data files: Parquet, Arrow (Feather) and lines of JSON here, delimited text in `delimited`.

`ColumnFormat` is the interface of a format. `detect_format` chooses the format from the first bytes of a file.
"""

from __future__ import annotations

import abc
import contextlib
import io
import itertools
import json
import re
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, Literal, Protocol, cast

from autodiff_cli.data.delimited import DelimitedText
from autodiff_cli.data.dialect import CellKind, CellParser, Dialect
from autodiff_cli.data.source import ByteSource
from autodiff_cli.data.streaming import GrowingArray, RawBatch, encode_arrow_labels
from autodiff_cli.data.table import (
    DataError,
    FallbackRequired,
    Record,
    TextBatch,
    arrow_floats,
    arrow_labels,
    arrow_native,
    format_numbers,
)


class ColumnFormat(Protocol):
    """A file format of named columns."""

    @property
    def title(self) -> str:
        """The name of the format."""

    @property
    def header(self) -> Sequence[str]:
        """The names of the columns as the file has them."""

    @property
    def notes(self) -> Sequence[str]:
        """Sentences on how the file was interpreted, as far as that was detected."""

    @property
    def options(self) -> Sequence[str]:
        """The command-line options that request the same interpretation explicitly."""

    @property
    def divisible_range(self) -> tuple[int, int] | None:
        """The range of positions (bytes or row groups) of the rows, if parts of it can be read separately; else
        None.
        """

    def restrict(self, begin: int, end: int) -> None:
        """Restrict `read_columns` to the rows that begin in a part of the divisible range.

        Raises FallbackRequired if these cannot be determined.
        """

    def new_parser(self) -> CellParser:
        """Return a parser for the cells of a column."""

    def text_positions(self) -> Collection[int]:
        """Return the positions of text columns: those whose first cell that is not missing is not a number."""

    def read_columns(
        self,
        positions: Mapping[str, int],
        drop_missing: bool,
        texts: Collection[str],
        parsers: Mapping[str, CellParser],
    ) -> dict[str, Any]:
        """Return columns of all rows: floats with nan for missing cells, and texts with None.

        Args:
            positions: the position of each column, by its new name.
            drop_missing: accept missing cells.
            texts: the names of the columns that are read as text.
            parsers: the parser of each column, which records its kind.

        Raises:
            DataError: for cells that are not numbers, and for missing cells unless `drop_missing`, if their location is
                known.
        """

    def iter_batches(
        self,
        positions: Mapping[str, int],
        drop_missing: bool,
        texts: Collection[str],
        parsers: Mapping[str, CellParser],
        size: int,
        cell_by_cell: bool,
    ) -> Generator[RawBatch]:
        """Yield columns of some rows at a time, with texts as `CodedLabels`; see `read_columns`.

        Args:
            size: the approximate number of rows of a batch, if the file does not determine it.
            cell_by_cell: parse cell by cell, if the format has a faster way.

        Raises:
            DataError: for cells that are not numbers.
            FallbackRequired: if the file has to be parsed cell by cell.
        """

    def estimate_rows(self) -> int:
        """Return the number of rows, estimated from the first ones if the file does not state it."""

    @property
    def is_slow_to_parse(self) -> bool:
        """Whether parsing takes long because numbers are written as text."""

    def iter_records(self) -> Generator[Record]:
        """Yield the rows as text with their locations. A single-pass source yields only rows that have not been read
        yet.
        """

    def iter_text_batches(self) -> Generator[TextBatch]:
        """Yield the rows as columns of text, where that is faster than records. Raises FallbackRequired at the first
        row for which it is impossible.
        """


# --- Formats that pyarrow reads


@dataclass(frozen=True, slots=True)
class ArrowSettings:
    """How much of a file is read and converted together, and limits of its content."""

    json_block_bytes: int = 1 << 22  # bytes of lines of JSON that are parsed together
    chunk_rows: int = 1 << 18  # rows that are converted together, so that a file is never in memory twice
    text_chunk_rows: int = 1 << 15  # rows that are converted to text together: text takes several times the memory
    column_buffer_bytes: int = 1 << 20  # bytes of a column per read
    max_type_chars: int = 60  # characters of the name of a type in a message
    max_json_depth: int = 100  # levels of nesting: values are numbers or texts, and more could overflow the stack


SETTINGS = ArrowSettings()


_JSON_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


class ArrowFormat(abc.ABC):
    """A format of typed columns that pyarrow reads; see `ColumnFormat`."""

    title: str
    divisible_range: tuple[int, int] | None = None
    is_slow_to_parse: bool = False
    notes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        with self._open_checked() as stream:
            self.header = tuple(self._read_schema(stream).names)

    @abc.abstractmethod
    def _read_schema(self, stream: BinaryIO) -> Any:
        """Return the names and types of the columns as a `pyarrow.Schema`."""

    @abc.abstractmethod
    def _read_table(self, stream: BinaryIO, names: Sequence[str] | None = None) -> Any:
        """Return columns as a `pyarrow.Table`; by default all of them."""

    def restrict(self, begin: int, end: int) -> None:
        """Restrict reading to some row groups; see `ColumnFormat.restrict`."""
        raise NotImplementedError

    @abc.abstractmethod
    def _iter_tables(self, stream: BinaryIO, names: Sequence[str], size: int) -> Iterator[Any]:
        """Yield columns as tables of at most `size` rows."""

    def estimate_rows(self) -> int:
        """Return the number of rows; see `ColumnFormat.estimate_rows`."""
        with self._open_checked() as stream:
            return self._estimate_rows(stream)

    @abc.abstractmethod
    def _estimate_rows(self, stream: BinaryIO) -> int:
        """Return the estimated number of rows of an open file."""

    @contextlib.contextmanager
    def _open_stream(self) -> Iterator[BinaryIO]:
        with self._source.open_raw() as stream:
            yield stream

    def text_positions(self) -> set[int]:
        """Return the positions of text columns; see `ColumnFormat.text_positions`."""
        import pyarrow as pa

        with self._open_checked() as stream:
            types = self._read_schema(stream).types
        is_text_type = (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary)
        return {position for position, type in enumerate(types) if any(is_of(type) for is_of in is_text_type)}

    def new_parser(self) -> CellParser:
        """Return a parser, which records the kind of a column; see `ColumnFormat.new_parser`."""
        return CellParser()

    def read_columns(
        self,
        positions: Mapping[str, int],
        drop_missing: bool,  # noqa: ARG002
        texts: Collection[str],
        parsers: Mapping[str, CellParser],
    ) -> dict[str, Any]:
        """Return columns of all rows; see `ColumnFormat.read_columns`."""
        names = {name: self.header[position] for name, position in positions.items()}
        columns = {name: GrowingArray() for name in names}
        with self._open_checked() as stream:
            for table in self._iter_parts(stream, list(names.values())):
                for name, original in names.items():
                    cells = table.column(original)
                    columns[name].add(
                        arrow_labels(cells) if name in texts else self._numeric_column(cells, parsers[name], original)
                    )
        return {name: column.finish() for name, column in columns.items()}

    def _iter_parts(self, stream: BinaryIO, names: Sequence[str]) -> Iterator[Any]:
        """Yield columns in parts that are read together: by default the whole table."""
        yield self._read_table(stream, names)

    def iter_batches(
        self,
        positions: Mapping[str, int],
        drop_missing: bool,  # noqa: ARG002
        texts: Collection[str],
        parsers: Mapping[str, CellParser],
        size: int,
        cell_by_cell: bool,  # noqa: ARG002
    ) -> Generator[RawBatch]:
        """Yield columns of some rows at a time; see `ColumnFormat.iter_batches`."""
        names = {name: self.header[position] for name, position in positions.items()}
        with self._open_checked() as stream:
            for table in self._iter_tables(stream, list(names.values()), size):
                batch: RawBatch = {}
                for name, original in names.items():
                    cells = table.column(original)
                    batch[name] = (
                        encode_arrow_labels(cells)
                        if name in texts
                        else self._numeric_column(cells, parsers[name], original)
                    )
                yield batch

    def _numeric_column(self, cells: Any, parser: CellParser, original: str) -> Any:
        """Return an Arrow column as numbers. Raises DataError for other types."""
        import pyarrow as pa

        if pa.types.is_boolean(cells.type):
            cells, parser.kind = cells.cast(pa.int8()), CellKind.BOOLEAN
        if pa.types.is_temporal(cells.type):
            return _seconds_since_origin(cells, parser)
        try:
            if not cells.null_count and (native := arrow_native(cells)) is not None:
                return native
            return arrow_floats(cells.cast(pa.float64(), safe=False))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            type_ = str(cells.type)
            type_ = type_ if len(type_) <= SETTINGS.max_type_chars else f"{type_[: SETTINGS.max_type_chars - 1]}…"
            problem = f"column `{original}` holds values of type {type_}, not numbers"
            raise DataError(f"{self._source.name}: {problem}") from None

    def iter_text_batches(self) -> Generator[TextBatch]:
        """Yield the rows as columns of text; see `ColumnFormat.iter_text_batches`."""
        import pyarrow as pa

        if len({*self.header}) < len(self.header):  # names are ambiguous
            raise FallbackRequired
        with self._open_checked() as stream:
            for table in self._iter_tables(stream, self.header, SETTINGS.text_chunk_rows):
                for batch in table.combine_chunks().to_batches():
                    cells = [_column_as_text(column) for column in batch.columns]
                    yield TextBatch(pa.RecordBatch.from_arrays(cells, names=batch.schema.names))

    def iter_records(self) -> Generator[Record]:
        """Yield the rows as text; see `ColumnFormat.iter_records`."""
        numbers = itertools.count(1)
        with self._open_checked() as stream:
            is_plain = len({*self.header}) == len(self.header)  # otherwise names are ambiguous
            for table in (
                self._iter_tables(stream, self.header, SETTINGS.chunk_rows) if is_plain else [self._read_table(stream)]
            ):
                columns = [column.to_pylist() for column in table.columns]
                for cells in zip(*columns, strict=True):
                    yield Record(f"row {next(numbers)}", ["" if cell is None else str(cell) for cell in cells])

    @contextlib.contextmanager
    def _open_checked(self) -> Iterator[BinaryIO]:
        """Open the file. Errors of pyarrow while it is open are raised as DataError."""
        import pyarrow as pa

        with self._open_stream() as stream:
            try:
                yield stream
            except DataError:
                raise
            except (OSError, EOFError, ValueError, OverflowError, pa.ArrowException) as error:
                raise self._source.read_error(error) from None


class Parquet(ArrowFormat):
    """The Parquet format. Row groups can be read separately."""

    MAGIC = b"PAR1"
    title = "Parquet"

    def __init__(self, source: ByteSource) -> None:
        self._row_groups: list[int] | None = None  # None for all
        super().__init__(source)

    def _read_schema(self, stream: BinaryIO) -> Any:
        from pyarrow import parquet

        file = parquet.ParquetFile(stream)
        self.divisible_range = 0, file.num_row_groups
        return file.schema_arrow

    def restrict(self, begin: int, end: int) -> None:
        """Restrict reading to some row groups; see `ColumnFormat.restrict`."""
        self._row_groups = [*range(begin, end)]

    def _read_table(self, stream: BinaryIO, names: Sequence[str] | None = None) -> Any:
        from pyarrow import parquet

        file, columns = parquet.ParquetFile(stream), None if names is None else list(names)
        return file.read(columns) if self._row_groups is None else file.read_row_groups(self._row_groups, columns)

    def _estimate_rows(self, stream: BinaryIO) -> int:
        from pyarrow import parquet

        return int(parquet.ParquetFile(stream).metadata.num_rows)

    def _iter_parts(self, stream: BinaryIO, names: Sequence[str]) -> Iterator[Any]:
        return (
            super()._iter_parts(stream, names)
            if self._row_groups is not None
            else self._iter_tables(stream, names, SETTINGS.chunk_rows)
        )

    def _iter_tables(self, stream: BinaryIO, names: Sequence[str], size: int) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import parquet

        groups: dict[str, Any] = {} if self._row_groups is None else {"row_groups": self._row_groups}
        # With a buffer, long row groups are not read as a whole.
        file = parquet.ParquetFile(stream, buffer_size=SETTINGS.column_buffer_bytes, pre_buffer=False)
        for batch in file.iter_batches(batch_size=size, columns=list(names), **groups):
            yield pa.Table.from_batches([batch])


class Feather(ArrowFormat):
    """Arrow's file format, which is also Feather version 2."""

    MAGIC = b"ARROW1"
    title = "Arrow (Feather)"

    def _read_schema(self, stream: BinaryIO) -> Any:
        from pyarrow import ipc

        return ipc.open_file(cast(io.IOBase, stream)).schema

    def _read_table(self, stream: BinaryIO, names: Sequence[str] | None = None) -> Any:
        from pyarrow import ipc

        table = _validated(ipc.open_file(cast(io.IOBase, stream)).read_all())
        return table if names is None else table.select(names)

    def _estimate_rows(self, stream: BinaryIO) -> int:
        from pyarrow import ipc

        file = ipc.open_file(cast(io.IOBase, stream), options=ipc.IpcReadOptions(included_fields=[0]))
        return int(file.num_record_batches and file.num_record_batches * file.get_batch(0).num_rows)

    def _iter_parts(self, stream: BinaryIO, names: Sequence[str]) -> Iterator[Any]:
        return self._iter_tables(stream, names, SETTINGS.chunk_rows)

    def _iter_tables(self, stream: BinaryIO, names: Sequence[str], size: int) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import ipc

        schema = ipc.open_file(cast(io.IOBase, stream)).schema
        chosen = ipc.IpcReadOptions(included_fields=[schema.get_field_index(name) for name in names])
        file = ipc.open_file(cast(io.IOBase, stream), options=chosen)
        for number in range(file.num_record_batches):
            table = pa.Table.from_batches([_validated(file.get_batch(number))])
            for start in range(0, table.num_rows, size):
                yield table.slice(start, size)


class JsonLines(ArrowFormat):
    """Lines of JSON, each an object with a value for each column."""

    MAGIC = b"{"
    title = "lines of JSON"
    is_slow_to_parse = True

    def __init__(self, source: ByteSource) -> None:
        self._cached_table: Any = None
        super().__init__(source)

    @contextlib.contextmanager
    def _open_stream(self) -> Iterator[BinaryIO]:
        with self._source.open_text() as stream:
            yield stream

    def _read_schema(self, stream: BinaryIO) -> Any:
        content = stream.read(SETTINGS.json_block_bytes) + stream.readline()
        table = self._parse_lines(content, 0)
        if not stream.read(1):
            self._cached_table = table
        return table.schema

    def _read_table(self, stream: BinaryIO, names: Sequence[str] | None = None) -> Any:
        if self._cached_table is None:
            self._cached_table = self._parse_lines(stream.read(), 0)
        return self._cached_table if names is None else self._cached_table.select(names)

    def _estimate_rows(self, stream: BinaryIO) -> int:  # noqa: ARG002
        return self._source.estimate_lines()

    def _iter_tables(self, stream: BinaryIO, names: Sequence[str], size: int) -> Iterator[Any]:  # noqa: ARG002
        import pyarrow as pa

        lines = 0
        while content := stream.read(SETTINGS.json_block_bytes) + stream.readline():
            table = self._parse_lines(content, lines)
            lines += content.count(b"\n")
            for name in names:
                if name not in table.column_names:  # no line of this block has it
                    table = table.append_column(name, pa.nulls(table.num_rows, pa.float64()))
            yield table.select(list(names))

    def _parse_lines(self, content: bytes, before: int) -> Any:
        """Return lines as a table. `before` is the number of lines before them."""
        import pyarrow as pa
        from pyarrow import json as pa_json

        self._check_depth(content, before)
        try:
            return pa_json.read_json(io.BytesIO(content))
        except pa.ArrowInvalid:
            return pa.Table.from_pylist(list(self._parse_objects(content, before)))

    def _check_depth(self, content: bytes, before: int) -> None:
        """Raise DataError for lines that are nested so deeply that JSON parsers could overflow the stack."""
        if content.count(b"{") + content.count(b"[") <= content.count(b"\n") + SETTINGS.max_json_depth:
            return
        for number, line in enumerate(content.split(b"\n"), before + 1):
            if line.count(b"{") + line.count(b"[") > SETTINGS.max_json_depth:
                steps = ((mark in b"{[") - (mark in b"}]") for mark in _JSON_STRING.sub(b"", line))
                if max(itertools.accumulate(steps)) > SETTINGS.max_json_depth:
                    raise DataError(
                        f"{self._source.name}: line {number}: nested more than {SETTINGS.max_json_depth} levels deep"
                    )

    def _parse_objects(self, content: bytes, before: int) -> Iterator[dict[str, Any]]:
        """Yield the objects one by one. Raises DataError that names the line of anything else."""
        for number, line in enumerate(content.splitlines(), before + 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                raise self._source.read_error(error, number) from None
            if not isinstance(record, dict):
                raise DataError(f"{self._source.name}: line {number}: expected an object with a value for each column")
            yield record


def _column_as_text(cells: Any) -> Any:
    """Return the text of each cell as Python prints it, as an Arrow array of bytes. Raises FallbackRequired for types
    without a single notation.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if cells.type in (pa.float32(), pa.float64()):
        floats = arrow_floats(pa.chunked_array([cells.cast(pa.float64())]))
        texts = pc.if_else(cells.is_valid(), format_numbers(floats, str), "")
    elif pa.types.is_integer(cells.type) or cells.type == pa.string():
        cells.validate(full=True)  # texts may not be valid UTF-8
        texts = cells.cast(pa.string())
    else:
        raise FallbackRequired
    return texts.fill_null("").cast(pa.binary())


def _validated(cells: Any) -> Any:
    """Return a batch or table after validation. Arrow trusts the offsets in a file, and would read a damaged one out of
    bounds. Raises ArrowInvalid.
    """
    cells.validate(full=True)
    return cells


def _seconds_since_origin(cells: Any, parser: CellParser) -> Any:
    """Return times as seconds since the parser's origin, which becomes the first time if it is not set; nan for missing
    ones.
    """
    import pyarrow as pa

    parser.kind = CellKind.DATETIME
    zone = getattr(cells.type, "tz", None)
    if pa.types.is_duration(cells.type):
        spans = cells.cast(pa.duration("ns")).cast(pa.int64()).to_pylist()
        return arrow_floats([None if x is None else x / 1e9 for x in spans])
    unit: Literal["ns", "us"] = "us"  # nanoseconds only cover the years 1677 to 2262
    if pa.types.is_time(cells.type) or getattr(cells.type, "unit", "s") == "ns":
        unit = "ns"
    ticks = cells.cast(pa.time64(unit) if pa.types.is_time(cells.type) else pa.timestamp(unit, zone)).cast(pa.int64())
    nanoseconds = [None if x is None else x * (1 if unit == "ns" else 1000) for x in ticks.to_pylist()]
    start = datetime(1970, 1, 1, tzinfo=UTC if zone else None)
    if parser.origin is None:
        first = next((x for x in nanoseconds if x is not None), 0)
        parser.origin = start + timedelta(microseconds=first // 1000)
    origin = (parser.origin - start.replace(tzinfo=parser.origin.tzinfo)) // timedelta(microseconds=1) * 1000
    return arrow_floats([None if x is None else (x - origin) / 1e9 for x in nanoseconds])


# --- Detection of formats


_LEADING_WHITESPACE = b"\xef\xbb\xbf \t\r\n"  # a byte order mark and blanks before the first character


def detect_format(source: ByteSource, dialect: Dialect) -> ColumnFormat:
    """Return the format of a file. Raises DataError if it has no column names."""
    if source.is_gzipped or source.first_bytes.lstrip(_LEADING_WHITESPACE).startswith(
        (Parquet.MAGIC, Feather.MAGIC, JsonLines.MAGIC)
    ):
        source.buffer_all()  # only plain delimited text can be read as it arrives
    for kind in (Parquet, Feather):
        if source.first_bytes.startswith(kind.MAGIC):
            return kind(source)
    if source.first_text_bytes.lstrip(_LEADING_WHITESPACE).startswith(JsonLines.MAGIC):
        return JsonLines(source)
    return DelimitedText(source, dialect)
