"""The columns of data files that a fit uses, in chunks, pass after pass.

The first pass checks and counts: which rows stay, which labels there are. Where it may, and where reading again would
take longer, it leaves the columns decoded on disk (`decoded.py`); else every pass reads the files again, and is held
against what the first one read.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.cache import cache_folder
from autodiff_cli.data.cells import DataError
from autodiff_cli.data.streaming.decoded import DecodedColumns
from autodiff_cli.data.streaming.memory import RESERVED, available, keep_to_limits
from autodiff_cli.data.streaming.pieces import LabelCodes, RawPiece, Rechunker, as_numbers
from autodiff_cli.data.table import LabelColumn, complete
from autodiff_cli.data.texts import NotPlain
from autodiff_cli.limits import has_limits

Array = NDArray[np.float64]
T = TypeVar("T")
Chunk: TypeAlias = tuple[dict[str, Array], int]  # columns, and how many rows they have: the first ones

SMALLEST_CHUNK = 8192  # rows; others are powers of two of it
LARGEST_CHUNK = 1 << 17  # rows, measured: enough for the work on a chunk to be long beside what it takes to begin one
_LIMITED_CHUNK = 1 << 14  # rows, where addresses are limited: what is taken and given back leaves holes
_COPIES = 8  # of a chunk that are in memory at a time, about, with those of readers and tasks
_LARGEST = 128 << 20  # bytes of all these: longer chunks are no faster
_SHARE = 4  # part of the memory left that they may take together
_FIXED = 24 << 20  # bytes that readers take whatever a chunk is
_PAUSE = 0.1  # seconds between two reports of how far a pass is
_NUMBER = 8  # bytes


class InPieces(Protocol):
    """Files that can be read in pieces: see `DataFile`."""

    @property
    def name(self) -> str: ...

    @property
    def is_text(self) -> bool: ...

    def pieces(
        self, wanted: Collection[str], texts: Collection[str], size: int, *, drop_missing: bool, careful: bool
    ) -> Generator[RawPiece]: ...

    def signature(self) -> Any: ...


class Passing(NamedTuple):
    """How far a pass is.

    Attributes:
        number: of the pass, the first being 1.
        rows: read so far; `total` is how many there are, None if that is not known yet.
        seconds: since it began.
    """

    number: int
    rows: int
    total: int | None
    seconds: float


@dataclass
class StreamedColumns:
    """See the module.

    Args:
        source: the files.
        numbers: the columns that are read as numbers.
        texts: those that are read as labels. A column may be both.
        why: they are streamed, in words.
        drop_missing: leave out rows with a missing cell.
        keep: whether rows have to be found by their numbers, fast.
        inspect: is handed each chunk of the first pass, and the number of rows before it.
        listen: is told now and then how far a pass is.

    Attributes:
        rows, dropped: how many rows are in the chunks, and how many were left out.
        labels: what the codes in a column of labels, which is called `label(name)`, stand for.

    Raises:
        DataError: for what cannot be used, and where the memory left has no room for a chunk.
    """

    source: InPieces
    numbers: Sequence[str]
    texts: Sequence[str]
    why: str
    drop_missing: bool = False
    keep: bool = False
    inspect: Callable[[Mapping[str, Array], int], None] | None = None
    listen: Callable[[Passing], object] | None = None
    rows: int = field(default=0, init=False)
    dropped: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        keep_to_limits()
        self.names = (*self.numbers, *map(label, self.texts))
        self.labels = {name: LabelCodes(name) for name in self.texts}
        self.chunk = _chunk(len(self.names))
        self.passes = 0
        self.read = 0  # rows, in all passes
        self.seconds = 0.0
        self._careful = False
        self._spaces = [{name: np.empty(self.chunk) for name in self.names} for _ in range(2)]
        self._decoded: DecodedColumns | None = None
        self._signature = self.source.signature()
        self._sums: dict[str, int] = {}
        self._first_pass()

    @property
    def is_decoded(self) -> bool:
        """Whether the columns are kept decoded on disk."""
        return self._decoded is not None

    @property
    def note(self) -> str:
        """What there is to say of it."""
        rate = self.read / max(self.seconds, 1e-9)
        how = "kept decoded on disk" if self.is_decoded else "read again at every pass"
        return (
            f"the rows are streamed, {self.why}: {self.passes} passes over {self.rows} rows, {how}, "
            f"{rate / 1e6:.3g} million rows a second"
        )

    def chunks(self, names: Collection[str]) -> Generator[Chunk]:
        """A pass: columns of all rows, chunk by chunk, and how many rows each has. A chunk is there until the next.

        Raises DataError if the files have changed since the first pass.
        """
        self.passes += 1
        yield from self._timed(self._again([name for name in self.names if name in names]))

    def gather(self, rows: NDArray[Any], names: Collection[str]) -> dict[str, Array]:
        """Some rows of some columns, by their numbers."""
        if self._decoded is not None:
            return self._decoded.gather(rows, names)
        found = {name: np.empty(len(rows)) for name in names}
        order = np.argsort(rows, kind="stable")
        ordered, start = rows[order], 0
        for columns, count in self.chunks(names):
            first, end = np.searchsorted(ordered, (start, start + count)).tolist()
            for name, values in found.items():
                values[order[first:end]] = columns[name][ordered[first:end] - start]
            start += count
        return found

    def close(self) -> None:
        """Let go of what is on disk."""
        if self._decoded is not None:
            self._decoded.close()

    def _first_pass(self) -> None:
        pays = self.keep or self.source.is_text
        while True:
            try:
                self._take_all(pays)
                break
            except NotPlain:
                self.close()
                self._careful = True
                self.labels = {name: LabelCodes(name) for name in self.texts}
                self.rows = self.dropped = 0
        if not self.rows:
            raise DataError(f"{self.source.name}: {_NO_ROW if self.dropped else 'there are no rows'}")
        self.passes = 1

    def _take_all(self, pays: bool) -> None:
        self._decoded = self._place() if pays or self.texts else None
        self._sums = dict.fromkeys(self.names, 0)
        for columns, count in self._timed(self._read(self.names, of_first=True)):
            if self.inspect is not None:
                self.inspect({name: values[:count] for name, values in columns.items()}, self.rows)
            if self._decoded is not None:
                try:
                    self._decoded.add(columns, count)
                except OSError:  # no room: every pass reads again
                    self.close()
                    self._decoded = None
                    self._check_fast()
            self.rows += count

    def _place(self) -> DecodedColumns | None:
        folder = cache_folder()
        if folder is not None:
            with contextlib.suppress(OSError):
                return DecodedColumns(folder, self.names, self.chunk)
        self._check_fast()
        return None

    def _check_fast(self) -> None:
        """There is no file on disk: that costs time, but raises DataError if rows are to be found by their numbers."""
        if self.keep:
            raise DataError(
                "mini-batches draw rows from all over the data: streamed, these have to be kept decoded on disk, and "
                "the cache has no room for them or is off (AUTODIFF_CACHE=off)"
            )

    def _again(self, names: Sequence[str]) -> Generator[Chunk]:
        if self._decoded is None:
            yield from self._read_again(names)
            return
        decoded = self._decoded
        spaces = [{name: space[name] for name in names} for space in self._spaces]

        def read(number: int) -> Chunk:
            space = spaces[number % 2]
            return space, decoded.read(number, space)

        yield from ahead(map(read, range(-(-self.rows // self.chunk))))

    def _read_again(self, names: Sequence[str]) -> Generator[Chunk]:
        """The rows out of the files, which have to be those of the first pass."""
        self._check(self.source.signature() == self._signature)
        # Where rows were left out, all columns say which.
        needed = self.names if self.dropped else names
        first, self._sums = self._sums, dict.fromkeys(self.names, 0)
        rows = 0
        try:
            for columns, count in self._read(needed, of_first=False):
                rows += count
                self._check(rows <= self.rows)
                yield columns, count
            same = all(self._sums[name] == first[name] for name in needed)
            self._check(same and rows == self.rows and self.source.signature() == self._signature)
        finally:
            self._sums = first

    def _check(self, is_same: bool) -> None:
        if not is_same:
            raise DataError(f"{self.source.name}: the data changed while they were read; run it again when they rest")

    def _read(self, names: Sequence[str], *, of_first: bool) -> Generator[Chunk]:
        """Chunks of columns out of the files, read ahead; and a sum of the bits of each, to know them by."""
        spaces = [{name: space[name] for name in names} for space in self._spaces]
        for columns, count in ahead(self._chunked(names, spaces, of_first)):
            if of_first or self._decoded is None:
                for name in names:
                    bits = columns[name][:count].view(np.uint64)
                    self._sums[name] = (self._sums[name] * 3 + int(np.add.reduce(bits))) % 2**64
            yield columns, count

    def _chunked(self, names: Sequence[str], spaces: Sequence[dict[str, Array]], of_first: bool) -> Generator[Chunk]:
        chunks = Rechunker(spaces, self.chunk)
        texts = {name for name in self.texts if label(name) in names}
        numbers = {name for name in self.numbers if name in names}
        pieces = self.source.pieces(
            numbers | texts, texts, self.chunk, drop_missing=self.drop_missing, careful=self._careful
        )
        with contextlib.closing(pieces):
            for piece in pieces:
                columns = {name: as_numbers(piece.columns[name]) for name in numbers}
                columns |= {label(name): self.labels[name].taken(piece.columns[name]) for name in texts}
                columns = self._complete(piece, columns) if of_first or self.dropped else columns
                count = len(next(iter(columns.values())))
                for space in chunks.full(columns, count):
                    yield space, self.chunk
        rest, count = chunks.last()
        if count:
            yield rest, count

    def _complete(self, piece: RawPiece, columns: dict[str, Array]) -> dict[str, Array]:
        """The columns of a piece without the rows that have a missing cell, which are an error if they are to stay."""
        missing = {
            name: ~np.isfinite(values) if name in self.numbers else values < 0 for name, values in columns.items()
        }
        bad = np.logical_or.reduce([*missing.values()])
        if not bad.any():
            return columns
        if not self.drop_missing:
            if self.source.is_text and not self._careful:
                raise NotPlain
            self._complain(piece, columns, missing)
        if not self.passes:
            self.dropped += int(np.count_nonzero(bad))
        return {name: values[~bad] for name, values in columns.items()}

    def _complain(
        self, piece: RawPiece, columns: Mapping[str, Array], missing: Mapping[str, NDArray[np.bool_]]
    ) -> None:
        """Raise DataError for missing cells."""
        numbers = {name: values for name, values in columns.items() if name in self.numbers}
        gone = next((name for name in self.texts if missing[label(name)].any()), None)
        named = None if gone is None else LabelColumn(gone, np.empty(0), missing[label(gone)])
        complete(numbers, drop_missing=False, where=f"{piece.file}: ", labels=named, rows=piece.rows)

    def _timed(self, chunks: Generator[Chunk]) -> Generator[Chunk]:
        """The same; who listens is told how far they are."""
        begun = due = time.monotonic()
        rows, number, total = 0, self.passes or 1, self.rows or None
        try:
            with contextlib.closing(chunks):
                for chunk in chunks:
                    rows += chunk[1]
                    now = time.monotonic()
                    if self.listen is not None and now >= due:
                        self.listen(Passing(number, rows, total, now - begun))
                        due = now + _PAUSE
                    yield chunk
        finally:
            self.read += rows
            self.seconds += time.monotonic() - begun


def label(name: str) -> str:
    """What the column of codes of a column of labels is called; no name in a text has such a character."""
    return f"\1{name}"


_NO_ROW = "no row is left: every one has a cell that is missing"


def _chunk(columns: int) -> int:
    """How many rows a chunk has. Raises DataError where there is no memory for the smallest."""
    left = available()
    if left is None:
        return LARGEST_CHUNK
    row = columns * _NUMBER * _COPIES
    fixed = RESERVED if has_limits() else _FIXED
    if left < fixed + SMALLEST_CHUNK * row:
        needed = (fixed + SMALLEST_CHUNK * row) / 2**20
        raise DataError(
            f"the memory that this process may still have, {left / 2**20:.0f} MB, has no room for one block of "
            f"{SMALLEST_CHUNK} rows of {columns} columns, which takes {needed:.0f} MB with what a fit needs beside it"
        )
    chunk = LARGEST_CHUNK if fixed == _FIXED else min(LARGEST_CHUNK, _LIMITED_CHUNK)
    most = min((left - fixed) // _SHARE, _LARGEST)
    while chunk > SMALLEST_CHUNK and chunk * row > most:
        chunk //= 2
    return chunk


def ahead(items: Iterator[T]) -> Generator[T]:
    """The same, each made in another thread while the one before is in use; in this one, if no other can be had."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "reading ahead") as reader:
        try:
            waiting = reader.submit(next, items, None)
        except RuntimeError:
            yield from items
            return
        try:
            while (item := waiting.result()) is not None:
                waiting = reader.submit(next, items, None)
                yield item
        finally:
            with contextlib.suppress(BaseException):
                waiting.result()
            close = getattr(items, "close", None)
            if close is not None:
                close()
