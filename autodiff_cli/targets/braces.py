"""What C and JavaScript have in common: operators, choices, and statements in braces."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from autodiff_cli.graph.straight import PRODUCT, SIGN, SUM, Fragment, Notation
from autodiff_cli.targets.target import Function

_WIDTH = 96  # of lines of comments and tables
CHOICE, OR, AND, EQUALITY, ORDER = 1, 2, 3, 4, 5


def infix(symbol: str, binding: int) -> Notation:
    """An operator that is written between two operands, grouped from the left."""
    return Notation(("", symbol, ""), (binding, binding + 1), binding)


def comparison(symbol: str, binding: int) -> Notation:
    """An operator between two numbers that gives a condition."""
    return Notation(("", f" {symbol} ", ""), (SUM, SUM), binding, is_condition=True)


NOTATIONS = {
    "add": infix(" + ", SUM),
    "sub": infix(" - ", SUM),
    "mul": infix("*", PRODUCT),
    "div": infix("/", PRODUCT),
    "neg": Notation(("-", ""), (SIGN + 1,), SIGN),
    "lt": comparison("<", ORDER),
    "le": comparison("<=", ORDER),
    "gt": comparison(">", ORDER),
    "ge": comparison(">=", ORDER),
    # compilers warn of `a && b || c` without brackets
    "and": Notation(("", " && ", ""), (EQUALITY, EQUALITY), AND, True, (0, 1)),
    "or": Notation(("", " || ", ""), (EQUALITY, EQUALITY), OR, True, (0, 1)),
    "not": Notation(("!", ""), (SIGN + 1,), SIGN, True, (0,)),
    "where": Notation(("", " ? ", " : ", ""), (OR, CHOICE + 1, CHOICE), CHOICE, conditions=(0,)),
    "element": Notation(("", "[", "]"), (SIGN + 1, 0)),
}
AS_NUMBER = Notation(("", " ? 1.0 : 0.0"), (OR,), CHOICE, conditions=(0,))


class Phrasing(NamedTuple):
    """What such a language says where they differ, with `{name}` and the like."""

    function: str
    indent: str
    parameter: str
    variable: str
    constant: str
    counter: str
    table: str
    number: str
    kinds: dict[str, str]


class Braces:
    """Statements in braces."""

    def __init__(self, words: Phrasing) -> None:
        self._words = words

    def function(self, function: Function) -> str:
        """A whole function, its comment before it."""
        body = "".join(f"{line}\n" for line in self._indented(function.body))
        return f"{comment_lines(function.comment)}{self.head(function)}{{\n{body}}}\n"

    def head(self, function: Function) -> str:
        """What stands before the braces: the name and the parameters."""
        parameters = ", ".join(self._words.parameter.format(name=name) for name in function.parameters)
        kind = self._words.kinds[function.kind]
        return self._words.function.format(kind=kind, name=function.name, parameters=parameters)

    def declare(self, name: str, kind: str, value: str | None, is_constant: bool) -> list[str]:
        """A variable that begins here."""
        form = self._words.constant if is_constant else self._words.variable
        text = form.format(kind=self._words.kinds[kind], name=name)
        return [f"{text};" if value is None else f"{text} = {value};"]

    def assign(self, name: str, symbol: str, value: Fragment) -> list[str]:
        """A variable gets a new value."""
        return [f"{name} {symbol}= {value.text};"]

    def branch(self, cases: Sequence[tuple[str, list[str]]], otherwise: list[str]) -> list[str]:
        """The block of the first condition that holds."""
        lines: list[str] = []
        for k, (condition, block) in enumerate(cases):
            lines += [f"{'} else ' if k else ''}if ({condition}) {{", *self._indented(block)]
        return [*lines, *(["} else {", *self._indented(otherwise)] if otherwise else []), "}"]

    def repeat(self, condition: str, block: list[str]) -> list[str]:
        """A block again and again."""
        return [f"while ({condition}) {{", *self._indented(block), "}"]

    def count(self, name: str, start: int, stop: int, step: int, block: list[str]) -> list[str]:
        """A block for every whole number."""
        first = self._words.counter.format(name=name)
        forth = f"{name} < {stop}; {name}++" if step == 1 else f"{name} > {stop}; {name}--"
        return [f"for ({first} = {start}; {forth}) {{", *self._indented(block), "}"]

    def result(self, value: str, is_last: bool) -> list[str]:  # noqa: ARG002 - all ends are alike here
        """The function ends with a value."""
        return [f"return {value};"]

    def table(self, name: str, numbers: Sequence[str]) -> str:
        """A sequence of numbers."""
        body = textwrap.fill(
            ", ".join(numbers), _WIDTH, initial_indent=self._words.indent, subsequent_indent=self._words.indent
        )
        opening, closing = self._words.table.format(name=name, count=len(numbers)).split("|")
        return f"{opening}\n{body}\n{closing}\n"

    def number(self, name: str, number: str) -> str:
        """A number with a name."""
        return self._words.number.format(name=name, number=number) + "\n"

    def _indented(self, block: Iterable[str]) -> list[str]:
        return [f"{self._words.indent}{line}" for line in block]


def comment_lines(text: str) -> str:
    """A comment of whole lines, in the form that both languages have."""
    return "".join(f"// {line}\n" for line in textwrap.wrap(text, _WIDTH))
