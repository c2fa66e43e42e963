"""Rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TypeVar

import numpy as np

from autodiff_cli.backends.protocol import EpochKernel, Point, State, Tell
from autodiff_cli.data.table import Table
from autodiff_cli.training.rows.protocol import Some, Task

T = TypeVar("T")


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

    def part(self, rows: Some) -> InMemory:
        """See `Rows.part`."""
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
