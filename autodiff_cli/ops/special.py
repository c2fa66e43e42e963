"""The error functions, the normal distribution, sinc and Lambert's W."""

from __future__ import annotations

from autodiff_cli.graph.node import Node, Operand, as_node, constant
from autodiff_cli.graph.op import Op
from autodiff_cli.ops.arithmetic import and_, equal, floor
from autodiff_cli.ops.declare import elementary, helper
from autodiff_cli.ops.elementary import INSIDE_1, exp, pi, sqrt, square

# exp(-x²), exp(-x²/2) and exp(x²), in numbers with the square's rounding error carried along: far out, that error is
# hundreds of ulps of the result.
bell = helper("bell", lambda z, x: -2 * x * z, lambda x: exp(-(x**2)), is_positive=True)
half_bell = helper("half_bell", lambda z, x: -x * z, lambda x: exp(-(x**2) / 2), is_positive=True)
swell = helper("swell", lambda z, x: 2 * x * z, lambda x: exp(x**2), is_positive=True)

# fmt: off
erf    = elementary("erf",    lambda z, x: 2 / sqrt(pi) * bell(x),    summary="the error function", parity=-1)
erfc   = elementary("erfc",   lambda z, x: -(2 / sqrt(pi) * bell(x)), summary="1 - erf(x), with all digits far right", is_positive=True)
erfi   = elementary("erfi",   lambda z, x: 2 / sqrt(pi) * swell(x),   bound=16, summary="the imaginary error function: the integral of 2/sqrt(pi)*exp(t^2) from 0 to x", parity=-1)
erfinv = elementary("erfinv", lambda z, x: sqrt(pi) / 2 * swell(z),   **INSIDE_1, bound=60, summary="the inverse of erf", parity=-1)
# fmt: on


def _standard(x: Node, mean: Operand, deviation: Operand) -> Node:
    return (x - mean) / deviation


def _density_slopes(z: Node, x: Node, mean: Operand = 0, deviation: Operand = 1) -> tuple[Operand, ...]:
    u = _standard(x, mean, deviation)
    return -(z * u / deviation), z * u / deviation, z * (square(u) - 1) / deviation


def _distribution_slopes(_: Node, x: Node, mean: Operand = 0, deviation: Operand = 1) -> tuple[Operand, ...]:
    density = normal_pdf(*(given for given in (x, mean, deviation) if isinstance(given, Node)))
    return density, -density, -(density * _standard(x, mean, deviation))


normal_pdf = elementary(
    "normal_pdf", _density_slopes,
    expansion=lambda x, mean=0, deviation=1: (
        half_bell(_standard(x, mean, deviation)) / (as_node(deviation) * sqrt(2 * pi))
    ),
    domain=lambda x, mean=0, deviation=1: as_node(deviation) > 0, is_positive=True,
    summary="the normal density at x, with mean (0) and standard deviation (1)",
)  # fmt: skip
normal_cdf = elementary(
    "normal_cdf", _distribution_slopes, aliases=("Φ",),
    expansion=lambda x, mean=0, deviation=1: erfc(-_standard(x, mean, deviation) / sqrt(2)) / 2,
    domain=lambda x, mean=0, deviation=1: as_node(deviation) > 0,
    summary="the normal distribution function at x, with mean (0) and standard deviation (1)",
)  # fmt: skip

sinc_derivative: Op


def is_order(n: Node) -> Node:
    """Whether a number says which derivative."""
    return and_(n >= 0, equal(floor(n), n))


# (cos(x) - sinc(x))/x, the textbook slope, cancels near 0; so the n-th derivative is an operation of its own.
sinc = elementary("sinc", lambda z, x: sinc_derivative(1, x), parity=1, summary="sin(x)/x, and 1 at 0")
sinc_derivative = elementary(
    "sinc_derivative", lambda z, n, x: (constant("nan"), sinc_derivative(n + 1, x)), unavailable=(0,), bound=8,
    domain=lambda n, x: is_order(n),
    summary="the n-th derivative of sinc at x",
)  # fmt: skip

lambertw: Op
lambertw_slope: Op
# 1 + W(x), and the slope of W, in numbers with all digits also near the branch point, where they go to 0 and infinity.
lambertw_rise = helper("lambertw_rise", lambda z, x: lambertw_slope(x), lambda x: 1 + lambertw(x))
lambertw_slope = helper("lambertw_slope", None, lambda x: 1 / (exp(lambertw(x)) * lambertw_rise(x)))
lambertw = elementary(
    "lambertw", lambda z, x: lambertw_slope(x),
    domain=lambda x: x >= -1 / constant("e"), singular=lambda x: equal(x, -1 / constant("e")),
    summary="the inverse of w*exp(w), its principal branch, from -1/e on",
)  # fmt: skip
