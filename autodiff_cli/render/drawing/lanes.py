"""Layouts of graphs with long edges.

To lay out an edge that passes many layers costs a waypoint in each of them, and more than the waypoints are many. Where
they would be too many, the longest edges run above the drawing instead, in one lane per source: up from the source,
along, and down to the target, as a bus is drawn in a circuit.
"""

from __future__ import annotations

from collections.abc import Sequence

from autodiff_cli.render.drawing.layout import Enclosure, Layout, Location, Place, Route, Size, layered

MOST_WAYPOINTS = 3000  # that are laid out in a fraction of a second

# Distances in pixels: between lanes, between the labels below them, and of a line from the node at its end.
_LANE, _LABEL, _STUB = 9.0, 16.0, 14.0


def laid_out(
    nodes: Sequence[Size],
    edges: Sequence[tuple[int, int]],
    labels: Sequence[Size | None],
    frames: Sequence[Enclosure] = (),
) -> Layout:
    """As `layered`, in reasonable time for any graph. Raises TooLarge as it does."""
    above = _longest(len(nodes), edges)
    if not above:
        return layered(nodes, edges, labels, frames)
    kept = [k for k in range(len(edges)) if k not in above]
    found = layered(nodes, [edges[k] for k in kept], [labels[k] for k in kept], frames, may_turn=False)
    lanes = {source: lane for lane, source in enumerate(dict.fromkeys(edges[k][0] for k in sorted(above)))}
    room = (_LANE + _LABEL) * len(lanes) + _STUB
    moved = _moved_down(found, room)
    routes: dict[int, Route] = dict(zip(kept, moved.routes, strict=True))
    lefts = _left_sides(nodes, moved.centres)
    for k in sorted(above):
        source, target = edges[k]
        lane = lanes[source]
        start, end = moved.centres[source], moved.centres[target]
        rise = start.x + nodes[source].width / 2 + _STUB
        drop, height = lefts[target] - _STUB - 2 * (lane % 4), lane * _LANE
        bends = [Location(rise, start.y), Location(rise, height), Location(drop, height), Location(drop, end.y)]
        ends = Location(start.x + nodes[source].width / 2, start.y), Location(end.x - nodes[target].width / 2, end.y)
        label = Location(drop, len(lanes) * _LANE + (lane + 0.5) * _LABEL)
        routes[k] = Route((ends[0], *bends, ends[1]), None if labels[k] is None else label)
    return moved._replace(routes=[routes[k] for k in range(len(edges))])


def _longest(count: int, edges: Sequence[tuple[int, int]]) -> set[int]:
    """The positions of the edges, longest first, without which there are few enough waypoints."""
    layers = _layers(count, edges)
    lengths = sorted((layers[target] - layers[source] - 1, k) for k, (source, target) in enumerate(edges))
    waypoints = 0
    for length, k in lengths:
        waypoints += length
        if waypoints > MOST_WAYPOINTS:
            return {other for longer, other in lengths if (longer, other) >= (length, k)}
    return set()


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of every node, the last one 0: right before the first of its users, so that edges from operations are
    short and those from variables long. Nodes come after their inputs, as on a tape."""
    users: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        users[source].append(target)
    layers = [0] * count
    for i in range(count - 1, -1, -1):
        layers[i] = min((layers[j] for j in users[i]), default=1) - 1
    return layers


def _moved_down(found: Layout, distance: float) -> Layout:
    """The layout with room above it."""

    def moved(place: Location) -> Location:
        return Location(place.x, place.y + distance)

    routes = [
        Route(tuple(map(moved, route.points)), None if route.label is None else moved(route.label))
        for route in found.routes
    ]
    places = [Place(moved(place.centre), place.size) for place in found.frames]
    size = Size(found.size.width, found.size.height + distance)
    return Layout(size, [*map(moved, found.centres)], routes, places)


def _left_sides(nodes: Sequence[Size], centres: Sequence[Location]) -> list[float]:
    """For every node, the left side of all that stand above or below it, so that a line may come down beside them."""
    order = sorted(range(len(nodes)), key=lambda k: centres[k].x)
    lefts = [centre.x - size.width / 2 for centre, size in zip(centres, nodes, strict=True)]
    found = [0.0] * len(nodes)
    column: list[int] = []
    for k in [*order, -1]:
        if k >= 0 and (not column or lefts[k] < max(centres[j].x + nodes[j].width / 2 for j in column)):
            column.append(k)
            continue
        for j in column:
            found[j] = min(lefts[i] for i in column)
        column = [k]
    return found
