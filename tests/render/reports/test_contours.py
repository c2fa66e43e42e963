"""Contours of a function of two unknowns, as dots in a terminal."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from autodiff_cli.expression import parse
from autodiff_cli.numbers.ball_arithmetic import from_float
from autodiff_cli.render import solutions
from autodiff_cli.render.report import Paper
from autodiff_cli.solving.solutions import BoxProblem


def contours(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[set[float], set[float], Any]:
    """Return the places of the dots along both axes, and those of the points found."""
    calls = []
    monkeypatch.setattr(solutions, "dot_plot", lambda *arguments: calls.append(arguments) or ())
    ends = {"x": (0.0, 2.0), "y": (-1.0, 3.0)}
    problem = BoxProblem(parse(text), {name: tuple(map(from_float, both)) for name, both in ends.items()}, {})
    solutions.write_plot(Paper(io.StringIO()), problem, [{"x": 0.5, "y": 1.5}])
    ((found_ends, dots, marked, _),) = calls
    assert found_ends == ends
    return {*dots[0]}, {*dots[1]}, marked


@pytest.mark.parametrize(("text", "axis"), [("x^3 + 0*y", 0), ("exp(x) + 0*y", 0), ("0*x + y^3", 1), ("0*x - y", 1)])
def test_contours_enclose_equal_areas(text: str, axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line is where the tenths of all values change: at the first place above it, whatever the function."""
    *dots, marked = contours(text, monkeypatch)
    size, low, high = ((120, 0, 2), (80, -1, 3))[axis]
    count = 120 * 80
    below = np.arange(size) * (count // size)  # the values at lower places
    if text.endswith("- y"):
        below = below[::-1]
    tenths = below * 10 // (count + 1)
    places = np.linspace(low, high, size)[1:][np.diff(tenths) != 0]
    assert len(places) == 9
    assert sorted(dots[axis]) == pytest.approx(places.tolist())
    assert sorted(dots[1 - axis]) == pytest.approx(np.linspace(*((-1, 3, 80), (0, 2, 120))[axis])[1:].tolist())
    assert marked == [[0.5], [1.5]]
