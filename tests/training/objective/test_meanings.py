"""What a model says that was hardly meant is said, or refused where the fit would be of nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autodiff_cli import ExpressionError, Objective, fit
from tests.support import run_cli

T = np.linspace(0, 5, 30)
DATA = {"t": T, "v": 2 * np.exp(-T / 1.5), "my-col": T**2}


@pytest.mark.parametrize(
    ("model", "name", "value"), [("v ~ a*exp(-t/tau)", "tau", "6.28319"), ("v ~ a*e^(-b*t)", "e", "2.71828")]
)
def test_a_constant_that_may_be_meant_as_a_parameter_is_noted_at_once(
    model: str, name: str, value: str, tmp_path: Any
) -> None:
    said = f"`{name}` is the constant {value} here; to make it a parameter, give it a start: --{name} 1"
    assert said in fit(model, DATA).warnings
    declared = fit(model, DATA, start={name: 1})
    assert name in declared.parameters
    assert not any("constant" in warning and "not the constant" not in warning for warning in declared.warnings)
    path = tmp_path / "decay.csv"
    path.write_text("t,v\n" + "".join(f"{t},{v}\n" for t, v in zip(DATA["t"], DATA["v"], strict=True)))
    report = run_cli(["train", model, str(path)])
    assert report.index(said) < report.index("iteration")
    assert report.count(said) == 1


def test_pi_is_pi() -> None:
    assert not any("pi" in warning for warning in fit("v ~ a*sin(2*pi*t) + b", DATA).warnings)


@pytest.mark.parametrize(
    ("model", "suggestion"),
    [("v ~ a*exp(-b*x)", None), ("v ~ a*exp(-b*T)", "t"), ("v ~ a*my - col", "my-col"), ("log(v) ~ a - b", None)],
)
def test_a_prediction_that_reads_no_column_is_refused(model: str, suggestion: str | None) -> None:
    for made in (fit, Objective):
        with pytest.raises(ExpressionError, match=r"uses no column of the data .`t`, `my-col`.;") as refused:
            made(model, DATA)
        assert "if this is intended, add --no-columns" in str(refused.value)
        assert refused.value.suggestion == suggestion


def test_the_only_other_column_is_suggested_whatever_its_name() -> None:
    with pytest.raises(ExpressionError, match=r"`x` is not one of them(.|\n)*Did you mean `t`\?"):
        fit("v ~ a*exp(-b*x)", {"t": T, "v": T})


def test_a_prediction_may_read_no_column_where_there_is_none_or_where_that_is_meant() -> None:
    data = {"y": [1.0, 2.0, 6.0], "w": [1.0, 1.0, 2.0]}
    assert fit("y ~ m", {"y": data["y"]}).parameters["m"] == pytest.approx(3)
    assert fit("y ~ m", data, weights="w").parameters["m"] == pytest.approx(15 / 4)
    assert fit("y ~ m", data, no_columns=True).parameters["m"] == pytest.approx(3)


def test_no_columns_is_an_option(tmp_path: Any) -> None:
    path = tmp_path / "data.csv"
    path.write_text("x,y\n1,1\n2,2\n3,6\n")
    refused = run_cli(["train", "y ~ m", str(path)])
    assert (refused.status, refused) == (2, "")
    assert "uses no column of the data (`x`); if this is intended, add --no-columns" in refused.stderr
    assert run_cli(["train", "y ~ m", str(path), "--no-columns", "--json"]).json["parameters"]["m"] == pytest.approx(3)


@pytest.mark.parametrize("model", ["a*exp(-b*t)", "a*t", "a*t + b*v", "-(a*t)^2"])
@pytest.mark.parametrize("optimizer", ["auto", "lbfgs"])
def test_a_loss_without_a_least_value_is_recognised(model: str, optimizer: str) -> None:
    found = fit(model, DATA, optimizer=optimizer)
    assert not found.converged
    assert "the loss has no minimum: it decreases without bound" in found.failure
    if "v" not in model:
        assert f"did you mean `v ~ {model}`?" in found.failure
    assert all(np.isfinite(record["loss"]) for record in found.history)
