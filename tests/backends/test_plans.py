"""Evaluation plans: which values are alive, which are recomputed, and how many are alive at a time."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import pytest

from autodiff_cli.backends.numpy_backend import PlanStep, execute, with_liveness, with_recomputation

LENGTH = 24  # of the forward sweep


def chain() -> list[PlanStep]:
    """A forward sweep, each step from the last value, and the sweep back, each step from two values."""
    forward = [PlanStep(lambda x: 3 * x + 1, (k,), k + 1, has_own_memory=True) for k in range(LENGTH)]
    back = [
        PlanStep(operator.add, (LENGTH + k, LENGTH - k), LENGTH + k + 1, has_own_memory=True) for k in range(LENGTH)
    ]
    return [*forward, *back]


def result(steps: Sequence[PlanStep]) -> int:
    values = [1, *[None] * max(step.output for step in steps)]
    execute(steps, values)
    found = values[2 * LENGTH]
    assert isinstance(found, int)
    return found


def most_alive(steps: Sequence[PlanStep]) -> int:
    alive, most = {0}, 1
    for step in steps:
        assert alive.issuperset(step.inputs)
        alive.add(step.output)
        most = max(most, len(alive))
        alive.difference_update(step.dead)
    return most


@pytest.mark.parametrize("every", [1, 2, 3, 4, 5, 7, 12, 24, 100])
def test_checkpointed_segments_store_their_ends_and_recompute_the_rest_once(every: int) -> None:
    plan = with_recomputation(chain(), LENGTH, range(LENGTH), every, 2 * LENGTH + 1)
    assert result(plan) == result(chain())
    segments = -(-LENGTH // every)
    again = len(plan) - 2 * LENGTH
    # All but the last segment, without the values that are handed to the next one.
    assert again == (segments - 1) * (every - 1)
    alive = most_alive(with_liveness(plan, [2 * LENGTH]))
    everything = most_alive(with_liveness(chain(), [2 * LENGTH]))
    assert everything == LENGTH + 1
    assert alive <= segments + every + 2
    if 2 <= every <= 12:
        assert alive < 0.75 * everything


def test_values_are_let_go_after_their_last_use() -> None:
    forward = chain()[:LENGTH]
    steps = with_liveness(forward, [LENGTH])
    assert most_alive(steps) == 2
    assert with_liveness([*forward, PlanStep(abs, (3,), 99)], [LENGTH]) == steps  # what nothing needs is left out
