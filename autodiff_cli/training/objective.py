"""The objective: what a fit makes small, as a function of the parameters alone.

A (weighted) mean over rows is a sum of terms per row, so everything a fit asks for is computed per block of rows and
combined by a fold: the loss and its gradient by adding, least squares by the QR factorization of stacked triangles.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.autodiff.simplify import share, simplify
from autodiff_cli.backends.blocks import BLOCK, Kernel, evaluate
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.language.errors import UnknownNameError, suggest
from autodiff_cli.numbers.arrays import quiet
from autodiff_cli.training.data import Columns, DataError, Dataset, Table, numbers
from autodiff_cli.training.fold import fold
from autodiff_cli.training.losses import LOSSES
from autodiff_cli.training.model import Model

Array = NDArray[np.float64]
T = TypeVar("T")

_WEIGHT = ""  # the column of weights; no column of a model has an empty name


class OptionError(ValueError):
    """An option that does not exist, cannot have that value, or does not go with another."""


class Objective:
    """The mean loss of a model over data, `Σ w·ℓ / Σ w`, and its gradient.

    Args:
        model: `target ~ prediction`, or an expression that is itself the loss of a row.
        data: the columns by name, or a Dataset. Names of the model that it lacks are parameters.
        loss: what a row costs: `mse`, `mae`, `huber` or `bce`. Without a `~` there is no choice.
        weights: one per row, or the name of the column that holds them; 1 by default.
        sigma: standard deviations of the target instead: the weights are 1/sigma².
        fixed: parameters that keep a value.
        drop_missing: leave out rows with a missing cell, which are an error otherwise.

    Attributes:
        parameters: the names of the free parameters, in order of appearance: the order of every `theta`.
        rows: how many there are.

    Raises:
        ExpressionError: if the model cannot be read, or does not have a name that is fixed.
        DataError: if the data cannot be used.
        OptionError: for an unknown loss, or one that does not go with the model.
    """

    def __init__(
        self,
        model: str | Model,
        data: Mapping[str, ArrayLike] | Dataset,
        loss: str = "mse",
        weights: ArrayLike | str | None = None,
        *,
        sigma: ArrayLike | str | None = None,
        fixed: Mapping[str, float] | None = None,
        drop_missing: bool = False,
    ) -> None:
        dataset = as_dataset(data)
        self.fixed = {name: float(value) for name, value in (fixed or {}).items()}
        self.model = model if isinstance(model, Model) else Model.read(model, dataset.names, self.fixed)
        check_names(self.fixed, self.model)
        self.parameters = tuple(name for name in self.model.parameters if name not in self.fixed)
        self.loss = loss
        self._triangles: dict[bytes, Array] = {}  # the last one, by its theta
        self._row_loss = _row_loss(self.model, loss)
        self.table = _load(dataset, self.model, weights, sigma, drop_missing)
        self.weighted = _WEIGHT in self.table.columns
        if self.has_target:
            self._check_target()

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.table.rows

    @property
    def has_target(self) -> bool:
        """Whether the model is `target ~ prediction`, so that there are residuals."""
        return self.model.program.target is not None

    def restricted(self, rows: Any) -> Objective:
        """The same objective over some of the rows: a slice or row numbers."""
        part = copy.copy(self)
        part.table = self.table.part(rows)
        part._triangles = {}
        return part

    def batches(self, size: int, generator: np.random.Generator) -> Iterator[Objective]:
        """All rows in a new random order, as objectives over `size` of them each (the last one over what is left)."""
        shuffled = self.restricted(generator.permutation(self.rows))
        return (shuffled.restricted(slice(start, start + size)) for start in range(0, self.rows, size))

    def value_and_grad(self, theta: ArrayLike) -> tuple[float, Array]:
        """The mean loss and its gradient.

        Args:
            theta: values of the free parameters, of shape (P,).

        Returns:
            The loss, and an array of shape (P,). Where the loss is not defined they are nan; nothing is raised.
        """
        with quiet():
            total = self._fold(self._loss_and_slopes, theta, _sums, np.add) / self.total_weight
        return float(total[0]), total[1:]

    def triangle(self, theta: ArrayLike) -> Array:
        """The triangular factor R of the matrix [J | r], whose rows are those of the data times the root of the weight.

        r is target minus prediction, J its derivative. R, of shape (P+1, P+1), holds all that least squares needs:
        `Rᵀ·R = [J | r]ᵀ·[J | r]`. Its last column has the length of the residuals. Only for a model with a target.
        """
        key = np.asarray(theta, dtype=np.float64).tobytes()
        if key not in self._triangles:
            self._triangles = {key: self._factorized(theta)}
        return self._triangles[key]

    def _factorized(self, theta: ArrayLike) -> Array:
        width = len(self.parameters) + 1

        def factor(values: list[Any], part: Table) -> Array:
            block = np.empty((width, part.rows))
            for row, value in zip(block, [*values[1:], values[0]], strict=True):
                row[:] = value
            if self.weighted:
                block *= np.sqrt(part.columns[_WEIGHT])
            return _qr(block.T)

        with quiet():
            found = self._fold(self._residual_and_slopes, theta, factor, lambda a, b: _qr(np.vstack((a, b))))
        triangle = np.zeros((width, width))
        triangle[: len(found)] = found
        triangle.setflags(write=False)  # it is kept
        return triangle

    def mean_of_squares(self, rss: float) -> float:
        """The mean that belongs to a weighted sum."""
        return rss / self.total_weight

    def target_variation(self) -> float:
        """The (weighted) sum of squares of the target about its mean: what R² compares the residuals with."""

        def moments(values: list[Any], part: Table) -> tuple[float, float, float]:
            weight = part.columns.get(_WEIGHT)
            count = _total(1.0, weight, part.rows)
            mean = _total(values[0], weight, part.rows) / count if count else 0.0
            return count, mean, _total(np.square(values[0] - mean), weight, part.rows)

        with quiet():
            return self._fold(self._target, np.zeros(len(self.parameters)), moments, _join_moments)[2]

    def hessian(self, theta: ArrayLike) -> Array:
        """The second derivatives of the (weighted) sum of the rows' losses, of shape (P, P)."""
        count = len(self.parameters)
        upper = np.triu_indices(count)
        leaves = [self.model.program.leaves[name] for name in self.parameters]
        loss, *leaves = share([self._row_loss, *leaves])
        slopes = gradient_nodes(loss, leaves)
        curvatures = [node for k, slope in enumerate(slopes) for node in gradient_nodes(slope, leaves[k:])]
        kernel = Kernel(simplify(curvatures), self.model.columns)
        hessian = np.zeros((count, count))
        with quiet():
            hessian[upper] = self._fold(kernel, theta, _sums, np.add)
        return hessian + np.triu(hessian, 1).T

    def point(self, theta: ArrayLike) -> dict[str, float]:
        """The value of every parameter by name, the fixed ones too."""
        free = zip(self.parameters, np.asarray(theta, dtype=np.float64).tolist(), strict=True)
        return {**dict(free), **self.fixed}

    def _fold(
        self,
        kernel: Kernel,
        theta: ArrayLike,
        reduce: Callable[[list[Any], Table], T],
        combine: Callable[[T, T], T],
    ) -> T:
        prepared = kernel.prepare(self.point(theta))
        return fold((reduce(kernel.block(prepared, part.columns), part) for part in self.table.parts(BLOCK)), combine)

    @property
    def total_weight(self) -> float:
        """The sum of the weights: how many rows there are, if none are given."""
        return _total(1.0, self.table.columns.get(_WEIGHT), self.rows)

    def _check_target(self) -> None:
        """Raise DataError if the target is not finite, or no probability where the loss needs one."""

        def extremes(values: list[Any], _: Table) -> Array:
            return np.array([np.min(values[0]), -np.max(values[0])])

        with quiet():
            found = self._fold(self._target, np.zeros(len(self.parameters)), extremes, np.minimum)
        least, most = found[0], -found[1]
        if not np.isfinite(found).all():
            raise DataError(f"the left side of `~` is not finite {self._where_not_finite(self.model.program.target)}")
        if self.loss == "bce" and not (least >= 0 and most <= 1):
            raise DataError(f"the loss bce needs a target between 0 and 1; this one goes from {least:g} to {most:g}")

    def where_undefined(self, theta: ArrayLike) -> str:
        """The first row whose loss is not finite, in words; empty if there is none."""
        return self._where_not_finite(self._row_loss, theta)

    def _where_not_finite(self, node: Node | None, theta: ArrayLike | None = None) -> str:
        assert node is not None
        point = {} if theta is None else self.point(theta)
        bad = ~np.isfinite(evaluate([node], {**point, **self.table.columns})[0])
        if not bad.any():
            return ""
        row = int(np.argmax(bad))
        cells = (f"{name} = {self.table.columns[name][row]:g}" for name in self.model.columns)
        return f"in row {row + 1} ({', '.join(cells)})"

    @cached_property
    def _target(self) -> Kernel:
        assert self.model.program.target is not None
        return Kernel([self.model.program.target], self.model.columns)

    @cached_property
    def _loss_and_slopes(self) -> Kernel:
        return self._kernel(self._row_loss)

    @cached_property
    def _residual_and_slopes(self) -> Kernel:
        assert self.model.program.target is not None
        return self._kernel(self.model.program.target - self.model.program.output)

    def _kernel(self, output: Node) -> Kernel:
        """The output and its derivative towards each free parameter, over rows."""
        leaves = [self.model.program.leaves[name] for name in self.parameters]
        shared = share([output, *leaves])
        return Kernel(simplify([shared[0], *gradient_nodes(shared[0], shared[1:])]), self.model.columns)


def as_dataset(data: Mapping[str, ArrayLike] | Dataset) -> Dataset:
    """The data themselves if they are a Dataset, else their columns."""
    return data if isinstance(data, Dataset) else Columns(data)


def check_names(given: Mapping[str, float], model: Model) -> None:
    """Raise UnknownNameError if a value is given for what is not a parameter of the model."""
    for name in given:
        if name in model.columns:
            raise UnknownNameError(f"`{name}` is a column of the data; only parameters take a value")
        if name not in model.parameters:
            raise UnknownNameError(f"the model has no parameter `{name}`", suggestion=suggest(name, model.parameters))


def _row_loss(model: Model, loss: str) -> Node:
    if loss not in LOSSES:
        raise OptionError(f"there is no loss {loss}; there are {', '.join(LOSSES)}")
    program = model.program
    if program.target is not None:
        return LOSSES[loss](program.target, program.output)
    if loss != "mse":
        raise OptionError(f"the loss {loss} compares two things: write the model as `target ~ prediction`")
    return program.output


def _load(
    dataset: Dataset,
    model: Model,
    weights: ArrayLike | str | None,
    sigma: ArrayLike | str | None,
    drop_missing: bool,
) -> Table:
    if weights is not None and sigma is not None:
        raise OptionError("weights and sigma say the same thing in two ways (weights = 1/sigma²): give one of them")
    what, given = ("weights", weights) if sigma is None else ("sigma", sigma)
    named = [given] if isinstance(given, str) else []
    for name in named:
        if name not in dataset.names:
            raise DataError(f"{what}: the data have no column `{name}` ({', '.join(dataset.names)})")
    table = dataset.load({*model.columns, *named}, drop_missing=drop_missing)
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
    return Table({**table.columns, _WEIGHT: weight}, table.rows, table.dropped)


def _sums(values: list[Any], part: Table) -> Array:
    """The (weighted) sum over the rows of each output."""
    weight = part.columns.get(_WEIGHT)
    return np.array([_total(value, weight, part.rows) for value in values])


def _total(value: Any, weight: Array | None, rows: int) -> float:
    """The (weighted) sum over rows of an array, or of a number that is the same in all of them."""
    if weight is not None:
        return float(np.sum(value * weight))
    return float(np.sum(value)) if np.ndim(value) else float(value * rows)


def _qr(matrix: Array) -> Array:
    """The triangular factor, of shape (least of rows and columns, columns)."""
    triangle: Array = np.linalg.qr(matrix, mode="r")  # type: ignore[assignment]
    return triangle


def _join_moments(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    """Count, mean and sum of squared deviations of two groups together: Chan, Golub & LeVeque 1983."""
    count = a[0] + b[0]
    if not count:
        return 0.0, 0.0, 0.0
    gap = b[1] - a[1]
    return count, a[1] + gap * b[0] / count, a[2] + b[2] + gap * gap * a[0] * b[0] / count
