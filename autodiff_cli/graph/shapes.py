"""Shapes before values: what shape every node has once the shapes of the inputs are known.

`()` is a scalar's. Elementwise operations broadcast by NumPy's rules: shapes are aligned at their last axis, and an
axis of length 1 stretches. A structural operation says for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.tape import Tape


class ShapeError(ValueError):
    """Shapes that do not fit together.

    Attributes:
        node: the operation whose inputs do not fit.
    """

    def __init__(self, message: str, node: Node | None = None) -> None:
        super().__init__(message)
        self.node = node


def shapes(tape: Tape, leaves: Mapping[str, Shape]) -> list[Shape]:
    """The shape of every node of a tape.

    Args:
        leaves: the shapes of input leaves by name; the others are scalars.

    Raises:
        ShapeError: where shapes do not fit together; its `node` is the operation.
    """
    found: list[Shape] = []
    for node, inputs in zip(tape.nodes, tape.inputs, strict=True):
        if node.op is None:
            found.append(() if node.is_constant else leaves.get(node.text, ()))
        else:
            try:
                found.append(shape_of(node, [found[i] for i in inputs]))
            except ShapeError as error:
                raise ShapeError(str(error), error.node or node) from None
    return found


class Shapes:
    """The shapes of nodes, each found once.

    Args:
        leaves: the shapes of input leaves by name; the others are scalars.
        unknown: the names of those of which nothing is known.
    """

    def __init__(self, leaves: Mapping[str, Shape], unknown: Set[str] = frozenset()) -> None:
        self._leaves = leaves
        self._unknown = unknown
        self._found: dict[Node, Shape | None] = {}

    def of(self, root: Node) -> Shape | None:
        """The shape of a node; None if it depends on one that is not known.

        Raises:
            ShapeError: where shapes that are known do not fit together.
        """
        found = self._found
        waiting = [root]
        while waiting:
            node = waiting[-1]
            missing = [child for child in node.inputs if child not in found]
            if missing:
                waiting.extend(reversed(missing))
                continue
            waiting.pop()
            if node not in found:
                found[node] = self._shape(node)
        return found[root]

    def _shape(self, node: Node) -> Shape | None:
        if node.op is None:
            if node.is_input and node.text in self._unknown:
                return None
            return self._leaves.get(node.text, ()) if node.is_input else ()
        inputs = [shape for shape in map(self._found.__getitem__, node.inputs) if shape is not None]
        if len(inputs) < len(node.inputs):
            return None
        try:
            return shape_of(node, inputs)
        except ShapeError as error:
            raise ShapeError(str(error), node) from None


def shape_of(node: Node, inputs: Sequence[Shape]) -> Shape:
    """The shape of one node, given those of its inputs. Raises ShapeError if these do not fit."""
    op = node.op
    assert op is not None
    if op.shape is not None:
        return op.shape(node, *inputs)
    return inputs[0] if inputs.count(inputs[0]) == len(inputs) else broadcast(*inputs)


def broadcast(*inputs: Shape) -> Shape:
    """The shape that arrays of these shapes broadcast to. Raises ShapeError if they do not."""
    rank = max(map(len, inputs))
    result = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in inputs if len(shape) >= -axis} - {1}
        if len(sizes) > 1:
            raise ShapeError(f"shapes {' and '.join(map(in_words, inputs))} do not fit together")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def in_words(shape: Shape) -> str:
    """A shape as the language writes it: `2x3`, `3`, or "scalar"."""
    return "x".join(map(str, shape)) or "scalar"
