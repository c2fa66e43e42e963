"""Least squares of many groups at once: Levenberg-Marquardt in step, each group with parameters of its own.

All rows are evaluated in one call, with the parameters as columns; then each group has its triangle of [J | r], as in
`methods.least_squares`, and steps of its own by Nielsen's rule of damping (Madsen, Nielsen & Tingleff 2004, section
3.2), measured by the scales of Moré 1978.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.protocol import RowKernel
from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.rows.protocol import WEIGHT

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_ROWS = 2**17  # that are looked at together, about
_SORTED = 2**18  # that are sorted together
_COPIED = 2**20  # rows of a group that are worth a copy
_STEPS = 200
_TOLERANCE = 1e-14  # of the reduction of the sum of squares, and of steps
_FIRST = 1e-3  # damping, beside the scale of each parameter
_NONE = 1e-24  # damping that is as good as none
_POLISHES = 15
_PROGRESS = 0.9  # of a polishing step: see `least_squares`
_FAR = 1e150
_FLAT = 1e-6  # the cosine of the angle between residuals and a column of J that counts as a right one


@dataclass(frozen=True, slots=True)
class Together:
    """What was found for each group.

    Attributes:
        theta: of shape (groups, P).
        triangles: of [J | r] there, of shape (groups, P+1, P+1).
        converged: which groups have a minimum.
        losses: the sums of squares at the start and after every step, of shape (steps + 1, groups); nan where a group
            took none.
    """

    theta: Array
    triangles: Array
    converged: Mask
    losses: Array


class GroupedRows:
    """The rows of an objective, by groups. They stay where they are, and are gathered some groups at a time.

    Args:
        objective: all of whose free parameters are numbers.
        order: the numbers of the rows, group by group.
        sizes: how many rows each group has.
    """

    def __init__(self, objective: Objective, order: NDArray[Any], sizes: NDArray[np.intp]) -> None:
        self._objective = objective
        self._order = order
        self.sizes = sizes
        self._ends = np.cumsum(sizes)
        self._kernel: RowKernel = objective.kernels.residuals_and_slopes_of_groups
        columns = objective.table.columns
        self._columns = {name: columns[name] for name in self._kernel.names.intersection(columns)}

    def some(self, which: NDArray[np.intp]) -> GroupedRows:
        """Some of the groups."""
        return GroupedRows(self._objective, self.numbers(which), self.sizes[which])

    def numbers(self, which: NDArray[np.intp]) -> NDArray[Any]:
        """The numbers of the rows of some groups, one group after the other."""
        sizes = self.sizes[which]
        return self._order[_ranges(self._ends[which] - sizes, sizes)]

    def of_group(self, which: int) -> Objective:
        """The objective of the rows of one group. Many of them stay where they are too."""
        end = int(self._ends[which])
        rows = self._order[end - int(self.sizes[which]) : end]
        if len(rows) <= _COPIED:
            return self._objective.restricted(rows)
        chosen = np.zeros(self._objective.rows, np.bool_)
        chosen[rows] = True
        return self._objective.restricted(chosen)

    def batches(self, which: NDArray[np.intp] | None = None) -> list[NDArray[np.intp]]:
        """All groups, or some, as parts that have few rows each."""
        chosen = np.arange(len(self.sizes)) if which is None else which
        number = np.cumsum(self.sizes[chosen]) // _ROWS
        return np.split(chosen, np.flatnonzero(np.diff(number)) + 1)

    def column(self, name: str, which: NDArray[np.intp]) -> Array:
        """A column of the rows of some groups."""
        found: Array = self._objective.table.columns[name][self.numbers(which)]
        return found

    def weights(self, which: NDArray[np.intp]) -> Array:
        """How much each of these rows counts."""
        return self.column(WEIGHT, which) if self._objective.weighted else np.ones(int(self.sizes[which].sum()))

    def target(self, which: NDArray[np.intp]) -> Array:
        """The target in these rows, of shape (components, rows)."""
        part = self._objective.restricted(self.numbers(which))
        return part.per_row(part.kernels.target, np.zeros(part.layout.size))

    def triangles(self, theta: Array, which: NDArray[np.intp]) -> Array:
        """The triangles of [J | r] of some groups, at the parameters of each, of shape (which, P+1, P+1)."""
        found, done = np.empty((len(which), *[self._objective.layout.size + 1] * 2)), 0
        for part in self.batches(which):
            end = done + len(part)
            found[done:end] = self._triangles(theta[done:end], part)
            done = end
        return found

    def _triangles(self, theta: Array, which: NDArray[np.intp]) -> Array:
        """The same of groups that have few rows in all."""
        width, count = self._objective.layout.size + 1, self._objective.components
        sizes = self.sizes[which]
        values = self._values(theta, which)
        if self._objective.weighted:
            values *= np.sqrt(self.weights(which))
        by_row = np.ascontiguousarray(values.reshape(count, width, -1).transpose(2, 0, 1))
        starts = np.cumsum(sizes) - sizes
        found = np.empty((len(which), width, width))
        for some, places, inside in padded(sizes):
            taken = by_row[np.where(inside, starts[some, None] + places, 0)]
            taken[~inside] = 0
            found[some] = _triangles(taken.reshape(len(some), -1, width))
        return found

    def residuals(self, theta: Array, which: NDArray[np.intp]) -> Array:
        """The residuals of the rows of some groups without their weights, of shape (components, rows)."""
        values = self._values(theta, which)
        width = self._objective.layout.size + 1
        found: Array = values.reshape(self._objective.components, width, -1)[:, -1]
        return found

    def _values(self, theta: Array, which: NDArray[np.intp]) -> Array:
        """What the kernel gives for the rows of some groups, at the parameters of each."""
        rows = self.numbers(which)
        columns = {name: values[..., rows] for name, values in self._columns.items()}
        by_row = np.repeat(theta.T, self.sizes[which], axis=1)
        point = dict(zip(self._objective.parameters, by_row, strict=True))
        values = np.empty((self._kernel.numbers, by_row.shape[1]))
        prepared = self._kernel.prepare({**self._objective.fixed, **self._objective.settings})
        self._kernel.write(prepared, {**columns, **point}, values)
        return values


def padded(sizes: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], Mask]]:
    """Groups of about the same size, the places of their rows, up to a power of 2, and which of these there are."""
    lengths = 1 << np.ceil(np.log2(sizes)).astype(np.intp)
    for length in np.unique(lengths):
        some = np.flatnonzero(lengths == length)
        places = np.arange(length if (sizes[some] != sizes[some[0]]).any() else sizes[some[0]])
        yield some, places, places < sizes[some, None]


def by_groups(codes: NDArray[np.int32], count: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The numbers of the rows, group by group and otherwise in order, and how many each group has.

    Args:
        codes: the group of each row, from 0 on.

    >>> by_groups(np.array([1, 0, 1], np.int32), 2)
    (array([1, 0, 2], dtype=int32), array([1, 2]))
    """
    parts = [(start, codes[start : start + _SORTED]) for start in range(0, len(codes), _SORTED)]
    sizes = np.zeros(count, np.intp)
    for _, part in parts:
        sizes += np.bincount(part, minlength=count)
    places = np.cumsum(sizes) - sizes
    order = np.empty(len(codes), np.int32 if len(codes) < 2**31 else np.int64)
    for start, part in parts:
        rows = np.argsort(part, kind="stable")
        own = np.bincount(part, minlength=count)
        order[np.repeat(places - (np.cumsum(own) - own), own) + np.arange(len(part))] = start + rows
        places += own
    return order, sizes


def _ranges(starts: NDArray[np.intp], sizes: NDArray[np.intp]) -> NDArray[np.intp]:
    """The numbers from each start on, so many each, one after the other."""
    total = int(sizes.sum())
    ends = np.cumsum(sizes)
    return np.arange(total) - np.repeat(ends - sizes - starts, sizes)


def _triangles(matrices: Array) -> Array:
    """The triangular factors of matrices, with rows of zeros where these have too few; nan where one is not finite."""
    lacking = matrices.shape[2] - matrices.shape[1]
    if lacking > 0:
        matrices = np.concatenate((matrices, np.zeros((len(matrices), lacking, matrices.shape[2]))), axis=1)
    bad = ~np.isfinite(matrices).all(axis=(1, 2))
    matrices[bad] = 0
    found: Array = np.linalg.qr(matrices, mode="r")  # type: ignore[assignment]
    found[bad] = np.nan
    return found


def fit_together(rows: GroupedRows, start: Array) -> Together:
    """Minimise the sums of squares of all groups.

    Args:
        start: of shape (groups, P).
    """
    with quiet():
        walk = _Steps(rows, start)
        for _ in range(_STEPS):
            if not walk.step():
                break
        walk.polish()
        return walk.found()


class _Steps:
    def __init__(self, rows: GroupedRows, start: Array) -> None:
        self._rows = rows
        self.theta = start.copy()
        count = len(start)
        self.triangles = rows.triangles(self.theta, np.arange(count))
        self.usable = _is_usable(self.triangles)
        self._active = self.usable.copy()
        self._ended = np.zeros(count, dtype=np.bool_)
        lengths = _lengths(self.triangles)
        self._scale = np.where(lengths > 0, lengths, 1.0)
        self._damping, self._growth = np.full(count, _FIRST), np.full(count, 2.0)
        self.losses = [_squares(self.triangles)]

    def step(self) -> bool:
        """A step of all groups that go on. Returns whether any does."""
        which = np.flatnonzero(self._active)
        if not len(which):
            return False
        self._scale[which] = np.maximum(self._scale[which], _lengths(self.triangles[which]))
        before = _squares(self.triangles[which])
        moves, predicted = _damped(self.triangles[which], self._scale[which], self._damping[which])
        trial = self.theta[which] + moves
        there = self._rows.triangles(trial, which)
        after = np.where(_is_usable(there), _squares(there), np.inf)
        actual = before - after
        ratio = np.where(predicted > 0, actual / predicted, 0.0)
        taken = (ratio > 0) & (actual >= 0)
        record = np.full(len(self.theta), np.nan)
        record[which[taken]] = after[taken]
        self.losses.append(record)
        self.theta[which[taken]], self.triangles[which[taken]] = trial[taken], there[taken]
        shrunk = self._damping[which] * np.maximum(1 / 3, 1 - (2 * np.minimum(ratio, 1.0) - 1) ** 3)
        self._damping[which] = np.where(taken, shrunk, self._damping[which] * self._growth[which])
        self._growth[which] = np.where(taken, 2.0, 2 * self._growth[which])
        sizes = np.linalg.norm(self._scale[which] * self.theta[which], axis=1)
        narrow = np.linalg.norm(self._scale[which] * moves, axis=1) <= _TOLERANCE * (sizes + _TOLERANCE)
        small = (predicted <= _TOLERANCE * before) & (np.abs(actual) <= _TOLERANCE * before)
        ended = which[narrow | small | (before == 0)]
        self._active[ended], self._ended[ended] = False, True
        stuck = which[self._damping[which] > 1 / _NONE]
        self._active[stuck] = False
        return True

    def polish(self) -> None:
        """Plain Gauss-Newton steps, as long as they take away what the parameters can of the residuals."""
        active = self._ended.copy()
        for _ in range(_POLISHES):
            which = np.flatnonzero(active)
            if not len(which):
                return
            moves, _ = _damped(self.triangles[which], self._scale[which], np.full(len(which), _NONE))
            trial = self.theta[which] + moves
            there = self._rows.triangles(trial, which)
            better = _is_usable(there) & (_left(there) < _PROGRESS * _left(self.triangles[which]))
            self.theta[which[better]], self.triangles[which[better]] = trial[better], there[better]
            active[which[~better]] = False

    def found(self) -> Together:
        """Where it ended. A group has converged if no parameter can take away more of its residuals."""
        lengths, total = _lengths(self.triangles), np.sqrt(_squares(self.triangles))
        slopes = np.abs(np.einsum("gij,gi->gj", self.triangles[:, :, :-1], self.triangles[:, :, -1]))
        flat = (slopes <= _FLAT * lengths * total[:, None]).all(axis=1)
        return Together(self.theta, self.triangles, self._ended & flat, np.array(self.losses))


def _damped(triangles: Array, scale: Array, damping: Array) -> tuple[Array, Array]:
    """The steps that make the residuals least, were they linear, with a price for long ones; and how much that would
    take away of their squares."""
    count, width, _ = triangles.shape
    size = width - 1
    stacked = np.zeros((count, width + size, width))
    stacked[:, :width] = triangles
    stacked[:, :width, size] *= -1
    stacked[:, width + np.arange(size), np.arange(size)] = np.sqrt(damping)[:, None] * scale
    factor: Array = np.linalg.qr(stacked, mode="r")  # type: ignore[assignment]
    diagonal = np.abs(np.diagonal(factor, axis1=1, axis2=2)[:, :size])
    good = np.isfinite(factor).all(axis=(1, 2)) & (diagonal > 0).all(axis=1)
    factor[~good] = np.eye(width)
    moves = np.linalg.solve(factor[:, :size, :size], factor[:, :size, size:])[:, :, 0]
    after = np.einsum("gij,gj->gi", triangles[:, :, :size], moves) + triangles[:, :, size]
    fall = _squares(triangles) - np.sum(np.square(after), axis=1)
    return np.asarray(moves, dtype=np.float64), np.asarray(fall)


def _squares(triangles: Array) -> Array:
    found: Array = np.sum(np.square(triangles[:, :, -1]), axis=1)
    return found


def _lengths(triangles: Array) -> Array:
    found: Array = np.sqrt(np.sum(np.square(triangles[:, :, :-1]), axis=1))
    return found


def _left(triangles: Array) -> Array:
    """The length of the residuals within the space of the columns of J."""
    found: Array = np.linalg.norm(triangles[:, :-1, -1], axis=1)
    return found


def _is_usable(triangles: Array) -> Mask:
    usable = np.abs(triangles) < _FAR
    return np.asarray(usable.all(axis=(1, 2)))
