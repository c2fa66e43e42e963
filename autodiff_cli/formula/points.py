"""The value and the gradient at many points, block by block: memory does not grow with their number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.algebra.table import share
from autodiff_cli.backends.blocks import BLOCK
from autodiff_cli.backends.choice import suited
from autodiff_cli.backends.fold import slices
from autodiff_cli.backends.protocol import RowGraphs, RowKernel
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.language.errors import ExpressionError

Array = NDArray[np.float64]
Columns = Mapping[str, Array]  # a number per point, by name

MOST_POINTS = 2**62  # positions in a grid are machine integers


@dataclass(frozen=True)
class Range:
    """`count` numbers at equal distances, from exactly `start` to exactly `stop`, and none beyond."""

    start: float
    stop: float
    count: int

    def at(self, positions: NDArray[np.int64]) -> Array:
        """The numbers at some positions, from 0. Those that are short decimals, as in 0:10:101, come out as such."""
        last = max(self.count - 1, 1)
        # Halved as often as it takes for products with positions to stay finite: 0:1e308:101.
        halved = math.ldexp(1.0, min(0, 1020 - math.frexp(max(abs(self.start), abs(self.stop)))[1] - last.bit_length()))
        start, stop = self.start * halved, self.stop * halved
        between = np.clip((start * (last - positions) + stop * positions) / last, min(start, stop), max(start, stop))
        return np.where(positions == 0, self.start, np.where(positions == last, self.stop, between / halved))


def grid(ranges: Mapping[str, Range]) -> Iterator[dict[str, Array]]:
    """All combinations of the numbers in ranges, in blocks; the last range varies fastest."""
    shape = [chosen.count for chosen in ranges.values()]
    for part in slices(math.prod(shape), BLOCK):
        places = np.unravel_index(np.arange(part.start, part.stop), shape)
        yield {name: chosen.at(place) for (name, chosen), place in zip(ranges.items(), places, strict=True)}


class Gradients:
    """The value and the gradient of an expression, made ready for many points.

    Args:
        columns: the variables, one at least, that have a number of their own at every point.
        fixed: the values of all others, the same at all points.
        wrt: the variables towards which derivatives are wanted.

    Attributes:
        points: how many there will be, if that is known before the first block.

    Raises:
        ExpressionError: if the output, or one of `columns` or `wrt`, is not a number.
    """

    def __init__(
        self, expression: Formula, columns: Sequence[str], fixed: Mapping[str, Any], wrt: Sequence[str]
    ) -> None:
        self.points = 0
        self.columns = tuple(columns)
        self.wrt = tuple(wrt)
        beside_arrays = any(np.ndim(value) for value in fixed.values())
        for name in columns:
            # Where an array is required, as in `sum(v*x)`, it may be the other one.
            if name in expression.shapes or (name in expression.arrays and not beside_arrays):
                raise ExpressionError(f"`{name}` is an array, and there is one number per point for it")
        place = expression.at({**fixed, **dict.fromkeys(columns, 0.0)})
        sizes = expression.sizes_of_scalar_output(place)
        for name in wrt:
            if sizes.get(name):
                raise ExpressionError(f"`{name}` is an array: choose variables that are numbers with --wrt")
        with expression.placed():
            output = share([expression.output])[0]
            slopes = gradient_nodes(output, [expression.leaves[name] for name in wrt], sizes)
        self._graphs = RowGraphs([output, *slopes], {*self.columns}, sizes)
        self._point = {name: place[name] for name in fixed}

    @cached_property
    def _kernel(self) -> RowKernel:
        return suited("auto", None, self._graphs, self.points, passes=1).rows(self._graphs)

    @cached_property
    def _prepared(self) -> Any:
        return self._kernel.prepare(self._point)

    def at(self, columns: Columns) -> Array:
        """The value and the derivatives at the points of one block, one below the other, a number per point."""
        found = np.empty((self._kernel.numbers, len(columns[self.columns[0]])))
        self._kernel.write(self._prepared, columns, found)
        return found
