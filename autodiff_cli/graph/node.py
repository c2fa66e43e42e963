"""Nodes of a computation graph, and the registry of operations.

A node is one immutable vertex of a graph: an operation applied to other nodes, or a leaf. A leaf is an input (a name)
or a constant (the text of a number). Python's operators on nodes build new nodes, so derivative rules are written as
ordinary formulas. `==` and `hash` keep their identity semantics, because graphs use nodes as dictionary keys; a rule
writes `equal(x, y)` for a comparison.

The registry maps names to operations. It stands here because the operators of a node look up `add`, `mul` and so on by
name: the module that declares an operation imports this one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeAlias

if TYPE_CHECKING:
    from autodiff_cli.graph.op import Op


# --- The registry of operations ---

_REGISTRY: dict[str, Op] = {}
_OVERLOADS: dict[str, list[Op]] = {}  # operations by the name that calls use, which several may share


def register(op: Op) -> Op:
    """Add an operation to the registry, under its name, its spelling and its aliases, and return it."""
    assert op.name not in _REGISTRY, f"two operations named {op.name}"
    _REGISTRY[op.name] = op
    for spelling in (op.spelling, *op.aliases):
        if spelling:
            _OVERLOADS.setdefault(spelling, []).append(op)
    return op


def get_op(name: str) -> Op:
    """Return the operation with this name. Raises KeyError if there is none."""
    return _REGISTRY[name]


def all_ops() -> Iterator[Op]:
    """Iterate over all operations, in the order of their declaration."""
    return iter(_REGISTRY.values())


def function_names() -> tuple[str, ...]:
    """Return all names that the language can call, including aliases."""
    return tuple(_OVERLOADS)


def overloads(name: str) -> tuple[Op, ...]:
    """Return the operations that share the call name `name` and differ in their number of inputs; empty if unknown."""
    return tuple(_OVERLOADS.get(name, ()))


# --- Nodes ---

Operand: TypeAlias = "Node | float"


class Operators:
    """Python's operators on objects that record operations: each calls `_apply` with the name of an operation."""

    __slots__ = ()

    def _apply(self, name: str, *operands: Any) -> Self:
        """Return the operation with this name on operands: this object, objects of its class, and numbers."""
        raise NotImplementedError

    def __add__(self, other: Self | float) -> Self:
        return self._apply("add", self, other)

    def __radd__(self, other: Self | float) -> Self:
        return self._apply("add", other, self)

    def __sub__(self, other: Self | float) -> Self:
        return self._apply("sub", self, other)

    def __rsub__(self, other: Self | float) -> Self:
        return self._apply("sub", other, self)

    def __mul__(self, other: Self | float) -> Self:
        return self._apply("mul", self, other)

    def __rmul__(self, other: Self | float) -> Self:
        return self._apply("mul", other, self)

    def __truediv__(self, other: Self | float) -> Self:
        return self._apply("div", self, other)

    def __rtruediv__(self, other: Self | float) -> Self:
        return self._apply("div", other, self)

    def __pow__(self, other: Self | float) -> Self:
        return self._apply("pow", self, other)

    def __rpow__(self, other: Self | float) -> Self:
        return self._apply("pow", other, self)

    def __neg__(self) -> Self:
        return self._apply("neg", self)


class OrderedOperators(Operators):
    """Operators and comparisons that record operations.

    The result of a comparison is an operation, not a truth value.
    """

    __slots__ = ()

    def __lt__(self, other: Self | float) -> Self:
        return self._apply("lt", self, other)

    def __le__(self, other: Self | float) -> Self:
        return self._apply("le", self, other)

    def __gt__(self, other: Self | float) -> Self:
        return self._apply("gt", self, other)

    def __ge__(self, other: Self | float) -> Self:
        return self._apply("ge", self, other)


class Node(OrderedOperators):
    """An operation applied to input nodes, or a leaf.

    Attributes:
        op: the operation; None for a leaf.
        inputs: the nodes that the operation is applied to; empty for a leaf.
        text: of a leaf, the name of an input, or a constant as it was written (`"2.50"`, `"pi"`). It is text and not a
            float, so that each kind of number parses it to its own precision.
        is_constant: whether this leaf is a constant.
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
    def operation(self) -> Op:
        """The operation of a node that is known not to be a leaf."""
        assert self.op is not None
        return self.op

    @property
    def is_input(self) -> bool:
        """Whether this leaf is a named input."""
        return self.op is None and not self.is_constant

    def _apply(self, name: str, *operands: Operand) -> Node:
        return get_op(name)(*operands)

    def __mod__(self, other: Operand) -> Node:
        return self._apply("mod", self, other)

    def __rmod__(self, other: Operand) -> Node:
        return self._apply("mod", other, self)

    def __bool__(self) -> NoReturn:
        # Python evaluates `a < b < c` as `a < b and b < c`: without this error it would silently drop `a < b`.
        raise TypeError("a node has no truth value before it is evaluated; combine comparisons with and_, or_, not_")

    def __repr__(self) -> str:
        if self.op is None:
            return f"<{'constant' if self.is_constant else 'input'} {self.text}>"
        return f"<{self.op.name} of {len(self.inputs)}>"


def variable(name: str) -> Node:
    """Return a new input leaf.

    Two leaves with the same name are different nodes: share one leaf per name in a graph.
    """
    return Node(None, (), name)


def constant(value: float | str) -> Node:
    """Return a constant leaf for a number or the text of one.

    Constants have no sign, as in the language: a negative number becomes the negation of a constant.
    """
    if isinstance(value, str):
        return Node(None, (), value, True)
    text = repr(value).removesuffix(".0")
    return -constant(text[1:]) if text.startswith("-") else constant(text)


def as_node(operand: Operand) -> Node:
    """Return the operand itself if it is a node, else a constant with its value."""
    return operand if isinstance(operand, Node) else constant(operand)


def is_literal(node: Node, value: float) -> bool:
    """Return whether the node is the constant `value` itself, and not an expression that happens to have that value."""
    if not node.is_constant:
        return value == 0 and node.op is not None and node.op.name == "neg" and is_literal(node.inputs[0], 0)
    try:
        return float(node.text) == value and is_exactly(node.text, value)
    except ValueError:  # a named constant, such as pi: callers compare with plain numbers only
        return False


def is_representable(text: str) -> bool:
    """Return whether a constant is named, or a decimal number that is 0 or does not round to 0 or infinity.

    >>> [is_representable(text) for text in ("1e-400", "1e400", "0e5", "2.5", "pi")]
    [False, False, True, True, True]
    """
    return text[0].isalpha() or 0 < float(text) < math.inf or is_exactly(text, 0)


def is_exactly(text: str, value: float) -> bool:
    """Return whether the decimal number in `text` equals the float `value` exactly: 1e-400 rounds to 0 but is not 0.

    >>> is_exactly("1e-400", 0), is_exactly("0e5", 0), is_exactly("2.00000000000000000001", 2), is_exactly("0.5", 0.5)
    (False, True, False, True)
    """
    if not value:
        return not any(digit in "123456789" for digit in text.lower().partition("e")[0])
    # Decimals of at most 15 digits map to distinct floats; from 2^42 on, every float is a multiple of 1/1024.
    if len(text) < 16 and abs(value) < 2.0**33 and (value * 1024.0).is_integer():
        return True
    from decimal import Decimal

    return Decimal(text) == value
