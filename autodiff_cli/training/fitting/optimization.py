"""One optimization: which method runs, from which starting values, and how it ends.

- `choose_method` and `optimize` run the method that options and objective ask for.
- `converge` runs a method that converges by itself. If the fit ends badly, `StartSearch` repeats it from better
  starting values.
- `optimize_multistart` runs a method from several starting points and keeps the best end.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, Mask
from autodiff_cli.numbers.arrays import ignore_float_errors
from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting.minimization import (
    MINIMIZATION,
    comparison_losses,
    fit_from_subsets,
    minimize,
    minimize_batch,
    outlier_minima_mask,
    rows_of_component,
    shares_of_stick,
    with_broken_stick,
)
from autodiff_cli.training.fitting.progress import PatienceExhausted, Progress, selection_loss
from autodiff_cli.training.fitting.starts import (
    SETTINGS,
    Multistart,
    StartStrategy,
    is_equal_loss,
    likelihood_starts,
    multistart,
    rival_frequency,
    sample_starts,
    start_at_scales,
    warm_starts,
)
from autodiff_cli.training.fitting.symmetries import Sinusoids
from autodiff_cli.training.losses import L1_FACTOR, LossKind
from autodiff_cli.training.methods.gradient_descent import (
    Diverged,
    GradientMethod,
    Outcome,
    StoppingRule,
    has_converged,
    has_plateaued,
)
from autodiff_cli.training.objective.batch import (
    Batch,
    Fits,
    GroupBatch,
    ObjectiveBatch,
    can_evaluate_together,
    repeat_objective,
)
from autodiff_cli.training.objective.model import unbounded_loss_hint
from autodiff_cli.training.objective.objective import Objective, find_undefined
from autodiff_cli.training.optimizers import DEFAULT_EPOCHS, OPTIMIZERS, Epoch, LearningRateSchedule
from autodiff_cli.training.options import FitOptions, describe_bounds
from autodiff_cli.training.result.diagnosis import explain_divergence, residual_structure
from autodiff_cli.training.result.goodness import RESIDUALS, has_no_finite_minimum, robust_r_squared, subsample
from autodiff_cli.training.result.statistics import MAX_COVARIANCE_SIZE, ComputedStatistics, compute_statistics


@dataclass(frozen=True, slots=True)
class RestartSettings:
    """Thresholds that decide whether a fit starts again from better starting values."""

    poor_r_squared: float = 0.9  # R² below which a fit from default starts is not trusted
    noisy_r_squared: float = 0.97  # R² below which noise may make another minimum the least one
    poor_robust_r_squared: float = 0.95  # for R² by medians, which judges bad fits more favourably
    perfect_r_squared: float = 1 - 1e-12  # R² above which residuals are rounding, so that no other start can help
    vanished_scale: float = 1e-9  # size of a positive parameter, relative to its start, below which it went to 0
    shrinkage: float = 1e3  # share of a parameter at which it should matter
    growth_factors: tuple[float, ...] = (3.0, 10.0)  # multiples of a parameter that may go to infinity
    likelihood_tolerance: float = 1e-3  # change of the log-likelihood of all rows that is none
    likelihood_gain: float = 0.01  # gain in log-likelihood by which a minimum is another and better one
    few_residuals_per_parameter: int = 8  # with so few, those of another minimum may look random
    few_rows_per_parameter: int = 4  # with so few rows, several frequencies may fit the data
    frequency_gain: float = 20.0  # gain in log-likelihood that no chance among 10⁶ frequencies explains
    chance_of_noise: float = 0.01  # probability of the best frequency of noise from which on a fit is doubtful
    max_unit_starts: int = 20  # parameters that are set to 1 alone, with all others at 0, as simplest starts


RESTARTS = RestartSettings()


def converge(method: str, objective: Objective, options: FitOptions, progress: Progress) -> Outcome:
    """Fit by a method that converges by itself; if the fit ends badly, fit again from starting values estimated from
    the data.
    """
    search, start = StartSearch(method, objective, options, progress), objective.start
    if method == "lbfgs" and (objective.is_generalised_linear or (search.is_allowed and objective.has_residuals)):
        (start,), is_estimated = default_starts(objective, ObjectiveBatch([objective], objective.bounds))
        if is_estimated:
            progress.notes.append(f"starting values estimated from the columns: {format_starts(objective, start)}")
    return search.improve(minimize(method, objective, start, options, progress))


class StartSearch:
    """The search for better starting values of a fit that ended badly.

    Args:
        method: `lm` or `lbfgs`.
        objective: the objective of the fit.
        options: the options of the fit. Only fits without `epochs` and `starts` are repeated.
        progress: receives the epochs of the repetitions, notes and warnings.

    Attributes:
        is_allowed: whether the fit may be repeated.
    """

    def __init__(self, method: str, objective: Objective, options: FitOptions, progress: Progress) -> None:
        self._method, self._objective, self._options, self._progress = method, objective, options, progress
        self._unset = unset_parameters(objective)
        self.is_allowed = options.epochs is None and options.starts is None

    def improve(self, first: Outcome) -> Outcome:
        """Return the end of the best fit, given that of the first one; see `judge_end`."""
        objective = self._objective
        if objective.is_likelihood:
            self._note_natural_bounds()
        for strategy in RESTART_STRATEGIES if self.is_allowed else ():
            first = strategy(self, first)
        return judge_end(objective, first)

    def restart_failed_likelihood(self, first: Outcome) -> Outcome:
        """Repeat a likelihood fit that failed, from zeros and ones."""
        objective = self._objective
        if objective.kind is not LossKind.LIKELIHOOD or not first.failure or first.is_unbounded:
            return first
        if first.divergence is None and has_no_finite_minimum(objective, first.theta):
            return first
        start = _simplest_start(objective)
        return first if start is None else self._fit(start, "the fit from the starting values failed; restarted from")

    def restart_poor_fit(self, first: Outcome) -> Outcome:
        """Repeat a poor fit of residuals from starting values that are estimated from the data.

        Fits of least squares are repeated from dimensional scales as well, because even a high R² may be due to one
        row, and from frequencies. Noisy fits are compared with fits from random points.
        """
        objective = self._objective
        if not scalar_parameters(objective) or not objective.has_residuals:
            return first
        if is_poor := self._is_poor(first):
            first = self._refit(None, objective.start, first)
        if not self._unset or first.divergence is not None:
            return first
        explained = explained_variance(objective, first.theta)
        is_noisy = not is_poor and (explained is None or explained < RESTARTS.noisy_r_squared)
        has_one_minimum = objective.is_generalised_linear or objective.is_penalised
        rivals: list[StartStrategy] = [Multistart.few_points] * (is_noisy and not has_one_minimum)
        if self._method == "lm" and not is_poor:
            first = self._refit(Multistart.scaled_points, objective.start, first)
        # The best frequency depends on the other parameters, such as a damping time, so it is checked at the end.
        if self._method == "lm" and explained is not None and not explained > RESTARTS.perfect_r_squared:
            rivals += [Multistart.exponent_points, Multistart.kink_points, Multistart.frequency_points]
        for strategy in rivals:
            first = self._refit(strategy, first.theta, first)
        return first

    def restart_robust_fit(self, first: Outcome) -> Outcome:
        """Repeat a fit with outliers from fits of few rows, if one of these leads to a better minimum."""
        sample = subsample(self._objective, SETTINGS.max_sample_rows)
        if not (first.divergence is None and self._unset and can_evaluate_together(sample)):
            return first
        batch = GroupBatch(sample, [np.arange(sample.rows)])
        if not outlier_minima_mask(batch, np.array([self._is_poor(first)])).any():
            return first
        (theta,) = outlier_starts(batch, first.theta[None], self._options.seed)
        return self._fit(theta, _BETTER_MINIMUM) if self._is_better(theta, first) else first

    def restart_likelihood_at_random(self, first: Outcome) -> Outcome:
        """Repeat a fit of a model that is itself minus a log-likelihood from random starts, if one of them ends at a
        better minimum, such as one with the components of a mixture elsewhere.

        Densities may be infinite at the edge of their parameters' ranges. Then the best minimum inside is kept.
        """
        objective = self._objective
        if not objective.is_likelihood or not self._unset or objective.is_generalised_linear or objective.model.shapes:
            return first
        is_no_minimum = _is_no_minimum(objective, first)
        if not is_no_minimum and not has_several_minima(objective):
            return first
        sample = with_broken_stick(subsample(objective, SETTINGS.max_likelihood_rows))
        points = likelihood_starts(sample, self._options.seed, first.theta)
        for epochs, most in SURVEY.likelihood_rounds:
            if not len(points):
                return first
            batch = repeat_objective(sample, len(points))
            ends = minimize_batch("lbfgs", batch, points, stop=StoppingRule(epochs))
            order = np.argsort(comparison_losses(batch, np.array([end.theta for end in ends])))
            usable = (ends[k].theta for k in order if math.isfinite(_end_loss(sample, ends[k])))
            points = np.array([*islice(usable, most)])
        if not len(points):
            return first
        points = shares_of_stick(objective, points)
        if is_no_minimum:
            return self._fit(points[0], _BETTER)
        gain = self._gain(_end_loss(objective, Outcome(points[0], True)), _end_loss(objective, first))
        return self._fit(points[0], _BETTER_MINIMUM) if gain > RESTARTS.likelihood_gain else first

    def _fit(self, start: Array, reason: str) -> Outcome:
        """Fit from another start, and note the reason."""
        self._progress.notes.append(f"{reason} {format_starts(self._objective, start)}")
        return minimize(self._method, self._objective, start, self._options, self._progress)

    def _refit(self, strategy: StartStrategy | None, start: Array, first: Outcome) -> Outcome:
        """Fit again from the best point of a strategy, or of a whole search, if its end is clearly better; else return
        `first`.
        """
        objective = self._objective
        free = objective.layout.mask(self._unset or scalar_parameters(objective))
        candidate = multistart(objective, start, free, self._options.seed, objective.bounds, strategy)
        if candidate is None or not self._is_better(candidate.end, first):
            return first
        reason = _BETTER_MINIMUM if strategy else _BETTER
        if self._method == "lbfgs":
            return self._fit(candidate.end, reason)
        outcome = self._fit(candidate.start, reason)
        if not self._gain(objective.value(candidate.end), self._progress.latest.loss) > RESTARTS.likelihood_gain:
            return outcome
        # The candidate was found on a sample of the rows, and a fit of all rows from its start leads elsewhere.
        return minimize(self._method, objective, candidate.end, self._options, self._progress)

    def _is_better(self, theta: Array, first: Outcome) -> bool:
        """Whether a fit from a point ends clearly lower than another fit; for least squares the point itself does."""
        objective, saved_settings = self._objective, dict(self._objective.settings)
        if first.divergence is None and objective.is_scale_estimated and not objective.has_theta:
            theta = minimize("lbfgs", objective, theta, self._options, Progress(None)).theta
            objective.settings.update(saved_settings)
        before = math.inf if first.divergence is not None else _comparison_loss(objective, first.theta)
        return self._gain(_comparison_loss(objective, theta), before) > RESTARTS.likelihood_gain

    def _gain(self, loss: float, before: float) -> float:
        counts = self._objective.rows * self._objective.components
        return float(likelihood_gains(self._objective.kind, counts, before, loss))

    def _is_poor(self, first: Outcome) -> bool:
        """Whether a fit of residuals is so poor that other starting values should be tried."""
        if self._method == "lbfgs" and not self._unset:
            return False
        is_poor = _is_poor_least_squares if self._method == "lm" else is_poor_smooth_fit
        return first.divergence is not None or is_poor(self._objective, first)

    def _note_natural_bounds(self) -> None:
        """Add a note if parameters are kept in the range where the model has a meaning."""
        objective = self._objective
        ends = np.array([objective.bounds.low, objective.bounds.high]).T.tolist()
        limits = {name: tuple(ends[objective.layout.slices[name].start]) for name in scalar_parameters(objective)}
        ranges = [
            f"`{name}` {describe_bounds(pair)}"
            for name, pair in limits.items()
            if pair != objective.bounds_by_name.get(name, (-math.inf, math.inf))
        ]
        if ranges:
            self._progress.notes.append(f"parameters are kept where the model has a meaning: {', '.join(ranges)}")


def outlier_starts(batch: GroupBatch, theta: Array, seed: int) -> Array:
    """Return the best ends of robust fits from other starts; see `fit_from_subsets`."""
    return fit_from_subsets(batch, theta, np.array([*sample_starts(batch.objective, seed, MINIMIZATION.subsets // 2)]))


def judge_end(objective: Objective, end: Outcome) -> Outcome:
    """Return where a method that converges ended, with the reason in words if the fit failed there."""
    if end.divergence is not None:
        return dataclasses.replace(end, failure=_start_failure(end.divergence, objective))
    reason = "" if end.is_unbounded or not objective.is_likelihood else _unbounded_reason(objective, end.theta)
    if reason:
        failure = f"the loss has no minimum: {reason}"
        end = dataclasses.replace(end, converged=False, failure=failure, is_unbounded=True)
    if end.is_stuck and has_no_finite_minimum(objective, end.theta):
        return dataclasses.replace(end, failure="")
    hint = unbounded_loss_hint(objective.model, objective.is_likelihood) if end.is_unbounded else ""
    return dataclasses.replace(end, failure=f"{end.failure}. {hint}") if hint else end


# Ways to repeat a fit that ended badly, in the order in which they are tried.
RESTART_STRATEGIES = (
    StartSearch.restart_failed_likelihood,
    StartSearch.restart_poor_fit,
    StartSearch.restart_robust_fit,
    StartSearch.restart_likelihood_at_random,
)
_BETTER = "the fit from the starting values was poor; better ones were estimated from the data:"
_BETTER_MINIMUM = "a better minimum was found from other starting values:"


@ignore_float_errors()
def likelihood_gains(
    kind: LossKind, counts: NDArray[np.intp] | int, before: Array | float, after: Array | float
) -> Array:
    """Return by how much the log-likelihoods of fits rise between two losses each; see `comparison_losses`.

    Args:
        counts: the number of target values of each fit.
        before, after: mean losses, or variances of the residuals.
    """
    if kind is LossKind.LIKELIHOOD:
        return np.asarray(counts * np.subtract(before, after))
    return np.asarray(counts / 2 * np.log(np.divide(before, after)))


def scalar_parameters(objective: Objective) -> list[str]:
    """The free parameters that are numbers; only for these are other starting values searched."""
    return [name for name, shape in objective.layout.shapes.items() if not shape]


def unset_parameters(objective: Objective) -> list[str]:
    """The free parameters that are numbers and have no starting value from the user."""
    return [name for name in scalar_parameters(objective) if name not in objective.user_starts]


def format_starts(objective: Objective, theta: Array, chosen: Sequence[int] | None = None) -> str:
    """Return the starting values of all numbers, or of those with some indices, as words for a sentence."""
    slices, names = objective.layout.slices, scalar_parameters(objective)
    listed = [name for name in names if chosen is None or slices[name].start in chosen]
    return ", ".join(f"{name} = {theta[slices[name].start]:.4g}" for name in listed)


def _is_poor_least_squares(objective: Objective, outcome: Outcome) -> bool:
    """Whether a fit is so poor that other starting values should be tried."""
    result = compute_statistics(objective, outcome.theta)
    explained = result.r_squared
    if result.dof <= 0 or explained is None or explained > RESTARTS.perfect_r_squared:
        return False
    if not outcome.converged:
        return True
    if result.missing_error_reasons and not objective.is_penalised:
        return True  # interchangeable parameters with equal starting values stay equal
    if not unset_parameters(objective):
        return False
    if explained < RESTARTS.poor_r_squared or _is_frequency_ambiguous(objective):
        return True
    few = objective.rows * objective.components <= RESTARTS.few_residuals_per_parameter * objective.layout.size
    return not objective.is_linear and (few or residual_structure(objective, outcome.theta) > RESIDUALS.suspect_sigmas)


def _is_frequency_ambiguous(objective: Objective) -> bool:
    """Whether there are so few rows that sinusoids of several frequencies may fit them."""
    few = objective.rows * objective.components <= RESTARTS.few_rows_per_parameter * objective.layout.size
    return few and any(True for _ in Sinusoids(objective).frequency_grids(objective.start, 1, 1))


def explained_variance(objective: Objective, theta: Array, known: ComputedStatistics | None = None) -> float | None:
    """R² of a fit, from its statistics if they are known; for robust losses the one by medians."""
    if objective.kind is LossKind.ROBUST:
        with ignore_float_errors():
            return robust_r_squared(objective, theta)
    r_squared = None if known is None else known.r_squared
    return compute_statistics(objective, theta).r_squared if r_squared is None else r_squared


def doubt_of(objective: Objective, outcome: Outcome, known: ComputedStatistics) -> str:
    """Return a warning if a fit may not be the best one; empty for other fits."""
    doubt = _doubt_of_poor_fit(objective, outcome, known)
    if doubt or outcome.failure or objective.kind is not LossKind.SQUARES:
        return doubt
    rival = rival_frequency(objective, outcome.theta)
    return rival and f"this fit is doubtful: another frequency explains nearly as much; compare the fit from {rival}"


def _doubt_of_poor_fit(objective: Objective, outcome: Outcome, known: ComputedStatistics) -> str:
    """Return a warning if another frequency explains far more, the residuals are not random, or noise has frequencies
    that explain as much; empty otherwise.
    """
    if objective.kind not in _RESIDUAL_LOSSES or outcome.failure:
        return ""
    explained = explained_variance(objective, outcome.theta, known)
    enough = RESTARTS.poor_r_squared if objective.is_network else RESTARTS.perfect_r_squared
    if explained is None or not explained < enough:
        return ""
    share = f"this fit is doubtful: it explains {float(f'{100 * max(explained, 0):.2g}'):g} % of the target's variation"
    better = _better_given_frequencies(objective, outcome)
    if better is not None:
        starts = format_starts(objective, better, Sinusoids(objective).frequencies)
        return f"{share}, and another frequency explains far more; start from {starts}"
    structure = residual_structure(objective, outcome.theta)
    if structure > RESIDUALS.systematic_sigmas:
        other = "another model" if objective.is_linear else "other starting values, or another model,"
        return (
            f"this fit is doubtful: neighbouring residuals are alike ({structure:.2g} standard errors from a random "
            f"order); {other} may fit better, and the standard errors are probably too small"
        )
    count = _scanned_frequencies(objective)
    chance = min(1.0, count * (1 - max(explained, 0.0)) ** ((objective.rows - objective.layout.size) / 2))
    if not chance > RESTARTS.chance_of_noise:
        return ""
    if _is_frequency_ambiguous(objective):
        return f"{share}, and so few rows do not determine the frequency"
    return f"{share}; the best of {count} frequencies does so in pure noise with probability {chance:.1g}"


def _scanned_frequencies(objective: Objective) -> int:
    """Return the number of independent frequencies among which a fit chooses; 0 if the user gave a start for each."""
    is_searched, most = objective.layout.mask(unset_parameters(objective)), SETTINGS.max_frequencies
    grids = Sinusoids(objective).frequency_grids(objective.start, 1, most, objective.bounds)
    return sum(len(grid.values) for grid in grids if is_searched[grid.parameter])


def _better_given_frequencies(objective: Objective, outcome: Outcome) -> Array | None:
    """Return a fit that is far better than one whose frequencies began at given values; None if there is none."""
    sinusoids = Sinusoids(objective)
    with_start = objective.layout.mask([name for name in scalar_parameters(objective) if name in objective.user_starts])
    if not with_start[sinusoids.frequencies].any():
        return None
    every = objective.layout.mask(scalar_parameters(objective))
    candidate = multistart(objective, outcome.theta, every, 0, objective.bounds, Multistart.frequency_points)
    if candidate is None:
        return None
    gain = objective.rows / 2 * math.log(objective.rss(outcome.theta) / max(objective.rss(candidate.end), 1e-300))
    return candidate.end if gain > RESTARTS.frequency_gain else None


_RESIDUAL_LOSSES = (LossKind.SQUARES, LossKind.ROBUST)


def _end_loss(objective: Objective, end: Outcome) -> float:
    """Return the loss at the end of a fit; infinite if it failed, breaks constraints, or has no limit."""
    if end.failure or not objective.constraints.are_met(end.theta) or _unbounded_reason(objective, end.theta):
        return math.inf
    return objective.value(end.theta)


def has_several_minima(objective: Objective) -> bool:
    """Whether a model that is itself minus a log-likelihood is likely to have several minima: it has shares of
    components, such as a mixture, or frequencies.
    """
    model = objective.model
    if not objective.is_likelihood or model.shapes or model.levels or not unset_parameters(objective):
        return False  # with levels, components of some levels might change places
    box = objective.bounds
    return bool((np.isfinite(box.low) & np.isfinite(box.high)).any()) or bool(Sinusoids(objective).frequencies)


def _is_no_minimum(objective: Objective, first: Outcome) -> bool:
    """Whether a fit failed, or its parameters are undetermined or at the edge of the ranges that have a meaning."""
    if not first.converged or _unbounded_reason(objective, first.theta):
        return True
    return bool(compute_statistics(objective, first.theta).missing_error_reasons) or bool(
        objective.bounds.active(first.theta).any()
    )


def _unbounded_reason(objective: Objective, theta: Array) -> str:
    """Return how a likelihood can grow for ever from a point, as a clause; empty if it cannot.

    A parameter that is more likely the larger it is has no estimate. A positive one that has shrunk to nothing, such as
    the standard deviation of a component at a single row, makes a density infinite.
    """
    return objective.cached_at("unbounded", theta, lambda: _find_unbounded_parameter(objective, theta))


def _find_unbounded_parameter(objective: Objective, theta: Array) -> str:
    """Return the reason of `_unbounded_reason`."""
    loss = objective.value(theta)
    is_mixture = has_several_minima(objective) and objective.rows > RESTARTS.few_rows_per_parameter * len(theta)
    for name in scalar_parameters(objective):
        index = objective.layout.slices[name].start
        low, value = objective.bounds.low[index], theta[index]
        if low == 0 and 0 < value < RESTARTS.vanished_scale * max(abs(objective.start[index]), abs(theta).max()):
            return f"it falls without end as `{name}` goes to 0, where the model is infinite or undefined"
        if low == 0 and is_mixture and (count := rows_of_component(objective, theta, index)):
            own = "starting values for all parameters keep it"
            return f"it falls without end where a component shrinks to a row; `{name}` depends on {count} rows ({own})"
        others = value / RESTARTS.shrinkage, math.copysign(objective.start[index], value)
        is_flat: dict[bool, list[bool]] = {True: [], False: []}  # by whether the point is farther out
        for other in (*others, *(value * factor for factor in RESTARTS.growth_factors)):
            point = np.where(np.arange(len(theta)) == index, other, theta)
            loss_there = objective.value(point) if objective.bounds.contains(point) else math.inf
            rise = (loss_there - loss) * objective.total_weight
            is_flat[abs(other) > abs(value)].append(rise < RESTARTS.likelihood_tolerance)
        if all(is_flat[True]) and not all(is_flat[False]):
            end = "minus infinity" if value < 0 else "infinity"
            return f"it does not rise again as `{name}` goes to {end}, so the data set no limit to it"
    return ""


def _simplest_start(objective: Objective) -> Array | None:
    """Return the best of the simplest starts: all unset parameters at 0, or all but one, which is 1.

    There, a link of a sum of columns is that of a constant, whatever the size of the columns. The result is None if the
    loss is undefined at all of them.
    """
    unset = objective.layout.mask(unset_parameters(objective))
    indices = np.flatnonzero(unset)[: RESTARTS.max_unit_starts]
    points = np.tile(np.where(unset, 0.0, objective.start), (1 + len(indices), 1))
    points[range(1, len(points)), indices] = 1.0
    points = objective.bounds.clip(points)
    batch, every = repeat_objective(objective, len(points)), np.arange(len(points))
    losses = np.where(_are_defined(batch, points, every), batch.losses(points, every), math.inf)
    best = int(np.argmin(losses))
    return points[best] if losses[best] < math.inf else None


def default_starts(objective: Objective, batch: Batch) -> tuple[Array, bool]:
    """Return where the fits of a batch start by default, and whether these points were estimated from the columns.

    The loss of a generalised linear model has a single minimum, but may be undefined at the given start: `exp(a + b*x)`
    overflows at 1 for large x. Then unset parameters are 0. If dimensional scales are not all about 1, other fits of
    residuals start where least squares leads from these, or from the given start if that ends lower.
    """
    free = objective.layout.mask(unset_parameters(objective))
    every = np.arange(batch.count)
    starts = np.tile(objective.start, (batch.count, 1))
    if objective.is_generalised_linear:
        undefined = np.flatnonzero(~_are_defined(batch, starts, every))
        if not len(undefined):
            return starts, False
        at_0 = objective.bounds.clip(np.where(free, 0.0, starts[undefined]))
        is_better = _are_defined(batch, at_0, undefined)
        starts[undefined[is_better]] = at_0[is_better]
        return starts, False
    scaled = start_at_scales(objective, objective.start, free) if objective.has_residuals and free.any() else None
    if scaled is None:
        return starts, False
    ends = [warm_starts(batch, objective, np.tile(point, (batch.count, 1))) for point in (objective.start, scaled)]
    sums = [np.sum(np.square(batch.triangles(end, every)[:, :, -1]), axis=1) for end in ends]
    return np.where((sums[0] < sums[1])[:, None], *ends), True


def _are_defined(batch: Batch, theta: Array, fits: Fits) -> Mask:
    """Return at which points the losses of some fits and their gradients are finite."""
    losses, gradients = batch.values_and_gradients(theta, fits)
    return np.asarray(np.isfinite(losses) & np.isfinite(gradients).all(axis=1))


def is_poor_smooth_fit(objective: Objective, first: Outcome) -> bool:
    """Whether another starting point may lead to a better fit."""
    if first.converged and objective.kind is LossKind.LIKELIHOOD and objective.is_generalised_linear:
        return False  # this loss has a single minimum
    if not first.converged or residual_structure(objective, first.theta) > RESIDUALS.suspect_sigmas:
        return True
    if objective.is_penalised:
        return False
    if compute_statistics(objective, first.theta).missing_error_reasons:  # as where a rate has no effect
        return True
    explained = explained_variance(objective, first.theta) if objective.kind in _RESIDUAL_LOSSES else None
    enough = RESTARTS.poor_robust_r_squared if objective.kind is LossKind.ROBUST else RESTARTS.poor_r_squared
    return explained is not None and explained < enough


def _comparison_loss(objective: Objective, theta: Array) -> float:
    """The loss by which points are compared; see `comparison_losses`."""
    return float(comparison_losses(ObjectiveBatch([objective], objective.bounds), theta[None])[0])


_MAX_LM_PARAMETERS = 5000  # lm stores matrices of all pairs of parameters: 200 MB each at this size


def choose_method(options: FitOptions, objective: Objective) -> str:
    """Return the name of the method to run. Raises OptionError if the chosen one does not suit the objective."""
    squares = objective.kind is LossKind.SQUARES
    if options.optimizer == "lm" and not squares:
        raise OptionError("lm minimises squared residuals: it needs a model `target ~ prediction` and the loss mse")
    if options.optimizer == "lm" and objective.settings[L1_FACTOR]:
        raise OptionError("lm cannot minimise an l1 penalty, which is not a sum of squares; use lbfgs")
    if options.optimizer == "lm" and objective.layout.size > _MAX_LM_PARAMETERS:
        raise OptionError(
            f"lm is limited to {_MAX_LM_PARAMETERS} parameters, and this model has {objective.layout.size}; try adam"
        )
    if options.optimizer != "auto":
        return options.optimizer
    if objective.has_priors:
        return "lbfgs"
    if options.batch_size is not None or objective.is_network:
        return "adam"
    is_small = objective.layout.size <= MAX_COVARIANCE_SIZE
    return "lm" if squares and is_small and not objective.settings[L1_FACTOR] else "lbfgs"


def optimize(method: str, objective: Objective, options: FitOptions, progress: Progress) -> Outcome:
    """Run a method to its end. A divergence is an outcome too, at the last parameters before it."""
    try:
        outcome = _run_method(method, objective, options, progress)
    except PatienceExhausted:
        outcome = Outcome(progress.latest.theta, True)
    except Diverged as error:
        if not progress.history:
            return Outcome(objective.start, False, _start_failure(error, objective))
        explained = (
            f"diverged: {error}{explain_divergence(error, objective)}; "
            f"the parameters are those of epoch {error.epoch - 1}. "
            f"A smaller learning rate (--lr, now {options.learning_rate:g}) may help"
        )
        return Outcome(progress.latest.theta, False, explained)
    finally:
        objective.evaluation_log = None
    return outcome if outcome.divergence is not None else progress.restore_best(outcome)


def _run_method(method: str, objective: Objective, options: FitOptions, progress: Progress) -> Outcome:
    if method not in OPTIMIZERS and (progress.checkpoint_writer is not None or progress.resumed_from is not None):
        objective.evaluation_log = progress.evaluations
    if method not in OPTIMIZERS:
        return converge(method, objective, options, progress)
    drawn = options.batch_size is not None
    descending = _gradient_method(method, objective, options, progress)
    progress.method_state = descending.checkpoint_state
    if progress.resumed_from is not None:
        descending.resume(progress.resumed_from)
        progress.resume()
    for epoch in descending.epochs(progress.selection_losses):
        progress.record(epoch)
        if options.tolerance is not None and has_plateaued(progress.selection_losses, options.tolerance, drawn=drawn):
            return Outcome(epoch.theta, True)
    return Outcome(progress.latest.theta, has_converged([record["loss"] for record in progress.history]))


def _gradient_method(method: str, objective: Objective, options: FitOptions, progress: Progress) -> GradientMethod:
    epochs = DEFAULT_EPOCHS if options.epochs is None else options.epochs
    update, rates = OPTIMIZERS[method], LearningRateSchedule(options.lr_schedule, options.learning_rate, epochs)
    size, longest = options.batch_size, options.clip_norm
    return GradientMethod(objective, update, rates, size, longest, options.seed, progress.on_progress)


def _start_failure(error: Diverged, objective: Objective) -> str:
    """Return why a fit could not begin, as a sentence."""
    where = find_undefined(objective, objective.start)
    if where is None:
        return f"{error}: the squares of the residuals overflow; rescale the data, or choose other starting values"
    return f"{error}: {where}; {where.advice}"


@dataclass(frozen=True, slots=True)
class SurveySettings:
    """Limits of the fits from many starting points, of which the best is repeated to the last digits."""

    # Epochs of each round, and the share of all fits that go on after it: the best that have not converged.
    rounds: tuple[tuple[int, float], ...] = ((20, 0.25), (20, 0.05), (100, 0.0))
    # Epochs of each round for a model that is itself minus a log-likelihood, and the number of fits that go on.
    likelihood_rounds: tuple[tuple[int, int], ...] = ((30, 6), (200, 1))
    evaluations_per_epoch: int = 2  # by Levenberg-Marquardt; an evaluation may lead to no step
    tolerance: float = 1e-10  # of the losses at which fits stop
    max_runs: int = 3  # starts that are fitted to the last digits, as long as these fits fail


SURVEY = SurveySettings()


@dataclass(slots=True)
class _StartRun:
    """A fit from one starting point; its loss is infinite until it ends, and if it fails."""

    objective: Objective
    progress: Progress
    epochs: list[Epoch]
    outcome: Outcome
    loss: float = math.inf


def optimize_multistart(method: str, objective: Objective, options: FitOptions, progress: Progress) -> Outcome:
    """Run a method from the given start and from others drawn with the seed, and keep the best end. See `optimize`.

    The best end has the least loss, over the validation rows if there are any. Its epochs are reported to the callback.
    """
    if options.starts is None:
        return optimize(method, objective, options, progress)
    starts = np.array([objective.start, *sample_starts(objective, options.seed, options.starts - 1)])
    options = dataclasses.replace(options, starts=None)
    losses, order = [math.inf] * len(starts), range(len(starts))
    is_surveyed = method in ("lm", "lbfgs") and progress.validation is None and len(starts) > 1
    if is_surveyed:
        starts, losses = _survey(method, objective, starts, options, progress)
        ranked = np.where(is_equal_loss(losses[0], min(losses)), [-math.inf, *losses[1:]], losses)
        order = np.argsort(ranked)[: SURVEY.max_runs].tolist()
    runs: list[_StartRun] = []
    try:
        for number in order:
            started, epochs = objective.with_rows(objective.data), list[Epoch]()
            started.start = starts[number]
            own = Progress(epochs.append, progress.validation)
            runs.append(run := _StartRun(started, own, epochs, Outcome(starts[number], False)))
            run.outcome = optimize(method, started, options, own)
            losses[number] = run.loss = _final_loss(started, run.outcome, own)
            if is_surveyed and not run.outcome.failure:
                break
    finally:  # also after Ctrl-C
        best = min(runs, key=lambda run: run.loss)
        _adopt(progress, objective, best)
    (progress.warnings if math.isinf(best.loss) else progress.notes).append(_multistart_summary(losses, best.loss))
    return best.outcome


def _survey(
    method: str, objective: Objective, starts: Array, options: FitOptions, progress: Progress
) -> tuple[Array, list[float]]:
    """Fit from all starting points in one batch.

    Returns:
        The starting points, improved by least squares for other methods except for the first, and the losses at the
        ends of the fits from there; infinite for failed fits.
    """
    every = np.arange(len(starts))
    batch = repeat_objective(objective, len(starts))
    if method != "lm":
        starts = np.vstack((starts[:1], warm_starts(batch, objective, starts)[1:]))
    tolerance = SURVEY.tolerance if options.tolerance is None else options.tolerance
    best = Epoch(0, math.inf, objective.start)

    def keep_best(_: Fits, __: Fits, step_losses: Array, points: Array) -> None:
        nonlocal best
        least = int(np.argmin(step_losses))
        if step_losses[least] < best.loss:
            best = Epoch(0, float(step_losses[least]), points[least].copy())

    theta, losses, fits = starts.copy(), np.full(len(starts), math.inf), every
    for epochs, share in SURVEY.rounds if options.epochs is None else ((options.epochs, 0.0),):
        part = batch.take(fits)
        try:
            stop = StoppingRule(epochs, tolerance, SURVEY.evaluations_per_epoch * epochs)
            outcomes = minimize_batch(method, part, theta[fits], keep_best, stop)
        except KeyboardInterrupt:
            progress.record(best)
            raise
        theta[fits] = [end.theta for end in outcomes]
        compared = comparison_losses(part, theta[fits])
        losses[fits] = np.where([end.divergence is not None for end in outcomes], math.inf, compared)
        is_open = np.array([not end.converged for end in outcomes]) & np.isfinite(losses[fits])
        fits = fits[is_open]
        fits = fits[np.argsort(losses[fits], kind="stable")[: math.ceil(share * len(starts))]]
        if not len(fits):
            break
    return starts, losses.tolist()


def _final_loss(objective: Objective, outcome: Outcome, progress: Progress) -> float:
    """The loss by which ends are compared; infinite for a failed fit."""
    if outcome.failure or progress.last is None:
        return math.inf
    if progress.validation is not None and progress.best is not None:
        return selection_loss(progress.best if progress.validation.restores_best else progress.last)
    return _comparison_loss(objective, outcome.theta)


def _adopt(progress: Progress, objective: Objective, run: _StartRun) -> None:
    """Make a run the one whose history the fit reports."""
    for name in ("history", "selection_losses", "first", "last", "best"):
        setattr(progress, name, copy.copy(getattr(run.progress, name)))
    progress.warnings += run.progress.warnings
    progress.notes += run.progress.notes
    objective.settings.update(run.objective.settings)
    if progress.on_epoch is not None:
        for epoch in run.epochs:
            progress.on_epoch(epoch)


def _multistart_summary(losses: list[float], best: float) -> str:
    """Return a sentence on how many starts led to the best fit."""
    count = len(losses)
    if math.isinf(best):
        return f"none of {count} starting points led to a fit"
    equal = sum(is_equal_loss(loss, best) for loss in losses)
    failed = sum(map(math.isinf, losses))
    rest = [f"{count - equal - failed} led to worse fits"] * (count > equal + failed)
    rest += [f"{failed} failed"] * (failed > 0)
    first = "" if is_equal_loss(losses[0], best) else "; the given one is not among these"
    return f"the best of {count} starting points: {', '.join([f'{equal} of them led to this fit', *rest])}{first}"
