"""Neural networks of `Value`s, neuron by neuron, as courses on backpropagation build them: `Neuron`, `Layer`, `MLP`.

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
from collections.abc import Sequence
from itertools import pairwise

from autodiff_cli.value import Number, Value

__all__ = ["MLP", "Layer", "Neuron"]


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
