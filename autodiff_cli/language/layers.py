"""Layers of neural networks: `dense` and `mlp`, which bring parameters of their own.

`dense(x, 10, relu)` is `relu(W @ x + b)`, linear without its third argument; `mlp(x, [10, 10], tanh)` is one such layer
after the other (of `tanh` without its third argument) and a linear one at the end, as wide as the model's target. A
number in the place of the vector x is a vector of one. A call in the text is one set of parameters, also where it
stands in a function that is called several times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from autodiff_cli import ops
from autodiff_cli.graph.node import Node, constant, variable
from autodiff_cli.graph.op import Op, Shape
from autodiff_cli.graph.registry import registered
from autodiff_cli.graph.shapes import ShapeError, Shapes, in_words, shape_of
from autodiff_cli.language.arrays import array_names
from autodiff_cli.language.code import LayerCall
from autodiff_cli.language.errors import ExpressionError, suggest
from autodiff_cli.language.lexer import Lexemes
from autodiff_cli.ops.structural import whole_number

if TYPE_CHECKING:
    from autodiff_cli.language.building import Graph
    from autodiff_cli.language.names import Names

_ADD, _MATMUL, _STACK, _INDEX, _TANH = (registered(name) for name in ("add", "matmul", "stack", "index", "tanh"))
EXAMPLES = {"dense": "dense(x, 10, relu)", "mlp": "mlp(x, [10, 10], tanh)"}


class Initial(NamedTuple):
    """What a parameter of a layer is, for whoever chooses its first value.

    `activation` is the name of the operation that the layer's sum goes through; None for a linear layer.
    """

    kind: Literal["weight", "bias"]
    activation: str | None


class Taken(NamedTuple):
    """A call of a layer, at a lexeme, with its input, and the shape that this was taken to have."""

    call: LayerCall
    place: int
    x: Node
    shape: Shape


class Layers:
    """The layers of one text, which enter their parameters in its graph.

    Args:
        outputs: how wide the last layer of a network is; None for a network whose value is a number.
    """

    def __init__(self, names: Names, graph: Graph, outputs: int | None) -> None:
        self._names = names
        self._graph = graph
        self._outputs = outputs
        self._shapes = Shapes(graph.shapes)
        self._prefixes: dict[int, str] = {}  # by the place of the call
        self._counts = Counter[str]()

    def nodes(self, call: LayerCall, place: int, x: Node, sizes: Node) -> Iterator[tuple[str | None, Node]]:
        """The nodes that a call stands for, each after its inputs; the value is the last.

        Each comes with the name of its layer; None for a call that is one layer, and for what is in no layer.

        Args:
            place: the number of the call's lexeme.

        Raises:
            ShapeError: from the shapes of the nodes that `x` depends on.
        """
        shape = self._shape(call, place, x)
        self._graph.taken.append(Taken(call, place, x, shape))
        if not shape:
            x = Node(_STACK, (x,))
            yield None, x
        width = shape[0] if shape else 1
        for name, units, activation in self._plan(call, place, sizes):
            last = None if activation is None else activation.name
            weight = self._parameter(f"{name}.weight", (units, width), call, place)
            bias = self._parameter(f"{name}.bias", (units,), call, place)
            self._graph.initial[weight.text] = Initial("weight", last)
            self._graph.initial[bias.text] = Initial("bias", last)
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

    def _parameter(self, name: str, shape: Shape, call: LayerCall, place: int) -> Node:
        """The leaf of a parameter."""
        graph = self._graph
        if name in self._names.binders or name in self._names.declared:
            words = f"`{name}` is a parameter of this `{call.text}`, and is not declared or bound"
            raise self._error(words, place)
        if graph.shapes.setdefault(name, shape) != shape:
            sizes = f"{graph.shapes[name][-1]} and {shape[-1]}"
            raise self._error(f"the inputs of one `{call.text}` have different lengths, {sizes}", place)
        return graph.values.setdefault(name, graph.leaves.setdefault(name, variable(name)))

    def _shape(self, call: LayerCall, place: int, x: Node) -> Shape:
        """The shape of a layer's input, names without a declared shape being numbers."""
        try:
            shape = self._shapes.of(x)
        except ShapeError:
            arrays = array_names((x,), self._graph.shapes)
            if not arrays:
                raise
            raise unknown_length(self._names.lexemes, call, place, sorted(arrays)) from None
        assert shape is not None
        if len(shape) > 1:
            raise self._error(f"`{call.text}` takes a vector; here it gets an array of {in_words(shape)}", place)
        return shape

    def _plan(self, call: LayerCall, place: int, sizes: Node) -> list[tuple[str, int, Op | None]]:
        """The layers that a call stands for: a name, the number of units, and the activation of each."""
        through = activation(call, self._names.lexemes)
        prefix = self._prefix(call, place)
        if call.text == "dense":
            return [(prefix, self._units(call, place, sizes), through)]
        if sizes.op is not _STACK:
            words = f"the sizes of the hidden layers stand in square brackets, as in `{EXAMPLES['mlp']}`"
            example = f"[{sizes.text}]" if sizes.is_constant else None
            raise self._error(words, self._graph.source.number(sizes) or place, example)
        hidden = [self._units(call, place, size) for size in sizes.inputs]
        plan: list[tuple[str, int, Op | None]] = []
        plan += [(f"{prefix}.{i}", units, through or _TANH) for i, units in enumerate(hidden)]
        return [*plan, (f"{prefix}.{len(hidden)}", self._outputs or 1, None)]

    def _prefix(self, call: LayerCall, place: int) -> str:
        """What the names of a call's parameters begin with: `dense.0`, `dense.1`…, or `mlp`, `mlp2`…"""
        if place not in self._prefixes:
            before = self._counts[call.text]
            self._counts[call.text] += 1
            number = f".{before}" if call.text == "dense" else f"{before + 1}" if before else ""
            self._prefixes[place] = call.text + number
        return self._prefixes[place]

    def _units(self, call: LayerCall, place: int, size: Node) -> int:
        units = whole_number(size)
        if units:
            return units
        words = f"the size of a layer is a whole number from 1, as in `{EXAMPLES[call.text]}`"
        raise self._error(words, self._graph.source.number(size) or place)

    def _error(self, words: str, place: int, suggestion: str | None = None) -> ExpressionError:
        return self._names.lexemes.error(words, place, suggestion)


def unknown_length(lexemes: Lexemes, call: LayerCall, place: int, names: Sequence[str]) -> ExpressionError:
    """The error for a layer whose input has a length that depends on names without a declared shape."""
    these = " and ".join(f"`{name}`" for name in names)
    words = f"the input of `{call.text}` has a length that is not known here: declare the shape of {these} before"
    return lexemes.error(words, place, f"{names[0]}: 3")


def activation(call: LayerCall, lexemes: Lexemes) -> Op | None:
    """The operation that a call names as its activation: it takes a vector to a vector. None if it names none.

    Raises:
        ExpressionError: if the name is of no such operation.
    """
    if call.activation is None:
        return None
    name = lexemes.words[call.activation]
    found = _activations(name)
    if found is None:
        close = suggest(name, filter(_activations, ops.function_names()), beginnings=False)
        words = f"`{name}` is not an activation: a built-in function of one argument, element by element"
        raise lexemes.error(words, call.activation, close)
    return found


def _activations(name: str) -> Op | None:
    """The operation of this name that takes one vector to a vector of the same length."""
    for op in ops.function(name):
        if op.accepts(1) and shape_of(Node(op, (constant("0"),)), [(2,)]) == (2,):
            return op
    return None
