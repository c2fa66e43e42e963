"""What `check` shows: a row for each variable, and what there is to explain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from autodiff_cli.explain.digits.check import Check, Finding, Verdict
from autodiff_cli.export.referees import Referee
from autodiff_cli.render.documents import number, numbers
from autodiff_cli.render.numbers import shows
from autodiff_cli.render.paper import Column, Paper, Style, TextTable
from autodiff_cli.render.report import Report
from autodiff_cli.render.reports.gradient import write_title

NOTHING = "-"  # a figure that means nothing here
TITLES = (
    Column("variable"),
    Column("gradient", is_number=True),
    Column("reference", is_number=True),
    Column("relative error", is_number=True),
    Column("order", is_number=True),
    Column("verdict"),
)
_SHOWN = 20  # characters of a reference in the table


def check_report(check: Check, referee: Referee | None = None) -> tuple[Report, bool]:
    """The table, the notes, and whether the gradient holds; that is told too.

    Args:
        referee: what a framework finds; where there is a kink, it may have another convention.
    """
    sided = referee is None or all(
        referee.agrees(finding.variable, finding.gradient) or finding.verdict in (Verdict.KINK, Verdict.UNDEFINED)
        for finding in check.findings
    )
    agrees = check.agrees and sided
    return Report(
        lambda paper: _write(paper, check, referee, agrees), lambda: [_document(check, referee, agrees)]
    ), agrees


def _write(paper: Paper, check: Check, referee: Referee | None, agrees: bool) -> None:
    in_full, _ = shows(None)
    write_title(paper, check.trace, in_full)
    paper.line()
    rows = [
        (
            finding.variable,
            in_full(finding.gradient),
            _shortened(finding.reference),
            NOTHING if finding.relative_error is None else f"{finding.relative_error:.1e}",
            _order(finding.order),
            finding.verdict.value,
        )
        for finding in check.findings
    ]
    paper.table(TextTable(TITLES, rows))
    _write_notes(paper, [finding for finding in check.findings if finding.note])
    if check.better is not None:
        paper.heading("written so that it keeps more digits here")
        paper.line(f"  {check.better}")
    if referee is not None:
        paper.heading(f"{referee.framework} {referee.version}")
        paper.table(
            TextTable(
                (Column("variable"), Column("gradient", is_number=True), Column("ours", is_number=True), Column("")),
                [
                    (name, in_full(theirs), in_full(found.gradient), "the same" if same else "differs")
                    for found in check.findings
                    for name, theirs in [(found.variable, referee.gradient[found.variable])]
                    for same in [referee.agrees(name, found.gradient)]
                ],
            )
        )
    paper.line()
    paper.line("The gradient holds." if agrees else "The gradient does not hold.", Style.STRONG)


def _write_notes(paper: Paper, findings: Sequence[Finding]) -> None:
    if not findings:
        return
    paper.heading("notes")
    first, last = paper.shown(len(findings))
    for finding in [*findings[:first], *findings[len(findings) - last :]]:
        style = Style.WARNING if finding.verdict is Verdict.DIFFERS else Style.PLAIN
        paper.line(f"  {finding.variable}: {finding.note}", style)
    paper.left_out(len(findings) - first - last, "note")


def _document(check: Check, referee: Referee | None, agrees: bool) -> dict[str, Any]:
    """An order is null where it cannot be told, and "inf" where no remainder is left."""
    return {
        "expression": check.trace.expression.text,
        "variables": numbers(check.trace.point),
        "value": number(check.trace.value),
        "agrees": agrees,
        **({"better": check.better} if check.better is not None else {}),
        **({} if referee is None else {"against": _against(check, referee)}),
        "checks": {finding.variable: _finding(finding) for finding in check.findings},
    }


def _against(check: Check, referee: Referee) -> dict[str, Any]:
    return {
        "framework": referee.framework,
        "version": referee.version,
        "value": number(referee.value),
        "gradient": numbers(referee.gradient),
        "agrees": {finding.variable: referee.agrees(finding.variable, finding.gradient) for finding in check.findings},
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "gradient": number(finding.gradient),
        "reference": finding.reference,
        "relative_error": number(finding.relative_error),
        "order": number(finding.order),
        "verdict": finding.verdict.value,
        "note": finding.note,
    }


def _order(order: float | None) -> str:
    return NOTHING if order is None else "exact" if math.isinf(order) else f"{order:.3f}"


def _shortened(reference: str) -> str:
    mantissa, exponent, power = reference.partition("e")
    return mantissa if len(mantissa) <= _SHOWN else f"{mantissa[:_SHOWN]}…{exponent}{power}"
