"""Values are rounded to two digits of their errors, and say neither more nor less."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff_cli as ad
from autodiff_cli.render.fit import p_value_text, write_posteriors
from autodiff_cli.render.formatting import Rounding
from autodiff_cli.render.report import Paper
from tests.support import run_cli

# fmt: off
CASES = [
    (2.50016,        0.01047,   "2.500",        "0.010"),
    (-2.50016,       0.0996,    "-2.50",        "0.10"),
    (-2.50016,       0.0951,    "-2.500",       "0.095"),
    (0.0,            0.5,       "0.00",         "0.50"),
    (1e-6,           0.25,      "0.00",         "0.25"),
    (1e-9,           0.25,      "1e-09",        "2.5e-01"),
    (12345.6,        1234.5,    "12300",        "1200"),
    (5.4999813e-07,  1.23e-11,  "5.49998e-07",  "1.2e-11"),
    (6.02214076e23,  3.1e17,    "6.0221408e+23", "3.1e+17"),
    (3.0,            2.5e5,     "0",            "250000"),
    (3.0,            2.5e8,     "3",            "2.5e+08"),
    (2 / 3,          None,      "0.666667",     None),
    (2 / 3,          0.0,       "0.666667",     "0"),
    (2 / 3,          math.nan,  "0.666667",     "nan"),
    (math.inf,       0.25,      "inf",          "0.25"),
    (-math.inf,      2.5e9,     "-inf",         "2.5e+09"),
    (math.nan,       0.25,      "nan",          "0.25"),
]
# fmt: on


@pytest.mark.parametrize(("value", "error", "shown", "shown_error"), CASES)
def test_values_and_errors(value: float, error: float | None, shown: str, shown_error: str | None) -> None:
    rounding = Rounding.from_error(value, error, None)
    assert rounding.format_value(value) == shown
    if error is not None:
        assert rounding.format_error(error) == shown_error


@given(st.floats(-1e12, 1e12), st.floats(1e-12, 1e12))
def test_what_is_left_out_is_small_beside_the_error(value: float, error: float) -> None:
    rounding = Rounding.from_error(value, error, None)
    assert abs(float(rounding.format_value(value)) - value) <= 0.0501 * error + 1e-15 * abs(value)
    half_of_the_second_digit = 0.5001 * 10.0 ** (math.floor(math.log10(error)) - 1)
    assert float(rounding.format_error(error)) == pytest.approx(error, abs=half_of_the_second_digit)


def test_requested_digits_are_shown() -> None:
    rounding = Rounding.from_error(2 / 3, 0.1, 4)
    assert (rounding.format_value(2 / 3), rounding.format_error(0.123456)) == ("0.6667", "0.1235")


def test_arrays_are_shown_as_everywhere() -> None:
    assert (
        Rounding.from_error(np.array([1.0, 2.0]), np.array([0.1, 0.2]), None).format_value(np.array([1.0, 2.0]))
        == "[1, 2]"
    )


def test_a_p_value_has_two_digits_down_to_the_rounding_errors_of_tails() -> None:
    for p in (2.01e-16, 1.6e-13, 3.4e-9, 0.0123, 0.999, 1.0):
        assert float(p_value_text(p)) == pytest.approx(p, rel=0.0501)
    assert {p_value_text(p) for p in (0.0, 1e-300, 1.99e-16)} == {"<2e-16"}


def test_every_figure_of_a_posterior_stands_below_its_title() -> None:
    each = SimpleNamespace(mean=1.5, sd=0.25, q05=1.25, median=1.75, q95=2.25, ess_bulk=310.0, ess_tail=290.0, rhat=1.0)
    fit = SimpleNamespace(posterior={"a": each}, draw_counts=(2, 60), divergences=3)
    stream = io.StringIO()
    write_posteriors(Paper(stream), [((), fit)])  # type: ignore[list-item]
    heading, titles, row = [line for line in stream.getvalue().splitlines() if line.strip()]
    assert "2 chains of 60 draws, 3 divergent" in heading
    wanted = ["name", "mean", "sd", "5 %", "median", "95 %", "ESS bulk", "ESS tail", "R-hat"]
    assert re.split("  +", titles.strip()) == wanted
    assert row.split() == ["a", "1.50", "0.25", "1.25", "1.75", "2.25", "310", "290", "1.000"]
    for title, cell in (("5 %", "1.25"), ("95 %", "2.25"), ("ESS bulk", "310"), ("ESS tail", "290")):
        assert titles.index(title) + len(title) == row.index(cell) + len(cell)


def test_the_report_of_a_fit_has_the_signs_and_the_order_of_its_figures(tmp_path: Path) -> None:
    x = np.linspace(1, 3, 30)
    data = {"x": x, "z": 3 - x + 0.3 * np.cos(9 * x), "y": 2 - x + 0.1 * np.cos(40 * x)}
    rows = zip(*data.values(), strict=True)
    (tmp_path / "data.csv").write_text("\n".join(["x,z,y", *(",".join(map(str, row)) for row in rows)]))
    model = "y ~ a + b*x + c*z"
    words = ["train", model, str(tmp_path / "data.csv")]
    text, document = str(run_cli(words)), run_cli([*words, "--json"]).json
    for name, t in document["t_values"].items():
        (line,) = [line for line in text.splitlines() if line.split()[:1] == [name]]
        assert f"{t:.2f}" in line.split()
    listed = re.findall(r"^  (\w), (\w)  (\S+)$", text.split("correlations above 0.5")[1], re.MULTILINE)
    matrix = ad.fit(model, data).correlation
    found = [float(number) for *_, number in listed]
    wanted = [matrix["abc".index(one), "abc".index(other)] for one, other, _ in listed]
    assert min(found) < 0 < max(found)
    assert found == pytest.approx(wanted, abs=6e-4)
    assert [*map(abs, found)] == sorted(map(abs, found), reverse=True)
    assert len(found) == sum(abs(matrix[i, j]) > 0.5 for i in range(3) for j in range(i))
