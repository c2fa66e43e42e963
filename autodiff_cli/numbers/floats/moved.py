"""Floats of which every result is moved by a few units in the last place.

What changes with that is not known to a float.

A formula is computed again with these. A number that keeps its digits does not depend on the last bits of what it is
computed from; where digits cancel, moved ones leave another rest (stochastic arithmetic: Vignes 1993, "A stochastic
arithmetic for reliable scientific computation"; here the moves are the same each time). It is done in three ways. The
second is nearly opposite to the first: what hangs on the side of a tie or of a step falls on both sides of it. The
third is independent of these: two parts of a difference that are moved alike by chance would be taken to be right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from autodiff_cli.graph.node import is_exactly
from autodiff_cli.graph.op import Gate
from autodiff_cli.graph.registry import registered
from autodiff_cli.numbers.floats.table import CONSTANTS, FLOATS, read
from autodiff_cli.numbers.kind import Kind

Function: TypeAlias = Callable[..., Any]

UNIT = 2.0**-52
WAYS = (0, 1, 2)  # to move; one alone may happen to keep a number
MOST_UNITS = 8
_PERIOD = 509  # of the moves: a prime, so that no two parts of a formula that are alike are moved alike
TINY = 2.0**-1022  # below, floats have fewer digits
LIFTED = 2.0**-1012  # what stands for a number that has vanished: moved, it still has all digits
FRESNEL = ("fresnels", "fresnelc", "chirp_sine", "chirp_cosine")
NO_PHASE = 2.0**26
LARGE = 2.0**43  # from here on, every float times 1024 is a whole number


def units_of(way: int, count: int) -> list[int]:
    """By how many units results are moved: irregular, so that two results that are subtracted are not moved together,
    and in the mean by none, so that long sums are not moved far."""
    first = [_units(k, shift=20 if way == 2 else 12) for k in range(1, count + 1)]  # other bits in the third way
    # Not quite the opposite, so that what is kept in one way by chance is not in the other.
    return [-units + (k**3 + k) % 7 - 3 or 1 for k, units in enumerate(first)] if way == 1 else first


def _units(k: int, shift: int) -> int:
    for _ in range(2):
        k = ((k ^ (k >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    units = (k >> shift) % (2 * MOST_UNITS) - MOST_UNITS
    return units if units < 0 else units + 1


class _Moves:
    """Factors, one after the other and from the beginning again."""

    def __init__(self) -> None:
        self._ways = [[1 + units * UNIT for units in units_of(way, _PERIOD)] for way in WAYS]
        self.start(0)

    def start(self, way: int) -> None:
        self._factors, self._at = self._ways[way], -1
        self.undecided = False

    def next(self) -> float:
        """The next factor."""
        self._at += 1
        if self._at == _PERIOD:
            self._at = 0
        return self._factors[self._at]


_MOVES = _Moves()


def start_moves(way: int) -> Kind[float]:
    """Begin with one of the `WAYS` to move; gives the kind of number that is moved in this way."""
    _MOVES.start(way)
    return _KINDS[way]


def is_undecided() -> bool:
    """Whether a comparison has met a number, since the beginning, that may be infinite by overflow only."""
    return _MOVES.undecided


def _move(z: float) -> float:
    return z * _MOVES.next() + (z - z)  # of an infinity, which may be one by overflow only, nothing is known: nan


def moving(
    table: Mapping[str, Function],
    move: Function,
    lifted: Callable[[Function], Function],
    if_rounded: Callable[[Function, Function], Function],
    lost: Callable[[Function], Function],
) -> dict[str, Function]:
    """The functions of a table with their results moved, but for those that are exact.

    Args:
        move: moves a result.
        lifted: makes of a function one that gives a very small number where a float comes out as 0, or with fewer
            digits, although nothing that it is made of is 0: so that what has vanished is missed.
        if_rounded: makes of a function that is exact on short numbers, and of what moves a result, one that moves what
            is rounded.
        lost: makes of one of Fresnel's functions one that knows nothing where a float has no room for the digits that
            the phase pi*x^2/2 needs. All floats there are even, so that moving them keeps the phase.
    """

    def moved(function: Function) -> Function:
        return lambda *xs: move(function(*xs))

    def found(name: str, function: Function) -> Function:
        op = registered(name)
        if op.gate in (Gate.ROUTE, Gate.BLOCK) or name in _SIGNED:
            return function
        if name in FRESNEL:
            function = lost(function)
        if op.gate in (Gate.SCALE, Gate.SWAP):  # others are 0 by themselves
            function = lifted(function)
        return if_rounded(function, move) if op.is_exact else moved(function)

    return {name: found(name, function) for name, function in table.items()}


def moved_constant(text: str, way: int = 0) -> float:
    """The number that a constant's text names, moved if a float is not exactly that: lifted where it is too small for
    one, and nothing is known where it is too large."""
    value = read(text)
    if is_short(value) and is_exactly(text, value):
        return value
    if math.isinf(value) and text not in CONSTANTS:
        return math.nan
    return (LIFTED if value < TINY else value) * (1 - UNIT if way == 1 else 1 + UNIT)


def is_short(x: float) -> bool:
    """Whether a number can be taken to be exact, as it is short (2, 0.25). Large floats all are, also rounded ones."""
    return -LARGE < x < LARGE and (x * 1024).is_integer()


def _lifted(function: Function) -> Function:
    def value(*xs: float) -> float:
        z: float = function(*xs)
        return math.copysign(LIFTED, z) if -TINY < z < TINY and all(xs) else z

    return value


def _moved_if_rounded(function: Function, move: Function) -> Function:
    def value(*xs: float) -> Any:
        z = function(*xs)
        return z if is_short(z) and all(map(is_short, xs)) else move(z)

    return value


def _lost(function: Function) -> Function:
    return lambda x: math.nan if abs(x) > NO_PHASE else function(x)


def _compared(function: Function) -> Function:
    def truth(a: float, b: float) -> float:
        if a - a != 0 or b - b != 0:
            _MOVES.undecided = True
        return function(a, b)  # type: ignore[no-any-return]

    return truth


class _Rate(float):
    """A derivative: what the loops multiply and add up is moved too."""

    __slots__ = ()

    def __mul__(self, other: float) -> _Rate:
        a, b = float(self), float(other)
        z = a * b
        if b in _ONES:
            return _Rate(z)
        if -TINY < z < TINY:
            return _Rate(math.copysign(LIFTED, z) * _MOVES.next() if a and b else z)
        return _Rate(z if is_short(z) and is_short(a) and is_short(b) else z * _MOVES.next())

    def __add__(self, other: float) -> _Rate:
        a, b = float(self), float(other)
        z = a + b
        return _Rate(z if is_short(z) and is_short(a) and is_short(b) else z * _MOVES.next())

    __rmul__, __radd__ = __mul__, __add__

    def __neg__(self) -> _Rate:
        return _Rate(float.__neg__(self))

    def __sub__(self, other: float) -> _Rate:
        return self + -other

    def __rsub__(self, other: float) -> _Rate:
        return -self + other

    def __truediv__(self, other: float) -> _Rate:
        return _Rate(_KINDS[0].table["div"](float(self), float(other)))


_ONES = (1.0, -1.0)
_SIGNED = ("neg", "abs", "within")  # nothing but the sign is new, or nothing at all
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _kinds() -> list[Kind[float]]:
    table = moving(FLOATS.table, _move, _lifted, _moved_if_rounded, _lost)
    table |= {name: _compared(table[name]) for name in COMPARISONS}
    moved: Kind[float] = Kind("floats moved by a unit", table, moved_constant, {})
    return [moved.with_constants(lambda text, way=way: moved_constant(text, way), _Rate) for way in WAYS]  # type: ignore[misc]


_KINDS = _kinds()
