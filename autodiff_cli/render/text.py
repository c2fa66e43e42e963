"""Text as a terminal takes it: nothing in it can give the terminal orders, and its width is known."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator

# Control characters, direction marks and halves of surrogate pairs; a newline stays.
_ORDERS = ("Cc", "Cf", "Cs", "Zl", "Zp")

HANGING = 2  # columns that a line which goes on below is indented

LOOKALIKES = "lookalikes"  # how to encode text, as `errors` of `str.encode`, where a character may be lacking
_SUBSTITUTES = {"×": "*", "·": "*", "÷": "/", "−": "-", "²": "^2", "±": "+-", "≤": "<=", "≥": ">=", "≠": "!="}
_SUBSTITUTES |= {"…": "...", "→": "->", "←": "<-", "↑": "^", "↓": "v", "∂": "d", "ᵀ": "'"}
_OPEN = re.compile(r"(?:[-+*/%@^=<>≤≥≠~,;×·÷−]|\b(?:and|or|not))$")  # the end of a line that goes on below
_BLANK, _LAST = "\u2800", "\u28ff"  # of the patterns of dots that plots are made of


def visible(text: str) -> str:
    """The text with every character that would control a terminal shown as its code (`\\x1b`), newlines kept."""
    if text.isprintable():
        return text
    return "".join(_escaped(character) if _commands(character) else character for character in text)


def _commands(character: str) -> bool:
    return character != "\n" and unicodedata.category(character) in _ORDERS


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _lookalikes(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that an encoding lacks: signs that look like them, for others their codes."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(map(_lookalike, lacking)), error.end


def _lookalike(character: str) -> str:
    if _BLANK <= character <= _LAST:
        return " " if character == _BLANK else "*"
    return _SUBSTITUTES.get(character) or _escaped(character)


codecs.register_error(LOOKALIKES, _lookalikes)


def on_one_line(text: str) -> str:
    """A formula as one line, and visible. Comments in a text of several lines are left out, since they would seem to go
    on; so are breaks at which the language goes on."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        lines = [code for line in lines if (code := line.partition("#")[0].rstrip())]
    joined: list[str] = []
    depth = 0
    for line in lines:
        if joined:
            joined.append(" " if depth > 0 or _OPEN.search(joined[-1]) else "; ")
        joined.append(line)
        depth += sum(map(line.count, "([")) - sum(map(line.count, ")]"))
    return visible("".join(joined))


def columns(text: str) -> int:
    """The number of columns that a text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def fitting(text: str, width: int) -> int:
    """How many characters of a text go on a line of `width` columns: up to the last space that fits, or as many as fit
    where there is none, but at least one."""
    used, space = 0, 0
    indent = len(text) - len(text.lstrip())
    for i, character in enumerate(text):
        used += _columns(character)
        if used > width:
            return space or max(i, 1)
        if character == " " and i > indent:
            space = i
    return len(text)


def wrapped(line: str, width: int) -> Iterator[str]:
    """A line in pieces that fit into so many columns; those after the first stand further in."""
    room, indent = width, ""
    while (end := fitting(line, room)) < len(line):
        yield indent + line[:end]
        if not indent:
            hanging = len(line) - len(line.lstrip()) + HANGING
            indent = " " * min(hanging, width // 2)
            room = width - len(indent)
        line = line[end:].lstrip()
    yield indent + line


def shortened(text: str, limit: int | None) -> str:
    """The text with its middle left out if it is longer than `limit` characters, saying how much is missing; a
    text that is a little longer stays whole, since the note would take its place."""
    if limit is None or len(text) <= limit:
        return text
    half = limit // 2
    missing = len(text) - 2 * half
    note = f" … ({missing} characters) … "
    return f"{text[:half]}{note}{text[-half:]}" if missing > len(note) else text


def counted(count: int, thing: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
