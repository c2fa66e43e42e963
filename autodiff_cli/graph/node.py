"""The node: one immutable vertex of a computation graph.

A node is an operation applied to other nodes, or a leaf: an input (a name) or a constant (the text of a number).
The usual operators on nodes build nodes, so that derivative rules are written as ordinary formulas. `==` and `hash`
stay identity, because graphs use nodes as keys; rules write `equal(x, y)` where they mean a comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from autodiff_cli.graph.registry import registered

if TYPE_CHECKING:
    from autodiff_cli.graph.op import Op

Operand: TypeAlias = "Node | float"


class Node:
    """An operation and its inputs, or a leaf.

    `op` is None for a leaf. A leaf's `text` is the name of an input, or a constant as it was written (`"2.50"`,
    `"pi"`): the text, not a float, so that every kind of number reads it with all the digits it can hold.
    """

    __slots__ = ("__weakref__", "inputs", "is_constant", "op", "text")

    op: Final[Op | None]
    inputs: Final[tuple[Node, ...]]
    text: Final[str]
    is_constant: Final[bool]

    def __init__(self, op: Op | None, inputs: tuple[Node, ...] = (), text: str = "", is_constant: bool = False) -> None:
        self.op = op
        self.inputs = inputs
        self.text = text
        self.is_constant = is_constant

    @property
    def is_input(self) -> bool:
        """Whether this is a leaf that stands for a named value."""
        return self.op is None and not self.is_constant

    def __add__(self, other: Operand) -> Node:
        return _apply("add", self, other)

    def __radd__(self, other: Operand) -> Node:
        return _apply("add", other, self)

    def __sub__(self, other: Operand) -> Node:
        return _apply("sub", self, other)

    def __rsub__(self, other: Operand) -> Node:
        return _apply("sub", other, self)

    def __mul__(self, other: Operand) -> Node:
        return _apply("mul", self, other)

    def __rmul__(self, other: Operand) -> Node:
        return _apply("mul", other, self)

    def __truediv__(self, other: Operand) -> Node:
        return _apply("div", self, other)

    def __rtruediv__(self, other: Operand) -> Node:
        return _apply("div", other, self)

    def __mod__(self, other: Operand) -> Node:
        return _apply("mod", self, other)

    def __rmod__(self, other: Operand) -> Node:
        return _apply("mod", other, self)

    def __pow__(self, other: Operand) -> Node:
        return _apply("pow", self, other)

    def __rpow__(self, other: Operand) -> Node:
        return _apply("pow", other, self)

    def __neg__(self) -> Node:
        return _apply("neg", self)

    def __lt__(self, other: Operand) -> Node:
        return _apply("lt", self, other)

    def __le__(self, other: Operand) -> Node:
        return _apply("le", self, other)

    def __gt__(self, other: Operand) -> Node:
        return _apply("gt", self, other)

    def __ge__(self, other: Operand) -> Node:
        return _apply("ge", self, other)

    def __bool__(self) -> NoReturn:
        # `a < b < c` on nodes would otherwise drop `a < b` without a word.
        raise TypeError("a node has no truth value before it is evaluated; combine comparisons with and_, or_, not_")

    def __repr__(self) -> str:
        if self.op is None:
            return f"<{'constant' if self.is_constant else 'input'} {self.text}>"
        return f"<{self.op.name} of {len(self.inputs)}>"


def _apply(name: str, *operands: Operand) -> Node:
    return registered(name)(*operands)


def variable(name: str) -> Node:
    """A new input leaf. Two leaves of one name are two nodes: whoever builds a graph keeps one per name."""
    return Node(None, (), name)


def constant(value: float | str) -> Node:
    """A constant leaf, from the text of a number or from a number.

    Constants are written without a sign, as in the language: a negative number becomes the negation of a constant.
    """
    if isinstance(value, str):
        return Node(None, (), value, True)
    text = repr(value).removesuffix(".0")
    return -constant(text[1:]) if text.startswith("-") else constant(text)


def as_node(operand: Operand) -> Node:
    """The operand itself if it is a node, else a constant."""
    return operand if isinstance(operand, Node) else constant(operand)


def is_literal(node: Node, value: float) -> bool:
    """Whether the node is the constant `value` itself (not an expression that happens to have that value)."""
    if not node.is_constant:
        return value == 0 and node.op is not None and node.op.name == "neg" and is_literal(node.inputs[0], 0)
    try:
        return float(node.text) == value and is_exactly(node.text, value)
    except ValueError:  # a named constant: none of them is asked for
        return False


def is_exactly(text: str, value: float) -> bool:
    """Whether the text of a number names just that float which is nearest to it: 1e-400 is not 0.

    >>> is_exactly("1e-400", 0), is_exactly("0e5", 0), is_exactly("2.00000000000000000001", 2), is_exactly("0.5", 0.5)
    (False, True, False, True)
    """
    if not value:
        return not any(digit in "123456789" for digit in text.lower().partition("e")[0])
    if len(text) < 16 and (value * 1024.0).is_integer():  # no two decimals of so few digits are one float
        return True
    from decimal import Decimal

    return Decimal(text) == value
