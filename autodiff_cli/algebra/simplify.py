"""Simplification of graphs for evaluation, with exact arithmetic on literals, and signs that are known in advance.

`simplify` removes what differentiation leaves behind (terms of 0, factors of 1), and keeps the order of operations.
Where the original is finite, values change in their last digits at most. Each rule looks at one operation and its
inputs, which are simplified already. `readable` goes further, for people.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from autodiff_cli.algebra.patterns import Row, a, b, c, rewrite_by
from autodiff_cli.algebra.table import NodeTable, Rewrite
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, constant, is_exactly, variable
from autodiff_cli.graph.op import ONE, ZERO, Op
from autodiff_cli.graph.tape import topological_order
from autodiff_cli.numbers.floats import CONSTANTS
from autodiff_cli.ops.arithmetic import abs_, add, div, max_, mul, neg, sub
from autodiff_cli.ops.elementary import cbrt, hypot, log, pow_, pow_slope_base, sqrt, square
from autodiff_cli.ops.special import gamma_density

# --- Exact numbers


@dataclass(frozen=True)
class LiteralLimits:
    """Limits of exact numbers, so that arithmetic on them stays fast and their literals readable."""

    numerator: int = 10**30  # numbers with a larger numerator or denominator are not combined with others
    plain_integer: int = 10**15  # larger integers are written in scientific notation, like floats
    literal_length: int = 40  # characters; longer literals are left as they are
    fraction_part: int = 100  # decimals become fractions only up to this numerator and denominator


LIMITS = LiteralLimits()


class ExactNumber(NamedTuple):
    """An exact number.

    Attributes:
        value: the number.
        is_decimal: whether it came from a decimal: 0.5 stays 0.5, and 1/2 stays 1/2.
    """

    value: Fraction | int
    is_decimal: bool = False

    def __neg__(self) -> ExactNumber:
        return ExactNumber(-self.value, self.is_decimal)

    def plus(self, other: ExactNumber) -> ExactNumber:
        """Return the sum of two numbers."""
        return ExactNumber(self.value + other.value, self.is_decimal or other.is_decimal)

    def times(self, other: ExactNumber) -> ExactNumber:
        """Return the product of two numbers."""
        if other == UNIT:
            return self
        return other if self == UNIT else ExactNumber(self.value * other.value, self.is_decimal or other.is_decimal)

    def power(self, exponent: int) -> ExactNumber:
        """Return an integer power. The exponent of 0 must be positive."""
        return self if self.value == 1 else ExactNumber(Fraction(self.value) ** exponent, self.is_decimal)

    def root(self) -> ExactNumber | None:
        """Return the square root; None if it is not rational, or 0."""
        if self.value <= 0:
            return None
        above, below = math.isqrt(self.value.numerator), math.isqrt(self.value.denominator)
        root = Fraction(above, below)
        return ExactNumber(root, self.is_decimal) if root * root == self.value else None

    @property
    def magnitude(self) -> Fraction | int:
        """The absolute value."""
        return -self.value if self.value < 0 else self.value

    @property
    def is_integer(self) -> bool:
        """Whether the number is an integer."""
        return self.value.denominator == 1

    @property
    def is_short(self) -> bool:
        """Whether the number is short enough to be combined with others."""
        return abs(self.value.numerator) <= LIMITS.numerator and self.value.denominator <= LIMITS.numerator

    def quotient(self) -> tuple[Node, Node | None]:
        """Return the absolute value as literals: a numerator, and a denominator or None."""
        size = self.magnitude
        above, below = size.numerator, size.denominator
        if below == 1 and above < LIMITS.plain_integer:
            return constant(str(above)), None
        text = repr(float(size)).removesuffix(".0")
        longest = LIMITS.fraction_part if self.is_decimal else LIMITS.plain_integer
        if below == 1 or max(above, below) > longest or (self.is_decimal and Fraction(text) == size):
            return constant(text), None
        return constant(str(above)), constant(str(below))


UNIT = ExactNumber(1)


def common_divisor(numbers: Iterable[ExactNumber]) -> ExactNumber:
    """Return the greatest common divisor of numbers, negative if all of them are; ±1 if one is a decimal."""
    listed = list(numbers)
    sign = -1 if all(number.value < 0 for number in listed) else 1
    if any(number.is_decimal for number in listed):
        return ExactNumber(sign)
    above = math.gcd(*(number.value.numerator for number in listed))
    below = math.lcm(*(number.value.denominator for number in listed))
    return ExactNumber(Fraction(sign * above, below))


@functools.lru_cache(4096)
def exact_number(text: str) -> ExactNumber | None:
    """Return the exact number of a literal; None for a named constant, and for a literal that no float represents."""
    if len(text) < 16 and text.isascii() and text.isdigit():
        return ExactNumber(int(text))
    if len(text) > LIMITS.literal_length:
        return None
    try:
        size = float(text)
    except ValueError:
        return None
    if size == 0:  # the text may be a number below the smallest float
        return ExactNumber(0) if is_exactly(text, 0) else None
    if size > LIMITS.numerator or size < 1 / LIMITS.numerator or math.isnan(size):
        return None
    exact = Fraction(text)
    if Fraction(repr(size)) != exact:
        return None
    return ExactNumber(exact, exact.denominator > 1)


# --- Simplification

_MAX_EXACT_INTEGER = 2**53  # floats represent every integer up to here


def simplify(roots: Sequence[Node], scalar: bool = True) -> list[Node]:
    """Simplify graphs for evaluation.

    Literals are folded, terms of 0 and factors of 1 removed, signs combined, and equal sub-expressions shared. The
    order of operations stays.

    Args:
        roots: the graphs.
        scalar: whether every variable is a number. If not, a product of an array and 0 is kept for its shape.

    >>> from autodiff_cli.language.program import read
    >>> from autodiff_cli.language.printer import to_text
    >>> to_text(simplify([read("1*x + (2 + 3)*y - 0").output])[0])
    'x + 5*y'
    """
    return NodeTable(simplification_rules(scalar and is_scalar(roots))).rebuild(roots)


def simplification_rules(scalar: bool) -> Rewrite:
    """Return the rules of simplification, for a `NodeTable`.

    Args:
        scalar: whether all nodes are numbers.

    >>> from autodiff_cli.graph.node import constant, variable
    >>> table = NodeTable(simplification_rules(scalar=True))
    >>> table.apply(mul, table.leaf(constant("1")), table.leaf(variable("x")))
    <input x>
    """
    return _SCALAR_RULES if scalar else _ARRAY_RULES


def is_scalar(roots: Sequence[Node]) -> bool:
    """Whether graphs have no operations on whole arrays.

    >>> from autodiff_cli.language.program import read
    >>> is_scalar([read("x*y").output]), is_scalar([read("sum(v)").output])
    (True, False)
    """
    return not any(node.op is not None and node.op.is_structural for node in topological_order(roots))


def _literal(table: NodeTable, value: Fraction) -> Node:
    is_integer = value.denominator == 1
    size = table.leaf(constant(str(abs(value.numerator)) if is_integer else repr(float(abs(value)))))
    return table.apply(neg, size) if value < 0 else size


def literal_value(node: Node) -> Fraction | None:
    """Return the exact number of a literal or a negated literal; None for other nodes.

    >>> literal_value(-constant("0.5")), literal_value(constant("pi"))
    (Fraction(-1, 2), None)
    """
    if node.op is neg:
        size = literal_value(node.inputs[0])
        return None if size is None else -size
    literal = exact_number(node.text) if node.is_constant else None
    return None if literal is None else Fraction(literal.value)


def _fold(op: Op, inputs: tuple[Node, ...]) -> Fraction | None:
    """Return the exact result of arithmetic on literals; None if the inputs are not literals, or no float equals it."""
    if op is neg and inputs[0].is_constant:
        return None
    numbers: list[Fraction] = []
    for node in inputs:
        exact = literal_value(node)
        if exact is None:
            return None
        numbers.append(exact)
    result = _ARITHMETIC[op](*numbers)
    if result is None or not abs(result) <= _MAX_EXACT_INTEGER:
        return None
    if result.denominator == 1:
        return result
    decimal = any(number.denominator > 1 for number in numbers)  # 1/2 stays a quotient, 0.5 a decimal
    return result if decimal and Fraction(repr(float(result))) == result else None


def _power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator != 1 or not 0 <= exponent <= 64 or (base.numerator == 0 and exponent == 0):
        return None
    power: Fraction = base ** int(exponent)
    return power


_ARITHMETIC: dict[Op, Callable[..., Fraction | None]] = {
    add: lambda a, b: a + b,
    sub: lambda a, b: a - b,
    mul: lambda a, b: a * b,
    div: lambda a, b: a / b if b else None,
    neg: lambda a: -a,
    pow_: _power,
}


def _fold_arithmetic(table: NodeTable, op: Op, inputs: tuple[Node, ...]) -> Node | None:
    folded = _fold(op, inputs) if op in _ARITHMETIC else None
    return None if folded is None else _literal(table, folded)


_ROWS = (
    Row(a + 0, a), Row(0 + a, a), Row(a + -b, a - b), Row(-a + b, b - a),
    Row(a - 0, a), Row(0 - a, -a), Row(a - -b, a + b),
    Row(neg(-a), a), Row(-(a - b), b - a),
    Row(1 * a, a), Row(a * 1, a), Row(-a * b, -(a * b)), Row(a * -b, -(a * b)),
    Row(a * b, b * a, lambda a, b: b.is_constant and not a.is_constant, (a, b)),
    Row(a * (b * c), b * (a * c), lambda a, b: b.is_constant and not a.is_constant, (a, b)),
    Row(a * (b * c), (a * b) * c, lambda a, b: _fold(mul, (a, b)) is not None, (a, b)),
    Row((1 / a) * b, b / a), Row(a * (1 / b), a / b), Row(a * a, a**2),
    Row(a / 1, a), Row(-a / b, -(a / b)), Row(a / -b, -(a / b)),
    Row(a**1, a), Row(square(a), a**2),
    Row(pow_slope_base(a, b), b * a ** (b - 1), lambda b: _fold(sub, (b, ONE)) is not None, (b,)),
)  # fmt: skip

# If all nodes are numbers, no shape has to be kept. An incomplete gamma function has the slope 0 where gamma(a), its
# divisor, has a pole.
_SCALAR_ROWS = (
    Row(0 * a, ZERO), Row(a * 0, ZERO), Row(0 / a, ZERO), Row(a**0, ONE),
    Row(gamma_density(a, b), ZERO, lambda a: (n := literal_value(a)) is not None and n <= 0 and n % 1 == 0, (a,)),
)  # fmt: skip
_ARRAY_RULES = rewrite_by(_ROWS, then=_fold_arithmetic)
_SCALAR_RULES = rewrite_by((*_SCALAR_ROWS, *_ROWS), then=_fold_arithmetic)


# --- Signs

_MAX_DEPTH = 12  # operations below a node that are examined; the search is exponential in it
_SIGN_PRESERVING_OPS = {sqrt, cbrt, abs_, square, mul, div}


def is_positive(node: Node, depth: int = _MAX_DEPTH) -> bool:
    """Whether a number is certainly greater than 0 wherever it has a value.

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
    if depth == 0:
        return False
    some = (is_positive(child, depth - 1) for child in inputs)
    if op is add:
        return any(some) and all(is_nonnegative(child, depth - 1) for child in inputs)
    if op is hypot or op is max_:
        return any(some)
    if op is log:
        literal = exact_number(inputs[0].text) if inputs[0].is_constant else None
        return literal is not None and literal.value > 1
    return next(some) if op is pow_ else op in _SIGN_PRESERVING_OPS and all(some)


def _is_positive_literal(leaf: Node) -> bool:
    literal = exact_number(leaf.text) if leaf.is_constant else None
    if literal is None:
        return leaf.is_constant and CONSTANTS.get(leaf.text, 0) > 0
    return literal.value > 0


def is_nonnegative(node: Node, depth: int = _MAX_DEPTH) -> bool:
    """Whether a number is certainly 0 or greater wherever it has a value.

    >>> from autodiff_cli.graph.node import variable
    >>> x = variable("x")
    >>> is_nonnegative(sqrt(x)), is_nonnegative(x)
    (True, False)
    """
    op, inputs = node.op, node.inputs
    if op is sqrt or op is abs_ or op is square or op is hypot or (op is mul and inputs[0] is inputs[1]):
        return True
    if op is pow_ and inputs[1].is_constant and (exponent := exact_number(inputs[1].text)) is not None:
        return exponent.value % 2 == 0 or is_positive(inputs[0], depth)
    if depth and (op is add or op is mul or op is div):
        return all(is_nonnegative(child, depth - 1) for child in inputs)
    return is_positive(node, depth)


def is_increasing(node: Node) -> bool:
    """Whether a function of one number is certainly increasing wherever it has a value.

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
    return is_positive(slope)
