"""What is known of the nodes of tidy formulas: which are sums, of which terms, and which are products, of which powers.

A sum is made of products and a product of sums. So both are asked for here, by `sum` and `product`, and made by the
passes that are given: functions over this table, each of which does one thing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autodiff_cli.algebra.exact import UNIT, Number, number
from autodiff_cli.algebra.passes.terms import SHORT, Factors, Guard, Product, Terms, put, without_zeros
from autodiff_cli.algebra.table import NodeTable
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import ONE, ZERO
from autodiff_cli.ops.choice import where

_LARGEST_POWER = 64  # of a number that is computed


@dataclass(frozen=True, slots=True)
class Passes:
    """How a sum and a product come from what was collected.

    Attributes:
        spread: the terms of a sum that are multiples of sums, multiplied out where they meet others.
        gather: terms put together that are shorter so: over one denominator, in front of one bracket.
        write_sum: terms as a node.
        settle: factors put together that are one beside each other.
        write_product: a number and factors as a node.
    """

    spread: Callable[[Forms, Terms], Terms]
    gather: Callable[[Forms, Terms], Terms]
    write_sum: Callable[[Forms, Terms], Node]
    settle: Callable[[Forms, Product], Product]
    write_product: Callable[[Forms, Product], Node]


class Forms:
    """The table of tidy formulas.

    Args:
        names: the order of symbols; others come after them, as they appear.
        scalar: whether all are numbers. With arrays, nothing is rewritten that could change a shape.
        passes: how sums and products are made.

    Attributes:
        leaf, apply: make nodes, each only once.
        one, zero: the literals 1 and 0.
        positions: of symbols, by name.
        ranks: where bases stand in a product.
        sums: the terms of the nodes that are sums.
        beside_one: the x of `1 + x` and `x - 1`, by these sums.
        openable: products under roots.
        guards: the `where` nodes that guard a value by convention.
        contents: what the terms of sums have in common, and what is left of them.
    """

    def __init__(self, names: Sequence[str], scalar: bool, passes: Passes) -> None:
        table = NodeTable()
        self.leaf, self.apply = table.leaf, table.apply
        self.scalar = scalar
        self.one, self.zero = self.leaf(ONE), self.leaf(ZERO)
        self.positions = {name: i for i, name in enumerate(names)}
        self.ranks: dict[Node, tuple[int, int]] = {}
        self.sums: dict[Node, Terms] = {}
        self.beside_one: dict[Node, Node] = {}
        self.openable: set[Node] = set()
        self.guards: dict[Node, Guard] = {}
        self.contents: dict[Node, tuple[Product, Node] | None] = {}
        self._passes = passes
        self._products: dict[Node, Product] = {}
        self._written_sums: dict[frozenset[tuple[Node, Number]], Node] = {}
        self._written_products: dict[tuple[Number, frozenset[tuple[Node, Number]]], Node] = {}
        self._monomials: dict[Node, bool] = {}

    def entered(self, leaf: Node) -> Node:
        """A leaf of the formula."""
        self.positions.setdefault(leaf.text, len(self.positions))
        return self.leaf(leaf)

    # --- what is known

    def product_of(self, node: Node) -> Product:
        """The number and the powers that a node is made of."""
        found = self._products.get(node)
        if found is None:
            literal = number(node.text) if node.is_constant else None
            found = Product(UNIT, {node: UNIT}) if literal is None else Product(literal, {})
            self._products[node] = found
        return found

    def terms_of(self, node: Node) -> Terms:
        """The terms that a node adds to a sum."""
        found = self.sums.get(node)
        if found is not None and len(found) <= SHORT:
            return found
        terms: Terms = {}
        self.add_product(terms, self.product_of(node))
        return terms

    def are_monomials(self, terms: Terms) -> bool:
        """Whether all terms are products of powers of symbols: then none can simplify another."""
        return all(self._is_monomial(term) for term in terms)

    def _is_monomial(self, term: Node) -> bool:
        found = self._monomials.get(term)
        if found is None:
            powers = self.product_of(term).factors.items()
            found = self._monomials[term] = all(base.op is None and power.value > 0 for base, power in powers)
        return found

    def is_guarded(self, base: Node, exponent: Number) -> bool:
        """Whether a power is 0 by convention where the condition of a guard holds."""
        return base in self.guards and exponent.is_whole and exponent.value > 0

    # --- what is made

    def sum(self, terms: Terms) -> Node:
        """A sum as one node, the same for all orders of its terms."""
        kept = without_zeros(self._passes.spread(self, terms))
        key = frozenset(kept.items())
        node = self._written_sums.get(key)
        if node is None:
            node = self._passes.write_sum(self, self._passes.gather(self, kept))
            self._written_sums[key] = node
            if len(kept) > 1 and node.op is not None:
                self._enter_sum(node, kept)
        return node

    def _enter_sum(self, node: Node, terms: Terms) -> None:
        self.sums[node] = terms
        if len(terms) == 2 and self.one in terms and terms[self.one].size == 1:
            (self.beside_one[node],) = (term for term in terms if term is not self.one)

    def product(self, product: Product) -> Node:
        """A product as one node, the same for all orders of its factors."""
        factors = without_zeros(product.factors)
        key = (product.number, frozenset(factors.items()))
        node = self._written_products.get(key)
        if node is None:
            settled = self._passes.settle(self, Product(product.number, factors))
            node = self._written_products[key] = self._passes.write_product(self, settled)
            if node not in self.sums:
                self._products.setdefault(node, settled)
        return node

    def enter_power(self, node: Node, base: Node, exponent: Number) -> None:
        """Make known that a node is a power of a base."""
        if node not in self._products:
            factors: Factors = {}
            self._products[node] = Product(self.multiply(UNIT, factors, base, exponent), factors)

    def guard(self, condition: Node, formula: Node) -> Node:
        """A formula as one node that is 0 where the condition holds."""
        node = self.apply(where, condition, self.zero, formula)
        self.guards[node] = Guard(condition, formula)
        return node

    # --- what is collected

    def multiply(self, total: Number, factors: Factors, node: Node, exponent: Number) -> Number:
        """Take a power of a node in as a factor; gives the number in front."""
        size, powers = self.product_of(node)
        if exponent.is_whole and len(powers) <= SHORT:
            scaled = _times_power(total, size, int(exponent.value))
            if scaled is not None:
                for base, power in powers.items():
                    put(factors, base, power.times(exponent))
                return scaled
        if not exponent.is_whole and node not in powers:
            self.openable.add(node)
        put(factors, node, exponent)
        return total

    def add_product(self, terms: Terms, product: Product, times: Number = UNIT) -> None:
        """Add a multiple of a product to the terms of a sum."""
        node = self.product(Product(UNIT, product.factors))
        number, factors = self.product_of(node)
        if number.value != 1:
            node = self.product(Product(UNIT, factors))
        put(terms, node, product.number.times(number).times(times))


def _times_power(total: Number, size: Number, by: int) -> Number | None:
    """A number times a power of another; None if it is too large, or a division by 0, which is left to be seen."""
    if size.value == 1:
        return total
    if abs(by) > _LARGEST_POWER or (by < 0 and size.value == 0):
        return None
    scaled = total.times(size.power(by))
    return scaled if scaled.is_moderate else None
