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


@pytest.mark.slow
@pytest.mark.parametrize("epochs", [0, 3, 199, 200, 201, 1000])
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
