"""Runs of text, each in one ink: what a screen is made of, and how a terminal is told."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from autodiff_cli.render.text import LOOKALIKES, columns

_NEEDED = "─┿╲•▸◂╭╚∂…×→"  # what drawings and explanations contain besides letters and digits


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
    try:
        _NEEDED.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def written(text: str, encoding: str) -> str:
    """The text with what an encoding lacks replaced, so that it takes the columns that one counts."""
    return text.encode(encoding, LOOKALIKES).decode(encoding)


def cut(line: Iterable[Run], width: int) -> Line:
    """As much of a line as fits into so many columns."""
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
