"""`Value`, the scalar that records how it was computed."""

from __future__ import annotations

import math

import pytest

from autodiff_cli.nn import Value


def test_a_first_program() -> None:
    a, b, c = Value(2.0, label="a"), Value(-3.0, label="b"), Value(10.0, label="c")
    d = a * b + c
    d.backward()
    assert (d.data, d.grad, a.grad, b.grad, c.grad) == (4.0, 1.0, -3.0, 2.0, 1.0)
    assert (d.op, [value.op for value in d.inputs], a.op, a.inputs) == ("add", ["mul", ""], "", ())
    assert a.label == "a"


def test_every_operator_both_ways_round() -> None:
    x = Value(3.0)
    y = 1 + x + 1 - (2 - x - 2) + (2 * x * 2) + (6 / x / 2) + 2**x + x**2 + -x
    y.backward()
    assert y.data == 5 + 3 + 12 + 1 + 8 + 9 - 3
    assert x.grad == pytest.approx(1 + 1 + 4 - 1 / 3 + 8 * math.log(2) + 6 - 1)


def test_functions() -> None:
    for name, slope in [
        ("relu", 1.0), ("tanh", 1 / math.cosh(0.5) ** 2), ("exp", math.exp(0.5)), ("log", 2.0),
        ("sigmoid", math.exp(-0.5) / (1 + math.exp(-0.5)) ** 2),
    ]:  # fmt: skip
        x = Value(0.5)
        getattr(x, name)().backward()
        assert x.grad == pytest.approx(slope, rel=1e-15), name


def test_gradients_accumulate_over_outputs_until_they_are_zeroed() -> None:
    x = Value(3.0)
    (x**2).backward()
    assert x.grad == 6.0
    (x**3).backward()
    assert x.grad == 33.0
    x.zero_grad()
    assert x.grad == 0.0


def test_a_second_backward_adds_exactly_the_same_once_more() -> None:
    x = Value(3.0)
    middle = x * x
    output = middle * x + middle
    output.backward()
    first = (x.grad, middle.grad, output.grad)
    output.backward()
    assert (x.grad, middle.grad, output.grad) == tuple(2 * grad for grad in first)


def test_the_diamond_accumulates() -> None:
    x = Value(3.0)
    a = x + x
    (a * a).backward()
    assert x.grad == 24.0


def test_zero_grad_reaches_everything_below() -> None:
    x = Value(2.0)
    y = x * x
    z = y + x
    z.backward()
    z.zero_grad()
    assert (x.grad, y.grad, z.grad) == (0.0, 0.0, 0.0)


def test_a_dead_relu_contributes_nothing() -> None:
    x = Value(-2.0)
    (x.relu() + x).backward()
    assert x.grad == 1.0


def test_a_chain_of_20000_does_not_recurse() -> None:
    x = Value(1.0)
    y = x
    for _ in range(20_000):
        y = y + x
    y.backward()
    assert x.grad == 20_001.0


def test_values_hash_by_identity() -> None:
    assert len({Value(1.0), Value(1.0)}) == 2


def test_ieee_instead_of_exceptions() -> None:
    x = Value(0.0)
    y = 1 / x
    y.backward()
    assert y.data == math.inf
    assert x.grad == -math.inf


def test_the_graph_that_micrograd_checks_itself_with() -> None:
    """The two programs of its README and test, with the gradients that PyTorch gives for them."""
    a, b = Value(-4.0), Value(2.0)
    c = a + b
    d = a * b + b**3
    c += c + 1
    c += 1 + c + (-a)
    d += d * 2 + (b + a).relu()
    d += 3 * d + (b - a).relu()
    e = c - d
    f = e**2
    g = f / 2.0
    g += 10.0 / f
    g.backward()
    assert g.data == pytest.approx(24.70408163265306, rel=1e-15)
    assert a.grad == pytest.approx(138.83381924198252, rel=1e-15)
    assert b.grad == pytest.approx(645.5772594752186, rel=1e-15)
