"""What is seen of the sign of a number before it is evaluated."""

from __future__ import annotations

from autodiff_cli.algebra.exact import number
from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.numbers.floats.table import CONSTANTS
from autodiff_cli.ops.arithmetic import abs_, add, div, mul
from autodiff_cli.ops.choice import max_
from autodiff_cli.ops.elementary import cbrt, hypot, log, pow_, sqrt, square

_DEEPEST = 12  # levels that are looked into
_KEEP_SIGN = {sqrt, cbrt, abs_, square, mul, div}


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
    if op is log:
        literal = number(inputs[0].text) if inputs[0].is_constant else None
        return literal is not None and literal.value > 1
    return next(some) if op is pow_ else op in _KEEP_SIGN and all(some)


def _is_positive_literal(leaf: Node) -> bool:
    literal = number(leaf.text) if leaf.is_constant else None
    if literal is None:
        return leaf.is_constant and CONSTANTS.get(leaf.text, 0) > 0
    return literal.value > 0


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


def rises(node: Node) -> bool:
    """Whether a function of one number is seen to grow with it, wherever it has a value.

    >>> from autodiff_cli.graph.node import variable
    >>> from autodiff_cli.ops.elementary import cos, exp
    >>> x = variable("x")
    >>> rises(exp(x)), rises(cos(x))
    (True, False)
    """
    if node.op is None or len(node.inputs) != 1 or node.op.structural:
        return False
    place = variable("x")
    [slope] = simplify(gradient_nodes(node.op(place), [place]))
    return is_positive(slope)
