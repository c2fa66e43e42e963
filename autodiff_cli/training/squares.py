"""Least squares, from where they are begun or from values found in the data."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.methods.least_squares import levenberg_marquardt
from autodiff_cli.training.methods.loop import Diverged, Outcome
from autodiff_cli.training.methods.starts import Found, from_units, search
from autodiff_cli.training.methods.waves import Waves
from autodiff_cli.training.objective.losses import LossKind
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.objective.structure import linear
from autodiff_cli.training.options import MethodOptions
from autodiff_cli.training.progress import Progress
from autodiff_cli.training.result.residuals import are_systematic, explained_robustly
from autodiff_cli.training.result.statistics import statistics

Array = NDArray[np.float64]

POOR = 0.9  # R² below which default starts are not trusted
_PERFECT = 0.999999  # R² above which no other start can help, if parameters are told apart
_EXACT = 1 - 1e-12  # R² above which none can help at all
_FEW = 4  # rows for each parameter
CLEARLY = 0.99  # of the loss: the most that another start may leave to be preferred


def least_squares(objective: Objective, options: MethodOptions, progress: Progress) -> Outcome:
    """Levenberg-Marquardt, and again from values found in the data if it ends badly.

    Raises:
        Diverged: if the loss is not defined at the start, and no better start is found.
    """
    first: Outcome | Diverged
    try:
        first = levenberg_marquardt(
            objective,
            objective.start,
            progress.record,
            options.epochs,
            bounds=objective.bounds,
            tolerance=options.tolerance,
        )
    except Diverged as error:
        first = error
    searches = options.epochs is None and options.starts is None
    if searches and (isinstance(first, Diverged) or _ends_badly(objective, first)):
        first = _from(search, objective, options, progress, first)
    elif searches and guessed(objective):
        first = _from(from_units, objective, options, progress, first)  # what fits well may be one row alone
    if isinstance(first, Diverged):
        raise first
    doubt(objective, progress, first)
    return first


def numbers(objective: Objective) -> list[str]:
    """The parameters that are numbers, for which other starts can be looked for."""
    return [name for name, shape in objective.layout.shapes.items() if not shape]


def guessed(objective: Objective) -> list[str]:
    """Those of them for which no start was given."""
    return [name for name in numbers(objective) if name not in objective.given]


def better_starts(objective: Objective, theta: Array) -> str:
    """What is said of starts that were found."""
    return f"the starting values led to a bad fit; better ones were found in the data: {starts(objective, theta)}"


def starts(objective: Objective, theta: Array) -> str:
    """The numbers that a fit begins with, for a sentence."""
    point = objective.point(theta)
    return ", ".join(f"{name} = {point[name]:.4g}" for name in numbers(objective))


def _from(
    find: Callable[..., Found | None],
    objective: Objective,
    options: MethodOptions,
    progress: Progress,
    first: Outcome | Diverged,
) -> Outcome | Diverged:
    """What a start found in the data leads to, if that is clearly better."""
    if not numbers(objective):
        return first
    free = objective.layout.mask(guessed(objective) or numbers(objective))
    found = find(objective, objective.start, free, options.seed, objective.bounds)
    loss = progress.last.loss if progress.last else math.inf
    if found is None or not objective.value(found.end) < CLEARLY * loss:
        return first
    return _again(objective, progress, found, options.tolerance)


def _again(objective: Objective, progress: Progress, found: Found, tolerance: float | None) -> Outcome:
    """From a start found in a sample of the rows; from its end, should all of the rows lead elsewhere."""
    progress.warnings.append(better_starts(objective, found.start))
    box = objective.bounds
    outcome = levenberg_marquardt(objective, found.start, progress.record, bounds=box, tolerance=tolerance)
    if progress.reached.loss <= objective.value(found.end) / CLEARLY:
        return outcome
    return levenberg_marquardt(objective, found.end, progress.record, bounds=box, tolerance=tolerance)


def _ends_badly(objective: Objective, outcome: Outcome) -> bool:
    found = statistics(objective, outcome.theta)
    explained = found.r_squared
    if found.dof <= 0 or explained is None or explained > _EXACT:
        return False
    if found.reasons and outcome.converged and not objective.is_penalised:
        return True  # equal starts of parameters that could change places keep them equal
    if explained > _PERFECT:
        return False
    return not outcome.converged or (bool(guessed(objective)) and (explained < POOR or _leaves_waves_open(objective)))


def _leaves_waves_open(objective: Objective) -> bool:
    """Whether there are so few rows that waves of several frequencies may go through them."""
    few = objective.rows * objective.components <= _FEW * objective.layout.size
    return few and any(True for _ in Waves(objective).scans(objective.start, 1, 1))


def explained_share(objective: Objective, theta: Array) -> float | None:
    """R², of robust fits the one of medians."""
    if objective.kind is LossKind.ROBUST:
        with quiet():
            return explained_robustly(objective, theta)
    return statistics(objective, theta).r_squared


def doubt(objective: Objective, progress: Progress, outcome: Outcome) -> None:
    """Say so if a fit explains little of what there is to explain."""
    explained = explained_share(objective, outcome.theta)
    if outcome.failure or explained is None or not explained < POOR:
        return
    what = "what it leaves is not random"
    if not are_systematic(objective, outcome.theta):
        if not guessed(objective) or not _leaves_waves_open(objective):
            return
        what = "so few rows leave open which frequency is right"
    share = f"{100 * max(explained, 0):.2g} % of the target's variation"
    model, names = objective.model, objective.parameters
    leaves = [model.program.leaves[name] for name in names]
    is_linear = len(linear(model.program.output, leaves, model.shapes)) == len(names)
    other = "Another model" if is_linear else "Other starting values, or another model,"
    progress.warnings.append(f"this fit is doubtful: it explains {share}, and {what}. {other} may do better")
