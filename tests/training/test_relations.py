"""Relations between fits: what changes nothing about the data or the model changes nothing about the verdict.

Each relation changes a fit (units, the order of rows, names, equivalent formulas and options), and states what its sum
of squares and its predictions with their bands have to be.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from autodiff_cli import Fit, fit, fit_by
from tests.each import each
from tests.training.test_minima import PROBLEMS


class Case(NamedTuple):
    """A fit: its model, its columns and its options."""

    model: str
    data: dict[str, Any]
    options: dict[str, Any]


class Changed(NamedTuple):
    """A changed fit, and the factors by which x, y and the sum of squares are larger in it."""

    found: Fit
    of_x: float = 1.0
    of_y: float = 1.0
    of_rss: float = 1.0


def renamed(case: Case) -> Changed:
    names = sorted({*re.findall(r"[A-Za-z]\w*", case.model)} - {*case.data, "exp", "sin", "cos"})
    table = {name: f"z{len(names) - number}" for number, name in enumerate(names)}
    return Changed(fit(re.sub(r"[A-Za-z]\w*", lambda word: table.get(word[0], word[0]), case.model), case.data))


def scaled(case: Case, of_x: float, of_y: float) -> Changed:
    data = {"x": of_x * case.data["x"], "y": of_y * case.data["y"]}
    return Changed(fit(case.model, data), of_x, of_y, of_y**2)


def in_groups(case: Case) -> Changed:
    data = {name: np.concatenate((values, values[::-1])) for name, values in case.data.items()}
    groups = fit_by(case.model, {**data, "g": np.repeat([1, 2], len(case.data["x"]))}, by="g")
    return Changed(groups[1])


def from_the_end(case: Case, change: Callable[[str, float], dict[str, Any]]) -> Changed:
    """Fit again with options that the last of the parameters at the end satisfies."""
    ends = fit(case.model, case.data).parameters
    name = [*ends][-1]
    return Changed(fit(case.model, case.data, **change(name, ends[name])))


def with_options(case: Case, of_rss: float = 1.0, **options: Any) -> Changed:
    return Changed(fit(case.model, case.data, **options), of_rss=of_rss)


RELATIONS: dict[str, Callable[[Case], Changed]] = {
    "rows in another order": lambda case: Changed(fit(case.model, {k: v[::-1] for k, v in case.data.items()})),
    "other names": renamed,
    "another unit of x": lambda case: scaled(case, 3e4, 1.0),
    "another unit of y": lambda case: scaled(case, 1.0, 7e-6),
    "one of two groups": in_groups,
    "equal weights": lambda case: with_options(case, 3.0, weights=3.0),
    "equal errors": lambda case: with_options(case, 1 / 0.2**2, sigma=0.2),
    "another method": lambda case: with_options(case, optimizer="lbfgs"),
    "another seed": lambda case: with_options(case, seed=5),
    "no compiled kernels": lambda case: with_options(case, backend="numpy"),
    "a start at the end": lambda case: from_the_end(case, lambda name, end: {"start": {name: end}}),
    "bounds far from the end": lambda case: from_the_end(
        case, lambda name, end: {"bounds": {name: (end - 3 * abs(end), end + 3 * abs(end))}}
    ),
}
MODELS = [name for name in PROBLEMS if name not in ("beat", "damped beat at uneven times", "frequency modulation")]


@each(
    "name, relation",
    [(name, relation) for name in MODELS for relation in RELATIONS],
    sampled=True,
    quick=lambda name, relation: name == "growth over years" and relation in ("other names", "another unit of y"),
)
def test_what_changes_nothing_about_a_fit_changes_nothing_in_its_result(name: str, relation: str) -> None:
    problem, generator = PROBLEMS[name], np.random.default_rng(0)
    exact = problem.predict(np.array(problem.draw(generator)), problem.x)
    y = exact + generator.normal(0, problem.noise * np.ptp(exact), len(exact))
    case = Case(problem.model, {"x": problem.x, "y": y}, {})
    plain, changed = fit(case.model, case.data), RELATIONS[relation](case)
    assert plain.converged
    assert changed.found.converged
    assert changed.found.rss == pytest.approx(plain.rss * changed.of_rss, rel=1e-6)  # type: ignore[operator]
    if "equal errors" in relation or "weights" in relation:
        return  # prediction bands need the column of weights or sigmas
    x = np.array(problem.x[:: len(exact) // 5])
    before, after = plain.predict({"x": x}, 0.9), changed.found.predict({"x": changed.of_x * x}, 0.9)
    for one, other in zip(before, after, strict=True):
        assert other / changed.of_y == pytest.approx(one, rel=1e-4, abs=1e-4 * np.ptp(exact))
