"""All pages by axe-core, the usual checker of accessibility: it finds nothing, at any width, light or dark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.support import press, resize, settle
from tests.support import ROOT, run_cli
from tests.tools import axe

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.usefixtures("scheme")

WINDOWS = [(390, 844), (1920, 1080)]  # a page opens at 1280 x 800
# Rules that are off by default too, as they are young; what an audit by a person would ask. The names of nodes say
# their numbers with more digits than are drawn, so that they do not contain what is drawn.
COLOURS = ["color-contrast", "link-in-text-block"]  # all rules that depend on the scheme
OF_WIDTH = [*COLOURS, "target-size", "scrollable-region-focusable"]  # on the width of the window
RUN = """async (rules) => {
  const run = (where, options) => axe.run(where, { resultTypes: ["violations"], ...options });
  const name = "label-content-name-mismatch";
  if (rules) return told([await run(document, { runOnly: rules })]);
  const chosen = { "target-size": { enabled: true }, [name]: { enabled: false } };
  const parts = [...document.querySelectorAll("main > *, .app > *")].filter((part) => !part.querySelector("#stage"));
  const named = parts.length ? [await run({ include: parts }, { runOnly: [name] })] : [];
  return told([await run(document, { rules: chosen }), ...named]);
  function told(found) {
    const violations = found.flatMap((each) => each.violations);
    return violations.map(({ id, nodes }) => [id, nodes.map(({ target, any, all, none }) =>
      [target.join(" "), ...[...any, ...all, ...none].map(({ message }) => message)])]);
  }
}"""

PAGES = {
    "trace": "trace x*y+sin(x) --x 2 --y 3",
    "arrays": 'trace "p = softmax(W @ x); -dot(y, log(p))" --W [[1,2],[3,4],[0,1]] --x [1,-1] --y [0,1,0]',
    "folded": f'trace "{"+".join(f"sin({k}*x)^2*y" for k in range(12))}" --x 1 --y 2',
    "lesson": "lesson diamond",
    "exercise": "trace x*y+sin(x) --x 2 --y 3 --exercise",
}


def troubles(page: Page, rules: list[str] | None = None) -> Any:
    """What axe finds: rules, and where. Of all rules, or of some."""
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(axe().read_text(encoding="utf-8"))
    return page.evaluate(RUN, rules)


@pytest.fixture(params=["light", pytest.param("dark", marks=pytest.mark.slow)])
def scheme(request: pytest.FixtureRequest, page: Page) -> None:
    page.emulate_media(color_scheme=request.param, reduced_motion="reduce")


def check(page: Page, act: Callable[[], object], is_small: bool = False) -> None:
    """Look at the page as it opens, and on a phone after something was done, by all rules, in the dark by those of
    colours; unless it `is_small`, in a large window too, by those that depend on the width."""
    is_dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    rules = COLOURS if is_dark else None
    assert troubles(page, rules) == []
    act()
    windows = [(*WINDOWS[0], rules)] if is_small or is_dark else [(*WINDOWS[0], rules), (*WINDOWS[1], OF_WIDTH)]
    for width, height, chosen in windows:
        resize(page, width, height)
        page.evaluate("document.querySelector('.app')?.scrollIntoView()")  # docked buttons cover what is half in view
        settle(page)  # what scrolls in this window can be reached by the tab key then
        assert troubles(page, chosen) == []


@pytest.mark.sampled
@pytest.mark.parametrize("words", PAGES.values(), ids=PAGES)
def test_pages_of_formulas(page: Page, tmp_path: Path, words: str) -> None:
    file = tmp_path / "page.html"
    assert run_cli(f"{words} -o {file}").status == 0
    page.goto(file.as_uri())
    check(page, lambda: _walk(page) if "exercise" not in words else page.locator("input").first.fill("6"))


def _walk(page: Page) -> None:
    """Do something with every panel."""
    press(page, "Backward pass")
    page.locator("[data-node]").first.click()
    page.get_by_role("checkbox").first.check()
    press(page, "Descend")
    page.locator("summary").click()


@pytest.mark.slow
@pytest.mark.parametrize("level", ["value", "local derivative", "adjoint", "next", "bug"])
def test_every_level_of_the_quiz(page: Page, tmp_path: Path, level: str) -> None:
    file = tmp_path / "page.html"
    run_cli(f"{PAGES['trace']} -o {file}")
    page.goto(file.as_uri())
    press(page, "Quiz")
    page.get_by_label("Level").select_option(level)
    check(page, lambda: press(page, "Check"), is_small=True)


@pytest.mark.parametrize(
    "words", ['train "y ~ a*exp(-b*x)" {decay}', 'train "kind ~ softmax(mlp([u, v], [4], tanh))" {kinds}']
)
def test_pages_of_fits(page: Page, tmp_path: Path, words: str) -> None:
    kinds, file = tmp_path / "kinds.csv", tmp_path / "page.html"
    rows = [(u / 4, v / 4) for u in range(-4, 5) for v in range(-4, 5)]
    lines = (f"{u},{v},{'in' if u * u + v * v < 0.6 else 'out'}" for u, v in rows)
    kinds.write_text("\n".join(["u,v,kind", *lines]), encoding="utf-8")
    options = f"--optimizer adam --epochs 20 --page {file}"
    assert run_cli(f"{words.format(decay=ROOT / 'docs' / 'data' / 'decay.csv', kinds=kinds)} {options}").status == 0
    page.goto(file.as_uri())

    def scrub() -> None:
        page.get_by_label("Epoch", exact=True).fill("12")
        page.get_by_label("Row").fill("3")
        press(page, "Backward pass")

    check(page, scrub)
