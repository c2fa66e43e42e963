"""Pictures of fits: what they show, in characters and in files."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import logging
import math
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from autodiff_cli import fit_by
from autodiff_cli.array_types import Array
from autodiff_cli.data.dialect import NO_DATE
from autodiff_cli.data.table import Dataset
from autodiff_cli.options import OptionError
from autodiff_cli.render import plots
from autodiff_cli.render.plots import (
    PLOT_FILE,
    Panel,
    _draw_posterior,
    _Scales,
    draw_figure,
    fit_panels,
    plot_html,
    save_plot,
    time_label,
    write_panel,
    write_plot,
)
from autodiff_cli.render.report import Paper
from autodiff_cli.training.fitting.fit import fit_dataset
from autodiff_cli.training.objective.loading import as_dataset
from autodiff_cli.training.options import DEFAULT_FIGURE, FigureOptions, FitOptions
from autodiff_cli.training.result.fitted_model import FittedCurve, FittedModel
from autodiff_cli.training.result.prediction import PLOT, predict
from tests.each import each
from tests.support import run_cli

SVG = "{http://www.w3.org/2000/svg}"


def decay(rows: int = 40) -> dict[str, Any]:
    x = np.linspace(0, 4, rows)
    return {"x": x, "z": x**2 % 1, "y": 2.5 * np.exp(-1.3 * x) + np.random.default_rng(0).normal(0, 0.05, rows)}


def drawn(model: str, data: dict[str, Any], **options: Any) -> FittedModel:
    dataset: Dataset = as_dataset(data)
    return fit_dataset(model, dataset, FitOptions(plot=True, **options))


def axes_of(fit: FittedModel, **options: Any) -> list[Any]:
    """Return the axes of the figure of a fit."""
    axes: list[Any] = draw_figure({"": fit}, FigureOptions(**options)).axes
    return axes


def texts_of(fit: FittedModel) -> list[str]:
    """Return the texts in the SVG image of a fit."""
    image = ET.fromstring(plot_html({"": fit}).split("</svg>")[0] + "</svg>")
    return ["".join(text.itertext()) for text in image.iter(f"{SVG}text")]


def in_characters(fit: FittedModel, width: int = 80) -> list[str]:
    stream = io.StringIO()
    paper = Paper(stream)
    paper.width = width
    write_plot(paper, fit)
    return stream.getvalue().splitlines()


def test_the_curve_and_its_band_are_those_of_predict() -> None:
    found = drawn("y ~ a*exp(-b*x)", decay())
    assert found.plot is not None
    rows = found.plot
    assert rows is not None
    (curve,) = rows.curves
    bands = predict(found, {"x": curve.x}, interval=0.95)
    assert np.array_equal(curve.y, bands.prediction)
    assert curve.low is not None
    assert curve.prediction_high is not None
    assert np.array_equal(curve.low, bands.confidence_low)
    assert np.array_equal(curve.prediction_high, bands.prediction_high)
    assert np.array_equal(rows.y, decay()["y"])
    assert rows.residuals == pytest.approx(found.residuals(decay()))


@pytest.mark.parametrize(
    ("model", "titles"),
    [
        ("y ~ a*exp(-b*x)", ["data and fit", "residuals", "loss, iteration by iteration"]),
        ("y ~ a*exp(-b*x) + c*z", ["observed and predicted", "residuals", "loss, iteration by iteration"]),
        ("[y, z] ~ [a*x, b + c*x]", ["observed and predicted", "residuals", "loss, iteration by iteration"]),
        ("(y - a)^2", ["loss, iteration by iteration"]),
    ],
)
def test_what_there_is_to_show(model: str, titles: list[str]) -> None:
    found = drawn(model, decay())
    assert [panel.title for panel in fit_panels(found)] == titles
    assert all(title in in_characters(found) for title in titles)
    labels = [axes.get_ylabel() for axes in axes_of(found, panels="data,residuals,loss")]
    assert labels[1 - len(titles) :] == ["residual", "loss"] if len(titles) > 1 else labels == ["loss"]
    assert len(axes_of(found)) == max(1, len(titles) - 1)  # without losses, unless there is nothing else


def test_plots_of_classes_show_training_and_validation_losses() -> None:
    data = {"x": np.linspace(0, 1, 40), "kind": np.array(["a", "b"] * 20)}
    found = drawn("kind ~ softmax(mlp(x, [3], relu))", data, epochs=5, validation=0.3)
    *_, panel = fit_panels(found)
    assert [line.name for line in panel.lines] == ["loss", "validation loss"]
    assert len(panel.lines[0].x) == 6


def test_probabilities_of_classes_are_curves_over_the_shares_of_the_rows() -> None:
    generator = np.random.default_rng(0)
    x = generator.uniform(-2, 2, 120)
    kind = np.where(generator.random(120) < 1 / (1 + np.exp(-2 * x)), "yes", "no")
    found = drawn("kind ~ softmax([0, a + b*x])", {"x": x, "kind": kind})
    data, residuals = axes_of(found)
    assert (data.get_ylabel(), residuals.get_ylabel()) == ("probability and observed share", "residual")
    plot = found.plot
    assert plot is not None
    assert [curve.name for curve in plot.curves] == ["no", "yes"]
    assert np.sum([curve.y for curve in plot.curves], axis=0) == pytest.approx(1)
    shares = plot.y.reshape(2, -1)
    assert shares.sum(axis=0) == pytest.approx(1)
    assert shares[1].mean() == pytest.approx(np.mean(kind == "yes"))
    assert plot.residuals.sum() == pytest.approx(0, abs=1e-9)
    assert any("shares of each class in 12 groups of rows" in line for line in in_characters(found))


def test_classes_of_several_predictors_show_their_shares_over_the_predicted_probabilities() -> None:
    generator = np.random.default_rng(1)
    x, z = generator.uniform(-2, 2, (2, 600))
    kind = np.where(generator.random(600) < 1 / (1 + np.exp(-2 * x + z)), "yes", "no")
    found = drawn("kind ~ softmax([0, a + b*x + c*z])", {"x": x, "z": z, "kind": kind})
    plot = found.plot
    assert plot is not None
    assert [(curve.name, *curve.x, *curve.y) for curve in plot.curves] == [("no", 0, 1, 0, 1), ("yes", 0, 1, 0, 1)]
    (no, yes), (no_share, yes_share) = plot.x.reshape(2, -1), plot.y.reshape(2, -1)
    assert yes == pytest.approx(1 - no[::-1])
    assert yes_share == pytest.approx(1 - no_share[::-1])
    assert (np.diff(yes) > 0).all()
    assert yes_share == pytest.approx(yes, abs=0.2)  # three standard errors of a share of 50 rows
    labels = [(axes.get_xlabel(), axes.get_ylabel()) for axes in axes_of(found)[:2]]
    assert [*zip(*labels, strict=True)][1] == ("observed share", "residual")
    assert labels[1][0] == "predicted share"


def test_points_stand_where_their_numbers_are() -> None:
    found = drawn("y ~ a + b*x", {"x": [0.0, 1.0, 2.0, 4.0], "y": [1.0, 3.0, 5.5, 9.0]})
    points = axes_of(found)[0].lines[0]
    assert points.get_xydata().tolist() == [[0, 1], [1, 3], [2, 5.5], [4, 9]]


@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_a_picture_in_characters_keeps_within_the_width(width: int) -> None:
    for rows in (20, 500):
        lines = in_characters(drawn("y ~ a*exp(-b*x)", decay(rows)), width)
        field = [line for line in lines if "|" in line]
        assert len(field) > 20
        assert max(map(len, field)) <= max(width, 30)
        assert not any("\x1b" in line for line in lines)


def test_a_band_that_is_cut_off_leaves_no_stroke_from_edge_to_edge() -> None:
    x = np.linspace(0, 1, 30)
    edge = 40.0 * (x > 0.5)
    curve, points = FittedCurve("fit", x, x, x - edge, x + edge), (x[::5], x[::5])
    drawn = io.StringIO()
    write_panel(Paper(drawn), Panel("", "x", "y", [curve], points, note="rows"))
    assert "⢸" not in drawn.getvalue()


@pytest.mark.slow
def test_a_sample_of_many_rows_is_plotted_with_a_note() -> None:
    found = drawn("y ~ a*exp(-b*x)", decay(5000))
    assert found.plot is not None
    assert len(found.plot.x) == PLOT.max_rows
    assert "2000 of 5000 rows, chosen at random" in texts_of(found)
    assert "dots: 2000 of 5000 rows, chosen at random" in "\n".join(in_characters(found))


def test_numbers_whose_differences_overflow_leave_gaps() -> None:
    x, y = np.linspace(0, 1, 5), np.array([-1.7e308, 1, 2, 3, 1.7e308])
    drawn = io.StringIO()
    write_panel(Paper(drawn), Panel("", "x", "y", [FittedCurve("fit", x, y)], (x, y)))
    assert re.search(r"^ +3.1 \|", drawn.getvalue(), re.M)


def test_numbers_that_are_not_finite_leave_gaps() -> None:
    with np.errstate(all="ignore"):
        x = np.linspace(-1, 3, 30)
        found = drawn("y ~ where(x > 0, a*sqrt(x), 0/b)", {"x": x, "y": np.sqrt(np.maximum(x, 0))})
    assert "nan" not in plot_html({"": found})
    assert in_characters(found)


def test_parameters_are_listed_below_a_plot() -> None:
    x = np.linspace(-1, 1, 9)
    page = plot_html({"": drawn("w: 2; y ~ w[0] + w[1]*x + c*x^2", {"x": x, "y": 1 + x + x**2 + x**3})})
    assert re.findall("<tr><td>(.*?)</td>", page) == ["w[0]", "w[1]", "c"]


@pytest.mark.slow
def test_text_of_a_model_is_no_markup(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 9)
    found = drawn('`a<b>&"` ~ k*`x</title>`', {'a<b>&"': 2 * x, "x</title>": x})
    assert "x</title>" in texts_of(found)
    save_plot({"": found}, tmp_path / "fit.html")
    assert "</title>`" not in (tmp_path / "fit.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_files_are_complete_in_themselves(tmp_path: Path) -> None:
    found = drawn("y ~ a*exp(-b*x)", decay())
    for name in ("fit.svg", "fit.HTML"):
        save_plot({"": found}, tmp_path / name)
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert not re.search(r"(src|href)=\"(?!#)|@import|url\((?!#)", text)
    assert "<td>b</td><td>1.3" in text
    ET.parse(tmp_path / "fit.svg")


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")])
def test_the_same_fit_gives_the_same_file(suffix: str, magic: bytes, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        save_plot({"": drawn("y ~ a*exp(-b*x)", decay())}, path)
    assert paths[0].read_bytes().startswith(magic)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_other_files_axes_and_panels_are_refused() -> None:
    with pytest.raises(OptionError, match=r"\.svg, \.pdf, \.png or \.html"):
        PLOT_FILE.require("--plot", "fit.gif")
    with pytest.raises(OptionError, match="log"):
        FigureOptions(log="z")
    with pytest.raises(OptionError, match="panels"):
        FigureOptions(panels="data,colours")


def kinetics(groups: int) -> dict[str, Any]:
    conc, group = np.tile(np.linspace(0.1, 4, 8), groups), np.repeat(np.arange(groups), 8)
    noise = np.random.default_rng(3).normal(0, 0.02, len(conc))
    return {"conc": conc, "rate": (group + 2) * conc / (1 + conc) + noise, "state": [f"_s$_{k:02}" for k in group]}


@pytest.mark.parametrize("count", [3, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 7))])
def test_labels_have_a_curve_each_in_a_colour_and_a_marker_of_their_own(count: int) -> None:
    data = kinetics(count)
    found = drawn("rate ~ v[state]*conc/(k + conc)", data)
    assert found.plot is not None
    for curve in found.plot.curves:
        assert np.array_equal(curve.y, predict(found, {"conc": curve.x, "state": np.full(len(curve.x), curve.name)}))
    assert [found.plot.curves[group].name for group in found.plot.groups] == data["state"]
    (axes, residuals), style = axes_of(found), lambda line: (line.get_marker(), line.get_color())
    points = [line for line in axes.lines if line.get_linestyle() == "None"]
    assert len({line.get_marker() for line in points}) == len({line.get_color() for line in points}) == count
    assert count > 1 or style(points[0]) == ("o", "0.2")
    assert [*map(style, points)] == [*map(style, residuals.lines[1:])]
    assert count == 1 or {"state", *data["state"]} <= {text.strip("\u200a") for text in texts_of(found)}


@pytest.mark.slow
def test_many_labels_have_axes_each() -> None:
    assert len(axes_of(drawn("rate ~ v[state]*conc/(k + conc)", kinetics(9)))) == 9


def test_axes_of_fits_have_at_most_one_column_more_than_rows() -> None:
    found = drawn("y ~ a*x", {"x": [1.0, 2.0, 3.0], "y": [2.0, 4.1, 5.9]})
    for count, columns in ((2, 2), (5, 3)):
        axes = draw_figure({str(k): found for k in range(count)}, FigureOptions()).axes
        assert [each.get_title() for each in axes[:count]] == [*map(str, range(count))]
        assert len({round(each.get_position().x0, 3) for each in axes}) == columns


def test_errors_are_bars_and_units_of_residuals() -> None:
    data = decay(20) | {"error": np.linspace(0.04, 0.1, 20)}
    for sigma in ("error", data["error"]):
        found = drawn("y ~ a*exp(-b*x)", data, sigma=sigma)
        assert found.plot is not None
        assert found.plot.sigma == pytest.approx(data["error"])
        axes, residuals = axes_of(found)
        (bars,) = axes.containers
        lengths = [np.ptp(segment[:, 1]) for segment in bars.lines[2][0].get_segments()]
        assert lengths == pytest.approx(2 * data["error"])
        assert residuals.get_ylabel() == "residual / σ"
        assert residuals.lines[1].get_ydata() == pytest.approx(found.residuals(data) / data["error"])


def test_many_points_have_no_bars() -> None:
    for count, has_bars in ((300, True), (301, False)):
        axes, *_ = axes_of(drawn("y ~ a*exp(-b*x)", decay(count), sigma=0.05))
        assert bool(axes.containers) is has_bars


def test_zeros_on_a_logarithmic_axis_stand_left_of_a_break() -> None:
    dose = np.repeat([0, 1e-9, 1e-8, 1e-7, 1e-6], 3)
    data = {"dose": dose, "y": 2 + 90 * dose**1.2 / (3e-8**1.2 + dose**1.2)}
    found = drawn("y ~ lo + (hi - lo)*dose^h/(c^h + dose^h)", data, start={"c": 3e-8, "hi": 90})
    axes, residuals = axes_of(found, log="x,y")
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    zero = axes.get_xticks()[0]
    assert (residuals.get_xticks()[0], residuals.get_xticklabels()[0].get_text()) == (zero, "0")
    assert 0 < zero < 0.3e-9
    assert np.sort(axes.lines[0].get_xdata()) == pytest.approx(np.where(dose == 0, zero, dose))
    assert axes_of(found, log="none")[0].get_xscale() == "linear"
    hidden = drawn("y ~ a + b*x", {"x": [-1.0, 1.0, 2.0, 3.0], "y": [-2.0, 1.0, 2.0, 3.5]})
    for log in ("x", "y", "x,y"):
        axes = axes_of(hidden, log=log)[0]
        assert axes.get_legend_handles_labels()[1][0] == "4 rows, 1 not above 0"
        assert len(axes.lines[0].get_xdata()) == 3


@each("least", [1e-9, 2e-9, 5e-9, 0.3, 70])
def test_zero_stands_half_a_decade_left_of_every_mark_and_point(least: float) -> None:
    dose = np.concatenate([[0, 0], np.geomspace(least, 5e3 * least, 12)])
    found = drawn("y ~ a + b*dose", {"dose": dose, "y": 2 + np.arange(14.0)})
    axes = axes_of(found, log="x")[0]
    zero, *powers = axes.get_xticks()
    assert axes.get_xlim()[0] < zero
    points = axes.lines[0].get_xdata()
    assert np.sort(points)[:2] == pytest.approx([zero, zero])
    for place in (*powers, np.sort(points)[2]):
        assert zero * 3.15 <= place
    assert np.log10(powers) == pytest.approx(np.round(np.log10(powers)))
    assert zero > least / 100


@each("epochs", [0, 1, 5])
def test_losses_are_drawn_if_there_was_a_step(epochs: int) -> None:
    found = fit_panels(drawn("y ~ a*x", decay(), optimizer="adam", epochs=epochs))
    titles = ["data and fit", "residuals", "loss, epoch by epoch"]
    assert [panel.title for panel in found] == titles[: 3 if epochs else 2]


def test_the_figure_of_a_posterior_grows_with_its_numbers() -> None:
    generator = np.random.default_rng(0)
    for count in (2, 7):
        figure = Figure(layout="constrained")
        _draw_posterior(figure, {f"b{k}": generator.normal(size=(2, 50)) for k in range(count)})
        shown, (width, height) = min(count, 6), figure.get_size_inches()
        places = [axes.get_window_extent().extents / figure.dpi for axes in figure.axes if axes.get_visible()]
        assert len(places) == shown + shown * (shown + 1) // 2
        assert width >= 1.5 * shown
        for left, bottom, right, top in places:
            assert -0.01 <= left < right <= width + 0.01
            assert -0.01 <= bottom < top <= height + 0.01
            assert top - bottom > 0.2
        assert not any(meet(*pair) for pair in itertools.combinations(places, 2))


def meet(one: Array, other: Array) -> bool:
    """Whether two rectangles, given by two corners, have a part in common."""
    return all(max(one[k], other[k]) < min(one[k + 2], other[k + 2]) - 1e-6 for k in (0, 1))


@pytest.mark.slow
def test_groups_have_axes_of_their_own(tmp_path: Path) -> None:
    data, path = kinetics(5), tmp_path / "groups.pdf"
    rows = zip(*data.values(), strict=True)
    (tmp_path / "data.csv").write_text("".join(["conc,rate,state\n", *(f"{x},{y},{s}\n" for x, y, s in rows)]))
    words = ["train", "rate ~ v*conc/(k + conc)", str(tmp_path / "data.csv"), "--by", "state", "--plot"]
    result = run_cli([*words, str(path)])
    assert (result.status, path.read_bytes()[:4]) == (0, b"%PDF")
    assert "--plot needs a file" in run_cli(words).stderr
    fits = {group.by: group.fit for group in fit_by("rate ~ v*conc/(k + conc)", data, "state", plot=True)}
    figure = draw_figure(fits, FigureOptions())
    assert [axes.get_title().strip("\u200a") for axes in figure.axes][:5] == [f"_s\\$_{k:02}" for k in range(5)]
    assert [axes.get_visible() for axes in figure.axes] == [True] * 5 + [False]
    assert [axes.xaxis.get_tick_params()["labelbottom"] for axes in figure.axes[:5]] == [False, False, True, True, True]
    # Two rows of three, each four fifths as high as wide, and room for the legend and the labels.
    assert figure.get_size_inches().tolist() == pytest.approx([5.2, 2 * 0.8 * 5.2 / 3 + 2 * 0.3])


@pytest.mark.slow
def test_the_command_line(tmp_path: Path) -> None:
    data = tmp_path / "decay.csv"
    data.write_text(
        "x,y\n" + "".join(f"{x!r},{y!r}\n" for x, y in np.column_stack([*decay().values()])[:, ::2].tolist())
    )

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        words = ("train", "y ~ a*exp(-b*x)", str(data), *words)
        command = [sys.executable, "-c", "import sys; from autodiff_cli.cli.main import main; sys.exit(main())", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert "data and fit" in run("--plot").stdout
    ran = run("--plot", str(tmp_path / "fit.svg"))
    assert "data and fit" not in ran.stdout
    assert "plot written to" in ran.stderr
    assert (tmp_path / "fit.svg").exists()
    document = json.loads(run("--plot", "--json").stdout)["plot"]
    assert len(document["points"]["x"]) == 40
    assert [*document["curve"]] == ["x", "y", "low", "high"]
    ran = run("--plot", str(tmp_path / "fit.gif"))
    assert (ran.returncode, ran.stdout) == (2, "")
    ran = run("--plot", str(tmp_path / "nowhere" / "fit.svg"))
    assert (ran.returncode, ran.stdout) == (1, "")


def test_doses_stand_by_their_ratios() -> None:
    dose = np.geomspace(1e-9, 1e-4, 30)
    fit = drawn("y ~ lo + (hi - lo)/(1 + (c/dose)^h)", {"dose": dose, "y": 2 + 90 / (1 + (3e-7 / dose) ** 1.2)})
    data, residuals, *_ = fit_panels(fit)
    assert data.is_x_logarithmic
    assert residuals.is_x_logarithmic
    assert data.points is not None
    np.testing.assert_allclose(10 ** data.points[0], dose)
    above, below = axes_of(fit)
    assert above.get_xscale() == "log"
    assert "0" not in [text.get_text() for text in below.get_xticklabels()]  # no dose is 0
    assert any("1.85e-05" in line or "e-07" in line for line in in_characters(fit))
    assert not fit_panels(drawn("y ~ a*exp(-b*x)", decay()))[0].is_x_logarithmic


@pytest.mark.parametrize(
    ("step", "marks"),
    [
        (9 * 86_400, {"2024", "Mar", "May", "Jul"}),
        (40 * 86_400, {"2024", "2025", "2026"}),
        (600, {"05:00", "07:00", "09:00"}),
    ],
)
def test_dates_stand_beside_their_axis(step: int, marks: set[str], tmp_path: Path) -> None:
    begun = datetime(2024, 1, 1, 5 if step < 86_400 else 0)
    rows = [f"{(begun + timedelta(seconds=k * step)).isoformat()},{k + k % 3}\n" for k in range(36)]
    (tmp_path / "data.csv").write_text("".join(["when,y\n", *rows]))
    path = tmp_path / "plot.svg"
    words = ["train", "y ~ a + b*when", str(tmp_path / "data.csv"), "--plot"]
    assert run_cli([*words, str(path)]).status == 0
    assert marks <= {text.text for text in ET.parse(path).getroot().iter(f"{SVG}text")}
    assert "y over when, from 2024-01-01 on" in run_cli(words)


def test_the_legend_of_losses_has_their_ends() -> None:
    found = drawn("y ~ a*exp(-b*x)", decay(), optimizer="adam", epochs=30, validation=0.3, learning_rate=0.1)
    text = "\n".join(in_characters(found))
    for name in ("loss", "validation_loss"):
        assert f"{name.replace('_', ' ')}: ends at {found.history[-1][name]:.4g}" in text  # type: ignore[literal-required]


def test_seconds_stand_at_their_dates() -> None:
    origin, tomorrow = datetime(2024, 2, 29), datetime(2024, 3, 1, 0, 0, 1, 500_000)
    scales = _Scales("t", "y", origin, is_x_log=False, is_y_log=False, zero=None)
    assert scales.x(np.array([0.0, 86_401.5])).tolist() == [origin, tomorrow]


@pytest.mark.parametrize(
    ("days", "label"),
    [(1200, "2024-03"), (999, "03-05"), (2, "03-05"), (1.9, "07:08"), (0.01, "07:08"), (0.005, "07:08:09")],
)
def test_times_are_labelled_by_the_span_of_their_axis(days: float, label: str) -> None:
    origin, moment = datetime(2024, 1, 1), datetime(2024, 3, 5, 7, 8, 9)
    assert time_label((moment - origin).total_seconds(), days * 86_400, origin) == label


@pytest.mark.slow
def test_figures_for_print_have_outlines_of_letters_and_no_bitmaps(tmp_path: Path) -> None:
    save_plot({"": drawn("y ~ a*exp(-b*x)", decay())}, tmp_path / "fit.pdf")
    content = (tmp_path / "fit.pdf").read_bytes()
    assert b"/Type3" not in content
    assert b"/TrueType" in content or b"/CIDFontType2" in content


def test_a_name_that_begins_with_an_underline_is_in_the_legend() -> None:
    data = {**decay(), "kind": np.array(["_a", "b"] * 20)}
    found = drawn("y ~ s[kind]*exp(-b*x)", data)
    labels = [label for axes in axes_of(found) for label in axes.get_legend_handles_labels()[1]]
    assert sum("_a" in label for label in labels) == 1


def test_figures_have_no_frames() -> None:
    found = drawn("rate ~ v[state]*conc/(k + conc)", kinetics(2))
    with matplotlib.rc_context(fname=plots._STYLE):
        drawn_axes = axes_of(found, panels="data,residuals,loss")
    legends = [*drawn_axes[0].figure.legends]
    for axes in drawn_axes:
        shown = {side for side, spine in axes.spines.items() if spine.get_visible()}
        assert shown <= {"left", "bottom"}
        legends += [legend for legend in (axes.get_legend(),) if legend is not None]
    assert legends
    assert not any(legend.get_frame_on() for legend in legends)


@each("span, has_dates", [(9.0, False), (11.0, True)])
@each("start", [-1000.0, 0.0, 1000.0])
def test_an_axis_has_dates_if_it_spans_ten_seconds_wherever_it_begins(
    span: float, has_dates: bool, start: float
) -> None:
    t = start + np.linspace(0, span, 12)
    found = drawn("y ~ a + b*t", {"t": t, "y": np.cos(t)})
    panel, *_ = fit_panels(dataclasses.replace(found, origins={"t": datetime(2024, 1, 1)}))
    assert panel.x_name == ("t, from 2024-01-01 on" if has_dates else "t")
    panel, *_ = fit_panels(dataclasses.replace(found, origins={"t": NO_DATE}))
    assert panel.x_name == "t"


def test_draws_are_shown_of_a_single_fit_that_has_some() -> None:
    plain = drawn("y ~ a*x", decay(9))
    sampled = dataclasses.replace(plain, draws={"a": np.sin(np.arange(40.0).reshape(2, 20))})
    posterior = FigureOptions(panels="posterior")
    assert draw_figure({"": sampled}, posterior).subfigs
    for fits in ({"": plain}, {"u": sampled, "v": sampled}):
        with pytest.raises(OptionError, match="needs a single fit with draws"):
            draw_figure(fits, posterior)


@each("unit", [1e-300, 1.0, 1e290])
def test_losses_have_a_logarithmic_scale_if_they_fall_by_much_in_any_unit(unit: float) -> None:
    for losses, is_logarithmic in (
        ([1000.0, 1.0], True),
        ([1.0, math.nan, 1000.0, math.inf], True),
        ([10.0, 9.0], False),
        ([1000.0, 0.0], False),
        ([1000.0, -1.0], False),
        ([math.nan, math.inf], False),
    ):
        history = [{"epoch": k, "loss": unit * loss} for k, loss in enumerate(losses)]
        fit = SimpleNamespace(history=history)
        epochs, curves, is_log = plots._loss_curves(fit)
        assert (epochs.tolist(), is_log) == ([*range(len(losses))], is_logarithmic)
        np.testing.assert_array_equal(curves["loss"], unit * np.array(losses))


@pytest.mark.parametrize("folder", [None, Path("cache")])
def test_matplotlib_has_no_folder_without_the_cache(folder: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("matplotlib")
    monkeypatch.setattr(logger, "level", logging.WARNING)
    monkeypatch.setattr(plots, "cache_folder", lambda: folder)
    monkeypatch.setenv("MPLCONFIGDIR", "")
    monkeypatch.delenv("MPLCONFIGDIR")
    with pytest.raises(StopIteration):  # there are no fits to draw
        plots._figure_bytes({}, DEFAULT_FIGURE, "svg")
    chosen = os.environ.get("MPLCONFIGDIR"), logger.level
    assert chosen == ((os.devnull, logging.ERROR) if folder is None else (None, logging.WARNING))
