"""The fits of groups of rows in one batch: attempted together, diagnosed, and repeated from better starting values.

A fit that is poor is repeated from the solutions of other groups, and from starting values that are estimated from the
data of a few poor groups. A repetition counts if it is clearly better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, Mask
from autodiff_cli.numbers.arrays import ignore_float_errors
from autodiff_cli.training.fitting.minimization import comparison_losses, estimated_scales, minimize_batch
from autodiff_cli.training.fitting.optimization import RESTARTS, StartSearch, default_starts, unset_parameters
from autodiff_cli.training.fitting.progress import Progress
from autodiff_cli.training.losses import LossKind
from autodiff_cli.training.methods.gradient_descent import Outcome, StoppingRule
from autodiff_cli.training.objective.batch import Fits, GroupBatch
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.goodness import MAD_TO_STD, RESIDUALS


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """Limits of the attempts to improve poor fits of a batch."""

    max_retries: int = 3  # groups that are fitted by themselves to find starting values for the other poor fits


RETRY = RetrySettings()


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
        fits, losses = np.concatenate(self._fits), np.concatenate(self._losses)
        order = np.argsort(fits, kind="stable")
        ends = np.cumsum(np.bincount(fits, minlength=count)).tolist()
        ordered = losses[order].tolist()
        return [ordered[start:end] for start, end in zip([0, *ends], ends, strict=False)]


class BatchedFit:
    """The fits of the groups of a batch.

    Args:
        method: `lm` or `lbfgs`.
        batch: the groups.
        options: the options of the method.

    Attributes:
        theta: the parameters, of shape (groups, P).
        outcomes: the ends of the fits.
        converged: which fits reached a minimum.
        is_poor: which fits should be improved: they did not converge, or they explain little.
        histories: the losses of each fit at the start and after each step.
        variations: the sum of squares of the target of each group about its mean; nan without a target.
    """

    def __init__(self, method: str, batch: GroupBatch, options: FitOptions) -> None:
        self._method, self._batch, self._options = method, batch, options
        self._objective = batch.objective
        count = len(batch.sizes)
        every = np.arange(count)
        has_residuals = self._objective.has_residuals
        self.variations = batch.target_variations(every) if has_residuals else np.full(count, np.nan)
        self._has_enough_rows = batch.sizes * self._objective.components > self._objective.layout.size
        starts = np.tile(self._objective.start, (count, 1))
        if method != "lm":
            starts, _ = default_starts(self._objective, batch)
        self.outcomes, self.histories = self._attempt(batch, starts)
        self.theta, self.converged = _ends(self.outcomes)
        self._losses = comparison_losses(batch, self._objective, self.theta)
        self.is_poor = self._poor_mask()
        if self._may_improve():
            self._improve()

    def _attempt(self, batch: GroupBatch, start: Array) -> tuple[list[Outcome], list[list[float]]]:
        """Return the ends and the losses of fits from a start."""
        log = StepLog()
        stop = StoppingRule(tolerance=self._options.tolerance)
        outcomes = minimize_batch(self._method, self._objective, batch, start, log.record, stop)
        return outcomes, log.histories(len(start))

    def _poor_mask(self) -> Mask:
        """Return which fits should be improved, by the criteria of single fits."""
        objective, batch, every = self._objective, self._batch, np.arange(len(self.theta))
        if self._method == "lm":
            variations = batch.mean_squares(self.variations, every)
            return ~self.converged | ~(self._losses <= (1 - RESTARTS.poor_r_squared) * variations)
        if not objective.has_residuals or objective.is_generalised_linear:
            return ~self.converged
        is_poor = ~self.converged | (_systematic_scores(batch, self.theta) > RESIDUALS.suspect_sigmas)
        if objective.kind is LossKind.ROBUST:
            explained = 1 - np.square(self._losses / _target_scales(batch, every))
            is_poor |= explained < RESTARTS.poor_robust_r_squared
        return is_poor

    def _may_improve(self) -> bool:
        """Return whether other starting values can lead to other fits."""
        objective = self._objective
        return bool(unset_parameters(objective)) and objective.has_residuals and not objective.is_linear

    def _improve(self) -> None:
        """Repeat poor fits from their neighbours in the batch, and from single fits as long as these help others."""
        is_good = ~self.is_poor & self._has_enough_rows
        if is_good.any():
            self._retry(np.median(self.theta[is_good], axis=0))
        for _ in range(RETRY.max_retries):
            poor = np.flatnonzero(self.is_poor & self._has_enough_rows)
            if not len(poor):
                return
            fit = int(poor[len(poor) // 2])
            search = StartSearch(self._method, self._batch.objective_of(fit), self._options, Progress())
            outcome = search.improve(self.outcomes[fit])
            if outcome.failure or not self._retry(outcome.theta):
                return

    def _retry(self, start: Array) -> bool:
        """Repeat poor fits from a start, and keep the fits that are clearly better. Returns whether there are any."""
        fits = np.flatnonzero(self.is_poor & self._has_enough_rows)
        if not len(fits):
            return False
        batch = self._batch.take(fits)
        outcomes, histories = self._attempt(batch, np.tile(start, (len(fits), 1)))
        theta, converged = _ends(outcomes)
        losses, before = comparison_losses(batch, self._objective, theta), self._losses[fits]
        with np.errstate(invalid="ignore"):
            is_lower = before - losses > (1 - RESTARTS.clear_improvement) * np.abs(before)
        is_better = converged & (~self.converged[fits] | is_lower)
        better = fits[is_better]
        self.theta[better], self.converged[better] = theta[is_better], True
        self._losses[better] = losses[is_better]
        self._batch.set_scales(better, batch.scales[is_better])
        for fit, history in zip(fits[is_better].tolist(), np.flatnonzero(is_better).tolist(), strict=True):
            self.outcomes[fit], self.histories[fit] = outcomes[history], histories[history]
        self.is_poor = self._poor_mask()
        return bool(is_better.any())


def _ends(outcomes: Sequence[Outcome]) -> tuple[Array, Mask]:
    """Return where fits ended, of shape (fits, P), and which of these are minima without a kink or a remark."""
    is_plain = [end.converged and not end.kinks and not end.note for end in outcomes]
    return np.array([end.theta for end in outcomes]), np.array(is_plain)


def _target_scales(batch: GroupBatch, fits: Fits) -> Array:
    """Return the robust standard deviation of the target of each group."""
    scales = np.empty(len(fits))
    for part in batch.parts(fits):
        target, sizes = batch.target(part), batch.sizes[part]
        if batch.objective.is_weighted:
            target = np.where(batch.weights(part) > 0, target, np.inf)
        deviations = np.abs(target - np.repeat(batch.quantiles(target, part, (0.5,))[:, 0], sizes))
        scales[part] = MAD_TO_STD * batch.quantiles(deviations, part, (0.5,))[:, 0]
    return scales


@ignore_float_errors()
def _systematic_scores(batch: GroupBatch, theta: Array) -> Array:
    """Return by how many standard errors neighbours along the only predictor are more alike than in a random order; 0
    for other models. See `has_systematic_residuals`.
    """
    objective, scores = batch.objective, np.zeros(len(theta))
    predictors = [name for name in objective.model.predictors() if name in objective.data.names]
    if len(predictors) != 1:
        return scores
    for part in batch.parts():
        sizes = batch.sizes[part]
        numbers = np.repeat(np.arange(len(part)), sizes)
        residuals = (batch.residuals(theta[part], part) * np.sqrt(batch.weights(part)))[0]
        if objective.kind is LossKind.ROBUST:  # an outlier would hide the pattern of the other rows
            limits = RESIDUALS.clip_scales * estimated_scales(batch, theta[part], part)
            residuals = np.clip(residuals, -limits[numbers], limits[numbers])
        ordered = residuals[np.lexsort((batch.column(predictors[0], part), numbers))]
        ordered = ordered - (batch.totals(ordered, part) / sizes)[numbers]
        squares = np.square(np.diff(ordered, append=0.0))
        squares[np.cumsum(sizes) - 1] = 0.0  # from the last row of a group to the first of the next
        totals = batch.totals(np.square(ordered), part)
        counts = sizes.astype(np.float64)
        spread = 2 * np.sqrt((counts - 2) / (counts * counts - 1))
        is_known = (sizes >= RESIDUALS.min_rows) & (totals > 0) & np.isfinite(totals)
        scores[part] = np.where(is_known, (2 - batch.totals(squares, part) / totals) / spread, 0.0)
    return scores
