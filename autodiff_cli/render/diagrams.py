"""The graph of a trace as a drawing: what every format draws, and the formats that are text, Mermaid and DOT.

Values and adjoints stand on nodes, local derivatives on edges. What the user typed is data in every format.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, NamedTuple

from autodiff_cli.explain.steps import Trace
from autodiff_cli.render.numbers import Show
from autodiff_cli.render.text import on_one_line

_PLAIN = frozenset(" .,+-=()/^_×")  # what means nothing to Mermaid inside quotes, besides letters and digits


class Role(enum.Enum):
    """What a node is. Each has a shape and a colour of its own."""

    INPUT = "input"
    CONSTANT = "constant"
    OPERATION = "operation"
    OUTPUT = "output"


class Box(NamedTuple):
    """A node of the drawing. `id` is that of the trace; a node that takes no gradient has the adjoint None."""

    id: int
    label: str
    role: Role
    value: Any
    adjoint: Any
    is_highlighted: bool


class Arrow(NamedTuple):
    """An edge from an input to its user. `local` is None where no derivative travels, or none that is one number."""

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
    """

    highlight: str | None = None
    only: str | None = None
    hide_constants: bool = False


class Drawing(NamedTuple):
    """The nodes and edges to draw, and the named intermediates with the nodes that serve them alone."""

    trace: Trace
    boxes: list[Box]
    arrows: list[Arrow]
    groups: dict[str, list[int]]


EVERYTHING = View()


def drawing(trace: Trace, view: View = EVERYTHING) -> Drawing:
    """What to draw of a trace."""
    shown = [True] * len(trace.tape) if view.only is None else _cone(trace, view.only)
    lit = [False] * len(trace.tape) if view.highlight is None else _cone(trace, view.highlight)
    if view.hide_constants:
        constants = _constants(trace)
        shown = [is_shown and not is_constant for is_shown, is_constant in zip(shown, constants, strict=True)]
    chosen = [i for i, is_shown in enumerate(shown) if is_shown]
    boxes = [
        Box(i, drawable(trace.labels[i]), _role(trace, i), trace.values[i], trace.adjoints[i], lit[i]) for i in chosen
    ]
    arrows = [Arrow(j, i, local, lit[i] and lit[j]) for i in chosen for j, local in _inputs(trace, i) if shown[j]]
    return Drawing(trace, boxes, arrows, _groups(trace, shown))


def lines(box: Box, show: Show) -> list[str]:
    """What a node says: its label, its value unless that is the label, its adjoint if it has one."""
    value, found = show(box.value), [box.label]
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

    grouped = {i for members in drawn.groups.values() for i in members}
    written += [f"  {node(box.id)}" for box in drawn.boxes if box.id not in grouped]
    for count, (name, members) in enumerate(drawn.groups.items()):
        written.append(f'  subgraph g{count}["{_for_mermaid(name)}"]')
        written += [f"    {node(i)}" for i in members]
        written.append("  end")
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
    for count, (name, members) in enumerate(drawn.groups.items()):
        nodes = "; ".join(f"n{i}" for i in members)
        written.append(f"  subgraph cluster_{count} {{ label={_quoted(name)}; style=rounded; {nodes}; }}")
    for arrow in drawn.arrows:
        local = [] if arrow.local is None else [f"label={_quoted(show(arrow.local))}"]
        if arrow.is_highlighted:
            local.append("penwidth=3")
        attributes = f" [{', '.join(local)}]" if local else ""
        written.append(f"  n{arrow.source} -> n{arrow.target}{attributes};")
    return "\n".join([*written, "}"]) + "\n"


def _role(trace: Trace, i: int) -> Role:
    node = trace.tape.nodes[i]
    if i == trace.tape.outputs[0]:
        return Role.OUTPUT
    return Role.INPUT if node.is_input else Role.CONSTANT if node.is_constant else Role.OPERATION


def _inputs(trace: Trace, i: int) -> Iterator[tuple[int, Any]]:
    """The inputs of a node, each with the local derivative towards it; 0 where structurally nothing passes."""
    handed = trace.handed_at(i)
    for k, j in enumerate(trace.tape.inputs[i]):
        yield j, handed[k].local if k in handed else 0.0 if trace.tape.reached[j] else None


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


def _groups(trace: Trace, shown: list[bool]) -> dict[str, list[int]]:
    """The operations and constants that serve one named intermediate alone, by its name; those of one node are none."""
    tape, names = trace.tape, trace.expression.names
    users: list[set[str | None]] = [set() for _ in tape.nodes]
    groups: dict[str, list[int]] = {}
    for i in range(len(tape) - 1, -1, -1):
        node = tape.nodes[i]
        group = names.get(node) or (users[i].copy().pop() if len(users[i]) == 1 else None)
        for j in tape.inputs[i]:
            users[j].add(group)
        if group is not None and not node.is_input and shown[i]:
            groups.setdefault(drawable(group), []).append(i)
    return {name: members[::-1] for name, members in reversed(groups.items()) if len(members) > 1}


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
}
_MERMAID_STYLES = {
    "input": "fill:#dbeafe,stroke:#1d4ed8,color:#111",
    "constant": "fill:#eeeeee,stroke:#666666,color:#111,stroke-dasharray:4",
    "operation": "fill:#ffffff,stroke:#333333,color:#111",
    "output": "fill:#dcfce7,stroke:#15803d,color:#111",
    "highlighted": "fill:#fef3c7,stroke:#b45309,color:#111,stroke-width:4px",
}
_DOT_SHAPES = {
    Role.INPUT: 'shape=ellipse, fillcolor="#dbeafe", color="#1d4ed8"',
    Role.CONSTANT: 'shape=box, style="filled,dashed", fillcolor="#eeeeee", color="#666666"',
    Role.OPERATION: 'shape=box, style="filled,rounded", fillcolor="#ffffff", color="#333333"',
    Role.OUTPUT: 'shape=box, peripheries=2, fillcolor="#dcfce7", color="#15803d"',
}
