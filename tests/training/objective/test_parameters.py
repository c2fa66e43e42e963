"""Parameters as one vector, and what they begin with."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autodiff_cli import Objective
from autodiff_cli.language.arrays import LayerParameter
from autodiff_cli.training.objective.parameters import ParameterLayout, initial_arrays

LAYOUT = ParameterLayout(("a", "W", "v"), {"W": (2, 3), "v": (2,), "unused": (9,)})


def test_arrays_lie_in_the_vector_row_by_row_in_order() -> None:
    theta = np.arange(9.0)
    values = LAYOUT.values(theta)
    assert LAYOUT.size == 9
    assert values["a"] == 0.0
    assert isinstance(values["a"], float)
    assert values["W"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert values["v"].tolist() == [7, 8]
    assert LAYOUT.element_names == (
        "a",
        "W[0, 0]",
        "W[0, 1]",
        "W[0, 2]",
        "W[1, 0]",
        "W[1, 1]",
        "W[1, 2]",
        "v[0]",
        "v[1]",
    )
    np.testing.assert_array_equal(LAYOUT.flatten([*values.values()]), theta)
    assert LAYOUT.mask(["a", "v"]).tolist() == [True] + [False] * 6 + [True] * 2


def test_views_move_with_the_vector_and_values_do_not() -> None:
    theta = np.zeros(9)
    views, values = LAYOUT.views(theta), LAYOUT.values(theta)
    theta += 1
    assert views["W"].all()
    assert not values["W"].any()


def test_one_number_stands_for_a_whole_array() -> None:
    assert LAYOUT.flatten([1, 2, np.zeros(())]).tolist() == [1] + [2] * 6 + [0] * 2


@pytest.mark.parametrize(
    ("layer", "spread"),
    [
        (LayerParameter("weight", "relu"), math.sqrt(2 / 300)),
        (LayerParameter("weight", "gelu"), math.sqrt(2 / 300)),
        (LayerParameter("weight", "tanh"), math.sqrt(2 / 500)),
        (LayerParameter("weight", None), math.sqrt(2 / 500)),
        (None, math.sqrt(2 / 500)),
    ],
)
def test_first_weights_are_as_large_as_their_papers_say(layer: LayerParameter | None, spread: float) -> None:
    drawn = initial_arrays({"W": (200, 300)}, {"W": layer} if layer else {}, seed=1)["W"]
    assert drawn.std() == pytest.approx(spread, rel=0.02)
    assert abs(drawn.mean()) < spread / 50


def test_default_starts_are_1_for_numbers_and_0_for_biases_beside_user_values() -> None:
    columns = {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]}
    model = "y ~ a*mlp(x, [3], tanh)"
    plain = Objective(model, columns, seed=4)
    given = Objective(model, columns, seed=4, start={"mlp.0.weight": [[1], [2], [3]]}, fixed={"a": None})
    first, second = plain.point(plain.start), given.point(given.start)
    assert first["a"] == second["a"] == 1
    assert not first["mlp.0.bias"].any()
    assert second["mlp.0.weight"].tolist() == [[1], [2], [3]]
    np.testing.assert_array_equal(first["mlp.1.weight"], second["mlp.1.weight"])
    assert given.user_starts == {"mlp.0.weight"}
    assert "a" not in given.parameters
