"""Floats of which every result is moved by a unit in the last place: what changes with that is not known to a float.

A formula is computed again with these. A number that keeps its digits does not depend on the last bits of what it is
computed from; where digits cancel, moved ones leave another rest (stochastic arithmetic: Vignes 1993, "A stochastic
arithmetic for reliable scientific computation"; here the moves are the same each time).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from autodiff_cli.graph.op import Gate
from autodiff_cli.graph.registry import registered
from autodiff_cli.numbers.floats.table import FLOATS, read
from autodiff_cli.numbers.kind import Kind

Function: TypeAlias = Callable[..., Any]

UNIT = 2.0**-52
# By how many units, one after the other: irregular, so that two results that are subtracted are not moved together,
# and in the mean by none, so that long sums are not moved far.
_UNITS = (
    3,
    -1,
    4,
    -1,
    5,
    7,
    -2,
    6,
    -5,
    3,
    -5,
    8,
    -7,
    1,
    -3,
    2,
    -8,
    4,
    -6,
    2,
    -4,
    5,
    -3,
    8,
    -1,
    6,
    -7,
    2,
    7,
    -4,
    1,
    -8,
    -4,
    -3,
    -2,
)
TINY = 2.0**-1022  # below, floats have fewer digits
LARGE = 2.0**43  # from here on, every float times 1024 is a whole number


class _Moves:
    """Factors, one after the other and from the beginning again."""

    def __init__(self) -> None:
        self._factors = [1 + units * UNIT for units in _UNITS]
        self.at = 0

    def next(self) -> float:
        """The next factor."""
        self.at = (self.at + 1) % len(self._factors)
        return self._factors[self.at]


_MOVES = _Moves()


def start_moves(at: int) -> None:
    """Let the next result be moved by the factor at a position, for the same moves each time."""
    _MOVES.at = at


def _move(z: float) -> float:
    return z * _MOVES.next()


def moving(
    table: Mapping[str, Function],
    move: Function,
    lifted: Callable[[Function], Function],
    if_rounded: Callable[[Function, Function], Function],
) -> dict[str, Function]:
    """The functions of a table with their results moved, but for those that are exact.

    Args:
        move: moves a result.
        lifted: makes of a function one that gives the smallest number with all digits where a float comes out as 0, or
            with fewer digits, although what it is made of does not: so that what has vanished is missed.
        if_rounded: makes of a function that is exact on short numbers, and of what moves a result, one that moves what
            is rounded.
    """

    def moved(function: Function) -> Function:
        return lambda *xs: move(function(*xs))

    def found(name: str, function: Function) -> Function:
        op = registered(name)
        if op.gate in (Gate.ROUTE, Gate.BLOCK) or name in _SIGNED:
            return function
        if op.gate in (Gate.SCALE, Gate.SWAP):  # others are 0 by themselves
            function = lifted(function)
        return if_rounded(function, move) if op.is_exact else moved(function)

    return {name: found(name, function) for name, function in table.items()}


def moved_constant(text: str) -> float:
    """The number that a constant's text names, moved if a float is not exactly that."""
    value = read(text)
    return value if is_short(value) else value * (1 + UNIT)


def is_short(x: float) -> bool:
    """Whether a number can be taken to be exact, as it is short (2, 0.25). Large floats all are, also rounded ones."""
    return (x * 1024).is_integer() and abs(x) < LARGE


def _lifted(function: Function) -> Function:
    def value(*xs: float) -> float:
        z: float = function(*xs)
        if -TINY < z < TINY and not any(-TINY < x < TINY for x in xs):
            return math.copysign(TINY, z)
        return z

    return value


def _moved_if_rounded(function: Function, move: Function) -> Function:
    def value(*xs: float) -> Any:
        z = function(*xs)
        return z if is_short(z) and all(map(is_short, xs)) else move(z)

    return value


_SIGNED = ("neg", "abs", "within")  # nothing but the sign is new, or nothing at all
MOVED: Kind[float] = Kind(
    "floats moved by a unit", moving(FLOATS.table, _move, _lifted, _moved_if_rounded), moved_constant, {}
)
