"""The data of a fit, streamed: read in chunks at every pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.files import DataFile
from autodiff_cli.data.several import SeveralFiles
from autodiff_cli.data.streaming.columns import StreamedColumns
from autodiff_cli.data.streaming.memory import RESERVED, available
from autodiff_cli.data.table import DataError
from autodiff_cli.language.columns import Match
from autodiff_cli.limits import has_limits
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.levels.indicators import levels_of
from autodiff_cli.training.objective.graphs import Graphs
from autodiff_cli.training.objective.labels import Classes, checked_classes
from autodiff_cli.training.objective.loading import NO_WEIGHT, SIGMA, check_counting, counting_columns
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.opening.recipe import ColumnRecipe
from autodiff_cli.training.options import DataOptions, Options
from autodiff_cli.training.rows.protocol import WEIGHT
from autodiff_cli.training.rows.streamed import StreamedRows

_SMALL = 64 << 20  # bytes of columns that nobody streams unasked
_NUMBER, _LABEL = 8, 64  # bytes of one in memory
_SHARE = 2  # part of the memory that columns may take


class StreamedData:
    """See `LoadedData`.

    Raises:
        DataError: see `StreamedColumns`.
        OptionError: for columns that are arrays in memory.
    """

    def __init__(self, files: DataFile | SeveralFiles, model: Model, options: Options, why: str) -> None:
        rows = options.data
        self._weight: tuple[str, bool] | None = None
        self._others: dict[str, str] = {}
        self._counting: dict[str, str] = {}
        for words, (column, given) in counting_columns(files, rows).items():
            if not isinstance(given, str):
                raise OptionError(f"{words}: an array goes with rows in memory; of streamed ones it is a column's name")
            self._counting[words] = given
            if column == WEIGHT:
                self._weight = given, words == SIGMA
            else:
                self._others[column] = given
        classes = model.class_column
        self._numbers = sorted({*model.numeric, *rows.columns} - {classes})
        texts = [*dict.fromkeys([*([] if classes is None else [classes]), *model.labelled])]
        self._has_weight = False
        self._columns = StreamedColumns(
            files,
            self._numbers,
            texts,
            why,
            rows.drop_missing,
            keep=options.method.batch_size is not None,
            inspect=self._inspect if rows.columns else None,
            listen=files.listen,
        )
        files.streamed = self._columns
        if self._weight is not None and not self._has_weight:
            raise DataError(NO_WEIGHT)
        self._coded: dict[str, tuple[str, NDArray[np.float64]]] = {}
        self.rows = self._columns.rows
        self.weighted = self._weight is not None

    def classes(self, name: str) -> Classes:
        """See `LoadedData.classes`."""
        found, places = np.unique(self._columns.labels[name].values, return_inverse=True)
        classes = checked_classes(found, self.rows, name)
        self._coded[name] = name, places.astype(np.float64)
        return classes

    def levels(self, name: str) -> tuple[Any, ...]:
        """See `LoadedData.levels`."""
        return levels_of(self._columns.labels[name].values)

    def match(self, matches: Mapping[str, Match]) -> list[str]:
        """See `LoadedData.match`."""
        for name, match in matches.items():
            texts = self._columns.labels[match.column].values.astype(str)
            self._coded[name] = match.column, (texts == match.text).astype(np.float64)
        return [name for name in matches if not self._coded[name][1].any()]

    def over(self, graphs: Graphs) -> StreamedRows:
        """See `LoadedData.over`."""
        recipe = ColumnRecipe(tuple(self._numbers), self._weight, self._others, self._coded, graphs.gathered)
        return StreamedRows(self._columns, recipe)

    def _inspect(self, columns: Mapping[str, NDArray[Any]], before: int) -> None:
        """Look at the weights of a chunk."""
        for words, name in self._counting.items():
            check_counting(words, columns[name], before)
        if self._weight is not None and not self._has_weight:
            self._has_weight = bool(columns[self._weight[0]].any())


def of_model(dataset: DataFile | SeveralFiles, model: Model, options: DataOptions) -> str | None:
    """Why the rows of a fit cannot come into memory, in words; None where they can."""
    numbers = len({*model.numeric, *options.columns})
    return too_large(dataset, numbers, len({*model.labelled, model.class_column} - {None}))


def too_large(dataset: DataFile | SeveralFiles, numbers: int, labels: int) -> str | None:
    """Why so many columns of numbers and of labels cannot come into memory, in words; None where they can."""
    needed = dataset.rows_about() * (_NUMBER * numbers + _LABEL * labels)
    if needed < _SMALL:
        return None
    left = available()
    if left is not None and has_limits():
        left = max(0, left - RESERVED)
    if left is None or needed * _SHARE <= left:
        return None
    return f"their columns take about {_size(needed)}, more than half of the memory that is left ({_size(left)})"


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"
