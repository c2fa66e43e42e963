"""Simplification of graphs for evaluation, with exact arithmetic on literals, and signs that are known in advance.

`simplify` removes what differentiation leaves behind (terms of 0, factors of 1), and keeps the order of operations.
Where the original is finite, values change in their last digits at most. Each rule looks at one operation and its
inputs, which are simplified already. `readable` goes further, for people.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from autodiff_cli.algebra.table import NodeTable, Rewrite, build_node
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, constant, is_exactly, is_literal, variable
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
_TWO = constant("2")

Rule = Callable[..., Node | None]


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


def _rewrite_by(rules: Mapping[Op, Rule]) -> Rewrite:
    """Return a rewrite that folds arithmetic on literals, then applies the rule of the operation."""

    def rewrite(table: NodeTable, op: Op, inputs: tuple[Node, ...]) -> Node:
        if op in _ARITHMETIC:
            folded = _fold(op, inputs)
            if folded is not None:
                return _literal(table, folded)
        rule = rules.get(op)
        rewritten = rule(table, *inputs) if rule is not None else None
        return build_node(table, op, inputs) if rewritten is None else rewritten

    return rewrite


# Rules: each returns the form of an operation on these inputs, or None if the operation stays.


def _add(table: NodeTable, a: Node, b: Node) -> Node | None:
    if is_literal(a, 0):
        return b
    if is_literal(b, 0):
        return a
    if b.op is neg:
        return table.apply(sub, a, b.inputs[0])
    return table.apply(sub, b, a.inputs[0]) if a.op is neg else None


def _sub(table: NodeTable, a: Node, b: Node) -> Node | None:
    if is_literal(b, 0):
        return a
    if is_literal(a, 0):
        return table.apply(neg, b)
    return table.apply(add, a, b.inputs[0]) if b.op is neg else None


def _neg(table: NodeTable, a: Node) -> Node | None:
    if a.op is neg:
        return a.inputs[0]
    return table.apply(sub, a.inputs[1], a.inputs[0]) if a.op is sub else None


def _mul(table: NodeTable, a: Node, b: Node) -> Node | None:
    if is_literal(a, 1):
        return b
    if is_literal(b, 1):
        return a
    if a.op is neg:
        return table.apply(neg, table.apply(mul, a.inputs[0], b))
    if b.op is neg:
        return table.apply(neg, table.apply(mul, a, b.inputs[0]))
    if b.is_constant and not a.is_constant:
        return table.apply(mul, b, a)
    if b.op is mul and b.inputs[0].is_constant:
        return _number_in_front(table, a, *b.inputs)
    if a.op is div and is_literal(a.inputs[0], 1):
        return table.apply(div, b, a.inputs[1])
    if b.op is div and is_literal(b.inputs[0], 1):
        return table.apply(div, a, b.inputs[1])
    return _square(table, a) if a is b else None


def _number_in_front(table: NodeTable, a: Node, factor: Node, rest: Node) -> Node | None:
    """Simplify 2*(3*x) to 6*x, and x*(3*y) to 3*(x*y)."""
    if not a.is_constant:
        return table.apply(mul, factor, table.apply(mul, a, rest))
    folded = _fold(mul, (a, factor))
    return None if folded is None else table.apply(mul, _literal(table, folded), rest)


def _div(table: NodeTable, a: Node, b: Node) -> Node | None:
    if is_literal(b, 1):
        return a
    if a.op is neg:
        return table.apply(neg, table.apply(div, a.inputs[0], b))
    return table.apply(neg, table.apply(div, a, b.inputs[0])) if b.op is neg else None


def _pow(_: NodeTable, a: Node, b: Node) -> Node | None:
    return a if is_literal(b, 1) else None


def _power_slope(table: NodeTable, base: Node, exponent: Node) -> Node | None:
    """Simplify the slope of a power with a literal exponent n to n*x^(n - 1)."""
    less = _fold(sub, (exponent, ONE))
    if less is None:
        return None
    return table.apply(mul, exponent, table.apply(pow_, base, _literal(table, less)))


def _gamma_density(table: NodeTable, a: Node, _: Node) -> Node | None:
    """Simplify the slope of an incomplete gamma function to 0 where gamma(a), its divisor, has a pole."""
    exact = _literal_value(a)
    return table.leaf(ZERO) if exact is not None and exact <= 0 and exact.denominator == 1 else None


def _square(table: NodeTable, a: Node) -> Node:
    return table.apply(pow_, a, table.leaf(_TWO))


# If all nodes are numbers, no shape has to be kept, so products with 0 and powers with the exponent 0 are folded too.


def _scalar_mul(table: NodeTable, a: Node, b: Node) -> Node | None:
    return table.leaf(ZERO) if is_literal(a, 0) or is_literal(b, 0) else _mul(table, a, b)


def _scalar_div(table: NodeTable, a: Node, b: Node) -> Node | None:
    return table.leaf(ZERO) if is_literal(a, 0) else _div(table, a, b)


def _scalar_pow(table: NodeTable, a: Node, b: Node) -> Node | None:
    return table.leaf(ONE) if is_literal(b, 0) else _pow(table, a, b)


_RULES: dict[Op, Rule] = {
    add: _add,
    sub: _sub,
    neg: _neg,
    mul: _mul,
    div: _div,
    pow_: _pow,
    pow_slope_base: _power_slope,
    square: _square,
}


def _literal(table: NodeTable, value: Fraction) -> Node:
    is_integer = value.denominator == 1
    size = table.leaf(constant(str(abs(value.numerator)) if is_integer else repr(float(abs(value)))))
    return table.apply(neg, size) if value < 0 else size


def _literal_value(node: Node) -> Fraction | None:
    """Return the exact number of a literal or a negated literal; None for other nodes."""
    if node.op is neg:
        size = _literal_value(node.inputs[0])
        return None if size is None else -size
    if not node.is_constant:
        return None
    literal = exact_number(node.text)
    return None if literal is None else Fraction(literal.value)


def _fold(op: Op, inputs: tuple[Node, ...]) -> Fraction | None:
    """Return the exact result of arithmetic on literals; None if the inputs are not literals, or no float equals it."""
    if op is neg and inputs[0].is_constant:
        return None
    numbers: list[Fraction] = []
    for node in inputs:
        exact = _literal_value(node)
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

_ARRAY_RULES = _rewrite_by(_RULES)
_SCALAR_RULES = _rewrite_by(
    {**_RULES, mul: _scalar_mul, div: _scalar_div, pow_: _scalar_pow, gamma_density: _gamma_density}
)


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
