"""Operations that languages write with others, as graphs; each with the same nan and infinities as in floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.ops.activations import mish, silu, silu_slope
from autodiff_cli.ops.arithmetic import equal, less_equal, sign
from autodiff_cli.ops.choice import max_, min_, where
from autodiff_cli.ops.elementary import atan, cos, cosh, log, log2, log10, sin, sinh, sqrt, square, tan, tanh
from autodiff_cli.ops.special import bell, half_bell, swell

Definition = Callable[..., Node]


def whole_powers(x: Node, exponent: Node) -> Node | None:
    """A power as a product or an inverse, where that is what a person would write; for languages in which powers are
    calls."""
    if is_literal(exponent, 2):
        return x * x
    if is_literal(exponent, 3):
        return x * x * x
    return None


def two_at_a_time(operation: Callable[..., Node]) -> Callable[..., Node | None]:
    """An operation on any number of inputs, as one on two; for languages that have no more of it."""

    def nested(first: Node, second: Node, *rest: Node) -> Node | None:
        if not rest:
            return None
        total = operation(first, second)
        for node in rest:
            total = operation(total, node)
        return total

    return nested


# What floats do in a line without a name.
DEFINITIONS: Mapping[str, Definition] = {
    "quotient_slope": lambda x, y: x / y / y,
    "relu": lambda x: where(less_equal(x, 0), 0, x),
    "heaviside": lambda x: 0.5 * (sign(x) + 1),
    "square": lambda x: x * x,
    "sec": lambda x: 1 / cos(x),
    "csc": lambda x: 1 / sin(x),
    "cot": lambda x: 1 / tan(x),
    "acot": lambda x: atan(1 / x),
    "arc_slope": lambda x: 1 / sqrt((1 - x) * (1 + x)),
}


def _log_base(x: Node, base: Node) -> Node:
    if is_literal(base, 2):
        return log2(x)
    return log10(x) if is_literal(base, 10) else log(x) / log(base)


# What a person would write where floats have a longer form for the last digits, or for results that are hardly numbers
# any more: good to 1e-13 wherever the result is a normal number.
SHORTER: Mapping[str, Definition] = {
    "sech": lambda x: 1 / cosh(x),
    "csch": lambda x: 1 / sinh(x),
    "coth": lambda x: 1 / tanh(x),
    "sech_square": lambda x: 1 / square(cosh(x)),
    "csch_square": lambda x: 1 / square(sinh(x)),
    "pole_pair": lambda x: 1 / (1 - x) / (1 + x),
    "witch": lambda x: 1 / (1 + square(x)),
    "direction": lambda x, length: where(equal(length, 0), 0, x / length),
    "clip": lambda x, low, high: min_(max_(x, low), high),
    "log_base": _log_base,
    **{op.name: op.expansion for op in (silu, silu_slope, mish, bell, half_bell, swell) if op.expansion is not None},
}
