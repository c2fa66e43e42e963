"""Powers and roots as products: what is under a root meets other powers of it as exponents with halves."""

from __future__ import annotations

from fractions import Fraction

from autodiff_cli.algebra.exact import UNIT, Number
from autodiff_cli.algebra.passes.forms import Forms
from autodiff_cli.algebra.passes.terms import Factors, Product
from autodiff_cli.graph.node import Node
from autodiff_cli.ops.arithmetic import abs_
from autodiff_cli.ops.elementary import pow_

_HALF = Number(Fraction(1, 2))


def power(forms: Forms, base: Node, exponent: Node) -> Product | None:
    """A power as a product; None if it is to stay as it is, for its shape."""
    by = forms.product_of(exponent)
    if by.factors:
        return _symbolic_power(forms, base, exponent)
    if by.number.value == 0:
        return Product(UNIT, {}) if forms.scalar else None
    if by.number.value.denominator == 2:
        return root(forms, base, by.number)
    return _raised(forms, UNIT, base, by.number)


def root(forms: Forms, base: Node, exponent: Number = _HALF) -> Product:
    """A power with a half in its exponent, as a product: sqrt(4*x) as 2*sqrt(x), sqrt(x^2) as abs(x)."""
    product = forms.product_of(base)
    size = product.number.root()
    if size is None or not forms.scalar:
        return _raised(forms, UNIT, base, exponent)
    times = size.power(int(exponent.value * 2))
    if all((power.value % 2) == 0 for power in product.factors.values()):
        halved = {forms.apply(abs_, b): power.times(exponent) for b, power in product.factors.items()}
        return Product(times, halved)
    return _raised(forms, times, forms.product(Product(UNIT, product.factors)), exponent)


def _raised(forms: Forms, times: Number, base: Node, exponent: Number) -> Product:
    factors: Factors = {}
    return Product(forms.multiply(times, factors, base, exponent), factors)


def _symbolic_power(forms: Forms, base: Node, exponent: Node) -> Product:
    """`x^(n - 1)` as x^n over x: with other powers of x, the numbers in the exponents add up."""
    product = forms.product_of(base)
    single = product.number == UNIT and list(product.factors.values()) == [UNIT]
    terms = forms.sums.get(exponent, {})
    shift = terms.get(forms.one)
    if not single or shift is None or not shift.is_whole:
        return Product(UNIT, {forms.apply(pow_, base, exponent): UNIT})
    rest = forms.sum({term: coefficient for term, coefficient in terms.items() if term is not forms.one})
    return Product(UNIT, {forms.apply(pow_, base, rest): UNIT, base: shift})
