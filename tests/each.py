"""Many cases in one test: as fast as a loop, with a report of every case that fails."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

T = TypeVar("T")
asked = 0  # how often something had more cases with `--slow` so far

# Fixtures whose state would pass from case to case.
STATEFUL = {"monkeypatch", "tmp_path", "capsys", "capfd", "caplog", "recwarn"}


def examples(count: int, **others: Any) -> settings:
    """Settings of a property of which `count` examples meet what is rare, in place of the usual 100: the profile says
    which share of them runs, 10 at least with `--slow`, else 5."""
    least = 10 if is_slow() else 5
    return settings(max_examples=max(least, count * settings().max_examples // 100), **others)


def part(count: int) -> int:
    """The number of cases that run in place of `count`: an eighth, one at least; with `--slow` a quarter, two at least;
    and all with `--exhaustive`."""
    return amount(max(1, count // 8), min(count, max(2, -(-count // 4))), count)


def amount(quick: int, slow: int, exhaustive: int) -> int:
    """Return the number of points, or whatever a test repeats, for this run: without options, with `--slow`, or with
    `--exhaustive`."""
    return exhaustive if is_exhaustive() else slow if quick != slow and is_slow() else quick


def is_slow() -> bool:
    """Whether tests run with `--slow` or `--exhaustive`. A test that asks has more cases then; see `--skip-passed`."""
    global asked
    asked += 1
    return settings.get_current_profile_name() in ("slow", "exhaustive")


def is_exhaustive() -> bool:
    """Whether tests run with `--exhaustive`."""
    return settings.get_current_profile_name() == "exhaustive"


def evenly_spread_part(cases: Sequence[T]) -> list[T]:
    """Return the cases that run in place of all; see `part`."""
    count = part(len(cases))
    return [cases[k * len(cases) // count] for k in range(count)]


def chosen_cases(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield all tests, but an evenly spread part of the cases of each that is marked `sampled`. One that the user named
    alone is all there is of its cases, and runs."""
    for _, group in itertools.groupby(items, lambda item: (item.path, getattr(item, "originalname", item.name))):
        cases = [*group]
        yield from evenly_spread_part(cases) if cases[0].get_closest_marker("sampled") else cases


def each(
    names: str | Sequence[str],
    cases: Iterable[Any],
    ids: Callable[[Any], str] | Sequence[str] = repr,
    *,
    sampled: bool | Callable[..., bool] = False,
    quick: Callable[..., bool] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test on every case, as one item for pytest. Takes the arguments of `pytest.mark.parametrize`.

    A test of pytest costs about a millisecond, in every process that collects it: for thousands of small cases that is
    most of the time. All cases run, and each that fails is reported with its id. A case cannot be skipped, and fixtures
    with a state are refused: they would be shared by all cases. Of a table that is `sampled`, a part that is evenly
    spread runs; if `sampled` is a function, without `--slow` only cases for which it is true. With a function `quick`,
    all cases for which it is true run without `--slow`, and all with it.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    table = [_values(case, len(keys)) for case in cases]
    labels = [", ".join(map(ids, case)) for case in table] if callable(ids) else [*ids]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        if shared := STATEFUL & {*signature.parameters}:
            raise TypeError(f"{test.__name__}: {', '.join(sorted(shared))} would be shared by all cases")

        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures: list[Exception] = []
            cases = [*zip(labels, table, strict=True)]
            for is_chosen in (sampled, quick):
                if callable(is_chosen) and not is_slow():
                    cases = [case for case in cases if is_chosen(*case[1])]
            for label, case in evenly_spread_part(cases) if sampled else cases:
                try:
                    test(**fixtures, **dict(zip(keys, case, strict=True)))
                except pytest.skip.Exception:
                    raise AssertionError(f"{label}: a case of `each` cannot be skipped") from None
                except pytest.fail.Exception as failure:
                    failures.append(AssertionError(f"{label}: {failure}"))
                except Exception as failure:
                    failure.add_note(f"case: {label}")
                    failures.append(failure)
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(table)} cases fail", failures)

        parameters = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _values(case: Any, count: int) -> tuple[Any, ...]:
    if isinstance(case, ParameterSet):
        if case.marks:
            raise TypeError("a case of `each` cannot be marked; use pytest.mark.parametrize")
        return tuple(case.values)
    return case if count > 1 else (case,)
