"""Formulas with negative parameters are printed with subtractions, and compute the same bits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff_cli as ad
from autodiff_cli.algebra.simplify import with_subtraction
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import read

NUMBERS = st.floats(-1e300, 1e300)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("x + -2*y", "x - 2*y"),
        ("x - -2*y/3", "x + 2*y/3"),
        ("x + -2", "x - 2"),
        ("-2*x + -3*y*z + -1", "-2*x - 3*y*z - 1"),
        ("x + 2*-y", "x + 2*-y"),
        ("x + -y", "x + -y"),
        ("exp(x + -2*y)", "exp(x - 2*y)"),
    ],
)
def test_a_negative_number_is_subtracted(text: str, written: str) -> None:
    assert to_text(with_subtraction(read(text).output)) == written


@given(*[NUMBERS] * 5)
def test_every_bit_stays(a: float, b: float, c: float, x: float, y: float) -> None:
    text = f"{a!r} + {b!r}*x/y - {c!r}*y + {a!r}"
    formula = ad.parse(to_text(with_subtraction(read(text).output)))
    assert repr(formula(x=x, y=y)) == repr(ad.parse(text)(x=x, y=y))
