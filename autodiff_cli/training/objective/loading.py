"""From data to the table of rows that a model uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import ArrayLike

from autodiff_cli.data.table import Columns, DataError, Dataset, Table, numbers
from autodiff_cli.language.errors import UnknownNameError, in_brief, suggest
from autodiff_cli.training.objective.graphs import WEIGHT
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.options import DataOptions


def as_dataset(data: Mapping[str, ArrayLike] | Dataset) -> Dataset:
    """The data themselves if they are a Dataset, else their columns."""
    return data if isinstance(data, Dataset) else Columns(data)


def check_names(given: Collection[str], model: Model) -> None:
    """Raise UnknownNameError if a value is given for what is not a parameter of the model."""
    for name in given:
        if name in model.columns:
            raise UnknownNameError(f"`{name}` is a column of the data; only parameters take a value")
        if name not in model.parameters:
            raise UnknownNameError(f"the model has no parameter `{name}`", suggestion=suggest(name, model.parameters))


def load(dataset: Dataset, model: Model, options: DataOptions) -> Table:
    """The columns that a model uses, the weights among them under the name `WEIGHT`; classes as labels.

    Raises:
        DataError: if the data, or the weights, cannot be used.
    """
    what, given = ("weights", options.weights) if options.sigma is None else ("sigma", options.sigma)
    named = [given] if isinstance(given, str) else []
    for name in named:
        if name not in dataset.names:
            raise DataError(f"{what}: the data have no column `{name}` ({in_brief(dataset.names)})")
    wanted = {*model.columns, *named} - {model.class_column}
    table = dataset.load(wanted, drop_missing=options.drop_missing, labels=model.class_column)
    if given is None:
        return table
    values = table.columns[given] if isinstance(given, str) else numbers(given, what)
    if len(values) != table.rows:
        raise DataError(f"{what}: {len(values)} values for {table.rows} rows")
    wrong = ~(values >= 0) if options.sigma is None else ~(values > 0)
    wrong |= np.isinf(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        needed = "a weight cannot be negative" if options.sigma is None else "a standard deviation must be positive"
        raise DataError(f"{what}: row {row + 1} has {values[row]}; {needed}")
    weight = values if options.sigma is None else 1 / np.square(values)
    if not weight.any():
        raise DataError(f"{what}: every weight is 0")
    return Table({**table.columns, WEIGHT: weight}, table.rows, table.dropped, table.labels)
