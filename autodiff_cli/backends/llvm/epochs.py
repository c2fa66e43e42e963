"""Whole epochs of a gradient method in compiled code: see `EpochKernel`."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.algebra.table import share
from autodiff_cli.backends.descent import mean_loss
from autodiff_cli.backends.llvm.machine.binding import Bound
from autodiff_cli.backends.llvm.machine.calls import Calls
from autodiff_cli.backends.llvm.machine.compile import Machine, compiled
from autodiff_cli.backends.llvm.plans.items import Plan
from autodiff_cli.backends.llvm.plans.layout import ALIGNMENT, laid_out
from autodiff_cli.backends.llvm.plans.nests import nests
from autodiff_cli.backends.llvm.plans.plan import on_grid, planned
from autodiff_cli.backends.llvm.target import Processor
from autodiff_cli.backends.llvm.writing.epoch import JOB, EpochPlan, Placed, epoch_written
from autodiff_cli.backends.protocol import Columns, Descent, EpochKernel, Point, RowGraphs, State, SumKernel, Tell
from autodiff_cli.backends.update import GRADIENT, RATE, STEP, THETA
from autodiff_cli.graph.node import variable
from autodiff_cli.graph.tape import rebuild, topological
from autodiff_cli.numbers.arrays.table import quiet

Array = NDArray[np.float64]

_LONGEST = 8192  # rows of a batch: of larger ones the sums are taken by all threads
_DRAWN = 2**18  # bytes of gathered rows that stay in a near cache
_LONG = 0.05  # seconds of a call into compiled code, about: after it comes the turn of Ctrl-C
_DIVISOR, _SHRINK = "weight of a batch", "factor of a gradient"  # leaves that no text can name


class CompiledEpochs:
    """Epochs on one thread, since each step waits for the one before.

    Args:
        otherwise: runs epochs of batches so large that the sums over their rows are worth several threads.
    """

    def __init__(self, descent: Descent, target: Processor, otherwise: EpochKernel) -> None:
        self._otherwise = otherwise
        self._target = target
        self._lock = threading.Lock()
        loss = _placed(_loss_plan(descent), target)
        step = _placed(_step_plan(descent), target)
        parameters = sum(math.prod(descent.loss.leaves.get(name, ())) for name in descent.parameters)
        others = loss.plan.points[len(descent.parameters) :]
        self._others = [leaf.name for leaf in others]
        places = {leaf.name: leaf.place for leaf in step.plan.points}
        self._rate = places.get(RATE)
        self._plan = EpochPlan(
            loss,
            step,
            weight=None if descent.weight is None else descent.loss.numbers,
            counted=places.get(STEP),
            divisor=places.get(_DIVISOR),
            shrink=places.get(_SHRINK),
            parameters=parameters,
            width=on_grid(parameters),
            memory=len(descent.update.memory),
        )
        self._machines: dict[tuple[str, ...], Machine] = {}
        self._calls = [Calls(placed.plan, placed.layout.strip) for placed in (loss, step)]
        width, memory = self._plan.width, self._plan.memory
        self._point = _numbers(width + sum(math.prod(leaf.shape) for leaf in others))
        self._memory = _numbers(memory * width)
        self._next = _numbers((1 + memory) * width)
        self._sums = _numbers(loss.plan.numbers + width)
        self._step_point = _numbers(len(step.plan.points))
        self._memories = [_numbers(placed.layout.size // 8) for placed in (loss, step)]
        for memory_of, calls in zip(self._memories, self._calls, strict=True):
            memory_of.view(np.uint64)[0] = calls.address
        rows = {THETA: self._point, GRADIENT: self._sums[1:]}
        rows |= {name: self._memory[k * width :] for k, name in enumerate(descent.update.memory)}
        self._step_columns = np.array([(rows[leaf.name].ctypes.data, 0) for leaf in step.plan.columns], np.int64)
        self._job = np.zeros(len(JOB), np.uint64)
        self._set(point=self._point, memory=self._memory, next=self._next, sums=self._sums)
        self._set(step_point=self._step_point, step_columns=self._step_columns, step_memory=self._memories[1])
        self._job.view(np.float64)[JOB.index("longest")] = descent.clip_norm or 0.0

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
        rows = next(iter(columns.values())).shape[-1]
        if min(batch_rows, rows if order is None else len(order)) > _LONGEST or rows >= 2**32:
            return self._otherwise.run(state, rate, point, columns, batch_rows, order, tell, losses)
        with self._lock, quiet():
            bound = Bound(self._plan.loss.plan.columns, columns, rows)
            run = self._machine(bound.types).function("epoch")
            self._enter(state, rate, point)
            try:
                order = np.arange(rows, dtype=np.uint32) if order is None else order.astype(np.uint32)
                batch = max(1, min(batch_rows, len(order)))
                return mean_loss(self._run(run, bound, order, batch, tell, [] if losses is None else losses))
            finally:
                self._leave(state)

    def whole(
        self, state: State, rate: float, point: Point, weight: float, sums: Callable[[SumKernel, Point], Array]
    ) -> float:
        """See `EpochKernel.whole`."""
        return self._otherwise.whole(state, rate, point, weight, sums)

    def _run(
        self, run: Any, bound: Bound, order: NDArray[Any], batch: int, tell: Tell | None, before: list[float]
    ) -> list[float]:
        rows = len(order)
        window, drawn, _kept = self._space(bound, batch)
        losses = np.empty(-(-rows // batch))
        self._set(order=order, columns=bound.table, drawn=drawn, losses=losses)
        self._set(batch=batch, window=window, count=0)
        begin, part = 0, window
        while begin < rows:
            end = min(begin + part, rows)
            self._set(begin=begin, end=end)
            begun = time.perf_counter()
            with self._calls[0].uninterrupted(_nothing), self._calls[1].uninterrupted(_nothing):
                run(self._job.ctypes.data, self._memories[0].ctypes.data)
            for calls in self._calls:
                calls.check()
            pace = max(1e-9, (time.perf_counter() - begun) / (end - begin))
            begin, part = end, max(1, int(_LONG / pace) // window) * window
            if tell is not None and begin < rows:
                tell(begin / rows, mean_loss(losses[: self._count()]))
        before += losses[: self._count()].tolist()
        return before

    def _space(self, bound: Bound, batch: int) -> tuple[int, NDArray[np.int64], list[Array]]:
        """How many rows are gathered at a time, the table of the columns that they go to, and the memory of these."""
        leaves = self._plan.loss.plan.columns
        sizes = [int(letters[1:]) for letters in bound.types]
        counts = [math.prod(leaf.shape) for leaf in leaves]
        bytes_of_row = sum(size * count for size, count in zip(sizes, counts, strict=True))
        window = max(1, _DRAWN // max(1, bytes_of_row) // batch) * batch
        distances = [-(-window * size // ALIGNMENT) * ALIGNMENT for size in sizes]
        kept = [_numbers(distance * count // 8) for distance, count in zip(distances, counts, strict=True)]
        table = [(array.ctypes.data, distance) for array, distance in zip(kept, distances, strict=True)]
        return window, np.array(table, np.int64), kept

    def _enter(self, state: State, rate: float, point: Point) -> None:
        width, count = self._plan.width, self._plan.parameters
        self._point[:count] = state.numbers[0]
        self._memory.reshape(-1, width)[:, :count] = state.numbers[1:]
        if self._others:
            self._point[width:] = np.concatenate([np.ravel(point[name]) for name in self._others])
        if self._rate is not None:
            self._step_point[self._rate] = rate
        if self._plan.counted is not None:
            self._step_point[self._plan.counted] = state.steps

    def _leave(self, state: State) -> None:
        width, count = self._plan.width, self._plan.parameters
        state.numbers[0] = self._point[:count]
        state.numbers[1:] = self._memory.reshape(-1, width)[:, :count]
        state.steps += self._count()

    def _count(self) -> int:
        """How many steps the job has taken."""
        return int(self._job[JOB.index("count")])

    def _machine(self, types: tuple[str, ...]) -> Machine:
        if types not in self._machines:
            self._machines[types] = compiled(partial(epoch_written, self._target, self._plan, types), self._target)
        return self._machines[types]

    def _set(self, **fields: NDArray[Any] | int) -> None:
        for name, value in fields.items():
            self._job[JOB.index(name)] = value if isinstance(value, int) else value.ctypes.data


def _nothing() -> None:
    """A part of an epoch is not cut short."""


def _placed(plan: Plan, target: Processor) -> Placed:
    found = nests(plan)
    return Placed(plan, found, laid_out(plan, found, target.width))


def _loss_plan(descent: Descent) -> Plan:
    """Of the sums of the loss and its slopes, and of the weights."""
    graphs, weights = descent.loss, [] if descent.weight is None else [variable(descent.weight)]
    outputs = share([*graphs.outputs, *weights])
    sizes = (*graphs.sizes, *[() for _ in weights])
    return planned(RowGraphs(outputs, graphs.columns, graphs.leaves, sizes), summed=True, first=descent.parameters)


def _step_plan(descent: Descent) -> Plan:
    """Of the update, on sums of slopes in place of their mean."""
    update = descent.update
    outputs = share([update.theta, *update.memory.values()])
    mean = variable(GRADIENT) / variable(_DIVISOR)
    if descent.clip_norm is not None:
        mean = mean * variable(_SHRINK)
    gradient = {node: mean for node in topological(outputs) if node.is_input and node.text == GRADIENT}
    graphs = RowGraphs(rebuild(outputs, gradient), {THETA, GRADIENT, *update.memory})
    return planned(graphs, summed=False)


def _numbers(count: int) -> Array:
    """Zeros, from the start of a line of the cache."""
    space = np.zeros(count + ALIGNMENT // 8)
    start = -space.ctypes.data % ALIGNMENT // 8
    return space[start : start + count]
