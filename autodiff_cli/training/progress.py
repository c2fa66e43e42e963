"""What has happened in a fit so far, epoch by epoch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from autodiff_cli.training.keeping.answers import Answers
from autodiff_cli.training.keeping.checkpoint import Kept
from autodiff_cli.training.keeping.keeper import Keeper
from autodiff_cli.training.methods.loop import Epoch, Listener, Observer, Outcome
from autodiff_cli.training.validation import Validation, standing


@dataclass(slots=True)
class Progress:
    """The epochs of a fit under way.

    Args:
        observe: is told the start and every epoch.
        validation: judges every epoch, and may end the fit.
        listen: is told how far an epoch is that takes long.
        keeper: writes checkpoints.
        kept: the checkpoint that the fit goes on from.

    Attributes:
        history: the records of the start and each epoch; begun anew when a better start is found.
        standings: what each of them is judged by: see `standing`.
        first, last: the epochs at its ends.
        best: the one with the least loss, over the rows held out if there are any.
        state: what a method that has a state leaves in a checkpoint.
        answers: what one leaves there that runs again.
        warnings: what happened on the way, as sentences.

    >>> import numpy as np
    >>> progress = Progress()
    >>> for number, loss in enumerate([3.0, 1.0, 2.0]):
    ...     progress.record(Epoch(number, loss, np.zeros(1)))
    >>> progress.last.loss, progress.best.number, [record["loss"] for record in progress.history]
    (2.0, 1, [3.0, 1.0, 2.0])
    """

    observe: Observer | None = None
    validation: Validation | None = None
    listen: Listener | None = None
    keeper: Keeper | None = None
    kept: Kept | None = None
    history: list[dict[str, float]] = field(default_factory=list, init=False)
    standings: list[float] = field(default_factory=list, init=False)
    first: Epoch | None = field(default=None, init=False)
    last: Epoch | None = field(default=None, init=False)
    best: Epoch | None = field(default=None, init=False)
    state: Callable[[], Kept] | None = field(default=None, init=False)
    answers: Answers | None = field(default=None, init=False)
    warnings: list[str] = field(default_factory=list, init=False)
    _told: int = field(default=0, init=False)

    @property
    def reached(self) -> Epoch:
        """The last epoch, of which there is one."""
        assert self.last is not None
        return self.last

    def record(self, epoch: Epoch) -> None:
        """An epoch has passed. Raises Exhausted if it is one too many without getting better: see `Validation`."""
        if epoch.number == 0:
            self.history.clear()
            self.standings.clear()
            self.first, self.best = None, None
        if self.validation is not None:
            epoch = self.validation.judged(epoch)
        self.history.append(epoch.record())
        self.standings.append(standing(epoch))
        self.first, self.last = self.first or epoch, epoch
        if self.best is None or standing(epoch) < standing(self.best):
            self.best = epoch
        self._told += 1
        if self.observe is not None and (self.kept is None or self._told >= self.kept.told):
            self.observe(epoch)
        if self.keeper is not None and (self.kept is None or self._told >= self.kept.told):
            self.keeper.passed(epoch.number, self._standing())
        if self.validation is not None:
            self.validation.check(epoch)

    def resume(self) -> None:
        """Begin with the epochs of the checkpoint, but the last, which the method tells of once more."""
        assert self.kept is not None
        kept = self.kept
        *epochs, last = (
            Epoch(int(number), loss, np.empty(0), None if math.isnan(judged) else judged)
            for number, loss, judged in kept.history.tolist()
        )
        self._told = len(epochs)
        for epoch in epochs:
            self.history.append(epoch.record())
            self.standings.append(standing(epoch))
            if self.validation is not None:
                self.validation.remember(epoch)
        if epochs:
            self.first = dataclasses.replace(epochs[0], theta=kept.first)
            self.best = dataclasses.replace([*epochs, last][kept.best_number], theta=kept.best)

    def end(self) -> None:
        """The fit has ended: keep what the last epoch left."""
        if self.keeper is None:
            return
        self.keeper.end()
        if self.keeper.failure:
            self.warnings.append(self.keeper.failure)
        self.keeper = None

    def _standing(self) -> Callable[[], Kept]:
        """What a checkpoint has of the fit: what changes now, what only grows when it is written."""
        told = self._told
        if self.state is None:
            answers = [] if self.answers is None else self.answers.kept
            known = len(answers)
            return lambda: Kept(told, answers=answers[:known])
        state, first, best, history, count = self.state(), self.first, self.best, self.history, len(self.history)
        assert first is not None
        assert best is not None

        def kept() -> Kept:
            rows = [[r["epoch"], r["loss"], r.get("validation_loss", math.nan)] for r in history[:count]]
            return dataclasses.replace(
                state, told=told, history=np.array(rows), first=first.theta, best=best.theta, best_number=best.number
            )

        return kept

    def restored(self, outcome: Outcome) -> Outcome:
        """The outcome at the epoch that was best for the rows held out, if the fit was to wait for one."""
        best = self.best
        if self.validation is None or not self.validation.restores:
            return outcome
        if outcome.failure or best is None or best.number == self.reached.number:
            return outcome
        least = f"{standing(best):.6g}"
        self.warnings.append(f"the parameters are those of epoch {best.number}, of the least validation loss: {least}")
        return Outcome(best.theta, outcome.converged)
