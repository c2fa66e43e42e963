"""What a text says of the shapes of its nodes: which names have to be arrays, and what does not fit together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.shapes import ShapeError, Shapes
from autodiff_cli.graph.tape import topological
from autodiff_cli.ops.structural import whole_number

# Of the search for shapes that may serve as examples.
MOST_NAMES, MOST_TRIES, LARGEST_EXAMPLE = 8, 300, 20


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
    positions = node.op.array_inputs
    return [*node.inputs] if positions is None else [node.inputs[k] for k in positions]


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
    if node.op.structural:
        return node.op.gives_array is not None and node.op.gives_array(*map(shapes.of, node.inputs))
    return not arrays.isdisjoint(node.inputs)


def example_shapes(root: Node, declared: Mapping[str, Shape], names: Iterable[str]) -> dict[str, Shape]:
    """Small shapes for names that have to be arrays, under which everything fits; empty if none are found soon.

    A name with a capital is a matrix if it can be, others are vectors.

    >>> from autodiff_cli import parse
    >>> f = parse("sum(W @ x + b)")
    >>> example_shapes(f.output, f.shapes, f.variables)
    {'W': (2, 3), 'x': (3,), 'b': (2,)}
    """
    sizes = {size for shape in declared.values() for size in shape}
    indices = [index for node in topological((root,)) if (index := whole_number(node)) is not None]
    sizes |= {index + 1 for index in indices if index < LARGEST_EXAMPLE}
    lengths = [3, 2, *sorted(sizes - {2, 3})]
    vectors: list[Shape] = [(length,) for length in lengths]
    matrices: list[Shape] = [(rows, columns) for columns in lengths for rows in lengths[1::-1] + lengths[2:]]
    tries = iter(range(MOST_TRIES))

    def search(known: Mapping[str, Shape], waiting: Sequence[str]) -> Mapping[str, Shape] | None:
        if not waiting:
            return known
        name, *rest = waiting
        for shape in [*matrices, *vectors] if name[0].isupper() else [*vectors, *matrices]:
            if next(tries, None) is None:
                return None
            wider = {**known, name: shape}
            if _fits(root, wider, rest) and (found := search(wider, rest)) is not None:
                return found
        return None

    asked = [name for name in names if name not in declared][:MOST_NAMES]
    found = search(declared, asked) or {}
    return {name: found[name] for name in asked if name in found}


def _fits(root: Node, known: Mapping[str, Shape], unknown: Iterable[str]) -> bool:
    """Whether shapes fit together, as far as they are known."""
    try:
        Shapes(known, frozenset(unknown)).of(root)
    except ShapeError:
        return False
    return True
