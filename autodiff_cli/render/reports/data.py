"""What `data` shows of files."""

from __future__ import annotations

from typing import Any

from autodiff_cli.data.summary import ColumnSummary, DataSummary
from autodiff_cli.render.documents import number
from autodiff_cli.render.numbers import shows
from autodiff_cli.render.paper import Column, Paper, TextTable
from autodiff_cli.render.report import Report
from autodiff_cli.render.text import shortened

_WIDEST = 60  # characters of a cell that are shown
_TITLES = (
    Column("column"),
    Column("in a model"),
    Column("type"),
    Column("missing", is_number=True),
    Column("least", is_number=True),
    Column("greatest", is_number=True),
)


def data_report(found: DataSummary, digits: int | None = None) -> Report:
    """The report of `autodiff data`.

    Args:
        digits: significant ones of numbers; six by default.
    """
    return Report(lambda paper: _write(paper, found, digits), lambda: [_document(found)])


def _write(paper: Paper, found: DataSummary, digits: int | None) -> None:
    _, shown = shows(digits)
    paper.line(f"{found.name}: {found.format}, {found.rows} rows, {len(found.columns)} columns")
    for note in found.notes:
        paper.line(f"  {note}")
    paper.line()
    rows = [
        (shortened(column.original, _WIDEST), shortened(column.written, _WIDEST), *_facts(column, shown))
        for column in found.columns
    ]
    paper.table(TextTable(_TITLES, rows))
    paper.heading("first rows")
    titles = tuple(Column(shortened(name, _WIDEST)) for name in found.header)
    first = [tuple(shortened(cell, _WIDEST) for cell in cells) for cells in found.first]
    paper.table(TextTable(titles, first))
    if found.options:
        paper.heading("options that say the same")
        paper.line(f"  {' '.join(found.options)}")


def _facts(column: ColumnSummary, shown: Any) -> tuple[str, str, str, str]:
    type_ = column.type if column.levels is None else f"{column.type}, {column.levels} different"
    ends = ("-" if end is None else shown(end) for end in (column.least, column.greatest))
    return type_, str(column.missing), *ends  # type: ignore[return-value]


def _document(found: DataSummary) -> dict[str, Any]:
    columns = []
    for column in found.columns:
        document = {
            "name": column.name,
            "written": column.written,
            "type": column.type,
            "missing": column.missing,
            "min": number(column.least),
            "max": number(column.greatest),
        }
        columns.append(document if column.levels is None else {**document, "levels": column.levels})
    return {
        "file": found.name,
        "format": found.format,
        "rows": found.rows,
        "columns": columns,
        "first": [list(cells) for cells in found.first],
        "notes": list(found.notes),
        "options": list(found.options),
    }
