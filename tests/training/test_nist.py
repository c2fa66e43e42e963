"""The NIST problems: default options reach the certified values from both starts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autodiff_cli import fit
from autodiff_cli.data.files import open_data
from tests.support import SETS

FOLDER = SETS / "nist"
PROBLEMS: dict[str, Any] = json.loads((FOLDER / "problems.json").read_text())


LONG = ["ENSO", "Gauss1"]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        pytest.param(name, start, marks=[pytest.mark.slow] * (start and name in LONG))
        for name in PROBLEMS
        for start in (0, 1)
    ],
)
def test_certified_values(name: str, start: int) -> None:
    problem = PROBLEMS[name]
    certified = problem["certified"]
    found = fit(problem["model"], open_data([str(FOLDER / problem["data"])]), start=problem["starts"][start])
    assert found.parameters == pytest.approx(certified["parameters"], rel=1e-9)
    assert found.stderr == pytest.approx(certified["stderr"], rel=1e-9)
    assert found.rss == pytest.approx(certified["rss"], rel=1e-9)
    assert found.dof == certified["dof"]
    assert found.converged
    expected = "neighbouring residuals are alike" if name == "Kirby2" else "are hardly distinguishable"
    assert all(expected in words for words in found.warnings)


@pytest.mark.slow
def test_adam_ends_at_the_certified_minimum_too() -> None:
    problem = PROBLEMS["DanWood"]
    file = open_data([str(FOLDER / problem["data"])])
    found = fit(problem["model"], file, start=problem["starts"][1], optimizer="adam", learning_rate=0.003, epochs=3000)
    assert found.rss == pytest.approx(problem["certified"]["rss"], rel=1e-9)
    assert found.converged


def test_a_local_minimum_that_explains_nearly_all_is_left() -> None:
    problem = PROBLEMS["Thurber"]
    found = fit(problem["model"], open_data([str(FOLDER / problem["data"])]), optimizer="lbfgs")
    assert found.rss == pytest.approx(problem["certified"]["rss"], rel=1e-9)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["Misra1a", "DanWood", "Kirby2", "Hahn1", "MGH17", "BoxBOD", "Rat42", "Chwirut2"])
def test_without_starting_values(name: str) -> None:
    problem = PROBLEMS[name]
    found = fit(problem["model"], open_data([str(FOLDER / problem["data"])]))
    assert found.rss == pytest.approx(problem["certified"]["rss"], rel=1e-9)
