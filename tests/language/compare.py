"""A helper that compares two graphs."""

from __future__ import annotations

from autodiff_cli.graph.node import Node


def identical(a: Node, b: Node) -> bool:
    """Whether two graphs have the same operations, inputs, constants and sharing.

    Whether two uses of a constant are one leaf or two is not distinguished: the language writes no difference.
    """
    partner: dict[Node, Node] = {}
    waiting = [(a, b)]
    while waiting:
        one, other = waiting.pop()
        if one.is_constant or other.is_constant:
            if (one.is_constant, one.text) != (other.is_constant, other.text):
                return False
            continue
        if one in partner:
            if partner[one] is not other:
                return False
            continue
        if (one.op, one.text, len(one.inputs)) != (other.op, other.text, len(other.inputs)):
            return False
        partner[one] = other
        waiting.extend(zip(one.inputs, other.inputs, strict=True))
    return len(set(partner.values())) == len(partner)
