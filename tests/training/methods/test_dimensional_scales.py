"""Sizes of parameters from the sizes of columns, and fits whose data have any unit."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.language.program import read
from autodiff_cli.training.objective.parameters import dimensional_scales

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
