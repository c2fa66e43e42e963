"""What is seen of the sign of a number before it is evaluated."""

from __future__ import annotations

from autodiff_cli.algebra.exact import number
from autodiff_cli.graph.node import Node
from autodiff_cli.ops.arithmetic import abs_, add, div, mul
from autodiff_cli.ops.choice import max_
from autodiff_cli.ops.elementary import cbrt, hypot, pow_, sqrt, square

_DEEPEST = 12  # levels that are looked into
_KEEP_SIGN = {sqrt, cbrt, abs_, square, mul, div}
_NAMED = {"pi", "tau", "e"}


def is_positive(node: Node, levels: int = _DEEPEST) -> bool:
    """Whether a number is seen to be greater than 0 wherever it has a value.

    >>> from autodiff_cli.graph.node import variable
    >>> x = variable("x")
    >>> is_positive(1 + x * x), is_positive(x * x), is_positive(x)
    (True, False, False)
    """
    op, inputs = node.op, node.inputs
    if op is None:
        return _is_positive_literal(node)
    if op.is_positive:
        return True
    if levels == 0:
        return False
    some = (is_positive(child, levels - 1) for child in inputs)
    if op is add:
        return any(some) and all(is_not_negative(child, levels - 1) for child in inputs)
    if op is hypot or op is max_:
        return any(some)
    return next(some) if op is pow_ else op in _KEEP_SIGN and all(some)


def _is_positive_literal(leaf: Node) -> bool:
    literal = number(leaf.text) if leaf.is_constant else None
    return leaf.text in _NAMED and leaf.is_constant if literal is None else literal.value > 0


def is_not_negative(node: Node, levels: int = _DEEPEST) -> bool:
    """Whether a number is seen to be 0 or greater wherever it has a value.

    >>> from autodiff_cli.graph.node import variable
    >>> x = variable("x")
    >>> is_not_negative(sqrt(x)), is_not_negative(x)
    (True, False)
    """
    op, inputs = node.op, node.inputs
    if op is sqrt or op is abs_ or op is square or op is hypot or (op is mul and inputs[0] is inputs[1]):
        return True
    if op is pow_ and inputs[1].is_constant and (exponent := number(inputs[1].text)) is not None:
        return exponent.value % 2 == 0 or is_positive(inputs[0], levels)
    if levels and (op is add or op is mul or op is div):
        return all(is_not_negative(child, levels - 1) for child in inputs)
    return is_positive(node, levels)
