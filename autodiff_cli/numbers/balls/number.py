"""What a number with proven digits is, and what can be told of one.

A number is a fraction (`fmpq`), exact, or a ball of Arb's (`arb`): a midpoint and a radius around it, within which the
true value lies for certain (Johansson 2017, "Arb: efficient arbitrary-precision midpoint-radius interval arithmetic").
An infinity and nan are balls too. Where a ball is too wide to answer a question, as whether its number is positive, the
answer is `Undecided`: it takes more bits.

Imported only where such numbers are asked for, because it imports FLINT.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from flint import arb, ctx, fmpq, fmpz

Number: TypeAlias = Any  # fmpq or arb; FLINT's types are not known to mypy

INF, NEGATIVE_INF, NAN = arb.pos_inf(), arb.neg_inf(), arb.nan()
ZERO, ONE = fmpq(0), fmpq(1)

_LONGEST_FRACTION = 4096  # bits of a fraction that is kept exact; whole numbers are cheaper
LONGEST_WHOLE = 1 << 20
LONGEST = 65536  # bits of a number whose exponential is computed
LARGEST = fmpq(2) ** LONGEST
_LONGEST = arb(2) ** LONGEST_WHOLE


class Undecided(ArithmeticError):  # noqa: N818 - what it is
    """A ball is too wide for a question about its number: the computation needs more bits."""


class _Work:
    """What holds during a computation: as a last word, balls that cannot be told apart are equal."""

    is_last_word = False
    took_for_granted = False  # whether a last word was needed


@contextmanager
def working(bits: int, is_last_word: bool = False) -> Iterator[None]:
    """Inside, balls have midpoints of so many bits.

    Args:
        is_last_word: whether numbers that cannot be told apart are taken to be equal; else `Undecided` is raised.
    """
    before = _Work.is_last_word
    with ctx.workprec(bits):
        _Work.is_last_word = is_last_word
        try:
            yield
        finally:
            _Work.is_last_word = before


def ball(x: Number) -> arb:
    """The number as a ball."""
    return x if isinstance(x, arb) else arb(x)


def is_finite(x: Number) -> bool:
    """Whether a number is neither infinite nor nan."""
    return isinstance(x, fmpq) or bool(x.is_finite())


def limited(x: Number) -> Number:
    """The number, or an infinity for one so large that its exponential would fill the memory. Raises Undecided."""
    if not is_finite(x) or abs(x) < LARGEST:
        return x
    if x > LARGEST:
        return INF
    if x < -LARGEST:
        return NEGATIVE_INF
    raise Undecided


def certain(x: arb) -> arb:
    """A ball that is finite. Raises Undecided for one of which nothing is known."""
    if not x.is_finite():
        raise Undecided
    return x


def is_nan(x: Number) -> bool:
    """Whether a number is nan."""
    return isinstance(x, arb) and bool(x.is_nan())


def is_exact(x: Number) -> bool:
    """Whether a number is finite and known without an error."""
    return isinstance(x, fmpq) or bool(x.is_finite() and x.is_exact())


def is_whole(x: Number) -> bool:
    """Whether a finite number is a whole one. Raises Undecided."""
    if isinstance(x, fmpq):
        return bool(x.q == 1)
    if x.is_exact():
        return bool(x.is_integer())
    if not x.contains_integer():
        return False
    _need_last_word()
    return True


def whole_in(x: arb) -> fmpz | None:
    """The one whole number in a ball; None if there is none, or more than one, or one too long to be written down."""
    return x.unique_fmpz() if x.abs_upper() < _LONGEST else None


def compare(a: Number, b: Number) -> int:
    """-1, 0 or 1, as `a` is less than, equal to or greater than `b`; neither is nan. Raises Undecided."""
    if isinstance(a, fmpq) and isinstance(b, fmpq):
        return int(a > b) - int(a < b)
    left, right = ball(a), ball(b)
    if left < right:
        return -1
    if left > right:
        return 1
    if not left == right:  # noqa: SIM201 - both are false of balls that overlap
        _need_last_word()
    return 0


def _need_last_word() -> None:
    """Raise Undecided, unless this is the last word; then remember that it was needed."""
    if not _Work.is_last_word:
        raise Undecided
    _Work.took_for_granted = True


def took_for_granted() -> bool:
    """Whether, since the last call, numbers were taken to be equal that could not be told apart."""
    took, _Work.took_for_granted = _Work.took_for_granted, False
    return took


def sign(x: Number) -> int:
    """-1, 0 or 1, of a number that is not nan. Raises Undecided."""
    return compare(x, ZERO)


def short(x: Number) -> Number:
    """The number, as a ball if it is a fraction too long to be kept."""
    if isinstance(x, fmpq):
        longest = LONGEST_WHOLE if x.q == 1 else _LONGEST_FRACTION
        if x.height_bits() > longest:
            return arb(x)
    return x


def nearest(x: Number) -> float:
    """The float nearest to a number, infinite beyond all floats; of a ball, to its midpoint."""
    try:
        return float(x)
    except OverflowError:  # of a fraction
        return math.inf if x > 0 else -math.inf


def of_float(x: float) -> Number:
    """A float as the fraction that it is, an infinity or nan as itself."""
    if not math.isfinite(x):
        return NAN if math.isnan(x) else INF if x > 0 else NEGATIVE_INF
    return fmpq(*x.as_integer_ratio())


def short_text(x: Number, digits: int) -> str:
    """The same as `text`, without zeros at the end: `0.5`, `-8.33e-10`, `0`."""
    figures, exponent, power = text(x, digits).partition("e")
    return (figures.rstrip("0").rstrip(".") if "." in figures else figures) + exponent + power


def is_zero(x: Number) -> bool:
    """Whether a number, or the midpoint of a ball, is 0."""
    return bool(ball(x).mid().is_zero())


def size(x: Number) -> float:
    """The decimal logarithm of the size of a finite number, -inf of 0; of a ball, that of its midpoint. Infinite, too,
    where it is beyond all floats: `exp(-exp(900))` is not 0."""
    if is_zero(x):
        return -math.inf
    with ctx.workprec(128):
        return float((abs(ball(x).mid()).log() / arb(10).log()).mid())


def relative_size(x: Number, beside: Number) -> float:
    """The decimal logarithm of the size of `x` as a part of another number; infinite beside 0, -inf of 0."""
    if is_zero(x):
        return -math.inf
    return math.inf if is_zero(beside) else size(ball(x).mid() / ball(beside).mid())


def bits_known(x: Number) -> int:
    """How many leading bits of a number are certain; very many of an exact one."""
    return 1 << 62 if isinstance(x, fmpq) else int(x.rel_accuracy_bits())


def text(x: Number, digits: int) -> str:
    """A number rounded to so many significant digits, zeros at the end kept; `nan`, `inf`, `-inf`, and `0.0`.

    Of a ball it is the midpoint that is rounded.
    """
    if not is_finite(x):
        return "nan" if is_nan(x) else "inf" if x > 0 else "-inf"
    leading, exponent = _decimal(x, digits)
    if not leading:
        return "0.0"
    minus, figures = "-" if leading < 0 else "", _figures(leading)
    point = exponent + len(figures)  # the value is 0.figures times ten to this power
    figures = figures.ljust(digits, "0")
    if 0 < point <= digits:
        return f"{minus}{figures[:point]}.{figures[point:] or '0'}"
    if -5 < point <= 0:
        return f"{minus}0.{'0' * -point}{figures}"
    return f"{minus}{figures[0]}.{figures[1:] or '0'}e{'-' if point < 1 else '+'}{_figures(point - 1)}"


def _decimal(x: Number, digits: int) -> tuple[int, int]:
    """A whole number of at most so many digits, and the power of ten to multiply it with."""
    if isinstance(x, fmpq):
        numerator, denominator = int(x.p), int(x.q)
        if denominator == 1 and numerator.bit_length() <= 3 * digits:
            return numerator, 0
        shift = digits + 2 - (numerator.bit_length() - denominator.bit_length()) * 30103 // 100000
        scaled = abs(numerator) * 10 ** max(shift, 0) // (denominator * 10 ** max(-shift, 0))
        middle, exponent = (scaled if numerator > 0 else -scaled), -shift
        is_rest = middle * denominator * 10 ** max(-shift, 0) != numerator * 10 ** max(shift, 0)
    else:
        with ctx.extraprec(digits * 4):
            found, _, power = x.mid().mid_rad_10exp(digits + 12)
        middle, exponent, is_rest = int(found), int(power), False
    return _rounded(middle, exponent, digits, is_rest)


def _figures(whole: int) -> str:
    """The digits of a whole number, without its sign. Python's own way is slow beyond thousands, and refused."""
    return str(abs(fmpz(whole)))


def _rounded(middle: int, exponent: int, digits: int, is_rest: bool) -> tuple[int, int]:
    """`middle` in at most so many digits, to the nearest, a half to the even; `is_rest` says that a bit was cut off."""
    excess = len(_figures(middle)) - digits
    if excess <= 0:
        return middle, exponent
    whole, left = divmod(abs(middle), 10**excess)
    half = 5 * 10 ** (excess - 1)
    if left > half or (left == half and (is_rest or whole % 2)):
        whole += 1
    if len(_figures(whole)) > digits:
        whole, excess = whole // 10, excess + 1
    return (whole if middle > 0 else -whole), exponent + excess
