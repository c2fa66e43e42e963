"""Parameters that are expressions of others."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff_cli as ad

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
