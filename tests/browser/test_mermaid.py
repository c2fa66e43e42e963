"""Mermaid reads what `trace --format mermaid` writes, by its own parser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support import run_cli
from tests.tools import mermaid

if TYPE_CHECKING:
    from playwright.sync_api import Page

FORMULAS = [
    ["x*y + sin(x)", "--x", "2", "--y", "3"],
    ["a = x + y; b = a*x; where(b > 0, b^2, -b)", "--x", "2", "--y", "3", "--highlight", "x"],
    ["end + graph*style", "--end", "1", "--graph", "2", "--style", "3"],
    ["sum(W @ x)", "--W", "[[1, 2], [3, 4]]", "--x", "[1, 2]"],
    ["f(t) = sin(t)^2; g(u) = f(u)*u; a = g(x) + g(x*y); a*x", "--x", "2", "--y", "3"],
    ["f(t) = sin(t)^2; g(u) = f(u)*u; a = g(x) + g(x*y); a*x", "--x", "2", "--y", "3", "--fold"],
    ["subgraph(end) = end^2 + 1; click = subgraph(x) + pi; click*x", "--x", "2"],
    ["subgraph(end) = end^2 + 1; click = subgraph(x) + pi; click*x", "--x", "2", "--fold"],
    ['变量*λ₁ + θ_0 # "]; </div><script>&quot; #quot; `%% \u202e\x1b', "--变量", "1", "--λ₁", "2", "--θ_0", "3"],
]


def test_mermaid_parses_the_drawings(page: Page) -> None:
    page.add_script_tag(path=mermaid())
    for words in FORMULAS:
        drawn = run_cli(["trace", *words, "--format", "mermaid"])
        assert page.evaluate("async text => (await mermaid.parse(text)).diagramType", drawn) == "flowchart-v2", words


def test_mermaid_draws_frames_in_frames_and_labels_as_they_are(page: Page) -> None:
    page.add_script_tag(path=mermaid())
    drawn = run_cli(
        ["trace", "f(t) = sin(t)*t; a = f(x*y) + 1; a^2 # <b>", "--x", "2", "--y", "3", "--format", "mermaid"]
    )
    page.evaluate("async text => document.body.innerHTML = (await mermaid.render('drawing', text)).svg", drawn)
    assert sorted(page.locator(".cluster-label").all_text_contents()) == ["a", "f(x*y)"]
    assert page.locator("g.node").count() == 9
    assert page.locator(".edgePaths path").count() == 9
    assert "sin(t)value" in (page.locator("svg").text_content() or "")
