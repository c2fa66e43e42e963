"""A lesson as a page: its questions are judged, and hints come in two stages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_questions_on_the_page(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "lesson.html"
    assert run_cli(f"lesson diamond -o {file}").status == 0
    page.goto(file.as_uri())
    questions = page.locator("#lesson-questions > li")
    first, third = questions.nth(0), questions.nth(2)
    for choice, verdict in (("a", "Not yet"), ("d", "Correct")):
        first.get_by_role("radio", name=choice, exact=True).check()
        first.get_by_role("button", name="Check answer").click()
        assert first.locator(".verdict").inner_text().startswith(verdict)
    for hint in ("a is used by d + a and c and b", "d + a contributes 1 × 1"):
        third.get_by_role("button", name="Hint").click()
        assert third.locator(".verdict").inner_text().startswith(hint)
    assert third.get_by_role("button", name="Hint").is_disabled()
    third.get_by_role("textbox").fill("2.47")
    third.get_by_role("textbox").press("Enter")
    assert third.locator(".verdict").inner_text() == "Correct."
    page.get_by_role("button", name="Step", exact=True).click()
    assert "x^2 = 0.8^2 = 0.64" in page.get_by_role("status").inner_text()
