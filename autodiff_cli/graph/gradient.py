"""Reverse mode on nodes: the gradient of a graph, as graphs.

The same sweep as the numeric loop in `autodiff_cli.autodiff.reverse` (adjoint of an input += local × adjoint), but the
amounts are nodes. It needs nothing of an operation except its rule, so a composite's own partials are the gradient of
its expansion.

Contributions travel as `Partial`: an amount, and a mask under which it counts. A mask is not multiplied in: where it
does not hold the amount is *selected away*, so that the branch a choice does not take contributes exactly 0, whatever
stands there.
"""

from __future__ import annotations

from collections.abc import Sequence

from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.op import ONE, ZERO, Partial, registered
from autodiff_cli.graph.tape import Tape, rebuild

NOTHING = Partial(ZERO)


def gradient(output: Node, wrt: Sequence[Node]) -> list[Partial]:
    """The derivative of `output` towards each node of `wrt`, as (amount, mask)."""
    tape = Tape((output,), wrt)
    arriving: list[list[Partial]] = [[] for _ in tape.nodes]
    arriving[tape.outputs[0]].append(Partial(ONE))
    for i in range(len(tape) - 1, -1, -1):
        if not tape.edges[i] or not arriving[i]:
            continue
        adjoint = add_up(arriving[i])
        partials = partials_at(tape.nodes[i])
        for k in tape.edges[i]:
            partial = partials[k]
            if not is_literal(partial.local, 0):
                amount = Partial(_times(partial.local, adjoint.local), _both(adjoint.mask, partial.mask))
                arriving[tape.inputs[i][k]].append(amount)
        arriving[i] = [adjoint]
    found = (arriving[tape.index[node]] if node in tape.index else [] for node in wrt)
    return [add_up(amounts) if amounts else NOTHING for amounts in found]


def gradient_nodes(output: Node, wrt: Sequence[Node]) -> list[Node]:
    """The derivative of `output` towards each node of `wrt`, each as one graph that is 0 where its mask fails."""
    return [selected(partial) for partial in gradient(output, wrt)]


def tangent(output: Node, seeds: dict[Node, Node]) -> Node:
    """Forward mode on nodes: the derivative of `output` along the direction that gives each leaf its seed."""
    tape = Tape((output,), seeds)
    tangents: list[Node | None] = []
    for node, inputs, edges in zip(tape.nodes, tape.inputs, tape.edges, strict=True):
        if node in seeds:
            tangents.append(seeds[node])
            continue
        amounts = []
        partials = partials_at(node) if edges else ()
        for k in edges:
            incoming = tangents[inputs[k]]
            if incoming is not None and not is_literal(partials[k].local, 0):
                amounts.append(Partial(_times(partials[k].local, incoming), partials[k].mask))
        tangents.append(selected(add_up(amounts[::-1])) if amounts else None)
    found = tangents[tape.outputs[0]]
    return ZERO if found is None else found


def partials_at(node: Node) -> list[Partial]:
    """The rule of the node's operation with the node and its inputs put in for the placeholders."""
    assert node.op is not None
    rule = node.op.partials(len(node.inputs))
    place = {rule.output: node, **dict(zip(rule.inputs, node.inputs, strict=True))}
    roots = [part for p in rule.partials for part in (p.local, ONE if p.mask is None else p.mask)]
    built = rebuild(roots, place)
    return [
        Partial(local, None if p.mask is None else mask)
        for p, local, mask in zip(rule.partials, built[::2], built[1::2], strict=True)
    ]


def selected(partial: Partial) -> Node:
    """The amount where the mask holds, else 0, as one graph."""
    if partial.mask is None:
        return partial.local
    return registered("where")(partial.mask, partial.local, ZERO)


def add_up(amounts: Sequence[Partial]) -> Partial:
    """The sum of contributions. Those under one mask stay under it; opposite masks join to one `where`.

    They arrive from the output's end; the sum is written in the order of the text.
    """
    total = amounts[-1]
    for amount in amounts[-2::-1]:
        total = _add(total, amount)
    return total


def _add(a: Partial, b: Partial) -> Partial:
    if a.mask is b.mask:
        return Partial(a.local + b.local, a.mask)
    for one, other in ((a, b), (b, a)):
        if one.mask is not None and other.mask is not None:
            outer, inner = _split(one.mask)
            other_outer, other_inner = _split(other.mask)
            if outer is other_outer and _negates(other_inner, inner):
                return Partial(registered("where")(inner, one.local, other.local), outer)
    mask = None if a.mask is None or b.mask is None else registered("or")(a.mask, b.mask)
    return Partial(selected(a) + selected(b), mask)


def _both(outer: Node | None, inner: Node | None) -> Node | None:
    if outer is None or inner is None:
        return inner if outer is None else outer
    return registered("and")(outer, inner)


def _split(mask: Node) -> tuple[Node | None, Node]:
    if mask.op is not None and mask.op.name == "and":
        return mask.inputs[0], mask.inputs[1]
    return None, mask


def _negates(a: Node, b: Node) -> bool:
    return a.op is not None and a.op.name == "not" and a.inputs[0] is b


def _times(local: Node, adjoint: Node) -> Node:
    if is_literal(adjoint, 1):
        return local
    if is_literal(local, 1):
        return adjoint
    return local * adjoint
