"""Notations that languages share, and short definitions of operations that a language may lack."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from autodiff_cli.graph.codegen import SUM, Notation
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.ops.arithmetic import equal, max_, min_, where
from autodiff_cli.ops.elementary import cosh, log, log2, log10, sinh, square, tanh
from autodiff_cli.ops.special import exp_minus_half_square, exp_minus_square, exp_square, mish, silu, silu_slope

CODE_WIDTH = 96  # characters of a line of comments or tables in generated code


def infix(symbol: str, binding: int) -> Notation:
    """Return the notation of a left-associative operator between two operands."""
    return Notation(("", symbol, ""), (binding, binding + 1), binding)


def comparison(symbol: str, binding: int) -> Notation:
    """Return the notation of a comparison of two numbers."""
    return Notation(("", f" {symbol} ", ""), (SUM, SUM), binding, is_condition=True)


def shortest_literal(text: str) -> str:
    """Return the shortest text for the float nearest to a decimal number.

    >>> shortest_literal("1E-09"), shortest_literal("2.50"), shortest_literal("100")
    ('1e-9', '2.5', '100')
    """
    return re.sub(r"e([-+]?)0*(\d)", r"e\1\2", repr(float(text))).replace("e+", "e").removesuffix(".0")


def expand_small_power(x: Node, exponent: Node) -> Node | None:
    """Return x² or x³ as a product, and None for other powers; for languages in which a power is a function call."""
    if is_literal(exponent, 2):
        return x * x
    if is_literal(exponent, 3):
        return x * x * x
    return None


def pairwise(operation: Callable[..., Node]) -> Callable[..., Node | None]:
    """Return a definition of a variadic operation by nested operations on two inputs; it returns None for two
    inputs."""

    def nested(first: Node, second: Node, *rest: Node) -> Node | None:
        if not rest:
            return None
        total = operation(first, second)
        for node in rest:
            total = operation(total, node)
        return total

    return nested


def _log_base(x: Node, base: Node) -> Node:
    if is_literal(base, 2):
        return log2(x)
    return log10(x) if is_literal(base, 10) else log(x) / log(base)


# Short definitions of operations that floats compute in longer forms for the last digits or for subnormal results. They
# are what a person would write, and are accurate to 1e-13 wherever the result is a normal number.
SHORT_DEFINITIONS: Mapping[str, Callable[..., Node]] = {
    "sech": lambda x: 1 / cosh(x),
    "csch": lambda x: 1 / sinh(x),
    "coth": lambda x: 1 / tanh(x),
    "sech_square": lambda x: 1 / square(cosh(x)),
    "csch_square": lambda x: 1 / square(sinh(x)),
    "atanh_slope": lambda x: 1 / (1 - x) / (1 + x),
    "atan_slope": lambda x: 1 / (1 + square(x)),
    "direction": lambda x, length: where(equal(length, 0), 0, x / length),
    "clip": lambda x, low, high: min_(max_(x, low), high),
    "log_base": _log_base,
    **{
        op.name: op.expansion
        for op in (silu, silu_slope, mish, exp_minus_square, exp_minus_half_square, exp_square)
        if op.expansion is not None
    },
}
