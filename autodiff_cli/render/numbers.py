"""How numbers are shown to people. Machines get them from `documents`, always in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Show: TypeAlias = Callable[[float], str]

TABLE_DIGITS = 6


def in_full(x: float) -> str:
    """The shortest text that reads back as the same float, without a trailing `.0`."""
    return repr(x).removesuffix(".0")


def to_digits(digits: int) -> Show:
    """A function that shows numbers to so many significant digits."""
    return lambda x: f"{x:.{digits}g}"


def shows(digits: int | None) -> tuple[Show, Show]:
    """How to show results, and how to show numbers in tables and steps, for a `--digits` that may not be given."""
    if digits is None:
        return in_full, to_digits(TABLE_DIGITS)
    return to_digits(digits), to_digits(digits)
