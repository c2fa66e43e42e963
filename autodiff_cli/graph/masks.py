"""Masks, as graphs: joined, and what can be told of them before they are evaluated."""

from __future__ import annotations

from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.op import registered

_ARRANGED = {"place", "pad", "broadcast_like", "transpose"}


def holds_somewhere(mask: Node) -> bool:
    """Whether a mask certainly holds for an element, as that of `v[0]` or `max(v)` does."""
    waiting = [mask]
    while waiting:
        mask = waiting.pop()
        if mask.op is None:
            if is_literal(mask, 1):
                return True
        elif mask.op.name in _ARRANGED:
            waiting.append(mask.inputs[0])
        elif mask.op.name == "or":
            waiting.extend(mask.inputs)
        elif mask.op.name == "not" and _is_beaten(mask.inputs[0]):
            return True
    return False


def holds_in_part(graph: Node) -> bool:
    """Whether this graph of an amount is 0 by itself in some elements, since it puts a piece into zeros."""
    return graph.op is not None and graph.op.name in ("place", "pad")


def _is_beaten(mask: Node) -> bool:
    """Whether this says which elements of an array are not its largest, or not its smallest."""
    if mask.op is None or mask.op.name not in ("lt", "gt"):
        return False
    element, best = mask.inputs
    return best.op is not None and best.op.name in ("largest", "smallest") and best.inputs[0] is element


def both(outer: Node | None, inner: Node | None) -> Node | None:
    """The mask that holds where both do."""
    if outer is None or inner is None:
        return inner if outer is None else outer
    return registered("and")(outer, inner)


def split(mask: Node) -> tuple[Node | None, Node]:
    """The mask outside which another was set, if it is such a one, and that other."""
    if mask.op is not None and mask.op.name == "and":
        return mask.inputs[0], mask.inputs[1]
    return None, mask


def negates(a: Node, b: Node) -> bool:
    """Whether the first mask is written as the opposite of the second."""
    return a.op is not None and a.op.name == "not" and a.inputs[0] is b
