"""The bootstrap: fits to rows drawn anew, with replacement, from those there are; intervals are their percentiles.

Efron & Tibshirani 1993, An Introduction to the Bootstrap, sections 9.5 and 13.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.fold import slices
from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.methods.least_squares import levenberg_marquardt
from autodiff_cli.training.methods.loop import Diverged, Outcome
from autodiff_cli.training.objective.losses import L1, LossKind
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import MethodOptions
from autodiff_cli.training.progress import Progress
from autodiff_cli.training.rows.streamed import StreamedRows
from autodiff_cli.training.smooth import minimised

Array = NDArray[np.float64]

_FEW = 5  # resamples beyond an end of an interval, on which it rests
_PART = 2**17  # rows that are drawn at a time
_MOST_LOST = 0.5  # of the resamples: with fewer left nothing is said


def check_resampled(objective: Objective) -> None:
    """Raise OptionError for an objective whose resamples mean nothing."""
    if isinstance(objective.data, StreamedRows):
        raise OptionError(
            "bootstrap: every resample is drawn from all rows, which have to be in memory, and these are streamed"
        )
    if objective.is_network:
        raise OptionError("bootstrap: the parameters of a network have no intervals, since its units can change places")


@dataclass(slots=True)
class Resamples:
    """Fits to resamples.

    Attributes:
        thetas: where those that converged ended, of shape (resamples, P).
        said: what there is to say of them, as sentences.
    """

    thetas: Array
    said: list[str] = field(default_factory=list)

    def ends(self, values: Array, level: float) -> tuple[Array, Array]:
        """The percentile interval of quantities, of shape (resamples, n); nan where nothing is known."""
        if not len(values):
            return np.full(values.shape[1], np.nan), np.full(values.shape[1], np.nan)
        low, high = np.quantile(values, ((1 - level) / 2, (1 + level) / 2), axis=0)
        return low, high


def resamples(objective: Objective, theta: Array, count: int, seed: int, level: float) -> Resamples:
    """Fits to `count` resamples of the rows, each begun at `theta`. The same seed draws the same rows."""
    generator = np.random.default_rng(seed)
    ends = []
    with quiet():
        for _ in range(count):
            end = _refitted(objective.restricted(_drawn(generator, objective.rows)), theta)
            if end is not None:
                ends.append(end)
    lost = count - len(ends)
    found = Resamples(np.array(ends).reshape(len(ends), len(theta)))
    if lost > _MOST_LOST * count:
        found.thetas = found.thetas[:0]
        found.said.append(f"no bootstrap intervals: {lost} of {count} resamples could not be fitted")
    elif lost:
        found.said.append(f"{lost} of {count} resamples of the bootstrap could not be fitted, and do not count")
    if len(found.thetas) and len(found.thetas) * (1 - level) / 2 < _FEW:
        enough = round(2 * _FEW / (1 - level))
        found.said.append(
            f"{count} resamples are few for intervals of {100 * level:g} %: --bootstrap {enough} or more are better"
        )
    return found


def _drawn(generator: np.random.Generator, rows: int) -> NDArray[np.uint8]:
    """How often each of the rows comes, of which as many are drawn. It is never 256 times."""
    times = np.zeros(rows, np.uint8)
    for part in slices(rows, _PART):
        np.add.at(times, generator.integers(rows, size=part.stop - part.start), 1)
    return times


def _refitted(objective: Objective, start: Array) -> Array | None:
    progress = Progress()
    try:
        if objective.kind is LossKind.SQUARES and not objective.settings[L1]:
            outcome: Outcome = levenberg_marquardt(objective, start, progress.record, bounds=objective.bounds)
        else:
            outcome = minimised(objective, start, MethodOptions(), progress)
    except Diverged:
        return None
    return outcome.theta if outcome.converged else None
