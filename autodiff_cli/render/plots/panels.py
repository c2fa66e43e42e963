"""What a picture of a fit consists of, whatever it is drawn with: panels of points, lines and bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.render.text import counted, on_one_line
from autodiff_cli.training.prediction.picture import ShownRows
from autodiff_cli.training.result.fit import FittedModel

Array = NDArray[np.float64]

_RANGE = 30.0  # the ratio of losses from which on they stand on a logarithmic scale
_SECONDS = 10  # of a column of times from which on these stand beside the axis
_MOST = 1000  # points of a curve of losses


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points; `name` stands beside it."""

    x: Array
    y: Array
    name: str
    is_reference: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """What lies between two lines."""

    x: Array
    low: Array
    high: Array
    name: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One system of axes, and what is drawn in it.

    Attributes:
        points: x and y of each; none are drawn where it is None.
        is_logarithmic: whether heights are powers of ten: `y` are exponents then.
        goes_by_ratio: whether what is across is powers of ten: `x` are exponents then.
        origin: the moment since which seconds are across, if these are.
        share: of the height of the picture.
        note: what is to be known of the panel.
    """

    title: str
    x_name: str
    y_name: str
    lines: Sequence[Line]
    points: tuple[Array, Array] | None = None
    band: Band | None = None
    is_logarithmic: bool = False
    goes_by_ratio: bool = False
    origin: datetime | None = None
    share: float = 1.0
    note: str = ""

    @property
    def across(self) -> str:
        """What is across, with the day that times without one belong to."""
        return self.x_name if self.origin is None else f"{self.x_name}, from {self.origin:%Y-%m-%d} on"

    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The least and the most of x, and of y, with some room around."""
        xs, ys = [line.x for line in self.lines], [line.y for line in self.lines if not line.is_reference]
        if self.points is not None:
            xs.append(self.points[0])
            ys.append(self.points[1])
        if self.band is not None and not self._is_wide(ys):
            ys += [self.band.low, self.band.high]
        ys += [line.y for line in self.lines if line.is_reference and not ys]
        return _room(xs, 0.0 if self.points is None else 0.03), _room(ys, 0.05)

    def _is_wide(self, ys: Sequence[Array]) -> bool:
        """Whether the band would leave hardly any room for the rest."""
        assert self.band is not None
        low, high = _room(ys, 0.05)
        own = np.concatenate((self.band.low, self.band.high))
        own = own[np.isfinite(own)]
        return not len(own) or float(np.ptp(own)) > 4 * (high - low)


def _room(arrays: Sequence[Array], beside: float) -> tuple[float, float]:
    values = np.concatenate([np.empty(0), *arrays])
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    margin = (high - low) * beside if high > low else abs(low) / 20 or 1.0
    return low - margin, high + margin


def panels(fit: FittedModel) -> list[Panel]:
    """The panels of a fit: the data, the residuals, the losses, as far as there are any."""
    found = []
    rows = fit.picture.rows if fit.picture is not None else None
    if rows is not None:
        origin = fit.moments().get(rows.across) if rows.places[-1] - rows.places[0] > _SECONDS else None
        if origin is not None:
            rows = replace(rows, is_by_ratio=False)
        if rows.is_by_ratio:
            rows = replace(rows, x=np.log10(rows.x.astype(np.float64)), places=np.log10(rows.places))
        drawn = _data(rows), _residuals(rows)
        found += [replace(panel, goes_by_ratio=rows.is_by_ratio, origin=origin) for panel in drawn]
    if len(fit.history) > 1:
        found.append(_losses(fit))
    return found


def _data(rows: ShownRows) -> Panel:
    target = on_one_line(rows.target)
    band = None
    if rows.low is not None and rows.high is not None and np.isfinite(rows.low).any():
        band = Band(rows.places, rows.low, rows.high, f"{100 * rows.level:g} % confidence")
    shown = f"{counted(len(rows.x), 'row')}"
    note = shown if len(rows.x) >= rows.rows else f"{len(rows.x)} of {counted(rows.rows, 'row')}, drawn at random"
    if rows.across:
        curve = Line(rows.places, rows.curve, "fit")
        return Panel("data and fit", rows.across, target, [curve], (rows.x, rows.y), band, share=2.2, note=note)
    right = Line(rows.places, rows.curve, "as predicted", is_reference=True)
    return Panel("observed and predicted", "predicted", f"{target}", [right], (rows.x, rows.y), share=2.2, note=note)


def _residuals(rows: ShownRows) -> Panel:
    zero = Line(np.array([rows.places[0], rows.places[-1]]), np.zeros(2), "0", is_reference=True)
    return Panel("residuals", rows.across or "predicted", "residual", [zero], (rows.x, rows.residuals))


def _losses(fit: FittedModel) -> Panel:
    records = fit.history
    if len(records) > _MOST:
        records = [records[k] for k in np.unique(np.linspace(0, len(records) - 1, _MOST).astype(int)).tolist()]
    epochs = np.array([float(record["epoch"]) for record in records])
    names = [("loss", "loss"), ("validation_loss", "validation loss")]
    curves = [(name, np.array([float(record[key]) for record in records])) for key, name in names if key in records[0]]
    everything = np.concatenate([values for _, values in curves])
    everything = everything[np.isfinite(everything)]
    least, most = (float(everything.min()), float(everything.max())) if len(everything) else (0.0, 0.0)
    is_logarithmic = least > 0 and most / least > _RANGE
    if is_logarithmic:
        with np.errstate(all="ignore"):
            curves = [(name, np.log10(values)) for name, values in curves]
    lines = [Line(epochs, values, name) for name, values in curves]
    return Panel("loss, epoch by epoch", "epoch", "loss", lines, is_logarithmic=is_logarithmic)


def ticks(low: float, high: float, most: int, *, whole: bool = False) -> list[float]:
    """Round numbers between two limits, at most so many: 1, 2 or 5 times a power of ten apart.

    Args:
        whole: whether only whole numbers will do.

    >>> ticks(0.03, 0.97, 5)
    [0.2, 0.4, 0.6, 0.8]
    """
    width = (high - low) / max(most, 1)
    if not width > 0 or not math.isfinite(width):
        return [low]
    power = math.floor(math.log10(width))
    steps = (m * 10.0**e for e in (power, power + 1) for m in (1, 2, 5))
    step = next(s for s in steps if s >= width * (1 - 1e-9) and (not whole or s >= 1))
    first, last = math.ceil(low / step), math.floor(high / step)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)] or [low]


def label(value: float, *, is_exponent: bool = False) -> str:
    """A number beside an axis.

    >>> label(0.25), label(-3.0, is_exponent=True), label(1234567.0)
    ('0.25', '1e-3', '1.23457e+06')
    """
    if is_exponent:
        return f"1e{value:g}" if value == round(value) else f"{10**value:.2g}"
    return f"{value or 0.0:g}"
