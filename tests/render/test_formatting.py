"""Numbers are shown in full, or to as many digits as were asked for."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import read
from autodiff_cli.render.formatting import (
    display_width,
    in_print,
    number_formats,
    shortest_text,
    text_within,
    wrap_line,
)
from tests.texts import formulas


@given(st.floats(allow_nan=False))
def test_in_full_reads_back_the_same(x: float) -> None:
    assert float(shortest_text(x)) == x
    assert not shortest_text(x).endswith(".0")


@given(st.floats(-1e300, 1e300), st.integers(1, 17))
def test_digits_bound_the_error(x: float, digits: int) -> None:
    result, brief = number_formats(digits)
    assert result(x) == brief(x)
    assert math.isclose(float(result(x)), x, rel_tol=0.5001 * 10.0 ** (1 - digits), abs_tol=1e-320)


def test_without_digits_results_are_in_full_and_tables_are_brief() -> None:
    result, brief = number_formats(None)
    assert (result(math.pi), brief(math.pi)) == ("3.141592653589793", "3.14159")


def test_numbers_beyond_floats_and_decimals_are_rounded_too() -> None:
    _, brief = number_formats(None)
    assert brief("3.14159265358979323846e+301029995663981195213738894724") == "3.14159e+301029995663981195213738894724"
    assert brief("-9.99999999991e-1234567") == "-1.00000e-1234566"
    assert brief("-1" + "0" * 400 + ".000") == "-1.00000e+400"
    assert [brief(text) for text in ("0.0", "nan", "-inf", "1.50000")] == ["0", "nan", "-inf", "1.5"]


def test_arrays_are_shown_in_full_up_to_a_hundred_numbers_and_in_tables_up_to_six() -> None:
    for show, most in zip(number_formats(None), (100, 6), strict=True):
        assert show(np.arange(float(most))).count(",") == most - 1
        assert show(np.arange(most + 1.0)) == f"{most + 1} from 0 to {most}"
        assert show(np.full((most, 2), 0.5)) == f"{most}×2, all 0.5"


def test_an_array_in_less_room_loses_one_digit_after_the_other_and_then_its_elements() -> None:
    x, brief = np.array([1, 2, 4]).repeat(2) / 7, number_formats(None)[1]
    texts = [text_within(x, brief, width) for width in range(70, 0, -1)]
    lists = [str([round(number, digits) for number in x.tolist()]) for digits in range(6, 1, -1)]
    assert [*dict.fromkeys(texts)] == [*lists, "6 from 0.143 to 0.571", "6 from 0.14 to 0.57"]
    assert all(len(text) <= width for text, width in zip(texts, range(70, 18, -1), strict=False))
    assert text_within(1 / 3, brief, 2) == "0.333333"


@given(st.lists(st.text("aä漢", min_size=1, max_size=4), min_size=1, max_size=20), st.integers(0, 6))
def test_a_long_line_is_broken_at_spaces_where_no_further_word_fits(words: list[str], indent: int) -> None:
    line = " " * indent + " ".join(words)
    for width in range(20, 60):
        first, *later = wrap_line(line, width)
        assert first.startswith(" " * indent + words[0])
        assert " ".join(text.strip() for text in (first, *later)).split() == words
        assert all(display_width(text) <= width for text in (first, *later))
        assert len({len(text) - len(text.lstrip()) for text in later}) <= 1
        for text, following in zip((first, *later), later, strict=False):
            assert display_width(f"{text} {following.split()[0]}") > width


def test_a_word_that_is_longer_than_a_line_is_broken() -> None:
    for width in range(4, 20):
        lines = [*wrap_line("  " + "漢字" * 20, width)]
        assert "".join(text.strip() for text in lines) == "漢字" * 20
        assert {display_width(text) for text in lines[1:-1]} <= {width, width - 1}
        assert lines[0].startswith("  漢")


FORMS = [
    "{} - {}",
    "-{}",
    "{}*{}",
    "{}^{}",
    "{}**2",
    "{}^-2",
    "{}^2^3",
    "{}^x",
    "2^-{}",
    "{} <= {}",
    "{} != {}",
    "{}*`a-b`",
    "1e-5*{}",
]


@given(formulas(FORMS) | formulas(FORMS).map(lambda text: to_text(read(text).output, share=False)))
def test_a_formula_in_print_is_the_same_formula(text: str) -> None:
    printed = in_print(text)
    assert to_text(read(printed).output) == to_text(read(text).output)
    assert not any(sign in printed.replace("`a-b`", "").replace("e-5", "") for sign in ("*", "-", "<=", "!="))
