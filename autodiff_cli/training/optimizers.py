"""The gradient methods, the learning-rate schedules, and the record of an epoch.

`OPTIMIZERS` holds the gradient methods. Each is one update step, written as a graph for a single number among the
parameters. A backend runs the graph over whole vectors, or compiles it together with the gradient.
`LearningRateSchedule` varies the learning rate from epoch to epoch.

This module does not import NumPy, because the command line reads it at start-up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from autodiff_cli.backends.protocol import GRADIENT, RATE, STEP, THETA, Update
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.tape import substitute
from autodiff_cli.ops.arithmetic import clip
from autodiff_cli.ops.functions import expm1, sqrt, square
from autodiff_cli.options import OptionError, unknown_choice

if TYPE_CHECKING:
    from autodiff_cli.array_types import Array

_THETA, _GRADIENT, _RATE, _STEP = map(variable, (THETA, GRADIENT, RATE, STEP))

FIRST_MOMENT_DECAY = 0.9  # decay per step of the moving average of gradients and of the velocity; the usual value
SECOND_MOMENT_DECAY = 0.999  # decay per step of the moving average of squared gradients in adam (Kingma & Ba 2015)
LOWER_BOUND, UPPER_BOUND = "low", "high"  # accumulators of a projected method that hold the bounds
EPSILON = 1e-8  # added to the root mean square, so that no step is divided by 0
WEIGHT_DECAY = 0.01  # weight decay of adamw, per step and unit of learning rate; its authors' default


class _EpochLoss(TypedDict):
    """The number of an epoch and the loss after it."""

    epoch: int
    loss: float


class EpochRecord(_EpochLoss, total=False):
    """An epoch in the history of a fit; it has a validation loss if rows were held out."""

    validation_loss: float


@dataclass(frozen=True, slots=True)
class Epoch:
    """The state of a fit after an epoch: a pass over all rows, or one step of a method that uses all rows at once.

    Attributes:
        number: the number of the epoch; 0 is the start, before any step.
        loss: the mean loss over all rows at `theta`; with mini-batches, the mean loss of the batches during the epoch.
        theta: the free parameters, of shape (P,).
        validation_loss: the loss over the validation rows at `theta`; None if there are none.
    """

    number: int
    loss: float
    theta: Array
    validation_loss: float | None = None

    def history_record(self) -> EpochRecord:
        """Return the epoch as an entry of a fit's `history`."""
        record: EpochRecord = {"epoch": self.number, "loss": self.loss}
        return record if self.validation_loss is None else {**record, "validation_loss": self.validation_loss}


EpochCallback = Callable[[Epoch], None]


def _momentum() -> Update:
    """Heavy-ball momentum (Polyak 1964)."""
    velocity = FIRST_MOMENT_DECAY * variable("velocity") + _GRADIENT
    return Update(_THETA - _RATE * velocity, {"velocity": velocity})


def _nesterov() -> Update:
    """Nesterov's accelerated gradient (Nesterov 1983), in the form of Bengio et al. 2013, eq. 7."""
    velocity = FIRST_MOMENT_DECAY * variable("velocity") + _GRADIENT
    return Update(_THETA - _RATE * (_GRADIENT + FIRST_MOMENT_DECAY * velocity), {"velocity": velocity})


def _adagrad() -> Update:
    """AdaGrad: each parameter's rate falls with the sum of its squared gradients (Duchi, Hazan & Singer 2011)."""
    total = variable("total") + square(_GRADIENT)
    return Update(_THETA - _RATE * _GRADIENT / (sqrt(total) + 1e-10), {"total": total})


def _rmsprop() -> Update:
    """RMSProp: AdaGrad with a moving average in place of the sum (Hinton 2012, Coursera, lecture 6e)."""
    squares = _moving_average("square", square(_GRADIENT), FIRST_MOMENT_DECAY)
    return Update(_THETA - _RATE * _GRADIENT / (sqrt(squares) + EPSILON), {"square": squares})


def _adam(theta: Node = _THETA) -> Update:
    """Adam, with bias correction (Kingma & Ba 2015, arXiv 1412.6980, algorithm 1)."""
    mean = _moving_average("mean", _GRADIENT, FIRST_MOMENT_DECAY)
    squares = _moving_average("square", square(_GRADIENT), SECOND_MOMENT_DECAY)
    rate = _RATE / _bias_correction(FIRST_MOMENT_DECAY)
    root = sqrt(squares) / sqrt(_bias_correction(SECOND_MOMENT_DECAY)) + EPSILON
    return Update(theta - rate * (mean / root), {"mean": mean, "square": squares})


def _moving_average(name: str, new: Node, decay: float) -> Node:
    """The exponential moving average of `new`, remembered under `name`."""
    return decay * variable(name) + (1 - decay) * new


def _bias_correction(decay: float) -> Node:
    """The weight `1 - decay**step` of the gradients in a moving average that began at 0.

    It is computed by `expm1`, which takes half of the time of a power.
    """
    return -expm1(_STEP * math.log(decay))


OPTIMIZERS: dict[str, Update] = {
    # Gradient descent (Cauchy 1847); on batches, stochastic gradient descent (Robbins & Monro 1951)
    "sgd": Update(_THETA - _RATE * _GRADIENT),
    "momentum": _momentum(),
    "nesterov": _nesterov(),
    "adagrad": _adagrad(),
    "rmsprop": _rmsprop(),
    "adam": _adam(),
    # Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv 1711.05101)
    "adamw": _adam(_THETA * (1 - _RATE * WEIGHT_DECAY)),
}


PLAIN_METHODS = ("sgd", "momentum", "nesterov")  # their steps are proportional to the gradient


def divide_gradients(update: Update, unit: float) -> Update:
    """Return the update for gradients in another unit of the loss, so that `EPSILON` is small in any unit."""
    roots = [update.theta, *update.accumulators.values()]
    theta, *others = substitute(roots, {_GRADIENT: _GRADIENT / (unit or 1.0)})
    return Update(theta, dict(zip(update.accumulators, others, strict=True)))


def project_onto_bounds(update: Update) -> Update:
    """Return the update followed by projection onto the bounds (projected gradients, Goldstein 1964).

    The bounds of each number are accumulators named `LOWER_BOUND` and `UPPER_BOUND`, so the clipped step is still one
    graph for any backend.
    """
    low, high = variable(LOWER_BOUND), variable(UPPER_BOUND)
    return Update(clip(update.theta, low, high), {**update.accumulators, LOWER_BOUND: low, UPPER_BOUND: high})


_PLATEAU_THRESHOLD = 1e-4  # relative decrease of the loss below which an epoch counts as part of a plateau

# Of each schedule the syntax, the defaults of its numbers (a number of epochs, and a factor), and the share of the
# initial rate as a function of the schedule, the number of epochs done, the losses, and these numbers.
SCHEDULES: dict[str, tuple[str, tuple[float, ...], Callable[..., float]]] = {
    "constant": ("constant", (), lambda *_: 1.0),
    "cosine": ("cosine", (), lambda own, done, _: (1 + math.cos(math.pi * done / own.epochs)) / 2),
    "step": ("step[:EPOCHS[:FACTOR]]", (30, 0.1), lambda own, done, _, epochs, factor: factor ** (done // int(epochs))),
    "exponential": ("exponential[:FACTOR]", (0.95,), lambda own, done, _, factor: factor**done),
    "plateau": ("plateau[:EPOCHS[:FACTOR]]", (10, 0.1), lambda own, _, *rest: own._plateau_share(*rest)),
}


@dataclass(slots=True)
class LearningRateSchedule:
    """The learning rate as a function of the epoch.

    - `constant`: the initial rate.
    - `cosine`: falls to 0 over all epochs along half a cosine (Loshchilov & Hutter 2017, arXiv 1608.03983, without
      restarts).
    - `step`: is multiplied by the factor every given number of epochs.
    - `exponential`: is multiplied by the factor after every epoch.
    - `plateau`: is multiplied by the factor when the loss has not fallen by 0.01 % for the given number of epochs. It
      watches the validation loss if there is one.

    Args:
        text: the name of the schedule and its numbers, separated by colons, such as `step:30:0.1`.
        initial_rate: the rate of the first epoch.
        epochs: the number of epochs of the fit.

    Raises:
        OptionError: for an unknown schedule, or for numbers that it does not take.

    >>> cosine = LearningRateSchedule("cosine", 0.1, 100)
    >>> cosine.rate(1, []), cosine.rate(51, [])
    (0.1, 0.05)
    >>> LearningRateSchedule("step:2:0.5", 1.0, 9).rate(5, [])
    0.25
    >>> LearningRateSchedule("plateau:2:0.5", 1.0, 9).rate(4, [1.0, 0.5, 0.6, 0.5])
    0.5
    """

    text: str
    initial_rate: float
    epochs: int
    _name: str = field(init=False)
    _numbers: tuple[float, ...] = field(init=False)
    _losses_read: int = field(default=0, init=False)  # number of losses that were examined for a plateau
    _best_loss: float = field(default=math.inf, init=False)
    _epochs_waited: int = field(default=0, init=False)
    _reductions: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._name, self._numbers = parse_schedule(self.text)

    def rate(self, number: int, losses: Sequence[float]) -> float:
        """Return the learning rate of an epoch.

        Args:
            number: the number of the epoch; 1 is the first.
            losses: the losses at the start and after every epoch before this one.
        """
        _, _, share = SCHEDULES[self._name]
        return self.initial_rate * share(self, number - 1, losses, *self._numbers)

    def _plateau_share(self, losses: Sequence[float], epochs: float, factor: float) -> float:
        for loss in losses[self._losses_read :]:
            if loss < self._best_loss - _PLATEAU_THRESHOLD * abs(self._best_loss) or math.isinf(self._best_loss):
                self._best_loss, self._epochs_waited = loss, 0
                continue
            self._epochs_waited += 1
            if self._epochs_waited >= epochs:
                self._reductions, self._epochs_waited = self._reductions + 1, 0
        self._losses_read = len(losses)
        return factor**self._reductions


def parse_schedule(text: str) -> tuple[str, tuple[float, ...]]:
    """Return the name of a schedule and its numbers, with defaults for those that are not given.

    Raises:
        OptionError: for an unknown schedule, or for numbers that it does not take.

    >>> parse_schedule("step:10")
    ('step', (10.0, 0.1))
    """
    name, *words = text.split(":")
    if name not in SCHEDULES:
        raise OptionError(unknown_choice("learning-rate schedule", name, SCHEDULES))
    form, defaults, _ = SCHEDULES[name]
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = [math.nan]
    values = (*numbers, *defaults[len(numbers) :])
    epochs, factor = values[:-1], values[-1:]
    is_valid = all(n >= 1 and n == int(n) for n in epochs if math.isfinite(n)) and all(0 < n < 1 for n in factor)
    if len(values) != len(defaults) or not all(map(math.isfinite, values)) or not is_valid:
        raise OptionError(f"schedule `{text}`: write {form}, with a factor between 0 and 1")
    return name, values


METHODS = ("auto", "lm", "lbfgs", *OPTIMIZERS)
DEFAULT_EPOCHS = 100  # epochs of gradient methods, which have no convergence test of their own
