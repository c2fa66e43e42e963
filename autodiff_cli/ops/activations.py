"""Activation functions of neural networks, in forms that neither overflow nor lose digits far from 0."""

from __future__ import annotations

from autodiff_cli.graph.node import constant
from autodiff_cli.graph.op import Gate, Op
from autodiff_cli.ops.arithmetic import abs_, equal, or_, quotient_slope
from autodiff_cli.ops.choice import clip, where
from autodiff_cli.ops.declare import composite, elementary, helper
from autodiff_cli.ops.elementary import ZERO_TO_1, expm1, sech_square, tanh, within
from autodiff_cli.ops.special import normal_cdf

# The constants of the self-normalising unit, with the digits that define it everywhere: Klambauer et al. 2017, arXiv
# 1706.02515. As texts: a float would cut them to 17 digits for every kind of number.
SELU_ALPHA = constant("1.6732632423543772848170429916717")
SELU_SCALE = constant("1.0507009873554804934193349852946")

sigmoid: Op
softplus: Op
proportion: Op

# exp(x)/(exp(x) + exp(y)), in numbers with the rounding error of x - y carried along: exp makes much of it.
proportion = helper(
    "proportion", lambda z, x, y: (z * proportion(y, x), -(z * proportion(y, x))), lambda x, y: sigmoid(x - y)
)
# Derived from the texts, their own slopes would cancel in the middle and overflow at the ends.
logit_slope = helper("logit_slope", lambda z, x: z * z * (2 * x - 1), lambda x: 1 / (x * (1 - x)))
sigmoid_slope = helper(
    "sigmoid_slope", lambda z, x: -(z * tanh(x / 2)), lambda x: sigmoid(x) * sigmoid(-x), is_positive=True
)
# In numbers from one exponential, and with all digits also where it alone would underflow.
silu_slope = helper("silu_slope", None, lambda x: sigmoid(x) * (1 + x * sigmoid(-x)))
mish_slope = helper("mish_slope", None, lambda x: tanh(softplus(x)) + x * sech_square(softplus(x)) * sigmoid(x))

# fmt: off
sigmoid    = elementary("sigmoid",    lambda z, x: sigmoid_slope(x),          aliases=("logistic",), ends=(0, 1), textbook=lambda z, x: z * (1 - z), summary="1/(1 + exp(-x))", is_positive=True)
logit      = elementary("logit",      lambda z, x: within(z, logit_slope(x)),    **ZERO_TO_1, summary="log(x/(1 - x))")
softplus   = elementary("softplus",   lambda z, x: sigmoid(x),              is_rectifier=True, summary="log(1 + exp(x))", is_positive=True)
logsigmoid = elementary("logsigmoid", lambda z, x: sigmoid(-x),             summary="log(sigmoid(x))")
logaddexp  = elementary("logaddexp",  lambda z, x, y: (proportion(x, y), proportion(y, x)), summary="log(exp(x) + exp(y))")
softsign   = elementary("softsign",   lambda z, x: quotient_slope(1, 1 + abs_(x)), summary="x/(1 + abs(x))", parity=-1)

elu        = composite("elu",  lambda x: where(x > 0, x, expm1(x)), is_rectifier=True, summary="x where it is positive, else exp(x) - 1")
celu       = composite("celu", lambda x: where(x > 0, x, expm1(x)), is_rectifier=True, summary="x where it is positive, else exp(x) - 1")
gelu       = composite("gelu", lambda x: x * normal_cdf(x),         is_rectifier=True, summary="x*normal_cdf(x), the exact form")
silu       = elementary("silu", lambda z, x: silu_slope(x), expansion=lambda x: x * sigmoid(x), is_rectifier=True, aliases=("swish",))
mish       = elementary("mish", lambda z, x: mish_slope(x), expansion=lambda x: x * tanh(softplus(x)), is_rectifier=True)
# fmt: on

leaky_relu = composite(
    "leaky_relu", lambda x: where(x > 0, x, 0.01 * x), is_rectifier=True,
    kink=lambda x: equal(x, 0), kink_note="the slopes are 0.01 and 1; 0.01 is taken",
)  # fmt: skip
selu = composite(
    "selu", lambda x: where(x >= 0, SELU_SCALE * x, (SELU_SCALE * SELU_ALPHA) * expm1(x)), is_rectifier=True,
    kink=lambda x: equal(x, 0), kink_note="the slopes are 1.758 and 1.051; the smaller is taken",
)  # fmt: skip
hardtanh = composite(
    "hardtanh", lambda x: clip(x, -1, 1), gate=Gate.ROUTE, parity=-1, ends=(-1, 1),
    kink=lambda x: equal(abs_(x), 1), kink_note="the slopes are 0 and 1; 0 is taken",
)  # fmt: skip
relu6 = composite(
    "relu6", lambda x: clip(x, 0, 6), gate=Gate.ROUTE, is_rectifier=True, ends=(0, 6),
    kink=lambda x: or_(equal(x, 0), equal(x, 6)), kink_note="the slopes are 0 and 1; 0 is taken",
)  # fmt: skip
