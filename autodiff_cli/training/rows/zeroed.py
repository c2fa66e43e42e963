"""Rows some of whose columns are 0."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from autodiff_cli.data.table import Table
from autodiff_cli.training.rows.memory import InMemory
from autodiff_cli.training.rows.protocol import Columns, EpochRun, Rows, Some, Task

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WithZeros(Generic[T]):
    """A task that finds zeros in some columns, whatever is there."""

    task: Task[T]
    zeroed: Set[str]

    @property
    def names(self) -> Set[str]:
        """See `Task`."""
        return self.task.names - self.zeroed

    def __call__(self, columns: Columns, rows: int) -> T:
        """See `Task`."""
        return self.task({**columns, **dict.fromkeys(self.zeroed, np.zeros(rows))}, rows)


class Zeroed:
    """Other rows with zeros in some columns. See `Rows`."""

    def __init__(self, rows: Rows, zeroed: Set[str]) -> None:
        self._inner = rows
        self._zeroed = zeroed
        self.rows, self.dropped = rows.rows, rows.dropped

    @property
    def names(self) -> Set[str]:
        """See `Rows`."""
        return self._inner.names | self._zeroed

    def fold(self, task: Task[T], combine: Callable[[T, T], T]) -> T:
        """See `Rows.fold`."""
        return self._inner.fold(WithZeros(task, self._zeroed), combine)

    def part(self, rows: Some) -> Zeroed:
        """See `Rows.part`."""
        return Zeroed(self._inner.part(rows), self._zeroed)

    def descend(self, epoch: EpochRun) -> float:
        """See `Rows.descend`. The rows come into memory for it."""
        return InMemory(self.table()).descend(epoch)

    def table(self) -> Table:
        """See `Rows.table`."""
        table = self._inner.table()
        return dataclasses.replace(
            table, columns={**table.columns, **dict.fromkeys(self._zeroed, np.zeros(table.rows))}
        )
