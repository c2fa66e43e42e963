"""Passes that rewrite graphs: tidy what a derivation leaves behind, and share what is equal.

A rewrite never changes a value where the original is finite, beyond the rounding of its last digits. Each pass goes
through the graph once, inputs first, and makes every node through `apply`, which knows the nodes it has made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from autodiff_cli.autodiff.exact import number
from autodiff_cli.graph.collector import collector_paused
from autodiff_cli.graph.node import Node, constant, is_literal
from autodiff_cli.graph.op import ONE, ZERO, Op
from autodiff_cli.graph.tape import topological
from autodiff_cli.ops.arithmetic import add, div, mul, neg, sub
from autodiff_cli.ops.elementary import pow_

_EXACT = 2**53  # floats hold every whole number up to here


def share(roots: Sequence[Node]) -> list[Node]:
    """The same graphs with equal sub-expressions made one node, and `[a, b][0]` as a."""
    return Pass().run(roots)


def simplify(roots: Sequence[Node], scalar: bool = True) -> list[Node]:
    """The same graphs without what costs time and says nothing: numbers folded, terms of 0 and factors of 1 gone, signs
    gathered, equal sub-expressions shared. The order of operations stays; `readable` goes further.

    Args:
        scalar: whether every variable is a number. A product of an array and 0 is kept, for its shape.
    """
    return _Simplify(scalar and is_scalar(roots)).run(roots)


def is_scalar(roots: Sequence[Node]) -> bool:
    """Whether graphs have no operation on whole arrays."""
    return not any(node.op is not None and node.op.structural for node in topological(roots))


class Pass:
    """Rebuilds graphs bottom-up so that equal nodes are one node."""

    def __init__(self) -> None:
        self._made: dict[object, Node] = {}

    def run(self, roots: Sequence[Node]) -> list[Node]:
        new: dict[Node, Node] = {}
        with collector_paused():
            for node in topological(roots):
                new[node] = self.leaf(node) if node.op is None else self.apply(node.op, *[new[i] for i in node.inputs])
        return [new[root] for root in roots]

    def leaf(self, node: Node) -> Node:
        return self._made.setdefault((node.text, node.is_constant), node)

    def apply(self, op: Op, *inputs: Node) -> Node:
        key = (op, *inputs)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self.rewrite(op, inputs)
        return made

    def rewrite(self, op: Op, inputs: tuple[Node, ...]) -> Node:
        taken = _part(*inputs[:2]) if op.name == "index" else None
        if taken is None:
            return Node(op, inputs)
        return self.apply(op, taken, *inputs[2:]) if inputs[2:] else taken


def _part(array: Node, position: Node) -> Node | None:
    """What stands at a position of an array that is written out; None if it is not written out so far."""
    if array.op is None or array.op.name != "stack" or not position.text.isdecimal():
        return None
    return array.inputs[int(position.text)] if int(position.text) < len(array.inputs) else None


class _Simplify(Pass):
    def __init__(self, scalar: bool) -> None:
        super().__init__()
        self._scalar = scalar

    def rewrite(self, op: Op, inputs: tuple[Node, ...]) -> Node:
        folded = _fold(op, inputs)
        if folded is not None:
            return self.number(folded)
        rule = _REWRITES.get(op.name)
        rewritten = rule(self, *inputs) if rule is not None else None
        return Node(op, inputs) if rewritten is None else rewritten

    def number(self, value: Fraction) -> Node:
        whole = value.denominator == 1
        size = self.leaf(constant(str(abs(value.numerator)) if whole else repr(float(abs(value)))))
        return self.apply(neg, size) if value < 0 else size

    def add(self, a: Node, b: Node) -> Node | None:
        if is_literal(a, 0):
            return b
        if is_literal(b, 0):
            return a
        if _is(b, neg):
            return self.apply(sub, a, b.inputs[0])
        if _is(a, neg):
            return self.apply(sub, b, a.inputs[0])
        return None

    def sub(self, a: Node, b: Node) -> Node | None:
        if is_literal(b, 0):
            return a
        if is_literal(a, 0):
            return self.apply(neg, b)
        if _is(b, neg):
            return self.apply(add, a, b.inputs[0])
        return None

    def neg(self, a: Node) -> Node | None:
        if _is(a, neg):
            return a.inputs[0]
        if _is(a, sub):
            return self.apply(sub, a.inputs[1], a.inputs[0])
        return None

    def mul(self, a: Node, b: Node) -> Node | None:
        for one, other in ((a, b), (b, a)):
            if not _is(one, neg) and not one.is_constant:
                continue
            if is_literal(one, 0) and self._scalar:
                return self.leaf(ZERO)
            if is_literal(one, 1):
                return other
            if _is(one, neg):
                return self.apply(neg, self.apply(mul, *((one.inputs[0], b) if one is a else (a, one.inputs[0]))))
        if _is_number(b) and not _is_number(a):
            return self.apply(mul, b, a)
        if _is(b, mul) and _is_number(b.inputs[0]):
            # a number in front: 2*(3*x) is 6*x, x*(3*y) is 3*(x*y)
            factor, rest = b.inputs
            if _is_number(a):
                folded = _fold(mul, (a, factor))
                return None if folded is None else self.apply(mul, self.number(folded), rest)
            return self.apply(mul, factor, self.apply(mul, a, rest))
        if _is(a, div) and is_literal(a.inputs[0], 1):
            return self.apply(div, b, a.inputs[1])
        if _is(b, div) and is_literal(b.inputs[0], 1):
            return self.apply(div, a, b.inputs[1])
        return self.square(a) if a is b else None

    def div(self, a: Node, b: Node) -> Node | None:
        if is_literal(a, 0) and self._scalar:
            return self.leaf(ZERO)
        if is_literal(b, 1):
            return a
        if _is(a, neg):
            return self.apply(neg, self.apply(div, a.inputs[0], b))
        if _is(b, neg):
            return self.apply(neg, self.apply(div, a, b.inputs[0]))
        return None

    def pow(self, a: Node, b: Node) -> Node | None:
        if is_literal(b, 1):
            return a
        if is_literal(b, 0) and self._scalar:
            return self.leaf(ONE)
        return None

    def slope(self, base: Node, exponent: Node) -> Node | None:
        """The slope of a power whose exponent is a number: it needs no guard, and 1 goes off exactly."""
        less = _fold(sub, (exponent, ONE))
        if less is None:
            return None
        return self.apply(mul, exponent, self.apply(pow_, base, self.number(less)))

    def square(self, a: Node) -> Node:
        return self.apply(pow_, a, self.leaf(constant("2")))


_REWRITES: dict[str, Callable[..., Node | None]] = {
    "add": _Simplify.add,
    "sub": _Simplify.sub,
    "neg": _Simplify.neg,
    "mul": _Simplify.mul,
    "div": _Simplify.div,
    "pow": _Simplify.pow,
    "pow_slope_base": _Simplify.slope,
    "square": _Simplify.square,
}


def _is(node: Node, op: Op) -> bool:
    return node.op is op


def _is_number(node: Node) -> bool:
    return node.is_constant or (node.op is neg and node.inputs[0].is_constant)


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
    if op.name not in _ARITHMETIC or (op is neg and inputs[0].is_constant):
        return None
    numbers: list[Fraction] = []
    for node in inputs:
        exact = _exact(node)
        if exact is None:
            return None
        numbers.append(exact)
    result = _ARITHMETIC[op.name](*numbers)
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


_ARITHMETIC: dict[str, Callable[..., Fraction | None]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if b else None,
    "neg": lambda a: -a,
    "pow": _power,
}
