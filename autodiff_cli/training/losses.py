"""The terms of an objective: losses of one row, penalties on the size of parameters, and priors of parameters.

A loss is written once as a graph of the target and the prediction. For arrays it is computed for each component, and
the loss of the row is their mean. The cross-entropy alone combines the components into one number.

`parse_priors` reads `a ~ normal(0, 10)`. Distributions are operations of the language, with the arguments of Stan's. An
argument may be another parameter, as in `a[site] ~ normal(m, s)`; such a prior is hierarchical.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import NamedTuple

from autodiff_cli.graph.node import ZERO, Node, Op, constant, variable
from autodiff_cli.graph.tape import Tape, leaf_names, substitute, topological_order
from autodiff_cli.language.errors import ExpressionError, pluralize
from autodiff_cli.language.lexer import canonical_name, is_level_name, is_name, quote_name, split_assignment
from autodiff_cli.ops import functions
from autodiff_cli.ops.arithmetic import abs_, where
from autodiff_cli.ops.functions import exp, hypot, log, log1p, sigmoid, sinh, softplus, sqrt, square
from autodiff_cli.ops.structural import dot, logsumexp, sum_
from autodiff_cli.options import OptionError, as_list, unknown_choice

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


# --- Priors of parameters ---

_LIKELY = 6.0  # standard deviations on both sides of the centre that have nearly all of a density
_EDGE = 0.01  # distance from an end of the support, relative to that of the centre, where densities are not infinite
_LARGEST_EXPONENT = 700.0  # of a number that a float represents


class Prior(NamedTuple):
    """The prior of a parameter.

    Attributes:
        text: the distribution as it was written, such as `normal(0, 10)`.
        distribution: the distribution.
        arguments: its arguments: numbers, and graphs of other parameters.
        support: the range in which its density is not 0.
    """

    text: str
    distribution: functions.LogDensity
    arguments: tuple[Node, ...]
    support: tuple[float, float]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters that its arguments read."""
        return tuple(leaf_names(self.arguments))

    @property
    def positive_parameters(self) -> tuple[str, ...]:
        """The parameters that are themselves an argument that must be positive."""
        pairs = zip(self.distribution.arguments, self.arguments, strict=True)
        return tuple(node.text for name, node in pairs if name in self.distribution.positive and node.is_input)

    @property
    def likely_range(self) -> tuple[float, float]:
        """The range that has nearly all of its density; its support if its arguments are not numbers.

        It begins at a small distance from the ends of the support, where densities such as `gamma(0.1, 0.1)` are
        infinite.
        """
        numbers, (low, high) = [_number(node) for node in self.arguments], self.support
        if None in numbers:
            return self.support
        known = {name: number for name, number in zip(self.distribution.arguments, numbers, strict=True) if number}
        centre, spread = known.get("mu", 0.0), known.get("sigma", math.inf)
        if "rate" in known:  # of a gamma or an exponential distribution
            centre, spread = known.get("shape", 1.0) / known["rate"], known.get("shape", 1.0) ** 0.5 / known["rate"]
        if math.isfinite(high):  # of a beta or a uniform distribution
            centre = known["a"] / (known["a"] + known["b"]) if "a" in known else low / 2 + high / 2
        first, last = centre - _LIKELY * spread, centre + _LIKELY * spread
        if self.distribution is functions.LOG_DENSITIES["lognormal"]:
            first, centre, last = (math.exp(min(end, _LARGEST_EXPONENT)) for end in (first, centre, last))
        first = max(first, low + _EDGE * (centre - low)) if math.isfinite(low) else first
        return first, min(last, high - _EDGE * (high - centre)) if math.isfinite(high) else last

    def argument(self, name: str) -> str:
        """Return the text of the argument with this name; empty if its distribution has none."""
        texts = (node.text for node in self.arguments)
        return dict(zip(self.distribution.arguments, texts, strict=True)).get(name, "")

    def arguments_in(self, leaves: Mapping[str, Node]) -> list[Node]:
        """Return its arguments as nodes of a model, given the model's leaves by name."""
        inputs = [node for node in topological_order(self.arguments) if node.is_input]
        return substitute(self.arguments, {leaf: leaves.get(leaf.text, leaf) for leaf in inputs})


def parse_priors(source: Mapping[str, str] | Iterable[str] | None) -> dict[str, Prior]:
    """Return priors by the name of the parameter, from a mapping or from texts such as `a ~ normal(0, 10)`.

    Raises:
        OptionError: for text of another form, an unknown distribution, unsuitable arguments, and a second prior.

    >>> priors = parse_priors(["a[site] ~ normal(m, 2)"])
    >>> priors["a[site]"].parameters, priors["a[site]"].text
    (('m',), 'normal(m, 2)')
    """
    priors: dict[str, Prior] = {}
    pairs = (
        [(quote_name(str(name)), text) for name, text in source.items()]
        if isinstance(source, Mapping)
        else (split_assignment(str(text), "~")[::2] for text in as_list(source))
    )
    for target, text in pairs:
        if not (is_name(target) or is_level_name(target)) or not str(text).strip():
            words = f"{target}~{text}" if text else target
            raise OptionError(f'a prior is written "NAME ~ DISTRIBUTION", as in "a ~ normal(0, 10)", not `{words}`')
        name = canonical_name(target)
        if name in priors:
            raise OptionError(f"`{name}` has two priors: leave one of them out")
        priors[name] = _parse_prior(name, str(text).strip())
    return priors


def _parse_prior(name: str, text: str) -> Prior:
    """Return the prior that a text such as `normal(0, 10)` describes."""
    from autodiff_cli.language.program import read_for_floats

    kind, bracket, rest = text.partition("(")
    kind = kind.strip()
    if kind not in functions.LOG_DENSITIES:
        raise OptionError(f"the prior of `{name}`: {unknown_choice('distribution', kind, functions.LOG_DENSITIES)}")
    distribution = functions.LOG_DENSITIES[kind]
    signature = f"{kind}({', '.join(distribution.arguments)})"
    if not bracket or not rest.endswith(")"):
        raise OptionError(f"the prior of `{name}`: {kind} is written {signature}, not `{text}`")
    arguments: tuple[Node, ...] = ()
    if rest[:-1].strip():
        try:
            # As an array that stands where the arguments stand.
            arguments = read_for_floats(f"{'[':>{len(text) - len(rest)}}{rest[:-1]}]", ("tau", "e")).output.inputs
        except ExpressionError as error:
            error.text = text
            if "," in (error.suggestion or ""):  # of arrays
                error.suggestion = None
            reason = "its arguments are numbers and parameters without levels" if "[" in rest else error
            reason = f"its arguments have no names: {signature}" if "=" in rest else reason
            raise OptionError(f"the prior of `{name}`, {text}: {reason}") from None
    if len(arguments) != len(distribution.arguments):
        count = pluralize(len(arguments), "argument")
        raise OptionError(f"the prior of `{name}`: {kind} takes {signature}, not {count}: `{text}`")
    numbers = [_number(node) for node in arguments]
    for argument, number in zip(distribution.arguments, numbers, strict=True):
        if number is not None and not math.isfinite(number):
            raise OptionError(f"the prior of `{name}`, {text}: {argument} must be finite, not {number:g}")
        if number is not None and argument in distribution.positive and not number > 0:
            raise OptionError(f"the prior of `{name}`, {text}: {argument} must be positive, not {number:g}")
    support = distribution.support
    if support is None:
        low, high = numbers
        if low is None or high is None or not low < high:
            raise OptionError(f"the prior of `{name}`, {text}: low and high must be numbers, low < high")
        support = low, high
    exact = [node if number is None else constant(number) for node, number in zip(arguments, numbers, strict=True)]
    return Prior(text, distribution, tuple(exact), support)


def _number(node: Node) -> float | None:
    """Return the value of a constant expression; None if it reads a parameter."""
    from autodiff_cli.autodiff.sweeps import forward
    from autodiff_cli.numbers.floats import FLOATS

    if any(below.is_input for below in topological_order([node])):
        return None
    return float(forward(Tape([node]), FLOATS, {})[-1])


def prior_graph(priors: Mapping[str, Prior], leaves: Mapping[str, Node], shapes: Mapping[str, tuple[int, ...]]) -> Node:
    """Return minus the log-density of the priors as a graph. An array has a prior for each of its numbers.

    Args:
        priors: the priors by the name of the leaf.
        leaves: the leaves of the model by name.
        shapes: the shapes of the leaves that are arrays.

    >>> from autodiff_cli.graph.node import variable
    >>> from autodiff_cli.language.printer import to_text
    >>> to_text(prior_graph(parse_priors(["a ~ exponential(r)"]), {"a": variable("a"), "r": variable("r")}, {}))
    '-exponential_logpdf(a, r)'
    """

    def terms() -> Iterator[Node]:
        for name, prior in priors.items():
            density = prior.distribution.op(leaves[name], *prior.arguments_in(leaves))
            yield sum_(density) if name in shapes else density

    return -reduce(add, terms()) if priors else ZERO
