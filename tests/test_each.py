"""A test that runs many cases in one item fails when any case fails, and says which."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tests.each
from tests.each import amount, chosen_cases, each, evenly_spread_part, is_exhaustive, is_slow, part


def test_every_case_runs_and_each_that_fails_is_named() -> None:
    seen = []

    @each(("left", "right"), [(1, 2), (3, 3), (5, 4), (6, 7)])
    @each("factor", [1, 2])
    def is_less(left: int, right: int, factor: int) -> None:
        seen.append((left, factor))
        assert factor * left < factor * right

    with pytest.raises(ExceptionGroup, match="2 of 4 cases fail") as failures:
        is_less()
    assert seen == [(left, factor) for left in (1, 3, 5, 6) for factor in (1, 2)]
    assert [error.__notes__ for error in failures.value.exceptions] == [["case: 3, 3"], ["case: 5, 4"]]


def test_a_case_that_skips_or_shares_a_fixture_is_refused() -> None:
    with pytest.raises(AssertionError, match="2: a case of `each` cannot be skipped"):
        each("number", [1, 2])(lambda number: pytest.skip("never") if number == 2 else None)()
    with pytest.raises(TypeError, match="tmp_path would be shared"):
        each("number", [1])(lambda number, tmp_path: None)


def test_of_a_sampled_test_an_evenly_spread_part_runs_and_of_others_all() -> None:
    def item(name: str, test: str, marker: str) -> Any:
        return SimpleNamespace(
            name=name, originalname=test, path=Path("file"), get_closest_marker=lambda word: word == marker or None
        )

    sampled = [item(f"sampled[{k}]", "sampled", "sampled") for k in range(30)]
    others = [item(f"whole[{k}]", "whole", "slow") for k in range(30)]
    chosen = [case.name for case in chosen_cases([*sampled, *others])]
    places = evenly_spread_part(range(30))
    assert len(places) == part(30)
    assert {b - a for a, b in pairwise(places)} <= {30 // part(30), -(-30 // part(30))}
    assert chosen == [*[f"sampled[{k}]" for k in places], *(case.name for case in others)]
    assert [*chosen_cases(sampled[7:8])] == sampled[7:8]


def test_without_slow_a_part_of_the_cases_that_a_function_allows_runs() -> None:
    seen: list[int] = []
    each("number", range(30), sampled=lambda number: number % 2 == 0)(lambda number: seen.append(number))()
    assert seen == evenly_spread_part(range(30) if is_slow() else range(0, 30, 2))


def test_who_asks_for_an_amount_has_more_cases_with_slow_if_the_amount_differs() -> None:
    before = tests.each.asked
    assert amount(3, 3, 3) == 3
    assert part(1) == 1
    assert tests.each.asked == before
    part(30)
    assert tests.each.asked > before or is_exhaustive()


def test_all_cases_that_are_quick_run_without_slow_and_all_cases_with_it() -> None:
    seen: list[int] = []
    each("number", range(30), quick=lambda number: number % 2 == 0)(lambda number: seen.append(number))()
    assert seen == [*(range(30) if is_slow() else range(0, 30, 2))]
