"""What structural operations do to NumPy arrays.

Rows of data are the last axis of every array: an array of shape `s` has the shape `s + (rows,)`, or `s + (1,)` where it
is the same for all rows. So elementwise operations broadcast by themselves, a layer over a block of rows is one product
of matrices, and the rows of each element lie side by side in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def _with_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, for arguments some of which may be plain numbers."""
    return lambda *xs: function(*[np.reshape(x, (1,)) if np.ndim(x) == 0 else x for x in xs])


def _flat(x: Array) -> Any:
    """All elements along the first axis."""
    return x.reshape(-1, x.shape[-1])


def _broadcast_like(x: Array, like: Array) -> Any:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, like.shape))


def _sum_like(x: Array, like: Array) -> Any:
    x = x.sum(axis=tuple(range(x.ndim - like.ndim)))
    stretched = tuple(i for i in range(like.ndim - 1) if like.shape[i] == 1 < x.shape[i])
    return x.sum(axis=stretched, keepdims=True)


def _norm(x: Array) -> Any:
    """The root of the sum of squares, scaled by the largest so that no square overflows or vanishes."""
    flat = np.abs(_flat(x))
    scale = flat.max(axis=0)
    usable = (scale > 0) & np.isfinite(scale)
    ratio = flat / np.where(usable, scale, 1.0)
    return np.where(usable, scale * np.sqrt(np.square(ratio).sum(axis=0)), scale)


def _logsumexp(x: Array) -> Any:
    flat = _flat(x)
    top = flat.max(axis=0)
    level = np.where(np.isfinite(top), top, 0.0)
    return level + np.log(np.exp(flat - level).sum(axis=0))


def _softmax(x: Array) -> Any:
    axes = tuple(range(x.ndim - 1))
    z = np.exp(x - x.max(axis=axes, keepdims=True))
    return z / z.sum(axis=axes, keepdims=True)


def _matmul(a: Array, b: Array) -> Any:
    if a.shape[-1] == 1:
        return np.tensordot(a[..., 0], b, axes=1)
    if b.shape[-1] == 1:
        product = np.tensordot(a, b[..., 0], axes=([-2], [0]))  # the rows are where a had them
        return np.moveaxis(product, a.ndim - 2, -1)
    left, right = "ij"[2 - (a.ndim - 1) :], "jk"[: b.ndim - 1]
    return np.einsum(f"{left}r,{right}r->{left[:-1]}{right[1:]}r", a, b)


def _outer(a: Array, b: Array) -> Any:
    return a[:, None, :] * b[None, :, :]


def _dot(a: Array, b: Array) -> Any:
    return (_flat(a) * _flat(b)).sum(axis=0)


def _same_rows(xs: tuple[Array, ...]) -> list[Array]:
    rows = max(x.shape[-1] for x in xs)
    return [np.broadcast_to(x, (*x.shape[:-1], rows)) for x in xs]


def _at(positions: tuple[Array, ...]) -> tuple[int, ...]:
    return tuple(int(position[0]) for position in positions)


def _place(x: Array, like: Array, *positions: Array) -> Any:
    placed = np.zeros((*like.shape[:-1], x.shape[-1]), x.dtype)
    placed[_at(positions)] = x
    return placed


def _pad(x: Array, start: Array, stop: Array, like: Array) -> Any:
    padded = np.zeros((*like.shape[:-1], x.shape[-1]), x.dtype)
    padded[int(start[0]) : int(stop[0])] = x
    return padded


_TABLE: dict[str, Callable[..., Any]] = {
    "broadcast_like": _broadcast_like,
    "sum_like": _sum_like,
    "sum": lambda x: _flat(x).sum(axis=0),
    "size": lambda x: np.full(1, float(math.prod(x.shape[:-1]))),
    "norm": _norm,
    "logsumexp": _logsumexp,
    "largest": lambda x: _flat(x).max(axis=0),
    "smallest": lambda x: _flat(x).min(axis=0),
    "matmul": _matmul,
    "outer": _outer,
    "dot": _dot,
    "prod": lambda x: _flat(x).prod(axis=0),
    "softmax": _softmax,
    "stack": lambda *xs: np.stack(_same_rows(xs)),
    "index": lambda x, *positions: x[_at(positions)],
    "place": _place,
    "concat": lambda *xs: np.concatenate(_same_rows(xs)),
    "part": lambda x, start, stop: x[int(start[0]) : int(stop[0])],
    "pad": _pad,
    "transpose": lambda x: x.swapaxes(0, -2) if x.ndim > 1 else x,
}

STRUCTURES = {name: _with_rows(function) for name, function in _TABLE.items()}
