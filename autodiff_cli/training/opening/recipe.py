"""What a model's columns are made of, chunk by chunk."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.streaming.columns import label
from autodiff_cli.training.rows.protocol import WEIGHT, Columns

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ColumnRecipe:
    """The columns that kernels read, out of columns of numbers and of codes of labels. It can be pickled.

    Attributes:
        numbers: the columns that are taken as they are.
        weight: the column of weights, and whether it holds standard deviations instead.
        others: columns that have another name there, by the one that kernels read.
        coded: columns of values by code, by the name that kernels read: that of the labels, and the value of each code.
        gathered: vectors, by the name of each: their columns.
    """

    numbers: tuple[str, ...]
    weight: tuple[str, bool] | None = None
    others: Mapping[str, str] = field(default_factory=dict)
    coded: Mapping[str, tuple[str, Array]] = field(default_factory=dict)
    gathered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def names(self) -> Set[str]:
        """The columns that it makes."""
        weight = set() if self.weight is None else {WEIGHT}
        return {*self.numbers, *weight, *self.others, *self.coded, *self.gathered}

    def needs(self, wanted: Set[str]) -> set[str]:
        """The columns that it needs for those."""
        found = {name for name in self.numbers if name in wanted}
        for names in (self.gathered[name] for name in wanted & self.gathered.keys()):
            found |= self.needs({*names})
        found |= {self.others[name] for name in wanted & self.others.keys()}
        found |= {label(self.coded[name][0]) for name in wanted & self.coded.keys()}
        return found | ({self.weight[0]} if self.weight is not None and WEIGHT in wanted else set())

    def made(self, columns: Columns, wanted: Set[str]) -> dict[str, NDArray[Any]]:
        """These columns, of some rows."""
        found: dict[str, NDArray[Any]] = {name: columns[name] for name in wanted & {*self.numbers}}
        for name in wanted & self.others.keys():
            found[name] = columns[self.others[name]]
        for name in wanted & self.coded.keys():
            own, values = self.coded[name]
            found[name] = values[columns[label(own)].astype(np.intp)]
        for name in wanted & self.gathered.keys():
            parts = self.made(columns, {*self.gathered[name]})
            found[name] = np.stack([parts[part] for part in self.gathered[name]])
        if self.weight is not None and WEIGHT in wanted:
            name, is_sigma = self.weight
            found[WEIGHT] = 1 / np.square(columns[name]) if is_sigma else columns[name]
        return found
