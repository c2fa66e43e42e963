"""Values rounded by their errors: two digits of the error, and the value to the same place."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autodiff_cli.render.numbers import TABLE_DIGITS, shows

_MEANINGLESS = 1e6  # values: an error so large says nothing of how to round
_LEAST, _MOST = 1e-4, 1e7  # sizes that are written without an exponent


@dataclass(frozen=True, slots=True)
class Rounding:
    """How to show a value, numbers like it, and its error.

    >>> rounding = Rounding.of(2.50016, 0.01047, None)
    >>> rounding.of_value(2.50016), rounding.of_error(0.01047)
    ('2.500', '0.010')
    """

    of_value: Callable[[Any], str]
    of_error: Callable[[Any], str]

    @classmethod
    def of(cls, value: Any, error: Any, digits: int | None) -> Rounding:
        """The rounding of a value with an error, which may be unknown; of arrays, and where digits are given, to these.

        >>> Rounding.of(5.4999813e-07, 1.23e-11, None).of_value(5.4999813e-07)
        '5.49998e-07'
        >>> Rounding.of(12345.6, 1234.5, None).of_value(12345.6)
        '12300'
        >>> Rounding.of(2.0, 1e30, None).of_value(2.0)
        '2'
        >>> Rounding.of(2.0, None, None).of_value(2 / 3)
        '0.666667'
        """
        if digits is not None:
            return cls(*shows(digits))
        if not isinstance(value, float) or not isinstance(error, float) or not 0 < error < math.inf:
            brief = shows(TABLE_DIGITS)[1]
            return cls(brief, brief)
        if error > _MEANINGLESS * abs(value) > 0:
            return cls(shows(TABLE_DIGITS)[1], _with_exponent(math.floor(math.log10(error)) - 1))
        error = float(f"{error:.1e}")
        place = math.floor(math.log10(error)) - 1  # of the last digit that is shown
        if _LEAST <= max(abs(value), error) < _MOST:
            fixed = _to_place(place)
            return cls(fixed, fixed)
        return cls(_with_exponent(place), _with_exponent(place))


def _to_place(place: int) -> Callable[[Any], str]:
    return lambda x: f"{round(x, -place) or 0.0:.{max(0, -place)}f}"


def _with_exponent(place: int) -> Callable[[Any], str]:
    def shown(x: float) -> str:
        digits = math.floor(math.log10(abs(x))) - place if x else 0
        return f"{x:.{digits}e}" if digits >= 0 else "0"

    return shown
