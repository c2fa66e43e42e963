"""What is known of a condition before anything is evaluated."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from autodiff_cli.algebra.exact import number
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op
from autodiff_cli.numbers.floats.table import CONSTANTS
from autodiff_cli.ops.arithmetic import (
    and_,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    neg,
    not_,
    not_equal,
    or_,
)  # fmt: skip

COMPARISONS: Mapping[Op, Callable[[Any, Any], bool]] = {
    equal: operator.eq,
    not_equal: operator.ne,
    less: operator.lt,
    less_equal: operator.le,
    greater: operator.gt,
    greater_equal: operator.ge,
}
TURNED = {less: greater, less_equal: greater_equal, greater: less, greater_equal: less_equal}  # from right to left
LOGIC = (and_, or_, not_)
_FINITE = {name: value for name, value in CONSTANTS.items() if math.isfinite(value)}


def decided(op: Op, inputs: tuple[Node, ...]) -> bool | None:
    """Whether a comparison, or `and`, `or`, `not`, holds; None if that depends on values.

    >>> from autodiff_cli.graph.node import constant, variable
    >>> x = variable("x")
    >>> decided(less, (x, x)), decided(less, (constant("2"), constant("pi"))), decided(less, (x, constant("2")))
    (False, True, None)
    """
    if op in COMPARISONS:
        return _compared(op, *inputs)
    truths = [truth(node) for node in inputs]
    if op is not_:
        return None if truths[0] is None else not truths[0]
    settles = op is or_
    return settles if settles in truths else None if None in truths else not settles


def truth(node: Node) -> bool | None:
    """Whether a literal is true, that is, not 0; None for anything else.

    >>> from autodiff_cli.graph.node import constant, variable
    >>> truth(constant("0")), truth(constant("0.5")), truth(variable("x"))
    (False, True, None)
    """
    value = _value(node)
    return None if value is None else value != 0


def _compared(op: Op, a: Node, b: Node) -> bool | None:
    left, right = _value(a), _value(b)
    if left is not None and right is not None:
        return COMPARISONS[op](left, right)
    return False if a is b and (op is less or op is greater) else None  # equal to itself, unless it is nan


def _value(node: Node) -> Fraction | float | None:
    """The number that a literal with or without a sign is."""
    if node.op is neg:
        size = _value(node.inputs[0])
        return None if size is None else -size
    if not node.is_constant:
        return None
    literal = number(node.text)
    return _FINITE.get(node.text) if literal is None else literal.value
