"""The operations of the language: as a table, one with a plot, or as a document."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from autodiff_cli.explain.operations import ADJOINT, Description, curves
from autodiff_cli.expression import Expression
from autodiff_cli.render.paper import Column, Paper, Style, Table
from autodiff_cli.render.text import shortened

_LONGEST = 48  # characters of a formula in the table
_REACH = 6.0  # a plot goes from -6 to 6, and no further up or down
_WIDTH, _LINES, _POINTS = 60, 8, 601


def write_operations(paper: Paper, described: Sequence[Description]) -> None:
    """A table of operations, a row each."""
    titles = ("operation", "derivatives", "gate", "kink", "domain")
    rows = [
        (
            description.call,
            ", ".join(shortened(text, _LONGEST) for text in description.derivatives.values()),
            description.op.gate.value,
            description.kink or "",
            description.domain or "",
        )
        for description in described
    ]
    paper.table(Table(tuple(Column(title) for title in titles), rows))
    paper.line()
    paper.line("One derivative per input, in their order. `autodiff ops NAME` says more of one.", Style.FAINT)


def write_operation(paper: Paper, description: Description) -> None:
    """All there is to know about one operation, with plots of it and of its derivative if it is of one number."""
    op = description.op
    paper.line(description.call, Style.STRONG)
    if op.summary:
        paper.line(f"  {op.summary}")
    if op.aliases:
        paper.line(f"  also called {', '.join(op.aliases)}")
    if description.definition is not None:
        paper.line(f"  defined as {description.definition}")
    paper.heading("derivatives")
    for name, text in description.derivatives.items():
        called = f"adjoint of {name} +" if op.structural else f"d/d{name} "
        paper.line(f"  {called}{': ' if ';' in text else '= '}{text}".replace(" :", ":"))
    if op.structural:
        paper.line(f"  with {ADJOINT} the adjoint of the output, for example shapes", Style.FAINT)
    paper.line(f"  gate: {op.gate.value}")
    for title, condition, note in (
        ("kink where", description.kink, op.kink_note),
        ("defined where", description.domain, ""),
        ("infinite or undefined slope where", description.singular, ""),
    ):
        if condition is not None:
            paper.line(f"  {title} {condition}{': ' if note else ''}{note}")
    for expression in curves(op):
        _write_plot(paper, expression)


def write_these(paper: Paper, described: Sequence[Description]) -> None:
    """All there is to know about a few operations."""
    for k, description in enumerate(described):
        if k:
            paper.line()
        write_operation(paper, description)


def operations_document(described: Sequence[Description]) -> dict[str, Any]:
    """What `ops --json` writes."""
    return {"operations": [_fields(description) for description in described]}


def _fields(description: Description) -> dict[str, Any]:
    op = description.op
    return {
        "name": op.name,
        "call": description.call,
        "aliases": [*op.aliases],
        "summary": op.summary,
        "definition": description.definition,
        ("contributions" if op.structural else "derivatives"): description.derivatives,
        "gate": op.gate.value,
        "kink": description.kink,
        "kink_note": op.kink_note,
        "domain": description.domain,
        "singular": description.singular,
    }


def _write_plot(paper: Paper, expression: Expression) -> None:
    """A plot of an expression of `x`, where it is finite and not too large to see the rest beside it."""
    import plotille

    places = [_REACH * (2 * k / (_POINTS - 1) - 1) for k in range(_POINTS)]
    points = [(x, float(expression.value(x=x))) for x in places]
    seen = [(x, y) for x, y in points if math.isfinite(y) and abs(y) <= _REACH]
    if not seen:
        return
    heights = [y for _, y in seen]
    margin = (max(heights) - min(heights)) / 20 or 1.0
    figure = plotille.Figure()
    figure.width, figure.height, figure.with_colors = _WIDTH, _LINES, False
    figure.set_x_limits(-_REACH, _REACH)
    figure.set_y_limits(min(heights) - margin, max(heights) + margin)
    figure.x_label, figure.y_label = "x", "y"
    figure.x_ticks_fkt = figure.y_ticks_fkt = lambda low, _: f"{round(low, 9):.3g}"
    figure.scatter([x for x, _ in seen], heights)
    paper.heading(f"y = {expression}")
    for line in figure.show().splitlines():
        paper.verbatim(line.rstrip())
