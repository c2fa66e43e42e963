"""Rows that are on a cluster, as `Rows`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.protocol import NotCompiled
from autodiff_cli.data.table import Table
from autodiff_cli.training.cluster.on_worker import Partition, divided
from autodiff_cli.training.rows.memory import InMemory
from autodiff_cli.training.rows.protocol import LARGEST_BLOCK, WEIGHT, Columns, EpochRun, Rows, Some, Task, numbered
from autodiff_cli.training.rows.tasks import ColumnTask, SumTask

if TYPE_CHECKING:
    from autodiff_cli.training.cluster.cluster import Cluster, Parts

T = TypeVar("T")

PARTS = 2  # for each worker, at most: where one is slow, another takes the next
_LARGEST = 2**26  # rows of a part, at most: what is read again when a worker dies
_HERE = 2**22  # rows that are gathered here without being sent back


def part_rows(rows: int, workers: int) -> int:
    """How many rows a part has.

    >>> part_rows(10, 2), part_rows(1_000_000, 2), part_rows(10**12, 1000)
    (8192, 262144, 67108864)
    """
    return min(_LARGEST, divided(rows, PARTS * workers))


class OnCluster:
    """See `Rows`.

    Args:
        cluster: where they are.
        parts: the rows, in order.
        size: how many rows each part has; the last one has what is left.
        names: of the columns.
    """

    def __init__(
        self, cluster: Cluster, parts: Parts, rows: int, size: int, names: Set[str], *, dropped: int = 0
    ) -> None:
        self._cluster = cluster
        self._parts = parts
        self._size = size
        self.rows, self.names, self.dropped = rows, names, dropped
        self._weight: float | None = None

    @classmethod
    def of(cls, cluster: Cluster, table: Table) -> OnCluster:
        """The rows of a table, sent there."""
        size = part_rows(table.rows, cluster.workers)
        columns = table.columns

        def part(k: int) -> Partition:
            rows = slice(k * size, min((k + 1) * size, table.rows))
            return Partition({name: column[..., rows] for name, column in columns.items()}, rows.stop - rows.start)

        parts = cluster.sent(part, -(-table.rows // size))
        return cls(cluster, parts, table.rows, size, columns.keys(), dropped=table.dropped)

    def fold(self, task: Task[T], combine: Callable[[T, T], T]) -> T:
        """See `Rows.fold`. Raises ClusterError if the cluster fails for good."""
        try:
            return self._cluster.fold(self._parts, task, combine)
        except NotCompiled:
            # What cannot be compiled there cannot be here either: the task turns to another kernel.
            task(self.part(slice(0, 1)).table().columns, 1)
            return self._cluster.fold(self._parts, task, combine)

    def part(self, rows: Some) -> Rows:
        """See `Rows.part`. Very many rows go back to the cluster."""
        if isinstance(rows, slice) and rows.indices(self.rows) == (0, self.rows, 1):
            return self
        table = self._gathered(numbered(rows, self.rows))
        return InMemory(table) if table.rows <= _HERE else OnCluster.of(self._cluster, table)

    def descend(self, epoch: EpochRun) -> float:
        """See `Rows.descend`. A batch has all rows: options see to that."""
        if self.rows <= LARGEST_BLOCK:  # nothing to share; in memory they are drawn in an order
            return InMemory(self.table()).descend(epoch)
        assert epoch.batch_rows >= self.rows, "mini-batches"
        return epoch.whole(self._total(), lambda sums, at: self.fold(SumTask(sums, at), np.add))

    def table(self) -> Table:
        """See `Rows.table`."""
        return self._gathered(np.arange(self.rows))

    def _total(self) -> float:
        """The weight of all rows."""
        if self._weight is None:
            weights = ColumnTask(frozenset({WEIGHT}), _total, operator.add)
            self._weight = self.fold(weights, operator.add) if WEIGHT in self.names else float(self.rows)
        return self._weight

    def _gathered(self, rows: NDArray[Any]) -> Table:
        """These rows, in this order, in memory."""
        of_part = rows // self._size
        order = np.argsort(of_part, kind="stable")
        which, begins = np.unique(of_part[order], return_index=True)
        wanted = [
            _slim(part - k * self._size) for k, part in zip(which, np.split(rows[order], begins[1:]), strict=True)
        ]
        found = self._cluster.gathered(self._parts, [int(k) for k in which], wanted)
        back = None if (np.diff(order) == 1).all() else np.argsort(order)
        columns: dict[str, NDArray[Any]] = {}
        for name in found[0] if found else ():
            joined = np.concatenate([columns[name] for columns in found], axis=-1)
            columns[name] = joined if back is None else joined[..., back]
        return Table(columns, len(rows), self.dropped)


def _slim(rows: NDArray[Any]) -> slice | NDArray[Any]:
    """The same as a slice, if they follow one another."""
    begin, end = int(rows[0]), int(rows[-1]) + 1
    return slice(begin, end) if end - begin == len(rows) and (np.diff(rows) == 1).all() else rows


def _total(columns: Columns) -> float:
    return float(np.sum(columns[WEIGHT]))
