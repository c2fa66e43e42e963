"""A graph drawn in characters: boxes with a title, a value and an adjoint, joined by lines.

    ╭ x ──╮        ┌ x*y ─┐
    │ = 2 ├───────▸│ = 6  ├──▸
    │ ∂ 3 │     ┌─▸│ ∂ 1  │
    ╰─────╯     │  └──────┘

Variables have round corners, the output a double border, constants no box. A line branches in a T or at a dot; lines
that only cross form a cross. The current node has a heavy border, so it is visible without colour. Lines of a screen
consist of runs of text, each in one style, which become escape codes only when they are written to a terminal.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from autodiff_cli.render.character_layout import BoxLayout, Cell, Extent, Segment
from autodiff_cli.render.drawing import Role
from autodiff_cli.render.formatting import LOOKALIKE_ERRORS, display_width, leading_characters

# --- Styled text ---


class TextStyle(enum.Enum):
    """The style of a run of text: its codes (ECMA-48, "select graphic rendition") with colour and without."""

    PLAIN = ("", "")
    FAINT = ("2", "2")
    STRONG = ("1", "1")
    VALUE = ("36", "")
    ADJOINT = ("35", "")
    HIGHLIGHTED = ("1;32", "1")
    CURRENT = ("1;7;32", "1;7")


class Run(NamedTuple):
    """A piece of a line in one style."""

    text: str
    style: TextStyle = TextStyle.PLAIN


Line: TypeAlias = tuple[Run, ...]


def ansi_text(line: Line, colour: bool) -> str:
    """Return a line with escape codes for a terminal; without colour only bold, faint and reversed text."""
    codes = [run.style.value[0 if colour else 1] for run in line]
    pairs = zip(line, codes, strict=True)
    return "".join(f"\x1b[{code}m{run.text}\x1b[0m" if code else run.text for run, code in pairs)


def replace_unencodable(text: str, encoding: str) -> str:
    """Replace the characters that an encoding lacks, so that the width of the text can be computed."""
    return text.encode(encoding, LOOKALIKE_ERRORS).decode(encoding)


def cut_line(line: Iterable[Run], width: int) -> Line:
    """Return the beginning of a line that fits into `width` columns."""
    runs: list[Run] = []
    for run in line:
        text = "".join(leading_characters(run.text, width))
        runs.append(Run(text, run.style))
        width -= display_width(text)
        if text != run.text:
            break
    return tuple(runs)


# --- Boxes ---

_UP, _RIGHT, _DOWN, _LEFT = range(4)


class BoxContent(NamedTuple):
    """The texts of a node: its title, and the widest value and adjoint; "" for a number that it never has."""

    title: str
    role: Role
    value: str
    adjoint: str

    @property
    def has_no_box(self) -> bool:
        """Whether the title is drawn without a box."""
        return self.role is Role.CONSTANT

    def extent(self, inputs: int) -> Extent:
        """Return the size of the box if `inputs` lines enter it."""
        if self.has_no_box:
            return Extent(display_width(self.title) + 1, 1)
        rows = [f"= {text}" for text in (self.value, self.adjoint) if text]
        return Extent(4 + max(map(display_width, (self.title, *rows))), 2 + max(len(rows), inputs, 1))


class DrawingState(NamedTuple):
    """The numbers and highlights that a drawing shows at one step.

    Attributes:
        has_value: whether the value of a node is computed yet.
        adjoint: returns the adjoint of a node so far; "" if it has none yet.
        current: the node that is highlighted.
        highlighted: lines to highlight, by the node that they enter and the position among its inputs.
        updated: nodes with a new number: a new adjoint if `is_backward`, else a new value.
        is_backward: whether numbers move against the direction of the highlighted lines.
    """

    has_value: Callable[[int], bool]
    adjoint: Callable[[int], str]
    current: int | None = None
    highlighted: frozenset[tuple[int, int]] = frozenset()
    updated: frozenset[int] = frozenset()
    is_backward: bool = False


# Characters in which lines meet. The index has four digits in base 3: the weights (0 none, 1 light, 2 heavy) of the
# arms up, right, down and left.
_JOINTS = " ╴╸╷┐┑╻┒┓╶─╾┌┬┭┎┰┱╺╼━┍┮┯┏┲┳╵┘┙│┤┥╽┧┪└┴┵├┼┽┟╁╅┕┶┷┝┾┿┢╆╈╹┚┛╿┦┩┃┨┫┖┸┹┞╀╃┠╂╉┗┺┻┡╄╇┣╊╋"
_BRANCH = "•"  # where a line continues in all four directions
# The characters of a border: upper left, upper right, lower left and lower right corner, horizontal, vertical.
_ROLE_BORDERS = {Role.INPUT: "╭╮╰╯─│", Role.OUTPUT: "╔╗╚╝═║"}


def _joint(arms: Sequence[int]) -> str:
    """Return the character in which lines with these weights meet."""
    return _JOINTS[27 * arms[_UP] + 9 * arms[_RIGHT] + 3 * arms[_DOWN] + arms[_LEFT]]


class CharacterDrawing:
    """A graph that is laid out for drawing.

    Args:
        contents: the texts of each node to draw, inputs before their users.
        inputs: returns the inputs of a node. Only lines between nodes with contents are drawn.

    Attributes:
        extent: the size of the whole drawing.
        boxes: the upper left corner and the size of the box of each node that is drawn.

    Raises:
        TooManyItemsError: if the graph is too large.
    """

    def __init__(self, contents: Mapping[int, BoxContent], inputs: Callable[[int], Sequence[int]]) -> None:
        self._contents = contents
        places = {i: place for place, i in enumerate(contents)}
        self._entries = {i: [(k, j) for k, j in enumerate(inputs(i)) if j in places] for i in contents}
        self._leaving = {j for entries in self._entries.values() for _, j in entries}
        extents = [content.extent(len(self._entries[i])) for i, content in contents.items()]
        self._arrangement = BoxLayout(extents, [[places[j] for _, j in self._entries[i]] for i in contents])
        self.extent = self._arrangement.extent
        self.boxes = {i: (self._arrangement.origins[place], extents[place]) for i, place in places.items()}
        self._ends = {i: self._arrangement.last_segments[place] for i, place in places.items()}

    def render(self, corner: Cell, extent: Extent, state: DrawingState) -> list[Line]:
        """Draw the part of the graph inside a window of size `extent` with its upper left corner at `corner`."""
        canvas = _Canvas(corner, extent)
        self._draw_lines(canvas, state)
        for i, content in self._contents.items():
            if canvas.is_visible(*self.boxes[i]):
                self._draw_box(canvas, i, content, state)
        return canvas.lines()

    def _draw_lines(self, canvas: _Canvas, state: DrawingState) -> None:
        for piece in self._arrangement.segments:
            canvas.add_segment(piece, 1)
        ends = []
        for i, entries in self._entries.items():
            for (k, _), end in zip(entries, self._ends[i], strict=True):
                is_highlighted = (i, k) in state.highlighted
                for piece in self._arrangement.segments_to(end) if is_highlighted else ():
                    canvas.add_segment(piece, 2)
                arrow = "▸◂"[is_highlighted and state.is_backward]
                style = TextStyle.HIGHLIGHTED if is_highlighted else TextStyle.FAINT
                ends.append((self._arrangement.segments[end].points[-1], arrow, style))
        canvas.draw_lines()
        for cell, arrow, style in ends:
            canvas.write(cell, arrow, style)

    def _draw_box(self, canvas: _Canvas, i: int, content: BoxContent, state: DrawingState) -> None:
        (left, top), (width, height) = self.boxes[i]
        is_current = i == state.current
        if content.has_no_box:
            canvas.write(Cell(left, top), content.title, TextStyle.CURRENT if is_current else TextStyle.PLAIN)
            return
        edge = TextStyle.HIGHLIGHTED if is_current else TextStyle.PLAIN
        border = "┏┓┗┛━┃" if is_current else _ROLE_BORDERS.get(content.role, "┌┐└┘─│")
        *corners, across, upright = [*border]
        sides = f"{upright}{' ' * (width - 2)}{upright}"
        canvas.write(Cell(left, top), f"{corners[0]}{across * (width - 2)}{corners[1]}", edge)
        for row in range(top + 1, top + height - 1):
            canvas.write(Cell(left, row), sides, edge)
        canvas.write(Cell(left, top + height - 1), f"{corners[2]}{across * (width - 2)}{corners[3]}", edge)
        canvas.write(Cell(left + 1, top), f" {content.title} ", TextStyle.CURRENT if is_current else TextStyle.STRONG)
        if i in self._leaving:
            self._draw_exit(canvas, i, state)
        for row, (text, style) in enumerate(self._numbers(i, content, state), top + 1):
            canvas.write(Cell(left + 2, row), text, style)

    def _draw_exit(self, canvas: _Canvas, i: int, state: DrawingState) -> None:
        """Draw the joint at which the line of a node leaves its box."""
        (left, top), (width, height) = self.boxes[i]
        place = Cell(left + width - 1, top + (height - 1) // 2)
        border = 2 if i == state.current else 1
        line = canvas.line_weight(Cell(place.column + 1, place.row), _LEFT)
        style = TextStyle.HIGHLIGHTED if max(border, line) == 2 else TextStyle.PLAIN
        canvas.write(place, _joint((border, line, border, 0)), style)

    def _numbers(self, i: int, content: BoxContent, state: DrawingState) -> Iterator[tuple[str, TextStyle]]:
        """Yield the lines of text inside a box."""
        fresh = TextStyle.HIGHLIGHTED if i in state.updated else None
        if content.value:
            text = f"= {content.value}" if state.has_value(i) else ""
            yield text, TextStyle.VALUE if fresh is None or state.is_backward else fresh
        if content.adjoint:
            adjoint = state.adjoint(i)
            text = f"∂ {adjoint}" if adjoint else ""
            yield text, fresh if fresh is not None and state.is_backward else TextStyle.ADJOINT


class _Canvas:
    """The cells of a window; anything drawn outside is dropped."""

    def __init__(self, corner: Cell, extent: Extent) -> None:
        self._left, self._top = corner
        self._right, self._bottom = corner.column + extent.width, corner.row + extent.height
        self._cells: dict[Cell, Run] = {}
        self._arms: dict[Cell, list[int]] = {}
        self._sources: dict[Cell, set[int]] = {}

    def is_visible(self, corner: Cell, extent: Extent) -> bool:
        """Whether a rectangle is at least partly inside the window."""
        (left, top), (width, height) = corner, extent
        return left < self._right and top < self._bottom and left + width > self._left and top + height > self._top

    def write(self, cell: Cell, text: str, style: TextStyle) -> None:
        """Write text on one row. Combining characters join the one before; a character cut in half becomes a space."""
        column, row = cell
        if not self._top <= row < self._bottom:
            return
        for character in text:
            width = display_width(character)
            if not width:
                before = Cell(column - 1, row)
                if before in self._cells:
                    self._cells[before] = Run(self._cells[before].text + character, style)
                continue
            is_whole = self._left <= column and column + width <= self._right
            pieces = (character, *[""] * (width - 1)) if is_whole else " " * width
            for k, piece in enumerate(pieces, column):
                if self._left <= k < self._right:
                    self._cells[Cell(k, row)] = Run(piece, style)
            column += width

    def add_segment(self, piece: Segment, weight: int) -> None:
        """Add a segment of a line, which begins one cell to the left of its first point."""
        source, corners = piece.source, piece.points
        for a, b in itertools.pairwise((Cell(corners[0].column - 1, corners[0].row), *corners)):
            if a.row == b.row and self._top <= a.row < self._bottom:
                low, high = sorted((a.column, b.column))
                for column in range(max(low, self._left), min(high + 1, self._right)):
                    self._add_arms(Cell(column, a.row), source, weight, _LEFT, column > low, _RIGHT, column < high)
            elif a.row != b.row and self._left <= a.column < self._right:
                low, high = sorted((a.row, b.row))
                for row in range(max(low, self._top), min(high + 1, self._bottom)):
                    self._add_arms(Cell(a.column, row), source, weight, _UP, row > low, _DOWN, row < high)

    def _add_arms(self, cell: Cell, source: int, weight: int, back: int, has_back: bool, on: int, has_on: bool) -> None:
        arms = self._arms.setdefault(cell, [0, 0, 0, 0])
        if has_back:
            arms[back] = max(arms[back], weight)
        if has_on:
            arms[on] = max(arms[on], weight)
        self._sources.setdefault(cell, set()).add(source)

    def line_weight(self, cell: Cell, arm: int) -> int:
        """Return the weight of the line in one direction from a cell; 1 if there is none in the window."""
        return self._arms[cell][arm] or 1 if cell in self._arms else 1

    def draw_lines(self) -> None:
        """Draw all lines that were added."""
        for cell, arms in self._arms.items():
            character = _BRANCH if all(arms) and len(self._sources[cell]) == 1 else _joint(arms)
            self._cells[cell] = Run(character, TextStyle.HIGHLIGHTED if 2 in arms else TextStyle.FAINT)

    def lines(self) -> list[Line]:
        """Return all rows without trailing spaces."""
        return [self._line(row) for row in range(self._top, self._bottom)]

    def _line(self, row: int) -> Line:
        blank = Run(" ")
        cells = [self._cells.get(Cell(column, row), blank) for column in range(self._left, self._right)]
        while cells and cells[-1].text == " ":
            cells.pop()
        groups = itertools.groupby(cells, key=lambda run: run.style)
        return tuple(Run("".join(run.text for run in group), style) for style, group in groups)
