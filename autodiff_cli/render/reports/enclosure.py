"""What `grad` shows for intervals: the proven bounds of value and gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodiff_cli.explain.digits.enclosure import Interval, ProvenBounds
from autodiff_cli.explain.digits.right import VALUE
from autodiff_cli.formula.formula import Formula
from autodiff_cli.numbers.balls.number import nearest
from autodiff_cli.render.documents import number
from autodiff_cli.render.numbers import shows
from autodiff_cli.render.paper import Column, Paper, Style, TextTable
from autodiff_cli.render.report import Report

_UNDEFINED = (
    "the value or a derivative may be unbounded, or not be defined, somewhere in the intervals: narrower ones may tell"
)


def enclosure_report(
    formula: Formula, intervals: Mapping[str, Interval], found: ProvenBounds, digits: int | None
) -> Report:
    """The bounds, and whether anything in the intervals is undefined."""
    places = {name: sorted({nearest(end) for end in ends}) for name, ends in intervals.items()}
    show = shows(digits)[0]

    def write(paper: Paper) -> None:
        paper.line(formula.text, Style.STRONG)
        given = (
            f"{name} between {show(ends[0])} and {show(ends[-1])}" if len(ends) > 1 else f"{name} = {show(ends[0])}"
            for name, ends in places.items()
        )
        paper.line(f"with {', '.join(given)}")
        paper.heading("bounds, proven")
        rows = [
            ("value" if name == VALUE else f"d/d{name}", show(low), show(high))
            for name, (low, high) in found.bounds.items()
        ]
        columns = (Column(""), Column("at least", is_number=True), Column("at most", is_number=True))
        paper.table(TextTable(columns, rows))
        if found.undefined:
            paper.heading("warnings")
            paper.line(f"  domain: {_UNDEFINED}", Style.WARNING)

    def document() -> dict[str, Any]:
        warnings = [{"node": formula.tape.outputs[0], "kind": "domain", "message": _UNDEFINED}]
        return {
            "expression": formula.text,
            "variables": {
                name: [*map(number, ends)] if len(ends) > 1 else number(ends[0]) for name, ends in places.items()
            },
            "enclosure": {name: [number(low), number(high)] for name, (low, high) in found.bounds.items()},
            "warnings": warnings if found.undefined else [],
        }

    return Report(write, lambda: [document()])
