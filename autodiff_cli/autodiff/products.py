"""Products as a person writes them: a number times powers, collected in a dictionary and written as a quotient.

Roots are powers with halves in their exponents, so that they meet other powers of what stands under them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from typing import NamedTuple

from autodiff_cli.autodiff.exact import UNIT, Number, number
from autodiff_cli.autodiff.simplify import Pass
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.op import ONE, ZERO
from autodiff_cli.ops.arithmetic import abs_, div, mul, neg
from autodiff_cli.ops.elementary import hypot, pow_, sqrt

SHORT = 12  # the most terms or factors that are spread into a formula which is not their only user
_LARGEST_POWER = 64  # of a number that is computed
_HALF = Number(Fraction(1, 2))

Factors = dict[Node, Number]  # exponents by base
Terms = dict[Node, Number]  # coefficients by term; that of the literal 1 is the constant


class Product(NamedTuple):
    """A number times powers of bases."""

    number: Number
    factors: Factors


class Products(Pass):
    """Makes products; of their bases, those that are sums are known by `sums`.

    Args:
        names: the order of symbols; others come after them, as they appear.
        scalar: whether all are numbers. With arrays, nothing is rewritten that could change a shape.
    """

    def __init__(self, names: Sequence[str], scalar: bool) -> None:
        super().__init__()
        self.scalar = scalar
        self.sums: dict[Node, Terms] = {}
        self.one = self.leaf(ONE)
        self._positions = {name: i for i, name in enumerate(names)}
        self._ranks: dict[Node, tuple[int, int]] = {}
        self._products: dict[Node, Product] = {}
        self._known: dict[tuple[Number, frozenset[tuple[Node, Number]]], Node] = {}
        self.openable: set[Node] = set()  # products under roots

    def sum(self, terms: Terms) -> Node:
        """A sum as one node, and its terms entered in `sums`."""
        raise NotImplementedError

    def terms_of(self, node: Node) -> Terms:
        """The terms that a node adds to a sum."""
        raise NotImplementedError

    def settled(self, product: Product) -> Product:
        """The product with factors put together that are one beside each other."""
        raise NotImplementedError

    def entered(self, leaf: Node) -> Node:
        """A leaf of the formula."""
        self._positions.setdefault(leaf.text, len(self._positions))
        return self.leaf(leaf)

    def product_of(self, node: Node) -> Product:
        """The number and the powers that a node is made of."""
        found = self._products.get(node)
        if found is None:
            literal = number(node.text) if node.is_constant else None
            found = Product(UNIT, {node: UNIT}) if literal is None else Product(literal, {})
            self._products[node] = found
        return found

    def product(self, product: Product) -> Node:
        """A product as one node, the same for all orders of its factors."""
        factors = without_zeros(product.factors)
        key = (product.number, frozenset(factors.items()))
        node = self._known.get(key)
        if node is None:
            settled = self.settled(Product(product.number, factors))
            node = self._quotient(settled)
            if node not in self.sums:
                self._products.setdefault(node, settled)
            self._known[key] = node
        return node

    def multiply(self, total: Number, factors: Factors, node: Node, exponent: Number) -> Number:
        """Take a power of a node in as a factor; gives the number in front."""
        size, powers = self.product_of(node)
        if exponent.is_whole and len(powers) <= SHORT:
            scaled = self._times_power(total, size, int(exponent.value))
            if scaled is not None:
                for base, power in powers.items():
                    put(factors, base, power.times(exponent))
                return scaled
        if not exponent.is_whole and node not in powers:
            self.openable.add(node)
        put(factors, node, exponent)
        return total

    def _times_power(self, total: Number, size: Number, by: int) -> Number | None:
        """A number times a power of another; None if it is too large, or a division by 0, which is left to be seen."""
        if size.value == 1:
            return total
        if abs(by) > _LARGEST_POWER or (by < 0 and size.value == 0):
            return None
        scaled = total.times(size.power(by))
        return scaled if scaled.is_moderate else None

    def add_product(self, terms: Terms, product: Product, times: Number = UNIT) -> None:
        """Add a multiple of a product to the terms of a sum."""
        node = self.product(Product(UNIT, product.factors))
        number, factors = self.product_of(node)
        if number.value != 1:
            node = self.product(Product(UNIT, factors))
        put(terms, node, product.number.times(number).times(times))

    def power(self, base: Node, exponent: Node) -> Product | None:
        """A power as a product; None if it is to stay as it is, for its shape."""
        by = self.product_of(exponent)
        if by.factors:
            return self._symbolic_power(base, exponent)
        if by.number.value == 0:
            return Product(UNIT, {}) if self.scalar else None
        if by.number.value.denominator == 2:
            return self.root(base, by.number)
        factors: Factors = {}
        return Product(self.multiply(UNIT, factors, base, by.number), factors)

    def root(self, base: Node, exponent: Number = _HALF) -> Product:
        """A power with a half in its exponent, as a product: sqrt(4*x) as 2*sqrt(x), sqrt(x^2) as abs(x)."""
        product = self.product_of(base)
        size = product.number.root()
        if size is None or not self.scalar:
            factors: Factors = {}
            return Product(self.multiply(UNIT, factors, base, exponent), factors)
        times = size.power(int(exponent.value * 2))
        if all((power.value % 2) == 0 for power in product.factors.values()):
            return Product(times, {self.apply(abs_, b): power.times(exponent) for b, power in product.factors.items()})
        factors = {}
        return Product(self.multiply(times, factors, self.product(Product(UNIT, product.factors)), exponent), factors)

    def _symbolic_power(self, base: Node, exponent: Node) -> Product:
        """`x^(n - 1)` as x^n over x: with other powers of x, the numbers in the exponents add up."""
        product = self.product_of(base)
        single = product.number == UNIT and list(product.factors.values()) == [UNIT]
        terms = self.sums.get(exponent, {})
        shift = terms.get(self.one)
        if not single or shift is None or not shift.is_whole:
            return Product(UNIT, {self.apply(pow_, base, exponent): UNIT})
        rest = self.sum({term: coefficient for term, coefficient in terms.items() if term is not self.one})
        return Product(UNIT, {self.apply(pow_, base, rest): UNIT, base: shift})

    # --- writing

    def _quotient(self, product: Product) -> Node:
        """A product as one quotient, with one sign in front."""
        size, factors = product
        if size.value == 0:
            return self.leaf(ZERO)
        if size.value == -1 and (turned := self._turned(factors)) is not None:
            return turned
        ordered = sorted(factors, key=lambda base: self.rank(base, factors[base]))
        above = [self.raised(base, factors[base]) for base in ordered if factors[base].value > 0]
        # The square of a length would overflow long before the length does: it divides twice.
        lengths = [base for base in ordered if base.op is hypot and factors[base].value == -2]
        below = [
            base if base in lengths else self.raised(base, -factors[base])
            for base in ordered
            if factors[base].value < 0
        ]
        numerator, denominator = (self.one, None) if size.size == 1 else size.quotient()
        if not above or not is_literal(numerator, 1):
            above.insert(0, self.leaf(numerator))
        if denominator is not None:
            below.insert(0, self.leaf(denominator))
        if size.value < 0:
            above[0] = self.apply(neg, above[0])
        node = self._chain(above)
        if below:
            node = self.apply(div, node, self._chain(below))
        for length in lengths:
            node = self.apply(div, node, length)
        return node

    def _chain(self, factors: Sequence[Node]) -> Node:
        return reduce(lambda product, factor: self.apply(mul, product, factor), factors)

    def rank(self, base: Node, exponent: Number) -> tuple[int, int]:
        """Where a power stands: constants, symbols, sums, powers with symbols in the exponent, calls; within a kind in
        the order of their first appearance."""
        if exponent.value.denominator == 2:
            base = self.apply(sqrt, base)
        rank = self._ranks.get(base)
        if rank is None:
            if base.is_input:
                rank = 1, self._positions[base.text]
            else:
                kind = 0 if base.is_constant else 2 if base in self.sums else 3 if base.op is pow_ else 4
                rank = kind, len(self._ranks)
            self._ranks[base] = rank
        return rank

    def raised(self, base: Node, exponent: Number) -> Node:
        """A power of a base."""
        if exponent.value == 1:
            return base
        if exponent.value == _HALF.value:
            power = self.apply(sqrt, base)
        else:
            numerator, denominator = exponent.quotient()
            above = self.leaf(numerator)
            literal = above if denominator is None else self.apply(div, above, self.leaf(denominator))
            power = self.apply(pow_, base, literal)
        if power not in self._products:
            factors: Factors = {}
            self._products[power] = Product(self.multiply(UNIT, factors, base, exponent), factors)
        return power

    def _turned(self, factors: Factors) -> Node | None:
        """The negation of a product with a sum that takes the sign in: -(x - y) is y - x, -(y - 1)*x is (1 - y)*x."""
        for base, exponent in factors.items():
            terms = self.sums.get(base)
            if terms is None or len(terms) > SHORT or exponent.value != 1:
                continue
            if len(factors) == 1 or (len(terms) == 2 and self.one in terms and terms[self.one].value < 0):
                turned = self.sum({term: -coefficient for term, coefficient in terms.items()})
                if turned not in factors:
                    changed = {turned if b is base else b: e for b, e in factors.items()}
                    return self._quotient(Product(UNIT, changed))
        return None


def put(factors: Factors, base: Node, exponent: Number) -> None:
    """Multiply by a power, or add a multiple of a term."""
    factors[base] = factors[base].plus(exponent) if base in factors else exponent


def add_terms(terms: Terms, more: Terms, times: Number = UNIT) -> None:
    """Add a multiple of a sum to another."""
    for term, coefficient in more.items():
        put(terms, term, coefficient.times(times))


def without_zeros(parts: dict[Node, Number]) -> dict[Node, Number]:
    """Factors without powers of 0, or terms without multiples of 0."""
    return {node: number for node, number in parts.items() if number.value}
