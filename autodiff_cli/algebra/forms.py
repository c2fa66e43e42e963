"""Sums and products of readable formulas: dictionaries with exact numbers, and their written forms.

A sum is a dictionary of coefficients by term (`Terms`); a product is a number and a dictionary of exponents by base
(`Product`). `FormTable` knows these dictionaries for its nodes. Sums consist of products and products of sums, so both
are created by the table's methods `sum` and `product`, which apply the passes of `collection`. In a written product
numbers come first, then symbols, sums and calls, with one sign and one quotient.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from autodiff_cli.algebra import exact
from autodiff_cli.algebra.collection import collect_terms, combine_factors, expand_terms
from autodiff_cli.algebra.exact import ExactNumber, Factors, Guard, Product, Terms
from autodiff_cli.algebra.simplify import NodeTable, Rewrite
from autodiff_cli.graph.node import ONE, ZERO, Node, is_literal
from autodiff_cli.ops.arithmetic import add, div, mul, neg, sub, where
from autodiff_cli.ops.functions import hypot, pow_, sqrt

_MAX_POWER = 64  # exponents of numbers; larger powers are not computed


class FormTable:
    """The nodes of readable formulas, with the terms of sums and the factors of products.

    Args:
        names: symbols in the order in which products are written; others come after them, as they appear.
        scalar: whether all nodes are numbers. With arrays, no rewrite changes a shape.
        rules: the rewrites of calls.

    Attributes:
        leaf, apply: create nodes; equal nodes are created once.
        one, zero: the literals 1 and 0.
        symbol_positions: the position of each symbol in products, by name.
        sums: the terms of the nodes that are sums.
        paired_with_one: the term x of sums such as `1 + x` and `x - 1`, by sum.
        under_roots: products that stand under roots.
        guards: the `where` nodes that guard a value by convention.
        contents: the common factors of the terms of sums, and the sum that remains; None for none.
    """

    def __init__(self, names: Sequence[str], scalar: bool, rules: Rewrite) -> None:
        table = NodeTable(rules)
        self.leaf, self.apply = table.leaf, table.apply
        self.scalar = scalar
        self.one, self.zero = self.leaf(ONE), self.leaf(ZERO)
        self.symbol_positions = {name: i for i, name in enumerate(names)}
        self._ranks: dict[Node, tuple[int, int]] = {}
        self.sums: dict[Node, Terms] = {}
        self.paired_with_one: dict[Node, Node] = {}
        self.under_roots: set[Node] = set()
        self.guards: dict[Node, Guard] = {}
        self.contents: dict[Node, tuple[Product, Node] | None] = {}
        self._products: dict[Node, Product] = {}
        self._written_sums: dict[frozenset[tuple[Node, ExactNumber]], Node] = {}
        self._written_products: dict[tuple[ExactNumber, frozenset[tuple[Node, ExactNumber]]], Node] = {}
        self._monomials: dict[Node, bool] = {}

    def add_leaf(self, leaf: Node) -> Node:
        """Return the leaf of the table for a leaf of the formula, and record the position of its symbol."""
        self.symbol_positions.setdefault(leaf.text, len(self.symbol_positions))
        return self.leaf(leaf)

    def product_of(self, node: Node) -> Product:
        """Return a node as a product."""
        product = self._products.get(node)
        if product is None:
            literal = exact.exact_number(node.text) if node.is_constant else None
            product = Product(exact.UNIT, {node: exact.UNIT}) if literal is None else Product(literal, {})
            self._products[node] = product
        return product

    def terms_of(self, node: Node) -> Terms:
        """Return the terms that a node adds to a sum."""
        sum_terms = self.sums.get(node)
        if sum_terms is not None and len(sum_terms) <= exact.MAX_SPREAD:
            return sum_terms
        terms: Terms = {}
        self.add_product(terms, self.product_of(node))
        return terms

    def are_monomials(self, terms: Terms) -> bool:
        """Whether all terms are products of positive powers of symbols, which cannot simplify each other."""
        return all(self._is_monomial(term) for term in terms)

    def _is_monomial(self, term: Node) -> bool:
        is_monomial = self._monomials.get(term)
        if is_monomial is None:
            powers = self.product_of(term).factors.items()
            is_monomial = all(base.op is None and power.value > 0 for base, power in powers)
            self._monomials[term] = is_monomial
        return is_monomial

    def is_guarded(self, base: Node, exponent: ExactNumber) -> bool:
        """Whether a power is 0 by convention where the condition of a guard holds."""
        return base in self.guards and exponent.is_integer and exponent.value > 0

    def sum(self, terms: Terms) -> Node:
        """Return the node of a sum. The order of its terms makes no difference."""
        expanded = exact.without_zeros(expand_terms(self, terms))
        key = frozenset(expanded.items())
        node = self._written_sums.get(key)
        if node is None:
            node = self._write_sum(collect_terms(self, expanded))
            self._written_sums[key] = node
            # Choices with equal branches are collected to their branch, which is no sum of them.
            if len(expanded) > 1 and node.op is not None and not any(node in term.inputs for term in expanded):
                self.sums[node] = expanded
                if len(expanded) == 2 and self.one in expanded and expanded[self.one].magnitude == 1:
                    (self.paired_with_one[node],) = (term for term in expanded if term is not self.one)
        return node

    def product(self, product: Product) -> Node:
        """Return the node of a product. The order of its factors makes no difference."""
        factors = exact.without_zeros(product.factors)
        key = (product.number, frozenset(factors.items()))
        node = self._written_products.get(key)
        if node is None:
            combined = combine_factors(self, Product(product.number, factors))
            node = self._written_products[key] = self._write_product(combined)
            if node not in self.sums:
                self._products.setdefault(node, combined)
        return node

    def guard(self, condition: Node, formula: Node) -> Node:
        """Return the guarded node of a formula: 0 where the condition holds, else the formula."""
        if formula is self.zero:
            return formula
        node = self.apply(where, condition, self.zero, formula)
        self.guards[node] = Guard(condition, formula)
        return node

    def multiply(self, total: ExactNumber, factors: Factors, node: Node, exponent: ExactNumber) -> ExactNumber:
        """Multiply a product by a power of a node.

        Args:
            total: the number of the product.
            factors: the factors of the product, which are changed in place.
            node: the base.
            exponent: the exponent.

        Returns:
            The number of the new product.
        """
        size, powers = self.product_of(node)
        if exponent.is_integer and len(powers) <= exact.MAX_SPREAD:
            scaled = _scaled_by_power(total, size, int(exponent.value))
            if scaled is not None:
                for base, power in powers.items():
                    exact.accumulate(factors, base, power.times(exponent))
                return scaled
        if not exponent.is_integer and node not in powers:
            self.under_roots.add(node)
        exact.accumulate(factors, node, exponent)
        return total

    def add_product(self, terms: Terms, product: Product, times: ExactNumber = exact.UNIT) -> None:
        """Add a multiple of a product to the terms of a sum, in place."""
        node = self.product(Product(exact.UNIT, product.factors))
        number, factors = self.product_of(node)
        if number.value != 1:
            node = self.product(Product(exact.UNIT, factors))
        exact.accumulate(terms, node, product.number.times(number).times(times))

    def _write_sum(self, terms: Terms) -> Node:
        """Write a sum in the order of its terms, but with a positive term first if there is one."""
        if not terms:
            return self.zero
        ordered = list(terms.items())
        first = next((i for i, (_, coefficient) in enumerate(ordered) if coefficient.value > 0), 0)
        ordered.insert(0, ordered.pop(first))
        node = self._scaled(*ordered[0])
        for term, coefficient in ordered[1:]:
            op, size = (sub, -coefficient) if coefficient.value < 0 else (add, coefficient)
            node = self.apply(op, node, self._scaled(term, size))
        return node

    def _scaled(self, term: Node, coefficient: ExactNumber) -> Node:
        return term if coefficient.value == 1 else self.product(Product(coefficient, self.product_of(term).factors))

    def _write_product(self, product: Product) -> Node:
        """Write a product as one quotient, with one sign in front."""
        size, factors = product
        if size.value == 0:
            return self.zero
        if size.value == -1 and (flipped := self._with_flipped_sign(factors)) is not None:
            return flipped
        guards = [base for base in factors if self.is_guarded(base, factors[base])] if self.guards else []
        if guards and product != (exact.UNIT, {guards[0]: exact.UNIT}):
            return self._write_guarded(product, guards)
        ordered = sorted(factors, key=lambda base: self.rank(base, factors[base]))
        above = [self.power(base, factors[base]) for base in ordered if factors[base].value > 0]
        # The square of a hypot could overflow where the hypot does not, so the product is divided by it twice.
        lengths = [base for base in ordered if base.op is hypot and factors[base].value == -2]
        below = [
            base if base in lengths else self.power(base, -factors[base]) for base in ordered if factors[base].value < 0
        ]
        numerator, denominator = (self.one, None) if size.magnitude == 1 else size.quotient()
        if not above or not is_literal(numerator, 1):
            above.insert(0, self.leaf(numerator))
        if denominator is not None:
            below.insert(0, self.leaf(denominator))
        if size.value < 0:
            above[0] = self.apply(neg, above[0])
        node = self._product_chain(above)
        if below:
            node = self.apply(div, node, self._product_chain(below))
        for length in lengths:
            node = self.apply(div, node, length)
        return node

    def _write_guarded(self, product: Product, guards: Sequence[Node]) -> Node:
        """Write a product with a guarded factor, the other factors inside the guard: where(h == 0, 0, a*x/h)."""
        condition = self.guards[guards[0]].condition
        unguarded = [base for base in guards if self.guards[base].condition is condition]
        factors = {base: exponent for base, exponent in product.factors.items() if base not in unguarded}
        number = product.number
        for base in unguarded:
            number = self.multiply(number, factors, self.guards[base].formula, product.factors[base])
        return self.guard(condition, self.product(Product(number, factors)))

    def _with_flipped_sign(self, factors: Factors) -> Node | None:
        """Write the negation of a product by negating a sum in it: -(x - y) is y - x, and -(y - 1)*x is (1 - y)*x.

        None if the product has no suitable sum.
        """
        for base, exponent in factors.items():
            terms = self.sums.get(base)
            if terms is None or len(terms) > exact.MAX_SPREAD or exponent.value != 1:
                continue
            if len(factors) == 1 or (len(terms) == 2 and self.one in terms and terms[self.one].value < 0):
                flipped = self.sum({term: -coefficient for term, coefficient in terms.items()})
                if flipped not in factors:
                    changed = {flipped if b is base else b: e for b, e in factors.items()}
                    return self._write_product(Product(exact.UNIT, changed))
        return None

    def _product_chain(self, factors: Sequence[Node]) -> Node:
        return reduce(lambda product, factor: self.apply(mul, product, factor), factors)

    def rank(self, base: Node, exponent: ExactNumber) -> tuple[int, int]:
        """Return the rank of a power in a product: constants, symbols, sums, powers with symbolic exponents, calls.

        Within a kind, factors are in the order of their first appearance.
        """
        if exponent.value.denominator == 2:
            base = self.apply(sqrt, base)
        rank = self._ranks.get(base)
        if rank is None:
            if base.is_input:
                rank = 1, self.symbol_positions[base.text]
            else:
                kind = 0 if base.is_constant else 2 if base in self.sums else 3 if base.op is pow_ else 4
                rank = kind, len(self._ranks)
            self._ranks[base] = rank
        return rank

    def power(self, base: Node, exponent: ExactNumber) -> Node:
        """Write a power of a base."""
        if exponent.value == 1:
            return base
        if exponent.value * 2 == 1:
            power = self.apply(sqrt, base)
        else:
            numerator, denominator = exponent.quotient()
            above = self.leaf(numerator)
            literal = above if denominator is None else self.apply(div, above, self.leaf(denominator))
            power = self.apply(pow_, base, literal)
        if power not in self._products:
            factors: Factors = {}
            self._products[power] = Product(self.multiply(exact.UNIT, factors, base, exponent), factors)
        return power


def _scaled_by_power(total: ExactNumber, size: ExactNumber, by: int) -> ExactNumber | None:
    """Return a number times a power of another; None if it is too large, or a division by 0, which stays visible."""
    if size.value == 1:
        return total
    if abs(by) > _MAX_POWER or (by < 0 and size.value == 0):
        return None
    scaled = total.times(size.power(by))
    return scaled if scaled.is_short else None
