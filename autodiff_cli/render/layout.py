"""Layouts of graphs: where nodes, edges, labels and frames go in a drawing.

`layered_layout` places nodes in layers with few crossings; it is the only function that knows the layout library.
`layout_with_copies` handles graphs with many long edges. An edge needs a waypoint in each layer that it passes. If
there would be too many, the sources of the longest edges are drawn again beside their targets. `layout_in_parts`
handles large graphs with frames: each outermost frame is laid out by itself, and the parts are placed in rows like
words. Nodes that a part uses from other parts are drawn in it again, since long edges between parts are hard to follow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from autodiff_cli.graph.tape import group_pairs
from autodiff_cli.language.errors import InputError

P = TypeVar("P")

MAX_NODES = 3000  # more nodes take too long to lay out, and cannot be read
TITLE_HEIGHT = 18  # pixels; the height of a frame's title, and the padding on all sides of a frame


# Distances in pixels, and limits that keep the time of a layout below some seconds.
_LAYER_GAP = 40  # between layers
_NODE_GAP = 18  # between nodes of a layer
_LINE_GAP = 12  # between parallel edges
_LABEL_MARGIN = 10  # around the label of an edge
_MAX_BALANCED_NODES = 100  # larger graphs are laid out by a faster method, with more crossings
_MAX_COMPARED_NODES = 400  # larger graphs are laid out from left to right only
_GRID_SQUARE = 100  # side of the squares that index free space: about the size of a node
_LABEL_POSITIONS = (0.5, 0.3, 0.7, 0.15, 0.85)  # positions along a segment tried for a label
_MAX_WAYPOINTS = 3000  # points at which edges pass layers; with more, nodes are drawn again
_PART_GAP = 2.0 * TITLE_HEIGHT  # between the parts of a graph that is laid out in parts


class Point(NamedTuple):
    """A point in the drawing, in pixels from its upper left corner."""

    x: float
    y: float


class Size(NamedTuple):
    """The size of a node, a label or a drawing, in pixels."""

    width: float
    height: float


PAGE = Size(1200, 1600)  # pixels that fit on a screen or a printed page without scaling


class Route(NamedTuple):
    """The points of an edge (its ends and bends), and the centre of its label; None for an edge without a label."""

    points: tuple[Point, ...]
    label: Point | None


class NodeSpec(NamedTuple):
    """A node to lay out, and the index of the innermost frame around it; None for a node outside all frames."""

    size: Size
    frame: int | None = None


class EdgeSpec(NamedTuple):
    """An edge to lay out: the indices of its nodes, and the size of its label; None for an edge without a label."""

    source: int
    target: int
    label: Size | None


class FrameSpec(NamedTuple):
    """A frame to lay out: the index of the frame around it (None for an outermost one), and the width of its title."""

    outer: int | None
    title_width: float


class GraphSpec(NamedTuple):
    """An acyclic directed graph to lay out.

    Attributes:
        edges: a pair of nodes may occur several times.
        frames: each after the one around it. No path may leave a frame and return to it.
    """

    nodes: Sequence[NodeSpec]
    edges: Sequence[EdgeSpec]
    frames: Sequence[FrameSpec] = ()


class Rectangle(NamedTuple):
    """A rectangle in the drawing, given by its centre and size."""

    centre: Point
    size: Size


class Layout(NamedTuple):
    """A finished layout: its size, the centres of nodes, the routes of edges, the rectangles of frames."""

    size: Size
    centres: list[Point]
    routes: list[Route]
    frames: list[Rectangle]

    def translated(self, right: float, down: float) -> Layout:
        """Return a layout in which everything is translated by a distance."""

        def move(at: Point) -> Point:
            return Point(at.x + right, at.y + down)

        routes = [Route(tuple(map(move, route.points)), route.label and move(route.label)) for route in self.routes]
        frames = [Rectangle(move(frame.centre), frame.size) for frame in self.frames]
        return Layout(self.size, [*map(move, self.centres)], routes, frames)


class GraphTooLargeError(InputError):
    """The graph has more nodes than a drawing can show."""


def layered_layout(spec: GraphSpec) -> Layout:
    """Lay out a graph in layers; the result is deterministic.

    Layers are tried from left to right, from top to bottom, and both wrapped into several rows or columns. The first
    layout that fits a page is chosen, else the one that exceeds it least.
    """
    import graphlay

    nodes, edges, frames = spec
    graph = graphlay.Graph()
    titles = [NodeSpec(Size(max(frame.title_width, 1), TITLE_HEIGHT), frame.outer) for frame in frames]
    for size, around in (*titles, *nodes):
        graph.node(width=size.width, height=size.height, parent=around)
    for edge in edges:
        ends = edge.source + len(frames), edge.target + len(frames)
        graph.edge(*ends, label_size=edge.label and edge.label._asdict())
    options = {**_OPTIONS, "effort": "balanced" if len(nodes) <= _MAX_BALANCED_NODES else "fast"}
    ways = _DIRECTIONS if len(nodes) <= _MAX_COMPARED_NODES else _DIRECTIONS[:1]
    result = min(
        (graphlay.layout(graph, options={**options, **way}) for way in ways),
        key=lambda result: page_overflow(Size(*(result.bounds["max"][k] - result.bounds["min"][k] for k in "xy"))),
    )
    places = [Rectangle(Point(**node["center"]), Size(**node["size"])) for node in result.nodes]
    free, routes = _LabelPlacer(places[len(frames) :]), []
    for edge, path in zip(edges, result.edges, strict=True):
        points = tuple(Point(**place) for place in path["points"])
        routes.append(Route(points, edge.label and free.place(edge.label, Point(**path["label_anchor"]), points)))
    bends = (Rectangle(point, Size(0, 0)) for route in routes for point in route.points)
    shapes = [*places, *itertools.chain(*free.occupied.values()), *bends]
    left, top = (min(place.centre[k] - place.size[k] / 2 for place in shapes) for k in (0, 1))
    right, bottom = (max(place.centre[k] + place.size[k] / 2 for place in shapes) for k in (0, 1))
    centres = [place.centre for place in places[len(frames) :]]
    return Layout(Size(right - left, bottom - top), centres, routes, places[: len(frames)]).translated(-left, -top)


def page_overflow(size: Size) -> float:
    """Return by how much a layout exceeds a page; 1 if it fits. Excess width counts twice: scrolling down is easier."""
    across, down = max(1, size.width / PAGE.width), max(1, size.height / PAGE.height)
    return float(across * across * down)


class _LabelPlacer:
    """Places labels on their edges, away from nodes and from each other as long as there is space.

    Attributes:
        occupied: the nodes and the labels placed so far, by the squares of a grid that they touch.
    """

    def __init__(self, nodes: Iterable[Rectangle]) -> None:
        self.occupied: dict[tuple[int, int], list[Rectangle]] = {}
        for node in nodes:
            self._occupy(node)

    def place(self, size: Size, anchor: Point, points: Sequence[Point]) -> Point:
        """Return the centre for a label of an edge and reserve its space.

        Args:
            anchor: the position that the layout library suggests, which may be off the edge.
            points: the points of the edge.
        """
        segments = sorted(itertools.pairwise(points), key=lambda ends: math.dist(*ends), reverse=True)
        candidates = [anchor] if any(_is_on_segment(anchor, *segment) for segment in segments) else []
        candidates += [
            Point(start.x + share * (end.x - start.x), start.y + share * (end.y - start.y))
            for share in _LABEL_POSITIONS
            for start, end in segments
        ]
        centre = next((point for point in candidates if self._is_free(Rectangle(point, size))), candidates[0])
        self._occupy(Rectangle(centre, size))
        return centre

    def _occupy(self, place: Rectangle) -> None:
        for square in _grid_squares(place):
            self.occupied.setdefault(square, []).append(place)

    def _is_free(self, place: Rectangle) -> bool:
        others = (other for square in _grid_squares(place) for other in self.occupied.get(square, ()))
        return not any(
            all(abs(place.centre[k] - other.centre[k]) < (place.size[k] + other.size[k]) / 2 for k in (0, 1))
            for other in others
        )


def _grid_squares(place: Rectangle) -> Iterator[tuple[int, int]]:
    """Return the grid squares that a rectangle touches."""
    (x, y), (width, height) = place
    columns = range(int((x - width / 2) // _GRID_SQUARE), int((x + width / 2) // _GRID_SQUARE) + 1)
    rows = range(int((y - height / 2) // _GRID_SQUARE), int((y + height / 2) // _GRID_SQUARE) + 1)
    return itertools.product(columns, rows)


def _is_on_segment(place: Point, start: Point, end: Point) -> bool:
    """Whether a point is on a horizontal or vertical line segment, to within a pixel."""
    return all(min(start[k], end[k]) - 1 <= place[k] <= max(start[k], end[k]) + 1 for k in (0, 1))


_WRAP_OPTIONS = {
    "wrap": {"viewport_aspect": PAGE.width / PAGE.height},
    "tuning": {"wrap": {"max_rows": 30, "max_cut_edges": 100, "min_gain": 1.01}},
}
_DIRECTIONS: tuple[dict[str, Any], ...] = tuple(
    {"direction": direction, **rows} for rows in ({}, _WRAP_OPTIONS) for direction in ("leftright", "topbottom")
)
_OPTIONS = {
    "routing": {"style": "orthogonal"},
    "spacing": {
        "layer_gap": _LAYER_GAP,
        "node_gap": _NODE_GAP,
        "dummy_gap": _LINE_GAP,
        "port_gap": _LINE_GAP,
        "edge_label_margin": _LABEL_MARGIN,
        "compound_padding": TITLE_HEIGHT,
    },
}


# --- Duplicated nodes ---


class LayoutWithCopies(NamedTuple):
    """A layout and the node at each of its positions: all nodes in order, then duplicates of some."""

    layout: Layout
    nodes: list[int]


def layout_with_copies(spec: GraphSpec) -> LayoutWithCopies:
    """Lay out a graph like `layered_layout`, in reasonable time also for graphs with many long edges.

    Raises:
        GraphTooLargeError: for more than `MAX_NODES` nodes.
    """
    nodes, edges, _ = spec
    if len(nodes) > MAX_NODES:
        raise GraphTooLargeError(f"a drawing can have at most {MAX_NODES} nodes, and this graph has {len(nodes)}")
    copied, there = _copy_sources(
        spec, {k: edges[k].target for k in _longest_edges(spec)}, lambda target: nodes[target].frame
    )
    return LayoutWithCopies(layered_layout(copied), there)


def _copy_sources(
    spec: GraphSpec, places: Mapping[int, P], frame_at: Callable[[P], int | None]
) -> tuple[GraphSpec, list[int]]:
    """Draw the sources of some edges again, once for each source and place; return the node at each position too.

    Args:
        places: the place of the duplicate, by the index of the edge that leaves from it.
        frame_at: returns the frame around a duplicate from its place.
    """
    nodes, edges, there = [*spec.nodes], [*spec.edges], [*range(len(spec.nodes))]
    copies: dict[tuple[int, P], int] = {}
    for k, place in places.items():
        source = edges[k].source
        copy = copies.setdefault((source, place), len(nodes))
        if copy == len(nodes):
            nodes.append(NodeSpec(nodes[source].size, frame_at(place)))
            there.append(source)
        edges[k] = edges[k]._replace(source=copy)
    return spec._replace(nodes=nodes, edges=edges), there


def _longest_edges(spec: GraphSpec) -> list[int]:
    """Return the indices of the longest edges, without which there are at most `_MAX_WAYPOINTS` waypoints."""
    layers = _node_layers(spec)
    lengths = sorted((layers[edge.target] - layers[edge.source] - 1, k) for k, edge in enumerate(spec.edges))
    waypoints = 0
    for at, (length, _) in enumerate(lengths):
        waypoints += length
        if waypoints > _MAX_WAYPOINTS:
            return sorted(k for _, k in lengths[at:])
    return []


def _node_layers(spec: GraphSpec) -> list[int]:
    """Return the layer of every node; the last layer is 0.

    A node stands right before the first of its users, so that edges from operations are short and edges from variables
    long. Nodes come after their inputs, as on a tape.
    """
    users = group_pairs((edge.source, edge.target) for edge in spec.edges)
    layers = [0] * len(spec.nodes)
    for i in reversed(range(len(layers))):
        layers[i] = min((layers[j] for j in users.get(i, ())), default=1) - 1
    return layers


# --- Layouts in parts ---


class _Part(NamedTuple):
    """A layout of some positions, edges and frames, with a margin around it."""

    layout: Layout
    places: list[int]
    edges: list[int]
    frames: list[int]
    margin: Size


def layout_in_parts(spec: GraphSpec) -> LayoutWithCopies:
    """Lay out a graph part by part."""
    nodes, edges, frames = spec
    outermost: list[int] = []
    for k, frame in enumerate(frames):
        outermost.append(k if frame.outer is None else outermost[frame.outer])
    part_of = [None if node.frame is None else outermost[node.frame] for node in nodes]
    settled = {i for i, part in enumerate(part_of) if part is not None} | {edge.target for edge in edges}
    for edge in reversed(edges):
        if edge.source not in settled:
            part_of[edge.source] = part_of[edge.target]  # variables and constants belong to the first part with a user
    between = {k: part_of[edge.target] for k, edge in enumerate(edges) if part_of[edge.source] != part_of[edge.target]}
    copied, there = _copy_sources(spec, between, lambda part: part)
    part_of += [node.frame for node in copied.nodes[len(nodes) :]]

    def lay_out(unit: int | None) -> _Part:
        """Lay out an outermost frame, or the nodes outside all frames."""
        places = [i for i, where in enumerate(part_of) if where == unit]
        position = {i: k for k, i in enumerate(places)}
        own = [k for k, edge in enumerate(copied.edges) if edge.target in position]
        inner = [k for k, frame in enumerate(frames) if frame.outer is not None and outermost[k] == unit]
        within: dict[int | None, int] = {k: at for at, k in enumerate(inner)}
        result = layered_layout(
            GraphSpec(
                [NodeSpec(size, within.get(around)) for size, around in (copied.nodes[i] for i in places)],
                [
                    EdgeSpec(position[source], position[target], label)
                    for source, target, label in (copied.edges[k] for k in own)
                ],
                [frames[k]._replace(outer=within.get(frames[k].outer)) for k in inner],
            )
        )
        if unit is None:
            return _Part(result, places, own, inner, Size(0, 0))
        title = Size(max(result.size.width, frames[unit].title_width), result.size.height)
        return _Part(result._replace(size=title), places, own, [unit, *inner], Size(TITLE_HEIGHT, 2 * TITLE_HEIGHT))

    units: list[int | None] = [k for k, frame in enumerate(frames) if frame.outer is None]
    return LayoutWithCopies(_join_parts([lay_out(unit) for unit in [*units, None] if unit in part_of]), there)


def _join_parts(parts: Sequence[_Part]) -> Layout:
    """Place the parts in rows as wide as a page, or as the widest part."""
    sizes = [_outer_size(part) for part in parts]
    size, corners = _pack_rows(sizes, max(PAGE.width, *(size.width for size in sizes)))
    centres: dict[int, Point] = {}
    routes: dict[int, Route] = {}
    places: dict[int, Rectangle] = {}
    for part, corner in zip(parts, corners, strict=True):
        margin, outer = part.margin, _outer_size(part)
        layout = part.layout.translated(corner.x + margin.width, corner.y + margin.height)
        centres |= zip(part.places, layout.centres, strict=True)
        routes |= zip(part.edges, layout.routes, strict=True)
        around = [Rectangle(Point(corner.x + outer.width / 2, corner.y + outer.height / 2), outer)]
        places |= zip(part.frames, [*(around if margin.width else ()), *layout.frames], strict=True)
    return Layout(size, _in_order(centres), _in_order(routes), _in_order(places))


def _in_order(items: Mapping[int, P]) -> list[P]:
    """Return items in the order of their indices."""
    return [items[k] for k in sorted(items)]


def _outer_size(part: _Part) -> Size:
    """Return the size of a part with its margin, which is larger above, where the title is."""
    (width, height), margin = part.layout.size, part.margin
    return Size(width + 2 * margin.width, height + 1.5 * margin.height)


def _pack_rows(sizes: Sequence[Size], max_width: float) -> tuple[Size, list[Point]]:
    """Place rectangles in rows; return the total size and the upper left corner of each."""
    corners, left, top, width, height = [], 0.0, 0.0, 0.0, 0.0
    for size in sizes:
        if left + size.width > max_width:
            left, top, height = 0.0, top + height + _PART_GAP, 0.0
        corners.append(Point(left, top))
        width, height = max(width, left + size.width), max(height, size.height)
        left += size.width + _PART_GAP
    return Size(width, top + height), corners
