"""Delimited text: CSV, TSV and similar formats.

pyarrow reads it fast, but its errors name the column at most. Text that pyarrow rejects (it may have dates or thousands
separators) and text with missing cells is parsed again, cell by cell, with the standard `csv` module, so that errors
name the line.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import math
import zlib
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.dialect import (
    MISSING_VALUES,
    WHITESPACE,
    CellKind,
    CellParser,
    DetectedDialect,
    Dialect,
    cell_count,
    detect_dialect,
    has_invalid_utf8,
    quoted_cell,
)
from autodiff_cli.data.source import ByteSource, QuoteCountingStream
from autodiff_cli.data.streaming import GrowingArray, RawBatch, encode_arrow_labels, encode_labels
from autodiff_cli.data.table import (
    DataError,
    FallbackRequired,
    Record,
    TextBatch,
    all_finite,
    arrow_float_chunks,
    arrow_floats,
    arrow_labels,
    problem_list,
)


@dataclass(frozen=True, slots=True)
class DelimitedSettings:
    """How many bytes of delimited text are read and parsed together."""

    quote_read_bytes: int = 1 << 20  # bytes per read while looking for quotes
    line_block_bytes: int = 1 << 21  # bytes of lines that pyarrow parses in one call, on all cores
    text_batch_bytes: int = 1 << 22  # bytes of text in one batch of rows
    stream_block_bytes: int = 1 << 22  # bytes per batch of streamed columns
    fast_cell_bytes: int = 256  # bytes per cell: a line of cells this long fits in one block of pyarrow
    type_sample_records: int = 1000  # records in which the type of a column is looked for


SETTINGS = DelimitedSettings()


_LINE_STARTS_TO_CHECK = (b"", b"\r", b"\n")  # only blocks that start so can be blank
MAX_CELL_CHARS = 1 << 24  # characters; longer cells are the result of an unclosed quote

# The default limit of the csv module is too low for text columns. The limit applies to the whole process.
csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_CHARS))


class DelimitedText:
    """The format of delimited text; see `formats.ColumnFormat`."""

    is_slow_to_parse = True

    def __init__(self, source: ByteSource, dialect: Dialect) -> None:
        self._source = source
        with contextlib.ExitStack() as stack:
            stream = stack.enter_context(source.open_text())
            try:
                self._dialect = detect_dialect(stream, dialect, look_ahead=not source.is_single_pass)
            except DataError as error:
                raise DataError(f"{source.name}: {error}") from None
            except (OSError, EOFError, zlib.error, csv.Error) as error:
                raise source.read_error(error, 1) from None
            if source.is_single_pass:
                stack.pop_all()  # the rows are read from this stream later
        self.header = self._dialect.header
        self.notes = self._dialect.notes
        self._unread: BinaryIO | None = stream if source.is_single_pass else None  # the rest of a single-pass stream

    @property
    def title(self) -> str:
        """The name of the format."""
        return f"text with columns separated by {self._dialect.separator_name}"

    @property
    def options(self) -> tuple[str, ...]:
        """The command-line options that set the detected dialect; see `ColumnFormat.options`."""
        return self._dialect.options

    @property
    def divisible_range(self) -> tuple[int, int] | None:
        """The range of bytes that holds the rows; see `ColumnFormat.divisible_range`."""
        size = self._source.seekable_size
        if size is None:
            return None
        with self._source.open_text() as stream:
            self._skip_header(stream)
            return stream.tell(), size

    def restrict(self, begin: int, end: int) -> None:
        """Restrict reading to a range of bytes; see `ColumnFormat.restrict`. A part with quotes is refused: whether a
        line starts within quotes depends on the lines before it.
        """
        with self._source.open_text() as stream:
            head = b"".join(stream.readline() for _ in range(self._dialect.header_lines))
            if begin > stream.tell():
                stream.seek(begin - 1)
                stream.readline()
            lines = stream.read(max(0, end - stream.tell()))
            if lines and not lines.endswith(b"\n"):
                lines += stream.readline()
        if b'"' in lines:
            raise FallbackRequired
        self._source = self._source.with_bytes(head + lines)

    def text_positions(self) -> set[int]:
        """Return the positions of text columns; see `ColumnFormat.text_positions`."""
        unknown, positions = set(range(len(self.header))), set()
        with contextlib.closing(self._iter_all_records()) as records:
            for record in itertools.islice(records, SETTINGS.type_sample_records):
                for position in [*unknown]:
                    cell = record.cells[position].strip() if position < len(record.cells) else ""
                    if cell in MISSING_VALUES:
                        continue
                    unknown.remove(position)
                    if self.new_parser().parse(cell) is None:
                        positions.add(position)
                if not unknown:
                    break
        return positions

    def estimate_rows(self) -> int:
        """Return the estimated number of rows; see `ColumnFormat.estimate_rows`."""
        return self._source.estimate_lines()

    def new_parser(self) -> CellParser:
        """Return a parser for the cells of a column; see `ColumnFormat.new_parser`."""
        return CellParser(self._dialect.decimal)

    def iter_records(self) -> Generator[Record]:
        """Yield the rows as text; see `ColumnFormat.iter_records`."""
        if not self._source.is_single_pass:
            yield from self._iter_all_records()
        elif self._unread is not None:
            rest, self._unread = self._unread, None
            yield from self._parse_records(rest)

    def iter_text_batches(self) -> Generator[TextBatch]:
        """Yield the rows as columns of text; see `ColumnFormat.iter_text_batches`."""
        dialect = self._dialect
        if not self._source.is_large or dialect.comment or dialect.delimiter == WHITESPACE or dialect.decimal != ".":
            raise FallbackRequired
        with self._source.open_text() as stream:
            self._skip_header(stream)
            if self._has_quotes(stream):
                raise FallbackRequired
        with self._source.open_text() as stream:
            self._skip_header(stream)
            yield from text_batches(stream, dialect.delimiter, len(self.header))

    def _has_quotes(self, stream: BinaryIO) -> bool:
        """Return whether there are quotes, or bytes that cannot be read."""
        try:
            return has_quotes(stream)
        except (OSError, EOFError, zlib.error):
            return True

    def read_columns(
        self,
        positions: Mapping[str, int],
        drop_missing: bool,
        texts: Collection[str],
        parsers: Mapping[str, CellParser],
    ) -> dict[str, Any]:
        """Return columns of all rows; see `ColumnFormat.read_columns`."""
        columns = None if self._source.is_small else self._read_fast(positions, texts)
        if columns is None or not (drop_missing or all(map(_is_complete, columns.values()))):
            return self._read_by_cell(positions, drop_missing, texts, parsers)
        return columns

    def _read_fast(self, positions: Mapping[str, int], texts: Collection[str]) -> dict[str, Any] | None:
        """Return the columns as pyarrow reads them, with nan or None for missing cells; None if pyarrow rejects the
        text.
        """
        import pyarrow as pa
        from pyarrow import csv as pa_csv

        expected = self.estimate_rows() * 17 // 16  # 1/16 more: the lines of the sample may be longer than the rest

        def read(*, plain: bool) -> dict[str, Any] | None:
            chosen, options = self._arrow_options(positions, texts, plain=plain)
            if plain:
                options["read_options"].block_size = max(
                    SETTINGS.line_block_bytes // 8, SETTINGS.fast_cell_bytes * len(self.header)
                )
            arrays = {name: GrowingArray(expected) for name in positions}
            with self._source.open_text() as stream:
                rows = self._row_stream(stream)
                quoted = QuoteCountingStream(rows)
                sources: Iterator[Any] = map(pa.BufferReader, line_blocks(rows)) if plain else iter([quoted])
                for source in sources:
                    table = pa_csv.read_csv(source, **options)
                    for name, position in chosen.items():
                        cells = table.column(position)
                        for part in [arrow_labels(cells)] if name in texts else arrow_float_chunks(cells):
                            arrays[name].add(part)
                if quoted.count % 2:
                    return None  # a quote is never closed, which Arrow does not report
            columns = {name: column.finish() for name, column in arrays.items()}
            return columns if all(map(len, columns.values())) else None

        try:
            try:
                return read(plain=True)  # without quotes, blocks of lines are parsed on all cores
            except FallbackRequired:
                return read(plain=False)
        except (pa.ArrowInvalid, OSError, EOFError, zlib.error):
            return None

    def _arrow_options(
        self, positions: Mapping[str, int], texts: Collection[str], *, plain: bool
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """Return the names that Arrow gives to some columns, and its options for reading them.

        Args:
            plain: whether the text has no quotes.
        """
        import pyarrow as pa
        from pyarrow import csv as pa_csv

        # Columns are named by position: unused names may be empty or repeated.
        arrow_names = [str(place) for place in range(len(self.header))]
        chosen = {name: arrow_names[place] for name, place in positions.items()}
        types = {position: pa.string() if name in texts else pa.float64() for name, position in chosen.items()}
        dialect = self._dialect
        quoting: dict[str, Any] = {"quote_char": False} if plain else {"newlines_in_values": True}
        return chosen, {
            "read_options": pa_csv.ReadOptions(column_names=arrow_names),
            "parse_options": pa_csv.ParseOptions(delimiter=dialect.delimiter, **quoting),
            "convert_options": pa_csv.ConvertOptions(
                include_columns=[*types],
                column_types=types,
                null_values=[*MISSING_VALUES],
                strings_can_be_null=True,
                decimal_point=dialect.decimal,
            ),
        }

    def iter_batches(
        self,
        positions: Mapping[str, int],
        drop_missing: bool,
        texts: Collection[str],
        parsers: Mapping[str, CellParser],
        size: int,
        cell_by_cell: bool,
    ) -> Generator[RawBatch]:
        """Yield columns of some rows at a time; see `ColumnFormat.iter_batches`."""
        if cell_by_cell:
            with contextlib.closing(self._iter_all_records()) as records:
                while block := list(itertools.islice(records, size)):
                    columns = self._read_records(block, positions, drop_missing, texts, parsers)
                    yield {name: encode_labels(column) if name in texts else column for name, column in columns.items()}
            return
        import pyarrow as pa
        from pyarrow import csv as pa_csv

        chosen, options = self._arrow_options(positions, texts, plain=False)
        options["read_options"].block_size = SETTINGS.stream_block_bytes
        with self._source.open_text() as stream:
            quoted: Any = QuoteCountingStream(self._row_stream(stream))
            try:
                with pa_csv.open_csv(quoted, **options) as reader:
                    for batch in reader:
                        cells = {
                            name: pa.chunked_array([batch.column(arrow_name)]) for name, arrow_name in chosen.items()
                        }
                        yield {
                            n: encode_arrow_labels(each) if n in texts else arrow_floats(each)
                            for n, each in cells.items()
                        }
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise self._source.read_error(error) from None
            except (pa.ArrowInvalid, OSError) as error:
                raise FallbackRequired from error
            if quoted.count % 2:
                raise FallbackRequired

    def _row_stream(self, stream: BinaryIO) -> Any:
        """Return the bytes of the rows without comments. If blanks separate cells, runs of them become one blank."""
        self._skip_header(stream)
        dialect = self._dialect
        if not dialect.comment and dialect.delimiter != WHITESPACE:
            return stream
        return io.BufferedReader(_ByteChunkStream(_normalized_lines(stream, dialect)))

    def _read_by_cell(
        self,
        positions: Mapping[str, int],
        drop_missing: bool,
        texts: Collection[str],
        parsers: Mapping[str, CellParser],
    ) -> dict[str, Any]:
        """Return the columns, parsed cell by cell. Raises DataError that lists invalid cells by line and column."""
        with contextlib.closing(self._iter_all_records()) as records:
            return self._read_records(records, positions, drop_missing, texts, parsers)

    def _read_records(
        self,
        records: Iterable[Record],
        positions: Mapping[str, int],
        drop_missing: bool,
        texts: Collection[str],
        parsers: Mapping[str, CellParser],
    ) -> dict[str, Any]:
        """Return the columns of some records. Raises DataError that lists invalid cells by line and column."""
        invalid: list[str] = []
        missing: list[str] = []
        columns: dict[str, list[Any]] = {name: [] for name in positions}
        for location, cells in records:
            if len(cells) != len(self.header):
                invalid.append(f"{location}: {cell_count(len(cells))}, but the header has {len(self.header)}")
                continue
            for name, position in positions.items():
                cell = cells[position].strip()
                if name in texts:
                    if has_invalid_utf8(cell):
                        invalid.append(f"{location}, column `{name}`: {quoted_cell(cell)}")
                    if cell in MISSING_VALUES:
                        missing.append(f"{location}, column `{name}`: {cell[:40] or 'empty'}")
                    columns[name].append(None if cell in MISSING_VALUES else cell)
                    continue
                value = parsers[name].parse(cell)
                if value is None:
                    invalid.append(f"{location}, column `{name}`: {describe_bad_cell(cell, parsers[name])}")
                elif not math.isfinite(value):
                    missing.append(f"{location}, column `{name}`: {cell[:40] or 'empty'}")
                columns[name].append(math.nan if value is None else value)
        if invalid or (missing and not drop_missing):
            raise DataError(problem_list(invalid or missing, f"{self._source.name}: "), missing=not invalid)
        return {name: np.array(values, dtype=object if name in texts else None) for name, values in columns.items()}

    def _iter_all_records(self) -> Generator[Record]:
        """Yield all rows as text."""
        with self._source.open_text() as stream:
            self._skip_header(stream)
            yield from self._parse_records(stream)

    def _skip_header(self, stream: BinaryIO) -> None:
        """Move to the first row."""
        for _ in range(self._dialect.header_lines):
            stream.readline()

    def _parse_records(self, stream: BinaryIO) -> Generator[Record]:
        """Yield each record that is not blank, with the number of its first line."""
        dialect = self._dialect
        first_row = self._dialect.first_row.decode("utf-8", "surrogateescape") if self._source.is_single_pass else ""
        text = io.TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline="")
        lines = _NumberedLines(first_row, text, dialect)
        is_blank = dialect.delimiter == WHITESPACE
        try:
            reader = csv.reader(lines, delimiter=dialect.delimiter, skipinitialspace=is_blank)
            lines_parsed = 0
            for cells in reader:
                record_lines, lines_parsed = reader.line_num - lines_parsed, reader.line_num
                if cells and lines.at_end:
                    location = f"{self._source.name}: line {lines.number - record_lines + 2}"
                    raise DataError(f"{location}: a quote that opens in this row is never closed")
                if cells:
                    yield Record(f"line {lines.number - record_lines + 1}", cells)
        except (csv.Error, OSError, EOFError, zlib.error) as error:
            raise self._source.read_error(error, lines.number + 1) from None
        finally:
            text.detach()  # the caller closes the stream


class _NumberedLines:
    """Iterates over the lines of the rows without comments, and adds an empty line at the end.

    Attributes:
        number: the number in the file of the last line.
        at_end: whether only the added line is left, so that a record that is still open has an unclosed quote.
    """

    def __init__(self, first_row: str, rest: Iterable[str], dialect: DetectedDialect) -> None:
        self._lines = iter([first_row] if first_row else [])
        self._rest = iter(rest)
        self._comment, self._is_blank = dialect.comment, dialect.delimiter == WHITESPACE
        self.number = dialect.header_lines
        self.at_end = False

    def __iter__(self) -> Iterator[str]:
        for lines in (self._lines, self._rest):
            for line in lines:
                self.number += 1
                if self._comment and line.lstrip().startswith(self._comment):
                    continue
                yield line.replace("\t", " ").strip() if self._is_blank else line
        self.at_end = True
        yield "\n"  # not a row, unless a quote is open


class _ByteChunkStream(io.RawIOBase):
    """A stream of bytes from an iterator of chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = next(self._chunks, b"")
        content, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(content)] = content
        return len(content)


def _normalized_lines(stream: BinaryIO, dialect: DetectedDialect) -> Iterator[bytes]:
    """Yield the lines without comments, with one blank between cells if blanks separate them. Raises OSError for quotes
    among blanks.
    """
    comment, is_blank = dialect.comment.encode(), dialect.delimiter == WHITESPACE
    for line in stream:
        if comment and line.lstrip().startswith(comment):
            continue
        if not is_blank:
            yield line
        elif b'"' in line:  # blanks within quotes must stay; the csv module handles them
            raise OSError("quoted text in a file that blanks separate")
        elif cells := line.split():
            yield b" ".join(cells) + b"\n"


def describe_bad_cell(cell: str, parser: CellParser) -> str:
    """Return what is wrong with a cell that does not fit its column."""
    return f"{quoted_cell(cell)} is not {(parser.kind or CellKind.NUMBER).value}" if cell else "empty"


def _is_complete(column: NDArray[Any]) -> bool:
    """Return whether no cell of a column is missing."""
    return all_finite(column) if column.dtype.kind == "f" else None not in column.tolist()


# --- Fast reading of text without quotes


def line_blocks(stream: BinaryIO) -> Iterator[memoryview]:
    """Yield blocks of complete lines of a text without quotes. They share one buffer: a block is valid until the next
    one.

    Raises FallbackRequired at a quote.
    """
    buffer = bytearray(SETTINGS.line_block_bytes)
    kept_bytes = 0  # bytes at the start of the buffer that belong to an incomplete line
    while count := stream.readinto(memoryview(buffer)[kept_bytes:]):  # type: ignore[attr-defined]
        filled = kept_bytes + count
        if buffer.find(b'"', kept_bytes, filled) >= 0:
            raise FallbackRequired
        end = buffer.rfind(b"\n", kept_bytes, filled) + 1
        if end:
            yield from _nonblank_block(memoryview(buffer)[:end])
            buffer[: filled - end] = buffer[end:filled]
        elif filled == len(buffer):  # a line longer than the buffer
            buffer = buffer + bytearray(len(buffer))
        kept_bytes = filled - end
    yield from _nonblank_block(memoryview(buffer)[:kept_bytes])


def _nonblank_block(lines: memoryview) -> Iterator[memoryview]:
    """Yield a block of lines unless all of them are blank."""
    if lines[:1] not in _LINE_STARTS_TO_CHECK or bytes(lines).lstrip(b"\r\n"):
        yield lines


def has_quotes(stream: BinaryIO) -> bool:
    """Return whether a text has quotes."""
    return any(b'"' in piece for piece in iter(lambda: stream.read(SETTINGS.quote_read_bytes), b""))


def text_batches(stream: BinaryIO, delimiter: str, width: int) -> Iterator[TextBatch]:
    """Yield the rows of a text without quotes. Raises FallbackRequired for a row with too few or too many cells."""
    import pyarrow as pa
    from pyarrow import csv as pa_csv

    names = [str(position) for position in range(width)]
    try:
        with pa_csv.open_csv(
            stream,
            read_options=pa_csv.ReadOptions(column_names=names, block_size=SETTINGS.text_batch_bytes),
            parse_options=pa_csv.ParseOptions(delimiter=delimiter, quote_char=False),
            convert_options=pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary())),
        ) as reader:
            yield from map(TextBatch, reader)
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        raise FallbackRequired from error
