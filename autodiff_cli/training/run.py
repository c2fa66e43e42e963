"""One optimization: which method runs, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.methods.loop import Diverged, Epoch, Outcome, full_batch, mini_batches
from autodiff_cli.training.methods.optimizers import OPTIMIZERS
from autodiff_cli.training.objective.losses import LossKind
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
_MATRIX = 5000  # parameters, at most, of lm


def chosen(options: MethodOptions, objective: Objective) -> str:
    """The optimizer that runs. Raises OptionError if it does not fit the objective."""
    squares = objective.kind is LossKind.SQUARES
    if options.optimizer == "lm" and not squares:
        raise OptionError("lm minimises squares of residuals: it needs a model `target ~ prediction`, and the loss mse")
    if options.optimizer == "lm" and objective.layout.size > _MATRIX:
        raise OptionError(
            f"lm works on a matrix of all pairs of parameters: {objective.layout.size} are too many; try adam"
        )
    if options.optimizer != "auto":
        return options.optimizer
    if options.batch_size is not None or objective.is_network:
        return "adam"
    return "lm" if squares and objective.layout.size <= MOST else "lbfgs"


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
            f"diverged: {error}; the parameters are those of epoch {error.epoch - 1}. "
            f"A smaller learning rate (--lr, now {_rate(options):g}) may help"
        )
        return Outcome(progress.reached.theta, False, explained)
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


def _run(method: str, objective: Objective, options: MethodOptions, progress: Progress) -> Outcome:
    if method == "lm":
        return least_squares(objective, options, progress)
    if method == "lbfgs":
        return smooth(objective, options, progress)
    for epoch in _epochs(method, objective, options):
        progress.record(epoch)
    return Outcome(progress.reached.theta, has_settled([record["loss"] for record in progress.history]))


def _epochs(method: str, objective: Objective, options: MethodOptions) -> Iterator[Epoch]:
    update, rate = OPTIMIZERS[method], _rate(options)
    epochs = EPOCHS if options.epochs is None else options.epochs
    if options.batch_size is None:
        return full_batch(objective, update, rate, objective.start, epochs)
    return mini_batches(objective, update, rate, objective.start, epochs, options.batch_size, options.seed)


def _rate(options: MethodOptions) -> float:
    return LEARNING_RATE if options.learning_rate is None else options.learning_rate


def _not_begun(error: Diverged, objective: Objective) -> str:
    where = undefined(objective, objective.start)
    if where is None:
        return f"{error}: residuals are too large for their squares; divide the data, or begin elsewhere"
    return f"{error}: {where}; {where.advice}"
