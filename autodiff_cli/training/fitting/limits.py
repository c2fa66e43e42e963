"""Least-squares fits whose sum of squares is smallest where a parameter is infinite, or 0 outside of the domain."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from autodiff_cli.array_types import Array, Mask
from autodiff_cli.training.methods.gradient_descent import StoppingRule
from autodiff_cli.training.methods.least_squares import fit_least_squares
from autodiff_cli.training.objective.batch import repeat_objective
from autodiff_cli.training.objective.objective import Objective


class LimitSettings(NamedTuple):
    """When a parameter has no finite estimate, and the fits that show it."""

    steps: int = 10  # steps in which a parameter doubles or halves, and the others change
    evaluations: int = 50  # evaluations of each fit of the other parameters
    exact_share: float = 1e-22  # share of the target's variation below which a sum of squares is as good as 0
    tolerance: float = 1e-10  # relative decrease of its sum of squares at which it stops
    flat_tolerance: float = 1e-8  # relative rise of a sum of squares that is none
    min_rise: float = 1e-3  # relative rise towards the other end, where the data do set a limit
    max_elements: int = 8  # parameters that are checked


LIMITS = LimitSettings()


def find_unlimited(objective: Objective, theta: Array, elements: Mask) -> str:
    """Find parameters without a finite least-squares estimate, such as the steepness of a curve through a jump.

    As such a parameter goes to infinity, or to 0 where the model has no derivative, and the others are fitted, the sum
    of squares does not rise again; the other way it does.

    Args:
        elements: the mask of the elements to check.

    Returns:
        A clause on them, which is empty if there are none.
    """
    limits = list[str]()
    rss, exact = objective.rss(theta), LIMITS.exact_share * objective.target_variation()
    flat, steep = (max((1 + rise) * rss, exact) for rise in (LIMITS.flat_tolerance, LIMITS.min_rise))
    for element in np.flatnonzero(elements)[: LIMITS.max_elements].tolist():
        (up, _), (down, small) = (_follow(objective, theta, element, factor, flat, steep) for factor in (2.0, 0.5))
        if up <= flat and down > steep:
            end = "minus infinity" if theta[element] < 0 else "infinity"
        elif down <= flat and up > steep and not _fit_beside(objective, element, 0.0, small[None], -1.0)[0] <= flat:
            end = "0"
        elif up <= flat and down <= flat:
            break  # one of several parameters of which the data determine a combination
        else:
            continue
        limits.append(f"`{objective.layout.element_names[element]}` goes to {end}")
    return f"it does not rise again as {' and '.join(limits)}" if limits else ""


def _follow(
    objective: Objective, theta: Array, element: int, factor: float, flat: float, steep: float
) -> tuple[float, Array]:
    """Multiply an element by a factor again and again, and fit the others, until the sum of squares is too large.

    Args:
        flat: the sum of squares up to which the element has no effect by itself, so that its steps may be longer.
        steep: the largest sum of squares.

    Returns:
        The largest sum of squares, nan if there is none, and the last point.
    """
    largest, steps = math.nan, 0
    # Steps of an element without effect grow, because a fit may end where it is huge; so do steps on a slow rise.
    while steps < LIMITS.steps and 1e-300 < abs(factor * theta[element]) < 1e300:
        slopes = np.nan_to_num(objective.triangle(theta)[:, :-1])
        scale = np.fmax(np.linalg.norm(slopes, axis=0), np.finfo(np.float64).tiny)
        directions = slopes / scale
        own, directions[:, element] = directions[:, element].copy(), 0.0
        # The others change so that the predictions stay nearly as they are.
        along = -np.linalg.lstsq(directions, own, rcond=None)[0] * scale[element] / scale
        value = factor * float(theta[element])
        starts = theta + np.outer((0.0, value - theta[element]), np.nan_to_num(along))
        starts[:, element] = value
        loss, point = _fit_beside(objective, element, value, starts, steep)
        if math.isnan(loss):
            break
        if loss > flat or objective.rss(starts[0]) <= flat:
            factor *= factor
        else:
            steps += 1
        largest, theta = np.fmax(largest, loss), point
        if loss > steep:
            break
    return float(largest), theta


def _fit_beside(objective: Objective, element: int, value: float, starts: Array, most: float) -> tuple[float, Array]:
    """Return the least sum of squares with an element at a value and the others fitted, and where it is.

    Where the derivatives are not finite, the others keep their starting values if these are good enough.

    Args:
        most: the largest sum of squares of such values; else it is nan.
    """
    bounds = objective.bounds.with_fixed(element, value)
    starts = bounds.clip(starts)
    if not objective.bounds.contains(starts[0]):
        return math.inf, starts[0]
    stop = StoppingRule(evaluations=LIMITS.evaluations, tolerance=LIMITS.tolerance)
    fitted = fit_least_squares(repeat_objective(objective, len(starts), bounds), starts, stop=stop)
    ends = [end.theta for end in fitted if end.divergence is None]
    losses = np.nan_to_num([objective.rss(point) for point in ends or starts], nan=math.inf)
    best = int(np.argmin(losses))
    return float(losses[best] if ends or losses[best] <= most else math.nan), (ends or starts)[best]
