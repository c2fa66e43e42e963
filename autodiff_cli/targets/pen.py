"""Graphs written in a language: what the language lacks put in other words, then straight lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.straight import Fragment
from autodiff_cli.graph.tape import topological
from autodiff_cli.targets.definitions import DEFINITIONS
from autodiff_cli.targets.library import Library


class LackingError(ValueError):
    """A language lacks operations.

    Attributes:
        ops: the operations, as the formula names them.
    """

    def __init__(self, ops: Sequence[Op]) -> None:
        super().__init__(", ".join(op.name for op in ops))
        self.ops = ops


class Pen:
    """Writes operations in a language, and keeps account of what they need besides.

    Args:
        library: of the language.
        shorter: definitions that come before a function of the same operation, where the language has no notation.
    """

    def __init__(self, library: Library, shorter: Mapping[str, Callable[..., Node]] | None = None) -> None:
        self.target = library.target
        self.library = library
        self._shorter = shorter or {}

    def write(self, node: Node, operands: Sequence[Fragment]) -> Fragment:
        """A constant, or an operation on operands."""
        if node.op is not None:
            return self.library.operation(node.op.name, operands)
        named = node.text in self.target.numbers
        return self.library.constant(node.text) if named else Fragment(self.target.literal(node.text))

    def words(self, roots: Sequence[Node]) -> list[Node]:
        """The same graphs with operations that the language has, as they are or by a function.

        Raises:
            LackingError: where there are others.
        """
        made: dict[Node, Node] = {}
        lacking: dict[Op, None] = {}
        for node in topological(roots):
            inputs = [made[child] for child in node.inputs]
            if node.op is None:
                made[node] = node
                continue
            try:
                made[node] = self._in_words(node.op, inputs)
            except LackingError as error:
                lacking |= dict.fromkeys(error.ops)
                made[node] = node
        if lacking:
            raise LackingError([*lacking])
        return [made[root] for root in roots]

    def _in_words(self, op: Op, inputs: Sequence[Node]) -> Node:
        """An operation on inputs that are in words already."""
        if op.most is None and len(inputs) > 2 and op.name not in self.target.notations:
            return reduce(op, inputs)  # as one of two, again and again
        for definition in self._definitions(op):
            if definition is None:
                return op(*inputs)
            graph = definition(*inputs)
            if graph is not None:
                return self._settled(graph, {node: node for node in inputs})
        raise LackingError([op])

    def _definitions(self, op: Op) -> Iterator[Callable[..., Node | None] | None]:
        """How an operation can be said, what is best first; None: as it is."""
        name = op.name
        if name in self.target.definitions:
            yield self.target.definitions[name]
        if name in self.target.notations:
            yield None
        if name in self._shorter:
            yield self._shorter[name]
        if self.library.has(name):
            yield None
        yield from filter(None, [DEFINITIONS.get(name), op.expansion])

    def _settled(self, graph: Node, made: dict[Node, Node]) -> Node:
        """A definition in words; it recurses over the definition, which is small."""
        if graph not in made:
            inputs = [self._settled(child, made) for child in graph.inputs]
            made[graph] = graph if graph.op is None else self._in_words(graph.op, inputs)
        return made[graph]
