"""Balls as a kind of number: special functions, the table of operations, and interval arithmetic.

`precision` evaluates formulas with proven digits: balls as narrow as the precision allows. Precision is cheap here, so
each function is its definition, and a helper operation is its expansion, except where that is undefined at single
points. The value at a pole is the one that floats have, and there is no overflow. A value that is not a real number is
nan.

`interval_arithmetic` evaluates formulas over whole intervals. Where a ball contains points on both sides of a
comparison, a choice returns a ball that encloses both branches. A value that may be undefined or unbounded inside the
ball is nan, and a comparison with it is undecided.

Special functions are called only at finite points. A result that is not finite means that the point is a pole, outside
the domain, or not known accurately enough.

Imported only where such numbers are needed, because it imports FLINT.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial

from flint import acb, arb, arb_series, ctx, fmpq, fmpz

from autodiff_cli.graph.node import get_op
from autodiff_cli.numbers import ball_arithmetic as ball
from autodiff_cli.numbers.ball_arithmetic import Function, Number, Undecided
from autodiff_cli.numbers.kind import Kind
from autodiff_cli.numbers.special_functions import MAX_BESSEL_ORDER

# --- Special functions ---

Ball = arb
Series = arb_series
_MAX_ORDER = 10_000  # order of derivatives; higher ones take too long


def polygamma(order: int, x: Ball) -> Ball:
    """Return the derivative of digamma of an order from 0."""
    if not x.is_exact():
        return _between_poles(partial(polygamma, order), partial(polygamma, order + 1) if order % 2 else None, x)
    if not x < 0:
        return acb(x).polygamma(order).real
    # Below 0 by reflection: the time of FLINT's function grows with the distance of x from 0. The cotangent in the
    # formula of reflection has period 1, so it follows from the same formula at the fractional part.
    part, sign = x - x.floor(), (-1) ** order
    at_part, at_rest, mirrored = (acb(y).polygamma(order).real for y in (part, 1 - part, 1 - x))
    return arb(at_part + sign * (mirrored - at_rest))


def _lgamma(x: Ball) -> Ball:
    return acb(x).lgamma().real if x.is_exact() else _between_poles(_lgamma, arb.digamma, x)


def _between_poles(function: Callable[[Ball], Ball], slope: Callable[[Ball], Ball] | None, x: Ball) -> Ball:
    """Return a function over a wide ball between poles at 0, -1, -2 and so on; nan over a pole.

    FLINT's bounds are infinite even for narrow balls. Between poles, lgamma and the derivatives of digamma of odd order
    are convex: they are above their tangents at the ends. Digamma and its derivatives of even order rise.

    Args:
        slope: the derivative of a convex function; None for one that rises.
    """
    low, high = x.lower(), x.upper()
    if not (low > 0 or (low.floor() < low and low.floor() == high.floor())):
        return arb.nan()
    ends = function(low).union(function(high))
    if slope is None:
        return ends
    at_low, at_high, width = slope(low), slope(high), high - low
    least = (function(low) + (at_low * width).min(arb(0))).max(function(high) - (at_high * width).max(arb(0)))
    return ends.union(least.min(ends))


def _gamma(x: Ball, power: int = 1) -> Ball:
    """Return gamma(x), or 1/gamma(x) for the power -1.

    FLINT 3's bounds of both are too narrow for balls around the minimum near 1.46 with radii of 2^-27 to 2^-17.
    """
    if not x.is_exact() and 1 < x < 2:
        return (power * _lgamma(x)).exp()
    return x.gamma() if power == 1 else x.rgamma()


def beta(a: Ball, b: Ball) -> Ball:
    """Return gamma(a)·gamma(b)/gamma(a + b); 0 where only the denominator is infinite."""
    return _gamma(a) * _gamma(b) * _gamma(a + b, -1)


def beta_slope(a: Ball, b: Ball) -> Ball:
    """Return the derivative of beta(a, b) with respect to a.

    It is finite at poles of gamma(a + b), where beta is 0 and digamma infinite; there 1/gamma is differentiated in its
    form by reflection, gamma(1 - x)·sin(πx)/π.
    """
    total = a + b
    if total < 0.5:
        mirrored = 1 - total
        slope = _gamma(mirrored) * (total.cos_pi() - polygamma(0, mirrored) * total.sin_pi() / arb.pi())
    else:
        slope = -polygamma(0, total) * _gamma(total, -1)
    return _gamma(a) * _gamma(b) * (polygamma(0, a) * _gamma(total, -1) + slope)


def gamma_density(a: Ball, x: Ball) -> Ball:
    """Return x^(a-1)·exp(-x)/gamma(a), for x from 0."""
    return x ** (a - 1) * (-x).exp() * _gamma(a, -1) if _is_from_zero(x) else ball.NAN


def _is_from_zero(x: Ball) -> bool:
    """Return whether a number is 0 or positive. Raises Undecided if only a part of its ball is."""
    if x >= 0 or x < 0:
        return bool(x >= 0)
    raise Undecided


def _at_corners(function: Callable[[Ball, Ball], Ball], a: Ball, x: Ball) -> Ball:
    """Return a function of two non-negative numbers that falls with one and rises with the other.

    It is evaluated at two corners of the balls: FLINT takes seconds for wide balls.
    """
    if a.is_exact() and x.is_exact():
        return function(a, x)
    (least_a, most_a), (least_x, most_x) = ((y.lower().max(arb(0)), y.upper()) for y in (a, x))
    return function(most_a, least_x).union(function(least_a, most_x))


def incomplete_gamma(function: Callable[[Ball, Ball], Ball]) -> Callable[[Ball, Ball], Ball]:
    """Return a regularised incomplete gamma function of balls, for a and x from 0, not both 0."""

    def value(a: Ball, x: Ball) -> Ball:
        if not (_is_from_zero(a) and _is_from_zero(x)) or (a.is_zero() and x.is_zero()):
            return ball.NAN
        if a.contains(0) and x.contains(0):
            raise Undecided
        return _at_corners(function, a, x)

    return value


def _lower_gamma(max_terms: int, a: Ball, x: Ball) -> Ball:
    rest = 1 - _upper_gamma(a, x)
    if not rest.is_finite() or rest.rel_accuracy_bits() > ctx.prec // 2:
        return rest
    density = (a * x.log() - x - (a + 1).lgamma()).exp()
    total = _incomplete_gamma_series(density, 0, a, x, False, max_terms)  # FLINT's own takes minutes for large a
    return rest if total is None else total[0] * density


def _upper_gamma(a: Ball, x: Ball) -> Ball:
    return arb(0) if a.is_zero() else arb(1) if x.is_zero() else x.gamma_upper(a, regularized=1)


_GUARD_BITS = 10  # additional bits, beyond the arguments' bits
_MAX_TERMS = 500_000  # terms of a series; more take seconds
_MAX_FLOAT = arb(sys.float_info.max)
_MAX_WIDE_TERMS = 2000  # terms of a series for an interval: bounds over intervals evaluate thousands of series


def gammainc_derivative(max_terms: int, order: int, a: Ball, x: Ball) -> Ball:
    """Return the derivative of gammainc(a, x) of some order with respect to a >= 0, for x > 0.

    The power series Σ x^(a+k)·exp(-x)/gamma(a+k+1) is summed as a truncated power series in a. For x > a, the series of
    gammaincc(a, x), Σ (a-1)…(a-k)·x^(a-k-1)·exp(-x)/gamma(a) (DLMF 8.11.2), needs far fewer terms.
    """
    if not (_is_from_zero(a) and _is_from_zero(x)) or x.is_zero():
        return arb(0) if a > 0 and x.is_zero() else ball.NAN
    shifted = arb_series([a, 1], prec=order + 1)
    # One exponential of a difference: the factors of a wide ball are far less certain than their product.
    density = (shifted * x.log() - x - (shifted + 1).lgamma()).exp()
    if not all(density[i].is_finite() for i in range(order + 1)):
        raise Undecided
    if x > a and (total := _incomplete_gamma_series(density[0], order, a, x, True, max_terms)) is not None:
        return -(density * shifted / x * total)[order] * arb.fac_ui(order)
    if (total := _incomplete_gamma_series(density[0], order, a, x, False, max_terms)) is not None:
        return (density * total)[order] * arb.fac_ui(order)
    raise Undecided


def _incomplete_gamma_series(
    factor: Ball, order: int, a: Ball, x: Ball, is_upper: bool, max_terms: int
) -> Series | None:
    """Return Σ x^k/((a+1)…(a+k)), or for the upper function Σ (a-1)…(a-k)/x^k, as a truncated power series in a.

    None if that takes too many terms, or if terms times the factor exceed floats, as those of wide balls do. The rest,
    from a term t on, is t·(1 + r) with |r| <= x/(gap - e), in the absolute values of coefficients of powers of e. The
    lower rest is at most a geometric series of x/(a+k+1+e). The upper one is t·∫ (1 + s/x)^(a-k-1+e)·exp(-s) ds over s
    from 0, where (1 + s/x)^m <= exp(m·s/x) for m > 0, and the coefficient of e^i in (1 + s/x)^e is at most (s/x)^i/i!.
    """
    # As many bits as the balls determine, at most the precision, and guard bits.
    bits = max(_GUARD_BITS, min(ctx.prec, _GUARD_BITS + min(a.rel_accuracy_bits(), x.rel_accuracy_bits())))
    most = _MAX_WIDE_TERMS if bits <= ctx.prec // 2 else max_terms
    slope, needed = ((a + 1) / x if is_upper else x / (a + 1)).log().upper(), bits * arb.const_log2()
    estimate = 2 * needed / ((slope**2 + 2 * needed / (a + 1)).sqrt() - slope)  # their number, by a Gaussian estimate
    if not estimate < most:
        return None
    small, largest = arb(2) ** -bits, _MAX_FLOAT / factor.abs_upper()
    term, total = [arb(1)] + [arb(0)] * order, [arb(0)] * (order + 1)
    for k in range(int(min(most, float((a + x).upper()) + 1)) if is_upper else most):
        if not term[0].abs_upper() < largest:
            return None
        if abs(term[0]) <= total[0] * small and (gap := x - (a - k - 1).max(arb(0)) if is_upper else a + k + 1 - x) > 0:
            sizes = arb_series([abs(coefficient) for coefficient in term], prec=order + 1)
            rest = sizes * (1 + x / arb_series([gap, -1], prec=order + 1))
            errors = [rest[i].abs_upper() for i in range(order + 1)]
            if all(error <= total[0] * small for error in errors):
                return arb_series([v + arb(0, e) for v, e in zip(total, errors, strict=True)], prec=order + 1)
        total = [value + coefficient for value, coefficient in zip(total, term, strict=True)]
        previous, place = arb(0), a - k - 1 if is_upper else a + k + 1
        for i, coefficient in enumerate(term):  # multiplied by (place + e)/x, or by x/(place + e)
            term[i] = (coefficient * place + previous) / x if is_upper else (coefficient * x - previous) / place
            previous = coefficient if is_upper else term[i]
    return None


def _at_tiny(x: Ball, value: Ball, slope: Callable[[Ball], Ball]) -> Ball:
    """Return the value of a function that is 0 at 0, with all digits also at tiny x, where terms cancel: there it is x
    times a slope of the function between 0 and x."""
    return value.intersection(x * slope(x.union(arb(0)))) if x.abs_upper() < 2.0**-64 else value


def _orders_of_even(function: Callable[[int, Ball], Ball]) -> Callable[[Ball, Ball], Ball]:
    """Return the derivatives of an even function as a function of their order, also a ball; see `of_order`."""

    def value(order: int, x: Ball) -> Ball:
        at_x = function(order, x)
        return _at_tiny(x, at_x, partial(function, order + 1)) if order % 2 else at_x

    return of_order(value)


def sinc_derivative(order: int, x: Ball) -> Ball:
    """Return the derivative of sin(x)/x of order n: the real part of iⁿ ∫ tⁿ exp(ixt) dt over t from 0 to 1.

    It is evaluated at the midpoint, with an error bound from its derivative, which is at most 1/(n + 2) in size. FLINT
    takes seconds for wide balls.
    """
    return (acb(0, 1) ** order * _moment(order, acb(0, x.mid()))).real + arb(0, x.rad() / (order + 2))


def sinhc_derivative(order: int, x: Ball) -> Ball:
    """Return the derivative of sinh(x)/x of order n: ∫ tⁿ cosh(xt) dt over t from 0 to 1; with sinh in place of cosh
    for odd n.

    It is evaluated at both ends of a ball. Between them it is monotonic, or has its minimum at 0.
    """
    low, high = _hyperbolic_moment(order, x.lower()), _hyperbolic_moment(order, x.upper())
    is_least_inside = order % 2 == 0 and x.contains(0)
    return low.union(high).union(arb(1) / (order + 1)) if is_least_inside else low.union(high)


def _hyperbolic_moment(order: int, x: Ball) -> Ball:
    at_plus, at_minus = (_moment(order, acb(side * x)).real for side in (1, -1))
    return (at_plus - at_minus if order % 2 else at_plus + at_minus) / 2


def _moment(order: int, z: acb) -> acb:
    """∫ tⁿ exp(zt) dt over t from 0 to 1."""
    return z.hypgeom_1f1(order + 1, order + 2) / (order + 1)


def of_order(function: Callable[[int, Ball], Ball]) -> Callable[[Ball, Ball], Ball]:
    """Return a function of the order of a derivative as a ball; nan if that is not an integer from 0 to
    `_MAX_ORDER`."""

    def value(n: Ball, x: Ball) -> Ball:
        order: fmpz | None = ball.unique_integer(n)
        if order is None or not ball.is_integer(n) or not 0 <= order <= _MAX_ORDER:
            return ball.NAN
        return function(int(order), x)

    return value


def faddeeva(x: Ball, y: Ball) -> acb:
    """Return exp(-z²)·erfc(-iz) at z = x + iy."""
    z = acb(x, y)
    return (-z * z).exp() * (z * acb(0, -1)).erfc()


def faddeeva_slope(x: Ball, y: Ball) -> acb:
    """Return the derivative of the Faddeeva function."""
    return acb(0, 2 / arb.pi().sqrt()) - 2 * acb(x, y) * faddeeva(x, y)


def faddeeva_curvature(x: Ball, y: Ball) -> acb:
    """Return the second derivative of the Faddeeva function."""
    return -2 * (faddeeva(x, y) + acb(x, y) * faddeeva_slope(x, y))


def _part(
    part: str, of: Callable[[Ball, Ball], acb], slope: Callable[[Ball, Ball], acb] | None = None
) -> Callable[[Ball, Ball], Ball]:
    """Return the real or imaginary part of a function of x + iy.

    Args:
        part: the name of the part, `real` or `imag`.
        of: the function.
        slope: its slope, if the part is 0 at x = 0.
    """

    def value(x: Ball, y: Ball) -> Ball:
        if not _is_from_zero(y):
            return ball.NAN
        at_x = getattr(of(x, y), part)
        return at_x if slope is None else _at_tiny(x, at_x, lambda x: getattr(slope(x, y), part))

    return value


def fresnels(x: Ball) -> Ball:
    """Return the integral of sin(πt²/2) over t from 0 to x. Between 0 and u < π, sin(u)/u decreases from 1."""
    return _at_tiny(x, x.fresnel_s(), lambda _: arb.pi() / 6 * x * x * (arb.pi() / 2 * x * x).sinc().union(arb(1)))


def softplus(x: Ball) -> Ball:
    """Return log(1 + exp(x))."""
    return logaddexp(x, arb(0))


def logaddexp(x: Ball, y: Ball) -> Ball:
    """Return log(exp(x) + exp(y))."""
    size = abs(x - y)
    return x.max(y) + (arb(0, arb(2) ** -ball.MAX_ARGUMENT_BITS) if size > ball.MAX_ARGUMENT else (-size).exp().log1p())


def sigmoid(x: Ball) -> Ball:
    """Return 1/(1 + exp(-x))."""
    return 1 / (1 + (-x).exp()) if x > 0 else x.exp() / (1 + x.exp())


def _bessel_i(order: Ball, x: Ball) -> Ball:
    if not x > 0:
        return x.bessel_i(order)
    if order >= 0:
        return _at_corners(lambda n, x: x.bessel_i(n), order, x)
    return (acb(0, x).bessel_j(acb(order)) * (acb(order) * acb(-0.5)).exp_pi_i()).real  # bessel_i takes a second


def _bessel_k(order: Ball, x: Ball) -> Ball:
    """Return K at an exact order from 0.

    Next to an integer FLINT loses digits. Since the logarithm of K is convex in the order, its slope there is at most
    that between this integer and the next. Below its asymptotic expansion, FLINT subtracts numbers that are exp(2x)
    times larger. On the real axis it recovers the lost digits by numerical integration, which takes minutes; so they
    are added beforehand, and the argument is a ball around x in the complex plane.
    """
    whole = (order + 0.5).floor()
    if 0 < abs(order - whole) < arb(2) ** -(ctx.prec // 2):
        at_whole = _bessel_k(whole, x)
        growth = (_bessel_k(whole + 1, x) / at_whole) ** abs(order - whole)
        return at_whole * growth.union(1 / growth)
    with ctx.extraprec(3 * int(float(x.upper())) if x < ctx.prec else 0):
        return acb(x, arb(0, x.min(arb(1)) * arb(2) ** (-2 * ctx.prec))).bessel_k(acb(order)).real


def bessel(name: str, function: Callable[[Ball, Ball], Ball]) -> Callable[[Ball, Ball], Ball]:
    """Return a Bessel function of order and x. J and I have values below 0 if the order is an integer."""
    is_entire = name in "ij"

    def value(order: Ball, x: Ball) -> Ball:
        if abs(order) > MAX_BESSEL_ORDER or (x < 0 and not (is_entire and ball.is_integer(order))):
            return ball.NAN
        if not abs(order) <= MAX_BESSEL_ORDER:
            raise Undecided
        if not x.is_zero():
            return function(order, x)
        if is_entire and (order >= 0 or ball.is_integer(order)):
            return arb(1) if order == 0 else arb(0) if order != 0 else arb(0).union(arb(1))
        sign = {"y": -order.cos_pi() if order < 0 else arb(-1), "k": arb(1)}.get(name) or _gamma(order + 1)
        is_split = name != "k" and not (order < 0 or order >= 0)
        if is_split or not (sign > 0 or sign < 0 or sign.is_zero()):
            raise Undecided
        return arb(0) if sign.is_zero() else ball.INF if sign > 0 else ball.NEGATIVE_INF

    return value


def _at_ends(function: Callable[[Ball], Ball]) -> Callable[[Ball], Ball]:
    """Return a function that is monotone far out, where FLINT has digits only for exact arguments."""
    return lambda x: function(x.lower()).union(function(x.upper())) if abs(x) > 1000 else function(x)


def _series_functions(max_terms: int) -> dict[str, Callable[..., Ball]]:
    """Return the functions that may sum a long series, with the most terms that they sum."""
    return {
        "gammainc": incomplete_gamma(partial(_lower_gamma, max_terms)),
        "gammainc_slope": partial(gammainc_derivative, max_terms, 1),
        "gammainc_curvature": partial(gammainc_derivative, max_terms, 2),
    }


# fmt: off
FUNCTIONS: dict[str, Callable[..., Ball]] = {
    "exp": arb.exp, "expm1": arb.expm1, "log": arb.log, "log1p": arb.log1p,
    "log2": lambda x: x.log_base(2), "log10": lambda x: x.log_base(10),
    "sin": arb.sin, "cos": arb.cos, "tan": arb.tan, "cot": arb.cot,
    "asin": arb.asin, "acos": arb.acos, "atan": arb.atan,
    "sinh": arb.sinh, "cosh": arb.cosh, "tanh": arb.tanh,
    "asinh": arb.asinh, "acosh": arb.acosh, "atanh": lambda x: -(-x).atanh() if x < 0 else x.atanh(),
    "atan2": arb.atan2,
    "sigmoid": sigmoid, "logit": lambda x: (x / (1 - x)).log(), "softplus": softplus,
    "logsigmoid": lambda x: -softplus(-x), "logaddexp": logaddexp, "softsign": lambda x: x / (1 + abs(x)),
    "erf": arb.erf, "erfc": _at_ends(arb.erfc), "erfi": arb.erfi, "erfinv": arb.erfinv, "lambertw": arb.lambertw,
    "gamma": _gamma, "lgamma": _lgamma, "digamma": lambda x: polygamma(0, x), "polygamma": of_order(polygamma),
    "beta": beta, "beta_slope": beta_slope, "gamma_density": gamma_density,
    **_series_functions(_MAX_TERMS), "gammaincc": incomplete_gamma(_upper_gamma),
    "besselj": bessel("j", lambda n, x: x.bessel_j(n)), "bessely": bessel("y", lambda n, x: x.bessel_y(n)),
    "besseli": bessel("i", _bessel_i),
    "besselk": bessel("k", lambda n, x: _at_corners(_bessel_k, abs(n), x)),  # it rises with the size of the order
    "wofz_real": _part("real", faddeeva), "wofz_imag": _part("imag", faddeeva, faddeeva_slope),
    "wofz_slope_real": _part("real", faddeeva_slope, faddeeva_curvature),
    "wofz_slope_imag": _part("imag", faddeeva_slope),
    "sinc": arb.sinc, "sinc_derivative": _orders_of_even(sinc_derivative),
    "exp_over_x": lambda x: x.exp() / x, "cosh_over_x": lambda x: x.cosh() / x,
    "sinhc": lambda x: sinhc_derivative(0, x), "sinhc_derivative": _orders_of_even(sinhc_derivative),
    "Ei": _at_ends(arb.ei), "Si": arb.si, "Ci": arb.ci, "Shi": _at_ends(arb.shi), "Chi": _at_ends(arb.chi),
    "fresnels": fresnels, "fresnelc": arb.fresnel_c,
}
# These grow no faster than their arguments and are not periodic, so they can be computed for arguments of any size.
UNLIMITED_ARGUMENT = frozenset((
    "sqrt", "log", "log1p", "log2", "log10", "logit", "asinh", "acosh", "lambertw",
    "atan", "atan2", "softsign", "softplus", "logsigmoid", "logaddexp",
    "lgamma", "digamma", "polygamma",
))
# fmt: on


# --- The table of operations ---


@contextmanager
def precision(bits: int, assume_equal: bool = False) -> Iterator[Kind[Number]]:
    """Set the precision of balls inside a `with` block, and yield the kind of number for it.

    Args:
        bits: the precision of midpoints.
        assume_equal: whether to treat overlapping balls as equal; otherwise comparing them raises `Undecided`.
    """
    with ball.working_precision(bits, assume_equal):
        yield _ball_kind(bits)


@lru_cache(maxsize=64)
def _ball_kind(bits: int) -> Kind[Number]:
    """Return the kind of number for a precision. A kind parses the constants of its rules only once."""
    return Kind(f"balls of {bits} bits", TABLE, parse_constant)


_NAMED_CONSTANTS: dict[str, Callable[[], Number]] = {
    "pi": arb.pi, "tau": lambda: 2 * arb.pi(), "e": arb.const_e, "inf": lambda: ball.INF, "nan": lambda: ball.NAN,
}  # fmt: skip


def parse_constant(constant: str) -> Number:
    """Return the number for the text of a constant, never rounded to a float."""
    named = _NAMED_CONSTANTS.get(constant)
    return _fraction(constant) if named is None else named()


_MAX_FRACTION_EXPONENT = 4000  # power of ten up to which a decimal number is an exact fraction


def _fraction(constant: str) -> Number:
    significand, _, power_of_ten = constant.lower().partition("e")
    integer_digits, _, decimals = significand.partition(".")
    exponent = int(power_of_ten or 0) - len(decimals)
    digits = fmpq(int(integer_digits + decimals or 0))
    if not digits or abs(exponent) <= _MAX_FRACTION_EXPONENT:
        return digits * fmpq(10) ** exponent if digits else ball.ZERO
    return digits * arb(10) ** exponent


def _proven_function(name: str, function: Callable[..., arb]) -> Function:
    """Return a function of balls extended to infinities, poles and points outside its domain, with the values of
    floats.

    The object `NAN` is a valid result; any other nan means that the balls are too wide, and raises Undecided.
    """

    def at(*arguments: Number) -> Number:
        xs = [*arguments] if name in UNLIMITED_ARGUMENT else [*map(ball.limit_argument, arguments)]
        if not all(map(ball.is_finite, xs)):
            z = ball.conventional_value(name, *xs)
            if ball.is_nan(z) and all(map(ball.is_finite, arguments)):
                raise Undecided  # the sine of a number that is too large has a value
            return z
        z = function(*map(ball.as_ball, xs))
        if z is ball.NAN or z.is_finite():
            return z
        if any(_predicate_holds(name, which, xs) for which in ("singular", "vanishes")):
            return ball.conventional_value(name, *xs)
        # Poles of helpers have no predicate. A finite value says only that the precision is too low.
        is_point = get_op(name).is_helper and all(ball.as_ball(x).is_exact() for x in xs)
        if is_point and not ball.is_finite(value := ball.conventional_value(name, *xs)):
            # Floats are infinite also where they overflow. With so many bits, sums of any two floats are exact.
            with ctx.extraprec(1 << 13):
                z = function(*map(ball.as_ball, xs))
            return z if z.is_finite() else value
        if not _predicate_holds(name, "domain", xs, everywhere=True):
            return ball.NAN
        raise Undecided

    return at


def _predicate_holds(name: str, which: str, xs: Sequence[Number], everywhere: bool = False) -> bool:
    """Return whether a predicate of an operation's record is true at a point; `everywhere` if there is no predicate.

    Raises Undecided.
    """
    predicate = _ball_kind(ctx.prec).predicate(get_op(name), which, len(xs))
    return everywhere if predicate is None else ball.is_true(predicate(*xs))


def _exact_sqrt(x: Number) -> Number:
    """Return the square root; an exact fraction for the square of a fraction."""
    if isinstance(x, fmpq) and x >= 0 and x.height_bits() < 4096:
        numerator, denominator = x.p.isqrt(), x.q.isqrt()
        if numerator**2 == x.p and denominator**2 == x.q:
            return fmpq(numerator, denominator)
    return _SQRT(x)


def _hypot(x: Number, y: Number) -> Number:
    """Return the Euclidean length of (x, y)."""
    if not (ball.is_finite(x) and ball.is_finite(y)):
        return ball.conventional_value("hypot", x, y)
    return _exact_sqrt(ball.square(x) + ball.square(y))


_SQRT = _proven_function("sqrt", arb.sqrt)

# fmt: off
TABLE: dict[str, Function] = {
    "add": ball.decided_arithmetic(operator.add), "sub": ball.decided_arithmetic(operator.sub),
    "mul": ball.decided_arithmetic(operator.mul), "neg": operator.neg, "div": ball.divide, "mod": ball.modulo,
    "quotient_slope": lambda x, y: ball.divide(ball.divide(x, y), y),
    "eq": ball.comparison(lambda side: side == 0), "ne": ball.comparison(lambda side: side != 0, of_nan=True),
    "lt": ball.comparison(lambda side: side < 0), "le": ball.comparison(lambda side: side <= 0),
    "gt": ball.comparison(lambda side: side > 0), "ge": ball.comparison(lambda side: side >= 0),
    "and": lambda x, y: fmpq(ball.is_true(x) and ball.is_true(y)),
    "or": lambda x, y: fmpq(ball.is_true(x) or ball.is_true(y)),
    "not": lambda x: fmpq(not ball.is_true(x)),
    "abs": ball.absolute, "sign": ball.sign_of, "floor": ball.FLOOR, "ceil": ball.CEIL, "round": ball.ROUND,
    "where": lambda condition, a, b: a if ball.is_true(condition) else b,
    "max": ball.largest, "min": ball.smallest, "clip": lambda x, low, high: ball.smallest(ball.largest(x, low), high),
    "relu": ball.relu, "heaviside": lambda x: (ball.sign_of(x) + 1) / 2,
    "neighbours_slope": lambda z, below, above: (below - above) / 2 if ball.is_finite(z) or ball.is_nan(z) else -z,
    "where_defined": lambda z, slope: ball.NAN if ball.is_nan(z) else slope,
    "direction": ball.direction,
    "square": ball.square, "sqrt": _exact_sqrt, "cbrt": lambda x: ball.root(x, fmpq(3)),
    "root": ball.root, "hypot": _hypot,
    "pow": ball.power, "pow_slope_base": ball.pow_slope_base, "pow_slope_exponent": ball.pow_slope_exponent,
    "times_log": lambda a, x: ball.NAN if ball.is_nan(x) or x < 0 else TABLE["vanishing_product"](a, TABLE["log"](x)),
    "vanishing_product": ball.vanishing(ball.decided_arithmetic(operator.mul)),
    "vanishing_quotient": ball.vanishing(ball.divide),
    "edge_distance": ball.absolute, "exp2": lambda x: ball.power(fmpq(2), x),
    **{name: _proven_function(name, function) for name, function in FUNCTIONS.items()},
}
# fmt: on


# --- Interval arithmetic ---


@contextmanager
def interval_arithmetic(bits: int) -> Iterator[Kind[Number]]:
    """Set the precision of interval ends inside a `with` block, and yield the kind of number for intervals."""
    with ball.working_precision(bits):
        yield _interval_kind(bits)


@lru_cache(maxsize=8)
def _interval_kind(bits: int) -> Kind[Number]:
    functions = FUNCTIONS | _series_functions(_MAX_WIDE_TERMS)
    table = TABLE | {name: _remember_points(_proven_function(name, function)) for name, function in functions.items()}
    table = {name: _widen(f, _WIDE_RULES.get(name), name in _CONDITION_OPS) for name, f in table.items()}
    table["atan2"] = _with_branch_cut(table["atan2"])
    return Kind(f"intervals with ends of {bits} bits", table, parse_constant)


def _remember_points(function: Function) -> Function:
    """Return a function that remembers its values at exact numbers, which are the same in box after box."""
    known = lru_cache(function)
    return lambda *xs: known(*xs) if all(map(ball.is_exact, xs)) else function(*xs)


class _Jumps:
    """Whether an evaluation may have crossed a jump."""

    is_split = False  # whether a ball contained points on both sides of a possible jump


def reset_jumps() -> None:
    """Reset the record of possible jumps."""
    _Jumps.is_split = False


def has_possible_jump() -> bool:
    """Return whether a ball has contained a point where a function may jump or be undefined, since `reset_jumps`."""
    return _Jumps.is_split


def union(a: Number, b: Number) -> Number:
    """Return a ball that encloses two numbers; nan if one of them is not finite."""
    return ball.as_ball(a).union(ball.as_ball(b)) if ball.is_finite(a) and ball.is_finite(b) else ball.NAN


_EITHER = arb(0.5, 0.5)  # 0 or 1


def _widen(function: Function, wide: Function | None, is_condition: bool) -> Function:
    """Return a function that falls back to `wide` where its arguments are too wide to decide.

    Args:
        is_condition: whether a nan, which may be any number, decides nothing: the first argument of `where`, and any
            argument of comparisons and logical operations.
    """

    def at(*xs: Number) -> Number:
        try:
            if is_condition and any(map(ball.is_nan, xs[:1] if len(xs) > 2 else xs)):
                raise Undecided
            return function(*xs)
        except Undecided:
            _Jumps.is_split = True
            return ball.NAN if wide is None else wide(*xs)

    return at


def _with_branch_cut(atan2: Function) -> Function:
    def at(y: Number, x: Number) -> Number:
        if not (x > 0 or y > 0 or y < 0):
            _Jumps.is_split = True
        return atan2(y, x)

    return at


def _known_truth(condition: Number) -> bool | None:
    try:
        return None if ball.is_nan(condition) else ball.is_true(condition)
    except Undecided:
        return None


def _step(name: str) -> Function:
    """Return the enclosure of a step function over a ball: from its values at both ends, or else x ± 1."""

    def between(x: Number) -> Number:
        low, high = ball.as_ball(x).lower(), ball.as_ball(x).upper()
        try:
            return union(TABLE[name](low), TABLE[name](high)) if ball.is_finite(x) else ball.NAN
        except Undecided:
            return x + arb(0, 1)

    return between


def _remainder(a: Number, b: Number) -> Number:
    """Return an enclosure of a remainder: between 0 and the divisor."""
    return union(ball.ZERO, b) if ball.is_finite(a) and not ball.as_ball(b).contains(0) else ball.NAN


_WIDE_RULES: dict[str, Callable[..., Number]] = {
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "not"), lambda *_: _EITHER), "mod": _remainder,
    **{name: _step(name) for name in ("sign", "heaviside", "floor", "ceil", "round")},
    "and": lambda *sides: ball.ZERO if False in map(_known_truth, sides) else _EITHER,
    "or": lambda *sides: ball.ONE if True in map(_known_truth, sides) else _EITHER,
    "where": lambda _, a, b: union(a, b),
}  # fmt: skip
_CONDITION_OPS = ("eq", "ne", "lt", "le", "gt", "ge", "not", "and", "or", "where")
