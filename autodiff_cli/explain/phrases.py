"""Sentences with slots for numbers: one phrase says the same of any point.

A phrase is a sequence of parts: text, or something to fill in. It is filled in here for reports, and goes as data into
the page, which fills it in again whenever a number there changes. So no sentence is written twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from autodiff_cli.graph.node import Node
from autodiff_cli.language.printer import Gap

_NEGATIVE_ZERO = re.compile(r"(?<![^\s(,*×/^])-0(?![\w.])")

Phrase: TypeAlias = "tuple[str | Slot | Sides | Cases, ...]"


class Facts(Protocol):
    """What phrases about one step are filled in with."""

    def text(self, what: str, of: int) -> str:
        """What stands in a slot."""

    def case(self, by: str, of: int) -> int:
        """Which of the cases is true."""


class Slot(NamedTuple):
    """A place for a text, most often a number.

    Attributes:
        what: `name` and `output`, the node and its value; `adjoint`, the node's; `label` and `value`, of an input;
            `local`, `amount`, `total`, `use`, `uses`, of the contribution to an input; `chosen`, the labels of the
            inputs that a choice hands its adjoint to, and `share`, how much of it each gets; `jacobian`, that of an
            operation on one whole array; `value at` and `adjoint at`, of any node.
        of: which input, by its position, or which node.
        is_loose: whether a negative number stands in brackets.
    """

    what: str
    of: int = 0
    is_loose: bool = False

    def fill(self, facts: Facts) -> str:
        """The text that stands here."""
        text = facts.text(self.what, self.of)
        return f"({text})" if self.is_loose and text.startswith("-") else text

    def data(self) -> list[Any]:
        """The slot as JSON can say it."""
        return [self.what, self.of, int(self.is_loose)]


class Sides(NamedTuple):
    """The sides of an equation, each different text once: `x*y = 2 × 3 = 6`. All but the last that are longer than
    `longest` characters are left out; 0 leaves out none."""

    phrases: tuple[Phrase, ...]
    longest: int = 0

    def fill(self, facts: Facts) -> str:
        """The equation."""
        *before, last = (fill(phrase, facts) for phrase in self.phrases)
        kept = [side for side in before if not self.longest or len(side) <= self.longest]
        return " = ".join(dict.fromkeys([*kept, last]))

    def data(self) -> list[Any]:
        """The equation as JSON can say it."""
        return ["sides", self.longest, *map(data, self.phrases)]


class Cases(NamedTuple):
    """Different phrases for different facts.

    Attributes:
        by: what is asked, most often yes (the second phrase) or no. `arrived`: something at the node; `truth`: of the
            node's value; `use` of an input: the only one or none, one of several, the last of several; `chosen`: a
            choice chose nothing that takes gradient, chose, is tied; `absent`: an input is handed nothing, and a
            product of numbers would not say so; `finite`: the amount that it is handed; `kink`: the operation has one
            here; `as read`: the local derivative towards it is what its formula comes to; `saturated`: the output of an
            activation is near one of its ends; `whole`: the elements of the value of a node sum to 1; `minus one`: so
            is the adjoint of a node; `smooth`: that of a node is finite, and nothing arrives at a kink.
        of: which input, by its position, or which node.
    """

    by: str
    phrases: tuple[Phrase, ...]
    of: int = 0

    def fill(self, facts: Facts) -> str:
        """The phrase of the case that is true."""
        return fill(self.phrases[facts.case(self.by, self.of)], facts)

    def data(self) -> list[Any]:
        """The cases as JSON can say them."""
        return ["cases", self.by, self.of, *map(data, self.phrases)]


def fill(phrase: Phrase, facts: Facts) -> str:
    """The sentence. A minus sign before nothing but 0 is left out."""
    filled = "".join(part if isinstance(part, str) else part.fill(facts) for part in phrase)
    return _NEGATIVE_ZERO.sub("0", filled)


def data(phrase: Phrase) -> list[Any]:
    """The phrase as JSON can say it."""
    return [part if isinstance(part, str) else part.data() for part in phrase]


def phrase_of(pieces: Iterable[str | Gap], slots: Mapping[Node, Slot]) -> Phrase:
    """The phrase of a formula that was printed in pieces, with slots for its leaves."""
    return tuple(
        piece if isinstance(piece, str) else slots[piece.leaf]._replace(is_loose=piece.is_loose) for piece in pieces
    )
