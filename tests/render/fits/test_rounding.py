"""Values are rounded to two digits of their errors, and say neither more nor less."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.render.fit import p_value_text
from autodiff_cli.render.formatting import Rounding

# fmt: off
CASES = [
    (2.50016,        0.01047,   "2.500",        "0.010"),
    (-2.50016,       0.0996,    "-2.50",        "0.10"),
    (0.0,            0.5,       "0.00",         "0.50"),
    (1e-6,           0.25,      "0.00",         "0.25"),
    (1e-9,           0.25,      "1e-09",        "2.5e-01"),
    (12345.6,        1234.5,    "12300",        "1200"),
    (5.4999813e-07,  1.23e-11,  "5.49998e-07",  "1.2e-11"),
    (6.02214076e23,  3.1e17,    "6.0221408e+23", "3.1e+17"),
    (3.0,            2.5e5,     "0",            "250000"),
    (3.0,            2.5e8,     "3",            "2.5e+08"),
    (2 / 3,          None,      "0.666667",     None),
    (2 / 3,          0.0,       "0.666667",     "0"),
    (2 / 3,          math.nan,  "0.666667",     "nan"),
]
# fmt: on


@pytest.mark.parametrize(("value", "error", "shown", "shown_error"), CASES)
def test_values_and_errors(value: float, error: float | None, shown: str, shown_error: str | None) -> None:
    rounding = Rounding.from_error(value, error, None)
    assert rounding.format_value(value) == shown
    if error is not None:
        assert rounding.format_error(error) == shown_error


@given(st.floats(-1e12, 1e12), st.floats(1e-12, 1e12))
def test_what_is_left_out_is_small_beside_the_error(value: float, error: float) -> None:
    rounding = Rounding.from_error(value, error, None)
    assert abs(float(rounding.format_value(value)) - value) <= 0.0501 * error + 1e-15 * abs(value)
    assert float(rounding.format_error(error)) == pytest.approx(error, rel=0.0501)


def test_requested_digits_are_shown() -> None:
    rounding = Rounding.from_error(2 / 3, 0.1, 4)
    assert (rounding.format_value(2 / 3), rounding.format_error(0.123456)) == ("0.6667", "0.1235")


def test_arrays_are_shown_as_everywhere() -> None:
    assert (
        Rounding.from_error(np.array([1.0, 2.0]), np.array([0.1, 0.2]), None).format_value(np.array([1.0, 2.0]))
        == "[1, 2]"
    )


def test_a_p_value_has_two_digits_down_to_the_rounding_errors_of_tails() -> None:
    for p in (2.01e-16, 1.6e-13, 3.4e-9, 0.0123, 0.999, 1.0):
        assert float(p_value_text(p)) == pytest.approx(p, rel=0.0501)
    assert {p_value_text(p) for p in (0.0, 1e-300, 1.99e-16)} == {"<2e-16"}
