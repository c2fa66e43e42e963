"""Predictions as `predict` writes them: beside the data they are for, or as a document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.files import Cells
from autodiff_cli.render.documents import number
from autodiff_cli.render.paper import Paper
from autodiff_cli.render.report import Report
from autodiff_cli.render.rows import row_text, rows_text
from autodiff_cli.training.result.fit import FittedModel

Predictions = Mapping[str, NDArray[Any]]


def predictions_report(
    fit: FittedModel,
    header: Sequence[str],
    rows: Callable[[], Iterable[Cells]],
    names: Sequence[str],
    predictions: Callable[[], Iterable[Predictions]],
) -> Report:
    """CSV: the rows of the data as they are, each with its predictions, in full; or the predictions as a document.

    Args:
        names: of the columns of predictions.
        predictions: makes them, some rows after the other.
    """

    def write(paper: Paper) -> None:
        blocks, made = rows(), _Rows(predictions())
        paper.stream.write(row_text([*header, *names]))
        for cells in blocks:
            paper.stream.write(rows_text(cells, made.next(len(cells))))

    return Report(write, lambda: [_document(fit, names, predictions())], is_data=True)


class _Rows:
    """Columns that come some rows after the other, handed on as many rows at a time as are asked for."""

    def __init__(self, chunks: Iterable[Predictions]) -> None:
        self._chunks = iter(chunks)
        self._left: list[NDArray[Any]] = []

    def next(self, count: int) -> list[NDArray[Any]]:
        while not self._left or len(self._left[0]) < count:
            more = [*next(self._chunks).values()]
            self._left = [np.concatenate(two) for two in zip(self._left, more, strict=True)] if self._left else more
        taken = [column[:count] for column in self._left]
        self._left = [column[count:] for column in self._left]
        return taken


def _document(fit: FittedModel, names: Sequence[str], chunks: Iterable[Predictions]) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for chunk in chunks:
        for name, column in chunk.items():
            columns[name] += map(_json, column.tolist())
    return {"model": fit.model, "rows": len(columns[names[0]]), **columns}


def undefined(predictions: Predictions) -> int:
    """How many rows have a prediction that is nan or infinite."""
    numeric = [~np.isfinite(column) for column in predictions.values() if column.dtype.kind == "f"]
    return int(np.count_nonzero(np.logical_or.reduce(numeric))) if numeric else 0


def _json(value: Any) -> Any:
    return number(value) if isinstance(value, float) else value
