"""The backend: graphs become compiled code when they are first run, for the types that the columns have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.descent import EpochLoop
from autodiff_cli.backends.fold import fold
from autodiff_cli.backends.llvm.epochs import CompiledEpochs
from autodiff_cli.backends.llvm.machine.runner import Runner
from autodiff_cli.backends.llvm.machine.threads import cores
from autodiff_cli.backends.llvm.plans.items import Plan, Stage
from autodiff_cli.backends.llvm.plans.layout import is_total
from autodiff_cli.backends.llvm.plans.plan import planned
from autodiff_cli.backends.llvm.target import Processor, host
from autodiff_cli.backends.protocol import Columns, Descent, EpochKernel, Point, RowGraphs
from autodiff_cli.backends.remaking import Recipe, threads
from autodiff_cli.numbers.arrays.table import quiet

Array = NDArray[np.float64]

_BLOCK = 8192  # rows
_SHORTEST = 512
_NUMBERS = 65_536  # that the values of a block may have before it gets shorter
_PARTIALS = 2**22  # numbers that the sums of blocks may have before they are added up


class Llvm:
    """The backend `llvm`: see `Backend`.

    Args:
        threads: how many to use, at most; None for as many as there are cores.
        width: how many doubles a vector has; None for the most.
    """

    name = "llvm"

    def __init__(self, threads: int | None = None, width: int | None = None) -> None:
        self._threads = threads or cores()
        self._target = host(width)

    def sums(self, graphs: RowGraphs, *, recompute_every: int | None = None) -> CompiledSums:  # noqa: ARG002
        """See `Backend.sums`. No value of a row outlives its strip, so none has to be computed again."""
        return CompiledSums(graphs, self._target, self._threads)

    def rows(self, graphs: RowGraphs) -> CompiledRows:
        """See `Backend.rows`."""
        return CompiledRows(graphs, self._target, self._threads)

    def epochs(self, descent: Descent, *, recompute_every: int | None = None) -> EpochKernel:
        """See `Backend.epochs`."""
        return CompiledEpochs(descent, self._target, EpochLoop(self, descent, recompute_every))


class CompiledSums:
    """Sums over rows: see `SumKernel`."""

    def __init__(self, graphs: RowGraphs, target: Processor, threads: int) -> None:
        plan = planned(graphs, summed=True)
        self.names = _names(plan)
        self.block_rows = _block_rows(plan)
        self._numbers = plan.numbers
        self._at_a_time = max(1, _PARTIALS // max(1, plan.numbers))  # blocks
        self._make_room(1)
        self._runner = Runner(plan, target, threads, self.block_rows, summed=True)
        self.recipe = Recipe(_compiled, CompiledSums, graphs, target.width, shared=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.recipe.reduced

    def sums(self, point: Point, columns: Columns, rows: int) -> Array:
        """See `SumKernel.sums`."""
        if not rows:
            return np.zeros(self._numbers)
        runner = self._runner
        with runner.lock:
            runner.bind(columns, rows)
            values = runner.point(point)
            if rows <= self.block_rows:
                return self._group(values, 0, 1)
            parts = runner.groups(-(-rows // self.block_rows), self._at_a_time)
            if len(parts) == 1:
                return self._group(values, *parts[0])
            return fold((self._group(values, *part) for part in parts), _added)

    def _group(self, values: Any, first: int, end: int) -> Array:
        if len(self._partials) < end - first:
            self._make_room(end - first)
        self._runner.run(values, self._address - 8 * self._numbers * first, first, end)
        if end > first + 1:
            self._runner.add_up(self._address, end - first)
        return self._total.copy()

    def _make_room(self, blocks: int) -> None:
        """For the sums of so many blocks. An address takes long to find."""
        self._partials = np.empty((blocks, self._numbers))
        self._total: Array = self._partials[0]  # in the end
        self._address = self._partials.ctypes.data


def _added(a: Array, b: Array) -> Array:
    with quiet():
        return a + b


class CompiledRows:
    """A value per row: see `RowKernel`."""

    def __init__(self, graphs: RowGraphs, target: Processor, threads: int) -> None:
        plan = planned(graphs, summed=False)
        self.names = _names(plan)
        self.block_rows = _block_rows(plan)
        self.numbers = graphs.numbers
        self.places = graphs.places
        self._runner = Runner(plan, target, threads, self.block_rows, summed=False)
        self.recipe = Recipe(_compiled, CompiledRows, graphs, target.width, shared=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.recipe.reduced

    def prepare(self, point: Point) -> Any:
        """See `RowKernel.prepare`."""
        return self._runner.point(point)

    def write(self, prepared: Any, columns: Columns, out: Array) -> None:
        """See `RowKernel.write`."""
        rows = out.shape[-1]
        if not rows:
            return
        if out.shape != (self.numbers, rows) or out.dtype != np.float64 or (rows > 1 and out.strides[1] != 8):
            raise ValueError(f"values are written to an array of {self.numbers}x{rows} doubles, rows side by side")
        with self._runner.lock:
            self._runner.bind(columns, rows)
            blocks = -(-rows // self.block_rows)
            for first, end in self._runner.groups(blocks, blocks):
                self._runner.run(prepared, out.ctypes.data, first, end, out.strides[0])


def _compiled(kind: Callable[..., Any], graphs: RowGraphs, width: int) -> Any:
    """A kernel in another process."""
    return kind(graphs, host(width), threads() or cores())


def _names(plan: Plan) -> frozenset[str]:
    return frozenset(leaf.name for leaf in (*plan.columns, *plan.points))


def _block_rows(plan: Plan) -> int:
    """Fewer where a row has many numbers; and where sums are added up in memory, since those of blocks go in pairs."""
    by_row = [item for item in plan.items if item.level is Stage.ROW]
    widest = max((item.size for item in by_row if not is_total(item)), default=1)
    sums = sum(is_total(item) for item in by_row)
    shorter = max(widest / (_NUMBERS / _BLOCK), sums / 32)
    return int(2 ** round(math.log2(max(_SHORTEST, min(_BLOCK, _BLOCK / max(1.0, shorter))))))
