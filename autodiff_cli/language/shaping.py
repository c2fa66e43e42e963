"""Last step of reading: what a text says of the shapes of its nodes, and what does not fit together."""

from __future__ import annotations

from autodiff_cli.graph.shapes import ShapeError, Shapes
from autodiff_cli.graph.tape import topological
from autodiff_cli.language.building import Graph
from autodiff_cli.language.errors import shape_error, suggest
from autodiff_cli.language.names import Names


def check_shapes(names: Names, graph: Graph) -> frozenset[str]:
    """Refuse shapes that do not fit together, as far as they are known.

    Returns:
        The names without a declared shape that have to be arrays (see `array_names`).

    Raises:
        ExpressionError: for the first mistake.
    """
    is_structural = any(op.structural for op in names.operations.values())
    if not (graph.shapes or is_structural or "@" in names.lexemes.words):
        return frozenset()
    from autodiff_cli.language.arrays import array_names

    assert graph.output is not None
    roots = [*graph.values.values(), *([] if graph.target is None else [graph.target]), graph.output]
    try:
        arrays = array_names(roots, graph.shapes)
        if graph.taken:
            _check_layers(names, graph, arrays)
        shapes = Shapes(graph.shapes, arrays)
        for root in roots:
            shapes.of(root)
    except ShapeError as mismatch:
        raise shape_error(mismatch, graph.source) from None
    return arrays


def _check_layers(names: Names, graph: Graph, arrays: frozenset[str]) -> None:
    """Refuse free names that look like a parameter of a layer, and are none; and layers whose input turned out to have
    another shape than it was taken to have."""
    from autodiff_cli.language.layers import unknown_length

    networks = {name.partition(".")[0] for name in graph.initial}
    for name, place in names.met.items():
        network, dot, _ = name.partition(".")
        if dot and network in networks and name not in graph.initial:
            words = f"there is no parameter `{name}` among those of `{network}`"
            raise names.lexemes.error(words, place, suggest(name, graph.initial))
    shapes = Shapes(graph.shapes, arrays)
    for call, place, x, shape in graph.taken:
        if shapes.of(x) != shape:
            these = [node.text for node in topological((x,)) if node.text in arrays]
            raise unknown_length(names.lexemes, call, place, these)
