"""Collection of like terms in sums, and of factors in products, for readable formulas.

In sums these are products of sums, fractions over one sum, and terms with the same calls. In products these are powers
of one base, conjugate sums, and common factors of sums. Roots are powers whose exponents are multiples of 1/2.

A guard is a `where` such as `where(h == 0, 0, x/h)`: its formula divides by a base that is 0 where the condition holds,
or takes its logarithm. A guard is removed where its formula combines so that the division disappears, and where the
whole product or sum has no value there anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from autodiff_cli.algebra import exact
from autodiff_cli.algebra.exact import ExactNumber, Factors, Product, Terms
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.tape import group_pairs
from autodiff_cli.ops.arithmetic import abs_, equal, greater, where
from autodiff_cli.ops.functions import exp, log, pow_

if TYPE_CHECKING:
    from autodiff_cli.algebra.forms import FormTable

# --- Guards


def without_needless_guards(forms: FormTable, number: ExactNumber, factors: Factors) -> tuple[ExactNumber, Factors]:
    """Remove guards that a product does not need.

    where(h == 0, 0, x/h)*h becomes x. where(h == 0, 0, x/h)/h becomes x/h^2, since it has no value at h = 0 either way.
    """
    for base in [base for base in factors if forms.is_guarded(base, factors[base])]:
        condition, formula = forms.guards[base]
        others = {other: exponent for other, exponent in factors.items() if other is not base}
        product = dict(others)
        total = forms.multiply(number, product, formula, factors[base])
        zeros = _zero_bases(forms, condition, product)
        is_vain = _divides_by_zero(others, zeros)
        is_cause = _is_infinite(forms.product_of(formula).factors, zeros)
        if is_vain or (is_cause and not _is_infinite(product, zeros)):
            number, factors = total, exact.without_zeros(product)
    return number, factors


def without_ineffective_guards(forms: FormTable, terms: Terms) -> Terms:
    """Remove guards of terms where another term has no value under the same condition.

    where(h == 0, 0, x/h) - y/h becomes x/h - y/h.
    """
    for term in [term for term in terms if term in forms.guards]:
        condition, formula = forms.guards[term]
        others = [forms.product_of(other).factors for other in terms if other is not term]
        if any(_divides_by_zero(factors, _zero_bases(forms, condition, factors)) for factors in others):
            unguarded = {other: coefficient for other, coefficient in terms.items() if other is not term}
            exact.add_terms(unguarded, forms.terms_of(formula), terms[term])
            terms = unguarded
    return terms


def merge_guards(forms: FormTable, terms: Terms) -> Terms:
    """Combine terms with guards of the same condition into one term: where(h == 0, 0, x/h + y/h)."""
    groups = group_pairs((forms.guards[term].condition, term) for term in terms if term in forms.guards)
    for condition, members in groups.items():
        if len(members) > 1:
            inside: Terms = {}
            for term in members:
                exact.add_terms(inside, forms.terms_of(forms.guards[term].formula), terms[term])
            terms = exact.replace_members(terms, members, forms.guard(condition, forms.sum(inside)))
    return terms


def _zero_bases(forms: FormTable, condition: Node, product: Factors) -> set[Node]:
    """Return the bases of a product that are 0 where the condition of a guard holds."""
    parts = (condition, *condition.inputs)
    zeros = {part.inputs[0] for part in parts if part.op is equal}
    positive = [part.inputs[0] for part in parts if part.op is greater]
    powers = {base: forms.product_of(base.inputs[1]) for base in product if base.op is pow_ and base.inputs[0] in zeros}
    multiples = [{base: exact.UNIT} for base in positive]
    return zeros | {
        base for base, exponent in powers.items() if exponent.number.value > 0 and exponent.factors in multiples
    }


def _divides_by_zero(product: Factors, zeros: set[Node]) -> bool:
    """Whether a product divides by a base that is 0."""
    return any(exponent.value < 0 for base, exponent in product.items() if base in zeros)


def _is_infinite(product: Factors, zeros: set[Node]) -> bool:
    """Whether a product has a factor that is infinite where some bases are 0."""
    return _divides_by_zero(product, zeros) or any(base.op is log and e.value > 0 for base, e in product.items())


# --- Terms


def expand_terms(forms: FormTable, terms: Terms) -> Terms:
    """Multiply out terms that are multiples of a sum, where that gives terms that other terms have too."""
    if not forms.scalar or forms.are_monomials(terms):
        return terms
    terms = without_ineffective_guards(forms, terms)
    parts = {term: _expanded_term(forms, term) for term in terms}
    counts = Counter(part for expanded in parts.values() for part in expanded)
    collected: Terms = {}
    for term, coefficient in terms.items():
        meets = any(counts[part] > 1 for part in parts[term])
        exact.add_terms(collected, parts[term] if meets else {term: exact.UNIT}, coefficient)
    return collected


def collect_terms(forms: FormTable, terms: Terms) -> Terms:
    """Combine terms where that is shorter: over common denominators, then with common calls as factors."""
    if not forms.scalar or forms.are_monomials(terms):
        return terms
    terms = _factor_out_calls(forms, _combine_fractions(forms, terms))
    return merge_guards(forms, _merge_choices(forms, terms))


def _expanded_term(forms: FormTable, term: Node) -> Terms:
    """Return a term multiplied out if one of its factors is a sum of few terms; else the term itself."""
    factors = forms.product_of(term).factors
    sums = [
        base
        for base, power in factors.items()
        if power.value == 1 and len(forms.sums.get(base, ())) in exact.EXPANDABLE_COUNTS
    ]
    if len(sums) != 1:
        return {term: exact.UNIT}
    rest = {base: power for base, power in factors.items() if base is not sums[0]}
    parts: Terms = {}
    for part, coefficient in forms.sums[sums[0]].items():
        forms.add_product(parts, Product(coefficient, _multiply_factors(rest, forms.product_of(part).factors)))
    return parts


def _multiply_sums(forms: FormTable, terms: Terms, others: Terms) -> Terms:
    """Return the product of two sums, multiplied out."""
    result: Terms = {}
    for term, coefficient in terms.items():
        factors = forms.product_of(term).factors
        for other, times in others.items():
            product = Product(coefficient.times(times), _multiply_factors(factors, forms.product_of(other).factors))
            forms.add_product(result, product)
    return result


def _multiply_factors(factors: Factors, others: Factors) -> Factors:
    product = dict(factors)
    for base, power in others.items():
        exact.accumulate(product, base, power)
    return product


def _combine_fractions(forms: FormTable, terms: Terms) -> Terms:
    """Combine fractions over powers of one sum, if that is not longer: 1/(x + 1) - x/(x + 1)^2 is 1/(x + 1)^2."""
    groups: dict[Node, list[Node]] = {}
    for term in terms:
        below = [
            base
            for base, exponent in forms.product_of(term).factors.items()
            if (exponent.value < 0 or not exponent.is_integer)
            and len(forms.sums.get(base, ())) in exact.EXPANDABLE_COUNTS
        ]
        if len(below) == 1:
            groups.setdefault(below[0], []).append(term)
    for base, members in groups.items():
        if len(members) > 1:
            terms = _put_over_denominator(forms, base, members, terms)
    return terms


def _put_over_denominator(forms: FormTable, base: Node, members: Sequence[Node], terms: Terms) -> Terms:
    """Return terms with `members` over one power of `base`; unchanged if that would give more terms."""
    exponents = [forms.product_of(term).factors[base] for term in members]
    least = min(exponents, key=lambda exponent: exponent.value)
    missing = [exponent.plus(-least) for exponent in exponents]
    if not any(power.value for power in missing) or any(p.value not in (0, 1, 2) for p in missing):
        return terms
    numerator: Terms = {}
    for term, exponent, power in zip(members, exponents, missing, strict=True):
        parts = _expanded_term(forms, term)
        for _ in range(int(power.value)):
            parts = _multiply_sums(forms, parts, forms.sums[base])
        for part, coefficient in parts.items():
            factors = _multiply_factors(forms.product_of(part).factors, {base: -exponent})
            forms.add_product(numerator, Product(coefficient, factors), terms[term])
    numerator = exact.without_zeros(numerator)
    if len(numerator) > len(members) or not (_is_finite(forms, numerator) or _is_finite(forms, forms.sums[base])):
        return terms
    denominator = {base: least}
    number = forms.multiply(exact.UNIT, denominator, forms.sum(numerator), exact.UNIT)
    changed = {term: coefficient for term, coefficient in terms.items() if term not in members}
    forms.add_product(changed, Product(number, denominator))
    return exact.without_zeros(changed)


def _is_finite(forms: FormTable, terms: Terms) -> bool:
    """Whether no term can be infinite, as far as is known, so that no new infinity over infinity appears."""
    powers = (power for term in terms for power in forms.product_of(term).factors.items())
    return all(e.value > 0 and (base.op is None or base.op.is_finite) for base, e in powers)


def _factor_out_calls(forms: FormTable, terms: Terms) -> Terms:
    """Combine terms with the same calls and sums as factors: 2*x*cos(y) + cos(y) is (2*x + 1)*cos(y)."""
    powers = ((forms.product_of(term).factors.items(), term) for term in terms)
    groups = group_pairs((frozenset((b, e) for b, e in factors if b.op is not None), term) for factors, term in powers)
    grouped: Terms = {}
    for key, members in groups.items():
        if not key or len(members) == 1:
            exact.add_terms(grouped, {term: terms[term] for term in members})
            continue
        calls = dict(key)
        rests: Terms = {}
        for term in members:
            left = {b: e for b, e in forms.product_of(term).factors.items() if b not in calls}
            forms.add_product(rests, Product(terms[term], left))
        number = forms.multiply(exact.UNIT, calls, forms.sum(rests), exact.UNIT)
        forms.add_product(grouped, Product(number, calls))
    return exact.without_zeros(grouped)


def _merge_choices(forms: FormTable, terms: Terms) -> Terms:
    """Combine choices by the same condition: where(c, x, 0) + where(c, 0, y) is where(c, x, y)."""
    choices = (term for term in terms if term.op is where and term not in forms.guards)
    partial = (term for term in choices if any(is_literal(branch, 0) for branch in term.inputs[1:]))
    groups = group_pairs((term.inputs[0], term) for term in partial)
    for condition, members in groups.items():
        if len(members) == 2 and is_literal(members[0].inputs[1], 0) != is_literal(members[1].inputs[1], 0):
            branches: tuple[Terms, Terms] = {}, {}
            for term in members:
                for branch, into in zip(term.inputs[1:], branches, strict=True):
                    exact.add_terms(into, forms.terms_of(branch), terms[term])
            terms = exact.replace_members(terms, members, forms.apply(where, condition, *map(forms.sum, branches)))
    return terms


_TWO = ExactNumber(2)


# --- Factors


def combine_factors(forms: FormTable, product: Product) -> Product:
    """Combine factors that become one: powers of one base, conjugates, and common factors of sums."""
    if not forms.scalar:
        return Product(product.number, _merge_powers(forms, product.factors))
    number, factors = without_needless_guards(forms, *_expand_powers(forms, *product))
    factors = _merge_powers(forms, factors)
    conjugates = [base for base in factors if base in forms.paired_with_one]
    if len(conjugates) > 1:
        factors = _multiply_conjugates(forms, factors, conjugates)
    if len(factors) > 1 or number.value != 1:
        for base in [base for base in factors if base in forms.sums]:
            if base in factors and factors[base].value == 1:
                number, factors = _extract_content(forms, number, factors, base)
    return Product(number, factors)


def _expand_powers(forms: FormTable, number: ExactNumber, factors: Factors) -> tuple[ExactNumber, Factors]:
    """Expand integer powers of products, and even powers of absolute values: sqrt(a*b)^2 is a*b, abs(x)^2 is x^2."""
    stays = {power.inputs[0] for power in factors if power.op is pow_}  # abs(x)^n/abs(x)^2 is abs(x)^(n - 2)
    bases = [base for base in factors if (base.op is abs_ or base in forms.under_roots) and base not in stays]
    for base in bases:
        exponent = factors[base]
        if exponent.is_integer and (base.op is not abs_ or exponent.value % 2 == 0):
            del factors[base]
            number = forms.multiply(number, factors, base.inputs[0] if base.op is abs_ else base, exponent)
    return number, exact.without_zeros(factors) if bases else factors


def _merge_powers(forms: FormTable, factors: Factors) -> Factors:
    """Combine symbolic powers of one base: x^n times x is x^(n + 1), exp(a)*exp(b) is exp(a + b)."""
    while (common := _find_common_base(forms, factors)) is not None:
        factors = _combine_powers(forms, factors, *common)
    return factors


def _find_common_base(forms: FormTable, factors: Factors) -> tuple[Node | None, list[Node], ExactNumber | None] | None:
    """Find a base with several powers, at least one of them symbolic.

    Returns:
        The base (None for e, the base of exp), its symbolic powers, and its literal exponent or None. None if there is
        no such base.
    """
    whole = [power for power, side in factors.items() if power.op in (pow_, exp) and side.is_integer]
    groups = group_pairs((power.inputs[0] if power.op is pow_ else None, power) for power in whole)
    for base, powers in groups.items():
        shift = factors.get(base) if base is not None else None
        if shift is not None and not shift.is_integer:
            shift = None
        alone = len(powers) == 1 and factors[powers[0]].magnitude == 1
        if (shift is not None or not alone) and (forms.scalar or alone):
            return base, powers, shift
    return None


def _combine_powers(
    forms: FormTable, factors: Factors, base: Node | None, powers: Sequence[Node], shift: ExactNumber | None
) -> Factors:
    combined = dict(factors)
    sign = -exact.UNIT if all(factors[power].value < 0 for power in powers) else exact.UNIT
    terms: Terms = {}
    for power in powers:
        exact.add_terms(terms, forms.terms_of(power.inputs[-1]), combined.pop(power).times(sign))
    if base is not None and shift is not None:
        del combined[base]
        exact.add_terms(terms, {forms.one: shift}, sign)
    ordered = sorted(terms, key=lambda term: (term is forms.one, forms.rank(term, exact.UNIT)))
    exponent = forms.sum({term: terms[term] for term in ordered})
    literal = forms.product_of(exponent)
    if base is None:
        if not is_literal(exponent, 0):
            exact.accumulate(combined, forms.apply(exp, exponent), sign)
    elif literal.factors:
        exact.accumulate(combined, forms.apply(pow_, base, exponent), sign)
    else:
        exact.accumulate(combined, base, literal.number.times(sign))
    return exact.without_zeros(combined)


def _multiply_conjugates(forms: FormTable, factors: Factors, sums: Sequence[Node]) -> Factors:
    """Multiply conjugate sums: (1 - x)*(1 + x) is 1 - x^2."""
    partners: dict[tuple[Node, ExactNumber], Node] = {}
    for base in sums:
        term = forms.paired_with_one[base]
        other = partners.setdefault((term, factors[base]), base)
        if other is base:
            continue
        (a, b), (c, d) = ((forms.sums[s][forms.one], forms.sums[s][term]) for s in (other, base))
        if a.times(d) == -b.times(c):
            terms = {forms.one: a.times(c)}
            forms.add_product(terms, forms.product_of(forms.power(term, _TWO)), b.times(d))
            remaining = {node: exponent for node, exponent in factors.items() if node not in (base, other)}
            exact.accumulate(remaining, forms.sum(terms), factors[base])
            return remaining
    return factors


def _extract_content(
    forms: FormTable, number: ExactNumber, factors: Factors, base: Node
) -> tuple[ExactNumber, Factors]:
    """Move the common factors of a sum in front of it: y*(2*a*x + 2*b*x) is 2*x*y*(a + b)."""
    if base not in forms.contents:
        forms.contents[base] = _content(forms, forms.sums[base])
    content_and_rest = forms.contents[base]
    if content_and_rest is None:
        return number, factors
    content, rest = content_and_rest
    others = {node: exponent for node, exponent in factors.items() if node is not base}
    others = _multiply_factors(others, content.factors)
    number = forms.multiply(number.times(content.number), others, rest, exact.UNIT)
    return number, exact.without_zeros(others)


def _content(forms: FormTable, terms: Terms) -> tuple[Product, Node] | None:
    """Return the common factors of all terms, and the sum that remains; None if they have none."""
    size = exact.common_divisor(terms.values())
    products = [forms.product_of(term).factors for term in terms]
    common = dict(products[0])
    for factors in products[1:]:
        common = {
            base: exponent if exponent.magnitude <= factors[base].magnitude else factors[base]
            for base, exponent in common.items()
            if base in factors and (factors[base].value > 0) == (exponent.value > 0)
        }
    if size.value == 1 and not common:
        return None
    divisor, inverse = size.power(-1), {base: -exponent for base, exponent in common.items()}
    rest: Terms = {}
    for term, coefficient in terms.items():
        left = _multiply_factors(forms.product_of(term).factors, inverse)
        forms.add_product(rest, Product(coefficient, left), divisor)
    return Product(size, common), forms.sum(rest)


_HALF = ExactNumber(Fraction(1, 2))


# --- Powers


def power_product(forms: FormTable, base: Node, exponent: Node) -> Product | None:
    """Return a power as a product; None if it must stay as it is for the shape of an array."""
    by = forms.product_of(exponent)
    if by.factors:
        return _symbolic_power(forms, base, exponent)
    if by.number.value == 0:
        return Product(exact.UNIT, {}) if forms.scalar else None
    if by.number.value.denominator == 2:
        return root_product(forms, base, by.number)
    return _power_factors(forms, exact.UNIT, base, by.number)


def root_product(forms: FormTable, base: Node, exponent: ExactNumber = _HALF) -> Product:
    """Return a power as a product, if its exponent is an odd multiple of 1/2.

    sqrt(4*x) becomes 2*sqrt(x), and sqrt(x^2) becomes abs(x).
    """
    product = forms.product_of(base)
    size = product.number.root()
    if size is None or not forms.scalar:
        return _power_factors(forms, exact.UNIT, base, exponent)
    times = size.power(int(exponent.value * 2))
    if all((power.value % 2) == 0 for power in product.factors.values()):
        return Product(times, {forms.apply(abs_, b): power.times(exponent) for b, power in product.factors.items()})
    return _power_factors(forms, times, forms.product(Product(exact.UNIT, product.factors)), exponent)


def _power_factors(forms: FormTable, times: ExactNumber, base: Node, exponent: ExactNumber) -> Product:
    factors: Factors = {}
    return Product(forms.multiply(times, factors, base, exponent), factors)


def _symbolic_power(forms: FormTable, base: Node, exponent: Node) -> Product:
    """Return `x^(n - 1)` as x^n over x, so that its literal exponent adds to other powers of x."""
    product = forms.product_of(base)
    single = product.number == exact.UNIT and list(product.factors.values()) == [exact.UNIT]
    terms = forms.sums.get(exponent, {})
    shift = terms.get(forms.one)
    if not single or shift is None or not shift.is_integer:
        return Product(exact.UNIT, {forms.apply(pow_, base, exponent): exact.UNIT})
    rest = forms.sum({term: coefficient for term, coefficient in terms.items() if term is not forms.one})
    return Product(exact.UNIT, {forms.apply(pow_, base, rest): exact.UNIT, base: shift})
