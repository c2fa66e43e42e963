"""Shape inference: the shape of every node, from the shapes of the inputs and before any value is computed.

A scalar has the shape `()`. Elementwise operations broadcast by NumPy's rules: shapes are aligned at their last axis,
and an axis of length 1 stretches. A structural operation declares its own shape function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.tape import Tape, infer


class ShapeError(ValueError):
    """The shapes of an operation's inputs are incompatible.

    Attributes:
        node: the operation; None if not known.
    """

    def __init__(self, message: str, node: Node | None = None) -> None:
        super().__init__(message)
        self.node = node


def infer_shapes(tape: Tape, leaves: Mapping[str, Shape]) -> list[Shape]:
    """Return the shape of every node of a tape, by position.

    Args:
        leaves: the shapes of input leaves by name; leaves without an entry are scalars.

    Raises:
        ShapeError: if shapes are incompatible; its `node` is the operation.
    """
    shapes = ShapeInference(leaves)
    return [shapes.infer(node) or () for node in tape.nodes]


class ShapeInference:
    """Shapes of nodes, inferred on demand and cached.

    Args:
        leaves: the shapes of input leaves by name; leaves without an entry are scalars.
        unknown: the names of leaves with an unknown shape.
    """

    def __init__(self, leaves: Mapping[str, Shape], unknown: Set[str] = frozenset()) -> None:
        self._leaves = leaves
        self._unknown = unknown
        self._shapes: dict[Node, Shape | None] = {}

    def infer(self, root: Node) -> Shape | None:
        """Return the shape of a node; None if it depends on an unknown shape.

        Raises:
            ShapeError: if known shapes are incompatible.
        """
        return infer(root, self._shapes, self._shape)

    def _shape(self, node: Node) -> Shape | None:
        if node.op is None:
            if node.is_input and node.text in self._unknown:
                return None
            return self._leaves.get(node.text, ()) if node.is_input else ()
        inputs = [shape for shape in map(self._shapes.__getitem__, node.inputs) if shape is not None]
        if len(inputs) < len(node.inputs):
            return None
        try:
            return shape_of(node, inputs)
        except ShapeError as error:
            raise ShapeError(str(error), node) from None


def shape_of(node: Node, inputs: Sequence[Shape]) -> Shape:
    """Return the shape of one node, given the shapes of its inputs. Raises ShapeError if they are incompatible."""
    op = node.op
    assert op is not None
    if op.shape is not None:
        return op.shape(node, *inputs)
    return inputs[0] if inputs.count(inputs[0]) == len(inputs) else broadcast_shapes(*inputs)


def broadcast_shapes(*inputs: Shape) -> Shape:
    """Return the common shape that arrays with these shapes broadcast to. Raises ShapeError if there is none."""
    rank = max(map(len, inputs))
    result = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in inputs if len(shape) >= -axis} - {1}
        if len(sizes) > 1:
            raise ShapeError(f"shapes {' and '.join(map(format_shape, inputs))} do not fit together")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def format_shape(shape: Shape) -> str:
    """Return a shape in the notation of the language: `2x3`, `3`, or "scalar"."""
    return "x".join(map(str, shape)) or "scalar"
