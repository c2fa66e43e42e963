"""A lesson as a page: its questions are judged, and hints come in two stages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.browser.support import press, resize, settle
from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_questions_on_the_page(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "lesson.html"
    assert run_cli(f"lesson diamond -o {file}").status == 0
    for width, height in ((390, 844), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto(file.as_uri())
        for tab in page.get_by_role("tab").all():
            tab.evaluate("(tab) => tab.click()")
            settle(page)
            assert tab.get_attribute("aria-selected") == "true"
            box = tab.bounding_box()
            assert box is not None
            assert -1 <= box["x"] <= box["x"] + box["width"] <= width + 1
    questions = page.locator("#lesson-questions > li")
    first, third = questions.nth(0), questions.nth(2)
    first.get_by_role("button", name="Check answer").click()
    assert first.locator(".verdict").inner_text() == "Not yet. Choose an answer."
    for choice, verdict in (("a", "Not yet"), ("d", "Correct")):
        first.get_by_role("radio", name=choice, exact=True).check()
        first.get_by_role("button", name="Check answer").click()
        assert first.locator(".verdict").inner_text().startswith(verdict)
    for hint in ("a is used by d + a and c and b", "d + a contributes 1 × 1"):
        third.get_by_role("button", name="Hint").click()
        assert third.locator(".verdict").inner_text().startswith(hint)
    for name in ("Hint", "Hint", "Show the answer"):
        first.get_by_role("button", name=name).click()
    assert first.locator(".verdict").inner_text() == "The answer is d."
    third.get_by_role("button", name="Show the answer").click()
    assert third.locator(".verdict").inner_text() == "The answer is 2.4689."
    assert third.get_by_role("button", name="Show the answer").is_disabled()
    third.get_by_role("textbox").fill("two")
    third.get_by_role("textbox").press("Enter")
    assert third.locator(".verdict").inner_text() == "Not yet. Type a number."
    third.get_by_role("textbox").fill("2.47")
    third.get_by_role("textbox").press("Enter")
    assert third.locator(".verdict").inner_text() == "Correct."
    for name in ("Reset", "Step"):
        page.get_by_role("button", name=name, exact=True).click()
    assert "x^2 = 0.8^2 = 0.64" in page.get_by_role("status").inner_text()


def test_a_course_leads_from_lesson_to_lesson_and_keeps_the_progress(page: Page, tmp_path: Path) -> None:
    folder = tmp_path / "course"
    pages = run_cli(["lesson", "--course", "-o", str(folder), "--json"]).json["pages"]
    assert {file.name for file in folder.iterdir()} == {*pages}
    names = [lesson["name"] for lesson in run_cli("lesson --json").json["lessons"]]
    assert pages == [*(f"{name}.html" for name in names), "index.html", "answers.html"]
    page.goto((folder / "index.html").as_uri())
    assert page.get_by_role("listitem").count() == len(names)
    page.get_by_role("link").first.click()
    page.get_by_role("link", name="Next").click()
    page.wait_for_url(f"**/{names[1]}.html")
    answers = run_cli(f"lesson {names[1]} --json").json["questions"]
    first = page.locator("#lesson-questions > li").first
    first.get_by_role("textbox").fill(str(answers[0]["answer"]))
    first.get_by_role("textbox").press("Enter")
    assert first.locator(".verdict").inner_text() == "Correct."
    assert [verdict.inner_text() for verdict in page.locator(".verdict").all() if verdict.inner_text()] == ["Correct."]
    page.reload()
    verdicts = [verdict.inner_text() for verdict in page.locator(".verdict").all()]
    assert verdicts == ["You answered this correctly before.", *[""] * (len(answers) - 1)]
    page.get_by_role("link", name="All lessons").click()
    page.wait_for_url("**/index.html")
    shown = page.locator(f"[data-lesson='{names[1]}']").inner_text()
    assert shown == f"1 of {len(answers)} questions answered"
    page.evaluate(
        "([key, all]) => localStorage.setItem(key, all)", [f"autodiff lesson {names[1]}", str([*range(len(answers))])]
    )
    page.reload()
    assert page.locator(f"[data-lesson='{names[1]}']").inner_text() == "all questions answered"


def test_on_a_phone_a_lesson_opens_with_its_text_and_a_panel_stays_until_a_step_is_made(
    page: Page, tmp_path: Path
) -> None:
    file = tmp_path / "lesson.html"
    assert run_cli(f"lesson chain -o {file}").status == 0
    resize(page, 390, 844)
    page.emulate_media(reduced_motion="reduce")
    page.goto(file.as_uri())
    selected = page.locator("[role=tab][aria-selected=true]")
    settle(page)
    assert selected.inner_text() == "Lesson"
    page.get_by_role("tab", name="Values").click()
    slide = "document.querySelector(\"[aria-label='slide x']\").dispatchEvent(new Event('input'))"
    for change in ("setValues({ x: 0.25 })", "graph.zoomIn()", slide):
        page.evaluate(change)
        settle(page)
        assert selected.inner_text() == "Values", change
    resize(page, 400, 800)
    settle(page)
    assert selected.inner_text() == "Values"
    press(page, "Step")
    settle(page)
    assert selected.inner_text() == "Step"


def test_a_course_needs_a_folder() -> None:
    refused = run_cli("lesson --course")
    assert refused.status == 2
    assert "autodiff lesson --course -o FOLDER" in refused.stderr
