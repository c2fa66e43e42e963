"""Text with columns: CSV, TSV, and what else separates cells.

pyarrow reads it: it is fast, but of a bad cell it tells the column at most. So text that it refuses (which may hold
dates, or separators of thousands), or that has missing cells, is read again with the standard `csv` module, which knows
the line.
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
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.cells import MISSING, CellKind, CellReader, counted, is_broken, shown
from autodiff_cli.data.dialect import BLANKS, Dialect, Opening, opened
from autodiff_cli.data.source import ByteSource
from autodiff_cli.data.streaming.growing import Growing
from autodiff_cli.data.streaming.pieces import Raw, coded, coded_cells
from autodiff_cli.data.streaming.watched import CountedQuotes
from autodiff_cli.data.table import DataError, Record, as_floats, as_texts, float_parts, is_finite, listing
from autodiff_cli.data.texts import SHARE, NotPlain, TextColumns, has_quotes, text_batches, whole_lines

LONGEST_CELL = 1 << 24  # characters
_BLOCK = 1 << 22  # bytes that are read at a time, where columns come in pieces
_CELL = 256  # bytes of one, in the longest lines that are read fast
_LOOKED_AT = 1000  # records in which the first cell of a column is looked for

# The module's own limit, which holds for the whole process, is lower than what tables have in columns of text.
csv.field_size_limit(max(csv.field_size_limit(), LONGEST_CELL))


class Delimited:
    """A text of records. See `formats.ColumnFormat`."""

    is_text = True

    def __init__(self, source: ByteSource, dialect: Dialect) -> None:
        self._source = source
        with contextlib.ExitStack() as stack:
            stream = stack.enter_context(source.text())
            try:
                self._opening = opened(stream, dialect, look_ahead=not source.once)
            except DataError as error:
                raise DataError(f"{source.name}: {error}") from None
            except (OSError, EOFError, zlib.error, csv.Error) as error:
                raise source.unreadable(error, 1) from None
            if source.once:
                stack.pop_all()  # the rows come from it
        self.header = self._opening.header
        self.notes = self._opening.notes
        self._rest: BinaryIO | None = stream if source.once else None  # what has not been read

    @property
    def title(self) -> str:
        """What the format is called."""
        return f"text, its columns separated by {self._opening.separator}"

    @property
    def options(self) -> tuple[str, ...]:
        """See `ColumnFormat.options`."""
        return self._opening.options

    @property
    def extent(self) -> tuple[int, int] | None:
        """See `ColumnFormat.extent`."""
        size = self._source.plain_size
        if size is None:
            return None
        with self._source.text() as stream:
            self._skip(stream)
            return stream.tell(), size

    def restrict(self, begin: int, end: int) -> None:
        """See `ColumnFormat.restrict`. Whether a line begins within quotes only those before it know."""
        with self._source.text() as stream:
            head = b"".join(stream.readline() for _ in range(self._opening.lines))
            if begin > stream.tell():
                stream.seek(begin - 1)
                stream.readline()
            lines = stream.read(max(0, end - stream.tell()))
            if lines and not lines.endswith(b"\n"):
                lines += stream.readline()
        if b'"' in lines:
            raise NotPlain
        self._source = self._source.of_bytes(head + lines)

    def text_places(self) -> set[int]:
        """See `ColumnFormat.text_places`."""
        unknown, found = set(range(len(self.header))), set()
        with contextlib.closing(self._from_start()) as records:
            for record in itertools.islice(records, _LOOKED_AT):
                for place in [*unknown]:
                    cell = record.cells[place].strip() if place < len(record.cells) else ""
                    if cell in MISSING:
                        continue
                    unknown.remove(place)
                    if self.reader().read(cell) is None:
                        found.add(place)
                if not unknown:
                    break
        return found

    def rows_about(self) -> int:
        """See `ColumnFormat.rows_about`."""
        return self._source.lines_about()

    def reader(self) -> CellReader:
        """See `ColumnFormat.reader`."""
        return CellReader(self._opening.decimal)

    def records(self) -> Generator[Record]:
        """See `ColumnFormat.records`."""
        if not self._source.once:
            yield from self._from_start()
        elif self._rest is not None:
            rest, self._rest = self._rest, None
            yield from self._records(rest)

    def texts(self) -> Generator[TextColumns]:
        """See `ColumnFormat.texts`."""
        opening = self._opening
        if not self._source.is_long or opening.comment or opening.delimiter == BLANKS or opening.decimal != ".":
            raise NotPlain
        with self._source.text() as stream:
            self._skip(stream)
            if self._has_quotes(stream):
                raise NotPlain
        with self._source.text() as stream:
            self._skip(stream)
            yield from text_batches(stream, opening.delimiter, len(self.header))

    def _has_quotes(self, stream: BinaryIO) -> bool:
        """Whether there are quotes, or what cannot be read."""
        try:
            return has_quotes(stream)
        except (OSError, EOFError, zlib.error):
            return True

    def columns(
        self, places: Mapping[str, int], drop_missing: bool, texts: Collection[str], readers: Mapping[str, CellReader]
    ) -> dict[str, Any]:
        """See `ColumnFormat.columns`."""
        columns = None if self._source.is_short else self._read_fast(places, texts)
        if columns is None or not (drop_missing or all(map(_is_complete, columns.values()))):
            return self._read_carefully(places, drop_missing, texts, readers)
        return columns

    def _read_fast(self, places: Mapping[str, int], texts: Collection[str]) -> dict[str, Any] | None:
        """The columns, nan or None where a cell is missing; None if anything else is wrong."""
        import pyarrow as pa
        from pyarrow import csv as pa_csv

        about = self.rows_about() * 17 // 16  # of lines, the first may be longer

        def read(*, plain: bool) -> dict[str, Any] | None:
            chosen, options = self._arrow_options(places, texts, plain=plain)
            if plain:
                options["read_options"].block_size = max(SHARE, _CELL * len(self.header))
            found = {name: Growing(about) for name in places}
            with self._source.text() as stream:
                rows = self._rows(stream)
                quoted = CountedQuotes(rows)
                sources: Iterator[Any] = map(pa.BufferReader, whole_lines(rows)) if plain else iter([quoted])
                for source in sources:
                    table = pa_csv.read_csv(source, **options)
                    for name, own in chosen.items():
                        cells = table.column(own)
                        for part in [as_texts(cells)] if name in texts else float_parts(cells):
                            found[name].add(part)
                if quoted.count % 2:
                    return None  # one may never be closed, which Arrow does not say
            columns = {name: column.whole() for name, column in found.items()}
            return columns if all(map(len, columns.values())) else None

        try:
            try:
                return read(plain=True)  # where no line goes on within quotes, in slabs, each on all cores
            except NotPlain:
                return read(plain=False)
        except (pa.ArrowInvalid, OSError, EOFError, zlib.error):
            return None

    def _arrow_options(
        self, places: Mapping[str, int], texts: Collection[str], *, plain: bool
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """What Arrow calls the columns at some places, and how it is to read them.

        Args:
            plain: whether there are no quotes.
        """
        import pyarrow as pa
        from pyarrow import csv as pa_csv

        # Columns by position: names that the model does not use may be empty, or twice there.
        positions = [str(place) for place in range(len(self.header))]
        chosen = {name: positions[place] for name, place in places.items()}
        types = {position: pa.string() if name in texts else pa.float64() for name, position in chosen.items()}
        opening = self._opening
        quoting: dict[str, Any] = {"quote_char": False} if plain else {"newlines_in_values": True}
        return chosen, {
            "read_options": pa_csv.ReadOptions(column_names=positions),
            "parse_options": pa_csv.ParseOptions(delimiter=opening.delimiter, **quoting),
            "convert_options": pa_csv.ConvertOptions(
                include_columns=[*types],
                column_types=types,
                null_values=[*MISSING],
                strings_can_be_null=True,
                decimal_point=opening.decimal,
            ),
        }

    def pieces(
        self,
        places: Mapping[str, int],
        drop_missing: bool,
        texts: Collection[str],
        readers: Mapping[str, CellReader],
        size: int,
        careful: bool,
    ) -> Generator[Raw]:
        """See `ColumnFormat.pieces`."""
        if careful:
            with contextlib.closing(self._from_start()) as records:
                while block := list(itertools.islice(records, size)):
                    found = self._read_records(block, places, drop_missing, texts, readers)
                    yield {name: coded_cells(column) if name in texts else column for name, column in found.items()}
            return
        import pyarrow as pa
        from pyarrow import csv as pa_csv

        chosen, options = self._arrow_options(places, texts, plain=False)
        options["read_options"].block_size = _BLOCK
        with self._source.text() as stream:
            quoted: Any = CountedQuotes(self._rows(stream))
            try:
                with pa_csv.open_csv(quoted, **options) as reader:
                    for batch in reader:
                        cells = {name: pa.chunked_array([batch.column(own)]) for name, own in chosen.items()}
                        yield {n: coded(each) if n in texts else as_floats(each) for n, each in cells.items()}
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise self._source.unreadable(error) from None
            except (pa.ArrowInvalid, OSError) as error:
                raise NotPlain from error
            if quoted.count % 2:
                raise NotPlain

    def _rows(self, stream: BinaryIO) -> Any:
        """The bytes of the rows, without comments, and with one blank where cells are separated by blanks."""
        self._skip(stream)
        opening = self._opening
        if not opening.comment and opening.delimiter != BLANKS:
            return stream
        return io.BufferedReader(_Lines(_plain(stream, opening)))

    def _read_carefully(
        self, places: Mapping[str, int], drop_missing: bool, texts: Collection[str], readers: Mapping[str, CellReader]
    ) -> dict[str, Any]:
        """The same, cell by cell. Raises DataError that lists what is wrong by line, column and text."""
        with contextlib.closing(self._from_start()) as records:
            return self._read_records(records, places, drop_missing, texts, readers)

    def _read_records(
        self,
        records: Iterable[Record],
        places: Mapping[str, int],
        drop_missing: bool,
        texts: Collection[str],
        readers: Mapping[str, CellReader],
    ) -> dict[str, Any]:
        """The columns of some records. Raises as `_read_carefully`."""
        wrong: list[str] = []
        missing: list[str] = []
        columns: dict[str, list[Any]] = {name: [] for name in places}
        for place, cells in records:
            if len(cells) != len(self.header):
                wrong.append(f"{place}: {counted(len(cells))}, but the header has {len(self.header)}")
                continue
            for name, k in places.items():
                cell = cells[k].strip()
                if name in texts:
                    if is_broken(cell):
                        wrong.append(f"{place}, column `{name}`: {shown(cell)}")
                    if cell in MISSING:
                        missing.append(f"{place}, column `{name}`: {cell[:40] or 'empty'}")
                    columns[name].append(None if cell in MISSING else cell)
                    continue
                value = readers[name].read(cell)
                if value is None:
                    wrong.append(f"{place}, column `{name}`: {not_read(cell, readers[name])}")
                elif not math.isfinite(value):
                    missing.append(f"{place}, column `{name}`: {cell[:40] or 'empty'}")
                columns[name].append(math.nan if value is None else value)
        if wrong or (missing and not drop_missing):
            raise DataError(listing(wrong or missing, f"{self._source.name}: "), missing=not wrong)
        return {name: np.array(values, dtype=object if name in texts else None) for name, values in columns.items()}

    def _from_start(self) -> Generator[Record]:
        with self._source.text() as stream:
            self._skip(stream)
            yield from self._records(stream)

    def _skip(self, stream: BinaryIO) -> None:
        """Go to the first row."""
        for _ in range(self._opening.lines):
            stream.readline()

    def _records(self, stream: BinaryIO) -> Generator[Record]:
        """Each record that is not blank, with the line on which it begins."""
        opening = self._opening
        begun = self._opening.first.decode("utf-8", "surrogateescape") if self._source.once else ""
        text = io.TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline="")
        lines = _CountedLines(begun, text, opening)
        is_blank = opening.delimiter == BLANKS
        try:
            reader = csv.reader(lines, delimiter=opening.delimiter, skipinitialspace=is_blank)
            read = 0
            for cells in reader:
                own, read = reader.line_num - read, reader.line_num
                if cells and lines.at_end:
                    place = f"{self._source.name}: line {lines.count - own + 2}"
                    raise DataError(f"{place}: a quote opens in this row and is never closed")
                if cells:
                    yield Record(f"line {lines.count - own + 1}", cells)
        except (csv.Error, OSError, EOFError, zlib.error) as error:
            raise self._source.unreadable(error, lines.count + 1) from None
        finally:
            text.detach()  # who opened the stream closes it


class _CountedLines:
    """The lines of the rows, without comments, with the number in the file of the last one, and an empty line."""

    def __init__(self, begun: str, rest: Iterable[str], opening: Opening) -> None:
        self._lines = iter([begun] if begun else [])
        self._rest = iter(rest)
        self._comment, self._is_blank = opening.comment, opening.delimiter == BLANKS
        self.count = opening.lines
        self.at_end = False

    def __iter__(self) -> Iterator[str]:
        for lines in (self._lines, self._rest):
            for line in lines:
                self.count += 1
                if self._comment and line.lstrip().startswith(self._comment):
                    continue
                yield line.replace("\t", " ").strip() if self._is_blank else line
        self.at_end = True
        yield "\n"  # no row, unless a quote is open


class _Lines(io.RawIOBase):
    """Pieces of bytes as a stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            self._left = next(self._pieces, b"")
        taken, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


def _plain(stream: BinaryIO, opening: Opening) -> Iterator[bytes]:
    comment, is_blank = opening.comment.encode(), opening.delimiter == BLANKS
    for line in stream:
        if comment and line.lstrip().startswith(comment):
            continue
        if not is_blank:
            yield line
        elif b'"' in line:  # blanks within quotes stay: the careful way knows them
            raise OSError("quoted text among blanks")
        elif cells := line.split():
            yield b" ".join(cells) + b"\n"


def not_read(cell: str, reader: CellReader) -> str:
    """What is wrong with a cell that is not what its column is."""
    return f"{shown(cell)} is not {(reader.kind or CellKind.NUMBER).value}" if cell else "empty"


def _is_complete(column: NDArray[Any]) -> bool:
    return is_finite(column) if column.dtype.kind == "f" else None not in column.tolist()
