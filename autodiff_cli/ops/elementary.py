"""Powers, exponentials, logarithms, trigonometric and hyperbolic functions, with their inverses.

Rules are chosen for accuracy and may differ from textbooks. As the derivative of tanh, `1 - z²` has no correct digit
left at x = 20, while `1/cosh(x)²` loses none; and dividing twice does not overflow where the square does. Where a
derivative is infinite, the rule returns an infinity, not nan.
"""

from __future__ import annotations

from autodiff_cli.graph.node import Precedence, constant
from autodiff_cli.ops.arithmetic import abs_, and_, equal, floor, not_equal, or_, quotient_slope, where
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
    "pow_slope_base",
    lambda z, x, y: (scaled_slope_base(y, x, y - 1), x ** (y - 1) + times_log(z, x)),
    lambda x, y: y * x ** (y - 1),
)
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
    "pow_slope_exponent",
    lambda z, x, y: (times_log(pow_slope_base(x, y), x) + x ** (y - 1), times_log(z, x)),
    lambda x, y: x**y * log(x),
    vanishes=lambda x, y: and_(equal(x, 0), y > 0),
)
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
