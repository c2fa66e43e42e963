"""Playing the passes: at a pace to read, with numbers that arrive, a beginning and an end in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.support import numbers, opened, press, resize, says, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

XY = ["x*y + sin(x)", "--x", "2", "--y", "3"]


@pytest.fixture
def page(page_of_its_own: Page) -> Page:
    """A page whose clock can be stopped."""
    return page_of_its_own


def stopped(page: Page) -> None:
    """Let time stand still but where the test lets it pass."""
    page.clock.install(time=0)
    page.clock.pause_at(1000)


def test_a_step_is_there_as_long_as_it_takes_to_read(page: Page) -> None:
    opened(page, XY)
    stopped(page)
    press(page, "Forward pass")
    assert numbers(page)[2][0] == 6
    page.clock.run_for(950)
    assert numbers(page)[3][0] is None
    page.clock.run_for(3100)
    assert numbers(page)[3][0] is not None


def test_a_pass_that_has_ended_begins_again(page: Page) -> None:
    document = opened(page, XY)
    stopped(page)
    for name, begin, count in (("Forward pass", 0, 3), ("Backward pass", 3, 6)):
        page.evaluate(f"go({count})")
        press(page, name)
        assert page.evaluate("playback.position") == begin + (begin == 0), document
        page.evaluate("pause()")


def test_speed_makes_steps_shorter(page: Page) -> None:
    opened(page, XY)
    stopped(page)
    page.get_by_label("Speed").fill("2")
    press(page, "Forward pass")
    page.clock.run_for(1100)
    assert numbers(page)[3][0] is not None


def test_the_total_is_in_the_node_when_what_moves_has_arrived(page: Page) -> None:
    opened(page, XY)
    stopped(page)
    shown = page.locator("[data-node='0'] .adjoint")
    for _ in range(5):
        press(page, "Step")
    assert page.locator(".traveller").all_text_contents() == ["−0.416147 × 1 = −0.416147"]
    assert shown.text_content() == ""
    page.clock.run_for(2000)
    assert page.locator(".traveller").count() == 0
    assert shown.text_content() == "−0.4161 …"
    press(page, "Step")
    assert shown.text_content() == "−0.4161 …"
    page.clock.run_for(2000)
    assert shown.text_content() == "2.584"


def test_what_travels_is_there_at_once_when_the_next_step_comes(page: Page) -> None:
    opened(page, XY)
    stopped(page)
    press(page, "Step")
    assert page.locator("[data-node='2'] .value").text_content() == ""
    press(page, "Step")
    assert page.locator("[data-node='2'] .value").text_content() == "6"


def test_the_backward_pass_begins_with_its_reason_and_ends_with_the_gradient(page: Page) -> None:
    document = opened(page, XY)
    stopped(page)
    for _ in document["forward"]:
        press(page, "Step")
    assert page.locator("#remark").inner_text() == ""
    press(page, "Backward pass")
    remark = page.locator("#remark")
    assert "at a rate of exactly 1" in remark.inner_text()
    assert {i for i, (_, adjoint) in numbers(page).items() if adjoint is not None} == {4}
    assert page.locator("#status").inner_text() == "The backward pass begins at the output."
    page.clock.run_for(4100)
    assert says(page).startswith("x*y + sin(x), adjoint 1")
    for _ in document["backward"]:
        page.clock.run_for(4100)
    wait_for(page, "[data-adjoint]", 5)
    assert "d/dx = 2.58385: if x changes by a small h, the output changes by about 2.58385 × h." in remark.inner_text()
    press(page, "Reset")
    assert remark.inner_text() == ""


def test_remarks_stand_at_the_first_and_the_last_backward_step(page: Page) -> None:
    opened(page, XY)
    script = "Array.from({ length: playback.length + 1 }, (_, k) => { go(k); return byId('remark').textContent; })"
    *forward, first, second, last = page.evaluate(script)
    assert [*forward, second] == [""] * 5
    assert "at a rate of exactly 1" in first
    assert last.startswith("Both passes are done.")


def test_the_backward_pass_begins_with_its_reason_also_as_the_first_thing_that_is_played(page: Page) -> None:
    opened(page, XY)
    page.reload()
    stopped(page)
    press(page, "Backward pass")
    assert "at a rate of exactly 1" in page.locator("#remark").inner_text()


@pytest.mark.parametrize("width", [1280, 390])
def test_edges_keep_their_contributions(page: Page, width: int) -> None:
    resize(page, width, 844)
    document = opened(page, ["(x + 1)^2", "--x", "2"])
    page.emulate_media(reduced_motion="reduce")
    press(page, "Backward pass")
    wanted = {
        f"{term['amount']:.4g}".replace("-", "−") for step in document["backward"] for term in step["contributions"]
    }
    shown = [text for text in page.locator(".edge .amount").all_text_contents() if text]
    assert shown
    assert set(shown) <= wanted


def test_a_formula_of_constants_has_no_backward_pass(page: Page) -> None:
    opened(page, ["max(1, 2)"])
    page.reload()
    assert page.get_by_role("button", name="Backward pass").is_disabled()
    remark = page.locator("#remark").inner_text()
    assert "f = 2" in remark
    assert "variable" not in remark
