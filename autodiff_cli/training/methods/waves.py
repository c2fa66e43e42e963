"""The frequencies and the phases among the parameters of a prediction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.algebra.table import share
from autodiff_cli.backends.choice import backend
from autodiff_cli.backends.protocol import RowGraphs, RowKernel
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import is_literal
from autodiff_cli.graph.tape import topological
from autodiff_cli.ops.elementary import cos, sin
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.rows.reductions import extremes

Array = NDArray[np.float64]

_ALIKE = 1e-6  # the relative difference of two spans that are the same


class Scan(NamedTuple):
    """Values at which a wave with one more part of a turn over the range of the data is met, the slowest first.

    Attributes:
        place: of the parameter in `theta`.
        values: of it.
    """

    place: int
    values: Array


class Waves:
    """The parameters in the arguments of the sines and cosines of a prediction.

    >>> from autodiff_cli.training.objective.objective import Objective
    >>> objective = Objective("y ~ a*sin(2*pi*x/P + p)", {"x": [0.0, 1, 2, 3, 4], "y": [0, 1, 0, -1, 0]})
    >>> waves = Waves(objective)
    >>> [(scan.place, scan.values.tolist()) for scan in waves.scans(objective.start, 1, 100)]
    [(1, [4.0, 2.0])]
    >>> waves.quarter(objective.start)
    [(2, 1.5707963267948966)]
    """

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        found = objective.kernels.once("waves", lambda: _arguments(objective))
        self._slopes, self._frequencies, self._phases = found

    def scans(self, theta: Array, per_turn: int, most: int) -> Iterator[Scan]:
        """For each frequency and each period, at most so many values, so many for each turn, up to a turn per two rows.

        Args:
            theta: what all other parameters are.
        """
        for place in self._frequencies:
            begun = theta.copy()
            begun[place] = begun[place] or 1.0
            twice = begun.copy()
            twice[place] *= 2
            once, again = self._span(place, begun), self._span(place, twice)
            turns = np.arange(1, min(most, per_turn * self._objective.rows // 2) + 1) / per_turn
            if not (once > 0 and np.isfinite(once)):
                continue
            if abs(again / once - 1) < _ALIKE:
                yield Scan(place, 2 * np.pi * turns / once)
            elif abs(4 * again / once - 1) < _ALIKE:
                yield Scan(place, once * begun[place] ** 2 / (2 * np.pi * turns))

    def quarter(self, theta: Array) -> list[tuple[int, float]]:
        """The places of phases, and by how much each has to change for a quarter of a turn."""
        slopes = ((place, self._slope(place, theta)) for place in self._phases)
        return [(place, np.pi / 2 / slope) for place, slope in slopes if slope and np.isfinite(slope)]

    def _slope(self, place: int, theta: Array) -> float:
        """The slope of an argument where it is the same for all rows."""
        kernel, found = self._slopes[place], np.empty((1, 1))
        kernel.write(kernel.prepare(self._objective.point(theta)), {}, found)
        return float(found[0, 0])

    def _span(self, place: int, theta: Array) -> float:
        """How far the slope of an argument goes over the rows."""
        least, most = self._objective.fold_rows(self._slopes[place], theta, extremes, np.minimum)
        return float(-most - least)


class _Arguments(NamedTuple):
    """The slopes of arguments by the place of the parameter, and the places of frequencies and of phases."""

    slopes: dict[int, RowKernel]
    frequencies: list[int]
    phases: list[int]


def _arguments(objective: Objective) -> _Arguments:
    found = _Arguments({}, [], [])
    model, layout = objective.model, objective.layout
    shared, *own = share([model.program.output, *(model.program.leaves[name] for name in layout.names)])
    for node in topological([shared]):
        if node.op not in (sin, cos):
            continue
        slopes = simplify(gradient_nodes(node.inputs[0], own, model.shapes))
        for leaf, slope in zip(own, slopes, strict=True):
            place = layout.places[leaf.text].start
            if leaf.text in model.shapes or place in found.slopes or is_literal(slope, 0):
                continue
            found.slopes[place] = backend().rows(RowGraphs([slope], {*model.of_rows}, model.shapes))
            names = {below.text for below in topological([slope]) if below.is_input}
            (found.phases if names.isdisjoint(model.of_rows) else found.frequencies).append(place)
    return found
