"""Columns that do not hold numbers: comparisons with quoted text, and parameters with levels."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff_cli as ad
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.language.names import ColumnNames, LevelParameter, TextMatch
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import Program, read
from autodiff_cli.numbers.floats import FLOATS
from tests.language.compare import identical
from tests.support import run_cli

NAMES = ["t", "group", "my city", "n"]
COLUMNS = ColumnNames(texts=["group", "my city"], levels=["group", "n"])
A = "(`group` == 'A')"


def of(text: str) -> Program:
    return read(text, NAMES, columns=COLUMNS)


@pytest.mark.parametrize(
    ("text", "cell", "value"),
    [
        ("t > 0 and group == 'A'", "A", 1.0),
        ("t > 0 and group == 'A'", "B", 0.0),
        ("'A' == group", "A", 1.0),
        ("group != 'A'", "A", 0.0),
        ("group ≠ 'A'", "B", 1.0),
        ("not group == 'A' or t < 0", "B", 1.0),
        ("3*(group == 'A') + t", "A", 4.0),
        ("x = group == 'A'; x + x", "A", 2.0),
        ("f(s) = s + (group == 'A'); f(f(0))", "A", 2.0),
    ],
)
def test_a_match_is_1_where_the_cell_has_the_text(text: str, cell: str, value: float) -> None:
    program = of(text)
    assert program.column_leaves == {A: TextMatch("group", "A")}
    point = {"t": 1.0, A: float(cell == "A")}
    assert forward(Tape((program.output,)), FLOATS, {name: point[name] for name in program.leaves})[-1] == value


def test_a_match_is_one_leaf_however_it_is_written() -> None:
    program = of("group == \"A\" or `group`=='A'")
    assert list(program.leaves) == [A]


def test_text_may_have_any_characters_but_those_that_enclose_it() -> None:
    assert of('`my city` == "L\'Aquila; # `x` == 2"').column_leaves.popitem()[1] == TextMatch(
        "my city", "L'Aquila; # `x` == 2"
    )


def test_a_level_is_a_leaf_with_its_parameter_and_column() -> None:
    program = of("t ~ a[group]*exp(-b*t) + `c d`[n]")
    assert program.column_leaves == {
        "a[`group`]": LevelParameter("a", "group"),
        "`c d`[`n`]": LevelParameter("c d", "n"),
    }
    assert list(program.leaves) == ["t", "a[`group`]", "b", "`c d`[`n`]"]
    assert program.arrays == frozenset()


def test_the_leaves_of_columns_stand_where_they_are_written() -> None:
    source = of("t*a[group] + 2*(group != 'A')").source
    text = "t*a[group] + 2*(group != 'A')"
    program = of(text)
    first, second = program.output.inputs
    spans = [program.source.span(node) for node in (first.inputs[1], second.inputs[1])]
    assert [text[slice(*span)] for span in spans if span] == ["a[group]", "group != 'A'"]
    assert source.text == text


@pytest.mark.parametrize("text", ["group != 'A'", "a[group]*t + 2*(`my city` == 'B')", '-(group == "it\'s")'])
def test_what_is_printed_reads_back(text: str) -> None:
    program = of(text)
    again = of(to_text(program.output))
    assert identical(again.output, program.output)
    assert again.column_leaves == program.column_leaves


@pytest.mark.parametrize(
    ("text", "column", "message", "suggestion"),
    [
        ("group + 1", 1, "`group` is a column of text; it can only be compared with quoted text", None),
        ("`my city`", 1, "by `==` or `!=`, as in ``my city` == 'A'`", None),
        ("group < 'A'", 1, "`group` is a column of text; it can only be compared with quoted text", None),
        ("group == 3", 1, "`group` is a column of text; it can only be compared with quoted text", None),
        ("group == `my city`", 1, "`group` is a column of text; it can only be compared with quoted text", None),
        ("t == 'A'", 6, "columns of text: `group`, `my city`", None),
        ("grop == 'A'", 9, "quoted text can only be compared with a column of text", "group"),
        ("t > '2020-01-31'", 5, "this is a date, but a number is needed: write the seconds", None),
        ("group < '31.1.2020 12:00'", 1, "`group` is a column of text", None),
        ("t + 'A'", 5, "quoted text can only be compared with a column of text", None),
        ("1 < group == 'A'", 5, "`group` is a column of text; it can only be compared with quoted text", None),
        ("group == 'A' == 1", 1, "`group` is a column of text; it can only be compared with quoted text", None),
        ("f(group) = group == 'A'; f(1)", 21, "quoted text can only be compared with a column of text", None),
        ("h = 2; h[group]", 9, "`h` is bound in this text", None),
        ("f(a) = a[group]; f(1)", 9, "`a` is bound in this text", None),
        ("pi[group]", 3, "`pi` is a constant", None),
        ("(a + b)[group]", 9, "`group` is a column of text; it can only be compared with quoted text", None),
        ("a[t]", 3, "the data have no column `t` (", None),
    ],
)
def test_what_means_nothing_is_refused(text: str, column: int, message: str, suggestion: str | None) -> None:
    with pytest.raises(ExpressionError) as caught:
        of(text)
    assert message in caught.value.message
    assert (caught.value.column, caught.value.suggestion) == (column, suggestion)


PIECES = [
    "group",
    "`my city`",
    "t",
    "a[group]",
    "[n]",
    "'A'",
    '"B"',
    "==",
    "!=",
    "<",
    "and",
    "not ",
    "(",
    ")",
    "+",
    "-",
]


@given(st.lists(st.sampled_from([*PIECES, "f(group) =", "x =", ";", ",", "2", "²", "max(", "~"])).map(" ".join))
def test_any_text_with_columns_reads_and_prints_or_is_refused_with_a_reason(text: str) -> None:
    try:
        program = of(text)
    except ExpressionError:
        return
    assert identical(of(to_text(program.output)).output, program.output)


def test_a_comparison_with_text_may_be_written_from_both_sides(tmp_path: Path) -> None:
    """Also if no other place says that the column holds text."""
    data = {"y": [1.0, 2, 4, 8], "x": [1.0, 2, 3, 5], "g": ["A", "B", "A", "B"], "k": ["07", "1", "07", "1"]}
    path = tmp_path / "data.csv"
    path.write_text("y,x,g,k\n" + "".join(f"{','.join(map(str, row))}\n" for row in zip(*data.values(), strict=True)))
    for sign, (column, text) in itertools.product(("==", "!="), (("g", "A"), ("g", "B"))):
        sides = f"{column} {sign} '{text}'", f"'{text}' {sign} {column}"
        first, second = (ad.fit(f"y ~ a*x + b*({side})", data) for side in sides)
        assert first.parameters == second.parameters
        assert first.predict(data).tolist() == second.predict(data).tolist()
        selected = [run_cli(["train", "y ~ a*x", str(path), "--where", side, "--json"]).json for side in sides]
        assert selected[0]["parameters"] == selected[1]["parameters"]
        traces = [
            run_cli(["trace", f"y ~ a*x + b*({side})", str(path), "--row", "2", "--a", "2", "--b", "1", "--json"]).json
            for side in sides
        ]
        assert traces[0]["value"] == traces[1]["value"]
