"""Graph to text. What is printed reads back to the same graph, with no needless brackets."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from itertools import count
from typing import NamedTuple

from autodiff_cli.graph.helpers import without_helpers
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op, Precedence, Shape
from autodiff_cli.graph.shapes import in_words
from autodiff_cli.graph.straight import Notation
from autodiff_cli.graph.tape import topological
from autodiff_cli.language.lexer import written_name
from autodiff_cli.language.names import CONSTANTS

TIGHT = {"*", "/", "%", "^"}  # written without blanks around them
SIGNED_BADLY_AFTER = ("+", "-", "*", "/", "%")  # a minus sign right after these is hard to read: 2 - -3, but not 2^-3
BINDING_COST = len(" = ; ")
_LENGTH_OF_NUMBER = len("-10")  # about, of one that will stand for a leaf


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
    return "".join(piece for piece in _printed(node, names, share, shapes) if isinstance(piece, str))


class Gap(NamedTuple):
    """Where a leaf stands in a text in which something else will stand for it.

    Attributes:
        leaf: the leaf.
        is_loose: whether what stands there needs brackets; of a number, a negative one.
    """

    leaf: Node
    is_loose: bool


def to_pieces(node: Node, leaves: Collection[Node], levels: Mapping[Node, Precedence] | None = None) -> list[str | Gap]:
    """The graph of a node in the expression language, as text around the places of some leaves.

    What is used more than once is bound to a name where that makes the text shorter, as in `to_text` without sharing.

    Args:
        levels: how tightly what will stand for a leaf binds; as a negative number does, where it is not said.

    >>> from autodiff_cli.graph.node import variable
    >>> x, y = variable("x"), variable("y")
    >>> to_pieces(x**2 * y, [x, y])
    [Gap(leaf=<input x>, is_loose=True), '^2*', Gap(leaf=<input y>, is_loose=True)]
    """
    pieces: list[str | Gap] = []
    own = levels or {}
    for piece in _printed(node, gaps=dict.fromkeys(leaves, Precedence.SIGN) | dict(own)):
        before = pieces[-1] if pieces else None
        if isinstance(piece, str) and isinstance(before, str):
            pieces[-1] = before + piece
        elif isinstance(piece, Gap) and piece.leaf not in own and isinstance(before, str):
            is_beside = before.rstrip().endswith(SIGNED_BADLY_AFTER)
            pieces.append(piece._replace(is_loose=piece.is_loose or is_beside))
        elif piece != "":
            pieces.append(piece)
    return pieces


def _printed(
    node: Node,
    names: Mapping[Node, str] | None = None,
    share: bool = False,
    shapes: Mapping[str, Shape] | None = None,
    gaps: Mapping[Node, Precedence] | None = None,
) -> list[str | Gap]:
    expanded = without_helpers([node])
    given = {expanded[named]: name for named, name in (names or {}).items() if named in expanded}
    root = expanded[node]
    order = list(expanded) if root is node else topological((root,))
    return _Printer(order, given, share, shapes or {}, gaps or {}).pieces()


class _Printer:
    """The text of one graph, from its nodes in topological order: first which nodes are bound to names, then statement
    after statement."""

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
        self.chains = chains(self.order, self.uses, names.keys() if share else frozenset())
        self.uses.subtract(chain.inputs[1].inputs[0] for chain in self.chains)  # where two links meet: written once
        self.forms = {node: written(node, self.chains) for node in self.order if node.op is not None}
        self.levels = {node: level(node, self.chains) for node in self.order}
        self.levels.update(gaps)
        self.taken = {node.text for node in self.order if node.is_input}
        self.bound: dict[Node, str] = {}
        self._bind(names, share)

    def pieces(self) -> list[str | Gap]:
        arrays = [node.text for node in self.order if node.is_input and self.shapes.get(node.text)]
        statements: list[list[str | Gap]] = [
            [f"{written_name(name)}: {in_words(self.shapes[name])}"] for name in arrays
        ]
        statements += [[f"{written_name(name)} = ", *self._expression(node)] for node, name in self.bound.items()]
        if self.root not in self.bound:
            statements.append(self._expression(self.root))
        return [piece for statement in statements for piece in ("; ", *statement)][1:]

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
                self.levels[node] = Precedence.ATOM
                self.taken.add(name)
                lengths[node] = len(name)
                spare = next(fresh) if name == spare else spare

    def _bracketed(self) -> Counter[Node]:
        """How often each node would stand in brackets."""
        written_in_a_chain = {chain.inputs[1] for chain in self.chains}
        alone = (self.forms[node] for node in self.forms if node not in written_in_a_chain)
        return Counter(
            child
            for form, operands in alone
            for child, least in zip(operands, form.least, strict=True)
            if self.levels[child] < least
        )

    def _length(self, node: Node, lengths: Mapping[Node, int]) -> int:
        if node.op is None:
            return _LENGTH_OF_NUMBER if node in self.gaps else len(node.text)
        form, operands = self.forms[node]
        total = sum(map(len, form.texts))
        for child, least in zip(operands, form.least, strict=True):
            total += lengths[child] + 2 * (self.levels[child] < least)
        return total

    def _expression(self, node: Node) -> list[str | Gap]:
        """A node in pieces, from left to right, with what waits to be written on a stack."""
        if node.op is None:
            return [self._leaf(node, Precedence.STATEMENT)]
        written: list[str | Gap] = []
        waiting: list[str | Gap | Node] = [node]
        while waiting:
            piece = waiting.pop()
            if not isinstance(piece, Node):
                written.append(piece)
                continue
            form, operands = self.forms[piece]
            for i in range(len(operands) - 1, -1, -1):
                child = operands[i]
                waiting.append(form.texts[i + 1])
                if child in self.bound:
                    waiting.append(written_name(self.bound[child]))
                elif child.op is None:
                    waiting.append(self._leaf(child, form.least[i]))
                elif self.levels[child] < form.least[i]:
                    waiting += (")", child, "(")
                else:
                    waiting.append(child)
            waiting.append(form.texts[0])
        return written

    def _leaf(self, node: Node, least: int) -> str | Gap:
        if node in self.gaps:
            return Gap(node, self.levels[node] < least)
        if node.is_constant and node.text in self.taken and node.text in CONSTANTS:
            return CONSTANTS[node.text]  # its name means something else in this text
        return node.text if node.is_constant else written_name(node.text)


@functools.cache
def written_as(op: Op, count: int) -> Notation:
    """How an operation on so many operands is written."""
    if op.name == "stack":
        return _listed(("[",), (), count, "]")
    if op.name == "index":
        return _listed(("", "["), (Precedence.ATOM,), count - 1, "]")
    if not op.symbol:
        return _listed((f"{op.spelling or op.name}(",), (), count, ")")
    if count == 1:
        return Notation(("not " if op.symbol == "not" else op.symbol, ""), (op.precedence,), op.precedence)
    between = op.symbol if op.symbol in TIGHT else f" {op.symbol} "
    return Notation(("", between, ""), _operand_levels(op), op.precedence)


def _listed(before: tuple[str, ...], least: tuple[Precedence, ...], count: int, after: str) -> Notation:
    """Operands in a list, after others."""
    return Notation((*before, *[", "] * (count - 1), after), (*least, *[Precedence.STATEMENT] * count), Precedence.ATOM)


def written(node: Node, chains: Set[Node]) -> tuple[Notation, Sequence[Node]]:
    """How an operation is written, and its operands from left to right."""
    assert node.op is not None
    if node not in chains:
        return written_as(node.op, len(node.inputs)), node.inputs
    before, link = node.inputs
    assert link.op is not None
    form = written_as(link.op, 2)
    return form._replace(least=(Precedence.COMPARISON, form.least[1])), (before, link.inputs[1])


def _operand_levels(op: Op) -> tuple[Precedence, Precedence]:
    """How tightly the operands of an infix operator have to bind to stand without brackets."""
    if op.precedence is Precedence.POWER:
        return Precedence.ATOM, Precedence.SIGN
    if op.precedence is Precedence.COMPARISON:
        return Precedence.SUM, Precedence.SUM
    return op.precedence, Precedence(op.precedence + 1)


def level(node: Node, chains: Set[Node]) -> Precedence:
    if node.op is None or not node.op.symbol:
        return Precedence.ATOM
    return Precedence.COMPARISON if node in chains else node.op.precedence


def chains(nodes: Iterable[Node], uses: Mapping[Node, int], named: Set[Node]) -> set[Node]:
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
