"""Patterns found in graphs: a formula over places, which stand for any nodes.

Sums and products are matched as people read them, in any order and through brackets: the pattern `1 - cos(x)` is found
in `y - cos(a*b) + 1`, and what is left there is `y`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple, TypeAlias

from autodiff_cli.algebra.exact import number
from autodiff_cli.algebra.table import NodeTable
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.op import ONE, Op
from autodiff_cli.graph.tape import topological
from autodiff_cli.ops.arithmetic import add, div, mul, neg, sub

_MOST_PARTS = 12  # terms or factors that are looked through

Found: TypeAlias = Mapping[Node, Node]  # what stands for each place


class Share(NamedTuple):
    """A term of a sum or a factor of a product; an inverse one is subtracted, or divides."""

    node: Node
    is_inverse: bool


class Occurrence(NamedTuple):
    """A pattern found.

    Attributes:
        found: what stands for each place.
        left: the terms, or factors, that are not of the pattern.
        is_opposite: whether the terms that are taken are the pattern with the other sign, as `cos(x) - 1` is of
            `1 - cos(x)`.
    """

    found: Found
    left: Sequence[Share]
    is_opposite: bool


class Matcher:
    """Finds a pattern.

    Args:
        pattern: a formula over the places, simplified as the graphs are that are searched.
        places: leaves that stand for any nodes.
        optional: those of them that are factors, and may be absent; they are 1 then.
        table: that of the graphs that are searched.

    >>> from autodiff_cli.graph.node import variable
    >>> from autodiff_cli.ops.elementary import cos
    >>> table, place, x, y = NodeTable(), variable("place"), variable("x"), variable("y")
    >>> [(found, left, _)] = Matcher(1 - cos(place), {place}, set(), table).matches(x - cos(y) + 1)
    >>> found[place], left
    (<input y>, [Share(node=<input x>, is_inverse=False)])
    """

    def __init__(self, pattern: Node, places: Set[Node], optional: Set[Node], table: NodeTable) -> None:
        self._pattern = pattern
        self._places = places
        self._optional = optional
        self._table = table
        uses = Counter(child for node in topological([pattern]) for child in node.inputs)
        self._single = {place for place in places if uses[place] == 1}

    def matches(self, node: Node) -> Iterator[Occurrence]:
        """The ways in which a node, or some of its terms or factors, are the pattern."""
        parts_of = _parts_of(self._pattern)
        if parts_of is None:
            yield from (Occurrence(found, (), False) for found in self._match(self._pattern, node, {}))
            return
        patterns, parts = self._ordered(parts_of(self._pattern)), parts_of(node)
        if parts == [Share(node, False)] or len(parts) > _MOST_PARTS:
            return
        for is_opposite in (False, True) if parts_of is terms_of else (False,):
            for found, left in self._match_parts(patterns, _turned(parts, is_opposite), {}, parts_of):
                yield Occurrence(found, _turned(left, is_opposite), is_opposite)

    def _match(self, pattern: Node, node: Node, found: Found) -> Iterator[Found]:
        """The ways in which a whole node is a pattern, given what stands for some places."""
        parts_of = _parts_of(pattern)
        if pattern is node:
            yield found
        elif pattern in self._places:
            if pattern not in found:
                yield {**found, pattern: node}
            elif _is_same(found[pattern], node):
                yield found
        elif pattern.op is None:
            if _is_same(pattern, node):
                yield found
        elif parts_of is not None:
            patterns, parts = self._ordered(parts_of(pattern)), parts_of(node)
            if len(parts) <= _MOST_PARTS:
                ways = self._match_parts(patterns, parts, found, parts_of)
                yield from (found for found, left in ways if not left)
        elif pattern.op is node.op and len(pattern.inputs) == len(node.inputs):
            yield from self._match_all(pattern.inputs, node.inputs, found)

    def _match_all(self, patterns: Sequence[Node], nodes: Sequence[Node], found: Found) -> Iterator[Found]:
        if not patterns:
            yield found
            return
        for first in self._match(patterns[0], nodes[0], found):
            yield from self._match_all(patterns[1:], nodes[1:], first)

    def _ordered(self, patterns: Sequence[Share]) -> list[Share]:
        """Places last: what they stand for may be known by then, or be all that is left."""
        return sorted(patterns, key=lambda part: part.node in self._places)

    def _match_parts(
        self, patterns: Sequence[Share], parts: Sequence[Share], found: Found, parts_of: _PartsOf
    ) -> Iterator[tuple[Found, Sequence[Share]]]:
        """The ways in which some of the parts are the patterns; with each the parts that are left."""
        if not patterns:
            yield found, parts
            return
        (pattern, is_inverse), rest = patterns[0], patterns[1:]
        known = parts_of(found[pattern]) if pattern in found else ()
        if len(known) > 1:  # what a place stands for may be spread among the others
            yield from self._match_parts([*_turned(known, is_inverse), *rest], parts, found, parts_of)
            return
        for i, part in enumerate(parts):
            if part.is_inverse == is_inverse:
                others = [*parts[:i], *parts[i + 1 :]]
                for first in self._match(pattern, part.node, found):
                    yield from self._match_parts(rest, others, first, parts_of)
        if pattern in self._places:
            yield from self._match_rest(patterns, parts, found, parts_of)

    def _match_rest(
        self, patterns: Sequence[Share], parts: Sequence[Share], found: Found, parts_of: _PartsOf
    ) -> Iterator[tuple[Found, Sequence[Share]]]:
        """The ways in which a place stands for all that is left, or for a factor that is absent."""
        (place, is_inverse), rest = patterns[0], patterns[1:]
        if not rest and parts and self._takes(place, is_inverse, parts, parts_of):
            joined = sum_of if parts_of is terms_of else product_of
            whole = joined(self._table, _turned(parts, is_inverse))
            yield from ((first, ()) for first in self._match(place, whole, found))
        if place in self._optional and parts_of is factors_of:
            for first in self._match(place, self._table.leaf(ONE), found):
                yield from self._match_parts(rest, parts, first, parts_of)

    def _takes(self, place: Node, is_inverse: bool, parts: Sequence[Share], parts_of: _PartsOf) -> bool:
        """Whether a place may stand for these parts together: not for 1/x where a denominator is wanted, and for a
        single term with the other sign only if it occurs once, so that no pattern is found with all signs turned."""
        if parts_of is factors_of:
            return not is_inverse or all(part.is_inverse for part in parts)
        return len(parts) > 1 or parts[0].is_inverse == is_inverse or place in self._single


# --- parts


def terms_of(node: Node) -> list[Share]:
    """The terms of a sum; a node that is none is its only term."""
    return _flat(node, add, sub)


def factors_of(node: Node) -> list[Share]:
    """The factors of a product; a minus sign is the factor -1."""
    return _flat(node, mul, div)


_PartsOf: TypeAlias = Callable[[Node], list[Share]]
_MINUS_ONE = Share(-ONE, False)


def _flat(node: Node, join: Op, part: Op) -> list[Share]:
    parts: list[Share] = []
    waiting = [Share(node, False)]
    while waiting and len(parts) <= _MOST_PARTS:
        node, is_inverse = waiting.pop()
        if node.op is join or node.op is part:
            a, b = node.inputs
            waiting += [Share(b, is_inverse != (node.op is part)), Share(a, is_inverse)]
        elif node.op is neg and join is add:
            waiting.append(Share(node.inputs[0], not is_inverse))
        elif node.op is neg and _parts_of(node.inputs[0]) is factors_of:
            waiting += [Share(node.inputs[0], is_inverse), _MINUS_ONE]
        elif join is add or not is_literal(node, 1):
            parts.append(Share(node, is_inverse))
    return parts


def _parts_of(node: Node) -> _PartsOf | None:
    """How a node falls into parts; None if it is neither a sum nor a product."""
    if node.op is add or node.op is sub:
        return terms_of
    return factors_of if node.op is mul or node.op is div else None


def _turned(parts: Sequence[Share], is_turned: bool) -> Sequence[Share]:
    """The parts, or their inverses."""
    return [Share(node, not is_inverse) for node, is_inverse in parts] if is_turned else parts


def sum_of(table: NodeTable, terms: Sequence[Share]) -> Node:
    """Terms as one sum, in their order.

    >>> from autodiff_cli.graph.node import variable
    >>> from autodiff_cli.algebra.table import NodeTable
    >>> x, y = variable("x"), variable("y")
    >>> sum_of(NodeTable(), [Share(x, False), Share(y, True)])
    <sub of 2>
    """
    total, is_inverse = terms[0]
    total = table.apply(neg, total) if is_inverse else total
    for term, is_inverse in terms[1:]:
        total = table.apply(sub if is_inverse else add, total, term)
    return total


def product_of(table: NodeTable, factors: Sequence[Share]) -> Node:
    """Factors as one quotient, in their order.

    >>> from autodiff_cli.graph.node import variable
    >>> from autodiff_cli.algebra.simplify import simplifying
    >>> x, y = variable("x"), variable("y")
    >>> product_of(NodeTable(simplifying(scalar=True)), [Share(x, False), Share(y, True)])
    <div of 2>
    """
    above, below, is_negative = table.leaf(ONE), table.leaf(ONE), False
    for part in factors:
        if part == _MINUS_ONE:
            is_negative = not is_negative
        elif part.is_inverse:
            below = table.apply(mul, below, part.node)
        else:
            above = table.apply(mul, above, part.node)
    quotient = table.apply(div, above, below)
    return table.apply(neg, quotient) if is_negative else quotient


def _is_same(a: Node, b: Node) -> bool:
    """Whether two nodes are the same, up to the order of factors and to how a number is written."""
    if a is b:
        return True
    if a.is_constant and b.is_constant:
        left, right = number(a.text), number(b.text)
        return left is not None and right is not None and left.value == right.value
    return _parts_of(a) is factors_of and Counter(factors_of(a)) == Counter(factors_of(b))
