"""The operations of the language: as a list, one with a plot, or as a document."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from autodiff_cli.explain.operations import ADJOINT, Description, curves
from autodiff_cli.formula.formula import Formula
from autodiff_cli.render.paper import Paper, Style
from autodiff_cli.render.report import Report
from autodiff_cli.render.text import shortened

_LONGEST = 72  # characters of a formula in the list
_REACH = 6.0  # a plot goes from -6 to 6, and no further up or down
_LINES, _POINTS = 8, 601
_WIDEST = 60
_BESIDE = 16  # columns beside a plot, for its scale


def operations_report(described: Sequence[Description]) -> Report:
    """All operations, a few lines each."""
    return Report(lambda paper: _write_all(paper, described), lambda: [_document(described)])


def these_operations_report(described: Sequence[Description]) -> Report:
    """All there is to know about a few operations, with plots of those of one number and of their derivatives."""

    def write(paper: Paper) -> None:
        for k, description in enumerate(described):
            if k:
                paper.line()
            _write_one(paper, description)

    return Report(write, lambda: [_document(described)])


def _write_all(paper: Paper, described: Sequence[Description]) -> None:
    for description in described:
        paper.line(f"{description.call}  ({description.op.gate.value})", Style.STRONG)
        if description.definition is not None:
            paper.line(f"  defined as {shortened(description.definition, _LONGEST)}")
        _write_derivatives(paper, description, _LONGEST)
        _write_conditions(paper, description)
    paper.line()
    hint = "In brackets: what it does with the gradient. `autodiff ops NAME` says more of one, with a plot."
    paper.line(hint, Style.FAINT)


def _write_one(paper: Paper, description: Description) -> None:
    op = description.op
    paper.line(description.call, Style.STRONG)
    if op.summary:
        paper.line(f"  {op.summary}")
    if op.aliases:
        paper.line(f"  also called {', '.join(op.aliases)}")
    if description.definition is not None:
        paper.line(f"  defined as {description.definition}")
    paper.heading("derivatives")
    _write_derivatives(paper, description)
    if op.structural:
        paper.line(f"  with {ADJOINT} the adjoint of the output, for example shapes", Style.FAINT)
    paper.line(f"  gate: {op.gate.value}")
    _write_conditions(paper, description)
    for expression in curves(op):
        _write_plot(paper, expression)


def _write_derivatives(paper: Paper, description: Description, longest: int | None = None) -> None:
    for k, (name, text) in enumerate(description.derivatives.items()):
        if k in description.op.unavailable:
            paper.line(f"  d/d{name} is not known: {text}")
            continue
        has_bindings = ";" in text
        if description.op.structural:
            called = f"adjoint of {name} grows by:" if has_bindings else f"adjoint of {name} +="
        else:
            called = f"d/d{name}:" if has_bindings else f"d/d{name} ="
        paper.line(f"  {called} {shortened(text, longest)}")
    if description.textbook is not None:
        paper.line(f"    in books {description.textbook}, which loses its digits where the output is near its ends")


def _write_conditions(paper: Paper, description: Description) -> None:
    for title, condition, note in (
        ("kink where", description.kink, description.op.kink_note),
        ("defined where", description.domain, ""),
        ("infinite or undefined slope where", description.singular, ""),
    ):
        if condition is not None:
            paper.line(f"  {title} {condition}{': ' if note else ''}{note}")


def _document(described: Sequence[Description]) -> dict[str, Any]:
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
        "textbook": description.textbook,
        "gate": op.gate.value,
        "kink": description.kink,
        "kink_note": op.kink_note,
        "domain": description.domain,
        "singular": description.singular,
    }


def _write_plot(paper: Paper, expression: Formula) -> None:
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
    figure.width = (
        max(min((paper.width - _BESIDE) // 10, _WIDEST // 10), 1) * 10
    )  # its scale has a mark every 10 columns
    figure.height, figure.with_colors = _LINES, False
    figure.set_x_limits(-_REACH, _REACH)
    figure.set_y_limits(min(heights) - margin, max(heights) + margin)
    figure.x_label, figure.y_label = "x", "y"
    figure.x_ticks_fkt = figure.y_ticks_fkt = lambda low, _: f"{round(low, 9) + 0.0:.3g}"
    figure.scatter([x for x, _ in seen], heights)
    paper.heading(f"y = {expression}")
    for line in figure.show().splitlines():
        paper.verbatim(line.removesuffix("-> (x)").rstrip())
