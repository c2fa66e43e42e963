"""Rows chosen by an expression of the language: `t > 0 and group == 'A'`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.evaluate import evaluate
from autodiff_cli.data.table import Array, DataError
from autodiff_cli.language.columns import ColumnNames, Match
from autodiff_cli.language.errors import ExpressionError, in_brief, suggest
from autodiff_cli.language.lowering import read


class RowFilter:
    """An expression that holds, or not, in each row of some columns. Where it is not a number, it does not hold.

    Args:
        text: the expression.
        names: of all columns.
        texts: of those of text, which are compared with quoted text.

    Attributes:
        numbers: the columns of numbers that it reads.
        texts: the columns of text that it reads.

    Raises:
        DataError: for what is no expression of these columns.
    """

    def __init__(self, text: str, names: Collection[str], texts: Collection[str]) -> None:
        try:
            program = read(text, columns=ColumnNames(texts=texts))
        except ExpressionError as error:
            raise DataError(f"--where: {error}") from error
        if program.target is not None or program.shapes:
            raise DataError("--where takes an expression of columns that is true or false in each row")
        self._output = program.output
        self._matches = {name: leaf for name, leaf in program.of_columns.items() if isinstance(leaf, Match)}
        self.numbers = [name for name in program.leaves if name not in self._matches]
        self.texts = {match.column for match in self._matches.values()}
        for name in self.numbers:
            if name not in names:
                close = suggest(name, names)
                there = f"did you mean `{close}`?" if close else f"the columns are {in_brief(names)}"
                raise DataError(f"--where: there is no column `{name}`; {there}")

    def mask(self, columns: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Which rows it holds in.

        Args:
            columns: floats, and objects for columns of text, of shape (rows,).
        """
        point: dict[str, Array] = {name: columns[name] for name in self.numbers}
        for name, match in self._matches.items():
            point[name] = np.array(columns[match.column] == match.text, dtype=np.float64)
        if not point:
            raise DataError("--where reads no column")
        (found,) = evaluate([self._output], point)
        holds: NDArray[np.bool_] = np.isfinite(found) & (found != 0)
        return holds

    def notes(self, columns: Mapping[str, Any]) -> list[str]:
        """Quoted text that no row has, with what is nearest."""
        found = []
        for match in self._matches.values():
            there: Sequence[str] = [text for text in dict.fromkeys(columns[match.column].tolist()) if text is not None]
            if match.text not in there:
                close = suggest(match.text, there)
                hint = f"did you mean '{close}'?" if close else f"there are {in_brief(there)}"
                found.append(f"--where: no row has '{match.text}' in column `{match.column}`; {hint}")
        return found
