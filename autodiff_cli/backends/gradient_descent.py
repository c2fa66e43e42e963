"""Minibatch gradient descent: the order of rows in an epoch, and epochs as a loop over batches that works on every
backend.
"""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, ignore_float_errors
from autodiff_cli.backends import protocol
from autodiff_cli.backends.protocol import BatchLosses, EpochRequest, RowOrder
from autodiff_cli.backends.reductions import block_slices, fold
from autodiff_cli.graph.node import Shape

MAX_FULL_SHUFFLE_ROWS = 2**18  # a full permutation of more rows reads memory in random order, which is slow
ORDER_ROWS = 2**18  # rows of an order that are in memory at a time
_RUN_ROWS = 32  # consecutive rows that stay together, for whole cache lines to be read
_WINDOW_ROWS = 8192  # rows that are shuffled among each other, small enough for a cache
_WINDOW_RUNS = _WINDOW_ROWS // _RUN_ROWS
_SUM_BLOCK_ROWS = 8192  # rows whose weights are summed at once, as in the blocks of kernels
_PROGRESS_SECONDS = 0.1  # seconds between two progress reports


def epoch_orders(
    generator: np.random.Generator, rows: int, batch: int, chunk_rows: int = ORDER_ROWS
) -> Iterator[NDArray[Any] | None]:
    """Yield the order of rows in an epoch, in parts of whole batches with about `chunk_rows` rows each.

    All backends use these orders, so that their results agree. Up to `MAX_FULL_SHUFFLE_ROWS` rows every permutation is
    equally likely. With more rows, each batch still has rows from all parts of the data, but not every order is
    possible. Rows that do not fill a complete run always come near the end of an epoch. If one batch has all rows,
    their order is irrelevant: None stands for the stored order.

    >>> generator = np.random.default_rng(0)
    >>> [sorted(part.tolist()) for part in epoch_orders(generator, 4, 2)], [*epoch_orders(generator, 4, 4)]
    ([[0, 1, 2, 3]], [None])
    """
    if batch >= rows:
        yield None
    elif rows <= MAX_FULL_SHUFFLE_ROWS:
        yield generator.permutation(rows)
    else:
        order = WindowedShuffle(generator, rows)
        yield from (order.rows_between(part.start, part.stop) for part in whole_batch_slices(rows, batch, chunk_rows))


def whole_batch_slices(rows: int, batch: int, target_rows: int) -> Generator[slice]:
    """Yield slices of rows that contain whole batches, at least two, and about `target_rows` rows each.

    >>> [*whole_batch_slices(100, 20, 50)], [*whole_batch_slices(100, 30, 10)]
    ([slice(0, 40, None), slice(40, 100, None)], [slice(0, 60, None), slice(60, 100, None)])
    """
    size = max(2, target_rows // batch) * batch
    start = 0
    while start < rows:
        end = rows if rows - start - size <= batch else start + size
        yield slice(start, end)
        start = end


class WindowedShuffle:
    """A random order of many rows; any part of it can be computed alone.

    Runs of consecutive rows are drawn at random, so that memory is read line by line. The rows of a window of runs are
    then shuffled, with one permutation for all windows of an epoch.

    Args:
        generator: the random generator.
        rows: the number of rows, more than `MAX_FULL_SHUFFLE_ROWS`.
    """

    def __init__(self, generator: np.random.Generator, rows: int) -> None:
        dtype = np.dtype(np.int32 if rows < 2**31 else np.int64)
        self._run_starts = generator.permutation(rows // _RUN_ROWS).astype(dtype)
        self._run_starts *= dtype.type(_RUN_ROWS)
        windowed_runs = len(self._run_starts) // _WINDOW_RUNS * _WINDOW_RUNS
        within = generator.permutation(_WINDOW_ROWS)
        self._window_runs, self._window_offsets = within // _RUN_ROWS, (within % _RUN_ROWS).astype(dtype)
        leftover_runs = (self._run_starts[windowed_runs:, None] + np.arange(_RUN_ROWS, dtype=dtype)).ravel()
        leftover = np.concatenate((leftover_runs, np.arange(rows // _RUN_ROWS * _RUN_ROWS, rows, dtype=dtype)))
        generator.shuffle(leftover)
        self._remaining_rows: NDArray[Any] = leftover
        self._windowed_rows = windowed_runs * _RUN_ROWS

    def rows_between(self, begin: int, end: int) -> NDArray[Any]:
        """Return the row numbers at positions `begin` to `end` of the order."""
        first, last = begin // _WINDOW_ROWS, -(-min(end, self._windowed_rows) // _WINDOW_ROWS)
        leftover = self._remaining_rows[max(0, begin - self._windowed_rows) : max(0, end - self._windowed_rows)]
        if first >= last:
            return leftover
        starts = self._run_starts[first * _WINDOW_RUNS : last * _WINDOW_RUNS].reshape(-1, _WINDOW_RUNS)
        rows: NDArray[Any] = np.empty((last - first) * _WINDOW_ROWS + len(leftover), starts.dtype)
        windows = rows[: (last - first) * _WINDOW_ROWS].reshape(-1, _WINDOW_ROWS)
        np.take(starts, self._window_runs, axis=1, out=windows, mode="clip")
        windows += self._window_offsets
        rows[len(rows) - len(leftover) :] = leftover
        return rows[begin - first * _WINDOW_ROWS : end - first * _WINDOW_ROWS]


def total_weight(weights: NDArray[Any]) -> float:
    """Return the sum of the weights of rows, computed block by block in the order of `fold`.

    >>> total_weight(np.ones(20_000))
    20000.0
    """
    return fold((float(np.sum(weights[part])) for part in block_slices(len(weights), _SUM_BLOCK_ROWS)), operator.add)


def mean_loss(losses: Sequence[float] | Array) -> float:
    """Return the mean of the batches' losses; nan if there are none.

    >>> mean_loss([1.0, 3.0]), mean_loss([])
    (2.0, nan)
    """
    with ignore_float_errors():
        return float(np.mean(losses)) if len(losses) else math.nan


def parameter_views(theta: Array, parameters: Mapping[str, Shape]) -> dict[str, Any]:
    """Return the parameters by name: numbers, and views of the arrays that `theta` contains one after the other.

    >>> parameter_views(np.array([1.0, 2.0, 3.0]), {"a": (), "v": (2,)})["v"]
    array([2., 3.])
    """
    views: dict[str, Any] = {}
    start = 0
    for name, shape in parameters.items():
        size = math.prod(shape)
        views[name] = theta[start : start + size].reshape(shape) if shape else theta[start]
        start += size
    return views


def clip_gradient(gradient: Array, length: float | None) -> Array:
    """Return a gradient, shortened to a length if it is longer (Pascanu, Mikolov & Bengio 2013, arXiv 1211.5063).

    >>> clip_gradient(np.array([3.0, 4.0]), 1.0).round(12), clip_gradient(np.array([0.3, 0.4]), 1.0)
    (array([0.6, 0.8]), array([0.3, 0.4]))
    """
    if length is None:
        return gradient
    largest = float(np.abs(gradient).max(initial=0.0))
    if not 0 < largest < math.inf:
        return gradient
    norm = largest * float(np.linalg.norm(gradient / largest))  # scaled, since squares may overflow
    return gradient * (length / norm) if norm > length else gradient


class Stepper:
    """Takes single steps of a gradient method, with a kernel whose rows are the parameters.

    >>> from autodiff_cli.backends.selection import make_backend
    >>> from autodiff_cli.graph.node import variable
    >>> step = protocol.Update(variable("theta") - variable("rate") * variable("gradient"))
    >>> state = protocol.OptimizerState.initial(np.array([1.0, 2.0]), step)
    >>> Stepper(make_backend(), step).step(state, 0.5, np.array([1.0, 4.0]))
    >>> state.theta
    array([0.5, 0. ])
    """

    def __init__(self, backend: protocol.Backend, update: protocol.Update) -> None:
        names = {protocol.THETA, protocol.GRADIENT, *update.accumulators}
        self._kernel = backend.row_kernel(protocol.RowGraphs([update.theta, *update.accumulators.values()], names))
        self._names = (protocol.THETA, *update.accumulators)
        self._next_values = np.empty((len(self._names), 0))

    def step(self, state: protocol.OptimizerState, learning_rate: float, gradient: Array) -> None:
        """Update a state in place by one step."""
        state.step_count += 1
        prepared = self._kernel.prepare({protocol.RATE: learning_rate, protocol.STEP: float(state.step_count)})
        if self._next_values.shape != state.values.shape:
            self._next_values = np.empty_like(state.values)
        columns = dict(zip(self._names, state.values, strict=True))
        columns[protocol.GRADIENT] = gradient
        self._kernel.write(prepared, columns, self._next_values)
        state.values[...] = self._next_values


class EpochLoop:
    """Epochs as a Python loop over batches: an `EpochKernel` for any backend.

    Args:
        backend: makes the kernels of the loss and of the step.
        descent: the loss and the step.
    """

    def __init__(self, backend: protocol.Backend, descent: protocol.GradientDescent) -> None:
        self._sum_kernel = backend.sum_kernel(descent.loss)
        self._stepper = Stepper(backend, descent.update)
        self._weight_column = descent.weight_column
        self._clip_norm = descent.clip_norm
        self._shapes = {name: descent.loss.leaf_shapes.get(name, ()) for name in descent.parameters}

    def run(
        self, epoch: EpochRequest, columns: protocol.Columns, order: RowOrder = None, losses: BatchLosses = None
    ) -> float:
        """Take one step per batch and return the mean loss; see `EpochKernel.run`."""
        rows = next(iter(columns.values())).shape[-1] if order is None else len(order)
        names = self._sum_kernel.names.intersection(columns)
        ordered_columns = {name: columns[name] if order is None else columns[name][..., order] for name in names}
        losses = [] if losses is None else losses
        next_report = time.monotonic() + _PROGRESS_SECONDS
        for part in block_slices(rows, epoch.batch_rows):
            batch = {name: column[..., part] for name, column in ordered_columns.items()}
            count, weights = part.stop - part.start, self._weight_column
            weight = float(count) if weights is None else total_weight(batch[weights])
            losses.append(self._take_step(epoch, self._sum_kernel.sums(self._point(epoch), batch, count), weight))
            if epoch.on_progress is not None and time.monotonic() > next_report and part.stop < rows:
                epoch.on_progress(part.stop / rows, mean_loss(losses))
                next_report = time.monotonic() + _PROGRESS_SECONDS
        return mean_loss(losses)

    def run_full_batch(
        self, epoch: EpochRequest, weight: float, sums: Callable[[protocol.SumKernel, protocol.Point], Array]
    ) -> float:
        """Take one step over all rows and return the loss before it; see `EpochKernel.run_full_batch`."""
        return self._take_step(epoch, sums(self._sum_kernel, self._point(epoch)), weight)

    def _point(self, epoch: EpochRequest) -> dict[str, Any]:
        return {**epoch.point, **parameter_views(epoch.state.theta, self._shapes)}

    def _take_step(self, epoch: EpochRequest, sums: Array, weight: float) -> float:
        """Take a step along the mean gradient and return the mean loss before it."""
        with ignore_float_errors():
            mean = sums / weight
        self._stepper.step(epoch.state, epoch.learning_rate, clip_gradient(mean[1:], self._clip_norm))
        return float(mean[0])
