"""Ranges of equally spaced numbers, and many points."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autodiff_cli import ExpressionError, parse
from autodiff_cli.formula.array_derivatives import BatchedGradient, Range
from tests.each import each

LARGEST = sys.float_info.max
ENDS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1e307, -1e308, 5e-324, LARGEST, -LARGEST])


@given(ENDS, ENDS, st.integers(2, 2**62), st.data())
def test_numbers_lie_between_ends_that_are_exact(start: float, stop: float, count: int, data: st.DataObject) -> None:
    some = data.draw(st.lists(st.integers(0, count - 1), max_size=5))
    with np.errstate(all="raise", under="ignore"):
        found = Range(start, stop, count).numbers_at(np.array(sorted({0, count - 1, *some})))
    assert (found[0], found[-1]) == (start, stop)
    assert ((min(start, stop) <= found) & (found <= max(start, stop))).all()


@given(st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12), st.integers(0, 6), st.integers(1, 120))
@example(1, 7, 1, 6)  # 0.1, 0.2, 0.3, ..., 0.7
@example(-741206449092, 672870155643, 3, 61)
def test_short_decimals_come_out_as_such(start: int, stop: int, decimals: int, parts: int) -> None:
    ends = start / 10**decimals, stop / 10**decimals
    found = Range(*ends, parts + 1).numbers_at(np.arange(parts + 1))
    assert found.tolist() == [(start * (parts - k) + stop * k) / (parts * 10**decimals) for k in range(parts + 1)]


def test_numbers_that_are_too_large_to_be_multiplied() -> None:
    assert Range(-1e308, 1e308, 5).numbers_at(np.arange(5)).tolist() == [-1e308, -5e307, 0, 5e307, 1e308]
    assert Range(LARGEST, LARGEST, 3).numbers_at(np.arange(3)).tolist() == [LARGEST] * 3


@each("text", ["x + csc(y)", "x*y", "where(x > 0, x, y)"])
def test_an_array_beside_columns_needs_a_shape(text: str) -> None:
    with pytest.raises(ExpressionError, match="`y` is a number here, not an array"):
        BatchedGradient(parse(text), ["x"], {"y": np.array([1.0, 2.0])}, ["x"])
