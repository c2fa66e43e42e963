"""The cases of `kernels.py`, each as a formula, in NumPy by hand, and as a function for JAX or torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

COLUMNS, UNITS = 10, 10


class Case(NamedTuple):
    """A model, and the same in other words.

    Attributes:
        model: the formula.
        parameters: its parameters, in the order of `p` below.
        columns: how many columns it reads; `x`, or `x0`, `x1`, ….
        loss: of the fit.
        mean_loss: with the functions of a module (jax.numpy or torch), of columns, y and p.
        by_numpy: mean loss and gradient by hand, of the same.
    """

    model: str
    parameters: Sequence[str]
    columns: int
    loss: str
    mean_loss: Callable[[Any, Any, Any, Any], Any]
    by_numpy: Callable[[Any, Any, Any], Any]


def _a_loss(m: Any, x: Any, y: Any, p: Any) -> Any:
    return ((y - (p[0] * m.exp(-p[1] * x[0]) + p[2] * m.sin(p[3] * x[0]))) ** 2).mean()


def _a_numpy(columns: Any, y: Any, p: Any) -> Any:
    x = columns[0]
    e, s, k = np.exp(-p[1] * x), np.sin(p[3] * x), np.cos(p[3] * x)
    r = y - (p[0] * e + p[2] * s)
    g = -2 * r / len(x)
    return [r @ r / len(x), g @ e, -(g * e) @ x * p[0], g @ s, (g * k) @ x * p[2]]


def _b_loss(m: Any, x: Any, y: Any, p: Any) -> Any:
    s = p[1:] @ x + p[0]
    return (m.logaddexp(s, 0 * s) - y * s).mean()


def _b_numpy(x: Any, y: Any, p: Any) -> Any:
    s = p[1:] @ x + p[0]
    e = np.exp(-np.abs(s))
    d = (np.where(s < 0, e, 1) / (1 + e) - y) / len(y)
    return [(np.maximum(s, 0) + np.log1p(e) - y * s).mean(), d.sum(), *(x @ d)]


def _c_loss(_: Any, x: Any, y: Any, p: Any) -> Any:
    u = x[0]
    return ((y - (p[0] + p[1] * u + p[2] * u * u) / (1 + p[3] * u + p[4] * u * u)) ** 2).mean()


def _c_numpy(columns: Any, y: Any, p: Any) -> Any:
    x = columns[0]
    square = x * x
    q = 1 / (1 + p[3] * x + p[4] * square)
    z = (p[0] + p[1] * x + p[2] * square) * q
    r = y - z
    g = -2 * r * q / len(x)
    h = -g * z
    return [r @ r / len(x), g.sum(), g @ x, g @ square, h @ x, h @ square]


def _d_parts(p: Any) -> Any:
    into, first, out = p[:UNITS], p[UNITS : 2 * UNITS], p[-1 - UNITS : -1]
    return into, first, p[2 * UNITS : 2 * UNITS + UNITS**2].reshape(UNITS, UNITS), p[-1 - 2 * UNITS : -1 - UNITS], out


def _d_loss(m: Any, x: Any, y: Any, p: Any) -> Any:
    into, first, weights, second, out = _d_parts(p)
    hidden = m.tanh(into[:, None] * x[0] + first[:, None])
    return ((y - (out @ m.tanh(weights @ hidden + second[:, None]) + p[-1])) ** 2).mean()


def _d_numpy(columns: Any, y: Any, p: Any) -> Any:
    x = columns[0]
    into, first, weights, second, out = _d_parts(p)
    h = np.tanh(into[:, None] * x + first[:, None])
    z = np.tanh(weights @ h + second[:, None])
    r = y - (out @ z + p[-1])
    g = -2 * r / len(x)
    back = out[:, None] * g * (1 - z * z)
    below = (weights.T @ back) * (1 - h * h)
    return [
        r @ r / len(x), *(below @ x), *below.sum(1), *(back @ h.T).ravel(), *back.sum(1), *(z @ g), g.sum(),
    ]  # fmt: skip


def _network() -> tuple[str, list[str]]:
    """1-10-10-1 written out."""
    units = range(UNITS)
    hidden = [f"tanh(v{j}*x + k{j})" for j in units]
    sums = [" + ".join(f"w{j}_{k}*{hidden[k]}" for k in units) for j in units]
    text = " + ".join(f"o{j}*tanh({sums[j]} + m{j})" for j in units)
    names = [
        *(f"v{j}" for j in units), *(f"k{j}" for j in units), *(f"w{j}_{k}" for j in units for k in units),
        *(f"m{j}" for j in units), *(f"o{j}" for j in units), "t",
    ]  # fmt: skip
    return f"y ~ {text} + t", names


_LINE = " + ".join(f"w{k}*x{k}" for k in range(COLUMNS))

CASES = {
    "a": Case("y ~ a*exp(-b*x) + c*sin(d*x)", "abcd", 1, "mse", _a_loss, _a_numpy),
    "b": Case(
        f"y ~ sigmoid(w + {_LINE})", ["w", *(f"w{k}" for k in range(COLUMNS))], COLUMNS, "bce", _b_loss, _b_numpy
    ),
    "c": Case("y ~ (a + b*x + c*x^2)/(1 + d*x + f*x^2)", "abcdf", 1, "mse", _c_loss, _c_numpy),
    "d": Case(*_network(), 1, "mse", _d_loss, _d_numpy),
}
