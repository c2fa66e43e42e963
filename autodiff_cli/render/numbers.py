"""How numbers are shown to people. Machines get them from `documents`, always in full."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

Show: TypeAlias = Callable[[Any], str]

TABLE_DIGITS = 6
LARGEST_RESULT = 100  # elements of an array that is shown in full as a result
LARGEST_IN_TABLE = 6  # and in tables and steps


def in_full(x: float) -> str:
    """The shortest text that reads back as the same float, without a trailing `.0`."""
    return repr(x).removesuffix(".0")


def to_digits(digits: int) -> Callable[[float], str]:
    """A function that shows numbers to so many significant digits."""
    return lambda x: f"{x:.{digits}g}"


def shows(digits: int | None) -> tuple[Show, Show]:
    """How to show results, and how to show numbers in tables and steps, for a `--digits` that may not be given."""
    full, brief = (in_full, to_digits(TABLE_DIGITS)) if digits is None else (to_digits(digits), to_digits(digits))
    return _with_arrays(full, LARGEST_RESULT), _with_arrays(brief, LARGEST_IN_TABLE)


def _with_arrays(show: Callable[[float], str], largest: int) -> Show:
    """The same for arrays: small ones as the language writes them, larger ones as their shape and range."""

    def shown(x: Any) -> str:
        if isinstance(x, float):
            return show(x)
        if isinstance(x, str):
            return x if show is in_full else _rounded(x, show)
        if x.size <= largest:
            return _bracketed(x.tolist(), show)
        shape = "x".join(map(str, x.shape))
        return f"{shape} from {show(float(x.min()))} to {show(float(x.max()))}"

    return shown


def _bracketed(elements: Any, show: Callable[[float], str]) -> str:
    if not isinstance(elements, list):
        return show(elements)
    return f"[{', '.join(_bracketed(element, show) for element in elements)}]"


def _rounded(text: str, show: Callable[[Any], str]) -> str:
    """A number that was given as text, because it has more digits or a wider range than a float."""
    nearest = float(text)
    if (math.isfinite(nearest) and nearest) or text in ("nan", "inf", "-inf"):
        return show(nearest)
    from decimal import Decimal

    return show(Decimal(text))
