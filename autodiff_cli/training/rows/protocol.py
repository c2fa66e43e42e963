"""What rows are for a fit: something that folds a task over chunks of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.protocol import EpochKernel, Point, State, SumKernel, Tell
from autodiff_cli.data.table import Table

Columns = Mapping[str, NDArray[Any]]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Some = slice | NDArray[np.intp] | NDArray[np.bool_] | NDArray[np.uint8]

WEIGHT = ""  # the column of weights; no column of a model has an empty name
LARGEST_BLOCK = 8192  # rows of a block, at most; blocks of fewer have a power of two of them


class Task(Protocol[T_co]):
    """Something to compute of a chunk of rows. It can be pickled, keeps nothing, and changes no column."""

    @property
    def names(self) -> Set[str]:
        """The columns that it reads, where they are there; other names may be among them."""

    def __call__(self, columns: Columns, rows: int, /) -> T_co:
        """What it gives for some rows.

        Args:
            columns: these, of these rows; more may be there.
            rows: how many rows they have, at least one.
        """


@dataclass(frozen=True, slots=True)
class EpochRun:
    """An epoch of a gradient method, wherever the rows are: see `EpochKernel`.

    Attributes:
        kernel: what takes the steps.
        state: where the method stands; is moved on, in place.
        rate: the learning rate.
        point: a value for every leaf that is neither a column nor a parameter.
        batch_rows: how many rows a batch has, at most.
        generator: of the order of the rows.
        tell: is called now and then within an epoch that lasts.
    """

    kernel: EpochKernel
    state: State
    rate: float
    point: Point
    batch_rows: int
    generator: np.random.Generator
    tell: Tell | None = None

    def run(
        self,
        columns: Columns,
        order: NDArray[Any] | None = None,
        tell: Tell | None = None,
        losses: list[float] | None = None,
    ) -> float:
        """Run it over some rows: see `EpochKernel.run`."""
        return self.kernel.run(self.state, self.rate, self.point, columns, self.batch_rows, order, tell, losses)

    def whole(self, weight: float, sums: Callable[[SumKernel, Point], NDArray[np.float64]]) -> float:
        """Run it as one step over all rows: see `EpochKernel.whole`."""
        return self.kernel.whole(self.state, self.rate, self.point, weight, sums)


class Rows(Protocol):
    """The rows of an objective: in memory, or elsewhere.

    Whatever is computed over all of them is a task, folded over chunks of 2^k largest blocks each. Tasks combine what
    they compute of blocks in the order of `backends.fold`, and so are their results: with the same bits wherever the
    rows are.

    Attributes:
        rows: how many.
        names: of the columns.
        dropped: how many rows were left out because a cell was missing.
    """

    @property
    def rows(self) -> int: ...

    @property
    def names(self) -> Set[str]: ...

    @property
    def dropped(self) -> int: ...

    def fold(self, task: Task[T], combine: Callable[[T, T], T]) -> T:
        """What a task gives for each chunk, combined. Raises ValueError if there is no row."""

    def part(self, rows: Some) -> Rows:
        """Some of the rows: a slice, row numbers, a truth value for each, or how often each comes (`uint8`). Those of
        numbers are in memory."""

    def descend(self, epoch: EpochRun) -> float:
        """Run an epoch over them; the mean of the batches' losses."""

    def table(self) -> Table:
        """All rows in memory: for those who know that they are few."""


def numbered(rows: Some, count: int) -> NDArray[np.intp]:
    """The numbers of some of so many rows.

    >>> numbered(slice(1, None), 3).tolist(), numbered(np.array([True, False, True]), 3).tolist()
    ([1, 2], [0, 2])
    >>> numbered(np.array([0, 2, 1], np.uint8), 3).tolist()
    [1, 1, 2]
    """
    if isinstance(rows, slice):
        return np.arange(*rows.indices(count))
    if rows.dtype == np.uint8:
        return np.repeat(np.arange(count), rows)
    return np.flatnonzero(rows) if rows.dtype == np.bool_ else np.asarray(rows, np.intp)
