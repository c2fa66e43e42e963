"""The loop of the gradient methods: one record per epoch, and no idea of a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.choice import backend
from autodiff_cli.backends.descent import Stepper, clipped
from autodiff_cli.backends.protocol import State
from autodiff_cli.backends.update import Update
from autodiff_cli.training.keeping.checkpoint import Kept
from autodiff_cli.training.methods.optimizers import HIGH, LOW, between_bounds
from autodiff_cli.training.methods.schedules import Schedule
from autodiff_cli.training.objective.objective import Objective

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Epoch:
    """Where a fit stands after an epoch: a pass over all rows, or a step of a method that sees all rows at once.

    Attributes:
        number: 0 is the start, before any step.
        loss: over all rows at `theta`; with mini-batches, the mean of the batches' losses during the epoch.
        theta: the free parameters, of shape (P,).
        validation_loss: over the rows held out, at `theta`; None if there are none.
    """

    number: int
    loss: float
    theta: Array
    validation_loss: float | None = None

    def record(self) -> dict[str, float]:
        """The epoch as a fit's history has it."""
        judged = {} if self.validation_loss is None else {"validation_loss": self.validation_loss}
        return {"epoch": self.number, "loss": self.loss, **judged}


Observer = Callable[[Epoch], None]


def unheard(_: Epoch) -> None:
    """The observer of a method that nobody is told of."""


@dataclass(frozen=True, slots=True)
class Underway:
    """Where a fit stands within an epoch that takes long.

    Attributes:
        number: of the epoch.
        part: of its rows that have been gone through.
        loss: the mean of the batches' losses so far.
    """

    number: int
    part: float
    loss: float


Listener = Callable[[Underway], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an optimization ended.

    Attributes:
        converged: whether it stopped because nothing more was to gain.
        failure: why it stopped, if that was neither convergence nor the number of epochs asked for; else empty.
        is_endless: whether that is because the loss falls without end.
        is_nowhere: whether it stopped where there is no minimum, and yet nothing lower was to be found.
        note: what is to be said of the point where it converged.
    """

    theta: Array
    converged: bool
    failure: str = ""
    is_endless: bool = False
    is_nowhere: bool = False
    note: str = ""


class Diverged(ArithmeticError):  # noqa: N818 - what happened
    """A loss that is nan or infinite, or has such a derivative.

    Attributes:
        epoch: the epoch during which it came up; 0 at the start.
        theta: where, if that is known.
    """

    def __init__(self, epoch: int, loss: float, theta: Array | None = None) -> None:
        what = "a derivative is not finite" if math.isfinite(loss) else f"the loss is {loss}"
        super().__init__(f"{what} {f'in epoch {epoch}' if epoch else 'at the start'}")
        self.epoch = epoch
        self.theta = theta


class Descending:
    """A gradient method under way.

    Args:
        update: its step.
        rates: the learning rate of each epoch.
        batch_size: rows per step, which each epoch draws anew by a generator seeded once; None for all.
        clip_norm: the length that a longer gradient is shortened to.
        listen: is told now and then how far an epoch is.

    Attributes:
        state: where it stands; with `generator`, all that decides how it goes on.
        number: of epochs passed.
    """

    def __init__(
        self,
        objective: Objective,
        update: Update,
        rates: Schedule,
        batch_size: int | None = None,
        clip_norm: float | None = None,
        seed: int = 0,
        listen: Listener | None = None,
    ) -> None:
        self._objective = objective
        self._rates = rates
        self._batch_size = batch_size
        self._clip_norm = clip_norm
        self._listen = listen
        self._update, self.state = _begun(objective, update)
        self.generator = np.random.default_rng(seed)
        self.number = 0
        self._loss: float | None = None  # of the epoch that it goes on from

    def kept(self) -> Kept:
        """What a checkpoint has of this."""
        return Kept(0, self.state.numbers.copy(), self.state.steps, self.generator.bit_generator.state)

    def resume(self, kept: Kept) -> None:
        """Go on from a checkpoint, whose last epoch is the first that is told of. Raises ValueError if it cannot be."""
        if (
            kept.numbers is None
            or kept.generator is None
            or kept.numbers.shape != self.state.numbers.shape
            or not len(kept.history)
        ):
            raise ValueError
        self.state.numbers[...] = kept.numbers
        self.state.steps = kept.steps
        self.generator.bit_generator.state = kept.generator
        self.number, self._loss = int(kept.history[-1, 0]), float(kept.history[-1, 1])

    def epochs(self, losses: Sequence[float]) -> Iterator[Epoch]:
        """The start, or where the method goes on, and every epoch until the last. Raises Diverged.

        Args:
            losses: of all epochs so far, a list that grows, for schedules that look at them.
        """
        return self._by_epoch(losses) if self._batch_size is None else self._by_batch(self._batch_size, losses)

    def _by_epoch(self, losses: Sequence[float]) -> Iterator[Epoch]:
        """One step per epoch, on the gradient over all rows."""
        state, stepper = self.state, Stepper(backend(), self._update)
        loss, gradient = self._objective.value_and_grad(state.theta)
        yield self._reached(loss)
        while self.number < self._rates.epochs:
            rate = self._rates.rate(self.number + 1, losses)
            stepper.step(state, rate, clipped(gradient, self._clip_norm))
            loss, gradient = self._objective.value_and_grad(state.theta)
            self.number += 1
            yield self._reached(loss)

    def _by_batch(self, size: int, losses: Sequence[float]) -> Iterator[Epoch]:
        """One step per batch."""
        run = self._objective.epochs(self._update, self._clip_norm)
        yield self._reached(self._objective.value(self.state.theta) if self._loss is None else self._loss)
        while self.number < self._rates.epochs:
            rate = self._rates.rate(self.number + 1, losses)
            loss = run(self.state, rate, size, self.generator, None if self._listen is None else self._tell)
            self.number += 1
            yield self._reached(loss)

    def _tell(self, part: float, loss: float) -> None:
        assert self._listen is not None
        self._listen(Underway(self.number + 1, part, loss))

    def _reached(self, loss: float) -> Epoch:
        epoch = Epoch(self.number, loss, self.state.theta.copy())
        if not (math.isfinite(epoch.loss) and np.isfinite(epoch.theta).all()):
            raise Diverged(epoch.number, epoch.loss, epoch.theta)
        return epoch


def _begun(objective: Objective, update: Update) -> tuple[Update, State]:
    """The step of a method, between the bounds of the objective if it has some, and the state before the first."""
    bounds = objective.bounds
    if not bounds.are_there:
        return update, State.begun(objective.start, update)
    update = between_bounds(update)
    state = State.begun(objective.start, update)
    remembered = [*update.memory]
    state.numbers[1 + remembered.index(LOW)] = bounds.low
    state.numbers[1 + remembered.index(HIGH)] = bounds.high
    return update, state
