"""The printer: writes graphs as expressions, without needless brackets. Reading the text gives the same graph."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from itertools import count
from typing import NamedTuple

from autodiff_cli.graph.codegen import Notation
from autodiff_cli.graph.node import Node, Op, Precedence, Shape
from autodiff_cli.graph.tape import expand_helpers, format_shape, topological_order
from autodiff_cli.language.lexer import quote_name
from autodiff_cli.language.names import CONSTANTS

TIGHT_OPERATORS = {"*", "/", "%", "^"}  # written without blanks around them
NO_SIGN_AFTER = ("+", "-", "*", "/", "%")  # a negative number right after these is hard to read, as in 2 - -3
BINDING_LENGTH = len(" = ; ")  # characters that binding a name adds, beside the name and the expression
_NUMBER_LENGTH = len("-10")  # characters; a typical number, for a leaf that a number will replace


def to_text(
    node: Node, names: Mapping[Node, str] | None = None, share: bool = True, shapes: Mapping[str, Shape] | None = None
) -> str:
    """Return a graph as text in the expression language.

    Helper operations, which only occur in derivative rules, are printed as their definitions.

    Args:
        node: the output of the graph.
        names: names for nodes, to bind them in the text.
        share: whether every node that is used more than once, or has a name, is bound to a name. Then reading the text
            gives the same graph, sharing included. If not, a node is bound only where that makes the text shorter.
        shapes: shapes of input leaves to declare, by name; names that the graph does not have are ignored.
    """
    return "".join(piece for piece in _print_pieces(node, names, share, shapes) if isinstance(piece, str))


class Gap(NamedTuple):
    """A place in a text for the replacement of a leaf.

    Attributes:
        leaf: the leaf to replace.
        needs_brackets: whether the replacement needs brackets; a number needs them only if it is negative.
    """

    leaf: Node
    needs_brackets: bool


def to_pieces(
    node: Node, leaves: Collection[Node], precedences: Mapping[Node, Precedence] | None = None
) -> list[str | Gap]:
    """Return a graph in the expression language, as pieces of text with gaps for some leaves.

    A node that is used more than once is bound to a name where that makes the text shorter.

    Args:
        node: the output of the graph.
        leaves: the leaves that become gaps.
        precedences: the precedence of the replacement of a leaf; by default the precedence of a negative number.

    >>> from autodiff_cli.graph.node import variable
    >>> x, y = variable("x"), variable("y")
    >>> to_pieces(x**2 * y, [x, y])
    [Gap(leaf=<input x>, needs_brackets=True), '^2*', Gap(leaf=<input y>, needs_brackets=True)]
    """
    pieces: list[str | Gap] = []
    known_precedences = precedences or {}
    for piece in _print_pieces(node, gaps=dict.fromkeys(leaves, Precedence.SIGN) | dict(known_precedences)):
        before = pieces[-1] if pieces else None
        if isinstance(piece, str) and isinstance(before, str):
            pieces[-1] = before + piece
        elif isinstance(piece, Gap) and piece.leaf not in known_precedences and isinstance(before, str):
            is_beside = before.rstrip().endswith(NO_SIGN_AFTER)
            pieces.append(piece._replace(needs_brackets=piece.needs_brackets or is_beside))
        elif piece != "":
            pieces.append(piece)
    return pieces


def _print_pieces(
    node: Node,
    names: Mapping[Node, str] | None = None,
    share: bool = False,
    shapes: Mapping[str, Shape] | None = None,
    gaps: Mapping[Node, Precedence] | None = None,
) -> list[str | Gap]:
    expanded = expand_helpers([node])
    bound_names = {expanded[named]: name for named, name in (names or {}).items() if named in expanded}
    root = expanded[node]
    order = list(expanded) if root is node else topological_order((root,))
    return _Printer(order, bound_names, share, shapes or {}, gaps or {}).pieces()


class _Printer:
    """Prints one graph: it decides which nodes are bound to names, then writes one statement after the other."""

    def __init__(
        self,
        order: Sequence[Node],
        names: Mapping[Node, str],
        share: bool,
        shapes: Mapping[str, Shape],
        gaps: Mapping[Node, Precedence],
    ) -> None:
        self.order = order
        self.root = order[-1]
        self.shapes = shapes
        self.gaps = gaps
        self.uses = Counter(child for node in self.order for child in node.inputs)
        self.chains = comparison_chains(self.order, self.uses, names.keys() if share else frozenset())
        self.uses.subtract(chain.inputs[1].inputs[0] for chain in self.chains)  # a chain writes its middle operand once
        self.notations = {node: node_notation(node, self.chains) for node in self.order if node.op is not None}
        self.precedences = {node: node_precedence(node, self.chains) for node in self.order}
        self.precedences.update(gaps)
        self.used_names = {node.text for node in self.order if node.is_input}
        self.bound_names: dict[Node, str] = {}
        self._bind(names, share)

    def pieces(self) -> list[str | Gap]:
        arrays = [node.text for node in self.order if node.is_input and self.shapes.get(node.text)]
        statements: list[list[str | Gap]] = [
            [f"{quote_name(name)}: {format_shape(self.shapes[name])}"] for name in arrays
        ]
        statements += [[f"{quote_name(name)} = ", *self._expression(node)] for node, name in self.bound_names.items()]
        if self.root not in self.bound_names:
            statements.append(self._expression(self.root))
        return [piece for statement in statements for piece in ("; ", *statement)][1:]

    def _bind(self, names: Mapping[Node, str], share: bool) -> None:
        """Choose the nodes to bind, and their names.

        Lengths are added up without writing the texts, which could grow exponentially.
        """
        reserved = self.used_names | set(names.values())
        fresh = (name for name in (f"t{i}" for i in count(1)) if name not in reserved)
        brackets = Counter[Node]() if share else self._bracket_counts()
        lengths: dict[Node, int] = {}
        spare = next(fresh)
        for node in self.order:
            name = names.get(node, spare)
            name = spare if name in self.used_names else name
            if share:
                is_bound = (node.op is not None and self.uses[node] > 1) or (node in names and not node.is_input)
            else:
                uses = self.uses[node]
                lengths[node] = length = self._length(node, lengths)
                repeated = length * uses + 2 * brackets[node]
                is_bound = node.op is not None and length + BINDING_LENGTH + len(name) * (uses + 1) < repeated
            if is_bound:
                self.bound_names[node] = name
                self.precedences[node] = Precedence.ATOM
                self.used_names.add(name)
                lengths[node] = len(name)
                spare = next(fresh) if name == spare else spare

    def _bracket_counts(self) -> Counter[Node]:
        """Count how often each node would stand in brackets."""
        links = {chain.inputs[1] for chain in self.chains}
        alone = (self.notations[node] for node in self.notations if node not in links)
        return Counter(
            child
            for form, operands in alone
            for child, least in zip(operands, form.operand_precedences, strict=True)
            if self.precedences[child] < least
        )

    def _length(self, node: Node, lengths: Mapping[Node, int]) -> int:
        if node.op is None:
            return _NUMBER_LENGTH if node in self.gaps else len(node.text)
        form, operands = self.notations[node]
        total = sum(map(len, form.texts))
        for child, least in zip(operands, form.operand_precedences, strict=True):
            total += lengths[child] + 2 * (self.precedences[child] < least)
        return total

    def _expression(self, node: Node) -> list[str | Gap]:
        """Return the pieces of a node's expression, from left to right. The pieces still to write are on a stack."""
        if node.op is None:
            return [self._leaf(node, Precedence.STATEMENT)]
        pieces: list[str | Gap] = []
        stack: list[str | Gap | Node] = [node]
        while stack:
            piece = stack.pop()
            if not isinstance(piece, Node):
                pieces.append(piece)
                continue
            form, operands = self.notations[piece]
            for i in range(len(operands) - 1, -1, -1):
                child = operands[i]
                stack.append(form.texts[i + 1])
                if child in self.bound_names:
                    stack.append(quote_name(self.bound_names[child]))
                elif child.op is None:
                    stack.append(self._leaf(child, form.operand_precedences[i]))
                elif self.precedences[child] < form.operand_precedences[i]:
                    stack += (")", child, "(")
                else:
                    stack.append(child)
            stack.append(form.texts[0])
        return pieces

    def _leaf(self, node: Node, least: int) -> str | Gap:
        if node in self.gaps:
            return Gap(node, self.precedences[node] < least)
        if node.is_constant and node.text in self.used_names and node.text in CONSTANTS:
            return CONSTANTS[node.text]  # its name means something else in this text
        return node.text if node.is_constant else quote_name(node.text)


@functools.cache
def op_notation(op: Op, count: int) -> Notation:
    """Return the notation of an operation on `count` operands."""
    if op.name == "stack":
        return _list_notation(("[",), (), count, "]")
    if op.name == "index":
        return _list_notation(("", "["), (Precedence.ATOM,), count - 1, "]")
    if not op.symbol:
        return _list_notation((f"{op.spelling or op.name}(",), (), count, ")")
    if count == 1:
        return Notation(("not " if op.symbol == "not" else op.symbol, ""), (op.precedence,), op.precedence)
    between = op.symbol if op.symbol in TIGHT_OPERATORS else f" {op.symbol} "
    return Notation(("", between, ""), _operand_precedences(op), op.precedence)


def _list_notation(before: tuple[str, ...], least: tuple[Precedence, ...], count: int, after: str) -> Notation:
    """Return the notation of a list of `count` operands, after operands of the precedences `least`."""
    return Notation((*before, *[", "] * (count - 1), after), (*least, *[Precedence.STATEMENT] * count), Precedence.ATOM)


def node_notation(node: Node, chains: Set[Node]) -> tuple[Notation, Sequence[Node]]:
    """Return the notation of a node, and its operands from left to right.

    Args:
        node: the node of an operation.
        chains: the `and` nodes that are written as chained comparisons.
    """
    if node not in chains:
        return op_notation(node.operation, len(node.inputs)), node.inputs
    before, link = node.inputs
    notation = op_notation(link.operation, 2)
    precedences = (Precedence.COMPARISON, notation.operand_precedences[1])
    return notation._replace(operand_precedences=precedences), (before, link.inputs[1])


def _operand_precedences(op: Op) -> tuple[Precedence, Precedence]:
    """Return the least precedences that the operands of an infix operator need to stand without brackets."""
    if op.precedence is Precedence.POWER:
        return Precedence.ATOM, Precedence.SIGN
    if op.precedence is Precedence.COMPARISON:
        return Precedence.SUM, Precedence.SUM
    return op.precedence, Precedence(op.precedence + 1)


def node_precedence(node: Node, chains: Set[Node]) -> Precedence:
    """Return how tightly the text of a node binds."""
    if node.op is None or not node.op.symbol:
        return Precedence.ATOM
    return Precedence.COMPARISON if node in chains else node.op.precedence


def comparison_chains(nodes: Iterable[Node], uses: Mapping[Node, int], named: Set[Node]) -> set[Node]:
    """Return the `and` nodes that are written as chained comparisons.

    `0 < x and x <= 1` is written `0 < x <= 1` if x is the same node.

    Args:
        nodes: the nodes of a graph in topological order.
        uses: how often each node is an input.
        named: nodes with names, which cannot be inside a chain.
    """
    chains: set[Node] = set()
    for node in nodes:
        if node.op is None or node.op.name != "and":
            continue
        before, link = node.inputs
        last = before.inputs[1] if before in chains else before
        if not (_is_comparison(last) and _is_comparison(link) and last.inputs[1] is link.inputs[0]):
            continue
        if all(uses[part] == 1 and part not in named for part in (before, link)):
            chains.add(node)
    return chains


def _is_comparison(node: Node) -> bool:
    return node.op is not None and node.op.precedence is Precedence.COMPARISON
