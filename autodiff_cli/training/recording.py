"""The course of a fit: its epochs with their parameters, thinned to so many as a page can show."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.methods.loop import Epoch
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.result.fit import FittedModel

MOST_EPOCHS = 200
_MOST_NUMBERS = 100_000  # of parameters, over all epochs
_LARGEST = 20_000  # numbers of the parameters of one epoch


@dataclass(slots=True)
class Recorder:
    """Keeps the epochs of a fit, the first and every n-th; n doubles as soon as they are more than `most`.

    >>> recorder = Recorder(most=4)
    >>> for number in range(11):
    ...     recorder.add(Epoch(number, 1 / (number + 1), np.zeros(1)))
    >>> [epoch.number for epoch in recorder.epochs]
    [0, 4, 8]
    """

    most: int = MOST_EPOCHS
    epochs: list[Epoch] = field(default_factory=list, init=False)
    last: Epoch | None = field(default=None, init=False)
    _stride: int = field(default=1, init=False)
    _count: int = field(default=0, init=False)

    @classmethod
    def of(cls, objective: Objective) -> Recorder:
        """One for an objective. Raises OptionError if that has too many parameters for a page."""
        size = objective.layout.size
        if size > _LARGEST:
            raise OptionError(f"a page shows the parameters of every epoch: {size} numbers are more than {_LARGEST}")
        return cls(max(2, min(MOST_EPOCHS, _MOST_NUMBERS // max(size, 1))))

    def add(self, epoch: Epoch) -> None:
        """An epoch has passed; with number 0 the fit begins anew."""
        if epoch.number == 0:
            self.epochs.clear()
            self._stride, self._count = 1, 0
        if self._count % self._stride == 0:
            self.epochs.append(epoch)
            if len(self.epochs) > self.most:
                self.epochs = self.epochs[::2]
                self._stride *= 2
        self._count += 1
        self.last = epoch

    def course(self, objective: Objective, fit: FittedModel) -> list[Epoch]:
        """The epochs kept, then where the fit ended, if that is somewhere else."""
        found = [*self.epochs]
        if self.last is not None and found[-1].number != self.last.number:
            found.append(self.last)
        theta = objective.layout.gather([fit.parameters[name] for name in objective.parameters])
        if not found or not np.array_equal(found[-1].theta, theta):
            end = Epoch(fit.epochs, fit.loss, theta)
            is_same = bool(found) and np.allclose(found[-1].theta, theta, rtol=1e-6, atol=1e-12)
            found[-1:] = [dataclasses.replace(found[-1], theta=theta)] if is_same else [*found[-1:], end]
        del found[1 : 1 + max(0, len(found) - self.most)]
        return found
