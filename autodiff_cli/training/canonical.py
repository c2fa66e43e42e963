"""One of several points that a model cannot tell apart: positive widths, phases within a turn, scores that add up to 0.

A symmetry is believed only if the predictions stay as they are. The parameters whose start was given keep its sign.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.bounds import Bounds
from autodiff_cli.training.methods.waves import Waves
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.result.gauge import gauge

Array = NDArray[np.float64]

_MOST = 20  # parameters for which symmetries are looked for
_ROWS = 500  # on which predictions are compared
_SAME = 1e-9  # of the spread of the predictions: what may differ
_TOGETHER = 3  # parameters, at most, that change their signs together


def canonical_point(objective: Objective, theta: Array, bounds: Bounds) -> tuple[Array, list[str]]:
    """The point that is reported for all those that predict the same, and a sentence for each choice that was made."""
    if objective.loss == "cross_entropy":
        return _without_gauge(objective, theta)
    layout = objective.layout
    if layout.size > _MOST or len(layout.numbers) != len(layout.names):
        return theta, []
    with quiet():
        return _Symmetries(objective, theta, bounds).resolved()


def _without_gauge(objective: Objective, theta: Array) -> tuple[Array, list[str]]:
    free = gauge(objective, theta)
    if free is None or not free.shape[1]:
        return theta, []
    words = (
        "a softmax does not change when the same is added to all scores: the parameters are those whose sums over the "
        "classes are 0"
    )
    return theta - free @ (free.T @ theta), [words]


class _Symmetries:
    def __init__(self, objective: Objective, theta: Array, bounds: Bounds) -> None:
        self._objective = objective
        self._names = objective.layout.names
        self._theta = theta
        self._bounds = bounds
        self._begun = theta
        backwards = [name in objective.given and objective.start[k] < 0 for k, name in enumerate(self._names)]
        self._signs = np.where(backwards, -1.0, 1.0)
        self._waves = Waves(self._objective)
        self._phases = [place for place, _ in self._waves.quarter(theta)]

    def resolved(self) -> tuple[Array, list[str]]:
        """The point, and what was chosen."""
        flipped = dict.fromkeys(name for places in self._flips() for name in places)
        shifted = [*self._shifts()]
        said = []
        if flipped:
            listed = ", ".join(f"`{name}`" for name in flipped)
            said.append(f"other signs of {listed} fit equally well; the positive ones are reported")
        if shifted:
            listed = ", ".join(f"`{name}`" for name in shifted)
            said.append(f"whole turns of {listed} change nothing; they are left out")
        return self._theta, said

    def _flips(self) -> Iterator[list[str]]:
        """Change signs, of one parameter or of a few together, while that makes more of them as they are wanted."""
        if self._wanted(self._theta) == len(self._theta) - len(self._phases):
            return
        sets = [places for count in range(1, _TOGETHER + 1) for places in combinations(range(len(self._theta)), count)]
        for places in sets:
            for moved in self._mirrored([*places]):
                if self._wanted(moved) > self._wanted(self._theta) and self._is_same(moved):
                    self._theta = moved
                    yield [self._names[k] for k in places if k not in self._phases]
                    break

    def _wanted(self, theta: Array) -> int:
        """How many parameters, phases aside, have the sign that is wanted."""
        agree = theta * self._signs > 0
        agree[self._phases] = False
        return int(np.count_nonzero(agree))

    def _mirrored(self, places: list[int]) -> Iterator[Array]:
        """The point with some signs changed; also with a phase half a turn on."""
        moved = self._theta.copy()
        moved[places] *= -1
        yield moved
        for place, quarter in self._waves.quarter(moved):
            turned = moved.copy()
            turned[place] += 2 * quarter
            yield turned

    def _shifts(self) -> Iterator[str]:
        """Bring phases to within half a turn of 0."""
        for place, quarter in self._waves.quarter(self._theta):
            turns = math.floor(self._theta[place] / (4 * abs(quarter)) + 0.5)
            moved = self._theta.copy()
            moved[place] -= 4 * abs(quarter) * turns
            if turns and self._is_same(moved):
                self._theta = moved
                yield self._names[place]

    def _is_same(self, theta: Array) -> bool:
        """Whether a point lies between the bounds and predicts the same."""
        if not self._bounds.contain(theta):
            return False
        before = self._predicted(self._begun)
        tolerance = _SAME * max(float(np.ptp(before)), 1e-3 * float(np.abs(before).max()))
        return bool((np.abs(self._predicted(theta) - before) <= tolerance).all())

    def _predicted(self, theta: Array) -> Array:
        """The predictions of some of the rows, or what differs from them by the same."""
        some, kernels = self._some, self._objective.kernels
        return some.per_row(kernels.residuals if some.has_residuals else kernels.row_loss, theta)

    @functools.cached_property
    def _some(self) -> Objective:
        rows = self._objective.rows
        count = min(rows, _ROWS)
        return self._objective.restricted(np.arange(count) * rows // count)
