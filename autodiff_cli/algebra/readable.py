"""Formulas as a person would write them: for reading, while `simplify` is for evaluating.

Every sum is collected in a dictionary from terms to coefficients, every product in one from bases to exponents, with
exact numbers, and written anew: numbers in front, then symbols, sums, calls. A chain of sums or products is collected
once, at its root, and what has other users as well is spread into it only if it is short: the time is linear.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autodiff_cli.algebra.exact import UNIT, Number
from autodiff_cli.algebra.passes.calls import TWO, call
from autodiff_cli.algebra.passes.chains import find_chains
from autodiff_cli.algebra.passes.conditions import guard
from autodiff_cli.algebra.passes.factors import settled
from autodiff_cli.algebra.passes.forms import Forms, Passes
from autodiff_cli.algebra.passes.guards import guarded
from autodiff_cli.algebra.passes.powers import power
from autodiff_cli.algebra.passes.sums import gathered, spread
from autodiff_cli.algebra.passes.terms import Factors, Product, Terms, add_terms
from autodiff_cli.algebra.passes.writing import written_product, written_sum
from autodiff_cli.graph.collector import collector_paused
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import topological
from autodiff_cli.ops.arithmetic import div, mul, neg, sub
from autodiff_cli.ops.elementary import pow_, square

_PASSES = Passes(spread, gathered, written_sum, settled, written_product)


def readable(roots: Sequence[Node], names: Sequence[str] = (), scalar: bool = True) -> list[Node]:
    """Formulas as a person would write them.

    Their values are the same where those of the originals are finite, up to rounding, and as long as no part overflows
    or vanishes: helpers are what they stand for, and `x*y*x` is `x^2*y`. What formulas have in common is written once.

    Args:
        names: the order of symbols in products; others come after them, as they appear.
        scalar: whether every variable is a number. Terms of arrays that cancel are kept, for their shape.

    >>> from autodiff_cli.language.lowering import read
    >>> from autodiff_cli.language.printer import to_text
    >>> to_text(readable([read("x*y*x + (y - x) - y").output])[0])
    'x^2*y - x'
    """
    with collector_paused():
        plain, guards = guarded(roots)
        structural = any(node.op is not None and node.op.structural for node in plain)
        return _written(Forms(names, scalar and not structural, _PASSES), [plain[root] for root in roots], guards)


def _written(forms: Forms, roots: Sequence[Node], guards: set[Node]) -> list[Node]:
    """The formulas, each chain of sums or products collected at its root."""
    order = topological(roots)
    sums, links = find_chains(order, roots, spread=forms.scalar)
    new: dict[Node, Node] = {}
    for node in order:
        if node in links:
            continue
        if node.op is None:
            new[node] = forms.entered(node)
        elif node in sums:
            terms = _terms(forms, node, links, new)
            new[node] = _as_it_was(forms, node, new) if _cancels(forms, terms.values()) else forms.sum(terms)
        elif node.op is mul or node.op is div or node.op is neg:
            product = _factors(forms, node, links, new)
            vanishes = _cancels(forms, (product.number, *product.factors.values()))
            new[node] = _as_it_was(forms, node, new) if vanishes else forms.product(product)
        elif node.op is pow_ or node.op is square:
            exponent = new[node.inputs[1]] if node.op is pow_ else forms.leaf(TWO)
            product_or_none = power(forms, new[node.inputs[0]], exponent)
            new[node] = _as_it_was(forms, node, new) if product_or_none is None else forms.product(product_or_none)
        elif node in guards:
            new[node] = guard(forms, new[node.inputs[0]], new[node.inputs[2]])
        else:
            new[node] = call(forms, node.op, tuple([new[child] for child in node.inputs]))
    return [new[root] for root in roots]


def _as_it_was(forms: Forms, node: Node, new: dict[Node, Node]) -> Node:
    assert node.op is not None
    return forms.apply(node.op, *(new[child] for child in node.inputs))


def _cancels(forms: Forms, numbers: Iterable[Number]) -> bool:
    """Whether something goes away that others may take their shape from."""
    return not forms.scalar and any(number.value == 0 for number in numbers)


def _terms(forms: Forms, root: Node, links: set[Node], new: dict[Node, Node]) -> Terms:
    """The terms of a chain of sums."""
    terms: Terms = {}
    waiting: list[tuple[Node, Number]] = [(root, UNIT)]
    while waiting:
        node, sign = waiting.pop()
        if node is not root and node not in links:
            add_terms(terms, forms.terms_of(new[node]), sign)
        elif node.op is neg:
            waiting.append((node.inputs[0], -sign))
        else:
            a, b = node.inputs
            waiting += [(b, -sign if node.op is sub else sign), (a, sign)]
    return terms


def _factors(forms: Forms, root: Node, links: set[Node], new: dict[Node, Node]) -> Product:
    """The factors of a chain of products."""
    total = UNIT
    factors: Factors = {}
    waiting: list[tuple[Node, Number]] = [(root, UNIT)]
    while waiting:
        node, side = waiting.pop()
        if node is not root and node not in links:
            total = forms.multiply(total, factors, new[node], side)
        elif node.op is neg:
            total = -total
            waiting.append((node.inputs[0], side))
        else:
            a, b = node.inputs
            waiting += [(b, -side if node.op is div else side), (a, side)]
    return Product(total, factors)
