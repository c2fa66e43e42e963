"""A trace of arrays with every element as a node of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autodiff_cli.explain.record import Trace, shape_of
from autodiff_cli.explain.tracing import trace
from autodiff_cli.graph.node import Node

MOST_SCALARS = 400  # nodes that someone may want to look at one by one


def in_scalars(found: Trace) -> Trace | None:
    """The same computation on numbers; None where there are no arrays, or too many elements.

    >>> from autodiff_cli import parse
    >>> in_scalars(trace(parse("sum(v^2)"), {"v": [1, 2]})).gradient
    {'v[0]': 2.0, 'v[1]': 4.0}
    """
    if found.is_scalar or shape_of(found.value):
        return None
    from autodiff_cli.autodiff.unroll import TooManyOperationsError, elements, unroll

    formula, index = found.expression, found.tape.index
    written = {name: elements(name, shape_of(value)) for name, value in found.point.items()}
    try:
        (output,) = unroll([formula.output], {formula.leaves[name]: written[name] for name in written}, MOST_SCALARS)
    except TooManyOperationsError:
        return None
    leaves = dict(leaf for name in written if formula.leaves[name] in index for leaf in _leaves(written[name]))
    point = {
        leaf.text: float(value)
        for name in written
        for leaf, value in zip(_flat(written[name]), _flat(found.point[name]), strict=True)
        if leaf.text in leaves
    }
    wrt = [leaf.text for name in found.wrt for leaf in _flat(written[name]) if leaf.text in leaves]
    made = trace(type(formula)(output.item(), leaves), point, wrt)
    return made if len(made.tape) <= MOST_SCALARS else None


def _leaves(array: Any) -> Iterator[tuple[str, Node]]:
    return ((leaf.text, leaf) for leaf in _flat(array))


def _flat(array: Any) -> list[Any]:
    return array.reshape(-1).tolist() if hasattr(array, "reshape") else [array]
