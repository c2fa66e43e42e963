"""Reports about operations (`ops`), data files (`data`) and the installation (`doctor`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autodiff_cli.data.json_records import pick
from autodiff_cli.language.errors import pluralize
from autodiff_cli.render.formatting import shorten_middle
from autodiff_cli.render.report import NO_VALUE, Column, Paper, Report, Style, TextTable, dot_plot, number_columns

if TYPE_CHECKING:
    from autodiff_cli.backends.selection import BackendStatus
    from autodiff_cli.data.files import DataSummary
    from autodiff_cli.explain.operations import Description
    from autodiff_cli.formula.formula import Formula

# --- Operations ---

_MAX_FORMULA_LENGTH = 72  # characters of a formula in the list of operations
_PLOT_LIMIT = 6.0  # plots show -6 … 6 on both axes: where activation functions bend
_PLOT_ROWS = 8  # lines of a plot
_PLOT_POINTS = 601  # points computed, several per terminal column
_MAX_PLOT_WIDTH = 60  # terminal columns
_SCALE_WIDTH = 16  # terminal columns that plotille needs for the scale


def operations_report(descriptions: Sequence[Description]) -> Report:
    """Report all operations, a few lines each."""
    return Report(lambda paper: _write_operations(paper, descriptions), lambda: [_operations_document(descriptions)])


def operation_details_report(descriptions: Sequence[Description]) -> Report:
    """Report a few operations in detail, with plots of functions of one number and of their derivatives."""

    def write(paper: Paper) -> None:
        for k, description in enumerate(descriptions):
            if k:
                paper.line()
            _write_operation(paper, description)

    return Report(write, lambda: [_operations_document(descriptions)])


def _write_operations(paper: Paper, descriptions: Sequence[Description]) -> None:
    for description in descriptions:
        paper.line(f"{description.call}  ({description.op.gate.value})", Style.STRONG)
        if description.definition is not None:
            paper.line(f"  defined as {shorten_middle(description.definition, _MAX_FORMULA_LENGTH)}")
        _write_derivatives(paper, description, _MAX_FORMULA_LENGTH)
        _write_conditions(paper, description)
    paper.line()
    hint = "In parentheses: the effect on the gradient. `autodiff ops NAME` describes one operation and plots it."
    paper.line(hint, Style.FAINT)


def _write_operation(paper: Paper, description: Description) -> None:
    from autodiff_cli.explain.operations import ADJOINT, plotted_formulas

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
    if op.is_structural:
        paper.line(f"  {ADJOINT} is the adjoint of the output; shapes are examples", Style.FAINT)
    paper.line(f"  gate: {op.gate.value}")
    _write_conditions(paper, description)
    for expression in plotted_formulas(op):
        _write_plot(paper, expression)


def _write_derivatives(paper: Paper, description: Description, longest: int | None = None) -> None:
    for k, (name, text) in enumerate(description.derivatives.items()):
        if k in description.op.unavailable_inputs:
            paper.line(f"  d/d{name} is not known: {text}")
            continue
        has_bindings = ";" in text
        if description.op.is_structural:
            left_side = f"adjoint of {name} grows by:" if has_bindings else f"adjoint of {name} +="
        else:
            left_side = f"d/d{name}:" if has_bindings else f"d/d{name} ="
        paper.line(f"  {left_side} {shorten_middle(text, longest)}")
    if description.textbook is not None:
        paper.line(f"    in textbooks {description.textbook}, which is inaccurate where the function saturates")


def _write_conditions(paper: Paper, description: Description) -> None:
    for title, condition, note in (
        ("kink where", description.kink, description.op.kink_note),
        ("defined where", description.domain, ""),
        ("infinite or undefined derivative where", description.singular, ""),
    ):
        if condition is not None:
            paper.line(f"  {title} {condition}{': ' if note else ''}{note}")


def _operations_document(descriptions: Sequence[Description]) -> dict[str, Any]:
    return {"operations": [_operation_document(description) for description in descriptions]}


def _operation_document(description: Description) -> dict[str, Any]:
    op = description.op
    return {
        "name": op.name,
        "call": description.call,
        **pick(op, "aliases", "summary"),
        "definition": description.definition,
        ("contributions" if op.is_structural else "derivatives"): description.derivatives,
        "textbook": description.textbook,
        "gate": op.gate.value,
        "kink": description.kink,
        "kink_note": op.kink_note,
        **pick(description, "domain", "singular"),
    }


def _write_plot(paper: Paper, expression: Formula) -> None:
    """Write a plot of an expression in `x`; points outside the limits of the plot are left out."""
    xs = [_PLOT_LIMIT * (2 * k / (_PLOT_POINTS - 1) - 1) for k in range(_PLOT_POINTS)]
    points = [(x, float(expression.value(x=x))) for x in xs]
    visible = [(x, y) for x, y in points if math.isfinite(y) and abs(y) <= _PLOT_LIMIT]
    if not visible:
        return
    heights = [y for _, y in visible]
    margin = (max(heights) - min(heights)) / 20 or 1.0
    # The scale below the plot has a mark every 10 columns.
    columns = max(min(paper.width - _SCALE_WIDTH, _MAX_PLOT_WIDTH) // 10, 1) * 10
    box = {"x": (-_PLOT_LIMIT, _PLOT_LIMIT), "y": (min(heights) - margin, max(heights) + margin)}
    try:
        lines = dot_plot(box, ([x for x, _ in visible], heights), (), (columns, _PLOT_ROWS), has_axes=True)
    except ModuleNotFoundError:  # without plotille there is no plot
        return
    paper.heading(f"y = {expression}")
    paper.verbatim(*lines)


# --- Data files ---

_MAX_CELL_LENGTH = 60  # characters; longer cells are shortened
_SUMMARY_COLUMNS = (*(Column("column"), Column("in a model"), Column("type")), *number_columns("missing", "min", "max"))


def data_report(summary: DataSummary) -> Report:
    """Report the columns, types, missing cells, ranges and first rows of data files (`autodiff data`)."""
    return Report(lambda paper: _write_summary(paper, summary), lambda: [_summary_document(summary)])


def _write_summary(paper: Paper, summary: DataSummary) -> None:
    row_count, column_count = pluralize(summary.rows, "row"), pluralize(len(summary.columns), "column")
    paper.line(f"{summary.name}: {summary.format}, {row_count}, {column_count}")
    for note in summary.notes:
        paper.line(f"  {note}")
    paper.line()
    has_units = any(column.unit for column in summary.columns)
    rows = [
        (
            shorten_middle(column.original, _MAX_CELL_LENGTH),
            shorten_middle(column.written, _MAX_CELL_LENGTH),
            column.type if column.levels is None else f"{column.type}, {column.levels} distinct",
            str(column.missing),
            *(NO_VALUE if end is None else paper.brief(end) for end in (column.minimum, column.maximum)),
            *[column.unit] * has_units,
        )
        for column in summary.columns
    ]
    paper.table(TextTable((*_SUMMARY_COLUMNS, *[Column("unit")] * has_units), rows))
    titles = tuple(Column(shorten_middle(name, _MAX_CELL_LENGTH)) for name in summary.header)
    first = [tuple(shorten_middle(cell, _MAX_CELL_LENGTH) for cell in cells) for cells in summary.first_rows]
    paper.titled_table("first rows", TextTable(titles, first))
    paper.section("equivalent options", [" ".join(summary.options)] if summary.options else [])


def _summary_document(summary: DataSummary) -> dict[str, Any]:
    columns = []
    for column in summary.columns:
        document = pick(column, "name", "written", "type", "missing")
        document |= {"min": column.minimum, "max": column.maximum}
        if column.unit:
            document["unit"] = column.unit
        columns.append(document if column.levels is None else {**document, "levels": column.levels})
    return {
        "file": summary.name,
        **pick(summary, "format", "rows"),
        "columns": columns,
        "first": summary.first_rows,
        **pick(summary, "notes", "options"),
    }


# --- The installation ---


def health_report(status: BackendStatus) -> Report:
    """Report the backend, the processor, the threads and the cache (`autodiff doctor`)."""

    def write(paper: Paper) -> None:
        lines = {
            "backend": f"{'compiled kernels (llvm)' if status.backend == 'llvm' else status.backend}: {status.why}",
            **pick(status, "processor", "functions"),
            "threads": str(status.threads),
            "cache": status.cache or f"off: {status.cache_problem}",
        }
        for name, value in lines.items():
            if value:
                paper.line(f"{name:9}  {value}")

    return Report(write, lambda: [status._asdict()])
