"""Conditions and choices as a person writes them: x > 0 and x < 1 as 0 < x < 1, n - 1 > 0 as n > 1, and nothing that is
decided."""

from __future__ import annotations

from autodiff_cli.algebra.passes.forms import Forms
from autodiff_cli.algebra.passes.terms import Product
from autodiff_cli.algebra.passes.truths import COMPARISONS, LOGIC, TURNED, decided, truth
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.op import ONE, ZERO, Op
from autodiff_cli.ops.arithmetic import and_, equal, less, less_equal, not_
from autodiff_cli.ops.choice import where

CONDITIONS = (*COMPARISONS, *LOGIC)  # the operations whose value is 0 or 1
_ASCENDING = {less, less_equal}


def choice(forms: Forms, _: Op, inputs: tuple[Node, ...]) -> Node | None:
    """A `where` whose condition is decided, or a negation; None for any other."""
    condition, a, b = inputs
    settled = truth(condition)
    if settled is not None or a is b:
        return a if settled or a is b else b
    return forms.apply(where, condition.inputs[0], b, a) if condition.op is not_ else None


def guard(forms: Forms, condition: Node, formula: Node) -> Node:
    """A formula that is 0 by convention where a condition holds."""
    settled = truth(condition)
    if settled is not None and (forms.scalar or not settled):
        return forms.zero if settled else formula
    if formula in forms.guards and any(forms.guards[formula].condition is other for other in _zeros(forms, condition)):
        return formula
    return forms.guard(condition, formula)


def _zeros(forms: Forms, condition: Node) -> list[Node]:
    """The conditions of guards that are asked to be 0: W is 0 at x == 0 just where its own guard holds."""
    equations = [part for part in (condition, *condition.inputs) if part.op is equal]
    return [forms.guards[part.inputs[0]].condition for part in equations if part.inputs[0] in forms.guards]


def condition(forms: Forms, op: Op, inputs: tuple[Node, ...]) -> Node | None:
    """What is written for a comparison, or for `and`, `or`, `not`; None for the operation itself."""
    settled = decided(op, inputs)
    if settled is not None:
        return forms.leaf(ONE if settled else ZERO)
    if op is not_:
        return None
    if op in LOGIC:
        return _joined(forms, op, *inputs)
    return _number_on_the_right(forms, op, inputs[0]) if is_literal(inputs[1], 0) else None


def _joined(forms: Forms, op: Op, a: Node, b: Node) -> Node | None:
    """Two conditions as one where the other says nothing, or as a chain."""
    for one, other in ((a, b), (b, a)):
        if one.op in CONDITIONS and (other is one or truth(other) is not None):
            return one
    return _chain(forms, a, b) if op is and_ else None


def _chain(forms: Forms, a: Node, b: Node) -> Node | None:
    """Two comparisons that hold together turned so that they read as one; None if they cannot be, or are so already."""
    if a.op not in TURNED or b.op not in TURNED or _follows(a, b):
        return None
    low, high = _ascending(forms, a), _ascending(forms, b)
    if low.inputs[1] is high.inputs[0]:
        return forms.apply(and_, low, high)
    return forms.apply(and_, high, low) if high.inputs[1] is low.inputs[0] else None


def _follows(a: Node, b: Node) -> bool:
    return a.inputs[1] is b.inputs[0] and (a.op in _ASCENDING) == (b.op in _ASCENDING)


def _ascending(forms: Forms, comparison: Node) -> Node:
    assert comparison.op is not None
    if comparison.op in _ASCENDING:
        return comparison
    return forms.apply(TURNED[comparison.op], *comparison.inputs[::-1])


def _number_on_the_right(forms: Forms, op: Op, difference: Node) -> Node | None:
    """A comparison with 0 as one with a number: n - 1 > 0 as n > 1, 2 - n > 0 as n < 2."""
    terms = forms.sums.get(difference, {})
    if len(terms) != 2 or forms.one not in terms:
        return None
    (term,) = (term for term in terms if term is not forms.one)
    sign = terms[term]
    if sign.size != 1:
        return None
    number = forms.product(Product(-terms[forms.one].times(sign), {}))
    return forms.apply(op if sign.value > 0 else TURNED.get(op, op), term, number)
