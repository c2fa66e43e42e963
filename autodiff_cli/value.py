"""`Value`, a scalar that records how it was computed, for learning how reverse-mode differentiation works.

Its derivatives come from the rules in `ops`, like those of every other mode of the program.
"""

from __future__ import annotations

from typing import TypeAlias

from autodiff_cli.graph.node import Operators
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import topological_order
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops import get_op

Number: TypeAlias = "Value | float | int"


class Value(Operators):
    """A scalar that records the operation and the inputs it was computed from.

    Attributes:
        data: the number.
        grad: the derivatives that all backward passes have added so far; initially 0.0.
        label: an optional name, for display.
        op: the name of the operation that computed it; `""` for an input.
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
        """Compute the derivatives of this value with respect to all values it depends on, and add them to their `grad`.

        Each pass starts with new adjoints, so a second call adds the same derivatives again.

        >>> x, y = Value(2.0), Value(3.0)
        >>> (x*y + x).backward(); x.grad, y.grad
        (4.0, 2.0)
        """
        order = topological_order((self,))
        adjoints: dict[Value, float] = {self: 1.0}
        for value in reversed(order):
            adjoint = adjoints.get(value)
            if adjoint is None:  # reached only through a branch that was not taken
                continue
            value.grad += adjoint
            if value._operation is None:
                continue
            positions = tuple(range(len(value.inputs)))
            partials = FLOATS.partials(value._operation, len(positions), positions)
            for child, local in zip(value.inputs, partials(value.data, *(v.data for v in value.inputs)), strict=True):
                if local is not None:
                    adjoints[child] = adjoints.get(child, 0.0) + local * adjoint

    def zero_grad(self) -> None:
        """Set `grad` to 0 on this value and on all values it depends on.

        >>> x = Value(2.0)
        >>> z = x**2
        >>> z.backward(); z.zero_grad(); x.grad
        0.0
        """
        for value in topological_order((self,)):
            value.grad = 0.0

    def relu(self) -> Value:
        """Return max(0, x). Its derivative at 0 is 0.

        >>> Value(-2.0).relu().data, Value(3.0).relu().data
        (0.0, 3.0)
        """
        return self._apply("relu", self)

    def tanh(self) -> Value:
        """Return the hyperbolic tangent.

        >>> round(Value(0.5).tanh().data, 12)
        0.46211715726
        """
        return self._apply("tanh", self)

    def exp(self) -> Value:
        """Return e^x.

        >>> Value(1.0).exp().data
        2.718281828459045
        """
        return self._apply("exp", self)

    def log(self) -> Value:
        """Return the natural logarithm.

        >>> Value(1.0).log().data
        0.0
        """
        return self._apply("log", self)

    def sigmoid(self) -> Value:
        """Return 1/(1 + e^-x).

        >>> Value(0.0).sigmoid().data
        0.5
        """
        return self._apply("sigmoid", self)

    def __float__(self) -> float:
        return self.data

    def __repr__(self) -> str:
        label = f", label={self.label!r}" if self.label else ""
        return f"Value(data={self.data!r}, grad={self.grad!r}{label})"

    def _apply(self, name: str, *operands: Number) -> Value:
        op = get_op(name)
        inputs = tuple([operand if isinstance(operand, Value) else Value(operand) for operand in operands])
        result = Value(FLOATS.function(op, len(inputs))(*[value.data for value in inputs]))
        result.op = op.name
        result.inputs = inputs
        result._operation = op
        return result
