"""Functions of numbers: elementary and special functions, and activation functions.

The elementary functions are powers, exponentials, logarithms, trigonometric and hyperbolic functions, with their
inverses. Rules are chosen for accuracy and may differ from textbooks. As the derivative of tanh, `1 - z²` has no
correct digit left at x = 20, while `1/cosh(x)²` loses none; and dividing twice does not overflow where the square does.
Where a derivative is infinite, the rule returns an infinity, not nan.

The others are the error functions, the normal distribution, sinc, Lambert's W, the activation functions of neural
networks, the gamma family, log-densities of distributions, and the exponential, trigonometric and Fresnel integrals.
Log-densities are declared from their formulas, with their domains and supports.

The gamma family is closed under differentiation, because `polygamma(n, x)` includes all derivatives of digamma. No
derivative is known with respect to the order n, nor the third one with respect to the first argument of the
incomplete gamma functions.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import NamedTuple

from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Gate, Node, Op, Operand, Precedence, as_node, constant
from autodiff_cli.ops.arithmetic import abs_, and_, clip, equal, floor, not_, not_equal, or_, quotient_slope, where
from autodiff_cli.ops.declaration import OpFields, composite, elementary, helper, operator

pi = constant("pi")

# Domains of functions of one variable, and the points of the domain where the value or the derivative is infinite.
POLE_AT_0: OpFields = {"singular": lambda x: equal(x, 0)}
FROM_0: OpFields = {"domain": lambda x: x >= 0, "singular": lambda x: equal(x, 0)}
FROM_1: OpFields = {"domain": lambda x: x >= 1, "singular": lambda x: equal(x, 1)}
FROM_MINUS_1: OpFields = {"domain": lambda x: x >= -1, "singular": lambda x: equal(x, -1)}
ZERO_TO_1: OpFields = {"domain": lambda x: and_(x >= 0, x <= 1), "singular": lambda x: or_(equal(x, 0), equal(x, 1))}
INSIDE_1: OpFields = {"domain": lambda x: abs_(x) <= 1, "singular": lambda x: equal(abs_(x), 1)}
OUTSIDE_1: OpFields = {"domain": lambda x: abs_(x) >= 1, "singular": lambda x: equal(abs_(x), 1)}

# A derivative restricted to the domain of its function: log(x) is nan below 0, so its derivative is nan there and not
# 1/x.
where_defined = helper("where_defined", lambda r, z, slope: (0, where_defined(z, 1)), lambda z, slope: slope)

# x for x from 0 on, without the sign of a zero: a derivative at the edge of a domain has one side, so that the one of
# sqrt(-x) at 0 is -inf.
edge_distance = helper("edge_distance", lambda z, x: 1, lambda x: x)

# The derivative of atan, computed accurately also where the square overflows.
atan_slope = helper("atan_slope", lambda z, x: -(2 * x * z * z), lambda x: 1 / (1 + x**2), is_positive=True)

# Derivatives with rules of their own: the derivatives of their printed forms would cancel near 0 or overflow.
atanh_slope = helper("atanh_slope", lambda z, x: 2 * x * z * z, lambda x: 1 / ((1 - x) * (1 + x)))
asech_slope = helper(
    "asech_slope", lambda z, x: z * (2 * x**2 - 1) / ((1 - x) * (1 + x)) / x, lambda x: 1 / x / sqrt((1 - x) * (1 + x))
)
asin_slope = helper("asin_slope", lambda z, x: x * z * z * z, lambda x: 1 / sqrt((1 - x) * (1 + x)))
sech_square = helper("sech_square", lambda z, x: -(2 * z * tanh(x)), lambda x: 1 / cosh(x) ** 2, is_positive=True)
csch_square = helper("csch_square", lambda z, x: -(2 * z * coth(x)), lambda x: 1 / sinh(x) ** 2)

# fmt: off
square = elementary("square", lambda z, x: 2 * x, parity=1, is_exact=True)
sqrt   = elementary("sqrt",   lambda z, x: 1 / (2 * edge_distance(z)), **FROM_0)
cbrt   = elementary("cbrt",   lambda z, x: 1 / (3 * square(z)), **POLE_AT_0, parity=-1)

exp    = elementary("exp",    lambda z, x: z, is_positive=True)
exp2   = elementary("exp2",   lambda z, x: z * log(2), is_positive=True)
expm1  = elementary("expm1",  lambda z, x: exp(x),                       summary="exp(x) - 1, accurate near 0")
log    = elementary("log",    lambda z, x: where_defined(z, 1 / edge_distance(x)), **FROM_0, aliases=("ln",), summary="the natural logarithm")
log2   = elementary("log2",   lambda z, x: where_defined(z, 1 / (edge_distance(x) * log(2))),  **FROM_0)
log10  = elementary("log10",  lambda z, x: where_defined(z, 1 / log(10) / edge_distance(x)), **FROM_0)
log1p  = elementary("log1p",  lambda z, x: where_defined(z, 1 / (1 + x)),       **FROM_MINUS_1, summary="log(1 + x), accurate near 0")

sin    = elementary("sin",    lambda z, x: cos(x), parity=-1)
cos    = elementary("cos",    lambda z, x: -sin(x), parity=1)
tan    = elementary("tan",    lambda z, x: 1 / square(cos(x)), parity=-1)
sec    = elementary("sec",    lambda z, x: z * tan(x), parity=1, expansion=lambda x: 1 / cos(x))
csc    = elementary("csc",    lambda z, x: -(z * cot(x)),         **POLE_AT_0, parity=-1, expansion=lambda x: 1 / sin(x))
cot    = elementary("cot",    lambda z, x: -(1 / square(sin(x))), **POLE_AT_0, parity=-1, expansion=lambda x: 1 / tan(x))

asin   = elementary("asin",   lambda z, x: asin_slope(x),                    **INSIDE_1, aliases=("arcsin",), parity=-1)
acos   = elementary("acos",   lambda z, x: -asin_slope(x),                   **INSIDE_1, aliases=("arccos",))
atan   = elementary("atan",   lambda z, x: atan_slope(x),                        aliases=("arctan",), parity=-1)
asec   = elementary("asec",   lambda z, x: 1 / abs_(x) / sqrt(abs_(x) - 1) / sqrt(abs_(x) + 1),    **OUTSIDE_1, expansion=lambda x: acos(1 / x))
acsc   = elementary("acsc",   lambda z, x: -(1 / abs_(x) / sqrt(abs_(x) - 1) / sqrt(abs_(x) + 1)), **OUTSIDE_1, parity=-1, expansion=lambda x: asin(1 / x))

sinh   = elementary("sinh",   lambda z, x: cosh(x), parity=-1)
cosh   = elementary("cosh",   lambda z, x: sinh(x), parity=1, is_positive=True)
tanh   = elementary("tanh",   lambda z, x: sech_square(x), parity=-1, saturation_values=(-1, 1), textbook_slope=lambda z, x: 1 - z**2)
sech   = elementary("sech",   lambda z, x: -(z * tanh(x)), parity=1, is_positive=True, expansion=lambda x: 1 / cosh(x))
csch   = elementary("csch",   lambda z, x: -(z * coth(x)),   **POLE_AT_0, parity=-1, expansion=lambda x: 1 / sinh(x))
coth   = elementary("coth",   lambda z, x: -csch_square(x), **POLE_AT_0, parity=-1, expansion=lambda x: 1 / tanh(x))

asinh  = elementary("asinh",  lambda z, x: 1 / hypot(1, x),                      aliases=("arcsinh",), parity=-1)
acosh  = elementary("acosh",  lambda z, x: 1 / sqrt(x - 1) / sqrt(x + 1),        **FROM_1, aliases=("arccosh",))
atanh  = elementary("atanh",  lambda z, x: where_defined(z, atanh_slope(x)),              **INSIDE_1, aliases=("arctanh",), parity=-1)
asech  = elementary("asech",  lambda z, x: where_defined(z, -asech_slope(edge_distance(x))),           **ZERO_TO_1, expansion=lambda x: acosh(1 / x))
acsch  = elementary("acsch",  lambda z, x: -(1 / abs_(x) / hypot(1, x)),        **POLE_AT_0, parity=-1, expansion=lambda x: asinh(1 / x))
acoth  = elementary("acoth",  lambda z, x: where_defined(z, atanh_slope(x)),              **OUTSIDE_1, parity=-1, expansion=lambda x: atanh(1 / x))
# fmt: on

acot = elementary(
    "acot", lambda z, x: -atan_slope(x), expansion=lambda x: atan(1 / x), parity=-1,
    kink=lambda x: equal(x, 0), kink_note="it jumps from -pi/2 to pi/2; the slope on either side is used",
    summary="atan(1/x)",
)  # fmt: skip
log_base = composite(
    "log_base", lambda x, base: log(x) / log(base), spelling="log",
    domain=lambda x, base: and_(and_(x >= 0, base >= 0), x + base > 0),
    singular=lambda x, base: or_(equal(x, 0), or_(equal(base, 0), equal(base, 1))),
    summary="the logarithm to a base",
)  # fmt: skip

# x/h for a length h; 0 where the length is 0, so that the gradient of `hypot(0, 0)` is 0.
direction = helper("direction", None, lambda x, h: x / h, vanishes=lambda x, h: equal(h, 0))

hypot = elementary(
    "hypot", lambda z, x, y: (direction(x, z), direction(y, z)),
    kink=lambda x, y: and_(equal(x, 0), equal(y, 0)), kink_note="it is the tip of a cone; gradient 0 is used",
    summary="sqrt(x^2 + y^2), without overflow",
)  # fmt: skip
atan2 = elementary(
    "atan2", lambda z, y, x: (x / hypot(x, y) / hypot(x, y), -(y / hypot(x, y) / hypot(x, y))),
    singular=lambda y, x: and_(equal(x, 0), equal(y, 0)),
    kink=lambda y, x: and_(equal(y, 0), x < 0), kink_note="it jumps by 2*pi there; the slope on either side is used",
    summary="the angle of the point (x, y), from -pi to pi",
)  # fmt: skip

# The derivatives of x^y; printed formulas show their expansions. The tables of numbers return 0 with respect to the
# base where the exponent is 0, and 0 with respect to the exponent where the base is 0 and the exponent positive. They
# compute y*(x^y/x), which is accurate to 1.5 ulp, because y*x^(y-1) with its rounded exponent loses up to 656 ulp.
pow_slope_base = helper(
    "pow_slope_base", lambda z, x, y: (scaled_slope_base(y, x, y - 1), x ** (y - 1) + times_log(z, x)),
    lambda x, y: y * x ** (y - 1),
)  # fmt: skip
# The slope of x^y with respect to the base times a factor, 0 where the factor is 0: of x^2, all slopes from the third
# on are 0, also where x is 0 and x^-1 is infinite.
scaled_slope_base = helper(
    "scaled_slope_base",
    lambda z, a, x, y: (
        pow_slope_base(x, y), scaled_slope_base(a * y, x, y - 1), vanishing_product(a, x ** (y - 1)) + times_log(z, x)
    ),
    lambda a, x, y: vanishing_product(a, pow_slope_base(x, y)),
)  # fmt: skip
pow_slope_exponent = helper(
    "pow_slope_exponent", lambda z, x, y: (times_log(pow_slope_base(x, y), x) + x ** (y - 1), times_log(z, x)),
    lambda x, y: x**y * log(x), vanishes=lambda x, y: and_(equal(x, 0), y > 0),
)  # fmt: skip
# a*b, and 0 where a is 0: a density tends to 0 faster than the factors of its slopes to infinity.
vanishing_product = helper("vanishing_product", lambda z, a, b: (b, a), lambda a, b: a * b)
# a/x, and 0 where a is 0, as are its derivatives with respect to x.
vanishing_quotient = helper(
    "vanishing_quotient", lambda z, a, x: (1 / x, -vanishing_quotient(z, x)), lambda a, x: a / x
)
# a*log(x), and 0 where a is 0: a power of x tends to 0 faster than log(x) to infinity.
times_log = helper(
    "times_log", lambda z, a, x: (log(x), vanishing_quotient(a, edge_distance(x))), lambda a, x: a * log(x),
    vanishes=lambda a, x: and_(equal(x, 0), equal(a, 0)),
)  # fmt: skip

pow_ = operator(
    "pow", "^", Precedence.POWER, lambda z, x, y: (pow_slope_base(x, y), pow_slope_exponent(x, y)),
    spelling="pow", title="a power", factors=(1, None), is_exact=True,
    domain=lambda x, y: or_(x >= 0, equal(floor(y), y)),
    singular=lambda x, y: and_(equal(x, 0), and_(y < 1, not_equal(y, 0))),
)  # fmt: skip
# The derivative of root(x, n) with respect to n, which is 0 where the root is 0.
root_slope_index = helper(
    "root_slope_index",
    lambda z, x, n: (z / n / x - quotient_slope(root(x, n) / x, n), -quotient_slope(times_log(z, x), n) - 2 * z / n),
    lambda x, n: -quotient_slope(times_log(root(x, n), x), n),
    vanishes=lambda x, n: and_(equal(x, 0), n > 0),
)  # fmt: skip
root = elementary(
    "root", lambda z, x, n: (where(equal(x, 0), abs_(z) ** (1 - n) / n, z / n / x), root_slope_index(x, n)),
    domain=lambda x, n: or_(x >= 0, equal(abs_(n) % 2, 1)),
    singular=lambda x, n: or_(equal(n, 0), and_(equal(x, 0), or_(n < 0, n > 1))),
    summary="the real n-th root; of a negative x for odd n only",
)  # fmt: skip

# --- Error functions, the normal distribution, sinc and Lambert's W ---

# exp(-x²), exp(-x²/2) and exp(x²). The tables of numbers correct for the rounding error of the square: for large x, it
# amounts to hundreds of ulps of the result.
exp_minus_square = helper("exp_minus_square", lambda z, x: -2 * x * z, lambda x: exp(-(x**2)), is_positive=True)
exp_minus_half_square = helper(
    "exp_minus_half_square", lambda z, x: -x * z, lambda x: exp(-(x**2) / 2), is_positive=True
)
exp_square = helper("exp_square", lambda z, x: 2 * x * z, lambda x: exp(x**2), is_positive=True)

# fmt: off
erf    = elementary("erf",    lambda z, x: 2 / sqrt(pi) * exp_minus_square(x),    summary="the error function", parity=-1)
erfc   = elementary("erfc",   lambda z, x: -(2 / sqrt(pi) * exp_minus_square(x)), summary="1 - erf(x), accurate for large x", is_positive=True)
erfi   = elementary("erfi",   lambda z, x: 2 / sqrt(pi) * exp_square(x),   ulp_bound=16, summary="the imaginary error function: the integral of 2/sqrt(pi)*exp(t^2) from 0 to x", parity=-1)
erfinv = elementary("erfinv", lambda z, x: sqrt(pi) / 2 * exp_square(z),   **INSIDE_1, ulp_bound=60, summary="the inverse of erf", parity=-1)
# fmt: on


def _standardize(x: Node, mean: Operand, deviation: Operand) -> Node:
    return (x - mean) / deviation


def _if_positive(value: Node, *parameters: Operand) -> Node:
    """Return `value`, or nan unless all parameters are positive. Defaults, which are not nodes, are positive."""
    conditions = [parameter > 0 for parameter in parameters if isinstance(parameter, Node)]
    return where(reduce(and_, conditions), value, constant("nan")) if conditions else value


def _density_slopes(z: Node, x: Node, mean: Operand = 0, deviation: Operand = 1) -> tuple[Operand, ...]:
    u = _standardize(x, mean, deviation)
    by_mean = vanishing_product(z, u) / deviation
    return -by_mean, by_mean, vanishing_product(z, square(u) - 1) / deviation


def _distribution_slopes(_: Node, x: Node, mean: Operand = 0, deviation: Operand = 1) -> tuple[Operand, ...]:
    density = normal_pdf(*(argument for argument in (x, mean, deviation) if isinstance(argument, Node)))
    return density, -density, -vanishing_product(density, _standardize(x, mean, deviation))


_NORMAL: OpFields = {"domain": lambda x, mean=0, deviation=1: as_node(deviation) > 0}
normal_pdf = elementary(
    "normal_pdf", _density_slopes,
    expansion=lambda x, mean=0, deviation=1: _if_positive(
        exp_minus_half_square(_standardize(x, mean, deviation)) / (as_node(deviation) * sqrt(2 * pi)), deviation
    ),
    summary="the normal density at x, with mean (0) and standard deviation (1)", is_positive=True, **_NORMAL,
)  # fmt: skip
normal_cdf = elementary(
    "normal_cdf", _distribution_slopes, aliases=("Φ",),
    expansion=lambda x, mean=0, deviation=1: _if_positive(
        erfc(-_standardize(x, mean, deviation) / sqrt(2)) / 2, deviation
    ),
    summary="the normal distribution function at x, with mean (0) and standard deviation (1)", is_positive=True, **_NORMAL,
)  # fmt: skip

normal_sf = composite(
    "normal_sf", lambda x, mean=0, deviation=1: normal_cdf(as_node(mean), x, as_node(deviation)),
    **_NORMAL,
    summary="1 - normal_cdf(x, mean, deviation), accurate for large x; the likelihood of a value censored at x",
)  # fmt: skip


def _weibull_slopes(z: Node, x: Node, k: Node, scale: Node) -> tuple[Node, ...]:
    power = (x / scale) ** k
    by_x, by_k = (k - 1 - k * power) / x, 1 / k + (1 - power) * log(x / scale)
    slopes = where(x > 0, by_x, 0), where(x > 0, by_k, 0), where(x >= 0, k * (power - 1) / scale, 0)
    return tuple(vanishing_product(z, slope) for slope in slopes)


def _weibull_share_slopes(x: Node, k: Node, scale: Node) -> tuple[Node, ...]:
    density = weibull_pdf(x, k, scale)
    by_k = vanishing_product(density, times_log(x, x / scale) / k)
    slopes = density, by_k, -vanishing_product(density, x / scale)
    return tuple(where(x > 0, slope, 0) for slope in slopes)


# The exponential amplifies the error of the power. Branches are chosen such that nan propagates.
_WEIBULL: OpFields = {
    "domain": lambda x, k, scale: and_(k > 0, scale > 0),
    "kink": lambda x, k, scale: and_(equal(x, 0), k <= 1),
    "kink_note": "it begins at 0; the slope below, 0, is used",
    "ulp_bound": 4000,
}


def _weibull_density(x: Node, k: Node, scale: Node) -> Node:
    """Return the density, which is 0 also where the power overflows."""
    power, factor = (x / scale) ** k, k / scale * (x / scale) ** (k - 1)
    return _if_positive(where(or_(x < 0, equal(power, constant("inf"))), 0, factor * exp(-power)), k, scale)


weibull_pdf = elementary(
    "weibull_pdf", _weibull_slopes, expansion=_weibull_density,
    singular=lambda x, k, scale: and_(equal(x, 0), k < 1),
    summary="the Weibull density at x, with shape k and a scale; 0 below 0",
    **_WEIBULL | {"kink": lambda x, k, scale: and_(equal(x, 0), and_(k >= 1, k <= 2))},
)  # fmt: skip
weibull_cdf = elementary(
    "weibull_cdf", lambda z, x, k, scale: _weibull_share_slopes(x, k, scale),
    expansion=lambda x, k, scale: _if_positive(where(x <= 0, 0, -expm1(-((x / scale) ** k))), k, scale),
    summary="the Weibull distribution function at x", **_WEIBULL,
)  # fmt: skip
weibull_sf = elementary(
    "weibull_sf", lambda z, x, k, scale: tuple(-slope for slope in _weibull_share_slopes(x, k, scale)),
    expansion=lambda x, k, scale: _if_positive(where(x <= 0, 1, exp(-((x / scale) ** k))), k, scale),
    summary="1 - weibull_cdf(x, k, scale); the likelihood of a value censored at x", **_WEIBULL,
)  # fmt: skip


def _student_t_density(x: Node, nu: Node, mean: Operand = 0, scale: Operand = 1) -> Node:
    """Return the density; as a quotient with the beta function, whose slopes have no difference of digammas."""
    u, spread = _standardize(x, mean, scale), as_node(scale)
    density = exp(-((nu + 1) / 2) * log1p(square(u) / nu)) / (beta(constant("0.5"), nu / 2) * sqrt(nu) * spread)
    return _if_positive(density, nu, scale)


def _student_t_slopes(z: Node, x: Node, nu: Node, mean: Operand = 0, scale: Operand = 1) -> tuple[Node, ...]:
    u = _standardize(x, mean, scale)
    pull = (nu + 1) * u / (nu + square(u))
    by_nu = (pull * u / nu - log1p(square(u) / nu) - digamma_diff(nu / 2, constant("0.5")) - 1 / nu) / 2
    slopes = -(pull / scale), by_nu, pull / scale, (pull * u - 1) / scale
    return tuple(vanishing_product(z, slope) for slope in slopes)


student_t_pdf = elementary(
    "student_t_pdf", _student_t_slopes, expansion=_student_t_density, ulp_bound=4000,
    domain=lambda x, nu, mean=0, scale=1: and_(nu > 0, as_node(scale) > 0),
    summary="the density of Student's t at x, with nu degrees of freedom, location (0) and scale (1)",
)  # fmt: skip


MAX_ORDER = 1000  # highest order of derivatives and of Bessel functions that floats compute


# Half the difference of the Bessel functions of the neighbouring orders, the slope of J and Y. Where the function z is
# infinite, at 0, both may be infinite, but it falls towards 0 from there.
_neighbours_slope = helper("neighbours_slope", lambda s, z, below, above: (0, 0.5, -0.5), lambda z, below, above: (below - above) / 2)  # fmt: skip


def _bessel(name: str, slope_sign: int, is_entire: bool, kind: str) -> Op:
    """Declare a Bessel function of real order, whose slope is half the sum or the difference of the functions of the
    neighbouring orders (DLMF 10.6.1, 10.29.1).

    Args:
        name: the name of the function.
        slope_sign: the sign of the sum of the functions of the neighbouring orders in the slope; 0 for their difference.
        is_entire: whether functions of integer order have values below 0, and are finite at 0.
        kind: the name in books.
    """

    def slopes(z: Node, order: Node, x: Node) -> tuple[Node, Node]:
        below, above = op(order - 1, x), op(order + 1, x)
        return _unknown_slope(z), slope_sign * (below + above) / 2 if slope_sign else _neighbours_slope(z, below, above)

    def is_real(order: Node, x: Node) -> Node:
        return or_(x >= 0, equal(floor(order), order)) if is_entire else x >= 0

    def singular(order: Node, x: Node) -> Node:
        return and_(equal(x, 0), and_(order < 1, not_(equal(floor(order), order)))) if is_entire else equal(x, 0)

    op = elementary(
        name, slopes, singular=singular, unavailable_inputs=(0,), ulp_bound=4000, argument_ulps=64,
        domain=lambda order, x: and_(abs_(order) <= MAX_ORDER, is_real(order, x)),
        uncomputed=lambda order, x: and_(abs_(order) > MAX_ORDER, is_real(order, x)),
        is_positive=name == "besselk", summary=f"the {kind}, of real order up to 1000, at x",
    )  # fmt: skip
    return op


besselj = _bessel("besselj", 0, True, "Bessel function of the first kind, J")
bessely = _bessel("bessely", 0, False, "Bessel function of the second kind, Y")
besseli = _bessel("besseli", 1, True, "modified Bessel function of the first kind, I")
besselk = _bessel("besselk", -1, False, "modified Bessel function of the second kind, K")

_FADDEEVA: OpFields = {"domain": lambda x, y: y >= 0, "uncomputed": lambda x, y: y < 0, "ulp_bound": 128}

# The parts of the Faddeeva function w(z) = exp(-z²)·erfc(-iz) at z = x + iy: w' = 2i/√π - 2·z·w.
wofz_real = elementary(
    "wofz_real", lambda z, x, y: (wofz_slope_real(x, y), -wofz_slope_imag(x, y)), is_positive=True,
    summary="the real part of the Faddeeva function exp(-z^2)*erfc(-i*z) at z = x + i*y, for y from 0", **_FADDEEVA,
)  # fmt: skip
wofz_imag = elementary(
    "wofz_imag", lambda z, x, y: (wofz_slope_imag(x, y), wofz_slope_real(x, y)),
    summary="the imaginary part of the Faddeeva function at x + i*y, for y from 0", **_FADDEEVA,
)  # fmt: skip
_FADDEEVA_SLOPE: OpFields = {**_FADDEEVA, "argument_ulps": 128, "perturbed_input": -2, "argument_unit": 1e308}  # fmt: skip
wofz_slope_real = helper(
    "wofz_slope_real", None, lambda x, y: 2 * (y * wofz_imag(x, y) - x * wofz_real(x, y)),
    zero_inputs=(0,), **_FADDEEVA_SLOPE,
)  # fmt: skip
wofz_slope_imag = helper(
    "wofz_slope_imag", None, lambda x, y: 2 / sqrt(pi) - 2 * (x * wofz_imag(x, y) + y * wofz_real(x, y)),
    **_FADDEEVA_SLOPE,
)  # fmt: skip


# 1 and 0 as functions of x: factors of formulas that hold only at one x, and their first derivatives. Higher ones are
# unknown, so that they are nan and not false.
flat_slope = helper("flat_slope", lambda z, x: constant("nan"), lambda x: x - x, unavailable_inputs=(0,))
flat = helper("flat", lambda z, x: flat_slope(x), lambda x: x - x + 1)


def _voigt_slopes(z: Node, x: Node, sigma: Node, gamma: Node) -> tuple[Node, ...]:
    """Return the slopes of the Lorentzian where sigma is 0; the one by sigma is sigma times the second one by x."""
    at, unit = (x / (sigma * sqrt(2)), gamma / (sigma * sqrt(2))), 2 * sqrt(pi) * square(sigma)
    by_x, by_gamma = wofz_slope_real(*at) / unit, -(wofz_slope_imag(*at) / unit)
    by_sigma = -(z + vanishing_product(by_x, x) + by_gamma * gamma) / sigma
    h, is_lorentzian, density = hypot(x, gamma), equal(sigma, 0), z * flat(sigma)
    p, q = x / h, gamma / h
    slopes = (
        where(is_lorentzian, -2 * p / h * density, by_x),
        where(is_lorentzian, 2 * sigma * (3 * square(p) - square(q)) / h / h * density, by_sigma),
        where(is_lorentzian, (p - q) * (p + q) / h / h / pi * flat(sigma), by_gamma),
    )
    return tuple(where_defined(z, slope) for slope in slopes)


voigt = elementary(
    "voigt", _voigt_slopes,
    expansion=lambda x, sigma, gamma: where(
        and_(sigma > 0, gamma >= 0),
        wofz_real(x / (sigma * sqrt(2)), gamma / (sigma * sqrt(2))) / (sigma * sqrt(2 * pi)),
        where(and_(equal(sigma, 0), gamma > 0), gamma / hypot(x, gamma) / hypot(x, gamma) / pi, constant("nan")),
    ),
    domain=lambda x, sigma, gamma: and_(and_(sigma >= 0, gamma >= 0), or_(sigma > 0, gamma > 0)), is_positive=True,
    ulp_bound=4000,
    summary="the Voigt profile at x: a normal density with standard deviation sigma, convolved with a Lorentzian of "
    "half width gamma; either may be 0",
)  # fmt: skip


def _is_order(n: Node, _: Node) -> Node:
    """Return the condition that n can be the order of a derivative: an integer from 0."""
    return and_(n >= 0, equal(floor(n), n))


# Of derivatives of any order n, which is the first input.
_OF_ORDER: OpFields = {"domain": _is_order, "unavailable_inputs": (0,)}
_OF_ORDER["uncomputed"] = lambda n, x: and_(_is_order(n, x), n > MAX_ORDER)


# The textbook derivative, (cos(x) - sinc(x))/x, cancels near 0, so the n-th derivative is a separate operation.
sinc = elementary("sinc", lambda z, x: sinc_derivative(1, x), parity=1, summary="sin(x)/x, and 1 at 0")
sinc_derivative = elementary(
    "sinc_derivative", lambda z, n, x: (constant("nan"), sinc_derivative(n + 1, x)), **_OF_ORDER, ulp_bound=8, argument_ulps=32,
    summary="the n-th derivative of sinc at x",
)  # fmt: skip

# 1 + W(x) and the derivative of W, computed accurately also near the branch point, where they are 0 and infinite.
lambertw_plus_1 = helper("lambertw_plus_1", lambda z, x: lambertw_slope(x), lambda x: 1 + lambertw(x))
lambertw_slope = helper("lambertw_slope", None, lambda x: 1 / (exp(lambertw(x)) * lambertw_plus_1(x)))
lambertw = elementary(
    "lambertw", lambda z, x: lambertw_slope(x),
    domain=lambda x: x >= -1 / constant("e"), singular=lambda x: equal(x, -1 / constant("e")),
    summary="the inverse of w*exp(w), its principal branch, from -1/e on",
)  # fmt: skip


def _natural_spline(x: Node, *pairs: Node) -> Node:
    """Return the natural cubic spline through pairs of knot and value, and straight lines beyond the outer knots.

    Its second derivatives at the knots solve a tridiagonal system (de Boor 1978, "A Practical Guide to Splines",
    chapter IV), here by elimination from left to right.
    """
    knots, values = pairs[::2], pairs[1::2]
    widths = [right - left for left, right in pairwise(knots)]
    slopes = [(right - left) / width for (left, right), width in zip(pairwise(values), widths, strict=True)]
    # bend[i] = rest[i] - factor[i]*bend[i + 1]
    factors, rests = [as_node(0)], [as_node(0)]
    for (left, right), (before, after) in zip(pairwise(widths), pairwise(slopes), strict=True):
        pivot = 2 * (left + right) - left * factors[-1]
        factors.append(right / pivot)
        rests.append((6 * (after - before) - left * rests[-1]) / pivot)
    bends = [as_node(0)]
    for factor, rest in reversed([*zip(factors, rests, strict=True)][1:]):
        bends.insert(0, rest - factor * bends[0])
    bends.insert(0, as_node(0))
    curve = values[-1] + (slopes[-1] + widths[-1] * bends[-2] / 6) * (x - knots[-1])
    for i, (width, slope) in reversed([*enumerate(zip(widths, slopes, strict=True))]):
        past, left = x - knots[i], knots[i + 1] - x
        bend = bends[i] * (width + left) + bends[i + 1] * (width + past)
        curve = where(x < knots[i + 1], values[i] + slope * past - past * left * bend / (6 * width), curve)
    first = values[0] + (slopes[0] - widths[0] * bends[1] / 6) * (x - knots[0])
    return where(_are_rising(x, *pairs), 1, constant("nan")) * where(x < knots[0], first, curve)


def _are_rising(_: Node, *pairs: Node) -> Node:
    return reduce(and_, (left < right for left, right in pairwise(pairs[::2])))


spline = composite(
    "spline", _natural_spline, parameters=("x", "k0", "v0", "k1", "v1"), min_inputs=5,
    domain=_are_rising, ulp_bound=64, jumping_order=3,
    summary="the natural cubic spline through pairs of a knot and its value, at x; a straight line beyond the knots",
)  # fmt: skip

# --- Activation functions ---

# The constants of the self-normalizing unit, with the digits of its definition (Klambauer et al. 2017, arXiv
# 1706.02515). They are texts because a float would truncate them to 17 digits for every kind of number.
SELU_ALPHA = constant("1.6732632423543772848170429916717")
SELU_SCALE = constant("1.0507009873554804934193349852946")


# exp(x)/(exp(x) + exp(y)). The tables of numbers correct for the rounding error of x - y, which exp amplifies.
binary_softmax = helper(
    "binary_softmax", lambda z, x, y: (z * binary_softmax(y, x), -(z * binary_softmax(y, x))),
    lambda x, y: sigmoid(x - y), is_positive=True,
)  # fmt: skip
# The derivatives of their expansions would cancel in the middle and overflow at the ends.
logit_slope = helper("logit_slope", lambda z, x: z * z * (2 * x - 1), lambda x: 1 / (edge_distance(x) * (1 - x)))
sigmoid_slope = helper(
    "sigmoid_slope", lambda z, x: -(z * tanh(x / 2)), lambda x: sigmoid(x) * sigmoid(-x), is_positive=True
)
# Computed from one exponential, and accurate also where it alone would underflow.
# fmt: off
silu_slope = helper("silu_slope", None, lambda x: vanishing_product(sigmoid(x), 1 + vanishing_product(sigmoid(-x), x)), argument_ulps=32)
mish_slope = helper("mish_slope", None, lambda x: tanh(softplus(x)) + vanishing_product(sech_square(softplus(x)) * sigmoid(x), x), argument_ulps=32)

sigmoid    = elementary("sigmoid",    lambda z, x: sigmoid_slope(x),          aliases=("logistic",), saturation_values=(0, 1), textbook_slope=lambda z, x: z * (1 - z), summary="1/(1 + exp(-x))", is_positive=True)
logit      = elementary("logit",      lambda z, x: where_defined(z, logit_slope(x)),    **ZERO_TO_1, summary="log(x/(1 - x))")
softplus   = elementary("softplus",   lambda z, x: sigmoid(x),              is_rectifier=True, summary="log(1 + exp(x))", is_positive=True)
logsigmoid = elementary("logsigmoid", lambda z, x: sigmoid(-x),             summary="log(sigmoid(x))")
logaddexp  = elementary("logaddexp",  lambda z, x, y: (binary_softmax(x, y), binary_softmax(y, x)), argument_ulps=32, zero_inputs=(), summary="log(exp(x) + exp(y))")
softsign   = elementary("softsign",   lambda z, x: quotient_slope(1, 1 + abs_(x)), summary="x/(1 + abs(x))", parity=-1, jumping_order=2)

elu        = composite("elu",  lambda x: where(x >= 0, x, expm1(x)), is_rectifier=True, jumping_order=2, summary="x where it is positive, else exp(x) - 1")
celu       = composite("celu", lambda x: where(x >= 0, x, expm1(x)), is_rectifier=True, jumping_order=2, summary="x where it is positive, else exp(x) - 1")
gelu       = elementary("gelu", lambda z, x: normal_cdf(x) + vanishing_product(normal_pdf(x), x), expansion=lambda x: vanishing_product(normal_cdf(x), x), is_rectifier=True, summary="x*normal_cdf(x), the exact form")
silu       = elementary("silu", lambda z, x: silu_slope(x), expansion=lambda x: vanishing_product(sigmoid(x), x), is_rectifier=True, aliases=("swish",), summary="x*sigmoid(x)")
mish       = elementary("mish", lambda z, x: mish_slope(x), expansion=lambda x: vanishing_product(tanh(softplus(x)), x), is_rectifier=True, summary="x*tanh(softplus(x))")
# fmt: on

leaky_relu = composite(
    "leaky_relu", lambda x: where(x > 0, x, 0.01 * x), is_rectifier=True,
    kink=lambda x: equal(x, 0), kink_note="the slopes are 0.01 and 1; 0.01 is used",
)  # fmt: skip
selu = composite(
    "selu", lambda x: where(x >= 0, SELU_SCALE * x, (SELU_SCALE * SELU_ALPHA) * expm1(x)), is_rectifier=True,
    kink=lambda x: equal(x, 0), kink_note="the slopes are 1.758 and 1.051; 1.051 is used",
)  # fmt: skip
hardtanh = composite(
    "hardtanh", lambda x: clip(x, -1, 1), gate=Gate.ROUTE, parity=-1, saturation_values=(-1, 1),
    kink=lambda x: equal(abs_(x), 1), kink_note="the slopes are 0 and 1; 0 is used",
)  # fmt: skip
relu6 = composite(
    "relu6", lambda x: clip(x, 0, 6), gate=Gate.ROUTE, is_rectifier=True, saturation_values=(0, 6),
    kink=lambda x: or_(equal(x, 0), equal(x, 6)), kink_note="the slopes are 0 and 1; 0 is used",
)  # fmt: skip


def _unknown_slope(z: Node) -> Node:
    """Return nan as a function of all inputs, so that its derivatives are nan too."""
    return constant("nan") * z


def _is_at_pole(x: Node) -> Node:
    return and_(x <= 0, equal(floor(x), x))


def _off_poles_below_0(x: Node) -> Node:
    return not_(and_(x < 0, equal(floor(x), x)))


gamma = elementary(
    "gamma", lambda z, x: z * digamma(x), domain=_off_poles_below_0, singular=lambda x: equal(x, 0),
    ulp_bound=30, summary="the gamma function: gamma(n + 1) is the factorial of n",
)  # fmt: skip
lgamma = elementary(
    "lgamma", lambda z, x: digamma(x), singular=_is_at_pole,
    ulp_bound=16, argument_ulps=32, summary="log(abs(gamma(x)))",
)  # fmt: skip
digamma = elementary(
    "digamma", lambda z, x: polygamma(1, x), domain=_off_poles_below_0, singular=lambda x: equal(x, 0),
    ulp_bound=16, argument_ulps=32, summary="the slope of lgamma",
)  # fmt: skip
polygamma = elementary(
    "polygamma", lambda z, n, x: (_unknown_slope(z), polygamma(n + 1, x)), **_OF_ORDER,
    singular=lambda n, x: _is_at_pole(x), ulp_bound=32, argument_ulps=32, summary="the n-th derivative of digamma at x",
)  # fmt: skip

# Differences of two polygammas, computed accurately also where b is small compared to a. At their zeros a is negative,
# and b may be so large that a change of it changes nothing.
_DIFFERENCE: OpFields = {"argument_ulps": 64, "perturbed_input": -2}
polygamma_diff: Op = helper(
    "polygamma_diff", lambda z, n, a, b: (_unknown_slope(z), polygamma_diff(n + 1, a, b), -polygamma(n + 1, a + b)),
    lambda n, a, b: polygamma(n, a) - polygamma(n, a + b), **_DIFFERENCE,
)  # fmt: skip
digamma_diff = helper(
    "digamma_diff", lambda z, a, b: (polygamma_diff(1, a, b), -polygamma(1, a + b)),
    lambda a, b: digamma(a) - digamma(a + b), **_DIFFERENCE,
)  # fmt: skip
# The tables of numbers return its finite value also where beta is 0 and digamma infinite.
beta_slope = helper(
    "beta_slope", None, lambda a, b: beta(a, b) * digamma_diff(a, b),
    ulp_bound=400, **_DIFFERENCE,
)  # fmt: skip

beta: Op = elementary(
    "beta", lambda z, a, b: (beta_slope(a, b), beta_slope(b, a)),
    domain=lambda a, b: and_(_off_poles_below_0(a), _off_poles_below_0(b)),
    singular=lambda a, b: or_(equal(a, 0), equal(b, 0)),
    ulp_bound=400, argument_ulps=64, summary="gamma(a)*gamma(b)/gamma(a + b)",
)  # fmt: skip

# As a difference of two densities, the derivative with respect to x is correct at x = 0 too.
gamma_density: Op = helper(
    "gamma_density", lambda z, a, x: (_density_slope(z, a, x), gamma_density(a - 1, x) - z),
    lambda a, x: x ** (a - 1) * exp(-x) / gamma(a),
    vanishes=lambda a, x: _is_at_pole(a), ulp_bound=1500,
)  # fmt: skip
_SHAPE_DERIVATIVE: OpFields = {
    "domain": lambda a, x: and_(a >= 0, x >= 0),
    "singular": lambda a, x: and_(equal(x, 0), a <= 1),
    "ulp_bound": 4000,
    "zero_inputs": (1,),
}


def _density_slope(density: Node, a: Node, x: Node) -> Node:
    """Return the slope of `gamma_density` with respect to a, also at a = 0, where the density itself is 0."""
    return where(equal(a, 0), exp(-x) / x, vanishing_product(density, log(x) - digamma(a)))


def _density_curvature(density: Node, a: Node, x: Node) -> Node:
    """Return the second derivative of `gamma_density` with respect to a.

    It is density·((log(x) - digamma(a))² - polygamma(1, a)). Of these, the terms with 1/a and 1/a² cancel near a = 0, so
    the functions are taken at a + 1.
    """
    log_ratio = log(x) - digamma(a + 1)
    share = where(a < 1, x ** (a - 1) * exp(-x) / gamma(a + 1), density / a)  # density/a, which is 0/0 at a = 0
    return vanishing_product(density, square(log_ratio) - polygamma(1, a + 1)) + vanishing_product(share, 2 * log_ratio)


gammainc = elementary(
    "gammainc", lambda z, a, x: (gammainc_slope(a, x), where_defined(z, gamma_density(a, x))),
    domain=lambda a, x: and_(a >= 0, x >= 0), singular=lambda a, x: and_(equal(x, 0), a < 1),
    ulp_bound=1500, summary="the regularised lower incomplete gamma function",
)  # fmt: skip
gammaincc = elementary(
    "gammaincc", lambda z, a, x: (-gammainc_slope(a, x), where_defined(z, -gamma_density(a, x))),
    domain=lambda a, x: and_(a >= 0, x >= 0), singular=lambda a, x: and_(equal(x, 0), a < 1),
    ulp_bound=1500, summary="the regularised upper incomplete gamma function, 1 - gammainc(a, x)",
)  # fmt: skip
gammainc_slope = elementary(
    "gammainc_slope", lambda z, a, x: (gammainc_curvature(a, x), where_defined(z, _density_slope(gamma_density(a, x), a, x))),
    summary="the derivative of gammainc(a, x) with respect to a", **_SHAPE_DERIVATIVE,
)  # fmt: skip
gammainc_curvature = elementary(
    "gammainc_curvature",
    lambda z, a, x: (_unknown_slope(z), where_defined(z, _density_curvature(gamma_density(a, x), a, x))),
    unavailable_inputs=(0,), argument_ulps=64, perturbed_input=-2, summary="the second derivative of gammainc(a, x) with respect to a", **_SHAPE_DERIVATIVE,
)  # fmt: skip


# --- Log-densities ---

# log(1 + x²). The tables of numbers compute it accurately also where the square overflows.
log1p_square = helper("log1p_square", lambda z, x: 2 * x * atan_slope(x), lambda x: log1p(x**2), parity=1)


class LogDensity(NamedTuple):
    """The log-density of a distribution: an operation on a number and the arguments of the distribution.

    Attributes:
        op: the operation.
        positive: the names of the arguments that must be positive.
        support: the range of the number; None if the arguments are its ends.
    """

    op: Op
    positive: tuple[str, ...]
    support: tuple[float, float] | None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the arguments."""
        return self.op.parameters[1:]


LOG_DENSITIES: dict[str, LogDensity] = {}  # log-densities by the name of the distribution


def _declare_log_density(
    name: str,
    formula: Callable[..., Node],
    positive: str,
    support: tuple[float, float] | None,
    is_outside: Callable[..., Node] | None = None,
    singular: Callable[..., Node] | None = None,
    defaults: tuple[int, ...] = (),
) -> None:
    """Declare the operation `NAME_logpdf` from a formula that holds in the support of the density.

    Outside of the support it is -inf, with slope 0. Unless the arguments named in `positive` are positive, and the ends
    of a support are in order, it is undefined. `singular` is true outside and at the ends where it or a slope is
    infinite; by default, outside only. `defaults` are the default values of the last arguments.
    """
    parameters = tuple(inspect.signature(formula).parameters)
    places = [parameters.index(argument) for argument in positive.split()]

    def complete(inputs: tuple[Node, ...]) -> tuple[Node, ...]:
        return (*inputs, *map(as_node, defaults[len(defaults) + len(inputs) - len(parameters) :]))

    def domain(*inputs: Node) -> Node:
        inputs = complete(inputs)
        return reduce(and_, [inputs[k] > 0 for k in places]) if places else inputs[1] < inputs[2]

    def expansion(*inputs: Node) -> Node:
        value = formula(*complete(inputs))
        if is_outside:
            # The domain refuses parameters that are nan, except for a location; `floor` passes nan on, without a slope.
            outside = -constant("inf") - abs_(floor(inputs[1])) if places and 1 not in places else -constant("inf")
            value = where(is_outside(*inputs), outside, value)
        return where(domain(*inputs), value, constant("nan"))

    def rule(z: Node, *inputs: Node) -> tuple[Node, ...]:
        slopes = gradient_nodes(formula(*complete(inputs)), inputs)
        slopes = [where(is_outside(*inputs), 0, slope) for slope in slopes] if is_outside else slopes
        return tuple(where_defined(z, slope) for slope in slopes)

    op = elementary(
        f"{name}_logpdf", rule, expansion=expansion, parameters=parameters,
        min_inputs=len(parameters) - len(defaults), max_inputs=len(parameters), domain=domain,
        singular=singular or is_outside, ulp_bound=4000,
        summary=f"the log-density of the {name.replace('_', '-')} distribution at x",
    )  # fmt: skip
    LOG_DENSITIES[name] = LogDensity(op, tuple(positive.split()), support)


def _normal(x: Node, mu: Node, sigma: Node) -> Node:
    return -(square((x - mu) / sigma) / 2) - log(sigma) - log(2 * pi) / 2


_REALS = (-math.inf, math.inf)
_FROM_0_ON = (0.0, math.inf), lambda x, *_: x < 0
# fmt: off
_declare_log_density("normal", _normal, "sigma", _REALS, defaults=(0, 1))
_declare_log_density("lognormal", lambda x, mu, sigma: _normal(log(x), mu, sigma) - log(x), "sigma", (0.0, math.inf), lambda x, mu, sigma: x <= 0)
_declare_log_density("student_t", lambda x, nu, mu, sigma: -((nu + 1) / 2 * log1p_square((x - mu) / (sigma * sqrt(nu)))) - log(beta(constant("0.5"), nu / 2)) - log(nu) / 2 - log(sigma), "nu sigma", _REALS, defaults=(0, 1))
_declare_log_density("cauchy", lambda x, mu, sigma: -log1p_square((x - mu) / sigma) - log(pi * sigma), "sigma", _REALS, defaults=(0, 1))
_declare_log_density("half_normal", lambda x, sigma: -(square(x / sigma) / 2) - log(sigma) + log(2 / pi) / 2, "sigma", *_FROM_0_ON)
_declare_log_density("half_cauchy", lambda x, sigma: -log1p_square(x / sigma) - log(pi / 2 * sigma), "sigma", *_FROM_0_ON)
_declare_log_density("exponential", lambda x, rate: log(rate) - rate * x, "rate", *_FROM_0_ON)
_declare_log_density("gamma", lambda x, shape, rate: times_log(shape - 1, x) + shape * log(rate) - rate * x - lgamma(shape), "shape rate", *_FROM_0_ON,
    lambda x, shape, rate: x <= 0)
_declare_log_density("beta", lambda x, a, b: times_log(a - 1, x) + times_log(b - 1, 1 - x) + lgamma(a + b) - lgamma(a) - lgamma(b), "a b", (0.0, 1.0),
    lambda x, a, b: or_(x < 0, x > 1), lambda x, a, b: or_(x <= 0, x >= 1))
_declare_log_density("uniform", lambda x, low, high: x - x - log(high - low), "", None, lambda x, low, high: or_(x < low, x > high))  # nan propagates
# fmt: on


# sinh(x)/x and its derivatives, and cosh(x)/x: the hyperbolic counterparts of sinc. The textbook derivative,
# (cosh(x) - sinhc(x))/x, cancels near 0, so the n-th derivative is a separate operation.
sinhc = elementary(
    "sinhc", lambda z, x: sinhc_derivative(1, x), parity=1, summary="sinh(x)/x, and 1 at 0", is_positive=True
)
sinhc_derivative = elementary(
    "sinhc_derivative", lambda z, n, x: (constant("nan"), sinhc_derivative(n + 1, x)), **_OF_ORDER, ulp_bound=16,
    summary="the n-th derivative of sinh(x)/x at x",
)  # fmt: skip
cos_over_x = helper("cos_over_x", lambda z, x: -(sinc(x) + z / x), lambda x: cos(x) / x)
cosh_over_x = helper("cosh_over_x", lambda z, x: sinhc(x) - z / x, lambda x: cosh(x) / x)

# exp(x)/x, computed without overflow where exp(x) alone would overflow.
exp_over_x = helper("exp_over_x", lambda z, x: z - z / x, lambda x: exp(x) / x)

# sin(πx²/2) and cos(πx²/2). The tables of numbers correct for the rounding error of the square.
chirp_sine = helper("chirp_sine", lambda z, x: pi * x * chirp_cosine(x), lambda x: sin(pi * x**2 / 2))
chirp_cosine = helper("chirp_cosine", lambda z, x: -(pi * x * chirp_sine(x)), lambda x: cos(pi * x**2 / 2))

# fmt: off
Ei  = elementary("Ei",  lambda z, x: exp_over_x(x),             **POLE_AT_0, ulp_bound=24, argument_ulps=32, summary="the exponential integral: the integral of exp(t)/t from -inf to x")
Si  = elementary("Si",  lambda z, x: sinc(x),               summary="the sine integral: the integral of sin(t)/t from 0 to x", parity=-1)
Ci  = elementary("Ci",  lambda z, x: where_defined(z, cos_over_x(edge_distance(x))), **FROM_0, ulp_bound=16, argument_ulps=32, summary="the cosine integral: minus the integral of cos(t)/t from x to inf")
Shi = elementary("Shi", lambda z, x: sinhc(x),              ulp_bound=16, summary="the hyperbolic sine integral: the integral of sinh(t)/t from 0 to x", parity=-1)
Chi = elementary("Chi", lambda z, x: where_defined(z, cosh_over_x(edge_distance(x))),   **FROM_0, ulp_bound=16, argument_ulps=32, summary="the hyperbolic cosine integral: its slope is cosh(x)/x")

fresnels = elementary("fresnels", lambda z, x: chirp_sine(x),   summary="Fresnel's integral of sin(pi*t^2/2) from 0 to x", parity=-1)
fresnelc = elementary("fresnelc", lambda z, x: chirp_cosine(x), summary="Fresnel's integral of cos(pi*t^2/2) from 0 to x", parity=-1)
# fmt: on
