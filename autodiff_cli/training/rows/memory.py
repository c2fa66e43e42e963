"""Rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.fold import fold
from autodiff_cli.backends.protocol import EpochKernel, Point, State, Tell
from autodiff_cli.data.table import Table
from autodiff_cli.training.rows.protocol import Some, Task, numbered
from autodiff_cli.training.rows.selection import Mask, Selection

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
        """See `Rows.part`. What a truth value for each of many rows chooses stays where it is."""
        if self.rows > _MANY and not isinstance(rows, slice) and rows.dtype == np.bool_:
            return ChosenInMemory(self, np.asarray(rows, np.bool_))
        return InMemory(self._table.part(rows))

    def descend(
        self,
        kernel: EpochKernel,
        state: State,
        rate: float,
        point: Point,
        batch_rows: int,
        generator: np.random.Generator,
        tell: Tell | None = None,
    ) -> float:
        """See `Rows.descend`."""
        return kernel.run(state, rate, point, self._columns, batch_rows, generator, tell)

    def table(self) -> Table:
        """See `Rows.table`."""
        return self._table


class ChosenInMemory:
    """Some of many rows in memory, which are gathered chunk by chunk at every pass. See `Rows`.

    Args:
        rows: all of them.
        mask: a truth value for each.
    """

    def __init__(self, rows: InMemory, mask: Mask) -> None:
        self._all = rows
        self._columns = rows.table().columns
        self._chosen = Selection(mask, _CHUNK)
        self._copied: InMemory | None = None  # for mini-batches
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

    def descend(
        self,
        kernel: EpochKernel,
        state: State,
        rate: float,
        point: Point,
        batch_rows: int,
        generator: np.random.Generator,
        tell: Tell | None = None,
    ) -> float:
        """See `Rows.descend`. Batches are drawn from a copy."""
        self._copied = self._copied or self.part(slice(None))
        return self._copied.descend(kernel, state, rate, point, batch_rows, generator, tell)

    def table(self) -> Table:
        """See `Rows.table`."""
        return self.part(slice(None)).table()
