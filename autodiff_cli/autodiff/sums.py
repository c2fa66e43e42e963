"""Sums as a person writes them: coefficients by term, collected in a dictionary, and grouped by their calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from autodiff_cli.autodiff.exact import UNIT, Number
from autodiff_cli.autodiff.factors import SettledProducts
from autodiff_cli.autodiff.products import SHORT, Factors, Product, Terms, add_terms, put, without_zeros
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import ZERO
from autodiff_cli.ops.arithmetic import add, sub

_FEW = (2, 3, 4)  # how many terms are multiplied out
_FINITE = {"abs", "atan", "cos", "cosh", "erf", "exp", "sigmoid", "sin", "sinh", "tanh"}  # at every finite point


class Sums(SettledProducts):
    """Makes sums, and the products that they are made of."""

    def __init__(self, names: Sequence[str], scalar: bool) -> None:
        super().__init__(names, scalar)
        self._monomials: dict[Node, bool] = {}
        self._known_sums: dict[frozenset[tuple[Node, Number]], Node] = {}

    def terms_of(self, node: Node) -> Terms:
        """The terms that a node adds to a sum."""
        found = self.sums.get(node)
        if found is not None and len(found) <= SHORT:
            return found
        terms: Terms = {}
        self.add_product(terms, self.product_of(node))
        return terms

    def sum(self, terms: Terms) -> Node:
        """A sum as one node, and its terms entered in `sums`."""
        is_plain = not self.scalar or all(self._is_monomial(term) for term in terms)
        kept = without_zeros(terms if is_plain else self._multiplied_out(terms))
        key = frozenset(kept.items())
        node = self._known_sums.get(key)
        if node is None:
            node = self._known_sums[key] = self._added(kept if is_plain else self._put_together(kept))
            if len(kept) > 1 and node.op is not None:
                self._enter(node, kept)
        return node

    def _enter(self, node: Node, terms: Terms) -> None:
        self.sums[node] = terms
        if len(terms) == 2 and self.one in terms and terms[self.one].size == 1:
            (self.beside_one[node],) = (term for term in terms if term is not self.one)

    def _is_monomial(self, term: Node) -> bool:
        """Whether a term is a product of powers of symbols, which no other term can simplify."""
        found = self._monomials.get(term)
        if found is None:
            powers = self.product_of(term).factors.items()
            found = self._monomials[term] = all(base.op is None and power.value > 0 for base, power in powers)
        return found

    def _multiplied_out(self, terms: Terms) -> Terms:
        """The terms, those that are multiples of a sum multiplied out where that gives terms that are there already."""
        parts = {term: self._parts(term) for term in terms}
        counts = Counter(part for found in parts.values() for part in found)
        collected: Terms = {}
        for term, coefficient in terms.items():
            meets = any(counts[part] > 1 for part in parts[term])
            add_terms(collected, parts[term] if meets else {term: UNIT}, coefficient)
        return collected

    def _parts(self, term: Node) -> Terms:
        """A term multiplied out, if one of its factors is a sum of few terms; else the term itself."""
        factors = self.product_of(term).factors
        sums = [base for base, power in factors.items() if power.value == 1 and len(self.sums.get(base, ())) in _FEW]
        if len(sums) != 1:
            return {term: UNIT}
        parts: Terms = {}
        for part, coefficient in self.sums[sums[0]].items():
            product = {base: power for base, power in factors.items() if base is not sums[0]}
            for base, power in self.product_of(part).factors.items():
                put(product, base, power)
            self.add_product(parts, Product(coefficient, product))
        return parts

    def _put_together(self, terms: Terms) -> Terms:
        return self._grouped(self._over_common_denominators(terms))

    def _over_common_denominators(self, terms: Terms) -> Terms:
        """Fractions over powers of one sum as one, where that is no longer: 1/(x + 1) - x/(x + 1)^2 as 1/(x + 1)^2."""
        groups: dict[Node, list[Node]] = {}
        for term in terms:
            below = [
                base
                for base, exponent in self.product_of(term).factors.items()
                if (exponent.value < 0 or not exponent.is_whole) and len(self.sums.get(base, ())) in _FEW
            ]
            if len(below) == 1:
                groups.setdefault(below[0], []).append(term)
        for base, members in groups.items():
            if len(members) > 1:
                terms = self._over(base, members, terms)
        return terms

    def _over(self, base: Node, members: Sequence[Node], terms: Terms) -> Terms:
        """The terms with those of `members` over one power of `base`, unless they are more then."""
        exponents = [self.product_of(term).factors[base] for term in members]
        least = min(exponents, key=lambda exponent: exponent.value)
        missing = [exponent.plus(-least) for exponent in exponents]
        if not any(power.value for power in missing) or any(p.value not in (0, 1, 2) for p in missing):
            return terms
        numerator: Terms = {}
        for term, power in zip(members, missing, strict=True):
            parts = self._parts(term)
            for _ in range(int(power.value)):
                parts = self._multiplied(parts, self.sums[base])
            for part, coefficient in parts.items():
                factors = dict(self.product_of(part).factors)
                put(factors, base, -exponents[members.index(term)])
                self.add_product(numerator, Product(coefficient, factors), terms[term])
        numerator = without_zeros(numerator)
        if len(numerator) > len(members) or not (self._is_finite(numerator) or self._is_finite(self.sums[base])):
            return terms
        joined = {base: least}
        number = self.multiply(UNIT, joined, self.sum(numerator), UNIT)
        changed = {term: coefficient for term, coefficient in terms.items() if term not in members}
        self.add_product(changed, Product(number, joined))
        return without_zeros(changed)

    def _is_finite(self, terms: Terms) -> bool:
        """Whether no term can be infinite, or so it seems: infinity over infinity is to appear nowhere anew."""
        powers = (power for term in terms for power in self.product_of(term).factors.items())
        return all(e.value > 0 and (base.op is None or base.op.name in _FINITE) for base, e in powers)

    def _multiplied(self, terms: Terms, others: Terms) -> Terms:
        """A product of sums, multiplied out."""
        result: Terms = {}
        for term, coefficient in terms.items():
            for other, times in others.items():
                factors = dict(self.product_of(term).factors)
                for base, power in self.product_of(other).factors.items():
                    put(factors, base, power)
                self.add_product(result, Product(coefficient.times(times), factors))
        return result

    def _grouped(self, terms: Terms) -> Terms:
        """Terms with the same calls and sums among their factors as one: 2*x*cos(y) + cos(y) as (2*x + 1)*cos(y)."""
        groups: dict[frozenset[tuple[Node, Number]], list[Node]] = {}
        for term in terms:
            groups.setdefault(frozenset(self._calls(term).items()), []).append(term)
        if len(groups) == len(terms):
            return terms
        grouped: Terms = {}
        for key, members in groups.items():
            if not key or len(members) == 1:
                add_terms(grouped, {term: terms[term] for term in members})
                continue
            calls = dict(key)
            rests: Terms = {}
            for term in members:
                left = {b: e for b, e in self.product_of(term).factors.items() if b not in calls}
                self.add_product(rests, Product(terms[term], left))
            number = self.multiply(UNIT, calls, self.sum(rests), UNIT)
            self.add_product(grouped, Product(number, calls))
        return without_zeros(grouped)

    def _calls(self, term: Node) -> Factors:
        factors = self.product_of(term).factors
        return {base: e for base, e in factors.items() if base.op is not None}

    def _added(self, terms: Terms) -> Node:
        """The text's sum, with a positive term in front if there is one."""
        if not terms:
            return self.leaf(ZERO)
        ordered = list(terms.items())
        first = next((i for i, (_, coefficient) in enumerate(ordered) if coefficient.value > 0), 0)
        ordered.insert(0, ordered.pop(first))
        node = self._scaled(*ordered[0])
        for term, coefficient in ordered[1:]:
            if coefficient.value < 0:
                node = self.apply(sub, node, self._scaled(term, -coefficient))
            else:
                node = self.apply(add, node, self._scaled(term, coefficient))
        return node

    def _scaled(self, term: Node, coefficient: Number) -> Node:
        if coefficient.value == 1:
            return term
        return self.product(Product(coefficient, self.product_of(term).factors))
