"""The special functions for numbers with proven digits, as the language defines them.

Poles and infinities are not theirs: `table` asks them only at finite points, and takes what is not finite for a sign
that the point is a pole, outside the domain, or not known well enough.
"""

from __future__ import annotations

from collections.abc import Callable

from flint import acb, arb, arb_series, ctx, fmpz

from autodiff_cli.numbers.balls.number import LARGEST, LONGEST, NAN, is_whole, whole_in

Ball = arb
_MOST_ORDER = 10_000  # of a derivative


def polygamma(n: Ball, x: Ball) -> Ball:
    """The n-th derivative of digamma, for a whole n from 0."""
    order = _order(n)
    if order is None:
        return NAN
    if order == 0:
        return x.digamma()
    if not x < 0:
        return acb(x).polygamma(order).real
    # Below 0 by reflection: FLINT's own takes as many steps as x is away from 0.
    mirrored = acb(1 - x).polygamma(order).real
    waves = arb_series([x, 1], prec=order + 1).cot_pi()[order] * arb.fac_ui(order) * arb.pi()
    return (-mirrored if order % 2 else mirrored) - waves


def beta(a: Ball, b: Ball) -> Ball:
    """gamma(a)·gamma(b)/gamma(a + b); 0 where only the last is infinite."""
    return a.gamma() * b.gamma() * (a + b).rgamma()


def beta_slope(a: Ball, b: Ball) -> Ball:
    """The slope of beta(a, b) towards a: finite also where beta is 0 and digamma infinite, at poles of gamma(a + b),
    since 1/gamma rises through its zero at -m by (-1)^m·m!."""
    total = a + b
    pole: fmpz | None = whole_in(total) if total.is_exact() and total.is_integer() and total <= 0 else None
    if pole is not None:
        return a.gamma() * b.gamma() * (1 - total).gamma() * (-1 if pole % 2 else 1)
    return beta(a, b) * (a.digamma() - total.digamma())


def gamma_density(a: Ball, x: Ball) -> Ball:
    """x^(a-1)·exp(-x)/gamma(a), for x from 0."""
    if x < 0:
        return NAN
    return x ** (a - 1) * (-x).exp() * a.rgamma()


_WIDE = 30  # bits of a ball that are known, below which it is an interval


def gammainc(a: Ball, x: Ball) -> Ball:
    """The regularised lower incomplete gamma function.

    Where x is not much smaller than a, FLINT's own is slow and wide; there it is the rest of the upper one. Of wide
    balls, for which it is slow too, the ends are taken, since it rises with x.
    """
    if x > 0 and x.rel_accuracy_bits() < _WIDE:
        return gammainc(a, x.lower()).union(gammainc(a, x.upper()))
    rest = 1 - gammaincc(a, x)
    if not rest.is_finite() or rest.rel_accuracy_bits() > ctx.prec // 2:
        return rest
    return x.gamma_lower(a, regularized=1)


def gammaincc(a: Ball, x: Ball) -> Ball:
    """The regularised upper incomplete gamma function, for a and x from 0, not both 0."""
    if a < 0 or x < 0 or (a.is_zero() and x.is_zero()):
        return NAN
    return arb(0) if a.is_zero() else arb(1) if x.is_zero() else x.gamma_upper(a, regularized=1)


def sinc_derivative(n: Ball, x: Ball) -> Ball:
    """The n-th derivative of sin(x)/x: the real part of iⁿ ∫ tⁿ exp(ixt) dt over t from 0 to 1.

    Of a wide ball from its middle, since the slope is no steeper than 1/(n + 2): FLINT takes seconds for it.
    """
    order = _order(n)
    if order is None:
        return NAN
    middle = (acb(0, 1) ** order * _moment(order, acb(0, x.mid()))).real
    return middle + arb(0, x.rad() / (order + 2))


def sinhc_derivative(n: Ball, x: Ball) -> Ball:
    """The n-th derivative of sinh(x)/x: ∫ tⁿ cosh(xt) dt over t from 0 to 1, or with the sine for an odd n.

    Of a ball from its ends, between which it rises, or first falls to its value at 0.
    """
    order = _order(n)
    if order is None:
        return NAN
    low, high = _hyperbolic_moment(order, x.lower()), _hyperbolic_moment(order, x.upper())
    is_least_inside = order % 2 == 0 and x.contains(0)
    return low.union(high).union(arb(1) / (order + 1)) if is_least_inside else low.union(high)


def _hyperbolic_moment(order: int, x: Ball) -> Ball:
    there, back = (_moment(order, acb(side * x)).real for side in (1, -1))
    return (there - back if order % 2 else there + back) / 2


def _moment(order: int, z: acb) -> acb:
    """∫ tⁿ exp(zt) dt over t from 0 to 1."""
    return z.hypgeom_1f1(order + 1, order + 2) / (order + 1)


def _order(n: Ball) -> int | None:
    """The order of a derivative; None if it is none."""
    whole: fmpz | None = whole_in(n)
    return int(whole) if whole is not None and is_whole(n) and 0 <= whole <= _MOST_ORDER else None


def softplus(x: Ball) -> Ball:
    """log(1 + exp(x))."""
    size = abs(x)
    return x.max(arb(0)) + (arb(0, arb(2) ** -LONGEST) if size > LARGEST else (-size).exp().log1p())


def logaddexp(x: Ball, y: Ball) -> Ball:
    """log(exp(x) + exp(y))."""
    return y + softplus(x - y)


def sigmoid(x: Ball) -> Ball:
    """1/(1 + exp(-x))."""
    return 1 / (1 + (-x).exp()) if x > 0 else x.exp() / (1 + x.exp())


def mish_slope(x: Ball) -> Ball:
    """n/(n + 2) + 4·x·w·(1 + w)/(n + 2)², where w = exp(x) and n = w·(w + 2)."""
    w = x.exp()
    n = w * (w + 2)
    return n / (n + 2) + 4 * x * w * (1 + w) / (n + 2) ** 2


# fmt: off
FUNCTIONS: dict[str, Callable[..., Ball]] = {
    "exp": arb.exp, "expm1": arb.expm1, "log": arb.log, "log1p": arb.log1p,
    "log2": lambda x: x.log_base(2), "log10": lambda x: x.log_base(10),
    "sin": arb.sin, "cos": arb.cos, "tan": arb.tan, "sec": arb.sec, "csc": arb.csc, "cot": arb.cot,
    "asin": arb.asin, "acos": arb.acos, "atan": arb.atan,
    "asec": lambda x: (1 / x).acos(), "acsc": lambda x: (1 / x).asin(),
    "acot": lambda x: arb.pi() / 2 if x.is_zero() else (1 / x).atan(),
    "sinh": arb.sinh, "cosh": arb.cosh, "tanh": arb.tanh, "sech": arb.sech, "csch": arb.csch, "coth": arb.coth,
    "asinh": arb.asinh, "acosh": arb.acosh, "atanh": arb.atanh,
    "asech": lambda x: (1 / x).acosh(), "acsch": lambda x: (1 / x).asinh(), "acoth": lambda x: (1 / x).atanh(),
    "atan2": arb.atan2,
    "sigmoid": sigmoid, "logit": lambda x: (x / (1 - x)).log(), "softplus": softplus,
    "logsigmoid": lambda x: -softplus(-x), "logaddexp": logaddexp, "softsign": lambda x: x / (1 + abs(x)),
    "mish_slope": mish_slope,
    "erf": arb.erf, "erfc": arb.erfc, "erfi": arb.erfi, "erfinv": arb.erfinv, "lambertw": arb.lambertw,
    "gamma": arb.gamma, "lgamma": lambda x: acb(x).lgamma().real, "digamma": arb.digamma, "polygamma": polygamma,
    "beta": beta, "beta_slope": beta_slope, "gamma_density": gamma_density,
    "gammainc": gammainc, "gammaincc": gammaincc,
    "sinc": arb.sinc, "sinc_derivative": sinc_derivative,
    "growth": lambda x: x.exp() / x, "coshc": lambda x: x.cosh() / x,
    "sinhc": lambda x: sinhc_derivative(arb(0), x), "sinhc_derivative": sinhc_derivative,
    "Ei": arb.ei, "Si": arb.si, "Ci": arb.ci, "Shi": arb.shi, "Chi": arb.chi,
    "fresnels": arb.fresnel_s, "fresnelc": arb.fresnel_c,
}
# They grow no faster than their arguments, and have no period: what they are of a huge number can be computed.
OF_ANY_SIZE = frozenset((
    "sqrt", "log", "log1p", "log2", "log10", "logit", "asinh", "acosh", "asech", "acsch", "acoth", "lambertw",
    "atan", "acot", "asec", "acsc", "atan2", "softsign", "softplus", "logsigmoid", "logaddexp",
    "lgamma", "digamma", "polygamma",
))
# fmt: on
