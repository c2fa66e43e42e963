"""The gamma family: gamma, its logarithm and that one's derivatives, beta, and the incomplete gamma functions.

Closed under differentiation: `polygamma(n, x)` has all derivatives of digamma. Towards the order n, and towards the
first argument of the incomplete functions, no derivative is known.
"""

from __future__ import annotations

from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.op import Op
from autodiff_cli.ops.arithmetic import and_, equal, floor, not_, or_
from autodiff_cli.ops.declare import elementary, helper
from autodiff_cli.ops.elementary import exp, log

# Rules may name operations that are defined further down.
digamma: Op
polygamma: Op


def _unknown(z: Node) -> Node:
    """nan, and so are the derivatives of it: it counts as depending on all inputs."""
    return constant("nan") * z


def _at_pole(x: Node) -> Node:
    return and_(x <= 0, equal(floor(x), x))


def _off_poles_below_0(x: Node) -> Node:
    return not_(and_(x < 0, equal(floor(x), x)))


gamma = elementary(
    "gamma", lambda z, x: z * digamma(x), domain=_off_poles_below_0, singular=lambda x: equal(x, 0),
    bound=30, summary="the gamma function: gamma(n + 1) is the factorial of n",
)  # fmt: skip
lgamma = elementary(
    "lgamma", lambda z, x: digamma(x), singular=_at_pole,
    bound=16, summary="log(abs(gamma(x)))",
)  # fmt: skip
digamma = elementary(
    "digamma", lambda z, x: polygamma(1, x), domain=_off_poles_below_0, singular=lambda x: equal(x, 0),
    bound=16, summary="the slope of lgamma",
)  # fmt: skip
polygamma = elementary(
    "polygamma", lambda z, n, x: (_unknown(z), polygamma(n + 1, x)), unavailable=(0,),
    domain=lambda n, x: and_(n >= 0, equal(floor(n), n)), singular=lambda n, x: _at_pole(x),
    bound=32, summary="the n-th derivative of digamma at x",
)  # fmt: skip

# Differences of two polygammas, in numbers with all digits also where b is small beside a.
polygamma_gap: Op = helper(
    "polygamma_gap",
    lambda z, n, a, b: (_unknown(z), polygamma_gap(n + 1, a, b), -polygamma(n + 1, a + b)),
    lambda n, a, b: polygamma(n, a) - polygamma(n, a + b),
)
digamma_gap = helper(
    "digamma_gap",
    lambda z, a, b: (polygamma_gap(1, a, b), -polygamma(1, a + b)),
    lambda a, b: digamma(a) - digamma(a + b),
)
# In numbers finite also where beta is 0 and digamma infinite.
beta_slope = helper("beta_slope", None, lambda a, b: beta(a, b) * digamma_gap(a, b))

beta: Op = elementary(
    "beta", lambda z, a, b: (beta_slope(a, b), beta_slope(b, a)),
    domain=lambda a, b: and_(_off_poles_below_0(a), _off_poles_below_0(b)),
    singular=lambda a, b: or_(equal(a, 0), equal(b, 0)),
    bound=400, summary="gamma(a)*gamma(b)/gamma(a + b)",
)  # fmt: skip

# The slope towards x as the difference of two densities is right at x = 0 too.
gamma_density: Op = helper(
    "gamma_density",
    lambda z, a, x: (z * (log(x) - digamma(a)), gamma_density(a - 1, x) - z),
    lambda a, x: x ** (a - 1) * exp(-x) / gamma(a),
    vanishes=lambda a, x: _at_pole(a),
)
gammainc = elementary(
    "gammainc", lambda z, a, x: (_unknown(z), gamma_density(a, x)), unavailable=(0,),
    domain=lambda a, x: and_(a >= 0, x >= 0), singular=lambda a, x: and_(equal(x, 0), a < 1),
    bound=1500, summary="the regularised lower incomplete gamma function",
)  # fmt: skip
gammaincc = elementary(
    "gammaincc", lambda z, a, x: (_unknown(z), -gamma_density(a, x)), unavailable=(0,),
    domain=lambda a, x: and_(a >= 0, x >= 0), singular=lambda a, x: and_(equal(x, 0), a < 1),
    bound=1500, summary="the regularised upper incomplete gamma function, 1 - gammainc(a, x)",
)  # fmt: skip
