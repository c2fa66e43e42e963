"""Which of very many rows are meant, and how often: a bit for each, or a byte."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Times = NDArray[np.bool_] | NDArray[np.uint8]


class Selection:
    """Some of the rows that come in chunks.

    Args:
        times: a truth value for each, or how often it is meant.
        chunk: how many rows a chunk has, a multiple of 8.

    Attributes:
        rows: how many are meant.

    >>> some = Selection(np.arange(100) % 3 == 0, 16)
    >>> some.rows, some.of_chunk(1).tolist(), some.numbers(np.array([33, 6])).tolist()
    (34, [18, 21, 24, 27, 30], [99, 18])
    >>> Selection(np.array([0, 2, 1], np.uint8), 8).of_chunk(0).tolist()
    [1, 1, 2]
    """

    def __init__(self, times: Times, chunk: int) -> None:
        self._are_bits = times.dtype == np.bool_
        self._kept: NDArray[np.uint8] = np.packbits(times) if self._are_bits else times.view(np.uint8)
        self._length = len(times)
        self._chunk = chunk
        starts = range(0, len(times), chunk)
        self._ends = np.cumsum([int(np.sum(times[start : start + chunk], dtype=np.int64)) for start in starts])
        self.rows = int(self._ends[-1])

    def of_chunk(self, number: int) -> NDArray[np.intp]:
        """The numbers, among all rows, of those of a chunk that are meant, in order."""
        start = number * self._chunk
        if not self._are_bits:
            times = self._kept[start : start + self._chunk]
            return np.repeat(np.arange(start, start + len(times)), times)
        count = min(self._chunk, self._length - start)
        bits = np.unpackbits(self._kept[start // 8 : (start + self._chunk) // 8], count=count)
        return np.flatnonzero(bits) + start

    def in_chunks(self) -> Iterator[NDArray[np.intp]]:
        """The numbers of all rows that are meant, in order, as many at a time as a chunk has.

        >>> [numbers.tolist() for numbers in Selection(np.arange(20) % 2 == 0, 8).in_chunks()]
        [[0, 2, 4, 6, 8, 10, 12, 14], [16, 18]]
        """
        waiting = np.empty(0, np.intp)
        for number in range(len(self._ends)):
            waiting = np.concatenate((waiting, self.of_chunk(number)))
            while len(waiting) >= self._chunk:
                yield waiting[: self._chunk]
                waiting = waiting[self._chunk :]
        if len(waiting):
            yield waiting

    def numbers(self, places: NDArray[np.integer]) -> NDArray[np.intp]:
        """The numbers, among all rows, of those at some places among the meant ones."""
        order = np.argsort(places)
        ordered = places[order]
        found = np.empty(len(places), np.intp)
        parts = np.searchsorted(ordered, [0, *self._ends])
        for chunk in np.flatnonzero(np.diff(parts)).tolist():
            own = slice(parts[chunk], parts[chunk + 1])
            before = int(self._ends[chunk - 1]) if chunk else 0
            found[order[own]] = self.of_chunk(chunk)[ordered[own] - before]
        return found
