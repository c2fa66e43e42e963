"""Reports at a terminal: with colour, tables that fit the width, and at most as many rows as people read.

This module imports Rich, so it is imported only when the output is a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

import rich.box
import rich.table
from rich.console import Console
from rich.text import Text

from autodiff_cli.render.formatting import display_width, escape_controls, wrap_line
from autodiff_cli.render.report import Column, Paper, Style, TextTable

MIN_TEXT_WIDTH = 12  # a narrower column of wrapped text is unreadable
COLUMN_GAP = 2  # spaces between the columns of a table


class TerminalPaper(Paper):
    """Writes a report to a terminal with Rich; text is never interpreted as Rich markup."""

    max_rows = 60
    max_formula_length = 300

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
        """Write a line of text; a line that is too long is wrapped and indented."""
        for line in escape_controls(text).split("\n"):
            for piece in wrap_line(line, self.width):
                self._console.print(Text(piece, style=style.value), soft_wrap=True)

    def table(self, table: TextTable) -> None:
        """Write a table. If it is too wide, optional columns are dropped, or each row becomes several lines."""
        first, last = self.head_and_tail(len(table.rows))
        titles, rows = TextTable(table.columns, [*table.rows[:first], *table.rows[len(table.rows) - last :]]).escaped()
        gap_after = first if first + last < len(table.rows) else None
        needed = [k for k, column in enumerate(titles) if not column.is_optional]
        narrow = [titles[k] for k in needed], [[row[k] for k in needed] for row in rows]
        if self._has_room_for(titles, rows):
            self._write_columns(titles, rows, gap_after)
        elif self._has_room_for(*narrow):
            self._write_columns(*narrow, gap_after)
        else:
            self._write_stacked(*narrow, gap_after)
        self.write_omitted(len(table.rows) - first - last, "row")

    def has_room_for(self, table: TextTable) -> bool:
        """Whether all columns of a table fit side by side."""
        return self._has_room_for(*table.escaped())

    def _has_room_for(self, titles: Sequence[Column], rows: Sequence[Sequence[str]]) -> bool:
        needed = 0
        for k, column in enumerate(titles):
            widest = max(display_width(text) for text in (column.title, *(row[k] for row in rows)))
            needed += COLUMN_GAP + (widest if column.is_number else min(widest, MIN_TEXT_WIDTH))
        return needed <= self.width

    def _write_columns(self, titles: Sequence[Column], rows: Sequence[Sequence[str]], gap_after: int | None) -> None:
        rich_table = rich.table.Table(box=rich.box.SIMPLE_HEAD, padding=(0, COLUMN_GAP // 2), show_edge=False)
        for column in titles:
            rich_table.add_column(
                column.title,
                justify="right" if column.is_number else "left",
                no_wrap=column.is_number,
                overflow="fold",
                style="" if column.is_number else "cyan",
            )
        for count, row in enumerate(rows, 1):
            rich_table.add_row(*row)
            if count == gap_after:
                rich_table.add_row(*["…" for _ in titles], style=Style.FAINT.value)
        self._console.print(rich_table)

    def _write_stacked(self, titles: Sequence[Column], rows: Sequence[Sequence[str]], gap_after: int | None) -> None:
        first, *others = titles
        width = max((display_width(column.title) for column in others), default=0)
        for count, (head, *cells) in enumerate(rows, 1):
            self.line(f"  {first.title} {head}" if first.is_number else f"  {head}", Style.STRONG)
            for column, cell in zip(others, cells, strict=True):
                self.line(f"    {column.title:<{width}} {cell}")
            if count == gap_after:
                self.line("  …", Style.FAINT)
