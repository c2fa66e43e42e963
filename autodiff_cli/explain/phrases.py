"""Sentences with slots for numbers: one phrase says the same of any point.

A phrase is a sequence of parts: text, or something to fill in. It is filled in here for reports, and goes as data into
the page, which fills it in again whenever a number there changes. So no sentence is written twice.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Protocol, TypeAlias

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
            inputs that a choice hands its adjoint to, and `share`, how much of it each gets.
        of: which input, by its position.
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
        by: `arrived`: no, yes; `truth` of the node's value: no, yes; `use` of an input: the only one, one of several,
            the last of several; `chosen`: a choice chose nothing that takes gradient, chose, is tied.
        of: which input, by its position.
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
    """The sentence."""
    return "".join(part if isinstance(part, str) else part.fill(facts) for part in phrase)


def data(phrase: Phrase) -> list[Any]:
    """The phrase as JSON can say it."""
    return [part if isinstance(part, str) else part.data() for part in phrase]


def negative(slot: Slot) -> str:
    """A mark to be written where a negative number stands for the slot, so that brackets come where it needs them.

    It is as short as a number, since long ones are given names when a formula is printed.
    """
    return f"-{chr(_FIRST_MARK + _MARKED.index(slot.what))}{slot.of}"


_MARKED = ("output", "value", "adjoint", "local")
_FIRST_MARK = 0xE000  # of the characters for private use, which no operation has in its name
_MARK = re.compile(r"((?<!\w)\(-[\ue000-\ue003]\d+\)|-[\ue000-\ue003]\d+)")


def phrase_of(written: str) -> Phrase:
    """The phrase of a text with such marks in it. Brackets around nothing but a mark, unless they are those of a call,
    are there for the sign's sake."""
    parts: list[str | Slot] = []
    for piece in _MARK.split(written):
        if _MARK.match(piece):
            mark = piece.strip("(-)")
            parts.append(Slot(_MARKED[ord(mark[0]) - _FIRST_MARK], int(mark[1:]), piece.startswith("(")))
        elif piece:
            parts.append(piece)
    return tuple(parts)
