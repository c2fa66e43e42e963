"""Delimited text: CSV, TSV and similar formats.

pyarrow reads it fast, but its errors do not name the line. So text that pyarrow rejects (because of dates, say), and
text with missing cells, is parsed again, cell by cell, with the standard `csv` module.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import math
import os
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from autodiff_cli.data import batches
from autodiff_cli.data.dialect import (
    DELIMITER_NAMES,
    MISSING_VALUES,
    WHITESPACE,
    CellKind,
    CellParser,
    DataError,
    DetectedDialect,
    FileOptions,
    describe_bad_cell,
    has_invalid_utf8,
    is_beyond_floats,
    is_missing,
    quoted_cell,
)
from autodiff_cli.data.source import ByteChunkStream, ByteSource
from autodiff_cli.data.table import Record, TextBatch
from autodiff_cli.language.errors import pluralize

_PARSE_BLOCK_BYTES = 1 << 17  # bytes that one core parses at a time
_LINE_BLOCK_BYTES = min(os.cpu_count() or 1, 8) * _PARSE_BLOCK_BYTES  # bytes of lines that pyarrow parses in one call
_FAST_CELL_BYTES = 256  # bytes per cell: a line of cells this long fits in one block of pyarrow
_TYPE_SAMPLE_RECORDS = 1000  # records that are examined for the type of a column
MAX_CELL_CHARS = 1 << 24  # characters; longer cells are the result of an unclosed quote

# The default limit of the csv module is too low for text columns. The limit applies to the whole process.
csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_CHARS))


class DelimitedText:
    """The format of delimited text.

    Args:
        container: the name of the format that the text comes from, if it is another one.

    Attributes:
        title: the name of the format.
        header: the names of the columns as the file has them.
        has_types: whether all cells of a column are known to have one type.
        divisible_range: the range of bytes of the rows, if parts of it can be read separately; otherwise None.
        is_slow_to_parse: whether parsing takes long because numbers are written as text.
        notes: sentences on how the file was interpreted, as far as that was detected.
        units: the unit of each column of the header, if a row states them.
        options: the command-line options that request the same interpretation explicitly.
    """

    has_types = False
    is_slow_to_parse = True

    def __init__(self, source: ByteSource, dialect: FileOptions, container: str = "") -> None:
        self._source, self._container = source, container
        with contextlib.ExitStack() as stack:
            stream = stack.enter_context(source.open_text())
            try:
                self._dialect = DetectedDialect(stream, dialect, look_ahead=not source.is_single_pass)
            except DataError as error:
                raise DataError(f"{source.name}: {error}") from None
            except (OSError, EOFError, zlib.error, csv.Error) as error:
                raise source.read_error(error, 1) from None
            if source.is_single_pass:
                stack.pop_all()  # the rows are read from this stream later
        mark = self._dialect.delimiter
        self.title = container or f"text with columns separated by {DELIMITER_NAMES.get(mark, f'`{mark}`')}"
        self.header = tuple(self._dialect.header)
        self.units = dict(zip(self.header, self._dialect.units, strict=False))
        self._date_format = dialect.date_format
        self._encoding = source.encoding
        has_encoding = self._encoding is not None and dialect.encoding is None
        self.notes = (*self._dialect.notes, *[f"the text is read as {self._encoding}"] * has_encoding)
        self._unread: BinaryIO | None = stream if source.is_single_pass else None  # the rest of a single-pass stream

    @property
    def options(self) -> tuple[str, ...]:
        """The command-line options that set the detected dialect."""
        options = [word for word in self._dialect.options if not (self._container and word.startswith("--decimal"))]
        return (*options, *([f"--encoding {self._encoding}"] if self._encoding else []))

    @property
    def divisible_range(self) -> tuple[int, int] | None:
        """The range of bytes that holds the rows, if parts of it can be read separately; otherwise None."""
        size = self._source.seekable_size
        if size is None:
            return None
        with self._source.open_text() as stream:
            self._skip_header(stream)
            return stream.tell(), size

    def restrict(self, begin: int, end: int) -> None:
        """Restrict `iter_batches` to the rows that begin in a range of bytes.

        Raises FallbackRequired for a part with quotes: whether a line starts within quotes depends on the lines before
        it.
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
            raise batches.FallbackRequired
        self._source = self._source.with_bytes(head + lines)

    def text_positions(self) -> set[int]:
        """Return the positions of text columns: those whose first cell that is not missing is not a number."""
        with contextlib.closing(self._iter_all_records()) as records:
            rows = [[*map(str.strip, record.cells)] for record in itertools.islice(records, _TYPE_SAMPLE_RECORDS)]
        columns = itertools.zip_longest(*rows, fillvalue="")
        first_cells = (next((cell for cell in column if cell not in MISSING_VALUES), "") for column in columns)
        return {position for position, cell in enumerate(first_cells) if self.new_parser().parse(cell) is None}

    def estimate_rows(self) -> int:
        """Return the number of rows, estimated from the first ones."""
        return self._source.estimate_lines()

    def new_parser(self) -> CellParser:
        """Return a parser for the cells of a column."""
        parser = CellParser(self._dialect.certain_decimal, date_format=self._date_format)
        parser.detected_decimal = self._dialect.detected_decimal
        return parser

    def iter_records(self) -> Generator[Record]:
        """Yield the rows as text with their locations. A single-pass source yields only rows not read yet."""
        if not self._source.is_single_pass:
            yield from self._iter_all_records()
        elif self._unread is not None:
            rest, self._unread = self._unread, None
            yield from self._iter_records(rest)

    def iter_text_batches(self) -> Generator[TextBatch]:
        """Yield the rows as columns of text. Raises FallbackRequired at the first row for which it is impossible."""
        dialect = self._dialect
        if not self._source.is_large or dialect.comment or dialect.delimiter == WHITESPACE or dialect.decimal != ".":
            raise batches.FallbackRequired
        import pyarrow as pa

        types = {str(position): pa.binary() for position in range(len(self.header))}
        for table in self._iter_tables(types, allow_quotes=False):
            yield from map(TextBatch, table.combine_chunks().to_batches())

    def iter_batches(self, request: batches.ColumnRequest) -> Generator[batches.RawBatch]:
        """Yield columns of some rows at a time.

        Raises:
            DataError: for cells that are not numbers, and for missing cells unless they are accepted, if their location
                is known.
            FallbackRequired: if the file has to be parsed cell by cell.
        """
        if request.cell_by_cell or self._source.is_small:
            yield from self._parse_cells(request)
            return
        import pyarrow as pa

        arrow_names = {name: str(position) for name, position in request.positions.items()}
        types = {arrow: pa.string() if name in request.labels else pa.float64() for name, arrow in arrow_names.items()}
        nulls = {"null_values": [*MISSING_VALUES], "strings_can_be_null": True}
        to_labels = partial(batches.arrow_labels, text=self.new_parser().label)
        for table in self._iter_tables(types, allow_quotes=True, **nulls, decimal_point=self._dialect.decimal):
            yield {
                name: (to_labels if name in request.labels else batches.arrow_floats)(table.column(arrow))
                for name, arrow in arrow_names.items()
            }

    def _iter_tables(self, types: Mapping[str, Any], *, allow_quotes: bool, **conversion: Any) -> Generator[Any]:
        """Yield columns as Arrow tables of some lines each.

        Blocks of lines without quotes are parsed on all cores. From the first quote on, where a line may end within a
        cell, Arrow's incremental reader is used.

        Args:
            types: the type of each column by its position, as text: unused names may be empty or repeated.
            conversion: further options of Arrow's conversion.

        Raises:
            FallbackRequired: if Arrow rejects the text.
        """
        import pyarrow as pa
        from pyarrow import csv as pa_csv

        block_bytes = max(_PARSE_BLOCK_BYTES, _FAST_CELL_BYTES * len(self.header))
        names = [str(position) for position in range(len(self.header))]
        reading = pa_csv.ReadOptions(column_names=names, block_size=block_bytes)
        converting = pa_csv.ConvertOptions(include_columns=[*types], column_types=dict(types), **conversion)
        plain = pa_csv.ParseOptions(delimiter=self._dialect.delimiter, quote_char=False)
        quoted = pa_csv.ParseOptions(delimiter=self._dialect.delimiter, newlines_in_values=True)
        try:
            with self._source.open_text() as stream:
                lines = LineReader(self._row_stream(stream))
                for block in lines:
                    source: Any = pa.BufferReader(block)
                    yield _within_floats(pa_csv.read_csv(source, reading, plain, converting), block)
                if lines.rest is None:
                    return
                if not allow_quotes:
                    raise batches.FallbackRequired
                with pa_csv.open_csv(lines.rest, reading, quoted, converting) as reader:
                    yield from (_within_floats(pa.Table.from_batches([batch])) for batch in reader)
                if lines.quotes % 2 or lines.has_minute_numbers:
                    raise batches.FallbackRequired  # Arrow does not report a quote that is never closed either
        except (pa.ArrowInvalid, OSError, EOFError, zlib.error) as error:
            raise batches.FallbackRequired from error

    def _row_stream(self, stream: BinaryIO) -> Any:
        """Return the bytes of the rows without comments. If blanks separate cells, runs of them become one blank."""
        self._skip_header(stream)
        if not self._dialect.comment and self._dialect.delimiter != WHITESPACE:
            return stream
        return io.BufferedReader(ByteChunkStream(_normalized_lines(stream, self._dialect)))

    def _parse_cells(self, request: batches.ColumnRequest) -> Generator[batches.RawBatch]:
        """Yield columns, parsed cell by cell. Raises DataError that lists invalid cells by line and column."""
        problems = batches.ProblemList(f"{self._source.name}: ")
        with contextlib.closing(self._iter_all_records()) as records:
            while block := list(itertools.islice(records, request.batch_rows)):
                batch = parse_records(block, len(self.header), request, problems)
                if not problems:
                    yield batch
        problems.raise_if_any()

    def _iter_all_records(self) -> Generator[Record]:
        """Yield all rows as text."""
        with self._source.open_text() as stream:
            self._skip_header(stream)
            yield from self._iter_records(stream)

    def _skip_header(self, stream: BinaryIO) -> None:
        """Move to the first row."""
        for _ in range(self._dialect.header_lines):
            stream.readline()

    def _iter_records(self, stream: BinaryIO) -> Generator[Record]:
        """Yield each record that is not blank, with the number of its first line."""
        dialect = self._dialect
        first_row = self._dialect.first_row.decode("utf-8", "surrogateescape") if self._source.is_single_pass else ""
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
        lines = _NumberedLines(first_row, text, dialect)
        is_blank = dialect.delimiter == WHITESPACE
        try:
            reader = csv.reader(lines, delimiter=dialect.delimiter, skipinitialspace=is_blank)
            lines_parsed = 0
            for cells in reader:
                lines.within_record = False
                record_lines, lines_parsed = reader.line_num - lines_parsed, reader.line_num
                if cells and lines.at_end:
                    location = f"{self._source.name}: line {lines.number - record_lines + 2}"
                    raise DataError(f"{location}: a quote that opens in this row is never closed")
                if len(cells) == len(self.header) + 1 and not cells[-1]:  # some programs end rows with a delimiter
                    cells.pop()
                elif len(cells) == len(self.header) - 1 and not self.header[-1].strip():  # or only the header
                    cells.append("")
                if cells:
                    yield Record(f"line {lines.number - record_lines + 1}", cells)
        except (csv.Error, OSError, EOFError, zlib.error) as error:
            raise self._source.read_error(error, lines.number + 1) from None
        finally:
            text.detach()  # the caller closes the stream


def _within_floats(table: Any, lines: Any = b"") -> Any:
    """Return a table. Raises FallbackRequired if numbers overflowed or underflowed, which Arrow does not report.

    Args:
        lines: the text of the table, to tell numbers that underflowed from zeros.
    """
    if batches.has_extremes(table, lines):
        raise batches.FallbackRequired
    return table


def parse_records(
    records: Iterable[Record], width: int, request: batches.ColumnRequest, problems: batches.ProblemList
) -> batches.RawBatch:
    """Return the columns of some records, and add the problems of their cells to a list.

    Args:
        records: the records.
        width: the number of columns in the header.
        request: the columns.
        problems: the list.
    """
    columns: dict[str, list[Any]] = {name: [] for name in request.positions}
    for location, cells in records:
        if len(cells) != width:
            hint = "; --comment '#' skips such lines" if cells[:1] and cells[0].startswith("#") else ""
            problems.invalid.append(f"{location}: {pluralize(len(cells), 'cell')}, but the header has {width}{hint}")
            continue
        for name, position in request.positions.items():
            cell = cells[position].strip()
            parser, is_label = request.parsers[name], name in request.labels
            value, problem, lacks_value = _parse_cell(cell, parser, is_label, request.refuses_blanks)
            columns[name].append(value)
            if value is None and not is_label:
                problems.text_columns.setdefault(name, cell)
            if problem:
                problems.invalid.append(f"{location}, column `{name}`: {problem}")
            elif lacks_value and not request.accepts_missing:
                reason = " is too large for a float" if not is_label and is_beyond_floats(cell, value) else ""
                problems.missing.append(f"{location}, column `{name}`: {cell[:40] or 'empty'}{reason}")
    for name in [*problems.text_columns]:
        if not all(value is None or math.isnan(value) for value in columns[name]):
            del problems.text_columns[name]
            problems.is_text_among_numbers |= request.parsers[name].kind is CellKind.NUMBER
    return {
        name: batches.LabelColumn.of(np.array(values, object), request.parsers[name].label)
        if name in request.labels
        else np.array(values, np.float64)
        for name, values in columns.items()
    }


def _parse_cell(cell: str, parser: CellParser, is_label: bool, no_blanks: bool) -> tuple[Any, str, bool]:
    """Return a cell's value, a label or a number; its problem, or empty text; and whether it is missing."""
    if is_label:
        problem = quoted_cell(cell) if has_invalid_utf8(cell) else ""
        return (None, problem, True) if cell in MISSING_VALUES else (cell, problem, False)
    value = None if no_blanks and is_missing(cell) else parser.parse(cell)
    return (None, describe_bad_cell(cell, parser), False) if value is None else (value, "", not math.isfinite(value))


def parse_block(file: str, width: int, records: Iterable[Record], request: batches.ColumnRequest) -> dict[str, Any]:
    """Return the columns of some records; see `parse_records`. Raises DataError that lists the invalid cells."""
    problems = batches.ProblemList(f"{file}: ")
    columns = parse_records(records, width, request, problems)
    problems.raise_if_any()
    return columns


class _NumberedLines:
    """Iterates over the lines of the rows without comments, and adds an empty line at the end.

    A line within a quoted cell is not a comment.

    Attributes:
        number: the number in the file of the last line.
        within_record: whether the last line belongs to a record that may continue. The reader of the records resets it.
        at_end: whether only the added line is left, so that a record that is still open has an unclosed quote.
    """

    def __init__(self, first_row: str, rest: Iterable[str], dialect: DetectedDialect) -> None:
        self._lines = itertools.chain([first_row] if first_row else [], rest)
        self._comment, self._is_blank = dialect.comment, dialect.delimiter == WHITESPACE
        self.number = dialect.header_lines
        self.within_record = self.at_end = False

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.number += 1
            if self._comment and not self.within_record and line.lstrip().startswith(self._comment):
                continue
            self.within_record = True
            yield line.replace("\t", " ").strip() if self._is_blank else line
        self.at_end = True
        yield "\n"  # not a row, unless a quote is open


def _normalized_lines(stream: BinaryIO, dialect: DetectedDialect) -> Iterator[bytes]:
    """Yield the lines without comments, with one blank between cells if blanks separate them.

    Raises OSError for quotes among blanks, and for a comment that may be within a quoted cell.
    """
    comment, is_blank, quotes = dialect.comment.encode(), dialect.delimiter == WHITESPACE, 0
    for line in stream:
        if comment and line.lstrip().startswith(comment):
            if quotes % 2:
                raise OSError("a comment mark after a quote that is open")
            continue
        quotes += line.count(b'"')
        if not is_blank:
            yield line
        elif b'"' in line:  # blanks within quotes must stay; the csv module handles them
            raise OSError("quoted text in columns separated by blanks")
        elif cells := line.split():
            yield b" ".join(cells) + b"\n"


# --- Fast reading of text without quotes


class LineReader:
    """Reads blocks of complete lines, up to the first block with a quote.

    The blocks share one buffer: each is valid until the next one.

    Args:
        stream: the lines.

    Attributes:
        rest: the lines from the first block with a quote on; None if no block with a quote has been reached.
        quotes: the number of quotes in what has been read of the rest.
        has_minute_numbers: whether the rest may have numbers that underflow.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.rest: BinaryIO | None = None
        self.quotes = 0
        self.has_minute_numbers = False

    def __iter__(self) -> Iterator[memoryview]:
        buffer = bytearray(_LINE_BLOCK_BYTES)
        carried_bytes = 0  # bytes at the start of the buffer that belong to an incomplete line
        while count := self._stream.readinto(memoryview(buffer)[carried_bytes:]):
            filled = carried_bytes + count
            if buffer.find(b'"', carried_bytes, filled) >= 0:
                self.rest = io.BufferedReader(ByteChunkStream(self._pieces(bytes(buffer[:filled]))))
                return
            end = buffer.rfind(b"\n", carried_bytes, filled) + 1
            if end:
                yield from _nonblank_block(memoryview(buffer)[:end])
                buffer[: filled - end] = buffer[end:filled]
            elif filled == len(buffer):  # a line longer than the buffer
                buffer = buffer + bytearray(len(buffer))
            carried_bytes = filled - end
        yield from _nonblank_block(memoryview(buffer)[:carried_bytes])

    def _pieces(self, piece: bytes) -> Iterator[bytes]:
        """Yield the rest piece by piece, given the first one."""
        while piece:
            self.quotes += piece.count(b'"')
            self.has_minute_numbers = self.has_minute_numbers or batches.MINUTE_NUMBER.search(piece) is not None
            yield piece
            piece = self._stream.read(_PARSE_BLOCK_BYTES)


def _nonblank_block(lines: memoryview) -> Iterator[memoryview]:
    """Yield a block of lines unless all lines are blank."""
    if bytes(lines[:1]) not in (b"", b"\r", b"\n") or bytes(lines).lstrip(b"\r\n"):  # most blocks are not copied
        yield lines
