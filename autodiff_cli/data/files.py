"""One data file as a Dataset."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.cells import counted, is_absent
from autodiff_cli.data.delimited import not_read
from autodiff_cli.data.formats import format_of
from autodiff_cli.data.options import AS_IT_IS, FileOptions
from autodiff_cli.data.source import ByteSource
from autodiff_cli.data.streaming.columns import Passing, StreamedColumns
from autodiff_cli.data.streaming.filtering import filtered
from autodiff_cli.data.streaming.pieces import RawPiece
from autodiff_cli.data.table import Array, DataError, RawColumns, Record, Table, as_table, listing
from autodiff_cli.data.texts import NotPlain, TextColumns
from autodiff_cli.data.where import RowFilter
from autodiff_cli.language.errors import in_brief, suggest
from autodiff_cli.language.lexer import canonical

_ROWS = 10_000  # that are handed on at a time
Cells: TypeAlias = list[list[str]] | TextColumns


class Block(NamedTuple):
    """Some rows of a file.

    Attributes:
        columns: the numbers of the columns asked for, by name.
        cells: the text of all.
    """

    columns: dict[str, Array]
    cells: Cells


class Filtered(NamedTuple):
    """Columns of the rows in which a condition holds.

    Attributes:
        columns: see `RawColumns`.
        rows: how many there were before.
        seen: the different texts of each column of text that the condition reads, in the order of the rows.
    """

    columns: dict[str, Any]
    rows: int
    seen: dict[str, list[str | None]]


class DataFile:
    """A file of named columns, as a Dataset.

    Args:
        path: `-` stands for `stdin`.
        stdin: where `-` is read from.
        options: how it is to be read.
        origins: by column, the moment from which dates and times are counted; by default that of its first cell.
        once: leave standard input where it is until it is read, row by row, as it arrives; then it is gone.
        on_disk: keep what a pipe gives on disk.

    Attributes:
        name: for messages.
        header: the names of the columns as the file spells them.
        names: the same, as the language compares names; those that are empty, or there already, are left out.
        readers: what reads the cells of each column, and what it has learnt of them.
        is_part: whether it is one of several, so that it may have no row that counts.
        listen: is told how far a pass over streamed rows is; `streamed` is what streams them, once that has begun.

    Raises:
        DataError: if there is no such file, no header that can be read, or not the columns that options name.
    """

    def __init__(
        self,
        path: str,
        stdin: BinaryIO | None = None,
        *,
        options: FileOptions = AS_IT_IS,
        origins: Mapping[str, datetime] = MappingProxyType({}),
        once: bool = False,
        on_disk: bool = False,
    ) -> None:
        source = self._source = ByteSource(path, stdin, once=once, on_disk=on_disk)
        self.name = source.name
        self.path, self.options, self.is_part = path, options, False
        self.format = format_of(source, options)
        self.header = tuple(self.format.header)
        self._places: dict[str, list[int]] = {}
        for place, name in enumerate(self._renamed(options.renamed)):
            self._places.setdefault(name, []).append(place)
        self.names = tuple(filter(None, self._places))
        self.readers = {name: self.format.reader() for name in self.names}
        for name in self.readers.keys() & origins.keys():
            self.readers[name].origin = origins[name]
        self._notes: dict[str, None] = {}
        self._mask: NDArray[np.bool_] | None = None  # which rows count, once they have been looked at
        self.listen: Callable[[Passing], object] | None = None
        self.streamed: StreamedColumns | None = None
        self._where = None
        if options.where is not None:
            self._where = RowFilter(options.where, self.names, self.texts)

    @property
    def texts(self) -> list[str]:
        """The names of the columns of text."""
        places = self.format.text_places()
        return [name for name in self.names if self._places[name][0] in places]

    @property
    def notes(self) -> list[str]:
        """What there is to say of how the file was read: all that nobody said and that changes what a number means."""
        of_columns = ((name, reader.note()) for name, reader in self.readers.items())
        said = [f"column `{name}`: {note}" for name, note in of_columns if note is not None]
        streamed = [] if self.streamed is None else [self.streamed.note]
        return [*self.format.notes, *said, *self._notes, *streamed]

    @property
    def origins(self) -> dict[str, datetime]:
        """The moments from which the columns of dates and times are counted that have been read."""
        return {name: reader.origin for name, reader in self.readers.items() if reader.origin is not None}

    def load(self, wanted: Collection[str], *, drop_missing: bool = False, labels: str | None = None) -> Table:
        """See `Dataset.load`. Only the columns asked for are read. Labels that are all numbers as text are numbers."""
        return loaded(self, wanted, drop_missing, labels)

    def read(self, wanted: Collection[str], *, drop_missing: bool = False, texts: Collection[str] = ()) -> RawColumns:
        """The columns of these names, of the rows that count.

        Args:
            texts: those among them that are read as text.

        Raises:
            DataError: see `Dataset.load`; cells that are missing may be left as they are.
        """
        if not self.places(wanted):
            raise DataError(f"{self.name}: the model uses none of its columns ({in_brief(self.names)})")
        if self._where is None:
            columns = self.format.columns(self.places(wanted), drop_missing, texts, self.readers)
            return RawColumns(columns, range(1, len(next(iter(columns.values()))) + 1))
        places = self.places({*wanted, *self._where.numbers, *self._where.texts})
        columns = self.format.columns(places, True, {*texts, *self._where.texts}, self.readers)
        mask = self._held(self._where, columns)
        if not (mask.any() or self.is_part):
            raise DataError("\n".join([f"{self.name}: --where leaves no row of {len(mask)}", *self._notes][:-1]))
        kept = {name: column[mask] for name, column in columns.items() if name in wanted}
        return RawColumns(kept, np.flatnonzero(mask) + 1)

    def of_share(self, wanted: Collection[str], texts: Collection[str]) -> Filtered:
        """The same of a file that is restricted to some rows: it may have none that counts. Missing cells stay."""
        where = self._where
        if where is None:
            columns = self.format.columns(self.places(wanted), True, texts, self.readers)
            return Filtered(columns, len(next(iter(columns.values()))), {})
        places = self.places({*wanted, *where.numbers, *where.texts})
        columns = self.format.columns(places, True, {*texts, *where.texts}, self.readers)
        mask = where.mask(columns)
        kept = {name: column[mask] for name, column in columns.items() if name in wanted}
        return Filtered(kept, len(mask), {name: [*dict.fromkeys(columns[name].tolist())] for name in where.texts})

    def say_kept(self, kept: int, rows: int, seen: Mapping[str, Sequence[str | None]]) -> None:
        """Note how many rows the condition keeps, if there is one, and which of its texts no row has.

        Args:
            seen: the different texts of each column of text that it reads.

        Raises:
            DataError: if it keeps none.
        """
        if self._where is None:
            return
        said = self._where.notes({name: np.array([*texts], dtype=object) for name, texts in seen.items()})
        if not (kept or self.is_part):
            raise DataError("\n".join([f"{self.name}: --where leaves no row of {rows}", *said]))
        self._notes |= dict.fromkeys([*said, f"--where: {kept} of {rows} rows stay"])

    def pieces(
        self,
        wanted: Collection[str],
        texts: Collection[str],
        size: int,
        *,
        drop_missing: bool = False,
        careful: bool = False,
    ) -> Generator[RawPiece]:
        """The same as `read`, some rows at a time; texts as `Coded`.

        Args:
            size, careful: see `ColumnFormat.pieces`.

        Raises:
            DataError: see `read`.
            NotPlain: where only careful reading can go on.
        """
        if not self.places(wanted):
            raise DataError(f"{self.name}: the model uses none of its columns ({in_brief(self.names)})")
        where = self._where
        more = set() if where is None else {*where.texts, *where.numbers}
        text = texts if where is None else {*texts, *where.texts}
        drops = drop_missing or where is not None
        some = self.format.pieces(self.places({*wanted, *more}), drops, text, self.readers, size, careful)
        return filtered(self.name, some, wanted, where, self.say_kept)

    @property
    def is_text(self) -> bool:
        """Whether it takes long to read, so that it pays to keep what was read."""
        return self.format.is_text or self._where is not None

    def rows_about(self) -> int:
        """See `ColumnFormat.rows_about`."""
        return self.format.rows_about()

    def signature(self) -> tuple[Any, ...]:
        """See `ByteSource.signature`."""
        return self._source.signature()

    def rows(self) -> Iterator[Cells]:
        """The rows that count as text, some at a time."""
        return self._all_rows() if self._where is None else kept_rows(self._all_rows(), self._kept(self._where))

    def blocks(self, wanted: Collection[str], size: int) -> Iterator[Block]:
        """All rows in order, `size` at a time at most: the numbers of the columns asked for, and the text of all.

        A number may be nan or infinite here, if that is what is written.

        Raises:
            DataError: for cells that are empty or hold no number, and rows of too many or too few, block by block.
        """
        places = self.places(wanted)
        done = 0
        with contextlib.suppress(NotPlain), contextlib.closing(self.format.texts()) as texts:
            for batch in texts:
                for part in batch.parts(size):
                    yield Block({name: part.numbers(place) for name, place in places.items()}, part)
                    done += len(part)
            return
        with contextlib.closing(self.format.records()) as records:
            rest = itertools.islice(records, done, None)
            while found := list(itertools.islice(rest, size)):
                yield Block(self._numbers(found, places), [record.cells for record in found])

    def row(self, number: int, wanted: Collection[str]) -> Record:
        """A row as text, the first one being 1: the cells of the columns asked for, in that order.

        Raises:
            DataError: if there are not so many rows, if the row has too many or too few cells, and for a column that is
                not there.
        """
        lacking = [name for name in wanted if name not in self.names]
        if lacking:
            raise DataError(f"{self.name}: there is no column {in_brief(lacking, '`')} ({in_brief(self.names)})")
        places, count = self.places(wanted), 0
        records: Iterator[Record] = self.format.records()
        if self._where is not None:
            records = itertools.compress(records, self._kept(self._where).tolist())
        for count, (place, cells) in enumerate(records, 1):
            if count == number:
                if len(cells) != len(self.header):
                    wrong = f"{counted(len(cells))}, but the header has {len(self.header)}"
                    raise DataError(f"{self.name}: {place}: {wrong}")
                return Record(place, [cells[places[name]].strip() for name in wanted])
        if not count:
            raise DataError(f"{self.name}: there are no rows")
        raise DataError(f"{self.name}: there is no row {number}; the last one is {count}")

    def _all_rows(self) -> Iterator[Cells]:
        done = 0
        with contextlib.suppress(NotPlain), contextlib.closing(self.format.texts()) as texts:
            for cells in texts:
                yield cells
                done += len(cells)
            return
        with contextlib.closing(self.format.records()) as records:
            rest = itertools.islice(records, done, None)
            while block := [record.cells for record in itertools.islice(rest, _ROWS)]:
                yield block

    def _kept(self, where: RowFilter) -> NDArray[np.bool_]:
        """Which rows count."""
        if self._mask is None:
            places = self.places({*where.numbers, *where.texts})
            self._held(where, self.format.columns(places, True, where.texts, self.readers))
        assert self._mask is not None
        return self._mask

    def _held(self, where: RowFilter, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """The same, from the columns that the condition reads; it is said how many."""
        mask = self._mask = where.mask(columns)
        self._notes |= dict.fromkeys(where.notes(columns))
        self._notes[f"--where: {np.count_nonzero(mask)} of {len(mask)} rows stay"] = None
        return mask

    def _renamed(self, renamed: Mapping[str, str]) -> list[str]:
        names = [canonical(cell.strip()) for cell in self.header]
        for own, name in renamed.items():
            if own not in names:
                close = suggest(own, names)
                there = f"did you mean `{close}`?" if close else f"the columns are {in_brief(self.header)}"
                raise DataError(f"{self.name}: --column {name}: there is no column `{own}`; {there}")
            if name in names and name not in renamed:
                raise DataError(f"{self.name}: --column {name}: there is a column `{name}` already")
        return [renamed.get(name, name) for name in names]

    def places(self, wanted: Collection[str]) -> dict[str, int]:
        """Where columns of these names stand, those that are there. Raises DataError for one that is there twice."""
        names = sorted({*wanted} & self._places.keys(), key=self._places.__getitem__)
        for name in names:
            if len(self._places[name]) > 1:
                raise DataError(f"{self.name}: the header names the column `{name}` more than once")
        return {name: self._places[name][0] for name in names}

    def _numbers(self, records: Sequence[Record], places: Mapping[str, int]) -> dict[str, Array]:
        width = len(self.header)
        wrong = [
            f"{place}: {counted(len(cells))}, but the header has {width}"
            for place, cells in records
            if len(cells) != width
        ]
        columns: dict[str, list[float]] = {name: [] for name in places}
        for place, cells in records if not wrong else ():
            for name, k in places.items():
                cell = cells[k].strip()
                value = None if is_absent(cell) else self.readers[name].read(cell)
                if value is None:
                    wrong.append(f"{place}, column `{name}`: {not_read(cell, self.readers[name])}")
                else:
                    columns[name].append(value)
        if wrong:
            raise DataError(listing(wrong, f"{self.name}: "))
        return {name: np.array(values) for name, values in columns.items()}


def kept_rows(blocks: Iterable[Cells], kept: NDArray[np.bool_]) -> Iterator[Cells]:
    """Those rows of all that are kept, which has a truth value for each."""
    start = 0
    for cells in blocks:
        part = kept[start : start + len(cells)]
        start += len(cells)
        yield cells.kept(part) if isinstance(cells, TextColumns) else [*itertools.compress(cells, part.tolist())]


class _Readable(Protocol):
    @property
    def name(self) -> str: ...

    def read(
        self, wanted: Collection[str], *, drop_missing: bool = False, texts: Collection[str] = ()
    ) -> RawColumns: ...


def loaded(file: _Readable, wanted: Collection[str], drop_missing: bool, labels: str | None) -> Table:
    """The columns of a file, or of several, as a table. See `Dataset.load`."""
    texts = set() if labels is None else {labels}
    return as_table(
        file.read({*wanted, *texts}, drop_missing=drop_missing, texts=texts), drop_missing, labels, f"{file.name}: "
    )
