"""The page: both passes to play, step by step, in one HTML file that needs nothing else.

The page shows the numbers of the record until its reader changes a value; from then on those of its own evaluator. Its
Content-Security-Policy lets nothing run or load but its own script and style. The user's text comes in escaped, in the
drawing, or as data that the script puts in place as text.
"""

from __future__ import annotations

import hashlib
import json
from binascii import b2a_base64
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from autodiff_cli.explain.jacobians import has_jacobian, jacobian
from autodiff_cli.explain.moments import beginning, closing
from autodiff_cli.explain.phrases import Phrase, data
from autodiff_cli.explain.record import BackwardStep, Trace
from autodiff_cli.explain.sentences import (
    NEAR,
    backward_phrase,
    contribution_phrase,
    ends,
    forward_phrase,
    name,
    slope_formula,
)
from autodiff_cli.explain.slopes import is_at_kink, value_as_read
from autodiff_cli.explain.views.scalars import in_scalars
from autodiff_cli.graph.op import Gate
from autodiff_cli.render.documents import number
from autodiff_cli.render.drawing.diagrams import EVERYTHING, Drawing, View, drawable, drawing
from autodiff_cli.render.drawing.layout import MOST_NODES
from autodiff_cli.render.drawing.svg import STYLE, graph
from autodiff_cli.render.numbers import LARGEST_IN_TABLE, TABLE_DIGITS, Show, shows
from autodiff_cli.render.page.evaluator import evaluator
from autodiff_cli.render.page.panels import record as panels
from autodiff_cli.render.page.panels.methods import methods
from autodiff_cli.render.text import shortened, visible

_FOLDER = Path(__file__).parent
_SCRIPTS = (
    "page.numbers.js",
    "page.computation.js",
    "drawing/dagre.min.js",
    "drawing/drawing.folds.js",
    "drawing/drawing.bundles.js",
    "drawing/drawing.layout.js",
    "drawing/drawing.column.js",
    "drawing/drawing.fitting.js",
    "drawing/drawing.shapes.js",
    "drawing/drawing.numbers.js",
    "drawing/drawing.grids.js",
    "drawing/drawing.cursor.js",
    "drawing/drawing.map.js",
    "page.graph.js",
    "page.play.js",
    "page.quiz.js",
    "quiz/levels.js",
    "quiz/choosing.js",
    "page.details.js",
    "page.values.js",
)
_PANELS = tuple(
    f"panels/{name}.js" for name in ("kit", "wiggle", "charts", "descend", "tangents", "why", "scalars", "link")
)
_LONGEST_TITLE = 100
_MOST_PARTS = 25  # numbers and pieces between them, of a local derivative as a formula
_ROOM = 9  # characters kept for a number that may change
_MARGIN = 16  # around the graph, in pixels
_MOST_STILL = 1000  # nodes
_SHORT = 15  # characters of what a node is called where there is little room


class Addition(NamedTuple):
    """What a page has besides the walk, and above it.

    Attributes:
        title: of the page; by default the formula.
        markup: what stands there.
        script: runs after that of the walk, with names of its own; `record.addition` is its `data`.
    """

    title: str
    markup: str
    style: str
    script: str
    data: Mapping[str, Any]


def to_html(
    trace: Trace,
    view: View = EVERYTHING,
    digits: int | None = None,
    seed: str | None = None,
    addition: Addition | None = None,
) -> str:
    """The page of a trace.

    Args:
        view: which part of the graph to draw; all steps are there in any case.
        digits: how many digits of a number to show.
        seed: the variable with which the page opens in forward mode; None for reverse mode.

    Raises:
        TooLarge: for a graph of too many nodes.
    """
    show, shown = shows(digits)[1], digits or TABLE_DIGITS
    opened = drawing(trace, view._replace(fold=False))
    above = addition or Addition("", "", "", "", {})
    style = STYLE + _part("page.css") + _part("panels/panels.css") + above.style
    scalars = in_scalars(trace) if view == EVERYTHING and seed is None else None
    rules = _rules(trace, scalars)
    parts = [*map(_part, _SCRIPTS), rules, methods(), _part("page.js"), *map(_part, _PANELS)]
    script = "\n".join([*parts, f"(() => {{\n{above.script}\n}})();"])
    opening = {"drawn": _drawn(opened), "isFolded": view.fold, "digits": shown, "seed": seed}
    opening["addition"] = above.data
    if scalars is not None:
        opening["scalars"] = _in_scalars(scalars) | {name: opening[name] for name in ("digits", "seed", "isFolded")}
    title = above.title or shortened(drawable(trace.expression.text), _LONGEST_TITLE)
    return _part("page.html").format(
        policy=policy(script, style),
        title=escape(title),
        addition=above.markup,
        style=style,
        graph=_svg(opened, show),
        panels=_part("panels/panels.html"),
        data=_data(_document(trace) | panels.document(trace) | opening),
        script=script,
    )


def _rules(trace: Trace, scalars: Trace | None) -> str:
    """What the page computes with: of the formula, or of its elements where the reader wants these."""
    if scalars is None:
        return evaluator(trace, tangents=True)
    both = [evaluator(trace, tangents=True, name="arrays"), evaluator(scalars, tangents=True, name="scalars")]
    return "\n".join([*both, "const evaluator = isInScalars ? scalars : arrays;"])


def _in_scalars(scalars: Trace) -> dict[str, Any]:
    """The record of the elements of arrays, called `W[0, 1]` without the marks that the language wants there."""
    whole = _document(scalars) | panels.document(scalars) | {"drawn": _drawn(drawing(scalars))}
    plain: dict[str, Any] = json.loads(json.dumps(whole).replace("`", ""))
    return plain


def policy(script: str, style: str, *more: str) -> str:
    """The Content-Security-Policy of a page that runs its own script and style and nothing else."""
    own = [f"script-src '{_hash(script)}'", f"style-src '{_hash(style)}'"]
    return "; ".join(["default-src 'none'", *own, *more, "base-uri 'none'", "form-action 'none'"])


def _part(file: str) -> str:
    return (_FOLDER / file).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What a Content-Security-Policy knows a script or a style by."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{b2a_base64(digest, newline=False).decode()}"


def _svg(drawn: Drawing, show: Show) -> str:
    """The drawing for a browser that runs no script; of a large graph none, since it would be most of the page."""
    if _MOST_STILL < len(drawn.boxes) <= MOST_NODES:
        return "<noscript><p>Only scripts draw a graph of so many nodes here.</p></noscript>"
    size, shapes, _ = graph(drawn, show, _ROOM)
    width, height = round(size.width) + 2 * _MARGIN, round(size.height) + 2 * _MARGIN
    opening = (
        f'<svg class="autodiff" role="group" aria-label="Graph of the formula" width="{width}" height="{height}" '
        f'viewBox="{-_MARGIN} {-_MARGIN} {width} {height}">'
    )
    return "\n".join([opening, *shapes, "</svg>"])


def _drawn(opened: Drawing) -> dict[str, Any]:
    """What is drawn, for the script to place: boxes, arrows in the order of their targets' inputs, frames."""
    inputs = opened.trace.tape.inputs
    given: dict[int, int] = {}
    arrows = []
    for arrow in opened.arrows:
        position = inputs[arrow.target].index(arrow.source, given.get(arrow.target, 0))
        given[arrow.target] = position + 1
        ends = {"from": arrow.source, "to": arrow.target, "position": position}
        arrows.append(ends | ({"isLit": True} if arrow.is_highlighted else {}))
    naming = opened.trace.naming
    boxes = [
        {"id": box.id, "title": box.title, "short": drawable(naming.own(box.id, _SHORT)), "role": box.role.value}
        | ({"isLit": True} if box.is_highlighted else {})
        for box in opened.boxes
    ]
    frames = [{"label": frame.label, "outer": frame.outer, "members": frame.members} for frame in opened.frames]
    return {"boxes": boxes, "arrows": arrows, "frames": frames}


def _data(document: dict[str, Any]) -> str:
    """A document as JSON that no markup can end."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _document(trace: Trace) -> dict[str, Any]:
    steps = {step.node: step for step in trace.backward}
    phrases: dict[Phrase, int] = {}
    written = _Written(trace)
    nodes = [_node(trace, i, steps.get(i), phrases) | written.span(i) for i in range(len(trace.tape))]
    index, leaves = trace.tape.index, trace.expression.leaves
    begins, *ends_ = (phrases.setdefault(phrase, len(phrases)) for phrase in (beginning(trace), *closing(trace)))
    return {
        "text": written.text,
        "variables": [
            {"name": drawable(name), "key": name, "node": index.get(leaves[name]), "value": number(value)}
            for name, value in trace.point.items()
        ],
        "output": trace.tape.outputs[0],
        "nodes": nodes,
        "forward": [step.node for step in trace.forward],
        "backward": [*steps],
        "phrases": [data(phrase) for phrase in phrases],
        "beginning": begins,
        "closing": ends_,
        "warnings": [drawable(caveat.message) for caveat in trace.warnings],
        "largest": LARGEST_IN_TABLE,
        "near": NEAR,
    }


def _node(trace: Trace, i: int, step: BackwardStep | None, phrases: dict[Phrase, int]) -> dict[str, Any]:
    """All about a node but where it stands in the text. Phrases are given by their numbers, each said once."""

    def listed(phrase: Phrase) -> int:
        return phrases.setdefault(phrase, len(phrases))

    node, adjoint = trace.tape.nodes[i], trace.adjoints[i]
    known: dict[str, Any] = {
        "label": drawable(trace.labels[i]),
        "inputs": trace.tape.inputs[i],
        "value": number(trace.values[i]),
        "adjoint": number(adjoint),
        "given": [] if step is None else [*_given(trace, step, phrases)],
    }
    if node.op is None:
        return known | {"op": "variable" if node.is_input else "constant"}
    known |= {"op": node.op.name, "name": drawable(name(trace, i)), "forward": listed(forward_phrase(trace, i))}
    if ends(node.op):
        known["ends"] = ends(node.op)
    if node.op.summary:
        known["summary"] = node.op.summary
    return known if step is None else known | {"backward": listed(backward_phrase(trace, i))}


def _given(trace: Trace, step: BackwardStep, phrases: dict[Phrase, int]) -> Iterator[dict[str, Any]]:
    """What a node hands its inputs; `nothing` where structurally it is nothing."""
    inputs = trace.tape.inputs[step.node]
    are_scalars = all(isinstance(trace.values[j], float) for j in (step.node, *inputs))
    has_formulas = step.op.gate is not Gate.ROUTE and are_scalars
    for given in step.contributions:
        phrase = contribution_phrase(trace, step.node, given.position)
        known = {
            "position": given.position,
            "to": given.to,
            "local": number(given.local),
            "amount": number(given.amount),
            "nothing": given.is_nothing,
            "phrase": phrases.setdefault(phrase, len(phrases)),
        }
        if has_formulas and (read := value_as_read(trace, step.node, given)) is not None:
            known["read"] = number(read)
        if (are_scalars or step.op.structural) and is_at_kink(trace, step.node):
            known["kink"] = 1
        if has_jacobian(trace, step.node):
            known["jacobian"] = number(jacobian(trace, step.node))
        if has_formulas:
            formula = slope_formula(step.op, len(inputs), given.position)
            if len(formula) <= _MOST_PARTS:
                known["formula"] = phrases.setdefault(formula, len(phrases))
        yield known


class _Written:
    """The formula as the page shows it, and where its nodes stand there, in units of UTF-16 as scripts count."""

    def __init__(self, trace: Trace) -> None:
        self._nodes = trace.tape.nodes
        self._source = trace.expression.source
        text = trace.expression.text if self._source is None else self._source.text
        pieces = [visible(character) for character in text]
        self.text = "".join(pieces)
        self._places = [0]
        for piece in pieces:
            self._places.append(self._places[-1] + len(piece.encode("utf-16-le")) // 2)

    def span(self, i: int) -> dict[str, Any]:
        """Where a node was read, from and to; nothing for one that does not stand in the text."""
        found = None if self._source is None else self._source.span(self._nodes[i])
        return {} if found is None else {"span": [self._places[at] for at in found]}
