"""No text can give a terminal orders, and its width is known."""

from __future__ import annotations

import re
import string
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.language.errors import escape_controls
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import read
from autodiff_cli.render.formatting import LOOKALIKE_ERRORS, display_width, shorten_middle, single_line
from tests.support import run_cli
from tests.texts import CHARACTERS, grouped_texts


@given(st.text(CHARACTERS))
def test_what_is_visible_has_no_control_character(text: str) -> None:
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs") for c in escape_controls(text) if c != "\n")


def test_controls_are_shown_as_their_codes() -> None:
    assert escape_controls("a\x1b[31m\u202eb\ud800\n") == "a\\x1b[31m\\u202eb\\ud800\n"


@given(st.text(alphabet="xyzλ₁é+*() "))
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert escape_controls(text) == text


def test_what_an_encoding_lacks_is_shown_by_what_looks_like_it() -> None:
    assert "2 × 3 → λ ⠀⠙".encode("ascii", LOOKALIKE_ERRORS) == b"2 * 3 -> \\u03bb  *"
    assert "2 × 3 → λ".encode("latin-1", LOOKALIKE_ERRORS) == b"2 \xd7 3 -> \\u03bb"


def test_a_formula_without_the_characters_that_an_encoding_lacks_is_the_same_formula() -> None:
    for formula in ("x×y", "x·y", "x÷y", "x−y", "x²", "x≤y", "x≥y", "x≠y"):
        plain = formula.encode("ascii", LOOKALIKE_ERRORS).decode()
        assert to_text(read(plain).output) == to_text(read(formula).output), plain


@given(st.text(CHARACTERS))
def test_every_text_can_be_written_in_any_encoding(text: str) -> None:
    assert text.encode("ascii", LOOKALIKE_ERRORS).isascii()


def test_columns_are_counted_as_a_terminal_does() -> None:
    assert display_width("x*y") == 3
    assert display_width("x\u0302") == 1
    assert display_width("変") == 2


def test_statements_stand_on_one_line() -> None:
    assert single_line("a = x\n\n  a*a\n") == "a = x; a*a"
    assert single_line("a = x;\na*a") == "a = x; a*a"


def test_continued_statements_stay_together() -> None:
    assert single_line("a = max(x,\n  y\n)\na +\n1") == "a = max(x, y ); a + 1"


def test_a_comment_does_not_swallow_the_lines_below_it() -> None:
    assert single_line("# first\na = x  # then\na*a") == "a = x; a*a"
    assert single_line("x # the only line") == "x # the only line"
    assert single_line("a = x  # then\na*a") == "a = x; a*a"


@given(grouped_texts(), st.integers(0, 20))
def test_a_formula_on_one_line_is_the_same_formula(text: str, place: int) -> None:
    statements = text.split("; ")
    where = place % (len(statements) + 1)
    commented = "\n".join([*statements[:where], "  # so, to say", *statements[where:]])
    for lines in ("\n".join(statements), text.replace("; ", " # first\n"), commented):
        assert to_text(read(single_line(lines)).output) == to_text(read(text).output)


@given(st.lists(st.text(string.ascii_letters + "._123", min_size=1, max_size=12), min_size=20))
def test_a_long_text_is_shortened_between_words(words: list[str]) -> None:
    text = "*".join(words)
    for limit in range(60, 100):
        shown = shorten_middle(text, limit)
        head, note, tail = re.fullmatch(r"(.*?)( … \(\d+ characters\) … |$)(.*)", shown).groups()  # type: ignore[union-attr]
        if not note:
            assert len(text) < limit + len(" … (999 characters) … ")
            continue
        assert text.startswith(head)
        assert text.endswith(tail)
        assert max(len(head), len(tail)) <= limit // 2
        assert min(len(head), len(tail)) >= limit // 2 - 13
        assert note == f" … ({len(text) - len(head) - len(tail)} characters) … "
        for cut in (len(head), len(text) - len(tail)):
            assert "*" in text[cut - 1 : cut + 1]


@given(st.lists(st.text(string.ascii_letters + "._123", min_size=1, max_size=40), min_size=3), st.integers(1, 30))
def test_both_ends_of_a_long_text_are_shortened_by_the_same_rule(words: list[str], half: int) -> None:
    """A text that is read backwards is shortened to what the text is, but for the note."""
    text = "*".join(words)
    ends, mirrored = (shorten_middle(each, 2 * half).split(" … ") for each in (text, text[::-1]))
    assert [ends[0], ends[-1]] == [mirrored[-1][::-1], mirrored[0][::-1]]


def test_what_is_left_out_of_a_long_text_is_counted() -> None:
    assert shorten_middle("x" * 80, 10) == "xxxxx … (70 characters) … xxxxx"
    assert shorten_middle("x" * 30, 10) == "x" * 30  # a note as long as what it stands for says less
    assert shorten_middle("x" * 10, 10) == "x" * 10
    assert shorten_middle("x" * 30, None) == "x" * 30


def test_values_stand_below_each_other_beside_names_of_any_width() -> None:
    for command in ("grad", "trace", "grad --mode forward"):
        name, *options = command.split()
        text = run_cli([name, "温度*é*ab", "--温度", "2", "--é", "3", "--ab", "4", *options])
        slopes = [line for line in text.splitlines() if line.startswith("  d/d")]
        assert len(slopes) == 3
        assert len({display_width(line.partition(" = ")[0]) for line in slopes}) == 1
