"""Operations on whole arrays put down to fewer: what is left are sums, products, extremes and arrangements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from autodiff_cli.algebra.table import NodeTable, as_it_stands
from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.op import Op, Shape
from autodiff_cli.graph.shapes import Shapes
from autodiff_cli.graph.tape import rebuild, topological
from autodiff_cli.ops.arithmetic import abs_, and_
from autodiff_cli.ops.choice import where
from autodiff_cli.ops.elementary import exp, log, sqrt, square
from autodiff_cli.ops.structural import dot, largest, logsumexp, norm, size, softmax, sum_

_INFINITY = constant("inf")


def _norm(x: Node) -> Node:
    """The root of the sum of squares, scaled by the largest so that no square overflows or vanishes."""
    sizes = abs_(x)
    scale = largest(sizes)
    usable = and_(scale > 0, scale < _INFINITY)
    return where(usable, scale * sqrt(sum_(square(sizes / where(usable, scale, 1)))), scale)


def _logsumexp(x: Node) -> Node:
    top = largest(x)
    level = where(abs_(top) < _INFINITY, top, 0)
    return level + log(sum_(exp(x - level)))


def _softmax(x: Node) -> Node:
    z = exp(x - largest(x))
    return z / sum_(z)


_DEFINITIONS: dict[Op, Callable[..., Node]] = {
    norm: _norm,
    logsumexp: _logsumexp,
    softmax: _softmax,
    dot: lambda a, b: sum_(a * b),
}


def defined(roots: Sequence[Node], leaves: Mapping[str, Shape]) -> list[Node]:
    """The same graphs, put down, with equal parts shared.

    Args:
        leaves: the shapes of leaves that are no scalars.
    """
    shapes = Shapes(leaves)

    def rewrite(table: NodeTable, op: Op, inputs: tuple[Node, ...]) -> Node:
        if op is size:
            return table.leaf(constant(str(math.prod(shapes.of(inputs[0]) or ()))))
        definition = _definition(op, inputs)
        return as_it_stands(table, op, inputs) if definition is None else _put_down(table, definition, inputs)

    return NodeTable(rewrite).rebuild(roots)


def _definition(op: Op, inputs: tuple[Node, ...]) -> Node | None:
    """What an operation on whole arrays says in terms of others; None if it stays."""
    if op in _DEFINITIONS:
        return _DEFINITIONS[op](*inputs)
    expansion = op.expand(len(inputs)) if op.structural else None
    if expansion is None:
        return None
    return rebuild([expansion], dict(zip(op.placeholders(len(inputs)), inputs, strict=True)))[0]


def _put_down(table: NodeTable, graph: Node, inputs: tuple[Node, ...]) -> Node:
    """A graph over nodes of the table, in the table."""
    made: dict[Node, Node] = {node: node for node in inputs}
    for node in topological([graph]):
        if node in made:
            continue
        made[node] = (
            table.leaf(node) if node.op is None else table.apply(node.op, *[made[each] for each in node.inputs])
        )
    return made[graph]
