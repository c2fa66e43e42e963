"""Layers of neural networks: `dense` and `mlp`, which bring parameters of their own.

`dense(x, 10, relu)` is `relu(W @ x + b)`, linear without its third argument; `mlp(x, [10, 10], tanh)` is one such layer
after the other (of `tanh` without its third argument) and a linear one at the end, as wide as the model's target. A
number in the place of the vector x is a vector of one. A call in the text is one set of parameters, also where it
stands in a function that is called several times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from autodiff_cli import ops
from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.op import Op, Shape, registered
from autodiff_cli.graph.shapes import ShapeError, Shapes, in_words, shape_of
from autodiff_cli.graph.tape import topological
from autodiff_cli.language.arrays import array_names
from autodiff_cli.language.code import Layer, Lexeme
from autodiff_cli.language.errors import ExpressionError, suggest
from autodiff_cli.language.scope import Scope
from autodiff_cli.ops.structural import whole_number

_ADD, _MATMUL, _STACK, _INDEX, _TANH = (registered(name) for name in ("add", "matmul", "stack", "index", "tanh"))
_WRITTEN = {"dense": "dense(x, 10, relu)", "mlp": "mlp(x, [10, 10], tanh)"}


class Initial(NamedTuple):
    """What a parameter of a layer is, for whoever chooses its first value.

    `activation` is the name of the operation that the layer's sum goes through; None for a linear layer.
    """

    kind: Literal["weight", "bias"]
    activation: str | None


class Layers:
    """The layers of one text.

    Args:
        origin: where the nodes of the text come from.
        outputs: how wide the last layer of a network is; None for a network whose value is a number.
        initial: what each parameter is, by name; filled as layers are met.
    """

    def __init__(
        self, scope: Scope, origin: Mapping[Node, Lexeme], outputs: int | None, initial: dict[str, Initial]
    ) -> None:
        self.initial = initial
        self._scope = scope
        self._origin = origin
        self._outputs = outputs
        self._shapes = Shapes(scope.shapes)
        self._prefixes: dict[Layer, str] = {}
        self._inputs: list[tuple[Layer, Node, Shape]] = []  # of each layer, with the shape that it was taken to have

    def check(self, call: Layer) -> None:
        """Refuse a call that is not written as it should be."""
        self._scope.expect(call, [(2, 3)])
        if call.operands == 3:
            words = f"the activation is the name of a function, as in `{_WRITTEN[call.text]}`"
            raise self._scope.error(words, call)
        self._activation(call)

    def nodes(self, call: Layer, x: Node, sizes: Node) -> Iterator[tuple[str | None, Node]]:
        """The nodes that a call stands for, each after its inputs; the value is the last.

        Each comes with the name of its layer; None for a call that is one layer, and for what is in no layer.

        Raises:
            ShapeError: from the shapes of the nodes that `x` depends on.
        """
        shape = self._shape(call, x)
        self._inputs.append((call, x, shape))
        if not shape:
            x = Node(_STACK, (x,))
            yield None, x
        width = shape[0] if shape else 1
        for name, units, activation in self._plan(call, sizes):
            last = None if activation is None else activation.name
            weight = self._scope.parameter(f"{name}.weight", (units, width), call)
            bias = self._scope.parameter(f"{name}.bias", (units,), call)
            self.initial[weight.text] = Initial("weight", last)
            self.initial[bias.text] = Initial("bias", last)
            product = Node(_MATMUL, (weight, x))
            x = Node(_ADD, (product, bias))
            layer = name if call.text == "mlp" else None
            yield from ((layer, node) for node in (weight, product, bias, x))
            if activation is not None:
                x = Node(activation, (x,))
                yield layer, x
            width = units
        if call.text == "mlp" and self._outputs is None:
            position = constant("0")
            yield from ((None, node) for node in (position, Node(_INDEX, (x, position))))

    def check_inputs(self, arrays: frozenset[str]) -> None:
        """Refuse layers whose input turned out to have another shape than it was taken to have.

        Args:
            arrays: the names that have to be arrays.
        """
        shapes = Shapes(self._scope.shapes, arrays)
        for call, x, shape in self._inputs:
            if shapes.of(x) != shape:
                raise self._unknown(call, [node.text for node in topological((x,)) if node.text in arrays])

    def check_names(self, leaves: Mapping[str, Node]) -> None:
        """Refuse free names that look like a parameter of a layer, and are none."""
        networks = {name.partition(".")[0] for name in self.initial}
        for name, leaf in leaves.items():
            network, dot, _ = name.partition(".")
            if dot and network in networks and name not in self.initial:
                words = f"there is no parameter `{name}` among those of `{network}`"
                raise self._scope.error(words, self._origin[leaf], suggest(name, self.initial))

    def _shape(self, call: Layer, x: Node) -> Shape:
        """The shape of a layer's input, names without a declared shape being numbers."""
        try:
            shape = self._shapes.of(x)
        except ShapeError:
            names = array_names((x,), self._scope.shapes)
            if not names:
                raise
            raise self._unknown(call, sorted(names)) from None
        assert shape is not None
        if len(shape) > 1:
            raise self._scope.error(f"`{call.text}` takes a vector; here it gets an array of {in_words(shape)}", call)
        return shape

    def _unknown(self, call: Layer, names: Sequence[str]) -> ExpressionError:
        these = " and ".join(f"`{name}`" for name in names)
        words = f"the input of `{call.text}` has a length that is not known here: declare the shape of {these} before"
        return self._scope.error(words, call, f"{names[0]}: 3")

    def _plan(self, call: Layer, sizes: Node) -> list[tuple[str, int, Op | None]]:
        """The layers that a call stands for: a name, the number of units, and the activation of each."""
        activation = self._activation(call)
        prefix = self._prefix(call)
        if call.text == "dense":
            return [(prefix, self._units(call, sizes), activation)]
        if sizes.op is not _STACK:
            example = f"[{sizes.text}]" if sizes.is_constant else None
            raise self._scope.error(
                f"the sizes of the hidden layers stand in square brackets, as in `{_WRITTEN['mlp']}`",
                self._origin.get(sizes, call),
                example,
            )
        hidden = [self._units(call, size) for size in sizes.inputs]
        plan: list[tuple[str, int, Op | None]] = []
        plan += [(f"{prefix}.{i}", units, activation or _TANH) for i, units in enumerate(hidden)]
        return [*plan, (f"{prefix}.{len(hidden)}", self._outputs or 1, None)]

    def _prefix(self, call: Layer) -> str:
        """What the names of a call's parameters begin with: `dense.0`, `dense.1`…, or `mlp`, `mlp2`…"""
        found = self._prefixes.get(call)
        if found is None:
            before = sum(other.text == call.text for other in self._prefixes)
            found = f"dense.{before}" if call.text == "dense" else f"mlp{before + 1 if before else ''}"
            self._prefixes[call] = found
        return found

    def _units(self, call: Layer, size: Node) -> int:
        units = whole_number(size)
        if units:
            return units
        words = f"the size of a layer is a whole number from 1, as in `{_WRITTEN[call.text]}`"
        raise self._scope.error(words, self._origin.get(size, call))

    def _activation(self, call: Layer) -> Op | None:
        """The operation that a call names as its activation: it takes a vector to a vector."""
        if call.activation is None:
            return None
        name = call.activation.text
        found = _activations(name)
        if found is None:
            close = suggest(name, filter(_activations, ops.function_names()), beginnings=False)
            words = f"`{name}` is not an activation: a built-in function of one argument, element by element"
            raise self._scope.error(words, call.activation, close)
        return found


def _activations(name: str) -> Op | None:
    """The operation of this name that takes one vector to a vector of the same length."""
    for op in ops.function(name):
        if op.accepts(1) and shape_of(Node(op, (constant("0"),)), [(2,)]) == (2,):
            return op
    return None
