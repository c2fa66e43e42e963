"""Values by convention in products and sums: guards that are needless beside others, and guards that become one.

A guard is `where(h == 0, 0, x/h)`. Its formula divides by what is 0 where the condition holds, or takes its logarithm;
where that goes away, or where there is no value anyway, people read the formula alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from autodiff_cli.algebra.exact import UNIT, Number
from autodiff_cli.algebra.passes.forms import Forms
from autodiff_cli.algebra.passes.terms import Factors, Product, Terms, add_terms, with_one_for, without_zeros
from autodiff_cli.graph.node import Node
from autodiff_cli.ops.arithmetic import equal, greater
from autodiff_cli.ops.elementary import log, pow_


def without_needless_guards(forms: Forms, number: Number, factors: Factors) -> tuple[Number, Factors]:
    """A product without the guards that it does not need: where(h == 0, 0, x/h)*h as x, and …/h as x/h^2, which has no
    value at 0 with the guard either."""
    if not forms.guards:
        return number, factors
    for base in [base for base in factors if forms.is_guarded(base, factors[base])]:
        condition, formula = forms.guards[base]
        others = {other: exponent for other, exponent in factors.items() if other is not base}
        product = dict(others)
        total = forms.multiply(number, product, formula, factors[base])
        zeros = _zeros_under(forms, condition, product)
        is_vain = _divides(others, zeros)
        is_cause = _is_infinite(forms.product_of(formula).factors, zeros)
        if is_vain or (is_cause and not _is_infinite(product, zeros)):
            number, factors = total, without_zeros(product)
    return number, factors


def without_vain_guards(forms: Forms, terms: Terms) -> Terms:
    """A sum without the guards under whose condition another term has no value: where(h == 0, 0, x/h) - y/h as
    x/h - y/h."""
    if not forms.guards:
        return terms
    for term in [term for term in terms if term in forms.guards]:
        condition, formula = forms.guards[term]
        others = [forms.product_of(other).factors for other in terms if other is not term]
        if any(_divides(factors, _zeros_under(forms, condition, factors)) for factors in others):
            opened = {other: coefficient for other, coefficient in terms.items() if other is not term}
            add_terms(opened, forms.terms_of(formula), terms[term])
            terms = opened
    return terms


def under_one_guard(forms: Forms, terms: Terms) -> Terms:
    """Terms with guards of the same condition as one term: where(h == 0, 0, x/h + y/h)."""
    if not forms.guards:
        return terms
    groups: dict[Node, list[Node]] = {}
    for term in terms:
        if term in forms.guards:
            groups.setdefault(forms.guards[term].condition, []).append(term)
    for condition, members in groups.items():
        if len(members) > 1:
            inside: Terms = {}
            for term in members:
                add_terms(inside, forms.terms_of(forms.guards[term].formula), terms[term])
            terms = with_one_for(terms, members, forms.guard(condition, forms.sum(inside)))
    return terms


def _zeros_under(forms: Forms, condition: Node, product: Factors) -> set[Node]:
    """The bases of a product that are 0 where the condition of a guard holds."""
    parts = (condition, *condition.inputs)
    zeros = {part.inputs[0] for part in parts if part.op is equal}
    positive = [part.inputs[0] for part in parts if part.op is greater]
    powers = [base for base in product if base.op is pow_ and base.inputs[0] in zeros]
    return zeros | {base for base in powers if _is_multiple(forms.product_of(base.inputs[1]), positive)}


def _is_multiple(exponent: Product, positive: Sequence[Node]) -> bool:
    """Whether an exponent is a positive multiple of something positive."""
    return exponent.number.value > 0 and any(exponent.factors == {base: UNIT} for base in positive)


def _divides(product: Factors, zeros: set[Node]) -> bool:
    """Whether something that is 0 stands in a denominator."""
    return any(exponent.value < 0 for base, exponent in product.items() if base in zeros)


def _is_infinite(product: Factors, zeros: set[Node]) -> bool:
    """Whether a product has a factor that is infinite where others are 0."""
    return _divides(product, zeros) or any(base.op is log and e.value > 0 for base, e in product.items())
