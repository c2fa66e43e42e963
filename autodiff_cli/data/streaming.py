"""Columns that are read in batches, and streamed over many passes when they do not fit in memory.

Readers of files deliver batches of rows (`ColumnBatch`, with labels as `CodedLabels`). `GrowingArray` concatenates
them; `Rechunker` makes chunks of equal length of them. `StreamedColumns` provides the columns of a fit chunk by chunk,
pass after pass. Its first pass finds the rows that stay and the labels. If parsing again would be slow, it writes the
decoded columns to a temporary file (`DecodedColumns`); otherwise every pass reads the files again and checks that they
have not changed.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.cache import cache_folder
from autodiff_cli.data.dialect import DataError, parse_number
from autodiff_cli.data.source import RESERVED_BYTES, available_memory, respect_memory_limits
from autodiff_cli.data.table import FallbackRequired, LabelColumn, complete_table
from autodiff_cli.limits import has_memory_limits

_MAX_LABELS = 1 << 16  # different labels of a column; more are measurements or identifiers


@dataclass(frozen=True, slots=True)
class CodedLabels:
    """Labels of some rows: for each row the index of its text in `texts`, or -1 if it is missing."""

    codes: NDArray[np.int64]
    texts: list[Any]

    def filter_rows(self, rows: NDArray[np.bool_]) -> CodedLabels:
        """Return the labels of the rows that a mask selects."""
        return CodedLabels(self.codes[rows], self.texts)

    def cells(self) -> NDArray[np.object_]:
        """Return the labels as an array of objects, with None for missing ones."""
        return np.array([*self.texts, None], dtype=object)[self.codes]


class ColumnBatch(NamedTuple):
    """Some rows of a file.

    Attributes:
        file: the name of the file.
        columns: by name, floats or `CodedLabels`.
        row_numbers: the number of each row in the file, counted from 1.
    """

    file: str
    columns: Mapping[str, Any]
    row_numbers: NDArray[np.intp]


RawBatch = dict[str, Any]  # columns by name: floats, with nan for missing cells, or `CodedLabels`


def batch_floats(column: Any) -> NDArray[np.float64]:
    """Return a column of a batch as floats, also if it was read as labels. Labels that are not numbers become nan."""
    if not isinstance(column, CodedLabels):
        return np.asarray(column, np.float64)
    values = [parse_number(str(text)) for text in column.texts]
    return np.array([math.nan if value is None else value for value in (*values, None)])[column.codes]


def encode_arrow_labels(cells: Any) -> CodedLabels:
    """Return an Arrow column of any type as labels."""
    import pyarrow as pa

    codes: dict[Any, int] = {}
    parts = []
    for chunk in cells.chunks:
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        indices = encoded.indices.cast(pa.int64()).fill_null(-1)
        start = indices.offset
        chunk_codes = np.frombuffer(indices.buffers()[1], np.int64)[start : start + len(indices)]
        parts.append(np.array([*_label_codes(encoded.dictionary.to_pylist(), codes), -1], np.int64)[chunk_codes])
    return CodedLabels(np.concatenate(parts) if parts else np.empty(0, np.int64), [*codes])


def encode_labels(cells: Iterable[Any]) -> CodedLabels:
    """Return text cells as labels. None marks a missing cell."""
    codes: dict[Any, int] = {}
    return CodedLabels(np.array([*_label_codes(cells, codes)], np.int64), [*codes])


def _label_codes(texts: Iterable[Any], codes: dict[Any, int]) -> Iterable[int]:
    """Yield the code of each text, extending the table of codes; -1 for missing texts."""
    for text in texts:
        cell = text.strip() if isinstance(text, str) else text
        if cell is None or cell != cell or cell == "":
            yield -1
        else:
            yield codes.setdefault(cell, len(codes))


class LabelEncoder:
    """Assigns codes to the labels of a column in the order in which they first occur.

    Args:
        name: the name of the column, for messages.

    Raises:
        DataError: for labels that are neither integers nor texts, and for very many different labels.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._codes: dict[str, int] = {}

    def encode(self, batch: CodedLabels) -> NDArray[np.float64]:
        """Return the code of each label of a batch, or -1 where it is missing."""
        codes = [self._codes.setdefault(str(text), len(self._codes)) for text in batch.texts]
        if len(self._codes) > _MAX_LABELS:
            raise DataError(f"column `{self._name}` has more than {_MAX_LABELS} different values, too many for labels")
        return np.array([*codes, -1], np.float64)[batch.codes]

    @property
    def labels(self) -> NDArray[Any]:
        """The labels by code: integers if all of them are numbers, otherwise texts."""
        texts = [*self._codes]
        values = [parse_number(text) for text in texts]
        if None in values:
            return np.array(texts)
        numbers = np.array(values, dtype=np.float64)
        for value in numbers.tolist():
            if not math.isfinite(value) or value != round(value) or abs(value) >= 2**63:
                reason = f"a label must be a whole number below 2^63 or text, not {value:g}"
                raise DataError(f"column `{self._name}`: {reason}")
        return numbers.astype(np.int64)


class Rechunker:
    """Converts batches of any length to chunks of one length.

    Args:
        buffers: buffers of one chunk each, as arrays by column name; they are filled in turn.
    """

    def __init__(self, buffers: Sequence[dict[str, NDArray[np.float64]]], chunk: int) -> None:
        self._buffers = buffers
        self._chunk = chunk
        self._turn = 0
        self._filled = 0

    def add(self, batch: dict[str, NDArray[np.float64]], rows: int) -> Iterable[dict[str, NDArray[np.float64]]]:
        """Add a batch, and yield the chunks that it completes. Use each chunk before requesting the next."""
        start = 0
        while start < rows:
            count = min(rows - start, self._chunk - self._filled)
            buffer = self._buffers[self._turn]
            for name, array in buffer.items():
                array[self._filled : self._filled + count] = batch[name][start : start + count]
            start += count
            self._filled += count
            if self._filled == self._chunk:
                self._filled = 0
                self._turn = (self._turn + 1) % len(self._buffers)
                yield buffer

    def remainder(self) -> tuple[dict[str, NDArray[np.float64]], int]:
        """Return the last, incomplete chunk and its number of rows."""
        return self._buffers[self._turn], self._filled


# --- Columns that grow


_GROWTH_DIVISOR = 8  # grow by 1/8 more than needed: the system moves pages, so frequent growth is cheap


class GrowingArray:
    """An array that grows by appending parts, without a second copy of everything. A single part is not copied.

    Args:
        expected: the expected number of values. Unused space does not take up physical memory.

    >>> column = GrowingArray()
    >>> column.add(np.array([1, 2], np.int8))
    >>> column.add(np.array([0.5]))
    >>> column.finish()
    array([1. , 2. , 0.5])
    """

    def __init__(self, expected: int = 0) -> None:
        self._expected = expected
        self._values: NDArray[Any] = np.empty(0)
        self._is_own = False
        self._count = 0

    def add(self, part: NDArray[Any]) -> None:
        """Append a part. The array takes the smallest type that can hold both."""
        if not self._count:
            self._values, self._count = part, len(part)
            return
        begin, end = self._count, self._count + len(part)
        dtype = np.result_type(self._values, part)
        if dtype != self._values.dtype or not self._is_own:
            larger = np.empty(max(end, self._expected), dtype)
            larger[:begin] = self._values[:begin]
            self._values, self._is_own = larger, True
        if end > len(self._values):
            self._values.resize(end + end // _GROWTH_DIVISOR, refcheck=False)
        self._values[begin:end] = part
        self._count = end

    def finish(self) -> NDArray[Any]:
        """Return the array. No more parts can be added."""
        if self._is_own and len(self._values) > self._count:
            self._values.resize(self._count, refcheck=False)
        return self._values


_FLOAT_BYTES = np.dtype(np.float64).itemsize
# --- Decoded columns on disk


_HAS_PREADV = hasattr(os, "preadv")  # not on Windows


class DecodedColumns:
    """Columns of numbers in an unnamed temporary file, which later passes read at the speed of the disk.

    The file stores one chunk after the other and, in a chunk, one column after the other. It is deleted when the
    process ends. It is read into reused buffers instead of being mapped, so that memory limits are respected.

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
        import tempfile

        self._stream: Any = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - it lives as long as this object
        self._close = weakref.finalize(self, self._stream.close)
        self._lock = threading.Lock()  # the thread that prefetches uses the file too
        self._places = {name: position for position, name in enumerate(names)}
        self._chunk = chunk
        self.rows = 0

    def add(self, columns: Mapping[str, Array], rows: int) -> None:
        """Append a chunk; only the last one may be incomplete. Raises OSError."""
        base = self.rows // self._chunk * len(self._places) * self._chunk
        for name, position in self._places.items():
            content = np.ascontiguousarray(columns[name][:rows]).data.cast("B")
            offset = (base + position * self._chunk) * _FLOAT_BYTES
            with self._lock:
                self._stream.seek(offset)
                while content:
                    content = content[self._stream.write(content) :]
        self.rows += rows

    def read(self, number: int, buffers: Mapping[str, Array]) -> int:
        """Read columns of a chunk into buffers, and return its number of rows."""
        rows = min(self._chunk, self.rows - number * self._chunk)
        for name, array in buffers.items():
            self._fill(self._offset(name, number * self._chunk), array[:rows])
        return rows

    def gather(self, rows: NDArray[Any], names: Collection[str]) -> dict[str, Array]:
        """Return some rows of some columns by their numbers. Adjacent rows are read together."""
        numbers = np.asarray(rows, dtype=np.int64)
        columns = {name: np.empty(len(numbers)) for name in names}
        if not len(numbers):
            return columns
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        is_break = (np.diff(ordered) > 1) | (ordered[1:] // self._chunk != ordered[:-1] // self._chunk)
        starts = np.flatnonzero(np.concatenate(([True], is_break)))
        ends = np.append(starts[1:], len(ordered))
        runs = list(
            zip(starts.tolist(), ends.tolist(), ordered[starts].tolist(), ordered[ends - 1].tolist(), strict=True)
        )
        for name, values in columns.items():
            sorted_values = np.empty(len(numbers))
            for start, end, first, last in runs:
                if last - first + 1 == end - start:  # consecutive rows without repetition
                    self._fill(self._offset(name, first), sorted_values[start:end])
                else:
                    run = np.empty(last - first + 1)
                    self._fill(self._offset(name, first), run)
                    sorted_values[start:end] = run[ordered[start:end] - first]
            values[order] = sorted_values
        return columns

    def close(self) -> None:
        """Delete the file."""
        self._close()

    def _offset(self, name: str, row: int) -> int:
        """Return the position of a value in the file, in bytes."""
        chunk, row_in_chunk = divmod(row, self._chunk)
        return ((chunk * len(self._places) + self._places[name]) * self._chunk + row_in_chunk) * _FLOAT_BYTES

    def _fill(self, offset: int, array: Array) -> None:
        """Fill an array with the values at a position of the file."""
        view = array.data.cast("B")
        while view:
            count = self._read_bytes_at(view, offset)
            if not count:
                raise OSError("the file of decoded columns ends early")
            view, offset = view[count:], offset + count

    def _read_bytes_at(self, view: memoryview, offset: int) -> int:
        """Read some bytes at a position, and return their number."""
        if _HAS_PREADV:
            return os.preadv(self._stream.fileno(), [view], offset)
        with self._lock:
            self._stream.seek(offset)
            return int(self._stream.readinto(view))


T = TypeVar("T")
Chunk: TypeAlias = tuple[dict[str, Array], int]  # buffers by column, and the number of rows at their start


# --- Streamed columns


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """How many rows are read and processed together."""

    min_rows: int = 8192  # the number of rows is always this times a power of 2
    max_rows: int = 1 << 17  # rows, measured: the work on a chunk is long compared with the cost of starting it
    limited_rows: int = 1 << 14  # rows where address space is limited: freeing large chunks fragments it
    copies: int = 8  # copies of a chunk in memory at a time, with those of readers and tasks
    max_bytes: int = 128 << 20  # bytes of all copies: longer chunks are not faster
    memory_share: int = 4  # all copies together take at most 1/4 of the available memory
    fixed_bytes: int = 24 << 20  # bytes that readers need for chunks of any size
    progress_seconds: float = 0.1  # seconds between two progress reports of a pass


CHUNKS = ChunkSettings()


class BatchedSource(Protocol):
    """Files that can be read in batches; see `DataFile`."""

    @property
    def name(self) -> str: ...

    @property
    def is_slow_to_parse(self) -> bool: ...

    def iter_batches(
        self, wanted: Collection[str], texts: Collection[str], size: int, *, drop_missing: bool, cell_by_cell: bool
    ) -> Generator[ColumnBatch]: ...

    def signature(self) -> Any: ...


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
        source: the files.
        numeric_names: the columns to read as numbers.
        label_names: the columns to read as labels. A column may be in both.
        reason: why the columns are streamed, for the note.
        drop_missing: drop rows with a missing cell.
        random_access: whether single rows have to be read quickly by their numbers.
        inspect: called with each chunk of the first pass and the number of rows before it.
        on_progress: called regularly with the progress of a pass.

    Attributes:
        rows, dropped: the numbers of rows that are in the chunks, and that were dropped.
        labels: the encoder of each label column. Chunks have its codes under `label_key(name)`.

    Raises:
        DataError: for invalid data, and if the available memory is too small for a chunk.
    """

    source: BatchedSource
    numeric_names: Sequence[str]
    label_names: Sequence[str]
    reason: str
    drop_missing: bool = False
    random_access: bool = False
    inspect: Callable[[Mapping[str, Array], int], None] | None = None
    on_progress: Callable[[PassProgress], object] | None = None
    rows: int = field(default=0, init=False)
    dropped: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        respect_memory_limits()
        self.names = (*self.numeric_names, *map(label_key, self.label_names))
        self.labels = {name: LabelEncoder(name) for name in self.label_names}
        self.chunk = _chunk_rows(len(self.names))
        self.passes = 0
        self.rows_read = 0  # in all passes
        self.seconds = 0.0
        self._cell_by_cell = False
        self._buffers = [{name: np.empty(self.chunk) for name in self.names} for _ in range(2)]
        self._decoded: DecodedColumns | None = None
        self._signature = self.source.signature()
        self._checksums: dict[str, int] = {}
        self._first_pass()

    @property
    def is_decoded(self) -> bool:
        """Whether the decoded columns are kept on disk."""
        return self._decoded is not None

    @property
    def note(self) -> str:
        """A sentence on how the rows were streamed."""
        rate = self.rows_read / max(self.seconds, 1e-9)
        storage = "decoded on disk" if self.is_decoded else "read again in every pass"
        return (
            f"the rows are streamed ({self.reason}): {self.passes} passes over {self.rows} rows, {storage}, "
            f"{rate / 1e6:.3g} million rows a second"
        )

    def iter_chunks(self, names: Collection[str]) -> Generator[Chunk]:
        """Pass over all rows and yield chunks of some columns with their numbers of rows. A chunk is valid until the
        next one.

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

    def close(self) -> None:
        """Delete the temporary file, if there is one."""
        if self._decoded is not None:
            self._decoded.close()

    def _first_pass(self) -> None:
        """Read all rows, first with the fast reader and then, if that fails, cell by cell."""
        is_worth_storing = self.random_access or self.source.is_slow_to_parse
        while True:
            try:
                self._read_first(is_worth_storing)
                break
            except FallbackRequired:
                self.close()
                self._cell_by_cell = True
                self.labels = {name: LabelEncoder(name) for name in self.label_names}
                self.rows = self.dropped = 0
        if not self.rows:
            problem = "no rows are left: every row has a missing cell" if self.dropped else "there are no rows"
            raise DataError(f"{self.source.name}: {problem}")
        self.passes = 1

    def _read_first(self, is_worth_storing: bool) -> None:
        """Read all rows once. Store them decoded if reading them again would be slow."""
        self._decoded = self._create_decoded() if is_worth_storing or self.label_names else None
        self._checksums = dict.fromkeys(self.names, 0)
        for columns, count in self._report_progress(self._read_files(self.names, of_first=True)):
            if self.inspect is not None:
                self.inspect({name: values[:count] for name, values in columns.items()}, self.rows)
            if self._decoded is not None:
                try:
                    self._decoded.add(columns, count)
                except OSError:  # the disk is full: every pass reads the files again
                    self.close()
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
                "mini-batches of streamed data need a decoded copy of the columns on disk, but the cache has no room "
                "for it or is off (AUTODIFF_CACHE=off)"
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
        """Yield all rows from the files, and check that they are those of the first pass."""
        self._check_unchanged(self.source.signature() == self._signature)
        # To find the rows that were dropped, all columns are needed.
        needed = self.names if self.dropped else names
        checksums, self._checksums = self._checksums, dict.fromkeys(self.names, 0)
        rows = 0
        try:
            for columns, count in self._read_files(needed, of_first=False):
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

    def _read_files(self, names: Sequence[str], *, of_first: bool) -> Generator[Chunk]:
        """Yield chunks read from the files in advance, and update the checksum of each column."""
        buffers = [{name: buffer[name] for name in names} for buffer in self._buffers]
        for columns, count in prefetch(self._iter_file_chunks(names, buffers, of_first)):
            if of_first or self._decoded is None:
                for name in names:
                    bits = columns[name][:count].view(np.uint64)
                    self._checksums[name] = (self._checksums[name] * 3 + int(np.add.reduce(bits))) % 2**64
            yield columns, count

    def _iter_file_chunks(
        self, names: Sequence[str], buffers: Sequence[dict[str, Array]], of_first: bool
    ) -> Generator[Chunk]:
        """Yield chunks of complete rows from the files."""
        chunks = Rechunker(buffers, self.chunk)
        texts = {name for name in self.label_names if label_key(name) in names}
        numbers = {name for name in self.numeric_names if name in names}
        batches = self.source.iter_batches(
            numbers | texts, texts, self.chunk, drop_missing=self.drop_missing, cell_by_cell=self._cell_by_cell
        )
        with contextlib.closing(batches):
            for batch in batches:
                columns = {name: batch_floats(batch.columns[name]) for name in numbers}
                columns |= {label_key(name): self.labels[name].encode(batch.columns[name]) for name in texts}
                columns = self._drop_missing_rows(batch, columns) if of_first or self.dropped else columns
                count = len(next(iter(columns.values())))
                for buffer in chunks.add(columns, count):
                    yield buffer, self.chunk
        rest, count = chunks.remainder()
        if count:
            yield rest, count

    def _drop_missing_rows(self, batch: ColumnBatch, columns: dict[str, Array]) -> dict[str, Array]:
        """Return the columns of a batch without incomplete rows. Raises DataError for these unless they may be
        dropped.
        """
        missing = {
            name: ~np.isfinite(values) if name in self.numeric_names else values < 0 for name, values in columns.items()
        }
        is_incomplete = np.logical_or.reduce([*missing.values()])
        if not is_incomplete.any():
            return columns
        if not self.drop_missing:
            if self.source.is_slow_to_parse and not self._cell_by_cell:
                raise FallbackRequired
            self._raise_missing(batch, columns, missing)
        if not self.passes:
            self.dropped += int(np.count_nonzero(is_incomplete))
        return {name: values[~is_incomplete] for name, values in columns.items()}

    def _raise_missing(
        self, batch: ColumnBatch, columns: Mapping[str, Array], missing: Mapping[str, NDArray[np.bool_]]
    ) -> None:
        """Raise DataError that lists missing cells."""
        numbers = {name: values for name, values in columns.items() if name in self.numeric_names}
        label_name = next((name for name in self.label_names if missing[label_key(name)].any()), None)
        labels = None if label_name is None else LabelColumn(label_name, np.empty(0), missing[label_key(label_name)])
        complete_table(numbers, drop_missing=False, where=f"{batch.file}: ", labels=labels, rows=batch.row_numbers)

    def _report_progress(self, chunks: Generator[Chunk]) -> Generator[Chunk]:
        """Yield the chunks of a pass while reporting its progress and measuring its time."""
        started = due = time.monotonic()
        rows, number, total = 0, self.passes or 1, self.rows or None
        try:
            with contextlib.closing(chunks):
                for chunk in chunks:
                    rows += chunk[1]
                    now = time.monotonic()
                    if self.on_progress is not None and now >= due:
                        self.on_progress(PassProgress(number, rows, total, now - started))
                        due = now + CHUNKS.progress_seconds
                    yield chunk
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
        return CHUNKS.max_rows
    row_bytes = columns * _FLOAT_BYTES * CHUNKS.copies
    fixed = RESERVED_BYTES if has_memory_limits() else CHUNKS.fixed_bytes
    if available < fixed + CHUNKS.min_rows * row_bytes:
        needed = (fixed + CHUNKS.min_rows * row_bytes) / 2**20
        raise DataError(
            f"not enough memory: {available / 2**20:.0f} MB are available, but the smallest block of "
            f"{CHUNKS.min_rows} rows of {columns} columns needs {needed:.0f} MB"
        )
    chunk = CHUNKS.max_rows if fixed == CHUNKS.fixed_bytes else min(CHUNKS.max_rows, CHUNKS.limited_rows)
    max_bytes = min((available - fixed) // CHUNKS.memory_share, CHUNKS.max_bytes)
    while chunk > CHUNKS.min_rows and chunk * row_bytes > max_bytes:
        chunk //= 2
    return chunk


def prefetch(items: Iterator[T]) -> Generator[T]:
    """Yield items, each computed in another thread while the previous one is in use. Without a thread, compute them in
    this one.
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
            with contextlib.suppress(BaseException):
                future.result()
            close = getattr(items, "close", None)
            if close is not None:
                close()
