"""How numbers are shown to people. Machines get them from `documents`, always in full."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

Show: TypeAlias = Callable[[Any], str]

TABLE_DIGITS = 6
LARGEST_RESULT = 100  # elements of an array that is shown in full as a result
LARGEST_IN_TABLE = 6  # and in tables and steps
_BEYOND = 400  # an exponent that a number is always shown with


def in_full(x: float) -> str:
    """The shortest text that reads back as the same float, without a trailing `.0`; a negative zero is a zero."""
    return repr(x or 0.0).removesuffix(".0")


def to_digits(digits: int) -> Callable[[float], str]:
    """A function that shows numbers to so many significant digits."""
    return lambda x: f"{x or 0.0:.{digits}g}"


def shows(digits: int | None) -> tuple[Show, Show]:
    """How to show results, and how to show numbers in tables and steps, for a `--digits` that may not be given."""
    full, brief = (in_full, to_digits(TABLE_DIGITS)) if digits is None else (to_digits(digits), to_digits(digits))
    return _with_arrays(full, LARGEST_RESULT), _with_arrays(brief, LARGEST_IN_TABLE)


def within(x: Any, show: Show, room: int) -> str:
    """A number or an array in so many characters: with fewer digits than `show` gives where these are too many, and
    where even two are, as its shape and range. A number alone stays as it is shown."""
    text = show(x)
    if len(text) <= room or isinstance(x, float | str):
        return text
    briefer = (_with_arrays(to_digits(digits), LARGEST_IN_TABLE) for digits in range(TABLE_DIGITS - 1, 1, -1))
    tried = [shown(x) for shown in (*briefer, _with_arrays(to_digits(3), 0), _with_arrays(to_digits(2), 0))]
    return next((found for found in tried if len(found) <= room), tried[-1])


def _with_arrays(show: Callable[[float], str], largest: int) -> Show:
    """The same for arrays: small ones as the language writes them, larger ones as their shape and range."""

    def shown(x: Any) -> str:
        if isinstance(x, float):
            return show(x)
        if isinstance(x, str):
            return x if show is in_full else _rounded(x, show)
        if isinstance(x, list):
            return f"[{', '.join(map(shown, x))}]"
        if x.size <= largest:
            return shown(x.tolist())
        shape, numbers = "x".join(map(str, x.shape)), x.astype(float)
        low, high = float(numbers.min()), float(numbers.max())
        return f"{shape}, all {show(low)}" if low == high else f"{shape} from {show(low)} to {show(high)}"

    return shown


def _rounded(text: str, show: Callable[[Any], str]) -> str:
    """A number that was given as text, because it has more digits or a wider range than a float."""
    nearest = float(text)
    is_float = text.removeprefix("-") in ("inf", "nan") or not math.isinf(nearest)
    if is_float and (nearest or "e" not in text):
        return show(nearest)
    from decimal import Decimal

    if "e" not in text:
        return show(Decimal(text))
    # The exponent may be beyond that of a Decimal too, so only its digits are shown as one.
    mantissa, _, exponent = text.partition("e")
    shown, _, power = show(Decimal(f"{mantissa}e{_BEYOND}")).partition("e")
    return f"{shown}e{int(power) - _BEYOND + int(exponent):+d}"
