"""One optimization: which method runs, from which starting values, and how it ends.

- `optimize` runs one method from one start.
- `BatchedFit` runs `lm` or `lbfgs` for all fits of a batch, and repeats poor fits from better starting values. A single
  fit is a batch of one, so it gets the same search as a group. Each of `RESTART_STRATEGIES` selects the fits that it
  may improve, and finds a starting point for each. Fits are compared by their own loss; see `comparison_losses`.
- `optimize_multistart` runs a method from several starting points and keeps the best end.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from autodiff_cli.array_types import Array, Mask, ignore_float_errors
from autodiff_cli.training.fitting import minimization, symmetries
from autodiff_cli.training.fitting import starts as search
from autodiff_cli.training.fitting.minimization import MINIMIZATION
from autodiff_cli.training.fitting.progress import PatienceExhausted, Progress, selection_loss
from autodiff_cli.training.fitting.starts import Effort, StartStrategy
from autodiff_cli.training.losses import L1_FACTOR, X_ERROR_FACTOR, LossKind
from autodiff_cli.training.methods.gradient_descent import (
    CONVERGENCE,
    BatchCallback,
    Diverged,
    GradientMethod,
    Outcome,
    StoppingRule,
    has_converged,
    has_plateaued,
    ignore_steps,
    renumber,
    report_single_fit,
)
from autodiff_cli.training.methods.least_squares import fit_least_squares
from autodiff_cli.training.objective.batch import Batch, Fits, GroupBatch, ObjectiveBatch, repeat_objective, row_batches
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.optimizers import DEFAULT_EPOCHS, OPTIMIZERS, Epoch, LearningRateSchedule
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result import diagnosis, goodness
from autodiff_cli.training.result.statistics import (
    MAX_COVARIANCE_SIZE,
    ComputedStatistics,
    batch_statistics,
    compute_statistics,
    undetermined_each,
)
from autodiff_cli.training.rows import RowIndex


class RestartSettings(NamedTuple):
    """Thresholds for repeating a fit from better starting values, and limits of fits from many starts."""

    poor_r_squared: float = 0.9  # R² below which a fit from default starts is not trusted
    poor_robust_r_squared: float = 0.95  # limit of R² from medians, which even bad fits make high
    perfect_r_squared: float = 1 - 1e-12  # R² above which residuals are rounding errors: no other start is better
    degenerate_correlation: float = 1 - 1e-5  # of two parameters of a family's fit, above which it is not trusted
    few_residuals_per_parameter: int = 8  # with fewer, residuals of another minimum may look random
    frequency_gain: float = 20.0  # gain in log-likelihood that chance does not explain, even among 10⁶ frequencies
    equal_curve_tolerance: float = 1e-3  # relative difference of the losses of rows up to which two curves are the same
    chance_of_noise: float = 0.01  # probability of the best frequency of noise above which a fit is doubtful
    # Rounds of fits from many starts: epochs of each, and the share of all fits, the best ones, that continue after it.
    screening_rounds: tuple[tuple[int, float], ...] = ((20, 0.25), (20, 0.05), (100, 0.0))
    evaluations_per_epoch: int = 2  # evaluations of Levenberg-Marquardt per epoch; an evaluation may lead to no step
    screening_tolerance: float = 1e-10  # relative decrease of the loss at which these fits stop
    max_runs: int = 3  # starts from which fits then run to convergence, until one succeeds


RESTARTS = RestartSettings()
_BETTER_STARTS_NOTE = "the fit from the starting values was poor; better ones were estimated from the data:"
_BETTER_MINIMUM_NOTE = "a better minimum was found from other starting values:"
_ALTERNATIVE_WARNING = "another minimum is nearly as likely"
_LIKELIER_ALTERNATIVE_WARNING = "another minimum, where the median of the residuals is larger, is more likely"


class BatchedFit:
    """A batch of fits, each repeated from better starting values if the result is poor.

    Args:
        batch: the fits.
        method: `lm`, `lbfgs` or `newton`; see `minimize_batch`.
        options: the options of the fits.
        on_step: is called with the start and each step of the fits; a repeated fit begins with epoch 0 again.
        notes: lists to which notes about each fit are added.
        starts: the starting points, of shape (fits, P); by default the start of the objective.
        stop: when the fits stop; by default the limits of the options.

    Attributes:
        outcomes: the ends of the fits.
        theta: the parameters there, of shape (fits, P).
        alternatives: for each fit, ends that may be other minima; see `resolve_alternatives`.
    """

    def __init__(
        self,
        batch: Batch,
        method: str,
        options: FitOptions,
        on_step: BatchCallback = ignore_steps,
        notes: Sequence[list[str]] | None = None,
        starts: Array | None = None,
        stop: StoppingRule | None = None,
    ) -> None:
        self._batch, self._method, self._options, self._on_step = batch, method, options, on_step
        self._objective = objective = batch.objective
        self._unset = objective.unset_parameters
        self._all_fits, self._is_large = np.arange(batch.count), batch.count > search.SETTINGS.max_thorough_fits
        self._notes = [list[str]() for _ in self._all_fits] if notes is None else notes
        self._stop = stop or StoppingRule(options.epochs, options.tolerance)
        self._statistics = dict[int, ComputedStatistics]()
        self.alternatives: list[list[Array]] = [[] for _ in self._all_fits]
        self._origin = np.tile(objective.start, (batch.count, 1)) if starts is None else starts
        starts = self._origin if starts is not None else self._default_starts()
        self.outcomes = [Outcome(start, False) for start in starts]
        self.theta = starts.copy()
        self._fit(self._all_fits, starts)

    def _default_starts(self) -> Array:
        """Return the points where the fits start by default.

        The loss of a generalised linear model has a single minimum, but may be undefined at the given start:
        `exp(a + b*x)` overflows at 1 for large x. Then unset parameters are 0, or all but one, which is 1.
        """
        objective, starts = self._objective, self._origin
        if self._method == "lbfgs" and objective.is_generalised_linear:
            free = objective.layout.mask(self._unset)
            is_undefined, size = ~self._are_defined(starts), len(free)
            for point in objective.bounds.clip(np.where(free, np.eye(1 + size, size, -1), objective.start)):
                if is_undefined.any():
                    is_better = is_undefined & self._are_defined(np.broadcast_to(point, starts.shape))
                    starts, is_undefined = np.where(is_better[:, None], point, starts), is_undefined & ~is_better
        return starts

    def _are_defined(self, theta: Array) -> Mask:
        """Return at which points the losses of all fits and their gradients are finite."""
        losses, gradients = self._batch.values_and_gradients(theta, self._all_fits)
        return np.asarray(np.isfinite(losses) & np.isfinite(gradients).all(axis=1))

    def restart_everywhere(self) -> None:
        """Repeat fits that may not have ended at their best minimum, unless the options limit epochs."""
        if self._objective.is_likelihood and (ranges := minimization.natural_ranges(self._objective)):
            for each in self._notes:
                each.append(f"parameters are kept in the ranges where the model is meaningful: {ranges}")
        # A steep curve makes effective variances large, so that its residuals look small.
        if self._options.epochs is None and not self._objective.settings.get(X_ERROR_FACTOR):
            for strategy in RESTART_STRATEGIES:
                strategy(self)

    def _part(self, fits: Fits) -> Batch:
        """Return the batch of some fits."""
        return self._batch if len(fits) == self._batch.count else self._batch.take(fits)

    def _fit(self, fits: Fits, starts: Array, reason: str = "") -> None:
        """Repeat some fits, each from another start, and note the reason and these starting values."""
        if not len(fits):
            return
        if reason:  # the same terms as in the report have the same names
            starts = symmetries.order_terms(self._objective, starts)
        for fit, start in zip(fits.tolist(), starts, strict=True) if reason else ():
            self._notes[fit].append(f"{reason} {minimization.format_starts(self._objective, start)}")
        part, epochs = self._part(fits), np.zeros(self._batch.count, np.intp)
        on_step = self._on_step if part is self._batch else renumber(self._on_step, fits, epochs)
        ends = minimization.minimize_and_check(self._method, part, starts, on_step, self._stop)
        self._batch.set_scales(fits, part.scales)
        for fit, end in zip(fits.tolist(), ends, strict=True):
            self.move(fit, end)

    def move(self, fit: int, end: Outcome) -> None:
        """Replace the end of a fit by another one."""
        self.outcomes[fit], self.theta[fit] = end, end.theta
        self._statistics.pop(fit, None)

    def select(self, is_selected: Callable[[Outcome], bool]) -> Mask:
        """Return the mask of the fits whose outcome meets a condition."""
        return np.array([is_selected(end) for end in self.outcomes])

    @ignore_float_errors()
    def statistics_of(self, fits: Fits) -> list[ComputedStatistics]:
        """Return the statistics of some fits; for groups of rows they include the goodness of fit."""
        absolute, batch = self._options.absolute_sigma, self._batch
        if isinstance(batch, ObjectiveBatch):  # objectives cache their statistics
            has_family = self._objective.kind is LossKind.LIKELIHOOD
            return [
                compute_statistics(batch.objectives[fit], self.theta[fit], absolute, with_goodness=has_family)
                for fit in fits.tolist()
            ]
        unknown = np.array([fit for fit in fits.tolist() if fit not in self._statistics], np.intp)
        if len(unknown):
            known = batch_statistics(self._part(unknown), self.theta[unknown], absolute, with_goodness=True)
            self._statistics |= dict(zip(unknown.tolist(), known, strict=True))
        return [self._statistics[fit] for fit in fits.tolist()]

    def _r_squared(self) -> Array:
        """Return R² of the fits, by medians for robust losses; nan if it is unknown."""
        if self._objective.kind is LossKind.ROBUST:
            objectives = map(self._batch.objective_of, self._all_fits.tolist())
            return np.array([*map(goodness.robust_r_squared, objectives, self.theta)])
        return np.array([statistics.r_squared for statistics in self.statistics_of(self._all_fits)], np.float64)

    @ignore_float_errors()
    def _classify_fits(self) -> tuple[Mask, Mask]:
        """Return the masks of poor and of doubtful fits.

        Poor fits should be repeated from other starting values. Doubtful fits look good but may be poor: they have few
        rows, or neighbouring residuals are slightly correlated.
        """
        objective, every = self._objective, self._all_fits
        is_squares, is_failed = objective.kind is LossKind.SQUARES, ~self.select(lambda end: end.converged)
        is_convex = objective.is_linear if is_squares else objective.kind is LossKind.LIKELIHOOD
        if is_convex and objective.is_generalised_linear:
            return is_failed, np.zeros_like(is_failed)
        explained = self._r_squared()
        enough = RESTARTS.poor_robust_r_squared if objective.kind is LossKind.ROBUST else RESTARTS.poor_r_squared
        structure = diagnosis.residual_structures(self._batch, self.theta, every)
        is_bad = (explained < enough) | (structure > goodness.RESIDUALS.systematic_sigmas)
        if objective.kind is LossKind.LIKELIHOOD:  # there is no R²
            is_bad |= [_is_suspect(each, objective.loss) for each in self.statistics_of(every)]
        is_poor = is_failed | (is_bad & bool(self._unset))
        if not objective.is_penalised:  # interchangeable parameters with equal starting values stay equal
            is_poor |= [bool(statistics.missing_error_reasons) for statistics in self.statistics_of(every)]
        few = self._batch.target_counts <= RESTARTS.few_residuals_per_parameter * self.theta.shape[1]
        few &= objective.kind is not LossKind.LIKELIHOOD
        is_doubtful = few | (structure > goodness.RESIDUALS.suspect_sigmas)
        is_open = ~((explained > RESTARTS.perfect_r_squared) & is_squares)
        is_open &= (self._batch.target_counts > self.theta.shape[1]) | (not is_squares)
        return is_poor & is_open, is_doubtful & ~is_poor & is_open

    def restart_poor_fits(self) -> None:
        """Repeat poor fits of residuals from starting values that are estimated from the data.

        All other fits of nonlinear models that are not exact are compared with fits from other valleys of the loss, and
        those with frequencies, exponents or kinks with fits from other ones.
        """
        objective = self._objective
        if not objective.scalar_parameters or not objective.has_residuals:
            return
        poor, doubtful = self._classify_fits()
        self.restart(np.flatnonzero(poor), self._origin)
        if not self._unset:
            return
        self._restart_sample_first(np.flatnonzero(doubtful), self._origin)
        is_defined = self.select(lambda end: end.divergence is None)
        is_inexact = ~(self._r_squared() > RESTARTS.perfect_r_squared)
        has_penalty = objective.is_penalised and not objective.has_priors
        if not (objective.is_generalised_linear or objective.is_linear or has_penalty):
            is_broken = diagnosis.curve_warnings(self._batch, self.theta, self._all_fits) != ""
            unchecked = np.flatnonzero((is_inexact & ~(poor | doubtful) | is_broken) & is_defined)
            self._restart_sample_first(unchecked, self.theta, search.Multistart.points_of_other_valleys)
        # The best frequency depends on the other parameters, such as a damping time, so it is checked at the end.
        if symmetries.Sinusoids(objective).frequencies or search.exponents_of(objective) or objective.has_kinks:
            for strategy in search.OTHER_MINIMA:
                self.restart(np.flatnonzero(is_defined & is_inexact), self.theta, strategy)

    def restart_robust_fits(self) -> None:
        """Repeat fits with outliers from fits to subsets of the rows, if one of these leads to a better minimum."""
        is_robust = self._objective.kind not in (LossKind.LIKELIHOOD, LossKind.SQUARES)
        if not (is_robust and self._unset and self._objective.has_residuals):
            return
        if not isinstance(samples := search.sample_batch(self._batch), GroupBatch):
            return
        poor, doubtful = self._classify_fits()
        is_open = self.select(lambda end: end.divergence is None)
        if symmetries.Sinusoids(self._objective).frequencies or symmetries.find_jumps(self._objective):
            each = np.flatnonzero(is_open)
            regular = ObjectiveBatch([*map(goodness.without_outliers, map(self._batch.objective_of, each.tolist()))])
            self.restart(each, self._origin, search.Multistart.frequency_points, batch=regular)
            self.restart(each, self.theta, search.Multistart.jump_points, batch=regular)
        fits = np.flatnonzero(is_open & minimization.outlier_minima_mask(samples, poor | doubtful))
        if len(fits):
            count = minimization.MINIMIZATION.subsets // 2
            drawn = search.sample_starts(samples.objective, self._options.seed, count)
            ends = minimization.fit_from_subsets(samples.take(fits), self.theta[fits], drawn)
            for fit, minima in zip(fits.tolist(), ends, strict=True):
                alternatives = minimization.alternatives_near(samples.objective_of(fit), minima)
                self.alternatives[fit] += [self.theta[fit].copy(), minima[0], *alternatives] if alternatives else []
            best = self._refine(fits, ends[:, 0])
            is_better = self._are_better(fits, best)
            self._fit(fits[is_better], best[is_better], _BETTER_MINIMUM_NOTE)

    def restart_likelihoods_at_random(self) -> None:
        """Repeat fits of negative log-likelihoods from random starts, as long as one of them ends at a better minimum.

        The components of a mixture may be elsewhere there. Each search begins near the end of the last one. Densities
        may be infinite at the edge of their parameters' ranges; then the best minimum inside is kept.
        """
        objective = self._objective
        if not objective.is_likelihood or not self._unset or objective.is_generalised_linear or objective.model.shapes:
            return
        for fit in self._all_fits.tolist():
            self._restart_at_random(fit)

    def _restart_at_random(self, fit: int) -> None:
        """Repeat a fit of a negative log-likelihood from random starts, until two searches in a row find no better."""
        objective, fruitless = self._batch.objective_of(fit), 0
        sample = minimization.with_stick_breaking(goodness.subsample(objective, search.SETTINGS.max_likelihood_rows))
        for number in range(search.SETTINGS.likelihood_searches):
            end = self.outcomes[fit]
            is_minimum = not minimization.is_no_minimum(objective, end)
            has_several_minima = minimization.has_several_minima(objective) or symmetries.find_jumps(objective)
            if fruitless == 2 or (is_minimum and not has_several_minima):
                return
            near = minimization.stick_breaking_fractions(objective, end.theta)
            components = symmetries.interchangeable_masks(objective, end.theta)
            minima = _random_minima(sample, near, self._options.seed + number, components)
            points = minimization.stick_breaking_shares(objective, minima)
            self.alternatives[fit] += [end.theta, *points]
            fruitless += 1
            if len(points) if end.failure else minimization.best_alternative(objective, end, points[:1]) is not None:
                self._fit(np.array([fit]), points[:1], _BETTER_MINIMUM_NOTE if is_minimum else _BETTER_STARTS_NOTE)
                fruitless = 0

    def restart_penalised_fits(self) -> None:
        """Repeat penalised fits from points with the same predictions and a smaller penalty.

        Such points have other signs, whole turns, or terms in another order; see `canonical_parameters`.
        """
        if not self._objective.is_penalised or self._objective.is_generalised_linear:
            return
        fits, images = np.flatnonzero(self.select(lambda end: end.divergence is None)), self.theta.copy()
        for fit in fits.tolist():
            images[fit] = _least_penalised_image(self._batch.objective_of(fit), self.theta[fit])
        before, after = (self._batch.losses(points[fits], fits) for points in (self.theta, images))
        fits = fits[[not search.is_equal_loss(*pair) for pair in zip(before, after, strict=True)]]
        self._fit(fits, images[fits], _BETTER_MINIMUM_NOTE)

    @property
    def _free(self) -> Mask:
        """The mask of the parameters that a search may vary: those that no bounds fix."""
        box = self._batch.bounds
        is_free = np.atleast_2d(box.low < box.high).any(axis=0)
        return is_free & self._objective.layout.mask(self._unset or self._objective.scalar_parameters)

    def _restart_sample_first(self, fits: Fits, origin: Array, strategy: StartStrategy | None = None) -> None:
        """Repeat fits that are probably at their best minimum, to verify it.

        If there are many fits, a sample is repeated first. The others follow only if one of the sample improves.
        """
        sample = fits[:: len(fits) // search.SETTINGS.max_sampled_fits + 1] if self._is_large else fits
        before = self.theta[sample].copy()
        effort = search.SETTINGS.quick if strategy else None
        self.restart(sample, origin, strategy, search.SETTINGS.quick if self._is_large else effort)
        if (self.theta[sample] != before).any():
            self.restart(np.setdiff1d(fits, sample), origin, strategy, effort)

    def restart(
        self,
        fits: Fits,
        origin: Array,
        strategy: StartStrategy | None = None,
        effort: Effort | None = None,
        least_gain: float = MINIMIZATION.clear_gain,
        batch: Batch | None = None,
    ) -> None:
        """Repeat some fits from the best points of a strategy, or of a whole search, if these rank higher.

        Args:
            origin: the starting points of the searches, of shape (all fits, P).
            effort: the work for each fit; by default it depends on the number of fits.
            least_gain: the gain above which a point ranks higher; see `rank_gains`.
            batch: the rows on which better points are searched; by default the rows of the fits.
        """
        if not len(fits):
            return
        default = search.SETTINGS.check if strategy else search.SETTINGS.thorough
        if len(fits) > search.SETTINGS.max_thorough_fits and strategy not in search.OTHER_MINIMA:
            default = search.SETTINGS.quick
        reason = _BETTER_MINIMUM_NOTE if strategy else _BETTER_STARTS_NOTE
        arguments = self._free, self._options.seed, effort or default, strategy
        results = search.multistart(batch or self._batch.take(fits), origin[fits], *arguments)
        candidates = {fit: each for fit, each in zip(fits.tolist(), results, strict=True) if each is not None}
        if not candidates:
            return
        # An end fits a sample of the rows; a start that was found among all rows may be better.
        chosen, pairs = np.array([*candidates]), np.array([(each.start, each.end) for each in candidates.values()])
        losses = minimization.comparison_losses(self._batch.take(np.repeat(chosen, 2)), np.concatenate(pairs))
        starts, ends = pairs[:, 0], pairs[range(len(pairs)), np.argmin(losses.reshape(-1, 2), axis=1)]
        ends = self._refine(chosen, ends)
        for (fit, best), end in zip(candidates.items(), ends, strict=True):
            self.alternatives[fit] += [self.theta[fit].copy(), end, *best.alternatives]
        is_better = self._are_better(chosen, ends, least_gain)
        better, starts, ends = chosen[is_better], starts[is_better], ends[is_better]
        from_starts = self._method == "lm" and least_gain > 0
        self._fit(better, starts if from_starts else ends, reason)
        if from_starts and len(better):
            # Candidates are found on samples of the rows; from their starts, fits of all rows may lead elsewhere.
            is_elsewhere = self._are_better(better, ends)
            self._fit(better[is_elsewhere], ends[is_elsewhere])

    @ignore_float_errors()
    def resolve_alternatives(self) -> list[list[str]]:
        """Replace each fit by its best alternative if that is better, and return the warnings of other likely minima.

        A warning reports a minimum that is nearly as likely as the fit and has another curve.
        """
        warnings, batch = [list[str]() for _ in self._all_fits], self._batch
        searched = [fit for fit, points in enumerate(self.alternatives) if points]
        points = [np.array([self.theta[fit], *self.alternatives[fit]]) for fit in searched]
        alternatives = [*map(minimization.alternatives_near, map(batch.objective_of, searched), points)]
        if not (fits := np.repeat(searched, [*map(len, alternatives)])).size:
            return warnings
        part = repeat_objective(self._objective, len(fits)) if batch.count == 1 else batch.take(fits)
        outcomes = iter(_feasible_ends(part, refit(part, np.concatenate([*filter(len, alternatives)]), None)))
        for fit, nearby in zip(searched, alternatives, strict=True):
            end, objective = self.outcomes[fit], batch.objective_of(fit)
            others = [other.theta for other in islice(outcomes, len(nearby)) if other.converged]
            if (best := minimization.best_alternative(objective, end, others)) is not None:
                self._fit(np.array([fit]), best[None], _BETTER_MINIMUM_NOTE)
                others += [end.theta] * end.converged
            ends = np.array([self.theta[fit], *others])
            if self.outcomes[fit].note != minimization.NO_SCALE:  # without a scale, losses are no likelihoods
                warnings[fit], notes = _describe_alternatives(objective, ends)
                self._notes[fit] += notes
        return warnings

    def _refine(self, fits: Fits, ends: Array) -> Array:
        """Return the ends of searches for some fits, which are least-squares fits, refined for robust losses."""
        objective = self._objective
        if objective.has_theta or not (objective.is_scale_estimated or objective.kind is LossKind.ROBUST):
            return ends
        part, stop = self._batch.take(fits), StoppingRule(MINIMIZATION.refinement_epochs)
        scales = part.scales.copy()
        refined = np.array([end.theta for end in minimization.minimize_batch("lbfgs", part, ends, stop=stop)])
        part.set_scales(np.arange(len(fits)), scales)
        return refined

    def _are_better(self, fits: Fits, theta: Array, least_gain: float = MINIMIZATION.clear_gain) -> Mask:
        """Return which fits have a better end at other points, which are ends of fits as well."""
        gains = minimization.rank_gains(self._batch.take(fits), self.theta[fits], theta)
        return np.asarray(self.select(lambda end: end.divergence is not None)[fits] | (gains > least_gain))


def _least_penalised_image(objective: Objective, theta: Array) -> Array:
    """Return the point with the same predictions and the smallest penalty, after other signs and exchanges of terms."""
    plain, points = objective.without_penalty(), theta[None]
    while len(points):
        theta = points[0]
        canonical = symmetries.canonical_parameters(plain, theta)[0]
        points = np.vstack((canonical, symmetries.exchanged_terms(plain, theta)))
        losses, least = np.array([*map(objective.value, points)]), objective.value(theta)
        is_better = objective.bounds.contains(points) & (losses < least)
        is_better &= [not search.is_equal_loss(least, loss) for loss in losses]
        points = points[is_better][np.argsort(losses[is_better])]
    return theta


def _is_suspect(statistics: ComputedStatistics, loss: str) -> bool:
    """Whether a fit of a family may be poor: counts scatter too much for it, or two parameters are nearly the same."""
    most = np.fmax.reduce(np.abs(np.triu(statistics.correlation, 1)), axis=None)
    return bool(goodness.family_warnings(statistics, loss)) or bool(most > RESTARTS.degenerate_correlation)


# Ways to repeat poor fits, in the order in which they are tried.
RESTART_STRATEGIES = (
    BatchedFit.restart_poor_fits,
    BatchedFit.restart_robust_fits,
    BatchedFit.restart_likelihoods_at_random,
    BatchedFit.restart_penalised_fits,
)


def refit(
    batch: Batch,
    starts: Array,
    effort: Effort | None = search.SETTINGS.quick,
    are_all_searched: bool = False,
    stop: StoppingRule = CONVERGENCE,
) -> list[Outcome]:
    """Fit a batch to convergence, starting near the ends of similar fits.

    If a fit fails, other starting values are searched. The new end is used unless the data exclude it.

    Args:
        effort: the work of the search for each fit that failed; None for no search.
        are_all_searched: whether all fits are searched again, for better ends.
        stop: when the fits stop.
    """
    method = minimization.converging_method(batch.objective, is_near=True)
    fitted = BatchedFit(batch, method, FitOptions(), starts=starts, stop=stop)
    if effort and batch.objective.has_residuals:
        fits = np.flatnonzero(fitted.select(lambda end: are_all_searched or not end.converged))
        least_gain = MINIMIZATION.clear_gain if are_all_searched else -MINIMIZATION.exclusion
        fitted.restart(fits, starts, effort=effort, least_gain=least_gain)
    return fitted.outcomes


def _describe_alternatives(objective: Objective, ends: Array) -> tuple[list[str], list[str]]:
    """Return the warning and the note on other minima of a fit, each in a list that may be empty.

    The warning reports a minimum that is nearly as likely as the first one and has another curve. The note reports a
    likelier curve that has a pole, if the first one has none.
    """
    losses = minimization.density_losses(objective, ends)
    rows = np.array([objective.evaluate_rows(objective.kernels.row_loss, end) for end in ends])
    gains = minimization.likelihood_gains(ObjectiveBatch([objective]), losses, losses[0])
    dispersion, notes = minimization.dispersion_of(objective, ends[0]), list[str]()
    is_other = np.abs(rows - rows[0]).sum(axis=(1, 2)) > RESTARTS.equal_curve_tolerance * np.abs(rows[0]).sum()
    for k in (k for k in np.argsort(losses) if is_other[k] and gains[k] < MINIMIZATION.exclusion * dispersion):
        if broken := diagnosis.curve_warning(objective, ends[k]):
            if gains[k] < -MINIMIZATION.clear_gain and not diagnosis.curve_warning(objective, ends[0]):
                words = broken.replace("the fitted curve", "the best curve")
                notes = [f"{words}, but the data do not exclude the one reported"]
        # An l1 penalty determines parameters: there are no standard errors for another reason.
        elif objective.settings[L1_FACTOR] or not compute_statistics(objective, ends[k]).missing_error_reasons:
            likely = f"likelihood ratio {math.exp(gains[k] / dispersion):.3g}"
            start = minimization.format_starts(objective, ends[k])
            has_penalty = objective.is_penalised and not objective.has_priors
            words = _ALTERNATIVE_WARNING if gains[k] >= -MINIMIZATION.clear_gain else _LIKELIER_ALTERNATIVE_WARNING
            if has_penalty or objective.kind in (LossKind.ROBUST, LossKind.OTHER):
                likely += ", if the loss is minus a log-likelihood"
            words = f"{words} ({likely}), and the standard errors do not include it; compare with the fit from {start}"
            return [words], notes
    return [], notes


def refit_rows(objective: Objective, theta: Array, samples: Iterator[RowIndex], unknown: Mask | None) -> list[Outcome]:
    """Fit samples of an objective's rows, such as resamples, starting from the fit to all rows; see `refit`.

    Args:
        theta: the end of the fit to all rows.
        unknown: the parameters that a sample need not determine. Samples that do not determine another one are left
            out: they may lack a level, or have one value of a predictor only. None to fit all.
    """
    outcomes = list[Outcome]()
    for batch in row_batches(objective, samples):
        if unknown is not None:
            is_usable = ~(undetermined_each(batch, np.tile(theta, (batch.count, 1))) & ~unknown).any(axis=1)
            if not is_usable.any():
                continue
            batch = batch.take(np.flatnonzero(is_usable))
        ends = _feasible_ends(batch, refit(batch, np.tile(theta, (batch.count, 1))))
        if objective.kind is LossKind.LIKELIHOOD:
            ends = [_assess_likelihood_solution(batch.objective_of(k), end) for k, end in enumerate(ends)]
        outcomes += ends
    return outcomes


def _feasible_ends(batch: Batch, ends: list[Outcome]) -> list[Outcome]:
    """Return the ends of refits with interchangeable terms in order; those that leave a constraint are fitted again."""
    objective = batch.objective
    points = symmetries.order_terms(objective, np.array([end.theta for end in ends]))
    ends = [dataclasses.replace(end, theta=point) for end, point in zip(ends, points, strict=True)]
    if objective.orders or objective.shares:
        ends = [minimization.meet_constraints(batch.objective_of(k), end) for k, end in enumerate(ends)]
    return ends


def _assess_likelihood_solution(objective: Objective, end: Outcome) -> Outcome:
    """Return the end of a fit, marked as not converged if its likelihood has no finite maximum."""
    end = minimization.assess_solution(objective, end)
    is_separated = end.converged and goodness.find_separation(objective, end.theta)[0]
    return dataclasses.replace(end, converged=False) if is_separated else end


def _random_minima(sample: Objective, theta: Array, seed: int, components: Array) -> Array:
    """Return ends of fits of a negative log-likelihood from random points, the best first; none if all fail.

    Args:
        sample: the likelihood of a sample of the rows, with stick-breaking.
        theta: the end of another fit.
        components: see `likelihood_starts`.
    """
    points = search.likelihood_starts(sample, seed, theta, components)
    for epochs, count, tolerance in search.SETTINGS.likelihood_rounds:
        if not len(points):
            break
        batch = repeat_objective(sample, len(points))
        ends = minimization.minimize_batch("lbfgs", batch, points, stop=StoppingRule(epochs))
        order = np.argsort(minimization.comparison_losses(batch, np.array([end.theta for end in ends])))
        best_points = (ends[k].theta for k in order if not ends[k].failure)
        usable = (point for point in best_points if math.isfinite(minimization.solution_loss(sample, point)))
        points = np.array([*islice(_distinct_curves(sample, usable, tolerance), count)]).reshape(-1, len(theta))
    return points


def _distinct_curves(objective: Objective, points: Iterable[Array], tolerance: float) -> Iterator[Array]:
    """Yield the points whose losses of rows differ from those of all points before, by more than a mean tolerance."""
    curves = list[Array]()
    for point in points:
        curve = objective.evaluate_rows(objective.kernels.row_loss, point)
        if all(np.abs(curve - each).mean() > tolerance for each in curves):
            curves.append(curve)
            yield point


def optimize(
    method: str, objective: Objective, options: FitOptions, progress: Progress, alternatives: Sequence[Array] = ()
) -> Outcome:
    """Run a method and return its outcome. If the method diverges, the outcome has the last parameters before that.

    Args:
        alternatives: points that may be near other minima.
    """
    progress.follow(objective)
    try:
        outcome = _run_method(method, objective, options, progress, alternatives)
    except PatienceExhausted:
        outcome = Outcome(progress.latest.theta, True)
    except Diverged as error:
        if not progress.history:
            return Outcome(objective.start, False, minimization.start_failure(error, objective))
        explained = (
            f"diverged: {error}{diagnosis.explain_divergence(error, objective)}; "
            f"the parameters are those of epoch {error.epoch - 1}. "
            f"A smaller learning rate (--lr, now {options.learning_rate:g}) may help"
        )
        return Outcome(progress.latest.theta, False, explained)
    finally:
        objective.evaluation_log = None
    return outcome if outcome.divergence is not None else progress.restore_best(outcome)


def _run_method(
    method: str, objective: Objective, options: FitOptions, progress: Progress, alternatives: Sequence[Array]
) -> Outcome:
    if method not in OPTIMIZERS and (progress.checkpoint_writer is not None or progress.resumed_from is not None):
        objective.evaluation_log = progress.evaluations
    batch = ObjectiveBatch([objective])
    if method not in OPTIMIZERS:
        fit = BatchedFit(batch, method, options, report_single_fit(progress.record), [progress.notes])
        fit.restart_everywhere()
        fit.alternatives[0] += alternatives
        progress.warnings += fit.resolve_alternatives()[0]
        return minimization.assess_solution(objective, fit.outcomes[0])
    epochs, drawn = DEFAULT_EPOCHS if options.epochs is None else options.epochs, options.batch_size is not None
    update, rates = OPTIMIZERS[method], LearningRateSchedule(options.lr_schedule, options.learning_rate, epochs)
    arguments = options.batch_size, options.clip_norm, options.seed, progress.on_progress

    def scale_at(theta: Array) -> float:
        return float(minimization.estimated_scales(batch, theta[None], np.arange(1))[0])

    scale_if_estimated = scale_at if objective.is_scale_estimated else None
    gradient_method = GradientMethod(objective, update, rates, *arguments, scale_if_estimated)
    progress.method_state = gradient_method.checkpoint_state
    if progress.resumed_from is not None:
        gradient_method.resume(progress.resumed_from)
        progress.resume()
    for epoch in gradient_method.epochs(progress.selection_losses):
        progress.record(epoch)
        if options.tolerance is not None and has_plateaued(progress.selection_losses, options.tolerance, drawn=drawn):
            return Outcome(epoch.theta, True)
    return Outcome(progress.latest.theta, has_converged([record["loss"] for record in progress.history]))


@dataclass(slots=True)
class _StartingPointRun:
    """A fit from one starting point; its loss is infinite until it ends, and if it fails."""

    objective: Objective
    progress: Progress
    epochs: list[Epoch]
    outcome: Outcome
    loss: float = math.inf


def optimize_multistart(method: str, objective: Objective, options: FitOptions, progress: Progress) -> Outcome:
    """Run a method from the given start and from random ones, and keep the best end. See `optimize`.

    The best end has the lowest loss, on the validation rows if there are any. Its epochs are reported to the callback.
    """
    if options.starts is None:
        return optimize(method, objective, options, progress)
    starts = np.vstack((objective.start, search.sample_starts(objective, options.seed, options.starts - 1)))
    losses, order, alternatives = [math.inf] * len(starts), range(len(starts)), list[Array]()
    is_screened = method in ("lm", "lbfgs") and progress.validation is None and len(starts) > 1
    if is_screened:
        starts, losses, ends = _screen_starts(method, objective, starts, options, progress)
        alternatives += [*ends[np.isfinite(losses)]]
        ranked = np.where(search.is_equal_loss(losses[0], min(losses)), [-math.inf, *losses[1:]], losses)
        order = np.argsort(ranked)[: RESTARTS.max_runs].tolist()
    runs: list[_StartingPointRun] = []
    try:
        for number in order:
            started, epochs = objective.with_rows(objective.data), list[Epoch]()
            started.start = starts[number]
            own = Progress(epochs.append, progress.validation)
            runs.append(run := _StartingPointRun(started, own, epochs, Outcome(starts[number], False)))
            run.outcome = optimize(method, started, options, own, alternatives)
            losses[number] = run.loss = _final_loss(started, run.outcome, own)
            if is_screened and not run.outcome.failure:
                break
    finally:  # also after Ctrl-C
        best = min(runs, key=lambda run: run.loss)
        _copy_run(progress, objective, best)
    (progress.warnings if math.isinf(best.loss) else progress.notes).append(_multistart_summary(losses, best.loss))
    return best.outcome


def _screen_starts(
    method: str, objective: Objective, starts: Array, options: FitOptions, progress: Progress
) -> tuple[Array, list[float], Array]:
    """Fit from all starting points in one batch, in rounds. After each round, only the best fits continue.

    Returns:
        Three arrays, with a row for each fit: the starting point, the loss at the end (infinite for a failed fit), and
        the end. For other methods than `lm`, least squares improve all starting points but the first.
    """
    batch = repeat_objective(objective, len(starts))
    if method != "lm" and objective.has_residuals and starts.shape[1] <= MAX_COVARIANCE_SIZE:
        stop = StoppingRule(evaluations=search.SETTINGS.descent_evaluations)
        starts = np.vstack((starts[:1], [end.theta for end in fit_least_squares(batch, starts, stop=stop)[1:]]))
    tolerance = RESTARTS.screening_tolerance if options.tolerance is None else options.tolerance
    best = Epoch(0, math.inf, objective.start)

    def keep_best(_: Fits, __: Fits, step_losses: Array, points: Array) -> None:
        nonlocal best
        least = int(np.argmin(step_losses))
        if step_losses[least] < best.loss:
            best = Epoch(0, float(step_losses[least]), points[least].copy())

    theta, losses, fits = starts.copy(), np.full(len(starts), math.inf), np.arange(len(starts))
    for epochs, share in RESTARTS.screening_rounds if options.epochs is None else ((options.epochs, 0.0),):
        part = batch.take(fits)
        try:
            stop = StoppingRule(epochs, tolerance, RESTARTS.evaluations_per_epoch * epochs)
            outcomes = minimization.minimize_batch(method, part, theta[fits], keep_best, stop)
        except KeyboardInterrupt:
            progress.record(best)
            raise
        theta[fits] = [end.theta for end in outcomes]
        compared = minimization.comparison_losses(part, theta[fits])
        losses[fits] = np.where([end.divergence is not None for end in outcomes], math.inf, compared)
        is_open = np.array([not end.converged for end in outcomes]) & np.isfinite(losses[fits])
        fits = fits[is_open]
        fits = fits[np.argsort(losses[fits], kind="stable")[: math.ceil(share * len(starts))]]
        if not len(fits):
            break
    return starts, losses.tolist(), theta


def _final_loss(objective: Objective, outcome: Outcome, progress: Progress) -> float:
    """Return the loss by which the ends of runs are compared; infinite for a failed fit."""
    if outcome.failure or progress.last is None:
        return math.inf
    if progress.validation is not None and progress.best is not None:
        return selection_loss(progress.best if progress.validation.restores_best else progress.last)
    return float(minimization.comparison_losses(ObjectiveBatch([objective]), outcome.theta[None])[0])


def _copy_run(progress: Progress, objective: Objective, run: _StartingPointRun) -> None:
    """Copy the history, warnings and notes of a run to the progress that the fit reports."""
    for name in ("history", "selection_losses", "first", "last", "best"):
        setattr(progress, name, copy.copy(getattr(run.progress, name)))
    progress.warnings += run.progress.warnings
    progress.notes += run.progress.notes
    objective.settings.update(run.objective.settings)
    progress.follow(objective)
    if progress.on_epoch is not None:
        for epoch in run.epochs:
            progress.on_epoch(epoch)


def _multistart_summary(losses: list[float], best: float) -> str:
    """Return a sentence on how many starts led to the best fit."""
    count = len(losses)
    if math.isinf(best):
        return f"none of {count} starting points led to a fit"
    equal = sum(search.is_equal_loss(loss, best) for loss in losses)
    failed = sum(map(math.isinf, losses))
    rest = [f"{count - equal - failed} led to worse fits"] * (count > equal + failed)
    rest += [f"{failed} failed"] * (failed > 0)
    first = "" if search.is_equal_loss(losses[0], best) else "; the given start is not among them"
    return f"the best of {count} starting points: {', '.join([f'{equal} of them led to this fit', *rest])}{first}"
