"""What reports are written on: headings, lines, tables.

`Paper` is for pipes and files: plain aligned lines, nothing wrapped, nothing left out. `TerminalPaper` (in `terminal`)
has the same methods for people at a terminal; only there is Rich imported.
"""

from __future__ import annotations

import contextlib
import enum
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TextIO

from autodiff_cli.render.text import columns, counted, on_one_line, visible


class Style(enum.Enum):
    """What a line is, which a terminal may show by colour."""

    PLAIN = ""
    STRONG = "bold"
    FAINT = "dim"
    WARNING = "yellow"


class Column(NamedTuple):
    """A column of a table. Numbers stand on the right and are never broken; where room is scarce, a dispensable column
    is not shown."""

    title: str
    is_number: bool = False
    is_dispensable: bool = False


class TextTable(NamedTuple):
    """Columns and rows of text."""

    columns: tuple[Column, ...]
    rows: Sequence[tuple[str, ...]]

    def visible(self) -> TextTable:
        """The same with every title and cell on one line, and without orders to a terminal."""
        titles = tuple(column._replace(title=on_one_line(column.title)) for column in self.columns)
        return TextTable(titles, [tuple(map(on_one_line, row)) for row in self.rows])


class Paper:
    """Plain lines on a stream.

    Attributes:
        stream: what lines are written to; the text of a file format goes there as it is.
        width: the columns that a drawing may take.
        most: how many rows or steps of one kind to show; None for all.
        longest: how many characters of one formula to show; None for all.
    """

    width: int = 80
    most: int | None = None
    longest: int | None = None

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def line(self, text: str = "", style: Style = Style.PLAIN) -> None:  # noqa: ARG002 - paper has no colour
        """A line of text, or several."""
        self.stream.write(visible(text) + "\n")

    def verbatim(self, text: str) -> None:
        """A line to copy: it is never broken, so that a terminal that wraps it still copies one line."""
        self.stream.write(f"  {visible(text)}\n")

    def flush(self) -> None:
        """Let whoever reads see what has been written so far."""
        self.stream.flush()

    def heading(self, text: str) -> None:
        """A line that begins a part."""
        self.line()
        self.line(text, Style.STRONG)

    def table(self, table: TextTable) -> None:
        """A table under the titles of its columns."""
        for row in aligned(table):
            self.stream.write(row + "\n")

    def fits(self, table: TextTable) -> bool:  # noqa: ARG002 - a pipe has no edge
        """Whether there is room for the columns of a table side by side."""
        return True

    def shown(self, count: int) -> tuple[int, int]:
        """Of `count` rows, how many to show from the beginning and from the end."""
        if self.most is None or count <= self.most:
            return count, 0
        return self.most // 2, self.most // 2

    def left_out(self, count: int, thing: str) -> None:
        """Say how many things are not shown, and where to see them."""
        if count:
            self.line(f"  … {counted(count, thing)} left out; a pipe (| less) and --json show all", Style.FAINT)


class LastingPaper(Paper):
    """Plain lines on a stream, of which the rest is lost where nobody reads it any more."""

    def line(self, text: str = "", style: Style = Style.PLAIN) -> None:
        """See `Paper.line`."""
        with unheard(self.stream):
            super().line(text, style)

    def flush(self) -> None:
        """See `Paper.flush`."""
        with unheard(self.stream):
            super().flush()


@contextlib.contextmanager
def unheard(stream: TextIO) -> Iterator[None]:
    """Go on where whoever read a stream has seen enough (`| head`), as there is more to do than to say."""
    try:
        yield
    except BrokenPipeError:
        silence(stream)


def silence(stream: TextIO) -> None:
    """Let nobody hear what is written from now on, and what is waiting to be: Python would complain of it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def aligned(table: TextTable) -> Iterable[str]:
    """The lines of a table, titles first, in columns that are as wide as they need to be."""
    table = table.visible()
    rows = [tuple(column.title for column in table.columns), *table.rows]
    widths = [max(columns(row[k]) for row in rows) for k in range(len(table.columns))]
    for row in rows:
        cells = [
            " " * (width - columns(cell)) + cell if column.is_number else cell + " " * (width - columns(cell))
            for cell, width, column in zip(row, widths, table.columns, strict=True)
        ]
        yield ("  " + "  ".join(cells)).rstrip()
