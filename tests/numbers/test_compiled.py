"""Functions of floats as machine code are bit-identical to Python; distribution functions for intervals are correct."""

from __future__ import annotations

import itertools
import math
import sys
from math import inf, nan

import numpy as np
import pytest
from scipy import special, stats

from autodiff_cli.numbers import gamma_functions as gamma
from autodiff_cli.numbers import special_functions as floats
from autodiff_cli.numbers.arrays import SPECIAL, Elementwise
from autodiff_cli.numbers.gamma_functions import betainc, gammaincinv
from autodiff_cli.training.result.prediction import count_quantiles

FUNCTIONS = {**floats.OPERATIONS, **gamma.OPERATIONS}
OWN_GAMMA = {
    "gamma", "beta", "beta_slope", "gamma_density", "gammainc", "gammaincc", "gammainc_slope", "gammainc_curvature",
    "besselj", "besseli",
}  # fmt: skip  # by way of Python's own gamma
OF_AN_ORDER = {"polygamma", "polygamma_diff", "sinc_derivative", "sinhc_derivative"}
POINTS = np.array([
    0.0, -0.0, 1.0, -1.0, 0.3, -0.3, 1.46, 2.5, -2.5, -3.0, 7.0, 18.0, 25.0, 60.5, 171.5, 1e-8, 1e-300, 5e-324, 1e5,
    -0.367879, 800.0, -800.0, 1e300, inf, -inf, nan,
])  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", FUNCTIONS)
def test_machine_code_is_bit_identical_to_python(name: str) -> None:
    function = FUNCTIONS[name]
    count = function.__code__.co_argcount
    columns = [column.ravel() for column in np.meshgrid(*[POINTS[::count]] * count)]
    if name in OF_AN_ORDER:
        columns[0] = np.arange(columns[0].size) % 4.0
    found = Elementwise(function)(*columns)
    wanted = np.array([function(*xs) for xs in zip(*(column.tolist() for column in columns), strict=True)])
    if name in OWN_GAMMA:
        np.testing.assert_allclose(found, wanted, rtol=1e-13)
    else:
        np.testing.assert_array_equal(found, wanted)
    is_number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[is_number]), np.signbit(wanted[is_number]))


def test_without_a_compiler_functions_run_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    seen = []

    def lambertw(x: float) -> float:  # a function that was not compiled before
        seen.append(x)
        return floats.lambertw(x)

    xs = np.array([[0.5, 2.0], [7.0, 30.0]])
    np.testing.assert_array_equal(Elementwise(lambertw)(xs), SPECIAL["lambertw"](xs))
    assert seen == xs.ravel().tolist()


def test_arguments_broadcast_as_in_numpy() -> None:
    assert SPECIAL["beta"](np.ones((3, 1)), np.ones(4)).shape == (3, 4)
    assert SPECIAL["lgamma"](2.0).shape == ()
    assert SPECIAL["lgamma"](np.array([])).shape == (0,)
    rows = np.arange(12, dtype=np.int64)[::-3]
    assert SPECIAL["lgamma"](rows + 1).tolist() == [gamma.lgamma(x + 1.0) for x in rows.tolist()]


def test_gammaincinv_inverts_gammainc() -> None:
    rng = np.random.default_rng(0)
    a, share = 10.0 ** rng.uniform(-2, 8, 500), rng.uniform(0.0005, 0.9995, 500)
    found = Elementwise(gammaincinv)(a, share)
    np.testing.assert_allclose(found, special.gammaincinv(a, share), rtol=1e-11)
    assert [gammaincinv(2.0, 0.0), gammaincinv(2.0, 1.0)] == [0.0, inf]
    assert math.isnan(gammaincinv(2.0, 1.5))
    assert math.isnan(gammaincinv(0.0, 0.5))


def test_betainc_agrees_with_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = 10.0 ** rng.uniform(-1, 7, (2, 500))
    x = stats.beta.ppf(rng.uniform(0.0005, 0.9995, 500), a, b)
    found, wanted = Elementwise(betainc)(a, b, x, 1 - x), special.betainc(a, b, x)
    is_small = np.minimum(a, b) <= 3000
    np.testing.assert_allclose(found[is_small], wanted[is_small], atol=1e-8)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


LARGE_SHAPES = [
    (one, other) if is_first else (other, one)
    for one, other, is_first in itertools.product((0.5, 2.5, 2500.0, 2999.0, 3001.0), (2e7, 1e9), (True, False))
]


@pytest.mark.parametrize(("a", "b"), [*LARGE_SHAPES, (0.5, 2.5), (3.0, 40.0), (1e4, 1e5)])
def test_betainc_at_its_ends_and_around_the_middle_of_its_distribution(a: float, b: float) -> None:
    assert (betainc(a, b, 0.0, 1.0), betainc(a, b, 1.0, 0.0)) == (0.0, 1.0)
    middle, width = a / (a + b), math.sqrt(a * b / (a + b + 1)) / (a + b)
    for x in np.clip(middle + width * np.array([-3, -1, 0, 1, 3]), 0, 1):
        assert betainc(a, b, x, 1 - x) == pytest.approx(special.betainc(a, b, x), abs=1e-6), x


def test_betainc_beside_1_has_the_digits_of_the_distance_from_1() -> None:
    """There, it is an incomplete gamma function (Wise 1950), with an error of (b/a)²."""
    a, b = 1e15, 1e4
    for y in b / a * (1 + np.array([-3, -1, 0, 1, 3]) / math.sqrt(b)):
        wanted = special.gammaincc(b, -(a + (b - 1) / 2) * np.log1p(-y))
        assert betainc(a, b, 1 - y, y) == pytest.approx(wanted, abs=1e-6), y
        assert betainc(b, a, y, 1 - y) == pytest.approx(1 - wanted, abs=1e-6), y


@pytest.mark.parametrize("mean", [0.3, 4.0, 165.9, 5000.0])
def test_nearly_certain_means_give_poisson_quantiles(mean: float) -> None:
    """SciPy's function of one argument x loses this: beside 1 it has no digits left."""
    found = count_quantiles(np.full(4, mean), mean * np.array([1e-10, 3e-9, 1e-8, 1e-6]), 0.975)
    assert found.tolist() == [stats.poisson.ppf(0.975, mean)] * 4
