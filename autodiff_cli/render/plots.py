"""Plots of a fit: in the terminal, and as SVG, PDF, PNG and HTML files.

The terminal draws panels in Braille characters: the data with the fitted curves, the residuals, and the losses during
the fit. Files are drawn by matplotlib for print: the data and the residuals on common axes, or one panel per group,
in colours that the colour-blind can tell apart (Okabe and Ito 2008).
"""

from __future__ import annotations

import io
import logging
import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, Mask
from autodiff_cli.data.dialect import NO_DATE
from autodiff_cli.language.errors import pluralize
from autodiff_cli.language.lexer import is_level_name
from autodiff_cli.options import OptionError, suffix
from autodiff_cli.render.fit import estimate_cells, has_short_formula, is_summarised, iter_estimates
from autodiff_cli.render.formatting import drop_double_negations, markup, shorten_middle, single_line
from autodiff_cli.render.progress import step_noun
from autodiff_cli.render.report import Paper, Report, Style, empty_plot, plot_lines, tick_label
from autodiff_cli.system import cache_folder, open_atomic_bytes
from autodiff_cli.training.fitting.posterior import draw_numbers
from autodiff_cli.training.options import DEFAULT_FIGURE, FigureOptions
from autodiff_cli.training.result.fitted_model import FitPlot, FittedCurve, FittedModel

_MIN_LOG_RANGE = 30.0  # largest loss / smallest loss from which a logarithmic scale is used
_MAX_BAND_RATIO = 4.0  # a band that makes the axis so many times longer is cut off
_MIN_TIME_SPAN = 10  # seconds; over a shorter span, times are labelled as numbers


def _rows_note(plot: FitPlot) -> str:
    """Return a note on the points of a plot: whether they are shares, or else how many rows they are."""
    count = pluralize(plot.rows, "row")
    if plot.note or len(plot.x) >= plot.rows:
        return plot.note or count
    return f"{len(plot.x)} of {count}, chosen at random"


def _time_origin(fit: FittedModel, plot: FitPlot) -> datetime | None:
    """Return the time from which the predictor counts seconds; None if it is no time."""
    spans = [float(curve.x[-1] - curve.x[0]) for curve in plot.curves]
    return fit.origins.get(plot.predictor) if max(spans) > _MIN_TIME_SPAN else None


def _loss_curves(fit: FittedModel) -> tuple[Array, dict[str, Array], bool]:
    """Return the epochs, the losses by name, and whether they differ so much that their axis is logarithmic."""
    records = fit.history
    curves = {"loss": np.array([record["loss"] for record in records], np.float64)}
    if any("validation_loss" in record for record in records):
        curves["validation loss"] = np.array([record["validation_loss"] for record in records], np.float64)
    losses = np.concatenate([*curves.values()])
    losses = losses[np.isfinite(losses)]
    is_logarithmic = len(losses) > 0 and losses.min() > 0 and losses.max() / losses.min() > _MIN_LOG_RANGE
    return np.array([float(record["epoch"]) for record in records]), curves, bool(is_logarithmic)


# --- In the terminal ---

_MAX_DRAWN = 1e300  # beyond, differences and margins of axes may overflow
_SCALE_WIDTH = 20  # terminal columns that plotille needs beside the plot, on both sides
_MAX_PLOT_WIDTH = 80  # terminal columns
_PLOT_ROWS = 8  # lines of a panel
# Up to this number, points are drawn as letters over a dotted curve; more are drawn as dots below a curve of letters.
_MAX_MARKED_POINTS = 80
_DAY = 86_400  # seconds
# The format of labels, by the smallest span of the axis (in seconds) for which it is used.
_TIME_FORMATS = ((1000 * _DAY, "%Y-%m"), (2 * _DAY, "%m-%d"), (600, "%H:%M"), (0, "%H:%M:%S"))


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


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes of a plot in the terminal, with its contents.

    Attributes:
        lines: curves and reference lines, each with x, y and a name for the legend.
        points: x and y of the points; None if there are none.
        is_y_logarithmic: whether the y axis is logarithmic; all `y` are then exponents of ten.
        is_x_logarithmic: whether the x axis is logarithmic; all `x` are then exponents of ten.
        origin: the date and time from which x counts seconds, if it is a time.
        rows: the height in lines.
        note: a remark for the legend.
    """

    title: str
    x_name: str
    y_name: str
    lines: Sequence[FittedCurve]
    points: tuple[Array, Array] | None = None
    is_y_logarithmic: bool = False
    is_x_logarithmic: bool = False
    origin: datetime | None = None
    rows: int = _PLOT_ROWS
    note: str = ""

    @property
    def band(self) -> list[Array]:
        """The limits of the confidence band of a single curve; empty for several curves."""
        curve = self.lines[0] if len(self.lines) == 1 else None
        return [] if curve is None or curve.low is None or curve.high is None else [curve.low, curve.high]

    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The limits of x and of y, with a margin. A band that would flatten everything else is cut off."""
        points = () if self.points is None else self.points
        xs, ys = [line.x for line in self.lines] + [*points[:1]], [line.y for line in self.lines] + [*points[1:]]
        low, high = _padded_limits(ys, 0.05)
        bottom, top = _padded_limits([*ys, *self.band], 0.05)
        is_wide = top - bottom > _MAX_BAND_RATIO * (high - low)
        return _padded_limits(xs, 0.03 if points else 0.0), (low, high) if is_wide else (bottom, top)


def _padded_limits(arrays: Sequence[Array], padding: float) -> tuple[float, float]:
    """Return the range of all numbers that can be drawn, extended on both sides by a fraction `padding` of it."""
    values = np.concatenate([np.empty(0), *arrays])
    values = values[np.abs(values) < _MAX_DRAWN]
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    margin = (high - low) * padding if high > low else abs(low) / 20 or 1.0
    return low - margin, high + margin


def fit_panels(fit: FittedModel) -> list[Panel]:
    """Return the panels of a fit: data, residuals, losses; those without data are left out."""
    panels = []
    plot = fit.plot
    if plot is not None:
        origin = _time_origin(fit, plot)
        is_log = plot.is_log_scale and origin is None
        scale = np.log10 if is_log else np.asarray
        name = "fit" if plot.predictor else "observed = predicted"
        curves = [FittedCurve(one.name or name, scale(one.x), one.y, one.low, one.high) for one in plot.curves]
        has_date = origin is not None and origin.year != NO_DATE.year
        x_name = f"{plot.predictor}, from {origin:%Y-%m-%d} on" if has_date else plot.predictor
        x, target = scale(plot.x), single_line(plot.target)
        common: dict[str, Any] = {"is_x_logarithmic": is_log, "origin": origin}
        title = "data and fit" if plot.predictor else "observed and predicted"
        zero = FittedCurve("0", np.array(_padded_limits([x], 0.0)), np.zeros(2))
        note, x_name = _rows_note(plot), x_name or "predicted"
        panels = [
            Panel(title, x_name, target, curves, (x, plot.y), note=note, rows=2 * _PLOT_ROWS, **common),
            Panel("residuals", x_name, "residual", [zero], (x, plot.residuals), **common),
        ]
    if len(fit.history) > 1:
        epochs, losses, is_log = _loss_curves(fit)
        with np.errstate(all="ignore"):
            lines = [FittedCurve(name, epochs, np.log10(y) if is_log else y) for name, y in losses.items()]
        noun = step_noun(fit.optimizer)
        panels.append(Panel(f"loss, {noun} by {noun}", noun, "loss", lines, is_y_logarithmic=is_log))
    return panels


def plot_report(fit: FittedModel) -> Report:
    """Report the plots of a fit; their numbers are in the document of the fit."""
    return Report(lambda paper: write_plot(paper, fit), list)


def write_plot(paper: Paper, fit: FittedModel) -> None:
    """Draw the panels of a fit on a paper, one below the other."""
    for panel in fit_panels(fit):
        write_panel(paper, panel)


def write_panel(paper: Paper, panel: Panel) -> None:
    """Draw one panel on a paper."""
    paper.heading(panel.title)
    paper.verbatim(*_plot_lines(panel, paper.width))
    legend = ", ".join(_legend_entries(panel))
    if legend:
        paper.line(f"  {legend}", Style.FAINT)


def _plot_lines(panel: Panel, width: int) -> list[str]:
    (left, right), (low, high) = panel.limits()
    # The scale below the plot has a mark every 10 columns.
    columns_drawn = max(min((width - _SCALE_WIDTH) // 10 * 10, _MAX_PLOT_WIDTH), 10)
    figure = empty_plot((columns_drawn, panel.rows), (left, right), (low, high))
    figure.x_ticks_fkt = lambda value, _: (
        tick_label(value, right - left, panel.is_x_logarithmic)
        if panel.origin is None
        else time_label(value, right - left, panel.origin)
    )
    figure.y_ticks_fkt = lambda value, _: tick_label(value, high - low, panel.is_y_logarithmic)
    few = panel.points is not None and len(panel.points[0]) <= _MAX_MARKED_POINTS
    columns = np.linspace(left, right, figure.width)
    lines = [(panel.lines[0].x, edge, None if few else "·") for edge in panel.band]
    lines += [(line.x, line.y, None if few or panel.points is None else "━") for line in panel.lines]
    for line_x, line_y, mark in lines:
        finite = np.isfinite(line_y)
        heights = (
            np.interp(columns, line_x[finite], line_y[finite], np.nan, np.nan) if finite.any() else columns * np.nan
        )
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
    return plot_lines(figure)


def _parts(x: Array, y: Array, is_visible: Mask) -> Iterator[tuple[Array, Array]]:
    """Yield x and y of the parts of a line in which it is visible."""
    ends = np.flatnonzero(np.diff(np.concatenate(([False], is_visible, [False])).astype(int)))
    for start, end in ends.reshape(-1, 2).tolist():
        yield x[start:end], y[start:end]


def _legend_entries(panel: Panel) -> list[str]:
    few = panel.points is not None and len(panel.points[0]) <= _MAX_MARKED_POINTS
    entries = [] if panel.points is None else [f"{panel.y_name} over {panel.x_name}"]
    if panel.note:
        entries.append(f"{'o' if few else 'dots'}: {panel.note}")
        entries += [f"{'line' if few else '━'}: {line.name}" for line in panel.lines]
        if panel.band:
            entries.append(f"{'lines around it' if few else '·'}: confidence band")
    elif len(panel.lines) > 1:
        ends = [float(10 ** line.y[-1] if panel.is_y_logarithmic else line.y[-1]) for line in panel.lines]
        entries += [f"{line.name}: ends at {end:.4g}" for line, end in zip(panel.lines, ends, strict=True)]
    return entries


# --- As files ---

PLOT_FILE = suffix(".svg", ".pdf", ".png", ".html", hint="; without FILE, plots are printed")
_MAX_COLOURED_CURVES = 8  # curves on common axes; more have axes of their own
_MAX_COLUMNS = 6  # axes in a row
_MAX_SHARP_POINTS = 300  # with more points, each is smaller and paler, so that their density shows
_MAX_LABEL_CHARS = 48
_MAX_LEGEND_CHARS = 56  # characters of a line
_INCHES = {"width": 5.2, "data": 3.2, "residuals": 1.2, "loss": 1.5, "cell": 1.5, "trace": 0.6, "legend": 0.3}
_MAX_DRAWN_NUMBERS = 6  # numbers of a posterior in a figure; more cannot be read in print
_MARKERS = "os^Dv<>P"  # tell curves apart without colours
_STYLE, _PAGE = (Path(__file__).with_name(f"figures.{kind}") for kind in ("mplstyle", "html"))


@dataclass(frozen=True, slots=True)
class _Scales:
    """The axes of a figure: which are logarithmic or have dates, and their labels.

    Attributes:
        x_label, y_label: the labels of the axes of the data.
        origin: the date and time from which x counts seconds, if it is a time.
        is_x_log, is_y_log: whether the axes are logarithmic.
        zero: where 0 stands on a logarithmic x axis, left of a break, as the control of a dose series does; None
            without zeros.
    """

    x_label: str
    y_label: str
    origin: datetime | None
    is_x_log: bool
    is_y_log: bool
    zero: float | None

    @classmethod
    def of(cls, fits: Sequence[FittedModel], options: FigureOptions) -> _Scales:
        """Return the axes that show some fits."""
        plots = [fit.plot for fit in fits if fit.plot is not None]
        first = plots[0]
        x = np.concatenate([plot.x for plot in plots])
        origin = _time_origin(fits[0], first)
        log = ["x"] * first.is_log_scale if options.log is None else options.log.split(",")
        is_x_log = "x" in log and origin is None and bool(np.any(x > 0))
        is_y_log = "y" in log and any(bool(np.any(plot.y > 0)) for plot in plots)
        zero = None
        if is_x_log and np.any(x == 0):
            zero = 10.0 ** (math.floor(math.log10(x[x > 0].min()) - 0.3) - 0.5)
        predictor, target = (
            _figure_text(f"{name} ({fits[0].units[name]})" if name in fits[0].units else name)
            for name in (first.predictor, first.target)
        )
        labels = (predictor, target) if predictor else (f"predicted {target}", f"observed {target}")
        return cls(*labels, origin, is_x_log, is_y_log, zero)

    def x(self, values: Array) -> NDArray[Any]:
        """Return the places of values on the x axis."""
        if self.origin is not None:
            return np.datetime64(self.origin.replace(tzinfo=None), "us") + np.rint(values * 1e6).astype(
                "timedelta64[us]"
            )
        return values if self.zero is None else np.where(values == 0, self.zero, values)

    def is_visible(self, x: Array, y: Array) -> Mask:
        """Return which points stand on the axes."""
        visible: Mask = (np.abs(x) < _MAX_DRAWN) & (np.abs(y) < _MAX_DRAWN)
        if self.is_x_log:
            visible &= (x > 0) | ((x == 0) & (self.zero is not None))
        return visible & (y > 0) if self.is_y_log else visible

    def set_x(self, axes: Any) -> None:
        """Set scale and ticks of the x axis of axes whose contents have been drawn."""
        from matplotlib import dates, ticker

        if self.origin is not None:
            locator, has_date = dates.AutoDateLocator(maxticks=7), self.origin.year != NO_DATE.year
            axes.xaxis.set_major_locator(locator)
            axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, show_offset=has_date))
        if not self.is_x_log:
            return
        axes.set_xscale("log", nonpositive="mask")
        if self.zero is None:
            return
        right = axes.get_xlim()[1]
        axes.set_xlim(self.zero / 2, right)
        powers = np.asarray(ticker.LogLocator(numticks=8).tick_values(self.zero * 3, right))
        powers = powers[(powers > self.zero * 3) & (powers <= right)]
        axes.set_xticks([self.zero, *powers], ["0", *map(ticker.LogFormatterMathtext(), powers)])
        axes.xaxis.set_minor_locator(ticker.NullLocator())
        # A gap in the axis between two strokes
        at_foot = {"transform": axes.get_xaxis_transform(), "clip_on": False}
        axes.plot([self.zero * 1.7, self.zero * 1.9], [0, 0], color="white", linewidth=2.5, zorder=4, **at_foot)
        strokes = [self.zero * 1.7, self.zero * 1.9]
        axes.plot(strokes, [0, 0], linestyle="", marker=(2, 0, -20), markersize=8, color="black", zorder=5, **at_foot)


def _figure_text(text: str) -> str:
    """Return text for matplotlib, which reads `$` as mathematics and hides legend entries that begin with `_`."""
    text = shorten_middle(single_line(text), _MAX_LABEL_CHARS).replace("$", r"\$")
    return f"\u200a{text}" if text.startswith("_") else text


def draw_figure(fits: Mapping[str, FittedModel], options: FigureOptions) -> Any:
    """Return a `matplotlib.figure.Figure` of one fit, or of the fits of several groups on axes of their own.

    Args:
        fits: the fits by the titles of their axes.
    """
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    cells = [
        (curve.name or name, fit, number)
        for name, fit in fits.items()
        for number, curve in enumerate(fit.plot.curves if fit.plot else ())
    ]
    if options.panels == "posterior":
        if len(fits) > 1 or not next(iter(fits.values())).draws:
            raise OptionError("the panel posterior needs a single fit with draws: add --posterior 1000")
        _draw_posterior(figure, next(iter(fits.values())).draws)
    elif len(fits) == 1 and len(cells) <= _MAX_COLOURED_CURVES:
        _draw_fit(figure, next(iter(fits.values())), options)
    else:
        _draw_cells(figure, cells, options)
    return figure


def _draw_fit(figure: Any, fit: FittedModel, options: FigureOptions) -> None:
    """Draw the panels of one fit, one below the other."""
    names = [name for name in options.panels.split(",") if name == "loss" or fit.plot is not None] or ["loss"]
    heights = [_INCHES[name] for name in names]
    figure.set_size_inches(_INCHES["width"], sum(heights) + _INCHES["legend"])
    panels = figure.subplots(len(names), height_ratios=heights, squeeze=False).ravel()
    handles: list[Any] = []
    above = None  # the axes of rows above these, which have the same x axis
    for name, axes in zip(names, panels, strict=True):
        if name == "loss" or fit.plot is None:
            handles += _draw_losses(axes, fit)
        else:
            rows = _Rows(fit.plot, range(len(fit.plot.curves)), _Scales.of([fit], options))
            if above is not None:
                axes.sharex(above)
                above.tick_params(labelbottom=False)
                above.set_xlabel("")
            handles += rows.draw_data(axes) if name == "data" else rows.draw_residuals(axes)
            axes.set_xlabel(rows.scales.x_label)
            above = axes
    figure.align_ylabels()
    if fit.plot is not None and fit.plot.group_column and handles:
        title = _figure_text(fit.plot.group_column)
        figure.legend(handles=handles, loc="outside right upper", title=title, alignment="left")
    else:
        _add_legend_above(figure, handles)


def _draw_posterior(figure: Any, draws: Mapping[str, Array]) -> None:
    """Draw the trace of every chain above a matrix of the marginals of each number and the draws of each pair.

    If there are many numbers, parameters of levels come last and are left out first.
    """
    names, numbers = draw_numbers(draws)
    order = sorted(range(len(names)), key=lambda k: is_level_name(names[k]))
    shown = {names[k]: numbers[:, :, k] for k in order[:_MAX_DRAWN_NUMBERS]}
    count = len(shown)
    side = max(_INCHES["width"], _INCHES["cell"] * count)
    figure.set_size_inches(side, side + (height := _INCHES["trace"] * count))
    traces, matrix = figure.subfigures(2, height_ratios=[height, side])
    if count < len(names):
        traces.suptitle(f"{count} of {len(names)} numbers", fontsize="small", x=0.99, ha="right")
    rows = traces.subplots(count, sharex=True, squeeze=False).ravel()
    for axes, (name, chains) in zip(rows, shown.items(), strict=True):
        axes.plot(chains.T, linewidth=0.4)
        axes.set_ylabel(_figure_text(name), rotation=0, ha="right", va="center")
    axes.set_xlabel("draw")
    grid = matrix.subplots(count, count, sharex="col", squeeze=False)
    alpha = min(1.0, _MAX_SHARP_POINTS / next(iter(shown.values())).size)
    for i, (below, y) in enumerate(shown.items()):
        for j, (name, x) in enumerate(shown.items()):
            axes = grid[i, j]
            axes.set_visible(j <= i)
            if i == j:
                axes.hist([*x], bins="sqrt", density=True, histtype="step", linewidth=0.7)  # a line for each chain
                axes.set_yticks([])
            elif j < i:
                axes.plot(x.ravel(), y.ravel(), ".", markersize=2, alpha=max(alpha, 0.05), rasterized=True)
            axes.tick_params(labelsize=7, labelleft=j == 0)
            if i == count - 1:
                axes.set_xlabel(_figure_text(name))
        if i:
            grid[i, 0].set_ylabel(_figure_text(below))


def _draw_cells(figure: Any, cells: Sequence[tuple[str, FittedModel, int]], options: FigureOptions) -> None:
    """Draw small multiples: the data and the curve of each group, on axes with common limits."""
    scales = _Scales.of([fit for _, fit, _ in cells], options)
    columns = min(_MAX_COLUMNS, math.ceil(math.sqrt(len(cells))))
    rows, width = -(-len(cells) // columns), max(_INCHES["cell"] * columns, _INCHES["width"])
    figure.set_size_inches(width, 0.8 * width / columns * rows + 2 * _INCHES["legend"])
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, (name, fit, curve) in zip(grid, cells, strict=False):
        assert fit.plot is not None
        handles = _Rows(fit.plot, [curve], scales).draw_data(axes)
        axes.set(title=_figure_text(name), ylabel="")
        axes.tick_params(labelsize=7)
    for axes in grid[len(cells) - columns : len(cells)]:  # the lowest of each column
        axes.tick_params(labelbottom=True)
    for axes in grid[len(cells) :]:
        axes.set_visible(False)
    figure.supxlabel(scales.x_label, fontsize="medium")
    figure.supylabel(scales.y_label, fontsize="medium")
    handles[0].set_label("data")
    _add_legend_above(figure, handles)


def _add_legend_above(figure: Any, handles: Sequence[Any]) -> None:
    """Add a legend above the axes, in two lines if it is long."""
    is_long = sum(len(handle.get_label()) for handle in handles) > _MAX_LEGEND_CHARS
    if handles:
        figure.legend(handles=handles, loc="outside upper left", ncols=-(-len(handles) // (1 + is_long)))


class _Rows(NamedTuple):
    """The rows and curves of one pair of axes. Several curves have a colour and a marker each.

    Attributes:
        plot: the data of the plot.
        curves: the positions of the curves in `plot.curves`.
        scales: the scales of the axes.
    """

    plot: FitPlot
    curves: Sequence[int]
    scales: _Scales

    def draw_data(self, axes: Any) -> list[Any]:
        """Draw rows, curves and bands, and return the entries of the legend."""
        handles, plot = [], self.plot
        for rank, number in enumerate(self.curves):
            points = self._draw_points(axes, rank, plot.y, (plot.sigma, plot.x_sigma))
            lines = self._draw_curve(axes, rank)
            if len(self.curves) > 1:
                points.set_label(_figure_text(plot.curves[number].name))
                handles.append(points)
            else:
                hidden = int(np.count_nonzero(~self.scales.is_visible(plot.x, plot.y)))
                points.set_label(f"{_rows_note(plot)}{f', {hidden} not above 0' if hidden else ''}")
                handles += [points, *lines]
        if len(self.curves) > 1:
            handles += lines[1:]  # one band explains all
        if self.scales.is_y_log:
            axes.set_yscale("log", nonpositive="mask")
        axes.set_ylabel(self.scales.y_label)
        self.scales.set_x(axes)
        return handles

    def draw_residuals(self, axes: Any) -> list[Any]:
        """Draw the residuals, in units of the errors if these are known. They need no entries of a legend."""
        plot = self.plot
        axes.axhline(0, color="0.4", linestyle="--", linewidth=1)
        for rank in range(len(self.curves)):
            self._draw_points(axes, rank, plot.residuals if plot.sigma is None else plot.residuals / plot.sigma)
        axes.set_ylabel("residual" if plot.sigma is None else "residual / σ")
        self.scales.set_x(axes)
        return []

    def _draw_curve(self, axes: Any, rank: int) -> list[Any]:
        """Draw a curve with its bands, and return the entries of the legend."""
        curve, zero = self.plot.curves[self.curves[rank]], self.scales.zero
        if not self.plot.predictor:
            style = {"color": "0.4", "linestyle": "--", "linewidth": 1}
            return list(axes.plot(curve.x, curve.y, label="observed = predicted", **style))
        style = {"color": f"C{rank}"}
        x = self.scales.x(curve.x)
        if zero is not None and curve.x[0] == 0:  # the curve is broken where the axis is
            axes.plot([zero / 1.4, zero * 1.4], [curve.y[0]] * 2, **style)
            x = np.append(math.nan, x[1:])
        handles = list(axes.plot(x, curve.y, label="fit", **style))
        bounds, percent = axes.get_ylim(), f"{100 * self.plot.level:g} %"
        if curve.low is not None and curve.high is not None:
            band = axes.fill_between(x, curve.low, curve.high, alpha=0.2, linewidth=0, **style)
            band.set_label(f"{percent} confidence band")
            handles.append(band)
        if curve.prediction_low is not None and curve.prediction_high is not None and len(self.curves) == 1:
            limits = np.stack((curve.prediction_low, curve.prediction_high), axis=1)
            edges = axes.plot(x, limits, linestyle=":", linewidth=1, **style)
            edges[0].set_label(f"{percent} prediction band")
            handles.append(edges[0])
        low, high = axes.get_ylim()
        if high - low > _MAX_BAND_RATIO * (bounds[1] - bounds[0]):
            axes.set_ylim(bounds)
        return handles

    def _draw_points(self, axes: Any, rank: int, y: Array, errors: Sequence[Array | None] = ()) -> Any:
        """Draw the rows of a curve, with error bars if their errors are known, and return the entry of the legend.

        Args:
            errors: the standard deviations of y and of x.
        """
        rows = (self.plot.groups == self.curves[rank]) & self.scales.is_visible(self.plot.x, self.plot.y)
        x, is_dense = self.scales.x(self.plot.x[rows]), np.count_nonzero(rows) > _MAX_SHARP_POINTS
        style: dict[str, Any] = {"markersize": 2, "alpha": 0.35} if is_dense else {"markersize": 4, "alpha": 0.8}
        style |= {"linestyle": "", "markeredgewidth": 0, "zorder": 1.9}  # below the curve
        style |= {"marker": "o", "color": "0.2"}
        if len(self.curves) > 1:
            style |= {"marker": _MARKERS[rank % len(_MARKERS)], "color": f"C{rank}"}
        if is_dense or all(error is None for error in errors):
            return axes.plot(x, y[rows], **style)[0]
        bars = [None if error is None else error[rows] for error in errors]
        return axes.errorbar(x, y[rows], *bars, elinewidth=0.8, **style)


def _draw_losses(axes: Any, fit: FittedModel) -> list[Any]:
    """Draw the losses during the fit, and return the entries of the legend."""
    epochs, curves, is_log = _loss_curves(fit)
    lines = [axes.plot(epochs, losses, label=name)[0] for name, losses in curves.items()]
    axes.set(xlabel=step_noun(fit.optimizer), ylabel="loss", yscale="log" if is_log else "linear")
    axes.xaxis.get_major_locator().set_params(integer=True)
    return lines if len(lines) > 1 else []


def save_plot(
    fits: Mapping[str, FittedModel], path: str | os.PathLike[str], options: FigureOptions = DEFAULT_FIGURE
) -> None:
    """Write the plot of fits in the format that the suffix of the path names.

    Args:
        fits: the fits of groups by the titles of their axes, or a single fit.

    Raises:
        OSError: if the file cannot be written.
        OptionError: if the suffix is unknown.
    """
    PLOT_FILE.require("--plot", os.fspath(path))
    format_name = PurePath(path).suffix.lower().removeprefix(".")
    content = _plot_page(fits, options) if format_name == "html" else _figure_bytes(fits, options, format_name)
    with open_atomic_bytes(path) as stream:
        stream.write(content)


def _figure_bytes(fits: Mapping[str, FittedModel], options: FigureOptions, format_name: str) -> bytes:
    """Return a figure as an image; the same fits give the same bytes."""
    if cache_folder() is None:  # matplotlib then uses a temporary folder, of which it warns
        os.environ.setdefault("MPLCONFIGDIR", os.devnull)
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib

    title = shorten_middle(single_line(next(iter(fits.values())).model), 200)
    no_date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[format_name]
    content = io.BytesIO()
    with matplotlib.rc_context(fname=_STYLE), warnings.catch_warnings(action="ignore"):  # the font lacks characters
        draw_figure(fits, options).savefig(content, format=format_name, metadata={"Title": title, **no_date})
    return content.getvalue()


def plot_html(fits: Mapping[str, FittedModel], options: FigureOptions = DEFAULT_FIGURE) -> str:
    """Return the plot of fits, and the parameters and the formula of a single one, as HTML to be put into a page."""
    image = _figure_bytes(fits, options, "svg").decode()
    parts = [image[image.index("<svg") :].rstrip()]
    if len(fits) == 1:
        (fit,) = fits.values()
        names = [name for name, value in fit.parameters.items() if not is_summarised(name, value)]
        cells = [map(markup, (name, *estimate_cells(of, None, ()))) for name, of in iter_estimates(fit, names, ())]
        rows = [f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in cells]
        head = "<tr><th>parameter</th><th>value</th><th>standard error</th></tr>"
        parts += [f"<table>{head}", *rows, "</table>"] if rows else []
        if has_short_formula(fit):
            parts.append(f"<p><code>{markup(drop_double_negations(single_line(fit.formula)))}</code></p>")
    return "\n".join(parts)


def _plot_page(fits: Mapping[str, FittedModel], options: FigureOptions) -> bytes:
    """Return a page with the plot of fits."""
    title = markup(single_line(next(iter(fits.values())).model))
    page = _PAGE.read_text(encoding="utf-8").format(title=title, plot=plot_html(fits, options))
    return page.encode(errors="surrogateescape")
