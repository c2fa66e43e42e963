"""Curved valleys of the sum of squares, as those of exponential functions far from the origin of their rows."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff_cli as ad
from tests.each import amount, each

YEARS = np.arange(1990.0, 2021.0)


@each("model", ["y ~ a*exp(b*t)", "y ~ a*exp(b*t) + c", "y ~ a*2^(t/b)"])
def test_a_fit_does_not_depend_on_the_origin_of_its_column(model: str) -> None:
    for rate in (0.17, -0.3, 0.1, 0.03)[: amount(2, 4, 4)]:
        generator = np.random.default_rng(4)
        y = np.exp(rate * (YEARS - YEARS[0 if rate > 0 else -1])) * (5 + 0.1 * generator.normal(size=len(YEARS)))
        found = ad.fit(model, {"t": YEARS, "y": y})
        shifted = ad.fit(model.replace("t", "(t - 2005)"), {"t": YEARS, "y": y})
        assert found.converged
        assert found.loss == pytest.approx(shifted.loss, rel=1e-9)
        assert found.parameters["b"] == pytest.approx(shifted.parameters["b"], rel=1e-6)
