"""Graph to text. What is printed reads back to the same graph, with no needless brackets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import count
from typing import TypeAlias

from autodiff_cli.graph.helpers import without_helpers
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op, Precedence, Shape
from autodiff_cli.graph.shapes import in_words
from autodiff_cli.graph.tape import topological
from autodiff_cli.language.scope import CONSTANTS

# Text, or an input and how tightly it has to bind to stand there without brackets.
Piece: TypeAlias = "str | tuple[Node, Precedence]"

TIGHT = {"*", "/", "%", "^"}  # written without blanks around them
BINDING_COST = len(" = ; ")


def to_text(
    node: Node,
    names: Mapping[Node, str] | None = None,
    share: bool = True,
    shapes: Mapping[str, Shape] | None = None,
) -> str:
    """The graph of a node in the expression language.

    Operations that serve derivative rules only are printed as what they stand for.

    Args:
        names: names for nodes, bound where they are printed.
        share: whether each node that is used more than once, or has a name, is bound to a name, so that reading gives
            the same graph, sharing included. Otherwise only where that makes the text shorter; else it is repeated.
        shapes: those of input leaves to declare, by name; leaves that the graph does not have are left out.
    """
    expanded = without_helpers(node)
    given = {expanded[named]: name for named, name in (names or {}).items() if named in expanded}
    return _Printer(expanded[node], given, share, shapes or {}).text()


def labels(
    nodes: Sequence[Node], inputs: Sequence[tuple[int, ...]], names: Mapping[Node, str], limit: int = 40
) -> list[str]:
    """A short text for each node of a tape: its name, its constant, or its sub-expression.

    Long ones are shortened in the middle. Each is built from the labels of its inputs, so that its cost does not grow
    with the size of what it stands for.

    Args:
        nodes: in topological order.
        inputs: for each node the positions of its inputs, as in a `Tape`.
        names: names of intermediates.
        limit: the most characters of the label of a sub-expression.
    """
    uses = Counter(nodes[i] for ids in inputs for i in ids)
    chains = _chains(nodes, uses, names.keys())
    found: dict[Node, str] = {}
    for node in nodes:
        if node in names or node.op is None:
            found[node] = names.get(node, node.text)
            continue
        written = []
        for piece in _pieces(node, chains):
            if isinstance(piece, str):
                written.append(piece)
            else:
                child, least = piece
                bare = child in names or _level(child, chains) >= least
                written.append(found[child] if bare else f"({found[child]})")
        found[node] = _shortened("".join(written), limit)
    return [found[node] for node in nodes]


class _Printer:
    """The text of one graph: first which nodes are bound to names, then statement after statement."""

    def __init__(self, root: Node, names: Mapping[Node, str], share: bool, shapes: Mapping[str, Shape]) -> None:
        self.root = root
        self.shapes = shapes
        self.order = topological((root,))
        self.uses = Counter(child for node in self.order for child in node.inputs)
        self.chains = _chains(self.order, self.uses, names.keys() if share else frozenset())
        self.uses.subtract(chain.inputs[1].inputs[0] for chain in self.chains)  # where two links meet: written once
        self.taken = {node.text for node in self.order if node.is_input}
        self.bound: dict[Node, str] = {}
        self._bind(names, share)

    def text(self) -> str:
        arrays = [node.text for node in self.order if node.is_input and self.shapes.get(node.text)]
        statements = [f"{name}: {in_words(self.shapes[name])}" for name in arrays]
        statements += [f"{name} = {self._expression(node)}" for node, name in self.bound.items()]
        if self.root not in self.bound:
            statements.append(self._expression(self.root))
        return "; ".join(statements)

    def _bind(self, names: Mapping[Node, str], share: bool) -> None:
        """Choose the nodes to bind, and their names. Lengths are added up, since texts could grow exponentially."""
        reserved = self.taken | set(names.values())
        fresh = (name for name in (f"t{i}" for i in count(1)) if name not in reserved)
        brackets = Counter[Node]() if share else self._bracketed()
        lengths: dict[Node, int] = {}
        spare = next(fresh)
        for node in self.order:
            name = names.get(node, spare)
            name = spare if name in self.taken else name
            if share:
                wanted = (node.op is not None and self.uses[node] > 1) or (node in names and not node.is_input)
            else:
                uses = self.uses[node]
                lengths[node] = length = self._length(node, lengths)
                repeated = length * uses + 2 * brackets[node]
                wanted = node.op is not None and length + BINDING_COST + len(name) * (uses + 1) < repeated
            if wanted:
                self.bound[node] = name
                self.taken.add(name)
                lengths[node] = len(name)
                spare = next(fresh) if name == spare else spare

    def _bracketed(self) -> Counter[Node]:
        """How often each node would stand in brackets."""
        written_in_a_chain = {chain.inputs[1] for chain in self.chains}
        alone = (node for node in self.order if node not in written_in_a_chain)
        pieces = (piece for node in alone for piece in _pieces(node, self.chains))
        return Counter(p[0] for p in pieces if not isinstance(p, str) and _level(p[0], self.chains) < p[1])

    def _length(self, node: Node, lengths: Mapping[Node, int]) -> int:
        total = 0
        for piece in _pieces(node, self.chains):
            if isinstance(piece, str):
                total += len(piece)
            else:
                child, least = piece
                total += lengths[child] + 2 * (self._level(child) < least)
        return total

    def _level(self, node: Node) -> Precedence:
        return Precedence.ATOM if node in self.bound else _level(node, self.chains)

    def _expression(self, node: Node) -> str:
        """The text of a node, from left to right, with what waits to be written on a stack."""
        written: list[str] = []
        waiting: list[Piece] = self._inside(node)
        while waiting:
            piece = waiting.pop()
            if isinstance(piece, str):
                written.append(piece)
                continue
            child, least = piece
            if child in self.bound:
                written.append(self.bound[child])
            elif _level(child, self.chains) < least:
                waiting.append(")")
                waiting.extend(self._inside(child))
                waiting.append("(")
            else:
                waiting.extend(self._inside(child))
        return "".join(written)

    def _inside(self, node: Node) -> list[Piece]:
        """The pieces of a node, last first."""
        if node.is_constant and node.text in self.taken and node.text in CONSTANTS:
            return [CONSTANTS[node.text]]  # its name means something else in this text
        return list(_pieces(node, self.chains))[::-1]


def _pieces(node: Node, chains: Set[Node]) -> Iterator[Piece]:
    """What a node is written as, from left to right."""
    op = node.op
    if op is None:
        yield node.text
    elif node in chains:
        before, link = node.inputs
        assert link.op is not None
        yield before, Precedence.COMPARISON
        yield f" {link.op.symbol} "
        yield link.inputs[1], Precedence.SUM
    elif op.name == "stack":
        yield "["
        yield from _listed(node.inputs)
        yield "]"
    elif op.name == "index":
        yield node.inputs[0], Precedence.ATOM
        yield "["
        yield from _listed(node.inputs[1:])
        yield "]"
    elif not op.symbol:
        yield f"{op.spelling or op.name}("
        yield from _listed(node.inputs)
        yield ")"
    elif len(node.inputs) == 1:
        yield "not " if op.symbol == "not" else op.symbol
        yield node.inputs[0], op.precedence
    else:
        left, right = _operand_levels(op)
        yield node.inputs[0], left
        yield op.symbol if op.symbol in TIGHT else f" {op.symbol} "
        yield node.inputs[1], right


def _listed(nodes: Iterable[Node]) -> Iterator[Piece]:
    for i, node in enumerate(nodes):
        if i:
            yield ", "
        yield node, Precedence.STATEMENT


def _operand_levels(op: Op) -> tuple[Precedence, Precedence]:
    """How tightly the operands of an infix operator have to bind to stand without brackets."""
    if op.precedence is Precedence.POWER:
        return Precedence.ATOM, Precedence.SIGN
    if op.precedence is Precedence.COMPARISON:
        return Precedence.SUM, Precedence.SUM
    return op.precedence, Precedence(op.precedence + 1)


def _level(node: Node, chains: Set[Node]) -> Precedence:
    if node.op is None or not node.op.symbol:
        return Precedence.ATOM
    return Precedence.COMPARISON if node in chains else node.op.precedence


def _chains(nodes: Iterable[Node], uses: Mapping[Node, int], named: Set[Node]) -> set[Node]:
    """The `and` nodes that are written as a chain: `0 < x and x <= 1` with one and the same x is `0 < x <= 1`."""
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


def _shortened(text: str, limit: int) -> str:
    """The text with its middle left out if it is longer than the limit."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit // 2], text[-(limit - limit // 2 - 1) :]
    return f"{head.split('…')[0]}…{tail.split('…')[-1]}"
