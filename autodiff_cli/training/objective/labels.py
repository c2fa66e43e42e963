"""The class column of a classification: labels to numbers and back."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.table import DataError
from autodiff_cli.training.levels.indicators import coded

Array = NDArray[np.float64]
Classes: TypeAlias = tuple[int, ...] | tuple[str, ...]

_MANY = 20  # classes that a column may well have; more are doubtful if there are half as many as rows


def encoded(labels: NDArray[Any], name: str) -> tuple[Classes, Array]:
    """The classes that occur, sorted (whole numbers by size, texts by their characters), and the position among them of
    each label.

    Args:
        labels: one per row, from `Dataset.load`.
        name: of their column.

    Raises:
        DataError: if there is only one class, or if there are so many that they are hardly classes.
    """
    found, codes = coded(labels)
    return checked_classes(found, len(labels), name), codes.astype(np.float64)


def checked_classes(found: NDArray[Any], rows: int, name: str) -> Classes:
    """The classes, of those that occur in so many rows of a column. Raises DataError as `encoded` does."""
    classes = found.tolist()
    if len(classes) == 1:
        raise DataError(f"column `{name}` has only one class, {classes[0]}: there is nothing to tell apart")
    if len(classes) == rows or (len(classes) > _MANY and 2 * len(classes) > rows):
        raise DataError(f"column `{name}` has {len(classes)} different values in {rows} rows: it is hardly a class")
    return tuple(classes)
