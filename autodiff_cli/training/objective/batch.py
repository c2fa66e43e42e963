"""Batches of fits of one model, for methods that take the steps of all fits together.

`ObjectiveBatch` evaluates one objective after the other; their rows may be in memory, in files or on a cluster.
`GroupBatch` has all rows in memory and evaluates the fits of a batch in one call, with the parameters of each fit as
columns. The fits may be of groups of rows, of resamples, or of the same rows from several starting points.

All arrays have the fits as their first axis. Fits are selected by their numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from itertools import islice
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, Mask, ignore_float_errors
from autodiff_cli.backends.protocol import RowKernel
from autodiff_cli.training.losses import L1_FACTOR, L2_FACTOR, PRIOR_FACTOR, RESIDUAL_SCALE
from autodiff_cli.training.objective.objective import Objective, copy_with
from autodiff_cli.training.objective.parameters import Bounds
from autodiff_cli.training.rows import MAX_COPIED_ROWS, WEIGHT, MemoryRows, RowIndex, row_numbers, triangular_factor

Fits = NDArray[np.intp]  # the numbers of some fits of a batch
T = TypeVar("T", bound=np.generic)


class BatchSettings(NamedTuple):
    """Limits of rows and parameters that are evaluated together, and tolerances."""

    rows: int = 2**17  # rows of fits that are evaluated together, which bounds the memory of their matrices
    max_shared_rows: int = 2**13  # rows that fits share; with more, fits are evaluated one after the other
    max_parameters: int = 30  # parameters of a fit; with more, matrices dominate, which are not faster in batches
    max_gathered_rows: int = 2**19  # gathered rows of groups that are stored for the next evaluation
    rounding_share: float = 1e-20  # share of the variation of the target that counts as rounding of residuals
    flat_curvature: float = 1e-9  # curvature, relative to the largest with scaled parameters, that counts as 0
    zero_errors: float = 1e-6  # standard errors from 0 within which a parameter may have converged to 0


BATCH = BatchSettings()


class ObjectiveBatch:
    """Fits of several objectives, evaluated one after the other.

    Args:
        objectives: the objective of each fit; they may be the same.
        bounds: the bounds of all fits, of shape (P,) or (fits, P); by default the bounds of the first objective.

    Attributes:
        objective: the first objective, which has the model and the options of all fits.
        count: the number of fits.
    """

    def __init__(self, objectives: Sequence[Objective], bounds: Bounds | None = None) -> None:
        self.objectives, self.objective, self.count = objectives, objectives[0], len(objectives)
        self.bounds = bounds or self.objective.bounds

    def _call_each(self, method: str, fits: Fits, arguments: Array) -> Any:
        """Call a method of the objective of each of some fits with its argument, and return the results."""
        pairs = zip(fits.tolist(), arguments, strict=True)
        return np.array([getattr(self.objectives[fit], method)(argument) for fit, argument in pairs])

    def objective_of(self, fit: int) -> Objective:
        """Return the objective of one fit."""
        return self.objectives[fit]

    @property
    def target_counts(self) -> NDArray[np.intp]:
        """The number of target values of each fit."""
        return np.array([objective.target_count for objective in self.objectives])

    def total_weights(self, fits: Fits) -> Array:
        """Return the sum of the weights of each fit."""
        return np.array([self.objectives[fit].total_weight for fit in fits.tolist()])

    def take(self, fits: Fits, bounds: Bounds | None = None) -> Self:
        """Return a batch of some fits, which may repeat, with other bounds if they are given."""
        objectives = [self.objectives[fit] for fit in fits.tolist()]
        if len({*map(id, objectives)}) < len(objectives):  # fits have settings of their own
            objectives = [objective.with_rows(objective.data) for objective in objectives]
        return type(self)(objectives, bounds or self.bounds.select(fits))

    def triangles(self, theta: Array, fits: Fits) -> Array:
        """Return the triangular factors of [J | r], of shape (fits, P+1, P+1)."""
        width = theta.shape[1] + 1
        return np.asarray(self._call_each("triangle", fits, theta).reshape(len(fits), width, width))

    def residual_matrices(self, theta: Array, fits: Fits) -> Array:
        """Return matrices with the same products as [J | r]: its triangular factors."""
        return self.triangles(theta, fits)

    def values_and_gradients(self, theta: Array, fits: Fits) -> tuple[Array, Array]:
        """Return the mean losses, and their gradients."""
        values, gradients = np.empty(len(fits)), np.empty(theta.shape)
        for k, (fit, point) in enumerate(zip(fits.tolist(), theta, strict=True)):
            values[k], gradients[k] = self.objectives[fit].value_and_grad(point)
        return values, gradients

    def hessians(self, theta: Array, fits: Fits) -> Array:
        """Return the Hessians of the mean losses, of shape (fits, P, P)."""
        return np.asarray(self._call_each("curvature", fits, theta).reshape(len(fits), theta.shape[1], theta.shape[1]))

    def losses(self, theta: Array, fits: Fits) -> Array:
        """Return the mean losses."""
        return np.asarray(self._call_each("value", fits, theta))

    def mean_squares(self, sums: Array, fits: Fits) -> Array:
        """Return the mean losses that correspond to weighted sums of squares."""
        return sums / (self.total_weights(fits) * self.objective.components)

    def target_variations(self, fits: Fits, *, about_mean: bool = True) -> Array:
        """Return the sums of squares of the targets about their means, or about 0."""
        return np.asarray(self._call_each("target_variation", fits, np.full(len(fits), about_mean)))

    @property
    def scales(self) -> Array:
        """The residual scale of each fit, for robust losses."""
        return np.array([objective.scale for objective in self.objectives])

    def set_scales(self, fits: Fits, scales: Array) -> None:
        """Set the residual scales of some fits, in their objectives."""
        for fit, scale in zip(fits.tolist(), scales.tolist(), strict=True):
            self.objectives[fit].set_scale(scale)

    def without_penalty(self) -> Self:
        """Return the batch without the penalties of its objectives."""
        if not self.objective.is_penalised:
            return self
        return type(self)([objective.without_penalty() for objective in self.objectives], self.bounds)

    def without_kinks(self) -> Self | None:
        """Return the batch with the kinks of its losses smoothed; None if they have none."""
        smooth = [objective.without_kinks() for objective in self.objectives]
        objectives = [objective for objective in smooth if objective is not None]
        return type(self)(objectives, self.bounds) if objectives else None

    def with_smoothing(self, share: float, theta: Array) -> Self:
        """Return the batch with each kink smoothed by a share of the mean size of its argument at `theta`."""
        pairs = zip(self.objectives, theta, strict=True)
        return type(self)([objective.with_smoothing(share, point) for objective, point in pairs], self.bounds)


class GatheredRows:
    """The rows of some groups, one group after the other, with columns that are gathered when they are first needed.

    Args:
        gather: gathers the column with a name.
        sizes: the number of rows of each group.
        is_weighted: whether the rows have weights.

    Attributes:
        starts: the position of the first row of each group.
        count: the number of rows.
    """

    def __init__(self, gather: Callable[[str], Array], sizes: NDArray[np.intp], *, is_weighted: bool) -> None:
        self.column = cache(gather)
        self.sizes, self._is_weighted = sizes, is_weighted
        self.starts, self.count = np.cumsum(sizes) - sizes, int(sizes.sum())

    @cached_property
    def weights(self) -> Array:
        """The weight of each row."""
        return self.column(WEIGHT) if self._is_weighted else np.ones(self.count)

    @cached_property
    def total_weights(self) -> Array:
        """The sum of the weights of each group."""
        return self.totals(self.weights) if self._is_weighted else self.sizes.astype(np.float64)

    def spread(self, values: NDArray[T]) -> NDArray[T]:
        """Return values of groups for each of their rows, along the last axis."""
        return np.repeat(values, self.sizes, axis=-1)

    def totals(self, values: Array) -> Array:
        """Return the sums of values per row over each group, along the last axis."""
        return np.add.reduceat(values, self.starts, axis=-1)

    @cached_property
    def _padded(self) -> Sequence[tuple[Fits, NDArray[np.intp], Mask]]:
        """Groups of similar size, the positions of their rows up to a power of 2, and a mask of the rows that exist."""
        lengths, parts = 1 << np.ceil(np.log2(self.sizes)).astype(np.intp), []
        for length in np.unique(lengths):
            similar = np.flatnonzero(lengths == length)
            sizes = self.sizes[similar, None]
            indices = np.arange(length if (sizes != sizes[0]).any() else sizes[0, 0])
            exists = indices < sizes
            parts.append((similar, np.where(exists, self.starts[similar, None] + indices, 0), exists))
        return parts

    def factorize(self, columns: Array, more_rows: Array | None = None) -> Array:
        """Return the triangular factors of a matrix per group, whose columns have a value for each of its rows.

        Args:
            columns: the values, of shape (components, columns, rows).
            more_rows: further rows of each matrix, of shape (groups, n, columns).
        """
        width = columns.shape[1]
        triangles = np.empty((len(self.sizes), width, width))
        for similar, by_group in self._by_size(columns, 0.0):
            matrices = by_group.transpose(2, 3, 0, 1).reshape(by_group.shape[2], -1, width)
            if more_rows is not None:
                matrices = np.concatenate((matrices, more_rows[similar]), axis=1)
            triangles[similar] = _triangular_factors(matrices)
        return triangles

    def quantiles(self, values: Array, shares: Sequence[float]) -> Array:
        """Return quantiles of the finite values (components, rows) of each group, of shape (groups, shares)."""
        quantiles = np.empty((len(self.sizes), len(shares)))
        for similar, by_group in self._by_size(values, math.inf):
            ordered = np.sort(by_group.transpose(1, 0, 2).reshape(by_group.shape[1], -1), axis=1)
            last = np.maximum(np.count_nonzero(ordered < np.inf, axis=1) - 1, 0)[:, None]
            places, groups = last * np.array(shares), np.arange(len(ordered))[:, None]
            below = np.floor(places).astype(np.intp)
            lower, upper = ordered[groups, below], ordered[groups, np.minimum(below + 1, last)]
            quantiles[similar] = lower + (places - below) * (upper - lower)
        return quantiles

    def _by_size(self, values: Array, filling: float) -> Iterator[tuple[Fits, Array]]:
        """Yield groups of similar size, and their values, of shape (..., groups, rows), with a filling up to a power
        of 2.
        """
        for similar, positions, exists in self._padded:
            by_group = values[..., positions]
            by_group[..., ~exists] = filling
            yield similar, by_group


class GroupBatch:
    """Fits of groups of rows in memory, evaluated together. Rows are gathered for some groups at a time.

    Args:
        objective: an objective over all rows whose free parameters are all numbers.
        rows: the row numbers of each group. A row may belong to several groups.
        bounds: the bounds of all fits, of shape (P,) or (fits, P).

    Attributes:
        sizes: the number of rows of each group.
    """

    def __init__(self, objective: Objective, rows: Sequence[NDArray[Any]], bounds: Bounds | None = None) -> None:
        self.objective = objective
        self.sizes = np.array([len(some) for some in rows], np.intp)
        self.bounds = bounds or objective.bounds
        self._rows = rows
        self._kernels = objective.kernels.by_row
        self._gathered_rows = dict[bytes, GatheredRows]()
        self._settings = {name: np.full(len(rows), value) for name, value in objective.settings.items()}
        self._settings[PRIOR_FACTOR] *= objective.total_weight  # divided by that of the rows of each fit

    @property
    def count(self) -> int:
        """The number of fits."""
        return len(self.sizes)

    def take(self, fits: Fits, bounds: Bounds | None = None) -> Self:
        """Return a batch of some fits, which may repeat, with other bounds if they are given."""
        return copy_with(
            self,
            _rows=[self._rows[fit] for fit in fits.tolist()],
            sizes=self.sizes[fits],
            bounds=bounds or self.bounds.select(fits),
            _gathered_rows={},
            _settings={name: values[fits] for name, values in self._settings.items()},
        )

    def take_rows(self, chosen: Callable[[int], NDArray[Any]]) -> Self:
        """Return the batch over some rows of each fit.

        Args:
            chosen: returns the positions of the rows to take, given the number of rows of a fit.
        """
        rows = [some[chosen(len(some))] for some in self._rows]
        return copy_with(self, _rows=rows, sizes=np.array([*map(len, rows)], np.intp), _gathered_rows={})

    @property
    def scales(self) -> Array:
        """The residual scale of each fit, for robust losses."""
        return self._settings[RESIDUAL_SCALE]

    def set_scales(self, fits: Fits, scales: Array) -> None:
        """Set the residual scales of some fits."""
        self._settings[RESIDUAL_SCALE][fits] = scales

    def without_penalty(self) -> Self:
        """Return the batch without penalties."""
        penalties = dict.fromkeys((L1_FACTOR, L2_FACTOR, PRIOR_FACTOR), np.zeros(len(self.sizes)))
        return copy_with(self, _settings={**self._settings, **penalties})

    def rows_of(self, fits: Fits) -> GatheredRows:
        """Return the rows of some groups with few rows in total. They are stored for the next call."""
        key = fits.tobytes()
        if key not in self._gathered_rows:
            numbers = np.concatenate([np.empty(0, np.intp), *(self._rows[fit] for fit in fits.tolist())])
            columns, is_weighted = self.objective.table.columns, self.objective.is_weighted
            rows = GatheredRows(
                lambda name: columns[name].take(numbers, axis=-1), self.sizes[fits], is_weighted=is_weighted
            )
            if sum(each.count for each in self._gathered_rows.values()) + rows.count > BATCH.max_gathered_rows:
                self._gathered_rows.clear()
            self._gathered_rows[key] = rows
        return self._gathered_rows[key]

    def objective_of(self, fit: int) -> Objective:
        """Return the objective over the rows of one group. Large groups are not copied."""
        rows = self._rows[fit]
        if len(rows) > MAX_COPIED_ROWS:
            rows = np.isin(np.arange(self.objective.rows), rows)
        part = self.objective.select_rows(rows)
        part.settings.update({name: float(values[fit]) for name, values in self._settings.items()})
        part.settings[PRIOR_FACTOR] /= part.total_weight
        return part

    def parts(self, fits: Fits | None = None, most: int = BATCH.rows) -> list[Fits]:
        """Return all fits, or some, in parts with about `most` rows each; a group with more is a part by itself."""
        chosen = np.arange(len(self.sizes)) if fits is None else fits
        number, is_large = np.cumsum(self.sizes[chosen]) // most, self.sizes[chosen] > most
        return np.split(chosen, np.flatnonzero((np.diff(number) > 0) | is_large[1:] | is_large[:-1]) + 1)

    def load(self, fits: Fits) -> GroupBatch:
        """Return a batch of some fits with their rows in memory; the rows of a large group stay where they are."""
        if isinstance(self.objective.data, MemoryRows) or self.sizes[fits].max() > MAX_COPIED_ROWS:
            return self.take(fits)
        rows = [self._rows[fit] for fit in fits.tolist()]
        numbers = np.sort(np.concatenate(rows))
        return GroupBatch(self.objective.select_rows(numbers), [np.searchsorted(numbers, some) for some in rows])

    @property
    def target_counts(self) -> NDArray[np.intp]:
        """The number of target values of each fit."""
        return self.sizes * self.objective.components

    def ranges(self, name: str) -> list[tuple[float, float]]:
        """Return the minimum and the maximum of a column in each group."""
        parts = [(rows.column(name), rows.starts) for rows in map(self.rows_of, self.parts())]
        low, high = (np.concatenate([end.reduceat(*part) for part in parts]) for end in (np.minimum, np.maximum))
        return list(zip(low.tolist(), high.tolist(), strict=True))

    def total_weights(self, fits: Fits) -> Array:
        """Return the sum of the weights of each group."""
        if not self.objective.is_weighted:
            return self.sizes[fits].astype(np.float64)
        return self.rows_of(fits).total_weights

    def evaluate(self, kernel: RowKernel, theta: Array, fits: Fits) -> Array:
        """Return the values of a kernel, of shape (values, rows), for the rows of groups with few rows in total.

        The parameters and the settings are columns of the kernel.
        """
        rows, objective = self.rows_of(fits), self.objective
        columns = {name: rows.column(name) for name in kernel.names.intersection(objective.table.columns)}
        by_row = rows.spread(theta.T)
        columns |= {name: by_row[k] for k, name in enumerate(objective.parameters) if name in kernel.names}
        for name in kernel.names.intersection(self._settings):
            values = self._settings[name][fits]
            columns[name] = rows.spread(values / rows.total_weights if name == PRIOR_FACTOR else values)
        values = np.empty((kernel.value_count, rows.count))
        kernel.write(kernel.prepare(objective.fixed), columns, values)
        return values

    @ignore_float_errors()
    def means(self, kernel: RowKernel, theta: Array, fits: Fits) -> Array:
        """Return the sums of a kernel over each group, divided by its total weight, of shape (fits, values)."""

        def means(points: Array, part: Fits) -> Array:
            rows = self.rows_of(part)
            return np.asarray((rows.totals(self.evaluate(kernel, points, part)) / rows.total_weights).T)

        return self.map_parts(means, theta, fits)

    def map_parts(self, compute: Callable[[Array, Fits], NDArray[T]], theta: Array, fits: Fits) -> NDArray[T]:
        """Return the results of a function of points and fits, called for one part with few rows after the other."""
        if int(self.sizes[fits].sum()) <= BATCH.rows:
            return compute(theta, fits)
        parts = self.parts(fits)
        points = np.split(theta, np.cumsum([len(part) for part in parts[:-1]], dtype=np.intp))
        return np.concatenate([compute(some, part) for some, part in zip(points, parts, strict=True)])

    def values_and_gradients(self, theta: Array, fits: Fits) -> tuple[Array, Array]:
        """Return the mean losses, and their gradients."""
        means = self.means(self._kernels.row_loss_and_gradient, theta, fits)
        return means[:, 0], means[:, 1:]

    def losses(self, theta: Array, fits: Fits) -> Array:
        """Return the mean losses."""
        return np.asarray(self.means(self._kernels.row_loss, theta, fits)[:, 0])

    def hessians(self, theta: Array, fits: Fits) -> Array:
        """Return the Hessians of the mean losses, of shape (fits, P, P)."""
        size = theta.shape[1]
        hessians = np.empty((len(fits), size, size))
        rows, columns = np.triu_indices(size)
        elements = self.means(self._kernels.row_hessian, theta, fits)
        hessians[:, rows, columns] = hessians[:, columns, rows] = elements
        return hessians

    @ignore_float_errors()
    def triangles(self, theta: Array, fits: Fits) -> Array:
        """Return the triangular factors of [J | r], of shape (fits, P+1, P+1)."""
        return self.map_parts(self._small_triangles, theta, fits)

    @ignore_float_errors()
    def residual_matrices(self, theta: Array, fits: Fits) -> Array:
        """Return the matrices [J | r] of fits that have equally many rows, of shape (fits, rows, P+1)."""
        columns = self._matrix_columns(theta, fits)
        by_group = columns.reshape(*columns.shape[:2], len(fits), -1)
        return by_group.transpose(2, 3, 0, 1).reshape(len(fits), -1, theta.shape[1] + 1)

    def _matrix_columns(self, theta: Array, fits: Fits) -> Array:
        """Return the weighted columns of [J | r] of some groups, of shape (components, P+1, rows)."""
        values = self.evaluate(self._kernels.residuals_and_jacobian, theta, fits)
        if self.objective.is_weighted:
            values *= np.sqrt(self.rows_of(fits).weights)
        return values.reshape(self.objective.components, theta.shape[1] + 1, -1)

    def _small_triangles(self, theta: Array, fits: Fits) -> Array:
        """Return the triangles of groups that have few rows in total."""
        columns = self._matrix_columns(theta, fits)
        factors = self._settings[L2_FACTOR][fits]
        if not factors.any():
            return self.rows_of(fits).factorize(columns)
        count, width, _ = columns.shape
        penalty = np.sqrt(factors * self.total_weights(fits) * count)
        rows = np.broadcast_to(np.eye(width - 1), (len(fits), width - 1, width - 1))
        return self.rows_of(fits).factorize(columns, penalty[:, None, None] * np.dstack((rows, theta)))

    def mean_squares(self, sums: Array, fits: Fits) -> Array:
        """Return the mean losses that correspond to weighted sums of squares."""
        return sums / (self.total_weights(fits) * self.objective.components)

    @ignore_float_errors()
    def target_variations(self, fits: Fits, *, about_mean: bool = True) -> Array:
        """Return the sums of squares of the targets about their means, or about 0."""
        variations = []
        for part in self.parts(fits):
            unused = np.zeros((len(part), self.objective.layout.size))  # the target depends on no parameter
            rows, deviations = self.rows_of(part), self.evaluate(self.objective.kernels.target, unused, part)
            if about_mean:
                deviations = deviations - rows.spread(deviations[..., rows.starts])  # exactly 0 if all rows are equal
                deviations -= rows.spread(rows.totals(deviations * rows.weights) / rows.totals(rows.weights))
            variations.append(rows.totals(np.sum(rows.weights * np.square(deviations), axis=0)))
        return np.concatenate(variations)

    def without_kinks(self) -> Self | None:
        """Return the batch with the kinks of its losses smoothed; None if they have none."""
        kernels = self.objective.kernels.without_kinks
        if kernels is None:
            return None
        radii = {name: np.zeros(len(self.sizes)) for name in kernels.smoothing_radii}
        return copy_with(self, _kernels=kernels.by_row, _settings={**self._settings, **radii})

    def with_smoothing(self, share: float, theta: Array) -> Self:
        """Return the batch with each kink smoothed by a share of the mean size of its argument at `theta`."""
        every = np.arange(len(theta))
        sizes = np.empty((len(self._kernels.smoothing_radii), len(theta)))
        for part in self.parts(every):
            values = self.evaluate(self._kernels.row_kink_sizes, theta[part], part)
            sizes[:, part] = self.rows_of(part).totals(values) / self.sizes[part]
        return copy_with(self, _settings={**self._settings, **self._kernels.radii(share, sizes)})

    @ignore_float_errors()
    def median_magnitudes(self, theta: Array, fits: Fits) -> Array:
        """Return the median absolute weighted residual of each group."""

        def medians(points: Array, part: Fits) -> Array:
            rows = self.rows_of(part)
            magnitudes = np.abs(self.evaluate(self._kernels.residuals, points, part)) * np.sqrt(rows.weights)
            return rows.quantiles(magnitudes, (0.5,))[:, 0]

        return self.map_parts(medians, theta, fits)


Batch = ObjectiveBatch | GroupBatch


def parameters_at_jumps(batch: Batch, theta: Array, errors: Array) -> Mask:
    """Return the mask, of shape (fits, P), of the parameters that converge to 0 where the loss jumps or is undefined.

    They are within a millionth of their standard errors from 0. On the other side of 0, the loss differs or is
    undefined: an example is `b` in `a*x^b` with a row at x = 0.

    Args:
        errors: the standard errors, of shape (fits, P).
    """
    is_zero: Mask = (theta != 0) & (np.abs(theta) < BATCH.zero_errors * errors)
    fits = np.flatnonzero(is_zero.any(axis=1))
    # The loss is the same next to 0, and not on the other side.
    for point, is_beside in ((np.copysign(1e-300, theta), True), (-theta, False)) if len(fits) else ():
        shifted = batch.bounds.select(fits).clip(np.where(is_zero, point, theta)[fits])
        ratios = batch.losses(shifted, fits) / batch.losses(theta[fits], fits)
        is_zero[fits] &= ((np.abs(ratios - 1) < BATCH.zero_errors) == is_beside)[:, None]
    return is_zero


def rounding_squares(batch: Batch, fits: Fits, theta: Array, sizes: Array) -> Array:
    """Return the sum of squares of residuals that are rounding errors, for each fit.

    The residuals then have rounding errors of the largest term of the model, or of the target.

    Args:
        sizes: the norms of the columns of the triangular factors of [J | r] at theta.
    """
    terms = np.max(sizes[:, :-1] * np.abs(theta), axis=1, initial=0.0)
    largest = np.maximum(np.square(terms), batch.target_variations(fits, about_mean=False))
    return np.asarray((2 * np.finfo(np.float64).eps) ** 2 * largest)


def softmax_null_space(objective: Objective, theta: Array) -> Array | None:
    """Return an orthonormal basis, of shape (P, directions), of the directions that change no softmax of linear scores.

    These are the directions in which the scores of all classes change equally. Returns None if the model is not a
    softmax of linear scores. Directions that the data leave undetermined for other reasons are not included.
    """
    if objective.classes is None or not objective.is_generalised_linear:
        return None
    size, count, curvature = objective.layout.size, len(objective.classes), objective.curvature(theta)
    directions = [np.empty((0, size))]
    for name, shape in objective.layout.shapes.items():
        if shape[:1] == (count,):  # the classes are the first axis of weights and biases
            directions.append(np.zeros((math.prod(shape[1:]), size)))
            directions[-1][:, objective.layout.slices[name]] = np.tile(np.eye(len(directions[-1])), count)
    candidates, own = np.concatenate(directions) / math.sqrt(count), np.abs(np.diag(curvature))
    is_flat = np.abs(candidates @ curvature) <= BATCH.flat_curvature * np.sqrt(own * own.max())
    return np.asarray(candidates[is_flat.all(axis=1)].T)


def can_evaluate_together(objective: Objective) -> bool:
    """Return whether fits of an objective's rows can be evaluated in one call: few rows in memory, and few parameters,
    which are numbers.
    """
    return (
        isinstance(objective.data, MemoryRows)
        and objective.rows <= BATCH.max_shared_rows
        and objective.layout.size <= BATCH.max_parameters
        and not (objective.model.shapes or any(objective.layout.shapes.values()))
        and objective.classes is None
        and not objective.has_theta  # theta is estimated for one fit at a time
    )


def repeat_objective(objective: Objective, count: int, bounds: Bounds | None = None) -> Batch:
    """Return a batch of fits of one objective, with bounds of their own if they are given.

    >>> from autodiff_cli import Objective
    >>> batch = repeat_objective(Objective("y ~ a*x", {"x": [1.0, 2], "y": [2.0, 5]}), 2)
    >>> batch.values_and_gradients(np.array([[2.0], [3.0]]), np.array([0, 1]))[0]
    array([0.5, 1. ])
    """
    if can_evaluate_together(objective):
        return GroupBatch(objective, [np.arange(objective.rows)] * count, bounds)
    return ObjectiveBatch([objective.with_rows(objective.data) for _ in range(count)], bounds)


def row_batches(objective: Objective, samples: Iterator[RowIndex]) -> Iterator[Batch]:
    """Yield batches of fits to samples of an objective's rows, with as many at a time as memory allows."""
    is_joint = can_evaluate_together(objective)
    size = max(1, BATCH.rows // objective.rows) if is_joint else 1
    while chosen := [*islice(samples, size)]:
        if is_joint:
            yield GroupBatch(objective, [row_numbers(some, objective.rows) for some in chosen])
        else:
            yield ObjectiveBatch([*map(objective.select_rows, chosen)])


def rows_by_group(codes: NDArray[np.int32], count: int) -> list[NDArray[Any]]:
    """Return the row numbers of each group, in order.

    Args:
        codes: the group of each row, counted from 0.
        count: the number of groups.

    >>> rows_by_group(np.array([1, 0, 1], np.int32), 2)
    [array([1]), array([0, 2])]
    """
    return np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes, minlength=count))[:-1])


def _triangular_factors(matrices: Array) -> Array:
    """Return the triangular factors of matrices, with rows of zeros if there are too few rows; nan for matrices that
    are not finite.
    """
    missing_rows = matrices.shape[2] - matrices.shape[1]
    if missing_rows > 0:
        matrices = np.concatenate((matrices, np.zeros((len(matrices), missing_rows, matrices.shape[2]))), axis=1)
    factors = triangular_factor(matrices)
    factors[~np.isfinite(factors).all(axis=(1, 2))] = np.nan
    return factors
