"""The tasks that everything computed over rows is made of. See `Task`."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.fold import fold, slices
from autodiff_cli.backends.protocol import Point, RowKernel, SumKernel
from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.rows.protocol import LARGEST_BLOCK, Columns

Array = NDArray[np.float64]
T = TypeVar("T")


@dataclass(slots=True)  # frozen ones take three times as long to make, and this is made at every call
class SumTask:
    """The sums of a kernel at a point. They are combined by adding."""

    kernel: SumKernel
    point: Point

    @property
    def names(self) -> Set[str]:
        """See `Task`."""
        return self.kernel.names

    def __call__(self, columns: Columns, rows: int) -> Array:
        """See `Task`."""
        return self.kernel.sums(self.point, columns, rows)


@dataclass(frozen=True, slots=True)
class ValueTask:
    """What a kernel gives for every row at a point, of shape (numbers, rows). Chunks are put side by side."""

    kernel: RowKernel
    point: Point

    @property
    def names(self) -> Set[str]:
        """See `Task`."""
        return self.kernel.names

    def __call__(self, columns: Columns, rows: int) -> Array:
        """See `Task`."""
        found = np.empty((self.kernel.numbers, rows))
        self.kernel.write(self.kernel.prepare(self.point), columns, found)
        return found


@dataclass(frozen=True, slots=True)
class FoldTask(Generic[T]):
    """What a kernel gives for each block of rows, of shape (numbers, rows of the block), reduced and combined.

    Attributes:
        reduce: is handed these, which it may change and must not keep, and the columns of the block.
        combine: puts two of its results together.
        more: names of columns that `reduce` reads and the kernel does not.
    """

    kernel: RowKernel
    point: Point
    reduce: Callable[[Array, Columns], T]
    combine: Callable[[T, T], T]
    more: Set[str] = frozenset()

    @property
    def names(self) -> Set[str]:
        """See `Task`."""
        return self.kernel.names | self.more

    def __call__(self, columns: Columns, rows: int) -> T:
        """See `Task`."""
        kernel = self.kernel
        prepared = kernel.prepare(self.point)
        columns = {name: columns[name] for name in columns.keys() & self.names}
        space = np.empty(kernel.numbers * min(kernel.block_rows, rows))

        def reduced(part: slice) -> T:
            count = part.stop - part.start
            block = space[: kernel.numbers * count].reshape(kernel.numbers, count)
            own = {name: column[..., part] for name, column in columns.items()}
            kernel.write(prepared, own, block)
            return self.reduce(block, own)

        with quiet():
            return fold(map(reduced, slices(rows, kernel.block_rows)), self.combine)


@dataclass(frozen=True, slots=True)
class ColumnTask(Generic[T]):
    """What columns themselves say, block by block.

    Attributes:
        names: of the columns, all of which are there.
        reduce: is handed those of a block.
        combine: puts two of its results together.
    """

    names: Set[str]
    reduce: Callable[[Columns], T]
    combine: Callable[[T, T], T]

    def __call__(self, columns: Columns, rows: int) -> T:
        """See `Task`."""
        own = {name: columns[name] for name in sorted(self.names)}
        parts = ({name: column[..., part] for name, column in own.items()} for part in slices(rows, LARGEST_BLOCK))
        with quiet():
            return fold(map(self.reduce, parts), self.combine)


@dataclass(frozen=True, slots=True)
class OneColumn:
    """A column of a block itself."""

    name: str

    def __call__(self, columns: Columns) -> Array:
        """A copy: where rows are streamed, what they lie in is used again."""
        return np.array(columns[self.name], dtype=np.float64)


def side_by_side(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Rows after rows."""
    return np.concatenate((a, b), axis=-1)
