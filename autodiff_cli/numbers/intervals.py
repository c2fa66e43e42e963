"""Arrays of intervals as a kind of number: many boxes are evaluated at once, in NumPy.

Every interval encloses all values of an operation at the points of its inputs where it is defined. Ends are rounded
outward, by more than the error of NumPy's functions. Operations without an entry of their own are evaluated in balls,
one element at a time.

An interval also says whether the function that it encloses is certainly defined and continuous there, as in the
decorations of IEEE 1788. An interval of nan is empty: the function is defined nowhere.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from flint import arb

from autodiff_cli.array_types import Array, Mask
from autodiff_cli.numbers import ball_arithmetic as ball
from autodiff_cli.numbers import balls
from autodiff_cli.numbers.kind import Kind

_LARGEST = sys.float_info.max
_TINY = sys.float_info.min  # numbers below it have fewer bits, so a relative margin is not enough there
_MARGIN = 2.0**-48  # relative error allowed to functions of NumPy; the vectorised ones are accurate to 4 ulps
_ROOT_MARGIN = 2.0**-40  # relative error allowed to roots, whose exponents are rounded
_MAX_PHASE = 2.0**30  # arguments of sine and cosine beyond it are reduced too inaccurately
_BALL_BITS = 80  # working precision of balls: more than the 53 bits of the ends that they give


class Intervals(NamedTuple):
    """An array of intervals.

    Attributes:
        lower: the lower ends; nan where the interval is empty.
        upper: the upper ends.
        is_continuous: whether the function enclosed is defined and continuous at all points.
    """

    lower: Array
    upper: Array
    is_continuous: Mask

    @classmethod
    def between(cls, lower: Any, upper: Any) -> Intervals:
        """Return the intervals between ends that are numbers or arrays."""
        low, high = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
        return cls(low, high, np.ones(np.broadcast(low, high).shape, dtype=bool))

    def contains(self, number: float) -> Mask:
        """Return which intervals contain a number."""
        return (self.lower <= number) & (number <= self.upper)

    def intersect(self, other: Intervals) -> Intervals:
        """Return the common parts of intervals; the lower end exceeds the upper where there is none."""
        return self._replace(lower=np.fmax(self.lower, other.lower), upper=np.fmin(self.upper, other.upper))

    def select(self, which: Any) -> Intervals:
        """Return some of the columns of a table of intervals."""
        return Intervals(self.lower[:, which], self.upper[:, which], self.is_continuous[:, which])

    def replace_where(self, which: Mask, lower: float, upper: float) -> Intervals:
        """Return the intervals with other ends in some places."""
        return self._replace(lower=np.where(which, lower, self.lower), upper=np.where(which, upper, self.upper))

    @property
    def is_bounded(self) -> Mask:
        """Whether both ends are finite."""
        return np.isfinite(self.lower) & np.isfinite(self.upper)

    def __add__(self, other: Any) -> Intervals:
        return _exact_at_zero(self.lower + other.lower, self.upper + other.upper, self, other)

    def __sub__(self, other: Any) -> Intervals:
        return _exact_at_zero(self.lower - other.upper, self.upper - other.lower, self, other)

    def __neg__(self) -> Intervals:
        return Intervals(-self.upper, -self.lower, self.is_continuous)

    def __mul__(self, other: Any) -> Intervals:
        low, high = _extremes([a * b for a in self[:2] for b in other[:2]])
        if np.isnan(low).any():
            low, high = _extremes([_product(a, b) for a in self[:2] for b in other[:2]])
        if low.all() and high.all():
            return Intervals(_down(low), _up(high), self.is_continuous & other.is_continuous)
        # A product that is never negative stays so; but 0 may also come from underflow.
        (plus, minus), (other_plus, other_minus) = ((x.lower >= 0, x.upper <= 0) for x in (self, other))
        is_zero = (plus & minus) | (other_plus & other_minus)
        is_nonnegative = is_zero | (plus & other_plus) | (minus & other_minus)
        is_nonpositive = is_zero | (plus & other_minus) | (minus & other_plus)
        return Intervals(
            np.where((low == 0) & is_nonnegative, 0.0, _down(low)),
            np.where((high == 0) & is_nonpositive, 0.0, _up(high)),
            _continuous(self, other),
        )


Function: TypeAlias = Callable[..., Intervals]


def _down(x: Array) -> Array:
    return np.nextafter(x, -np.inf)


def _up(x: Array) -> Array:
    return np.nextafter(x, np.inf)


def _continuous(*xs: Intervals) -> Mask:
    return functools.reduce(np.logical_and, (x.is_continuous for x in xs))


def _exact_at_zero(low: Array, high: Array, *xs: Intervals) -> Intervals:
    """Return sums or differences with rounded ends. A sum of floats that is 0 has no rounding error."""
    low, high = np.where(low == 0, low, _down(low)), np.where(high == 0, high, _up(high))
    return Intervals(low, high, _continuous(*xs))


def _extremes(values: Sequence[Array]) -> tuple[Array, Array]:
    """Return the least and the greatest of some values; nan where one of them is."""
    return functools.reduce(np.minimum, values), functools.reduce(np.maximum, values)


def _product(a: Array, b: Array) -> Array:
    """Return products of ends, where 0 times an infinity is 0."""
    return np.where(((a == 0) & ~np.isnan(b)) | ((b == 0) & ~np.isnan(a)), 0.0, a * b)


def _widened(low: Array, high: Array, is_continuous: Mask, margin: float = _MARGIN) -> Intervals:
    """Return intervals between the values of a function of NumPy, with a relative margin for their error."""
    return Intervals(
        np.where(np.isinf(low), np.minimum(low, _LARGEST), low - np.abs(low) * margin - _TINY),
        np.where(np.isinf(high), np.maximum(high, -_LARGEST), high + np.abs(high) * margin + _TINY),
        is_continuous,
    )


def _clamped(x: Intervals, least: float, most: float = np.inf) -> Intervals:
    """Return enclosures of a function whose values lie between two numbers."""
    return x._replace(lower=np.maximum(x.lower, least), upper=np.minimum(x.upper, most))


def _empty_where_empty(z: Intervals, x: Intervals) -> Intervals:
    """Return intervals that are empty where others are."""
    return z.replace_where(np.isnan(x.lower), np.nan, np.nan)


def _monotonic(
    function: Callable[[Array], Array],
    domain: tuple[float, float] = (-np.inf, np.inf),
    values: tuple[float, float] = (-np.inf, np.inf),
    is_open: bool = False,
    is_falling: bool = False,
) -> Function:
    """Return the enclosure of a monotonic function of NumPy.

    Args:
        domain: its ends.
        values: bounds of its values.
        is_open: whether the function is infinite at the ends of its domain.
        is_falling: whether it falls.
    """
    start, end = domain

    def at(x: Intervals) -> Intervals:
        low, high = np.maximum(x.lower, start), np.minimum(x.upper, end)
        is_inside = (x.lower > start) & (x.upper < end) if is_open else (x.lower >= start) & (x.upper <= end)
        is_empty = ~(low <= high)
        first, last = function(np.where(is_empty, np.nan, low)), function(np.where(is_empty, np.nan, high))
        if is_falling:
            first, last = last, first
        return _clamped(_widened(first, last, x.is_continuous & (is_inside | np.isinf(start))), *values)

    return at


def _absolute(x: Intervals) -> Intervals:
    low, high = _extremes([np.abs(x.lower), np.abs(x.upper)])
    return Intervals(np.where(x.contains(0), 0.0, low), high, x.is_continuous)


def _square(x: Intervals) -> Intervals:
    size = _absolute(x)
    low, high = size.lower * size.lower, size.upper * size.upper
    return Intervals(np.where(low == 0, 0.0, _down(low)), np.where(size.upper == 0, 0.0, _up(high)), x.is_continuous)


def _reciprocal(x: Intervals) -> Intervals:
    with_zero = x.contains(0)
    low = np.where(with_zero & (x.lower < 0), -np.inf, _down(1 / np.where(x.upper == 0, np.nan, x.upper)))
    high = np.where(with_zero & (x.upper > 0), np.inf, _up(1 / np.where(x.lower == 0, np.nan, x.lower)))
    low, high = np.where(x.upper == 0, -np.inf, low), np.where(x.lower == 0, np.inf, high)
    low = np.where((x.lower >= 0) & (x.upper > 0), np.maximum(low, 0), low)
    high = np.where((x.upper <= 0) & (x.lower < 0), np.minimum(high, 0), high)
    return Intervals(low, high, x.is_continuous & ~with_zero)


def _divide(a: Intervals, b: Intervals) -> Intervals:
    return a * _reciprocal(b)


def _power(x: Intervals, y: Intervals) -> Intervals:
    exponent = y.lower.flat[0] if y.lower.size else 0.0
    if np.all((y.lower == exponent) & (y.upper == exponent)) and exponent.is_integer():
        z = _integer_power(x, exponent)
        return z._replace(is_continuous=z.is_continuous & y.is_continuous)
    # For x from 0 on, x^y is monotonic in x and in y, so its extremes are at corners.
    low = np.maximum(x.lower, 0)
    corners = [np.power(np.where(low <= x.upper, a, np.nan), b) for a in (low, x.upper) for b in y[:2]]
    is_inside = (x.lower > 0) | ((x.lower >= 0) & (y.lower > 0))
    z = _clamped(_widened(*_extremes(corners), _continuous(x, y) & is_inside), 0)
    # Negative numbers have powers where the exponent is an integer.
    return z.replace_where((x.lower < 0) & (np.floor(y.upper) >= y.lower), -np.inf, np.inf)


def _integer_power(x: Intervals, exponent: float) -> Intervals:
    if exponent < 0:
        return _reciprocal(_integer_power(x, -exponent))
    if exponent == 2:
        return _square(x)
    if exponent % 2 == 0:
        x = _absolute(x)
    z = _widened(np.power(x.lower, exponent), np.power(x.upper, exponent), x.is_continuous)
    return _clamped(z, 0) if exponent % 2 == 0 else z


def _sine_enclosure(function: Callable[[Array], Array], first_maximum: float) -> Function:
    """Return the enclosure of sine or cosine, whose maxima are at `first_maximum` + 2πk."""

    def at(x: Intervals) -> Intervals:
        z = _widened(*_extremes([function(x.lower), function(x.upper)]), x.is_continuous)
        is_large = np.maximum(np.abs(x.lower), np.abs(x.upper)) > _MAX_PHASE
        top = is_large | _has_multiple(x, first_maximum, 2 * math.pi)
        bottom = is_large | _has_multiple(x, first_maximum - math.pi, 2 * math.pi)
        z = z._replace(lower=np.where(bottom, -1.0, z.lower), upper=np.where(top, 1.0, z.upper))
        return _clamped(_empty_where_empty(z, x), -1, 1)

    return at


def _has_multiple(x: Intervals, offset: float, period: float) -> Mask:
    """Return whether intervals may contain a point at `offset` plus a multiple of `period`."""
    low, high = (x.lower - offset) / period, (x.upper - offset) / period
    slack = 1e-14 * (1 + np.abs(low) + np.abs(high))
    return np.floor(high + slack) >= np.ceil(low - slack)


def _tangent(x: Intervals) -> Intervals:
    has_pole = _has_multiple(x, math.pi / 2, math.pi) | ~(np.maximum(np.abs(x.lower), np.abs(x.upper)) < _MAX_PHASE)
    z = _widened(np.tan(x.lower), np.tan(x.upper), x.is_continuous & ~has_pole)
    return _empty_where_empty(z.replace_where(has_pole, -np.inf, np.inf), x)


def _step(function: Callable[[Array], Array]) -> Function:
    """Return the enclosure of a step function that never falls."""

    def at(x: Intervals) -> Intervals:
        low, high = function(x.lower), function(x.upper)
        return Intervals(low, high, x.is_continuous & (low == high))

    return at


_floor = _step(np.floor)


def _remainder(a: Intervals, b: Intervals) -> Intervals:
    quotient = _floor(_divide(a, b))
    exact = a - b * quotient
    is_sure = quotient.lower == quotient.upper
    return exact._replace(
        lower=np.where(is_sure, exact.lower, np.where(np.isnan(exact.lower), np.nan, np.minimum(b.lower, 0))),
        upper=np.where(is_sure, exact.upper, np.where(np.isnan(exact.upper), np.nan, np.maximum(b.upper, 0))),
    )


# --- Choices and conditions: a condition is an interval within 0 and 1 ---


def _condition(is_true: Mask, is_false: Mask, *xs: Intervals) -> Intervals:
    """Return conditions, undecided where an operand may be undefined."""
    is_known = _continuous(*xs)
    return Intervals(
        np.where(is_true & is_known, 1.0, 0.0), np.where(is_false & is_known, 0.0, 1.0), (is_true | is_false) & is_known
    )


def _truth(x: Intervals) -> Intervals:
    return _condition(~x.contains(0), (x.lower == 0) & (x.upper == 0), x)


def _equal(a: Intervals, b: Intervals) -> Intervals:
    is_same = (a.lower == a.upper) & (b.lower == b.upper) & (a.lower == b.lower)
    return _condition(is_same, (a.upper < b.lower) | (b.upper < a.lower), a, b)


def _not(x: Intervals) -> Intervals:
    known = _truth(x)
    return Intervals(1 - known.upper, 1 - known.lower, known.is_continuous)


def _less(a: Intervals, b: Intervals) -> Intervals:
    return _condition(a.upper < b.lower, a.lower >= b.upper, a, b)


def _and(a: Intervals, b: Intervals) -> Intervals:
    p, q = _truth(a), _truth(b)
    low, high = np.minimum(p.lower, q.lower), np.minimum(p.upper, q.upper)
    return Intervals(low, high, low == high)


def _where(condition: Intervals, a: Intervals, b: Intervals) -> Intervals:
    known = _truth(condition)
    takes_a, takes_b = known.lower == 1, known.upper == 0
    return Intervals(
        np.where(takes_a, a.lower, np.where(takes_b, b.lower, np.fmin(a.lower, b.lower))),
        np.where(takes_a, a.upper, np.where(takes_b, b.upper, np.fmax(a.upper, b.upper))),
        (takes_a & a.is_continuous) | (takes_b & b.is_continuous),
    )


def _extreme(choose: Callable[[Array, Array], Array]) -> Function:
    def of_all(*xs: Intervals) -> Intervals:
        low, high = functools.reduce(choose, [x.lower for x in xs]), functools.reduce(choose, [x.upper for x in xs])
        return Intervals(low, high, _continuous(*xs))

    return of_all


_largest, _smallest = _extreme(np.maximum), _extreme(np.minimum)
_ZERO = Intervals.between(0.0, 0.0)


def _direction(x: Intervals, length: Intervals) -> Intervals:
    """Return enclosures of x/h for a length h of at least |x|."""
    z = _divide(x, length)
    return _empty_where_empty(z._replace(lower=np.fmax(z.lower, -1), upper=np.fmin(z.upper, 1)), x)


def _where_defined(z: Intervals, slope: Intervals) -> Intervals:
    return _empty_where_empty(slope, z)._replace(is_continuous=slope.is_continuous & z.is_continuous)


def _by_balls(name: str) -> Function:
    """Return the enclosure of an operation that is evaluated in balls, one element at a time."""

    def at(*xs: Intervals) -> Intervals:
        ends = np.broadcast_arrays(*(end for x in xs for end in x[:2]))
        shape = ends[0].shape
        columns = [end.ravel().tolist() for end in ends]
        results = np.empty((2, math.prod(shape)))
        is_continuous = np.zeros(math.prod(shape), dtype=bool)
        with balls.interval_arithmetic(_BALL_BITS) as kind:
            function = kind.table[name]
            for k, row in enumerate(zip(*columns, strict=True)):
                if not all(map(operator.le, row[::2], row[1::2])):  # an empty interval
                    results[:, k] = np.nan
                    continue
                balls.reset_jumps()
                z = ball.NAN
                if all(map(math.isfinite, row)):
                    ends_of_all = [*map(ball.from_float, row)]
                    z = function(*map(ball.interval_between, ends_of_all[::2], ends_of_all[1::2]))
                results[:, k] = ball.float_bounds(z)
                is_continuous[k] = ball.is_finite(z) and not balls.has_possible_jump()
        low, high = results.reshape(2, *shape)
        return Intervals(low, high, is_continuous.reshape(shape) & _continuous(*xs))

    return at


@functools.cache
def _parse_constant(text: str) -> Intervals:
    """Return the tightest interval around the exact value of a constant."""
    number = balls.parse_constant(text)
    if isinstance(number, arb) and not number.is_finite():
        return Intervals(*(np.asarray(float(number)),) * 2, np.asarray(False))
    return Intervals.between(*ball.float_bounds(number))


_COSH = _monotonic(np.cosh, values=(1, np.inf))  # the increasing branch, for x >= 0
_SQRT = _monotonic(np.sqrt, (0, np.inf), (0, np.inf))

# fmt: off
_TABLE: dict[str, Function] = {
    "add": Intervals.__add__, "sub": Intervals.__sub__, "mul": Intervals.__mul__, "neg": Intervals.__neg__,
    "div": _divide, "square": _square, "abs": _absolute, "pow": _power, "mod": _remainder,
    "eq": _equal, "ne": lambda a, b: _not(_equal(a, b)), "lt": _less, "gt": lambda a, b: _less(b, a),
    "ge": lambda a, b: _not(_less(a, b)), "le": lambda a, b: _not(_less(b, a)),
    "not": _not, "and": _and, "or": lambda a, b: _not(_and(_not(a), _not(b))),
    "where": _where, "max": _largest, "min": _smallest,
    "clip": lambda x, low, high: _smallest(_largest(x, low), high), "relu": lambda x: _largest(x, _ZERO),
    "sign": _step(np.sign), "heaviside": _step(lambda end: (np.sign(end) + 1) / 2),
    "floor": _floor, "ceil": _step(np.ceil), "round": _step(np.rint),
    "direction": _direction, "where_defined": _where_defined, "edge_distance": _absolute,
    "sqrt": _SQRT, "cbrt": _monotonic(np.cbrt), "hypot": lambda x, y: _SQRT(_square(x) + _square(y)),
    "exp": _monotonic(np.exp, values=(0, np.inf)), "exp2": _monotonic(np.exp2, values=(0, np.inf)),
    "expm1": _monotonic(np.expm1, values=(-1, np.inf)),
    "log": _monotonic(np.log, (0, np.inf), is_open=True), "log1p": _monotonic(np.log1p, (-1, np.inf), is_open=True),
    "log2": _monotonic(np.log2, (0, np.inf), is_open=True), "log10": _monotonic(np.log10, (0, np.inf), is_open=True),
    "sin": _sine_enclosure(np.sin, math.pi / 2), "cos": _sine_enclosure(np.cos, 0.0), "tan": _tangent,
    "asin": _monotonic(np.arcsin, (-1, 1)), "acos": _monotonic(np.arccos, (-1, 1), (0, np.inf), is_falling=True),
    "atan": _monotonic(np.arctan),
    "sinh": _monotonic(np.sinh), "cosh": lambda x: _COSH(_absolute(x)),
    "tanh": _monotonic(np.tanh, values=(-1, 1)),
    "asinh": _monotonic(np.arcsinh), "acosh": _monotonic(np.arccosh, (1, np.inf), (0, np.inf)),
    "atanh": _monotonic(np.arctanh, (-1, 1), is_open=True),
}
# fmt: on
_EXPANDED = frozenset(("quotient_slope", "times_log", "pow_slope_base", "pow_slope_exponent"))
INTERVALS: Kind[Intervals] = Kind(
    "interval arrays",
    {**{name: _by_balls(name) for name in balls.TABLE if name not in _EXPANDED}, **_TABLE},
    _parse_constant,
)


# --- Inverses: bounds of an input, given bounds of the value z and of the inputs ---


def _factor_bounds(z: Intervals, factor: Intervals) -> Intervals:
    """Return bounds of the other factor of a product z; none where both may be 0."""
    return _divide(z, factor).replace_where(z.contains(0) & factor.contains(0), -np.inf, np.inf)


def _divisor_bounds(z: Intervals, a: Intervals, b: Intervals) -> Intervals:
    """Return bounds of the divisor of a quotient z: only an infinite one makes it 0, unless the dividend is 0."""
    is_impossible = (z.lower == 0) & (z.upper == 0) & ~a.contains(0) & b.is_bounded
    return _factor_bounds(a, z).replace_where(is_impossible, np.inf, -np.inf)


def _bounds_by_magnitude(size: Intervals, x: Intervals) -> Intervals:
    """Return bounds of an input whose absolute value has known bounds; with one sign if the other is excluded."""
    return size._replace(
        lower=np.where(x.lower <= -size.lower, -size.upper, size.lower),
        upper=np.where(x.upper >= size.lower, size.upper, -size.lower),
    )


def _base_bounds(z: Intervals, x: Intervals, y: Intervals) -> Intervals:
    """Return bounds of the base of a power with a constant exponent."""
    exponent = float(y.lower.flat[0]) if y.lower.size == 1 else 0.0
    if exponent == 0 or y.lower != y.upper:
        return x
    if exponent < 0:
        z, exponent = _reciprocal(z), -exponent
    if exponent % 2 != 1:
        z = _clamped(z, 0)
    low, high = (np.copysign(np.power(np.abs(end), 1 / exponent), end) for end in z[:2])
    root = _widened(low, high, z.is_continuous, _ROOT_MARGIN)
    return _bounds_by_magnitude(_clamped(root, 0), x) if exponent % 2 == 0 else root


def _bounds_by_maximum(z: Intervals, other: Intervals) -> Intervals:
    """Return bounds of an input of a maximum z."""
    return z._replace(lower=np.where(other.upper < z.lower, z.lower, -np.inf))


def _invertible(inverse: Function) -> tuple[Function]:
    return (lambda z, x: inverse(z),)


# For each input of an operation a function of z and all inputs; its domain is the range of the operation.
INVERSES: dict[str, tuple[Function, ...]] = {
    "add": (lambda z, a, b: z - b, lambda z, a, b: z - a),
    "sub": (lambda z, a, b: z + b, lambda z, a, b: a - z),
    "neg": _invertible(Intervals.__neg__),
    "mul": (lambda z, a, b: _factor_bounds(z, b), lambda z, a, b: _factor_bounds(z, a)),
    # the quotient may be 0 because the divisor is infinite
    "div": (lambda z, a, b: (z * b).replace_where(z.contains(0) & ~b.is_bounded, -np.inf, np.inf), _divisor_bounds),
    "square": (lambda z, x: _bounds_by_magnitude(_SQRT(z), x),),
    "abs": (lambda z, x: _bounds_by_magnitude(_clamped(z, 0), x),),
    "pow": (_base_bounds,),
    "sqrt": _invertible(lambda z: _square(_clamped(z, 0))),
    "max": (lambda z, a, b: _bounds_by_maximum(z, b), lambda z, a, b: _bounds_by_maximum(z, a)),
    "min": (lambda z, a, b: -_bounds_by_maximum(-z, -b), lambda z, a, b: -_bounds_by_maximum(-z, -a)),
    **{
        name: _invertible(_TABLE[inverse])
        for name, inverse in (
            ("exp", "log"), ("log", "exp"), ("exp2", "log2"), ("log2", "exp2"), ("expm1", "log1p"), ("log1p", "expm1"),
            ("sinh", "asinh"), ("asinh", "sinh"), ("tanh", "atanh"), ("atanh", "tanh"), ("atan", "tan"),
            ("asin", "sin"), ("acos", "cos"),
        )
    },
}  # fmt: skip
