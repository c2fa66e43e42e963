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


class Sums(SettledProducts):
    """Makes sums, and the products that they are made of."""

    def __init__(self, names: Sequence[str], scalar: bool) -> None:
        super().__init__(names, scalar)
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
        if self.scalar:
            terms = self._multiplied_out(terms)
        kept = without_zeros(terms)
        key = frozenset(kept.items())
        node = self._known_sums.get(key)
        if node is None:
            node = self._known_sums[key] = self._added(self._grouped(kept) if self.scalar else kept)
            if len(kept) > 1 and node.op is not None:
                self._enter(node, kept)
        return node

    def _enter(self, node: Node, terms: Terms) -> None:
        self.sums[node] = terms
        if len(terms) == 2 and self.one in terms and terms[self.one].size == 1:
            (self.beside_one[node],) = (term for term in terms if term is not self.one)

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
