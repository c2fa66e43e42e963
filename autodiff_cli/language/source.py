"""Where the nodes of a graph stand in the text they were read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autodiff_cli.graph.node import Node
from autodiff_cli.language.code import Chain, Code, Lexeme
from autodiff_cli.language.errors import line_and_column

Span = tuple[int, int]


@dataclass(slots=True, eq=False)  # not frozen: a text may have a million of them, and freezing makes them slow
class Group:
    """What the text gives a name: a named intermediate, a call of one of its functions, a layer of a network.

    Attributes:
        name: of the intermediate, the function, the layer.
        inputs: what a call was given; empty for what is no call.
        outer: the group in which this one stands.
    """

    name: str
    inputs: tuple[Node, ...]
    outer: Group | None


class Source:
    """The text, and the place in it of each node that was read from it.

    Attributes:
        text: as given.
        names: the first name of each node that the text binds to one (inputs aside, which have their own).
    """

    __slots__ = ("_codes", "_groups", "_origin", "_spans", "names", "text")

    def __init__(
        self,
        text: str,
        names: Mapping[Node, str],
        origin: Mapping[Node, Lexeme],
        groups: Mapping[Node, Group],
        codes: Iterable[Code],
    ) -> None:
        self.text = text
        self.names = names
        self._origin = origin
        self._groups = groups
        self._codes = codes
        self._spans: dict[Lexeme, Span] = {}

    def start(self, node: Node) -> int | None:
        """The position of the node's operator, function name, bracket, number or (first) name; None if the node is not
        of this text."""
        lexeme = self._origin.get(node)
        return None if lexeme is None else lexeme.start

    def place(self, node: Node) -> tuple[int, int] | None:
        """The line and column, from 1, of where the node starts; None if it is not of this text."""
        start = self.start(node)
        return None if start is None else line_and_column(self.text, start)

    def span(self, node: Node) -> Span | None:
        """The positions, start and end, of the sub-expression that the node was read from; None if it was not."""
        lexeme = self._origin.get(node)
        if lexeme is None:
            return None
        if not self._spans:
            for code in self._codes:
                self._spans.update(spans(code))
        return self._spans.get(lexeme, (lexeme.start, lexeme.end))

    def group(self, node: Node) -> Group | None:
        """The innermost group in which the node was made; None for one outside of any, and for an input."""
        return self._groups.get(node)


def spans(code: Code) -> dict[Lexeme, Span]:
    """The extent in the text of each instruction with its operands. The links of a chain reach over two operands."""
    found: dict[Lexeme, Span] = {}
    stack: list[Span] = []
    for lexeme in code:
        count = lexeme.operands
        operands = stack[len(stack) - count :]
        del stack[len(stack) - count :]
        start = min([lexeme.start, *(begin for begin, _ in operands)])
        end = max([lexeme.end, *(end for _, end in operands)])
        found[lexeme] = (start, end)
        if isinstance(lexeme, Chain):
            for link, left, right in zip(lexeme.links, operands, operands[1:], strict=False):
                found[link] = (left[0], right[1])
        stack.append((start, end))
    return found
