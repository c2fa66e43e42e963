"""Formulas as a person would write them: for reading, while `simplify` is for evaluating.

Every sum is collected in a dictionary from terms to coefficients, every product in one from bases to exponents, with
exact numbers, and written anew: numbers in front, then symbols, sums, calls. A chain of sums or products is collected
once, at its root, and what has other users as well is spread into it only if it is short: the time is linear.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autodiff_cli.autodiff.chains import find_chains
from autodiff_cli.autodiff.exact import UNIT, Number
from autodiff_cli.autodiff.products import Factors, Product, Terms, add_terms
from autodiff_cli.autodiff.sums import Sums
from autodiff_cli.graph.collector import collector_paused
from autodiff_cli.graph.helpers import without_helpers
from autodiff_cli.graph.node import Node, constant, is_literal
from autodiff_cli.graph.tape import topological
from autodiff_cli.ops.arithmetic import div, mul, neg, not_, sub
from autodiff_cli.ops.choice import where
from autodiff_cli.ops.elementary import cos, cosh, exp, hypot, log, pow_, sin, sinh, sqrt, square, tan, tanh

_KNOWN = {(op, "0"): "1" for op in (exp, cos, cosh)}
_KNOWN |= {(op, "0"): "0" for op in (sin, tan, sinh, tanh, sqrt)}
_KNOWN |= {(log, "1"): "0", (log, "e"): "1", (sqrt, "1"): "1"}
_ODD = {"sin", "tan", "csc", "cot", "asin", "atan", "sinh", "tanh", "csch", "coth", "asinh", "atanh", "cbrt", "sign"}
_ODD |= {"erf", "erfi", "Si", "Shi"}
_EVEN = {"cos", "sec", "cosh", "sech", "abs", "sinc", "sinhc"}
_INVERSE = {exp: log, log: exp}


def readable(roots: Sequence[Node], names: Sequence[str] = (), scalar: bool = True) -> list[Node]:
    """Formulas as a person would write them.

    Their values are the same where those of the originals are finite, up to rounding, and as long as no part overflows
    or vanishes: helpers are what they stand for, and `x*y*x` is `x^2*y`. What formulas have in common is written once.

    Args:
        names: the order of symbols in products; others come after them, as they appear.
        scalar: whether every variable is a number. Terms of arrays that cancel are kept, for their shape.
    """
    with collector_paused():
        plain = without_helpers(roots)
        structural = any(node.op is not None and node.op.structural for node in plain)
        return _Writer(names, scalar and not structural).run([plain[root] for root in roots])


class _Writer(Sums):
    def __init__(self, names: Sequence[str], scalar: bool) -> None:
        super().__init__(names, scalar)
        self._new: dict[Node, Node] = {}
        self._links: set[Node] = set()

    def run(self, roots: Sequence[Node]) -> list[Node]:
        order = topological(roots)
        sums, self._links = find_chains(order, roots, spread=self.scalar)
        for node in order:
            if node.op is None:
                self._new[node] = self.entered(node)
            elif node not in self._links:
                self._new[node] = self._written(node, node in sums)
        return [self._new[root] for root in roots]

    def _written(self, node: Node, is_sum: bool) -> Node:
        if is_sum:
            terms = self._terms(node)
            return self._plain(node) if self._cancels(terms.values()) else self.sum(terms)
        if node.op is mul or node.op is div or node.op is neg:
            product = self._factors(node)
            vanishes = self._cancels(product.factors.values()) or self._cancels([product.number])
            return self._plain(node) if vanishes else self.product(product)
        if node.op is pow_ or node.op is square:
            exponent = self._new[node.inputs[1]] if node.op is pow_ else self.leaf(constant("2"))
            power = self.power(self._new[node.inputs[0]], exponent)
            return self._plain(node) if power is None else self.product(power)
        return self._call(node)

    def _cancels(self, numbers: Iterable[Number]) -> bool:
        """Whether something goes away that others may take their shape from."""
        return not self.scalar and any(number.value == 0 for number in numbers)

    def _plain(self, node: Node) -> Node:
        assert node.op is not None
        return self.apply(node.op, *(self._new[child] for child in node.inputs))

    def _terms(self, root: Node) -> Terms:
        """The terms of a chain of sums."""
        terms: Terms = {}
        waiting: list[tuple[Node, Number]] = [(root, UNIT)]
        while waiting:
            node, sign = waiting.pop()
            if node is not root and node not in self._links:
                add_terms(terms, self.terms_of(self._new[node]), sign)
            elif node.op is neg:
                waiting.append((node.inputs[0], -sign))
            else:
                a, b = node.inputs
                waiting += [(b, -sign if node.op is sub else sign), (a, sign)]
        return terms

    def _factors(self, root: Node) -> Product:
        """The factors of a chain of products."""
        total = UNIT
        factors: Factors = {}
        waiting: list[tuple[Node, Number]] = [(root, UNIT)]
        while waiting:
            node, side = waiting.pop()
            if node is not root and node not in self._links:
                total = self.multiply(total, factors, self._new[node], side)
            elif node.op is neg:
                total = -total
                waiting.append((node.inputs[0], side))
            else:
                a, b = node.inputs
                waiting += [(b, -side if node.op is div else side), (a, side)]
        return Product(total, factors)

    # --- calls

    def _call(self, node: Node) -> Node:
        assert node.op is not None
        inputs = tuple(self._new[child] for child in node.inputs)
        known = _KNOWN.get((node.op, inputs[0].text)) if inputs[0].is_constant else None
        if known is not None:
            return self.leaf(constant(known))
        found = self._other_call(node, inputs) if self.scalar else None
        return self.apply(node.op, *inputs) if found is None else found

    def _other_call(self, node: Node, inputs: tuple[Node, ...]) -> Node | None:
        """What a person writes in place of a call; None for the call itself."""
        assert node.op is not None
        op, name, first = node.op, node.op.name, inputs[0]
        if op is sqrt:
            return self.product(self.root(first))
        if op is where:
            return self._choice(*inputs)
        if op is hypot and is_literal(first, 1):
            square_of = self.power(inputs[1], self.leaf(constant("2")))
            assert square_of is not None
            terms = {self.one: UNIT}
            add_terms(terms, self.terms_of(self.product(square_of)))
            return self.product(self.root(self.sum(terms)))
        if op in _INVERSE and first.op is _INVERSE[op]:
            return first.inputs[0]
        if name in _ODD or name in _EVEN:
            turned = self._without_sign(first)
            if turned is not None:
                call = self.apply(op, turned)
                return call if name in _EVEN else self.product(Product(-UNIT, {call: UNIT}))
        return None

    def _choice(self, condition: Node, a: Node, b: Node) -> Node | None:
        if a is b:
            return a
        return self.apply(where, condition.inputs[0], b, a) if condition.op is not_ else None

    def _without_sign(self, node: Node) -> Node | None:
        """The negation of what is written with a minus in front; None for anything else."""
        terms = self.sums.get(node)
        if terms is not None:
            negative = all(coefficient.value < 0 for coefficient in terms.values())
            return self.sum({term: -coefficient for term, coefficient in terms.items()}) if negative else None
        number, factors = self.product_of(node)
        return self.product(Product(-number, factors)) if number.value < 0 else None
