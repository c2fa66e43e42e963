"""From data to the table of rows that a model uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import ArrayLike

from autodiff_cli.language.errors import UnknownNameError, suggest
from autodiff_cli.training.data import Columns, DataError, Dataset, Table, numbers
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.graphs import WEIGHT
from autodiff_cli.training.model import Model


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


def load(
    dataset: Dataset,
    model: Model,
    weights: ArrayLike | str | None,
    sigma: ArrayLike | str | None,
    drop_missing: bool,
) -> Table:
    """The columns that a model uses, the weights among them under the name `WEIGHT`; classes as labels.

    Raises:
        DataError: if the data, or the weights, cannot be used.
        OptionError: if weights are given in two ways.
    """
    if weights is not None and sigma is not None:
        raise OptionError("weights and sigma say the same thing in two ways (weights = 1/sigma²): give one of them")
    what, given = ("weights", weights) if sigma is None else ("sigma", sigma)
    named = [given] if isinstance(given, str) else []
    for name in named:
        if name not in dataset.names:
            raise DataError(f"{what}: the data have no column `{name}` ({', '.join(dataset.names)})")
    wanted = {*model.columns, *named} - {model.class_column}
    table = dataset.load(wanted, drop_missing=drop_missing, labels=model.class_column)
    if given is None:
        return table
    values = table.columns[given] if isinstance(given, str) else numbers(given, what)
    if len(values) != table.rows:
        raise DataError(f"{what}: {len(values)} values for {table.rows} rows")
    wrong = ~(values >= 0) if sigma is None else ~(values > 0)
    wrong |= np.isinf(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        needed = "a weight cannot be negative" if sigma is None else "a standard deviation must be positive"
        raise DataError(f"{what}: row {row + 1} has {values[row]}; {needed}")
    weight = values if sigma is None else 1 / np.square(values)
    if not weight.any():
        raise DataError(f"{what}: every weight is 0")
    return Table({**table.columns, WEIGHT: weight}, table.rows, table.dropped, table.labels)
