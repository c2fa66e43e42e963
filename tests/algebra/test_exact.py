"""Literals are exact numbers, and are printed as the shortest text that reads back the same."""

from __future__ import annotations

from fractions import Fraction

import pytest

from autodiff_cli.algebra.exact import ExactNumber, common_divisor, exact_number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2", ExactNumber(2)),
        ("2.50", ExactNumber(Fraction(5, 2), is_decimal=True)),
        ("2.0", ExactNumber(2)),
        ("1e-3", ExactNumber(Fraction(1, 1000), is_decimal=True)),
        ("0e-999999999", ExactNumber(0)),
    ],
)
def test_literals(text: str, expected: ExactNumber) -> None:
    assert exact_number(text) == expected


@pytest.mark.parametrize(
    "text", ["pi", "nan", "inf", "1e999999999", "1e-999999999", "0.1234567890123456789", f"{2**53 + 1}", "1" * 5000]
)
def test_what_no_float_holds_as_written_is_left_alone(text: str) -> None:
    assert exact_number(text) is None


@pytest.mark.parametrize(
    ("value", "decimal", "expected"),
    [
        (Fraction(1, 2), False, ("1", "2")),
        (Fraction(1, 2), True, ("0.5", None)),
        (Fraction(-1, 30), True, ("1", "30")),
        (Fraction(407, 950), True, ("0.4284210526315789", None)),
        (Fraction(6), True, ("6", None)),
        (10**20, False, ("1e+20", None)),
    ],
)
def test_a_size_as_literals(value: Fraction, decimal: bool, expected: tuple[str, str | None]) -> None:
    numerator, denominator = ExactNumber(value, decimal).quotient()
    assert (numerator.text, None if denominator is None else denominator.text) == expected


@pytest.mark.parametrize(
    ("value", "root"),
    [(4, 2), (Fraction(9, 4), Fraction(3, 2)), (2, None), (Fraction(1, 2), None), (0, None), (-4, None)],
)
def test_roots_that_are_exact(value: Fraction | int, root: Fraction | int | None) -> None:
    assert ExactNumber(value).root() == (None if root is None else ExactNumber(root))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([6, 10], 2),
        ([6, -10], 2),
        ([-6, -10], -2),
        ([Fraction(1, 2), Fraction(1, 3)], Fraction(1, 6)),
        ([Fraction(4, 3), 2], Fraction(2, 3)),
    ],
)
def test_the_size_that_numbers_have_in_common(values: list[Fraction | int], expected: Fraction | int) -> None:
    assert common_divisor(map(ExactNumber, values)) == ExactNumber(expected)
    assert common_divisor([*map(ExactNumber, values), ExactNumber(Fraction(1, 2), is_decimal=True)]).magnitude == 1
