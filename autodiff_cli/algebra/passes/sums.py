"""Terms that become others beside each other: multiples of sums, fractions over one sum, terms with the same calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from autodiff_cli.algebra.exact import UNIT, Number
from autodiff_cli.algebra.passes.conventions import under_one_guard, without_vain_guards
from autodiff_cli.algebra.passes.forms import Forms
from autodiff_cli.algebra.passes.terms import FEW, Factors, Product, Terms, add_terms, put, with_one_for, without_zeros
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.ops.choice import where


def spread(forms: Forms, terms: Terms) -> Terms:
    """The terms, those that are multiples of a sum multiplied out where that gives terms that are there already."""
    if not forms.scalar or forms.are_monomials(terms):
        return terms
    terms = without_vain_guards(forms, terms)
    parts = {term: _parts(forms, term) for term in terms}
    counts = Counter(part for found in parts.values() for part in found)
    collected: Terms = {}
    for term, coefficient in terms.items():
        meets = any(counts[part] > 1 for part in parts[term])
        add_terms(collected, parts[term] if meets else {term: UNIT}, coefficient)
    return collected


def gathered(forms: Forms, terms: Terms) -> Terms:
    """The terms put together that are shorter so: over common denominators, then in front of common calls."""
    if not forms.scalar or forms.are_monomials(terms):
        return terms
    terms = _by_calls(forms, _over_common_denominators(forms, terms))
    return under_one_guard(forms, _by_conditions(forms, terms))


def _parts(forms: Forms, term: Node) -> Terms:
    """A term multiplied out, if one of its factors is a sum of few terms; else the term itself."""
    factors = forms.product_of(term).factors
    sums = [base for base, power in factors.items() if power.value == 1 and len(forms.sums.get(base, ())) in FEW]
    if len(sums) != 1:
        return {term: UNIT}
    rest = {base: power for base, power in factors.items() if base is not sums[0]}
    parts: Terms = {}
    for part, coefficient in forms.sums[sums[0]].items():
        forms.add_product(parts, Product(coefficient, _times(rest, forms.product_of(part).factors)))
    return parts


def _multiplied(forms: Forms, terms: Terms, others: Terms) -> Terms:
    """A product of sums, multiplied out."""
    result: Terms = {}
    for term, coefficient in terms.items():
        factors = forms.product_of(term).factors
        for other, times in others.items():
            product = Product(coefficient.times(times), _times(factors, forms.product_of(other).factors))
            forms.add_product(result, product)
    return result


def _times(factors: Factors, others: Factors) -> Factors:
    product = dict(factors)
    for base, power in others.items():
        put(product, base, power)
    return product


# --- fractions


def _over_common_denominators(forms: Forms, terms: Terms) -> Terms:
    """Fractions over powers of one sum as one, where that is no longer: 1/(x + 1) - x/(x + 1)^2 as 1/(x + 1)^2."""
    groups: dict[Node, list[Node]] = {}
    for term in terms:
        below = [
            base
            for base, exponent in forms.product_of(term).factors.items()
            if (exponent.value < 0 or not exponent.is_whole) and len(forms.sums.get(base, ())) in FEW
        ]
        if len(below) == 1:
            groups.setdefault(below[0], []).append(term)
    for base, members in groups.items():
        if len(members) > 1:
            terms = _over(forms, base, members, terms)
    return terms


def _over(forms: Forms, base: Node, members: Sequence[Node], terms: Terms) -> Terms:
    """The terms with those of `members` over one power of `base`, unless they are more then."""
    exponents = [forms.product_of(term).factors[base] for term in members]
    least = min(exponents, key=lambda exponent: exponent.value)
    missing = [exponent.plus(-least) for exponent in exponents]
    if not any(power.value for power in missing) or any(p.value not in (0, 1, 2) for p in missing):
        return terms
    numerator: Terms = {}
    for term, exponent, power in zip(members, exponents, missing, strict=True):
        parts = _parts(forms, term)
        for _ in range(int(power.value)):
            parts = _multiplied(forms, parts, forms.sums[base])
        for part, coefficient in parts.items():
            factors = dict(forms.product_of(part).factors)
            put(factors, base, -exponent)
            forms.add_product(numerator, Product(coefficient, factors), terms[term])
    numerator = without_zeros(numerator)
    if len(numerator) > len(members) or not (_is_finite(forms, numerator) or _is_finite(forms, forms.sums[base])):
        return terms
    joined = {base: least}
    number = forms.multiply(UNIT, joined, forms.sum(numerator), UNIT)
    changed = {term: coefficient for term, coefficient in terms.items() if term not in members}
    forms.add_product(changed, Product(number, joined))
    return without_zeros(changed)


def _is_finite(forms: Forms, terms: Terms) -> bool:
    """Whether no term can be infinite, or so it seems: infinity over infinity is to appear nowhere anew."""
    powers = (power for term in terms for power in forms.product_of(term).factors.items())
    return all(e.value > 0 and (base.op is None or base.op.is_finite) for base, e in powers)


# --- common calls


def _by_calls(forms: Forms, terms: Terms) -> Terms:
    """Terms with the same calls and sums among their factors as one: 2*x*cos(y) + cos(y) as (2*x + 1)*cos(y)."""
    groups: dict[frozenset[tuple[Node, Number]], list[Node]] = {}
    for term in terms:
        groups.setdefault(frozenset(_calls(forms, term).items()), []).append(term)
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
            left = {b: e for b, e in forms.product_of(term).factors.items() if b not in calls}
            forms.add_product(rests, Product(terms[term], left))
        number = forms.multiply(UNIT, calls, forms.sum(rests), UNIT)
        forms.add_product(grouped, Product(number, calls))
    return without_zeros(grouped)


def _calls(forms: Forms, term: Node) -> Factors:
    return {base: e for base, e in forms.product_of(term).factors.items() if base.op is not None}


# --- choices


def _by_conditions(forms: Forms, terms: Terms) -> Terms:
    """Choices by one condition as one: where(c, x, 0) + where(c, 0, y) as where(c, x, y)."""
    groups: dict[Node, list[Node]] = {}
    for term in terms:
        if term.op is where and term not in forms.guards and any(is_literal(branch, 0) for branch in term.inputs[1:]):
            groups.setdefault(term.inputs[0], []).append(term)
    for condition, members in groups.items():
        if len(members) == 2 and is_literal(members[0].inputs[1], 0) != is_literal(members[1].inputs[1], 0):
            branches: tuple[Terms, Terms] = {}, {}
            for term in members:
                for branch, into in zip(term.inputs[1:], branches, strict=True):
                    add_terms(into, forms.terms_of(branch), terms[term])
            terms = with_one_for(terms, members, forms.apply(where, condition, *map(forms.sum, branches)))
    return terms
