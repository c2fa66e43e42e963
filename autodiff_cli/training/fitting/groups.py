"""Fits of groups: one fit for each label of a column. The model is parsed and compiled once, and small least-squares
fits run in one batch.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.data.table import DataError
from autodiff_cli.graph.tape import gc_paused
from autodiff_cli.language.errors import ExpressionError, format_names, suggest
from autodiff_cli.language.lexer import canonical_name
from autodiff_cli.options import OptionError, check_restrictions, given_options, refused
from autodiff_cli.training.fitting.batched_fit import (
    BatchedFit,
    BatchedStatistics,
    GroupedRows,
    fit_batch,
    sort_by_group,
)
from autodiff_cli.training.fitting.fit import build_fit, fit_objective
from autodiff_cli.training.fitting.inference import DerivedQuantities
from autodiff_cli.training.fitting.optimization import RESTARTS, choose_method, warn_if_doubtful
from autodiff_cli.training.fitting.progress import Progress
from autodiff_cli.training.losses import LossKind
from autodiff_cli.training.methods.gradient_descent import Epoch, Outcome
from autodiff_cli.training.objective.kernels import linear_parameters
from autodiff_cli.training.objective.loading import Data, SharedDataset, as_dataset, factorize
from autodiff_cli.training.objective.model import Model, tie_fixed_parameters
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.fitted_model import FittedModel

Order = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class GroupBatching:
    """When groups are fitted in one batch, and how poor fits are improved."""

    min_groups: int = 4  # groups: fewer are not worth a batch
    max_mean_rows: int = 2**15  # mean rows of a group: larger groups are efficient by themselves
    max_rows: int = 2**20  # rows of the largest group
    max_parameters: int = 30  # parameters of a group
    max_retries: int = 3  # groups that are fitted by themselves to find starting values for the other poor fits
    clear_improvement: float = 0.99  # ratio of sums of squares below which a retry replaces a fit


BATCHING = GroupBatching()


@dataclass(frozen=True, slots=True)
class FittedGroup:
    """The fit of the rows with one label.

    Attributes:
        by: the label.
        fit: the fitted model; None if there is an error.
        error: why there is no fit; otherwise empty.
    """

    by: float | str
    fit: FittedModel | None
    error: str = ""

    @property
    def failure(self) -> str:
        """Why the group has no result; empty if it has one."""
        return self.error or (self.fit.failure if self.fit is not None else "")


@dataclass(frozen=True, slots=True)
class FittedGroups:
    """The fits of all groups in the order of their labels.

    Attributes:
        model: the text of the model.
        column: the column of the labels.
        parameters: the names of the parameters of each fit, including fixed ones.
        groups: the fits.
        rows: the number of rows of all groups.
        dropped: the number of rows that were dropped because a cell was missing.
    """

    model: str
    column: str
    parameters: tuple[str, ...]
    groups: tuple[FittedGroup, ...]
    rows: int
    dropped: int

    def __iter__(self) -> Iterator[FittedGroup]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, by: float | str) -> FittedModel:
        """Return the fit of the group with a label. Raises KeyError if there is none."""
        for group in self.groups:
            if group.by == by and group.fit is not None:
                return group.fit
        raise KeyError(by)


def fit_groups(model: str | Model, data: Data, by: str, options: FitOptions) -> FittedGroups:
    """Fit a model to each group of rows. See `autodiff_cli.fit_by`, also for the exceptions."""
    check_restrictions(_GROUP_RESTRICTIONS, given_options(options))
    dataset = as_dataset(data)
    name = canonical_name(by)
    if name not in dataset.names:
        closest = suggest(name, dataset.names)
        hint = f"; did you mean `{closest}`?" if closest else f" ({format_names(dataset.names)})"
        raise DataError(f"by: the data have no column `{name}`{hint}")
    if isinstance(model, str):
        text, options = tie_fixed_parameters(model, dataset.names, options)
        model = Model.parse(text, dataset.names, options.parameters.names)
    shared = SharedDataset(dataset, [model], options, name)
    # The labels are those of all rows that can be used, which are the rows of the objective.
    objective = Objective.of(model, shared, options)
    if not objective.parameters:
        raise OptionError("there is nothing to fit: every parameter is fixed")
    method = choose_method(options, objective)
    options.check_method(method)
    labels, codes = factorize(shared.labels.pop(name))  # only the codes are needed from here on
    order, sizes = sort_by_group(codes, len(labels))
    del codes
    rows = GroupedRows(objective, order, sizes)
    batch = _BatchedGroups(objective, rows, options) if _can_batch(objective, method, options, sizes) else None
    groups: list[FittedGroup] = []
    # With many groups nearly all new objects stay alive, so garbage collection only costs time.
    with contextlib.nullcontext() if batch is None else gc_paused():
        for number, label in enumerate(labels.tolist()):
            fit = None if batch is None else batch.fit(number)
            groups.append(
                _fit_group(label, rows.group_objective(number), options) if fit is None else FittedGroup(label, fit)
            )
    names = (*objective.parameters, *objective.fixed)
    return FittedGroups(objective.model.text, name, names, tuple(groups), objective.rows, objective.data.dropped)


# The options that only apply to a single fit.
_GROUP_RESTRICTIONS = (
    *refused(
        ("checkpoint", "resume"), "checkpoints are for a single fit, not for groups; remove checkpoint and resume"
    ),
    *refused(("stream", "cluster"), "by: grouped rows must be in memory; remove {option}"),
    *refused(("on_epoch",), "on_epoch needs a single fit"),
)


def _fit_group(label: Any, part: Objective, options: FitOptions) -> FittedGroup:
    """Fit one group, and return its error if that fails."""
    try:
        return FittedGroup(label, fit_objective(part, options))
    except (DataError, ExpressionError, OptionError, ArithmeticError, np.linalg.LinAlgError) as error:
        return FittedGroup(label, None, str(error))


# The options that a batch of fits supports.
_BATCHED_OPTIONS = {
    *("start", "fixed", "weights", "sigma", "absolute_sigma", "drop_missing", "no_columns", "loss", "family"),
    *("optimizer", "seed", "backend", "threads", "confidence", "derive"),
}


def _can_batch(objective: Objective, method: str, options: FitOptions, sizes: NDArray[np.intp]) -> bool:
    """Return whether all groups can be fitted in one batch: plain least squares with numbers as parameters."""
    return (
        method == "lm"
        and len(sizes) >= BATCHING.min_groups
        and objective.rows <= BATCHING.max_mean_rows * len(sizes)
        and max(sizes) <= BATCHING.max_rows
        and objective.kind is LossKind.SQUARES
        and objective.layout.size <= BATCHING.max_parameters
        and not objective.model.array_parameters
        and not objective.is_network
        and not objective.is_penalised
        and not objective.bounds_by_name
        and given_options(options).keys() <= _BATCHED_OPTIONS
    )


class _BatchedGroups:
    """The fits of groups in one batch."""

    def __init__(self, objective: Objective, rows: GroupedRows, options: FitOptions) -> None:
        self._group_objective, self._options, self._layout = rows.group_objective, options, objective.layout
        self._quantities = DerivedQuantities(options.quantities, objective.model, objective.layout)
        leaves = [objective.model.program.leaves[name] for name in objective.parameters]
        names = linear_parameters(objective.model.program.output, leaves, objective.model.shapes)
        self._rows = rows
        start = np.tile(objective.start, (len(rows.sizes), 1))
        self._batch = fit_batch(self._rows, start)
        variations = _target_variations(rows)
        self._has_enough_rows = rows.sizes * objective.components > objective.layout.size
        self._is_poor = ~self._batch.converged | ~(
            self._sums_of_squares() <= (1 - RESTARTS.poor_r_squared) * variations
        )
        if len(names) < len(leaves):
            self._retry_poor_fits(start, variations)
        self._statistics = BatchedStatistics(objective, self._rows, self._batch, variations, options)

    def fit(self, group: int) -> FittedModel | None:
        """Return the fit of a group; None if it has to be fitted by itself."""
        batch = self._batch
        if not batch.converged[group] or not self._has_enough_rows[group]:
            return None
        if self._statistics.is_regular[group] and not self._is_poor[group] and not self._options.quantities:
            return self._statistics.fit(group)
        part, theta = self._group_objective(group), batch.theta[group].copy()
        triangle = batch.triangles[group]
        triangle.setflags(write=False)
        part._triangle_cache = {theta.tobytes(): triangle}
        progress = Progress()
        losses = batch.losses[:, group]
        for number, loss in enumerate(losses[~np.isnan(losses)].tolist()):
            progress.record(Epoch(number, part.mean_square(loss), theta))
        outcome = Outcome(theta, True)
        if self._is_poor[group]:
            warn_if_doubtful(part, progress, outcome)
        return build_fit(part, "lm", progress, outcome, self._options, self._quantities)

    def _sums_of_squares(self) -> Array:
        sums: Array = np.sum(np.square(self._batch.triangles[:, :, -1]), axis=1)
        return sums

    def _retry_poor_fits(self, start: Array, variations: Array) -> None:
        """Fit groups with poor fits again, from the solutions of other groups and from starting values found in the
        data.
        """
        for seed in self._retry_starts():
            groups = np.flatnonzero(self._is_poor & self._has_enough_rows)
            if not len(groups):
                return
            starts = start.copy()
            starts[groups] = seed
            rows = self._rows.subset(groups)
            self._accept_better(groups, fit_batch(rows, starts[groups]))
            self._is_poor = ~self._batch.converged | ~(
                self._sums_of_squares() <= (1 - RESTARTS.poor_r_squared) * variations
            )

    def _retry_starts(self) -> Iterator[Array]:
        """Yield starting values for groups with poor fits."""
        is_good = ~self._is_poor & self._has_enough_rows
        if is_good.any():
            yield np.median(self._batch.theta[is_good], axis=0)
        for _ in range(BATCHING.max_retries):
            poor = np.flatnonzero(self._is_poor & self._has_enough_rows)
            if not len(poor):
                return
            group = int(poor[len(poor) // 2])
            fit = _fit_group(group, self._group_objective(group), self._options).fit
            if fit is None or fit.failure:
                return
            yield self._layout.flatten([*fit.parameters.values()])

    def _accept_better(self, groups: Order, again: BatchedFit) -> None:
        """Replace the fits of groups for which a retry is clearly better."""
        old_squares, batch = self._sums_of_squares()[groups], self._batch
        new_squares = np.sum(np.square(again.triangles[:, :, -1]), axis=1)
        better = again.converged & (~batch.converged[groups] | (new_squares < BATCHING.clear_improvement * old_squares))
        steps = max(len(batch.losses), len(again.losses))
        losses = np.full((steps, len(batch.theta)), math.nan)
        losses[: len(batch.losses)] = batch.losses
        accepted = groups[better]
        losses[:, accepted] = math.nan
        losses[: len(again.losses), accepted] = again.losses[:, better]
        theta, triangles, converged = batch.theta.copy(), batch.triangles.copy(), batch.converged.copy()
        theta[accepted], triangles[accepted], converged[accepted] = again.theta[better], again.triangles[better], True
        self._batch = BatchedFit(theta, triangles, converged, losses)


def _target_variations(rows: GroupedRows) -> Array:
    """Return the (weighted) sum of squares of each group's target about its mean."""
    variations = np.empty(len(rows.sizes))
    for groups in rows.batches():
        target, weight, sizes = rows.target(groups), rows.weights(groups), rows.sizes[groups]
        starts = np.cumsum(sizes) - sizes
        total = np.add.reduceat(weight, starts)
        with np.errstate(all="ignore"):
            means = np.add.reduceat(target * weight, starts, axis=1) / total
            deviations = target - np.repeat(means, sizes, axis=1)
            variations[groups] = np.add.reduceat(np.sum(weight * np.square(deviations), axis=0), starts)
    return variations
