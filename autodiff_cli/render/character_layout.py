"""Layout of a graph drawn in characters: boxes in layers from left to right, joined by lines.

Lines from different boxes share a cell only where they cross at right angles, so the eye can follow each. The layout
follows Sugiyama, Tagawa and Toda (1981): assign layers, order each layer by barycentres, choose rows, route lines.
Between two layers, lines run through a channel, as on a circuit board (Hashimoto and Stevens, 1971). Each line enters
from the left in one row, turns into a vertical track, and leaves to the right in one or more rows.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

# --- Channels ---


class ChannelLine(NamedTuple):
    """A line through a channel: the row in which it enters and the rows in which it leaves.

    No two lines of a channel enter in the same row, and no two leave in the same row.
    """

    entry_row: int
    exit_rows: tuple[int, ...]

    @property
    def is_straight(self) -> bool:
        """Whether the line needs no track."""
        return all(row == self.entry_row for row in self.exit_rows)

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last row of the vertical part."""
        return min(self.entry_row, *self.exit_rows), max(self.entry_row, *self.exit_rows)

    @property
    def turn_order(self) -> tuple[int, int]:
        """Sort key for turns with few crossings: lines that go up, highest first, then the others, lowest first."""
        top, bottom = self.span
        return (self.entry_row if self.entry_row - top > bottom - self.entry_row else -self.entry_row), self.entry_row


def assign_tracks(lines: Sequence[ChannelLine]) -> dict[ChannelLine, int] | None:
    """Assign a track, counted from the left, to each line that is not straight, so that lines at most cross.

    If a line leaves in the row in which another enters, the other must turn first, or they would overlap. Such
    constraints may form a cycle; then None is returned, and one side of the channel has to be moved.
    """
    entering = {line.entry_row: line for line in lines if not line.is_straight}
    earlier = {
        line: {entering[row] for row in line.exit_rows if row in entering} - {line} for line in entering.values()
    }
    order = TopologicalSorter(earlier)
    try:
        order.prepare()
    except CycleError:
        return None
    occupied: list[list[tuple[int, int]]] = []
    tracks: dict[ChannelLine, int] = {}
    ready_lines: list[tuple[int, int]] = []
    while order.is_active():
        for line in order.get_ready():
            heapq.heappush(ready_lines, line.turn_order)
        line = entering[heapq.heappop(ready_lines)[1]]
        earliest = max((tracks[other] + 1 for other in earlier[line]), default=0)
        tracks[line] = _occupy_track(occupied, line.span, earliest)
        order.done(line)
    return tracks


def _occupy_track(occupied: list[list[tuple[int, int]]], span: tuple[int, int], earliest: int) -> int:
    """Occupy the rows of a span in the first track, not before `earliest`, where they are free; return the track."""
    top, bottom = span
    track = earliest
    while track < len(occupied) and any(top <= last and first <= bottom for first, last in occupied[track]):
        track += 1
    occupied.extend([] for _ in range(track + 1 - len(occupied)))
    occupied[track].append(span)
    return track


# --- Boxes and lines ---

MAX_ITEMS = 2500  # boxes and waypoints; larger drawings take more than a second, and nobody can follow them


# Distances in terminal columns, and parameters of the ordering of layers.
_SWEEP_COUNT = 6  # passes over the layers in both directions; more passes hardly reduce crossings
_STRAIGHTNESS = 8  # weight of a line that passes a layer, relative to a box: long lines stay straight
_WIDTH_BEFORE_TRACKS = 1  # columns between a box and the first vertical track
_TRACK_WIDTH = 2  # columns between vertical tracks
_WIDTH_AFTER_TRACKS = 2  # columns between the last track and the next box, for the arrow head


class TooManyItemsError(ValueError):
    """The graph has more boxes and lines than a drawing in characters can show."""


class Extent(NamedTuple):
    """A size in terminal columns and rows."""

    width: int
    height: int


class Cell(NamedTuple):
    """A cell of the drawing, counted from its upper left corner."""

    column: int
    row: int


class Segment(NamedTuple):
    """A part of a line between two layers.

    Attributes:
        source: the index of the box from which the line comes.
        points: the cells of its ends and bends.
        previous: the index of the segment that it continues; None if it begins at the box.
    """

    source: int
    points: tuple[Cell, ...]
    previous: int | None


class BoxLayout:
    """A layout of the boxes of an acyclic graph; it is deterministic. Lines from the same box share segments.

    Args:
        extents: the size of each box, with at least one row per input.
        inputs: for each box the indices of the boxes from which lines come; all of them are earlier.

    Attributes:
        extent: the size of the drawing.
        origins: the upper left corner of every box.
        segments: the segments of all lines.
        last_segments: `last_segments[i][k]` is the index of the last segment of the line to box `i` from its `k`-th
            input; that segment ends at the left of the box.

    Raises:
        TooManyItemsError: for more than `MAX_ITEMS` boxes and waypoints.
    """

    def __init__(self, extents: Sequence[Extent], inputs: Sequence[Sequence[int]]) -> None:
        if len(extents) > MAX_ITEMS:
            raise TooManyItemsError
        boxes = [_Item(*extent) for extent in extents]
        layers = _assign_layers(boxes, inputs)
        for box, sources in zip(boxes, inputs, strict=True):
            for k, j in enumerate(sources):
                _connect_box(boxes[j], box, (box.height - len(sources)) // 2 + k, layers)
        _place_rows(layers)
        _route_lines(layers)
        self.segments, self.last_segments = _line_segments(boxes)
        items = [item for layer in layers for item in layer]
        width = max(item.column + item.width for item in items)
        height = max(item.row + item.height for item in items)
        self.extent, self.origins = Extent(width, height), [Cell(box.column, box.row) for box in boxes]

    def segments_to(self, end: int) -> Iterator[Segment]:
        """Yield the segments of a line from its last to its first; `end` is the index of the last."""
        index: int | None = end
        while index is not None:
            yield self.segments[index]
            index = self.segments[index].previous


@dataclass(slots=True, eq=False)
class _Item:
    """A box, or the waypoint of a line in a layer that it passes, which has width 0."""

    width: int
    height: int
    layer: int = 0
    inputs: list[_Link] = field(default_factory=list)
    users: list[_Link] = field(default_factory=list)
    waypoints: list[_Item] = field(default_factory=list)  # of the line that leaves a box, in the layers after it
    column: int = 0
    row: int = 0
    track: int | None = None  # column of the vertical part of its line; None if the line is straight

    @property
    def exit_row(self) -> int:
        """The row in which the line leaves."""
        return self.row + (self.height - 1) // 2


class _Link(NamedTuple):
    """A line from one layer to the next, which enters its target `row_offset` rows below the top."""

    source: _Item
    target: _Item
    row_offset: int

    @property
    def entry_row(self) -> int:
        """The row in which the line enters its target."""
        return self.target.row + self.row_offset


def _assign_layers(boxes: list[_Item], inputs: Sequence[Sequence[int]]) -> list[list[_Item]]:
    """Put every box into the last possible layer before its users; return the layers."""
    distances = [0] * len(boxes)
    for i in reversed(range(len(boxes))):
        for j in inputs[i]:
            distances[j] = max(distances[j], distances[i] + 1)
    last = max(distances)
    layers: list[list[_Item]] = [[] for _ in range(last + 1)]
    for box, distance in zip(boxes, distances, strict=True):
        box.layer = last - distance
        layers[box.layer].append(box)
    return layers


def _connect_box(box: _Item, target: _Item, row_offset: int, layers: list[list[_Item]]) -> None:
    """Connect a box to a target in a later layer; all lines of a box share their waypoints."""
    between = target.layer - box.layer - 1
    while len(box.waypoints) < between:
        waypoint = _Item(0, 1, box.layer + len(box.waypoints) + 1)
        _link(box.waypoints[-1] if box.waypoints else box, waypoint, 0)
        box.waypoints.append(waypoint)
        layers[waypoint.layer].append(waypoint)
        if sum(map(len, layers)) > MAX_ITEMS:
            raise TooManyItemsError
    _link(box.waypoints[between - 1] if between else box, target, row_offset)


def _link(source: _Item, target: _Item, row_offset: int) -> None:
    link = _Link(source, target, row_offset)
    source.users.append(link)
    target.inputs.append(link)


# --- order and rows


def _place_rows(layers: list[list[_Item]]) -> None:
    """Order each layer with few crossings, and choose rows so that lines are short and straight."""
    for layer in layers:
        _fit_rows(layer, [0.0] * len(layer))
    best, fewest_crossings = [[*layer] for layer in layers], _count_crossings(layers)
    sweeps = [*((layer, _input_rows) for layer in layers), *((layer, _user_rows) for layer in reversed(layers))]
    for _ in range(_SWEEP_COUNT):
        for layer, rows_of in sweeps:
            rows = {item: _weighted_mean(rows_of(item), item.row) for item in layer}
            layer.sort(key=lambda item: rows[item] + item.exit_row - item.row)  # by lines: boxes differ in height
            _fit_rows(layer, [rows[item] for item in layer])
        crossings = _count_crossings(layers)
        if crossings < fewest_crossings:
            best, fewest_crossings = [[*layer] for layer in layers], crossings
    for layer, order in zip(layers, best, strict=True):
        layer[:] = order
        _fit_rows(layer, [float(item.row) for item in layer])
    for _ in range(_SWEEP_COUNT):
        for layer, rows_of in sweeps:
            _fit_rows(layer, [_weighted_mean(rows_of(item), item.row) for item in layer])


def _input_rows(item: _Item) -> list[tuple[int, float]]:
    """Return for each line that enters an item the row of the item that makes the line straight, and a weight.

    The fewer other lines leave its source, the more a line weighs.
    """
    return [(link.source.exit_row - link.row_offset, 1 / len(link.source.users)) for link in item.inputs]


def _user_rows(item: _Item) -> list[tuple[int, float]]:
    """Return for each line that leaves an item the row of the item that makes the line straight, and a weight.

    A line that passes the next layer weighs most.
    """
    offset = item.exit_row - item.row
    return [(link.entry_row - offset, 1 if link.target.width else _STRAIGHTNESS) for link in item.users]


def _weighted_mean(rows: Sequence[tuple[int, float]], default: int) -> float:
    weights = sum(weight for _, weight in rows)
    return sum(row * weight for row, weight in rows) / weights if rows else default


def _fit_rows(layer: list[_Item], ideal_rows: list[float]) -> None:
    """Give items the rows closest to the ideal ones in least squares, in their order and without overlap.

    After subtracting the heights of the items above, this is isotonic regression, which is solved by pooling adjacent
    violators (Barlow et al., 1972).
    """
    above = [0, *itertools.accumulate(item.height for item in layer)]
    pools: list[tuple[float, float, int]] = []  # mean, weight, number of items
    for item, row, offset in zip(layer, ideal_rows, above, strict=False):
        mean, weight, count = row - offset, 1.0 if item.width else float(_STRAIGHTNESS), 1
        while pools and pools[-1][0] >= mean:
            last_mean, last_weight, last_count = pools.pop()
            mean = (mean * weight + last_mean * last_weight) / (weight + last_weight)
            weight, count = weight + last_weight, count + last_count
        pools.append((mean, weight, count))
    rows = itertools.chain.from_iterable(itertools.repeat(math.floor(mean + 0.5), count) for mean, _, count in pools)
    for item, row, offset in zip(layer, rows, above, strict=False):
        item.row = row + offset


def _count_crossings(layers: list[list[_Item]]) -> int:
    """Return the number of pairs of lines that cross."""
    count = 0
    for layer in layers:
        entries: list[int] = []
        for item in layer:
            leaving = sorted(link.entry_row for link in item.users)
            count += sum(len(entries) - bisect.bisect_right(entries, entry) for entry in leaving)
            for entry in leaving:
                bisect.insort(entries, entry)
    return count


# --- lines


def _route_lines(layers: list[list[_Item]]) -> None:
    """Choose the column of every item, and of the vertical part of every line that turns."""
    column = 0
    for k, layer in enumerate(layers):
        for item in layer:
            item.column = column
        column += max(item.width for item in layer)
        tracks = _channel_tracks(layer, layers[k + 1 :])
        for item, track in tracks.items():
            item.track = column + _WIDTH_BEFORE_TRACKS + _TRACK_WIDTH * track
        count = 1 + max(tracks.values(), default=-1)
        column += _WIDTH_BEFORE_TRACKS + _TRACK_WIDTH * count + _WIDTH_AFTER_TRACKS
    top = min(item.row for layer in layers for item in layer)
    for item in itertools.chain.from_iterable(layers):
        item.row -= top


def _channel_tracks(layer: list[_Item], after: list[list[_Item]]) -> dict[_Item, int]:
    """Return the tracks of the lines that leave a layer and turn. If there are none, later layers are moved."""
    lines = _channel_lines(layer)
    step = 0
    while (tracks := assign_tracks([*lines])) is None:
        step = -step - 1 if step > 0 else 1 - step  # 1, -2, 3, …: moves to 1, -1, 2, … from the first position
        for item in itertools.chain.from_iterable(after):
            item.row += step
        lines = _channel_lines(layer)
    return {lines[line]: track for line, track in tracks.items()}


def _channel_lines(layer: list[_Item]) -> dict[ChannelLine, _Item]:
    """Return the lines through the channel after a layer, each with the item that it leaves."""
    return {ChannelLine(item.exit_row, tuple(link.entry_row for link in item.users)): item for item in layer}


def _line_segments(boxes: list[_Item]) -> tuple[list[Segment], list[list[int]]]:
    """Return all segments, and for every box the indices of the last segments of its incoming lines."""
    segments: list[Segment] = []
    # The index of the box whose line leaves an item, and of the segment that leads to the item.
    origin: dict[_Item, tuple[int, int | None]] = {}
    for i, box in enumerate(boxes):
        origin[box] = i, None
        for waypoint in box.waypoints:
            origin[waypoint] = i, len(segments)
            segments.append(_segment(waypoint.inputs[0], origin))
    ends = []
    for box in boxes:
        ends.append([*range(len(segments), len(segments) + len(box.inputs))])
        segments += [_segment(link, origin) for link in box.inputs]
    return segments, ends


def _segment(link: _Link, origin: dict[_Item, tuple[int, int | None]]) -> Segment:
    source, entry = link.source, link.entry_row
    turn = () if source.track is None else (Cell(source.track, source.exit_row), Cell(source.track, entry))
    start, end = Cell(source.column + source.width, source.exit_row), Cell(link.target.column - 1, entry)
    index, before = origin[source]
    return Segment(index, (start, *turn, end), before)
