"""What can be wrong with an expression, as errors that show the spot."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autodiff_cli.graph.shapes import ShapeError
    from autodiff_cli.language.source import Source

WINDOW = 72  # characters of a long line that are shown
LONGEST_NAME = 60  # nothing close is sought for longer ones
LONGEST_QUOTE = 30
MOST_LISTED = 8  # names in a message
LEAST_BEGINNING = 2  # letters
CLOSE = 0.65  # of two names, from 0 to 1: twice the letters in common over the letters of both

NEWLINE = re.compile(r"\r\n|\r|\n")


class ExpressionError(ValueError):
    """An expression that cannot be read, or not with the names it was given.

    Args:
        message: what is wrong, and what was expected.
        text: the source; empty for an error without a place in it.
        start: where in the source, as a position in characters; None for no place.
        suggestion: what may have been meant, as text to type.

    Attributes:
        line, column: the place, counted from 1 in characters; None if there is none.

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
        self.line: int | None = None
        self.column: int | None = None
        if start is not None:
            self.line, self.column = line_and_column(text, start)

    def __str__(self) -> str:
        message = "\n".join(map(_visible, self.message.split("\n")))
        lines = [message]
        if self.start is not None:
            lines = [f"line {self.line}, column {self.column}: {message}"]
            if self.text.strip():
                lines += excerpt(self.text, self.start)
        if self.suggestion is not None:
            lines.append(f"Did you mean `{_visible(self.suggestion)}`?")
        return "\n".join(lines)


class UnknownNameError(ExpressionError):
    """A value, direction or derivative is asked for a name that the expression does not have.

    >>> import autodiff_cli as ad
    >>> ad.parse("x^2").grad(z=1)
    Traceback (most recent call last):
        ...
    autodiff_cli.language.errors.UnknownNameError: the expression has no variable `z`
    """


class MissingValueError(ExpressionError):
    """A name of the expression has no value.

    >>> import autodiff_cli as ad
    >>> ad.parse("x*y").grad(x=1)
    Traceback (most recent call last):
        ...
    autodiff_cli.language.errors.MissingValueError: no value for `y`
    """


def shape_error(error: ShapeError, source: Source | None) -> ExpressionError:
    """The error for shapes that do not fit together, at the operation whose inputs they are if the text has it."""
    start = None if source is None or error.node is None else source.start(error.node)
    return ExpressionError(str(error), "" if source is None else source.text, start)


def line_and_column(text: str, start: int) -> tuple[int, int]:
    """The line and column, counted from 1 in characters, of a position in a text."""
    line, begin = 1, 0
    for newline in NEWLINE.finditer(text, 0, start):
        line, begin = line + 1, newline.end()
    return line, start - begin + 1


def excerpt(text: str, start: int) -> tuple[str, str]:
    """The source line around a position, and a line with a caret under it. A long line is shown in part."""
    begin = max((newline.end() for newline in NEWLINE.finditer(text, 0, start)), default=0)
    newline = NEWLINE.search(text, start)
    end = len(text) if newline is None else newline.start()
    left, right = begin, end
    if end - begin > WINDOW:
        left = max(begin, min(start - WINDOW // 2, end - WINDOW))
        right = min(end, left + WINDOW)
    before = ("…" if left > begin else "") + _visible(text[left:start])
    after = _visible(text[start:right]) + ("…" if right < end else "")
    padding = "".join("\t" if character == "\t" else " " * _width(character) for character in before)
    return f"  {before}{after}", f"  {padding}^"


def suggest(name: str, candidates: Iterable[str], *, beginnings: bool = True) -> str | None:
    """The candidate closest to a misspelt name, if one is close; else, with `beginnings`, the shortest that begins with
    the name."""
    import difflib

    if len(name) > LONGEST_NAME:
        return None
    spellings = {candidate.casefold(): candidate for candidate in candidates}
    name = name.casefold()
    matcher = difflib.SequenceMatcher(None, "", name)
    closest = (CLOSE, False)
    found = None
    for spelling, candidate in spellings.items():
        matcher.set_seq1(spelling)
        closeness = matcher.ratio(), spelling[:3] == name[:3]  # of two that are as close, the one that begins alike
        if closeness > closest:
            closest, found = closeness, candidate
    if found is None and beginnings and len(name) >= LEAST_BEGINNING:
        longer = [candidate for spelling, candidate in spellings.items() if spelling.startswith(name)]
        return min(longer, key=len, default=None)
    return found


def in_brief(names: Collection[str], mark: str = "") -> str:
    """Names in a message: of many the first and the last, and how many there are; long ones shortened.

    >>> in_brief(["x", "y"], "`")
    '`x`, `y`'
    >>> in_brief([f"x{k}" for k in range(500)])
    'x0, x1, x2, x3, x4, x5, x6, … x499 (500 in all)'
    """
    shown = [f"{mark}{_shortened(name)}{mark}" for name in names]
    if len(shown) <= MOST_LISTED:
        return ", ".join(shown)
    return f"{', '.join(shown[: MOST_LISTED - 1])}, … {shown[-1]} ({len(shown)} in all)"


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def is_quotable(text: str) -> bool:
    """Whether a piece of source may be repeated in a suggestion: short, on one line, with nothing invisible."""
    return len(text) <= LONGEST_QUOTE and text.isprintable()


def _visible(text: str) -> str:
    """The text with what would disturb a terminal (controls, direction marks, halves of surrogate pairs) as `�`."""
    return "".join(
        "�" if character != "\t" and unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") else character
        for character in text
    )


def _width(character: str) -> int:
    """The columns that a character takes in a terminal."""
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
