"""Text to lexemes, by one regular expression made of the grammar's terminals."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from autodiff_cli.language.errors import NEWLINE, ExpressionError

RESERVED = {"or": "OR", "and": "AND", "not": "NOT"}
ALIASES = {"π": "pi"}  # whole names
MICRO, MU = "µ", "μ"  # one letter at two places in Unicode, which NFC keeps apart
QUOTE = "`"  # around a name of any characters
BREAKS = dict.fromkeys(map(ord, "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")  # of lines; in a name they are blanks
TRANSPOSED = ".T"  # what other languages write: at the end of a name it is a mistake, but in backticks
LONGEST_NAME = 1000  # characters
LONGEST_NUMBER = 4000  # characters
LONGEST_EXPONENT = 18  # digits of a power of ten
_SIGNED_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
END = "$END"
OTHER = "OTHER"  # the type of what begins no lexeme

# After these a newline does not end the statement, and neither does one before the first.
OPEN = frozenset({"OR", "AND", "NOT", "COMPARE", "SIGN", "TIMES", "POWER", "EQUAL", "TILDE", "COMMA", "SEPARATOR"})
NESTING = {"LPAR": 1, "LSQB": 1, "RPAR": -1, "RSQB": -1}


class Lexeme(NamedTuple):
    """A piece of text that means something: the terminal of the grammar that it is, its word (a name in its canonical
    form), and where it stands."""

    type: str
    text: str
    start: int
    end: int


class Lexemes:
    """The lexemes of a text, by number.

    Words and types are all that reading needs; where they stand is found when somebody asks.

    Attributes:
        text: as given.
        types: the terminals of the grammar, the last one `END`. What begins no lexeme is the last before it, of the
            type `OTHER`.
        words: what they say: the source, a name in its canonical form.
    """

    def __init__(
        self,
        text: str,
        types: list[str],
        words: list[str],
        beyond: tuple[str, str] | None,
        lexer: Lexer,
        idle: frozenset[int],
    ) -> None:
        self.text = text
        self.types = types
        self.words = words
        self._beyond = beyond
        self._lexer = lexer
        self._idle = idle

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        """The start and end of each lexeme in the text."""
        spans = [match.span(1) for match in self._lexer.pattern.finditer(self.text)]
        if self._idle:
            spans = [span for number, span in enumerate(spans) if number not in self._idle]
        del spans[len(self.types) :]
        if OTHER in self.types:  # it may be a character inside a word
            start, end = spans[-2]
            start += first_strange(self.text[start:end]) or 0
            spans[-2] = start, start + 1
        return spans

    @cached_property
    def _closing(self) -> dict[int, int]:
        """The closing bracket of each opening one that has one."""
        found: dict[int, int] = {}
        opened: list[int] = []
        for number, type in enumerate(self.types):
            change = NESTING.get(type, 0)
            if change > 0:
                opened.append(number)
            elif change < 0 and opened:
                found[opened.pop()] = number
        return found

    def start(self, number: int) -> int:
        """Where a lexeme starts in the text."""
        return self._spans[number][0]

    def end(self, number: int) -> int:
        """Where a lexeme ends in the text; of a bracket and of a function that is called, where it closes."""
        opening = number + (self.types[number] == "NAME" and self.types[number + 1] == "LPAR")
        return self._spans[self._closing.get(opening, number)][1]

    def is_in_backticks(self, number: int) -> bool:
        """Whether a lexeme is a name in backticks."""
        return self.text[self.start(number)] == QUOTE

    def place(self, number: int) -> tuple[int, int]:
        """The line and column, from 1, where a lexeme starts."""
        start = self.start(number)
        line = bisect_right(self._lines, start)
        return line, start - self._lines[line - 1] + 1

    @cached_property
    def _lines(self) -> list[int]:
        """Where each line starts in the text."""
        return [0, *(newline.end() for newline in NEWLINE.finditer(self.text))]

    def error(self, message: str, number: int, suggestion: str | None = None) -> ExpressionError:
        """An error at a lexeme."""
        return ExpressionError(message, self.text, self.start(number), suggestion)

    def excess(self) -> ExpressionError | None:
        """The error for a lexeme that is beyond a limit; None if there is none."""
        if self._beyond is None:
            return None
        word, limit = self._beyond
        return self.error(limit, self.words.index(word))

    def all(self) -> list[Lexeme]:
        """All of them with their places, without the end."""
        return [
            Lexeme(type, word, start, end)
            for type, word, (start, end) in zip(self.types, self.words, self._spans, strict=True)
        ][:-1]


class Lexer:
    """Splits texts into lexemes.

    Args:
        terminals: the regular expression of each terminal; the first that matches wins. A terminal must be known by its
            word alone, whatever stands around it.
        blank: the regular expressions of what stands between lexemes.
    """

    def __init__(self, terminals: Mapping[str, str], blank: Iterable[str]) -> None:
        # Possessive, so that a blank is never handed to the last alternative, which takes any character.
        blanks = f"(?:{'|'.join(blank)})*+"
        self.pattern = re.compile(rf"{blanks}({'|'.join(terminals.values())}|\Z|.)", re.DOTALL)
        self._kinds = re.compile("|".join(f"({pattern})" for pattern in terminals.values()))
        self._types = ("", *terminals)

    def lex(self, text: str) -> Lexemes:
        """The lexemes of `text`."""
        words = self.pattern.findall(text)
        del words[words.index("") + 1 :]
        known = _Types(self)
        types = [*map(known.__getitem__, words)]
        if known.strange:
            cut = types.index(OTHER)
            types[cut + 1 :], words[cut + 1 :] = [END], [""]
            words[cut] = words[cut][first_strange(words[cut]) or 0]
        if known.canonical:
            words = [known.canonical.get(word, word) for word in words]
        idle = _idle_separators(types, words) if "SEPARATOR" in types else frozenset()
        if idle:
            types = [type for number, type in enumerate(types) if number not in idle]
            words = [word for number, word in enumerate(words) if number not in idle]
        return Lexemes(text, types, words, known.beyond, self, idle)

    def type_of(self, word: str) -> str:
        """The terminal that a word is; `OTHER` if it is none."""
        if not word:
            return END
        match = self._kinds.fullmatch(word)
        return OTHER if match is None or match.lastindex is None else self._types[match.lastindex]


class _Types(dict[str, str]):
    """The types of the words of one text, each found once.

    Attributes:
        canonical: the canonical forms of names that are written otherwise.
        strange: whether a word is none of the language.
        beyond: the first word that is beyond a limit, and the limit in words; None if there is none.
    """

    def __init__(self, lexer: Lexer) -> None:
        self._lexer = lexer
        self.canonical: dict[str, str] = {}
        self.strange = False
        self.beyond: tuple[str, str] | None = None

    def __missing__(self, word: str) -> str:
        type = self._lexer.type_of(word)
        if type == "NAME":
            name = canonical(word)
            if name != word:
                self.canonical[word] = name
            if not word.startswith(QUOTE):
                type = OTHER if first_strange(word) is not None else RESERVED.get(name, type)
        if len(word) > LONGEST_EXPONENT and self.beyond is None and (limit := _limit(type, word)):
            self.beyond = self.canonical.get(word, word), limit
        self.strange |= type is OTHER
        self[word] = type
        return type


def _limit(type: str, word: str) -> str:
    """The limit that a lexeme is beyond, in words; empty for one within all limits."""
    if type == "NAME" and len(word) > LONGEST_NAME:
        return f"a name has at most {LONGEST_NAME:,} characters"
    exponent = word.lower().partition("e")[2].lstrip("+-0")
    if type in ("NUMBER", "SUPERSCRIPT") and (len(word) > LONGEST_NUMBER or len(exponent) > LONGEST_EXPONENT):
        return f"a number has at most {LONGEST_NUMBER:,} characters, {LONGEST_EXPONENT} of them in its exponent"
    return ""


def _idle_separators(types: list[str], words: list[str]) -> frozenset[int]:
    """The numbers of the separators that end no statement: newlines in brackets and after what needs to go on, and all
    that follow another."""
    idle = set()
    depth, previous = 0, "SEPARATOR"
    for number, type in enumerate(types):
        if type == "SEPARATOR":
            if previous == type or (words[number] != ";" and (depth > 0 or previous in OPEN)):
                idle.add(number)
                continue
        elif type in NESTING:
            depth += NESTING[type]
        previous = type
    return frozenset(idle)


def is_signed_number(text: str) -> bool:
    """Whether a text is a number, with or without a sign."""
    return re.fullmatch(_SIGNED_NUMBER, text) is not None


def canonical(name: str) -> str:
    """The form under which a name is compared: without the backticks in which it may stand, on one line, in Unicode
    NFC, with the micro sign as the letter mu and `π` as `pi`.

    >>> canonical("`Temp [°C]`"), canonical("π")
    ('Temp [°C]', 'pi')
    """
    if not isinstance(name, str):
        raise TypeError(f"a name is a text, not {type(name).__name__}")
    if name[:1] == QUOTE == name[-1:] and len(name) > 2:
        name = name[1:-1]
    if not name.isprintable():
        name = name.translate(BREAKS)
    if name.isascii():
        return name
    name = unicodedata.normalize("NFC", name.replace(MICRO, MU))
    return ALIASES.get(name, name)


def is_name(text: str) -> bool:
    """Whether a text is a name as the language writes it; that of a layer's parameter has dots (`mlp.0.bias`).

    >>> [is_name(text) for text in ("x₁", "mlp.0.bias", "my-col", "`my-col`")]
    [True, True, False, True]
    """
    if text[:1] == QUOTE == text[-1:]:
        return len(text) > 2 and text.count(QUOTE) == 2
    first, *rest = text.split(".")
    return _is_word(first) and all(_is_word(part) or (part.isascii() and part.isdecimal()) for part in rest)


def is_name_of_level(text: str) -> bool:
    """Whether a text is a parameter's name with a level in brackets, `a[north]`.

    >>> is_name_of_level("a[north]"), is_name_of_level("a[]"), is_name_of_level("a")
    (True, False, False)
    """
    name, _, level = text.partition("[")
    return is_name(name) and len(level) > 1 and level.endswith("]")


def _is_word(part: str) -> bool:
    return part.isidentifier() if part.isascii() else first_strange(part) is None


def written_name(name: str) -> str:
    """A name as the language writes it: in backticks where it needs them.

    >>> written_name("x₁"), written_name("my-col"), written_name("or")
    ('x₁', '`my-col`', '`or`')
    """
    if QUOTE in name:  # no name has one: it is written already
        return name
    is_plain = is_name(name) and name not in RESERVED and not name.endswith(TRANSPOSED)
    return name if is_plain else f"{QUOTE}{name}{QUOTE}"


def first_strange(name: str) -> int | None:
    """The position of the first character that a name may not have; None if there is none.

    Names have letters, digits, subscripts, marks on these, `_`, and dots between their parts; they begin with a letter
    or `_`.
    """
    if name.isascii():
        return None
    for i, character in enumerate(name):
        if (character.isalpha() and character not in "ⁱⁿ") or character in "_.":
            continue
        if not (
            i and (character.isdecimal() or "₀" <= character <= "₉" or unicodedata.category(character) in ("Mn", "Mc"))
        ):
            return i
    return None
