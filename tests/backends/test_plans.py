"""Evaluation plans: which values are alive at a time."""

from __future__ import annotations

from collections.abc import Sequence

from autodiff_cli.backends.numpy_backend import PlanStep, with_liveness

LENGTH = 24


def chain() -> list[PlanStep]:
    """Steps that each read only the last value."""
    return [PlanStep(lambda x: 3 * x + 1, (k,), k + 1) for k in range(LENGTH)]


def most_alive(steps: Sequence[PlanStep]) -> int:
    alive, most = {0}, 1
    for step in steps:
        assert alive.issuperset(step.inputs)
        alive.add(step.output)
        most = max(most, len(alive))
        alive.difference_update(step.dead)
    return most


def test_values_are_let_go_after_their_last_use() -> None:
    forward = chain()
    steps = with_liveness(forward, [LENGTH])
    assert most_alive(steps) == 2
    assert with_liveness([*forward, PlanStep(abs, (3,), 99)], [LENGTH]) == steps  # what nothing needs is left out
