"""What `grad` shows beyond the gradient: formulas, tangents, higher orders, directions, several outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autodiff_cli.explain.record import Caveat, Trace
from autodiff_cli.formula.formula import Formula
from autodiff_cli.formula.further import Further, Matrix
from autodiff_cli.render.documents import gradient_document, number, numbers, warning_document
from autodiff_cli.render.numbers import Show, shows
from autodiff_cli.render.paper import Column, Paper, Style, TextTable
from autodiff_cli.render.report import Report
from autodiff_cli.render.reports.gradient import (
    Spelling,
    assigned,
    write_formula,
    write_hint,
    write_nodes,
    write_point,
    write_result,
    write_title,
    write_warnings,
)


def further_formulas_report(expression: Formula, further: Further, spelt: Spelling) -> Report:
    """All that was asked for as formulas, and how to evaluate them."""
    document = {"expression": expression.text, "variables": [*expression.variables]}
    return Report(
        lambda paper: _write_formulas(paper, expression, further, spelt), lambda: [document | _fields(further)]
    )


def further_report(
    expression: Formula,
    point: Mapping[str, Any],
    trace: Trace | None,
    further: Further,
    digits: int | None,
    warnings: Sequence[Caveat] = (),
) -> Report:
    """All that was asked for at a point.

    Args:
        trace: of the passes at the point; None for an output that is an array, which has no gradient.
        warnings: of a Jacobian; those of a trace are its own.
    """
    told = [*warnings, *(trace.warnings if trace is not None else ())]
    return Report(
        lambda paper: _write_numbers(paper, expression, point, trace, further, digits, told),
        lambda: [_document(expression, point, trace, further, told)],
    )


def _write_formulas(paper: Paper, expression: Formula, further: Further, spelt: Spelling) -> None:
    for name, derivative in (further.formulas or {}).items():
        write_formula(paper, f"d/d{name}", derivative)
    for row, column, derivative in _upper(further.hessian or {}):
        write_formula(paper, f"d^2/d{row}^2" if row == column else f"d^2/d{row}d{column}", derivative)
    if further.derivative is not None:
        write_formula(paper, _of_order(further), further.derivative)
    for output, derivatives in (further.jacobian or {}).items():
        for name, derivative in derivatives.items():
            write_formula(paper, f"d({output})/d{name}", derivative)
    write_hint(paper, expression, spelt)


def _write_numbers(
    paper: Paper,
    expression: Formula,
    point: Mapping[str, Any],
    trace: Trace | None,
    further: Further,
    digits: int | None,
    warnings: Sequence[Caveat],
) -> None:
    in_full, brief = shows(digits)
    if further.jacobian is not None:
        write_point(paper, expression, point, in_full)
        _write_jacobian(paper, further, in_full)
    if trace is not None and further.jacobian is None:
        slopes = None if further.tangents is None else {name: found[-1] for name, found in further.tangents.items()}
        write_title(paper, trace, in_full)
        write_result(paper, trace, in_full, slopes)
        _write_sections(paper, further, in_full)
        columns = {f"d/d{name}": found for name, found in (further.tangents or {}).items()}
        write_nodes(paper, trace, {"sensitivity": trace.adjoints} if further.tangents is None else columns, brief)
    write_warnings(paper, warnings)


def _write_sections(paper: Paper, further: Further, show: Show) -> None:
    if further.formulas is not None:
        paper.heading("derivatives")
        for name, derivative in further.formulas.items():
            write_formula(paper, f"  d/d{name}", derivative)
    if further.direction is not None:
        paper.heading(f"along {assigned(further.direction, show)}")
        paper.line(f"  derivative = {show(further.directional)}", Style.STRONG)
    if further.hessian is not None:
        paper.heading("hessian")
        _write_matrix(paper, further.hessian, show)
    if further.derivative is not None:
        paper.line()
        paper.line(f"{_of_order(further)} = {show(further.derivative)}", Style.STRONG)


def _write_jacobian(paper: Paper, further: Further, show: Show) -> None:
    assert further.outputs is not None
    assert further.jacobian is not None
    paper.heading("outputs")
    for name, value in further.outputs.items():
        paper.line(f"  {name} = {show(value)}", Style.STRONG)
    paper.heading("jacobian")
    _write_matrix(paper, further.jacobian, show)


def _write_matrix(paper: Paper, matrix: Matrix, show: Show) -> None:
    """A row per name, with a column for each variable; what has an array for a pair of names has it in one cell."""
    rows = [(name, *map(show, row.values())) for name, row in matrix.items()]
    titles = next(iter(matrix.values()), {})
    paper.table(TextTable((Column(""), *(Column(name, is_number=True) for name in titles)), rows))


def _document(
    expression: Formula,
    point: Mapping[str, Any],
    trace: Trace | None,
    further: Further,
    warnings: Sequence[Caveat],
) -> dict[str, Any]:
    if trace is None:
        elements = [*map(number, (further.outputs or {}).values())]
        known: dict[str, Any] = {"expression": expression.text, "variables": numbers(point), "value": elements}
    else:
        known = gradient_document(trace)
    known["warnings"] = [*map(warning_document, warnings)]
    if further.tangents is not None:
        known["gradient"] = {name: number(column[-1]) for name, column in further.tangents.items()}
    return known | _fields(further)


def _fields(further: Further) -> dict[str, Any]:
    """The fields for what was asked for."""
    fields = {
        "derivatives": further.formulas,
        "tangents": further.tangents,
        "hessian": further.hessian,
        "directional": further.directional,
        "derivative": further.derivative,
        "jacobian": further.jacobian,
        "outputs": further.outputs,
    }
    return {name: _nested(found) for name, found in fields.items() if found is not None}


def _nested(found: Any) -> Any:
    """Named numbers and formulas, at any depth, as JSON can say them."""
    if isinstance(found, Mapping):
        return {name: _nested(x) for name, x in found.items()}
    return str(found) if isinstance(found, Formula) else number(found)


def _upper(matrix: Matrix) -> Iterator[tuple[str, str, Formula]]:
    """The entries of a symmetric matrix, each pair of names once."""
    names = list(matrix)
    for k, row in enumerate(names):
        for column in names[k:]:
            yield row, column, matrix[row][column]


def _of_order(further: Further) -> str:
    name, order = further.variable, further.order
    return f"d/d{name}" if order == 1 else f"d^{order}/d{name}^{order}"
