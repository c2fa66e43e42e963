"""Formulas as a person would write them: for reading, while `simplify` is for evaluating.

Every sum is collected in a dictionary from terms to coefficients, every product in one from bases to exponents, with
exact numbers, and written anew: numbers in front, then symbols, sums, calls. A chain of sums or products is collected
once, at its root, and what has other users as well is spread into it only if it is short: the time is linear.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple

from autodiff_cli.autodiff.chains import find_chains
from autodiff_cli.autodiff.exact import UNIT, Number, number
from autodiff_cli.autodiff.simplify import Pass, is_scalar
from autodiff_cli.graph.helpers import without_helpers
from autodiff_cli.graph.node import Node, constant, is_literal
from autodiff_cli.graph.op import ONE, ZERO
from autodiff_cli.graph.tape import topological
from autodiff_cli.ops.arithmetic import add, div, mul, neg, not_, sub
from autodiff_cli.ops.choice import where
from autodiff_cli.ops.elementary import cos, cosh, exp, hypot, log, pow_, sin, sinh, sqrt, square, tan, tanh

_SHORT = 12  # the most terms or factors that are spread into a formula which is not their only user
_FEW = (2, 3, 4)  # how many terms are multiplied out
_LARGEST_POWER = 64  # of a number that is computed
_KNOWN = {(op, "0"): "1" for op in (exp, cos, cosh)}
_KNOWN |= {(op, "0"): "0" for op in (sin, tan, sinh, tanh, sqrt)}
_KNOWN |= {(log, "1"): "0", (log, "e"): "1", (sqrt, "1"): "1"}


def readable(root: Node, names: Sequence[str] = (), scalar: bool = True) -> Node:
    """The formula as a person would write it.

    Its value is the same where that of the original is finite, up to rounding, and as long as no part overflows:
    helpers are what they stand for, and `x*y*x` is `x^2*y`.

    Args:
        names: the order of symbols in products; others come after them, as they appear.
        scalar: whether every variable is a number. Terms of arrays that cancel are kept, for their shape.
    """
    return _Writer(names, scalar and is_scalar((root,))).run_one(without_helpers(root)[root])


class _Product(NamedTuple):
    """A number times powers of bases."""

    number: Number
    factors: dict[Node, Number]


_Sum = dict[Node, Number]  # coefficients by term; that of the literal 1 is the constant


class _Writer(Pass):
    def __init__(self, names: Sequence[str], scalar: bool) -> None:
        super().__init__()
        self._scalar = scalar
        self._positions = {name: i for i, name in enumerate(names)}
        self._serials: dict[Node, int] = {}
        self._new: dict[Node, Node] = {}
        self._products: dict[Node, _Product] = {}
        self._sums: dict[Node, _Sum] = {}
        self._links: set[Node] = set()
        self._known: dict[tuple[Number, frozenset[tuple[Node, Number]]], Node] = {}
        self._known_sums: dict[frozenset[tuple[Node, Number]], Node] = {}
        self._one = self.leaf(ONE)

    def run_one(self, root: Node) -> Node:
        order = topological((root,))
        sums, self._links = find_chains(order, spread=self._scalar)
        for node in order:
            if node.op is None:
                self._new[node] = self.leaf(node)
                self._positions.setdefault(node.text, len(self._positions))
            elif node not in self._links:
                self._new[node] = self._written(node, node in sums)
        return self._new[root]

    def _written(self, node: Node, is_sum: bool) -> Node:
        if is_sum:
            terms = self._terms(node)
            return self._plain(node) if self._cancels(terms.values()) else self._sum(terms)
        if node.op is mul or node.op is div or node.op is neg:
            product = self._factors(node)
            vanishes = self._cancels(product.factors.values()) or self._cancels([product.number])
            return self._plain(node) if vanishes else self._product(product)
        if node.op is pow_ or node.op is square:
            power = self._power(*self._power_of(node))
            return self._plain(node) if power is None else self._product(power)
        return self._call(node)

    def _cancels(self, numbers: Iterable[Number]) -> bool:
        """Whether something goes away that others may take their shape from."""
        return not self._scalar and any(number.value == 0 for number in numbers)

    def _plain(self, node: Node) -> Node:
        assert node.op is not None
        return self.apply(node.op, *(self._new[child] for child in node.inputs))

    def _call(self, node: Node) -> Node:
        assert node.op is not None
        inputs = tuple(self._new[child] for child in node.inputs)
        if node.op is where and self._scalar:
            condition, a, b = inputs
            if a is b:
                return a
            if condition.op is not_:
                return self.apply(where, condition.inputs[0], b, a)
        known = _KNOWN.get((node.op, inputs[0].text)) if inputs[0].is_constant else None
        if known is not None:
            return self.leaf(constant(known))
        return self.apply(node.op, *inputs)

    # --- sums

    def _terms(self, root: Node) -> _Sum:
        """The terms of a chain of sums."""
        terms: _Sum = {}
        waiting: list[tuple[Node, Number]] = [(root, UNIT)]
        while waiting:
            node, sign = waiting.pop()
            if node is not root and node not in self._links:
                self._add(terms, self._terms_of(self._new[node]), sign)
            elif node.op is neg:
                waiting.append((node.inputs[0], -sign))
            else:
                a, b = node.inputs
                waiting += [(b, -sign if node.op is sub else sign), (a, sign)]
        return terms

    def _terms_of(self, node: Node) -> _Sum:
        """The terms that a node adds to a sum."""
        found = self._sums.get(node)
        if found is not None and len(found) <= _SHORT:
            return found
        number, factors = self._split(node)
        return {node if number == UNIT else self._product(_Product(UNIT, factors)): number}

    def _add(self, terms: _Sum, more: _Sum, sign: Number = UNIT) -> None:
        for term, coefficient in more.items():
            signed = coefficient.times(sign)
            terms[term] = terms[term].plus(signed) if term in terms else signed

    def _sum(self, terms: _Sum) -> Node:
        """A sum, with a positive term in front if there is one."""
        if self._scalar:
            terms = self._multiplied_out(terms)
        kept = [(term, coefficient) for term, coefficient in terms.items() if coefficient.value]
        if not kept:
            return self.leaf(ZERO)
        key = frozenset(kept)
        node = self._known_sums.get(key)
        if node is None:
            first = next((i for i, (_, coefficient) in enumerate(kept) if coefficient.value > 0), 0)
            kept.insert(0, kept.pop(first))
            node = self._known_sums[key] = self._added(kept)
            if len(kept) > 1:
                self._sums[node] = dict(kept)
        return node

    def _multiplied_out(self, terms: _Sum) -> _Sum:
        """The terms, those that are multiples of a sum multiplied out where that gives terms that are there already."""
        parts = {term: self._parts(term) for term in terms}
        counts = Counter(part for found in parts.values() for part in found)
        collected: _Sum = {}
        for term, coefficient in terms.items():
            meets = any(counts[part] > 1 for part in parts[term])
            self._add(collected, parts[term] if meets else {term: UNIT}, coefficient)
        return collected

    def _parts(self, term: Node) -> _Sum:
        """A term multiplied out, if one of its factors is a sum of few terms; else the term itself."""
        factors = self._split(term).factors
        sums = [base for base, power in factors.items() if power == UNIT and len(self._sums.get(base, ())) in _FEW]
        if len(sums) != 1:
            return {term: UNIT}
        parts: _Sum = {}
        for part, coefficient in self._sums[sums[0]].items():
            product = {base: power for base, power in factors.items() if base is not sums[0]}
            for base, power in self._split(part).factors.items():
                product[base] = product[base].plus(power) if base in product else power
            self._add(parts, {self._product(_Product(UNIT, product)): coefficient})
        return parts

    def _added(self, terms: Sequence[tuple[Node, Number]]) -> Node:
        node = self._scaled(*terms[0])
        for term, coefficient in terms[1:]:
            if coefficient.value < 0:
                node = self.apply(sub, node, self._scaled(term, -coefficient))
            else:
                node = self.apply(add, node, self._scaled(term, coefficient))
        return node

    def _scaled(self, term: Node, coefficient: Number) -> Node:
        return self._product(_Product(coefficient, self._split(term).factors))

    # --- products

    def _split(self, node: Node) -> _Product:
        """The number and the powers that a node is made of."""
        found = self._products.get(node)
        if found is None:
            literal = number(node.text) if node.is_constant else None
            found = _Product(UNIT, {node: UNIT}) if literal is None else _Product(literal, {})
            self._products[node] = found
        return found

    def _factors(self, root: Node) -> _Product:
        """The factors of a chain of products."""
        total = UNIT
        factors: dict[Node, Number] = {}
        waiting: list[tuple[Node, int]] = [(root, 1)]
        while waiting:
            node, side = waiting.pop()
            if node is not root and node not in self._links:
                total = self._multiply(total, factors, self._new[node], side)
            elif node.op is neg:
                total = -total
                waiting.append((node.inputs[0], side))
            else:
                a, b = node.inputs
                waiting += [(b, -side if node.op is div else side), (a, side)]
        return _Product(total, factors)

    def _multiply(self, total: Number, factors: dict[Node, Number], node: Node, side: int) -> Number:
        """Take a node in as a factor, or a divisor; gives the number in front."""
        product = self._split(node)
        if len(product.factors) > _SHORT:
            product = _Product(UNIT, {node: UNIT})
        if side < 0 and product.number.value == 0:  # a division by 0 is left to be seen
            product = _Product(UNIT, {node: UNIT})
        scaled = total.times(product.number if side > 0 else product.number.power(-1))
        if not scaled.is_moderate:
            scaled, product = total, _Product(UNIT, {node: UNIT})
        for base, exponent in product.factors.items():
            more = exponent if side > 0 else -exponent
            factors[base] = factors[base].plus(more) if base in factors else more
        return scaled

    def _power_of(self, node: Node) -> tuple[Node, Node]:
        base = self._new[node.inputs[0]]
        return base, self._new[node.inputs[1]] if node.op is pow_ else self.leaf(constant("2"))

    def _power(self, base: Node, exponent: Node) -> _Product | None:
        """A power as a product; None if it is to stay as it is, for its shape."""
        product, power = self._split(base), self._split(exponent)
        single = product.number == UNIT and list(product.factors.values()) == [UNIT]
        if power.factors:
            return self._symbolic_power(base, exponent, single)
        by = power.number
        if by.value == 0:
            return _Product(UNIT, {}) if self._scalar else None
        if not by.is_whole:
            return _Product(UNIT, {base: by})
        if abs(int(by.value)) <= _LARGEST_POWER and (product.number.value or by.value > 0):
            scaled = product.number.power(int(by.value))
            if scaled.is_moderate and len(product.factors) <= _SHORT:
                return _Product(scaled, {b: e.times(by) for b, e in product.factors.items()})
        return _Product(UNIT, {self.apply(pow_, base, exponent): UNIT})

    def _symbolic_power(self, base: Node, exponent: Node, single: bool) -> _Product:
        """`x^(n - 1)` as x^n over x: with other powers of x, the numbers in the exponents add up."""
        terms = self._sums.get(exponent, {})
        shift = terms.get(self._one)
        if not single or shift is None or not shift.is_whole:
            return _Product(UNIT, {self.apply(pow_, base, exponent): UNIT})
        rest = self._sum({term: coefficient for term, coefficient in terms.items() if term is not self._one})
        return _Product(UNIT, {self.apply(pow_, base, rest): UNIT, base: shift})

    def _product(self, product: _Product) -> Node:
        """A product as one node, the same for all orders of its factors."""
        factors = {base: exponent for base, exponent in product.factors.items() if exponent.value}
        key = (product.number, frozenset(factors.items()))
        node = self._known.get(key)
        if node is None:
            node = self._known[key] = self._quotient(product.number, factors)
            if node not in self._sums:
                self._products.setdefault(node, _Product(product.number, factors))
        return node

    def _quotient(self, size: Number, factors: dict[Node, Number]) -> Node:
        """A product as one quotient, with one sign in front."""
        if size.value == 0:
            return self.leaf(ZERO)
        factors = self._with_shifted_exponents(factors)
        if size.value == -1 and (turned := self._turned(factors)) is not None:
            return turned
        ordered = sorted(factors, key=self._rank)
        above = [self._raised(base, factors[base]) for base in ordered if factors[base].value > 0]
        # The square of a length would overflow long before the length does: it divides twice.
        lengths = [base for base in ordered if base.op is hypot and factors[base].value == -2]
        below = [
            base if base in lengths else self._raised(base, -factors[base])
            for base in ordered
            if factors[base].value < 0
        ]
        numerator, denominator = size.quotient()
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

    def _rank(self, base: Node) -> tuple[int, int]:
        """Where a factor stands: constants, symbols, sums, powers with symbols in the exponent, calls; within a kind
        in the order of their first appearance."""
        if base.is_input:
            return 1, self._positions[base.text]
        kind = 0 if base.is_constant else 2 if base in self._sums else 3 if base.op is pow_ else 4
        return kind, self._serials.setdefault(base, len(self._serials))

    def _raised(self, base: Node, exponent: Number) -> Node:
        if exponent.value == 1:
            return base
        numerator, denominator = exponent.quotient()
        above = self.leaf(numerator)
        power = self.apply(pow_, base, above if denominator is None else self.apply(div, above, self.leaf(denominator)))
        self._products.setdefault(power, _Product(UNIT, {base: exponent}))
        return power

    def _with_shifted_exponents(self, factors: dict[Node, Number]) -> dict[Node, Number]:
        """Symbolic powers that take in the other powers of their base: x^n times x is x^(n + 1)."""
        changed: dict[Node, Number] = dict(factors)
        for power, side in factors.items():
            if power.op is not pow_ or abs(side.value) != 1:
                continue
            base, exponent = power.inputs
            shift = changed.get(base)
            if shift is None or not shift.is_whole:
                continue
            del changed[base], changed[power]
            terms = dict(self._terms_of(exponent))
            self._add(terms, {self._one: shift.times(side)})
            changed[self.apply(pow_, base, self._sum(terms))] = side
        return changed

    def _turned(self, factors: dict[Node, Number]) -> Node | None:
        """The negation of a product with a sum that takes the sign in: -(x - y) is y - x, -(y - 1)*x is (1 - y)*x."""
        for base, exponent in factors.items():
            terms = self._sums.get(base)
            if terms is None or len(terms) > _SHORT or exponent != UNIT:
                continue
            if len(factors) == 1 or (len(terms) == 2 and self._one in terms and terms[self._one].value < 0):
                turned = self._sum({term: -coefficient for term, coefficient in terms.items()})
                if turned not in factors:
                    return self._quotient(UNIT, {turned if b is base else b: e for b, e in factors.items()})
        return None
