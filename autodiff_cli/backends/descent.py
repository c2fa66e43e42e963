"""Gradient methods step by step, on kernels for sums: what every backend can do."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.fold import fold, slices
from autodiff_cli.backends.protocol import (
    Array,
    Backend,
    Columns,
    Descent,
    Point,
    RowGraphs,
    State,
    SumKernel,
    Tell,
)
from autodiff_cli.backends.update import GRADIENT, RATE, STEP, THETA, Update
from autodiff_cli.graph.op import Shape
from autodiff_cli.numbers.arrays.table import quiet

# Up to so many rows every order is as likely as any other. Of more, stretches of rows are drawn, so that memory is read
# line by line, and the rows of a window of stretches are mixed: all windows of an epoch in the same way.
MIXED_FREELY = 2**18
_STRETCH = 32
_WINDOW = 8192

_PART = 2**18  # rows of an order that are there at a time, where there are more
_PAUSE = 0.1  # seconds between two reports of how far an epoch is


def orders(generator: np.random.Generator, rows: int, batch: int, most: int = _PART) -> Iterator[NDArray[Any] | None]:
    """The order in which an epoch goes through the rows, in parts of whole batches, about `most` rows each.

    Every backend takes this one, so that all agree.

    Of many rows, each batch has rows from all over the data; but those less than 32 that make no whole stretch are
    always among the last of an epoch, and not every order is possible. Where one batch has all rows their order says
    nothing: None is as they lie.

    >>> generator = np.random.default_rng(0)
    >>> [sorted(part.tolist()) for part in orders(generator, 4, 2)], [*orders(generator, 4, 4)]
    ([[0, 1, 2, 3]], [None])
    """
    if batch >= rows:
        yield None
    elif rows <= MIXED_FREELY:
        yield generator.permutation(rows)
    else:
        order = LongOrder(generator, rows)
        yield from (order.part(part.start, part.stop) for part in parts_of_batches(rows, batch, most))


def parts_of_batches(rows: int, batch: int, most: int) -> Generator[slice]:
    """Rows in parts of whole batches, two at least, and about so many rows each.

    >>> [*parts_of_batches(100, 20, 50)], [*parts_of_batches(100, 30, 10)]
    ([slice(0, 40, None), slice(40, 100, None)], [slice(0, 60, None), slice(60, 100, None)])
    """
    size = max(2, most // batch) * batch
    start = 0
    while start < rows:
        end = rows if rows - start - size <= batch else start + size
        yield slice(start, end)
        start = end


class LongOrder:
    """An order of more than `MIXED_FREELY` rows, of which any part can be had without the others."""

    def __init__(self, generator: np.random.Generator, rows: int) -> None:
        kind = np.dtype(np.int32 if rows < 2**31 else np.int64)
        self._begins = generator.permutation(rows // _STRETCH).astype(kind)
        self._begins *= kind.type(_STRETCH)
        self._stretches = _WINDOW // _STRETCH
        mixed = len(self._begins) // self._stretches * self._stretches
        within = generator.permutation(_WINDOW)
        self._which, self._inside = within // _STRETCH, (within % _STRETCH).astype(kind)
        stretched = (self._begins[mixed:, None] + np.arange(_STRETCH, dtype=kind)).ravel()
        rest = np.concatenate((stretched, np.arange(rows // _STRETCH * _STRETCH, rows, dtype=kind)))
        generator.shuffle(rest)
        self._rest: NDArray[Any] = rest
        self._mixed = mixed * _STRETCH  # rows in windows

    def part(self, begin: int, end: int) -> NDArray[Any]:
        """The rows from one place of the order up to another."""
        first, last = begin // _WINDOW, -(-min(end, self._mixed) // _WINDOW)
        order = self._rest[max(0, begin - self._mixed) : max(0, end - self._mixed)]
        if first >= last:
            return order
        starts = self._begins[first * self._stretches : last * self._stretches].reshape(-1, self._stretches)
        found: NDArray[Any] = np.empty((last - first) * _WINDOW + len(order), starts.dtype)
        windows = found[: (last - first) * _WINDOW].reshape(-1, _WINDOW)
        np.take(starts, self._which, axis=1, out=windows, mode="clip")
        windows += self._inside
        found[len(found) - len(order) :] = order
        return found[begin - first * _WINDOW : end - first * _WINDOW]


def total(weights: NDArray[Any]) -> float:
    """The sum of the weights of rows, block by block in the order of `fold`.

    >>> total(np.ones(20_000))
    20000.0
    """
    return fold((float(np.sum(weights[part])) for part in slices(len(weights), _WINDOW)), operator.add)


def mean_loss(losses: Sequence[float] | Array) -> float:
    """The mean of the batches' losses; nan where no batch said anything.

    >>> mean_loss([1.0, 3.0]), mean_loss([])
    (2.0, nan)
    """
    with quiet():
        return float(np.mean(losses)) if len(losses) else math.nan


def views(theta: Array, parameters: Mapping[str, Shape]) -> dict[str, Any]:
    """The parameters by name: numbers, and arrays in the memory of `theta`, where they lie one after the other.

    >>> views(np.array([1.0, 2.0, 3.0]), {"a": (), "v": (2,)})["v"]
    array([2., 3.])
    """
    found: dict[str, Any] = {}
    start = 0
    for name, shape in parameters.items():
        size = math.prod(shape)
        found[name] = theta[start : start + size].reshape(shape) if shape else theta[start]
        start += size
    return found


def clipped(gradient: Array, length: float | None) -> Array:
    """A gradient, shortened to a length if it is longer: Pascanu, Mikolov & Bengio 2013, arXiv 1211.5063.

    >>> clipped(np.array([3.0, 4.0]), 1.0).round(12), clipped(np.array([0.3, 0.4]), 1.0)
    (array([0.6, 0.8]), array([0.3, 0.4]))
    """
    if length is None:
        return gradient
    largest = float(np.abs(gradient).max(initial=0.0))
    if not 0 < largest < math.inf:
        return gradient
    norm = largest * float(np.linalg.norm(gradient / largest))  # squares may overflow
    return gradient * (length / norm) if norm > length else gradient


class Stepper:
    """Takes single steps: the numbers of the parameters are the rows of its kernel.

    >>> from autodiff_cli.backends.choice import backend
    >>> from autodiff_cli.graph.node import variable
    >>> step = Update(variable("theta") - variable("rate") * variable("gradient"))
    >>> state = State.begun(np.array([1.0, 2.0]), step)
    >>> Stepper(backend(), step).step(state, 0.5, np.array([1.0, 4.0]))
    >>> state.theta
    array([0.5, 0. ])
    """

    def __init__(self, backend: Backend, update: Update) -> None:
        names = {THETA, GRADIENT, *update.memory}
        self._kernel = backend.rows(RowGraphs([update.theta, *update.memory.values()], names))
        self._names = (THETA, *update.memory)
        self._moved = np.empty((len(self._names), 0))

    def step(self, state: State, rate: float, gradient: Array) -> None:
        """Move a state on."""
        state.steps += 1
        prepared = self._kernel.prepare({RATE: rate, STEP: float(state.steps)})
        if self._moved.shape != state.numbers.shape:
            self._moved = np.empty_like(state.numbers)
        columns = dict(zip(self._names, state.numbers, strict=True))
        columns[GRADIENT] = gradient
        self._kernel.write(prepared, columns, self._moved)
        state.numbers[...] = self._moved


class EpochLoop:
    """Epochs as a loop over batches: see `EpochKernel`."""

    def __init__(self, backend: Backend, descent: Descent, recompute_every: int | None = None) -> None:
        self._sums = backend.sums(descent.loss, recompute_every=recompute_every)
        self._stepper = Stepper(backend, descent.update)
        self._weight = descent.weight
        self._clip_norm = descent.clip_norm
        self._shapes = {name: descent.loss.leaves.get(name, ()) for name in descent.parameters}

    def run(
        self,
        state: State,
        rate: float,
        point: Point,
        columns: Columns,
        batch_rows: int,
        order: NDArray[Any] | None = None,
        tell: Tell | None = None,
        losses: list[float] | None = None,
    ) -> float:
        """See `EpochKernel.run`."""
        rows = next(iter(columns.values())).shape[-1] if order is None else len(order)
        if order is None and 0 < rows <= batch_rows:
            weight = float(rows) if self._weight is None else total(columns[self._weight])
            return self.whole(state, rate, point, weight, lambda kernel, at: kernel.sums(at, columns, rows))
        names = self._sums.names.intersection(columns)
        drawn = {name: columns[name] if order is None else columns[name][..., order] for name in names}
        losses = [] if losses is None else losses
        due = time.monotonic() + _PAUSE
        for part in slices(rows, batch_rows):
            batch = {name: column[..., part] for name, column in drawn.items()}
            weight = float(part.stop - part.start) if self._weight is None else float(np.sum(batch[self._weight]))
            if not weight:
                continue  # it says nothing
            sums = self._sums.sums({**point, **views(state.theta, self._shapes)}, batch, part.stop - part.start)
            losses.append(self._stepped(state, rate, sums, weight))
            if tell is not None and time.monotonic() > due and part.stop < rows:
                tell(part.stop / rows, mean_loss(losses))
                due = time.monotonic() + _PAUSE
        return mean_loss(losses)

    def whole(
        self, state: State, rate: float, point: Point, weight: float, sums: Callable[[SumKernel, Point], Array]
    ) -> float:
        """See `EpochKernel.whole`."""
        if not weight:
            return math.nan
        found = sums(self._sums, {**point, **views(state.theta, self._shapes)})
        return self._stepped(state, rate, found, weight)

    def _stepped(self, state: State, rate: float, sums: Array, weight: float) -> float:
        """Take a step down the mean; the loss before it."""
        with quiet():
            mean = sums / weight
        self._stepper.step(state, rate, clipped(mean[1:], self._clip_norm))
        return float(mean[0])
