"""Text as a terminal takes it: nothing in it can give the terminal orders, and its width is known."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

# Control characters, direction marks and halves of surrogate pairs; a newline stays.
_ORDERS = ("Cc", "Cf", "Cs", "Zl", "Zp")

HANGING = 2  # columns that a line which goes on below is indented


def visible(text: str) -> str:
    """The text with every character that would control a terminal shown as its code (`\\x1b`), newlines kept."""
    if text.isprintable():
        return text
    return "".join(_escaped(character) if _commands(character) else character for character in text)


def _commands(character: str) -> bool:
    return character != "\n" and unicodedata.category(character) in _ORDERS


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def on_one_line(text: str) -> str:
    """A formula of several lines as one, and visible."""
    return visible("; ".join(line.strip() for line in text.splitlines() if line.strip()))


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
    """The text with its middle left out if it is longer than `limit` characters, saying how much is missing."""
    if limit is None or len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} … ({len(text) - 2 * half} characters) … {text[-half:]}"


def counted(count: int, thing: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
