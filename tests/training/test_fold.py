"""The fold combines in one order, that of a balanced tree, whatever it combines."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.training.fold import fold


@given(st.lists(st.text(max_size=3), min_size=1, max_size=40))
def test_the_parts_stay_in_order(parts: list[str]) -> None:
    assert fold(parts, operator.add) == "".join(parts)


def test_the_tree_is_balanced() -> None:
    assert fold("abcdefg", lambda left, right: f"({left}{right})") == "(((ab)(cd))((ef)g))"


def test_rounding_errors_do_not_pile_up() -> None:
    assert fold([0.1] * 2**16, operator.add) == 0.1 * 2**16


def test_nothing_has_no_combination() -> None:
    with pytest.raises(ValueError, match="nothing"):
        fold([], operator.add)
