"""The table in which equal nodes are one node: every pass that rewrites graphs makes its nodes here.

A pass goes through a graph once, inputs first, and makes each node by `apply`, which asks the pass's rules how an
operation on these inputs is written; what was asked before is answered from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from autodiff_cli.graph.collector import collector_paused
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import topological

Rewrite: TypeAlias = Callable[["NodeTable", Op, tuple[Node, ...]], Node]


def as_it_stands(table: NodeTable, op: Op, inputs: tuple[Node, ...]) -> Node:
    """An operation on its inputs; only an element of an array that is written out is that element.

    >>> from autodiff_cli.language.lowering import read
    >>> (element,) = share([read("[x, y][1]").output])
    >>> element
    <input y>
    """
    taken = _element(*inputs[:2]) if op.name == "index" and len(inputs) > 1 else None
    if taken is None:
        return Node(op, inputs)
    return table.apply(op, taken, *inputs[2:]) if inputs[2:] else taken


class NodeTable:
    """Nodes by what they are: an operation and its inputs, or the text of a leaf.

    Args:
        rewrite: how an operation on inputs of the table is written.

    >>> from autodiff_cli.graph.node import variable
    >>> from autodiff_cli.ops.arithmetic import add
    >>> table = NodeTable()
    >>> x, again = table.leaf(variable("x")), table.leaf(variable("x"))
    >>> x is again, table.apply(add, x, x) is table.apply(add, again, x)
    (True, True)
    """

    __slots__ = ("_leaves", "_made", "_rewrite")

    def __init__(self, rewrite: Rewrite = as_it_stands) -> None:
        self._rewrite = rewrite
        self._leaves: dict[tuple[str, bool], Node] = {}
        self._made: dict[tuple[object, ...], Node] = {}

    def leaf(self, node: Node) -> Node:
        """The one leaf that stands for this and all equal ones."""
        return self._leaves.setdefault((node.text, node.is_constant), node)

    def apply(self, op: Op, *inputs: Node) -> Node:
        """An operation on nodes of the table, as the rules write it."""
        key = (op, *inputs)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._rewrite(self, op, inputs)
        return made

    def rebuild(self, roots: Sequence[Node]) -> list[Node]:
        """Graphs with every node made anew in this table."""
        new: dict[Node, Node] = {}
        with collector_paused():
            for node in topological(roots):
                new[node] = self.leaf(node) if node.op is None else self.apply(node.op, *[new[i] for i in node.inputs])
        return [new[root] for root in roots]


def share(roots: Sequence[Node]) -> list[Node]:
    """The same graphs with equal sub-expressions made one node, and `[a, b][0]` as a.

    >>> from autodiff_cli.language.lowering import read
    >>> (total,) = share([read("sin(x) + sin(x)").output])
    >>> total.inputs[0] is total.inputs[1]
    True
    """
    return NodeTable().rebuild(roots)


def _element(array: Node, position: Node) -> Node | None:
    """What stands at a position of an array that is written out; None if it is not written out so far."""
    if array.op is None or array.op.name != "stack" or not position.text.isdecimal():
        return None
    return array.inputs[int(position.text)] if int(position.text) < len(array.inputs) else None
