"""The document of a plot has the rows of the data, and curves that are predictions, one for each group of labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from autodiff_cli import fit
from autodiff_cli.render.fit import fit_document
from tests.each import each

GROUP = np.array(["u", "v", "w", "w"] * 6)
SIDE = np.array(["left", "left", "right"] * 8)
X = np.linspace(0, 4, 24)
DATA = {"x": X, "g": GROUP, "side": SIDE, "y": 2 * X + (GROUP == "u") - (SIDE == "left") + 0.1 * np.sin(9 * X)}


@each(
    "model, curves",
    [
        ("y ~ a*x + b", {"": {}}),
        ("y ~ a*x + b[g]", {label: {"g": label} for label in "uvw"}),
        ("y ~ a*x + b*(g == 'u')", {"u": {"g": "u"}, "other than u": {"g": "w"}}),
        ("y ~ a*x + b*(g == 'u') + c*(g == 'v')", {"u": {"g": "u"}, "v": {"g": "v"}, "other than u, v": {"g": "w"}}),
        (
            "y ~ a*x + b[g] + c*(side == 'left')",
            {
                f"{title}, {label}": {"g": label, "side": side}
                for label in "uvw"
                for title, side in (("left", "left"), ("other than left", "right"))
            },
        ),
    ],
)
def test_a_plot_has_the_rows_and_a_predicted_curve_for_each_group(
    model: str, curves: dict[str, dict[str, str]]
) -> None:
    found = fit(model, DATA, plot=True)
    document: dict[str, Any] = fit_document(found)["plot"]
    assert (document["x_name"], document["y_name"]) == ("x", "y")
    points = document["points"]
    assert (points["x"], points["y"]) == (X.tolist(), DATA["y"].tolist())
    np.testing.assert_allclose(points["residual"], DATA["y"] - found.predict(DATA), atol=1e-12)
    shown = document["curves"] if len(curves) > 1 else {"": document["curve"]}
    assert {*shown} == {*curves}
    for name, labels in curves.items():
        x = np.array(shown[name]["x"])
        bands = found.predict({"x": x} | {column: [label] * len(x) for column, label in labels.items()}, interval=0.95)
        limits = {"y": bands.prediction, "low": bands.confidence_low, "high": bands.confidence_high}
        for key, wanted in limits.items():
            np.testing.assert_allclose(shown[name][key], wanted, rtol=1e-12)
        if len(curves) > 1:
            rows = np.array(points["group"]) == name
            assert (x.min(), x.max()) == (X[rows].min(), X[rows].max())
            is_alike = [
                np.isclose(found.predict({**DATA, column: [label] * len(X)}), found.predict(DATA), rtol=1e-12)
                for column, label in labels.items()
            ]
            assert (rows == np.logical_and.reduce(is_alike)).all()
