"""The lexer: splits a text into lexemes, by one regular expression built from the grammar's terminals.

The module also has the rules for names: `is_name` decides whether a text is a name, `canonical_name` gives the form in
which names are compared, and `quote_name` adds backticks where they are needed.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from autodiff_cli.language.errors import NEWLINE, ExpressionError, InputError

T = TypeVar("T")

RESERVED = {"or": "OR", "and": "AND", "not": "NOT"}
NAME_ALIASES = {"π": "pi"}  # apply to whole names
MICRO, MU = "µ", "μ"  # Unicode has this letter twice, and NFC does not unify the two
BACKTICK = "`"  # encloses names of any characters
# Line breaks inside a name in backticks are read as blanks.
LINE_BREAKS = dict.fromkeys(map(ord, "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")
TRANSPOSE_SUFFIX = ".T"  # how NumPy writes a transpose; outside backticks a name that ends in it is refused
MAX_NAME_LENGTH = 1000  # characters
MAX_NUMBER_LENGTH = 4000  # characters; Python itself refuses to read integers of more than 4,300 digits
MAX_EXPONENT_DIGITS = 18  # digits in the exponent of ten, so that it fits 64 bits
# A date from its first `-` on, after a year: texts are searched for a character much faster than for digits.
_AFTER_YEAR = r"-(?<![\w.]\d{4}-)(?<=(?:19|20)\d\d-)(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?![\w.])"
DATE_ADVICE = (
    "this is a date, but a number is needed: write the seconds since the time that `autodiff data` shows for its "
    "column; in --where, write the date in quotes, '{}'"
)
_SIGNED_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
END = "$END"
UNKNOWN = "OTHER"  # the type of a character that begins no lexeme

# A newline after one of these does not end the statement.
CONTINUES_LINE = frozenset(
    {"OR", "AND", "NOT", "COMPARE", "SIGN", "TIMES", "POWER", "EQUAL", "TILDE", "COMMA", "SEPARATOR"}
)
BRACKET_DEPTH = {"LPAR": 1, "LSQB": 1, "RPAR": -1, "RSQB": -1}


class Lexeme(NamedTuple):
    """The smallest meaningful piece of a text.

    Attributes:
        type: the terminal of the grammar.
        text: the source; a name in its canonical form.
        start, end: the position in the source, in characters from 0.
    """

    type: str
    text: str
    start: int
    end: int


class Lexemes:
    """The lexemes of a text, numbered from 0.

    Parsing needs only their types and words. Their positions are computed when they are first asked for.

    Args:
        lexer: the lexer that splits the text.
        text: the source text.

    Attributes:
        text: the source text.
        types: the terminal of the grammar that each lexeme is. The last is `END`; a character that begins no lexeme
            has the type `UNKNOWN`, and stands last before `END`.
        words: the source of each lexeme; a name in its canonical form.
        over_limit: the first word that exceeds a limit, and the message for it; None if none does.
    """

    def __init__(self, lexer: Lexer, text: str) -> None:
        self.text, self._lexer = text, lexer
        words = lexer.pattern.findall(text)
        del words[words.index("") + 1 :]
        cache = _TypeCache(lexer)
        types = [*map(cache.__getitem__, words)]
        if cache.has_unknown:
            cut = types.index(UNKNOWN)
            types[cut + 1 :], words[cut + 1 :] = [END], [""]
            words[cut] = words[cut][first_invalid_character(words[cut]) or 0]
        if cache.canonical_names:
            words = [cache.canonical_names.get(word, word) for word in words]
        self._ignored = _ignored_separators(types, words) if "SEPARATOR" in types else frozenset()
        self.types, self.words = self._without_ignored(types), self._without_ignored(words)
        self.over_limit = cache.over_limit

    def _without_ignored(self, items: list[T]) -> list[T]:
        """Return one item for each lexeme, given one for each of the text, also for separators that end nothing."""
        return [item for number, item in enumerate(items) if number not in self._ignored] if self._ignored else items

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        """The start and end of each lexeme in the source."""
        spans = self._without_ignored([match.span(1) for match in self._lexer.pattern.finditer(self.text)])
        del spans[len(self.types) :]
        if UNKNOWN in self.types:  # it may be a character inside a word
            start, end = spans[-2]
            start += first_invalid_character(self.text[start:end]) or 0
            spans[-2] = start, start + 1
        return spans

    @cached_property
    def _closing_brackets(self) -> dict[int, int]:
        """The number of the closing bracket, by the number of the opening one."""
        closing: dict[int, int] = {}
        opened: list[int] = []
        for number, type in enumerate(self.types):
            change = BRACKET_DEPTH.get(type, 0)
            if change > 0:
                opened.append(number)
            elif change < 0 and opened:
                closing[opened.pop()] = number
        return closing

    def start(self, number: int) -> int:
        """Return the position where a lexeme starts in the source."""
        return self._spans[number][0]

    def end(self, number: int) -> int:
        """Return the position where a lexeme ends; for an opening bracket or a called function, where it is closed."""
        opening = number + (self.types[number] == "NAME" and self.types[number + 1] == "LPAR")
        return self._spans[self._closing_brackets.get(opening, number)][1]

    def is_in_backticks(self, number: int) -> bool:
        """Whether a lexeme is a name in backticks."""
        return self.text[self.start(number)] == BACKTICK

    def line_and_column(self, number: int) -> tuple[int, int]:
        """Return the line and column, counted from 1, where a lexeme starts."""
        start = self.start(number)
        line = bisect_right(self._lines, start)
        return line, start - self._lines[line - 1] + 1

    def place(self, number: int) -> str:
        """Return in words where a lexeme starts: `line 2, column 5`."""
        return "line {}, column {}".format(*self.line_and_column(number))

    @cached_property
    def _lines(self) -> list[int]:
        """The position where each line starts."""
        return [0, *(newline.end() for newline in NEWLINE.finditer(self.text))]

    def error(self, message: str, number: int, suggestion: str | None = None) -> ExpressionError:
        """Return an error at a lexeme."""
        return ExpressionError(message, self.text, self.start(number), suggestion)

    def word_error(self) -> ExpressionError | None:
        """Return the error for a lexeme that exceeds a limit, or for a date without quotes; None if there is none."""
        if self.over_limit is not None:
            word, limit = self.over_limit
            return self.error(limit, self.words.index(word))
        for match in re.finditer(_AFTER_YEAR, self.text):
            start, starts = match.start() - len("2024"), [start for start, _ in self._spans]
            if start in starts:  # the date is not in quotes or in a comment
                words = DATE_ADVICE.format(self.text[start : match.end()])
                return self.error(f"{words}; write a difference with blanks", starts.index(start))
        return None

    def to_list(self) -> list[Lexeme]:
        """Return all lexemes with their positions, without the end."""
        return [
            Lexeme(type, word, start, end)
            for type, word, (start, end) in zip(self.types, self.words, self._spans, strict=True)
        ][:-1]


class Lexer:
    """Finds the words of a text, and decides what they are; see `Lexemes`.

    Args:
        terminals: the regular expression of each terminal; the first that matches wins. A word alone must decide its
            terminal, in any context.
        blank: the regular expressions of what separates lexemes.
    """

    def __init__(self, terminals: Mapping[str, str], blank: Iterable[str]) -> None:
        # Possessive, so that backtracking never gives a blank to the last alternative, which matches any character.
        blanks = f"(?:{'|'.join(blank)})*+"
        self.pattern = re.compile(rf"{blanks}({'|'.join(terminals.values())}|\Z|.)", re.DOTALL)
        self._terminal_pattern = re.compile("|".join(f"({pattern})" for pattern in terminals.values()))
        self._types = ("", *terminals)

    def type_of(self, word: str) -> str:
        """Return the terminal that a word is; `UNKNOWN` if it is none."""
        if not word:
            return END
        match = self._terminal_pattern.fullmatch(word)
        return UNKNOWN if match is None or match.lastindex is None else self._types[match.lastindex]


class _TypeCache(dict[str, str]):
    """The types of the words of one text. Each word is classified once, when it is first looked up.

    Attributes:
        canonical_names: the canonical form of each name that is written in another form.
        has_unknown: whether some word is not in the language.
        over_limit: the first word that exceeds a limit, and the message for it; None if none does.
    """

    def __init__(self, lexer: Lexer) -> None:
        self._lexer = lexer
        self.canonical_names: dict[str, str] = {}
        self.has_unknown = False
        self.over_limit: tuple[str, str] | None = None

    def __missing__(self, word: str) -> str:
        type = self._lexer.type_of(word)
        if type == "NAME":
            name = canonical_name(word)
            if name != word:
                self.canonical_names[word] = name
            if not word.startswith(BACKTICK):
                type = UNKNOWN if first_invalid_character(word) is not None else RESERVED.get(name, type)
        if len(word) > MAX_EXPONENT_DIGITS and self.over_limit is None and (limit := _limit_message(type, word)):
            self.over_limit = self.canonical_names.get(word, word), limit
        self.has_unknown |= type is UNKNOWN
        self[word] = type
        return type


def _limit_message(type: str, word: str) -> str:
    """Return the message for a lexeme that exceeds a limit; empty for one within all limits."""
    if type == "NAME" and len(word) > MAX_NAME_LENGTH:
        return f"a name has at most {MAX_NAME_LENGTH:,} characters"
    exponent = word.lower().partition("e")[2].lstrip("+-0")
    if type in ("NUMBER", "SUPERSCRIPT") and (len(word) > MAX_NUMBER_LENGTH or len(exponent) > MAX_EXPONENT_DIGITS):
        return f"a number has at most {MAX_NUMBER_LENGTH:,} characters, {MAX_EXPONENT_DIGITS} of them in its exponent"
    return ""


def _ignored_separators(types: list[str], words: list[str]) -> frozenset[int]:
    """Return the numbers of the separators that end no statement.

    They are newlines in brackets, newlines after an operator, and separators that follow another separator.
    """
    ignored = set()
    depth, previous = 0, "SEPARATOR"
    for number, type in enumerate(types):
        if type == "SEPARATOR":
            if previous == type or (words[number] != ";" and (depth > 0 or previous in CONTINUES_LINE)):
                ignored.add(number)
                continue
        elif type in BRACKET_DEPTH:
            depth += BRACKET_DEPTH[type]
        previous = type
    return frozenset(ignored)


def is_signed_number(text: str) -> bool:
    """Whether a text is a decimal number, with or without a sign."""
    return re.fullmatch(_SIGNED_NUMBER, text) is not None


_QUOTED_PART = re.compile(r"^`([^`]+)`(?=\Z|\[)|(?<=\[)`([^`]+)`(?=\]\Z)")


def canonical_name(name: str) -> str:
    """Return the form in which names are compared.

    It has no enclosing backticks and no line breaks, is in Unicode NFC, and has the letter mu for the micro sign and
    `pi` for `π`. The name and the level or column of a parameter with levels may each be in backticks.

    >>> canonical_name("`Temp [°C]`"), canonical_name("π"), canonical_name("`k 1`[`my-col`]")
    ('Temp [°C]', 'pi', 'k 1[my-col]')
    """
    if not isinstance(name, str):
        raise TypeError(f"a name must be text, not {type(name).__name__}")
    if BACKTICK in name:
        name = _QUOTED_PART.sub(r"\1\2", name)
    if not name.isprintable():
        name = name.translate(LINE_BREAKS)
    if name.isascii():
        return name
    name = unicodedata.normalize("NFC", name.replace(MICRO, MU))
    return NAME_ALIASES.get(name, name)


def canonical_names(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return values by canonical names. Raises InputError for a name that occurs twice, also in another spelling."""
    named: dict[str, Any] = {}
    for spelling, value in pairs:
        name = canonical_name(spelling)
        if name in named:
            raise InputError(f"`{name}` is given twice")
        named[name] = value
    return named


def is_name(text: str) -> bool:
    """Whether a text is a name in the language. Names of layers' parameters have dots (`mlp.0.bias`).

    >>> [is_name(text) for text in ("x₁", "mlp.0.bias", "my-col", "`my-col`")]
    [True, True, False, True]
    """
    if text[:1] == BACKTICK == text[-1:]:
        return len(text) > 2 and text.count(BACKTICK) == 2
    first, *rest = text.split(".")
    return _is_word(first) and all(_is_word(part) or (part.isascii() and part.isdecimal()) for part in rest)


def split_assignment(text: str, sign: str = "=") -> tuple[str, str, str]:
    """Split NAME=VALUE into its name, the sign and its value, as `str.partition` does.

    A name in backticks may contain the sign.

    >>> split_assignment("`a=b` = 2")
    ('`a=b`', '=', ' 2')
    """
    name, separator, value = text.partition(sign)
    while separator and name.count(BACKTICK) == 1:
        more, separator, value = value.partition(sign)
        name += f"{sign}{more}"
    return name.strip(), separator, value


def is_level_name(text: str) -> bool:
    """Whether a text is a parameter's name with a level in brackets, as `a[north]` is.

    >>> is_level_name("a[north]"), is_level_name("a[]"), is_level_name("a")
    (True, False, False)
    """
    name, _, level = text.partition("[")
    return is_name(name) and len(level) > 1 and level.endswith("]")


def _is_word(part: str) -> bool:
    return part.isidentifier() if part.isascii() else first_invalid_character(part) is None


def quote_name(name: str) -> str:
    """Return a name as it is written in an expression: in backticks where it needs them.

    >>> quote_name("x₁"), quote_name("my-col"), quote_name("or")
    ('x₁', '`my-col`', '`or`')
    """
    if BACKTICK in name:  # no name contains a backtick, so this one is quoted already
        return name
    is_plain = is_name(name) and name not in RESERVED and not name.endswith(TRANSPOSE_SUFFIX)
    return name if is_plain else f"{BACKTICK}{name}{BACKTICK}"


def first_invalid_character(name: str) -> int | None:
    """Return the position of the first character that a name cannot have; None if there is none.

    Names consist of letters, digits, subscripts, combining marks, `_`, and dots between their parts. They begin with a
    letter or `_`.
    """
    if name.isascii():
        return None
    for i, character in enumerate(name):
        if (character.isalpha() and character not in "ⁱⁿ") or character in "_.":
            continue
        may_continue = i and (name[i - 1] != "." or character in "0123456789")  # a part may be a number: `mlp.0.bias`
        is_digit = character.isdecimal() or "₀" <= character <= "₉"
        if not may_continue or not (is_digit or unicodedata.category(character) in ("Mn", "Mc")):
            return i
    return None


# Neural-network layers: functions that add parameters of their own to the model. The lexer does not read this; it
# stands here so that both the parser and its error messages can import it.
LAYER_FUNCTIONS = ("dense", "mlp")
BUILT_FUNCTIONS = (*LAYER_FUNCTIONS, "convolve")  # those that are not operations


def split_outside_brackets(text: str, separators: str) -> list[str]:
    """Split a text at separators that are not in brackets.

    >>> split_outside_brackets("a, [b, c]; d", ",;")
    ['a', ' [b, c]', ' d']
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if depth == 0 and character in separators:
            parts.append("")
        else:
            parts[-1] += character
    return parts
