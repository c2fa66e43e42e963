"""The error functions, the normal distribution and sinc."""

from __future__ import annotations

from autodiff_cli.graph.node import Node, Operand, as_node, constant
from autodiff_cli.graph.op import Op
from autodiff_cli.ops.declare import elementary, helper
from autodiff_cli.ops.elementary import exp, pi, sqrt, square

# exp(-x²) and exp(-x²/2), in numbers with the square's rounding error carried along: far out, that error is hundreds of
# ulps of the result.
bell = helper("bell", lambda z, x: -2 * x * z, lambda x: exp(-(x**2)))
half_bell = helper("half_bell", lambda z, x: -x * z, lambda x: exp(-(x**2) / 2))

# fmt: off
erf  = elementary("erf",  lambda z, x: 2 / sqrt(pi) * bell(x),    summary="the error function")
erfc = elementary("erfc", lambda z, x: -(2 / sqrt(pi) * bell(x)), summary="1 - erf(x), with all digits far right")
# fmt: on


def _standard(x: Node, mean: Operand, deviation: Operand) -> Node:
    return (x - mean) / deviation


def _density_slopes(z: Node, x: Node, mean: Operand = 0, deviation: Operand = 1) -> tuple[Operand, ...]:
    u = _standard(x, mean, deviation)
    return -(z * u / deviation), z * u / deviation, z * (square(u) - 1) / deviation


def _distribution_slopes(_: Node, x: Node, mean: Operand = 0, deviation: Operand = 1) -> tuple[Operand, ...]:
    density = half_bell(_standard(x, mean, deviation)) / (as_node(deviation) * sqrt(2 * pi))
    return density, -density, -(density * _standard(x, mean, deviation))


normal_pdf = elementary(
    "normal_pdf", _density_slopes,
    expansion=lambda x, mean=0, deviation=1: (
        half_bell(_standard(x, mean, deviation)) / (as_node(deviation) * sqrt(2 * pi))
    ),
    domain=lambda x, mean=0, deviation=1: as_node(deviation) > 0,
    summary="the normal density at x, with mean (0) and standard deviation (1)",
)  # fmt: skip
normal_cdf = elementary(
    "normal_cdf", _distribution_slopes, aliases=("Φ",),
    expansion=lambda x, mean=0, deviation=1: erfc(-_standard(x, mean, deviation) / sqrt(2)) / 2,
    domain=lambda x, mean=0, deviation=1: as_node(deviation) > 0,
    summary="the normal distribution function at x, with mean (0) and standard deviation (1)",
)  # fmt: skip

sinc_derivative: Op

# (cos(x) - sinc(x))/x, the textbook slope, cancels near 0; so the n-th derivative is an operation of its own.
sinc = elementary("sinc", lambda z, x: sinc_derivative(1, x), summary="sin(x)/x, and 1 at 0")
sinc_derivative = elementary(
    "sinc_derivative", lambda z, n, x: (constant("nan"), sinc_derivative(n + 1, x)),
    summary="the n-th derivative of sinc at x",
)  # fmt: skip
