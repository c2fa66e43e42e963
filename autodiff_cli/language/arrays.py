"""What a text says of the shapes of its nodes: which names have to be arrays, and what does not fit together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.shapes import Shapes
from autodiff_cli.graph.tape import topological

# The inputs that have to be arrays, of the structural operations where that is not all of them.
_ARRAY_INPUTS: dict[str, tuple[int, ...]] = {
    "stack": (),
    "sum_like": (),
    "broadcast_like": (),
    "index": (0,),
    "part": (0,),
    "place": (1,),
    "pad": (0, 3),
}
_GIVE_ARRAYS = {"stack", "concat", "outer", "transpose", "softmax", "logsoftmax", "place", "part", "pad"}


def array_names(roots: Sequence[Node], declared: Mapping[str, Shape]) -> frozenset[str]:
    """The free names that stand where an array is required, and have no declared shape.

    They are operands of operations on whole arrays, such as `@` and `sum`, or of elementwise operations that are, in
    which nothing else is an array. Several names that stand together all count, though one of them might be a number.

    Raises:
        ShapeError: where shapes that are known do not fit together.
    """
    return _names(roots, declared, lambda is_required, is_beside_an_array: is_required and not is_beside_an_array)


def possible_array_names(roots: Sequence[Node], declared: Mapping[str, Shape]) -> frozenset[str]:
    """The free names without a declared shape that may be arrays: those of `array_names`, and those that an elementwise
    operation combines with an array, as `b` in `W @ x + b`."""
    return _names(roots, declared, lambda is_required, is_beside_an_array: is_required or is_beside_an_array)


def _names(
    roots: Sequence[Node], declared: Mapping[str, Shape], passes_on: Callable[[bool, bool], bool]
) -> frozenset[str]:
    """The free names that operations on whole arrays take in, also through elementwise operations that `passes_on` lets
    through: told whether the operation itself stands where an array is required, and whether an input is one."""
    order = topological(roots)
    arrays = _certain_arrays(order, declared)
    required: set[Node] = set()
    for node in reversed(order):
        if node.op is None:
            continue
        if node.op.structural:
            required.update(_array_inputs(node))
        elif passes_on(node in required, not arrays.isdisjoint(node.inputs)):
            required.update(node.inputs)
    return frozenset(node.text for node in required if node.is_input and node.text not in declared)


def _array_inputs(node: Node) -> list[Node]:
    """The inputs of a structural operation that have to be arrays."""
    assert node.op is not None
    return [node.inputs[k] for k in _ARRAY_INPUTS.get(node.op.name, range(len(node.inputs)))]


def _certain_arrays(order: Sequence[Node], declared: Mapping[str, Shape]) -> set[Node]:
    """The nodes that are arrays whatever the free names are."""
    shapes = Shapes(declared, {node.text for node in order if node.is_input} - declared.keys())
    arrays: set[Node] = set()
    for node in order:
        shape = shapes.of(node)
        if shape or (shape is None and _gives_an_array(node, arrays, shapes)):
            arrays.add(node)
    return arrays


def _gives_an_array(node: Node, arrays: Set[Node], shapes: Shapes) -> bool:
    """Whether a node is an array for certain, although its shape is not known."""
    if node.op is None:
        return False
    if node.op.name == "matmul":
        return any(len(shapes.of(child) or ()) == 2 for child in node.inputs)
    return node.op.name in _GIVE_ARRAYS or (not node.op.structural and not arrays.isdisjoint(node.inputs))
