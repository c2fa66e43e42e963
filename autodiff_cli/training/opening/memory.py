"""The data of a fit in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from autodiff_cli.data.table import Dataset
from autodiff_cli.language.columns import Match
from autodiff_cli.training.levels.indicators import indicators, levels_of
from autodiff_cli.training.objective.graphs import Graphs
from autodiff_cli.training.objective.labels import Classes, encoded
from autodiff_cli.training.objective.loading import load
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.options import DataOptions
from autodiff_cli.training.rows.memory import InMemory
from autodiff_cli.training.rows.protocol import WEIGHT, Rows


class LoadedData:
    """The columns that a model uses, read as a whole. See `load`, also for what is raised.

    Attributes:
        rows: how many there are.
        weighted: whether they have weights.
    """

    def __init__(self, dataset: Dataset, model: Model, options: DataOptions) -> None:
        self._table, self._labels = load(dataset, model, options)
        self.rows = self._table.rows
        self.weighted = WEIGHT in self._table.columns

    def classes(self, name: str) -> Classes:
        """The classes in a column, which is their positions from now on. Raises DataError; see `encoded`."""
        found, codes = encoded(self._labels[name], name)
        self._add({name: codes})
        return found

    def levels(self, name: str) -> tuple[Any, ...]:
        """The different labels in a column, sorted."""
        return levels_of(self._labels[name])

    def match(self, matches: Mapping[str, Match]) -> list[str]:
        """Add the columns of 1 and 0 that matches are, by the names of their leaves; returns those of 0 alone."""
        self._add(indicators(matches, self._labels))
        return [name for name in matches if not self._table.columns[name].any()]

    def over(self, graphs: Graphs) -> Rows:
        """The rows, with the columns that graphs read."""
        return InMemory(graphs.extended(self._table))

    def _add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self._table = dataclasses.replace(self._table, columns={**self._table.columns, **columns})
