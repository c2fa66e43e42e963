"""Graphs over rows of data, with NumPy, one block of rows after the other.

A block is small enough for its arrays to stay in the processor's cache, and memory never grows as rows × nodes. What
depends on no column is computed once per evaluation, what depends on nothing once ever. Rows are the last axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.algebra.table import share
from autodiff_cli.backends.descent import EpochLoop
from autodiff_cli.backends.fold import fold, slices
from autodiff_cli.backends.protocol import Columns, Descent, Point, RowGraphs
from autodiff_cli.backends.remaking import Recipe
from autodiff_cli.backends.steps import Step, recomputing, run, run_reusing, with_last_uses
from autodiff_cli.backends.totals import ROWS, TOTALS, totals
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.op import Op, Shape
from autodiff_cli.graph.shapes import shapes
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.arrays.table import ARRAYS, TRUTHS, quiet
from autodiff_cli.ops.choice import relu, where
from autodiff_cli.ops.elementary import pow_
from autodiff_cli.ops.structural import matmul

Array = NDArray[np.float64]

# Rows per block, measured: below 4,096 the cost of calling NumPy shows, above 32,768 the arrays leave the cache. Where
# a row has arrays, a block has fewer rows, but enough for products of matrices to be fast.
BLOCK = 8192
_WIDE = 8  # elements that a value of a row may have before blocks get shorter
_SHORTEST = 16  # times shorter than `BLOCK`, at most

_LARGE = 16_384  # elements of an array (128 kB) from which on the system gives memory page by page

# Whether an input varies: not at all, from one evaluation to the next, from row to row; or it is a total over rows.
_CONSTANT, _UNIFORM, _BY_ROW, _TOTAL = range(4)


class Blocks:
    """The backend `numpy`: see `Backend`. One thread, on every machine."""

    name = "numpy"

    def sums(self, graphs: RowGraphs, *, recompute_every: int | None = None) -> BlockSums:
        """See `Backend.sums`."""
        return BlockSums(graphs, recompute_every)

    def rows(self, graphs: RowGraphs) -> BlockRows:
        """See `Backend.rows`."""
        return BlockRows(graphs)

    def epochs(self, descent: Descent, *, recompute_every: int | None = None) -> EpochLoop:
        """See `Backend.epochs`."""
        return EpochLoop(self, descent, recompute_every)


class BlockSums:
    """Sums over rows: see `SumKernel`."""

    def __init__(self, graphs: RowGraphs, recompute_every: int | None = None) -> None:
        self._kernel = Kernel(
            graphs.outputs, graphs.columns, graphs.leaves, summed=True, recompute_every=recompute_every
        )
        self.recipe = Recipe(BlockSums, graphs, recompute_every, shared=False)
        self._places = graphs.places
        self._numbers = graphs.numbers
        self.names = self._kernel.names
        self.block_rows = self._kernel.rows

    def __reduce__(self) -> tuple[Any, ...]:
        return self.recipe.reduced

    def sums(self, point: Point, columns: Columns, rows: int) -> Array:
        """See `SumKernel.sums`."""
        if not rows:
            return np.zeros(self._numbers)
        with quiet():
            prepared = self._kernel.prepare(point)
            if rows <= self.block_rows:
                return self._gathered(self._kernel.block(prepared, _doubles(columns, self.names), rows))
            blocks = (
                self._kernel.block(prepared, _doubles(columns, self.names, part), part.stop - part.start)
                for part in slices(rows, self.block_rows)
            )
            return fold(map(self._gathered, blocks), np.add)

    def _gathered(self, values: Sequence[Any]) -> Array:
        flat = np.empty(self._numbers)
        for place, value in zip(self._places, values, strict=True):
            flat[place] = np.ravel(value)
        return flat


class BlockRows:
    """A value per row: see `RowKernel`."""

    def __init__(self, graphs: RowGraphs) -> None:
        self._kernel = Kernel(graphs.outputs, graphs.columns, graphs.leaves)
        self.recipe = Recipe(BlockRows, graphs, shared=False)
        self._sizes = graphs.sizes
        self.places = graphs.places
        self.numbers = graphs.numbers
        self.names = self._kernel.names
        self.block_rows = self._kernel.rows

    def __reduce__(self) -> tuple[Any, ...]:
        return self.recipe.reduced

    def prepare(self, point: Point) -> list[Any]:
        """See `RowKernel.prepare`."""
        with quiet():
            return self._kernel.prepare(point)

    def write(self, prepared: Sequence[Any], columns: Columns, out: Array) -> None:
        """See `RowKernel.write`."""
        rows = out.shape[-1]
        with quiet():
            for part in slices(rows, self.block_rows):
                block = _doubles(columns, self.names, part)
                values = self._kernel.block(prepared, block, part.stop - part.start)
                self._laid_out(values, out[:, part])

    def _laid_out(self, values: Sequence[Any], out: Array) -> None:
        for place, size, value in zip(self.places, self._sizes, values, strict=True):
            if size:
                out[place].reshape((*size, -1))[...] = value
            else:
                out[place.start] = value


def _doubles(columns: Columns, names: Collection[str], part: slice = slice(None)) -> dict[str, Array]:
    """Some rows of the columns that are read, as doubles; copied only where they are of another type."""
    return {name: np.asarray(columns[name][..., part], np.float64) for name in names if name in columns}


class Kernel:
    """Graphs made ready for evaluation over rows.

    Args:
        outputs: the graphs; equal parts of them are computed once.
        columns: the names of the input leaves that vary from row to row; all others are the same in a whole evaluation.
        leaves: the shapes of leaves that are no scalars, by name.
        summed: whether sums over the rows are wanted instead of a value per row.
        recompute_every: forget what lies within so many layers of the first output, and compute it again for the other
            outputs, its derivatives: slower, with less memory. A layer begins at each `@`; without any, each operation
            is one.

    Attributes:
        rows: how many rows a block had best have: a power of two, so that parts of whole blocks go with all kernels.
    """

    def __init__(
        self,
        outputs: Sequence[Node],
        columns: Collection[str],
        leaves: Mapping[str, Shape] | None = None,
        *,
        summed: bool = False,
        recompute_every: int | None = None,
    ) -> None:
        sizes = leaves or {}
        graphs = share(outputs)
        if summed:
            graphs = totals(graphs, columns, sizes)
        # Derivatives in the order in which a backward sweep finds them: towards the last parameters first.
        tape = Tape([*graphs[:1], *graphs[:0:-1]])
        self._outputs = (*tape.outputs[:1], *tape.outputs[:0:-1])
        self._leaves = {node.text: i for i, node in enumerate(tape.nodes) if node.is_input and node is not ROWS}
        self._row_count = tape.index.get(ROWS)
        self._constants: list[Any] = [ARRAYS.read(node.text) if node.is_constant else None for node in tape.nodes]
        levels, cores = _levels(tape, columns), shapes(tape, sizes)
        constant, self._uniform, by_row = _stages(tape, levels, cores)
        if recompute_every is not None and levels[tape.outputs[0]] >= _BY_ROW:
            by_row = _checkpointed(tape, by_row, recompute_every)
        self._by_row = with_last_uses(by_row, self._outputs)
        with quiet():
            run(constant, self._constants)
        slots = max([step.output + 1 for step in by_row], default=0)
        self._constants += [None] * (slots - len(tape))
        by_rows = (math.prod(shape) for shape, level in zip(cores, levels, strict=True) if level == _BY_ROW)
        self._widest = max(by_rows, default=1)
        # Fewer rows where a value of one row has many elements, so that a block of it stays in the cache.
        shorter = min(BLOCK, _WIDE * BLOCK // self._widest)
        self.rows = max(BLOCK // _SHORTEST, 1 << max(0, shorter.bit_length() - 1))
        self._free: dict[Shape, list[Array]] = {}

    @property
    def names(self) -> frozenset[str]:
        """The names of the leaves that are read."""
        return frozenset(self._leaves)

    def prepare(self, point: Mapping[str, Any]) -> list[Any]:
        """What is the same for all rows, at a point that gives a value to every leaf that is not a column.

        Call inside `quiet()`.
        """
        values = list(self._constants)
        for name, place in self._leaves.items():
            if name in point:
                values[place] = np.float64(point[name]) if np.ndim(point[name]) == 0 else point[name][..., None]
        run(self._uniform, values)
        return values

    def block(self, prepared: Sequence[Any], columns: Columns, rows: int | None = None) -> list[Any]:
        """The values of the outputs over one block of rows, or their sums if this kernel sums.

        Args:
            prepared: from `prepare`; it is not changed.
            columns: an array for every column, rows last: of shape (rows,) for a scalar. Call inside `quiet()`.
            rows: how many there are; by default as many as a column has.

        Returns:
            Arrays with rows as their last axis. It has the length 1, or for a scalar may be missing, in what is the
            same for all rows, and in sums.
        """
        values = list(prepared)
        for name, place in self._leaves.items():
            if name in columns:
                values[place] = columns[name]
        if rows is None:
            rows = next((column.shape[-1] for column in columns.values()), 1)
        if self._row_count is not None:
            values[self._row_count] = rows
        if rows * self._widest < _LARGE:
            run(self._by_row, values)
        else:
            run_reusing(self._by_row, values, rows, self._free)
        return [values[i] for i in self._outputs]


def _levels(tape: Tape, columns: Collection[str]) -> list[int]:
    """How much each node varies: as much as that of its inputs that varies most."""
    levels: list[int] = []
    for node, inputs in zip(tape.nodes, tape.inputs, strict=True):
        if node.op is None:
            varies = node is ROWS or node.text in columns
            levels.append(_CONSTANT if node.is_constant else _BY_ROW if varies else _UNIFORM)
        else:
            found = max([levels[j] for j in inputs], default=_CONSTANT)
            levels.append(_TOTAL if node.op in TOTALS else found)
    return levels


def _stages(tape: Tape, levels: Sequence[int], cores: Sequence[Shape]) -> tuple[list[Step], list[Step], list[Step]]:
    """The steps that are taken once ever, once per evaluation, and once per block of rows."""
    conditions = _conditions(tape)
    stages: tuple[list[Step], list[Step], list[Step]] = ([], [], [])
    for i, node in enumerate(tape.nodes):
        if node.op is not None:
            stages[min(levels[i], _BY_ROW)].append(_step(tape, i, levels, cores, conditions))
    return stages


def _checkpointed(tape: Tape, steps: Sequence[Step], every: int) -> list[Step]:
    """The steps by row, with what lies between layers computed again for the derivatives of the first output."""
    forward = 1 + next(k for k, step in enumerate(steps) if step.output == tape.outputs[0])
    layers = [k for k in range(forward) if tape.nodes[steps[k].output].op is matmul]
    return recomputing(steps, forward, layers or range(forward), every, len(tape))


def _conditions(tape: Tape) -> set[int]:
    """The nodes that stay truth values, since all that read them are choices, or make such conditions of them: to
    floats and back would be two more passes over memory."""
    found = {i for i, node in enumerate(tape.nodes) if node.op is not None and node.op.name in TRUTHS}
    found.difference_update(tape.outputs)
    for i in range(len(tape) - 1, -1, -1):
        node, inputs = tape.nodes[i], tape.inputs[i]
        if i in found and node.op is not None:
            continue
        found.difference_update(inputs[1:] if node.op is where else inputs)
    return found


def _step(tape: Tape, i: int, levels: Sequence[int], sizes: Sequence[Shape], conditions: Collection[int]) -> Step:
    """What the i-th node's operation does to arrays."""
    node, inputs = tape.nodes[i], tape.inputs[i]
    op = node.op
    assert op is not None
    if op in TOTALS:
        return Step(TOTALS[op], inputs, i, is_fresh=True)
    if i in conditions:
        return Step(TRUTHS[op.name], inputs, i, is_fresh=True)
    if op is where and inputs[0] in conditions:
        return Step(np.where, inputs, i, is_fresh=True)
    function = ARRAYS.function(op, len(inputs))
    into: Callable[..., Any] | None = function if isinstance(function, np.ufunc) else _INTO.get(op)
    if op is pow_ and is_literal(node.inputs[1], 2):
        function, into = _squared, _squared  # many times faster than a power
    if op is matmul and levels[inputs[0]] < _BY_ROW <= levels[inputs[1]] and len(sizes[inputs[1]]) == 1:
        function, into = _layer, _layer
    if levels[i] != _BY_ROW or into is None:
        return Step(function, inputs, i, is_fresh=into is not None)
    return Step(function, inputs, i, into, sizes[i], is_fresh=True)


def _squared(x: Any, _: Any, out: Array | None = None) -> Any:
    return np.square(x, out=out)


def _layer(a: Array, x: Array, out: Array | None = None) -> Any:
    """A matrix, or a vector, that is the same for all rows times a vector per row."""
    if out is not None and x.shape[-1] != out.shape[-1]:
        out = None  # the vector turns out to be the same for all rows
    return np.matmul(a[..., 0], x, out=out)


# Operations that can write to a given array, where their function in the table is not one of NumPy's own.
_INTO: dict[Op, Callable[..., Any]] = {relu: lambda x, out: np.maximum(x, 0.0, out=out)}
