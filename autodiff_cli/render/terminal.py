"""Paper for people at a terminal: colour, boxes, and never more rows than one can read.

Imported only where there is a terminal, because it imports Rich.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

import rich.box
import rich.table
from rich.console import Console
from rich.text import Text

from autodiff_cli.render.paper import Column, Paper, Style, TextTable
from autodiff_cli.render.text import columns, visible, wrapped

LEAST_TEXT = 12  # columns that a column of text needs to be readable
GAP = 2


class TerminalPaper(Paper):
    """Lines and tables through Rich. Text is never read as Rich's markup."""

    most = 60
    longest = 300

    def __init__(self, stream: TextIO, width: int, colour: bool) -> None:
        super().__init__(stream)
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
        """A line of text; one that is too long goes on below, further in."""
        for line in visible(text).split("\n"):
            for piece in wrapped(line, self.width):
                self._print(piece, style)

    def table(self, table: TextTable) -> None:
        """The table; without its dispensable columns, or a few lines for each row, where numbers would not fit."""
        first, last = self.shown(len(table.rows))
        titles, rows = TextTable(table.columns, [*table.rows[:first], *table.rows[len(table.rows) - last :]]).visible()
        gap_after = first if first + last < len(table.rows) else None
        needed = [k for k, column in enumerate(titles) if not column.is_dispensable]
        narrow = [titles[k] for k in needed], [[row[k] for k in needed] for row in rows]
        if self._fits(titles, rows):
            self._side_by_side(titles, rows, gap_after)
        elif self._fits(*narrow):
            self._side_by_side(*narrow, gap_after)
        else:
            self._stacked(*narrow, gap_after)
        self.left_out(len(table.rows) - first - last, "row")

    def fits(self, table: TextTable) -> bool:
        """Whether there is room for the columns of a table side by side."""
        return self._fits(*table.visible())

    def _fits(self, titles: Sequence[Column], rows: Sequence[Sequence[str]]) -> bool:
        needed = 0
        for k, column in enumerate(titles):
            widest = max(columns(text) for text in (column.title, *(row[k] for row in rows)))
            needed += GAP + (widest if column.is_number else min(widest, LEAST_TEXT))
        return needed <= self.width

    def _side_by_side(self, titles: Sequence[Column], rows: Sequence[Sequence[str]], gap_after: int | None) -> None:
        drawn = rich.table.Table(box=rich.box.SIMPLE_HEAD, padding=(0, GAP // 2), show_edge=False)
        for column in titles:
            drawn.add_column(
                column.title,
                justify="right" if column.is_number else "left",
                no_wrap=column.is_number,
                overflow="fold",
                style="" if column.is_number else "cyan",
            )
        for count, row in enumerate(rows, 1):
            drawn.add_row(*row)
            if count == gap_after:
                drawn.add_row(*["…" for _ in titles], style=Style.FAINT.value)
        self._console.print(drawn)

    def _stacked(self, titles: Sequence[Column], rows: Sequence[Sequence[str]], gap_after: int | None) -> None:
        first, *others = titles
        width = max((columns(column.title) for column in others), default=0)
        for count, (head, *cells) in enumerate(rows, 1):
            self.line(f"  {first.title} {head}" if first.is_number else f"  {head}", Style.STRONG)
            for column, cell in zip(others, cells, strict=True):
                self.line(f"    {column.title:<{width}} {cell}")
            if count == gap_after:
                self.line("  …", Style.FAINT)

    def _print(self, line: str, style: Style) -> None:
        self._console.print(Text(line, style=style.value), soft_wrap=True)
