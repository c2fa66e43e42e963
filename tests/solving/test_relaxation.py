"""Equations whose conditions are replaced by their truths are the equations themselves where the truths are known."""

from __future__ import annotations

import numpy as np
import pytest

from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.program import read
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.solving.search import border_functions, relax
from tests.each import each


def value(node: Node, point: dict[str, float]) -> float:
    result: float = forward(Tape([node]), FLOATS, point)[-1]
    return result


@each(
    "text, count",
    [
        ("where(x > 0, x^2, y)", 1),
        ("where(x > y, 2*x, y) + where(y <= 1, x, 3)", 2),
        ("where(x >= 0 and y < 1, x, y)", 2),
        ("where(not (x > y + 1), x*y, 7) - x", 1),
        ("where(x > 1 or not (y > x), where(y < 0, 5, x), y^2)", 3),
        ("sign(x - y)*x + y", 1),
        ("sign(x*y - 1) + where(x^2 < y, 1, 2)", 2),
        ("sign(x - y)*y + x*abs(x - y)", 1),
        ("where(x/abs(x) > 2, x, y)", 1),
        ("where(y/abs(x) > 0, x, y)", 1),
    ],
)
def test_with_the_truths_at_a_point_the_value_is_that_of_the_equation(text: str, count: int) -> None:
    equation = read(text).output
    borders = [*dict.fromkeys(border_functions([equation]).values())]
    assert len(borders) == count
    relaxed = relax([equation], {border: variable(f"t{k}") for k, border in enumerate(borders)})
    assert relaxed is not None
    for x, y in np.random.default_rng(0).normal(0.5, 2, (20, 2)).tolist():
        truths = {f"t{k}": float(value(border, {"x": x, "y": y}) > 0) for k, border in enumerate(borders)}
        assert value(relaxed[0], {"x": x, "y": y, **truths}) == pytest.approx(value(equation, {"x": x, "y": y}))


def test_a_condition_that_is_no_comparison_has_no_relaxation() -> None:
    equation = read("where(x > 0, 1, 2) + where((x > 0) == (y > 0), x, y)").output
    assert relax([equation], {border: variable("t") for border in border_functions([equation]).values()}) is None
