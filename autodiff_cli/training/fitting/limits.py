"""Fits whose loss is smallest where a parameter is infinite, or 0 outside of the domain."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from autodiff_cli.array_types import Array
from autodiff_cli.training.fitting.minimization import converging_method, minimize_batch
from autodiff_cli.training.losses import LossKind
from autodiff_cli.training.methods.gradient_descent import Outcome, StoppingRule
from autodiff_cli.training.methods.least_squares import norms
from autodiff_cli.training.objective.batch import repeat_objective
from autodiff_cli.training.objective.objective import Objective, copy_with
from autodiff_cli.training.objective.parameters import Bounds
from autodiff_cli.training.result.statistics import ComputedStatistics, undetermined


class LimitSettings(NamedTuple):
    """When a parameter has no finite estimate, and the fits that show it."""

    steps: int = 10  # steps in which a parameter doubles or halves, and the others change
    epochs: int = 50  # steps of each fit of the other parameters
    smoothing: float = 5e-2  # radius of smoothed kinks, relative to the mean size of their arguments
    exact_share: float = 1e-22  # share of the target's variation below which a sum of squares is as good as 0
    # relative rise of the loss that is none, and its least rise towards the other end, where the data do set a limit
    rises: tuple[float, float] = 1e-8, 1e-3
    likelihood_rises: tuple[float, float] = 1e-3, 0.1  # the same for a negative log-likelihood of all rows
    least_dispersion: float = 1e-6  # the dispersion is the unit of these rises; a smaller one may be rounding errors
    # relative changes of a parameter without effect that change a loss by its rounding errors alone
    rounding_probes: tuple[float, ...] = (-1e-6, -1e-7, -1e-8, 0.0, 1e-8, 1e-7, 1e-6)
    max_elements: int = 8  # parameters that are checked


LIMITS = LimitSettings()


def find_unlimited(objective: Objective, theta: Array, statistics: ComputedStatistics) -> str:
    """Find parameters without a finite estimate, such as the steepness of a curve through a jump.

    As such a parameter goes to infinity, or to 0 where the model has no derivative, and the others are fitted, the loss
    does not rise again; the other way it does.

    Args:
        statistics: the statistics at `theta`, which show the elements to check.

    Returns:
        A clause on them, which is empty if there are none.
    """
    clauses, kind, is_checked = list[str](), objective.kind, statistics.is_imprecise
    if objective.has_kinks:  # with one row on a segment, its bend and slope are as good everywhere on a line
        is_checked = is_checked & ~(undetermined(objective, theta) & objective.slope_triangle(theta).any(axis=0))
    objective = copy_with(objective, is_scale_estimated=False)
    if kind is not LossKind.SQUARES and (smooth := objective.without_kinks()):
        objective = smooth.with_smoothing(LIMITS.smoothing, theta)
        theta = _minimize(objective, objective.bounds, theta[None])[0].theta
    loss, dispersion = objective.value(theta), (objective.has_dispersion and statistics.dispersion) or 1.0
    rises = max(dispersion, LIMITS.least_dispersion) / objective.total_weight * np.array(LIMITS.likelihood_rises)
    if kind is not LossKind.LIKELIHOOD:
        exact = LIMITS.exact_share * objective.mean_square(objective.target_variation())
        loss = max(loss, math.sqrt(exact) if kind is LossKind.OTHER else exact)
        rises = loss * np.array(LIMITS.rises)
    flat, steep = (loss + rises).tolist()
    for element in np.flatnonzero(is_checked)[: LIMITS.max_elements].tolist():
        (up, _), (down, last) = (_follow(objective, theta, element, factor, flat, steep) for factor in (2.0, 0.5))
        if up <= flat and down <= steep:  # the fit may have ended where the element is huge
            down, last = _follow(objective, last, element, 0.5**LIMITS.steps, flat, steep)
        if up <= flat and down > steep:
            end = "minus infinity" if theta[element] < 0 else "infinity"
        elif down <= flat and up > steep and not _fit_beside(objective, element, 0.0, last[None])[0] <= flat:
            end = "0"
        else:
            continue
        clauses.append(f"`{objective.layout.element_names[element]}` goes to {end}")
    return f"it does not rise again as {' and '.join(clauses)}" if clauses else ""


def _follow(
    objective: Objective, theta: Array, element: int, factor: float, flat: float, steep: float
) -> tuple[float, Array]:
    """Multiply an element by a factor again and again, and fit the others, until the loss is too large.

    Args:
        flat: the loss up to which the element has no effect by itself, so that its steps may be longer.
        steep: the largest loss.

    Returns:
        The largest loss, nan if there is none, and the last point.
    """
    largest, steps, shortest, along, place = math.nan, 0, factor, np.zeros(len(theta)), 0.0
    while steps < LIMITS.steps and 1e-300 < abs(factor * theta[element]) < 1e300:
        here, slopes = float(theta[element]), np.nan_to_num(objective.slope_triangle(theta))
        scale = np.fmax(norms(slopes.T), np.finfo(np.float64).tiny)
        directions = slopes / scale
        own, directions[:, element] = directions[:, element].copy(), 0.0
        # The others change so that the predictions stay nearly as they are. They are linear in the element, as `m` in
        # tanh(k*x - m), or in its reciprocal, as `m` in tanh(k*(x - m)) and `c` in c*(exp(k*x) - 1) for small k.
        if own.any():
            solution = -np.linalg.lstsq(directions, own, rcond=None)[0] * scale[element] / scale
            along, place = np.nan_to_num(solution), here
        # In products, they are powers of it, as `a` and `c` are in a*c*exp(-b*x).
        powers = np.divide(here * along, theta, out=np.zeros_like(theta), where=theta != 0)
        value = factor * here
        starts = theta + np.outer((0.0, value - here, place * (place / here - place / value)), along)
        starts = np.vstack((starts, theta * factor**powers))
        starts[:, element] = value
        loss, point = _fit_beside(objective, element, value, starts, flat, steep)
        is_likelihood = objective.kind is LossKind.LIKELIHOOD
        if is_likelihood:  # large terms may cancel, whose rounding errors are no rise
            nearby = point + np.outer(LIMITS.rounding_probes, np.where(np.arange(len(point)) == element, value, 0.0))
            losses = [*map(objective.value, nearby)]
            loss -= float(np.fmax.reduce(losses) - np.fmin.reduce(losses))
        steps += 1
        if math.isnan(loss) or (is_likelihood and loss < flat - 1):  # such a fit is one of rounding errors
            if factor == shortest:
                break
            factor = math.sqrt(factor)
            continue
        # Steps of an element without effect grow, because a fit may end where it is huge; so do steps on a slow rise.
        if (loss > flat or objective.value(starts[0]) <= flat) and not (is_likelihood and factor > 1):
            factor *= factor
        largest, theta = np.fmax(largest, loss), point
        if loss > steep:
            break
    return float(largest), theta


def _fit_beside(
    objective: Objective, element: int, value: float, starts: Array, enough: float = -math.inf, most: float = -math.inf
) -> tuple[float, Array]:
    """Return the least loss with an element at a value and the others fitted, and where it is.

    Where the derivatives are not finite, a fit fails. The others keep their starting values if these are good enough.

    Args:
        enough: the largest loss of such values with which nothing is fitted.
        most: the same where all fits fail; else it is nan.
    """
    bounds = objective.bounds.with_fixed(element, value)
    starts = bounds.clip(starts)
    if not objective.bounds.contains(starts[0]):
        return math.inf, starts[0]
    losses = np.nan_to_num([*map(objective.value, starts)], nan=math.inf)
    outcomes = [] if losses.min() <= enough else _minimize(objective, bounds, starts)
    ends = [end.theta for end in outcomes if end.divergence is None]
    points, losses = [*ends, *starts], np.append(np.nan_to_num([*map(objective.value, ends)], nan=math.inf), losses)
    best = int(np.argmin(losses))
    return float(losses[best] if ends or losses[best] <= most else math.nan), points[best]


def _minimize(objective: Objective, bounds: Bounds, starts: Array) -> list[Outcome]:
    """Minimise a loss from several starts within bounds, with a limited effort."""
    batch, stop = repeat_objective(objective, len(starts), bounds), StoppingRule(LIMITS.epochs)
    return minimize_batch(converging_method(objective, is_near=True), batch, starts, stop=stop)
