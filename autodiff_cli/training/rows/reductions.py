"""What blocks of rows are reduced to, and how two such results become one. See `FoldTask`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.blas import one_thread
from autodiff_cli.training.rows.protocol import WEIGHT, Columns

Array = NDArray[np.float64]


def triangular(matrix: Array) -> Array:
    """The triangular factor, of shape (least of rows and columns, columns)."""
    with one_thread():
        packed, _ = np.linalg.qr(matrix, mode="raw")  # reflections below the diagonal; NumPy's own way to R is slower
    count = min(matrix.shape)
    return np.where(_upper(count, matrix.shape[1]), packed.T[:count], 0.0)


@functools.lru_cache(32)
def _upper(rows: int, columns: int) -> NDArray[np.bool_]:
    """Where a matrix has what is on or above its diagonal."""
    return np.arange(rows)[:, None] <= np.arange(columns)


def join_triangles(a: Array, b: Array) -> Array:
    """The factor of the rows of two."""
    return triangular(np.vstack((a, b)))


@dataclass(frozen=True, slots=True)
class TriangleOf:
    """The triangular factor of a block of [J | r], its rows times the root of the weight.

    Attributes:
        components: of the target: each has a row of the matrix for a row of the data.
        width: of the matrix.
    """

    components: int
    width: int

    def __call__(self, block: Array, columns: Columns) -> Array:
        """Of values of shape (component, number, row), flat but for the last axis."""
        if WEIGHT in columns:
            block *= np.sqrt(columns[WEIGHT])
        return triangular(block.reshape(self.components, self.width, -1).swapaxes(0, 1).reshape(self.width, -1).T)


def triangle_of_scores(block: Array, columns: Columns) -> Array:
    """The triangular factor of the gradients of the rows' losses, of values that begin with the loss."""
    slopes = block[1:]
    if WEIGHT in columns:
        slopes *= columns[WEIGHT]
    return triangular(slopes.T)


Moments = tuple[float, Array, Array]  # the weight, the means, and the sums of squares about these


def moments(values: Array, columns: Columns) -> Moments:
    """Of the rows of a block."""
    weight = columns[WEIGHT] if WEIGHT in columns else np.ones(values.shape[-1])
    count = float(np.sum(weight))
    mean = np.sum(values * weight, axis=1) / count if count else np.zeros(len(values))
    return count, mean, np.sum(weight * np.square(values - mean[:, None]), axis=1)


def join_moments(a: Moments, b: Moments) -> Moments:
    """Of two groups together: Chan, Golub & LeVeque 1983."""
    count = a[0] + b[0]
    if not count:
        return a
    gap = b[1] - a[1]
    return count, a[1] + gap * b[0] / count, a[2] + b[2] + gap * gap * a[0] * b[0] / count


class Spreads(NamedTuple):
    """The least and the greatest values of columns, and their moments."""

    low: Array
    high: Array
    moments: Moments


@dataclass(frozen=True, slots=True)
class Spread:
    """Those of columns of numbers."""

    columns: tuple[str, ...]

    def __call__(self, columns: Columns) -> Spreads:
        """Of a block."""
        values = np.array([columns[name] for name in self.columns], dtype=np.float64)
        return Spreads(values.min(axis=1), values.max(axis=1), moments(values, {}))


def join_spreads(a: Spreads, b: Spreads) -> Spreads:
    """Of two groups together."""
    return Spreads(np.minimum(a.low, b.low), np.maximum(a.high, b.high), join_moments(a.moments, b.moments))


@dataclass(frozen=True, slots=True)
class Confusion:
    """How many rows of each of so many classes are taken for which."""

    count: int

    def __call__(self, values: Array, _: Columns) -> NDArray[np.int64]:
        """Of the class and the scores of each row."""
        cells = values[0].astype(np.intp) * self.count + np.argmax(values[1:], axis=0)
        return np.bincount(cells, minlength=self.count * self.count).reshape(self.count, self.count)


def extremes(values: Array, _: Columns) -> Array:
    """The least and minus the most of all values. They are joined by `numpy.minimum`, which keeps a nan."""
    return np.array([np.min(values), -np.max(values)])


@dataclass(frozen=True, slots=True)
class Extremes:
    """The same of a column."""

    name: str

    def __call__(self, columns: Columns) -> Array:
        """Of a block."""
        return np.array([np.min(columns[self.name]), -np.max(columns[self.name])])


@dataclass(frozen=True, slots=True)
class Bad:
    """Rows in which something is not finite: of how many, the first (counted from 0; -1 for none), how many."""

    rows: int
    first: int
    count: int


def bad(values: Array, _: Columns) -> Bad:
    """Those of a block."""
    found = np.flatnonzero(~np.isfinite(values).all(axis=0))
    return Bad(values.shape[-1], int(found[0]) if len(found) else -1, len(found))


def join_bad(a: Bad, b: Bad) -> Bad:
    """Those of rows, and of rows after them."""
    first = a.first if a.count else a.rows + b.first if b.count else -1
    return Bad(a.rows + b.rows, first, a.count + b.count)
