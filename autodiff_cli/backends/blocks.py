"""Graphs over rows of data, with NumPy, one block of rows after the other.

A block is small enough for its arrays to stay in the processor's cache, and memory never grows as rows × nodes. What
depends on no column is computed once per evaluation, what depends on nothing once ever. Rows are the last axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.autodiff.simplify import share
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.shapes import shapes
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.arrays import ARRAYS, quiet

Array = NDArray[np.float64]

# Rows per block, measured: below 4,096 the cost of calling NumPy shows, above 32,768 the arrays leave the cache.
BLOCK = 8192


@dataclass(frozen=True, slots=True)
class _Step:
    """One operation: its function, where its inputs lie, where its value goes, and which values nobody needs after."""

    function: Callable[..., Any]
    inputs: tuple[int, ...]
    output: int
    spent: tuple[int, ...] = ()


class Kernel:
    """Graphs made ready for evaluation over rows.

    Args:
        outputs: the graphs; equal parts of them are computed once.
        columns: the names of the input leaves that vary from row to row; all others are one number per evaluation.
    """

    def __init__(self, outputs: Sequence[Node], columns: Collection[str]) -> None:
        tape = Tape(share(outputs))
        self._outputs = tape.outputs
        self._leaves = {node.text: i for i, node in enumerate(tape.nodes) if node.is_input}
        self._constants: list[Any] = [ARRAYS.read(node.text) if node.is_constant else None for node in tape.nodes]
        self._uniform: list[_Step] = []
        self._by_row: list[_Step] = []
        constant: list[_Step] = []
        # 0: constant, 1: the same for all rows, 2: a value per row. A node is what the most variable of its inputs is.
        levels: list[int] = []
        for i, (node, inputs) in enumerate(zip(tape.nodes, tape.inputs, strict=True)):
            if node.op is None:
                levels.append(0 if node.is_constant else 2 if node.text in columns else 1)
                continue
            levels.append(max((levels[j] for j in inputs), default=0))
            stage = (constant, self._uniform, self._by_row)[levels[i]]
            stage.append(_Step(ARRAYS.function(node.op, len(inputs)), inputs, i))
        self._by_row = _with_last_uses(self._by_row, tape.outputs)
        with quiet():
            _run(constant, self._constants)

    def prepare(self, point: Mapping[str, Any]) -> list[Any]:
        """What is the same for all rows, at a point that gives a value to every leaf that is not a column.

        Call inside `quiet()`.
        """
        values = list(self._constants)
        for name, place in self._leaves.items():
            if name in point:
                values[place] = np.float64(point[name]) if np.ndim(point[name]) == 0 else point[name][..., None]
        _run(self._uniform, values)
        return values

    def block(self, prepared: Sequence[Any], columns: Mapping[str, Array]) -> list[Any]:
        """The values of the outputs over one block of rows; a single number for an output that varies with no column.

        Args:
            prepared: from `prepare`; it is not changed.
            columns: an array for every column, rows last: of shape (rows,) for a scalar. Call inside `quiet()`.
        """
        values = list(prepared)
        for name, place in self._leaves.items():
            if name in columns:
                values[place] = columns[name]
        _run(self._by_row, values)
        return [values[i] for i in self._outputs]


def evaluate(
    outputs: Sequence[Node], point: Mapping[str, Any], leaves: Mapping[str, Shape] | None = None
) -> list[Array]:
    """The values of graphs at numbers and arrays.

    Args:
        point: a number or an array for the name of every input leaf. Axes of an array in front of those of its leaf
            are a batch; batches broadcast against each other by NumPy's rules.
        leaves: the shapes of leaves that are no scalars.

    Returns:
        One array per output, of the batch's shape and then the output's own.
    """
    sizes = leaves or {}
    arrays = {name: np.asarray(value, dtype=np.float64) for name, value in point.items()}
    batches = {name: value.shape[: value.ndim - len(sizes.get(name, ()))] for name, value in arrays.items()}
    batch = np.broadcast_shapes(*batches.values())
    rows = math.prod(batch)
    columns = {
        name: np.moveaxis(
            np.broadcast_to(value, (*batch, *sizes.get(name, ()))).reshape(rows, *sizes.get(name, ())), 0, -1
        )
        for name, value in arrays.items()
        if batches[name]
    }
    tape = Tape(outputs)
    cores = shapes(tape, sizes)
    results = [np.empty((*cores[i], rows)) for i in tape.outputs]
    kernel = Kernel(outputs, columns.keys())
    with quiet():
        prepared = kernel.prepare({name: value for name, value in arrays.items() if name not in columns})
        for part in slices(rows):
            values = kernel.block(prepared, {name: column[..., part] for name, column in columns.items()})
            for result, value in zip(results, values, strict=True):
                result[..., part] = value
    return [np.moveaxis(result, -1, 0).reshape((*batch, *result.shape[:-1])) for result in results]


def slices(rows: int, size: int = BLOCK) -> Iterator[slice]:
    """The blocks that `rows` rows fall into."""
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def _with_last_uses(steps: Sequence[_Step], outputs: Collection[int]) -> list[_Step]:
    """The same steps, each knowing which arrays it is the last to read."""
    alive = set(outputs)
    marked = []
    for step in reversed(steps):
        spent = tuple(dict.fromkeys(i for i in step.inputs if i not in alive))
        alive.update(spent)
        marked.append(_Step(step.function, step.inputs, step.output, spent))
    return marked[::-1]


def _run(steps: Sequence[_Step], values: list[Any]) -> None:
    for step in steps:
        values[step.output] = step.function(*[values[i] for i in step.inputs])
        for i in step.spent:
            values[i] = None
