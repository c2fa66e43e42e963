"""The fuzzer finds what is planted, in every part that it watches."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from autodiff_cli import ExpressionError
from autodiff_cli.algebra.exact import ExactNumber
from autodiff_cli.autodiff.sweeps import ReversePass
from autodiff_cli.explain import tracing
from autodiff_cli.numbers.arrays import ARRAYS
from autodiff_cli.numbers.floats import FLOATS
from tests.fuzz import page
from tests.fuzz.grammar import case
from tests.fuzz.properties import broken

CASES = 600  # within which a finding is due

Plant = Callable[[pytest.MonkeyPatch], None]


def an_exception_of_a_function(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(FLOATS.table, "sqrt", math.sqrt)  # raises for what is negative


def adjoints_that_are_twice_too_large(patch: pytest.MonkeyPatch) -> None:
    right = ReversePass.__call__

    def wrong(self: ReversePass, values: list[float], seed: float) -> list[float | None]:
        return [None if x is None else 2 * x for x in right(self, values, seed)]

    patch.setattr(ReversePass, "__call__", wrong)


def lost_digits_that_nobody_looks_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tracing, "check_accuracy", lambda at, slopes: at.warnings)


def a_number_that_is_added_up_wrongly_in_texts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ExactNumber, "plus", lambda self, other: ExactNumber(self.value - other.value, self.decimal))


def an_adjoint_of_the_page_that_is_replaced(patch: pytest.MonkeyPatch) -> None:
    right = page.evaluator
    old = "isFirst?contribution.amount"
    assert old in right.__globals__["javascript_declarations"]("passes.js")["passes"]
    patch.setattr(page, "evaluator", lambda at: right(at).replace(old, "true?contribution.amount"))


def an_array_that_is_off(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(ARRAYS.table, "tanh", lambda x: x)


# fmt: off
PLANTS: list[tuple[Plant, str]] = [
    (an_exception_of_a_function, "errors"),
    (adjoints_that_are_twice_too_large, "modes"),
    (lost_digits_that_nobody_looks_for, "digits"),
    (a_number_that_is_added_up_wrongly_in_texts, "derivatives"),
    (an_adjoint_of_the_page_that_is_replaced, "pages"),
    (an_array_that_is_off, "kernels"),
]
# fmt: on


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "name"), PLANTS, ids=lambda found: getattr(found, "__name__", found))
def test_the_fuzzer_finds_planted_bugs(plant: Plant, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(CASES):
        try:
            made = case(seed)
        except ExpressionError:
            continue
        if broken(name, made) is not None:
            return
    pytest.fail(f"nothing found in {CASES} cases")
