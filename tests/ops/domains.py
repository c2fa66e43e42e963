"""The values of operations at all points, in mpmath: nan outside of their domains, infinite at poles.

The formulas of `tests/ops/table.py` hold inside of the domains, and are not repeated here for operations whose formula
says by itself where it has a value.
"""

from __future__ import annotations

from collections.abc import Callable

from mpmath import mp, mpf

from autodiff_cli.ops.functions import LOG_DENSITIES as RECORDS
from tests.ops.table import (
    LOG_DENSITIES,
    ONE,
    ZERO,
    Number,
    faddeeva,
    psi,
    shape_derivative,
    sinc_n,
    sinhc_n,
    student_t,
    voigt,
)


def real_root(x: Number, n: Number) -> Number:
    if x < 0:
        return -real_root(-x, n) if n % 2 == 1 else mp.nan
    return x ** (1 / n)


def of_order(value: Callable[..., Number]) -> Callable[..., Number]:
    return lambda n, x: value(int(n), x) if n >= 0 and mp.isint(n) else mp.nan


def incomplete(low: Callable[[Number], Number], high: Callable[[Number], Number]) -> Callable[..., Number]:
    def value(a: Number, x: Number) -> Number:
        if a < 0 or x < 0:
            return mp.nan
        if a == 0:
            return mpf(low(x) == 0) if x else mp.inf
        return mp.gammainc(a, low(x), high(x), regularized=True)

    return value


def of_shape(n: int, a: Number, x: Number) -> Number:
    return mp.nan if a < 0 or x < 0 else shape_derivative(n, a, x) if x else mpf(0) if a else -mp.inf


def log_density(name: str) -> Callable[..., Number]:
    """The log-density of a distribution: -inf outside of its support, undefined for unsuitable arguments."""
    distribution = RECORDS[name]

    def value(x: Number, *arguments: Number) -> Number:
        missing = len(distribution.arguments) - len(arguments)
        arguments = (*arguments, *((ZERO, ONE)[2 - missing :]))
        low, high = distribution.support or arguments
        pairs = zip(distribution.arguments, arguments, strict=True)
        if low >= high or any(value <= 0 for argument, value in pairs if argument in distribution.positive):
            return mp.nan
        is_inside = low <= x <= high and not mp.isinf(x) and not (name == "lognormal" and x == 0)
        return LOG_DENSITIES[name][0](x, *arguments) if is_inside else -mp.inf

    return value


# Where the formula of the table does not say what the function means, or whether it means anything.
VALUES: dict[str, Callable[..., Number]] = {
    **{f"{name}_logpdf": log_density(name) for name in RECORDS},
    "acot": lambda x: mp.atan(1 / x) if x else mp.pi / 2,
    "atan2": lambda y, x: mp.atan2(y, x) if x or y else mp.inf,
    "lambertw": mp.lambertw,
    "log_base": lambda x, b: mp.log(x) / mp.log(b) if x >= 0 and b >= 0 else mp.nan,
    "root": real_root,
    "polygamma": of_order(psi),
    "student_t_pdf": lambda x, nu, mean=0, scale=1: student_t(x, nu, mean, scale) if nu > 0 and scale > 0 else mp.nan,
    **{
        f"bessel{kind}": lambda n, x, of=of: of(n, x) if x >= 0 or n == mp.floor(n) else mp.nan
        for kind, of in (("j", mp.besselj), ("i", mp.besseli))
    },
    "bessely": lambda n, x: mp.bessely(n, x) if x > 0 else mp.nan if x < 0 else -mp.inf,
    "besselk": lambda n, x: mp.besselk(n, x) if x > 0 else mp.nan if x < 0 else mp.inf,
    "wofz_real": lambda x, y: mp.re(faddeeva(x, y)),
    "wofz_imag": lambda x, y: mp.im(faddeeva(x, y)),
    "voigt": lambda x, s, g: voigt(x, s, g) if s >= 0 and g >= 0 and s + g > 0 else mp.nan,
    "sinc_derivative": of_order(sinc_n),
    "sinhc_derivative": of_order(sinhc_n),
    "gammainc_slope": lambda a, x: of_shape(1, a, x),
    "gammainc_curvature": lambda a, x: of_shape(2, a, x),
    "gammainc": incomplete(lambda x: 0, lambda x: x),
    "gammaincc": incomplete(lambda x: x, lambda x: mp.inf),
}
