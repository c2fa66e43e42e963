"""Propagation of the uncertainty of inputs to the value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.formula.derivatives import propagate

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)
ERRORS = st.floats(1e-6, 1e6)


@given(st.lists(st.tuples(NUMBERS, ERRORS), min_size=1, max_size=5))
def test_the_variance_is_the_sum_of_the_inputs(pairs: list[tuple[float, float]]) -> None:
    slopes = {f"x{i}": slope for i, (slope, _) in enumerate(pairs)}
    found = propagate(slopes, {f"x{i}": error for i, (_, error) in enumerate(pairs)})
    assert found.value == pytest.approx(math.hypot(*(slope * error for slope, error in pairs)))
    assert sum(found.shares.values()) == pytest.approx(1.0 if found.value else 0.0)


def test_a_product_of_two() -> None:
    found = propagate({"x": 3.0, "y": 2.0}, {"x": 0.1, "y": 0.2})
    assert found.value == pytest.approx(0.5)
    assert found.shares == pytest.approx({"x": 0.36, "y": 0.64})


def test_an_input_without_error_contributes_none_whatever_its_slope() -> None:
    assert propagate({"x": math.inf, "y": 1.0}, {"x": 0.0, "y": 2.0}) == (2.0, {"x": 0.0, "y": 1.0})
    assert propagate({"x": 3.0}, {"x": 0.0}) == (0.0, {"x": 0.0})


def test_the_elements_of_an_array_have_independent_errors() -> None:
    assert propagate({"v": np.array([3.0, 4.0])}, {"v": 0.5}).value == pytest.approx(2.5)
