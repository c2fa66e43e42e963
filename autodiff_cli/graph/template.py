"""Templates: graphs over placeholders, made ready to be built over other nodes again and again."""

from __future__ import annotations

from collections.abc import Sequence

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import topological


class Template:
    """Graphs whose leaves `places` stand for other nodes; what depends on none of them is shared by all that is built.

    >>> from autodiff_cli.graph.node import variable
    >>> x, place = variable("x"), variable("place")
    >>> [built] = Template([place], [place * place]).build([x])
    >>> built.inputs
    (<input x>, <input x>)
    """

    __slots__ = ("_fixed", "_roots", "_steps")

    def __init__(self, places: Sequence[Node], roots: Sequence[Node]) -> None:
        order = topological(roots)
        depends = set(places)
        for node in order:
            if not depends.isdisjoint(node.inputs):
                depends.add(node)
        self._fixed = [node for node in order if node not in depends]
        made = [node for node in order if node in depends and node.inputs]
        index = {node: i for i, node in enumerate([*places, *self._fixed, *made])}
        self._steps: list[tuple[Op | None, list[int]]] = [
            (node.op, [index[child] for child in node.inputs]) for node in made
        ]
        self._roots = [index[root] for root in roots]

    def build(self, nodes: Sequence[Node]) -> list[Node]:
        """The graphs with these nodes for the placeholders."""
        built = [*nodes, *self._fixed]
        for op, inputs in self._steps:
            built.append(Node(op, tuple([built[i] for i in inputs])))
        return [built[i] for i in self._roots]
