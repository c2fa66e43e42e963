"""Columns that are no numbers: comparisons with quoted text (`group == 'A'`), and parameters with a value for each
level of a column (`a[group]`).

Each of these is one number per row. So in the graph it is an input leaf of its own, and whoever has the rows gives it
its numbers: 1 where the text is that of the cell, else 0; the value of the parameter for the level in the cell.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from autodiff_cli.language.code import SPELLINGS, Code, Instruction
from autodiff_cli.language.lexer import QUOTE, Lexemes, written_name


class ColumnNames(NamedTuple):
    """What is known of the columns of the data, by canonical names.

    Attributes:
        texts: those of text.
        levels: those that can choose among the values of a parameter.
    """

    texts: Collection[str] = ()
    levels: Collection[str] = ()


NO_COLUMNS = ColumnNames()


class Match(NamedTuple):
    """Whether a column of text has this text in a row."""

    column: str
    text: str

    def __str__(self) -> str:
        mark = '"' if "'" in self.text else "'"
        return f"({_in_backticks(self.column)} == {mark}{self.text}{mark})"


class Level(NamedTuple):
    """The value of a parameter for the level that a column has in a row."""

    parameter: str
    column: str

    def __str__(self) -> str:
        return f"{written_name(self.parameter)}[{_in_backticks(self.column)}]"


def _in_backticks(name: str) -> str:
    """A name in backticks, also where it needs none: by them a leaf's text is known to be written already."""
    return f"{QUOTE}{name}{QUOTE}"


def with_leaves(code: Code, lexemes: Lexemes, columns: ColumnNames, found: dict[str, Match | Level]) -> Code:
    """The code with an instruction `LEAF` for each match and each level. A match is no part of a chained comparison.

    Args:
        found: is given what each of these leaves is, by name.
    """
    instructions, places = list(code.instructions), list(code.places)
    made: list[tuple[int, Instruction]] = []
    for k in range(2, len(instructions)):
        leaf = _leaf(instructions[k - 2], instructions[k - 1], instructions[k], columns)
        following = lexemes.types[max(places[k - 2 : k + 1]) + 1]
        if leaf is None or (isinstance(leaf, Match) and following == "COMPARE"):
            continue
        if instructions[k].text in ("!=", "≠"):
            made.append((k, Instruction("PREFIX", "not", 1)))
        instructions[k - 2 : k] = [Instruction("WORD", word.text, 0) for word in instructions[k - 2 : k]]
        instructions[k] = Instruction("LEAF", str(leaf), 2)
        found[str(leaf)] = leaf
    for k, negation in reversed(made):
        instructions.insert(k + 1, negation)
        places.insert(k + 1, places[k])
    return Code(instructions, places)


def compared_with_text(lexemes: Lexemes) -> set[str]:
    """The names that stand on the other side of a comparison with quoted text."""
    types, words = lexemes.types, lexemes.words
    found = set()
    for k, kind in enumerate(types):
        if kind != "TEXT":
            continue
        if k > 1 and (types[k - 2], types[k - 1]) == ("NAME", "COMPARE"):
            found.add(words[k - 2])
        if types[k + 1 : k + 3] == ["COMPARE", "NAME"]:
            found.add(words[k + 2])
    return found


def _leaf(first: Instruction, second: Instruction, last: Instruction, columns: ColumnNames) -> Match | Level | None:
    """What three instructions in a row mean together; None if nothing."""
    types = first.type, second.type
    if types == ("NAME", "NAME") and last.type == "INDEX" and last.operands == 2 and second.text in columns.levels:
        return Level(first.text, second.text)
    if last.type != "INFIX" or SPELLINGS.get(last.text, last.text) not in ("==", "!="):
        return None
    if types == ("TEXT", "NAME"):
        first, second = second, first
    elif types != ("NAME", "TEXT"):
        return None
    return Match(first.text, second.text[1:-1]) if first.text in columns.texts else None
