"""Fits of groups: one fit for each label of a column. The model is parsed and compiled once, and the
fits run in one batch.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.table import DataError
from autodiff_cli.graph.tape import gc_paused
from autodiff_cli.language.errors import ExpressionError, format_names, suggest
from autodiff_cli.language.lexer import canonical_name
from autodiff_cli.language.names import JOINT_SEPARATOR, joined_columns
from autodiff_cli.numbers.arrays import ignore_float_errors
from autodiff_cli.options import OptionError, check_restrictions, explicit_options, refused
from autodiff_cli.training.fitting.batched_fit import BatchedFit
from autodiff_cli.training.fitting.fit import TERMS_NOTE, canonical_parameters, conclude, fit_objective, order_terms
from autodiff_cli.training.fitting.inference import DerivedQuantities
from autodiff_cli.training.fitting.minimization import checked_end
from autodiff_cli.training.fitting.optimization import StartSearch, choose_method, doubt_of
from autodiff_cli.training.fitting.progress import Progress
from autodiff_cli.training.fitting.starts import Sinusoids
from autodiff_cli.training.objective.batch import Fits, GroupBatch, sort_by_group
from autodiff_cli.training.objective.loading import Data, SharedDataset, as_dataset
from autodiff_cli.training.objective.model import Model, tie_fixed_parameters
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.optimizers import Epoch
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.fitted_model import FittedModel
from autodiff_cli.training.result.row_figures import figures_of_groups
from autodiff_cli.training.result.statistics import ComputedStatistics, batch_statistics


@dataclass(frozen=True, slots=True)
class GroupBatching:
    """When groups are fitted in one batch."""

    min_groups: int = 4  # groups: fewer are not worth a batch
    max_mean_rows: int = 2**15  # mean rows of a group: larger groups are efficient by themselves
    max_rows: int = 2**20  # rows of the largest group
    max_parameters: int = 30  # parameters of a group
    max_searched: int = 20  # poor groups: if there are more, the model does not suit the data
    max_checked: int = 5  # groups that are tested for equivalent parameters, as a sample of all


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
    check_restrictions(_GROUP_RESTRICTIONS, explicit_options(options))
    dataset = as_dataset(data)
    name = canonical_name(by)
    if name not in dataset.names:
        name = JOINT_SEPARATOR.join(part.strip() for part in name.split(","))
    for part in joined_columns(name, dataset.names):
        if part not in dataset.names:
            closest = suggest(part, dataset.names)
            hint = f"; did you mean `{closest}`?" if closest else f" ({format_names(dataset.names)})"
            raise DataError(f"by: the data have no column `{part}`{hint}")
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
    labels, codes = shared.groups(name)
    order, sizes = sort_by_group(codes, len(labels))
    del codes
    rows = GroupBatch(objective, order, sizes)
    batch = _BatchedGroups(objective, rows, method, options) if _can_batch(objective, method, options, sizes) else None
    groups: list[FittedGroup] = []
    # With many groups nearly all new objects stay alive, so garbage collection only costs time.
    with contextlib.nullcontext() if batch is None else gc_paused():
        for number, label in enumerate(labels.tolist()):
            try:
                fit = fit_objective(rows.objective_of(number), options) if batch is None else batch.fit(number)
                groups.append(FittedGroup(label, fit))
            except (DataError, ExpressionError, OptionError, ArithmeticError, np.linalg.LinAlgError) as error:
                groups.append(FittedGroup(label, None, str(error)))
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


# The options that a batch of fits does not support.
_SINGLE_OPTIONS = {"x_sigma", "epochs", "starts", "validation", "diagnosis", "plot"}


def _can_batch(objective: Objective, method: str, options: FitOptions, sizes: NDArray[np.intp]) -> bool:
    """Return whether all groups can be fitted in one batch: a method that converges, and numbers as parameters."""
    return (
        method in ("lm", "lbfgs")
        and len(sizes) >= BATCHING.min_groups
        and objective.rows <= BATCHING.max_mean_rows * len(sizes)
        and max(sizes) <= BATCHING.max_rows
        and objective.layout.size <= BATCHING.max_parameters
        and (method == "lm" or (objective.components == 1 and objective.classes is None))
        and not objective.model.array_parameters
        and not objective.is_network
        and not objective.has_theta
        and not objective.kernels.graphs.target_scales
        and not objective.orders
        and _SINGLE_OPTIONS.isdisjoint(explicit_options(options))
    )


class _BatchedGroups:
    """The fits of groups in one batch."""

    def __init__(self, objective: Objective, batch: GroupBatch, method: str, options: FitOptions) -> None:
        self._batch, self._method, self._options = batch, method, options
        self._quantities = DerivedQuantities(options.quantities, objective.model, objective.layout)
        self._fits = fits = BatchedFit(method, batch, options)
        with ignore_float_errors():
            ordered = fits.theta if objective.is_penalised else order_terms(objective, fits.theta)
        self._is_reordered = fits.converged & (ordered != fits.theta).any(axis=1)
        for group in np.flatnonzero(self._is_reordered).tolist():
            fits.theta[group] = ordered[group]
            fits.outcomes[group] = dataclasses.replace(fits.outcomes[group], theta=ordered[group])
        self._losses = None if method == "lm" else batch.losses(fits.theta, np.arange(batch.count))
        self._known: dict[int, ComputedStatistics] = {}
        self._is_regular = self._fits.converged & (batch.sizes * objective.components > objective.layout.size)
        regular = np.flatnonzero(self._is_regular)
        if len(regular) and not self._has_equivalent_points(regular):
            part, theta = batch.take(regular), fits.theta[regular]
            with ignore_float_errors():
                figures = figures_of_groups(part, theta)
            statistics = batch_statistics(part, theta, options.absolute_sigma, rows=figures)
            self._known = dict(zip(regular.tolist(), statistics, strict=True))

    def fit(self, group: int) -> FittedModel:
        """Return the fit of a group."""
        fits, objective = self._fits, self._batch.objective
        part, theta = self._batch.objective_of(group), fits.theta[group].copy()
        progress = Progress()
        progress.notes += [TERMS_NOTE] if self._is_reordered[group] else []
        for number, loss in enumerate(fits.histories[group]):
            progress.history.append({"epoch": number, "loss": loss})
            progress.last = Epoch(number, loss, theta)
        outcome = fits.outcomes[group]
        # A poor fit of the others may be as good as it gets, but the frequency of a group may be its own.
        is_searched = np.count_nonzero(fits.is_poor) <= BATCHING.max_searched or (
            fits.is_poor[group] and Sinusoids(objective).frequency_mask.any()
        )
        if not self._is_regular[group] or (fits.is_poor[group] and is_searched):
            search = StartSearch(self._method, part, self._options, progress)
            outcome = search.improve(checked_end(part, outcome))
        elif fits.is_poor[group]:
            progress.doubt = doubt_of(part, outcome)
        is_known = outcome is fits.outcomes[group]
        known = self._known.get(group) if is_known else None
        end_loss = float(self._losses[group]) if is_known and self._losses is not None else None
        return conclude(part, self._method, progress, outcome, self._options, self._quantities, known, end_loss)

    def _has_equivalent_points(self, fits: Fits) -> bool:
        """Return whether other signs or phases of the parameters may give the same predictions, so that each group has
        to choose which to report. Some of the fits are checked.
        """
        checked = np.linspace(0, len(fits) - 1, min(BATCHING.max_checked, len(fits))).astype(np.intp)
        for group in fits[checked].tolist():
            part, theta = self._batch.objective_of(group), self._fits.theta[group]
            with ignore_float_errors():
                if Sinusoids(part).quarter_turns(theta):
                    return True
            if any(canonical_parameters(part, point, part.bounds)[1] for point in (theta, -np.abs(theta))):
                return True
        return False
