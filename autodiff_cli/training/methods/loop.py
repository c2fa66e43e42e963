"""The loop of the gradient methods: one record per epoch, and no idea of a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.choice import backend
from autodiff_cli.backends.descent import Stepper
from autodiff_cli.backends.protocol import State
from autodiff_cli.backends.update import Update
from autodiff_cli.training.methods.optimizers import HIGH, LOW, between_bounds
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an optimization ended.

    Attributes:
        converged: whether it stopped because nothing more was to gain.
        failure: why it stopped, if that was neither convergence nor the number of epochs asked for; else empty.
        is_endless: whether that is because the loss falls without end.
    """

    theta: Array
    converged: bool
    failure: str = ""
    is_endless: bool = False


class Diverged(ArithmeticError):  # noqa: N818 - what happened
    """A loss that is nan or infinite, or has such a derivative.

    Attributes:
        epoch: the epoch during which it came up; 0 at the start.
    """

    def __init__(self, epoch: int, loss: float) -> None:
        what = "a derivative is not finite" if math.isfinite(loss) else f"the loss is {loss}"
        super().__init__(f"{what} {f'in epoch {epoch}' if epoch else 'at the start'}")
        self.epoch = epoch


def full_batch(objective: Objective, update: Update, rate: float, theta: Array, epochs: int) -> Iterator[Epoch]:
    """One step per epoch, on the gradient over all rows. Raises Diverged."""
    update, state = _begun(objective, theta, update)
    stepper = Stepper(backend(), update)
    loss, gradient = objective.value_and_grad(theta)
    for number in range(epochs + 1):
        if number:
            stepper.step(state, rate, gradient)
            loss, gradient = objective.value_and_grad(state.theta)
        yield _checked(Epoch(number, loss, state.theta.copy()))


def mini_batches(
    objective: Objective, update: Update, rate: float, theta: Array, epochs: int, size: int, seed: int
) -> Iterator[Epoch]:
    """One step per batch of `size` rows, which each epoch draws anew, by a generator seeded once. Raises Diverged."""
    generator = np.random.default_rng(seed)
    update, state = _begun(objective, theta, update)
    run = objective.epochs(update)
    yield _checked(Epoch(0, objective.value(theta), theta.copy()))
    for number in range(1, epochs + 1):
        loss = run(state, rate, size, generator)
        yield _checked(Epoch(number, loss, state.theta.copy()))


def _begun(objective: Objective, theta: Array, update: Update) -> tuple[Update, State]:
    """The step of a method, between the bounds of the objective if it has some, and the state before the first."""
    bounds = objective.bounds
    if not bounds.are_there:
        return update, State.begun(theta, update)
    update = between_bounds(update)
    state = State.begun(theta, update)
    remembered = [*update.memory]
    state.numbers[1 + remembered.index(LOW)] = bounds.low
    state.numbers[1 + remembered.index(HIGH)] = bounds.high
    return update, state


def _checked(epoch: Epoch) -> Epoch:
    if not (math.isfinite(epoch.loss) and np.isfinite(epoch.theta).all()):
        raise Diverged(epoch.number, epoch.loss)
    return epoch
