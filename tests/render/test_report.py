"""A pipe gets everything in aligned lines; a terminal gets what fits, and no number is ever cut."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.render.formatting import display_width
from autodiff_cli.render.report import Column, Paper, Style, TerminalPaper, TextTable
from tests.each import each

TITLES = (Column("id", is_number=True, is_optional=True), Column("node"), Column("value", is_number=True))
ROWS = st.lists(
    st.tuples(st.integers(0, 999).map(str), st.text("xyz+*[]λ変 ", min_size=1, max_size=40), st.floats().map(repr)),
    min_size=1,
    max_size=8,
)


def in_terminal(table: TextTable, width: int, colour: bool = False) -> str:
    stream = io.StringIO()
    TerminalPaper(stream, width, colour).table(table)
    return stream.getvalue()


def in_pipe(table: TextTable) -> str:
    stream = io.StringIO()
    Paper(stream).table(table)
    return stream.getvalue()


@given(ROWS)
def test_lines_of_a_pipe_are_aligned_and_complete(rows: list[tuple[str, ...]]) -> None:
    lines = in_pipe(TextTable(TITLES, rows)).splitlines()
    assert len(lines) == 1 + len(rows)
    assert len({display_width(line) for line in lines}) == 1
    assert [line.split()[-1] for line in lines] == ["value", *(row[2] for row in rows)]


@given(ROWS, st.integers(40, 120))
def test_a_terminal_shows_every_number_whole_within_its_width(rows: list[tuple[str, ...]], width: int) -> None:
    drawn = in_terminal(TextTable(TITLES, rows), width)
    assert all(display_width(line.rstrip()) <= width for line in drawn.splitlines())
    words = drawn.split()
    assert all(row[2] in words for row in rows)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_no_number_of_any_column_is_cut_at_any_width(count: int) -> None:
    numbers = [f"{10.0**-k / 7:.5e}" for k in range(count)]
    for texts in (0, 1, 2):
        columns = [
            *(Column(f"text {k}") for k in range(texts)),
            *(Column(f"n{k}", is_number=True) for k in range(count)),
        ]
        table = TextTable(tuple(columns), [(*["word"] * texts, *numbers)])
        for width in range(30, 14 * (count + texts)):
            lines = in_terminal(table, width).splitlines()
            assert {*numbers} <= {*" ".join(lines).split()}
            assert all(display_width(line) <= width for line in lines)


def test_a_dispensable_column_goes_first_and_then_rows_are_stacked() -> None:
    table = TextTable(TITLES, [("0", "x*y + sin(x)", "0.90929742682568171")])
    assert "id" in in_terminal(table, 60).split()
    assert "id" not in in_terminal(table, 38).split()
    assert in_terminal(table, 30) == "  x*y + sin(x)\n    value 0.90929742682568171\n"


def test_stacked_rows_are_labelled() -> None:
    table = TextTable((Column("id", is_number=True), Column("operation"), Column("keeps")), [("2", "mul", "w, x")])
    assert in_terminal(table, 20) == "  id 2\n    operation mul\n    keeps     w, x\n"


def test_a_long_table_shows_its_ends_and_counts_omitted_rows() -> None:
    table = TextTable(TITLES, [(str(i), f"n{i}", "1") for i in range(1000)])
    drawn = in_terminal(table, 80)
    assert "n0 " in drawn
    assert "n999 " in drawn
    assert "940 rows omitted" in drawn
    assert "--json" in drawn
    assert in_pipe(table).count("\n") == 1001


@each("most", [None, 2, 5, 12])
@each("count", range(16))
def test_long_lists_show_their_ends_or_their_start_and_count_the_rest(count: int, most: int | None) -> None:
    def lines(write: Callable[[Paper], None]) -> list[str]:
        paper = Paper(io.StringIO())
        paper.max_rows = most
        write(paper)
        return paper.stream.getvalue().split()  # type: ignore[attr-defined]

    items = [*map(str, range(1000, 1000 + count))]
    shown = lines(lambda paper: paper.write_items(items, paper.line, "item"))
    half = count if most is None or count <= most else most // 2
    omitted = ["…", str(count - 2 * half), *shown[half + 2 : len(shown) - half]] if half < count else []
    assert shown == [*items[:half], *omitted, *(items[-half:] if half < count else [])]
    assert not omitted or omitted[2].startswith("item")
    rest = f"… {count - most} more; --json has all".split() if most is not None and count > most else []
    title = ["title"] if items else []
    assert lines(lambda paper: paper.section("title", items, limit=most)) == [*title, *items[:most], *rest]


def test_shortened_tables_show_where_rows_are_left_out() -> None:
    """At all widths: with all columns, without the optional ones, and with rows below each other."""
    columns = [Column("name", is_number=False), Column("first"), Column("second", is_optional=True)]
    rows = [(f"row {k}", "1.2345678", "1.2345678") for k in range(9)]
    for width in (80, 25, 12):
        paper = TerminalPaper(stream := io.StringIO(), width, False)
        paper.max_rows = 4
        paper.table(TextTable(columns, rows))
        before, after = re.split("…", stream.getvalue(), maxsplit=1)
        assert ("row 1" in before, "row 7" in after) == (True, True)
        assert "row 7" not in before
        assert ("second" in before) is (width == 80)


def test_a_narrow_table_loses_no_more_optional_columns_than_necessary() -> None:
    columns = [Column("name"), *(Column(title, True, is_optional=True) for title in ("t", "p", "interval", "t"))]
    table = TextTable(columns, [("a", "137.49", "<2e-16", "4.888 to 5.049", "2.5")])
    shown = {}
    for width in range(20, 60):
        stream = io.StringIO()
        TerminalPaper(stream, width, False).table(table)
        shown[width] = stream.getvalue().split("\n")[0].split()
    assert [shown[width] for width in (59, 40, 30)] == [
        ["name", "t", "p", "interval", "t"],
        ["name", "p", "interval"],
        ["name", "interval"],
    ]
    assert all(len(shown[width]) <= len(shown[width + 1]) for width in range(20, 59))


def test_text_is_never_markup() -> None:
    assert "[red]x[/red]" in in_terminal(TextTable(TITLES, [("0", "[red]x[/red]", "1")]), 80)


def test_without_colour_there_are_no_escape_sequences() -> None:
    table = TextTable(TITLES, [("0", "x", "1")])
    assert "\x1b" not in in_terminal(table, 80)
    assert "\x1b[36m" in in_terminal(table, 80, colour=True)


@given(st.text(" x*+λ変.", max_size=200), st.integers(4, 79))
def test_a_long_line_goes_on_below_without_losing_a_character(text: str, width: int) -> None:
    stream = io.StringIO()
    TerminalPaper(stream, width, False).line(text, Style.WARNING)
    lines = stream.getvalue().splitlines()
    assert all(display_width(line) <= width for line in lines)
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", text)
