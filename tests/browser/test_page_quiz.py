"""The quiz: adjoints are hidden, asked for, and checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.support import in_document, numbers, opened, press, says

if TYPE_CHECKING:
    from playwright.sync_api import Page

XY = ["x*y + sin(x)", "--x", "2", "--y", "3"]


def answer(page: Page, text: str) -> None:
    page.get_by_label("Adjoint of").fill(text)
    press(page, "Check")


def asked(page: Page) -> str:
    """The label of the node whose adjoint is asked for."""
    found = page.evaluate("document.getElementById('answer').labels[0].textContent")
    assert found.startswith("Adjoint of ")
    return str(found.removeprefix("Adjoint of "))


def by_label(document: Any) -> dict[str, float]:
    return {node["label"]: node["adjoint"] for node in document["nodes"]}


def test_the_quiz_hides_all_adjoints_and_shows_all_values(page: Page, tmp_path: Path) -> None:
    wanted = in_document(opened(page, tmp_path, XY))
    page.emulate_media(reduced_motion="reduce")
    press(page, "Backward pass")
    press(page, "Quiz")
    assert numbers(page) == {i: (value, None) for i, (value, _) in wanted.items()}
    assert "2.58385" not in page.locator("body").inner_text()


@pytest.mark.parametrize(
    "words",
    [
        XY,
        ["where(x > 0, x^2, log(y)) + 3*x", "--x", "2", "--y", "3"],
        ["sum(W @ v)", "--W", "[[1, 2], [3, 4]]", "--v", "[1, -1]"],
        ["x", "--x", "2"],
    ],
    ids=lambda words: words[0],
)
def test_right_answers_lead_through_all_nodes_that_take_gradient(page: Page, tmp_path: Path, words: list[str]) -> None:
    document = opened(page, tmp_path, words)
    wanted = in_document(document)
    labels = by_label(document)
    press(page, "Quiz")
    questions = sum(adjoint is not None for _, adjoint in wanted.values())
    for count in range(questions):
        assert sum(adjoint is not None for _, adjoint in numbers(page).values()) == count
        answer(page, str(labels[asked(page)]))
        assert says(page).startswith("Correct")
    assert f"{questions} of {questions} found, {questions} at the first try" in says(page)
    assert numbers(page) == wanted
    assert page.get_by_role("button", name="Check", exact=True).count() == 0


def test_a_wrong_answer_gets_a_hint_and_another_try(page: Page, tmp_path: Path) -> None:
    document = opened(page, tmp_path, XY)
    labels = by_label(document)
    press(page, "Quiz")
    while asked(page) != "x":
        answer(page, str(labels[asked(page)]))
    answer(page, "3")
    assert says(page) == (
        "Not yet: x is handed local derivative × adjoint by each user; add them up: "
        "from sin(x): -0.416147 × 1, where cos(x) = -0.416147; from x*y: 3 × 1, where y = 3."
    )
    assert numbers(page)[0] == (2, None)
    answer(page, "2.58")
    assert says(page).startswith("Correct")
    assert "5 of 5 found, 4 at the first try" in says(page)


# fmt: off
ANSWERS = [
    ("2.5838531634528574", True), ("2.58385", True), ("2.58", True), ("2.6", True), ("+2.584", True),
    (".25839e1", True), ("3", False), ("2.59", False), ("2.5", False), ("-2.58", False), ("2.58386", False),
    ("", False), ("x", False), ("2.58 or so", False), ("nan", False), ("2.58, 2.58", False),
]
# fmt: on


@pytest.mark.parametrize(("text", "is_right"), ANSWERS)
def test_an_answer_is_right_to_the_digits_typed(page: Page, tmp_path: Path, text: str, is_right: bool) -> None:
    opened(page, tmp_path, XY)
    verdict = page.evaluate("text => isRight(text, 2.5838531634528574)", text)
    assert verdict == is_right


# fmt: off
OTHERS = [
    ("0", 0, True), ("0.0", 0, True), ("0.01", 0, False), ("-12", -12, True), ("1e3", 1000, True), ("1", 1, True),
    ("inf", "inf", True), ("-inf", "-inf", True), ("nan", "nan", True), ("inf", "-inf", False), ("1.0", 0.9512, False),
    ("[1, 0.5]", [1, 0.5], True), ("1 0.5", [1, 0.5], True), ("[1]", [1, 0.5], False), ("−0.42", -0.416, True),
    ("3", 3.004, False), ("3.0", 3.004, True),
]
# fmt: on


@pytest.mark.parametrize(("text", "number", "is_right"), OTHERS)
def test_answers_of_other_kinds(page: Page, tmp_path: Path, text: str, number: Any, is_right: bool) -> None:
    opened(page, tmp_path, XY)
    assert page.evaluate("([text, number]) => isRight(text, read(number))", [text, number]) == is_right


def test_enter_checks_and_the_answer_stays_where_one_types(page: Page, tmp_path: Path) -> None:
    opened(page, tmp_path, XY)
    press(page, "Quiz")
    page.keyboard.type("1")
    page.keyboard.press("Enter")
    assert says(page).startswith("Correct")
    page.keyboard.type("0.5")
    page.keyboard.press("Enter")
    assert says(page).startswith("Not yet")


def test_the_quiz_asks_about_the_values_in_the_fields(page: Page, tmp_path: Path) -> None:
    opened(page, tmp_path, ["x^2", "--x", "2"])
    page.get_by_label("x", exact=True).fill("5")
    press(page, "Quiz")
    answer(page, "1")
    answer(page, "10")
    assert says(page).startswith("Correct")


@pytest.mark.parametrize("leave", ["Quiz", "Reset", "Step", "Back", "Forward pass", "Backward pass"])
def test_the_quiz_can_be_left(page: Page, tmp_path: Path, leave: str) -> None:
    wanted = in_document(opened(page, tmp_path, XY))
    page.emulate_media(reduced_motion="reduce")
    press(page, "Quiz")
    answer(page, "1")
    press(page, leave)
    assert page.get_by_label("Adjoint of").count() == 0
    assert page.get_by_role("button", name="Quiz", exact=True).get_attribute("aria-pressed") == "false"
    press(page, "Backward pass")
    assert numbers(page) == wanted


def test_there_is_no_quiz_where_nothing_takes_gradient(page: Page, tmp_path: Path) -> None:
    opened(page, tmp_path, ["2 + 3"])
    assert page.get_by_role("button", name="Quiz", exact=True).is_disabled()
