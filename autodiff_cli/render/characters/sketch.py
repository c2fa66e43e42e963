"""A graph drawn in characters: boxes with a title, a value and an adjoint, joined by lines that can be followed.

    ╭ x ──╮        ┌ x*y ─┐
    │ = 2 ├───────▸│ = 6  ├──▸
    │ ∂ 3 │     ┌─▸│ ∂ 1  │
    ╰─────╯     │  └──────┘

Variables have round corners, the output a double line, constants no box. A line branches in a T or at a dot; lines that
merely cross form a cross. What is current stands out by heavy lines, so also without colour.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from autodiff_cli.render.characters.cells import Cell, Extent, Piece, arrange
from autodiff_cli.render.characters.ink import Ink, Line, Run
from autodiff_cli.render.drawing.diagrams import Role
from autodiff_cli.render.text import columns

_UP, _RIGHT, _DOWN, _LEFT = range(4)


class Face(NamedTuple):
    """What is drawn for a node: its title, and room for its value and its adjoint, "" for one that it never has."""

    title: str
    role: Role
    value: str
    adjoint: str

    @property
    def is_bare(self) -> bool:
        """Whether the title stands without a box."""
        return self.role is Role.CONSTANT

    def extent(self, inputs: int) -> Extent:
        """How large it is, if so many lines enter it."""
        if self.is_bare:
            return Extent(columns(self.title) + 1, 1)
        rows = [f"= {text}" for text in (self.value, self.adjoint) if text]
        return Extent(4 + max(map(columns, (self.title, *rows))), 2 + max(len(rows), inputs, 1))


class Look(NamedTuple):
    """What a drawing shows at one moment.

    Attributes:
        knows_value: whether a node's value is there yet.
        adjoint: a node's adjoint so far; "" while there is none.
        current: the node that stands out.
        lit: lines that stand out, by the node that they enter and the position among its inputs.
        fresh: nodes with a number that is new: an adjoint if `is_backward`, else a value.
        is_backward: whether what travels along the lines that stand out goes against their direction.
    """

    knows_value: Callable[[int], bool]
    adjoint: Callable[[int], str]
    current: int | None = None
    lit: frozenset[tuple[int, int]] = frozenset()
    fresh: frozenset[int] = frozenset()
    is_backward: bool = False


class Charset(NamedTuple):
    """The characters of a drawing.

    Attributes:
        joints: by the weight (0 none, 1 light, 2 heavy) of the arms up, right, down and left, as digits in base 3.
        branch: where a line goes on in all four directions.
        bridges: whether of two lines that cross, the horizontal one is interrupted; else they are drawn as a cross.
        arrows: the end of a line to the right, and to the left.
        borders: of a box by its role: upper left, upper right, lower left and lower right corner, horizontal, vertical.
        plain: the same for the other roles.
        heavy: the same for what is current.
        marks: what stands before a value, and before an adjoint.
    """

    joints: str
    branch: str
    bridges: bool
    arrows: tuple[str, str]
    borders: Mapping[Role, str]
    plain: str
    heavy: str
    marks: tuple[str, str]

    def joint(self, arms: Sequence[int]) -> str:
        """The character in which lines meet."""
        return self.joints[27 * arms[_UP] + 9 * arms[_RIGHT] + 3 * arms[_DOWN] + arms[_LEFT]]


UNICODE = Charset(
    " ╴╸╷┐┑╻┒┓╶─╾┌┬┭┎┰┱╺╼━┍┮┯┏┲┳╵┘┙│┤┥╽┧┪└┴┵├┼┽┟╁╅┕┶┷┝┾┿┢╆╈╹┚┛╿┦┩┃┨┫┖┸┹┞╀╃┠╂╉┗┺┻┡╄╇┣╊╋",
    "•",
    False,
    ("▸", "◂"),
    {Role.INPUT: "╭╮╰╯─│", Role.OUTPUT: "╔╗╚╝═║"},
    "┌┐└┘─│",
    "┏┓┗┛━┃",
    ("=", "∂"),
)


def _ascii_joint(arms: tuple[int, ...]) -> str:
    sides, upright, heavy = arms[_LEFT] or arms[_RIGHT], arms[_UP] or arms[_DOWN], 2 in arms
    if not sides and not upright:
        return " "
    if sides and upright:
        return "#" if heavy else "+"
    return ("=" if heavy else "-") if sides else ("#" if heavy else "|")


ASCII = Charset(
    "".join(map(_ascii_joint, itertools.product(range(3), repeat=4))),
    "+",
    True,
    (">", "<"),
    {Role.INPUT: "..''-|", Role.OUTPUT: "****=|"},
    "++++-|",
    "####=#",
    ("=", "d"),
)


class Sketch:
    """A graph, arranged.

    Args:
        faces: what to draw for each node, inputs before their users.
        inputs: the inputs of each node. Only lines between nodes that have a face are drawn.

    Raises:
        TooMany: for a graph that is too large.
    """

    def __init__(self, faces: Mapping[int, Face], inputs: Callable[[int], Sequence[int]]) -> None:
        self._faces = faces
        places = {i: place for place, i in enumerate(faces)}
        self._entries = {i: [(k, j) for k, j in enumerate(inputs(i)) if j in places] for i in faces}
        self._leaving = {j for entries in self._entries.values() for _, j in entries}
        extents = [face.extent(len(self._entries[i])) for i, face in faces.items()]
        self._arrangement = arrange(extents, [[places[j] for _, j in self._entries[i]] for i in faces])
        self._boxes = {i: (self._arrangement.corners[place], extents[place]) for i, place in places.items()}
        self._ends = {i: self._arrangement.ends[place] for i, place in places.items()}

    @property
    def extent(self) -> Extent:
        """How large the whole drawing is."""
        return self._arrangement.extent

    def has(self, i: int) -> bool:
        """Whether the node is drawn."""
        return i in self._boxes

    def box(self, i: int) -> tuple[Cell, Extent]:
        """Where the box of a node is: its upper left corner, and its extent."""
        return self._boxes[i]

    def window(self, corner: Cell, extent: Extent, look: Look, charset: Charset) -> list[Line]:
        """The part of the drawing that a window shows whose upper left corner is at `corner`."""
        canvas = _Canvas(corner, extent)
        self._draw_lines(canvas, look, charset)
        for i, face in self._faces.items():
            if canvas.shows(*self._boxes[i]):
                self._draw_box(canvas, i, face, look, charset)
        return canvas.lines()

    def _draw_lines(self, canvas: _Canvas, look: Look, charset: Charset) -> None:
        for piece in self._arrangement.pieces:
            canvas.wire(piece, 1)
        ends = []
        for i, entries in self._entries.items():
            for (k, _), end in zip(entries, self._ends[i], strict=True):
                is_lit = (i, k) in look.lit
                for piece in self._arrangement.line(end) if is_lit else ():
                    canvas.wire(piece, 2)
                arrow = charset.arrows[is_lit and look.is_backward]
                ends.append((self._arrangement.pieces[end].corners[-1], arrow, Ink.LIT if is_lit else Ink.FAINT))
        canvas.solder(charset)
        for cell, arrow, ink in ends:
            canvas.write(cell, arrow, ink)

    def _draw_box(self, canvas: _Canvas, i: int, face: Face, look: Look, charset: Charset) -> None:
        (left, top), (width, height) = self._boxes[i]
        is_current = i == look.current
        if face.is_bare:
            canvas.write(Cell(left, top), face.title, Ink.CURRENT if is_current else Ink.PLAIN)
            return
        edge = Ink.LIT if is_current else Ink.PLAIN
        border = charset.heavy if is_current else charset.borders.get(face.role, charset.plain)
        *corners, across, upright = [*border]
        sides = f"{upright}{' ' * (width - 2)}{upright}"
        canvas.write(Cell(left, top), f"{corners[0]}{across * (width - 2)}{corners[1]}", edge)
        for row in range(top + 1, top + height - 1):
            canvas.write(Cell(left, row), sides, edge)
        canvas.write(Cell(left, top + height - 1), f"{corners[2]}{across * (width - 2)}{corners[3]}", edge)
        canvas.write(Cell(left + 1, top), f" {face.title} ", Ink.CURRENT if is_current else Ink.STRONG)
        if i in self._leaving:
            self._draw_exit(canvas, i, look, charset)
        for row, (text, ink) in enumerate(self._numbers(i, face, look, charset), top + 1):
            canvas.write(Cell(left + 2, row), text, ink)

    def _draw_exit(self, canvas: _Canvas, i: int, look: Look, charset: Charset) -> None:
        """Where the line of a node leaves its box."""
        (left, top), (width, height) = self._boxes[i]
        place = Cell(left + width - 1, top + (height - 1) // 2)
        border = 2 if i == look.current else 1
        line = max(1, canvas.weight(Cell(place.column + 1, place.row), _LEFT))
        ink = Ink.LIT if max(border, line) == 2 else Ink.PLAIN
        canvas.write(place, charset.joint((border, line, border, 0)), ink)

    def _numbers(self, i: int, face: Face, look: Look, charset: Charset) -> Iterator[tuple[str, Ink]]:
        """The lines inside a box."""
        is_fresh = i in look.fresh
        if face.value:
            known = face.value if look.knows_value(i) else ""
            yield _marked(charset.marks[0], known), Ink.LIT if is_fresh and not look.is_backward else Ink.VALUE
        if face.adjoint:
            so_far = look.adjoint(i)
            yield _marked(charset.marks[1], so_far), Ink.LIT if is_fresh and look.is_backward else Ink.ADJOINT


def _marked(mark: str, text: str) -> str:
    return f"{mark} {text}" if text else ""


class _Canvas:
    """The cells that a window shows; what is drawn elsewhere is lost."""

    def __init__(self, corner: Cell, extent: Extent) -> None:
        self._left, self._top = corner
        self._right, self._bottom = corner.column + extent.width, corner.row + extent.height
        self._cells: dict[Cell, Run] = {}
        self._arms: dict[Cell, list[int]] = {}
        self._sources: dict[Cell, set[int]] = {}

    def shows(self, corner: Cell, extent: Extent) -> bool:
        """Whether something is in the window, at least in part."""
        (left, top), (width, height) = corner, extent
        return left < self._right and top < self._bottom and left + width > self._left and top + height > self._top

    def write(self, cell: Cell, text: str, ink: Ink) -> None:
        """Text on one row. A character that takes no column joins the one before; one cut in half is a space."""
        column, row = cell
        if not self._top <= row < self._bottom:
            return
        for character in text:
            width = columns(character)
            if not width:
                before = Cell(column - 1, row)
                if before in self._cells:
                    self._cells[before] = Run(self._cells[before].text + character, ink)
                continue
            is_whole = self._left <= column and column + width <= self._right
            pieces = (character, *[""] * (width - 1)) if is_whole else " " * width
            for k, piece in enumerate(pieces, column):
                if self._left <= k < self._right:
                    self._cells[Cell(k, row)] = Run(piece, ink)
            column += width

    def wire(self, piece: Piece, weight: int) -> None:
        """A piece of a line. It begins at what is left of its first corner."""
        source, corners = piece.source, piece.corners
        if corners[0].column > self._right or corners[-1].column < self._left:  # lines lead to the right
            return
        start = Cell(corners[0].column - 1, corners[0].row)
        for a, b in itertools.pairwise((start, *corners)):
            if a.row == b.row:
                if self._top <= a.row < self._bottom:
                    low, high = sorted((a.column, b.column))
                    for column in range(max(low, self._left), min(high + 1, self._right)):
                        self._arm(Cell(column, a.row), source, weight, _LEFT, column > low, _RIGHT, column < high)
            elif self._left <= a.column < self._right:
                low, high = sorted((a.row, b.row))
                for row in range(max(low, self._top), min(high + 1, self._bottom)):
                    self._arm(Cell(a.column, row), source, weight, _UP, row > low, _DOWN, row < high)

    def _arm(self, cell: Cell, source: int, weight: int, back: int, has_back: bool, on: int, has_on: bool) -> None:
        arms = self._arms.setdefault(cell, [0, 0, 0, 0])
        if has_back:
            arms[back] = max(arms[back], weight)
        if has_on:
            arms[on] = max(arms[on], weight)
        self._sources.setdefault(cell, set()).add(source)

    def weight(self, cell: Cell, arm: int) -> int:
        """The weight of a line in one direction from a cell."""
        return self._arms[cell][arm] if cell in self._arms else 0

    def solder(self, charset: Charset) -> None:
        """Draw the lines."""
        for cell, arms in self._arms.items():
            if len(self._sources[cell]) > 1 and charset.bridges:
                character = charset.joint([arms[_UP], 0, arms[_DOWN], 0])
            elif all(arms) and len(self._sources[cell]) == 1:
                character = charset.branch
            else:
                character = charset.joint(arms)
            self._cells[cell] = Run(character, Ink.LIT if 2 in arms else Ink.FAINT)

    def lines(self) -> list[Line]:
        """All rows, without the spaces at their ends."""
        return [self._line(row) for row in range(self._top, self._bottom)]

    def _line(self, row: int) -> Line:
        blank = Run(" ")
        cells = [self._cells.get(Cell(column, row), blank) for column in range(self._left, self._right)]
        while cells and cells[-1].text == " ":
            cells.pop()
        groups = itertools.groupby(cells, key=lambda run: run.ink)
        return tuple(Run("".join(run.text for run in group), ink) for ink, group in groups)
