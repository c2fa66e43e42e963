"""What `grad` shows: value, gradient, nodes; or the derivatives as formulas."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from autodiff_cli.explain.record import Caveat, Trace
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.op import Shape
from autodiff_cli.render.documents import formulas_document, gradient_document, number, numbers
from autodiff_cli.render.numbers import Show, shows
from autodiff_cli.render.paper import Column, Paper, Style, TextTable
from autodiff_cli.render.report import Report
from autodiff_cli.render.text import columns, on_one_line, shortened

if TYPE_CHECKING:
    from autodiff_cli.formula.uncertainty import Uncertainty

Spelling: TypeAlias = Callable[[str, str], str]  # how to give the variable of a name a value, on the command line

MOST_EXAMPLES = 4  # elements along an axis of an array that shows how to write one
NOTHING = "-"  # the sensitivity of a node that no variable reaches


def gradient_report(trace: Trace, digits: int | None) -> Report:
    """The value, the gradient, and every node with its value and sensitivity."""

    def write(paper: Paper) -> None:
        in_full, brief = shows(digits)
        write_title(paper, trace, in_full)
        write_result(paper, trace, in_full)
        write_nodes(paper, trace, {"sensitivity": trace.adjoints}, brief)
        write_warnings(paper, trace.warnings)

    return Report(write, lambda: [gradient_document(trace)])


def uncertainty_report(uncertainty: Uncertainty, digits: int | None) -> Report:
    """The standard error of the value, and where it comes from: what uncertain inputs add."""

    def write(paper: Paper) -> None:
        _, brief = shows(digits)
        paper.heading("uncertainty, to first order")
        paper.line(f"  standard error of the value = {brief(uncertainty.value)}", Style.STRONG)
        for name, share in uncertainty.shares.items():
            paper.line(f"  from {name}: {100 * share:.1f} % of its variance")

    fields = {"value": number(uncertainty.value), "shares": numbers(uncertainty.shares)}
    return Report(write, lambda: [{"uncertainty": fields}])


def write_nodes(paper: Paper, trace: Trace, derivatives: Mapping[str, Sequence[Any]], show: Show) -> None:
    """Every node with its value and, in columns, its derivatives."""
    paper.heading("nodes, each after its inputs")
    columns_of = zip(*derivatives.values(), strict=True) if derivatives else itertools.repeat(())
    rows = [
        (str(i), label, show(value), *(NOTHING if slope is None else show(slope) for slope in slopes))
        for i, (label, value, slopes) in enumerate(zip(trace.labels, trace.values, columns_of, strict=False))
    ]
    titles = (Column("id", is_number=True, is_dispensable=True), Column("node"), Column("value", is_number=True))
    paper.table(TextTable((*titles, *(Column(title, is_number=True) for title in derivatives)), rows))


def write_formula(paper: Paper, called: str, derivative: Formula) -> None:
    """A derivative as a formula."""
    text = on_one_line(str(derivative))
    paper.line(f"{called}{':' if ';' in text else ' ='} {shortened(text, paper.longest)}")


def formulas_report(expression: Formula, derivatives: Mapping[str, Formula], spelt: Spelling) -> Report:
    """The derivative towards each variable as a formula, and how to evaluate it."""

    def write(paper: Paper) -> None:
        for name, derivative in derivatives.items():
            write_formula(paper, f"d/d{name}", derivative)
        write_hint(paper, expression, spelt)

    return Report(write, lambda: [formulas_document(expression, derivatives)])


def write_hint(paper: Paper, expression: Formula, spelt: Spelling) -> None:
    """How to evaluate what was shown as formulas."""
    shapes = expression.example_shapes
    values = " ".join(spelt(name, example_value(shapes.get(name, ()))) for name in expression.variables)
    paper.line()
    paper.line(f"To evaluate at a point, give each variable a value: {values}", Style.FAINT)


def example_value(shape: Shape) -> str:
    """A value that a variable may have, as one types it; of a large array only how it begins."""
    text = "2"
    for length in reversed(shape):
        text = f"[{', '.join([text] * min(length, MOST_EXAMPLES))}{', …' if length > MOST_EXAMPLES else ''}]"
    return f'"{text}"' if shape else text


def write_title(paper: Paper, trace: Trace, show: Show) -> None:
    """The expression and the point."""
    write_point(paper, trace.expression, trace.point, show)


def write_point(paper: Paper, expression: Formula, point: Mapping[str, Any], show: Show) -> None:
    """An expression and a point."""
    paper.line(shortened(on_one_line(expression.text), paper.longest), Style.STRONG)
    if point:
        paper.line(f"at {assigned(point, show)}")


def assigned(values: Mapping[str, Any], show: Show) -> str:
    """`x = 1, y = 2`."""
    return ", ".join(f"{name} = {show(x)}" for name, x in values.items())


def write_result(paper: Paper, trace: Trace, show: Show, gradient: Mapping[str, Any] | None = None) -> None:
    """The value and the gradient, in full; by default the one that reverse mode found."""
    slopes = trace.gradient if gradient is None else gradient
    paper.line()
    paper.line(f"value = {show(trace.value)}", Style.STRONG)
    if slopes:
        width = max(map(columns, slopes))
        paper.heading("gradient")
        for name, slope in slopes.items():
            paper.line(f"  d/d{name}{' ' * (width - columns(name))} = {show(slope)}", Style.STRONG)


def write_warnings(paper: Paper, warnings: Sequence[Caveat]) -> None:
    """The warnings, if there are any."""
    if not warnings:
        return
    first, last = paper.shown(len(warnings))
    paper.heading("warnings")
    for caveat in [*warnings[:first], *warnings[len(warnings) - last :]]:
        paper.line(f"  {caveat.kind}: {caveat.message}", Style.WARNING)
    paper.left_out(len(warnings) - first - last, "warning")
