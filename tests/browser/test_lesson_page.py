"""A lesson as a page: its questions are judged, and hints come in two stages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.support import press, resize, settle, wait_until
from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

NAMES = [lesson["name"] for lesson in run_cli("lesson --json").json["lessons"]]


def test_a_lesson_has_a_tab_for_each_panel_and_its_formula_has_steps(page: Page, tmp_path: Path) -> None:
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
    for name in ("Reset", "Step"):
        page.get_by_role("button", name=name, exact=True).click()
    assert "x^2 = 0.8^2 = 0.64" in page.get_by_role("status").inner_text()


@pytest.mark.sampled
@pytest.mark.parametrize("name", sorted(NAMES, key=lambda name: name != "diamond"))
def test_questions_are_judged_and_hinted_at_as_in_the_document(page: Page, tmp_path: Path, name: str) -> None:
    assert run_cli(f"lesson {name} -o {tmp_path}/lesson.html").status == 0
    page.goto((tmp_path / "lesson.html").as_uri())
    page.evaluate("localStorage.clear()")
    asked = run_cli(f"lesson {name} --json").json["questions"]
    for question, shown in zip(asked, page.locator("#lesson-questions > li").all(), strict=True):
        said, check = shown.locator(".verdict"), shown.get_by_role("button", name="Check answer")
        assert (shown.locator(":scope > div").text_content() or "").replace("−", "-") == question["question"]
        check.click()
        kind = "Choose an answer" if "choices" in question else "Type a number"
        assert said.inner_text() == f"Not yet. {kind}."
        answer = question["answer"]
        if "choices" in question:
            for place, radio in enumerate(shown.get_by_role("radio").all(), 1):
                radio.check()
                check.click()
                verdict = "Correct." if place in question["right"] else "Not yet. A hint or the steps may help."
                assert (said.inner_text(), said.evaluate("(one) => one.matches('.right')")) == (
                    verdict,
                    place in question["right"],
                )
            answer = " or ".join(question["choices"][place - 1] for place in question["right"])
        else:
            for number in (answer + 1, answer):
                shown.get_by_role("textbox").fill(str(number))
                shown.get_by_role("textbox").press("Enter")
                assert said.inner_text().startswith("Correct." if number == answer else "Not yet. A hint")
            answer = f"{answer:.6g}"
        hint = shown.locator("button:not([type=submit])")
        for k, text in enumerate([*question["hints"], f"The answer is {answer}."]):
            assert hint.inner_text() == ("Hint" if k < len(question["hints"]) else "Show the answer")
            hint.click()
            assert (said.text_content() or "").replace("−", "-") == text
        assert hint.is_disabled()


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
    shown = "[...document.querySelectorAll('.verdict')].map((verdict) => verdict.textContent).join('|')"
    wait_until(page, f"{shown} === 'You answered this correctly before.{'|' * (len(answers) - 1)}'")
    page.get_by_role("link", name="All lessons").click()
    page.wait_for_url("**/index.html")
    progress = f"document.querySelector(`[data-lesson='{names[1]}']`).textContent"
    wait_until(page, f"{progress} === '1 of {len(answers)} questions answered'")
    with page.context.new_page() as window:  # its index shows at once what is answered in another window
        window.goto((folder / "index.html").as_uri())
        for count in range(len(answers) + 1):
            key = f"autodiff lesson {names[1]}"
            page.evaluate("([key, all]) => localStorage.setItem(key, all)", [key, str([*range(count)])])
            some = f"{count} of {len(answers)} questions answered" if count else ""
            wait_until(window, f"{progress} === '{'all questions answered' if count == len(answers) else some}'")


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
