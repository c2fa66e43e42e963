"""Gradient methods: their first steps as their papers say, and that each finds the bottom of a bowl."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autodiff_cli.training.optimizers import OPTIMIZERS

RATE = 0.1


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        # The gradient is 2, then 1.
        ("sgd", RATE * 2, RATE * 1),
        ("momentum", RATE * 2, RATE * (0.9 * 2 + 1)),
        ("nesterov", RATE * (2 + 0.9 * 2), RATE * (1 + 0.9 * (0.9 * 2 + 1))),
        ("adagrad", RATE * 2 / 2, RATE * 1 / math.sqrt(5)),
        ("rmsprop", RATE * 2 / math.sqrt(0.4), RATE * 1 / math.sqrt(0.9 * 0.4 + 0.1)),
        (
            "adam",
            RATE,
            RATE * ((0.9 * 0.2 + 0.1) / (1 - 0.81)) / math.sqrt((0.999 * 0.004 + 0.001) / (1 - 0.999**2)),
        ),
    ],
)
def test_the_first_two_steps(name: str, first: float, second: float) -> None:
    optimizer = OPTIMIZERS[name](RATE)
    theta = np.array([5.0])
    optimizer.step(theta, np.array([2.0]))
    one = theta[0]
    optimizer.step(theta, np.array([1.0]))
    assert 5.0 - one == pytest.approx(first, rel=1e-7)
    assert one - theta[0] == pytest.approx(second, rel=1e-7)


def test_adamw_shrinks_the_parameters_apart_from_the_step() -> None:
    theta, gradient = np.array([5.0, -3.0]), np.array([0.0, 2.0])
    moved, plain = theta.copy(), theta.copy()
    OPTIMIZERS["adamw"](RATE).step(moved, gradient)
    OPTIMIZERS["adam"](RATE).step(plain, gradient)
    np.testing.assert_allclose(moved, plain - RATE * 0.01 * theta, rtol=1e-15)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_reaches_the_bottom_of_a_bowl(name: str) -> None:
    optimizer = OPTIMIZERS[name](0.5 if name == "adagrad" else 0.02)
    theta = np.array([1.0, -2.0])
    scale = np.array([1.0, 4.0])
    for _ in range(2000):
        optimizer.step(theta, scale * theta)
    assert np.abs(theta).max() < 0.02


def test_the_gradient_is_not_changed() -> None:
    for make in OPTIMIZERS.values():
        theta, gradient = np.ones(2), np.ones(2)
        for _ in range(2):
            make(RATE).step(theta, gradient)
        assert gradient.tolist() == [1.0, 1.0]
        assert theta.tolist() != [1.0, 1.0]
