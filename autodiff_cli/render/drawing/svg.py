"""The graph of a trace as an SVG image: self-contained, and light or dark as the reader's system is.

For machines, every node carries `data-node`, `data-value` and `data-adjoint`, every edge `data-from`, `data-to` and
`data-local`, with numbers in full. A node that stands in the drawing once more carries `data-copy`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

from autodiff_cli.explain.views.groups import Frame
from autodiff_cli.render.documents import number
from autodiff_cli.render.drawing.diagrams import Arrow, Box, Drawing, Role, drawable, lines
from autodiff_cli.render.drawing.lanes import laid_out
from autodiff_cli.render.drawing.layout import TITLE, Enclosure, Location, Place, Route, Size, beyond
from autodiff_cli.render.drawing.parts import Parted, in_parts
from autodiff_cli.render.numbers import Show, in_full
from autodiff_cli.render.text import columns, counted, shortened

COLUMN, LINE = 7.3, 17.0  # the extent of a character, at 12 pixels in the widest of the usual fonts of equal widths
SMALL = 6.7  # of a character at 11 pixels
PADDING, MARGIN = 10.0, 24.0
LONGEST_LABEL, LONGEST_TITLE = 30, 100
BEND, ROUNDED, BOX = 6.0, 16.0, 3.0  # radii: of edges, of variables, of operations
_TOO_FAR = 1.5  # beyond a page, to stand in parts
HEAD = 7.0  # length of an arrow's head
FRAME = 4.0  # between the two borders of the output, and the two sides of what is folded

_LEGEND = (
    "rounded: variable · dashed: constant · box: operation · double border: output",
    "on an edge: the local derivative; what goes back along it is this × the adjoint at its head",
)
_OF_GROUPS = "dotted frame: a named intermediate, a call or a layer; double sides: one of these, folded"
_OF_COPIES = "faint: the node of this name, which stands elsewhere, once more"


def to_svg(drawn: Drawing, show: Show) -> str:
    """The image. Raises TooLarge for a graph of too many nodes."""
    size, shapes, has_copies = graph(drawn, show)
    heading = _heading(drawn, show)
    has_groups = bool(drawn.frames) or any(box.role is Role.FOLDED for box in drawn.boxes)
    legend = [*_LEGEND, *([_OF_GROUPS] if has_groups else ()), *([_OF_COPIES] if has_copies else ())]
    width = max(size.width, *(columns(line) * COLUMN for line in (*heading, *legend))) + 2 * MARGIN
    top = MARGIN + LINE * (len(heading) + 1)
    height = top + size.height + LINE * (len(legend) + 1) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="autodiff" role="img" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<title>{escape(heading[0])}</title>",
        f"<desc>{escape(_description(drawn, show))}</desc>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
        *_text(heading, Location(MARGIN, MARGIN + LINE / 2), "heading"),
        f'<g transform="translate({MARGIN:g} {top:g})">',
        *shapes,
        "</g>",
        *_text(legend, Location(MARGIN, height - MARGIN - LINE * (len(legend) - 0.5)), "legend"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class GraphShapes(NamedTuple):
    """Shapes from the point (0, 0) on, how much room they take, and whether any node stands there more than once."""

    size: Size
    shapes: list[str]
    has_copies: bool


def graph(drawn: Drawing, show: Show, least: int = 0) -> GraphShapes:
    """The frames, edges and nodes as shapes.

    Args:
        least: keep room for numbers of so many characters, for a drawing whose numbers will change.

    Raises:
        TooLarge: for a graph of too many nodes.
    """
    says = [[_cut(line) for line in lines(box, show, brief=True)] for box in drawn.boxes]
    roomy = [[_cut(line) for line in lines(box, lambda x: show(x).ljust(least), brief=True)] for box in drawn.boxes]
    sizes = [_size_of(box.role, lines) for box, lines in zip(drawn.boxes, roomy, strict=True)]
    position = {box.id: k for k, box in enumerate(drawn.boxes)}
    placed, there = _placed(
        sizes,
        [(position[arrow.source], position[arrow.target]) for arrow in drawn.arrows],
        [None if arrow.local is None else _label_size(_rate(arrow.local, show).ljust(least)) for arrow in drawn.arrows],
        [
            Enclosure([position[i] for i in frame.members], frame.outer, columns(_cut(frame.label)) * SMALL + TITLE)
            for frame in drawn.frames
        ],
    )
    shapes = [_frame(frame, place) for frame, place in zip(drawn.frames, placed.frames, strict=True)]
    shapes += [_edge(arrow, route, show) for arrow, route in zip(drawn.arrows, placed.routes, strict=True)]
    for at, (k, centre) in enumerate(zip(there, placed.centres, strict=True)):
        shapes.append(_node(drawn.boxes[k], centre, sizes[k], says[k], is_copy=at >= len(drawn.boxes)))
    return GraphShapes(placed.size, shapes, len(there) > len(drawn.boxes))


def _placed(
    nodes: Sequence[Size],
    edges: Sequence[tuple[int, int]],
    labels: Sequence[Size | None],
    frames: Sequence[Enclosure],
) -> Parted:
    """The layout that goes least beyond a page. Raises TooLarge."""
    whole = Parted(laid_out(nodes, edges, labels, frames), [*range(len(nodes))])
    parted = in_parts(nodes, edges, labels, frames) if beyond(whole.layout.size) > _TOO_FAR else None
    return whole if parted is None else min(whole, parted, key=lambda found: beyond(found.layout.size))


def _size_of(role: Role, says: Sequence[str]) -> Size:
    beside = {Role.INPUT: 1.8 * PADDING, Role.OUTPUT: PADDING + FRAME, Role.FOLDED: PADDING + FRAME}.get(role, PADDING)
    height = len(says) * LINE + PADDING
    return Size(max(map(columns, says)) * COLUMN + 2 * beside, height + (2 * FRAME if role is Role.OUTPUT else 0))


def _heading(drawn: Drawing, show: Show) -> list[str]:
    trace = drawn.trace
    slopes = ", ".join(f"d/d{name} = {show(slope)}" for name, slope in trace.gradient.items())
    result = f"value = {show(trace.value)}{'; ' if slopes else ''}{slopes}"
    return [shortened(drawable(text), LONGEST_TITLE) for text in (trace.expression.text, result)]


def _description(drawn: Drawing, show: Show) -> str:
    """The drawing in words, node by node, for those who do not see it."""
    size = f"A graph of {counted(len(drawn.boxes), 'node')} and {counted(len(drawn.arrows), 'edge')}"
    said = [f"{box.role.value} {', '.join(lines(box, show))}" for box in drawn.boxes]
    framed = f" In frames: {'; '.join(frame.label for frame in drawn.frames)}." if drawn.frames else ""
    return f"{size}, from the inputs to the output. {'; '.join(said)}.{framed}"


def _frame(frame: Frame, place: Place) -> str:
    corner = Location(place.centre.x - place.size.width / 2, place.centre.y - place.size.height / 2)
    return "".join(
        [
            f'<g class="group"><title>{escape(frame.label)}</title>',
            _rectangle("enclosure", *place, ROUNDED / 2),
            *_text([_cut(frame.label)], Location(corner.x + TITLE / 2, corner.y + TITLE / 2), "small"),
            "</g>",
        ]
    )


def _node(box: Box, centre: Location, size: Size, says: Sequence[str], is_copy: bool) -> str:
    borders = {Role.OUTPUT: (FRAME, FRAME), Role.FOLDED: (FRAME, 0)}
    radius = {Role.INPUT: ROUNDED, Role.OPERATION: BOX}.get(box.role, 0)
    shapes = [_rectangle("outline", centre, size, radius)]
    if box.role in borders:
        across, down = borders[box.role]
        shapes.append(_rectangle("frame", centre, Size(size.width - 2 * across, size.height - 2 * down)))
    kind = f"node {box.role.value}{' lit' if box.is_highlighted else ''}{' copy' if is_copy else ''}"
    adjoint = "" if box.adjoint is None else f' data-adjoint="{_data(box.adjoint)}"'
    data = f' data-copy="{box.id}"' if is_copy else f' data-node="{box.id}" data-value="{_data(box.value)}"{adjoint}'
    return "".join(
        [
            f'<g class="{kind}"{data}>',
            f"<title>{escape(box.label)}</title>",
            *shapes,
            *_text(says, Location(centre.x, centre.y - (len(says) - 1) * LINE / 2), "middle"),
            "</g>",
        ]
    )


def _rectangle(kind: str, centre: Location, size: Size, radius: float = 0) -> str:
    corners = f' rx="{radius:g}"' if radius else ""
    place = f'x="{centre.x - size.width / 2:.1f}" y="{centre.y - size.height / 2:.1f}"'
    return f'<rect class="{kind}" {place} width="{size.width:.1f}" height="{size.height:.1f}"{corners}/>'


def _edge(arrow: Arrow, route: Route, show: Show) -> str:
    kind = "edge lit" if arrow.is_highlighted else "edge"
    local = "" if arrow.local is None else f' data-local="{_data(arrow.local)}"'
    label = "" if route.label is None else _label(_rate(arrow.local, show), route.label)
    return (
        f'<g class="{kind}" data-from="{arrow.source}" data-to="{arrow.target}"{local}>'
        f'<path d="{_path(route.points)}"/><path class="head" d="{_head(*route.points[-2:])}"/>{label}</g>'
    )


def _rate(local: Any, show: Show) -> str:
    """A local derivative where there is little room: a number; of more only how many."""
    if isinstance(local, float):
        return show(local)
    if local.size == 1:
        return show(float(local.flat[0]))
    return f"{local.size} numbers" if local.ndim == 1 else "x".join(map(str, local.shape))


def _label(text: str, centre: Location) -> str:
    """A number on a line, with room around it."""
    return _rectangle("room", centre, _label_size(text)) + "".join(_text([text], centre, "local"))


def _label_size(text: str) -> Size:
    return Size(columns(text) * SMALL + 6, LINE - 4)


def _path(points: Sequence[Location]) -> str:
    """A line through all points, its bends rounded."""
    first, last = points[0], points[-1]
    parts = [f"M{first.x:.1f} {first.y:.1f}"]
    for before, bend, after in zip(points, points[1:], points[2:], strict=False):
        start, end = _towards(bend, before, BEND), _towards(bend, after, BEND)
        parts.append(f"L{start.x:.1f} {start.y:.1f}Q{bend.x:.1f} {bend.y:.1f} {end.x:.1f} {end.y:.1f}")
    return "".join([*parts, f"L{last.x:.1f} {last.y:.1f}"])


def _head(before: Location, tip: Location) -> str:
    """The head of an arrow."""
    base = _towards(tip, before, HEAD, exact=True)
    across = Location((tip.y - base.y) / 2, (base.x - tip.x) / 2)
    sides = (Location(base.x + across.x, base.y + across.y), Location(base.x - across.x, base.y - across.y))
    return f"M{tip.x:.1f} {tip.y:.1f}" + "".join(f"L{side.x:.1f} {side.y:.1f}" for side in sides) + "Z"


def _towards(start: Location, end: Location, distance: float, exact: bool = False) -> Location:
    """The point at a distance from `start` on the way to `end`; unless `exact`, not beyond the middle."""
    dx, dy = end.x - start.x, end.y - start.y
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    share = distance / length if exact else min(distance / length, 0.5)
    return Location(start.x + dx * share, start.y + dy * share)


def _text(texts: Sequence[str], place: Location, kind: str) -> Iterator[str]:
    for count, text in enumerate(texts):
        first = " first" if count == 0 and len(texts) > 1 else ""
        y = place.y + count * LINE
        yield f'<text class="{kind}{first}" x="{place.x:.1f}" y="{y:.1f}" dy=".35em">{escape(text)}</text>'


def _cut(line: str) -> str:
    """A line of a node, its middle left out if it is long."""
    half = LONGEST_LABEL // 2
    return line if len(line) <= LONGEST_LABEL else f"{line[:half]}…{line[-half + 1 :]}"


def _data(x: Any) -> str:
    """A number or an array as in JSON."""
    found = number(x)
    return in_full(found) if isinstance(found, float) else escape(str(found))


STYLE = """
.autodiff text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1c1c1c}
.autodiff .paper,.autodiff .room{fill:#fff}
.autodiff .middle,.autodiff .local{text-anchor:middle}
.autodiff .first.middle,.autodiff .first.heading{font-weight:700}
.autodiff .legend{font-size:11px;fill:#555}
.autodiff .outline,.autodiff .frame{stroke:#444;stroke-width:1.3;fill:#fff}
.autodiff .frame{fill:none}
.autodiff .input .outline{fill:#e3eefc;stroke:#1a56b0}
.autodiff .constant .outline{fill:#f1f1f1;stroke:#6b6b6b;stroke-dasharray:5 3}
.autodiff .copy .outline{stroke-dasharray:2 3;fill-opacity:.4}
.autodiff .output rect{stroke:#15703a}
.autodiff .output .outline{fill:#e4f6e9}
.autodiff .folded rect{stroke:#6b21a8}
.autodiff .folded .outline{fill:#f5ecfd}
.autodiff .enclosure{fill:none;stroke:#777;stroke-width:1.2;stroke-dasharray:1.5 3}
.autodiff .small{font-size:11px;fill:#555}
.autodiff .edge path{fill:none;stroke:#777;stroke-width:1.3}
.autodiff .edge .head{fill:#777}
.autodiff .local{font-size:11px;fill:#8a3200}
.autodiff .lit .outline{stroke:#b04a00;stroke-width:3.2}
.autodiff .edge.lit path{stroke:#b04a00;stroke-width:3}
.autodiff .edge.lit .head{fill:#b04a00}
@media screen and (prefers-color-scheme:dark){
.autodiff text{fill:#ececec}
.autodiff .paper,.autodiff .room{fill:#16181c}
.autodiff .legend{fill:#a8a8a8}
.autodiff .outline{stroke:#b5b5b5;fill:#22252b}
.autodiff .input .outline{fill:#14304f;stroke:#7db4ff}
.autodiff .constant .outline{fill:#2b2b2b;stroke:#a0a0a0}
.autodiff .output rect{stroke:#6fd08f}
.autodiff .output .outline{fill:#12361f}
.autodiff .folded rect{stroke:#c99bf5}
.autodiff .folded .outline{fill:#33204a}
.autodiff .enclosure{stroke:#8d8d8d}
.autodiff .small{fill:#a8a8a8}
.autodiff .edge path{stroke:#8d8d8d}
.autodiff .edge .head{fill:#8d8d8d}
.autodiff .local{fill:#ffb27a}
.autodiff .lit .outline,.autodiff .edge.lit path{stroke:#ff9440}
.autodiff .edge.lit .head{fill:#ff9440}
}
"""
