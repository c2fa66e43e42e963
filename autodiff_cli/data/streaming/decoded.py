"""Columns of numbers kept decoded on disk, so that a later pass reads them as fast as the disk can.

They are in a file without a name: it goes when the process ends, however that ends. It is read by position into buffers
that are used again, and not mapped, so that limits of memory hold.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NUMBER = 8  # bytes
_AT_ONCE = hasattr(os, "preadv")  # not on Windows


class DecodedColumns:
    """Columns in chunks, one after the other; in each chunk the columns one after the other.

    Args:
        folder: that the file lies in.
        names: of the columns.
        chunk: rows of each chunk but the last.

    Attributes:
        rows: how many have been added.

    Raises:
        OSError: where the file cannot be written.
    """

    def __init__(self, folder: Path, names: Sequence[str], chunk: int) -> None:
        import tempfile

        self._stream: Any = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - it lives as long as this
        self._close = weakref.finalize(self, self._stream.close)
        self._lock = threading.Lock()  # between a chunk that is read ahead and others
        self._places = {name: place for place, name in enumerate(names)}
        self._chunk = chunk
        self.rows = 0

    def add(self, columns: Mapping[str, Array], rows: int) -> None:
        """Write the next chunk, which is full if it is not the last. Raises OSError."""
        base = self.rows // self._chunk * len(self._places) * self._chunk
        for name, place in self._places.items():
            content = np.ascontiguousarray(columns[name][:rows]).data.cast("B")
            at = (base + place * self._chunk) * _NUMBER
            with self._lock:
                self._stream.seek(at)
                while content:
                    content = content[self._stream.write(content) :]
        self.rows += rows

    def read(self, number: int, space: Mapping[str, Array]) -> int:
        """Read columns of a chunk into arrays that have room for one; returns how many rows it has."""
        rows = min(self._chunk, self.rows - number * self._chunk)
        for name, array in space.items():
            self._fill(self._at(name, number * self._chunk), array[:rows])
        return rows

    def gather(self, rows: NDArray[Any], names: Collection[str]) -> dict[str, Array]:
        """Some rows of some columns, by their numbers. Neighbours are read together."""
        numbers = np.asarray(rows, dtype=np.int64)
        found = {name: np.empty(len(numbers)) for name in names}
        if not len(numbers):
            return found
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        apart = (np.diff(ordered) > 1) | (ordered[1:] // self._chunk != ordered[:-1] // self._chunk)
        starts = np.flatnonzero(np.concatenate(([True], apart)))
        ends = np.append(starts[1:], len(ordered))
        runs = list(
            zip(starts.tolist(), ends.tolist(), ordered[starts].tolist(), ordered[ends - 1].tolist(), strict=True)
        )
        for name, values in found.items():
            sorted_values = np.empty(len(numbers))
            for start, end, first, last in runs:
                if last - first + 1 == end - start:  # as it is but for numbers that occur twice
                    self._fill(self._at(name, first), sorted_values[start:end])
                else:
                    piece = np.empty(last - first + 1)
                    self._fill(self._at(name, first), piece)
                    sorted_values[start:end] = piece[ordered[start:end] - first]
            values[order] = sorted_values
        return found

    def close(self) -> None:
        """Let the file go."""
        self._close()

    def _at(self, name: str, row: int) -> int:
        chunk, inside = divmod(row, self._chunk)
        return ((chunk * len(self._places) + self._places[name]) * self._chunk + inside) * _NUMBER

    def _fill(self, at: int, array: Array) -> None:
        view = array.data.cast("B")
        while view:
            read = self._read_at(view, at)
            if not read:
                raise OSError("the file of decoded columns ends early")
            view, at = view[read:], at + read

    def _read_at(self, view: memoryview, at: int) -> int:
        if _AT_ONCE:
            return os.preadv(self._stream.fileno(), [view], at)
        with self._lock:
            self._stream.seek(at)
            return int(self._stream.readinto(view))
