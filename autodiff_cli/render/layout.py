"""Where the nodes and edges of a graph go: in layers, from left to right, with few crossings.

The one place that knows the library that lays out; everything else knows this function and what it returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MOST_NODES = 3000  # of a graph that can be read, and laid out in seconds

# Distances in pixels.
_BETWEEN_LAYERS, _BETWEEN_NODES, _BETWEEN_LINES = 40, 18, 12
_AROUND_LABELS = 10


class Point(NamedTuple):
    """A place in the drawing, in pixels from its upper left corner."""

    x: float
    y: float


class Size(NamedTuple):
    """The extent of a node or a label, in pixels."""

    width: float
    height: float


class Route(NamedTuple):
    """The bends of an edge, its ends included, and the middle of its label; None for one without."""

    points: tuple[Point, ...]
    label: Point | None


class Layout(NamedTuple):
    """A drawing: its size, the centre of every node, the route of every edge."""

    size: Size
    centres: list[Point]
    routes: list[Route]


class TooLarge(ValueError):  # noqa: N818 - what the graph is
    """A graph of more nodes than a drawing can show."""


def layered(nodes: Sequence[Size], edges: Sequence[tuple[int, int]], labels: Sequence[Size | None]) -> Layout:
    """Place a directed graph without cycles. The same graph always gives the same layout.

    Args:
        nodes: their sizes.
        edges: pairs of positions in `nodes`, from and to; the same pair may occur several times.
        labels: the size of each edge's label; None for an edge without.

    Raises:
        TooLarge: for more than `MOST_NODES` nodes.
    """
    if len(nodes) > MOST_NODES:
        raise TooLarge(f"a drawing shows up to {MOST_NODES} nodes, and this graph has {len(nodes)}")
    import graphlay

    graph = graphlay.Graph()
    for size in nodes:
        graph.node(width=size.width, height=size.height)
    for (source, target), label in zip(edges, labels, strict=True):
        graph.edge(source, target, label_size=None if label is None else label._asdict())
    found = graphlay.layout(graph, options=_OPTIONS)
    left, top, right, bottom = (found.bounds[corner][axis] for corner in ("min", "max") for axis in "xy")

    def point(place: dict[str, float]) -> Point:
        return Point(place["x"] - left, place["y"] - top)

    routes = [
        Route(tuple(map(point, edge["points"])), None if label is None else point(edge["label_anchor"]))
        for edge, label in zip(found.edges, labels, strict=True)
    ]
    return Layout(Size(right - left, bottom - top), [point(node["center"]) for node in found.nodes], routes)


_OPTIONS = {
    "direction": "leftright",
    "routing": {"style": "orthogonal"},
    "spacing": {
        "layer_gap": _BETWEEN_LAYERS,
        "node_gap": _BETWEEN_NODES,
        "dummy_gap": _BETWEEN_LINES,
        "port_gap": _BETWEEN_LINES,
        "edge_label_margin": _AROUND_LABELS,
    },
}
