"""`train --page`: a fit at every epoch, and the walk of any row's loss there."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import autodiff_cli as ad
from tests.browser.support import least_text, measure, numbers, resize, wait_until
from tests.support import SETS, run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

DECAY = "y ~ a*exp(-b*x)"
ROWS = {"x": [0.0, 0.5, 1.0, 2.0, 3.0], "y": [2.6, 1.3, 0.7, 0.2, 0.05]}
ADAM = "--optimizer adam --lr 0.1 --epochs 30"


@pytest.fixture
def decay(tmp_path: Path) -> Path:
    lines = [f"{x},{y}" for x, y in zip(ROWS["x"], ROWS["y"], strict=True)]
    (tmp_path / "decay.csv").write_text("\n".join(["x,y", *lines, ""]))
    return tmp_path / "decay.csv"


def learned(page: Page, folder: Path, line: str) -> None:
    """Fit, write the page and open it."""
    file = folder / "learning.html"
    written = run_cli(f"train {line} --page {file}")
    assert written.status == 0, written.stderr
    page.goto(file.as_uri())


def scrub(page: Page, epoch: int) -> None:
    page.locator("#epoch").fill(str(epoch))


def parameter(page: Page, name: str) -> float:
    return float(page.locator(f'[data-parameter="{name}"]').get_attribute("data-value") or "")


def test_every_epoch_has_the_parameters_of_the_fit(page: Page, decay: Path, tmp_path: Path) -> None:
    seen = []
    options = {"optimizer": "adam", "learning_rate": 0.1, "epochs": 30}
    ad.fit(DECAY, ROWS, **options, on_epoch=lambda epoch: seen.append((epoch.loss, *epoch.theta)))
    learned(page, tmp_path, f'"{DECAY}" {decay} {ADAM}')
    assert page.locator("#epoch").get_attribute("max") == "30"
    for k in (0, 7, 30):
        scrub(page, k)
        assert (parameter(page, "a"), parameter(page, "b")) == tuple(seen[k][1:])
        assert page.locator("#epoch-text").inner_text().startswith(f"epoch {k}, loss {seen[k][0]:.6g}")
        shown = "[...document.querySelectorAll('td, td *')].flatMap((cell) => [...cell.childNodes])"
        texts = page.evaluate(f"{shown}.filter(({{ data }}) => /^(?!-$).*-/.test(data)).map(({{ data }}) => data)")
        assert texts == []  # no hyphens in place of minus signs


def test_a_row_and_an_epoch_open_the_trace_of_its_loss(page: Page, decay: Path, tmp_path: Path) -> None:
    learned(page, tmp_path, f'"{DECAY}" {decay} {ADAM}')
    scrub(page, 5)
    page.get_by_label("Row", exact=True).fill("3")
    a, b, x, y = parameter(page, "a"), parameter(page, "b"), ROWS["x"][2], ROWS["y"][2]
    for _ in range(12):
        page.get_by_role("button", name="Step", exact=True).click()
    document = run_cli(f'trace "{DECAY}" {decay} --row 3 --a {a!r} --b {b!r} --json').json
    shown = numbers(page)
    residual = y - a * math.exp(-b * x)
    output = document["order"][-1]
    assert shown[output][0] == pytest.approx(residual**2, rel=1e-12)
    for node in document["nodes"]:
        if node["label"] in "ab":
            slope = document["gradient"][node["label"]]
            assert shown[node["id"]][1] == pytest.approx(slope, rel=1e-12)
            said = page.locator(f'[data-parameter="{node["label"]}"] + .slope').inner_text().replace("−", "-")
            assert said == f"this row's gradient {slope:.6g}"


def test_the_gradient_of_the_loss_is_the_mean_of_the_gradients_of_the_rows(
    page: Page, decay: Path, tmp_path: Path
) -> None:
    learned(page, tmp_path, f'"{DECAY}" {decay}')  # by least squares, whose steps do not follow the gradient
    scrub(page, 1)
    assert "contribution to the gradient of the fit's loss, a mean over all rows" in page.locator("body").inner_text()
    at = {name: parameter(page, name) for name in "ab"}

    def loss(a: float, b: float) -> float:
        x, y = map(np.array, ROWS.values())
        return float(np.mean((y - a * np.exp(-b * x)) ** 2))

    for name in "ab":
        slopes = []
        for row in range(1, 6):
            page.get_by_label("Row", exact=True).fill(str(row))
            said = page.locator(f'[data-parameter="{name}"] + .slope').inner_text()
            slopes.append(float(said.replace("−", "-").removeprefix("this row's gradient ")))
        ahead, behind = (loss(**{**at, name: at[name] + h}) for h in (1e-5, -1e-5))
        assert np.mean(slopes) == pytest.approx((ahead - behind) / 2e-5, rel=1e-4, abs=1e-6)


def test_a_network_is_seen_with_the_settings_with_which_it_learns(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "data.csv"
    file.write_text("x,y,z\n" + "".join(f"{x},{y},{(x * y > 0) + 0}\n" for x in (-2, -1, 1, 2) for y in (-2, -1, 1, 2)))
    learned(
        page, tmp_path, f'"z ~ sigmoid(mlp([x, y], [6], tanh))" {file} --family binomial --optimizer adam --epochs 3'
    )
    assert page.get_by_role("button", name="Learn again").bounding_box()["y"] < 760  # type: ignore[index]
    resize(page, 1920, 1080)
    ends = (
        "[...document.querySelectorAll('.pictures svg:not(.swatch)')].map((svg) => svg.getBoundingClientRect().right)"
    )
    assert max(page.evaluate(ends)) > 1700  # pictures take the width


# Connections of the network that touch the name of an input.
CROSSED = """() => {
  const all = (kind) => [...document.querySelectorAll(`#network-picture > svg ${kind}`)];
  const pointsOf = (line) => Array.from({ length: 200 }, (_, k) =>
    line.getPointAtLength((k / 199) * line.getTotalLength()));
  const points = all(".connection").flatMap(pointsOf);
  const isCrossed = ({ x, y, width, height }) =>
    points.some((at) => at.x > x && at.x < x + width && at.y > y && at.y < y + height);
  return [all("text").length, all("text").filter((name) => isCrossed(name.getBBox())).length];
}"""


@pytest.mark.sampled
@pytest.mark.parametrize("names", [("x", "z"), ("temperature_of_the_water", "m"), [f"reading_{k}" for k in range(20)]])
def test_pictures_of_a_network_can_be_read_in_any_window(page: Page, tmp_path: Path, names: Sequence[str]) -> None:
    rows = [[(7 * k * (j + 1)) % 5 for j in range(len(names))] for k in range(12)]
    table = "".join(f"{','.join(map(str, row))},{sum(row) % 2}\n" for row in rows)
    (tmp_path / "d.csv").write_text(f"{','.join(names)},y\n{table}")
    learned(
        page, tmp_path, f'"y ~ sigmoid(mlp([{", ".join(names)}], [3], tanh))" {tmp_path}/d.csv --loss bce --epochs 2'
    )
    for width in (360, 768, 1440, 900):  # one after the other, since pictures follow the window
        resize(page, width, 800)
        assert least_text(page) >= 11, width
        assert measure(page, CROSSED) == [len(names), 0], width
    words = page.locator("figure:has(.swatch)").first.aria_snapshot()
    assert len({*re.findall('- img "(.*)"', words)}) >= 2, words  # markers and colours are told apart by ear


def test_a_fit_whose_loss_is_not_a_number_opens_without_errors(page: Page, tmp_path: Path) -> None:
    data, file = tmp_path / "data.csv", tmp_path / "page.html"
    data.write_text("x,y\n1,0\n2,1\n3,0\n4,1\n")
    run_cli(f'train "y ~ a*x" {data} --a=-1 --family binomial --optimizer adam --epochs 3 --page {file}')
    page.goto(file.as_uri())  # the fixture notes errors
    page.get_by_label("Row", exact=True).fill("2")
    assert page.locator("#row-text").inner_text() == "y = 1, x = 2"


def test_play_and_pause(page: Page, decay: Path, tmp_path: Path) -> None:
    learned(page, tmp_path, f'"{DECAY}" {decay} {ADAM}')
    play, pause = (page.get_by_role("button", name=name, exact=True) for name in ("Play", "Pause"))
    assert (play.is_enabled(), pause.is_enabled()) == (True, False)
    play.click()
    assert (play.is_enabled(), pause.is_enabled()) == (False, True)
    page.wait_for_timeout(700)
    pause.click()
    assert (play.is_enabled(), pause.is_enabled()) == (True, False)
    stopped = int(page.locator("#epoch").input_value())
    assert 0 < stopped < 30
    page.wait_for_timeout(400)
    assert int(page.locator("#epoch").input_value()) == stopped
    scrub(page, 30)
    page.get_by_role("button", name="Play", exact=True).click()
    assert int(page.locator("#epoch").input_value()) < 30


def test_the_curve_is_the_prediction_at_that_epoch(page: Page, decay: Path, tmp_path: Path) -> None:
    learned(page, tmp_path, f'"{DECAY}" {decay} {ADAM}')
    scrub(page, 0)
    first = page.locator("#fit-picture .fitted").get_attribute("d")
    scrub(page, 30)
    assert page.locator("#fit-picture .fitted").get_attribute("d") != first
    assert page.locator("#fit-picture .point").count() == 5
    assert page.locator("#loss-picture .loss").count() == 1


# Where points, the row that is chosen, and the curve of the fit stand, in pixels.
DRAWN = """() => {
  const at = (shape) => ["cx", "cy"].map((name) => Number(shape.getAttribute(name)));
  const [points, selected] = [".point", ".selected"].map((kind) => [...document.querySelectorAll(kind)].map(at));
  const course = document.querySelector("#fit-picture .fitted").getAttribute("d");
  return { points, selected, curve: course.split(/[ML]/).slice(1).map((place) => place.split(" ").map(Number)) };
}"""


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("model", "y"),
    [
        ("y ~ a*exp(-b*x)", ROWS["y"]),
        ("y ~ exp(a + b*x) --family poisson", [7, 5, 3, 2, 0]),
        ("y ~ sigmoid(a + b*x) --family binomial", [1, 1, 0, 1, 0]),
    ],
)
def test_the_curve_of_the_fit_goes_through_its_predictions(
    page: Page, tmp_path: Path, model: str, y: list[float]
) -> None:
    lines = [f"{a},{b}" for a, b in zip(ROWS["x"], y, strict=True)]
    (tmp_path / "d.csv").write_text("\n".join(["x,y", *lines, ""]))
    text, *options = model.partition(" --")
    learned(page, tmp_path, f'"{text}" {tmp_path}/d.csv {"".join(options)} --save {tmp_path}/m.json')
    scrub(page, int(page.locator("#epoch").get_attribute("max") or ""))
    page.get_by_label("Row", exact=True).fill("4")
    drawn = page.evaluate(DRAWN)
    (points, curve), predicted = map(np.array, (drawn["points"], drawn["curve"])), ad.load(tmp_path / "m.json")
    unit, start = np.polyfit(points[:, 1], y, 1)  # of the vertical axis
    heights = start + unit * np.interp(points[:, 0], curve[:, 0], curve[:, 1])
    wanted = np.asarray(predicted.predict({"x": np.array(ROWS["x"])}))
    assert heights == pytest.approx(wanted, abs=2 * abs(unit))  # two pixels
    assert drawn["selected"] == [drawn["points"][3]]


def test_of_several_classes_each_row_stands_at_the_probability_of_its_own(page: Page, tmp_path: Path) -> None:
    data = np.genfromtxt(SETS / "iris.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    model = "species ~ softmax(dense([sepal_length, petal_length, petal_width], 3))"
    learned(page, tmp_path, f'"{model}" {SETS / "iris.csv"} --epochs 5 --save {tmp_path}/m.json')
    scrub(page, int(page.locator("#epoch").get_attribute("max") or ""))
    places = page.locator("#fit-picture > svg > .marker").evaluate_all(
        "(all) => all.map((mark) => Number(mark.getAttribute('transform').match(/translate\\S* ([-\\d.]+)/)[1]))"
    )
    fit = ad.load(tmp_path / "m.json")
    shares = fit.probabilities({name: data[name] for name in ("sepal_length", "petal_length", "petal_width")})
    own = shares[np.arange(150), [fit.classes.index(name) for name in data["species"]]]
    assert np.corrcoef(places, own)[0, 1] == pytest.approx(-1, abs=1e-6)  # pixels are counted downwards
    hits = int(np.count_nonzero(shares.argmax(axis=1) == [fit.classes.index(name) for name in data["species"]]))
    assert f"{hits} of 150 rows are classified correctly" in page.locator("#fit-picture").inner_text()


def test_regions_are_pale_where_all_classes_are_about_equally_probable(page: Page, tmp_path: Path) -> None:
    model = "species ~ softmax(dense([petal_length, petal_width], 3))"
    learned(page, tmp_path, f'"{model}" {SETS / "iris.csv"} --epochs 5')
    regions = page.locator("#fit-picture > svg > path[fill-opacity]")
    assert "0.10" in regions.evaluate_all("(all) => all.map((one) => one.getAttribute('fill-opacity'))")


def test_of_several_predictors_each_row_stands_at_its_target_and_its_prediction(page: Page, tmp_path: Path) -> None:
    x, z = np.arange(1000.0) % 7, np.arange(1000) // 100
    y = 1 + 2 * x - z + np.sin(np.arange(1000))
    np.savetxt(tmp_path / "d.csv", np.stack([x, z, y], axis=1), delimiter=",", header="x,z,y", comments="")
    learned(page, tmp_path, f'"y ~ a + b*x + c*z" {tmp_path}/d.csv --save {tmp_path}/m.json')
    scrub(page, int(page.locator("#epoch").get_attribute("max") or ""))
    page.get_by_label("Row", exact=True).fill("500")
    text = page.locator("#row-text").inner_text().replace("−", "-")
    row = int(text.split()[1]) - 1 if text.startswith("row ") else 499
    assert text.endswith(f"y = {y[row]:.6g}, x = {x[row]:g}, z = {z[row]:g}")
    script = "(all) => all.map((mark) => [mark.getAttribute('cx'), mark.getAttribute('cy')].map(Number))"
    points = np.array(page.locator("#fit-picture > svg > .point").evaluate_all(script))
    shown = np.linspace(0, 999, len(points)).round().astype(int)
    wanted = np.asarray(ad.load(tmp_path / "m.json").predict({"x": x, "z": z}))
    for places, numbers_, sign in ((points[:, 0], y[shown], 1), (points[:, 1], wanted[shown], -1)):
        assert np.corrcoef(places, numbers_)[0, 1] == pytest.approx(sign, abs=1e-9)


def test_the_mark_on_the_curve_of_losses_stands_at_its_epoch(page: Page, decay: Path, tmp_path: Path) -> None:
    learned(page, tmp_path, f'"{DECAY}" {decay} --optimizer adam --lr 0.01 --epochs 777')
    most = int(page.locator("#epoch").get_attribute("max") or "")
    found = []
    for k in (0, most // 3, most - 1, most):
        scrub(page, k)
        number = page.locator("#epoch-text").inner_text().partition(",")[0].removeprefix("epoch ")
        found.append((int(number), float(page.locator("#loss-picture .here").get_attribute("cx") or "")))
    (_, left), *_, (last, right) = found
    assert last == 777 > most
    assert [at for _, at in found] == pytest.approx([left + (right - left) * number / last for number, _ in found])


def test_a_curve_beyond_the_data_ends_at_the_axes(page: Page, decay: Path, tmp_path: Path) -> None:
    learned(page, tmp_path, f'"{DECAY}" {decay} {ADAM} --a -9')
    visible = page.evaluate(
        """() => [...document.querySelectorAll("#fit-picture .fitted")].map((curve) => {
          const frame = document.querySelector("#fit-picture .axis").getBoundingClientRect();
          const points = Array.from({ length: 50 }, (_, k) => curve.getPointAtLength(curve.getTotalLength() * k / 49));
          const onScreen = points.map((point) => point.matrixTransform(curve.getScreenCTM()));
          const below = onScreen.filter(({ y }) => y > frame.bottom + 5);
          return [below.length, below.filter(({ x, y }) => document.elementsFromPoint(x, y).includes(curve)).length];
        })"""
    )
    [[below, shown]] = visible
    assert below > 5  # the curve does go beyond the data
    assert shown == 0


@pytest.mark.parametrize("start", ["--a=-1", "--a=3.5"])
def test_the_curve_is_in_the_picture_before_it_fits(page: Page, decay: Path, tmp_path: Path, start: str) -> None:
    learned(page, tmp_path, f'"{DECAY}" {decay} {ADAM} {start}')
    curve, frame = (
        page.locator(f"#fit-picture .{name}").first.evaluate(
            "(shape) => { const { y, height } = shape.getBBox(); return [y, y + height]; }"
        )
        for name in ("fitted", "axis")
    )
    assert frame[0] <= curve[0]
    assert curve[1] <= frame[1]


def test_numbers_beside_an_axis_keep_off_its_name(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "small.csv"
    path.write_text("x,y\n" + "".join(f"{k},{2.5 * 0.3**k + 0.06 * (-1) ** k}\n" for k in range(9)), encoding="utf-8")
    learned(page, tmp_path, f'"{DECAY}" {path}')
    overlaps, numbers = page.evaluate(
        """() => {
          const texts = [...document.querySelectorAll("#loss-picture text")];
          const [names, numbers] = [true, false].map((is) => texts.filter((x) => x.hasAttribute("transform") === is));
          const frame = names[0].getBoundingClientRect();
          const ends = numbers.filter((x) => x.getAttribute("text-anchor") === "end");
          const isOver = (box) => box.left < frame.right && box.top < frame.bottom && box.bottom > frame.top;
          const over = ends.filter((x) => isOver(x.getBoundingClientRect()));
          return [over.map((x) => x.textContent), ends.map((x) => x.textContent)];
        }"""
    )
    assert max(map(len, numbers)) >= 5  # such as 0.005
    assert overlaps == []


def test_regions_and_the_network_of_two_classes(page: Page, tmp_path: Path) -> None:
    model = "moon ~ sigmoid(mlp([x1, x2], [4], tanh))"
    fitted = (
        f'"{model}" {SETS / "moons.csv"} --loss bce --optimizer adam --epochs 40 --lr 0.05 --save {tmp_path}/m.json'
    )
    learned(page, tmp_path, fitted)
    assert page.locator("#epoch").input_value() == "0"
    scrub(page, 40)
    saved = json.loads((tmp_path / "m.json").read_text())["parameters"]
    shown = page.locator('[data-parameter="mlp.0.weight"]').get_attribute("data-value") or ""
    assert json.loads(shown) == saved["mlp.0.weight"]
    assert parameter(page, "mlp.0.weight[2, 1]") == saved["mlp.0.weight"][2][1]
    assert page.locator("#fit-picture path[class*=class-]").count() > 1
    assert page.locator("#network-picture > svg .connection").count() == 2 * 4 + 4
    data = np.loadtxt(SETS / "moons.csv", delimiter=",", skiprows=1)
    found = ad.load(tmp_path / "m.json").predict({"x1": data[:, 0], "x2": data[:, 1]})
    hits = int(np.count_nonzero((found > 0.5) == (data[:, 2] == 1)))
    # The colour of a connection says whether the loss of a row, the first one, rises with its weight: if so, a step
    # makes the weight smaller.
    columns = {name: data[:1, k] for k, name in enumerate(("x1", "x2", "moon"))}
    step = ad.fit(model, columns, loss="bce", optimizer="sgd", learning_rate=1e-3, epochs=1, start=saved).parameters
    names = ("mlp.0.weight", "mlp.1.weight")
    falls = np.concatenate([np.ravel(np.less(step[name], saved[name])) for name in names])
    is_negative = np.concatenate([np.ravel(np.less(saved[name], 0)) for name in names])
    wanted = [
        f"connection {'up' if up else 'down'}{' minus' if minus else ''}"
        for up, minus in zip(falls, is_negative, strict=True)
    ]
    connections = page.locator("#network-picture > svg .connection")
    sizes = np.abs(np.concatenate([np.ravel(saved[name]) for name in names]))
    widths = connections.evaluate_all("(all) => all.map((one) => Number(one.getAttribute('stroke-width')))")
    assert np.corrcoef(widths, sizes)[0, 1] > 0.999
    first = connections.nth(5).text_content() or ""
    assert first.startswith(f"mlp.0.weight[2, 1] = {saved['mlp.0.weight'][2][1]:.6g}, gradient ")
    shades = page.locator("#fit-picture > svg > path[fill-opacity]")
    assert len({*shades.evaluate_all("(all) => all.map((one) => one.getAttribute('fill-opacity'))")}) >= 3
    mark = page.locator("#fit-picture > svg > .marker").nth(7).get_attribute("transform") or ""
    places = [float(number) for number in re.findall(r"[\d.]+", mark)[:2]]
    page.get_by_label("Row", exact=True).fill("8")
    circle = page.locator("#fit-picture > svg > .selected")
    assert [float(circle.get_attribute(name) or "") for name in ("cx", "cy")] == pytest.approx(places)
    page.get_by_label("Row", exact=True).fill("1")
    assert connections.evaluate_all("(all) => all.map((one) => one.getAttribute('class'))") == wanted
    assert f"{hits} of 400 rows" in page.locator("#fit-picture figcaption").inner_text()
    assert unit_signs(page, 4) == np.sign(corner_of_units(data, saved)).tolist()

    assert page.locator("#network-picture text").all_text_contents() == ["x1", "x2"]

    for text in ("0", "17", "2.5", "1, 2, 3, 4", "x", ""):
        page.get_by_label("Hidden units").fill(text)
        page.get_by_role("button", name="Learn again").click()
        assert page.locator("#again-text").inner_text().startswith("Hidden units are 1 to 3 whole numbers"), text

    # Another network learns from a random start, as `ad.fit` does from there.
    page.get_by_label("Hidden units").fill("3, 2")
    page.get_by_label("Activation").select_option("relu")
    page.get_by_label("Epochs", exact=True).fill("5")
    page.get_by_role("button", name="Learn again").click()
    page.locator("#again-text").filter(has_text="ran for 5 epochs").wait_for()
    assert page.get_by_label("Start", exact=True).input_value() == "random"
    assert page.locator("#network-picture > svg .connection").count() == 2 * 3 + 3 * 2 + 2
    assert page.locator("#app").is_hidden()
    last = arrays(page)
    scrub(page, 0)
    options = {"loss": "bce", "optimizer": "adam", "learning_rate": 0.05, "epochs": 5, "start": arrays(page)}
    columns = {"x1": data[:, 0], "x2": data[:, 1], "moon": data[:, 2]}
    fit = ad.fit("moon ~ sigmoid(mlp([x1, x2], [3, 2], relu))", columns, **options)
    assert {*fit.parameters} == {*last}
    for name, value in fit.parameters.items():
        assert last[name] == pytest.approx(value, rel=1e-9)
    page.get_by_role("button", name="Show the fit").click()
    assert json.loads(arrays_text(page)["mlp.0.weight"]) == saved["mlp.0.weight"]
    assert page.locator("#app").is_visible()


def arrays_text(page: Page) -> dict[str, str]:
    """Return the parameters that the page shows, each as JSON."""
    cells = page.locator("#parameters td[data-parameter]")
    return dict(cells.evaluate_all("(cells) => cells.map(({dataset}) => [dataset.parameter, dataset.value])"))


def arrays(page: Page) -> dict[str, np.ndarray]:
    """Return the parameters that the page shows, as arrays."""
    return {name: np.array(json.loads(text)) for name, text in arrays_text(page).items()}


def corner_of_units(data: np.ndarray, saved: Any) -> np.ndarray:
    """What hidden units put out in the upper left cell of their maps."""
    low, high = data[:, :2].min(axis=0), data[:, :2].max(axis=0)
    margin = 0.08 * (high - low)
    cell = (high - low + 2 * margin) / 14
    corner = np.array([(low - margin + cell / 2)[0], (high + margin - cell / 2)[1]])
    return np.tanh(np.array(saved["mlp.0.weight"]) @ corner + np.array(saved["mlp.0.bias"]))


def unit_signs(page: Page, count: int) -> list[float]:
    """The signs that the upper left cells of the first maps show, by their colours."""
    cells = page.locator("#network-picture").evaluate("""(figure) => {
      const frames = [...figure.querySelectorAll("rect.unit.empty")];
      return frames.map((frame) => {
        const [x, y] = ["x", "y"].map((name) => Number(frame.getAttribute(name)).toFixed(1));
        const shades = [...figure.querySelectorAll("path[class*=class-]")];
        const path = shades.find((one) => one.getAttribute("d").includes(`M${x} ${y}h`));
        return path.getAttribute("class") === "class-1" ? 1 : -1;
      });
    }""")
    return [float(sign) for sign in cells[:count]]


def test_rows_have_their_numbers_in_the_data_and_rows_of_weight_0_are_left_out(page: Page, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x,y,w\n1,9,0\n2,2.1,1\n3,2.9,1\n4,9,0\n5,5.2,1\n")
    learned(page, tmp_path, f'"y ~ a*x" {tmp_path / "rows.csv"} --weights w')
    row, text = page.get_by_label("Row", exact=True), page.locator("#row-text")
    assert row.input_value() == "2"
    assert text.inner_text() == "y = 2.1, x = 2"
    for typed, shown in (("5", "y = 5.2, x = 5"), ("1", "row 2 is the nearest on this page: y = 2.1, x = 2")):
        row.fill(typed)
        assert text.inner_text() == shown


@pytest.mark.sampled
@pytest.mark.parametrize(
    "line",
    [
        f"species ~ softmax(mlp([petal_length, petal_width], [3], relu))|{SETS / 'iris.csv'} --epochs 5",
        f"species ~ softmax(dense([sepal_length, petal_length, petal_width], 3))|{SETS / 'iris.csv'} --epochs 5",
        f"(y - a*x)^2 + 0*b|{SETS / 'sine.csv'} --fix b=2",
        f"y ~ a*sin(b*x)|{SETS / 'sine.csv'} --loss huber",
        f"petal_width ~ a + b*petal_length + c*sepal_width|{SETS / 'iris.csv'}",
        f"[petal_width, petal_length] ~ mlp(sepal_length, [3], tanh)|{SETS / 'iris.csv'} --epochs 3",
    ],
    ids=lambda line: line.partition("|")[0],
)
def test_other_models_open_and_scrub(page: Page, tmp_path: Path, line: str) -> None:
    model, _, rest = line.partition("|")
    file = tmp_path / "p.html"
    written = run_cli(f'train "{model}" {rest} --page {file}')
    assert written.status == 0, written.stderr
    page.goto(file.as_uri())
    scrub(page, 0)
    assert re.match("(epoch|iteration) 0,", page.locator("#epoch-text").inner_text())
    names, *lines = [line.split(",") for line in Path(rest.split()[0]).read_text().splitlines()]
    step = len(lines) // 500 + 1  # a page has at most 500 rows
    for number in (1, 2, len(lines), 0, len(lines) + 1):
        page.get_by_label("Row", exact=True).fill(str(number))
        is_row = 1 <= number <= len(lines)
        assert page.get_by_label("Row", exact=True).get_attribute("aria-invalid") == str(not is_row).lower()
        *wrong, cells = page.locator("#row-text").text_content().replace("−", "-").split(": ")  # type: ignore[union-attr]
        wanted = dict(zip(names, lines[number - 1 if is_row else 0], strict=True))
        assert wrong == ([] if is_row else [f"rows are 1 to {len(lines)}; showing row 1"]) or step > 1
        shown = dict(cell.split(" = ") for cell in cells.split(", "))
        numbers_shown = {name: float(text) for name, text in shown.items() if name != "species"}
        assert shown.get("species", "") in wanted.values() or "species" not in shown
        assert (
            numbers_shown == {name: pytest.approx(float(wanted[name]), rel=1e-5) for name in numbers_shown} or step > 1
        )


def test_a_model_with_levels_shows_the_curve_of_the_row_that_is_chosen(page: Page, tmp_path: Path) -> None:
    (tmp_path / "groups.csv").write_text("x,y,group\n0,2.1,A\n1,3,B\n2,0.3,A\n3,2,B\n")
    learned(page, tmp_path, f'"y ~ a[group] + b*x + 0*c" {tmp_path}/groups.csv --fix c=2')
    scrub(page, int(page.locator("#epoch").get_attribute("max") or ""))
    of_a = page.locator("#fit-picture .fitted").get_attribute("d")
    page.get_by_label("Row", exact=True).fill("2")
    assert page.locator("#fit-picture .fitted").get_attribute("d") != of_a
    assert page.locator('[data-parameter="a[B]"]').count() == 1
    slopes = page.locator("#parameters .slope").all_inner_texts()
    assert sorted(text == "fixed" for text in slopes) == [False, False, False, True]


def test_learning_again_takes_the_epochs_of_the_fit_and_restarts_elsewhere(
    page: Page, decay: Path, tmp_path: Path
) -> None:
    learned(page, tmp_path, f'"{DECAY}" {decay} {ADAM}')
    said = page.locator("#again-text")
    page.get_by_label("Rate", exact=True).fill("0.1")
    page.get_by_label("Epochs", exact=True).fill("30")
    page.get_by_role("button", name="Learn again").click()
    said.filter(has_text="ran for 30 epochs on the 5 rows").wait_for()
    fit = ad.fit(DECAY, ROWS, optimizer="adam", learning_rate=0.1, epochs=30)
    assert page.locator("#epoch").input_value() == "30"
    for name, x in fit.parameters.items():
        assert parameter(page, name) == pytest.approx(x, rel=1e-12)
    first, last = fit.history[0]["loss"], fit.history[-1]["loss"]
    assert f": loss {first:.6g} → {last:.6g}." in said.inner_text()
    page.get_by_label("Optimizer").select_option("sgd")
    fit = ad.fit(DECAY, ROWS, optimizer="sgd", learning_rate=0.1, epochs=30)
    page.get_by_role("button", name="Learn again").click()
    said.filter(has_text="sgd ran").wait_for()
    assert parameter(page, "a") == pytest.approx(fit.parameters["a"], rel=1e-12)
    for field, wrong in {"Rate": ["-1", "0", ""], "Epochs": ["0", "1001", "2.5", ""]}.items():
        before = page.get_by_label(field, exact=True).input_value()
        for text in wrong:
            page.get_by_label(field, exact=True).fill(text)
            page.get_by_role("button", name="Learn again").click()
            assert said.inner_text().startswith("The rate is a number above 0, and the epochs a whole number"), text
        page.get_by_label(field, exact=True).fill(before)
    page.get_by_label("Rate", exact=True).fill("50")
    page.get_by_role("button", name="Learn again").click()
    said.filter(has_text="The loss rose: try a smaller rate.").wait_for()
    page.get_by_label("Rate", exact=True).fill("0.1")
    page.get_by_label("Start", exact=True).select_option("at random")
    points, heights = page.locator("#fit-picture .point"), "(all) => all.map((point) => point.getAttribute('cy'))"
    page.get_by_role("button", name="Show the fit").click()
    of_data = points.evaluate_all(heights)
    page.get_by_role("slider", name="Noise").fill("0.5")
    starts = []
    for _ in range(2):
        said.evaluate("(element) => element.replaceChildren()")
        page.get_by_role("button", name="Learn again").click()
        said.filter(has_text="epoch").wait_for()
        scrub(page, 0)
        starts.append((parameter(page, "a"), page.locator("#fit-picture .point").first.get_attribute("cy")))
    assert starts[0][0] != starts[1][0]
    assert starts[0][1] != starts[1][1]
    page.get_by_role("button", name="Show the fit").click()
    assert page.locator("#epoch-text").inner_text().startswith("epoch 30, loss")
    assert points.evaluate_all(heights) == of_data  # without the noise of any run


@pytest.mark.slow
def test_chains_move_over_the_data(page: Page, decay: Path, tmp_path: Path) -> None:
    pytest.importorskip("nutpie")
    learned(page, tmp_path, f'"{DECAY}" {decay} --posterior 30 --chains 3')
    fit = ad.fit(DECAY, ROWS, posterior=30, chains=3)
    page.get_by_label("Draw", exact=True).fill("4")
    assert page.locator("#draw-text").inner_text() == "draw 5 of each chain"
    assert page.locator("#chains-picture > svg .chain").count() == 3 * 5
    assert page.locator("#chains-picture > svg .now").count() == 3
    written = (tmp_path / "learning.html").read_text()
    assert all(repr(number) in written for number in fit.draws["a"].ravel().tolist())
    page.get_by_role("button", name="Play the chains").click()
    wait_until(page, "Number(document.querySelector('#draw').value) > 4")


@pytest.mark.slow
def test_a_fit_by_draws_alone_shows_no_epochs(page: Page, tmp_path: Path) -> None:
    pytest.importorskip("nutpie")
    path = tmp_path / "sites.csv"
    path.write_text(
        "x,y,g\n" + "".join(f"{k % 5},{k // 5 + k % 5 / 2 + k % 3 / 10},{'uvw'[k // 5]}\n" for k in range(15))
    )
    learned(page, tmp_path, f'"y ~ a[g] + b*x" {path} --prior "a[g] ~ normal(m, 1)" --posterior 30 --chains 2')
    assert page.locator("#epochs").is_hidden()
    assert page.locator("#loss-picture").is_hidden()
    assert page.locator("#chains-picture > svg").is_visible()
    page.get_by_label("Epochs", exact=True).fill("5")
    page.get_by_role("button", name="Learn again").click()
    wait_until(page, "Number(document.querySelector('#epoch').value) === 5")
    assert page.locator("#loss-picture > svg").is_visible()


def test_a_fit_without_draws_shows_no_chains(page: Page, decay: Path, tmp_path: Path) -> None:
    learned(page, tmp_path, f'"{DECAY}" {decay} {ADAM}')
    assert page.locator("#chains").is_hidden()
    assert page.locator("#chains-picture").is_hidden()


@pytest.mark.sampled
@pytest.mark.parametrize(
    "options", ["--lr 0.2 --epochs 150", "--lr 0.5 --a 50 --b 0 --epochs 300", "--lr 0.3 --epochs 30"]
)
def test_numbers_along_a_logarithmic_axis_are_round(page: Page, decay: Path, tmp_path: Path, options: str) -> None:
    learned(page, tmp_path, f'"{DECAY}" {decay} --optimizer adam {options}')
    assert "logarithmic" in (page.locator("#loss-picture > svg").text_content() or "")
    texts = page.locator("#loss-picture text[text-anchor=end]").all_text_contents()
    assert {f"{float(text):e}"[0] for text in texts} <= {"1", "2", "5"}, texts
    assert all(float(f"{float(text):.0e}") == float(text) for text in texts), texts
    assert 2 <= len({*texts}) == len(texts) <= 8, texts


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_the_bar_of_controls_covers_nothing_that_has_the_focus(
    page: Page, decay: Path, tmp_path: Path, size: tuple[int, int]
) -> None:
    resize(page, *size)
    learned(page, tmp_path, f'"{DECAY}" {decay} {ADAM}')
    covered, count = [], 0
    while True:
        page.keyboard.press("Tab")
        focus, is_covered = page.evaluate(
            """() => {
              const { left, right, top, bottom } = document.activeElement.getBoundingClientRect();
              const above = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
              const bar = document.querySelector(".controls");
              const focus = document.activeElement;
              return [focus.outerHTML.slice(0, 80), !bar.contains(focus) && bar.contains(above)];
            }"""
        )
        if focus.startswith("<body"):
            break
        covered += [focus] * is_covered
        count += 1
    assert count > 30
    assert covered == []
