"""Losses of one row, each written once, as a graph of the target and the prediction.

Of arrays they are losses of each component; the loss of a row is their mean. Only the cross-entropy is a number itself.
"""

from __future__ import annotations

from collections.abc import Callable

from autodiff_cli.graph.node import Node
from autodiff_cli.ops.activations import sigmoid, softplus
from autodiff_cli.ops.arithmetic import abs_
from autodiff_cli.ops.choice import where
from autodiff_cli.ops.elementary import log, log1p, square
from autodiff_cli.ops.structural import dot, logsumexp


def _mse(target: Node, prediction: Node) -> Node:
    return square(target - prediction)


def _mae(target: Node, prediction: Node) -> Node:
    return abs_(target - prediction)


def _huber(target: Node, prediction: Node) -> Node:
    """Huber 1964, Ann. Math. Stat. 35, 73: a parabola up to 1, a straight line from there."""
    size = abs_(target - prediction)
    return where(size <= 1, square(size) / 2, size - 0.5)


def _bce(target: Node, prediction: Node) -> Node:
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


def _cross_entropy(target: Node, prediction: Node) -> Node:
    """Minus the logarithm of the probability that a softmax gives to the class that is 1 in the target, the others
    being 0. It is taken of the scores, so that no digit is lost where a probability is next to 0."""
    scores = prediction.inputs[0]
    return logsumexp(scores) - dot(target, scores)


LOSSES: dict[str, Callable[[Node, Node], Node]] = {
    "mse": _mse,
    "mae": _mae,
    "huber": _huber,
    "bce": _bce,
    "cross_entropy": _cross_entropy,
}
