"""What holds for every formula, on those of fixed seeds. `python -m tests.fuzz` looks at others, as long as wished."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autodiff_cli import ExpressionError
from tests.fuzz.grammar import Case, case
from tests.fuzz.properties import PROPERTIES, broken

QUICK = range(60)
SLOW = [range(1000 * k, 1000 * k + 250) for k in range(1, 7)]
MOST_REFUSED = 0.02  # of texts that the generator makes

# What this has found, and was mended.
FOUND = [
    # floors and remainders of numbers with more digits than can be counted
    ("x % softplus(y)", {"x": 1e150, "y": -1e200}),
    ("fresnels(sech(x - x^3))", {"x": 1e200}),
    ("mod(-1e-3*y^0.5, min(x % y, pi - x)^3)", {"x": 1.43, "y": -1e200}),
    # what vanishes within a rule, and comes back by a large factor
    ("asech(normal_cdf(x^2, 0/y, y*x))", {"x": -0.5, "y": -1e200}),
    # arrays that the output is not made of
    ("v: 2; a = sum(v); x - 3", {"v": np.array([1.0, 2.0]), "x": 5.0}),
    # slopes that are the same for all rows
    ("A: 2x3; sum(A*z)", {"A": np.array([[3.0, -2.0, 0.1], [3.0, 1e8, 0.9]]), "z": -3e-8}),
]


@pytest.mark.parametrize("name", PROPERTIES)
@pytest.mark.parametrize("seeds", [QUICK, *(pytest.param(seeds, marks=pytest.mark.slow) for seeds in SLOW)], ids=str)
def test_a_property_holds(name: str, seeds: range) -> None:
    for seed in seeds:
        try:
            made = case(seed)
        except ExpressionError:
            continue
        why = broken(name, made)
        assert why is None, f"{made}\n{why}"


@pytest.mark.parametrize(("text", "point"), FOUND, ids=[text for text, _ in FOUND])
def test_what_was_found_stays_mended(text: str, point: dict[str, Any]) -> None:
    for name in PROPERTIES:
        why = broken(name, Case(0, text, point, False))
        assert why is None, why


def test_nearly_all_texts_mean_something() -> None:
    refused = 0
    for seed in range(500):
        try:
            case(seed)
        except ExpressionError:
            refused += 1
    assert refused <= MOST_REFUSED * 500
