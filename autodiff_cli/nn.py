"""The classroom engine: `Value`, a scalar that records how it was computed, and networks of them, neuron by neuron, as
courses on backpropagation build them: `Neuron`, `Layer`, `MLP`. Derivatives come from the rules in `ops`.

They are clear but slow: every weight is a `Value`, and every forward pass records a graph of scalars. To train a
network on a table of data, use `mlp` in a model and `train`, which computes with matrices.

>>> import random
>>> random.seed(1)
>>> network = MLP(2, [4, 1])
>>> output = network([1.0, -2.0])
>>> output.backward()
>>> len(network.parameters())
17
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from operator import attrgetter
from typing import Any, TypeAlias

from autodiff_cli.graph.node import Operators
from autodiff_cli.graph.tape import topological_order
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops import get_op

__all__ = ["MLP", "Layer", "Neuron", "Value"]

Number: TypeAlias = "Value | float | int"

_DATA = attrgetter("data")


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

    __slots__ = ("data", "grad", "inputs", "label", "op")

    def __init__(self, data: float, label: str = "") -> None:
        self.data = float(data)
        self.grad = 0.0
        self.label = label
        self.op = ""
        self.inputs: tuple[Value, ...] = ()

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
            inputs = value.inputs
            if not inputs:
                continue
            _, partials = _operation(value.op, len(inputs))
            for child, local in zip(inputs, partials(value.data, *map(_DATA, inputs)), strict=True):
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
        return f"Value(data={self.data!r}, grad={self.grad!r}{f', label={self.label!r}' if self.label else ''})"

    def _apply(self, name: str, *operands: Any) -> Value:
        for operand in operands:
            if not isinstance(operand, Value):
                operands = tuple([each if isinstance(each, Value) else Value(each) for each in operands])
                break
        function, _ = _operation(name, len(operands))
        result = Value(function(*map(_DATA, operands)))
        result.op, result.inputs = name, operands
        return result


@cache
def _operation(name: str, count: int) -> tuple[Callable[..., float], Callable[..., tuple[float | None, ...]]]:
    """Return the functions of `count` inputs that compute an operation and its local derivatives."""
    op = get_op(name)
    return FLOATS.function(op, count), FLOATS.partials(op, count, tuple(range(count)))


class Module:
    """Base class of everything that has parameters.

    >>> Module().parameters()
    []
    """

    def parameters(self) -> list[Value]:
        """Return all weights and biases.

        >>> len(MLP(3, [4, 4, 1]).parameters())
        41
        """
        return []

    def zero_grad(self) -> None:
        """Set the gradient of every parameter to 0, before the next backward pass adds to it.

        >>> neuron = Neuron(2, nonlin=False)
        >>> neuron([1.0, 2.0]).backward(); [p.grad for p in neuron.parameters()]
        [1.0, 2.0, 1.0]
        >>> neuron.zero_grad(); [p.grad for p in neuron.parameters()]
        [0.0, 0.0, 0.0]
        """
        for parameter in self.parameters():
            parameter.grad = 0.0


class Neuron(Module):
    """A neuron: the weighted sum of its inputs plus a bias, followed by relu unless it is linear.

    Weights start as uniform random numbers between -1 and 1, from Python's `random` (use `random.seed`); biases start
    at 0.

    >>> neuron = Neuron(2)
    >>> neuron.w[0].data, neuron.w[1].data, neuron.b.data = 1.0, -2.0, 0.5
    >>> neuron([3.0, 1.0]).data, neuron([0.0, 1.0]).data
    (1.5, 0.0)
    """

    def __init__(self, nin: int, nonlin: bool = True) -> None:
        self.w = [Value(random.uniform(-1, 1)) for _ in range(nin)]
        self.b = Value(0.0)
        self.nonlin = nonlin

    def __call__(self, x: Sequence[Number]) -> Value:
        total = self.b
        for weight, value in zip(self.w, x, strict=True):
            total = total + weight * value
        return total.relu() if self.nonlin else total

    def parameters(self) -> list[Value]:
        return [*self.w, self.b]

    def __repr__(self) -> str:
        return f"{'ReLU' if self.nonlin else 'Linear'}Neuron({len(self.w)})"


class Layer(Module):
    """A layer of `nout` neurons with the same `nin` inputs. One neuron returns a value, several return a list.

    >>> len(Layer(2, 3)([1.0, 2.0]))
    3
    """

    def __init__(self, nin: int, nout: int, nonlin: bool = True) -> None:
        self.neurons = [Neuron(nin, nonlin) for _ in range(nout)]

    def __call__(self, x: Sequence[Number]) -> Value | list[Value]:
        outputs = [neuron(x) for neuron in self.neurons]
        return outputs[0] if len(outputs) == 1 else outputs

    def parameters(self) -> list[Value]:
        return [parameter for neuron in self.neurons for parameter in neuron.parameters()]

    def __repr__(self) -> str:
        return f"Layer of [{', '.join(map(str, self.neurons))}]"


class MLP(Module):
    """A multilayer perceptron: `MLP(2, [16, 1])` has 2 inputs, a hidden layer of 16 with relu, and one linear output.

    >>> MLP(2, [2, 1])
    MLP of [Layer of [ReLUNeuron(2), ReLUNeuron(2)], Layer of [LinearNeuron(2)]]
    """

    def __init__(self, nin: int, nouts: Sequence[int]) -> None:
        self.layers = [Layer(a, b, nonlin=k < len(nouts)) for k, (a, b) in enumerate(pairwise([nin, *nouts]), 1)]

    def __call__(self, x: Sequence[Number]) -> Value | list[Value]:
        output: Value | list[Value] | Sequence[Number] = x
        for layer in self.layers:
            output = layer([output] if isinstance(output, Value) else output)
        assert isinstance(output, Value | list)
        return output

    def parameters(self) -> list[Value]:
        return [parameter for layer in self.layers for parameter in layer.parameters()]

    def __repr__(self) -> str:
        return f"MLP of [{', '.join(map(str, self.layers))}]"
