"""Losses of one row, each written once, as a graph of the target and the prediction.

Of arrays they are losses of each component; the loss of a row is their mean. Only the cross-entropy is a number itself.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.op import Op
from autodiff_cli.ops.activations import sigmoid, softplus
from autodiff_cli.ops.arithmetic import abs_
from autodiff_cli.ops.choice import where
from autodiff_cli.ops.elementary import exp, hypot, log, log1p, sinh, sqrt, square
from autodiff_cli.ops.structural import dot, logsumexp, sum_

SCALE = "scale of residuals"  # the leaf of what robust losses measure residuals by; no name in a text has a blank
L1, L2 = "l1 penalty", "l2 penalty"  # likewise those of the factors of penalties
HUBER_DELTA = 1.345  # where Huber's loss bends: 95 % as efficient as least squares where the errors are normal


class LossKind(enum.Enum):
    """What a loss is, which decides how well parameters are known."""

    SQUARES = enum.auto()
    ROBUST = enum.auto()  # of a residual measured by the scale of all residuals
    LIKELIHOOD = enum.auto()  # minus the logarithm of a probability, up to what no parameter changes
    OTHER = enum.auto()


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of a row.

    Attributes:
        of: the graph, of the target, the prediction and where Huber's loss bends.
        least, most: between which the target has to be; `above` says that it must not be the least itself.
    """

    of: Callable[[Node, Node, float], Node]
    kind: LossKind
    least: float = -math.inf
    most: float = math.inf
    above: bool = False


def _mse(target: Node, prediction: Node, _: float) -> Node:
    return square(target - prediction)


def _mae(target: Node, prediction: Node, _: float) -> Node:
    return abs_(target - prediction)


def _huber(r: Node, delta: float) -> Node:
    """Huber 1964, Ann. Math. Stat. 35, 73: a parabola up to δ, a straight line from there."""
    size = hypot(r, 0)
    return where(size <= delta, square(r) / 2, delta * size - delta * delta / 2)


def _logcosh(r: Node, _: float) -> Node:
    """The logarithm of the hyperbolic cosine, with all digits near 0 and far out."""
    size = hypot(r, 0)
    return where(size <= 1, log1p(2 * square(sinh(r / 2))), size + log1p(exp(-2 * size)) - math.log(2))


def _soft_l1(r: Node, _: float) -> Node:
    """Twice the distance from 1 that `sqrt(1 + r²)` has: a parabola that becomes a straight line."""
    return 2 * square(r) / (1 + sqrt(1 + square(r)))


def _cauchy(r: Node, _: float) -> Node:
    return log1p(square(r))


def _robust(of: Callable[[Node, float], Node]) -> Loss:
    def loss(target: Node, prediction: Node, delta: float) -> Node:
        scale = variable(SCALE)
        return square(scale) * of((target - prediction) / scale, delta)

    return Loss(loss, LossKind.ROBUST)


def _bce(target: Node, prediction: Node, _: float) -> Node:
    """Minus the logarithm of the probability that was given to what happened.

    Where the model ends in `sigmoid`, the logarithm is taken of the whole, so that no digit is lost far from 0. A
    target of 0 or 1 leaves out the other half: 0·log(0) counts nothing.
    """
    if prediction.op is sigmoid:
        score = prediction.inputs[0]
        hit, miss = softplus(-score), softplus(score)
    else:
        hit, miss = -log(prediction), -log1p(-prediction)
    return where(target > 0, target * hit, 0) + where(target < 1, (1 - target) * miss, 0)


def _poisson(target: Node, prediction: Node, _: float) -> Node:
    """Of counts whose mean is the prediction. Where that ends in `exp`, its logarithm is not taken again."""
    logarithm = prediction.inputs[0] if prediction.op is exp else log(prediction)
    return prediction - where(target > 0, target * logarithm, 0)


def _gamma(target: Node, prediction: Node, _: float) -> Node:
    """Of positive numbers whose spread is a share of their mean, which is the prediction."""
    logarithm = prediction.inputs[0] if prediction.op is exp else log(prediction)
    return target / prediction + logarithm


def _cross_entropy(target: Node, prediction: Node, _: float) -> Node:
    """Minus the logarithm of the probability that a softmax gives to the class that is 1 in the target, the others
    being 0. It is taken of the scores, so that no digit is lost where a probability is next to 0."""
    scores = prediction.inputs[0]
    return logsumexp(scores) - dot(target, scores)


# Distributions of the target about the prediction, their mean, by the loss that is minus their log-likelihood.
FAMILIES = {"gaussian": "mse", "poisson": "poisson", "binomial": "bce", "gamma": "gamma"}

LOSSES: dict[str, Loss] = {
    "mse": Loss(_mse, LossKind.SQUARES),
    "mae": Loss(_mae, LossKind.OTHER),
    "huber": _robust(_huber),
    "logcosh": _robust(_logcosh),
    "soft_l1": _robust(_soft_l1),
    "cauchy": _robust(_cauchy),
    "bce": Loss(_bce, LossKind.LIKELIHOOD, least=0, most=1),
    "poisson": Loss(_poisson, LossKind.LIKELIHOOD, least=0),
    "gamma": Loss(_gamma, LossKind.LIKELIHOOD, least=0, above=True),
    "cross_entropy": Loss(_cross_entropy, LossKind.LIKELIHOOD),
}


# --- penalties on the size of parameters, which are added to the mean loss: `l1·Σ|θ| + l2·Σ θ²` over all free numbers.
# The first is that of the lasso (Tibshirani 1996), the second that of ridge regression (Hoerl & Kennard 1970). Their
# factors are leaves of the graph, so that the same kernels compute the loss with and without them.


def penalty_on(leaves: Sequence[Node], arrays: Container[str], l1: float, l2: float) -> Node | None:
    """What is added to the loss of a row; None without a penalty.

    Args:
        arrays: the names of the leaves that are no numbers.

    >>> from autodiff_cli.language.printer import to_text
    >>> to_text(penalty_on([variable("a"), variable("v")], {"v"}, 0.0, 0.1))
    '`l2 penalty`*(square(a) + sum(square(v)))'
    """

    def total(op: Op) -> Node:
        return reduce(add, (sum_(op(leaf)) if leaf.text in arrays else op(leaf) for leaf in leaves))

    factors = ((L1, abs_, l1), (L2, square, l2)) if leaves else ()
    terms = [variable(name) * total(op) for name, op, factor in factors if factor]
    return reduce(add, terms) if terms else None
