"""The right digits of value and gradient at many points, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.autodiff.forward import forward
from autodiff_cli.autodiff.unroll import TooManyOperationsError
from autodiff_cli.explain.digits.right import VALUE, corrected
from autodiff_cli.explain.digits.right_arrays import is_doubtful, point_of, with_balls, with_ways, written_out
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.arrays.moved import is_undecided, start_array_moves
from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.numbers.floats.moved import WAYS

Array = NDArray[np.float64]

MOST_ROWS = 10_000  # of which right digits are computed; each takes a millisecond at the most
_MOST_OPERATIONS = 1_000_000  # in all of these rows


class RightRows:
    """Looks for rows in which rounding has spoilt a number.

    Args:
        formula: with a number as its output.
        fixed: the values of the variables that are the same in all rows.
        columns: the variables, numbers, that vary.
        wrt: the variables, numbers, of the derivatives that are looked at.
        unheld: as for `corrected`.

    Attributes:
        unseen: how many rows are in doubt beyond those whose right digits have been computed.
    """

    def __init__(
        self,
        formula: Formula,
        fixed: Mapping[str, Any],
        columns: Sequence[str],
        wrt: Sequence[str],
        unheld: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._leaves = formula.leaves
        self._place = {**fixed, **dict.fromkeys(columns, 0.0)}
        self._fixed = with_ways(fixed)
        slopes = gradient_nodes(formula.output, [formula.leaves[name] for name in wrt], formula.sizes(self._place))
        self._graphs = dict(zip([VALUE, *wrt], [formula.output, *slopes], strict=True))
        self._tape = Tape([*self._graphs.values()])
        self._unheld = unheld
        self._seen = 0
        self.unseen = 0

    def of(self, columns: Mapping[str, Array], found: Array) -> dict[int, dict[str, str]]:
        """The right digits of what has fewer than 12 of them, by row of a block and name.

        Args:
            columns: a number per row for each variable that varies.
            found: the value and the derivatives as floats, of shape (1 + derivatives, rows).
        """
        spoilt = {}
        for row in self._rows_in_doubt(columns, found):
            if self._seen >= self._most:
                self.unseen += 1
                continue
            self._seen += 1
            point = {**self._numbers[1], **{name: float(column[row]) for name, column in columns.items()}}
            numbers = dict(zip(self._graphs, found[:, row].tolist(), strict=True))
            if right := corrected(numbers, point, with_balls(self._numbers[0]), self._unheld):
                spoilt[row] = right
        return spoilt

    @cached_property
    def _numbers(self) -> tuple[dict[str, Node], dict[str, float]]:
        """The graphs with their arrays written out, and the value of every number; none for too large ones."""
        if not any(map(np.ndim, self._place.values())):
            return self._graphs, self._place
        try:
            numbers, written = written_out([*self._graphs.values()], self._place, self._leaves)
        except TooManyOperationsError:
            return {}, {}
        graphs = {name: array.item() for name, array in zip(self._graphs, written, strict=True)}
        return graphs, point_of(numbers, self._place)

    @cached_property
    def _most(self) -> int:
        """How many rows are looked at closely."""
        graphs, _ = self._numbers
        return min(MOST_ROWS, 1 + _MOST_OPERATIONS // len(Tape([*graphs.values()]))) if graphs else 0

    def _rows_in_doubt(self, columns: Mapping[str, Array], found: Array) -> Iterator[int]:
        doubtful = np.full(found.shape[1], bool(self._unheld))
        with quiet():
            for way in WAYS:
                values = forward(self._tape, start_array_moves(way), {**self._fixed, **columns})
                for own, i in zip(found, self._tape.outputs, strict=True):
                    doubtful |= is_doubtful(own, values[i]) | is_undecided()
        return map(int, np.flatnonzero(doubtful))
