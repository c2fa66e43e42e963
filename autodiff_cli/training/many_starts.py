"""A fit from several starts, of which the best end is kept."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.training.methods.loop import Epoch, Outcome
from autodiff_cli.training.methods.starts import drawn_starts, nearer
from autodiff_cli.training.objective.losses import LossKind
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import MethodOptions
from autodiff_cli.training.progress import Progress
from autodiff_cli.training.result.residuals import robust_scale
from autodiff_cli.training.run import optimize
from autodiff_cli.training.validation import standing

Array = NDArray[np.float64]

_EPOCHS = 200  # of methods that run to convergence: from a bad start it may take thousands to get nowhere
_SAME = 1e-6  # the relative difference of two losses that count as one


class _Run(NamedTuple):
    objective: Objective
    outcome: Outcome
    progress: Progress
    epochs: list[Epoch]
    loss: float


def optimize_from_many(method: str, objective: Objective, options: MethodOptions, progress: Progress) -> Outcome:
    """Run a method from the start and from others that are drawn as the seed decides; see `optimize`.

    The best end is that of the least loss, over the rows held out if there are any. The observer is told its epochs.
    """
    if options.starts is None:
        return optimize(method, objective, options, progress)
    starts = [objective.start, *drawn_starts(objective, options.seed, options.starts - 1)]
    best: _Run | None = None
    losses = []
    further = options
    if options.epochs is None and method in ("lm", "lbfgs"):
        further = dataclasses.replace(options, epochs=_EPOCHS)
    for number, start in enumerate(starts):
        begun = objective.over(objective.data)
        begun.start = nearer(begun, start) if number and method == "lbfgs" else start
        epochs: list[Epoch] = []
        own = Progress(epochs.append, progress.validation)
        try:
            outcome = optimize(method, begun, further if number else dataclasses.replace(options, starts=None), own)
        except KeyboardInterrupt:
            _adopt(progress, objective, best or _Run(begun, Outcome(start, False), own, epochs, math.inf))
            raise
        run = _Run(begun, outcome, own, epochs, _loss(begun, outcome, own))
        losses.append(run.loss)
        if best is None or run.loss < best.loss:
            best = run
    assert best is not None
    _adopt(progress, objective, best)
    progress.warnings.append(_in_words(losses, best.loss))
    return best.outcome


def _loss(objective: Objective, outcome: Outcome, progress: Progress) -> float:
    """What ends are compared by; infinite for a fit that failed."""
    if outcome.failure or progress.last is None:
        return math.inf
    if progress.validation is not None and progress.best is not None:
        return standing(progress.best if progress.validation.restores else progress.last)
    if objective.kind is LossKind.ROBUST and objective.is_scale_estimated:
        return robust_scale(objective, outcome.theta)
    loss = objective.value(outcome.theta)
    return math.inf if math.isnan(loss) else loss


def _adopt(progress: Progress, objective: Objective, run: _Run) -> None:
    """Let a run be the one that is told of."""
    for name in ("history", "standings", "first", "last", "best"):
        setattr(progress, name, copy.copy(getattr(run.progress, name)))
    progress.warnings += run.progress.warnings
    objective.settings.update(run.objective.settings)
    if progress.observe is not None:
        for epoch in run.epochs:
            progress.observe(epoch)


def _in_words(losses: list[float], best: float) -> str:
    count = len(losses)
    if math.isinf(best):
        return f"none of {count} starts led to a fit"
    same = sum(loss <= best + _SAME * abs(best) for loss in losses)
    failed = sum(map(math.isinf, losses))
    others = [f"{count - same - failed} to worse ones"] * (count > same + failed) + [f"{failed} to none"] * (failed > 0)
    led = f"{same} of them led to this fit"
    first = "; the given one is not among these" if losses[0] > best + _SAME * abs(best) else ""
    return f"the best of {count} starts: {', '.join([led, *others])}{first}"
