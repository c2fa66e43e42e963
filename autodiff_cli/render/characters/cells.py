"""Where the boxes and lines of a drawing in characters go: boxes in layers from left to right, lines along cells.

Lines of different sources never share a cell except to cross at right angles, so that each can be followed. The steps
are those of Sugiyama, Tagawa and Toda (1981): layers, an order within each by barycentres, rows, lines.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from autodiff_cli.render.characters.channels import Crossing, tracks

MOST_ITEMS = 2500  # boxes, and layers that lines pass: more than anyone follows, and laid out in a second

_SWEEPS = 6
_STRAIGHTNESS = 8  # how much more than a box a line stays where it is
_BEFORE_TRACKS, _TRACK, _AFTER_TRACKS = 1, 2, 2  # columns between a box, the vertical lines, and the next box


class TooMany(ValueError):  # noqa: N818 - what the graph is
    """A graph with more boxes and lines than a drawing in characters can show."""


class Extent(NamedTuple):
    """How many columns and rows something takes."""

    width: int
    height: int


class Cell(NamedTuple):
    """A place in the drawing, counted from its upper left corner."""

    column: int
    row: int


class Piece(NamedTuple):
    """A part of the lines that leave a box: its corners, and the piece that it continues; None at the box itself."""

    source: int
    corners: tuple[Cell, ...]
    before: int | None


class Arrangement(NamedTuple):
    """A drawing: its extent, the upper left corner of every box, the pieces of all lines.

    `ends[i][k]` is the last piece of the line to box `i` from its `k`-th input; its last corner is left of the box.
    Lines from the same box share pieces.
    """

    extent: Extent
    corners: list[Cell]
    pieces: list[Piece]
    ends: list[list[int]]

    def line(self, end: int) -> Iterator[Piece]:
        """The pieces of a line, from its last to its first."""
        place: int | None = end
        while place is not None:
            yield self.pieces[place]
            place = self.pieces[place].before


def arrange(extents: Sequence[Extent], inputs: Sequence[Sequence[int]]) -> Arrangement:
    """Arrange a graph without cycles. The same graph always gives the same arrangement.

    Args:
        extents: how large each box is: at least as high as it has inputs.
        inputs: the boxes from which a line comes to each box, all of them earlier in the sequence.

    Raises:
        TooMany: for more than `MOST_ITEMS` boxes and passages of lines through layers.
    """
    if len(extents) > MOST_ITEMS:
        raise TooMany
    boxes = [_Item(*extent) for extent in extents]
    layers = _layers(boxes, inputs)
    for box, sources in zip(boxes, inputs, strict=True):
        for k, j in enumerate(sources):
            _connect(boxes[j], box, (box.height - len(sources)) // 2 + k, layers)
    _place(layers)
    _route(layers)
    pieces, ends = _pieces(boxes)
    items = [item for layer in layers for item in layer]
    width = max(item.column + item.width for item in items)
    height = max(item.row + item.height for item in items)
    return Arrangement(Extent(width, height), [Cell(box.column, box.row) for box in boxes], pieces, ends)


@dataclass(slots=True, eq=False)
class _Item:
    """A box, or a line's passage through a layer, which has no width."""

    width: int
    height: int
    layer: int = 0
    inputs: list[_Link] = field(default_factory=list)
    users: list[_Link] = field(default_factory=list)
    passages: list[_Item] = field(default_factory=list)  # of a box: where its line passes the layers after it
    column: int = 0
    row: int = 0
    track: int | None = None  # the column of its vertical line; None if its line goes straight

    @property
    def exit(self) -> int:
        """The row in which its line leaves it."""
        return self.row + (self.height - 1) // 2


class _Link(NamedTuple):
    """A line from one layer to the next, which enters its target so many rows below the top."""

    source: _Item
    target: _Item
    below: int

    @property
    def entry(self) -> int:
        """The row in which it enters its target."""
        return self.target.row + self.below


def _layers(boxes: list[_Item], inputs: Sequence[Sequence[int]]) -> list[list[_Item]]:
    """Every box as close as possible before its first user."""
    from_last = [0] * len(boxes)
    for i in range(len(boxes) - 1, -1, -1):
        for j in inputs[i]:
            from_last[j] = max(from_last[j], from_last[i] + 1)
    last = max(from_last)
    found: list[list[_Item]] = [[] for _ in range(last + 1)]
    for box, distance in zip(boxes, from_last, strict=True):
        box.layer = last - distance
        found[box.layer].append(box)
    return found


def _connect(box: _Item, target: _Item, below: int, layers: list[list[_Item]]) -> None:
    """Lead the line of a box to a target in a later layer. All lines of a box share their passages."""
    between = target.layer - box.layer - 1
    while len(box.passages) < between:
        passage = _Item(0, 1, box.layer + len(box.passages) + 1)
        _link(box.passages[-1] if box.passages else box, passage, 0)
        box.passages.append(passage)
        layers[passage.layer].append(passage)
        if sum(map(len, layers)) > MOST_ITEMS:
            raise TooMany
    _link(box.passages[between - 1] if between else box, target, below)


def _link(source: _Item, target: _Item, below: int) -> None:
    link = _Link(source, target, below)
    source.users.append(link)
    target.inputs.append(link)


# --- order and rows


def _place(layers: list[list[_Item]]) -> None:
    """Order each layer, with few crossings, and give every item its rows, so that lines are short and straight."""
    for layer in layers:
        _settle(layer, [0.0] * len(layer))
    best, fewest = [[*layer] for layer in layers], _crossings(layers)
    for _ in range(_SWEEPS):
        for layer in layers:
            _settle_sorted(layer, _towards_inputs(layer))
        for layer in reversed(layers):
            _settle_sorted(layer, _towards_users(layer))
        crossings = _crossings(layers)
        if crossings < fewest:
            best, fewest = [[*layer] for layer in layers], crossings
    for layer, order in zip(layers, best, strict=True):
        layer[:] = order
        _settle(layer, [float(item.row) for item in layer])
    for _ in range(_SWEEPS):
        for layer in layers:
            _settle(layer, _towards_inputs(layer))
        for layer in reversed(layers):
            _settle(layer, _towards_users(layer))


def _towards_inputs(layer: list[_Item]) -> list[float]:
    """The row of every item that is best for the lines that enter it, most of all for those that lead nowhere else; its
    present row if there is none."""
    pulls = ([(link.source.exit - link.below, 1 / len(link.source.users)) for link in item.inputs] for item in layer)
    return [_mean(pull, item.row) for pull, item in zip(pulls, layer, strict=True)]


def _towards_users(layer: list[_Item]) -> list[float]:
    """The row of every item that is best for the lines that leave it, most of all for the one that goes on to later
    layers; its present row if there is none."""
    pulls = (
        [(link.entry - (item.exit - item.row), 1 if link.target.width else _STRAIGHTNESS) for link in item.users]
        for item in layer
    )
    return [_mean(pull, item.row) for pull, item in zip(pulls, layer, strict=True)]


def _mean(rows: Sequence[tuple[int, float]], otherwise: int) -> float:
    weights = sum(weight for _, weight in rows)
    return sum(row * weight for row, weight in rows) / weights if rows else otherwise


def _settle_sorted(layer: list[_Item], wanted: list[float]) -> None:
    pairs = sorted(zip(wanted, layer, strict=True), key=lambda pair: pair[0])
    layer[:] = [item for _, item in pairs]
    _settle(layer, [row for row, _ in pairs])


def _settle(layer: list[_Item], wanted: list[float]) -> None:
    """Give items, in their order and without overlap, the rows closest to those wanted, in least squares.

    With the heights of those above taken off, that is isotonic regression, which pooling adjacent violators solves
    (Barlow et al., 1972).
    """
    above = [0, *itertools.accumulate(item.height for item in layer)]
    pools: list[tuple[float, float, int]] = []  # mean, weight, number of items
    for item, row, offset in zip(layer, wanted, above, strict=False):
        mean, weight, count = row - offset, 1.0 if item.width else float(_STRAIGHTNESS), 1
        while pools and pools[-1][0] >= mean:
            before, heavier, more = pools.pop()
            mean = (mean * weight + before * heavier) / (weight + heavier)
            weight, count = weight + heavier, count + more
        pools.append((mean, weight, count))
    rows = itertools.chain.from_iterable(itertools.repeat(math.floor(mean + 0.5), count) for mean, _, count in pools)
    for item, row, offset in zip(layer, rows, above, strict=False):
        item.row = row + offset


def _crossings(layers: list[list[_Item]]) -> int:
    """How many pairs of lines cross."""
    count = 0
    for layer in layers:
        entries: list[int] = []
        for item in layer:
            leaving = sorted(link.entry for link in item.users)
            count += sum(len(entries) - bisect.bisect_right(entries, entry) for entry in leaving)
            for entry in leaving:
                bisect.insort(entries, entry)
    return count


# --- lines


def _route(layers: list[list[_Item]]) -> None:
    """Give every item its column, and every line that turns the column of its vertical part."""
    column = 0
    for k, layer in enumerate(layers):
        for item in layer:
            item.column = column
        column += max(item.width for item in layer)
        if k + 1 < len(layers):
            found = _tracks(layer, layers[k + 1 :])
            for item, track in found.items():
                item.track = column + _BEFORE_TRACKS + _TRACK * track
            column += _BEFORE_TRACKS + _TRACK * (1 + max(found.values(), default=-1)) + _AFTER_TRACKS
    top = min(item.row for layer in layers for item in layer)
    for item in itertools.chain.from_iterable(layers):
        item.row -= top


def _tracks(layer: list[_Item], after: list[list[_Item]]) -> dict[_Item, int]:
    """The tracks of the lines that leave a layer and turn. Where they cannot be routed, all layers after it move."""
    lines = _lines(layer)
    step = 0
    while (found := tracks([*lines])) is None:
        step = -step - 1 if step > 0 else 1 - step  # 1, -2, 3, …: to 1, -1, 2, … from where they were
        for item in itertools.chain.from_iterable(after):
            item.row += step
        lines = _lines(layer)
    return {lines[line]: track for line, track in found.items()}


def _lines(layer: list[_Item]) -> dict[Crossing, _Item]:
    """The lines that leave a layer, as the channel behind it sees them."""
    return {Crossing(item.exit, tuple(link.entry for link in item.users)): item for item in layer if item.users}


def _pieces(boxes: list[_Item]) -> tuple[list[Piece], list[list[int]]]:
    """All pieces of lines, and for every box the last pieces of the lines that enter it."""
    pieces: list[Piece] = []
    origin: dict[_Item, tuple[int, int | None]] = {}  # whose line leaves an item, and the piece that leads to it
    for i, box in enumerate(boxes):
        origin[box] = i, None
        for passage in box.passages:
            origin[passage] = i, len(pieces)
            pieces.append(_piece(passage.inputs[0], origin))
    ends = []
    for box in boxes:
        ends.append([*range(len(pieces), len(pieces) + len(box.inputs))])
        pieces += [_piece(link, origin) for link in box.inputs]
    return pieces, ends


def _piece(link: _Link, origin: dict[_Item, tuple[int, int | None]]) -> Piece:
    source, entry = link.source, link.entry
    turn = () if source.track is None else (Cell(source.track, source.exit), Cell(source.track, entry))
    start, end = Cell(source.column + source.width, source.exit), Cell(link.target.column - 1, entry)
    index, before = origin[source]
    return Piece(index, (start, *turn, end), before)
