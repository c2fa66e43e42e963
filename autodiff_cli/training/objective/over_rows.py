"""A model over rows of data, and what is computed of it: for each row, for blocks of them, for all."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Hashable, Mapping, Set
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.backends.protocol import RowKernel, SumKernel
from autodiff_cli.data.table import Table
from autodiff_cli.numbers.given import given_floats
from autodiff_cli.training.keeping.answers import Answers
from autodiff_cli.training.objective.kernels import Kernels
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.parameters import ParameterLayout
from autodiff_cli.training.rows.protocol import WEIGHT, Columns, Rows, Some
from autodiff_cli.training.rows.tasks import ColumnTask, FoldTask, OneColumn, SumTask, ValueTask, side_by_side

Array = NDArray[np.float64]
T = TypeVar("T")


class ModelOverRows:
    """A model, the rows that it is about, and the kernels that run it over them. See `Objective` for the attributes."""

    model: Model
    data: Rows
    layout: ParameterLayout
    fixed: dict[str, Any]
    weighted: bool
    kernels: Kernels
    settings: dict[str, float]
    answers: Answers | None
    _triangles: dict[bytes, Array]
    _of_rows: dict[str, Any]  # what has been found of the rows alone
    _of_point: tuple[bytes, dict[Hashable, Any]]  # the last point, and what has been found there

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the free parameters, in order of appearance."""
        return self.layout.names

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.data.rows

    @property
    def table(self) -> Table:
        """The rows in memory, where they are few or there already."""
        return self.data.table()

    @property
    def total_weight(self) -> float:
        """The sum of the weights: how many rows there are, if none are given."""
        if not self.weighted:
            return float(self.rows)
        total: float = self._known("total weight", lambda: self.fold_columns({WEIGHT}, _total, operator.add))
        return total

    @property
    def counted_rows(self) -> int:
        """How many of them have a weight that is not 0."""
        if not self.weighted:
            return self.rows
        count: int = self._known("counted rows", lambda: self.fold_columns({WEIGHT}, _counted, operator.add))
        return count

    @property
    def components(self) -> int:
        """How many numbers the target of a row has."""
        return self._known("components", lambda: math.prod(self.model.target_shape))

    def restricted(self, rows: Some) -> Self:
        """The same over some of the rows: a slice or row numbers."""
        return self.over(self.data.part(rows))

    def over(self, rows: Rows) -> Self:
        """The same over other rows."""
        part = copy.copy(self)
        part.data = rows
        part._triangles, part._of_rows, part._of_point = {}, {}, (b"", {})
        part.settings = dict(self.settings)  # a scale that is found for some rows is theirs
        part.answers = None
        return part

    def point(self, theta: ArrayLike) -> dict[str, Any]:
        """The value of every parameter by name, the fixed ones too. Arrays are views of `theta`."""
        values = self.layout.views(theta if type(theta) is np.ndarray else given_floats(theta))
        values |= self.fixed
        values |= self.settings
        return values

    def sums(self, kernel: SumKernel, theta: ArrayLike, more: Mapping[str, Any] | None = None) -> Array:
        """What a kernel sums up over all rows.

        Args:
            more: values of leaves that are no parameters.
        """
        point = self.point(theta)
        if more:
            point |= more
        return self.data.fold(SumTask(kernel, point), np.add)

    def per_row(self, kernel: RowKernel, theta: ArrayLike) -> Array:
        """What a kernel gives for all rows, of shape (numbers, rows): for few rows, since all of it is in memory.

        >>> from autodiff_cli import Objective
        >>> objective = Objective("y ~ a*x", {"x": [1, 2], "y": [2, 5]})
        >>> objective.per_row(objective.kernels.residuals, [2])
        array([[0., 1.]])
        """
        return self.data.fold(ValueTask(kernel, self.point(theta)), side_by_side)

    def fold_rows(
        self,
        kernel: RowKernel,
        theta: ArrayLike,
        reduce: Callable[[Array, Columns], T],
        combine: Callable[[T, T], T],
    ) -> T:
        """What a kernel gives for each block of rows, of shape (numbers, rows of the block), reduced and combined.

        Args:
            reduce: is handed that, which it may change and must not keep, and the columns of the block: those that the
                kernel reads, and the weights. It can be pickled, as can `combine`.

        >>> from autodiff_cli.backends.choice import backend
        >>> from autodiff_cli.backends.protocol import RowGraphs
        >>> from autodiff_cli import Objective
        >>> objective = Objective("y ~ a*x", {"x": [1, 2], "y": [2, 5]})
        >>> graphs = RowGraphs([objective.model.program.output], {"x"})
        >>> objective.fold_rows(backend().rows(graphs), [3], lambda values, _: values.max(), max)
        np.float64(6.0)
        """
        more = frozenset({WEIGHT} if self.weighted else ())
        return self.data.fold(FoldTask(kernel, self.point(theta), reduce, combine, more), combine)

    def fold_columns(self, names: Set[str], reduce: Callable[[Columns], T], combine: Callable[[T, T], T]) -> T:
        """What columns themselves say, block by block: see `ColumnTask`."""
        return self.data.fold(ColumnTask(frozenset(names), reduce, combine), combine)

    def once(self, what: Hashable, theta: Array, find: Callable[[], T]) -> T:
        """What is found at a point, which is remembered for the last of them."""
        point = np.array([*self.settings.values(), *theta]).tobytes()
        if self._of_point[0] != point:
            self._of_point = (point, {})
        known = self._of_point[1]
        if what not in known:
            known[what] = find()
        found: T = known[what]
        return found

    def column(self, name: str) -> Array:
        """A column of all rows in memory: of few rows."""
        return self.fold_columns({name}, OneColumn(name), side_by_side)

    def _known(self, what: str, find: Callable[[], T]) -> T:
        """What the rows alone say, found once."""
        if what not in self._of_rows:
            self._of_rows[what] = find()
        found: T = self._of_rows[what]
        return found


def _counted(columns: Columns) -> int:
    return int(np.count_nonzero(columns[WEIGHT]))


def _total(columns: Columns) -> float:
    return float(np.sum(columns[WEIGHT]))
