"""Sums and products as a person writes them: a number first, then symbols, sums and calls; one sign, one quotient."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from autodiff_cli.algebra.exact import UNIT, Number
from autodiff_cli.algebra.passes.forms import Forms
from autodiff_cli.algebra.passes.terms import SHORT, Factors, Product, Terms
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.ops.arithmetic import add, div, mul, neg, sub
from autodiff_cli.ops.elementary import hypot, pow_, sqrt


def written_sum(forms: Forms, terms: Terms) -> Node:
    """A sum in the order of its terms, with a positive one in front if there is one."""
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


def _scaled(forms: Forms, term: Node, coefficient: Number) -> Node:
    if coefficient.value == 1:
        return term
    return forms.product(Product(coefficient, forms.product_of(term).factors))


def written_product(forms: Forms, product: Product) -> Node:
    """A product as one quotient, with one sign in front."""
    size, factors = product
    if size.value == 0:
        return forms.zero
    if size.value == -1 and (turned := _turned(forms, factors)) is not None:
        return turned
    guards = [base for base in factors if forms.is_guarded(base, factors[base])] if forms.guards else []
    if guards and product != (UNIT, {guards[0]: UNIT}):
        return _guarded(forms, product, guards)
    ordered = sorted(factors, key=lambda base: rank(forms, base, factors[base]))
    above = [raised(forms, base, factors[base]) for base in ordered if factors[base].value > 0]
    # The square of a length would overflow long before the length does: it divides twice.
    lengths = [base for base in ordered if base.op is hypot and factors[base].value == -2]
    below = [
        base if base in lengths else raised(forms, base, -factors[base]) for base in ordered if factors[base].value < 0
    ]
    numerator, denominator = (forms.one, None) if size.size == 1 else size.quotient()
    if not above or not is_literal(numerator, 1):
        above.insert(0, forms.leaf(numerator))
    if denominator is not None:
        below.insert(0, forms.leaf(denominator))
    if size.value < 0:
        above[0] = forms.apply(neg, above[0])
    node = _chain(forms, above)
    if below:
        node = forms.apply(div, node, _chain(forms, below))
    for length in lengths:
        node = forms.apply(div, node, length)
    return node


def _guarded(forms: Forms, product: Product, guards: Sequence[Node]) -> Node:
    """A product with a value by convention among its factors, the others inside: where(h == 0, 0, a*x/h)."""
    condition = forms.guards[guards[0]].condition
    opened = [base for base in guards if forms.guards[base].condition is condition]
    factors = {base: exponent for base, exponent in product.factors.items() if base not in opened}
    number = product.number
    for base in opened:
        number = forms.multiply(number, factors, forms.guards[base].formula, product.factors[base])
    return forms.guard(condition, forms.product(Product(number, factors)))


def _turned(forms: Forms, factors: Factors) -> Node | None:
    """The negation of a product with a sum that takes the sign in: -(x - y) is y - x, -(y - 1)*x is (1 - y)*x."""
    for base, exponent in factors.items():
        terms = forms.sums.get(base)
        if terms is None or len(terms) > SHORT or exponent.value != 1:
            continue
        if len(factors) == 1 or (len(terms) == 2 and forms.one in terms and terms[forms.one].value < 0):
            turned = forms.sum({term: -coefficient for term, coefficient in terms.items()})
            if turned not in factors:
                changed = {turned if b is base else b: e for b, e in factors.items()}
                return written_product(forms, Product(UNIT, changed))
    return None


def _chain(forms: Forms, factors: Sequence[Node]) -> Node:
    return reduce(lambda product, factor: forms.apply(mul, product, factor), factors)


def rank(forms: Forms, base: Node, exponent: Number) -> tuple[int, int]:
    """Where a power stands: constants, symbols, sums, powers with symbols in the exponent, calls; within a kind in the
    order of their first appearance."""
    if exponent.value.denominator == 2:
        base = forms.apply(sqrt, base)
    found = forms.ranks.get(base)
    if found is None:
        if base.is_input:
            found = 1, forms.positions[base.text]
        else:
            kind = 0 if base.is_constant else 2 if base in forms.sums else 3 if base.op is pow_ else 4
            found = kind, len(forms.ranks)
        forms.ranks[base] = found
    return found


def raised(forms: Forms, base: Node, exponent: Number) -> Node:
    """A power of a base."""
    if exponent.value == 1:
        return base
    if exponent.value * 2 == 1:
        power = forms.apply(sqrt, base)
    else:
        numerator, denominator = exponent.quotient()
        above = forms.leaf(numerator)
        literal = above if denominator is None else forms.apply(div, above, forms.leaf(denominator))
        power = forms.apply(pow_, base, literal)
    forms.enter_power(power, base, exponent)
    return power
