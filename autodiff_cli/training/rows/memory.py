"""Rows in memory."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Set
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.descent import mean_loss, orders, total
from autodiff_cli.backends.fold import fold
from autodiff_cli.data.table import Table
from autodiff_cli.training.rows.protocol import WEIGHT, Columns, EpochRun, Some, Task, numbered
from autodiff_cli.training.rows.selection import Selection, Times
from autodiff_cli.training.rows.tasks import ColumnTask, SumTask

T = TypeVar("T")

_MANY = 1 << 20  # rows of which a part is worth no copy
_CHUNK = 1 << 17  # rows that are gathered at a time


class InMemory:
    """The rows of a table: one chunk. See `Rows`."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._columns = table.columns
        self.rows = table.rows
        self.dropped = table.dropped

    @property
    def names(self) -> Set[str]:
        """See `Rows`."""
        return self._columns.keys()

    def fold(self, task: Task[T], combine: Callable[[T, T], T]) -> T:  # noqa: ARG002 - one chunk is not combined
        """See `Rows.fold`."""
        return task(self._columns, self.rows)

    def part(self, rows: Some) -> InMemory | ChosenInMemory:
        """See `Rows.part`. What is chosen of many rows by truth values or times stays where it is."""
        if isinstance(rows, slice):
            return InMemory(self._table.part(rows))
        if self.rows > _MANY and rows.dtype in (np.bool_, np.uint8):
            return ChosenInMemory(self, cast(Times, rows))
        return InMemory(self._table.part(numbered(rows, self.rows)))

    def descend(self, epoch: EpochRun) -> float:
        """See `Rows.descend`."""
        return _descended(epoch, self._columns, orders(epoch.generator, self.rows, epoch.batch_rows), self.rows)

    def table(self) -> Table:
        """See `Rows.table`."""
        return self._table


class ChosenInMemory:
    """Some of many rows in memory, which are gathered chunk by chunk at every pass. See `Rows`.

    Args:
        rows: all of them.
        times: a truth value for each, or how often it counts.
    """

    def __init__(self, rows: InMemory, times: Times) -> None:
        self._all = rows
        self._columns = rows.table().columns
        self._chosen = Selection(times, _CHUNK)
        self.rows = self._chosen.rows
        self.dropped = rows.dropped
        self.names = rows.names

    def fold(self, task: Task[T], combine: Callable[[T, T], T]) -> T:
        """See `Rows.fold`."""
        names = task.names & self.names

        def done(numbers: NDArray[np.intp]) -> T:
            return task({name: self._columns[name][..., numbers] for name in names}, len(numbers))

        return fold(map(done, self._chosen.in_chunks()), combine)

    def part(self, rows: Some) -> InMemory:
        """See `Rows.part`."""
        return InMemory(self._all.table().part(self._chosen.numbers(numbered(rows, self.rows))))

    def descend(self, epoch: EpochRun) -> float:
        """See `Rows.descend`."""
        if epoch.batch_rows >= self.rows:
            return epoch.whole(self._total(), lambda sums, at: self.fold(SumTask(sums, at), np.add))
        order = orders(epoch.generator, self.rows, epoch.batch_rows)
        parts = (self._chosen.numbers(part) for part in order if part is not None)
        return _descended(epoch, self._columns, parts, self.rows)

    def _total(self) -> float:
        """The weight of all rows."""
        if WEIGHT not in self.names:
            return float(self.rows)
        weights = ColumnTask({WEIGHT}, lambda columns: total(columns[WEIGHT]), operator.add)
        return float(self.fold(weights, operator.add))

    def table(self) -> Table:
        """See `Rows.table`."""
        return self.part(slice(None)).table()


def _descended(epoch: EpochRun, columns: Columns, parts: Iterable[NDArray[Any] | None], rows: int) -> float:
    """An epoch over so many rows in an order that comes in parts. See `Rows.descend`."""
    tell = epoch.tell
    losses: list[float] = []
    done = 0
    for order in parts:
        if order is None:
            return epoch.run(columns, tell=tell)

        def tell_of_all(share: float, loss: float, done: int = done, count: int = len(order)) -> None:
            if tell is not None:
                tell((done + share * count) / rows, loss)

        mean = epoch.run(columns, order, tell and tell_of_all, losses)
        done += len(order)
        if tell is not None and done < rows:
            tell(done / rows, mean)
    return mean_loss(losses)
