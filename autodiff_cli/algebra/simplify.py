"""Simplification of graphs for evaluation, and signs that are known in advance.

`simplify` removes factors of 1, which differentiation creates, and other operations that round nothing. So results keep
every bit, also the sign of a zero, and comparisons fall on the same side. Only slopes of powers may differ in their
last digits. Each rule looks at one operation and its inputs, which are simplified already. `readable` goes further,
for people.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from fractions import Fraction

from autodiff_cli.algebra.exact import exact_number, literal_value
from autodiff_cli.algebra.table import NodeTable, Row, a, b, c, rewrite_by
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import ONE, ZERO, Node, Op, constant, get_op, variable
from autodiff_cli.graph.tape import infer
from autodiff_cli.numbers.floats import CONSTANTS, FLOATS
from autodiff_cli.ops.arithmetic import abs_, add, div, max_, min_, mul, neg, sub
from autodiff_cli.ops.elementary import cbrt, hypot, log, log2, log10, log_base, pow_, pow_slope_base, sqrt, square
from autodiff_cli.ops.special import gamma_density

_MAX_EXACT_INTEGER = 2**53  # floats represent every integer up to here


def simplify(roots: Sequence[Node]) -> list[Node]:
    """Simplify graphs for evaluation.

    Literals are folded, factors of 1 removed, signs combined, and equal sub-expressions shared. The order of operations
    stays.

    >>> from autodiff_cli.language.program import read
    >>> from autodiff_cli.language.printer import to_text
    >>> to_text(simplify([read("1*x + (2 + 3)*y - 0").output])[0])
    'x + 5*y'
    """
    return NodeTable(SIMPLIFICATION_RULES).rebuild(roots)


def simplify_text(graph: Node) -> Node:
    """Simplify a graph that is only read: it has a quotient in place of a product with a reciprocal, which is rounded
    otherwise.

    >>> from autodiff_cli.language.program import read
    >>> from autodiff_cli.language.printer import to_text
    >>> to_text(simplify_text(read("1*x*(1/y)").output))
    'x/y'
    """
    return NodeTable(TEXT_RULES).rebuild([graph])[0]


def _literal(table: NodeTable, value: Fraction) -> Node:
    size = table.leaf(constant(str(abs(value)) if value.denominator == 1 else repr(float(abs(value)))))
    return table.apply(neg, size) if value < 0 else size


def _fold(op: Op, inputs: tuple[Node, ...]) -> Fraction | None:
    """Return the result of arithmetic on literals; None if inputs are not literals, or floats have another result."""
    if op is neg and inputs[0].is_constant:
        return None
    numbers = [number for node in inputs if (number := literal_value(node)) or (number == 0 and node.is_constant)]
    result = _ARITHMETIC[op](*numbers) if len(numbers) == len(inputs) else None
    if result is None or abs(result) > _MAX_EXACT_INTEGER:
        return None
    decimal = any(number.denominator > 1 for number in numbers)  # 1/2 stays a quotient, 0.5 a decimal
    is_short = result.denominator == 1 or (decimal and Fraction(repr(float(result))) == result)
    # As texts, which differ for 0 and -0.
    return result if is_short and repr(FLOATS.table[op.name](*map(float, numbers))) == repr(float(result)) else None


def _power(base: Fraction, exponent: Fraction) -> Fraction | None:
    is_short = exponent.denominator == 1 and 0 <= exponent <= 64 and (base or exponent)
    return base ** int(exponent) if is_short else None


_ARITHMETIC: dict[Op, Callable[..., Fraction | None]] = {
    add: lambda a, b: a + b,
    sub: lambda a, b: a - b,
    mul: lambda a, b: a * b,
    div: lambda a, b: a / b if b else None,
    neg: lambda a: -a,
    pow_: _power,
}


def _is_doubling(a: Node, b: Node) -> bool:
    """Whether a and b are whole numbers, one of them 2, 4 or 8, so that a*(b*c) and (a*b)*c are the same float."""
    return a.is_constant and b.is_constant and (a.text + b.text).isdecimal() and bool({a.text, b.text} & {*"248"})


def _fold_arithmetic(table: NodeTable, op: Op, inputs: tuple[Node, ...]) -> Node | None:
    folded = _fold(op, inputs) if op in _ARITHMETIC else None
    return None if folded is None else _literal(table, folded)


_ROWS = (
    Row(a - 0, a), Row(a + -b, a - b), Row(-a + b, b - a), Row(a - -b, a + b), Row(neg(-a), a),
    Row(1 * a, a), Row(a * 1, a), Row(-a * b, -(a * b)), Row(a * -b, -(a * b)),
    Row(a * b, b * a, lambda a, b: b.is_constant and not a.is_constant, (a, b)),
    Row(a * (b * c), (a * b) * c, _is_doubling, (a, b)),
    Row(a * a, a**2), Row(a / 1, a), Row(-a / b, -(a / b)), Row(a / -b, -(a / b)),
    Row(a**1, a), Row(square(a), a**2), Row(log_base(a, 2), log2(a)), Row(log_base(a, 10), log10(a)),
    # The slope of a^0 is 0 everywhere, and so is 0*a^0, which has the shape of the slope.
    Row(pow_slope_base(a, b), b * a**b, lambda b: literal_value(b) == 0, (b,)),
    Row(pow_slope_base(a, b), b * a ** (b - 1), lambda b: _fold(sub, (b, ONE)) is not None, (b,)),
    Row(get_op("scaled_slope_base")(c, a, b), c * pow_slope_base(a, b), lambda c: bool(literal_value(c)), (c,)),
    # An incomplete gamma function has the slope 0 where gamma(a), its divisor, has a pole.
    Row(gamma_density(a, b), ZERO, lambda a: (n := literal_value(a)) is not None and n <= 0 and n % 1 == 0, (a,)),
)  # fmt: skip

SIMPLIFICATION_RULES = rewrite_by(_ROWS, then=_fold_arithmetic)  # for a `NodeTable`
# For graphs that people read: zeros may have another sign, and quotients are rounded otherwise.
_TEXT_ROWS = (
    Row(a + 0, a), Row(0 + a, a), Row(0 - a, -a), Row(-(a - b), b - a),
    Row((1 / a) * b, b / a), Row(a * (1 / b), a / b),
)  # fmt: skip
TEXT_RULES = rewrite_by(_TEXT_ROWS, then=SIMPLIFICATION_RULES)


# --- Signs


class Sign(enum.IntEnum):
    """The sign of a number that is known in advance, for all points at which the number has a value."""

    UNKNOWN = 0
    NONNEGATIVE = 1
    POSITIVE = 2


def sign_of(node: Node, known: dict[Node, Sign] | None = None) -> Sign:
    """Return the sign of a number.

    Args:
        node: the number.
        known: the signs of nodes that were inferred before; it grows.

    >>> x = variable("x")
    >>> [sign_of(node).name for node in (1 + x * x, x * x, sqrt(x), x)]
    ['POSITIVE', 'NONNEGATIVE', 'NONNEGATIVE', 'UNKNOWN']
    """
    signs = {} if known is None else known
    return infer(node, signs, lambda node: _sign(node, [signs[child] for child in node.inputs]))


def _sign(node: Node, signs: Sequence[Sign]) -> Sign:
    """Return the sign of a node, given the signs of its inputs."""
    op, inputs = node.op, node.inputs
    if op is None:
        literal = exact_number(node.text) if node.is_constant else None
        value = CONSTANTS.get(node.text, 0) if literal is None and node.is_constant else literal and literal.value
        return Sign.POSITIVE if value is not None and value > 0 else Sign.UNKNOWN
    if op.is_positive:
        return Sign.POSITIVE
    rule = _SIGN_RULES.get(op)
    sign = Sign.UNKNOWN if rule is None else rule(signs)
    if op is mul and inputs[0] is inputs[1]:
        return max(sign, Sign.NONNEGATIVE)
    exponent = exact_number(inputs[-1].text) if op in (pow_, log) and inputs[-1].is_constant else None
    if op is pow_ and exponent is not None and exponent.value % 2 == 0:
        return max(sign, Sign.NONNEGATIVE)
    return Sign.POSITIVE if op is log and exponent is not None and exponent.value > 1 else sign


# The sign of an operation, given the signs of its inputs.
_SIGN_RULES: dict[Op, Callable[[Sequence[Sign]], Sign]] = {
    add: lambda signs: max(signs) if min(signs) else Sign.UNKNOWN,
    max_: max,
    **dict.fromkeys((mul, div, cbrt, min_), min),
    **dict.fromkeys((sqrt, abs_, square, hypot), lambda signs: max(Sign.NONNEGATIVE, *signs)),
    pow_: lambda signs: Sign.POSITIVE if signs[0] is Sign.POSITIVE else Sign.UNKNOWN,
}


def is_increasing(node: Node) -> bool:
    """Whether a function of one number is certainly increasing on its domain.

    >>> from autodiff_cli.graph.node import variable
    >>> from autodiff_cli.ops.elementary import cos, exp
    >>> x = variable("x")
    >>> is_increasing(exp(x)), is_increasing(cos(x))
    (True, False)
    """
    if node.op is None or len(node.inputs) != 1 or node.op.is_structural:
        return False
    argument = variable("x")
    [slope] = simplify(gradient_nodes(node.op(argument), [argument]))
    return sign_of(slope) is Sign.POSITIVE
