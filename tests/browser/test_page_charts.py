"""Charts of pages: whatever the numbers, the axes are true and can be read."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.support import opened, resize, settle
from tests.browser.test_page_access import contrast
from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

LEAST, MOST = 5e-324, 1.7976931348623157e308
HOSTILE = [
    [-MOST, MOST], [0, LEAST], [-3 * LEAST, 4 * LEAST], [1e-320, 9e-320], [MOST, MOST], [LEAST, LEAST], [-MOST, LEAST],
    [1.7e9, 1.7e9 + 1000], [1e6, 1e6 + 60], [1, 1 + 2**-50], [2**53, 2**53 + 6], [0, 0], [-1e-7, 3e-7],
    [MOST, 0.999999 * MOST],
]  # fmt: skip
# A chart with these numbers along both axes, the places of its ticks in the pixels of the drawing, and of the ends.
CHART = """([x, y, width]) => {
  const host = document.createElement("div");
  host.style.width = `${width}px`;
  byId("curve").append(host);
  const [wide, high] = [around(x, 0.03), around(y, 0.03)];
  const name = "a long name ".repeat(20);
  const { svg, toX, toY } = chart("a chart", [name, wide], [name, high], host.clientWidth);
  svg.append(...dot("point", toX(x[0]), toY(y[0]), 3));
  host.append(svg);
  const edge = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")].map((text) => {
    const { left, right, top, bottom } = text.getBoundingClientRect();
    return [text.textContent, left - edge.left, right - edge.left, top - edge.top, bottom - edge.top];
  });
  const drawn = [...svg.querySelectorAll("*")].flatMap((shape) => [...shape.attributes].map(({ value }) => value));
  const ticks = [...svg.querySelectorAll("path.axis")].map((path) => path.getAttribute("d"));
  host.remove();
  const samples = samplesOf(wide);
  const ends = [wide.map(toX), high.map(toY)];
  return { ticks, texts, drawn, wide, high, samples, ends, size: [edge.width, edge.height] };
}"""


def test_axes_are_labelled_with_true_numbers_that_can_be_read(page: Page) -> None:
    opened(page, ["x*y", "--x", "2", "--y", "3"])
    some = random.Random(5)
    pairs = [sorted(some.choice((-1, 1)) * math.ldexp(some.random(), some.randint(-1080, 1024)) for _ in "ab")
             for _ in range(20)]  # fmt: skip
    near = [[x, x * (1 + 10.0 ** -some.randint(1, 14))] for x, _ in pairs if abs(x) < MOST / 2]
    for numbers in HOSTILE + pairs + near:
        found = page.evaluate(CHART, [numbers, some.choice(HOSTILE), some.choice([260, 400, 600])])
        assert not [value for value in found["drawn"] if "NaN" in value or "Infinity" in value], numbers
        assert all(map(math.isfinite, found["samples"])), numbers
        assert [found["samples"][k] for k in (0, -1)] == found["wide"]
        _check_axes(found)


def _check_axes(found: dict[str, Any]) -> None:
    """Check that the number beside each tick is the number there, and that no text meets another or is cut."""
    texts = [(text.replace("−", "-"), *box) for text, *box in found["texts"]]
    *labels, _, _ = texts
    _, *ticks = found["ticks"]  # the first path is both axes
    assert len(labels) == len(ticks) > 0
    along_x = [tick.endswith("v4") for tick in ticks]
    assert 0 < sum(along_x) < len(ticks)
    for tick, is_along_x, (text, *_) in zip(ticks, along_x, labels, strict=True):
        x, y = (float(part) for part in tick[1 : -2 - tick.endswith("h-4")].split(" "))
        (low, high), (from_, to) = (
            (found["wide"], found["ends"][0]) if is_along_x else (found["high"], found["ends"][1])
        )
        share = ((x if is_along_x else y) - from_) / (to - from_)
        there = low * (1 - share) + high * share
        resolution = max(high / 1000 - low / 1000, 4e-16 * max(abs(low), abs(high)), LEAST)
        assert abs(float(text) - there) <= resolution, (text, there)
    for k, (text, left, right, top, bottom) in enumerate(texts):
        width, height = found["size"]
        assert min(left, width - right, top, height - bottom) > -1.5, text
        for other, start, end, above, below in texts[k + 1 :]:
            overlap = min(right, end) - max(left, start), min(bottom, below) - max(top, above)
            assert overlap[0] <= 1 or overlap[1] <= 3, (text, other)


STROKES = """(selector) => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const plain = (colour) => {
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return `rgb(${context.getImageData(0, 0, 1, 1).data.slice(0, 3).join()})`;
  };
  const styles = [...document.querySelectorAll(selector)].map((shape) => getComputedStyle(shape));
  const colours = styles.map(({ fill, stroke }) => (fill === "none" ? stroke : fill));
  const paper = getComputedStyle(document.querySelector(".learning")).backgroundColor;
  return [[...new Set(colours)].map(plain), paper];
}"""


@pytest.mark.parametrize(
    ("model", "options", "selector", "count"),
    [
        ("y ~ softmax([a*x, b, c, d, f, g])", "--epochs 1", "#fit-picture figcaption .marker", 6),
        pytest.param("x ~ a*u", "--posterior 10 --chains 8", "#chains-picture path.now", 8, marks=pytest.mark.slow),
    ],
)
def test_classes_and_chains_have_colours_that_stand_out_on_any_paper(
    page: Page, tmp_path: Path, model: str, options: str, selector: str, count: int
) -> None:
    if "--posterior" in options:
        pytest.importorskip("nutpie")
    file = tmp_path / "page.html"
    rows = "\n".join(f"{k},{'abcdef'[k % 6]},{k + k % 3}" for k in range(12))
    (tmp_path / "rows.csv").write_text(f"x,y,u\n{rows}\n")
    run_cli(f'train "{model}" {tmp_path / "rows.csv"} {options} --page {file}')
    page.goto(file.as_uri())
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        colours, paper = page.evaluate(STROKES, selector)
        assert len(colours) == count
        assert [colour for colour in colours if contrast(colour, paper) < 3] == []


def test_a_fit_with_the_largest_numbers_and_the_longest_names_is_drawn_and_named(page: Page, tmp_path: Path) -> None:
    names = ["x" * 200, '`<b>&amp; "q"`']
    rows = [(MOST * (-1) ** k * ((k + 1) / 12), MOST * (-1) ** (k // 2) * ((k + 1) / 12), k % 2) for k in range(12)]
    header = f'{names[0]},"<b>&amp; ""q""",y'
    (tmp_path / "rows.csv").write_text("\n".join([header, *(",".join(map(repr, row)) for row in rows), ""]))
    model, file = f"y ~ sigmoid(mlp([{names[0]}/1e308, {names[1]}/1e308], [2], tanh))", tmp_path / "page.html"
    assert run_cli(["train", model, str(tmp_path / "rows.csv"), "--epochs", "2", "--page", str(file)]).status < 2
    page.goto(file.as_uri())
    start, *_, end = page.title().removeprefix("learning ").split("…")
    assert model.startswith(start.strip())
    assert model.endswith(end.removesuffix(" · backpropagation").strip())
    assert page.locator("#fit-picture .marker").count() >= len(rows)
    assert page.locator("#network-picture > svg").is_visible()
    for width in (360, 768, 1400):
        resize(page, width, 800)
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    # What Chromium cannot read in a drawing is in the console, which the fixture checks.
