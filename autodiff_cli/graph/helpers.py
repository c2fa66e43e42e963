"""Helper operations put away: what people read in their place."""

from __future__ import annotations

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import rebuild, topological


def without_helpers(root: Node) -> dict[Node, Node]:
    """For each node of a graph the one without operations that serve rules only: they become their definitions."""
    made: dict[Node, Node] = {}
    for node in topological((root,)):
        inputs = tuple([made[child] for child in node.inputs])
        if node.op is not None and node.op.helper:
            made[node] = _definition(node.op, inputs)
        elif all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
            made[node] = node
        else:
            made[node] = Node(node.op, inputs)
    return made


def _definition(op: Op, inputs: tuple[Node, ...]) -> Node:
    """The definition of a helper, with these inputs; it recurses over the table of operations, not over a graph."""
    definition = op.expand(len(inputs))
    assert definition is not None
    plain = without_helpers(definition)[definition]
    return rebuild([plain], dict(zip(op.placeholders(len(inputs)), inputs, strict=True)))[0]
