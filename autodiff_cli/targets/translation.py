"""Translation of graphs into a target language.

`GraphWriter` writes graphs, and expresses operations that a language lacks by others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce

from autodiff_cli.graph.codegen import Fragment
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import topological_order
from autodiff_cli.numbers.forms import DEFINITIONS
from autodiff_cli.numbers.translation import Library


class UnsupportedOperationError(ValueError):
    """A language can express some operations in no way.

    Attributes:
        ops: the operations of the formula that are not supported.
    """

    def __init__(self, ops: Sequence[Op]) -> None:
        super().__init__(", ".join(op.name for op in ops))
        self.ops = ops


class GraphWriter:
    """Writes graphs in a language, and includes what they need in its library.

    Args:
        library: the library of the language.
        short_definitions: definitions to prefer over a function for operations without a notation.
    """

    def __init__(self, library: Library, short_definitions: Mapping[str, Callable[..., Node]] | None = None) -> None:
        self.target = library.target
        self.library = library
        self._short_definitions = short_definitions or {}

    def write(self, node: Node, operands: Sequence[Fragment]) -> Fragment:
        """Return the code of a constant, or of an operation on operands."""
        if node.op is not None:
            return self.library.operation(node.op.name, operands)
        return self.library.number(node.text)

    def lower(self, roots: Sequence[Node]) -> list[Node]:
        """Return equivalent graphs of operations that the language has, as notations or functions.

        Raises:
            UnsupportedOperationError: if an operation cannot be expressed.
        """
        lowered: dict[Node, Node] = {}
        unsupported: dict[Op, None] = {}
        for node in topological_order(roots):
            inputs = [lowered[child] for child in node.inputs]
            if node.op is None:
                lowered[node] = node
                continue
            try:
                lowered[node] = self._lower_op(node.op, inputs)
            except UnsupportedOperationError as error:
                unsupported |= dict.fromkeys(error.ops)
                lowered[node] = node
        if unsupported:
            raise UnsupportedOperationError([*unsupported])
        return [lowered[root] for root in roots]

    def _lower_op(self, op: Op, inputs: Sequence[Node]) -> Node:
        """Return an operation on lowered inputs, expressed by operations that the language has."""
        if op.max_inputs is None and len(inputs) > 2 and op.name not in self.target.notations:
            return reduce(op, inputs)  # nested operations on two inputs
        for definition in self._candidate_definitions(op):
            if definition is None:
                return op(*inputs)
            graph = definition(*inputs)
            if graph is not None:
                return self._lower_graph(graph, {node: node for node in inputs})
        raise UnsupportedOperationError([op])

    def _candidate_definitions(self, op: Op) -> Iterator[Callable[..., Node | None] | None]:
        """Yield the ways to express an operation, best first: a definition, or None for the operation itself."""
        name = op.name
        if name in self.target.definitions:
            yield self.target.definitions[name]
        if name in self.target.notations:
            yield None
        if name in self._short_definitions:
            yield self._short_definitions[name]
        if self.library.has_function(name):
            yield None
        yield from filter(None, [DEFINITIONS.get(name), op.expansion])

    def _lower_graph(self, graph: Node, lowered: dict[Node, Node]) -> Node:
        """Return a lowered definition. It recurses over the definition, which is small."""
        if graph not in lowered:
            inputs = [self._lower_graph(child, lowered) for child in graph.inputs]
            lowered[graph] = graph if graph.op is None else self._lower_op(graph.op, inputs)
        return lowered[graph]
