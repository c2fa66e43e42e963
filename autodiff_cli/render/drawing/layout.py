"""Where the nodes and edges of a graph go: in layers, with few crossings, from left to right, down, or in several rows.

The one place that knows the library that lays out; everything else knows this function and what it returns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

MOST_NODES = 3000  # of a graph that can be read, and laid out in seconds

# Distances in pixels.
_BETWEEN_LAYERS, _BETWEEN_NODES, _BETWEEN_LINES = 40, 18, 12
_AROUND_LABELS = 10
_FEW = 100  # nodes for which there is time to untangle every crossing
_MANY = 400  # nodes for which there is no time to compare drawings
TITLE = 18  # the height of a frame's title, and the room inside a frame on all sides


class Location(NamedTuple):
    """A place in the drawing, in pixels from its upper left corner."""

    x: float
    y: float


class Size(NamedTuple):
    """The extent of a node or a label, in pixels."""

    width: float
    height: float


PAPER = Size(1200, 1600)  # what can be looked at as a whole


class Route(NamedTuple):
    """The bends of an edge, its ends included, and the middle of its label; None for one without."""

    points: tuple[Location, ...]
    label: Location | None


class Enclosure(NamedTuple):
    """What a frame encloses: nodes by position, and frames that name it as their `outer`.

    Attributes:
        outer: the position of the frame in which this one stands; None for an outermost one.
        title: the width of its title.
    """

    nodes: Sequence[int]
    outer: int | None
    title: float


class Place(NamedTuple):
    """A rectangle in the drawing."""

    centre: Location
    size: Size


class Layout(NamedTuple):
    """A drawing: its size, the centre of every node, the route of every edge, the place of every frame."""

    size: Size
    centres: list[Location]
    routes: list[Route]
    frames: list[Place]


class TooLarge(ValueError):  # noqa: N818 - what the graph is
    """A graph of more nodes than a drawing can show."""


def layered(
    nodes: Sequence[Size],
    edges: Sequence[tuple[int, int]],
    labels: Sequence[Size | None],
    frames: Sequence[Enclosure] = (),
    *,
    may_turn: bool = True,
) -> Layout:
    """Place a directed graph without cycles. The same graph always gives the same layout.

    Of layers from left to right, downwards, and both in several rows or columns, it is the first that a page has room
    for, else the one that needs least more.

    Args:
        nodes: their sizes.
        edges: pairs of positions in `nodes`, from and to; the same pair may occur several times.
        labels: the size of each edge's label; None for an edge without.
        frames: outer ones before those within. No path leaves one and comes back.
        may_turn: whether layers need not go from left to right.

    Raises:
        TooLarge: for more than `MOST_NODES` nodes.
    """
    if len(nodes) > MOST_NODES:
        raise TooLarge(f"a drawing shows up to {MOST_NODES} nodes, and this graph has {len(nodes)}")
    import graphlay

    graph = graphlay.Graph()
    parents: dict[int, dict[str, Any]] = {}
    for k, frame in enumerate(frames):
        outer: dict[str, Any] = {} if frame.outer is None else {"parent": frame.outer}
        graph.node(width=max(frame.title, 1), height=TITLE, **outer)
        parents |= {i: {"parent": k} for i in frame.nodes}
    for k, size in enumerate(nodes):
        graph.node(width=size.width, height=size.height, **parents.get(k, {}))
    for (source, target), label in zip(edges, labels, strict=True):
        ends = source + len(frames), target + len(frames)
        graph.edge(*ends, label_size=None if label is None else label._asdict())
    options = {**_OPTIONS, "effort": "balanced" if len(nodes) <= _FEW else "fast"}
    ways = _WAYS if may_turn and len(nodes) <= _MANY else _WAYS[:1]
    found = min((graphlay.layout(graph, options={**options, **way}) for way in ways), key=_beyond)
    left, top = (found.bounds["min"][axis] for axis in "xy")

    def point(place: dict[str, float]) -> Location:
        return Location(place["x"] - left, place["y"] - top)

    places = [Place(point(node["center"]), Size(**node["size"])) for node in found.nodes]
    centres = [place.centre for place in places[len(frames) :]]
    free, routes = _Free(places[len(frames) :]), []
    for edge, label in zip(found.edges, labels, strict=True):
        points = tuple(map(point, edge["points"]))
        spot = None if label is None else free.spot(label, point(edge["label_anchor"]), points)
        routes.append(Route(points, spot))
    return Layout(_extent(found), centres, routes, places[: len(frames)])


def _extent(found: Any) -> Size:
    return Size(*(found.bounds["max"][axis] - found.bounds["min"][axis] for axis in "xy"))


def _beyond(found: Any) -> float:
    return beyond(_extent(found))


def beyond(size: Size) -> float:
    """How far a layout goes beyond a page; 1 for one that does not. What is too wide is worse than what is too high."""
    across, down = max(1, size.width / PAPER.width), max(1, size.height / PAPER.height)
    return float(across * across * down)


class _Free:
    """Where labels can go: on their lines, not on nodes or on each other as long as there is room."""

    def __init__(self, nodes: Iterable[Place]) -> None:
        self._taken: dict[tuple[int, int], list[Place]] = {}  # by square of the drawing
        for node in nodes:
            self._take(node)

    def spot(self, size: Size, anchor: Location, points: Sequence[Location]) -> Location:
        """Where to put a label of an edge. `anchor` is a first suggestion, which need not be on the line."""
        stretches = sorted(itertools.pairwise(points), key=_length, reverse=True)
        spots = [anchor] if any(_is_between(anchor, *stretch) for stretch in stretches) else []
        spots += [_between(stretch, share) for share in _SHARES for stretch in stretches]
        spot = next((spot for spot in spots if self._is_free(Place(spot, size))), spots[0])
        self._take(Place(spot, size))
        return spot

    def _take(self, place: Place) -> None:
        for square in _squares(place):
            self._taken.setdefault(square, []).append(place)

    def _is_free(self, place: Place) -> bool:
        return not any(_meet(place, other) for square in _squares(place) for other in self._taken.get(square, ()))


def _squares(place: Place) -> Iterator[tuple[int, int]]:
    """The squares of the drawing in which a place is."""
    (x, y), (width, height) = place
    columns = range(int((x - width / 2) // _SQUARE), int((x + width / 2) // _SQUARE) + 1)
    rows = range(int((y - height / 2) // _SQUARE), int((y + height / 2) // _SQUARE) + 1)
    return itertools.product(columns, rows)


def _meet(place: Place, other: Place) -> bool:
    return all(abs(place.centre[k] - other.centre[k]) < (place.size[k] + other.size[k]) / 2 for k in (0, 1))


def _length(stretch: tuple[Location, Location]) -> float:
    """The length of a horizontal or vertical stretch."""
    start, end = stretch
    return abs(start.x - end.x) + abs(start.y - end.y)


def _between(stretch: tuple[Location, Location], share: float) -> Location:
    start, end = stretch
    return Location(start.x + share * (end.x - start.x), start.y + share * (end.y - start.y))


def _is_between(place: Location, start: Location, end: Location) -> bool:
    """Whether a place is on a horizontal or vertical stretch, as far as an eye can tell."""
    return all(min(start[k], end[k]) - 1 <= place[k] <= max(start[k], end[k]) + 1 for k in (0, 1))


_SQUARE = 100  # in pixels: about the size of a node
_SHARES = (0.5, 0.3, 0.7, 0.15, 0.85)  # of a stretch, where a label may be put
_IN_ROWS = {
    "wrap": {"viewport_aspect": PAPER.width / PAPER.height},
    "tuning": {"wrap": {"max_rows": 30, "max_cut_edges": 100, "min_gain": 1.01}},
}
_WAYS: tuple[dict[str, Any], ...] = tuple(
    {"direction": direction, **rows} for rows in ({}, _IN_ROWS) for direction in ("leftright", "topbottom")
)
_OPTIONS = {
    "routing": {"style": "orthogonal"},
    "spacing": {
        "layer_gap": _BETWEEN_LAYERS,
        "node_gap": _BETWEEN_NODES,
        "dummy_gap": _BETWEEN_LINES,
        "port_gap": _BETWEEN_LINES,
        "edge_label_margin": _AROUND_LABELS,
        "compound_padding": TITLE,
    },
}
