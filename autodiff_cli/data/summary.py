"""What a reader makes of a data file: columns, types, ranges, first rows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodiff_cli.data.cells import CellKind
from autodiff_cli.data.several import DataFiles
from autodiff_cli.language.lexer import written_name

_FIRST = 5  # rows that are shown
_TITLES: dict[CellKind | None, str] = {CellKind.TRUTH: "yes or no", CellKind.TIME: "date or time"}


@dataclass(frozen=True)
class ColumnSummary:
    """One column.

    Attributes:
        name: as the language compares it; `written` is how it stands in a model, `original` as the file has it.
        type: `number`, `whole number`, `yes or no`, `date or time`, or `text`.
        missing: how many cells are.
        least: the smallest number, seconds of dates and times; None for text, and where none is there. `greatest`
            likewise.
        levels: how many different texts there are; None of numbers.
    """

    name: str
    written: str
    original: str
    type: str
    missing: int
    least: float | None = None
    greatest: float | None = None
    levels: int | None = None


@dataclass(frozen=True)
class DataSummary:
    """A file, or several of the same columns.

    Attributes:
        name: for messages.
        format: what the format is called.
        rows: how many count.
        columns: one by one.
        first: the first rows, as text, in the order of `header`.
        header: the names as the file has them.
        notes: what was seen that nobody said.
        options: those that say the same outright.
    """

    name: str
    format: str
    rows: int
    columns: tuple[ColumnSummary, ...]
    first: tuple[tuple[str, ...], ...]
    header: tuple[str, ...]
    notes: tuple[str, ...]
    options: tuple[str, ...]


def summary(file: DataFiles) -> DataSummary:
    """What the reader makes of files.

    Raises:
        DataError: for cells of a column of numbers that hold none.
    """
    texts = {*file.texts}
    raw = file.read(file.names, drop_missing=True, texts=texts)
    places = file.places(file.names)
    columns = tuple(
        _column(file, name, file.header[places[name]], raw.columns[name], name in texts) for name in file.names
    )
    every = (row for cells in file.rows() for row in (cells if isinstance(cells, list) else cells.rows()))
    first = tuple(tuple(row) for row in itertools.islice(every, _FIRST))
    return DataSummary(
        name=file.name,
        format=file.format.title,
        rows=len(raw.rows),
        columns=columns,
        first=first,
        header=file.header,
        notes=tuple(file.notes),
        options=tuple(file.format.options),
    )


def _column(file: DataFiles, name: str, original: str, cells: Any, is_text: bool) -> ColumnSummary:
    written = written_name(name)
    if is_text:
        there = [cell for cell in cells.tolist() if cell is not None]
        return ColumnSummary(name, written, original, "text", len(cells) - len(there), levels=len({*there}))
    there = cells[np.isfinite(cells)]
    is_whole = len(there) > 0 and bool(np.all(there == np.round(there)))
    return ColumnSummary(
        name,
        written,
        original,
        _TITLES.get(file.readers[name].kind, "whole number" if is_whole else "number"),
        len(cells) - len(there),
        float(there.min()) if len(there) else None,
        float(there.max()) if len(there) else None,
    )
