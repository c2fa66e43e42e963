"""No text can give a terminal orders, and its width is known."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.render.text import columns, on_one_line, shortened, visible


@given(st.text())
def test_what_is_visible_has_no_control_character(text: str) -> None:
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs") for c in visible(text) if c != "\n")


def test_controls_are_shown_as_their_codes() -> None:
    assert visible("a\x1b[31m\u202eb\ud800\n") == "a\\x1b[31m\\u202eb\\ud800\n"


@given(st.text(alphabet="xyzλ₁é+*() "))
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_columns_are_counted_as_a_terminal_does() -> None:
    assert columns("x*y") == 3
    assert columns("x\u0302") == 1
    assert columns("変") == 2


def test_statements_stand_on_one_line() -> None:
    assert on_one_line("a = x\n\n  a*a\n") == "a = x; a*a"


def test_what_is_left_out_of_a_long_text_is_counted() -> None:
    assert shortened("x" * 30, 10) == "xxxxx … (20 characters) … xxxxx"
    assert shortened("x" * 10, 10) == "x" * 10
    assert shortened("x" * 30, None) == "x" * 30
