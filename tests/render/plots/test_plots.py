"""Pictures of fits: what they show, in characters and in files."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autodiff_cli.data.table import Dataset
from autodiff_cli.options import OptionError
from autodiff_cli.render.plots import check_plot_path, fit_panels, plot_svg, save_plot, ticks, write_plot
from autodiff_cli.render.report import Paper
from autodiff_cli.training.fitting.fit import fit_dataset
from autodiff_cli.training.objective.loading import as_dataset
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.fitted_model import FittedModel
from autodiff_cli.training.result.prediction import PLOT
from tests.support import run_cli

SVG = "{http://www.w3.org/2000/svg}"


def decay(rows: int = 40) -> dict[str, Any]:
    x = np.linspace(0, 4, rows)
    return {"x": x, "z": x**2 % 1, "y": 2.5 * np.exp(-1.3 * x) + np.random.default_rng(0).normal(0, 0.05, rows)}


def drawn(model: str, data: dict[str, Any], **options: Any) -> FittedModel:
    dataset: Dataset = as_dataset(data)
    return fit_dataset(model, dataset, FitOptions(plot=True, **options))


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
    bands = found.predict({"x": rows.curve_x}, interval=0.95)
    assert np.array_equal(rows.curve_y, bands.prediction)
    assert rows.low is not None
    assert np.array_equal(rows.low, bands.confidence_low)
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
    image = ET.fromstring(plot_svg(found))
    assert [text.text for text in image.iter(f"{SVG}text") if text.text in titles] == titles


def test_plots_of_classes_show_training_and_validation_losses() -> None:
    data = {"x": np.linspace(0, 1, 40), "kind": np.array(["a", "b"] * 20)}
    found = drawn("kind ~ softmax(mlp(x, [3], relu))", data, epochs=5, validation=0.3)
    (panel,) = fit_panels(found)
    assert [line.name for line in panel.lines] == ["loss", "validation loss"]
    assert len(panel.lines[0].x) == 6


def test_points_stand_where_their_numbers_are() -> None:
    found = drawn("y ~ a + b*x", {"x": [0.0, 1.0, 2.0, 4.0], "y": [1.0, 3.0, 5.5, 9.0]})
    image = ET.fromstring(plot_svg(found))
    circles = [*image.iter(f"{SVG}circle")][:4]
    xs, ys = (np.array([float(circle.get(name, "")) for circle in circles]) for name in ("cx", "cy"))
    assert np.diff(xs) / np.diff(xs)[0] == pytest.approx([1, 1, 2], rel=1e-2)
    assert np.diff(ys) / np.diff(ys)[0] == pytest.approx([1, 1.25, 1.75], rel=1e-2)
    assert ys[0] > ys[1]  # up is more


@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_a_picture_in_characters_keeps_within_the_width(width: int) -> None:
    for rows in (20, 500):
        lines = in_characters(drawn("y ~ a*exp(-b*x)", decay(rows)), width)
        field = [line for line in lines if "|" in line]
        assert len(field) > 20
        assert max(map(len, field)) <= max(width, 30)
        assert not any("\x1b" in line for line in lines)


def test_a_sample_of_many_rows_is_plotted_with_a_note() -> None:
    found = drawn("y ~ a*exp(-b*x)", decay(5000))
    assert found.plot is not None
    assert len(found.plot.x) == PLOT.max_rows
    assert "2000 of 5000 rows, chosen at random" in plot_svg(found)
    assert "dots: 2000 of 5000 rows, chosen at random" in "\n".join(in_characters(found))


def test_numbers_that_are_not_finite_leave_gaps() -> None:
    with np.errstate(all="ignore"):
        x = np.linspace(-1, 3, 30)
        found = drawn("y ~ where(x > 0, a*sqrt(x), 0/b)", {"x": x, "y": np.sqrt(np.maximum(x, 0))})
    assert "nan" not in plot_svg(found)
    assert in_characters(found)


def test_text_of_a_model_is_no_markup(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 9)
    found = drawn('`a<b>&"` ~ k*`x</title>`', {'a<b>&"': 2 * x, "x</title>": x})
    ET.fromstring(plot_svg(found))
    save_plot(found, tmp_path / "fit.html")
    assert "</title>`" not in (tmp_path / "fit.html").read_text(encoding="utf-8")


def test_files_are_complete_in_themselves(tmp_path: Path) -> None:
    found = drawn("y ~ a*exp(-b*x)", decay())
    for name in ("fit.svg", "fit.HTML"):
        save_plot(found, tmp_path / name)
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert not re.search(r"(src|href)=|@import|url\((?!#)", text)
    assert "<td>b</td><td>1.3" in text
    ET.parse(tmp_path / "fit.svg")


def test_png_names_the_library_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(OptionError, match="needs cairosvg"):
        check_plot_path(str(tmp_path / "fit.png"))
    with pytest.raises(OptionError, match=r"\.svg, \.png or \.html"):
        check_plot_path("fit.pdf")


def test_png(tmp_path: Path) -> None:
    pytest.importorskip("cairosvg")
    save_plot(drawn("y ~ a*exp(-b*x)", decay()), tmp_path / "fit.png")
    assert (tmp_path / "fit.png").read_bytes().startswith(b"\x89PNG")


def test_ticks_are_round_and_within_the_limits() -> None:
    for low, high in ((0.0, 1.0), (-3.2e-7, 4.1e-7), (1e9, 1.0001e9), (-5.0, -5.0 + 1e-9)):
        for most in (2, 5, 8):
            found = ticks(low, high, most)
            assert 1 <= len(found) <= most + 1
            assert all(low <= value <= high for value in found)


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
    ran = run("--plot", str(tmp_path / "fit.pdf"))
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
    marks = [text.text for text in ET.fromstring(plot_svg(fit)).iter(f"{SVG}text")]
    assert {"1e-9", "1e-8", "1e-7", "1e-6", "1e-5", "1e-4"} <= {*marks}
    assert any("1.85e-05" in line or "e-07" in line for line in in_characters(fit))
    assert not fit_panels(drawn("y ~ a*exp(-b*x)", decay()))[0].is_x_logarithmic


@pytest.mark.parametrize(
    ("step", "marks"),
    [
        (9 * 86_400, {"01-01", "03-01", "04-30", "06-29", "08-28"}),
        (40 * 86_400, {"2024-01", "2024-12", "2025-12", "2026-12"}),
        (600, {"05:00", "06:00", "07:00"}),
    ],
)
def test_dates_stand_beside_their_axis(step: int, marks: set[str], tmp_path: Path) -> None:
    begun = datetime(2024, 1, 1, 5 if step < 86_400 else 0)
    rows = [f"{(begun + timedelta(seconds=k * step)).isoformat()},{k + k % 3}\n" for k in range(36)]
    (tmp_path / "data.csv").write_text("".join(["when,y\n", *rows]))
    path = tmp_path / "plot.svg"
    words = ["train", "y ~ a + b*when", str(tmp_path / "data.csv"), "--plot"]
    assert run_cli([*words, str(path)]).status == 0
    texts = {text.text for text in ET.parse(path).getroot().iter(f"{SVG}text")}
    assert marks <= texts
    assert "when, from 2024-01-01 on" in texts
    assert "y over when, from 2024-01-01 on" in run_cli(words)
