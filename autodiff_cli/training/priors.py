"""Priors of parameters: the text of a prior, and its log-density, which is an operation of the language.

`parse_priors` reads `a ~ normal(0, 10)`. Distributions have the arguments of Stan's. An argument may be another
parameter, as in `a[site] ~ normal(m, s)`; such a prior is hierarchical.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import add
from typing import NamedTuple

from autodiff_cli.graph.node import ZERO, Node, constant
from autodiff_cli.graph.tape import Tape, leaf_names, substitute, topological_order
from autodiff_cli.language.errors import ExpressionError, pluralize
from autodiff_cli.language.lexer import canonical_name, is_level_name, is_name, quote_name, split_assignment
from autodiff_cli.ops.functions import LOG_DENSITIES, LogDensity
from autodiff_cli.ops.structural import sum_
from autodiff_cli.options import OptionError, unknown_choice

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
    distribution: LogDensity
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
        if self.distribution is LOG_DENSITIES["lognormal"]:
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
    texts = [source] if isinstance(source, str | int | float) else source or ()
    pairs = (
        [(quote_name(str(name)), text) for name, text in texts.items()]
        if isinstance(texts, Mapping)
        else (split_assignment(str(text), "~")[::2] for text in texts)
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
    if kind not in LOG_DENSITIES:
        raise OptionError(f"the prior of `{name}`: {unknown_choice('distribution', kind, LOG_DENSITIES)}")
    distribution, signature = LOG_DENSITIES[kind], f"{kind}({', '.join(LOG_DENSITIES[kind].arguments)})"
    if not bracket or not rest.endswith(")"):
        raise OptionError(f"the prior of `{name}`: {kind} is written {signature}, not `{text}`")
    arguments: tuple[Node, ...] = ()
    if rest[:-1].strip():
        try:
            arguments = read_for_floats(f"[{rest[:-1]}]", ("tau", "e")).output.inputs
        except ExpressionError as error:
            reason = "its arguments are numbers and parameters without levels" if "[" in rest else error
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
