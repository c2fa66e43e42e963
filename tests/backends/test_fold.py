"""The fold combines in one order, that of a balanced tree, whatever it combines."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.backends.reductions import block_slices, fold


@given(st.lists(st.text("abc", max_size=3), min_size=1, max_size=40))
def test_the_parts_stay_in_order(parts: list[str]) -> None:
    assert fold(parts, operator.add) == "".join(parts)


def test_the_tree_is_balanced() -> None:
    assert fold("abcdefg", lambda left, right: f"({left}{right})") == "(((ab)(cd))((ef)g))"


def test_rounding_errors_do_not_pile_up() -> None:
    assert fold([0.1] * 2**16, operator.add) == 0.1 * 2**16


def test_nothing_has_no_combination() -> None:
    with pytest.raises(ValueError, match="nothing"):
        fold([], operator.add)


@given(st.integers(0, 50), st.integers(1, 9))
def test_blocks_are_all_rows_in_order(rows: int, size: int) -> None:
    blocks = [range(rows)[part] for part in block_slices(rows, size)]
    assert [row for block in blocks for row in block] == [*range(rows)]
    assert {len(block) for block in blocks[:-1]} <= {size}


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=70), st.integers(0, 4))
def test_parts_of_a_power_of_two_fold_to_the_same_bits(numbers: list[float], k: int) -> None:
    folded = [fold(numbers[part], operator.add) for part in block_slices(len(numbers), 2**k)]
    assert fold(folded, operator.add) == fold(numbers, operator.add)
