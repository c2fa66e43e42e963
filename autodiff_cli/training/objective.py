"""The objective: what a fit makes small, as a function of the parameters alone.

A (weighted) mean over rows is a sum of terms per row, so everything a fit asks for is computed per block of rows and
combined by a fold: the loss and its gradient by adding, least squares by the QR factorization of stacked triangles.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.backends.blocks import Kernel
from autodiff_cli.numbers.arrays import quiet
from autodiff_cli.training.data import DataError, Dataset, Table
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.fold import fold
from autodiff_cli.training.graphs import WEIGHT, default_loss, graphs
from autodiff_cli.training.initial import NUMBER, initial_arrays
from autodiff_cli.training.kernels import DIRECTION, Kernels
from autodiff_cli.training.labels import Classes, encoded
from autodiff_cli.training.loading import as_dataset, check_names, load
from autodiff_cli.training.model import Model
from autodiff_cli.training.parameters import Layout, checked

Array = NDArray[np.float64]
T = TypeVar("T")


class Objective:
    """The mean loss of a model over data, `Σ w·ℓ / Σ w`, and its gradient.

    The loss of a row whose target is a vector is the mean over its components. A model `column ~ softmax(…)` tells
    classes apart: the column holds whole numbers or texts, and the loss is the cross-entropy.

    Args:
        model: `target ~ prediction`, or an expression that is itself the loss of a row.
        data: the columns by name, or a Dataset. Names of the model that it lacks are parameters.
        loss: what a row costs: `mse`, `mae`, `huber` or `bce`. Without a `~` there is no choice; for classes it is
            `cross_entropy`.
        weights: one per row, or the name of the column that holds them; 1 by default.
        sigma: standard deviations of the target instead: the weights are 1/sigma².
        fixed: parameters that keep a value; None keeps the one that they start with.
        drop_missing: leave out rows with a missing cell, which are an error otherwise.
        start: where parameters begin. Numbers that are not named begin at 1, arrays as `initial_arrays` draws them.
        seed: of what is drawn.
        recompute_every: compute again what lies within so many layers, instead of keeping it for the gradient.

    Attributes:
        model: resolved: all shapes are known.
        parameters: the names of the free parameters, in order of appearance.
        layout: where their numbers lie in every `theta`, a vector of shape (P,).
        fixed: the values of the others.
        start: the `theta` to begin with.
        given: the parameters whose start was given.
        loss: the name of the loss.
        classes: the labels, sorted, of a model that tells classes apart; else None.
        table: the rows. Of a class column it holds positions among `classes`.

    Raises:
        ExpressionError: if the model cannot be read, if shapes do not fit, or if it lacks a name that has a value.
        DataError: if the data cannot be used.
        OptionError: for an unknown loss, or one that does not go with the model.

    >>> objective = Objective("y ~ a*x + b", {"x": [0, 1, 2], "y": [1, 3, 5]})
    >>> objective.parameters, objective.start
    (('a', 'b'), array([1., 1.]))
    """

    def __init__(
        self,
        model: str | Model,
        data: Mapping[str, ArrayLike] | Dataset,
        loss: str = "mse",
        weights: ArrayLike | str | None = None,
        *,
        sigma: ArrayLike | str | None = None,
        fixed: Mapping[str, ArrayLike | None] | None = None,
        drop_missing: bool = False,
        start: Mapping[str, ArrayLike] | None = None,
        seed: int = 0,
        recompute_every: int | None = None,
    ) -> None:
        dataset = as_dataset(data)
        begun = {name: checked(name, value) for name, value in (start or {}).items()}
        kept = {name: value if value is None else checked(name, value) for name, value in (fixed or {}).items()}
        given = begun | {name: value for name, value in kept.items() if value is not None}
        read = model if isinstance(model, Model) else Model.read(model, dataset.names, {**begun, **kept})
        check_names({**begun, **kept}, read)
        if recompute_every is not None and recompute_every < 1:
            raise OptionError(f"recompute_every is at least one layer, not {recompute_every}")
        self.loss = default_loss(read, loss)
        table = load(dataset, read, weights, sigma, drop_missing)
        self.classes: Classes | None = None
        if table.labels is not None and read.class_column is not None:
            self.classes, codes = encoded(table.labels, read.class_column)
            table = Table({**table.columns, read.class_column: codes}, table.rows, table.dropped)
        count = None if self.classes is None else len(self.classes)
        self.model = read.resolved(given, count)
        self.weighted = WEIGHT in table.columns
        built = graphs(self.model, self.loss, count, self.weighted)
        self.table = built.extended(table)
        values: dict[str, Any] = dict.fromkeys(self.model.parameters, NUMBER)
        values |= initial_arrays(self.model.array_parameters, self.model.program.initial, seed)
        values |= given
        self.fixed = {name: values[name] for name in self.model.parameters if name in kept}
        free = [name for name in self.model.parameters if name not in kept]
        self.layout = Layout(free, self.model.shapes)
        self.start = self.layout.gather([values[name] for name in free])
        self.given = frozenset(begun)
        leaves = [self.model.program.leaves[name] for name in free]
        self._kernels = Kernels(built, self.model.columns, leaves, recompute_every)
        self._triangles: dict[bytes, Array] = {}  # the last one, by its theta
        if self.has_residuals:
            self._check_target()

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the free parameters, in order of appearance."""
        return self.layout.names

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.table.rows

    @property
    def has_target(self) -> bool:
        """Whether the model is `target ~ prediction`."""
        return self.model.program.target is not None

    @property
    def is_network(self) -> bool:
        """Whether a parameter is free that belongs to a layer."""
        return any(name in self.model.program.initial for name in self.parameters)

    @property
    def has_residuals(self) -> bool:
        """Whether a target minus a prediction says something: not of classes."""
        return self.has_target and self.classes is None

    @property
    def total_weight(self) -> float:
        """The sum of the weights: how many rows there are, if none are given."""
        return float(np.sum(self.table.columns[WEIGHT])) if self.weighted else float(self.rows)

    @property
    def components(self) -> int:
        """How many numbers the target of a row has."""
        return int(np.prod(self.model.target_shape, dtype=np.intp))

    def restricted(self, rows: Any) -> Objective:
        """The same objective over some of the rows: a slice or row numbers."""
        part = copy.copy(self)
        part.table = self.table.part(rows)
        part._triangles = {}
        return part

    def batches(self, size: int, generator: np.random.Generator) -> Iterator[Objective]:
        """All rows in a new random order, as objectives over `size` of them each (the last one over what is left).

        They have a loss and a gradient; columns that these do not read are left out.
        """
        needed = copy.copy(self)
        needed.table = self.table.only(self._kernels.loss_and_slopes.names)
        shuffled = needed.restricted(generator.permutation(self.rows))
        return (shuffled.restricted(slice(start, start + size)) for start in range(0, self.rows, size))

    def value_and_grad(self, theta: ArrayLike) -> tuple[float, Array]:
        """The mean loss and its gradient.

        Args:
            theta: values of the free parameters, of shape (P,).

        Returns:
            The loss, and an array of shape (P,). Where the loss is not defined they are nan; nothing is raised.

        >>> Objective("y ~ a*x", {"x": [1, 2], "y": [2, 2]}).value_and_grad([2])
        (2.0, array([4.]))
        """
        layout = self.layout

        def gathered(values: list[Any], _: Table) -> Array:
            flat = layout.gather(values[1:], 1)
            flat[:1] = values[0]
            return flat

        with quiet():
            total = self._fold(self._kernels.loss_and_slopes, theta, gathered, np.add)
            total /= self.total_weight
        return float(total[0]), total[1:]

    def value(self, theta: ArrayLike) -> float:
        """The mean loss alone.

        >>> Objective("y ~ a*x", {"x": [1, 2], "y": [2, 2]}).value([2])
        2.0
        """
        with quiet():
            return self._fold(self._kernels.loss, theta, lambda values, _: _number(values[0]), _add) / self.total_weight

    def rss(self, theta: ArrayLike) -> float:
        """The (weighted) sum of squared residuals over all components. Only with residuals."""
        with quiet():
            return self._fold(self._kernels.squares, theta, lambda values, _: sum(map(_number, values)), _add)

    def triangle(self, theta: ArrayLike) -> Array:
        """The triangular factor R of the matrix [J | r], whose rows are those of the data times the root of the weight.

        r is target minus prediction, J its derivative; a row with a vector has a row of the matrix for each component.
        R, of shape (P+1, P+1), holds all that least squares needs: `Rᵀ·R = [J | r]ᵀ·[J | r]`. Its last column has the
        length of the residuals. Only with residuals.
        """
        key = np.asarray(theta, dtype=np.float64).tobytes()
        if key not in self._triangles:
            self._triangles = {key: self._factorized(theta)}
        return self._triangles[key]

    def _factorized(self, theta: ArrayLike) -> Array:
        layout = self.layout
        width = layout.size + 1
        places = [*layout.places.values(), slice(layout.size, width)]
        shapes = [*layout.shapes.values(), ()]

        def factor(values: list[Any], part: Table) -> Array:
            block = np.empty((width, self.components, part.rows))
            for k in range(self.components):
                for place, shape, value in zip(places, shapes, values[k * len(places) :], strict=False):
                    block[place, k].reshape((*shape, part.rows))[...] = value
            if self.weighted:
                block *= np.sqrt(part.columns[WEIGHT])
            return _qr(block.reshape(width, -1).T)

        with quiet():
            kernel = self._kernels.residuals_and_slopes
            found = self._fold(kernel, theta, factor, lambda a, b: _qr(np.vstack((a, b))))
        triangle = np.zeros((width, width))
        triangle[: len(found)] = found
        triangle.setflags(write=False)  # it is kept
        return triangle

    def mean_of_squares(self, rss: float) -> float:
        """The mean loss that belongs to a weighted sum."""
        return rss / (self.total_weight * self.components)

    def target_variation(self) -> float:
        """The (weighted) sum of squares of the target about its mean, component by component: what R² compares the
        residuals with."""

        def moments(values: list[Any], part: Table) -> tuple[float, Array, Array]:
            target = np.broadcast_to(np.atleast_2d(values[0]), (self.components, part.rows))
            weight = part.columns[WEIGHT] if self.weighted else np.ones(part.rows)
            count = float(np.sum(weight))
            mean = np.sum(target * weight, axis=1) / count if count else np.zeros(self.components)
            return count, mean, np.sum(weight * np.square(target - mean[:, None]), axis=1)

        with quiet():
            found = self._fold(self._kernels.target, np.zeros(self.layout.size), moments, _join_moments)
        return float(np.sum(found[2]))

    def hessian(self, theta: ArrayLike) -> Array:
        """The second derivatives of the (weighted) sum of the rows' losses, of shape (P, P)."""
        layout = self.layout
        hessian = np.empty((layout.size, layout.size))
        with quiet():
            for which, (name, shape) in enumerate(layout.shapes.items()):
                kernel = self._kernels.curvatures(which)
                place = layout.places[name]
                for row, unit in zip(range(place.start, place.stop), np.eye(place.stop - place.start), strict=True):
                    moved = {DIRECTION: unit.reshape(shape)} if shape else {}
                    hessian[row] = self._fold(kernel, theta, lambda values, _: layout.gather(values), np.add, moved)
        return (hessian + hessian.T) / 2

    def confusion(self, theta: ArrayLike) -> NDArray[np.int64]:
        """How many rows of each class (a row of the table) are taken for which (a column). Only with classes."""
        assert self.classes is not None
        count = len(self.classes)

        def counts(values: list[Any], part: Table) -> NDArray[np.int64]:
            predicted = np.broadcast_to(np.argmax(values[1], axis=0), (part.rows,))
            cells = values[0].astype(np.intp) * count + predicted
            return np.bincount(cells, minlength=count * count).reshape(count, count)

        with quiet():
            return self._fold(self._kernels.target_and_prediction, theta, counts, np.add)

    def point(self, theta: ArrayLike) -> dict[str, Any]:
        """The value of every parameter by name, the fixed ones too. Arrays are views of `theta`."""
        return {**self.layout.views(np.asarray(theta, dtype=np.float64)), **self.fixed}

    def where_undefined(self, theta: ArrayLike) -> str:
        """The first row whose loss is not finite, in words; empty if there is none."""
        return self._where_not_finite(self._kernels.row_loss, theta)

    def _check_target(self) -> None:
        """Raise DataError if the target is not finite, or no probability where the loss needs one."""

        def extremes(values: list[Any], _: Table) -> Array:
            return np.array([np.min(values[0]), -np.max(values[0])])

        nowhere = np.zeros(self.layout.size)
        with quiet():
            found = self._fold(self._kernels.target, nowhere, extremes, np.minimum)
        least, most = found[0], -found[1]
        if not np.isfinite(found).all():
            where = self._where_not_finite(self._kernels.target, nowhere)
            raise DataError(f"the left side of `~` is not finite {where}")
        if self.loss == "bce" and not (least >= 0 and most <= 1):
            raise DataError(f"the loss bce needs a target between 0 and 1; this one goes from {least:g} to {most:g}")

    def _where_not_finite(self, kernel: Kernel, theta: ArrayLike) -> str:
        def finite(values: list[Any], part: Table) -> NDArray[np.bool_]:
            found = np.isfinite(np.atleast_2d(values[0])).all(axis=0)
            return np.broadcast_to(found, (part.rows,))

        with quiet():
            good = self._fold(kernel, theta, finite, lambda a, b: np.concatenate((a, b)))
        if good.all():
            return ""
        row = int(np.argmin(good))
        classes = self.model.class_column
        cells = (f"{name} = {self.table.columns[name][row]:g}" for name in self.model.columns if name != classes)
        return f"in row {row + 1} ({', '.join(cells)})"

    def _fold(
        self,
        kernel: Kernel,
        theta: ArrayLike,
        reduce: Callable[[list[Any], Table], T],
        combine: Callable[[T, T], T],
        more: Mapping[str, Any] | None = None,
    ) -> T:
        prepared = kernel.prepare({**self.point(theta), **(more or {})})
        parts = self.table.parts(kernel.rows)
        return fold((reduce(kernel.block(prepared, part.columns), part) for part in parts), combine)


def _qr(matrix: Array) -> Array:
    """The triangular factor, of shape (least of rows and columns, columns)."""
    triangle: Array = np.linalg.qr(matrix, mode="r")  # type: ignore[assignment]
    return triangle


def _join_moments(a: tuple[float, Array, Array], b: tuple[float, Array, Array]) -> tuple[float, Array, Array]:
    """Count, means and sums of squared deviations of two groups together: Chan, Golub & LeVeque 1983."""
    count = a[0] + b[0]
    if not count:
        return a
    gap = b[1] - a[1]
    return count, a[1] + gap * b[0] / count, a[2] + b[2] + gap * gap * a[0] * b[0] / count


def _number(total: Any) -> float:
    """The sum of a scalar over rows, which a kernel gives with or without an axis."""
    return float(np.ravel(total)[0])


def _add(a: float, b: float) -> float:
    return a + b
