"""Translation of graphs into a target language, and notations that languages share.

`GraphWriter` writes graphs, and expresses operations that a language lacks by others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce

from autodiff_cli.graph.codegen import Fragment, Notation, read_notations
from autodiff_cli.graph.node import Node, Op, is_literal
from autodiff_cli.graph.tape import infer, topological_order
from autodiff_cli.numbers.forms import DEFINITIONS
from autodiff_cli.numbers.translation import Library
from autodiff_cli.system import read_tables

# Source code of functions that exported programs define where a language lacks them, by language and name.
SOURCE = read_tables(__file__, "snippets.toml")
_TABLES = read_tables(__file__, "notations.toml")


def language_notations(
    levels: Mapping[str, int], *languages: str, brackets: tuple[str, str] = ("(", ")"), prefix: str = ""
) -> dict[str, Notation]:
    """Return the notations of some sections of `notations.toml`, after the operators that most languages share.

    Args:
        levels, brackets, prefix: see `read_notations`.
    """
    sections = (read_notations(_TABLES[each], levels, brackets, prefix) for each in ("operators", *languages))
    return {op: notation for section in sections for op, notation in section.items()}


def shortest_literal(text: str) -> str:
    """Return the shortest text for the float nearest to a decimal number.

    >>> shortest_literal("1E-09"), shortest_literal("2.50"), shortest_literal("100")
    ('1e-9', '2.5', '100')
    """
    return re.sub(r"e([-+]?)0*(\d)", r"e\1\2", repr(float(text))).replace("e+", "e").removesuffix(".0")


def expand_small_power(x: Node, exponent: Node) -> Node | None:
    """Return x² or x³ as a product, and None for other powers; for languages in which a power is a function call."""
    if is_literal(exponent, 2):
        return x * x
    return x * x * x if is_literal(exponent, 3) else None


class UnsupportedOperationError(ValueError):
    """Error for operations that a language cannot express.

    Attributes:
        ops: the operations of the formula that are not supported.
    """

    def __init__(self, ops: Sequence[Op]) -> None:
        super().__init__(", ".join(op.name for op in ops))
        self.ops = ops


class GraphWriter:
    """Writes graphs in a language, and adds the functions that they call to its library.

    Args:
        library: the library of the language.
    """

    def __init__(self, library: Library) -> None:
        self.target = library.target
        self.library = library

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
            try:
                lowered[node] = self._lower_node(lowered, node)
            except UnsupportedOperationError as error:
                unsupported |= dict.fromkeys(error.ops)
                lowered[node] = node
        if unsupported:
            raise UnsupportedOperationError([*unsupported])
        return [lowered[root] for root in roots]

    def _lower_op(self, op: Op, inputs: Sequence[Node]) -> Node:
        """Return an operation on lowered inputs, expressed by operations that the language has."""
        takes_all = op.name in self.target.notations and op.name not in self.target.binary_ops
        if op.max_inputs is None and len(inputs) > 2 and not op.is_composite and not takes_all:
            return reduce(lambda x, y: self._lower_op(op, [x, y]), inputs)  # nested operations on two inputs
        for definition in self._candidate_definitions(op):
            if definition is None:
                return op(*inputs)
            graph = definition(*inputs)
            if graph is not None:
                lowered = {node: node for node in inputs}
                return infer(graph, lowered, partial(self._lower_node, lowered))
        raise UnsupportedOperationError([op])

    def _candidate_definitions(self, op: Op) -> Iterator[Callable[..., Node | None] | None]:
        """Yield the ways to express an operation, best first: a definition, or None for the operation itself."""
        name = op.name
        if name in self.target.definitions:
            yield self.target.definitions[name]
        if name in self.target.notations:
            yield None
        if self.library.has_function(name):
            yield None
        yield from filter(None, [DEFINITIONS.get(name), op.expansion])

    def _lower_node(self, lowered: Mapping[Node, Node], node: Node) -> Node:
        """Return the lowered form of a node whose inputs are lowered."""
        return node if node.op is None else self._lower_op(node.op, [lowered[child] for child in node.inputs])
