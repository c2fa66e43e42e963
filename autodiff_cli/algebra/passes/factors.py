"""Factors that become others beside each other: powers of one base, roots of products, sums with common parts."""

from __future__ import annotations

from collections.abc import Sequence

from autodiff_cli.algebra.exact import UNIT, Number, common_size
from autodiff_cli.algebra.passes.conventions import without_needless_guards
from autodiff_cli.algebra.passes.forms import Forms
from autodiff_cli.algebra.passes.terms import Factors, Product, Terms, add_terms, put, without_zeros
from autodiff_cli.algebra.passes.writing import raised, rank
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.ops.arithmetic import abs_
from autodiff_cli.ops.elementary import exp, pow_

_TWO = Number(2)


def settled(forms: Forms, product: Product) -> Product:
    """A product with factors put together that are one beside each other."""
    if not forms.scalar:
        return Product(product.number, _merged(forms, product.factors))
    number, factors = without_needless_guards(forms, *_opened(forms, *product))
    factors = _merged(forms, factors)
    near_one = [base for base in factors if base in forms.beside_one]
    if len(near_one) > 1:
        factors = _without_conjugates(forms, factors, near_one)
    if len(factors) > 1 or number.value != 1:
        for base in [base for base in factors if base in forms.sums]:
            if base in factors and factors[base].value == 1:
                number, factors = _without_content(forms, number, factors, base)
    return Product(number, factors)


def _opened(forms: Forms, number: Number, factors: Factors) -> tuple[Number, Factors]:
    """Whole powers of what is itself a product, or whose sign does not count: sqrt(a*b)^2 is a*b, abs(x)^2 x^2."""
    stays = {power.inputs[0] for power in factors if power.op is pow_}  # abs(x)^n/abs(x)^2 is abs(x)^(n - 2)
    opened = [base for base in factors if (base.op is abs_ or base in forms.openable) and base not in stays]
    for base in opened:
        exponent = factors[base]
        if exponent.is_whole and (base.op is not abs_ or exponent.value % 2 == 0):
            del factors[base]
            number = forms.multiply(number, factors, base.inputs[0] if base.op is abs_ else base, exponent)
    return number, without_zeros(factors) if opened else factors


# --- powers of one base


def _merged(forms: Forms, factors: Factors) -> Factors:
    """Symbolic powers of one base as one: x^n times x is x^(n + 1), exp(a)*exp(b) is exp(a + b)."""
    while (found := _of_one_base(forms, factors)) is not None:
        factors = _with_one_power(forms, factors, *found)
    return factors


def _of_one_base(forms: Forms, factors: Factors) -> tuple[Node | None, list[Node], Number | None] | None:
    """A base (None for that of exp), its symbolic powers, and its other exponent if there is one; None if there is no
    base with two of these."""
    groups: dict[Node | None, list[Node]] = {}
    for power, side in factors.items():
        if (power.op is pow_ or power.op is exp) and side.is_whole:
            groups.setdefault(power.inputs[0] if power.op is pow_ else None, []).append(power)
    for base, powers in groups.items():
        shift = factors.get(base) if base is not None else None
        if shift is not None and not shift.is_whole:
            shift = None
        alone = len(powers) == 1 and factors[powers[0]].size == 1
        if (shift is not None or not alone) and (forms.scalar or alone):
            return base, powers, shift
    return None


def _with_one_power(
    forms: Forms, factors: Factors, base: Node | None, powers: Sequence[Node], shift: Number | None
) -> Factors:
    kept = dict(factors)
    side = -UNIT if all(factors[power].value < 0 for power in powers) else UNIT
    terms: Terms = {}
    for power in powers:
        add_terms(terms, forms.terms_of(power.inputs[-1]), kept.pop(power).times(side))
    if base is not None and shift is not None:
        del kept[base]
        add_terms(terms, {forms.one: shift}, side)
    ordered = sorted(terms, key=lambda term: (term is forms.one, rank(forms, term, UNIT)))
    exponent = forms.sum({term: terms[term] for term in ordered})
    literal = forms.product_of(exponent)
    if base is None:
        if not is_literal(exponent, 0):
            put(kept, forms.apply(exp, exponent), side)
    elif literal.factors:
        put(kept, forms.apply(pow_, base, exponent), side)
    else:
        put(kept, base, literal.number.times(side))
    return without_zeros(kept)


# --- sums among the factors


def _without_conjugates(forms: Forms, factors: Factors, sums: Sequence[Node]) -> Factors:
    """(1 - x)*(1 + x) as 1 - x^2."""
    seen: dict[tuple[Node, Number], Node] = {}
    for base in sums:
        term = forms.beside_one[base]
        other = seen.setdefault((term, factors[base]), base)
        if other is base:
            continue
        (a, b), (c, d) = ((forms.sums[s][forms.one], forms.sums[s][term]) for s in (other, base))
        if a.times(d) == -b.times(c):
            terms = {forms.one: a.times(c)}
            forms.add_product(terms, forms.product_of(raised(forms, term, _TWO)), b.times(d))
            kept = {node: exponent for node, exponent in factors.items() if node not in (base, other)}
            put(kept, forms.sum(terms), factors[base])
            return kept
    return factors


def _without_content(forms: Forms, number: Number, factors: Factors, base: Node) -> tuple[Number, Factors]:
    """A sum's common factors in front of it: y*(2*a*x + 2*b*x) as 2*x*y*(a + b)."""
    if base not in forms.contents:
        forms.contents[base] = _content(forms, forms.sums[base])
    found = forms.contents[base]
    if found is None:
        return number, factors
    content, rest = found
    kept = {node: exponent for node, exponent in factors.items() if node is not base}
    for part, exponent in content.factors.items():
        put(kept, part, exponent)
    number = forms.multiply(number.times(content.number), kept, rest, UNIT)
    return number, without_zeros(kept)


def _content(forms: Forms, terms: Terms) -> tuple[Product, Node] | None:
    """What all terms have in common, and the sum of what is left of them; None if they have nothing."""
    size = common_size(terms.values())
    products = [forms.product_of(term).factors for term in terms]
    common = dict(products[0])
    for factors in products[1:]:
        common = {
            base: exponent if exponent.size <= factors[base].size else factors[base]
            for base, exponent in common.items()
            if base in factors and (factors[base].value > 0) == (exponent.value > 0)
        }
    if size.value == 1 and not common:
        return None
    divisor = size.power(-1)
    rest: Terms = {}
    for term, coefficient in terms.items():
        left = dict(forms.product_of(term).factors)
        for base, exponent in common.items():
            left[base] = left[base].plus(-exponent)
        forms.add_product(rest, Product(coefficient, left), divisor)
    return Product(size, common), forms.sum(rest)
