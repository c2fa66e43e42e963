"""What has happened in a fit so far, epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass, field

from autodiff_cli.training.methods.loop import Epoch, Listener, Observer, Outcome
from autodiff_cli.training.validation import Validation, standing


@dataclass(slots=True)
class Progress:
    """The epochs of a fit under way.

    Args:
        observe: is told the start and every epoch.
        validation: judges every epoch, and may end the fit.
        listen: is told how far an epoch is that takes long.

    Attributes:
        history: the records of the start and each epoch; begun anew when a better start is found.
        standings: what each of them is judged by: see `standing`.
        first, last: the epochs at its ends.
        best: the one with the least loss, over the rows held out if there are any.
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
    history: list[dict[str, float]] = field(default_factory=list, init=False)
    standings: list[float] = field(default_factory=list, init=False)
    first: Epoch | None = field(default=None, init=False)
    last: Epoch | None = field(default=None, init=False)
    best: Epoch | None = field(default=None, init=False)
    warnings: list[str] = field(default_factory=list, init=False)

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
        if self.observe is not None:
            self.observe(epoch)
        if self.validation is not None:
            self.validation.check(epoch)

    def restored(self, outcome: Outcome) -> Outcome:
        """The outcome at the epoch that was best for the rows held out, if the fit was to wait for one."""
        best = self.best
        if self.validation is None or not self.validation.restores:
            return outcome
        if outcome.failure or best is None or best is self.last:
            return outcome
        least = f"{standing(best):.6g}"
        self.warnings.append(f"the parameters are those of epoch {best.number}, of the least validation loss: {least}")
        return Outcome(best.theta, outcome.converged)
