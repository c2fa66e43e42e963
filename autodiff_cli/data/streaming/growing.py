"""Columns that come in parts, put together without a second copy of all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_MORE = 8  # an eighth more room than is needed: making room moves pages, not bytes


class Growing:
    """An array to which parts are added. One part alone stays where it lies.

    Args:
        about: how many values to expect. Room that stays empty takes no memory.

    >>> column = Growing()
    >>> column.add(np.array([1, 2], np.int8))
    >>> column.add(np.array([0.5]))
    >>> column.whole()
    array([1. , 2. , 0.5])
    """

    def __init__(self, about: int = 0) -> None:
        self._about = about
        self._values: NDArray[Any] = np.empty(0)
        self._is_own = False
        self._count = 0

    def add(self, part: NDArray[Any]) -> None:
        """Put a part at the end. The type becomes one that has all numbers of both."""
        if not self._count:
            self._values, self._count = part, len(part)
            return
        begin, end = self._count, self._count + len(part)
        kind = np.result_type(self._values, part)
        if kind != self._values.dtype or not self._is_own:
            room = np.empty(max(end, self._about), kind)
            room[:begin] = self._values[:begin]
            self._values, self._is_own = room, True
        if end > len(self._values):
            self._values.resize(end + end // _MORE, refcheck=False)
        self._values[begin:end] = part
        self._count = end

    def whole(self) -> NDArray[Any]:
        """All of it; nothing is added any more."""
        if self._is_own and len(self._values) > self._count:
            self._values.resize(self._count, refcheck=False)
        return self._values
