"""Reports of proofs and checks: bounds that `grad` proves for intervals, and the verdicts of `check`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from autodiff_cli.data.json_records import pick, to_json
from autodiff_cli.explain.accuracy import VALUE
from autodiff_cli.explain.gradient_check import Finding, GradientCheck, Verdict
from autodiff_cli.explain.precision import Interval, ProvenBounds
from autodiff_cli.export.languages import FrameworkGradient
from autodiff_cli.formula.formula import Formula
from autodiff_cli.numbers.ball_arithmetic import nearest_float
from autodiff_cli.render.formatting import number_formats
from autodiff_cli.render.gradient import write_title
from autodiff_cli.render.report import NO_VALUE, Column, Paper, Report, Style, TextTable, number_columns

_UNDEFINED_MESSAGE = (
    "the value or a derivative may be unbounded or undefined somewhere in the intervals; try narrower intervals"
)


def enclosure_report(
    formula: Formula, intervals: Mapping[str, Interval], proven: ProvenBounds, digits: int | None
) -> Report:
    """Report proven bounds of value and gradient, with a warning if something in the intervals is undefined.

    Args:
        intervals: the ends of the interval of each variable; a single end for a number.
    """
    ends_by_name = {name: sorted({nearest_float(end) for end in ends}) for name, ends in intervals.items()}
    show = number_formats(digits)[0]

    def write(paper: Paper) -> None:
        paper.line(formula.text, Style.STRONG)
        variables = (
            f"{name} between {show(ends[0])} and {show(ends[-1])}" if len(ends) > 1 else f"{name} = {show(ends[0])}"
            for name, ends in ends_by_name.items()
        )
        paper.line(f"with {', '.join(variables)}")
        paper.heading("proven bounds")
        rows = [
            ("value" if name == VALUE else f"d/d{name}", show(low), show(high))
            for name, (low, high) in proven.bounds.items()
        ]
        columns = (Column(""), *number_columns("at least", "at most"))
        paper.table(TextTable(columns, rows))
        if proven.undefined:
            paper.heading("warnings")
            paper.line(f"  domain: {_UNDEFINED_MESSAGE}", Style.WARNING)

    def document() -> dict[str, Any]:
        warnings = [{"node": formula.tape.outputs[0], "kind": "domain", "message": _UNDEFINED_MESSAGE}]
        return {
            "expression": formula.text,
            "variables": {
                name: to_json(ends) if len(ends) > 1 else to_json(ends[0]) for name, ends in ends_by_name.items()
            },
            "enclosure": to_json(proven.bounds),
            "warnings": warnings if proven.undefined else [],
        }

    return Report(write, lambda: [document()])


_NUMBERS = number_columns("gradient", "reference", "relative error", "order")
_COLUMNS = (Column("variable"), *_NUMBERS, Column("verdict"))
_MAX_REFERENCE_LENGTH = 20  # characters: more digits than a float has, and the table stays narrow


def check_report(check: GradientCheck, referee: FrameworkGradient | None = None) -> tuple[Report, bool]:
    """Report a check of the gradient; return the report and whether the gradient is correct.

    Args:
        referee: the gradient that another framework computes. At a kink it may use another convention, so
            differences there do not count.
    """
    is_confirmed = referee is None or all(
        referee.agrees(finding.variable, finding.gradient) or finding.verdict in (Verdict.KINK, Verdict.UNDEFINED)
        for finding in check.findings
    )
    agrees = check.agrees and is_confirmed
    return Report(
        lambda paper: _write_check(paper, check, referee, agrees), lambda: [_check_document(check, referee, agrees)]
    ), agrees


def _write_check(paper: Paper, check: GradientCheck, referee: FrameworkGradient | None, agrees: bool) -> None:
    in_full, _ = number_formats(None)
    write_title(paper, check.trace.expression, check.trace.point, in_full)
    paper.line()
    rows = [
        (
            finding.variable,
            in_full(finding.gradient),
            _short_reference(finding.reference),
            NO_VALUE if finding.relative_error is None else f"{finding.relative_error:.1e}",
            _order_text(finding.order),
            finding.verdict.value,
        )
        for finding in check.findings
    ]
    paper.table(TextTable(_COLUMNS, rows))
    _write_check_notes(paper, [finding for finding in check.findings if finding.note])
    if check.rewriting is not None:
        paper.heading("an equivalent formula that is more accurate here")
        paper.line(f"  {check.rewriting}")
    if referee is not None:
        paper.heading(f"{referee.framework} {referee.version}")
        compared = []
        for name, ours in ((finding.variable, finding.gradient) for finding in check.findings):
            verdict = "agrees" if referee.agrees(name, ours) else "differs"
            compared.append((name, in_full(referee.gradient[name]), in_full(ours), verdict))
        paper.table(TextTable((Column("variable"), *number_columns("gradient", "ours"), Column("")), compared))
    paper.line()
    paper.line("The gradient is correct." if agrees else "The gradient is wrong.", Style.STRONG)


def _write_check_notes(paper: Paper, findings: Sequence[Finding]) -> None:
    if not findings:
        return
    paper.heading("notes")
    first, last = paper.head_and_tail(len(findings))
    for finding in [*findings[:first], *findings[len(findings) - last :]]:
        style = Style.WARNING if finding.verdict is Verdict.DIFFERS else Style.PLAIN
        paper.line(f"  {finding.variable}: {finding.note}", style)
    paper.write_omitted(len(findings) - first - last, "note")


def _check_document(check: GradientCheck, referee: FrameworkGradient | None, agrees: bool) -> dict[str, Any]:
    """Return the JSON document; the order is null if unknown, and "inf" if there is no remainder at all."""
    against = {}
    if referee is not None:
        same = {finding.variable: referee.agrees(finding.variable, finding.gradient) for finding in check.findings}
        against = {"against": {**pick(referee, "framework", "version", "value", "gradient"), "agrees": same}}
    return {
        "expression": check.trace.expression.text,
        "variables": to_json(check.trace.point),
        "value": to_json(check.trace.value),
        "agrees": agrees,
        **({"better": check.rewriting} if check.rewriting is not None else {}),
        **against,
        "checks": {
            finding.variable: pick(finding, "gradient", "reference", "relative_error", "order")
            | {"verdict": finding.verdict.value, "note": finding.note}
            for finding in check.findings
        },
    }


def _order_text(order: float | None) -> str:
    return NO_VALUE if order is None else "exact" if math.isinf(order) else f"{order:.3f}"


def _short_reference(reference: str) -> str:
    mantissa, exponent, power = reference.partition("e")
    shorter = f"{mantissa[:_MAX_REFERENCE_LENGTH]}…{exponent}{power}"
    return mantissa if len(mantissa) <= _MAX_REFERENCE_LENGTH else shorter
