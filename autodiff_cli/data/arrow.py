"""Files of columns that pyarrow reads as tables: Parquet, Arrow (Feather), and lines of JSON."""

from __future__ import annotations

import abc
import contextlib
import io
import itertools
import json
import re
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, Literal, cast

from autodiff_cli.data.cells import CellKind, CellReader
from autodiff_cli.data.source import ByteSource
from autodiff_cli.data.streaming.growing import Growing
from autodiff_cli.data.streaming.pieces import Raw, coded
from autodiff_cli.data.table import DataError, Record, as_floats, as_texts, as_they_are
from autodiff_cli.data.texts import NotPlain, TextColumns, numbers_as_text

_BYTES = 1 << 22  # of lines that are read at a time
_ROWS = 1 << 18  # that become columns at a time
_TEXT_ROWS = 1 << 15  # that become text at a time
_LONGEST_TYPE = 60  # characters that are shown
_DEEPEST = 100  # nesting of a line of JSON, in which only numbers and texts are of use
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BUFFER = 1 << 20  # bytes of a column that are read at a time


class ArrowColumns(abc.ABC):
    """A file of typed columns. See `formats.ColumnFormat`."""

    title: str
    extent: tuple[int, int] | None = None
    is_text: bool = False
    notes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        with self._opened() as stream:
            self.header = tuple(self._schema(stream).names)

    @abc.abstractmethod
    def _schema(self, stream: BinaryIO) -> Any:
        """The names and types of the columns, as a `pyarrow.Schema`."""

    @abc.abstractmethod
    def _table(self, stream: BinaryIO, names: Sequence[str] | None = None) -> Any:
        """The columns of these names, or all, as a `pyarrow.Table`."""

    def restrict(self, begin: int, end: int) -> None:
        """See `ColumnFormat.restrict`."""
        raise NotImplementedError

    @abc.abstractmethod
    def _tables(self, stream: BinaryIO, names: Sequence[str], size: int) -> Iterator[Any]:
        """The same, some rows at a time."""

    def rows_about(self) -> int:
        """See `ColumnFormat.rows_about`."""
        with self._opened() as stream:
            return self._rows_about(stream)

    @abc.abstractmethod
    def _rows_about(self, stream: BinaryIO) -> int:
        """The same."""

    @contextlib.contextmanager
    def _stream(self) -> Iterator[BinaryIO]:
        with self._source.raw() as stream:
            yield stream

    def text_places(self) -> set[int]:
        """See `ColumnFormat.text_places`."""
        import pyarrow as pa

        with self._opened() as stream:
            types = self._schema(stream).types
        kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary)
        return {place for place, type in enumerate(types) if any(is_of(type) for is_of in kinds)}

    def reader(self) -> CellReader:
        """See `ColumnFormat.reader`."""
        return CellReader()

    def columns(
        self,
        places: Mapping[str, int],
        drop_missing: bool,  # noqa: ARG002
        texts: Collection[str],
        readers: Mapping[str, CellReader],
    ) -> dict[str, Any]:
        """See `ColumnFormat.columns`."""
        names = {name: self.header[place] for name, place in places.items()}
        columns = {name: Growing() for name in names}
        with self._opened() as stream:
            for table in self._parts(stream, list(names.values())):
                for name, own in names.items():
                    cells = table.column(own)
                    columns[name].add(as_texts(cells) if name in texts else self._numbers(cells, readers[name], own))
        return {name: column.whole() for name, column in columns.items()}

    def _parts(self, stream: BinaryIO, names: Sequence[str]) -> Iterator[Any]:
        """The columns of these names, perhaps some rows at a time."""
        yield self._table(stream, names)

    def pieces(
        self,
        places: Mapping[str, int],
        drop_missing: bool,  # noqa: ARG002
        texts: Collection[str],
        readers: Mapping[str, CellReader],
        size: int,
        careful: bool,  # noqa: ARG002
    ) -> Generator[Raw]:
        """See `ColumnFormat.pieces`."""
        names = {name: self.header[place] for name, place in places.items()}
        with self._opened() as stream:
            for table in self._tables(stream, list(names.values()), size):
                piece: Raw = {}
                for name, own in names.items():
                    cells = table.column(own)
                    piece[name] = coded(cells) if name in texts else self._numbers(cells, readers[name], own)
                yield piece

    def _numbers(self, cells: Any, reader: CellReader, own: str) -> Any:
        import pyarrow as pa

        if pa.types.is_boolean(cells.type):
            cells, reader.kind = cells.cast(pa.int8()), CellKind.TRUTH
        if pa.types.is_temporal(cells.type):
            return _seconds(cells, reader)
        try:
            if not cells.null_count and (found := as_they_are(cells)) is not None:
                return found
            return as_floats(cells.cast(pa.float64(), safe=False))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            type_ = str(cells.type)
            type_ = type_ if len(type_) <= _LONGEST_TYPE else f"{type_[: _LONGEST_TYPE - 1]}…"
            what = f"column `{own}` holds values of type {type_}, not numbers"
            raise DataError(f"{self._source.name}: {what}") from None

    def texts(self) -> Generator[TextColumns]:
        """See `ColumnFormat.texts`."""
        import pyarrow as pa

        if len({*self.header}) < len(self.header):  # names do not say which
            raise NotPlain
        with self._opened() as stream:
            for table in self._tables(stream, self.header, _TEXT_ROWS):
                for batch in table.combine_chunks().to_batches():
                    cells = [_as_text(column) for column in batch.columns]
                    yield TextColumns(pa.RecordBatch.from_arrays(cells, names=batch.schema.names))

    def records(self) -> Generator[Record]:
        """See `ColumnFormat.records`."""
        numbers = itertools.count(1)
        with self._opened() as stream:
            is_plain = len({*self.header}) == len(self.header)  # else names do not say which
            for table in self._tables(stream, self.header, _ROWS) if is_plain else [self._table(stream)]:
                columns = [column.to_pylist() for column in table.columns]
                for cells in zip(*columns, strict=True):
                    yield Record(f"row {next(numbers)}", ["" if cell is None else str(cell) for cell in cells])

    @contextlib.contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        """The file's bytes. What pyarrow cannot read within raises DataError."""
        import pyarrow as pa

        with self._stream() as stream:
            try:
                yield stream
            except DataError:
                raise
            except (OSError, EOFError, ValueError, OverflowError, pa.ArrowException) as error:
                raise self._source.unreadable(error) from None


class Parquet(ArrowColumns):
    """A Parquet file."""

    MAGIC = b"PAR1"
    title = "Parquet"

    def __init__(self, source: ByteSource) -> None:
        self._groups: list[int] | None = None  # of rows; None for all
        super().__init__(source)

    def _schema(self, stream: BinaryIO) -> Any:
        from pyarrow import parquet

        file = parquet.ParquetFile(stream)
        self.extent = 0, file.num_row_groups
        return file.schema_arrow

    def restrict(self, begin: int, end: int) -> None:
        """See `ColumnFormat.restrict`."""
        self._groups = [*range(begin, end)]

    def _table(self, stream: BinaryIO, names: Sequence[str] | None = None) -> Any:
        from pyarrow import parquet

        file, wanted = parquet.ParquetFile(stream), None if names is None else list(names)
        return file.read(wanted) if self._groups is None else file.read_row_groups(self._groups, wanted)

    def _rows_about(self, stream: BinaryIO) -> int:
        from pyarrow import parquet

        return int(parquet.ParquetFile(stream).metadata.num_rows)

    def _parts(self, stream: BinaryIO, names: Sequence[str]) -> Iterator[Any]:
        return super()._parts(stream, names) if self._groups is not None else self._tables(stream, names, _ROWS)

    def _tables(self, stream: BinaryIO, names: Sequence[str], size: int) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import parquet

        groups: dict[str, Any] = {} if self._groups is None else {"row_groups": self._groups}
        # With a buffer, columns of long groups of rows are not read as a whole.
        file = parquet.ParquetFile(stream, buffer_size=_BUFFER, pre_buffer=False)
        for batch in file.iter_batches(batch_size=size, columns=list(names), **groups):
            yield pa.Table.from_batches([batch])


class Feather(ArrowColumns):
    """A file of Arrow's own format, which is that of Feather too."""

    MAGIC = b"ARROW1"
    title = "Arrow (Feather)"

    def _schema(self, stream: BinaryIO) -> Any:
        from pyarrow import ipc

        return ipc.open_file(cast(io.IOBase, stream)).schema

    def _table(self, stream: BinaryIO, names: Sequence[str] | None = None) -> Any:
        from pyarrow import ipc

        table = _checked(ipc.open_file(cast(io.IOBase, stream)).read_all())
        return table if names is None else table.select(names)

    def _rows_about(self, stream: BinaryIO) -> int:
        from pyarrow import ipc

        file = ipc.open_file(cast(io.IOBase, stream), options=ipc.IpcReadOptions(included_fields=[0]))
        return int(file.num_record_batches and file.num_record_batches * file.get_batch(0).num_rows)

    def _parts(self, stream: BinaryIO, names: Sequence[str]) -> Iterator[Any]:
        return self._tables(stream, names, _ROWS)

    def _tables(self, stream: BinaryIO, names: Sequence[str], size: int) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import ipc

        schema = ipc.open_file(cast(io.IOBase, stream)).schema
        chosen = ipc.IpcReadOptions(included_fields=[schema.get_field_index(name) for name in names])
        file = ipc.open_file(cast(io.IOBase, stream), options=chosen)
        for number in range(file.num_record_batches):
            table = pa.Table.from_batches([_checked(file.get_batch(number))])
            for start in range(0, table.num_rows, size):
                yield table.slice(start, size)


class JsonLines(ArrowColumns):
    """Lines of JSON, each an object with the same names."""

    MAGIC = b"{"
    title = "lines of JSON"
    is_text = True

    def __init__(self, source: ByteSource) -> None:
        self._read: Any = None
        super().__init__(source)

    @contextlib.contextmanager
    def _stream(self) -> Iterator[BinaryIO]:
        with self._source.text() as stream:
            yield stream

    def _schema(self, stream: BinaryIO) -> Any:
        content = stream.read(_BYTES) + stream.readline()
        table = self._parsed(content, 0)
        if not stream.read(1):
            self._read = table
        return table.schema

    def _table(self, stream: BinaryIO, names: Sequence[str] | None = None) -> Any:
        if self._read is None:
            self._read = self._parsed(stream.read(), 0)
        return self._read if names is None else self._read.select(names)

    def _rows_about(self, stream: BinaryIO) -> int:  # noqa: ARG002
        return self._source.lines_about()

    def _tables(self, stream: BinaryIO, names: Sequence[str], size: int) -> Iterator[Any]:  # noqa: ARG002
        import pyarrow as pa

        lines = 0
        while content := stream.read(_BYTES) + stream.readline():
            table = self._parsed(content, lines)
            lines += content.count(b"\n")
            for name in names:
                if name not in table.column_names:  # no line of these has it
                    table = table.append_column(name, pa.nulls(table.num_rows, pa.float64()))
            yield table.select(list(names))

    def _parsed(self, content: bytes, before: int) -> Any:
        """Lines as a table. `before` is how many come before them."""
        import pyarrow as pa
        from pyarrow import json as pa_json

        self._check_depth(content, before)
        try:
            return pa_json.read_json(io.BytesIO(content))
        except pa.ArrowInvalid:
            return pa.Table.from_pylist(list(self._objects(content, before)))

    def _check_depth(self, content: bytes, before: int) -> None:
        """Raise DataError for lines that are nested so deeply that those who read them would run out of stack."""
        if content.count(b"{") + content.count(b"[") <= content.count(b"\n") + _DEEPEST:
            return
        for number, line in enumerate(content.split(b"\n"), before + 1):
            if line.count(b"{") + line.count(b"[") > _DEEPEST:
                steps = ((mark in b"{[") - (mark in b"}]") for mark in _QUOTED.sub(b"", line))
                if max(itertools.accumulate(steps)) > _DEEPEST:
                    raise DataError(f"{self._source.name}: line {number}: nested more than {_DEEPEST} deep")

    def _objects(self, content: bytes, before: int) -> Iterator[dict[str, Any]]:
        """The objects, one by one. Raises DataError that names the line of what is none."""
        for number, line in enumerate(content.splitlines(), before + 1):
            if not line.strip():
                continue
            try:
                found = json.loads(line)
            except ValueError as error:
                raise self._source.unreadable(error, number) from None
            if not isinstance(found, dict):
                raise DataError(f"{self._source.name}: line {number}: an object with a value for each column is needed")
            yield found


def _as_text(cells: Any) -> Any:
    """The text of each cell as Python writes it, in bytes, as an Arrow array. Raises NotPlain for what has more than
    one way of writing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if cells.type in (pa.float32(), pa.float64()):
        floats = as_floats(pa.chunked_array([cells.cast(pa.float64())]))
        texts = pc.if_else(cells.is_valid(), numbers_as_text(floats, str), "")
    elif pa.types.is_integer(cells.type) or cells.type == pa.string():
        cells.validate(full=True)  # a text may be no UTF-8
        texts = cells.cast(pa.string())
    else:
        raise NotPlain
    return texts.fill_null("").cast(pa.binary())


def _checked(cells: Any) -> Any:
    """A batch or a table whose places, lengths and texts are what they say: Arrow takes them out of the file unseen,
    and a damaged one would be read outside its bytes. Raises ArrowInvalid."""
    cells.validate(full=True)
    return cells


def _seconds(cells: Any, reader: CellReader) -> Any:
    """Moments as seconds since the first, or since the origin of a reader, nan where one is missing."""
    import pyarrow as pa

    reader.kind = CellKind.TIME
    zone = getattr(cells.type, "tz", None)
    if pa.types.is_duration(cells.type):
        spans = cells.cast(pa.duration("ns")).cast(pa.int64()).to_pylist()
        return as_floats([None if x is None else x / 1e9 for x in spans])
    unit: Literal["ns", "us"] = "us"  # nanoseconds reach from 1677 to 2262 only
    if pa.types.is_time(cells.type) or getattr(cells.type, "unit", "s") == "ns":
        unit = "ns"
    ticks = cells.cast(pa.time64(unit) if pa.types.is_time(cells.type) else pa.timestamp(unit, zone)).cast(pa.int64())
    whole = [None if x is None else x * (1 if unit == "ns" else 1000) for x in ticks.to_pylist()]
    start = datetime(1970, 1, 1, tzinfo=UTC if zone else None)
    if reader.origin is None:
        first = next((x for x in whole if x is not None), 0)
        reader.origin = start + timedelta(microseconds=first // 1000)
    origin = (reader.origin - start.replace(tzinfo=reader.origin.tzinfo)) // timedelta(microseconds=1) * 1000
    return as_floats([None if x is None else (x - origin) / 1e9 for x in whole])
