"""The order in which symbols are written in a product."""

from __future__ import annotations

from collections.abc import Sequence

from autodiff_cli.graph.node import Node
from autodiff_cli.ops.arithmetic import mul, neg
from autodiff_cli.ops.elementary import pow_

_INSIDE = frozenset({mul, neg, pow_})  # what a product's symbols stand in


def symbol_order(order: Sequence[Node], names: Sequence[str]) -> tuple[str, ...]:
    """The names of a formula's variables as its products have them: `a` before `x` in `x*exp(-a*x)`, where x stands
    first in the text. What no product decides stays as it is.

    Args:
        order: the nodes of the formula in topological order.
    """
    listed = list(names)
    position = {name: i for i, name in enumerate(listed)}
    for node in order:
        if node.op is not mul:
            continue
        first, second = _symbol(node.inputs[0], last=True), _symbol(node.inputs[1], last=False)
        if first in position and second in position and position[first] > position[second]:
            listed.insert(position[second], listed.pop(position[first]))
            position = {name: i for i, name in enumerate(listed)}
    return tuple(listed)


def _symbol(node: Node, last: bool) -> str:
    """The symbol that a product ends or begins with; nothing if it is none."""
    while node.op in _INSIDE:
        node = node.inputs[1] if node.op is mul and last else node.inputs[0]
    return node.text if node.is_input else ""
