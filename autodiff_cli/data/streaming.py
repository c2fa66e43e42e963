"""Columns that are read in batches, and streamed over many passes when they do not fit in memory.

Files yield batches of rows (`ColumnBatch`), and `Rechunker` makes chunks of equal length of them. `StreamedColumns`
provides the columns of a fit chunk by chunk, pass after pass. Its first pass finds the rows that stay and the labels.
If parsing again would be slow, it writes the decoded columns to a temporary file (`DecodedColumns`); otherwise every
pass reads the files again and checks that they have not changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.data.batches import CodeTable, ColumnQuery, MissingCells, labels_of, numbers_of, with_fallback
from autodiff_cli.data.dialect import DataError
from autodiff_cli.data.source import TemporaryBytes, available_memory, save_memory
from autodiff_cli.data.table import Table, check_has_rows
from autodiff_cli.system import cache_folder, has_memory_limits

_MAX_LABELS = 1 << 16  # different labels of a column; more are measurements or identifiers


class Rechunker:
    """Converts batches of any length to chunks of one length.

    Args:
        chunk: the number of rows of a chunk.
        buffers: buffers of one chunk each, as arrays by column name, which are filled in turn. By default there is one,
            with the types of the first batch.
    """

    def __init__(self, chunk: int, buffers: Sequence[dict[str, NDArray[Any]]] = ()) -> None:
        self._chunk = chunk
        self._buffers = buffers
        self._turn = 0
        self._filled = 0

    def add(self, batch: Mapping[str, NDArray[Any]], rows: int) -> Iterator[dict[str, NDArray[Any]]]:
        """Add a batch, and yield the chunks that it completes. Use each chunk before requesting the next."""
        self._buffers = self._buffers or [
            {name: np.empty((*column.shape[:-1], self._chunk), column.dtype) for name, column in batch.items()}
        ]
        start = 0
        while start < rows:
            count = min(rows - start, self._chunk - self._filled)
            buffer = self._buffers[self._turn]
            for name, array in buffer.items():
                array[..., self._filled : self._filled + count] = batch[name][..., start : start + count]
            start += count
            self._filled += count
            if self._filled == self._chunk:
                self._filled = 0
                self._turn = (self._turn + 1) % len(self._buffers)
                yield buffer

    def remainder(self) -> Iterator[tuple[dict[str, NDArray[Any]], int]]:
        """Yield the last, incomplete chunk and its number of rows, if there is one."""
        if self._filled:
            buffer = self._buffers[self._turn]
            # Contiguous as complete chunks are: sums of matrix products depend on it.
            yield {n: np.ascontiguousarray(array[..., : self._filled]) for n, array in buffer.items()}, self._filled


_FLOAT_BYTES = np.dtype(np.float64).itemsize
_MAX_GAP_ROWS = 512  # rows that are read with their neighbours: one page of memory, as fast as another call
# --- Decoded columns on disk


class DecodedColumns:
    """Columns of numbers in an unnamed temporary file, which later passes read at the speed of the disk.

    The file stores one chunk after the other and, in a chunk, one column after the other. It is deleted with
    this object. It is read into reused buffers instead of being mapped, so that memory limits are respected.

    Args:
        folder: the folder of the file.
        names: the names of the columns.
        chunk: the number of rows of each chunk but the last.

    Attributes:
        rows: the number of rows added so far.

    Raises:
        OSError: if the file cannot be written.
    """

    def __init__(self, folder: Path, names: Sequence[str], chunk: int) -> None:
        self._bytes = TemporaryBytes(folder)
        self._places = {name: position for position, name in enumerate(names)}
        self._chunk = chunk
        self.rows = 0

    def add(self, columns: Mapping[str, Array], rows: int) -> None:
        """Append a chunk; only the last one may be incomplete. Raises OSError."""
        for name in self._places:
            content = np.ascontiguousarray(columns[name][:rows]).data.cast("B")
            self._bytes.write(content, self._offset(name, self.rows))
        self.rows += rows

    def read(self, number: int, buffers: Mapping[str, Array]) -> int:
        """Read columns of a chunk into buffers, and return its number of rows."""
        rows = min(self._chunk, self.rows - number * self._chunk)
        for name, array in buffers.items():
            self._fill(self._offset(name, number * self._chunk), array[:rows])
        return rows

    def gather(self, rows: NDArray[Any], names: Collection[str]) -> dict[str, Array]:
        """Return some rows of some columns by their numbers. Rows near each other are read together."""
        numbers = np.asarray(rows, dtype=np.int64)
        columns = {name: np.empty(len(numbers)) for name in names}
        if not len(numbers):
            return columns
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        is_break = (np.diff(ordered) > _MAX_GAP_ROWS) | (ordered[1:] // self._chunk != ordered[:-1] // self._chunk)
        breaks = np.flatnonzero(is_break) + 1
        for places, run in zip(np.split(order, breaks), np.split(ordered, breaks), strict=True):
            first = int(run[0])
            values = np.empty(int(run[-1]) - first + 1)
            for name, column in columns.items():
                self._fill(self._offset(name, first), values)
                column[places] = values[run - first]
        return columns

    def _offset(self, name: str, row: int) -> int:
        """Return the position of a value in the file, in bytes."""
        chunk, row_in_chunk = divmod(row, self._chunk)
        return ((chunk * len(self._places) + self._places[name]) * self._chunk + row_in_chunk) * _FLOAT_BYTES

    def _fill(self, offset: int, array: Array) -> None:
        """Fill an array with the values at a position of the file."""
        view = array.data.cast("B")
        while view:
            count = self._bytes.read_into(view, offset)
            if not count:
                raise OSError("the file of decoded columns ends early")
            view, offset = view[count:], offset + count


T = TypeVar("T")
Chunk: TypeAlias = tuple[dict[str, Array], int]  # columns, and the number of rows


# --- Streamed columns


# Numbers of rows that are read and processed together.
MIN_CHUNK_ROWS = 8192  # the number of rows is always this times a power of 2
_MAX_CHUNK_ROWS = 1 << 16  # rows, measured: the work on a chunk is long compared with the cost of starting it
_LIMITED_CHUNK_ROWS = 1 << 14  # rows where address space is limited: freeing large chunks fragments it
_COPIES = 8  # copies of a chunk in memory at a time, including readers and tasks
_MAX_CHUNK_BYTES = 128 << 20  # bytes of all copies: longer chunks are not faster
_MEMORY_SHARE = 4  # all copies together take at most 1/4 of the available memory
_FIXED_BYTES = 24 << 20  # bytes that readers need for chunks of any size
_LIMITED_BYTES = 64 << 20  # bytes that readers and kernels need where address space is limited
_PROGRESS_SECONDS = 0.1  # seconds between two progress reports of a pass


def extend_checksum(checksum: int, column: Array) -> int:
    """Return the checksum of a column, given the checksum of the rows before."""
    return (checksum * 3 + int(np.add.reduce(column.view(np.uint64)))) % 2**64


class PassProgress(NamedTuple):
    """The progress of a pass over the rows.

    Attributes:
        number: the number of the pass, counted from 1.
        rows: the number of rows read so far.
        total: the number of all rows; None during the first pass.
        seconds: the time since the pass began.
    """

    number: int
    rows: int
    total: int | None
    seconds: float


@dataclass
class StreamedColumns:
    """Columns of files that are read chunk by chunk in every pass.

    Args:
        source: the files, a `files.DataSource`.
        numeric_names: the columns to read as numbers.
        label_names: the columns to read as labels. A column may be in both.
        reason: why the columns are streamed, for the note.
        drop_missing: drop rows with a missing cell.
        levels: the levels of columns of labels that a fit knows.
        random_access: whether single rows have to be read quickly by their numbers.
        inspect: called with each chunk of the first pass and the number of rows before it.
        on_progress: called regularly with the progress of a pass.

    Attributes:
        rows, dropped: the numbers of rows that are in the chunks, and that were dropped.
        labels: the labels of each label column, by code. Chunks have the codes under `label_key(name)`.

    Raises:
        DataError: for invalid data, and if the available memory is too small for a chunk.
    """

    source: Any
    numeric_names: Sequence[str]
    label_names: Sequence[str]
    reason: str
    drop_missing: bool = False
    levels: Mapping[str, Collection[Any]] = field(default_factory=dict)
    random_access: bool = False
    inspect: Callable[[Mapping[str, Array], int], None] | None = None
    on_progress: Callable[[PassProgress], object] | None = None
    rows: int = field(default=0, init=False)
    dropped: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        save_memory()
        self.names = (*self.numeric_names, *map(label_key, self.label_names))
        self.chunk = _chunk_rows(len(self.names))
        self.passes = 0
        self.rows_read = 0  # rows read in all passes
        self.seconds = 0.0
        self._buffers = [{name: np.empty(self.chunk) for name in self.names} for _ in range(2)]
        self._decoded: DecodedColumns | None = None
        self._signature = self.source.signature()
        missing = MissingCells.DROP if self.drop_missing else MissingCells.REFUSE
        self._query = ColumnQuery(self.numeric_names, self.label_names, missing, self.chunk)
        with_fallback(self._query, self._read_first)
        check_has_rows(Table({}, self.rows, self.dropped), f"{self.source.name}: ")
        self.labels = {name: table.parsed(self.levels.get(name, ())) for name, table in self.code_tables.items()}
        self.passes = 1

    @property
    def note(self) -> str:
        """A sentence on how the rows were streamed."""
        rate = self.rows_read / max(self.seconds, 1e-9)
        storage = "read again in every pass" if self._decoded is None else "decoded on disk"
        return (
            f"the rows are streamed ({self.reason}): {self.passes} passes over {self.rows} rows, {storage}, "
            f"{rate / 1e6:.3g} million rows a second"
        )

    def iter_chunks(self, names: Collection[str]) -> Generator[Chunk]:
        """Pass over all rows and yield chunks of some columns with their numbers of rows.

        A chunk is valid until the next one.

        Raises DataError if the files have changed since the first pass.
        """
        self.passes += 1
        yield from self._report_progress(self._next_pass([name for name in self.names if name in names]))

    def gather(self, rows: NDArray[Any], names: Collection[str]) -> dict[str, Array]:
        """Return some rows of some columns by their numbers."""
        if self._decoded is not None:
            return self._decoded.gather(rows, names)
        gathered = {name: np.empty(len(rows)) for name in names}
        order = np.argsort(rows, kind="stable")
        ordered, start = rows[order], 0
        for columns, count in self.iter_chunks(names):
            first, end = np.searchsorted(ordered, (start, start + count)).tolist()
            for name, values in gathered.items():
                values[order[first:end]] = columns[name][ordered[first:end] - start]
            start += count
        return gathered

    def _read_first(self, query: ColumnQuery) -> None:
        """Read all rows once. Store them decoded if reading them again would be slow."""
        self._query = query
        self.code_tables = {name: CodeTable() for name in self.label_names}
        self.rows = self.dropped = 0
        is_worth_storing = self.random_access or self.source.is_slow_to_parse or self.label_names
        self._decoded = self._create_decoded() if is_worth_storing else None
        self._checksums = dict.fromkeys(self.names, 0)
        for columns, count in self._report_progress(self._read_files(self.names)):
            if self.inspect is not None:
                self.inspect(columns, self.rows)
            if self._decoded is not None:
                try:
                    self._decoded.add(columns, count)
                except OSError:  # the disk is full: every pass reads the files again
                    self._decoded = None
                    self._require_decoded()
            self.rows += count

    def _create_decoded(self) -> DecodedColumns | None:
        """Return an empty file for decoded columns; None if it cannot be created."""
        folder = cache_folder()
        if folder is not None:
            with contextlib.suppress(OSError):
                return DecodedColumns(folder, self.names, self.chunk)
        self._require_decoded()
        return None

    def _require_decoded(self) -> None:
        """Raise DataError if the decoded columns, which are not on disk, are needed for random access."""
        if self.random_access:
            raise DataError(
                "mini-batches of streamed data need a copy on disk, but the cache is full or off (AUTODIFF_CACHE=off)"
            )

    def _next_pass(self, names: Sequence[str]) -> Generator[Chunk]:
        """Yield all rows of some columns, from disk or from the files."""
        if self._decoded is None:
            yield from self._reread_files(names)
            return
        decoded = self._decoded
        buffers = [{name: buffer[name] for name in names} for buffer in self._buffers]

        def read(number: int) -> Chunk:
            buffer = buffers[number % 2]
            return buffer, decoded.read(number, buffer)

        yield from prefetch(map(read, range(-(-self.rows // self.chunk))))

    def _reread_files(self, names: Sequence[str]) -> Generator[Chunk]:
        """Yield all rows from the files, and check that they have not changed since the first pass."""
        self._check_unchanged(self.source.signature() == self._signature)
        # To find the rows that were dropped, all columns are needed.
        needed = self.names if self.dropped else names
        checksums, self._checksums = self._checksums, dict.fromkeys(self.names, 0)
        rows = 0
        try:
            for columns, count in self._read_files(needed):
                rows += count
                self._check_unchanged(rows <= self.rows)
                yield columns, count
            same = all(self._checksums[name] == checksums[name] for name in needed)
            self._check_unchanged(same and rows == self.rows and self.source.signature() == self._signature)
        finally:
            self._checksums = checksums

    def _check_unchanged(self, is_same: bool) -> None:
        """Raise DataError if the files have changed."""
        if not is_same:
            raise DataError(f"{self.source.name}: the data changed while they were read; run the command again")

    def _read_files(self, names: Sequence[str]) -> Generator[Chunk]:
        """Yield chunks read from the files in advance, and update the checksum of each column."""
        for columns, count in prefetch(self._iter_file_chunks(names)):
            for name in names:
                self._checksums[name] = extend_checksum(self._checksums[name], columns[name][:count])
            yield columns, count

    def _iter_file_chunks(self, names: Sequence[str]) -> Generator[Chunk]:
        """Yield chunks of complete rows from the files."""
        chunks = Rechunker(self.chunk, [{name: buffer[name] for name in names} for buffer in self._buffers])
        texts = {name for name in self.label_names if label_key(name) in names}
        numbers = {name for name in self.numeric_names if name in names}
        batches = self.source.iter_batches(dataclasses.replace(self._query, numbers=numbers, labels=texts))
        with contextlib.closing(batches):
            for batch in batches:
                columns = {name: numbers_of(batch.columns, name) for name in numbers}
                for name in texts:
                    labels = labels_of(batch.columns, name)
                    columns[label_key(name)] = self.code_tables[name].encode(labels, name, _MAX_LABELS)
                if not self.passes:
                    self.dropped += batch.dropped
                for buffer in chunks.add(columns, batch.rows):
                    yield buffer, self.chunk
        yield from chunks.remainder()

    def _report_progress(self, chunks: Generator[Chunk]) -> Generator[Chunk]:
        """Yield the chunks of a pass while reporting its progress and measuring its time."""
        started = due = time.monotonic()
        rows, number, total = 0, self.passes or 1, self.rows or None
        try:
            with contextlib.closing(chunks):
                for columns, count in chunks:
                    rows += count
                    now = time.monotonic()
                    if self.on_progress is not None and now >= due:
                        self.on_progress(PassProgress(number, rows, total, now - started))
                        due = now + _PROGRESS_SECONDS
                    yield {name: values[:count] for name, values in columns.items()}, count
        finally:
            self.rows_read += rows
            self.seconds += time.monotonic() - started


def label_key(name: str) -> str:
    """Return the key of a label column in chunks. It starts with a character that no column name has."""
    return f"\1{name}"


def _chunk_rows(columns: int) -> int:
    """Return the number of rows of a chunk. Raises DataError if the available memory is too small for the smallest."""
    available = available_memory()
    if available is None:
        return _MAX_CHUNK_ROWS
    row_bytes = columns * _FLOAT_BYTES * _COPIES
    fixed = _LIMITED_BYTES if has_memory_limits() else _FIXED_BYTES
    if available < fixed + MIN_CHUNK_ROWS * row_bytes:
        needed = (fixed + MIN_CHUNK_ROWS * row_bytes) / 2**20
        raise DataError(
            f"not enough memory: {available / 2**20:.0f} MB are available, but the smallest block of "
            f"{MIN_CHUNK_ROWS} rows of {columns} columns needs {needed:.0f} MB"
        )
    chunk = _MAX_CHUNK_ROWS if fixed == _FIXED_BYTES else min(_MAX_CHUNK_ROWS, _LIMITED_CHUNK_ROWS)
    max_bytes = min((available - fixed) // _MEMORY_SHARE, _MAX_CHUNK_BYTES)
    while chunk > MIN_CHUNK_ROWS and chunk * row_bytes > max_bytes:
        chunk //= 2
    return chunk


def prefetch(items: Iterator[T]) -> Generator[T]:
    """Yield items, each computed in another thread while the previous one is in use.

    Without a thread, compute them in this one.
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "prefetch") as executor:
        try:
            future = executor.submit(next, items, None)
        except RuntimeError:
            yield from items
            return
        try:
            while (item := future.result()) is not None:
                future = executor.submit(next, items, None)
                yield item
        finally:
            with contextlib.suppress(Exception):
                future.result()
            close = getattr(items, "close", None)
            if close is not None:
                close()
