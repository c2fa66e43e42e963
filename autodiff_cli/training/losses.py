"""Losses of one row, each written once as a graph of the target and the prediction.

For arrays a loss is computed for each component, and the loss of the row is their mean. The cross-entropy alone
combines the components into one number.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import NamedTuple

from autodiff_cli.graph.node import Node, Op, variable
from autodiff_cli.ops.arithmetic import abs_, where
from autodiff_cli.ops.functions import exp, hypot, log, log1p, sigmoid, sinh, softplus, sqrt, square
from autodiff_cli.ops.structural import dot, logsumexp, sum_

# Names of leaves. They contain blanks, so no name in a model can collide with them.
RESIDUAL_SCALE = "scale of residuals"  # the unit in which robust losses measure residuals; theta of counts
L1_FACTOR, L2_FACTOR = "l1 penalty", "l2 penalty"  # the factors of the penalties
X_ERROR_FACTOR = "x error factor"  # factor of the variance that errors of columns cause: 1, or 0 to find a start
PRIOR_FACTOR = "prior factor"  # factor of minus the log-density of the priors
COUNT_LOSSES = ("poisson", "negative_binomial")  # losses of distributions of counts
HUBER_DELTA = 1.345  # default threshold of Huber's loss in scales: 95 % efficient if the errors are normal


class LossKind(enum.Enum):
    """The kind of a loss, which determines how standard errors are computed."""

    SQUARES = enum.auto()
    ROBUST = enum.auto()  # a function of the residual in units of the scale of all residuals
    LIKELIHOOD = enum.auto()  # a negative log-likelihood, up to terms that no parameter changes
    OTHER = enum.auto()


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of one row.

    Attributes:
        graph: builds the graph from the target, the prediction and the threshold of Huber's loss.
        kind: what the loss measures.
        min_target, max_target: the range of targets for which the loss is defined.
        is_min_excluded: whether a target equal to `min_target` is outside of that range.
        has_scale: whether the loss has a number of its own, in the leaf `RESIDUAL_SCALE`, which fits estimate along.
        is_convex: whether the loss is convex in the residual, so that linear models have one minimum.
        is_resistant: whether few large residuals hardly change the fit.
        of_ratio: for a robust loss, builds ρ(u) from the ratio u of residual and scale, and the threshold.
    """

    graph: Callable[[Node, Node, float], Node]
    kind: LossKind
    min_target: float = -math.inf
    max_target: float = math.inf
    is_min_excluded: bool = False
    has_scale: bool = False
    is_convex: bool = True
    is_resistant: bool = False
    of_ratio: Callable[[Node, float], Node] | None = None


def _huber(r: Node, delta: float) -> Node:
    """Huber's loss: quadratic up to `delta`, linear beyond (Huber 1964, Ann. Math. Stat. 35, 73)."""
    size = hypot(r, 0)
    return where(size <= delta, square(r) / 2, delta * (size - delta / 2))


def _logcosh(r: Node, _: float) -> Node:
    """The logarithm of the hyperbolic cosine, accurate both near 0 and for large residuals."""
    size = hypot(r, 0)
    return where(size <= 1, log1p(2 * square(sinh(r / 2))), size + log1p(exp(-2 * size)) - math.log(2))


def _robust_loss(of: Callable[[Node, float], Node], is_convex: bool = True) -> Loss:
    """Return a loss of residuals measured in units of the scale, times the square of the scale."""

    def loss(target: Node, prediction: Node, delta: float) -> Node:
        scale = variable(RESIDUAL_SCALE)
        return square(scale) * of((target - prediction) / scale, delta)

    return Loss(loss, LossKind.ROBUST, has_scale=True, is_convex=is_convex, is_resistant=True, of_ratio=of)


def _bce(target: Node, prediction: Node, _: float) -> Node:
    """The binary cross-entropy: minus the log-probability of the observed outcome.

    If the prediction ends in `sigmoid`, the logarithm is taken of the whole, which keeps all digits far from 0. A
    target of 0 or 1 drops the other term, because 0·log(0) contributes nothing. Other numbers are not probabilities:
    their loss is nan, even if the term that would be nan is dropped.
    """
    if prediction.op is sigmoid:
        score = prediction.inputs[0]
        hit, miss = softplus(-score), softplus(score)
    else:
        hit = where(prediction <= 1, -log(prediction), math.nan)
        miss = where(prediction >= 0, -log1p(-prediction), math.nan)
    return where(target > 0, target * hit, 0) + where(target < 1, (1 - target) * miss, 0)


def _poisson(target: Node, prediction: Node, _: float) -> Node:
    """The Poisson negative log-likelihood of a count, up to a constant."""
    return _mean(prediction) - where(target > 0, target * _logarithm(prediction), 0)


def _mean(prediction: Node) -> Node:
    """Return a prediction of counts, which is nan if it is negative, since no mean of counts is."""
    return prediction if prediction.op is exp else where(prediction >= 0, prediction, math.nan)


def _logarithm(prediction: Node) -> Node:
    """Return the logarithm of a prediction: the argument of `exp` if the prediction ends in it."""
    return prediction.inputs[0] if prediction.op is exp else log(prediction)


def _gamma(target: Node, prediction: Node, _: float) -> Node:
    """The gamma negative log-likelihood (constant coefficient of variation), up to a constant."""
    return target / prediction + _logarithm(prediction)


def _negative_binomial(target: Node, prediction: Node, _: float) -> Node:
    """The negative log-likelihood of a negative binomial count with variance `mean + mean²/theta`, up to terms that
    only theta changes.
    """
    theta = variable(RESIDUAL_SCALE)
    return (target + theta) * log1p(_mean(prediction) / theta) - where(target > 0, target * _logarithm(prediction), 0)


def _cross_entropy(target: Node, prediction: Node, _: float) -> Node:
    """Minus the log-probability that a softmax gives to the class that is 1 in the one-hot target.

    It is computed from the scores, which keeps all digits of probabilities close to 0.
    """
    scores = prediction.inputs[0]
    return logsumexp(scores) - dot(target, scores)


def textbook_form(loss: str, target: Node, prediction: Node) -> Node | None:
    """Return the cross-entropy of probabilities as textbooks write it, for explanations; None for other losses.

    It loses digits where a probability is close to 0 or 1, so fits compute it from the scores.
    """
    if loss == "bce" and prediction.op is sigmoid:
        return -(target * log(prediction) + (1 - target) * log(1 - prediction))
    return -dot(target, log(prediction)) if loss == "cross_entropy" else None


class Family(NamedTuple):
    """A distribution of the target whose mean is the prediction.

    Attributes:
        loss: the loss that is its negative log-likelihood.
        is_quasi: whether only the variance is known, up to a factor: Wedderburn 1974, Biometrika 61, 439.
    """

    loss: str
    is_quasi: bool = False


FAMILIES = {
    "gaussian": Family("mse"), "poisson": Family("poisson"), "binomial": Family("bce"), "gamma": Family("gamma"),
    "quasipoisson": Family("poisson", is_quasi=True), "quasibinomial": Family("bce", is_quasi=True),
    "negative_binomial": Family("negative_binomial"),
}  # fmt: skip

LOSSES: dict[str, Loss] = {
    "mse": Loss(lambda target, prediction, _: square(target - prediction), LossKind.SQUARES),
    "mae": Loss(lambda target, prediction, _: abs_(target - prediction), LossKind.OTHER, is_resistant=True),
    "huber": _robust_loss(_huber),
    "logcosh": _robust_loss(_logcosh),
    # 2·(sqrt(1 + r²) - 1), without cancellation
    "soft_l1": _robust_loss(lambda r, _: 2 * square(r) / (1 + sqrt(1 + square(r)))),
    "cauchy": _robust_loss(lambda r, _: log1p(square(r)), is_convex=False),
    "bce": Loss(_bce, LossKind.LIKELIHOOD, min_target=0, max_target=1),
    "poisson": Loss(_poisson, LossKind.LIKELIHOOD, min_target=0),
    "gamma": Loss(_gamma, LossKind.LIKELIHOOD, min_target=0, is_min_excluded=True),
    "negative_binomial": Loss(_negative_binomial, LossKind.LIKELIHOOD, min_target=0, has_scale=True),
    "cross_entropy": Loss(_cross_entropy, LossKind.LIKELIHOOD),
}


# --- Penalties on the size of parameters ---
#
# They are added to the mean loss: `l1·Σ|θ| + l2·Σ θ²` over all free numbers. The first is the lasso (Tibshirani 1996),
# the second ridge regression (Hoerl & Kennard 1970). The factors are leaves of the graph, so the same kernels compute
# the loss with and without the penalties.


def penalty_graph(leaves: Sequence[Node], arrays: Container[str], l1: float, l2: float) -> Node | None:
    """Return the penalty that is added to the loss of a row, or None without one.

    Args:
        leaves: the leaves of the free parameters.
        arrays: the names of the leaves that are arrays.
        l1, l2: the factors of the penalties; 0 leaves one out.

    >>> from autodiff_cli.language.printer import to_text
    >>> to_text(penalty_graph([variable("a"), variable("v")], {"v"}, 0.0, 0.1))
    '`l2 penalty`*(square(a) + sum(square(v)))'
    """

    def total(op: Op) -> Node:
        return reduce(add, (sum_(op(leaf)) if leaf.text in arrays else op(leaf) for leaf in leaves))

    factors = ((L1_FACTOR, abs_, l1), (L2_FACTOR, square, l2)) if leaves else ()
    terms = [variable(name) * total(op) for name, op, factor in factors if factor]
    return reduce(add, terms) if terms else None
