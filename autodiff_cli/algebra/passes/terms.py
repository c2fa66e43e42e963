"""Sums and products as dictionaries: coefficients by term, exponents by base, with exact numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autodiff_cli.algebra.exact import UNIT, Number
from autodiff_cli.graph.node import Node

SHORT = 12  # the most terms or factors that are spread into a formula which is not their only user
FEW = (2, 3, 4)  # how many terms are multiplied out

Factors = dict[Node, Number]  # exponents by base; a root is a power with a half in its exponent
Terms = dict[Node, Number]  # coefficients by term; that of the literal 1 is the constant


class Product(NamedTuple):
    """A number times powers of bases."""

    number: Number
    factors: Factors


class Guard(NamedTuple):
    """A formula that is 0 by convention where a condition holds, since it has no value there."""

    condition: Node
    formula: Node


def put(parts: dict[Node, Number], node: Node, number: Number) -> None:
    """Multiply factors by a power of a base, or add a multiple of a term to terms."""
    parts[node] = parts[node].plus(number) if node in parts else number


def add_terms(terms: Terms, more: Terms, times: Number = UNIT) -> None:
    """Add a multiple of a sum to another."""
    for term, coefficient in more.items():
        put(terms, term, coefficient.times(times))


def without_zeros(parts: dict[Node, Number]) -> dict[Node, Number]:
    """Factors without powers of 0, or terms without multiples of 0."""
    return {node: number for node, number in parts.items() if number.value}


def with_one_for(terms: Terms, members: Sequence[Node], one: Node) -> Terms:
    """Terms with one in the place of several, where the first of them stands."""
    changed: Terms = {}
    for term, coefficient in terms.items():
        if term is members[0]:
            put(changed, one, UNIT)
        elif term not in members:
            put(changed, term, coefficient)
    return changed
