"""Fits and formulas in notebooks."""

from __future__ import annotations

import sys
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest

import autodiff_cli as ad

X = np.linspace(0, 2, 21)
DATA = {"x": X, "y": 2.5 * np.exp(-1.3 * X) + 0.01 * np.sin(40 * X)}


def texts(page: ElementTree.Element) -> set[str | None]:
    """The words and numbers in a figure."""
    return {element.text for element in page.iter() if element.tag.endswith("text")}


@pytest.mark.slow
def test_a_notebook_shows_data_curve_residuals_and_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    shown = ad.fit("y ~ a*exp(-b*x)", DATA)._repr_html_()
    page = ElementTree.fromstring(f"<div>{shown}</div>")
    assert {"x", "y", "residual", "21 rows", "fit", "95 % confidence band"} <= texts(page)
    cells = [cell.text for cell in page.iter("td")]
    assert cells[0::3] == ["a", "b"]
    assert float(cells[1] or "") == pytest.approx(2.5, abs=0.01)


@pytest.mark.slow
def test_outside_notebooks_fits_keep_no_rows() -> None:
    found = ad.fit("y ~ a*exp(-b*x)", DATA)
    assert found.plot is None
    assert {"iteration", "loss"} <= texts(ElementTree.fromstring(f"<div>{found._repr_html_()}</div>"))
    assert ad.fit("y ~ a*exp(-b*x)", DATA, plot=True).plot is not None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x^2/y", r"\frac{x^{2}}{y}"),
        ("sqrt(alpha_1)*sin(λ)", r"\sqrt{\alpha_{1}}"),
        ("a = x + y; a^2", r"\left(x + y\right)^{2}"),
    ],
)
def test_a_formula_is_set(text: str, shown: str) -> None:
    latex = ad.parse(text)._repr_latex_()
    assert latex.startswith("$")
    assert latex.endswith("$")
    assert shown in latex
