"""Calls as a person writes them: known values, signs in front, functions of their inverses."""

from __future__ import annotations

from collections.abc import Callable

from autodiff_cli.algebra.exact import UNIT
from autodiff_cli.algebra.passes.conditions import CONDITIONS, choice, condition
from autodiff_cli.algebra.passes.forms import Forms
from autodiff_cli.algebra.passes.powers import power, root
from autodiff_cli.algebra.passes.terms import Product, add_terms
from autodiff_cli.graph.node import Node, constant, is_literal
from autodiff_cli.graph.op import Op
from autodiff_cli.ops.choice import where
from autodiff_cli.ops.elementary import cos, cosh, exp, hypot, log, sin, sinh, sqrt, tan, tanh

TWO = constant("2")

_KNOWN = {(op, "0"): "1" for op in (exp, cos, cosh)}
_KNOWN |= {(op, "0"): "0" for op in (sin, tan, sinh, tanh, sqrt)}
_KNOWN |= {(log, "1"): "0", (log, "e"): "1", (sqrt, "1"): "1"}
_INVERSE = {exp: log, log: exp}


def call(forms: Forms, op: Op, inputs: tuple[Node, ...]) -> Node:
    """An operation that is neither a sum nor a product nor a power, on inputs that are written already."""
    known = _KNOWN.get((op, inputs[0].text)) if inputs[0].is_constant else None
    if known is not None:
        return forms.leaf(constant(known))
    found = _OTHERWISE.get(op, _without_sign)(forms, op, inputs) if forms.scalar else None
    return forms.apply(op, *inputs) if found is None else found


# --- what is written in place of a call; None for the call itself


def _sqrt(forms: Forms, _: Op, inputs: tuple[Node, ...]) -> Node:
    return forms.product(root(forms, inputs[0]))


def _inverse(_: Forms, op: Op, inputs: tuple[Node, ...]) -> Node | None:
    return inputs[0].inputs[0] if inputs[0].op is _INVERSE[op] else None


def _hypot(forms: Forms, _: Op, inputs: tuple[Node, ...]) -> Node | None:
    """hypot(1, x) as sqrt(1 + x^2)."""
    if not is_literal(inputs[0], 1):
        return None
    square = power(forms, inputs[1], forms.leaf(TWO))
    assert square is not None
    terms = {forms.one: UNIT}
    add_terms(terms, forms.terms_of(forms.product(square)))
    return forms.product(root(forms, forms.sum(terms)))


def _without_sign(forms: Forms, op: Op, inputs: tuple[Node, ...]) -> Node | None:
    """A function of what has a minus in front: sin(-x) as -sin(x)."""
    opposite = _opposite(forms, inputs[0]) if op.parity else None
    if opposite is None:
        return None
    of_opposite = forms.apply(op, opposite)
    return of_opposite if op.parity == 1 else forms.product(Product(-UNIT, {of_opposite: UNIT}))


def _opposite(forms: Forms, node: Node) -> Node | None:
    """The negation of what is written with a minus in front; None for anything else."""
    terms = forms.sums.get(node)
    if terms is not None:
        negative = all(coefficient.value < 0 for coefficient in terms.values())
        return forms.sum({term: -coefficient for term, coefficient in terms.items()}) if negative else None
    number, factors = forms.product_of(node)
    return forms.product(Product(-number, factors)) if number.value < 0 else None


_OTHERWISE: dict[Op, Callable[[Forms, Op, tuple[Node, ...]], Node | None]] = {
    sqrt: _sqrt,
    hypot: _hypot,
    exp: _inverse,
    log: _inverse,
    where: choice,
    **dict.fromkeys(CONDITIONS, condition),
}
