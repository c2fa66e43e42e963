"""How an adjoint passes through an operation on whole arrays, as a formula of labels: `outer(adjoint, x)`."""

from __future__ import annotations

import math

from autodiff_cli.explain.record import Trace, shape_of
from autodiff_cli.graph.node import Node, constant, variable
from autodiff_cli.graph.op import Gate, Passage, Precedence
from autodiff_cli.graph.tape import Tape, rebuild
from autodiff_cli.language.printer import to_pieces

_LONGEST = 72  # characters


def passage(trace: Trace, i: int, position: int) -> str | None:
    """What an operation on whole arrays hands to an input: `Wᵀ @ adjoint`; None for nothing."""
    from autodiff_cli.algebra.simplify import simplify

    op, inputs = trace.tape.nodes[i].op, trace.tape.inputs[i]
    assert op is not None
    rule = op.passage(tuple(shape_of(trace.values[j]) for j in inputs))
    graph = rule.back[position]
    if graph is None:
        return None
    if op.gate is Gate.ROUTE and op.kink is not None:
        return f"its share of the adjoint at {op.summary}, 0 elsewhere"
    nodes = {rule.output: i, **dict(zip(rule.inputs, inputs, strict=True))}
    leaves = {j: _leaf(trace, j) for j in nodes.values()}
    place = {placeholder: leaves[j] for placeholder, j in nodes.items()} | _sizes(trace, graph, nodes)
    (passed,) = simplify(rebuild([graph], place), scalar=False)
    every = passed.op is not None and passed.op.name == "broadcast_like"
    if every:
        passed = passed.inputs[0]
    arranged = None if every else _arranged(rule, passed)
    if arranged is not None:
        return arranged
    slots = {leaf: j for j, leaf in leaves.items() if not leaf.is_constant}
    levels = {leaf: trace.naming.level(j) for leaf, j in slots.items()} | {rule.adjoint: Precedence.ATOM}
    formula = ""
    pieces = to_pieces(passed, levels, levels)
    for piece, after in zip(pieces, [*pieces[1:], ""], strict=True):
        if isinstance(piece, str):
            formula += piece[1:] if formula.endswith("ᵀ") else piece
            continue
        label = "adjoint" if piece.leaf is rule.adjoint else trace.naming.own(slots[piece.leaf])
        is_loose = piece.is_loose
        if formula.endswith("transpose(") and isinstance(after, str) and after.startswith(")"):
            formula = formula.removesuffix("transpose(")
            label, is_loose = f"({label})ᵀ" if levels[piece.leaf] < Precedence.ATOM else f"{label}ᵀ", False
        formula += f"({label})" if is_loose else label
    if len(formula) > _LONGEST:
        return "its part of the adjoint"
    return f"{formula}, for every element" if every else formula


def _leaf(trace: Trace, j: int) -> Node:
    """What stands for a node in a formula: a constant is itself."""
    node = trace.tape.nodes[j]
    return node if node.op is None and node not in trace.expression.names else variable(trace.labels[j])


def _sizes(trace: Trace, graph: Node, nodes: dict[Node, int]) -> dict[Node, Node]:
    """The numbers of elements that a graph asks for."""
    asked = [node for node in Tape([graph]).nodes if node.op is not None and node.op.name == "size"]
    return {
        node: constant(str(math.prod(shape_of(trace.values[nodes[node.inputs[0]]]))))
        for node in asked
        if node.inputs[0] in nodes
    }


def _arranged(rule: Passage, passed: Node) -> str | None:
    """An adjoint of which parts are picked or put somewhere, in words."""
    if passed.op is None or passed.inputs[0] is not rule.adjoint:
        return None
    match passed.op.name:
        case "place":
            return f"adjoint at [{', '.join(at.text for at in passed.inputs[2:])}], 0 elsewhere"
        case "part":
            first, last = int(passed.inputs[1].text), int(passed.inputs[2].text) - 1
            return f"element {first} of the adjoint" if first == last else f"elements {first} to {last} of the adjoint"
    return None
