"""Sums with negative numbers as a person writes them."""

from __future__ import annotations

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import topological
from autodiff_cli.ops.arithmetic import add, div, mul, neg, sub


def subtracted(root: Node) -> Node:
    """The same formula with `x - 2*y` for `x + -2*y`, and `x + 2*y` for `x - -2*y`: equal to the last bit.

    >>> from autodiff_cli.graph.node import constant, variable
    >>> from autodiff_cli.language.printer import to_text
    >>> x, y = variable("x"), variable("y")
    >>> to_text(subtracted(x + constant(-2.5) * y + constant(-1.0)))
    'x - 2.5*y - 1'
    """
    made: dict[Node, Node] = {}
    for node in topological([root]):
        inputs = tuple(made[child] for child in node.inputs)
        if node.op in (add, sub) and (positive := _positive(inputs[1])) is not None:
            made[node] = (sub if node.op is add else add)(inputs[0], positive)
        else:
            made[node] = Node(node.op, inputs) if inputs != node.inputs else node
    return made[root]


def _positive(node: Node) -> Node | None:
    """The negation of a product or quotient that begins with a negative number, and of such a number itself."""
    steps: list[Node] = []
    while node.op in (mul, div):
        steps.append(node)
        node = node.inputs[0]
    if node.op is not neg or not node.inputs[0].is_constant:
        return None
    node = node.inputs[0]
    for step in reversed(steps):
        node = Node(step.op, (node, step.inputs[1]))
    return node
