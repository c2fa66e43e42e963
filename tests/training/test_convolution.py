"""Convolution with a measured response, against NumPy and integrals that are known."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli import DataError, ExpressionError, fit
from tests.support import run_cli

T = np.arange(0, 20, 0.1)
PULSE = 1000 * np.exp(-0.5 * ((T - 3) / 0.3) ** 2)
MODEL = "y ~ c + convolve(a*exp(-t/tau), r)"


def convolved(curve: np.ndarray) -> np.ndarray:
    half = np.where(T == 0, curve / 2, curve)
    return np.convolve(PULSE, half)[: len(T)] / PULSE.sum()


def decay() -> dict[str, np.ndarray]:
    return {"t": T, "r": PULSE, "y": 2 + convolved(50 * np.exp(-T / 2.5))}


def test_a_decay_is_found_behind_its_response() -> None:
    found = fit(MODEL, decay())
    assert found.parameters == pytest.approx({"c": 2, "a": 50, "tau": 2.5}, rel=1e-6)
    assert found.stderr["tau"] is not None
    assert {*found.predictors} == {"t"}
    objective = ad.Objective(MODEL, decay())
    assert objective.parameters == ("c", "a", "tau")
    theta = np.array([1.0, 40.0, 3.0])
    step = 1e-6 * np.eye(3)
    differences = [
        (objective.value_and_grad(theta + h)[0] - objective.value_and_grad(theta - h)[0]) / 2e-6 for h in step
    ]
    assert objective.value_and_grad(theta)[1] == pytest.approx(differences, rel=1e-6)


def test_a_response_is_integrated_by_the_trapezoidal_rule() -> None:
    places, response = np.array([0.0, 1.0, 3.0]), np.array([1.0, 2.0, 1.0])
    shares = np.array([0.5 * 1, 1.5 * 2, 1.0 * 1]) / 4.5
    since = places[:, None] - places
    curve = np.where(since > 0, np.exp(-since / 2), np.where(since == 0, 0.5, 0))  # at its jump, the mean of both sides
    objective = ad.Objective("y ~ convolve(a*exp(-t/tau), r)", {"t": places, "r": response, "y": np.zeros(3)})
    assert objective.value([1.0, 2.0]) == pytest.approx(np.mean((curve @ shares) ** 2), rel=1e-12)


def test_rows_of_weight_0_are_part_of_the_response() -> None:
    data = decay() | {"w": np.where(np.abs(T - 3) < 0.5, 0, 1)}  # at the peak of the pulse
    found = fit(MODEL, data, weights="w")
    assert found.rows == np.count_nonzero(data["w"])
    assert found.parameters == pytest.approx({"c": 2, "a": 50, "tau": 2.5}, rel=1e-6)


@pytest.mark.slow
def test_steps_may_differ() -> None:
    places = np.linspace(0.05, 3, 40) ** 2  # steps from 0.01 to 0.45
    response = np.exp(-places / 0.7)
    curve = (np.exp(-places / 2) - np.exp(-places / 0.7)) / (1 / 0.7 - 1 / 2) / (0.7 * math.exp(-places[0] / 0.7))
    found = fit("y ~ convolve(a*exp(-t/tau), r)", {"t": places, "r": response, "y": curve})
    assert found.parameters == pytest.approx({"a": 1, "tau": 2}, rel=0.02)


def test_a_saved_model_has_the_response(tmp_path: Path) -> None:
    found = fit(MODEL, decay())
    found.save(tmp_path / "m.json")
    again = ad.load(tmp_path / "m.json")
    assert again.predict({"t": T[::7]}) == pytest.approx(decay()["y"][::7], rel=1e-6)
    assert again.predict({"t": [3.05]}) == found.predict({"t": [3.05]})


def test_residuals_and_readings_need_no_column_of_the_response(tmp_path: Path) -> None:
    found, data = fit(MODEL, decay()), decay()
    rows = {"t": T[::7], "y": data["y"][::7] + 0.5}
    assert found.residuals(rows) == pytest.approx(0.5, abs=1e-6)
    found.save(tmp_path / "m.json")
    table = "t,y\n" + "".join(f"{t},{y}\n" for t, y in zip(rows["t"], rows["y"], strict=True))
    printed = run_cli(["predict", str(tmp_path / "m.json"), "-", "--residuals"], stdin=table)
    residuals = [float(line.rpartition(",")[2]) for line in printed.splitlines()[1:]]
    assert residuals == pytest.approx([0.5] * len(rows["t"]), abs=1e-6)
    refused = run_cli(["predict", str(tmp_path / "m.json"), "--inverse", "t", "--r", "1", "--t", "0..10"])
    assert refused.status == 2
    assert "no column `r`" in refused.stderr


@pytest.mark.parametrize("model", ["y ~ convolve(a, r)", "y ~ convolve(a*t, 2)", "y ~ convolve(a*t*r, y)"])
def test_other_arguments_are_refused(model: str) -> None:
    with pytest.raises(ExpressionError, match="a formula of one column of the data"):
        fit(model, decay())


def test_it_needs_data_in_order_and_all_rows() -> None:
    with pytest.raises(ExpressionError, match="as in `y ~ convolve"):
        ad.parse("convolve(exp(-t), r)")
    data = decay() | {"t": T[::-1]}
    with pytest.raises(DataError, match="`t` must rise from row to row; in row 2 it does not"):
        fit(MODEL, data)
    twice = np.array([*T[:5], T[4], *T[6:]])
    with pytest.raises(DataError, match="`t` must rise from row to row; in row 6 it does not"):
        fit(MODEL, decay() | {"t": twice})
    with pytest.raises(DataError, match="in row 6 it does not"):  # of the data, the first of which is left out
        fit(MODEL, decay() | {"t": twice, "y": np.array([np.nan, *decay()["y"][1:]])}, drop_missing=True)
    for response in (-PULSE, 0 * PULSE):
        with pytest.raises(DataError, match="the response `r` has no positive area"):
            fit(MODEL, decay() | {"r": response})
    rows = "t,r,y\n1,2,3\n2,1,3\n"
    refused = run_cli(["trace", MODEL, "-", "--row", "1", "--a", "1", "--c", "1", "--tau", "1"], rows)
    assert (refused.status, "`convolve` reads all rows" in refused.stderr) == (2, True)


def test_groups_and_levels_are_selected_one_by_one() -> None:
    data = decay() | {"g": ["A", "B"] * (len(T) // 2)}
    with pytest.raises(ValueError, match="one series; select each group by itself"):
        ad.fit_by(MODEL, data, "g")
    with pytest.raises(ExpressionError, match="one series, so its formula cannot have levels"):
        fit("y ~ c + convolve(a[g]*exp(-t/tau), r)", data)
