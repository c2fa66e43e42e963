"""Gradient methods: each takes one step, and keeps what it remembers in its fields.

All take the parameters and the gradient of the loss there, of shape (P,), and move the parameters in place: networks
have many, and new arrays for each step would cost more than the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Optimizer(Protocol):
    """A gradient method under way."""

    def step(self, theta: Array, gradient: Array) -> None:
        """Take a step from `theta`, where the loss has this gradient, in place."""


def _nothing() -> Array:
    """What is remembered before the first step."""
    return np.empty(0)


@dataclass
class Sgd:
    """Gradient descent: Cauchy 1847; on batches, Robbins & Monro 1951."""

    rate: float

    def step(self, theta: Array, gradient: Array) -> None:
        theta -= self.rate * gradient


@dataclass
class Momentum:
    """The heavy ball: Polyak 1964."""

    rate: float
    decay: float = 0.9
    velocity: Array = field(default_factory=_nothing)

    def step(self, theta: Array, gradient: Array) -> None:
        self._turn(gradient)
        theta -= self.rate * self.velocity

    def _turn(self, gradient: Array) -> None:
        if not self.velocity.size:
            self.velocity = np.zeros_like(gradient)
        self.velocity *= self.decay
        self.velocity += gradient


@dataclass
class Nesterov(Momentum):
    """Momentum that looks ahead: Nesterov 1983; written at the point looked at, as in Bengio et al. 2013, eq. 7."""

    def step(self, theta: Array, gradient: Array) -> None:
        self._turn(gradient)
        theta -= self.rate * (gradient + self.decay * self.velocity)


@dataclass
class Adagrad:
    """Each parameter's rate falls with all the gradients it has seen: Duchi, Hazan & Singer 2011, JMLR 12."""

    rate: float
    epsilon: float = 1e-10
    total: Array = field(default_factory=_nothing)

    def step(self, theta: Array, gradient: Array) -> None:
        if not self.total.size:
            self.total = np.zeros_like(theta)
        self.total += np.square(gradient)
        theta -= self.rate * gradient / (np.sqrt(self.total) + self.epsilon)


@dataclass
class RmsProp:
    """The same with a memory that fades: Hinton 2012, Coursera, lecture 6e."""

    rate: float
    decay: float = 0.9
    epsilon: float = 1e-8
    square: Array = field(default_factory=_nothing)

    def step(self, theta: Array, gradient: Array) -> None:
        if not self.square.size:
            self.square = np.zeros_like(theta)
        _fade(self.square, np.square(gradient), self.decay)
        theta -= self.rate * gradient / (np.sqrt(self.square) + self.epsilon)


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
    _scratch: Array = field(default_factory=_nothing, repr=False)

    def step(self, theta: Array, gradient: Array) -> None:
        if not self.steps:
            self.mean, self.square, self._scratch = (np.zeros_like(theta) for _ in range(3))
        self.steps += 1
        scratch = self._scratch
        scratch[...] = gradient
        _fade(self.mean, scratch, self.decay)
        np.square(gradient, out=scratch)
        _fade(self.square, scratch, self.square_decay)
        np.sqrt(self.square, out=scratch)
        scratch /= math.sqrt(1 - self.square_decay**self.steps)
        scratch += self.epsilon
        np.divide(self.mean, scratch, out=scratch)
        scratch *= self.rate / (1 - self.decay**self.steps)
        theta -= scratch


@dataclass
class AdamW(Adam):
    """Adam, with the parameters shrunk apart from it: Loshchilov & Hutter 2019, arXiv 1711.05101."""

    weight_decay: float = 0.01

    def step(self, theta: Array, gradient: Array) -> None:
        theta *= 1 - self.rate * self.weight_decay
        super().step(theta, gradient)


def _fade(memory: Array, new: Array, decay: float) -> None:
    """Move a memory towards what is new, in place; `new` is spent."""
    memory *= decay
    new *= 1 - decay
    memory += new


OPTIMIZERS: dict[str, Callable[[float], Optimizer]] = {
    "sgd": Sgd,
    "momentum": Momentum,
    "nesterov": Nesterov,
    "rmsprop": RmsProp,
    "adagrad": Adagrad,
    "adam": Adam,
    "adamw": AdamW,
}
