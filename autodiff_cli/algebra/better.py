"""Formulas written so that they keep their digits, by the table of rewritings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from autodiff_cli.algebra.matching import Matcher, Occurrence, Share, factors_of, product_of, sum_of
from autodiff_cli.algebra.readable import readable
from autodiff_cli.algebra.rewritings import REWRITINGS, Rewriting
from autodiff_cli.algebra.signs import is_not_negative, is_positive
from autodiff_cli.algebra.simplify import is_scalar, simplifying
from autodiff_cli.algebra.table import NodeTable
from autodiff_cli.graph.node import Node, is_literal, variable
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import rebuild, topological
from autodiff_cli.ops.arithmetic import add, div, greater, less, mul, neg, sub
from autodiff_cli.ops.choice import where
from autodiff_cli.ops.elementary import exp, pow_, sqrt

MOST_NODES = 500  # of a formula that is looked through
_MOST_ROUNDS = 30


def better(graph: Node, slopes: bool = False) -> Node | None:
    """The formula of a graph written so that it keeps its digits, or does not overflow, where it would; None if nothing
    is known to write better.

    It has the same value wherever the original has one, but for isolated points. Whether it has more digits at some
    point is to be seen there: no way of writing is the best at all points.

    Args:
        graph: the formula.
        slopes: whether it is the derivative whose digits are wanted; then also rewritings apply that may cost digits of
            the value.

    >>> from autodiff_cli.language.lowering import read
    >>> from autodiff_cli.language.printer import to_text
    >>> for text in ("(1 - cos(x))/x^2", "sqrt(x + 1) - sqrt(x)", "log((1 - x)/(1 + x))", "x + y"):
    ...     found = better(read(text).output)
    ...     print(None if found is None else to_text(found))
    2*sin(x/2)^2/x^2
    1/(sqrt(x + 1) + sqrt(x))
    -2*atanh(x)
    None
    """
    if len(topological([graph])) > MOST_NODES:
        return None
    search = _Search(is_scalar([graph]), slopes)
    (root,) = search.table.rebuild([graph])
    is_changed = False
    for _ in range(_MOST_ROUNDS):
        step = next(search.steps(root), None)
        if step is None:
            break
        (root,) = search.table.rebuild(rebuild([root], dict([step])))
        is_changed = True
    return readable([root], scalar=False)[0] if is_changed else None


class _Search:
    """One formula's rewriting.

    Attributes:
        table: where its nodes are made.
    """

    def __init__(self, scalar: bool, slopes: bool) -> None:
        self.table = _plain_table(scalar)
        self._scalar = scalar
        self._slopes = slopes
        self._done: set[Node] = set()  # what rewriting has made, or found

    def steps(self, root: Node) -> Iterator[tuple[Node, Node]]:
        """A node, and what is to stand for it: of the outermost first, and by the first row."""
        for node in reversed(topological([root])):
            if node.op is not None and node not in self._done:
                yield from ((node, found) for found in self._rewritten(node))

    def _rewritten(self, node: Node) -> Iterator[Node]:
        for row in _rows(_kind(node.op)):
            if row.rewriting.for_slopes and not self._slopes:
                continue
            for match in Matcher(row.pattern, row.places.keys(), row.optional, self.table).matches(node):
                found = None if match.is_opposite and row.rewriting.one_sign else self._written(row, match)
                if found is not None and found is not node:
                    yield found

    def _written(self, row: _Row, match: Occurrence) -> Node | None:
        """What stands for a match, with the parts that are left; None if the row does not apply."""
        values = [match.found[place] for place in row.places]
        is_constant = not any(node.is_input for node in topological(values))  # computed once, and left alone
        after = None if is_constant else self._after(row.rewriting, values)
        if after is None:
            return None
        (instance, new) = self.table.rebuild([row.rewriting.before(*values), after])
        if new is instance:
            return None
        self._done |= {instance, *topological([new])} - {*topological(values)}
        if _kind(row.pattern.op) is add:
            return sum_of(self.table, [*match.left, Share(new, match.is_opposite)])
        return product_of(self.table, [*match.left, Share(new, False)]) if match.left else new

    def _after(self, rewriting: Rewriting, values: list[Node]) -> Node | None:
        if rewriting.difference is None:
            return rewriting.after(*values)
        difference = readable([rewriting.difference(*values)], scalar=self._scalar)[0]
        is_one_term = not any(_kind(part.node.op) is add for part in factors_of(difference))
        return rewriting.after(*values, difference) if is_one_term else None


# --- the table of rewritings, as patterns


class _Row(NamedTuple):
    rewriting: Rewriting
    pattern: Node
    places: dict[Node, None]  # in the order of the parameters
    optional: frozenset[Node]


@cache
def _rows(kind: Op | None) -> tuple[_Row, ...]:
    """The rows whose pattern is a sum (by `add`), a product (`mul`), or one other operation."""
    rows = map(_compiled, REWRITINGS)
    return tuple(row for row in rows if _kind(row.pattern.op) is kind)


@cache
def _compiled(rewriting: Rewriting) -> _Row:
    parameters = list(inspect.signature(rewriting.before).parameters.values())
    places = {parameter.name: variable(parameter.name) for parameter in parameters}
    (pattern,) = _plain_table(scalar=True).rebuild([rewriting.before(*places.values())])
    optional = frozenset(places[parameter.name] for parameter in parameters if parameter.default is not parameter.empty)
    return _Row(rewriting, pattern, dict.fromkeys(places.values()), optional)


def _kind(op: Op | None) -> Op | None:
    return add if op is sub else mul if op is div else op


# --- one way to write what can be written in several


def _plain_table(scalar: bool) -> NodeTable:
    """A table that simplifies, and writes roots and exponentials in one way."""
    simplified = simplifying(scalar)

    def rewrite(table: NodeTable, op: Op, inputs: tuple[Node, ...]) -> Node:
        plain = _plain(table, op, inputs)
        return simplified(table, op, inputs) if plain is None else plain

    return NodeTable(rewrite)


def _plain(table: NodeTable, op: Op, inputs: tuple[Node, ...]) -> Node | None:
    if op is pow_ and _is_half(inputs[1]):
        return table.apply(sqrt, inputs[0])
    if op is pow_ and inputs[0].is_constant and inputs[0].text == "e":
        return table.apply(exp, inputs[1])
    if op is div and inputs[1].op is exp:
        return table.apply(mul, inputs[0], table.apply(exp, table.apply(neg, inputs[1].inputs[0])))
    if (op is greater or op is less) and inputs[0].op is neg and is_literal(inputs[1], 0):
        return table.apply(less if op is greater else greater, inputs[0].inputs[0], inputs[1])
    return _chosen(*inputs) if op is where else None


def _chosen(condition: Node, a: Node, b: Node) -> Node | None:
    """What is chosen by the sign of a number, if that is seen."""
    if condition.op is greater and is_literal(condition.inputs[1], 0) and is_positive(condition.inputs[0]):
        return a
    if condition.op is less and is_literal(condition.inputs[1], 0) and is_not_negative(condition.inputs[0]):
        return b
    return None


def _is_half(exponent: Node) -> bool:
    if exponent.op is div:
        return is_literal(exponent.inputs[0], 1) and is_literal(exponent.inputs[1], 2)
    return is_literal(exponent, 0.5)
