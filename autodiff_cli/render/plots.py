"""Plots of a fit: in the terminal, and as SVG, HTML and PNG files.

A plot consists of panels: the data with the fitted curve, the residuals, and the losses during the fit. `fit_panels`
decides what the panels show; the terminal draws them in Braille characters, and files have them as an SVG image that
follows the reader's light or dark theme. PNG files are made from the SVG image by cairosvg.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from html import escape
from pathlib import PurePath

import numpy as np

from autodiff_cli.array_types import Array, Mask
from autodiff_cli.data.writing import open_atomic_bytes
from autodiff_cli.options import OptionError
from autodiff_cli.render.fit import estimate_cells, has_short_formula
from autodiff_cli.render.formatting import drop_double_negations, pluralize, shorten_middle, single_line
from autodiff_cli.render.progress import step_noun
from autodiff_cli.render.report import Paper, Report, Style
from autodiff_cli.training.result.fitted_model import FittedModel
from autodiff_cli.training.result.prediction import FitPlot

# --- Ticks and labels ---

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400  # seconds
_TIME_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(k * _MINUTE for k in (1, 2, 5, 10, 15, 30)),
    *(k * _HOUR for k in (1, 2, 3, 6, 12)),
    *(k * _DAY for k in (1, 2, 5, 10, 20, 30, 60, 90, 180, 365)),
)
# The format of labels, by the smallest span of the axis (in seconds) for which it is used.
_TIME_FORMATS = ((1000 * _DAY, "%Y-%m"), (2 * _DAY, "%m-%d"), (10 * _MINUTE, "%H:%M"), (0, "%H:%M:%S"))


def time_ticks(low: float, high: float, max_count: int, origin: datetime) -> list[float]:
    """Return at most `max_count` round times between two limits, in seconds since `origin`.

    >>> time_ticks(0, 86_400, 5, datetime(2024, 3, 1, 5))  # from 5 in the morning on
    [3600.0, 25200.0, 46800.0, 68400.0]
    """
    width = (high - low) / max(max_count, 1)
    step = next((step for step in _TIME_STEPS if step >= width), math.ceil(width / _TIME_STEPS[-1]) * _TIME_STEPS[-1])
    since_midnight = (origin - origin.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
    first, last = math.ceil((low + since_midnight) / step), math.floor((high + since_midnight) / step)
    return [k * step - since_midnight for k in range(first, last + 1)]


def time_label(seconds: float, span: float, origin: datetime) -> str:
    """Return the label of a time on an axis that spans `span` seconds; `seconds` are counted from `origin`.

    >>> time_label(86_400.0 * 40, 86_400.0 * 300, datetime(2024, 1, 1))
    '02-10'
    >>> time_label(3600.0, 7200.0, datetime(2024, 1, 1))
    '01:00'
    """
    pattern = next(pattern for shortest, pattern in _TIME_FORMATS if span >= shortest)
    try:
        return (origin + timedelta(seconds=seconds)).strftime(pattern)
    except (OverflowError, ValueError):  # the year is beyond the range of datetime
        return f"{seconds:g}"


# --- Panels ---

_MIN_LOG_RANGE = 30.0  # largest loss / smallest loss from which a logarithmic scale is used
_MIN_TIME_SPAN = 10  # seconds; over a shorter span, times are labelled as numbers
_MAX_LOSS_POINTS = 1000  # longer curves of losses are sampled: more points than pixels show nothing


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points, with a name for the legend; a reference line (such as 0) is drawn dashed."""

    x: Array
    y: Array
    name: str
    is_reference: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """The area between two lines, with a name for the legend."""

    x: Array
    low: Array
    high: Array
    name: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes with its contents.

    Attributes:
        points: x and y of the points; None if there are none.
        is_y_logarithmic: whether the y axis is logarithmic; all `y` are then exponents of ten.
        is_x_logarithmic: whether the x axis is logarithmic; all `x` are then exponents of ten.
        is_x_integer: whether only integers are marked on the x axis.
        origin: the date and time from which x counts seconds, if it is a time.
        height_share: the height relative to other panels.
        note: a remark for the legend.
    """

    title: str
    x_name: str
    y_name: str
    lines: Sequence[Line]
    points: tuple[Array, Array] | None = None
    band: Band | None = None
    is_y_logarithmic: bool = False
    is_x_logarithmic: bool = False
    is_x_integer: bool = False
    origin: datetime | None = None
    height_share: float = 1.0
    note: str = ""

    @property
    def x_title(self) -> str:
        """The title of the x axis; for times it has the day on which they begin."""
        return self.x_name if self.origin is None else f"{self.x_name}, from {self.origin:%Y-%m-%d} on"

    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The limits of x and of y, with a margin."""
        xs, ys = [line.x for line in self.lines], [line.y for line in self.lines if not line.is_reference]
        if self.points is not None:
            xs.append(self.points[0])
            ys.append(self.points[1])
        if self.band is not None and not self._is_band_wide(ys):
            ys += [self.band.low, self.band.high]
        ys += [line.y for line in self.lines if line.is_reference and not ys]
        return _padded_limits(xs, 0.0 if self.points is None else 0.03), _padded_limits(ys, 0.05)

    def _is_band_wide(self, ys: Sequence[Array]) -> bool:
        """Whether the band is so wide that the axis would hardly show anything else."""
        assert self.band is not None
        low, high = _padded_limits(ys, 0.05)
        edges = np.concatenate((self.band.low, self.band.high))
        edges = edges[np.isfinite(edges)]
        return not len(edges) or float(np.ptp(edges)) > 4 * (high - low)


def _padded_limits(arrays: Sequence[Array], padding: float) -> tuple[float, float]:
    """Return the range of all finite numbers, extended on both sides by a fraction `padding` of it."""
    values = np.concatenate([np.empty(0), *arrays])
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    margin = (high - low) * padding if high > low else abs(low) / 20 or 1.0
    return low - margin, high + margin


def fit_panels(fit: FittedModel) -> list[Panel]:
    """Return the panels of a fit: data, residuals, losses; those without data are left out."""
    panels = []
    rows = fit.plot
    if rows is not None:
        origin = fit.origins.get(rows.predictor) if rows.curve_x[-1] - rows.curve_x[0] > _MIN_TIME_SPAN else None
        if origin is not None:
            rows = replace(rows, is_log_scale=False)
        if rows.is_log_scale:
            rows = replace(rows, x=np.log10(rows.x.astype(np.float64)), curve_x=np.log10(rows.curve_x))
        of_rows = _data_panel(rows), _residual_panel(rows)
        panels += [replace(panel, is_x_logarithmic=rows.is_log_scale, origin=origin) for panel in of_rows]
    if len(fit.history) > 1:
        panels.append(_loss_panel(fit))
    return panels


def _data_panel(rows: FitPlot) -> Panel:
    target = single_line(rows.target)
    band = None
    if rows.low is not None and rows.high is not None and np.isfinite(rows.low).any():
        band = Band(rows.curve_x, rows.low, rows.high, f"{100 * rows.level:g} % confidence")
    is_complete = len(rows.x) >= rows.rows
    count = pluralize(rows.rows, "row")
    note = pluralize(len(rows.x), "row") if is_complete else f"{len(rows.x)} of {count}, chosen at random"
    if rows.predictor:
        curve = Line(rows.curve_x, rows.curve_y, "fit")
        return Panel(
            "data and fit", rows.predictor, target, [curve], (rows.x, rows.y), band, height_share=2.2, note=note
        )
    diagonal = Line(rows.curve_x, rows.curve_y, "observed = predicted", is_reference=True)
    return Panel(
        "observed and predicted", "predicted", target, [diagonal], (rows.x, rows.y), height_share=2.2, note=note
    )


def _residual_panel(rows: FitPlot) -> Panel:
    zero = Line(np.array([rows.curve_x[0], rows.curve_x[-1]]), np.zeros(2), "0", is_reference=True)
    return Panel("residuals", rows.predictor or "predicted", "residual", [zero], (rows.x, rows.residuals))


def _loss_panel(fit: FittedModel) -> Panel:
    records = fit.history
    if len(records) > _MAX_LOSS_POINTS:
        records = [
            records[k] for k in np.unique(np.linspace(0, len(records) - 1, _MAX_LOSS_POINTS).astype(int)).tolist()
        ]
    epochs = np.array([float(record["epoch"]) for record in records])
    curves = [("loss", np.array([record["loss"] for record in records]))]
    if "validation_loss" in records[0]:
        curves.append(("validation loss", np.array([record["validation_loss"] for record in records])))
    losses = np.concatenate([values for _, values in curves])
    losses = losses[np.isfinite(losses)]
    smallest, largest = (float(losses.min()), float(losses.max())) if len(losses) else (0.0, 0.0)
    is_logarithmic = smallest > 0 and largest / smallest > _MIN_LOG_RANGE
    if is_logarithmic:
        with np.errstate(all="ignore"):
            curves = [(name, np.log10(values)) for name, values in curves]
    lines = [Line(epochs, values, name) for name, values in curves]
    noun = step_noun(fit.optimizer)
    return Panel(f"loss, {noun} by {noun}", noun, "loss", lines, is_y_logarithmic=is_logarithmic, is_x_integer=True)


def ticks(low: float, high: float, max_count: int, *, whole: bool = False) -> list[float]:
    """Return at most `max_count` round numbers between two limits; their distance is 1, 2 or 5 times a power of ten.

    Args:
        whole: whether to return only whole numbers.

    >>> ticks(0.03, 0.97, 5)
    [0.2, 0.4, 0.6, 0.8]
    """
    width = (high - low) / max(max_count, 1)
    if not width > 0 or not math.isfinite(width):
        return [low]
    power = math.floor(math.log10(width))
    steps = (m * 10.0**e for e in (power, power + 1) for m in (1, 2, 5))
    step = next(s for s in steps if s >= width * (1 - 1e-9) and (not whole or s >= 1))
    first, last = math.ceil(low / step), math.floor(high / step)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)] or [low]


def tick_label(value: float, *, is_exponent: bool = False) -> str:
    """Return the label of a number on an axis.

    >>> tick_label(0.25), tick_label(-3.0, is_exponent=True), tick_label(1234567.0)
    ('0.25', '1e-3', '1.23457e+06')
    """
    if is_exponent:
        return f"1e{value:g}" if value == round(value) else f"{10**value:.2g}"
    return f"{value or 0.0:g}"


# --- In the terminal ---

_SCALE_WIDTH = 20  # terminal columns that plotille needs beside the plot, on both sides
_MAX_PLOT_WIDTH = 80  # terminal columns
_PLOT_ROWS = 8  # lines of a panel with height_share 1
# Up to this number, points are drawn as letters over a dotted curve; more are drawn as dots below a curve of letters.
_MAX_MARKED_POINTS = 80


def plot_report(fit: FittedModel) -> Report:
    """Report the plots of a fit; their numbers are in the document of the fit."""
    return Report(lambda paper: write_plot(paper, fit), list)


def write_plot(paper: Paper, fit: FittedModel) -> None:
    """Draw the panels of a fit on a paper, one below the other."""
    for panel in fit_panels(fit):
        paper.heading(panel.title)
        for line in _plot_lines(panel, paper.width):
            paper.verbatim(line)
        legend = ", ".join(_legend_entries(panel))
        if legend:
            paper.line(f"  {legend}", Style.FAINT)


def _plot_lines(panel: Panel, width: int) -> list[str]:
    import plotille

    figure = plotille.Figure()
    # The scale below the plot has a mark every 10 columns.
    figure.width = max(min((width - _SCALE_WIDTH) // 10 * 10, _MAX_PLOT_WIDTH), 10)
    figure.height, figure.with_colors, figure.origin = round(_PLOT_ROWS * min(panel.height_share, 2)), False, False
    (left, right), (low, high) = panel.limits()
    figure.set_x_limits(left, right)
    figure.set_y_limits(low, high)
    figure.x_label = figure.y_label = ""
    figure.x_ticks_fkt = lambda value, _: _x_tick_label(value, panel, right - left)
    figure.y_ticks_fkt = lambda value, _: (
        f"{10**value:.3g}" if panel.is_y_logarithmic else _short_label(value, high - low)
    )
    few = panel.points is not None and len(panel.points[0]) <= _MAX_MARKED_POINTS
    columns = np.linspace(left, right, figure.width)
    curves = [(line, None if few or line.is_reference or panel.points is None else "━") for line in panel.lines]
    if panel.band is not None:
        edges = [Line(panel.band.x, edge, panel.band.name) for edge in (panel.band.low, panel.band.high)]
        curves = [*((edge, None if few else "·") for edge in edges), *curves]
    for line, mark in curves:
        heights = _heights_at(columns, line.x, line.y)
        for x, y in _parts(columns, heights, (heights >= low) & (heights <= high)):
            if mark is None:
                figure.plot(x.tolist(), y.tolist())
            else:
                figure.scatter(x.tolist(), y.tolist(), marker=mark)
    if panel.points is not None:
        x, y = panel.points
        visible = (y >= low) & (y <= high)
        if visible.any():
            figure.scatter(x[visible].tolist(), y[visible].tolist(), marker="o" if few else None)
    lines: list[str] = figure.show().splitlines()[1:]
    return [line.removesuffix("-> ()").rstrip() for line in lines]


def _parts(x: Array, y: Array, is_visible: Mask) -> Iterator[tuple[Array, Array]]:
    """Yield x and y of the parts of a line in which it is visible."""
    ends = np.flatnonzero(np.diff(np.concatenate(([False], is_visible, [False])).astype(int)))
    for start, end in ends.reshape(-1, 2).tolist():
        yield x[start:end], y[start:end]


def _heights_at(columns: Array, x: Array, y: Array) -> Array:
    """Interpolate a line at the x of each column; nan outside the line."""
    finite = np.isfinite(y)
    if not finite.any():
        return np.full_like(columns, np.nan)
    heights: Array = np.interp(columns, x[finite], y[finite], np.nan, np.nan)
    return heights


def _x_tick_label(value: float, panel: Panel, span: float) -> str:
    if panel.origin is not None:
        return time_label(value, span, panel.origin)
    return f"{10**value:.3g}" if panel.is_x_logarithmic else _short_label(value, span)


def _short_label(value: float, span: float) -> str:
    return tick_label(float(f"{value:.3g}")) if abs(value) > span / 500 else "0"


def _legend_entries(panel: Panel) -> list[str]:
    entries = []
    few = panel.points is not None and len(panel.points[0]) <= _MAX_MARKED_POINTS
    curves = [line for line in panel.lines if not line.is_reference]
    if panel.points is not None:
        entries.append(f"{panel.y_name} over {panel.x_title}")
    if panel.note:
        entries.append(f"{'o' if few else 'dots'}: {panel.note}")
        entries += [f"{'line' if few else '━'}: {line.name}" for line in curves]
        entries += [f"line: {line.name}" for line in panel.lines if line.is_reference]
    if panel.band is not None:
        entries.append(f"{'lines around it' if few else '·'}: {panel.band.name}")
    if panel.points is None and len(curves) > 1:
        entries += [f"{line.name}: ends at {_last_height(line, panel):.4g}" for line in curves]
    return entries


def _last_height(line: Line, panel: Panel) -> float:
    last = float(line.y[-1])
    return float(10**last) if panel.is_y_logarithmic else last


# --- As SVG ---


@dataclass(frozen=True, slots=True)
class SvgPlotSettings:
    """Dimensions of a plot in pixels, and limits of what it shows."""

    width: int = 760  # fits a column of text on a page
    left: int = 84  # for the y axis with its labels and title
    right: int = 20
    top: int = 34  # for the title of the panel
    bottom: int = 46  # for the x axis with its labels and title
    title_height: int = 40  # for the title of the plot
    panel_height: int = 150  # of the axes of a panel with height_share 1
    min_decades: int = 2  # over more decades only whole powers of ten are marked
    decimals: int = 2  # of coordinates: finer than a screen shows
    max_title_length: int = 90  # characters that fit into the width
    max_labelled_points: int = 300  # with more points, each is smaller and has no tooltip


SVG_PLOT = SvgPlotSettings()
_CURVE_COLOURS = ("#b3261e", "#1f5fa8")

# Colours are also attributes, for viewers that ignore style sheets; the rules below replace them in dark mode.
_PLOT_STYLE = """
.plot text{font-family:system-ui,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif}
@media screen and (prefers-color-scheme:dark){
.plot .paper{fill:#16181c}.plot text{fill:#e6e6e6}.plot .faint{fill:#a8a8a8}
.plot .grid{stroke:#33363c}.plot .axis{stroke:#8a8a8a}.plot .reference{stroke:#9a9a9a}
.plot .point{fill:#c9ccd1}.plot .band{fill:#7a3530}.plot .curve0{stroke:#ff8a80}.plot .curve1{stroke:#8ab8ff}}
"""


def plot_svg(fit: FittedModel) -> str:
    """Return the plot of a fit as a self-contained SVG image."""
    panels = fit_panels(fit)
    heights = [SVG_PLOT.top + SVG_PLOT.panel_height * panel.height_share + SVG_PLOT.bottom for panel in panels]
    height = SVG_PLOT.title_height + sum(heights)
    title = shorten_middle(single_line(fit.model), SVG_PLOT.max_title_length)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" width="{SVG_PLOT.width}" height="{height:g}" '
        f'viewBox="0 0 {SVG_PLOT.width} {height:g}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape('; '.join(panel.title for panel in panels))}</desc>",
        f"<style>{_PLOT_STYLE}</style>",
        f'<rect class="paper" width="{SVG_PLOT.width}" height="{height:g}" fill="#ffffff"/>',
        f'<text x="{SVG_PLOT.left}" y="26" font-size="15" font-weight="600" fill="#1c1c1c">{escape(title)}</text>',
    ]
    top = float(SVG_PLOT.title_height)
    for panel, panel_height in zip(panels, heights, strict=True):
        parts += [f'<g transform="translate(0 {top:g})">', *_Axes(panel).shapes(), "</g>"]
        top += panel_height
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Axes:
    """The axes of a panel, which convert numbers to pixels."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._x, self._y = panel.limits()
        self._height = SVG_PLOT.panel_height * panel.height_share

    def shapes(self) -> Iterator[str]:
        """Yield the panel as SVG shapes, relative to its upper left corner."""
        panel = self._panel
        clip = f"clip-{panel.title.split()[0].strip(',')}"
        right, bottom = SVG_PLOT.width - SVG_PLOT.right, SVG_PLOT.top + self._height
        yield f'<text x="{SVG_PLOT.left}" y="20" font-weight="600" fill="#1c1c1c">{escape(panel.title)}</text>'
        yield from self._legend()
        yield from self._grid(bottom)
        frame = f'x="{SVG_PLOT.left}" y="{SVG_PLOT.top}" width="{right - SVG_PLOT.left}" height="{self._height:g}"'
        yield f'<clipPath id="{clip}"><rect {frame}/></clipPath>'
        yield f'<g clip-path="url(#{clip})">'
        yield from self._contents()
        yield "</g>"
        yield f'<rect class="axis" {frame} fill="none" stroke="#777777"/>'

    def _grid(self, bottom: float) -> Iterator[str]:
        panel, right = self._panel, SVG_PLOT.width - SVG_PLOT.right
        for value, text in self._x_marks():
            x = self._x_pixels(np.array([value]))[0]
            yield f'<path class="grid" d="M{x:.1f} {SVG_PLOT.top}V{bottom:g}" stroke="#e6e6e6"/>'
            yield _svg_text(x, bottom + 17, text, "middle")
        for value in ticks(*self._y, max(2, int(self._height // 32))):
            y = self._y_pixels(np.array([value]))[0]
            yield f'<path class="grid" d="M{SVG_PLOT.left} {y:.1f}H{right}" stroke="#e6e6e6"/>'
            yield _svg_text(SVG_PLOT.left - 8, y + 4, tick_label(value, is_exponent=panel.is_y_logarithmic), "end")
        yield _svg_text((SVG_PLOT.left + right) / 2, bottom + 36, shorten_middle(panel.x_title, 60), "middle", "faint")
        middle = SVG_PLOT.top + self._height / 2
        rotation = f' transform="rotate(-90 18 {middle:g})"'
        yield _svg_text(18, middle, shorten_middle(panel.y_name, 30), "middle", "faint", rotation)

    def _x_marks(self) -> Iterator[tuple[float, str]]:
        """Yield the values that are marked on the x axis, with their labels."""
        panel, span = self._panel, self._x[1] - self._x[0]
        if panel.origin is not None:
            yield from (
                (value, time_label(value, span, panel.origin)) for value in time_ticks(*self._x, 8, panel.origin)
            )
            return
        is_whole = panel.is_x_integer or (panel.is_x_logarithmic and span >= SVG_PLOT.min_decades)
        for value in ticks(*self._x, 8, whole=is_whole):
            yield value, tick_label(value, is_exponent=panel.is_x_logarithmic)

    def _contents(self) -> Iterator[str]:
        panel = self._panel
        if panel.band is not None:
            band = panel.band
            finite = np.isfinite(band.low) & np.isfinite(band.high)
            upper = self._path(band.x[finite], band.high[finite])
            lower = self._path(band.x[finite][::-1], band.low[finite][::-1])
            yield f'<path class="band" d="{upper}L{lower[1:]}Z" fill="#f3c6c1" fill-opacity="0.8"/>'
        for line in panel.lines:
            if line.is_reference:
                d = self._path(line.x, line.y)
                yield f'<path class="reference" d="{d}" fill="none" stroke="#777777" stroke-dasharray="5 4"/>'
        yield from self._points()
        for number, line in enumerate(line for line in panel.lines if not line.is_reference):
            colour = _CURVE_COLOURS[number % len(_CURVE_COLOURS)]
            for x, y in _parts(line.x, line.y, np.isfinite(line.x) & np.isfinite(line.y)):
                d = self._path(x, y)
                yield f'<path class="curve{number}" d="{d}" fill="none" stroke="{colour}" stroke-width="1.8"/>'

    def _points(self) -> Iterator[str]:
        if self._panel.points is None:
            return
        xs, ys = self._panel.points
        finite = np.isfinite(xs) & np.isfinite(ys)
        is_labelled = int(np.count_nonzero(finite)) <= SVG_PLOT.max_labelled_points
        radius, opacity = (2.6, 0.75) if is_labelled else (1.5, 0.45)
        places = zip(self._x_pixels(xs[finite]), self._y_pixels(ys[finite]), xs[finite], ys[finite], strict=True)
        yield f'<g class="point" fill="#33363b" fill-opacity="{opacity:g}">'
        for px, py, x, y in places:
            label = f"<title>{10**x if self._panel.is_x_logarithmic else x:g}, {y:g}</title>" if is_labelled else ""
            yield f'<circle cx="{px:.1f}" cy="{py:.1f}" r="{radius:g}">{label}</circle>'
        yield "</g>"

    def _legend(self) -> Iterator[str]:
        """Yield the names of curves and bands and the note, to the right of the title."""
        panel, x = self._panel, float(SVG_PLOT.width - SVG_PLOT.right)
        entries = [
            (line.name, f"curve{k}", _CURVE_COLOURS[k % 2])
            for k, line in enumerate(panel.lines)
            if not line.is_reference
        ]
        if len(entries) == 1 and panel.points is None:
            entries = []
        if panel.band is not None:
            entries.append((panel.band.name, "band", "#f3c6c1"))
        for name, kind, colour in entries[::-1]:
            yield _svg_text(x, 20, name, "end", "faint")
            x -= 6.9 * len(name) + 8
            paint = f'fill="{colour}"' if kind == "band" else f'stroke="{colour}" stroke-width="2"'
            shape = f"M{x - 18:.0f} 12h18v8h-18z" if kind == "band" else f"M{x - 18:.0f} 16h18"
            yield f'<path class="{kind}" d="{shape}" {paint}/>'
            x -= 32
        if panel.note:
            yield _svg_text(x, 20, panel.note, "end", "faint")

    def _path(self, x: Array, y: Array) -> str:
        places = zip(self._x_pixels(x), self._y_pixels(y), strict=True)
        return "M" + "L".join(f"{round(px, SVG_PLOT.decimals):g} {round(py, SVG_PLOT.decimals):g}" for px, py in places)

    def _x_pixels(self, x: Array) -> list[float]:
        low, high = self._x
        pixels = SVG_PLOT.left + (x - low) / (high - low) * (SVG_PLOT.width - SVG_PLOT.right - SVG_PLOT.left)
        return [float(value) for value in pixels]

    def _y_pixels(self, y: Array) -> list[float]:
        low, high = self._y
        clipped = np.clip(y, low - (high - low), high + (high - low))  # far outside, coordinates confuse viewers
        pixels = SVG_PLOT.top + (high - clipped) / (high - low) * self._height
        return [float(value) for value in pixels]


def _svg_text(x: float, y: float, text: str, anchor: str, kind: str = "", attributes: str = "") -> str:
    colour = "#666666" if kind else "#333333"
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place} fill="{colour}"{attributes}>{escape(text)}</text>'


# --- As files ---

_PAGE_STYLE = f"""
:root{{color-scheme:light dark}}
body{{font:15px/1.5 system-ui,"Helvetica Neue",Arial,sans-serif}}
body{{margin:1.5rem auto;padding:0 1rem;max-width:{SVG_PLOT.width}px}}
svg{{max-width:100%;height:auto}}
table{{border-collapse:collapse;margin:1rem 0}}td,th{{padding:.15rem .9rem .15rem 0;text-align:right}}
td:first-child,th:first-child{{text-align:left}}code{{overflow-wrap:anywhere}}
"""


def check_plot_path(path: str) -> None:
    """Raise OptionError if a plot cannot be written to this path; call it before a fit that may take long."""
    kind = PurePath(path).suffix.lower()
    if kind not in _CONTENTS:
        raise OptionError(
            f"--plot {path}: a file for a plot must end in .svg, .png or .html; without a file, the plot is printed"
        )
    if kind == ".png" and importlib.util.find_spec("cairosvg") is None:
        raise OptionError(f"--plot {path}: PNG needs cairosvg (pip install cairosvg); .svg and .html need no package")


def save_plot(fit: FittedModel, path: str | os.PathLike[str]) -> None:
    """Write the plot of a fit to a file, in the format that its suffix names.

    Raises:
        OSError: if the file cannot be written.
        OptionError: if the suffix is unknown, or cairosvg is missing for a PNG file.
    """
    check_plot_path(os.fspath(path))
    content = _CONTENTS[PurePath(path).suffix.lower()](fit)
    with open_atomic_bytes(path) as stream:
        stream.write(content if isinstance(content, bytes) else content.encode(errors="surrogateescape"))


def plot_html(fit: FittedModel) -> str:
    """Return the plot, the parameters and the formula of a fit as HTML, to be put into a page."""
    names = [name for name, value in fit.parameters.items() if isinstance(value, float)]
    cells = [[name, *estimate_cells(fit, name, None, [])] for name in names]
    rows = [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in cells]
    head = "<tr><th>parameter</th><th>value</th><th>standard error</th></tr>"
    table = [f"<table>{head}", *rows, "</table>"] if rows else []
    formula = drop_double_negations(single_line(fit.formula))
    paragraph = f"<p><code>{escape(formula)}</code></p>" if has_short_formula(fit) else ""
    return "\n".join([plot_svg(fit).rstrip("\n"), *table, paragraph])


def _plot_page(fit: FittedModel) -> str:
    """Return a page with the plot of a fit."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(single_line(fit.model))}</title><style>{_PAGE_STYLE}</style></head><body>",
        plot_html(fit),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _plot_png(fit: FittedModel) -> bytes:
    """Return the plot of a fit as a PNG image."""
    import cairosvg

    content: bytes = cairosvg.svg2png(bytestring=plot_svg(fit).encode(), scale=2)
    return content


# What a plot file contains, by the suffix of its name.
_CONTENTS: dict[str, Callable[[FittedModel], str | bytes]] = {".svg": plot_svg, ".html": _plot_page, ".png": _plot_png}
