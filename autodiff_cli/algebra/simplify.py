"""Formulas tidied for evaluating: what a derivation leaves behind goes, the order of operations stays.

A rewrite never changes a value where the original is finite, beyond the rounding of its last digits. Each rule looks at
one operation and its inputs, which are simplified already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from autodiff_cli.algebra.exact import number
from autodiff_cli.algebra.table import NodeTable, Rewrite, as_it_stands
from autodiff_cli.graph.node import Node, constant, is_literal
from autodiff_cli.graph.op import ONE, ZERO, Op
from autodiff_cli.graph.tape import topological
from autodiff_cli.ops.arithmetic import add, div, mul, neg, sub
from autodiff_cli.ops.elementary import pow_, pow_slope_base, square
from autodiff_cli.ops.gamma import gamma_density

_EXACT = 2**53  # floats hold every whole number up to here
_TWO = constant("2")

Rule = Callable[..., Node | None]


def simplify(roots: Sequence[Node], scalar: bool = True) -> list[Node]:
    """The same graphs without what costs time and says nothing: numbers folded, terms of 0 and factors of 1 gone, signs
    gathered, equal sub-expressions shared. The order of operations stays; `readable` goes further.

    Args:
        scalar: whether every variable is a number. A product of an array and 0 is kept, for its shape.

    >>> from autodiff_cli.language.lowering import read
    >>> from autodiff_cli.language.printer import to_text
    >>> to_text(simplify([read("1*x + (2 + 3)*y - 0").output])[0])
    'x + 5*y'
    """
    return NodeTable(simplifying(scalar and is_scalar(roots))).rebuild(roots)


def simplifying(scalar: bool) -> Rewrite:
    """The rules, for a table that is to simplify what is made in it.

    Args:
        scalar: whether everything is a number.

    >>> from autodiff_cli.graph.node import constant, variable
    >>> table = NodeTable(simplifying(scalar=True))
    >>> table.apply(mul, table.leaf(constant("1")), table.leaf(variable("x")))
    <input x>
    """
    return _FOR_NUMBERS if scalar else _FOR_ARRAYS


def is_scalar(roots: Sequence[Node]) -> bool:
    """Whether graphs have no operation on whole arrays.

    >>> from autodiff_cli.language.lowering import read
    >>> is_scalar([read("x*y").output]), is_scalar([read("sum(v)").output])
    (True, False)
    """
    return not any(node.op is not None and node.op.structural for node in topological(roots))


def _rewriting(rules: Mapping[Op, Rule]) -> Rewrite:
    """Arithmetic on literals folded, then the rules."""

    def rewrite(table: NodeTable, op: Op, inputs: tuple[Node, ...]) -> Node:
        if op in _ARITHMETIC:
            folded = _fold(op, inputs)
            if folded is not None:
                return _literal(table, folded)
        rule = rules.get(op)
        found = rule(table, *inputs) if rule is not None else None
        return as_it_stands(table, op, inputs) if found is None else found

    return rewrite


# --- rules: what an operation on these inputs is; None for the operation itself


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
    """2*(3*x) is 6*x, x*(3*y) is 3*(x*y)."""
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


def _slope(table: NodeTable, base: Node, exponent: Node) -> Node | None:
    """The slope of a power whose exponent is a number: it needs no guard, and 1 goes off exactly."""
    less = _fold(sub, (exponent, ONE))
    if less is None:
        return None
    return table.apply(mul, exponent, table.apply(pow_, base, _literal(table, less)))


def _density(table: NodeTable, a: Node, _: Node) -> Node | None:
    """The slope of an incomplete gamma function, divided by gamma(a), whose poles are 0 and the whole numbers below."""
    exact = _exact(a)
    return table.leaf(ZERO) if exact is not None and exact <= 0 and exact.denominator == 1 else None


def _square(table: NodeTable, a: Node) -> Node:
    return table.apply(pow_, a, table.leaf(_TWO))


# Where nothing has a shape to keep, also a product with 0, and a power of exponent 0, is a number.


def _number_mul(table: NodeTable, a: Node, b: Node) -> Node | None:
    return table.leaf(ZERO) if is_literal(a, 0) or is_literal(b, 0) else _mul(table, a, b)


def _number_div(table: NodeTable, a: Node, b: Node) -> Node | None:
    return table.leaf(ZERO) if is_literal(a, 0) else _div(table, a, b)


def _number_pow(table: NodeTable, a: Node, b: Node) -> Node | None:
    return table.leaf(ONE) if is_literal(b, 0) else _pow(table, a, b)


_RULES: dict[Op, Rule] = {
    add: _add,
    sub: _sub,
    neg: _neg,
    mul: _mul,
    div: _div,
    pow_: _pow,
    pow_slope_base: _slope,
    square: _square,
}
# --- numbers


def _literal(table: NodeTable, value: Fraction) -> Node:
    whole = value.denominator == 1
    size = table.leaf(constant(str(abs(value.numerator)) if whole else repr(float(abs(value)))))
    return table.apply(neg, size) if value < 0 else size


def _exact(node: Node) -> Fraction | None:
    """The number that a literal, or a negated literal, stands for; None for anything else."""
    if node.op is neg:
        size = _exact(node.inputs[0])
        return None if size is None else -size
    if not node.is_constant:
        return None
    literal = number(node.text)
    return None if literal is None else Fraction(literal.value)


def _fold(op: Op, inputs: tuple[Node, ...]) -> Fraction | None:
    """The exact result of arithmetic on literals, if a float holds it as written; else None."""
    if op is neg and inputs[0].is_constant:
        return None
    numbers: list[Fraction] = []
    for node in inputs:
        exact = _exact(node)
        if exact is None:
            return None
        numbers.append(exact)
    result = _ARITHMETIC[op](*numbers)
    if result is None or not abs(result) <= _EXACT:
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

_FOR_ARRAYS = _rewriting(_RULES)
_FOR_NUMBERS = _rewriting({**_RULES, mul: _number_mul, div: _number_div, pow_: _number_pow, gamma_density: _density})
