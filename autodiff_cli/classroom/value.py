"""`Value`: the classroom engine. A number that remembers how it was computed, and can hand gradients back.

The same rules as everywhere else, read by floats and recorded as they are computed.
"""

from __future__ import annotations

from typing import TypeAlias

from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import topological
from autodiff_cli.numbers.floats.table import FLOATS
from autodiff_cli.ops import activations, arithmetic, choice, elementary

Number: TypeAlias = "Value | float | int"


class Value:
    """A scalar that records the operation and the inputs it came from.

    Attributes:
        data: the number.
        grad: the sum of what every backward pass has handed it so far; 0.0 at first.
        label: a name for people, yours to set.
        op: the name of the operation that made it; `""` for a number given directly.
        inputs: the values it was computed from.

    >>> x = Value(3.0)
    >>> (x**2).backward(); x.grad
    6.0
    >>> (x**3).backward(); x.grad
    33.0
    """

    __slots__ = ("_operation", "data", "grad", "inputs", "label", "op")

    def __init__(self, data: float, label: str = "") -> None:
        self.data = float(data)
        self.grad = 0.0
        self.label = label
        self.op = ""
        self.inputs: tuple[Value, ...] = ()
        self._operation: Op | None = None

    def backward(self) -> None:
        """Add the derivative of this value towards every value it was computed from to that value's `grad`.

        Each pass has adjoints of its own, so a second call adds exactly the same once more.

        >>> x, y = Value(2.0), Value(3.0)
        >>> (x*y + x).backward(); x.grad, y.grad
        (4.0, 2.0)
        """
        order = topological((self,))
        adjoints: dict[Value, float] = {self: 1.0}
        for value in reversed(order):
            adjoint = adjoints.get(value)
            if adjoint is None:  # only a choice that was not taken leads here
                continue
            value.grad += adjoint
            if value._operation is None:
                continue
            wanted = tuple(range(len(value.inputs)))
            partials = FLOATS.partials(value._operation, len(wanted), wanted)
            for child, local in zip(value.inputs, partials(value.data, *(v.data for v in value.inputs)), strict=True):
                if local is not None:
                    adjoints[child] = adjoints.get(child, 0.0) + local * adjoint

    def zero_grad(self) -> None:
        """Set `grad` to 0 here and on every value this one was computed from.

        >>> x = Value(2.0)
        >>> z = x**2
        >>> z.backward(); z.zero_grad(); x.grad
        0.0
        """
        for value in topological((self,)):
            value.grad = 0.0

    def __add__(self, other: Number) -> Value:
        return _apply(arithmetic.add, self, other)

    def __radd__(self, other: Number) -> Value:
        return _apply(arithmetic.add, other, self)

    def __sub__(self, other: Number) -> Value:
        return _apply(arithmetic.sub, self, other)

    def __rsub__(self, other: Number) -> Value:
        return _apply(arithmetic.sub, other, self)

    def __mul__(self, other: Number) -> Value:
        return _apply(arithmetic.mul, self, other)

    def __rmul__(self, other: Number) -> Value:
        return _apply(arithmetic.mul, other, self)

    def __truediv__(self, other: Number) -> Value:
        return _apply(arithmetic.div, self, other)

    def __rtruediv__(self, other: Number) -> Value:
        return _apply(arithmetic.div, other, self)

    def __pow__(self, other: Number) -> Value:
        return _apply(elementary.pow_, self, other)

    def __rpow__(self, other: Number) -> Value:
        return _apply(elementary.pow_, other, self)

    def __neg__(self) -> Value:
        return _apply(arithmetic.neg, self)

    def relu(self) -> Value:
        """max(0, x), with slope 0 at 0.

        >>> Value(-2.0).relu().data, Value(3.0).relu().data
        (0.0, 3.0)
        """
        return _apply(choice.relu, self)

    def tanh(self) -> Value:
        """The hyperbolic tangent.

        >>> round(Value(0.5).tanh().data, 12)
        0.46211715726
        """
        return _apply(elementary.tanh, self)

    def exp(self) -> Value:
        """e^x.

        >>> Value(1.0).exp().data
        2.718281828459045
        """
        return _apply(elementary.exp, self)

    def log(self) -> Value:
        """The natural logarithm.

        >>> Value(1.0).log().data
        0.0
        """
        return _apply(elementary.log, self)

    def sigmoid(self) -> Value:
        """1/(1 + e^-x).

        >>> Value(0.0).sigmoid().data
        0.5
        """
        return _apply(activations.sigmoid, self)

    def __float__(self) -> float:
        return self.data

    def __repr__(self) -> str:
        label = f", label={self.label!r}" if self.label else ""
        return f"Value(data={self.data!r}, grad={self.grad!r}{label})"


def _apply(op: Op, *operands: Number) -> Value:
    inputs = tuple([operand if isinstance(operand, Value) else Value(operand) for operand in operands])
    result = Value(FLOATS.function(op, len(inputs))(*[value.data for value in inputs]))
    result.op = op.name
    result.inputs = inputs
    result._operation = op
    return result
