"""Losses that are no sums of squares, by L-BFGS; robust ones with the scale of the residuals, estimated along."""

from __future__ import annotations

import contextlib
import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.training.methods.loop import Diverged, Epoch, Observer, Outcome
from autodiff_cli.training.methods.quasi_newton import lbfgs_with_corners
from autodiff_cli.training.methods.starts import from_units, nearer, search
from autodiff_cli.training.objective.losses import L1, LossKind
from autodiff_cli.training.objective.meanings import without_end
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import MethodOptions
from autodiff_cli.training.progress import Progress
from autodiff_cli.training.result.residuals import OUTLYING, are_systematic, robust_scale
from autodiff_cli.training.result.separation import has_no_end
from autodiff_cli.training.result.statistics import statistics
from autodiff_cli.training.squares import CLEARLY, POOR, better_starts, doubt, explained_share, guessed, starts

Array = NDArray[np.float64]

_OF_RESIDUALS = (LossKind.SQUARES, LossKind.ROBUST)
_ROUNDS = 200  # of fitting and measuring the scale again
_SAME = 1e-9  # the relative change of a scale that counts as none
_HELD = 1 - 1e-6  # of the slope of a penalty, at most, that a parameter at its corner feels
_POOR = 0.95  # R² by medians below which default starts are not trusted: these think better of bad fits than means do
_ODD = 2.5  # standard errors from chance that residuals follow the predictor: enough to look elsewhere
_SORTED = 200_000  # rows, at most, that a search without some of them is worth its while for
_PLAIN = 20  # parameters, at most, that are tried alone
_NOTHING = 1e-12  # of the spread of the target: no scale at all


def smooth(objective: Objective, options: MethodOptions, progress: Progress) -> Outcome:
    """Minimise the loss of a model, whatever it is; again from values found in the data if it ends badly.

    Raises:
        Diverged: if the loss is not defined at the start.
    """
    first: Outcome | Diverged
    searches = options.epochs is None and options.starts is None and objective.has_residuals and guessed(objective)
    free = objective.layout.mask(guessed(objective))
    begun = None
    try:
        if searches and not objective.is_generalised_linear:
            begun = _in_units(objective, free, options.seed)
        if begun is not None:
            progress.warnings.append(f"begun at values that the columns suggest: {starts(objective, begun)}")
        first = minimised(objective, _defined(objective) if begun is None else begun, options, progress)
    except Diverged as error:
        first = error
    if _is_likelihood_without_end(objective, options, first) and (plain := _plain(objective)) is not None:
        progress.warnings.append(f"the starting values led to no fit; begun anew at {starts(objective, plain)}")
        first = minimised(objective, plain, options, progress)
    if searches:
        first = _searched(objective, first, options, progress)
    if isinstance(first, Diverged):
        raise first
    outcome = first
    if objective.kind in _OF_RESIDUALS:
        doubt(objective, progress, outcome)
    if outcome.is_nowhere and has_no_end(objective, outcome.theta):
        return dataclasses.replace(outcome, failure="")
    if not outcome.is_endless:
        return outcome
    hint = without_end(objective.model)
    return dataclasses.replace(outcome, failure=f"{outcome.failure}. {hint}" if hint else outcome.failure)


def _in_units(objective: Objective, free: NDArray[np.bool_], seed: int) -> Array | None:
    """Where least squares get from a start of the sizes that the columns give to parameters, or from the given start,
    if that is better; None where these sizes are about 1."""
    found = from_units(objective, objective.start, free, seed, objective.bounds)
    if found is None:
        return None
    other = nearer(objective, objective.start)
    return other if objective.rss(other) < objective.rss(found.end) else found.end


def _is_likelihood_without_end(objective: Objective, options: MethodOptions, first: Outcome | Diverged) -> bool:
    if isinstance(first, Outcome) and (not first.failure or first.is_endless or has_no_end(objective, first.theta)):
        return False
    return objective.kind is LossKind.LIKELIHOOD and options.epochs is None and options.starts is None


def _plain(objective: Objective) -> Array | None:
    """The best of the plainest starts, where what nobody gave is 0, or 0 but for one; None where none is defined.

    There a link of a sum of columns is that of a constant, whatever the size of the columns.
    """
    places = np.flatnonzero(objective.layout.mask(guessed(objective)))
    at_0 = objective.start.copy()
    at_0[places] = 0.0
    best: tuple[float, Array] | None = None
    for place in (None, *places[:_PLAIN]):
        theta = at_0.copy()
        if place is not None:
            theta[place] = 1.0
        theta = objective.bounds.clipped(theta)
        loss = objective.value(theta) if _is_defined(objective, theta) else math.inf
        if loss < (math.inf if best is None else best[0]):
            best = loss, theta
    return None if best is None else best[1]


def _defined(objective: Objective) -> Array:
    """Where to begin: at 0 with what nobody gave, where the loss has one minimum and is out of range at the start, as
    that of `exp(a + b*x)` is for large x."""
    start = objective.start
    if not objective.is_generalised_linear or _is_defined(objective, start):
        return start
    at_0 = objective.bounds.clipped(np.where(objective.layout.mask(guessed(objective)), 0.0, start))
    return at_0 if _is_defined(objective, at_0) else start


def _is_defined(objective: Objective, theta: Array) -> bool:
    loss, gradient = objective.value_and_grad(theta)
    return math.isfinite(loss) and bool(np.isfinite(gradient).all())


def _ends_badly(objective: Objective, first: Outcome | Diverged) -> bool:
    """Whether another start may lead elsewhere."""
    if isinstance(first, Diverged) or not first.converged or are_systematic(objective, first.theta, _ODD):
        return True
    if objective.kind not in _OF_RESIDUALS or objective.is_penalised:
        return False
    explained = explained_share(objective, first.theta)
    enough = _POOR if objective.kind is LossKind.ROBUST else POOR
    return bool(statistics(objective, first.theta).reasons) or (explained is not None and explained < enough)


def _searched(
    objective: Objective, first: Outcome | Diverged, options: MethodOptions, progress: Progress
) -> Outcome | Diverged:
    """Where values found in the data lead to, if a fit ends badly and that is clearly better.

    Robust fits look once more without the rows that they count as far off.
    """
    free = objective.layout.mask(guessed(objective))
    some: Objective | None = objective
    while some is not None and _ends_badly(objective, first):
        found = search(some, objective.start, free, options.seed, objective.bounds)
        if found is not None and _is_better(objective, found.end, first, options):
            progress.warnings.append(better_starts(objective, found.end))
            first = minimised(objective, found.end, options, progress)
        some = _without_far_rows(objective, first) if some is objective else None
    return first


def _without_far_rows(objective: Objective, first: Outcome | Diverged) -> Objective | None:
    if objective.kind is not LossKind.ROBUST or objective.rows > _SORTED or isinstance(first, Diverged):
        return None
    sizes = np.abs(objective.per_row(objective.kernels.residuals, first.theta)).max(axis=0)
    near = sizes <= OUTLYING * robust_scale(objective, first.theta)
    return objective.restricted(np.flatnonzero(near)) if near.any() and not near.all() else None


def _is_better(objective: Objective, theta: Array, first: Outcome | Diverged, options: MethodOptions) -> bool:
    """Whether a fit leads on from a point to less than another one; of least squares the point itself is less."""
    if isinstance(first, Diverged):
        return True
    if objective.kind is LossKind.ROBUST and objective.is_scale_estimated:
        settings = dict(objective.settings)
        with contextlib.suppress(Diverged):
            theta = minimised(objective, theta, options, Progress(None)).theta
        objective.settings.update(settings)
    return _standing(objective, theta) < CLEARLY * _standing(objective, first.theta)


def _standing(objective: Objective, theta: Array) -> float:
    """What points are compared by; infinite where the loss is not defined."""
    of_residuals = objective.kind is LossKind.ROBUST
    found = robust_scale(objective, theta) if of_residuals else objective.value(theta)
    return found if math.isfinite(found) else math.inf


def minimised(objective: Objective, start: Array, options: MethodOptions, progress: Progress) -> Outcome:
    """One fit from one start, with the scale of residuals where a robust loss has to find it. Raises Diverged."""
    if objective.kind is LossKind.ROBUST and objective.is_scale_estimated:
        return _robust(objective, start, options, progress)
    box = objective.bounds
    outcome = lbfgs_with_corners(objective, start, progress.record, options.epochs, box, options.tolerance)
    return _with_zeros(objective, outcome)


def _with_zeros(objective: Objective, outcome: Outcome) -> Outcome:
    """The outcome with those parameters at 0 that a penalty `l1·|θ|` holds there: its slope is larger than that of
    the loss. With its corner rounded, they end next to it."""
    if not objective.settings[L1] or not outcome.converged:
        return outcome
    _, slopes = objective.without_penalty().value_and_grad(outcome.theta)
    held = np.abs(slopes) < _HELD * objective.settings[L1]
    theta = np.where(held, 0.0, outcome.theta)
    if not objective.bounds.contain(theta) or objective.value(theta) > objective.value(outcome.theta) * (1 + _SAME):
        return outcome
    return dataclasses.replace(outcome, theta=theta)


def _robust(objective: Objective, theta: Array, options: MethodOptions, progress: Progress) -> Outcome:
    """Fit and measure the scale by turns, until it is that of the residuals of the fit: Huber 1981, section 7.8.

    The objective keeps the scale that was found.
    """
    begun = 0
    outcome = Outcome(theta, False)
    spread = math.sqrt(objective.mean_of_squares(objective.target_variation()))
    for _ in range(_ROUNDS):
        scale = robust_scale(objective, theta)
        if scale <= _NOTHING * spread:
            progress.warnings.append(
                "at least half of the rows are fitted exactly, so that the residuals have no scale; --scale gives one"
            )
            return outcome if begun else Outcome(theta, True)
        if begun and abs(scale / objective.scale - 1) <= _SAME:
            break
        objective.set_scale(scale)
        left = None if options.epochs is None else options.epochs - begun
        reached: list[int] = []
        observe = _continued(progress.record, begun, reached)
        outcome = lbfgs_with_corners(objective, theta, observe, left, objective.bounds, options.tolerance)
        begun, theta = begun + reached[-1], outcome.theta
        if not outcome.converged:
            break
    return outcome


def _continued(observe: Observer, begun: int, reached: list[int]) -> Observer:
    """Tells epochs on with numbers that go on, and keeps their own."""

    def told(epoch: Epoch) -> None:
        reached.append(epoch.number)
        if epoch.number or not begun:
            observe(dataclasses.replace(epoch, number=begun + epoch.number))

    return told
