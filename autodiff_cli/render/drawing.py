"""Drawings of the graph of a trace: Mermaid, DOT (Graphviz) and SVG.

`build_drawing` selects the nodes and edges to draw; the formats share its result. Nodes show values and adjoints, edges
local derivatives. Text that the user typed is escaped in every format.

The SVG image is self-contained and follows the reader's light or dark theme. For scripts, every node has the attributes
`data-node`, `data-value` and `data-adjoint` (`data-tangent` in forward mode), every edge `data-from`, `data-to` and
`data-local`, with all digits. A duplicate of a node that is drawn elsewhere has `data-copy`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from autodiff_cli.data.json_records import to_json
from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.views import ForwardMode, Frame, fold_frames, frame_derivatives, frames
from autodiff_cli.graph.tape import dependents, group_pairs
from autodiff_cli.language.errors import pluralize
from autodiff_cli.render import formatting, layout
from autodiff_cli.render.formatting import NumberFormat, in_print
from autodiff_cli.render.layout import Point, Rectangle, Route, Size
from autodiff_cli.system import read_tables

# --- Nodes, edges and frames ---

_TEXTS = read_tables(__file__, "drawing.toml")
MAX_BOX_TITLE = 30  # characters; wider boxes make a drawing hard to read
_MAX_INDENT = 8  # levels of indentation of nested frames in Mermaid and DOT
_MERMAID_SAFE = frozenset(" .,+-=()/^_×")  # besides letters and digits, characters without a meaning in Mermaid


class Role(enum.Enum):
    """The role of a node, which decides its shape and colour."""

    INPUT = "input"
    CONSTANT = "constant"
    OPERATION = "operation"
    OUTPUT = "output"
    FOLDED = "folded"


class Box(NamedTuple):
    """A node of the drawing.

    Attributes:
        id: the id of the node in the trace; for a folded frame the id of its last node.
        title: the label in at most `MAX_BOX_TITLE` characters.
        value: its value, or the value of the last node of a folded frame; None in a worksheet that asks for it
            elsewhere.
        adjoint: its adjoint, or its tangent in forward mode; None if no derivative passes through it.
        node_count: the number of nodes of the trace that it stands for.
    """

    id: int
    label: str
    title: str
    role: Role
    value: Any
    adjoint: Any
    is_highlighted: bool
    node_count: int = 1
    adjoint_name: str = "adjoint"


class Arrow(NamedTuple):
    """An edge from a node to one of its users.

    Attributes:
        position: the position of the source among the inputs of the target; None for a folded frame.
        local: the local derivative; None if no derivative passes or it is not a number. Into a folded frame it is the
            sum over all paths inside the frame.
    """

    source: int
    target: int
    position: int | None
    local: Any
    is_highlighted: bool


class View(NamedTuple):
    """The part of a graph to draw and what to highlight in it.

    Attributes:
        highlight: the variable whose paths to the output are highlighted.
        only: draw only nodes that depend on this variable.
        hide_constants: leave out nodes that depend on no variable.
        fold: draw each frame without the output as one node.
        seed: for forward mode, the variable whose tangent is 1; nodes show tangents in place of adjoints.
    """

    highlight: str | None = None
    only: str | None = None
    hide_constants: bool = False
    fold: bool = False
    seed: str | None = None


class Drawing(NamedTuple):
    """The nodes and edges to draw, and frames around the nodes of a named intermediate or a call."""

    trace: Trace
    boxes: list[Box]
    arrows: list[Arrow]
    frames: list[Frame]


WHOLE_GRAPH = View()


def build_drawing(trace: Trace, view: View = WHOLE_GRAPH) -> Drawing:
    """Select the nodes, edges and frames of a trace to draw."""
    everything, output = [True] * len(trace.tape), trace.tape.outputs[0]
    related = everything if view.only is None else _dependents(trace, [view.only])
    varying = _dependents(trace, trace.expression.leaves) if view.hide_constants else everything
    highlighted = _dependents(trace, [] if view.highlight is None else [view.highlight])
    shown = [related[i] and (varying[i] or i == output) for i in range(len(trace.tape))]
    selected = [i for i, is_shown in enumerate(shown) if is_shown]
    slopes, name = (
        (trace.adjoints, "adjoint") if view.seed is None else (ForwardMode(trace, view.seed).tangents, "tangent")
    )
    boxes = [
        Box(i, label, title, _role(trace, i), trace.values[i], slopes[i], highlighted[i], adjoint_name=name)
        for i in selected
        for label, title in [(safe_label(trace.labels[i]), safe_label(trace.naming.fit(i, MAX_BOX_TITLE)))]
    ]
    # The local derivatives by input; an input through which no derivative passes has none.
    locals_ = [{each.position: each.local for each in contributions} for contributions in trace.contributions]
    arrows = [
        Arrow(j, i, k, locals_[i].get(k), highlighted[i] and highlighted[j])
        for i in selected
        for k, j in enumerate(trace.tape.inputs[i])
        if shown[j]
    ]
    around = frames(trace, shown)
    drawing = Drawing(trace, boxes, arrows, [frame._replace(label=safe_label(frame.label)) for frame in around])
    if view.fold:
        drawing = _fold_frames(drawing)
    return _drop_call_names(drawing)


def box_lines(box: Box, show: NumberFormat, *, brief: bool = False) -> list[str]:
    """Return the lines of text of a node.

    These are its label, the number of nodes in a folded frame, the value unless the label is the value, and the adjoint
    if there is one.

    Args:
        brief: use the title instead of the label.
    """
    texts = [box.title if brief else box.label]
    if box.node_count > 1:
        texts.append(f"{box.node_count} nodes inside")
    if box.value is not None and (value := show(box.value)) != box.label:
        texts.append(f"value {value}")
    if box.adjoint is not None:
        texts.append(f"{box.adjoint_name} {show(box.adjoint)}")
    return texts


def safe_label(text: str) -> str:
    """Return a text on one line, with control characters and characters that XML forbids shown as codes."""
    return formatting.single_line(text).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def to_mermaid(drawing: Drawing, show: NumberFormat) -> str:
    """Return a drawing as a Mermaid flowchart."""

    def node(box: Box) -> str:
        opening, closing = _TEXTS["mermaid_shapes"][box.role.value]
        text = "<br/>".join(_mermaid_text(line) for line in box_lines(box, show))
        kind = "highlighted" if box.is_highlighted else box.role.value
        return f'n{box.id}{opening}"{text}"{closing}:::{kind}'

    def subgraph(k: int, label: str) -> str:
        return f'subgraph g{k}["{_mermaid_text(label)}"]'

    def edge(arrow: Arrow) -> str:
        label = "" if arrow.local is None else f'|"{_mermaid_text(show(arrow.local))}"|'
        return f"n{arrow.source} {'==>' if arrow.is_highlighted else '-->'}{label} n{arrow.target}"

    styles = (f"  classDef {kind} {style}" for kind, style in _TEXTS["mermaid_styles"].items())
    return "\n".join(["flowchart LR", *_statements(drawing, node, (subgraph, "end"), edge), *styles]) + "\n"


def to_dot(drawing: Drawing, show: NumberFormat) -> str:
    """Return a drawing as a DOT graph for Graphviz."""

    def node(box: Box) -> str:
        style = _TEXTS["dot_shapes"][box.role.value] + (", penwidth=3" if box.is_highlighted else "")
        return f"n{box.id} [label={_dot_string(*box_lines(box, show))}, {style}];"

    def cluster(k: int, label: str) -> str:
        return f"subgraph cluster_{k} {{ label={_dot_string(label)}; style=rounded;"

    def edge(arrow: Arrow) -> str:
        attributes = [] if arrow.local is None else [f"label={_dot_string(show(arrow.local))}"]
        attributes += ["penwidth=3"] if arrow.is_highlighted else []
        return f"n{arrow.source} -> n{arrow.target}{' [' + ', '.join(attributes) + ']' if attributes else ''};"

    label = _dot_string(safe_label(drawing.trace.expression.text))
    statements = "\n".join(_statements(drawing, node, (cluster, "}"), edge))
    return str(_TEXTS["files"]["dot"]).format(label=label, statements=statements)


def _role(trace: Trace, i: int) -> Role:
    node = trace.tape.nodes[i]
    if i == trace.tape.outputs[0]:
        return Role.OUTPUT
    return Role.INPUT if node.is_input else Role.CONSTANT if node.is_constant else Role.OPERATION


def _dependents(trace: Trace, names: Collection[str]) -> list[bool]:
    """Return for every node whether it is, or depends on, one of the variables."""
    depends = dependents(trace.tape.nodes, (trace.expression.leaves[name] for name in names))
    return [node in depends for node in trace.tape.nodes]


def _fold_frames(drawing: Drawing) -> Drawing:
    """Return the drawing with every frame that does not contain the output as one node."""
    trace = drawing.trace
    remaining, folds = fold_frames(drawing.frames, trace.tape.outputs[0])
    hidden = {i for folded in folds for i in folded.members}
    last = {folded.members[-1]: folded for folded in folds}
    boxes = {box.id: box for box in drawing.boxes if box.id in last or box.id not in hidden}
    for i, fold in last.items():
        boxes[i] = boxes[i]._replace(label=fold.label, title=fold.label, role=Role.FOLDED, node_count=len(fold.members))
    arrows = [arrow for arrow in drawing.arrows if arrow.target not in hidden]
    arrows += [
        Arrow(j, i, None, rate, boxes[i].is_highlighted and boxes[j].is_highlighted)
        for i, folded in last.items()
        for j, rate in frame_derivatives(trace, folded.members).items()
        if j in boxes
    ]
    arrows.sort(key=lambda arrow: arrow.target)
    return Drawing(trace, [*boxes.values()], arrows, remaining)


def _drop_call_names(drawing: Drawing) -> Drawing:
    """Remove the call from the labels of nodes that stand in the frame of this call."""
    naming = drawing.trace.naming
    known = {i for frame in drawing.frames for i in frame.members if safe_label(naming.calls[i]) == frame.label}
    boxes = [*drawing.boxes]
    for k, box in enumerate(boxes):
        if box.id in known and box.role is not Role.FOLDED:
            label, title = naming.label_in_call(box.id), naming.label_in_call(box.id, MAX_BOX_TITLE)
            boxes[k] = box._replace(label=safe_label(label), title=safe_label(title))
    return drawing._replace(boxes=boxes)


def _statements(
    drawing: Drawing,
    node: Callable[[Box], str],
    around: tuple[Callable[[int, str], str], str],
    edge: Callable[[Arrow], str],
) -> Iterator[str]:
    """Yield the lines of nodes, of frames with the nodes inside, and of edges.

    Args:
        node, edge: write a node and an edge.
        around: writes the beginning of a frame from its number and label, and what ends it.
    """
    boxes = {box.id: box for box in drawing.boxes}
    framed = {i for frame in drawing.frames for i in frame.members}
    within = group_pairs((frame.outer, k) for k, frame in enumerate(drawing.frames))
    yield from (f"  {node(box)}" for box in drawing.boxes if box.id not in framed)
    stack = [(1, k, True) for k in reversed(within.get(None, []))]
    while stack:
        depth, k, is_start = stack.pop()
        indent = "  " * min(depth, _MAX_INDENT)
        if not is_start:
            yield indent + around[1]
            continue
        yield indent + around[0](k, drawing.frames[k].label)
        yield from (f"{indent}  {node(boxes[i])}" for i in drawing.frames[k].members)
        stack.append((depth, k, False))
        stack += [(depth + 1, inner, True) for inner in reversed(within.get(k, []))]
    yield from (f"  {edge(arrow)}" for arrow in drawing.arrows)


def _mermaid_text(text: str) -> str:
    """Escape a text for quotes in Mermaid: possible markup becomes character codes."""
    return "".join(c if c in _MERMAID_SAFE or c.isalnum() else f"#{ord(c)};" for c in formatting.left_to_right(text))


def _dot_string(*texts: str) -> str:
    """Return several lines as one quoted string of DOT."""
    joined = "\\n".join(text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return f'"{formatting.left_to_right(joined)}"'


# --- SVG ---

SVG_STYLE = "\n" + (Path(__file__).parent / "page" / "svg.css").read_text(encoding="utf-8")
# Dimensions of a drawing, in pixels unless a comment says otherwise.
_CHARACTER_WIDTH = 7.3  # at 12 px, in the widest of the common monospace fonts
_SMALL_CHARACTER_WIDTH = 6.7  # at 11 px
_LINE_HEIGHT = 17.0
_PADDING = 10.0  # between the text of a node and its border
_MARGIN = 24.0  # around the drawing
_BEND_RADIUS = 6.0  # of edges
_INPUT_RADIUS = 16.0  # of the corners of variables
_OPERATION_RADIUS = 3.0  # of the corners of operations
_ARROW_LENGTH = 7.0
_BORDER_GAP = 4.0  # between the double borders of the output and of folded frames
_MAX_LABEL_LENGTH = 30  # characters of a line in a node
_MAX_TITLE_LENGTH = 100  # characters of the title of the drawing
_MAX_OVERFLOW = 1.5  # size relative to a page above which the graph is also laid out in parts


def to_svg(drawing: Drawing, show: NumberFormat) -> str:
    """Return a drawing as a self-contained SVG image. Raises GraphTooLargeError for too many nodes."""
    size, shapes, has_copies = graph_shapes(drawing, show)
    heading = _heading(drawing, show)
    has_groups = bool(drawing.frames) or any(box.role is Role.FOLDED for box in drawing.boxes)
    kinds = ["frames"] * has_groups + ["copies"] * has_copies
    legend = [_TEXTS["legend"], _TEXTS["edges"][drawing.boxes[0].adjoint_name], *(_TEXTS[kind] for kind in kinds)]
    width = max(size.width, _CHARACTER_WIDTH * max(map(formatting.display_width, (*heading, *legend)))) + 2 * _MARGIN
    top = _MARGIN + _LINE_HEIGHT * (len(heading) + 1)
    height = top + size.height + _LINE_HEIGHT * (len(legend) + 1) + _MARGIN
    first_lines = Point(_MARGIN, _MARGIN + _LINE_HEIGHT / 2)
    last_lines = Point(_MARGIN, height - _MARGIN - _LINE_HEIGHT * (len(legend) - 0.5))
    return str(_TEXTS["files"]["svg"]).format(
        size=Size(width, height),
        corner=Point(_MARGIN, top),
        style=SVG_STYLE,
        title=formatting.markup(heading[0]),
        description=formatting.markup(_description(drawing, show)),
        heading="\n".join(_text_shapes([in_print(heading[0]), heading[1]], first_lines, "heading")),
        shapes="\n".join(shapes),
        legend="\n".join(_text_shapes(legend, last_lines, "legend")),
    )


class GraphShapes(NamedTuple):
    """SVG shapes with their upper left corner at (0, 0), their size, and whether any node is drawn more than once."""

    size: Size
    shapes: list[str]
    has_copies: bool


def graph_shapes(drawing: Drawing, show: NumberFormat, min_number_width: int = 0) -> GraphShapes:
    """Lay out a drawing and return its frames, edges and nodes as SVG shapes.

    Args:
        min_number_width: reserve space for numbers of this many characters, for a drawing whose numbers change.

    Raises:
        GraphTooLargeError: for too many nodes.
    """

    def lines(least: int) -> list[list[str]]:
        def write(x: Any) -> str:
            return in_print(formatting.text_within(x, show, _MAX_LABEL_LENGTH - len("adjoint "))).ljust(least)

        texts = ((box, box_lines(box, write, brief=True)) for box in drawing.boxes)
        return [
            [_fit_label(label if box.role is Role.INPUT else in_print(label)), *numbers]  # `a-b` may be a name
            for box, (label, *numbers) in texts
        ]

    texts, padded = lines(0), lines(min_number_width)
    sizes = [_box_size(box.role, lines) for box, lines in zip(drawing.boxes, padded, strict=True)]
    position = {box.id: k for k, box in enumerate(drawing.boxes)}
    frame_of = {i: k for k, frame in enumerate(drawing.frames) for i in frame.members}
    nodes = [layout.NodeSpec(size, frame_of.get(box.id)) for box, size in zip(drawing.boxes, sizes, strict=True)]
    edges = [
        layout.EdgeSpec(
            position[arrow.source],
            position[arrow.target],
            None if arrow.local is None else _label_size(_local_text(arrow.local, show).ljust(min_number_width)),
        )
        for arrow in drawing.arrows
    ]
    around = [
        layout.FrameSpec(
            frame.outer,
            formatting.display_width(_fit_label(frame.label)) * _SMALL_CHARACTER_WIDTH + layout.TITLE_HEIGHT,
        )
        for frame in drawing.frames
    ]
    placed, there = _best_layout(layout.GraphSpec(nodes, edges, around))
    shapes = [_frame_shape(frame, place) for frame, place in zip(drawing.frames, placed.frames, strict=True)]
    shapes += [_edge_shape(arrow, route, show) for arrow, route in zip(drawing.arrows, placed.routes, strict=True)]
    for at, (k, centre) in enumerate(zip(there, placed.centres, strict=True)):
        shapes.append(_node_shape(drawing.boxes[k], centre, sizes[k], texts[k], is_copy=at >= len(drawing.boxes)))
    return GraphShapes(placed.size, shapes, len(there) > len(drawing.boxes))


def _best_layout(spec: layout.GraphSpec) -> layout.LayoutWithCopies:
    """Choose the layout that exceeds a page least. Raises GraphTooLargeError."""
    single = layout.layout_with_copies(spec)
    if not spec.frames or layout.page_overflow(single.layout.size) <= _MAX_OVERFLOW:
        return single
    parted = layout.layout_in_parts(spec)
    return min(single, parted, key=lambda one: layout.page_overflow(one.layout.size))


def _box_size(role: Role, texts: Sequence[str]) -> Size:
    is_double = role in (Role.OUTPUT, Role.FOLDED)
    beside = 1.8 * _PADDING if role is Role.INPUT else _PADDING + _BORDER_GAP * is_double
    height = len(texts) * _LINE_HEIGHT + _PADDING
    width = max(map(formatting.display_width, texts)) * _CHARACTER_WIDTH + 2 * beside
    return Size(width, height + 2 * _BORDER_GAP * (role is Role.OUTPUT))


def _heading(drawing: Drawing, show: NumberFormat) -> list[str]:
    trace = drawing.trace
    result = f"value = {in_print(show(trace.value))}"
    for k, (name, slope) in enumerate(trace.gradient.items()):
        entry = f"{', ' if k else '; '}d/d{name} = {in_print(show(slope))}"
        if len(result) + len(entry) > _MAX_TITLE_LENGTH:
            result += f" and {pluralize(len(trace.gradient) - k, 'more derivative')}"
            break
        result += entry
    return [formatting.shorten_middle(safe_label(trace.expression.text), _MAX_TITLE_LENGTH), safe_label(result)]


def _description(drawing: Drawing, show: NumberFormat) -> str:
    """Return the drawing in words, node by node, for people who cannot see it."""
    parts = (pluralize(len(drawing.boxes), "node"), pluralize(len(drawing.arrows), "edge"))
    size = f"A graph of {' and '.join(parts)}"
    nodes = [f"{box.role.value} {', '.join(box_lines(box, show))}" for box in drawing.boxes]
    frames_text = f" In frames: {'; '.join(frame.label for frame in drawing.frames)}." if drawing.frames else ""
    return f"{size}, from the inputs to the output. {'; '.join(nodes)}.{frames_text}"


def _frame_shape(frame: Frame, place: Rectangle) -> str:
    (x, y), (width, height) = place
    title = Point(x - width / 2 + layout.TITLE_HEIGHT / 2, y - height / 2 + layout.TITLE_HEIGHT / 2)
    text = "".join(_text_shapes([_fit_label(in_print(frame.label))], title, "small"))
    shape = _rectangle("enclosure", *place, _INPUT_RADIUS / 2)
    return f'<g class="group"><title>{formatting.markup(frame.label)}</title>{shape}{text}</g>'


def _node_shape(box: Box, centre: Point, size: Size, texts: Sequence[str], is_copy: bool) -> str:
    borders = {Role.OUTPUT: (_BORDER_GAP, _BORDER_GAP), Role.FOLDED: (_BORDER_GAP, 0)}
    radius = {Role.INPUT: _INPUT_RADIUS, Role.OPERATION: _OPERATION_RADIUS}.get(box.role, 0)
    shapes = _rectangle("outline", centre, size, radius)
    if box.role in borders:
        across, down = borders[box.role]
        shapes += _rectangle("frame", centre, Size(size.width - 2 * across, size.height - 2 * down))
    shapes += "".join(_text_shapes(texts, Point(centre.x, centre.y - (len(texts) - 1) * _LINE_HEIGHT / 2), "middle"))
    kind = f"node {box.role.value}{' highlighted' if box.is_highlighted else ''}{' copy' if is_copy else ''}"
    adjoint = "" if box.adjoint is None else f' data-{box.adjoint_name}="{_data_attribute(box.adjoint)}"'
    data = f' data-copy="{box.id}"'
    if not is_copy:
        data = f' data-node="{box.id}" data-value="{_data_attribute(box.value)}"{adjoint}'
    return f'<g class="{kind}"{data}><title>{formatting.markup(box.label)}</title>{shapes}</g>'


def _rectangle(kind: str, centre: Point, size: Size, radius: float = 0) -> str:
    corners = f' rx="{radius:g}"' if radius else ""
    place = f'x="{centre.x - size.width / 2:.1f}" y="{centre.y - size.height / 2:.1f}"'
    return f'<rect class="{kind}" {place} width="{size.width:.1f}" height="{size.height:.1f}"{corners}/>'


def _edge_shape(arrow: Arrow, route: Route, show: NumberFormat) -> str:
    kind = "edge highlighted" if arrow.is_highlighted else "edge"
    local = "" if arrow.local is None else f' data-local="{_data_attribute(arrow.local)}"'
    label = "" if route.label is None else _label_shape(_local_text(arrow.local, show), route.label)
    return (
        f'<g class="{kind}" data-from="{arrow.source}" data-to="{arrow.target}"{local}>'
        f'<path d="{_path_data(route.points)}"/><path class="head" d="{_arrow_head(*route.points[-2:])}"/>{label}</g>'
    )


def _local_text(local: Any, show: NumberFormat) -> str:
    """Return a local derivative for an edge: a number, or only the shape of an array."""
    if isinstance(local, float) or local.size == 1:
        return in_print(show(local if isinstance(local, float) else float(local.flat[0])))
    return f"{local.size} numbers" if local.ndim == 1 else "×".join(map(str, local.shape))


def _label_shape(text: str, centre: Point) -> str:
    """Return a number on an edge, with a background that interrupts the edge."""
    return _rectangle("room", centre, _label_size(text)) + "".join(_text_shapes([text], centre, "local"))


def _label_size(text: str) -> Size:
    return Size(formatting.display_width(text) * _SMALL_CHARACTER_WIDTH + 6, _LINE_HEIGHT - 4)


def _path_data(points: Sequence[Point]) -> str:
    """Return the path data of a line through all points with rounded bends."""
    first, last = points[0], points[-1]
    parts = [f"M{first.x:.1f} {first.y:.1f}"]
    for before, bend, after in zip(points, points[1:], points[2:], strict=False):
        start, end = _point_towards(bend, before, _BEND_RADIUS), _point_towards(bend, after, _BEND_RADIUS)
        parts.append(f"L{start.x:.1f} {start.y:.1f}Q{bend.x:.1f} {bend.y:.1f} {end.x:.1f} {end.y:.1f}")
    return "".join([*parts, f"L{last.x:.1f} {last.y:.1f}"])


def _arrow_head(before: Point, tip: Point) -> str:
    """Return the path data of an arrow head."""
    base = _point_towards(tip, before, _ARROW_LENGTH, exact=True)
    across = Point((tip.y - base.y) / 2, (base.x - tip.x) / 2)
    sides = (Point(base.x + across.x, base.y + across.y), Point(base.x - across.x, base.y - across.y))
    return f"M{tip.x:.1f} {tip.y:.1f}" + "".join(f"L{side.x:.1f} {side.y:.1f}" for side in sides) + "Z"


def _point_towards(start: Point, end: Point, distance: float, exact: bool = False) -> Point:
    """Return the point at a distance from `start` towards `end`; unless `exact`, not beyond the midpoint."""
    dx, dy = end.x - start.x, end.y - start.y
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    share = distance / length if exact else min(distance / length, 0.5)
    return Point(start.x + dx * share, start.y + dy * share)


def _text_shapes(texts: Sequence[str], place: Point, kind: str) -> Iterator[str]:
    for count, text in enumerate(texts):
        first = " first" if count == 0 and len(texts) > 1 else ""
        y = place.y + count * _LINE_HEIGHT
        yield f'<text class="{kind}{first}" x="{place.x:.1f}" y="{y:.1f}" dy=".35em">{formatting.markup(text)}</text>'


def _fit_label(label: str) -> str:
    return formatting.elide_middle(label, _MAX_LABEL_LENGTH)


def _data_attribute(x: Any) -> str:
    """Return a number or an array as an attribute value, with all digits."""
    value = to_json(x)
    return formatting.shortest_text(value) if isinstance(value, float) else formatting.markup(str(value))
