"""Exponential, sine, cosine and Fresnel integrals: functions that have no formula, but a slope that has one."""

from __future__ import annotations

from autodiff_cli.graph.node import constant
from autodiff_cli.graph.op import Op
from autodiff_cli.ops.declare import elementary, helper
from autodiff_cli.ops.elementary import FROM_0, POLE_AT_0, cos, cosh, exp, pi, sin, within
from autodiff_cli.ops.special import is_order, sinc

# Rules may name operations that are defined further down.
chirp_cosine: Op
sinhc_derivative: Op

# cosh(x)/x, and sinh(x)/x with its derivatives, the hyperbolic twins of sinc. (cosh(x) - sinhc(x))/x, the textbook
# slope, cancels near 0; so the n-th derivative is an operation of its own.
sinhc = elementary(
    "sinhc", lambda z, x: sinhc_derivative(1, x), parity=1, summary="sinh(x)/x, and 1 at 0", is_positive=True
)
sinhc_derivative = elementary(
    "sinhc_derivative", lambda z, n, x: (constant("nan"), sinhc_derivative(n + 1, x)), unavailable=(0,), bound=16,
    domain=lambda n, x: is_order(n),
    summary="the n-th derivative of sinh(x)/x at x",
)  # fmt: skip
coshc = helper("coshc", lambda z, x: sinhc(x) - z / x, lambda x: cosh(x) / x)

# exp(x)/x, in numbers finite also where exp(x) alone overflows.
growth = helper("growth", lambda z, x: z - z / x, lambda x: exp(x) / x)

# sin(πx²/2) and cos(πx²/2), in numbers with the square's rounding error carried along.
chirp_sine = helper("chirp_sine", lambda z, x: pi * x * chirp_cosine(x), lambda x: sin(pi * x**2 / 2))
chirp_cosine = helper("chirp_cosine", lambda z, x: -(pi * x * chirp_sine(x)), lambda x: cos(pi * x**2 / 2))

# fmt: off
Ei  = elementary("Ei",  lambda z, x: growth(x),             **POLE_AT_0, bound=24, summary="the exponential integral: of exp(t)/t from -inf to x")
Si  = elementary("Si",  lambda z, x: sinc(x),               summary="the sine integral: of sin(t)/t from 0 to x", parity=-1)
Ci  = elementary("Ci",  lambda z, x: within(z, cos(x) / x), **FROM_0, bound=16, summary="the cosine integral: minus that of cos(t)/t from x to inf")
Shi = elementary("Shi", lambda z, x: sinhc(x),              bound=16, summary="the hyperbolic sine integral: of sinh(t)/t from 0 to x", parity=-1)
Chi = elementary("Chi", lambda z, x: within(z, coshc(x)),   **FROM_0, bound=16, summary="the hyperbolic cosine integral: its slope is cosh(x)/x")

fresnels = elementary("fresnels", lambda z, x: chirp_sine(x),   summary="Fresnel's integral of sin(pi*t^2/2) from 0 to x", parity=-1)
fresnelc = elementary("fresnelc", lambda z, x: chirp_cosine(x), summary="Fresnel's integral of cos(pi*t^2/2) from 0 to x", parity=-1)
# fmt: on
