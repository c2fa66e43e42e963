"""The page of a trace, opened in a browser, and what is read from it."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

_NUMBERS = """() => [...document.querySelectorAll("[data-node]")].map((node) =>
  [node.dataset.node, node.dataset.value ?? null, node.dataset.adjoint ?? null])"""

# The size in pixels of the smallest text that is shown, also of exponents and indices in drawings and formulas.
_LEAST_TEXT = """(within) => {
  const texts = document.createTreeWalker(document.querySelector(within), NodeFilter.SHOW_TEXT);
  let least = Infinity;
  while (texts.nextNode()) {
    const { data, parentElement } = texts.currentNode;
    const size = parseFloat(getComputedStyle(parentElement).fontSize);
    const isHidden = size === 0 || parentElement.matches("title, script, style") || !parentElement.checkVisibility();
    if (isHidden || !data.trim()) continue;
    const { a, b } = parentElement.getScreenCTM?.() ?? { a: 1, b: 0 };
    least = Math.min(least, size * Math.hypot(a, b));
  }
  return least;
}"""


def wait_until(page: Page, expression: str) -> None:
    """Wait until an expression is true. Playwright's own wait compiles it in the page, whose policy forbids that."""
    from playwright.sync_api import Error

    end = time.monotonic() + 120
    while time.monotonic() < end:
        with contextlib.suppress(Error):  # while another page is being loaded
            if page.evaluate(expression):
                return
        page.wait_for_timeout(20)
    raise AssertionError(f"never true: {expression}")


def opened(page: Page, words: Sequence[str]) -> Any:
    """Open the page of a trace and go to its beginning; gives the trace as JSON."""
    file, document = _traced(tuple(words))
    page.goto(file.as_uri())
    page.evaluate("reset()")
    return json.loads(document)


@functools.cache
def _traced(words: tuple[str, ...]) -> tuple[Path, str]:
    """Return the file with the page of a trace and its JSON document, made once for all tests of this process."""
    file = Path(_folder(), f"{_traced.cache_info().misses}.html")
    written = run_cli(["trace", *words, "-o", str(file)])
    assert written.status == 0, written.stderr
    return file, run_cli(["trace", *words, "--json"])


@functools.cache
def _folder() -> str:
    """Return the folder of the pages, which goes when the process ends."""
    folder = tempfile.mkdtemp(prefix="autodiff-pages-")
    atexit.register(shutil.rmtree, folder)
    return folder


def press(page: Page, name: str) -> None:
    """Press the button of exactly this name, as a keyboard does: a click of Playwright waits for two frames first."""
    page.get_by_role("button", name=name, exact=True).evaluate("(button) => { button.focus(); button.click(); }")


def leave(page: Page) -> None:
    """Open an empty document. That of a file stays in the process of the page, while `about:blank` starts another."""
    blank = Path(_folder(), "blank.html")
    if not blank.exists():
        blank.write_text("<!doctype html><title>blank</title>", encoding="utf-8")
    page.goto(blank.as_uri())


def measure(page: Page, script: str, argument: Any = None) -> Any:
    """Evaluate a script that reads places or sizes, once they no longer change."""
    settle(page)
    return page.evaluate(script, argument)


def least_text(page: Page, within: str = "body") -> float:
    """Return the size in pixels of the smallest text that is shown in an element."""
    return float(measure(page, _LEAST_TEXT, within))


def resize(page: Page, width: int, height: int) -> None:
    """Give the window another size."""
    page.set_viewport_size({"width": width, "height": height})


def settle(page: Page) -> None:
    """Wait until the page has been painted twice, after which all observers of sizes have been called."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))")


def wait_for_layout(page: Page) -> None:
    """Wait until the page has been laid out once more: what listens to its width or medium has then been called.

    Unlike ``settle``, this works with a clock that stands still.
    """
    page.evaluate("() => new Promise((done) => new ResizeObserver(() => done(null)).observe(document.body))")


def wait_for(page: Page, selector: str, count: int) -> None:
    """Wait until there are so many such elements; Playwright's own way of asking is evaluated text, which the page's
    policy forbids."""
    page.locator(selector).nth(count - 1).wait_for(state="attached")


def numbers(page: Page) -> dict[int, tuple[Any, Any]]:
    """Value and adjoint of every node that is drawn, as far as the page has them."""
    return {int(i): (_read(value), _read(adjoint)) for i, value, adjoint in page.evaluate(_NUMBERS)}


def _read(text: str | None) -> Any:
    """A number as in the JSON document; what is not finite is a word there too."""
    if text is None or text in ("nan", "inf", "-inf"):
        return text
    return json.loads(text.replace("nan", '"nan"').replace("inf", '"inf"').replace('-"inf"', '"-inf"'))


def in_document(document: Any) -> dict[int, tuple[Any, Any]]:
    """The same from the JSON document."""
    return {node["id"]: (node["value"], node["adjoint"]) for node in document["nodes"]}


def says(page: Page) -> str:
    """What the page explains at the moment."""
    return page.get_by_role("status").inner_text()
