"""Arrays as rows of text: every number in its column, and shades where there are too many."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.render.formatting import number_formats
from autodiff_cli.render.trace import GRID_WIDTH, array_lines
from tests.support import run_cli

SHOW = number_formats(None)[1]
NUMBERS = st.floats(-1e3, 1e3).map(lambda x: round(x, 2))


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_each_number_stands_in_its_row_under_those_of_its_column(rows: int, columns: int, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.lists(NUMBERS, min_size=columns, max_size=columns), min_size=rows, max_size=rows))
    lines = [*array_lines(np.array(numbers), SHOW, "W")]
    assert lines[0].startswith("W  ")
    cells = [line[1:].split() for line in lines]
    assert cells == [[SHOW(x) for x in row] for row in numbers]
    ends = [
        [at for at in range(1, len(line) + 1) if line[at - 1] != " " and line[at : at + 1] in ("", " ")]
        for line in lines
    ]
    assert len({tuple(row[-columns:]) for row in ends}) == 1


def test_what_does_not_fit_is_shades_by_size() -> None:
    numbers = np.zeros((3, 30))
    numbers[1, 2], numbers[1, 3], numbers[2, 4] = -4.0, 2.0, np.nan
    lines = [*array_lines(numbers * 1.001, SHOW)]
    assert lines[:3] == ["|" + " " * 30 + "|", "|  █▒" + " " * 26 + "|", "|    !" + " " * 25 + "|"]
    assert lines[3] == "darker is larger in magnitude, up to 4.004"
    for label, count in (("", 24), ("W", 23)):  # of one digit: with gaps and label 70 columns
        for longer in range(5):
            row = [10.0] * longer + [1.0] * (count - longer)
            first, *others = array_lines(np.array(row), SHOW, label)
            assert first == f"{label}  {'  '.join(map(SHOW, row))}".lstrip() if longer <= 2 else others
    assert [len([*array_lines(np.ones((count, 2)), SHOW)]) for count in (12, 13)] == [12, 11]


def test_a_large_array_takes_no_more_room_than_a_window() -> None:
    lines = [*array_lines(np.arange(1e4).reshape(100, 100), SHOW, "weights")]
    assert len(lines) == 11
    assert max(map(len, lines)) <= GRID_WIDTH


def test_a_vector_is_one_row_and_more_axes_are_many() -> None:
    assert [*array_lines(np.arange(8.0), SHOW)] == ["0  1  2  3  4  5  6  7"]
    assert [*array_lines(np.arange(8.0).reshape(2, 2, 2), SHOW)] == ["0  1", "2  3", "4  5", "6  7"]


def test_the_steps_of_a_trace_show_the_arrays_that_no_line_has_room_for() -> None:
    words = ["sum(tanh(W @ x))", "--W", "[[1, 2, 0.5, 1], [3, 4, -1, 2]]", "--x", "[1, -1, 2, 1]"]
    report = run_cli(["trace", *words]).splitlines()
    at = next(k for k, line in enumerate(report) if line.startswith("  1. W @ x"))
    assert report[at + 1 : at + 3] == ["       W  1  2  0.5  1", "          3  4   -1  2"]
    at = next(k for k, line in enumerate(report) if line.startswith("       W: outer(adjoint, x)"))
    document = run_cli(["trace", *words, "--json"]).json
    shown = [[float(text) for text in line.split()] for line in report[at + 1 : at + 3]]
    assert np.allclose(shown, document["gradient"]["W"], rtol=1e-5)
