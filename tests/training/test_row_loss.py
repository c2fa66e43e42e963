"""The loss of a row that a trace explains is the loss that the fit minimises."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.data.files import open_data
from autodiff_cli.data.table import csv_text
from autodiff_cli.training.fitting.row_loss import trace_fit_row
from tests.each import each

GENERATOR = np.random.default_rng(0)
X = GENERATOR.uniform(0.1, 3, 60)
DATA: dict[str, Any] = {
    "x": X,
    "t": np.tile(["u", "v", "w"], 20),
    "w": GENERATOR.uniform(0.5, 2, 60),
    "s": GENERATOR.uniform(0.1, 0.5, 60),
    "y": 2 * np.exp(-X) + 0.1 + 0.05 * GENERATOR.normal(size=60),
    "z": X**2 + 0.1 * GENERATOR.normal(size=60),
    "k": GENERATOR.poisson(3 * np.exp(-X)),
    "c": np.where(GENERATOR.normal(size=60) + X > 1.5, "A", "B"),
}
DECAY, PAIR = "y ~ a*exp(-b*x) + c0", "[y, z] ~ [a*exp(-b*x), q*x^2]"


@each(
    ("model", "options"),
    [
        (DECAY, {"sigma": "s"}),
        ("y ~ a + b*x", {"loss": "huber", "weights": "w"}),
        ("y ~ a + b*x", {"loss": "logcosh", "sigma": "0.1*x", "l2": 0.1}),
        ("y ~ a + b*x", {"loss": "mae", "weights": "w"}),
        ("k ~ exp(a + b*x)", {"family": "negative_binomial"}),
        ("y ~ exp(a + b*x)", {"family": "gamma", "weights": "w"}),
        ("y ~ a[t]*exp(-b*x) + (t == 'u')*d", {"priors": {"b": "normal(1, 1)"}}),
        ("c ~ softmax([0, a[t] + b*x])", {}),
        (PAIR, {"sigma": "s"}),
        ("-log(normal_pdf(y - a - b*x, 0, d))", {"likelihood": True}),
        (DECAY, {"sigma": "s", "x_sigma": {"x": "0.05"}}),
        (PAIR, {"sigma": "[s, 0.2]"}),
    ],
)
def test_the_traced_loss_is_that_of_the_fit_or_a_note_says_what_it_lacks(model: str, options: dict[str, Any]) -> None:
    content = csv_text([[*DATA], *zip(*(column.tolist() for column in DATA.values()), strict=True)]).encode()
    fit = ad.fit(model, DATA, **options)
    unused = ("l2", "priors", *(["scale"] if fit.scale is None else []))
    objective = ad.Objective(
        model, DATA, **{k: v for k, v in (options | {"scale": fit.scale}).items() if k not in unused}
    )
    theta = objective.layout.flatten([fit.parameters[name] for name in objective.parameters])
    losses = objective.evaluate_rows(objective.kernels.row_loss, theta)[0]
    row = trace_fit_row(fit, open_data(["-"], io.BytesIO(content)), 34, {})
    value = row.formula.value_and_grad({name: row.point[name] for name in row.formula.variables})[0]
    is_partial = any("leaves out" in note for note in row.notes)
    assert is_partial == ("x_sigma" in options or options.get("sigma", "").startswith("["))
    assert is_partial or value == pytest.approx(losses[33], rel=1e-9)
