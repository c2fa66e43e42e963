"""The rows of a fit, and the folds that compute results over all rows, block by block.

`Rows` is the base of rows in memory (`MemoryRows`), streamed from files, on a cluster, or selected among others
(`SelectedRows`). A `Task` computes something from a chunk of rows. It can
be pickled, so it can be sent to where the rows are. Inside a chunk, a task computes block by block; `reductions` below
turn the values of a block into a small result and combine two results.

Blocks have a power of two of rows, chunks a power of two of blocks, and results are combined in a fixed tree. So the
result has the same bits for any place of the rows and any division into chunks.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import math
import operator
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, ignore_float_errors
from autodiff_cli.backends.gradient_descent import MAX_FULL_SHUFFLE_ROWS, ORDER_ROWS, epoch_orders, mean_loss
from autodiff_cli.backends.protocol import EpochKernel, EpochRequest, Point, RowKernel, SumKernel
from autodiff_cli.backends.reductions import block_slices, fold, single_threaded_for
from autodiff_cli.data.streaming import Rechunker, prefetch
from autodiff_cli.data.table import Table

ColumnArrays = Mapping[str, NDArray[Any]]
T = TypeVar("T")
# Some rows of an epoch: columns, the numbers of the rows in these (None for all of them), and the number of rows.
EpochPart = tuple[ColumnArrays, NDArray[Any] | None, int]
RowIndex = slice | NDArray[np.intp] | NDArray[np.bool_] | NDArray[np.uint8]

WEIGHT = ""  # the name of the column of weights: empty, so no column of a model can have it
GROUP = "\1"  # the name of the column of the numbers of groups; no name in a model can contain this character
MAX_BLOCK_ROWS = 8192  # a power of two, like all block sizes, so that sums form one fixed tree


class Task(Protocol[T]):
    """A computation on a chunk of rows. It can be pickled, has no state, and modifies no column."""

    @property
    def combine(self) -> Callable[[T, T], T]:
        """The function that combines the results of two chunks."""

    @property
    def names(self) -> Set[str]:
        """The columns that the task reads if they exist; the set may contain other names too."""

    def __call__(self, columns: ColumnArrays, rows: int, /) -> T:
        """Return the result for some rows.

        Args:
            columns: the columns of these rows; there may be more of them than the task reads.
            rows: the number of rows, at least 1.
        """


class Rows(abc.ABC):
    """The rows of an objective, in memory or elsewhere.

    Everything computed over all rows is a task, folded over chunks of 2^k maximal blocks each. Tasks combine the
    results of blocks in the order of `fold`, and the results of chunks are combined in the same order.

    Attributes:
        rows: the number of rows.
        names: the names of the columns.
        dropped: the number of rows that were left out because a cell is missing.
        gathered_rows: the number of rows of an epoch that are gathered at a time.
    """

    rows: int
    names: Set[str]
    dropped: int
    gathered_rows = ORDER_ROWS

    @abc.abstractmethod
    def fold(self, task: Task[T]) -> T:
        """Return the combined results of a task for all chunks. Raises ValueError if there is no row."""

    @abc.abstractmethod
    def gather(self, numbers: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return all columns of the rows with these numbers, in this order."""

    @functools.cached_property
    def total_weight(self) -> float:
        """The sum of the weights; the number of rows if there are no weights."""
        if WEIGHT not in self.names:
            return float(self.rows)
        total: float = self.fold(ColumnTask(frozenset({WEIGHT}), sum_weights, operator.add))
        return total

    def column(self, name: str) -> Array:
        """Return a column of all rows, in memory."""
        return self.fold(ColumnTask(frozenset({name}), functools.partial(copy_column, name), concatenate_rows))

    @functools.cached_property
    def _in_memory(self) -> MemoryRows:
        """All of few rows, in memory."""
        return MemoryRows(self.to_table())

    def select_rows(self, rows: RowIndex) -> Rows:
        """Return some of the rows, selected by a slice, row numbers, a boolean mask, or counts (`uint8`).

        Rows selected by their numbers are in memory.
        """
        numbers = row_numbers(rows, self.rows)
        return MemoryRows(Table(self.gather(numbers), len(numbers), self.dropped))

    def to_table(self) -> Table:
        """Return all rows in memory; for callers who know that there are few."""
        return Table(self.gather(np.arange(self.rows)), self.rows, self.dropped)

    def run_epoch(self, kernel: EpochKernel, epoch: EpochRequest, generator: np.random.Generator) -> float:
        """Run an epoch over the rows, in an order that the generator draws; return the mean loss of the batches."""
        if epoch.batch_rows >= self.rows > MAX_BLOCK_ROWS:
            return kernel.run_full_batch(epoch, self.total_weight, lambda sums, at: self.fold(SumTask(sums, at)))
        if self.rows <= MAX_FULL_SHUFFLE_ROWS:
            return self._in_memory.run_epoch(kernel, epoch, generator)
        orders = epoch_orders(generator, self.rows, epoch.batch_rows, self.gathered_rows)
        return self._run_parts(kernel, epoch, prefetch(self._gathered_parts(orders)))

    def _gathered_parts(self, orders: Iterable[NDArray[Any] | None]) -> Iterator[EpochPart]:
        """Yield the rows of an epoch in the order of their batches."""
        for order in orders:
            assert order is not None, "a full batch"
            yield self.gather(order), None, len(order)

    def _run_parts(self, kernel: EpochKernel, epoch: EpochRequest, parts: Generator[EpochPart]) -> float:
        """Run an epoch part by part and return the mean loss of the batches."""
        losses: list[float] = []
        done, on_progress = 0, epoch.on_progress

        def report(share: float, loss: float) -> None:
            assert on_progress is not None
            on_progress((done + share * count) / self.rows, loss)

        with contextlib.closing(parts):
            for columns, order, count in parts:
                mean = kernel.run(epoch._replace(on_progress=on_progress and report), columns, order, losses)
                if on_progress is not None and done + count < self.rows:
                    report(1.0, mean)
                done += count
        return mean_loss(losses) if losses else mean


def row_numbers(rows: RowIndex, count: int) -> NDArray[np.intp]:
    """Return the row numbers that an index selects from `count` rows.

    >>> row_numbers(slice(1, None), 3).tolist(), row_numbers(np.array([True, False, True]), 3).tolist()
    ([1, 2], [0, 2])
    >>> row_numbers(np.array([0, 2, 1], np.uint8), 3).tolist()
    [1, 1, 2]
    """
    if isinstance(rows, slice):
        return np.arange(*rows.indices(count))
    if rows.dtype == np.uint8:
        return np.repeat(np.arange(count), rows)
    return np.flatnonzero(rows) if rows.dtype == np.bool_ else np.asarray(rows, np.intp)


Selection = tuple[RowIndex, int]  # and the number of rows among which they are selected


def add_selection(before: tuple[Selection, ...] | None, rows: RowIndex, count: int) -> tuple[Selection, ...] | None:
    """Return the selections that lead to some of `count` rows; None if they are unknown, or take much memory."""
    return None if before is None or count > MAX_COPIED_ROWS else (*before, (rows, count))


def numbers_in_data(selections: tuple[Selection, ...] | None, rows: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """Return the numbers of selected rows among all rows of the data, counted from 0; None if they are not known.

    >>> numbers_in_data(((slice(1, None), 6), (np.array([0, 2, 4]), 5)), np.array([2])).tolist()
    [5]
    """
    if selections is None:
        return None
    for selected, count in reversed(selections):
        rows = row_numbers(selected, count)[rows]
    return rows


Kernel = TypeVar("Kernel", SumKernel, RowKernel)


# Not frozen: creating a frozen record takes three times as long, and one is created at every evaluation.
@dataclass(slots=True)
class KernelTask(Generic[Kernel]):
    """The base of tasks that evaluate a kernel at a point."""

    kernel: Kernel
    point: Point

    @property
    def names(self) -> Set[str]:
        """The columns that the kernel reads."""
        return self.kernel.names


@dataclass(slots=True)
class SumTask(KernelTask[SumKernel]):
    """The sums of a kernel at a point over the rows of a chunk; sums of chunks are added."""

    combine: Callable[[Array, Array], Array] = np.add

    def __call__(self, columns: ColumnArrays, rows: int) -> Array:
        """Return the sums over these rows."""
        return self.kernel.sums(self.point, columns, rows)


def concatenate_rows(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Concatenate two arrays along their last axis, the rows."""
    return np.concatenate((a, b), axis=-1)


@dataclass(slots=True)
class ValueTask(KernelTask[RowKernel]):
    """The values of a kernel for every row at a point, of shape (values, rows); chunks are concatenated."""

    combine: Callable[[Array, Array], Array] = concatenate_rows

    def __call__(self, columns: ColumnArrays, rows: int) -> Array:
        """Return the values for these rows."""
        values = np.empty((self.kernel.value_count, rows))
        self.kernel.write(self.kernel.prepare(self.point), columns, values)
        return values


@dataclass(slots=True)
class FoldTask(KernelTask[RowKernel], Generic[T]):
    """The values of a kernel for each block, of shape (values, rows of the block), reduced and combined.

    Attributes:
        reduce: is called with these values, which it may modify but not keep, and with the columns of the block.
        combine: combines two results of `reduce`.
    """

    reduce: Callable[[Array, ColumnArrays], T]
    combine: Callable[[T, T], T]

    @property
    def names(self) -> Set[str]:
        """The columns that the kernel or the reduction reads: the weights may be among them."""
        return self.kernel.names | {WEIGHT}

    def __call__(self, columns: ColumnArrays, rows: int) -> T:
        """Return the combined result for these rows."""
        kernel = self.kernel
        prepared = kernel.prepare(self.point)
        space = np.empty((kernel.value_count, min(kernel.block_rows, rows)))

        def reduced(part: ColumnArrays, count: int) -> T:
            block = space if count == space.shape[1] else np.empty((kernel.value_count, count))
            kernel.write(prepared, part, block)
            return self.reduce(block, part)

        with ignore_float_errors():
            if rows <= kernel.block_rows:
                return reduced(columns, rows)
            read = [(name, columns[name]) for name in columns.keys() & self.names]
            blocks = (
                reduced({name: column[..., part] for name, column in read}, part.stop - part.start)
                for part in block_slices(rows, kernel.block_rows)
            )
            return fold(blocks, self.combine)


@dataclass(frozen=True, slots=True)
class ColumnTask(Generic[T]):
    """A reduction of columns themselves, block by block.

    Attributes:
        names: the names of the columns, all of which exist.
        reduce: is called with the columns of a block.
        combine: combines two results of `reduce`.
    """

    names: Set[str]
    reduce: Callable[[ColumnArrays], T]
    combine: Callable[[T, T], T]

    def __call__(self, columns: ColumnArrays, rows: int) -> T:
        """Return the combined result for these rows."""
        task_columns = {name: columns[name] for name in sorted(self.names)}
        parts = (
            {name: column[..., part] for name, column in task_columns.items()}
            for part in block_slices(rows, MAX_BLOCK_ROWS)
        )
        with ignore_float_errors():
            return fold(map(self.reduce, parts), self.combine)


def sum_weights(columns: ColumnArrays) -> float:
    """Return the sum of the weights of a block."""
    return float(np.sum(columns[WEIGHT]))


# --- Reductions: functions of a block, after parameters that `functools.partial` binds, so that they can be pickled


def copy_column(name: str, columns: ColumnArrays) -> Array:
    """Return a copy of one column of a block, because streamed rows reuse the memory of a chunk."""
    return np.array(columns[name], dtype=np.float64)


def triangular_factor(matrix: Array) -> Array:
    """Return the factor R of a QR factorization, of shape (min(rows, columns), columns); of a stack of matrices, a
    stack of factors.
    """
    with single_threaded_for(matrix):
        packed, _ = np.linalg.qr(matrix, mode="raw")  # reflections below the diagonal; NumPy's own way to R is slower
    factor = packed.swapaxes(-2, -1)[..., : min(matrix.shape[-2:]), :]
    return np.where(_lower_mask(*factor.shape[-2:], -1, np.bool_), 0.0, factor)


_lower_mask = functools.lru_cache(32)(np.tri)  # `np.triu` makes its mask at every call, which takes most of its time


def join_triangles(a: Array, b: Array) -> Array:
    """Return the triangular factor of the rows of two triangular factors together."""
    return triangular_factor(np.vstack((a, b)))


def residual_triangle(components: int, width: int, block: Array, columns: ColumnArrays) -> Array:
    """Return the triangular factor of a block of [J | r], with each row multiplied by the square root of its weight.

    Args:
        components: the number of components of the target; each has a row of the matrix for every row of the data.
        width: the number of columns of the matrix.
        block: values of shape (component, column, row), flattened except for the last axis.
        columns: the columns of the block.
    """
    if WEIGHT in columns:
        block *= np.sqrt(columns[WEIGHT])
    return triangular_factor(block.reshape(components, width, -1).swapaxes(0, 1).reshape(width, -1).T)


def score_triangle(block: Array, columns: ColumnArrays) -> Array:
    """Return the triangular factor of the gradients of the rows' losses; the first value of each row is the loss."""
    slopes = block[1:]
    if WEIGHT in columns:
        slopes *= columns[WEIGHT]
    return triangular_factor(slopes.T)


class Spreads(NamedTuple):
    """The minimum, the maximum and the weighted moments of each of several values per row.

    Attributes:
        weight: the total weight of the rows.
        squares: the sums of squares about the means.
    """

    low: Array
    high: Array
    weight: float
    means: Array
    squares: Array

    @property
    def typical_sizes(self) -> Array:
        """1, the root mean square and the standard deviation of each value, and the reciprocals of these."""
        variances = self.squares / self.weight
        typical = np.sqrt(np.concatenate((np.square(self.means) + variances, variances)))
        sizes = np.concatenate(([1.0], typical, 1 / typical))
        return sizes[np.isfinite(sizes) & (sizes > 0)]


def spreads(values: Array, columns: ColumnArrays) -> Spreads:
    """Return the spreads of the values of a block.

    The first value is subtracted before squaring, so that equal values have a spread of exactly 0.
    """
    weight, shifted = columns.get(WEIGHT, 1.0), values - values[:, :1]
    total = float(np.sum(weight)) if WEIGHT in columns else float(values.shape[-1])
    offsets = np.sum(shifted * weight, axis=1) / total
    squares = np.sum(weight * np.square(shifted - offsets[:, None]), axis=1)
    return Spreads(values.min(axis=1), values.max(axis=1), total, values[:, 0] + offsets, squares)


def column_spreads(names: tuple[str, ...], columns: ColumnArrays) -> Spreads:
    """Return the spreads of some columns of a block, without weights."""
    return spreads(np.array([columns[name] for name in names], dtype=np.float64), {})


def join_spreads(a: Spreads, b: Spreads) -> Spreads:
    """Return the spreads of two groups of rows together (Chan, Golub & LeVeque 1983)."""
    weight, gap = a.weight + b.weight, b.means - a.means
    share = b.weight / weight
    squares = a.squares + b.squares + gap * gap * a.weight * share
    return Spreads(np.minimum(a.low, b.low), np.maximum(a.high, b.high), weight, a.means + gap * share, squares)


def count_confusions(count: int, values: Array, _: ColumnArrays) -> NDArray[np.int64]:
    """Return the confusion matrix of a block: how many rows of each of `count` classes are assigned to each class.

    Args:
        count: the number of classes.
        values: the class and the scores of each row.
    """
    cells = values[0].astype(np.intp) * count + np.argmax(values[1:], axis=0)
    return np.bincount(cells, minlength=count * count).reshape(count, count)


@dataclass(frozen=True, slots=True)
class NonFiniteRows:
    """The rows of a block with a value that is not finite.

    Attributes:
        rows: the number of rows in the block.
        first: the first such row, counted from 0; the number of rows if there is none.
        count: the number of such rows.
    """

    rows: int
    first: int
    count: int


def find_non_finite(values: Array, _: ColumnArrays) -> NonFiniteRows:
    """Find the rows of a block with a value that is not finite."""
    rows, bad_rows = values.shape[-1], np.flatnonzero(~np.isfinite(values).all(axis=0))
    return NonFiniteRows(rows, int(np.append(bad_rows, rows)[0]), bad_rows.size)


def join_non_finite(a: NonFiniteRows, b: NonFiniteRows) -> NonFiniteRows:
    """Combine the results of two consecutive groups of rows."""
    return NonFiniteRows(a.rows + b.rows, a.first if a.count else a.rows + b.first, a.count + b.count)


# The smallest diagonal entry of R, for columns of length 1, down to which Cholesky factorization is used. That squares
# the condition number: at this limit R keeps 10 of 16 digits. Below it, Householder reflections are used instead.
_MIN_PIVOT = 1e-3
_MIN_COLUMN_NORM = 1e-140  # the square of a shorter column underflows and loses digits


def cholesky_factor(products: Array) -> Array | None:
    """Return the triangular factor R with RᵀR = AᵀA from the products of the columns of A, by Cholesky factorization.

    The last column, the residuals, may be linearly dependent on the columns before it.

    Args:
        products: the sums of products of every two columns, column by column down to the diagonal.

    Returns:
        An array of shape (columns, columns); None if the columns are too nearly dependent, or not finite.

    >>> cholesky_factor(np.array([4.0, 2.0, 10.0]))
    array([[2., 1.],
           [0., 3.]])
    """
    size = math.isqrt(2 * products.size)
    gram = np.zeros((size, size))
    lower = np.tril_indices(size)
    gram[lower] = products
    with ignore_float_errors():
        scale = np.sqrt(np.diag(gram))
        gram /= np.outer(scale, scale)
    if not np.isfinite(gram[lower]).all() or not _MIN_COLUMN_NORM < scale.min() <= scale.max() < np.inf:
        return None
    try:
        root = np.linalg.cholesky(gram[:-1, :-1])  # which reads the entries below the diagonal
    except np.linalg.LinAlgError:
        return None
    if np.diag(root).min() < _MIN_PIVOT:
        return None
    factor = np.zeros((size, size))
    factor[:-1, :-1] = root.T
    factor[:-1, -1] = np.linalg.solve(root, gram[-1, :-1])
    factor[-1, -1] = np.sqrt(max(0.0, 1 - float(np.sum(np.square(factor[:-1, -1])))))
    return factor * scale


RowCounts = NDArray[np.bool_] | NDArray[np.uint8]


class RowSelection:
    """A selection among many rows, stored as a bit or a count (one byte) per row, read chunk by chunk.

    Args:
        times: a boolean mask, or how often each row is selected.
        chunk: the number of rows in a chunk, a multiple of 8.

    Attributes:
        rows: the number of selected rows.

    >>> some = RowSelection(np.arange(100) % 3 == 0, 16)
    >>> some.rows, some.chunk_rows(1).tolist(), some.row_numbers(np.array([33, 6])).tolist()
    (34, [18, 21, 24, 27, 30], [99, 18])
    >>> RowSelection(np.array([0, 2, 1], np.uint8), 8).chunk_rows(0).tolist()
    [1, 1, 2]
    """

    def __init__(self, times: RowCounts, chunk: int) -> None:
        self._is_mask = times.dtype == np.bool_
        self._packed: NDArray[np.uint8] = np.packbits(times) if self._is_mask else times.view(np.uint8)
        self._chunk = chunk
        starts = range(0, len(times), chunk)
        self._ends = np.cumsum([int(np.sum(times[start : start + chunk], dtype=np.int64)) for start in starts])
        self.rows = int(self._ends[-1])

    def chunk_rows(self, number: int) -> NDArray[np.intp]:
        """Return the row numbers, among all rows, of the selected rows of a chunk, in order."""
        start = number * self._chunk
        if not self._is_mask:
            times = self._packed[start : start + self._chunk]
            return np.repeat(np.arange(start, start + len(times)), times)
        return np.flatnonzero(np.unpackbits(self._packed[start // 8 : (start + self._chunk) // 8])) + start

    def row_numbers(self, positions: NDArray[np.integer]) -> NDArray[np.intp]:
        """Return the row numbers, among all rows, of selected rows given by their positions in the selection."""
        order = np.argsort(positions)
        ordered = positions[order]
        numbers = np.empty(len(positions), np.intp)
        parts = np.searchsorted(ordered, [0, *self._ends])
        for chunk in np.flatnonzero(np.diff(parts)).tolist():
            in_chunk = slice(parts[chunk], parts[chunk + 1])
            before = int(self._ends[chunk - 1]) if chunk else 0
            numbers[order[in_chunk]] = self.chunk_rows(chunk)[ordered[in_chunk] - before]
        return numbers


MAX_COPIED_ROWS = 1 << 20  # more rows than these are not copied: it would take too much memory


class ChunkedRows(Rows):
    """Rows that this process reads chunk by chunk.

    Attributes:
        chunk_rows: the number of rows of a chunk on request, which is 2^k maximal blocks.
    """

    chunk_rows: int

    @abc.abstractmethod
    def iter_chunks(self, names: Set[str]) -> Generator[tuple[ColumnArrays, int]]:
        """Yield columns of all rows in order, chunk by chunk, each with its number of rows. A chunk is valid until the
        next one, and may have more columns than requested.

        Args:
            names: the names of the columns, at least one.
        """

    def fold(self, task: Task[T]) -> T:
        """Return the combined results of a task for all chunks."""
        names = task.names & self.names
        if not names:  # a task that reads no column is still computed for all rows
            parts = block_slices(self.rows, self.chunk_rows)
            return fold((task({}, part.stop - part.start) for part in parts), task.combine)
        with contextlib.closing(self.iter_chunks(names)) as chunks:
            return fold((task(columns, rows) for columns, rows in chunks), task.combine)

    def select_rows(self, rows: RowIndex) -> Rows:
        """Return some of the rows. Those selected by a mask or counts are not copied."""
        if not isinstance(rows, slice) and rows.dtype in (np.bool_, np.uint8):
            return SelectedRows(self, cast(RowCounts, rows))
        return super().select_rows(rows)


_GATHER_ROWS = 1 << 17  # rows that are gathered at a time: 1 MB per column, and a power of two of blocks


class MemoryRows(ChunkedRows):
    """The rows of a table in memory. Tasks see them as a single chunk."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._columns = table.columns
        self.rows, self.names, self.dropped = table.rows, frozenset(table.columns), table.dropped
        self.chunk_rows = _GATHER_ROWS

    def fold(self, task: Task[T]) -> T:
        """Return the result of a task for all rows, which are a single chunk."""
        return task(self._columns, self.rows)

    def iter_chunks(self, names: Set[str]) -> Generator[tuple[ColumnArrays, int]]:  # noqa: ARG002
        """Yield all columns of the rows, chunk by chunk."""
        for part in block_slices(self.rows, self.chunk_rows):
            yield {name: column[..., part] for name, column in self._columns.items()}, part.stop - part.start

    def gather(self, numbers: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return all columns of the rows with these numbers."""
        # `take` gives contiguous arrays, unlike indexing: bits of matrix products depend on it.
        return {name: np.take(column, numbers, axis=-1) for name, column in self._columns.items()}

    def select_rows(self, rows: RowIndex) -> Rows:
        """Return some of the rows. A slice shares memory with these rows; a short table is copied."""
        if isinstance(rows, slice):
            return MemoryRows(self._table.select_rows(rows))
        return Rows.select_rows(self, rows) if self.rows <= MAX_COPIED_ROWS else super().select_rows(rows)

    def run_epoch(self, kernel: EpochKernel, epoch: EpochRequest, generator: np.random.Generator) -> float:
        """Run an epoch over the rows, in an order that the generator draws; return the mean loss of the batches."""
        orders = epoch_orders(generator, self.rows, epoch.batch_rows)
        parts = ((self._columns, order, self.rows if order is None else len(order)) for order in orders)
        return self._run_parts(kernel, epoch, parts)

    def to_table(self) -> Table:
        """Return the table."""
        return self._table


class SelectedRows(ChunkedRows):
    """A selection among many rows, which are selected chunk by chunk at every pass.

    Args:
        rows: all rows.
        times: a boolean mask, or how often each row is selected.
    """

    def __init__(self, rows: ChunkedRows, times: RowCounts) -> None:
        self._source = rows
        self._selection = RowSelection(times, rows.chunk_rows)
        self.rows, self.names, self.dropped = self._selection.rows, rows.names, rows.dropped
        self.chunk_rows, self.gathered_rows = rows.chunk_rows, rows.gathered_rows

    def iter_chunks(self, names: Set[str]) -> Generator[tuple[ColumnArrays, int]]:
        """Yield the selected rows, chunk by chunk."""
        size = self.chunk_rows
        chunks = Rechunker(size)
        with contextlib.closing(self._source.iter_chunks(names)) as source:
            for number, (columns, _) in enumerate(source):
                selected = self._selection.chunk_rows(number) - number * size
                selected_columns = {name: np.take(columns[name], selected, axis=-1) for name in names}
                for chunk in chunks.add(selected_columns, len(selected)):
                    yield chunk, size
        yield from chunks.remainder()

    def gather(self, numbers: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return all columns of the selected rows with these numbers."""
        return self._source.gather(self._selection.row_numbers(numbers))
