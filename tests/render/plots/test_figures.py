"""Figures of fits have the artists that are stored in `figures.txt`, and panels in the terminal the lines.

A change that means to change figures renews them: `python -m tests.render.plots.test_figures`. The difference that
`git diff` shows is then to be judged by looking at the figures.
"""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_hex

from autodiff_cli.array_types import Array
from autodiff_cli.render.plots import _STYLE, draw_figure, fit_panels, write_panel
from autodiff_cli.render.report import Paper
from autodiff_cli.training.fitting.fit import fit_dataset
from autodiff_cli.training.objective.loading import as_dataset
from autodiff_cli.training.options import FigureOptions, FitOptions
from autodiff_cli.training.result.fitted_model import FittedModel
from tests.reports.commands import difference

STORED = Path(__file__).with_name("figures.txt")


def wave(count: int) -> Array:
    """Errors without a pattern that a model could follow, the same on every processor."""
    return np.sin(np.arange(count) ** 2.0) * 0.1


def fitted(model: str, data: dict[str, Any], units: dict[str, str] | None = None, **options: Any) -> FittedModel:
    found = fit_dataset(model, as_dataset(data), FitOptions(plot=True, **options))
    return dataclasses.replace(found, units=units or {})


def dated(fit: FittedModel, name: str) -> FittedModel:
    return dataclasses.replace(fit, origins={name: datetime(2024, 1, 1)})


def decay(count: int) -> dict[str, Any]:
    x = np.linspace(0, 4, count)
    return {"x": x, "y": 2.5 * np.exp(-1.3 * x) + wave(count)}


def kinetics(groups: int, count: int = 6) -> dict[str, Any]:
    conc, group = np.tile(np.linspace(0.1, 4, count), groups), np.repeat(np.arange(groups), count)
    rate = (group + 2) * conc / (1 + conc) + wave(len(conc))
    return {"conc": conc, "rate": rate, "state": [f"_s${k}" for k in group]}


def doses() -> dict[str, Any]:
    dose = np.repeat([0, 1e-9, 1e-8, 1e-7, 1e-6], 3)
    return {"dose": dose, "y": 2 + 90 * dose / (3e-8 + dose) + wave(15)}


@cache
def fits() -> dict[str, FittedModel]:
    """Return the fits that are drawn, by what is special about them."""
    exponential, ramp = "y ~ a*exp(-b*x)", np.arange(1.0, 41.0)
    return {
        "few rows": fitted(exponential, decay(20), {"x": "s", "y": "$/m"}),
        "many rows": fitted(exponential, decay(301)),
        "a wide band": fitted("y ~ a + b*x^9", {"x": [0.1, 0.2, 0.3, 2, 2], "y": [1, 5, 2, 4, 4.5]}),
        "validation": fitted(exponential, decay(40), optimizer="adam", epochs=6, validation=0.3, learning_rate=0.5),
        "errors": fitted(exponential, {**decay(9), "e": 0.1 + wave(9) / 2}, sigma="e", x_sigma={"x": "e/3"}),
        "levels": fitted("rate ~ v[state]*conc/(k + conc)", kinetics(3)),
        "doses with a control": fitted("y ~ lo + (hi - lo)*dose/(c + dose)", doses(), start={"c": 3e-8, "hi": 90}),
        "dates": dated(fitted("y ~ a + b*when", {"when": 800_000.0 * ramp, "y": ramp + wave(40)}), "when"),
        "far from 0": fitted("y ~ a + b*x", {"x": 1000 + ramp / 10, "y": 500 + ramp / 9 + wave(40)}),
        "not above 0": fitted("y ~ a + b*x", {"x": ramp - 3, "y": ramp - 2 + wave(40)}),
        "one loss": fitted("y ~ a*x", {"x": [1.0, 1.0], "y": [2.0, 2.0]}, optimizer="adam", epochs=2),
        "two predictors": fitted("y ~ a + b*x + c*z", {"x": ramp, "z": ramp % 7, "y": ramp + ramp % 7 + wave(40)}),
        "a loss alone": fitted("(y - a)^2", decay(20), optimizer="sgd", epochs=3),
    }  # fmt: skip


def figures() -> Iterator[tuple[str, dict[str, FittedModel], FigureOptions]]:
    """Yield titles, and what is drawn in a figure: fits by the titles of their axes, with options."""
    for name, fit in fits().items():
        panels = "data,residuals,loss" if name in ("validation", "one loss") else "data,residuals"
        yield name, {"": fit}, FigureOptions(panels=panels, log="x,y" if name == "not above 0" else None)
    yield (
        "logarithmic axes",
        {"": fits()["doses with a control"]},
        FigureOptions(log="x,y", panels="data,residuals,loss"),
    )
    yield "a fit per group", {f"_{k}": fits()["errors"] for k in range(3)}, FigureOptions()
    draws = {name: np.sin(np.arange(400.0).reshape(2, 200) ** 2 + k) for k, name in enumerate(("r[one]", "b", "$c"))}
    drawn = dataclasses.replace(fits()["few rows"], draws=draws)
    yield "draws", {"": drawn}, FigureOptions(panels="posterior")


def described_figures() -> str:
    """Return what is seen in the figures, as text."""
    lines = []
    with matplotlib.rc_context(fname=_STYLE):
        for title, shown, options in figures():
            lines += [f"# {title}", *described_figure(draw_figure(shown, options))]
    return "\n".join(lines) + "\n"


def described_figure(figure: Any) -> Iterator[str]:
    yield f"figure {numbers(figure.get_size_inches())}, {[*map(described_text, figure.texts)]}"
    for part in (figure, *figure.subfigs):
        yield f"  part of {len(part.axes)} axes, {[described_text(text) for text in part.texts if part is not figure]}"
        for legend in part.legends:
            entries = [text.get_text() for text in legend.get_texts()]
            yield f"    legend {legend.get_title().get_text()!r} {entries} {legend._outside_loc} {legend._ncols}"
    for axes in figure.axes:
        yield from (f"  {line}" for line in described_axes(axes)) if axes.get_visible() else ["  hidden axes"]


def described_text(text: Any) -> str:
    return f"{text.get_text()} {text.get_fontsize():g} {text.get_rotation():g} {text.get_ha()} {text.get_va()}"


def described_axes(axes: Any) -> Iterator[str]:
    yield f"axes {axes.get_title()!r} within {numbers(axes.get_xlim())}, {numbers(axes.get_ylim())}"
    for axis, side in ((axes.xaxis, "bottom"), (axes.yaxis, "left")):
        style = axis.get_tick_params()
        has_marks = style.get(f"label{side}", True) and axis.get_tick_space() and len(axis.get_ticklocs()) > 0
        yield (
            f"  {side} {axis.get_scale()}, {described_text(axis.label)}, {type(axis.get_major_locator()).__name__} "
            f"{style.get('labelsize')} {bool(has_marks)}"
        )
    if axes.get_xscale() == "log":
        yield f"  marks {[text.get_text() for text in axes.get_xticklabels()]}"
    for line in axes.lines:
        stroke = f"{line.get_linestyle()!r} {line.get_linewidth():g} {line.get_zorder():g} {line.get_rasterized()}"
        marker = f"{line.get_marker()!r} {line.get_markersize():g} {line.get_markeredgewidth():g} {line.get_alpha()}"
        points = described_points(np.asarray(line.get_xydata(), float))
        yield f"  line {line.get_label()!r} {to_hex(line.get_color())} {stroke}, {marker}, {points}"
    for area in axes.collections:
        points = described_points(np.concatenate([path.vertices for path in area.get_paths()]))
        colour, width = [*map(to_hex, area.get_facecolor())], numbers(area.get_linewidth())
        yield f"  area {area.get_label()!r} {area.get_alpha()} {colour} {width} {points}"
    for outline in axes.patches:
        points = described_points(outline.get_path().vertices)
        yield f"  outline {outline.get_linewidth():g} {outline.get_fill()} {points}"


def described_points(points: Array) -> str:
    """Return the number of points, the first, their mean, and the last."""
    finite = points[np.isfinite(points).all(axis=1)]
    return f"{len(points)}: {numbers(points[0])}, {numbers(finite.mean(axis=0))}, {numbers(points[-1])}"


def numbers(values: Any) -> str:
    return " ".join(f"{value + 0.0:.7g}" for value in np.ravel(values))


def panels() -> str:
    """Return the panels in a terminal."""
    stream = io.StringIO()
    paper = Paper(stream)
    for title, fit in fits().items():
        for width in (80, 47) if title in ("few rows", "many rows") else (80,):
            print(f"# {title}", file=stream)
            paper.width = width
            for panel in fit_panels(fit):
                if "iteration" not in panel.title:  # their number may depend on rounding
                    write_panel(paper, panel)
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def stored(kind: str) -> str:
    return re.split(r"^=== (\w+)\n", STORED.read_text(encoding="utf-8"), flags=re.M)[{"figures": 2, "panels": 4}[kind]]


def test_figures_are_those_that_are_stored() -> None:
    assert difference(described_figures(), stored("figures")) is None


def test_panels_are_those_that_are_stored() -> None:
    assert difference(panels(), stored("panels")) is None


if __name__ == "__main__":
    STORED.write_text(f"=== figures\n{described_figures()}=== panels\n{panels()}", encoding="utf-8")
