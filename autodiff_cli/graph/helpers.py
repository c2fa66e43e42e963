"""Helper operations put away: what people read in their place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import topological
from autodiff_cli.graph.template import Template


def without_helpers(
    roots: Sequence[Node], finish: Callable[[Op, tuple[Node, ...], Node], Node] | None = None
) -> dict[Node, Node]:
    """For each node of graphs the one without operations that serve rules only: they become their definitions.

    Args:
        finish: what is to stand for a helper on these inputs, given its definition; the definition itself by default.
    """
    order = topological(roots)
    if not any(node.op is not None and node.op.helper for node in order):
        return dict(zip(order, order, strict=True))
    made: dict[Node, Node] = {}
    for node in order:
        inputs = tuple([made[child] for child in node.inputs])
        if node.op is not None and node.op.helper:
            (definition,) = _definition(node.op, len(inputs)).build(inputs)
            made[node] = definition if finish is None else finish(node.op, inputs, definition)
        else:
            made[node] = node if inputs == node.inputs else Node(node.op, inputs)
    return made


@functools.cache
def _definition(op: Op, count: int) -> Template:
    """The definition of a helper; it recurses over the table of operations, not over a graph."""
    definition = op.expand(count)
    assert definition is not None
    return Template(op.placeholders(count), [without_helpers([definition])[definition]])
