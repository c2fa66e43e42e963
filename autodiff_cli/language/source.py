"""Where the nodes of a graph stand in the text they were read from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.registry import registered
from autodiff_cli.language.code import Code, Instruction
from autodiff_cli.language.lexer import Lexemes

Span = tuple[int, int]

_AND = registered("and")
_BREAK = re.compile(r"(?:\s|#.*)+")


@dataclass(slots=True, eq=False)  # not frozen: a text may have a million of them, and freezing makes them slow
class Group:
    """What the text gives a name: a named intermediate, a call of one of its functions, a layer of a network.

    Attributes:
        name: of the intermediate, the function, the layer.
        inputs: what a call was given; empty for what is no call.
        outer: the group in which this one stands.
        place: the number of the lexeme that calls a function of the text; None for all else.
        value: of a call or a layer.
    """

    name: str
    inputs: tuple[Node, ...]
    outer: Group | None
    place: int | None = None
    value: Node | None = None


class Part(NamedTuple):
    """A sub-expression as it stands in the text.

    Attributes:
        operands: the numbers of their lexemes.
        texts: what stands before, between and after them, on one line.
    """

    instruction: Instruction
    operands: tuple[int, ...]
    texts: tuple[str, ...]


class Source:
    """The text, and the place in it of each node that was read from it.

    Attributes:
        names: the first name of each node that the text binds to one (inputs aside, which have their own).
    """

    def __init__(
        self,
        lexemes: Lexemes,
        codes: Iterable[Code],
        names: Mapping[Node, str],
        origin: Mapping[Node, int],
        groups: Mapping[Node, Group],
    ) -> None:
        self.names = names
        self._lexemes = lexemes
        self._codes = codes
        self._origin = origin
        self._groups = groups

    @property
    def text(self) -> str:
        """As given."""
        return self._lexemes.text

    def number(self, node: Node) -> int | None:
        """The number of the lexeme that the node comes from; None if it is not of this text."""
        return self._origin.get(node)

    def start(self, node: Node) -> int | None:
        """The position of the node's operator, function name, bracket, number or (first) name; None if the node is not
        of this text."""
        number = self._origin.get(node)
        return None if number is None else self._lexemes.start(number)

    def place(self, node: Node) -> tuple[int, int] | None:
        """The line and column, from 1, of where the node starts; None if it is not of this text."""
        number = self._origin.get(node)
        return None if number is None else self._lexemes.place(number)

    def span(self, node: Node) -> Span | None:
        """The positions, start and end, of the sub-expression that the node was read from; None if it was not."""
        number = self._origin.get(node)
        if number is None:
            return None
        return self._spans[self._key(node, number)]

    def part(self, node: Node) -> int | None:
        """The number of the sub-expression that the node was read from, for `parts`; None if it was not."""
        number = self._origin.get(node)
        return None if number is None else self._key(node, number)

    @cached_property
    def parts(self) -> dict[int, Part]:
        """All sub-expressions, operands before what they belong to."""
        found: dict[int, Part] = {}
        for code in self._codes:
            for instruction, number, operands in _with_operands(code):
                extents = [self._spans[operand] for operand in operands]
                start, end = self._spans[number]
                edges = [start, *(edge for extent in extents for edge in extent), end]
                texts = [_on_one_line(self.text[a:b]) for a, b in zip(edges[::2], edges[1::2], strict=True)]
                found[number] = Part(instruction, operands, tuple(texts))
                if instruction.type == "LINK":
                    found[~number] = Part(instruction, (), (_on_one_line(self.text[slice(*self._spans[~number])]),))
        return found

    def _key(self, node: Node, number: int) -> int:
        return number if node.op is _AND or ~number not in self._spans else ~number

    @cached_property
    def _spans(self) -> dict[int, Span]:
        found: dict[int, Span] = {}
        for code in self._codes:
            found.update(spans(code, self._lexemes))
        return found

    def group(self, node: Node) -> Group | None:
        """The innermost group in which the node was made; None for one outside of any, and for an input."""
        return self._groups.get(node)


def _with_operands(code: Code) -> Iterator[tuple[Instruction, int, tuple[int, ...]]]:
    """Each instruction, its lexeme, and the lexemes of its operands."""
    stack: list[int] = []
    for instruction, number in zip(*code, strict=True):
        count = len(stack) - instruction.operands
        yield instruction, number, tuple(stack[count:])
        stack[count:] = [number]


def _on_one_line(text: str) -> str:
    return _BREAK.sub(" ", text)


def spans(code: Code, lexemes: Lexemes) -> dict[int, Span]:
    """The extent in the text of each instruction with its operands, by the number of its lexeme.

    A further link of a chained comparison is two operations, of which the `and` reaches from the chain's beginning; the
    comparison itself, over two operands, is at ~number.
    """
    found: dict[int, Span] = {}
    stack: list[tuple[int, int, int]] = []  # the extents of values, and where the last operand of each starts
    for instruction, number in zip(*code, strict=True):
        operands = stack[len(stack) - instruction.operands :]
        del stack[len(stack) - instruction.operands :]
        start = min([lexemes.start(number), *(begin for begin, _, _ in operands)])
        end = max([lexemes.end(number), *(end for _, end, _ in operands)])
        found[number] = (start, end)
        if instruction.type == "LINK":
            found[~number] = (operands[0][2], end)
        stack.append((start, end, operands[-1][0] if operands else start))
    return found
