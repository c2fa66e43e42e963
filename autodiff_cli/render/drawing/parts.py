"""Layouts of large graphs with frames, part by part: each outermost frame by itself, so that it can turn and go on in
rows, and last what stands in none. Parts stand in rows like words.

What a part uses of others is drawn in it once more, beside its use: a long line from one part to the next says less.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from autodiff_cli.render.drawing.layout import PAPER, TITLE, Enclosure, Layout, Location, Place, Route, Size, layered

_GAP = 2.0 * TITLE  # between parts


class Parted(NamedTuple):
    """A layout, and which node stands at each of its places: all nodes in order, then copies of some."""

    layout: Layout
    nodes: list[int]


class _Part(NamedTuple):
    """A layout of some of the places, edges and frames, and where its upper left corner is within a margin."""

    layout: Layout
    places: list[int]
    edges: list[int]
    frames: list[int]
    margin: Size


def in_parts(
    nodes: Sequence[Size],
    edges: Sequence[tuple[int, int]],
    labels: Sequence[Size | None],
    frames: Sequence[Enclosure],
) -> Parted | None:
    """Place a graph as `layered` does, part by part. None where there is no frame."""
    if not frames:
        return None
    outermost: list[int] = []
    for k, frame in enumerate(frames):
        outermost.append(k if frame.outer is None else outermost[frame.outer])
    of: list[int | None] = [None] * len(nodes)  # the part that a place is in
    for k, frame in enumerate(frames):
        for i in frame.nodes:
            of[i] = outermost[k]
    settled = {i for frame in frames for i in frame.nodes} | {target for _, target in edges}
    for source, target in reversed(edges):
        if source not in settled:
            of[source] = of[target]  # leaves stand in the first part that uses them
    there, ends = [*range(len(nodes))], list(edges)
    copies: dict[tuple[int, int | None], int] = {}
    for at, (source, target) in enumerate(edges):
        if of[source] != of[target]:
            copy = copies.setdefault((source, of[target]), len(there))
            if copy == len(there):
                there.append(source)
                of.append(of[target])
            ends[at] = copy, target
    sizes = [nodes[i] for i in there]
    units: list[int | None] = [k for k, frame in enumerate(frames) if frame.outer is None]
    parts = [_part(unit, of, outermost, sizes, ends, labels, frames) for unit in [*units, None] if unit in of]
    return Parted(_joined(parts, len(there), len(edges), len(frames)), there)


def _part(
    unit: int | None,
    of: Sequence[int | None],
    outermost: Sequence[int],
    sizes: Sequence[Size],
    edges: Sequence[tuple[int, int]],
    labels: Sequence[Size | None],
    frames: Sequence[Enclosure],
) -> _Part:
    """The layout of an outermost frame, or of what stands in none."""
    places = [i for i, where in enumerate(of) if where == unit]
    position = {i: k for k, i in enumerate(places)}
    own = [k for k, (_, target) in enumerate(edges) if target in position]
    inner = [k for k, frame in enumerate(frames) if frame.outer is not None and outermost[k] == unit]
    within = {k: at for at, k in enumerate(inner)}
    enclosures = [
        frames[k]._replace(nodes=[position[i] for i in frames[k].nodes], outer=within.get(frames[k].outer or 0))
        for k in inner
    ]
    ends = [(position[edges[k][0]], position[edges[k][1]]) for k in own]
    found = layered([sizes[i] for i in places], ends, [labels[k] for k in own], enclosures)
    if unit is None:
        return _Part(found, places, own, inner, Size(0, 0))
    title = Size(max(found.size.width, frames[unit].title), found.size.height)
    return _Part(found._replace(size=title), places, own, [unit, *inner], Size(TITLE, 2 * TITLE))


def _joined(parts: Sequence[_Part], nodes: int, edges: int, frames: int) -> Layout:
    """The parts in rows of the width with which they fit a page best."""
    sizes = [_outer(part) for part in parts]
    ends = [0.0, *itertools.accumulate(size.width + _GAP for size in sizes)]
    widths = (max(end - start for start, end in zip(ends, ends[n:], strict=False)) for n in range(1, len(ends)))
    size, corners = min(
        (_in_rows(sizes, width) for width in widths),
        key=lambda found: max(found[0].width / PAPER.width, found[0].height / PAPER.height),
    )
    centres: dict[int, Location] = {}
    routes: dict[int, Route] = {}
    places: dict[int, Place] = {}
    for part, corner in zip(parts, corners, strict=True):
        layout, margin, outer = part.layout, part.margin, _outer(part)
        start = Location(corner.x + margin.width, corner.y + margin.height)
        centres |= zip(part.places, _moved(layout.centres, start), strict=True)
        for at, route in zip(part.edges, layout.routes, strict=True):
            spot = None if route.label is None else next(_moved([route.label], start))
            routes[at] = Route(tuple(_moved(route.points, start)), spot)
        around = [Place(Location(corner.x + outer.width / 2, corner.y + outer.height / 2), outer)]
        inside = (Place(next(_moved([frame.centre], start)), frame.size) for frame in layout.frames)
        places |= zip(part.frames, itertools.chain(around if margin.width else (), inside), strict=True)
    return Layout(
        size,
        [centres[k] for k in range(nodes)],
        [routes[k] for k in range(edges)],
        [places[k] for k in range(frames)],
    )


def _outer(part: _Part) -> Size:
    """The size of a part with its margin, of which there is less below than above, where the title stands."""
    (width, height), margin = part.layout.size, part.margin
    return Size(width + 2 * margin.width, height + 1.5 * margin.height)


def _in_rows(sizes: Sequence[Size], most: float) -> tuple[Size, list[Location]]:
    """The upper left corners of rectangles in rows that are no wider than so much, and the extent of all."""
    corners, left, top, width, height = [], 0.0, 0.0, 0.0, 0.0
    for size in sizes:
        if left and left + size.width > most:
            left, top, height = 0.0, top + height + _GAP, 0.0
        corners.append(Location(left, top))
        width, height = max(width, left + size.width), max(height, size.height)
        left += size.width + _GAP
    return Size(width, top + height), corners


def _moved(places: Sequence[Location], corner: Location) -> Iterator[Location]:
    return (Location(at.x + corner.x, at.y + corner.y) for at in places)
