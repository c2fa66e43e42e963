"""Predictions as `predict` writes them: beside the data they are for, or as a document."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.render.documents import number
from autodiff_cli.render.numbers import in_full
from autodiff_cli.training.fit import Fit

Predictions = Mapping[str, NDArray[Any]]


def named_predictions(fit: Fit, predicted: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The columns that a prediction comes to: `prediction`, or one per target, `prediction_NAME`.

    Args:
        predicted: what `fit.predict` gave: one value per row, or one row of values.
    """
    if predicted.ndim == 1:
        return {"prediction": predicted}
    names = fit.targets if len(fit.targets) == predicted.shape[1] else range(predicted.shape[1])
    return {f"prediction_{name}": column for name, column in zip(names, predicted.T, strict=True)}


def write_predictions(stream: TextIO, rows: Iterator[Sequence[str]], predictions: Predictions) -> None:
    """CSV: the rows of the data as they are, header first, each with its predictions, in full."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*next(rows), *predictions])
    columns = (map(_cell, column.tolist()) for column in predictions.values())
    for row, values in zip(rows, zip(*columns, strict=True), strict=True):
        writer.writerow([*row, *values])


def predictions_document(fit: Fit, predictions: Predictions) -> dict[str, Any]:
    """What `predict --json` writes."""
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
