"""Rows of a dataset that several models, or several fits, have in common."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from numpy.typing import NDArray

from autodiff_cli.data.table import DataError, Dataset, Table
from autodiff_cli.language.lexer import canonical
from autodiff_cli.training.levels.indicators import load_with_labels
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.options import DataOptions


class SharedRows:
    """A dataset of the rows that all can use, read once.

    Args:
        models: whose columns are needed.
        more: a column of labels besides, or of any numbers.

    Attributes:
        labels: of each column that is read by them.

    Raises:
        DataError: see `Dataset.load`.
    """

    def __init__(
        self, dataset: Dataset, models: Sequence[Model], options: DataOptions, more: str | None = None
    ) -> None:
        self.names = dataset.names
        classes = {model.class_column for model in models} - {None}
        read = [*classes, *(name for model in models for name in model.labelled), more]
        columns = {name for model in models for name in model.numeric} | {canonical(name) for name in options.columns}
        wanted = [name for name in dict.fromkeys(read) if name is not None]
        columns -= classes
        try:
            self._table, self.labels = load_with_labels(dataset, columns, wanted, options.drop_missing)
        except DataError as error:
            if more is None or more in classes or error.missing:
                raise
            self._take_numbers(dataset, columns, [name for name in wanted if name != more], options, more, error)

    def _take_numbers(
        self,
        dataset: Dataset,
        columns: set[str],
        labels: Sequence[str],
        options: DataOptions,
        more: str,
        error: DataError,
    ) -> None:
        """The same where the column of labels holds numbers that are not whole. Raises the error if it does not."""
        try:
            self._table, self.labels = load_with_labels(dataset, columns | {more}, labels, options.drop_missing)
        except DataError:
            raise error from None
        self.labels[more] = self._table.columns[more]

    def load(self, wanted: Collection[str], *, drop_missing: bool = False, labels: str | None = None) -> Table:  # noqa: ARG002
        """See `Dataset.load`. What is missing has been seen to."""
        columns = {name: values for name, values in self._table.columns.items() if name in wanted}
        named: NDArray[Any] | None = None if labels is None else self.labels[labels]
        return Table(columns, self._table.rows, self._table.dropped if labels is None else 0, named)
