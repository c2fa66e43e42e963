"""Data files: CSV, TSV, gzip of either, Parquet. Their content tells the format, not their name."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.cells import counted, number, shown
from autodiff_cli.data.delimited import Delimited
from autodiff_cli.data.parquet import MAGIC, Parquet
from autodiff_cli.data.source import ByteSource
from autodiff_cli.data.table import Array, DataError, LabelColumn, Record, Table, as_labels, complete, listing
from autodiff_cli.data.texts import NotPlain, TextColumns
from autodiff_cli.language.errors import in_brief
from autodiff_cli.language.lexer import canonical

_ROWS = 10_000  # that are handed on at a time


class ColumnFormat(Protocol):
    """A way to write columns down."""

    @property
    def header(self) -> Sequence[str]:
        """The names of the columns, as the file spells them."""

    def columns(self, places: Mapping[str, int], drop_missing: bool, labels: str | None) -> dict[str, Any]:
        """The columns at some places, by other names: floats, nan where a cell is missing; of `labels`, texts.

        Raises:
            DataError: for cells that hold no number; where the place of what is missing is known, for these too unless
                `drop_missing`.
        """

    def records(self) -> Generator[Record]:
        """The rows as text, each with its place. Of what can be read only once, those that were not read yet."""

    def texts(self) -> Generator[TextColumns]:
        """The rows by column, where that is faster. Raises NotPlain where it has to end, maybe at once."""


Cells: TypeAlias = list[list[str]] | TextColumns


class Block(NamedTuple):
    """Some rows of a file.

    Attributes:
        columns: the numbers of the columns asked for, by name.
        cells: the text of all.
    """

    columns: dict[str, Array]
    cells: Cells


class DataFile:
    """A file of named columns, as a Dataset.

    Args:
        path: `-` stands for `stdin`.
        stdin: where `-` is read from.
        once: leave standard input where it is until it is read, row by row, as it arrives; then it is gone.

    Attributes:
        name: for messages.
        header: the names of the columns as the file spells them.
        names: the same, as the language compares names; those that are empty, or there already, are left out.

    Raises:
        DataError: if there is no such file, or no header that can be read.
    """

    def __init__(self, path: str, stdin: BinaryIO | None = None, *, once: bool = False) -> None:
        source = ByteSource(path, stdin, once=once)
        self.name = source.name
        self._format: ColumnFormat = Parquet(source) if source.start == MAGIC else Delimited(source)
        self.header = tuple(self._format.header)
        self._canonical = [canonical(cell.strip()) for cell in self.header]
        self.names = tuple(dict.fromkeys(name for name in self._canonical if name))

    def load(self, wanted: Collection[str], *, drop_missing: bool = False, labels: str | None = None) -> Table:
        """See `Dataset.load`. Only the columns asked for are read. Labels that are all numbers as text are numbers."""
        places = self._places({*wanted, labels} if labels is not None else wanted)
        if not places:
            raise DataError(f"{self.name}: the model uses none of its columns ({in_brief(self.names)})")
        columns = self._format.columns(places, drop_missing, labels)
        named = None
        if labels is not None:
            named = LabelColumn(labels, *as_labels(_as_numbers(columns.pop(labels)), labels))
        return complete(columns, drop_missing, f"{self.name}: ", named)

    def rows(self) -> Iterator[Cells]:
        """All rows as text, some at a time."""
        done = 0
        with contextlib.suppress(NotPlain), contextlib.closing(self._format.texts()) as texts:
            for cells in texts:
                yield cells
                done += len(cells)
            return
        with contextlib.closing(self._format.records()) as records:
            rest = itertools.islice(records, done, None)
            while block := [record.cells for record in itertools.islice(rest, _ROWS)]:
                yield block

    def blocks(self, wanted: Collection[str], size: int) -> Iterator[Block]:
        """All rows in order, `size` at a time at most: the numbers of the columns asked for, and the text of all.

        A number may be nan or infinite here, if that is what is written.

        Raises:
            DataError: for cells that are empty or hold no number, and rows of too many or too few, block by block.
        """
        places = self._places(wanted)
        done = 0
        with contextlib.suppress(NotPlain), contextlib.closing(self._format.texts()) as texts:
            for batch in texts:
                for part in batch.parts(size):
                    yield Block({name: part.numbers(place) for name, place in places.items()}, part)
                    done += len(part)
            return
        with contextlib.closing(self._format.records()) as records:
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
        places, count = self._places(wanted), 0
        for count, (place, cells) in enumerate(self._format.records(), 1):
            if count == number:
                if len(cells) != len(self.header):
                    wrong = f"{counted(len(cells))}, but the header has {len(self.header)}"
                    raise DataError(f"{self.name}: {place}: {wrong}")
                return Record(place, [cells[places[name]].strip() for name in wanted])
        if not count:
            raise DataError(f"{self.name}: there are no rows")
        raise DataError(f"{self.name}: there is no row {number}; the last one is {count}")

    def _places(self, wanted: Collection[str]) -> dict[str, int]:
        places = {name: place for place, name in enumerate(self._canonical) if name in wanted}
        for name in places:
            if self._canonical.count(name) > 1:
                raise DataError(f"{self.name}: the header names the column `{name}` more than once")
        return places

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
                value = number(cell)
                if value is None:
                    wrong.append(f"{place}, column `{name}`: {f'{shown(cell)} is not a number' if cell else 'empty'}")
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


def _as_numbers(labels: NDArray[np.object_]) -> NDArray[Any]:
    """The same as numbers, nan where one is missing, if all of them are written as numbers."""
    found = [math.nan if label is None else number(str(label)) for label in labels.tolist()]
    return labels if None in found else np.array(found, dtype=np.float64)
