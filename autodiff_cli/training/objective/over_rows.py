"""A model over rows of data, and what is computed of it: for each row, for blocks of them, for all."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.backends.fold import fold, slices
from autodiff_cli.backends.protocol import RowKernel, SumKernel
from autodiff_cli.data.table import Table
from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.keeping.answers import Answers
from autodiff_cli.training.objective.graphs import WEIGHT
from autodiff_cli.training.objective.kernels import Kernels
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.parameters import ParameterLayout

Array = NDArray[np.float64]
T = TypeVar("T")


class ModelOverRows:
    """A model, the rows that it is about, and the kernels that run it over them. See `Objective` for the attributes."""

    model: Model
    table: Table
    layout: ParameterLayout
    fixed: dict[str, Any]
    weighted: bool
    kernels: Kernels
    settings: dict[str, float]
    answers: Answers | None
    _triangles: dict[bytes, Array]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the free parameters, in order of appearance."""
        return self.layout.names

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.table.rows

    @property
    def total_weight(self) -> float:
        """The sum of the weights: how many rows there are, if none are given."""
        return float(np.sum(self.table.columns[WEIGHT])) if self.weighted else float(self.rows)

    @property
    def components(self) -> int:
        """How many numbers the target of a row has."""
        return int(np.prod(self.model.target_shape, dtype=np.intp))

    def restricted(self, rows: Any) -> Self:
        """The same over some of the rows: a slice or row numbers."""
        part = copy.copy(self)
        part.table = self.table.part(rows)
        part._triangles = {}
        part.settings = dict(self.settings)  # a scale that is found for some rows is theirs
        part.answers = None
        return part

    def point(self, theta: ArrayLike) -> dict[str, Any]:
        """The value of every parameter by name, the fixed ones too. Arrays are views of `theta`."""
        values = self.layout.views(np.asarray(theta, dtype=np.float64))
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
        return kernel.sums(point, self.table.columns, self.table.rows)

    def per_row(self, kernel: RowKernel, theta: ArrayLike) -> Array:
        """What a kernel gives for all rows, of shape (numbers, rows).

        >>> from autodiff_cli import Objective
        >>> objective = Objective("y ~ a*x", {"x": [1, 2], "y": [2, 5]})
        >>> objective.per_row(objective.kernels.residuals, [2])
        array([[0., 1.]])
        """
        found = np.empty((kernel.numbers, self.rows))
        kernel.write(kernel.prepare(self.point(theta)), self.table.columns, found)
        return found

    def fold_rows(
        self,
        kernel: RowKernel,
        theta: ArrayLike,
        reduce: Callable[[Array, slice], T],
        combine: Callable[[T, T], T],
    ) -> T:
        """What a kernel gives for each block of rows, of shape (numbers, rows of the block), reduced and combined.

        `reduce` may change what it is given, and must not keep it.

        >>> from autodiff_cli.backends.choice import backend
        >>> from autodiff_cli.backends.protocol import RowGraphs
        >>> from autodiff_cli import Objective
        >>> objective = Objective("y ~ a*x", {"x": [1, 2], "y": [2, 5]})
        >>> graphs = RowGraphs([objective.model.program.output], {"x"})
        >>> objective.fold_rows(backend().rows(graphs), [3], lambda values, _: values.max(), max)
        np.float64(6.0)
        """
        prepared = kernel.prepare(self.point(theta))
        columns = {name: self.table.columns[name] for name in kernel.names.intersection(self.table.columns)}
        space = np.empty(kernel.numbers * min(kernel.block_rows, self.rows))

        def reduced(part: slice) -> T:
            count = part.stop - part.start
            block = space[: kernel.numbers * count].reshape(kernel.numbers, count)
            kernel.write(prepared, {name: column[..., part] for name, column in columns.items()}, block)
            return reduce(block, part)

        with quiet():
            return fold(map(reduced, slices(self.rows, kernel.block_rows)), combine)


def triangular(matrix: Array) -> Array:
    """The triangular factor, of shape (least of rows and columns, columns)."""
    triangle: Array = np.linalg.qr(matrix, mode="r")  # type: ignore[assignment]
    return triangle


def join_moments(a: tuple[float, Array, Array], b: tuple[float, Array, Array]) -> tuple[float, Array, Array]:
    """Count, means and sums of squared deviations of two groups together: Chan, Golub & LeVeque 1983."""
    count = a[0] + b[0]
    if not count:
        return a
    gap = b[1] - a[1]
    return count, a[1] + gap * b[0] / count, a[2] + b[2] + gap * gap * a[0] * b[0] / count
