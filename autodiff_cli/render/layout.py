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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

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


class FrameSpec(NamedTuple):
    """A frame to lay out. It encloses nodes, and other frames that name it as their `outer` frame.

    Attributes:
        nodes: the indices of the nodes directly inside.
        outer: the index of the enclosing frame; None for an outermost frame.
        title_width: the width of the title in pixels.
    """

    nodes: Sequence[int]
    outer: int | None
    title_width: float


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


def layered_layout(
    nodes: Sequence[Size],
    edges: Sequence[tuple[int, int]],
    labels: Sequence[Size | None],
    frames: Sequence[FrameSpec] = (),
) -> Layout:
    """Lay out an acyclic directed graph in layers; the result is deterministic.

    Layers are tried from left to right, from top to bottom, and both wrapped into several rows or columns. The first
    layout that fits a page is chosen, else the one that exceeds it least.

    Args:
        nodes: the sizes of the nodes.
        edges: pairs of indices of nodes, source and target; a pair may occur several times.
        labels: the size of the label of each edge; None for an edge without a label.
        frames: frames, each after the one that encloses it. No path may leave a frame and return to it.
    """
    import graphlay

    graph = graphlay.Graph()
    parents: dict[int, dict[str, Any]] = {}
    for k, frame in enumerate(frames):
        outer: dict[str, Any] = {} if frame.outer is None else {"parent": frame.outer}
        graph.node(width=max(frame.title_width, 1), height=TITLE_HEIGHT, **outer)
        parents |= {i: {"parent": k} for i in frame.nodes}
    for k, size in enumerate(nodes):
        graph.node(width=size.width, height=size.height, **parents.get(k, {}))
    for (source, target), label in zip(edges, labels, strict=True):
        ends = source + len(frames), target + len(frames)
        graph.edge(*ends, label_size=None if label is None else label._asdict())
    options = {**_OPTIONS, "effort": "balanced" if len(nodes) <= _MAX_BALANCED_NODES else "fast"}
    ways = _DIRECTIONS if len(nodes) <= _MAX_COMPARED_NODES else _DIRECTIONS[:1]
    result = min(
        (graphlay.layout(graph, options={**options, **way}) for way in ways),
        key=lambda result: page_overflow(Size(*(result.bounds["max"][k] - result.bounds["min"][k] for k in "xy"))),
    )
    places = [Rectangle(Point(**node["center"]), Size(**node["size"])) for node in result.nodes]
    free, routes = _LabelPlacer(places[len(frames) :]), []
    for edge, label in zip(result.edges, labels, strict=True):
        points = tuple(Point(**place) for place in edge["points"])
        centre = None if label is None else free.place(label, Point(**edge["label_anchor"]), points)
        routes.append(Route(points, centre))
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


def layout_with_copies(
    nodes: Sequence[Size], edges: Sequence[tuple[int, int]], labels: Sequence[Size | None], frames: Sequence[FrameSpec]
) -> LayoutWithCopies:
    """Lay out a graph like `layered_layout`, in reasonable time also for graphs with many long edges.

    Raises:
        GraphTooLargeError: for more than `MAX_NODES` nodes.
    """
    if len(nodes) > MAX_NODES:
        raise GraphTooLargeError(f"a drawing can have at most {MAX_NODES} nodes, and this graph has {len(nodes)}")
    there, ends, copies = _copy_sources(len(nodes), edges, {k: edges[k][1] for k in _longest_edges(len(nodes), edges)})
    members = [[*frame.nodes] for frame in frames]
    around = {i: inside for inside in members for i in inside}
    for (_, target), copy in copies.items():
        around.get(target, []).append(copy)
    frames = [frame._replace(nodes=inside) for frame, inside in zip(frames, members, strict=True)]
    return LayoutWithCopies(layered_layout([nodes[i] for i in there], ends, labels, frames), there)


def _copy_sources(
    count: int, edges: Sequence[tuple[int, int]], places: Mapping[int, P]
) -> tuple[list[int], list[tuple[int, int]], dict[tuple[int, P], int]]:
    """Draw the sources of some edges again, once for each source and place.

    Args:
        count: the number of nodes.
        edges: the edges.
        places: the place of the duplicate, by the index of the edge that leaves from it.

    Returns:
        The node at each position, the positions of the ends of all edges, and the position of each duplicate by its
        node and place, in order.
    """
    there, ends = [*range(count)], list(edges)
    copies: dict[tuple[int, P], int] = {}
    for k, place in places.items():
        source, target = edges[k]
        copy = copies.setdefault((source, place), len(there))
        if copy == len(there):
            there.append(source)
        ends[k] = copy, target
    return there, ends, copies


def _longest_edges(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the indices of the longest edges, without which there are at most `_MAX_WAYPOINTS` waypoints."""
    layers = _node_layers(count, edges)
    lengths = sorted((layers[target] - layers[source] - 1, k) for k, (source, target) in enumerate(edges))
    waypoints = 0
    for length, k in lengths:
        waypoints += length
        if waypoints > _MAX_WAYPOINTS:
            return sorted(other for longer, other in lengths if (longer, other) >= (length, k))
    return []


def _node_layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of every node; the last layer is 0.

    A node stands right before the first of its users, so that edges from operations are short and edges from variables
    long. Nodes come after their inputs, as on a tape.
    """
    users: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        users[source].append(target)
    layers = [0] * count
    for i in reversed(range(count)):
        layers[i] = min((layers[j] for j in users[i]), default=1) - 1
    return layers


# --- Layouts in parts ---


class _Part(NamedTuple):
    """A layout of some positions, edges and frames, with a margin around it."""

    layout: Layout
    places: list[int]
    edges: list[int]
    frames: list[int]
    margin: Size


def layout_in_parts(
    nodes: Sequence[Size], edges: Sequence[tuple[int, int]], labels: Sequence[Size | None], frames: Sequence[FrameSpec]
) -> LayoutWithCopies | None:
    """Lay out a graph part by part; return None if it has no frames. See `layered_layout` for the arguments."""
    if not frames:
        return None
    outermost: list[int] = []
    part_of: list[int | None] = [None] * len(nodes)  # the part of each position
    for k, frame in enumerate(frames):
        outermost.append(k if frame.outer is None else outermost[frame.outer])
        for i in frame.nodes:
            part_of[i] = outermost[k]
    settled = {i for frame in frames for i in frame.nodes} | {target for _, target in edges}
    for source, target in reversed(edges):
        if source not in settled:
            part_of[source] = part_of[target]  # variables and constants belong to the first part that uses them
    between = {k: part_of[target] for k, (source, target) in enumerate(edges) if part_of[source] != part_of[target]}
    there, ends, copies = _copy_sources(len(nodes), edges, between)
    part_of += [part for _, part in copies]

    def lay_out(unit: int | None) -> _Part:
        """Lay out an outermost frame, or the nodes outside all frames."""
        places = [i for i, where in enumerate(part_of) if where == unit]
        position = {i: k for k, i in enumerate(places)}
        own = [k for k, (_, target) in enumerate(ends) if target in position]
        inner = [k for k, frame in enumerate(frames) if frame.outer is not None and outermost[k] == unit]
        within = {k: at for at, k in enumerate(inner)}
        enclosures = [
            frames[k]._replace(nodes=[position[i] for i in frames[k].nodes], outer=within.get(frames[k].outer or 0))
            for k in inner
        ]
        own_ends = [(position[ends[k][0]], position[ends[k][1]]) for k in own]
        sizes = [nodes[there[i]] for i in places]
        result = layered_layout(sizes, own_ends, [labels[k] for k in own], enclosures)
        if unit is None:
            return _Part(result, places, own, inner, Size(0, 0))
        title = Size(max(result.size.width, frames[unit].title_width), result.size.height)
        return _Part(result._replace(size=title), places, own, [unit, *inner], Size(TITLE_HEIGHT, 2 * TITLE_HEIGHT))

    units: list[int | None] = [k for k, frame in enumerate(frames) if frame.outer is None]
    parts = [lay_out(unit) for unit in [*units, None] if unit in part_of]
    return LayoutWithCopies(_join_parts(parts, len(there), len(edges), len(frames)), there)


def _join_parts(parts: Sequence[_Part], nodes: int, edges: int, frames: int) -> Layout:
    """Place the parts in rows of the width that fits a page best."""
    sizes = [_outer_size(part) for part in parts]
    ends = [0.0, *itertools.accumulate(size.width + _PART_GAP for size in sizes)]
    widths = (max(end - start for start, end in zip(ends, ends[n:], strict=False)) for n in range(1, len(ends)))
    size, corners = min(
        (_pack_rows(sizes, width) for width in widths),
        key=lambda result: max(result[0].width / PAGE.width, result[0].height / PAGE.height),
    )
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
    return Layout(
        size, [centres[k] for k in range(nodes)], [routes[k] for k in range(edges)], [places[k] for k in range(frames)]
    )


def _outer_size(part: _Part) -> Size:
    """Return the size of a part with its margin, which is larger above, where the title is."""
    (width, height), margin = part.layout.size, part.margin
    return Size(width + 2 * margin.width, height + 1.5 * margin.height)


def _pack_rows(sizes: Sequence[Size], max_width: float) -> tuple[Size, list[Point]]:
    """Place rectangles in rows; return the total size and the upper left corner of each."""
    corners, left, top, width, height = [], 0.0, 0.0, 0.0, 0.0
    for size in sizes:
        if left and left + size.width > max_width:
            left, top, height = 0.0, top + height + _PART_GAP, 0.0
        corners.append(Point(left, top))
        width, height = max(width, left + size.width), max(height, size.height)
        left += size.width + _PART_GAP
    return Size(width, top + height), corners
