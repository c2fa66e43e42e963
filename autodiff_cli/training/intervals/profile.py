"""Profile likelihood: how far a parameter can go before the best fit with it held there is significantly worse.

Bates & Watts 1988, Nonlinear Regression Analysis, section 6.1. Where a model is linear the ends are those of the
errors; elsewhere they lie as far to either side as the data say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.bounds import Bounds
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.methods.least_squares import levenberg_marquardt
from autodiff_cli.training.methods.loop import Diverged, Epoch
from autodiff_cli.training.methods.quasi_newton import lbfgs_with_corners
from autodiff_cli.training.objective.losses import LossKind
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.result.fit import FittedModel

Array = NDArray[np.float64]

_MOST = 50  # numbers whose profiles are followed
_STEPS = 40  # outwards, each up to twice the one before
_ROUNDS = 80  # of closing in on an end
_EXACT = 1e-8  # of the rise that is looked for
_BETTER = 1e-6  # of the rise for one standard error: a fit so much better is another one


def check_profiled(objective: Objective) -> None:
    """Raise OptionError for an objective whose profiles mean nothing."""
    if objective.is_network:
        raise OptionError("profile: the parameters of a network have no intervals, since its units can change places")
    if objective.kind not in (LossKind.SQUARES, LossKind.LIKELIHOOD) or objective.classes is not None:
        what = "classes" if objective.classes is not None else f"the loss {objective.loss or 'of this model'}"
        raise OptionError(f"profile needs least squares or a likelihood, not {what}; bootstrap needs neither")
    if objective.is_penalised:
        raise OptionError("profile: with a penalty on the parameters there is no likelihood; bootstrap needs none")
    if objective.layout.size > _MOST:
        raise OptionError(
            f"profile is for at most {_MOST} parameters, not {objective.layout.size}; bootstrap has no limit"
        )


@dataclass(slots=True)
class Profiles:
    """The ends of all intervals.

    Attributes:
        low, high: of shape (P,); infinite where the fit never gets that much worse, nan where nothing is known.
        said: a sentence for each end that is none of the usual.
    """

    low: Array
    high: Array
    said: list[str] = field(default_factory=list)


def profiles(objective: Objective, theta: Array, fit: FittedModel) -> Profiles:
    """The profile intervals of all free numbers around the fit that ended at `theta`, at the level of the fit."""
    found = Profiles(np.full(len(theta), math.nan), np.full(len(theta), math.nan))
    rise = fit.quantile()
    unit = _unit(objective, fit)
    if not (unit > 0 and math.isfinite(rise)):
        found.said.append("no profile intervals: there is no standard deviation to measure by")
        return found
    with quiet():
        for place in range(len(theta)):
            profile = _Profile(objective, theta, fit, place, unit)
            found.low[place], found.high[place] = profile.ends(rise)
            found.said += profile.said
    return found


def _unit(objective: Objective, fit: FittedModel) -> float:
    """What `_badness` rises by for one standard error: 1 where it is twice a log-likelihood."""
    if objective.kind is LossKind.SQUARES:
        if fit.interval_dof is None:
            return 1.0
        return math.nan if fit.rss is None or fit.dof <= 0 else fit.rss / fit.dof
    return 1.0 if fit.figures.dispersion is None else fit.figures.dispersion


def _badness(objective: Objective, theta: Array) -> float:
    """The sum of squares, or minus twice the log-likelihood, but for a constant."""
    if objective.kind is LossKind.SQUARES:
        return float(np.sum(np.square(objective.triangle(theta)[:, -1])))
    return 2 * objective.value(theta) * objective.total_weight * objective.components


class _Profile:
    """The profile of one number: the root of what the best fit with it held is worse, in standard errors."""

    def __init__(self, objective: Objective, theta: Array, fit: FittedModel, place: int, unit: float) -> None:
        self._objective, self._theta, self._place, self._unit = objective, theta, place, unit
        self._name = objective.layout.numbers[place]
        self._least = _badness(objective, theta)
        self._covariance = fit.covariance[place]
        self._solved: dict[float, Array] = {float(theta[place]): theta}  # the best points met, by the value held
        self.said: list[str] = []

    def ends(self, rise: float) -> tuple[float, float]:
        """Where the profile has risen so far, on either side; nan for both if a better fit stands there."""
        low = self.end(-1, rise)
        high = low if math.isnan(low) else self.end(1, rise)
        return (math.nan, math.nan) if math.isnan(high) else (low, high)

    def end(self, side: int, rise: float) -> float:
        """Where the profile has risen so far, below (-1) or above (1); the bound if that comes first."""
        begun = float(self._theta[self._place])
        bounds = self._objective.bounds
        limit = float((bounds.low if side < 0 else bounds.high)[self._place])
        if begun == limit:
            return limit
        inner, inner_rise = begun, 0.0
        step = rise * self._error()
        for _ in range(_STEPS):
            outer = begun + side * step if side * (begun + side * step) < side * limit else limit
            outer_rise = self._risen(outer)
            if math.isnan(outer_rise):
                return math.nan
            if outer_rise >= rise:
                return self._between(inner, inner_rise, outer, outer_rise, rise)
            if outer == limit:
                words = f"the profile of `{self._name}` ends at its bound, {limit:g}, before its level is reached"
                self.said.append(words)
                return limit
            inner, inner_rise = outer, outer_rise
            step *= min(2.0, max(1.1, 1.05 * rise / outer_rise)) if outer_rise > 0 else 2.0
        self.said.append(
            f"the data set no {'lower' if side < 0 else 'upper'} end to `{self._name}`: its profile is flat"
        )
        return side * math.inf

    def _error(self) -> float:
        variance = float(self._covariance[self._place])
        return math.sqrt(variance) if variance > 0 else 0.1 * abs(float(self._theta[self._place])) or 1.0

    def _between(self, inner: float, inner_rise: float, outer: float, outer_rise: float, rise: float) -> float:
        """Close in on where the profile has a height: by secants of a curve that is nearly straight, else by halves."""
        for _ in range(_ROUNDS):
            slope = (outer_rise - inner_rise) / (outer - inner)
            middle = inner + (rise - inner_rise) / slope if math.isfinite(slope) and slope else math.nan
            share = (middle - inner) / (outer - inner)
            if not 0.02 < share < 0.98:
                middle = inner + (outer - inner) * (0.5 if math.isnan(share) else min(max(share, 0.02), 0.98))
            if middle in (inner, outer):
                break
            height = self._risen(middle)
            if math.isnan(height) or abs(height - rise) <= _EXACT * rise:
                return middle if not math.isnan(height) else math.nan
            if height < rise:
                inner, inner_rise = middle, height
            else:
                outer, outer_rise = middle, height
        return inner

    def _risen(self, value: float) -> float:
        """The profile at a value: infinite where the model is not defined, nan where a better fit is found."""
        nearest = min(self._solved, key=lambda met: abs(met - value))
        bounds = self._objective.bounds.pinned(self._place, value)
        starts = [bounds.clipped(self._foreseen(nearest, value)), bounds.clipped(self._solved[nearest])]
        for start in starts:
            theta = _refitted(self._objective, start, bounds)
            if theta is not None:
                break
        else:
            return math.inf
        self._solved[value] = theta
        worse = (_badness(self._objective, theta) - self._least) / self._unit
        if worse < -_BETTER:
            self.said.append(
                f"no profile interval of `{self._name}`: with {self._name} = {value:.6g} there is a better fit than "
                "this one; begin there, or try --starts"
            )
            return math.nan
        return math.sqrt(max(worse, 0.0))

    def _foreseen(self, nearest: float, value: float) -> Array:
        """Where the others may be best, by how they hang together with this one."""
        point = self._solved[nearest]
        variance = self._covariance[self._place]
        moves = np.where(np.isfinite(self._covariance), self._covariance, 0.0)
        moved: Array = point + (value - nearest) * moves / variance if variance > 0 else point
        return moved


def _refitted(objective: Objective, start: Array, bounds: Bounds) -> Array | None:
    """Where a fit with one number held ends; None where the model is not defined."""
    last: list[Epoch] = []
    try:
        method = levenberg_marquardt if objective.kind is LossKind.SQUARES else lbfgs_with_corners
        outcome = method(objective, start, last.append, bounds=bounds)
    except Diverged:
        return None
    return outcome.theta if np.isfinite(outcome.theta).all() else None
