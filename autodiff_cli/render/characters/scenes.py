"""Which drawing of a trace suits a window: the roomiest that fits, or only the surroundings of one node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from autodiff_cli.explain.record import Trace
from autodiff_cli.render.characters.cells import Cell, Extent, TooMany
from autodiff_cli.render.characters.sketch import Face, Sketch
from autodiff_cli.render.drawing.diagrams import Box, Role, drawable, drawing
from autodiff_cli.render.text import columns

MOST_AROUND = 6  # inputs, and users, of a node of which only the surroundings are drawn
ROOMY, USUAL, TERSE = 24, 12, 0  # columns of the longest titles; none means signs of operations instead of formulas
_WORTH_TRYING = 2  # how many times wider than the window a drawing may be that could fit with terse titles

_INPUTS_LEFT_OUT, _USERS_LEFT_OUT = -1, -2  # what stands for them in a drawing, beside the nodes


class Scenes:
    """The drawings of a trace.

    Args:
        write: makes any text fit for the terminal.
        number: how a value is written in a box.
        widest: the widest text that stands for each node's adjoint; "" for one that takes none.
    """

    def __init__(
        self, trace: Trace, write: Callable[[str], str], number: Callable[[Any], str], widest: Callable[[int], str]
    ) -> None:
        self._trace = trace
        self._write, self._number, self._widest = write, number, widest
        self._boxes = drawing(trace).boxes
        self._sketches: dict[int, Sketch] = {}
        self.is_whole = True
        try:
            self._whole(USUAL)
        except TooMany:
            self.is_whole = False
            self._users: list[list[int]] = [[] for _ in trace.tape.nodes]
            for i, inputs in enumerate(trace.tape.inputs):
                for j in dict.fromkeys(inputs):
                    self._users[j].append(i)

    def fitting(self, focus: int, width: int) -> Sketch:
        """The drawing to show around a node: the roomiest that is not wider, if there is one."""
        if not self.is_whole:
            return self._surroundings(focus)
        usual = self._whole(USUAL)
        if usual.extent.width > _WORTH_TRYING * width:
            return usual
        other = self._whole(ROOMY if usual.extent.width <= width else TERSE)
        return other if other.extent.width <= width else usual

    def around(self, sketch: Sketch, focus: int, window: Extent) -> Cell:
        """The corner of a window that shows a node, in the middle if it can be, and if possible also its inputs."""
        boxes = [sketch.box(focus), *(sketch.box(j) for j in self._trace.tape.inputs[focus] if sketch.has(j))]
        left, right = _hull([(corner.column, corner.column + extent.width) for corner, extent in boxes], window.width)
        top, bottom = _hull([(corner.row, corner.row + extent.height) for corner, extent in boxes], window.height)
        return Cell(
            _start((left + right) // 2, left, sketch.extent.width, window.width),
            _start((top + bottom) // 2, top, sketch.extent.height, window.height),
        )

    def _whole(self, longest: int) -> Sketch:
        if longest not in self._sketches:
            faces = {box.id: self._face(box, longest) for box in self._boxes}
            self._sketches[longest] = Sketch(faces, self._trace.tape.inputs.__getitem__)
        return self._sketches[longest]

    def _surroundings(self, focus: int) -> Sketch:
        """A node, the first of its inputs and of its users, and how many are left out."""
        inputs, users = self._trace.tape.inputs[focus], self._users[focus]
        near = sorted({*inputs[:MOST_AROUND], focus, *users[:MOST_AROUND]})
        faces: dict[int, Face] = {}
        if len(inputs) > MOST_AROUND:
            faces[_INPUTS_LEFT_OUT] = self._more(len(inputs) - MOST_AROUND)
        faces |= {i: self._face(self._boxes[i], ROOMY) for i in near}
        if len(users) > MOST_AROUND:
            faces[_USERS_LEFT_OUT] = self._more(len(users) - MOST_AROUND)

        def entering(i: int) -> Sequence[int]:
            if i == _INPUTS_LEFT_OUT:
                return ()
            if i == _USERS_LEFT_OUT:
                return (focus,)
            found = self._trace.tape.inputs[i]
            return (*found[:MOST_AROUND], _INPUTS_LEFT_OUT) if i == focus else found

        return Sketch(faces, entering)

    def _more(self, count: int) -> Face:
        return Face(self._write(f"… {count} more"), Role.CONSTANT, "", "")

    def _face(self, box: Box, longest: int) -> Face:
        title = self._write(drawable(self._trace.naming.fitting(box.id, longest)) if longest else self._sign(box))
        value = "" if box.role is Role.CONSTANT else self._number(box.value)
        adjoint = "" if box.adjoint is None else self._widest(box.id)
        return Face(self._write(middle_left_out(title, longest or USUAL)), box.role, value, adjoint)

    def _sign(self, box: Box) -> str:
        """The shortest name of a node: that of a named intermediate, else the operation's."""
        node = self._trace.tape.nodes[box.id]
        if node.op is None or node in self._trace.expression.names:
            return box.label
        return node.op.symbol or node.op.spelling or node.op.name


def middle_left_out(text: str, width: int) -> str:
    """A text of at most so many columns (at least 3), if need be without its middle."""
    if columns(text) <= width:
        return text
    tail = "".join(reversed([*_first(reversed(text), (width - 1) // 2)]))
    return f"{''.join(_first(text, width - 1 - columns(tail)))}…{tail}"


def _first(text: Iterator[str] | str, width: int) -> Iterator[str]:
    """The characters that fit into so many columns."""
    for character in text:
        width -= columns(character)
        if width < 0:
            return
        yield character


def _hull(spans: Sequence[tuple[int, int]], room: int) -> tuple[int, int]:
    """What encloses all spans, if there is room, else the first span alone."""
    low, high = min(low for low, _ in spans), max(high for _, high in spans)
    return (low, high) if high - low <= room else spans[0]


def _start(middle: int, least: int, length: int, room: int) -> int:
    """Where a window begins that shows `middle` and never misses `least`, inside the drawing if that is larger."""
    if length <= room:
        return -((room - length) // 2)
    return min(max(min(middle - room // 2, length - room), 0), least)
