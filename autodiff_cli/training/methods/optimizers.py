"""Gradient methods: each is one step, written once, as graphs for one number among the parameters.

A backend runs them: over whole vectors, or compiled together with the gradient. What a method remembers is 0 before the
first step. `step` counts from 1.
"""

from __future__ import annotations

import math

from autodiff_cli.backends.update import GRADIENT, RATE, STEP, THETA, Update
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.ops.choice import clip
from autodiff_cli.ops.elementary import expm1, sqrt, square

_THETA, _GRADIENT, _RATE, _STEP = map(variable, (THETA, GRADIENT, RATE, STEP))

DECAY = 0.9  # of what is remembered of gradients, from step to step
SQUARE_DECAY = 0.999  # of their squares, in adam; in rmsprop it is `DECAY`
LOW, HIGH = "low", "high"  # what a projected method remembers of each number: its bounds
EPSILON = 1e-8  # beside the root that a step is divided by
WEIGHT_DECAY = 0.01  # of adamw, times the rate


def _sgd() -> Update:
    """Gradient descent: Cauchy 1847; on batches, Robbins & Monro 1951."""
    return Update(_THETA - _RATE * _GRADIENT)


def _momentum() -> Update:
    """The heavy ball: Polyak 1964."""
    velocity = DECAY * variable("velocity") + _GRADIENT
    return Update(_THETA - _RATE * velocity, {"velocity": velocity})


def _nesterov() -> Update:
    """Momentum that looks ahead: Nesterov 1983; written at the point looked at, as in Bengio et al. 2013, eq. 7."""
    velocity = DECAY * variable("velocity") + _GRADIENT
    return Update(_THETA - _RATE * (_GRADIENT + DECAY * velocity), {"velocity": velocity})


def _adagrad() -> Update:
    """Each parameter's rate falls with all the gradients it has seen: Duchi, Hazan & Singer 2011, JMLR 12."""
    total = variable("total") + square(_GRADIENT)
    return Update(_THETA - _RATE * _GRADIENT / (sqrt(total) + 1e-10), {"total": total})


def _rmsprop() -> Update:
    """The same with a memory that fades: Hinton 2012, Coursera, lecture 6e."""
    squares = _faded("square", square(_GRADIENT), DECAY)
    return Update(_THETA - _RATE * _GRADIENT / (sqrt(squares) + EPSILON), {"square": squares})


def _adam(theta: Node = _THETA) -> Update:
    """Momentum and fading squares, corrected for their start at 0: Kingma & Ba 2015, arXiv 1412.6980, algorithm 1."""
    mean = _faded("mean", _GRADIENT, DECAY)
    squares = _faded("square", square(_GRADIENT), SQUARE_DECAY)
    rate = _RATE / _remembered(DECAY)
    root = sqrt(squares) / sqrt(_remembered(SQUARE_DECAY)) + EPSILON
    return Update(theta - rate * (mean / root), {"mean": mean, "square": squares})


def _adamw() -> Update:
    """Adam, with the parameters shrunk apart from it: Loshchilov & Hutter 2019, arXiv 1711.05101."""
    return _adam(_THETA * (1 - _RATE * WEIGHT_DECAY))


def _faded(name: str, new: Node, decay: float) -> Node:
    """A memory that moves towards what is new."""
    return decay * variable(name) + (1 - decay) * new


def _remembered(decay: float) -> Node:
    """How much of a memory that began at 0 is of gradients by now: `1 - decay**step`, at half the price."""
    return -expm1(_STEP * math.log(decay))


OPTIMIZERS: dict[str, Update] = {
    "sgd": _sgd(),
    "momentum": _momentum(),
    "nesterov": _nesterov(),
    "adagrad": _adagrad(),
    "rmsprop": _rmsprop(),
    "adam": _adam(),
    "adamw": _adamw(),
}


def between_bounds(update: Update) -> Update:
    """The same step, and then to the nearest point between bounds: projected gradients (Goldstein 1964).

    The bounds of each number are what is remembered of it as `LOW` and `HIGH`.
    """
    low, high = variable(LOW), variable(HIGH)
    return Update(clip(update.theta, low, high), {**update.memory, LOW: low, HIGH: high})
