"""Factors from products of columns: those of reflections where they are told apart, and left to these where not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff_cli as ad
from autodiff_cli import Objective
from autodiff_cli.training.rows import cholesky_factor, triangular_factor

ROWS = 20_000  # more than those from which on products are tried


def products(matrix: np.ndarray) -> np.ndarray:
    return (matrix.T @ matrix)[np.tril_indices(matrix.shape[1])]


@given(st.integers(0, 99), st.lists(st.floats(-100, 100), min_size=3, max_size=3))
def test_both_ways_give_the_same_factor_whatever_the_scales(seed: int, exponents: list[float]) -> None:
    matrix = np.random.default_rng(seed).normal(size=(50, 3)) * 10.0 ** np.array(exponents)
    found, expected = cholesky_factor(products(matrix)), triangular_factor(matrix)
    assert found is not None
    lengths = np.linalg.norm(matrix, axis=0)
    np.testing.assert_allclose(np.abs(found) / lengths, np.abs(expected) / lengths, atol=1e-12)


@pytest.mark.parametrize("last", [[1.0, 2, 3, 4], [2.0, 4, 6, 8]])
def test_residuals_that_the_columns_explain_are_no_obstacle(last: list[float]) -> None:
    matrix = np.column_stack(([1.0, 2, 3, 4], last))
    found = cholesky_factor(products(matrix))
    assert found is not None
    np.testing.assert_allclose(found.T @ found, matrix.T @ matrix, rtol=1e-14)


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param([[1.0, 1, 1], [1.0, 1, 1 + 1e-4], [1.0, 2, 3]], id="nearly dependent"),
        pytest.param([[1.0, 1, 1], [0.0, 0, 0], [1.0, 2, 3]], id="without effect"),
        pytest.param([[1.0, 1, 1], [1e-150, 1, 2], [1e-160, 1e-160, 0]], id="squares vanish"),
        pytest.param([[1.0, 1, 1], [1e160, 1, 2], [1.0, 2, 3]], id="squares overflow"),
        pytest.param([[1.0, 1, 1], [np.nan, 1, 2], [1.0, 2, 3]], id="undefined"),
    ],
)
def test_what_products_do_not_determine_is_left_to_reflections(columns: list[list[float]]) -> None:
    with np.errstate(all="ignore"):
        assert cholesky_factor(products(np.array(columns).T)) is None


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("model", ["y ~ a*exp(-b*x) + c", "[y, z] ~ [a*x + b, b*x]"])
def test_the_triangle_of_many_rows(backend: str, model: str) -> None:
    generator = np.random.default_rng(0)
    columns = {name: generator.uniform(0, 2, ROWS) for name in "xyzw"}
    objective = Objective(model, columns, weights="w", backend=backend)
    theta = objective.start * 0.7
    residuals = objective.evaluate_rows(objective.kernels.residuals_and_jacobian, theta)
    width = len(theta) + 1
    matrix = (residuals * np.sqrt(columns["w"])).reshape(-1, width, ROWS)
    expected = sum(part @ part.T for part in matrix)
    triangle = objective.triangle(theta)
    np.testing.assert_allclose(triangle.T @ triangle, expected, rtol=1e-12)


def test_many_rows_of_an_ill_conditioned_model_keep_their_digits() -> None:
    """Longley's kind of trouble: powers of a column far from 0."""
    x = 100 + np.linspace(0, 1, ROWS)
    truth = {"a": 3.0, "b": -2.0, "c": 0.25}
    fit = ad.fit("y ~ a + b*x + c*x^2", {"x": x, "y": 3 - 2 * x + 0.25 * x**2})
    assert fit.converged
    assert fit.parameters == pytest.approx(truth, rel=1e-5)
