"""The graph of a trace as a drawing: what every format draws, and the formats that are text, Mermaid and DOT.

Values and adjoints stand on nodes, local derivatives on edges. What the user typed is data in every format.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.views.groups import Frame, fold, frames, rates
from autodiff_cli.render.numbers import Show
from autodiff_cli.render.text import on_one_line

LONGEST_TITLE = 30  # characters that a node is called by in a drawing
_DEEPEST_INDENT = 8  # of frames in frames, in the formats that are text
_PLAIN = frozenset(" .,+-=()/^_×")  # what means nothing to Mermaid inside quotes, besides letters and digits


class Role(enum.Enum):
    """What a node is. Each has a shape and a colour of its own."""

    INPUT = "input"
    CONSTANT = "constant"
    OPERATION = "operation"
    OUTPUT = "output"
    FOLDED = "folded"


class Box(NamedTuple):
    """A node of the drawing. `id` is that of the trace; a node that takes no gradient has the adjoint None.

    One that is folded stands for `inside` nodes of the trace, of which the last gives it its id and numbers. `title` is
    what to call it in at most `LONGEST_TITLE` characters.
    """

    id: int
    label: str
    title: str
    role: Role
    value: Any
    adjoint: Any
    is_highlighted: bool
    inside: int = 1


class Arrow(NamedTuple):
    """An edge from an input to its user. `local` is None where no derivative travels, or none that is one number.

    Into a folded node there is one edge from each input, with the sum over all paths inside.
    """

    source: int
    target: int
    local: Any
    is_highlighted: bool


class View(NamedTuple):
    """Which part of a graph to draw, and what to make stand out.

    Attributes:
        highlight: the variable whose paths to the output stand out.
        only: the variable on which all nodes that are drawn depend.
        hide_constants: leave out what no variable reaches.
        fold: draw each frame that does not hold the output as one node.
        find: draw only the smallest parts that have this text in them, and the operations of this name, which stand
            out, and their neighbours.
    """

    highlight: str | None = None
    only: str | None = None
    hide_constants: bool = False
    fold: bool = False
    find: str | None = None


class Drawing(NamedTuple):
    """The nodes and edges to draw, and the frames around what serves a named intermediate or a call alone."""

    trace: Trace
    boxes: list[Box]
    arrows: list[Arrow]
    frames: list[Frame]


EVERYTHING = View()


def drawing(trace: Trace, view: View = EVERYTHING) -> Drawing:
    """What to draw of a trace."""
    shown = [True] * len(trace.tape) if view.only is None else _cone(trace, view.only)
    lit = [False] * len(trace.tape) if view.highlight is None else _cone(trace, view.highlight)
    if view.hide_constants:
        constants = _constants(trace)
        shown = [is_shown and not is_constant for is_shown, is_constant in zip(shown, constants, strict=True)]
    chosen = [i for i, is_shown in enumerate(shown) if is_shown]
    boxes = [Box(i, *_called(trace, i), _role(trace, i), trace.values[i], trace.adjoints[i], lit[i]) for i in chosen]
    arrows = [Arrow(j, i, local, lit[i] and lit[j]) for i in chosen for j, local in _inputs(trace, i) if shown[j]]
    around = frames(trace, shown)
    drawn = Drawing(trace, boxes, arrows, [frame._replace(label=drawable(frame.label)) for frame in around])
    if view.fold:
        drawn = _folded(drawn)
    return _without_calls(drawn) if view.find is None else _found(drawn, view.find)


def searchable(drawn: Drawing) -> set[str]:
    """What `find` could look for in a drawing."""
    return {name for box in drawn.boxes for name in (box.label, *_operation_names(drawn.trace, box))}


def lines(box: Box, show: Show, *, brief: bool = False) -> list[str]:
    """What a node says: its label, or if `brief` its title, how many it stands for, its value unless that is the label,
    its adjoint if any."""
    value, found = show(box.value), [box.title if brief else box.label]
    if box.inside > 1:
        found.append(f"{box.inside} nodes inside")
    if value != box.label:
        found.append(f"value {value}")
    if box.adjoint is not None:
        found.append(f"adjoint {show(box.adjoint)}")
    return found


def drawable(text: str) -> str:
    """Text on one line, without what could give a terminal orders or is no character of XML; both show as codes."""
    return on_one_line(text).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def to_mermaid(drawn: Drawing, show: Show) -> str:
    """A Mermaid flowchart."""
    written = ["flowchart LR"]
    boxes = {box.id: box for box in drawn.boxes}

    def node(i: int) -> str:
        opening, closing = _MERMAID_SHAPES[boxes[i].role]
        text = "<br/>".join(_for_mermaid(line) for line in lines(boxes[i], show))
        kind = "highlighted" if boxes[i].is_highlighted else boxes[i].role.value
        return f'n{i}{opening}"{text}"{closing}:::{kind}'

    framed = {i for frame in drawn.frames for i in frame.members}
    written += [f"  {node(box.id)}" for box in drawn.boxes if box.id not in framed]
    for indent, k, is_start in _outline(drawn.frames):
        if is_start:
            written.append(f'{indent}subgraph g{k}["{_for_mermaid(drawn.frames[k].label)}"]')
            written += [f"{indent}  {node(i)}" for i in drawn.frames[k].members]
        else:
            written.append(f"{indent}end")
    for arrow in drawn.arrows:
        line = "==>" if arrow.is_highlighted else "-->"
        label = "" if arrow.local is None else f'|"{_for_mermaid(show(arrow.local))}"|'
        written.append(f"  n{arrow.source} {line}{label} n{arrow.target}")
    written += [f"  classDef {kind} {style}" for kind, style in _MERMAID_STYLES.items()]
    return "\n".join(written) + "\n"


def to_dot(drawn: Drawing, show: Show) -> str:
    """A graph for Graphviz."""
    written = [
        "digraph autodiff {",
        f"  label={_quoted(drawable(drawn.trace.expression.text))};",
        '  rankdir=LR; bgcolor="transparent";',
        '  node [fontname="sans-serif", fontsize=11, style=filled];',
        '  edge [fontname="sans-serif", fontsize=10];',
    ]
    for box in drawn.boxes:
        text = _quoted(*lines(box, show))
        strong = ", penwidth=3" if box.is_highlighted else ""
        written.append(f"  n{box.id} [label={text}, {_DOT_SHAPES[box.role]}{strong}];")
    for indent, k, is_start in _outline(drawn.frames):
        if is_start:
            written.append(f"{indent}subgraph cluster_{k} {{ label={_quoted(drawn.frames[k].label)}; style=rounded;")
            written.append(f"{indent}  {' '.join(f'n{i};' for i in drawn.frames[k].members)}")
        else:
            written.append(f"{indent}}}")
    for arrow in drawn.arrows:
        local = [] if arrow.local is None else [f"label={_quoted(show(arrow.local))}"]
        if arrow.is_highlighted:
            local.append("penwidth=3")
        attributes = f" [{', '.join(local)}]" if local else ""
        written.append(f"  n{arrow.source} -> n{arrow.target}{attributes};")
    return "\n".join([*written, "}"]) + "\n"


def _called(trace: Trace, i: int) -> tuple[str, str]:
    """The label and the title of a node."""
    return drawable(trace.labels[i]), drawable(trace.naming.fitting(i, LONGEST_TITLE))


def _role(trace: Trace, i: int) -> Role:
    node = trace.tape.nodes[i]
    if i == trace.tape.outputs[0]:
        return Role.OUTPUT
    return Role.INPUT if node.is_input else Role.CONSTANT if node.is_constant else Role.OPERATION


def _inputs(trace: Trace, i: int) -> Iterator[tuple[int, Any]]:
    """The inputs of a node, each with the local derivative towards it; 0 where structurally nothing passes."""
    locals_ = {given.position: given.local for given in trace.handed[i]}
    for k, j in enumerate(trace.tape.inputs[i]):
        yield j, locals_.get(k)


def _cone(trace: Trace, name: str) -> list[bool]:
    """For every node, whether it is the variable or depends on it."""
    leaf = trace.expression.leaves[name]
    found: list[bool] = []
    for node, inputs in zip(trace.tape.nodes, trace.tape.inputs, strict=True):
        found.append(node is leaf or any(found[j] for j in inputs))
    return found


def _constants(trace: Trace) -> list[bool]:
    """For every node but the output, whether only constants are among its ancestors."""
    found: list[bool] = []
    for node, inputs in zip(trace.tape.nodes, trace.tape.inputs, strict=True):
        found.append(not node.is_input and all(found[j] for j in inputs))
    found[trace.tape.outputs[0]] = False
    return found


def _folded(drawn: Drawing) -> Drawing:
    """The drawing with every frame that does not hold the output as one node."""
    trace = drawn.trace
    left, folds = fold(drawn.frames, trace.tape.outputs[0])
    hidden = {i for whole in folds for i in whole.members}
    last = {whole.members[-1]: whole for whole in folds}
    boxes = {
        box.id: box._replace(
            label=last[box.id].label, title=last[box.id].label, role=Role.FOLDED, inside=len(last[box.id].members)
        )
        if box.id in last
        else box
        for box in drawn.boxes
        if box.id in last or box.id not in hidden
    }
    arrows = [arrow for arrow in drawn.arrows if arrow.target not in hidden]
    arrows += [
        Arrow(j, i, rate, boxes[i].is_highlighted and boxes[j].is_highlighted)
        for i, whole in last.items()
        for j, rate in rates(trace, whole.members).items()
        if j in boxes
    ]
    arrows.sort(key=lambda arrow: arrow.target)
    return Drawing(trace, [*boxes.values()], arrows, left)


def _without_calls(drawn: Drawing) -> Drawing:
    """The drawing with no call beside the labels of nodes that stand in the frame of this call."""
    naming = drawn.trace.naming
    known = {i for frame in drawn.frames for i in frame.members if drawable(naming.calls[i]) == frame.label}
    boxes = [
        box._replace(label=drawable(naming.own(box.id)), title=drawable(naming.own(box.id, LONGEST_TITLE)))
        if box.id in known and box.role is not Role.FOLDED
        else box
        for box in drawn.boxes
    ]
    return drawn._replace(boxes=boxes)


def _found(drawn: Drawing, text: str) -> Drawing:
    """The nodes that a text finds, highlighted, and their neighbours, without frames."""
    hits = _hits(drawn, text.casefold())
    arrows = [arrow for arrow in drawn.arrows if arrow.source in hits or arrow.target in hits]
    near = hits.union(*((arrow.source, arrow.target) for arrow in arrows))
    boxes = [box._replace(is_highlighted=box.is_highlighted or box.id in hits) for box in drawn.boxes if box.id in near]
    return Drawing(drawn.trace, boxes, arrows, [])


def _hits(drawn: Drawing, text: str) -> set[int]:
    """The nodes whose operation has the text in its name, and of those whose label has it the first on every path."""
    labelled = {box.id for box in drawn.boxes if text in box.label.casefold()}
    later = {arrow.target for arrow in drawn.arrows if arrow.source in labelled}
    named = {box.id for box in drawn.boxes if any(text in name for name in _operation_names(drawn.trace, box))}
    return labelled - later | named


def _operation_names(trace: Trace, box: Box) -> Iterator[str]:
    op = trace.tape.nodes[box.id].op
    if op is not None and box.role is not Role.FOLDED:
        yield from filter(None, (op.name, op.symbol, op.spelling))


def _outline(frames: Sequence[Frame]) -> Iterator[tuple[str, int, bool]]:
    """The start and the end of every frame, as they nest: how far in, the position of the frame, whether it starts."""
    within: dict[int | None, list[int]] = {}
    for k, frame in enumerate(frames):
        within.setdefault(frame.outer, []).append(k)
    stack = [(1, k, True) for k in reversed(within.get(None, []))]
    while stack:
        depth, k, is_start = stack.pop()
        yield "  " * min(depth, _DEEPEST_INDENT), k, is_start
        if is_start:
            stack.append((depth, k, False))
            stack += [(depth + 1, inner, True) for inner in reversed(within.get(k, []))]


def _for_mermaid(text: str) -> str:
    """Text inside quotes, with everything that Mermaid or HTML could read as markup as a character code."""
    return "".join(c if c in _PLAIN or c.isalnum() else f"#{ord(c)};" for c in text)


def _quoted(*texts: str) -> str:
    """One quoted string of DOT from several lines."""
    joined = "\\n".join(text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return f'"{joined}"'


_MERMAID_SHAPES = {
    Role.INPUT: ("([", "])"),
    Role.CONSTANT: ("[/", "/]"),
    Role.OPERATION: ("[", "]"),
    Role.OUTPUT: ("[[", "]]"),
    Role.FOLDED: ("{{", "}}"),
}
_MERMAID_STYLES = {
    "input": "fill:#dbeafe,stroke:#1d4ed8,color:#111",
    "constant": "fill:#eeeeee,stroke:#666666,color:#111,stroke-dasharray:4",
    "operation": "fill:#ffffff,stroke:#333333,color:#111",
    "output": "fill:#dcfce7,stroke:#15803d,color:#111",
    "folded": "fill:#f3e8ff,stroke:#7e22ce,color:#111",
    "highlighted": "fill:#fef3c7,stroke:#b45309,color:#111,stroke-width:4px",
}
_DOT_SHAPES = {
    Role.INPUT: 'shape=ellipse, fillcolor="#dbeafe", color="#1d4ed8"',
    Role.CONSTANT: 'shape=box, style="filled,dashed", fillcolor="#eeeeee", color="#666666"',
    Role.OPERATION: 'shape=box, style="filled,rounded", fillcolor="#ffffff", color="#333333"',
    Role.OUTPUT: 'shape=box, peripheries=2, fillcolor="#dcfce7", color="#15803d"',
    Role.FOLDED: 'shape=box3d, fillcolor="#f3e8ff", color="#7e22ce"',
}
