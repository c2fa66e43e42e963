"""Numbers with proven digits: the table.

Precision is cheap here, so functions are their definitions, and helper operations are what they stand for, except where
that is not defined at single points. What is no real number is nan, a pole is what it is for floats. There is no
overflow.

Imported only where such numbers are asked for, because it imports FLINT.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

from flint import arb, ctx, fmpq

from autodiff_cli.graph.registry import registered
from autodiff_cli.numbers.balls.conventions import conventional
from autodiff_cli.numbers.balls.elementary import (
    CEIL,
    FLOOR,
    ROUND,
    Function,
    absolute,
    arithmetic,
    direction,
    divide,
    is_true,
    largest,
    modulo,
    power,
    relu,
    root,
    sign_of,
    slope_base,
    slope_exponent,
    smallest,
    square,
    times_log,
    truth,
)
from autodiff_cli.numbers.balls.number import (
    INF,
    NAN,
    ZERO,
    Number,
    Undecided,
    ball,
    is_exact,
    is_finite,
    is_nan,
    limited,
    working,
)
from autodiff_cli.numbers.balls.special import FUNCTIONS, OF_ANY_SIZE
from autodiff_cli.numbers.kind import Kind


@contextmanager
def precision(bits: int, is_last_word: bool = False) -> Iterator[Kind[Number]]:
    """Inside, balls have midpoints of so many bits; gives the kind of number that they are.

    Args:
        is_last_word: whether numbers that cannot be told apart are taken to be equal; else `Undecided` is raised.
    """
    with working(bits, is_last_word):
        yield _kind(bits)


@lru_cache(maxsize=64)
def _kind(bits: int) -> Kind[Number]:
    """A kind of its own for each precision, because a kind reads the constants of its rules once."""
    return Kind(f"balls of {bits} bits", TABLE, read)


_NAMED: dict[str, Callable[[], Number]] = {
    "pi": arb.pi, "tau": lambda: 2 * arb.pi(), "e": arb.const_e, "inf": lambda: INF, "nan": lambda: NAN,
}  # fmt: skip


def read(constant: str) -> Number:
    """The number that a constant's text names; never through a float."""
    named = _NAMED.get(constant)
    return _fraction(constant) if named is None else named()


_LONGEST_EXPONENT = 4000  # of ten, in a fraction


def _fraction(constant: str) -> Number:
    figures, _, power_of_ten = constant.lower().partition("e")
    whole, _, decimals = figures.partition(".")
    exponent = int(power_of_ten or 0) - len(decimals)
    digits = fmpq(int(whole + decimals or 0))
    if not digits or abs(exponent) <= _LONGEST_EXPONENT:
        return digits * fmpq(10) ** exponent if digits else ZERO
    return digits * arb(10) ** exponent


def _proven(name: str, function: Callable[..., arb]) -> Function:
    """A function of balls that is finite inside its domain; elsewhere what the language says. `NAN` is an answer,
    another nan a sign that the balls are too wide."""

    def at(*given: Number) -> Number:
        xs = [*given] if name in OF_ANY_SIZE else [*map(limited, given)]
        if not all(map(is_finite, xs)):
            return conventional(name, *xs)
        z = function(*map(ball, xs))
        if z is NAN or z.is_finite():
            return z
        if _holds(name, "singular", xs) or (_is_helper(name) and all(map(is_exact, xs))):
            return conventional(name, *xs)
        if not _holds(name, "domain", xs, everywhere=True):
            return NAN
        raise Undecided

    return at


def _holds(name: str, which: str, xs: Sequence[Number], everywhere: bool = False) -> bool:
    """Whether what the operation's record says holds at a point; `everywhere` if it says nothing. Raises Undecided."""
    predicate = _kind(ctx.prec).predicate(registered(name), which, len(xs))
    return everywhere if predicate is None else is_true(predicate(*xs))


def _is_helper(name: str) -> bool:
    """Whether an operation serves rules only: then its record has no predicates."""
    return registered(name).helper


def _root_of_square(x: Number) -> Number:
    """The square root, exact of the square of a fraction."""
    if isinstance(x, fmpq) and x >= 0 and x.height_bits() < 4096:
        numerator, denominator = x.p.isqrt(), x.q.isqrt()
        if numerator**2 == x.p and denominator**2 == x.q:
            return fmpq(numerator, denominator)
    return _SQRT(x)


def _hypot(x: Number, y: Number) -> Number:
    """The length of (x, y)."""
    if not (is_finite(x) and is_finite(y)):
        return conventional("hypot", x, y)
    return _root_of_square(square(x) + square(y))


def _cbrt(x: Number) -> Number:
    return root(x, fmpq(3))


_SQRT = _proven("sqrt", arb.sqrt)

# fmt: off
TABLE: dict[str, Function] = {
    "add": arithmetic(operator.add), "sub": arithmetic(operator.sub), "mul": arithmetic(operator.mul),
    "neg": operator.neg, "div": divide, "mod": modulo,
    "quotient_slope": lambda x, y: divide(divide(x, y), y),
    "eq": truth(lambda side: side == 0), "ne": truth(lambda side: side != 0, of_nan=True),
    "lt": truth(lambda side: side < 0), "le": truth(lambda side: side <= 0),
    "gt": truth(lambda side: side > 0), "ge": truth(lambda side: side >= 0),
    "and": lambda x, y: fmpq(is_true(x) and is_true(y)), "or": lambda x, y: fmpq(is_true(x) or is_true(y)),
    "not": lambda x: fmpq(not is_true(x)),
    "abs": absolute, "sign": sign_of, "floor": FLOOR, "ceil": CEIL, "round": ROUND,
    "where": lambda condition, a, b: a if is_true(condition) else b,
    "max": largest, "min": smallest, "clip": lambda x, low, high: smallest(largest(x, low), high),
    "relu": relu, "heaviside": lambda x: (sign_of(x) + 1) / 2,
    "within": lambda z, slope: NAN if is_nan(z) else slope,
    "direction": direction,
    "square": square, "sqrt": _root_of_square, "cbrt": _cbrt, "root": root, "hypot": _hypot,
    "pow": power, "pow_slope_base": slope_base, "pow_slope_exponent": slope_exponent, "times_log": times_log,
    "exp2": lambda x: power(fmpq(2), x),
    **{name: _proven(name, function) for name, function in FUNCTIONS.items()},
}
# fmt: on
