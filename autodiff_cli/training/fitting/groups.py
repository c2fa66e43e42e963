"""Fits of groups: one fit for each label of a column. The model is parsed and compiled once, and the fits run in one
batch.

A fit of a batch that is poor is repeated from many points that all poor fits share, and so are noisy fits if this
improves some of a sample. A repetition counts if it is clearly better.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, Mask
from autodiff_cli.data.table import DataError
from autodiff_cli.graph.tape import gc_paused
from autodiff_cli.language.errors import ExpressionError, format_names, suggest
from autodiff_cli.language.lexer import canonical_name
from autodiff_cli.language.names import JOINT_SEPARATOR, joined_columns
from autodiff_cli.numbers.arrays import ignore_float_errors
from autodiff_cli.options import OptionError, check_restrictions, explicit_options, refused
from autodiff_cli.training.fitting.fit import RANGES, FitRun, checked_method, conclude, fit_objective
from autodiff_cli.training.fitting.inference import DerivedQuantities
from autodiff_cli.training.fitting.minimization import comparison_losses, minimize_each, outlier_minima_mask
from autodiff_cli.training.fitting.optimization import (
    RESTARTS,
    StartSearch,
    default_starts,
    has_several_minima,
    is_poor_smooth_fit,
    judge_end,
    likelihood_gains,
    outlier_starts,
    unset_parameters,
)
from autodiff_cli.training.fitting.progress import Progress
from autodiff_cli.training.fitting.starts import has_rivals, shared_multistart
from autodiff_cli.training.fitting.symmetries import TERMS_NOTE, Sinusoids, canonical_parameters, order_terms
from autodiff_cli.training.losses import LossKind
from autodiff_cli.training.methods.gradient_descent import Outcome, StoppingRule
from autodiff_cli.training.objective.batch import Fits, GroupBatch, rows_by_group
from autodiff_cli.training.objective.cluster_connection import connected
from autodiff_cli.training.objective.loading import Data, as_dataset, check_any_weight
from autodiff_cli.training.objective.model import Model, tie_fixed_parameters
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.optimizers import Epoch
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.diagnosis import residual_structure_of_groups
from autodiff_cli.training.result.fitted_model import FittedModel
from autodiff_cli.training.result.goodness import RESIDUALS
from autodiff_cli.training.result.row_figures import figures_of_groups
from autodiff_cli.training.result.statistics import ComputedStatistics, batch_statistics
from autodiff_cli.training.rows import GROUP, MAX_COPIED_ROWS


@dataclass(frozen=True, slots=True)
class GroupBatching:
    """When groups are fitted in one batch."""

    min_groups: int = 4  # groups: fewer are not worth a batch
    max_mean_rows: int = 2**15  # mean rows of a group: larger groups are efficient by themselves
    max_parameters: int = 30  # parameters of a group
    # Poor groups that are searched by themselves, those with the least random residuals, and noisy groups in the sample
    # that decides whether all of them are fitted again.
    max_searched: int = 20
    max_checked: int = 5  # groups that are tested for equivalent parameters, as a sample of all
    searched_rows: int = 2**14  # rows of poor groups that are fitted from many points together


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
    for column in joined_columns(name, dataset.names):
        if column not in dataset.names:
            closest = suggest(column, dataset.names)
            hint = f"; did you mean `{closest}`?" if closest else f" ({format_names(dataset.names)})"
            raise DataError(f"by: the data have no column `{column}`{hint}")
    if isinstance(model, str):
        text, options = tie_fixed_parameters(model, dataset.names, options)
        model = Model.parse(text, dataset.names, options.parameters.names)
    if model.program.convolutions:
        raise OptionError("by: the response of `convolve` is one series; select each group by itself, with --where")
    with connected(options) as options:
        objective = Objective.of(dataclasses.replace(model, group_column=name), dataset, options)
        method = checked_method(objective, options)
        assert objective.groups is not None
        labels = objective.groups.tolist()
        rows = GroupBatch(objective, rows_by_group(objective.column(GROUP).astype(np.int32, copy=False), len(labels)))
        is_batched = _can_batch(objective, method, options, rows.sizes)
        groups: list[FittedGroup] = []
        # With many groups nearly all new objects stay alive, so garbage collection only costs time.
        with gc_paused() if is_batched else contextlib.nullcontext():
            # The parts are the same wherever the rows are, so that results have the same bits.
            for some in rows.parts(most=MAX_COPIED_ROWS):
                part = rows.loaded(some)
                batch = BatchedFit(part, method, options) if is_batched else None
                for number, group in enumerate(some.tolist()):
                    try:
                        fit = _fit_alone(part.objective_of(number), options) if batch is None else batch.fit(number)
                        groups.append(FittedGroup(labels[group], fit))
                    except (DataError, ExpressionError, OptionError, ArithmeticError, np.linalg.LinAlgError) as error:
                        groups.append(FittedGroup(labels[group], None, str(error)))
    names = (*objective.parameters, *objective.fixed)
    return FittedGroups(objective.model.text, name, names, tuple(groups), objective.rows, objective.data.dropped)


def _fit_alone(objective: Objective, options: FitOptions) -> FittedModel:
    """Fit one group by itself. Raises DataError if all of its weights are 0, and as `fit_objective` does."""
    check_any_weight(objective.total_weight > 0)
    return fit_objective(objective, options)


# The options that only apply to a single fit.
_GROUP_RESTRICTIONS = (
    *refused(
        ("checkpoint", "resume"), "checkpoints are for a single fit, not for groups; remove checkpoint and resume"
    ),
    *refused(("laplace",), "laplace needs a single fit, of all rows; remove by"),
    *refused(("on_epoch",), "on_epoch needs a single fit"),
)


# The options that a batch of fits does not support.
_SINGLE_OPTIONS = {"x_sigma", "epochs", "starts", "validation", "diagnosis", "plot", "priors", "posterior"}


def _can_batch(objective: Objective, method: str, options: FitOptions, sizes: NDArray[np.intp]) -> bool:
    """Return whether all groups can be fitted in one batch: a method that converges, and numbers as parameters."""
    return (
        method in ("lm", "lbfgs")
        and len(sizes) >= BATCHING.min_groups
        and objective.rows <= BATCHING.max_mean_rows * len(sizes)
        and max(sizes) <= MAX_COPIED_ROWS
        and objective.layout.size <= BATCHING.max_parameters
        and (method == "lm" or (objective.components == 1 and objective.classes is None))
        and not objective.model.array_parameters
        and not objective.is_network
        and not objective.has_theta
        and not objective.kernels.graphs.target_scales
        and not objective.orders
        and not objective.shares
        and _SINGLE_OPTIONS.isdisjoint(explicit_options(options))
    )


class StepLog:
    """The losses of all steps of a batch of fits."""

    def __init__(self) -> None:
        self._fits: list[Fits] = []
        self._losses: list[Array] = []

    def record(self, fits: Fits, _: NDArray[np.intp], losses: Array, theta: Array) -> None:  # noqa: ARG002 - a callback
        """Add a step of some fits."""
        self._fits.append(fits.copy())
        self._losses.append(losses.copy())

    def histories(self, count: int) -> list[list[float]]:
        """Return the losses of each fit in the order of its steps."""
        fits = np.concatenate([np.empty(0, np.intp), *self._fits])  # no fit may have a step
        losses = np.concatenate([np.empty(0), *self._losses])
        order = np.argsort(fits, kind="stable")
        ends = np.cumsum(np.bincount(fits, minlength=count)).tolist()
        ordered = losses[order].tolist()
        return [ordered[start:end] for start, end in zip([0, *ends], ends, strict=False)]


class BatchedFit:
    """The fits of groups in one batch: attempted together, diagnosed, and repeated from better starting values.

    Args:
        batch: the groups.
        method: `lm` or `lbfgs`.
        options: the options of the fits.

    Attributes:
        theta: the parameters, of shape (groups, P).
        outcomes: the ends of the fits.
        converged: which fits reached a minimum.
        is_poor: which fits should be improved: they did not converge, or they explain little.
        histories: the losses of each fit at the start and after each step.
    """

    def __init__(self, batch: GroupBatch, method: str, options: FitOptions) -> None:
        self._batch, self._method, self._options = batch, method, options
        self._objective = objective = batch.objective
        # Frequencies, exponents and kinks are searched of least squares only, as of fits alone.
        self._may_have_rivals, self._is_noisy = np.zeros((2, batch.count), np.bool_)
        self._quantities = DerivedQuantities(options.quantities, objective.model, objective.layout)
        every = np.arange(batch.count)
        self._has_weight = (batch.total_weights(every) > 0).tolist()
        self._has_enough_rows = batch.weighted_counts > objective.layout.size
        is_lm = method == "lm"
        starts = np.tile(objective.start, (batch.count, 1)) if is_lm else default_starts(objective, batch)[0]
        self.outcomes, self.histories = self._attempt(batch, starts)
        self.theta, self.converged = _ends(self.outcomes)
        self._losses = comparison_losses(batch, self.theta)
        self._structure = np.full(batch.count, np.nan)  # see `residual_structure`; nan where it is not needed
        self.is_poor = self._poor_mask(every)
        # Other starting values can lead to other fits.
        if (is_free := bool(unset_parameters(objective))) and objective.has_residuals and not objective.is_linear:
            self._improve()
        if is_free and len(doubtful := np.flatnonzero(outlier_minima_mask(batch, self.is_poor))):
            self._retry(outlier_starts(batch.take(doubtful), self.theta[doubtful], options.seed), doubtful)
        poor = np.flatnonzero(self.is_poor)
        self._worst = {*poor[np.argsort(-self._structure[poor])[: BATCHING.max_searched]].tolist()}
        with ignore_float_errors():
            ordered = self.theta if objective.is_penalised else order_terms(objective, self.theta)
        self._is_reordered = self.converged & (ordered != self.theta).any(axis=1)
        for group in np.flatnonzero(self._is_reordered).tolist():
            self.theta[group] = ordered[group]
            self.outcomes[group] = dataclasses.replace(self.outcomes[group], theta=ordered[group])
        self._end_losses = None if is_lm else batch.losses(self.theta, every)
        model = objective.model
        self._ranges = {name: batch.ranges(name) for name in model.predictors() if name in model.numeric}
        self._known: dict[int, ComputedStatistics] = {}
        self._is_regular = self.converged & self._has_enough_rows
        regular = np.flatnonzero(self._is_regular)
        if len(regular) and not self._has_equivalent_points(regular):
            part, theta = batch.take(regular), self.theta[regular]
            with ignore_float_errors():
                figures = figures_of_groups(part, theta)
            statistics = batch_statistics(part, theta, options.absolute_sigma, rows=figures)
            self._known = dict(zip(regular.tolist(), statistics, strict=True))

    def fit(self, group: int) -> FittedModel:
        """Return the fit of a group. Raises DataError if all of its weights are 0."""
        check_any_weight(self._has_weight[group])
        part, theta = self._batch.objective_of(group), self.theta[group].copy()
        part.cached(RANGES, lambda: {name: ends[group] for name, ends in self._ranges.items()})
        progress = Progress()
        progress.notes += [TERMS_NOTE] if self._is_reordered[group] else []
        losses = self.histories[group]
        progress.history += [{"epoch": number, "loss": loss} for number, loss in enumerate(losses)]
        progress.last = Epoch(len(losses) - 1, losses[-1], theta) if losses else None
        outcome = self.outcomes[group]
        # A poor fit of the others may be as good as it gets, but the frequency of a group may be its own.
        is_searched = self.is_poor[group] and (
            group in self._worst or bool(Sinusoids(part).frequencies) or has_several_minima(part)
        )
        if not self._is_regular[group] or is_searched or self._may_have_rivals[group]:
            outcome = StartSearch(self._method, part, self._options, progress).improve(outcome)
        else:
            outcome = judge_end(part, outcome)
        is_known = outcome is self.outcomes[group]
        if is_known and not np.isnan(self._structure[group]):
            part.cached_at("structure", theta, lambda: float(self._structure[group]))
        known = self._known.get(group) if is_known else None
        end_loss = float(self._end_losses[group]) if is_known and self._end_losses is not None else None
        run = FitRun(part, self._method, progress, self._options, self._quantities)
        return conclude(run, outcome, known, end_loss)

    def _has_equivalent_points(self, fits: Fits) -> bool:
        """Return whether other signs or phases of the parameters may give the same predictions, so that each group has
        to choose which to report. Some of the fits are checked.
        """
        checked = np.linspace(0, len(fits) - 1, min(BATCHING.max_checked, len(fits))).astype(np.intp)
        for group in fits[checked].tolist():
            part, theta = self._batch.objective_of(group), self.theta[group]
            with ignore_float_errors():
                if Sinusoids(part).quarter_turns(theta):
                    return True
            if any(canonical_parameters(part, point, part.bounds)[1] for point in (theta, -np.abs(theta))):
                return True
        return False

    def _attempt(self, batch: GroupBatch, start: Array) -> tuple[list[Outcome], list[list[float]]]:
        """Return the ends and the losses of fits from a start."""
        log = StepLog()
        stop = StoppingRule(tolerance=self._options.tolerance)
        outcomes = minimize_each(self._method, batch, start, log.record, stop)
        return outcomes, log.histories(len(start))

    def _poor_mask(self, fits: Fits) -> Mask:
        """Return which of some fits should be improved."""
        objective, batch, is_poor = self._objective, self._batch, ~self.converged[fits]
        is_likelihood = objective.kind is LossKind.LIKELIHOOD
        if self._method == "lm":  # these are often very many
            variations = batch.mean_squares(batch.target_variations(fits), fits)
            left = self._losses[fits] / np.where(variations > 0, variations, 1.0)
            is_poor |= ~(left <= 1 - RESTARTS.poor_r_squared)
            self._is_noisy[fits] = ~(left <= 1 - RESTARTS.noisy_r_squared)
            self._may_have_rivals[fits] = has_rivals(objective) and ~(left < 1 - RESTARTS.perfect_r_squared)
            self._structure[fits] = structure = residual_structure_of_groups(batch, self.theta[fits], fits)
            is_poor |= (structure > RESIDUALS.systematic_sigmas) & ~(left < 1 - RESTARTS.perfect_r_squared)
        elif objective.has_residuals and not (is_likelihood and objective.is_generalised_linear):
            limit = RESIDUALS.systematic_sigmas if objective.is_linear else RESIDUALS.suspect_sigmas
            self._structure[fits] = residual_structure_of_groups(batch, self.theta[fits], fits)
            is_poor |= self._structure[fits] > limit
            self._is_noisy[fits] = is_likelihood
            if not (is_likelihood or objective.is_linear):
                for k in np.flatnonzero(~is_poor).tolist():
                    fit = int(fits[k])
                    is_poor[k] = is_poor_smooth_fit(batch.objective_of(fit), self.outcomes[fit])
        elif has_several_minima(objective):
            is_poor[:] = True
        return is_poor

    def _improve(self) -> None:
        """Repeat poor fits from many points that they share, and other noisy ones if this improves some of a sample.

        Frequencies are searched in each group, by scans.
        """
        is_open = self._has_enough_rows & (not Sinusoids(self._objective).frequencies)
        free = self._objective.layout.mask(unset_parameters(self._objective))
        noisy = np.flatnonzero(self._is_noisy & ~self.is_poor & is_open)
        sample = noisy[:: len(noisy) // BATCHING.max_searched + 1]
        for chosen in (np.flatnonzero(self.is_poor & is_open), sample, np.setdiff1d(noisy, sample)):
            before = self._losses.copy()
            for some in self._batch.parts(chosen, BATCHING.searched_rows) if len(chosen) else ():
                self._retry(shared_multistart(self._method, self._batch.take(some), free, self._options.seed), some)
            if chosen is sample and (self._losses == before).all():
                break

    def _retry(self, start: Array, fits: Fits) -> None:
        """Repeat some fits from one start, or from one each, and keep the fits that are clearly better."""
        batch = self._batch.take(fits)
        outcomes, histories = self._attempt(batch, np.broadcast_to(start, (len(fits), self.theta.shape[1])))
        theta, converged = _ends(outcomes)
        losses = comparison_losses(batch, theta)
        gains = likelihood_gains(batch.objective.kind, batch.weighted_counts, self._losses[fits], losses)
        is_better = converged & (~self.converged[fits] | (gains > RESTARTS.likelihood_gain))
        better = fits[is_better]
        self.theta[better], self.converged[better] = theta[is_better], True
        self._losses[better] = losses[is_better]
        self._batch.set_scales(better, batch.scales[is_better])
        for fit, history in zip(fits[is_better].tolist(), np.flatnonzero(is_better).tolist(), strict=True):
            self.outcomes[fit], self.histories[fit] = outcomes[history], histories[history]
        self.is_poor[better] = self._poor_mask(better)


def _ends(outcomes: Sequence[Outcome]) -> tuple[Array, Mask]:
    """Return where fits ended, of shape (fits, P), and which of these are minima without a kink or a remark."""
    is_plain = [end.converged and not end.kinks and not end.note for end in outcomes]
    return np.array([end.theta for end in outcomes]), np.array(is_plain)
