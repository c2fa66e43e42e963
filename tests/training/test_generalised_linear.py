"""Generalised linear models, from the default start, against iteratively reweighted least squares in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import autodiff_cli as ad

Array = NDArray[np.float64]


def data(spread: float, seed: int) -> tuple[Array, Array, Array]:
    generator = np.random.default_rng(seed)
    x, z = spread * generator.normal(size=90), generator.normal(size=90)
    return x, z, np.exp(0.4 + 0.6 * x / spread - 0.5 * z)


def reweighted(design: Array, y: Array) -> Array:
    """The coefficients of a Poisson regression with a logarithmic link: McCullagh & Nelder 1989, section 2.5."""
    scale = np.abs(design).max(axis=0)
    design = design / scale
    beta = np.linalg.lstsq(design, np.log(y + 0.5), rcond=None)[0]
    for _ in range(50):
        mean = np.exp(design @ beta)
        beta = beta + np.linalg.solve(design.T @ (mean[:, None] * design), design.T @ (y - mean))
    return np.asarray(beta / scale)


# From a = b = c = 1 the mean is in range, or so large that all that follows is little beside it, or infinite.
@pytest.mark.parametrize("spread", [1e-4, 1.0, 20.0, 1e3, 1e5])
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("y ~ exp(a + b*x + c*z)", {"family": "poisson"}),
        ("exp(a + b*x + c*z) - y*(a + b*x + c*z)", {"likelihood": True}),
    ],
)
def test_columns_of_any_size(model: str, options: dict[str, object], spread: float) -> None:
    if spread > 20 and "~" not in model:
        options = options | {"start": {"a": 0, "b": 0, "c": 0}}
    for seed in range(4):
        x, z, mean = data(spread, seed)
        y = np.random.default_rng(seed).poisson(mean).astype(float)
        fit = ad.fit(model, {"x": x, "z": z, "y": y}, **options)  # type: ignore[arg-type]
        assert fit.converged
        wanted = reweighted(np.column_stack([np.ones_like(x), x, z]), y)
        np.testing.assert_allclose([*fit.parameters.values()], wanted, rtol=1e-6)


def test_a_loss_of_no_known_unit_that_begins_far_beyond_its_minimum() -> None:
    x, z, mean = data(20.0, 1)
    fit = ad.fit("exp(a + b*x + c*z) - m*(a + b*x + c*z)", {"x": x, "z": z, "m": mean})
    assert fit.history[0]["loss"] > 1e12
    assert fit.converged
    np.testing.assert_allclose([*fit.parameters.values()], [0.4, 0.03, -0.5], rtol=1e-6)
