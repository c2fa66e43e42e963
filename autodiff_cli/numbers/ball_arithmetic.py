"""Numbers with proven digits: representation, comparison, formatting, arithmetic, choices and powers.

A number is an exact fraction (`fmpq`), or a ball of Arb (`arb`): a midpoint and a radius that are proven to enclose the
true value (Johansson 2017, "Arb: efficient arbitrary-precision midpoint-radius interval arithmetic"). Infinities and
nan are balls too. A question such as "is it positive?" raises `Undecided` if the ball is too wide to answer it; the
computation must then be repeated with more bits.

Imported only where such numbers are needed, because it imports FLINT.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from flint import arb, ctx, fmpq, fmpz

from autodiff_cli.graph.node import get_op
from autodiff_cli.numbers.floats import FLOATS

Number: TypeAlias = Any  # fmpq or arb; FLINT has no type annotations

INF, NEGATIVE_INF, NAN = arb.pos_inf(), arb.neg_inf(), arb.nan()
ZERO, ONE = fmpq(0), fmpq(1)

_MAX_FRACTION_BITS = 4096  # bits; longer fractions become balls, because arithmetic on them is slow
MAX_INTEGER_BITS = 1 << 20  # bits; integers are cheaper than fractions, so longer ones stay exact
MAX_ARGUMENT_BITS = 65536  # bits of an argument, above which its exponential would fill the memory
MAX_ARGUMENT = fmpq(2) ** MAX_ARGUMENT_BITS
_MAX_INTEGER = arb(2) ** MAX_INTEGER_BITS


class Undecided(ArithmeticError):  # noqa: N818 - callers handle it as a state, not as an error
    """A ball is too wide to answer a question about its number. The computation needs more bits."""


class _Context:
    """The state of a computation: how to compare balls that overlap."""

    assumes_equal = False  # whether overlapping balls are treated as equal; otherwise comparing them raises `Undecided`
    has_assumed_equal = False  # whether overlapping balls have been treated as equal


@contextmanager
def working_precision(bits: int, assume_equal: bool = False) -> Iterator[None]:
    """Set the precision of balls inside a `with` block.

    Args:
        bits: the precision of midpoints.
        assume_equal: whether to treat overlapping balls as equal; otherwise comparing them raises `Undecided`.
    """
    previous = _Context.assumes_equal
    with ctx.workprec(bits):
        _Context.assumes_equal = assume_equal
        try:
            yield
        finally:
            _Context.assumes_equal = previous


def as_ball(x: Number) -> arb:
    """Return the number as a ball."""
    return x if isinstance(x, arb) else arb(x)


def is_finite(x: Number) -> bool:
    """Return whether a number is neither infinite nor nan."""
    return isinstance(x, fmpq) or bool(x.is_finite())


def interval_between(low: Number, high: Number) -> Number:
    """Return a number that covers an interval: a ball, or the number itself if both ends are the same.

    A radius has 30 bits and is rounded up. Where the ball of an interval from 0 would reach below 0, into numbers for
    which functions are undefined, one that ends at 0 is returned.
    """
    if low is high or low == high:
        return low
    if high <= 0:
        return -interval_between(-high, -low)
    x = arb(as_ball((low + high) / 2), as_ball((high - low) / 2))
    if not low >= 0 or x >= 0:
        return x
    x = arb(0, as_ball(high) / 2)
    return x + x.rad()


def limit_argument(x: Number) -> Number:
    """Return the number, or an infinity if its exponential would fill the memory. Raises Undecided."""
    if not is_finite(x) or abs(x) < MAX_ARGUMENT:
        return x
    if x > MAX_ARGUMENT:
        return INF
    if x < -MAX_ARGUMENT:
        return NEGATIVE_INF
    raise Undecided


def require_finite(x: arb) -> arb:
    """Return the ball if it is finite. Raises Undecided otherwise."""
    if not x.is_finite():
        raise Undecided
    return x


def is_nan(x: Number) -> bool:
    """Return whether a number is nan."""
    return isinstance(x, arb) and bool(x.is_nan())


def is_exact(x: Number) -> bool:
    """Return whether a number is finite and has no error."""
    return isinstance(x, fmpq) or bool(x.is_finite() and x.is_exact())


def is_integer(x: Number) -> bool:
    """Return whether a finite number is an integer. Raises Undecided."""
    if isinstance(x, fmpq):
        return bool(x.q == 1)
    if x.is_exact():
        return bool(x.is_integer())
    if not x.contains_integer():
        return False
    _assume_equal_or_raise()
    return True


def unique_integer(x: arb) -> fmpz | None:
    """Return the only integer in a ball; None if there is not exactly one, or it has more than `MAX_INTEGER_BITS`.

    FLINT's function ends the process where the exponents of midpoint and radius differ by too much.
    """
    if not x.abs_upper() < _MAX_INTEGER:
        return None
    if x.is_exact() or abs(x.mid()) > 0.25:
        return x.unique_fmpz()
    return fmpz(0) if x.contains(0) and x.rad() < 0.75 else None


def compare(a: Number, b: Number) -> int:
    """Return -1, 0 or 1 if `a` is less than, equal to or greater than `b`. Neither is nan. Raises Undecided."""
    if isinstance(a, fmpq) and isinstance(b, fmpq):
        return int(a > b) - int(a < b)
    left, right = as_ball(a), as_ball(b)
    if left < right:
        return -1
    if left > right:
        return 1
    if not left == right:  # noqa: SIM201 - `==` and `!=` are both false for overlapping balls
        _assume_equal_or_raise()
    return 0


def _assume_equal_or_raise() -> None:
    """Raise Undecided, unless overlapping balls are treated as equal; then record that this happened."""
    if not _Context.assumes_equal:
        raise Undecided
    _Context.has_assumed_equal = True


def pop_assumed_equal() -> bool:
    """Return whether overlapping balls have been treated as equal since the last call, and reset this record."""
    had_assumed_equal, _Context.has_assumed_equal = _Context.has_assumed_equal, False
    return had_assumed_equal


def sign(x: Number) -> int:
    """Return the sign -1, 0 or 1 of a number that is not nan. Raises Undecided."""
    return compare(x, ZERO)


def shorten(x: Number) -> Number:
    """Return the number, as a ball if it is a fraction that is too long for exact arithmetic."""
    if isinstance(x, fmpq):
        max_bits = MAX_INTEGER_BITS if x.q == 1 else _MAX_FRACTION_BITS
        if x.height_bits() > max_bits:
            return arb(x)
    return x


def nearest_float(x: Number) -> float:
    """Return the float nearest to a fraction or to the midpoint of a ball; infinite beyond all floats."""
    try:
        return float(x)
    except OverflowError:  # from a fraction; a ball converts to an infinity
        return math.inf if x > 0 else -math.inf


def from_float(x: float) -> Number:
    """Return the exact fraction of a float, or an infinite or nan ball."""
    if not math.isfinite(x):
        return NAN if math.isnan(x) else INF if x > 0 else NEGATIVE_INF
    return fmpq(*x.as_integer_ratio())


def float_below(x: arb) -> float:
    """Return the largest float that is not above the midpoint of a ball."""
    candidate = float(x)
    if candidate == math.inf and x.is_finite():
        return sys.float_info.max
    while math.isfinite(candidate) and not arb(candidate) <= x:
        candidate = math.nextafter(candidate, -math.inf)
    return candidate


def float_bounds(x: Number) -> tuple[float, float]:
    """Return the tightest floats that enclose a number; infinite if it may be undefined or unbounded."""
    if not is_finite(x):
        return -math.inf, math.inf
    number = as_ball(x)
    return float_below(number.lower()), 0.0 - float_below(-number.upper())  # without -0


def format_shortest(x: Number, digits: int) -> str:
    """Return a number rounded to so many significant digits, without trailing zeros: `0.5`, `-8.33e-10`, `0`."""
    significand, exponent, power = format_digits(x, digits).partition("e")
    return (significand.rstrip("0").rstrip(".") if "." in significand else significand) + exponent + power


def is_zero(x: Number) -> bool:
    """Return whether a fraction, or the midpoint of a ball, is 0."""
    return bool(as_ball(x).mid().is_zero())


def log10_size(x: Number) -> float:
    """Return the decimal logarithm of the absolute value of a finite number; for a ball, of its midpoint.

    The logarithm of 0 is -inf. The result is infinite also where it exceeds all floats: `exp(-exp(900))` is not 0.
    """
    if is_zero(x):
        return -math.inf
    with ctx.workprec(128):
        return float((abs(as_ball(x).mid()).log() / arb(10).log()).mid())


def log10_relative_size(x: Number, reference: Number) -> float:
    """Return the decimal logarithm of |x / reference|; infinite if `reference` is 0, -inf if `x` is 0."""
    if is_zero(x):
        return -math.inf
    return math.inf if is_zero(reference) else log10_size(as_ball(x).mid() / as_ball(reference).mid())


def accurate_bits(x: Number) -> int:
    """Return the number of leading bits of a number that are proven; 2^62 for an exact fraction."""
    return 1 << 62 if isinstance(x, fmpq) else int(x.rel_accuracy_bits())


def round_fraction(x: fmpq) -> fmpz:
    """Round a fraction to the nearest integer, halves to even. FLINT itself takes seconds for long ones."""
    low = (x - fmpq(1, 2)).ceil()
    return low + 1 if x - low == fmpq(1, 2) and low % 2 else low


def format_digits(x: Number, digits: int, rounding: Callable[[fmpq], fmpz] = round_fraction) -> str:
    """Return a number rounded to so many significant digits, with trailing zeros; `nan`, `inf`, `-inf` or `0.0`.

    For a ball, the midpoint is rounded. `rounding` rounds a fraction to an integer.
    """
    if not is_finite(x):
        return "nan" if is_nan(x) else "inf" if x > 0 else "-inf"
    significand, exponent = _decimal(x, digits, rounding)
    if not significand:
        return "0.0"
    minus, digits_text = "-" if significand < 0 else "", _integer_digits(significand)
    point = exponent + len(digits_text)  # the value is 0.digits times ten to this power
    digits_text = digits_text.ljust(digits, "0")
    if -5 < point <= 0:
        return f"{minus}0.{'0' * -point}{digits_text}"
    is_plain = 0 < point <= digits
    whole, power = (point, "") if is_plain else (1, f"e{'+' if point > 0 else '-'}{_integer_digits(point - 1)}")
    return f"{minus}{digits_text[:whole]}.{digits_text[whole:]}".rstrip(".") + power


def _decimal(x: Number, digits: int, rounding: Callable[[fmpq], fmpz]) -> tuple[int, int]:
    """Return a number rounded to so many digits, as an integer and the power of ten to multiply it by."""
    exponent = fmpz(0)
    if isinstance(x, arb):
        with ctx.extraprec(digits * 4):
            middle, _, exponent = x.mid().mid_rad_10exp(digits + 12)
        x = fmpq(middle)
    if not x:
        return 0, 0
    shift = digits - 1 - math.floor(log10_size(x) - 1e-6)  # or one less
    while abs(significand := rounding(x * fmpq(10) ** shift)) >= 10**digits:
        shift -= 1
    return int(significand), int(exponent) - shift


def _integer_digits(number: int) -> str:
    """Return the digits of an integer, without its sign. FLINT has no limit of length; Python's `str` does."""
    return str(abs(fmpz(number)))


# --- Values by convention ---

_EIGHTHS = 8.0  # the limits of inverse functions and integrals at infinities are multiples of π/8


def conventional_value(name: str, *xs: Number) -> Number:
    """Return the value of an operation at an infinity, at nan, or at a point that its record declares singular.

    The value is the one that floats have: an infinity, nan, a multiple of 1/1024, a multiple of π/8, or an argument of
    `mod` or `logaddexp`, as in `x % inf`.

    Raises:
        Undecided: for any other value, which a float does not determine exactly.
    """
    floats = [*map(_float_on_same_side, xs)]
    value = FLOATS.function(get_op(name), len(xs))(*floats)
    if name in ("mod", "logaddexp") and value in floats:
        return xs[floats.index(value)]
    if not math.isfinite(value) or (value * 1024).is_integer():
        return from_float(value)
    parts = value * _EIGHTHS / math.pi
    if math.isfinite(parts) and math.isclose(parts, round(parts), rel_tol=1e-14):
        return arb.pi() * round(parts) / int(_EIGHTHS)
    raise Undecided


def _float_on_same_side(x: Number) -> float:
    """Return the nearest float on the same side of 0, 1 and -1 as the number; finite if the number is."""
    if not is_finite(x):
        return math.nan if is_nan(x) else math.inf if x > 0 else -math.inf
    side = sign(x)
    magnitude = abs(nearest_float(x))
    if side == 0:
        return 0.0
    magnitude = min(max(magnitude, sys.float_info.min), sys.float_info.max)
    if magnitude == 1 and abs(x) != 1:
        magnitude = math.nextafter(1.0, 2.0 if abs(x) > 1 else 0.0)
    return math.copysign(magnitude, side)


# --- Arithmetic, rounding, comparisons and choices ---

Function = Callable[..., Number]


def decided_arithmetic(function: Function) -> Function:
    """Return an addition, subtraction or multiplication that raises Undecided where a ball around 0 meets an
    infinity."""

    def of_two(x: Number, y: Number) -> Number:
        z = shorten(function(x, y))
        if is_nan(z) and not is_nan(x) and not is_nan(y):
            for number in (x, y):
                if is_finite(number):
                    sign(number)  # raises Undecided if the ball contains 0 and other numbers
        return z

    return of_two


def divide(x: Number, y: Number) -> Number:
    """Return x / y. A division by 0 has the sign of x, or is nan."""
    if not (is_finite(x) and is_finite(y)) or sign(y) == 0:
        return conventional_value("div", x, y)
    return shorten(x / y)


def rounding_function(rounding: Callable[[fmpq], fmpz], round_ball_to_integer: Callable[[arb], arb]) -> Function:
    """Return a function that rounds to integers. It raises Undecided for a ball that contains a jump."""

    def rounded(x: Number) -> Number:
        if not is_finite(x):
            return x
        if isinstance(x, fmpq):
            return fmpq(rounding(x))
        if x.is_exact():
            return _integer_of(round_ball_to_integer(x))
        low, high = _integer_of(round_ball_to_integer(x.lower())), _integer_of(round_ball_to_integer(x.upper()))
        if compare(low, high) == 0:
            return high
        if is_integer(x):  # overlapping balls are treated as equal
            return _integer_of(x)
        raise Undecided

    return rounded


def _integer_of(x: Number) -> fmpq:
    """Return the only integer in a ball. Raises Undecided."""
    integer = unique_integer(as_ball(x))
    if integer is None:
        raise Undecided
    return fmpq(integer)


def round_ball(x: arb) -> arb:
    """Round a ball to the nearest integer. Halves, which only an exact ball can have, go to even."""
    low = (x - arb(0.5)).ceil()
    return (x + arb(0.5)).floor() if x.is_exact() and not (low / 2).is_integer() else low


def modulo(a: Number, b: Number) -> Number:
    """Return the remainder of a / b with the sign of b."""
    if not (is_finite(a) and is_finite(b)) or sign(b) == 0:
        return conventional_value("mod", a, b)
    if isinstance(a, fmpq) and isinstance(b, fmpq) and a.q == b.q == 1:
        return fmpq(a.p % b.p)
    return shorten(a - b * FLOOR(divide(a, b)))


def comparison(holds: Callable[[int], bool], of_nan: bool = False) -> Function:
    """Return a comparison that is true if `holds` is true for the sign of the difference."""

    def of_two(a: Number, b: Number) -> Number:
        return fmpq(of_nan) if is_nan(a) or is_nan(b) else fmpq(holds(compare(a, b)))

    return of_two


def is_true(x: Number) -> bool:
    """Return whether a condition is true: any number except 0, including nan."""
    return is_nan(x) or sign(x) != 0


def sign_of(x: Number) -> Number:
    """Return the sign -1, 0 or 1 as a number; nan for nan."""
    return x if is_nan(x) else fmpq(sign(x))


def absolute(x: Number) -> Number:
    """Return the absolute value of a number, also if its sign is undecided."""
    return x if is_nan(x) else abs(x)


def largest(*xs: Number) -> Number:
    """Return the largest number; nan if any is nan. For overlapping balls, return a ball that encloses the maximum."""
    return _extreme(xs, lambda x, y: compare(x, y) >= 0, arb.max)


def smallest(*xs: Number) -> Number:
    """Return the smallest number; nan if any is nan. For overlapping balls, return a ball that encloses the minimum."""
    return _extreme(xs, lambda x, y: compare(x, y) <= 0, arb.min)


def _extreme(xs: tuple[Number, ...], wins: Callable[[Number, Number], bool], of_balls: Function) -> Number:
    if any(map(is_nan, xs)):
        return NAN
    best = xs[0]
    for x in xs[1:]:
        try:
            best = best if wins(best, x) else x
        except Undecided:
            best = of_balls(as_ball(best), as_ball(x))
    return best


def relu(x: Number) -> Number:
    """Return max(x, 0)."""
    return largest(x, ZERO)


def direction(x: Number, length: Number) -> Number:
    """Return x/length; 0 where the length is 0."""
    return NAN if is_nan(length) else ZERO if sign(length) == 0 else divide(x, length)


# --- Powers ---


def square(x: Number) -> Number:
    """Return x²."""
    if not is_finite(x):
        return conventional_value("square", x)
    return shorten(x * x) if isinstance(x, fmpq) else _integer_power(x, 2)  # FLINT's x**2 is nan around 0


def power(x: Number, y: Number) -> Number:
    """Return x^y as a real number; nan for a negative base with an exponent that is not an integer."""
    y = limit_argument(y)
    if not (is_finite(x) and is_finite(y)):
        return ONE if is_finite(y) and sign(y) == 0 else conventional_value("pow", x, y)
    if isinstance(y, fmpq) and y.q == 1:
        return _integer_power(x, int(y.p))
    base = sign(x)
    if base == 0:
        return conventional_value("pow", x, y)
    if base > 0:
        return require_finite(as_ball(x) ** as_ball(y))
    return _integer_power(x, int(_integer_of(y).p)) if is_integer(y) else NAN


def _integer_power(x: Number, exponent: int) -> Number:
    if exponent == 0:
        return ONE
    if exponent < 0 and sign(x) == 0:
        return conventional_value("pow", x, fmpq(exponent))
    if isinstance(x, fmpq) and x.height_bits() * abs(exponent) <= MAX_INTEGER_BITS:
        return shorten(x**exponent)
    base = as_ball(x)
    if base.contains(0):
        return require_finite(arb(0, base.abs_upper() ** abs(exponent)))
    return require_finite(base ** fmpz(exponent))


def pow_slope_base(x: Number, y: Number) -> Number:
    """Return the derivative of x^y with respect to x; 0 where the exponent is 0."""
    if is_nan(y) or is_nan(x):
        return conventional_value("pow_slope_base", x, y)
    return ZERO if sign(y) == 0 else decided_arithmetic(lambda a, b: a * b)(y, power(x, y - 1))


def vanishing(function: Function) -> Function:
    """Return the function of a and b that is 0 where a is 0, and `function(a, b)` elsewhere."""
    return lambda a, b: ZERO if is_exact(a) and a == 0 else function(a, b)


def pow_slope_exponent(x: Number, y: Number) -> Number:
    """Return the derivative of x^y with respect to y; 0 where the base is 0 and the exponent positive."""
    if not (is_finite(x) and is_finite(y)):
        return conventional_value("pow_slope_exponent", x, y)
    side = sign(x)
    if side < 0 or (side == 0 and sign(y) == 0):
        return NAN
    return conventional_value("pow_slope_exponent", x, y) if side == 0 else power(x, y) * as_ball(x).log()


def root(x: Number, n: Number) -> Number:
    """Return the real n-th root; nan for a negative x unless n is an odd integer."""
    if not (is_finite(x) and is_finite(n)) or sign(n) == 0 or sign(x) == 0:
        return conventional_value("root", x, n)
    if sign(x) > 0:
        return _positive_root(x, n)
    return -_positive_root(-x, n) if is_integer(n) and _integer_of(n).p % 2 else NAN


def _positive_root(x: Number, n: Number) -> Number:
    if isinstance(n, fmpq) and n.q == 1 and 0 < n.p < 1 << 32:
        return as_ball(x).root(int(n.p))
    return power(x, divide(ONE, n))


FLOOR = rounding_function(fmpq.floor, arb.floor)
CEIL = rounding_function(fmpq.ceil, arb.ceil)
ROUND = rounding_function(round_fraction, round_ball)
