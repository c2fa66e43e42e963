"""What a picture of a fit shows: rows of the data, the curve through them with its band, residuals, and the losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.rows.reductions import Extremes

if TYPE_CHECKING:
    from autodiff_cli.training.objective.objective import Objective
    from autodiff_cli.training.result.fit import FittedModel

Array = NDArray[np.float64]

MOST_POINTS = 2000  # rows that are shown, drawn at random where there are more
_PLACES = 241  # along the curve
_RATIO, _SHARE = 100, 0.1  # of the ends of a predictor, and of its range, in which half of the rows lie


@dataclass(frozen=True, slots=True)
class ShownRows:
    """Rows of the data beside what the model makes of them.

    Attributes:
        across: the name of the predictor; empty where there are several, and rows stand over what is predicted of them.
        target: the name of what is predicted.
        x, y, residuals: of the rows that are shown, each of shape (shown,); `rows` is how many there are.
        places, curve: the curve along the predictor; without one, the line on which rows lie that are predicted right.
        low, high: the ends of its confidence band; None where none is known.
        level: the probability of that.
        is_by_ratio: whether the predictor goes by ratios, as doses do: most of it would lie at one end of its range.
    """

    across: str
    target: str
    x: Array
    y: Array
    residuals: Array
    rows: int
    places: Array
    curve: Array
    low: Array | None
    high: Array | None
    level: float
    is_by_ratio: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """What there is to show of a fit.

    Attributes:
        rows: None where nothing is predicted that is a number.
    """

    rows: ShownRows | None


def picture(fit: FittedModel, objective: Objective, theta: Array, seed: int) -> Picture:
    """Collect what there is to show.

    Args:
        theta: where the fit ended.
        seed: of the rows that are drawn where there are too many.
    """
    if not objective.has_residuals:
        return Picture(None)
    kept = np.arange(objective.rows)
    if len(kept) > MOST_POINTS:
        kept = np.sort(np.random.default_rng(seed).choice(objective.rows, MOST_POINTS, replace=False))
    part = objective.restricted(kept)
    with quiet():
        values = part.per_row(part.kernels.target_and_prediction, theta)
    targets, predictions = values[: objective.components], values[objective.components :]
    residuals = targets - predictions
    names = objective.model.predictors()
    target = ", ".join(fit.targets)
    first = last = 0.0
    if len(names) == 1 and objective.components == 1 and part.table.columns.get(names[0], targets).ndim == 1:
        least, most = objective.fold_columns(set(names), Extremes(names[0]), np.minimum)
        first, last = float(least), -float(most)
    if first == last:
        ends = np.array([min(targets.min(), predictions.min()), max(targets.max(), predictions.max())])
        flat = predictions.ravel(), targets.ravel(), residuals.ravel()
        return Picture(ShownRows("", target, *flat, objective.rows, ends, ends, None, None, fit.confidence_level))
    across = part.table.columns[names[0]]
    is_by_ratio = first > 0 and last / first >= _RATIO and float(np.median(across)) < first + _SHARE * (last - first)
    places = (np.geomspace if is_by_ratio else np.linspace)(first, last, _PLACES)
    curve, low, high = _curve(fit, names[0], places)
    return Picture(
        ShownRows(
            names[0],
            target,
            across,
            targets[0],
            residuals[0],
            objective.rows,
            places,
            curve,
            low,
            high,
            fit.confidence_level,
            is_by_ratio,
        )
    )


def _curve(fit: FittedModel, name: str, places: Array) -> tuple[Array, Array | None, Array | None]:
    point = {name: places}
    with quiet():
        try:
            found = fit.predict(point, interval=fit.confidence_level)
        except OptionError:
            return np.broadcast_to(fit.predict(point), places.shape), None, None
    return found.prediction, found.confidence_low, found.confidence_high
