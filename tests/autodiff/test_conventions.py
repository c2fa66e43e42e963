"""The slopes taken where a function has a value but no derivative, and the infinite ones."""

from __future__ import annotations

import math

import pytest

from autodiff_cli import parse
from autodiff_cli.autodiff.sweeps import forward, reverse
from autodiff_cli.graph.node import variable
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops import get_op
from tests.each import each

inf, nan = math.inf, math.nan

SLOPES = [
    ("abs", (0,), (0,)),
    ("relu", (0,), (0,)),
    ("sign", (0,), (0,)),
    ("floor", (2,), (0,)),
    ("ceil", (2,), (0,)),
    ("round", (2.5,), (0,)),
    ("heaviside", (0,), (0,)),
    ("max", (2, 2), (0.5, 0.5)),
    ("min", (2, 2), (0.5, 0.5)),
    ("max", (2, 2, 2), (1 / 3, 1 / 3, 1 / 3)),
    ("max", (1, 2, 2), (0, 0.5, 0.5)),
    ("max", (3,), (1,)),
    ("clip", (0, 3, 1), (0, 0, 1)),  # the upper end wins where the ends are crossed
    ("hypot", (0, 0), (0, 0)),
    ("sqrt", (0,), (inf,)),
    ("cbrt", (0,), (inf,)),
    ("log", (0,), (inf,)),
    ("asin", (1,), (inf,)),
    ("asin", (-1,), (inf,)),
    ("acos", (1,), (-inf,)),
    ("acosh", (1,), (inf,)),
    ("atanh", (1,), (inf,)),
    ("log", (-1,), (nan,)),
    ("log1p", (-2,), (nan,)),
    ("atanh", (2,), (nan,)),
    ("acoth", (0.5,), (nan,)),
    ("logit", (2,), (nan,)),
    ("atan2", (0, 0), (nan, nan)),
    ("leaky_relu", (0,), (0.01,)),
    ("selu", (0,), (1.0507009873554804934,)),
    ("elu", (0,), (1,)),
    ("celu", (0,), (1,)),
    ("hardtanh", (1,), (0,)),
    ("hardtanh", (-1,), (0,)),
    ("relu6", (0,), (0,)),
    ("relu6", (6,), (0,)),
    ("clip", (1, 1, 2), (0, 0, 0)),
    ("mod", (7, 3), (1, -2)),
    ("mod", (6, 3), (1, -2)),
    ("pow", (0, 0), (0, nan)),
    ("pow", (0, 3), (0, 0)),
    ("pow", (0, 1), (1, 0)),
    ("pow", (-2, 3), (12, nan)),
    ("pow", (5, 0), (0, math.log(5))),
    ("root", (-8, 3), (1 / 12, nan)),
    ("sinc", (0,), (0,)),
    ("sigmoid", (800,), (0,)),
    ("tanh", (800,), (0,)),
    ("softplus", (-800,), (0,)),
]


@each(("name", "point", "slopes"), SLOPES, ids=lambda part: str(part))
def test_slope(name: str, point: tuple[float, ...], slopes: tuple[float, ...]) -> None:
    leaves = [variable(f"x{i}") for i in range(len(point))]
    tape = Tape((get_op(name)(*leaves),))
    values = forward(tape, FLOATS, {leaf.text: float(value) for leaf, value in zip(leaves, point, strict=True)})
    adjoints = reverse(tape, FLOATS, values, 1.0)
    found = [adjoints[tape.index[leaf]] or 0.0 for leaf in leaves]
    assert found == pytest.approx(slopes, rel=1e-15, abs=0, nan_ok=True)


@each(
    ("point", "value"),
    [((-8.0, 3.0), -2.0), ((-8.0, 2.0), nan), ((-32.0, 5.0), -2.0), ((1e300, 1e300), 1.0), ((2.0, 2.0), math.sqrt(2))],
)
def test_root(point: tuple[float, float], value: float) -> None:
    assert FLOATS.function(get_op("root"), 2)(*point) == pytest.approx(value, nan_ok=True)


@each(
    ("name", "point", "value"),
    [
        ("div", (1.0, 0.0), inf), ("div", (1.0, -0.0), -inf), ("div", (0.0, 0.0), nan), ("log", (0.0,), -inf),
        ("log", (-1.0,), nan), ("exp", (1000.0,), inf), ("pow", (-8.0, 1 / 3), nan), ("pow", (0.0, -1.0), inf),
        ("pow", (-0.0, -1.0), -inf), ("pow", (-10.0, 309.0), -inf), ("pow", (10.0, 400.0), inf), ("sqrt", (-1.0,), nan),
        ("sin", (inf,), nan), ("acos", (2.0,), nan), ("sinh", (-1000.0,), -inf), ("cosh", (-1000.0,), inf),
        ("mod", (1.0, 0.0), nan), ("floor", (inf,), inf), ("round", (nan,), nan), ("max", (nan, 1.0), nan),
        ("sigmoid", (-800.0,), 0.0), ("softplus", (1000.0,), 1000.0), ("logsigmoid", (-1000.0,), -1000.0),
        ("logaddexp", (1000.0, 1000.0), 1000.0 + math.log(2)), ("hypot", (1e200, 1e200), math.sqrt(2) * 1e200),
        ("atanh", (1.0,), inf), ("log1p", (-1.0,), -inf), ("mod", (-7.0, 3.0), 2.0), ("mod", (7.0, -3.0), -2.0),
        ("square", (1e200,), inf), ("mul", (1e200, 1e200), inf), ("softsign", (inf,), 1.0),
        ("acot", (0.0,), math.pi / 2),
    ],
)  # fmt: skip
def test_ieee_values_instead_of_exceptions(name: str, point: tuple[float, ...], value: float) -> None:
    assert FLOATS.function(get_op(name), len(point))(*point) == pytest.approx(value, rel=1e-15, nan_ok=True)


def test_a_clip_between_equal_ends_has_no_slope() -> None:
    """Below and at them there is a kink towards either end, above them only towards the upper one."""
    f = parse("clip(x, low, high)")
    for x in (1.0, 2.0):
        assert [*f.grad(x=x, low=2.0, high=2.0).values()] == [0, 0, 0]
    assert [*f.grad(x=3.0, low=2.0, high=2.0).values()] == [0, 0, 1]
    assert [*f.grad(x=3.0, low=2.0, high=1.0).values()] == [0, 0, 1]


@each("text", ["x^n", "root(x, n)"])
def test_a_power_of_0_is_0_for_all_exponents_nearby(text: str) -> None:
    f = parse(text)
    for n in (0.5, 1, 2, 3.7):
        second = f.derivative("n").derivative("n")(x=0, n=n)
        assert (f.grad(x=0, n=n)["n"], f.hessian(x=0, n=n)[1, 1], second) == (0, 0, 0)
