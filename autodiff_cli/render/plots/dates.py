"""Dates and times along an axis, whose numbers are seconds since a moment."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(k * _MINUTE for k in (1, 2, 5, 10, 15, 30)),
    *(k * _HOUR for k in (1, 2, 3, 6, 12)),
    *(k * _DAY for k in (1, 2, 5, 10, 20, 30, 60, 90, 180, 365)),
)
_FORMS = ((1000 * _DAY, "%Y-%m"), (2 * _DAY, "%m-%d"), (10 * _MINUTE, "%H:%M"), (0, "%H:%M:%S"))


def moments(low: float, high: float, most: int, origin: datetime) -> list[float]:
    """Places of round times between two limits, at most so many, on whole days or parts of one.

    >>> moments(0, 86_400, 5, datetime(2024, 3, 1, 5))  # from 5 in the morning on
    [3600.0, 25200.0, 46800.0, 68400.0]
    """
    width = (high - low) / max(most, 1)
    step = next((step for step in _STEPS if step >= width), math.ceil(width / _STEPS[-1]) * _STEPS[-1])
    begun = (origin - origin.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
    first, last = math.ceil((low + begun) / step), math.floor((high + begun) / step)
    return [k * step - begun for k in range(first, last + 1)]


def moment(seconds: float, span: float, origin: datetime) -> str:
    """A time beside an axis, in as few words as its span asks for.

    >>> moment(86_400.0 * 40, 86_400.0 * 300, datetime(2024, 1, 1)), moment(3600.0, 7200.0, datetime(2024, 1, 1))
    ('02-10', '01:00')
    """
    form = next(form for least, form in _FORMS if span >= least)
    try:
        return (origin + timedelta(seconds=seconds)).strftime(form)
    except (OverflowError, ValueError):  # no year that has a date
        return f"{seconds:g}"
