"""Arrays in expressions: which names must be arrays, and the layers of neural networks, `dense` and `mlp`.

`dense(x, 10, relu)` is `relu(W @ x + b)` with 10 units; without its third argument the layer is linear.
`mlp(x, [10, 10], tanh)` is a chain of such layers and a linear one at the end, with as many units as the model's target
has elements; without its third argument the activation is `tanh`. A number in place of the vector x is a vector of one
element. Each call in the text has one set of parameters, even if it stands in a function that is called several times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Literal, NamedTuple

from autodiff_cli import ops
from autodiff_cli.graph.node import Node, Op, Shape, constant, get_op, variable
from autodiff_cli.graph.tape import ShapeError, ShapeInference, format_shape, shape_of, topological_order
from autodiff_cli.language.errors import ExpressionError, suggest
from autodiff_cli.language.lexer import Lexemes
from autodiff_cli.language.parser import LayerCall
from autodiff_cli.ops.structural import literal_index

if TYPE_CHECKING:
    from autodiff_cli.language.names import ResolvedNames
    from autodiff_cli.language.program import Graph


# Limits of the search for example shapes.
_MAX_EXAMPLE_NAMES = 8  # arrays that get a shape; the search grows exponentially with their number
_MAX_EXAMPLE_TRIES = 300  # shapes that are tried before the search gives up
_MAX_EXAMPLE_LENGTH = 20  # elements; a larger index in the text does not make the examples longer


# --- Which names are arrays


def array_names(roots: Sequence[Node], declared: Mapping[str, Shape], include_possible: bool = False) -> frozenset[str]:
    """Return the free names without a declared shape that stand where an array is required.

    They are operands of operations on whole arrays, such as `@` and `sum`, or of an elementwise operation that is such
    an operand itself and has no other array among its inputs. Where an elementwise operation has several such names,
    all of them count, although one of them might be a number.

    Args:
        roots: the graphs.
        declared: the declared shapes, by name.
        include_possible: whether names count that an elementwise operation combines with an array, as `b` in
            `W @ x + b`. They may be arrays or numbers.

    Raises:
        ShapeError: for known shapes that are incompatible.
    """
    order = topological_order(roots)
    arrays = _certain_arrays(order, declared)
    required: set[Node] = set()
    for node in reversed(order):
        if node.op is None:
            continue
        has_array = not arrays.isdisjoint(node.inputs)
        if node.op.is_structural:
            positions = node.op.array_inputs
            required.update(node.inputs if positions is None else [node.inputs[k] for k in positions])
        elif (has_array and include_possible) or (node in required and (include_possible or not has_array)):
            required.update(node.inputs)
    return frozenset(node.text for node in required if node.is_input and node.text not in declared)


def _certain_arrays(order: Sequence[Node], declared: Mapping[str, Shape]) -> set[Node]:
    """Return the nodes that are arrays for any shapes of the free names."""
    shapes = ShapeInference(declared, {node.text for node in order if node.is_input} - declared.keys())
    arrays: set[Node] = set()
    for node in order:
        shape = shapes.infer(node)
        if shape or (shape is None and _is_certain_array(node, arrays, shapes)):
            arrays.add(node)
    return arrays


def _is_certain_array(node: Node, arrays: Set[Node], shapes: ShapeInference) -> bool:
    """Whether a node is certainly an array, although its shape is unknown."""
    if node.op is None:
        return False
    if node.op.is_structural:
        return node.op.returns_array is not None and node.op.returns_array(*map(shapes.infer, node.inputs))
    return not arrays.isdisjoint(node.inputs)


def example_shapes(root: Node, declared: Mapping[str, Shape], names: Iterable[str]) -> dict[str, Shape]:
    """Find small shapes for names that must be arrays, under which all operations of a graph are compatible.

    A name with a capital letter becomes a matrix if it can; others become vectors. The search is limited.

    Args:
        root: the graph.
        declared: the declared shapes, by name.
        names: the names that need a shape.

    Returns:
        A shape for each name; empty if the search finds none.

    >>> from autodiff_cli import parse
    >>> f = parse("sum(W @ x + b)")
    >>> example_shapes(f.output, f.shapes, f.variables)
    {'W': (2, 3), 'x': (3,), 'b': (2,)}
    """
    sizes = {size for shape in declared.values() for size in shape}
    indices = [index for node in topological_order((root,)) if (index := literal_index(node)) is not None]
    sizes |= {index + 1 for index in indices if index < _MAX_EXAMPLE_LENGTH}
    lengths = [3, 2, *sorted(sizes - {2, 3})]
    vectors: list[Shape] = [(length,) for length in lengths]
    matrices: list[Shape] = [(rows, columns) for columns in lengths for rows in lengths[1::-1] + lengths[2:]]
    tries = iter(range(_MAX_EXAMPLE_TRIES))

    def search(known: Mapping[str, Shape], waiting: Sequence[str]) -> Mapping[str, Shape] | None:
        if not waiting:
            return known
        name, *rest = waiting
        for shape in [*matrices, *vectors] if name[0].isupper() else [*vectors, *matrices]:
            if next(tries, None) is None:
                return None
            wider = {**known, name: shape}
            if _fits(root, wider, rest) and (shapes := search(wider, rest)) is not None:
                return shapes
        return None

    unknown = [name for name in names if name not in declared][:_MAX_EXAMPLE_NAMES]
    shapes = search(declared, unknown) or {}
    return {name: shapes[name] for name in unknown if name in shapes}


def _fits(root: Node, known: Mapping[str, Shape], unknown: Iterable[str]) -> bool:
    """Whether the known shapes are compatible."""
    try:
        ShapeInference(known, frozenset(unknown)).infer(root)
    except ShapeError:
        return False
    return True


_ADD, _MATMUL, _STACK, _INDEX, _TANH = (get_op(name) for name in ("add", "matmul", "stack", "index", "tanh"))
# --- Layers of neural networks

LAYER_EXAMPLES = {"dense": "dense(x, 10, relu)", "mlp": "mlp(x, [10, 10], tanh)"}


class LayerParameter(NamedTuple):
    """The role of a layer's parameter, from which its initial value is chosen.

    Attributes:
        kind: whether it is a matrix of weights or a vector of biases.
        activation: the name of the layer's activation; None for a linear layer.
    """

    kind: Literal["weight", "bias"]
    activation: str | None


class AssumedInput(NamedTuple):
    """A layer's input and the shape that was assumed for it, to be checked once all shapes are known.

    Attributes:
        call: the call of the layer.
        number: the number of the call's lexeme.
        x: the input.
        shape: the assumed shape, with names without a declared shape as numbers.
    """

    call: LayerCall
    number: int
    x: Node
    shape: Shape


class LayerBuilder:
    """Builds the layers of one text, and adds their parameters to its graph.

    Args:
        names: the resolved names of the text.
        graph: the graph of the text.
        outputs: the number of units in the last layer of an `mlp`; None if the value of an `mlp` is a number.
    """

    def __init__(self, names: ResolvedNames, graph: Graph, outputs: int | None) -> None:
        self._names = names
        self._graph = graph
        self._outputs = outputs
        self._shapes = ShapeInference(graph.shapes)
        self._prefixes: dict[int, str] = {}  # prefixes by the number of the call's lexeme
        self._counts = Counter[str]()

    def nodes(self, call: LayerCall, number: int, x: Node, sizes: Node) -> Iterator[tuple[str | None, Node]]:
        """Yield the nodes of a call, each after its inputs; the last one is the value.

        Each comes with the name of its layer; None for a call of `dense`, and for a node that is in no layer.

        Args:
            call: the call.
            number: the number of the call's lexeme.
            x: the input.
            sizes: the second argument: the number of units, or for `mlp` an array of them.

        Raises:
            ShapeError: for incompatible shapes among the nodes that `x` depends on.
        """
        shape = self._shape(call, number, x)
        self._graph.assumed_inputs.append(AssumedInput(call, number, x, shape))
        if not shape:
            x = Node(_STACK, (x,))
            yield None, x
        width = shape[0] if shape else 1
        for name, units, activation in self._layer_plan(call, number, sizes):
            last = None if activation is None else activation.name
            weight = self._parameter(f"{name}.weight", (units, width), call, number)
            bias = self._parameter(f"{name}.bias", (units,), call, number)
            self._graph.layer_parameters[weight.text] = LayerParameter("weight", last)
            self._graph.layer_parameters[bias.text] = LayerParameter("bias", last)
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

    def _parameter(self, name: str, shape: Shape, call: LayerCall, number: int) -> Node:
        """Return the leaf of a parameter, and record its shape."""
        graph = self._graph
        if name in self._names.binding_statements or name in self._names.shape_lexemes:
            words = f"`{name}` is a parameter of this `{call.text}`; it cannot be declared or bound"
            raise self._error(words, number)
        if graph.shapes.setdefault(name, shape) != shape:
            sizes = f"{graph.shapes[name][-1]} and {shape[-1]}"
            raise self._error(f"the inputs of one `{call.text}` have different lengths, {sizes}", number)
        return graph.values.setdefault(name, graph.leaves.setdefault(name, variable(name)))

    def _shape(self, call: LayerCall, number: int, x: Node) -> Shape:
        """Return the shape of a layer's input, with names without a declared shape as numbers."""
        try:
            shape = self._shapes.infer(x)
        except ShapeError:
            arrays = array_names((x,), self._graph.shapes)
            if not arrays:
                raise
            raise unknown_length_error(self._names.lexemes, call, number, sorted(arrays)) from None
        assert shape is not None
        if len(shape) > 1:
            words = f"the input of `{call.text}` must be a vector; here its shape is {format_shape(shape)}"
            raise self._error(words, number)
        return shape

    def _layer_plan(self, call: LayerCall, number: int, sizes: Node) -> list[tuple[str, int, Op | None]]:
        """Return the layers of a call: the name, the number of units and the activation of each."""
        activation_of_layers = activation_op(call, self._names.lexemes)
        prefix = self._prefix(call, number)
        if call.text == "dense":
            return [(prefix, self._units(call, number, sizes), activation_of_layers)]
        if sizes.op is not _STACK:
            words = f"the sizes of the hidden layers go in square brackets, as in `{LAYER_EXAMPLES['mlp']}`"
            example = f"[{sizes.text}]" if sizes.is_constant else None
            raise self._error(words, self._graph.source.origin.get(sizes, number), example)
        hidden = [self._units(call, number, size) for size in sizes.inputs]
        plan = [(f"{prefix}.{i}", units, activation_of_layers or _TANH) for i, units in enumerate(hidden)]
        return [*plan, (f"{prefix}.{len(hidden)}", self._outputs or 1, None)]

    def _prefix(self, call: LayerCall, number: int) -> str:
        """Return the prefix of the names of a call's parameters: `dense.0`, `dense.1`…, or `mlp`, `mlp2`…"""
        if number not in self._prefixes:
            before = self._counts[call.text]
            self._counts[call.text] += 1
            suffix = f".{before}" if call.text == "dense" else f"{before + 1}" if before else ""
            self._prefixes[number] = call.text + suffix
        return self._prefixes[number]

    def _units(self, call: LayerCall, number: int, size: Node) -> int:
        units = literal_index(size)
        if units:
            return units
        words = f"the size of a layer must be an integer from 1, as in `{LAYER_EXAMPLES[call.text]}`"
        raise self._error(words, self._graph.source.origin.get(size, number))

    def _error(self, words: str, number: int, suggestion: str | None = None) -> ExpressionError:
        return self._names.lexemes.error(words, number, suggestion)


def unknown_length_error(lexemes: Lexemes, call: LayerCall, number: int, names: Sequence[str]) -> ExpressionError:
    """Return the error for a layer whose input depends on names without a declared shape."""
    listed = " and ".join(f"`{name}`" for name in names)
    words = f"the length of the input of `{call.text}` is unknown here: declare the shape of {listed} before"
    return lexemes.error(words, number, f"{names[0]}: 3")


def activation_op(call: LayerCall, lexemes: Lexemes) -> Op | None:
    """Return the activation that a call names: an elementwise operation on vectors. None if the call names none.

    Raises:
        ExpressionError: if no such operation has this name.
    """
    if call.activation is None:
        return None
    name = lexemes.words[call.activation]
    op = _activation_named(name)
    if op is None:
        from autodiff_cli.language.diagnostics import FOREIGN_FUNCTIONS, UNAVAILABLE_FUNCTIONS

        activations = filter(_activation_named, () if name in UNAVAILABLE_FUNCTIONS else ops.function_names())
        close = suggest(FOREIGN_FUNCTIONS.get(name, name), activations, allow_prefix=False)
        words = f"`{name}` is not an activation: use a built-in function of one argument that applies to each element"
        raise lexemes.error(words, call.activation, close)
    return op


def _activation_named(name: str) -> Op | None:
    """Return the operation of this name that maps a vector to a vector of the same length; None if there is none."""
    unary = (op for op in ops.overloads(name) if op.accepts(1))
    return next((op for op in unary if shape_of(Node(op, (constant("0"),)), [(2,)]) == (2,)), None)
