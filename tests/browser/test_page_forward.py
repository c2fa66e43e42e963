"""Forward mode on the page: tangents as the command has them, and passes counted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.support import measure, opened, press, resize
from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

XY = ["x*y + sin(x)", "--x", "2", "--y", "3"]


def tangents(page: Page) -> dict[int, Any]:
    found = page.locator("svg [data-node]").evaluate_all(
        "all => all.map(({dataset}) => [dataset.node, dataset.tangent])"
    )
    return {int(i): tangent and float(tangent) for i, tangent in found}


def by_command(words: list[str], name: str) -> dict[int, Any]:
    document = run_cli(["trace", *words, "--mode", "forward", "--json"]).json
    return {i: float(tangent) for i, tangent in enumerate(document["tangents"][name])}


@pytest.mark.sampled
@pytest.mark.parametrize(
    "words",
    [
        XY,
        ["where(x > 0, sqrt(x), 5*x) + max(x, y)", "--x", "0", "--y", "-1"],
        ["f(t) = t^2 + 1; a = x*y; b = relu(f(a) - x); b*f(y) + log(a)", "--x", "2", "--y", "3"],
        ["x^y + gelu(x)*gamma(y)", "--x", "2", "--y", "3"],
    ],
    ids=lambda words: words[0],
)
def test_mode_forward_writes_a_page_that_opens_in_it(page: Page, tmp_path: Path, words: list[str]) -> None:
    page.emulate_media(reduced_motion="reduce")
    file = tmp_path / "page.html"
    assert run_cli(["trace", *words, "--mode", "forward", "-o", str(file)]).status == 0
    page.goto(file.as_uri())
    assert page.get_by_role("button", name="Forward mode", exact=True).get_attribute("aria-pressed") == "true"
    press(page, "Forward pass")
    assert tangents(page) == pytest.approx(by_command(words, "x"), rel=1e-13, nan_ok=True)
    page.get_by_label("x", exact=True).fill("0.5")
    changed = [word if words[k - 1] != "--x" else "0.5" for k, word in enumerate(words)]
    assert tangents(page) == pytest.approx(by_command(changed, "x"), rel=1e-13, nan_ok=True)


def test_seeds_are_the_variables_of_wrt(page: Page) -> None:
    opened(page, ["x*y + sin(z)", "--x", "2", "--y", "3", "--z", "1", "--wrt", "z,x"])
    assert sorted(page.locator("#seed option").all_text_contents()) == ["x", "z"]


def test_passes_are_counted_as_the_command_counts_their_work(page: Page) -> None:
    opened(page, XY)
    press(page, "Forward mode")
    work = run_cli(["trace", *XY, "--mode", "forward", "--json"]).json["work"]
    rows = page.locator("#passes tbody tr").all_inner_texts()
    assert [row.split("\t") for row in rows] == [
        ["forward mode, x", "1", *map(str, work["forward"]["x"].values())],
        ["forward mode, all 2", "2", *map(str, work["forward_all"].values())],
        ["reverse mode, all 2", "1", *map(str, work["reverse"].values())],
    ]


def test_other_drawings_show_tangents_in_forward_mode() -> None:
    drawn = run_cli(["trace", *XY, "--mode", "forward", "--format", "svg"])
    document = run_cli(["trace", *XY, "--mode", "forward", "--json"]).json
    tangents = {int(i): float(x) for i, x in re.findall(r'data-node="(\d+)"[^>]* data-tangent="([^"]*)"', drawn)}
    assert tangents == dict(enumerate(document["tangents"]["x"]))
    assert "adjoint" not in drawn
    of_arrays = run_cli(["trace", "sum(W @ x)", "--W=[[1, 2]]", "--x=[3, 4]", "--mode", "forward", "--format", "dot"])
    assert "W[0, 0]" in of_arrays
    assert "tangent 3" in of_arrays


# Texts of nodes that stand on another box, on another text, or outside of the drawing.
COVERED = """() => {
  const place = (element) => element.getBoundingClientRect();
  const texts = [...graph.svg.querySelectorAll(".node text")].filter((text) => text.textContent);
  const others = (text) => [...texts, ...graph.svg.querySelectorAll(".node .outline")].filter((other) => other !== text
    && (other.matches("text") || !other.parentElement.contains(text)));
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4;
  const drawing = place(graph.svg);
  const isCovered = (text) => others(text).some((other) => meet(place(text), place(other)));
  const wrong = texts.filter((text) => place(text).right > drawing.right + 1 || isCovered(text));
  return wrong.map((text) => text.textContent);
}"""


@pytest.mark.parametrize("width", [390, 1280])
def test_tangents_and_changes_stand_beside_their_node_and_cover_nothing(page: Page, width: int) -> None:
    page.emulate_media(reduced_motion="reduce")
    resize(page, width, 844)
    formula = "f = normal_cdf(x*y)*sqrt(x) + gamma(y); f*abs(x - y)"
    opened(page, [formula, "--x", "1.2", "--y", "2.5"])
    press(page, "Forward mode")
    press(page, "Forward pass")
    assert measure(page, COVERED) == []
    press(page, "Forward mode")
    press(page, "Forward pass")
    page.get_by_label("slide x", exact=True).evaluate(
        "(slider) => { slider.value = 1.21234; slider.dispatchEvent(new Event('input', { bubbles: true })); }"
    )
    assert page.locator("svg [data-change]").count() > 0
    assert measure(page, COVERED) == []
