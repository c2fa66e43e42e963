"""What a notebook shows of a record: the page in its frame, at work, without errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import autodiff_cli as ad

if TYPE_CHECKING:
    from playwright.sync_api import FrameLocator, Page


def embedded(page: Page, text: str, **point: float) -> FrameLocator:
    """A document, as that of a notebook, around what a record gives it."""
    page.set_content(f"<!doctype html><title>notebook</title><p>before</p>{ad.parse(text).trace(point)._repr_html_()}")
    return page.frame_locator("iframe")


def test_the_graph_is_drawn_and_can_be_stepped_through(page: Page) -> None:
    frame = embedded(page, "x*y + sin(x)", x=2, y=3)
    nodes = frame.locator("svg [data-node]")
    assert nodes.count() == 5
    frame.get_by_role("button", name="Step", exact=True).click()
    frame.locator('svg [data-node="2"][data-value="6"]').wait_for(state="attached")


def test_values_can_be_changed_and_the_quiz_answered(page: Page) -> None:
    frame = embedded(page, "x*y + sin(x)", x=2, y=3)
    frame.get_by_label("y", exact=True).fill("5")
    for _ in range(3):
        frame.get_by_role("button", name="Step", exact=True).click()
    frame.locator('svg [data-node="2"][data-value="10"]').wait_for(state="attached")
    frame.get_by_role("button", name="Quiz").click()
    frame.get_by_label("Adjoint of").fill("1")
    frame.get_by_label("Adjoint of").press("Enter")
    frame.get_by_role("status").filter(has_text="Correct").wait_for()


def test_the_page_fits_its_frame(page: Page) -> None:
    frame = embedded(page, "a = x*y; b = a + sin(x); b^2", x=2, y=3)
    frame.get_by_role("button", name="Step", exact=True).wait_for()
    overflow = frame.locator("html").evaluate("root => root.scrollWidth - root.clientWidth")
    assert overflow <= 0


def test_the_frame_reaches_nothing_of_the_notebook(page: Page) -> None:
    frame = embedded(page, "x # </script><script>parent.document.title = 'x'</script>", x=2)
    frame.get_by_role("button", name="Step", exact=True).wait_for()
    assert frame.locator("html").evaluate("() => origin") == "null"
    assert page.title() == "notebook"
