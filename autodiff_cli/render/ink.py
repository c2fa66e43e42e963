"""Runs of text, each in one ink: what a screen is made of, and how a terminal is told."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

# What drawings and explanations contain besides letters and digits, and what stands for it where there is only ASCII.
_SUBSTITUTES = str.maketrans({"×": "*", "…": "...", "→": "->", "←": "<-", "↑": "^", "↓": "v", "∂": "d", "ᵀ": "'"})
_NEEDED = "─┿╲•▸◂╭╚∂…×→"


class Ink(enum.Enum):
    """What a run of text is: the codes that show it (ECMA-48, "select graphic rendition") with colour and without."""

    PLAIN = ("", "")
    FAINT = ("2", "2")
    STRONG = ("1", "1")
    VALUE = ("36", "")
    ADJOINT = ("35", "")
    LIT = ("1;32", "1")
    CURRENT = ("1;7;32", "1;7")


class Run(NamedTuple):
    """A piece of a line."""

    text: str
    ink: Ink = Ink.PLAIN


Line: TypeAlias = tuple[Run, ...]


def plain(line: Line) -> str:
    """The text of a line."""
    return "".join(run.text for run in line)


def coded(line: Line, colour: bool) -> str:
    """A line as a terminal takes it; without colour, what stands out is bold or reversed."""
    return "".join(_coded(run, colour) for run in line)


def _coded(run: Run, colour: bool) -> str:
    code = run.ink.value[0 if colour else 1]
    return f"\x1b[{code}m{run.text}\x1b[0m" if code else run.text


def is_drawable(encoding: str) -> bool:
    """Whether an encoding has the characters for lines and boxes."""
    return _encodes(_NEEDED, encoding)


def written(text: str, encoding: str) -> str:
    """The text with what an encoding lacks replaced, so that it takes the columns that one counts."""
    if text.isascii() or _encodes(text, encoding):
        return text
    return text.translate(_SUBSTITUTES).encode(encoding, "backslashreplace").decode(encoding)


def _encodes(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def cut(line: Iterable[Run], width: int) -> Line:
    """As much of a line as fits into so many columns."""
    from autodiff_cli.render.text import columns

    found: list[Run] = []
    for run in line:
        text = run.text
        while columns(text) > width:
            text = text[:-1]
        found.append(Run(text, run.ink))
        width -= columns(text)
        if text != run.text:
            break
    return tuple(found)
