"""Text to lexemes, by one regular expression made of the grammar's terminals."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping

from autodiff_cli.language.code import Lexeme

RESERVED = {"or": "OR", "and": "AND", "not": "NOT"}
ALIASES = {"π": "pi"}  # whole names
MICRO, MU = "µ", "μ"  # one letter at two places in Unicode, which NFC keeps apart

# After these a newline does not end the statement, and neither does one before the first.
OPEN = frozenset({"OR", "AND", "NOT", "COMPARE", "SIGN", "TIMES", "POWER", "EQUAL", "TILDE", "COMMA", "SEPARATOR"})


class Lexer:
    """Splits texts into lexemes.

    Args:
        terminals: the regular expression of each terminal; the first that matches wins.
        blank: the regular expressions of what stands between lexemes.
    """

    def __init__(self, terminals: Mapping[str, str], blank: Iterable[str]) -> None:
        groups = "|".join(f"({pattern})" for pattern in terminals.values())
        # Possessive, so that a blank is never handed to the last group, which takes any character.
        self._pattern = re.compile(rf"(?:{'|'.join(blank)})*+(?:{groups}|(\Z)|(.))", re.DOTALL)
        self._types = ("", *terminals, "END", "OTHER")

    def lex(self, text: str) -> Iterator[Lexeme]:
        """The lexemes of `text`. A character that begins none becomes a lexeme of the type `OTHER`."""
        types = self._types
        names: dict[str, tuple[str, str]] = {}
        depth = 0
        previous = "SEPARATOR"
        for match in self._pattern.finditer(text):
            group = match.lastindex
            assert group is not None
            kind = types[group]
            start, end = match.span(group)
            word = text[start:end]
            if kind == "NAME":
                known = names.get(word)
                if known is None and (strange := first_strange(word)) is not None:
                    yield Lexeme("OTHER", word[strange], start + strange, start + strange + 1)
                    return
                if known is None:
                    name = canonical(word)
                    known = names[word] = RESERVED.get(name, "NAME"), name
                kind, word = known
            elif kind == "LPAR" or kind == "LSQB":
                depth += 1
            elif kind == "RPAR" or kind == "RSQB":
                depth -= 1
            elif kind == "SEPARATOR":
                if previous == "SEPARATOR" or (word != ";" and (depth > 0 or previous in OPEN)):
                    continue
            elif kind == "END":
                return
            previous = kind
            yield Lexeme(kind, word, start, end)


def canonical(name: str) -> str:
    """The form under which a name is compared: Unicode NFC, with the micro sign as the letter mu and `π` as `pi`."""
    if name.isascii():
        return name
    name = unicodedata.normalize("NFC", name.replace(MICRO, MU))
    return ALIASES.get(name, name)


def first_strange(name: str) -> int | None:
    """The position of the first character that a name may not have; None if there is none.

    Names have letters, digits, subscripts, marks on these, `_`, and dots between their parts; they begin with a letter
    or `_`.
    """
    if name.isascii():
        return None
    for i, character in enumerate(name):
        if character.isalpha() or character in "_.":
            continue
        if not (
            i and (character.isdecimal() or "₀" <= character <= "₉" or unicodedata.category(character) in ("Mn", "Mc"))
        ):
            return i
    return None
