"""The value and the gradient at many points, as CSV or JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from typing import TextIO

import numpy as np

from autodiff_cli.explain.points import Columns, Gradients
from autodiff_cli.render.documents import number, numbers
from autodiff_cli.render.numbers import in_full, to_digits


class Writer:
    """Writes one line per point: CSV with what is known of the point, `value`, and `d_NAME` for each variable; or JSON.

    Args:
        header: the names of the columns that describe a point.
        digits: of values and derivatives in CSV; by default, and in JSON, all that a float has.

    Attributes:
        results: the names of the columns that are added.
        undefined: at how many points the value or a derivative was not a finite number so far.
    """

    def __init__(
        self, stream: TextIO, header: Sequence[str], gradients: Gradients, digits: int | None, as_json: bool
    ) -> None:
        self.results = ("value", *(f"d_{name}" for name in gradients.wrt))
        self.undefined = 0
        self._header: Sequence[str] | None = header
        self._stream = stream
        self._gradients = gradients
        self._as_json = as_json
        self._show = in_full if digits is None else to_digits(digits)

    def write(self, columns: Columns, cells: Iterable[Sequence[str]]) -> None:
        """Write the results of one block.

        Args:
            columns: a number per point for each variable that varies.
            cells: the text that describes each point, for CSV.
        """
        found = self._gradients.at(columns)
        self.undefined += int(np.count_nonzero(~np.isfinite(found).all(axis=0)))
        results = [array.tolist() for array in found]
        if self._as_json:
            self._write_json({name: columns[name].tolist() for name in self._gradients.columns}, results)
            return
        writer = csv.writer(self._stream, lineterminator="\n")
        if self._header is not None:
            writer.writerow([*self._header, *self.results])
            self._header = None
        shown = zip(*(map(self._show, result) for result in results), strict=True)
        writer.writerows([*row, *result] for row, result in zip(cells, shown, strict=True))

    def _write_json(self, columns: dict[str, list[float]], results: list[list[float]]) -> None:
        points = zip(*columns.values(), strict=True)
        for point, (value, *slopes) in zip(points, zip(*results, strict=True), strict=True):
            document = {
                "variables": numbers(dict(zip(columns, point, strict=True))),
                "value": number(value),
                "gradient": numbers(dict(zip(self._gradients.wrt, slopes, strict=True))),
            }
            self._stream.write(json.dumps(document, allow_nan=False) + "\n")
