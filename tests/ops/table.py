"""One row per operation: what it is, independently of the project, in mpmath; and where to test it.

`value` and `slopes` are textbook formulas, evaluated with 60 digits or more, so that their cancellations do not matter.
`domain` bounds each input; `points` are the special points that are always tested. Errors are measured in units in the
last place of the exact result, or of `terms`, the largest term of its sum, where the result is a sum that cancels.
Results are compared where neither they nor what they are made of leave the range of a float's normal numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mpmath import mp, mpf

from autodiff_cli.ops import get_op

Number = mpf
Interval = tuple[float, float]

HUGE = 1e300
ZERO, ONE = mpf(0), mpf(1)
MAX_ARGUMENT = 2**4096  # of an exponential, whose digits would fill the memory
WIDE = (-HUGE, HUGE)
POSITIVE = (1e-300, HUGE)
SPECIAL = (0.0, 1.0, -1.0, 800.0, -800.0)
# mpmath takes 10 ms or more for a number of these.
# A slope of these is a difference of large terms, which may lose all digits.
CANCELLING_SLOPES = {
    "besseli", "besselj", "besselk", "bessely", "beta_logpdf", "beta_slope", "cauchy_logpdf", "exponential_logpdf",
    "gamma_density", "gamma_logpdf", "gammainc_curvature", "gammainc_slope", "half_cauchy_logpdf",
    "half_normal_logpdf", "lognormal_logpdf", "normal_logpdf", "student_t_logpdf", "student_t_pdf", "uniform_logpdf",
    "voigt", "wofz_slope_imag", "wofz_slope_real",
}  # fmt: skip
COSTLY = {"gammainc", "gammaincc", "gammainc_slope", "gammainc_curvature", "wofz_real", "wofz_imag", "voigt"}


@dataclass(frozen=True, eq=False)
class Row:
    """An operation's reference."""

    name: str
    value: Callable[..., Number]
    slopes: Sequence[Callable[..., Number] | None]
    domain: Sequence[Interval] = (WIDE,)
    points: Sequence[tuple[float, ...]] = ()
    terms: Callable[..., Number] | None = None
    slope_terms: Callable[..., Number] | None = None  # of the slopes, where theirs are others

    @property
    def bound(self) -> float:
        """The largest error allowed for value and slopes: the one that the operation's own record promises."""
        return get_op(self.name).ulp_bound


def phi(x: Number) -> Number:
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def cdf(x: Number) -> Number:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def sig(x: Number) -> Number:
    return 1 / (1 + mp.exp(-x))


def softplus(x: Number) -> Number:
    return mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x))


def floor_quotient(a: Number, b: Number) -> Number:
    return mp.floor(a / b)


def _power_series(n: int, x: Number, sign: int) -> Number:
    """The n-th derivative of the sum of (sign x²)^k/(2k + 1)!, up to the first negligible term."""
    first = (n + 1) // 2
    power = mpf(sign) ** first * (x if n % 2 else mpf(1))
    total = mpf(0)
    for k in range(first, first + 200):
        term = power / (2 * k + 1)
        total += term
        if abs(term) <= mp.eps * abs(total) / 1000:
            break
        power *= sign * x * x / ((2 * k - n + 1) * (2 * k - n + 2))
    return total


def sinc_n(n: int, x: Number) -> Number:
    """The n-th derivative of sinc: the integral of t^n cos(xt + nπ/2) from 0 to 1, by its power series in x."""
    if abs(x) > 30:  # far out by x s_n + n s_(n-1) = sin(x + nπ/2)
        value = mp.sin(x) / x
        for k in range(1, n + 1):
            value = (mp.sin(x + k * mp.pi / 2) - k * value) / x
        return value
    return _power_series(n, x, -1)


def sinhc_n(n: int, x: Number) -> Number:
    """The n-th derivative of sinh(x)/x, as that of sinc."""
    if abs(x) > 30:
        value = mp.sinh(x) / x
        for k in range(1, n + 1):
            value = ((mp.cosh(x) if k % 2 else mp.sinh(x)) - k * value) / x
        return value
    return _power_series(n, x, 1)


def psi(n: int, x: Number) -> Number:
    return mp.polygamma(int(n), x)


def beta_slope(a: Number, b: Number) -> Number:
    return mp.beta(a, b) * (psi(0, a) - psi(0, a + b))


def gamma_density(a: Number, x: Number) -> Number:
    return x ** (a - 1) * mp.exp(-x) / mp.gamma(a)


def incomplete_gamma(a: Number, low: Number, high: Number) -> Number:
    return mp.nan if a < 0 or low < 0 or high < 0 else mp.gammainc(a, low, high, regularized=True)


def shape_derivative(n: int, a: Number, x: Number) -> Number:
    """The n-th derivative of gammainc(a, x) with respect to a, by the terms of its power series, for x up to 1e4."""
    if a < 0 or x < 0:
        return mp.nan
    if x > 1e4:
        raise ValueError("as many digits as x cancel")
    with mp.extradps(30 + int(x / 2)):  # what cancels is up to exp(x) times the sum
        term, first, second = x**a * mp.exp(-x) / mp.gamma(a + 1), mp.log(x) - psi(0, a + 1), psi(1, a + 1)
        total, added, k, rest = mpf(0), mpf(1), 1, mpf(10) ** -mp.dps
        while k < 10 + x or abs(added) > rest * abs(total):
            added = term * (first if n == 1 else first**2 - second)
            total += added
            first, second, term = first - 1 / (a + k), second - 1 / (a + k) ** 2, term * x / (a + k)
            k += 1
        return total


def shape_slope(n: int, a: Number, x: Number) -> Number:
    """The n-th derivative of `gamma_density` with respect to a."""
    if a == 0:
        return mp.exp(-x) / x * (1 if n == 1 else 2 * (mp.log(x) - psi(0, ONE)))
    excess = mp.log(x) - psi(0, a)
    return gamma_density(a, x) * (excess if n == 1 else excess**2 - psi(1, a))


def weibull(x: Number, k: Number, scale: Number) -> tuple[Number, Number, Number]:
    """(x/scale)^k, the share beyond x and the density."""
    if k <= 0 or scale <= 0:
        return mp.nan, mp.nan, mp.nan
    if x < 0:
        return ZERO, ONE, ZERO
    power = (x / scale) ** k
    beyond = mp.exp(-power) if power < MAX_ARGUMENT else ZERO
    return power, beyond, k / scale * (x / scale) ** (k - 1) * beyond


def weibull_slopes(x: Number, k: Number, scale: Number) -> tuple[Number, Number, Number]:
    """The slopes of the logarithm of the density."""
    power, log = (x / scale) ** k, mp.log(x / scale)
    return (k - 1 - k * power) / x, 1 / k + log - power * log, k / scale * (power - 1)


def student_t(x: Number, nu: Number, mean: Number = ZERO, scale: Number = ONE) -> Number:
    u = (x - mean) / scale
    factor = mp.gamma((nu + 1) / 2) / mp.gamma(nu / 2) / mp.sqrt(nu * mp.pi) / scale
    return factor * (1 + u * u / nu) ** (-(nu + 1) / 2)


def student_t_slopes(
    x: Number, nu: Number, mean: Number = ZERO, scale: Number = ONE
) -> tuple[Number, Number, Number, Number]:
    """The slopes of the logarithm of the density."""
    u = (x - mean) / scale
    pull = (nu + 1) * u / (nu + u * u)
    by_nu = (psi(0, (nu + 1) / 2) - psi(0, nu / 2) - 1 / nu - mp.log1p(u * u / nu) + pull * u / nu) / 2
    return -pull / scale, by_nu, pull / scale, (pull * u - 1) / scale


def bessel_terms(kind: str, n: Number, x: Number) -> Number:
    """The largest number of the recurrence, and for J and Y, which oscillate, of both functions."""
    if kind in "ik":
        return max(abs(getattr(mp, f"bessel{kind}")(order, x)) for order in (n - 1, n, n + 1))
    oscillates = abs(x) > abs(n) - 1
    functions = (mp.besselj, mp.bessely) if oscillates and x > 0 else (mp.besselj if kind == "j" else mp.bessely,)
    return max(abs(of(order, x)) for of in functions for order in (n - 1, n, n + 1))


def natural_spline(x: Number, *pairs: Number) -> Number:
    """The natural cubic spline: a straight line and multiples of max(x - knot, 0)^3, without bend beyond the knots."""
    knots, values = pairs[::2], pairs[1::2]
    if any(right <= left for left, right in pairwise(knots)):
        return mp.nan
    rows = [[1, t, *(max(t - knot, 0) ** 3 for knot in knots)] for t in knots]
    rows += [[0, 0, *(knot**power for knot in knots)] for power in (0, 1)]
    line, slope, *cubes = mp.lu_solve(mp.matrix(rows), mp.matrix([*values, 0, 0]))
    return line + slope * x + mp.fsum(c * max(x - knot, 0) ** 3 for c, knot in zip(cubes, knots, strict=True))


def spline_slope(k: int, *at: Number) -> Number:
    """The slope towards one argument, by a difference, to 70 digits."""
    with mp.workdps(150):
        step = mpf(10) ** -40
        moved = [natural_spline(*at[:k], at[k] + side * step, *at[k + 1 :]) for side in (-1, 1)]
        return (moved[1] - moved[0]) / (2 * step)


def faddeeva(x: Number, y: Number) -> Number:
    z = mp.mpc(x, y)
    if abs(x) > 1e20 and y >= 0:  # the asymptotic series, DLMF 7.12.1, which keeps the digits of a small y
        series = mp.one
        for k in range(2 + mp.dps // 40, 0, -1):
            series = 1 + (2 * k - 1) / (2 * z * z) * series
        return mp.exp(-x * x) + 1j * series / (mp.sqrt(mp.pi) * z)
    with mp.extradps(20 + max(0, -mp.mag(x) // 3) if x else 20):  # its imaginary part is as small as x
        return mp.exp(-z * z) * mp.erfc(-1j * z)


def faddeeva_slope(x: Number, y: Number) -> Number:
    with mp.extradps(40):
        return 2j / mp.sqrt(mp.pi) - 2 * mp.mpc(x, y) * faddeeva(x, y)


def reduced(x: Number, s: Number, g: Number) -> tuple[Number, Number]:
    return x / (s * mp.sqrt(2)), g / (s * mp.sqrt(2))


def voigt(x: Number, s: Number, g: Number) -> Number:
    if s < 0 or g < 0:
        return mp.nan
    if s == 0:
        return g / (x * x + g * g) / mp.pi
    return mp.re(faddeeva(*reduced(x, s, g))) / (s * mp.sqrt(2 * mp.pi))


def voigt_pull(x: Number, s: Number, g: Number) -> Number:
    return mp.re(mp.mpc(*reduced(x, s, g)) * faddeeva_slope(*reduced(x, s, g))) / (s * mp.sqrt(2 * mp.pi))


def times_log(a: Number, x: Number) -> Number:
    return a * mp.log(x) if a else ZERO


# The log-densities in their supports, and the ranges of their inputs.
LOG_DENSITIES: dict[str, tuple[Callable[..., Number], Sequence[Interval]]] = {
    "normal": (lambda x, m, s: mp.log(phi((x - m) / s) / s), ((-50.0, 50.0), (-50.0, 50.0), (0.1, 50.0))),
    "lognormal": (lambda x, m, s: mp.log(phi((mp.log(x) - m) / s) / s / x), ((1e-9, 1e9), (-9.0, 9.0), (0.1, 9.0))),
    "student_t": (lambda *at: mp.log(student_t(*at)), ((-50.0, 50.0), (0.3, 60.0), (-3.0, 3.0), (0.5, 5.0))),
    "cauchy": (lambda x, m, s: -mp.log(mp.pi * s * (1 + ((x - m) / s) ** 2)), ((-1e9, 1e9), (-9.0, 9.0), (0.1, 50.0))),
    "half_normal": (lambda x, s: mp.log(2 * phi(x / s) / s), ((0.0, 50.0), (0.1, 50.0))),
    "half_cauchy": (lambda x, s: -mp.log(mp.pi / 2 * s * (1 + (x / s) ** 2)), ((0.0, 1e9), (0.1, 50.0))),
    "exponential": (lambda x, rate: mp.log(rate) - rate * x, ((0.0, 50.0), (0.1, 50.0))),
    "gamma": (
        lambda x, k, rate: times_log(k - 1, x) + k * mp.log(rate) - rate * x - mp.log(mp.gamma(k)),
        ((0.01, 50.0), (0.1, 50.0), (0.1, 50.0)),
    ),
    "beta": (
        lambda x, a, b: times_log(a - 1, x) + times_log(b - 1, 1 - x) - mp.log(mp.beta(a, b)),
        ((0.01, 0.99), (0.1, 50.0), (0.1, 50.0)),
    ),
    "uniform": (lambda x, low, high: -mp.log(high - low), ((-1.0, 1.0), (-5.0, -1.0), (1.0, 5.0))),
}


def partial_slope(value: Callable[..., Number], k: int) -> Callable[..., Number]:
    """The slope towards the k-th input, by a difference quotient of 60 digits."""

    def slope(*at: Number) -> Number:
        with mp.workdps(150):
            step = mpf(10) ** -70
            above, below = ((*at[:k], at[k] + side, *at[k + 1 :]) for side in (step, -step))
            return (value(*above) - value(*below)) / (2 * step)

    return slope


def slope_of(density: Callable[..., Number], slopes: Callable[..., Sequence[Number]], k: int) -> Callable[..., Number]:
    return lambda *at: density(*at) * slopes(*at)[k]


def arc(x: Number) -> Number:
    return mp.pi * x * x / 2


def at(*xs: float) -> tuple[tuple[float], ...]:
    return tuple((x,) for x in xs)


with mp.workdps(200):
    SELU_ALPHA = mpf("1.6732632423543772848170429916717")
    SELU_SCALE = mpf("1.0507009873554804934193349852946")

ROWS: tuple[Row, ...] = (
    # --- arithmetic
    Row("add", lambda x, y: x + y, (lambda x, y: 1, lambda x, y: 1), (WIDE, WIDE)),
    Row("sub", lambda x, y: x - y, (lambda x, y: 1, lambda x, y: -1), (WIDE, WIDE)),
    Row("mul", lambda x, y: x * y, (lambda x, y: y, lambda x, y: x), ((-1e150, 1e150), (-1e150, 1e150))),
    Row("div", lambda x, y: x / y, (lambda x, y: 1 / y, lambda x, y: -x / y**2), ((-1e100, 1e100), (1e-100, 1e100))),
    Row("neg", lambda x: -x, (lambda x: -1,), points=at(0.0)),
    Row(
        "mod",
        lambda a, b: a - b * mp.floor(a / b),
        (lambda a, b: 1, lambda a, b: -mp.floor(a / b)),
        ((-1e6, 1e6), (0.01, 100.0)),
        points=((7.0, 3.0), (-7.0, 3.0), (7.0, -3.0), (-7.5, -2.0), (0.3, 0.1)),
    ),
    Row("abs", abs, (mp.sign,), points=at(*SPECIAL)),
    Row("sign", mp.sign, (lambda x: 0,), points=at(*SPECIAL)),
    Row("floor", mp.floor, (lambda x: 0,), points=at(-0.5, 0.5, 2.0, 1e300)),
    Row("ceil", mp.ceil, (lambda x: 0,), points=at(-0.5, 0.5, 2.0, 1e300)),
    Row("round", mp.nint, (lambda x: 0,), points=at(-0.5, 0.5, 1.5, 2.5, -1.5, -2.5, 0.4999999999999999, 1e300)),
    *(
        Row(
            name,
            value,
            (lambda x, y: 0, lambda x, y: 0),
            ((-10.0, 10.0), (-10.0, 10.0)),
            points=((1.0, 1.0), (0.0, 0.0), (0.0, 1.0)),
        )
        for name, value in (
            ("eq", lambda x, y: int(x == y)),
            ("ne", lambda x, y: int(x != y)),
            ("lt", lambda x, y: int(x < y)),
            ("le", lambda x, y: int(x <= y)),
            ("gt", lambda x, y: int(x > y)),
            ("ge", lambda x, y: int(x >= y)),
            ("and", lambda x, y: int(x != 0 and y != 0)),
            ("or", lambda x, y: int(x != 0 or y != 0)),
        )
    ),
    Row("not", lambda x: int(x == 0), (lambda x: 0,), points=at(*SPECIAL)),
    # --- choices
    Row(
        "where",
        lambda c, a, b: a if c else b,
        (lambda c, a, b: 0, lambda c, a, b: int(c != 0), lambda c, a, b: int(c == 0)),
        ((-1.0, 1.0), WIDE, WIDE),
        points=((0.0, 2.0, 3.0), (1.0, 2.0, 3.0)),
    ),
    Row(
        "max",
        lambda *xs: max(xs),
        [lambda *xs, k=k: share(max(xs), xs, k) for k in range(3)],
        (WIDE,) * 3,
        points=((1.0, 1.0, 0.0), (2.0, 2.0, 2.0), (3.0, 1.0, 2.0), (0.0, -0.0, -1.0)),
    ),
    Row(
        "min",
        lambda *xs: min(xs),
        [lambda *xs, k=k: share(min(xs), xs, k) for k in range(3)],
        (WIDE,) * 3,
        points=((1.0, 1.0, 3.0), (2.0, 2.0, 2.0), (3.0, 1.0, 2.0)),
    ),
    Row(
        "clip",
        lambda x, lo, hi: min(max(x, lo), hi),
        (lambda x, lo, hi: int(lo < x < hi), lambda x, lo, hi: int(x < lo), lambda x, lo, hi: int(x > hi)),
        (WIDE, (-5.0, 0.0), (0.5, 5.0)),
        points=((1.0, 0.0, 2.0), (0.0, 0.0, 2.0), (2.0, 0.0, 2.0), (-3.0, 0.0, 2.0), (9.0, 0.0, 2.0)),
    ),
    Row("relu", lambda x: max(x, 0), (lambda x: int(x > 0),), points=at(*SPECIAL)),
    Row("heaviside", lambda x: (mp.sign(x) + 1) / 2, (lambda x: 0,), points=at(*SPECIAL)),
    # --- powers, exponentials, logarithms
    Row("square", lambda x: x * x, (lambda x: 2 * x,), ((-1e150, 1e150),), points=at(*SPECIAL)),
    Row("sqrt", mp.sqrt, (lambda x: 1 / (2 * mp.sqrt(x)),), (POSITIVE,), points=at(1.0, 800.0, 5e-324)),
    Row(
        "cbrt",
        lambda x: mp.sign(x) * mp.cbrt(abs(x)),
        (lambda x: 1 / (3 * mp.cbrt(abs(x)) ** 2),),
        (POSITIVE,),
        points=at(1.0, -1.0, -8.0, 800.0, -0.23013829272269604, 9007199254740990.0, 1e-305),
    ),
    Row("exp", mp.exp, (mp.exp,), ((-700.0, 700.0),), points=at(*SPECIAL)),
    Row("exp2", lambda x: mpf(2) ** x, (lambda x: mpf(2) ** x * mp.log(2),), ((-1000.0, 1000.0),), points=at(*SPECIAL)),
    Row("expm1", mp.expm1, (mp.exp,), ((-700.0, 700.0),), points=at(0.0, 1e-20, -800.0, 1.0)),
    Row("log", mp.log, (lambda x: 1 / x,), (POSITIVE,), points=at(1.0, 800.0)),
    Row("log2", lambda x: mp.log(x) / mp.log(2), (lambda x: 1 / (x * mp.log(2)),), (POSITIVE,), points=at(1.0, 8.0)),
    Row("log10", mp.log10, (lambda x: 1 / (x * mp.log(10)),), (POSITIVE,), points=at(1.0, 1000.0)),
    Row(
        "log1p",
        lambda x: mp.log1p(x) if x else mpf(0),
        (lambda x: 1 / (1 + x),),
        ((-0.999, 1e300),),
        points=at(0.0, 1e-20, -1e-20, 1.0),
    ),
    Row(
        "log_base",
        lambda x, b: mp.log(x) / mp.log(b),
        (lambda x, b: 1 / (x * mp.log(b)), lambda x, b: -mp.log(x) / (b * mp.log(b) ** 2)),
        (POSITIVE, (1.0001, 1e6)),
        points=((8.0, 2.0), (1000.0, 10.0), (0.3, 0.1), (2.0, 1e-300)),
    ),
    Row(
        "pow",
        lambda x, y: x**y,
        (lambda x, y: y * x ** (y - 1), lambda x, y: x**y * mp.log(x)),
        ((1e-3, 1e3), (-40.0, 40.0)),
        points=((2.0, 10.0), (2.0, 0.5), (1.0, 5.0), (1e-200, 1.5), (207.6, -127.3), (0.0048, 0.3)),
    ),
    Row(
        "root",
        lambda x, n: x ** (1 / n),
        (lambda x, n: x ** (1 / n - 1) / n, lambda x, n: -(x ** (1 / n)) * mp.log(x) / n**2),
        ((1e-300, 1e300), (1.0, 40.0)),
        points=((8.0, 3.0), (2.0, 2.0), (10.1, 0.0159), (3.0, -7.0), (7.0, 1e9)),
    ),
    Row(
        "hypot",
        lambda x, y: mp.hypot(x, y),
        (lambda x, y: x / mp.hypot(x, y), lambda x, y: y / mp.hypot(x, y)),
        ((1e-300, 1e300), WIDE),
        points=((3.0, 4.0), (1e-200, 1e-200), (1e300, -1e300)),
    ),
    # --- trigonometric
    Row("sin", mp.sin, (mp.cos,), points=at(*SPECIAL)),
    Row("cos", mp.cos, (lambda x: -mp.sin(x),), points=at(*SPECIAL)),
    Row("tan", mp.tan, (lambda x: 1 / mp.cos(x) ** 2,), points=at(*SPECIAL)),
    Row("sec", mp.sec, (lambda x: mp.sec(x) * mp.tan(x),), points=at(*SPECIAL)),
    Row("csc", mp.csc, (lambda x: -mp.csc(x) * mp.cot(x),), (POSITIVE,), points=at(1.0, -1.0, 800.0)),
    Row("cot", mp.cot, (lambda x: -(mp.csc(x) ** 2),), (POSITIVE,), points=at(1.0, -1.0, 800.0)),
    Row(
        "asin",
        mp.asin,
        (lambda x: 1 / mp.sqrt(1 - x * x),),
        ((-1 + 1e-15, 1 - 1e-15),),
        points=at(0.0, 0.999999999, -0.999999999),
    ),
    Row("acos", mp.acos, (lambda x: -1 / mp.sqrt(1 - x * x),), ((-1 + 1e-15, 1 - 1e-15),), points=at(0.0, 0.999999999)),
    Row("atan", mp.atan, (lambda x: 1 / (1 + x * x),), points=at(*SPECIAL)),
    Row(
        "asec",
        mp.asec,
        (lambda x: 1 / (abs(x) * mp.sqrt(x * x - 1)),),
        ((1 + 1e-15, 1e150),),
        points=at(2.0, -2.0, 1.0000001),
    ),
    Row(
        "acsc",
        mp.acsc,
        (lambda x: -1 / (abs(x) * mp.sqrt(x * x - 1)),),
        ((1 + 1e-15, 1e150),),
        points=at(2.0, -2.0, 1.0000001),
    ),
    Row("acot", lambda x: mp.atan(1 / x), (lambda x: -1 / (1 + x * x),), (POSITIVE,), points=at(1.0, -1.0, 800.0)),
    Row(
        "atan2",
        mp.atan2,
        (lambda y, x: x / (x * x + y * y), lambda y, x: -y / (x * x + y * y)),
        ((-1e300, 1e300), POSITIVE),
        points=((1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (1e200, 1e200), (1e-200, -1e-200)),
    ),
    # --- hyperbolic
    Row("sinh", mp.sinh, (mp.cosh,), ((-700.0, 700.0),), points=at(0.0, 1.0, -1.0)),
    Row("cosh", mp.cosh, (mp.sinh,), ((-700.0, 700.0),), points=at(0.0, 1.0, -1.0)),
    Row("tanh", mp.tanh, (lambda x: mp.sech(x) ** 2,), ((-354.0, 354.0),), points=at(0.0, 1.0, -1.0, 20.0)),
    Row("sech", mp.sech, (lambda x: -mp.sech(x) * mp.tanh(x),), ((-700.0, 700.0),), points=at(0.0, 1.0, -1.0)),
    Row("csch", mp.csch, (lambda x: -mp.csch(x) * mp.coth(x),), ((1e-100, 700.0),), points=at(1.0, -1.0)),
    Row("coth", mp.coth, (lambda x: -(mp.csch(x) ** 2),), ((1e-100, 350.0),), points=at(1.0, -1.0)),
    Row("asinh", mp.asinh, (lambda x: 1 / mp.sqrt(1 + x * x),), points=at(*SPECIAL)),
    Row("acosh", mp.acosh, (lambda x: 1 / mp.sqrt(x * x - 1),), ((1 + 1e-15, HUGE),), points=at(800.0, 1.0000001)),
    Row("atanh", mp.atanh, (lambda x: 1 / (1 - x * x),), ((-1 + 1e-15, 1 - 1e-15),), points=at(0.0, 0.999999999)),
    Row(
        "asech",
        mp.asech,
        (lambda x: -1 / (x * mp.sqrt(1 - x * x)),),
        ((1e-150, 1 - 1e-15),),
        points=at(0.5, 0.999999999),
    ),
    Row(
        "acsch",
        lambda x: mp.asinh(1 / x),
        (lambda x: -1 / (abs(x) * mp.sqrt(1 + x * x)),),
        ((1e-150, 1e150),),
        points=at(1.0, -1.0, 800.0),
    ),
    Row("acoth", mp.acoth, (lambda x: 1 / (1 - x * x),), ((1 + 1e-15, 1e150),), points=at(2.0, -2.0, 1.0000001)),
    # --- error functions, the normal distribution, sinc
    Row("erf", mp.erf, (lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x),), ((-26.0, 26.0),), points=at(0.0, 1.0, -1.0)),
    Row(
        "erfc", mp.erfc, (lambda x: -2 / mp.sqrt(mp.pi) * mp.exp(-x * x),), ((-26.0, 26.0),), points=at(0.0, 1.0, -1.0)
    ),
    Row(
        "normal_pdf",
        lambda x, m, s: phi((x - m) / s) / s if s > 0 else mp.nan,
        (
            lambda x, m, s: (m - x) / s**3 * phi((x - m) / s),
            lambda x, m, s: (x - m) / s**3 * phi((x - m) / s),
            lambda x, m, s: (((x - m) / s) ** 2 - 1) / s**2 * phi((x - m) / s),
        ),
        ((-8.0, 8.0), (-8.0, 8.0), (0.5, 50.0)),
        points=((0.0, 0.0, 1.0), (1.0, 2.0, 3.0)),
        slope_terms=lambda x, m, s: (((x - m) / s) ** 2 + 1) / s**2 * phi((x - m) / s),
    ),
    Row("normal_pdf", phi, (lambda x: -x * phi(x),), ((-37.5, 37.5),), points=at(0.0, 1.0, -1.0, 800.0)),
    Row(
        "normal_cdf",
        lambda x, m, s: cdf((x - m) / s) if s > 0 else mp.nan,
        (
            lambda x, m, s: phi((x - m) / s) / s,
            lambda x, m, s: -phi((x - m) / s) / s,
            lambda x, m, s: (m - x) / s**2 * phi((x - m) / s),
        ),
        ((-8.0, 8.0), (-8.0, 8.0), (0.5, 50.0)),
        points=((0.0, 0.0, 1.0), (1.0, 2.0, 3.0)),
    ),
    Row("normal_cdf", cdf, (phi,), ((-37.5, 37.5),), points=at(0.0, 1.0, -1.0, 800.0)),
    Row("normal_sf", lambda x: cdf(-x), (lambda x: -phi(x),), ((-37.5, 37.5),), points=at(0.0, 1.0, -1.0, 800.0)),
    Row(
        "normal_sf",
        lambda x, m, s: cdf((m - x) / s) if s > 0 else mp.nan,
        (
            lambda x, m, s: -phi((x - m) / s) / s,
            lambda x, m, s: phi((x - m) / s) / s,
            lambda x, m, s: (x - m) / s**2 * phi((x - m) / s),
        ),
        ((-8.0, 8.0), (-8.0, 8.0), (0.5, 50.0)),
        points=((0.0, 0.0, 1.0), (1.0, 2.0, 3.0)),
    ),
    Row(
        "weibull_pdf",
        lambda x, k, s: weibull(x, k, s)[2],
        tuple(slope_of(lambda *at: weibull(*at)[2], weibull_slopes, k) for k in range(3)),
        ((0.01, 9.0), (0.1, 9.0), (0.5, 5.0)),
        slope_terms=lambda x, k, s: (1 + k) * (1 + 1 / x + 1 / k) * (1 + weibull(x, k, s)[0]) * weibull(x, k, s)[2],
    ),
    *(
        Row(
            name,
            value,
            (
                lambda x, k, s, sign=sign: sign * weibull(x, k, s)[2],
                lambda x, k, s, sign=sign: sign * weibull(x, k, s)[2] * mp.log(x / s) * x / k,
                lambda x, k, s, sign=sign: -sign * weibull(x, k, s)[2] * x / s,
            ),
            ((0.01, 9.0), (0.1, 9.0), (0.5, 5.0)),
            slope_terms=lambda x, k, s: (1 + x / k) * weibull(x, k, s)[2],
        )
        for name, value, sign in (
            ("weibull_cdf", lambda x, k, s: -mp.expm1(-weibull(x, k, s)[0]), 1),
            ("weibull_sf", lambda x, k, s: weibull(x, k, s)[1], -1),
        )
    ),
    Row(
        "student_t_pdf",
        student_t,
        tuple(slope_of(student_t, student_t_slopes, k) for k in range(4)),
        ((-50.0, 50.0), (0.3, 60.0), (-3.0, 3.0), (0.5, 5.0)),
        points=((0.0, 1.0, 0.0, 1.0), (2.0, 4.0, 1.0, 2.0)),
        slope_terms=lambda *at: student_t(*at) * (1 + 1 / at[1]),
    ),
    Row(
        "student_t_pdf",
        student_t,
        tuple(slope_of(student_t, student_t_slopes, k) for k in range(2)),
        ((-1e3, 1e3), (0.3, 60.0)),
        slope_terms=lambda *at: student_t(*at) * (1 + 1 / at[1]),
    ),
    *(
        Row(
            f"{name}_logpdf",
            value,
            tuple(partial_slope(value, k) for k in range(len(domain))),
            domain,
            terms=lambda x, *rest: 1 + sum(map(abs, rest)) * (1 + abs(mp.log(abs(x) or 1))) + x * x,
            slope_terms=lambda x, *rest: 1 + sum(map(abs, rest)) + 1 / (abs(x) or 1),
        )
        for name, (value, domain) in LOG_DENSITIES.items()
    ),
    Row("normal_logpdf", lambda x: mp.log(phi(x)), (lambda x: -x,), ((-50.0, 50.0),), at(*SPECIAL)),
    Row(
        "cauchy_logpdf",
        lambda x: -mp.log(mp.pi * (1 + x * x)),
        (lambda x: -2 * x / (1 + x * x),),
        ((-1e150, 1e150),),
        points=at(*SPECIAL),
    ),
    *(
        Row(
            name,
            lambda x, y, part=part: part(faddeeva(x, y)),
            (
                lambda x, y, part=part: part(faddeeva_slope(x, y)),
                lambda x, y, part=part: part(1j * faddeeva_slope(x, y)),
            ),
            domain,
            points=((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (-3.0, 1e-9), (1e-9, 0.5), (6.3, 1e-6), (1e9, 2.0)),
            terms=lambda x, y, name=name: 0 if name == "wofz_real" else abs(faddeeva(x, y)) * min(1, abs(x)),
            slope_terms=lambda x, y: mpf(2),  # printed derivatives are differences of numbers around 1
        )
        for name, part in (("wofz_real", mp.re), ("wofz_imag", mp.im))
        for domain in (((-20.0, 20.0), (0.0, 20.0)), ((-1e6, 1e6), (0.0, 1e6)))
    ),
    Row(
        "voigt",
        voigt,
        (
            lambda x, s, g: mp.re(faddeeva_slope(*reduced(x, s, g))) / (2 * mp.sqrt(mp.pi) * s * s),
            lambda x, s, g: -(voigt(x, s, g) + voigt_pull(x, s, g)) / s,
            lambda x, s, g: mp.re(1j * faddeeva_slope(*reduced(x, s, g))) / (2 * mp.sqrt(mp.pi) * s * s),
        ),
        ((-20.0, 20.0), (0.2, 5.0), (0.0, 5.0)),
        points=((0.0, 1.0, 0.0), (1.0, 2.0, 0.5)),
        slope_terms=lambda x, s, g: (1 + abs(x) / s) ** 2 * voigt(x, s, g) / s,
    ),
    Row(
        "sinc",
        lambda x: sinc_n(0, x),
        (lambda x: sinc_n(1, x),),
        ((-1e6, 1e6),),
        points=at(0.0, 1e-5, 1e-300, 1.0, -1.0, 800.0),
        terms=lambda x: 1 / max(1, abs(x)),
    ),
    Row(
        "sinc_derivative",
        lambda n, x: sinc_n(int(n), x),
        (None, lambda n, x: sinc_n(int(n) + 1, x)),
        ((2.0, 2.0), (-1e4, 1e4)),
        points=((1.0, 0.0), (2.0, 1e-5), (3.0, 1.0), (5.0, -6.5), (8.0, 3.0)),
        terms=lambda n, x: 1 / max(1, abs(x)),
    ),
    Row(
        "erfi",
        mp.erfi,
        (lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(x * x),),
        ((-26.5, 26.5),),
        points=at(*SPECIAL, 1e-300, 26.6),
    ),
    Row(
        "erfinv",
        mp.erfinv,
        (lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(mp.erfinv(x) ** 2),),
        ((-1 + 1e-15, 1 - 1e-15),),
        points=at(0.0, 1e-300, 0.5, -0.999999999),
    ),
    Row(
        "lambertw",
        lambda x: mp.re(mp.lambertw(x)),
        (lambda x: 1 / (mp.exp(mp.lambertw(x)) * (1 + mp.lambertw(x))),),
        ((-0.367879441, 1e300),),
        points=at(0.0, 1e-300, 1.0, 3.0, 800.0, -0.25, -0.3678794411714, math.e),
    ),
    # --- the gamma family
    Row(
        "gamma",
        mp.gamma,
        (lambda x: mp.gamma(x) * psi(0, x),),
        ((1e-300, 170.0),),
        points=at(1.0, 2.0, 0.5, -0.5, -1.5, -7.25, -100.5, -1e-300, 800.0),
    ),
    Row(
        "lgamma",
        lambda x: mp.re(mp.loggamma(x)),
        (lambda x: psi(0, x),),
        ((1e-300, 1e300),),
        points=at(1.0, 2.0, 1.0000001, 1.9999999, 0.5, 3.5, 9.9, 800.0, -0.5, -2.5, -7.25, -800.3, -1e-300),
        terms=lambda x: 1 if x < 0 else 0,
    ),
    Row(
        "digamma",
        lambda x: psi(0, x),
        (lambda x: psi(1, x),),
        ((1e-150, 1e150),),
        points=at(1.0, 1.4616, 1.5, 2.0, 800.0, -0.5, -2.5, -7.25, -800.3, -1e-100),
        terms=lambda x: 1 if x < 0 else 0,
    ),
    *(
        Row(
            f"bessel{kind}",
            lambda n, x, of=of: of(n, x),
            (None, lambda n, x, of=of, a=a, b=b: (a * of(n - 1, x) + b * of(n + 1, x)) / 2),
            ((-8.0, 40.0), (0.05, 60.0)),
            points=((0.0, 1.0), (2.0, 0.5), (0.5, 3.0), (-1.0, 2.0), (3.0, 200.0), (2.5, 1e-9)),
            terms=lambda n, x, kind=kind: bessel_terms(kind, n, x),
        )
        for kind, of, a, b in (
            ("j", mp.besselj, 1, -1),
            ("y", mp.bessely, 1, -1),
            ("i", mp.besseli, 1, 1),
            ("k", mp.besselk, -1, -1),
        )
    ),
    Row(
        "spline",
        natural_spline,
        [lambda *at, k=k: spline_slope(k, *at) for k in range(7)],
        ((-3.0, 5.0), (-2.0, -1.0), (-5.0, 5.0), (0.0, 1.0), (-5.0, 5.0), (2.0, 3.0), (-5.0, 5.0)),
        points=((0.0, 0.0, 1.0, 1.0, 2.0, 2.0, -1.0), (1.0, 0.0, 1.0, 1.0, 2.0, 2.0, -1.0)),
        terms=lambda *at: 100 * (1 + abs(at[0])),
    ),
    Row(
        "polygamma",
        psi,
        (None, lambda n, x: psi(n + 1, x)),
        ((2.0, 2.0), (1e-70, 1e70)),
        points=((0.0, 1.0), (1.0, 1.0), (1.0, 800.0), (1.0, -0.5), (2.0, -7.25), (3.0, -1.5), (5.0, 0.3), (9.0, 12.0)),
        terms=lambda n, x: 1 if x < 0 else 0,
    ),
    Row(
        "beta",
        mp.beta,
        (beta_slope, lambda a, b: beta_slope(b, a)),
        ((1e-3, 150.0), (1e-3, 150.0)),
        points=((1.0, 1.0), (0.5, 0.5), (2.0, 3.0), (800.0, 1.0), (-0.5, 3.0), (-2.5, 1.25), (-3.5, -1.2)),
    ),
    Row(
        "gammainc",
        lambda a, x: incomplete_gamma(a, ZERO, x),
        (lambda a, x: shape_derivative(1, a, x), gamma_density),
        ((0.01, 100.0), (1e-3, 200.0)),
        points=((1.0, 1.0), (2.5, 800.0), (0.5, 1e-9), (100.0, 100.0), (110.0, 70.0)),
    ),
    Row(
        "gammaincc",
        lambda a, x: incomplete_gamma(a, x, mp.inf),
        (lambda a, x: -shape_derivative(1, a, x), lambda a, x: -gamma_density(a, x)),
        ((0.01, 100.0), (1e-3, 200.0)),
        points=((1.0, 1.0), (2.5, 700.0), (0.5, 1e-9), (100.0, 100.0), (100.0, 140.0)),
    ),
    *(
        Row(
            name,
            lambda a, x, n=n: shape_derivative(n, a, x),
            ((lambda a, x: shape_derivative(2, a, x)) if n == 1 else None, lambda a, x, n=n: shape_slope(n, a, x)),
            ((0.05, 60.0), (1e-2, 100.0)),
            points=((1.0, 1.0), (2.5, 100.0), (0.5, 1e-9), (1e-12, 1.5), (100.0, 100.0), (110.0, 70.0)),
            terms=lambda a, x: gamma_density(a, x) * x / a,
            slope_terms=lambda a, x, n=n: gamma_density(a, x) * (1 + abs(mp.log(x))) ** n * (1 + 1 / a),
        )
        for n, name in ((1, "gammainc_slope"), (2, "gammainc_curvature"))
    ),
    # --- integrals
    Row(
        "Ei",
        mp.ei,
        (lambda x: mp.exp(x) / x,),
        ((1e-300, 710.0),),
        points=at(1.0, -1.0, 0.37, 800.0, -690.0, -1e-9),
        terms=lambda x: abs(mp.log(abs(x))) if x < 1 else 0,
        slope_terms=lambda x: 0,
    ),
    Row(
        "Si",
        mp.si,
        (lambda x: sinc_n(0, x),),
        ((-1e6, 1e6),),
        points=at(*SPECIAL, 1e-300),
        terms=lambda x: 1 / max(1, abs(x)),
    ),
    Row(
        "Ci",
        mp.ci,
        (lambda x: mp.cos(x) / x,),
        ((1e-300, 1e6),),
        points=at(1.0, 3.0, 800.0, 1e-9),
        terms=lambda x: 1 / max(1, abs(x)),
    ),
    Row("Shi", mp.shi, (lambda x: sinhc_n(0, x),), ((-705.0, 705.0),), points=at(*SPECIAL, 1e-300, 712.0)),
    Row(
        "Chi",
        mp.chi,
        (lambda x: mp.cosh(x) / x,),
        ((1e-300, 705.0),),
        points=at(1.0, 0.5, 3.0, 800.0),
        terms=lambda x: abs(mp.log(x)) if x < 1 else 0,
        slope_terms=lambda x: 0,
    ),
    Row("sinhc", lambda x: sinhc_n(0, x), (lambda x: sinhc_n(1, x),), ((-705.0, 705.0),), points=at(*SPECIAL, 1e-300)),
    Row(
        "sinhc_derivative",
        lambda n, x: sinhc_n(int(n), x),
        (None, lambda n, x: sinhc_n(int(n) + 1, x)),
        ((2.0, 2.0), (-700.0, 700.0)),
        points=((0.0, 0.0), (1.0, 0.0), (2.0, 1e-5), (3.0, 1.0), (5.0, -6.5), (5.0, -30.0), (8.0, 3.0)),
    ),
    Row(
        "fresnels",
        mp.fresnels,
        (lambda x: mp.sin(arc(x)),),
        ((-1e3, 1e3),),
        points=at(*SPECIAL, 1e-80, 5.99, 6.01),
        terms=lambda x: 1 if abs(x) > 1 else 0,
    ),
    Row(
        "fresnelc",
        mp.fresnelc,
        (lambda x: mp.cos(arc(x)),),
        ((-1e3, 1e3),),
        points=at(*SPECIAL, 1e-80, 5.99, 6.01),
        terms=lambda x: 1 if abs(x) > 0.9 else 0,
    ),
    # --- activations
    Row("sigmoid", sig, (lambda x: sig(x) * sig(-x),), ((-700.0, 700.0),), points=at(*SPECIAL)),
    Row(
        "logit",
        lambda x: mp.log(x / (1 - x)),
        (lambda x: 1 / (x * (1 - x)),),
        ((1e-300, 1 - 1e-15),),
        points=at(0.5, 0.5000001),
    ),
    Row("softplus", softplus, (sig,), ((-700.0, HUGE),), points=at(*SPECIAL)),
    Row("logsigmoid", lambda x: -softplus(-x), (lambda x: sig(-x),), ((-HUGE, 700.0),), points=at(*SPECIAL)),
    Row(
        "logaddexp",
        lambda x, y: max(x, y) + mp.log1p(mp.exp(-abs(x - y))),
        (lambda x, y: sig(x - y), lambda x, y: sig(y - x)),
        ((-300.0, 300.0), (-300.0, 300.0)),
        points=((0.0, 0.0), (800.0, -800.0), (1000.0, 1000.0), (-30.000000000000004, 1e-15), (300.1, -299.7)),
        terms=lambda x, y: max(abs(max(x, y)), mp.log1p(mp.exp(-abs(x - y)))),
        slope_terms=lambda x, y: 0,
    ),
    Row("softsign", lambda x: x / (1 + abs(x)), (lambda x: 1 / (1 + abs(x)) ** 2,), points=at(*SPECIAL)),
    Row(
        "leaky_relu", lambda x: x if x > 0 else x / 100, (lambda x: 1 if x > 0 else mpf(1) / 100,), points=at(*SPECIAL)
    ),
    Row(
        "elu",
        lambda x: x if x > 0 else mp.expm1(x),
        (lambda x: 1 if x > 0 else mp.exp(x),),
        ((-700.0, HUGE),),
        points=at(*SPECIAL),
    ),
    Row(
        "celu",
        lambda x: x if x > 0 else mp.expm1(x),
        (lambda x: 1 if x > 0 else mp.exp(x),),
        ((-700.0, HUGE),),
        points=at(*SPECIAL),
    ),
    Row(
        "selu",
        lambda x: SELU_SCALE * x if x >= 0 else SELU_SCALE * SELU_ALPHA * mp.expm1(x),
        (lambda x: SELU_SCALE if x >= 0 else SELU_SCALE * SELU_ALPHA * mp.exp(x),),
        ((-700.0, 1e299),),
        points=at(1.0, -1.0, 800.0, -800.0),
    ),
    Row(
        "gelu",
        lambda x: x * cdf(x),
        (lambda x: cdf(x) + x * phi(x),),
        ((-37.0, HUGE),),
        points=at(*SPECIAL),
        slope_terms=lambda x: max(cdf(x), abs(x * phi(x))),
    ),
    Row(
        "silu",
        lambda x: x * sig(x),
        (lambda x: sig(x) + x * sig(x) * sig(-x),),
        ((-708.0, HUGE),),
        points=at(*SPECIAL, -710.78, -713.1),
        slope_terms=lambda x: max(sig(x), abs(x * sig(x) * sig(-x))),
    ),
    Row(
        "mish",
        lambda x: x * mp.tanh(softplus(x)),
        (lambda x: mp.tanh(softplus(x)) + x * mp.sech(softplus(x)) ** 2 * sig(x),),
        ((-708.0, HUGE),),
        points=at(*SPECIAL, -710.78, -713.1),
        slope_terms=lambda x: max(mp.tanh(softplus(x)), abs(x * mp.sech(softplus(x)) ** 2 * sig(x))),
    ),
    Row("hardtanh", lambda x: min(max(x, -1), 1), (lambda x: int(-1 < x < 1),), points=at(*SPECIAL)),
    Row("relu6", lambda x: min(max(x, 0), 6), (lambda x: int(0 < x < 6),), points=at(*SPECIAL, 6.0)),
)


def share(extreme: Number, xs: Sequence[Number], k: int) -> Number:
    """The k-th input's share of the gradient of an extreme: equal among those that tie."""
    ties = sum(x == extreme for x in xs)
    return mpf(1) / ties if xs[k] == extreme else mpf(0)
