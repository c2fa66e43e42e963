"""Which of very many rows are meant: a bit for each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


class Selection:
    """Some of the rows that come in chunks.

    Args:
        mask: a truth value for each.
        chunk: how many rows a chunk has, a multiple of 8.

    Attributes:
        rows: how many are meant.

    >>> some = Selection(np.arange(100) % 3 == 0, 16)
    >>> some.rows, some.of_chunk(1).nonzero()[0].tolist(), some.numbers(np.array([33, 6])).tolist()
    (34, [2, 5, 8, 11, 14], [99, 18])
    """

    def __init__(self, mask: Mask, chunk: int) -> None:
        self._bits = np.packbits(mask)
        self._length = len(mask)
        self._chunk = chunk
        starts = range(0, len(mask), chunk)
        counts = [int(np.count_nonzero(mask[start : start + chunk])) for start in starts]
        self._ends = np.cumsum(counts)
        self.rows = int(self._ends[-1])

    def of_chunk(self, number: int) -> Mask:
        """Which rows of a chunk are meant."""
        start = number * self._chunk
        count = min(self._chunk, self._length - start)
        return np.unpackbits(self._bits[start // 8 : (start + self._chunk) // 8], count=count).astype(np.bool_)

    def in_chunks(self) -> Iterator[NDArray[np.intp]]:
        """The numbers of the rows that are meant, in order, as many at a time as a chunk has.

        >>> [numbers.tolist() for numbers in Selection(np.arange(20) % 2 == 0, 8).in_chunks()]
        [[0, 2, 4, 6, 8, 10, 12, 14], [16, 18]]
        """
        waiting = np.empty(0, np.intp)
        for number in range(len(self._ends)):
            waiting = np.concatenate((waiting, np.flatnonzero(self.of_chunk(number)) + number * self._chunk))
            if len(waiting) >= self._chunk:
                yield waiting[: self._chunk]
                waiting = waiting[self._chunk :]
        if len(waiting):
            yield waiting

    def numbers(self, places: NDArray[np.intp]) -> NDArray[np.intp]:
        """The numbers, among all rows, of those at some places among the meant ones."""
        chunks = np.searchsorted(self._ends, places, side="right")
        found = np.empty(len(places), np.intp)
        for chunk in np.unique(chunks).tolist():
            inside = chunks == chunk
            before = int(self._ends[chunk - 1]) if chunk else 0
            found[inside] = np.flatnonzero(self.of_chunk(chunk))[places[inside] - before] + chunk * self._chunk
        return found
