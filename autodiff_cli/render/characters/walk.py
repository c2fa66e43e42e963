"""A trace as a walk: at each moment a screen with the graph, as far as it is computed, and what happens, in words.

A screen follows from the trace, the moment and the size of the window, and from nothing else.
"""

from __future__ import annotations

import bisect
import io
from collections.abc import Iterable
from typing import Any, NamedTuple

from autodiff_cli.explain.moments import TURN, closing
from autodiff_cli.explain.record import BackwardStep, ForwardStep, Handed, Trace
from autodiff_cli.explain.words import Words
from autodiff_cli.render.characters.cells import Extent
from autodiff_cli.render.characters.ink import Ink, Line, Run, cut, is_drawable, written
from autodiff_cli.render.characters.scenes import Scenes, middle_left_out
from autodiff_cli.render.characters.sketch import ASCII, UNICODE, Look, Sketch
from autodiff_cli.render.grids import PLAIN_SHADES, SHADES, going_in, grid, handed_back_by, is_grid
from autodiff_cli.render.numbers import shows, within
from autodiff_cli.render.paper import Paper
from autodiff_cli.render.reports.gradient import write_result, write_title, write_warnings
from autodiff_cli.render.text import columns, on_one_line, visible, wrapped

LEAST_WORDS = 8  # rows for the words where the drawing would take all; two fifths of a low window
LONGEST_NUMBER = 26  # columns in a box; only arrays take more
_ROWS_FOR_TITLE, _ROWS_FOR_RULE, _ROWS_FOR_KEYS = 10, 6, 4  # of windows that have these lines

KEYS = "← → step   Home End   ? help   q quit"
LEGEND = "= value   ∂ adjoint"
HELP = (
    "→ space l f        the next step",
    "← backspace h b    the step before",
    "Home g, End G      the beginning, the end",
    "↑ ↓ k j            scroll these words",
    "q Esc Ctrl-C       quit",
    "",
    "= stands before a node's value, ∂ before its adjoint: how fast the output changes with it. An adjoint followed by "
    "… is a total so far; other users of the node will add to it.",
)


class Moment(NamedTuple):
    """A stop on the walk.

    Attributes:
        title: where on the walk it is.
        step: what happens; None at the beginning and at the end.
        focus: the node that the window must show.
    """

    title: str
    step: ForwardStep | BackwardStep | None
    focus: int


class Viewpoint(NamedTuple):
    """What someone looks at: which moment, from which line of its words on; or the help."""

    at: int = 0
    line: int = 0
    is_help: bool = False


class Walk:
    """The moments of a trace, and what a terminal shows at each.

    Args:
        digits: how many significant digits to show; None for the usual.
        encoding: the terminal's. Where it lacks lines and boxes, drawings are in ASCII.
    """

    def __init__(self, trace: Trace, digits: int | None, encoding: str) -> None:
        self._trace, self._encoding = trace, encoding
        self._in_full, self._brief = shows(digits)
        self._words = Words(trace, self._brief)
        self._charset = UNICODE if is_drawable(encoding) else ASCII
        forward, backward = [*trace.forward], [*trace.backward]
        output = trace.tape.outputs[0]
        self.moments = [
            Moment("the beginning", None, forward[0].node if forward else output),
            *(Moment(f"forward {step.step} of {len(forward)}", step, step.node) for step in forward),
            *(Moment(f"backward {step.step} of {len(backward)}", step, step.node) for step in backward),
            Moment("the end", None, output),
        ]
        self._computed = {step.node: at for at, step in enumerate(forward, 1)}
        self._adjoints = self._history(1 + len(forward), backward)
        self._scenes = Scenes(trace, self._text, self._number, self._widest)

    def screen(self, view: Viewpoint, window: Extent) -> list[Line]:
        """What a window shows: as many lines as it has rows, none wider than it."""
        moment = self.moments[view.at]
        sketch, stage = self._stage(moment, window)
        corner = self._scenes.around(sketch, moment.focus, stage)
        lines = sketch.window(corner, stage, self._look(view.at), self._charset)
        if window.height >= _ROWS_FOR_TITLE:
            lines.insert(0, self._title(window.width))
        if window.height >= _ROWS_FOR_RULE:
            lines.append(self._rule(moment, window.width))
        lines += self._panel(view, Extent(window.width, _room(window) - stage.height))
        if window.height >= _ROWS_FOR_KEYS:
            lines.append(self._keys(window.width))
        return [cut(line, window.width) for line in lines]

    def last_line(self, view: Viewpoint, window: Extent) -> int:
        """The line of the words that stands at the top when the last one stands at the bottom."""
        _, stage = self._stage(self.moments[view.at], window)
        return max(len(self._lines(view, window.width)) - (_room(window) - stage.height), 0)

    def _stage(self, moment: Moment, window: Extent) -> tuple[Sketch, Extent]:
        """What to draw, and how much room it gets, which is the same at every moment."""
        room = _room(window)
        most = room - min(LEAST_WORDS, room * 2 // 5)
        sketch = self._scenes.fitting(moment.focus, window.width)
        return sketch, Extent(window.width, min(most, sketch.extent.height) if self._scenes.is_whole else most)

    def _lines(self, view: Viewpoint, width: int) -> list[Line]:
        """All that is said at a moment, in lines of a certain width."""
        said = [(line, Ink.PLAIN) for line in HELP] if view.is_help else self._said(self.moments[view.at])
        return [(Run(piece, ink),) for text, ink in said for piece in wrapped(self._text(text), width)]

    # --- what is known when

    def _history(self, turn: int, backward: Iterable[BackwardStep]) -> dict[int, list[tuple[int, str]]]:
        """For every node the moments at which its adjoint changes, each with what it is then.

        Args:
            turn: the moment at which the output gets its adjoint.
        """
        output = self._trace.tape.outputs[0]
        found: dict[int, list[tuple[int, str]]] = {}
        if self._trace.adjoints[output] is not None:
            found[output] = [(turn, self._number(self._trace.adjoints[output]))]
        for at, step in enumerate(backward, turn):
            for given in step.contributions:
                more = "" if given.use == given.uses else self._text(" …")
                found.setdefault(given.to, []).append((at, self._number(given.total) + more))
        return found

    def _widest(self, i: int) -> str:
        return max((text for _, text in self._adjoints[i]), key=columns)

    def _look(self, at: int) -> Look:
        step, output = self.moments[at].step, self._trace.tape.outputs[0]

        def knows_value(i: int) -> bool:
            return self._computed.get(i, 0) <= at

        def adjoint(i: int) -> str:
            changes = self._adjoints[i]
            count = bisect.bisect_right(changes, at, key=lambda change: change[0])
            return changes[count - 1][1] if count else ""

        if step is None:
            return Look(knows_value, adjoint)
        if isinstance(step, ForwardStep):
            lit = frozenset((step.node, k) for k in range(len(step.inputs)))
            return Look(knows_value, adjoint, step.node, lit, frozenset({step.node}))
        lit = frozenset((step.node, given.position) for given in step.contributions)
        fresh = frozenset(given.to for given in step.contributions) | ({output} if step.node == output else set())
        return Look(knows_value, adjoint, step.node, lit, fresh, is_backward=True)

    # --- words

    def _said(self, moment: Moment) -> list[tuple[str, Ink]]:
        """Lines of any length, each in its ink."""
        step = moment.step
        if isinstance(step, ForwardStep):
            arrays = [line for label, x in going_in(self._trace, step) for line in self._rows(x, label)]
            return [(self._words.forward(step), Ink.PLAIN), *arrays]
        if isinstance(step, BackwardStep):
            handed = step.contributions if self._words.hands_on(step) else ()
            slopes = [line for label, x in handed_back_by(self._trace, step) for line in self._rows(x, label)]
            return [
                *([(TURN, Ink.FAINT)] if step.step == 1 else ()),
                (f"{self._trace.labels[step.node]}, adjoint {self._brief(step.adjoint)}", Ink.STRONG),
                (self._words.backward(step), Ink.PLAIN),
                *slopes,
                *(line for given in handed for line in self._contribution(step, given)),
            ]
        page = io.StringIO()
        paper = Paper(page)
        if moment is self.moments[-1]:
            write_result(paper, self._trace, self._in_full)
            write_warnings(paper, self._trace.warnings)
            if self._trace.wrt:
                paper.line()
                for phrase in closing(self._trace):
                    paper.line(self._words.say(phrase))
        else:
            write_title(paper, self._trace, self._in_full)
            paper.line()
            paper.line("The forward pass computes every node from its inputs.")
            paper.line("The backward pass then tells how fast the output changes with each.")
        return [(line, Ink.PLAIN) for line in page.getvalue().strip().splitlines()]

    def _contribution(self, step: BackwardStep, given: Handed) -> list[tuple[str, Ink]]:
        rows = self._rows(given.amount) if is_grid(given.amount) else []
        return [(f"  {self._words.contribution(step, given)}", Ink.PLAIN), *rows]

    def _rows(self, array: Any, label: str = "") -> list[tuple[str, Ink]]:
        shades = SHADES if self._charset is UNICODE else PLAIN_SHADES
        return [(f"  {line}", Ink.PLAIN) for line in grid(array, self._brief, label, shades)]

    def _panel(self, view: Viewpoint, extent: Extent) -> list[Line]:
        """The words that there is room for, and how many lines are below."""
        lines = self._lines(view, extent.width)
        first = min(view.line, max(len(lines) - extent.height, 0))
        shown = lines[first : first + extent.height]
        below = len(lines) - first - len(shown)
        if below and extent.height > 1:
            shown[-1] = (Run(self._text(f"↓ {below + 1} more lines"), Ink.FAINT),)
        return [*shown, *[()] * (extent.height - len(shown))]

    # --- bars

    def _title(self, width: int) -> Line:
        text = self._text(on_one_line(self._trace.expression.text))
        return (Run(self._text(middle_left_out(text, max(width, 3))), Ink.STRONG),)

    def _rule(self, moment: Moment, width: int) -> Line:
        line = self._charset.joint((0, 1, 0, 1))
        title = f" {moment.title} "
        return Run(line * 2, Ink.FAINT), Run(title, Ink.STRONG), Run(line * (width - 2 - len(title)), Ink.FAINT)

    def _keys(self, width: int) -> Line:
        keys, legend = self._text(KEYS), self._text(LEGEND)
        gap = width - columns(keys) - columns(legend)
        return (Run(keys + " " * gap + legend if gap > 2 else keys, Ink.FAINT),)

    # --- texts

    def _text(self, text: str) -> str:
        """A text as the terminal can show it."""
        return written(visible(text), self._encoding)

    def _number(self, number: Any) -> str:
        return self._text(middle_left_out(within(number, self._brief, LONGEST_NUMBER), LONGEST_NUMBER))


def _room(window: Extent) -> int:
    """The rows of a window besides those of the bars."""
    return window.height - sum(window.height >= rows for rows in (_ROWS_FOR_TITLE, _ROWS_FOR_RULE, _ROWS_FOR_KEYS))
