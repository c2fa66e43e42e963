"""Arithmetic, choices and powers of numbers with proven digits: exact on fractions, balls on the rest."""

from __future__ import annotations

from collections.abc import Callable

from flint import arb, fmpq, fmpz

from autodiff_cli.numbers.balls.conventions import conventional
from autodiff_cli.numbers.balls.number import (
    LONGEST_WHOLE,
    NAN,
    ONE,
    ZERO,
    Number,
    Undecided,
    ball,
    certain,
    compare,
    is_finite,
    is_nan,
    is_whole,
    limited,
    short,
    sign,
    whole_in,
)

Function = Callable[..., Number]


def arithmetic(function: Function) -> Function:
    """A sum, difference or product, in which an uncertain 0 times an infinity is not decided."""

    def of_two(x: Number, y: Number) -> Number:
        z = short(function(x, y))
        if is_nan(z) and not is_nan(x) and not is_nan(y):
            for number in (x, y):
                if is_finite(number):
                    sign(number)  # Undecided if it may be 0 or not
        return z

    return of_two


def divide(x: Number, y: Number) -> Number:
    """x / y; a division by 0 has the sign of x, or is nan."""
    if not (is_finite(x) and is_finite(y)) or sign(y) == 0:
        return conventional("div", x, y)
    return short(x / y)


def whole(rounding: Callable[[fmpq], fmpz], of_ball: Callable[[arb], arb]) -> Function:
    """A function that rounds to whole numbers. Balls that straddle a step are not decided."""

    def rounded(x: Number) -> Number:
        if not is_finite(x):
            return x
        if isinstance(x, fmpq):
            return fmpq(rounding(x))
        if x.is_exact():
            return _step(of_ball(x))
        low, high = _step(of_ball(x.lower())), _step(of_ball(x.upper()))
        return high if compare(low, high) == 0 else _nearest_step(x)

    return rounded


def _step(x: arb) -> fmpq:
    found = whole_in(x)
    if found is None:
        raise Undecided
    return fmpq(found)


def _nearest_step(x: arb) -> Number:
    """As a last word, a number that cannot be told from a whole one is that one."""
    if is_whole(x):
        found = whole_in(x)
        if found is not None:
            return fmpq(found)
    raise Undecided


def round_fraction(x: fmpq) -> fmpz:
    """To the nearest whole number, a half to the even one."""
    low = (x - fmpq(1, 2)).ceil()
    return low + 1 if x - low == fmpq(1, 2) and low % 2 else low


def round_ball(x: arb) -> arb:
    """To the nearest whole number; a half, which only an exact ball can be, to the even one."""
    low = (x - arb(0.5)).ceil()
    if x.is_exact() and (x - low) == arb(0.5) and not (low / 2).is_integer():
        return low + 1
    return low


def modulo(a: Number, b: Number) -> Number:
    """The remainder of a / b with the sign of b."""
    if not (is_finite(a) and is_finite(b)) or sign(b) == 0:
        return conventional("mod", a, b)
    if isinstance(a, fmpq) and isinstance(b, fmpq) and a.q == b.q == 1:
        return fmpq(a.p % b.p)
    return short(a - b * FLOOR(divide(a, b)))


def truth(holds: Callable[[int], bool], of_nan: bool = False) -> Function:
    """A comparison, from the sign of the difference."""

    def of_two(a: Number, b: Number) -> Number:
        if is_nan(a) or is_nan(b):
            return fmpq(of_nan)
        return fmpq(holds(compare(a, b)))

    return of_two


def is_true(x: Number) -> bool:
    """Whether a condition holds: any number but 0, nan too."""
    return is_nan(x) or sign(x) != 0


def sign_of(x: Number) -> Number:
    """-1, 0 or 1."""
    return x if is_nan(x) else fmpq(sign(x))


def absolute(x: Number) -> Number:
    """The size of a number, also where its sign is not known."""
    return x if is_nan(x) else abs(x)


def largest(*xs: Number) -> Number:
    """The largest; nan if any is nan. Of balls that overlap, a ball that holds the largest of both."""
    return _extreme(xs, lambda x, y: compare(x, y) >= 0, arb.max)


def smallest(*xs: Number) -> Number:
    """The smallest; nan if any is nan."""
    return _extreme(xs, lambda x, y: compare(x, y) <= 0, arb.min)


def _extreme(xs: tuple[Number, ...], wins: Callable[[Number, Number], bool], of_balls: Function) -> Number:
    if any(map(is_nan, xs)):
        return NAN
    best = xs[0]
    for x in xs[1:]:
        try:
            best = best if wins(best, x) else x
        except Undecided:
            best = of_balls(ball(best), ball(x))
    return best


def relu(x: Number) -> Number:
    """max(x, 0)."""
    return largest(x, ZERO)


def direction(x: Number, length: Number) -> Number:
    """x/length, and 0 where the length is 0."""
    return NAN if is_nan(length) else ZERO if sign(length) == 0 else divide(x, length)


# --- powers


def square(x: Number) -> Number:
    """x²."""
    if not is_finite(x):
        return conventional("square", x)
    return short(x * x) if isinstance(x, fmpq) else _whole_power(x, 2)  # FLINT's x**2 is nan around 0


def power(x: Number, y: Number) -> Number:
    """x^y as a real number: nan for a negative base with an exponent that is not whole."""
    y = limited(y)
    if not (is_finite(x) and is_finite(y)):
        if is_finite(y) and sign(y) == 0:
            return ONE
        return conventional("pow", x, y)
    if isinstance(y, fmpq) and y.q == 1:
        return _whole_power(x, int(y.p))
    base = sign(x)
    if base == 0:
        return conventional("pow", x, y)
    if base > 0:
        return certain(ball(x) ** ball(y))
    if not is_whole(y):
        return NAN
    exponent = whole_in(ball(y))
    if exponent is None:
        raise Undecided
    return _whole_power(x, int(exponent))


def _whole_power(x: Number, exponent: int) -> Number:
    if exponent == 0:
        return ONE
    if exponent < 0 and sign(x) == 0:
        return conventional("pow", x, fmpq(exponent))
    if isinstance(x, fmpq) and x.height_bits() * abs(exponent) <= LONGEST_WHOLE:
        return short(x**exponent)
    base = ball(x)
    if base.contains(0):
        return certain(arb(0, base.abs_upper() ** abs(exponent)))
    return certain(base ** fmpz(exponent))


def slope_base(x: Number, y: Number) -> Number:
    """The slope of x^y towards x: 0 where the exponent is 0."""
    if is_nan(y) or is_nan(x):
        return conventional("pow_slope_base", x, y)
    return ZERO if sign(y) == 0 else arithmetic(lambda a, b: a * b)(y, power(x, y - 1))


def times_log(a: Number, x: Number) -> Number:
    """a·log(x), and 0 where a is 0."""
    if not (is_finite(a) and is_finite(x)):
        return conventional("times_log", a, x)
    if sign(a) == 0:
        return ZERO
    side = sign(x)
    return NAN if side < 0 else conventional("times_log", a, x) if side == 0 else a * ball(x).log()


def slope_exponent(x: Number, y: Number) -> Number:
    """The slope of x^y towards y: 0 where the base is 0 and the exponent positive."""
    if not (is_finite(x) and is_finite(y)):
        return conventional("pow_slope_exponent", x, y)
    side = sign(x)
    if side < 0 or (side == 0 and sign(y) == 0):
        return NAN
    if side == 0:
        return conventional("pow_slope_exponent", x, y)
    return power(x, y) * ball(x).log()


def root(x: Number, n: Number) -> Number:
    """The real n-th root; of a negative x for odd whole n only."""
    if not (is_finite(x) and is_finite(n)) or sign(n) == 0 or sign(x) == 0:
        return conventional("root", x, n)
    if sign(x) > 0:
        return _positive_root(x, n)
    if not is_whole(n):
        return NAN
    index = whole_in(ball(n))
    if index is None:
        raise Undecided
    return -_positive_root(-x, n) if index % 2 else NAN


def _positive_root(x: Number, n: Number) -> Number:
    if isinstance(n, fmpq) and n.q == 1 and 0 < n.p < 1 << 32:
        return ball(x).root(int(n.p))
    return power(x, divide(ONE, n))


FLOOR = whole(fmpq.floor, arb.floor)
CEIL = whole(fmpq.ceil, arb.ceil)
ROUND = whole(round_fraction, round_ball)
