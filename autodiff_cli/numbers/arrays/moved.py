"""NumPy arrays of which every result is moved by a few units in the last place: see `floats.moved`.

Every element is moved by another factor. Several ways to move at once are rows of their own: the last axis, along which
a number that nothing has moved yet has length 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.graph.node import Node
from autodiff_cli.numbers.arrays.table import ARRAYS
from autodiff_cli.numbers.floats.moved import (
    COMPARISONS,
    LARGE,
    LIFTED,
    NO_PHASE,
    TINY,
    UNIT,
    WAYS,
    Function,
    moved_constant,
    moving,
    units_of,
)
from autodiff_cli.numbers.kind import Kind

Array = NDArray[np.float64]

_LARGE = 1 << 14  # elements of an array that is not asked one by one which of them are exact
_PERIOD = 4099  # of the moves: a prime, so that no two rows or columns of an array are moved alike


@lru_cache(maxsize=6)
def _moves(way: int, periods: int) -> Array:
    """Factors that are irregular, and in the mean 1, so that long sums are not moved far."""
    return np.tile(1 + np.array(units_of(way, _PERIOD)) * UNIT, periods)


class _Factors:
    """The factors that come next, for each of the ways to move."""

    def __init__(self) -> None:
        self.start(WAYS)

    def start(self, ways: Sequence[int]) -> None:
        self._ways, self._at, self.undecided = ways, 0, False

    def like(self, x: Any) -> Array:
        """A factor for each element of an array and each way."""
        shape = np.shape(x)[:-1]
        start, stop = self._at, self._at + math.prod(shape)
        self._at = stop % _PERIOD
        periods = 2 << (stop // _PERIOD).bit_length()
        return np.stack([_moves(way, periods)[start:stop] for way in self._ways], axis=-1).reshape(*shape, -1)


_FACTORS = _Factors()


def start_array_moves(*ways: int) -> Kind[Any]:
    """Begin with some ways to move; gives the kind of number that is moved in these ways."""
    _FACTORS.start(ways)
    return MOVED_ARRAYS.with_constants(lambda text: np.array([moved_constant(text, way) for way in ways]), np.float64)


def is_undecided() -> bool:
    """Whether a comparison has met a number, since the beginning, that may be infinite by overflow only."""
    return _FACTORS.undecided


def _moved(z: Any) -> Any:
    z = z * _FACTORS.like(z)
    # Of an infinity, which may be one by overflow only, nothing is known.
    return z if math.isfinite(np.sum(z)) else np.where(np.isinf(z), np.nan, z)


def _lifted(function: Function) -> Function:
    def value(*xs: Any) -> Any:
        z = function(*xs)
        vanished = np.abs(z) < TINY
        if not np.any(vanished):
            return z
        for x in xs:
            vanished = vanished & (x != 0)
        return np.where(vanished, np.copysign(LIFTED, z), z)

    return value


def _moved_if_rounded(function: Function, move: Function) -> Function:
    def value(*xs: Any) -> Any:
        z = function(*xs)
        if np.size(z) > _LARGE and not _are_short(z):
            return move(z)
        short = _is_short(z)
        if not np.any(short):
            return move(z)
        for x in xs:
            short = short & _is_short(x)
        return z if np.all(short) else np.where(short, z, move(z))

    return value


def _is_short(x: Any) -> Any:
    scaled = np.asarray(x) * 1024
    return (np.floor(scaled) == scaled) & (np.abs(x) < LARGE)


def _lost(function: Function) -> Function:
    return lambda x: np.where(np.abs(x) > NO_PHASE, np.nan, function(x))


def _compared(function: Function) -> Function:
    def truth(a: Any, b: Any) -> Any:
        if not (np.all(np.isfinite(a)) and np.all(np.isfinite(b))):
            _FACTORS.undecided = True
        return function(a, b)

    return truth


# --- operations on whole arrays: what they add up is moved term by term, as if each had been rounded


def _with_rows(function: Function) -> Function:
    return lambda *xs: function(*[np.reshape(x, (1,)) if np.ndim(x) == 0 else x for x in xs])


def _are_short(x: Array) -> bool:
    """Whether all elements are; mostly one of the first is not."""
    return bool(np.all(_is_short(x[:1])) and np.all(_is_short(x)))


def _sum(function: Function) -> Function:
    def value(x: Array, *like: Array) -> Any:
        is_exact = _are_short(x) and np.sum(np.abs(x)) < LARGE
        return function(x if is_exact else _moved(x), *like)

    return value


def _product(function: Function) -> Function:
    """A sum of products; one that vanishes although none of its factors does is lifted as others are."""

    def value(a: Array, b: Array) -> Any:
        is_short = _are_short(a) and _are_short(b)
        if is_short and np.all(function(np.abs(a), np.abs(b)) * 1024 < LARGE):
            return function(a, b)
        is_large = max(a.size, b.size) > _LARGE
        z = function(a, _moved(b)) if (a.size > b.size) == is_large else function(_moved(a), b)
        if is_large:
            z = _moved(z)  # rows that are alike have been moved alike
        vanished = np.abs(z) < TINY
        if np.any(vanished):
            terms = function((a != 0) * 1.0, (b != 0) * 1.0)
            z = np.where(vanished & (terms > 0), _moved(np.copysign(LIFTED, z)), z)
        return z

    return value


def _norm(x: Array) -> Any:
    z = ARRAYS.table["norm"](x)
    is_something = np.any(x != 0, axis=tuple(range(x.ndim - 1)))
    return _moved(np.where((z < TINY) & is_something, LIFTED, z))


def _prod(x: Array) -> Any:
    z = ARRAYS.table["prod"](x)
    has_all = np.all(x != 0, axis=tuple(range(x.ndim - 1)))
    return _moved(np.where((np.abs(z) < TINY) & has_all, np.copysign(LIFTED, z), z))


def _logsumexp(x: Array) -> Any:
    flat = x.reshape(-1, x.shape[-1])
    top = flat.max(axis=0)
    level = np.where(np.isfinite(top), top, 0.0)
    return _moved(level + _moved(np.log(_moved(np.exp(flat - level).sum(axis=0)))))


def _softmax(x: Array) -> Any:
    z = ARRAYS.table["softmax"](x)
    return _moved(np.where((np.abs(z) < TINY) & np.isfinite(x), LIFTED, z))


def _whole_arrays(elementwise: dict[str, Function]) -> dict[str, Function]:
    multiply, own = elementwise["mul"], ARRAYS.table
    found: dict[str, Function] = {
        **{name: own[name] for name in ("broadcast_like", "transpose")},
        **{name: _sum(own[name]) for name in ("sum", "sum_like")},
        **{name: _product(own[name]) for name in ("matmul", "dot")},
        "outer": lambda a, b: multiply(a[:, None, :], b[None, :, :]),
        "norm": _norm,
        "prod": _prod,
        "logsumexp": _logsumexp,
        "softmax": _softmax,
    }
    return {name: _with_rows(function) for name, function in found.items()}


def _table() -> dict[str, Callable[..., Any]]:
    found = moving(ARRAYS.table, _moved, _lifted, _moved_if_rounded, _lost)
    found |= {name: _compared(found[name]) for name in COMPARISONS}
    return {**found, **_whole_arrays(found)}


class _Moved(Kind[Any]):
    """What is constant within rules is computed once for all ways to move, so it is not moved."""

    def _computed(self, node: Node, inputs: Sequence[Any]) -> Any:
        return ARRAYS._computed(node, inputs)


MOVED_ARRAYS: Kind[Any] = _Moved("arrays moved by a unit", _table(), lambda text: np.float64(moved_constant(text)))
