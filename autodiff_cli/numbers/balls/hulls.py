"""Balls as whole intervals: an operation on them gives a ball that holds its values at all points inside.

Where a ball cannot say which side of a comparison holds, both do: a choice gives a ball that holds both branches. What
may be undefined or unbounded inside is nan; of a comparison with that nothing is known either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from flint import arb

from autodiff_cli.numbers.balls.elementary import Function, is_true
from autodiff_cli.numbers.balls.number import NAN, ONE, ZERO, Number, Undecided, ball, is_finite, is_nan, working
from autodiff_cli.numbers.balls.table import TABLE, read
from autodiff_cli.numbers.kind import Kind


@contextmanager
def hulls(bits: int) -> Iterator[Kind[Number]]:
    """Inside, intervals have ends of so many bits; gives the kind of number that they are."""
    with working(bits):
        yield _kind(bits)


@lru_cache(maxsize=8)
def _kind(bits: int) -> Kind[Number]:
    table = {name: _widened(function, _WIDE.get(name)) for name, function in TABLE.items()}
    table |= {name: _with_unknown(table[name], _WIDE[name]) for name in _OF_CONDITIONS}
    table["atan2"] = _with_cut(table["atan2"])
    return Kind(f"intervals with ends of {bits} bits", table, read)


class _Seen:
    """What has been met on the way."""

    is_split = False  # whether a ball lay on both sides of where a function may jump


def start_looking() -> None:
    """Forget what has been met so far."""
    _Seen.is_split = False


def may_jump() -> bool:
    """Whether, since then, a ball lay on both sides of where a function may jump, or be undefined."""
    return _Seen.is_split


def union(a: Number, b: Number) -> Number:
    """The smallest ball that holds both; nan if one is."""
    return ball(a).union(ball(b)) if is_finite(a) and is_finite(b) else NAN


_EITHER = arb(0.5, 0.5)  # 0 or 1


def _widened(function: Function, wide: Function | None) -> Function:
    """The function, and what holds where a ball is too wide for it."""

    def at(*xs: Number) -> Number:
        try:
            return function(*xs)
        except Undecided:
            _Seen.is_split = True
            return NAN if wide is None or any(map(is_nan, xs)) else wide(*xs)

    return at


def _with_unknown(function: Function, wide: Function) -> Function:
    """A comparison, or what asks conditions, where one of them is not known."""

    def at(*xs: Number) -> Number:
        if any(map(is_nan, xs[:1] if len(xs) > 2 else xs)):  # of `where` the first
            _Seen.is_split = True
            return wide(*xs)
        return function(*xs)

    return at


def _with_cut(atan2: Function) -> Function:
    def at(y: Number, x: Number) -> Number:
        if is_finite(y) and is_finite(x) and not (x > 0 or y > 0 or y < 0):
            _Seen.is_split = True
        return atan2(y, x)

    return at


def _known(condition: Number) -> bool | None:
    try:
        return None if is_nan(condition) else is_true(condition)
    except Undecided:
        return None


def _truth(condition: Number) -> Number:
    known = _known(condition)
    return _EITHER if known is None else ONE if known else ZERO


def _and(a: Number, b: Number) -> Number:
    known = {_known(a), _known(b)}
    return ZERO if False in known else _EITHER if None in known else ONE


def _or(a: Number, b: Number) -> Number:
    known = {_known(a), _known(b)}
    return ONE if True in known else _EITHER if None in known else ZERO


def _where(condition: Number, a: Number, b: Number) -> Number:
    known = _known(condition)
    return union(a, b) if known is None else a if known else b


def _step(name: str) -> Function:
    """A function that rises in steps, from its values at both ends; of numbers too long for that, from its nearness."""

    def between(x: Number) -> Number:
        low, high = ball(x).lower(), ball(x).upper()
        try:
            return union(TABLE[name](low), TABLE[name](high)) if is_finite(x) else NAN
        except Undecided:
            return x + arb(0, 1)

    return between


def _remainder(a: Number, b: Number) -> Number:
    """Between 0 and what is divided by."""
    return union(ZERO, b) if is_finite(a) and not ball(b).contains(0) else NAN


def _either(*_: Number) -> Number:
    return _EITHER


_WIDE: dict[str, Callable[..., Number]] = {
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _either),
    "not": lambda x: 1 - _truth(x), "mod": _remainder,
    **{name: _step(name) for name in ("sign", "heaviside", "floor", "ceil", "round")},
    "and": _and, "or": _or, "where": _where,
}  # fmt: skip
_OF_CONDITIONS = ("eq", "ne", "lt", "le", "gt", "ge", "not", "and", "or", "where")
