"""What `grad` shows: value, gradient, nodes; or the derivatives as formulas."""

from __future__ import annotations

from collections.abc import Mapping

from autodiff_cli.explain.steps import Trace
from autodiff_cli.expression import Expression
from autodiff_cli.render.numbers import Show, shows
from autodiff_cli.render.paper import Column, Paper, Style, Table
from autodiff_cli.render.text import columns, on_one_line, shortened

NOTHING = "-"  # the sensitivity of a node that no variable reaches


def write_gradient(paper: Paper, trace: Trace, digits: int | None) -> None:
    """The value, the gradient, and every node with its value and sensitivity."""
    in_full, brief = shows(digits)
    write_title(paper, trace, in_full)
    write_result(paper, trace, in_full)
    paper.heading("nodes, each after its inputs")
    rows = [
        (str(i), label, brief(value), NOTHING if adjoint is None else brief(adjoint))
        for i, (label, value, adjoint) in enumerate(zip(trace.labels, trace.values, trace.adjoints, strict=True))
    ]
    titles = (Column("id", is_number=True, is_dispensable=True), Column("node"), Column("value", is_number=True))
    paper.table(Table((*titles, Column("sensitivity", is_number=True)), rows))
    write_warnings(paper, trace)


def write_formulas(paper: Paper, expression: Expression, derivatives: Mapping[str, Expression]) -> None:
    """The derivative towards each variable as a formula, and how to evaluate it."""
    for name, derivative in derivatives.items():
        text = on_one_line(str(derivative))
        paper.line(f"d/d{name}{':' if ';' in text else ' ='} {shortened(text, paper.longest)}")
    values = " ".join(f"--{name} 2" for name in expression.variables)
    paper.line()
    paper.line(f"To evaluate at a point, give each variable a value: {values}", Style.FAINT)


def write_title(paper: Paper, trace: Trace, show: Show) -> None:
    """The expression and the point."""
    paper.line(shortened(on_one_line(trace.expression.text), paper.longest), Style.STRONG)
    if trace.point:
        paper.line("at " + ", ".join(f"{name} = {show(x)}" for name, x in trace.point.items()))


def write_result(paper: Paper, trace: Trace, show: Show) -> None:
    """The value and the gradient, in full."""
    paper.line()
    paper.line(f"value = {show(trace.value)}", Style.STRONG)
    if trace.gradient:
        width = max(map(columns, trace.gradient))
        paper.heading("gradient")
        for name, slope in trace.gradient.items():
            paper.line(f"  d/d{name}{' ' * (width - columns(name))} = {show(slope)}", Style.STRONG)


def write_warnings(paper: Paper, trace: Trace) -> None:
    """The warnings, if there are any."""
    if not trace.warnings:
        return
    first, last = paper.shown(len(trace.warnings))
    paper.heading("warnings")
    for caveat in [*trace.warnings[:first], *trace.warnings[len(trace.warnings) - last :]]:
        paper.line(f"  {caveat.kind}: {caveat.message}", Style.WARNING)
    paper.left_out(len(trace.warnings) - first - last, "warning")
