"""Starting values found in the data, for fits that end badly from where they were begun.

Parameters in which the prediction is linear need none: for given values of the others the best ones are known (variable
projection: Golub & Pereyra 1973). Frequencies are looked for one by one, as in a periodogram, with the model itself for
its waves. All others are drawn at random from the places and sizes that the columns suggest.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.bounds import Bounds
from autodiff_cli.training.methods.least_squares import levenberg_marquardt
from autodiff_cli.training.methods.loop import Diverged, Epoch
from autodiff_cli.training.methods.units import units
from autodiff_cli.training.methods.waves import Scan, Waves
from autodiff_cli.training.objective.initial import initial_arrays
from autodiff_cli.training.objective.losses import LossKind
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.objective.structure import linear
from autodiff_cli.training.result.residuals import robust_scale
from autodiff_cli.training.result.statistics import MOST
from autodiff_cli.training.rows.reductions import Moments, Spread, join_spreads

Array = NDArray[np.float64]

_ROWS = 500  # that are looked at, drawn at random: even distances would take one frequency for another
_SHUFFLED = 2**20  # rows of which some are drawn by shuffling all
_DRAWS = 1500  # of all parameters that are not linear
_WORK = 30_000_000  # rows times squares of parameters, in all: fewer draws where there are many
_FREQUENCIES = 12_000  # of one parameter
_PER_TURN = 3  # of them while a wave gains one turn over the range of the data
_LEAST = 200  # of them in all: of few rows, what lies between two of three per turn may be any
_PEAKS = 6  # frequencies whose phases are tried
_ROUNDS = 2  # through all parameters that are frequencies, if there are several
_DESCENTS = 12  # from the best draws
_EVALUATIONS = 60  # of the method, for each
_SAME = 1e-6  # the relative distance of two losses that count as one
_ENOUGH = 4  # times that the best loss is to be found
_FAR = 1.5  # powers of 10 from 1: sizes of parameters for which 1 is no start
_GOOD = 0.001  # of the target's variation: a loss below it will do
_FEW = 100  # rows; of fewer, less will do, since what is wrong may go through them too


@dataclass(frozen=True, slots=True)
class Found:
    """A start, and where Levenberg-Marquardt gets from it, over a sample of the rows; for robust losses, `loss` is the
    square of the residuals' robust scale there."""

    start: Array
    end: Array
    loss: float


def search(
    objective: Objective, start: Array, free: NDArray[np.bool_], seed: int, bounds: Bounds | None = None
) -> Found | None:
    """The best of many starts; None if none of them can be used.

    Args:
        start: of shape (P,).
        free: for each parameter, whether it may be tried elsewhere.
        seed: of the generator that draws rows and values.
    """
    with quiet():
        return _Search(objective, start, free, np.random.default_rng(seed), bounds or Bounds.none(len(start))).found()


def from_units(
    objective: Objective, start: Array, free: NDArray[np.bool_], seed: int, bounds: Bounds | None = None
) -> Found | None:
    """Where a fit gets from a start of the sizes that the columns give to parameters; None where these are about 1.

    Args:
        start, free, seed: see `search`.
    """
    with quiet():
        begun = _in_units(objective, start, free)
        if begun is None:
            return None
        generator = np.random.default_rng(seed)
        return _Search(objective, start, free, generator, bounds or Bounds.none(len(start))).from_there(begun)


def nearer(objective: Objective, start: Array) -> Array:
    """A start after a few steps of least squares, whatever the loss is; the start itself where these lead nowhere."""
    if not objective.has_residuals or objective.layout.size > MOST:
        return start
    epochs: list[Epoch] = []
    with contextlib.suppress(Diverged):
        levenberg_marquardt(objective, start, epochs.append, evaluations=_EVALUATIONS, bounds=objective.bounds)
    return epochs[-1].theta if epochs else start


def _in_units(objective: Objective, start: Array, free: NDArray[np.bool_]) -> Array | None:
    """The start with parameters of the sizes that columns give them, where these are far from 1; None if none are."""
    sizes = _units_of(objective)
    far = free & (np.abs(np.log10(sizes)) > _FAR)
    return np.where(far, sizes, start) if far.any() else None


def _units_of(objective: Objective) -> Array:
    """The size of each parameter as far as the columns tell, 1 for what is no number; from some of the rows."""
    model, layout = objective.model, objective.layout
    names = tuple(sorted(name for name in model.columns if name in objective.data.names))
    if not names or model.shapes:
        return np.ones(layout.size)
    some = np.unique(np.linspace(0, objective.rows - 1, min(_ROWS, objective.rows)).astype(np.intp))
    found = objective.restricted(some).fold_columns({*names}, Spread(names), join_spreads)
    spreads = np.sqrt(found.moments[2] / len(some))
    sizes = np.where(spreads > 0, spreads, np.maximum(np.abs(found.high), np.abs(found.low)))
    columns = {name: float(size) if 0 < size < np.inf else 1.0 for name, size in zip(names, sizes, strict=True)}
    of_names = units(model.program.output, model.program.target, columns, layout.names)
    return layout.gather([of_names[name] for name in layout.names])


def drawn_starts(objective: Objective, seed: int, count: int) -> Iterator[Array]:
    """Starts for a fit, as a search draws them: numbers from the places and sizes of the columns, or evenly from
    between two bounds; arrays anew, as the first ones are."""
    generator = np.random.default_rng(seed)
    columns, box, layout = _columns_of(objective), objective.bounds, objective.layout
    is_array = ~layout.mask([name for name, shape in layout.shapes.items() if not shape])
    ends = np.isfinite(box.low) & np.isfinite(box.high)
    for further in range(1, count + 1):
        arrays = initial_arrays(layout.shapes, objective.model.program.initial, seed + further)
        theta = layout.gather([arrays.get(name, 0.0) for name in layout.names])
        theta = np.where(is_array, theta, _drawn_values(columns, generator, layout.size))
        with quiet():
            theta = np.where(
                ends & ~is_array, generator.uniform(0, 1, layout.size) * (box.high - box.low) + box.low, theta
            )
        yield box.inside(theta)


class _Columns(NamedTuple):
    """What columns of numbers suggest: their least and greatest values, and sizes (see `_sizes`)."""

    low: Array
    high: Array
    sizes: Array


def _columns_of(objective: Objective) -> _Columns:
    names = tuple(name for name in objective.model.columns if name in objective.data.names)
    if not names:
        return _Columns(np.zeros(1), np.ones(1), np.ones(1))
    of_values = objective.fold_columns({*names}, Spread(names), join_spreads)
    return _Columns(of_values.low, of_values.high, _sizes(of_values.moments, objective.rows))


def _drawn_values(columns: _Columns, generator: np.random.Generator, count: int) -> Array:
    """Values for so many parameters.

    As likely as not, one is from the range of a column (a place). Else it is of the size of 1, of a column or its
    spread, or of the reciprocal of these (a rate), within a factor of 100 either way, rarely so far, with either sign.
    """
    low, high, sizes = columns
    which = generator.integers(len(low), size=count)
    place = generator.uniform(low[which], high[which])
    magnitude = generator.choice(sizes, count) * 10 ** generator.triangular(-2, 0, 2, count)
    sign = generator.choice((1.0, 1.0, -1.0), count)
    values: Array = np.where(generator.random(count) < 0.5, place, magnitude * sign)
    return values


class _Search:
    def __init__(
        self, objective: Objective, start: Array, free: NDArray[np.bool_], generator: np.random.Generator, box: Bounds
    ) -> None:
        rows = _drawn_rows(generator, objective.rows)
        self._sample = objective.restricted(np.sort(rows))
        self._waves = Waves(objective)
        self._start = start
        model, layout = objective.model, objective.layout
        leaves = [model.program.leaves[name] for name in layout.names if name not in model.shapes]
        self._linear = free & layout.mask(linear(model.program.output, leaves, model.shapes))
        self._drawn = free & ~self._linear
        self._generator = generator
        self._box = box
        self._good = _GOOD * min(1.0, len(rows) / _FEW) * self._sample.mean_of_squares(self._sample.target_variation())

    def found(self) -> Found | None:
        """The best start."""
        best: Found | None = None
        times = 0
        for theta in self._promising():
            there = self._descended(theta)
            if there is None:
                continue
            if best is None or there.loss < best.loss * (1 - _SAME):
                best, times = there, 1
            elif there.loss <= best.loss * (1 + _SAME):
                times += 1
            if best.loss < self._good or times >= _ENOUGH:
                break
        return best

    def from_there(self, theta: Array) -> Found | None:
        """Where the method gets from a point, once the best is made of what is linear."""
        for moved, _ in self._measured([theta], self._linear):
            return self._descended(moved)
        return None

    def _promising(self) -> Iterator[Array]:
        """The best of what is tried, the best first."""
        begun = _in_units(self._sample, self._start, self._drawn | self._linear)
        if begun is not None:
            yield from (theta for theta, _ in self._measured([begun], self._linear))
        waves = self._with_frequencies(self._start)
        yield from waves
        drawn = [
            theta for theta, _ in heapq.nsmallest(_DESCENTS, self._measured(self._draws(), self._linear), key=_left)
        ]
        if not waves:
            yield from drawn
        else:
            for theta in drawn[: _DESCENTS // 3]:
                yield from self._with_frequencies(theta)[:1] or [theta]

    def _draws(self) -> Iterator[Array]:
        """Values of the parameters that are not linear: see `_drawn_values`."""
        count = int(np.count_nonzero(self._drawn))
        if not count or not self._sample.model.numeric:
            yield self._start
            return
        columns = _columns_of(self._sample)
        size = len(self._start)
        for _ in range(min(_DRAWS, _WORK // (self._sample.rows * size * size) + 1)):
            theta = self._start.copy()
            theta[self._drawn] = _drawn_values(columns, self._generator, count)
            yield theta

    def _with_frequencies(self, theta: Array) -> list[Array]:
        """The point with the best frequencies, looked for one after the other, and those with the next best of the
        last one; none if there are none to look for."""
        per_turn = max(_PER_TURN, 2 * _LEAST // self._sample.rows)
        scans = [scan for scan in self._waves.scans(theta, per_turn, _FREQUENCIES) if self._drawn[scan.place]]
        found: list[Array] = []
        for _ in range(_ROUNDS if len(scans) > 1 else len(scans)):
            for scan in scans:
                found = self._scanned(theta, scan) or found or [theta]
                theta = found[0]
        return found

    def _scanned(self, theta: Array, scan: Scan) -> list[Array]:
        """The point with the best values of a frequency, the best first, and of the phases there."""
        phases = [place for place, _ in self._waves.quarter(theta) if self._drawn[place]]
        # A wave of any phase is one of two phases combined: the derivative towards the phase is the other one.
        adjusted = self._linear.copy()
        adjusted[phases] = True
        points = (np.where(self._at(scan.place), value, theta) for value in scan.values)
        scanned = [*self._measured(points, adjusted, moved=False)]
        left = np.array([np.inf, *map(_left, scanned), np.inf])
        is_peak = (left[1:-1] <= left[:-2]) & (left[1:-1] <= left[2:])
        found = heapq.nsmallest(_PEAKS, itertools.compress(scanned, is_peak), key=_left)
        turned = (self._measured(self._turned(peak), self._linear) for peak, _ in found)
        best = (min(points, key=_left, default=None) for points in turned)
        return [point for point, _ in sorted(filter(None, best), key=_left)]

    def _turned(self, theta: Array) -> Iterator[Array]:
        """The point with its phases turned by eighths, all together."""
        quarters = [(place, shift) for place, shift in self._waves.quarter(theta) if self._drawn[place]]
        for eighths in range(8 if quarters else 1):
            turned = theta.copy()
            for place, shift in quarters:
                turned[place] += eighths * shift / 2
            yield turned

    def _at(self, place: int) -> NDArray[np.bool_]:
        chosen: NDArray[np.bool_] = np.arange(len(self._start)) == place
        return chosen

    def _measured(
        self, points: Iterable[Array], adjusted: NDArray[np.bool_], *, moved: bool = True
    ) -> Iterator[tuple[Array, float]]:
        """Points, and the sums of squares that are left there by the best values of some parameters, were it linear in
        them; with these values if they are to be moved."""
        columns = np.flatnonzero(adjusted)
        for point in points:
            theta = self._box.clipped(point)
            triangle = self._sample.triangle(theta)
            if not np.isfinite(triangle).all():
                continue
            jacobian, residuals = triangle[:, columns], triangle[:, -1]
            scale = np.sqrt(np.sum(np.square(jacobian), axis=0))
            scale[scale == 0] = 1.0
            step = np.linalg.lstsq(jacobian / scale, residuals, rcond=1e-10)[0] / scale
            left = float(np.sum(np.square(residuals - jacobian @ step)))
            if moved:
                theta[columns] -= step
            if np.isfinite(theta).all() and np.isfinite(left):
                yield self._box.clipped(theta), left

    def _descended(self, theta: Array) -> Found | None:
        epochs: list[Epoch] = []
        with contextlib.suppress(Diverged):
            levenberg_marquardt(self._sample, theta, epochs.append, evaluations=_EVALUATIONS, bounds=self._box)
        if not epochs:
            return None
        end, loss = epochs[-1].theta, epochs[-1].loss
        if self._sample.kind is LossKind.ROBUST:  # rows far off are to decide as little here
            loss = robust_scale(self._sample, end) ** 2
        return Found(theta, end, loss)


def _left(measured: tuple[Array, float]) -> float:
    """What points are compared by."""
    return measured[1]


def _sizes(moments: Moments, rows: int) -> Array:
    """1, and how large the values of each column are and how far they spread, and one over that."""
    _, means, squares = moments
    typical = np.concatenate((np.sqrt(np.square(means) + squares / rows), np.sqrt(squares / rows)))
    sizes = np.concatenate(([1.0], typical, 1 / typical))
    usable: Array = sizes[np.isfinite(sizes) & (sizes > 0)]
    return usable


def _drawn_rows(generator: np.random.Generator, rows: int) -> NDArray[np.intp]:
    """The rows that are looked at."""
    if rows <= _SHUFFLED:
        return generator.permutation(rows)[:_ROWS]
    return generator.choice(rows, _ROWS, replace=False)
