"""How to write a formula so that it keeps its digits: what loses them, and what is the same without losing them.

A row is a formula over places and another that equals it wherever it has a value, but for isolated points. A place with
a default is a factor that may be absent. Where a row has a `difference`, it applies if that comes out as one term, as
`(x + 1) - x` does; `d` is that term then. Rows are tried in their order, in a formula from the outside to the inside.

Sources: Hamming, *Numerical Methods for Scientists and Engineers* (1987), chapter 3; Kahan, "How futile are mindless
assessments of roundoff" (2006); Abramowitz and Stegun (1964), 4.3.31-4.3.38 and 4.6; Panchekha et al., "Automatically
improving accuracy for floating point expressions" (PLDI 2015), for the examples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autodiff_cli.graph.node import Node
from autodiff_cli.ops.activations import logaddexp, logsigmoid, sigmoid, softplus
from autodiff_cli.ops.arithmetic import abs_
from autodiff_cli.ops.choice import where
from autodiff_cli.ops.elementary import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cbrt,
    cos,
    cosh,
    exp,
    expm1,
    hypot,
    log,
    log1p,
    sec,
    sech,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)  # fmt: skip
from autodiff_cli.ops.gamma import beta, gamma, gammainc, gammaincc, lgamma
from autodiff_cli.ops.special import erf, erfc, normal_cdf, sinc

Formula = Callable[..., Node]


@dataclass(frozen=True, slots=True)
class Rewriting:
    """One row.

    Attributes:
        before: what loses digits, or overflows, over places.
        after: what equals it, over the same places, and the difference as the last if there is one.
        difference: what has to come out as one term.
        inside: the interval in which the places may lie for both to have a value.
        for_slopes: whether it is the derivative that gains, and the value may not.
        one_sign: whether the row is not for the formula with the other sign too; another row is.
    """

    before: Formula
    after: Formula
    difference: Formula | None = None
    inside: tuple[float, float] = (-3.0, 3.0)
    for_slopes: bool = False
    one_sign: bool = False


def _row(before: Formula, after: Formula, inside: tuple[float, float] = (-3.0, 3.0), **more: bool) -> Rewriting:
    return Rewriting(before, after, None, inside, **more)


def _if_one_term(
    difference: Formula, before: Formula, after: Formula, inside: tuple[float, float] = (-3.0, 3.0), **more: bool
) -> Rewriting:
    return Rewriting(before, after, difference, inside, **more)


POSITIVE, SMALL = (0.1, 3.0), (-0.9, 0.9)

# fmt: off
REWRITINGS: tuple[Rewriting, ...] = (
    # --- whose derivatives gain
    _row(lambda x, k=1: (k - k * cos(x)) / x**2, lambda x, k: k * sinc(x / 2) ** 2 / 2, for_slopes=True),
    _row(lambda x: sin(x) / x,                   lambda x: sinc(x), for_slopes=True),
    _row(lambda x, y: (x + y) / (x - y),         lambda x, y: 2 * x / (x - y) - 1, for_slopes=True),

    # --- exponentials
    _row(lambda x: exp(x) / (1 + exp(x)),             lambda x: sigmoid(x)),
    _row(lambda x: 1 / (1 + exp(x)),                  lambda x: sigmoid(-x)),
    _row(lambda x, y: exp(x) / (exp(x) + exp(y)),     lambda x, y: sigmoid(x - y)),
    _row(lambda x: exp(x) / (exp(x) - 1),             lambda x: -1 / expm1(-x)),
    _row(lambda x: (exp(2 * x) - 1) / (exp(x) - 1),   lambda x: exp(x) + 1),
    _row(lambda x, k=1: k * exp(x) - 2 * k + k * exp(-x), lambda x, k: 4 * k * sinh(x / 2) ** 2),
    _row(lambda x, k=1: k * exp(x) - k * exp(-x),     lambda x, k: 2 * k * sinh(x)),
    _row(lambda x, k=1: k * cosh(x) - k * sinh(x),    lambda x, k: k * exp(-x)),
    _row(lambda x, k=1: k * exp(x) - k,               lambda x, k: k * expm1(x)),

    # --- logarithms
    _row(lambda x: log((1 - x) / (1 + x)),            lambda x: -2 * atanh(x), SMALL),
    _row(lambda x: log((1 + x) / (1 - x)),            lambda x: 2 * atanh(x), SMALL),
    _row(lambda x: log(1 - x) - log(1 + x),           lambda x: -2 * atanh(x), SMALL),
    _row(lambda x: log(x + sqrt(x**2 + 1)),           lambda x: asinh(x)),
    _row(lambda x: log(x + sqrt(x**2 - 1)),           lambda x: acosh(x), (1.1, 3)),
    _row(lambda x: log(1 + exp(x)),                   lambda x: softplus(x)),
    _row(lambda x: log(1 - exp(x)), lambda x: where(x > -log(2), log(-expm1(x)), log1p(-exp(x))), (-3.0, -0.1)),
    _row(lambda x, y: log(exp(x) + exp(y)),           lambda x, y: logaddexp(x, y)),
    _row(lambda x: log(cosh(x)), lambda x: where(
        abs_(x) > 1, abs_(x) + log1p(exp(-2 * abs_(x))) - log(2), log1p(2 * sinh(x / 2) ** 2))),
    _row(lambda x: log(sigmoid(x)),                   lambda x: logsigmoid(x)),
    _row(lambda x: log(gamma(x)),                     lambda x: lgamma(x), POSITIVE),
    _row(lambda x: log(1 + x),                        lambda x: log1p(x), SMALL),

    # --- complements
    _row(lambda x, k=1: k - k * erf(x),               lambda x, k: k * erfc(x)),
    _row(lambda x, k=1: k - k * erfc(x),              lambda x, k: k * erf(x)),
    _row(lambda x, k=1: k - k * normal_cdf(x),        lambda x, k: k * normal_cdf(-x)),
    _row(lambda x, k=1: k - k * sigmoid(x),           lambda x, k: k * sigmoid(-x)),
    _row(lambda a, x, k=1: k - k * gammainc(a, x),    lambda a, x, k: k * gammaincc(a, x), POSITIVE),
    _row(lambda a, x, k=1: k - k * gammaincc(a, x),   lambda a, x, k: k * gammainc(a, x), POSITIVE),
    _row(lambda x, k=1: k - k * tanh(x) ** 2,         lambda x, k: k * sech(x) ** 2),
    _row(lambda x, k=1: k - k * tanh(x),              lambda x, k: 2 * k * sigmoid(-2 * x)),
    _row(lambda x, k=1: k + k * tanh(x),              lambda x, k: 2 * k * sigmoid(2 * x)),
    _row(lambda x, k=1: k - k * cos(x) ** 2,          lambda x, k: k * sin(x) ** 2),
    _row(lambda x, k=1: k - k * sin(x) ** 2,          lambda x, k: k * cos(x) ** 2),
    _row(lambda x, k=1: k * cosh(x) ** 2 - k,         lambda x, k: k * sinh(x) ** 2),
    _row(lambda x, k=1: k * sec(x) ** 2 - k,          lambda x, k: k * tan(x) ** 2),
    _row(lambda x: (1 - cos(x)) / sin(x),             lambda x: tan(x / 2)),
    _row(lambda x: sin(x) / (1 + cos(x)),             lambda x: tan(x / 2)),
    _row(lambda x, k=1: k - k * cos(x),               lambda x, k: 2 * k * sin(x / 2) ** 2),
    _row(lambda x, k=1: k + k * cos(x),               lambda x, k: 2 * k * cos(x / 2) ** 2),
    _row(lambda x, k=1: k * cosh(x) - k,              lambda x, k: 2 * k * sinh(x / 2) ** 2),
    _row(lambda x, k=1: k * sec(x) - k,               lambda x, k: 2 * k * sin(x / 2) ** 2 / cos(x)),
    _row(lambda x, k=1: k * tan(x) - k * sin(x),      lambda x, k: 2 * k * tan(x) * sin(x / 2) ** 2),
    _row(lambda x, k=1: k * cos(x) ** 2 - k * sin(x) ** 2, lambda x, k: k * cos(2 * x)),

    # --- one function at two places that are near each other
    _if_one_term(lambda a, b: a - b, lambda a, b: exp(a) - exp(b),   lambda a, b, d: exp(b) * expm1(d)),
    _if_one_term(lambda a, b: a - b, lambda a, b: log(a) - log(b),   lambda a, b, d: log1p(d / b), POSITIVE),
    _if_one_term(lambda a, b: a - b, lambda a, b: log(a / b),        lambda a, b, d: log1p(d / b), POSITIVE),
    _if_one_term(lambda a, b: a - b, lambda a, b: sin(a) - sin(b),   lambda a, b, d: 2 * cos(b + d / 2) * sin(d / 2)),
    _if_one_term(lambda a, b: a - b, lambda a, b: cos(a) - cos(b),   lambda a, b, d: -2 * sin(b + d / 2) * sin(d / 2)),
    _if_one_term(lambda a, b: a - b, lambda a, b: tan(a) - tan(b),   lambda a, b, d: sin(d) / (cos(a) * cos(b))),
    _if_one_term(lambda a, b: a - b, lambda a, b: atan(a) - atan(b), lambda a, b, d: atan2(d, 1 + a * b)),
    _if_one_term(lambda a, b: a - b, lambda a, b: sinh(a) - sinh(b), lambda a, b, d: 2 * cosh(b + d / 2) * sinh(d / 2)),
    _if_one_term(lambda a, b: a - b, lambda a, b: cosh(a) - cosh(b), lambda a, b, d: 2 * sinh(b + d / 2) * sinh(d / 2)),
    _if_one_term(lambda a, b: a - b, lambda a, b: tanh(a) - tanh(b), lambda a, b, d: sinh(d) / (cosh(a) * cosh(b))),

    # --- roots and powers
    _if_one_term(lambda a, b: a - b, lambda a, b: sqrt(a) - sqrt(b), lambda a, b, d: d / (sqrt(a) + sqrt(b)), POSITIVE),
    _if_one_term(lambda a, b: a - b, lambda a, b: 1 / sqrt(b) - 1 / sqrt(a),
        lambda a, b, d: d / (sqrt(a) * sqrt(b) * (sqrt(a) + sqrt(b))), POSITIVE),
    _if_one_term(lambda a, b: a - b, lambda a, b: cbrt(a) - cbrt(b),
        lambda a, b, d: d / (cbrt(a) ** 2 + cbrt(a) * cbrt(b) + cbrt(b) ** 2)),
    _if_one_term(lambda a, b: a - b**2, lambda a, b: sqrt(a) - b,
        lambda a, b, d: where(b > 0, d / (sqrt(a) + b), sqrt(a) - b), POSITIVE),
    _if_one_term(lambda a, b: a - b**2, lambda a, b: sqrt(a) + b,
        lambda a, b, d: where(b < 0, d / (sqrt(a) - b), sqrt(a) + b), POSITIVE),
    _if_one_term(lambda a: 1 - a, lambda a: 1 - a**2, lambda a, d: d * (1 + a), one_sign=True),
    _if_one_term(lambda a: a - 1, lambda a: a**2 - 1, lambda a, d: d * (a + 1), one_sign=True),
    _if_one_term(lambda a, b: a - b, lambda a, b: a**2 - b**2, lambda a, b, d: d * (a + b)),
    _if_one_term(lambda a, b: a - b, lambda a, b: a**3 - b**3, lambda a, b, d: d * (a**2 + a * b + b**2)),
    _if_one_term(lambda a, b, n: a - b, lambda a, b, n: a**n - b**n,
        lambda a, b, n, d: where(b > 0, b**n * expm1(n * log1p(d / b)), a**n - b**n), POSITIVE),
    _row(lambda x, n: (1 + x) ** n - 1,
        lambda x, n: where(x > -1, expm1(n * log1p(x)), (1 + x) ** n - 1), SMALL),
    _row(lambda x, y: sqrt(x**2 + y**2),              lambda x, y: hypot(x, y)),
    _row(lambda a, b: a**2 - b**2,                    lambda a, b: (a - b) * (a + b)),
    _row(lambda a: 1 - a**2,                          lambda a: (1 - a) * (1 + a), one_sign=True),
    _row(lambda a: a**2 - 1,                          lambda a: (a - 1) * (a + 1), one_sign=True),
    _row(lambda a, b: a**3 - b**3,                    lambda a, b: (a - b) * (a**2 + a * b + b**2)),
    _row(lambda x: acos(1 - x),                       lambda x: 2 * asin(sqrt(x / 2)), (0.1, 1.9)),

    # --- fractions
    _if_one_term(lambda a, b, c, p, q, r: p * b * c - q * a * c + r * a * b,
        lambda a, b, c, p=1, q=1, r=1: p / a - q / b + r / c, lambda a, b, c, p, q, r, d: d / (a * b * c), POSITIVE),
    _if_one_term(lambda a, b, p, q: p * b - q * a,
        lambda a, b, p=1, q=1: p / a - q / b, lambda a, b, p, q, d: d / (a * b), POSITIVE),
    _if_one_term(lambda a, b, p: p - b * a, lambda a, b, p=1: p / a - b, lambda a, b, p, d: d / a, POSITIVE),
    _row(lambda a, b: gamma(a) * gamma(b) / gamma(a + b), lambda a, b: beta(a, b), POSITIVE),
)
# fmt: on
