"""The right digits of value and gradient at many points, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.autodiff.forward import forward
from autodiff_cli.explain.digits.right import DOUBT, STARTS, VALUE, right_numbers
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.arrays.moved import MOVED_ARRAYS
from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.numbers.floats.moved import start_moves

Array = NDArray[np.float64]

MOST_ROWS = 10_000  # of which right digits are computed; each takes a millisecond at the most


class RightRows:
    """Looks for rows in which rounding has spoilt a number.

    Args:
        formula: of numbers.
        fixed: the values of the variables that are the same in all rows.
        wrt: the variables of the derivatives that are looked at.

    Attributes:
        unseen: how many rows are in doubt beyond those whose right digits have been computed.
    """

    def __init__(self, formula: Formula, fixed: Mapping[str, float], wrt: Sequence[str]) -> None:
        self._formula = formula
        self._fixed = fixed
        self._names = [VALUE, *wrt]
        slopes = gradient_nodes(formula.output, [formula.leaves[name] for name in wrt])
        self._tape = Tape([formula.output, *slopes])
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
            if self._seen == MOST_ROWS:
                self.unseen += 1
                continue
            self._seen += 1
            point = {**self._fixed, **{name: float(column[row]) for name, column in columns.items()}}
            numbers = dict(zip(self._names, found[:, row].tolist(), strict=True))
            if right := right_numbers(self._formula, point, numbers):
                spoilt[row] = right
        return spoilt

    def _rows_in_doubt(self, columns: Mapping[str, Array], found: Array) -> Iterator[int]:
        doubtful = ~np.isfinite(found).all(axis=0)
        with quiet():
            for at in STARTS:
                start_moves(at)
                values = forward(self._tape, MOVED_ARRAYS, {**self._fixed, **columns})
                for own, i in zip(found, self._tape.outputs, strict=True):
                    doubtful |= ~(np.abs(own - values[i]) <= DOUBT * np.abs(own))
            # What is tiny may have lost digits on the way, and what is 0 all of them.
            doubtful |= (np.abs(found) < np.finfo(float).tiny).any(axis=0)
        return map(int, np.flatnonzero(doubtful))
