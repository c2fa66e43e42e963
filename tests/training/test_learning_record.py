"""The course of a fit, thinned."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting.fit import fit_objective
from autodiff_cli.training.fitting.progress import MAX_RECORDED_EPOCHS, Recorder
from autodiff_cli.training.objective.loading import as_dataset
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.optimizers import Epoch
from autodiff_cli.training.options import FitOptions

DATA = {"x": [0.0, 1.0, 2.0, 3.0], "y": [1.0, 3.0, 5.0, 7.5]}


@pytest.mark.parametrize("epochs", [0, 3, 199, 200, 201, pytest.param(1000, marks=pytest.mark.slow)])
def test_at_most_200_epochs_the_first_and_the_last_among_them(epochs: int) -> None:
    options = FitOptions(optimizer="adam", epochs=epochs)
    objective = Objective.of("y ~ a*x + b", as_dataset(DATA), options)
    recorder = Recorder.for_objective(objective)
    fit = fit_objective(objective, dataclasses.replace(options, on_epoch=recorder.add))
    course = recorder.trajectory(objective, fit)
    assert len(course) <= MAX_RECORDED_EPOCHS
    assert len(course) > min(epochs, MAX_RECORDED_EPOCHS // 2 - 1)
    assert (course[0].number, course[-1].number) == (0, epochs)
    assert [*course[-1].theta] == [*fit.parameters.values()]


def test_the_end_is_what_the_fit_reports() -> None:
    """Least squares may end at a point that is reported in another, equal form."""
    objective = Objective.of("y ~ a*x + b", as_dataset(DATA), FitOptions())
    recorder = Recorder.for_objective(objective)
    fit = fit_objective(objective, FitOptions(on_epoch=recorder.add))
    course = recorder.trajectory(objective, fit)
    assert [*course[-1].theta] == [*fit.parameters.values()]
    assert [epoch.number for epoch in course] == [*range(fit.epochs + 1)]
    for factor, more in ((1 + 1e-9, 0), (1.5, 1)):  # nearly the same point takes the place of the last one
        other = dataclasses.replace(fit, parameters={name: factor * x for name, x in fit.parameters.items()})
        found = recorder.trajectory(objective, other)
        assert [*found[-1].theta] == [*other.parameters.values()]
        assert len(found) == len(course) + more
        assert all(map(np.array_equal, [each.theta for each in found[:-1]], [each.theta for each in course]))


def test_a_fit_that_begins_anew_is_recorded_anew() -> None:
    recorder = Recorder()
    for number in (0, 1, 2, 0, 1):
        recorder.add(Epoch(number, 1.0, np.zeros(1)))
    assert [epoch.number for epoch in recorder.epochs] == [0, 1]


@pytest.mark.parametrize("most", [2, 5, 8])
def test_as_many_epochs_are_recorded_as_there_is_room_for(most: int) -> None:
    recorder = Recorder(most)
    for number in range(50):
        recorder.add(Epoch(number, 1.0, np.zeros(1)))
        recorded = [epoch.number for epoch in recorder.epochs]
        assert len(recorded) == number + 1 <= most or most // 2 < len(recorded) <= most
        assert len({later - earlier for earlier, later in pairwise(recorded)}) <= 1


def test_large_models_keep_fewer_epochs_and_very_large_ones_none() -> None:
    rows = {"x": [0.0, 1.0], "y": [0.0, 1.0]}
    small = Objective("y ~ mlp(x, [500], tanh)", rows)
    assert Recorder.for_objective(small).max_epochs == 100_000 // 1501
    with pytest.raises(OptionError, match="20000"):
        Recorder.for_objective(Objective("y ~ mlp(x, [200, 200], tanh)", rows))


LINE = Objective("y ~ a*x + b", DATA)
FOUND = fit_objective(LINE, FitOptions())


def course_of(numbers: list[int], most: int, end: list[float], recorded: list[float]) -> list[Epoch]:
    """Return the trajectory of epochs that end at a point, for a fit that reports another point."""
    recorder = Recorder(most)
    for number in numbers:
        recorder.add(Epoch(number, 1.0, np.array(recorded if number == numbers[-1] else [0.0, number])))
    fit = dataclasses.replace(FOUND, parameters=dict(zip("ab", end, strict=True)), loss=0.5)
    return recorder.trajectory(LINE, fit)


@pytest.mark.parametrize("most", [2, 3, 4, 9])
@pytest.mark.parametrize("last", [0, 1, 6, 7, 8])
def test_a_trajectory_has_room_for_its_last_point(last: int, most: int) -> None:
    """The end of a fit takes the place of the last epoch if it is the same but for rounding, else it follows."""
    numbers = [*range(last + 1)]
    for factor, is_same in ((1.0, True), (1 + 1e-7, True), (1 + 1e-5, False)):
        found = course_of(numbers, most, [2 * factor, 3.0], [2.0, 3.0])
        assert len(found) <= most or len(found) == 2
        assert found[-1].theta.tolist() == [2 * factor, 3.0]
        assert found[0].number == 0
        assert all(one.number <= other.number for one, other in pairwise(found[: len(found) - (not is_same)]))
        assert (found[-1].loss == 0.5) is (not is_same)
        before = found[-2] if not is_same and len(found) > 1 else found[-1]
        assert before.number == last or len(found) == 2
        if most == 9:
            assert len(found) == min(9, last + 1 + (not is_same))
            assert {epoch.number for epoch in found[:last]} <= {*numbers}


def test_a_record_without_epochs_is_the_end_of_the_fit() -> None:
    (only,) = Recorder(5).trajectory(LINE, FOUND)
    assert (only.number, only.loss) == (FOUND.epochs, FOUND.loss)
    assert Recorder.for_objective(LINE).max_epochs == MAX_RECORDED_EPOCHS
