"""mpmath set up for the tables of precise numbers: a context of our own, and the constants all of them use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from mpmath import MPContext

Number: TypeAlias = Any  # an mpf; mpmath has no types
Function: TypeAlias = Callable[..., Number]

# A context of our own: nobody else's precision changes with it.
MP = MPContext()
ZERO, ONE, TWO = MP.mpf(0), MP.mpf(1), MP.mpf(2)
INF, NAN = MP.mpf("inf"), MP.mpf("nan")


def is_whole(x: Number) -> bool:
    """Whether x is a finite whole number."""
    return bool(MP.isint(x))


def divide(x: Number, y: Number) -> Number:
    """x / y; a division by 0 has the sign of x, or is nan."""
    if y == 0:
        return NAN if x == 0 or MP.isnan(x) else MP.sign(x) * INF
    return x / y
