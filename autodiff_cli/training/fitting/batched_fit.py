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
from autodiff_cli.training.fitting.minimization import comparison_losses, minimize_batch
from autodiff_cli.training.fitting.optimization import (
    RESTARTS,
    StartSearch,
    default_starts,
    is_poor_smooth_fit,
    unset_parameters,
)
from autodiff_cli.training.fitting.progress import Progress
from autodiff_cli.training.losses import LossKind
from autodiff_cli.training.methods.gradient_descent import Outcome, StoppingRule
from autodiff_cli.training.objective.batch import Fits, GroupBatch
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.diagnosis import groups_with_systematic_residuals
from autodiff_cli.training.result.goodness import RESIDUALS


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
    """

    def __init__(self, method: str, batch: GroupBatch, options: FitOptions) -> None:
        self._method, self._batch, self._options = method, batch, options
        self._objective = batch.objective
        count = len(batch.sizes)
        every = np.arange(count)
        self._has_enough_rows = batch.sizes * self._objective.components > self._objective.layout.size
        starts = np.tile(self._objective.start, (count, 1))
        if method != "lm":
            starts, _ = default_starts(self._objective, batch)
        self.outcomes, self.histories = self._attempt(batch, starts)
        self.theta, self.converged = _ends(self.outcomes)
        self._losses = comparison_losses(batch, self._objective, self.theta)
        self.is_poor = self._poor_mask(every)
        if self._may_improve():
            self._improve()

    def _attempt(self, batch: GroupBatch, start: Array) -> tuple[list[Outcome], list[list[float]]]:
        """Return the ends and the losses of fits from a start."""
        log = StepLog()
        stop = StoppingRule(tolerance=self._options.tolerance)
        outcomes = minimize_batch(self._method, self._objective, batch, start, log.record, stop)
        return outcomes, log.histories(len(start))

    def _poor_mask(self, fits: Fits) -> Mask:
        """Return which of some fits should be improved."""
        objective, batch, is_poor = self._objective, self._batch, ~self.converged[fits]
        if self._method == "lm":  # these are often very many
            variations = batch.mean_squares(batch.target_variations(fits), fits)
            left = self._losses[fits] / np.where(variations > 0, variations, 1.0)
            is_poor |= ~(left <= 1 - RESTARTS.poor_r_squared)
            if not objective.is_linear:
                is_perfect = left < 1 - RESTARTS.nearly_perfect_r_squared
                threshold = RESIDUALS.systematic_sigmas
                is_poor |= groups_with_systematic_residuals(batch, self.theta[fits], fits, threshold) & ~is_perfect
        elif objective.has_residuals and not objective.is_generalised_linear:
            is_poor |= groups_with_systematic_residuals(batch, self.theta[fits], fits, RESIDUALS.suspect_sigmas)
            if objective.kind is not LossKind.LIKELIHOOD:
                for k in np.flatnonzero(~is_poor).tolist():
                    fit = int(fits[k])
                    is_poor[k] = is_poor_smooth_fit(batch.objective_of(fit), self.outcomes[fit])
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
        self.is_poor[better] = self._poor_mask(better)
        return bool(is_better.any())


def _ends(outcomes: Sequence[Outcome]) -> tuple[Array, Mask]:
    """Return where fits ended, of shape (fits, P), and which of these are minima without a kink or a remark."""
    is_plain = [end.converged and not end.kinks and not end.note for end in outcomes]
    return np.array([end.theta for end in outcomes]), np.array(is_plain)
