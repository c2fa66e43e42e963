"""Mermaid reads what `trace --format mermaid` writes, by its own parser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import run_cli
from tests.tools import mermaid

if TYPE_CHECKING:
    from playwright.sync_api import Page

FORMULAS = [
    ["x*y + sin(x)", "--x", "2", "--y", "3"],
    ["a = x + y; b = a*x; where(b > 0, b^2, -b)", "--x", "2", "--y", "3", "--highlight", "x"],
    ["end + graph*style", "--end", "1", "--graph", "2", "--style", "3"],
    ["sum(W @ x)", "--W", "[[1, 2], [3, 4]]", "--x", "[1, 2]"],
]


@pytest.mark.parametrize("words", FORMULAS, ids=lambda words: words[0])
def test_mermaid_parses_the_drawing(page: Page, words: list[str]) -> None:
    page.add_script_tag(path=mermaid())
    drawn = run_cli(["trace", *words, "--format", "mermaid"])
    assert page.evaluate("async text => (await mermaid.parse(text)).diagramType", drawn) == "flowchart-v2"
