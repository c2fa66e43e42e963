"""Quantiles and tail probabilities compared with SciPy, over many orders of magnitude."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from autodiff_cli.training.result.goodness import (
    chi_squared_tail,
    fisher_tail,
    normal_quantile,
    student_quantile,
    student_tail,
)
from tests.each import each


@each("level", [0.01, 0.5, 0.6827, 0.9, 0.95, 0.99, 0.9999])
@each("dof", [1, 2, 3, 7, 30, 1000, 10**5, 10**9])
def test_intervals(level: float, dof: int) -> None:
    assert student_quantile(level, dof) == pytest.approx(stats.t.ppf(0.5 + level / 2, dof), rel=1e-8)
    assert normal_quantile(level) == pytest.approx(stats.norm.ppf(0.5 + level / 2), rel=1e-10)


@each("dof", [1, 4, 50, 3000])
@each("value", [0.01, 0.9, 1.0, 1.1, 3.0, 20.0])
def test_tails(value: float, dof: int) -> None:
    assert chi_squared_tail(value * dof, dof) == pytest.approx(stats.chi2.sf(value * dof, dof), rel=1e-10, abs=1e-300)
    assert student_tail(value, dof) == pytest.approx(2 * stats.t.sf(value, dof), rel=1e-10)
    assert student_tail(1e200, dof) == student_tail(math.inf, dof) == 0
    for other in (1, 3, 40):
        assert fisher_tail(value, other, dof) == pytest.approx(stats.f.sf(value, other, dof), rel=1e-10)
