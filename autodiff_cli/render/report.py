"""Reports: the result of a command, as text for people and as JSON documents for programs.

A `Report` can write itself on a `Paper`, which has headings, lines and tables, and can return its JSON documents.
The caller chooses between the two. `Paper` itself is for pipes and files: plain aligned lines, nothing wrapped, nothing
omitted. `TerminalPaper` has the same methods for people at a terminal: colour, tables that fit the width, and as many
rows as people read. It imports Rich when it is made.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from types import TracebackType
from typing import Any, NamedTuple, TextIO, TypeVar

from autodiff_cli.language.errors import escape_controls, pluralize
from autodiff_cli.render.formatting import display_width, number_formats, single_line, wrap_line

MIN_TEXT_WIDTH = 12  # a narrower column of wrapped text is unreadable
COLUMN_GAP = 3  # spaces between the columns of a table: one is the divider
T = TypeVar("T")
NO_VALUE = "-"  # a table cell for a number that does not exist or is not known


class Style(enum.Enum):
    """The role of a line; a terminal shows it by colour or weight, named as in Rich."""

    PLAIN = ""
    STRONG = "bold"
    FAINT = "dim"
    WARNING = "yellow"


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        is_number: numbers are aligned to the right and never wrapped.
        is_optional: the column is left out on a narrow terminal.
    """

    title: str
    is_number: bool = False
    is_optional: bool = False


def number_columns(*titles: str) -> tuple[Column, ...]:
    """Return columns of numbers with these titles."""
    return tuple(Column(title, is_number=True) for title in titles)


class TextTable(NamedTuple):
    """A table: its columns, and rows with one text per column."""

    columns: tuple[Column, ...]
    rows: Sequence[tuple[str, ...]]

    def escaped(self) -> TextTable:
        """Return this table with every title and cell on one line and control characters escaped."""
        titles = tuple(column._replace(title=single_line(column.title)) for column in self.columns)
        return TextTable(titles, [tuple(map(single_line, row)) for row in self.rows])

    def widths(self) -> list[int]:
        """Return the width of the title and the cells of each column."""
        texts = [tuple(column.title for column in self.columns), *self.rows]
        return [max(map(display_width, column)) for column in zip(*texts, strict=True)]

    def pick_columns(self, shown: Sequence[int]) -> TextTable:
        """Return the table with only these columns."""
        return TextTable(tuple(self.columns[k] for k in shown), [tuple(row[k] for k in shown) for row in self.rows])


class Paper:
    """Writes a report as plain lines to a stream.

    Args:
        digits: the value of `--digits`.
        guard: lets lines be lost if the stream fails; None if that is an error.

    Attributes:
        stream: receives the lines; the text of a file format is written to it directly.
        digits: the number of significant digits; None for the default.
        in_full: writes a number or an array that is a result.
        brief: writes a number or an array in a table or a step.
        width: columns available to a drawing.
        max_rows: the maximum number of rows or steps of one kind to show; None for all.
        max_formula_length: the maximum number of characters of one formula to show; None for all.
        way_to_all: what shows all rows and steps.
    """

    width: int = 80
    max_rows: int | None = None
    max_formula_length: int | None = None
    way_to_all: str = "a pipe (| less) or --json"

    def __init__(self, stream: TextIO, digits: int | None = None, guard: OutputGuard | None = None) -> None:
        self.stream, self.digits, self._guard = stream, digits, guard or nullcontext()
        self.in_full, self.brief = number_formats(digits)

    def line(self, text: str = "", style: Style = Style.PLAIN) -> None:  # noqa: ARG002 - paper has no colour
        """Write a line of text, or several."""
        with self._guard:
            self.stream.write(escape_controls(text) + "\n")

    def verbatim(self, *lines: str) -> None:
        """Write lines that are never broken, such as those that people copy."""
        for line in lines:
            self.stream.write(f"  {escape_controls(line)}\n")

    def flush(self) -> None:
        """Flush the stream, so that readers see the lines so far."""
        with self._guard:
            self.stream.flush()

    def heading(self, text: str) -> None:
        """Write an empty line and the heading of a section."""
        self.line()
        self.line(text, Style.STRONG)

    def table(self, table: TextTable, gap_after: int | None = None) -> None:  # noqa: ARG002 - a pipe has all rows
        """Write a table under the titles of its columns.

        Args:
            gap_after: the row after which rows were left out to suit `head_and_tail`; None if none were.
        """
        for row in aligned_lines(table):
            self.stream.write(row + "\n")

    def titled_table(self, title: str, table: TextTable, limit: int | None = None) -> None:
        """Write a table with a heading, unless it has no rows; `limit` as in `section`."""
        if table.rows:
            self.heading(title)
            self.table(table._replace(rows=table.rows[:limit]))
            self._write_more(len(table.rows), limit)

    def has_room_for(self, table: TextTable) -> bool:  # noqa: ARG002 - a pipe has no edge
        """Whether all columns of a table fit side by side."""
        return True

    def head_and_tail(self, count: int) -> tuple[int, int]:
        """Return how many of `count` rows to show from the beginning and how many from the end."""
        if self.max_rows is None or count <= self.max_rows:
            return count, 0
        return self.max_rows // 2, self.max_rows // 2

    def write_items(self, items: Sequence[T], write: Callable[[T], None], noun: str, title: str = "") -> None:
        """Write all items, or on a short paper the first and the last ones and how many are omitted between them.

        Args:
            title: a heading, if there are any items; empty for none.
        """
        if items and title:
            self.heading(title)
        first, last = self.head_and_tail(len(items))
        for item in items[:first]:
            write(item)
        self.write_omitted(len(items) - first - last, noun)
        for item in items[len(items) - last :]:
            write(item)

    def section(self, title: str, lines: Sequence[str], style: Style = Style.PLAIN, limit: int | None = None) -> None:
        """Write lines with a heading, if there are any; of more than `limit` lines the first, and how many follow."""
        if lines:
            self.heading(title)
        for line in lines[:limit]:
            self.line(f"  {line}", style)
        self._write_more(len(lines), limit)

    def _write_more(self, count: int, limit: int | None) -> None:
        if limit is not None and count > limit:
            self.line(f"  … {count - limit:,} more; --json has all", Style.FAINT)

    def write_omitted(self, count: int, noun: str) -> None:
        """Write how many items are not shown and how to see them; nothing if `count` is 0."""
        if count:
            self.line(f"  … {pluralize(count, noun)} omitted; {self.way_to_all} shows all", Style.FAINT)


class TerminalPaper(Paper):
    """Writes a report to a terminal with Rich; text is never interpreted as Rich markup."""

    max_rows = 60
    max_formula_length = 300

    def __init__(self, stream: TextIO, width: int, colour: bool, digits: int | None = None) -> None:
        from rich.console import Console
        from rich.text import Text

        super().__init__(stream, digits)
        self._text = Text
        self.width = width
        self._console = Console(
            file=stream,
            width=width,
            color_system="standard" if colour else None,
            force_terminal=True,
            highlight=False,
            markup=False,
            emoji=False,
        )

    def line(self, text: str = "", style: Style = Style.PLAIN) -> None:
        """Write a line of text; a line that is too long is wrapped and indented."""
        for line in escape_controls(text).split("\n"):
            for piece in wrap_line(line, self.width):
                self._console.print(self._text(piece, style=style.value), soft_wrap=True)

    def table(self, table: TextTable, gap_after: int | None = None) -> None:
        """Write a table. If it is too wide, optional columns are dropped, by title and from left to right, until it
        fits; if it never does, each row becomes several lines.
        """
        first, last = self.head_and_tail(len(table.rows))
        shown = table._replace(rows=[*table.rows[:first], *table.rows[len(table.rows) - last :]]).escaped()
        for title in dict.fromkeys(column.title for column in shown.columns if column.is_optional):
            if not self.has_room_for(shown):
                shown = shown.pick_columns([k for k, column in enumerate(shown.columns) if column.title != title])
        write = self._write_columns if self.has_room_for(shown) else self._write_stacked
        write(shown, first if first + last < len(table.rows) else gap_after)
        self.write_omitted(len(table.rows) - first - last, "row")

    def has_room_for(self, table: TextTable) -> bool:
        """Whether all columns of a table fit side by side."""
        widths = zip(table.columns, table.escaped().widths(), strict=True)
        needed = (widest if column.is_number else min(widest, MIN_TEXT_WIDTH) for column, widest in widths)
        return sum(needed) + COLUMN_GAP * len(table.columns) - 1 <= self.width  # a blank at each end

    def _write_columns(self, table: TextTable, gap_after: int | None) -> None:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        rich_table = Table(box=SIMPLE_HEAD, padding=(0, COLUMN_GAP // 2), show_edge=False)
        for column in table.columns:
            rich_table.add_column(
                column.title,
                justify="right" if column.is_number else "left",
                no_wrap=column.is_number,
                overflow="fold",
                style="" if column.is_number else "cyan",
            )
        for count, row in enumerate(table.rows, 1):
            rich_table.add_row(*row)
            if count == gap_after:
                rich_table.add_row(*["…" for _ in table.columns], style=Style.FAINT.value)
        self._console.print(rich_table)

    def _write_stacked(self, table: TextTable, gap_after: int | None) -> None:
        first, *others = table.columns
        width = max((display_width(column.title) for column in others), default=0)
        for count, (head, *cells) in enumerate(table.rows, 1):
            self.line(f"  {first.title} {head}" if first.is_number else f"  {head}", Style.STRONG)
            for column, cell in zip(others, cells, strict=True):
                self.line(f"    {column.title:<{width}} {cell}")
            if count == gap_after:
                self.line("  …", Style.FAINT)


class OutputGuard:
    """A context in which a stream may fail: further output is then discarded, and work that also writes files
    continues.

    Attributes:
        error: the reason for which output was lost; None if nothing was lost, or if its reader closed it (`| head`).
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def __enter__(self) -> None:
        """Enter the context, which may be done many times."""

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> bool:
        """Discard further output to the stream if it failed."""
        if not isinstance(error, OSError):
            return False
        if not isinstance(error, BrokenPipeError):
            self.error = error
        discard_output(self._stream)
        return True


def discard_output(stream: TextIO) -> None:
    """Redirect a stream to the null device, so that Python does not report buffered output as lost at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def aligned_lines(table: TextTable) -> Iterable[str]:
    """Yield the lines of a table, titles first, with every column as wide as its longest cell."""
    table = table.escaped()
    widths = table.widths()
    for row in (tuple(column.title for column in table.columns), *table.rows):
        cells = []
        for cell, width, column in zip(row, widths, table.columns, strict=True):
            blank = " " * (width - display_width(cell))
            cells.append(blank + cell if column.is_number else cell + blank)
        yield ("  " + "  ".join(cells)).rstrip()


class Report(NamedTuple):
    """The result of a command, which can be written as text or as JSON.

    Attributes:
        write: writes the report on a paper.
        documents: returns the JSON documents: one, or one per point where there are many points.
        is_data: whether the text is a file format such as CSV or SVG, which is written unchanged on every paper.

    >>> import sys
    >>> report = Report(lambda paper: paper.line("value = 6"), lambda: [{"value": 6.0}])
    >>> report.write(Paper(sys.stdout))
    value = 6
    >>> [*report.documents()]
    [{'value': 6.0}]
    """

    write: Callable[[Paper], None]
    documents: Callable[[], Iterable[Mapping[str, Any]]]
    is_data: bool = False


def text_report(text: str, documents: Callable[[], Iterable[Mapping[str, Any]]] = list) -> Report:
    """Return the report that is a text in a file format, such as source code or a drawing."""
    return Report(lambda paper: paper.stream.writelines([text]), documents, is_data=True)


def combine_reports(*reports: Report, gap: bool = False) -> Report:
    """Combine reports that have one document each: the texts follow each other, the documents are merged.

    Args:
        gap: whether to write an empty line between the texts.
    """

    def write(paper: Paper) -> None:
        for count, report in enumerate(reports):
            if gap and count:
                paper.line()
            report.write(paper)

    def document() -> dict[str, Any]:
        return {name: value for report in reports for part in report.documents() for name, value in part.items()}

    return Report(write, lambda: [document()])


def dumps(document: Mapping[str, Any]) -> str:
    """Return a document as JSON text on one line; see `to_json`."""
    import json  # slow to import, and reports in text do not need it

    from autodiff_cli.data.json_records import to_json

    return json.dumps(to_json(document), allow_nan=False) + "\n"


# --- Plots in characters ---


def dot_plot(
    box: Mapping[str, tuple[float, float]],
    dots: Sequence[Sequence[float]],
    points: Sequence[Sequence[float]],
    size: tuple[int, int],
    has_axes: bool = False,
) -> list[str]:
    """Return the lines of a plot of dots along a curve or contours, with marked points.

    Args:
        box: the ranges of x and y, by name.
        dots: x and y of the dots.
        points: x and y of the marked points; empty if there are none.
        size: the columns and lines of the plot.
        has_axes: whether lines show where x and y are 0.
    """
    figure = empty_plot(size, *box.values())
    figure.origin = has_axes
    spans = [high - low for low, high in box.values()]
    figure.x_ticks_fkt = lambda value, _: tick_label(value, spans[0], is_exponent=False)
    figure.y_ticks_fkt = lambda value, _: tick_label(value, spans[1], is_exponent=False)
    figure.scatter(*dots)
    if any(map(len, points)):
        figure.scatter(*points, marker="o")
    return plot_lines(figure)


def empty_plot(size: tuple[int, int], x_limits: tuple[float, float], y_limits: tuple[float, float]) -> Any:
    """Return a figure of plotille without names of axes.

    Args:
        size: its columns and lines.
    """
    import plotille

    figure = plotille.Figure()
    (figure.width, figure.height), figure.with_colors, figure.origin = size, False, False
    figure.set_x_limits(*x_limits)
    figure.set_y_limits(*y_limits)
    figure.x_label = figure.y_label = ""
    return figure


def plot_lines(figure: Any) -> list[str]:
    """Return the lines of a figure of plotille."""
    return [line.removesuffix("-> ()").rstrip() for line in figure.show().splitlines()[1:]]


def tick_label(value: float, span: float, is_exponent: bool) -> str:
    """Return a number as the label of a tick on an axis of length `span`.

    Args:
        is_exponent: whether the number is the exponent of a power of 10 that is shown.
    """
    if is_exponent:
        return f"{10**value:.3g}"
    return f"{float(f'{value:.3g}'):g}" if abs(value) > span / 500 else "0"
