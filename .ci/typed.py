"""A program with types that uses the installed package: `mypy --strict` finds nothing in it, and it runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import autodiff_cli as ad
from autodiff_cli import Value
from autodiff_cli.nn import MLP


def slope(formula: ad.Expression, x: float) -> float:
    """The derivative of a formula in x."""
    return float(formula.grad(x=x)["x"])


def residuals(fit: ad.Fit, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """What a fit leaves of the data."""
    predicted: NDArray[np.float64] = fit.predict({"x": x})
    return y - predicted


def main() -> None:
    """Formulas, fits, objectives and the classroom."""
    formula = ad.parse("x^2 + sin(x)")
    names: tuple[str, ...] = formula.variables
    assert names == ("x",)
    assert slope(formula, 0.0) == 1.0
    second: ad.Expression = formula.derivative("x").derivative("x")
    assert float(second(x=0.0)) == 2.0

    x = np.linspace(0.0, 4.0, 50)
    y = 2.5 * np.exp(-1.3 * x)
    fit = ad.fit("y ~ a*exp(-b*x)", {"x": x, "y": y})
    assert fit.converged
    assert float(np.abs(residuals(fit, x, y)).max()) < 1e-6
    loss, gradient = ad.Objective("y ~ a*exp(-b*x)", {"x": x, "y": y}).value_and_grad(np.array([2.5, 1.3]))
    assert loss < 1e-20
    assert gradient.shape == (2,)

    value = Value(3.0)
    (value * value).backward()
    assert value.grad == 6.0
    assert len(MLP(2, [4, 1]).parameters()) == 17
    place: tuple[int | None, int | None] = (None, None)
    try:
        ad.parse("2x")
    except ad.ExpressionError as error:
        place = error.line, error.column
    assert place == (1, 2)


if __name__ == "__main__":
    main()
