"""Graph to text. What is printed reads back to the same graph, with no needless brackets."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import count
from typing import NamedTuple

from autodiff_cli.graph.helpers import without_helpers
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op, Precedence, Shape
from autodiff_cli.graph.shapes import in_words
from autodiff_cli.graph.tape import topological
from autodiff_cli.language.scope import CONSTANTS

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
    expanded = without_helpers([node])
    given = {expanded[named]: name for named, name in (names or {}).items() if named in expanded}
    root = expanded[node]
    order = list(expanded) if root is node else topological((root,))
    return _Printer(order, given, share, shapes or {}).text()


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
        form, operands = _written(node, chains)
        written = [form.texts[0]]
        for child, least, text in zip(operands, form.least, form.texts[1:], strict=True):
            bare = child in names or _level(child, chains) >= least
            written += [found[child] if bare else f"({found[child]})", text]
        found[node] = _shortened("".join(written), limit)
    return [found[node] for node in nodes]


class _Printer:
    """The text of one graph, from its nodes in topological order: first which nodes are bound to names, then statement
    after statement."""

    def __init__(
        self, order: Sequence[Node], names: Mapping[Node, str], share: bool, shapes: Mapping[str, Shape]
    ) -> None:
        self.order = order
        self.root = order[-1]
        self.shapes = shapes
        self.uses = Counter(child for node in self.order for child in node.inputs)
        self.chains = _chains(self.order, self.uses, names.keys() if share else frozenset())
        self.uses.subtract(chain.inputs[1].inputs[0] for chain in self.chains)  # where two links meet: written once
        self.forms = {node: _written(node, self.chains) for node in self.order if node.op is not None}
        self.levels = {node: _level(node, self.chains) for node in self.order}
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
            return len(node.text)
        form, operands = self.forms[node]
        total = form.length
        for child, least in zip(operands, form.least, strict=True):
            total += lengths[child] + 2 * (self.levels[child] < least)
        return total

    def _expression(self, node: Node) -> str:
        """The text of a node, from left to right, with what waits to be written on a stack."""
        if node.op is None:
            return self._leaf(node)
        written: list[str] = []
        waiting: list[str | Node] = [node]
        while waiting:
            piece = waiting.pop()
            if isinstance(piece, str):
                written.append(piece)
                continue
            form, operands = self.forms[piece]
            for i in range(len(operands) - 1, -1, -1):
                child = operands[i]
                waiting.append(form.texts[i + 1])
                if child in self.bound:
                    waiting.append(self.bound[child])
                elif child.op is None:
                    waiting.append(self._leaf(child))
                elif self.levels[child] < form.least[i]:
                    waiting += (")", child, "(")
                else:
                    waiting.append(child)
            waiting.append(form.texts[0])
        return "".join(written)

    def _leaf(self, node: Node) -> str:
        if node.is_constant and node.text in self.taken and node.text in CONSTANTS:
            return CONSTANTS[node.text]  # its name means something else in this text
        return node.text


class _Form(NamedTuple):
    """How an operation is written: texts with an operand between each two, how tightly each operand has to bind to
    stand there without brackets, and the length of the texts."""

    texts: tuple[str, ...]
    least: tuple[Precedence, ...]
    length: int


@functools.cache
def _form(op: Op, count: int) -> _Form:
    if op.name == "stack":
        return _listed(("[",), (), count, "]")
    if op.name == "index":
        return _listed(("", "["), (Precedence.ATOM,), count - 1, "]")
    if not op.symbol:
        return _listed((f"{op.spelling or op.name}(",), (), count, ")")
    if count == 1:
        return _made(("not " if op.symbol == "not" else op.symbol, ""), (op.precedence,))
    return _made(("", op.symbol if op.symbol in TIGHT else f" {op.symbol} ", ""), _operand_levels(op))


def _listed(before: tuple[str, ...], least: tuple[Precedence, ...], count: int, after: str) -> _Form:
    """Operands in a list, after others."""
    return _made((*before, *[", "] * (count - 1), after), (*least, *[Precedence.STATEMENT] * count))


def _made(texts: tuple[str, ...], least: tuple[Precedence, ...]) -> _Form:
    return _Form(texts, least, sum(map(len, texts)))


def _written(node: Node, chains: Set[Node]) -> tuple[_Form, Sequence[Node]]:
    """How an operation is written, and its operands from left to right."""
    assert node.op is not None
    if node not in chains:
        return _form(node.op, len(node.inputs)), node.inputs
    before, link = node.inputs
    assert link.op is not None
    form = _form(link.op, 2)
    return form._replace(least=(Precedence.COMPARISON, form.least[1])), (before, link.inputs[1])


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
