"""One optimization: which method runs, and how it ends."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.explaining import of_divergence
from autodiff_cli.training.keeping.answers import Answers
from autodiff_cli.training.methods.loop import Descending, Diverged, Outcome
from autodiff_cli.training.methods.optimizers import OPTIMIZERS
from autodiff_cli.training.methods.schedules import Schedule
from autodiff_cli.training.objective.losses import L1, LossKind
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.objective.undefined import undefined
from autodiff_cli.training.options import EPOCHS, LEARNING_RATE, MethodOptions
from autodiff_cli.training.progress import Progress
from autodiff_cli.training.result.statistics import MOST
from autodiff_cli.training.smooth import smooth
from autodiff_cli.training.squares import least_squares
from autodiff_cli.training.validation import Exhausted

Array = NDArray[np.float64]

_SETTLED = 1e-6  # of the loss, or of what it has fallen: a gradient method has converged where no more is to gain
_WAITED = 10  # epochs in which a loss is to move by more than the tolerance
_SCATTER = 4.0  # standard deviations between the least and the most of so many losses that scatter
_MATRIX = 5000  # parameters, at most, of lm


def chosen(options: MethodOptions, objective: Objective) -> str:
    """The optimizer that runs. Raises OptionError if it does not fit the objective."""
    squares = objective.kind is LossKind.SQUARES
    if options.optimizer == "lm" and not squares:
        raise OptionError("lm minimises squares of residuals: it needs a model `target ~ prediction`, and the loss mse")
    if options.optimizer == "lm" and objective.settings[L1]:
        raise OptionError("lm minimises sums of squares, and an l1 penalty is none: lbfgs takes it")
    if options.optimizer == "lm" and objective.layout.size > _MATRIX:
        raise OptionError(
            f"lm works on a matrix of all pairs of parameters: {objective.layout.size} are too many; try adam"
        )
    if options.optimizer != "auto":
        return options.optimizer
    if options.batch_size is not None or objective.is_network:
        return "adam"
    return "lm" if squares and not objective.settings[L1] and objective.layout.size <= MOST else "lbfgs"


def optimize(method: str, objective: Objective, options: MethodOptions, progress: Progress) -> Outcome:
    """Run a method to its end. A divergence is an outcome too, at the parameters before it."""
    try:
        outcome = _run(method, objective, options, progress)
    except Exhausted:
        outcome = Outcome(progress.reached.theta, True)
    except Diverged as error:
        if not progress.history:
            return Outcome(objective.start, False, _not_begun(error, objective))
        explained = (
            f"diverged: {error}{of_divergence(error, objective)}; the parameters are those of epoch {error.epoch - 1}. "
            f"A smaller learning rate (--lr, now {_rate(options):g}) may help"
        )
        return Outcome(progress.reached.theta, False, explained)
    finally:
        objective.answers = None
    return progress.restored(outcome)


def has_settled(losses: Sequence[float]) -> bool:
    """Whether a gradient method has hardly more to gain, as far as its losses tell, epoch by epoch.

    They may fall as a geometric series does; then the last two steps say how much is left. A small last step alone
    would say nothing: with a small learning rate all steps are small.

    >>> has_settled([1, 0.5, 0.25, 0.125]), has_settled([1, 1e-4, 1e-8, 1e-12]), has_settled([1, 1 - 1e-9, 1 - 2e-9])
    (False, True, False)
    """
    if len(losses) < 3:
        return False
    first, *_, before, middle, last = losses if len(losses) > 3 else (losses[0], *losses)
    fallen, falling = before - middle, middle - last
    if fallen == falling == 0:
        return True
    if not 0 <= falling < fallen:
        return False
    left = falling * falling / (fallen - falling)
    return left <= _SETTLED * max(abs(last), first - last)


def has_stalled(losses: Sequence[float], tolerance: float, *, drawn: bool) -> bool:
    """Whether the loss has stayed where it is for 10 epochs, to a share of it.

    Args:
        drawn: whether batches are drawn: then losses that scatter as much as neighbours do have stayed too.

    >>> has_stalled([1.0, *[0.5]*9], 1e-3, drawn=False), has_stalled([1.0, *[0.5]*10], 1e-3, drawn=False)
    (False, True)
    """
    last = np.array(losses[-_WAITED:])
    if len(last) < _WAITED:
        return False
    chance = math.sqrt(float(np.mean(np.square(np.diff(last, 2)))) / 6) if drawn else 0.0
    return float(np.ptp(last)) <= max(tolerance * abs(float(np.mean(last))), _SCATTER * chance)


def _run(method: str, objective: Objective, options: MethodOptions, progress: Progress) -> Outcome:
    if method not in OPTIMIZERS and (progress.keeper is not None or progress.kept is not None):
        objective.answers = progress.answers = Answers([] if progress.kept is None else progress.kept.answers)
    if method == "lm":
        return least_squares(objective, options, progress)
    if method == "lbfgs":
        return smooth(objective, options, progress)
    drawn = options.batch_size is not None
    descending = _descending(method, objective, options, progress)
    progress.state = descending.kept
    if progress.kept is not None:
        descending.resume(progress.kept)
        progress.resume()
    for epoch in descending.epochs(progress.standings):
        progress.record(epoch)
        if options.tolerance is not None and has_stalled(progress.standings, options.tolerance, drawn=drawn):
            return Outcome(epoch.theta, True)
    return Outcome(progress.reached.theta, has_settled([record["loss"] for record in progress.history]))


def _descending(method: str, objective: Objective, options: MethodOptions, progress: Progress) -> Descending:
    epochs = EPOCHS if options.epochs is None else options.epochs
    update, rates = OPTIMIZERS[method], Schedule(options.lr_schedule, _rate(options), epochs)
    size, longest = options.batch_size, options.clip_norm
    return Descending(objective, update, rates, size, longest, options.seed, progress.listen)


def _rate(options: MethodOptions) -> float:
    return LEARNING_RATE if options.learning_rate is None else options.learning_rate


def _not_begun(error: Diverged, objective: Objective) -> str:
    where = undefined(objective, objective.start)
    if where is None:
        return f"{error}: residuals are too large for their squares; divide the data, or begin elsewhere"
    return f"{error}: {where}; {where.advice}"
