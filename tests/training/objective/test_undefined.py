"""Where a model is not defined, the row, its values and the part of the formula are named, and what helps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autodiff_cli import DataError, Objective, fit
from autodiff_cli.training.objective.objective import find_undefined

T = np.arange(6.0)
Y = np.arange(1.0, 7.0)


@pytest.mark.parametrize("optimizer", ["lm", "lbfgs", "adam"])
def test_a_part_that_no_parameter_changes(optimizer: str) -> None:
    found = fit("y ~ a*log(t) + b", {"t": T, "y": Y}, optimizer=optimizer)
    assert not found.converged
    assert "`log(t)` is -inf in row 1 (y = 1, t = 0); no parameter changes that: leave such rows out" in found.failure
    assert "starting values" not in found.failure


@pytest.mark.parametrize("optimizer", ["lm", "lbfgs", "adam"])
def test_numbers_that_are_too_large_for_their_squares(optimizer: str) -> None:
    found = fit("y ~ a*t + b", {"t": T, "y": [1, 2, 3, 4, 1e300, 6]}, optimizer=optimizer)
    assert "in row 5 (y = 1e+300, t = 4)" in found.failure
    assert "too large for their loss: leave such rows out, or divide the column" in found.failure


# fmt: off
CASES: list[tuple[str, dict[str, float], str]] = [
    ("y ~ b*sqrt(t - a)",         {"a": 2.5}, "`sqrt(t - a)` is nan in row 1 (y = 1, t = 0) and 2 more, where a = 2.5"),
    ("y ~ b/(t - a)",             {"a": 2},   "in row 3 (y = 3, t = 2), where"),
    ("y ~ b*exp(exp(a*t))",       {"a": 4},   "`exp(exp(a*t))` is inf in row 3 (y = 3, t = 2) and 3 more, where a = 4"),
    ("s = t - a; y ~ b + log(s)",  {"a": 3.5}, "`log(t - a)` is nan in row 1"),
    ("log(y - a*t)",              {"a": 2},   "`log(y - a*t)` is -inf in row 2 (y = 2, t = 1) and 4 more, where a = 2"),
]
# fmt: on


@pytest.mark.parametrize(("model", "start", "said"), CASES)
def test_the_innermost_part_that_is_not_finite(model: str, start: dict[str, float], said: str) -> None:
    objective = Objective(model, {"t": T, "y": Y}, start=start)
    found = find_undefined(objective, objective.start)
    assert said in str(found)
    assert found is not None
    assert found.advice == "try other starting values, or leave such rows out"


@pytest.mark.parametrize(
    ("loss", "link"), [("bce", "sigmoid"), ("poisson", "exp"), ("gamma", "exp"), ("negative_binomial", "exp")]
)
def test_a_prediction_outside_the_domain_of_its_loss_needs_a_link(loss: str, link: str) -> None:
    counts = {"t": T, "y": [1, 1, 0, 1, 0, 1] if loss == "bce" else Y}
    for model in ("y ~ b + a*t", f"y ~ {link}(b + a*t)"):
        objective = Objective(model, counts, loss=loss, start={"a": -9, "b": 2})
        found = find_undefined(objective, objective.start)
        assert (found is None) is (link in model)
        assert found is None or found.advice.startswith(f"write the prediction as `{link}(…)`, or try other starting")


def test_a_derivative_that_is_not_finite_where_the_loss_is() -> None:
    found = fit("y ~ b*(t - a)^0.3", {"t": T, "y": Y}, start={"a": 0}, optimizer="lbfgs")
    assert found.failure.startswith(
        "a derivative is not finite at the start: `(t - a)^-0.7` is inf in row 1 (y = 1, t = 0)"
    )


def test_nothing_is_undefined_where_all_is_finite() -> None:
    objective = Objective("y ~ a*t", {"t": T, "y": Y})
    assert find_undefined(objective, objective.start) is None


@pytest.mark.parametrize(
    ("model", "data"), [("log(y) ~ a*t", {"t": T, "y": T}), ("[y, 1/t] ~ [a, b]*t", {"t": T, "y": T})]
)
def test_a_target_that_is_not_finite(model: str, data: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"the left side of `~` is not finite in row 1 \(y = 0, t = 0\)"):
        Objective(model, data)
