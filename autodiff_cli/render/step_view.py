"""The step-by-step view of a trace in the terminal (`trace --step`).

Each step has a screen: the graph with the numbers computed so far, and an explanation of the step. The graph is drawn
with the longest titles that fit the window; of a graph that is too large only the neighbours of one node are drawn.
A screen depends only on the trace, the step and the size of the window.
"""

from __future__ import annotations

import bisect
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from autodiff_cli.explain.record import BackwardStep, ForwardStep, Trace
from autodiff_cli.explain.sentences import BACKWARD_PASS_SENTENCE, StepSentences, closing_phrases
from autodiff_cli.language.errors import escape_controls
from autodiff_cli.render import character_drawing, formatting
from autodiff_cli.render.character_drawing import BoxContent, CharacterDrawing, DrawingState, Line, Run, TextStyle
from autodiff_cli.render.character_layout import Cell, Extent, TooManyItemsError
from autodiff_cli.render.drawing import Box, Role, build_drawing, safe_label
from autodiff_cli.render.formatting import elide_middle
from autodiff_cli.render.gradient import write_result, write_title, write_warnings
from autodiff_cli.render.report import Paper
from autodiff_cli.render.trace import backward_lines, forward_lines

# Limits of what a window shows. Lengths are in terminal columns, heights in rows.
_MIN_TEXT_ROWS = 8  # of the explanation; in a low window two fifths of the rows
_MAX_NUMBER_WIDTH = 26  # of a number in a box; only arrays are longer
_MIN_ROWS_FOR_TITLE = 10  # lower windows have no line with the formula
_MIN_ROWS_FOR_RULE = 6  # lower windows have no line between drawing and text
_MIN_ROWS_FOR_KEYS = 4  # lower windows have no line with the keys
_MAX_NEIGHBOURS = 6  # inputs, and users, drawn around a node of a graph that is too large
_WIDE_TITLES = 24  # longest titles of boxes in a wide window
_USUAL_TITLES = 12
_NO_TITLES = 0  # boxes have the signs of operations instead of formulas
_MAX_WIDTH_RATIO = 2  # a drawing that is wider than this many windows does not fit without titles either

_OMITTED_INPUTS, _OMITTED_USERS = -1, -2  # ids of boxes that stand for neighbours that are not drawn


# --- The drawing for a window ---


class DrawingSelector:
    """Selects the drawing of a trace that suits a window.

    Args:
        write: makes a text suitable for the terminal.
        number: writes a value for a box.
        widest: the widest text of the adjoint of each node that has one.

    Attributes:
        has_whole_graph: whether the whole graph is drawn; else only the neighbours of a node.
    """

    def __init__(
        self, trace: Trace, write: Callable[[str], str], number: Callable[[Any], str], widest: Mapping[int, str]
    ) -> None:
        self._trace = trace
        self._write, self._number, self._widest = write, number, widest
        self._boxes = build_drawing(trace).boxes
        self._drawings: dict[int, CharacterDrawing] = {}
        self.has_whole_graph = True
        try:
            self._whole_drawing(_USUAL_TITLES)
        except TooManyItemsError:
            self.has_whole_graph = False

    def drawing_for(self, focus: int, width: int) -> CharacterDrawing:
        """Return the drawing for a node: the one with the longest titles that fits the width, if any fits."""
        if not self.has_whole_graph:
            return self._neighbourhood(focus)
        usual = self._whole_drawing(_USUAL_TITLES)
        if usual.extent.width > _MAX_WIDTH_RATIO * width:
            return usual
        other = self._whole_drawing(_WIDE_TITLES if usual.extent.width <= width else _NO_TITLES)
        return other if other.extent.width <= width else usual

    def window_origin(self, drawing: CharacterDrawing, focus: int, window: Extent) -> Cell:
        """Return the upper left corner of a window that shows a node, centred if possible, with its inputs."""
        boxes = [drawing.boxes[i] for i in (focus, *self._trace.tape.inputs[focus]) if i in drawing.boxes]
        starts = []
        for axis in (0, 1):  # columns, then rows
            spans = [(corner[axis], corner[axis] + extent[axis]) for corner, extent in boxes]
            low, high = min(low for low, _ in spans), max(high for _, high in spans)
            if high - low > window[axis]:
                low, high = spans[0]
            starts.append(_window_start((low + high) // 2, low, drawing.extent[axis], window[axis]))
        return Cell(*starts)

    def _whole_drawing(self, title_width: int) -> CharacterDrawing:
        if title_width not in self._drawings:
            contents = {box.id: self._box_content(box, title_width) for box in self._boxes}
            self._drawings[title_width] = CharacterDrawing(contents, self._trace.tape.inputs.__getitem__)
        return self._drawings[title_width]

    def _neighbourhood(self, focus: int) -> CharacterDrawing:
        """Draw a node with some of its inputs and users, and the number of those that are omitted."""
        inputs, users = self._trace.tape.inputs[focus], [*dict.fromkeys(self._trace.users[focus])]
        near = sorted({*inputs[:_MAX_NEIGHBOURS], focus, *users[:_MAX_NEIGHBOURS]})
        contents: dict[int, BoxContent] = {}
        if len(inputs) > _MAX_NEIGHBOURS:
            contents[_OMITTED_INPUTS] = self._omission(len(inputs) - _MAX_NEIGHBOURS)
        contents |= {i: self._box_content(self._boxes[i], _WIDE_TITLES) for i in near}
        if len(users) > _MAX_NEIGHBOURS:
            contents[_OMITTED_USERS] = self._omission(len(users) - _MAX_NEIGHBOURS)

        def entering(i: int) -> Sequence[int]:
            if i == _OMITTED_INPUTS:
                return ()
            if i == _OMITTED_USERS:
                return (focus,)
            inputs = self._trace.tape.inputs[i]
            return (*inputs[:_MAX_NEIGHBOURS], _OMITTED_INPUTS) if i == focus else inputs

        return CharacterDrawing(contents, entering)

    def _omission(self, count: int) -> BoxContent:
        return BoxContent(self._write(f"… {count} more"), Role.CONSTANT, "", "")

    def _box_content(self, box: Box, title_width: int) -> BoxContent:
        node = self._trace.tape.nodes[box.id]
        if title_width:
            title = self._write(safe_label(self._trace.naming.fit(box.id, title_width)))
        elif node.op is None or node in self._trace.expression.names:
            title = self._write(box.label)
        else:
            title = self._write(node.op.symbol or node.op.spelling or node.op.name)
        value = "" if box.role is Role.CONSTANT else self._number(box.value)
        adjoint = "" if box.adjoint is None else self._widest[box.id]
        title = self._write(elide_middle(title, title_width or _USUAL_TITLES))
        return BoxContent(title, box.role, value, adjoint)


def _window_start(middle: int, first: int, length: int, width: int) -> int:
    """Return where a window of `width` begins so that it is centred on `middle` and still shows `first`.

    It stays inside a drawing of this `length`; a shorter drawing is centred in the window.
    """
    if length <= width:
        return -((width - length) // 2)
    return min(max(min(middle - width // 2, length - width), 0), first)


# --- Screens ---

KEYS_TEXT = "← → step   Home End   ? help   q quit"
LEGEND_TEXT = "= value   ∂ adjoint"
HELP_LINES = Path(__file__).with_name("step_view_help.txt").read_text(encoding="utf-8").splitlines()


class ViewedStep(NamedTuple):
    """A step as the view shows it.

    Attributes:
        title: the name and number of the step.
        step: the step of the trace; None at the beginning and at the end.
        focus: the node that the window must show.
    """

    title: str
    step: ForwardStep | BackwardStep | None
    focus: int


class ViewState(NamedTuple):
    """The state of the view: the index of the step, the first visible line of its text, and whether help is open."""

    position: int = 0
    first_line: int = 0
    is_help: bool = False


class StepView:
    """The steps of a trace and their screens.

    Args:
        digits: the number of significant digits; None for the default.
        encoding: the encoding of the terminal. Characters that it lacks are replaced by similar ones.
    """

    def __init__(self, trace: Trace, digits: int | None, encoding: str) -> None:
        self._trace, self._digits, self._encoding = trace, digits, encoding
        self._format_full, self._format_brief = formatting.number_formats(digits)
        self._sentences = StepSentences(trace, self._format_brief)
        forward, backward = [*trace.forward], [*trace.backward]
        output = trace.tape.outputs[0]
        self.steps = [
            ViewedStep("the beginning", None, forward[0].node if forward else output),
            *(ViewedStep(f"forward {step.step} of {len(forward)}", step, step.node) for step in forward),
            *(ViewedStep(f"backward {step.step} of {len(backward)}", step, step.node) for step in backward),
            ViewedStep("the end", None, output),
        ]
        self._computed = {step.node: at for at, step in enumerate(forward, 1)}
        self._adjoints = self._adjoint_history(1 + len(forward), backward)
        widest = {
            i: max((text for _, text in changes), key=formatting.display_width) for i, changes in self._adjoints.items()
        }
        self._drawings = DrawingSelector(trace, self._encodable, self._number_text, widest)

    def screen(self, view: ViewState, window: Extent) -> list[Line]:
        """Return the lines of a screen: as many as the window has rows, none wider than the window."""
        viewed = self.steps[view.position]
        drawing, area = self._drawing_area(viewed, window)
        corner = self._drawings.window_origin(drawing, viewed.focus, area)
        lines = drawing.render(corner, area, self._drawing_state(view.position))
        if window.height >= _MIN_ROWS_FOR_TITLE:
            text = self._encodable(formatting.single_line(self._trace.expression.text))
            lines.insert(0, (Run(self._encodable(elide_middle(text, max(window.width, 3))), TextStyle.STRONG),))
        if window.height >= _MIN_ROWS_FOR_RULE:
            lines.append(self._rule_line(viewed, window.width))
        lines += self._text_panel(view, Extent(window.width, _rows_without_bars(window) - area.height))
        if window.height >= _MIN_ROWS_FOR_KEYS:
            keys, legend = self._encodable(KEYS_TEXT), self._encodable(LEGEND_TEXT)
            gap = window.width - formatting.display_width(keys) - formatting.display_width(legend)
            lines.append((Run(keys + " " * gap + legend if gap > 2 else keys, TextStyle.FAINT),))
        encodable = (tuple(Run(self._encodable(run.text), run.style) for run in line) for line in lines)
        return [character_drawing.cut_line(line, window.width) for line in encodable]

    def max_first_line(self, view: ViewState, window: Extent) -> int:
        """Return the first visible line of the text when it is scrolled to its end."""
        _, area = self._drawing_area(self.steps[view.position], window)
        return max(len(self._text_lines(view, window.width)) - (_rows_without_bars(window) - area.height), 0)

    def _drawing_area(self, viewed: ViewedStep, window: Extent) -> tuple[CharacterDrawing, Extent]:
        """Return the drawing of a step and the size of its area, which is the same for all steps."""
        rows = _rows_without_bars(window)
        max_height = rows - min(_MIN_TEXT_ROWS, rows * 2 // 5)
        drawing = self._drawings.drawing_for(viewed.focus, window.width)
        height = min(max_height, drawing.extent.height) if self._drawings.has_whole_graph else max_height
        return drawing, Extent(window.width, height)

    def _text_lines(self, view: ViewState, width: int) -> list[Line]:
        """Return the text of a step, wrapped to a width."""
        texts = [(line, TextStyle.PLAIN) for line in HELP_LINES]
        if not view.is_help:
            texts = self._explanation(self.steps[view.position])
        return [
            (Run(piece, style),)
            for text, style in texts
            for piece in formatting.wrap_line(self._encodable(text), width)
        ]

    # --- Numbers so far ---

    def _adjoint_history(self, turn: int, backward: Iterable[BackwardStep]) -> dict[int, list[tuple[int, str]]]:
        """Return for every node the steps at which its adjoint changes, with the text of the new adjoint.

        Args:
            turn: the index of the step at which the output gets its adjoint.
        """
        output = self._trace.tape.outputs[0]
        history: dict[int, list[tuple[int, str]]] = {}
        if self._trace.adjoints[output] is not None:
            history[output] = [(turn, self._number_text(self._trace.adjoints[output]))]
        for at, step in enumerate(backward, turn):
            for contribution in step.contributions:
                more = "" if contribution.use == contribution.uses else self._encodable(" …")
                history.setdefault(contribution.to, []).append((at, self._number_text(contribution.total) + more))
        return history

    def _drawing_state(self, at: int) -> DrawingState:
        step, output = self.steps[at].step, self._trace.tape.outputs[0]

        def has_value(i: int) -> bool:
            return self._computed.get(i, 0) <= at

        def adjoint(i: int) -> str:
            changes = self._adjoints[i]
            count = bisect.bisect_right(changes, at, key=lambda change: change[0])
            return changes[count - 1][1] if count else ""

        if step is None:
            return DrawingState(has_value, adjoint)
        if isinstance(step, ForwardStep):
            highlighted = frozenset((step.node, k) for k in range(len(step.inputs)))
            return DrawingState(has_value, adjoint, step.node, highlighted, frozenset({step.node}))
        highlighted = frozenset((step.node, contribution.position) for contribution in step.contributions)
        seed = {output} if step.node == output else set()
        updated = frozenset(contribution.to for contribution in step.contributions) | seed
        return DrawingState(has_value, adjoint, step.node, highlighted, updated, is_backward=True)

    # --- Texts ---

    def _explanation(self, viewed: ViewedStep) -> list[tuple[str, TextStyle]]:
        """Return the lines of the explanation of a step, not wrapped, each with its style."""
        step = viewed.step
        if isinstance(step, ForwardStep):
            below = forward_lines(self._trace, step, self._format_brief, set())
            return [(self._sentences.forward(step), TextStyle.PLAIN), *_indented(below)]
        if isinstance(step, BackwardStep):
            below = backward_lines(self._trace, step, self._format_brief)
            return [
                *([(BACKWARD_PASS_SENTENCE, TextStyle.FAINT)] if step.step == 1 else ()),
                (f"{self._trace.labels[step.node]}, adjoint {self._format_brief(step.adjoint)}", TextStyle.STRONG),
                (self._sentences.backward(step), TextStyle.PLAIN),
                *_indented(below),
            ]
        page = io.StringIO()
        paper = Paper(page, self._digits)
        if viewed is self.steps[-1]:
            write_result(paper, self._trace)
            write_warnings(paper, self._trace.warnings)
            if self._trace.wrt:
                paper.line()
                for phrase in closing_phrases(self._trace):
                    paper.line(self._sentences.fill(phrase))
        else:
            write_title(paper, self._trace.expression, self._trace.point)
            paper.line()
            paper.line("The forward pass computes every node from its inputs.")
            paper.line("The backward pass then computes how fast the output changes with each node.")
        return [(line, TextStyle.PLAIN) for line in page.getvalue().strip().splitlines()]

    def _text_panel(self, view: ViewState, extent: Extent) -> list[Line]:
        """Return the visible lines of the text; the last one may say how many lines are below."""
        lines = self._text_lines(view, extent.width)
        first = min(view.first_line, max(len(lines) - extent.height, 0))
        shown = lines[first : first + extent.height]
        below = len(lines) - first - len(shown)
        if below and extent.height > 1:
            shown[-1] = (Run(self._encodable(f"↓ {below + 1} more lines"), TextStyle.FAINT),)
        return [*shown, *[()] * (extent.height - len(shown))]

    # --- Bars ---

    def _rule_line(self, viewed: ViewedStep, width: int) -> Line:
        title = f" {viewed.title} "
        left, right = (Run("─" * count, TextStyle.FAINT) for count in (2, width - 2 - len(title)))
        return left, Run(title, TextStyle.STRONG), right

    def _encodable(self, text: str) -> str:
        """Return a text with control characters escaped and characters that the terminal lacks replaced."""
        return character_drawing.replace_unencodable(escape_controls(text), self._encoding)

    def _number_text(self, number: Any) -> str:
        width = _MAX_NUMBER_WIDTH
        return self._encodable(elide_middle(formatting.text_within(number, self._format_brief, width), width))


def _indented(lines: Iterable[str]) -> Iterator[tuple[str, TextStyle]]:
    return ((f"  {line}", TextStyle.PLAIN) for line in lines)


def _rows_without_bars(window: Extent) -> int:
    """Return the number of rows of a window without its bars."""
    bars = _MIN_ROWS_FOR_TITLE, _MIN_ROWS_FOR_RULE, _MIN_ROWS_FOR_KEYS
    return window.height - sum(window.height >= rows for rows in bars)
