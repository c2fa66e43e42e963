"""The value and the gradient at many points, as CSV or JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from autodiff_cli.data.files import Cells
from autodiff_cli.explain.digits.right import in_words
from autodiff_cli.explain.digits.right_rows import RightRows
from autodiff_cli.formula.points import Array, Columns, Gradients
from autodiff_cli.render.documents import number, numbers
from autodiff_cli.render.numbers import to_digits
from autodiff_cli.render.paper import Paper
from autodiff_cli.render.report import Report
from autodiff_cli.render.rows import row_text, rows_text

_MOST_NAMED = 5  # spoilt rows that are shown in words


class PointByPoint:
    """One line per point: CSV with what is known of the point, `value`, and `d_NAME` for each variable; or JSON.

    Args:
        header: the names of the columns that describe a point.
        blocks: of points: a number per point for each variable that varies, and its cells; None where these are just
            those numbers. They are gone through once.
        digits: of values and derivatives in CSV; by default, and in JSON, all that a float has.
        right: looks for rows that rounding has spoilt.

    Attributes:
        results: the names of the columns that are added.
        undefined: at how many points the value or a derivative was not a finite number so far.
        spoilt: in how many rows a number has lost digits so far, and `first_spoilt`, the first of them in words.
    """

    def __init__(
        self,
        gradients: Gradients,
        header: Sequence[str],
        blocks: Iterable[tuple[Columns, Cells | None]],
        digits: int | None,
        right: RightRows,
    ) -> None:
        self.results = ("value", *(f"d_{name}" for name in gradients.wrt))
        self.undefined = 0
        self._gradients = gradients
        self._header = header
        self._blocks = blocks
        self._show = None if digits is None else to_digits(digits)
        self._right = right
        self.spoilt = 0
        self.first_spoilt: list[str] = []

    @property
    def unseen(self) -> int:
        """How many rows are in doubt beyond those that were looked at closely."""
        return self._right.unseen

    @property
    def report(self) -> Report:
        """The results, computed as they are written."""
        return Report(self._write, self._documents, is_data=True)

    def _computed(self) -> Iterator[tuple[Columns, Cells | None, Array, Mapping[int, Mapping[str, str]]]]:
        rows = 0
        for columns, cells in self._blocks:
            found = self._gradients.at(columns)
            self.undefined += int(np.count_nonzero(~np.isfinite(found).all(axis=0)))
            right = self._right.of(columns, found)
            self.spoilt += len(right)
            for row in [*right][: _MOST_NAMED - len(self.first_spoilt)]:
                self.first_spoilt.append(f"row {rows + row + 1}: with all digits {in_words(right[row])}")
            rows += found.shape[1]
            yield columns, cells, found, right

    def _write(self, paper: Paper) -> None:
        header: Sequence[str] | None = [*self._header, *self.results]
        for columns, cells, results, _ in self._computed():
            if header is not None:
                paper.stream.write(row_text(header))
                header = None
            given = [columns[name] for name in self._header] if cells is None else []
            paper.stream.write(rows_text(cells, results, self._show, given))

    def _documents(self) -> Iterator[dict[str, Any]]:
        for columns, _, results, right in self._computed():
            names = self._gradients.columns
            points = zip(*(columns[name].tolist() for name in names), strict=True)
            for row, (point, (value, *slopes)) in enumerate(zip(points, results.T.tolist(), strict=True)):
                warnings = {"warnings": [_warning(right[row])]} if row in right else {}
                yield {
                    "variables": numbers(dict(zip(names, point, strict=True))),
                    "value": number(value),
                    "gradient": numbers(dict(zip(self._gradients.wrt, slopes, strict=True))),
                    **warnings,
                }


def _warning(right: Mapping[str, str]) -> dict[str, Any]:
    return {"kind": "precision", "message": f"with all digits {in_words(right)}", "right": dict(right)}
