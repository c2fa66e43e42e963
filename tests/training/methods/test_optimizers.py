"""Gradient methods: their first steps as their papers say, and that each finds the bottom of a bowl."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autodiff_cli.backends.gradient_descent import Stepper
from autodiff_cli.backends.protocol import OptimizerState
from autodiff_cli.backends.selection import make_backend
from autodiff_cli.options import OptionError
from autodiff_cli.training.optimizers import OPTIMIZERS, LearningRateSchedule, parse_schedule
from tests.each import each

RATE = 0.1


class Walk:
    """A gradient method under way."""

    def __init__(self, name: str, rate: float, theta: list[float]) -> None:
        update = OPTIMIZERS[name]
        self._rate, self._state, self._stepper = (
            rate,
            OptimizerState.initial(np.array(theta), update),
            Stepper(make_backend(), update),
        )

    def step(self, gradient: object) -> np.ndarray:
        self._stepper.step(self._state, self._rate, np.asarray(gradient))
        return self._state.theta.copy()


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        # The gradient is 2, then 1.
        ("sgd", RATE * 2, RATE * 1),
        ("momentum", RATE * 2, RATE * (0.9 * 2 + 1)),
        ("nesterov", RATE * (2 + 0.9 * 2), RATE * (1 + 0.9 * (0.9 * 2 + 1))),
        ("adagrad", RATE * 2 / 2, RATE * 1 / math.sqrt(5)),
        ("rmsprop", RATE * 2 / math.sqrt(0.4), RATE * 1 / math.sqrt(0.9 * 0.4 + 0.1)),
        ("adam", RATE, RATE * ((0.9 * 0.2 + 0.1) / (1 - 0.81)) / math.sqrt((0.999 * 0.004 + 0.001) / (1 - 0.999**2))),
    ],
)
def test_the_first_two_steps(name: str, first: float, second: float) -> None:
    walk = Walk(name, RATE, [5.0])
    one = walk.step([2.0])[0]
    two = walk.step([1.0])[0]
    assert 5.0 - one == pytest.approx(first, rel=1e-7)
    assert one - two == pytest.approx(second, rel=1e-7)


@each("name", [name for name in OPTIMIZERS if name != "adamw"])
def test_a_slope_of_0_moves_nothing(name: str) -> None:
    """The root of a mean of squares is 0 there."""
    assert Walk(name, RATE, [5.0]).step([0.0]).tolist() == [5.0]


@each(("name", "share", "least"), [("adagrad", 1.0, 1e-10), ("rmsprop", 0.1, 1e-8), ("adam", 1.0, 1e-8)])
def test_the_smallest_gradients_make_smaller_steps(name: str, share: float, least: float) -> None:
    """The number that keeps from a division by 0 stands beside the root."""
    one = Walk(name, RATE, [0.0]).step([least])[0]
    assert -one == pytest.approx(RATE / (math.sqrt(share) + 1), rel=1e-9)


def test_adamw_shrinks_the_parameters_apart_from_the_step() -> None:
    theta, gradient = [5.0, -3.0], [0.0, 2.0]
    moved, plain = Walk("adamw", RATE, theta).step(gradient), Walk("adam", RATE, theta).step(gradient)
    np.testing.assert_allclose(moved, plain - RATE * 0.01 * np.array(theta), rtol=1e-15)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_reaches_the_bottom_of_a_bowl(name: str) -> None:
    theta, scale = np.array([1.0, -2.0]), np.array([1.0, 4.0])
    walk = Walk(name, 0.5 if name == "adagrad" else 0.02, [*theta])
    for _ in range(2000):
        theta = walk.step(scale * theta)
    assert np.abs(theta).max() < 0.02


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_gradient_is_not_changed(name: str) -> None:
    walk, gradient = Walk(name, RATE, [1.0, 1.0]), np.ones(2)
    for _ in range(2):
        moved = walk.step(gradient)
    assert gradient.tolist() == [1.0, 1.0]
    assert moved.tolist() != [1.0, 1.0]


@each("fall, is_reduced", [(1.0005, False), (1.000005, True)])
def test_a_plateau_is_a_fall_of_less_than_a_ten_thousandth(fall: float, is_reduced: bool) -> None:
    losses = [fall**-epoch for epoch in range(30)]
    for text, epochs in (("plateau", 10), ("plateau:4", 4)):
        schedule = LearningRateSchedule(text, 1.0, 100)
        assert schedule.rate(epochs + 1, losses[:epochs]) == 1
        assert schedule.rate(epochs + 3, losses[: epochs + 2]) == pytest.approx(0.1 if is_reduced else 1.0)


@each(
    "text", ["step:3:1", "step:3:0", "exponential:1", "plateau:2:1.5", "step:0", "step:2.5", "constant:1", "cosine:3"]
)
def test_schedules_whose_numbers_mean_nothing(text: str) -> None:
    with pytest.raises(OptionError, match="schedule"):
        parse_schedule(text)
