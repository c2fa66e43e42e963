"""Sums and products of readable formulas, as dictionaries with exact numbers, and how they are written.

A sum is a dictionary of coefficients by term (`Terms`); a product is a number and a dictionary of exponents by base
(`Product`). `FormTable` knows these dictionaries for its nodes. Sums consist of products and products of sums, so both
are created by the table's methods `sum` and `product`, which apply the passes of `collection`. In a written product
numbers come first, then symbols, sums and calls, with one sign and one quotient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from autodiff_cli.algebra.simplify import UNIT, ExactNumber, exact_number
from autodiff_cli.algebra.table import NodeTable, Rewrite
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.op import ONE, ZERO
from autodiff_cli.ops.arithmetic import add, div, mul, neg, sub, where
from autodiff_cli.ops.elementary import hypot, pow_, sqrt

# --- Terms and factors

# Terms or factors that are inlined into a formula which is not their only user; more would take quadratic time.
MAX_SPREAD = 12
EXPANDABLE_COUNTS = (2, 3, 4)  # numbers of terms of sums that are multiplied out; longer products grow too much

Factors = dict[Node, ExactNumber]  # exponents by base; the exponents of roots are multiples of 1/2
Terms = dict[Node, ExactNumber]  # coefficients by term; the term of the constant is the literal 1


class Product(NamedTuple):
    """A product.

    Attributes:
        number: the literal factor.
        factors: the exponents of all other factors, by base.
    """

    number: ExactNumber
    factors: Factors


class Guard(NamedTuple):
    """A formula that is 0 by convention where a condition holds, because it has no value there."""

    condition: Node
    formula: Node


def accumulate(parts: dict[Node, ExactNumber], node: Node, number: ExactNumber) -> None:
    """Multiply factors by a power of a base, or add a multiple of a term to terms, in place."""
    parts[node] = parts[node].plus(number) if node in parts else number


def add_terms(terms: Terms, more: Terms, times: ExactNumber = UNIT) -> None:
    """Add a multiple of one sum to another, in place."""
    for term, coefficient in more.items():
        accumulate(terms, term, coefficient.times(times))


def without_zeros(parts: dict[Node, ExactNumber]) -> dict[Node, ExactNumber]:
    """Return factors without exponents of 0, or terms without coefficients of 0."""
    return {node: number for node, number in parts.items() if number.value}


def replace_members(terms: Terms, members: Sequence[Node], one: Node) -> Terms:
    """Return terms in which one term replaces several, at the place of the first of them."""
    changed: Terms = {}
    for term, coefficient in terms.items():
        if term is members[0]:
            accumulate(changed, one, UNIT)
        elif term not in members:
            accumulate(changed, term, coefficient)
    return changed


# --- The table

_MAX_POWER = 64  # exponents of numbers; larger powers are not computed


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes that turn collected terms and factors into nodes.

    Attributes:
        expand: multiplies out products of sums, where the result cancels or combines with other terms.
        collect: combines terms where that is shorter: over a common denominator, or with a common factor.
        write_sum: writes terms as a node.
        combine: combines factors that become one, such as powers of the same base.
        write_product: writes a product as a node.
    """

    expand: Callable[[FormTable, Terms], Terms]
    collect: Callable[[FormTable, Terms], Terms]
    write_sum: Callable[[FormTable, Terms], Node]
    combine: Callable[[FormTable, Product], Product]
    write_product: Callable[[FormTable, Product], Node]


class FormTable:
    """The nodes of readable formulas, with the terms of sums and the factors of products.

    Args:
        names: symbols in the order in which products are written; others come after them, as they appear.
        scalar: whether all nodes are numbers. With arrays, no rewrite changes a shape.
        rules: the rewrites of calls.
        passes: the passes that create sums and products.

    Attributes:
        leaf, apply: create nodes; equal nodes are created once.
        one, zero: the literals 1 and 0.
        symbol_positions: the position of each symbol in products, by name.
        ranks: the rank of each base in products: see `factor_rank`.
        sums: the terms of the nodes that are sums.
        paired_with_one: the term x of sums such as `1 + x` and `x - 1`, by sum.
        under_roots: products that stand under roots.
        guards: the `where` nodes that guard a value by convention.
        contents: the common factors of the terms of sums, and the sum that remains; None for none.
    """

    def __init__(self, names: Sequence[str], scalar: bool, rules: Rewrite, passes: Passes) -> None:
        table = NodeTable(rules)
        self.leaf, self.apply = table.leaf, table.apply
        self.scalar = scalar
        self.one, self.zero = self.leaf(ONE), self.leaf(ZERO)
        self.symbol_positions = {name: i for i, name in enumerate(names)}
        self.ranks: dict[Node, tuple[int, int]] = {}
        self.sums: dict[Node, Terms] = {}
        self.paired_with_one: dict[Node, Node] = {}
        self.under_roots: set[Node] = set()
        self.guards: dict[Node, Guard] = {}
        self.contents: dict[Node, tuple[Product, Node] | None] = {}
        self._passes = passes
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
            literal = exact_number(node.text) if node.is_constant else None
            product = Product(UNIT, {node: UNIT}) if literal is None else Product(literal, {})
            self._products[node] = product
        return product

    def terms_of(self, node: Node) -> Terms:
        """Return the terms that a node adds to a sum."""
        sum_terms = self.sums.get(node)
        if sum_terms is not None and len(sum_terms) <= MAX_SPREAD:
            return sum_terms
        terms: Terms = {}
        self.add_product(terms, self.product_of(node))
        return terms

    def are_monomials(self, terms: Terms) -> bool:
        """Whether all terms are products of positive powers of symbols, which cannot simplify one another."""
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
        expanded = without_zeros(self._passes.expand(self, terms))
        key = frozenset(expanded.items())
        node = self._written_sums.get(key)
        if node is None:
            node = self._passes.write_sum(self, self._passes.collect(self, expanded))
            self._written_sums[key] = node
            if len(expanded) > 1 and node.op is not None:
                self._register_sum(node, expanded)
        return node

    def _register_sum(self, node: Node, terms: Terms) -> None:
        self.sums[node] = terms
        if len(terms) == 2 and self.one in terms and terms[self.one].magnitude == 1:
            (self.paired_with_one[node],) = (term for term in terms if term is not self.one)

    def product(self, product: Product) -> Node:
        """Return the node of a product. The order of its factors makes no difference."""
        factors = without_zeros(product.factors)
        key = (product.number, frozenset(factors.items()))
        node = self._written_products.get(key)
        if node is None:
            combined = self._passes.combine(self, Product(product.number, factors))
            node = self._written_products[key] = self._passes.write_product(self, combined)
            if node not in self.sums:
                self._products.setdefault(node, combined)
        return node

    def register_power(self, node: Node, base: Node, exponent: ExactNumber) -> None:
        """Record that a node is a power of a base."""
        if node not in self._products:
            factors: Factors = {}
            self._products[node] = Product(self.multiply(UNIT, factors, base, exponent), factors)

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
        if exponent.is_integer and len(powers) <= MAX_SPREAD:
            scaled = _scaled_by_power(total, size, int(exponent.value))
            if scaled is not None:
                for base, power in powers.items():
                    accumulate(factors, base, power.times(exponent))
                return scaled
        if not exponent.is_integer and node not in powers:
            self.under_roots.add(node)
        accumulate(factors, node, exponent)
        return total

    def add_product(self, terms: Terms, product: Product, times: ExactNumber = UNIT) -> None:
        """Add a multiple of a product to the terms of a sum, in place."""
        node = self.product(Product(UNIT, product.factors))
        number, factors = self.product_of(node)
        if number.value != 1:
            node = self.product(Product(UNIT, factors))
        accumulate(terms, node, product.number.times(number).times(times))


def _scaled_by_power(total: ExactNumber, size: ExactNumber, by: int) -> ExactNumber | None:
    """Return a number times a power of another; None if it is too large, or a division by 0, which stays visible."""
    if size.value == 1:
        return total
    if abs(by) > _MAX_POWER or (by < 0 and size.value == 0):
        return None
    scaled = total.times(size.power(by))
    return scaled if scaled.is_short else None


# --- Writing


def write_sum(forms: FormTable, terms: Terms) -> Node:
    """Write a sum in the order of its terms, but with a positive term first if there is one."""
    if not terms:
        return forms.zero
    ordered = list(terms.items())
    first = next((i for i, (_, coefficient) in enumerate(ordered) if coefficient.value > 0), 0)
    ordered.insert(0, ordered.pop(first))
    node = _scaled(forms, *ordered[0])
    for term, coefficient in ordered[1:]:
        op, size = (sub, -coefficient) if coefficient.value < 0 else (add, coefficient)
        node = forms.apply(op, node, _scaled(forms, term, size))
    return node


def _scaled(forms: FormTable, term: Node, coefficient: ExactNumber) -> Node:
    if coefficient.value == 1:
        return term
    return forms.product(Product(coefficient, forms.product_of(term).factors))


def write_product(forms: FormTable, product: Product) -> Node:
    """Write a product as one quotient, with one sign in front."""
    size, factors = product
    if size.value == 0:
        return forms.zero
    if size.value == -1 and (flipped := _with_flipped_sign(forms, factors)) is not None:
        return flipped
    guards = [base for base in factors if forms.is_guarded(base, factors[base])] if forms.guards else []
    if guards and product != (UNIT, {guards[0]: UNIT}):
        return _write_guarded(forms, product, guards)
    ordered = sorted(factors, key=lambda base: factor_rank(forms, base, factors[base]))
    above = [write_power(forms, base, factors[base]) for base in ordered if factors[base].value > 0]
    # The square of a hypot could overflow where the hypot does not, so the product is divided by it twice.
    lengths = [base for base in ordered if base.op is hypot and factors[base].value == -2]
    below = [
        base if base in lengths else write_power(forms, base, -factors[base])
        for base in ordered
        if factors[base].value < 0
    ]
    numerator, denominator = (forms.one, None) if size.magnitude == 1 else size.quotient()
    if not above or not is_literal(numerator, 1):
        above.insert(0, forms.leaf(numerator))
    if denominator is not None:
        below.insert(0, forms.leaf(denominator))
    if size.value < 0:
        above[0] = forms.apply(neg, above[0])
    node = _product_chain(forms, above)
    if below:
        node = forms.apply(div, node, _product_chain(forms, below))
    for length in lengths:
        node = forms.apply(div, node, length)
    return node


def _write_guarded(forms: FormTable, product: Product, guards: Sequence[Node]) -> Node:
    """Write a product with a guarded factor, the other factors inside the guard: where(h == 0, 0, a*x/h)."""
    condition = forms.guards[guards[0]].condition
    unguarded = [base for base in guards if forms.guards[base].condition is condition]
    factors = {base: exponent for base, exponent in product.factors.items() if base not in unguarded}
    number = product.number
    for base in unguarded:
        number = forms.multiply(number, factors, forms.guards[base].formula, product.factors[base])
    return forms.guard(condition, forms.product(Product(number, factors)))


def _with_flipped_sign(forms: FormTable, factors: Factors) -> Node | None:
    """Write the negation of a product by negating a sum in it: -(x - y) is y - x, and -(y - 1)*x is (1 - y)*x.

    None if the product has no suitable sum.
    """
    for base, exponent in factors.items():
        terms = forms.sums.get(base)
        if terms is None or len(terms) > MAX_SPREAD or exponent.value != 1:
            continue
        if len(factors) == 1 or (len(terms) == 2 and forms.one in terms and terms[forms.one].value < 0):
            flipped = forms.sum({term: -coefficient for term, coefficient in terms.items()})
            if flipped not in factors:
                changed = {flipped if b is base else b: e for b, e in factors.items()}
                return write_product(forms, Product(UNIT, changed))
    return None


def _product_chain(forms: FormTable, factors: Sequence[Node]) -> Node:
    return reduce(lambda product, factor: forms.apply(mul, product, factor), factors)


def factor_rank(forms: FormTable, base: Node, exponent: ExactNumber) -> tuple[int, int]:
    """Return the rank of a power in a product: constants, symbols, sums, powers with symbolic exponents, calls.

    Within a kind, factors are in the order of their first appearance.
    """
    if exponent.value.denominator == 2:
        base = forms.apply(sqrt, base)
    rank = forms.ranks.get(base)
    if rank is None:
        if base.is_input:
            rank = 1, forms.symbol_positions[base.text]
        else:
            kind = 0 if base.is_constant else 2 if base in forms.sums else 3 if base.op is pow_ else 4
            rank = kind, len(forms.ranks)
        forms.ranks[base] = rank
    return rank


def write_power(forms: FormTable, base: Node, exponent: ExactNumber) -> Node:
    """Write a power of a base."""
    if exponent.value == 1:
        return base
    if exponent.value * 2 == 1:
        power = forms.apply(sqrt, base)
    else:
        numerator, denominator = exponent.quotient()
        above = forms.leaf(numerator)
        literal = above if denominator is None else forms.apply(div, above, forms.leaf(denominator))
        power = forms.apply(pow_, base, literal)
    forms.register_power(power, base, exponent)
    return power
