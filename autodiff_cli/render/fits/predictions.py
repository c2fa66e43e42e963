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
    fit: FittedModel, header: Sequence[str], rows: Callable[[], Iterable[Cells]], predictions: Predictions
) -> Report:
    """CSV: the rows of the data as they are, each with its predictions, in full; or the predictions as a document."""

    def write(paper: Paper) -> None:
        blocks = rows()
        paper.stream.write(row_text([*header, *predictions]))
        start = 0
        for cells in blocks:
            part = slice(start, start := start + len(cells))
            paper.stream.write(rows_text(cells, [column[part] for column in predictions.values()]))

    return Report(write, lambda: [_document(fit, predictions)], is_data=True)


def _document(fit: FittedModel, predictions: Predictions) -> dict[str, Any]:
    return {
        "model": fit.model,
        "rows": len(next(iter(predictions.values()))),
        **{name: [_json(value) for value in column.tolist()] for name, column in predictions.items()},
    }


def undefined(predictions: Predictions) -> int:
    """How many rows have a prediction that is nan or infinite."""
    numeric = [~np.isfinite(column) for column in predictions.values() if column.dtype.kind == "f"]
    return int(np.count_nonzero(np.logical_or.reduce(numeric))) if numeric else 0


def _json(value: Any) -> Any:
    return number(value) if isinstance(value, float) else value
