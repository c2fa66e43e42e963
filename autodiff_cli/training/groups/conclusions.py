"""What is reported of groups that were fitted together, computed for all of them at once.

The figures are those of `result.statistics` and `result.figures`, of which this is the plain case: least squares, all
parameters known, no weight of 0. Groups for which it is not are left to them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.canonical import canonical_point
from autodiff_cli.training.fit import terms
from autodiff_cli.training.groups.together import GroupedRows, Together, padded
from autodiff_cli.training.methods.waves import Waves
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import Options
from autodiff_cli.training.result.covariance import DEPENDENT
from autodiff_cli.training.result.figures import of_squares
from autodiff_cli.training.result.fit import FittedModel
from autodiff_cli.training.result.statistics import ABSOLUTE, SCALED, SCALED_WEIGHTED

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
_LEAST, _MOST = 1e-140, 1e140  # lengths whose squares neither vanish nor overflow
_MARK = 314159  # digits that no formula has by chance
_ASKED = 5  # groups that are asked whether another point predicts the same


class Conclusions:
    """The fits of groups.

    Args:
        objective: of the rows of all groups.
        rows: they, by groups.
        found: where the groups ended.
        variations: of each group, the sum of squares of the target about its mean.
    """

    def __init__(
        self, objective: Objective, rows: GroupedRows, found: Together, variations: Array, options: Options
    ) -> None:
        self._objective, self._options, self._found, self._variations = objective, options, found, variations
        self._rows, self._sizes = rows, rows.sizes
        size = objective.layout.size
        self._components = objective.components
        self._count = rows.sizes * self._components
        self._dof = self._count - size
        with quiet():
            squares = np.sum(np.square(found.triangles[:, :, -1]), axis=1)
            self._lengths = np.sqrt(squares)
            self._covariances, known = self._inverses(found.triangles[:, :size, :size])
            count = len(rows.sizes)
            self._quantiles, self._ratios = np.empty((count, len(_SHARES))), np.empty(count)
            self._weights, self._log_weights = np.empty(count), np.empty(count)
            for which in rows.batches():
                self._look_at(which)
        self.plain: Mask = known & (self._dof > 0) & (self._lengths > _LEAST) & (self._lengths < _MOST)
        self.plain &= np.isfinite(self._log_weights).all() & (objective.family is None)
        if self._has_twins():
            self.plain[:] = False

    def fit(self, which: int) -> FittedModel:
        """The fit of a group for which all is plain."""
        objective, options, found = self._objective, self._options, self._found
        theta = found.theta[which]
        names, model = objective.parameters, objective.model
        values = dict(zip(names, theta.tolist(), strict=True))
        length, dof, count = float(self._lengths[which]), int(self._dof[which]), int(self._count[which])
        absolute, variation = options.data.absolute_sigma, float(self._variations[which])
        covariance = self._covariances[which]
        per_square = 1 / (float(self._weights[which]) * self._components)
        of_residuals: dict[str, Any] = {"residual_quantiles": tuple(self._quantiles[which].tolist())}
        ratio = float(self._ratios[which])
        of_residuals["durbin_watson"] = None if math.isnan(ratio) else ratio
        losses = found.losses[:, which]
        history = [
            {"epoch": number, "loss": loss * per_square}
            for number, loss in enumerate(losses[~np.isnan(losses)].tolist())
        ]
        weighted = SCALED_WEIGHTED if objective.weighted else SCALED
        return FittedModel(
            model=model.text,
            rows=int(self._sizes[which]),
            parameters=values,
            fixed=dict(objective.fixed),
            stderr=dict(zip(names, np.sqrt(np.diag(covariance)).tolist(), strict=True)),
            loss=length * length * per_square,
            rss=length * length,
            dof=dof,
            r_squared=1 - length * length / variation if variation > 0 else math.nan,
            optimizer="lm",
            epochs=len(history) - 1,
            converged=True,
            failure="",
            history=history,
            covariance=covariance,
            definition=ABSOLUTE if absolute else weighted,
            formula=self._formula(values),
            warnings=[*model.warnings, *objective.kernels.notes],
            _read=model,
            levels=dict(model.levels),
            numbers=objective.layout.numbers,
            loss_name=objective.loss,
            figures=of_squares(length, count, dof, variation, absolute, of_residuals, float(self._log_weights[which])),
            interval_dof=None if absolute else dof,
            confidence_level=options.report.confidence,
            terms=terms(objective, options.data),
        )

    def _formula(self, values: Mapping[str, float]) -> str:
        """See `Model.formula`. It is printed once; other numbers take the places of those there, where signs agree."""
        if min(values.values(), default=0.0) <= 0:
            return self._objective.model.formula({**values, **self._objective.fixed})
        return "".join(_text(values[part]) if k % 2 else part for k, part in enumerate(self._pieces))

    @cached_property
    def _pieces(self) -> list[str]:
        """A formula in pieces: every second one is the name of a parameter, in the place of its number."""
        objective = self._objective
        marks = {name: float(f"0.{_MARK}{k:04d}1") for k, name in enumerate(objective.parameters)}
        names = {_text(mark): name for name, mark in marks.items()}
        text = objective.model.formula({**marks, **objective.fixed})
        pieces = re.split("|".join(f"({re.escape(mark)})" for mark in names), text)
        return [names.get(piece, piece) for piece in pieces if piece is not None]

    def _inverses(self, factors: Array) -> tuple[Array, Mask]:
        """The covariances, and which of them are known: see `result.covariance.inverse`."""
        scale = np.sqrt(np.sum(np.square(factors), axis=1))
        known: Mask = (scale > 0).all(axis=1) & np.isfinite(factors).all(axis=(1, 2))
        scaled = np.where(known[:, None, None], factors / scale[:, None, :], np.eye(factors.shape[1]))
        _, sizes, directions = np.linalg.svd(scaled)
        known &= (sizes > DEPENDENT * sizes[:, :1]).all(axis=1)
        roots = directions / sizes[:, :, None]
        found = np.einsum("gki,gkj->gij", roots, roots) / (scale[:, :, None] * scale[:, None, :])
        if not self._options.data.absolute_sigma:
            found *= (np.square(self._lengths) / self._dof)[:, None, None]
        return found, known

    def _look_at(self, which: NDArray[np.intp]) -> None:
        """Find what the rows of some groups say: the quantiles of residuals, Durbin and Watson's figure, weights."""
        sizes, weights = self._sizes[which], self._rows.weights(which)
        starts = np.cumsum(sizes) - sizes
        self._weights[which] = np.add.reduceat(weights, starts)
        self._log_weights[which] = np.add.reduceat(np.log(weights), starts) * self._components
        residuals = self._rows.residuals(self._found.theta[which], which)
        self._ratios[which] = self._neighbours(residuals, weights, which, starts)
        for some, places, inside in padded(sizes):
            values = residuals[:, np.where(inside, starts[some, None] + places, 0)]
            values = np.where(inside, values, np.inf).transpose(1, 0, 2).reshape(len(some), -1)
            values.sort(axis=1)
            last = self._count[which[some]] - 1
            for k, share in enumerate(_SHARES):
                below = np.floor(share * last).astype(np.intp)
                above = np.minimum(below + 1, last)
                part = share * last - below
                one, other = (values[np.arange(len(some)), place] for place in (below, above))
                self._quantiles[which[some], k] = one + part * (other - one)

    def _neighbours(self, residuals: Array, weights: Array, which: NDArray[np.intp], starts: NDArray[np.intp]) -> Array:
        """Durbin and Watson's figure for some groups, nan where it says nothing."""
        objective = self._objective
        nothing = np.full(len(which), math.nan)
        predictors = objective.model.predictors()
        if objective.components != 1 or len(predictors) != 1 or predictors[0] not in objective.data.names:
            return nothing
        scaled = residuals[0] * np.sqrt(weights)
        steps, apart = np.diff(self._rows.column(predictors[0], which)), np.square(np.diff(scaled))
        between = np.zeros(len(scaled), dtype=np.bool_)
        between[starts[1:] - 1] = True  # the last row of each group but the last
        steps[between[:-1]] = 0
        apart[between[:-1]] = 0
        ends = [np.append(values, 0.0) for values in (steps, apart)]
        least, most = np.minimum.reduceat(ends[0], starts), np.maximum.reduceat(ends[0], starts)
        ordered = ((least >= 0) | (most <= 0)) & (least != most)
        total = np.add.reduceat(np.square(scaled), starts)
        return np.where(ordered & (total > 0), np.add.reduceat(ends[1], starts) / total, math.nan)

    def _has_twins(self) -> bool:
        """Whether other signs or phases may predict the same, so that each group needs a look at which is reported."""
        theta = self._found.theta
        good = np.flatnonzero(self._found.converged)
        asked: Sequence[int] = good[np.linspace(0, len(good) - 1, min(_ASKED, len(good))).astype(np.intp)].tolist()
        for which in asked:
            part = self._rows.of_group(which)
            with quiet():
                if Waves(part).quarter(theta[which]):
                    return True
            for point in (theta[which], -np.abs(theta[which])):
                if canonical_point(part, point, part.bounds)[1]:
                    return True
        return False


def _text(value: float) -> str:
    """A positive number as a formula has it."""
    return repr(value).removesuffix(".0")
