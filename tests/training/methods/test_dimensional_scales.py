"""Sizes of parameters from the sizes of columns, and fits whose data have any unit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.language.program import read
from autodiff_cli.training.objective.parameters import dimensional_scales
from tests.each import each

# Of each model: the powers of the units of y and x that each of its parameters has.
MODELS: dict[str, dict[str, tuple[int, int]]] = {
    "a*exp(-b*x) + c": {"a": (1, 0), "b": (0, -1), "c": (1, 0)},
    "a*exp(-((x - m)/s)^2/2) + b": {"a": (1, 0), "m": (0, 1), "s": (0, 1), "b": (1, 0)},
    "a/(1 + exp(-(x - m)/s))": {"a": (1, 0), "m": (0, 1), "s": (0, 1)},
    "a*x/(k + x)": {"a": (1, 0), "k": (0, 1)},
    "(a + b*x)/(1 + c*x + d*x^2)": {"a": (1, 0), "b": (1, -1), "c": (0, -1), "d": (0, -2)},
    "a*x^n/(k^n + x^n)": {"a": (1, 0), "n": (0, 0), "k": (0, 1)},
    "a*tanh(b*(x - c))": {"a": (1, 0), "b": (0, -1), "c": (0, 1)},
    "a + b*log(x/k)": {"a": (1, 0), "b": (1, 0), "k": (0, 1)},
    "max(a, b*x)": {"a": (1, 0), "b": (1, -1)},
    "hypot(a, b*x)": {"a": (1, 0), "b": (1, -1)},
    "sqrt(a*x)": {"a": (2, -1)},
    "a*sin(2*pi*f*x + p)": {"a": (1, 0), "f": (0, -1), "p": (0, 0)},
}


@pytest.mark.parametrize("model", MODELS)
def test_sizes_are_products_of_powers_of_those_of_the_columns(model: str) -> None:
    program, target = read(model), read("y")
    found = dimensional_scales(program.output, target.output, {"x": 1e-7, "y": 1e5}, [*MODELS[model]])
    for name, (of_y, of_x) in MODELS[model].items():
        assert found[name] == pytest.approx(1e5**of_y * 1e-7**of_x, rel=1e-9), name


TRUTH = {
    "a*exp(-b*x) + c": {"a": 3.0, "b": 1.2, "c": 0.5},
    "a/(1 + exp(-(x - m)/s))": {"a": 5.0, "m": 2.4, "s": 0.4},
    "a*x/(k + x)": {"a": 4.0, "k": 1.1},
    "a*x^n/(k^n + x^n)": {"a": 4.0, "n": 2.2, "k": 1.7},
    "a*exp(-((x - m)/s)^2/2) + b": {"a": 4.0, "m": 2.5, "s": 0.6, "b": 1.0},
}


@pytest.mark.sampled
@pytest.mark.parametrize("loss", ["mse", "huber", "cauchy"])
@pytest.mark.parametrize("model", TRUTH)
def test_a_fit_is_the_same_in_any_unit(model: str, loss: str) -> None:
    x = np.linspace(0.1, 5, 60)
    exact = np.array(ad.parse(model)(x=x, **TRUTH[model]))
    y = exact + 0.02 * np.sin(37 * x * x)  # as good as noise
    here = ad.fit(f"y ~ {model}", {"x": x, "y": y}, loss=loss)
    for of_x, of_y in ((1e-9, 1e9), (1e6, 1e-3), (1e3, 1.0), (1.0, 1e-12)):
        there = ad.fit(f"y ~ {model}", {"x": of_x * x, "y": of_y * y}, loss=loss)
        assert there.converged
        for name, (power_of_y, power_of_x) in MODELS[model].items():
            wanted = here.parameters[name] * of_y**power_of_y * of_x**power_of_x
            assert there.parameters[name] == pytest.approx(wanted, rel=1e-5), (name, of_x, of_y)


EXACT_MODELS = [model for model in TRUTH if "^n" not in model]  # without powers, which are rounded
METHODS: list[dict[str, Any]] = [
    {"optimizer": "lm", "profile": True},
    {"optimizer": "lm"},
    {"optimizer": "lbfgs"},
    {"optimizer": "lbfgs", "loss": "cauchy"},
]


@each(
    "model, options",
    itertools.product(EXACT_MODELS, METHODS),
    quick=lambda model, options: EXACT_MODELS.index(model) == METHODS.index(options),
)
@each("of_y, of_x", [(2.0**14, 2.0**-20), (2.0**-10, 2.0**30)], quick=lambda of_y, of_x: of_y < of_x)
def test_a_fit_takes_the_same_steps_in_units_that_are_powers_of_two(
    model: str, options: dict[str, Any], of_y: float, of_x: float
) -> None:
    """Floats have the same digits there, so the same numbers come out, apart from where the last steps end."""
    x, start = np.linspace(0.1, 5, 40), {name: 1.25 * value for name, value in TRUTH[model].items()}
    y = np.array(ad.parse(model)(x=x, **TRUTH[model])) + 0.05 * np.sin(37 * x * x)
    units = {name: of_y**power_of_y * of_x**power_of_x for name, (power_of_y, power_of_x) in MODELS[model].items()}
    plain = ad.fit(f"y ~ {model}", {"x": x, "y": y}, start=start, **options)
    scaled_start = {name: value * units[name] for name, value in start.items()}
    scaled = ad.fit(f"y ~ {model}", {"x": x * of_x, "y": y * of_y}, start=scaled_start, **options)
    assert plain.converged
    assert scaled.converged
    assert (scaled.warnings, scaled.notes) == (plain.warnings, plain.notes)
    for name, unit in units.items():
        assert scaled.parameters[name] / unit == pytest.approx(plain.parameters[name], rel=1e-14)
        assert scaled.stderr[name] / unit == pytest.approx(plain.stderr[name], rel=1e-12)
        if "profile" in options:
            ends = [end / unit for end in scaled.intervals["profile"][name]]
            assert ends == pytest.approx(plain.intervals["profile"][name], rel=1e-12)
    assert scaled.r_squared == pytest.approx(plain.r_squared, rel=1e-14)
    losses, wanted = ([record["loss"] for record in found.history] for found in (scaled, plain))
    if "loss" not in options:  # else the path depends on the last digit of the residuals' scale
        assert abs(len(losses) - len(wanted)) < 4
        steps = min(len(losses), len(wanted)) - 2
        assert [loss / of_y**2 for loss in losses[:steps]] == pytest.approx(wanted[:steps], rel=1e-9)
