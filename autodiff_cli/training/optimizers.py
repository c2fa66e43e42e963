"""Gradient methods: each takes one step, and keeps what it remembers in its fields.

All take the parameters and the gradient of the loss there, of shape (P,), and return the new parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Optimizer(Protocol):
    """A gradient method under way."""

    def step(self, theta: Array, gradient: Array) -> Array:
        """The parameters after a step from `theta`, where the loss has this gradient."""


def _nothing() -> Array:
    """What is remembered at the start: 0, of whatever shape is added to it."""
    return np.zeros(())


@dataclass
class Sgd:
    """Gradient descent: Cauchy 1847; on batches, Robbins & Monro 1951."""

    rate: float

    def step(self, theta: Array, gradient: Array) -> Array:
        return theta - self.rate * gradient


@dataclass
class Momentum:
    """The heavy ball: Polyak 1964."""

    rate: float
    decay: float = 0.9
    velocity: Array = field(default_factory=_nothing)

    def step(self, theta: Array, gradient: Array) -> Array:
        self.velocity = self.decay * self.velocity + gradient
        return theta - self.rate * self.velocity


@dataclass
class Nesterov:
    """Momentum that looks ahead: Nesterov 1983; written at the point looked at, as in Bengio et al. 2013, eq. 7."""

    rate: float
    decay: float = 0.9
    velocity: Array = field(default_factory=_nothing)

    def step(self, theta: Array, gradient: Array) -> Array:
        self.velocity = self.decay * self.velocity + gradient
        return theta - self.rate * (gradient + self.decay * self.velocity)


@dataclass
class Adagrad:
    """Each parameter's rate falls with all the gradients it has seen: Duchi, Hazan & Singer 2011, JMLR 12."""

    rate: float
    epsilon: float = 1e-10
    total: Array = field(default_factory=_nothing)

    def step(self, theta: Array, gradient: Array) -> Array:
        self.total = self.total + gradient**2
        return theta - self.rate * gradient / (np.sqrt(self.total) + self.epsilon)


@dataclass
class RmsProp:
    """The same with a memory that fades: Hinton 2012, Coursera, lecture 6e."""

    rate: float
    decay: float = 0.9
    epsilon: float = 1e-8
    square: Array = field(default_factory=_nothing)

    def step(self, theta: Array, gradient: Array) -> Array:
        self.square = self.decay * self.square + (1 - self.decay) * gradient**2
        return theta - self.rate * gradient / (np.sqrt(self.square) + self.epsilon)


@dataclass
class Adam:
    """Momentum and fading squares, corrected for their start at 0: Kingma & Ba 2015, arXiv 1412.6980, algorithm 1."""

    rate: float
    decay: float = 0.9
    square_decay: float = 0.999
    epsilon: float = 1e-8
    mean: Array = field(default_factory=_nothing)
    square: Array = field(default_factory=_nothing)
    steps: int = 0

    def step(self, theta: Array, gradient: Array) -> Array:
        self.steps += 1
        self.mean = self.decay * self.mean + (1 - self.decay) * gradient
        self.square = self.square_decay * self.square + (1 - self.square_decay) * gradient**2
        mean = self.mean / (1 - self.decay**self.steps)
        square = self.square / (1 - self.square_decay**self.steps)
        return theta - self.rate * mean / (np.sqrt(square) + self.epsilon)


@dataclass
class AdamW(Adam):
    """Adam, with the parameters shrunk apart from it: Loshchilov & Hutter 2019, arXiv 1711.05101."""

    weight_decay: float = 0.01

    def step(self, theta: Array, gradient: Array) -> Array:
        return super().step(theta * (1 - self.rate * self.weight_decay), gradient)


OPTIMIZERS: dict[str, Callable[[float], Optimizer]] = {
    "sgd": Sgd,
    "momentum": Momentum,
    "nesterov": Nesterov,
    "rmsprop": RmsProp,
    "adagrad": Adagrad,
    "adam": Adam,
    "adamw": AdamW,
}
