"""Columns as compiled code takes them: addresses, after all has been checked that it relies on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.llvm.plans.items import Leaf
from autodiff_cli.backends.llvm.writing.cells import CONVERSIONS
from autodiff_cli.backends.protocol import Columns


class Bound:
    """The columns of a kernel in place.

    Arrays are read where they lie, if they are of a usual type, in the machine's own order of bytes, and rows are side
    by side; others are copied.

    Attributes:
        types: of the columns, by NumPy's letters.
        table: for each an address and the distance between its elements.

    Raises:
        ValueError: for a column that does not have the shape of its leaf, or as many rows as it should.
    """

    def __init__(self, leaves: Sequence[Leaf], columns: Columns, rows: int) -> None:
        self._rows = rows
        self._names = [leaf.name for leaf in leaves]
        self._given = [columns[name] for name in self._names]
        self._used = [_usable(leaf, np.asarray(columns[leaf.name]), rows) for leaf in leaves]
        self._is_direct = all(map(is_, self._given, self._used))
        self.types = tuple(_letters(array) for array in self._used)
        self.table = np.zeros(2 * max(1, len(leaves)), np.int64)
        for k, array in enumerate(self._used):
            self.table[2 * k] = array.ctypes.data
            if array.ndim > 1:
                self.table[2 * k + 1] = array.strides[-2]

    def is_of(self, columns: Columns, rows: int) -> bool:
        """Whether these are the same arrays as before, all read where they lie."""
        return (
            rows == self._rows and self._is_direct and all(map(is_, map(columns.__getitem__, self._names), self._given))
        )


def _usable(leaf: Leaf, array: NDArray[Any], rows: int) -> NDArray[Any]:
    if array.shape != (*leaf.shape, rows):
        wanted = "x".join(map(str, (*leaf.shape, rows)))
        found = "x".join(map(str, array.shape)) or "none"
        raise ValueError(f"column `{leaf.name}` has {found} numbers; {wanted} are needed")
    if _is_plain(array):
        return array
    return np.ascontiguousarray(array, dtype=np.float64)


def _is_plain(array: NDArray[Any]) -> bool:
    """Whether compiled code can read an array where it lies."""
    if _letters(array) not in CONVERSIONS or not array.dtype.isnative or not array.flags.aligned:
        return False
    *outer, rows = array.shape
    if rows > 1 and array.strides[-1] != array.itemsize:
        return False
    # The distance between elements is one number.
    return all(
        stride == array.strides[-2] * math.prod(outer[axis + 1 :]) for axis, stride in enumerate(array.strides[:-1])
    )


def _letters(array: NDArray[Any]) -> str:
    return f"{array.dtype.kind}{array.dtype.itemsize}"
