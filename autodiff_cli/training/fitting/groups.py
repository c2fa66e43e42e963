"""Fits of groups: one fit for each label of a column. The model is parsed and compiled once, and the fits run in one
batch; see `BatchedFit`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, ignore_float_errors
from autodiff_cli.data.table import DataError
from autodiff_cli.graph.tape import gc_paused
from autodiff_cli.language.errors import InputError, format_names, spelling_hint
from autodiff_cli.language.lexer import canonical_name
from autodiff_cli.language.names import JOINT_SEPARATOR, joined_columns
from autodiff_cli.options import OptionError, check_restrictions, convert_plain_value, explicit_options, refused
from autodiff_cli.training.fitting import fit as single_fit
from autodiff_cli.training.fitting.inference import DerivedQuantities
from autodiff_cli.training.fitting.minimization import are_rounding_errors, assess_solution
from autodiff_cli.training.fitting.optimization import BatchedFit
from autodiff_cli.training.fitting.progress import Progress
from autodiff_cli.training.fitting.symmetries import TERMS_NOTE, Sinusoids, canonical_parameters, order_terms
from autodiff_cli.training.objective.batch import BATCH, Fits, GroupBatch, rows_by_group
from autodiff_cli.training.objective.cluster_connection import connected
from autodiff_cli.training.objective.loading import NO_WEIGHT, Data, as_dataset
from autodiff_cli.training.objective.model import Model, tie_fixed_parameters
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.objective.preparation import parse_model
from autodiff_cli.training.optimizers import Epoch
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.diagnosis import STRUCTURE, curve_warnings, residual_structures
from autodiff_cli.training.result.fitted_model import FittedModel
from autodiff_cli.training.result.statistics import ComputedStatistics
from autodiff_cli.training.rows import GROUP, MAX_COPIED_ROWS


class GroupBatching(NamedTuple):
    """When groups are fitted in one batch."""

    min_groups: int = 4  # groups: fewer are not worth a batch
    max_mean_rows: int = 2**15  # mean rows of a group: larger groups are efficient by themselves
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
        notes: sentences about rows that were left out.
    """

    model: str
    column: str
    parameters: tuple[str, ...]
    groups: tuple[FittedGroup, ...]
    rows: int
    notes: tuple[str, ...]

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


@ignore_float_errors()
def fit_groups(model: str | Model, data: Data, by: str, options: FitOptions) -> FittedGroups:
    """Fit a model to each group of rows. See `autodiff_cli.fit_by`, also for the exceptions."""
    check_restrictions(_GROUP_RESTRICTIONS, explicit_options(options))
    dataset = as_dataset(data, [model])
    name = canonical_name(convert_plain_value(by, str, "by"))
    if name not in dataset.names:
        name = JOINT_SEPARATOR.join(part.strip() for part in name.split(","))
    for column in joined_columns(name, dataset.names):
        if column not in dataset.names:
            hint = spelling_hint(column, dataset.names, f"the columns are {format_names(dataset.names)}")
            raise DataError(f"by: the data have no column `{column}`; {hint}")
    if isinstance(model, str):
        text, options = tie_fixed_parameters(model, dataset.names, options)
        model = parse_model(text, tuple(dataset.names), frozenset(options.parameters.names), name)
    else:
        model = dataclasses.replace(model, group_column=name)
    if model.program.convolutions:
        raise OptionError("by: the response of `convolve` is one series; select each group by itself, with --where")
    with connected(options) as options:
        objective = Objective.of(model, dataset, options)
        method = single_fit.checked_method(objective, options)
        assert objective.groups is not None
        labels = objective.groups.tolist()
        numbers = rows_by_group(objective.column(GROUP).astype(np.int32, copy=False), len(labels))
        used = [group for group, some in enumerate(numbers) if len(some)]
        rows = GroupBatch(objective, [numbers[group] for group in used])
        is_batched = _can_batch(objective, method, options, rows.sizes)
        groups = [FittedGroup(label, None, NO_WEIGHT) for label in labels]
        # With many groups nearly all new objects stay alive, so garbage collection only costs time.
        with gc_paused() if is_batched else contextlib.nullcontext():
            # The parts do not depend on where the rows are, so results have the same bits.
            for some in rows.parts(most=MAX_COPIED_ROWS):
                part = rows.load(some)
                batch = GroupFits(part, method, options) if is_batched else None
                for number, group in enumerate(used[k] for k in some.tolist()):
                    try:
                        if batch is None:
                            fit = single_fit.fit_objective(part.objective_of(number), options)
                        else:
                            fit = batch.fit(number)
                        groups[group] = FittedGroup(labels[group], fit)
                    except (InputError, ArithmeticError, np.linalg.LinAlgError) as error:
                        groups[group] = FittedGroup(labels[group], None, str(error))
    names = (*objective.parameters, *objective.fixed)
    return FittedGroups(
        objective.model.text, name, names, tuple(groups), objective.rows, (*single_fit.left_out(objective),)
    )


# The options that only apply to a single fit.
_GROUP_RESTRICTIONS = (
    *refused(("checkpoint", "resume"), "checkpoints are for a single fit, not groups; remove checkpoint and resume"),
    *refused(("laplace",), "laplace needs a single fit, of all rows; remove by"),
    *refused(("on_epoch",), "on_epoch needs a single fit"),
)


# The options that a batch of fits does not support.
_SINGLE_OPTIONS = {"x_sigma", "starts", "validation", "diagnosis", "posterior"}


def _can_batch(objective: Objective, method: str, options: FitOptions, sizes: NDArray[np.intp]) -> bool:
    """Return whether all groups can be fitted in one batch: a method that converges, and numbers as parameters."""
    return (
        len(sizes) >= BATCHING.min_groups
        and float(np.mean(sizes)) <= BATCHING.max_mean_rows
        and max(sizes) <= MAX_COPIED_ROWS
        and objective.layout.size <= BATCH.max_parameters
        and (method == "lm" or (method == "lbfgs" and objective.components == 1 and objective.classes is None))
        and not objective.model.array_parameters
        and not objective.has_theta
        and not objective.kernels.graphs.target_scales
        and not objective.orders
        and not objective.shares
        and _SINGLE_OPTIONS.isdisjoint(explicit_options(options))
    )


class GroupFits:
    """The fits of groups in one batch, with the statistics and losses that their results need.

    Args:
        batch: the groups.
        method: `lm` or `lbfgs`.
        options: the options of the fits.
    """

    def __init__(self, batch: GroupBatch, method: str, options: FitOptions) -> None:
        self._batch, self._method, self._options = batch, method, options
        objective, every = batch.objective, np.arange(batch.count)
        self._quantities = DerivedQuantities(options.quantities, objective.model, objective.layout)
        self._histories: list[list[float]] = [[] for _ in every]
        self._notes: list[list[str]] = [[] for _ in every]
        fitted = BatchedFit(batch, method, options, self._record, self._notes)
        fitted.restart_everywhere()
        self._alternative_warnings = fitted.resolve_alternatives()
        converged = fitted.select(lambda end: end.converged)
        ordered = fitted.theta if objective.is_penalised else order_terms(objective, fitted.theta)
        for group in np.flatnonzero(converged & (ordered != fitted.theta).any(axis=1)).tolist():
            fitted.move(group, dataclasses.replace(fitted.outcomes[group], theta=ordered[group]))
            self._notes[group].append(TERMS_NOTE)
        self._theta, self._outcomes = fitted.theta, fitted.outcomes
        losses = batch.losses(self._theta, every)
        self._roundings = are_rounding_errors(batch, self._theta, losses)
        self._end_losses = None if method == "lm" else losses
        self._ranges = {name: batch.ranges(name) for name in single_fit.numeric_predictors(objective.model)}
        self._structures = residual_structures(batch, self._theta, every)
        self._breaks = curve_warnings(batch, self._theta, every)
        self._known: dict[int, ComputedStatistics] = {}
        regular = np.flatnonzero(converged & (batch.target_counts > objective.layout.size))
        if len(regular) and not self._has_equivalent_points(regular):
            self._known = dict(zip(regular.tolist(), fitted.statistics_of(regular), strict=True))

    def _record(self, fits: Fits, numbers: NDArray[np.intp], losses: Array, _: Array) -> None:
        """Add a step of some fits to their histories, which begin again with step 0."""
        for fit, number, loss in zip(fits.tolist(), numbers.tolist(), losses.tolist(), strict=True):
            self._histories[fit][number:] = [loss]

    def fit(self, group: int) -> FittedModel:
        """Return the fit of a group."""
        part, theta, losses = self._batch.objective_of(group), self._theta[group].copy(), self._histories[group]
        part.cached(single_fit.RANGES, lambda: {name: ends[group] for name, ends in self._ranges.items()})
        part.cached_at(STRUCTURE, theta, lambda: float(self._structures[group]))
        part.cached_at("break", theta, lambda: str(self._breaks[group]))
        part.cached_at("rounding", theta, lambda: bool(self._roundings[group]))
        progress = Progress()
        progress.notes += self._notes[group]
        progress.warnings += self._alternative_warnings[group]
        progress.history += [{"epoch": number, "loss": loss} for number, loss in enumerate(losses)]
        progress.last = Epoch(len(losses) - 1, losses[-1], theta) if losses else None
        run = single_fit.FitRun(part, self._method, progress, self._options, self._quantities)
        outcome = assess_solution(part, self._outcomes[group])
        solution_loss = None if self._end_losses is None else float(self._end_losses[group])
        # The known statistics hold at a minimum; they are not used for an end that failed after all.
        known = None if single_fit.missing_errors_reason(outcome) else self._known.get(group)
        return single_fit.conclude(run, outcome, known, solution_loss)

    def _has_equivalent_points(self, fits: Fits) -> bool:
        """Return whether other signs or phases of the parameters may give the same predictions, so that each group has
        to choose which to report. Some of the fits are checked.
        """
        checked = np.linspace(0, len(fits) - 1, min(BATCHING.max_checked, len(fits))).astype(np.intp)
        for group in fits[checked].tolist():
            part, theta = self._batch.objective_of(group), self._theta[group]
            if (waves := Sinusoids(part)).frequencies or waves.phases:
                return True
            if any(canonical_parameters(part, point)[1] for point in (theta, -np.abs(theta))):
                return True
        return False
