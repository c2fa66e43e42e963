"""Errors in expressions: each shows the source line with a caret under the mistake, and suggests a correction.

The texts of the messages are written where mistakes are found; `diagnostics` has those for syntax errors.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from autodiff_cli.graph.tape import ShapeError
    from autodiff_cli.language.program import Source

EXCERPT_WIDTH = 72  # characters of a source line that an error shows, so that it fits a terminal of 80 columns
MAX_SHOWN_NAME = 60  # characters; longer names are shortened in messages, and no similar name is searched for them
MAX_QUOTE = 30  # characters of source that a suggestion repeats
MAX_LISTED = 8  # names that a message lists
MIN_PREFIX = 2  # letters; a completion of fewer is not suggested
MIN_SIMILARITY = 0.65  # least similarity of a suggested name, from 0 to 1: see `similarity`

_Otherwise = TypeVar("_Otherwise", str, None)

NEWLINE = re.compile(r"\r\n|\r|\n")


class InputError(ValueError):
    """Error for invalid input: an expression, data or options. The message names the place and the expected input."""


class ExpressionError(InputError):
    """Error for an expression that cannot be read, or cannot be evaluated with the given names and shapes.

    Args:
        message: the mistake, and the expected input.
        text: the source text; empty if the error has no position.
        start: the position in the source, in characters from 0; None if the error has no position.
        suggestion: a correction, as text to type; None if there is none.

    Attributes:
        line, column: the position, counted from 1 in characters; None if there is none.
        option: the option that gives the expression, if it is not the formula or model itself; see `given_by`.

    >>> import autodiff_cli as ad
    >>> try:
    ...     ad.parse("x * sine(y)")
    ... except ad.ExpressionError as error:
    ...     print(error)
    ...     print(error.line, error.column, error.suggestion)
    line 1, column 5: there is no function `sine`
      x * sine(y)
          ^
    Did you mean `sin`?
    1 5 sin
    """

    def __init__(self, message: str, text: str = "", start: int | None = None, suggestion: str | None = None) -> None:
        super().__init__(message, text, start, suggestion)
        self.message = message
        self.text = text
        self.start = start
        self.suggestion = suggestion
        self.option = ""
        self.line: int | None = None
        self.column: int | None = None
        if start is not None:
            self.line, self.column = line_and_column(text, start)

    def __str__(self) -> str:
        message = escape_controls(self.message)
        lines = [message]
        if self.start is not None:
            lines = [f"line {self.line}, column {self.column}: {message}"]
            if self.text.strip():
                lines += excerpt(self.text, self.start)
        if self.suggestion is not None:
            shells = " (In a shell, put the formula in single quotes.)" if "`" in self.suggestion else ""
            lines.append(f"Did you mean `{escape_controls(self.suggestion)}`?{shells}")
        return f"{self.option}: " * bool(self.option) + "\n".join(lines)


@contextmanager
def given_by(option: str) -> Iterator[None]:
    """Let errors about an expression begin with the name of the option that gives it."""
    try:
        yield
    except ExpressionError as error:
        error.option = option
        raise


class UnknownNameError(ExpressionError):
    """Error for a value, direction or derivative of a variable that the expression does not have.

    >>> import autodiff_cli as ad
    >>> ad.parse("x^2").grad(z=1)
    Traceback (most recent call last):
        ...
    autodiff_cli.language.errors.UnknownNameError: the expression has no variable `z`
    """


class MissingValueError(ExpressionError):
    """Error for a variable of the expression that was given no value.

    >>> import autodiff_cli as ad
    >>> ad.parse("x*y").grad(x=1)
    Traceback (most recent call last):
        ...
    autodiff_cli.language.errors.MissingValueError: no value for `y`
    """


def shape_error(error: ShapeError, source: Source | None) -> ExpressionError:
    """Return the error for incompatible shapes, at the operation that combines them if it stands in the text."""
    start = None if source is None or error.node is None else source.start(error.node)
    return ExpressionError(str(error), "" if source is None else source.text, start)


def line_and_column(text: str, start: int) -> tuple[int, int]:
    """Return the line and column of a position in a text, both counted from 1 in characters."""
    line, begin = 1, 0
    for newline in NEWLINE.finditer(text, 0, start):
        line, begin = line + 1, newline.end()
    return line, start - begin + 1


def excerpt(text: str, start: int) -> tuple[str, str]:
    """Return the source line around a position, and a line with a caret under it. A long line is cut."""
    begin = max((newline.end() for newline in NEWLINE.finditer(text, 0, start)), default=0)
    newline = NEWLINE.search(text, start)
    end = len(text) if newline is None else newline.start()
    left, right = begin, end
    if end - begin > EXCERPT_WIDTH:
        left = max(begin, min(start - EXCERPT_WIDTH // 2, end - EXCERPT_WIDTH))
        right = min(end, left + EXCERPT_WIDTH)
    before = ("…" if left > begin else "") + escape_controls(text[left:start])
    after = escape_controls(text[start:right]) + ("…" if right < end else "")
    return f"  {before}{after}", f"  {' ' * sum(map(character_width, before))}^"


def check_known(name: str, names: Collection[str], words: str = "the expression has no variable") -> None:
    """Raise UnknownNameError, with a message that begins with these words, for a name that is not among others."""
    if name not in names:
        raise UnknownNameError(f"{words} `{name}`", suggestion=suggest(name, names))


def suggest(name: str, candidates: Iterable[str], *, allow_prefix: bool = True) -> str | None:
    """Return the candidate most similar to a misspelt name; None if none is similar enough.

    Args:
        allow_prefix: whether the shortest candidate that begins with the name is returned if none is similar.
    """
    if len(name) > MAX_SHOWN_NAME:
        return None
    spellings = {_spelling(candidate): candidate for candidate in candidates}
    name = _spelling(name)
    closest = (MIN_SIMILARITY, False)
    best = None
    for spelling, candidate in spellings.items():
        if min(len(spelling), len(name)) >= max(len(spelling), len(name)) * _MIN_LENGTH_RATIO:
            # A common beginning decides between equals.
            closeness = similarity(spelling, name), spelling[:3] == name[:3]
            if closeness > closest:
                closest, best = closeness, candidate
    if best is None and allow_prefix and len(name) >= MIN_PREFIX:
        longer = [candidate for spelling, candidate in spellings.items() if spelling.startswith(name)]
        return min(longer, key=len, default=None)
    return best


def _spelling(name: str) -> str:
    """Return a name in small letters, with the names of Greek letters in place of the letters: `alpha` for `α`."""
    return re.sub("[α-ω]", lambda letter: unicodedata.name(letter[0]).split()[-1], name.casefold()).casefold()


def spelling_hint(name: str, candidates: Iterable[str], otherwise: str, quote: str = "`") -> str:
    """Return the question "did you mean …?" for the candidate most similar to a misspelt name, or `otherwise`."""
    close = suggest(name, candidates)
    return otherwise if close is None else f"did you mean {quote}{close}{quote}?"


# Names of lengths m < n differ by n - m letters at least, so their similarity is at most 2*m/(m + n).
_MIN_LENGTH_RATIO = MIN_SIMILARITY / (2 - MIN_SIMILARITY)


def similarity(a: str, b: str) -> float:
    """Return the similarity of two words, from 0 to 1: 1 minus the share of their letters that must change.

    A change is a letter more or less, or two neighbouring letters exchanged (optimal string alignment).

    >>> similarity("tahn", "tanh"), similarity("sinn", "sinh"), similarity("abc", "xyz")
    (0.875, 0.75, 0.0)
    """
    last_but_one: list[int] = []
    last: list[int] = [*range(len(b) + 1)]
    for i, letter in enumerate(a):
        costs: list[int] = [i + 1]
        for j, other in enumerate(b):
            cost = last[j] if letter == other else min(last[j + 1], costs[j]) + 1
            if i and j and (letter, a[i - 1]) == (b[j - 1], other):
                cost = min(cost, last_but_one[j - 1] + 1)
            costs.append(cost)
        last_but_one, last = last, costs
    return 1 - last[-1] / max(len(a) + len(b), 1)


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun: `1 row`, `2 rows`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_names(names: Collection[str], mark: str = "") -> str:
    """Return names as a list for a message. Of many, it has the first ones, the last, and their number.

    >>> format_names(["x", "y"], "`")
    '`x`, `y`'
    >>> format_names([f"x{k}" for k in range(500)])
    'x0, x1, x2, x3, x4, x5, x6, … x499 (500 in all)'
    """
    shown = (name if len(name) <= MAX_SHOWN_NAME else f"{name[: MAX_SHOWN_NAME - 1]}…" for name in names)
    quoted = [f"{mark}{name}{mark}" for name in shown]
    if len(quoted) <= MAX_LISTED:
        return ", ".join(quoted)
    return f"{', '.join(quoted[: MAX_LISTED - 1])}, … {quoted[-1]} ({len(quoted)} in all)"


def join_words(words: Iterable[object], last: str = "and") -> str:
    """Return words as a list for a sentence, with `last` before the final one.

    >>> join_words(["x", "y", "z"]), join_words(["mse", "mae"], "or")
    ('x, y and z', 'mse or mae')
    """
    texts = [*map(str, words)]
    return f"{', '.join(texts[:-1])} {last} {texts[-1]}" if len(texts) > 1 else "".join(texts)


def format_correlation(correlation: float, min_decimals: int) -> str:
    """Return a correlation with as many decimals as it takes to distinguish it from ±1, if rounding errors let it.

    >>> format_correlation(0.99991, 3), format_correlation(1 - 1e-15, 3)
    ('0.9999', '1.000')
    """
    texts = (f"{correlation:.{decimals}f}" for decimals in range(min_decimals, 13))
    return next((text for text in texts if abs(float(text)) < 1), f"{correlation:.{min_decimals}f}")


def is_quotable(text: str) -> bool:
    r"""Whether a suggestion may repeat a piece of source: it is short, on one line, and all of it is visible.

    >>> is_quotable("2*x"), is_quotable("2*\n*x"), is_quotable("\u202e2*x")
    (True, False, False)
    """
    return 0 < len(text) <= MAX_QUOTE and text.isprintable()


def if_quotable(text: str, otherwise: _Otherwise) -> str | _Otherwise:
    """Return a piece of source if a suggestion may repeat it, otherwise the other value."""
    return text if is_quotable(text) else otherwise


# Unicode categories that are escaped: control characters, direction marks, lone surrogates, line separators.
_CONTROL_CATEGORIES = ("Cc", "Cf", "Cs", "Zl", "Zp")


def escape_controls(text: str) -> str:
    """Return the text with every character that could control a terminal shown as its code (`\\x1b`).

    Newlines are kept.
    """
    if text.isprintable():
        return text
    return "".join(
        escape_character(c) if c != "\n" and unicodedata.category(c) in _CONTROL_CATEGORIES else c for c in text
    )


def escape_character(character: str) -> str:
    """Return the code of a character in Python, such as `\\x1b`."""
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def character_width(character: str) -> int:
    """Return the number of columns that a character takes in a terminal."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
