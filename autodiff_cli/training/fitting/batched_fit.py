"""Least squares of many groups at once, each with parameters of its own.

All rows are evaluated in one call with the parameters as columns. Each group then has the triangle of its matrix [J |
r], as in `methods.least_squares`, and takes Levenberg-Marquardt steps of its own with the damping rule of Nielsen
(Madsen, Nielsen & Tingleff 2004, section 3.2) and the scaling of Moré 1978.

`BatchedStatistics` computes the results of all groups together: the regular case of `result.statistics` and
`result.goodness`, in which all parameters are determined and no weight is 0. Other groups are left to these modules.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, Mask
from autodiff_cli.backends.protocol import RowKernel
from autodiff_cli.numbers.arrays import ignore_float_errors
from autodiff_cli.training.fitting.fit import canonical_parameters, fit_settings
from autodiff_cli.training.fitting.starts import Sinusoids
from autodiff_cli.training.methods.gradient_descent import EpochRecord
from autodiff_cli.training.methods.least_squares import DEPENDENCE_TOLERANCE
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.fitted_model import FittedModel
from autodiff_cli.training.result.goodness import criteria_parameters, least_squares_goodness
from autodiff_cli.training.result.statistics import ABSOLUTE, SCALED, SCALED_WEIGHTED
from autodiff_cli.training.rows import WEIGHT


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Numbers of rows that are processed together."""

    rows: int = 2**17  # rows of a batch of groups, which bounds the memory of its matrices
    sort_rows: int = 2**18  # rows that are sorted together
    max_copied_rows: int = 2**20  # rows of a group that are copied; larger groups select rows by a mask


BATCH = BatchSettings()


@dataclass(frozen=True, slots=True)
class BatchedFitSettings:
    """Settings of the batched Levenberg-Marquardt method."""

    max_steps: int = 200  # steps
    tolerance: float = 1e-14  # relative reduction of the sum of squares, and relative length of a step, at convergence
    initial_damping: float = 1e-3  # damping, relative to the square of the scale of each parameter
    negligible_damping: float = 1e-24  # damping of a plain Gauss-Newton step; its inverse means that no step succeeds
    max_polish_steps: int = 15  # Gauss-Newton steps after convergence
    polish_reduction: float = 0.9  # factor by which a polishing step has to reduce the projected residuals
    max_element: float = 1e150  # magnitude of matrix elements whose squares do not overflow
    orthogonality: float = 1e-6  # cosine between residuals and a column of J that counts as 0


SETTINGS = BatchedFitSettings()


@dataclass(frozen=True, slots=True)
class BatchedFit:
    """The fits of many groups.

    Attributes:
        theta: the parameters, of shape (groups, P).
        triangles: the triangles of [J | r] there, of shape (groups, P+1, P+1).
        converged: which groups reached a minimum.
        losses: the sums of squares at the start and after each step, of shape (steps + 1, groups); nan where a group
            took no step.
    """

    theta: Array
    triangles: Array
    converged: Mask
    losses: Array


class GroupedRows:
    """The rows of an objective by groups. The data are not copied; rows are gathered for some groups at a time.

    Args:
        objective: an objective whose free parameters are all numbers.
        order: the row numbers, group by group.
        sizes: the number of rows of each group.
    """

    def __init__(self, objective: Objective, order: NDArray[Any], sizes: NDArray[np.intp]) -> None:
        self._objective = objective
        self._order = order
        self.sizes = sizes
        self._ends = np.cumsum(sizes)
        self._kernel: RowKernel = objective.kernels.grouped_residuals_and_jacobian
        columns = objective.table.columns
        self._columns = {name: columns[name] for name in self._kernel.names.intersection(columns)}

    def subset(self, groups: NDArray[np.intp]) -> GroupedRows:
        """Return the rows of some groups."""
        return GroupedRows(self._objective, self.row_numbers(groups), self.sizes[groups])

    def row_numbers(self, groups: NDArray[np.intp]) -> NDArray[Any]:
        """Return the row numbers of some groups, group by group."""
        sizes = self.sizes[groups]
        return self._order[_concatenated_ranges(self._ends[groups] - sizes, sizes)]

    def group_objective(self, group: int) -> Objective:
        """Return the objective over the rows of one group. Large groups are not copied."""
        end = int(self._ends[group])
        rows = self._order[end - int(self.sizes[group]) : end]
        if len(rows) <= BATCH.max_copied_rows:
            return self._objective.select_rows(rows)
        chosen = np.zeros(self._objective.rows, np.bool_)
        chosen[rows] = True
        return self._objective.select_rows(chosen)

    def batches(self, groups: NDArray[np.intp] | None = None) -> list[NDArray[np.intp]]:
        """Return all groups, or some, in batches with few rows each."""
        chosen = np.arange(len(self.sizes)) if groups is None else groups
        number = np.cumsum(self.sizes[chosen]) // BATCH.rows
        return np.split(chosen, np.flatnonzero(np.diff(number)) + 1)

    def column(self, name: str, groups: NDArray[np.intp]) -> Array:
        """Return a column for the rows of some groups."""
        values: Array = self._objective.table.columns[name][self.row_numbers(groups)]
        return values

    def weights(self, groups: NDArray[np.intp]) -> Array:
        """Return the weight of each row of some groups."""
        return self.column(WEIGHT, groups) if self._objective.is_weighted else np.ones(int(self.sizes[groups].sum()))

    def target(self, groups: NDArray[np.intp]) -> Array:
        """Return the target in the rows of some groups, of shape (components, rows)."""
        objective = self._objective.select_rows(self.row_numbers(groups))
        return objective.evaluate_rows(objective.kernels.target, np.zeros(objective.layout.size))

    def triangles(self, theta: Array, groups: NDArray[np.intp]) -> Array:
        """Return the triangles of [J | r] of some groups at their parameters, of shape (groups, P+1, P+1)."""
        triangles, done = np.empty((len(groups), *[self._objective.layout.size + 1] * 2)), 0
        for part in self.batches(groups):
            end = done + len(part)
            triangles[done:end] = self._small_triangles(theta[done:end], part)
            done = end
        return triangles

    def _small_triangles(self, theta: Array, groups: NDArray[np.intp]) -> Array:
        """Return the triangles of groups that have few rows in total."""
        width, count = self._objective.layout.size + 1, self._objective.components
        sizes = self.sizes[groups]
        values = self._values(theta, groups)
        if self._objective.is_weighted:
            values *= np.sqrt(self.weights(groups))
        by_row = np.ascontiguousarray(values.reshape(count, width, -1).transpose(2, 0, 1))
        starts = np.cumsum(sizes) - sizes
        triangles = np.empty((len(groups), width, width))
        for similar, indices, exists in padded_groups(sizes):
            rows_of_groups = by_row[np.where(exists, starts[similar, None] + indices, 0)]
            rows_of_groups[~exists] = 0
            triangles[similar] = _triangular_factors(rows_of_groups.reshape(len(similar), -1, width))
        return triangles

    def residuals(self, theta: Array, groups: NDArray[np.intp]) -> Array:
        """Return the unweighted residuals in the rows of some groups, of shape (components, rows)."""
        values = self._values(theta, groups)
        width = self._objective.layout.size + 1
        residuals: Array = values.reshape(self._objective.components, width, -1)[:, -1]
        return residuals

    def _values(self, theta: Array, groups: NDArray[np.intp]) -> Array:
        """Return the values of the kernel for the rows of some groups, with the parameters of each group."""
        rows = self.row_numbers(groups)
        columns = {name: values[..., rows] for name, values in self._columns.items()}
        parameters_by_row = np.repeat(theta.T, self.sizes[groups], axis=1)
        point = dict(zip(self._objective.parameters, parameters_by_row, strict=True))
        values = np.empty((self._kernel.value_count, parameters_by_row.shape[1]))
        prepared = self._kernel.prepare({**self._objective.fixed, **self._objective.settings})
        self._kernel.write(prepared, {**columns, **point}, values)
        return values


def padded_groups(sizes: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], Mask]]:
    """Yield groups of similar size, the indices of their rows up to a power of 2, and a mask of the rows that exist."""
    lengths = 1 << np.ceil(np.log2(sizes)).astype(np.intp)
    for length in np.unique(lengths):
        similar = np.flatnonzero(lengths == length)
        indices = np.arange(length if (sizes[similar] != sizes[similar[0]]).any() else sizes[similar[0]])
        yield similar, indices, indices < sizes[similar, None]


def sort_by_group(codes: NDArray[np.int32], count: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the row numbers sorted by group, in their order within each group, and the size of each group.

    Args:
        codes: the group of each row, counted from 0.
        count: the number of groups.

    >>> sort_by_group(np.array([1, 0, 1], np.int32), 2)
    (array([1, 0, 2], dtype=int32), array([1, 2]))
    """
    parts = [(start, codes[start : start + BATCH.sort_rows]) for start in range(0, len(codes), BATCH.sort_rows)]
    sizes = np.zeros(count, np.intp)
    for _, part in parts:
        sizes += np.bincount(part, minlength=count)
    positions = np.cumsum(sizes) - sizes
    order = np.empty(len(codes), np.int32 if len(codes) < 2**31 else np.int64)
    for start, part in parts:
        rows = np.argsort(part, kind="stable")
        sizes_in_block = np.bincount(part, minlength=count)
        order[
            np.repeat(positions - (np.cumsum(sizes_in_block) - sizes_in_block), sizes_in_block) + np.arange(len(part))
        ] = start + rows
        positions += sizes_in_block
    return order, sizes


def _concatenated_ranges(starts: NDArray[np.intp], sizes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return ranges of integers with given starts and lengths, one after the other."""
    total = int(sizes.sum())
    ends = np.cumsum(sizes)
    return np.arange(total) - np.repeat(ends - sizes - starts, sizes)


def _triangular_factors(matrices: Array) -> Array:
    """Return the triangular factors of matrices, with rows of zeros if there are too few rows; nan for matrices that
    are not finite.
    """
    missing_rows = matrices.shape[2] - matrices.shape[1]
    if missing_rows > 0:
        matrices = np.concatenate((matrices, np.zeros((len(matrices), missing_rows, matrices.shape[2]))), axis=1)
    is_invalid = ~np.isfinite(matrices).all(axis=(1, 2))
    matrices[is_invalid] = 0
    factors: Array = np.linalg.qr(matrices, mode="r")  # type: ignore[assignment]
    factors[is_invalid] = np.nan
    return factors


def fit_batch(rows: GroupedRows, start: Array) -> BatchedFit:
    """Minimise the sum of squares of every group.

    Args:
        start: the starting values, of shape (groups, P).
    """
    with ignore_float_errors():
        method = _BatchedLevenbergMarquardt(rows, start)
        for _ in range(SETTINGS.max_steps):
            if not method.step():
                break
        method.polish()
        return method.result()


class _BatchedLevenbergMarquardt:
    """Levenberg-Marquardt steps of many groups. Groups that converged or failed take no further steps."""

    def __init__(self, rows: GroupedRows, start: Array) -> None:
        self._rows = rows
        self.theta = start.copy()
        count = len(start)
        self.triangles = rows.triangles(self.theta, np.arange(count))
        self.is_usable = _is_usable_triangle(self.triangles)
        self._active = self.is_usable.copy()
        self._ended = np.zeros(count, dtype=np.bool_)
        lengths = _column_norms(self.triangles)
        self._scale = np.where(lengths > 0, lengths, 1.0)
        self._damping, self._damping_growth = np.full(count, SETTINGS.initial_damping), np.full(count, 2.0)
        self.losses = [_sums_of_squares(self.triangles)]

    def step(self) -> bool:
        """Take a step in all active groups. Returns whether there were any."""
        groups = np.flatnonzero(self._active)
        if not len(groups):
            return False
        self._scale[groups] = np.maximum(self._scale[groups], _column_norms(self.triangles[groups]))
        before = _sums_of_squares(self.triangles[groups])
        moves, predicted = _damped_steps(self.triangles[groups], self._scale[groups], self._damping[groups])
        trial = self.theta[groups] + moves
        triangles_at_trial = self._rows.triangles(trial, groups)
        after = np.where(_is_usable_triangle(triangles_at_trial), _sums_of_squares(triangles_at_trial), np.inf)
        actual = before - after
        ratio = np.where(predicted > 0, actual / predicted, 0.0)
        is_accepted = (ratio > 0) & (actual >= 0)
        record = np.full(len(self.theta), np.nan)
        record[groups[is_accepted]] = after[is_accepted]
        self.losses.append(record)
        self.theta[groups[is_accepted]], self.triangles[groups[is_accepted]] = (
            trial[is_accepted],
            triangles_at_trial[is_accepted],
        )
        shrunk = self._damping[groups] * np.maximum(1 / 3, 1 - (2 * np.minimum(ratio, 1.0) - 1) ** 3)
        self._damping[groups] = np.where(is_accepted, shrunk, self._damping[groups] * self._damping_growth[groups])
        self._damping_growth[groups] = np.where(is_accepted, 2.0, 2 * self._damping_growth[groups])
        sizes = np.linalg.norm(self._scale[groups] * self.theta[groups], axis=1)
        is_short = np.linalg.norm(self._scale[groups] * moves, axis=1) <= SETTINGS.tolerance * (
            sizes + SETTINGS.tolerance
        )
        is_small = (predicted <= SETTINGS.tolerance * before) & (np.abs(actual) <= SETTINGS.tolerance * before)
        has_converged = groups[is_short | is_small | (before == 0)]
        self._active[has_converged], self._ended[has_converged] = False, True
        stuck = groups[self._damping[groups] > 1 / SETTINGS.negligible_damping]
        self._active[stuck] = False
        return True

    def polish(self) -> None:
        """Take plain Gauss-Newton steps as long as they reduce the part of the residuals that the parameters can
        explain.
        """
        active = self._ended.copy()
        for _ in range(SETTINGS.max_polish_steps):
            groups = np.flatnonzero(active)
            if not len(groups):
                return
            moves, _ = _damped_steps(
                self.triangles[groups], self._scale[groups], np.full(len(groups), SETTINGS.negligible_damping)
            )
            trial = self.theta[groups] + moves
            triangles_at_trial = self._rows.triangles(trial, groups)
            better = _is_usable_triangle(triangles_at_trial) & (
                _projected_residual_norms(triangles_at_trial)
                < SETTINGS.polish_reduction * _projected_residual_norms(self.triangles[groups])
            )
            self.theta[groups[better]], self.triangles[groups[better]] = trial[better], triangles_at_trial[better]
            active[groups[~better]] = False

    def result(self) -> BatchedFit:
        """Return the fits. A group has converged if its residuals are orthogonal to all columns of J."""
        lengths, total = _column_norms(self.triangles), np.sqrt(_sums_of_squares(self.triangles))
        slopes = np.abs(np.einsum("gij,gi->gj", self.triangles[:, :, :-1], self.triangles[:, :, -1]))
        is_orthogonal = (slopes <= SETTINGS.orthogonality * lengths * total[:, None]).all(axis=1)
        return BatchedFit(self.theta, self.triangles, self._ended & is_orthogonal, np.array(self.losses))


def _damped_steps(triangles: Array, scale: Array, damping: Array) -> tuple[Array, Array]:
    """Return the damped Gauss-Newton steps of all groups, and the predicted reductions of their sums of squares."""
    count, width, _ = triangles.shape
    size = width - 1
    stacked = np.zeros((count, width + size, width))
    stacked[:, :width] = triangles
    stacked[:, :width, size] *= -1
    stacked[:, width + np.arange(size), np.arange(size)] = np.sqrt(damping)[:, None] * scale
    factor: Array = np.linalg.qr(stacked, mode="r")  # type: ignore[assignment]
    diagonal = np.abs(np.diagonal(factor, axis1=1, axis2=2)[:, :size])
    is_solvable = np.isfinite(factor).all(axis=(1, 2)) & (diagonal > 0).all(axis=1)
    factor[~is_solvable] = np.eye(width)
    steps = np.linalg.solve(factor[:, :size, :size], factor[:, :size, size:])[:, :, 0]
    after = np.einsum("gij,gj->gi", triangles[:, :, :size], steps) + triangles[:, :, size]
    reduction = _sums_of_squares(triangles) - np.sum(np.square(after), axis=1)
    return np.asarray(steps, dtype=np.float64), np.asarray(reduction)


def _sums_of_squares(triangles: Array) -> Array:
    """Return the sum of squared residuals of each group."""
    sums: Array = np.sum(np.square(triangles[:, :, -1]), axis=1)
    return sums


def _column_norms(triangles: Array) -> Array:
    """Return the length of each column of J."""
    norms: Array = np.sqrt(np.sum(np.square(triangles[:, :, :-1]), axis=1))
    return norms


def _projected_residual_norms(triangles: Array) -> Array:
    """Return the length of the residuals within the column space of J."""
    norms: Array = np.linalg.norm(triangles[:, :-1, -1], axis=1)
    return norms


def _is_usable_triangle(triangles: Array) -> Mask:
    """Return which triangles are finite and small enough to be squared."""
    usable = np.abs(triangles) < SETTINGS.max_element
    return np.asarray(usable.all(axis=(1, 2)))


# --- Statistics of a batch


_QUANTILE_LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
_MIN_SQUARABLE, _MAX_SQUARABLE = 1e-140, 1e140  # magnitudes whose squares neither underflow nor overflow
_MARKER_DIGITS = 314159  # digits of placeholders, which no formula has by chance
_MAX_GROUPS_CHECKED = 5  # groups that are tested for equivalent parameters, as a sample of all


class BatchedStatistics:
    """The statistics of the fits of many groups.

    Args:
        objective: the objective over the rows of all groups.
        rows: these rows by groups.
        batch: the fits of the groups.
        variations: the sum of squares of the target of each group about its mean.

    Attributes:
        is_regular: for which groups the statistics here are valid.
    """

    def __init__(
        self, objective: Objective, rows: GroupedRows, batch: BatchedFit, variations: Array, options: FitOptions
    ) -> None:
        self._objective, self._options, self._batch, self._variations = objective, options, batch, variations
        self._rows, self._sizes = rows, rows.sizes
        parameters = objective.layout.size
        self._components = objective.components
        self._count = rows.sizes * self._components
        self._dof = self._count - parameters
        with ignore_float_errors():
            squares = np.sum(np.square(batch.triangles[:, :, -1]), axis=1)
            self._lengths = np.sqrt(squares)
            self._covariances, is_known = self._invert_factors(batch.triangles[:, :parameters, :parameters])
            count = len(rows.sizes)
            self._quantiles, self._ratios = np.empty((count, len(_QUANTILE_LEVELS))), np.empty(count)
            self._weights, self._log_weights = np.empty(count), np.empty(count)
            for groups in rows.batches():
                self._summarize_residuals(groups)
        self.is_regular: Mask = (
            is_known & (self._dof > 0) & (self._lengths > _MIN_SQUARABLE) & (self._lengths < _MAX_SQUARABLE)
        )
        self.is_regular &= np.isfinite(self._log_weights).all() & (objective.family is None)
        if self._has_equivalent_points():
            self.is_regular[:] = False

    def fit(self, group: int) -> FittedModel:
        """Return the fitted model of a regular group."""
        objective, options, batch = self._objective, self._options, self._batch
        theta = batch.theta[group]
        names, model = objective.parameters, objective.model
        values = dict(zip(names, theta.tolist(), strict=True))
        residual_norm, dof, count = float(self._lengths[group]), int(self._dof[group]), int(self._count[group])
        absolute, variation = options.absolute_sigma, float(self._variations[group])
        covariance = self._covariances[group]
        per_square = 1 / (float(self._weights[group]) * self._components)
        residual_figures: dict[str, Any] = {"residual_quantiles": tuple(self._quantiles[group].tolist())}
        durbin_watson = float(self._ratios[group])
        residual_figures["durbin_watson"] = None if math.isnan(durbin_watson) else durbin_watson
        losses = batch.losses[:, group]
        goodness = least_squares_goodness(
            residual_norm,
            count,
            dof,
            criteria_parameters(objective, absolute),
            variation,
            absolute,
            residual_figures,
            float(self._log_weights[group]),
        )
        history: list[EpochRecord] = [
            {"epoch": number, "loss": loss * per_square}
            for number, loss in enumerate(losses[~np.isnan(losses)].tolist())
        ]
        weighted = SCALED_WEIGHTED if objective.is_weighted else SCALED
        return FittedModel(
            model=model.text,
            rows=int(self._sizes[group]),
            parameters=values,
            fixed=dict(objective.fixed),
            stderr=dict(zip(names, np.sqrt(np.diag(covariance)).tolist(), strict=True)),
            loss=residual_norm * residual_norm * per_square,
            rss=residual_norm * residual_norm,
            dof=dof,
            r_squared=1 - residual_norm * residual_norm / variation if variation > 0 else math.nan,
            optimizer="lm",
            epochs=len(history) - 1,
            converged=True,
            failure="",
            history=history,
            covariance=covariance,
            definition=ABSOLUTE if absolute else weighted,
            formula=self._formula(values),
            warnings=[*model.warnings, *objective.kernels.notes],
            _parsed_model=model,
            levels=dict(model.levels),
            element_names=objective.layout.element_names,
            loss_name=objective.loss,
            interval_dof=None if absolute else dof,
            confidence_level=options.confidence,
            settings=fit_settings(objective, options),
            **dataclasses.asdict(goodness),
        )

    def _formula(self, values: Mapping[str, float]) -> str:
        """Return the fitted formula; see `Model.formula`. It is printed once, and the numbers are replaced if their
        signs agree.
        """
        if min(values.values(), default=0.0) <= 0:
            return self._objective.model.formula({**values, **self._objective.fixed})
        return "".join(
            _positive_number_text(values[part]) if k % 2 else part for k, part in enumerate(self._formula_parts)
        )

    @cached_property
    def _formula_parts(self) -> list[str]:
        """The formula in parts: every second one is the name of a parameter, in place of its number."""
        objective = self._objective
        marks = {name: float(f"0.{_MARKER_DIGITS}{k:04d}1") for k, name in enumerate(objective.parameters)}
        names = {_positive_number_text(mark): name for name, mark in marks.items()}
        text = objective.model.formula({**marks, **objective.fixed})
        pieces = re.split("|".join(f"({re.escape(mark)})" for mark in names), text)
        return [names.get(piece, piece) for piece in pieces if piece is not None]

    def _invert_factors(self, factors: Array) -> tuple[Array, Mask]:
        """Return the covariances, and which of them are known; see `result.statistics.inverse_gram`."""
        scale = np.sqrt(np.sum(np.square(factors), axis=1))
        is_known: Mask = (scale > 0).all(axis=1) & np.isfinite(factors).all(axis=(1, 2))
        scaled = np.where(is_known[:, None, None], factors / scale[:, None, :], np.eye(factors.shape[1]))
        _, singular_values, directions = np.linalg.svd(scaled)
        is_known &= (singular_values > DEPENDENCE_TOLERANCE * singular_values[:, :1]).all(axis=1)
        roots = directions / singular_values[:, :, None]
        covariances = np.einsum("gki,gkj->gij", roots, roots) / (scale[:, :, None] * scale[:, None, :])
        if not self._options.absolute_sigma:
            covariances *= (np.square(self._lengths) / self._dof)[:, None, None]
        return covariances, is_known

    def _summarize_residuals(self, groups: NDArray[np.intp]) -> None:
        """Compute the residual quantiles, Durbin-Watson statistics and weights of some groups."""
        sizes, weights = self._sizes[groups], self._rows.weights(groups)
        starts = np.cumsum(sizes) - sizes
        self._weights[groups] = np.add.reduceat(weights, starts)
        self._log_weights[groups] = np.add.reduceat(np.log(weights), starts) * self._components
        residuals = self._rows.residuals(self._batch.theta[groups], groups)
        self._ratios[groups] = self._durbin_watson(residuals, weights, groups, starts)
        for similar, indices, exists in padded_groups(sizes):
            values = residuals[:, np.where(exists, starts[similar, None] + indices, 0)]
            values = np.where(exists, values, np.inf).transpose(1, 0, 2).reshape(len(similar), -1)
            values.sort(axis=1)
            last = self._count[groups[similar]] - 1
            for k, share in enumerate(_QUANTILE_LEVELS):
                below = np.floor(share * last).astype(np.intp)
                above = np.minimum(below + 1, last)
                part = share * last - below
                lower, upper = (values[np.arange(len(similar)), position] for position in (below, above))
                self._quantiles[groups[similar], k] = lower + part * (upper - lower)

    def _durbin_watson(
        self, residuals: Array, weights: Array, groups: NDArray[np.intp], starts: NDArray[np.intp]
    ) -> Array:
        """Return the Durbin-Watson statistic of some groups; nan if their rows are not sorted by one predictor."""
        objective = self._objective
        unknown = np.full(len(groups), math.nan)
        predictors = objective.model.predictors()
        if objective.components != 1 or len(predictors) != 1 or predictors[0] not in objective.data.names:
            return unknown
        scaled = residuals[0] * np.sqrt(weights)
        steps, squared_differences = np.diff(self._rows.column(predictors[0], groups)), np.square(np.diff(scaled))
        is_between_groups = np.zeros(len(scaled), dtype=np.bool_)
        is_between_groups[starts[1:] - 1] = True  # from the last row of a group to the first of the next
        steps[is_between_groups[:-1]] = 0
        squared_differences[is_between_groups[:-1]] = 0
        ends = [np.append(values, 0.0) for values in (steps, squared_differences)]
        smallest_steps, largest_steps = np.minimum.reduceat(ends[0], starts), np.maximum.reduceat(ends[0], starts)
        is_sorted = ((smallest_steps >= 0) | (largest_steps <= 0)) & (smallest_steps != largest_steps)
        total = np.add.reduceat(np.square(scaled), starts)
        return np.where(is_sorted & (total > 0), np.add.reduceat(ends[1], starts) / total, math.nan)

    def _has_equivalent_points(self) -> bool:
        """Return whether other signs or phases of the parameters may give the same predictions, so that each group has
        to choose which to report.
        """
        theta = self._batch.theta
        converged = np.flatnonzero(self._batch.converged)
        checked: Sequence[int] = converged[
            np.linspace(0, len(converged) - 1, min(_MAX_GROUPS_CHECKED, len(converged))).astype(np.intp)
        ].tolist()
        for group in checked:
            part = self._rows.group_objective(group)
            with ignore_float_errors():
                if Sinusoids(part).quarter_turns(theta[group]):
                    return True
            for point in (theta[group], -np.abs(theta[group])):
                if canonical_parameters(part, point, part.bounds)[1]:
                    return True
        return False


def _positive_number_text(value: float) -> str:
    """Return a positive number as it stands in a formula."""
    return repr(value).removesuffix(".0")
