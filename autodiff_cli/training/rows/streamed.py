"""Rows that are read in chunks at every pass."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Set
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.descent import MIXED_FREELY, mean_loss, orders
from autodiff_cli.backends.fold import fold, slices
from autodiff_cli.data.streaming.columns import Chunk, StreamedColumns, ahead
from autodiff_cli.data.streaming.pieces import Rechunker
from autodiff_cli.data.table import Table
from autodiff_cli.training.rows.memory import InMemory
from autodiff_cli.training.rows.protocol import Columns, EpochRun, Some, Task, numbered
from autodiff_cli.training.rows.selection import Selection

T = TypeVar("T")


class Making(Protocol):
    """What makes the columns that kernels read: see `ColumnRecipe`."""

    @property
    def names(self) -> Set[str]: ...

    def needs(self, wanted: Set[str]) -> set[str]: ...

    def made(self, columns: Columns, wanted: Set[str]) -> dict[str, NDArray[Any]]: ...


class StreamedRows:
    """See `Rows`.

    Args:
        columns: what is read.
        recipe: what is made of it.
        chosen: which of its rows are meant; all by default.
    """

    def __init__(self, columns: StreamedColumns, recipe: Making, chosen: Selection | None = None) -> None:
        self._columns = columns
        self._recipe = recipe
        self._in_memory: InMemory | None = None  # all of few rows, for mini-batches
        self.names = recipe.names
        self._chosen = chosen
        self.rows = columns.rows if chosen is None else chosen.rows
        self.dropped = columns.dropped

    def fold(self, task: Task[T], combine: Callable[[T, T], T]) -> T:
        """See `Rows.fold`."""
        with contextlib.closing(self._results(task)) as results:
            return fold(results, combine)

    def _results(self, task: Task[T]) -> Generator[T]:
        wanted = task.names & self.names
        with contextlib.closing(self._chunks(self._recipe.needs(wanted))) as chunks:
            for columns, rows in chunks:
                own = columns if rows == self._columns.chunk else {n: values[:rows] for n, values in columns.items()}
                yield task(self._recipe.made(own, wanted), rows)

    def _chunks(self, names: Set[str]) -> Generator[Chunk]:
        """The columns of the rows that are meant."""
        if not names:  # what depends on no column is asked of all rows too
            yield from (({}, part.stop - part.start) for part in slices(self.rows, self._columns.chunk))
            return
        with contextlib.closing(self._columns.chunks(names)) as chunks:
            if self._chosen is None:
                yield from chunks
                return
            size = self._columns.chunk
            full = Rechunker([{name: np.empty(size) for name in names}], size)
            for number, (columns, rows) in enumerate(chunks):
                meant = self._chosen.of_chunk(number) - number * size
                kept = {name: values[:rows][meant] for name, values in columns.items()}
                for space in full.full(kept, len(meant)):
                    yield space, size
            rest, count = full.last()
            if count:
                yield rest, count

    def part(self, rows: Some) -> InMemory | StreamedRows:
        """See `Rows.part`. What a truth value for each row chooses is streamed again, all else comes into memory."""
        if self._chosen is None and not isinstance(rows, slice) and rows.dtype == np.bool_:
            mask = np.asarray(rows, dtype=np.bool_)
            return StreamedRows(self._columns, self._recipe, Selection(mask, self._columns.chunk))
        return self._part(rows)

    def _part(self, rows: Some) -> InMemory:
        numbers = numbered(rows, self.rows)
        return InMemory(Table(self._of(numbers), len(numbers), self.dropped))

    def descend(self, epoch: EpochRun) -> float:
        """See `Rows.descend`."""
        if epoch.batch_rows >= self.rows or self.rows <= MIXED_FREELY:  # few rows, or all at a time
            self._in_memory = self._in_memory or self._part(slice(None))
            return self._in_memory.descend(epoch)
        parts = orders(epoch.generator, self.rows, epoch.batch_rows, self._columns.chunk)
        losses: list[float] = []
        done = 0
        with contextlib.closing(ahead((self._of(part), len(part)) for part in parts if part is not None)) as drawn:
            for columns, rows in drawn:
                mean = epoch.run(columns, losses=losses)
                done += rows
                if epoch.tell is not None and done < self.rows:
                    epoch.tell(done / self.rows, mean)
        return mean_loss(losses)

    def _of(self, numbers: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """All columns of rows by their numbers."""
        numbers = numbers if self._chosen is None else self._chosen.numbers(numbers)
        return self._recipe.made(self._columns.gather(numbers, self._recipe.needs(self.names)), self.names)

    def table(self) -> Table:
        """See `Rows.table`."""
        return self._part(slice(None)).table()
