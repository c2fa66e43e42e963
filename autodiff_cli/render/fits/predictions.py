"""Predictions as `predict` writes them: beside the data they are for, or as a document."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.render.documents import number
from autodiff_cli.render.numbers import in_full
from autodiff_cli.render.paper import Paper
from autodiff_cli.render.report import Report
from autodiff_cli.training.result.fit import FittedModel

Predictions = Mapping[str, NDArray[Any]]


def predictions_report(
    fit: FittedModel, header: Sequence[str], rows: Callable[[], Iterable[Sequence[str]]], predictions: Predictions
) -> Report:
    """CSV: the rows of the data as they are, each with its predictions, in full; or the predictions as a document."""

    def write(paper: Paper) -> None:
        texts = rows()
        writer = csv.writer(paper.stream, lineterminator="\n")
        writer.writerow([*header, *predictions])
        columns = (map(_cell, column.tolist()) for column in predictions.values())
        for row, values in zip(texts, zip(*columns, strict=True), strict=True):
            writer.writerow([*row, *values])

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


def _cell(value: Any) -> str:
    return in_full(value) if isinstance(value, float) else str(value)


def _json(value: Any) -> Any:
    return number(value) if isinstance(value, float) else value
