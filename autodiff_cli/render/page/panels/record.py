"""What the panels of the page need of a trace besides the record of the walk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.views.forward_mode import Work, forward_work, reverse_work
from autodiff_cli.export.latex import symbol
from autodiff_cli.graph.helpers import without_helpers
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.straight import Fragment
from autodiff_cli.graph.tape import topological
from autodiff_cli.render.page.panels.methods import steps
from autodiff_cli.targets.latex import LATEX, LatexLibrary
from autodiff_cli.targets.pen import Pen

_LONGEST = 120  # characters of a part of the formula in LaTeX; what is longer is `n_i`
_MOST_SIZED = 400  # nodes of a formula that is set in LaTeX at all


def document(trace: Trace) -> dict[str, Any]:
    """As JSON: what passes cost in both modes, the equations of gradient methods, and the formula in LaTeX."""
    found: dict[str, Any] = {"methods": steps(), "wrt": [*trace.wrt]}
    if trace.is_scalar:
        found["work"] = {
            "forward": {name: _counts(forward_work(trace, [name])) for name in trace.wrt},
            "all": _counts(forward_work(trace, trace.wrt)),
            "reverse": _counts(reverse_work(trace)),
        }
    if len(trace.tape) <= _MOST_SIZED:
        found["latex"] = _latex(trace)
    return found


def _counts(work: Work) -> list[int]:
    return [work.multiplications, work.additions]


def _latex(trace: Trace) -> dict[str, Any]:
    """Every node, and the local derivatives towards its inputs; null for one that is not a formula of numbers."""
    pen = Pen(LatexLibrary(LATEX))
    names = {node: name for node, name in trace.expression.names.items() if node in trace.tape.index}
    parts: dict[Node, Fragment] = {}
    for i, node in enumerate(trace.tape.nodes):
        if node.is_input or node in names:
            parts[node] = Fragment(symbol(names.get(node, node.text)))
            continue
        written = _written(pen, node, parts)
        parts[node] = written if len(written.text) <= _LONGEST else Fragment(rf"n_{{{i}}}")
    slopes = [[*_slopes(pen, trace, i, parts)] for i in range(len(trace.tape))]
    return {"nodes": [LATEX.given(parts[node]).text for node in trace.tape.nodes], "slopes": slopes}


def _written(pen: Pen, node: Node, parts: dict[Node, Fragment]) -> Fragment:
    return pen.write(node, [parts[child] for child in node.inputs])


def _slopes(pen: Pen, trace: Trace, i: int, parts: dict[Node, Fragment]) -> Iterator[str | None]:
    """The local derivatives of a node, one for each input."""
    node = trace.tape.nodes[i]
    if node.op is None:
        return
    if node.op.structural:
        yield from [None] * len(node.inputs)
        return
    rule = node.op.partials(len(node.inputs))
    places = {rule.output: parts[node], **{leaf: parts[of] for leaf, of in zip(rule.inputs, node.inputs, strict=True)}}
    for partial in rule.partials:
        yield _formula(pen, partial.local, places)


def _formula(pen: Pen, local: Node, places: dict[Node, Fragment]) -> str | None:
    root = without_helpers([local])[local]
    written = dict(places)
    for part in topological([root]):
        if part not in written:
            written[part] = _written(pen, part, written)
            if len(written[part].text) > 2 * _LONGEST:
                return None
    return LATEX.given(written[root]).text
