"""NumPy arrays of which every result is moved by a few units in the last place: see `floats.moved`."""

from __future__ import annotations

from typing import Any

import numpy as np

from autodiff_cli.numbers.arrays.table import ARRAYS
from autodiff_cli.numbers.floats.moved import LARGE, TINY, Function, moved_constant, moving
from autodiff_cli.numbers.kind import Kind


def _lifted(function: Function) -> Function:
    def value(*xs: Any) -> Any:
        z = function(*xs)
        vanished = np.logical_and.reduce(np.broadcast_arrays(np.abs(z) < TINY, *(np.abs(x) >= TINY for x in xs)))
        return np.where(vanished, np.copysign(TINY, z), z)

    return value


def _moved_if_rounded(function: Function, move: Function) -> Function:
    def value(*xs: Any) -> Any:
        z = function(*xs)
        short = np.logical_and.reduce(np.broadcast_arrays(*map(_is_short, (z, *xs))))
        return np.where(short, z, move(z))

    return value


def _is_short(x: Any) -> Any:
    scaled = np.asarray(x) * 1024
    return (np.floor(scaled) == scaled) & (np.abs(x) < LARGE)


MOVED_ARRAYS: Kind[Any] = Kind(
    "arrays moved by a unit",
    moving(ARRAYS.table, _lifted, _moved_if_rounded),
    lambda text: np.float64(moved_constant(text)),
)
