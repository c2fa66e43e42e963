"""A picture of a fit in characters: Braille dots, and marks for what is most to be seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.render.paper import Paper, Style
from autodiff_cli.render.plots.dates import moment
from autodiff_cli.render.plots.panels import Line, Panel, label, panels
from autodiff_cli.training.result.fit import FittedModel

Array = NDArray[np.float64]

_BESIDE = 20  # columns that plotille takes beside the field, on both sides
_WIDEST, _LINES = 80, 8  # of a field; lines of a panel of share 1
_FEW = (
    80  # points, at most, that are marks of their own, over a curve of dots; more are the dots, below a curve of marks
)


def write_picture(paper: Paper, fit: FittedModel) -> None:
    """Draw the panels of a fit, one below the other."""
    for panel in panels(fit):
        paper.heading(panel.title)
        for line in _drawn(panel, paper.width):
            paper.verbatim(line)
        legend = ", ".join(_legend(panel))
        if legend:
            paper.line(f"  {legend}", Style.FAINT)


def _drawn(panel: Panel, width: int) -> list[str]:
    import plotille

    figure = plotille.Figure()
    figure.width = max(min((width - _BESIDE) // 10 * 10, _WIDEST), 10)  # its scale has a mark every 10 columns
    figure.height, figure.with_colors, figure.origin = round(_LINES * min(panel.share, 2)), False, False
    (left, right), (low, high) = panel.limits()
    figure.set_x_limits(left, right)
    figure.set_y_limits(low, high)
    figure.x_label = figure.y_label = ""
    figure.x_ticks_fkt = lambda value, _: _across(value, panel, right - left)
    figure.y_ticks_fkt = lambda value, _: f"{10**value:.3g}" if panel.is_logarithmic else _number(value, high - low)
    field = _Field(figure, low, high)
    few = panel.points is not None and len(panel.points[0]) <= _FEW
    columns = np.linspace(left, right, figure.width)
    if panel.band is not None:
        for edge in (panel.band.low, panel.band.high):
            field.curve(columns, _at(columns, panel.band.x, edge), None if few else "·")
    for line in panel.lines:
        is_dots = few or line.is_reference or panel.points is None
        field.curve(columns, _at(columns, line.x, line.y), None if is_dots else "━")
    if panel.points is not None:
        field.points(*panel.points, "o" if few else None)
    lines: list[str] = figure.show().splitlines()[1:]
    return [line.removesuffix("-> ()").rstrip() for line in lines]


class _Field:
    """Draws what lies between two heights."""

    def __init__(self, figure: Any, low: float, high: float) -> None:
        self._figure, self._low, self._high = figure, low, high

    def points(self, x: Array, y: Array, mark: str | None) -> None:
        """Points as marks, or as dots."""
        seen = (y >= self._low) & (y <= self._high)
        if seen.any():
            self._figure.scatter(x[seen].tolist(), y[seen].tolist(), marker=mark)

    def curve(self, x: Array, y: Array, mark: str | None) -> None:
        """A line through points, of dots, or of a mark in each column."""
        if mark is not None:
            self.points(x, y, mark)
            return
        seen = (y >= self._low) & (y <= self._high)
        ends = np.flatnonzero(np.diff(np.concatenate(([False], seen, [False])).astype(int)))
        for start, end in ends.reshape(-1, 2).tolist():
            self._figure.plot(x[start:end].tolist(), y[start:end].tolist())


def _at(columns: Array, x: Array, y: Array) -> Array:
    """The heights of a line at places; nan beside it."""
    fine = np.isfinite(y)
    found: Array = np.interp(columns, x[fine], y[fine], np.nan, np.nan) if fine.any() else np.full_like(columns, np.nan)
    return found


def _across(value: float, panel: Panel, span: float) -> str:
    if panel.origin is not None:
        return moment(value, span, panel.origin)
    return f"{10**value:.3g}" if panel.goes_by_ratio else _number(value, span)


def _number(value: float, span: float) -> str:
    return label(float(f"{value:.3g}")) if abs(value) > span / 500 else "0"


def _legend(panel: Panel) -> list[str]:
    says = []
    few = panel.points is not None and len(panel.points[0]) <= _FEW
    curves = [line for line in panel.lines if not line.is_reference]
    if panel.points is not None:
        says.append(f"{panel.y_name} over {panel.across}")
    if panel.note:
        says.append(f"{'o' if few else 'dots'}: {panel.note}")
        says += [f"{'line' if few else '━'}: {line.name}" for line in curves]
        says += [f"line: {line.name}" for line in panel.lines if line.is_reference]
    if panel.band is not None:
        says.append(f"{'beside it' if few else '·'}: {panel.band.name}")
    if panel.points is None and len(curves) > 1:
        says += [f"{line.name}: ends at {_last(line, panel):.4g}" for line in curves]
    return says


def _last(line: Line, panel: Panel) -> float:
    last = float(line.y[-1])
    return float(10**last) if panel.is_logarithmic else last
