"""From data to the table of rows that a model uses."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.data.table import Columns, DataError, Dataset, Table, numbers
from autodiff_cli.language.errors import UnknownNameError, in_brief, suggest
from autodiff_cli.training.levels.indicators import load_with_labels
from autodiff_cli.training.objective.graphs import x_error
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.options import DataOptions
from autodiff_cli.training.rows.protocol import WEIGHT

Array = NDArray[np.float64]


def as_dataset(data: Mapping[str, ArrayLike] | Dataset) -> Dataset:
    """The data themselves if they are a Dataset, else their columns."""
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
    what, given = ("weights", options.weights) if options.sigma is None else ("sigma", options.sigma)
    of_x = {f"x_sigma of {name}": (x_error(name), values) for name, values in options.x_sigma.items()}
    named = {what: given, **{words: values for words, (_, values) in of_x.items()}}
    for words, name in named.items():
        if isinstance(name, str) and name not in dataset.names:
            raise DataError(f"{words}: the data have no column `{name}` ({in_brief(dataset.names)})")
    classes = model.class_column
    wanted = {*model.numeric, *options.columns} - {classes}
    labelled = [*dict.fromkeys([*([] if classes is None else [classes]), *model.labelled])]
    table, labels = load_with_labels(dataset, wanted, labelled, options.drop_missing)
    more: dict[str, Array] = {}
    if given is not None:
        values = _checked(table, what, given, above=options.sigma is not None)
        more[WEIGHT] = values if options.sigma is None else 1 / np.square(values)
        if not more[WEIGHT].any():
            raise DataError(f"{what}: every weight is 0")
    for words, (column, of_column) in of_x.items():
        more[column] = _checked(table, words, of_column, above=False)
    return dataclasses.replace(table, columns={**table.columns, **more}), labels


def _checked(table: Table, what: str, given: ArrayLike | str, *, above: bool) -> Array:
    """One number per row, not negative, or above 0. Raises DataError."""
    values = numbers(table.columns[given] if isinstance(given, str) else given, what)
    if len(values) != table.rows:
        raise DataError(f"{what}: {len(values)} values for {table.rows} rows")
    wrong = ~(values > 0) if above else ~(values >= 0)
    wrong |= np.isinf(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        kind = "a weight" if what == "weights" else "a standard deviation"
        needed = f"{kind} must be positive" if above else f"{kind} cannot be negative"
        raise DataError(f"{what}: row {row + 1} has {values[row]}; {needed}")
    return values
