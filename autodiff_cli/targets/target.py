"""What a language is to those who write in it: tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.straight import Fragment, Notation


class Statements(Protocol):
    """How functions with loops and branches are written in a language. Lines come and go without indentation."""

    def function(self, function: Function) -> str:
        """A whole function."""

    def declare(self, name: str, kind: str, value: str | None, is_constant: bool) -> list[str]:
        """A variable that begins here, with a value or without."""

    def assign(self, name: str, symbol: str, value: Fragment) -> list[str]:
        """A variable gets a new value; `symbol` is that of an operation on the old one, or empty."""

    def branch(self, cases: Sequence[tuple[str, list[str]]], otherwise: list[str]) -> list[str]:
        """The block of the first condition that holds."""

    def repeat(self, condition: str, block: list[str]) -> list[str]:
        """A block again and again while a condition holds."""

    def count(self, name: str, start: int, stop: int, step: int, block: list[str]) -> list[str]:
        """A block for every whole number from `start` up to, or down to, but not `stop`."""

    def result(self, value: str, is_last: bool) -> list[str]:
        """The function ends with a value; `is_last` where it would end anyway."""

    def table(self, name: str, numbers: Sequence[str]) -> str:
        """A sequence of numbers, indexed from 0."""

    def number(self, name: str, number: str) -> str:
        """A number with a name."""


class Function(NamedTuple):
    """A function, ready to be written.

    Attributes:
        name: the name.
        parameters: the names of numbers.
        kind: of the result: `number` or `condition`.
        variables: the kinds of all variables by name: `number`, `count`.
        body: its lines.
        comment: what it computes.
        is_recursive: whether it calls itself.
    """

    name: str
    parameters: Sequence[str]
    kind: str
    variables: Mapping[str, str]
    body: Sequence[str]
    comment: str
    is_recursive: bool


def shortest(text: str) -> str:
    """The shortest text of the float that a number's text names.

    >>> shortest("1E-09"), shortest("2.50"), shortest("100")
    ('1e-9', '2.5', '100')
    """
    return re.sub(r"e([-+]?)0*(\d)", r"e\1\2", repr(float(text))).replace("e+", "e").removesuffix(".0")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A language that formulas are written in.

    Attributes:
        name: what the command line calls it.
        notations: how operations are written, by name, or by name and number of operands (`index/3`) where what stands
            between two operands is not repeated between further ones; besides those of the table of operations `isnan`,
            `isinf`, `isfinite`, `copysign`, `fmod`, `element`, and those of `natives`.
        definitions: operations that the language writes with others, as graphs; None where it does not.
        numbers: how `pi`, `tau`, `e`, `inf` and `nan` are written.
        literal: how a number is written, given the text of one.
        as_number: a condition as the number 1 or 0.
        as_condition: whether a number is not 0.
        as_real: a count as a number.
        has_choices: whether a choice between two values is an expression that computes one of them.
        natives: what is written by hand, by name; it is there when a notation or a number mentions the name.
        statements: how functions are written that are translated; None where none are.
    """

    name: str
    notations: Mapping[str, Notation]
    numbers: Mapping[str, str]
    literal: Callable[[str], str]
    as_number: Notation
    as_condition: Notation
    as_real: Notation = field(default_factory=lambda: Notation(("", ""), (0,)))
    definitions: Mapping[str, Callable[..., Node | None]] = field(default_factory=dict)
    natives: Mapping[str, str] = field(default_factory=dict)
    statements: Statements | None = None
    has_choices: bool = True
    keywords: frozenset[str] = frozenset()

    def notation(self, op: str, arity: int) -> Notation | None:
        """How an operation is written; None where only a function can be called."""
        found = self.notations.get(f"{op}/{arity}") or self.notations.get(op)
        return found if found is None or len(found.least) == arity else found.extended(arity)

    def written(self, notation: Notation, operands: Iterable[Fragment]) -> Fragment:
        """An operation on operands, conditions made numbers and numbers conditions where that is wanted."""
        wanted = (k in notation.conditions for k in range(len(notation.least)))
        return notation.of(
            [self.given(part, is_condition) for part, is_condition in zip(operands, wanted, strict=True)]
        )

    def given(self, part: Fragment, is_condition: bool = False) -> Fragment:
        """A fragment as a number or as a condition."""
        if part.is_condition == is_condition:
            return part
        return (self.as_condition if is_condition else self.as_number).of([part])
