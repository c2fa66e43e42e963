"""From data to the table of rows that a model uses."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.data.several import open_data
from autodiff_cli.data.table import Columns, DataError, Dataset, Table, numbers
from autodiff_cli.language.errors import UnknownNameError, in_brief, suggest
from autodiff_cli.training.levels.indicators import load_with_labels
from autodiff_cli.training.objective.graphs import x_error
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.options import DataOptions
from autodiff_cli.training.rows.protocol import WEIGHT

Array = NDArray[np.float64]

SIGMA = "sigma"
NO_WEIGHT = "weights: every weight is 0"


Data: TypeAlias = "Mapping[str, ArrayLike] | Dataset | str | os.PathLike[str]"


def as_dataset(data: Data) -> Dataset:
    """The data themselves if they are a Dataset, the file (folder, pattern) at a path, else their columns."""
    if isinstance(data, str | os.PathLike):
        return open_data([os.fspath(data)])
    return data if isinstance(data, Dataset) else Columns(data)


def check_names(given: Collection[str], model: Model) -> None:
    """Raise UnknownNameError if a value is given for what is not a parameter of the model."""
    for name in given:
        if name in model.columns:
            raise UnknownNameError(f"`{name}` is a column of the data; only parameters take a value")
        if not model.takes(name):
            raise UnknownNameError(f"the model has no parameter `{name}`", suggestion=suggest(name, model.parameters))


def load(dataset: Dataset, model: Model, options: DataOptions) -> tuple[Table, dict[str, NDArray[Any]]]:
    """The columns that a model uses, the weights among them under the name `WEIGHT`; the labels of those that are no
    numbers.

    Raises:
        DataError: if the data, or the weights, cannot be used.
    """
    counts = counting_columns(dataset, options)
    classes = model.class_column
    wanted = {*model.numeric, *options.columns} - {classes}
    labelled = [*dict.fromkeys([*([] if classes is None else [classes]), *model.labelled])]
    table, labels = load_with_labels(dataset, wanted, labelled, options.drop_missing)
    more: dict[str, Array] = {}
    for words, (column, given) in counts.items():
        values = numbers(table.columns[given] if isinstance(given, str) else given, words)
        if len(values) != table.rows:
            raise DataError(f"{words}: {len(values)} values for {table.rows} rows")
        check_counting(words, values)
        more[column] = 1 / np.square(values) if words == SIGMA else values
    if WEIGHT in more and not more[WEIGHT].any():
        raise DataError(NO_WEIGHT)
    return dataclasses.replace(table, columns={**table.columns, **more}), labels


def counting_columns(dataset: Dataset, options: DataOptions) -> dict[str, tuple[str, ArrayLike | str]]:
    """What says how much rows count, by what it is called in messages: the column that kernels read it in, and where it
    is given. Raises DataError for a column that is not there."""
    found: dict[str, tuple[str, ArrayLike | str]] = {}
    if options.weights is not None:
        found["weights"] = WEIGHT, options.weights
    if options.sigma is not None:
        found[SIGMA] = WEIGHT, options.sigma
    found |= {f"x_sigma of {name}": (x_error(name), values) for name, values in options.x_sigma.items()}
    for words, (_, given) in found.items():
        if isinstance(given, str) and given not in dataset.names:
            raise DataError(f"{words}: the data have no column `{given}` ({in_brief(dataset.names)})")
    return found


def check_counting(words: str, values: Array, before: int = 0) -> None:
    """Raise DataError for a number that is no weight, or no standard deviation.

    Args:
        words: what they are called.
        before: how many rows come before these.
    """
    above = words == SIGMA
    wrong = ~(values > 0) if above else ~(values >= 0)
    wrong |= np.isinf(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        kind = "a weight" if words == "weights" else "a standard deviation"
        needed = f"{kind} must be positive" if above else f"{kind} cannot be negative"
        raise DataError(f"{words}: row {before + row + 1} has {values[row]}; {needed}")
