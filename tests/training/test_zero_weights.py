"""Rows of weight 0 change nothing: every figure of a fit is, bit for bit, the one without them.

Their cells are hostile: far from all others, so that the model overflows there or the loss has no value, with levels
and classes that no other row has. They stand between the other rows, in memory or in files that are streamed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.render.fit import fit_report
from autodiff_cli.training.result.fitted_model import FittedModel
from tests.each import each

NOTE = "rows left out because their weight is 0: 4"
EFFECTS = {"laplace": "u", "priors": {"u": "normal(0, s)"}}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("y ~ a + b*x + c*z", {}),
    ("y ~ a + b*x", {"loss": "mae"}),
    ("y ~ a + b*x", {"loss": "huber"}),
    ("y ~ a + b*x", {"loss": "cauchy", "bounds": {"b": (0, 1)}}),
    ("y ~ a + b*x", {"l1": 0.05, "l2": 0.1}),
    ("y ~ a + b*x", {"bootstrap": 20, "bootstrap_method": "bca"}),
    ("y ~ a + b*x", {"posterior": 20, "chains": 1, "diagnosis": True}),
    ("y ~ a + b*x", {"validation": 0.2, "optimizer": "adam", "batch_size": 4, "epochs": 9}),
    ("y ~ mlp(x, [3])", {"epochs": 9}),
    ("y ~ a[g] + b*x", {}),
    ("y ~ a + b*x + c*(g == 'r')", {}),
    ("y ~ a[g, kind] + b*x", {"bootstrap": 20}),
    ("y ~ a + b*x + u[g]", EFFECTS),
    ("y ~ a*exp(-b*x) + c", {"profile": True, "plot": True}),
    ("y ~ a*exp(-b*x)", {"starts": 5, "optimizer": "lbfgs"}),
    ("y ~ a*sin(w0*x + p)", {}),
    ("count ~ exp(a + b*x)", {"family": "poisson"}),
    ("count ~ exp(a + b*x)", {"family": "negative_binomial", "bootstrap": 20}),
    ("exp(y) ~ exp(a + b*x)", {"family": "gamma"}),
    ("hit ~ sigmoid(a + b*x)", {"loss": "bce"}),
    ("kind ~ softmax([a*x + b, 0])", {}),
    ("-normal_logpdf(y, a + b*x, s)", {"likelihood": True}),
]


def columns(rows: int) -> dict[str, Any]:
    generator = np.random.default_rng(8)
    x = generator.uniform(0.2, 4, rows)
    y = 2 * np.exp(-0.7 * x) + generator.normal(0, 0.1, rows)
    hit = generator.random(rows) < 0.5
    return {
        "x": x, "y": y, "z": generator.normal(size=rows), "g": np.array([*"uvw"])[np.arange(rows) % 3],
        "count": generator.poisson(np.exp(0.4 * x)), "hit": hit * 1.0, "kind": np.where(hit, "p", "q"),
        "w": generator.uniform(0.5, 2, rows),
    }  # fmt: skip


def with_zero_weights(data: dict[str, Any], level: str = "r") -> dict[str, Any]:
    hostile = {"x": 1e5, "y": -1e9, "z": 1e7, "count": 10**12, "hit": 7.0, "kind": level, "g": level, "w": 0.0}
    return {name: np.insert(values, [0, 3, 3, len(values)], hostile[name]) for name, values in data.items()}


def document(found: ad.Fit | FittedModel | None) -> dict[str, Any]:
    """Return the JSON of a fit without the note about the rows that were left out."""
    assert found is not None
    [figures] = fit_report(found).documents()
    return figures | {"notes": [note for note in found.notes if "left out because their weight is 0" not in note]}


def is_fast(model: str, options: dict[str, Any]) -> bool:
    return "sin" not in model and options.keys().isdisjoint({"posterior", "profile"})


@each("model, options", CASES, quick=is_fast)
def test_every_figure_is_the_one_without_them(model: str, options: dict[str, Any]) -> None:
    data = columns(24)
    alone, found = (ad.fit(model, rows, weights="w", **options) for rows in (data, with_zero_weights(data)))
    assert NOTE in found.notes
    assert found.rows == alone.rows
    assert document(found) == document(alone)


@pytest.mark.parametrize("size", [{}, {"batch_size": 4, "optimizer": "adam", "epochs": 3}])
def test_streamed_rows_without_weight_are_left_out_too(tmp_path: Path, size: dict[str, Any]) -> None:
    fits = []
    for name, data in {"alone": columns(24), "whole": with_zero_weights(columns(24))}.items():
        path = tmp_path / f"{name}.csv"
        path.write_text(
            "\n".join(map(",".join, [[*data], *(map(str, row) for row in zip(*data.values(), strict=True))]))
        )
        fits += [
            ad.fit("y ~ a[g]*exp(-b*x)", path, weights="w", stream=is_streamed, **size) for is_streamed in (True, False)
        ]
    alone, _, streamed, loaded = fits
    assert streamed.parameters == loaded.parameters == alone.parameters
    assert streamed.stderr == loaded.stderr == alone.stderr
    assert NOTE in streamed.notes


@each(
    "options",
    [{}, {"loss": "huber"}, {"family": "poisson"}, {"profile": True, "starts": 2}],
    quick=lambda options: "profile" not in options,
)
def test_groups_are_those_without_them(options: dict[str, Any]) -> None:
    """A group of which all rows have weight 0 has no fit, and says why."""
    data = columns(48)
    model = "count ~ exp(a + b*x)" if "family" in options else "y ~ a*exp(-b*x)"
    both = data, with_zero_weights(data, level="u")
    alone, found = (ad.fit_by(model, rows, by="g", weights="w", **options) for rows in both)
    assert [document(group.fit) for group in found] == [document(group.fit) for group in alone]
    data["w"] = np.where(data["g"] == "v", 0.0, data["w"])
    without = ad.fit_by(model, data, by="g", weights="w", **options)
    assert [group.error for group in without.groups] == ["", "weights: all weights are 0", ""]
    for label in "uw":
        assert document(without[label]) == document(alone[label])
    assert without.notes == ("rows of all groups left out because their weight is 0: 16",)


def test_a_level_without_weight_is_unknown_to_the_saved_model(tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    ad.fit("kind ~ softmax(a[g]*[x, 0])", with_zero_weights(columns(24)), weights="w").save(path)
    model = ad.load(path)
    assert model.classes == ("p", "q")
    with pytest.raises(ad.DataError, match="not fitted with the level `r`, only with `u`, `v`, `w`"):
        model.predict({"x": [1.0], "g": ["r"]})


def test_models_are_compared_without_them() -> None:
    data = columns(24)
    alone, found = (
        ad.compare(["y ~ a*exp(-b*x)", "y ~ a"], each, weights="w").models for each in (data, with_zero_weights(data))
    )
    assert [model.cv_error for model in found] == [model.cv_error for model in alone]
    assert None not in [model.cv_error for model in alone]


@pytest.mark.parametrize("left_out", ["weight", "missing cell", "filter", "validation", "group", ""])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_row_is_named_by_its_number_in_the_data(tmp_path: Path, left_out: str, is_streamed: bool) -> None:
    """Numbers in streamed files are unknown if a filter or a missing cell leaves out rows. Then cells name the row."""
    x = np.arange(1.0, 41)
    cells: dict[str, Any] = {"x": x, "y": 3 * x + np.where(x == 9, 100, 0.1 * np.cos(5 * x)), "w": np.ones(40)}
    cells["g"] = np.repeat([2, 1], 20)
    options: dict[str, Any] = {"stream": is_streamed}
    where = None
    if left_out == "weight":
        cells["w"][0] = 0
    elif left_out == "missing cell":
        cells["x"][0], options["drop_missing"] = np.nan, True
    elif left_out == "filter":
        where = "x > 1"
    elif left_out == "validation":
        options |= {"validation": 0.2, "seed": 3}
    path = tmp_path / "rows.csv"
    path.write_text("x,y,w,g\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in zip(*cells.values(), strict=True)))
    data = ad.read_data(path, where=where)
    if left_out == "group":
        fit = ad.fit_by("y ~ a*x", data, by="g", **options)[2]
    else:
        fit = ad.fit("y ~ a*x", data, weights="w", **options)
    [outlier] = [warning for warning in fit.warnings if "is an outlier" in warning]
    is_known = not is_streamed or left_out not in ("missing cell", "filter")
    assert outlier.startswith("row 9 (y = 127, x = 9)" if is_known else "the row with y = 127, x = 9")


def test_a_wrong_weight_is_named_by_the_row_of_the_data(tmp_path: Path) -> None:
    data = {"x": [1.0, np.nan, 3, 4], "y": [1.0, 2, 3, 4], "w": [1.0, 1, -2, 1]}
    path = tmp_path / "rows.csv"
    path.write_text("x,y,w\n1,1,1\n,2,1\n3,3,-2\n4,4,1\n")
    for source in (data, str(path)):
        with pytest.raises(ad.DataError, match=r"weights: row 3 has -2\.0"):
            ad.fit("y ~ a*x", source, weights="w", drop_missing=True)
    with pytest.raises(ad.DataError, match=r"weights: a row has -2\.0"):
        ad.fit("y ~ a*x", str(path), weights="w", drop_missing=True, stream=True)
