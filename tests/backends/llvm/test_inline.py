"""Inlined functions are accurate, and outside of their range the library is called."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from autodiff_cli.backends.llvm import vectors
from autodiff_cli.backends.llvm.backend import LlvmBackend
from autodiff_cli.backends.llvm.machine_code import host_processor
from autodiff_cli.backends.llvm.vectors import MAX_TRIG_ARGUMENT
from autodiff_cli.backends.numpy_backend import NumpyBackend
from autodiff_cli.graph.tape import topological_order
from autodiff_cli.language.program import read
from tests.backends.llvm.compiled import WIDTHS, by_row, every_width
from tests.each import each

ULPS = 2
STRIP = 2048  # rows; what is computed with care is so within one
pytestmark = pytest.mark.skipif(not host_processor().has_fma, reason="needs fused multiply-adds")


def found(name: str, x: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    return by_row(LlvmBackend(1, width), [read(f"{name}(x)").output], {"x": x})[0]


def arguments(name: str) -> NDArray[np.float64]:
    """From all over the range in which functions are written out."""
    chance = np.random.default_rng(0)
    sizes = np.exp(chance.uniform(-690, 690, 400))
    match name:
        case "sin" | "cos":
            whole = np.arange(1, 200) * (math.pi / 2)  # as near to zeros as numbers get
            near = np.rint(chance.uniform(1, 2 * MAX_TRIG_ARGUMENT / math.pi, 200)) * (math.pi / 2)
            x = np.concatenate(
                [whole, near, chance.uniform(-4, 4, 200), sizes[sizes < MAX_TRIG_ARGUMENT], [0.0, 5e-324]]
            )
            return np.concatenate([x, -x])
        case "exp":
            edges = [0.0, -0.0, 5e-324, 709.78, 709.79, -708.0, -744.0, -745.13, -745.14, -746.0, 1e300, -1e300]
            return np.concatenate([chance.uniform(-745, 709, 400), chance.uniform(-1, 1, 200), sizes, -sizes, edges])
        case "log":
            return np.concatenate([sizes, chance.uniform(0.5, 2, 400), 1 + chance.uniform(-1e-9, 1e-9, 100)])
        case _:
            near = chance.uniform(-0.99, 1, 400)
            return np.concatenate([sizes, near, near * 1e-9, near * 1e-300, np.nextafter(-1, near[:9]), [0.0, -0.0]])


@every_width
@pytest.mark.parametrize("name", ["sin", "cos", "exp", "log", "log1p"])
def test_digits(name: str, width: int) -> None:
    x = arguments(name)
    with mpmath.workdps(400 if name == "log1p" else 60):
        exact = getattr(mpmath, name)
        for argument, value in zip(x.tolist(), found(name, x, width).tolist(), strict=True):
            wanted = exact(mpmath.mpf(argument))
            rounded = float(wanted)
            if math.isinf(rounded) or rounded == 0:
                assert value == rounded, (argument, value)
                assert math.copysign(1, value) == math.copysign(1, argument if name != "exp" else 1), argument
            else:
                assert abs(mpmath.mpf(value) - wanted) <= ULPS * math.ulp(rounded), (argument, value)


@each("width", WIDTHS)
def test_exp_has_its_digits_in_vectors_of_any_width(width: int) -> None:
    """Only the widest vectors multiply by a power of two in one instruction."""
    x = np.linspace(-708, 709, 999)
    np.testing.assert_allclose(found("exp", x, width), np.exp(x), rtol=1e-15)


@every_width
@pytest.mark.parametrize(
    ("name", "far"),
    [
        ("sin", [1e22, -MAX_TRIG_ARGUMENT * 1.5, math.inf, -math.inf]),
        ("cos", [1e22, 1e308, math.inf]),
        ("log", [0.0, -0.0, -1.0, 5e-324, 1e-310, 1.7e308, math.inf, -math.inf]),
        ("log1p", [-1.0, -2.0, 1.7e308, math.inf, -math.inf]),
        ("exp", [math.inf, -math.inf]),
    ],
)
def test_the_library_is_called_outside_the_inline_range(name: str, far: list[float], width: int) -> None:
    usual = np.linspace(0.25, 3, 3 * STRIP + 5)
    x = usual.copy()
    x[STRIP + 7 : STRIP + 7 + len(far)] = far
    x[5] = math.nan
    values = found(name, x, width)
    alone = found(name, usual, width)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x)
    np.testing.assert_allclose(values, wanted, rtol=1e-15)
    elsewhere = np.r_[0:5, 6:STRIP, 2 * STRIP : len(x)]
    assert values[elsewhere].tobytes() == alone[elsewhere].tobytes()


@every_width
@pytest.mark.parametrize("name", ["log", "log1p"])
@pytest.mark.parametrize("argument", [-1.5, -8e-57, -1e300])
def test_a_negative_number_alone_has_no_logarithm(name: str, argument: float, width: int) -> None:
    x = np.linspace(0.25, 3, 40)
    x[7] = argument
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found(name, x, width), getattr(np, name)(x), rtol=1e-15)


INNER = ["exp(-x^2)", "exp(-abs(x)) - 1", "1 + exp(-abs(x))", "abs(x)", "x^2 + 0.5", "2*exp(min(x, 3))", "-x^2"]


@every_width
@each("name", ["log", "log1p", "exp", "sin"])
def test_whatever_is_known_of_an_argument_the_value_is_that_of_numpy(name: str, width: int) -> None:
    """Also where an argument that is bounded on one side gets to the end of the range."""
    x = np.array([0.0, 1e-300, 1e-9, 0.3, 1.0, 5.0, 27.0, 40.0, 700.0, 1e9, 1e160])
    x = np.concatenate([x, -x, np.linspace(0.1, 2, 40)])
    graphs = [read(f"{name}({inner})").output for inner in INNER]
    found, expected = (by_row(backend, graphs, {"x": x}) for backend in (LlvmBackend(1, width), NumpyBackend()))
    for inner, values, wanted in zip(INNER, found, expected, strict=True):
        np.testing.assert_allclose(values, wanted, rtol=2e-14, atol=1e-300, err_msg=inner)


@pytest.mark.parametrize(
    ("function", "bounds", "is_safe"),
    [
        ("exp", (-math.inf, math.inf), True),
        ("log", (0.5, 3.0), True),
        ("log", (-0.5, 3.0), False),
        ("log", (0.0, 3.0), False),
        ("log", (0.5, math.inf), False),
        ("log1p", (0.2, 0.5), True),
        ("log1p", (-0.5, 3.0), True),
        ("log1p", (-1.0, 3.0), False),
        ("log1p", (-3.0, -2.0), False),
        ("sin", (0.1, 0.2), False),
        ("cos", (0.1, 0.2), False),
    ],
)
def test_arguments_are_watched_unless_their_bounds_are_moderate(
    function: str, bounds: tuple[float, float], is_safe: bool
) -> None:
    assert vectors._is_safe(function, bounds) == is_safe


def test_bounds_of_values() -> None:
    code = vectors.VectorCode()
    x, y = (code.make("argument", detail=name, is_varying=True) for name in "xy")
    small, inf = vectors.exp(-abs(x)), math.inf  # from 0 to 1, of which 2 is known
    bounds = {
        x + 1.0: (-inf, inf),
        x * y: (-inf, inf),
        x * x: (0.0, inf),
        abs(x) * (abs(y) + 1.0): (0.0, inf),
        abs(x) + 2.0: (2.0, inf),
        -(abs(x) + 2.0): (-inf, -2.0),
        (abs(x) + 1.0) * (abs(y) + 3.0): (3.0, inf),
        vectors.where(x < y, x * x + 1.0, abs(y) + 3.0): (1.0, inf),
        vectors.where(x < y, small + 4.0, small + 2.0): (2.0, 6.0),
        vectors.exp(x): (0.0, inf),
        small + 1.0: (1.0, 3.0),
        (small + 1.0) * (vectors.exp(-abs(y)) + 2.0): (2.0, 12.0),
        (small + 1e300) * (abs(y) + 1e300): (inf, inf),
        abs(-(small + 1.0)): (0.0, 3.0),
        abs(small - 5.0): (0.0, inf),
        code.as_vector(2.0) + code.as_vector(3.5): (5.5, 5.5),
        code.as_vector(inf) + -(abs(x) + 2.0): (-inf, inf),
        code.as_vector(inf) * abs(x): (0.0, inf),
        code.as_vector(math.nan) + 1.0: (-inf, inf),
    }
    for vector, expected in bounds.items():
        assert vectors.value_bounds(topological_order([vector]))[vector] == expected, expected
