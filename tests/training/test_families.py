"""Fits of usual families of curves, in any units and without starting values, are as good as the true parameters."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import autodiff_cli as ad
from tests.each import amount

# Ranges of the parameters if x is between 0 and 1: of one sign, drawn by their logarithm, or through 0, drawn evenly.
FAMILIES: dict[str, dict[str, tuple[float, float]]] = {
    "a*exp(-b*x) + c": {"a": (0.1, 100), "b": (0.5, 8), "c": (-5, 5)},
    "a*exp(-b*x) + c*exp(-d*x)": {"a": (1, 10), "b": (1, 3), "c": (1, 10), "d": (8, 40)},
    "a*exp(-(x - m)^2/(2*s^2)) + c": {"a": (0.5, 50), "m": (0.15, 0.85), "s": (0.02, 0.2), "c": (-3, 3)},
    "a*exp(-((x - m)/s)^2) + b*exp(-((x - n)/t)^2)": {
        "a": (1, 10), "m": (0.1, 0.4), "s": (0.03, 0.1), "b": (1, 10), "n": (0.6, 0.9), "t": (0.03, 0.1),
    },
    "a*exp(-((x - m)/s)^2) + b*exp(-((x - n)/s)^2) + c*exp(-((x - o)/s)^2)": {
        "a": (1, 10), "b": (1, 10), "c": (1, 10), "m": (0.1, 0.2), "n": (0.4, 0.6), "o": (0.7, 0.9), "s": (0.04, 0.08),
    },
    "a/(1 + ((x - m)/w)^2) + c": {"a": (0.5, 50), "m": (0.15, 0.85), "w": (0.02, 0.2), "c": (-3, 3)},
    "a/(1 + exp(-k*(x - m)))": {"a": (0.5, 500), "k": (-40, -5), "m": (0.2, 0.8)},
    "c + a/(1 + exp(-k*(x - m))) - b/(1 + exp(-l*(x - n)))": {
        "c": (0, 1), "a": (2, 5), "k": (20, 60), "m": (0.15, 0.4), "b": (1, 4), "l": (20, 60), "n": (0.6, 0.85),
    },
    "d + (a - d)/(1 + (x/c)^b)": {"a": (0, 1), "d": (2, 20), "c": (0.1, 0.7), "b": (1, 6)},
    "v*x^n/(k^n + x^n)": {"v": (1, 100), "k": (0.1, 0.7), "n": (0.8, 5)},
    "v*x/(k + x)": {"v": (0.1, 1000), "k": (0.05, 3)},
    "v*x/(k + x + x^2/i)": {"v": (1, 100), "k": (0.03, 0.3), "i": (0.2, 2)},
    "a*x/(b + x) + c*x": {"a": (1, 50), "b": (0.02, 0.3), "c": (0.5, 10)},
    "a*sin(w*x + p) + c": {"a": (0.5, 20), "w": (3, 60), "p": (-3, 3), "c": (-5, 5)},
    "a*sin(w*x + p) + b*sin(v*x + q)": {
        "a": (1, 10), "w": (6, 20), "p": (-3, 3), "b": (1, 10), "v": (30, 80), "q": (-3, 3),
    },
    "a*exp(-b*x)*cos(w*x + p)": {"a": (1, 20), "b": (0.5, 4), "w": (8, 60), "p": (-3, 3)},
    "a*sin(w*x + k*x^2 + p)": {"a": (1, 10), "w": (4, 15), "k": (2, 15), "p": (-3, 3)},
    "c + d*x + a*sin(2*pi*x/t + p)": {"c": (-5, 5), "d": (-5, 5), "a": (0.5, 5), "t": (0.05, 0.5), "p": (-3, 3)},
    "a*sin(v*x)*cos(w*x) + m": {"a": (1, 5), "v": (20, 100), "w": (2, 18), "m": (-3, 3)},
    "a*x^b + c": {"a": (0.1, 10), "b": (0.3, 3), "c": (-5, 5)},
    "a*exp(-b*exp(-c*x))": {"a": (1, 1000), "b": (2, 20), "c": (3, 15)},
    "a*(1 - exp(-(x/k)^n))": {"a": (1, 100), "k": (0.2, 0.7), "n": (0.7, 5)},
    "a + b*x + c*max(0, x - k)": {"a": (-5, 5), "b": (-5, 5), "c": (5, 20), "k": (0.2, 0.8)},
    "a + b*tanh((x - m)/w)": {"a": (-5, 5), "b": (1, 10), "m": (0.2, 0.8), "w": (0.02, 0.2)},
    "(a + b*x)/(1 + c*x + d*x^2)": {"a": (1, 10), "b": (0.1, 5), "c": (-1, 1), "d": (2, 10)},
    "a*x^b*exp(-x/c)": {"a": (1, 10), "b": (0.5, 4), "c": (0.05, 0.3)},
    "a*exp(-abs(x - m)/s) + c": {"a": (1, 10), "m": (0.2, 0.8), "s": (0.03, 0.3), "c": (-2, 2)},
    "a + b*log(x + c)": {"a": (-5, 5), "b": (-10, -0.5), "c": (0.01, 1)},
    "a*sinc((x - m)/w) + c": {"a": (1, 20), "m": (0.3, 0.7), "w": (0.1, 0.3), "c": (-2, 2)},
    "c + a*(q + (x - m)/g)^2/(1 + ((x - m)/g)^2)": {
        "c": (0, 2), "a": (1, 5), "q": (-3, 3), "m": (0.3, 0.7), "g": (0.03, 0.15),
    },
    "a*cosh((x - m)/w) + c": {"a": (0.5, 10), "m": (0.2, 0.8), "w": (0.2, 1), "c": (-10, 10)},
}  # fmt: skip


# Seconds each. For the last two, all runs have fits with one step or one peak in their place.
LONG = [
    "a*sin(v*x)*cos(w*x) + m",
    "c + d*x + a*sin(2*pi*x/t + p)",
    "c + a/(1 + exp(-k*(x - m))) - b/(1 + exp(-l*(x - n)))",
    "a*sinc((x - m)/w) + c",
]


@pytest.mark.parametrize("family", [pytest.param(each, marks=[pytest.mark.slow] * (each in LONG)) for each in FAMILIES])
def test_a_fit_without_starts_has_less_loss_than_the_true_parameters(family: str) -> None:
    for seed in range(amount(1, 4, 20)):
        check(family, np.random.default_rng([seed, *family.encode()]))


def check(family: str, generator: np.random.Generator) -> None:
    """Simulate a curve of a family, and compare the loss of its fit."""
    draw, rows = drawn(family, generator), int(generator.choice([20, 40, 100, 300]))
    x = generator.uniform(0.02, 1, rows) if generator.random() < 0.5 else np.linspace(0.02, 1, rows)
    exact = exact_curve(family, draw, x)
    noise = np.std(exact) * generator.choice([0.002, 0.01, 0.05]) * generator.normal(size=rows)
    width, height = 10 ** generator.uniform(-4, 4, 2)
    found = ad.fit(f"y ~ {family}", {"x": x * width, "y": (exact + noise) * height})
    assert found.loss <= np.mean(np.square(noise)) * height**2


def drawn(family: str, generator: np.random.Generator) -> dict[str, float]:
    """Return parameters of a family, drawn from their ranges."""
    return {
        name: generator.uniform(low, high)
        if low * high <= 0
        else np.sign(low) * np.exp(generator.uniform(*sorted(np.log(np.abs((low, high))))))
        for name, (low, high) in FAMILIES[family].items()
    }


def exact_curve(family: str, parameters: dict[str, float], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the curve of a family without noise."""
    formula = ad.parse(family)
    return np.array([formula(x=each, **parameters) for each in x.tolist()])


@pytest.mark.parametrize(
    "family",
    [
        "v*x/(k + x)",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("a*sin(w*x + p) + b*sin(v*x + q)", "a + b*tanh((x - m)/w)", "a*exp(-b*x)*cos(w*x + p)")
        ),
    ],
)
def test_robust_fits_of_few_rows_are_the_same_in_any_units(family: str) -> None:
    generator = np.random.default_rng([*family.encode()])
    draw, x = drawn(family, generator), np.linspace(0.02, 1, 14)
    y = exact_curve(family, draw, x) * (1 + 0.01 * generator.standard_t(3, size=len(x)))
    plain, other = (
        ad.fit(f"y ~ {family}", {"x": x * width, "y": y * height}, loss="huber")
        for width, height in ((1, 1), (3e-5, 2e5))
    )
    assert plain.scale is not None
    assert other.scale is not None
    assert other.scale / 2e5 == pytest.approx(plain.scale, rel=1e-6)
    assert other.converged
