"""Parameters that are expressions of others."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.training.objective.parameters import parse_bounds

X = np.linspace(0, 4, 40)
DATA = {"x": X, "y": 2.6 * np.exp(-1.3 * X) + 0.02 * np.random.default_rng(1).standard_normal(40)}
MODEL = "y ~ a*exp(-b*x) + c"


def test_a_tie_is_a_name_that_the_text_binds() -> None:
    written = ad.fit("b = a/2; y ~ a*exp(-b*x) + c", DATA)
    found = ad.fit(MODEL, DATA, fixed={"b": "a/2"})
    assert found.parameters == written.parameters
    assert found.stderr == written.stderr
    assert [*found.parameters] == ["a", "c"]
    assert found.derived == {"b": pytest.approx({"value": found.parameters["a"] / 2, "stderr": found.stderr["a"] / 2})}


def test_ties_may_read_each_other_and_stand_beside_fixed_values() -> None:
    found = ad.fit("y ~ a*exp(-b*x) + c + d", DATA, fixed={"b": "a/2", "c": "b/1000", "d": 0.01}, derive=["s = a + c"])
    assert [*found.parameters] == ["a"]
    assert [*found.derived] == ["b", "c", "s"]
    a = found.parameters["a"]
    assert found.derived["c"]["value"] == pytest.approx(a / 2000)
    assert found.predict({"x": [0.0]})[0] == pytest.approx(a + a / 2000 + 0.01)


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ({"z": "2*a"}, "no parameter `z` to tie"),
        ({"x": "2*a"}, "no parameter `x` to tie"),
        ({"b": "2*x"}, "`x` is a column"),
        ({"b": "2*"}, "something must follow"),
        ({"b": "y ~ a"}, "without `~`"),
    ],
)
def test_ties_that_cannot_be_are_refused(fixed: dict[str, str], words: str) -> None:
    with pytest.raises(ad.ExpressionError, match=words):
        ad.fit(MODEL, DATA, fixed=fixed)


# --- levels

GROUPED = {
    "x": np.tile(X, 3),
    "g": ["A"] * 40 + ["B"] * 40 + ["C"] * 40,
    "y": np.concatenate([size * np.exp(-1.3 * X) for size in (1.0, 2.0, 3.0)])
    + 0.02 * np.random.default_rng(1).standard_normal(120),
}
LEVELS = "y ~ a[g]*exp(-b*x)"


def test_a_level_that_is_tied_to_others_is_what_a_factor_in_the_model_makes_of_it(tmp_path: Path) -> None:
    found = ad.fit(LEVELS, GROUPED, fixed={"a[B]": "2*a[A]", "a[C]": "a[A] + a[B]"})
    factor = np.repeat([1.0, 2.0, 3.0], 40)
    written = ad.fit("y ~ a*f*exp(-b*x)", {**GROUPED, "f": factor})
    assert [*found.parameters] == ["a[A]", "b"]
    assert [*found.parameters.values()] == pytest.approx([*written.parameters.values()], rel=1e-8)
    np.testing.assert_allclose(found.covariance, written.covariance, rtol=1e-6)
    assert found.derived["a[C]"] == pytest.approx(
        {"value": 3 * written.parameters["a"], "stderr": 3 * written.stderr["a"]}, rel=1e-6
    )
    assert found.warnings == []
    path = tmp_path / "model.json"
    found.save(path)
    new = {"x": [0.0, 0.0], "g": ["B", "C"]}
    for fit in (found, ad.load(path)):
        bands = fit.predict(new, interval=0.95)
        assert bands.prediction == pytest.approx(found.parameters["a[A]"] * np.array([2, 3]))
        assert bands.confidence_high - bands.prediction == pytest.approx(
            np.array([2, 3]) * found.stderr["a[A]"] * found.quantile(0.95), rel=1e-6
        )


def test_another_parameter_may_be_tied_to_a_level() -> None:
    found = ad.fit(LEVELS, GROUPED, fixed={"b": "a[A] + 0.3"}, bounds={"a": (0, 9)})
    assert [*found.parameters] == ["a[A]", "a[B]", "a[C]"]
    assert found.derived["b"]["value"] == pytest.approx(found.parameters["a[A]"] + 0.3)


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ({"a[Z]": "2*a[A]"}, "there is no `a[Z]`; the levels are `a[A]`, `a[B]`, `a[C]`"),
        ({"a[B]": "2*a[Z]"}, "there is no `a[Z]`; the levels are `a[A]`, `a[B]`, `a[C]`"),
        ({"q[B]": "2*a[A]"}, "no parameter `q[B]` to tie"),
        ({"a[B]": "2*x"}, "`x` is a column"),
    ],
)
def test_ties_of_levels_that_cannot_be_are_refused(fixed: dict[str, str], words: str) -> None:
    with pytest.raises(ad.ExpressionError, match=re.escape(words)):
        ad.fit(LEVELS, GROUPED, fixed=fixed)


def test_bounds_of_levels_are_written_like_others() -> None:
    assert parse_bounds(["0 < a[A] < 1 and b > 2", "a[my level]=:3"]) == {
        "a[A]": (0.0, 1.0),
        "b": (2.0, math.inf),
        "a[my level]": (-math.inf, 3.0),
    }


def test_an_objective_ties_parameters_as_a_fit_does() -> None:
    data = {"x": [1.0, 2, 3, 4], "y": [1.2, 1.7, 3.1, 3.9]}
    tied = ad.Objective("y ~ a*x + b + c", data, fixed={"b": "2*a", "c": "pi/2"})
    free = ad.Objective("y ~ a*x + b + c", data)
    assert tied.parameters == ("a",)
    loss, (slope,) = tied.value_and_grad([0.3])
    expected, (of_a, of_b, _) = free.value_and_grad([0.3, 0.6, np.pi / 2])
    assert loss == pytest.approx(expected, rel=1e-14)
    assert slope == pytest.approx(of_a + 2 * of_b, rel=1e-13)
